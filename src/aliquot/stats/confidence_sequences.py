"""Confidence sequences (valid at every step at once), and Hoeffding and Bernstein intervals.

Invariant: with probability at least `level`, the true mean lies in the interval at every step at once (`betting`:
exactly, for bounded values in random order; `asymptotic`: in the limit). Betting works on values scaled to [0, 1].
Against each candidate mean m one capital process bets on a higher mean, another on a lower one. If m is true, both are
martingales, and each exceeds 2 / alpha with probability at most alpha / 2 (Ville's inequality); candidates whose
capital exceeds it are rejected. The upper bound of x is one minus the lower bound of 1 - x, so arrays begin with an
axis of two: the values and their mirror image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.validation import at_least, between


def error_rate(level: float) -> float:
    """Return 1 - level; raise OptionError for a level outside (0, 1).

    >>> error_rate(0.75)
    0.25
    """
    between("level", level, 0.0, 1.0, inclusive=False, remedy="choose between 0 and 1, for instance 0.95")
    return 1.0 - level


def hoeffding_half_width(n: IntArray | int, population: int, value_range: float, level: float = 0.95) -> FloatArray:
    """Return the half width R sqrt(k log(2 / delta) / (2 n)) for the mean of n of N values, k = 1 - (n - 1) / N.

    Hoeffding (1963) with the factor k of Serfling (1974), corollary 1.1, for drawing without replacement. R is the
    largest possible value minus the smallest; for a difference of two scores, twice theirs.

    >>> hoeffding_half_width(np.array([50, 200]), population=1000, value_range=1.0).round(3).tolist()
    [0.187, 0.086]
    """
    log_term = math.log(2.0 / error_rate(level))
    sizes = _validate_sizes(n)
    at_least("population", population, 1, "give the number of values the sample was drawn from")
    if np.any(sizes > population):
        raise OptionError(f"`n` is {np.nanmax(sizes):g}, more than the {population} values there are in the population")
    shrink = 1.0 - (sizes - 1.0) / population
    half: FloatArray = _validate_range(value_range) * np.sqrt(shrink * log_term / (2.0 * sizes))
    return half


def bernstein_half_width(
    sd: FloatArray | float, n: IntArray | int, value_range: float, level: float = 0.95
) -> FloatArray:
    """Return the empirical Bernstein half width s sqrt(2 log(3 / delta) / n) + 3 R log(3 / delta) / n.

    Audibert, Munos and Szepesvari (2009), theorem 1, with divisor n - 1 in s (slightly wider). Also valid without
    replacement (Hoeffding 1963, theorem 4), without a finite population correction.

    >>> bernstein_half_width(np.array([0.05, 0.3]), n=200, value_range=1.0).round(3).tolist()
    [0.072, 0.122]
    """
    log_term = math.log(3.0 / error_rate(level))
    sizes = _validate_sizes(n)
    spread = np.asarray(sd, dtype=np.float64)
    if np.any(spread < 0.0) or np.any(np.isinf(spread)):
        raise OptionError(f"`sd` is {sd}; standard deviations are finite and >= 0")
    half: FloatArray = spread * np.sqrt(2.0 * log_term / sizes) + 3.0 * _validate_range(value_range) * log_term / sizes
    return half


def _validate_sizes(n: IntArray | int) -> FloatArray:
    """Return sample sizes as floats, 0 as NaN: no values, no interval."""
    sizes = np.asarray(n, dtype=np.float64)
    if np.any(sizes < 0.0):
        raise OptionError(f"`n` is {n}; a sample has 0 values or more")
    return np.where(sizes > 0.0, sizes, np.nan)


def _validate_range(value_range: float) -> float:
    between(
        "value_range",
        value_range,
        0.0,
        math.inf,
        inclusive=False,
        remedy="give the largest possible value minus the smallest, > 0",
    )
    return value_range


# -- Confidence sequences ----------------------------------------------------------------------------------------------


MAX_LOSS_SHARE = 0.9
"""c, the largest share of the capital that a bet may lose; near 1 because narrow data are the usual case."""
MAX_CAPITAL = 1e250
"""Cap of the capital, against overflow; it keeps the sequence valid."""


@dataclass(frozen=True)
class ConfidenceSequence:
    """Bounds at every step (first axis), in the shape of the values."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True)
