"""What `plan` gives from data: curves against the budget, chances for each pair, repeats, a recommendation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from aliquot.errors import unknown_name
from aliquot.planning.forecast import Point
from aliquot.planning.repeats import RepeatAdvice

# -- What `plan` gives from data: curves against the budget, chances for each pair, repeats, a recommendation --------


@dataclass(frozen=True)
class PairPlan:
    """Two systems, the better one first, and what it takes to tell them apart."""

    a: str  # the system that is better, as far as is known
    b: str  # the other
    difference: float  # of their means, as far as is known
    # method -> chance of a significant difference, the right way, at each budget asked for
    chance: Mapping[str, tuple[float, ...]]
    # method -> items at which the chance reaches the power asked for; infinite where it never does
    needs: Mapping[str, float]
    recommended: Mapping[str, float]  # method -> chance at the recommended number of items


@dataclass(frozen=True)
class Recommendation:
    """What to do, and the numbers that support it."""

    point: Point  # the recommended method at the recommended number of items
    random: Point  # a plain random sample at the same number
    goal: str  # what was to be reached, as typed
    reached: bool  # whether it is
    budget: str | None  # the budget as typed, where one was given
    # items that a random sample needs to be as good in what the goal measures; infinite where no budget is enough
    random_items: float
    random_hours: float  # the hours for them
    random_money: float  # and the money
    text: tuple[str, ...]  # the recommendation in words, a sentence each


@dataclass(frozen=True, eq=False)
class CampaignPlan:
    """The result of `plan` with data."""

    points: tuple[Point, ...]  # method by method, what each budget promises
    pairs: tuple[PairPlan, ...]  # what it takes to tell each pair apart, closest pair last
    recommendation: Recommendation  # what to do
    # judgments of the same output that are worth paying for; None where the judges' noise is unknown
    repeats: RepeatAdvice | None
    basis: str  # "replay" of a past campaign, or "pilot"
    judged: int  # items the plan is drawn from
    population: float  # items of the planned test set; infinite for conclusions beyond any
    systems: tuple[str, ...]
    stands_for: Mapping[str, str]  # method -> what it is on these data: the design and the estimator
    judgments_per_output: float  # behind a human score; what the costs count on
    currency: str  # of the money
    seconds: str  # where the times come from, in words; empty where they are unknown
    notes: tuple[str, ...]  # what a reader should know
    signature: str

    def __repr__(self) -> str:
        point = self.recommendation.point
        return f"CampaignPlan({point.items} items by {point.method}, from a {self.basis} of {self.judged} items)"

    @property
    def methods(self) -> list[str]:
        """The methods compared, random first."""
        return list(dict.fromkeys(point.method for point in self.points))

    def curve(self, method: str) -> list[Point]:
        """The points of one method at the budgets asked for."""
        if method not in self.methods:
            raise unknown_name("method", method, self.methods)
        return [point for point in self.points if point.method == method and point.asked]

    def to_frame(self) -> pl.DataFrame:
        """One row for each method and budget asked for."""
        return pl.DataFrame([_row(point) for point in self.points if point.asked])

    def pairs_frame(self) -> pl.DataFrame:
        """One row for each pair, method and budget asked for."""
        sizes = {method: [point.items for point in self.curve(method)] for method in self.methods}
        return pl.DataFrame([
            {"a": pair.a, "b": pair.b, "difference": pair.difference, "method": method, "items": items,
             "chance": chance, "needs": pair.needs[method]}
            for pair in self.pairs
            for method in self.methods
            for items, chance in zip(sizes[method], pair.chance[method], strict=True)
        ])  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `plan --json`; undefined and infinite numbers are null."""
        advice = self.recommendation
        document: dict[str, Any] = plain({
            "recommendation": {**vars(advice), "point": _row(advice.point), "random": _row(advice.random)},
            "curve": [_row(point) for point in self.points if point.asked],
            "pairs": [vars(pair) for pair in self.pairs],
            "repeats": None if self.repeats is None else {
                "rows": [vars(row) for row in self.repeats.rows], "formula": self.repeats.formula,
                "text": self.repeats.text,
            },
            "basis": self.basis,
            "judged": self.judged,
            "population": self.population,
            "systems": list(self.systems),
            "stands_for": dict(self.stands_for),
            "judgments_per_output": self.judgments_per_output,
            "currency": self.currency,
            "seconds": self.seconds,
            "notes": list(self.notes),
            "signature": self.signature,
        })  # fmt: skip
        return document


