"""Policies: which system should be judged next, given what is known by now.

A policy takes a `PolicyState` and returns how probable each system is to be the next; the allocator draws. Published
policies are written from their definitions, for comparison; `auto` is ours (docs/methods.md, section 13). All of them
first give every system `first` items, because nothing can be said of a system that nobody judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from aliquot.core.registry import RegistryEntry, Spec
from aliquot.errors import OptionError, unknown_name
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

F = TypeVar("F", bound=Callable[..., FloatArray])
MIN_ITEMS = 5
FLOOR = 0.1
QUESTIONS = ("top", "ranking", "best", "means", "pairs")
_N_DRAWS = 200
_GAIN_DRAWS = 60  # of the draws, those over which the gain is averaged


@dataclass(frozen=True, eq=False)
class PolicyState:
    """The state that a policy decides on."""

    asked: IntArray  # M, items asked for each system, answered or not
    population: int  # items of the test set
    values: FloatArray  # M, estimated means; NaN where nothing is known
    noise: float  # variance of a cell about its system's mean, metrics and items taken into account
    question: str  # one of QUESTIONS
    pairs: FloatArray | None  # M x M weights of the pairs that were asked for
    budget: int | None  # cells in all
    cost: FloatArray  # M, what each system's next cell costs
    draws: FloatArray  # D x M standard normal numbers, the same while a batch is filled
    batch: dict[str, FloatArray]  # what is worked out once for a batch; "beaten": systems that are out of the question

    @property
    def open(self) -> BoolArray:
        """Systems that have items left."""
        return self.asked < self.population


@dataclass(frozen=True)
class Policy(RegistryEntry):
    """A registered policy, for systems or for pairs."""

    paper: str = ""
    needs_budget: bool = False
    remembers: bool = False  # whether it carries something from one choice to the next

    def probabilities(self, state: Any, parameters: Mapping[str, Any]) -> FloatArray:
        """Each system's or pair's probability to be next; they sum to 1."""
        return np.asarray(self.function(state, **self.bind(parameters)), dtype=np.float64)


POLICIES: dict[str, Policy] = {}


def register_policy(policies: dict[str, Policy], name: str, **traits: Any) -> Callable[[F], F]:
    """Return a decorator that adds a function to the policies."""

    def decorator(function: F) -> F:
        policies[name] = Policy(name, function, **traits)
        return function

    return decorator


def check_policy(
    spec: Spec, budget: int | None, policies: Mapping[str, Policy] = POLICIES, kind: str = "policy"
) -> Policy:
    """Return a spec's policy; raise for an unknown name or parameter, or for a missing budget."""
    if spec.name not in policies:
        raise unknown_name(kind, spec.name, policies)
    policy = policies[spec.name]
    policy.bind(spec.parameters)
    if policy.needs_budget and budget is None:
        raise OptionError(f"the policy '{spec.name}' divides a budget: give `budget`, in cells")
    return policy


def one_hot(system: int, count: int) -> FloatArray:
    """Return probability 1 for one of `count` systems or pairs."""
    chosen = np.zeros(count)
    chosen[system] = 1.0
    return chosen


def _choose_least_asked(state: PolicyState, among: BoolArray) -> FloatArray:
    """Choose the first system with the fewest items."""
    return one_hot(int(np.argmin(np.where(among, state.asked, np.iinfo(np.int64).max))), len(among))


def _choose_starter(state: PolicyState, first: int) -> FloatArray | None:
    """Choose a system with fewer than `first` items; None if there is none."""
    if first < 1:
        raise OptionError(f"first={first}: every system needs at least 1 item")
    lacking = state.open & (state.asked < first)
    return _choose_least_asked(state, lacking) if lacking.any() else None


@register_policy(POLICIES, "uniform")
def uniform(state: PolicyState) -> FloatArray:
    """All systems in turn: the same items for all."""
    return _choose_least_asked(state, state.open)


