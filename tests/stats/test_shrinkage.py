"""How much of what is seen between systems is real: against numerical integration, and the promises kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import norm

from aliquot.stats.shrinkage import (
    Forecast,
    cap_covariance,
    combine_covariances,
    contrast_variance,
    extend_estimates,
    real_share,
    share_posterior,
    shrink_robustly,
    shrink_to_prediction,
)


def integrated(deviations: np.ndarray, variance: float) -> float:
    """Posterior mean of the share under a uniform prior: the marginal likelihood of M - 1 free contrasts."""
    square, free = float(deviations @ deviations), len(deviations) - 1

    def likelihood(share: float) -> float:
        total = variance / (1.0 - share)
        return float(np.exp(-free / 2 * np.log(2 * np.pi * total) - square / (2 * total)))

    top = quad(lambda share: share * likelihood(share), 0, 1, limit=400, epsabs=0)[0]
    return float(top / quad(likelihood, 0, 1, limit=400, epsabs=0)[0])


@pytest.mark.parametrize("systems", [2, 4, 12])
@pytest.mark.parametrize("spread", [0.05, 0.7, 1.0, 2.0, 6.0])
def test_the_share_is_the_posterior_mean(systems, spread):
    deviations = spread * np.random.default_rng(systems).normal(size=systems)
    deviations -= deviations.mean()
    share = real_share(deviations, 1.3)
    assert share == pytest.approx(integrated(deviations, 1.3), abs=1e-7)
    grid, chance = share_posterior(deviations, 1.3)
    assert float(grid @ chance) == pytest.approx(share, abs=3e-3)
    assert chance.sum() == pytest.approx(1.0)


def test_the_likelihood_is_that_of_free_contrasts():
    """Helmert's contrasts of e_a ~ N(mu, s + v) are M - 1 independent normals: the formula leaves nothing out."""
    e, total = np.array([0.4, -1.0, 2.0, -1.4]), 1.7
    helmert = np.array([[1, -1, 0, 0], [1, 1, -2, 0], [1, 1, 1, -3]]) / np.sqrt([[2], [6], [12]])
    log_density = norm.logpdf(helmert @ e, scale=np.sqrt(total)).sum()
    assert log_density == pytest.approx(-3 / 2 * np.log(2 * np.pi * total) - e @ e / (2 * total))


def test_limits_of_the_share():
    e = np.array([-1.0, 0.0, 1.0, 2.0]) - 0.5
    assert real_share(e, 0.0) == 1.0
    assert real_share(e, 1e-12) == pytest.approx(1.0, abs=1e-6)
    # Nothing seen: the prior, tilted by the likelihood at 0: mean of k under (1 - k)^((M-1)/2).
    assert real_share(np.zeros(4), 1.0) == pytest.approx(1 / (2.5 + 1))
    assert real_share(np.zeros(200), 1.0) == pytest.approx(1 / (100.5 + 1))
    assert real_share(1e-160 * e, 1.0) == pytest.approx(real_share(np.zeros(4), 1.0))


@settings(max_examples=80, deadline=None)
@given(arrays(np.float64, st.integers(2, 9), elements=st.floats(-1e3, 1e3)), st.floats(1e-6, 1e6), st.floats(1.01, 50))
def test_the_share_lies_between_0_and_1_and_follows_spread_and_error(values, variance, factor):
    deviations = values - values.mean()
    share = real_share(deviations, variance)
    assert 0.0 <= share <= 1.0
    assert real_share(factor * deviations, variance) >= share - 1e-12
    assert real_share(deviations, factor * variance) <= share + 1e-12


def test_contrast_variance_ignores_what_all_systems_share():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 5))
    covariance = root @ root.T
    centring = np.eye(5) - 1 / 5
    by_hand = np.trace(centring @ covariance @ centring) / 4
    assert contrast_variance(covariance) == pytest.approx(by_hand)
    assert contrast_variance(covariance + 7.0) == pytest.approx(by_hand)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, 6, elements=st.floats(-50, 50)),
    arrays(np.float64, 6, elements=st.floats(-50, 50)),
    st.floats(0.01, 10),
    st.floats(-100, 100),
    st.floats(-100, 100),
)
def test_shrinking_keeps_the_common_level_and_lies_between(values, prediction, variance, shift, other):
    result, share = shrink_to_prediction(values, prediction, variance * np.eye(6))
    assert 0.0 <= share <= 1.0
    assert result.mean() == pytest.approx(values.mean(), abs=1e-6)
    full = prediction + (values - prediction).mean()  # drawn all the way
    np.testing.assert_allclose(result, full + share * (values - full), atol=1e-6)
    moved, same = shrink_to_prediction(values + shift, prediction + other, variance * np.eye(6))
    assert same == pytest.approx(share, abs=1e-6)
    np.testing.assert_allclose(moved, result + shift, atol=1e-4)


def test_unknown_systems_take_no_part_and_few_are_left_alone():
    values = np.array([1.0, np.nan, 3.0, 4.0, 6.0])
    result, share = shrink_to_prediction(values, np.zeros(5), np.eye(5))
    alone, same = shrink_to_prediction(values[[0, 2, 3, 4]], np.zeros(4), np.eye(4))
    assert share == same < 1
    np.testing.assert_allclose(result[[0, 2, 3, 4]], alone)
    assert np.isnan(result[1])
    few, factor = shrink_to_prediction(np.array([1.0, 2.0, 9.0]), np.zeros(3), np.eye(3))
    assert factor == 1.0
    np.testing.assert_array_equal(few, [1.0, 2.0, 9.0])


