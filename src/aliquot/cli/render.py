"""How results look in a terminal: the verdict, tables that fit the width, notes, and the signature.

One rule decides what fits (`fit_columns`): names never vanish and are cut in the middle; secondary columns go first,
with a line that says which; what is left and still too wide goes on in a second block under the same names.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType
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
from rich.text import Text

from aliquot.cli import ALL_ROWS
from aliquot.cli.commands import spell_options
from aliquot.core import escape, written
from aliquot.core.shown import Shown
from aliquot.core.view import Column, View
from aliquot.io.overwrite import is_stdout_claimed

WIDTH = 100
fixed, number = written.format_fixed, written.format_number
percent, scientific = written.format_percent, written.format_scientific
latex, markdown = written.render_latex, written.render_markdown


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


def make_console() -> Console:
    """Make a console on standard output, or on standard error where a file goes to standard output."""
    return PlainConsole(
        width=output_width(), highlight=False, soft_wrap=False, emoji=False, markup=False, stderr=is_stdout_claimed()
    )


def output_width() -> int:
    """Return how many characters a line may have: COLUMNS, the terminal's width, or 100 in a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return max(int(columns), MIN_WIDTH)
    return max(os.get_terminal_size().columns, MIN_WIDTH) if sys.stdout.isatty() else WIDTH


# -- Views -----------------------------------------------------------------------------------------------------------


def print_result(
    result: Shown,
    console: Console,
    details: Collection[str] = (),
    *,
    views: Sequence[View] | None = None,
) -> None:
    """Print what a result shows: verdict, views, notes, signature.

    Views that are details are printed where `details` has their name. `views` are printed in place of the result's own,
    where a verb's option changes them.
    """
    print_verdict(result.verdict, console)
    for view in result.views() if views is None else views:
        if not view.detail or view.name in details:
            print_view(view, console)
    print_notes(result, console)
    print_signature(getattr(result, "signature", ""), console)


def print_notes(result: object, console: Console) -> None:
    """Print a result's notes, one a paragraph."""
    notes = getattr(result, "notes", ())
    for note in notes:
        _print_paragraph(f"note: {note}", console)
    if notes:
        console.print()


def _print_paragraph(text: str, console: Console, style: str = "") -> None:
    width = min(console.width, WIDTH)
    console.print(spell_options(text), markup=False, style=style, width=width)


def print_view(view: View, console: Console) -> None:
    """Print a view's paragraphs and its table, fitted to the console, and an empty line."""
    for paragraph in view.intro:
        _print_paragraph(paragraph, console)
    if view.intro and view.columns and view.rows:
        console.print()
    if view.columns and view.rows:
        if view.title:
            _print_paragraph(view.title, console, "bold")
        blocks, remarks = format_view(view, console.width, whole=bool(ALL_ROWS))
        for number_of_block, lines in enumerate(blocks):
            if number_of_block:
                console.print()
            for row, line in enumerate(lines):
                console.print(Text(line, style="" if row else "bold", no_wrap=True), soft_wrap=True)
        for remark in remarks:
            _print_paragraph(remark, console, "dim")
        if view.caption:
            _print_paragraph(view.caption, console, "dim")
    console.print()


MIN_WIDTH = 40  # narrower terminals wrap lines
MIN_NAME, MIN_TEXT, USUAL_NAME = 9, 20, 24
"""Characters of a name and of a text column at least, and of a name before a secondary column is left out."""
_BAR = 14  # characters of a drawn interval


def format_view(view: View, width: int, *, whole: bool = False) -> tuple[list[list[str]], list[str]]:
    """Format a view's table as lines of at most `width` characters.

    Args:
        view: The view.
        width: Characters in a line.
        whole: Whether every row of a long table is shown.

    Returns:
        Blocks of lines, each with the header first; and remarks about rows and columns that are left out.
    """
    row_count = len(view.rows)
    important = None if whole else _rows_that_matter(row_count, _row_weights(view))
    rows = list(range(row_count)) if important is None else important
    cells = _cells_to_print(view, rows)
    columns, gap, hidden = fit_columns(view.columns, cells, width)
    blocks = []
    for block in _split_blocks(view.columns, cells, columns, width, gap):
        widths = _spread_widths(view.columns, cells, block, width, gap)
        blocks.append(_format_block(view, rows, cells, widths, gap))
    remarks = []
    if important is not None:
        which = f"the {len(rows)} that matter most" if view.importance is not None else f"{len(rows)}"
        remarks.append(f"{which} of {row_count} rows; --all-rows shows all")
    headers = ", ".join(dict.fromkeys(view.columns[column].header for column in hidden if view.columns[column].header))
    if headers:
        remarks.append(f"left out at {width} characters: {headers} (a wider terminal, COLUMNS=160 or --json shows all)")
    return blocks, remarks


