"""Sizes of tests: the paper's tables, statsmodels, simulation, and inverses that invert."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from aliquot.errors import OptionError
from aliquot.stats.power import (
    paired_detectable,
    paired_power,
    paired_size,
    two_sample_detectable,
    two_sample_power,
    two_sample_size,
)


@pytest.fixture(scope="module")
def reference():
    return pytest.importorskip("statsmodels.stats.power").TTestIndPower()


# Wei and Jia 2021, Table 2: judgments of both systems; columns are differences of 1 to 5 points.
TABLE = {
    25: [32489, 8124, 3612, 2032, 1301],
    23: [27499, 6876, 3057, 1720, 1102],
    21: [22925, 5733, 2549, 1435, 919],
    19: [18766, 4693, 2087, 1175, 753],
    17: [15024, 3757, 1671, 941, 603],
    15: [11697, 2926, 1301, 733, 470],
}


def two_sample_judgments(delta: float | np.ndarray, sd: float | np.ndarray) -> np.ndarray:
    """Judgments of both systems together, rounded as the paper's Tables 2 and 5 print them."""
    return np.asarray(np.rint(2 * two_sample_size(delta, sd)))


def test_all_thirty_cells_of_the_paper():
    sds = np.array(list(TABLE))[:, None]
    assert two_sample_judgments(np.arange(1, 6), sds).tolist() == list(TABLE.values())


def test_the_cells_that_are_left_of_the_table_for_summeval():
    assert two_sample_judgments(0.1, np.array([0.46, 0.4])).tolist() == [1102, 834]
    assert two_sample_judgments(0.5, 0.4) == 35


def test_a_plan_for_whole_judgments_has_the_power():
    for sd, row in TABLE.items():
        n = np.ceil(two_sample_size(np.arange(1, 6), sd))
        assert (two_sample_power(n, np.arange(1, 6), sd) >= 0.95).all()
        assert (np.abs(2 * n - row) <= 2).all()


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("effect", [0.02, 0.1, 0.3])
def test_sizes_are_those_of_statsmodels(reference, effect, alpha, power):
    expected = reference.solve_power(effect_size=effect, alpha=alpha, power=power, alternative="two-sided")
    assert float(two_sample_size(effect, 1.0, alpha, power)) == pytest.approx(float(np.ravel(expected)[0]), rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(effect=st.floats(0.02, 2), alpha=st.floats(0.001, 0.3), power=st.floats(0.35, 0.999))
def test_sizes_have_the_power_by_statsmodels(reference, effect, alpha, power):
    """Its solver meets NaN for large effects (effect 1, alpha 0.001, power 0.99: 59.7; the normal size is 63.1)."""
    n = float(two_sample_size(effect, 1.0, alpha, power))
    there = float(reference.power(effect, n, alpha, alternative="two-sided"))
    assume(np.isfinite(there))
    assert there == pytest.approx(power, abs=1e-9) if n > 2 else there >= power - 1e-9


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 5000), effect=st.floats(0, 2), alpha=st.floats(0.001, 0.3))
def test_power_is_that_of_statsmodels(reference, n, effect, alpha):
    expected = reference.power(effect, n, alpha, alternative="two-sided")
    assume(np.isfinite(expected))  # statsmodels is NaN for some powers of 1
    assert float(two_sample_power(n, 3 * effect, 3.0, alpha)) == pytest.approx(float(expected), abs=1e-9)


def test_power_by_simulation():
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.8, 1, (20_000, 12)), rng.normal(0, 1, (20_000, 12))
    t = (a.mean(1) - b.mean(1)) / np.sqrt((a.var(1, ddof=1) + b.var(1, ddof=1)) / 12)
    assert np.mean(np.abs(t) > 2.0739) == pytest.approx(float(two_sample_power(12, 0.8, 1.0)), abs=0.012)


@settings(max_examples=30, deadline=None)
@given(n=st.floats(2, 1e5), sd=st.floats(0.1, 50), alpha=st.floats(0.001, 0.3), power=st.floats(0.4, 0.999))
def test_unpaired_inverses(n, sd, alpha, power):
    delta = two_sample_detectable(n, sd, alpha, power)
    assert float(two_sample_power(n, delta, sd, alpha)) == pytest.approx(power, abs=1e-8)
    assert float(two_sample_size(delta, sd, alpha, power)) == pytest.approx(n, rel=1e-6)


def test_a_power_hardly_above_alpha_counts_both_directions(reference):
    n = two_sample_size(0.05, 1.0, 0.05, 0.06)
    assert float(two_sample_power(n, 0.05, 1.0)) == pytest.approx(0.06, abs=1e-9)
    assert n == pytest.approx(reference.solve_power(0.05, alpha=0.05, power=0.06), rel=1e-5)


