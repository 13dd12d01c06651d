"""P-values against scipy, rank intervals, and P(best) against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aliquot.errors import OptionError
from aliquot.stats import ranks
from aliquot.stats.arrays import FloatArray
from aliquot.stats.ranks import full_set_p, normal_p, probability_best, rank_intervals, student_p

NAN, INF = np.nan, np.inf


def one_sided(upper: list[float], systems: int) -> FloatArray:
    p = np.full((systems, systems), 0.5)
    first, second = np.triu_indices(systems, 1)
    p[first, second], p[second, first] = upper, 1 - np.array(upper)
    return p


# p-values from differences and standard errors


def test_normal_p_is_scipys_in_both_tails() -> None:
    difference, se = np.linspace(-30, 30, 13)[:, None], np.array([0.5, 1.0, 7.0])
    np.testing.assert_allclose(normal_p(difference, se), stats.norm.sf(difference / se), rtol=1e-12)
    assert 0 < normal_p(np.array([30.0]), 1.0)[0] < 1e-190


def test_student_p_is_scipys() -> None:
    difference, df = np.linspace(-6, 6, 9)[:, None], np.array([1.0, 2.5, 40.0, INF])
    np.testing.assert_allclose(student_p(difference, 1.3, df), stats.t.sf(difference / 1.3, df), rtol=1e-10)
    np.testing.assert_allclose(student_p(difference, 1.3, INF), normal_p(difference, 1.3), rtol=1e-12)


def test_a_known_difference_is_certain() -> None:
    difference = np.array([2.0, 0.0, -2.0, NAN])
    for p in (normal_p(difference, 0.0), student_p(difference, 0.0, 5.0), full_set_p(difference, 0.0, 10)):
        np.testing.assert_array_equal(p, [0.0, 0.5, 1.0, NAN])


def test_what_is_not_known_is_nan() -> None:
    assert np.isnan(normal_p(np.array([1.0, 0.0]), NAN)).all()
    assert np.isnan(full_set_p(np.array([1.0]), NAN, 10)).all()
    assert np.isnan(student_p(np.array([1.0, 0.0, 1.0, 1.0]), [1.0, 0.0, 1.0, NAN], [0.0, -1.0, NAN, 5.0])).all()  # type: ignore[arg-type]


def test_extreme_numbers_do_not_warn() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert normal_p(np.array([1e300, -1e300]), 1e-300).tolist() == [0.0, 1.0]
        assert normal_p(np.array([1.0]), INF).tolist() == [0.5]
        assert np.isnan(normal_p(np.array([INF]), INF)).all()


def test_full_set_p_is_its_definition_and_the_samples_own_at_the_samples_size() -> None:
    assert full_set_p(np.array([0.2]), np.array([1.5]), 300)[0] == pytest.approx(
        stats.norm.sf(0.2 * np.sqrt(300) / 1.5), rel=1e-12
    )
    d = np.random.default_rng(0).normal(0.1, 1, 50)
    own = normal_p(d.mean(), d.std(ddof=1) / np.sqrt(50))
    np.testing.assert_allclose(full_set_p(d.mean(), d.std(ddof=1), 50), own, rtol=1e-12)


def test_full_set_p_predicts_the_median() -> None:
    """Over many test sets drawn around the estimate, half the whole sets' p-values lie below the prediction."""
    rng, d, sd, population = np.random.default_rng(1), 0.1, 1.0, 200
    means = rng.normal(d, sd / np.sqrt(population), 20000)
    on_whole_sets = normal_p(means, sd / np.sqrt(population))
    assert (on_whole_sets < full_set_p(d, sd, population)).mean() == pytest.approx(0.5, abs=0.015)


# Rank intervals


def test_rank_intervals_by_hand() -> None:
    better = np.zeros((4, 4), dtype=bool)
    better[0, 2] = better[0, 3] = better[1, 3] = True
    low, high = rank_intervals(better)
    assert low.tolist() == [1, 1, 2, 3]
    assert high.tolist() == [2, 3, 4, 4]
    assert [ends.tolist() for ends in rank_intervals(np.zeros((0, 0), dtype=bool))] == [[], []]


@settings(max_examples=150, deadline=None)
@given(systems=st.integers(1, 8), seed=st.integers(0, 10**6), density=st.floats(0, 1))
def test_rank_intervals_hold_the_rank(systems: int, seed: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    estimates = rng.integers(0, 6, systems)
    better = (estimates[:, None] > estimates) & (rng.random((systems, systems)) < density)
    low, high = rank_intervals(better)
    assert (low >= 1).all()
    assert (high <= systems).all()
    assert (low <= stats.rankdata(-estimates, "min")).all()
    assert (high >= stats.rankdata(-estimates, "max")).all()
    shuffle = rng.permutation(systems)
    moved = rank_intervals(better[np.ix_(shuffle, shuffle)])
    np.testing.assert_array_equal(moved[0], low[shuffle])
    np.testing.assert_array_equal(moved[1], high[shuffle])


# The probability to be the best


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.8])
def test_two_systems_have_a_closed_form(correlation: float) -> None:
    mean, sd = np.array([0.3, 0.0]), np.array([1.0, 0.5])
    covariance = np.outer(sd, sd) * np.array([[1, correlation], [correlation, 1]])
    spread = np.sqrt(1 + 0.25 - 2 * 0.5 * correlation)
    draws = 40000
    found = probability_best(mean, covariance, draws, seed=3)
    expected = stats.norm.cdf(0.3 / spread)
    assert found[0] == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / draws))
    assert found.sum() == pytest.approx(1)


