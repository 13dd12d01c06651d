"""Best subset of items: knapsack for utility within a budget, random search for the ranking of the whole set.

Invariant: the items of a knapsack never cost more than the budget (up to a relative 1e-9, so that 0.1 + 0.2 fits 0.3),
and `gap` bounds the distance of their utility from the best possible one. A subset of the search holds every item at
most once, and the accuracy returned is that of the subset returned.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CDLL
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed, row_blocks
from aliquot.stats.pairwise import analytic_p, pair_differences, permutation_p, spa, spa_from_sums
from aliquot.validation import at_least

_SLACK = 1e-9
"""Relative rounding allowed for the budget and for the solver's bound."""

_ROUNDING = 1e-12
"""Relative difference of totals that is rounding."""

_SCALE = 2.0**20
"""Scale of budget and bound for HiGHS: its absolute tolerances of 1e-6 become relative ones of 1e-12."""

_CORE_SIZES = (64, 512, 4096)
"""Items per HiGHS program; it ignores its time limit on far larger ones."""

_TINY_CORE = 16
"""Number of undecided items up to which the optimum is always proven, because that is fast."""

_MAX_COVERS = 50
"""Rounded solutions beyond the budget that are cut off before the greedy one is used."""


@dataclass(frozen=True)
class KnapsackResult:
    """Solution of a knapsack problem."""

    chosen: IntArray  # positions of the chosen items, ascending
    utility: float  # their total utility
    cost: float  # their total cost
    gap: float  # proven bound on (best possible utility - utility) / best possible utility
    optimal: bool  # whether the gap is zero up to rounding


@dataclass(frozen=True)
class _Relaxation:
    """Dantzig's solution of the linear relaxation, over items sorted by utility per cost.

    It takes the items before `stop` and a fraction of that one, for a utility of `bound`. `loss` is the decrease of the
    bound when an item is decided the other way, ascending; `by_loss` are the items in that order.
    """

    stop: int
    bound: float
    by_loss: IntArray
    loss: FloatArray


def knapsack(
    utility: FloatArray, cost: FloatArray, budget: float, *, time_limit: float = 10.0, gap: float = 1e-6
) -> KnapsackResult:
    """Maximise sum(utility) subject to sum(cost) <= budget (Zouhar et al. 2025, eq. 2).

    Items that the linear relaxation decides are fixed; HiGHS solves the rest. Free items are always taken; items
    without utility only if everything fits. After `time_limit` seconds the best solution so far is returned with its
    gap; `gap=0` requires the proven optimum.

    >>> best = knapsack(np.array([6.0, 5.0, 5.0]), np.array([0.25, 0.1, 0.2]), 0.3)
    >>> best.chosen, best.utility, best.optimal
    (array([1, 2]), 10.0, True)
    """
    _validate_knapsack(utility, cost, budget, time_limit, gap)
    if _fits_budget(cost, budget):
        return _build_result(np.arange(len(cost)), utility, cost, bound=0.0)
    free = np.flatnonzero(cost == 0)
    open_items = np.flatnonzero((cost > 0) & (cost <= budget * (1 + _SLACK)) & (utility > 0))
    if _fits_budget(cost[open_items], budget):
        return _build_result(np.concatenate([free, open_items]), utility, cost, bound=0.0)
    with np.errstate(over="ignore"):
        ratio = utility[open_items] / cost[open_items]
    ranked = open_items[np.argsort(-ratio, kind="stable")]
    chosen, bound = _solve_ranked(utility[ranked], cost[ranked], budget, time_limit, gap)
    return _build_result(np.concatenate([free, ranked[chosen]]), utility, cost, bound + math.fsum(utility[free]))


def _validate_knapsack(utility: FloatArray, cost: FloatArray, budget: float, time_limit: float, gap: float) -> None:
    for name, values in (("utility", utility), ("cost", cost)):
        if values.ndim != 1 or len(values) != len(cost):
            raise OptionError(f"`{name}` has shape {values.shape}; give one number for each of the {len(cost)} items")
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            raise OptionError(f"`{name}`[{bad[0]}] is {values[bad[0]]}; give finite numbers of at least 0")
    for name, value in (("budget", budget), ("time_limit", time_limit), ("gap", gap)):
        if not value >= 0:
            raise OptionError(f"`{name}` is {value}; give a number of at least 0")


