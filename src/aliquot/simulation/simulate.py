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
from aliquot.core.draws import combine_draws, has_draws
from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_tasks
from aliquot.core.progress import Progress, ProgressLike, resolve_progress
from aliquot.core.result import make_signature
from aliquot.errors import DataError, OptionError, quoted
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
        parity: replay budgets below and above those asked for too, so that parity can be computed.
        crowd: number of systems that methods see, redrawn for each replay; truth and estimates are about the others.
            Fixed choices are then replayed as often as others.
        seconds_per_item: for judging an item, all its outputs, once; with `hourly` the verdict names the money saved.
        hourly: what an hour of an annotator costs.
        currency: the currency of `hourly`.
        seed: same seed, same table, on any number of processes.
        jobs: processes; None for all cores.
        engine: "dask://host:port" for a cluster.
        journal: an output file's name: finished replays are remembered in NAME.part, so that a killed run goes on when
            it is called again; the caller deletes the journal when the output is written.
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
    specs = parse_methods(methods)
    if BASELINE not in specs:
        specs = [BASELINE, *specs]
    replay_sets, notes = _build_replay_sets(
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
        for number, replay_set in enumerate(replay_sets)
        for u in _list_units(number, replay_set, specs, metric, budgets, repeats, seed, parity=parity)
    ]
    needed = None if chosen is None else list(dict.fromkeys([*_add_baselines(chosen), "cost"]))
    line = make_signature(
        "simulate",
        None,
        methods=",".join(specs),
        budgets=_join_values(budgets),
        repeats=repeats,
        metric=metric,
        human=_join_values(dict.fromkeys(replay_set.evalset.human for replay_set in replay_sets)),
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
        data=",".join(replay_set.evalset.fingerprint for replay_set in replay_sets),
    )
    with open_journal(Path(journal) if journal is not None else None, line) as memory:
        _run_units(units, replay_sets, needed, memory, jobs, engine, resolve_progress(progress, "replaying"))
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
    """Return what judging an item costs; NaN without time or money."""
    for name, value in (("seconds_per_item", seconds), ("hourly", hourly)):
        if value is not None:
            above(name, value, 0)
    if hourly is not None and seconds is None:
        raise OptionError("`hourly` needs `seconds_per_item`, the time for all outputs of an item")
    return math.nan if seconds is None or hourly is None else seconds / 3600 * hourly


def _add_baselines(measures: Sequence[str]) -> list[str]:
    return [name for measure in select_measures(measures) for name in (measure.name, measure.against)]


def _build_replay_sets(sets: Sequence[EvalSet], human: str | None, **options: Any) -> tuple[list[ReplaySet], list[str]]:
    replay_sets: list[ReplaySet] = []
    notes: list[str] = []
    with_draws = [evalset.name for evalset in sets if has_draws(evalset)]
    if with_draws:
        notes.append(f"{quoted(with_draws)}: prompts are replayed, with the means of their draws; texts are not used")
    for evalset in number_duplicates([combine_draws(each, human=human) if has_draws(each) else each for each in sets]):
        complete, new_notes = keep_complete(_add_fitted_cost(evalset, options.get("cost")), human)
        notes += new_notes
        replay_sets.append(ReplaySet(complete, **options))
        _validate_replay_set(replay_sets[-1])
        notes += describe_range(replay_sets[-1])
    return replay_sets, notes


def _add_fitted_cost(evalset: EvalSet, cost: str | None) -> EvalSet:
    """Put costs that are fitted to recorded times into a column: replays see no judgments."""
    if cost != FITTED or FITTED in evalset.items.columns:
        return evalset
    return replace(evalset, items=evalset.items.with_columns(pl.Series(FITTED, fit_item_costs(evalset))))


def _validate_replay_set(replay_set: ReplaySet) -> None:
    """Raise the errors of `cost`, `balance`, `unit` and `crowd` before any work."""
    memory.require_pair_memory(replay_set.evalset.n_systems)
    validate_crowd(replay_set.crowd, replay_set.evalset)
    _ = replay_set.costs
    if replay_set.balance is not None:
        group_codes(replay_set.evalset, replay_set.balance)
    if replay_set.unit == "document" and replay_set.evalset.documents is None:
        raise DataError(f"{replay_set.evalset.name}: there are no documents; use `unit=item`")