def _row_weights(view: View) -> list[float] | None:
    return None if view.importance is None else [float(value) for value in view.list_values(view.importance)]


def _cells_to_print(view: View, rows: Sequence[int]) -> list[list[str]]:
    """Return a list of cells for each column, the header first."""
    table = []
    for column in view.columns:
        values = [column.get_value(view.rows[row]) for row in rows]
        if column.kind == "bar":
            texts = _draw_bars([column.get_value(row) for row in view.rows], rows)
        else:
            texts = [column.format_cell(value) for value in values]
            texts = [escape.terminal(spell_options(text) if column.kind == "text" else text) for text in texts]
        table.append([escape.terminal(column.header), *texts])
    return table


def _draw_bars(intervals: Sequence[Sequence[Any]], rows: Sequence[int]) -> list[str]:
    ends = [tuple(math.nan if end is None else end for end in interval) for interval in intervals]
    finite = [end for interval in ends for end in interval if math.isfinite(end)]
    scale = (min(finite), max(finite)) if finite else (0.0, 1.0)
    return [draw_bar(ends[row][0], ends[row][1], ends[row][2], scale, _BAR).plain for row in rows]


def fit_columns(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int
) -> tuple[list[int], int, list[int]]:
    """Choose the columns that fit: those of the highest rank go first.

    Returns:
        The columns that are shown, the gap between them, and the columns that are left out.
    """
    natural = [max(map(cell_len, texts)) for texts in cells]
    least = [_least_width(column.kind, size, USUAL_NAME) for column, size in zip(columns, natural, strict=True)]
    shown = list(range(len(columns)))
    if _total_width(natural, shown, 2) <= width:
        return shown, 2, []
    while _total_width(least, shown, 1) > width:
        ranks = {column: columns[column].rank for column in shown if columns[column].rank > 0}
        if not ranks:
            break
        shown.remove(max(ranks, key=lambda column: (ranks[column], column)))
    gap = 2 if _total_width(least, shown, 2) <= width else 1
    return shown, gap, [column for column in range(len(columns)) if column not in shown]


def _least_width(kind: str, natural: int, name: int) -> int:
    return min(natural, {"name": name, "text": MIN_TEXT}.get(kind, natural))


def _total_width(widths: Sequence[int], columns: Sequence[int], gap: int) -> int:
    return sum(widths[column] for column in columns) + gap * (len(columns) - 1)


def _split_blocks(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], shown: Sequence[int], width: int, gap: int
) -> list[list[int]]:
    """Part columns into blocks that fit; every block begins with the names."""
    least = [
        _least_width(column.kind, max(map(cell_len, texts)), MIN_NAME)
        for column, texts in zip(columns, cells, strict=True)
    ]
    names = [column for column in shown if columns[column].kind == "name"]
    blocks = [list(names)]
    for column in shown:
        if column in names:
            continue
        if len(blocks[-1]) > len(names) and _total_width(least, [*blocks[-1], column], gap) > width:
            blocks.append(list(names))
        blocks[-1].append(column)
    return [sorted(block) for block in blocks]


def _spread_widths(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], block: Sequence[int], width: int, gap: int
) -> dict[int, int]:
    """Give columns their widths: all what they need at least, then names and texts what is left."""
    natural = {column: max(map(cell_len, cells[column])) for column in block}
    widths = {column: _least_width(columns[column].kind, natural[column], MIN_NAME) for column in block}
    free = width - sum(widths.values()) - gap * (len(block) - 1)
    for kind in ("name", "text"):
        elastic = [column for column in block if columns[column].kind == kind]
        while free > 0 and (short := [column for column in elastic if widths[column] < natural[column]]):
            narrowest = min(short, key=lambda column: widths[column])
            widths[narrowest] += 1
            free -= 1
    return widths


def _format_block(
    view: View, rows: Sequence[int], cells: Sequence[Sequence[str]], widths: dict[int, int], gap: int
) -> list[str]:
    blocks = {
        column: [_fold_text(text, widths[column]) for text in cells[column]]
        if view.columns[column].kind == "text"
        else [[text] if isinstance(text, str) else text for text in shorten_names(cells[column], widths[column])]
        for column in widths
    }
    left = {column for column in widths if view.columns[column].kind in ("name", "text", "bar")}
    sections = None if view.section is None else view.list_values(view.section)
    rule = "─" * (sum(widths.values()) + gap * (len(widths) - 1))
    lines = []
    for position in range(len(rows) + 1):
        if position > 1 and rows[position - 1] != rows[position - 2] + 1:
            lines.append("⋮")
        parts = {column: blocks[column][position] for column in widths}
        for line in range(max(map(len, parts.values()))):
            texts = [
                _pad_cell(part[line] if line < len(part) else "", widths[column], left=column in left)
                for column, part in parts.items()
            ]
            lines.append((" " * gap).join(texts).rstrip())
        ends_section = sections is not None and (
            position == 0 or (position < len(rows) and sections[rows[position]] != sections[rows[position - 1]])
        )
        if ends_section:
            lines.append(rule)
    return lines if any(lines[0].split()) else lines[1:]


