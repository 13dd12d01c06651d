"""`combine`: one score for each output out of many judgments, ready for `estimate`, `metrics` and `simulate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.combine_methods import (
    METHODS,
    CellJudgments,
    CombineMethod,
    LabelsCurve,
    labels_curve_of,
    parse_method,
)
from aliquot.annotation.combine_result import Combined
from aliquot.annotation.formula import Formula, parse_formula
from aliquot.annotation.judgment_rows import make_evalset
from aliquot.annotation.prepare import (
    Recodes,
    format_recoding,
    make_comparable,
    parse_recodings,
    recode_judgments,
    select_countable,
)
from aliquot.core import memory
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import make_signature
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.formats.mqm import MQMWeights
from aliquot.io.inputs import DataLike, as_judged
from aliquot.stats.arrays import FloatArray, IntArray, Seed


@dataclass(frozen=True, eq=False)
class Part:
    """One criterion combined."""

    criterion: str | None  # None where judgments name none
    values: FloatArray  # N x M; NaN where undecided or not judged
    cells: pl.DataFrame  # one row per judged output: item, system, criterion, value, answers, confidence, best
    annotators: pl.DataFrame | None  # what was learned about them
    points: tuple[pl.DataFrame, int] | None  # the labels-per-item curve and the number of its outputs, if asked for
    notes: tuple[str, ...]


_CELLS = {
    "item": pl.String,
    "system": pl.String,
    "criterion": pl.String,
    "value": pl.Float64,
    "answers": pl.Int64,
    "confidence": pl.Float64,
    "best": pl.Float64,
}


def queue_undecided(cells: pl.DataFrame, evalset: EvalSet) -> pl.DataFrame:
    """Return the undecided outputs, least certain first, with their texts."""
    waiting = cells.filter(pl.col("value").is_null()).sort("confidence", maintain_order=True, nulls_last=True)
    waiting = waiting.select("item", "system", "criterion", "best", "confidence", "answers")
    if not waiting.height:
        return waiting
    rows, columns = evalset.cell_index(waiting["item"], waiting["system"])
    texts = []
    if "source" in evalset.items.columns:
        texts.append(evalset.items["source"].gather(rows))
    if evalset.outputs is not None:
        stacked = pl.concat([evalset.outputs[system] for system in evalset.systems])
        texts.append(stacked.gather(columns * evalset.n_items + rows).alias("output"))
    return waiting.with_columns(texts)


def average_systems(evalset: EvalSet, score: str) -> pl.DataFrame:
    """Return each system's mean score and number of items, best first."""
    values = evalset.scores[score]
    count = np.isfinite(values).sum(axis=0)
    mean = np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), np.nan)
    table = pl.DataFrame({"system": list(evalset.systems), score: pl.Series(mean, nan_to_null=True), "items": count})
    return table.sort(score, descending=True, nulls_last=True, maintain_order=True)


def join_curves(parts: Sequence[Part], against: str) -> LabelsCurve:
    """Join the criteria's curves into one table."""
    tables, outputs, notes = [], {}, []
    for part in parts:
        if part.points is None:
            continue
        table, count = part.points
        label = part.criterion or "all"
        if count:
            tables.append(table.select(pl.lit(label).alias("criterion"), pl.all()))
            outputs[label] = count
        else:
            notes.append(f"{label}: fewer than ten outputs have two judgments; there is no curve")
    if against == "all answers" and tables:
        notes.append(
            "the judgments drawn are among all judgments, so errors are too small; `experts` "
            "compares with annotators who took no part"
        )
    return LabelsCurve(pl.concat(tables) if tables else pl.DataFrame(), outputs, against, tuple(notes))


HUMAN = "human"


@dataclass(frozen=True)
class _CombineSettings:
    """Settings for combining a criterion."""

    method: CombineMethod
    parameters: Mapping[str, Any]
    experts: tuple[str, ...]
    curve: bool
    repeats: int
    seed: Seed