class BettingState:
    """State of betting sequences of several series; `update` returns the next state.

    The candidates [0, 1] are divided into equal cells with one bet per cell, so that the log capital is concave in m
    and bounded below by its chord. Where the chord exceeds the limit, so does the capital: bounds are conservative and
    much finer than the cells.
    """

    population: IntArray
    low: float
    high: float
    alpha: float
    target: int
    t: IntArray
    total: FloatArray
    squares: FloatArray
    at_left: FloatArray
    at_right: FloatArray
    floor: FloatArray

    @property
    def refuted(self) -> BoolArray:
        """Whether a series' bounds contradict each other: chance (probability <= alpha) or non-random order."""
        (smallest, largest), (below, above) = self._possible_means(), (self.floor[0], 1.0 - self.floor[1])
        is_refuted: BoolArray = (below > above) | (below > largest) | (above < smallest)
        return is_refuted

    @property
    def lower(self) -> FloatArray:
        """Lower bound of each series' mean, non-decreasing (where refuted: the smallest possible mean)."""
        least = self._possible_means()[0]
        return self._to_scale(np.where(self.refuted, least, np.maximum(self.floor[0], least)))

    @property
    def upper(self) -> FloatArray:
        """Upper bound of each series' mean, non-increasing (where refuted: the largest possible mean)."""
        largest = self._possible_means()[1]
        return self._to_scale(np.where(self.refuted, largest, np.minimum(1.0 - self.floor[1], largest)))

    def update(self, x: FloatArray | float) -> BettingState:
        """Return the state after one more value of each series; NaN where a series has none this time.

        >>> state = start_betting(population=2, low=0, high=10).update(4.0).update(6.0)
        >>> state.lower.tolist(), state.upper.tolist()
        ([5.0], [5.0])
        """
        unit = self._to_unit(np.atleast_1d(np.asarray(x, dtype=np.float64)))
        present = np.isfinite(unit)
        value = np.where(present, unit, 0.0)
        at_left, at_right = _update_capital(self, value, present)
        total, t = self.total + value, self.t + present
        centre = (0.5 + total) / (t + 1.0)
        squares = self.squares + np.where(present, (value - centre) ** 2, 0.0)
        floor = np.maximum(self.floor, _lowest_candidate(at_left, at_right, 2.0 / self.alpha))
        return replace(self, t=t, total=total, squares=squares, at_left=at_left, at_right=at_right, floor=floor)

    def _possible_means(self) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest mean that the remaining values allow."""
        return self.total / self.population, (self.total + (self.population - self.t)) / self.population

    def _to_scale(self, unit: FloatArray) -> FloatArray:
        return np.clip(self.low + (self.high - self.low) * unit, self.low, self.high)

    def _to_unit(self, x: FloatArray) -> FloatArray:
        if x.shape != self.t.shape:
            raise OptionError(f"`x` has shape {x.shape}; give one value for each of the {len(self.t)} series")
        bad = np.flatnonzero((x < self.low) | (x > self.high))
        if bad.size:
            value, scale = x[bad[0]], f"[{self.low}, {self.high}]"
            raise OptionError(f"x[{bad[0]}] is {value}, outside {scale}; set low and high to the ends of the scale")
        full = np.flatnonzero(np.isfinite(x) & (self.t >= self.population))
        if full.size:
            raise OptionError(f"x[{full[0]}] is one too many: its population is {self.population[full[0]]}, all seen")
        return (x - self.low) / (self.high - self.low)


def start_betting(
    population: int | IntArray,
    low: float,
    high: float,
    *,
    series: int = 1,
    level: float = 0.95,
    grid: int = 200,
    target: int = 100,
) -> BettingState:
    """Return the initial state of `series` betting sequences; `update` it and read `lower` and `upper`.

    >>> state = start_betting(population=1000, low=0, high=1, series=2)
    >>> state.update(np.array([0.2, 0.9])).upper.round(4).tolist()
    [0.9992, 0.9999]
    """
    if not -math.inf < low < high < math.inf:
        raise OptionError(f"`low` is {low} and `high` is {high}; give the ends of the scale, low < high")
    for name, count in (("series", series), ("grid", grid), ("target", target)):
        at_least(name, count, 1)
    sizes = np.broadcast_to(np.asarray(population, dtype=np.int64), (series,))
    if np.any(sizes < 1):
        raise OptionError(f"`population` is {population}; give the number of values there are in all")
    stakes, zeros = np.ones((2, series, grid)), np.zeros(series)
    return BettingState(
        population=sizes,
        low=float(low),
        high=float(high),
        alpha=error_rate(level),
        target=target,
        t=np.zeros(series, dtype=np.int64),
        total=zeros,
        squares=zeros,
        at_left=stakes,
        at_right=stakes,
        floor=np.zeros((2, series)),
    )


def betting_sequence(
    x: FloatArray,
    population: int | IntArray,
    low: float,
    high: float,
    level: float = 0.95,
    grid: int = 200,
    target: int = 100,
) -> ConfidenceSequence:
    """Return betting bounds of the population mean after each of x_1 ... x_t, drawn without replacement.

    Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting", hedged capital, without
    replacement: m_t = (N m - S_{t-1}) / (N - t + 1), K_t(m) = prod(1 + l_t (x_t - m_t)), m rejected once max(K+ / 2, K-
    / 2) >= 1 / alpha. Bets l_t = sqrt(2 log(2 / alpha) / (v_{t-1} max(t, target))), at most c / m_t, v_{t-1} the
    variance of the values before (with a prior value of 1/4). max(t, target) in place of their t log(1 + t) is narrower
    at affordable sizes; `target` must not depend on x. Means that the remaining values cannot reach are rejected too.
    `x` is steps x series, NaN where a series has no value.

    >>> x = np.random.default_rng(1).permutation(np.repeat([0.0, 1.0], [300, 700]))
    >>> bounds = betting_sequence(x, population=1000, low=0, high=1)
    >>> [(float(bounds.lower[n - 1].round(2)), float(bounds.upper[n - 1].round(2))) for n in (50, 200, 1000)]
    [(0.56, 0.89), (0.64, 0.79), (0.7, 0.7)]
    """
    path = np.asarray(x, dtype=np.float64)
    if path.ndim not in {1, 2}:
        raise OptionError(f"`x` has {path.ndim} dimensions; give one series, or steps x series")
    columns = path.reshape(len(path), 1) if path.ndim == 1 else path
    state = start_betting(population, low, high, series=columns.shape[1], level=level, grid=grid, target=target)
    lower, upper = np.empty(columns.shape), np.empty(columns.shape)
    for step, values in enumerate(columns):
        state = state.update(values)
        lower[step], upper[step] = state.lower, state.upper
    return ConfidenceSequence(lower=lower.reshape(path.shape), upper=upper.reshape(path.shape))


def _update_capital(state: BettingState, value: FloatArray, present: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the capital at both ends of every cell after one more value."""
    step = state.t + 1.0
    variance = (0.25 + state.squares) / step  # of the step - 1 values before and a prior value, so never 0
    wish = np.sqrt(2.0 * math.log(2.0 / state.alpha) / (variance * np.maximum(step, state.target)))
    left_over = np.maximum(state.population - state.t, 1.0)
    grid = state.at_right.shape[-1]
    ends = np.arange(1, grid + 1) / grid
    observed = np.stack([state.total, state.t - state.total])[..., None]
    # The conditional mean m_t at the right end, the largest of the cell, limits the bet to c / m_t. A cell with
    # negative m_t is impossible; its bet is not limited, and no factor falls below 1.
    mean = ((state.population / left_over)[:, None] * ends) - observed / left_over[:, None]
    bet = MAX_LOSS_SHARE / np.maximum(mean, (MAX_LOSS_SHARE / wish)[:, None])
    bet *= present[:, None]
    factor = np.stack([value, 1.0 - value])[..., None] - mean
    factor *= bet
    factor += 1.0
    at_right = np.minimum(state.at_right * factor, MAX_CAPITAL)
    factor += bet * (state.population / (grid * left_over))[:, None]
    at_left = np.minimum(state.at_left * factor, MAX_CAPITAL)
    return at_left, at_right


