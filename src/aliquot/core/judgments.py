"""Judgments: one row for each answer of one annotator on one output (or each error that is part of an answer)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from aliquot.core.columns import cast_column, tables_equal
from aliquot.core.shown import Shown
from aliquot.errors import DataError, unknown_name

if TYPE_CHECKING:
    from aliquot.core.view import View

CORE_COLUMNS = ("item", "system", "annotator", "criterion", "value", "seconds")
"""Columns every judgments table has; absent ones are filled with null."""

ANSWER_KEYS = ("item", "draw", "system", "annotator", "criterion", "protocol", "control")
"""Columns that identify an answer, where they are present: rows equal in all of them repeat one answer."""

MARKED = "marked"
"""The column with the reason why a judgment does not count; null if it counts."""

CONTROL_ITEM = "control item"
"""The mark on judgments of control items: they test annotators, and are not about systems."""

MODEL = "judge model"
"""The mark on judgments of an automatic judge: they are a metric, and never part of a human score."""

LABEL = "label"
"""The column of answers that are labels and stood in the column `value`, which holds numbers."""

MAX_SHOWN_ROWS = 20
"""Rows that a reader sees of a table that may have millions."""

_NUMBER_COLUMNS = ("value", "seconds")
_NAME_COLUMNS = ("system", "annotator", "criterion")


@dataclass(frozen=True, eq=False, repr=False)
class Judgments(Shown):
    """A long, validated table of judgments.

    `table` has the columns item, system, annotator, criterion, value and seconds, those of time, order, control and
    repeat that are known, and whatever else came. A table with a column `error` holds one row per error: rows of one
    annotator on one output are then parts of one answer, and their values add up.

    A column `marked` holds the reason why a judgment does not count (`aliquot clean` writes it), or null. The rows
    stay in `table`; `usable`, and with it all that makes scores, leaves them out.

    >>> judgments = Judgments(pl.DataFrame({"item": [0, 0], "system": ["A", "A"], "value": [1.0, 3.0]}))
    >>> judgments
    Judgments(2 rows, 1 item, 1 system, 0 annotators)
    """

    table: pl.DataFrame

    def __post_init__(self) -> None:
        if not isinstance(self.table, pl.DataFrame):
            from aliquot.io.formats.table_files import to_polars  # noqa: PLC0415  (pandas is read as files are)

            object.__setattr__(self, "table", to_polars(self.table))
        object.__setattr__(self, "table", _validate_table(self.table))

    def __len__(self) -> int:
        return self.table.height

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Judgments) and tables_equal(self.table, other.table)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{count} {word}{'' if count == 1 else 's'}"
            for word, count in (
                ("row", len(self)),
                ("item", self.table["item"].n_unique()),
                ("system", self.table["system"].n_unique()),
                ("annotator", len(self.annotators)),
            )
        )
        return f"Judgments({counts})"

    @property
    def annotators(self) -> list[str]:
        """The annotators, in order of first appearance."""
        return self.table["annotator"].drop_nulls().unique(maintain_order=True).to_list()

    @property
    def criteria(self) -> list[str]:
        """The criteria, in order of first appearance; empty when the judgments name none."""
        return self.table["criterion"].drop_nulls().unique(maintain_order=True).to_list()

    def usable(self) -> Judgments:
        """Return the judgments that are not marked.

        >>> two = pl.DataFrame({"item": [0, 1], "system": ["A", "A"], "value": [1.0, 3.0], "marked": ["burn_in", None]})
        >>> len(Judgments(two)), len(Judgments(two).usable())
        (2, 1)
        """
        if MARKED not in self.table.columns or self.table[MARKED].null_count() == len(self):
            return self
        return Judgments(self.table.filter(pl.col(MARKED).is_null()))

    def answers(self) -> pl.DataFrame:
        """Return one row per usable answer; errors of one annotator on one output are summed, null without values."""
        table = self.usable().table
        if "error" not in table.columns:
            return table
        table = drop_duplicate_errors(table)
        extra = [name for name in ("repeat", "control") if name in table.columns]
        keys = ["item", "system", "annotator", "criterion", *extra]
        total = pl.when(pl.col("value").count() > 0).then(pl.col("value").sum())
        return table.group_by(keys, maintain_order=True).agg(total.alias("value"), pl.col("seconds").max())

    def keep(self, items: Sequence[int | str] | None = None, systems: Sequence[str] | None = None) -> Judgments:
        """Return the judgments on these items and systems only."""
        table = self.table
        if items is not None:
            ids = pl.Series("item", items, dtype=table["item"].dtype)
            table = table.join(ids.to_frame(), on="item", how="semi", maintain_order="left")
        if systems is not None:
            table = table.filter(pl.col("system").is_in(list(systems)))
        subset = object.__new__(Judgments)  # rows of a checked table: nothing is checked again
        object.__setattr__(subset, "table", table)
        return subset

    def cell_means(self, criterion: str | None = None) -> pl.DataFrame:
        """Return the mean value per item and system over annotators (and criteria, unless one is named).

        Answers that are marked or have no value (pending, skipped) leave the mean; a cell without any has no row. What
        one annotator said of an output more than once counts as one answer (`merge_repeats`).
        """
        table = self.answers()
        if criterion is not None:
            if criterion not in self.criteria:
                raise unknown_name("criterion", criterion, self.criteria)
            table = table.filter(pl.col("criterion") == criterion)
        each = merge_repeats(table.filter(pl.col("value").is_not_null())).table
        return each.group_by("item", "system", maintain_order=True).agg(pl.col("value").mean())

    def views(self) -> Sequence[View]:
        """Return the view `judgments`: the first rows."""
        from aliquot.core.view import View  # noqa: PLC0415  (needed only where judgments are shown)

        return (View.of_frame("judgments", self.table.head(MAX_SHOWN_ROWS), intro=(repr(self),)),)

    def to_frame(self) -> pl.DataFrame:
        """Return the table itself."""
        return self.table


def drop_duplicate_errors(table: pl.DataFrame) -> pl.DataFrame:
    """Drop repeated errors of one answer; errors without a position are kept."""
    if "start" not in table.columns:
        return table
    plain = [name for name, dtype in table.schema.items() if name != "error" and not dtype.is_nested()]
    placed = pl.col("start").is_not_null()
    copy = pl.struct(plain).is_duplicated() & ~pl.struct(plain).is_first_distinct() & placed
    return table.filter(~copy)


@dataclass(frozen=True, eq=False)
class MergedRepeats:
    """Answers with one row for each annotator and output.

    Attributes:
        table: the answers.
        copies: rows that were identical to another one, and count once.
        repeats: further answers of an annotator on the same output, which are averaged.
        disagreeing: outputs whose repeated answers by one annotator differ.
        example: the first output with copies or repeats, in words; empty where there are none.
    """

    table: pl.DataFrame
    copies: int = 0
    repeats: int = 0
    disagreeing: int = 0
    example: str = ""


def merge_repeats(table: pl.DataFrame) -> MergedRepeats:
    """Merge repeated answers of an annotator on one output: identical rows count once, others are averaged.

    Repeats of one annotator show how consistent that annotator is, not how annotators differ: everything
    that measures noise between annotators, or averages over them, starts from here. Rows of single errors are parts of
    an answer (see `Judgments.answers`) and stay. Without an annotator id, only rows with a time or an order can be
    told to be copies.

    >>> rows = {"item": [0, 0, 0], "system": ["A"] * 3, "annotator": ["x"] * 3, "value": [1.0, 1.0, 3.0]}
    >>> merged = merge_repeats(Judgments(pl.DataFrame(rows)).table)
    >>> merged.table["value"].to_list(), merged.copies, merged.repeats
    ([2.0], 1, 1)
    """
    if "error" in table.columns:
        return MergedRepeats(table)
    keys = [name for name in ANSWER_KEYS if name in table.columns]
    stamps = [pl.col(name).is_not_null() for name in ("time", "order") if name in table.columns]
    identified = pl.any_horizontal(pl.col("annotator").is_not_null(), *stamps)
    named = pl.col("annotator").is_not_null()
    if not table.filter(identified).select(keys).is_duplicated().any():
        return MergedRepeats(table)
    plain = [name for name, dtype in table.schema.items() if not dtype.is_nested()]
    rows = table.with_row_index("_row")
    distinct = pl.concat(
        [rows.filter(identified).unique(subset=plain, keep="first", maintain_order=True), rows.filter(~identified)]
    ).sort("_row")
    groups = (
        distinct.filter(named)
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("value").mean(),
            pl.len().alias("_times"),
            pl.when(pl.col("seconds").count() > 0).then(pl.col("seconds").sum()).alias("seconds"),
            pl.col("value").n_unique().alias("_kinds"),
            pl.exclude(*keys, "value", "seconds").first(),
        )
    )
    merged = pl.concat([groups.select(rows.columns), distinct.filter(~named)]).sort("_row").drop("_row")
    repeated = groups.filter(pl.col("_times") > 1)
    copies, repeats = table.height - distinct.height, int((groups["_times"] - 1).sum())
    if not copies + repeats:
        return MergedRepeats(table)
    again = rows.filter(rows.select(keys).is_duplicated() & identified)
    first = again.row(0, named=True) if again.height else {}
    example = f"item {first.get('item')}, {first.get('system')}, {first.get('annotator')}"
    return MergedRepeats(merged, copies, repeats, repeated.filter(pl.col("_kinds") > 1).height, example)


def _validate_table(table: pl.DataFrame) -> pl.DataFrame:
    missing = [name for name in ("item", "system", "value") if name not in table.columns]
    if missing:
        raise DataError(f"judgments lack the column '{missing[0]}'; there are {table.columns}")
    for name in CORE_COLUMNS:
        if name not in table.columns:
            table = table.with_columns(pl.lit(None).alias(name))
    types = dict.fromkeys(_NUMBER_COLUMNS, pl.Float64()) | dict.fromkeys(_NAME_COLUMNS, pl.String())
    table = table.with_columns(cast_column(table[name], dtype, f"judgments' {name}") for name, dtype in types.items())
    if MARKED in table.columns:
        table = table.with_columns(_read_marks(table[MARKED]))
    # Arrays mark missing values by NaN, tables by null, which means and counts skip.
    table = table.with_columns(pl.col(name).fill_nan(None) for name in _NUMBER_COLUMNS)
    infinite = table.filter(pl.col("value").is_infinite())
    if infinite.height:
        row = infinite.row(0, named=True)
        raise DataError(
            f"judgment of {row['annotator']} on item {row['item']}, system {row['system']}: "
            f"the value {row['value']} is not finite; correct it or leave it empty"
        )
    return table.select(*CORE_COLUMNS, pl.exclude(*CORE_COLUMNS))


def _read_marks(marked: pl.Series) -> pl.Series:
    """Return the reasons for marks as texts; empty texts and `false` become null."""
    if marked.dtype == pl.Boolean:
        return pl.select(pl.when(marked).then(pl.lit(MARKED)).alias(MARKED)).to_series()
    texts = cast_column(marked, pl.String(), f"judgments' {MARKED}").str.strip_chars()
    return pl.select(pl.when(texts != "").then(texts).alias(MARKED)).to_series()


def find_answer_column(table: pl.DataFrame, answer: str) -> str:
    """Return the column that holds the answers: `label` if the values are labels, not numbers."""
    labels = answer == "value" and LABEL in table.columns and table["value"].null_count() == table.height
    return LABEL if labels else answer
