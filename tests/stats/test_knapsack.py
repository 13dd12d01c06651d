"""The knapsack is the best of all subsets on small cases, and honest about its gap on large ones."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import OptimizeResult

from aliquot.errors import OptionError
from aliquot.stats import subset_search as module
from aliquot.stats.arrays import FloatArray
from aliquot.stats.subset_search import knapsack


def best_of_all_subsets(utility: FloatArray, cost: FloatArray, budget: float) -> float:
    members = ((np.arange(2 ** len(cost))[:, None] >> np.arange(len(cost))) & 1).astype(np.float64)
    return float((members @ utility)[members @ cost <= budget * (1 + 1e-9)].max())


def random_case(kind: str, items: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Utilities and costs: unrelated, related in the ways that make knapsacks hard, and annotation times."""
    cost = rng.uniform(0.01, 1, items)
    if kind == "integer":
        return rng.integers(1, 50, items).astype(np.float64), rng.integers(1, 50, items).astype(np.float64)
    if kind == "tenths":
        return rng.random(items), np.round(rng.uniform(0.1, 0.9, items), 1)
    if kind == "strong":
        return cost + 0.1, cost
    if kind == "same":
        return cost.copy(), cost
    if kind == "seconds":
        return rng.normal(3, 0.6, items), 0.15 * np.rint(rng.uniform(3, 60, items)) + 33.7
    if kind == "near":  # ties of integers that are broken in the ninth digit
        return np.rint(rng.uniform(1, 5, items)) + 1e-8 * rng.random(items), np.rint(rng.uniform(1, 9, items))
    if kind == "minute":
        return 1e-9 * rng.random(items), 1e-9 * cost
    return rng.random(items), cost


KINDS = ["float", "integer", "tenths", "strong", "same", "seconds", "near", "minute"]


@pytest.mark.parametrize("kind", KINDS)
def test_equals_exhaustive_search(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(150):
        utility, cost = random_case(kind, int(rng.integers(1, 13)), rng)
        share = float(rng.random() * cost.sum())
        budget = round(share, 1) if kind == "tenths" else share
        found, best = knapsack(utility, cost, budget), best_of_all_subsets(utility, cost, budget)
        assert found.utility == pytest.approx(best, rel=1e-12)
        assert found.optimal
        assert found.cost <= budget * (1 + 1e-9)
        assert found.utility == pytest.approx(utility[found.chosen].sum())


@pytest.mark.parametrize("seed", range(40))
def test_exact_fills_are_found(seed: int) -> None:
    """The budget is the rounded sum of some items in another order, and those are worth the most."""
    rng = np.random.default_rng(seed)
    cost = rng.random(14)
    inside = np.sort(rng.permutation(14)[:6])
    utility = np.where(np.isin(np.arange(14), inside), cost * 1.001, cost)
    found = knapsack(utility, cost, float(sum(cost[rng.permutation(inside)])))
    assert found.chosen.tolist() == inside.tolist()


def test_tenths_fill_three_tenths() -> None:
    assert knapsack(np.ones(2), np.array([0.1, 0.2]), 0.3).chosen.tolist() == [0, 1]
    assert knapsack(np.ones(3), np.array([0.1, 0.2, 0.25]), 0.3).utility == 2
    assert knapsack(np.array([1.0, 1.0, 1.5]), np.array([0.1, 0.2, 0.3]), 0.3).chosen.tolist() == [0, 1]


def test_a_millionth_over_the_budget_is_over() -> None:
    found = knapsack(np.array([5.0, 5.0, 1.0]), np.array([0.5, 0.5 + 1e-6, 0.4]), 1.0)
    assert found.chosen.tolist() == [0, 2]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), items=st.integers(1, 9), share=st.floats(0, 1.2))
def test_best_whatever_the_numbers(data: st.DataObject, items: int, share: float) -> None:
    numbers = st.lists(st.integers(0, 20).map(float), min_size=items, max_size=items).map(np.array)
    utility, cost = data.draw(numbers), data.draw(numbers)
    budget = share * float(cost.sum())
    found, best = knapsack(utility, cost, budget), best_of_all_subsets(utility, cost, budget)
    assert found.utility == pytest.approx(best)
    assert found.cost <= budget * (1 + 1e-9)
    assert len(set(found.chosen.tolist())) == len(found.chosen)
    assert np.isin(np.flatnonzero(cost == 0), found.chosen).all()


def test_everything_fits() -> None:
    found = knapsack(np.array([0.0, 1.0]), np.array([2.0, 3.0]), 5.0)
    assert found.chosen.tolist() == [0, 1]
    assert (found.utility, found.cost, found.gap, found.optimal) == (1.0, 5.0, 0.0, True)


def test_no_budget_buys_what_is_free() -> None:
    assert knapsack(np.ones(3), np.array([1.0, 0.0, 2.0]), 0.0).chosen.tolist() == [1]
    assert knapsack(np.ones(2), np.ones(2), 0.0).chosen.tolist() == []
    assert knapsack(np.empty(0), np.empty(0), 1.0).chosen.tolist() == []


def test_too_dear_items_do_not_disturb() -> None:
    found = knapsack(np.array([100.0, 1.0, 2.0]), np.array([10.0, 1.0, 1.0]), 1.5)
    assert found.chosen.tolist() == [2]
    assert found.optimal
    assert knapsack(np.ones(2), np.array([5.0, 6.0]), 4.0).chosen.tolist() == []


