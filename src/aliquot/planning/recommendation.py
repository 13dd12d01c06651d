"""Goals of a plan, the smallest budget that reaches them, and the recommendation in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.errors import OptionError, unknown_name
from aliquot.metric_eval.measures import find_first_crossings
from aliquot.planning.forecast import PastCampaign, Point
from aliquot.planning.plan_inputs import PlanInputs
from aliquot.planning.result import Recommendation
from aliquot.sampling.budgets import Amount
from aliquot.simulation.setup import BASELINE

DEFAULT_GOAL = "accuracy=0.95"


@dataclass(frozen=True)
class _Measure:
    """A measure with goals: whether it is a probability, its value at a point, and a sentence for messages."""

    is_probability: bool
    value: Callable[[Point, int], float]
    words: str


_MEASURES = {
    "accuracy": _Measure(True, lambda p, _: p.accuracy, "{0:.0%} of the pairs of systems in the right order"),
    "best": _Measure(True, lambda p, _: p.best, "the best system found with a probability of {0:.0%}"),
    "ranking": _Measure(True, lambda p, _: p.ranking, "the whole ranking right with a probability of {0:.0%}"),
    "apart": _Measure(True, lambda p, pairs: p.apart / pairs, "{0:.0%} of the pairs told apart"),
    "width": _Measure(False, lambda p, _: p.width_difference, "intervals of differences {0:g} wide"),
    "difference": _Measure(False, lambda p, _: p.detects, "a difference of {0:g} detected"),
}


@dataclass(frozen=True)
class Goal:
    """A measure and the value it should reach."""

    kind: str
    target: float

    @property
    def words(self) -> str:
        """The goal in words."""
        return _MEASURES[self.kind].words.format(self.target)

    @property
    def written(self) -> str:
        """The goal as a spec."""
        return f"{self.kind}={self.target:g}"

    @property
    def threshold(self) -> float:
        """The target on a scale where higher is better."""
        return self.target if _MEASURES[self.kind].is_probability else -self.target

    def is_reached(self, point: Point, pairs: int) -> bool:
        """Return whether a point reaches the goal, up to rounding."""
        return self.measure(point, pairs) >= self.threshold - 1e-3 * abs(self.threshold)

    def measure(self, point: Point, pairs: int) -> float:
        """Return the point's value, on a scale where higher is better."""
        value = _MEASURES[self.kind].value(point, pairs)
        return value if _MEASURES[self.kind].is_probability else -value

    def smallest_size(self, points: Sequence[Point], pairs: int, target: float | None = None) -> float:
        """Return the smallest number of items that reaches the goal (or `target`); infinite if none does."""
        curve = np.array([self.measure(point, pairs) for point in points])
        threshold = self.threshold if target is None else target
        rising = np.maximum.accumulate(np.where(np.isfinite(curve), curve, -np.inf))
        sizes = np.array([float(point.items) for point in points])
        is_finite = np.isfinite(rising)
        if not is_finite.any():
            return float("inf")
        return float(find_first_crossings(sizes[is_finite], rising[is_finite], np.array([threshold]))[0])


