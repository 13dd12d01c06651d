"""Select: budgets, costs, constraints, names and what the user is told; every edge has a defined behaviour."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aliquot
from aliquot import AliquotError, AliquotWarning, EvalSet, Incremental, Selection
from aliquot.core.registry import Spec, parse_chain, parse_spec
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.sampling.budget import item_costs
from aliquot.sampling.methods import all_methods
from aliquot.sampling.select import select
from aliquot.sampling.summary import summarise
from aliquot.sampling.tasks import positive
from aliquot.stats.pairwise import analytic_p, spa

LENGTHS = (1, 2, 3, 5, 6, 7, 4, 2)
DATA = aliquot.synthetic(items=60, systems=5, seed=2)
UNRATED = replace(DATA, scores={name: DATA.scores[name] for name in DATA.metrics}, judgments=None, human=None)


def small(scores: Any = None, **columns: Any) -> EvalSet:
    """Thirty items of eight documents with one metric, `m`."""
    rng = np.random.default_rng(4)
    n = sum(LENGTHS)
    items = {
        "id": np.arange(100, 100 + n),
        "document": np.repeat([f"d{at}" for at in range(len(LENGTHS))], LENGTHS),
        "domain": ["tiny"] * 3 + ["middle"] * 8 + ["large"] * (n - 11),
        "source": [f"word{at} " * int(rng.integers(1, 40)) for at in range(n)],
        "cost": rng.uniform(0.5, 3.0, n).round(2),
    }
    values = rng.normal(size=(n, 4)) if scores is None else scores
    return EvalSet(items=pl.DataFrame({**items, **columns}), systems=("A", "B", "C", "D"), scores={"m": values})


def runnable(name: str) -> dict[str, Any]:
    """What a method needs to be told on DATA beside a budget."""
    known = all_methods()[name].parameters
    if name == "source":  # its model is a file; tests/select/test_sources.py has one
        return {"predictor": "numpy.char:str_len"}
    given: dict[str, Any] = {"metric": "metricA", "model": "ngrams", "score": "metricB", "simulations": 20, "draws": 5}
    return {key: value for key, value in given.items() if key in known}


def chosen_by(name: str, data: EvalSet = UNRATED, budget: Any = 9, **options: Any) -> Selection:
    return select(data, name, budget, **runnable(name), **options)


def quietly(*arguments: Any, **options: Any) -> Selection:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        return select(*arguments, **options)


def every_method(*, kinds: tuple[str, ...] = ("utility", "subset", "design")) -> list[str]:
    return [name for name, method in all_methods().items() if method.kind in kinds]


EVERY = pytest.mark.parametrize("name", every_method())


def total(data: EvalSet, selection: Selection, worth: np.ndarray) -> float:
    at = {item: row for row, item in enumerate(data.ids)}
    return float(sum(worth[at[item]] for item in selection.ids))


# -- the public name -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first", ["aliquot.compat", "aliquot.sampling.methods", "aliquot.select", "aliquot.cli.select"]
)
def test_the_function_is_not_hidden_by_the_room_of_the_same_name(first):
    code = f"import {first}, aliquot; data = aliquot.synthetic(items=9, systems=2); print(len(aliquot.select(data)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["9"], done.stderr


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
        ("10 items", "write a number"),
    ],
)
@pytest.mark.parametrize("method", ["metric_avg", "segments", "auto"])
def test_broken_budgets(method, budget, message):
    with pytest.raises(OptionError, match=message):
        select(DATA, method, budget)


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
    chosen = select(data, method, budget, cost="cost")
    assert chosen.cost is not None
    assert chosen.cost.sum() <= limit * (1 + 1e-9)
    everything = select(data, method)
    assert everything.utility is not None
    of = dict(zip(everything.ids, everything.utility, strict=True))
    worth = positive(np.array([of[item] for item in data.ids]))
    assert total(data, chosen, worth) >= worth[greedy_by_utility(worth, cost, limit)].sum() - 1e-9


def test_a_budget_of_cost_finds_the_best_of_all_subsets():
    data = small().keep(items=list(range(100, 112)))
    cost, utility = data.items["cost"].to_numpy(), -data.scores["m"].mean(axis=1)
    worth = positive(utility)
    subsets = np.array(list(itertools.product([0, 1], repeat=12)))
    best = (subsets @ worth)[subsets @ cost <= 9.0].max()
    assert total(data, select(data, "metric_avg", 9.0, cost="cost"), worth) == pytest.approx(best)


def test_an_exact_fill_is_used():
    data = small(cost=[0.1] * 30)
    assert len(select(data, "metric_avg", 0.3, cost="cost")) == 3


def test_without_a_budget_all_costs_are_paid():
    chosen = select(small(), "metric_avg", cost="cost")
    assert len(chosen) == 30


def test_more_than_everything_costs():
    with pytest.warns(AliquotWarning, match="of cost there are: all are taken"):
        assert len(select(small(), "metric_avg", 1000, cost="cost")) == 30


@pytest.mark.parametrize("unit", ["item", "document"])
def test_a_budget_that_buys_nothing_is_refused(unit):
    with pytest.raises(OptionError, match="budget"):
        select(small(), "metric_avg", 0.3, cost="cost", unit=unit)


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
    chosen = select(small(), "metric_var", 400, cost="esa_time")
    assert chosen.cost is not None
    assert 300 < chosen.cost.sum() <= 400


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0.0] + [1.0] * 29, "item 100 has the cost 0; costs must be positive"),
        ([1.0] * 29 + [-2.0], "item 129 has the cost -2"),
        ([1.0] * 3 + [None] + [1.0] * 26, "item 103 has the cost missing"),
        ([1.0] * 3 + [float("nan")] + [1.0] * 26, "item 103 has the cost missing"),
        ([1.0] * 3 + [float("inf")] + [1.0] * 26, "item 103 has the cost inf"),
    ],
)
def test_broken_costs_are_named(column, message):
    with pytest.raises(DataError, match=message):
        select(small(cost=column), "metric_avg", 5, cost="cost")


@pytest.mark.parametrize(("cost", "message"), [("cots", "did you mean 'cost'"), ("domain", "numeric item column")])
def test_an_unknown_cost_gets_a_suggestion(cost, message):
    with pytest.raises(NameUnknownError, match=message):
        select(small(), "metric_avg", 5, cost=cost)


@pytest.mark.parametrize("name", every_method(kinds=("subset",)))
@pytest.mark.parametrize("options", [{"cost": "words"}, {"unit": "document"}])
def test_methods_that_choose_a_number_of_items_say_so(name, options):
    data = replace(UNRATED, items=UNRATED.items.with_columns(pl.lit(1.0).alias("words")))
    with pytest.raises(OptionError, match=f"'{name}' chooses a number of items"):
        chosen_by(name, data, **options)


# -- balance -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "counts"),
    [(9, {"tiny": 3, "middle": 3, "large": 3}), (21, {"tiny": 3, "middle": 8, "large": 10}),
     (13, {"tiny": 3, "middle": 5, "large": 5}), (30, {"tiny": 3, "middle": 8, "large": 19})],
)  # fmt: skip
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
    chosen = select(data, "metric_avg", 12.0, cost="cost", balance="domain")
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
    with pytest.raises(NameUnknownError, match=r"no item column 'domian'; did you mean 'domain'\?"):
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


@pytest.mark.parametrize("options", [{"budget": 2}, {"budget": 1.0, "cost": "cost"}])
def test_more_included_than_the_budget_is_refused(options):
    with pytest.raises(OptionError, match="3 included items already exceed the budget"):
        select(small(), "metric_avg", include=[100, 101, 102], **options)


@pytest.mark.parametrize("method", ["metric_avg", "segments"])
def test_a_budget_that_is_spent_on_the_included_items(method):
    assert select(small(), method, 2, include=[105, 101]).ids == (101, 105)


def test_included_items_are_paid_first():
    chosen = select(small(), "metric_avg", 12.0, cost="cost", include=[100])
    assert chosen.cost is not None
    assert chosen.ids[0] == 100
    assert chosen.cost.sum() <= 12.0 + 1e-9


@pytest.mark.parametrize("options", [{"include": [999]}, {"exclude_items": [999]}, {"include": ["100"]}])
def test_unknown_items_are_named(options):
    with pytest.raises(NameUnknownError, match="no item"):
        select(small(), "metric_avg", 5, **options)


def test_an_item_cannot_be_in_and_out():
    with pytest.raises(NameUnknownError, match=r"no item '100'.*check --include and --exclude-items"):
        select(small(), "metric_avg", 5, include=[100], exclude_items=[100])


def test_nothing_is_left():
    with pytest.raises(DataError, match="no item is left to choose from"):
        select(small(), "metric_avg", 5, exclude_items=list(range(100, 130)))


# -- little or odd data --------------------------------------------------------------------------------------------

SOLITARY = ["random", "metric_avg", "metric_var", "segments", "documents", "snippets_fixed", "snippets_budgeted",
            "stratified", "pps", "balanced", "kmeans", "incremental", "auto"]  # fmt: skip


@pytest.mark.parametrize("name", SOLITARY)
def test_one_system_is_enough_where_systems_are_not_compared(name):
    alone = UNRATED.keep(systems=["sys1"])
    given = {} if name == "auto" else runnable(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        assert len(select(alone, name, 9, **given)) > 0


@EVERY
def test_a_single_item(name):
    one = UNRATED.keep(items=UNRATED.ids[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        assert chosen_by(name, one, budget=1).ids == (0,)


def test_equal_utilities_are_chosen_from_at_random_and_it_is_said():
    data = small(scores=np.ones((30, 4)))
    with pytest.warns(AliquotWarning, match="'metric_avg' finds all items equally useful: the choice is random"):
        chosen = select(data, "metric_avg", 5)
    assert len(chosen) == 5
    counts = Counter(item for seed in range(300) for item in quietly(data, "metric_avg", 6, seed=seed).ids)
    assert len(counts) == 30
    assert max(counts.values()) < 60 + 5 * np.sqrt(300 * 0.2 * 0.8)


def test_ties_at_the_border_are_broken_at_random():
    values = np.repeat(np.r_[np.zeros(4), np.ones(26)][:, None], 4, axis=1)
    drawn = {frozenset(select(small(scores=values), "metric_avg", 6, seed=seed).ids) for seed in range(20)}
    assert all({100, 101, 102, 103} <= ids for ids in drawn)
    assert len(drawn) > 10


def test_a_metric_that_misses_cells_is_used_as_far_as_it_goes():
    values = np.random.default_rng(1).normal(size=(30, 4))
    values[::3, 1] = np.nan
    values[7] = np.nan
    data = small(scores=values)
    for name in ("bruteforce", "greedy"):
        with pytest.warns(AliquotWarning, match="items lack the metric for some system and are not considered"):
            chosen = select(data, name, 5, simulations=10)
        assert all(np.isfinite(values[int(item) - 100]).all() for item in chosen.ids)
    for name in ("pps", "balanced", "stratified:bins=metric", "guided", "metric_cons"):
        assert len(quietly(data, name, 5)) == 5


def test_a_search_that_cannot_find_enough_complete_items_says_so():
    values = np.random.default_rng(1).normal(size=(30, 4))
    values[:28, 0] = values[:25, 1] = values[:25, 2] = np.nan
    with pytest.raises(DataError, match=r"fewer than two systems|only \d+ items have the metric for all systems"):
        quietly(small(scores=values), "bruteforce", 6)


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("metric_vra", r"no method 'metric_vra'; did you mean 'metric_var'\?.*aliquot methods"),
        ("pps:taw=0.5", r"pps: no parameter 'taw'; did you mean 'tau'\? it has 'size', 'tau'"),
        ("segments:tau=1", "segments: no parameter 'tau'; it has none"),
        ("pps:tau=high", "pps: tau='high' should be a number"),
        ("greedy:step=1.5", "greedy: step='1.5' should be a whole number"),
        ("kmeans:weighted=maybe", "kmeans: weighted='maybe' should be a yes or no"),
        ("diversity:similarity=cosine", "choose unigram or bleu or chrf or embedding"),
        ("pps:", None),
        ("pps:tau", "'tau' is not key=value"),
        ("pps:tau=", "'tau=' is not key=value"),
        ("pps:=1", "'=1' is not key=value"),
        ("pps:tau=1,tau=0", "'tau' is given twice"),
        ("pps:metrics=(metricA", "parentheses do not match"),
        ("pps:metrics=)metricA(", "parentheses do not match"),
        ("", "a name is missing"),
        (":tau=1", "a name is missing"),
        ("auto:goal=fame", "no goal 'fame'"),
        ("auto:gaol=ranking", "did you mean 'goal'"),
    ],
)
def test_specs(spec, message):
    if message is None:
        assert len(select(DATA, spec, 5)) == 5
        return
    with pytest.raises(AliquotError, match=message):
        select(DATA, spec, 5)


def test_parameters_may_be_given_apart_and_win():
    assert select(DATA, "pps:tau=0.2", 5, tau=0.7).method == "pps:tau=0.7"
    assert select(DATA, "metric_avg", 5, metric="metricA").method == "metric_avg:metric=metricA"


names = st.text("abcdefgh_0123", min_size=1, max_size=8)
plain = st.text("abc.XYZ -_|:=é9", min_size=1, max_size=8).map(str.strip).filter(bool)
nested = st.builds("({}:{}={},{}={})".format, names, names, plain, names, plain)
values = st.one_of(plain, nested, st.builds("{}|{}".format, nested, plain))


@given(names, st.dictionaries(names, values, max_size=4))
def test_what_a_spec_writes_it_reads(name, parameters):
    spec = Spec(name, parameters)
    assert parse_spec(str(spec)) == spec
    assert str(parse_spec(str(spec))) == str(spec)


@given(st.lists(st.builds(Spec, names, st.dictionaries(names, values, max_size=3)), min_size=1, max_size=3))
def test_chains_are_specs_joined_by_plus(specs):
    assert parse_chain("+".join(map(str, specs))) == specs


@pytest.mark.parametrize("metric", ["a,b", "chrF (2", "x|y", "x=y", "plain+plus", "in) verted ("])
@pytest.mark.parametrize("method", ["metric_avg", "guided", "pps", "auto:goal=ranking"])
def test_metrics_may_have_any_name(method, metric):
    data = small()
    data = data.rename(scores={"m": metric}).with_score("other", data.scores["m"] ** 2)
    given: dict[str, Any] = {"metrics": [metric]} if method == "pps" else {} if "auto" in method else {"metric": metric}
    chosen = select(data, method, 5, **given)
    assert len(chosen) == 5
    assert summarise(chosen, data).items == 5


# -- the same again ------------------------------------------------------------------------------------------------


@EVERY
def test_same_seed_same_selection(name):
    first = chosen_by(name, seed=3)
    assert first == chosen_by(name, seed=3)
    assert first.signature == chosen_by(name, seed=3).signature


@pytest.mark.parametrize("name", ["random", *every_method(kinds=("design",)), "bruteforce", "incremental"])
def test_another_seed_another_selection(name):
    drawn = {tuple(chosen_by(name, seed=seed).ids) for seed in range(6)}
    assert len(drawn) > 1


@EVERY
def test_the_method_of_a_selection_reproduces_it(name):
    chosen = chosen_by(name, seed=5)
    again = select(UNRATED, chosen.method, 9, seed=5)
    assert again == chosen
    assert chosen.signature.startswith(f"aliquot:{aliquot.__version__}|select:{chosen.method}|budget:9|")
    assert chosen.signature.endswith(f"|seed:5|data:{UNRATED.fingerprint}")


@pytest.mark.parametrize(
    "options",
    [
        {"methods": ("metric_avg", "metric_var"), "metric": "metricA"},
        {"methods": ("(metric_avg:metric=metricA)", "(metric_cons:metric=metricB,rank=tau-b)"), "weights": (1, 2.5)},
        {"methods": ("metric_avg:metric=metricA", "metric_cons:metric=metricB,rank=tau-b")},
        {"methods": "(mixture:methods=(metric_avg:metric=metricA)|random)|(metric_var:metric=metricC)"},
    ],
)
def test_a_mixture_reproduces_itself(options):
    chosen = select(DATA, "mixture", 9, seed=1, **options)
    assert select(DATA, chosen.method, 9, seed=1) == chosen


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"include": [1]}, {"include": [2]}),
        ({"exclude_items": [1]}, {"exclude_items": [2]}),
        ({"crowd": ["sys1", "sys2"]}, {"crowd": ["sys1", "sys3"]}),
        ({"balance": "domain"}, {}),
        ({"unit": "document"}, {}),
        ({"seed": 1}, {"seed": 2}),
        ({"matching": False}, {}),
    ],
)
def test_different_ways_have_different_signatures(one, other):
    assert select(DATA, "segments", 9, **one).signature != select(DATA, "segments", 9, **other).signature


def test_different_texts_are_different_data():
    """What a method looks at must be in the fingerprint, or the signature does not say how to get it again."""
    assert DATA.outputs is not None
    changed = replace(DATA, outputs=DATA.outputs.with_columns(pl.col("sys1").str.reverse()))
    signatures = {chosen_by("diversity", data).signature for data in (DATA, changed)}
    assert len(signatures) == 2


@EVERY
def test_probabilities_are_in_range_and_only_designs_have_them(name):
    chosen = chosen_by(name)
    has_them = all_methods()[name].kind == "design" and name != "guided"
    assert (chosen.probability is not None) == has_them
    if chosen.probability is not None:
        assert ((chosen.probability > 0) & (chosen.probability <= 1)).all()
        assert chosen.weight is not None
        assert chosen.weight == pytest.approx(1 / chosen.probability)


@EVERY
def test_selections_survive_saving(name, tmp_path):
    chosen = chosen_by(name)
    chosen.save(tmp_path / "selection.jsonl", UNRATED)
    assert Selection.load(tmp_path / "selection.jsonl") == chosen


def test_the_data_are_not_changed():
    before = aliquot.synthetic(items=60, systems=5, seed=2)
    for name in every_method():
        quietly(DATA, name, 9, **runnable(name)) if name != "incremental" else chosen_by(name)
    assert before == DATA


# -- clusters ------------------------------------------------------------------------------------------------------


def texts(sources: list[str]) -> EvalSet:
    """Items whose outputs are their source with the system's name."""
    items = pl.DataFrame({"id": np.arange(len(sources)), "source": sources})
    outputs = pl.DataFrame({name: [f"{text} {name}" for text in sources] for name in ("A", "B")})
    return EvalSet(items=items, systems=("A", "B"), outputs=outputs)


