"""Judgments as cleaning, combining and agreement see them: one row each, with every column they may ask for.

The errors of one judgment (MQM) are one row here, so that a mark is always on a whole judgment. Re-coding maps, such as
`1|2=low,3|4|5=high`, say which values become one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.core.columns import JSON_DTYPE, cast_column
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import MARKED, Judgments
from aliquot.core.registry import parse_value, split_top_level
from aliquot.errors import DataError, OptionError, quoted
from aliquot.stats.arrays import IntArray

Data = EvalSet | Judgments | pl.DataFrame

OPTIONAL = ("time", "order", "page", "block", "control", "repeat", "expected", "state")
"""Columns that cleaning understands where they are there; null otherwise."""

OPEN = pl.col(MARKED).is_null() & pl.col("value").is_not_null()
"""Judgments that count so far: they have a value, and no mark."""

_JUDGMENT_KEYS = ("item", "system", "annotator", "criterion", "repeat", "control")
_FALSE_WORDS = ("", "0", "false", "no", "f", "n")


@dataclass(frozen=True, eq=False)
class JudgmentRows:
    """One row per judgment."""

    # item, system, annotator, criterion, value, seconds, the `OPTIONAL` columns, `marked`, and `state`, which is
    # answered, skipped or pending for every row. Negative seconds are null.
    table: pl.DataFrame
    filled_columns: frozenset[str]  # which of the columns held anything
    of_row: IntArray  # the judgment that each row of the original table belongs to
    negative_times: int = 0

    @property
    def ordered_by(self) -> str | None:
        """The column that orders judgments: time, else order; None without either."""
        return next((name for name in ("time", "order") if name in self.filled_columns), None)

    def with_marks(self, reasons: pl.Series) -> JudgmentRows:
        """Add marks; a judgment that is marked already keeps its reason."""
        table = self.table.with_columns(pl.coalesce(MARKED, reasons.cast(pl.String)).alias(MARKED))
        return replace(self, table=table)


def judgment_table(data: Data) -> pl.DataFrame:
    """Return the table of judgments; a bare table as it is."""
    return data if isinstance(data, pl.DataFrame) else require_judgments(data).table


def require_judgments(data: Data) -> Judgments:
    """Return the judgments in the data; raise DataError if there are none."""
    if isinstance(data, Judgments):
        return data
    if isinstance(data, pl.DataFrame):
        return Judgments(data)
    if data.judgments is None:
        raise DataError(f"{data.name}: there are no judgments; load a table with item, system, annotator and value")
    return data.judgments


def make_evalset(data: Data) -> EvalSet:
    """Return the data as an EvalSet; judgments alone become one without scores and outputs.

    >>> make_evalset(pl.DataFrame({"item": [3, 3], "system": ["B", "A"], "value": [1.0, 2.0]})).systems
    ('B', 'A')
    """
    if isinstance(data, EvalSet):
        return data
    if isinstance(data, pl.DataFrame) and data.schema.get("value", pl.String()) == pl.String:
        data = data.with_columns(pl.lit(None, dtype=pl.Float64).alias("value"))  # labels have no numeric value yet
    judgments = require_judgments(data)
    ids = judgments.table["item"].unique(maintain_order=True)
    systems = judgments.table["system"].unique(maintain_order=True).to_list()
    return EvalSet(items=ids.alias("id").to_frame(), systems=tuple(systems), judgments=judgments, name="judgments")


def judgment_rows(judgments: Judgments) -> JudgmentRows:
    """Convert judgments to one row each, with all columns that cleaning uses.

    >>> table = pl.DataFrame({"item": [0, 0], "system": ["A", "B"], "value": [3.0, None], "seconds": [9.0, 4.0]})
    >>> judgment_rows(Judgments(table)).table["state"].to_list()
    ['answered', 'skipped']
    """
    table = judgments.table
    filled_columns = frozenset(name for name in table.columns if table[name].null_count() < table.height)
    absent = [name for name in (*OPTIONAL, MARKED) if name not in table.columns]
    table = table.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in absent)
    table = table.with_columns(
        _parse_flags(table["repeat"]),
        _control_kinds(table["control"]),
        cast_column(table["expected"], pl.Float64(), "judgments' expected").fill_nan(None),
        pl.col("page", "block", "state").cast(pl.String),
    )
    table, of_row = _merge_errors(table)
    negative = table.filter(pl.col("seconds") < 0).height
    table = table.with_columns(pl.when(pl.col("seconds") >= 0).then("seconds"), _judgment_state().alias("state"))
    return JudgmentRows(table, filled_columns, of_row, negative)


def drop_rows(table: pl.DataFrame, left_out: Mapping[str, pl.Expr]) -> tuple[pl.DataFrame, list[str]]:
    """Drop rows by one condition after the other; notes count how many each drops."""
    notes = []
    for what, condition in left_out.items():
        remaining = table.filter(~condition)
        notes += [f"{table.height - remaining.height} {what} left out"] if remaining.height < table.height else []
        table = remaining
    return table, notes


def _merge_errors(table: pl.DataFrame) -> tuple[pl.DataFrame, IntArray]:
    """Merge the errors of a judgment (MQM) into one row with their sum."""
    if "error" not in table.columns:
        return table, np.arange(table.height)
    of_row = group_codes(table, _JUDGMENT_KEYS)
    total = pl.when(pl.col("value").count() > 0).then(pl.col("value").sum())
    grouped = (
        table.with_columns(pl.Series("_answer", of_row))
        .group_by("_answer")
        .agg(total.alias("value"), pl.col("seconds").max(), pl.exclude("_answer", "value", "seconds").first())
    )
    judged = grouped.sort("_answer").drop("_answer").select(table.columns)
    return judged, of_row


def group_codes(table: pl.DataFrame, columns: Sequence[str]) -> IntArray:
    """Return codes 0, 1, ... of the combinations of columns, in order of appearance; null counts as a value.

    >>> group_codes(pl.DataFrame({"a": ["x", "y", "x", None]}), ["a"]).tolist()
    [0, 1, 0, 2]
    """
    if not table.height:
        return np.zeros(0, dtype=np.int64)
    numbered = table.select(columns).with_row_index("_row")
    first = numbered.select(pl.col("_row").first().over(*columns)).to_series().to_numpy()
    place = np.cumsum(first == np.arange(len(first))) - 1  # how many combinations had appeared by then
    return np.asarray(place[first], dtype=np.int64)


def first_rows(codes: IntArray) -> IntArray:
    """Return the first row of each code of `group_codes`.

    >>> first_rows(np.array([0, 1, 0, 2])).tolist()
    [0, 1, 3]
    """
    return np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1)) if len(codes) else codes


def _judgment_state() -> pl.Expr:
    """State of each judgment: answered if it has a value, else `state`, else skipped if timed, else pending."""
    stated = (
        pl.col("state")
        .str.to_lowercase()
        .str.slice(0, 4)
        .replace_strict({"skip": "skipped", "pend": "pending"}, default=None, return_dtype=pl.String)
    )
    timed = pl.col("seconds").is_not_null() | pl.col("time").is_not_null()
    unanswered = pl.coalesce(stated, pl.when(timed).then(pl.lit("skipped")).otherwise(pl.lit("pending")))
    return pl.when(pl.col("value").is_not_null()).then(pl.lit("answered")).otherwise(unanswered)


def _parse_flags(column: pl.Series) -> pl.Series:
    """Read a column of flags: booleans, numbers, or words such as yes and no."""
    if column.dtype == pl.Boolean:
        return column.fill_null(value=False)
    if column.dtype.is_numeric():
        return (column != 0).fill_null(value=False)
    return ~column.cast(pl.String).str.strip_chars().str.to_lowercase().is_in(_FALSE_WORDS).fill_null(value=True)


def _control_kinds(column: pl.Series) -> pl.Series:
    """Return null for an ordinary item, `training`, `exam` or `control` for one that tests the annotator."""
    if column.dtype == JSON_DTYPE:
        raise DataError("judgments' control holds lists or objects; write true, training or exam, and false or nothing")
    word = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    kind = pl.when(word.is_in(["training", "exam"])).then(word).otherwise(pl.lit("control"))
    return pl.select(pl.when(_parse_flags(column)).then(kind).alias("control")).to_series()


# -- pages ---------------------------------------------------------------------------------------------------------


def page_columns(judged: JudgmentRows) -> tuple[pl.DataFrame, list[str]]:
    """Return the judgments and the columns that make a page.

    That is `page` where there is such a column, else an output with its criteria; judged twice, it is two pages.
    """
    if "page" in judged.filled_columns:
        return judged.table, ["annotator", "page"]
    repeat_number = pl.int_range(pl.len()).over("annotator", "item", "system", "criterion").alias("_again")
    return judged.table.with_columns(repeat_number), ["annotator", "item", "system", "_again"]


def list_pages(judged: JudgmentRows) -> pl.DataFrame:
    """Return one row per page and annotator: its key, `seconds` (null if unknown), `skipped` and `pending`.

    Equal seconds on a page are taken for the page's time, written on each of its judgments; otherwise they add up.
    """
    table, key = page_columns(judged)
    seconds = pl.col("seconds")
    page_seconds = pl.when(seconds.n_unique() == 1).then(seconds.first()).when(seconds.count() > 0).then(seconds.sum())
    return (
        table.filter(pl.col("annotator").is_not_null() & pl.col(MARKED).is_null())
        .group_by(key, maintain_order=True)
        .agg(
            page_seconds.alias("seconds"),
            (pl.col("state") == "skipped").all().alias("skipped"),
            (pl.col("state") == "pending").all().alias("pending"),
        )
    )


# -- re-coding -----------------------------------------------------------------------------------------------------

RecodeLike = str | Mapping[str, Sequence[object]]
"""A map as it is written, or new value -> old values."""


@dataclass(frozen=True)
class Recoding:
    """A map from values to new values."""

    name: str  # of the re-coded scale
    groups: tuple[tuple[str, tuple[str, ...]], ...]  # new value and the old ones (or ranges LOW..HIGH), in order

    def __str__(self) -> str:
        return ",".join(f"{'|'.join(old)}={new}" for new, old in self.groups)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The new labels in order; None if they are numbers."""
        new = tuple(label for label, _ in self.groups)
        return None if all(_parse_number(label) is not None for label in new) else new

    def apply(self, values: pl.Series) -> pl.Series:
        """Return the new values as numbers; labels become their index.

        >>> parse_recoding("1|2=low,3..5=high").apply(pl.Series([1.0, 4.0])).to_list()
        [0.0, 1.0]
        """
        place = {value: self._group_index(value) for value in values.drop_nulls().unique().sort()}
        lost = [value for value, index in place.items() if index is None]
        if lost:
            named = f" '{self.name}'" if self.name else ""
            raise DataError(
                f"re-coding{named}: the values {quoted(_format_value(value) for value in lost)} are in no group of "
                f"'{self}'; add them to one"
            )
        new = [
            float(index) if self.labels else float(self.groups[index][0])
            for index in place.values()
            if index is not None
        ]
        return values.replace_strict(list(place), new, default=None, return_dtype=pl.Float64)

    def _group_index(self, value: float | str) -> int | None:
        return next(
            (index for index, (_, old) in enumerate(self.groups) if any(_matches_value(value, text) for text in old)),
            None,
        )


