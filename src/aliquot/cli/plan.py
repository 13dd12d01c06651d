"""`aliquot plan`: how many judgments do I need, what will my budget buy?"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common, options, render
from aliquot.cli.render import counting
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, OptionError
from aliquot.planning.adaptive import AdaptivePlan
from aliquot.planning.plan import plan
from aliquot.planning.power import PowerPlan, PowerTable
from aliquot.planning.result import CampaignPlan
from aliquot.simulation.setup import DEFAULT_BUDGETS

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
    ] = DEFAULT_BUDGETS,
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
    render.print_result(result, console, ["pairs"] if pairs else ())
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
