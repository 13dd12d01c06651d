"""Tables for papers: Markdown and LaTeX of any result."""

from __future__ import annotations

import polars as pl

from aliquot.cli import render

_TEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
}  # fmt: skip


def markdown(frame: pl.DataFrame) -> str:
    r"""A table with a header, numbers with four significant digits.

    >>> print(markdown(pl.DataFrame({"a|b": ["x"], "n": [0.123456]})), end="")
    | a\|b | n |
    |---|---|
    | x | 0.1235 |
    """
    return "".join(f"{line}\n" for line in [_row(frame.columns), "|" + "---|" * frame.width, *map(_row, _cells(frame))])


def latex(frame: pl.DataFrame) -> str:
    r"""A tabular with booktabs' rules: words to the left, numbers to the right.

    >>> print("\n".join(latex(pl.DataFrame({"a_b": ["x"], "n": [0.5], "why": ["y"]})).splitlines()[:3]))
    \begin{tabular}{lrl}
    \toprule
    a\_b & n & why \\
    """
    head = " & ".join(_tex(name) for name in frame.columns)
    rows = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in _cells(frame)]
    body = "\n".join([r"\toprule", head + r" \\", r"\midrule", *rows, r"\bottomrule"])
    sides = "".join("r" if kind.is_numeric() else "l" for kind in frame.dtypes)
    return f"\\begin{{tabular}}{{{sides}}}\n{body}\n\\end{{tabular}}\n"


def _cells(frame: pl.DataFrame) -> list[list[str]]:
    return [[_cell(value) for value in row] for row in frame.rows()]


def _cell(value: object) -> str:
    return render.number(value, 4) if value is None or isinstance(value, float) else str(value)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)
