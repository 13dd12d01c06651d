"""From judgments to arrays: which annotator gave which value on what.

A unit is what two annotators can both have judged: an output (item and system) or a pair of outputs (item, system_a,
system_b) under one criterion, and within one value of each judgment column that is asked for (a protocol, a wave). An
annotator counts once on a unit, with the first judgment; later judgments on the same unit are repeats, kept apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.annotation.judgment_rows import Data, Recoding, drop_rows, group_codes, judgment_rows, judgment_table
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import MARKED, Judgments, find_answer_column
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

_ORDER_COLUMNS = ("repeat", "time", "order")
_PAIR_COLUMNS = ("system_a", "system_b")
_KEY_COLUMNS = ("item", "system", "annotator", "criterion", "seconds")
_EXCLUSIONS = {
    "marked judgments": pl.col(MARKED).is_not_null(),
    "judgments without a value": pl.col("value").is_null(),
    "judgments on control items": pl.col("control").is_not_null(),
    "judgments without an annotator": pl.col("annotator").is_null(),
}


@dataclass(frozen=True, eq=False)
class JudgmentArrays:
    """Judgments as arrays, one row per unit and annotator."""

    table: pl.DataFrame  # item, system, criterion, and the columns that were asked for
    unit: IntArray  # code of each row's unit
    item: IntArray  # code of each row's item
    annotator: IntArray  # code of each row's annotator
    value: FloatArray  # the number, or the place of the value among `labels`
    annotators: tuple[str, ...]  # names, by code
    labels: tuple[str, ...] | None  # the values where they are not numbers
    repeats: tuple[IntArray, FloatArray, FloatArray]  # annotator (code), first and later value on the same unit
    notes: tuple[str, ...] = ()  # what was left out, and why
    ordered: bool = True  # the values have an order: numbers, or labels that a map puts into one

    def __len__(self) -> int:
        return len(self.value)

    def has_distances(self, level: str) -> bool:
        """Whether differences between values are meaningful: not for labels or nominal numbers."""
        return self.ordered and (level != "nominal" or len(np.unique(self.value)) <= 2)

    @property
    def criteria(self) -> list[str]:
        """The criteria, in order of first appearance."""
        return self.table["criterion"].drop_nulls().unique(maintain_order=True).to_list()

    def take(self, rows: BoolArray) -> JudgmentArrays:
        """Return only these rows."""
        return replace(
            self,
            table=self.table.filter(pl.Series(rows)),
            unit=self.unit[rows],
            item=self.item[rows],
            annotator=self.annotator[rows],
            value=self.value[rows],
        )

    def is_criterion(self, criterion: str) -> BoolArray:
        """Return a mask of the judgments under a criterion."""
        return (self.table["criterion"] == criterion).fill_null(value=False).to_numpy()

    def of_annotators(self, annotators: Sequence[str]) -> JudgmentArrays:
        """Return only these annotators' judgments."""
        codes = [self.annotators.index(name) for name in annotators]
        return self.take(np.isin(self.annotator, codes))

    def format_value(self, value: float) -> str:
        """Format a value: its label, or the number."""
        # Adding 0 turns -0, which MQM gives outputs without errors, into 0.
        return f"{value + 0.0:g}" if self.labels is None else self.labels[int(value)]


def judgment_arrays(
    data: Data,
    *,
    criterion: str | None = None,
    annotators: Sequence[str] | None = None,
    answer: str | None = None,
    scale: tuple[float, float] | None = None,
    columns: Sequence[str] = (),
) -> JudgmentArrays:
    """Turn judgments into arrays.

    Marked judgments, those without a value or an annotator, and control items are left out, with a note. In a table,
    judgments may be texts, in the column `answer`. A judgment outside the `scale` is an error. `columns` of items or
    judgments are kept for grouping.
    """
    judgments, labels = _number_judgments(data, answer)
    table, notes = drop_rows(judgment_rows(judgments).table, _EXCLUSIONS)
    if not table.height:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise DataError(f"no judgment has an annotator and a value{why}; agreement compares annotators by their values")
    if criterion is not None:
        criteria = table["criterion"].drop_nulls().unique(maintain_order=True).to_list()
        if criterion not in criteria:
            raise unknown_name("criterion", criterion, criteria)
        table = table.filter(pl.col("criterion") == criterion)
    judgment_columns = [name for name in columns if name in table.columns]
    table = _with_item_columns(table, data, columns)
    names = table["annotator"].unique(maintain_order=True).sort().to_list()
    if annotators is not None:
        names = _require_annotators(annotators, names)
        table = table.filter(pl.col("annotator").is_in(names))
    if scale is not None:
        _require_within_scale(table, scale, labels)
    return _build_arrays(
        table, names, labels, notes, columns, list(dict.fromkeys(["item", "system", "criterion", *judgment_columns]))
    )


