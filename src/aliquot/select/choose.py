"""`select`: from data, a method and a budget to the items people should judge."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet, ItemId, at_rows
from aliquot.data.selection import Selection
from aliquot.data.signature import signature
from aliquot.data.spec import Spec, parse_spec, written
from aliquot.errors import AliquotWarning, OptionError, unknown_name
from aliquot.select.auto import choose_method
from aliquot.select.budget import Budget, item_costs, resolve_budget
from aliquot.select.constraints import take, take_documents
from aliquot.select.methods import Method, lookup
from aliquot.select.registry import Drawn, Subset, with_old_similarity
from aliquot.select.units import documents_as_items, expanded, group_codes
from aliquot.stats.allocation import equal_split, round_nearest, water_fill
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.grouping import group_sums

UNITS = ("item", "document")


@dataclass(frozen=True, eq=False)
class _Task:
    """Everything a method needs to know, with excluded items gone and included ones set apart."""

    evalset: EvalSet
    seen: EvalSet
    method: Method
    given: Mapping[str, Any]
    budget: Budget
    cost: FloatArray | None
    groups: IntArray | None
    unit: str
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Rows of the task's items in order, and what belongs to them (None where it does not apply)."""

    rows: IntArray
    utility: FloatArray | None = None
    probability: FloatArray | None = None
    weight: FloatArray | None = None
    stratum: IntArray | None = None
    systems: tuple[tuple[str, ...], ...] | None = None
    details: Mapping[str, Any] | None = None
    population: int = 0


def select(
    data: EvalSet,
    method: str = "auto",
    budget: float | str | None = None,
    *,
    cost: str | None = None,
    balance: str | None = None,
    unit: str = "item",
    include: Sequence[ItemId] = (),
    exclude_items: Sequence[ItemId] = (),
    crowd: Sequence[str] | None = None,
    matching: bool = True,
    seed: int = 0,
    **parameters: Any,
) -> Selection:
    """Choose the items that people should judge.

    Args:
        data: the evaluation set.
        method: a method spec, e.g. "metric_var:metric=COMET", "pps:tau=0.5", or "auto"; see `aliquot methods`.
        budget: a number of items, a share ("30%"), with `cost` an amount of cost; None takes all, in order.
        cost: an item column, or "esa_time"; costs are then respected by integer programming or in expectation.
        balance: an item column, e.g. "domain": the budget is split equally over its values.
        unit: "item" or "document" (whole documents are chosen).
        include: ids that must be judged in any case; they count towards the budget.
        exclude_items: ids that must not be judged.
        crowd: systems whose outputs and scores may be looked at; all by default.
        matching: for designs, the same items for all systems, or a draw for each.
        seed: same seed, same selection.
        **parameters: parameters of the method, such as metric="COMET".

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=4, seed=2)
    >>> aliquot.select(data, "metric_var", budget=10, metric="metricA")
    Selection(10 of 60 items by metric_var:metric=metricA, without probabilities)
    """
    if unit not in UNITS:
        raise unknown_name("unit", unit, UNITS)
    spec, details = _resolved(data, parse_spec(method), parameters)
    pool = data.drop(items=list(exclude_items)) if len(exclude_items) else data
    costs = item_costs(pool, cost)
    whole = resolve_budget(budget, pool.n_items, costs)
    fixed = _fixed_mask(pool, include)
    free = np.flatnonzero(~fixed)
    spent = 0.0 if costs is None else float(costs[fixed].sum())
    left = whole.less(int(fixed.sum()), spent)
    chosen = _Chosen(np.zeros(0, dtype=np.int64), details={})
    if len(free) and (left.n if left.amount is None else left.amount) > 0:
        chosen = _choose(_task(pool, free, spec, left, costs, balance, unit, crowd, seed), matching=matching)
    if not len(chosen.rows) and not fixed.any():
        _report_nothing(spec, budget, costs)
    return _selection(
        pool, chosen, np.flatnonzero(fixed), free, costs, spec, details,
        signature(
            f"select:{spec}", data, budget=budget, cost=cost, balance=balance,
            unit=None if unit == "item" else unit, include=_listed(include), exclude=_listed(exclude_items),
            crowd=None if crowd is None else ",".join(crowd), matching=None if matching else "no", seed=seed,
        ),
    )  # fmt: skip


