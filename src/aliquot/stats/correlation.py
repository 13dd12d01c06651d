"""Correlations that leave out missing values pair by pair and are NaN, never 0, where undefined."""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import FloatArray


def pearson(x: FloatArray, y: FloatArray) -> float:
    """Pearson correlation over the places where both are present; NaN below two points or without variance.

    >>> round(pearson(np.array([1.0, 2.0, np.nan, 3.0]), np.array([2.0, 4.0, 9.0, 6.0])), 12)
    1.0
    """
    both = np.isfinite(x) & np.isfinite(y)
    if both.sum() < 2:
        return float("nan")
    x, y = x[both] - x[both].mean(), y[both] - y[both].mean()
    # A constant leaves rounding dust behind; compare with the size of the numbers, not with 0.
    scale_x, scale_y = np.sqrt(x @ x), np.sqrt(y @ y)
    if scale_x <= 1e-13 * max(1.0, np.abs(x).max()) or scale_y <= 1e-13 * max(1.0, np.abs(y).max()):
        return float("nan")
    return float(np.clip((x / scale_x) @ (y / scale_y), -1.0, 1.0))


def column_means_where_both(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Column means of two N x M arrays over the cells where both are present; NaN for a column without any.

    >>> column_means_where_both(np.array([[1.0], [3.0]]), np.array([[5.0], [np.nan]]))
    (array([1.]), array([5.]))
    """
    both = np.isfinite(x) & np.isfinite(y)
    count = both.sum(axis=0)
    safe = np.maximum(count, 1)
    mean_x = np.where(both, x, 0.0).sum(axis=0) / safe
    mean_y = np.where(both, y, 0.0).sum(axis=0) / safe
    absent = count == 0
    mean_x[absent] = mean_y[absent] = np.nan
    return mean_x, mean_y
