"""Search at random for the subset of items that ranks systems most like the whole set.

Invariant: a subset holds every item at most once, and the accuracy returned is that of the subset returned.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed, blocks
from aliquot.stats.pairwise import analytic_p, pair_differences, permutation_p, spa, spa_from_sums

Judge = Callable[[IntArray, IntArray], FloatArray]
"""Accuracy of the items chosen so far with each of many extensions (one per row)."""

_CHUNK = 1 << 22
"""Random numbers held at a time."""


def best_random_subset(
    scores: FloatArray,
    n: int,
    simulations: int = 1000,
    seed: Seed = 0,
    start: IntArray | None = None,
    *,
    analytic: bool = True,
    permutations: int = 1000,
) -> tuple[IntArray, float]:
    """Best of many random subsets of n items by soft pairwise accuracy (Zouhar et al. 2025, appendix A).

    Args:
        scores: Items x systems, NaN = missing; a metric, or human scores as an oracle.
        n: Items in the subset, those of `start` included.
        start: Items that every subset contains.
        analytic: Whether p-values are analytic; otherwise by `permutations` sign flips, a hundred times slower.

    Returns:
        The items (`start` as given, then the others ascending) and their accuracy.

    >>> scores = np.random.default_rng(0).normal(size=(40, 3)) + np.arange(3)
    >>> chosen, accuracy = best_random_subset(scores, 10, simulations=50, seed=1)
    >>> len(set(chosen.tolist())), bool(accuracy > 0.9)
    (10, True)
    """
    fixed = np.empty(0, dtype=np.int64) if start is None else np.asarray(start, dtype=np.int64)
    _check(scores, n, simulations, fixed)
    rng = np.random.default_rng(seed)
    judge = _analytic_judge(scores) if analytic else _permutation_judge(scores, permutations, rng)
    return _extend(judge, len(scores), fixed, n - len(fixed), simulations, rng)


def greedy_subset(
    scores: FloatArray, n: int, simulations: int = 1000, step: int = 10, seed: Seed = 0
) -> tuple[IntArray, float]:
    """Grow a subset by the best of many random extensions of `step` items (Zouhar et al. 2025, eq. 13).

    Args:
        step: Items that are added at a time; the last step adds what is left.

    Returns:
        The items in the order in which they were added and the accuracy of them all.

    >>> scores = np.random.default_rng(0).normal(size=(40, 3)) + np.arange(3)
    >>> chosen, accuracy = greedy_subset(scores, 10, simulations=50, step=4, seed=1)
    >>> len(set(chosen.tolist())), bool(accuracy > 0.9)
    (10, True)
    """
    chosen = np.empty(0, dtype=np.int64)
    _check(scores, n, simulations, chosen)
    if step < 1:
        raise OptionError(f"step is {step}; add at least 1 item at a time")
    rng, judge, accuracy = np.random.default_rng(seed), _analytic_judge(scores), float("nan")
    while len(chosen) < n:
        chosen, accuracy = _extend(judge, len(scores), chosen, min(step, n - len(chosen)), simulations, rng)
    return chosen, accuracy


def _check(scores: FloatArray, n: int, simulations: int, start: IntArray) -> None:
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise OptionError(f"scores has shape {scores.shape}; give an items x systems table with at least 2 systems")
    if simulations < 1:
        raise OptionError(f"simulations is {simulations}; give at least 1")
    if len(np.unique(start)) < len(start) or ((start < 0) | (start >= len(scores))).any():
        raise OptionError(f"start must be different positions from 0 to {len(scores) - 1}")
    if not max(1, len(start)) <= n <= len(scores):
        raise OptionError(f"n is {n}; give a number from {max(1, len(start))} to {len(scores)}, the number of items")


def _analytic_judge(scores: FloatArray) -> Judge:
    """Judge by the analytic p-values: sums of d and d^2 over a subset are one sparse product."""
    difference = pair_differences(scores)
    terms = np.hstack([difference, difference**2])
    target = analytic_p(scores)

    def judge(start: IntArray, extensions: IntArray) -> FloatArray:
        count, width = extensions.shape
        bounds = np.arange(0, count * width + 1, width) if width else np.zeros(count + 1, dtype=np.int64)
        member = csr_array((np.ones(count * width), extensions.ravel(), bounds), shape=(count, len(scores)))
        sums = terms[start].sum(axis=0) + member @ terms
        pairs = difference.shape[1]
        return spa_from_sums(sums[:, :pairs], sums[:, pairs:], target)

    return judge


def _permutation_judge(scores: FloatArray, permutations: int, rng: np.random.Generator) -> Judge:
    """Judge by the sign-flip test, with the same flips for every subset so that luck does not choose."""
    flips = int(rng.integers(2**62))
    target = permutation_p(scores, permutations, flips)

    def judge(start: IntArray, extensions: IntArray) -> FloatArray:
        subsets = [np.concatenate([start, extension]) for extension in extensions]
        return np.array([spa(permutation_p(scores[subset], permutations, flips), target) for subset in subsets])

    return judge


def _extend(
    judge: Judge, items: int, start: IntArray, size: int, simulations: int, rng: np.random.Generator
) -> tuple[IntArray, float]:
    """Return `start` with the best of `simulations` random extensions, and its accuracy."""
    pool = np.setdiff1d(np.arange(items), start)
    best, accuracy = start, -np.inf
    if not size:
        return start, float(judge(start, np.empty((1, 0), dtype=np.int64))[0])
    for block in blocks(simulations, items, _CHUNK):
        keys = rng.random((block.stop - block.start, len(pool)))
        extensions = pool[np.argpartition(keys, size - 1, axis=1)[:, :size]]
        values = judge(start, extensions)
        top = int(np.argmax(values))
        if values[top] > accuracy:
            best, accuracy = np.concatenate([start, np.sort(extensions[top])]), float(values[top])
    return best, accuracy
