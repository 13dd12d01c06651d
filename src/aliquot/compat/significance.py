"""Tables of scores, clusters of systems and permutation tests, number by number as in subset2evaluate 1.0.27.

Invariant: a table is items x systems, in the order of the list and of the first item's systems, and holds finite
numbers only. subset2evaluate does not handle missing scores (it stops with a KeyError, or counts a NaN as a p-value of
0), so a missing score is an error here.

Clusters: systems are sorted by their mean; a system starts a new cluster when the one just above beats it by a
one-sided Wilcoxon test, p < 0.05, or when the two have the same score on every item. The second rule is
subset2evaluate's own (a comment there doubts it); `aliquot.stats.ranks` keeps identical systems together. Fewer than
three items make one cluster.

Permutation tests: every p-value equals subset2evaluate's to the last bit. Its test draws the same random signs in every
call (numpy's `default_rng(0)`, single precision, one row of signs for each permutation) and adds single-precision
scores, so that ties and rounding are part of the number. Every call with k items takes the first permutations x k
numbers of one stream of signs; it is drawn once and viewed in rows of k, which makes the prefixes of an order cheap.
Matrix products get as many BLAS threads as subset2evaluate's would: from a few hundred items on their number changes
the last bit of a sum. OMP_NUM_THREADS=1 is quicker for both on a busy machine. `aliquot.stats.pairwise` has the tests
that we recommend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from aliquot.compat.select_subset import Item, as_items, column_means
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.pairwise import MAX_EXACT_UNTIED, wilcoxon_p

Data = Sequence[Item] | str | Path
"""Items, or a path or descriptor to load them from."""

Metric = str | tuple[str, str]
"""A score, or two: the one to rank systems by on the new items, and the one on the old items."""

_REMEDY = "subset2evaluate's measures need every score: leave out the items or systems that lack it"


def load_items(data: Data, name: str) -> Sequence[Item]:
    """Return the items as they are, or load them; `name` is the argument's, for the message."""
    items = as_items(data) if isinstance(data, str | Path) else data
    if not len(items):
        raise DataError(f"{name} is empty; give at least one item")
    return items


def split_metric(metric: Metric) -> tuple[str, str]:
    """Return the score for the new and the one for the old items.

    >>> split_metric("human"), split_metric(("COMET", "human"))
    (('human', 'human'), ('COMET', 'human'))
    """
    if isinstance(metric, str):
        return metric, metric
    pair: object = metric  # from users without a type checker
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise OptionError(f"metric is {metric!r}; give a name, or a tuple of two: for the new and for the old items")
    return metric


def list_systems(items: Sequence[Item], name: str = "data") -> list[str]:
    """Return the systems of the first item, which subset2evaluate takes for those of all."""
    scores = items[0].get("scores")
    if not isinstance(scores, dict) or not scores:
        raise DataError(f"{name}: item number 0 has no scores; give items with 'scores': {{system: {{score: value}}}}")
    return list(scores)


def read_scores(
    items: Sequence[Item], metric: str, systems: Sequence[str] | None = None, name: str = "data"
) -> FloatArray:
    """Read one score of all items and systems (by default those of the first item); `name` is for messages.

    >>> read_scores([{"scores": {"A": {"m": 1}, "B": {"m": 2.5}}}], "m")
    array([[1. , 2.5]])
    """
    columns = list_systems(items, name) if systems is None else systems
    try:
        rows = [[item["scores"][system][metric] for system in columns] for item in items]
        table = np.array(rows)
    except (KeyError, TypeError, ValueError):
        _raise_missing_score(items, metric, columns, name)
    if table.dtype.kind not in "biuf" or not np.isfinite(table).all():
        _raise_missing_score(items, metric, columns, name)
    # Single precision stays: subset2evaluate averages numpy's float32 scores as such.
    return table if table.dtype.kind == "f" else table.astype(np.float64)


def read_score_tables(data_new: Data, data_old: Data, metric: Metric) -> tuple[FloatArray, FloatArray]:
    """Read the new and the old items' scores of the old items' systems, of which there must be two."""
    new, old = load_items(data_new, "data_new"), load_items(data_old, "data_old")
    metric_new, metric_old = split_metric(metric)
    systems = list_systems(old, "data_old")
    if len(systems) < 2:
        raise DataError(f"data_old has one system, {quoted(systems)}; there is nothing to compare")
    return read_scores(new, metric_new, systems, "data_new"), read_scores(old, metric_old, systems, "data_old")