DUPLICATES = {
    "all alike": ["a house"] * 12,
    "three texts": ["a house", "two dogs ran", "nobody knows why"] * 4,
    "empty": [""] * 6 + ["text"] * 6,
    "different": [f"{word} {word * 2}" for word in "abcdefghijkl"],
}


@pytest.mark.parametrize("kind", DUPLICATES)
@pytest.mark.parametrize("n", [1, 2, 5, 11, 12])
@pytest.mark.parametrize("spec", ["kmeans", "kmeans:features=outputs", "kmeans:weighted=yes", "diffuse"])
def test_clusters_give_exactly_the_budget(spec, n, kind):
    chosen = select(texts(DUPLICATES[kind]), spec, n, model="ngrams")
    assert len(set(chosen.ids)) == n
    if "weighted" in spec:
        assert chosen.weight is not None
        assert chosen.weight.sum() == pytest.approx(12)
        assert (chosen.weight > 0).all()


@pytest.mark.parametrize("spec", ["kmeans", "kmeans:features=outputs"])
def test_clusters_cover_the_topics(spec):
    topics = ["cat cats catty", "stock market bonds", "rain snow wind"]
    sources = [f"{topic} {topic} {at}" for topic in topics for at in range(5)]
    chosen = select(texts(sources), spec, 3, model="ngrams")
    assert {int(item) // 5 for item in chosen.ids} == {0, 1, 2}


def test_clusters_of_differences_cover_the_ways_to_differ():
    items = pl.DataFrame({"id": np.arange(12)})
    pairs = [("yes yes", "yes yes"), ("yes yes", "qqq zzz"), ("qqq zzz", "yes yes")]
    rows = [pair for pair in pairs for _ in range(4)]
    outputs = pl.DataFrame({"A": [a for a, _ in rows], "B": [b for _, b in rows]})
    chosen = select(EvalSet(items=items, systems=("A", "B"), outputs=outputs), "diffuse:model=ngrams", 3)
    assert {int(item) // 4 for item in chosen.ids} == {0, 1, 2}


@pytest.mark.parametrize("spec", ["kmeans:features=outputs", "diffuse"])
def test_items_without_outputs_are_reported(spec):
    data = texts(DUPLICATES["different"])
    assert data.outputs is not None
    holes = data.outputs.with_columns(pl.when(pl.int_range(pl.len()) > 1).then(pl.col("A")).alias("A"))
    with pytest.warns(AliquotWarning, match="2"):
        select(replace(data, outputs=holes), spec, 4, model="ngrams")


# -- searches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), [("bruteforce", {}), ("greedy", {"step": 3}), ("guided", {"draws": 200})])
def test_searches_beat_random_subsets_on_their_metric(name, options):
    scores = DATA.scores["metricB"]
    rng = np.random.default_rng(0)
    full = analytic_p(scores)
    by_chance = [spa(analytic_p(scores[rng.choice(60, 9, replace=False)]), full) for _ in range(500)]
    chosen = select(DATA, name, 9, metric="metricB", **options)
    rows = np.array([DATA.ids.index(item) for item in chosen.ids])
    found = spa(analytic_p(scores[rows]), full)
    assert found > np.quantile(by_chance, 0.97)
    assert chosen.details["metric_spa"] == pytest.approx(found)


def test_more_simulations_are_not_worse():
    accuracies = [
        select(DATA, "bruteforce", 9, metric="metricB", simulations=s).details["metric_spa"] for s in (1, 10, 1000)
    ]
    assert accuracies == sorted(accuracies)


@pytest.mark.parametrize("spec", ["bruteforce:simulations=0", "greedy:step=0", "greedy:simulations=-1"])
def test_a_search_without_tries_is_refused(spec):
    with pytest.raises(OptionError, match="at least 1"):
        select(DATA, spec, 9, metric="metricA")


# -- incremental ---------------------------------------------------------------------------------------------------

VARIANTS = pytest.mark.parametrize("variance", ["human", "metric"])


def rating(data: EvalSet, item: Any) -> dict[str, float]:
    return dict(zip(data.systems, data.human_score()[data.ids.index(item)].tolist(), strict=True))


@VARIANTS
@pytest.mark.parametrize("bins", ["document", "domain", "metric"])
def test_incremental_reaches_every_item_once(variance, bins):
    sampler = Incremental(DATA, bins=bins, variance=variance, seed=1)
    given_out = []
    for number in range(60):
        item = sampler.next()
        given_out.append(item)
        sampler.tell(item, rating(DATA, item))
        assert sampler.rated == number + 1
    assert sorted(map(str, given_out)) == sorted(map(str, DATA.ids))
    with pytest.raises(DataError, match="no next one"):
        sampler.next()


@VARIANTS
def test_incremental_does_not_wait_for_an_answer(variance):
    sampler = Incremental(DATA, variance=variance)
    assert len({sampler.next() for _ in range(20)}) == 20
    assert sampler.rated == 0


def test_incremental_follows_the_bin_that_varies():
    data = small(domain=["calm"] * 15 + ["wild"] * 15)
    sampler = Incremental(data, bins="domain", seed=2)
    rng = np.random.default_rng(0)
    drawn = Counter[str]()
    for _ in range(16):
        item = sampler.next()
        wild = int(item) >= 115
        drawn["wild" if wild else "calm"] += 1
        sampler.tell(item, {name: float(rng.normal() * (10.0 if wild else 0.01)) for name in data.systems})
    assert drawn["wild"] >= 11


def test_incremental_never_gives_what_it_was_told():
    sampler = Incremental(DATA, seed=3)
    told = DATA.ids[:40]
    for item in told:
        sampler.tell(item, rating(DATA, item))
    assert not {sampler.next() for _ in range(20)} & set(told)


def test_incremental_is_deterministic():
    def first(seed: int) -> list[Any]:
        sampler = Incremental(DATA, seed=seed)
        return [sampler.next() for _ in range(12)]

    assert first(1) == first(1) != first(2)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("nowhere", {"sys1": 1.0}), "no item 'nowhere'"),
        ((0, {"sys9": 1.0}), "no system 'sys9'"),
        ((0, {"sys1": float("nan")}), "is not a number"),
    ],
)
def test_incremental_checks_what_it_is_told(told, message):
    sampler = Incremental(DATA)
    with pytest.raises(AliquotError, match=message):
        sampler.tell(*told)
    assert sampler.rated == 0


