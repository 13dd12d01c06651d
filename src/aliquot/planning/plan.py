"""`plan`: how many judgments are needed, and what a budget buys, before anyone pays."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aliquot.core import memory
from aliquot.core.progress import ProgressLike, resolve_progress
from aliquot.core.result import signature
from aliquot.errors import OptionError, unknown_name
from aliquot.estimation.inputs import of_criterion, score_of_criterion, with_judgments
from aliquot.io.inputs import DataLike, JudgmentsLike, SelectionLike, as_evalset, as_selection
from aliquot.planning.adaptive import AdaptivePlan, plan_adaptive, share_of_cells
from aliquot.planning.from_data import plan_campaign
from aliquot.planning.plan_inputs import find_basis, gather, judged_within
from aliquot.planning.power import (
    PAPER_DIFFERENCES,
    PAPER_SDS,
    PowerPlan,
    PowerTable,
    Setting,
    plan_power,
    power_table,
)
from aliquot.planning.recommendation import DEFAULT as GOAL
from aliquot.planning.recommendation import Goal, parse_goal
from aliquot.planning.result import CampaignPlan
from aliquot.sampling.budgets import Times
from aliquot.simulation.setup import DEFAULT_BUDGETS as BUDGETS

Number = float | Sequence[float]


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
    target: str = "testset",
    adaptive: bool = False,
    question: str = "best",
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
    """Say how many judgments are needed, and what a budget buys.

    Without data: from a difference and a spread to judgments, or from a budget to the difference it shows. With data,
    a pilot (some items judged) or a past campaign (all judged): what every budget promises, for a random sample and for
    the recommended method, and what to do.

    Args:
        data: a set with human scores on some or all items; None to plan from numbers alone.
        difference: the smallest difference of two systems that matters; with data, the goal is to detect it. Several,
            with or without several `sd`, give a table.
        sd: standard deviation of a judgment of one system.
        alpha: significance level of two-sided tests; with data they are adjusted over all pairs, as in `estimate`
            (Benjamini-Hochberg). Intervals have the level 1 - alpha.
        power: wanted probability of a significant difference.
        paired: the same items are judged for all systems.
        sd_difference: standard deviation over items of the difference of two systems; implies `paired`.
        system_correlation: correlation of two systems' scores over items, which gives sd_difference from sd.
        rho: correlation of a metric with people within a system, used as control variate.
        items: size of the test set; without it, conclusions reach beyond any. With data: of the set to plan for, if
            that is another one like it.
        systems: how many systems are compared; 2 by default.
        judgments_per_output: annotators who judge the same output; 1 by default.
        table: judgments for several spreads and differences; by default those of Wei and Jia 2021.
        budget: items (300 or "300items"), a share ("30%"), "2000judgments", hours ("20h") or money ("500EUR"). With
            judged items of the same test set it is the total; "+100" adds to them.
        budgets: of the curve: "5%:50%:10" (from, to, how many), or a list of shares and numbers of items.
        goal: what to reach: accuracy=0.95 (pairs in the right order; the default), best=0.9, ranking=0.5, apart=0.8
            (share of pairs told apart), width=2 (interval of a difference), difference=1 (detected).
        method: the method to recommend, compared with a plain random sample.
        human: the human score.
        criterion: which of several criteria of the judgments.
        selection: how the pilot's items were chosen; its probabilities are used.
        judgments: judgments of the pilot, where they are not in the data.
        past: take the judged items for a whole finished campaign and replay it.
        beyond: conclusions beyond this test set: no gain from judging all of it.
        target: what the estimates will be about, as in `estimate`: testset or given. Replays of a past campaign know
            the truth of these judgments, and are about them.
        adaptive: foresee an adaptive campaign (see `aliquot.Allocator`): cells until the question is decided.
        question: of an adaptive campaign: "best", "top" or "ranking".
        policy: of an adaptive campaign.
        rater_variance: variance of one judgment about what all judges would say; from repeated judgments by default.
        seconds_per_item: for judging an item, all its outputs, once.
        seconds_per_judgment: for judging one output once. By default as the judgments recorded it.
        cost: an item column that holds an item's seconds; "esa_time", or "fitted" to recorded times (seconds for each
            output by its source length).
        seconds_per_new_item: what an item costs once, however often it is judged.
        hourly: what an hour of an annotator costs.
        currency: of that money.
        replays: of each budget, for a past campaign.
        draws: of truths and estimates, for a pilot.
        seed: same seed, same plan.
        jobs: processes for replays; None for all cores.
        progress: called with the number of finished and of all replayed budgets; True writes a line of text.

    >>> import aliquot
    >>> aliquot.plan(difference=1, sd=25)
    PowerPlan(16245 judgments per system, 32490 in total, show a difference of 1 with power 0.95)
    >>> campaign = aliquot.plan(aliquot.synthetic(items=60, systems=4, seed=3), budgets="20%,40%", replays=10)
    >>> campaign.basis, len(campaign.curve("auto"))
    ('replay', 2)
    """
    data = None if data is None else as_evalset(data)
    selection = None if selection is None else as_selection(selection)
    given = dict(locals())
    _check_levels(alpha, power)
    if target not in ("testset", "given"):
        raise unknown_name("target", target, ("testset", "given"), "for conclusions beyond the set give --beyond")
    extra: tuple[str, ...] = () if data is None or selection is None else selection.check(data)
    if data is not None and judgments is not None:
        data, mismatches = with_judgments(data, of_criterion(judgments, criterion, human), selection, human)
        extra += tuple(mismatch.sentence for mismatch in mismatches)
    elif data is not None and criterion is not None:
        data = score_of_criterion(data, criterion, human)
        human = data.human
    times = Times(seconds_per_item, seconds_per_judgment, cost, seconds_per_new_item, hourly, currency)
    line = signature("plan", data, **_parts(given))
    if data is None:
        _refuse(
            {
                "human": human,
                "criterion": criterion,
                "selection": selection,
                "judgments": judgments,
                "past": past,
                "beyond": beyond,
                "goal": goal,
                "adaptive": adaptive,
            },
            "is about data, and there are none: name a file, or leave it out",
        )
        return _without_data(
            difference,
            sd,
            alpha,
            power,
            paired=paired,
            sd_difference=sd_difference,
            rho=rho,
            items=items,
            system_correlation=system_correlation,
            systems=systems,
            judgments_per_output=judgments_per_output,
            table=table,
            budget=budget,
            rater_variance=rater_variance,
            times=times,
            signed=line,
        )
    _refuse(
        {
            "sd": sd,
            "sd_difference": sd_difference,
            "rho": rho,
            "system_correlation": system_correlation,
            "paired": paired,
            "systems": systems,
            "judgments_per_output": judgments_per_output,
            "table": table,
        },
        "is for planning without data: the data say it themselves; leave it out",
    )
    name = human or data.human
    if selection is not None and name is not None:
        data = judged_within(data, selection, name)
    told_to = resolve_progress(progress, "replaying")
    _check_counts(items=items, replays=replays, draws=draws, rater_variance=rater_variance)
    if adaptive:
        _refuse(
            {"goal": goal, "difference": difference, "items": items, "beyond": beyond},
            "is not for --adaptive, which asks when --question is decided; leave it out",
        )
        basis, told = find_basis(
            data,
            human,
            selection,
            past=past,
            items=None,
            beyond=False,
            target=target,
            level=1 - alpha,
            replays=replays,
            draws=draws,
            seed=seed,
            jobs=jobs,
        )
        inputs = gather(data, basis, None, beyond=False, times=times, power=power)
        return plan_adaptive(
            inputs,
            question=question,
            policy=policy,
            share=share_of_cells(inputs, budget, times.currency),
            alpha=alpha,
            replays=replays,
            seed=seed,
            jobs=jobs,
            progress=told_to,
            notes=(*extra, *told),
            signature=line,
        )
    return plan_campaign(
        data,
        method=method,
        budgets=budgets,
        budget=budget,
        goal=_goal(goal, difference),
        human=human,
        selection=selection,
        past=past,
        items=items,
        beyond=beyond,
        target=target,
        times=times,
        rater_variance=rater_variance,
        alpha=alpha,
        power=power,
        replays=replays,
        draws=draws,
        seed=seed,
        jobs=jobs,
        progress=told_to,
        signature=line,
        notes=extra,
    )


def _parts(given: dict[str, Any]) -> dict[str, object]:
    """The parts of the signature: arguments that differ from the defaults, in order, and with data always the seed."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(plan).parameters.items()}
    parts = {name: value for name, value in given.items() if name not in ("data", "judgments", "jobs", "progress")}
    parts["difference"], parts["sd"] = (_listed(given[name]) for name in ("difference", "sd"))
    parts["selection"] = None if given["selection"] is None else given["selection"].method
    if given["data"] is None:
        parts["budgets"] = parts["seed"] = None
    return {name: _written(value) for name, value in parts.items() if name == "seed" or value != defaults[name]}


