"""Intervals of proportions from few, dependent or weighted judgments.

Invariant: an interval of a proportion stays inside [0, 1], one of a difference inside [-1, 1]; each contains its
estimate and has a width above 0. Sizes and counts need not be whole.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, ndtri

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray
from aliquot.validation import between

_ROUNDING = 1e-12
"""Share, or variance relative to that of a 0/1 value, that is rounding."""

MAX_EFFECTIVE_RATIO = 4.0
"""Largest ratio of effective size to n: limits the gain from metrics or ties."""

_HALVINGS = 60  # of the interval [-1, 1]: below the spacing of floats


def korn_graubard(
    mean: FloatArray, variance: FloatArray, n: FloatArray, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return Clopper-Pearson intervals of proportions with an effective size (Korn and Graubard 1998).

    n* = p (1 - p) / v, at most 4 n, with v the variance of the estimate p; where p is 0 or 1, or v is 0, n* = n. The
    ends are quantiles of Beta(k, n* - k + 1) and Beta(k + 1, n* - k), k = p n*. Means are clipped to [0, 1]; NaN, or n
    <= 0, give NaN.

    Args:
        mean: Estimates, on the scale 0 to 1.
        variance: Of the estimates.
        n: Number of independent judgments, the design effect already divided out.

    >>> low, high = korn_graubard(np.array([0.85, 1.0]), np.array([0.85 * 0.15 / 20, 0.0]), np.array([20.0, 20.0]))
    >>> low.round(3), high.round(3)
    (array([0.621, 0.832]), array([0.968, 1.   ]))
    """
    validate_level(level)
    values = (np.asarray(value, dtype=np.float64) for value in (mean, variance, n))
    p, v, size = np.broadcast_arrays(*values)
    p = np.clip(p, 0.0, 1.0)
    unknown = np.isnan(p) | np.isnan(v) | ~(size > 0)
    spread = p * (1 - p)
    regular = ~unknown & (spread > _ROUNDING) & (v > _ROUNDING * spread)
    effective = np.where(unknown, 1.0, size)
    effective[regular] = np.minimum(spread[regular] / v[regular], MAX_EFFECTIVE_RATIO * size[regular])
    yes, tail = np.where(unknown, 0.0, p) * effective, (1 - level) / 2
    no = effective - yes
    with np.errstate(invalid="ignore"):  # a beta distribution with a parameter of 0; replaced by the end of the scale
        low = np.where(p > _ROUNDING, betaincinv(yes, no + 1, tail), 0.0)
        high = np.where(p < 1 - _ROUNDING, betaincinv(yes + 1, no, 1 - tail), 1.0)
    return np.where(unknown, np.nan, np.minimum(low, p)), np.where(unknown, np.nan, np.maximum(high, p))


def tango_interval(
    positive: FloatArray, negative: FloatArray, n: FloatArray, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return score intervals of paired differences of proportions, (b - c) / n (Tango 1998).

    b of n pairs are 1 and 0, c are 0 and 1; counts may be effective ones. The interval holds the differences D with
    (b - c - n D)^2 <= z^2 n (2 q + D (1 - D)), q the share of pairs 0 and 1 that fits D best. NaN gives NaN, as does
    n <= 0.

    >>> low, high = tango_interval(np.array([3.0]), np.array([0.0]), np.array([20.0]))
    >>> low.round(3), high.round(3)
    (array([-0.035]), array([0.36]))
    """
    validate_level(level)
    values = (np.asarray(value, dtype=np.float64) for value in (positive, negative, n))
    b, c, size = np.broadcast_arrays(*values)
    valid = (size > 0) & ~np.isnan(b + c)
    if (valid & ((b < 0) | (c < 0) | (b + c > size * (1 + 1e-9)))).any():
        raise OptionError("positive and negative pairs are counts of the n pairs; none is below 0, both are at most n")
    b, c, size = (np.where(valid, value, 1.0) for value in (b, c, size))
    size = np.maximum(size, b + c)
    low, high = -_upper_end(c, b, size, level), _upper_end(b, c, size, level)
    return np.where(valid, low, np.nan), np.where(valid, high, np.nan)


def _upper_end(b: FloatArray, c: FloatArray, n: FloatArray, level: float) -> FloatArray:
    """Bisect for the largest difference that the score test accepts."""
    z2 = float(ndtri(0.5 + level / 2)) ** 2
    inside, outside = (b - c) / n, np.ones(b.shape)
    for _ in range(_HALVINGS):
        d = (inside + outside) / 2
        linear, constant = (2 * n - b + c) * d - b - c, -c * d * (1 - d)
        q = (np.sqrt(np.maximum(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)
        accepted = (b - c - n * d) ** 2 <= z2 * n * (2 * q + d * (1 - d))
        inside, outside = np.where(accepted, d, inside), np.where(accepted, outside, d)
    return np.asarray(outside, dtype=np.float64)


def validate_level(level: float) -> None:
    """Raise OptionError for a level outside (0, 1)."""
    between("level", level, 0.0, 1.0, inclusive=False, remedy="choose between 0 and 1, for instance 0.95")
