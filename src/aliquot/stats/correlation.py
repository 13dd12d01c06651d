"""Correlations that leave out missing values pair by pair and are NaN, never 0, where undefined."""

from __future__ import annotations

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray

_CONSTANT = 1e-13
"""Root mean square of a row less its mean, relative to its largest number, below which it is rounding."""


def pearson(x: FloatArray, y: FloatArray) -> float:
    """Pearson correlation over the places where both are present; NaN below two points or without variance.

    >>> round(pearson(np.array([1.0, 2.0, np.nan, 3.0]), np.array([2.0, 4.0, 9.0, 6.0])), 12)
    1.0
    """
    both = np.isfinite(x) & np.isfinite(y)
    return float(paired_pearson(np.where(both, x, np.nan)[None], np.where(both, y, np.nan)[None])[0])


def paired_pearson(x: FloatArray, y: FloatArray) -> FloatArray:
    """Pearson correlation of every row of x with the same row of y.

    Args:
        x: Rows x columns, NaN = missing.
        y: The same shape.

    Returns:
        One per row; NaN below two common cells, or where either row is constant on them.

    Raises:
        OptionError: Not two tables of the same shape, or infinite values.

    Example:
        >>> x = np.array([[1.0, 2.0, 4.0], [1.0, 1.0, np.nan]])
        >>> paired_pearson(x, np.array([[2.0, 4.0, 8.0], [3.0, 4.0, 5.0]]))
        array([ 1., nan])
    """
    x, y = common_tables(x, y)
    # Each row is divided by its size first: squares of very large or small numbers would overflow or vanish.
    (a, norm_a), (b, norm_b) = _centred(x), _centred(y)
    scale, result = norm_a * norm_b, np.full(len(x), np.nan)
    np.divide((a * b).sum(axis=1), scale, out=result, where=scale > 0)
    return np.asarray(np.clip(result, -1.0, 1.0), dtype=np.float64)


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


def common_cells(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Blank whatever only one of two arrays has, so that both speak of the same cells.

    Args:
        x: Any shape, NaN = missing.
        y: The same shape.

    Returns:
        Copies of both, NaN where either is missing.

    Raises:
        OptionError: Different shapes, or infinite values.

    Example:
        >>> common_cells(np.array([1.0, np.nan, 3.0]), np.array([4.0, 5.0, np.nan]))
        (array([ 1., nan, nan]), array([ 4., nan, nan]))
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.shape != y.shape:
        raise OptionError(f"the scores have shapes {x.shape} and {y.shape}; give the same items and systems twice")
    if np.isinf(x).any() or np.isinf(y).any():
        raise OptionError("the scores hold infinite values; replace them by numbers, or by NaN for missing")
    missing = np.isnan(x) | np.isnan(y)
    return np.where(missing, np.nan, x), np.where(missing, np.nan, y)


def common_tables(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Blank as `common_cells` does, and insist on tables.

    >>> common_tables(np.array([[1.0, 2.0]]), np.array([[np.nan, 3.0]]))
    (array([[nan,  2.]]), array([[nan,  3.]]))
    """
    x, y = common_cells(x, y)
    if x.ndim != 2:
        raise OptionError(f"the scores have {x.ndim} dimension(s); give tables of rows and columns")
    return x, y


def _centred(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows less their means, 0 where missing, and their norms, which are 0 exactly where a row is constant."""
    present = ~np.isnan(values)
    count = np.maximum(present.sum(axis=1, keepdims=True), 1)
    filled = np.where(present, values, 0.0)
    size = np.abs(filled).max(axis=1, keepdims=True, initial=0.0)
    filled = np.divide(filled, size, out=np.zeros_like(filled), where=size > 0)
    centred = np.where(present, filled - filled.sum(axis=1, keepdims=True) / count, 0.0)
    norm = np.sqrt((centred**2).sum(axis=1))
    # A constant leaves rounding dust behind, of the size of the numbers and not of their spread.
    return centred, np.where(norm > _CONSTANT * np.sqrt(count[:, 0]), norm, 0.0)
