"""Confidence sequences: formulas spelled out, confseq's numbers, all orderings of small populations, Monte Carlo."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray
from aliquot.stats.confidence_sequences import (
    FIRST_LOOK,
    asymptotic_sequence,
    betting_sequence,
    start_asymptotic,
    start_betting,
    tune_rho,
)

PATH = np.array([0.9, 0.75, 1.0, 0.2, 0.85, 0.95, 0.6, 1.0, 0.8, 0.05, 0.9, 0.7, 1.0, 0.95, 0.85])
SMALL: dict[str, list[float]] = {
    "coin": [0, 0, 0, 0, 1, 1, 1, 1],
    "rare": [0, 0, 0, 0, 0, 0, 0, 1],
    "skewed": [0, 0.5, 0.75, 0.75, 1, 1, 1, 1],
    "narrow": [0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.5, 0.5],
}


def capital(
    x: FloatArray, m: float, population: int, alpha: float, target: int, capped_at: float | None = None
) -> list[float]:
    """K+ after each value against the one candidate m, as in the docstring; bets are at most 0.9 / m_t(capped_at)."""
    made, before = 1.0, 0.0
    spread, path = 0.25, []
    for t, value in enumerate(x, start=1):
        mean = (population * m - before) / (population - t + 1)
        top = (population * (m if capped_at is None else capped_at) - before) / (population - t + 1)
        bet = math.sqrt(2 * math.log(2 / alpha) / (spread / t * max(t, target)))
        made *= 1 + (min(bet, 0.9 / top) if top > 0 else bet) * (value - mean)
        before += value
        spread += (value - (0.5 + before) / (t + 1)) ** 2
        path.append(made)
    return path


def orderings(values: list[float]) -> FloatArray:
    """Every order of drawing, one column each, steps first."""
    return np.array(list(permutations(values)), dtype=float).T


@st.composite
def populations(draw):
    """All values of a small population on a scale of its own, in the order drawn (any, also sorted)."""
    low, span = draw(st.sampled_from([(0.0, 1.0), (-100.0, 200.0), (1.0, 4.0)]))
    unit = draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]) | st.floats(0, 1), min_size=1, max_size=25))
    return np.minimum(low + span * np.array(unit), low + span), low, low + span


def test_capital_as_the_formula_says():
    state = start_betting(40, 0, 1, level=0.8, grid=20, target=10)
    wanted = [capital(PATH, end / 20, 40, 0.2, 10) for end in range(1, 21)]
    mirrored = [capital(1 - PATH, end / 20, 40, 0.2, 10) for end in range(1, 21)]
    for step, value in enumerate(PATH):
        state = state.update(value)
        assert state.at_right[0, 0] == pytest.approx([path[step] for path in wanted], rel=1e-10)
        assert state.at_right[1, 0] == pytest.approx([path[step] for path in mirrored], rel=1e-10)


def test_capital_as_in_confseq():
    """confseq 0.0.11: betting_mart(theta=1 and 0, trunc_scale=0.9), bets times sqrt(t log(1 + t) / max(t, 10))."""
    state = start_betting(40, 0, 1, level=0.8, grid=10, target=10)
    for value in PATH:
        state = state.update(value)
    assert state.at_right[0, 0, 4] == pytest.approx(196.26321007593373, rel=1e-10)  # m = 0.5
    assert state.at_right[0, 0, 6] == pytest.approx(0.7980488188986455, rel=1e-10)  # m = 0.7
    assert state.at_right[1, 0, 4] == pytest.approx(9.081125528663536e-08, rel=1e-10)  # m = 0.5, mirrored 0.5
    assert state.at_right[1, 0, 2] == pytest.approx(0.005352696836661551, rel=1e-10)  # m = 0.7, mirrored 0.3


@pytest.mark.parametrize(("grid", "near"), [(100, 2e-3), (1000, 2e-4)])
def test_bounds_as_in_confseq(grid, near):
    """confseq 0.0.11: betting_cs(breaks=20000, running_intersection=True), which looks at single candidates."""
    bounds = betting_sequence(PATH, 40, 0, 1, level=0.8, grid=grid, target=10)
    assert bounds.lower[[4, 9, 14]] == pytest.approx([0.37245, 0.57135, 0.60195], abs=near)
    assert bounds.upper[[4, 9, 14]] == pytest.approx([0.9675, 0.87195, 0.85555], abs=near)


@pytest.mark.parametrize("grid", [4, 16])
@pytest.mark.parametrize("name", SMALL)
def test_capital_is_one_on_average_if_the_mean_is_true(name, grid):
    """E K_t(m) = 1 exactly for the true m, for both gamblers and at every t: over all orders of drawing 6 values."""
    x = orderings([SMALL[name][k] for k in (0, 2, 4, 5, 6, 7)])
    mean = x[:, 0].mean()
    cells = 6 * grid  # so that the mean of six multiples of 1/4 is the end of a cell
    state = start_betting(6, 0, 1, series=x.shape[1], level=0.6, grid=cells, target=2)
    for values in x:
        state = state.update(values)
        for side, m in enumerate((mean, 1 - mean)):
            end = round(m * cells)
            if end:
                assert state.at_right[side, :, end - 1].mean() == pytest.approx(1.0, rel=1e-12)
            if end < cells:
                assert state.at_left[side, :, end].mean() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", SMALL)
def test_enough_of_all_orderings_are_covered_from_first_to_last(name):
    x = orderings(SMALL[name])
    mean = x[:, 0].mean()
    for level, target in [(0.3, 1), (0.5, 4), (0.8, 4), (0.95, 8)]:
        bounds = betting_sequence(x, 8, 0, 1, level=level, grid=10, target=target)
        ever = np.any((bounds.lower > mean + 1e-9) | (bounds.upper < mean - 1e-9), axis=0)
        assert ever.mean() <= 1 - level


def test_coverage_can_fail():
    """A guard for the test above: at a low level some orderings do miss, so the bounds are not just those of logic."""
    bounds = betting_sequence(orderings(SMALL["coin"]), 8, 0, 1, level=0.3, grid=10, target=1)
    assert np.mean(np.any((bounds.lower > 0.5 + 1e-9) | (bounds.upper < 0.5 - 1e-9), axis=0)) > 0.05


@given(st.integers(0, 10**6), st.sampled_from([1, 3, 10, 50]), st.sampled_from([1, 10, 100]))
@settings(max_examples=40)
def test_everything_discarded_was_rich(seed, grid, target):
    """The chord within a cell is safe: just inside a bound that moved, the formula itself says 2 / alpha or more."""
    rng = np.random.default_rng(seed)
    values = rng.beta(rng.uniform(0.2, 5), rng.uniform(0.2, 5), size=60)[:40]
    state = start_betting(60, 0, 1, level=0.7, grid=grid, target=target)
    for step, value in enumerate(values, start=1):
        before, state = state, state.update(value)
        for side, x in enumerate((values[:step], 1.0 - values[:step])):
            bound = float(state.floor[side, 0])
            if bound > before.floor[side, 0]:
                inside = bound - 1e-9
                end = math.ceil(inside * grid) / grid
                assert capital(x, inside, 60, 1 - 0.7, target, capped_at=end)[-1] >= 2 / (1 - 0.7) * (1 - 1e-9)


@given(populations(), st.sampled_from([1, 7, 40]), st.sampled_from([0.5, 0.95]))
def test_ordered_shrinking_and_exact_at_the_end(case, grid, level):
    x, low, high = case
    state = start_betting(len(x), low, high, level=level, grid=grid, target=5)
    for seen, value in enumerate(x, start=1):
        before, state = state, state.update(value)
        assert low <= state.lower[0] <= state.upper[0] <= high
        assert state.lower[0] >= x[:seen].sum() / len(x) + (len(x) - seen) / len(x) * low - 1e-9
        if not state.refuted[0]:  # else the bounds fall back to what logic allows
            assert not before.refuted[0]
            assert before.lower[0] <= state.lower[0] + 1e-12
            assert before.upper[0] >= state.upper[0] - 1e-12
    assert state.lower[0] == pytest.approx(x.mean(), abs=1e-9)
    assert state.upper[0] == pytest.approx(x.mean(), abs=1e-9)


@given(populations(), st.floats(0.01, 100), st.floats(-50, 50))
def test_scale_shift_and_mirror(case, scale, shift):
    x, low, high = case
    assume(len(x) > 1)
    plain = betting_sequence(x, len(x), low, high, grid=30)
    ends = scale * low + shift, scale * high + shift
    moved = betting_sequence(np.clip(scale * x + shift, *ends), len(x), *ends, grid=30)
    assert moved.lower == pytest.approx(scale * plain.lower + shift, rel=1e-7, abs=1e-7)
    assert moved.upper == pytest.approx(scale * plain.upper + shift, rel=1e-7, abs=1e-7)
    mirrored = betting_sequence(-x, len(x), -high, -low, grid=30)
    assert mirrored.lower == pytest.approx(-plain.upper, rel=1e-7, abs=1e-7)


def test_series_side_by_side_are_as_alone():
    x = np.random.default_rng(3).beta(5, 1, size=(60, 3))
    sizes = np.array([60, 80, 200])
    together = betting_sequence(x, sizes, 0, 1)
    for k in range(3):
        alone = betting_sequence(x[:, k], int(sizes[k]), 0, 1)
        assert alone.lower.shape == (60,)
        assert together.lower[:, k] == pytest.approx(alone.lower, rel=1e-12)
        assert together.upper[:, k] == pytest.approx(alone.upper, rel=1e-12)


def test_a_series_without_a_value_stays_as_it_is():
    x = np.random.default_rng(4).beta(5, 1, size=30)
    gaps = np.column_stack([np.insert(x, [0, 7, 7, 30], np.nan), np.append(x, [np.nan] * 4)])
    bounds = betting_sequence(gaps, 30, 0, 1)  # the second series is complete and waits
    plain = betting_sequence(x, 30, 0, 1)
    here = np.isfinite(gaps)
    for k in range(2):
        assert bounds.lower[here[:, k], k] == pytest.approx(plain.lower, rel=1e-12)
    assert (bounds.lower[0, 0], bounds.upper[0, 0]) == (0.0, 1.0)
    assert bounds.upper[8, 0] == bounds.upper[7, 0]


def test_states_are_not_changed_by_what_follows():
    first = start_betting(10, 0, 1).update(0.3)
    kept = first.at_right.copy()
    one, other = first.update(1.0), first.update(0.0)
    assert np.array_equal(first.at_right, kept)
    assert first.t.tolist() == [1]
    assert one.lower[0] > other.lower[0]


def test_sorted_judgments_are_found_out():
    """In descending order the bets conclude a high mean; the rest proves them wrong, and the mean is still exact."""
    x = np.repeat([1.0, 0.0], [100, 300])
    state = start_betting(400, 0, 1)
    for value in x:
        state = state.update(value)
    assert state.refuted.tolist() == [True]
    assert (state.lower[0], state.upper[0]) == (0.25, 0.25)


def test_very_long_paths_neither_overflow_nor_underflow():
    x = np.column_stack([np.ones(5000), np.tile([0.0, 1.0], 2500)])
    bounds = betting_sequence(x, 10**6, 0, 1, grid=50)
    assert np.all(np.isfinite(bounds.lower))
    assert bounds.lower[-1, 0] > 0.99
    assert bounds.lower[-1, 1] < 0.5 < bounds.upper[-1, 1]


def test_the_grid_costs_little():
    x = np.random.default_rng(5).beta(8, 2, size=300)
    coarse, fine = (betting_sequence(x, 1000, 0, 1, grid=grid) for grid in (50, 2000))
    assert np.abs(coarse.lower - fine.lower).max() < 0.005
    assert np.abs(coarse.upper - fine.upper).max() < 0.005


def skewed_populations(rng: np.random.Generator, size: int) -> dict[str, FloatArray]:
    """Scores as people give them, scaled to [0, 1]."""
    return {
        "DA": rng.beta(8, 2, size),
        "MQM": np.clip(1 - rng.exponential(0.12, size) * (rng.random(size) < 0.5), 0, 1),
        "differences": np.clip(0.5 + rng.laplace(0.01, 0.04, size), 0, 1),
        "rare errors": (rng.random(size) > 0.03).astype(float),
    }


@pytest.mark.parametrize("name", ["DA", "MQM", "differences", "rare errors"])
@pytest.mark.parametrize("target", [20, 100])
def test_whole_paths_cover_until_all_is_judged(name, target):
    rng = np.random.default_rng(11)
    population = skewed_populations(rng, 200)[name]
    x = rng.permuted(np.tile(population, (600, 1)), axis=1).T
    bounds = betting_sequence(x, 200, 0, 1, grid=60, target=target)
    mean = population.mean()
    ever = np.any((bounds.lower > mean + 1e-9) | (bounds.upper < mean - 1e-9), axis=0)
    assert ever.mean() <= 0.05
    assert bounds.lower[-1] == pytest.approx(np.full(600, mean))
    assert bounds.upper[-1] == pytest.approx(np.full(600, mean))


def test_betting_errors_name_the_argument():
    state = start_betting(2, 0, 10, series=2)
    with pytest.raises(OptionError, match=r"x\[1\] is 11\.0, outside \[0\.0, 10\.0\]"):
        state.update(np.array([1.0, 11.0]))
    with pytest.raises(OptionError, match="shape"):
        state.update(1.0)
    with pytest.raises(OptionError, match=r"x\[0\] is one too many: its population is 2"):
        betting_sequence(np.zeros(3), 2, 0, 1)
    with pytest.raises(OptionError, match="3 dimensions"):
        betting_sequence(np.zeros((2, 2, 2)), 2, 0, 1)
    with pytest.raises(OptionError, match="`low` is 1 and `high` is 1"):
        start_betting(5, 1, 1)
    with pytest.raises(OptionError, match="`grid` is 0"):
        start_betting(5, 0, 1, grid=0)
    with pytest.raises(OptionError, match="`population` is 0"):
        start_betting(0, 0, 1)
    with pytest.raises(OptionError, match="`level` is 95"):
        start_betting(5, 0, 1, level=95)
    with pytest.raises(OptionError, match="outside"):
        start_betting(5, 0, 1).update(math.inf)


@given(st.floats(0, 5), st.integers(1, 10**5), st.floats(0.01, 20), st.floats(0.5, 0.999))
def test_asymptotic_as_written_in_methods(sd, t, rho, level):
    v = t * sd**2 * rho**2 + 1
    half = math.sqrt(2 * v / (t**2 * rho**2) * math.log(math.sqrt(v) / (1 - level)))
    bounds = asymptotic_sequence(3.0, sd, t, rho, level)
    assert bounds.upper - 3.0 == pytest.approx(half, rel=1e-9, abs=1e-9)
    assert 3.0 - bounds.lower == pytest.approx(half, rel=1e-9, abs=1e-9)
    # An almost endless population is an endless one; a finite one is narrower at any t worth a look.
    assert asymptotic_sequence(3.0, sd, t, rho, level, population=10**14).upper == pytest.approx(bounds.upper)


@given(st.floats(0.05, 5), st.integers(2, 1000), st.floats(0.5, 0.99), st.sampled_from([None, 1001, 5000]))
@settings(max_examples=50)
def test_tuned_rho_is_the_best_one(sd, target, level, population):
    def half(log_rho: float) -> float:
        return float(asymptotic_sequence(0.0, sd, target, math.exp(log_rho), level, population).upper)

    best = optimize.minimize_scalar(half, bounds=(-10, 10), method="bounded", options={"xatol": 1e-10})
    rho = tune_rho(sd, target, level, population)
    assert rho.shape == ()
    assert half(math.log(float(rho))) == pytest.approx(best.fun, rel=1e-9)


def running(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation after each step, down the columns; the first deviation is NaN."""
    t = np.arange(1, len(x) + 1)[:, None]
    mean = np.cumsum(x, axis=0) / t
    squares = np.cumsum(x**2, axis=0) - t * mean**2
    return mean, np.sqrt(np.maximum(squares, 0) / np.where(t > 1, t - 1, np.nan))


