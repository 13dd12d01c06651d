"""Replaying an order on tables of scores: curves over budgets, and the search for parity, as subset2evaluate does them.

Invariant: numbers of items, and the comparisons that end a search, are subset2evaluate's exactly.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from aliquot.compat.clusters import cluster_count, cluster_counts
from aliquot.compat.permutations import SoftAccuracy
from aliquot.compat.subset import tau_b
from aliquot.compat.tables import column_means
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.stats.arrays import FloatArray, IntArray

FIRST = 5
"""Items at which the search for parity starts."""

Numbers = Sequence[float] | FloatArray


def spa_curve(accuracy: SoftAccuracy, new: FloatArray, budgets: Sequence[int]) -> list[float]:
    """Soft pairwise accuracy of the first k new items, for every budget k."""
    return [accuracy.of(new[:k]) for k in budgets]


def cluster_curve(table: FloatArray, budgets: Sequence[int]) -> list[int]:
    """Count clusters on the first k items, for every budget k."""
    return [cluster_count(table[:k]) for k in budgets]


def tau_curve(new: FloatArray, old: FloatArray, budgets: Iterable[int]) -> list[float]:
    """Kendall's tau-b of the means on the first k new items with those on the old ones, for every budget k."""
    means = np.array([column_means(new[:k]) for k in budgets])
    return [float(value) for value in tau_b(means, column_means(old))]


def spa_parity(accuracy: SoftAccuracy, new: FloatArray, targets: Numbers, items: int, props: Numbers) -> float:
    """Parity of soft pairwise accuracy; `items` is the number of old ones."""
    return _parity(accuracy.of_prefixes(new, FIRST), targets, len(new), items, props)


def clucor_parity(
    cluster_table: FloatArray,
    new: FloatArray,
    old: FloatArray,
    targets: tuple[Numbers, Numbers],
    props: Numbers,
) -> tuple[float, float]:
    """Parities of cluster count and correlation."""
    correlations = tau_curve(new, old, range(FIRST, len(new) + 1)) if len(new) >= FIRST else []
    clusters = _parity(cluster_counts(cluster_table, FIRST), targets[0], len(new), len(old), props)
    return clusters, _parity(correlations, targets[1], len(new), len(old), props)


def _parity(values: Iterable[float], targets: Numbers, new_items: int, old_items: int, props: Numbers) -> float:
    """Mean over budgets of (items that reach the target) / budget; as in zip, what is longer is cut."""
    wanted = np.array([target for target, _ in zip(targets, props, strict=False)], dtype=np.float64)
    shares = np.array([share for _, share in zip(targets, props, strict=False)], dtype=np.float64)
    if not len(wanted):
        raise OptionError("there are no targets or no props; give one target for every budget")
    reached = _first_reached(values, wanted, new_items)
    return float(np.mean(reached / (old_items * shares)))


def _first_reached(values: Iterable[float], targets: FloatArray, last: int) -> IntArray:
    """Number of items, from `FIRST` on, at which each target is reached first; `last` where it never is."""
    if last < FIRST:
        raise DataError(f"data_new has {last} items; parity is searched from {FIRST} items on")
    reached, waiting = np.full(len(targets), last), np.ones(len(targets), dtype=np.bool_)
    for k, value in enumerate(values, start=FIRST):
        now = waiting & (value >= targets)
        reached[now] = k
        waiting &= ~now
        if not waiting.any():
            return reached
    message = f"{waiting.sum()} of {len(targets)} targets were never reached and count as all {last} new items"
    # Five up is whoever called eval_spa_par or eval_clucor_par.
    warnings.warn(f"{message}, as in subset2evaluate", AliquotWarning, stacklevel=5)
    return reached


def budgets_of(items: int, props: Numbers) -> list[int]:
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
        draw = random.Random(seed)  # noqa: S311 (the numbers must be those of subset2evaluate)
        utility = [draw.random() for _ in range(items)]
        yield sorted(range(items), key=utility.__getitem__, reverse=True)
