"""Planning without data: from a difference, a spread and a power to judgments, and back (docs/methods.md, section 7).

Judging n items with k judgments of each output leaves the variance A (1/n - 1/N) + B / (n k) of what is compared, A
between items (less what metrics explain) and B of the judges. With R = A + B / k that is as much as n0 items without
end would leave, 1/n0 = 1/n - (A / R) / N: so the kernels of stats/power.py, which know no N, do the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.core.result import Result, make_signature
from aliquot.core.view import View
from aliquot.errors import OptionError
from aliquot.planning.arguments import MAX_COUNT, Number, as_numbers, signature_parts, validate_counts, validate_levels
from aliquot.planning.plan_views import power_views, table_views
from aliquot.planning.repeats import NoiseVariances, RepeatAdvice, advise_repeats
from aliquot.sampling.budgets import Amount, Prices, Times, count_items, parse_amount, plain_prices
from aliquot.stats.power import (
    paired_detectable,
    paired_power,
    paired_size,
    two_sample_detectable,
    two_sample_power,
    two_sample_size,
)
from aliquot.validation import between, invalid

_MAX_JUDGMENTS = 1000  # of an output, in notes
_MAX_SPREADS = 1e6  # standard deviations in a difference: 10^13 judgments detect a millionth of one
PAPER_DIFFERENCES = (1.0, 2.0, 3.0, 4.0, 5.0)
PAPER_SDS = (25.0, 23.0, 21.0, 19.0, 17.0, 15.0)
"""The table of Wei and Jia 2021: differences in points, and standard deviations of a judgment."""


@dataclass(frozen=True)
class PowerPlan(Result):
    """The result of `plan` without data."""

    # what was open: "judgments", "difference" (that a budget shows) or "power"; "too few" where judging all items is
    # not enough
    question: str
    difference: float  # of two systems' means, given or found
    power: float  # the probability to find it significant, given or found
    alpha: float  # two-sided
    paired: bool  # whether the same items are judged for all systems
    spread: float  # standard deviation of a judgment; paired, of the difference of two systems on an item
    rho: float  # correlation of the metric with people that a control variate uses; 0 for none
    items: float  # of the test set; infinite for conclusions beyond any
    systems: int  # how many are compared
    judgments_per_output: int  # annotators who judge the same output
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
        return (
            f"PowerPlan({self.per_system} judgments per system, {self.judgments} in total, show a difference of "
            f"{self.difference:.3g} with power {self.power:.3g})"
        )

    def views(self) -> tuple[View, ...]:
        """Return the views `numbers` and `repeats`."""
        return power_views(self)

    def to_frame(self) -> pl.DataFrame:
        """One row."""
        return pl.DataFrame([self.fields_without("repeats", "text", "notes", "signature")])


@dataclass(frozen=True)
class PowerTable(Result):
    """Judgments of all systems together, for every spread (rows) and difference (columns)."""

    sds: tuple[float, ...]  # standard deviations of a judgment; paired, of the difference on an item
    differences: tuple[float, ...]  # to detect
    judgments: tuple[tuple[int, ...], ...]  # rounded to the nearest, as the paper prints them
    paired: bool  # whether the same items are judged for all systems
    systems: int  # how many are compared
    alpha: float  # two-sided
    power: float  # wanted
    signature: str = ""

    def views(self) -> tuple[View, ...]:
        """Return the view `judgments`."""
        return table_views(self)

    def to_frame(self) -> pl.DataFrame:
        """One row for each spread and difference."""
        return pl.DataFrame(
            [
                {"sd": sd, "difference": difference, "judgments": count}
                for sd, row in zip(self.sds, self.judgments, strict=True)
                for difference, count in zip(self.differences, row, strict=True)
            ]
        )


@dataclass(frozen=True)
class Setting:
    """How systems will be judged and compared."""

    paired: bool  # whether the same items are judged for all systems
    spread: float  # standard deviation of a judgment, or, paired, of the difference on an item
    rho: float = 0.0  # correlation of the metric with people, which a control variate uses
    rater: float = 0.0  # variance of the judges in one judgment, or, paired, in one difference
    judgments: int = 1  # of each output
    items: float = np.inf  # N, the test set; infinite for conclusions beyond any
    systems: int = 2  # how many are compared
    alpha: float = 0.05  # two-sided
    power: float = 0.95  # wanted
    assumed: tuple[str, ...] = ()  # what was taken for granted, in words

    @property
    def noise(self) -> NoiseVariances:
        """What metrics leave of the spread, parted into items and judges."""
        remaining = self.spread**2 * (1 - self.rho**2)
        if self.rater > remaining * (1 + 1e-12):
            of = " in a difference" if self.paired else ""
            why = (
                "leaves nothing for the items"
                if not self.rho
                else f"is more than `rho={self.rho:g}` leaves of the variance: metrics cannot predict judges' noise"
            )
            raise OptionError(
                f"a rater variance of {self.rater:g}{of}, of {remaining:g} in all, {why}; it must be smaller"
            )
        return NoiseVariances(max(0.0, remaining - self.rater), self.rater)

    @property
    def sd(self) -> float:
        """Standard deviation that is left, with all judgments of an output."""
        return float(np.sqrt(self.noise.variance(self.judgments)))

    def required_items(self, difference: float) -> float:
        """Items per system (paired: of all systems), not rounded."""
        kernel = paired_size if self.paired else two_sample_size
        unlimited = float(kernel(difference, self.sd, alpha=self.alpha, power=self.power))
        return 1.0 / (1.0 / unlimited + self._saved_by_end) if unlimited > 0 else 0.0

    def detectable_difference(self, n: float) -> float:
        """The difference that n items per system show."""
        unlimited = self._unlimited_items(n)
        if np.isinf(unlimited):
            return 0.0
        kernel = paired_detectable if self.paired else two_sample_detectable
        return float(kernel(unlimited, self.sd, alpha=self.alpha, power=self.power))

    def power_of(self, n: float, difference: float) -> float:
        """The power of n items per system for a difference."""
        unlimited = self._unlimited_items(n)
        if np.isinf(unlimited):
            return 1.0
        kernel = paired_power if self.paired else two_sample_power
        return float(kernel(unlimited, difference, self.sd, alpha=self.alpha))

    @property
    def _saved_by_end(self) -> float:
        """(A / R) / N: what the end of the test set saves."""
        total = self.noise.variance(self.judgments)
        return self.noise.item / total / self.items if total > 0 else 0.0

    def _unlimited_items(self, n: float) -> float:
        """Items without end that are as good as n of these."""
        inverse = 1.0 / n - self._saved_by_end
        return 1.0 / inverse if inverse > 1e-12 / n else np.inf


def plan_power(
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
    rater_variance: float | None = None,
    seconds_per_item: float | None = None,
    seconds_per_judgment: float | None = None,
    cost: str | None = None,
    seconds_per_new_item: float = 0.0,
    hourly: float | None = None,
    currency: str = "EUR",
) -> PowerPlan | PowerTable:
    """Plan from numbers alone; `aliquot.plan` describes the arguments.

    >>> plan_power(difference=1, sd=25)
    PowerPlan(16245 judgments per system, 32490 in total, show a difference of 1 with power 0.95)
    """
    signed = make_signature("plan", None, **signature_parts(plan_power, locals()))
    validate_levels(alpha, power)
    validate_counts(items=items, rater_variance=rater_variance)
    times = Times(seconds_per_item, seconds_per_judgment, cost, seconds_per_new_item, hourly, currency)
    count = between("systems", 2 if systems is None else systems, 2, MAX_COUNT)
    raters = between("judgments_per_output", 1 if judgments_per_output is None else judgments_per_output, 1, MAX_COUNT)
    if rho is not None:
        between("rho", rho, -1, 1, remedy="a correlation lies between -1 and 1")
    paired = paired or sd_difference is not None or system_correlation is not None
    spreads = _read_spreads(sd, sd_difference, system_correlation, paired=paired, table=table)
    setting = Setting(
        paired,
        max(spread for _, spread in spreads),
        rho or 0.0,
        (rater_variance or 0.0) * (2 if paired else 1),
        raters,
        np.inf if items is None else float(items),
        count,
        alpha,
        power,
        _list_assumptions(sd, system_correlation, rho, paired=paired),
    )
    differences = None if difference is None else as_numbers("difference", difference)
    if differences and setting.spread / min(differences) > _MAX_SPREADS:
        raise OptionError(
            f"`difference` is {min(differences):g}, {setting.spread / min(differences):.1g} times below the standard "
            f"deviation {setting.spread:g}: no campaign detects it; are both on the same scale?"
        )
    if table or len(spreads) > 1 or len(differences or ()) > 1:
        if budget is not None:
            raise OptionError("`budget` is for one standard deviation and difference; leave out `table` and lists")
        return replace(power_table(setting, spreads, differences or list(PAPER_DIFFERENCES)), signature=signed)
    return replace(_solve(setting, times, differences[0] if differences else None, budget), signature=signed)


def _read_spreads(
    sd: Number | None, sd_difference: float | None, system_correlation: float | None, *, paired: bool, table: bool
) -> list[tuple[float, float]]:
    """Return the standard deviations as given, and those of what is compared.

    The latter are of a judgment or, if paired, of a difference: s_d = sd sqrt(2 (1 - r)).
    """
    if sd_difference is not None:
        if sd is not None or system_correlation is not None:
            raise OptionError("`sd_difference` excludes `sd` and `system_correlation`; leave them out")
        (spread,) = as_numbers("sd_difference", sd_difference)
        return [(spread, spread)]
    if sd is None:
        if not table:
            raise OptionError(
                "without data, give `sd`, the standard deviation of judgments (or `sd_difference`, that "
                "of differences on an item); or give data"
            )
        sd = PAPER_SDS
    correlation = system_correlation or 0.0
    if not -1 <= correlation < 1:
        raise invalid("system_correlation", correlation, "choose from -1 to below 1")
    factor = np.sqrt(2 * (1 - correlation)) if paired else 1.0
    return [(spread, float(factor * spread)) for spread in as_numbers("sd", sd)]


def _list_assumptions(
    sd: Number | None, system_correlation: float | None, rho: float | None, *, paired: bool
) -> tuple[str, ...]:
    notes = []
    if paired and sd is not None and system_correlation is None:
        notes.append(
            "systems are assumed uncorrelated over items (conservative): give `system_correlation` or `sd_difference`"
        )
    if paired and rho:
        notes.append("the metric is assumed to predict differences as well as scores (`rho`)")
    return tuple(notes)


def _solve(setting: Setting, times: Times, difference: float | None, budget: float | str | None) -> PowerPlan:
    """Answer the one question that is open: how many judgments, which difference, or which power."""
    prices = plain_prices(times, setting.systems if setting.paired else 1)
    if budget is None:
        if difference is None:
            raise OptionError(
                "nothing to plan for: give `difference` (how many judgments does it take?) or `budget` "
                "(what does it detect?), or data"
            )
        size = setting.required_items(difference)
        if size > setting.items:
            n_items = int(setting.items)
            return _power_plan("too few", setting, prices, n_items, difference, setting.power_of(n_items, difference))
        return _power_plan("judgments", setting, prices, _round_up(size, setting), difference, setting.power)
    amount = parse_amount(budget, times.currency)
    n, leftover = _count_affordable(setting, prices, amount)
    if difference is None:
        return _power_plan(
            "difference", setting, prices, n, setting.detectable_difference(n), setting.power, amount, leftover
        )
    return _power_plan("power", setting, prices, n, difference, setting.power_of(n, difference), amount, leftover)


def _round_up(n: float, setting: Setting) -> int:
    """Whole items, at least two, and not more than there are."""
    return int(min(max(2, np.ceil(n - 1e-9)), setting.items))


def _count_affordable(setting: Setting, prices: Prices, amount: Amount) -> tuple[int, float]:
    """Items per system that an amount buys, and what it exceeds all of them by."""
    judged_together = setting.systems if setting.paired else 1
    if amount.unit == "judgments":
        n = amount.value / (setting.systems * setting.judgments)
    elif amount.unit == "items":
        n = amount.value * judged_together / setting.systems
    elif amount.unit == "share":
        if np.isinf(setting.items):
            raise OptionError(f"`budget={amount.written}`: a share of how many? Give `items`")
        n = count_items(amount, int(setting.items), setting.systems)
    else:
        hours = prices.hours(np.ones(1), setting.judgments)
        cost = prices.money(hours) if amount.unit == "money" else hours
        if np.isnan(cost):
            need = "`hourly` and `seconds_per_judgment`" if amount.unit == "money" else "`seconds_per_judgment`"
            raise OptionError(f"`budget={amount.written}`: needs {need}")
        n = amount.value / cost * judged_together / setting.systems
    if n < 2:
        raise OptionError(f"`budget={amount.written}` buys {n:.1f} judged items per system; it takes at least 2")
    return int(min(n + 1e-9, setting.items)), float(max(0.0, n / setting.items - 1.0))


def _power_plan(
    question: str,
    setting: Setting,
    prices: Prices,
    n: int,
    difference: float,
    power: float,
    amount: Amount | None = None,
    leftover: float = 0.0,
) -> PowerPlan:
    items = n if setting.paired else n * setting.systems
    hours = prices.hours(np.array([float(items)]), setting.judgments)
    repeats = _advise_repeats(setting, prices, n * (1.0 + leftover)) if setting.rater > 0 else None
    plan = PowerPlan(
        question=question,
        difference=difference,
        power=power,
        alpha=setting.alpha,
        paired=setting.paired,
        spread=setting.spread,
        rho=setting.rho,
        items=setting.items,
        systems=setting.systems,
        judgments_per_output=setting.judgments,
        per_system=n * setting.judgments,
        judgments=n * setting.judgments * setting.systems,
        judged_items=items,
        hours=hours,
        money=prices.money(hours),
        currency=prices.currency,
        budget=None if amount is None else amount.written,
        repeats=repeats,
    )
    return replace(plan, text=_describe_answer(plan), notes=_write_notes(setting, n, difference, question, leftover))


def _describe_answer(plan: PowerPlan) -> str:
    difference = f"a difference of {plan.difference:.3g}"
    power = f"{plan.power:.0%} power at alpha {plan.alpha:g}"
    spent = f"{plan.per_system} judgments per system, {plan.judgments} in total"
    if np.isfinite(plan.hours):
        money = f", {plan.money:.0f} {plan.currency}" if np.isfinite(plan.money) else ""
        spent += f" ({plan.hours:.1f} hours{money})"
    if plan.question == "judgments":
        return f"To detect {difference} with {power} takes {spent}."
    if plan.question == "too few":
        return f"All {plan.items:.0f} items are not enough: {spent}, detect {difference} with {power}."
    return f"A budget of {plan.budget} buys {spent}; they detect {difference} with {power}."


def _write_notes(setting: Setting, n: int, difference: float, question: str, leftover: float) -> tuple[str, ...]:
    notes = list(setting.assumed)
    pairs = setting.systems * (setting.systems - 1) // 2
    if pairs > 1:
        corrected = replace(setting, alpha=setting.alpha / pairs)
        if question == "judgments":
            corrected_count = _round_up(corrected.required_items(difference), setting) * setting.judgments
            notes.append(
                f"alpha holds for one pair; for all {pairs} pairs at once (alpha / {pairs}) it takes {corrected_count} "
                "judgments per system"
            )
        else:
            notes.append(
                f"alpha holds for one pair; for all {pairs} pairs at once (alpha / {pairs}) the budget "
                f"detects {corrected.detectable_difference(n):.3g}"
            )
    if question == "too few":
        tried = range(setting.judgments + 1, _MAX_JUDGMENTS)
        enough = next(
            (k for k in tried if replace(setting, judgments=k).required_items(difference) <= setting.items), None
        )
        more = f"at least {enough} judgments" if enough else f"more than {_MAX_JUDGMENTS} judgments"
        notes.append(
            f"judges' noise is too large for {setting.items:.0f} items: it takes {more} of each output "
            "(`judgments_per_output`)"
        )
    elif n >= setting.items:
        surplus = "" if leftover <= 0 else f" {leftover:.0%} of their cost is left over:"
        notes.append(
            f"all {setting.items:.0f} items are judged;{surplus} from here only more judgments of the same "
            "outputs help, against the judges' noise"
        )
    return tuple(notes)


def _advise_repeats(setting: Setting, prices: Prices, n: float) -> RepeatAdvice:
    """At the plan's cost; in judgments where times are unknown."""
    seconds = prices.seconds
    cost = {"judgment_cost": 1.0, "new_item_cost": 0.0}
    if seconds is not None:
        cost = {"judgment_cost": float(seconds[0]), "new_item_cost": prices.new_item}
    noise = setting.noise if setting.paired else NoiseVariances(2 * setting.noise.item, 2 * setting.noise.rater)
    return advise_repeats(noise, items=n, judgments=setting.judgments, population=setting.items, **cost)


def power_table(setting: Setting, spreads: list[tuple[float, float]], differences: list[float]) -> PowerTable:
    """Return judgments of all systems together for every standard deviation and difference, rounded to the nearest.

    >>> power_table(Setting(False, 25.0), [(25.0, 25.0)], [1.0, 2.0]).judgments
    ((32489, 8124),)
    """
    each = setting.systems * setting.judgments
    rows = [
        [round(each * replace(setting, spread=spread).required_items(d)) for d in differences] for _, spread in spreads
    ]
    return PowerTable(
        tuple(sd for sd, _ in spreads),
        tuple(differences),
        tuple(tuple(row) for row in rows),
        setting.paired,
        setting.systems,
        setting.alpha,
        setting.power,
    )