def test_estimates_come_nearer_to_the_truth():
    """Monte Carlo: whatever the real spread, the shrunk estimates have no larger squared error than the raw ones."""
    rng = np.random.default_rng(0)
    for real in (0.0, 0.3, 1.0, 3.0):
        prediction = rng.normal(size=8)
        truth = prediction + real * rng.normal(size=(400, 8))
        seen = truth + rng.normal(size=truth.shape)
        drawn = np.array([shrink_to_prediction(row, prediction, np.eye(8))[0] for row in seen])
        assert ((drawn - truth) ** 2).mean() < 1.02 * ((seen - truth) ** 2).mean()
        if real == 0.0:
            assert ((drawn - truth) ** 2).mean() < 0.5


def test_a_system_of_another_kind_is_not_drawn():
    """Gaps from the median 0.2: 0.2, 0.1, 0, 0.1, 8.8, MAD 0.1, so 0.148 is one deviation and 9.0 is far off."""
    values, covariance = np.array([0.0, 0.1, 0.2, 0.3, 9.0]), np.diag([0.02, 0.02, 0.02, 0.02, 5.0])
    found, share = shrink_robustly(values, np.zeros(5), covariance)
    far = np.array([0.2, 0.1, 0.0, 0.1]) / 0.14826
    drawn = np.clip((3.0 - far) / 1.5, 0.0, 1.0)
    centre = (drawn * values[:4]).sum() / drawn.sum()
    assert share == pytest.approx(real_share(values[:4] - values[:4].mean(), 0.02))
    assert found[:4] == pytest.approx(values[:4] - drawn * (1 - share) * (values[:4] - centre))
    assert found[4] == 9.0
    shifted, same = shrink_robustly(values + 7.0, np.full(5, 3.0), covariance)  # the prediction's level is no news
    assert shifted == pytest.approx(found + 7.0)
    assert same == pytest.approx(share)


def test_systems_that_are_known_exactly_few_or_missing_are_not_drawn():
    values = np.array([0.0, 0.1, 0.2, 0.3, np.nan])
    covariance = np.diag([0.0, 0.02, 0.02, 0.02, 0.02])
    found, share = shrink_robustly(values, np.zeros(5), covariance)
    assert 0 < share < 1
    assert found[0] == 0.0
    assert found[1] > 0.1
    assert np.isnan(found[4])
    few, kept = shrink_robustly(values[:3], np.zeros(3), np.eye(3))
    assert (few.tolist(), kept) == (values[:3].tolist(), 1.0)
    apart = np.array([0.0, 0.1, 0.2, 8.0, 9.0])  # three alike are too few to learn from
    found, kept = shrink_robustly(apart, np.zeros(5), np.eye(5))
    assert (found.tolist(), kept) == (apart.tolist(), 1.0)


def test_covariances_put_together_by_hand():
    assert combine_covariances(np.diag([3.0, 1.0]), np.diag([6.0, 1.0])) == pytest.approx(np.diag([2.0, 0.5]))
    a, b = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, -0.3], [-0.3, 3.0]])
    inv = np.linalg.inv
    assert combine_covariances(a, b) == pytest.approx(inv(inv(a) + inv(b)))
    assert cap_covariance(np.diag([1.0, 4.0]), np.diag([2.0, 2.0])) == pytest.approx(np.diag([1.0, 2.0]))
    assert cap_covariance(a / 2, a) == pytest.approx(a / 2)
    assert cap_covariance(2 * a, a) == pytest.approx(a)
    assert cap_covariance(np.ones((2, 2)), 4 * np.ones((2, 2))) == pytest.approx(
        np.ones((2, 2))
    )  # of one direction only


def test_estimates_after_more_items_by_hand():
    """C = 4, F = 1: mean v + (1 - F / C)(t - v), variance F - F^2 / C = 0.75."""
    one = np.ones((3, 1))
    draws = np.array([[-1.0], [0.0], [2.0]])
    found = extend_estimates(one * 10.0, np.array([2.0]), 4 * np.eye(1), np.eye(1), draws)
    assert np.sort(found[:, 0]) == pytest.approx(np.sort(8.0 + np.sqrt(0.75) * draws[:, 0]))
    known, final = np.array([[4.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 0.5], [0.5, 1.0]])
    z = np.random.default_rng(0).standard_normal((200_000, 2))
    many = extend_estimates(np.array([[3.0, 1.0]]), np.array([1.0, 2.0]), known, final, z)
    keep = np.eye(2) - final @ np.linalg.inv(known)
    assert many.mean(axis=0) == pytest.approx(np.array([1.0, 2.0]) + keep @ np.array([2.0, -1.0]), abs=0.01)
    assert np.cov(many.T) == pytest.approx(final - final @ np.linalg.inv(known) @ final, abs=0.01)


def test_a_forecast_with_a_larger_variance():
    future = Forecast(np.array([[1.0], [-2.0], [1.0]]), np.ones(3), 10.0, 3.0)
    assert future.scale_variance(2.25).covariance == pytest.approx(2.25 * future.covariance)
    assert future.scale_variance(2.25).n == 3.0
