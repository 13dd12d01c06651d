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
    method: ReplayMethod
    points: tuple[BudgetPoint, ...]
    repeats: int
    seed: int

    @property
    def key(self) -> str:
        """Name of the unit in the journal."""
        shares = ",".join(f"{point.share:.9g}" for point in self.points)
        return f"{self.data}|{self.method.typed}|{shares}"


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


def run_unit(unit: ReplayUnit, replay_set: ReplaySet, measures: Sequence[str] | None) -> list[dict[str, Any]]:
    """Run all replays of a unit; return its cells as dictionaries."""
    selected = select_measures(measures)
    cells: list[ReplayCell] = []
    with (
        threadpool_limits(limits=1),  # small matrices: threads cost more than they give, and processes do the rest
        name_errors(unit.data, unit.method.typed),
    ):
        if replay_set.crowd is not None:
            return [vars(cell) for cell in _build_crowd_cells(unit, replay_set, selected)]
        order = _draw_fixed_order(unit, replay_set) if unit.method.is_fixed and replay_set.plain else None
        watch = any(measure.watched for measure in selected)
        for point, outcomes in (
            _run_campaigns(unit, replay_set, watch)
            if unit.method.is_adaptive
            else _run_replays(unit, replay_set, order)
        ):
            cells += _build_cells(unit, point, [o for o in outcomes if o is not None], replay_set, selected)
        cells = _refine_cells(cells, unit, replay_set, order, selected)
    return [vars(cell) for cell in cells]


@contextmanager
def name_errors(data: str, method: str) -> Iterator[None]:
    """Prefix errors with the method and the set."""
    try:
        yield
    except AliquotError as error:
        raise type(error)(f"method '{method}' on {data}: {str(error).removeprefix(f'{data}: ')}") from error


def _draw_fixed_order(unit: ReplayUnit, replay_set: ReplaySet) -> ChosenRows:
    """Return all items in the order of a fixed method."""
    everything = BudgetPoint(1.0, 1.0)
    return draw_items(replay_set, unit.method, everything, _make_generator(unit, replay_set, everything, 0))


def _run_replays(
    unit: ReplayUnit, replay_set: ReplaySet, order: ChosenRows | None
) -> list[tuple[BudgetPoint, list[Outcome | None]]]:
    if order is not None:
        n = replay_set.evalset.n_items
        return [
            (
                point,
                [
                    estimate_outcome(
                        replay_set,
                        unit.method,
                        _take_first(order, max(MIN_ITEMS, round(point.share * n))),
                        _make_generator(unit, replay_set, point, 0),
                    )
                ],
            )
            for point in unit.points
        ]
    results = []
    for point in unit.points:
        outcomes = []
        for repeat in range(unit.repeats):
            rng = _make_generator(unit, replay_set, point, repeat)
            outcomes.append(
                estimate_outcome(replay_set, unit.method, draw_items(replay_set, unit.method, point, rng), rng)
            )
        results.append((point, outcomes))
    return results


def _run_campaigns(
    unit: ReplayUnit, replay_set: ReplaySet, watch: bool
) -> list[tuple[BudgetPoint, list[Outcome | None]]]:
    """Run adaptive campaigns, each once through all budgets."""
    first = unit.points[0]
    runs = [
        list(
            replay_allocation(
                replay_set, unit.method, unit.points, _make_generator(unit, replay_set, first, repeat), watch=watch
            )
        )
        for repeat in range(unit.repeats)
    ]
    return [(point, [run[position] for run in runs]) for position, point in enumerate(unit.points)]


_SPA = "spa"
_EVERY_PREFIX = (_SPA, "accuracy", "mae")
"""Measures of a fixed order that are computed for every number of items, because sums over the order give them."""
_EXPECTATION_STREAM = 1 << 31  # no number of a repeat


def _refine_cells(
    cells: list[ReplayCell],
    unit: ReplayUnit,
    replay_set: ReplaySet,
    order: ChosenRows | None,
    measures: list[SampleMeasure],
) -> list[ReplayCell]:
    """Curves as eq. 12 of Zouhar et al. 2025 needs them, where the analytic test and plain means make them cheap.

    The accuracy of random samples is the target of every parity, and a flat curve turns a small error of the target
    into a large one of the parity: it is the mean over so many samples that its error is 0.0003. For a fixed order
    every prefix is looked at, from one item on, and not a grid only.
    """
    if (
        not replay_set.plain
        or replay_set.test != "analytic"
        or not replay_set.matching
        or unit.method.estimator.name != "mean"
    ):
        return cells
    if unit.method.typed == BASELINE:
        return [
            _compute_expected_spa(cell, unit, replay_set) if cell.measure == _SPA and cell.asked else cell
            for cell in cells
        ]
    if order is None or all(point.asked for point in unit.points):
        return cells
    scores, n = replay_set.scores[order.rows], replay_set.evalset.n_items
    means = np.cumsum(scores, axis=0) / np.arange(1, n + 1)[:, None]
    empty = np.full((n, 0), np.nan)
    prefixes = Outcomes(means, empty, empty, empty, np.zeros((n, 0), dtype=np.int64), empty)
    added = []
    for measure in measures:
        if measure.name in _EVERY_PREFIX:
            is_spa = measure.name == _SPA
            curve = prefix_spa(scores, replay_set.truth.p) if is_spa else measure.function(prefixes, replay_set.truth)
            existing = {round(cell.items) for cell in cells if cell.measure == measure.name}
            added += [
                ReplayCell(
                    unit.data, unit.method.typed, k / n, k / n, False, measure.name, float(value), 0.0, float(k), 1
                )
                for k, value in enumerate(curve, start=1)
                if k not in existing
            ]
    return cells + added


