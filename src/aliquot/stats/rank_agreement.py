"""How well some systems' values keep the order of others: many at once.

`values` is R x M (R outcomes of M systems), `truth` M numbers; every function gives R numbers. Higher is better for
both. Nothing is said of fewer than two systems: NaN.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from aliquot.stats.arrays import FloatArray, IntArray


def pair_signs(values: FloatArray) -> FloatArray:
    """Sign of the difference of every pair a < b, R x pairs.

    >>> pair_signs(np.array([[1.0, 2.0, 2.0]]))
    array([[-1., -1.,  0.]])
    """
    first, second = np.triu_indices(values.shape[1], 1)
    return np.sign(values[:, first] - values[:, second])


def pairwise_accuracy(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Share of pairs in the true order; a pair tied on one side only counts half.

    >>> pairwise_accuracy(np.array([[3.0, 1.0, 2.0]]), np.array([3.0, 2.0, 1.0])).round(3)
    array([0.667])
    """
    if len(truth) < 2:
        return np.full(len(values), np.nan)
    agreement: FloatArray = 1.0 - np.abs(pair_signs(values) - pair_signs(truth[None])).mean(axis=1) / 2
    return agreement


def swapped_pairs(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Number of pairs in the wrong order (Knowles and Lo 2023 ask whether there is any).

    >>> swapped_pairs(np.array([[3.0, 1.0, 2.0]]), np.array([3.0, 2.0, 1.0]))
    array([1.])
    """
    counted: FloatArray = (pair_signs(values) * pair_signs(truth[None]) < 0).sum(axis=1).astype(np.float64)
    return counted


def kendall_b(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Kendall's tau-b of every outcome with the truth; NaN where one side is constant.

    >>> kendall_b(np.array([[3.0, 1.0, 2.0]]), np.array([3.0, 2.0, 1.0])).round(3)
    array([0.333])
    """
    ours, theirs = pair_signs(values), pair_signs(truth[None])
    size = np.sqrt((ours**2).sum(axis=1) * (theirs**2).sum())
    return _ratio((ours * theirs).sum(axis=1), size)


def pearson_rows(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Pearson's correlation of every outcome with the truth; NaN where one side is constant.

    >>> pearson_rows(np.array([[1.0, 2.0, 3.0]]), np.array([2.0, 4.0, 6.0]))
    array([1.])
    """
    ours, theirs = values - values.mean(axis=1, keepdims=True), truth - truth.mean()
    noise = 1e-12 * np.abs(values).max(axis=1, initial=0.0) * np.sqrt(values.shape[1])
    size = np.sqrt((ours**2).sum(axis=1))
    product = ours @ theirs
    return _ratio(product, np.where(size > noise, size, 0.0) * np.sqrt((theirs**2).sum()))


def spearman(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Spearman's rank correlation of every outcome with the truth.

    >>> spearman(np.array([[3.0, 1.0, 2.0]]), np.array([3.0, 2.0, 1.0]))
    array([0.5])
    """
    return pearson_rows(rankdata(values, axis=1), rankdata(truth))


def rank_of_best(values: FloatArray, truth: FloatArray) -> FloatArray:
    """True rank (1 = best) of the system that each outcome puts first; ties by the mean over those put first.

    >>> rank_of_best(np.array([[3.0, 1.0, 5.0]]), np.array([3.0, 2.0, 1.0]))
    array([3.])
    """
    if not len(truth):
        return np.full(len(values), np.nan)
    ranks = rankdata(-truth, method="min").astype(np.float64)
    first = values == values.max(axis=1, keepdims=True)
    return _ratio((first * ranks).sum(axis=1), first.sum(axis=1).astype(np.float64))


def dice(one: IntArray, other: IntArray) -> float:
    """Dice coefficient of the best clusters (number 1) of two clusterings.

    >>> round(dice(np.array([1, 1, 2]), np.array([1, 2, 2])), 3)
    0.667
    """
    a, b = one == 1, other == 1
    size = int(a.sum() + b.sum())
    return 2 * int((a & b).sum()) / size if size else float("nan")


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    ratio: FloatArray = np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0)
    return ratio
