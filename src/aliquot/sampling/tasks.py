"""How a method chooses within a budget: utilities, subset methods, designs, whole documents."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet, take_rows
from aliquot.core.registry import strip_parentheses
from aliquot.core.selection import Design
from aliquot.errors import AliquotWarning, OptionError
from aliquot.sampling.budgets import Budget
from aliquot.sampling.drawing_order import drawing_order, sort_for_drawing
from aliquot.sampling.methods import DesignDraw, Method, Subset, all_methods
from aliquot.stats.allocation import equal_allocation, round_allocation, water_fill
from aliquot.stats.arrays import FloatArray, IntArray, encode_labels, group_means, group_sums, is_constant
from aliquot.stats.subset_search import knapsack


def documents_as_items(evalset: EvalSet, codes: IntArray) -> EvalSet:
    """Return a set whose items are the documents: mean scores, joined sources, the first item's other columns."""
    first = np.unique(codes, return_index=True)[1]
    items = evalset.items[first].with_columns(pl.Series("id", np.arange(len(first))))
    if "source" in items.columns:
        joined = evalset.items.select(pl.col("source").fill_null(""), pl.Series("code", codes))
        texts = joined.group_by("code").agg(pl.col("source").str.join("\n")).sort("code")["source"]
        items = items.with_columns(texts)
    drop = [name for name in ("document", "position") if name in items.columns]
    return EvalSet(
        items=items.drop(drop),
        systems=evalset.systems,
        scores={
            name: np.column_stack([group_means(codes, column) for column in values.T])
            for name, values in evalset.scores.items()
        },
        human=evalset.human,
        name=f"documents of {evalset.name}",
    )


def expand_documents(documents: IntArray, codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of the documents' items, and for each row the index of its document in the list."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    rows = [order[starts[code] : starts[code] + sizes[code]] for code in documents]
    places = np.repeat(np.arange(len(documents)), sizes[documents])
    return (np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)), places


# -- spending a budget on utilities -----------------------------------------------------------------------------------


_OFFSET = 0.2


@dataclass(frozen=True, eq=False)
class BudgetedRows:
    """Chosen rows, best first, and the optimality gap of the choice."""

    rows: IntArray
    gap: float = 0.0


def choose_by_utility(
    utility: FloatArray, budget: Budget, cost: FloatArray | None, groups: IntArray | None, rng: np.random.Generator
) -> BudgetedRows:
    """Choose rows by utility (NaN last) within the budget, in equal shares of the groups where there are any.

    Ties are broken at random: the first items of a file are often one document.
    """
    filled = np.where(np.isfinite(utility), utility, -np.inf)
    order = np.lexsort((rng.random(len(filled)), -filled))
    if groups is not None:
        return _choose_by_group(filled, budget, cost, groups, order)
    if cost is None or budget.amount is None:
        return BudgetedRows(order[: budget.n])
    return _choose_by_cost(filled, budget.amount, cost, order)


def _choose_by_cost(utility: FloatArray, amount: float, cost: FloatArray, order: IntArray) -> BudgetedRows:
    result = knapsack(shift_positive(utility), cost, amount)
    chosen = np.zeros(len(utility), dtype=bool)
    chosen[result.chosen] = True
    return BudgetedRows(order[chosen[order]], result.gap)


def shift_positive(utility: FloatArray) -> FloatArray:
    """Shift utilities to be positive for the knapsack; the lowest becomes a fifth of the range.

    Without it a knapsack would leave money unspent; unknown utilities (-inf) are worth almost nothing.
    """
    present = utility[np.isfinite(utility)]
    if not len(present) or is_constant(present):
        return np.where(np.isfinite(utility), 1.0, 1e-6)
    spread = present.max() - present.min()
    return np.where(np.isfinite(utility), (utility - present.min()) / spread + _OFFSET, 1e-6)


