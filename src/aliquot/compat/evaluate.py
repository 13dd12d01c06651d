"""subset2evaluate.evaluate: curves over budgets, parity with random selection, and the measures of one subset.

`from aliquot.compat import evaluate` stands for `from subset2evaluate import evaluate`: the same calls give the same
numbers (to 1e-9; parities exactly). Lists are read once and never changed. Two habits of subset2evaluate are kept here
and nowhere else in aliquot:

- parity starts at 5 items, and a target that is never reached counts as all new items; here it warns. Our own parity
  (METHODS.md section 6) starts at 1 item and reports "never reached" as such;
- soft pairwise accuracy comes from 1,000 permutations with one fixed seed. Ours is analytic by default.

Missing scores are an error here; subset2evaluate stops with a KeyError or computes with NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aliquot.compat.clusters import compute_clusters, compute_clusters_pvalues, compute_clusters_soft
from aliquot.compat.permutations import SoftAccuracy, compute_one_minus_pce, compute_pairwise_p_values
from aliquot.compat.subset import (
    Numbers,
    budgets_of,
    clucor_parity,
    cluster_curve,
    eval_metrics_correlations,
    eval_order_accuracy,
    eval_subset_clusters,
    eval_subset_clusters_top,
    eval_subset_correlation,
    eval_subset_error,
    eval_subset_pairwise_accuracy,
    eval_subset_spa,
    eval_subset_top,
    get_model_absolute,
    get_model_ordering,
    random_orders,
    spa_curve,
    spa_parity,
    tau_curve,
)
from aliquot.compat.tables import Data, Item, Metric, loaded, metric_pair, score_table, two_tables
from aliquot.stats.arrays import FloatArray

__all__ = [
    "PROPS",
    "compute_clusters",
    "compute_clusters_pvalues",
    "compute_clusters_soft",
    "compute_one_minus_pce",
    "compute_pairwise_p_values",
    "eval_clucor",
    "eval_clucor_par",
    "eval_clucor_par_randnorm",
    "eval_command_line",
    "eval_metrics_correlations",
    "eval_order_accuracy",
    "eval_spa",
    "eval_spa_par",
    "eval_spa_par_randnorm",
    "eval_subset_clusters",
    "eval_subset_clusters_top",
    "eval_subset_correlation",
    "eval_subset_error",
    "eval_subset_pairwise_accuracy",
    "eval_subset_spa",
    "eval_subset_top",
    "get_model_absolute",
    "get_model_ordering",
    "precompute_clucor_randnorm",
    "precompute_spa_randnorm",
]

PROPS: tuple[float, ...] = tuple(np.linspace(0.05, 0.5, 10).tolist())
"""The ten budgets, 5% to 50% of the old items."""


# -- curves over budgets -------------------------------------------------------------------------------------------


def eval_spa(data_new: Data, data_old: Data, metric: Metric = "human", props: Numbers = PROPS) -> list[float]:
    """Soft pairwise accuracy of the first new items, for every budget.

    Args:
        data_new: Items in the order of a selection.
        data_old: All items.
        metric: The score that ranks systems; a tuple for one of the new and one of the old items.
        props: Budgets, as shares of the old items.

    Returns:
        One value per budget.

    Raises:
        DataError: A missing score, or a budget below one item.

    Example:
        >>> items = [{"scores": {"A": {"human": k % 3}, "B": {"human": 1.0}}} for k in range(40)]
        >>> eval_spa(items[::-1], items, props=[0.25, 0.5])
        [0.894, 0.98]
    """
    new, old = two_tables(data_new, data_old, metric)
    return spa_curve(SoftAccuracy.against(old, len(new)), new, budgets_of(len(old), props))


def eval_clucor(
    data_new: Data, data_old: Data, metric: Metric = "human", props: Numbers = PROPS
) -> tuple[list[int], list[float]]:
    """Number of clusters, and Kendall's tau-b with the old means, of the first new items, for every budget."""
    items = loaded(data_new, "data_new")
    new, old = two_tables(items, data_old, metric)
    budgets = budgets_of(len(old), props)
    return cluster_curve(_cluster_table(items, metric), budgets), tau_curve(new, old, budgets)


def eval_command_line(
    data_old: Data, data_new: Data, metric: Metric = "human", *, swapped: bool = True
) -> tuple[float, float]:
    """Return the two numbers that `subset2evaluate-eval OLD NEW` prints: mean correlation and mean cluster count.

    That program hands its files over in the wrong order: it compares the first items of OLD with all of NEW, so that
    the selection's order does not count. `swapped=False` compares the first items of NEW with all of OLD.
    """
    pair = (data_old, data_new) if swapped else (data_new, data_old)
    counts, correlations = eval_clucor(*pair, metric=metric)
    return float(np.mean(correlations)), float(np.mean(counts))


# -- parity --------------------------------------------------------------------------------------------------------