def _fits_budget(cost: FloatArray, budget: float) -> bool:
    return math.fsum(cost) <= budget * (1 + _SLACK)


def _build_result(chosen: IntArray, utility: FloatArray, cost: FloatArray, bound: float) -> KnapsackResult:
    """Sum up the chosen items; a bound below their utility is rounding and proves them optimal."""
    total = math.fsum(utility[chosen])
    proven = max(0.0, (bound - total) / bound) if bound > 0 else 0.0
    return KnapsackResult(
        chosen=np.sort(chosen).astype(np.int64),
        utility=total,
        cost=math.fsum(cost[chosen]),
        gap=proven,
        optimal=proven <= _SLACK,
    )


def _solve_ranked(
    utility: FloatArray, cost: FloatArray, budget: float, time_limit: float, gap: float
) -> tuple[IntArray, float]:
    """Choose among items sorted by ratio; also return an upper bound of the optimum.

    The core are the undecided items: those whose reduced cost is below the gap of bound and incumbent. A core that is
    too large is first solved in its most uncertain part, which nearly always closes the gap.
    """
    capacity, deadline = budget * (1 + _SLACK), monotonic() + time_limit
    relaxed = _solve_relaxation(utility, cost, capacity)
    chosen = _take_greedily(cost, budget * (1 + _SLACK / 2))
    for size in _CORE_SIZES:
        value = math.fsum(utility[chosen])
        doubt = relaxed.bound - value
        core = relaxed.by_loss[: np.searchsorted(relaxed.loss, doubt + _ROUNDING * relaxed.bound)]
        is_complete = len(core) <= size
        slack = 0.0 if len(core) <= _TINY_CORE else gap * relaxed.bound
        if doubt <= max(slack, _ROUNDING * relaxed.bound) or monotonic() >= deadline:
            break
        core = core[:size]
        fixed = np.setdiff1d(np.arange(relaxed.stop), core, assume_unique=True)
        room, base = capacity - math.fsum(cost[fixed]), math.fsum(utility[fixed])
        seconds = (deadline - monotonic()) * (1.0 if is_complete else 0.3)
        picked, core_bound = _solve_core(
            utility[core], cost[core], room, seconds, slack if is_complete else max(slack, doubt / 10)
        )
        if picked is not None and base + math.fsum(utility[core[picked]]) > value:
            chosen = np.concatenate([fixed, core[picked]])
        if is_complete:
            # Solutions outside the core are worth at most the incumbent, those inside at most its bound.
            return chosen, min(relaxed.bound, max(value, base + core_bound))
    return chosen, relaxed.bound


def _solve_relaxation(utility: FloatArray, cost: FloatArray, capacity: float) -> _Relaxation:
    """Solve the linear relaxation: take items by ratio, and a fraction of the first that does not fit."""
    spent = np.cumsum(cost)
    stop = min(int(np.searchsorted(spent, capacity, side="right")), len(cost) - 1)
    room = capacity - math.fsum(cost[:stop])
    price = utility[stop] / cost[stop]
    loss = np.abs(utility - price * cost)
    # Among ties the items around the break come first: improving a solution takes both kinds.
    by_loss = np.lexsort((np.abs(np.arange(len(cost)) - stop), loss))
    return _Relaxation(stop, math.fsum(utility[:stop]) + room * price, by_loss, loss[by_loss])


def _take_greedily(cost: FloatArray, capacity: float) -> IntArray:
    """Take items in order whenever they fit; in runs, so that 100,000 items need a few passes only."""
    runs: list[IntArray] = []
    remaining, room = np.arange(len(cost)), capacity
    while len(remaining := remaining[cost[remaining] <= room]):
        run = int(np.searchsorted(np.cumsum(cost[remaining]), room, side="right"))
        runs.append(remaining[:run])
        remaining, room = remaining[run:], room - math.fsum(cost[remaining[:run]])
    return np.concatenate([np.arange(0), *runs])


