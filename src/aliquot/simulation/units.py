"""Units of work: all replays of one method at one budget (or, for fixed choices, at all budgets) on one set.

A unit's random numbers depend on the seed, the set, the method and the budget alone: so any number of processes, in
any order, with any other methods beside it, gives the same table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotError, AliquotWarning, OptionError
from aliquot.metric_eval.measures import Outcomes, SampleMeasure, select_measures
from aliquot.sampling.budgets import resolve_budget
from aliquot.sampling.select import build_task
from aliquot.sampling.tasks import ChosenRows, choose_rows
from aliquot.simulation.replay import (
    Outcome,
    ReplaySet,
    derive_replay_seeds,
    draw_items,
    estimate_outcome,
    replay_allocation,
    stack_outcomes,
)
from aliquot.simulation.setup import BASELINE, MIN_ITEMS, BudgetPoint, ReplayMethod
from aliquot.stats.arrays import FloatArray
from aliquot.stats.pairwise import prefix_spa, random_spa

# -- Units of work: all replays of one method at one budget (or, for fixed choices, at all budgets) on one set -------


SLOW_REPEAT_DIVISOR = 10
"""One in how many replays a method that searches is given."""


@dataclass(frozen=True)
class ReplayUnit:
    """What to replay: which set (by number and name), which method, at which budgets, how often."""

    set_number: int
    data: str
    plan: ReplayMethod
    points: tuple[BudgetPoint, ...]
    repeats: int
    seed: int

    @property
    def key(self) -> str:
        """The name under which a finished unit is remembered."""
        shares = ",".join(f"{point.share:.9g}" for point in self.points)
        return f"{self.data}|{self.plan.typed}|{shares}"


@dataclass(frozen=True)
class ReplayCell:
    """Mean and standard error of one measure over the replays of one method at one budget on one set.

    `items` is the mean number of judged items, `repeats` the number of replays that the measure could be told of.
    """

    data: str
    method: str
    budget: float
    share: float
    asked: bool
    measure: str
    value: float
    error: float
    items: float
    repeats: int


def run_unit(unit: ReplayUnit, stage: ReplaySet, measures: Sequence[str] | None) -> list[dict[str, Any]]:
    """Run all replays of a unit and give its cells as plain values."""
    wanted = select_measures(measures)
    cells: list[ReplayCell] = []
    with (
        threadpool_limits(limits=1),  # small matrices: threads cost more than they give, and processes do the rest
        name_errors(unit.data, unit.plan.typed),
    ):
        if stage.crowd is not None:
            return [vars(cell) for cell in _build_crowd_cells(unit, stage, wanted)]
        order = _draw_fixed_order(unit, stage) if unit.plan.is_fixed and stage.plain else None
        watch = any(measure.watched for measure in wanted)
        for point, outcomes in (
            _run_campaigns(unit, stage, watch) if unit.plan.is_adaptive else _run_replays(unit, stage, order)
        ):
            cells += _build_cells(unit, point, [o for o in outcomes if o is not None], stage, wanted)
        cells = _refine_cells(cells, unit, stage, order, wanted)
    return [vars(cell) for cell in cells]


@contextmanager
def name_errors(data: str, method: str) -> Iterator[None]:
    """Say on which set and with which method something went wrong."""
    try:
        yield
    except AliquotError as error:
        raise type(error)(f"method '{method}' on {data}: {str(error).removeprefix(f'{data}: ')}") from error


def _draw_fixed_order(unit: ReplayUnit, stage: ReplaySet) -> ChosenRows:
    """The order in which a fixed method takes all items."""
    everything = BudgetPoint(1.0, 1.0)
    return draw_items(stage, unit.plan, everything, _make_generator(unit, stage, everything, 0))


def _run_replays(
    unit: ReplayUnit, stage: ReplaySet, order: ChosenRows | None
) -> list[tuple[BudgetPoint, list[Outcome | None]]]:
    if order is not None:
        n = stage.evalset.n_items
        return [
            (
                point,
                [
                    estimate_outcome(
                        stage,
                        unit.plan,
                        _take_first(order, max(MIN_ITEMS, round(point.share * n))),
                        _make_generator(unit, stage, point, 0),
                    )
                ],
            )
            for point in unit.points
        ]
    found = []
    for point in unit.points:
        outcomes = []
        for repeat in range(unit.repeats):
            rng = _make_generator(unit, stage, point, repeat)
            outcomes.append(estimate_outcome(stage, unit.plan, draw_items(stage, unit.plan, point, rng), rng))
        found.append((point, outcomes))
    return found


def _run_campaigns(unit: ReplayUnit, stage: ReplaySet, watch: bool) -> list[tuple[BudgetPoint, list[Outcome | None]]]:
    """Adaptive campaigns, each run once through all budgets."""
    first = unit.points[0]
    runs = [
        list(replay_allocation(stage, unit.plan, unit.points, _make_generator(unit, stage, first, repeat), watch=watch))
        for repeat in range(unit.repeats)
    ]
    return [(point, [run[at] for run in runs]) for at, point in enumerate(unit.points)]


_SPA = "spa"
_EVERY_PREFIX = (_SPA, "accuracy", "mae")
"""Measures of a fixed order that are computed for every number of items, because sums over the order give them."""
_EXPECTATION_STREAM = 1 << 31  # no number of a repeat


def _refine_cells(
    cells: list[ReplayCell], unit: ReplayUnit, stage: ReplaySet, order: ChosenRows | None, measures: list[SampleMeasure]
) -> list[ReplayCell]:
    """Curves as eq. 12 of Zouhar et al. 2025 needs them, where the analytic test and plain means make them cheap.

    The accuracy of random samples is the target of every parity, and a flat curve turns a small error of the target
    into a large one of the parity: it is the mean over so many samples that its error is 0.0003. For a fixed order
    every prefix is looked at, from one item on, and not a grid only.
    """
    if not stage.plain or stage.test != "analytic" or not stage.matching or unit.plan.estimator.name != "mean":
        return cells
    if unit.plan.typed == BASELINE:
        return [
            _compute_expected_spa(cell, unit, stage) if cell.measure == _SPA and cell.asked else cell for cell in cells
        ]
    if order is None or all(point.asked for point in unit.points):
        return cells
    scores, n = stage.scores[order.rows], stage.evalset.n_items
    means = np.cumsum(scores, axis=0) / np.arange(1, n + 1)[:, None]
    nothing = np.full((n, 0), np.nan)
    prefixes = Outcomes(means, nothing, nothing, nothing, np.zeros((n, 0), dtype=np.int64), nothing)
    more = []
    for measure in measures:
        if measure.name in _EVERY_PREFIX:
            is_spa = measure.name == _SPA
            curve = prefix_spa(scores, stage.truth.p) if is_spa else measure.function(prefixes, stage.truth)
            taken = {round(cell.items) for cell in cells if cell.measure == measure.name}
            more += [
                ReplayCell(
                    unit.data, unit.plan.typed, k / n, k / n, False, measure.name, float(value), 0.0, float(k), 1
                )
                for k, value in enumerate(curve, start=1)
                if k not in taken
            ]
    return cells + more


def _compute_expected_spa(cell: ReplayCell, unit: ReplayUnit, stage: ReplaySet) -> ReplayCell:
    point = BudgetPoint(cell.budget, cell.share)
    items = max(MIN_ITEMS, round(cell.share * stage.evalset.n_items))
    found = random_spa(
        stage.scores, items, np.random.default_rng([*_derive_seeds(unit, stage, point), _EXPECTATION_STREAM])
    )
    return replace(cell, value=found.value, error=found.error, repeats=found.draws)


def _take_first(order: ChosenRows, n: int) -> ChosenRows:
    """The first n items of an ordering."""
    return ChosenRows(order.rows[:n], weight=None if order.weight is None else order.weight[:n], details=order.details)


def _make_generator(unit: ReplayUnit, stage: ReplaySet, point: BudgetPoint, repeat: int) -> np.random.Generator:
    return np.random.default_rng([*_derive_seeds(unit, stage, point), repeat])


def _derive_seeds(unit: ReplayUnit, stage: ReplaySet, point: BudgetPoint) -> list[int]:
    return derive_replay_seeds(unit.seed, stage.evalset, unit.plan, point.share)


def _build_cells(
    unit: ReplayUnit, point: BudgetPoint, outcomes: list[Outcome], stage: ReplaySet, measures: list[SampleMeasure]
) -> list[ReplayCell]:
    if not outcomes:
        empty = np.full(1, np.nan)
        values = {measure.name: empty for measure in measures}
    else:
        together = stack_outcomes(outcomes)
        values = {measure.name: measure.function(together, stage.truth) for measure in measures}
    items = float(np.mean([o.items for o in outcomes])) if outcomes else 0.0
    return [
        ReplayCell(
            unit.data,
            unit.plan.typed,
            point.written,
            point.share,
            point.asked,
            name,
            *_compute_mean_and_error(found, unit),
            items,
            int(np.isfinite(found).sum()),
        )
        for name, found in values.items()
    ]


def _build_crowd_cells(unit: ReplayUnit, stage: ReplaySet, measures: list[SampleMeasure]) -> list[ReplayCell]:
    """Cells of replays that each have a crowd, and so systems and a truth, of their own."""
    fresh = [_derive_seeds(unit, stage, point) for point in unit.points]
    values: list[dict[str, list[FloatArray]]] = [{m.name: [] for m in measures} for _ in unit.points]
    items: list[list[int]] = [[] for _ in unit.points]
    for _, rest, outcomes in run_crowd_replays(stage, unit.plan, unit.points, unit.repeats, unit.seed, fresh):
        for at, found in enumerate(outcomes):
            items[at] += [] if found is None else [found.items]
            for name, value in compute_measures(found, rest, measures).items():
                values[at][name].append(value)
    return [
        ReplayCell(
            unit.data,
            unit.plan.typed,
            point.written,
            point.share,
            point.asked,
            name,
            *_compute_mean_and_error(np.concatenate(found), unit),
            float(np.mean(items[at])) if items[at] else 0.0,
            int(np.isfinite(np.concatenate(found)).sum()),
        )
        for at, point in enumerate(unit.points)
        for name, found in values[at].items()
    ]


def _compute_mean_and_error(values: FloatArray, unit: ReplayUnit) -> tuple[float, float]:
    """Mean and its standard error over replays; a fixed choice has none (0: nothing was drawn by chance)."""
    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan"), float("nan")
    if len(known) == 1:
        return float(known[0]), 0.0 if unit.repeats == 1 else float("nan")
    return float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known)))


# -- An artificial crowd: utilities from the outputs of a few systems, truth and estimates about the others ----------


_CROWD_STREAM = 0xC0
MIN_CROWD_COVERAGE = 0.5


def validate_crowd(crowd: int | None, evalset: EvalSet) -> None:
    """Refuse a crowd that leaves no two systems to compare, or that cannot be found."""
    if crowd is None:
        return
    if not 1 <= crowd <= evalset.n_systems - 2:
        raise OptionError(
            f"{evalset.name}: a crowd of {crowd} of its {evalset.n_systems} systems; leave at least two to evaluate"
        )
    known = len(list_crowd_systems(evalset))
    if crowd > known:
        raise OptionError(f"{evalset.name}: a crowd of {crowd}, but only {known} systems have outputs and metrics")


def list_crowd_systems(evalset: EvalSet) -> list[int]:
    """Systems that a crowd may be drawn from: those with the outputs and some metric of at least half of the items."""
    there = np.ones(evalset.n_systems, dtype=np.bool_)
    if evalset.metrics:
        covered = [np.isfinite(evalset.scores[name]).mean(axis=0) >= MIN_CROWD_COVERAGE for name in evalset.metrics]
        there &= np.any(covered, axis=0)
    if evalset.outputs is not None:
        missing = [evalset.outputs[system].null_count() for system in evalset.systems]
        there &= np.array(missing) <= MIN_CROWD_COVERAGE * evalset.n_items
    return np.flatnonzero(there).tolist()


def draw_crowd(evalset: EvalSet, size: int, seed: int, repeat: int) -> list[str]:
    """The crowd of a replay: systems at random.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=5, systems=6)
    >>> len(draw_crowd(data, 4, 0, 1)), draw_crowd(data, 4, 0, 1) == draw_crowd(data, 4, 0, 1)
    (4, True)
    """
    rng = np.random.default_rng([seed, _CROWD_STREAM, int(evalset.fingerprint, 16), repeat])
    chosen = rng.choice(list_crowd_systems(evalset), size, replace=False)
    return [evalset.systems[at] for at in sorted(chosen.tolist())]


def exclude_crowd(stage: ReplaySet, crowd: Sequence[str]) -> ReplaySet:
    """The stage without the crowd: what is estimated, and what is true of it."""
    return ReplaySet(
        stage.evalset.drop(systems=list(crowd)),
        stage.cost,
        stage.unit,
        stage.balance,
        stage.matching,
        stage.test,
        stage.level,
        interval=stage.interval,
        value_range=stage.value_range,
    )


def run_crowd_replays(
    stage: ReplaySet,
    plan: ReplayMethod,
    points: Sequence[BudgetPoint],
    repeats: int,
    seed: int,
    fresh: Sequence[Sequence[int]],
) -> Iterator[tuple[int, ReplaySet, list[Outcome | None]]]:
    """Give, for each replay, its number, the stage of the others, and an outcome for each budget.

    `fresh` holds, for each budget, the numbers that seed its draws.
    """
    for repeat in range(repeats):
        crowd = draw_crowd(stage.evalset, stage.crowd or 0, seed, repeat)
        rest = exclude_crowd(stage, crowd)
        found: list[Outcome | None] = []
        order = None
        for point, numbers in zip(points, fresh, strict=True):
            rng = np.random.default_rng([*numbers, repeat])
            if plan.is_fixed and stage.plain:
                order = order or _choose_by_crowd(stage, plan, 1.0, crowd, rng)
                n = max(MIN_ITEMS, round(point.share * stage.evalset.n_items))
                chosen = ChosenRows(order.rows[:n], details=order.details)
            else:
                chosen = _choose_by_crowd(stage, plan, point.share, crowd, rng)
            found.append(estimate_outcome(rest, plan, chosen, rng))
        yield repeat, rest, found


def _choose_by_crowd(
    stage: ReplaySet, plan: ReplayMethod, share: float, crowd: Sequence[str], rng: np.random.Generator
) -> ChosenRows:
    """Let the method choose by the crowd's outputs and scores alone."""
    n = stage.evalset.n_items
    least = max(share, MIN_ITEMS / n) if stage.plain else share
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        budget = resolve_budget(f"{100 * min(least, 1.0):.12g}%", n, stage.costs)
        task = build_task(
            stage.evalset,
            plan.selector,
            budget,
            stage.costs,
            balance=stage.balance,
            unit=stage.unit,
            crowd=crowd,
            seed=rng,
        )
        return choose_rows(task, matching=stage.matching)


def compute_measures(
    found: Outcome | None, rest: ReplaySet, measures: Sequence[SampleMeasure]
) -> dict[str, FloatArray]:
    """Every measure of one replay against the truth about its own systems."""
    if found is None:
        return {measure.name: np.full(1, np.nan) for measure in measures}
    return {measure.name: measure.function(stack_outcomes([found]), rest.truth) for measure in measures}