def _compute_expected_spa(cell: ReplayCell, unit: ReplayUnit, replay_set: ReplaySet) -> ReplayCell:
    point = BudgetPoint(cell.budget, cell.share)
    items = max(MIN_ITEMS, round(cell.share * replay_set.evalset.n_items))
    expected = random_spa(
        replay_set.scores, items, np.random.default_rng([*_derive_seeds(unit, replay_set, point), _EXPECTATION_STREAM])
    )
    return replace(cell, value=expected.value, error=expected.error, repeats=expected.draws)


def _take_first(order: ChosenRows, n: int) -> ChosenRows:
    """Return the first n items of an ordering."""
    return ChosenRows(order.rows[:n], weight=None if order.weight is None else order.weight[:n], details=order.details)


def _make_generator(unit: ReplayUnit, replay_set: ReplaySet, point: BudgetPoint, repeat: int) -> np.random.Generator:
    return np.random.default_rng([*_derive_seeds(unit, replay_set, point), repeat])


def _derive_seeds(unit: ReplayUnit, replay_set: ReplaySet, point: BudgetPoint) -> list[int]:
    return derive_replay_seeds(unit.seed, replay_set.evalset, unit.method, point.share)


def _build_cells(
    unit: ReplayUnit, point: BudgetPoint, outcomes: list[Outcome], replay_set: ReplaySet, measures: list[SampleMeasure]
) -> list[ReplayCell]:
    if not outcomes:
        empty = np.full(1, np.nan)
        values = {measure.name: empty for measure in measures}
    else:
        together = stack_outcomes(outcomes)
        values = {measure.name: measure.function(together, replay_set.truth) for measure in measures}
    items = float(np.mean([o.items for o in outcomes])) if outcomes else 0.0
    return [
        ReplayCell(
            unit.data,
            unit.method.typed,
            point.written,
            point.share,
            point.asked,
            name,
            *_compute_mean_and_error(values_of_measure, unit),
            items,
            int(np.isfinite(values_of_measure).sum()),
        )
        for name, values_of_measure in values.items()
    ]


def _build_crowd_cells(unit: ReplayUnit, replay_set: ReplaySet, measures: list[SampleMeasure]) -> list[ReplayCell]:
    """Return the cells of replays with a crowd: each replay has other systems and another truth."""
    seeds = [_derive_seeds(unit, replay_set, point) for point in unit.points]
    values: list[dict[str, list[FloatArray]]] = [{m.name: [] for m in measures} for _ in unit.points]
    items: list[list[int]] = [[] for _ in unit.points]
    for _, others, outcomes in run_crowd_replays(replay_set, unit.method, unit.points, unit.repeats, unit.seed, seeds):
        for index, found in enumerate(outcomes):
            items[index] += [] if found is None else [found.items]
            for name, value in compute_measures(found, others, measures).items():
                values[index][name].append(value)
    return [
        ReplayCell(
            unit.data,
            unit.method.typed,
            point.written,
            point.share,
            point.asked,
            name,
            *_compute_mean_and_error(np.concatenate(found), unit),
            float(np.mean(items[index])) if items[index] else 0.0,
            int(np.isfinite(np.concatenate(found)).sum()),
        )
        for index, point in enumerate(unit.points)
        for name, found in values[index].items()
    ]


