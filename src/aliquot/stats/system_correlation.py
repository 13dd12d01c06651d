"""Agreement of system rankings: correlations of values with the truth, and of metrics with people.

The first functions take `values`, R x M (R outcomes of M systems), and `truth`, M numbers, and return R numbers. Higher
is better for both. The result is NaN for fewer than two systems and where a value is missing. Differences beyond the
twelfth digit are rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.correlation import (
    mask_tables_to_common,
    paired_kendall,
    paired_pearson,
    paired_spearman,
    system_means,
)
from aliquot.stats.pairwise import analytic_p, permutation_p, spa
from aliquot.stats.tied_correlation import MetricTies, kendall_like
from aliquot.validation import at_least

_DIGITS = 12


def signs_of_pairs(values: FloatArray) -> FloatArray:
    """Return signs of the differences of all pairs a < b, R x pairs.

    >>> signs_of_pairs(np.array([[1.0, 2.0, 2.0]]))
    array([[-1., -1.,  0.]])
    """
    first, second = np.triu_indices(values.shape[1], 1)
    levels = _round_to_scale(values)
    return np.sign(levels[:, first] - levels[:, second])


def _round_to_scale(values: FloatArray) -> FloatArray:
    """Scale values by their row's largest and round away digits that depend on the order of summation."""
    scale = np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    levels: FloatArray = np.round(np.divide(values, scale, out=values * 0.0, where=scale > 0), _DIGITS)
    return levels


