"""subset2evaluate.evaluate: curves over budgets, parity with random selection, and the measures of one subset.

`from aliquot.compat import evaluate` stands for `from subset2evaluate import evaluate`: the same calls give the same
numbers (to 1e-9; parities exactly). Lists are read once and never changed. Two habits of subset2evaluate are kept here
and nowhere else in aliquot:

- parity starts at 5 items, and a target that is never reached counts as all new items; here it warns. Our own parity
  (docs/methods.md, section 6) starts at 1 item and reports "never reached" as such;
- soft pairwise accuracy comes from 1,000 permutations with one fixed seed. Ours is analytic by default.

Missing scores are an error here; subset2evaluate stops with a KeyError or computes with NaN.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from aliquot.compat.select_subset import Item, column_means, random_utility
from aliquot.compat.significance import (
    Data,
    Metric,
    SoftAccuracy,
    cluster_count,
    cluster_counts,
    compute_clusters,
    compute_clusters_pvalues,
    compute_clusters_soft,
    compute_one_minus_pce,
    compute_pairwise_p_values,
    load_items,
    read_score_tables,
    read_scores,
    split_metric,
)
from aliquot.compat.subset import (
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
    tau_b,
)
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.stats.arrays import FloatArray, IntArray

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

MIN_ITEMS = 5
"""Items at which the search for parity starts."""

Numbers = Sequence[float] | FloatArray

PROPS: tuple[float, ...] = tuple(np.linspace(0.05, 0.5, 10).tolist())
"""The ten budgets, 5% to 50% of the old items."""


# -- curves over budgets -------------------------------------------------------------------------------------------


def eval_spa(data_new: Data, data_old: Data, metric: Metric = "human", props: Numbers = PROPS) -> list[float]:
    """Soft pairwise accuracy of the first new items, for every budget.

    `data_new` are items in the order of a selection, `props` budgets as shares of the old items; `metric` may be a
    tuple, one score for the new and one for the old items.

    >>> items = [{"scores": {"A": {"human": k % 3}, "B": {"human": 1.0}}} for k in range(40)]
    >>> eval_spa(items[::-1], items, props=[0.25, 0.5])
    [0.894, 0.98]
    """
    new, old = read_score_tables(data_new, data_old, metric)
    return _compute_spa_curve(SoftAccuracy.against(old, len(new)), new, _compute_budgets(len(old), props))


def eval_clucor(
    data_new: Data, data_old: Data, metric: Metric = "human", props: Numbers = PROPS
) -> tuple[list[int], list[float]]:
    """Number of clusters, and Kendall's tau-b with the old means, of the first new items, for every budget."""
    items = load_items(data_new, "data_new")
    new, old = read_score_tables(items, data_old, metric)
    budgets = _compute_budgets(len(old), props)
    return _count_clusters_by_budget(_read_cluster_scores(items, metric), budgets), _compute_tau_curve(
        new, old, budgets
    )


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

    The mean of C / B, C the smallest number of items from 5 on that reaches the target of budget B. A target never
    reached counts as all new items, with a warning. `workers` is ignored: one pass serves all budgets. Other arguments
    as `eval_spa`.

    >>> items = [{"scores": {"A": {"human": k % 3}, "B": {"human": 1.0}}} for k in range(40)]
    >>> eval_spa_par(items[::-1], items, [0.7, 0.8], props=[0.25, 0.5])
    0.375
    """
    del workers
    new, old = read_score_tables(data_new, data_old, metric)
    return _compute_spa_parity(SoftAccuracy.against(old, len(new)), new, spas_tgt, len(old), props)


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
    items = load_items(data_new, "data_new")
    new, old = read_score_tables(items, data_old, metric)
    return _compute_clucor_parity(_read_cluster_scores(items, metric), new, old, (clus_tgt, cors_tgt), props)


# -- parity with random selection ----------------------------------------------------------------------------------


def precompute_spa_randnorm(
    data_old: Data, random_seeds: int = 10, metric: Metric = "human", workers: int = 10, props: Numbers = PROPS
) -> tuple[FloatArray, float]:
    """Soft pairwise accuracy of random selection, and the parity of other random selections with it.

    The orders are subset2evaluate's: Python's `random.Random(seed)`, seeds from 0 for the accuracy, and as many further
    ones for the parity. Returns mean accuracy for every budget, and the mean parity, which is not exactly 1.
    """
    del workers
    new, old = _read_both_scores(data_old, metric)
    accuracy, budgets = SoftAccuracy.against(old, len(old)), _compute_budgets(len(old), props)
    curves = [_compute_spa_curve(accuracy, new[order], budgets) for order in random_orders(len(old), 0, random_seeds)]
    target = np.mean(curves, axis=0)
    parities = [
        _compute_spa_parity(accuracy, new[order], target, len(old), props)
        for order in random_orders(len(old), random_seeds, 2 * random_seeds)
    ]
    return target, float(np.mean(parities))


def precompute_clucor_randnorm(
    data_old: Data, random_seeds: int = 10, metric: Metric = "human", workers: int = 10, props: Numbers = PROPS
) -> tuple[tuple[FloatArray, FloatArray], tuple[float, float]]:
    """Counts and correlations of random selection by budget, and their parities; see `precompute_spa_randnorm`."""
    del workers
    new, old = _read_both_scores(data_old, metric)
    budgets = _compute_budgets(len(old), props)
    orders = list(random_orders(len(old), 0, random_seeds))
    counts = np.mean([_count_clusters_by_budget(new[order], budgets) for order in orders], axis=0)
    correlations = np.mean([_compute_tau_curve(new[order], old, budgets) for order in orders], axis=0)
    parities = [
        _compute_clucor_parity(new[order], new[order], old, (counts, correlations), props)
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
    precomputed = spa_precomputed or precompute_spa_randnorm(data_old, random_seeds, metric, props=props)
    return eval_spa_par(data_new, data_old, precomputed[0], metric, props) / precomputed[1]


def eval_clucor_par_randnorm(
    data_new: Data,
    data_old: Data,
    random_seeds: int = 10,
    metric: Metric = "human",
    clucor_precomputed: tuple[tuple[FloatArray, FloatArray], tuple[float, float]] | None = None,
    props: Numbers = PROPS,
) -> tuple[float, float]:
    """Parities of cluster count and correlation with random selection, in units of its own parities."""
    precomputed = clucor_precomputed or precompute_clucor_randnorm(data_old, random_seeds, metric, props=props)
    clusters, correlation = eval_clucor_par(data_new, data_old, *precomputed[0], metric, props)
    return clusters / precomputed[1][0], correlation / precomputed[1][1]


# -- what goes in --------------------------------------------------------------------------------------------------


def _read_cluster_scores(items: Sequence[Item], metric: Metric) -> FloatArray:
    """Read the scores that clusters are made of: all systems of the new items, the first of two metrics."""
    return read_scores(items, split_metric(metric)[0], name="data_new")


def _read_both_scores(data_old: Data, metric: Metric) -> tuple[FloatArray, FloatArray]:
    """Read the old items' scores twice: as those of a selection to come, and as the truth."""
    items = load_items(data_old, "data_old")
    return read_score_tables(items, items, metric)