def _listed(value: Number | None) -> str | None:
    return None if value is None else ",".join(f"{number:g}" for number in _several("", value))


def _written(value: object) -> object:
    """As signatures have it: flags only where they are set, numbers without needless digits."""
    if isinstance(value, bool):
        return "yes" if value else None
    return f"{value:g}" if isinstance(value, float) else value


def _refuse(given: dict[str, object], why: str) -> None:
    for name, value in given.items():
        if value is not None and value is not False:
            raise OptionError(f"--{name.replace('_', '-')} {why}")


_SURE = 1e-12  # closer to 0 or 1, quantiles are mere rounding errors
_MOST = memory.MAX_DRAWS
_MOST_SPREADS = 1e6  # standard deviations in a difference: 10^13 judgments show a millionth of one


def _check_levels(alpha: float, power: float) -> None:
    for name, value in (("alpha", alpha), ("power", power)):
        if not _SURE <= value <= 1 - _SURE:
            raise OptionError(
                f"--{name} {value:g}: choose between 0 and 1, for instance {'0.05' if name == 'alpha' else '0.95'}"
            )
    if power <= alpha:
        raise OptionError(
            f"--power {power:g} and --alpha {alpha:g}: power must exceed alpha, which needs no difference"
        )


def _check_counts(
    *, items: int | None = None, replays: int = 100, draws: int = 2000, rater_variance: float | None = None
) -> None:
    if items is not None and items < 2:
        raise OptionError(f"--items {items}: a test set has at least 2 items")
    if not 2 <= replays <= _MOST:
        raise OptionError(f"--replays {replays}: choose 2 to {_MOST}; 100 is usual")
    if not 100 <= draws <= _MOST:
        raise OptionError(f"--draws {draws}: choose 100 to {_MOST}; 2000 is usual")
    if rater_variance is not None and not 0 <= rater_variance < math.inf:
        raise OptionError(f"--rater-variance {rater_variance:g}: a variance is at least 0")


