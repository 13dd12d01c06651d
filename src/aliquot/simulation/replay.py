"""One replay: choose items, look at the human scores of those only, estimate, keep what is compared with the truth."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args
from uuid import uuid4

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.registry import bind_parameters
from aliquot.core.selection import compute_cell_probability
from aliquot.errors import AliquotWarning
from aliquot.estimation.intervals import IntervalKind, compute_bounds, range_note
from aliquot.estimation.pipeline import Inference, infer_means, pair_errors
from aliquot.estimation.ranking import cluster_systems, full_p
from aliquot.estimation.sample import Sample, adaptive_sample
from aliquot.metric_eval.measures import Outcomes, Truth, compute_p_values, compute_truth
from aliquot.sampling.active import Incremental
from aliquot.sampling.budgets import item_costs, resolve_budget
from aliquot.sampling.drawing_order import sort_for_drawing
from aliquot.sampling.item_scores import infer_scale, select_metrics
from aliquot.sampling.methods import find_method
from aliquot.sampling.select import build_task
from aliquot.sampling.tasks import ChosenRows, choose_rows
from aliquot.simulation.adaptive import count_wrong_decisions, run_allocator
from aliquot.simulation.setup import ALLOCATE, MIN_ITEMS, BudgetPoint, ReplayMethod
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.ranks import normal_p

_ROUNDING = 1e-12  # relative to the largest score: less is the order of summing, not a difference


@dataclass(frozen=True, eq=False)
class ReplaySet:
    """A set whose truth is known, and how the replays on it are run."""

    evalset: EvalSet
    cost: str | None = None
    unit: str = "item"
    balance: str | None = None
    matching: bool = True
    test: str = "analytic"
    level: float = 0.95
    crowd: int | None = None
    interval: IntervalKind = "t"
    value_range: tuple[float, float] | None = None
    token: str = field(init=False, repr=False, default_factory=lambda: uuid4().hex)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with a token, so that a worker process reuses its copy and what it has cached on it."""
        options = (
            self.cost,
            self.unit,
            self.balance,
            self.matching,
            self.test,
            self.level,
            self.crowd,
            self.interval,
            self.value_range,
        )
        return _restore_replay_set, (self.token, self.evalset, *options)

    @cached_property
    def scores(self) -> FloatArray:
        """Human scores of all items, items x systems."""
        return self.evalset.human_score()

    @cached_property
    def truth(self) -> Truth:
        """Means and p-values from all items."""
        return compute_truth(self.scores, self.test)

    @cached_property
    def rounding(self) -> float:
        """Size below which a difference of means is rounding error."""
        return _ROUNDING * float(np.abs(self.scores).max(initial=0.0))

    @cached_property
    def costs(self) -> FloatArray | None:
        """Cost of each item; None for unit costs."""
        return item_costs(self.evalset, self.cost)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Ends of the scale: `value_range`, or the extreme scores of all items (Saldias et al. 2022, 2.3)."""
        return self.value_range or (float(self.scores.min()), float(self.scores.max()))

    @property
    def plain(self) -> bool:
        """Whether a budget is just a number of items, so that a shorter budget is the start of a longer one."""
        return self.cost is None and self.unit == "item" and self.balance is None


_REPLAY_SETS: dict[str, ReplaySet] = {}
MAX_REPLAY_SETS = 16


def _restore_replay_set(token: str, evalset: EvalSet, *options: Any) -> ReplaySet:
    """Unpickle a set in a worker process; the last few are kept with what was computed on them."""
    if token not in _REPLAY_SETS:
        while len(_REPLAY_SETS) >= MAX_REPLAY_SETS:
            _REPLAY_SETS.pop(next(iter(_REPLAY_SETS)))
        _REPLAY_SETS[token] = ReplaySet(evalset, *options)
    return _REPLAY_SETS[token]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one replay gives: `p_sample`, `p_full`, half widths and clusters as `estimate` gives them, `p` for SPA.

    Half widths are NaN where no interval can be given.
    """

    means: FloatArray
    half: FloatArray
    p: FloatArray
    p_sample: FloatArray
    p_full: FloatArray
    clusters: IntArray
    cost: float
    items: int
    scores: FloatArray  # of the judged items
    centre: FloatArray = field(default_factory=lambda: np.zeros(0))  # of the intervals
    # of adaptive campaigns that are watched: pairs decided, of them wrongly, and the cost at which it said stop
    watched: tuple[float, float, float] = (float("nan"), float("nan"), float("nan"))


