"""Bringing data, selection and judgments together, and telling in one table what does not fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.core import memory
from aliquot.core.conventions import is_human_name
from aliquot.core.evalset import EvalSet, take_rows
from aliquot.core.judgments import MARKED, MODEL, Judgments, MergedRepeats, merge_repeats
from aliquot.core.origin import OUTPUT_DIGEST, describe_outputs, match_outputs
from aliquot.core.registry import Spec
from aliquot.core.selection import Selection
from aliquot.errors import (
    AliquotWarning,
    DataError,
    LeftOutWarning,
    OptionError,
    closest,
    quoted,
    unknown_name,
    warn_caller,
)
from aliquot.io.inputs import JudgmentsLike, as_judgments
from aliquot.stats.arrays import FloatArray, overflow_scale

# -- Bringing data, selection and judgments together, and telling in one table what does not fit ---------------------


HUMAN = "human"
COPIES, REPEATS = "copies of judgments", "repeats by the same annotator"
_MARKED_BY_CLEAN = "judgments marked by clean"
_LEFT_OUT_ACTION = "left out"
_MAX_EXAMPLES = 3


@dataclass(frozen=True)
class Mismatch:
    """A kind of mismatch between judgments and data: what, how many, an example, and what was done."""

    what: str
    count: int
    example: str
    action: str

    @property
    def sentence(self) -> str:
        """The mismatch in one sentence."""
        what = f"judgments of {self.what}" if self.what.startswith("unknown") else self.what
        return f"{self.count} {what.replace('judgments', 'judgment', self.count == 1)} {self.action}: {self.example}"


def _refuse_changed_outputs(data: EvalSet, table: pl.DataFrame) -> None:
    """Raise DataError if outputs changed since a campaign judged them."""
    if OUTPUT_DIGEST not in table.columns or data.outputs is None:
        return
    cells = (
        table.filter(pl.col(OUTPUT_DIGEST).is_not_null())
        .select("_key", "system", OUTPUT_DIGEST)
        .unique(maintain_order=True)
    )
    changed = [
        cell for cell, same in zip(cells.iter_rows(), match_outputs(data, cells.rows()), strict=True) if not same
    ]
    if changed:
        raise DataError(
            f"{data.name}: {describe_outputs([cell[:2] for cell in changed])} changed since people judged them in the "
            "campaign; give the data that the campaign was made of, or leave these judgments out and judge anew"
        )


def attach_judgments(
    data: EvalSet, judgments: JudgmentsLike, selection: Selection | None = None, human: str | None = None
) -> tuple[EvalSet, tuple[Mismatch, ...]]:
    """Add judgments to the data: their cell means become the human score. Also return what did not fit.

    Judgments of unknown items or systems are left out, those outside the selection too (their items had no chance) and
    those without a value, each with a `LeftOutWarning`; so are those that are marked. Several judgments of an output
    are averaged; the same annotator's repeated judgments are averaged first. Judgments of automatic judges become
    scores `judge:NAME`, as of a metric, and nothing else.
    """
    id_type = data.items["id"].dtype
    table = as_judgments(judgments).table.with_columns(pl.col("item").cast(pl.String).alias("_key"))
    known_items = pl.DataFrame({"_key": data.items["id"].cast(pl.String), "item": data.items["id"]})
    mismatches: list[Mismatch] = []

    if MARKED in table.columns:
        table, marked = _split_rows(table, pl.col(MARKED).is_null() | (pl.col(MARKED) == MODEL))
        _note_mismatch(mismatches, _MARKED_BY_CLEAN, marked, MARKED, _LEFT_OUT_ACTION)
    table, unknown = _split_rows(table, pl.col("_key").is_in(known_items["_key"].implode()))
    ids = () if id_type.is_integer() else data.ids
    _note_mismatch(mismatches, "unknown items", unknown, "_key", _LEFT_OUT_ACTION, ids)
    table, unknown = _split_rows(table, pl.col("system").is_in(list(data.systems)))
    _note_mismatch(mismatches, "unknown systems", unknown, "system", _LEFT_OUT_ACTION, data.systems)
    _refuse_changed_outputs(data, table)
    data, table = _add_judge_scores(data, table)
    if selection is not None:
        chosen = [str(item) for item in selection.ids]
        table, outside = _split_rows(table, pl.col("_key").is_in(chosen))
        if selection.systems is not None:
            requested = [
                f"{i}\x1f{s}" for i, names in zip(selection.ids, selection.systems, strict=True) for s in names
            ]
            table, unasked = _split_rows(table, pl.concat_str("_key", "system", separator="\x1f").is_in(requested))
            outside = pl.concat([outside, unasked])
        _note_mismatch(mismatches, "judgments outside the selection", outside, "_key", _LEFT_OUT_ACTION)
    table, empty = _split_rows(table, pl.col("value").is_not_null())
    _note_mismatch(mismatches, "judgments without a value", empty, "_key", _LEFT_OUT_ACTION)
    if not table.height:
        raise DataError(f"{data.name}: no judgment fits the data" + _list_mismatches(mismatches))
    warn_left_out(data.name, mismatches)
    table = table.drop("item").join(known_items, on="_key", how="left").drop("_key")
    merged = merge_repeats(table)
    table = merged.table
    mismatches += describe_repeats(merged)
    name = human or HUMAN
    bare = EvalSet(
        items=data.items,
        systems=data.systems,
        scores={k: v for k, v in data.scores.items() if k != name},
        outputs=data.outputs,
        judgments=Judgments(table.with_columns(pl.col("item").cast(id_type))),
        name=data.name,
        usage=data.usage,
    )
    return bare.aggregate(name=name).with_human(name), tuple(mismatches)


def _add_judge_scores(data: EvalSet, table: pl.DataFrame) -> tuple[EvalSet, pl.DataFrame]:
    """Add a score for each automatic judge; also return the judgments of people."""
    if MARKED not in table.columns:
        return data, table
    machines, people = _split_rows(table, pl.col(MARKED).eq_missing(MODEL))
    rows = {str(item): place for place, item in enumerate(data.ids)}
    columns = {system: place for place, system in enumerate(data.systems)}
    for (name,), part in machines.group_by("annotator", maintain_order=True):
        score = np.full((data.n_items, data.n_systems), np.nan)
        for item, system, value in Judgments(part.drop(MARKED)).cell_means().iter_rows():
            score[rows[str(item)], columns[system]] = value
        if np.isfinite(score).any():
            data = data.with_score(f"judge:{name}", score)
    return data, people


def select_criterion(judgments: JudgmentsLike, criterion: str | None, human: str | None = None) -> Judgments:
    """Return the judgments of one criterion; raise DataError if there are several and none is named.

    The score's name may say which one: `human_fluency`, or `fluency`.
    """
    all_judgments = as_judgments(judgments)
    criteria = all_judgments.criteria
    if criterion is None:
        criterion = next((name for name in criteria if human in (name, f"{HUMAN}_{name}")), None)
    if criterion is None and len(criteria) > 1:
        raise DataError(
            f"the judgments have {len(criteria)} criteria ({quoted(criteria, 6)}), which are not averaged; name "
            "one with `criterion`, or make one score of them first: aliquot.combine with a formula"
        )
    if criterion is None:
        return all_judgments
    if criterion not in criteria:
        raise unknown_name("criterion", criterion, criteria, "check `criterion`")
    return Judgments(all_judgments.table.filter(pl.col("criterion") == criterion))


def use_criterion_score(data: EvalSet, criterion: str, human: str | None) -> EvalSet:
    """Make one criterion's score the human score of data that include their judgments."""
    name = f"{HUMAN}_{criterion}"
    if human is not None and human != name:
        raise OptionError(f"`human={human}` and `criterion={criterion}` name two scores; leave one out")
    criteria = [score.removeprefix(f"{HUMAN}_") for score in data.scores if score.startswith(f"{HUMAN}_")]
    criteria = list(dict.fromkeys([*criteria, *(data.judgments.criteria if data.judgments is not None else [])]))
    if criterion not in criteria:
        raise unknown_name("criterion", criterion, criteria, "check `criterion`")
    return data.with_human(name) if name in data.scores else data.aggregate(criterion=criterion).with_human(name)