def _row(point: Point) -> dict[str, Any]:
    return {name: value for name, value in vars(point).items() if name != "asked"}


def plain(value: Any) -> Any:
    """Make a document of plain values: mappings and lists go through, NaN and infinity become null.

    >>> plain({"a": (1.0, float("inf"))})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- What `plan` gives without data: one answer with its numbers, or a table of judgments ----------------------------


@dataclass(frozen=True)
class PowerPlan:
    """The result of `plan` without data."""

    # what was open: "judgments", "difference" (that a budget shows) or "power"; "too few" where judging all items is
    # not enough
    question: str
    difference: float  # of two systems' means, given or found
    power: float  # the chance to find it significant, given or found
    alpha: float  # two-sided
    paired: bool  # whether the same items are judged for all systems
    spread: float  # standard deviation of a judgment; paired, of the difference of two systems on an item
    rho: float  # correlation of the metric with people that a control variate uses; 0 for none
    items: float  # of the test set; infinite for conclusions beyond any
    systems: int  # how many are compared
    judgments_per_output: int  # people who judge the same output
    per_system: int  # judgments of each system
    judgments: int  # of all systems
    judged_items: int  # items that are judged; unpaired, for one system each
    hours: float  # of annotators; NaN where nobody said how long judging takes
    money: float  # likewise
    currency: str  # of the money
    budget: str | None = None  # as typed, where one was given
    # judgments of the same output that are worth paying for, where the judges' noise is known
    repeats: RepeatAdvice | None = None
    text: str = ""  # the answer in words
    notes: tuple[str, ...] = ()  # what a reader should know
    signature: str = ""

    def __repr__(self) -> str:
        return (f"PowerPlan({self.per_system} judgments per system, {self.judgments} in total, show a difference of "
                f"{self.difference:.3g} with power {self.power:.3g})")  # fmt: skip

    def with_words(self, notes: tuple[str, ...]) -> PowerPlan:
        """Add the answer in words, and notes."""
        return replace(self, text=_words(self), notes=notes)

    def to_frame(self) -> pl.DataFrame:
        """One row."""
        left_out = ("repeats", "text", "notes", "signature")
        return pl.DataFrame([{name: value for name, value in vars(self).items() if name not in left_out}])

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `plan --json`; undefined and infinite numbers are null."""
        repeats = None
        if self.repeats is not None:
            repeats = {**vars(self.repeats), "rows": [vars(row) for row in self.repeats.rows]}
        document: dict[str, Any] = plain({**vars(self), "repeats": repeats})
        return document


def _words(plan: PowerPlan) -> str:
    told = f"a difference of {plan.difference:.3g}"
    sure = f"{plan.power:.0%} power at alpha {plan.alpha:g}"
    spent = f"{plan.per_system} judgments per system, {plan.judgments} in total"
    if np.isfinite(plan.hours):
        money = f", {plan.money:.0f} {plan.currency}" if np.isfinite(plan.money) else ""
        spent += f" ({plan.hours:.1f} hours{money})"
    if plan.question == "judgments":
        return f"To detect {told} with {sure} takes {spent}."
    if plan.question == "too few":
        return f"All {plan.items:.0f} items are not enough: {spent}, detect {told} with {sure}."
    return f"A budget of {plan.budget} buys {spent}; they detect {told} with {sure}."


@dataclass(frozen=True)
class PowerTable:
    """Judgments of all systems together, for every spread (rows) and difference (columns)."""

    sds: tuple[float, ...]  # standard deviations of a judgment; paired, of the difference on an item
    differences: tuple[float, ...]  # to detect
    judgments: tuple[tuple[int, ...], ...]  # rounded to the nearest, as the paper prints them
    paired: bool  # whether the same items are judged for all systems
    systems: int  # how many are compared
    alpha: float  # two-sided
    power: float  # wanted
    signature: str = ""

    def to_frame(self) -> pl.DataFrame:
        """One row for each spread and difference."""
        return pl.DataFrame([
            {"sd": sd, "difference": difference, "judgments": count}
            for sd, row in zip(self.sds, self.judgments, strict=True)
            for difference, count in zip(self.differences, row, strict=True)
        ])  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `plan --table --json`."""
        document: dict[str, Any] = plain(vars(self))
        return document