def combine(
    data: DataLike | Judgments,
    method: str = "mean",
    *,
    criterion: str | None = None,
    formula: str | None = None,
    recode: Recodes | None = None,
    normalise: str | None = None,
    name: str | None = None,
    threshold: float | None = None,
    experts: Sequence[str] = (),
    source: str | None = None,
    answer: str = "value",
    mqm_weights: MQMWeights | str | None = None,
    curve: bool = False,
    repeats: int = 20,
    seed: Seed = 0,
) -> Combined:
    """Combine judgments into one score per output.

    Judgments that are marked, pending, skipped, or on control items do not count. Each criterion is combined alone; a
    formula then joins them output by output.

    Args:
        data: an EvalSet with judgments, or judgments.
        method: `mean`, `median`, `trimmed:share=0.2`, `majority` or `dawid_skene:threshold=0.9`.
        criterion: combine only this one; by default all, and their mean unless there is a formula.
        formula: a joint score, e.g. `sta * sim * (fluency >= source.fluency)`, of criteria or scores of the data.
        recode: values of judgments: `no=0,partially=0.5,yes=1`, or `1|2=0,3..5=1`; prefix `criterion:` for one
            criterion.
        normalise: for measurements, `z` (each annotator's z-scores; `z:minimum=5,guard=drop`, or `guard=pooled` for
            annotators with few or only equal judgments) or `crossed` (severity subtracted; `crossed:unit=item`).
        name: the new score's name; by default `human`, `human_<criterion>`, or `human_joint` of a formula.
        threshold: minimum vote share or posterior of a label; other outputs go to the experts' queue.
        experts: annotators whose judgments replace those of others on the outputs that they judged.
        source: the "system" that is the source text, judged for comparison; it is dropped from the data.
        answer: the column that holds the judgments, e.g. `label`.
        mqm_weights: for error lists, weights of errors: `major=5,minor=1`.
        curve: estimate the error of fewer judgments per output by repeated draws.
        repeats: number of draws for each number of judgments.
        seed: seed of the draws.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=40, systems=3, protocol="likert", judgments_per_output=3, seed=1)
    >>> combined = aliquot.combine(data, "median")
    >>> combined.evalset.human, combined.evalset.scores["human"].shape
    ('human', (40, 3))
    """
    memory.limit_draws(repeats=repeats)
    data = as_judged(data, None if answer == "value" else answer)
    evalset = make_evalset(data)
    criteria = evalset.judgments.criteria if evalset.judgments is not None else []
    combine_method, spec = parse_method(method, threshold=threshold)
    joint = parse_formula(formula) if formula is not None else None
    _validate_combination(combine_method, joint, criterion, normalise, source, evalset)
    weights = MQMWeights.parse(mqm_weights) if isinstance(mqm_weights, str) else mqm_weights
    selected = _criteria_to_combine(criterion, joint, criteria, evalset)
    parts: list[Part] = []
    notes: list[str] = []
    annotators: list[pl.DataFrame] = []
    if selected:
        table, notes = select_countable(data, answer=answer, mqm_weights=weights)
        table = recode_judgments(_keep_criteria(table, criteria, selected, notes), parse_recodings(recode, criteria))
        table, normalised = make_comparable(table, normalise)
        if normalised is not None:
            notes += normalised.notes
            annotators.append(normalised.annotators)
        if not table.height:
            raise DataError(f"{evalset.name}: no judgment is left to combine" + "".join(f"; {note}" for note in notes))
        settings = _CombineSettings(
            combine_method, spec.parameters, _require_experts(experts, table), curve, repeats, seed
        )
        parts = [_combine_criterion(evalset, table, name_of_part, settings) for name_of_part in selected]
    line = make_signature(
        "combine",
        evalset,
        method=spec if selected else None,
        criterion=criterion,
        formula=formula,
        source=source,
        recode=format_recoding(recode),
        normalise=normalise,
        answer=None if answer == "value" else answer,
        mqm_weights=weights and ",".join(f"{k}={v:g}" for k, v in vars(weights).items()),
        experts=",".join(experts) or None,
        name=name,
        seed=seed if curve and isinstance(seed, int) else None,
    )
    final = name or (f"{HUMAN}_joint" if joint else HUMAN if criterion is None else f"{HUMAN}_{criterion}")
    scored = _add_scores(evalset, parts, joint, source, final, notes)
    cells = pl.concat([part.cells for part in parts]) if parts else pl.DataFrame(schema=_CELLS)
    queue = queue_undecided(cells, evalset)
    if queue.height:
        notes.append(
            f"{queue.height} of {cells.height} outputs (x criteria) are undecided and wait for experts; hard "
            "outputs are missing until then, so means may be too high or too low"
        )
    notes += [note for part in parts for note in part.notes]
    annotators += [part.annotators for part in parts if part.annotators is not None]
    learned = pl.concat(annotators, how="diagonal_relaxed") if annotators else pl.DataFrame()
    return Combined(
        evalset=scored,
        score=final,
        cells=cells,
        queue=queue,
        annotators=learned.select(column.name for column in learned if column.null_count() < learned.height),
        systems=average_systems(scored, final),
        curve=join_curves(parts, "experts" if experts else "all answers") if curve else None,
        notes=tuple(notes),
        signature=line,
    )


