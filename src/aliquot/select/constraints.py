"""Spending a budget on utilities: top items, knapsack under costs, equal shares of groups, whole documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.select.budget import Budget
from aliquot.stats.allocation import equal_split, round_nearest, water_fill
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.grouping import group_means, group_sums
from aliquot.stats.knapsack import knapsack

_OFFSET = 0.2


@dataclass(frozen=True, eq=False)
class Taken:
    """The chosen rows, best first, and how far the choice may be from the best there is."""

    rows: IntArray
    gap: float = 0.0


def take(
    utility: FloatArray, budget: Budget, cost: FloatArray | None, groups: IntArray | None, rng: np.random.Generator
) -> Taken:
    """Choose rows by utility (NaN last) within the budget, in equal shares of the groups where there are any.

    Ties are broken at random: the first items of a file are often one document.
    """
    known = np.where(np.isfinite(utility), utility, -np.inf)
    order = np.lexsort((rng.random(len(known)), -known))
    if groups is not None:
        return _by_group(known, budget, cost, groups, order)
    if cost is None or budget.amount is None:
        return Taken(order[: budget.n])
    return _by_cost(known, budget.amount, cost, order)


def _by_cost(utility: FloatArray, amount: float, cost: FloatArray, order: IntArray) -> Taken:
    result = knapsack(positive(utility), cost, amount)
    chosen = np.zeros(len(utility), dtype=bool)
    chosen[result.chosen] = True
    return Taken(order[chosen[order]], result.gap)


def positive(utility: FloatArray) -> FloatArray:
    """Shift utilities to be positive for the knapsack: the least useful item is still worth a fifth of the range.

    Without it a knapsack would leave money unspent; unknown utilities (-inf) are worth almost nothing.
    """
    known = utility[np.isfinite(utility)]
    if not len(known) or known.max() == known.min():
        return np.where(np.isfinite(utility), 1.0, 1e-6)
    spread = known.max() - known.min()
    return np.where(np.isfinite(utility), (utility - known.min()) / spread + _OFFSET, 1e-6)


def _by_group(utility: FloatArray, budget: Budget, cost: FloatArray | None, groups: IntArray, order: IntArray) -> Taken:
    """Equal budgets for all groups; a group too small gives its rest back."""
    chosen, gap = np.zeros(len(utility), dtype=bool), 0.0
    if cost is None or budget.amount is None:
        sizes = np.bincount(groups)
        counts = round_nearest(equal_split(sizes, budget.n), sizes, budget.n)
        for group, count in enumerate(counts):
            members = order[groups[order] == group]
            chosen[members[:count]] = True
    else:
        totals = group_sums(groups, cost)
        amounts = water_fill(np.ones(len(totals)), totals, budget.amount)
        for group, amount in enumerate(amounts):
            members = np.flatnonzero(groups == group)
            result = knapsack(positive(utility)[members], cost[members], float(amount))
            chosen[members[result.chosen]] = True
            gap = max(gap, result.gap)
    return Taken(order[chosen[order]], gap)


def take_documents(
    utility: FloatArray,
    budget: Budget,
    cost: FloatArray | None,
    documents: IntArray,
    groups: IntArray | None,
    rng: np.random.Generator,
) -> Taken:
    """Choose whole documents: a document's utility is the mean of its items', its cost the sum."""
    codes = np.unique(documents, return_inverse=True)[1]
    means = group_means(codes, utility)
    each = np.ones(len(codes)) if cost is None else cost
    spend = Budget(len(means), float(budget.n) if budget.amount is None else budget.amount)
    of_document = None
    if groups is not None:
        of_document = groups[np.unique(codes, return_index=True)[1]]
    taken = take(means, spend, group_sums(codes, each), of_document, rng)
    rows = [np.flatnonzero(codes == code) for code in taken.rows]
    return Taken(np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64), taken.gap)
