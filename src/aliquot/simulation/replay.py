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
        """Travel by name: the process that knows this stage already uses its own, with all it has computed on it."""
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
        return _receive, (self.token, self.evalset, *options)

    @cached_property
    def scores(self) -> FloatArray:
        """The human scores of everything."""
        return self.evalset.human_score()

    @cached_property
    def truth(self) -> Truth:
        """What judging everything says."""
        return compute_truth(self.scores, self.test)

    @cached_property
    def rounding(self) -> float:
        """Differences of means that are rounding only."""
        return _ROUNDING * float(np.abs(self.scores).max(initial=0.0))

    @cached_property
    def costs(self) -> FloatArray | None:
        """Every item's cost; None for unit costs."""
        return item_costs(self.evalset, self.cost)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The scale's ends: as given, or the least and the greatest score of all items (Saldias et al. 2022, 2.3)."""
        return self.value_range or (float(self.scores.min()), float(self.scores.max()))

    @property
    def plain(self) -> bool:
        """Whether a budget is just a number of items, so that a shorter budget is the start of a longer one."""
        return self.cost is None and self.unit == "item" and self.balance is None


_RECEIVED: dict[str, ReplaySet] = {}
MAX_RECEIVED = 16


def _receive(token: str, evalset: EvalSet, *options: Any) -> ReplaySet:
    """Unpack a stage in another process; the last few are kept, so that a set's metrics are standardised once."""
    if token not in _RECEIVED:
        while len(_RECEIVED) >= MAX_RECEIVED:
            _RECEIVED.pop(next(iter(_RECEIVED)))
        _RECEIVED[token] = ReplaySet(evalset, *options)
    return _RECEIVED[token]


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
    """Put replays on top of each other."""
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


def draw_items(stage: ReplaySet, plan: ReplayMethod, point: BudgetPoint, rng: np.random.Generator) -> ChosenRows:
    """Let the method choose for this budget."""
    n = stage.evalset.n_items
    share = max(point.share, MIN_ITEMS / n) if stage.plain else point.share
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        budget = resolve_budget(f"{100 * min(share, 1.0):.12g}%", n, stage.costs)
        if plan.selector.name == "incremental":
            return _draw_incrementally(stage, plan, budget.n, rng)
        task = build_task(
            stage.evalset, plan.selector, budget, stage.costs, balance=stage.balance, unit=stage.unit, seed=rng
        )
        return choose_rows(task, matching=stage.matching)


def _draw_incrementally(stage: ReplaySet, plan: ReplayMethod, n: int, rng: np.random.Generator) -> ChosenRows:
    """Incremental sampling: every item is chosen in the light of the scores of those before it, and of no other."""
    evalset = stage.evalset
    given = bind_parameters(plan.selector.name, find_method(plan.selector.name)[0].parameters, plan.selector.parameters)
    if "bins" not in given and evalset.documents is None:
        given["bins"] = "metric" if select_metrics(evalset, given.get("metrics")) else "id"
    sampler = Incremental(sort_for_drawing(evalset), **given, seed=rng)
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    rows = []
    for _ in range(n):
        item = sampler.next()
        rows.append(row_of[item])
        sampler.tell(item, dict(zip(evalset.systems, stage.scores[rows[-1]].tolist(), strict=True)))
    return ChosenRows(np.array(rows, dtype=np.int64), details={})


def replay_allocation(
    stage: ReplaySet, plan: ReplayMethod, points: Sequence[BudgetPoint], rng: np.random.Generator, *, watch: bool
) -> Iterator[Outcome | None]:
    """One adaptive campaign, looked at after each budget: a share of all cells, or of their cost."""
    given = ALLOCATE.bind(plan.selector.parameters)
    cells = max(1, round(points[-1].share * stage.scores.size))
    options = given | {"budget": cells, "cost": stage.cost, "protocol_scale": infer_scale(stage.evalset)}
    shares = [min(point.share, 1.0) for point in points]
    seed, stopped = int(rng.integers(2**31)), float("nan")
    for share, allocator in zip(
        shares, run_allocator(stage.evalset, stage.scores, shares, seed, options, stage.costs), strict=True
    ):
        chosen = allocator.selection()
        rows = np.array([allocator.rows[str(item)] for item in chosen.ids], dtype=np.int64)
        found = estimate_outcome(
            stage,
            plan,
            ChosenRows(
                rows,
                utility=chosen.utility,
                probability=chosen.probability,
                systems=chosen.systems,
                design=chosen.design,
            ),
            rng,
        )
        if watch and found is not None:
            picture = allocator.advice().picture
            stopped = share if picture.stop and np.isnan(stopped) else stopped
            wrong = count_wrong_decisions(picture, stage.evalset, stage.scores)
            found = replace(found, watched=(float(len(picture.decided)), float(wrong), stopped))
        yield found


