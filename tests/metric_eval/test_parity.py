"""Parity: when a curve reaches what random reaches, by hand and by brute force; never reached is never a number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aliquot.metric_eval.measures import Parity, compute_parity, find_first_crossings

BUDGETS = np.array([0.1, 0.2, 0.4, 0.8])


def test_the_first_budget_that_is_enough():
    curve = np.array([0.5, 0.7, 0.6, 0.9])
    exact = find_first_crossings(BUDGETS, curve, np.array([0.4, 0.5, 0.65, 0.75, 0.9, 0.95]), between=False)
    np.testing.assert_array_equal(exact, [0.1, 0.1, 0.2, 0.8, 0.8, np.inf])


def test_between_two_budgets_the_logarithm_is_interpolated():
    curve = np.array([0.5, 0.7, 0.8, 0.9])
    at = find_first_crossings(BUDGETS, curve, np.array([0.6, 0.75, 0.85, 0.9]))
    np.testing.assert_allclose(at, [0.1 * 2**0.5, 0.2 * 2**0.5, 0.4 * 2**0.5, 0.8])


def test_points_that_are_not_known_are_passed_over():
    curve = np.array([0.5, np.nan, 0.8, 0.9])
    np.testing.assert_allclose(find_first_crossings(BUDGETS, curve, np.array([0.7])), [0.4])
    assert np.isinf(find_first_crossings(BUDGETS, np.full(4, np.nan), np.array([0.7])))[0]


def test_a_target_that_is_not_known_is_neither_reached_nor_missed():
    crossings = find_first_crossings(BUDGETS, np.array([0.5, 0.7, 0.8, 0.9]), np.array([0.7, np.nan]))
    found = compute_parity(crossings, np.array([0.2, 0.4]))
    assert np.isnan(found.value)
    assert found.reached == pytest.approx(1.0)
    assert found.missed == 0


def test_the_mean_of_shares_of_the_budget():
    assert compute_parity(np.array([0.1, 0.1]), np.array([0.2, 0.4])) == Parity(0.375, 0.375, 0)


def test_never_reached_is_counted_and_infinite():
    found = compute_parity(np.array([0.1, np.inf, np.inf]), np.array([0.2, 0.4, 0.5]))
    assert found.value == np.inf
    assert (found.reached, found.missed) == (0.5, 2)
    nothing = compute_parity(np.full(2, np.inf), np.array([0.2, 0.4]))
    assert np.isnan(nothing.reached)
    assert nothing.missed == 2


@settings(max_examples=80, deadline=None)
@given(
    arrays(np.float64, 6, elements=st.floats(0, 1)),
    arrays(np.float64, 4, elements=st.floats(0, 1)),
)
def test_against_a_search_point_by_point(curve, targets):
    budgets = np.array([1.0, 2.0, 3.0, 5.0, 8.0, 13.0])
    coarse = find_first_crossings(budgets, curve, targets, between=False)
    fine = find_first_crossings(budgets, curve, targets)
    for target, found, between in zip(targets, coarse, fine, strict=True):
        enough = [budget for budget, value in zip(budgets, curve, strict=True) if value >= target]
        assert found == (enough[0] if enough else np.inf)
        before = budgets[budgets < found]
        assert (before[-1] if len(before) and enough else found) <= between + 1e-12
        assert between <= found + 1e-12


def test_a_curve_has_parity_one_with_itself():
    curve = np.array([0.5, 0.7, 0.8, 0.9])
    assert compute_parity(find_first_crossings(BUDGETS, curve, curve), BUDGETS).value == pytest.approx(1.0)
