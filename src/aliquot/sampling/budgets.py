"""Budgets as people write them (200, 30%, 3000judgments, 20h, 500EUR), and what judging costs in time and money.

Invariant: a budget means the same in every verb. A bare number counts items; everything else carries its unit.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aliquot.core.conventions import source_lengths
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import AliquotWarning, DataError, OptionError, unknown_name
from aliquot.sampling.cost_line import BREAK_MEDIANS, FITTED, fit_cost_line, fit_item_costs
from aliquot.stats.arrays import FloatArray

Unit = Literal["items", "judgments", "share", "hours", "money", "cost"]
ESA = "esa_time"
ESA_SECONDS_PER_WORD = 0.15
ESA_SECONDS = 33.7
_HOUR = 3600.0
_WRITTEN = re.compile(r"(?P<before>[^\d.\s+-]*)\s*(?P<number>[\d.]+(?:e\+?\d+)?)\s*(?P<after>\S*)", re.IGNORECASE)
_UNITS: dict[str, Unit] = {
    "": "items",
    "item": "items",
    "items": "items",
    "judgment": "judgments",
    "judgments": "judgments",
    "%": "share",
    "h": "hours",
    "hour": "hours",
    "hours": "hours",
    "cost": "cost",
}


@dataclass(frozen=True)
class Amount:
    """A parsed budget: a number of items or judgments, a share of the items, hours, money, or cost.

    `cost` counts in the unit of the item column that `cost` names.
    """

    value: float
    unit: Unit
    written: str
    bare: bool = False  # whether no unit was written

    @property
    def timed(self) -> bool:
        """Whether the unit is hours or money, so that judging times are needed."""
        return self.unit in ("hours", "money")


def parse_amount(budget: float | str, currency: str = "EUR") -> Amount:
    """Read a budget; a bare number counts items.

    >>> parse_amount(200).unit, parse_amount("20 h").value, parse_amount("500EUR").unit, parse_amount("30%").value
    ('items', 20.0, 'money', 0.3)
    """
    text = str(budget).strip()
    match = _WRITTEN.fullmatch(text)
    units = {**_UNITS, currency.strip().casefold(): "money"}
    mark = (match["before"] or match["after"]).casefold() if match else ""
    try:
        unit = units[mark] if match else None
        value = float(match["number"]) if match else 0.0
    except (KeyError, ValueError):
        unit, value = None, 0.0
    if re.fullmatch(r"[-+]\s*[\d.]+\s*\S*|nan|inf", text, re.IGNORECASE):
        raise OptionError(f"`budget` {budget}: must be above 0, without a sign")
    if unit is None or (match and match["before"] and match["after"]):
        raise OptionError(
            f"`budget` '{budget}': write a number of items (200 or 200items), a share (30%), 3000judgments, hours "
            f"(20h), money (500{currency}; its name is `currency`), or with `cost` an amount of it (900cost)"
        )
    if not 0 < value < np.inf:
        raise OptionError(f"`budget` {budget}: must be above 0")
    return Amount(value / 100 if unit == "share" else value, unit, text, bare=not mark)


@dataclass(frozen=True)
class Budget:
    """A limit: `n` items or, with costs, an `amount` of cost."""

    n: int
    amount: float | None = None

    def subtract(self, items: int, spent: float) -> Budget:
        """Return the remaining budget after some items are fixed."""
        amount = None if self.amount is None else self.amount - spent
        if (amount is not None and amount < -1e-9 * (self.amount or 1.0)) or (amount is None and items > self.n):
            raise OptionError(f"the {items} included items already exceed the budget; raise `budget` or include fewer")
        return Budget(max(0, self.n - items), amount)


def resolve_budget(
    budget: float | str | Amount | None, population: int, cost: FloatArray | None = None, *, systems: int = 0
) -> Budget:
    """Return how many of `population` items, or how much cost, a budget buys; None buys everything.

    `cost` are the items' costs: in the unit of `cost`, or in seconds where the budget is hours (money: see
    `convert_to_hours`). A share is of the cost where there is one. `systems` outputs are judged for each item.

    >>> resolve_budget("30%", 50), resolve_budget("60judgments", 50, systems=4)
    (Budget(n=15, amount=None), Budget(n=15, amount=None))
    """
    if population == 0:
        raise DataError("no item is left to choose from; check `exclude_items`")
    amount = Amount(1.0, "share", "100%") if budget is None else budget
    amount = amount if isinstance(amount, Amount) else parse_amount(amount)
    if amount.bare and cost is not None:
        raise OptionError(
            f"`budget` {amount.written} with `cost`: write {amount.written}cost for an amount of cost, "
            f"or {amount.written}items for a number of items"
        )
    same = cost is None or np.allclose(cost, cost[0], rtol=1e-12, atol=0.0)
    if amount.unit in ("items", "judgments") or (amount.unit == "share" and same):
        n = count_items(amount, population, systems)
        if n > population:
            _warn_budget_exceeds(amount, population, "items")
        return Budget(min(n, population))
    if cost is None:
        need = (
            "`cost`, a column" if amount.unit == "cost" else "how long judging takes: `seconds_per_judgment` or `cost`"
        )
        raise OptionError(f"`budget` {amount.written} needs {need}")
    total = float(cost.sum())
    value = {"share": amount.value * total, "hours": amount.value * _HOUR}.get(amount.unit, amount.value)
    if value > total * (1 + 1e-12):
        _warn_budget_exceeds(amount, total, "of cost")
        value = total
    # Items of the same cost are a number of items: a design then draws just as many as `plan` says, not one more.
    if not same:
        return Budget(n=population, amount=value)
    n = int(value / cost[0] * (1 + 1e-12))
    if n < 1:
        raise OptionError(f"the budget {amount.written} buys nothing: an item costs {cost[0]:g}; raise `budget`")
    return Budget(n)


def count_items(amount: Amount, population: int, judgments_per_item: float) -> int:
    """Return how many items an amount of items, judgments or a share buys; not limited to the population.

    A share is rounded to the nearest number of items, at least one; judgments are rounded down.

    >>> count_items(parse_amount("15%"), 297, 4), count_items(parse_amount("200judgments"), 297, 6)
    (45, 33)
    """
    if amount.unit == "share":
        return max(1, round(amount.value * population))
    value = amount.value
    if amount.unit == "judgments":
        if not judgments_per_item:
            raise OptionError(f"`budget` {amount.written}: the data have no systems to judge; write a number of items")
        value = float(np.floor(value / judgments_per_item + 1e-9))
        if value < 1:
            raise OptionError(
                f"`budget` {amount.written}: one item takes {judgments_per_item:g} judgments, at least "
                "one for each system"
            )
    if abs(round(value) - value) > 1e-9:
        raise OptionError(
            f"`budget` {amount.written}: a number of items is whole; for an amount of cost give `cost` "
            f"too, and write {amount.written}cost"
        )
    return round(value)


def _warn_budget_exceeds(amount: Amount, total: float, unit: str) -> None:
    text = f"the budget {amount.written} exceeds the {total:g} {unit} there are: all are taken"
    warnings.warn(text, AliquotWarning, 4)


def convert_to_hours(amount: Amount, prices: Prices) -> Amount:
    """Convert an amount of money to hours; other amounts are unchanged."""
    if amount.unit != "money":
        return amount
    if prices.hourly is None:
        raise OptionError(f"`budget` {amount.written}: money needs `hourly`, what an hour of an annotator costs")
    return Amount(amount.value / prices.hourly, "hours", amount.written)


# -- What judging costs ----------------------------------------------------------------------------------------------


def item_costs(evalset: EvalSet, cost: str | None) -> FloatArray | None:
    """Return every item's cost: None for unit costs, `esa_time` or `fitted` in seconds, or a numeric item column.

    `esa_time`: 0.15 seconds a source word + 33.7 (characters for Chinese, Japanese, Korean, Thai). `fitted`: the same
    line fitted to the times of the judgments in the data (see `cost_line`).
    """
    if cost is None:
        return None
    if cost == ESA:
        return esa_seconds(source_lengths(evalset))
    numeric = [name for name in evalset.items.columns if evalset.items[name].dtype.is_numeric() and name != "id"]
    if cost not in numeric:
        if cost == FITTED:
            return fit_item_costs(evalset)
        raise unknown_name("cost", cost, [ESA, FITTED, *numeric], "name a numeric item column")
    return check_costs(evalset.items[cost], evalset.items["id"], evalset.name)


def esa_seconds(lengths: NDArray[np.generic]) -> FloatArray:
    """Return the seconds of an ESA judgment for source lengths; an unknown length counts as 0."""
    finite_lengths = np.nan_to_num(lengths.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    return ESA_SECONDS_PER_WORD * finite_lengths + ESA_SECONDS


def check_costs(costs: pl.Series, ids: pl.Series, name: str) -> FloatArray:
    """Return a column of costs as an array; raise DataError unless all are positive."""
    values: FloatArray = costs.cast(pl.Float64).fill_null(np.nan).to_numpy()
    bad = ~((values > 0) & (values < np.inf))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        what = "missing" if np.isnan(values[row]) else f"{values[row]:g}"
        raise DataError(
            f"{name}: item {ids[row]!r} has the cost {what} (column '{costs.name}'); costs must be positive"
        )
    return values


@dataclass(frozen=True)
class Times:
    """Judging times and prices from the user; at most one of the first three."""

    seconds_per_item: float | None = None  # for an item with all its outputs, judged once
    seconds_per_judgment: float | None = None  # for one output, judged once
    cost: str | None = None  # an item column of an item's seconds; esa_time or fitted (seconds for one output)
    # what an item costs once, however often its outputs are judged (preparing, reading in)
    seconds_per_new_item: float = 0.0
    hourly: float | None = None  # what an hour of an annotator costs
    currency: str = "EUR"  # the name of the money

    def __post_init__(self) -> None:
        given = [
            name for name in ("seconds_per_item", "seconds_per_judgment", "cost") if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise OptionError(f"`{given[0]}` and `{given[1]}` say how long judging takes in two ways; give one of them")
        for name in ("seconds_per_item", "seconds_per_judgment", "hourly"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise OptionError(f"`{name}={value:g}`: must be above 0")
        if not 0 <= self.seconds_per_new_item < np.inf:
            raise OptionError(f"`seconds_per_new_item={self.seconds_per_new_item:g}`: must be at least 0")
        if not self.currency.strip() or self.currency.strip().casefold() in _UNITS:
            raise OptionError(f"`currency='{self.currency}'`: name a currency, for instance EUR")


@dataclass(frozen=True, eq=False)
class Prices:
    """What judging costs."""

    seconds: FloatArray | None  # of each item, all its outputs judged once; None where nobody said
    new_item: float = 0.0  # seconds that an item costs once, however often it is judged
    hourly: float | None = None  # money for an hour, or None
    currency: str = "EUR"  # its name
    about: str = ""  # where the seconds come from, in words; empty where they are unknown

    def hours(self, expected: FloatArray, judgments: float = 1.0) -> float:
        """Return hours for items judged `expected` times each, with `judgments` per output; NaN if times are unknown.

        >>> Prices(np.array([60.0, 120.0]), new_item=30.0).hours(np.array([1.0, 0.5]), judgments=3)
        0.1125
        """
        if self.seconds is None:
            return float("nan")
        return float(expected @ (self.seconds * judgments + self.new_item)) / _HOUR

    def money(self, hours: float) -> float:
        """Return the price of hours; NaN if unknown."""
        return float("nan") if self.hourly is None else hours * self.hourly


def plain_prices(times: Times, outputs: int) -> Prices:
    """Return prices without data, for items with `outputs` judged outputs.

    >>> plain_prices(Times(seconds_per_judgment=40.0, hourly=18.0), outputs=2).seconds
    array([80.])
    """
    if times.cost is not None:
        raise OptionError(f"`cost={times.cost}` needs data; without, give `seconds_per_judgment`")
    seconds, about = None, ""
    if times.seconds_per_judgment is not None:
        seconds, about = times.seconds_per_judgment * outputs, f"{times.seconds_per_judgment:g} s a judgment"
    elif times.seconds_per_item is not None:
        seconds, about = times.seconds_per_item, f"{times.seconds_per_item:g} s an item"
    _require_seconds(times, has_seconds=seconds is not None)
    each = None if seconds is None else np.array([seconds], dtype=np.float64)
    return Prices(each, times.seconds_per_new_item, times.hourly, times.currency, about)


def data_prices(times: Times, evalset: EvalSet) -> Prices:
    """Return prices of a set's items, from `times` (given, a column, or ESA's model) or from recorded times."""
    n, m = evalset.n_items, evalset.n_systems
    if times.cost is not None:
        costs = item_costs(evalset, times.cost)
        if costs is not None and times.cost == ESA:
            return _build_prices(times, costs * m, "0.15 s a source word + 33.7 s, for every output (esa_time)")
        if costs is not None and times.cost == FITTED and FITTED not in evalset.items.columns:
            return _build_prices(times, costs * m, f"{fit_cost_line(evalset)}, for every output")
        return _build_prices(times, costs, f"seconds an item from the column '{times.cost}'")
    if times.seconds_per_item is not None or times.seconds_per_judgment is not None:
        plain = plain_prices(times, m)
        return _build_prices(times, None if plain.seconds is None else np.full(n, plain.seconds[0]), plain.about)
    recorded = mean_judgment_seconds(evalset.judgments)
    _require_seconds(times, has_seconds=recorded is not None)
    if recorded is None:
        return _build_prices(times, None, "")
    return _build_prices(times, np.full(n, recorded * m), f"{recorded:.0f} s a judgment, as recorded, without breaks")


def _build_prices(times: Times, seconds: FloatArray | None, about: str) -> Prices:
    return Prices(seconds, times.seconds_per_new_item, times.hourly, times.currency, about)


def _require_seconds(times: Times, *, has_seconds: bool) -> None:
    if has_seconds:
        return
    if times.hourly is not None or times.seconds_per_new_item > 0:
        parameter = "hourly" if times.hourly is not None else "seconds_per_new_item"
        raise OptionError(
            f"`{parameter}` needs to know how long judging takes: give `seconds_per_item`, `seconds_per_judgment` or "
            "(with data) `cost`"
        )


def mean_judgment_seconds(judgments: Judgments | None) -> float | None:
    """Return the mean seconds of a judgment, cut at five medians (breaks); None if times are not recorded.

    >>> import polars as pl
    >>> table = pl.DataFrame({"item": [0, 1, 2], "system": "A", "value": 1.0, "seconds": [20.0, 30.0, 9000.0]})
    >>> mean_judgment_seconds(Judgments(table))
    66.66666666666667
    """
    if judgments is None:
        return None
    seconds = judgments.answers()["seconds"].drop_nulls().to_numpy()
    seconds = seconds[seconds > 0]
    if not len(seconds):
        return None
    return float(np.minimum(seconds, BREAK_MEDIANS * np.median(seconds)).mean())