def _choose_by_group(
    utility: FloatArray, budget: Budget, cost: FloatArray | None, groups: IntArray, order: IntArray
) -> BudgetedRows:
    """Choose with equal budgets for all groups; what a small group cannot use goes to the others."""
    chosen, gap = np.zeros(len(utility), dtype=bool), 0.0
    for members, group_budget, price in _group_budgets(groups, budget, cost):
        if price is None or group_budget.amount is None:
            chosen[order[groups[order] == groups[members[0]]][: group_budget.n]] = True
        else:
            result = knapsack(shift_positive(utility)[members], price, group_budget.amount)
            chosen[members[result.chosen]] = True
            gap = max(gap, result.gap)
    return BudgetedRows(order[chosen[order]], gap)


def _group_budgets(
    groups: IntArray, budget: Budget, cost: FloatArray | None
) -> list[tuple[IntArray, Budget, FloatArray | None]]:
    """Return the rows, budget and costs of each group that gets something."""
    if cost is None or budget.amount is None:
        sizes = np.bincount(groups)
        counts = round_allocation(equal_allocation(sizes, budget.n), sizes, budget.n)
        return [(np.flatnonzero(groups == code), Budget(int(n)), None) for code, n in enumerate(counts) if n]
    totals = group_sums(groups, cost)
    amounts = water_fill(np.ones(len(totals)), totals, budget.amount)
    parts = [np.flatnonzero(groups == group) for group in range(len(totals))]
    return [
        (members, Budget(len(members), float(amount)), cost[members])
        for members, amount in zip(parts, amounts, strict=True)
    ]


def choose_documents(
    utility: FloatArray,
    budget: Budget,
    cost: FloatArray | None,
    documents: IntArray,
    groups: IntArray | None,
    rng: np.random.Generator,
) -> BudgetedRows:
    """Choose whole documents: a document's utility is the mean of its items', its cost the sum."""
    codes = np.unique(documents, return_inverse=True)[1]
    means = group_means(codes, utility)
    each = np.ones(len(codes)) if cost is None else cost
    spend = Budget(len(means), float(budget.n) if budget.amount is None else budget.amount)
    of_document = None
    if groups is not None:
        of_document = groups[np.unique(codes, return_index=True)[1]]
    choice = choose_by_utility(means, spend, group_sums(codes, each), of_document, rng)
    rows = [np.flatnonzero(codes == code) for code in choice.rows]
    return BudgetedRows(np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64), choice.gap)


# -- the three kinds of method ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Task:
    """The inputs of a method, without excluded and included items."""

    evalset: EvalSet
    visible: EvalSet
    method: Method
    parameters: Mapping[str, Any]
    budget: Budget
    cost: FloatArray | None
    groups: IntArray | None
    unit: str
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class ChosenRows:
    """Chosen rows of a task, and their properties (None if they do not apply)."""

    rows: IntArray
    utility: FloatArray | None = None
    probability: FloatArray | None = None
    weight: FloatArray | None = None
    stratum: IntArray | None = None
    systems: tuple[tuple[str, ...], ...] | None = None
    design: Design = field(default_factory=Design)
    details: Mapping[str, Any] = field(default_factory=dict)
    population: int = 0


def choose_rows(task: Task, *, matching: bool) -> ChosenRows:
    """Return the rows that the method chooses; it sees the items in the order of their ids."""
    reading = task.unit == "document" or _draws_runs(task.method, task.parameters)
    order = drawing_order(task.evalset, reading=reading)
    if order is None:
        return _choose_rows(task, matching=matching)
    evalset = sort_for_drawing(task.evalset, reading=reading)
    chosen = _choose_rows(
        replace(
            task,
            evalset=evalset,
            visible=evalset if task.visible is task.evalset else sort_for_drawing(task.visible, reading=reading),
            cost=None if task.cost is None else task.cost[order],
            groups=None if task.groups is None else encode_labels(task.groups[order].tolist()),
        ),
        matching=matching,
    )
    return replace(chosen, rows=order[chosen.rows])