def pairwise_accuracy(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Return the share of pairs in the true order; pairs tied on one side only are half.

    >>> pairwise_accuracy(np.array([[3.0, 1.0, 2.0]]), np.array([3.0, 2.0, 1.0])).round(3)
    array([0.667])
    """
    if len(truth) < 2:
        return np.full(len(values), np.nan)
    agreement: FloatArray = 1.0 - np.abs(signs_of_pairs(values) - signs_of_pairs(truth[None])).mean(axis=1) / 2
    return agreement


def count_swapped_pairs(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Count pairs in the wrong order (Knowles and Lo 2023 ask whether there is any).

    >>> count_swapped_pairs(np.array([[3.0, 1.0, 2.0]]), np.array([3.0, 2.0, 1.0]))
    array([1.])
    """
    product = signs_of_pairs(values) * signs_of_pairs(truth[None])
    return np.where(np.isnan(product).any(axis=1), np.nan, (product < 0).sum(axis=1))


def kendall_b(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Return Kendall's tau-b of every outcome with the truth; NaN if either is constant.

    >>> kendall_b(np.array([[3.0, 1.0, 2.0]]), np.array([3.0, 2.0, 1.0])).round(3)
    array([0.333])
    """
    return _correlate_complete_rows(paired_kendall, _round_to_scale(values), _round_to_scale(truth[None]))


def pearson_rows(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Return Pearson's correlation of every outcome with the truth; NaN if either is constant.

    >>> pearson_rows(np.array([[1.0, 2.0, 3.0]]), np.array([2.0, 4.0, 6.0]))
    array([1.])
    """
    return _correlate_complete_rows(paired_pearson, values, truth[None])


def spearman(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Return Spearman's correlation of every outcome with the truth; NaN if either is constant.

    >>> spearman(np.array([[3.0, 1.0, 2.0]]), np.array([3.0, 2.0, 1.0]))
    array([0.5])
    """
    return _correlate_complete_rows(paired_spearman, _round_to_scale(values), _round_to_scale(truth[None]))


def _correlate_complete_rows(
    correlation: Callable[[FloatArray, FloatArray], FloatArray], values: FloatArray, truth: FloatArray
) -> FloatArray:
    """Correlate rows with the truth; NaN for rows with a missing value."""
    incomplete = np.isnan(values + truth).any(axis=1)
    return np.where(incomplete, np.nan, correlation(values, np.broadcast_to(truth, values.shape)))


def weighted_tau(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Return weighted Kendall's tau of each row: a swap of ranks r and s counts 1/(r+1)^2 + 1/(s+1)^2.

    Averaged over ranks (from 0) by the truth and by the values, as scipy's `weightedtau` (Vigna 2015). It is the
    measure of arXiv 2608.03437.

    >>> weighted_tau(np.array([[3.0, 2.0, 1.0], [2.0, 3.0, 1.0]]), np.array([3.0, 2.0, 1.0])).round(3).tolist()
    [1.0, 0.082]
    """
    result = np.full(len(values), np.nan)
    rows = np.flatnonzero(np.isfinite(values).all(axis=1))
    if len(truth) < 2 or not np.isfinite(truth).all() or not len(rows):
        return result
    x, y = values[rows], np.broadcast_to(truth, (len(rows), len(truth)))
    first, second = np.triu_indices(len(truth), 1)
    sign_x, sign_y = np.sign(x[:, first] - x[:, second]), np.sign(y[:, first] - y[:, second])
    taus = []
    for primary, secondary in ((x, y), (y, x)):
        place = np.argsort(np.lexsort((secondary, primary), axis=-1), axis=-1)
        weight = 1.0 / (len(truth) - place) ** 2  # the highest has place M - 1, rank 0 and weight 1
        pair = weight[:, first] + weight[:, second]
        scale = np.sqrt((pair * np.abs(sign_x)).sum(axis=1) * (pair * np.abs(sign_y)).sum(axis=1))
        with np.errstate(invalid="ignore", divide="ignore"):
            taus.append(np.clip((pair * sign_x * sign_y).sum(axis=1) / scale, -1.0, 1.0))
    result[rows] = (taus[0] + taus[1]) / 2
    return result


def top_share(values: FloatArray, truth: FloatArray, count: int) -> FloatArray:
    """Return the share of the `count` best systems among the first `count` of each row.

    >>> top_share(np.array([[4.0, 1.0, 3.0, 2.0]]), np.array([4.0, 3.0, 2.0, 1.0]), 2).tolist()
    [0.5]
    """
    count = min(count, len(truth))
    best = set(np.argsort(-truth, kind="stable")[:count].tolist())
    first = np.argsort(-np.nan_to_num(values, nan=-np.inf), axis=1, kind="stable")[:, :count]
    return np.array([len(best & set(row)) / count for row in first.tolist()])


def rank_of_best(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Return the true rank (1 = best) of the first system of each outcome; ties are averaged.

    >>> rank_of_best(np.array([[3.0, 1.0, 5.0]]), np.array([3.0, 2.0, 1.0]))
    array([3.])
    """
    if not len(truth):
        return np.full(len(values), np.nan)
    true_levels, levels = _round_to_scale(truth[None])[0], _round_to_scale(values)
    ranks = 1 + (true_levels[None, :] > true_levels[:, None]).sum(axis=1)
    first = levels == levels.max(axis=1, keepdims=True)  # all False for rows with a missing value
    count = first.sum(axis=1)
    return np.where(count > 0, (first * ranks).sum(axis=1) / np.maximum(count, 1), np.nan)


def dice(first: IntArray, second: IntArray) -> float:
    """Return the Dice coefficient of the best clusters (number 1) of two clusterings.

    >>> round(dice(np.array([1, 1, 2]), np.array([1, 2, 2])), 3)
    0.667
    """
    a, b = first == 1, second == 1
    size = int(a.sum() + b.sum())
    return 2 * int((a & b).sum()) / size if size else float("nan")


# -- Metrics against people at the system level: hard and soft pairwise accuracy, influence of systems -----------------


TableStatistic = Callable[[FloatArray, FloatArray], float]
"""Maps the metric's and the human items x systems tables to a number, such as a correlation."""

NestedStatistic = Callable[[FloatArray, FloatArray], FloatArray]
"""The same of the first two columns of the tables, the first three, ..., all."""


@dataclass(frozen=True)
class SystemAccuracy:
    """Share of pairs of systems that a metric orders correctly."""

    value: float  # from 0 to 1; NaN where no pair counts
    systems: int  # systems with common cells
    pairs: int  # pairs that count


@dataclass(frozen=True, eq=False)
class ExtremeCurves:
    """A statistic on the best and on the worst systems only."""

    sizes: IntArray  # numbers of systems, descending from all
    top: FloatArray  # the statistic on that many best systems (by people)
    last: FloatArray  # the same on the worst
    order: IntArray  # systems from best to worst, those without common cells left out


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """A statistic without each system in turn."""

    full: float  # on all systems
    without: FloatArray  # one per system; NaN for a system without common cells
    low: float  # the smallest of them
    high: float  # the largest


def metric_pairwise_accuracy(metric: FloatArray, human: FloatArray, metric_ties: MetricTies = "half") -> SystemAccuracy:
    """Return the share of pairs of systems whose means the metric orders as people do (Kocmi et al. 2021).

    `metric_ties`: pairs tied by the metric are wrong ("discordant"), left out ("skip") or "half" right. Pairs tied by
    people are left out. A table of one row holds system scores.

    >>> metric_pairwise_accuracy(np.array([[1.0, 2.0, 2.0]]), np.array([[1.0, 2.0, 3.0]]))
    SystemAccuracy(value=0.8333333333333333, systems=3, pairs=3)
    """
    means = system_means(metric, human)
    result = kendall_like(means[0][None], means[1][None], metric_ties)
    counted = result.concordant + result.discordant + (result.metric_ties if metric_ties != "skip" else 0)
    return SystemAccuracy((1 + result.value) / 2, int((~np.isnan(means[0])).sum()), counted)


def soft_pairwise_accuracy(
    metric: FloatArray, human: FloatArray, permutations: int | None = None, seed: Seed = 0
) -> SystemAccuracy:
    """Return soft pairwise accuracy, 1 - mean over pairs of |p_metric - p_human| (Thompson et al. 2024).

    The p-values are one-sided and paired over the items on which both systems have both scores. Without `permutations`
    they are the analytic limit (`pairwise.analytic_p`); pairs of systems without common items are left out.

    >>> human = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 3.5]])
    >>> soft_pairwise_accuracy(10 * human, human)
    SystemAccuracy(value=1.0, systems=2, pairs=1)
    """
    metric, human = mask_tables_to_common(metric, human)
    present = ~np.isnan(human)
    systems = np.flatnonzero(present.any(axis=0))
    metric, human, present = metric[:, systems], human[:, systems], present[:, systems]
    if permutations is None:
        p_metric, p_human = analytic_p(metric), analytic_p(human)
    else:
        draw = int(np.random.default_rng(seed).integers(1 << 62)) if isinstance(seed, np.random.Generator) else seed
        p_metric, p_human = permutation_p(metric, permutations, draw), permutation_p(human, permutations, draw)
    together = present.T.astype(np.int64) @ present > 0
    pairs = int(np.triu(together, 1).sum())
    if together.all():
        return SystemAccuracy(spa(p_metric, p_human), len(systems), pairs)
    apart = np.abs(p_metric - p_human)[np.triu(together, 1)]
    return SystemAccuracy(float(1 - apart.mean()) if pairs else float("nan"), len(systems), pairs)


def nested_statistic(statistic: TableStatistic) -> NestedStatistic:
    """Turn a statistic of tables into one of their first two columns, first three, ..., all."""
    return lambda metric, human: np.array(
        [statistic(metric[:, :columns], human[:, :columns]) for columns in range(2, metric.shape[1] + 1)]
    )


def extreme_curves(
    metric: FloatArray, human: FloatArray, curve: NestedStatistic, min_systems: int = 3
) -> ExtremeCurves:
    """Compute a statistic on the N best and the N worst systems, N = all..min_systems (HumEval 2022, paper 9).

    A decreasing curve means that the metric separates good from bad systems, but not good ones from each other. Systems
    are ordered by their human mean over all judged cells, equal for all metrics. `curve` returns the statistic of the
    first two columns, the first three, ..., so that pairs of outputs are compared only once.

    >>> from aliquot.stats.correlation import correlate_tables
    >>> metric, human = np.array([[1.0, 3.0, 2.0, 9.0]]), np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> curves = extreme_curves(metric, human, nested_statistic(lambda x, y: correlate_tables(x, y, "spearman").value))
    >>> curves.sizes, curves.top, curves.last
    (array([4, 3]), array([0.8, 0.5]), array([0.8, 0.5]))
    """
    at_least("min_systems", min_systems, 2, "a correlation needs at least 2 systems")
    common, _ = mask_tables_to_common(metric, human)
    means, _ = system_means(human, human)
    shared = np.flatnonzero(~np.isnan(common).all(axis=0))
    order = shared[np.argsort(-means[shared], kind="stable")]
    sizes = np.arange(len(order), min_systems - 1, -1, dtype=np.int64)
    if not len(sizes):
        return ExtremeCurves(sizes, np.empty(0), np.empty(0), order)
    top, last = (curve(metric[:, way], human[:, way])[sizes - 2] for way in (order, order[::-1]))
    last[0] = top[0]  # equal up to the order of summation
    return ExtremeCurves(sizes, top, last, order)


def leave_one_system_out(metric: FloatArray, human: FloatArray, statistic: TableStatistic) -> LeaveOneOut:
    """Compute a statistic without each system in turn (docs/methods.md, section 7).

    >>> from aliquot.stats.correlation import correlate_tables
    >>> metric, human = np.array([[1.0, 2.0, 3.0, 9.0]]), np.array([[3.0, 2.0, 1.0, 9.0]])
    >>> result = leave_one_system_out(metric, human, lambda x, y: correlate_tables(x, y, "kendall_b").value)
    >>> round(result.full, 12), result.low, round(result.high, 3)
    (0.0, -1.0, 0.333)
    """
    common, _ = mask_tables_to_common(metric, human)
    without = np.full(metric.shape[1], np.nan)
    for system in np.flatnonzero(~np.isnan(common).all(axis=0)):
        kept_columns = np.arange(metric.shape[1]) != system
        without[system] = statistic(metric[:, kept_columns], human[:, kept_columns])
    defined = without[~np.isnan(without)]
    low, high = (float(defined.min()), float(defined.max())) if len(defined) else (float("nan"), float("nan"))
    return LeaveOneOut(statistic(metric, human), without, low, high)