def test_items_of_no_utility_are_not_paid_for() -> None:
    assert knapsack(np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 9.0]), 3.0).chosen.tolist() == [1]


@pytest.mark.parametrize("kind", ["float", "seconds", "same"])
def test_a_hundred_thousand_items(kind: str) -> None:
    utility, cost = random_case(kind, 100_000, np.random.default_rng(0))
    utility = np.maximum(utility, 0)
    found = knapsack(utility, cost, 0.3 * float(cost.sum()), time_limit=100.0)  # 1 on an idle machine
    assert found.gap <= 1e-4
    assert math.fsum(cost[found.chosen]) <= 0.3 * cost.sum() * (1 + 1e-9)


def test_the_time_limit_holds_and_the_answer_stays_good(monkeypatch: pytest.MonkeyPatch) -> None:
    utility, cost = random_case("strong", 100_000, np.random.default_rng(0))
    seconds = iter(np.arange(1000) * 0.4)  # a clock of which a step is one look at it
    monkeypatch.setattr(module, "monotonic", lambda: next(seconds))
    assert knapsack(utility, cost, 0.3 * float(cost.sum()), time_limit=1.0).gap <= 1e-3
    assert next(seconds) < 5
    assert knapsack(utility, cost, 0.3 * float(cost.sum()), time_limit=0.0).gap <= 1e-3


def test_the_bound_of_a_stopped_search_is_still_a_bound() -> None:
    for seed in range(20):
        utility, cost = random_case("float", 12, np.random.default_rng(seed))
        budget = 0.4 * float(cost.sum())
        found, best = knapsack(utility, cost, budget, time_limit=0.0), best_of_all_subsets(utility, cost, budget)
        assert found.utility <= best * (1 + 1e-12)
        assert found.utility / (1 - found.gap) >= best * (1 - 1e-12)


@pytest.mark.parametrize("dual_bound", [None, -(2.0**20)])
def test_the_bound_of_a_solver_without_solution_is_still_a_bound(
    dual_bound: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_run_highs", lambda *_: OptimizeResult(x=None, mip_dual_bound=dual_bound))
    worse = 0
    for seed in range(30):
        utility, cost = random_case("float", 12, np.random.default_rng(seed))
        budget = 0.4 * float(cost.sum())
        found, best = knapsack(utility, cost, budget), best_of_all_subsets(utility, cost, budget)
        assert found.utility / (1 - found.gap) >= best * (1 - 1e-12)
        worse += found.utility < best
    assert worse


def test_costs_at_the_edge_of_the_tolerance() -> None:
    edge = np.array([1 + 8e-10, 1 + 8e-10])
    assert knapsack(np.array([1.0, 2.0]), edge, 1.0).chosen.tolist() == [1]
    third = np.full(3, 1 / 3)
    assert knapsack(np.ones(4), np.append(third, 0.2), 1.0).utility == 3


def test_a_solution_over_the_budget_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS may return one within its tolerance; here it returns everything, twice."""
    genuine, calls = module._run_highs, []

    def careless(*arguments: Any) -> OptimizeResult:
        outcome = genuine(*arguments)
        calls.append(len(arguments[3]))
        if len(calls) <= 2:
            outcome.x = np.ones(len(arguments[0]))
        return outcome

    monkeypatch.setattr(module, "_run_highs", careless)
    utility, cost = random_case("same", 10, np.random.default_rng(0))
    budget = 0.4 * float(cost.sum())
    assert knapsack(utility, cost, budget).utility == pytest.approx(best_of_all_subsets(utility, cost, budget))
    assert calls == [0, 1, 2]


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--json` promises one document on standard output, whatever a C library thinks of that."""

    def chatty(**_: Any) -> OptimizeResult:
        ctypes.CDLL(None).puts(b"tmpSolver.run();")
        return OptimizeResult(x=np.zeros(2), mip_dual_bound=-1.0)

    monkeypatch.setattr("scipy.optimize.milp", chatty)
    print("before")  # noqa: T201
    module._run_highs(np.ones(2), np.ones(2), 1.0, [], 1.0, 0.0)
    print("after")  # noqa: T201
    assert capfd.readouterr().out == "before\nafter\n"


@pytest.mark.parametrize(
    ("utility", "cost", "budget", "message"),
    [
        ([1.0, -0.5], [1.0, 1.0], 1.0, r"`utility`\[1\] is -0.5"),
        ([1.0, np.nan], [1.0, 1.0], 1.0, r"`utility`\[1\] is nan"),
        ([1.0, 1.0], [-1.0, 1.0], 1.0, r"`cost`\[0\] is -1"),
        ([1.0, 1.0], [np.inf, 1.0], 1.0, r"`cost`\[0\] is inf"),
        ([1.0], [1.0, 1.0], 1.0, "`utility` has shape"),
        ([1.0], [1.0], -1.0, "`budget` is -1"),
        ([1.0], [1.0], math.nan, "`budget` is nan"),
    ],
)
def test_bad_arguments(utility: list[float], cost: list[float], budget: float, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        knapsack(np.array(utility), np.array(cost), budget)
