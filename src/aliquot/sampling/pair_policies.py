"""Policies for pairwise choices: which two systems should be compared next, given what is known by now.

A policy takes a `PairPolicyState` and returns each pair's probability to be compared next; `PairAllocator` draws. The
published policies follow their papers, for comparison; `auto` is ours. Pairs have the order of `np.triu_indices`:
(0, 1), (0, 2), ..., (M-2, M-1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import xlogy

from aliquot.errors import OptionError
from aliquot.sampling.pair_decisions import PairDecisions
from aliquot.sampling.policies import FLOOR, Policy, one_hot, question_weights, register_policy
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.bradley_terry import StrengthPosterior, strength_posterior

_GAIN_DRAWS = 60  # of the draws, those over which the gain is averaged
_MIN_DISPERSION = 0.1


@dataclass(frozen=True, eq=False)
class PairPolicyState:
    """The state that a policy decides on."""

    asked: IntArray  # P, choices asked of each pair, answered or not
    population: IntArray  # P, items that a pair can be compared on
    value: FloatArray  # M x M, wins of the row's system over the column's; a tie is half a win
    number: FloatArray  # M x M, symmetric, choices that were answered
    ties: float  # among them
    question: str
    decisions: PairDecisions  # brought up to date when a policy asks
    turn: IntArray  # P, the random order in which pairs take turns
    draws: FloatArray  # D x M standard normal numbers, the same while a batch is filled
    batch: dict[str, FloatArray]  # what is worked out once for a batch
    memory: dict[str, Any]  # what a policy carries from one choice to the next

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """First and second system of every pair."""
        return np.triu_indices(len(self.value), 1)

    @property
    def open(self) -> BoolArray:
        """Pairs that have items left."""
        return np.asarray(self.asked < self.population)

    @property
    def posterior(self) -> StrengthPosterior:
        """Strengths given the answers, with the covariance as if all asked choices were answered."""
        return fit_strengths(self.value, self.number, self.ties, self.asked)


def fit_strengths(
    value: FloatArray, number: FloatArray, ties: float, asked: IntArray | None = None
) -> StrengthPosterior:
    """Fit Bradley-Terry strengths; with `asked`, the covariance counts unanswered choices too."""
    planned = np.zeros_like(number)
    if asked is not None:
        planned[np.triu_indices(len(number), 1)] = asked
        planned += planned.T
    answered = number.sum() / 2
    # A tie is half a win for certain: the variance of a choice is p (1 - p) - share / 4, near p = 1/2 this much of it.
    dispersion = max(1.0 - ties / (answered + 2.0), _MIN_DISPERSION)
    return strength_posterior(value, number, np.maximum(planned, number), dispersion=dispersion)


PAIR_POLICIES: dict[str, Policy] = {}


def _choose_least_compared(state: PairPolicyState, among: BoolArray) -> FloatArray:
    """Choose a pair with the fewest choices, by turn."""
    order = np.lexsort((state.turn, state.asked, ~among))
    return one_hot(int(order[0]), len(among))


@register_policy(PAIR_POLICIES, "uniform")
def uniform(state: PairPolicyState) -> FloatArray:
    """All pairs in turn."""
    return _choose_least_compared(state, state.open)


# -- Relative minimum empirical divergence ---------------------------------------------------------------------------


@register_policy(PAIR_POLICIES, "dueling", remembers=True, paper="Komiyama, Honda, Kashima and Nakagawa 2015, RMED1")
def dueling(state: PairPolicyState, *, first: int = 1) -> FloatArray:
    """Relative minimum empirical divergence (RMED1), the best of 13 dueling bandits in Mohankumar and Khapra (2022).

    Rounds over the candidates, systems for which I_i - min I <= log t + f(K): I_i is the evidence that i loses to some
    system, f(K) = 0.3 K^1.01. Each candidate meets the most likely winner if it seems to lose to it, else the system it
    loses to most. A comparison of a system with itself takes no judgment and is skipped.

    Args:
        first: choices for every pair before candidates are looked at; 1 in the paper.
    """
    if first < 1:
        raise OptionError(f"first={first}: every pair needs at least 1 choice")
    lacking = state.open & (state.asked < first)
    if lacking.any():
        return _choose_least_compared(state, lacking)
    systems, count = len(state.value), len(state.asked)
    share, evidence = empirical_divergence(state.value, state.number)
    limit = np.log(max(state.number.sum() / 2, 1.0)) + 0.3 * systems**1.01
    candidate = evidence - evidence.min() <= limit
    rounds = _Rounds(state.memory, systems)
    for _ in range(4 * systems):
        lead = rounds.next_leader(candidate, share, evidence)
        opponent = choose_opponent(lead, share, evidence)
        pair = pair_index(lead, opponent, systems) if opponent != lead else -1
        if pair >= 0 and state.open[pair]:
            return one_hot(pair, count)
    return _choose_least_compared(state, state.open)


class _Rounds:
    """The paper's sets, kept between choices: `left` is L_R (the rest of this round), `then` is L_N (the next)."""

    def __init__(self, memory: dict[str, Any], systems: int) -> None:
        if not memory:
            memory.update(left=list(range(systems)), then=[], lead=None)
        self.memory = memory

    def next_leader(self, candidate: BoolArray, share: FloatArray, evidence: FloatArray) -> int:
        """Update the sets with the last comparison and return the next leading system."""
        memory = self.memory
        if memory["lead"] is not None:
            memory["left"] = [system for system in memory["left"] if system != memory["lead"]]
            more = [s for s in np.flatnonzero(candidate).tolist() if s not in memory["left"] + memory["then"]]
            memory["then"] += more
        if not memory["left"]:
            best = int(np.argmin(evidence))
            if memory["then"] == [best] == [choose_opponent(best, share, evidence)]:
                # Alone, the best would meet itself until log t lets another system in: it is the next by evidence.
                memory["then"] = [int(np.argmin(np.where(np.arange(len(evidence)) == best, np.inf, evidence)))]
            memory["left"], memory["then"] = sorted(memory["then"]), []
        memory["lead"] = memory["left"][0]
        return int(memory["lead"])


