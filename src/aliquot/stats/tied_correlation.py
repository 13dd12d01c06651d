"""Correlations with ties: Kendall-like agreement and pairwise accuracy with ties over pairs of outputs.

Invariant: every pair of common cells in a row occurs exactly once; differences within rounding are ties.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aliquot.errors import OptionError, unknown_name
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, cache_by_content, is_constant
from aliquot.stats.correlation import mask_tables_to_common
from aliquot.validation import one_of

HUMAN_TIE, METRIC_TIE, CONCORDANT, DISCORDANT = 0, 1, 2, 3
"""Kinds of pairs: tied by people (in any way by the metric), tied by the metric only, concordant, discordant."""

ROUNDING = 1e-13
"""Relative difference of two scores that is rounding: 0.3 - 0.2 and 0.2 - 0.1 are equal."""

_BLOCK = 1 << 19
"""Minimum number of pairs per block."""


_MAX_FEW_ROWS = 8
"""Maximum number of rows whose pairs are compared in one step."""


@dataclass(frozen=True, eq=False)
class PairBlock:
    """A block of pairs, unordered."""

    gap: FloatArray  # absolute metric difference, 0 for a tie
    kind: IntArray  # `HUMAN_TIE`, `METRIC_TIE`, `CONCORDANT` or `DISCORDANT`, as numbers of one byte
    row: IntArray  # row of both cells


def pair_blocks(metric: FloatArray, human: FloatArray, least_difference: float = 0.0) -> Iterator[PairBlock]:
    """Yield all pairs of cells of the same row, in blocks, by their distance in columns.

    Human differences below `least_difference` are ties. Missing cells are missing in both tables
    (`mask_tables_to_common`).

    >>> block, = pair_blocks(np.array([[1.0, 2.0, 2.0]]), np.array([[5.0, 6.0, 7.0]]))
    >>> block.gap, block.kind
    (array([1., 0., 1.]), array([2, 1, 2], dtype=int8))
    """
    metric_tie, human_tie = _tie_tolerances(metric, human, least_difference)
    rows = np.arange(len(metric))[:, None]
    complete = not np.isnan(metric).any()
    parts: list[tuple[FloatArray, IntArray, IntArray]] = []
    n_pairs = 0
    for lag in range(1, metric.shape[1]):
        change, difference = metric[:, lag:] - metric[:, :-lag], human[:, lag:] - human[:, :-lag]
        row = np.broadcast_to(rows, change.shape)
        if not complete:
            is_present = ~np.isnan(change)
            change, difference, row = change[is_present], difference[is_present], row[is_present]
        parts.append((*_classify_pairs(change.ravel(), difference.ravel(), metric_tie, human_tie), row.ravel()))
        n_pairs += change.size
        if n_pairs >= _BLOCK:
            yield _join_blocks(parts)
            parts, n_pairs = [], 0
    if n_pairs:
        yield _join_blocks(parts)


def tie_tolerance(values: FloatArray) -> float:
    """Return the largest difference of values that counts as a tie.

    >>> tie_tolerance(np.array([3.0, -20.0]))
    2e-12
    """
    return ROUNDING * float(np.nanmax(np.abs(values), initial=0.0)) if not np.isnan(values).all() else 0.0


def pairs_per_row(values: FloatArray) -> IntArray:
    """Count the pairs of present cells of each row.

    >>> pairs_per_row(np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]]))
    array([3, 1])
    """
    present = (~np.isnan(values)).sum(axis=1, dtype=np.int64)
    return np.asarray(present * (present - 1) // 2, dtype=np.int64)


def _classify_pairs(
    change: FloatArray, difference: FloatArray, metric_tie: float, human_tie: float
) -> tuple[FloatArray, IntArray]:
    gap = np.abs(change)
    kind = ((change > 0) != (difference > 0)).view(np.int8) + np.int8(CONCORDANT)
    tied = gap <= metric_tie
    gap[tied] = 0.0
    kind[tied] = METRIC_TIE
    kind *= (np.abs(difference) > human_tie).view(np.int8)  # HUMAN_TIE is 0
    return gap, kind


def _join_blocks(parts: list[tuple[FloatArray, IntArray, IntArray]]) -> PairBlock:
    if len(parts) == 1:
        return PairBlock(*parts[0])
    return PairBlock(*(np.concatenate(column) for column in zip(*parts, strict=True)))


# -- Kendall-like agreement within items, by policy of ties ------------------------------------------------------------


MetricTies = Literal["discordant", "skip", "half"]
Averaging = Literal["macro", "micro"]


@dataclass(frozen=True)
class KendallLike:
    """(C - D) / (C + D) within items, with counts of pairs."""

    value: float  # coefficient; NaN if no pair counts
    concordant: int  # concordant pairs
    discordant: int  # discordant pairs
    metric_ties: int  # pairs tied by the metric only, treated by policy `metric_ties`
    human_ties: int  # pairs tied by people, always left out
    items: int  # items with a value
    undefined: int  # items with two or more outputs, but no pair that counts


def kendall_like(
    metric: FloatArray,
    human: FloatArray,
    metric_ties: MetricTies = "discordant",
    *,
    human_ties: Literal["skip"] = "skip",
    least_difference: float = 0.0,
    average: Averaging = "macro",
) -> KendallLike:
    """Return Kendall-like agreement within items, (C - D) / (C + D) (WMT's DARR; HumEval 2022, paper 9).

    Args:
        metric_ties: Pairs tied by the metric only are "discordant", left out ("skip"), or "half" concordant and half
        discordant (they add to the denominator only).
        human_ties: Only "skip": pairs tied by people are left out.
        least_difference: Human differences below this are ties (25 of 100 points in WMT's DARR).
        average: "macro", the mean of the items' values; "micro", from pooled counts.

    >>> metric, human = np.array([[1.0, 2.0, 2.0]]), np.array([[5.0, 6.0, 7.0]])
    >>> [round(kendall_like(metric, human, ties).value, 3) for ties in ("discordant", "skip", "half")]
    [0.333, 1.0, 0.667]
    """
    for name, policy, allowed in (
        ("metric_ties", metric_ties, get_args(MetricTies)),
        ("human_ties", human_ties, ("skip",)),
        ("average", average, get_args(Averaging)),
    ):
        one_of(name, policy, allowed)
    if not least_difference >= 0:
        raise OptionError(f"`least_difference` is {least_difference}; choose 0 or more")
    metric, human = mask_tables_to_common(metric, human)
    counts = _count_pair_kinds(metric, human, least_difference)
    values, weights = _row_coefficients(counts, metric_ties)
    defined = weights > 0
    if not defined.any():
        value = float("nan")
    else:
        value = float(np.average(values[defined], weights=weights[defined] if average == "micro" else None))
    totals, undefined = counts.sum(axis=1), (pairs_per_row(metric) > 0) & ~defined
    return KendallLike(
        value=value,
        concordant=int(totals[CONCORDANT]),
        discordant=int(totals[DISCORDANT]),
        metric_ties=int(totals[METRIC_TIE]),
        human_ties=int(totals[HUMAN_TIE]),
        items=int(defined.sum()),
        undefined=int(undefined.sum()),
    )


def nested_kendall_like(metric: FloatArray, human: FloatArray) -> FloatArray:
    """Return `kendall_like` of the first two columns, the first three, ...; pairs are compared only once.

    >>> nested_kendall_like(np.array([[1.0, 2.0, 2.0]]), np.array([[5.0, 6.0, 7.0]])).round(3)
    array([1.   , 0.333])
    """
    metric, human = mask_tables_to_common(metric, human)
    counts, values_by_size = np.zeros((4, len(metric)), dtype=np.int64), []
    for added in _count_by_column(metric, human, 0.0):
        counts += added
        values, weights = _row_coefficients(counts, "discordant")
        values_by_size.append(float(values[weights > 0].mean()) if (weights > 0).any() else float("nan"))
    return np.array(values_by_size)


def item_kendall_like(
    metric: FloatArray, human: FloatArray, metric_ties: MetricTies = "discordant", least_difference: float = 0.0
) -> FloatArray:
    """Return Kendall-like agreement of every item, for tests that resample items; arguments as `kendall_like`.

    >>> item_kendall_like(np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([[2.0, 1.0], [3.0, 3.0]]))
    array([-1., nan])
    """
    one_of("metric_ties", metric_ties, get_args(MetricTies))
    metric, human = mask_tables_to_common(metric, human)
    values, weights = _row_coefficients(_count_pair_kinds(metric, human, least_difference), metric_ties)
    return np.where(weights > 0, values, np.nan)


@cache_by_content(4)  # shared by all policies and averages
def _count_pair_kinds(metric: FloatArray, human: FloatArray, least_difference: float) -> IntArray:
    """Count pairs of every kind (4) in every row, as in `pair_blocks`, without listing them."""
    if len(metric) <= _MAX_FEW_ROWS:  # all pairs at once: a step per column would dominate
        first, second = np.triu_indices(metric.shape[1], 1)
        change, difference = ((table[:, second] - table[:, first]).T for table in (metric, human))
        return _count_kinds(change, difference, *_tie_tolerances(metric, human, least_difference))
    counts = np.zeros((4, len(metric)), dtype=np.int64)
    for added in _count_by_column(metric, human, least_difference):
        counts += added
    return counts


def _count_by_column(metric: FloatArray, human: FloatArray, least_difference: float) -> Iterator[IntArray]:
    """Yield counts of pairs of every kind that each column, from the second on, forms with those before it."""
    ties = _tie_tolerances(metric, human, least_difference)
    across, people = np.ascontiguousarray(metric.T), np.ascontiguousarray(human.T)
    for column in range(1, len(across)):
        yield _count_kinds(across[column] - across[:column], people[column] - people[:column], *ties)


def _tie_tolerances(metric: FloatArray, human: FloatArray, least_difference: float) -> tuple[float, float]:
    """Return differences of the metric and of people up to which a pair is a tie."""
    slack = tie_tolerance(human)
    return tie_tolerance(metric), max(slack, least_difference - 2 * slack)


def _count_kinds(change: FloatArray, difference: FloatArray, metric_tie: float, human_tie: float) -> IntArray:
    """Count pairs of every kind in two tables of differences, pairs x rows."""
    apart = np.abs(difference) > human_tie  # False where a score is missing
    ordered = apart & (np.abs(change) > metric_tie)
    alike, is_present = ordered & ((change > 0) == (difference > 0)), ~np.isnan(change)
    n_present, n_untied, n_ordered, concordant = (
        np.add.reduce(kind.view(np.uint8), axis=0, dtype=np.int64) for kind in (is_present, apart, ordered, alike)
    )
    return np.stack([n_present - n_untied, n_untied - n_ordered, concordant, n_ordered - concordant])


def _row_coefficients(counts: IntArray, metric_ties: MetricTies) -> tuple[FloatArray, FloatArray]:
    """Return (C - D) / (C + D) of every row, ties treated by policy, and the weight C + D."""
    concordant, discordant = counts[CONCORDANT].astype(np.float64), counts[DISCORDANT].astype(np.float64)
    if metric_ties != "skip":
        shares = (0.0, 1.0) if metric_ties == "discordant" else (0.5, 0.5)
        concordant += shares[0] * counts[METRIC_TIE]
        discordant += shares[1] * counts[METRIC_TIE]
    weights = concordant + discordant
    return (concordant - discordant) / np.maximum(weights, 1), weights


# -- Pairwise accuracy with ties (acc_eq of WMT's metrics task) --------------------------------------------------------


PairLevel = Literal["within_item", "within_system", "pooled"]

_MAX_SORTED = 1 << 21
"""Maximum number of pairs sorted in memory; more are binned first."""

_BINS = 1 << 17

_SHIFT = 0.3819660112501051
"""Offset of bins: no round number, so that gaps equal up to rounding share a bin."""

_ACCURACY_ROUNDING = 1e-12
"""Difference of two accuracies that is rounding."""


@dataclass(frozen=True)
class TieAccuracy:
    """Pairwise accuracy with ties, acc_eq = (C + T_hm) / all pairs (Deutsch et al. 2023, "Ties Matter").

    C are concordant pairs, T_hm those tied by both. Groups (items, systems) have equal weights.
    """

    accuracy: float  # mean over groups; NaN without pairs
    epsilon: float  # metric differences up to this are ties
    calibrated: bool  # whether epsilon maximises the accuracy on these scores
    accuracy_at_zero: float  # accuracy with epsilon = 0
    pairs: int  # pairs compared
    groups: int  # items, systems, or 1, with at least one pair


def tie_accuracy(
    metric: FloatArray, human: FloatArray, level: PairLevel = "within_item", epsilon: float | None = None
) -> TieAccuracy:
    """Return pairwise accuracy with ties, calibrated or with a given threshold (Deutsch et al. 2023, acc_eq).

    Metric differences of at most epsilon are ties; None tries 0 and every observed difference. Calibration is
    optimistic, because threshold and accuracy use the same pairs, as in WMT's metrics task. `level`: pairs of systems
    "within_item" (WMT's), of items "within_system", or of any two outputs ("pooled").

    >>> metric = np.array([[0.1, 0.2, 0.9], [0.5, 0.4, 0.8]])
    >>> human = np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]])
    >>> tie_accuracy(metric, human)  # doctest: +ELLIPSIS
    TieAccuracy(accuracy=1.0, epsilon=0.1, calibrated=True, accuracy_at_zero=0.666..., pairs=6, groups=2)
    """
    if epsilon is not None and not epsilon >= 0:
        raise OptionError(f"`epsilon` is {epsilon}; choose 0 or more, or None to calibrate it")
    metric, human = _arrange_rows(metric, human, level)
    pairs = pairs_per_row(metric)
    groups = int((pairs > 0).sum())
    if not groups:
        return TieAccuracy(float("nan"), float("nan"), epsilon is None, float("nan"), 0, 0)
    weight = np.divide(1.0, pairs * groups, out=np.zeros(len(pairs)), where=pairs > 0)
    if epsilon is None:
        accuracy, threshold, zero = _calibrate_ties(metric, human, weight)
        return TieAccuracy(accuracy, threshold, True, zero, int(pairs.sum()), groups)
    accuracy, zero = _AccuracySteps(metric, human, weight).accuracy_at(epsilon)
    return TieAccuracy(accuracy, float(epsilon), False, zero, int(pairs.sum()), groups)


def item_tie_accuracies(metric: FloatArray, human: FloatArray, epsilon: float = 0.0) -> FloatArray:
    """Return pairwise accuracy with ties of every item, for tests that resample items; the mean is `tie_accuracy`.

    >>> item_tie_accuracies(np.array([[0.1, 0.2], [3.0, np.nan]]), np.array([[1.0, 2.0], [1.0, 2.0]]))
    array([ 1., nan])
    """
    if not epsilon >= 0:
        raise OptionError(f"`epsilon` is {epsilon}; choose 0 or more")
    metric, human = mask_tables_to_common(metric, human)
    right, pairs = np.zeros(len(metric)), pairs_per_row(metric)
    threshold = epsilon + tie_tolerance(metric)
    for block in pair_blocks(metric, human):
        tied = block.gap <= threshold
        correct = np.where(tied, block.kind == HUMAN_TIE, block.kind == CONCORDANT)
        right += np.bincount(block.row, correct, minlength=len(metric))
    return np.where(pairs > 0, right / np.maximum(pairs, 1), np.nan)


@cache_by_content(128)  # reports show the thresholds, and tests use them
def _calibrate_ties(metric: FloatArray, human: FloatArray, weight: FloatArray) -> tuple[float, float, float]:
    step = _AccuracySteps(metric, human, weight)
    return step.calibrate_sorted() if pairs_per_row(metric).sum() <= _MAX_SORTED else step.calibrate_in_bins()


def _arrange_rows(metric: FloatArray, human: FloatArray, level: PairLevel) -> tuple[FloatArray, FloatArray]:
    """Arrange tables so that rows hold the outputs that are compared."""
    metric, human = mask_tables_to_common(metric, human)
    if level == "within_item":
        return metric, human
    if level == "within_system":
        return np.ascontiguousarray(metric.T), np.ascontiguousarray(human.T)
    if level != "pooled":
        raise unknown_name("level", level, get_args(PairLevel))
    is_present = ~np.isnan(metric)
    return metric[is_present][None], human[is_present][None]


@dataclass(frozen=True, eq=False)
class _AccuracySteps:
    """Accuracy as a step function of the threshold: concordant pairs plus the gains of all gaps up to it.

    When the threshold passes the gap of a pair, a pair tied by people gains its weight, a concordant one loses it, and
    any other stays wrong.
    """

    metric: FloatArray
    human: FloatArray
    weight: FloatArray

    def iterate_changes(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield gaps and gains of all pairs."""
        for block in pair_blocks(self.metric, self.human):
            gain = (block.kind == HUMAN_TIE).astype(np.float64) - (block.kind == CONCORDANT)
            yield block.gap, gain * (self.weight[block.row] if len(self.weight) > 1 else self.weight)

    def accuracy_at(self, epsilon: float) -> tuple[float, float]:
        """Return the accuracies with ties up to epsilon, and with exact ties only."""
        concordant = tied = equal = 0.0
        threshold = epsilon + tie_tolerance(self.metric)
        for gap, gain in self.iterate_changes():
            concordant -= np.minimum(gain, 0.0).sum()
            tied += gain[gap <= threshold].sum()
            equal += gain[gap == 0].sum()
        return float(concordant + tied), float(concordant + equal)

    def calibrate_sorted(self) -> tuple[float, float, float]:
        """Return the best accuracy, its threshold, and the accuracy at threshold 0, from all pairs sorted by gap."""
        gap, gain = (np.concatenate(column) for column in zip(*self.iterate_changes(), strict=True))
        start = float(-np.minimum(gain, 0.0).sum())
        zero = start + float(gain[gap == 0].sum())
        return *_best_threshold(gap, gain, np.full(len(gap), start), zero, tie_tolerance(self.metric)), zero

    def calibrate_in_bins(self) -> tuple[float, float, float]:
        """Return the same for more pairs than fit in memory: bins first, then those that may hold the optimum.

        No threshold in a bin exceeds the accuracy below it plus all its gains and none of its losses.
        """
        spread = float(np.nanmax(self.metric) - np.nanmin(self.metric))
        scale = 0.0 if is_constant(self.metric) else (_BINS - 2) / spread
        total, gains, equal = np.zeros(_BINS), np.zeros(_BINS), 0.0
        for gap, gain in self.iterate_changes():
            number = _bin_numbers(gap, scale)
            total += np.bincount(number, gain, minlength=_BINS)
            gains += np.bincount(number, np.maximum(gain, 0.0), minlength=_BINS)
            equal += float(gain[gap == 0].sum())
        start = float((gains - total).sum())
        below = start + np.concatenate([[0.0], np.cumsum(total)])
        hopeful = below[:-1] + gains >= max(start + equal, float(below[1:].max())) - _ACCURACY_ROUNDING
        gap, gain, number = self._collect_bins(hopeful, scale)
        # The sum up to a gap is that below its bin plus that before it in the bin.
        kept_below = np.concatenate([[0.0], np.cumsum(np.bincount(number, gain, minlength=_BINS))])
        before = below[number] - kept_below[number]
        return *_best_threshold(gap, gain, before, start + equal, tie_tolerance(self.metric)), start + equal

    def _collect_bins(self, hopeful: BoolArray, scale: float) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return gaps, gains and bins of the pairs in hopeful bins."""
        low, high = np.flatnonzero(hopeful)[[0, -1]]
        parts = []
        for gap, gain in self.iterate_changes():
            # A coarse filter by gap avoids computing bins of most pairs.
            near = np.flatnonzero((gap * scale >= low - 1) & (gap * scale <= high + 1))
            number = _bin_numbers(gap[near], scale)
            is_hopeful = hopeful[number]
            parts.append((gap[near][is_hopeful], gain[near][is_hopeful], number[is_hopeful]))
        gap, gain, number = (np.concatenate(column) for column in zip(*parts, strict=True))
        return gap, gain, number


def _bin_numbers(gap: FloatArray, scale: float) -> IntArray:
    return (gap * scale + _SHIFT).astype(np.int64)


def _best_threshold(
    gap: FloatArray, gain: FloatArray, start: FloatArray, zero: float, tie: float
) -> tuple[float, float]:
    """Return the best of the thresholds `gap` and 0: start + cumulated gains, equal gaps counted together."""
    order = np.argsort(gap)  # equal gaps are counted together: their order does not matter
    gap, reached = gap[order], start[order] + np.cumsum(gain[order])
    last = np.append(np.diff(gap) > tie, True)
    gap, reached = np.append(0.0, gap[last]), np.append(zero, reached[last])
    best = int(np.argmax(reached >= reached.max() - _ACCURACY_ROUNDING))
    return float(reached[best]), float(gap[best])