def share_missed(name: str, population: int | None) -> float:
    """Share of 1,500 paths through N = 1000 that miss at a look with 30 values or more seen and not yet seen."""
    rng = np.random.default_rng(12)
    values = skewed_populations(rng, 1000)[name]
    mean, sd = running(rng.permuted(np.tile(values, (1500, 1)), axis=1).T)
    rho = tune_rho(values.std(), 200, population=population)
    bounds = asymptotic_sequence(mean, sd, np.arange(1, 1001)[:, None], rho, population=population)
    miss = (bounds.lower > values.mean()) | (bounds.upper < values.mean())
    return float(miss[29:-30].any(axis=0).mean())


@pytest.mark.parametrize(
    ("name", "plain", "corrected"), [("DA", 0.05, 0.06), ("MQM", 0.05, 0.09), ("differences", 0.05, 0.06)]
)
def test_asymptotic_paths_cover_about_as_promised(name, plain, corrected):
    assert 0.005 < share_missed(name, None) <= plain
    assert 0.03 < share_missed(name, 1000) <= corrected


def test_asymptotic_paths_are_not_for_rare_errors():
    """The docstring says so: before the first error the deviation is 0, and betting is the way (it covers, above)."""
    assert share_missed("rare errors", None) > 0.1


def test_a_population_is_known_once_all_is_seen():
    bounds = asymptotic_sequence(0.3, 0.2, np.array([50, 99, 100]), 1.0, population=100)
    assert np.all(np.diff(bounds.upper) < 0)
    assert bounds.lower[-1] == bounds.upper[-1] == 0.3


