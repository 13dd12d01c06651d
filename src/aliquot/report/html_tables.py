"""Views as HTML tables: the one renderer of notebooks and of the report page.

Markup has classes and no styles: notebooks and the page bring their own style sheets. The class `wide` is of columns
that a narrow screen hides: those of rank 2 and more, remarks, and intervals that are drawn, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aliquot.core import escape
from aliquot.core.escape import Html
from aliquot.core.view import Column, View
from aliquot.report import drawings

_WIDE_RANK = 2  # columns from this rank on are hidden on narrow screens
_MAX_FOLDED = 1000  # rows of a folded rest: a page stays small
MAX_NAME = 80
"""Letters of a name that a table can hold."""
_MEASURES = ("number", "scientific", "share")  # kinds of which the first column is set in bold
_LONG_NAME = 24  # letters from which a column of names has a minimal width


def shorten_name(name: str, limit: int = MAX_NAME) -> str:
    """Return a name on one line; one that is longer than a table can hold loses its middle.

    >>> shorten_name("system-a-large-2024", 12)
    'syste…e-2024'
    """
    text = escape.one_line(name)
    half = limit // 2
    return text if len(text) <= limit else f"{text[: half - 1]}…{text[-half:]}"


def write_name(name: str, limit: int = MAX_NAME) -> Html:
    """Return a name as HTML, its direction of writing apart from that of the text around it."""
    return Html(f"<bdi>{escape.html(shorten_name(name, limit))}</bdi>")


@dataclass(frozen=True)
class TableStyle:
    """How a page writes tables.

    Attributes:
        write_name: Writes what identifies a row, such as a system.
        write_text: Writes a sentence.
        max_rows: Rows that are shown.
        max_columns: Columns that are shown; those of the highest rank are left out first.
        folds: Whether the other rows are folded away below the table; otherwise they are left out.
    """

    write_name: Callable[[str], str] = write_name
    write_text: Callable[[str], str] = escape.html
    max_rows: int = 20
    max_columns: int = 12
    folds: bool = False


def render_view(view: View, style: TableStyle | None = None) -> Html:
    """Return a view as HTML: its paragraphs, its table, and what the table leaves out.

    >>> page = render_view(View("x", [{"system": "<A>", "n": 3}], [Column("system", kind="name"), Column("n")]))
    >>> print(page[page.index("<tbody>") :])
    <tbody><tr><th scope="row"><bdi>&lt;A&gt;</bdi></th><td class="num strong">3</td></tr></tbody></table></div>
    """
    style = style or TableStyle()
    parts = [_render_paragraph(text, style, "intro") for text in view.intro]
    if view.rows and view.columns:
        parts.append(_render_table(view, style))
        parts.append(_render_paragraph(view.caption, style, "caption") if view.caption else "")
    return Html("".join(parts))


def render_notes(notes: Iterable[object], style: TableStyle | None = None) -> Html:
    """Return a result's notes, folded away; nothing where there are none."""
    style = style or TableStyle()
    texts = [_write_text(str(note), style) for note in notes]
    if not texts:
        return Html()
    items = "".join(f'<li dir="auto">{text}</li>' for text in texts)
    summary = f"{len(texts)} note{'s' * (len(texts) != 1)}"
    return Html(f'<details class="notes"><summary>{summary}</summary><ul>{items}</ul></details>')


def _render_paragraph(text: str, style: TableStyle, kind: str) -> str:
    lines = (_write_text(line, style) for line in text.split("\n"))
    return "".join(f'<p class="{kind}">{line}</p>' for line in lines)


def _write_text(text: str, style: TableStyle) -> str:
    """Return a text as HTML, parameters in backticks as code."""
    return text if isinstance(text, Html) else re.sub(r"`([^`<>]+)`", r"<code>\1</code>", style.write_text(text))


def _render_table(view: View, style: TableStyle) -> str:
    columns, hidden = _choose_columns(view, style.max_columns)
    rows = _choose_rows(view, style)
    writer = _TableWriter(view, columns, style)
    parts = [writer.render_rows(rows)]
    remaining = [row for row in range(len(view.rows)) if row not in set(rows)]
    if remaining and style.folds:
        more = writer.render_rows(remaining[:_MAX_FOLDED])
        parts.append(f"<details><summary>{len(remaining)} more rows</summary>{more}</details>")
    left_out = [f"{len(rows)} of {len(view.rows)} rows"] if remaining and not style.folds else []
    left_out += [f"{len(hidden)} more columns"] if hidden else []
    if left_out:
        parts.append(f'<p class="caption">{" and ".join(left_out)}: to_frame()</p>')
    return "".join(parts)


def _choose_columns(view: View, limit: int) -> tuple[list[Column], list[Column]]:
    """Return the columns that are shown and those left out: first empty ones, then those of the highest rank."""
    filled = [
        column
        for column in view.columns
        if column.kind in ("name", "bar")
        or any(column.format_cell(value) not in ("", "-") for value in _column_values(view, column))
    ]
    ranked = sorted(range(len(filled)), key=lambda place: (filled[place].rank, place))
    visible = [filled[place] for place in sorted(ranked[:limit])]
    return visible, [column for column in filled if column not in visible]


