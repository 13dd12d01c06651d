"""Views of results: named tables whose columns have kinds, the same for every medium.

Results make views; three renderers turn them into output: `cli.render` for terminals, `report.html_tables` for HTML,
`core.written` for Markdown and LaTeX. A renderer decides on width and layout, a view on content: which columns there
are, what they hold (`Kind`), and which are left out first where space is short (`rank`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from aliquot.core.written import (
    format_fixed,
    format_number,
    format_percent,
    format_scientific,
    latex_table,
    markdown_table,
)

Kind = Literal["name", "text", "number", "scientific", "share", "p", "count", "interval", "bar"]
"""What a column holds.

- `name`: identifies the row; never left out, cut in the middle where space is short
- `text`: words; folded over several lines
- `format_number`, `format_scientific`, `share` (0 to 1, written as a percentage), `p`, `count`
- `interval`: (low, high); `bar`: (low, middle, high), drawn on the scale of the whole column

A string as value is written as it is, whatever the kind.
"""

Source = str | tuple[str, ...] | Callable[[Any], Any]
"""How to get a cell's value from a row: a field's name, several names for a tuple, or a function."""


@dataclass(frozen=True)
class Column:
    """One column of a view.

    Attributes:
        header: Its name, as short as possible.
        source: Where a cell's value comes from; by default the field called like the header.
        kind: What it holds.
        places: Decimals of numbers and intervals; by default three significant digits.
        rank: 0 for columns that are always shown; columns of the highest rank are left out first.
    """

    header: str
    source: Source = ""
    kind: Kind = "number"
    places: int | None = None
    rank: int = 0

    def get_value(self, row: Any) -> Any:
        """Return a row's value.

        >>> Column("n").get_value({"n": 3}), Column("interval", ("low", "high")).get_value({"low": 1, "high": 2})
        (3, (1, 2))
        """
        source = self.source or self.header
        if callable(source):
            return source(row)
        if isinstance(source, tuple):
            return tuple(_get_field(row, name) for name in source)
        return _get_field(row, source)

    def format_cell(self, value: Any) -> str:
        """Return a value as text; undefined numbers (NaN, None) are '-', and missing words ''.

        >>> Column("x").format_cell(0.12345), Column("x", kind="share").format_cell(0.5)
        ('0.123', '50%')
        >>> Column("x", kind="interval", places=1).format_cell((1.0, 2.0)), Column("x").format_cell(float("nan"))
        ('1.0 to 2.0', '-')
        """
        if isinstance(value, str):
            return value
        if self.kind == "bar" or (value is None and self.kind in ("name", "text")):
            return ""
        if value is None:
            return "-"
        if self.kind == "interval":
            ends = [self._format_number(end) for end in value]
            return "-" if "-" in ends else " to ".join(ends)
        if isinstance(value, float) and math.isnan(value):
            return "-"
        return self._format_number(value)

    def _format_number(self, value: Any) -> str:
        if value is None or isinstance(value, (str, bool)):
            return "-" if value is None else str(value)
        if self.kind == "p":
            return f"{value:.3f}" if value >= 0.001 or value == 0 else f"{value:.0e}"
        if self.kind == "share":
            return format_percent(value)
        if self.kind == "scientific":
            return format_scientific(value)
        if isinstance(value, float):
            return format_number(value) if self.places is None else format_fixed(value, self.places)
        return str(value)


def _get_field(row: Any, name: str) -> Any:
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


@dataclass(frozen=True)
class View:
    """A table to show, with title, paragraphs and caption.

    Attributes:
        name: What it is called where views are chosen by name, e.g. "pairs".
        rows: Objects, mappings, or the rows of a Polars table.
        columns: Its columns; a view without any is text only.
        title: One line above the table.
        intro: Paragraphs above the title.
        caption: A paragraph below the table.
        section: Rows with equal values of it stand together, apart from the others.
        importance: How much a row matters; of long tables the rows that matter most are shown, by default both ends.
        detail: Whether it is shown only when asked for by name.
    """

    name: str
    rows: Sequence[Any] = ()
    columns: Sequence[Column] = ()
    title: str = ""
    intro: Sequence[str] = ()
    caption: str = ""
    section: Source | None = None
    importance: Source | None = None
    detail: bool = False

    @classmethod
    def of_frame(cls, name: str, frame: pl.DataFrame, columns: Sequence[Column] | None = None, **parts: Any) -> View:
        """Make a view of a Polars table; by default its columns get the kinds that fit their types."""
        return cls(name, list(frame.iter_rows(named=True)), columns or columns_of_frame(frame), **parts)

    def list_values(self, source: Source) -> list[Any]:
        """Return the value of each row."""
        column = Column("", source)
        return [column.get_value(row) for row in self.rows]

    def list_cells(self) -> list[list[str]]:
        """Return the table as text, a list for each row."""
        return [[column.format_cell(column.get_value(row)) for column in self.columns] for row in self.rows]

    def to_markdown(self) -> str:
        """Return the table as Markdown, without drawn columns."""
        view = self._without_bars()
        return markdown_table([column.header for column in view.columns], view.list_cells())

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular, without drawn columns."""
        view = self._without_bars()
        right = [column.kind not in ("name", "text") for column in view.columns]
        return latex_table([column.header for column in view.columns], view.list_cells(), right)

    def _without_bars(self) -> View:
        return replace(self, columns=[column for column in self.columns if column.kind != "bar"])


_MIDDLES = ("estimate", "value", "difference", "correlation", "win_rate", "standardised", "mean")


def columns_of_frame(frame: pl.DataFrame) -> list[Column]:
    """Return columns for a Polars table: text columns are names, `low` and `high` become one interval.

    >>> [column.header for column in columns_of_frame(pl.DataFrame({"system": ["a"], "mean": 1, "low": 0, "high": 2}))]
    ['system', 'mean', 'interval', '']
    """
    middle = next((name for name in _MIDDLES if name in frame.columns), None)
    has_interval = middle is not None and {"low", "high"} <= set(frame.columns)
    columns: list[Column] = []
    for name, dtype in frame.schema.items():
        if dtype.is_nested() or (has_interval and name in ("low", "high")):
            continue
        kind: Kind = "name" if dtype == pl.String else "count" if dtype.is_integer() else "number"
        columns.append(Column(name, kind=kind, rank=0 if kind == "name" else len(columns)))
        if has_interval and middle is not None and name == middle:
            columns.append(Column("interval", ("low", "high"), "interval"))
            columns.append(Column("", ("low", middle, "high"), "bar", rank=1))
    return columns