def _compute_mean_and_error(values: FloatArray, unit: ReplayUnit) -> tuple[float, float]:
    """Return the mean over replays and its standard error, which is 0 for a fixed choice."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return float("nan"), float("nan")
    if len(finite) == 1:
        return float(finite[0]), 0.0 if unit.repeats == 1 else float("nan")
    return float(finite.mean()), float(finite.std(ddof=1) / np.sqrt(len(finite)))


# -- An artificial crowd: utilities from the outputs of a few systems, truth and estimates about the others ----------


_CROWD_STREAM = 0xC0
MIN_CROWD_COVERAGE = 0.5


def validate_crowd(crowd: int | None, evalset: EvalSet) -> None:
    """Raise OptionError for a crowd that leaves fewer than two systems, or exceeds the usable ones."""
    if crowd is None:
        return
    if not 1 <= crowd <= evalset.n_systems - 2:
        raise OptionError(
            f"{evalset.name}: a crowd of {crowd} of its {evalset.n_systems} systems; leave at least two to evaluate"
        )
    available = len(list_crowd_systems(evalset))
    if crowd > available:
        raise OptionError(f"{evalset.name}: a crowd of {crowd}, but only {available} systems have outputs and metrics")


def list_crowd_systems(evalset: EvalSet) -> list[int]:
    """Return the systems with outputs, and some metric, for at least half of the items."""
    is_available = np.ones(evalset.n_systems, dtype=np.bool_)
    if evalset.metrics:
        covered = [np.isfinite(evalset.scores[name]).mean(axis=0) >= MIN_CROWD_COVERAGE for name in evalset.metrics]
        is_available &= np.any(covered, axis=0)
    if evalset.outputs is not None:
        missing = [evalset.outputs[system].null_count() for system in evalset.systems]
        is_available &= np.array(missing) <= MIN_CROWD_COVERAGE * evalset.n_items
    return np.flatnonzero(is_available).tolist()


def draw_crowd(evalset: EvalSet, size: int, seed: int, repeat: int) -> list[str]:
    """Draw the systems of a replay's crowd.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=5, systems=6)
    >>> len(draw_crowd(data, 4, 0, 1)), draw_crowd(data, 4, 0, 1) == draw_crowd(data, 4, 0, 1)
    (4, True)
    """
    rng = np.random.default_rng([seed, _CROWD_STREAM, int(evalset.fingerprint, 16), repeat])
    chosen = rng.choice(list_crowd_systems(evalset), size, replace=False)
    return [evalset.systems[column] for column in sorted(chosen.tolist())]


def exclude_crowd(replay_set: ReplaySet, crowd: Sequence[str]) -> ReplaySet:
    """Return the set without the systems of the crowd."""
    return ReplaySet(
        replay_set.evalset.drop(systems=list(crowd)),
        replay_set.cost,
        replay_set.unit,
        replay_set.balance,
        replay_set.matching,
        replay_set.test,
        replay_set.level,
        interval=replay_set.interval,
        value_range=replay_set.value_range,
    )


def run_crowd_replays(
    replay_set: ReplaySet,
    method: ReplayMethod,
    points: Sequence[BudgetPoint],
    repeats: int,
    seed: int,
    seeds: Sequence[Sequence[int]],
) -> Iterator[tuple[int, ReplaySet, list[Outcome | None]]]:
    """Yield, for each replay, its number, the set of the other systems, and an outcome for each budget.

    `seeds` holds, for each budget, the numbers that seed its draws.
    """
    for repeat in range(repeats):
        crowd = draw_crowd(replay_set.evalset, replay_set.crowd or 0, seed, repeat)
        others = exclude_crowd(replay_set, crowd)
        outcomes: list[Outcome | None] = []
        order = None
        for point, numbers in zip(points, seeds, strict=True):
            rng = np.random.default_rng([*numbers, repeat])
            if method.is_fixed and replay_set.plain:
                order = order or _choose_by_crowd(replay_set, method, 1.0, crowd, rng)
                n = max(MIN_ITEMS, round(point.share * replay_set.evalset.n_items))
                chosen = ChosenRows(order.rows[:n], details=order.details)
            else:
                chosen = _choose_by_crowd(replay_set, method, point.share, crowd, rng)
            outcomes.append(estimate_outcome(others, method, chosen, rng))
        yield repeat, others, outcomes


def _choose_by_crowd(
    replay_set: ReplaySet, method: ReplayMethod, share: float, crowd: Sequence[str], rng: np.random.Generator
) -> ChosenRows:
    """Select items by the method from the outputs and scores of the crowd only."""
    n = replay_set.evalset.n_items
    min_share = max(share, MIN_ITEMS / n) if replay_set.plain else share
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        budget = resolve_budget(f"{100 * min(min_share, 1.0):.12g}%", n, replay_set.costs)
        task = build_task(
            replay_set.evalset,
            method.selector,
            budget,
            replay_set.costs,
            balance=replay_set.balance,
            unit=replay_set.unit,
            crowd=crowd,
            seed=rng,
        )
        return choose_rows(task, matching=replay_set.matching)


def compute_measures(
    outcome: Outcome | None, others: ReplaySet, measures: Sequence[SampleMeasure]
) -> dict[str, FloatArray]:
    """Return each measure of one replay against the truth of its systems."""
    if outcome is None:
        return {measure.name: np.full(1, np.nan) for measure in measures}
    return {measure.name: measure.function(stack_outcomes([outcome]), others.truth) for measure in measures}