def criteria_note(data: EvalSet, human: str | None) -> list[str]:
    """Return a note if the score is the mean over criteria."""
    parts = [name for name in data.scores if name.startswith(f"{HUMAN}_")]
    several = data.judgments is not None and len(set(parts) & {f"{HUMAN}_{c}" for c in data.judgments.criteria}) > 1
    if human != HUMAN or not several:
        return []
    return [f"'{HUMAN}' is the mean over {len(parts)} criteria ({quoted(parts, 6)}); `criterion` takes one"]


# -- Scores so large or small that their squares are no numbers ------------------------------------------------------


def score_divisor(data: EvalSet, judgments: Judgments | None, human: str | None) -> float:
    """Return the power of 10 by which human scores are divided so that their squares do not overflow, or 1."""
    name = human or data.human
    values = [data.scores[name]] if name is not None and name in data.scores else []
    values += [made.table["value"].drop_nulls().to_numpy() for made in (judgments,) if made is not None]
    return max((overflow_scale(part) for part in values), key=lambda size: abs(np.log10(size)), default=1.0)


def has_extreme_metrics(data: EvalSet) -> bool:
    """Whether the squares of some metric overflow; rescaling it changes no estimate."""
    return any(overflow_scale(data.scores[name]) != 1.0 for name in data.metrics)