def test_the_mixture_bound_is_exact_for_bridges():
    """Normal values, known deviation, every step from the first to the last: at most alpha miss, but not far fewer."""
    rng = np.random.default_rng(13)
    x = rng.normal(size=(400, 4000))
    x -= x.mean(axis=0)
    x /= x.std(axis=0, ddof=1)
    mean, _ = running(x)
    bounds = asymptotic_sequence(mean, 1.0, np.arange(1, 401)[:, None], tune_rho(1.0, 50, 0.8, 400), 0.8, 400)
    ever = np.any((bounds.lower > 1e-9) | (bounds.upper < -1e-9), axis=0)
    assert 0.1 < ever.mean() <= 0.2


def test_unknown_deviations_are_nan():
    bounds = asymptotic_sequence(np.zeros(2), np.array([np.nan, 1.0]), np.array([1, 2]), 1.0)
    assert np.isnan(bounds.lower).tolist() == [True, False]
    assert np.isnan(tune_rho(np.array([0.0, np.nan, 1.0]), 10)).tolist() == [True, True, False]


def test_asymptotic_errors_name_the_argument():
    with pytest.raises(OptionError, match="`t` is 0"):
        asymptotic_sequence(0.0, 1.0, 0, 1.0)
    with pytest.raises(OptionError, match="`t` is 11"):
        asymptotic_sequence(0.0, 1.0, 11, 1.0, population=10)
    with pytest.raises(OptionError, match=r"`rho` is 0\.0"):
        asymptotic_sequence(0.0, 1.0, 5, 0.0)
    with pytest.raises(OptionError, match="`target` is 10"):
        tune_rho(1.0, 10, population=10)
    with pytest.raises(OptionError, match="`level` is 2"):
        tune_rho(1.0, 10, level=2)


