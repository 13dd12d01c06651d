"""subset2evaluate's measures of one subset: how far do its system means and p-values agree with those of all items?

`data_new` is the subset, `data_old` all items; the systems are those of the first old item. Where `metric` is a tuple,
the first score is read from the new items, the second from the old.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from scipy.stats import pearsonr, spearmanr

from aliquot.compat.select_subset import column_means
from aliquot.compat.significance import (
    Data,
    Metric,
    SoftAccuracy,
    cluster_count,
    compute_clusters,
    list_systems,
    load_items,
    read_score_tables,
    read_scores,
    split_metric,
)
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.stats.arrays import FloatArray, is_constant

Correlation = Literal["kendall", "spearman", "pearson"]
Error = Literal["absolute", "squared", "root_squared"]


def eval_subset_spa(data_new: Data, data_old: Data, metric: Metric = "human") -> float:
    """Soft pairwise accuracy with subset2evaluate's permutation test.

    >>> items = [{"scores": {"A": {"human": k % 3}, "B": {"human": 1.0}}} for k in range(20)]
    >>> eval_subset_spa(items[:5], items)
    0.86
    """
    new, old = read_score_tables(data_new, data_old, metric)
    return SoftAccuracy.against(old, len(new)).of(new)


def eval_subset_pairwise_accuracy(data_new: Data, data_old: Data, metric: Metric = "human") -> float:
    """Share of the pairs of systems that new and old means put in the same order.

    A tie counts as "not below", so that the result depends on the order of the systems where means tie.
    """
    new, old = read_score_tables(data_new, data_old, metric)
    return _order_agreement(column_means(new), column_means(old))


def eval_order_accuracy(scores_new: Mapping[str, float], scores_old: Mapping[str, float]) -> float:
    """`eval_subset_pairwise_accuracy` on scores per system.

    >>> eval_order_accuracy({"A": 1, "B": 2, "C": 3}, {"A": 1, "B": 3, "C": 2}) == 2 / 3
    True
    """
    for system in scores_old:
        if system not in scores_new:
            raise unknown_name("system", system, scores_new, "scores_new lacks it")
    if len(scores_old) < 2:
        raise DataError(f"scores_old has the systems {quoted(scores_old)}; give at least two")
    new = np.array([scores_new[system] for system in scores_old])
    return _order_agreement(new, np.array(list(scores_old.values())))


def _order_agreement(new: FloatArray, old: FloatArray) -> float:
    first, second = np.triu_indices(len(old), 1)
    return float(np.mean((old[first] < old[second]) == (new[first] < new[second])))


def eval_subset_top(data_new: Data, data_old: Data, metric: Metric = "human") -> float:
    """Where the new items' best system stands among the old items' systems: 1 for the best, 0 for the last."""
    metric_new, metric_old = split_metric(metric)
    new, old = get_model_absolute(data_new, metric_new), get_model_absolute(data_old, metric_old)
    if len(old) < 2:
        raise DataError(f"data_old has one system, {quoted(old)}; there is nothing to compare")
    best = max(new, key=new.__getitem__)
    if best not in old:
        raise unknown_name("system", best, old, "it is the best on data_new; leave it out there")
    ranked = sorted(old, key=old.__getitem__, reverse=True)
    return 1 - ranked.index(best) / (len(old) - 1)


def eval_subset_correlation(
    data_new: Data, data_old: Data, metric: Metric = "human", correlation: Correlation = "kendall"
) -> float:
    """Correlation of the systems' new and old means.

    Where either side is constant Kendall's tau is NaN, and the others are 0, as in subset2evaluate.
    """
    if correlation not in get_args(Correlation):
        raise OptionError(f"correlation is {correlation!r}; give one of {quoted(get_args(Correlation))}")
    new, old = (column_means(table) for table in read_score_tables(data_new, data_old, metric))
    if correlation == "kendall":
        return float(tau_b(new[None, :], old)[0])
    if (new == new[0]).all() or (old == old[0]).all():
        return 0.0
    measure = spearmanr if correlation == "spearman" else pearsonr
    return float(measure(old, new).statistic)


def tau_b(rows: FloatArray, target: FloatArray) -> FloatArray:
    """Kendall's tau-b of every row with the target, NaN where either is constant.

    The divisions are scipy's, in its order: parity asks whether a value is at least the mean of others, which may be
    the same number but for its last bit. `stats.correlation.kendall_with_target` takes one square root and may differ
    there.

    >>> tau_b(np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]), np.array([1.0, 3.0, 2.0])).round(3)
    array([0.333,   nan])
    """
    first, second = np.triu_indices(len(target), 1)
    expected = np.sign(target[first] - target[second])
    observed = np.sign(rows[:, first] - rows[:, second])
    untied_target, untied = np.count_nonzero(expected), np.count_nonzero(observed, axis=1)
    with np.errstate(invalid="ignore"):
        tau = (observed @ expected) / np.sqrt(untied_target) / np.sqrt(untied)
    return np.asarray(np.clip(tau, -1.0, 1.0))


def eval_subset_error(data_new: Data, data_old: Data, metric: Metric = "human", error: Error = "absolute") -> float:
    """Mean absolute, mean squared or root mean squared error of the system means."""
    if error not in get_args(Error):
        raise OptionError(f"error is {error!r}; give one of {quoted(get_args(Error))}")
    new, old = (column_means(table) for table in read_score_tables(data_new, data_old, metric))
    if error == "absolute":
        return float(np.mean(np.abs(old - new)))
    squared = float(np.mean((old - new) ** 2))
    return squared if error == "squared" else float(np.sqrt(squared))


def eval_subset_clusters(data: Data, metric: Metric = "human") -> int:
    """Return the number of clusters of systems."""
    items = load_items(data, "data")
    return cluster_count(read_scores(items, split_metric(metric)[0]))


def eval_subset_clusters_top(
    data_new: Data, data_old: Data, clusters_old: list[list[str]] | None = None, metric: Metric = "human"
) -> float:
    """Dice overlap of the best clusters; both by the first of two metrics, as in subset2evaluate."""
    new = set(compute_clusters(data_new, metric)[0])
    old = set((compute_clusters(data_old, metric) if clusters_old is None else clusters_old)[0])
    return 2 * len(new & old) / (len(new) + len(old))


def get_model_absolute(data_new: Data, metric: str = "human") -> dict[str, float]:
    """Mean score of every system.

    >>> get_model_absolute([{"scores": {"A": {"m": 1.0}}}, {"scores": {"A": {"m": 2.0}}}], "m")
    {'A': 1.5}
    """
    items = load_items(data_new, "data")
    systems = list_systems(items)
    return dict(zip(systems, column_means(read_scores(items, metric, systems)).tolist(), strict=True))


def get_model_ordering(data_new: Data, metric: str = "human") -> dict[str, int]:
    """Rank of every system by its mean, 0 = best; the best system comes first."""
    means = get_model_absolute(data_new, metric)
    ranked = sorted(means, key=means.__getitem__, reverse=True)
    return {system: rank for rank, system in enumerate(ranked)}


def eval_metrics_correlations(data: Data, metric_target: str = "human", display: bool = False) -> dict[str, float]:
    """Pearson correlation of every other score with the target over all outputs, highest first, undefined last.

    >>> items = [{"scores": {"A": {"human": k, "m": k**2, "n": -k}}} for k in range(4)]
    >>> {name: round(value, 3) for name, value in eval_metrics_correlations(items).items()}
    {'m': 0.958, 'n': -1.0}
    """
    items = load_items(data, "data")
    systems = list_systems(items)
    target = read_scores(items, metric_target, systems).ravel()
    names: Sequence[str] = [name for name in items[0]["scores"][systems[0]] if name != metric_target]
    correlations = {name: _pearson(read_scores(items, name, systems).ravel(), target) for name in names}
    ordered = dict(sorted(correlations.items(), key=lambda pair: (np.isnan(pair[1]), -pair[1])))
    if display:
        sys.stdout.write("".join(f"{name:<40} {value:.1%}\n" for name, value in ordered.items()))
    return ordered


def _pearson(values: FloatArray, target: FloatArray) -> float:
    if len(values) < 2 or is_constant(values) or is_constant(target):
        return float("nan")
    return float(pearsonr(values, target).statistic)
