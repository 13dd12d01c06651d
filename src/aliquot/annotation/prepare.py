"""Judgments made ready to be combined: those that count, with other weights, on another scale, comparable.

Two ways make annotators comparable. z-scores treat an annotator's mean and spread as taste, so an annotator who saw
better outputs than others is corrected for it, wrongly. Crossed effects look at which annotator judged what: an
annotator is strict if the same items got more from others. They keep the scale, and shrink what rests on few judgments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from aliquot.annotation.judgment_rows import (
    Data,
    RecodeLike,
    Recoding,
    drop_rows,
    first_rows,
    group_codes,
    judgment_rows,
    parse_recoding,
    require_judgments,
)
from aliquot.core.columns import cast_column
from aliquot.core.judgments import MARKED, Judgments, find_answer_column
from aliquot.core.registry import bind_parameters, format_value, parse_spec, read_parameters
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.formats.mqm import MQMWeights
from aliquot.stats.annotator_effects import GroupZScores, crossed_effects, group_zscores
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

_LABEL = "_label"
RecodeAny = RecodeLike | Recoding
Recodes = RecodeAny | Mapping[str, RecodeAny] | Sequence[RecodeAny]
"""One map, a map for each criterion, or several that name theirs."""


def select_countable(
    data: Data, *, answer: str = "value", mqm_weights: MQMWeights | None = None
) -> tuple[pl.DataFrame, list[str]]:
    """Return the judgments that count (unmarked, with a value, not on control items), and what was left out.

    The column `answer` of the result holds the values, numbers or labels.
    """
    judgments, answer = _judgments_and_column(data, answer)
    if mqm_weights is not None:
        judgments = reweight_errors(judgments, mqm_weights)
    absent = pl.col(answer).is_null()
    left_out = {
        "marked judgments": pl.col(MARKED).is_not_null(),
        "pending judgments": (pl.col("state") == "pending") & absent,
        "skipped judgments": (pl.col("state") == "skipped") & absent,
        "judgments on control items": pl.col("control").is_not_null(),
    }
    table, notes = drop_rows(judgment_rows(judgments).table, left_out)
    return table.with_columns(pl.col(answer).alias("answer")), notes


def _judgments_and_column(data: Data, answer: str) -> tuple[Judgments, str]:
    """Return judgments and the name of the column with their values."""
    if isinstance(data, pl.DataFrame) and answer == "value" and data.schema.get("value") == pl.String:
        data = data.with_columns(pl.col("value").alias(_LABEL), pl.lit(None, dtype=pl.Float64).alias("value"))
        answer = _LABEL
    elif isinstance(data, pl.DataFrame) and answer in data.columns and "value" not in data.columns:
        data = data.with_columns(pl.lit(None, dtype=pl.Float64).alias("value"))
    judgments = require_judgments(data)
    answer = find_answer_column(judgments.table, answer)
    if answer not in judgments.table.columns:
        raise unknown_name("judgment column", answer, judgments.table.columns, "name that of the judgments in `answer`")
    return judgments, answer


def reweight_errors(judgments: Judgments, weights: MQMWeights) -> Judgments:
    """Set the values of MQM errors to minus the weights.

    >>> errors = pl.DataFrame({"item": [0, 0], "system": ["A", "A"], "value": [0.0, 0.0], "error": [0, 1],
    ...     "category": ["Accuracy", "Fluency/Punctuation"], "severity": ["Major", "minor"]})
    >>> reweight_errors(Judgments(errors), MQMWeights(major=10)).table["value"].to_list()
    [-10.0, -0.1]
    """
    table = judgments.table
    lacking = [name for name in ("category", "severity") if name not in table.columns]
    if lacking:
        raise DataError(
            f"MQM weights need error lists: judgments with category and severity; '{lacking[0]}' is missing"
        )
    kinds = table.select(pl.col("category", "severity").cast(pl.String).fill_null("")).unique(maintain_order=True)
    costs = [weights.weigh_error(category, severity) for category, severity in kinds.iter_rows()]
    if None in costs:
        category, severity = kinds.row(costs.index(None))
        raise DataError(
            f"unknown severity '{severity}' (category '{category}'); known are no-error, neutral, minor, "
            "major, critical"
        )
    costed = kinds.with_columns(pl.Series("value", [-float(cost or 0.0) + 0.0 for cost in costs]))
    texts = table.drop("value").with_columns(pl.col("category", "severity").cast(pl.String).fill_null(""))
    return Judgments(texts.join(costed, on=["category", "severity"], how="left", maintain_order="left"))


def parse_recodings(recode: Recodes | None, criteria: Sequence[str]) -> dict[str | None, Recoding]:
    """Return criterion -> map; None is the key of a map for all criteria.

    >>> sorted(parse_recodings("fluency:yes=1,partially=0.5,no=0", ["fluency", "style"]))
    ['fluency']
    """
    if recode is None:
        return {}
    if isinstance(recode, Mapping) and recode and all(name in criteria for name in recode):
        return {name: _parse_numeric_recoding(value, name) for name, value in recode.items()}  # type: ignore[arg-type]
    maps = list(recode) if isinstance(recode, list | tuple) else [recode]
    recodings: dict[str | None, Recoding] = {}
    for recoding_text in maps:
        recoding = _parse_numeric_recoding(recoding_text, "")  # type: ignore[arg-type]
        key = recoding.name if recoding.name in criteria else None
        if key in recodings:
            raise OptionError(f"two re-codings are for {'all criteria' if key is None else key}; give one")
        if key is None and recoding.name and len(criteria) > 1 and len(maps) > 1:
            raise unknown_name("criterion", recoding.name, criteria, "check `recode`")
        recodings[key] = recoding
    return recodings


def _parse_numeric_recoding(recoding_text: RecodeAny, name: str) -> Recoding:
    recoding = recoding_text if isinstance(recoding_text, Recoding) else parse_recoding(recoding_text, name)
    if recoding.labels is not None:
        raise OptionError(f"re-coding '{recoding}': scores are numbers; write numbers after '=', e.g. yes=1,no=0")
    return recoding


def recode_judgments(table: pl.DataFrame, recodings: Mapping[str | None, Recoding]) -> pl.DataFrame:
    """Re-code the values; labels need a re-coding."""
    return table.with_columns(_numeric_values(table, "answer", recodings)).filter(pl.col("value").is_not_null())


def recode_values(data: Data, answer: str, recode: Recodes | None) -> Judgments:
    """Return all judgments with re-coded values; the column `expected` is re-coded, too.

    >>> table = pl.DataFrame({"item": [0, 1], "system": ["A", "A"], "value": ["yes", None]})
    >>> recode_values(table, "value", "yes=1,no=0").table["value"].to_list()
    [1.0, None]
    """
    judgments, column = _judgments_and_column(data, answer)
    recodings = parse_recodings(recode, judgments.criteria)
    table = judgments.table.with_columns(_numeric_values(judgments.table, column, recodings))
    if "expected" in table.columns:
        table = table.with_columns(_numeric_values(table, "expected", recodings).alias("expected"))
    return Judgments(table)


def _numeric_values(table: pl.DataFrame, column: str, recodings: Mapping[str | None, Recoding]) -> pl.Series:
    """Convert a column to numbers by each criterion's re-coding."""
    values = table[column]
    if not recodings and values.dtype == pl.String and values.count():
        raise DataError(
            f"the judgments are labels ('{values.drop_nulls()[0]}'); say what each is worth in `recode`, "
            "e.g. yes=1,partially=0.5,no=0"
        )
    parts = [pl.DataFrame(schema={"_row": pl.UInt32, "value": pl.Float64})]
    for (criterion,), part in table.with_row_index("_row").group_by("criterion", maintain_order=True):
        recoding = recodings.get(None if criterion is None else str(criterion)) or recodings.get(None)
        mine = part[column]
        new = recoding.apply(mine) if recoding else cast_column(mine, pl.Float64(), f"the judgments on '{criterion}'")
        parts.append(part.select("_row", new.alias("value")))
    return pl.concat(parts).sort("_row")["value"]


