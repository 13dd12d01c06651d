"""The published samplers of systems, from their definitions, many runs at once: plain random order, plain means.

arXiv 2608.03437: after five items for each system, the next judgment goes to a system drawn with weight 1 / rank^power
by the present means, on the system's next item. Audibert and Bubeck (2010): successive rejects, anew for each budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from aliquot.stats.arrays import FloatArray, IntArray

FIRST = 5


@dataclass(frozen=True, eq=False)
class Looks:
    """What was known at each look of each run: L x R x M means, half widths of 95% t intervals, and items."""

    means: FloatArray
    half: FloatArray
    counts: IntArray


class _Sums:
    """Sums and sums of squares of the first n scores of every system, for orders of R runs."""

    def __init__(self, scores: FloatArray, runs: int, rng: np.random.Generator) -> None:
        order = np.argsort(rng.random((runs, len(scores))), axis=1)
        start = np.zeros((runs, 1, scores.shape[1]))
        self.items = len(scores)
        self.sums = np.concatenate([start, np.cumsum(scores[order], axis=1)], axis=1)
        self.squares = np.concatenate([start, np.cumsum(scores[order] ** 2, axis=1)], axis=1)

    def means(self, counts: IntArray) -> FloatArray:
        found: FloatArray = np.take_along_axis(self.sums, counts[:, None, :], 1)[:, 0] / np.maximum(counts, 1)
        return found

    def look(self, counts: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Means, half widths and items now; no interval from fewer than two items or without spread."""
        means = self.means(counts)
        square = np.take_along_axis(self.squares, counts[:, None, :], 1)[:, 0] - counts * means**2
        free = np.maximum(counts - 1, 1)
        se = np.sqrt(np.clip(square / free, 0.0, None) * (1.0 / np.maximum(counts, 1) - 1.0 / self.items))
        known = (counts > 1) & ((se > 1e-12) | (counts == self.items))
        return means, np.where(known, stdtrit(free.astype(np.float64), 0.975) * se, np.nan), counts.copy()


Picker = Callable[[_Sums, IntArray, np.random.Generator], IntArray]


def uniform(_sums: _Sums, counts: IntArray, _rng: np.random.Generator) -> IntArray:
    """The system with the fewest items."""
    return np.asarray(np.argmin(counts, axis=1))


def by_rank(power: float) -> Picker:
    """A system drawn with weight 1 / rank^power."""

    def pick(sums: _Sums, counts: IntArray, rng: np.random.Generator) -> IntArray:
        ranks = np.argsort(np.argsort(-sums.means(counts), axis=1, kind="stable"), axis=1) + 1.0
        weight = np.where(counts < sums.items, ranks**-power, 0.0)
        total = np.cumsum(weight, axis=1)
        drawn = (rng.random((len(counts), 1)) * total[:, -1:] >= total).sum(axis=1)
        lacking = np.argmin(counts, axis=1)
        picked: IntArray = np.where(counts.min(axis=1) < FIRST, lacking, np.minimum(drawn, counts.shape[1] - 1))
        return picked

    return pick


def replay(scores: FloatArray, pick: Picker, cells: Sequence[int], runs: int, seed: int) -> Looks:
    """Run a sampler one cell at a time and look after so many cells."""
    rng = np.random.default_rng([seed, 3])
    sums, counts, every = _Sums(scores, runs, rng), np.zeros((runs, scores.shape[1]), dtype=np.int64), np.arange(runs)
    looks = []
    for spent in range(1, max(cells) + 1):
        counts[every, pick(sums, counts, rng)] += 1
        looks += [sums.look(counts)] * (spent in cells)
    return Looks(*(np.stack(part) for part in zip(*looks, strict=True)))


def successive_rejects(scores: FloatArray, cells: Sequence[int], runs: int, seed: int) -> Looks:
    """Phase k ends with ceil((B - M) / (log(M) (M + 1 - k))) items of each system that is left; the worst is dropped.

    What the rounding up or the end of the items leaves of a budget goes to the system that is left.
    """
    rng = np.random.default_rng([seed, 3])
    sums, m, looks = _Sums(scores, runs, rng), scores.shape[1], []
    scale = 0.5 + sum(1.0 / i for i in range(2, m + 1))
    for budget in cells:
        counts, left = np.zeros((runs, m), dtype=np.int64), np.ones((runs, m), dtype=np.bool_)
        for phase in range(1, m):
            size = int(np.clip(np.ceil((budget - m) / (scale * (m + 1 - phase))), 1, sums.items))
            counts = np.where(left, size, counts)
            worst = np.argmin(np.where(left, sums.means(counts), np.inf), axis=1)
            left[np.arange(runs), worst] = False
        rest = np.clip(budget - counts.sum(axis=1, keepdims=True), 0, None)
        looks.append(sums.look(np.minimum(counts + np.where(left, rest, 0), sums.items)))
    return Looks(*(np.stack(part) for part in zip(*looks, strict=True)))