# -- running asymptotic sequences ----------------------------------------------------------------------------------


def test_running_means_by_hand():
    """Means 1, 2 and 4, 6; squares 2 x 1 and 4 x 2; a series without a value stays as it is."""
    state = start_asymptotic(2)
    for values in ([1.0, np.nan], [3.0, 4.0], [np.nan, 8.0]):
        state = state.update(np.array(values))
    assert (state.t.tolist(), state.clock.tolist()) == ([2, 2], [2.0, 2.0])
    assert (state.mean.tolist(), state.squares.tolist()) == ([2.0, 6.0], [2.0, 8.0])
    # of 10 squares with 2 degrees of freedom 5 are usual, and count as 8 values
    assert state.sd == pytest.approx(np.sqrt([(2 + 40) / 9, (8 + 40) / 9]))
    assert np.isinf(state.half_width).all()  # too few to look at
    assert start_asymptotic(1).update(np.array([3.0])).sd.tolist() == [0.0]


def test_a_precise_value_weighs_a_fifteenth_of_those_before_at_the_most():
    state = replace(start_asymptotic(3), t=np.full(3, 30), clock=np.full(3, 30.0), mean=np.full(3, 2.0))
    found = state.update(np.full(3, 8.0), np.array([0.5, 2.0, 5.0]))
    weight = np.array([0.5, 2.0, 2.0])
    mean = 2.0 + 6.0 * weight / (30 + weight)
    assert found.clock == pytest.approx(30 + weight)
    assert found.mean == pytest.approx(mean)
    assert found.squares == pytest.approx(np.array([0.5, 2.0, 5.0]) * 6.0 * (8.0 - mean))


