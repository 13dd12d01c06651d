"""How much of what is seen between systems is real: shrinking estimates towards a prediction.

Invariant: the share lies in [0, 1]; it grows with the spread that is seen and falls with its error.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammainc

from aliquot.stats.arrays import FloatArray

MOST = 0.9995
_SHARES = np.linspace(0.0, MOST, 400)
FEWEST_SYSTEMS = 4
"""With fewer systems, what they share and what they do not cannot be told apart."""
_SMALLEST = 1e-200


def real_share(deviations: FloatArray, variance: float) -> float:
    """Expected share of the variance of `deviations` that is real, not error.

    Deviations e_a ~ N(0, s + v) around their mean, v the known error variance of each and s unknown. The share
    k = s / (s + v) has a uniform prior (Strawderman 1971), under which its posterior mean is the admissible
    counterpart of the James-Stein factor; nothing is tuned. With u = 1 - k, x = sum e^2 / (2 v) and a = (M + 1) / 2 the
    posterior is u^(a-1) exp(-x u) on (0, 1), whose mean is a P(a+1, x) / (x P(a, x)), P the incomplete gamma function.

    Args:
        deviations: One per system, less their mean.
        variance: v, the error variance of a deviation from the mean; 0 for none.

    Returns:
        The factor by which to multiply the deviations.

    Example:
        >>> round(real_share(np.array([-3.0, -1.0, 1.0, 3.0]), 0.1), 2), real_share(np.array([0.5, -0.5]), 0.0)
        (0.97, 1.0)
    """
    if variance <= 0:
        return 1.0
    shape, x = (len(deviations) + 1) / 2, float(deviations @ deviations) / (2 * variance)
    below = float(gammainc(shape, x))
    if below < _SMALLEST:  # the limit for x -> 0, where both functions vanish
        return 1.0 / (shape + 1.0)
    return float(np.clip(1.0 - shape * float(gammainc(shape + 1.0, x)) / (x * below), 0.0, 1.0))


def share_posterior(deviations: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
    """The posterior behind `real_share` on a grid: shares, ascending, and the chance of each.

    >>> shares, chance = share_posterior(np.array([-3.0, -1.0, 1.0, 3.0]), 0.1)
    >>> round(float(shares @ chance), 2), round(float(chance.sum()), 6)
    (0.97, 1.0)
    """
    if variance <= 0:
        return np.ones(1), np.ones(1)
    total = variance / (1.0 - _SHARES)
    likelihood = -(len(deviations) - 1) / 2 * np.log(total) - float(deviations @ deviations) / (2 * total)
    weight = np.exp(likelihood - likelihood.max())
    return _SHARES, weight / weight.sum()


def contrast_variance(covariance: FloatArray) -> float:
    """Mean error variance of the systems' deviations from their common mean: trace(C V C) / (M - 1).

    The M x M covariance itself is not inverted: from few items it has no full rank, and its smallest directions are
    far too sure of themselves.

    >>> contrast_variance(np.full((3, 3), 5.0) + np.eye(3))
    1.0
    """
    m = len(covariance)
    return float((np.trace(covariance) - covariance.sum() / m) / (m - 1))


def shrunk(values: FloatArray, prediction: FloatArray, covariance: FloatArray) -> tuple[FloatArray, float]:
    """Estimates drawn towards a prediction of them, as far as the estimates themselves say that it can be trusted.

    values - prediction = common shift + deviations; the shift is kept, the deviations are multiplied by the share of
    them that is real.

    Args:
        values: One estimate per system; NaN stays NaN and takes no part.
        prediction: What is expected of each, up to a common shift.
        covariance: Joint covariance of the estimates.

    Returns:
        The new estimates and the factor; unchanged, with factor 1, for fewer than four systems.

    Example:
        >>> shrunk(np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4), np.zeros((4, 4)))
        (array([1., 2., 3., 4.]), 1.0)
    """
    known = np.isfinite(values) & np.isfinite(np.diag(covariance))
    if known.sum() < FEWEST_SYSTEMS:
        return values, 1.0
    gap = (values - prediction)[known]
    deviations = gap - gap.mean()
    share = real_share(deviations, contrast_variance(covariance[np.ix_(known, known)]))
    result = values.copy()
    result[known] = prediction[known] + gap.mean() + share * deviations
    return result, share
