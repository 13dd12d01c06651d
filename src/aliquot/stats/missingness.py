"""Tests of whether cells are missing at random.

`missingness_test`: are gaps related to a covariate? The score test of a logistic regression of presence on the
covariate with column effects, its variance over independent units (items, or documents), so that units missing as a
whole count once. `cochran_q_test`: do some columns have more gaps? Cochran's Q in the Mantel-Haenszel form, which
allows for rows in which not every column was requested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, stdtr

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, max_abs, snap_to_zero

MIN_CELLS = 5
"""Minimum number of missing and of present cells for a column to be tested."""


@dataclass(frozen=True, eq=False)
class MissingnessTest:
    """By column: difference of missing from present cells (in standard deviations), and two-sided p-value.

    NaN where there are too few missing or present cells.
    """

    difference: FloatArray
    p: FloatArray


def missingness_test(
    covariate: FloatArray, present: BoolArray, requested: BoolArray, units: IntArray
) -> MissingnessTest:
    """Test each column (n x M arrays; `units` codes the independent unit of each row).

    >>> x = np.arange(40.0)[:, None]
    >>> found = missingness_test(x, x > 19, np.full_like(x, True, dtype=bool), np.arange(40))
    >>> round(float(found.difference[0]), 2), bool(found.p[0] < 1e-4)
    (-1.73, True)
    """
    usable = requested & np.isfinite(covariate)
    observed, missing = usable & present, usable & ~present
    tested = (observed.sum(axis=0) >= MIN_CELLS) & (missing.sum(axis=0) >= MIN_CELLS)
    count = np.maximum(usable.sum(axis=0), 1)
    value = np.where(usable, covariate, 0.0)
    centred = snap_to_zero(np.where(usable, value - value.sum(axis=0) / count, 0.0), max_abs(value, axis=0))
    spread = np.sqrt((centred**2).sum(axis=0) / count)
    share = observed.sum(axis=0) / count
    contribution = np.where(usable, (observed - share) * centred, 0.0)
    by_unit = np.zeros((int(units.max(initial=-1)) + 1, covariate.shape[1]))
    np.add.at(by_unit, units, contribution)
    size = np.sqrt((by_unit**2).sum(axis=0))
    z = np.divide(by_unit.sum(axis=0), size, out=np.zeros_like(size), where=size > 0)
    freedom = np.maximum(_count_units(missing, units) - 1.0, 1.0)  # few gaps: t instead of normal
    mean = [
        (np.where(part, centred, 0.0).sum(axis=0)) / np.maximum(part.sum(axis=0), 1) for part in (missing, observed)
    ]
    difference = np.divide(mean[0] - mean[1], spread, out=np.zeros_like(spread), where=spread > 0)
    p = 2 * stdtr(freedom, -np.abs(z))
    return MissingnessTest(np.where(tested, difference, np.nan), np.where(tested, p, np.nan))


def _count_units(cells: BoolArray, units: IntArray) -> FloatArray:
    has_cell = np.zeros((int(units.max(initial=-1)) + 1, cells.shape[1]), dtype=bool)
    np.logical_or.at(has_cell, units, cells)
    counts: FloatArray = has_cell.sum(axis=0).astype(np.float64)
    return counts


def cochran_q_test(present: BoolArray, requested: BoolArray) -> float:
    """Return the p-value of equal missingness of all columns, given each row's number of present cells.

    >>> present = np.ones((30, 3), dtype=bool)
    >>> present[:12, 0] = False
    >>> cochran_q_test(present, np.full_like(present, True)) < 1e-5
    True
    """
    n_asked = requested.sum(axis=1).astype(np.float64)
    n_present = (present & requested).sum(axis=1).astype(np.float64)
    mixed = (n_present > 0) & (n_present < n_asked)
    n_asked, n_present = n_asked[mixed, None], n_present[mixed, None]
    observed, expected = (present & requested)[mixed].astype(np.float64), requested[mixed].astype(np.float64)
    excess = (observed - expected * n_present / n_asked).sum(axis=0)
    factor = n_present * (n_asked - n_present) / (n_asked * (n_asked - 1))
    covariance = np.diag((factor * expected).sum(axis=0)) - (factor * expected / n_asked).T @ expected
    freedom = int(np.linalg.matrix_rank(covariance, hermitian=True)) if mixed.any() else 0
    if not freedom:
        return float("nan")
    statistic = float(excess @ np.linalg.pinv(covariance, hermitian=True) @ excess)
    return float(chdtrc(freedom, statistic))
