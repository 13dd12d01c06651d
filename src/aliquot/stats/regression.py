"""Ridge regression with one slope for all systems: few judged items, many outputs on each.

Features are an n x M x K array, one row of K numbers per output; targets n x M, NaN = not judged. Every system has its
own intercept (everything is centred per system); slopes are shared, so that n x M outputs, not n items, teach them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class PooledFit:
    """Slopes, and for every judged output the prediction without and with its own item.

    `within` and `left_out` are centred predictions (n x M): what the features add to the system's weighted mean, from
    slopes fitted on all items, and on all items but the output's own.
    """

    slopes: FloatArray
    within: FloatArray
    left_out: FloatArray


def weighted_means(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Weighted mean of each column over what is present; NaN for an empty column.

    >>> weighted_means(np.array([[1.0, np.nan], [4.0, 2.0]]), np.array([2.0, 1.0])).tolist()
    [2.0, 2.0]
    """
    present = np.isfinite(values)
    shares = np.where(present, weight[:, None], 0.0)
    total = shares.sum(axis=0)
    summed = (np.where(present, values, 0.0) * shares).sum(axis=0)
    return np.where(total > 0, summed / np.where(total > 0, total, 1.0), np.nan)


def pooled_ridge(features: FloatArray, target: FloatArray, weight: FloatArray, ridge: float) -> PooledFit:
    """Fit shared slopes by weighted ridge regression, minimising sum_i w_i |y_i - F_i b|^2 / M + ridge |b|^2.

    Weights are scaled to mean 1, so that `ridge` is counted in items. Leaving out an item exactly (for fixed centring):
    e_i without i = (I - w_i F_i S F_i' / M)^-1 e_i, S the inverse of the ridge matrix.

    >>> x = np.array([[[0.0]], [[1.0]], [[2.0]]])
    >>> fit = pooled_ridge(x, 3 * x[:, :, 0], np.ones(3), ridge=0.0)
    >>> fit.slopes.round(12)
    array([3.])
    """
    if ridge < 0:
        raise OptionError(f"ridge is {ridge}; choose 0 or more")
    n, m, k = features.shape
    scaled = weight * (n / weight.sum())
    present = np.isfinite(target)
    cells = np.where(present, scaled[:, None], 0.0)
    x = features - _cell_means(features, cells)
    y = np.where(present, target - weighted_means(target, scaled), 0.0)
    rooted = np.sqrt(cells)[:, :, None] * x
    flat = rooted.reshape(n * m, k)
    gram = flat.T @ flat / m + ridge * np.eye(k)
    inverse = np.linalg.inv(gram) if ridge > _FIRM else _inverse(gram, _NOTHING * n)
    slopes = inverse @ (flat.T @ (np.sqrt(cells) * y).ravel()) / m
    within = x @ slopes
    if n > _MANY * k:  # leaving out one of very many items changes nothing that can be seen
        return PooledFit(slopes, within, np.where(present, within, 0.0))
    hat = (flat @ inverse).reshape(n, m, k) @ rooted.transpose(0, 2, 1) / m
    residual = np.sqrt(cells) * (y - within)
    without = np.linalg.solve(np.eye(m)[None] - np.clip(hat, None, 1.0) * _OPEN, residual[:, :, None])[:, :, 0]
    rescaled = np.divide(without, np.sqrt(cells), out=np.zeros_like(without), where=cells > 0)
    return PooledFit(slopes, within, np.where(present, y - rescaled, 0.0))


_MANY = 1000
_FIRM = 1e-6  # so much ridge makes any matrix invertible
_NOTHING = 1e-10  # features are of unit size: less variance per item than this is rounding


def _inverse(matrix: FloatArray, least: float) -> FloatArray:
    """Pseudo-inverse that ignores directions in which the features do not vary."""
    values, vectors = np.linalg.eigh(matrix)
    inverse: FloatArray = (
        vectors * np.where(values > least, 1.0 / np.where(values > least, values, 1.0), 0.0)
    ) @ vectors.T
    return inverse


_OPEN = 1.0 - 1e-9  # keeps I - H invertible when the slopes fit an item exactly


def _cell_means(features: FloatArray, cells: FloatArray) -> FloatArray:
    """Weighted mean of the features over each system's judged items: M x K."""
    total = cells.sum(axis=0)
    summed = np.einsum("im,imk->mk", cells, features, optimize=True)
    means: FloatArray = summed / np.where(total > 0, total, 1.0)[:, None]
    return means


def power(target: FloatArray, left_out: FloatArray, weight: FloatArray) -> float:
    """How much of the prediction to use, from 0 (none) to 1: the slope of targets on left-out predictions.

    A regression that only fits noise predicts nothing of the items it has not seen; its power is then near 0 and the
    estimate falls back to the mean (the idea of PPI++'s power tuning, with cross-fitted predictions).

    >>> y = np.array([[1.0], [2.0], [3.0]])
    >>> power(y, y - y.mean(), np.ones(3))
    1.0
    """
    present = np.isfinite(target)
    cells = np.where(present, weight[:, None], 0.0)
    centred = np.where(present, target - weighted_means(target, weight), 0.0)
    explained = float((cells * left_out**2).sum())
    if explained <= 0:
        return 0.0
    return float(np.clip((cells * left_out * centred).sum() / explained, 0.0, 1.0))