def parse_goal(text: str) -> Goal:
    """Read accuracy=0.95, best=0.9, ranking=0.5, apart=0.8 (shares of pairs), width=2 or difference=1.

    >>> parse_goal("best=90%")
    Goal(kind='best', target=0.9)
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if name not in _MEASURES:
        raise unknown_name("goal", name, _MEASURES, f"write for instance {DEFAULT_GOAL}")
    try:
        target = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
    except ValueError:
        raise OptionError(f"`goal` '{text}': write {name}=VALUE, for instance {DEFAULT_GOAL}") from None
    if _MEASURES[name].is_probability and not 0 < target <= 1:
        raise OptionError(f"`goal` {text}: choose between 0 and 1, for instance {DEFAULT_GOAL}")
    if not equals or not 0 < target < np.inf:
        raise OptionError(f"`goal` {text}: must be above 0")
    return Goal(name, target)


# -- A plan in words, with the numbers that support it ---------------------------------------------------------------


def recommend(
    inputs: PlanInputs,
    goal: Goal,
    amount: Amount | None,
    point: Point,
    random: Point,
    now: Point,
    curves: Mapping[str, Sequence[Point]],
    *,
    leftover: float,
    alpha: float,
) -> Recommendation:
    """Return the recommendation for a budget or goal, compared with a simple random sample.

    `now` is the point of the items judged so far.
    """
    reached = goal.is_reached(point, inputs.pairs)
    plain = curves[BASELINE]
    items = float(np.ceil(goal.smallest_size(plain, inputs.pairs, goal.measure(point, inputs.pairs)) - 1e-9))
    hours, money = (_interpolate(plain, items, name) for name in ("hours", "money"))
    continuation = _describe_continuation(inputs, point, now, goal, amount, reached=reached) if inputs.judged else None
    text = [
        continuation or _describe_plan(inputs, point, goal, amount, reached=reached),
        _describe_precision(inputs, point, alpha),
    ]
    if not reached:
        text.append(_describe_miss(inputs, goal, amount))
    text.append(_compare_with_random(inputs, point, items, hours, money))
    if leftover > 0:
        text.append(
            f"The budget is {leftover:.0%} more than judging all {inputs.limit} items takes; what is left buys "
            "only further judgments of the same outputs."
        )
    written = None if amount is None else amount.written
    more = point.items - inputs.judged
    return Recommendation(
        point, random, goal.written, reached, written, items, hours, money, inputs.judged, more, tuple(text)
    )


def _interpolate(curve: Sequence[Point], items: float, name: str) -> float:
    """Interpolate a field of the curve at a number of items; NaN for infinitely many."""
    if not np.isfinite(items):
        return float("nan")
    return float(np.interp(items, [p.items for p in curve], [getattr(p, name) for p in curve]))


def _describe_plan(inputs: PlanInputs, point: Point, goal: Goal, amount: Amount | None, *, reached: bool) -> str:
    why = f"For {goal.words}" if reached else "To come closest"
    if amount is not None:
        why = f"With a budget of {amount.written}"
    is_all = point.items >= inputs.population
    which = f"all {point.items} items" if is_all else f"{point.items} of {inputs.limit} items with {point.method}"
    if np.isinf(inputs.population):
        which = f"{point.items} items with {point.method}"
    return f"{why}, judge {which}: {_describe_cost(inputs, point.judgments, point.hours, point.money)}."


def _describe_continuation(
    inputs: PlanInputs, point: Point, now: Point, goal: Goal, amount: Amount | None, *, reached: bool
) -> str:
    """Describe what to add to the judged items."""
    more = point.items - inputs.judged
    present = f"{inputs.judged} of {inputs.limit} items are judged{' for all systems' if inputs.partly else ''}"
    if more <= 0:
        enough = f"enough for {goal.words}" if reached else "all that the budget buys"
        return f"{present}; that is {enough}."
    why = f"for {goal.words}" if reached else "to come closest"
    if amount is not None:
        why = f"with a budget of {amount.written}"
    spent = _describe_cost(inputs, point.judgments - now.judgments, point.hours - now.hours, point.money - now.money)
    return f"{present}; {why}, judge {more} more with {point.method} ({point.items} in all): {spent}."


def _describe_cost(inputs: PlanInputs, judgments: float, hours: float, money: float) -> str:
    each = f"{inputs.per_output:.3g}"
    parts = [f"{judgments:.0f} judgments{'' if each == '1' else f' ({each} of each {inputs.repeated})'}"]
    if np.isfinite(hours):
        parts.append(f"{format_hours(hours)} hours")
    if np.isfinite(money):
        parts.append(f"{money:.0f} {inputs.prices.currency}")
    return ", ".join(parts)


def format_hours(number: float) -> str:
    """Format a number of hours with about two digits.

    >>> format_hours(0.04), format_hours(2.345), format_hours(123.4)
    ('0.04', '2.3', '123')
    """
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 1 else f"{number:.2f}"


def _describe_precision(inputs: PlanInputs, point: Point, alpha: float) -> str:
    if point.items >= inputs.population:
        return "Then nothing is left to estimate but what other annotators would have said."
    that = "Against these judgments on all items, that" if isinstance(inputs.basis, PastCampaign) else "That"
    return (
        f"{that} is expected to tell apart {point.apart:.0f} of {inputs.pairs} pairs of systems at {1 - alpha:.0%}, to "
        f"put {_format_percent(point.accuracy)} of pairs in the right order, and to find the best system with a "
        f"probability of {_format_percent(point.best)}; the interval of a difference is "
        f"{point.width_difference:.3g} wide."
    )


def _format_percent(value: float) -> str:
    """Format an estimated probability; it is never 100%."""
    return f"{value:.0%}" if value < 0.995 else "more than 99%"


def _describe_miss(inputs: PlanInputs, goal: Goal, amount: Amount | None) -> str:
    if amount is not None:
        return f"It does not reach the goal: {goal.words}."
    return f"The goal, {goal.words}, is not reached by judging all {inputs.limit} items."


def _compare_with_random(inputs: PlanInputs, point: Point, items: float, hours: float, money: float) -> str:
    if point.items >= inputs.population:
        return "All items are judged, so the design does not matter."
    if inputs.judged:
        return _compare_with_random_items(inputs, point, items)
    if np.isinf(items):
        return f"A plain random sample does not get as far with all {inputs.limit} items."
    if items <= 1.02 * point.items + 1:
        return f"A plain random sample of {items:.0f} items is as good: {point.method} gains nothing here."
    judgments = items * point.judgments / point.items
    cost = _describe_cost(inputs, judgments, hours, money)
    return f"A plain random sample needs {items:.0f} items for the same: {cost}."


def _compare_with_random_items(inputs: PlanInputs, point: Point, items: float) -> str:
    """What it takes to continue with plain random items."""
    if point.items == inputs.judged:
        return "Nothing more is needed."
    if np.isinf(items):
        return f"Plain random items, averaged, do not get as far with all {inputs.limit}."
    if items <= 1.02 * point.items + 1:
        return f"Plain random items up to {items:.0f} in all are as good: {point.method} gains nothing here."
    return f"Plain random items, averaged, take {items - inputs.judged:.0f} more for the same ({items:.0f} in all)."
