"""The result of `plan` from data: curves against the budget, probabilities for each pair, repeats, a recommendation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from aliquot.core.result import Result
from aliquot.core.view import View
from aliquot.errors import unknown_name
from aliquot.planning.forecast import Point
from aliquot.planning.plan_views import campaign_views
from aliquot.planning.repeats import RepeatAdvice


@dataclass(frozen=True)
class PairPlan:
    """Two systems, the better one first, and what it takes to tell them apart."""

    a: str  # the system that is better, as far as is known
    b: str  # the other
    difference: float  # of their means, as far as is known
    # method -> probability of a significant difference, the right way, at each budget asked for
    chance: Mapping[str, tuple[float, ...]]
    # method -> items at which the probability reaches the power asked for; infinite where it never does
    needs: Mapping[str, float]
    recommended: Mapping[str, float]  # method -> probability at the recommended number of items


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
    judged: int  # items judged already that the plan starts from; 0 where it starts anew
    more: int  # items to judge beyond those
    text: tuple[str, ...]  # the recommendation in words, a sentence each


@dataclass(frozen=True, eq=False)
class CampaignPlan(Result):
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

    def views(self) -> tuple[View, ...]:
        """Return the views `advice`, one of each method, `pairs` and `repeats`."""
        return campaign_views(self)

    def to_frame(self, table: Literal["curve", "pairs"] = "curve") -> pl.DataFrame:
        """Return one row for each method and budget asked for, or for each pair besides."""
        if table == "pairs":
            return self.pairs_frame()
        return pl.DataFrame([_point_row(point) for point in self.points if point.asked])

    def pairs_frame(self) -> pl.DataFrame:
        """One row for each pair, method and budget asked for."""
        sizes = {method: [point.items for point in self.curve(method)] for method in self.methods}
        return pl.DataFrame(
            [
                {
                    "a": pair.a,
                    "b": pair.b,
                    "difference": pair.difference,
                    "method": method,
                    "items": items,
                    "chance": chance,
                    "needs": pair.needs[method],
                }
                for pair in self.pairs
                for method in self.methods
                for items, chance in zip(sizes[method], pair.chance[method], strict=True)
            ]
        )

    def document(self) -> dict[str, Any]:
        """The JSON document of `plan --json`."""
        advice = self.recommendation
        return {
            **self.fields_without("points"),
            "recommendation": {**vars(advice), "point": _point_row(advice.point), "random": _point_row(advice.random)},
            "curve": [_point_row(point) for point in self.points if point.asked],
        }


def _point_row(point: Point) -> dict[str, Any]:
    return {name: value for name, value in vars(point).items() if name != "asked"}
