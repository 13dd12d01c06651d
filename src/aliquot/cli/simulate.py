"""`aliquot simulate`: would this have worked on my past data? And studies of annotators, metrics and protocols."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common, options
from aliquot.cli.commands import old_option
from aliquot.cli.render import count_progress
from aliquot.core.result import Result
from aliquot.errors import unknown_name
from aliquot.io.journal import journal_path
from aliquot.io.writers import choose_writer
from aliquot.metric_eval.measures import MEASURES, Test, select_measures
from aliquot.simulation.by_annotator import DEFAULT_METHODS as ANNOTATOR_METHODS
from aliquot.simulation.by_annotator import replay_annotators
from aliquot.simulation.metric_quality import DEFAULT_METHODS as QUALITY_METHODS
from aliquot.simulation.metric_quality import replay_metrics
from aliquot.simulation.protocols import DEFAULT_BUDGET, RUNS, SEED, replay_protocols
from aliquot.simulation.replay import Interval
from aliquot.simulation.setup import DEFAULT_BUDGETS, parse_methods
from aliquot.simulation.simulate import DEFAULT_METHODS, simulate

app = typer.Typer()
study = typer.Typer(help="Studies of annotators, metrics and sampling protocols on past data.")
app.add_typer(study, name="study")
_METHODS, _ANNOTATOR_METHODS = ",".join(DEFAULT_METHODS), ",".join(ANNOTATOR_METHODS)
_COMPARED = "What is compared"
_RUNNING = "Running"

PastArgument = Annotated[list[str], typer.Argument(metavar="DATA...", help="Past campaigns with human scores.")]
MethodsOption = Annotated[
    str, typer.Option("--methods", metavar="A,B+C,...", help="Selectors or designs, joined by + to estimators.")
]
BudgetsOption = Annotated[str, typer.Option("--budgets", metavar="FROM:TO:N", help="Or a list: 5%,10% or 20,50 items.")]
RepeatsOption = Annotated[int, typer.Option("--repeats", help="Replays of whatever is drawn at random.")]
MetricOption = Annotated[
    str | None, typer.Option("--metric", metavar="NAME", help="For methods that need one and name none.")
]
PlotOption = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curves: .svg, .png or .pdf.")]
LevelOption = Annotated[
    float, typer.Option("--level", help="Coverage that intervals promise.", rich_help_panel=_COMPARED)
]
IntervalOption = Annotated[
    Interval, typer.Option("--interval", help="For coverage, width and slack.", rich_help_panel=_COMPARED)
]
RangeOption = Annotated[
    str | None,
    typer.Option(
        "--range",
        metavar="LOW,HIGH",
        help="Ends of the scale, for hoeffding and bernstein; those of all scores when not given.",
        rich_help_panel=_COMPARED,
    ),
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Processes; all cores when not given.", rich_help_panel=_RUNNING)
]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", metavar="dask://HOST:PORT", help="Run on a Dask cluster.", rich_help_panel=_RUNNING),
]


@app.command()
def run(
    data: PastArgument,
    output: options.ResultOutput,
    reading: options.Reading,
    choosing: options.Choosing,
    costs: options.Costs,
    methods: MethodsOption = _METHODS,
    budgets: BudgetsOption = DEFAULT_BUDGETS,
    repeats: RepeatsOption = 100,
    measures: Annotated[
        str | None,
        typer.Option(
            "--measures",
            metavar="A,B",
            help=f"Of: {', '.join(MEASURES)}; when not given, all but those that end in _published.",
        ),
    ] = None,
    metric: MetricOption = None,
    plot: PlotOption = None,
    plot_measure: Annotated[
        str | None,
        typer.Option(
            "--plot-measure",
            metavar="NAME",
            help="What to draw; spa_full when not given.",
            rich_help_panel=_COMPARED,
        ),
    ] = None,
    crowd: Annotated[
        int | None,
        typer.Option(
            "--crowd",
            metavar="N",
            help="Choose by N systems drawn at random, evaluate the others.",
            rich_help_panel=options.CHOOSING,
        ),
    ] = None,
    test: Annotated[Test, typer.Option("--test", help="How p-values are computed.", rich_help_panel=_COMPARED)] = (
        "analytic"
    ),
    level: LevelOption = 0.95,
    interval: IntervalOption = "t",
    value_range: RangeOption = None,
    parity: Annotated[
        bool,
        typer.Option(
            "--parity/--no-parity",
            help="Replay budgets beside those asked for, to compute parity; slower.",
            rich_help_panel=_COMPARED,
        ),
    ] = True,
    seed: options.SeedOption = 0,
    jobs: JobsOption = None,
    engine: EngineOption = None,
) -> None:
    """Replay past campaigns: pretend that only a budget of items had been judged, and compare with the truth.

    A plain random sample is always there to compare with. A gain is called one only beyond the Monte Carlo error.
    With -o a run that was killed goes on where it stopped: give the same command again.

    Example: aliquot simulate wmt23.jsonl --methods random,metric_var:metric=COMET,auto --plot curves.svg

    Example: aliquot simulate a.jsonl b.jsonl --methods pps:tau=0.3+greg,auto --repeats 200 -o result.parquet

    Example: aliquot simulate study protocols wmt23.jsonl
    """
    _require_output(output)
    common.require_writable(plot)
    names = [measure.name for measure in select_measures(measures)]
    drawn = _choose_plotted(plot, plot_measure, names)
    sets = common.load_sets(data, reading)
    with common.explain_interruption(output.file), count_progress("replaying") as progress:
        result = simulate(
            sets,
            methods,
            budgets,
            repeats=repeats,
            measures=None if measures is None else names,
            human=reading.human,
            metric=metric,
            crowd=crowd,
            test=test,
            level=level,
            interval=interval,
            value_range=common.parse_range(value_range),
            parity=parity,
            seed=seed,
            jobs=jobs,
            engine=engine,
            journal=output.file,
            progress=progress,
            **vars(choosing),
            **costs.pick("cost", "seconds_per_item", "hourly", "currency"),
        )
    common.save_result(result, output)
    if output.file is not None:
        journal_path(output.file).unlink(missing_ok=True)
    if plot is not None:
        from aliquot.report.figures import draw_curves

        draw_curves(result, drawn, plot)
    common.print_outcome(result, output, [output.file, plot])


@study.command()
def by_annotator(
    data: PastArgument,
    output: options.ResultOutput,
    reading: options.Reading,
    methods: MethodsOption = _ANNOTATOR_METHODS,
    budgets: BudgetsOption = DEFAULT_BUDGETS,
    repeats: RepeatsOption = 100,
    metric: MetricOption = None,
    level: LevelOption = 0.95,
    interval: IntervalOption = "t",
    value_range: RangeOption = None,
    seed: options.SeedOption = 0,
    jobs: JobsOption = None,
) -> None:
    """Replay each annotator and system alone: error of the mean, how often it beats random sampling, bounds.

    The study of Saldias et al. 2022. Sets without single judgments replay each system's human scores.

    Example: aliquot simulate study by-annotator past.jsonl --methods segments+cv --budgets 20%
    """
    _require_output(output)
    sets = common.load_sets(data, reading)
    with count_progress("replaying annotators") as progress:
        result = replay_annotators(
            sets,
            methods,
            budgets,
            repeats=repeats,
            human=reading.human,
            metric=metric,
            interval=interval,
            value_range=common.parse_range(value_range),
            level=level,
            seed=seed,
            jobs=jobs,
            progress=progress,
        )
    common.write_and_print(result, output)


@study.command()
def by_metric(
    data: PastArgument,
    output: options.ResultOutput,
    reading: options.Reading,
    methods: Annotated[
        str, typer.Option("--methods", metavar="A,B,...", help="Selectors that take a metric.")
    ] = ",".join(QUALITY_METHODS),
    seed: options.SeedOption = 0,
    jobs: JobsOption = None,
) -> None:
    """How good must a metric be? Parity of selectors against the correlation of their metric with people.

    Figure 6 of Zouhar et al. 2025.

    Example: aliquot simulate study by-metric past.jsonl --methods metric_var
    """
    _require_output(output)
    sets = common.load_sets(data, reading)
    with count_progress("replaying metrics") as progress:
        result = replay_metrics(
            sets, parse_methods(methods), human=reading.human, seed=seed, jobs=jobs, progress=progress
        )
    common.write_and_print(result, output)


@study.command()
def protocols(
    data: PastArgument,
    output: options.ResultOutput,
    reading: options.Reading,
    budget: Annotated[
        str, typer.Option("--budget", metavar="AMOUNT", help="One share; judged: each set's own coverage.")
    ] = DEFAULT_BUDGET,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Draws of every protocol.")] = RUNS,
    seed: options.SeedOption = SEED,
    jobs: JobsOption = None,
    engine: EngineOption = None,
    budgets: Annotated[str | None, old_option("--budgets", metavar="AMOUNT", new="--budget")] = None,
) -> None:
    """Compare WMT's sampling protocols: how often does a sample rank systems otherwise than all items do?

    Segments, whole documents, fixed and budgeted snippets, and what people judged: the study of Knowles and Lo (2023).

    Example: aliquot simulate study protocols wmt23.jsonl --budget 20%
    """
    _require_output(output)
    sets = common.load_sets(data, reading)
    with count_progress("replaying protocols") as progress:
        result = replay_protocols(
            sets,
            budgets or budget,
            human=reading.human,
            runs=repeats,
            seed=seed,
            jobs=jobs,
            engine=engine,
            progress=progress,
        )
    common.write_and_print(result, output)


def _require_output(output: options.ResultOutput) -> None:
    """Refuse before hours of work what could not be written after it."""
    common.require_output(output)
    if output.file is not None:
        choose_writer("result", output.file, output.to, default=".json", of=Result)


def _choose_plotted(plot: Path | None, name: str | None, measures: list[str]) -> str:
    """Return the measure to draw: the one asked for, or spa_full, or the first."""
    measure = name or ("spa_full" if "spa_full" in measures else measures[0])
    if plot is not None:
        common.require_picture(plot)
        if measure not in measures:
            raise unknown_name("measure", measure, measures, "check --plot-measure and --measures")
    return measure
