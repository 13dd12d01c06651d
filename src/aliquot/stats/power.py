"""Sample size, detectable difference and power (docs/methods.md, section 7, power).

Invariant: size, detectable difference and power are inverses of each other. `two_sample_*` compare systems judged on
different items, by the noncentral t distribution; `paired_*` compare systems judged on the same items, by the normal
distribution, with control variate and finite population. n counts judgments per system. All functions broadcast.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import nctdtr, ndtr, ndtri, stdtrit

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

Number = FloatArray | IntArray | float | int

_MIN_JUDGMENTS = 2.0
"""A t test needs at least two judgments of each system."""


def two_sample_power(n: Number, delta: Number, sd: Number, alpha: Number = 0.05) -> FloatArray:
    """Return the power of the two-sided two-sample t test with n judgments of each system and equal variances.

    >>> round(float(two_sample_power(64, 0.5, 1.0)), 4)  # as statsmodels' TTestIndPower
    0.8015
    """
    size, effect, level = np.broadcast_arrays(
        _validate_sizes(n), _effect_size(delta, sd), _validate_level("alpha", alpha)
    )
    return _t_power(size, effect, level)


def two_sample_size(delta: Number, sd: Number, alpha: Number = 0.05, power: Number = 0.95) -> FloatArray:
    """Return judgments per system for a given power; not rounded, at least 2, inf where delta is 0.

    >>> round(float(two_sample_size(2.0, 15.0)), 2)
    1462.87
    """
    effect, level, target = np.broadcast_arrays(
        _effect_size(delta, sd), _validate_level("alpha", alpha), _validate_level("power", power)
    )
    _validate_target(level, target)
    with np.errstate(divide="ignore"):
        start = 2 * ((ndtri(1 - level / 2) + ndtri(target)) / effect) ** 2
    solvable = np.isfinite(start) & (start > 0)
    low = np.where(solvable, np.maximum(start, _MIN_JUDGMENTS), _MIN_JUDGMENTS)
    # The normal size counts one direction only; for a power near alpha it is too large.
    low = np.where(_t_power(low, effect, level) < target, low, _MIN_JUDGMENTS)
    # The t test needs about z^2 / 4 more than the normal one, and more for small sizes.
    high = _bracket_from_above(lambda n: _t_power(n, effect, level), low, low + 2.0, target, solvable)
    size = _bisect_power(lambda n: _t_power(n, effect, level), low, high, target)
    size = np.where(_t_power(np.full_like(low, _MIN_JUDGMENTS), effect, level) >= target, _MIN_JUDGMENTS, size)
    return np.where(solvable, size, np.where(start == 0, _MIN_JUDGMENTS, start))


def two_sample_detectable(n: Number, sd: Number, alpha: Number = 0.05, power: Number = 0.95) -> FloatArray:
    """Return the difference that n judgments of each system detect with a given power.

    >>> round(float(two_sample_detectable(1462.87, 15.0)), 3)
    2.0
    """
    size, level, target = np.broadcast_arrays(
        _validate_sizes(n), _validate_level("alpha", alpha), _validate_level("power", power)
    )
    _validate_target(level, target)
    solvable = ~np.isnan(size)
    start = (ndtri(1 - level / 2) + ndtri(target)) * np.sqrt(2 / size)
    high = _bracket_from_above(
        lambda effect: _t_power(size, effect, level), np.zeros_like(start), 2 * start, target, solvable
    )
    effect = _bisect_power(lambda effect: _t_power(size, effect, level), np.zeros_like(start), high, target)
    return np.asarray(effect * _validate_sd(sd), dtype=np.float64)


def paired_size(
    delta: Number,
    sd: Number,
    correlation: Number = 0.0,
    population: Number = np.inf,
    alpha: Number = 0.05,
    power: Number = 0.95,
) -> FloatArray:
    """Return the number of items to judge for both systems of a pair; not rounded.

    n0 = (z_a + z_b)^2 s_d^2 (1 - rho^2) / delta^2 and n = n0 / (1 + n0 / N), with s_d the standard deviation of the
    difference of the two systems on an item and rho the correlation of the proxy's difference with the human one; N is
    infinite for inference beyond the test set.

    >>> paired_size(2.0, 15.0, correlation=np.array([0.0, 0.8]), population=1000).round(1)
    array([422.3, 208.3])
    """
    population_size = _validate_population(population)
    level, target = _validate_level("alpha", alpha), _validate_level("power", power)
    _validate_target(level, target)
    noise = (ndtri(1 - level / 2) + ndtri(target)) * _residual_sd(sd, correlation)
    difference = _validate_difference(delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = np.where((difference == 0) & ~np.isnan(noise), np.inf, (noise / difference) ** 2)
        finite = 1 / (1 / plain + 1 / population_size)
    return np.asarray(np.where(plain == 0, 0.0, finite), dtype=np.float64)


def paired_detectable(
    n: Number,
    sd: Number,
    correlation: Number = 0.0,
    population: Number = np.inf,
    alpha: Number = 0.05,
    power: Number = 0.95,
) -> FloatArray:
    """Return the difference that n items judged for both systems detect; 0 where all N items are judged.

    >>> round(float(paired_detectable(422.3, 15.0, population=1000)), 3)
    2.0
    """
    level, target = _validate_level("alpha", alpha), _validate_level("power", power)
    _validate_target(level, target)
    se = _standard_error(n, sd, correlation, population)
    return np.asarray((ndtri(1 - level / 2) + ndtri(target)) * se, dtype=np.float64)


def paired_power(
    n: Number,
    delta: Number,
    sd: Number,
    correlation: Number = 0.0,
    population: Number = np.inf,
    alpha: Number = 0.05,
) -> FloatArray:
    """Return P(significant in the right direction) with n items judged for both systems.

    For a difference of 0 it is alpha / 2, and 0 once all N items are judged.

    >>> round(float(paired_power(422.3, 2.0, 15.0, population=1000)), 3)
    0.95
    """
    se, size = _standard_error(n, sd, correlation, population), np.abs(_validate_difference(delta))
    se, size = np.broadcast_arrays(se, size)
    exact = np.where(np.isnan(size) | np.isnan(se), np.nan, np.where(size > 0, np.inf, -np.inf))
    z = np.divide(size, se, out=exact, where=se > 0)
    return np.asarray(ndtr(z - ndtri(1 - _validate_level("alpha", alpha) / 2)), dtype=np.float64)


def _t_power(n: FloatArray, effect: FloatArray, alpha: FloatArray) -> FloatArray:
    """Return power from the noncentral t distribution (df 2 n - 2, noncentrality d sqrt(n / 2))."""
    df, shift = 2 * n - 2, effect * np.sqrt(n / 2)
    bound, finite = -stdtrit(df, alpha / 2), np.where(np.isinf(shift), 0.0, shift)
    near, far = 1 - nctdtr(df, finite, bound), nctdtr(df, finite, -bound)
    far = np.where(np.isnan(far), 0.0, far)  # scipy gives NaN for some far tails below 1e-16
    return np.asarray(np.where(np.isinf(shift), 1.0, np.minimum(near + far, 1.0)), dtype=np.float64)


def _bracket_from_above(
    power: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray, target: FloatArray, where: BoolArray
) -> FloatArray:
    """Double the interval until its upper end has the target power."""
    for _ in range(60):
        short = where & ~(power(high) >= target)
        if not short.any():
            break
        high = np.where(short, low + 2 * (high - low), high)
    return high


def _bisect_power(
    power: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray, target: FloatArray
) -> FloatArray:
    """Bisect for the point where the increasing power reaches the target."""
    for _ in range(100):
        middle = (low + high) / 2
        enough = power(middle) >= target
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        if (high - low <= 1e-12 * np.abs(high)).all():
            break
    return high


def _validate_sizes(n: Number) -> FloatArray:
    size = np.asarray(n, dtype=np.float64)
    if (size < _MIN_JUDGMENTS).any() or np.isinf(size).any():
        raise OptionError(f"`n` is {size}; a t test needs at least 2 judgments of each system, and not endlessly many")
    return size


def _validate_sd(sd: Number) -> FloatArray:
    spread = np.asarray(sd, dtype=np.float64)
    if (spread < 0).any() or np.isinf(spread).any():
        raise OptionError(f"`sd` is {sd}; standard deviations are finite and >= 0")
    return spread


def _validate_difference(delta: Number) -> FloatArray:
    difference = np.asarray(delta, dtype=np.float64)
    if np.isinf(difference).any():
        raise OptionError(f"`delta` is {delta}; differences are finite")
    return difference


def _effect_size(delta: Number, sd: Number) -> FloatArray:
    """Return |delta| / sd; 0 where delta is 0, infinite where only sd is."""
    difference, spread = np.broadcast_arrays(np.abs(_validate_difference(delta)), _validate_sd(sd))
    at_zero = np.where(np.isnan(difference) | np.isnan(spread), np.nan, np.where(difference > 0, np.inf, 0.0))
    return np.asarray(np.divide(difference, spread, out=at_zero, where=spread > 0), dtype=np.float64)


def _validate_level(name: str, value: Number) -> FloatArray:
    level = np.asarray(value, dtype=np.float64)
    if not ((level > 0) & (level < 1)).all():
        raise OptionError(f"`{name}` is {value}; choose between 0 and 1")
    return level


def _validate_target(alpha: FloatArray, power: FloatArray) -> None:
    if (power <= alpha).any():
        raise OptionError(f"`power` is {power} and `alpha` {alpha}; power must exceed alpha, which needs no difference")


def _validate_population(population: Number) -> FloatArray:
    size = np.asarray(population, dtype=np.float64)
    if (size < 1).any():
        raise OptionError(f"`population` is {population}; give the number of items of the test set")
    return size


def _residual_sd(sd: Number, correlation: Number) -> FloatArray:
    """Return the residual deviation of the control variate, s_d sqrt(1 - rho^2)."""
    rho = np.asarray(correlation, dtype=np.float64)
    if (np.abs(rho) > 1).any():
        raise OptionError(f"`correlation` is {correlation}; it lies between -1 and 1")
    return np.asarray(_validate_sd(sd) * np.sqrt(1 - rho**2), dtype=np.float64)


def _standard_error(n: Number, sd: Number, correlation: Number, population: Number) -> FloatArray:
    size, limit = np.asarray(n, dtype=np.float64), _validate_population(population)
    if (size <= 0).any():
        raise OptionError(f"`n` is {n}; judge more than 0 items")
    if (size > limit).any():
        raise OptionError(f"`n` is {n}, more than the {population} items of the test set")
    return np.asarray(_residual_sd(sd, correlation) * np.sqrt(1 / size - 1 / limit), dtype=np.float64)
