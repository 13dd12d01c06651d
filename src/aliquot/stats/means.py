"""Means of a finite population from a simple random sample of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from aliquot.stats.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class MeanEstimate:
    """Column means with standard errors and intervals; all arrays have one entry per column."""

    mean: FloatArray
    se: FloatArray
    low: FloatArray
    high: FloatArray
    n: IntArray


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


def sample_means(values: FloatArray, population: int, level: float = 0.95) -> MeanEstimate:
    """Estimate each column's mean over a population of `population` rows, of which `values` is a random sample.

    Variance s^2 / n (1 - n/N) (METHODS.md section 4), t interval with n - 1 degrees of freedom. NaN cells are left out;
    below two values the standard error is NaN, not 0.

    >>> estimate = sample_means(np.array([[1.0], [3.0]]), population=2)
    >>> float(estimate.mean[0]), float(estimate.se[0])
    (2.0, 0.0)
    """
    present = np.isfinite(values)
    n = present.sum(axis=0)
    safe = np.maximum(n, 1)
    mean = np.where(n > 0, np.where(present, values, 0.0).sum(axis=0) / safe, np.nan)
    squares = np.where(present, (values - mean) ** 2, 0.0).sum(axis=0)
    variance = np.where(n > 1, squares / np.maximum(n - 1, 1), np.nan)
    se = np.sqrt(variance / safe * (1.0 - n / population))
    half = stats.t.ppf(0.5 + level / 2, np.maximum(n - 1, 1)) * se
    return MeanEstimate(mean=mean, se=se, low=mean - half, high=mean + half, n=n.astype(np.int64))
