"""Replaying judgments in the order in which they were made: when could one have stopped?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet, ItemId
from aliquot.core.origin import OUTPUT_DIGEST
from aliquot.core.result import Result
from aliquot.core.selection import Selection
from aliquot.core.view import View
from aliquot.errors import AliquotWarning, OptionError
from aliquot.estimation.inputs import attach_judgments, refuse_mismatches, select_criterion
from aliquot.estimation.monitor import Monitor
from aliquot.estimation.picture import Picture, Question
from aliquot.estimation.targets import JudgingNoise, judging_noise
from aliquot.io.inputs import DataLike, JudgmentsLike, SelectionLike, as_evalset, as_judgments, as_selection
from aliquot.stats.confidence_sequences import FIRST_LOOK
from aliquot.validation import one_of

SequenceTarget = Literal["testset", "given"]
SEQUENCE_TARGETS: tuple[SequenceTarget, ...] = get_args(SequenceTarget)
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Replay(Result):
    """A campaign replayed in time order: final decisions, and after how many items one could have stopped."""

    final: Picture
    stopped_after: int | None
    path: tuple[tuple[int, int], ...]
    notes: tuple[str, ...] = ()

    def views(self) -> tuple[View, ...]:
        """Return the view `pairs`."""
        return self.final.views()

    def to_frame(self) -> pl.DataFrame:
        """One row per pair of systems, as it stands after all items."""
        return self.final.to_frame()

    def to_dict(self) -> dict[str, Any]:
        """The JSON document."""
        final = self.final
        return {
            "verdict": self.verdict,
            "stopped_after": self.stopped_after,
            "items": final.items,
            "judgments": final.judgments,
            "reason": final.reason,
            "best": final.best,
            "decided": len(final.decided),
            "pairs": [vars(pair) for pair in final.pairs],
            "half_widths": final.half_widths,
            "path": [{"items": items, "decided": decided} for items, decided in self.path],
            "notes": list(self.notes),
        }


def replay_items(
    monitor: Monitor,
    items: Sequence[ItemId],
    scores: Mapping[ItemId, Mapping[str, float]],
    weights: Mapping[ItemId, float] | None = None,
) -> Replay:
    """Feed a monitor items in the order given; `path` has, after each item, how many pairs are decided."""
    stopped, path = None, []
    for number, item in enumerate(items, start=1):
        monitor.add(item, scores[item], 1.0 if weights is None else weights[item])
        picture = monitor.picture()
        path.append((number, len(picture.decided)))
        if picture.stop and stopped is None:
            stopped = number
    return Replay(monitor.picture(), stopped, tuple(path))


def sequential(
    data: DataLike,
    *,
    value_range: tuple[float, float],
    selection: SelectionLike | None = None,
    judgments: JudgmentsLike | None = None,
    human: str | None = None,
    criterion: str | None = None,
    question: Question = "best",
    margin: float | None = None,
    alpha: float = 0.05,
    target: SequenceTarget = "testset",
    strict: bool = False,
    seed: int = 0,
) -> Replay:
    """Replay judgments in the order in which they were made: when could one have stopped?

    Args:
        data: the whole test set, with judgments, or with separate `judgments`.
        value_range: ends of the scale.
        selection: the selection of the judged items: single items with known probabilities, equal or not.
        judgments: judgments in time order, or with a column `time` or `order`.
        human: the name of the human score.
        criterion: the criterion to use, where judgments have several.
        question: "best" system, full "ranking", or all "means" within +- `margin`.
        margin: for means, the target half width.
        alpha: error rate over the whole run.
        target: "testset", the test set judged by other annotators, or "given", the mean of these very judgments.
            Judging noise is measured on all judgments and included from the first look on.
        strict: raise DataError for a selection from other data, and for judgments that do not fit.
        seed: seed of the replay order, used if a selection is spread over documents and judgments have no time: its
            own order follows the documents.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=2, seed=5)
    >>> aliquot.sequential(data, value_range=(-200, 200)).final.items
    60
    """
    check_sequence_target(target)
    data, selection = as_evalset(data), None if selection is None else as_selection(selection)
    weight_of, notes = ({}, []) if selection is None else weigh_items(selection)
    for note in () if selection is None else selection.check(data, strict=strict):
        warnings.warn(note, AliquotWarning, 2)
    all_judgments = as_judgments(judgments) if judgments is not None else data.judgments
    if all_judgments is None:
        raise OptionError("single judgments are replayed in time order: set `judgments`")
    evalset, mismatches = attach_judgments(data, select_criterion(all_judgments, criterion, human), selection, human)
    if strict:
        refuse_mismatches(mismatches)
    if selection is not None and OUTPUT_DIGEST not in all_judgments.table.columns:
        selection.check(data, judged=np.isfinite(evalset.human_score()))
    order, timed = order_by_time(evalset)
    if selection is not None and selection.design.variance == "spread":
        notes.append(_ORDER_NOTES[timed])
        if not timed:
            order = [order[index] for index in np.random.default_rng(seed).permutation(len(order))]
    scores = evalset.human_score()
    never = [name for index, name in enumerate(evalset.systems) if not np.isfinite(scores[:, index]).any()]
    if never:
        notes.append(f"never judged, so not compared: {', '.join(never)}")
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    values: dict[ItemId, dict[str, float]] = {
        item: {s: float(v) for s, v in zip(evalset.systems, scores[row_of[item]], strict=True) if np.isfinite(v)}
        for item in order
    }
    systems = [name for name in evalset.systems if name not in never]
    noise = JudgingNoise(0.0) if target == "given" else noise_of_systems(evalset, systems)
    if np.isnan(noise.cell):
        notes.append(NOISE_UNKNOWN)
    monitor = Monitor(
        systems,
        evalset.n_items,
        value_range=value_range,
        question=question,
        margin=margin,
        alpha=alpha,
        kind="asymptotic" if weight_of else "betting",
        noise=noise,
    )
    return replace(replay_items(monitor, order, values, weight_of or None), notes=tuple(notes))


NOISE_UNKNOWN = (
    "too few outputs were judged by several annotators to know the noise of judging: intervals for every look count "
    "all that varies as noise"
)


def check_sequence_target(target: SequenceTarget) -> None:
    """Raise NameUnknownError for targets that sequences do not support."""
    one_of("target", target, SEQUENCE_TARGETS)


def noise_of_systems(evalset: EvalSet, systems: Sequence[str]) -> JudgingNoise:
    """Measure the judging noise of the human score, with annotators' shares of these systems."""
    noise = judging_noise(evalset, str(evalset.human))
    columns = [evalset.systems.index(name) for name in systems]
    return replace(noise, shares=noise.shares[:, columns]) if len(noise.shares) else noise