@pytest.mark.parametrize(("level", "target"), [(0.95, 100), (0.8, 30)])
def test_the_half_width_is_that_of_the_sequence_by_student(level, target):
    state = start_asymptotic(2, level=level, target=target)
    for x in np.random.default_rng(0).normal(2.0, 1.0, (FIRST_LOOK + 9, 1)):
        state = state.update(np.array([x[0], 5.0]))
    sd, n = float(state.sd[0]), FIRST_LOOK + 9
    normal = asymptotic_sequence(0.0, sd, n, tune_rho(sd, target, level), level).upper
    student = stats.t.isf(stats.norm.sf(normal * np.sqrt(n) / sd), n - 1) * sd / np.sqrt(n)
    assert state.half_width[0] == pytest.approx(student)
    assert state.upper - state.mean == pytest.approx(state.half_width)
    assert state.mean - state.lower == pytest.approx(state.half_width)
    first = start_asymptotic(1)
    for at in range(FIRST_LOOK):
        assert np.isinf(first.half_width).all()
        first = first.update(np.array([float(at)]))
    assert np.isfinite(first.half_width).all()
    for _ in range(FIRST_LOOK):
        first = first.update(np.array([np.nan]))  # no value is no look
    assert first.t.tolist() == [FIRST_LOOK]


def test_the_first_value_is_the_mean_whatever_its_precision():
    assert start_asymptotic(1).update(np.array([3.0]), 0.5).mean.tolist() == [3.0]