def rescale_scores(data: EvalSet, size: float) -> EvalSet:
    """Divide human scores by `size`, and other extreme scores by a power of 10 of their own."""
    scores = {
        name: values / (size if name == data.human or is_human_name(name) else overflow_scale(values))
        for name, values in data.scores.items()
    }
    made = None if data.judgments is None else rescale_judgments(data.judgments, size)
    return replace(data, scores=scores, judgments=made)


def rescale_judgments(judgments: Judgments, size: float) -> Judgments:
    """Divide the values by `size`."""
    return Judgments(judgments.table.with_columns(pl.col("value") / size))


def _split_rows(table: pl.DataFrame, fits: pl.Expr) -> tuple[pl.DataFrame, pl.DataFrame]:
    return table.filter(fits), table.filter(~fits)


def _note_mismatch(
    mismatches: list[Mismatch], what: str, rows: pl.DataFrame, column: str, action: str, names: Sequence[object] = ()
) -> None:
    """Append a mismatch for rows that do not fit; unknown names get their count and the closest of `names`."""
    if not rows.height:
        return
    counts = rows.group_by(column, maintain_order=True).len().rows()
    examples = counts[: _MAX_EXAMPLES if names else 1]
    example = ", ".join(
        _describe_name(str(name), count if len(counts) > 1 else None, names) for name, count in examples
    )
    more = f" and {len(counts) - len(examples)} more" if len(counts) > len(examples) else ""
    mismatches.append(Mismatch(what, rows.height, example + more, action))


def _describe_name(name: str, count: int | None, names: Sequence[object]) -> str:
    """Format an unknown name with its count and the closest known name."""
    guess = closest(name, names)
    remarks = [f"{count}"] * (count is not None and bool(names)) + [f"did you mean '{guess}'?"] * (guess is not None)
    return f"{name} ({'; '.join(remarks)})" if remarks else name


def describe_repeats(merged: MergedRepeats) -> list[Mismatch]:
    """Return mismatches for copied judgments and for repeats that were averaged."""
    rows = []
    if merged.copies:
        rows.append(Mismatch(COPIES, merged.copies, merged.example, "counted once"))
    if merged.repeats:
        example = f"{merged.example}; {merged.disagreeing} disagree"
        rows.append(Mismatch(REPEATS, merged.repeats, example, "averaged"))
    return rows


