"""Policies: the published ones by their definitions in small cases, and what holds for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.core.registry import parse_spec
from aliquot.errors import AliquotError
from aliquot.sampling.policies import (
    POLICIES,
    PolicyState,
    check_policy,
    expected_gain,
    pair_weights,
    standard_draws,
)
from aliquot.stats.arrays import FloatArray

ALL = sorted(POLICIES)


def state(asked: Any, values: Any = None, **given: Any) -> PolicyState:
    """What a policy sees when systems were asked so many items and have such means."""
    counts = np.array(asked, dtype=np.int64)
    m = len(counts)
    options: dict[str, Any] = {"population": 100, "noise": 1.0, "question": "top", "pairs": None, "budget": 120}
    known = np.arange(m, 0, -1.0) if values is None else np.array(values, dtype=np.float64)
    draws = standard_draws([0], m)
    return PolicyState(asked=counts, values=known, cost=np.ones(m), draws=draws, batch={}, **(options | given))


def probabilities(spec: str, seen: PolicyState) -> FloatArray:
    parsed = parse_spec(spec)
    return check_policy(parsed, seen.budget).probabilities(seen, parsed.parameters)


def played(spec: str, values: Any, budget: int, population: int = 1000) -> list[int]:
    """How many items each system gets when the true means are known from the start."""
    asked = [0] * len(values)
    for _ in range(budget):
        chosen = probabilities(spec, state(asked, values, budget=budget, population=population))
        asked[int(np.argmax(chosen))] += 1
    return asked


# -- published definitions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("power", "weights"), [(1, [1, 1 / 2, 1 / 3, 1 / 4]), (2, [1, 1 / 4, 1 / 9, 1 / 16])])
def test_rank_weights_are_those_of_the_paper(power, weights):
    found = probabilities(f"rank:power={power}", state([5, 5, 5, 5], [0.1, 0.4, 0.3, 0.2]))
    by_rank = np.array(weights) / sum(weights)
    assert found == pytest.approx(by_rank[[3, 0, 1, 2]])


def test_every_system_gets_its_first_items_before_ranks_matter():
    assert probabilities("rank", state([5, 5, 4, 5])).tolist() == [0, 0, 1, 0]
    assert probabilities("rank:first=3", state([5, 5, 4, 5])).max() < 1
    assert probabilities("auto:first=6", state([6, 6, 6, 5])).tolist() == [0, 0, 0, 1]


def test_successive_rejects_has_the_phases_of_audibert_and_bubeck():
    """K = 4, n = 120: log-bar K = 1/2 + 1/2 + 1/3 + 1/4, n_k = ceil((n - K) / (log-bar K (K + 1 - k))) = 19, 25, 37.

    That is 118 of 120; the best system gets what is left.
    """
    assert played("successive_rejects", [4.0, 3.0, 2.0, 1.0], 120) == [39, 37, 25, 19]
    assert played("successive_rejects", [1.0, 3.0, 4.0, 2.0], 120) == [19, 37, 39, 25]


def test_successive_halving_has_the_rounds_of_karnin():
    """8 systems, budget 240, 3 rounds: floor(240 / (8 x 3)) = 10 for 8, 20 more for 4, 40 more for 2."""
    assert played("successive_halving", np.arange(8, 0, -1.0), 240) == [70, 70, 30, 30, 10, 10, 10, 10]


def test_a_survivor_is_not_dropped_by_what_is_learned_later():
    """Phases end at 19, 25 and 37 items. Systems 0 and 1 have gone on and look worse now than those that have not."""
    seen = state([25, 20, 19, 19], [1.0, 2.0, 9.0, 8.0])
    assert probabilities("successive_rejects", seen).tolist() == [0, 0, 1, 0]  # the third survivor
    dropped = state([25, 25, 25, 19], [1.0, 2.0, 3.0, 99.0])
    assert probabilities("successive_rejects", dropped)[[0, 3]].tolist() == [0, 0]


def test_uniform_takes_systems_in_turn():
    assert played("uniform", [1.0, 2.0, 3.0], 10) == [4, 3, 3]


# -- ours ----------------------------------------------------------------------------------------------------------


def test_the_gain_is_the_derivative_of_the_expected_loss():
    """Numerically: sum over pairs of w E Phi(-|d| / sd), in the number of items of one system."""
    from scipy.stats import norm

    seen = state([8, 12, 30], [1.0, 0.8, 0.1], question="ranking")
    gain = expected_gain(seen)
    gap = seen.batch["gap"]

    def loss(n: FloatArray) -> float:
        variance = seen.noise * (1 / n - 1 / seen.population)
        square = variance[:, None] + variance[None, :]
        wrong = norm.cdf(-gap / np.sqrt(square)).mean(axis=0)
        return float((wrong * (1 - np.eye(3))).sum() / 2)

    n = np.array([8.0, 12.0, 30.0])
    slopes = [(loss(n - 1e-4 * step) - loss(n + 1e-4 * step)) / 2e-4 for step in np.eye(3)]
    np.testing.assert_allclose(gain / gain[0], np.array(slopes) / slopes[0], rtol=1e-5)


def test_questions_weigh_pairs_differently():
    seen = state([10, 10, 10], [9.0, 5.0, 0.0])
    known = np.tile(seen.values, (50, 1))
    assert pair_weights(state([10] * 3, question="ranking"), known).tolist() == [[1.0] * 3] * 3
    assert pair_weights(state([10] * 3, question="best"), known)[0].tolist() == [2.0, 1.0, 1.0]
    assert pair_weights(state([10] * 3), known)[0, 1] == pytest.approx(1 + 1 / 4)
    wanted = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=np.float64)
    only = state([10] * 3, [1.0, 1.1, 1.2], question="pairs", pairs=wanted)
    assert probabilities("auto:floor=0", only)[2] == 0.0


def test_a_system_far_behind_gets_little_but_the_floor():
    found = probabilities("auto:floor=0.3", state([20, 20, 20], [1.0, 0.95, -50.0]))
    assert found[2] == pytest.approx(0.1)
    assert found.max() == pytest.approx(0.8)


def test_means_take_the_system_with_the_fewest_items_and_costs_count():
    assert np.argmax(probabilities("auto", state([9, 7, 8], question="means"))) == 1
    seen = state([8, 8, 8], question="means")
    seen.cost[:] = [3.0, 2.0, 1.0]
    assert np.argmax(probabilities("auto", seen)) == 2


def test_systems_without_answers_are_neither_favoured_nor_forgotten():
    """Answers are late: nothing is known of any system, then of all but one."""
    assert sorted(played("auto", [np.nan] * 4, 100)) == [25, 25, 25, 25]
    found = played("auto:floor=0", [1.0, 1.1, np.nan], 90)
    assert 10 < found[2] < 60


# -- all of them ---------------------------------------------------------------------------------------------------

SEEN = st.integers(2, 6).flatmap(
    lambda m: st.tuples(
        st.lists(st.integers(0, 12), min_size=m, max_size=m),
        st.lists(st.one_of(st.floats(-5, 5), st.just(float("nan"))), min_size=m, max_size=m),
    )
)


@pytest.mark.parametrize("name", ALL)
@given(seen=SEEN, question=st.sampled_from(["top", "ranking", "best", "means"]))
@settings(max_examples=60, deadline=None)
def test_probabilities_sum_to_one_and_never_go_to_a_system_without_items(name, seen, question):
    asked, values = seen
    if min(asked) >= 12:
        asked[0] = 11
    found = probabilities(name, state(asked, values, population=12, question=question))
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()
    assert (found[np.array(asked) >= 12] == 0).all()


@pytest.mark.parametrize(
    ("spec", "budget", "message"),
    [
        ("bandit", 10, "unknown policy 'bandit'"),
        ("rank:pwer=1", 10, "did you mean 'power'"),
        ("successive_rejects", None, "divides a budget"),
        ("auto:floor=x", 10, "floor"),
    ],
)
def test_policies_that_make_no_sense(spec, budget, message):
    with pytest.raises(AliquotError, match=message):
        check_policy(parse_spec(spec), budget)


@pytest.mark.parametrize("spec", ["auto:floor=2", "auto:first=0", "rank:first=0"])
def test_parameters_out_of_range(spec):
    with pytest.raises(AliquotError, match=r"floor=2|first=0"):
        probabilities(spec, state([9, 9]))