def _report_nothing(spec: Spec, budget: float | str | None, costs: FloatArray | None) -> None:
    """An empty choice is a mistake of the budget, but an honest, if useless, outcome of a draw of whole documents."""
    if lookup(spec.name)[0].kind == "design":
        text = f"this draw of '{spec.name}' came out empty: the budget {budget} is an expected number; raise it"
        warnings.warn(text, AliquotWarning, 3)
        return
    cheapest = "" if costs is None else f"; the cheapest item costs {costs.min():g}"
    raise OptionError(f"the budget {budget} buys nothing{cheapest}; raise --budget")


def _listed(ids: Sequence[ItemId]) -> str | None:
    """Name a few items; many are named by a digest of theirs."""
    text = ",".join(map(str, ids))
    if len(text) > 60:
        return f"{len(ids)} items {hashlib.sha256(text.encode()).hexdigest()[:6]}"
    return text or None


def _resolved(data: EvalSet, spec: Spec, parameters: Mapping[str, Any]) -> tuple[Spec, dict[str, Any]]:
    """Apply old names, `auto`, and parameters given apart from the spec."""
    given: dict[str, Any] = dict(spec.parameters) | {k: v for k, v in parameters.items() if v is not None}
    details: dict[str, Any] = {}
    name = spec.name
    if name == "auto":
        goal = given.pop("goal", "means")
        if goal not in ("means", "ranking"):
            raise unknown_name("goal", goal, ["means", "ranking"])
        choice = choose_method(data, goal)
        _refuse_unknown_for_auto(given, lookup(parse_spec(choice.spec).name)[0])
        chosen = parse_spec(choice.spec)
        details["auto"] = f"{choice.spec}: {choice.reason}"
        given = dict(chosen.parameters) | _accepted(lookup(chosen.name)[0], given)
        name = chosen.name
    found, implied = lookup(name)
    given = with_old_similarity(found.name, implied | given)
    as_typed = {*spec.parameters, *implied, *(name for name, p in found.parameters.items() if p.is_list)}
    texts = {k: v if isinstance(v, str) and k in as_typed else written(v) for k, v in given.items()}
    return Spec(found.name, texts), details


def _refuse_unknown_for_auto(given: Mapping[str, Any], method: Method) -> None:
    known = ["goal", "metric", *method.parameters]
    for name in given:
        if name not in known:
            raise unknown_name("parameter of auto", name, known)


def _accepted(method: Method, given: Mapping[str, Any]) -> dict[str, Any]:
    """With `auto` the user does not know the method: a metric= becomes metrics= where that is what it takes."""
    accepted = dict(given)
    if "metric" in accepted and "metric" not in method.parameters:
        metric = accepted.pop("metric")
        if "metrics" in method.parameters:
            accepted["metrics"] = metric
    return accepted


def _fixed_mask(pool: EvalSet, include: Sequence[ItemId]) -> BoolArray:
    fixed = np.zeros(pool.n_items, dtype=np.bool_)
    row_of = {item: row for row, item in enumerate(pool.ids)}
    for item in include:
        if item not in row_of:
            raise unknown_name("item", item, pool.ids[:50], "check --include and --exclude-items")
        fixed[row_of[item]] = True
    return fixed


def _task(
    pool: EvalSet,
    free: IntArray,
    spec: Spec,
    budget: Budget,
    costs: FloatArray | None,
    balance: str | None,
    unit: str,
    crowd: Sequence[str] | None,
    seed: int,
) -> _Task:
    evalset = at_rows(pool, free) if len(free) < pool.n_items else pool
    groups = group_codes(evalset, balance) if balance is not None else None
    method, _ = lookup(spec.name)
    seen = evalset.keep(systems=list(crowd)) if crowd is not None else evalset
    cost = None if costs is None else costs[free]
    return _Task(
        evalset, seen, method, spec.parameters, budget, cost, groups, unit, np.random.default_rng(seed)
    )  # fmt: skip


# -- the three kinds of method -------------------------------------------------------------------------------------


def _choose(task: _Task, *, matching: bool) -> _Chosen:
    if task.method.kind != "design" and not matching:
        raise OptionError(f"'{task.method.name}' chooses the same items for all systems; non-matching is for designs")
    if task.method.kind == "utility":
        return _by_utility(task)
    if task.method.kind == "subset":
        return _by_subset(task)
    return _by_design(task) if matching else _for_each_system(task)