def _draws_runs(method: Method, parameters: Mapping[str, Any]) -> bool:
    """Return whether a design (or the one it draws by) takes runs of items or whole documents."""
    if "documents" in method.needs:
        return True
    by = method.bind(parameters).get("by") if "by" in parameters else None
    base = None if by is None else all_methods().get(strip_parentheses(str(by)).partition(":")[0])
    return base is not None and "documents" in base.needs


def _choose_rows(task: Task, *, matching: bool) -> ChosenRows:
    """Run a utility, a subset method or a design."""
    if task.method.kind != "design" and not matching:
        raise OptionError(f"'{task.method.name}' chooses the same items for all systems; non-matching is for designs")
    if task.method.kind == "utility":
        return _run_utility(task)
    if task.method.kind == "subset":
        return _run_subset(task)
    return _run_design(task) if matching else _run_for_each_system(task)


def _run_utility(task: Task) -> ChosenRows:
    utility: FloatArray = task.method.run(task.visible, task.parameters, rng=task.rng)
    unknown = int((~np.isfinite(utility)).sum())
    if unknown:
        warnings.warn(
            f"{unknown} of {len(utility)} items lack what '{task.method.name}' needs: they come last", AliquotWarning, 2
        )
    present = utility[np.isfinite(utility)]
    if len(present) > 1 and is_constant(present):
        warnings.warn(f"'{task.method.name}' finds all items equally useful: the choice is random", AliquotWarning, 2)
    if task.unit == "document":
        choice = choose_documents(utility, task.budget, task.cost, _document_codes(task), task.groups, task.rng)
    else:
        choice = choose_by_utility(utility, task.budget, task.cost, task.groups, task.rng)
    return ChosenRows(choice.rows, utility=utility[choice.rows], details={"gap": choice.gap} if choice.gap else {})


def _document_codes(task: Task) -> IntArray:
    codes = task.evalset.documents
    if codes is None:
        raise OptionError(f"{task.evalset.name}: there are no documents; use `unit=item`")
    return codes


def _run_subset(task: Task) -> ChosenRows:
    if task.cost is not None or task.unit == "document":
        raise OptionError(
            f"'{task.method.name}' chooses a number of items; use a utility or a design with `cost` or `unit=document`"
        )
    rows, weights, details = [], [], {}
    n = len(task.evalset)
    everything = [(np.arange(n), Budget(min(task.budget.n, n)), None)]
    for members, group_budget, _ in (
        everything if task.groups is None else _group_budgets(task.groups, task.budget, None)
    ):
        part: Subset = task.method.run(
            take_rows(task.visible, members), task.parameters, n=group_budget.n, rng=task.rng
        )
        rows.append(members[part.rows])
        weights.append(part.weight)
        details = dict(part.details)
    weight = None if any(w is None for w in weights) else np.concatenate([w for w in weights if w is not None])
    return ChosenRows(np.concatenate(rows), weight=weight, details=details)


def _run_design(task: Task) -> ChosenRows:
    if task.unit == "document":
        return _run_document_design(task)
    if task.groups is None:
        drawn = _draw(task, task.visible, task.budget, task.cost)
        return _from_drawn(drawn, np.arange(len(task.evalset)))
    parts = [
        _from_drawn(_draw(task, _take_group(task.visible, members), budget, cost), members)
        for members, budget, cost in _group_budgets(task.groups, task.budget, task.cost)
    ]
    return _merge_groups(parts, len(task.evalset))


def _take_group(evalset: EvalSet, members: IntArray) -> EvalSet:
    """Return a group's items as a set (cached)."""
    return evalset.derived(f"rows {members.tobytes().hex()}", lambda whole: take_rows(whole, members))


def _draw(
    task: Task, evalset: EvalSet, budget: Budget, cost: FloatArray | None, mass: FloatArray | None = None
) -> DesignDraw:
    """Draw by the design; a cost budget holds in expectation. `mass` counts the items of each unit (document)."""
    n = budget.n
    if cost is not None and budget.amount is not None:
        n = max(1, min(evalset.n_items, int(budget.amount / cost.mean() + 1e-9)))
    drawn: DesignDraw = task.method.run(
        evalset, task.parameters, n=n, rng=task.rng, cost=cost, amount=budget.amount, mass=mass
    )
    return drawn


