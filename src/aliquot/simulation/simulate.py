"""`simulate`: replay past campaigns as if only a budget of items had been judged, and compare with the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from aliquot.core import memory
from aliquot.core.columns import group_codes
from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_tasks
from aliquot.core.progress import Progress, ProgressLike, resolve_progress
from aliquot.core.result import make_signature
from aliquot.errors import DataError, OptionError
from aliquot.estimation.intervals import check_level
from aliquot.io.inputs import DataLike, as_evalsets
from aliquot.io.journal import Journal, open_journal
from aliquot.io.overwrite import protect_inputs
from aliquot.metric_eval.measures import TESTS, select_measures
from aliquot.sampling.cost_line import FITTED, fit_item_costs
from aliquot.sampling.select import UNITS
from aliquot.simulation.replay import (
    INTERVALS,
    ReplaySet,
    describe_range,
    draw_items,
    estimate_outcome,
    replay_allocation,
)
from aliquot.simulation.result import Simulation
from aliquot.simulation.setup import (
    BASELINE,
    DEFAULT_BUDGETS,
    BudgetPoint,
    ReplayMethod,
    add_dense_points,
    add_parity_points,
    keep_complete,
    number_duplicates,
    parse_budgets,
    parse_methods,
    resolve_method,
    validate_method,
    validate_repeats,
)
from aliquot.simulation.summary import summarise_methods
from aliquot.simulation.units import SLOW_REPEAT_DIVISOR, ReplayCell, ReplayUnit, name_errors, run_unit, validate_crowd
from aliquot.validation import above, at_least, invalid, one_of

DEFAULT_METHODS = ("random", "auto")
MIN_BASELINE_REPEATS = 100


@protect_inputs()
def simulate(
    data: DataLike | Sequence[DataLike],
    methods: str | Sequence[str] = DEFAULT_METHODS,
    budgets: float | str | Sequence[float | str] = DEFAULT_BUDGETS,
    *,
    repeats: int = 100,
    measures: str | Sequence[str] | None = None,
    human: str | None = None,
    metric: str | None = None,
    cost: str | None = None,
    unit: str = "item",
    balance: str | None = None,
    test: str = "analytic",
    level: float = 0.95,
    interval: str = "t",
    value_range: tuple[float, float] | None = None,
    parity: bool = True,
    crowd: int | None = None,
    seconds_per_item: float | None = None,
    hourly: float | None = None,
    currency: str = "EUR",
    seed: int = 0,
    jobs: int | None = 1,
    engine: str | None = None,
    journal: str | Path | None = None,
    progress: ProgressLike = None,
) -> Simulation:
    """Pretend that only a budget of a finished campaign had been judged, many times, and compare with the truth.

    Args:
        data: a past campaign with human scores, or several.
        methods: selectors or designs, joined by + to an estimator: "random", "metric_var:metric=COMET", "pps+greg",
            "auto". A simple random sample's mean is always there to compare with.
        budgets: "5%:50%:10" (from, to, how many), or a list of shares and numbers of items.
        repeats: replays of whatever is drawn at random; fixed choices are replayed once, random samples' means at
            least 100 times.
        measures: names of measures, a list or "spa,mae"; all but those that end in _published by default.
        human: the human score.
        metric: the metric for methods that need one and name none.
        cost: an item column, "esa_time", or "fitted" to recorded times: budgets are then shares of the whole cost.
        unit: "item", or "document": whole documents are chosen.
        balance: an item column over whose values the budget is split equally.
        test: p-values of the truth and of plain samples: analytic, or permutation.
        level: coverage that intervals promise.
        interval: t, hoeffding or bernstein, for coverage, width and slack.
        value_range: ends of the scale for the last two; by default the least and the greatest score of all items. A
            narrower one is allowed: only its width counts.
        parity: replay budgets below and above those asked for too, so that parity can be told.
        crowd: methods may look at so many systems only, drawn anew for every replay; truth and estimates are about the
            others. Fixed choices are then replayed as often as others.
        seconds_per_item: for judging an item, all its outputs, once; with `hourly` the verdict names the money saved.
        hourly: what an hour of an annotator costs.
        currency: of that money.
        seed: same seed, same table, on any number of processes.
        jobs: processes; None for all cores.
        engine: "dask://host:port" for a cluster.
        journal: an output file's name: finished replays are remembered in NAME.part, so that a killed run goes on when
            it is called again; whoever writes the output takes that file away.
        progress: called with the number of finished and of all units of work; True writes a line of text.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=80, systems=4, seed=5)
    >>> result = aliquot.simulate(data, ["random", "auto"], ["20%", "40%"], repeats=20)
    >>> result.row("auto", "mae").ratio_to_random < 1
    True
    """
    sets = as_evalsets(data)
    _validate_arguments(sets, repeats, unit, test, level, seed)
    _validate_interval(interval, value_range)
    money = _compute_money_per_item(seconds_per_item, hourly)
    chosen = None if measures is None else [measure.name for measure in select_measures(measures)]
    typed = parse_methods(methods)
    if BASELINE not in typed:
        typed = [BASELINE, *typed]
    stages, notes = _build_replay_sets(
        sets,
        human,
        cost=cost,
        unit=unit,
        balance=balance,
        test=test,
        level=level,
        crowd=crowd,
        interval=interval,
        value_range=value_range,
    )
    units = [
        u
        for at, stage in enumerate(stages)
        for u in _list_units(at, stage, typed, metric, budgets, repeats, seed, parity=parity)
    ]
    wanted = None if chosen is None else list(dict.fromkeys([*_add_baselines(chosen), "cost"]))
    line = make_signature(
        "simulate",
        None,
        methods=",".join(typed),
        budgets=_join_values(budgets),
        repeats=repeats,
        metric=metric,
        human=_join_values(dict.fromkeys(stage.evalset.human for stage in stages)),
        cost=cost,
        unit=None if unit == "item" else unit,
        balance=balance,
        test=None if test == "analytic" else test,
        level=None if level == 0.95 else level,
        interval=None if interval == "t" else interval,
        range=None if value_range is None else f"{value_range[0]:g},{value_range[1]:g}",
        measures=None if chosen is None else ",".join(chosen),
        parity=None if parity else "no",
        crowd=crowd,
        seed=seed,
        data=",".join(stage.evalset.fingerprint for stage in stages),
    )
    with open_journal(Path(journal) if journal is not None else None, line) as memory:
        _run_units(units, stages, wanted, memory, jobs, engine, resolve_progress(progress, "replaying"))
        cells = [ReplayCell(**cell) for u in units for cell in memory.done[u.key]]
    rows = summarise_methods(cells, BASELINE)
    if chosen is not None:
        cells = [cell for cell in cells if cell.measure in chosen]
        rows = [row for row in rows if row.measure in chosen]
    return Simulation(tuple(cells), tuple(rows), tuple(notes), line, cost, money, currency, tuple(chosen or ()))


def _join_values(values: Any) -> str:
    """Write one value or several for the signature."""
    return str(values) if isinstance(values, str | Real) else ",".join(map(str, values))


def _validate_arguments(sets: Sequence[Any], repeats: Any, unit: str, test: str, level: float, seed: Any) -> None:
    if not sets:
        raise OptionError("no data to replay; give at least one past campaign")
    for name, count in (("repeats", repeats), ("seed", seed)):
        if not isinstance(count, Integral):
            raise invalid(name, count, "give a whole number, so that the run can be repeated and resumed")
    validate_repeats(repeats)
    one_of("unit", unit, UNITS)
    one_of("test", test, TESTS)
    check_level(level)
    at_least("seed", seed, 0)


def _validate_interval(interval: str, value_range: tuple[float, float] | None) -> None:
    one_of("interval", interval, INTERVALS)
    if value_range is not None and not value_range[0] < value_range[1]:
        raise OptionError(
            f"`value_range` is {value_range[0]},{value_range[1]}; the lower end must be below the upper one"
        )
    if value_range is not None and interval == "t":
        raise OptionError("`value_range` is for `interval=hoeffding` or bernstein; t intervals need none")


def _compute_money_per_item(seconds: float | None, hourly: float | None) -> float:
    """What judging an item costs; NaN where time or money is not given."""
    for name, value in (("seconds_per_item", seconds), ("hourly", hourly)):
        if value is not None:
            above(name, value, 0)
    if hourly is not None and seconds is None:
        raise OptionError("`hourly` needs `seconds_per_item`, the time for all outputs of an item")
    return math.nan if seconds is None or hourly is None else seconds / 3600 * hourly


def _add_baselines(measures: Sequence[str]) -> list[str]:
    return [name for measure in select_measures(measures) for name in (measure.name, measure.against)]


def _build_replay_sets(sets: Sequence[EvalSet], human: str | None, **options: Any) -> tuple[list[ReplaySet], list[str]]:
    stages: list[ReplaySet] = []
    notes: list[str] = []
    for evalset in number_duplicates(sets):
        kept, said = keep_complete(_add_fitted_cost(evalset, options.get("cost")), human)
        notes += said
        stages.append(ReplaySet(kept, **options))
        _validate_replay_set(stages[-1])
        notes += describe_range(stages[-1])
    return stages, notes


def _add_fitted_cost(evalset: EvalSet, cost: str | None) -> EvalSet:
    """Put costs that are fitted to recorded times into a column: replays see no judgments."""
    if cost != FITTED or FITTED in evalset.items.columns:
        return evalset
    return replace(evalset, items=evalset.items.with_columns(pl.Series(FITTED, fit_item_costs(evalset))))


def _validate_replay_set(stage: ReplaySet) -> None:
    """Tell a bad --cost, --balance, --unit or --crowd before any work."""
    memory.require_pair_memory(stage.evalset.n_systems)
    validate_crowd(stage.crowd, stage.evalset)
    _ = stage.costs
    if stage.balance is not None:
        group_codes(stage.evalset, stage.balance)
    if stage.unit == "document" and stage.evalset.documents is None:
        raise DataError(f"{stage.evalset.name}: there are no documents; use `unit=item`")


def _list_units(
    number: int,
    stage: ReplaySet,
    typed: Sequence[str],
    metric: str | None,
    budgets: Any,
    repeats: int,
    seed: int,
    *,
    parity: bool,
) -> list[ReplayUnit]:
    evalset = stage.evalset
    asked = parse_budgets(budgets, evalset.n_items, cost=stage.cost is not None, of=evalset.name)
    more = add_parity_points(asked, len(evalset)) if parity else asked
    units: list[ReplayUnit] = []
    for name in typed:
        plan = resolve_method(name, evalset, metric)
        with name_errors(evalset.name, name):
            validate_method(plan, evalset)
            _try_once(plan, stage, asked[-1], seed)
        if plan.is_fixed and stage.crowd is not None:
            units.append(ReplayUnit(number, evalset.name, plan, tuple(more), repeats, seed))
            continue
        if plan.is_fixed:
            points = add_dense_points(asked, len(evalset)) if parity and stage.plain else more
            units.append(ReplayUnit(number, evalset.name, plan, tuple(points), 1, seed))
            continue
        count = _choose_repeats(name, plan, repeats)
        if plan.is_adaptive:  # one campaign goes through all budgets
            units.append(ReplayUnit(number, evalset.name, plan, tuple(more), count, seed))
            continue
        for point in more:
            once = plan.is_design and point.share >= 1.0 and stage.crowd is None  # all items: nothing is left to chance
            units.append(ReplayUnit(number, evalset.name, plan, (point,), 1 if once else count, seed))
    return units


def _choose_repeats(name: str, plan: ReplayMethod, repeats: int) -> int:
    """All ratios and parities hang on the baseline, which is quickly replayed; slow methods get a tenth."""
    if name == BASELINE:
        return max(MIN_BASELINE_REPEATS, repeats)
    return max(2, repeats // SLOW_REPEAT_DIVISOR) if plan.is_slow else repeats


def _try_once(plan: ReplayMethod, stage: ReplaySet, point: BudgetPoint, seed: int) -> None:
    """Replay once what is quickly drawn, so that a slip in a method is told before hours of work, not after."""
    if plan.is_adaptive:
        if stage.balance is not None or stage.unit == "document" or stage.crowd is not None:
            raise OptionError("decides cell by cell; leave out `balance`, `unit=document` and `crowd`")
        list(
            replay_allocation(
                stage, plan, [BudgetPoint(0.0, 1.0 / stage.scores.size)], np.random.default_rng(seed), watch=False
            )
        )
    elif plan.is_design:
        rng = np.random.default_rng(seed)
        estimate_outcome(stage, plan, draw_items(stage, plan, point, rng), rng)
    elif plan.is_slow and (stage.cost is not None or stage.unit == "document"):
        raise OptionError("chooses a number of items; use a utility or a design with `cost` or `unit=document`")
    elif plan.selector.name == "incremental" and stage.balance is not None:
        raise OptionError("allocates the budget itself; leave out `balance`, or name its column: incremental:bins=...")


def _run_units(
    units: Sequence[ReplayUnit],
    stages: Sequence[ReplaySet],
    measures: Sequence[str] | None,
    memory: Journal,
    jobs: int | None,
    engine: str | None,
    progress: Progress | None,
) -> None:
    left = [unit for unit in units if unit.key not in memory.done]
    finished = len(units) - len(left)
    if progress is not None:
        progress(finished, len(units))
    tasks = [(unit, stages[unit.set_number]) for unit in sorted(left, key=_estimate_effort, reverse=True)]
    for key, cells in run_tasks(partial(_run_task, measures=measures), tasks, jobs=jobs, engine=engine):
        memory.add(key, cells)
        finished += 1
        if progress is not None:
            progress(finished, len(units))


def _estimate_effort(unit: ReplayUnit) -> float:
    """Long units first, so that no process waits for the last."""
    return unit.repeats * sum(point.share for point in unit.points)


def _run_task(task: tuple[ReplayUnit, ReplaySet], measures: Sequence[str] | None) -> tuple[str, list[dict[str, Any]]]:
    unit, stage = task
    return unit.key, run_unit(unit, stage, measures)
