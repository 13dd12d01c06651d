"""Budgets and costs: how many items, or how much of what judging them costs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aliquot.core.conventions import source_lengths
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError, OptionError, unknown_name
from aliquot.stats.arrays import FloatArray

ESA_SECONDS_PER_WORD = 0.15
ESA_SECONDS = 33.7


@dataclass(frozen=True)
class Budget:
    """What may be spent: `n` items, or, with costs, an `amount`."""

    n: int
    amount: float | None = None

    def less(self, items: int, spent: float) -> Budget:
        """Return what is left after some items are fixed."""
        amount = None if self.amount is None else self.amount - spent
        if (amount is not None and amount < -1e-9 * (self.amount or 1.0)) or (amount is None and items > self.n):
            raise OptionError(f"the {items} included items already exceed the budget; raise --budget or include fewer")
        return Budget(max(0, self.n - items), amount)


def item_costs(evalset: EvalSet, cost: str | None) -> FloatArray | None:
    """Return every item's cost: None for unit costs, `esa_time` in seconds, or a numeric item column.

    `esa_time`: 0.15 seconds a source word + 33.7 (characters for Chinese, Japanese, Korean, Thai).
    """
    if cost is None:
        return None
    if cost == "esa_time":
        return esa_seconds(source_lengths(evalset))
    numeric = [name for name in evalset.items.columns if evalset.items[name].dtype.is_numeric() and name != "id"]
    if cost not in numeric:
        raise unknown_name("cost", cost, ["esa_time", *numeric], "name a numeric item column")
    return check_costs(evalset.items[cost], evalset.items["id"], evalset.name)


def esa_seconds(lengths: NDArray[np.generic]) -> FloatArray:
    """Seconds that an ESA judgment of sources of these lengths takes; an unknown length counts as 0."""
    known = np.nan_to_num(lengths.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    return ESA_SECONDS_PER_WORD * known + ESA_SECONDS


def check_costs(costs: pl.Series, ids: pl.Series, name: str) -> FloatArray:
    """Return a column of costs as numbers, which must all be positive."""
    values: FloatArray = costs.cast(pl.Float64).fill_null(np.nan).to_numpy()
    bad = ~((values > 0) & (values < np.inf))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        what = "missing" if np.isnan(values[at]) else f"{values[at]:g}"
        raise DataError(f"{name}: item {ids[at]!r} has the cost {what} (column '{costs.name}'); costs must be positive")
    return values


def resolve_budget(budget: float | str | None, population: int, cost: FloatArray | None) -> Budget:
    """Read a budget: 100, "30%", an amount of cost, or None for everything.

    >>> resolve_budget("30%", 50, None)
    Budget(n=15, amount=None)
    """
    if population == 0:
        raise DataError("no item is left to choose from; check --exclude-items")
    total = float(population) if cost is None else float(cost.sum())
    amount = total if budget is None else _amount(budget, total)
    if amount > total * (1 + 1e-12):
        unit = "items" if cost is None else "of cost"
        warnings.warn(f"the budget {amount:g} exceeds the {total:g} {unit} there are: all are taken", AliquotWarning, 2)
        amount = total
    if cost is not None:
        return Budget(n=population, amount=amount)
    whole = round(amount)
    if abs(whole - amount) > 1e-9 and not str(budget).strip().endswith("%"):
        raise OptionError(f"--budget {budget}: a number of items is whole; for an amount of cost give --cost too")
    return Budget(n=max(1, whole))


def _amount(budget: float | str, total: float) -> float:
    text = str(budget).strip()
    try:
        amount = float(text.removesuffix("%")) / 100 * total if text.endswith("%") else float(text)
    except ValueError:
        raise OptionError(f"--budget '{budget}': write a number (100), a share (30%), or an amount of cost") from None
    if not amount > 0 or not np.isfinite(amount):
        raise OptionError(f"--budget {budget}: must be above 0")
    return amount