def _list_units(
    number: int,
    replay_set: ReplaySet,
    specs: Sequence[str],
    metric: str | None,
    budgets: Any,
    repeats: int,
    seed: int,
    *,
    parity: bool,
) -> list[ReplayUnit]:
    evalset = replay_set.evalset
    points = parse_budgets(budgets, evalset.n_items, cost=replay_set.cost is not None, of=evalset.name)
    all_points = add_parity_points(points, len(evalset)) if parity else points
    units: list[ReplayUnit] = []
    for name in specs:
        method = resolve_method(name, evalset, metric)
        with name_errors(evalset.name, name):
            validate_method(method, evalset)
            _try_once(method, replay_set, points[-1], seed)
        if method.is_fixed and replay_set.crowd is not None:
            units.append(ReplayUnit(number, evalset.name, method, tuple(all_points), repeats, seed))
            continue
        if method.is_fixed:
            dense = add_dense_points(points, len(evalset)) if parity and replay_set.plain else all_points
            units.append(ReplayUnit(number, evalset.name, method, tuple(dense), 1, seed))
            continue
        count = _choose_repeats(name, method, repeats)
        if method.is_adaptive:  # one campaign goes through all budgets
            units.append(ReplayUnit(number, evalset.name, method, tuple(all_points), count, seed))
            continue
        for point in all_points:
            # A design that takes all items leaves nothing to chance.
            is_certain = method.is_design and point.share >= 1.0 and replay_set.crowd is None
            units.append(ReplayUnit(number, evalset.name, method, (point,), 1 if is_certain else count, seed))
    return units


def _choose_repeats(name: str, method: ReplayMethod, repeats: int) -> int:
    """Return the number of replays: more for the baseline, which enters all ratios; a tenth for slow methods."""
    if name == BASELINE:
        return max(MIN_BASELINE_REPEATS, repeats)
    return max(2, repeats // SLOW_REPEAT_DIVISOR) if method.is_slow else repeats


def _try_once(method: ReplayMethod, replay_set: ReplaySet, point: BudgetPoint, seed: int) -> None:
    """Replay a method once, where that is fast, so that its errors are raised before hours of work."""
    if method.is_adaptive:
        if replay_set.balance is not None or replay_set.unit == "document" or replay_set.crowd is not None:
            raise OptionError("decides cell by cell; leave out `balance`, `unit=document` and `crowd`")
        list(
            replay_allocation(
                replay_set,
                method,
                [BudgetPoint(0.0, 1.0 / replay_set.scores.size)],
                np.random.default_rng(seed),
                watch=False,
            )
        )
    elif method.is_design:
        rng = np.random.default_rng(seed)
        estimate_outcome(replay_set, method, draw_items(replay_set, method, point, rng), rng)
    elif method.is_slow and (replay_set.cost is not None or replay_set.unit == "document"):
        raise OptionError("chooses a number of items; use a utility or a design with `cost` or `unit=document`")
    elif method.selector.name == "incremental" and replay_set.balance is not None:
        raise OptionError("allocates the budget itself; leave out `balance`, or name its column: incremental:bins=...")


def _run_units(
    units: Sequence[ReplayUnit],
    replay_sets: Sequence[ReplaySet],
    measures: Sequence[str] | None,
    memory: Journal,
    jobs: int | None,
    engine: str | None,
    progress: Progress | None,
) -> None:
    remaining = [unit for unit in units if unit.key not in memory.done]
    finished = len(units) - len(remaining)
    if progress is not None:
        progress(finished, len(units))
    tasks = [(unit, replay_sets[unit.set_number]) for unit in sorted(remaining, key=_estimate_effort, reverse=True)]
    for key, cells in run_tasks(partial(_run_task, measures=measures), tasks, jobs=jobs, engine=engine):
        memory.add(key, cells)
        finished += 1
        if progress is not None:
            progress(finished, len(units))


def _estimate_effort(unit: ReplayUnit) -> float:
    """Return a sorting key: long units run first, so that processes end at about the same time."""
    return unit.repeats * sum(point.share for point in unit.points)


def _run_task(task: tuple[ReplayUnit, ReplaySet], measures: Sequence[str] | None) -> tuple[str, list[dict[str, Any]]]:
    unit, replay_set = task
    return unit.key, run_unit(unit, replay_set, measures)
