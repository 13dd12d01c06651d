"""How often a metric orders two outputs, or ties them, as people do (acc_eq of WMT's metrics task).

Invariant: a pair is decided only by the two outputs' own scores; the calibrated threshold is the best of all thresholds
there are, found exactly (no sampling), and the smallest of those equally good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aliquot.errors import OptionError, unknown_name
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.correlation import common_tables
from aliquot.stats.score_pairs import (
    CONCORDANT,
    HUMAN_TIE,
    pair_blocks,
    pairs_per_row,
    rounding,
)

PairLevel = Literal["within_item", "within_system", "pooled"]

_SORTED = 1 << 21
"""Pairs up to which all are held and sorted; more go through a histogram first."""

_BINS = 1 << 17

_SHIFT = 0.3819660112501051
"""Bins begin at no round number, so that gaps equal but for rounding fall into one bin."""

_EQUAL = 1e-12
"""Difference of two accuracies that is rounding."""


@dataclass(frozen=True)
class TieAccuracy:
    """Pairwise accuracy with ties, acc_eq = (C + T_hm) / all pairs (Deutsch et al. 2023, "Ties Matter").

    C are pairs ordered alike, T_hm those tied by both. Each group (item, system) counts the same.

    Attributes:
        accuracy: Mean over the groups; NaN where there is no pair.
        epsilon: Metric differences up to this are ties.
        calibrated: Whether epsilon was chosen to maximise the accuracy on these very scores.
        accuracy_at_zero: The accuracy with epsilon = 0, where only equal metric scores are ties.
        pairs: Pairs compared.
        groups: Items, systems, or 1, with at least one pair.
    """

    accuracy: float
    epsilon: float
    calibrated: bool
    accuracy_at_zero: float
    pairs: int
    groups: int


def tie_accuracy(
    metric: FloatArray, human: FloatArray, level: PairLevel = "within_item", epsilon: float | None = None
) -> TieAccuracy:
    """Pairwise accuracy with ties, calibrated or with a given threshold (METHODS 7; Deutsch et al. 2023, acc_eq).

    A metric difference of at most epsilon is a tie. The accuracy as a function of epsilon is a step function that
    changes at observed differences only: with the pairs sorted by their difference it is one cumulative sum, a human
    tie gaining and a concordant pair losing as its difference is passed. Calibration flatters: the same pairs choose
    the threshold and are judged by it, as in WMT's metrics task.

    Args:
        metric: Items x systems, NaN = missing.
        human: The same shape. Pairs tie when scores are equal.
        level: Pairs of systems "within_item" (WMT's), of items "within_system", or of any two outputs ("pooled").
        epsilon: The threshold; None calibrates it, trying 0 and every observed difference.

    Returns:
        Accuracy and threshold.

    Raises:
        OptionError: Not two tables of one shape, infinite values, or a negative threshold.
        NameUnknownError: Another level.

    Example:
        >>> metric = np.array([[0.1, 0.2, 0.9], [0.5, 0.4, 0.8]])
        >>> human = np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]])
        >>> tie_accuracy(metric, human)  # doctest: +ELLIPSIS
        TieAccuracy(accuracy=1.0, epsilon=0.1, calibrated=True, accuracy_at_zero=0.666..., pairs=6, groups=2)
    """
    if epsilon is not None and not epsilon >= 0:
        raise OptionError(f"epsilon is {epsilon}; choose 0 or more, or None to calibrate it")
    metric, human = _rows(metric, human, level)
    pairs = pairs_per_row(metric)
    groups = int((pairs > 0).sum())
    if not groups:
        return TieAccuracy(float("nan"), float("nan"), epsilon is None, float("nan"), 0, 0)
    weight = np.divide(1.0, pairs * groups, out=np.zeros(len(pairs)), where=pairs > 0)
    step = _Steps(metric, human, weight)
    if epsilon is None:
        accuracy, chosen, zero = step.calibrated() if pairs.sum() <= _SORTED else step.calibrated_in_bins()
        return TieAccuracy(accuracy, chosen, True, zero, int(pairs.sum()), groups)
    accuracy, zero = step.at(epsilon)
    return TieAccuracy(accuracy, float(epsilon), False, zero, int(pairs.sum()), groups)


def item_tie_accuracies(metric: FloatArray, human: FloatArray, epsilon: float = 0.0) -> FloatArray:
    """Pairwise accuracy with ties of every item, for tests that resample items.

    Args:
        metric: Items x systems, NaN = missing.
        human: The same shape.
        epsilon: Metric differences up to this are ties.

    Returns:
        One per item; NaN for an item without a pair. Their mean is `tie_accuracy(..., epsilon=epsilon)`.

    Raises:
        OptionError: As `tie_accuracy`.

    Example:
        >>> item_tie_accuracies(np.array([[0.1, 0.2], [3.0, np.nan]]), np.array([[1.0, 2.0], [1.0, 2.0]]))
        array([ 1., nan])
    """
    if not epsilon >= 0:
        raise OptionError(f"epsilon is {epsilon}; choose 0 or more")
    metric, human = common_tables(metric, human)
    right, pairs = np.zeros(len(metric)), pairs_per_row(metric)
    threshold = epsilon + rounding(metric)
    for block in pair_blocks(metric, human):
        tied = block.gap <= threshold
        correct = np.where(tied, block.kind == HUMAN_TIE, block.kind == CONCORDANT)
        right += np.bincount(block.row, correct, minlength=len(metric))
    return np.where(pairs > 0, right / np.maximum(pairs, 1), np.nan)


def _rows(metric: FloatArray, human: FloatArray, level: PairLevel) -> tuple[FloatArray, FloatArray]:
    """Tables whose rows hold the outputs that are compared with each other."""
    metric, human = common_tables(metric, human)
    if level == "within_item":
        return metric, human
    if level == "within_system":
        return np.ascontiguousarray(metric.T), np.ascontiguousarray(human.T)
    if level != "pooled":
        raise unknown_name("level", level, get_args(PairLevel))
    there = ~np.isnan(metric)
    return metric[there][None], human[there][None]


@dataclass(frozen=True, eq=False)
class _Steps:
    """The accuracy as a step function of the threshold: concordant pairs, plus the gains of all gaps up to it.

    When its gap is passed and it becomes a tie of the metric, a pair that people tie gains its weight, a concordant
    one loses it, and any other was wrong and stays wrong.
    """

    metric: FloatArray
    human: FloatArray
    weight: FloatArray

    def changes(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Gaps and gains of all pairs."""
        for block in pair_blocks(self.metric, self.human):
            gain = (block.kind == HUMAN_TIE).astype(np.float64) - (block.kind == CONCORDANT)
            yield block.gap, gain * (self.weight[block.row] if len(self.weight) > 1 else self.weight)

    def at(self, epsilon: float) -> tuple[float, float]:
        """Accuracy with ties up to epsilon, and with equal scores only."""
        concordant = tied = equal = 0.0
        threshold = epsilon + rounding(self.metric)
        for gap, gain in self.changes():
            concordant -= np.minimum(gain, 0.0).sum()
            tied += gain[gap <= threshold].sum()
            equal += gain[gap == 0].sum()
        return float(concordant + tied), float(concordant + equal)

    def calibrated(self) -> tuple[float, float, float]:
        """Best accuracy, its threshold, and the accuracy with threshold 0, from all pairs sorted by their gap."""
        gap, gain = (np.concatenate(column) for column in zip(*self.changes(), strict=True))
        start = float(-np.minimum(gain, 0.0).sum())
        zero = start + float(gain[gap == 0].sum())
        return *_best(gap, gain, np.full(len(gap), start), zero, rounding(self.metric)), zero

    def calibrated_in_bins(self) -> tuple[float, float, float]:
        """The same for more pairs than can be held: bins first, then only those that may hold the optimum.

        No threshold inside a bin can do better than what lies below it, plus all its gains and none of its losses.
        """
        spread = float(np.nanmax(self.metric) - np.nanmin(self.metric))
        scale = (_BINS - 2) / spread if spread > 0 else 0.0
        total, gains, equal = np.zeros(_BINS), np.zeros(_BINS), 0.0
        for gap, gain in self.changes():
            number = _bins(gap, scale)
            total += np.bincount(number, gain, minlength=_BINS)
            gains += np.bincount(number, np.maximum(gain, 0.0), minlength=_BINS)
            equal += float(gain[gap == 0].sum())
        start = float((gains - total).sum())
        below = start + np.concatenate([[0.0], np.cumsum(total)])
        hopeful = below[:-1] + gains >= max(start + equal, float(below[1:].max())) - _EQUAL
        gap, gain, number = self._inside(hopeful, scale)
        # The sum up to a gap is what lies below its bin, plus what precedes it in the bin.
        kept_below = np.concatenate([[0.0], np.cumsum(np.bincount(number, gain, minlength=_BINS))])
        before = below[number] - kept_below[number]
        return *_best(gap, gain, before, start + equal, rounding(self.metric)), start + equal

    def _inside(self, hopeful: BoolArray, scale: float) -> tuple[FloatArray, FloatArray, IntArray]:
        """Gaps, gains and bins of the pairs in hopeful bins."""
        low, high = np.flatnonzero(hopeful)[[0, -1]]
        parts = []
        for gap, gain in self.changes():
            # A wide cut by the gap alone spares most pairs the look into their bin.
            near = np.flatnonzero((gap * scale >= low - 1) & (gap * scale <= high + 1))
            number = _bins(gap[near], scale)
            kept = hopeful[number]
            parts.append((gap[near][kept], gain[near][kept], number[kept]))
        gap, gain, number = (np.concatenate(column) for column in zip(*parts, strict=True))
        return gap, gain, number


def _bins(gap: FloatArray, scale: float) -> IntArray:
    return (gap * scale + _SHIFT).astype(np.int64)


def _best(gap: FloatArray, gain: FloatArray, start: FloatArray, zero: float, tie: float) -> tuple[float, float]:
    """Best of the thresholds `gap` and 0: start + cumulated gains, counting gaps equal but for rounding together."""
    order = np.argsort(gap, kind="stable")
    gap, reached = gap[order], start[order] + np.cumsum(gain[order])
    last = np.append(np.diff(gap) > tie, True)
    gap, reached = np.append(0.0, gap[last]), np.append(zero, reached[last])
    best = int(np.argmax(reached >= reached.max() - _EQUAL))
    return float(reached[best]), float(gap[best])
