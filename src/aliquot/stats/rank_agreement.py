"""How well some systems' values keep the order of others: many at once.

`values` is R x M (R outcomes of M systems), `truth` M numbers; every function gives R numbers. Higher is better for
both. Nothing is said of fewer than two systems, nor where a value is missing: NaN. Differences beyond the twelfth digit
are rounding, not order.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from aliquot.stats.arrays import FloatArray, IntArray

_DIGITS = 12


def pair_signs(values: FloatArray) -> FloatArray:
    """Sign of the difference of every pair a < b, R x pairs.

    >>> pair_signs(np.array([[1.0, 2.0, 2.0]]))
    array([[-1., -1.,  0.]])
    """
    first, second = np.triu_indices(values.shape[1], 1)
    levels = _levels(values)
    return np.sign(levels[:, first] - levels[:, second])


def _levels(values: FloatArray) -> FloatArray:
    """Values on a scale of their row's largest, without the digits that summing in another order changes."""
    scale = np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    signs: FloatArray = np.round(np.divide(values, scale, out=values * 0.0, where=scale > 0), _DIGITS)
    return signs


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
    product = pair_signs(values) * pair_signs(truth[None])
    return np.where(np.isnan(product).any(axis=1), np.nan, (product < 0).sum(axis=1))


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
    (ours, size), (theirs, length) = _centred(values), _centred(truth[None])
    return _ratio((ours * theirs).sum(axis=1), size * length)


def _centred(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Deviations from the row's mean, and their length: 0 where a row is constant but for rounding."""
    if not values.shape[1]:
        return values, np.zeros(len(values))
    deviations = values - values.mean(axis=1, keepdims=True)
    length = np.sqrt((deviations**2).sum(axis=1))
    noise = 10.0**-_DIGITS * np.abs(values).max(axis=1) * np.sqrt(values.shape[1])
    return deviations, np.where(length > noise, length, 0.0)


def spearman(values: FloatArray, truth: FloatArray) -> FloatArray:
    """Spearman's rank correlation of every outcome with the truth.

    >>> spearman(np.array([[3.0, 1.0, 2.0]]), np.array([3.0, 2.0, 1.0]))
    array([0.5])
    """
    return pearson_rows(rankdata(_levels(values), axis=1), rankdata(_levels(truth[None])[0]))


def rank_of_best(values: FloatArray, truth: FloatArray) -> FloatArray:
    """True rank (1 = best) of the system that each outcome puts first; ties by the mean over those put first.

    >>> rank_of_best(np.array([[3.0, 1.0, 5.0]]), np.array([3.0, 2.0, 1.0]))
    array([3.])
    """
    if not len(truth):
        return np.full(len(values), np.nan)
    ranks, levels = rankdata(-_levels(truth[None])[0], method="min").astype(np.float64), _levels(values)
    first = levels == levels.max(axis=1, keepdims=True)
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
