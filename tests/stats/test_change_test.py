"""Change scores of two groups and corrections for many tests: scipy, statsmodels, and the notes' chi-squares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from aliquot.errors import OptionError
from aliquot.stats.cluster_robust import change_test, proportions_test


@pytest.mark.parametrize("equal", [False, True])
def test_means_are_compared_as_scipy_and_statsmodels_do(equal):
    rng = np.random.default_rng(1)
    before, after = rng.normal(size=40), rng.normal(size=40) + 0.3
    second = np.arange(40) >= 25
    found = change_test(before, after, second, equal_variances=equal)
    change = after - before
    reference = stats.ttest_ind(change[~second], change[second], equal_var=equal)
    assert (found.t, found.p, found.df) == pytest.approx((reference.statistic, reference.pvalue, reference.df))
    compared = CompareMeans(DescrStatsW(change[~second]), DescrStatsW(change[second]))
    interval = compared.tconfint_diff(usevar="pooled" if equal else "unequal")
    assert (found.low, found.high) == pytest.approx(interval)
    start = stats.ttest_ind(before[~second], before[second], equal_var=equal)
    assert found.p_baseline == pytest.approx(start.pvalue)
    assert (found.n_first, found.n_second) == (25, 15)


@pytest.mark.parametrize(
    ("yes_first", "yes_second", "p"),
    [(18, 9, 0.083), (24, 13, 0.051), (17, 16, 0.814)],
)
def test_chi_squares_of_the_diet_trial(yes_first, yes_second, p):
    """Notes, P5: what the printed shares give with groups of 43 and 38 (not what the paper prints)."""
    assert proportions_test(yes_first, 43, yes_second, 38) == pytest.approx(p, abs=6e-4)


def test_small_cells_are_tested_exactly():
    assert proportions_test(3, 4, 0, 5) == pytest.approx(stats.fisher_exact([[3, 1], [0, 5]])[1])
    assert np.isnan(proportions_test(0, 0, 1, 5))
    assert proportions_test(4, 4, 5, 5) == 1.0


def test_direction_of_improvement():
    before, after, second = np.array([3.0, 3, 3, 3]), np.array([2.0, 1, 4, 5]), np.array([False, False, True, True])
    assert change_test(before, after, second).improved_first == 0.0
    assert change_test(before, after, second, lower_is_better=True).improved_first == 1.0


def test_people_without_both_numbers_leave():
    before, after = np.array([1.0, np.nan, 2, 3, 4]), np.array([2.0, 3, np.nan, 4, 6])
    found = change_test(before, after, np.arange(5) > 2)
    assert (found.n_first, found.n_second) == (1, 2)
    assert np.isnan(found.p)


def test_groups_without_spread_have_no_p():
    found = change_test(np.zeros(4), np.array([1.0, 1, 2, 2]), np.array([False, False, True, True]))
    assert found.difference == -1.0
    assert np.isnan(found.p)
    with pytest.raises(OptionError, match="give one each"):
        change_test(np.zeros(3), np.zeros(3), np.zeros(2, dtype=bool))
