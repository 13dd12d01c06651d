"""Budgets as people write them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import OptionError
from aliquot.simulation.setup import BudgetPoint, add_dense_points, add_parity_points, parse_budgets


@pytest.mark.parametrize(
    ("text", "written", "shares"),
    [
        ("5%:50%:10", np.arange(1, 11) * 0.05, np.arange(1, 11) * 0.05),
        ("10%:30%:3", [0.1, 0.2, 0.3], [0.1, 0.2, 0.3]),
        ("30%:10%:3", [0.1, 0.2, 0.3], [0.1, 0.2, 0.3]),
        ("10:40:4", [10, 20, 30, 40], [0.1, 0.2, 0.3, 0.4]),
        ("10:11:3", [10, 11], [0.1, 0.11]),
        ("20, 5% ,50", [0.05, 20, 50], [0.05, 0.2, 0.5]),
        ("100%", [1.0], [1.0]),
        ("100%:100%:1", [1.0], [1.0]),
        ("2:2:1", [2], [0.02]),
        ("2.5%", [0.025], [0.025]),
        ([20, "5%", 50.0], [0.05, 20, 50], [0.05, 0.2, 0.5]),
        (["5%:10%:2", 7], [0.05, 7, 0.1], [0.05, 0.07, 0.1]),
        (25, [25], [0.25]),
        (np.int64(25), [25], [0.25]),
        (range(10, 30, 10), [10, 20], [0.1, 0.2]),
    ],
)
def test_shares_numbers_lists_and_ranges(text, written, shares):
    points = parse_budgets(text, 100)
    np.testing.assert_allclose([point.written for point in points], written)
    np.testing.assert_allclose([point.share for point in points], shares)
    assert all(point.asked for point in points)


def test_the_same_budget_counts_once():
    assert len(parse_budgets("20,20%,20,20%:20%:5", 100)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "between 2 and all 40 items of past"),
        ("0%", "above 0%"),
        ("200%", "at most 100%"),
        ("41", "between 2 and all 40 items of past"),
        ("-5", "between 2 and all 40"),
        ("-5%", "above 0%"),
        ("1", "at least 2"),
        ("2.5", "a number of items is whole"),
        ("0.05", "for a share write 5%"),
        ("5%:50", "write from:to:how-many"),
        ("5%:50%:3:4", "write from:to:how-many"),
        ("5:50%:3", "both ends must be shares"),
        ("5%:30:3", "both ends must be shares"),
        ("5%:50%:0", "write from:to:how-many"),
        ("5%:50%:x", "write from:to:how-many"),
        ("5%:50%:1000000000", "write from:to:how-many"),
        ("", "write shares"),
        ("5%,", "write shares"),
        ("many", "write shares"),
        ("nan", "between 2 and all 40"),
        ("nan%", "above 0%"),
        ("inf", "between 2 and all 40"),
        ([], "is empty"),
        ([0.1, 0.2], "for a share write 10%"),
    ],
)
def test_slips_are_told(text, message):
    with pytest.raises(OptionError, match=message):
        parse_budgets(text, 40, of="past")


def test_with_costs_only_shares_mean_anything():
    assert parse_budgets("10%", 40, cost=True) == [BudgetPoint(0.1, 0.1)]
    with pytest.raises(OptionError, match="with `cost` give shares of the whole cost"):
        parse_budgets("10", 40, cost=True)


@settings(max_examples=50, deadline=None)
@given(st.integers(8, 3000), st.lists(st.integers(1, 100), min_size=1, max_size=5, unique=True))
def test_budgets_for_parity_lie_around_those_asked_for(population, percents):
    asked = parse_budgets([f"{percent}%" for percent in percents], population)
    for more in (add_parity_points(asked, population), add_dense_points(asked, population)):
        shares = [point.share for point in more]
        assert shares == sorted(shares)
        assert [point for point in more if point.asked] == asked
        assert all(2 / population <= point.share + 1e-9 for point in more if not point.asked)
        assert shares[-1] > 0.92  # so near to everything that nothing lies between
