"""`select`: from data, a method and a budget to the items people should judge."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.columns import group_codes
from aliquot.core.draws import build_draws_error, has_draws, prompt_codes
from aliquot.core.evalset import EvalSet, ItemId, take_rows
from aliquot.core.origin import record_origin
from aliquot.core.registry import Spec, parse_spec, suggest_arguments
from aliquot.core.result import make_signature
from aliquot.core.selection import Design, Selection
from aliquot.errors import AliquotWarning, DataError, OptionError, quoted, unknown_name
from aliquot.io.inputs import DataLike, SelectionLike, as_evalset, as_evalsets, as_selection
from aliquot.sampling.budgets import (
    Budget,
    Times,
    convert_to_hours,
    data_prices,
    item_costs,
    parse_amount,
    resolve_budget,
)
from aliquot.sampling.drawing_order import sort_for_drawing
from aliquot.sampling.item_scores import infer_scale
from aliquot.sampling.methods import find_method, resolve_spec
from aliquot.sampling.tasks import ChosenRows, Task, choose_rows
from aliquot.sampling.waves import add_wave
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed
from aliquot.validation import one_of

UNITS = ("item", "document")
"""What is chosen whole; `select` also takes "draw"."""
_UNFAIR = ("metric_avg", "irt_diff")
_DRAW_STREAM = 1  # of random numbers that choose draws, besides those of the method


@suggest_arguments
def select(
    data: DataLike,
    method: str = "auto",
    budget: float | str | None = None,
    *,
    cost: str | None = None,
    seconds_per_item: float | None = None,
    seconds_per_judgment: float | None = None,
    hourly: float | None = None,
    currency: str = "EUR",
    protocol: str | None = None,
    past: Sequence[DataLike] = (),
    balance: str | None = None,
    unit: str = "item",
    include: Sequence[ItemId] = (),
    exclude_items: Sequence[ItemId] = (),
    crowd: Sequence[str] | None = None,
    matching: bool = True,
    within: SelectionLike | None = None,
    add_to: SelectionLike | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Selection:
    """Choose the items that people should judge.

    Args:
        data: the evaluation set.
        method: a method spec, e.g. "metric_var:metric=COMET", "pps:tau=0.5", or "auto"; see `aliquot methods`.
        budget: a number of items (200 or "200items"), a share ("30%"), "3000judgments", hours ("20h"), money
            ("500EUR"), with `cost` an amount of it ("900cost"); None takes all, in order.
        cost: an item column, "esa_time", or "fitted" (to recorded times); costs are then respected by integer
            programming or in expectation.
        seconds_per_item: for judging an item, all its outputs, once; for budgets of hours and money.
        seconds_per_judgment: for judging one output once; likewise. By default as earlier judgments recorded it.
        hourly: what an hour of an annotator costs, for budgets of money.
        currency: currency of `hourly`.
        protocol: how people will judge: mqm, da, esa, sqm, likert or pairwise. It sets `scale=` of methods that expect
            larger errors on some items; not needed if the data have human scores.
        past: earlier campaigns with human scores on the same scale; they take the place of `protocol`.
        balance: an item column, e.g. "domain": the budget is split equally over its values.
        unit: "item", "document" (whole documents are chosen, or whole prompts with all their draws), or "draw" (one
            draw at random of each chosen prompt; budgets and costs count the prompts).
        include: ids that must be judged in any case; they count towards the budget.
        exclude_items: ids that must not be judged.
        crowd: systems whose outputs and scores may be looked at; all by default.
        matching: for designs, the same items for all systems, or a draw for each.
        within: a first selection, for instance by sources alone: choose among its items only (a share is of them),
            with the probabilities of both multiplied, so that estimates are about the population of the first.
        add_to: an earlier selection by a design, or its file: its items stay, and more are drawn by the same method up
            to the new total `budget`, or as many as "+100" says; probabilities stay exact.
        seed: same seed, same selection.
        **parameters: parameters of the method, such as metric="COMET".

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=4, seed=2)
    >>> aliquot.select(data, "metric_var", budget=10, metric="metricA")
    Selection(10 of 60 items by metric_var:metric=metricA, without probabilities)
    """
    data, within = as_evalset(data), None if within is None else as_selection(within)
    one_of("unit", unit, (*UNITS, "draw"))
    spec, details = resolve_spec(data, parse_spec(method), parameters)
    spec = _apply_protocol_scale(spec, data, protocol)
    spec = _apply_past_scale(spec, data, as_evalsets(past))
    earlier = None
    if add_to is not None:
        is_named = method != "auto" or any(value is not None for value in parameters.values())
        options = {"cost": cost, "include": len(include), "within": within, "matching=False": not matching}
        _refuse_with_wave(options | {f"unit={unit}": unit != "item"})
        earlier = _read_earlier(add_to, spec if is_named else None)
    elif str(budget).strip().startswith("+"):
        raise OptionError(f"`budget={budget}` adds to an earlier selection: name it with `add_to`")
    if within is not None and len(exclude_items):
        raise OptionError(
            "`exclude_items` with `within`: exclude them in the first selection, where they leave the pool"
        )
    _check_crowd(spec, crowd)
    if earlier is None:
        _warn_unknown_scale(spec, data)
    pool = data if within is None else keep_first_stage(data, within)
    prompts = pool
    pool = pool.drop(items=list(exclude_items)) if len(exclude_items) else pool
    stages = pool
    if unit == "draw":
        pool = _keep_one_draw(pool, include, seed)
    line = make_signature(
        f"select:{spec if earlier is None else earlier.method}",
        data,
        budget=budget,
        cost=cost,
        balance=balance,
        unit=None if unit == "item" else unit,
        include=_describe_ids(include),
        exclude=_describe_ids(exclude_items),
        crowd=None if crowd is None else ",".join(crowd),
        matching=None if matching else "no",
        within=describe_first_stage(within),
        add_to=describe_first_stage(earlier),
        seed=seed,
    )
    if earlier is not None:
        return add_wave(
            sort_for_drawing(pool), earlier, budget, balance=balance, crowd=crowd, seed=seed, signature=line
        )
    amount = None if budget is None else parse_amount(budget, currency)
    costs = item_costs(pool, cost)
    if amount is not None and amount.timed:
        prices = data_prices(
            Times(seconds_per_item, seconds_per_judgment, cost, hourly=hourly, currency=currency), pool
        )
        amount, costs = convert_to_hours(amount, prices), prices.seconds
    total = resolve_budget(amount, pool.n_items, costs, systems=pool.n_systems)
    fixed = _included_mask(pool, include)
    free = np.flatnonzero(~fixed)
    spent = 0.0 if costs is None else float(costs[fixed].sum())
    remaining = total.subtract(int(fixed.sum()), spent)
    chosen = ChosenRows(np.zeros(0, dtype=np.int64))
    if len(free) and (remaining.n if remaining.amount is None else remaining.amount) > 0:
        whole = "document" if unit == "document" else "item"
        task = build_task(pool, spec, remaining, costs, free=free, balance=balance, unit=whole, crowd=crowd, seed=seed)
        chosen = choose_rows(task, matching=matching)
    if not len(chosen.rows) and not fixed.any():
        report_empty(spec, budget, costs)
    selection = _build_selection(pool, chosen, np.flatnonzero(fixed), free, costs, spec, details, line)
    if unit == "draw":
        selection = replace(_count_draws(selection, prompts), population=stages.n_items)
    selection = replace(selection, origin=record_origin(stages, selection.ids, is_pool=within is None))
    return selection if within is None else multiply_probabilities(selection, within, line)


PROTOCOLS = {"mqm": "penalties", **dict.fromkeys(("da", "esa", "sqm", "likert", "pairwise"), "ratings")}
"""How people judge -> the scale that their scores have."""


def _apply_protocol_scale(spec: Spec, data: EvalSet, protocol: str | None) -> Spec:
    """Return the spec with the protocol's scale, if the method has a scale."""
    if protocol is None:
        return spec
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    if not _takes_scale(spec):
        return spec
    scale, present = PROTOCOLS[protocol], spec.parameters.get("scale")
    if present not in (None, "auto", scale):
        raise OptionError(
            f"`protocol={protocol}` means scale={scale}, and the method says scale={present}; leave out one"
        )
    return (
        spec if infer_scale(data) == scale and data.human else Spec(spec.name, dict(spec.parameters) | {"scale": scale})
    )


