"""Numbers and tables as text: as many digits as a number deserves, tables for Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import polars as pl

from aliquot.core import escape


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with `digits` significant digits, '-' where undefined.

    >>> number(0.123456), number(1234.5), number(float("nan")), number(-0.0), number(99.96)
    ('0.123', '1234', '-', '0', '100.0')
    """
    if value is None or math.isnan(value):
        return "-"
    if value == 0 or math.isinf(value):
        return "0" if value == 0 else f"{value:.0f}"
    whole = math.floor(math.log10(abs(value))) + 1
    places = max(0, digits - max(whole, 0))
    return f"{value:.{places}f}" if abs(value) >= 1e-4 else f"{value:.1e}"


def fixed(value: float | None, places: int = 3) -> str:
    """Write a number with fixed places, '-' where undefined."""
    return "-" if value is None or math.isnan(value) else f"{value:.{places}f}"


def scientific(value: float | None) -> str:
    """Write a number that is very large or small, '-' where undefined.

    >>> scientific(-1.5e150), scientific(float("nan"))
    ('-1.500e+150', '-')
    """
    return "-" if value is None or math.isnan(value) else f"{value:.3e}"


def percent(share: float) -> str:
    """Write a share as a percentage that never rounds to 0 or 100 unless it is.

    >>> percent(1.0), percent(0.9996), percent(0.5), percent(0.0002)
    ('100%', '99.9%', '50%', '<0.1%')
    """
    if share in (0.0, 1.0) or 0.01 <= share <= 0.99:
        return f"{100 * share:.0f}%"
    return "<0.1%" if share < 0.001 else f"{min(100 * share, 99.9):.1f}%"


# -- Tables for papers: Markdown and LaTeX of any result -------------------------------------------------------------


def markdown(frame: pl.DataFrame) -> str:
    r"""A table with a header, numbers with four significant digits.

    >>> print(markdown(pl.DataFrame({"a|b": ["x"], "n": [0.123456]})), end="")
    | a\|b | n |
    |---|---|
    | x | 0.1235 |
    """
    return "".join(
        f"{line}\n"
        for line in [
            _row(map(escape.markdown_cell, frame.columns)),
            "|" + "---|" * frame.width,
            *(_row(row) for row in _cells(frame, escape.markdown_cell)),
        ]
    )


def latex(frame: pl.DataFrame) -> str:
    r"""A tabular with booktabs' rules: words to the left, numbers to the right.

    >>> print("\n".join(latex(pl.DataFrame({"a_b": ["x"], "n": [0.5], "why": ["y"]})).splitlines()[:3]))
    \begin{tabular}{lrl}
    \toprule
    a\_b & n & why \\
    """
    head = " & ".join(map(escape.latex, frame.columns))
    rows = [" & ".join(row) + r" \\" for row in _cells(frame, escape.latex)]
    body = "\n".join([r"\toprule", head + r" \\", r"\midrule", *rows, r"\bottomrule"])
    sides = "".join("r" if kind.is_numeric() else "l" for kind in frame.dtypes)
    return f"\\begin{{tabular}}{{{sides}}}\n{body}\n\\end{{tabular}}\n"


def _cells(frame: pl.DataFrame, escaped: Callable[[str], str]) -> list[list[str]]:
    return [[_cell(value, escaped) for value in row] for row in frame.rows()]


def _cell(value: object, escaped: Callable[[str], str]) -> str:
    return number(value, 4) if value is None or isinstance(value, float) else escaped(str(value))


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
