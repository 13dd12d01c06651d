"""One number out of several answers to the same question: median, trimmed mean, majority, for all cells at once.

Cells are integer codes 0, 1, ...; values are finite. A cell without values is NaN.
"""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.grouping import group_means, group_sums


def cell_mean(cells: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Mean of each cell.

    >>> cell_mean(np.array([0, 0, 2]), np.array([1.0, 2.0, 5.0]), 3)
    array([1.5, nan, 5. ])
    """
    return group_means(cells, values, size)


def cell_median(cells: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Median of each cell; of an even number, the mean of the middle two.

    >>> cell_median(np.array([0, 0, 0, 1, 1]), np.array([9.0, 1.0, 2.0, 4.0, 8.0]), 2)
    array([2., 6.])
    """
    ordered, start, count = _sorted_cells(cells, values, size)
    some = np.flatnonzero(count)
    low, high = start[some] + (count[some] - 1) // 2, start[some] + count[some] // 2
    median = np.full(size, np.nan)
    median[some] = (ordered[low] + ordered[high]) / 2
    return median


def cell_trimmed_mean(cells: IntArray, values: FloatArray, size: int, share: float = 0.2) -> FloatArray:
    """Mean of each cell without the lowest and the highest `share` of its values (rounded down to whole values).

    >>> cell_trimmed_mean(np.zeros(5, dtype=int), np.array([0.0, 4.0, 5.0, 6.0, 100.0]), 1)
    array([5.])
    """
    ordered, start, count = _sorted_cells(cells, values, size)
    # 0.2 * 5 is 1.0000000000000002 or 0.9999999999999999 as the case may be; a whole number is meant.
    cut = np.floor(share * count + 1e-9).astype(np.int64)
    mine = np.repeat(np.arange(size), count)
    place = np.arange(len(ordered)) - start[mine]
    kept = (place >= cut[mine]) & (place < (count - cut)[mine])
    return group_means(mine[kept], ordered[kept], size)


def cell_majority(
    cells: IntArray, labels: IntArray, size: int, kinds: int, weights: FloatArray | None = None
) -> tuple[IntArray, FloatArray]:
    """The most frequent label of each cell and its share of the votes; -1 where two labels tie or nobody voted.

    >>> label, share = cell_majority(np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 0, 1]), 2, 2)
    >>> label.tolist(), share.round(2).tolist()
    ([1, -1], [0.67, 0.5])
    """
    votes = group_sums(cells * kinds + labels, np.ones(len(cells)) if weights is None else weights, size * kinds)
    votes = votes.reshape(size, kinds)
    best = votes.max(axis=1, initial=0.0)
    total = votes.sum(axis=1)
    tied = (votes >= best[:, None] - 1e-9).sum(axis=1) > 1
    label = np.where((total > 0) & ~tied, votes.argmax(axis=1) if kinds else -1, -1)
    return label, np.where(total > 0, best / np.where(total > 0, total, 1.0), np.nan)


def _sorted_cells(cells: IntArray, values: FloatArray, size: int) -> tuple[FloatArray, IntArray, IntArray]:
    """Values sorted inside each cell, where each cell starts, and how many it has."""
    count = np.bincount(cells, minlength=size).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64)
    return values[np.lexsort((values, cells))], start, count