def make_comparable(table: pl.DataFrame, method: str | None) -> tuple[pl.DataFrame, Normalised | None]:
    """Normalise judgments; those without a normalised value are dropped."""
    if method is None:
        return table, None
    normalised = normalise_judgments(table, method)
    values = pl.Series("value", normalised.z, nan_to_null=True)
    return table.with_columns(values).filter(pl.col("value").is_not_null()), normalised


def format_recoding(recode: Recodes | None) -> str | None:
    """Format re-codings for a signature.

    >>> format_recoding("1|2=0,3=1")
    '(1|2=0,3=1)'
    """
    if recode is None:
        return None
    if isinstance(recode, Mapping):
        recode = [f"{name}:{value}" for name, value in recode.items()]
    return format_value(str(recode) if isinstance(recode, str | Recoding) else ";".join(map(str, recode)))


# -- comparable annotators -----------------------------------------------------------------------------------------

Z_GROUPS = ("annotator", "block", "criterion")
"""Groups of z-scores: each annotator's judgments on each criterion in each block (survey), where known."""

MIN_JUDGMENTS = 5
"""Judgments an annotator needs for a usable mean and spread."""

Guard = Literal["drop", "pooled"]
Unit = Literal["auto", "item", "output"]


@dataclass(frozen=True, eq=False)
class Normalised:
    """Normalised values, and statistics of the annotators."""

    z: FloatArray  # the new value of each row, NaN where there is none
    # One row per annotator and criterion (and block): judgments, and mean, sd and status (z), or severity, its standard
    # error, and noise (crossed).
    annotators: pl.DataFrame
    notes: tuple[str, ...] = ()