def stack_outcomes(outcomes: list[Outcome]) -> Outcomes:
    """Stack the outcomes of replays into arrays."""
    return Outcomes(
        np.array([o.means for o in outcomes]),
        np.array([o.half for o in outcomes]),
        np.array([o.p for o in outcomes]),
        np.array([o.p_full for o in outcomes]),
        np.array([o.clusters for o in outcomes]),
        np.array([o.cost for o in outcomes]),
        tuple(o.scores for o in outcomes),
        np.array([o.watched for o in outcomes]),
        np.array([o.centre for o in outcomes]),
    )


def derive_replay_seeds(seed: int, evalset: EvalSet, method: ReplayMethod, share: float) -> list[int]:
    """Seed the replays of a method at a share of the items; `simulate` and `plan` replay the same draws."""
    return [seed, int(evalset.fingerprint, 16), zlib.crc32(method.typed.encode()), round(share * 1e9)]


def draw_items(replay_set: ReplaySet, method: ReplayMethod, point: BudgetPoint, rng: np.random.Generator) -> ChosenRows:
    """Select items by the method within the budget."""
    n = replay_set.evalset.n_items
    share = max(point.share, MIN_ITEMS / n) if replay_set.plain else point.share
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        budget = resolve_budget(f"{100 * min(share, 1.0):.12g}%", n, replay_set.costs)
        if method.selector.name == "incremental":
            return _draw_incrementally(replay_set, method, budget.n, rng)
        task = build_task(
            replay_set.evalset,
            method.selector,
            budget,
            replay_set.costs,
            balance=replay_set.balance,
            unit=replay_set.unit,
            seed=rng,
        )
        return choose_rows(task, matching=replay_set.matching)


def _draw_incrementally(replay_set: ReplaySet, method: ReplayMethod, n: int, rng: np.random.Generator) -> ChosenRows:
    """Draw by incremental sampling: each item is chosen from the scores of those before it."""
    evalset = replay_set.evalset
    parameters = bind_parameters(
        method.selector.name, find_method(method.selector.name)[0].parameters, method.selector.parameters
    )
    if "bins" not in parameters and evalset.documents is None:
        parameters["bins"] = "metric" if select_metrics(evalset, parameters.get("metrics")) else "id"
    sampler = Incremental(sort_for_drawing(evalset), **parameters, seed=rng)
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    rows = []
    for _ in range(n):
        item = sampler.next()
        rows.append(row_of[item])
        sampler.tell(item, dict(zip(evalset.systems, replay_set.scores[rows[-1]].tolist(), strict=True)))
    return ChosenRows(np.array(rows, dtype=np.int64), details={})


def replay_allocation(
    replay_set: ReplaySet, method: ReplayMethod, points: Sequence[BudgetPoint], rng: np.random.Generator, *, watch: bool
) -> Iterator[Outcome | None]:
    """Run one adaptive campaign and yield an outcome at each budget: a share of all cells, or of their cost."""
    parameters = ALLOCATE.bind(method.selector.parameters)
    cells = max(1, round(points[-1].share * replay_set.scores.size))
    options = parameters | {"budget": cells, "cost": replay_set.cost, "protocol_scale": infer_scale(replay_set.evalset)}
    shares = [min(point.share, 1.0) for point in points]
    seed, stopped = int(rng.integers(2**31)), float("nan")
    for share, allocator in zip(
        shares,
        run_allocator(replay_set.evalset, replay_set.scores, shares, seed, options, replay_set.costs),
        strict=True,
    ):
        chosen = allocator.selection()
        rows = np.array([allocator.rows[str(item)] for item in chosen.ids], dtype=np.int64)
        outcome = estimate_outcome(
            replay_set,
            method,
            ChosenRows(
                rows,
                utility=chosen.utility,
                probability=chosen.probability,
                systems=chosen.systems,
                design=chosen.design,
            ),
            rng,
        )
        if watch and outcome is not None:
            picture = allocator.advice().picture
            stopped = share if picture.stop and np.isnan(stopped) else stopped
            wrong = count_wrong_decisions(picture, replay_set.evalset, replay_set.scores)
            outcome = replace(outcome, watched=(float(len(picture.decided)), float(wrong), stopped))
        yield outcome