def _solve_core(
    utility: FloatArray, cost: FloatArray, capacity: float, time_limit: float, slack: float
) -> tuple[IntArray | None, float]:
    """Solve the core with HiGHS, to an absolute `slack`; None if it found nothing in time.

    HiGHS allows violations within a tolerance. A rounded solution that costs too much in exact arithmetic is therefore
    cut off (not all of these items) and the program solved again.
    """
    usable = np.flatnonzero(cost <= capacity)
    utility, cost = utility[usable], cost[usable]
    bound, deadline = math.fsum(utility), monotonic() + time_limit
    if math.fsum(cost) <= capacity:
        return usable, bound
    covers: list[IntArray] = []
    while len(covers) <= _MAX_COVERS and (seconds := deadline - monotonic()) > 0:
        outcome = _run_highs(utility, cost, capacity, covers, seconds, slack)
        if outcome.mip_dual_bound is not None:
            bound = min(bound, -outcome.mip_dual_bound * math.fsum(utility) / _SCALE)
        if outcome.x is None:
            break
        picked = np.flatnonzero(outcome.x > 0.5)
        if math.fsum(cost[picked]) <= capacity:
            return usable[picked], bound
        covers.append(picked)
    return None, bound


def _run_highs(
    utility: FloatArray, cost: FloatArray, capacity: float, covers: list[IntArray], seconds: float, slack: float
) -> Any:
    """Solve one integer program, scaled so that the solver's absolute tolerances do not matter."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415  (slow to import)

    total = math.fsum(utility)
    rows = np.zeros((1 + len(covers), len(cost)))
    rows[0] = cost * (_SCALE / capacity)
    for row, cover in zip(rows[1:], covers, strict=True):
        row[cover] = 1.0
    limits = np.array([_SCALE, *(len(cover) - 1.0 for cover in covers)])
    with _silence_stdout():
        return milp(
            c=utility * (-_SCALE / total),
            integrality=np.ones(len(cost)),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(rows, -np.inf, limits),
            options={"time_limit": seconds, "mip_rel_gap": slack / total},
        )


_stdout_lock = Lock()


@contextmanager
def _silence_stdout() -> Iterator[None]:
    """Silence standard output: HiGHS prints a debugging line in C (jump-dev/HiGHS.jl#312) even if told to be silent.

    The lock is needed because two threads that save and restore descriptor 1 could lose it.
    """
    if os.name != "posix":
        yield
        return
    with _stdout_lock:
        sys.stdout.flush()
        c_library = CDLL(None)
        c_library.fflush(None)
        saved, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        try:
            yield
        finally:
            c_library.fflush(None)
            os.dup2(saved, 1)
            os.close(saved)
            os.close(nowhere)


# -- Random search for the subset that ranks systems like the whole set ------------------------------------------------


SubsetScorer = Callable[[IntArray, IntArray], FloatArray]
"""Maps chosen items and extensions (one per row) to the accuracies of their unions."""

_CHUNK = 1 << 22
"""Random numbers in memory at once."""


def best_random_subset(
    scores: FloatArray,
    n: int,
    simulations: int = 1000,
    seed: Seed = 0,
    start: IntArray | None = None,
    *,
    analytic: bool = True,
    permutations: int = 1000,
) -> tuple[IntArray, float]:
    """Return the best of many random subsets of n items by soft pairwise accuracy (Zouhar et al. 2025, appendix A).

    Every subset contains `start`, returned first. P-values by sign flips (`analytic=False`) are a hundred times slower.

    >>> scores = np.random.default_rng(0).normal(size=(40, 3)) + np.arange(3)
    >>> chosen, accuracy = best_random_subset(scores, 10, simulations=50, seed=1)
    >>> len(set(chosen.tolist())), bool(accuracy > 0.9)
    (10, True)
    """
    fixed = np.empty(0, dtype=np.int64) if start is None else np.asarray(start, dtype=np.int64)
    _validate_search(scores, n, simulations, fixed)
    rng = np.random.default_rng(seed)
    score = _analytic_scorer(scores) if analytic else _permutation_scorer(scores, permutations, rng)
    return _best_extension(score, len(scores), fixed, n - len(fixed), simulations, rng)


def greedy_subset(
    scores: FloatArray, n: int, simulations: int = 1000, step: int = 10, seed: Seed = 0
) -> tuple[IntArray, float]:
    """Grow a subset by the best of many random extensions of `step` items (Zouhar et al. 2025, eq. 13).

    >>> scores = np.random.default_rng(0).normal(size=(40, 3)) + np.arange(3)
    >>> chosen, accuracy = greedy_subset(scores, 10, simulations=50, step=4, seed=1)
    >>> len(set(chosen.tolist())), bool(accuracy > 0.9)
    (10, True)
    """
    chosen = np.empty(0, dtype=np.int64)
    _validate_search(scores, n, simulations, chosen)
    at_least("step", step, 1, "add at least 1 item at a time")
    rng, score, accuracy = np.random.default_rng(seed), _analytic_scorer(scores), float("nan")
    while len(chosen) < n:
        chosen, accuracy = _best_extension(score, len(scores), chosen, min(step, n - len(chosen)), simulations, rng)
    return chosen, accuracy


def _validate_search(scores: FloatArray, n: int, simulations: int, start: IntArray) -> None:
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise OptionError(f"`scores` has shape {scores.shape}; give an items x systems table with at least 2 systems")
    at_least("simulations", simulations, 1)
    if len(np.unique(start)) < len(start) or ((start < 0) | (start >= len(scores))).any():
        raise OptionError(f"`start` must be different positions from 0 to {len(scores) - 1}")
    if not max(1, len(start)) <= n <= len(scores):
        raise OptionError(f"`n` is {n}; give a number from {max(1, len(start))} to {len(scores)}, the number of items")


def _analytic_scorer(scores: FloatArray) -> SubsetScorer:
    """Score subsets by analytic p-values: sums of d and d^2 over a subset are one sparse product."""
    difference = pair_differences(scores)
    terms = np.hstack([difference, difference**2])
    target = analytic_p(scores)

    def score_subsets(start: IntArray, extensions: IntArray) -> FloatArray:
        count, width = extensions.shape
        bounds = np.arange(0, count * width + 1, width) if width else np.zeros(count + 1, dtype=np.int64)
        member = csr_array((np.ones(count * width), extensions.ravel(), bounds), shape=(count, len(scores)))
        sums = terms[start].sum(axis=0) + member @ terms
        pairs = difference.shape[1]
        return spa_from_sums(sums[:, :pairs], sums[:, pairs:], target)

    return score_subsets


def _permutation_scorer(scores: FloatArray, permutations: int, rng: np.random.Generator) -> SubsetScorer:
    """Score subsets by the sign-flip test, with shared flips, so that chance does not choose."""
    flips = int(rng.integers(2**62))
    target = permutation_p(scores, permutations, flips)

    def score_subsets(start: IntArray, extensions: IntArray) -> FloatArray:
        subsets = [np.concatenate([start, extension]) for extension in extensions]
        return np.array([spa(permutation_p(scores[subset], permutations, flips), target) for subset in subsets])

    return score_subsets


def _best_extension(
    score: SubsetScorer, items: int, start: IntArray, size: int, simulations: int, rng: np.random.Generator
) -> tuple[IntArray, float]:
    """Return `start` with the best of `simulations` random extensions, and its accuracy."""
    pool = np.setdiff1d(np.arange(items), start)
    best, accuracy = start, -np.inf
    if not size:
        return start, float(score(start, np.empty((1, 0), dtype=np.int64))[0])
    for block in row_blocks(simulations, items, _CHUNK):
        keys = rng.random((block.stop - block.start, len(pool)))
        extensions = pool[np.argpartition(keys, size - 1, axis=1)[:, :size]]
        values = score(start, extensions)
        top = int(np.argmax(values))
        if values[top] > accuracy:
            best, accuracy = np.concatenate([start, np.sort(extensions[top])]), float(values[top])
    return best, accuracy
