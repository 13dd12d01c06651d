"""`aliquot plan`: how many judgments do I need, what will my budget buy?"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from aliquot.cli import common, options, render
from aliquot.cli.render import counting
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, OptionError
from aliquot.planning.adaptive import AdaptivePlan
from aliquot.planning.forecast import Point
from aliquot.planning.plan import plan
from aliquot.planning.power import PowerPlan, PowerTable
from aliquot.planning.repeats import RepeatAdvice
from aliquot.planning.result import CampaignPlan
from aliquot.simulation.setup import DEFAULT

# -- `aliquot plan`: how many judgments do I need, what will my budget buy? ------------------------------------------


_NUMBERS = "Without data"
_DATA = "With data"
_RUNNING = "Running"


def run(
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="A pilot (some items judged) or a past campaign; none to use numbers."),
    ] = None,
    difference: Annotated[
        str | None,
        typer.Option("--difference", metavar="D", help="Smallest difference of two systems that matters."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="AMOUNT", help="Items (300), 30%, 2000judgments, 20h, 500EUR; +100: more than judged."
        ),
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="Significance: two-sided; with data, as estimate.")] = 0.05,
    power: Annotated[float, typer.Option("--power", help="Wanted probability of a significant difference.")] = 0.95,
    sd: Annotated[
        str | None,
        typer.Option("--sd", metavar="SD", help="Standard deviation of judgments.", rich_help_panel=_NUMBERS),
    ] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="The same items for all systems.", rich_help_panel=_NUMBERS)
    ] = False,
    sd_difference: Annotated[
        float | None,
        typer.Option("--sd-difference", help="Of two systems on the same item.", rich_help_panel=_NUMBERS),
    ] = None,
    system_correlation: Annotated[
        float | None,
        typer.Option("--system-correlation", help="Of two systems over items.", rich_help_panel=_NUMBERS),
    ] = None,
    rho: Annotated[
        float | None,
        typer.Option("--rho", help="Correlation of a metric with people within a system.", rich_help_panel=_NUMBERS),
    ] = None,
    items: Annotated[
        int | None, typer.Option("--items", help="Size of the test set; with data, of another one like it.")
    ] = None,
    systems: Annotated[
        str | None, typer.Option("--systems", metavar="M|A,B", help="How many systems; with data, which of them.")
    ] = None,
    judgments_per_output: Annotated[
        int | None,
        typer.Option("--judgments-per-output", help="Annotators who judge an output.", rich_help_panel=_NUMBERS),
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="The power table of Wei and Jia 2021.", rich_help_panel=_NUMBERS)
    ] = False,
    rater_variance: Annotated[
        float | None, typer.Option("--rater-variance", help="Of one judgment about what all judges would say.")
    ] = None,
    budgets: Annotated[
        str,
        typer.Option("--budgets", metavar="FROM:TO:N", help="Or a list: 5%,10% or 20,50 items.", rich_help_panel=_DATA),
    ] = DEFAULT,
    goal: Annotated[
        str | None,
        typer.Option(
            "--goal",
            metavar="WHAT=VALUE",
            rich_help_panel=_DATA,
            help="accuracy=0.95 (pairs in the right order), best=, ranking=, apart=, width= or difference=.",
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="SPEC", help="Compared with random.", rich_help_panel=_DATA)
    ] = "auto",
    selection: Annotated[
        Path | None,
        typer.Option("--selection", "-s", metavar="FILE", help="How the pilot was drawn.", rich_help_panel=_DATA),
    ] = None,
    judgments: Annotated[
        list[Path] | None, options.judgments_option(help="Judgments of it; may be repeated.", rich_help_panel=_DATA)
    ] = None,
    past: Annotated[
        bool,
        typer.Option("--past", help="Replay the judged items as a finished campaign.", rich_help_panel=_DATA),
    ] = False,
    beyond: Annotated[
        bool, typer.Option("--beyond", help="Conclude beyond this test set.", rich_help_panel=_DATA)
    ] = False,
    target: Annotated[
        str,
        typer.Option("--target", help="About this testset, or these given judgments.", rich_help_panel=_DATA),
    ] = "testset",
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Cells until an adaptive campaign decides.", rich_help_panel=_DATA)
    ] = False,
    question: Annotated[
        str, typer.Option("--question", help="Adaptive: best, top or ranking.", rich_help_panel=_DATA)
    ] = "best",
    policy: Annotated[
        str, typer.Option("--policy", metavar="SPEC", help="Adaptive: who is judged next.", rich_help_panel=_DATA)
    ] = "auto",
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Show (or write with -o) all pairs.", rich_help_panel=_DATA)
    ] = False,
    seconds_per_item: options.SecondsPerItemOption = None,
    seconds_per_judgment: options.SecondsPerJudgmentOption = None,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            metavar="COLUMN",
            help="Seconds of an item, esa_time, or fitted (to recorded times).",
            rich_help_panel=options.COSTS,
        ),
    ] = None,
    seconds_per_new_item: Annotated[
        float, typer.Option("--seconds-per-new-item", help="Once, however often judged.", rich_help_panel=options.COSTS)
    ] = 0.0,
    hourly: options.HourlyOption = None,
    currency: options.CurrencyOption = "EUR",
    human: options.HumanOption = None,
    criterion: options.CriterionOption = None,
    exclude: options.ExcludeOption = None,
    replays: Annotated[
        int, typer.Option("--replays", help="Of each budget of a past campaign.", rich_help_panel=_RUNNING)
    ] = 100,
    draws: Annotated[
        int, typer.Option("--draws", help="Of truths and estimates, from a pilot.", rich_help_panel=_RUNNING)
    ] = 2000,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; all cores when not given.", rich_help_panel=_RUNNING)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curves: .svg, .png or .pdf.")
    ] = None,
    format: options.FormatOption = None,  # noqa: A002
    lower_is_better: options.LowerOption = None,
    columns: options.ColumnsOption = None,
    key: options.KeyOption = None,
    wide: options.WideOption = None,
    score_name: options.ScoreNameOption = None,
    pair: options.PairOption = None,
    mqm_weights: options.WeightsOption = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
    all_rows: options.AllRowsOption = False,  # noqa: ARG001
    output: options.OutputOption = None,
) -> None:
    """How many judgments do I need? What will my budget buy?

    From numbers alone: judgments for a difference, or what a budget shows. From a pilot or a past campaign: widths of
    intervals, probabilities of the right ranking and of significant differences at every budget, in items, hours and
    money, for a random sample and for the recommended method, and what to do.

    Example: aliquot plan --difference 1 --sd 25

    Example: aliquot plan --budget 500EUR --sd 25 --seconds-per-judgment 40 --hourly 20

    Example: aliquot plan data.jsonl --goal best=0.9 --seconds-per-item 240 --hourly 20 --plot plan.svg

    Example: aliquot plan data.jsonl --adaptive --question best
    """
    common.require_writable(output)
    common.require_writable(plot)
    if plot is not None:
        _check_plot(plot, data)
    evalset, judged = common.load_with_judgments(
        data,
        judgments,
        human=human,
        systems=systems,
        exclude=exclude,
        format=format,
        columns=columns,
        key=key,
        wide=wide,
        lower_is_better=lower_is_better,
        score_name=score_name,
        pair=pair,
        mqm_weights=mqm_weights,
    )
    with counting("replaying") as told, warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)  # what matters stands among the notes
        result = plan(
            evalset,
            difference=_numbers("difference", difference),
            sd=_numbers("sd", sd),
            alpha=alpha,
            power=power,
            paired=paired,
            sd_difference=sd_difference,
            system_correlation=system_correlation,
            rho=rho,
            items=items,
            systems=_count(systems) if data is None else None,
            judgments_per_output=judgments_per_output,
            table=table,
            budget=budget,
            budgets=budgets,
            goal=goal,
            method=method,
            human=human,
            criterion=criterion,
            selection=Selection.load(selection) if selection is not None else None,
            judgments=judged,
            past=past,
            beyond=beyond,
            target=target,
            adaptive=adaptive,
            question=question,
            policy=policy,
            rater_variance=rater_variance,
            seconds_per_item=seconds_per_item,
            seconds_per_judgment=seconds_per_judgment,
            cost=cost,
            seconds_per_new_item=seconds_per_new_item,
            hourly=hourly,
            currency=currency,
            replays=replays,
            draws=draws,
            seed=seed,
            jobs=jobs,
            progress=told,
        )
    _give(result, output, plot, json=json, pairs=pairs)


def _give(
    result: PowerPlan | PowerTable | CampaignPlan | AdaptivePlan,
    output: Path | None,
    plot: Path | None,
    *,
    json: bool,
    pairs: bool,
) -> None:
    """Write, draw and print."""
    if output is not None:
        frame = result.pairs_frame() if pairs and isinstance(result, CampaignPlan) else result.to_frame()
        common.write_result(frame, result.to_dict(), output)
    if plot is not None and isinstance(result, CampaignPlan):
        from aliquot.report.figures import draw_plan  # noqa: PLC0415  (matplotlib is an extra, and slow to import)

        draw_plan(result, plot)
    if json:
        common.print_json(result.to_dict())
        return
    console = render.console()
    if isinstance(result, AdaptivePlan):
        show_adaptive(result, console)
    elif isinstance(result, CampaignPlan):
        show_campaign(result, console, pairs=pairs)
    elif isinstance(result, PowerTable):
        show_table(result, console)
    else:
        show_power(result, console)
    for path in (output, plot):
        if path is not None:
            console.print(f"wrote {path}", markup=False)


def _check_plot(plot: Path, data: str | None) -> None:
    from aliquot.report.figures import require_figures  # noqa: PLC0415

    if data is None:
        raise OptionError("--plot draws the curves of a plan from data; name a file of data, or leave it out")
    require_figures(plot)


def _numbers(name: str, text: str | None) -> list[float] | float | None:
    if text is None:
        return None
    try:
        found = [float(part) for part in common.names(text)]
    except ValueError:
        raise OptionError(f"--{name} '{text}': write a number, or several: 1,2,3") from None
    return found[0] if len(found) == 1 else found


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.strip().isdigit():
        raise OptionError(f"--systems '{text}': without data, give how many systems are compared, for instance 12")
    return int(text)


# -- Plans in a terminal: a table of budgets for each method, pairs, repeats, and the recommendation first -----------


_LEGEND = (
    "width: of a system's interval; of diff.: of the interval of two systems' difference; detects: the difference that "
    "is found with the power asked for; right: pairs in the right order; best, ranking: probability that the best "
    "system comes first, that the whole order is right; apart: pairs expected to be told apart, the right way."
)


def show_campaign(result: CampaignPlan, console: Console, *, pairs: bool = False) -> None:
    """Print the recommendation, the curves, and what else is known."""
    for sentence in result.recommendation.text:
        console.print(sentence, style="bold", markup=False)
    if result.repeats is not None:
        console.print(result.repeats.text, style="bold", markup=False)
    console.print()
    console.print(_heading(result), markup=False)
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


def show_adaptive(result: AdaptivePlan, console: Console) -> None:
    """Print what an adaptive campaign will take, and what uniform allocation takes."""
    for sentence in result.text:
        console.print(sentence, style="bold", markup=False)
    console.print()
    title = f"cells until '{result.question}' is decided, {result.runs} runs of each, by {result.basis}"
    table = render.columns(
        render.table(title), left=["policy"], right=["decided", "median", "9 of 10", "hours", "money"]
    )
    for row in result.policies:
        table.add_row(
            row.policy,
            render.percent(row.decided),
            f"{row.cells:.0f}",
            f"{row.cells_90:.0f}",
            render.number(row.hours),
            render.number(row.money),
        )
    console.print(table)
    console.print()
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
        str(point.items),
        share,
        f"{point.judgments:.0f}",
        *costs,
        render.number(point.width),
        render.number(point.width_difference),
        render.number(point.detects),
        render.percent(round(point.accuracy, 6)),
        render.percent(point.best),
        render.percent(point.ranking),
        f"{point.apart:.0f} of {pairs}",
    ]


def _pairs(result: CampaignPlan) -> Table:
    first, second = result.methods
    items = result.recommendation.point.items
    table = render.table(f"probability of a significant difference with {items} items, and items needed for the power")
    heads = ["difference", first, second, f"{first} needs", f"{second} needs"]
    render.columns(table, left=["better", "worse"], right=heads)
    table.priority = [-pair.difference for pair in result.pairs]
    for pair in result.pairs:
        found = [render.percent(pair.recommended[method]) for method in (first, second)]
        needs = [_items(pair.needs[method]) for method in (first, second)]
        table.add_row(pair.a, pair.b, render.number(pair.difference), *found, *needs)
    return table


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
    ]
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
    console.print(
        f"judgments of all {result.systems} systems together for {result.power:.0%} power at alpha "
        f"{result.alpha:g},\nby standard deviation {what} (rows) and difference (columns)\n"
    )
    table = render.columns(render.table(), right=["sd", *(f"{value:g}" for value in result.differences)])
    for sd, row in zip(result.sds, result.judgments, strict=True):
        table.add_row(f"{sd:g}", *(str(count) for count in row))
    console.print(table)
    console.print()
    console.print("rounded to the nearest, as Wei and Jia (2021) print them; to be sure, round up for each system")
    render.signature(result.signature, console)