def parse_recoding(recoding: RecodeLike, name: str = "re-coded") -> Recoding:
    """Parse a map `old|old=new,old=new` or `NAME:old|old=new,...`.

    >>> parse_recoding("gravity:0|1|2=significant,3|4|5|6=insignificant,7=none").name
    'gravity'
    """
    if isinstance(recoding, Mapping):
        groups = tuple((str(new), tuple(map(_format_value, old))) for new, old in recoding.items())
    else:
        head, colon, groups_text = recoding.partition(":")
        if colon and "=" not in head:
            name, recoding = head.strip(), groups_text
        groups = tuple(_parse_group(part, recoding) for part in split_top_level(recoding, ","))
    olds = [text for _, old in groups for text in old]
    twice = [text for text in olds if olds.count(text) > 1]
    if len({new for new, _ in groups}) < len(groups):
        raise OptionError(f"re-coding '{name}': the new value is named twice; put all that becomes it into one group")
    if twice:
        raise OptionError(f"re-coding '{name}': the value '{twice[0]}' is in two groups; it can become only one")
    return Recoding(name, groups)


def _parse_group(part: str, recoding: str) -> tuple[str, tuple[str, ...]]:
    old, equals, new = part.rpartition("=")
    olds = tuple(parse_value(text) for text in split_top_level(old, "|"))
    if not equals or not new.strip() or not all(olds):
        raise OptionError(f"re-coding '{recoding}': '{part}' is not OLD|OLD=NEW; write e.g. 1|2=low,3|4|5=high")
    return parse_value(new), olds


def _matches_value(value: float | str, text: str) -> bool:
    if isinstance(value, str):
        return value == text
    low, dots, high = text.partition("..")
    ends = _parse_number(low), _parse_number(high if dots else low)
    return ends[0] is not None and ends[1] is not None and ends[0] <= value <= ends[1]


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _format_value(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