def _validate_combination(
    method: CombineMethod,
    joint: Formula | None,
    criterion: str | None,
    normalise: str | None,
    source: str | None,
    evalset: EvalSet,
) -> None:
    """Refuse options that do not go together."""
    if normalise is not None and method.labels:
        measures = ", ".join(name for name, entry in METHODS.items() if not entry.labels)
        raise OptionError(
            f"{method.name} combines labels, which have no mean to normalise by; use {measures}, or leave normalise out"
        )
    if joint is not None and criterion is not None:
        raise OptionError("criterion and formula exclude each other; a formula names its criteria itself")
    if source is not None and source not in evalset.systems:
        raise unknown_name("system", source, evalset.systems, "check `source`")
    if joint is not None and joint.source_names and source is None:
        raise OptionError(f'formula "{joint.text}" compares with the source; say in `source` which system it is')


def _criteria_to_combine(
    criterion: str | None, joint: Formula | None, criteria: list[str], evalset: EvalSet
) -> list[str | None]:
    """Return the criteria to combine; [None] where judgments name none."""
    if criterion is not None:
        if criterion not in criteria:
            raise unknown_name("criterion", criterion, criteria)
        return [criterion]
    if joint is None:
        return list(criteria) or [None]
    for name in joint.names:
        if name not in criteria and name not in evalset.scores:
            raise unknown_name("criterion or score", name, [*criteria, *evalset.scores], "check the formula")
    return [name for name in joint.names if name in criteria]


def _keep_criteria(
    table: pl.DataFrame, criteria: list[str], selected: list[str | None], notes: list[str]
) -> pl.DataFrame:
    """Keep the judgments on these criteria."""
    if not criteria:
        return table
    unnamed = table["criterion"].null_count()
    if unnamed:
        notes.append(f"{unnamed} judgments name no criterion; they are left out")
    return table.filter(pl.col("criterion").is_in([name for name in selected if name is not None]))


def _require_experts(experts: Sequence[str], table: pl.DataFrame) -> tuple[str, ...]:
    annotators = table["annotator"].drop_nulls().unique(maintain_order=True).to_list()
    for name in experts:
        if name not in annotators:
            raise unknown_name("annotator", name, annotators, "check `experts`")
    return tuple(experts)


# -- one criterion -------------------------------------------------------------------------------------------------


def _combine_criterion(
    evalset: EvalSet, table: pl.DataFrame, criterion: str | None, settings: _CombineSettings
) -> Part:
    """Combine the judgments on one criterion."""
    table = table if criterion is None else table.filter(pl.col("criterion") == criterion)
    decided = _expert_values(evalset, table, settings) if settings.experts else None
    crowd = (
        table.filter(~pl.col("annotator").is_in(settings.experts).fill_null(value=False)) if settings.experts else table
    )
    judgments = CellJudgments.from_table(crowd)
    scores = settings.method.run(judgments, settings.parameters)
    values, (rows, columns) = _place_values(evalset, judgments, scores.value)
    if decided is not None:
        values = np.where(np.isfinite(decided), decided, values)
    cells = judgments.cells.with_columns(
        pl.lit(criterion, dtype=pl.String).alias("criterion"),
        pl.Series("value", values[rows, columns], nan_to_null=True),
        pl.Series("answers", judgments.count),
        pl.Series("confidence", scores.confidence, nan_to_null=True),
        pl.Series("best", scores.best, nan_to_null=True),
    )
    points = None
    if settings.curve:
        truth = None if decided is None else decided[rows, columns]
        points = labels_curve_of(
            judgments, settings.method, settings.parameters, truth, repeats=settings.repeats, seed=settings.seed
        )
    learned = scores.annotators
    if learned is not None:
        learned = learned.with_columns(pl.lit(criterion, dtype=pl.String).alias("criterion"))
    notes = tuple(f"{criterion}: {note}" if criterion else note for note in scores.notes)
    return Part(criterion, values, cells, learned, points, notes)


