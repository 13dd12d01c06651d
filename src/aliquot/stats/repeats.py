"""How many judgments of the same output are worth paying for (Cochran 1977, section 10.6, with finite population).

n items with k judgments each give Var = A (1/n - 1/N) + B / (n k): A the variance between items, B that of one
judgment of an item. More items help against both, more judgments of an item only against B, also once all N are judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray

MOST = 20
"""Judgments of one output up to which is looked."""


@dataclass(frozen=True)
class Repeats:
    """One choice at a given cost: k judgments of each of n items, and the variance that they leave."""

    judgments: int
    items: float
    variance: float


def best_ratio(item: float, rater: float, item_cost: float, judgment_cost: float) -> float:
    """Best k without bounds: sqrt(item_cost / judgment_cost * B / A); infinite where items do not differ.

    Args:
        item: A, variance between items.
        rater: B, variance of one judgment of an item.
        item_cost: what a new item costs apart from its judgments.
        judgment_cost: what one judgment costs.

    Example:
        >>> best_ratio(item=4.0, rater=9.0, item_cost=4.0, judgment_cost=1.0)
        3.0
    """
    _check(item, rater, item_cost, judgment_cost)
    if rater == 0 or item_cost == 0:
        return 0.0
    return float(np.sqrt(item_cost / judgment_cost * rater / item)) if item > 0 else float("inf")


def repeat_choices(
    item: float,
    rater: float,
    item_cost: float,
    judgment_cost: float,
    budget: float,
    population: float = np.inf,
    most: int = MOST,
) -> list[Repeats]:
    """Every k = 1, 2, ... that the budget allows for at least one item, with its n and variance.

    Args:
        item: A, variance between items.
        rater: B, variance of one judgment of an item.
        item_cost: what a new item costs apart from its judgments.
        judgment_cost: what one judgment costs.
        budget: what may be spent, in the same unit; what is left when all items are judged k times is not spent.
        population: N, the items there are.
        most: the largest k.

    Example:
        >>> choices = repeat_choices(4, 9, 0, 1, 60, population=40, most=3)
        >>> [(choice.judgments, choice.items, round(choice.variance, 3)) for choice in choices]
        [(1, 40.0, 0.225), (2, 30.0, 0.183), (3, 20.0, 0.25)]
    """
    _check(item, rater, item_cost, judgment_cost)
    if not budget > 0:
        raise OptionError(f"budget is {budget}; spend more than 0")
    k = np.arange(1, most + 1)
    n: FloatArray = np.minimum(population, budget / (item_cost + judgment_cost * k))
    variance = item * (1.0 / n - 1.0 / population) + rater / (n * k)
    return [
        Repeats(int(at), float(size), float(left)) for at, size, left in zip(k, n, variance, strict=True) if size >= 1.0
    ]


def _check(item: float, rater: float, item_cost: float, judgment_cost: float) -> None:
    for name, value in (("item", item), ("rater", rater), ("item_cost", item_cost)):
        if not 0 <= value < np.inf:
            raise OptionError(f"{name} is {value}; it is finite and at least 0")
    if not 0 < judgment_cost < np.inf:
        raise OptionError(f"judgment_cost is {judgment_cost}; judging costs something")