def _by_utility(task: _Task) -> _Chosen:
    utility: FloatArray = task.method.run(task.seen, task.given, rng=task.rng)
    unknown = int((~np.isfinite(utility)).sum())
    if unknown:
        warnings.warn(f"{unknown} of {len(utility)} items lack what '{task.method.name}' needs: they come last",
                      AliquotWarning, 2)  # fmt: skip
    known = utility[np.isfinite(utility)]
    if len(known) > 1 and known.max() == known.min():
        warnings.warn(f"'{task.method.name}' finds all items equally useful: the choice is random", AliquotWarning, 2)
    if task.unit == "document":
        taken = take_documents(utility, task.budget, task.cost, _document_codes(task), task.groups, task.rng)
    else:
        taken = take(utility, task.budget, task.cost, task.groups, task.rng)
    return _Chosen(taken.rows, utility=utility[taken.rows], details={"gap": taken.gap} if taken.gap else {})


def _document_codes(task: _Task) -> IntArray:
    codes = task.evalset.documents
    if codes is None:
        raise OptionError(f"{task.evalset.name}: there are no documents; use --unit item")
    return codes


def _by_subset(task: _Task) -> _Chosen:
    if task.cost is not None or task.unit == "document":
        raise OptionError(f"'{task.method.name}' chooses a number of items; use a utility or a design with --cost or "
                          "--unit document")  # fmt: skip
    rows, weights, details = [], [], {}
    for members, count in _group_counts(task):
        part: Subset = task.method.run(at_rows(task.seen, members), task.given, n=count, rng=task.rng)
        rows.append(members[part.rows])
        weights.append(part.weight)
        details = dict(part.details)
    weight = None if any(w is None for w in weights) else np.concatenate([w for w in weights if w is not None])
    return _Chosen(np.concatenate(rows), weight=weight, details=details)


def _group_counts(task: _Task) -> list[tuple[IntArray, int]]:
    """Return the rows of each group (or all rows) and how many of them to choose."""
    n = len(task.evalset)
    if task.groups is None:
        return [(np.arange(n), min(task.budget.n, n))]
    sizes = np.bincount(task.groups)
    counts = round_nearest(equal_split(sizes, task.budget.n), sizes, task.budget.n)
    return [(np.flatnonzero(task.groups == group), int(count)) for group, count in enumerate(counts) if count]


def _by_design(task: _Task) -> _Chosen:
    if task.unit == "document":
        return _by_document_design(task)
    if task.groups is None:
        drawn = _drawn(task, task.seen, task.budget, task.cost)
        return _from_drawn(drawn, np.arange(len(task.evalset)))
    parts = [
        _from_drawn(_drawn(task, at_rows(task.seen, members), budget, cost), members)
        for members, budget, cost in _group_budgets(task)
    ]
    return _merged(parts, len(task.evalset))


def _group_budgets(task: _Task) -> list[tuple[IntArray, Budget, FloatArray | None]]:
    """Return the rows, budget and costs of each group that gets something."""
    if task.groups is None or task.cost is None or task.budget.amount is None:
        return [(members, Budget(count), None) for members, count in _group_counts(task)]
    totals = group_sums(task.groups, task.cost)
    amounts = water_fill(np.ones(len(totals)), totals, task.budget.amount)
    parts = [np.flatnonzero(task.groups == group) for group in range(len(totals))]
    return [
        (members, Budget(len(members), float(amount)), task.cost[members])
        for members, amount in zip(parts, amounts, strict=True)
    ]


def _drawn(task: _Task, evalset: EvalSet, budget: Budget, cost: FloatArray | None) -> Drawn:
    """Draw; a cost budget is kept in expectation, which for equal probabilities is a number of items."""
    n = budget.n
    if cost is not None and budget.amount is not None:
        n = max(1, min(evalset.n_items, int(budget.amount / cost.mean() + 1e-9)))
    drawn: Drawn = task.method.run(evalset, task.given, n=n, rng=task.rng, cost=cost, amount=budget.amount)
    return drawn


def _from_drawn(drawn: Drawn, members: IntArray) -> _Chosen:
    details = dict(drawn.details) | _coverage(drawn)
    return _Chosen(
        members[drawn.rows],
        probability=None if drawn.probability is None else drawn.probability[drawn.rows],
        stratum=None if drawn.stratum is None else drawn.stratum[drawn.rows],
        details=details,
        population=len(members),
    )


