"""From truths and estimates to chances: exact small cases, ties, blocks, and agreement with simulate's measures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import NameUnknownError, OptionError
from aliquot.planning import forecast as module
from aliquot.planning.forecast import BudgetForecast, Point, estimate_probabilities, expected_widths
from aliquot.planning.pilot import Pilot
from aliquot.planning.recommendation import parse_goal
from aliquot.simulation.setup import BASELINE
from aliquot.stats.arrays import FloatArray
from aliquot.stats.multiple_testing import adjust_p_values, rejected_by_bh
from aliquot.stats.system_correlation import count_swapped_pairs, pairwise_accuracy, rank_of_best


def looked(truth, estimates, half=0.0) -> BudgetForecast:
    truth, estimates = np.atleast_2d(truth).astype(float), np.atleast_2d(estimates).astype(float)
    m = estimates.shape[1]
    pair = np.full((1, m, m), half)
    return BudgetForecast(truth, estimates, np.full((1, m), half), pair, pair * 0 + 1e9, pair / 1.96, np.ones(1))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(1, 20), st.integers(0, 999))
def test_the_measures_are_those_of_simulate(m, draws, seed):
    rng = np.random.default_rng(seed)
    truth, estimates = rng.integers(0, 4, m).astype(float), rng.integers(0, 4, (draws, m)).astype(float)
    estimates += rng.normal(0, 1e-3, estimates.shape)  # truths may tie, estimates hardly ever do
    found = estimate_probabilities(looked(truth, estimates))
    assert found.accuracy == pytest.approx(pairwise_accuracy(estimates, truth).mean())
    assert found.best == pytest.approx((rank_of_best(estimates, truth) == 1).mean())
    assert found.ranking == pytest.approx((count_swapped_pairs(estimates, truth) == 0).mean())


def test_significance_counts_the_right_way_only():
    found = estimate_probabilities(looked([2.0, 0.0], [[3.0, 0.0], [0.5, 0.0], [-3.0, 0.0], [1.1, 0.0]], half=1.0))
    assert found.pairs == pytest.approx([0.5])
    assert found.accuracy == pytest.approx(0.75)


def test_differences_are_significant_by_the_rule_of_estimate():
    rng = np.random.default_rng(1)
    p = rng.beta(0.3, 2.0, size=(300, 10))
    p[rng.random(p.shape) < 0.1] = np.nan
    p[:3] = np.nan
    expected = [adjust_p_values(row, "bh") < 0.05 for row in p]
    np.testing.assert_array_equal(rejected_by_bh(p, 0.05), expected)
    # Three equal systems and one far away: a single small p of the six does not count as it would alone.
    near = estimate_probabilities(looked([0.0, 0.1, 0.2, 0.2], [[0.0, 0.1, 0.2, 1.21]], half=1.0))
    far = estimate_probabilities(looked([0.0, 0.1, 0.2, 9.0], [[0.0, 0.1, 0.2, 9.0]], half=1.0))
    assert (near.pairs.sum(), far.pairs.sum()) == (0, 3)


def test_an_unknown_error_tells_nothing_apart():
    forecast = looked([2.0, 0.0, 1.0], [[2.0, 0.0, 1.0]], half=0.1)
    forecast.pair_half[:, 0, :] = np.nan
    assert estimate_probabilities(forecast).pairs.tolist() == [0.0, 0.0, 1.0]
    width, of_difference, detects = expected_widths(forecast, 0.5)
    assert width == pytest.approx(0.2)
    assert of_difference == pytest.approx(0.2)
    assert detects == pytest.approx(0.1)


def test_rounding_is_no_difference():
    tied = looked([0.3, 0.1 + 0.2], [[0.1 + 0.2, 0.3]])
    found = estimate_probabilities(tied)
    assert (found.accuracy, found.ranking, found.best, found.pairs[0]) == (1.0, 1.0, 1.0, 0.0)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    forecast = looked(rng.normal(size=(50, 5)), rng.normal(size=(50, 5)), half=0.5)
    whole = estimate_probabilities(forecast)
    monkeypatch.setattr(module, "_BLOCK", 70)
    parts = estimate_probabilities(forecast)
    assert parts.pairs.tolist() == whole.pairs.tolist()
    assert (parts.accuracy, parts.ranking) == (whole.accuracy, whole.ranking)


def point(items: int, **given: float) -> Point:
    numbers = dict.fromkeys(
        (
            "share",
            "judgments",
            "hours",
            "money",
            "width",
            "width_difference",
            "detects",
            "accuracy",
            "accuracy_error",
            "best",
            "ranking",
            "apart",
        ),
        0.0,
    )
    return Point("auto", items, **{**numbers, **given})  # type: ignore[arg-type]


def test_goals_find_the_smallest_budget():
    curve = [point(n, accuracy=a, width_difference=w) for n, a, w in ((10, 0.8, 4.0), (20, 0.9, 3.0), (40, 0.95, 2.0))]
    assert parse_goal("accuracy=0.9").smallest_size(curve, 3) == pytest.approx(20)
    assert 20 < parse_goal("accuracy=0.92").smallest_size(curve, 3) < 40
    assert parse_goal("accuracy=0.5").smallest_size(curve, 3) == 10
    assert parse_goal("accuracy=0.99").smallest_size(curve, 3) == np.inf
    assert parse_goal("width=3").smallest_size(curve, 3) == pytest.approx(20)
    assert parse_goal("width=1").smallest_size(curve, 3) == np.inf
    assert parse_goal("width=3").is_reached(curve[1], 3)
    assert not parse_goal("width=3").is_reached(curve[0], 3)


def test_a_dip_of_a_replayed_curve_is_noise():
    curve = [point(n, best=b) for n, b in ((10, 0.5), (20, 0.9), (40, 0.8), (80, 1.0))]
    assert parse_goal("best=0.85").smallest_size(curve, 1) < 20
    assert parse_goal("best=0.95").smallest_size(curve, 1) > 40


def test_a_goal_that_cannot_be_told():
    assert parse_goal("best=0.5").smallest_size([point(10, best=np.nan)], 1) == np.inf
    assert parse_goal("apart=50%").smallest_size([point(10, apart=6.0)], 10) == 10


@pytest.mark.parametrize(
    "text", ["accuracy", "accuracy=", "accuracy=x", "accuracy=0", "best=1.5", "width=-1", "width=0"]
)
def test_bad_goals(text):
    with pytest.raises(OptionError, match="`goal`"):
        parse_goal(text)


def test_unknown_goals():
    with pytest.raises(NameUnknownError, match="did you mean 'accuracy'"):
        parse_goal("acuracy=0.9")


def test_going_on_from_random_items_gives_what_as_many_random_items_give():
    """Known from 10 of 100 items by s^2 (1/10 - 1/100); after 40 it is s^2 (1/40 - 1/100), whichever the way."""
    variance = np.array([[4.0, 1.0], [1.0, 9.0]])

    def known_from(n: int) -> FloatArray:
        return variance * (1 / n - 1 / 100)

    random, other = (cast(Any, SimpleNamespace(typed=name)) for name in (BASELINE, "pps"))
    nothing = np.zeros((2, 2))
    for added in (None, np.eye(2)):
        known = known_from(10) if added is None else known_from(10) + added
        pilot: Any = SimpleNamespace(sample=SimpleNamespace(population=100, n=10), known_covariance=known, added=added)
        assert Pilot._extended_covariance(pilot, random, 40, known_from(40)) == pytest.approx(known_from(40))
        assert Pilot._extended_covariance(pilot, random, 100, nothing) is nothing
        assert Pilot._extended_covariance(pilot, other, 40, nothing) is nothing
