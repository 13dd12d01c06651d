"""`plan`: how many judgments are needed, and what a budget buys, before anyone pays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from aliquot.core.progress import ProgressLike, resolve_progress
from aliquot.core.result import make_signature
from aliquot.errors import OptionError
from aliquot.io.inputs import DataLike, JudgmentsLike, SelectionLike
from aliquot.planning.adaptive import AdaptivePlan, AdaptiveQuestion, plan_adaptive
from aliquot.planning.arguments import Number, as_numbers, signature_parts, validate_counts, validate_levels
from aliquot.planning.from_data import plan_campaign
from aliquot.planning.plan_inputs import PlanTarget, RunSettings, combine_plan_data, find_plan_inputs
from aliquot.planning.power import PowerPlan, PowerTable, plan_power
from aliquot.planning.recommendation import DEFAULT_GOAL, Goal, parse_goal
from aliquot.planning.result import CampaignPlan
from aliquot.sampling.budgets import Times
from aliquot.simulation.setup import DEFAULT_BUDGETS as BUDGETS
from aliquot.validation import invalid

R = TypeVar("R")
FOR_DATA = ("human", "criterion", "selection", "judgments", "past", "beyond", "goal", "adaptive")
FOR_NUMBERS = (
    "sd",
    "sd_difference",
    "rho",
    "system_correlation",
    "paired",
    "systems",
    "judgments_per_output",
    "table",
)
FOR_CURVES = ("goal", "difference", "items", "beyond")
"""Arguments that only plans with data, without data, and of budgets (not adaptive ones) take."""


def plan(
    data: DataLike | None = None,
    *,
    difference: Number | None = None,
    sd: Number | None = None,
    alpha: float = 0.05,
    power: float = 0.95,
    paired: bool = False,
    sd_difference: float | None = None,
    system_correlation: float | None = None,
    rho: float | None = None,
    items: int | None = None,
    systems: int | None = None,
    judgments_per_output: int | None = None,
    table: bool = False,
    budget: float | str | None = None,
    budgets: str | Sequence[float | str] = BUDGETS,
    goal: str | None = None,
    method: str = "auto",
    human: str | None = None,
    criterion: str | None = None,
    selection: SelectionLike | None = None,
    judgments: JudgmentsLike | None = None,
    past: bool = False,
    beyond: bool = False,
    target: PlanTarget = "testset",
    adaptive: bool = False,
    question: AdaptiveQuestion = "best",
    policy: str = "auto",
    rater_variance: float | None = None,
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
) -> PowerPlan | PowerTable | CampaignPlan | AdaptivePlan:
    """Plan how many judgments are needed, or what a budget buys.

    Without data (`aliquot.plan_power`): from a difference and a standard deviation to judgments, or from a
    budget to the difference it detects. With data, a pilot (some items judged) or a past campaign (all judged): the
    precision that each budget promises, for a random sample and for the recommended method. With `adaptive`
    (`aliquot.plan_adaptive`): the cells that an adaptive campaign needs.

    Args:
        data: A set with human scores on some or all items; None to plan from numbers alone.
        difference: Smallest difference of two systems that matters; with data, the goal is to detect it. Several,
            with or without several `sd`, give a table.
        sd: Standard deviation of the judgments of one system.
        alpha: Significance level of two-sided tests; with data, adjusted over all pairs as in `estimate`
            (Benjamini-Hochberg). Intervals have the level 1 - alpha.
        power: Target probability of a significant difference.
        paired: Whether the same items are judged for all systems.
        sd_difference: Standard deviation over items of the difference of two systems; implies `paired`.
        system_correlation: Correlation of two systems' scores over items, which gives sd_difference from sd.
        rho: Correlation of a metric with people within a system, used as control variate.
        items: Size of the test set; by default infinite. With data: size of another test set like it to plan for.
        systems: Number of systems compared; 2 by default.
        judgments_per_output: Annotators per output; 1 by default.
        table: Return judgments for several `sd` and `difference`; by default those of Wei and Jia 2021.
        budget: Items (300 or "300items"), a share ("30%"), "2000judgments", hours ("20h") or money ("500EUR"). With
            judged items of the same test set it is the total; "+100" adds to them.
        budgets: Budgets of the curve: "5%:50%:10" (from, to, how many), or a list of shares and numbers of items.
        goal: What to reach: accuracy=0.95 (pairs in the right order; the default), best=0.9, ranking=0.5, apart=0.8
            (share of pairs told apart), width=2 (interval of a difference), difference=1 (detected).
        method: Method to recommend, compared with a plain random sample.
        human: Name of the human score.
        criterion: Which of several criteria of the judgments.
        selection: How the pilot's items were chosen; its probabilities are used.
        judgments: Judgments of the pilot, if the data lack them.
        past: Take the judged items for a whole finished campaign and replay it.
        beyond: Conclude beyond this test set: judging all of it leaves an error.
        target: What the estimates are about, as in `estimate`: testset or given. Replays of a past campaign are always
            about its judgments.
        adaptive: Plan an adaptive campaign (see `aliquot.Allocator`): cells until the question is decided.
        question: Question of an adaptive campaign: "best", "top" or "ranking".
        policy: Policy of an adaptive campaign.
        rater_variance: Variance of one rating around the raters' mean; by default from repeated judgments.
        seconds_per_item: Seconds to judge all outputs of an item once.
        seconds_per_judgment: Seconds to judge one output once; by default as recorded in the judgments.
        cost: Item column that holds an item's seconds; "esa_time", or "fitted" to recorded times (seconds for each
            output by its source length).
        seconds_per_new_item: Seconds that an item takes once, however often it is judged.
        hourly: Cost of an annotator's hour.
        currency: Currency of `hourly`.
        replays: Replays of each budget, for a past campaign.
        draws: Draws of truths and estimates, for a pilot.
        seed: Seed of the draws.
        jobs: Processes for replays; None for all cores.
        progress: Called with the numbers of finished and of all replayed budgets; True writes a line of text.

    >>> import aliquot
    >>> aliquot.plan(difference=1, sd=25)
    PowerPlan(16245 judgments per system, 32490 in total, show a difference of 1 with power 0.95)
    >>> campaign = aliquot.plan(aliquot.synthetic(items=60, systems=4, seed=3), budgets="20%,40%", replays=10)
    >>> campaign.basis, len(campaign.curve("auto"))
    ('replay', 2)
    """
    arguments = dict(locals())
    if data is None:
        _refuse_arguments(FOR_DATA, arguments, "is about data, and there are none: name a file, or leave it out")
        return _call_plan(plan_power, arguments)
    _refuse_arguments(FOR_NUMBERS, arguments, "is for planning without data: the data show it; leave it out")
    if adaptive:
        why = "is not for adaptive plans, which end when the question is decided; leave it out"
        _refuse_arguments(FOR_CURVES, arguments, why)
        return _call_plan(plan_adaptive, arguments)
    validate_levels(alpha, power)
    source = combine_plan_data(
        data, selection=selection, judgments=judgments, human=human, criterion=criterion, target=target
    )
    times = Times(seconds_per_item, seconds_per_judgment, cost, seconds_per_new_item, hourly, currency)
    parts = signature_parts(plan, arguments | {"selection": source.selection})
    validate_counts(items=items, replays=replays, draws=draws, rater_variance=rater_variance)
    aim = _parse_aim(goal, difference)
    runs = RunSettings(1 - alpha, replays, draws, seed, jobs)
    inputs = find_plan_inputs(source, times, runs, target=target, past=past, items=items, beyond=beyond, power=power)
    return plan_campaign(
        source,
        inputs,
        aim,
        method=method,
        budgets=budgets,
        budget=budget,
        rater_variance=rater_variance,
        alpha=alpha,
        progress=resolve_progress(progress, "replaying"),
        signature=make_signature("plan", source.original, **parts),
    )


def _parse_aim(goal: str | None, difference: Number | None) -> Goal:
    """Parse the goal; with a difference, the goal is to detect it."""
    if difference is None:
        return parse_goal(goal or DEFAULT_GOAL)
    if goal is not None:
        raise OptionError(f"`goal={goal}` and `difference` are two goals; give one of them")
    first, *further = as_numbers("difference", difference)
    if further:
        raise invalid("difference", difference, "with data give one difference")
    return Goal("difference", first)


def _refuse_arguments(names: Sequence[str], arguments: Mapping[str, Any], why: str) -> None:
    for name in names:
        if arguments[name] is not None and arguments[name] is not False:
            raise OptionError(f"`{name}` {why}", name)


def _call_plan(function: Callable[..., R], arguments: Mapping[str, Any]) -> R:
    return function(**{name: arguments[name] for name in inspect.signature(function).parameters})
