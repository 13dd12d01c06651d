"""Designs through select: groups, documents as units, fixed items, costs, and draws for each system."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from tests.sampling.conftest import BUDGET, EXACT, N, assert_within_four_errors, documents_of, interleaved

from aliquot import Selection
from aliquot.core.evalset import ItemId
from aliquot.errors import DataError, OptionError
from aliquot.sampling.select import select


def frequencies(draw: Callable[[int], Selection], draws: int) -> tuple[dict[ItemId, float], dict[ItemId, float]]:
    """How often each item was drawn, and the probability recorded with it (always the same)."""
    counts: Counter[ItemId] = Counter()
    pi: dict[ItemId, float] = {}
    for seed in range(draws):
        chosen = draw(seed)
        assert chosen.probability is not None
        counts.update(chosen.ids)
        for item, probability in zip(chosen.ids, chosen.probability.tolist(), strict=True):
            assert pi.setdefault(item, probability) == pytest.approx(probability)
    return {item: count / draws for item, count in counts.items()}, pi


def assert_as_recorded(draw: Callable[[int], Selection], draws: int) -> dict[ItemId, float]:
    seen, pi = frequencies(draw, draws)
    items = list(pi)
    assert_within_four_errors(np.array([seen[i] * draws for i in items]), np.array([pi[i] for i in items]), draws)
    return pi


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("segments", {"balance": "domain"}),
        ("pps", {"balance": "domain"}),
        ("snippets_budgeted", {"balance": "domain"}),
        ("segments", {"unit": "document"}),
        ("pps", {"unit": "document"}),
        ("segments", {"include": ["i3", "i9"], "exclude_items": ["i0"]}),
        ("pps", {"include": ["i3", "i9"], "exclude_items": ["i0"]}),
        ("pps", {"cost": "cost"}),
    ],
)
@pytest.mark.usefixtures("remembered")
def test_constraints_keep_the_probabilities_exact(spec, options):
    evalset = interleaved()
    draws = 1500 if spec == "segments" else 600
    budget = f"{BUDGET}cost" if "cost" in options else BUDGET
    pi = assert_as_recorded(lambda seed: select(evalset, spec, budget, seed=seed, **options), draws)
    assert all(0 < probability <= 1 for probability in pi.values())
    for item in options.get("include", ()):
        assert pi[item] == 1.0
    assert not set(options.get("exclude_items", ())) & pi.keys()


@pytest.mark.parametrize("spec", ["segments", "pps", "stratified", "balanced"])
def test_groups_get_equal_shares(spec):
    evalset = interleaved()
    domain = dict(zip(evalset.ids, evalset.items["domain"], strict=True))
    for seed in range(20):
        chosen = select(evalset, spec, 8, balance="domain", seed=seed)
        assert Counter(domain[item] for item in chosen.ids) == {"news": 4, "talk": 4}
        assert chosen.stratum is not None


def test_a_group_that_gets_nothing_is_not_passed_over_in_silence():
    """With fewer items than groups some items have no chance; the selection must not claim otherwise."""
    evalset = interleaved(items=interleaved().items.with_columns(pl.col("document").alias("six")))
    chosen = [select(evalset, "segments", 4, balance="six", seed=seed) for seed in range(40)]
    drawn_from = {str(item) for selection in chosen for item in selection.ids}
    told = [selection.design.coverage < 1.0 for selection in chosen]
    assert all(told) or len(drawn_from) == N


def test_bins_left_empty_in_any_group_are_told():
    """The items without a chance are counted over all groups, not only in the first."""
    evalset = interleaved()
    for names in (["news", "talk"], ["talk", "news"]):
        swapped = evalset.items.with_columns(pl.col("domain").replace(["news", "talk"], names)).sort("domain")
        rows = [evalset.ids.index(item) for item in swapped["id"]]
        scores = {name: values[rows] for name, values in evalset.scores.items()}
        chosen = select(interleaved(items=swapped, scores=scores), "stratified:rounding=nearest", 8, balance="domain")
        assert chosen.design.coverage < 1.0


def test_balance_splits_an_amount_of_cost_equally_too():
    evalset = interleaved()
    domain = dict(zip(evalset.ids, evalset.items["domain"], strict=True))
    spent: dict[str, float] = defaultdict(float)
    for seed in range(200):
        chosen = select(evalset, "pps", "20cost", cost="cost", balance="domain", seed=seed)
        assert chosen.cost is not None
        for item, cost in zip(chosen.ids, chosen.cost.tolist(), strict=True):
            spent[domain[item]] += cost / 200
    assert spent["news"] == pytest.approx(10.0, rel=0.05)
    assert spent["talk"] == pytest.approx(10.0, rel=0.05)


@pytest.mark.parametrize("spec", ["segments", "pps", "balanced", "stratified:bins=domain"])
def test_whole_documents_are_drawn_as_units(spec):
    evalset = interleaved()
    codes = documents_of(evalset)
    at = {item: row for row, item in enumerate(evalset.ids)}
    for seed in range(30):
        chosen = select(evalset, spec, 10, unit="document", seed=seed)
        rows = [at[item] for item in chosen.ids]
        assert len(rows) == np.isin(codes, codes[rows]).sum()
        assert chosen.design.variance == "clustered"


def test_documents_as_units_and_equal_groups_do_not_ignore_each_other():
    evalset = interleaved()
    domain = dict(zip(evalset.ids, evalset.items["domain"], strict=True))
    counts: Counter[str] = Counter()
    try:
        for seed in range(300):
            chosen = select(evalset, "segments", 12, unit="document", balance="domain", seed=seed)
            counts.update(domain[item] for item in chosen.ids)
    except OptionError:
        return
    assert counts["news"] / counts["talk"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("spec", ["documents", "snippets_fixed", "snippets_budgeted", "stratified"])
def test_a_design_on_documents_cannot_have_documents_as_units(spec):
    with pytest.raises((DataError, OptionError), match="unit"):
        select(interleaved(), spec, 10, unit="document")


@pytest.mark.parametrize(
    "spec",
    [
        "segments",
        "documents",
        "snippets_fixed:length=3",
        "snippets_budgeted",
        "stratified:bins=domain",
        "stratified:bins=domain,allocation=optimal",
        "pps",
        "pps:size=cost,tau=0",
        "balanced",
        "balanced:size=cost,tau=0",
    ],
)
@pytest.mark.usefixtures("remembered")
def test_a_budget_of_cost_holds_in_expectation(spec):
    evalset = interleaved()
    costs = []
    for seed in range(120):
        chosen = select(evalset, spec, "20cost", cost="cost", seed=seed)
        assert chosen.cost is not None
        costs.append(float(chosen.cost.sum()))
    error = np.std(costs) / np.sqrt(len(costs))
    assert np.mean(costs) <= 20.0 + 3 * error
    assert np.mean(costs) >= 0.8 * 20.0


@pytest.mark.parametrize("spec", ["segments", "snippets_budgeted", "documents", "pps", "stratified", "balanced"])
def test_each_system_has_its_own_draw(spec):
    evalset = interleaved()
    of_system: dict[str, list[Counter[str]]] = {name: [] for name in evalset.systems}
    chosen = select(evalset, spec, BUDGET, matching=False, seed=1)
    assert chosen.systems is not None
    assert chosen.probability is not None
    for item, names in zip(chosen.ids, chosen.systems, strict=True):
        assert names == tuple(name for name in evalset.systems if name in names)
        for name in names:
            of_system[name].append(Counter({str(item): 1}))
    if spec.startswith(EXACT):
        assert {name: len(items) for name, items in of_system.items()} == dict.fromkeys(evalset.systems, BUDGET)
    assert len({tuple(sorted(map(str, items))) for items in of_system.values()}) == len(evalset.systems)


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize("spec", ["segments", "pps"])
def test_frequencies_hold_for_each_system_of_a_non_matching_design(spec):
    evalset, draws = interleaved(), 1500
    counts = {name: Counter[ItemId]() for name in evalset.systems}
    pi: dict[ItemId, float] = {}
    for seed in range(draws):
        chosen = select(evalset, spec, BUDGET, matching=False, seed=seed)
        assert chosen.systems is not None
        assert chosen.probability is not None
        pi.update(zip(chosen.ids, chosen.probability.tolist(), strict=True))
        for item, names in zip(chosen.ids, chosen.systems, strict=True):
            for name in names:
                counts[name][item] += 1
    assert len(pi) == N
    for of_one in counts.values():
        assert_within_four_errors(np.array([of_one[item] for item in pi]), np.array([pi[item] for item in pi]), draws)


def test_items_included_are_judged_for_all_systems():
    chosen = select(interleaved(), "segments", 3, matching=False, include=["i5"])
    assert chosen.systems is not None
    assert chosen.ids[0] == "i5"
    assert chosen.systems[0] == ("A", "B", "C")


def test_coverage_is_told_for_non_matching_draws_too():
    for matching in (True, False):
        chosen = select(interleaved(), "documents:max_length=5", 5, matching=matching)
        assert chosen.design.coverage == pytest.approx(11 / 24)


@pytest.mark.parametrize("options", [{"unit": "document"}, {"balance": "domain"}])
def test_non_matching_draws_have_limits_that_are_said(options):
    with pytest.raises(OptionError, match="non-matching"):
        select(interleaved(), "segments", BUDGET, matching=False, **options)