def normalise_by_z(
    table: pl.DataFrame, *, by: tuple[str, ...] = Z_GROUPS, minimum: int = MIN_JUDGMENTS, guard: Guard = "drop"
) -> Normalised:
    """Subtract each annotator's mean and divide by their standard deviation (divisor n).

    `guard`: an annotator with too few or only equal judgments is left out (`drop`), or compared with the mean and
    spread of all judgments on the criterion (`pooled`). A 0 would be wrong for them.

    >>> table = pl.DataFrame({"annotator": ["a"] * 3 + ["b"], "value": [1.0, 2.0, 3.0, 9.0]})
    >>> normalise_by_z(table, by=("annotator",), minimum=2).z.round(2)
    array([-1.22,  0.  ,  1.22,   nan])
    """
    by = tuple(name for name in by if name in table.columns)
    values = table["value"].cast(pl.Float64).to_numpy()
    groups = group_codes(table, by)
    has_annotator = table["annotator"].is_not_null().to_numpy()
    scores = group_zscores(np.where(has_annotator, values, np.nan), groups, minimum)
    z = scores.z
    if guard == "pooled":
        pool = group_codes(table, ["criterion"]) if "criterion" in by else np.zeros(len(values), dtype=np.int64)
        unsure = (scores.few | scores.constant)[groups] | ~has_annotator
        z = np.where(unsure, group_zscores(values, pool).z, z)
    return Normalised(
        z, _z_report(table, by, groups, scores), _z_notes(values, has_annotator, scores, groups, minimum, guard)
    )


def _z_report(table: pl.DataFrame, by: tuple[str, ...], groups: IntArray, scores: GroupZScores) -> pl.DataFrame:
    status = np.where(scores.few, "few", np.where(scores.constant, "constant", "ok"))
    numbers = pl.DataFrame({"answers": scores.count, "mean": scores.mean, "sd": scores.sd, "status": status})
    report = table[first_rows(groups)].select(by).hstack(numbers)
    return report.filter((pl.col("answers") > 0) & pl.col("annotator").is_not_null())


def _z_notes(
    values: FloatArray, named: BoolArray, scores: GroupZScores, groups: IntArray, minimum: int, guard: str
) -> tuple[str, ...]:
    notes = []
    treatment = "left out" if guard == "drop" else "compared with those of all annotators"
    for what, which in ((f"fewer than {minimum}", scores.few), ("only equal", scores.constant)):
        if which.any():
            rows = int((which[groups] & np.isfinite(values) & named).sum())
            notes.append(
                f"z-scores: {int(which.sum())} annotators (x criteria) have {what} judgments; "
                f"their {rows} judgments are {treatment}"
            )
    unnamed = int((np.isfinite(values) & ~named).sum())
    if unnamed:
        notes.append(f"z-scores: {unnamed} judgments name no annotator; they are {treatment}")
    return tuple(notes)


