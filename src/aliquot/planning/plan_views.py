"""What plans show: the advice, a table of budgets for each method, pairs, repeats; and the numbers of power plans."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aliquot.core.view import Column, View
from aliquot.core.written import format_number
from aliquot.planning.repeats import WORDS

if TYPE_CHECKING:
    from aliquot.planning.adaptive import AdaptivePlan
    from aliquot.planning.power import PowerPlan, PowerTable
    from aliquot.planning.repeats import RepeatAdvice
    from aliquot.planning.result import CampaignPlan, PairPlan

_LEGEND = (
    "width: of a system's interval; of diff.: of the interval of two systems' difference; detects: the difference that "
    "is found with the power asked for; right: pairs in the right order; best, ranking: probability that the best "
    "system comes first, that the whole order is right; apart: pairs expected to be told apart, the right way."
)


def campaign_views(plan: CampaignPlan) -> tuple[View, ...]:
    """Return the views of a plan from data: `advice`, one named after each method, `repeats` and, as a detail, `pairs`.

    The verdict has the first two sentences of the advice.
    """
    repeats = () if plan.repeats is None else (plan.repeats.text,)
    advice = View("advice", intro=(*plan.recommendation.text[2:], *repeats, _describe_basis(plan)))
    *first, last = plan.methods
    curves = (*(_curve_view(plan, method) for method in first), _curve_view(plan, last, _LEGEND))
    return (advice, *curves, _pairs_view(plan), *repeat_views(plan.repeats))


def _describe_basis(plan: CampaignPlan) -> str:
    m, pairs = len(plan.systems), len(plan.pairs)
    test_set = "any test set like these data" if math.isinf(plan.population) else f"{plan.population:.0f} items"
    basis = "replayed on" if plan.basis == "replay" else "predicted from"
    people = "" if plan.judgments_per_output == 1 else f", {plan.judgments_per_output:.3g} judgments an output"
    time = f"; {plan.seconds}" if plan.seconds else ""
    return (
        f"{test_set}, {m} systems, {pairs} pair{'s' * (pairs != 1)}{people}; {basis} {plan.judged} judged items{time}"
    )


def _curve_view(plan: CampaignPlan, method: str, caption: str = "") -> View:
    points = plan.curve(method)
    hours = [Column("hours", rank=4)] if any(math.isfinite(point.hours) for point in points) else []
    money = [Column(plan.currency, "money", places=0, rank=3)] if any(math.isfinite(p.money) for p in points) else []
    columns = (
        Column("items", kind="count"),
        Column("share", kind="share", rank=8),
        Column("judgments", places=0, rank=6),
        *hours,
        *money,
        Column("width", rank=7),
        Column("of diff.", "width_difference", rank=1),
        Column("detects", rank=9),
        Column("right", lambda point: round(point.accuracy, 6), "share"),
        Column("best", kind="share", rank=2),
        Column("ranking", kind="share", rank=10),
        Column("apart", lambda point: f"{point.apart:.0f} of {len(plan.pairs)}", rank=5),
    )
    return View(method, points, columns, f"{method}: {plan.stands_for[method]}", caption=caption)


def _pairs_view(plan: CampaignPlan) -> View:
    columns = [Column("better", "a", "name"), Column("worse", "b", "name"), Column("difference", rank=2)]
    for method in plan.methods:

        def chance(pair: PairPlan, method: str = method) -> float:
            return pair.recommended[method]

        def needs(pair: PairPlan, method: str = method) -> float:
            return pair.needs[method] if math.isfinite(pair.needs[method]) else math.nan

        columns += [Column(method, chance, "share"), Column("needs", needs, places=0, rank=1)]
    title = (
        f"probability of a significant difference with {plan.recommendation.point.items} items; needs: items for the "
        "power asked for"
    )
    return View("pairs", plan.pairs, columns, title, importance=lambda pair: -pair.difference, detail=True)


def repeat_views(advice: RepeatAdvice | None) -> tuple[View, ...]:
    """Return the view of how many judgments of an output are worth paying for, where that is known."""
    if advice is None:
        return ()
    words = WORDS[advice.unit]
    columns = (
        Column(f"{words.unit}s a{'n' * (words.whole[0] in 'aeiou')} {words.whole}", "judgments_per_output", "count"),
        Column(f"{words.item}s", "items", places=0),
        Column("error of a difference", "se"),
        Column("", lambda row: "best" * row.best, "text"),
    )
    return (View("repeats", advice.rows, columns, f"{words.unit}s of the same {words.whole}, at the same cost"),)


def power_views(plan: PowerPlan) -> tuple[View, ...]:
    """Return the views of a plan from numbers: `numbers` and, where annotator noise is known, `repeats`."""
    spread = "standard deviation of a difference on an item" if plan.paired else "standard deviation of a judgment"
    rows = (
        ("design", "the same items for all systems" if plan.paired else "items of its own for every system"),
        (spread, f"{plan.spread:g}"),
        ("correlation of the metric with people", f"{plan.rho:g}" if plan.rho else "no metric used"),
        ("test set", "unlimited" if math.isinf(plan.items) else f"{plan.items:.0f} items"),
        ("systems", str(plan.systems)),
        ("judgments an output", str(plan.judgments_per_output)),
        ("judged items", f"{plan.judged_items}{'' if plan.paired else ', each for one system'}"),
        ("judgments per system, in total", f"{plan.per_system}, {plan.judgments}"),
        ("difference, power, alpha", f"{format_number(plan.difference)}, {plan.power:.3f}, {plan.alpha:g}"),
    )
    columns = (Column("", lambda row: row[0], "text"), Column("", lambda row: row[1], "text"))
    intro = () if plan.repeats is None else (plan.repeats.text,)
    return (View("numbers", rows, columns, intro=intro), *repeat_views(plan.repeats))


def table_views(table: PowerTable) -> tuple[View, ...]:
    """Return the view of a power table: standard deviations in rows, differences in columns."""
    spread = "of the difference on an item" if table.paired else "of a judgment"
    intro = (
        f"judgments of all {table.systems} systems together for {table.power:.0%} power at alpha {table.alpha:g}, by "
        f"standard deviation {spread} (rows) and difference (columns)"
    )
    counts = [Column(f"{difference:g}", kind="count") for difference in table.differences]
    caption = "rounded to the nearest, as Wei and Jia (2021) print them; to be sure, round up for each system"
    rows = [
        {"sd": f"{sd:g}"} | {column.header: count for column, count in zip(counts, row, strict=True)}
        for sd, row in zip(table.sds, table.judgments, strict=True)
    ]
    return (View("judgments", rows, [Column("sd", kind="name"), *counts], intro=(intro,), caption=caption),)


def adaptive_views(plan: AdaptivePlan) -> tuple[View, ...]:
    """Return the view of what each policy takes until the question is decided."""
    columns = (
        Column("policy", kind="name"),
        Column("decided", kind="share"),
        Column("median", "cells", places=0),
        Column("9 of 10", "cells_90", places=0, rank=1),
        Column("hours", rank=2),
        Column("money", rank=3),
    )
    title = f"cells until '{plan.question}' is decided, {plan.runs} runs of each, by {plan.basis}"
    return (View("policies", plan.policies, columns, title, intro=plan.text[2:]),)
