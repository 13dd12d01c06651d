"""Adjusting p-values for the number of tests."""

from __future__ import annotations

import numpy as np

from aliquot.errors import unknown_name
from aliquot.stats.arrays import FloatArray

ADJUSTMENTS = ("holm", "sidak", "none")


def adjusted(p: FloatArray, method: str = "holm") -> FloatArray:
    """Adjust a family of p-values.

    holm: step-down, p'_(i) = min(1, max_{j <= i} (m - j + 1) p_(j)) (Holm 1979), valid whatever the dependence.
    sidak: p' = 1 - (1 - p)^m, exact for independent tests. m counts the tests that have a p-value; NaN stays NaN.

    Args:
        p: P-values.
        method: holm, sidak or none.

    Example:
        >>> adjusted(np.array([0.01, 0.04, np.nan]), "sidak").round(4)
        array([0.0199, 0.0784,    nan])
        >>> adjusted(np.array([0.01, 0.04]), "holm")
        array([0.02, 0.04])
    """
    if method not in ADJUSTMENTS:
        raise unknown_name("adjustment", method, ADJUSTMENTS)
    p = np.asarray(p, dtype=np.float64)
    known = ~np.isnan(p)
    m = int(known.sum())
    result = p.copy()
    if method == "sidak":
        result[known] = -np.expm1(m * np.log1p(-np.minimum(p[known], 1.0 - 1e-16)))
    elif method == "holm":
        order = np.argsort(p[known], kind="stable")
        steps = np.maximum.accumulate(p[known][order] * np.arange(m, 0, -1))
        values = np.empty(m)
        values[order] = np.minimum(steps, 1.0)
        result[known] = values
    return result