@register_policy(POLICIES, "rank", paper="arXiv 2608.03437")
def rank(state: PolicyState, *, power: float = 1.0, first: int = MIN_ITEMS) -> FloatArray:
    """A system drawn with weight 1 / rank^power by the present estimates.

    Args:
        power: 1 or 2 in the paper.
        first: items for every system before ranks are looked at.
    """
    starter = _choose_starter(state, first)
    if starter is not None:
        return starter
    order = np.argsort(-np.nan_to_num(state.values, nan=-np.inf), kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    weight: FloatArray = np.where(state.open, ranks ** -float(power), 0.0)
    return np.asarray(weight / weight.sum())


@register_policy(POLICIES, "successive_rejects", needs_budget=True, paper="Audibert and Bubeck 2010")
def successive_rejects(state: PolicyState) -> FloatArray:
    """Phases of equal allocation; after each, the worst system is dropped."""
    m, budget = len(state.asked), state.budget or 0
    scale = 0.5 + sum(1.0 / i for i in range(2, m + 1))
    sizes = [int(np.ceil((budget - m) / (scale * (m + 1 - phase)))) for phase in range(1, m)]
    return _in_phases(state, [(max(1, size), 1) for size in sizes])


@register_policy(POLICIES, "successive_halving", needs_budget=True, paper="Karnin, Koren and Somekh 2013")
def successive_halving(state: PolicyState) -> FloatArray:
    """Rounds of equal allocation with the same budget each; after each, the worse half is dropped."""
    survivors, budget = len(state.asked), state.budget or 0
    rounds = max(1, int(np.ceil(np.log2(survivors))))
    phases, size = [], 0
    for _ in range(rounds):
        size += max(1, budget // (survivors * rounds))
        phases.append((size, survivors // 2))
        survivors -= survivors // 2
    return _in_phases(state, phases)


def _in_phases(state: PolicyState, phases: list[tuple[int, int]]) -> FloatArray:
    """Choose a system in phases of (items for each surviving system, number of systems dropped).

    Who survived a phase is read off the counts: systems that went on, then those with the best estimates, until there
    are as many as survive. So a system that has gone on is never dropped by what was learned afterwards.
    """
    active = np.ones(len(state.asked), dtype=np.bool_)
    values = np.nan_to_num(state.values, nan=-np.inf)
    for until, dropped in phases:
        size = min(until, state.population)
        lacking = active & (state.asked < size)
        if lacking.any():
            return _choose_least_asked(state, lacking)
        survivors = max(1, int(active.sum()) - dropped)
        order = np.lexsort((-values, ~(state.asked > size), ~active))
        active = np.zeros_like(active)
        active[order[:survivors]] = True
    remaining = active & state.open
    return _choose_least_asked(state, remaining if remaining.any() else state.open)


@register_policy(POLICIES, "auto")
def auto(state: PolicyState, *, floor: float = FLOOR, first: int = MIN_ITEMS) -> FloatArray:
    """The system whose next item reduces the expected number of misordered pairs most, weighted by the question.

    Asked for the best, systems that are decided to be worse than another get no more items, and the others go on side
    by side: a pair's decision uses the items that both have, so items beyond those of its rivals decide nothing.

    Args:
        floor: probability that goes to all systems alike, so that none is starved.
        first: items for every system before anything is compared.
    """
    if not 0.0 <= floor <= 1.0:
        raise OptionError(f"floor={floor:g}: choose between 0 and 1")
    starter = _choose_starter(state, first)
    if starter is not None:
        return starter
    open_ = state.open
    rivals = open_ & (state.batch.get("beaten", np.zeros(len(open_))) == 0.0)
    open_ = rivals if rivals.any() else open_
    if state.question == "best":
        return _choose_least_asked(state, open_)
    gain = np.where(open_, expected_gain(state) / state.cost, -1.0)
    chosen = one_hot(int(np.argmax(gain)), len(gain))
    mixed: FloatArray = (1.0 - floor) * chosen + floor * open_ / open_.sum()
    return mixed


def expected_gain(state: PolicyState) -> FloatArray:
    """Return the reduction of the expected loss by one more item, for each system.

    For pairs the loss is sum w_st P(order of s and t is wrong) = sum w_st E Phi(-|d| / sd_st), d = T_s - T_t drawn from
    what is known and sd_st^2 = v (1/n_s - 1/N + 1/n_t - 1/N); its derivative with respect to n_s is minus the gain.
    """
    n, m = np.maximum(state.asked, 1).astype(np.float64), len(state.asked)
    variance = state.noise * np.maximum(1.0 / n - 1.0 / state.population, 1e-12)
    if state.question == "means":
        return np.asarray(state.noise / n**2)
    if "gap" not in state.batch:
        means = _fill_unjudged(state.values) + state.draws * np.sqrt(variance)
        used = means[:_GAIN_DRAWS]
        state.batch["gap"] = np.abs(used[:, :, None] - used[:, None, :])
        state.batch["weight"] = pair_weights(state, means) * (1.0 - np.eye(m))
        state.batch["wrong"], state.batch["n"] = np.zeros((m, m)), np.zeros(m)
    wrong, before = state.batch["wrong"], state.batch["n"]
    for system in np.flatnonzero(n != before):  # the others' pairs are as they were
        gap, square = state.batch["gap"][:, system], variance[system] + variance
        row = (np.exp(gap**2 * (-0.5 / square)) * gap).sum(axis=0) / (len(gap) * square**1.5)
        wrong[system], wrong[:, system] = row, row
    before[:] = n
    gain: FloatArray = (state.batch["weight"] * wrong).sum(axis=1) * state.noise / n**2
    return gain


def _fill_unjudged(values: FloatArray) -> FloatArray:
    """Replace the means of unjudged systems by the average."""
    is_known = np.isfinite(values)
    return np.where(is_known, values, values[is_known].mean() if is_known.any() else 0.0)


def pair_weights(state: PolicyState, draws: FloatArray) -> FloatArray:
    """Return the loss of a wrong order of each pair (M x M), given draws of the means."""
    m = len(state.asked)
    if state.question == "pairs":
        return np.zeros((m, m)) if state.pairs is None else state.pairs
    return question_weights(state.question, draws)


def question_weights(question: str, draws: FloatArray) -> FloatArray:
    """Return pair weights (M x M) for the questions top, best and ranking, given draws of means or strengths."""
    m = draws.shape[1]
    if question == "ranking":
        return np.ones((m, m))
    ranks = np.argsort(np.argsort(-draws, axis=1), axis=1)
    share = (ranks == 0).mean(axis=0) if question == "best" else (1.0 / (ranks + 1.0) ** 2).mean(axis=0)
    weights: FloatArray = share[:, None] + share[None, :]
    return weights


def standard_draws(seed: list[int], systems: int) -> FloatArray:
    """Return the standard normal draws of a batch (draws x systems)."""
    return np.random.default_rng(seed).standard_normal((_N_DRAWS, systems))
