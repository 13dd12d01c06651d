"""Ratings by criterion: rows x criteria from judgments or from a table with a column for each criterion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import digest_table, number_columns
from aliquot.annotation.judgment_rows import OPEN, group_codes, judgment_rows, require_judgments
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.formats.table_columns import map_columns
from aliquot.stats.arrays import FloatArray, IntArray

RatingRow = Literal["judgment", "output"]
ROWS: tuple[RatingRow, ...] = get_args(RatingRow)


@dataclass(frozen=True, eq=False)
class CriterionRatings:
    """Ratings as rows x criteria, with the item code of each row."""

    names: tuple[str, ...]
    values: FloatArray
    item: IntArray
    digest: str


def read_ratings(data: EvalSet | Judgments | pl.DataFrame, rows: RatingRow, where: str) -> CriterionRatings:
    """Read judgments with criteria, or a table with one column of numbers per criterion."""
    if isinstance(data, pl.DataFrame) and not {"criterion", "value"} <= set(map(str.casefold, data.columns)):
        return _read_wide_table(data, rows, where)
    if isinstance(data, pl.DataFrame):
        data = data.rename({name: name.casefold() for name in data.columns})
    judgments = require_judgments(data)
    if len(judgments.criteria) < 2:
        raise DataError(f"{where}: the judgments name fewer than two criteria; there is nothing to compare")
    answers = judgment_rows(judgments).table.filter(
        OPEN & pl.col("control").is_null() & pl.col("criterion").is_not_null()
    )
    by = ["item", "system", "annotator"] if rows == "judgment" else ["item", "system"]
    wide = answers.pivot("criterion", index=by, values="value", aggregate_function="mean", maintain_order=True)
    digest = data.fingerprint if isinstance(data, EvalSet) else digest_table(judgments.table)
    return CriterionRatings(
        names=tuple(judgments.criteria),
        values=wide.select(judgments.criteria).cast(pl.Float64).fill_null(np.nan).to_numpy(),
        item=group_codes(wide, ["item"]),
        digest=digest,
    )


def _read_wide_table(frame: pl.DataFrame, rows: RatingRow, where: str) -> CriterionRatings:
    """Read a table with one column per criterion: all numeric columns without another role."""
    roles = map_columns(frame.columns, None, where)
    keys = [roles[role] for role in ("item", "system", "annotator") if role in roles]
    apart = [name for role, name in roles.items() if role not in ("value", "cost")]
    columns = number_columns(frame, apart, where)
    if len(columns) < 2:
        raise DataError(
            f"{where}: fewer than two columns hold numbers; give judgments with criteria, or one column for each"
        )
    values, table = np.column_stack(list(columns.values())), frame
    if rows == "output" and keys:
        by = [name for name in keys if name != roles.get("annotator")]
        grouped = frame.select(by).with_columns(pl.Series(name, v, nan_to_null=True) for name, v in columns.items())
        table = grouped.group_by(by, maintain_order=True).agg(pl.col(*columns).mean())
        values = table.select(*columns).fill_null(np.nan).to_numpy()
    item = group_codes(table, [roles["item"]]) if "item" in roles else np.arange(len(values))
    return CriterionRatings(tuple(columns), values, item, digest_table(frame))


def choose_criteria(table: CriterionRatings, only: Sequence[str] | None) -> CriterionRatings:
    """Return the ratings on these criteria; all where None."""
    if only is None:
        return table
    for name in only:
        if name not in table.names:
            raise unknown_name("criterion", name, table.names, "check `only`")
    if len(only) < 2:
        raise OptionError("criteria are compared with each other: name at least two")
    columns = [table.names.index(name) for name in only]
    return CriterionRatings(tuple(only), table.values[:, columns], table.item, table.digest)


_REVERSED_WORDS = ("-1", "-1.0", "reversed", "flipped", "true", "yes", "-")


def turn_by_polarity(
    data: EvalSet | Judgments | pl.DataFrame, scale: tuple[float, float] | None, where: str
) -> tuple[EvalSet | Judgments | pl.DataFrame, list[str]]:
    """Reverse judgments that the column `polarity` marks as given with exchanged poles."""
    table = data if isinstance(data, pl.DataFrame) else require_judgments(data).table
    if not {"polarity", "value"} <= set(table.columns):
        return data, []
    value = pl.col("value").cast(pl.Float64)
    turned = (
        pl.col("polarity").cast(pl.String).str.strip_chars().str.to_lowercase().is_in(_REVERSED_WORDS).fill_null(False)
    )
    values = table["value"].cast(pl.Float64).drop_nulls()
    if not len(values) or not table.select(turned.any()).item():
        return data, []
    numbers = values.to_numpy()
    smallest, largest = float(numbers.min()), float(numbers.max())
    low, high = scale or (smallest, largest)
    if smallest < low or largest > high:
        raise DataError(f"{where}: values go from {smallest:g} to {largest:g}, outside the scale {low:g}:{high:g}")
    note = (
        f"{table.select(turned.sum()).item()} judgments with reversed poles are turned on the scale {low:g} to {high:g}"
    )
    upright = table.with_columns(pl.when(turned).then(low + high - value).otherwise(value).alias("value"))
    if isinstance(data, pl.DataFrame):
        return upright, [note]
    judgments = Judgments(upright)
    return replace(data, judgments=judgments) if isinstance(data, EvalSet) else judgments, [note]


def flip_criteria(table: CriterionRatings, flip: Sequence[str]) -> CriterionRatings:
    """Change the sign of criteria whose poles are the other way round."""
    for name in flip:
        if name not in table.names:
            raise unknown_name("criterion", name, table.names, "check `flip`")
    sign = np.array([-1.0 if name in flip else 1.0 for name in table.names])
    return replace(table, values=table.values * sign)