def test_a_rating_that_is_refused_leaves_no_trace():
    sampler = Incremental(DATA)
    with pytest.raises(AliquotError):
        sampler.tell(0, {"sys1": 1.0, "sys9": 1.0})
    assert sampler.rated == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance": "metrics"}, "did you mean 'metric'"),
        ({"k": 0}, "at least 1 neighbour"),
        ({"bins": "topic"}, "no item column 'topic'"),
        ({"metrics": ("metricX",), "variance": "metric"}, "no score 'metricX'"),
    ],
)
def test_incremental_checks_its_options(options, message):
    with pytest.raises(AliquotError, match=message):
        Incremental(DATA, **options)


@VARIANTS
def test_incremental_as_a_method_goes_on_after_the_ratings_there_are(variance):
    human = DATA.scores["human"].copy()
    human[20:] = np.nan
    partly = DATA.with_score("human", human).with_human("human")
    chosen = select(partly, "incremental", 10, variance=variance)
    assert not set(chosen.ids) & set(DATA.ids[:20])
    assert len(chosen) == 10
    with pytest.raises(DataError, match="only 40 items are not rated yet, 41 are wanted"):
        select(partly, "incremental", 41, variance=variance)


# -- auto ----------------------------------------------------------------------------------------------------------


def bare(*, metrics: int = 0, systems: int = 5, keep: tuple[str, ...] = ()) -> EvalSet:
    """A part of the data: so many metrics and systems, and of documents, sources and outputs what is to be kept."""
    kept = UNRATED.keep(systems=UNRATED.systems[:systems])
    return replace(
        kept,
        items=kept.items.drop({"document", "source"} - set(keep)),
        scores={name: kept.scores[name] for name in kept.metrics[:metrics]},
        outputs=kept.outputs if "outputs" in keep else None,
    )


