"""Intervals that hold for every sample size: they assume only that scores lie in a known range.

Invariant: P(|sample mean - true mean| > half width) <= 1 - level, whatever the scores are. The price is width: on real
scores several times that of the t interval (see METHODS.md section 4).
"""

from __future__ import annotations

import math

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray


def error_rate(level: float) -> float:
    """Return 1 - level, the share of intervals that may miss, or say why the level cannot be.

    >>> error_rate(0.75)
    0.25
    """
    if not 0.0 < level < 1.0:
        raise OptionError(f"level is {level}; choose between 0 and 1, for instance 0.95")
    return 1.0 - level


def hoeffding_half_width(n: IntArray | int, population: int, value_range: float, level: float = 0.95) -> FloatArray:
    """Half width R sqrt(k log(2 / delta) / (2 n)) for the mean of n values out of N, k = 1 - (n - 1) / N.

    Hoeffding (1963) with the factor k of Serfling (1974), corollary 1.1, for drawing without replacement. It needs no
    variance and so gains nothing from a small one. NaN where n is 0.

    Args:
        n: Values seen, one number or one per system.
        population: N, the values there are.
        value_range: R, the largest possible value minus the smallest; for a difference of two scores, twice theirs.
        level: Confidence, above 0 and below 1.

    >>> hoeffding_half_width(np.array([50, 200]), population=1000, value_range=1.0).round(3).tolist()
    [0.187, 0.086]
    """
    log_term = math.log(2.0 / error_rate(level))
    sizes = _sizes(n)
    if population < 1:
        raise OptionError(f"population is {population}; give the number of values the sample was drawn from")
    if np.any(sizes > population):
        raise OptionError(f"n is {np.nanmax(sizes):g}, more than the {population} values there are in the population")
    shrink = 1.0 - (sizes - 1.0) / population
    half: FloatArray = _checked_range(value_range) * np.sqrt(shrink * log_term / (2.0 * sizes))
    return half


def bernstein_half_width(
    sd: FloatArray | float, n: IntArray | int, value_range: float, level: float = 0.95
) -> FloatArray:
    """Half width s sqrt(2 log(3 / delta) / n) + 3 R log(3 / delta) / n: empirical Bernstein.

    Audibert, Munos and Szepesvari (2009), theorem 1. The s there has the divisor n; with the usual n - 1 the interval
    is a little wider. The proof bounds exponential moments of sums, which are no larger without replacement than with
    it (Hoeffding 1963, theorem 4), so it holds for both; but it does not shrink as n comes near to N. NaN where n is 0
    or sd is NaN.

    Args:
        sd: Standard deviation of the values seen, one number or one per system.
        n: Values seen, one number or one per system.
        value_range: R, the largest possible value minus the smallest; for a difference of two scores, twice theirs.
        level: Confidence, above 0 and below 1.

    >>> bernstein_half_width(np.array([0.05, 0.3]), n=200, value_range=1.0).round(3).tolist()
    [0.072, 0.122]
    """
    log_term = math.log(3.0 / error_rate(level))
    sizes = _sizes(n)
    spread = np.asarray(sd, dtype=np.float64)
    if np.any(spread < 0.0) or np.any(np.isinf(spread)):
        raise OptionError(f"sd is {sd}; standard deviations are finite and >= 0")
    half: FloatArray = spread * np.sqrt(2.0 * log_term / sizes) + 3.0 * _checked_range(value_range) * log_term / sizes
    return half


def _sizes(n: IntArray | int) -> FloatArray:
    """Return sample sizes as floats, 0 as NaN: from nothing there is no interval."""
    sizes = np.asarray(n, dtype=np.float64)
    if np.any(sizes < 0.0):
        raise OptionError(f"n is {n}; a sample has 0 values or more")
    return np.where(sizes > 0.0, sizes, np.nan)


def _checked_range(value_range: float) -> float:
    if not 0.0 < value_range < math.inf:
        raise OptionError(f"value_range is {value_range}; give the largest possible value minus the smallest, > 0")
    return value_range
