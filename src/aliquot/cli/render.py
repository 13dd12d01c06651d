"""How results look in a terminal: plain tables of at most 100 columns, numbers with as many digits as they deserve."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

import polars as pl
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

WIDTH = 100


def console() -> Console:
    """A console on standard output, 100 columns wide unless the terminal is narrower."""
    terminal = os.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    return Console(width=min(WIDTH, terminal), highlight=False, soft_wrap=False, emoji=False)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on standard error that something is under way; silent when it is not a terminal."""
    stderr = Console(stderr=True)
    if not stderr.is_terminal:
        yield
        return
    with stderr.status(what):
        yield


class PlainTable(Table):
    """A table whose cells are shown letter by letter: a system may well be called '[/b]'."""

    def add_row(self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False) -> None:
        """Add a row; texts are not markup."""
        plain = (Text(cell) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*plain, style=style, end_section=end_section)


def signature(text: str, console: Console) -> None:
    """Print the line that reproduces a result; it is never broken, so that it can be copied."""
    console.print()
    console.print(text, style="dim", markup=False, soft_wrap=True)


def table(title: str | None = None, *, caption: str | None = None) -> Table:
    """An unboxed table with a rule under the header; names in it may hold anything."""
    return PlainTable(title=title and Text(title), caption=caption and Text(caption), box=None, title_justify="left",
                      caption_justify="left", header_style="bold", pad_edge=False, padding=(0, 2, 0, 0),
                      title_style="bold")  # fmt: skip


def columns(of: Table, left: Sequence[str] = (), right: Sequence[str] = ()) -> Table:
    """Add left-aligned, then right-aligned columns."""
    for name in left:
        of.add_column(name, overflow="fold")
    for name in right:
        of.add_column(name, justify="right", no_wrap=True)
    return of


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with `digits` significant digits, '-' where undefined.

    >>> number(0.123456), number(1234.5), number(float("nan")), number(-0.0), number(99.96)
    ('0.123', '1234', '-', '0', '100.0')
    """
    if value is None or math.isnan(value):
        return "-"
    if value == 0:
        return "0"
    whole = math.floor(math.log10(abs(value))) + 1
    places = max(0, digits - max(whole, 0))
    return f"{value:.{places}f}" if abs(value) >= 1e-4 else f"{value:.1e}"


def fixed(value: float | None, places: int = 3) -> str:
    """Write a number with fixed places, '-' where undefined."""
    return "-" if value is None or math.isnan(value) else f"{value:.{places}f}"


def percent(share: float) -> str:
    """Write a share as a percentage that never rounds to 0 or 100 unless it is.

    >>> percent(1.0), percent(0.9996), percent(0.5), percent(0.0002)
    ('100%', '99.9%', '50%', '<0.1%')
    """
    if share in (0.0, 1.0) or 0.01 <= share <= 0.99:
        return f"{100 * share:.0f}%"
    return "<0.1%" if share < 0.001 else f"{min(100 * share, 99.9):.1f}%"


def bar(low: float, middle: float, high: float, scale: tuple[float, float], width: int = 24) -> Text:
    """Draw an interval as text: dashes from low to high and a dot at the estimate."""
    start, end = scale
    span = (end - start) or 1.0
    cells = [" "] * width

    def place(value: float) -> int:
        return min(width - 1, max(0, round((value - start) / span * (width - 1))))

    if any(math.isnan(value) for value in (low, middle, high)):
        return Text(" " * width)
    for at in range(place(low), place(high) + 1):
        cells[at] = "─"
    cells[place(middle)] = "●"
    return Text("".join(cells))


# -- Tables for papers: Markdown and LaTeX of any result -------------------------------------------------------------


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
    return number(value, 4) if value is None or isinstance(value, float) else str(value)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


# -- Progress bars: on standard error, for people only, and gone when the work is done -------------------------------


Counted = Callable[[int, int], None]
Shared = Callable[[str, float, int], None]


@contextmanager
def counting(what: str) -> Iterator[Counted | None]:
    """A bar to be told how many of how many are done; it shows once there is something to wait for."""
    bar = _bar(TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    if bar is None:
        yield None
        return
    task = bar.add_task(what, total=None)

    def told(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield told
    finally:
        bar.stop()


@contextmanager
def rated(first: str) -> Iterator[Shared | None]:
    """A bar with a rate, to be told what is done, what share of it, and how many sources so far."""
    bar = _bar(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    if bar is None:
        yield None
        return
    begun = monotonic()
    with bar:
        task = bar.add_task(first, total=1.0, rate="")

        def told(what: str, share: float, items: int) -> None:
            rate = f"{items:,} sources, {items / max(monotonic() - begun, 1e-3):,.0f}/s" if what == first else ""
            bar.update(task, description=what, completed=share, rate=rate)

        yield told


def _bar(*columns: ProgressColumn) -> Progress | None:
    stderr = Console(stderr=True)
    return Progress(*columns, console=stderr, transient=True) if stderr.is_terminal else None
