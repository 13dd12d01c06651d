"""Is one metric better than another: permutation tests of all pairs of metrics, and clusters (docs/methods.md, 7).

Invariant: all metrics of a test are compared on the same cells, those that people and every one of them have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from aliquot.core.verdict_words import format_p
from aliquot.errors import DataError
from aliquot.metric_eval.metric_inputs import MetricInputs, ScoredCampaign
from aliquot.stats.arrays import FloatArray, Seed
from aliquot.stats.correlation import CorrelationLevel
from aliquot.stats.metric_tests import (
    MetricTests,
    Statistic,
    SwapUnit,
    compare_item_values,
    compare_metrics,
    metric_clusters,
)
from aliquot.stats.resampling import spawn_seeds
from aliquot.stats.tied_correlation import item_kendall_like, item_tie_accuracies, tie_accuracy

SWAP_TESTS: dict[str, tuple[Statistic, CorrelationLevel]] = {
    "accuracy": ("pairwise_accuracy", "system_means"),
    "spa": ("spa", "system_means"),
    "system_pearson": ("pearson", "system_means"),
    "system_spearman": ("spearman", "system_means"),
    "pooled_pearson": ("pearson", "pooled"),
    "pooled_spearman": ("spearman", "pooled"),
    "within_system_pearson": ("pearson", "within_system"),
    "within_system_spearman": ("spearman", "within_system"),
    "within_item_pearson": ("pearson", "within_item"),
    "within_item_spearman": ("spearman", "within_item"),
}
"""Tests that swap the scores of two metrics (PERM-BOTH): the statistic and the level of each."""

ITEM_TESTS = ("acc_eq", "kendall_like")
"""Tests of a mean over items, which swap whole items."""

TESTS = (*SWAP_TESTS, *ITEM_TESTS)
"""All tests."""

_SINGLE_SYSTEM_LEVELS = ("pooled", "within_system")
"""How the tests begin that need no second system."""

DEFAULT_TESTS = ("accuracy", "acc_eq")
"""The two measures of WMT23's metrics task; the others take up to a minute for 40 metrics."""


@dataclass(frozen=True)
class MetricPair:
    """Two metrics, the better one first, and the one-sided p-value that it is not."""

    human: str
    data: str
    test: str  # what is compared
    metric: str  # the better metric
    other: str  # the worse one
    difference: float  # of the measure
    p: float  # of the permutation test


@dataclass(frozen=True)
class MetricCluster:
    """One metric among those that it is not told apart from."""

    human: str
    data: str
    test: str  # what is compared
    metric: str
    value: float  # of the measure, on the common cells
    cluster: int  # 1 = best
    better_than: int  # how many metrics are significantly worse
    items: int  # items on which people and all metrics have scores
    systems: int  # likewise systems
    cells: int  # likewise outputs
    permutations: int  # of the test


def compare_metric_pairs(
    inputs: MetricInputs,
    tests: tuple[str, ...] = DEFAULT_TESTS,
    *,
    permutations: int = 1000,
    swap: SwapUnit = "both",
    alpha: float = 0.05,
    seed: Seed = 0,
) -> tuple[tuple[MetricPair, ...], tuple[MetricCluster, ...]]:
    """Test all pairs of metrics in every campaign.

    Args:
        inputs: at least two metrics.
        tests: of `TESTS`.
        permutations: of each test.
        swap: what changes places in tests of `SWAP_TESTS`: "both", "cells", "items" or "systems".
        alpha: one-sided significance level of the clusters.
        seed: of the swaps.

    Raises:
        DataError: fewer than two metrics, or no cell that all have.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> data = aliquot.synthetic(items=80, systems=4, metrics={"good": 0.9, "bad": 0.0}, seed=1)
    >>> pairs, clusters = compare_metric_pairs(build_inputs([data]), ("acc_eq",), permutations=199)
    >>> pairs[0].metric, pairs[0].p < 0.05, [row.cluster for row in clusters]
    ('good', True, [1, 2])
    """
    if len(inputs.metrics) < 2:
        raise DataError(f"there is one metric ('{inputs.metrics[0]}'); two are needed to compare metrics")
    pairs: list[MetricPair] = []
    clusters: list[MetricCluster] = []
    for campaign, child in zip(inputs.campaigns, spawn_seeds(seed, len(inputs.campaigns)), strict=True):
        names, stack, human = _keep_common_cells(inputs, campaign)
        for test in tests:
            if np.isfinite(human).any(axis=0).sum() < 2 and not test.startswith(_SINGLE_SYSTEM_LEVELS):
                raise DataError(
                    f"{campaign.name}: people and all metrics have scores of one system only; the test "
                    f"'{test}' needs two"
                )
            results = _run_test(test, stack, human, permutations, swap, child)
            label = (inputs.human, campaign.name, test)
            pairs += _list_pairs(label, names, results)
            clusters += _list_clusters(label, names, results, human, alpha)
    return tuple(pairs), tuple(clusters)


