"""Plans in a terminal: a table of budgets for each method, pairs, repeats, and the recommendation first."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from aliquot.cli import render
from aliquot.plan.outlook import Point
from aliquot.plan.power_result import PowerPlan, PowerTable
from aliquot.plan.repeats import RepeatAdvice
from aliquot.plan.result import CampaignPlan, PairPlan

_MOST_PAIRS = 100
_LEGEND = (
    "width: of a system's interval; of diff.: of the interval of two systems' difference; detects: the difference that "
    "is found with the power asked for; right: pairs in the right order; best, ranking: chance that the best system "
    "comes first, that the whole order is right; apart: pairs expected to be told apart, the right way."
)


def show_campaign(result: CampaignPlan, console: Console, *, pairs: bool = False) -> None:
    """Print the recommendation, the curves, and what else is known."""
    console.print(_heading(result), markup=False)
    console.print()
    for sentence in result.recommendation.text:
        console.print(sentence, style="bold", markup=False)
    if result.repeats is not None:
        console.print(result.repeats.text, style="bold", markup=False)
    for method in result.methods:
        console.print()
        console.print(_curve(result, method))
    if pairs:
        console.print()
        console.print(_pairs(result))
    if result.repeats is not None:
        console.print()
        console.print(_repeats(result.repeats))
    console.print()
    console.print(_LEGEND, style="dim")
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    render.signature(result.signature, console)


def _heading(result: CampaignPlan) -> str:
    m = len(result.systems)
    whole = "any test set like these data" if math.isinf(result.population) else f"{result.population:.0f} items"
    if result.basis == "replay":
        how = f"replayed on {result.judged} judged items"
    else:
        how = f"foreseen from {result.judged} judged items"
    each = result.judgments_per_output
    people = "" if each == 1 else f", {each:.3g} judgments an output"
    time = f"; {result.seconds}" if result.seconds else ""
    return f"{whole}, {m} systems, {m * (m - 1) // 2} pairs{people}; {how}{time}"


def _curve(result: CampaignPlan, method: str) -> Table:
    points = result.curve(method)
    timed = any(math.isfinite(point.hours) for point in points)
    paid = any(math.isfinite(point.money) for point in points)
    name = f"{method}: {result.stands_for[method]}"
    heads = ["items", "share", "judgments", *(["hours"] if timed else []), *([result.currency] if paid else [])]
    heads += ["width", "of diff.", "detects", "right", "best", "ranking", "apart"]
    table = render.columns(render.table(name), right=heads)
    for point in points:
        table.add_row(*_cells(point, len(result.pairs), timed=timed, paid=paid))
    return table


def _cells(point: Point, pairs: int, *, timed: bool, paid: bool) -> list[str]:
    costs = [render.number(point.hours)] if timed else []
    costs += [f"{point.money:.0f}"] if paid else []
    share = "-" if math.isnan(point.share) else render.percent(point.share)
    return [
        str(point.items), share, f"{point.judgments:.0f}", *costs, render.number(point.width),
        render.number(point.width_difference), render.number(point.detects), render.percent(round(point.accuracy, 6)),
        render.percent(point.best), render.percent(point.ranking), f"{point.apart:.0f} of {pairs}",
    ]  # fmt: skip


def _pairs(result: CampaignPlan) -> Table:
    first, second = result.methods
    items = result.recommendation.point.items
    table = render.columns(
        render.table(f"chance of a significant difference with {items} items, and items that the power asked for needs",
                     caption=_left_out(result.pairs)),
        left=["better", "worse"],
        right=["difference", first, second, f"{first} needs", f"{second} needs"],
    )  # fmt: skip
    for pair in result.pairs[:_MOST_PAIRS]:
        chances = [render.percent(pair.recommended[method]) for method in (first, second)]
        needs = [_items(pair.needs[method]) for method in (first, second)]
        table.add_row(pair.a, pair.b, render.number(pair.difference), *chances, *needs)
    return table


def _left_out(pairs: tuple[PairPlan, ...]) -> str | None:
    return f"and {len(pairs) - _MOST_PAIRS} more; -o FILE --pairs writes all" if len(pairs) > _MOST_PAIRS else None


def _items(needed: float) -> str:
    return "-" if math.isinf(needed) else f"{needed:.0f}"


def _repeats(advice: RepeatAdvice) -> Table:
    table = render.columns(
        render.table("judgments of the same output, at the same cost"),
        right=["judgments an output", "items", "error of a difference", ""],
    )
    for row in advice.rows:
        table.add_row(str(row.judgments_per_output), f"{row.items:.0f}", render.number(row.se), "best" * row.best)
    return table


# -- without data --------------------------------------------------------------------------------------------------


def show_power(result: PowerPlan, console: Console) -> None:
    """Print the answer and the numbers behind it."""
    console.print(result.text, style="bold", markup=False)
    if result.repeats is not None:
        console.print(result.repeats.text, style="bold", markup=False)
    console.print()
    table = render.columns(render.table(), left=["", ""])
    table.show_header = False
    spread = "standard deviation of a difference on an item" if result.paired else "standard deviation of a judgment"
    rows = [
        ("design", "the same items for all systems" if result.paired else "items of its own for every system"),
        (spread, f"{result.spread:g}"),
        ("correlation of the metric with people", f"{result.rho:g}" if result.rho else "no metric used"),
        ("test set", "without end" if math.isinf(result.items) else f"{result.items:.0f} items"),
        ("systems", str(result.systems)),
        ("judgments an output", str(result.judgments_per_output)),
        ("judged items", f"{result.judged_items}{'' if result.paired else ', each for one system'}"),
        ("judgments per system, in total", f"{result.per_system}, {result.judgments}"),
        ("difference, power, alpha", f"{render.number(result.difference)}, {result.power:.3f}, {result.alpha:g}"),
    ]  # fmt: skip
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)
    if result.repeats is not None:
        console.print()
        console.print(_repeats(result.repeats))
    console.print()
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    render.signature(result.signature, console)


def show_table(result: PowerTable, console: Console) -> None:
    """Print judgments by spread and difference."""
    what = "of the difference on an item" if result.paired else "of a judgment"
    console.print(f"judgments of all {result.systems} systems together for {result.power:.0%} power at alpha "
                  f"{result.alpha:g},\nby standard deviation {what} (rows) and difference (columns)\n")  # fmt: skip
    table = render.columns(render.table(), right=["sd", *(f"{value:g}" for value in result.differences)])
    for sd, row in zip(result.sds, result.judgments, strict=True):
        table.add_row(f"{sd:g}", *(str(count) for count in row))
    console.print(table)
    console.print()
    console.print("rounded to the nearest, as Wei and Jia (2021) print them; to be sure, round up for each system")
    render.signature(result.signature, console)
