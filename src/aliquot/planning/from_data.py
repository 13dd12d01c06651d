"""From a pilot or a past campaign to curves, probabilities and a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aliquot.errors import OptionError
from aliquot.metric_eval.measures import find_first_crossings
from aliquot.planning.forecast import (
    BudgetForecast,
    PastCampaign,
    Point,
    Progress,
    estimate_probabilities,
    expected_widths,
)
from aliquot.planning.plan_inputs import PlanData, PlanInputs
from aliquot.planning.recommendation import Goal, recommend
from aliquot.planning.repeats import NoiseVariances, RepeatAdvice, advise_repeats, annotator_noise
from aliquot.planning.result import CampaignPlan, PairPlan
from aliquot.sampling.budgets import Amount, count_items, parse_amount
from aliquot.simulation.setup import BASELINE, ReplayMethod, add_parity_points, parse_budgets, resolve_method
from aliquot.stats.arrays import FloatArray
from aliquot.validation import invalid

_UNKNOWN_NOISE = (
    "annotator noise is unknown (no output of the human score has two judgments): give `rater_variance` to "
    "learn whether to judge outputs more than once"
)
_UNKNOWN_DRAWS = (
    "fewer than 10 prompts have a second judged draw: judge two draws of some prompts to learn whether more prompts or "
    "more draws buy more"
)
_NO_DIFFERENCES = (
    "the systems have the same scores on all judged items: nothing is said about judging outputs more than once"
)
_MAX_TRIES = 5  # numbers of items that are tried between two budgets, before the upper one is taken
_REFERENCE = 0.3  # share of the set at which the variance left on an item is taken


@dataclass(frozen=True, eq=False)
class BudgetEvaluation:
    """A point of the curve, and the probability of each pair to be told apart."""

    point: Point
    probabilities: FloatArray


def plan_campaign(
    source: PlanData,
    inputs: PlanInputs,
    aim: Goal,
    *,
    method: str,
    budgets: str | Sequence[float | str],
    budget: float | str | None,
    rater_variance: float | None,
    alpha: float,
    progress: Progress | None,
    signature: str,
) -> CampaignPlan:
    """Plan from a pilot or a past campaign; `aliquot.plan` describes the arguments."""
    basis, currency = inputs.basis, inputs.prices.currency
    amount = None if budget is None else parse_amount(str(budget).strip().removeprefix("+"), currency)
    methods = [resolve_method(name, inputs.evalset) for name in dict.fromkeys((BASELINE, method))]
    if len(methods) < 2:
        raise invalid("method", method, "random is compared with in any case; name another, for instance auto")
    sizes = _list_sizes(budgets, inputs)
    if inputs.judged:  # the curves start from what is judged already
        sizes = {inputs.judged: True} | {n: asked for n, asked in sizes.items() if n > inputs.judged}
    tasks = [(each, n) for each in methods for n in sizes]
    forecasts = basis.forecast_budgets(tasks, progress)
    evaluations = [
        _evaluate_budget(inputs, each, n, forecast, asked=sizes[n])
        for (each, n), forecast in zip(tasks, forecasts, strict=True)
    ]
    curves = {each.typed: [row for row in evaluations if row.point.method == each.typed] for each in methods}
    points = {name: [row.point for row in curve] for name, curve in curves.items()}
    line = points[method]
    if amount is not None and str(budget).strip().startswith("+"):
        amount = _total_amount(inputs, amount, line)
    n, leftover = _choose_items(inputs, aim, amount, line)
    if amount is None:
        n = _confirm_goal(inputs, methods[-1], aim, line, n)
    recommended = {each.typed: _evaluate_budget(inputs, each, n, basis.forecast_budget(each, n)) for each in methods}
    advice = recommend(
        inputs,
        aim,
        amount,
        recommended[method].point,
        recommended[BASELINE].point,
        line[0],
        points,
        leftover=leftover,
        alpha=alpha,
    )
    repeats, repeat_notes = _advise_repeats(source, inputs, methods[1], n * (1.0 + leftover), rater_variance)
    return CampaignPlan(
        points=tuple(row.point for row in evaluations),
        pairs=_plan_pairs(inputs, curves, recommended),
        recommendation=advice,
        repeats=repeats,
        basis="replay" if isinstance(basis, PastCampaign) else "pilot",
        judged=basis.evalset.n_items if isinstance(basis, PastCampaign) else basis.sample.n,
        population=inputs.population,
        systems=inputs.evalset.systems,
        stands_for={each.typed: f"{each.selector} + {each.estimator}" for each in methods},
        judgments_per_output=inputs.per_output,
        currency=currency,
        seconds=inputs.prices.about,
        notes=(*source.notes, *inputs.notes, *repeat_notes),
        signature=signature,
    )


def _list_sizes(budgets: str | Sequence[float | str], inputs: PlanInputs) -> dict[int, bool]:
    """Numbers of items, ascending, and whether each was asked for."""
    points = add_parity_points(parse_budgets(budgets, inputs.limit), inputs.limit)
    sizes: dict[int, bool] = {}
    for point in points:
        n = max(2, round(point.share * inputs.limit))
        sizes[n] = sizes.get(n, False) or point.asked
    return dict(sorted(sizes.items()))


def _total_amount(inputs: PlanInputs, amount: Amount, curve: Sequence[Point]) -> Amount:
    """Return the total of an amount to add and what is judged already."""
    if not inputs.judged:
        raise OptionError(
            f"`budget=+{amount.written}` adds to judged items, and this plan starts anew: leave out the +"
        )
    now, written = curve[0], f"+{amount.written}"
    if amount.timed:
        already = now.hours if amount.unit == "hours" else now.money
        return replace(amount, value=amount.value + (already if np.isfinite(already) else 0.0), written=written)
    return Amount(now.items + _count_affordable(inputs, curve, amount), "items", written)


def _evaluate_budget(
    inputs: PlanInputs, method: ReplayMethod, n: int, forecast: BudgetForecast, *, asked: bool = True
) -> BudgetEvaluation:
    expected = estimate_probabilities(forecast, 1.0 - inputs.basis.level)
    width, width_difference, detects = expected_widths(forecast, inputs.power)
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
        accuracy=expected.accuracy,
        accuracy_error=expected.accuracy_error,
        best=expected.best,
        ranking=expected.ranking,
        apart=float(expected.pairs.sum()),
        asked=asked,
    )
    return BudgetEvaluation(point, expected.pairs)


def _choose_items(inputs: PlanInputs, goal: Goal, amount: Amount | None, curve: Sequence[Point]) -> tuple[int, float]:
    """Return the number of items for a budget or goal (all if it is never reached), and the budget's surplus.

    The surplus is what exceeds judging all items, as a share of their cost.
    """
    if amount is None:
        needed = goal.smallest_size(curve, inputs.pairs)
        least = max(2, inputs.judged)
        return (inputs.limit if np.isinf(needed) else int(np.clip(np.ceil(needed - 1e-9), least, inputs.limit))), 0.0
    affordable = _count_affordable(inputs, curve, amount)
    if affordable < inputs.judged - 1e-6:
        raise OptionError(
            f"`budget={amount.written}`: {inputs.judged} items are judged already, and this buys {affordable:.0f} in "
            f"all; give a larger total, or what to add (+{amount.written})"
        )
    if affordable < 2:
        raise OptionError(f"`budget={amount.written}` buys {affordable:.1f} items; a plan needs at least 2: raise it")
    if affordable >= inputs.limit:
        return inputs.limit, float(affordable / inputs.limit - 1.0)
    return int(affordable + 1e-9), 0.0


def _confirm_goal(inputs: PlanInputs, method: ReplayMethod, goal: Goal, curve: Sequence[Point], n: int) -> int:
    """Return a number of items that reaches the goal when evaluated, not only by interpolation between budgets.

    If a number falls short (by chance, or because the curve bends), the next one lies between it and the next budget.
    """
    points = list(curve)
    for _ in range(_MAX_TRIES):
        point = _evaluate_budget(inputs, method, n, inputs.basis.forecast_budget(method, n)).point
        if n >= inputs.limit or goal.is_reached(point, inputs.pairs):
            return n
        points = sorted([*points, point], key=lambda tried: tried.items)
        n = _choose_items(inputs, goal, None, points)[0]
    sure = (point.items for point in points if point.items >= n and goal.is_reached(point, inputs.pairs))
    return next(sure, inputs.limit)


def _count_affordable(inputs: PlanInputs, curve: Sequence[Point], amount: Amount) -> float:
    """Return the items an amount buys; hours and money are interpolated on the curve: designs may prefer long items."""
    if amount.unit == "cost":
        raise OptionError(f"`budget={amount.written}`: plan in items, judgments, hours or money; `cost` holds seconds")
    if amount.unit == "share" and amount.value > 1:
        raise OptionError(f"`budget={amount.written}`: more than all items; give at most 100%")
    if not amount.timed:
        return float(count_items(amount, inputs.limit, inputs.evalset.n_systems * inputs.per_output))
    hours = amount.value
    if amount.unit == "money":
        if inputs.prices.hourly is None:
            raise OptionError(f"`budget={amount.written}`: money needs `hourly`, what an hour of an annotator costs")
        hours = amount.value / inputs.prices.hourly
    if inputs.prices.seconds is None:
        raise OptionError(
            f"`budget={amount.written}` needs to know how long judging takes: give `seconds_per_item`, "
            "`seconds_per_judgment` or `cost`"
        )
    sizes, spent = (np.array([0.0, *(float(getattr(p, name)) for p in curve)]) for name in ("items", "hours"))
    if hours > spent[-1]:
        return float(sizes[-1] * hours / spent[-1])
    return float(np.interp(hours, spent, sizes))


def _plan_pairs(
    inputs: PlanInputs, curves: dict[str, list[BudgetEvaluation]], recommended: dict[str, BudgetEvaluation]
) -> tuple[PairPlan, ...]:
    """Return what each pair needs, the largest difference first."""
    names, means = inputs.evalset.systems, inputs.basis.means
    rows = []
    for pair, (first, second) in enumerate(zip(*np.triu_indices(len(names), 1), strict=True)):
        a, b = (first, second) if means[first] >= means[second] else (second, first)
        rows.append(
            PairPlan(
                names[a],
                names[b],
                float(means[a] - means[b]),
                {m: tuple(float(s.probabilities[pair]) for s in line if s.point.asked) for m, line in curves.items()},
                {m: _items_for_power(line, pair, inputs.power) for m, line in curves.items()},
                {m: float(s.probabilities[pair]) for m, s in recommended.items()},
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.difference))


def _items_for_power(line: Sequence[BudgetEvaluation], pair: int, power: float) -> float:
    sizes = np.array([float(evaluation.point.items) for evaluation in line])
    rising = np.maximum.accumulate(np.array([evaluation.probabilities[pair] for evaluation in line]))
    return float(np.ceil(find_first_crossings(sizes, rising, np.array([power]))[0] - 1e-9))


def _advise_repeats(
    source: PlanData, inputs: PlanInputs, method: ReplayMethod, n: float, rater_variance: float | None
) -> tuple[RepeatAdvice | None, list[str]]:
    """Return how many judgments of an output are worth paying for at the cost of the recommended plan, and notes."""
    evalset = inputs.evalset
    draws = source.measure_draws(evalset.systems)
    if draws is not None:
        if not np.isfinite(draws.others).all():
            return None, [_UNKNOWN_DRAWS]
        rater, per_output = 2 * float(np.mean(draws.others / draws.judging)), 1.0 / float(np.mean(draws.judging))
    elif rater_variance is not None:
        rater, per_output = 2 * rater_variance, inputs.per_output
    else:
        data = source.evalset
        measured = annotator_noise(data.with_human(source.human or data.human).keep(systems=list(evalset.systems)))
        if measured is None:
            return None, [_UNKNOWN_NOISE]
        rater, per_output = measured.difference, measured.judgments
    # A design that draws by expected error reduces both parts alike, so the judges' share is computed without it.
    plain, remaining = (
        _variance_per_item(inputs, resolve_method(f"segments+{method.estimator}", evalset)),
        _variance_per_item(inputs, method),
    )
    if not min(plain, remaining) > 0:
        return None, [_NO_DIFFERENCES]
    share = min(1.0, rater / per_output / plain)
    noise = NoiseVariances((1.0 - share) * remaining, share * remaining * per_output)
    return advise_repeats(
        noise,
        "judgment" if draws is None else "draw",
        items=n,
        judgments=inputs.per_output,
        population=inputs.population,
        **_repeat_costs(inputs),
    ), []


def _variance_per_item(inputs: PlanInputs, method: ReplayMethod) -> float:
    """Return v in Var(difference) = v (1/n - 1/N) for a method."""
    reference = max(2, round(_REFERENCE * inputs.limit))
    forecast = inputs.basis.forecast_budget(method, reference)
    first, second = np.triu_indices(forecast.estimates.shape[1], 1)
    variance = float(np.nanmean(forecast.pair_se[:, first, second] ** 2))
    return variance / (1.0 / reference - 1.0 / inputs.population)


def _repeat_costs(inputs: PlanInputs) -> dict[str, Any]:
    """Return the costs of judging an item once and of a new item, in seconds or, without times, in judgments."""
    seconds = inputs.prices.seconds
    if seconds is None:
        return {"judgment_cost": float(inputs.evalset.n_systems), "new_item_cost": 0.0}
    return {"judgment_cost": float(seconds.mean()), "new_item_cost": inputs.prices.new_item}