def _apply_past_scale(spec: Spec, data: EvalSet, campaigns: Sequence[EvalSet]) -> Spec:
    """Return the spec with the scale of earlier campaigns, unless the scale is known otherwise."""
    if not campaigns or data.human is not None or not _takes_scale(spec):
        return spec
    if spec.parameters.get("scale", "auto") != "auto":
        return spec
    for campaign in campaigns:
        campaign.human_score(None)
    scales = {infer_scale(campaign) for campaign in campaigns}
    if len(scales) > 1:
        listed = ", ".join(f"{campaign.name}: {infer_scale(campaign)}" for campaign in campaigns)
        raise OptionError(f"`past`: the campaigns were judged on different scales ({listed}); name `protocol` instead")
    return Spec(spec.name, dict(spec.parameters) | {"scale": scales.pop()})


def _takes_scale(spec: Spec) -> bool:
    method, _ = find_method(spec.name)
    return "scale" in method.parameters


def _warn_unknown_scale(spec: Spec, data: EvalSet) -> None:
    """Warn if a design uses the scale of the scores and nothing shows it: errors of penalties grow faster."""
    if data.human is not None or not _takes_scale(spec) or spec.parameters.get("scale", "auto") != "auto":
        return
    if spec.parameters.get("size", "error") != "error" or "slopes" in spec.parameters:
        return
    warnings.warn(
        "nothing shows which scale people will use: ratings (DA, ESA, Likert) are assumed. For MQM give `protocol=mqm` "
        "(`scale=penalties`): it saved 11% of the standard error on a campaign with penalties",
        AliquotWarning,
        3,
    )


