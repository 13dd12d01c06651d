"""What judging costs, in time and money, and amounts as people write them: 2000, 300 items, 30%, 20h, 500 EUR."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import OptionError
from aliquot.sampling.tasks import item_costs
from aliquot.stats.arrays import FloatArray

Unit = Literal["judgments", "items", "share", "hours", "money"]
ESA = "esa_time"
_BREAK = 5.0  # recorded times above this many medians hold a break
_HOUR = 3600.0
_WRITTEN = re.compile(r"(?P<before>[^\d.\s+-]*)\s*(?P<number>[\d.]+(?:e\+?\d+)?)\s*(?P<after>\S*)", re.IGNORECASE)
_UNITS: dict[str, Unit] = {
    "": "judgments", "judgment": "judgments", "judgments": "judgments", "item": "items", "items": "items", "%": "share",
    "h": "hours", "hour": "hours", "hours": "hours",
}  # fmt: skip


@dataclass(frozen=True)
class Times:
    """How long judging takes, as the user says it; at most one of the first three."""

    seconds_per_item: float | None = None  # for an item with all its outputs, judged once
    seconds_per_judgment: float | None = None  # for one output, judged once
    cost: str | None = None  # an item column that holds an item's seconds, or esa_time (seconds for one output)
    # what an item costs once, however often its outputs are judged (preparing, reading in)
    seconds_per_new_item: float = 0.0
    hourly: float | None = None  # what an hour of an annotator costs
    currency: str = "EUR"  # the name of the money

    def __post_init__(self) -> None:
        given = [
            name for name in ("seconds_per_item", "seconds_per_judgment", "cost") if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise OptionError(f"{_option(given[0])} and {_option(given[1])} say how long judging takes in two ways; "
                              "give one of them")  # fmt: skip
        for name in ("seconds_per_item", "seconds_per_judgment", "hourly"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise OptionError(f"{_option(name)} {value:g}: must be above 0")
        if not 0 <= self.seconds_per_new_item < np.inf:
            raise OptionError(f"--seconds-per-new-item {self.seconds_per_new_item:g}: must be at least 0")
        if not self.currency.strip() or self.currency.strip().casefold() in _UNITS:
            raise OptionError(f"--currency '{self.currency}': name a currency, for instance EUR")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True, eq=False)
class Prices:
    """What judging costs."""

    seconds: FloatArray | None  # of each item, all its outputs judged once; None where nobody said
    new_item: float = 0.0  # seconds that an item costs once, however often it is judged
    hourly: float | None = None  # money for an hour, or None
    currency: str = "EUR"  # its name
    about: str = ""  # where the seconds come from, in words; empty where they are unknown

    def hours(self, expected: FloatArray, judgments: float = 1.0) -> float:
        """Hours for items that are judged `expected` times each, every output by so many people; NaN if unknown.

        >>> Prices(np.array([60.0, 120.0]), new_item=30.0).hours(np.array([1.0, 0.5]), judgments=3)
        0.1125
        """
        if self.seconds is None:
            return float("nan")
        return float(expected @ (self.seconds * judgments + self.new_item)) / _HOUR

    def money(self, hours: float) -> float:
        """What so many hours cost; NaN if unknown."""
        return float("nan") if self.hourly is None else hours * self.hourly


def plain_prices(times: Times, outputs: int) -> Prices:
    """Prices without data, for an item of which `outputs` outputs are judged.

    >>> plain_prices(Times(seconds_per_judgment=40.0, hourly=18.0), outputs=2).seconds
    array([80.])
    """
    if times.cost is not None:
        raise OptionError(f"--cost {times.cost} needs data; without, give --seconds-per-judgment")
    seconds, about = None, ""
    if times.seconds_per_judgment is not None:
        seconds, about = times.seconds_per_judgment * outputs, f"{times.seconds_per_judgment:g} s a judgment"
    elif times.seconds_per_item is not None:
        seconds, about = times.seconds_per_item, f"{times.seconds_per_item:g} s an item"
    _check_known(times, known=seconds is not None)
    return Prices(None if seconds is None else np.array([seconds]), times.seconds_per_new_item, times.hourly,
                  times.currency, about)  # fmt: skip


def data_prices(times: Times, evalset: EvalSet) -> Prices:
    """Prices of the items of a set: as said, from a column, by ESA's model, or from the times that were recorded."""
    n, m = evalset.n_items, evalset.n_systems
    if times.cost is not None:
        costs = item_costs(evalset, times.cost)
        if costs is not None and times.cost == ESA:
            return _priced(times, costs * m, "0.15 s a source word + 33.7 s, for every output (esa_time)")
        return _priced(times, costs, f"seconds an item from the column '{times.cost}'")
    if times.seconds_per_item is not None or times.seconds_per_judgment is not None:
        plain = plain_prices(times, m)
        return _priced(times, None if plain.seconds is None else np.full(n, plain.seconds[0]), plain.about)
    recorded = recorded_seconds(evalset.judgments)
    _check_known(times, known=recorded is not None)
    if recorded is None:
        return _priced(times, None, "")
    return _priced(times, np.full(n, recorded * m), f"{recorded:.0f} s a judgment, as recorded, without breaks")


