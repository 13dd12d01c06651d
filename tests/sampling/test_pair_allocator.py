"""Adaptive campaigns of pairwise choices: the log decides what is next, policies are as published, decisions hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binom, norm

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError, NameUnknownError, OptionError
from aliquot.sampling.pair_allocator import PairAllocator, PairAsk, PairQuestion
from aliquot.sampling.pair_decisions import PairDecisions
from aliquot.sampling.pair_policies import (
    PAIR_POLICIES,
    PairPolicyState,
    choose_opponent,
    empirical_divergence,
    expected_gain,
    fit_strengths,
    pair_index,
)
from aliquot.stats.arrays import FloatArray
from aliquot.stats.bradley_terry import strength_posterior

NAMES = ["A", "B", "C", "D"]


def world(strength: Sequence[float], seed: int = 0, ties: float = 0.0) -> Callable[[PairAsk], Any]:
    """Answers of people who choose by Bradley-Terry strengths, a share of them undecided."""
    rng, at = np.random.default_rng(seed), {name: i for i, name in enumerate(NAMES)}

    def answer(ask: PairAsk) -> Any:
        draw, tie = rng.random(2)
        gap = strength[at[ask.a]] - strength[at[ask.b]]
        winner = ask.a if draw < 1 / (1 + np.exp(-gap)) else ask.b
        return (ask.item, ask.a, ask.b, None if tie < ties else winner)

    return answer


def allocator_after(
    steps: int, policy: str = "auto", question: str = "top", batch: int = 3, seed: int = 1, items: int = 50
) -> PairAllocator:
    allocator, answer = (
        PairAllocator(NAMES, cast("PairQuestion", question), policy=policy, items=range(items), seed=seed),
        world([1, 0.5, 0, -1], 2, 0.2),
    )
    for _ in range(steps):
        allocator.add([answer(ask) for ask in allocator.next(batch)])
    return allocator


# -- asking ------------------------------------------------------------------------------------------------------------


def test_the_public_name():
    assert aliquot.PairAllocator is PairAllocator


def test_uniform_gives_every_pair_the_same():
    allocator = PairAllocator(NAMES, policy="uniform", items=range(20), seed=4)
    assert all(ask.probability == 1.0 for ask in allocator.next(18))
    assert set(allocator.counts.values()) == {3}


@settings(max_examples=25, deadline=None)
@given(
    policy=st.sampled_from(sorted(PAIR_POLICIES)),
    question=st.sampled_from(["top", "best", "ranking"]),
    seed=st.integers(0, 1000),
    batches=st.lists(st.integers(1, 7), min_size=1, max_size=12),
    data=st.data(),
)
def test_no_item_is_given_to_a_pair_twice_and_the_log_decides(policy, question, seed, batches, data):
    allocator, answer = (
        PairAllocator(NAMES, question, policy=policy, items=range(8), seed=seed),
        world([1, 0.5, 0, -1], seed, 0.3),
    )
    asked = []
    for size in batches:
        asks = allocator.next(size)
        asked += asks
        kept = data.draw(st.lists(st.sampled_from(asks), unique=True)) if asks else []  # late, in part, in any order
        allocator.add([answer(ask) for ask in kept])
    seen = [(ask.item, frozenset((ask.a, ask.b))) for ask in asked]
    assert len(set(seen)) == len(seen) == min(sum(batches), 48)
    assert all(0 < ask.probability <= 1 for ask in asked)
    again = PairAllocator.restore(NAMES, json.loads(json.dumps(allocator.state())), items=range(8))
    assert repr(again.ranking()) == repr(allocator.ranking())  # NaN is not equal to itself
    assert again.advice() == allocator.advice()
    assert again.next(5) == allocator.next(5)
    assert again.state() == allocator.state()


@pytest.mark.parametrize("policy", sorted(PAIR_POLICIES))
def test_restored_at_any_event_it_goes_on_alike(policy):
    whole = allocator_after(12, policy)
    log = whole.state()["log"]
    for cut in range(0, len(log), 7):
        state = {**whole.state(), "log": log[:cut]}
        one, other = (PairAllocator.restore(NAMES, state, items=range(50)) for _ in range(2))
        assert one.next(4) == other.next(4)
    # A restored one asks what the first asked, where the log is cut before a batch.
    before = [at for at, event in enumerate(log) if event["event"] == "ask" and at and log[at - 1]["event"] == "choice"]
    for cut in before:
        asks = PairAllocator.restore(NAMES, {**whole.state(), "log": log[:cut]}, items=range(50)).next(3)
        assert [(ask.item, ask.a, ask.b) for ask in asks] == [(e["item"], e["a"], e["b"]) for e in log[cut : cut + 3]]


def test_both_orders_are_shown_and_items_spread_over_pairs():
    allocator = PairAllocator(["A", "B", "C"], policy="uniform", items=range(600), seed=3)
    asks = allocator.next(600)
    first = np.mean([ask.a < ask.b for ask in asks])
    assert abs(first - 0.5) < 4 * 0.5 / np.sqrt(600)
    assert len({ask.item for ask in asks}) == 600  # three pairs of 200 items begin a third of the order apart


def test_every_order_of_items_is_equally_probable():
    starts = [
        PairAllocator(["A", "B", "C"], policy="uniform", items=range(4), seed=seed).next(1)[0].item
        for seed in range(800)
    ]
    assert np.bincount(starts).min() > 200 - 4 * np.sqrt(150)


def test_outputs_that_are_missing_are_never_asked():
    data = EvalSet(
        pl.DataFrame({"id": range(6)}),
        ("A", "B", "C"),
        {},
        pl.DataFrame({"A": ["x"] * 6, "B": ["x"] * 6, "C": ["x", None] * 3}),
    )
    allocator = PairAllocator(data, policy="uniform")
    asks = allocator.next(100)
    assert allocator.counts == {("A", "B"): 6, ("A", "C"): 3, ("B", "C"): 3}
    assert all(ask.item % 2 == 0 for ask in asks if "C" in (ask.a, ask.b))
    with pytest.raises(DataError, match="item 1: 'A' or 'C' has no output"):
        allocator.add([(1, "A", "C", "A")])


def test_a_system_without_outputs_is_no_candidate():
    data = aliquot.synthetic(items=20, systems=3, seed=2)
    assert data.outputs is not None
    silent = replace(data, outputs=data.outputs.with_columns(pl.lit(None, dtype=pl.String).alias("sys2")))
    with pytest.warns(aliquot.AliquotWarning, match="left out: 'sys2'"):
        allocator = PairAllocator(silent, "best", seed=1)
    assert set(allocator.counts) == {("sys1", "sys3")}
    assert set(allocator.advice().beaten) == {"sys1", "sys3"}


def test_budgets():
    assert len(PairAllocator(NAMES, items=range(50), budget=7).next(100)) == 7
    assert len(PairAllocator(NAMES, items=range(50), budget="10%").next(100)) == 30
    allocator = PairAllocator(NAMES, items=range(50), budget=2)
    allocator.next(2)
    assert allocator.advice().text == "stop: the budget of 2 choices is spent; 4 of 4 systems may be the best"
    with pytest.raises(OptionError, match="give choices"):
        PairAllocator(NAMES, items=range(50), budget="5hours")


# -- answers -----------------------------------------------------------------------------------------------------------


def test_choices_in_any_order_give_the_same_ranking():
    one, other = (PairAllocator(NAMES, items=range(50), seed=5) for _ in range(2))
    answer = world([1, 0, 0, -1], 3, 0.2)
    choices = [answer(ask) for ask in one.next(40)]
    other.next(40)
    one.add(choices)
    for choice in reversed(choices):
        other.add([choice])
    assert [r.system for r in one.ranking()] == [r.system for r in other.ranking()]
    assert one.advice().comparisons == other.advice().comparisons == 40
    assert not one.pending


def test_the_same_choice_counts_once_and_another_is_refused():
    allocator = PairAllocator(NAMES, items=["x", "y"])
    allocator.add([("x", "A", "B", "A"), ("x", "B", "A", "A")])
    assert allocator.advice().comparisons == 1
    with pytest.raises(DataError, match="item 'x', 'B' and 'A': two choices without an annotator, 'A' and a tie"):
        allocator.add([("y", "A", "B", "A"), ("x", "B", "A", None)])
    assert allocator.advice().comparisons == 1  # nothing of the call was taken
    allocator.add([("x", "A", "B", "B", "ann")])  # somebody else: half a win for each
    ranked = {each.system: each for each in allocator.ranking()}
    assert ranked["A"].win_rate == ranked["B"].win_rate == 0.5
    assert ranked["A"].n == 1
    assert np.isnan(ranked["C"].win_rate)


@pytest.mark.parametrize(
    ("choice", "error", "says"),
    [
        (("x", "A", "Z", "A"), NameUnknownError, "unknown system 'Z'"),
        (("z", "A", "B", "A"), DataError, "the item 'z' is not in the data"),
        (("x", "A", "A", "A"), DataError, "'A' is compared with itself"),
        (("x", "A", "B", "C"), DataError, "the winner 'C' is neither 'A' nor 'B'"),
        (("x", "A", "B", "tie"), DataError, "or None for a tie"),
        (("x", "A", "B"), DataError, "is no choice"),
    ],
)
def test_what_is_no_choice_is_refused(choice, error, says):
    with pytest.raises(error, match=says):
        PairAllocator(NAMES, items=["x", "y"]).add([choice])


def test_choices_never_asked_wait_for_their_item():
    allocator = PairAllocator(["A", "B"], "best", policy="uniform", items=range(40), seed=2)
    order = [ask.item for ask in PairAllocator(["A", "B"], policy="uniform", items=range(40), seed=2).next(40)]
    allocator.add([(item, "A", "B", "A") for item in order[1:30]])
    assert all(event["unasked"] for event in allocator.state()["log"])
    assert allocator.ranking()[0].system == "A"
    assert allocator.advice().winner is None  # nothing is decided by items that the user chose
    assert [ask.item for ask in allocator.next(1)] == order[:1]
    assert allocator.advice().winner == "A"  # now the order has reached all of them
    assert [ask.item for ask in allocator.next(2)] == order[30:32]


def test_the_table_is_what_compare_reads():
    allocator = allocator_after(20)
    with pytest.raises(DataError, match="nothing is chosen yet"):
        _ = PairAllocator(NAMES, items=[1]).choices
    found = aliquot.compare(allocator.choices, "pairwise")
    ranked = {each.system: each for each in allocator.ranking()}
    for row in found.systems:
        assert row.win_rate == pytest.approx(ranked[row.system].win_rate)
        assert row.n == ranked[row.system].n


def test_wrong_options_and_logs_are_refused():
    with pytest.raises(NameUnknownError, match="`question` is 'means'"):
        PairAllocator(NAMES, cast("PairQuestion", "means"), items=range(3))
    with pytest.raises(NameUnknownError, match="did you mean 'dueling'"):
        PairAllocator(NAMES, policy="duelling", items=range(3))
    with pytest.raises(NameUnknownError, match="no parameter 'flor'"):
        PairAllocator(NAMES, policy="auto:flor=1", items=range(3))
    with pytest.raises(OptionError, match="floor=2"):
        PairAllocator(NAMES, policy="auto:floor=2,first=0", items=range(3)).next(1)
    with pytest.raises(OptionError, match="ids of the items"):
        PairAllocator(NAMES)
    with pytest.raises(DataError, match="1 system"):
        PairAllocator(["A"], items=range(3))
    with pytest.raises(DataError, match="named twice"):
        PairAllocator(["A", "A"], items=range(3))
    with pytest.raises(OptionError, match="alpha is 0"):
        PairAllocator(NAMES, items=range(3), alpha=0)
    with pytest.raises(OptionError, match="at least 1"):
        PairAllocator(NAMES, items=range(3)).next(0)
    state = allocator_after(2).state()
    with pytest.raises(DataError, match="other data"):
        PairAllocator.restore(NAMES, state, items=range(51))
    with pytest.raises(DataError, match="no state"):
        PairAllocator.restore(NAMES, {}, items=range(50))
    with pytest.raises(DataError, match="not their next one"):
        PairAllocator.restore(NAMES, {**state, "log": [state["log"][0], state["log"][0]]}, items=range(50))


# -- policies ----------------------------------------------------------------------------------------------------------


def rmed1(outcome: Callable[[int, int, int], float], start: Any, systems: int, steps: int) -> list[tuple[int, int]]:
    """Algorithm 1 of Komiyama et al. (2015) with L = 1, as printed; comparisons with oneself are skipped."""
    value, number, made = np.zeros((systems, systems)), np.zeros((systems, systems)), []

    def draw(i: int, j: int) -> None:
        made.append((min(i, j), max(i, j)))
        x = outcome(i, j, len(made))
        value[i, j] += x
        value[j, i] += 1 - x
        number[i, j] += 1
        number[j, i] += 1

    def evidence(i: int) -> float:
        total = 0.0
        for j in range(systems):
            mu = value[i, j] / number[i, j] if j != i else 1.0
            if j != i and mu <= 0.5:
                total += number[i, j] * sum(p * np.log(2 * p) for p in (mu, 1 - mu) if p > 0)
        return total

    for pair in start:
        draw(*pair)
    current, left, following = list(range(systems)), set(range(systems)), []
    while len(made) < steps:
        before = len(made)
        for lead in current:
            scores = [evidence(i) for i in range(systems)]
            best = int(np.argmin(scores))
            losing = [j for j in range(systems) if j != lead and value[lead, j] / number[lead, j] <= 0.5]
            if best in losing or not losing:
                rival = best
            else:
                rival = min((j for j in range(systems) if j != lead), key=lambda j: value[lead, j] / number[lead, j])
            if rival != lead:
                draw(lead, rival)
            left.discard(lead)
            scores = [evidence(i) for i in range(systems)]
            for j in range(systems):
                close = scores[j] - min(scores) <= np.log(len(made)) + 0.3 * systems**1.01
                if j not in left and j not in following and close:
                    following.append(j)
        if len(made) == before:  # the best met itself; log t grows until the next system by evidence is a candidate
            following = [int(np.argsort(scores)[1])]
        current, following = sorted(following), []
        left = set(current)
    return made[:steps]


def test_pair_allocator_is_the_published_algorithm():
    systems = [f"s{i}" for i in range(6)]
    chance = 1 / (1 + np.exp(np.subtract.outer(np.arange(6), np.arange(6)) * 0.5))
    draws = np.random.default_rng(8).random(2000)

    def outcome(i: int, j: int, step: int) -> float:
        low, high = min(i, j), max(i, j)
        won = draws[step] < chance[low, high]
        return float(won if i == low else not won)

    allocator, made = PairAllocator(systems, policy="dueling", items=range(5000), seed=3), []
    for step in range(1, 701):
        [ask] = allocator.next(1)
        one, other = int(ask.a[1]), int(ask.b[1])
        made.append((min(one, other), max(one, other)))
        allocator.add([(ask.item, ask.a, ask.b, ask.a if outcome(one, other, step) else ask.b)])
    start = made[:15]  # every pair once, in any order
    assert sorted(start) == list(zip(*(each.tolist() for each in np.triu_indices(6, 1)), strict=True))
    assert made == rmed1(outcome, start, 6, 700)
    assert len(set(made[400:])) < 15  # it has turned to candidates


def test_divergence_and_target_by_hand():
    value = np.array([[0, 3, 2], [1, 0, 4], [2, 0, 0.0]])
    number = value + value.T
    share, evidence = empirical_divergence(value, number)
    quarter = 0.25 * np.log(0.5) + 0.75 * np.log(1.5)
    assert evidence == pytest.approx([0.0, 4 * quarter, 4 * np.log(2)])
    # The first ties with the third: it loses to that one or none, and is itself the best, so it meets it.
    assert [choose_opponent(lead, share, evidence) for lead in range(3)] == [2, 0, 0]


def test_rucb_meets_the_strongest_rival_of_a_champion():
    value = np.array([[0, 90, 90], [10, 0, 60], [10, 40, 0.0]])
    state = state_of(value)
    chosen = PAIR_POLICIES["rucb"].probabilities(state, {})
    # Only the first may be the best; u_20 = u_10 = 0.1 + width, so that both rivals are alike.
    assert chosen.tolist() == [0.5, 0.5, 0.0]
    assert state.memory == {"last": 0}


def state_of(value: FloatArray, question: str = "top") -> PairPolicyState:
    number = value + value.T
    first, second = np.triu_indices(len(value), 1)
    counts = number[first, second].astype(int)
    population = np.full(len(first), 1000)
    decisions = PairDecisions(tuple("abcdefgh"[: len(value)]), population, question, 0.05)
    draws = np.random.default_rng(1).standard_normal((200, len(value)))
    return PairPolicyState(
        counts, population, value, number, 0.0, question, decisions, np.arange(len(first)), draws, {}, {}
    )


def test_strengths_are_the_mode_of_the_posterior():
    rng = np.random.default_rng(3)
    value = rng.integers(0, 6, (4, 4)).astype(np.float64) * (1 - np.eye(4))
    number = value + value.T

    def loss(s: FloatArray) -> float:
        gap = s[:, None] - s[None, :]
        return float((value * np.log1p(np.exp(-gap))).sum() / 0.8 + (s**2).sum() / (2 * 0.7**2))

    fit = minimize(loss, np.zeros(4), tol=1e-12)
    found = strength_posterior(value, number, spread=0.7, dispersion=0.8)
    assert found.mean == pytest.approx(fit.x, abs=1e-5)
    step, unit = 1e-4, np.eye(4)
    hessian = [
        [
            (
                loss(fit.x + step * (a + b))
                - loss(fit.x + step * (a - b))
                - loss(fit.x - step * (a - b))
                + loss(fit.x - step * (a + b))
            )
            / (4 * step**2)
            for b in unit
        ]
        for a in unit
    ]
    assert np.linalg.inv(found.covariance) == pytest.approx(np.array(hessian), abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=9, max_size=9))
def test_strengths_exist_for_any_choices(counts):
    value = np.array(counts, dtype=float).reshape(3, 3) * (1 - np.eye(3))
    found = strength_posterior(value, value + value.T)
    assert np.isfinite(found.mean).all()
    assert found.mean.sum() == pytest.approx(0.0, abs=1e-7)
    assert np.linalg.eigvalsh(found.covariance).min() > 0
    swapped = strength_posterior(value.T, value + value.T)
    assert swapped.mean == pytest.approx(-found.mean, abs=1e-7)


@pytest.mark.parametrize("question", ["top", "best", "ranking"])
def test_the_gain_is_the_derivative_of_the_loss(question):
    value = np.array([[0, 5, 7, 6], [3, 0, 4, 7], [2, 5, 0, 5], [1, 2, 3, 0.0]])
    state = state_of(value, question)
    posterior = state.posterior
    gain = expected_gain(state, posterior)
    first, second = state.pairs

    def loss(extra: FloatArray) -> float:
        weights = (value + value.T + extra + extra.T) * posterior.information
        covariance = np.linalg.inv(np.diag(weights.sum(axis=1) + 4.0) - weights)
        spread = np.diag(covariance)
        sd = np.sqrt(spread[first] + spread[second] - 2 * covariance[first, second])
        return float((state.batch["weight"] * norm.cdf(-state.batch["gap"] / sd).mean(axis=0)).sum())

    for pair, (a, b) in enumerate(zip(first, second, strict=True)):
        extra = np.zeros((4, 4))
        extra[a, b] = 1e-5
        slope = (loss(np.zeros((4, 4))) - loss(extra)) / 1e-5
        square = posterior.covariance[a, a] + posterior.covariance[b, b] - 2 * posterior.covariance[a, b]
        whole = slope / (1 + posterior.information[a, b] * square)
        assert gain[pair] / (2 * np.sqrt(2 * np.pi)) == pytest.approx(whole, rel=1e-3)


def test_auto_compares_good_systems_more_often():
    allocator, answer = PairAllocator(NAMES, "top", items=range(500), seed=1), world([0.8, 0.6, -0.6, -0.8], 5)
    for _ in range(30):
        allocator.add([answer(ask) for ask in allocator.next(10)])
    counts = allocator.counts
    assert counts["A", "B"] > 2 * counts["C", "D"]
    assert min(counts.values()) > 0


def test_auto_spreads_what_it_asks_before_answers_come():
    allocator = PairAllocator(NAMES, "ranking", policy="auto:floor=0,decide=0", items=range(500), seed=1)
    allocator.next(60)
    assert min(allocator.counts.values()) >= 8


def test_pairs_are_numbered_as_numpy_does():
    assert [pair_index(int(b), int(a), 7) for a, b in zip(*np.triu_indices(7, 1), strict=True)] == list(range(21))


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_a_winner_is_named_where_other_annotators_would_choose_it_too():
    allocator = PairAllocator(["A", "B"], "best", policy="uniform", items=range(30))
    asks = allocator.next(40)
    assert len(asks) == 30
    allocator.add([(ask.item, "A", "B", "A" if i < 27 else "B") for i, ask in enumerate(asks)])
    advice = allocator.advice()
    assert (advice.winner, advice.stop, advice.text) == ("A", True, "stop: A is preferred to every other system")
    assert advice.beaten == {"A": (), "B": ("A",)}
    tied = PairAllocator(["A", "B"], "best", policy="uniform", items=range(10))
    tied.add([(ask.item, "A", "B", None) for ask in tied.next(20)])
    assert tied.advice().text == (
        "stop: all items are judged, so that only choices of other annotators on them can tell more; "
        "2 of 2 systems may be the best"
    )


def test_a_choice_on_every_item_leaves_the_noise_of_choosing():
    """5 of 9 by one annotator says nothing of what others would choose; four who agree say more."""
    allocator = PairAllocator(["A", "B"], "best", policy="uniform", items=range(9))
    asks = allocator.next(20)
    allocator.add([(ask.item, "A", "B", "A" if i < 5 else "B", "ann") for i, ask in enumerate(asks)])
    assert allocator.advice().winner is None
    again = PairAllocator(["A", "B"], "best", policy="uniform", items=range(16))
    asks = again.next(20)
    for who, wins in (("ann", 12), ("bob", 16), ("cyd", 16), ("dan", 16)):
        again.add([(ask.item, "A", "B", "B" if i < 16 - wins else "A", who) for i, ask in enumerate(asks)])
        if who == "ann":
            assert again.advice().winner is None
    assert again.advice().winner == "A"
    restored = PairAllocator.restore(["A", "B"], again.state(), items=range(16))
    assert restored.advice() == again.advice()


@pytest.mark.parametrize(("annotators", "share"), [(1, 1.0), (1, 0.6), (2, 1.0), (2, 0.6)])
def test_random_choices_rarely_name_a_winner(annotators, share):
    """14 items, 4 systems: 75 campaigns each, complete and partial, with one and two annotators."""
    named, pairs = 0, list(combinations(NAMES[:4], 2))
    for seed in range(75):
        rng = np.random.default_rng(seed)
        allocator = PairAllocator(NAMES[:4], "best", policy="uniform", items=range(14), seed=seed)
        asks = allocator.next(round(share * 14 * len(pairs)))
        for who in range(annotators):
            chosen = rng.integers(0, 3, len(asks))
            allocator.add(
                [(a.item, a.a, a.b, (a.a, a.b, None)[c], f"p{who}") for a, c in zip(asks, chosen, strict=True)]
            )
        named += allocator.advice().winner is not None
    assert named <= 0.05 * 75


def test_repeats_of_one_annotator_in_a_table_are_one_choice():
    rows = [
        ("1", "A", "B", "a", "ann"),
        ("1", "B", "A", "a", "ann"),
        ("2", "A", "B", "a", "ann"),
        ("2", "A", "B", "a", "ann"),
        ("2", "B", "A", "a", "ann"),
        ("3", "A", "B", "b", "bob"),
    ]
    table = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "choice", "annotator"], orient="row")
    allocator = PairAllocator.from_choices(["A", "B"], table, items=["1", "2", "3"])
    assert allocator.choices.sort("item")["choice"].to_list() == ["tie", "a", "b"]


def test_a_circle_has_no_winner():
    beats = {("A", "B"): "A", ("B", "C"): "B", ("A", "C"): "C"}
    allocator = PairAllocator(["A", "B", "C"], "best", policy="uniform", items=range(100))
    allocator.add(
        [(ask.item, ask.a, ask.b, beats[min(ask.a, ask.b), max(ask.a, ask.b)]) for ask in allocator.next(120)]
    )
    advice = allocator.advice()
    assert advice.winner is None
    assert advice.text == "stop: every system is beaten by another; none is preferred to all others"


def test_the_forecast_falls_as_choices_come():
    allocator = PairAllocator(NAMES, "ranking", policy="uniform", items=range(4000), seed=1)
    answer, seen = world([1.5, 0.5, -0.5, -1.5], 4), list[Any]()
    while not (advice := allocator.advice()).stop:
        seen.append(advice.further)
        allocator.add([answer(ask) for ask in allocator.next(60)])
    assert advice.decided == 6
    assert advice.winner == "A"
    assert seen[0] is None
    assert all(each is not None for each in seen[3:])
    assert seen[-1] < seen[3]


@pytest.mark.parametrize(
    ("systems", "question", "policy", "runs"),
    [(2, "best", "uniform", 200), (3, "ranking", "uniform", 80), (2, "best", "auto", 50), (3, "best", "dueling", 30)],
)
def test_equal_systems_are_rarely_told_apart(systems, question, policy, runs):
    alpha, wrong, naive = 0.1, 0, 0
    for seed in range(runs):
        allocator = PairAllocator(NAMES[:systems], question, policy=policy, items=range(400), alpha=alpha, seed=seed)
        answer, values = world([0] * 4, seed, 0.2), []
        for _ in range(4):
            choices = [answer(ask) for ask in allocator.next(20 * (systems - 1))]
            allocator.add(choices)
            values += [0.5 if c[3] is None else float(c[3] == min(c[1], c[2])) for c in choices]
            advice = allocator.advice()
            if advice.decided if question == "ranking" else advice.winner:
                wrong += 1
                break
        path, n = np.cumsum(values), np.arange(1, len(values) + 1)
        naive += bool((np.abs(path / n - 0.5)[20::5] > 1.645 * np.std(values) / np.sqrt(n[20::5])).any())
    assert wrong <= binom.ppf(0.999, runs, alpha)
    if runs == 200:  # enough of them to see it
        assert naive > binom.ppf(0.999, runs, alpha)  # looking again and again at a plain interval does not hold


# -- without a state: choices alone ----------------------------------------------------------------------------------


def test_choices_alone_give_the_same_counts_and_decisions():
    """What `next` asked and people chose is enough: no pair gets an item twice, decisions are the same."""
    whole = PairAllocator(["A", "B", "C"], "best", items=range(80), seed=5)
    choices: list[Any] = []
    for _ in range(12):
        again = PairAllocator.from_choices(["A", "B", "C"], choices, question="best", items=range(80), seed=5)
        assert again.counts == whole.counts
        assert again.advice().beaten == whole.advice().beaten
        asks = whole.next(10)
        assert not {(a.item, frozenset((a.a, a.b))) for a in again.next(10)} & {
            (c[0], frozenset(c[1:3])) for c in choices
        }
        choices += [(ask.item, ask.a, ask.b, min(ask.a, ask.b)) for ask in asks]
        whole.add(choices[-len(asks) :])
    assert whole.advice().stop


def test_choices_from_a_table_and_pairs_that_people_still_have():
    first = PairAllocator(["A", "B", "C"], items=range(40), seed=2).next(12)
    table = pl.DataFrame(
        {
            "item": [str(ask.item) for ask in first[:8]],
            "system_a": [ask.a for ask in first[:8]],
            "system_b": [ask.b for ask in first[:8]],
            "choice": ["a", "b", "tie", None] * 2,
            "annotator": ["x"] * 8,
        }
    )
    still = pl.DataFrame([vars(ask) for ask in first[8:]]).rename({"a": "system_a", "b": "system_b"})
    allocator = PairAllocator.from_choices(["A", "B", "C"], table, asked=[still], items=range(40), seed=2)
    assert len(allocator.choices) == 6
    assert len(allocator.pending) >= 4
    new = {(ask.item, frozenset((ask.a, ask.b))) for ask in allocator.next(12)}
    assert not new & {(ask.item, frozenset((ask.a, ask.b))) for ask in first[8:]}


def test_choices_of_another_seed_are_noted():
    choices = [(item, "A", "B", "A") for item in (3, 17, 31)]
    with pytest.warns(AliquotWarning, match="not among those asked"):
        PairAllocator.from_choices(["A", "B"], choices, items=range(40), seed=1)


@pytest.mark.parametrize(("ties", "dispersion"), [(0.0, 1.0), (1.0, 1 - 1 / 6), (4.0, 1 - 4 / 6), (50.0, 0.1)])
def test_ties_make_choices_less_uncertain_by_hand(ties, dispersion):
    """Four choices, and two more for careful: a share of ties takes as much off the variance, down to a tenth."""
    value, number = np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[0.0, 4.0], [4.0, 0.0]])
    found, expected = fit_strengths(value, number, ties), strength_posterior(value, number, dispersion=dispersion)
    assert found.mean == pytest.approx(expected.mean)
    assert found.covariance == pytest.approx(expected.covariance)
    more = fit_strengths(value, number, ties, asked=np.array([9]))
    assert more.covariance == pytest.approx(
        strength_posterior(value, number, number * 9 / 4, dispersion=dispersion).covariance
    )
    fewer = fit_strengths(value, number, ties, asked=np.array([2]))
    assert fewer.covariance == pytest.approx(expected.covariance)