def _from_drawn(drawn: DesignDraw, members: IntArray) -> ChosenRows:
    return ChosenRows(
        members[drawn.rows],
        probability=None if drawn.probability is None else drawn.probability[drawn.rows],
        stratum=None if drawn.stratum is None else drawn.stratum[drawn.rows],
        design=_record_coverage(drawn),
        details=drawn.details,
        population=len(members),
    )


def _record_coverage(drawn: DesignDraw) -> Design:
    """Return the design with the share of items that have a probability above 0."""
    if drawn.probability is None:
        return drawn.design
    return replace(drawn.design, coverage=float((drawn.probability > 0).mean()))


def _merge_groups(parts: list[ChosenRows], population: int) -> ChosenRows:
    probabilities = [part.probability for part in parts]
    present = [p for p in probabilities if p is not None]
    stratum = np.concatenate([np.full(len(part.rows), group) for group, part in enumerate(parts)])
    coverage = sum(part.population * part.design.coverage for part in parts) / population
    return ChosenRows(
        np.concatenate([part.rows for part in parts]),
        probability=np.concatenate(present) if len(present) == len(parts) else None,
        stratum=stratum,
        design=replace(parts[0].design, variance="stratified", coverage=coverage if coverage < 1 - 1e-12 else 1.0),
        details=dict(parts[0].details) | {"balance": len(parts)},
    )


def _run_document_design(task: Task) -> ChosenRows:
    """Run the design on documents as items; every item has its document's probability."""
    codes = _document_codes(task)
    by_document = task.method.name == "stratified" and task.parameters.get("bins", "document") == "document"
    if "documents" in task.method.needs or by_document:
        raise OptionError(
            f"'{task.method.name}' chooses inside documents; with `unit=document` use segments, pps or balanced"
        )
    if task.groups is not None:
        raise OptionError("a design of whole documents cannot be balanced; leave out `balance` or `unit=document`")
    units = task.visible.derived("documents as items", lambda data: documents_as_items(data, codes))
    lengths = np.bincount(codes).astype(np.float64)
    cost = lengths if task.cost is None else group_sums(codes, task.cost)
    amount = float(task.budget.n) if task.budget.amount is None else task.budget.amount
    chosen = _from_drawn(_draw(task, units, Budget(len(lengths), amount), cost, lengths), np.arange(len(lengths)))
    rows, unit_at = expand_documents(chosen.rows, codes)
    probability = None if chosen.probability is None else chosen.probability[unit_at]
    return ChosenRows(
        rows, probability=probability, design=replace(chosen.design, variance="clustered"), details=chosen.details
    )


def _run_for_each_system(task: Task) -> ChosenRows:
    """Draw independently for each system; probabilities are those of an item for one system."""
    if task.unit == "document" or task.groups is not None:
        raise OptionError("non-matching draws cannot be combined with `unit=document` or `balance`")
    if not task.evalset.systems:
        raise OptionError(f"{task.evalset.name}: no item has a system yet; leave out `non_matching`")
    probability: FloatArray | None = None
    systems_of: dict[int, list[str]] = {}
    for system in sorted(task.evalset.systems):  # by name: the order in a file depends on its first lines
        drawn = _draw(task, task.visible, task.budget, task.cost)
        probability = drawn.probability
        for row in drawn.rows.tolist():
            systems_of.setdefault(row, []).append(system)
    rows = np.array(list(systems_of), dtype=np.int64)
    return ChosenRows(
        rows,
        probability=None if probability is None else probability[rows],
        systems=tuple(tuple(names) for names in systems_of.values()),
        design=_record_coverage(drawn),
        details=dict(drawn.details) | {"matching": False},
    )
