"""Numbers and tables as text: as many digits as a number deserves, tables for Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import polars as pl

from aliquot.core import escape


def format_number(value: float | None, digits: int = 3) -> str:
    """Format a number with `digits` significant digits; '-' if undefined.

    >>> [format_number(value) for value in (0.123456, 1234.5, float("nan"), -0.0, 99.96)]
    ['0.123', '1234', '-', '0', '100.0']
    """
    if value is None or math.isnan(value):
        return "-"
    if value == 0 or math.isinf(value):
        return "0" if value == 0 else f"{value:.0f}"
    integer_digits = math.floor(math.log10(abs(value))) + 1
    places = max(0, digits - max(integer_digits, 0))
    return f"{value:.{places}f}" if abs(value) >= 1e-4 else f"{value:.1e}"


def format_fixed(value: float | None, places: int = 3) -> str:
    """Format a number with fixed places; '-' if undefined."""
    return "-" if value is None or math.isnan(value) else f"{value:.{places}f}"


def format_scientific(value: float | None) -> str:
    """Format a very large or small number; '-' if undefined.

    >>> format_scientific(-1.5e150), format_scientific(float("nan"))
    ('-1.500e+150', '-')
    """
    return "-" if value is None or math.isnan(value) else f"{value:.3e}"


def format_percent(share: float) -> str:
    """Format a share as a percentage; only exact 0 and 1 become 0% and 100%.

    >>> format_percent(1.0), format_percent(0.9996), format_percent(0.5), format_percent(0.0002)
    ('100%', '99.9%', '50%', '<0.1%')
    """
    if share in (0.0, 1.0) or 0.01 <= share <= 0.99:
        return f"{100 * share:.0f}%"
    return "<0.1%" if share < 0.001 else f"{min(100 * share, 99.9):.1f}%"


# -- Tables for papers: Markdown and LaTeX of any result -------------------------------------------------------------


def render_markdown(frame: pl.DataFrame) -> str:
    r"""Return a Markdown table of a Polars table, numbers with four significant digits.

    >>> print(render_markdown(pl.DataFrame({"a|b": ["x"], "n": [0.123456]})), end="")
    | a\|b | n |
    |---|---|
    | x | 0.1235 |
    """
    return markdown_table(frame.columns, _format_cells(frame))


def render_latex(frame: pl.DataFrame) -> str:
    r"""Return a LaTeX tabular of a Polars table: words to the left, numbers to the right.

    >>> print("\n".join(render_latex(pl.DataFrame({"a_b": ["x"], "n": [0.5], "why": ["y"]})).splitlines()[:3]))
    \begin{tabular}{lrl}
    \toprule
    a\_b & n & why \\
    """
    return latex_table(frame.columns, _format_cells(frame), [dtype.is_numeric() for dtype in frame.dtypes])


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table of texts, which are escaped."""
    lines = ("| " + " | ".join(map(escape.markdown_cell, row)) + " |\n" for row in (headers, *rows))
    return next(lines) + "|" + "---|" * len(headers) + "\n" + "".join(lines)


def latex_table(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    """Return a LaTeX tabular with the rules of booktabs; `right` says which columns are aligned to the right."""
    head, *lines = (" & ".join(map(escape.latex, row)) + r" \\" for row in (headers, *rows))
    body = "\n".join([r"\toprule", head, r"\midrule", *lines, r"\bottomrule"])
    return f"\\begin{{tabular}}{{{''.join('lr'[side] for side in right)}}}\n{body}\n\\end{{tabular}}\n"


def _format_cells(frame: pl.DataFrame) -> list[list[str]]:
    return [
        [format_number(value, 4) if value is None or isinstance(value, float) else str(value) for value in row]
        for row in frame.rows()
    ]
