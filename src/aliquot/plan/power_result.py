"""What `plan` gives without data: one answer with its numbers, or a table of judgments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from aliquot.plan.repeats import RepeatAdvice
from aliquot.plan.result import plain


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
