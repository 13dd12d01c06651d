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
    """Two systems, the better one first, and what it takes to tell them apart.

    Attributes:
        a: the system that is better, as far as is known.
        b: the other.
        difference: of their means, as far as is known.
        chance: method -> chance of a significant difference, the right way, at each budget asked for.
        needs: method -> items at which the chance reaches the power asked for; infinite where it never does.
        recommended: method -> chance at the recommended number of items.
    """

    a: str
    b: str
    difference: float
    chance: Mapping[str, tuple[float, ...]]
    needs: Mapping[str, float]
    recommended: Mapping[str, float]


@dataclass(frozen=True)
class Recommendation:
    """What to do, and the numbers that support it.

    Attributes:
        point: the recommended method at the recommended number of items.
        random: a plain random sample at the same number.
        goal: what was to be reached, as typed.
        reached: whether it is.
        budget: the budget as typed, where one was given.
        random_items: items that a random sample needs to be as good in what the goal measures; infinite where no budget
            is enough.
        random_hours: the hours for them.
        random_money: and the money.
        text: the recommendation in words, a sentence each.
    """

    point: Point
    random: Point
    goal: str
    reached: bool
    budget: str | None
    random_items: float
    random_hours: float
    random_money: float
    text: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CampaignPlan:
    """The result of `plan` with data.

    Attributes:
        points: method by method, what each budget promises.
        pairs: what it takes to tell each pair apart, closest pair last.
        recommendation: what to do.
        repeats: judgments of the same output that are worth paying for; None where the judges' noise is unknown.
        basis: "replay" of a past campaign, or "pilot".
        judged: items the plan is drawn from.
        population: items of the planned test set; infinite for conclusions beyond any.
        systems: the systems compared.
        stands_for: method -> what it is on these data: the design and the estimator.
        judgments_per_output: behind a human score; what the costs count on.
        currency: of the money.
        seconds: where the times come from, in words; empty where they are unknown.
        notes: what a reader should know.
        signature: how to get it again.
    """

    points: tuple[Point, ...]
    pairs: tuple[PairPlan, ...]
    recommendation: Recommendation
    repeats: RepeatAdvice | None
    basis: str
    judged: int
    population: float
    systems: tuple[str, ...]
    stands_for: Mapping[str, str]
    judgments_per_output: float
    currency: str
    seconds: str
    notes: tuple[str, ...]
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
    """The result of `plan` without data.

    Attributes:
        question: what was open: "judgments", "difference" (that a budget shows) or "power"; "too few" where judging all
            items is not enough.
        difference: of two systems' means, given or found.
        power: the chance to find it significant, given or found.
        alpha: two-sided.
        paired: whether the same items are judged for all systems.
        spread: standard deviation of a judgment; paired, of the difference of two systems on an item.
        rho: correlation of the metric with people that a control variate uses; 0 for none.
        items: of the test set; infinite for conclusions beyond any.
        systems: how many are compared.
        judgments_per_output: people who judge the same output.
        per_system: judgments of each system.
        judgments: of all systems.
        judged_items: items that are judged; unpaired, for one system each.
        hours: of annotators; NaN where nobody said how long judging takes.
        money: likewise.
        currency: of the money.
        budget: as typed, where one was given.
        repeats: judgments of the same output that are worth paying for, where the judges' noise is known.
        text: the answer in words.
        notes: what a reader should know.
        signature: how to get it again.
    """

    question: str
    difference: float
    power: float
    alpha: float
    paired: bool
    spread: float
    rho: float
    items: float
    systems: int
    judgments_per_output: int
    per_system: int
    judgments: int
    judged_items: int
    hours: float
    money: float
    currency: str
    budget: str | None = None
    repeats: RepeatAdvice | None = None
    text: str = ""
    notes: tuple[str, ...] = ()
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
    """Judgments of all systems together, for every spread (rows) and difference (columns).

    Attributes:
        sds: standard deviations of a judgment; paired, of the difference on an item.
        differences: to detect.
        judgments: rounded to the nearest, as the paper prints them.
        paired: whether the same items are judged for all systems.
        systems: how many are compared.
        alpha: two-sided.
        power: wanted.
        signature: how to get it again.
    """

    sds: tuple[float, ...]
    differences: tuple[float, ...]
    judgments: tuple[tuple[int, ...], ...]
    paired: bool
    systems: int
    alpha: float
    power: float
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