def _refuse_with_wave(options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value:
            raise OptionError(f"`{name}` with `add_to`: a wave is drawn as the first selection was; leave out `{name}`")


def _read_earlier(add_to: SelectionLike, spec: Spec | None) -> Selection:
    """Return the selection to add to; raise OptionError if another method is named."""
    earlier = as_selection(add_to)
    if spec is not None and str(spec) != earlier.method:
        raise OptionError(f"`add_to`: the selection was drawn by {earlier.method}, not by {spec}; leave out `method`")
    return earlier


def _check_crowd(spec: Spec, crowd: Sequence[str] | None) -> None:
    """Raise for an empty crowd; warn if the method penalises its systems (Zouhar et al. 2025, section 5.3)."""
    if crowd is not None and not len(crowd):
        raise OptionError("`crowd` has no system in it; name systems, or leave it out to look at all")
    if crowd and spec.name in _UNFAIR:
        warnings.warn(
            f"'{spec.name}' chooses items that are hard for {quoted(crowd, 4)}: if they are evaluated too, they are "
            "at a disadvantage; leave them out of the evaluation, or use metric_var",
            AliquotWarning,
            3,
        )


def report_empty(spec: Spec, budget: float | str | None, costs: FloatArray | None) -> None:
    """Raise OptionError for an empty selection; for a design, which may draw no document, only warn."""
    if find_method(spec.name)[0].kind == "design":
        text = f"this draw of '{spec.name}' is empty: the budget {budget} is an expected number; raise it"
        warnings.warn(text, AliquotWarning, 3)
        return
    cheapest = "" if costs is None else f"; the cheapest item costs {costs.min():g}"
    raise OptionError(f"the budget {budget} buys nothing{cheapest}; raise `budget`")


def _describe_ids(ids: Sequence[ItemId]) -> str | None:
    """Return the ids joined by commas, or a digest if they are many; None without ids."""
    text = ",".join(map(str, ids))
    if len(text) > 60:
        return f"{len(ids)} items {hashlib.sha256(text.encode()).hexdigest()[:6]}"
    return text or None


def _included_mask(pool: EvalSet, include: Sequence[ItemId]) -> BoolArray:
    fixed = np.zeros(pool.n_items, dtype=np.bool_)
    row_of = {item: row for row, item in enumerate(pool.ids)}
    for item in include:
        if item not in row_of:
            raise unknown_name("item", item, pool.ids[:50], "check `include` and `exclude_items`")
        fixed[row_of[item]] = True
    return fixed


def build_task(
    pool: EvalSet,
    spec: Spec,
    budget: Budget,
    costs: FloatArray | None = None,
    *,
    free: IntArray | None = None,
    balance: str | None = None,
    unit: str = "item",
    crowd: Sequence[str] | None = None,
    seed: Seed = 0,
) -> Task:
    """Return the task of choosing among the rows `free` (default: all); `costs` are those of the whole pool."""
    evalset = pool if free is None or len(free) == pool.n_items else take_rows(pool, free)
    groups = group_codes(evalset, balance) if balance is not None else None
    method, _ = find_method(spec.name)
    visible = evalset.keep(systems=list(crowd)) if crowd is not None else evalset
    cost = costs if costs is None or free is None else costs[free]
    return Task(evalset, visible, method, spec.parameters, budget, cost, groups, unit, np.random.default_rng(seed))


def _build_selection(
    pool: EvalSet,
    chosen: ChosenRows,
    fixed: IntArray,
    free: IntArray,
    costs: FloatArray | None,
    spec: Spec,
    details: dict[str, Any],
    line: str,
) -> Selection:
    rows = np.concatenate([fixed, free[chosen.rows]]).astype(np.int64)
    k = len(fixed)

    def pad(values: FloatArray | None, fill: float) -> FloatArray | None:
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
        utility=pad(chosen.utility, np.nan),
        probability=pad(chosen.probability, 1.0),
        weight=pad(chosen.weight, 1.0),
        cost=None if costs is None else costs[rows],
        stratum=stratum,
        systems=systems,
        design=chosen.design,
        details=details | dict(chosen.details) | ({"included": k} if k else {}),
        signature=line,
    )