def _lowest_candidate(at_left: FloatArray, at_right: FloatArray, rich: float) -> FloatArray:
    """Return the smallest candidate that is not rejected, by the chord of log capital in its cell."""
    cell = np.argmax(at_right < rich, axis=-1)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):  # capital that underflowed to 0 rejects nothing
        log_left, log_right = (np.log(np.take_along_axis(capital, cell, axis=-1)) for capital in (at_left, at_right))
        over = log_left - math.log(rich)
        share = np.where(over > 0.0, over / (log_left - log_right), 0.0)
    return np.asarray((cell + share)[..., 0] / at_right.shape[-1])


def asymptotic_sequence(
    mean_t: FloatArray | float,
    sd_t: FloatArray | float,
    t: IntArray | int,
    rho: FloatArray | float,
    level: float = 0.95,
    population: int | None = None,
) -> ConfidenceSequence:
    """Return mean_t -+ sqrt(2 (t s^2 r^2 + 1) / (t^2 r^2) log(sqrt(t s^2 r^2 + 1) / alpha)), for any estimate.

    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), "Time-uniform central limit theory and asymptotic confidence
    sequences", proposition 2.5. For estimates with proxies, sd_t is that of the residuals. Asymptotic in the first look
    t_0: start at 30 values or more and do not intersect with earlier bounds. Simulated with N = 1000, 1 to 5 % of paths
    of skewed scores missed somewhere, but a fifth and more of those with rare errors (3 %): use `betting_sequence`
    there.

    With `population` N (simple random sampling without replacement), f = t / N and u = t / (1 - f), the half width is
    (1 - f) sqrt(2 (u s^2 r^2 + 1) / (t^2 r^2) log(sqrt(u s^2 r^2 + 1) / alpha)). Reason: centred sums tend to a
    Brownian bridge (Rosen 1964), which divided by 1 - f is a Brownian motion at time u, for which the mixture bound is
    exact. It is asymptotic also in the values not yet seen (30 at least) and less conservative than the plain form: 5
    to 9 % of those paths missed. (The factor sqrt(1 - f) alone ignores the faster clock, and misses more.) `sd_t` is
    the deviation of one value, with divisor t - 1; r is fixed beforehand, see `tune_rho`.

    >>> bounds = asymptotic_sequence(0.6, 0.2, np.array([50, 200]), rho=tune_rho(sd=0.2, target=200))
    >>> bounds.upper.round(3).tolist()
    [0.692, 0.643]
    """
    alpha = error_rate(level)
    sizes, r = np.asarray(t, dtype=np.float64), np.asarray(rho, dtype=np.float64)
    if np.any((sizes < 1.0) | (sizes > (math.inf if population is None else population))):
        raise OptionError(f"`t` is {t}; it counts values seen, at least 1 and at most the population ({population})")
    if not np.all((r > 0.0) | np.isnan(r)):
        raise OptionError(f"`rho` is {rho}; it must be > 0, for instance tune_rho(sd, target)")
    unseen_share = np.ones_like(sizes) if population is None else 1.0 - sizes / population
    gained = sizes * (np.asarray(sd_t, dtype=np.float64) * r) ** 2
    clock = gained / np.where(unseen_share > 0.0, unseen_share, 1.0)  # at t = N the half width is 0 for any clock
    half = unseen_share * np.sqrt(2.0 * (clock + 1.0) * (0.5 * np.log1p(clock) - math.log(alpha))) / (sizes * r)
    return ConfidenceSequence(lower=mean_t - half, upper=mean_t + half)