@pytest.mark.parametrize(
    ("has", "goal", "expected"),
    [
        ({"metrics": 3, "keep": ("document",)}, "means", "pps:"),
        ({"metrics": 1}, "means", "pps:"),
        ({"keep": ("document",)}, "means", "pps:"),
        ({"keep": ("source",)}, "means", "pps:"),
        ({"keep": ("outputs",)}, "means", "segments"),
        ({}, "means", "segments"),
        ({"metrics": 1}, "ranking", "pps:"),
        ({"metrics": 3}, "ranking", "pps:"),
        ({"keep": ("outputs",)}, "ranking", "segments"),
        ({"metrics": 3, "systems": 1}, "ranking", "pps:"),
        ({}, "ranking", "segments"),
    ],
)
def test_auto_chooses_by_what_there_is_and_says_why(has, goal, expected):
    data = bare(**has)
    chosen = select(data, f"auto:goal={goal}", 9)
    assert len(chosen) == 9
    assert chosen.method.startswith(expected)
    assert chosen.details["auto"].startswith(expected)
    assert any(note.startswith("auto chose") for note in summarise(chosen, data).notes)


def test_auto_is_the_default():
    assert select(DATA, budget=9).method.startswith("pps:")


@pytest.mark.parametrize("has", [{"metrics": 3}, {"metrics": 1}, {}])
@pytest.mark.parametrize("options", [{"unit": "document"}, {"balance": "domain"}, {"crowd": ["sys1", "sys2"]}])
def test_auto_works_with_every_constraint(has, options):
    assert len(select(bare(keep=("document",), **has), "auto", 12, **options)) > 0