def _choose_rows(view: View, style: TableStyle) -> list[int]:
    """Return the rows that are shown: the first ones, or those that matter most."""
    rows = list(range(len(view.rows)))
    if len(rows) > style.max_rows and view.importance is not None:
        weights = [-math.inf if math.isnan(value) else value for value in map(float, view.list_values(view.importance))]
        rows.sort(key=lambda row: -weights[row])
    return sorted(rows[: style.max_rows])


def _column_values(view: View, column: Column) -> list[Any]:
    return [column.get_value(row) for row in view.rows]


class _TableWriter:
    """Writes rows of a view; axes of bars are those of the whole column."""

    def __init__(self, view: View, columns: Sequence[Column], style: TableStyle) -> None:
        self.view, self.columns, self.style = view, columns, style
        self.sections = None if view.section is None else view.list_values(view.section)
        self.main = next(
            (place for place, column in enumerate(columns) if column.kind in _MEASURES and not column.rank), -1
        )
        self.axes = {place: _bar_axis(view, column) for place, column in enumerate(columns) if column.kind == "bar"}

    def render_rows(self, rows: Sequence[int]) -> str:
        """Return a table of these rows."""
        title = f"<caption>{_write_text(self.view.title, self.style)}</caption>" if self.view.title else ""
        head = "".join(self._render_head(place, column) for place, column in enumerate(self.columns))
        head = f"<thead><tr>{head}</tr></thead>" if any(column.header for column in self.columns) else ""
        body = "".join(self._render_row(row, rows[place - 1] if place else None) for place, row in enumerate(rows))
        has_words = self.view.title and not isinstance(self.view.title, Html)
        label = escape.html(self.view.title if has_words else self.view.name)
        return (
            f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">'
            f"<table>{title}{head}<tbody>{body}</tbody></table></div>"
        )

    def _render_head(self, place: int, column: Column) -> str:
        axis = self.axes.get(place)
        text = _write_text(column.header, self.style) if axis is None else drawings.draw_axis(axis)
        if text and column.kind == "bar":
            text = f'<span class="hidden">drawn</span>{text}'
        if not text:
            return "<td></td>"  # an empty header says nothing to those who listen
        is_name = column.kind == "name"
        is_long = is_name and any(
            len(column.format_cell(value)) > _LONG_NAME for value in _column_values(self.view, column)
        )
        classes = _class_attribute(column, "long" if is_long else "", has_bar=bool(self.axes))
        return f'<th scope="col"{classes}>{text}</th>'

    def _render_row(self, row: int, before: int | None) -> str:
        starts = self.sections is not None and before is not None and self.sections[row] != self.sections[before]
        cells = "".join(self._render_cells(row))
        return f'<tr class="first">{cells}</tr>' if starts else f"<tr>{cells}</tr>"

    def _render_cells(self, row: int) -> Iterator[str]:
        has_name = False
        for place, column in enumerate(self.columns):
            content = self._render_content(row, place, column)
            is_head = (
                column.kind == "name"
                and not has_name
                and bool(column.format_cell(column.get_value(self.view.rows[row])))
            )
            tag, scope = ("th", ' scope="row"') if is_head else ("td", "")
            has_name |= column.kind == "name"
            classes = _class_attribute(column, "strong" if place == self.main else "", has_bar=bool(self.axes))
            yield f"<{tag}{scope}{classes}>{content}</{tag}>"

    def _render_content(self, row: int, place: int, column: Column) -> str:
        value = column.get_value(self.view.rows[row])
        axis = self.axes.get(place)
        if axis is not None and value is not None:
            low, middle, high = (math.nan if end is None else float(end) for end in value)
            return drawings.draw_interval(axis, low, middle, high, self._choose_shade(row))
        if isinstance(value, Html):
            return value
        text = column.format_cell(value)
        if column.kind == "name":
            return self.style.write_name(text)
        return _write_text(text, self.style) if column.kind == "text" else escape.html(text)

    def _choose_shade(self, row: int) -> str:
        """Return the class of a row's bar; sections alternate, so that borders show in the picture, too."""
        if self.sections is None:
            return ""
        order = list(dict.fromkeys(self.sections))
        return "even" if order.index(self.sections[row]) % 2 else "odd"


def _class_attribute(column: Column, extra: str, *, has_bar: bool) -> str:
    kind = {"bar": "draw", "name": "", "text": ""}.get(column.kind, "num")
    lowest = {"text": 1, "interval": 0}.get(column.kind, _WIDE_RANK) if has_bar else _WIDE_RANK
    is_wide = column.rank >= lowest and kind != "draw"
    names = " ".join(name for name in (kind, "wide" if is_wide else "", extra) if name)
    return f' class="{names}"' if names else ""


def _bar_axis(view: View, column: Column) -> drawings.Axis | None:
    """Return the axis of a column of intervals; None for one of drawings."""
    intervals = [value for value in _column_values(view, column) if value is not None]
    if any(isinstance(value, Html) for value in intervals):
        return None
    ends = [float(end) for interval in intervals for end in interval if end is not None]
    return drawings.make_axis(ends, tight=True)
