"""Permutation tests of whether one metric agrees with people better than another.

Invariant: all metrics are compared on the cells that people and every metric have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
from threadpoolctl import threadpool_limits

from aliquot.errors import OptionError
from aliquot.stats import metric_permutations
from aliquot.stats.arrays import FloatArray, IntArray, Seed, is_negligible, validate_metric_stack
from aliquot.stats.correlation import CorrelationLevel
from aliquot.stats.metric_permutations import MetricScores, SwappedValues
from aliquot.stats.pairwise import permutation_p
from aliquot.stats.ranks import ClusterRule, assign_clusters
from aliquot.validation import at_least, between, one_of

Statistic = Literal["pearson", "spearman", "pairwise_accuracy", "spa"]
SwapUnit = Literal["both", "cells", "items", "systems"]

_BLOCK = 256
"""Swaps per block; fixed, because random numbers depend on it."""

_TIE = 1e-9
"""Difference of two correlations that is rounding."""


@dataclass(frozen=True, eq=False)
class MetricTests:
    """Correlations of K metrics with people, with pairwise p-values."""

    values: FloatArray  # statistic of every metric; NaN where undefined
    p: FloatArray  # metrics x metrics, one-sided; p[a, b] small means a is better. NaN where either value is
    cells: int  # common cells of people and all metrics
    items: int  # items with such cells
    systems: int  # systems with such cells
    permutations: int  # b
    swap: SwapUnit  # what was swapped


def compare_metrics(
    metrics: FloatArray,
    human: FloatArray,
    statistic: Statistic = "pearson",
    level: CorrelationLevel = "system_means",
    *,
    swap: SwapUnit = "both",
    permutations: int = 1000,
    seed: Seed = 0,
) -> MetricTests:
    """Test for all pairs of metrics whether one agrees with people better (Deutsch et al. 2021, PERM-BOTH).

    The metrics are standardised, then in each of B permutations the scores of A and B are swapped at random: p = (b +
    1) / (B + 1), b the number of permutations in which A' exceeds B' by more than A exceeds B, ties half. All pairs
    share the swaps. "both", the paper's PERM-BOTH, swaps whole systems and whole items, each with probability 1/2.
    "cells" swaps every cell independently; WMT's metrics task calls that PERM-BOTH. For WMT's system level give the
    system means as a table of one item, with "cells".

    The null hypothesis is exchangeability of the two metrics in the swapped units. A metric that favours some systems
    violates it for items: at the system level all swaps but "systems" then call too many differences significant (two
    equally good metrics with biases as large as their noise: 35 of 100 at 0.05, with "systems" 8).

    `statistic` is "pearson" or "spearman" (at the item levels scores are ranked in the group before they are swapped);
    at level "system_means" also "pairwise_accuracy" (metric ties half) or "spa" (with analytic p-values).

    >>> human = np.random.default_rng(0).normal(size=(50, 4)) + np.arange(4)
    >>> tests = compare_metrics(np.stack([human, -human]), human, "pearson", "pooled", permutations=199)
    >>> tests.values.round(2), tests.p[0, 1]
    (array([ 1., -1.]), np.float64(0.005))
    """
    at_least("permutations", permutations, 1)
    one_of("swap", swap, get_args(SwapUnit))
    swapped = _choose_statistic(statistic, level)
    scores = _cut_to_common_cells(np.asarray(metrics, dtype=np.float64), np.asarray(human, dtype=np.float64))
    size, cells, count = scores.human.shape, int(scores.present.sum()), len(scores.metrics)
    if not cells:
        undefined = np.full((count, count), np.nan)
        return MetricTests(undefined[0], undefined, 0, 0, 0, permutations, swap)
    with threadpool_limits(limits=1, user_api="blas"):  # small matrices: threads cost more than they give
        observed_first, observed_second = (result[0] for result in swapped(scores, np.ones((1, *size))))
        exceeding = np.zeros(len(observed_first))
        for signs in _draw_signs(swap, size, permutations, np.random.default_rng(seed)):
            ahead, behind = swapped(scores, signs)
            # A swap after which nothing varies counts as a tie.
            excess = np.nan_to_num(ahead - behind - (observed_first - observed_second))
            exceeding += 0.5 * ((excess > _TIE).sum(axis=0) + (excess >= -_TIE).sum(axis=0))
    values, (first, second) = np.full(count, np.nan), np.triu_indices(count, 1)
    values[first], values[second] = observed_first, observed_second
    p = _p_matrix(exceeding, observed_first - observed_second, permutations, count)
    return MetricTests(values, p, cells, size[0], size[1], permutations, swap)


def compare_item_values(values: FloatArray, permutations: int = 1000, seed: Seed = 0) -> MetricTests:
    """Test whether the mean of a per-item statistic differs between metrics, by swapping whole items.

    For statistics averaged over items, such as `item_tie_accuracies` (with each metric's own threshold fixed): the
    paired sign-flip test on the items where both metrics are defined.

    >>> tests = compare_item_values(np.array([[1.0, 0.0], [0.5, 0.0], [0.7, 0.2], [0.9, 0.1], [1.0, 0.9]]), 999)
    >>> tests.values.round(2), bool(tests.p[0, 1] < 0.05)
    (array([0.82, 0.24]), True)
    """
    p = permutation_p(values, permutations, seed)
    present = ~np.isnan(values)
    count = present.sum(axis=0)
    means = np.where(count > 0, np.where(present, values, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
    undefined = count == 0
    p[undefined], p[:, undefined] = np.nan, np.nan
    return MetricTests(means, p, int(count.sum()), int(present.any(axis=1).sum()), 0, permutations, "items")


def metric_clusters(tests: MetricTests, alpha: float = 0.05, rule: ClusterRule = "any") -> IntArray:
    """Number the clusters of metrics without significant differences, 1 = best (docs/methods.md, section 5).

    Metrics without a value share the last cluster; p-values are not adjusted for multiple comparisons.

    >>> p = np.array([[0.5, 0.3, 0.01], [0.7, 0.5, 0.2], [0.99, 0.8, 0.5]])
    >>> metric_clusters(MetricTests(np.array([0.9, 0.8, 0.1]), p, 10, 5, 2, 999, "both"))
    array([1, 1, 2])
    """
    between("alpha", alpha, 0, 0.5, inclusive=False)
    return assign_clusters(tests.values, np.asarray(tests.p < alpha, dtype=np.bool_), rule)


def _choose_statistic(
    statistic: Statistic, level: CorrelationLevel
) -> Callable[[MetricScores, FloatArray], SwappedValues]:
    one_of("statistic", statistic, get_args(Statistic))
    one_of("level", level, get_args(CorrelationLevel))
    if level == "system_means":
        if statistic == "spa":
            return metric_permutations.soft_accuracy
        of_means = {
            "pearson": metric_permutations.means_pearson,
            "spearman": metric_permutations.means_spearman,
            "pairwise_accuracy": metric_permutations.means_accuracy,
        }[statistic]
        return partial(metric_permutations.system_mean_statistic, statistic=of_means)
    if statistic in {"pairwise_accuracy", "spa"}:
        raise OptionError(
            f"statistic '{statistic}' compares systems; give it with level 'system_means', or pearson or spearman"
            f" with level '{level}' (compare_item_values tests pairwise accuracies within items)"
        )
    return partial(metric_permutations.grouped_pearson, grouping=level, ranks=statistic == "spearman")


def _cut_to_common_cells(metrics: FloatArray, human: FloatArray) -> MetricScores:
    """Restrict to the cells of people and all metrics, and standardise every metric over them."""
    validate_metric_stack(metrics, human)
    if len(metrics) < 2:
        raise OptionError(f"there are {len(metrics)} metrics; give at least 2 to compare")
    missing = np.isnan(metrics).any(axis=0) | np.isnan(human)
    items, systems = np.flatnonzero(~missing.all(axis=1)), np.flatnonzero(~missing.all(axis=0))
    cut = np.ix_(items, systems)
    blank = np.where(missing[cut], np.nan, 0.0)
    cut_metrics = np.stack([metric[cut] for metric in metrics]) + blank
    if not cut_metrics.size:
        return MetricScores(human[cut] + blank, cut_metrics)
    present = ~missing[cut]
    centred = cut_metrics - cut_metrics[:, present].mean(axis=1)[:, None, None]
    spread = centred[:, present].std(axis=1)
    # A constant metric becomes exactly 0, without rounding of its mean.
    varies = ~is_negligible(spread, np.abs(cut_metrics[:, present]).max(axis=1))
    scale = np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0)
    return MetricScores(human[cut] + blank, centred * scale[:, None, None])


def _draw_signs(
    swap: SwapUnit, size: tuple[int, int], permutations: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield random signs of the cells, swaps x items x systems."""
    items, systems = size
    for start in range(0, permutations, _BLOCK):
        block = min(_BLOCK, permutations - start)
        if swap == "cells":
            yield _draw_coins(rng, (block, items, systems))
            continue
        ones = np.ones((block, items, systems))
        of_items = _draw_coins(rng, (block, items, 1)) if swap != "systems" else ones
        of_systems = _draw_coins(rng, (block, 1, systems)) if swap != "items" else ones
        yield of_items * of_systems


def _draw_coins(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    return np.asarray(2.0 * rng.integers(0, 2, shape, dtype=np.int8) - 1.0, dtype=np.float64)


def _p_matrix(exceeding: FloatArray, difference: FloatArray, permutations: int, count: int) -> FloatArray:
    p = np.full((count, count), 0.5)
    first, second = np.triu_indices(count, 1)
    defined = ~np.isnan(difference)
    p[first, second] = np.where(defined, (exceeding + 1) / (permutations + 1), np.nan)
    p[second, first] = np.where(defined, (permutations - exceeding + 1) / (permutations + 1), np.nan)
    return p