def eval_spa_par(
    data_new: Data,
    data_old: Data,
    spas_tgt: Numbers,
    metric: Metric = "human",
    props: Numbers = PROPS,
    workers: int = 10,
) -> float:
    """Share of the items that the new order needs for the same soft pairwise accuracy, averaged over budgets.

    Args:
        data_new: Items in the order of a selection, at least five.
        data_old: All items.
        spas_tgt: The accuracy to reach, for every budget.
        metric: As in `eval_spa`.
        props: The budgets.
        workers: Ignored: one pass serves all budgets.

    Returns:
        Mean of C / B, C the smallest number of items from 5 on that reaches the target of budget B. A target that is
        never reached counts as all new items, with a warning.

    Example:
        >>> items = [{"scores": {"A": {"human": k % 3}, "B": {"human": 1.0}}} for k in range(40)]
        >>> eval_spa_par(items[::-1], items, [0.7, 0.8], props=[0.25, 0.5])
        0.375
    """
    del workers
    new, old = two_tables(data_new, data_old, metric)
    return spa_parity(SoftAccuracy.against(old, len(new)), new, spas_tgt, len(old), props)


def eval_clucor_par(
    data_new: Data,
    data_old: Data,
    clus_tgt: Numbers,
    cors_tgt: Numbers,
    metric: Metric = "human",
    props: Numbers = PROPS,
    workers: int = 10,
) -> tuple[float, float]:
    """Return the parities of cluster count and correlation; see `eval_spa_par`."""
    del workers
    items = loaded(data_new, "data_new")
    new, old = two_tables(items, data_old, metric)
    return clucor_parity(_cluster_table(items, metric), new, old, (clus_tgt, cors_tgt), props)


# -- parity with random selection ----------------------------------------------------------------------------------


def precompute_spa_randnorm(
    data_old: Data, random_seeds: int = 10, metric: Metric = "human", workers: int = 10, props: Numbers = PROPS
) -> tuple[FloatArray, float]:
    """Soft pairwise accuracy of random selection, and the parity of other random selections with it.

    The orders are subset2evaluate's: Python's `random.Random(seed)`, seeds from 0 for the accuracy, and as many
    further ones for the parity.

    Returns:
        Mean accuracy for every budget, and the mean parity, which is not exactly 1.
    """
    del workers
    new, old = _both_scores(data_old, metric)
    accuracy, budgets = SoftAccuracy.against(old, len(old)), budgets_of(len(old), props)
    curves = [spa_curve(accuracy, new[order], budgets) for order in random_orders(len(old), 0, random_seeds)]
    target = np.mean(curves, axis=0)
    parities = [
        spa_parity(accuracy, new[order], target, len(old), props)
        for order in random_orders(len(old), random_seeds, 2 * random_seeds)
    ]
    return target, float(np.mean(parities))


def precompute_clucor_randnorm(
    data_old: Data, random_seeds: int = 10, metric: Metric = "human", workers: int = 10, props: Numbers = PROPS
) -> tuple[tuple[FloatArray, FloatArray], tuple[float, float]]:
    """Cluster counts and correlations of random selection, and the parities of others; see `precompute_spa_randnorm`.

    Returns:
        (mean counts, mean correlations) for every budget, and (parity of counts, parity of correlations).
    """
    del workers
    new, old = _both_scores(data_old, metric)
    budgets = budgets_of(len(old), props)
    orders = list(random_orders(len(old), 0, random_seeds))
    counts = np.mean([cluster_curve(new[order], budgets) for order in orders], axis=0)
    correlations = np.mean([tau_curve(new[order], old, budgets) for order in orders], axis=0)
    parities = [
        clucor_parity(new[order], new[order], old, (counts, correlations), props)
        for order in random_orders(len(old), random_seeds, 2 * random_seeds)
    ]
    clusters, correlation = np.mean(parities, axis=0).tolist()
    return (counts, correlations), (clusters, correlation)


def eval_spa_par_randnorm(
    data_new: Data,
    data_old: Data,
    random_seeds: int = 10,
    metric: Metric = "human",
    spa_precomputed: tuple[FloatArray, float] | None = None,
    props: Numbers = PROPS,
) -> float:
    """Parity of soft pairwise accuracy with random selection, in units of random selection's own parity."""
    given = spa_precomputed or precompute_spa_randnorm(data_old, random_seeds, metric, props=props)
    return eval_spa_par(data_new, data_old, given[0], metric, props) / given[1]


def eval_clucor_par_randnorm(
    data_new: Data,
    data_old: Data,
    random_seeds: int = 10,
    metric: Metric = "human",
    clucor_precomputed: tuple[tuple[FloatArray, FloatArray], tuple[float, float]] | None = None,
    props: Numbers = PROPS,
) -> tuple[float, float]:
    """Parities of cluster count and correlation with random selection, in units of its own parities."""
    given = clucor_precomputed or precompute_clucor_randnorm(data_old, random_seeds, metric, props=props)
    clusters, correlation = eval_clucor_par(data_new, data_old, *given[0], metric, props)
    return clusters / given[1][0], correlation / given[1][1]


# -- what goes in --------------------------------------------------------------------------------------------------


def _cluster_table(items: Sequence[Item], metric: Metric) -> FloatArray:
    """Clusters are made of the new items' own systems, and of the first of two metrics."""
    return score_table(items, metric_pair(metric)[0], name="data_new")


def _both_scores(data_old: Data, metric: Metric) -> tuple[FloatArray, FloatArray]:
    """Read the old items' scores twice: as those of a selection to come, and as the truth."""
    items = loaded(data_old, "data_old")
    return two_tables(items, items, metric)