def _keep_common_cells(inputs: MetricInputs, campaign: ScoredCampaign) -> tuple[list[str], FloatArray, FloatArray]:
    """Return the metrics of a campaign, and the scores of metrics and people on their common cells."""
    indices = [index for index in range(len(inputs.metrics)) if np.isfinite(campaign.metrics[index]).any()]
    if len(indices) < 2:
        raise DataError(f"{campaign.name}: fewer than two metrics have scores; two are needed to compare metrics")
    stack = campaign.metrics[indices]
    missing = np.isnan(stack).any(axis=0)
    if missing.all():
        raise DataError(f"{campaign.name}: no output has a score of every metric; name fewer in `metrics`")
    blank = np.where(missing, np.nan, 0.0)
    return [inputs.metrics[index] for index in indices], stack + blank, campaign.human + blank


def _run_test(
    test: str, stack: FloatArray, human: FloatArray, permutations: int, swap: SwapUnit, seed: int
) -> MetricTests:
    if test in SWAP_TESTS:
        statistic, level = SWAP_TESTS[test]
        return compare_metrics(stack, human, statistic, level, swap=swap, permutations=permutations, seed=seed)
    if test == "acc_eq":
        # Where no item has a pair there is no threshold, and nothing that it would change.
        thresholds = [float(np.nan_to_num(tie_accuracy(metric, human).epsilon)) for metric in stack]
        values = [item_tie_accuracies(stack[index], human, epsilon) for index, epsilon in enumerate(thresholds)]
    else:
        values = [item_kendall_like(metric, human) for metric in stack]
    return compare_item_values(np.column_stack(values), permutations, seed)


def _list_pairs(label: tuple[str, str, str], metrics: list[str], results: MetricTests) -> list[MetricPair]:
    rows = []
    for first in range(len(metrics)):
        for second in range(first + 1, len(metrics)):
            better, worse = (first, second) if not results.values[first] < results.values[second] else (second, first)
            difference = float(results.values[better] - results.values[worse])
            rows.append(
                MetricPair(*label, metrics[better], metrics[worse], difference, float(results.p[better, worse]))
            )
    return rows


def _list_clusters(
    label: tuple[str, str, str], metrics: list[str], results: MetricTests, human: FloatArray, alpha: float
) -> list[MetricCluster]:
    numbers = metric_clusters(results, alpha)
    present = np.isfinite(human)
    counts = (int(present.any(axis=1).sum()), int(present.any(axis=0).sum()), int(present.sum()))
    return [
        MetricCluster(
            *label,
            metric,
            float(results.values[index]),
            int(numbers[index]),
            int((results.p[index] < alpha).sum()),
            *counts,
            results.permutations,
        )
        for index, metric in enumerate(metrics)
    ]


# -- one metric against the others, in words -------------------------------------------------------------------------

_MEASURES = {"accuracy": "ordering systems (pairwise accuracy)", "acc_eq": "ordering the outputs of an item (acc-eq)"}


def write_comparisons(
    names: Sequence[str], pairs: Sequence[MetricPair], clusters: Sequence[MetricCluster], alpha: float
) -> list[str]:
    """Write for each named metric whether it is better than the others, a sentence for each measure.

    >>> row = MetricPair("mqm", "wmt", "acc_eq", "mine", "COMET", 0.02, 0.001)
    >>> write_comparisons(["mine"], [row], [], 0.05)
    ['At ordering the outputs of an item (acc-eq) mine is better than COMET (by 0.020, p = 0.001).']
    """
    labels = dict.fromkeys((row.human, row.data, row.test) for row in pairs)
    several = len({label[:2] for label in labels}) > 1
    sentences = []
    for name, (human, data, test) in product(names, labels):
        rows = [row for row in pairs if (row.human, row.data, row.test) == (human, data, test)]
        rows = [row for row in rows if name in (row.metric, row.other)]
        if not rows:
            continue
        values = {row.metric: row.value for row in clusters if (row.human, row.data, row.test) == (human, data, test)}
        others = [row.other if row.metric == name else row.metric for row in rows]
        leader = max((values.get(other, 0.0), other) for other in others)[1]
        where = f" ({data}, '{human}')" if several else ""
        sentences.append(f"At {_MEASURES.get(test, test)}{where} {_compare_with_others(name, rows, leader, alpha)}.")
    return sentences


def _compare_with_others(name: str, rows: Sequence[MetricPair], leader: str, alpha: float) -> str:
    """Compare a metric with one other, or with all others and the best of them."""
    row = next(row for row in rows if leader in (row.metric, row.other))
    shown = f"by {row.difference:.3f}, {format_p(row.p)}"
    if row.p >= alpha:
        verdict = f"not told apart from {leader} ({shown})"
    else:
        verdict = f"{'better' if row.metric == name else 'worse'} than {leader} ({shown})"
    if len(rows) == 1:
        return f"{name} is {verdict}"
    counts = [sum(row.p < alpha and getattr(row, side) == name for row in rows) for side in ("metric", "other")]
    return (
        f"{name} is {verdict}, the best of {len(rows)} other metrics; it is better than {counts[0]} of them and worse "
        f"than {counts[1]} (each p below {alpha:g})"
    )