def _priced(times: Times, seconds: FloatArray | None, about: str) -> Prices:
    return Prices(seconds, times.seconds_per_new_item, times.hourly, times.currency, about)


def _check_known(times: Times, *, known: bool) -> None:
    if known:
        return
    if times.hourly is not None or times.seconds_per_new_item > 0:
        option = "--hourly" if times.hourly is not None else "--seconds-per-new-item"
        raise OptionError(f"{option} needs to know how long judging takes: give --seconds-per-item, "
                          "--seconds-per-judgment or (with data) --cost")  # fmt: skip


def recorded_seconds(judgments: Judgments | None) -> float | None:
    """Mean seconds of a judgment, each cut at five medians because breaks are often inside; None if not recorded.

    >>> import polars as pl
    >>> table = pl.DataFrame({"item": [0, 1, 2], "system": "A", "value": 1.0, "seconds": [20.0, 30.0, 9000.0]})
    >>> recorded_seconds(Judgments(table))
    66.66666666666667
    """
    if judgments is None:
        return None
    seconds = judgments.answers()["seconds"].drop_nulls().to_numpy()
    seconds = seconds[seconds > 0]
    if not len(seconds):
        return None
    return float(np.minimum(seconds, _BREAK * np.median(seconds)).mean())


@dataclass(frozen=True)
class Amount:
    """A budget as it was written: a number of judgments or items, a share of the items, hours, or money."""

    value: float
    unit: Unit
    written: str


def parse_amount(budget: float | str, currency: str = "EUR") -> Amount:
    """Read a budget; a bare number counts judgments.

    >>> parse_amount(2000).unit, parse_amount("20 h").value, parse_amount("500EUR").unit, parse_amount("30%")
    ('judgments', 20.0, 'money', Amount(value=0.3, unit='share', written='30%'))
    """
    text = str(budget).strip()
    found = re.fullmatch(
        r"(?P<before>[^\d.\s+-]*)\s*(?P<number>[\d.]+(?:e\+?\d+)?)\s*(?P<after>\S*)", text, re.IGNORECASE
    )
    known = {**_UNITS, currency.strip().casefold(): "money"}
    try:
        unit = known[(found["before"] or found["after"]).casefold()] if found else None
        value = float(found["number"]) if found else 0.0
    except (KeyError, ValueError):
        unit, value = None, 0.0
    if unit is None or (found and found["before"] and found["after"]):
        raise OptionError(f"--budget '{budget}': write a number of judgments (2000), items (300items), a share (30%), "
                          f"hours (20h) or money (500{currency}; its name is --currency)")  # fmt: skip
    if not 0 < value < np.inf:
        raise OptionError(f"--budget {budget}: must be above 0")
    return Amount(value / 100 if unit == "share" else value, unit, text)