def normalise_crossed(table: pl.DataFrame, *, unit: Unit = "auto") -> Normalised:
    """Subtract each annotator's severity, fitted together with item effects for each criterion.

    `unit`: what has an effect beside its annotator: the item, or the output (an item with its system), which needs
    outputs judged by several annotators; `auto` takes the output where most judgments are on such ones.

    >>> table = pl.DataFrame({"item": [0, 0, 1, 1, 2, 2], "system": ["A"] * 6, "annotator": ["a", "b"] * 3,
    ...     "criterion": ["c"] * 6, "value": [1.0, 2, 5, 6, 8, 9.5]})
    >>> normalise_crossed(table).annotators["severity"].round(2).to_list()
    [0.57, -0.57]
    """
    z = np.full(table.height, np.nan)
    usable = table.with_row_index("_row").filter(pl.col("value").is_not_null() & pl.col("annotator").is_not_null())
    if not usable.height:
        raise DataError("crossed effects need judgments with a value and an annotator; there are none")
    reports, notes = [], []
    for (criterion,), part in usable.group_by("criterion", maintain_order=True):
        adjusted, report, part_notes = _fit_crossed_effects(part, unit)
        z[part["_row"].to_numpy()] = adjusted
        reports.append(report.with_columns(pl.lit(criterion, dtype=pl.String).alias("criterion")))
        notes += [f"{criterion}: {note}" if criterion is not None else note for note in part_notes]
    unnamed = table.filter(pl.col("value").is_not_null() & pl.col("annotator").is_null()).height
    if unnamed:
        notes.append(f"crossed effects: {unnamed} judgments name no annotator; they are left out")
    return Normalised(z, pl.concat(reports), tuple(notes))


def _fit_crossed_effects(part: pl.DataFrame, unit: Unit) -> tuple[FloatArray, pl.DataFrame, list[str]]:
    annotators, annotator = part["annotator"].unique(maintain_order=True), group_codes(part, ["annotator"])
    several = float(part.select((pl.col("annotator").n_unique().over("item", "system") > 1).mean()).item())
    by_output = unit == "output" or (unit == "auto" and several >= 0.5)
    judged = group_codes(part, ["item", "system"] if by_output else ["item"])
    values, system = part["value"].to_numpy(), group_codes(part, ["system"])
    if len(values) <= system.max() + 1:
        raise DataError(
            f"crossed effects: {len(values)} judgments on {system.max() + 1} systems are too few; use z or none"
        )
    fit = crossed_effects(values, annotator, judged, system)
    report = pl.DataFrame(
        {
            "annotator": annotators,
            "answers": np.bincount(annotator, minlength=len(annotators)),
            "severity": -fit.annotator,
            "severity_se": fit.annotator_se,
            "noise": fit.noise,
        }
    )
    noise_sd = fit.noise_sd if fit.noise_sd > 1e-9 * np.abs(values).max() else 0.0  # rounding errors are not noise
    effects = "outputs" if by_output else "items"
    sizes = f"annotators {fit.annotator_sd:.3g}, of {effects} {fit.item_sd:.3g}, of the rest {noise_sd:.3g}"
    notes = [f"crossed effects: standard deviation of {sizes}"]
    if len(annotators) == 1:
        notes.append("crossed effects: one annotator; severity cannot be estimated, values are unchanged")
    elif several == 0:
        notes.append("crossed effects: no output was judged by two annotators; severity rests on items they share")
    return values - fit.annotator[annotator], report, notes


NORMALISATIONS: dict[str, Callable[..., Normalised]] = {"z": normalise_by_z, "crossed": normalise_crossed}
"""Name -> way to normalise."""


def normalise_judgments(table: pl.DataFrame, method: str) -> Normalised:
    """Normalise judgments by a method: `z`, `z:minimum=3,guard=pooled`, `crossed`, `crossed:unit=item`."""
    spec = parse_spec(method)
    if spec.name not in NORMALISATIONS:
        raise unknown_name("way to normalise", spec.name, NORMALISATIONS)
    function = NORMALISATIONS[spec.name]
    return function(table, **bind_parameters(spec.name, read_parameters(function, ()), spec.parameters))