def _goal(goal: str | None, difference: Number | None) -> Goal:
    """The goal that is typed; with a difference, to detect it."""
    if difference is None:
        return parse_goal(goal or GOAL)
    if goal is not None:
        raise OptionError(f"--goal {goal} and --difference are two goals; give one of them")
    (one, *more) = _several("difference", difference)
    if more:
        raise OptionError("--difference: with data give one difference")
    return Goal("difference", one)


def _several(name: str, value: Number) -> list[float]:
    """Return one number or several as a list, all above 0."""
    numbers = [float(value)] if isinstance(value, (int, float)) else [float(number) for number in value]
    for number in numbers if name else ():
        if not 0 < number < math.inf:
            hint = "; a difference of 0 takes endlessly many judgments, name the smallest that matters"
            raise OptionError(
                f"--{name.replace('_', '-')} {number:g}: must be above 0{hint if name == 'difference' else ''}"
            )
    if not numbers:
        raise OptionError(f"--{name} is empty; give a number")
    return numbers


def _without_data(
    difference: Number | None,
    sd: Number | None,
    alpha: float,
    power: float,
    *,
    paired: bool,
    sd_difference: float | None,
    system_correlation: float | None,
    rho: float | None,
    items: int | None,
    systems: int | None,
    judgments_per_output: int | None,
    table: bool,
    budget: float | str | None,
    rater_variance: float | None,
    times: Times,
    signed: str,
) -> PowerPlan | PowerTable:
    _check_counts(items=items, rater_variance=rater_variance)
    count, people = 2 if systems is None else systems, 1 if judgments_per_output is None else judgments_per_output
    if not 2 <= count <= _MOST:
        raise OptionError(f"--systems {count}: a comparison takes at least 2, and at most {_MOST}")
    if not 1 <= people <= _MOST:
        raise OptionError(f"--judgments-per-output {people}: choose 1 to {_MOST}")
    if rho is not None and not -1 <= rho <= 1:
        raise OptionError(f"--rho {rho:g}: a correlation lies between -1 and 1")
    paired = paired or sd_difference is not None or system_correlation is not None
    rater = (rater_variance or 0.0) * (2 if paired else 1)
    spreads = _spreads(sd, sd_difference, system_correlation, paired=paired, table=table)
    assumed = []
    if paired and sd is not None and system_correlation is None:
        assumed.append(
            "systems are taken to be uncorrelated over items, which is careful: give --system-correlation "
            "or --sd-difference"
        )
    if paired and rho:
        assumed.append("the metric is taken to foresee differences as well as scores (--rho)")
    size = math.inf if items is None else float(items)
    settings = [
        Setting(paired, spread, rho or 0.0, rater, people, size, count, alpha, power, tuple(assumed))
        for _, spread in spreads
    ]
    wanted = None if difference is None else _several("difference", difference)
    for small, large in [(min(wanted), max(spread for _, spread in spreads))] if wanted else []:
        if large / small > _MOST_SPREADS:
            raise OptionError(
                f"--difference {small:g} is {large / small:.1g} times below the spread, {large:g}: "
                "no campaign shows it; are both on the same scale?"
            )
    if table or len(settings) > 1 or (wanted is not None and len(wanted) > 1):
        if budget is not None:
            raise OptionError("--budget answers for one spread and difference; leave out --table and lists")
        found = power_table(settings, [named for named, _ in spreads], wanted or list(PAPER_DIFFERENCES))
        return replace(found, signature=signed)
    return replace(plan_power(settings[0], times, wanted[0] if wanted else None, budget), signature=signed)


def _spreads(
    sd: Number | None,
    sd_difference: float | None,
    system_correlation: float | None,
    *,
    paired: bool,
    table: bool,
) -> list[tuple[float, float]]:
    """The spreads as given, and those of what is compared: of a judgment, or, paired, s_d = sd sqrt(2 (1 - r))."""
    if sd_difference is not None:
        if sd is not None or system_correlation is not None:
            raise OptionError(
                "--sd-difference says the spread of the difference; leave out --sd and --system-correlation"
            )
        (spread,) = _several("sd_difference", sd_difference)
        return [(spread, spread)]
    if sd is None:
        if not table:
            raise OptionError(
                "without data, give --sd, the standard deviation of judgments (or --sd-difference, that "
                "of differences on an item); or give data"
            )
        sd = PAPER_SDS
    correlation = system_correlation or 0.0
    if not -1 <= correlation < 1:
        raise OptionError(f"--system-correlation {correlation:g}: choose from -1 to below 1")
    factor = math.sqrt(2 * (1 - correlation)) if paired else 1.0
    return [(spread, factor * spread) for spread in _several("sd", sd)]
