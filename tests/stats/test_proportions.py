"""Intervals of proportions: Clopper-Pearson with an effective size, Tango's paired interval, McNemar's mid-p."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import binomtest

from aliquot.errors import OptionError
from aliquot.stats.proportions import korn_graubard, tango_interval

UNIT = st.floats(0.0, 1.0)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_simple_random_samples_have_clopper_pearson_intervals(level):
    n = 17
    yes = np.arange(n + 1)
    p = yes / n
    low, high = korn_graubard(p, p * (1 - p) / n, np.full(n + 1, float(n)), level)
    exact = [binomtest(int(k), n).proportion_ci(level, method="exact") for k in yes]
    np.testing.assert_allclose(low, [ci.low for ci in exact], atol=1e-12)
    np.testing.assert_allclose(high, [ci.high for ci in exact], atol=1e-12)


def test_a_design_effect_and_a_helpful_metric_change_the_effective_size():
    p, n = np.full(4, 0.8), np.full(4, 40.0)
    v = 0.16 / np.array([10.0, 40.0, 100.0, 1e9])
    low, high = korn_graubard(p, v, n)
    whole = [binomtest(round(0.8 * size), size).proportion_ci(method="exact") for size in (10, 40, 100, 160)]
    np.testing.assert_allclose(low, [ci.low for ci in whole], atol=1e-12)
    np.testing.assert_allclose(high, [ci.high for ci in whole], atol=1e-12)


def test_no_variance_and_missing_values():
    low, high = korn_graubard(
        np.array([1.0, 0.5, np.nan, 0.5, 0.5]), np.array([0.0, 0.0, 0.1, np.nan, 0.1]), np.array([20.0, 20, 20, 20, 0])
    )
    assert low[0] == pytest.approx(0.025 ** (1 / 20))
    assert high[0] == 1.0
    assert low[1] == pytest.approx(binomtest(10, 20).proportion_ci(method="exact").low)
    assert np.isnan(low[2:]).all()
    assert np.isnan(high[2:]).all()


@given(st.floats(-0.1, 1.1), st.floats(0.0, 0.3), st.floats(0.5, 1e4), st.floats(0.5, 0.999))
@settings(max_examples=200, deadline=None)
def test_proportions_stay_in_their_scale(mean, variance, n, level):
    low, high = (end.item() for end in korn_graubard(np.array([mean]), np.array([variance]), np.array([n]), level))
    assert 0.0 <= low < high <= 1.0
    assert low <= min(max(mean, 0.0), 1.0) <= high


def test_published_tango_intervals():
    """Airway reactivity (Fagerland, Lydersen and Laake 2014), and R's PropCIs::scoreci.mp(25, 28, 618, 0.9)."""
    low, high = tango_interval(np.array([1.0]), np.array([7.0]), np.array([21.0]))
    np.testing.assert_allclose([low[0], high[0]], [-0.517, -0.026], atol=5e-4)
    low, high = tango_interval(np.array([28.0]), np.array([25.0]), np.array([618.0]), 0.9)
    np.testing.assert_allclose([low[0], high[0]], [-0.0148, 0.0247], atol=5e-5)


@pytest.mark.parametrize(("b", "c", "n"), [(3, 0, 20), (12.5, 4.25, 33.3), (5, 5, 12), (9, 1, 10)])
def test_tango_interval_solves_the_score_equation(b, c, n):
    """The restricted estimate of q is searched for here, as the maximum of the likelihood."""
    z = ndtri(0.975)

    def z_score(d):
        lowest, highest = max(0.0, -d), (1 - d) / 2

        def slope(q):
            return b / (q + d) + c / q - 2 * (n - b - c) / max(1 - 2 * q - d, 1e-300)

        edge = 1e-13
        q = (
            brentq(slope, lowest + edge, highest - edge)
            if slope(lowest + edge) > 0 > slope(highest - edge)
            else (lowest if slope(lowest + edge) <= 0 else highest)
        )
        return (b - c - n * d) / np.sqrt(n * (2 * q + d * (1 - d)))

    low, high = (end.item() for end in tango_interval(np.array([b * 1.0]), np.array([c * 1.0]), np.array([n * 1.0])))
    for end, wanted in ((low, z), (high, -z)):
        if abs(end) < 1 - 1e-9:
            assert z_score(end) == pytest.approx(wanted, abs=1e-5)


def test_tango_interval_without_any_difference():
    n, z2 = np.array([1.0, 20.0, 500.0]), ndtri(0.975) ** 2
    low, high = tango_interval(np.zeros(3), np.zeros(3), n)
    np.testing.assert_allclose(high, z2 / (n + z2), atol=1e-12)
    np.testing.assert_allclose(low, -high)


@given(UNIT, UNIT, st.floats(0.5, 1e4), st.floats(0.5, 0.999))
@settings(max_examples=200, deadline=None)
def test_tango_interval_is_antisymmetric_and_contains_the_difference(first, second, n, level):
    b, c, size = np.array([first * n]), np.array([second * (1 - first) * n]), np.array([n])
    low, high = tango_interval(b, c, size, level)
    back_low, back_high = tango_interval(c, b, size, level)
    np.testing.assert_allclose([back_low, back_high], [-high, -low], atol=1e-12)
    assert -1.0 <= low[0] < high[0] <= 1.0
    assert low[0] - 1e-12 <= (b[0] - c[0]) / n <= high[0] + 1e-12


def test_bad_levels_and_counts():
    one = np.ones(1)
    for interval in (korn_graubard, tango_interval):
        with pytest.raises(OptionError, match="`level` is 1"):
            interval(one, one, 3 * one, 1.0)
    with pytest.raises(OptionError, match="at most n"):
        tango_interval(3 * one, 2 * one, 4 * one)
