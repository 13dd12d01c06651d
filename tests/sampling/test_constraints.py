"""Constraints on a selection: equal groups, whole documents, items that must or must not be chosen."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.sampling.conftest import DATA, EVERY, chosen_by, small

from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.sampling.methods import all_methods
from aliquot.sampling.select import select

# -- balance -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "counts"),
    [
        (9, {"tiny": 3, "middle": 3, "large": 3}),
        (21, {"tiny": 3, "middle": 8, "large": 10}),
        (13, {"tiny": 3, "middle": 5, "large": 5}),
        (30, {"tiny": 3, "middle": 8, "large": 19}),
    ],
)
@pytest.mark.parametrize("method", ["metric_avg", "bruteforce", "segments", "pps", "random"])
def test_groups_get_equal_numbers_and_small_ones_give_back(method, budget, counts):
    data = small()
    domain = dict(zip(data.ids, data.items["domain"], strict=True))
    assert Counter(domain[item] for item in select(data, method, budget, balance="domain").ids) == counts


def test_the_best_of_each_group_are_taken_best_first():
    data = small()
    chosen = select(data, "metric_avg", 9, balance="domain")
    utility = -data.scores["m"].mean(axis=1)
    groups = data.items["domain"].to_numpy()
    best = [
        row
        for name in np.unique(groups)
        for row in sorted(np.flatnonzero(groups == name), key=lambda r: -utility[r])[:3]
    ]
    assert set(chosen.ids) == {data.ids[row] for row in best}
    assert chosen.utility is not None
    assert (np.diff(chosen.utility) <= 0).all()


def test_groups_share_an_amount_of_cost():
    data = small()
    chosen = select(data, "metric_avg", "12cost", cost="cost", balance="domain")
    of = dict(zip(chosen.ids, chosen.to_frame()["cost"], strict=True))
    members = data.items.group_by("domain").agg("id")
    spent = {name: sum(of.get(item, 0.0) for item in ids) for name, ids in members.iter_rows()}
    assert spent["tiny"] <= 4.0
    assert sum(spent.values()) <= 12.0 + 1e-9
    assert spent["middle"] == pytest.approx(spent["large"], abs=1.0)


def test_a_missing_group_is_a_group():
    data = small(domain=["a"] * 10 + [None] * 20)
    assert sum(int(item) < 110 for item in select(data, "random", 10, balance="domain").ids) == 5


def test_an_unknown_column_to_balance_gets_a_suggestion():
    with pytest.raises(NameUnknownError, match=r"unknown item column 'domian'; did you mean 'domain'\?"):
        select(small(), "random", 10, balance="domian")


# -- documents as units --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [4, 11, 17, "50%", None])
@pytest.mark.parametrize("method", ["metric_avg", "random"])
def test_documents_are_taken_whole_and_within_the_budget(method, budget):
    data = small()
    documents = data.items["document"].to_numpy()
    at = [data.ids.index(item) for item in select(data, method, budget, unit="document").ids]
    limit = {"50%": 15, None: 30}.get(budget, budget)
    assert 0 < len(at) <= limit
    assert len(at) == np.isin(documents, documents[at]).sum()
    codes = documents[at]
    assert len(set(codes)) == 1 + sum(a != b for a, b in itertools.pairwise(codes))


def test_the_worth_of_a_document_is_the_mean_of_its_items():
    """Two documents of two items fit; the better means are in d1 and d7, though the best single item is not."""
    utility = np.zeros(30)
    utility[[1, 2]], utility[[28, 29]], utility[3] = 2.0, 3.0, 4.0
    chosen = select(small(scores=np.repeat(-utility[:, None], 4, axis=1)), "metric_avg", 4, unit="document")
    assert set(chosen.ids) == {101, 102, 128, 129}


def test_documents_and_groups_together():
    data = small(domain=["x"] * 6 + ["y"] * 24)
    chosen = select(data, "metric_avg", 12, unit="document", balance="domain")
    x = sum(int(item) < 106 for item in chosen.ids)
    assert x == 6
    assert 0 < len(chosen) - x <= 6


@pytest.mark.parametrize("method", ["metric_avg", "segments"])
def test_documents_as_units_need_documents(method):
    data = replace(small(), items=small().items.drop("document"))
    with pytest.raises(OptionError, match="there are no documents"):
        select(data, method, 5, unit="document")


def test_an_unknown_unit_gets_a_suggestion():
    with pytest.raises(NameUnknownError, match="did you mean 'document'"):
        select(small(), "random", 5, unit="documents")


# -- items that must or must not be chosen -------------------------------------------------------------------------


@EVERY
def test_included_items_count_and_excluded_ones_are_gone(name):
    include, exclude = [DATA.ids[50], DATA.ids[3]], DATA.ids[10:20]
    chosen = chosen_by(name, include=include, exclude_items=exclude)
    if all_methods()[name].kind != "design":
        assert len(chosen) == 9
    assert set(chosen.ids[:2]) == set(include)
    assert not set(chosen.ids) & set(exclude)
    assert chosen.population == 50
    if chosen.probability is not None:
        assert (chosen.probability[:2] == 1.0).all()
        assert (chosen.probability[2:] < 1.0).all()


@pytest.mark.parametrize("options", [{"budget": 2}, {"budget": "1cost", "cost": "cost"}])
def test_more_included_than_the_budget_is_refused(options):
    with pytest.raises(OptionError, match="3 included items already exceed the budget"):
        select(small(), "metric_avg", include=[100, 101, 102], **options)


@pytest.mark.parametrize("method", ["metric_avg", "segments"])
def test_a_budget_that_is_spent_on_the_included_items(method):
    assert select(small(), method, 2, include=[105, 101]).ids == (101, 105)


def test_included_items_are_paid_first():
    chosen = select(small(), "metric_avg", "12cost", cost="cost", include=[100])
    assert chosen.cost is not None
    assert chosen.ids[0] == 100
    assert chosen.cost.sum() <= 12.0 + 1e-9


@pytest.mark.parametrize("options", [{"include": [999]}, {"exclude_items": [999]}, {"include": ["100"]}])
def test_unknown_items_are_named(options):
    with pytest.raises(NameUnknownError, match="unknown item"):
        select(small(), "metric_avg", 5, **options)


def test_an_item_cannot_be_in_and_out():
    with pytest.raises(NameUnknownError, match=r"unknown item '100'.*check `include` and `exclude_items`"):
        select(small(), "metric_avg", 5, include=[100], exclude_items=[100])


def test_nothing_is_left():
    with pytest.raises(DataError, match="no item is left to choose from"):
        select(small(), "metric_avg", 5, exclude_items=list(range(100, 130)))
