"""Agreement of values with a truth, many outcomes at once, against scipy and by counting."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from aliquot.stats import system_correlation as agreement

FUNCTIONS = (
    agreement.pairwise_accuracy,
    agreement.count_swapped_pairs,
    agreement.kendall_b,
    agreement.pearson_rows,
    agreement.spearman,
    agreement.rank_of_best,
)
RNG = np.random.default_rng(5)
VALUES = RNG.normal(size=(40, 7))
TIED = RNG.integers(0, 4, size=(60, 6)).astype(float)
TRUTH = RNG.normal(size=7)
TIED_TRUTH = np.array([1.0, 3.0, 3.0, 0.0, 2.0, 1.0])


@pytest.mark.parametrize(("values", "truth"), [(VALUES, TRUTH), (TIED, TIED_TRUTH)], ids=["free", "tied"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (agreement.kendall_b, lambda a, b: stats.kendalltau(a, b).statistic),
        (agreement.spearman, lambda a, b: stats.spearmanr(a, b).statistic),
        (agreement.pearson_rows, lambda a, b: stats.pearsonr(a, b).statistic),
    ],
    ids=["kendall", "spearman", "pearson"],
)
@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_correlations_are_those_of_scipy(values, truth, ours, theirs):
    np.testing.assert_allclose(ours(values, truth), [theirs(row, truth) for row in values], atol=1e-12)


def counted(row: np.ndarray, truth: np.ndarray) -> tuple[float, int]:
    """Accuracy and swaps, pair by pair."""
    points, swaps, pairs = 0.0, 0, list(combinations(range(len(truth)), 2))
    for a, b in pairs:
        seen, true = np.sign(row[a] - row[b]), np.sign(truth[a] - truth[b])
        points += 1.0 if seen == true else 0.5 if 0 in (seen, true) else 0.0
        swaps += int(seen * true < 0)
    return points / len(pairs), swaps


@pytest.mark.parametrize(("values", "truth"), [(VALUES, TRUTH), (TIED, TIED_TRUTH)], ids=["free", "tied"])
def test_accuracy_and_swaps_are_counts_of_pairs(values, truth):
    by_hand = np.array([counted(row, truth) for row in values])
    np.testing.assert_allclose(agreement.pairwise_accuracy(values, truth), by_hand[:, 0])
    np.testing.assert_array_equal(agreement.count_swapped_pairs(values, truth), by_hand[:, 1])


def test_rank_of_the_system_put_first():
    truth = np.array([5.0, 4.0, 4.0, 1.0])
    values = np.array([[9, 0, 0, 0], [0, 9, 0, 0], [0, 0, 9, 0], [0, 0, 0, 9], [9, 0, 0, 9]], dtype=float)
    np.testing.assert_array_equal(agreement.rank_of_best(values, truth), [1, 2, 2, 4, 2.5])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_what_is_missing_is_not_counted_as_wrong_or_right(function):
    values = np.array([[1.0, np.nan, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]])
    found = function(values, np.arange(4.0))
    assert np.isnan(found[0])
    assert np.isfinite(found[1])


@pytest.mark.parametrize("function", [agreement.kendall_b, agreement.pearson_rows, agreement.spearman])
def test_a_constant_side_has_no_correlation(function):
    """Three times 0.1 is not 0.3 in the last digit: that is no order of systems."""
    constant = np.array([0.1 + 0.2, 0.3, 0.3, 0.1 * 3])
    assert np.isnan(function(constant[None], np.arange(4.0))).all()
    assert np.isnan(function(np.arange(4.0)[None], constant)).all()


def test_rounding_is_not_an_order():
    almost = np.array([[0.3, 0.1 + 0.2, 1.0]])
    tied = np.array([0.3, 0.3, 1.0])
    assert agreement.pairwise_accuracy(almost, tied)[0] == 1.0
    assert agreement.spearman(almost, tied)[0] == pytest.approx(1.0, abs=1e-15)
    assert agreement.rank_of_best(np.array([[0.3, 0.1 + 0.2, 0.0]]), np.array([2.0, 1.0, 0.0]))[0] == 1.5


def test_one_system_or_none():
    for function in (agreement.pairwise_accuracy, agreement.kendall_b, agreement.pearson_rows, agreement.spearman):
        assert np.isnan(function(np.array([[1.0]]), np.array([1.0]))).all()
    assert agreement.rank_of_best(np.array([[1.0]]), np.array([1.0]))[0] == 1.0
    assert np.isnan(agreement.rank_of_best(np.zeros((2, 0)), np.zeros(0))).all()


def test_dice_of_the_best_clusters():
    one, other = np.array([1, 1, 1, 2, 3]), np.array([1, 2, 1, 1, 2])
    best, others = {0, 1, 2}, {0, 2, 3}
    assert agreement.dice(one, other) == pytest.approx(2 * len(best & others) / (len(best) + len(others)))
    assert np.isnan(agreement.dice(np.zeros(0, dtype=int), np.zeros(0, dtype=int)))


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (3, 5), elements=st.floats(-100, 100)), arrays(np.float64, 5, elements=st.floats(-100, 100)))
def test_order_of_systems_and_scale_change_nothing(values, truth):
    order = np.array([3, 0, 4, 2, 1])
    for function in FUNCTIONS:
        found = function(values, truth)
        np.testing.assert_allclose(function(values[:, order], truth[order]), found, atol=1e-6, equal_nan=True)
        np.testing.assert_allclose(function(4.0 * values, truth), found, atol=1e-6, equal_nan=True)


def test_the_share_of_the_best_by_hand():
    truth = np.array([4.0, 3.0, 2.0, 1.0])
    rows = np.array([[4.0, 1, 3, 2], [4, 3, 2, 1], [1, 2, 3, 4], [np.nan, 5, np.nan, 1]])
    assert agreement.top_share(rows, truth, 2).tolist() == [0.5, 1.0, 0.0, 0.5]
    assert agreement.top_share(rows, truth, 1).tolist() == [1.0, 1.0, 0.0, 0.0]
    assert agreement.top_share(rows, truth, 9).tolist() == [1.0] * 4
