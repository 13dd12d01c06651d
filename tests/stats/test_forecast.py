"""What a future sample will say: exact for random samples, right on average for unequal chances, honest about truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.stats.allocation import pps_probabilities
from aliquot.stats.design_variance import (
    degrees_of_freedom,
    intracluster_correlation,
    pair_degrees_of_freedom,
    unequal_probability_errors,
)
from aliquot.stats.sampling_designs import systematic_sample
from aliquot.stats.shrinkage import covariance_root, draw_true_means, expected_cluster_pairs, forecast_sample


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 40), st.integers(2, 30), st.integers(0, 1000))
def test_random_samples_have_the_textbook_covariance(n0, n, seed):
    """(1/n - 1/N) S, whatever part of the population is judged; 1/n S beyond it."""
    rng = np.random.default_rng(seed)
    residual = rng.normal(size=(n0, 3))
    residual -= residual.mean(axis=0)
    population = max(n0, n) + 5
    weight, expected = np.full(n0, population / n0), np.full(n0, n / population)
    spread = np.cov(residual.T)
    assert forecast_sample(residual, weight, expected, n).covariance == pytest.approx((1 / n - 1 / population) * spread)
    assert forecast_sample(residual, weight, expected, n, np.inf).covariance == pytest.approx(spread / n)
    twice = forecast_sample(residual, weight, expected, n, 2.0).covariance
    assert twice == pytest.approx((1 / n - 1 / (2 * population)) * spread)


def test_judging_everything_leaves_no_error():
    residual = np.random.default_rng(1).normal(size=(6, 2))
    assert (forecast_sample(residual, np.ones(6), np.ones(6), 6).covariance == 0).all()


def test_unequal_chances_against_many_draws():
    """Variance of a weighted mean over 4000 draws with probabilities proportional to size."""
    rng = np.random.default_rng(3)
    size = rng.lognormal(0, 0.6, 200)
    values = 5 * size[:, None] * rng.normal(size=(200, 2)) + np.array([1.0, 3.0])
    pi = pps_probabilities(size, 30, 0.1)
    means = []
    for _ in range(4000):
        rows = systematic_sample(pi, rng, rng.permutation(200))
        weight = 1 / pi[rows]
        means.append((weight[:, None] * values[rows]).sum(axis=0) / weight.sum())
    residual = values - values.mean(axis=0)
    foreseen = forecast_sample(residual, np.ones(200), pi, 30).covariance
    found = np.cov(np.array(means).T)
    assert np.diag(foreseen) == pytest.approx(np.diag(found), rel=0.12)
    plain = forecast_sample(residual, np.ones(200), np.full(200, 30 / 200), 30).covariance
    assert np.diag(foreseen)[0] < 0.75 * np.diag(plain)[0]  # the test could tell the designs apart


def test_a_pilot_foresees_what_the_population_would():
    """Averaged over pilots drawn with unequal chances, the foreseen covariance is that of the whole population."""
    rng = np.random.default_rng(4)
    size = rng.lognormal(0, 0.5, 300)
    values = size[:, None] * rng.normal(size=(300, 2))
    residual = values - values.mean(axis=0)
    future, first = pps_probabilities(size, 80, 0.1), pps_probabilities(rng.permutation(size), 40, 0.3)
    whole = forecast_sample(residual, np.ones(300), future, 80).covariance
    seen = []
    for _ in range(400):
        rows = systematic_sample(first, rng, rng.permutation(300))
        weight = (1 / first[rows]) * (300 / (1 / first[rows]).sum())
        seen.append(forecast_sample(residual[rows], weight, future[rows], 80).covariance)
    assert np.diag(np.mean(seen, axis=0)) == pytest.approx(np.diag(whole), rel=0.08)


def test_degrees_of_freedom_are_those_of_the_sample_itself():
    """A pilot that foresees a sample like itself has its degrees of freedom."""
    rng = np.random.default_rng(5)
    values = rng.exponential(size=(60, 3)) ** 1.5
    residual = values - values.mean(axis=0)
    future = forecast_sample(residual, np.full(60, 5.0), np.full(60, 0.2), 60)
    units = unequal_probability_errors(residual / 60, np.full(60, 0.2))
    assert future.freedom() == pytest.approx(degrees_of_freedom(units, 59.0), rel=1e-6)
    pairs = pair_degrees_of_freedom(units, 59.0)
    off = ~np.eye(3, dtype=bool)
    assert future.pair_freedom()[off] == pytest.approx(pairs[off], rel=1e-6)


def test_a_larger_sample_has_more_degrees_of_freedom():
    residual = np.random.default_rng(6).standard_t(4, size=(50, 2))
    small, large = (forecast_sample(residual, np.full(50, 20.0), np.full(50, n / 1000), n).freedom() for n in (50, 200))
    assert large == pytest.approx(4 * small, rel=0.01)


def test_columns_that_do_not_vary_have_no_kurtosis():
    residual = np.zeros((10, 2))
    residual[:, 0] = np.arange(10) - 4.5
    future = forecast_sample(residual, np.ones(10), np.full(10, 0.5), 5)
    assert np.isfinite(future.pair_freedom()).all()
    assert np.isfinite(future.freedom())


def test_pairs_in_clusters():
    cluster = np.repeat(np.arange(20), 5)
    rng = np.random.default_rng(7)
    counts = []
    for _ in range(4000):
        drawn = np.bincount(cluster[rng.random(100) < 0.3], minlength=20)
        counts.append((drawn * (drawn - 1)).sum())
    assert expected_cluster_pairs(np.full(100, 0.3), cluster) == pytest.approx(np.mean(counts), rel=0.05)


def test_a_planned_sample_trusts_its_correlation_more():
    """Few pairs are shrunk to no correlation; a plan counts on the pairs that the larger sample will have."""
    rng = np.random.default_rng(11)
    cluster = np.repeat(np.arange(8), 2)
    units = (rng.normal(size=8)[cluster] + 0.5 * rng.normal(size=16))[:, None]
    now, later, own = (intracluster_correlation(units, cluster, planned) for planned in (None, 500.0, 16.0))
    assert 0 < now < later
    assert own == pytest.approx(now)
    assert later / now == pytest.approx((500 / 512) / (16 / 28), rel=1e-6)


def test_truth_is_drawn_honestly():
    """Chances of the sign of a difference hold on average; without the shrinkage they would be too sure."""
    rng = np.random.default_rng(8)
    said: list[float] = []
    naive: list[float] = []
    right = []
    for _ in range(400):
        truth = rng.normal(0, 1.0, 8)
        estimate = truth + rng.normal(0, 1.0, 8)
        theta = draw_true_means(estimate, np.eye(8), 300, rng)
        flat = estimate + rng.normal(size=(300, 8))
        first, second = np.triu_indices(8, 1)
        up = estimate[first] > estimate[second]
        for where, drawn in ((said, theta), (naive, flat)):
            chance = (drawn[:, first] > drawn[:, second]).mean(axis=0)
            where.append(np.where(up, chance, 1 - chance).mean())
        right.append(((truth[first] > truth[second]) == up).mean())
    assert np.mean(said) == pytest.approx(np.mean(right), abs=0.03)
    assert np.mean(naive) > np.mean(right) + 0.02


def test_the_spread_of_true_systems_is_not_exaggerated():
    rng = np.random.default_rng(9)
    shrunk, naive = [], []
    for _ in range(300):
        estimate = rng.normal(0, 1.0, 10) + rng.normal(0, 1.0, 10)
        shrunk.append(draw_true_means(estimate, np.eye(10), 200, rng).var(axis=1, ddof=1).mean())
        naive.append((estimate + rng.normal(size=(200, 10))).var(axis=1, ddof=1).mean())
    assert np.mean(shrunk) == pytest.approx(1.0, abs=0.25)
    assert np.mean(naive) > 2.5


def test_few_systems_are_taken_as_they_are():
    rng = np.random.default_rng(10)
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    theta = draw_true_means(np.array([0.0, 3.0]), covariance, 40_000, rng)
    assert theta.mean(axis=0) == pytest.approx([0.0, 3.0], abs=0.03)
    assert np.cov(theta.T) == pytest.approx(covariance, abs=0.03)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_roots_of_any_rank(m, rank, seed):
    factor = np.random.default_rng(seed).normal(size=(m, rank))
    covariance = factor @ factor.T
    assert covariance_root(covariance) @ covariance_root(covariance).T == pytest.approx(covariance, abs=1e-9)
