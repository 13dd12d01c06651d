"""The cost of an adaptive campaign, from simulated campaigns that run until their question is decided.

A past campaign is replayed with its own scores. From a pilot, scores are simulated: predictions plus residuals of
judged items, resampled item by item (which keeps the correlation of systems), about true means drawn given the pilot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_in_order
from aliquot.core.progress import ProgressLike, resolve_progress
from aliquot.core.result import Result, make_signature
from aliquot.core.view import View
from aliquot.errors import OptionError
from aliquot.estimation.proxies import select_proxies, standardise_metric
from aliquot.io.inputs import DataLike, JudgmentsLike, SelectionLike
from aliquot.planning.arguments import signature_parts, validate_counts, validate_levels
from aliquot.planning.pilot import Pilot
from aliquot.planning.plan_inputs import PlanInputs, PlanTarget, RunSettings, combine_plan_data, find_plan_inputs
from aliquot.planning.plan_views import adaptive_views
from aliquot.planning.recommendation import format_hours
from aliquot.sampling.budgets import Times, convert_to_hours, parse_amount, resolve_budget
from aliquot.simulation.adaptive import AdaptiveRun, run_until_decided
from aliquot.stats.arrays import FloatArray
from aliquot.stats.cell_model import CellModel
from aliquot.validation import one_of

AdaptiveQuestion = Literal["best", "top", "ranking"]
_RUN_DIVISOR = 5  # adaptive campaigns are long: a fifth of the replays must do
_LOOKS = 0.02  # share of the cells between two looks
_ANSWERS = {"top": "the best system", "best": "the best system", "ranking": "the whole ranking"}


@dataclass(frozen=True)
class PolicyCost:
    """Cells, hours and money that a policy needs until the question is decided."""

    policy: str
    decided: float  # share of the runs that decide it within the budget
    cells: float  # median number of cells; runs that do not decide count with all they had
    cells_90: float  # number of cells that nine of ten runs need at most
    hours: float  # of annotators for the median; NaN where nobody said how long judging takes
    money: float  # likewise


@dataclass(frozen=True, eq=False)
class AdaptivePlan(Result):
    """The result of `plan_adaptive`."""

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
    data: DataLike,
    *,
    alpha: float = 0.05,
    budget: float | str | None = None,
    human: str | None = None,
    criterion: str | None = None,
    selection: SelectionLike | None = None,
    judgments: JudgmentsLike | None = None,
    past: bool = False,
    target: PlanTarget = "testset",
    question: AdaptiveQuestion = "best",
    policy: str = "auto",
    seconds_per_item: float | None = None,
    seconds_per_judgment: float | None = None,
    cost: str | None = None,
    seconds_per_new_item: float = 0.0,
    hourly: float | None = None,
    currency: str = "EUR",
    replays: int = 100,
    draws: int = 2000,
    seed: int = 0,
    jobs: int | None = 1,
    progress: ProgressLike = None,
) -> AdaptivePlan:
    """Plan an adaptive campaign by running some until their question is decided; `aliquot.plan` has the arguments.

    >>> import aliquot
    >>> plan_adaptive(aliquot.synthetic(items=40, systems=3, seed=3), replays=20).most
    120
    """
    arguments = dict(locals())
    validate_levels(alpha)
    source = combine_plan_data(
        data, selection=selection, judgments=judgments, human=human, criterion=criterion, target=target
    )
    times = Times(seconds_per_item, seconds_per_judgment, cost, seconds_per_new_item, hourly, currency)
    arguments["selection"] = source.selection
    parts = signature_parts(plan_adaptive, arguments, mark=("adaptive", "question"))
    validate_counts(replays=replays, draws=draws)
    runs = RunSettings(1 - alpha, replays, draws, seed, jobs)
    inputs = find_plan_inputs(source, times, runs, target=target, past=past)
    one_of("question", question, get_args(AdaptiveQuestion))
    share = share_of_cells(inputs, budget, currency)
    run_count = max(4, replays // _RUN_DIVISOR)
    policies = list(dict.fromkeys((policy, "uniform")))
    tasks = [(inputs, question, name, share, alpha, [seed, run]) for name in policies for run in range(run_count)]
    results = run_in_order(_run_campaign, tasks, jobs=jobs, progress=resolve_progress(progress, "replaying"))
    costs = [
        _summarise_runs(inputs, name, results[place * run_count : (place + 1) * run_count])
        for place, name in enumerate(policies)
    ]
    max_cells = round(share * inputs.evalset.n_items * inputs.evalset.n_systems)
    return AdaptivePlan(
        question,
        tuple(costs),
        max_cells,
        run_count,
        "pilot" if isinstance(inputs.basis, Pilot) else "replay",
        _describe_costs(question, costs, max_cells, inputs),
        (*source.notes, *inputs.notes),
        make_signature("plan", source.original, **parts),
    )


def share_of_cells(inputs: PlanInputs, budget: float | str | None, currency: str) -> float:
    """Return the share of all cells that a budget buys; 1 without a budget."""
    if budget is None:
        return 1.0
    amount, evalset = convert_to_hours(parse_amount(budget, currency), inputs.prices), inputs.evalset
    if amount.unit == "hours":
        total = inputs.hours(np.ones(evalset.n_items))
        if np.isnan(total):
            raise OptionError(
                f"`budget={amount.written}` needs to know how long judging takes: give `seconds_per_item`, "
                "`seconds_per_judgment` or `cost`"
            )
        return min(1.0, amount.value / total)
    return min(1.0, resolve_budget(amount, evalset.n_items, systems=evalset.n_systems).n / evalset.n_items)


def _run_campaign(task: tuple[PlanInputs, str, str, float, float, list[int]]) -> AdaptiveRun:
    inputs, question, policy, share, alpha, seed = task
    rng = np.random.default_rng(seed)
    scores = simulate_scores(inputs.basis, rng) if isinstance(inputs.basis, Pilot) else inputs.evalset.human_score()
    options: dict[str, Any] = {"question": question, "policy": policy, "alpha": alpha, "target": "testset"}
    return run_until_decided(inputs.evalset, scores, int(rng.integers(2**31)), options, max_share=share, step=_LOOKS)


def simulate_scores(pilot: Pilot, rng: np.random.Generator) -> FloatArray:
    """Simulate the scores of a campaign like the pilot: predictions, resampled residuals, drawn true means (N x M)."""
    evalset, sample = pilot.evalset, pilot.sample
    model = _build_cell_model(evalset)
    for place, row in enumerate(sample.rows.tolist()):
        for system in range(evalset.n_systems):
            model.set_score(row, system, float(sample.scores[place, system]))
    predicted = model.features @ model.fit().slopes
    residual = sample.scores - predicted[sample.rows]
    residual = residual - np.average(residual, axis=0, weights=sample.weight)
    share = sample.weight / sample.weight.sum()
    scores = predicted + residual[rng.choice(sample.n, size=evalset.n_items, p=share)]
    # Slopes are shared by all systems, but a system near the end of the scale varies less: keep its own spread.
    spread = np.sqrt(share @ (sample.scores - share @ sample.scores) ** 2)
    scale = spread / np.maximum(scores.std(axis=0), 1e-300)
    truth = pilot.truth[int(rng.integers(len(pilot.truth)))]
    made: FloatArray = (scores - scores.mean(axis=0)) * scale + truth
    return made


def _build_cell_model(evalset: EvalSet) -> CellModel:
    names = select_proxies(evalset, None)
    empty = np.zeros((evalset.n_items, evalset.n_systems, 0))
    return CellModel(np.stack([standardise_metric(evalset, name) for name in names], 2) if names else empty)


def _summarise_runs(inputs: PlanInputs, policy: str, runs: list[AdaptiveRun]) -> PolicyCost:
    cells = np.array([run.cells for run in runs], dtype=np.float64)
    median = float(np.median(cells))
    share = median / (inputs.evalset.n_items * inputs.evalset.n_systems)
    hours = inputs.hours(np.full(inputs.evalset.n_items, share))
    decided = float(np.mean([run.decided for run in runs]))
    return PolicyCost(policy, decided, median, float(np.quantile(cells, 0.9)), hours, inputs.prices.money(hours))


def _describe_costs(question: str, costs: list[PolicyCost], max_cells: int, inputs: PlanInputs) -> tuple[str, ...]:
    ours, uniform = costs[0], costs[-1]
    what = _ANSWERS[question]
    if ours.decided < 0.5:
        every = max_cells >= inputs.evalset.n_items * inputs.evalset.n_systems
        remedy = "plan several judgments per output" if every else "raise the budget"
        first = (
            f"With {max_cells} cells an adaptive campaign decides {what} in {ours.decided:.0%} of runs: expect to end "
            f"undecided, or {remedy}."
        )
    else:
        spent = f", {format_hours(ours.hours)} hours" if np.isfinite(ours.hours) else ""
        spent += f", {ours.money:.0f} {inputs.prices.currency}" if np.isfinite(ours.money) else ""
        first = (
            f"An adaptive campaign decides {what} after about {ours.cells:.0f} cells{spent} (nine of ten runs: "
            f"{ours.cells_90:.0f}); {ours.decided:.0%} of runs decide it within {max_cells} cells."
        )
    second = (
        f"Judging all systems on the same items takes about {uniform.cells:.0f} cells with the same guarantee, "
        f"and decides it in {uniform.decided:.0%} of runs."
    )
    return (first, second) if len(costs) > 1 else (first,)
