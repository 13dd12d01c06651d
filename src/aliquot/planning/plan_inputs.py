"""Inputs of a plan from data: a pilot or a past campaign, the test set, and the costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.estimation.draws import DrawNoise, plan_draws, select_prompts
from aliquot.estimation.inputs import attach_judgments, select_criterion, use_criterion_score
from aliquot.estimation.targets import judging_noise, target_variance
from aliquot.io.inputs import DataLike, JudgmentsLike, SelectionLike, as_evalset, as_selection
from aliquot.planning.forecast import PastCampaign
from aliquot.planning.pilot import Pilot, describe_pilot, take_pilot
from aliquot.planning.repeats import judgments_per_output
from aliquot.sampling.budgets import Prices, Times, data_prices
from aliquot.simulation.replay import ReplaySet
from aliquot.simulation.setup import keep_complete as past_population
from aliquot.stats.arrays import FloatArray

PlanTarget = Literal["testset", "given"]


@dataclass(frozen=True)
class RunSettings:
    """Replays, draws and seed of a plan.

    Attributes:
        level: Coverage of the intervals.
        replays: Replays of each budget, for a past campaign.
        draws: Draws of truths and estimates, for a pilot.
        seed: Seed of both.
        jobs: Processes for replays; None for all cores.
    """

    level: float
    replays: int = 100
    draws: int = 2000
    seed: int = 0
    jobs: int | None = 1


@dataclass(frozen=True, eq=False)
class PlanData:
    """Data, selection and judgments of a plan, combined.

    Attributes:
        evalset: The data with the human score, which the selection limits.
        original: The data without that limit, for signatures.
        human: Name of the human score as asked for.
        selection: How the pilot was chosen.
        notes: Mismatches of selection, judgments and data.
        draws: The draws whose prompts are the items of `evalset`; None without draws.
    """

    evalset: EvalSet
    original: EvalSet
    human: str | None
    selection: Selection | None
    notes: tuple[str, ...]
    draws: EvalSet | None = None

    def measure_draws(self, systems: Sequence[str]) -> DrawNoise | None:
        """Measure the noise of draws in the scores of prompts, for some systems; None without draws."""
        if self.draws is None:
            return None
        data = self.draws.keep(systems=list(systems))
        task = plan_draws(data, "mean", self.human, None)
        return None if task is None else task.measure_noise(data)


def combine_plan_data(
    data: DataLike,
    *,
    selection: SelectionLike | None,
    judgments: JudgmentsLike | None,
    human: str | None,
    criterion: str | None,
    target: PlanTarget,
) -> PlanData:
    """Combine data, selection and judgments; `target` is only checked."""
    if target not in get_args(PlanTarget):
        raise unknown_name("target", target, get_args(PlanTarget), "for conclusions beyond the set give `beyond=True`")
    evalset, chosen = as_evalset(data), None if selection is None else as_selection(selection)
    notes: tuple[str, ...] = () if chosen is None else chosen.check(evalset)
    if judgments is not None:
        evalset, mismatches = attach_judgments(evalset, select_criterion(judgments, criterion, human), chosen, human)
        notes += tuple(mismatch.sentence for mismatch in mismatches)
    elif criterion is not None:
        evalset = use_criterion_score(evalset, criterion, human)
        human = evalset.human
    name = human or evalset.human
    limited = evalset if chosen is None or name is None else mask_unselected(evalset, chosen, name)
    task = plan_draws(limited, "mean", human, None)
    if task is None or name is None:
        return PlanData(limited, evalset, human, chosen, notes)
    prompts = None if chosen is None else select_prompts(chosen, evalset)
    combined = task.combine(limited)
    notes += (f"{limited.n_items} draws of {combined.n_items} prompts: prompts are planned, as items",)
    return PlanData(combined, evalset, human, prompts, notes, limited)


def mask_unselected(data: EvalSet, selection: Selection | None, human: str) -> EvalSet:
    """Return the data without human scores and judgments of items outside the selection, which no estimate uses."""
    data = data.with_human(human)
    if selection is None:
        return data
    chosen = set(selection.ids)
    rows = np.array([item in chosen for item in data.ids])
    if rows.all():
        return data
    scores = np.where(rows[:, None], data.human_score(human), np.nan)
    judgments = None if data.judgments is None else data.judgments.keep(items=list(selection.ids))
    return replace(data, judgments=judgments).with_score(human, scores)


Basis = Pilot | PastCampaign


@dataclass(frozen=True, eq=False)
class PlanInputs:
    """The judged items, the test set planned for, and what judging costs."""

    basis: Basis  # the pilot or the past campaign
    population: float  # items of the planned test set; infinite for conclusions beyond any
    limit: int  # the most items that may be planned
    prices: Prices  # of the items of the present set
    per_output: float  # judgments behind a human score
    power: float  # asked for each pair
    partly: int = 0  # items judged for some systems only, which the plan does not use
    notes: tuple[str, ...] = ()
    repeated: Literal["output", "prompt"] = "output"  # what has several judgments

    @property
    def evalset(self) -> EvalSet:
        """The present set."""
        return self.basis.evalset

    @property
    def pairs(self) -> int:
        """The number of pairs of systems."""
        m = self.evalset.n_systems
        return m * (m - 1) // 2

    @property
    def judged(self) -> int:
        """Items of the planned test set that are judged already; 0 for a new set or a replay."""
        return self.basis.sample.n if isinstance(self.basis, Pilot) and self.basis.continues else 0

    def hours(self, expected: FloatArray) -> float:
        """Return the hours for items judged `expected` times each."""
        return self.prices.hours(expected, self.per_output)


def find_plan_inputs(
    source: PlanData,
    times: Times,
    runs: RunSettings,
    *,
    target: PlanTarget,
    past: bool = False,
    items: int | None = None,
    beyond: bool = False,
    power: float = 0.95,
) -> PlanInputs:
    """Return the basis of a plan: a past campaign if all items are judged and the set stays the same, else a pilot."""
    basis, notes = _find_basis(source, runs, target=target, past=past, items=items, beyond=beyond)
    evalset, data = basis.evalset, source.evalset
    timed = evalset if evalset.judgments is not None else _with_judgments_of(evalset, data)
    limit = evalset.n_items if items is None else items
    data = data.with_human(evalset.human)
    judged_items = int(np.isfinite(data.human_score()).any(axis=1).sum())
    return PlanInputs(
        basis,
        np.inf if beyond else float(limit),
        limit,
        data_prices(times, timed),
        judgments_per_output(data) if source.draws is None or data.judgments is not None else _mean_draws(source),
        power,
        judged_items - basis.sample.n if isinstance(basis, Pilot) else 0,
        tuple(notes),
        "output" if source.draws is None else "prompt",
    )


def _mean_draws(source: PlanData) -> float:
    """Return the mean number of scored draws of a prompt's outputs."""
    noise = source.measure_draws(source.evalset.systems)
    return 1.0 if noise is None else 1.0 / float(noise.judging[noise.judging > 0].mean())


