"""The array types that every room speaks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

# -- The array types that every room speaks --------------------------------------------------------------------------


FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Seed = int | np.random.Generator
"""Every function that draws takes one; the same seed gives the same result."""


# -- Sums and means over groups of rows, given as integer codes ------------------------------------------------------


def codes_of(labels: Sequence[Hashable]) -> IntArray:
    """Integer codes of labels in order of first appearance.

    >>> codes_of(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    known = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return np.array([known[label] for label in labels], dtype=np.int64)


def group_sums(codes: IntArray, values: FloatArray, groups: int = 0) -> FloatArray:
    """Sum of the values of each group.

    >>> group_sums(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]))
    array([4., 2.])
    """
    return np.asarray(np.bincount(codes, values, minlength=groups), dtype=np.float64)


def group_means(codes: IntArray, values: FloatArray, groups: int = 0) -> FloatArray:
    """Mean of the values of each group over what is present; NaN where nothing is.

    >>> group_means(np.array([0, 1, 0]), np.array([1.0, np.nan, 3.0]))
    array([ 2., nan])
    """
    present = np.isfinite(values)
    count = group_sums(codes, present.astype(np.float64), groups)
    total = group_sums(codes, np.where(present, values, 0.0), groups)
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


# -- Spread of the columns of a table with gaps ----------------------------------------------------------------------


def column_sds(values: FloatArray) -> FloatArray:
    """Standard deviation of each column over what is present (divisor n - 1); NaN below two values.

    >>> column_sds(np.array([[1.0, np.nan], [3.0, 2.0]])).round(3).tolist()
    [1.414, nan]
    """
    present = np.isfinite(values)
    n = present.sum(axis=0)
    mean = np.where(present, values, 0.0).sum(axis=0) / np.maximum(n, 1)
    squares = np.where(present, (values - mean) ** 2, 0.0).sum(axis=0)
    return np.where(n > 1, np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)