def judge_items(replay_set: ReplaySet, chosen: ChosenRows) -> Sample:
    """Return the sample with the human scores of the chosen items only."""
    rows = chosen.rows
    scores = replay_set.scores[rows]
    if chosen.systems is not None:
        is_asked = np.array([[name in names for name in replay_set.evalset.systems] for names in chosen.systems])
        scores = np.where(is_asked, scores, np.nan)
    weight = chosen.weight if chosen.weight is not None else np.ones(len(rows))
    design = chosen.design
    if design.rates is not None and chosen.utility is not None and chosen.probability is not None:
        cells = compute_cell_probability(chosen.utility, chosen.probability, design.rates, replay_set.evalset.systems)
        return adaptive_sample(replay_set.evalset, rows, scores, cells)
    return Sample(
        replay_set.evalset,
        rows,
        scores,
        chosen.probability,
        weight if chosen.probability is None else 1.0 / chosen.probability,
        kind=design.variance,
        stratum=_stratum_codes(chosen.stratum),
        remainder=design.remainder,
    )


def _stratum_codes(stratum: IntArray | None) -> IntArray | None:
    return None if stratum is None else np.unique(stratum, return_inverse=True)[1].astype(np.int64)


def estimate_outcome(
    replay_set: ReplaySet, method: ReplayMethod, chosen: ChosenRows, rng: np.random.Generator
) -> Outcome | None:
    """Estimate from the chosen items; None for fewer than two (no whole document may fit the budget)."""
    if len(chosen.rows) < MIN_ITEMS:
        return None
    sample = judge_items(replay_set, chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        inference = infer_means(sample, method.estimator)
    values = np.where(
        np.abs(inference.values - replay_set.truth.means) <= replay_set.rounding,
        replay_set.truth.means,
        inference.values,
    )
    half, centre = _compute_intervals(replay_set, inference)
    return Outcome(
        values,
        half,
        _compute_p_for_spa(replay_set, method, inference, rng),
        inference.p_sample,
        full_p(inference),
        cluster_systems(inference),
        _compute_cost(replay_set, sample),
        sample.n,
        sample.scores,
        centre=values if centre is None else centre,
    )


Interval = Literal["t", "hoeffding", "bernstein"]
INTERVALS = get_args(Interval)


def _compute_intervals(replay_set: ReplaySet, inference: Inference) -> tuple[FloatArray, FloatArray | None]:
    """Return half widths of the intervals, and their middles where these are not the estimates."""
    if replay_set.interval == "t" and (inference.scale is None or not np.isfinite(inference.scale.low)):
        return inference.half_widths(replay_set.level), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)  # a narrower range is noted once, not in every replay
        limits = compute_bounds(
            replay_set.interval, inference, level=replay_set.level, value_range=replay_set.ends, seed=0
        )
    if replay_set.interval == "t":
        return (limits.high - limits.low) / 2, (limits.high + limits.low) / 2
    return limits.high - inference.values, None


def describe_range(replay_set: ReplaySet) -> list[str]:
    """Return a note if scores lie outside `value_range`; it is given once for all replays."""
    note = None if replay_set.interval == "t" else range_note(replay_set.scores, replay_set.ends, replay_set.interval)
    return [f"{replay_set.evalset.name}: {note}"] if note is not None else []


def _compute_p_for_spa(
    replay_set: ReplaySet, method: ReplayMethod, inference: Inference, rng: np.random.Generator
) -> FloatArray:
    """Return p-values for soft pairwise accuracy, by the same test as those of the truth.

    For other estimators than the plain mean, z from their covariance; without the finite-population correction,
    because the p-values of the whole set do not have it either.
    """
    sample = inference.sample
    difference = inference.values[:, None] - inference.values[None, :]
    if sample.ragged:  # each system has its own finite-population factor: errors before it is taken off
        units = np.nan_to_num(inference.errors)
        return normal_p(difference, pair_errors(units.T @ units))
    unjudged_share = 1.0 - sample.n / sample.population
    plain = method.estimator.name == "mean" and float(np.ptp(sample.weight)) == 0
    if plain or unjudged_share <= 0:
        return compute_p_values(sample.scores, replay_set.test, rng)
    spread = inference.pair_se / np.sqrt(unjudged_share)
    p = normal_p(np.where(np.abs(difference) <= replay_set.rounding, 0.0, difference), spread)
    if (spread == 0).sum() > len(spread):  # pairs without any spread: what was seen of them, as a plain sample's test
        p = np.where(spread == 0, compute_p_values(sample.scores), p)
    return p


def _compute_cost(replay_set: ReplaySet, sample: Sample) -> float:
    """Return the cost of the judged cells as a share of the cost of all."""
    share = np.isfinite(sample.scores).mean(axis=1)
    costs = replay_set.costs if replay_set.costs is not None else np.ones(replay_set.evalset.n_items)
    return float((share * costs[sample.rows]).sum() / costs.sum())