def _raise_missing_score(items: Sequence[Item], metric: str, systems: Sequence[str], name: str) -> NoReturn:
    """Raise for the first score that cannot be used, with the reason."""
    for number, item in enumerate(items):
        scores = item.get("scores") or {}
        for system in systems:
            if system not in scores:
                raise DataError(f"{name}: item number {number} lacks the system '{system}'; {_REMEDY}")
            values: dict[str, Any] = scores[system] if isinstance(scores[system], dict) else {}
            if metric not in values and number == 0:
                raise unknown_name("score", metric, values)
            value = values.get(metric)
            if not isinstance(value, int | float | np.number) or not np.isfinite(value):
                what = f"the score {value!r}" if metric in values else "no score"
                raise DataError(f"{name}: item number {number}, system '{system}' has {what} for '{metric}'; {_REMEDY}")
    raise DataError(f"{name}: the scores '{metric}' are not numbers; {_REMEDY}")


# -- clusters ----------------------------------------------------------------------------------------------------------


_ALPHA = 0.05
_MIN_ITEMS = 3
"""Items below which everything is one cluster."""


def compute_clusters(data: Data, metric: Metric = "human") -> list[list[str]]:
    """Group systems that are not told apart, best cluster first; of two metrics the first is taken.

    >>> items = [{"scores": {"A": {"m": k}, "B": {"m": k + 1.0}, "C": {"m": k + 0.9 + k % 2}}} for k in range(9)]
    >>> compute_clusters(items, "m")
    [['C', 'B'], ['A']]
    """
    systems, table = _read(data, metric)
    order = _order(table)
    ranked = [systems[place] for place in order]
    if len(table) < _MIN_ITEMS:
        return [ranked]
    starts = [*(1 + np.flatnonzero(_starts(table[:, order]))).tolist(), len(ranked)]
    return [ranked[start:end] for start, end in zip([0, *starts[:-1]], starts, strict=True)]


def compute_clusters_pvalues(data: Data, metric: Metric = "human") -> list[float]:
    """P-values of each system against the one just above, 1 where the two are the same; none below three items."""
    _, table = _read(data, metric)
    if len(table) < _MIN_ITEMS:
        return []
    same, p_values = _neighbours(table[:, _order(table)])
    return [float(value) for value in np.where(same, 1.0, p_values)]


def compute_clusters_soft(data: Data, metric: Metric = "human") -> list[float] | list[list[str]]:
    """Return `compute_clusters_pvalues`, but for fewer than three items all systems as one cluster, as there."""
    items = load_items(data, "data")
    return compute_clusters(items, metric) if len(items) < _MIN_ITEMS else compute_clusters_pvalues(items, metric)


def cluster_count(table: FloatArray) -> int:
    """Return the number of clusters of an items x systems table."""
    return 1 if len(table) < _MIN_ITEMS else 1 + int(_starts(table[:, _order(table)]).sum())


def cluster_counts(table: FloatArray, first: int) -> Iterator[int]:
    """Yield the number of clusters on the first k items, k = first, first + 1, ..., as many as are asked for."""
    for k in range(first, len(table) + 1):
        yield cluster_count(table[:k])


def _read(data: Data, metric: Metric) -> tuple[list[str], FloatArray]:
    items = load_items(data, "data")
    systems = list_systems(items)
    return systems, read_scores(items, split_metric(metric)[0], systems)


def _order(table: FloatArray) -> IntArray:
    """Return the systems by descending mean; ties keep their order."""
    return np.argsort(-column_means(table), kind="stable")


def _starts(ranked: FloatArray) -> BoolArray:
    """Return which systems after the first start a cluster."""
    same, p_values = _neighbours(ranked)
    return same | (p_values < _ALPHA)


