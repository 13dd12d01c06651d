"""Spread of the columns of a table with gaps."""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import FloatArray


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