def test_auto_takes_a_metric_where_it_can_use_one():
    assert "metricB" in select(DATA, "auto", 9, metric="metricB").method
    assert "metricB" in select(DATA, "auto:goal=ranking", 9, metric="metricB").method
    with pytest.raises(NameUnknownError, match="did you mean 'metricB'"):
        select(DATA, "auto", 9, metric="metricb")


# -- what is said about it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("metric_avg", "biased; use a design"),
        ("bruteforce", "biased; use a design"),
        ("guided", "biased; use a design"),
        ("segments", "known probability"),
        ("pps", "known probability"),
        ("random", "random order"),
        ("kmeans:weighted=yes", "stands for its cluster"),
        ("documents:max_length=6", "of the items had a probability above 0"),
    ],
)
def test_the_effect_is_said_in_words(method, words):
    name = parse_spec(method).name
    chosen = select(UNRATED, method, 9, **runnable(name))
    assert words in summarise(chosen, UNRATED).effect


def test_draws_for_each_system_do_not_judge_everything_though_every_item_is_named():
    chosen = select(DATA, "segments", 50, matching=False)
    assert chosen.systems is not None
    assert len(chosen) == 60
    assert any(len(names) < 5 for names in chosen.systems)
    assert "all items are chosen" not in summarise(chosen, DATA).effect


def test_shares_are_of_the_selection_and_of_the_set():
    data = small()
    summary = summarise(select(data, "random", 9, balance="domain"), data)
    assert {share.name for share in summary.domains} == {"tiny", "middle", "large"}
    assert [share.selected for share in summary.domains] == pytest.approx([1 / 3] * 3)
    assert sorted(share.full for share in summary.domains) == pytest.approx([3 / 30, 8 / 30, 19 / 30])
    assert [(share.name, share.full) for share in summary.document_lengths] == [("0-9", 1.0)]