def _coverage(drawn: Drawn) -> dict[str, float]:
    """Say which share of the items had a chance, where some had none."""
    if drawn.probability is None or (drawn.probability > 0).all():
        return {}
    return {"coverage": float((drawn.probability > 0).mean())}


def _merged(parts: list[_Chosen], population: int) -> _Chosen:
    probabilities = [part.probability for part in parts]
    known = [p for p in probabilities if p is not None]
    stratum = np.concatenate([np.full(len(part.rows), group) for group, part in enumerate(parts)])
    reached = sum(part.population * float((part.details or {}).get("coverage", 1.0)) for part in parts) / population
    covered = {"coverage": reached} if reached < 1 - 1e-12 else {}
    return _Chosen(
        np.concatenate([part.rows for part in parts]),
        probability=np.concatenate(known) if len(known) == len(parts) else None,
        stratum=stratum,
        details=dict(parts[0].details or {}) | {"balance": len(parts), "variance": "stratified"} | covered,
    )


def _by_document_design(task: _Task) -> _Chosen:
    """Run the design on documents as items; every item has its document's probability."""
    codes = _document_codes(task)
    by_document = task.method.name == "stratified" and task.given.get("bins", "document") == "document"
    if "documents" in task.method.needs or by_document:
        raise OptionError(
            f"'{task.method.name}' looks inside documents; with --unit document use segments, pps or balanced"
        )
    if task.groups is not None:
        raise OptionError("a design of whole documents cannot be balanced; leave out --balance or --unit document")
    units = documents_as_items(task.seen, codes)
    lengths = np.bincount(codes).astype(np.float64)
    cost = lengths if task.cost is None else group_sums(codes, task.cost)
    amount = float(task.budget.n) if task.budget.amount is None else task.budget.amount
    chosen = _from_drawn(_drawn(task, units, Budget(len(lengths), amount), cost), np.arange(len(lengths)))
    rows, unit_at = expanded(chosen.rows, codes)
    probability = None if chosen.probability is None else chosen.probability[unit_at]
    return _Chosen(rows, probability=probability, details=dict(chosen.details or {}) | {"variance": "clustered"})


def _for_each_system(task: _Task) -> _Chosen:
    """Draw independently for each system; the probability recorded is that of an item for one system."""
    if task.unit == "document" or task.groups is not None:
        raise OptionError("non-matching draws cannot be combined with --unit document or --balance")
    probability: FloatArray | None = None
    systems_of: dict[int, list[str]] = {}
    details: Mapping[str, Any] = {}
    for system in task.evalset.systems:
        drawn = _drawn(task, task.seen, task.budget, task.cost)
        probability, details = drawn.probability, dict(drawn.details) | _coverage(drawn)
        for row in drawn.rows.tolist():
            systems_of.setdefault(row, []).append(system)
    rows = np.array(list(systems_of), dtype=np.int64)
    return _Chosen(
        rows,
        probability=None if probability is None else probability[rows],
        systems=tuple(tuple(names) for names in systems_of.values()),
        details=dict(details) | {"matching": False},
    )


# -- the result ----------------------------------------------------------------------------------------------------


def _selection(
    pool: EvalSet,
    chosen: _Chosen,
    fixed: IntArray,
    free: IntArray,
    costs: FloatArray | None,
    spec: Spec,
    details: dict[str, Any],
    signed: str,
) -> Selection:
    rows = np.concatenate([fixed, free[chosen.rows]]).astype(np.int64)
    k = len(fixed)

    def padded(values: FloatArray | None, fill: float) -> FloatArray | None:
        return None if values is None else np.concatenate([np.full(k, fill), values])

    ids = pool.items["id"].gather(pl.Series(rows, dtype=pl.UInt32)).to_list()
    stratum = None
    if chosen.stratum is not None:
        stratum = (*["included"] * k, *map(str, chosen.stratum.tolist()))
    systems = None if chosen.systems is None else (*[pool.systems] * k, *chosen.systems)
    return Selection(
        ids=tuple(ids),
        population=pool.n_items,
        method=str(spec),
        utility=padded(chosen.utility, np.nan),
        probability=padded(chosen.probability, 1.0),
        weight=padded(chosen.weight, 1.0),
        cost=None if costs is None else costs[rows],
        stratum=stratum,
        systems=systems,
        details=details | dict(chosen.details or {}) | ({"included": k} if k else {}),
        signature=signed,
    )