def _pad_cell(text: str, width: int, *, left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text


def _fold_text(text: str, width: int) -> list[str]:
    """Break a text at spaces into lines of at most `width` characters."""
    lines = [""]
    for word in text.split(" "):
        for piece in chop_cells(word, width) or [""]:
            if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(piece) > width:
                lines.append(piece)
            else:
                lines[-1] = f"{lines[-1]} {piece}" if lines[-1] else piece
    return lines


def shorten_names(names: Sequence[str], width: int) -> list[str | list[str]]:
    """Cut names in the middle to at most `width` characters, so that different names stay different.

    Names that no cut tells apart are folded instead.

    >>> shorten_names(["system-a-large-2024", "system-b-large-2024"], 12)
    ['system-a…024', 'system-b…024']
    """
    long = {name for name in names if cell_len(name) > width}
    if not long:
        return list(names)
    usual = (width - 1) // 2 + 1
    for head in sorted(range(width), key=lambda head: abs(head - usual)):
        short = {name: _cut_name(name, head, width - 1 - head) if name in long else name for name in names}
        if len(set(short.values())) == len(short):
            return [short[name] for name in names]
    return [chop_cells(name, width) if name in long else name for name in names]


def _cut_name(name: str, head: int, tail: int) -> str:
    """Keep at most `head` and `tail` character cells of a name.

    >>> _cut_name("abcdefgh", 2, 1)
    'ab…h'
    """
    start = chop_cells(name, head)[0] if head else ""
    end = chop_cells(name[::-1], tail)[0][::-1] if tail else ""
    return f"{start}…{end}"


@contextmanager
def show_activity(what: str) -> Iterator[None]:
    """Show on standard error that something is under way; silent when it is not a terminal."""
    stderr = PlainConsole(stderr=True)
    if not stderr.is_terminal:
        yield
        return
    with stderr.status(Text(escape.terminal(what))):
        yield


MAX_ROWS = 40
_FIRST, _LAST = 20, 10
"""Rows of a longer table that are shown, of its begin and of its end."""


def _rows_that_matter(count: int, priority: Sequence[float] | None) -> list[int] | None:
    """Which rows of a table are shown, in order; None for all of them.

    >>> _rows_that_matter(40, None) is None, len(_rows_that_matter(41, None)), _rows_that_matter(50, range(50))[0]
    (True, 30, 20)
    """
    if count <= MAX_ROWS:
        return None
    if priority is None:
        return [*range(_FIRST), *range(count - _LAST, count)]
    weights = [-math.inf if math.isnan(value) else value for value in priority]
    return sorted(sorted(range(count), key=lambda row: -weights[row])[: _FIRST + _LAST])


def print_verdict(text: str | None, console: Console) -> None:
    """Print what a result says, before its tables."""
    if text is not None:
        console.print(text, style="bold", markup=False)
        console.print()


def print_signature(text: str, console: Console) -> None:
    """Print the line that reproduces a result; it is never broken, so that it can be copied."""
    console.print(text, style="dim", markup=False, soft_wrap=True)


def draw_bar(low: float, middle: float, high: float, scale: tuple[float, float], width: int = 24) -> Text:
    """Return an interval as text: dashes from low to high and a dot at the estimate."""
    start, end = scale
    span = (end - start) or 1.0
    cells = [" "] * width

    def place(value: float) -> int:
        return min(width - 1, max(0, round((value - start) / span * (width - 1))))

    if any(math.isnan(value) for value in (low, middle, high)):
        return Text(" " * width)
    for cell in range(place(low), place(high) + 1):
        cells[cell] = "─"
    cells[place(middle)] = "●"
    return Text("".join(cells))


# -- Progress bars: on standard error, for people only, and gone when the work is done -------------------------------


Counted = Callable[[int, int], None]
Shared = Callable[[str, float, int], None]


@contextmanager
def count_progress(what: str) -> Iterator[Counted | None]:
    """A bar to be told how many of how many are done; it shows once there is something to wait for."""
    bar = _make_progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    )
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
def rate_progress(first: str) -> Iterator[Shared | None]:
    """A bar with a rate, to be told what is done, what share of it, and how many sources so far."""
    bar = _make_progress(
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


def _make_progress(*columns: ProgressColumn) -> Progress | None:
    stderr = PlainConsole(stderr=True)
    return Progress(*columns, console=stderr, transient=True) if stderr.is_terminal else None
