"""What an adaptive campaign will cost: campaigns like the planned one are run until their question is decided.

A past campaign answers with its own scores. From a pilot, campaigns are made up: predictions for every output plus
residuals of judged items, drawn with replacement, item by item so that systems stay correlated, about true means drawn
from what the pilot knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_in_order
from aliquot.core.result import Result
from aliquot.core.view import View
from aliquot.errors import OptionError, unknown_name
from aliquot.estimation.proxies import standard_metric, usable
from aliquot.planning.plan_inputs import Pilot, PlanInputs
from aliquot.planning.plan_views import adaptive_views
from aliquot.planning.recommendation import in_words
from aliquot.sampling.budgets import in_hours, parse_amount, resolve_budget
from aliquot.sampling.policies import QUESTIONS
from aliquot.simulation.adaptive import AdaptiveRun, run_until_decided
from aliquot.stats.arrays import FloatArray
from aliquot.stats.cell_model import CellModel

FIFTH = 5
"""Adaptive campaigns are long: a fifth of the replays must do."""
_LOOKS = 0.02
_WORDS = {"top": "the best system", "best": "the best system", "ranking": "the whole ranking"}
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PolicyCost:
    """What a policy takes until the question is decided."""

    policy: str
    decided: float  # share of the runs that decide it within the budget
    cells: float  # median number of cells; runs that do not decide count with all they had
    cells_90: float  # number of cells that nine of ten runs need at most
    hours: float  # of annotators for the median; NaN where nobody said how long judging takes
    money: float  # likewise


@dataclass(frozen=True, eq=False)
class AdaptivePlan(Result):
    """The result of `plan --adaptive`."""

    question: str
    policies: tuple[PolicyCost, ...]  # the adaptive one first, then uniform allocation with the same guarantee
    most: int  # cells that may be judged
    runs: int
    basis: str  # "replay" of a past campaign, or "pilot"
    text: tuple[str, ...]  # the answer in words, a sentence each
    notes: tuple[str, ...]
    signature: str

    def __repr__(self) -> str:
        first = self.policies[0]
        return f"AdaptivePlan({first.cells:.0f} of {self.most} cells by {first.policy}, decided in {first.decided:.0%})"

    def views(self) -> tuple[View, ...]:
        """Return the view `policies`."""
        return adaptive_views(self)

    def to_frame(self) -> pl.DataFrame:
        """One row for each policy."""
        return pl.DataFrame([vars(row) for row in self.policies])


def plan_adaptive(
    inputs: PlanInputs,
    *,
    question: str,
    policy: str,
    share: float,
    alpha: float,
    replays: int,
    seed: int,
    jobs: int | None,
    progress: Progress | None,
    notes: tuple[str, ...],
    signature: str,
) -> AdaptivePlan:
    """Run campaigns with the policy and with uniform allocation until the question is decided."""
    known = [name for name in QUESTIONS if name in _WORDS]
    if question not in known:
        raise unknown_name("question", question, known, "for all means plan without --adaptive")
    if inputs.judged == 0 and isinstance(inputs.basis, Pilot):
        raise OptionError("--adaptive plans for the test set of the data; leave out --items and --beyond")
    runs = max(4, replays // FIFTH)
    policies = list(dict.fromkeys((policy, "uniform")))
    tasks = [(inputs, question, name, share, alpha, [seed, run]) for name in policies for run in range(runs)]
    found = run_in_order(_run, tasks, jobs=jobs, progress=progress)
    costs = [_cost(inputs, name, [found[at * runs + run] for run in range(runs)]) for at, name in enumerate(policies)]
    most = round(share * inputs.evalset.n_items * inputs.evalset.n_systems)
    text = _words(question, costs, most, inputs)
    basis = "pilot" if isinstance(inputs.basis, Pilot) else "replay"
    return AdaptivePlan(question, tuple(costs), most, runs, basis, text, notes, signature)


def share_of_cells(inputs: PlanInputs, budget: float | str | None, currency: str) -> float:
    """The share of all cells that a budget buys; all of them without one."""
    if budget is None:
        return 1.0
    amount, evalset = in_hours(parse_amount(budget, currency), inputs.prices), inputs.evalset
    if amount.unit == "hours":
        whole = inputs.hours(np.ones(evalset.n_items))
        if np.isnan(whole):
            raise OptionError(
                f"--budget {amount.written}: needs to know how long judging takes: give "
                "--seconds-per-item, --seconds-per-judgment or --cost"
            )
        return min(1.0, amount.value / whole)
    return min(1.0, resolve_budget(amount, evalset.n_items, systems=evalset.n_systems).n / evalset.n_items)


def _run(task: tuple[PlanInputs, str, str, float, float, list[int]]) -> AdaptiveRun:
    inputs, question, policy, share, alpha, seed = task
    rng = np.random.default_rng(seed)
    scores = made_up(inputs.basis, rng) if isinstance(inputs.basis, Pilot) else inputs.evalset.human_score()
    options: dict[str, Any] = {"question": question, "policy": policy, "alpha": alpha, "target": "testset"}
    return run_until_decided(inputs.evalset, scores, int(rng.integers(2**31)), options, most=share, looks=_LOOKS)


def made_up(pilot: Pilot, rng: np.random.Generator) -> FloatArray:
    """Scores of a whole campaign like the pilot: predictions, residuals of judged items, and a draw of the truth."""
    evalset, sample = pilot.evalset, pilot.sample
    model = _model(evalset)
    for place, row in enumerate(sample.rows.tolist()):
        for system in range(evalset.n_systems):
            model.put(row, system, float(sample.scores[place, system]))
    predicted = model.features @ model.fit().slopes
    residual = sample.scores - predicted[sample.rows]
    residual = residual - np.average(residual, axis=0, weights=sample.weight)
    share = sample.weight / sample.weight.sum()
    scores = predicted + residual[rng.choice(sample.n, size=evalset.n_items, p=share)]
    # Slopes are shared: a system near the end of the scale varies less than they say. Its own spread is kept.
    spread = np.sqrt(share @ (sample.scores - share @ sample.scores) ** 2)
    scale = spread / np.maximum(scores.std(axis=0), 1e-300)
    truth = pilot.truth[int(rng.integers(len(pilot.truth)))]
    made: FloatArray = (scores - scores.mean(axis=0)) * scale + truth
    return made


def _model(evalset: EvalSet) -> CellModel:
    names = usable(evalset, None)
    empty = np.zeros((evalset.n_items, evalset.n_systems, 0))
    return CellModel(np.stack([standard_metric(evalset, name) for name in names], 2) if names else empty)


def _cost(inputs: PlanInputs, policy: str, runs: list[AdaptiveRun]) -> PolicyCost:
    cells = np.array([run.cells for run in runs], dtype=np.float64)
    median = float(np.median(cells))
    share = median / (inputs.evalset.n_items * inputs.evalset.n_systems)
    hours = inputs.hours(np.full(inputs.evalset.n_items, share))
    decided = float(np.mean([run.decided for run in runs]))
    return PolicyCost(policy, decided, median, float(np.quantile(cells, 0.9)), hours, inputs.prices.money(hours))


def _words(question: str, costs: list[PolicyCost], most: int, inputs: PlanInputs) -> tuple[str, ...]:
    ours, uniform = costs[0], costs[-1]
    what = _WORDS[question]
    if ours.decided < 0.5:
        every = most >= inputs.evalset.n_items * inputs.evalset.n_systems
        remedy = "plan several judgments per output" if every else "raise the budget"
        first = (
            f"With {most} cells an adaptive campaign decides {what} in {ours.decided:.0%} of runs: expect to end "
            f"undecided, or {remedy}."
        )
    else:
        spent = f", {in_words(ours.hours)} hours" if np.isfinite(ours.hours) else ""
        spent += f", {ours.money:.0f} {inputs.prices.currency}" if np.isfinite(ours.money) else ""
        first = (
            f"An adaptive campaign decides {what} after about {ours.cells:.0f} cells{spent} (nine of ten runs: "
            f"{ours.cells_90:.0f}); {ours.decided:.0%} of runs decide it within {most} cells."
        )
    second = (
        f"Judging all systems on the same items takes about {uniform.cells:.0f} cells with the same guarantee, "
        f"and decides it in {uniform.decided:.0%} of runs."
    )
    return (first, second) if len(costs) > 1 else (first,)