# -- Two stages: sources are chosen, outputs are made for those, and among them the items to judge are chosen --------


def keep_first_stage(data: EvalSet, first: Selection) -> EvalSet:
    """Return the items of the first selection; raise DataError if some are missing."""
    ids = set(data.ids)
    missing = [item for item in first.ids if item not in ids]
    if missing:
        raise DataError(
            f"{data.name}: {len(missing)} items of the first selection are not in the data, e.g. {missing[0]!r}; "
            "give the data with the outputs of all items it chose"
        )
    for note in first.check(data):
        warnings.warn(note, AliquotWarning, 3)
    if first.systems is not None:
        raise OptionError(
            "the first selection draws for each system apart (non-matching); a second cannot be within it"
        )
    return data.keep(items=list(first.ids))


def _keep_one_draw(data: EvalSet, include: Sequence[ItemId], seed: int) -> EvalSet:
    """Return the set with one random draw of each prompt, or with its included ones."""
    if not has_draws(data):
        raise build_draws_error(data, "unit=draw")
    order = np.random.default_rng([seed, _DRAW_STREAM]).permutation(data.n_items)
    codes, is_included = prompt_codes(data), _included_mask(data, include)
    first = order[np.unique(codes[order], return_index=True)[1]]
    free = first[~np.isin(codes[first], codes[is_included])]
    return take_rows(data, np.union1d(free, np.flatnonzero(is_included)))


def _count_draws(selection: Selection, data: EvalSet) -> Selection:
    """Return a selection of one draw a prompt as one of all draws, each with its share of the probability."""
    if selection.probability is None:
        return selection
    codes = prompt_codes(data)
    prompt_of = dict(zip(data.ids, codes.tolist(), strict=True))
    chosen = np.array([prompt_of[item] for item in selection.ids], dtype=np.int64)
    sizes = np.bincount(codes)
    share = (np.bincount(chosen, minlength=len(sizes)) / sizes)[chosen]
    design = replace(selection.design, variance="clustered", remainder=1.0)
    return replace(selection, probability=selection.probability * share, weight=None, design=design)


def multiply_probabilities(second: Selection, first: Selection, signature: str) -> Selection:
    """Return the second selection with both stages' probabilities multiplied and the first stage's population.

    >>> first = Selection(ids=(1, 2, 3), population=10, method="segments", probability=np.full(3, 0.3))
    >>> second = Selection(ids=(3, 1), population=3, method="segments", probability=np.full(2, 2 / 3))
    >>> both = multiply_probabilities(second, first, "")
    >>> both.population, both.probability.round(3).tolist()
    (10, [0.2, 0.2])
    """
    probability: FloatArray | None = None
    weight = second.weight
    if second.probability is not None and first.probability is not None:
        before = dict(zip(first.ids, first.probability.tolist(), strict=True))
        probability = second.probability * np.array([before[item] for item in second.ids])
        weight = None  # follows from the probabilities
    elif second.probability is not None:
        warnings.warn(
            f"the first selection ({first.method}) has no probabilities: estimates are about the items it chose, not "
            "about the full pool; choose it by a design to keep them unbiased",
            AliquotWarning,
            3,
        )
        return replace(second, design=_two_stage_design(second, first), signature=signature)
    return replace(
        second,
        population=first.population,
        probability=probability,
        weight=weight,
        signature=signature,
        design=_two_stage_design(second, first),
    )


def _two_stage_design(second: Selection, first: Selection) -> Design:
    """Return the joint design of both stages; a spread within the second gives no variance formula for both.

    Whole documents in either stage make the items of a document dependent in the judged sample.
    """
    design = replace(second.design, within=first.method, first_stage=len(first))
    if second.probability is None or first.probability is None:
        return design
    is_clustered = "clustered" in (first.design.variance, second.design.variance)
    coverage = first.design.coverage * second.design.coverage
    return replace(design, variance="clustered" if is_clustered else "unordered", coverage=coverage)


def describe_first_stage(first: Selection | None) -> str | None:
    """Return a first stage's method and a digest of its items, for signatures."""
    if first is None:
        return None
    digest = hashlib.sha256(str(first.to_dict()["items"]).encode()).hexdigest()[:6]
    return f"{first.method}#{digest}"
