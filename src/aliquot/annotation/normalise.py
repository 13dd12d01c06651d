"""Making annotators comparable: standard scores of each, or annotator and item effects told apart.

z-scores take an annotator's mean and spread for taste, so that an annotator who saw better outputs than others is
corrected for it, wrongly. Crossed effects look at who judged what: an annotator is strict if the same items got more
from others. They keep the scale, and shrink what rests on few judgments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from aliquot.annotation.judgment_rows import first_rows, group_codes
from aliquot.core.registry import bind, parameters_of, parse_spec
from aliquot.errors import DataError, unknown_name
from aliquot.stats.annotator_effects import GroupScores, crossed_effects, group_zscores
from aliquot.stats.arrays import FloatArray, IntArray

BY = ("annotator", "block", "criterion")
"""What z-scores are made within: each annotator's judgments on each criterion in each block (survey), where known."""

MINIMUM = 5
"""JudgmentRows an annotator needs for a mean and a spread worth the name."""

Guard = Literal["drop", "pooled"]
Unit = Literal["auto", "item", "output"]


@dataclass(frozen=True, eq=False)
class Normalised:
    """Comparable values, and what they say about the annotators.

    Attributes:
        z: the new value of each row, NaN where there is none.
        annotators: one row per annotator and criterion (and block), with judgments, and mean, sd and status (z), or
            severity, its standard error, and noise (crossed).
        notes: what a reader should know.
    """

    z: FloatArray
    annotators: pl.DataFrame
    notes: tuple[str, ...] = ()


# -- z-scores ------------------------------------------------------------------------------------------------------


def z_scores(
    table: pl.DataFrame, *, by: tuple[str, ...] = BY, minimum: int = MINIMUM, guard: Guard = "drop"
) -> Normalised:
    """Subtract each annotator's mean and divide by their standard deviation (divisor n).

    Args:
        table: judgments with value and the columns of `by`; a null value has no score.
        by: what to do it within.
        minimum: an annotator with fewer judgments has no mean and spread worth the name.
        guard: an annotator with too few or only equal judgments is left out (`drop`), or compared with the mean and
            spread of everybody's judgments on the criterion (`pooled`). A 0 for them would be a false one.

    >>> table = pl.DataFrame({"annotator": ["a"] * 3 + ["b"], "value": [1.0, 2.0, 3.0, 9.0]})
    >>> z_scores(table, by=("annotator",), minimum=2).z.round(2)
    array([-1.22,  0.  ,  1.22,   nan])
    """
    by = tuple(name for name in by if name in table.columns)
    values = table["value"].cast(pl.Float64).to_numpy()
    groups = group_codes(table, by)
    named = table["annotator"].is_not_null().to_numpy()
    found = group_zscores(np.where(named, values, np.nan), groups, minimum)
    z = found.z
    if guard == "pooled":
        everybody = group_codes(table, ["criterion"]) if "criterion" in by else np.zeros(len(values), dtype=np.int64)
        unsure = (found.few | found.constant)[groups] | ~named
        z = np.where(unsure, group_zscores(values, everybody).z, z)
    return Normalised(z, _z_report(table, by, groups, found), _z_notes(values, named, found, groups, minimum, guard))


def _z_report(table: pl.DataFrame, by: tuple[str, ...], groups: IntArray, found: GroupScores) -> pl.DataFrame:
    status = np.where(found.few, "few", np.where(found.constant, "constant", "ok"))
    numbers = {"answers": found.count, "mean": found.mean, "sd": found.sd, "status": status}
    report = (
        table[first_rows(groups)].select(by).with_columns(pl.Series(name, column) for name, column in numbers.items())
    )
    return report.filter((pl.col("answers") > 0) & pl.col("annotator").is_not_null())


def _z_notes(
    values: FloatArray, named: np.ndarray, found: GroupScores, groups: IntArray, minimum: int, guard: str
) -> tuple[str, ...]:
    notes = []
    done = "left out" if guard == "drop" else "compared with everybody's"
    for what, which in ((f"fewer than {minimum}", found.few), ("only equal", found.constant)):
        if which.any():
            rows = int((which[groups] & np.isfinite(values) & named).sum())
            notes.append(f"z-scores: {int(which.sum())} annotators (x criteria) have {what} judgments; "
                         f"their {rows} judgments are {done}")  # fmt: skip
    unnamed = int((np.isfinite(values) & ~named).sum())
    if unnamed:
        notes.append(f"z-scores: {unnamed} judgments name no annotator; they are {done}")
    return tuple(notes)


