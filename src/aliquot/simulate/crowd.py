"""An artificial crowd: utilities from the outputs of a few systems, truth and estimates about the others.

As Table 4 of Zouhar et al. 2025: the crowd is drawn anew for every replay. Replay r has the same crowd for every method
and budget, so that methods are compared on the same systems.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.errors import AliquotWarning, OptionError
from aliquot.metaeval.measures import Measure
from aliquot.select.budget import resolve_budget
from aliquot.select.choose import task_of
from aliquot.select.kinds import Chosen, choose_rows
from aliquot.simulate.budgets import FEWEST, Point
from aliquot.simulate.methods import Plan
from aliquot.simulate.replay import Outcome, Stage, outcome, stacked
from aliquot.stats.arrays import FloatArray

_STREAM = 0xC0
_HALF = 0.5


def check_crowd(crowd: int | None, evalset: EvalSet) -> None:
    """Refuse a crowd that leaves no two systems to compare, or that cannot be found."""
    if crowd is None:
        return
    if not 1 <= crowd <= evalset.n_systems - 2:
        raise OptionError(
            f"{evalset.name}: a crowd of {crowd} of its {evalset.n_systems} systems; leave at least two to evaluate"
        )
    known = len(known_systems(evalset))
    if crowd > known:
        raise OptionError(f"{evalset.name}: a crowd of {crowd}, but only {known} systems have outputs and metrics")


def known_systems(evalset: EvalSet) -> list[int]:
    """Systems that a crowd may be drawn from: those with the outputs and some metric of at least half of the items."""
    there = np.ones(evalset.n_systems, dtype=np.bool_)
    if evalset.metrics:
        covered = [np.isfinite(evalset.scores[name]).mean(axis=0) >= _HALF for name in evalset.metrics]
        there &= np.any(covered, axis=0)
    if evalset.outputs is not None:
        missing = [evalset.outputs[system].null_count() for system in evalset.systems]
        there &= np.array(missing) <= _HALF * evalset.n_items
    return np.flatnonzero(there).tolist()


def crowd_systems(evalset: EvalSet, size: int, seed: int, repeat: int) -> list[str]:
    """The crowd of a replay: systems at random.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=5, systems=6)
    >>> len(crowd_systems(data, 4, 0, 1)), crowd_systems(data, 4, 0, 1) == crowd_systems(data, 4, 0, 1)
    (4, True)
    """
    rng = np.random.default_rng([seed, _STREAM, int(evalset.fingerprint, 16), repeat])
    chosen = rng.choice(known_systems(evalset), size, replace=False)
    return [evalset.systems[at] for at in sorted(chosen.tolist())]


def others(stage: Stage, crowd: Sequence[str]) -> Stage:
    """The stage without the crowd: what is estimated, and what is true of it."""
    return Stage(
        stage.evalset.drop(systems=list(crowd)), stage.cost, stage.unit, stage.balance, stage.matching, stage.test,
        stage.level,
    )  # fmt: skip


def crowd_replays(
    stage: Stage, plan: Plan, points: Sequence[Point], repeats: int, seed: int, fresh: Sequence[Sequence[int]]
) -> Iterator[tuple[int, Stage, list[Outcome | None]]]:
    """Give, for each replay, its number, the stage of the others, and an outcome for each budget.

    `fresh` holds, for each budget, the numbers that seed its draws.
    """
    for repeat in range(repeats):
        crowd = crowd_systems(stage.evalset, stage.crowd or 0, seed, repeat)
        rest = others(stage, crowd)
        found: list[Outcome | None] = []
        order = None
        for point, numbers in zip(points, fresh, strict=True):
            rng = np.random.default_rng([*numbers, repeat])
            if plan.is_fixed and stage.plain:
                order = order or _chosen(stage, plan, 1.0, crowd, rng)
                n = max(FEWEST, round(point.share * stage.evalset.n_items))
                chosen = Chosen(order.rows[:n], details=order.details)
            else:
                chosen = _chosen(stage, plan, point.share, crowd, rng)
            found.append(outcome(rest, plan, chosen, rng))
        yield repeat, rest, found


def _chosen(stage: Stage, plan: Plan, share: float, crowd: Sequence[str], rng: np.random.Generator) -> Chosen:
    """Let the method choose by the crowd's outputs and scores alone."""
    n = stage.evalset.n_items
    least = max(share, FEWEST / n) if stage.plain else share
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        budget = resolve_budget(f"{100 * min(least, 1.0):.12g}%", n, stage.costs)
        task = task_of(
            stage.evalset, plan.selector, budget, stage.costs, balance=stage.balance, unit=stage.unit, crowd=crowd,
            seed=rng,
        )  # fmt: skip
        return choose_rows(task, matching=stage.matching)


def measured(found: Outcome | None, rest: Stage, measures: Sequence[Measure]) -> dict[str, FloatArray]:
    """Every measure of one replay against the truth about its own systems."""
    if found is None:
        return {measure.name: np.full(1, np.nan) for measure in measures}
    return {measure.name: measure.function(stacked([found]), rest.truth) for measure in measures}
