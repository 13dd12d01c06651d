"""The names and call shapes of subset2evaluate: the same answers as ours, inputs untouched."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest

import aliquot
from aliquot.compat import select_subset
from aliquot.errors import AliquotError
from aliquot.io.formats import items as item_lines
from aliquot.sampling.methods import ALIASES, find_method
from aliquot.sampling.select import select

DATA = aliquot.synthetic(items=40, systems=4, seed=3, annotators=0)
UTILITY = "subset2evaluate_utility"


def listed() -> list[dict[str, Any]]:
    """The data as subset2evaluate passes them around."""
    return [dict(record) for record in item_lines.iterate_records(DATA)]


def order(items: list[dict[str, Any]]) -> list[int]:
    return [item["i"] for item in items]


# -- old names in select -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "given"),
    [
        ("pyirt_diffdisc", "irt_diffdisc", {"metric": "metricA"}),
        ("pyirt_diff", "irt_diff", {"metric": "metricA"}),
        ("pyirt_disc", "irt_disc", {"metric": "metricA"}),
        ("pyirt_feas", "irt_feas", {"metric": "metricA"}),
        ("pyirt_fic", "irt_info", {"metric": "metricA"}),
        ("metric_consistency", "metric_cons", {"metric": "metricA"}),
        ("bruteforce_greedy", "greedy", {"metric": "metricA", "simulations": 10}),
        ("combinator", "mixture", {"methods": "metric_avg|metric_var", "metric": "metricA"}),
        ("diversity_bleu", "diversity:similarity=bleu,tokenizer=13a", {}),
        ("diversity_chrf", "diversity:similarity=chrf", {}),
        ("diversity_unigram", "diversity:similarity=unigram,tokenizer=whitespace", {}),
        ("diversity_lm", "diversity:similarity=embedding", {"model": "ngrams"}),
    ],
)
def test_old_names_mean_ours(old, new, given):
    chosen = select(DATA, old, 8, **given)
    assert chosen == select(DATA, new, 8, **given)
    assert chosen.method.startswith(new)


def test_every_alias_leads_to_a_method():
    for old, (new, implied) in ALIASES.items():
        method, given = find_method(old)
        assert method.name == new
        assert given == implied
        assert implied.keys() <= method.parameters.keys()


@pytest.mark.parametrize(("metric", "similarity"), [("BLEU", "bleu"), ("chrF", "chrf"), ("unigram", "unigram")])
def test_the_similarity_may_be_called_metric(metric, similarity):
    old = select(DATA, "diversity", 8, metric=metric)
    assert old.ids == select(DATA, "diversity", 8, similarity=similarity).ids  # no script without spaces here
    assert f"similarity={similarity}" in old.method


def test_lm_is_embedding():
    old = select(DATA, "diversity", 8, metric="LM", model="ngrams")
    assert old.ids == select(DATA, "diversity:similarity=embedding,model=ngrams", 8).ids


# -- basic ---------------------------------------------------------------------------------------------------------

PARTS = [{"method": "metric_avg", "metric": "metricA"}, {"method": "diversity", "metric": "BLEU"}]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("random", {"seed": 4}),
    ("metric_avg", {"metric": "metricA"}),
    ("metric_var", {"metric": "metricA"}),
    ("metric_cons", {"metric": "metricA"}),
    ("diversity", {"metric": "BLEU"}),
    ("pyirt_diffdisc", {"metric": "metricA"}),
    ("kmeans", {"budget": 6, "features": "src", "model": "ngrams"}),
    ("kmeans", {"budget": 6, "features": "tgt_avg", "model": "ngrams"}),
    ("diffuse", {"budget": 6, "model": "ngrams"}),
    ("bruteforce", {"budget": 6, "metric": "metricA", "simulations": 10}),
    ("bruteforce_greedy", {"budget": 6, "metric": "metricA", "simulations": 10, "stepsize": 2}),
    ("combinator", {"methods": PARTS}),
]
EVERY_CALL = pytest.mark.parametrize(("method", "given"), CALLS)


@EVERY_CALL
def test_nothing_that_goes_in_is_changed(method, given):
    data, arguments = listed(), copy.deepcopy(given)
    before = copy.deepcopy(data)
    came = select_subset.basic(data, method=method, **arguments)
    assert data == before
    assert arguments == given
    for item in came:
        item[UTILITY] = item["new"] = 1
    assert data == before


@EVERY_CALL
def test_every_item_comes_back_best_first(method, given):
    came = select_subset.basic(listed(), method=method, **given)
    assert sorted(order(came)) == list(range(40))
    values = [item[UTILITY] for item in came]
    assert values == sorted(values, reverse=True)
    if "budget" in given:
        assert sum(values) == given["budget"]


@pytest.mark.parametrize("method", ["metric_avg", "metric_var", "metric_cons", "irt_disc"])
def test_utilities_are_those_of_select(method):
    came = select_subset.basic(listed(), method=method, metric="metricB")
    ours = select(DATA, method, metric="metricB")
    assert ours.utility is not None
    of = dict(zip(ours.ids, ours.utility.tolist(), strict=True))
    assert {item["i"]: item[UTILITY] for item in came} == pytest.approx(of)


@pytest.mark.parametrize("method", ["metric_avg", "metric_cons"])
def test_a_budget_does_not_change_the_order_of_a_utility(method):
    """subset2evaluate ignores it: metric_avg is negative, and items left out must not come first with a 0."""
    plain = select_subset.basic(listed(), method=method, metric="metricA")
    assert select_subset.basic(listed(), method=method, metric="metricA", budget=5) == plain


def test_equal_utilities_keep_the_order_of_the_list():
    data = [{"i": at, "scores": {"A": {"m": 1.0}, "B": {"m": 2.0}}} for at in range(20)]
    with pytest.warns(aliquot.AliquotWarning, match="equally useful"):
        assert order(select_subset.basic(data, method="metric_avg", metric="m")) == list(range(20))


@pytest.mark.parametrize("weights", [None, (0.9, 0.1), (-0.9, 0.1)])
def test_combinator_weighs_ranks(weights):
    """A weight counts by its size: subset2evaluate takes the absolute value."""
    parts = [{"method": "metric_avg", "metric": "metricA"}, {"method": "metric_var", "metric": "metricB"}]
    methods = parts if weights is None else list(zip(weights, parts, strict=True))
    came = select_subset.basic(listed(), method="combinator", methods=methods)
    chosen = select(
        DATA,
        "mixture:methods=(metric_avg:metric=metricA)|(metric_var:metric=metricB)",
        weights=None if weights is None else np.abs(weights).tolist(),
    )
    assert chosen.utility is not None
    assert [item[UTILITY] for item in came] == pytest.approx(chosen.utility.tolist())


def test_a_path_is_loaded_first(tmp_path):
    aliquot.save(DATA, tmp_path / "data.jsonl")
    came = select_subset.basic(tmp_path / "data.jsonl", method="metric_avg", metric="metricA")
    assert came == select_subset.basic(listed(), method="metric_avg", metric="metricA")


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("metric_avgg", {"metric": "metricA"}, "did you mean 'metric_avg'"),
        ("metric_avg", {"metric": "metrica"}, "did you mean 'metricA'"),
        ("metric_avg", {"metric": "metricA", "return_model": True}, "'return_model' has no counterpart"),
        ("combinator", {}, "methods"),
    ],
)
def test_what_cannot_be_done_is_said(method, given, message):
    with pytest.raises(AliquotError, match=message):
        select_subset.basic(listed(), method=method, **given)


def test_an_empty_list_is_refused():
    with pytest.raises(AliquotError, match="empty"):
        select_subset.basic([], method="random")


# -- costaware -----------------------------------------------------------------------------------------------------


def priced(items: int = 12) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    rows = zip(rng.normal(size=items).round(2), rng.integers(1, 9, items), strict=True)
    return [{"i": at, UTILITY: float(u), "cost": float(c)} for at, (u, c) in enumerate(rows)]


@pytest.mark.parametrize("budget", [1.0, 7.0, 20.0, 33.5])
def test_costaware_finds_the_best_within_the_budget(budget):
    data = priced()
    before = copy.deepcopy(data)
    came = select_subset.costaware(data, budget)
    assert data == before
    utility, cost = (np.array([item[name] for item in data]) for name in (UTILITY, "cost"))
    worth = (utility - utility.min()) / (utility.max() - utility.min()) + 0.2
    subsets = np.array(list(itertools.product([0, 1], repeat=len(data))))
    best = (subsets @ worth)[subsets @ cost <= budget].max()
    assert sum(item["cost"] for item in came) <= budget
    assert sum(worth[item["i"]] for item in came) == pytest.approx(best)
    assert [item[UTILITY] for item in came] == sorted((item[UTILITY] for item in came), reverse=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cost": 0.0}, "item number 3 has the cost 0"),
        ({"cost": -1.0}, "item number 3 has the cost -1"),
        ({"cost": None}, "item number 3"),
    ],
)
def test_costaware_names_what_is_broken(changes, message):
    data = priced()
    data[3] |= changes
    with pytest.raises(AliquotError, match=message):
        select_subset.costaware(data, 10)


@pytest.mark.parametrize("field", [UTILITY, "cost"])
def test_costaware_names_what_is_missing(field):
    data = priced()
    del data[3][field]
    with pytest.raises(AliquotError, match=f"item number 3 lacks the field '{field}'"):
        select_subset.costaware(data, 10)


def test_basic_and_costaware_go_together():
    data = [{**item, "cost": 1.0 + item["i"] % 3} for item in listed()]
    ordered = select_subset.basic(data, method="metric_var", metric="metricA")
    assert sum(item["cost"] for item in select_subset.costaware(ordered, 20.0)) <= 20.0