def _number_judgments(data: Data, answer: str | None) -> tuple[Judgments, tuple[str, ...] | None]:
    """Convert values to numbers; labels become their alphabetical index. Also return the labels, or None."""
    table = judgment_table(data)
    if set(_PAIR_COLUMNS) <= set(table.columns):  # what was judged is a pair of systems
        table = table.with_columns(
            system=pl.concat_str(pl.col(_PAIR_COLUMNS).cast(pl.String).fill_null("-"), separator=" / ")
        )
    elif "system" not in table.columns:
        table = table.with_columns(system=pl.lit("-"))  # labels of items themselves
    column = answer or "value"
    if not isinstance(data, pl.DataFrame) and answer is not None:
        column = find_answer_column(table, answer)
    if column not in table.columns:
        raise unknown_name("judgment column", column, table.columns, "name that of the judgments in `answer`")
    if column in _KEY_COLUMNS:
        raise OptionError(
            f"answer='{column}': that column says what was judged, by whom or how fast; it holds no judgments"
        )
    if table[column].dtype.is_numeric() and (answer in (None, "value") or "error" not in table.columns):
        return Judgments(table.with_columns(table[column].alias("value"))), None
    if table[column].null_count() == table.height:
        raise DataError(f"the column '{column}' holds no judgment at all; name the column of judgments in `answer`")
    if "error" in table.columns:
        raise OptionError(f"the judgments are lists of errors, so '{column}' is no judgment; leave `answer` out")
    if table[column].dtype.is_nested():
        raise DataError(f"the column '{column}' holds {table[column].dtype}; a judgment is a number or a label")
    texts = table[column].cast(pl.String).str.strip_chars().replace("", None)
    numbers = texts.cast(pl.Float64, strict=False)
    if numbers.null_count() == texts.null_count():
        return Judgments(table.with_columns(numbers.alias("value"))), None
    labels = texts.drop_nulls().unique().sort().to_list()
    codes_of_labels = [float(code) for code in range(len(labels))]
    codes = texts.replace_strict(labels, codes_of_labels, default=None, return_dtype=pl.Float64)
    return Judgments(table.with_columns(codes.alias("value"))), tuple(labels)


def _with_item_columns(table: pl.DataFrame, data: Data, columns: Sequence[str]) -> pl.DataFrame:
    missing = [name for name in columns if name not in table.columns]
    item_columns = data.items.columns if isinstance(data, EvalSet) else []
    for name in missing:
        if name not in item_columns:
            raise unknown_name("item or judgment column", name, [*item_columns, *table.columns], "check `by`")
    if not missing or not isinstance(data, EvalSet):
        return table
    of_items = data.items.select(pl.col("id").alias("item"), *missing)
    return table.join(of_items, on="item", how="left", maintain_order="left")


def _require_annotators(annotators: Sequence[str], names: list[str]) -> list[str]:
    for name in annotators:
        if name not in names:
            raise unknown_name("annotator", name, names)
    return list(dict.fromkeys(annotators))


def _require_within_scale(table: pl.DataFrame, scale: tuple[float, float], labels: tuple[str, ...] | None) -> None:
    low, high = scale
    if labels is not None:
        raise OptionError(f"`scale` is {low:g}:{high:g}; the judgments are labels, which have no scale", "scale")
    if not low < high:
        raise OptionError(f"`scale` is {low:g}:{high:g}; the lower end must be below the upper one", "scale")
    outside = table.filter(~pl.col("value").is_between(low, high))
    if outside.height:
        row = outside.row(0, named=True)
        raise DataError(
            f"the judgment {row['value']:g} of {row['annotator']} on item {row['item']}, system {row['system']} lies "
            f"outside the scale {low:g} to {high:g} ({outside.height} such judgments); correct or mark them, or change "
            "the scale"
        )


