"""Judgments of the same output: the formula against all choices, the end of the items, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import OptionError
from aliquot.stats.variance_components import best_repeat_count, list_repeat_choices

positive = st.floats(0.05, 20.0)


@settings(max_examples=60, deadline=None)
@given(positive, positive, positive, positive)
def test_the_formula_is_next_to_the_best_whole_number(item, rater, item_cost, judgment_cost):
    """Without end, the variance at equal cost is convex in k: the best whole k is beside the formula's."""
    formula = best_repeat_count(item, rater, item_cost, judgment_cost)
    choices = list_repeat_choices(item, rater, item_cost, judgment_cost, 1e6, max_judgments=500)  # formula at most 400
    best = min(choices, key=lambda choice: choice.variance)
    assert np.floor(formula) <= best.judgments <= np.ceil(formula) or (formula < 1 and best.judgments == 1)


def test_the_variance_is_that_of_a_simulated_campaign():
    """Var = A (1/n - 1/N) + B / (n k), over 20000 draws from one population of 60 items."""
    rng = np.random.default_rng(0)
    truth = rng.normal(0, 2.0, 60)
    choice = list_repeat_choices(truth.var(ddof=1), 9.0, 3.0, 1.0, 100.0, population=60)[1]
    assert (choice.judgments, choice.items) == (2, 20.0)
    means = []
    for _ in range(20_000):
        items = rng.choice(60, 20, replace=False)
        means.append((truth[items] + rng.normal(0, 3.0, (2, 20)).mean(axis=0)).mean())
    assert choice.variance == pytest.approx(np.var(means), rel=0.04)


def test_without_a_price_of_items_one_judgment_is_best_until_items_run_out():
    short = list_repeat_choices(1.0, 5.0, 0.0, 1.0, 50.0, population=100)
    assert min(short, key=lambda c: c.variance).judgments == 1
    long = list_repeat_choices(1.0, 5.0, 0.0, 1.0, 1000.0, population=100)
    assert min(long, key=lambda c: c.variance).judgments == 10
    assert long[0].items == 100.0


def test_noise_free_judges_need_no_second_judgment():
    assert best_repeat_count(1.0, 0.0, 5.0, 1.0) == 0.0
    assert best_repeat_count(0.0, 1.0, 5.0, 1.0) == np.inf
    assert best_repeat_count(1.0, 1.0, 0.0, 1.0) == 0.0


def test_choices_that_buy_no_item_are_left_out():
    assert [choice.judgments for choice in list_repeat_choices(1.0, 1.0, 0.0, 1.0, 3.0)] == [1, 2, 3]


@pytest.mark.parametrize(
    "bad",
    [
        (-1.0, 1.0, 1.0, 1.0),
        (1.0, -1.0, 1.0, 1.0),
        (1.0, 1.0, -1.0, 1.0),
        (1.0, 1.0, 1.0, 0.0),
        (np.nan, 1.0, 1.0, 1.0),
    ],
)
def test_bad_numbers(bad):
    with pytest.raises(OptionError):
        best_repeat_count(*bad)
    with pytest.raises(OptionError, match="budget"):
        list_repeat_choices(1.0, 1.0, 1.0, 1.0, 0.0)
