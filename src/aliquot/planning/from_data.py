"""From a pilot or a past campaign to curves, probabilities and a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.errors import OptionError
from aliquot.metric_eval.measures import find_first_crossings
from aliquot.planning.forecast import BudgetForecast, PastCampaign, Point, Progress, probabilities, widths
from aliquot.planning.plan_inputs import PlanInputs, find_basis, gather
from aliquot.planning.recommendation import Goal, recommend
from aliquot.planning.repeats import Noise, RepeatAdvice, advise_repeats, annotator_noise
from aliquot.planning.result import CampaignPlan, PairPlan
from aliquot.sampling.budgets import Amount, Times, count_items, parse_amount
from aliquot.simulation.setup import BASELINE, ReplayMethod, add_parity_points, parse_budgets, resolve_method
from aliquot.stats.arrays import FloatArray

_UNKNOWN_NOISE = (
    "annotator noise is unknown (no output of the human score has two judgments): give --rater-variance to "
    "learn whether to judge outputs more than once"
)
_NO_DIFFERENCES = (
    "the systems have the same scores on all judged items: nothing is said about judging outputs more than once"
)
_TRIES = 5  # numbers of items that are tried between two budgets, before the upper one is taken
_REFERENCE = 0.3  # share of the set at which the variance left on an item is taken


@dataclass(frozen=True, eq=False)
class _Seen:
    """A point, and the chances of its pairs."""

    point: Point
    probabilities: FloatArray


def plan_campaign(
    data: EvalSet,
    *,
    method: str,
    budgets: str | Sequence[float | str],
    budget: float | str | None,
    goal: Goal,
    human: str | None,
    selection: Selection | None,
    past: bool,
    items: int | None,
    beyond: bool,
    target: str,
    times: Times,
    rater_variance: float | None,
    alpha: float,
    power: float,
    replays: int,
    draws: int,
    seed: int,
    jobs: int | None,
    progress: Progress | None,
    signature: str,
    notes: tuple[str, ...] = (),
) -> CampaignPlan:
    """Plan from data; `aliquot.plan` says what the arguments mean."""
    more = budget is not None and str(budget).strip().startswith("+")
    amount = None if budget is None else parse_amount(str(budget).strip().removeprefix("+"), times.currency)
    basis, told = find_basis(
        data,
        human,
        selection,
        past=past,
        items=items,
        beyond=beyond,
        target=target,
        level=1 - alpha,
        replays=replays,
        draws=draws,
        seed=seed,
        jobs=jobs,
    )
    inputs = gather(data, basis, items, beyond=beyond, times=times, power=power)
    methods = [resolve_method(name, inputs.evalset) for name in dict.fromkeys((BASELINE, method))]
    if len(methods) < 2:
        raise OptionError(f"--method {method}: random is compared with in any case; name another, for instance auto")
    sizes = _sizes(budgets, inputs)
    if inputs.judged:  # the curves start from what is judged already
        sizes = {inputs.judged: True} | {n: asked for n, asked in sizes.items() if n > inputs.judged}
    tasks = [(each, n) for each in methods for n in sizes]
    seen = [
        _seen(inputs, m, n, look, asked=sizes[n])
        for (m, n), look in zip(tasks, basis.forecasts(tasks, progress), strict=True)
    ]
    curves = {each.typed: [one for one in seen if one.point.method == each.typed] for each in methods}
    line = [one.point for one in curves[method]]
    amount = _in_all(inputs, amount, line) if more and amount is not None else amount
    chosen, left = _chosen(inputs, goal, amount, line)
    if amount is None:
        chosen = _confirmed(inputs, methods[-1], goal, line, chosen)
    at = {each.typed: _seen(inputs, each, chosen, basis.forecast(each, chosen)) for each in methods}
    advice = recommend(
        inputs,
        goal,
        amount,
        at[method].point,
        at[BASELINE].point,
        line[0],
        {name: [one.point for one in line] for name, line in curves.items()},
        leftover=left,
        alpha=alpha,
    )
    repeats, said = _repeats(data, inputs, methods[1], chosen * (1.0 + left), human, rater_variance)
    return CampaignPlan(
        points=tuple(one.point for one in seen),
        pairs=_pairs(inputs, curves, at),
        recommendation=advice,
        repeats=repeats,
        basis="replay" if isinstance(basis, PastCampaign) else "pilot",
        judged=basis.evalset.n_items if isinstance(basis, PastCampaign) else basis.sample.n,
        population=inputs.population,
        systems=inputs.evalset.systems,
        stands_for={each.typed: f"{each.selector} + {each.estimator}" for each in methods},
        judgments_per_output=inputs.per_output,
        currency=times.currency,
        seconds=inputs.prices.about,
        notes=(*notes, *told, *said),
        signature=signature,
    )


def _sizes(budgets: str | Sequence[float | str], inputs: PlanInputs) -> dict[int, bool]:
    """Numbers of items, ascending, and whether each was asked for."""
    points = add_parity_points(parse_budgets(budgets, inputs.limit), inputs.limit)
    found: dict[int, bool] = {}
    for point in points:
        n = max(2, round(point.share * inputs.limit))
        found[n] = found.get(n, False) or point.asked
    return dict(sorted(found.items()))


def _in_all(inputs: PlanInputs, amount: Amount, curve: Sequence[Point]) -> Amount:
    """The total that an amount to add makes with what is judged already."""
    if not inputs.judged:
        raise OptionError(
            f"--budget +{amount.written} adds to judged items, and this plan starts anew: leave out the +"
        )
    now, written = curve[0], f"+{amount.written}"
    if amount.timed:
        already = now.hours if amount.unit == "hours" else now.money
        return replace(amount, value=amount.value + (already if np.isfinite(already) else 0.0), written=written)
    return Amount(now.items + _affordable(inputs, curve, amount), "items", written)


def _seen(inputs: PlanInputs, method: ReplayMethod, n: int, forecast: BudgetForecast, *, asked: bool = True) -> _Seen:
    found = probabilities(forecast, 1.0 - inputs.basis.level)
    width, width_difference, detects = widths(forecast, inputs.power)
    hours = inputs.hours(forecast.expected)
    point = Point(
        method=method.typed,
        items=n,
        share=n / inputs.population if np.isfinite(inputs.population) else float("nan"),
        judgments=n * inputs.evalset.n_systems * inputs.per_output,
        hours=hours,
        money=inputs.prices.money(hours),
        width=width,
        width_difference=width_difference,
        detects=detects,
        accuracy=found.accuracy,
        accuracy_error=found.accuracy_error,
        best=found.best,
        ranking=found.ranking,
        apart=float(found.pairs.sum()),
        asked=asked,
    )
    return _Seen(point, found.pairs)


def _chosen(inputs: PlanInputs, goal: Goal, amount: Amount | None, curve: Sequence[Point]) -> tuple[int, float]:
    """The number of items that the budget buys or the goal needs (all, where it is never reached), and what is left.

    What is left is the part of the budget that is not needed because all items are judged, as a share of their cost.
    """
    if amount is None:
        wanted = goal.items(curve, inputs.pairs)
        least = max(2, inputs.judged)
        return (inputs.limit if np.isinf(wanted) else int(np.clip(np.ceil(wanted - 1e-9), least, inputs.limit))), 0.0
    affordable = _affordable(inputs, curve, amount)
    if affordable < inputs.judged - 1e-6:
        raise OptionError(
            f"--budget {amount.written}: {inputs.judged} items are judged already, and this buys {affordable:.0f} in "
            f"all; give a larger total, or what to add (+{amount.written})"
        )
    if affordable < 2:
        raise OptionError(f"--budget {amount.written} buys {affordable:.1f} items; a plan needs at least 2: raise it")
    if affordable >= inputs.limit:
        return inputs.limit, float(affordable / inputs.limit - 1.0)
    return int(affordable + 1e-9), 0.0


def _confirmed(inputs: PlanInputs, method: ReplayMethod, goal: Goal, curve: Sequence[Point], chosen: int) -> int:
    """The number of items at which the goal is reached, and not only the line between two budgets crosses it.

    Where a try falls short, by chance or because the curve bends, the next one lies between it and the next budget.
    Otherwise a plan would call a goal missed that a few more items reach.
    """
    known = list(curve)
    for _ in range(_TRIES):
        point = _seen(inputs, method, chosen, inputs.basis.forecast(method, chosen)).point
        if chosen >= inputs.limit or goal.reached(point, inputs.pairs):
            return chosen
        known = sorted([*known, point], key=lambda one: one.items)
        chosen = _chosen(inputs, goal, None, known)[0]
    sure = (one.items for one in known if one.items >= chosen and goal.reached(one, inputs.pairs))
    return next(sure, inputs.limit)


def _affordable(inputs: PlanInputs, curve: Sequence[Point], amount: Amount) -> float:
    """Items that an amount buys; hours and money between the points of the curve, because designs draw long items."""
    if amount.unit == "cost":
        raise OptionError(f"--budget {amount.written}: plan in items, judgments, hours or money; --cost holds seconds")
    if amount.unit == "share" and amount.value > 1:
        raise OptionError(f"--budget {amount.written}: more than all items; give at most 100%")
    if not amount.timed:
        return float(count_items(amount, inputs.limit, inputs.evalset.n_systems * inputs.per_output))
    hours = amount.value
    if amount.unit == "money":
        if inputs.prices.hourly is None:
            raise OptionError(f"--budget {amount.written}: money needs --hourly, what an hour of an annotator costs")
        hours = amount.value / inputs.prices.hourly
    if inputs.prices.seconds is None:
        raise OptionError(
            f"--budget {amount.written}: needs to know how long judging takes: give --seconds-per-item, "
            "--seconds-per-judgment or --cost"
        )
    sizes, spent = (np.array([0.0, *(float(getattr(p, name)) for p in curve)]) for name in ("items", "hours"))
    if hours > spent[-1]:
        return float(sizes[-1] * hours / spent[-1])
    return float(np.interp(hours, spent, sizes))


def _pairs(inputs: PlanInputs, curves: dict[str, list[_Seen]], at: dict[str, _Seen]) -> tuple[PairPlan, ...]:
    """What each pair takes; pairs ordered by how far apart they are."""
    names, means = inputs.evalset.systems, inputs.basis.means
    rows = []
    for pair, (one, other) in enumerate(zip(*np.triu_indices(len(names), 1), strict=True)):
        a, b = (one, other) if means[one] >= means[other] else (other, one)
        rows.append(
            PairPlan(
                names[a],
                names[b],
                float(means[a] - means[b]),
                {m: tuple(float(s.probabilities[pair]) for s in line if s.point.asked) for m, line in curves.items()},
                {m: _needed(line, pair, inputs.power) for m, line in curves.items()},
                {m: float(s.probabilities[pair]) for m, s in at.items()},
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.difference))


def _needed(line: Sequence[_Seen], pair: int, power: float) -> float:
    sizes = np.array([float(one.point.items) for one in line])
    rising = np.maximum.accumulate(np.array([one.probabilities[pair] for one in line]))
    return float(np.ceil(find_first_crossings(sizes, rising, np.array([power]))[0] - 1e-9))


def _repeats(
    data: EvalSet, inputs: PlanInputs, method: ReplayMethod, n: float, human: str | None, rater_variance: float | None
) -> tuple[RepeatAdvice | None, list[str]]:
    """Judgments of the same output that are worth paying for, at the cost of the recommended plan."""
    evalset = inputs.evalset
    if rater_variance is not None:
        rater, per_output = 2 * rater_variance, inputs.per_output
    else:
        found = annotator_noise(data.with_human(human or data.human).keep(systems=list(evalset.systems)))
        if found is None:
            return None, [_UNKNOWN_NOISE]
        rater, per_output = found.difference, found.judgments
    # A design that draws by expected error reduces both parts alike; so the judges' share is told without it.
    plain, left = _on_item(inputs, resolve_method(f"segments+{method.estimator}", evalset)), _on_item(inputs, method)
    if not min(plain, left) > 0:
        return None, [_NO_DIFFERENCES]
    share = min(1.0, rater / per_output / plain)
    noise = Noise((1.0 - share) * left, share * left * per_output)
    return advise_repeats(
        noise, items=n, judgments=inputs.per_output, population=inputs.population, **_item_cost(inputs)
    ), []


def _on_item(inputs: PlanInputs, method: ReplayMethod) -> float:
    """Variance of a difference that the method leaves on one item: n0 with Var = left (1/n - 1/N)."""
    reference = max(2, round(_REFERENCE * inputs.limit))
    forecast = inputs.basis.forecast(method, reference)
    first, second = np.triu_indices(forecast.estimates.shape[1], 1)
    variance = float(np.nanmean(forecast.pair_se[:, first, second] ** 2))
    return variance / (1.0 / reference - 1.0 / inputs.population)


def _item_cost(inputs: PlanInputs) -> dict[str, Any]:
    """Seconds, or judgments where times are unknown, of judging an item once and of taking it in."""
    seconds = inputs.prices.seconds
    if seconds is None:
        return {"judgment_cost": float(inputs.evalset.n_systems), "new_item_cost": 0.0}
    return {"judgment_cost": float(seconds.mean()), "new_item_cost": inputs.prices.new_item}