def tune_rho(sd: FloatArray | float, target: int, level: float = 0.95, population: int | None = None) -> FloatArray:
    """Return the rho at which `asymptotic_sequence` is narrowest at `target` values with deviation `sd`.

    The half width depends on y = t s^2 r^2 and is smallest where y + 1 = -W(-alpha^2 / e), W the lower branch of
    Lambert's function (Waudby-Smith et al. 2024). Choose `sd` once, from a pilot or past data, not at every look.

    >>> float(tune_rho(sd=0.2, target=200).round(3))
    1.013
    """
    alpha = error_rate(level)
    if target < 1 or (population is not None and target >= population):
        raise OptionError(f"`target` is {target}; choose at least 1 and fewer than the population ({population})")
    unseen_share = 1.0 if population is None else 1.0 - target / population
    y = -float(special.lambertw(-(alpha**2) / math.e, k=-1).real) - 1.0
    spread = np.asarray(sd, dtype=np.float64)
    rho: FloatArray = np.sqrt(y * unseen_share / target) / np.where(spread > 0.0, spread, np.nan)
    return rho


FIRST_LOOK = 30
"""Minimum number of values for an asymptotic sequence."""
_POOLED_VALUES = 8.0  # prior weight of the pooled variance, so that a series without variance yet is not certain
_MIN_CLOCK_RATIO = 15.0  # the previous values have at least this many times the weight of the next one