def _replay(data: EvalSet, runs: RunSettings) -> PastCampaign:
    return PastCampaign(ReplaySet(data, level=runs.level), runs.replays, runs.seed, runs.jobs)


def _find_basis(
    source: PlanData, runs: RunSettings, *, target: PlanTarget, past: bool, items: int | None, beyond: bool
) -> tuple[Basis, list[str]]:
    data, human, selection = source.evalset, source.human, source.selection
    if data.human is None and human is None:
        raise DataError(
            f"{data.name}: there are no human scores to plan from; name the score with `human`, or plan "
            "without data, with `difference` and `sd`"
        )
    other_items = beyond or items is not None
    if past and (other_items or selection is not None):
        raise OptionError("`past` replays a finished campaign as it was; leave out `items`, `beyond` and `selection`")
    if past:
        past_data, past_notes = past_population(data, human)
        return _replay(past_data, runs), list(past_notes)
    sample, notes = take_pilot(data, human, selection)
    if sample.n == sample.population and not other_items:
        return _replay(past_population(sample.evalset, None)[0], runs), list(notes)
    present = sample.population
    copies = np.inf if beyond else 1.0 if items is None or items == present else items / present
    pilot = Pilot(sample, None, copies, runs.level, runs.draws, runs.seed)
    if pilot.continues and target == "testset":
        name, judged = human or str(data.human), [sample.evalset.ids[row] for row in sample.rows]
        compared = data.keep(systems=list(pilot.evalset.systems))
        noise = replace(judging_noise(compared, name, judged), draws=source.measure_draws(compared.systems))
        if noise.unbalanced:  # as `estimate` adjusts for severity
            pilot = replace(pilot, sample=take_pilot(noise.without_severity(compared, name), name, selection)[0])
        goal = target_variance(pilot.now, target, noise, adjusted=noise.unbalanced)
        pilot = replace(pilot, added=goal.added)
    return pilot, [*notes, *describe_pilot(pilot, has_selection=selection is not None)]


def _with_judgments_of(evalset: EvalSet, data: EvalSet) -> EvalSet:
    if data.judgments is None:
        return evalset
    return replace(evalset, judgments=data.judgments.keep(items=evalset.ids, systems=list(evalset.systems)))