def test_paired_formula_by_hand():
    plain = (ndtri(0.975) + ndtri(0.8)) ** 2 * 9 * (1 - 0.36) / 0.25
    assert paired_size(0.5, 3.0, 0.6, alpha=0.05, power=0.8) == pytest.approx(plain)
    assert paired_size(0.5, 3.0, 0.6, 300, 0.05, 0.8) == pytest.approx(plain / (1 + plain / 300))


@settings(max_examples=60, deadline=None)
@given(
    n=st.floats(1, 900),
    sd=st.floats(0.1, 50),
    rho=st.floats(-0.99, 0.99),
    alpha=st.floats(0.001, 0.3),
    power=st.floats(0.4, 0.999),
    population=st.sampled_from([1000.0, 5000.0, np.inf]),
)
def test_paired_inverses(n, sd, rho, alpha, power, population):
    delta = paired_detectable(n, sd, rho, population, alpha, power)
    assert float(paired_power(n, delta, sd, rho, population, alpha)) == pytest.approx(power, abs=1e-9)
    assert float(paired_size(delta, sd, rho, population, alpha, power)) == pytest.approx(n, rel=1e-9)
    assert n <= float(paired_size(delta, sd, 0.0, population, alpha, power)) * (1 + 1e-9)


def test_paired_power_by_simulation_in_a_finite_population():
    """Draw 60 of 150 items; the difference is tested by z with the finite-population correction."""
    rng = np.random.default_rng(2)
    d = rng.normal(size=150)
    d = (d - d.mean()) / d.std(ddof=1) + 0.25
    order = np.argsort(rng.random((8000, 150)), axis=1)[:, :60]
    se = 1.0 * np.sqrt(1 / 60 - 1 / 150)
    found = np.mean(d[order].mean(axis=1) / se > 1.96)
    assert found == pytest.approx(float(paired_power(60, 0.25, 1.0, population=150)), abs=0.02)


def test_control_variate_and_pairing_save_what_they_should():
    unpaired = two_sample_size(2.0, 15.0)
    # Items of systems that correlate by 0.5 have differences of the same spread as the scores.
    assert paired_size(2.0, 15.0) == pytest.approx(unpaired / 2, rel=0.01)
    assert paired_size(2.0, 15.0, 0.8) == pytest.approx(0.36 * float(paired_size(2.0, 15.0)))


def test_edges():
    assert two_sample_size(0.0, 1.0) == np.inf
    assert two_sample_size(1.0, 0.0) == 2
    assert two_sample_power(5, 1.0, 0.0) == 1
    assert two_sample_power(5, 0.0, 1.0, 0.05) == pytest.approx(0.05)
    assert two_sample_power(5, 0.0, 0.0, 0.05) == pytest.approx(0.05)
    assert two_sample_detectable(5, 0.0) == 0
    assert two_sample_size(-2.0, 15.0) == two_sample_size(2.0, 15.0)
    assert paired_size(0.0, 1.0, population=70) == 70
    assert paired_size(0.0, 0.0) == np.inf
    assert paired_size(1.0, 0.0) == 0
    assert paired_detectable(70, 3.0, population=70) == 0
    assert paired_power(70, 0.1, 3.0, population=70) == 1
    assert paired_power(70, 0.0, 3.0, population=70) == 0
    assert paired_power(50, 0.0, 3.0) == pytest.approx(float(ndtr(-1.959964)), abs=1e-6)


def test_unknown_stays_unknown():
    assert np.isnan(two_sample_size(np.array([np.nan, 1.0]), 2.0)).tolist() == [True, False]
    assert np.isnan(two_sample_size(1.0, np.nan))
    assert np.isnan(two_sample_power(5, np.nan, 1.0))
    assert np.isnan(two_sample_detectable(np.array([np.nan, 5.0]), 1.0)).tolist() == [True, False]
    assert np.isnan(paired_size(np.nan, 1.0))
    assert np.isnan(paired_size(0.0, np.nan))
    assert np.isnan(paired_power(5, 1.0, np.nan))
    assert np.isnan(paired_power(5, np.nan, 0.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: two_sample_size(1, 1, alpha=0), "`alpha` is 0"),
        (lambda: two_sample_size(1, 1, power=1.0), r"`power` is 1\.0"),
        (lambda: two_sample_size(1, 1, alpha=0.5, power=0.4), "power must exceed alpha"),
        (lambda: two_sample_size(1, -1), "`sd` is -1"),
        (lambda: two_sample_size(np.inf, 1), "`delta` is inf"),
        (lambda: two_sample_power(1, 1, 1), "at least 2 judgments"),
        (lambda: two_sample_detectable(np.inf, 1), "not endlessly many"),
        (lambda: paired_size(1, 1, correlation=1.1), r"`correlation` is 1\.1"),
        (lambda: paired_size(1, 1, population=0), "`population` is 0"),
        (lambda: paired_power(11, 1, 1, population=10), "`n` is 11, more than the 10"),
        (lambda: paired_detectable(0, 1), "`n` is 0"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(OptionError, match=message):
        call()