def _neighbours(ranked: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Compare each system after the first with the one before: the same everywhere? p-value of the one before?"""
    below, above = ranked[:, 1:], ranked[:, :-1]
    same = (below == above).all(axis=0)
    if len(ranked) <= MAX_EXACT_UNTIED:
        return same, np.diagonal(wilcoxon_p(ranked, all_digits=True), 1)
    # With more items scipy approximates whatever the ties, and so tests neighbours at once: fewer pairs than all.
    p_values = np.full(len(same), 0.5)
    differences = (below - above)[:, ~same]
    if differences.size:
        p_values[~same] = wilcoxon(differences, alternative="less", method="asymptotic", axis=0).pvalue
    return same, p_values


# -- permutation tests and soft pairwise accuracy ----------------------------------------------------------------------


Float32Array = NDArray[np.float32]

PERMUTATIONS = 1000


@dataclass(frozen=True)
class Signs:
    """The stream of random signs (+1 and -1), cut into `permutations` rows whatever the number of items."""

    stream: Float32Array
    permutations: int

    @classmethod
    def draw(cls, items: int, permutations: int = PERMUTATIONS) -> Signs:
        """Draw the signs for up to `items` items; 4 bytes for every item and permutation."""
        if permutations < 1:
            raise OptionError(f"num_permutations is {permutations}; give at least 1")
        uniform = np.random.default_rng(0).random(permutations * items, dtype=np.float32)
        # There they are rounded to 0 or 1, half to even, which makes exactly 0.5 a 0.
        return cls(np.where(uniform > 0.5, np.float32(1), np.float32(-1)), permutations)

    def p_values(self, scores: Float32Array) -> FloatArray:
        """One-sided p-values of all pairs a < b, in the order of `np.triu_indices`.

        p is the share of permutations whose difference is at least the observed one, so that it can be 0. The memory
        layout of `scores` (items x systems) counts: it decides the order in which numbers are added.
        """
        systems, items = scores.shape[1], len(scores)
        signs = self.stream[: self.permutations * items].reshape(self.permutations, items)
        flipped = np.ascontiguousarray(np.matmul(signs, scores).T)
        total = scores.T.sum(axis=1)
        counts = [
            np.count_nonzero(flipped[a] - flipped[a + 1 :] >= (total[a] - total[a + 1 :])[:, None], axis=1)
            for a in range(systems - 1)
        ]
        return np.concatenate(counts) / self.permutations if counts else np.empty(0)


@dataclass(frozen=True)
class SoftAccuracy:
    """Soft pairwise accuracy against the p-values of one set of old items, with signs enough for old and new."""

    p_old: FloatArray
    signs: Signs

    @classmethod
    def against(cls, old: FloatArray, longest: int) -> SoftAccuracy:
        """Test the old items, and get ready for subsets of up to `longest` items."""
        signs = Signs.draw(max(len(old), longest))
        return cls(signs.p_values(old.astype(np.float32)), signs)

    def of(self, new: FloatArray) -> float:
        """Return the accuracy of a subset, items x systems."""
        return _one_minus_error(self.signs.p_values(new.astype(np.float32)), self.p_old)

    def of_prefixes(self, new: FloatArray, first: int) -> Iterator[float]:
        """Yield the accuracy of the first k items, for k = first, first + 1, ..., as many as are asked for."""
        scores = new.astype(np.float32)
        for k in range(first, len(scores) + 1):
            yield _one_minus_error(self.signs.p_values(scores[:k]), self.p_old)


def compute_pairwise_p_values(seg_scores: NDArray[Any], num_permutations: int = PERMUTATIONS) -> FloatArray:
    """One-sided p-values of all pairs of systems by subset2evaluate's permutation test.

    `seg_scores` is systems x items (the other way round than everywhere else in aliquot). The result is systems x
    systems; p[a, b] for a < b is small where a is better than b; NaN elsewhere.

    >>> compute_pairwise_p_values(np.array([[3.0, 2.0, 4.0, 2.0], [1.0, 1.0, 5.0, 1.0]]))
    array([[  nan, 0.265],
           [  nan,   nan]])
    """
    scores = np.asarray(seg_scores)
    if scores.ndim != 2 or not scores.shape[1]:
        raise DataError(f"seg_scores has the shape {scores.shape}; give a systems x items table with items")
    single = scores.astype(np.float32)
    if not np.isfinite(single).all():
        raise DataError("seg_scores holds missing or infinite values; leave out the items that lack a score")
    result = np.full((len(single), len(single)), np.nan)
    result[np.triu_indices(len(single), 1)] = Signs.draw(single.shape[1], num_permutations).p_values(single.T)
    return result


def compute_one_minus_pce(metric_pairwise_p_vals: FloatArray, human_pairwise_p_vals: FloatArray) -> float:
    """Soft pairwise accuracy of two tables of p-values: one minus their mean distance above the diagonal.

    >>> compute_one_minus_pce(np.array([[0.5, 0.2], [0.8, 0.5]]), np.array([[0.5, 0.1], [0.9, 0.5]]))
    0.9
    """
    shapes = np.shape(metric_pairwise_p_vals), np.shape(human_pairwise_p_vals)
    if shapes[0] != shapes[1] or len(shapes[0]) != 2 or shapes[0][0] < 2:
        raise DataError(f"the tables of p-values have the shapes {shapes[0]} and {shapes[1]}; give systems x systems")
    pairs = np.triu_indices(len(human_pairwise_p_vals), 1)
    return _one_minus_error(metric_pairwise_p_vals[pairs], human_pairwise_p_vals[pairs])


def _one_minus_error(p_new: FloatArray, p_old: FloatArray) -> float:
    return float(1.0 - np.mean(np.abs(p_old - p_new)))