def _build_arrays(
    table: pl.DataFrame,
    names: list[str],
    labels: tuple[str, ...] | None,
    notes: list[str],
    columns: Sequence[str],
    unit_key: Sequence[str],
) -> JudgmentArrays:
    annotator = table["annotator"].replace_strict(names, list(range(len(names))), return_dtype=pl.Int64).to_numpy()
    unit = group_codes(table, unit_key)
    first, origin = _find_first_judgments(table, unit * len(names) + annotator)
    later = np.flatnonzero(~first)
    value = table["value"].to_numpy()
    repeats = (annotator[later], value[origin[later]], value[later])
    columns_kept = list(dict.fromkeys(["item", "system", "criterion", *columns]))
    if len(later):
        differing = int((repeats[1] != repeats[2]).sum())
        notes.append(
            f"{len(later)} repeats by the same annotator, {differing} of them with another judgment: the first counts"
        )
    return JudgmentArrays(
        table=table.select(columns_kept).filter(pl.Series(first)),
        unit=unit[first],
        item=group_codes(table, ("item",))[first],
        annotator=annotator[first],
        value=value[first],
        annotators=tuple(names),
        labels=labels,
        repeats=repeats,
        notes=tuple(notes),
        ordered=labels is None,
    )


def _find_first_judgments(table: pl.DataFrame, key: IntArray) -> tuple[BoolArray, IntArray]:
    """Return a mask of each annotator's first judgment on a unit, and the row of that judgment for each row."""
    rows = pl.DataFrame({"key": key, "at": np.arange(len(key))})
    order_columns = [
        name for name in _ORDER_COLUMNS if name in table.columns and table[name].null_count() < table.height
    ]
    if order_columns and rows["key"].n_unique() < len(key):
        rows = rows.with_columns(table.select(order_columns)).sort(order_columns, nulls_last=True, maintain_order=True)
    origin = rows.with_columns(pl.col("at").first().over("key").alias("origin")).sort("at")["origin"].to_numpy()
    return np.asarray(origin == np.arange(len(key))), origin.astype(np.int64)


def recode_arrays(arrays: JudgmentArrays, recoding: Recoding) -> JudgmentArrays:
    """Return the judgments on a re-coded scale."""

    def recode_values(values: FloatArray) -> FloatArray:
        old = pl.Series(values)
        if arrays.labels is not None:
            places = [float(code) for code in range(len(arrays.labels))]
            old = old.replace_strict(places, list(arrays.labels), return_dtype=pl.String)
        return recoding.apply(old).to_numpy().astype(np.float64)

    annotator, first, later = arrays.repeats
    return replace(
        arrays,
        value=recode_values(arrays.value),
        labels=recoding.labels,
        repeats=(annotator, recode_values(first), recode_values(later)),
        ordered=True,
    )


def parse_groups(text: str) -> dict[str, list[str]]:
    """Parse `experts=a1|a2,crowd=a3|a4` into group -> annotators.

    >>> parse_groups("experts=a1|a2,crowd=a3")
    {'experts': ['a1', 'a2'], 'crowd': ['a3']}
    """
    groups: dict[str, list[str]] = {}
    for part in text.split(","):
        name, equals, members = part.partition("=")
        annotators = [member.strip() for member in members.split("|") if member.strip()]
        if not (name.strip() and equals and annotators):
            raise OptionError(f"`groups` is '{text}'; write e.g. experts=a1|a2,crowd=a3|a4")
        groups[name.strip()] = annotators
    return groups


def split_groups(arrays: JudgmentArrays, groups: str | Mapping[str, Sequence[str]] | None) -> dict[str, JudgmentArrays]:
    """Return the judgments of each group of annotators (`NAME=A|B,NAME=C`), or of a column's values."""
    if isinstance(groups, str) and "=" not in groups:
        column = arrays.table[groups].cast(pl.String)
        values = column.drop_nulls().unique(maintain_order=True).to_list()
        return {value: arrays.take((column == value).fill_null(value=False).to_numpy()) for value in values}
    groups_by_name = parse_groups(groups) if isinstance(groups, str) else groups or {}
    group_of: dict[str, str] = {}
    for group, members in groups_by_name.items():
        _require_annotators(members, list(arrays.annotators))
        for name in members:
            if name in group_of:
                raise OptionError(
                    f"`groups`: the annotator '{name}' is in {quoted([group_of[name], group])}; choose one"
                )
            group_of[name] = group
    return {name: arrays.of_annotators(members) for name, members in groups_by_name.items()}