def judge_items(stage: ReplaySet, chosen: ChosenRows) -> Sample:
    """Look at the human scores of what was chosen, and of nothing else."""
    rows = chosen.rows
    scores = stage.scores[rows]
    if chosen.systems is not None:
        asked = np.array([[name in names for name in stage.evalset.systems] for names in chosen.systems])
        scores = np.where(asked, scores, np.nan)
    weight = chosen.weight if chosen.weight is not None else np.ones(len(rows))
    design = chosen.design
    if design.rates is not None and chosen.utility is not None and chosen.probability is not None:
        cells = compute_cell_probability(chosen.utility, chosen.probability, design.rates, stage.evalset.systems)
        return adaptive_sample(stage.evalset, rows, scores, cells)
    return Sample(
        stage.evalset,
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
    stage: ReplaySet, plan: ReplayMethod, chosen: ChosenRows, rng: np.random.Generator
) -> Outcome | None:
    """Estimate from what was chosen; None where nothing was (whole documents may all be missed)."""
    if len(chosen.rows) < MIN_ITEMS:
        return None
    sample = judge_items(stage, chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        found = infer_means(sample, plan.estimator)
    values = np.where(np.abs(found.values - stage.truth.means) <= stage.rounding, stage.truth.means, found.values)
    half, centre = _compute_intervals(stage, found)
    return Outcome(
        values,
        half,
        _compute_p_for_spa(stage, plan, found, rng),
        found.p_sample,
        full_p(found),
        cluster_systems(found),
        _compute_cost(stage, sample),
        sample.n,
        sample.scores,
        centre=values if centre is None else centre,
    )


Interval = Literal["t", "hoeffding", "bernstein"]
INTERVALS = get_args(Interval)


def _compute_intervals(stage: ReplaySet, found: Inference) -> tuple[FloatArray, FloatArray | None]:
    """Half widths of the intervals that are asked for, and their middles where these are not the estimates."""
    if stage.interval == "t" and (found.scale is None or not np.isfinite(found.scale.low)):
        return found.half_widths(stage.level), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)  # a narrower range is noted once, not in every replay
        limits = compute_bounds(stage.interval, found, level=stage.level, value_range=stage.ends, seed=0)
    if stage.interval == "t":
        return (limits.high - limits.low) / 2, (limits.high + limits.low) / 2
    return limits.high - found.values, None


def describe_range(stage: ReplaySet) -> list[str]:
    """Note, once for all replays, that scores lie outside the range that was given."""
    note = None if stage.interval == "t" else range_note(stage.scores, stage.ends, stage.interval)
    return [f"{stage.evalset.name}: {note}"] if note is not None else []


def _compute_p_for_spa(stage: ReplaySet, plan: ReplayMethod, found: Inference, rng: np.random.Generator) -> FloatArray:
    """P-values for the soft pairwise accuracy: those of the test by which the truth's p-values are made.

    For other estimators than the plain mean, z from their covariance; without the finite-population correction,
    because the p-values of the whole set do not have it either.
    """
    sample = found.sample
    difference = found.values[:, None] - found.values[None, :]
    if sample.ragged:  # each system has its own finite-population factor: errors before it is taken off
        units = np.nan_to_num(found.errors)
        return normal_p(difference, pair_errors(units.T @ units))
    left = 1.0 - sample.n / sample.population
    plain = plan.estimator.name == "mean" and float(np.ptp(sample.weight)) == 0
    if plain or left <= 0:
        return compute_p_values(sample.scores, stage.test, rng)
    spread = found.pair_se / np.sqrt(left)
    p = normal_p(np.where(np.abs(difference) <= stage.rounding, 0.0, difference), spread)
    if (spread == 0).sum() > len(spread):  # pairs without any spread: what was seen of them, as a plain sample's test
        p = np.where(spread == 0, compute_p_values(sample.scores), p)
    return p


def _compute_cost(stage: ReplaySet, sample: Sample) -> float:
    """Cost of the judged cells, as a share of judging everything."""
    share = np.isfinite(sample.scores).mean(axis=1)
    costs = stage.costs if stage.costs is not None else np.ones(stage.evalset.n_items)
    return float((share * costs[sample.rows]).sum() / costs.sum())
