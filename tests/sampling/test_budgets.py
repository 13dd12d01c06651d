"""Budgets and costs: numbers of items, shares, amounts of cost, and what is wrong with them."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.sampling.conftest import DATA, EVERY, UNRATED, chosen_by, every_method, small, total

from aliquot import AliquotWarning, EvalSet, plan, synthetic
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.sampling.budgets import item_costs
from aliquot.sampling.select import select
from aliquot.sampling.tasks import shift_positive

# -- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "expected"),
    [(9, 9), ("9", 9), (9.0, 9), ("30%", 18), ("12.5%", 8), (" 50 % ", 30), ("0.1%", 1), ("100%", 60), (None, 60)],
)
@pytest.mark.parametrize("method", ["metric_avg", "bruteforce", "segments"])
def test_budgets(method, budget, expected):
    assert len(chosen_by(method, budget=budget)) == expected


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (0, "above 0"),
        (-5, "above 0"),
        ("0%", "above 0"),
        ("-10%", "above 0"),
        ("nan", "above 0|write a number"),
        (10.5, "whole"),
        ("10.5", "whole"),
        ("many", "write a number"),
        ("", "write a number"),
        ("%", "write a number"),
        ("10 itmes", "write a number"),
    ],
)
@pytest.mark.parametrize("method", ["metric_avg", "segments", "auto"])
def test_broken_budgets(method, budget, message):
    with pytest.raises(OptionError, match=message):
        select(DATA, method, budget)


TIMED = {"seconds_per_judgment": 40}  # a whole number, as people type it in Python


@pytest.mark.parametrize(
    ("budget", "options"),
    [("15%", {}), ("12.4%", {}), ("50judgments", {}), (20, {}), ("1h", TIMED), ("20EUR", TIMED | {"hourly": 15})],
)
def test_a_budget_buys_the_same_number_of_items_in_every_verb(budget, options):
    data = synthetic(items=97, systems=4, annotators=0, seed=1)
    planned: Any = plan(data, budget=budget, budgets="10%,50%", replays=2, **options)
    drawn = {
        len(select(data, method, budget, seed=seed, **options)) for method in ("auto", "segments") for seed in (0, 1)
    }
    assert drawn == {planned.recommendation.point.items}


def test_what_is_added_is_counted_alike():
    data = synthetic(items=150, systems=4, annotators=0, seed=1)
    pilot = select(data, budget=31, seed=1)
    for more in ("+15%", "+90judgments", "+7"):
        larger = select(data, add_to=pilot, budget=more, seed=1)
        planned: Any = plan(data, selection=pilot, budget=more, budgets="50%")
        assert planned.recommendation.more == larger.details["waves"][-1]["size"] - 31, more


def assert_all_are_taken(name: str, budget: float | str) -> None:
    with pytest.warns(AliquotWarning, match="exceeds the 60 items there are: all are taken"):
        chosen = chosen_by(name, budget=budget)
    assert sorted(map(str, chosen.ids)) == sorted(map(str, DATA.ids))


@EVERY
def test_a_budget_above_everything_takes_all_and_says_so(name):
    assert_all_are_taken(name, 61)


@pytest.mark.parametrize("budget", ["200%", 1e9])
def test_far_above_everything(budget):
    assert_all_are_taken("segments", budget)


def test_numpy_numbers_are_budgets_too():
    assert len(select(DATA, "segments", float(np.float64(7)))) == 7
    assert len(chosen_by("segments", budget=np.int64(7))) == 7


# -- costs ---------------------------------------------------------------------------------------------------------


def greedy_by_utility(utility: np.ndarray, cost: np.ndarray, budget: float) -> list[int]:
    taken, spent = [], 0.0
    for row in np.argsort(-utility):
        if spent + cost[row] <= budget:
            taken.append(int(row))
            spent += cost[row]
    return taken


@pytest.mark.parametrize("budget", [3.0, 10.0, 25.5, "40%"])
@pytest.mark.parametrize("method", ["metric_avg", "metric_var"])
def test_a_budget_of_cost_is_never_exceeded_and_better_used_than_by_order(method, budget):
    data = small()
    cost = data.items["cost"].to_numpy()
    limit = 0.4 * cost.sum() if budget == "40%" else budget
    chosen = select(data, method, budget if budget == "40%" else f"{budget}cost", cost="cost")
    assert chosen.cost is not None
    assert chosen.cost.sum() <= limit * (1 + 1e-9)
    everything = select(data, method)
    assert everything.utility is not None
    of = dict(zip(everything.ids, everything.utility, strict=True))
    worth = shift_positive(np.array([of[item] for item in data.ids]))
    assert total(data, chosen, worth) >= worth[greedy_by_utility(worth, cost, limit)].sum() - 1e-9


def test_a_budget_of_cost_finds_the_best_of_all_subsets():
    data = small().keep(items=list(range(100, 112)))
    cost, utility = data.items["cost"].to_numpy(), -data.scores["m"].mean(axis=1)
    worth = shift_positive(utility)
    subsets = np.array(list(itertools.product([0, 1], repeat=12)))
    best = (subsets @ worth)[subsets @ cost <= 9.0].max()
    assert total(data, select(data, "metric_avg", "9cost", cost="cost"), worth) == pytest.approx(best)


def test_an_exact_fill_is_used():
    data = small(cost=[0.1] * 30)
    assert len(select(data, "metric_avg", "0.3cost", cost="cost")) == 3


def test_without_a_budget_all_costs_are_paid():
    chosen = select(small(), "metric_avg", cost="cost")
    assert len(chosen) == 30


def test_more_than_everything_costs():
    with pytest.warns(AliquotWarning, match="of cost there are: all are taken"):
        assert len(select(small(), "metric_avg", "1000cost", cost="cost")) == 30


@pytest.mark.parametrize("unit", ["item", "document"])
def test_a_budget_that_buys_nothing_is_refused(unit):
    with pytest.raises(OptionError, match="budget"):
        select(small(), "metric_avg", "0.3cost", cost="cost", unit=unit)


SOURCES = [
    "one two three",
    "  one  two ",
    "one\ttwo",
    "one\ntwo three\n\nfour",
    "one\u00a0two",
    "",
    "彼は来た",
    "ไปไหนมา",
    "안녕하세요",
]
UNITS = [3, 2, 2, 4, 2, 0, 4, 7, 5]


def test_esa_time_is_by_words_and_by_characters_where_there_are_none():
    items = pl.DataFrame({"id": np.arange(len(SOURCES)), "source": SOURCES})
    seconds = item_costs(EvalSet(items=items, systems=("A",)), "esa_time")
    assert seconds == pytest.approx(0.15 * np.array(UNITS) + 33.7)


def test_esa_time_as_a_budget():
    chosen = select(small(), "metric_var", "400cost", cost="esa_time")
    assert chosen.cost is not None
    assert 300 < chosen.cost.sum() <= 400


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0.0] + [1.0] * 29, "item 100 has the cost 0 .column 'cost'.; costs must be positive"),
        ([1.0] * 29 + [-2.0], "item 129 has the cost -2"),
        ([1.0] * 3 + [None] + [1.0] * 26, "item 103 has the cost missing"),
        ([1.0] * 3 + [float("nan")] + [1.0] * 26, "item 103 has the cost missing"),
        ([1.0] * 3 + [float("inf")] + [1.0] * 26, "item 103 has the cost inf"),
    ],
)
def test_broken_costs_are_named(column, message):
    with pytest.raises(DataError, match=message):
        select(small(cost=column), "metric_avg", "5cost", cost="cost")


@pytest.mark.parametrize(("cost", "message"), [("cots", "did you mean 'cost'"), ("domain", "numeric item column")])
def test_an_unknown_cost_gets_a_suggestion(cost, message):
    with pytest.raises(NameUnknownError, match=message):
        select(small(), "metric_avg", "5cost", cost=cost)


@pytest.mark.parametrize("name", every_method(kinds=("subset",)))
@pytest.mark.parametrize("options", [{"cost": "words"}, {"unit": "document"}])
def test_methods_that_choose_a_number_of_items_say_so(name, options):
    data = replace(UNRATED, items=UNRATED.items.with_columns(pl.lit(1.0).alias("words")))
    with pytest.raises(OptionError, match=f"'{name}' chooses a number of items"):
        chosen_by(name, data, **({"budget": "9cost"} if "cost" in options else {}), **options)


# -- the same words in every verb ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "options", "expected"),
    [
        ("12items", {}, 12),
        ("12items", {"cost": "cost"}, 12),
        ("50judgments", {}, 12),  # four systems
        ("0.5h", {"seconds_per_judgment": 30}, 15),
        ("0.5h", {"seconds_per_item": 100}, 18),
        ("10EUR", {"seconds_per_item": 100, "hourly": 20}, 18),
        ("USD 10", {"seconds_per_item": 100, "hourly": 20, "currency": "USD"}, 18),
    ],
)
def test_units(budget, options, expected):
    data = replace(DATA.keep(systems=list(DATA.systems[:4])), items=DATA.items.with_columns(pl.lit(2.0).alias("cost")))
    assert len(select(data, "segments", budget, **options)) == expected


@pytest.mark.parametrize(
    ("budget", "options", "message"),
    [
        (9, {"cost": "cost"}, "write 9cost for an amount of cost, or 9items"),
        ("9cost", {}, "needs `cost`, a column"),
        ("10EUR", {"seconds_per_item": 100}, "money needs `hourly`"),
        ("2h", {}, "how long judging takes"),
        ("2judgments", {}, "one item takes"),
    ],
)
def test_units_that_lack_something(budget, options, message):
    data = replace(UNRATED, items=UNRATED.items.with_columns(pl.lit(2.0).alias("cost")))
    with pytest.raises(OptionError, match=message):
        select(data, "segments", budget, **options)


# -- which scale people will use -------------------------------------------------------------------------------------


def test_an_unknown_scale_is_asked_for():
    with pytest.warns(AliquotWarning, match="`protocol=mqm`"):
        plain = select(UNRATED, "auto", 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AliquotWarning)
        penalties = select(UNRATED, "auto", 20, protocol="mqm")
        ratings = select(UNRATED, "auto", 20, protocol="esa")
        by_scale = select(UNRATED, "auto", 20, scale="penalties")
        select(UNRATED, "segments", 20)
        select(DATA, "auto", 20)  # human scores show it
    assert (plain.ids, penalties.ids) == (ratings.ids, by_scale.ids)
    assert plain.ids != penalties.ids
    assert "scale=penalties" in penalties.method


def test_a_protocol_that_contradicts():
    with pytest.raises(NameUnknownError, match="did you mean 'mqm'"):
        select(UNRATED, "auto", 20, protocol="mqn")
    with pytest.raises(OptionError, match="leave out one"):
        select(UNRATED, "auto", 20, protocol="mqm", scale="ratings")


def test_ids_are_no_costs():
    data = EvalSet(pl.DataFrame({"id": [1, 2], "price": [3.0, 4.0], "note": ["a", "b"]}), ("A",))
    costs = item_costs(data, "price")
    assert costs is not None
    assert costs.tolist() == [3.0, 4.0]
    for name in ("id", "note"):
        with pytest.raises(NameUnknownError, match=f"unknown cost '{name}'"):
            item_costs(data, name)