# -- replaying an order on tables of scores ----------------------------------------------------------------------------


def _compute_spa_curve(accuracy: SoftAccuracy, new: FloatArray, budgets: Sequence[int]) -> list[float]:
    """Soft pairwise accuracy of the first k new items, for every budget k."""
    return [accuracy.of(new[:k]) for k in budgets]


def _count_clusters_by_budget(table: FloatArray, budgets: Sequence[int]) -> list[int]:
    """Count clusters on the first k items, for every budget k."""
    return [cluster_count(table[:k]) for k in budgets]


def _compute_tau_curve(new: FloatArray, old: FloatArray, budgets: Iterable[int]) -> list[float]:
    """Kendall's tau-b of the means on the first k new items with those on the old ones, for every budget k."""
    means = np.array([column_means(new[:k]) for k in budgets])
    return [float(value) for value in tau_b(means, column_means(old))]


def _compute_spa_parity(accuracy: SoftAccuracy, new: FloatArray, targets: Numbers, items: int, props: Numbers) -> float:
    """Parity of soft pairwise accuracy; `items` is the number of old ones."""
    return _compute_parity(accuracy.of_prefixes(new, MIN_ITEMS), targets, len(new), items, props)


def _compute_clucor_parity(
    cluster_table: FloatArray, new: FloatArray, old: FloatArray, targets: tuple[Numbers, Numbers], props: Numbers
) -> tuple[float, float]:
    """Parities of cluster count and correlation."""
    correlations = _compute_tau_curve(new, old, range(MIN_ITEMS, len(new) + 1)) if len(new) >= MIN_ITEMS else []
    clusters = _compute_parity(cluster_counts(cluster_table, MIN_ITEMS), targets[0], len(new), len(old), props)
    return clusters, _compute_parity(correlations, targets[1], len(new), len(old), props)


def _compute_parity(values: Iterable[float], targets: Numbers, new_items: int, old_items: int, props: Numbers) -> float:
    """Mean over budgets of (items that reach the target) / budget; as in zip, what is longer is cut."""
    goals = np.array([target for target, _ in zip(targets, props, strict=False)], dtype=np.float64)
    shares = np.array([share for _, share in zip(targets, props, strict=False)], dtype=np.float64)
    if not len(goals):
        raise OptionError("there are no targets or no props; give one target for every budget")
    reached = _count_items_to_targets(values, goals, new_items)
    return float(np.mean(reached / (old_items * shares)))


def _count_items_to_targets(values: Iterable[float], targets: FloatArray, last: int) -> IntArray:
    """Number of items, from `MIN_ITEMS` on, at which each target is reached first; `last` where it never is."""
    if last < MIN_ITEMS:
        raise DataError(f"data_new has {last} items; parity is searched from {MIN_ITEMS} items on")
    reached, waiting = np.full(len(targets), last), np.ones(len(targets), dtype=np.bool_)
    for k, value in enumerate(values, start=MIN_ITEMS):
        now = waiting & (value >= targets)
        reached[now] = k
        waiting &= ~now
        if not waiting.any():
            return reached
    message = f"{waiting.sum()} of {len(targets)} targets were never reached and count as all {last} new items"
    # Five up is whoever called eval_spa_par or eval_clucor_par.
    warnings.warn(f"{message}, as in subset2evaluate", AliquotWarning, stacklevel=5)
    return reached


def _compute_budgets(items: int, props: Numbers) -> list[int]:
    """Return numbers of items, rounded down as there."""
    budgets = [int(items * share) for share in props]
    for k, share in zip(budgets, props, strict=True):
        if k < 1:
            raise OptionError(f"a budget of {share:g} of {items} items is below one item; give larger props")
    return budgets


def random_orders(items: int, first_seed: int, end_seed: int) -> Iterator[list[int]]:
    """Yield the orders of subset2evaluate's method "random", one for every seed."""
    if end_seed <= first_seed:
        raise OptionError(f"random_seeds is {end_seed - first_seed}; give at least 1")
    for seed in range(first_seed, end_seed):
        yield np.argsort(-random_utility(items, seed), kind="stable").tolist()