def test_equal_independent_systems_win_equally() -> None:
    found = probability_best(np.full(5, 2.0), np.eye(5), 40000)
    np.testing.assert_allclose(found, 0.2, atol=0.009)


@settings(max_examples=60, deadline=None)
@given(
    systems=st.integers(1, 6), rank=st.integers(0, 6), seed=st.integers(0, 10**6), scale=st.sampled_from([1e-6, 1, 1e4])
)
def test_probabilities_sum_to_one(systems: int, rank: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    root = scale * rng.normal(size=(systems, rank))
    estimates = rng.normal(size=systems)
    estimates[rng.random(systems) < 0.2] = NAN
    found = probability_best(estimates, root @ root.T, 200, seed)
    if np.isnan(estimates).all():
        assert np.isnan(found).all()
    else:
        assert found.sum() == pytest.approx(1)
        assert (found[np.isnan(estimates)] == 0).all()


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
def test_identical_systems_split_their_wins_exactly(scale: float) -> None:
    """Their covariance is singular; rounding must not decide between them."""
    rng = np.random.default_rng(4)
    scores = scale * (10 + rng.normal(size=(80, 4)))
    scores = np.column_stack([scores, scores[:, 0]])
    found = probability_best(scores.mean(axis=0), np.cov(scores.T) / 80, 5000)
    assert found[0] == found[4] > 0


def test_systems_of_very_different_spread() -> None:
    covariance = np.diag([1e-8, 1e-8, 1e8]) ** 2
    covariance[0, 1] = covariance[1, 0] = 0.5e-16
    found = probability_best(np.array([1e-8, 0.0, -1e12]), covariance, 20000)
    assert found[0] == pytest.approx(stats.norm.cdf(1.0), abs=0.012)
    assert found[2] == 0


def test_certain_estimates_and_indefinite_matrices() -> None:
    np.testing.assert_array_equal(probability_best(np.array([1.0, 2.0]), np.zeros((2, 2)), 10), [0, 1])
    assert probability_best(np.array([3.0]), np.ones((1, 1)), 10).tolist() == [1.0]
    impossible = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])
    assert probability_best(np.zeros(3), impossible, 1000).sum() == pytest.approx(1)
    assert probability_best(np.empty(0), np.empty((0, 0))).shape == (0,)


def test_unknown_covariance_is_nan_unless_it_is_of_a_system_left_out() -> None:
    covariance = np.diag([1.0, 1.0, NAN])
    assert np.isnan(probability_best(np.zeros(3), covariance)).all()
    found = probability_best(np.array([0.0, 0.0, NAN]), covariance)
    assert found[:2].sum() == pytest.approx(1)
    assert found[2] == 0


def test_same_seed_same_result_in_any_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    mean, covariance = np.arange(3.0), np.eye(3) + 0.5
    found = probability_best(mean, covariance, 500, seed=9)
    assert not np.array_equal(found, probability_best(mean, covariance, 500, seed=10))
    np.testing.assert_array_equal(found, probability_best(mean, covariance, 500, np.random.default_rng(9)))
    monkeypatch.setattr(ranks, "_CHUNK", 64)
    np.testing.assert_allclose(found, probability_best(mean, covariance, 500, seed=9), rtol=1e-12)


# Mistakes


def test_errors_name_the_argument_the_value_and_the_remedy() -> None:
    two = np.zeros(2)
    with pytest.raises(OptionError, match=r"standard error -1\.0 is negative"):
        normal_p(two, np.array([1.0, -1.0]))
    with pytest.raises(OptionError, match="`population` is 0; give"):
        full_set_p(two, 1.0, 0)
    with pytest.raises(OptionError, match="both true"):
        rank_intervals(np.ones((2, 2), dtype=bool))
    with pytest.raises(OptionError, match="`draws` is 0"):
        probability_best(two, np.eye(2), 0)
    with pytest.raises(OptionError, match=r"`covariance` \(3, 3\); give M and M x M"):
        probability_best(two, np.eye(3))
    with pytest.raises(OptionError, match=r"variance -1\.0"):
        probability_best(two, -np.eye(2))
    with pytest.raises(OptionError, match="not symmetric"):
        probability_best(two, np.array([[1.0, 0.5], [0.0, 1.0]]))
    with pytest.raises(OptionError, match="infinite"):
        probability_best(np.array([INF, 0.0]), np.eye(2))
