"""What `plan` gives from data: curves against the budget, chances for each pair, repeats, a recommendation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from aliquot.errors import unknown_name
from aliquot.plan.outlook import Point
from aliquot.plan.repeats import RepeatAdvice


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
