"""A plan in words, with the numbers that support it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aliquot.plan.costs import Amount
from aliquot.plan.goals import Goal
from aliquot.plan.ground import Ground
from aliquot.plan.outlook import Point
from aliquot.plan.result import Recommendation
from aliquot.simulate.methods import BASELINE


def recommend(
    ground: Ground,
    goal: Goal,
    amount: Amount | None,
    point: Point,
    random: Point,
    curves: Mapping[str, Sequence[Point]],
    *,
    leftover: float,
    alpha: float,
) -> Recommendation:
    """Say what to do with a budget, or what a goal takes, and what a plain random sample would take for the same."""
    reached = goal.reached(point, ground.pairs)
    plain = curves[BASELINE]
    items = float(np.ceil(goal.items(plain, ground.pairs, goal.value(point, ground.pairs)) - 1e-9))
    hours, money = (_at(plain, items, name) for name in ("hours", "money"))
    text = [_do(ground, point, goal, amount, reached=reached), _promise(ground, point, alpha)]
    if not reached:
        text.append(_missed(ground, goal, amount))
    text.append(_against(ground, point, items, hours, money))
    if leftover > 0:
        text.append(f"The budget is {leftover:.0%} more than judging all {ground.limit} items takes; what is left buys "
                    "only further judgments of the same outputs.")  # fmt: skip
    written = None if amount is None else amount.written
    return Recommendation(point, random, goal.written, reached, written, items, hours, money, tuple(text))


def _at(curve: Sequence[Point], items: float, name: str) -> float:
    """A point's hours or money at a number of items, between the points of the curve; NaN where there is none."""
    if not np.isfinite(items):
        return float("nan")
    return float(np.interp(items, [p.items for p in curve], [getattr(p, name) for p in curve]))


def _do(ground: Ground, point: Point, goal: Goal, amount: Amount | None, *, reached: bool) -> str:
    why = f"For {goal.words}" if reached else "To get nearest"
    if amount is not None:
        why = f"With a budget of {amount.written}"
    whole = point.items >= ground.population
    which = f"all {point.items} items" if whole else f"{point.items} of {ground.limit} items with {point.method}"
    if np.isinf(ground.population):
        which = f"{point.items} items with {point.method}"
    return f"{why}, judge {which}: {_spent(ground, point.judgments, point.hours, point.money)}."


def _spent(ground: Ground, judgments: float, hours: float, money: float) -> str:
    parts = [f"{judgments:.0f} judgments"]
    if np.isfinite(hours):
        parts.append(f"{in_words(hours)} hours")
    if np.isfinite(money):
        parts.append(f"{money:.0f} {ground.prices.currency}")
    return ", ".join(parts)


def in_words(number: float) -> str:
    """Write a number of hours as people do.

    >>> in_words(0.04), in_words(2.345), in_words(123.4)
    ('0.04', '2.3', '123')
    """
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 1 else f"{number:.2f}"


def _promise(ground: Ground, point: Point, alpha: float) -> str:
    if point.items >= ground.population:
        return "Then nothing is left to estimate but what other judges would have said."
    return (
        f"That is expected to tell apart {point.apart:.0f} of {ground.pairs} pairs of systems at {1 - alpha:.0%}, to "
        f"put {_chance(point.accuracy)} of the pairs in the right order, and to find the best system with a chance of "
        f"{_chance(point.best)}; the interval of a difference is {point.width_difference:.3g} wide."
    )


def _chance(value: float) -> str:
    """Write a chance so that it is 100% only where it is certain."""
    return f"{value:.0%}" if value == 1 or value < 0.995 else "more than 99%"


def _missed(ground: Ground, goal: Goal, amount: Amount | None) -> str:
    if amount is not None:
        return f"It does not reach the goal: {goal.words}."
    return f"The goal, {goal.words}, is not reached by judging all {ground.limit} items."


def _against(ground: Ground, point: Point, items: float, hours: float, money: float) -> str:
    if point.items >= ground.population:
        return "All items are judged: how they are drawn makes no difference."
    if np.isinf(items):
        return f"A plain random sample does not get as far with all {ground.limit} items."
    if items <= 1.02 * point.items + 1:
        return f"A plain random sample of {items:.0f} items is as good: {point.method} gains nothing here."
    judgments = items * point.judgments / point.items
    return f"A plain random sample needs {items:.0f} items for the same: {_spent(ground, judgments, hours, money)}."
