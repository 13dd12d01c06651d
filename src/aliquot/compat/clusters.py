"""The clusters of systems that subset2evaluate counts.

Systems are sorted by their mean; a system starts a new cluster when the one just above beats it by a one-sided
Wilcoxon test, p < 0.05, or when the two have the same score on every item. The second rule is subset2evaluate's own
(a comment there doubts it); `aliquot.stats.ranks` keeps identical systems together. Fewer than three items make
one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import wilcoxon

from aliquot.compat.tables import Data, Metric, column_means, loaded, metric_pair, score_table, systems_of
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.pairwise import EXACT_UNTIED, wilcoxon_p

_ALPHA = 0.05
_FEWEST = 3
"""Items below which everything is one cluster."""


def compute_clusters(data: Data, metric: Metric = "human") -> list[list[str]]:
    """Group systems that are not told apart, best cluster first; of two metrics the first is taken.

    Example:
        >>> items = [{"scores": {"A": {"m": k}, "B": {"m": k + 1.0}, "C": {"m": k + 0.9 + k % 2}}} for k in range(9)]
        >>> compute_clusters(items, "m")
        [['C', 'B'], ['A']]
    """
    systems, table = _read(data, metric)
    order = _order(table)
    ranked = [systems[place] for place in order]
    if len(table) < _FEWEST:
        return [ranked]
    starts = [*(1 + np.flatnonzero(_starts(table[:, order]))).tolist(), len(ranked)]
    return [ranked[start:end] for start, end in zip([0, *starts[:-1]], starts, strict=True)]


def compute_clusters_pvalues(data: Data, metric: Metric = "human") -> list[float]:
    """P-values of each system against the one just above, from the top; 1 where the two are the same on every item.

    Fewer than three items have none.
    """
    _, table = _read(data, metric)
    if len(table) < _FEWEST:
        return []
    same, p_values = _neighbours(table[:, _order(table)])
    return [float(value) for value in np.where(same, 1.0, p_values)]


def compute_clusters_soft(data: Data, metric: Metric = "human") -> list[float] | list[list[str]]:
    """Return `compute_clusters_pvalues`, but for fewer than three items all systems as one cluster, as there."""
    items = loaded(data, "data")
    return compute_clusters(items, metric) if len(items) < _FEWEST else compute_clusters_pvalues(items, metric)


def cluster_count(table: FloatArray) -> int:
    """Return the number of clusters of an items x systems table."""
    return 1 if len(table) < _FEWEST else 1 + int(_starts(table[:, _order(table)]).sum())


def cluster_counts(table: FloatArray, first: int) -> Iterator[int]:
    """Yield the number of clusters on the first k items, k = first, first + 1, ..., as many as are asked for."""
    for k in range(first, len(table) + 1):
        yield cluster_count(table[:k])


def _read(data: Data, metric: Metric) -> tuple[list[str], FloatArray]:
    items = loaded(data, "data")
    systems = systems_of(items)
    return systems, score_table(items, metric_pair(metric)[0], systems)


def _order(table: FloatArray) -> IntArray:
    """Systems from the highest mean down, those that tie in the order given."""
    return np.argsort(-column_means(table), kind="stable")


def _starts(ranked: FloatArray) -> BoolArray:
    """Say which systems after the first start a cluster."""
    same, p_values = _neighbours(ranked)
    return same | (p_values < _ALPHA)


def _neighbours(ranked: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Compare each system after the first with the one before: the same everywhere? p-value of the one before?"""
    below, above = ranked[:, 1:], ranked[:, :-1]
    same = (below == above).all(axis=0)
    if len(ranked) <= EXACT_UNTIED:
        return same, np.diagonal(wilcoxon_p(ranked), 1)
    # With more items scipy approximates whatever the ties, and so tests neighbours at once: fewer pairs than all.
    p_values = np.full(len(same), 0.5)
    differences = (below - above)[:, ~same]
    if differences.size:
        p_values[~same] = wilcoxon(differences, alternative="less", method="asymptotic", axis=0).pvalue
    return same, p_values