# -- crossed effects -----------------------------------------------------------------------------------------------


def crossed(table: pl.DataFrame, *, unit: Unit = "auto") -> Normalised:
    """Take each annotator's severity off their judgments; severity and item effects are fitted together, by criterion.

    Args:
        table: judgments with item, system, annotator, criterion and value.
        unit: what has an effect beside its annotator: the item, or the output (an item with its system), which needs
            outputs judged by several people; `auto` takes the output where most judgments are on such ones.

    >>> table = pl.DataFrame({"item": [0, 0, 1, 1, 2, 2], "system": ["A"] * 6, "annotator": ["a", "b"] * 3,
    ...     "criterion": ["c"] * 6, "value": [1.0, 2, 5, 6, 8, 9.5]})
    >>> crossed(table).annotators["severity"].round(2).to_list()
    [0.57, -0.57]
    """
    z = np.full(table.height, np.nan)
    usable = table.with_row_index("_row").filter(pl.col("value").is_not_null() & pl.col("annotator").is_not_null())
    if not usable.height:
        raise DataError("crossed effects need judgments with a value and an annotator; there are none")
    reports, notes = [], []
    for (criterion,), part in usable.group_by("criterion", maintain_order=True):
        adjusted, report, said = _crossed_part(part, unit)
        z[part["_row"].to_numpy()] = adjusted
        reports.append(report.with_columns(pl.lit(criterion, dtype=pl.String).alias("criterion")))
        notes += [f"{criterion}: {note}" if criterion is not None else note for note in said]
    unnamed = table.filter(pl.col("value").is_not_null() & pl.col("annotator").is_null()).height
    if unnamed:
        notes.append(f"crossed effects: {unnamed} judgments name no annotator; they are left out")
    return Normalised(z, pl.concat(reports), tuple(notes))


def _crossed_part(part: pl.DataFrame, unit: Unit) -> tuple[FloatArray, pl.DataFrame, list[str]]:
    people = part["annotator"].unique(maintain_order=True)
    person = group_codes(part, ["annotator"])
    several = float(part.select((pl.col("annotator").n_unique().over("item", "system") > 1).mean()).item())
    by_output = unit == "output" or (unit == "auto" and several >= 0.5)
    thing = group_codes(part, ["item", "system"] if by_output else ["item"])
    values = part["value"].to_numpy()
    system = group_codes(part, ["system"])
    if len(values) <= system.max() + 1:
        raise DataError(
            f"crossed effects: {len(values)} judgments on {system.max() + 1} systems are too few; use z or none"
        )
    fit = crossed_effects(values, person, thing, system)
    report = pl.DataFrame(
        {
            "annotator": people,
            "answers": np.bincount(person, minlength=len(people)),
            "severity": -fit.annotator,
            "severity_se": fit.annotator_se,
            "noise": fit.noise,
        }
    )
    things = "outputs" if by_output else "items"
    rest = fit.noise_sd if fit.noise_sd > 1e-9 * np.abs(values).max() else 0.0  # rounding errors are no noise
    sizes = f"annotators {fit.annotator_sd:.3g}, of {things} {fit.item_sd:.3g}, of the rest {rest:.3g}"
    notes = [f"crossed effects: standard deviation of {sizes}"]
    if len(people) == 1:
        notes.append("crossed effects: one annotator; severity cannot be told, values are as they were")
    elif several == 0:
        notes.append("crossed effects: no output was judged by two annotators; severity rests on items they share")
    return values - fit.annotator[person], report, notes


# -- by name -------------------------------------------------------------------------------------------------------

METHODS: dict[str, Callable[..., Normalised]] = {"z": z_scores, "crossed": crossed}
"""Name -> way to normalise."""


def normalise(table: pl.DataFrame, method: str) -> Normalised:
    """Normalise judgments by a method: `z`, `z:minimum=3,guard=pooled`, `crossed`, `crossed:unit=item`."""
    spec = parse_spec(method)
    if spec.name not in METHODS:
        raise unknown_name("way to normalise", spec.name, METHODS)
    function = METHODS[spec.name]
    return function(table, **bind(spec.name, parameters_of(function, ()), spec.parameters))