def empirical_divergence(value: FloatArray, number: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return shares of wins (1/2 without choices) and I_i = sum of n_ij d(share_ij, 1/2) over j with share_ij <= 1/2.

    >>> share, evidence = empirical_divergence(np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[0.0, 4.0], [4.0, 0.0]]))
    >>> share[0, 1].item(), evidence.round(4).tolist()
    (0.75, [0.0, 0.5232])
    """
    share = np.divide(value, number, out=np.full_like(value, 0.5), where=number > 0)
    distance = xlogy(share, 2.0 * share) + xlogy(1.0 - share, 2.0 * (1.0 - share))
    return share, np.asarray((number * distance * (share <= 0.5)).sum(axis=1))


def choose_opponent(lead: int, share: FloatArray, evidence: FloatArray) -> int:
    """Return the system to compare with `lead`; itself if it loses to none and is the best."""
    best = int(np.argmin(evidence))
    losing = share[lead] <= 0.5
    losing[lead] = False
    if losing[best] or not losing.any():
        return best
    shares = np.where(np.arange(len(share)) == lead, np.inf, share[lead])
    return int(np.argmin(shares))


def pair_index(first: int, second: int, systems: int) -> int:
    """Return the index of a pair in `np.triu_indices`.

    >>> [pair_index(a, b, 4) for a, b in zip(*np.triu_indices(4, 1))]
    [0, 1, 2, 3, 4, 5]
    """
    low, high = min(first, second), max(first, second)
    return int(low * systems - low * (low + 1) // 2 + high - low - 1)


# -- Relative upper confidence bounds --------------------------------------------------------------------------------


@register_policy(PAIR_POLICIES, "rucb", remembers=True, paper="Zoghi, Whiteson, Munos and de Rijke 2014")
def rucb(state: PairPolicyState, *, alpha: float = 0.51) -> FloatArray:
    """Relative upper confidence bound (RUCB): a system that may still be the best against its strongest rival.

    u_ij = share_ij + sqrt(alpha log t / n_ij), 1 where i and j never met. A champion c with all u_cj >= 1/2 is drawn,
    the last one that was alone with probability 1/2; it meets the system d with the largest u_dc.

    Args:
        alpha: width of the bounds; 0.51 in the paper's experiments.
    """
    if not alpha > 0.5:
        raise OptionError(f"alpha={alpha:g}: the bounds hold above 0.5")
    systems, count = len(state.value), len(state.asked)
    upper = upper_bounds(state.value, state.number, alpha)
    champion: BoolArray = np.asarray((upper >= 0.5).all(axis=1))
    if champion.sum() == 1:
        state.memory["last"] = int(np.argmax(champion))
    last = state.memory.get("last")
    if last is not None and not champion[last]:
        last = state.memory["last"] = None
    chance = champion / champion.sum() if champion.any() else np.full(systems, 1.0 / systems)
    if last is not None and champion.sum() > 1:
        rivals = champion & (np.arange(systems) != last)
        chance = 0.5 * rivals / rivals.sum() + 0.5 * (np.arange(systems) == last)
    chosen = np.zeros(count)
    for system in np.flatnonzero(chance):
        rival = np.where(np.arange(systems) == system, -1.0, upper[:, system])
        tied = np.flatnonzero(rival == rival.max())
        for opponent in tied:
            chosen[pair_index(int(system), int(opponent), systems)] += chance[system] / len(tied)
    chosen = np.where(state.open, chosen, 0.0)
    return np.asarray(chosen / chosen.sum()) if chosen.any() else _choose_least_compared(state, state.open)


def upper_bounds(value: FloatArray, number: FloatArray, alpha: float) -> FloatArray:
    """Return RUCB's upper bounds of shares of wins; 1/2 on the diagonal.

    >>> upper_bounds(np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[0.0, 4.0], [4.0, 0.0]]), 0.51).round(3).tolist()
    [[0.5, 1.17], [0.67, 0.5]]
    """
    share, _ = empirical_divergence(value, number)
    width = np.sqrt(alpha * np.log(max(number.sum() / 2, 1.0)) / np.maximum(number, 1.0))
    upper: FloatArray = np.where(number > 0, share + width, 1.0)
    np.fill_diagonal(upper, 0.5)
    return upper


# -- Ours ------------------------------------------------------------------------------------------------------------


_DECIDING = {"top": 0.1, "best": 0.7, "ranking": 0.1}


@register_policy(PAIR_POLICIES, "auto")
def auto(state: PairPolicyState, *, floor: float = FLOOR, first: int = 2, decide: float | None = None) -> FloatArray:
    """The pair whose next choice reduces the expected number of misordered pairs most, weighted by the question.

    Args:
        floor: probability that goes to all pairs alike, so that none is starved.
        first: choices for every system before gains are compared.
        decide: probability that goes to pairs whose decision the question waits for: systems not yet beaten against the
            best by now, or all open pairs for a ranking. 0.7 for the question best, 0.1 for others.
    """
    share = _DECIDING[state.question] if decide is None else decide
    for name, value in (("floor", floor), ("decide", share), ("floor + decide", floor + share)):
        if not 0.0 <= value <= 1.0:
            raise OptionError(f"{name}={value:g}: choose between 0 and 1")
    rarest = _choose_rarest_systems(state, first)
    if rarest is not None:
        return rarest
    open_ = state.open
    posterior = state.posterior
    undecided = _undecided_pairs(state, posterior) & open_
    gain = np.where(open_, expected_gain(state, posterior), -1.0)
    chosen = one_hot(int(np.lexsort((state.turn, -gain))[0]), len(gain))
    if not undecided.any():
        undecided, share = open_, 0.0
    mixed: FloatArray = (
        (1.0 - floor - share) * chosen + floor * open_ / open_.sum() + share * undecided / undecided.sum()
    )
    return mixed


def _undecided_pairs(state: PairPolicyState, posterior: StrengthPosterior) -> BoolArray:
    """Return the pairs that the question still has to decide."""
    (a, b), better = state.pairs, state.decisions.better
    if state.question == "ranking":
        return ~(better | better.T)[a, b]
    best, unbeaten = int(np.argmax(posterior.mean)), np.asarray(~better.any(axis=0))
    return np.asarray(((a == best) & unbeaten[b]) | ((b == best) & unbeaten[a]))


def _choose_rarest_systems(state: PairPolicyState, first: int) -> FloatArray | None:
    """Choose the pair of systems with the fewest choices; None once all systems have `first`."""
    a, b = state.pairs
    counts = np.bincount(a, state.asked, len(state.value)) + np.bincount(b, state.asked, len(state.value))
    lacking = state.open & ((counts[a] < first) | (counts[b] < first))
    if not lacking.any():
        return None
    order = np.lexsort((state.turn, state.asked, counts[a] + counts[b], ~lacking))
    return one_hot(int(order[0]), len(a))


def expected_gain(state: PairPolicyState, posterior: StrengthPosterior) -> FloatArray:
    """Return the reduction of the expected loss by one more choice, for each pair.

    The loss is sum w_st E Phi(-|d_st| / sd_st) over pairs, d_st drawn from the posterior of the strengths, C its
    covariance. A choice between a and b adds i_ab to the information on x'strengths, x = e_a - e_b; so the variance of
    y'strengths, y = e_s - e_t, falls by i_ab (y'Cx)^2 / (1 + i_ab x'Cx). The gain is the loss's derivative times that.
    """
    a, b = state.pairs
    covariance, spread = posterior.covariance, np.diag(posterior.covariance)
    square = np.maximum(spread[a] + spread[b] - 2.0 * covariance[a, b], 1e-12)
    if "gap" not in state.batch:
        strengths = posterior.mean + state.draws @ np.linalg.cholesky(covariance).T
        state.batch["gap"] = np.abs(strengths[:_GAIN_DRAWS, a] - strengths[:_GAIN_DRAWS, b])
        state.batch["weight"] = question_weights(state.question, strengths)[a, b]
    gap = state.batch["gap"]
    steepness = (np.exp(gap**2 * (-0.5 / square)) * gap).mean(axis=0) / square**1.5 * state.batch["weight"]
    across = covariance[a] - covariance[b]  # P x M: row x'C
    shared = across[:, a] - across[:, b]  # P x P: x'C y
    information = posterior.information[a, b]
    gain: FloatArray = (shared**2 @ steepness) * information / (1.0 + information * square)
    return gain
