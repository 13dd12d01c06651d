"""`aliquot plan`: how many judgments do I need, what will my budget buy? From data, from numbers, or adaptive."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.cli import common, options, render
from aliquot.cli.commands import old_option
from aliquot.cli.render import count_progress
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, OptionError
from aliquot.planning.adaptive import AdaptivePlan, AdaptiveQuestion, plan_adaptive
from aliquot.planning.plan import plan
from aliquot.planning.plan_inputs import PlanTarget
from aliquot.planning.power import PowerPlan, PowerTable, plan_power
from aliquot.planning.result import CampaignPlan
from aliquot.simulation.setup import DEFAULT_BUDGETS

app = typer.Typer()
_GOAL = "What is planned"
_JUDGING = "How people judge"
_RUNNING = "Running"

Plan = CampaignPlan | PowerPlan | PowerTable | AdaptivePlan
PlanArgument = Annotated[
    str | None,
    typer.Argument(metavar="DATA", help="A pilot (some items judged) or a past campaign; none: see `plan power`."),
]
DifferenceOption = Annotated[
    str | None, typer.Option("--difference", metavar="D", help="Smallest difference of two systems that matters.")
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="AMOUNT", help="Items (300), 30%, 2000judgments, 20h, 500EUR; +100: more than judged."
    ),
]
SelectionOption = Annotated[
    Path | None, typer.Option("--selection", "-s", metavar="FILE", help="How the pilot was drawn.")
]
JudgmentsOption = Annotated[
    list[Path] | None, options.judgments_option(help="Judgments of the pilot; may be repeated.")
]
PastOption = Annotated[
    bool, typer.Option("--past", help="Replay the judged items as a finished campaign.", rich_help_panel=_GOAL)
]
TargetOption = Annotated[
    PlanTarget,
    typer.Option(
        "--target",
        help="testset (other annotators, too) or given (these judgments).",
        rich_help_panel=_GOAL,
    ),
]
ReplaysOption = Annotated[
    int, typer.Option("--replays", help="Replays of each budget of a past campaign.", rich_help_panel=_RUNNING)
]
DrawsOption = Annotated[
    int, typer.Option("--draws", help="Draws of truths and estimates, from a pilot.", rich_help_panel=_RUNNING)
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Processes; all cores when not given.", rich_help_panel=_RUNNING)
]
RaterVarianceOption = Annotated[
    float | None,
    typer.Option(
        "--rater-variance",
        help="Variance of one rating around the raters' mean; by default from repeated judgments.",
        rich_help_panel=_JUDGING,
    ),
]
_ALPHA = "Significance level of two-sided tests."
_POWER = "Target probability of a significant difference."


def _old_option(flag: str, command: str, **settings: Any) -> Any:
    return old_option(flag, new=f"`aliquot plan {command} {flag}`", **settings)


@dataclass(frozen=True)
class OldOptions:
    """Options of `plan` that are now those of `plan power` and `plan adaptive`."""

    sd: Annotated[str | None, _old_option("--sd", "power")] = None
    paired: Annotated[bool, _old_option("--paired", "power")] = False
    sd_difference: Annotated[float | None, _old_option("--sd-difference", "power")] = None
    system_correlation: Annotated[float | None, _old_option("--system-correlation", "power")] = None
    rho: Annotated[float | None, _old_option("--rho", "power")] = None
    judgments_per_output: Annotated[int | None, _old_option("--judgments-per-output", "power")] = None
    table: Annotated[bool, _old_option("--table", "power")] = False
    adaptive: Annotated[bool, old_option("--adaptive", new="`aliquot plan adaptive`")] = False
    question: Annotated[AdaptiveQuestion, typer.Option("--question", hidden=True)] = "best"
    policy: Annotated[str, typer.Option("--policy", hidden=True)] = "auto"


@app.command()
def run(
    output: options.ResultOutput,
    reading: options.Reading,
    costs: options.Costs,
    old: OldOptions,
    data: PlanArgument = None,
    budget: BudgetOption = None,
    goal: Annotated[
        str | None,
        typer.Option(
            "--goal",
            metavar="WHAT=VALUE",
            help="accuracy=0.95 (pairs in the right order), best=, ranking=, apart=, width= or difference=.",
        ),
    ] = None,
    difference: DifferenceOption = None,
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="SPEC", help="Method, compared with random.")
    ] = "auto",
    selection: SelectionOption = None,
    judgments: JudgmentsOption = None,
    criterion: options.CriterionOption = None,
    plot: Annotated[
        Path | None, options.rare_option("--plot", metavar="FILE", help="Draw the curves: .svg, .png or .pdf.")
    ] = None,
    seed: options.SeedOption = 0,
    alpha: Annotated[float, typer.Option("--alpha", help=_ALPHA, rich_help_panel=_GOAL)] = 0.05,
    power: Annotated[float, typer.Option("--power", help=_POWER, rich_help_panel=_GOAL)] = 0.95,
    items: Annotated[
        int | None,
        typer.Option("--items", help="Size of another test set like it to plan for.", rich_help_panel=_GOAL),
    ] = None,
    budgets: Annotated[
        str,
        typer.Option("--budgets", metavar="FROM:TO:N", help="Or a list: 5%,10% or 20,50 items.", rich_help_panel=_GOAL),
    ] = DEFAULT_BUDGETS,
    past: PastOption = False,
    beyond: Annotated[
        bool, typer.Option("--beyond", help="Conclude beyond this test set.", rich_help_panel=_GOAL)
    ] = False,
    target: TargetOption = "testset",
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Show (or write with -o) all pairs.", rich_help_panel=_GOAL)
    ] = False,
    rater_variance: RaterVarianceOption = None,
    replays: ReplaysOption = 100,
    draws: DrawsOption = 2000,
    jobs: JobsOption = None,
) -> None:
    """How many judgments do I need? What will my budget buy?

    From a pilot or a past campaign: widths of intervals, probabilities of the right ranking and of significant
    differences at every budget, in items, hours and money, for a random sample and for the recommended method, and what
    to do. `aliquot plan power` plans from numbers alone, `aliquot plan adaptive` plans an adaptive campaign.

    Example: aliquot plan data.jsonl --goal best=0.9 --cost seconds-per-item=240,hourly=20 --plot plan.svg

    Example: aliquot plan power --difference 1 --sd 25
    """
    common.require_output(output)
    if plot is not None:
        _require_plot(plot, data)
    evalset, judged = common.load_with_judgments(data, judgments, reading)
    with count_progress("replaying") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)  # they are among the notes
        result = plan(
            evalset,
            difference=_parse_numbers("difference", difference),
            alpha=alpha,
            power=power,
            items=items,
            systems=_parse_count(reading.systems) if data is None else None,
            budget=budget,
            budgets=budgets,
            goal=goal,
            method=method,
            human=reading.human,
            criterion=criterion,
            selection=Selection.load(selection) if selection is not None else None,
            judgments=judged,
            past=past,
            beyond=beyond,
            target=target,
            rater_variance=rater_variance,
            replays=replays,
            draws=draws,
            seed=seed,
            jobs=jobs,
            progress=progress,
            **costs.arguments,
            **(vars(old) | {"sd": _parse_numbers("sd", old.sd)}),
        )
    if plot is not None and isinstance(result, CampaignPlan):
        from aliquot.report.figures import draw_plan

        draw_plan(result, plot)
    _print_plan(result, output, plot, pairs=pairs)


@app.command()
def power(
    output: options.ResultOutput,
    costs: options.Costs,
    difference: DifferenceOption = None,
    sd: Annotated[str | None, typer.Option("--sd", metavar="SD", help="Standard deviation of judgments.")] = None,
    budget: BudgetOption = None,
    paired: Annotated[bool, typer.Option("--paired", help="The same items for all systems.")] = False,
    rho: Annotated[
        float | None, options.rare_option("--rho", help="Correlation of a metric with people within a system.")
    ] = None,
    items: Annotated[int | None, typer.Option("--items", help="Size of the test set.")] = None,
    systems: Annotated[int | None, typer.Option("--systems", metavar="M", help="Number of systems.")] = None,
    alpha: Annotated[float, options.rare_option("--alpha", help=_ALPHA)] = 0.05,
    power: Annotated[float, typer.Option("--power", help=_POWER)] = 0.95,
    table: Annotated[bool, options.rare_option("--table", help="The power table of Wei and Jia 2021.")] = False,
    sd_difference: Annotated[
        float | None,
        typer.Option(
            "--sd-difference",
            help="Standard deviation of the difference of two systems on an item; implies --paired.",
            rich_help_panel=_JUDGING,
        ),
    ] = None,
    system_correlation: Annotated[
        float | None,
        typer.Option("--system-correlation", help="Correlation of two systems over items.", rich_help_panel=_JUDGING),
    ] = None,
    judgments_per_output: Annotated[
        int | None,
        typer.Option("--judgments-per-output", help="Number of annotators per output.", rich_help_panel=_JUDGING),
    ] = None,
    rater_variance: RaterVarianceOption = None,
) -> None:
    """How many judgments for a difference? What does a budget detect? From numbers, without data.

    Example: aliquot plan power --difference 1 --sd 25

    Example: aliquot plan power --budget 500EUR --sd 25 --cost seconds-per-judgment=40,hourly=20
    """
    common.require_output(output)
    result = plan_power(
        difference=_parse_numbers("difference", difference),
        sd=_parse_numbers("sd", sd),
        alpha=alpha,
        power=power,
        paired=paired,
        sd_difference=sd_difference,
        system_correlation=system_correlation,
        rho=rho,
        items=items,
        systems=systems,
        judgments_per_output=judgments_per_output,
        table=table,
        budget=budget,
        rater_variance=rater_variance,
        **costs.arguments,
    )
    _print_plan(result, output)


@app.command()
def adaptive(
    data: options.DataArgument,
    output: options.ResultOutput,
    reading: options.Reading,
    costs: options.Costs,
    question: Annotated[AdaptiveQuestion, typer.Option("--question", "-q", help="What is to be decided.")] = "best",
    policy: Annotated[
        str, typer.Option("--policy", metavar="SPEC", help="Which system is judged next; compared with uniform.")
    ] = "auto",
    budget: BudgetOption = None,
    selection: SelectionOption = None,
    judgments: JudgmentsOption = None,
    criterion: options.CriterionOption = None,
    seed: options.SeedOption = 0,
    alpha: Annotated[float, typer.Option("--alpha", help=_ALPHA, rich_help_panel=_GOAL)] = 0.05,
    past: PastOption = False,
    target: TargetOption = "testset",
    replays: ReplaysOption = 100,
    draws: DrawsOption = 2000,
    jobs: JobsOption = None,
) -> None:
    """How many judgments does an adaptive campaign need to decide a question?

    Runs campaigns like the planned one, from a pilot or a past campaign, until the question is decided.

    Example: aliquot plan adaptive data.jsonl --question best
    """
    common.require_output(output)
    evalset, judged = common.load_with_judgments(data, judgments, reading)
    with count_progress("replaying") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)  # they are among the notes
        result = plan_adaptive(
            evalset,
            alpha=alpha,
            budget=budget,
            human=reading.human,
            criterion=criterion,
            selection=Selection.load(selection) if selection is not None else None,
            judgments=judged,
            past=past,
            target=target,
            question=question,
            policy=policy,
            replays=replays,
            draws=draws,
            seed=seed,
            jobs=jobs,
            progress=progress,
            **costs.arguments,
        )
    _print_plan(result, output)


def _print_plan(result: Plan, output: options.ResultOutput, plot: Path | None = None, *, pairs: bool = False) -> None:
    """Write and print a plan."""
    common.save_result(result, output, "pairs" if pairs and isinstance(result, CampaignPlan) else None)
    if output.json:
        common.print_json(result.to_dict())
        return
    console = render.make_console()
    render.print_result(result, console, ["pairs"] if pairs else ())
    for path in (output.file, plot):
        if path is not None:
            console.print(f"wrote {path}", markup=False)


def _require_plot(plot: Path, data: str | None) -> None:
    if data is None:
        raise OptionError("--plot draws the curves of a plan from data; name a file of data, or leave it out")
    common.require_picture(plot)


def _parse_numbers(name: str, text: str | None) -> list[float] | float | None:
    if text is None:
        return None
    try:
        numbers = [float(part) for part in common.split_names(text)]
    except ValueError:
        raise OptionError(f"--{name} '{text}': write a number, or several: 1,2,3") from None
    return numbers[0] if len(numbers) == 1 else numbers


def _parse_count(text: str | None) -> int | None:
    if text is not None and not text.strip().isdigit():
        raise OptionError(f"--systems '{text}': without data, give the number of systems, for instance 12")
    return None if text is None else int(text)