_ORDER_NOTES = {
    True: "the selection is spread over documents: the sequence holds if its items were judged in random order",
    False: "no time of judging is recorded, and the selection's own order runs along the documents: items are replayed "
    "in random order (`seed`)",
}


def weigh_items(selection: Selection) -> tuple[dict[ItemId, float], list[str]]:
    """Weights of the items, 1 on average over items drawn alike; none where all are equal.

    Betting holds for single items: not for whole documents, whose items come together, nor for top utilities.
    """
    probability, kind = selection.probability, selection.design.variance
    if probability is None or kind not in ("unordered", "spread", "balanced"):
        raise OptionError(
            "sequential looks need single items drawn with known probabilities (segments, pps, balanced or auto); this "
            f"selection is by {selection.method}"
        )
    if np.ptp(probability) <= _ROUNDING:
        return {}, []
    weight = len(selection) / selection.population / probability
    note = (
        f"items were drawn with unequal probabilities (weights from {weight.min():.2g} to {weight.max():.2g}): the "
        f"sequences are asymptotic, from {FIRST_LOOK} items on"
    )
    return dict(zip(selection.ids, weight.tolist(), strict=True)), [note]


def order_by_time(evalset: EvalSet) -> tuple[list[ItemId], bool]:
    """Return items by the time (or order) of their last judgment, and whether it is known."""
    if evalset.judgments is None:
        return [], False
    table = evalset.judgments.table
    key = next((name for name in ("time", "order") if name in table.columns), None)
    if key is None:
        return table["item"].unique(maintain_order=True).to_list(), False
    last = table.group_by("item", maintain_order=True).agg(pl.col(key).max())
    return last.sort(key, maintain_order=True)["item"].to_list(), True
