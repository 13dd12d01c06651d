"""How results look in a terminal: plain tables of at most 100 columns, numbers with as many digits as they deserve."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from time import monotonic
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from aliquot.cli import ALL_ROWS
from aliquot.core import escape, written
from aliquot.io.overwrite import stdout_is_output

WIDTH = 100
fixed, number, percent, scientific = written.fixed, written.number, written.percent, written.scientific
latex, markdown = written.latex, written.markdown


class PlainConsole(Console):
    """A console for which texts are data: brackets are no markup, and nothing that a name holds steers the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Give the pieces to print; controls within texts are shown, not sent."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(escape.terminal(piece.text, lines=True), piece.style)

    def on_broken_pipe(self) -> None:
        """Tell it like any other writer would: rich ends the program."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        raise BrokenPipeError


def console() -> Console:
    """A console, 100 columns wide unless the terminal is narrower: on standard output, unless a file goes there."""
    terminal = os.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    return PlainConsole(
        width=min(WIDTH, terminal),
        highlight=False,
        soft_wrap=False,
        emoji=False,
        markup=False,
        stderr=stdout_is_output(),
    )


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on standard error that something is under way; silent when it is not a terminal."""
    stderr = PlainConsole(stderr=True)
    if not stderr.is_terminal:
        yield
        return
    with stderr.status(Text(escape.terminal(what))):
        yield


class PlainTable(Table):
    """A table whose cells are shown letter by letter: a system may well be called '[/b]'."""

    whole = False  # whether all rows are shown, however many
    priority: Sequence[float] | None = None  # of each row: the highest are shown where there are too many

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the table, or of a long one the rows that matter and how to see all."""
        kept = _rows_that_matter(self.row_count, self.priority)
        if kept is None or self.whole or ALL_ROWS:
            yield from super().__rich_console__(console, options)
        else:
            yield from self._only(kept).__rich_console__(console, options)
            which = f"the {len(kept)} that matter most" if self.priority is not None else f"{len(kept)}"
            yield Text(f"{which} of {self.row_count} rows; --all-rows shows all", style="dim")

    def _only(self, kept: Sequence[int]) -> Table:
        """The table with these rows, and a row of dots where some are left out in between."""
        part = copy(self)
        part.whole, part.rows, part.columns = True, [], [column.copy() for column in self.columns]
        before = -1
        for at in [*kept, self.row_count]:
            if at != before + 1:
                if part.rows:
                    part.rows[-1].end_section = False
                part.add_row("⋮", *([""] * (len(self.columns) - 1)))
            if at < self.row_count:
                part.rows.append(copy(self.rows[at]))
                for new, old in zip(part.columns, self.columns, strict=True):
                    new._cells.append(old._cells[at])  # noqa: SLF001  (rich has no way to take rows)
            before = at
        return part

    def add_row(self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False) -> None:
        """Add a row; texts are not markup."""
        plain = (Text(escape.terminal(cell)) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*plain, style=style, end_section=end_section)

    def add_column(self, header: RenderableType = "", *arguments: Any, **options: Any) -> None:
        """Add a column; its name is not markup."""
        plain = Text(escape.terminal(header)) if isinstance(header, str) else header
        super().add_column(plain, *arguments, **options)


MOST_ROWS = 40
_FIRST, _LAST = 20, 10
"""Rows of a longer table that are shown, of its begin and of its end."""


def _rows_that_matter(count: int, priority: Sequence[float] | None) -> list[int] | None:
    """Which rows of a table are shown, in order; None for all of them.

    >>> _rows_that_matter(40, None) is None, len(_rows_that_matter(41, None)), _rows_that_matter(50, range(50))[0]
    (True, 30, 20)
    """
    if count <= MOST_ROWS:
        return None
    if priority is None:
        return [*range(_FIRST), *range(count - _LAST, count)]
    known = [-math.inf if math.isnan(value) else value for value in priority]
    return sorted(sorted(range(count), key=lambda at: -known[at])[: _FIRST + _LAST])


def verdict(text: str | None, console: Console) -> None:
    """Print what a result says, before its tables."""
    if text is not None:
        console.print(text, style="bold", markup=False)
        console.print()


def signature(text: str, console: Console) -> None:
    """Print the line that reproduces a result; it is never broken, so that it can be copied."""
    console.print()
    console.print(text, style="dim", markup=False, soft_wrap=True)


def table(title: str | None = None, *, caption: str | None = None) -> PlainTable:
    """An unboxed table with a rule under the header; names in it may hold anything."""
    return PlainTable(
        title=title and Text(escape.terminal(title, lines=True)),
        caption=caption and Text(escape.terminal(caption, lines=True)),
        box=None,
        title_justify="left",
        caption_justify="left",
        header_style="bold",
        pad_edge=False,
        padding=(0, 2, 0, 0),
        title_style="bold",
    )


def columns(of: Table, left: Sequence[str] = (), right: Sequence[str] = ()) -> Table:
    """Add left-aligned, then right-aligned columns."""
    for name in left:
        of.add_column(name, overflow="fold")
    for name in right:
        of.add_column(name, justify="right", no_wrap=True)
    return of


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


# -- Progress bars: on standard error, for people only, and gone when the work is done -------------------------------


Counted = Callable[[int, int], None]
Shared = Callable[[str, float, int], None]


@contextmanager
def counting(what: str) -> Iterator[Counted | None]:
    """A bar to be told how many of how many are done; it shows once there is something to wait for."""
    bar = _bar(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
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
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
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
    stderr = PlainConsole(stderr=True)
    return Progress(*columns, console=stderr, transient=True) if stderr.is_terminal else None