def warn_left_out(name: str, mismatches: Sequence[Mismatch]) -> None:
    """Warn about judgments that are left out, except marked ones."""
    for mismatch in _unintended_mismatches(mismatches):
        if mismatch.action == _LEFT_OUT_ACTION:
            warn_caller(f"{name}: {mismatch.sentence}", LeftOutWarning)


def refuse_mismatches(mismatches: tuple[Mismatch, ...]) -> None:
    """Raise DataError if anything but marked judgments does not fit."""
    faults = _unintended_mismatches(mismatches)
    if faults:
        raise DataError("judgments do not fit the data" + _list_mismatches(faults))


def _unintended_mismatches(mismatches: Sequence[Mismatch]) -> list[Mismatch]:
    return [mismatch for mismatch in mismatches if mismatch.what != _MARKED_BY_CLEAN]


def _list_mismatches(mismatches: list[Mismatch]) -> str:
    return "".join(f"; {m.count} {m.what} ({m.example})" for m in mismatches)


# -- Selections from a pool, in one stage or two: the population is all of it, the data may hold only what was chosen


def extend_to_pool(evalset: EvalSet, scores: FloatArray, selection: Selection) -> tuple[EvalSet, FloatArray]:
    """Extend data of the first stage to the full pool, without metrics that are known for a part only.

    One stage is like two where the data lack items of the pool: outputs were made for the chosen ones only. Items that
    the data lack become items of which nothing is known. Data may hold more than the pool, where items were excluded or
    the first stage has no probabilities and is the pool itself; then only the judged items are sure.
    """
    one_stage = selection.design.within is None
    if selection.probability is None or (one_stage and evalset.n_items >= selection.population):
        return evalset, scores
    if evalset.n_items > selection.population:
        warnings.warn(
            f"{evalset.name}: {evalset.n_items} items, but the selection is about {selection.population} of them: "
            "metrics are not used; give the data of those items only, and they are",
            AliquotWarning,
            4,
        )
        chosen = np.isin(evalset.items["id"].to_numpy(), np.array(selection.ids))
        evalset, scores = take_rows(evalset, np.flatnonzero(chosen)), scores[chosen]
    lacking = selection.population - evalset.n_items
    if lacking:
        memory.require_memory(
            selection.population * (400.0 + 24.0 * evalset.n_systems),  # an id as an object, and arrays of scores
            f"a population of {selection.population} items",
            "give a selection from a smaller pool",
        )
        return _pad_with_unknown_items(evalset, lacking), np.vstack(
            [scores, np.full((lacking, evalset.n_systems), np.nan)]
        )
    partial = [name for name in evalset.metrics if not np.isfinite(evalset.scores[name]).any(axis=1).all()]
    complete = {name: values for name, values in evalset.scores.items() if name not in partial}
    return (replace(evalset, scores=complete) if partial else evalset), scores


def require_metrics_of_pool(data: EvalSet, pool: EvalSet, spec: Spec) -> None:
    """Raise OptionError for metrics that are known only for the items of the first stage."""
    names = spec.parameters.get("metrics", ())
    names = names.split("|") if isinstance(names, str) else names
    partial = [name for name in names if name in data.scores and name not in pool.scores]
    if partial:
        raise OptionError(
            f"metrics={'|'.join(partial)}: known of the first stage's items only, and their mean over the pool is not; "
            "leave them out, or give data that have them for the whole pool"
        )


def _pad_with_unknown_items(evalset: EvalSet, lacking: int) -> EvalSet:
    """Append unknown items; drop everything that is not known for them."""
    ids = evalset.items["id"]
    if ids.dtype == pl.Int64:
        start = max(0, int(ids.to_numpy().max(initial=0))) + 1
        new = pl.Series("id", np.arange(start, start + lacking))
    else:
        new = pl.Series("id", [f"\x00pool {number}" for number in range(lacking)])
    columns = [name for name in ("id", "document") if name in evalset.items.columns]
    items = pl.concat([evalset.items.select(columns), new.to_frame()], how="diagonal")
    return EvalSet(items, evalset.systems, human=None, name=evalset.name)