def _expert_values(evalset: EvalSet, table: pl.DataFrame, settings: _CombineSettings) -> FloatArray:
    """Return the experts' values, NaN where they did not judge or disagree on a label."""
    judgments = CellJudgments.from_table(table.filter(pl.col("annotator").is_in(settings.experts)))
    scores = METHODS["majority" if settings.method.labels else "mean"].run(judgments, {})
    return _place_values(evalset, judgments, scores.value)[0]


def _place_values(
    evalset: EvalSet, judgments: CellJudgments, value: FloatArray
) -> tuple[FloatArray, tuple[IntArray, IntArray]]:
    """Return values as N x M, and the rows and columns of the judged outputs."""
    place = evalset.cell_index(judgments.cells["item"], judgments.cells["system"])
    values = np.full((evalset.n_items, evalset.n_systems), np.nan)
    values[place] = value
    return values, place


# -- the joint score -----------------------------------------------------------------------------------------------


def _add_scores(
    evalset: EvalSet, parts: list[Part], joint: Formula | None, source: str | None, final: str, notes: list[str]
) -> EvalSet:
    """Return the data with the joint score, and with the score of each of several criteria."""
    values = _join_criteria(evalset, parts, joint, source, notes)
    scored = evalset
    for part in parts if len(parts) > 1 else []:
        scored = scored.with_score(f"{HUMAN}_{part.criterion}", part.values)
    if final in evalset.scores:
        notes.append(f"the score '{final}' that the data had is replaced; `name` keeps it")
    scored = scored.with_score(final, values).with_human(final)
    if source is not None:
        scored = scored.drop(systems=[source])
        notes.append(f"'{source}' is the source, not a system, and left out")
    return scored


def _join_criteria(
    evalset: EvalSet, parts: list[Part], joint: Formula | None, source: str | None, notes: list[str]
) -> FloatArray:
    """Compute the formula, or the mean of the criteria; NaN for outputs that lack a criterion."""
    if joint is None:
        stacked = np.stack([part.values for part in parts])
        _note_partial(stacked, notes)
        return np.asarray(stacked.mean(axis=0))
    by_name = {part.criterion: part.values for part in parts}
    values = {name: by_name[name] if name in by_name else evalset.scores[name] for name in joint.names}
    of_source = {}
    if source is not None:
        column = evalset.systems.index(source)
        of_source = {name: values[name][:, [column]] for name in joint.source_names}
    _note_partial(np.stack(list(values.values())), notes)
    result = joint.evaluate(values, of_source)
    joined = np.array(np.broadcast_to(result, (evalset.n_items, evalset.n_systems)), dtype=np.float64)
    is_complete = np.all(
        [np.isfinite(part) & np.ones_like(joined, bool) for part in (*values.values(), *of_source.values())], 0
    )
    lost = is_complete & ~np.isfinite(joined)
    if lost.any():
        notes.append(
            f'the formula "{joint.text}" gives no number on {int(lost.sum())} of {int(is_complete.sum())} outputs: '
            "it divides by 0, takes the root of a negative, or goes beyond all numbers; they have no joint "
            "score"
        )
    return joined


def _note_partial(stacked: FloatArray, notes: list[str]) -> None:
    present = np.isfinite(stacked)
    partial = int((present.any(axis=0) & ~present.all(axis=0)).sum())
    if partial:
        notes.append(f"{partial} outputs lack a criterion; they have no joint score")