@dataclass(frozen=True)
class AsymptoticState:
    """State of asymptotic sequences of several series; `update` returns the next state.

    Values need no range: each must have, given those before it, the mean that is estimated. So a value may be weighted
    by its inclusion probability, and a prediction learned from earlier values may be subtracted. Values with known
    `precision` l have variance s^2 / l and are averaged with weights w <= l; the sum of the w is the clock, since the
    variance of the mean is then at most s^2 / clock. Near the end of a finite population l diverges; w is capped at a
    fifteenth of the clock, because a mean of few values is not normal.

    Half widths are those of `asymptotic_sequence` with Student's t quantile at the error rate of this look. Without the
    cap and t, 1.4 to 8 times as many runs with equal systems had a false decision.
    """

    alpha: float
    target: int
    t: IntArray
    clock: FloatArray
    mean: FloatArray
    squares: FloatArray

    @property
    def sd(self) -> FloatArray:
        """Standard deviation of a value of each series, shrunken towards the pooled one."""
        free = np.maximum(self.t - 1.0, 0.0)
        defined = free > 0
        usual = float((self.squares[defined].sum() / free[defined].sum()) if defined.any() else 0.0)
        spread: FloatArray = np.sqrt((self.squares + _POOLED_VALUES * usual) / np.maximum(free + _POOLED_VALUES, 1.0))
        return spread

    @property
    def half_width(self) -> FloatArray:
        """Half width of each series' interval; infinite before the first look and without variance."""
        sd, sizes = self.sd, np.maximum(self.clock, 1.0)
        ready = (self.t >= FIRST_LOOK) & (sd > 0)
        guess = np.where(sd > 0, sd, 1.0)
        level = 1.0 - self.alpha
        normal = asymptotic_sequence(0.0, guess, sizes, tune_rho(guess, self.target, level), level).upper
        z = normal * np.sqrt(sizes) / guess
        student = -special.stdtrit(np.maximum(self.t - 1.0, 1.0), special.ndtr(-z))
        return np.where(ready, student * guess / np.sqrt(sizes), np.inf)

    @property
    def lower(self) -> FloatArray:
        """Lower bound of each series' mean."""
        return self.mean - self.half_width

    @property
    def upper(self) -> FloatArray:
        """Upper bound of each series' mean."""
        return self.mean + self.half_width

    def update(self, x: FloatArray, precision: FloatArray | float = 1.0) -> AsymptoticState:
        """Return the state after one more value of each series; NaN where a series has none this time.

        >>> state = start_asymptotic(1)
        >>> for value in np.random.default_rng(0).normal(2.0, 1.0, 100):
        ...     state = state.update(np.array([value]))
        >>> state.lower.round(2).tolist(), state.upper.round(2).tolist()
        ([1.78], [2.38])
        """
        present = np.isfinite(x)
        weight = np.where(present, np.minimum(precision, np.maximum(self.clock / _MIN_CLOCK_RATIO, 1.0)), 0.0)
        clock = self.clock + weight
        step = np.where(present, x - self.mean, 0.0)
        mean = self.mean + step * weight / np.where(clock > 0, clock, 1.0)
        squares = self.squares + precision * np.where(present, step * (x - mean), 0.0)
        return replace(self, t=self.t + present, clock=clock, mean=mean, squares=squares)


def start_asymptotic(series: int, *, level: float = 0.95, target: int = 100) -> AsymptoticState:
    """Return the initial state; intervals are narrowest at about `target` values."""
    zeros = np.zeros(series)
    return AsymptoticState(error_rate(level), target, np.zeros(series, dtype=np.int64), zeros, zeros, zeros)
