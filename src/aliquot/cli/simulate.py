"""`aliquot simulate`: would this have worked on my past data?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.cli import common, options, render
from aliquot.cli.render import counting
from aliquot.errors import OptionError, unknown_name
from aliquot.io.journal import journal_path
from aliquot.io.writing import resolve_ending
from aliquot.metric_eval.measures import MEASURES, select_measures
from aliquot.simulation.by_annotator import DEFAULT_METHODS as ANNOTATOR_METHODS
from aliquot.simulation.by_annotator import AnnotatorStudy, replay_annotators
from aliquot.simulation.metric_quality import DEFAULT_METHODS as QUALITY_METHODS
from aliquot.simulation.metric_quality import MetricQuality, replay_metrics
from aliquot.simulation.protocols import JUDGED, RUNS, SEED, ProtocolStudy, replay_protocols
from aliquot.simulation.setup import DEFAULT_BUDGETS, parse_methods
from aliquot.simulation.simulate import DEFAULT_METHODS, Simulation, simulate
from aliquot.simulation.summary import MethodSummary

_RUNNING = "Running"
_USUAL = ("spa", "spa_full", "accuracy", "mae", "coverage")
_COLUMNS = 5
_PROTOCOL_BUDGET = "30%"
_NOT_FOR_PROTOCOLS = (
    "methods",
    "measures",
    "metric",
    "cost",
    "unit",
    "balance",
    "crowd",
    "test",
    "level",
    "interval",
    "value_range",
    "parity",
    "plot",
    "plot_measure",
    "seconds_per_item",
    "hourly",
    "currency",
)
_FOR_ANNOTATORS = {"methods", "metric", "interval", "value_range", "level"}


def run(
    context: typer.Context,
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Past campaigns with human scores.")],
    methods: Annotated[
        str, typer.Option("--methods", metavar="A,B+C,...", help="Selectors or designs, joined by + to estimators.")
    ] = ",".join(DEFAULT_METHODS),
    budgets: Annotated[
        str, typer.Option("--budgets", metavar="FROM:TO:N", help="Or a list: 5%,10% or 20,50 items.")
    ] = DEFAULT_BUDGETS,
    repeats: Annotated[int, typer.Option("--repeats", help="Replays of whatever is drawn at random.")] = 100,
    measures: Annotated[
        str | None,
        typer.Option(
            "--measures",
            metavar="A,B",
            help=f"Of: {', '.join(MEASURES)}; when not given, all but those that end in _published.",
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="For methods that need one and name none.")
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            metavar="COLUMN",
            help="An item column, esa_time, or fitted (to recorded times); budgets are then shares of cost.",
        ),
    ] = None,
    unit: Annotated[str, typer.Option("--unit", help="item, or document: whole documents are chosen.")] = "item",
    crowd: Annotated[
        int | None,
        typer.Option("--crowd", metavar="N", help="Choose by N systems drawn at random, evaluate the others."),
    ] = None,
    balance: Annotated[
        str | None, typer.Option("--balance", metavar="COLUMN", help="Split the budget equally over its values.")
    ] = None,
    test: Annotated[str, typer.Option("--test", help="P-values: analytic, or permutation.")] = "analytic",
    level: Annotated[float, typer.Option("--level", help="Coverage that intervals promise.")] = 0.95,
    interval: Annotated[
        str, typer.Option("--interval", help="t, hoeffding or bernstein, for coverage, width and slack.")
    ] = "t",
    value_range: Annotated[
        str | None,
        typer.Option("--range", metavar="LOW,HIGH", help="Ends of the scale; those of all scores when not given."),
    ] = None,
    parity: Annotated[
        bool,
        typer.Option("--parity/--no-parity", help="Replay budgets beside those asked for, to tell parity; slower."),
    ] = True,
    protocol_study: Annotated[
        bool,
        typer.Option(
            "--protocols",
            help="Study WMT's sampling protocols instead: segments, documents, snippets, and what people judged; one "
            "budget (30%; --budgets judged: each set's own coverage), 13 repeats, seed 13 when not given.",
        ),
    ] = False,
    by_metric: Annotated[
        bool,
        typer.Option(
            "--by-metric",
            help="Instead: parity of selectors (--methods: those that take a metric) against the quality of metrics.",
        ),
    ] = False,
    annotators: Annotated[
        bool,
        typer.Option(
            "--by-annotator",
            help="Instead: replay every annotator and system alone: error of the mean, win percentages, bounds.",
        ),
    ] = False,
    human: options.HumanOption = None,
    systems: options.SystemsOption = None,
    exclude: options.ExcludeOption = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curves: .svg, .png or .pdf.")
    ] = None,
    plot_measure: Annotated[
        str | None, typer.Option("--plot-measure", metavar="NAME", help="What to draw; spa_full when not given.")
    ] = None,
    output: options.OutputOption = None,
    as_json: options.JsonOption = False,
    all_rows: options.AllRowsOption = False,  # noqa: ARG001
    seconds_per_item: options.SecondsPerItemOption = None,
    hourly: options.HourlyOption = None,
    currency: options.CurrencyOption = "EUR",
    seed: options.SeedOption = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; all cores when not given.", rich_help_panel=_RUNNING)
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="dask://HOST:PORT", help="Run on a Dask cluster.", rich_help_panel=_RUNNING),
    ] = None,
    format: options.FormatOption = None,  # noqa: A002
    lower_is_better: options.LowerOption = None,
    columns: options.ColumnsOption = None,
    wide: options.WideOption = None,
    score_name: options.ScoreNameOption = None,
    pair: options.PairOption = None,
    mqm_weights: options.WeightsOption = None,
) -> None:
    """Replay past campaigns: pretend that only a budget of items had been judged, and compare with the truth.

    A plain random sample is always there to compare with. A gain is called one only beyond the Monte Carlo error.
    With -o a run that was killed goes on where it stopped: give the same command again.

    Example: aliquot simulate wmt23.jsonl --methods random,metric_var:metric=COMET,auto --plot curves.svg

    Example: aliquot simulate a.jsonl b.jsonl --methods pps:tau=0.3+greg,auto --repeats 200 -o result.parquet

    Example: aliquot simulate wmt23.jsonl --protocols
    """
    _check_output(output)
    common.require_writable(plot)
    given = {name for name in context.params if _is_given(context, name)}
    if protocol_study:
        _check_study("--protocols", given, {*_NOT_FOR_PROTOCOLS, "by_metric"})
    if annotators:
        _check_study("--by-annotator", given, {*_NOT_FOR_PROTOCOLS, "by_metric", "protocol_study"} - _FOR_ANNOTATORS)
    if by_metric:
        _check_study("--by-metric", given, {*_NOT_FOR_PROTOCOLS, "budgets", "repeats"} - {"methods"})
    names = [measure.name for measure in select_measures(measures)]
    drawn = _plot_measure(plot, plot_measure, names)
    reading: dict[str, Any] = {
        "human": human,
        "systems": systems,
        "exclude": exclude,
        "format": format,
        "lower_is_better": lower_is_better,
        "columns": columns,
        "wide": wide,
        "score_name": score_name,
        "pair": pair,
        "mqm_weights": mqm_weights,
    }
    sets = [common.load_data(source, **reading) for source in data]
    if protocol_study:
        with counting("replaying protocols") as told:
            study = replay_protocols(
                sets,
                budgets if "budgets" in given else _PROTOCOL_BUDGET,
                human=human,
                runs=repeats if "repeats" in given else RUNS,
                seed=seed if "seed" in given else SEED,
                jobs=jobs,
                engine=engine,
                progress=told,
            )
        _give_protocols(study, output, as_json=as_json)
        return
    if annotators:
        with counting("replaying annotators") as told:
            alone = replay_annotators(
                sets,
                methods if "methods" in given else ANNOTATOR_METHODS,
                budgets,
                repeats=repeats,
                human=human,
                metric=metric,
                interval=interval,
                value_range=common.value_range(value_range),
                level=level,
                seed=seed,
                jobs=jobs,
                progress=told,
            )
        _give_annotators(alone, output, as_json=as_json)
        return
    if by_metric:
        with counting("replaying metrics") as told:
            chosen = parse_methods(methods) if "methods" in given else QUALITY_METHODS
            quality = replay_metrics(sets, chosen, human=human, seed=seed, progress=told)
        _give_quality(quality, output, as_json=as_json)
        return
    with common.resumable(output), counting("replaying") as told:
        result = simulate(
            sets,
            methods,
            budgets,
            repeats=repeats,
            measures=None if measures is None else names,
            human=human,
            metric=metric,
            cost=cost,
            unit=unit,
            balance=balance,
            crowd=crowd,
            test=test,
            level=level,
            interval=interval,
            value_range=common.value_range(value_range),
            parity=parity,
            seconds_per_item=seconds_per_item,
            hourly=hourly,
            currency=currency or "EUR",
            seed=seed,
            jobs=jobs,
            engine=engine,
            journal=output,
            progress=told,
        )
    if output is not None:
        common.write_result(result.to_frame(), result.to_dict(), output)
        journal_path(output).unlink(missing_ok=True)
    if plot is not None:
        from aliquot.report.figures import draw_curves  # noqa: PLC0415  (matplotlib is an extra, and slow to import)

        draw_curves(result, drawn, plot)
    if as_json:
        common.print_json(result.to_dict())
        return
    _show(result, [name for name in _USUAL if name in names] if measures is None else names, output, plot)


def _check_output(output: Path | None) -> None:
    """Refuse before any work what could not be written after it."""
    common.require_writable(output)
    endings = (".json", ".csv", ".tsv", ".parquet")
    if output is not None and not resolve_ending(output, ".json").removesuffix(".gz").endswith(endings):
        raise OptionError(f"{output}: unknown ending; use .json, .csv, .tsv or .parquet")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _check_study(study: str, given: set[str], not_used: set[str]) -> None:
    unused = [f"--{name.replace('_', '-')}" for name in sorted(not_used & given)]
    if unused:
        raise OptionError(f"{study} is a study of its own and does not use {', '.join(unused)}; leave out either")


def _plot_measure(plot: Path | None, asked: str | None, measured: list[str]) -> str:
    """What to draw: what is asked for, or spa_full, or the first of what is measured."""
    measure = asked or ("spa_full" if "spa_full" in measured else measured[0])
    if plot is not None:
        from aliquot.report.figures import require_figures  # noqa: PLC0415

        require_figures(plot)
        if measure not in measured:
            raise unknown_name("measure", measure, measured, "check --plot-measure and --measures")
    return measure


def _show(result: Simulation, measures: list[str], output: Path | None, plot: Path | None) -> None:
    console = render.console()
    render.verdict(result.verdict, console)
    shown = measures[:_COLUMNS]
    for data in dict.fromkeys(row.data for row in result.rows):
        rows = [row for row in result.rows if row.data == data]
        for start in range(0, len(measures), _COLUMNS):
            console.print(_table(data, rows, measures[start : start + _COLUMNS], parity=start == 0))
            console.print()
    console.print(" ".join(_explained(shown, coarse=all(cell.asked for cell in result.cells))))
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    for path in (output, plot):
        if path is not None:
            console.print(f"wrote {path}", markup=False)
    render.signature(result.signature, console)


def _explained(shown: list[str], *, coarse: bool) -> Iterator[str]:
    """What the columns mean; parity is coarse where no budgets beside those asked for were replayed."""
    if "spa" in shown:
        yield "spa: the sample's own p-values."
    if "spa_full" in shown:
        yield "spa_full: what judging all items is expected to say, against a random sample's spa."
    if _with_parity(shown):
        yield "parity: share of a random sample's budget that is as good."
        if coarse:
            yield "It is told from the budgets asked for alone (--no-parity), so no smaller one is ever found."
    yield "+ better, - worse than random beyond the Monte Carlo error."


def _with_parity(shown: list[str]) -> list[str]:
    """Measures whose parity is shown."""
    usual = [name for name in shown if name in ("spa_full", "mae")]
    return usual or [name for name in shown if MEASURES[name].better != "neither" and name != "cost"][:2]


def _table(data: str, rows: list[MethodSummary], shown: list[str], *, parity: bool) -> object:
    parities = _with_parity(shown) if parity else []
    heads = [*shown, *(f"parity {name}" for name in parities)]
    table = render.columns(render.table(data), left=["method"], right=heads)
    for method in dict.fromkeys(row.method for row in rows):
        found = {row.measure: row for row in rows if row.method == method}
        cells = [_value(found[name]) for name in shown] + [_parity(found[name]) for name in parities]
        table.add_row(method, *cells)
    return table


def _value(row: MethodSummary) -> str:
    sign = {"better": "+", "worse": "-"}.get(row.gain, " ")
    return render.number(row.value) + sign


def _parity(row: MethodSummary) -> str:
    if row.missed:
        return f"not reached ({row.missed})"
    return render.fixed(row.parity, 2)


def _give_protocols(study: ProtocolStudy, output: Path | None, *, as_json: bool) -> None:
    if output is not None:
        common.write_result(study.to_frame(), study.to_dict(), output)
    if as_json:
        common.print_json(study.to_dict())
        return
    console = render.console()
    table = render.columns(
        render.table("sets whose ranking changes"),
        left=["score", "protocol", "draws"],
        right=["best", "median", "worst", "of sets"],
    )
    for row in study.rows:
        table.add_row(
            row.score,
            row.protocol,
            "matching" if row.matching else "separate",
            str(row.best),
            f"{row.median:g}",
            str(row.worst),
            str(row.sets),
        )
    console.print(table)
    console.print(f"best, median and worst of {study.runs} runs; fewer changes are better")
    if any(row.protocol == JUDGED for row in study.rows):
        console.print(f"{JUDGED}: the part of each set that people judged, once; a set counts where they left out some")
    console.print()
    if study.coverage:
        coverage = render.columns(
            render.table("judged by people"), left=["data"], right=["mean", "least", "most", "systems"]
        )
        for covered in study.coverage:
            shares = covered.systems.values()
            coverage.add_row(
                covered.data, *map(render.percent, (covered.mean, min(shares), max(shares))), str(len(shares))
            )
        console.print(coverage)
        console.print("share of the items judged for a system; by system in --json")
        console.print()
    for data in dict.fromkeys(row.data for row in study.lengths):
        rows = [row for row in study.lengths if row.data == data]
        console.print(f"{data}: share of items from documents of this length", style="bold", markup=False)
        lengths = render.columns(render.table(), left=["protocol"], right=list(rows[0].shares))
        for row_ in rows:
            lengths.add_row(row_.protocol, *(render.percent(share) for share in row_.shares.values()))
        console.print(lengths)
        console.print()
    for note in study.notes:
        console.print(f"note: {note}", markup=False)
    if output is not None:
        console.print(f"wrote {output}", markup=False)
    render.signature(study.signature, console)


def _give_quality(quality: MetricQuality, output: Path | None, *, as_json: bool) -> None:
    if output is not None:
        common.write_result(quality.to_frame(), quality.to_dict(), output)
    if as_json:
        common.print_json(quality.to_dict())
        return
    console = render.console()
    bins = quality.bins().to_dicts()
    methods = list(dict.fromkeys(row.method for row in quality.rows))
    table = render.columns(
        render.table("parity by the metric's quality"), left=["correlation"], right=["metrics", *methods]
    )
    for level in sorted({row["bin"] for row in bins}):
        found = {row["method"]: row for row in bins if row["bin"] == level}
        cells = [_mean_parity(found[method]) for method in methods]
        table.add_row(f"{level:.1f}", str(found[methods[0]]["metrics"]), *cells)
    console.print(table)
    console.print(
        "correlation: Pearson's of metric and people over all outputs, rounded. Parity: share of a random sample's "
        "budget that is as good; (2): so many metrics never are. Every metric: --json, -o."
    )
    for note in quality.notes:
        console.print(f"note: {note}", markup=False)
    if output is not None:
        console.print(f"wrote {output}", markup=False)
    render.signature(quality.signature, console)


def _mean_parity(found: dict[str, Any]) -> str:
    missed = f" ({found['missed']})" if found["missed"] else ""
    return ("-" if found["parity"] is None else render.fixed(found["parity"], 2)) + missed


def _give_annotators(study: AnnotatorStudy, output: Path | None, *, as_json: bool) -> None:
    if output is not None:
        common.write_result(study.to_frame(), study.to_dict(), output)
    if as_json:
        common.print_json(study.to_dict())
        return
    console = render.console()
    heads = ["error", "sdev", "win", "coverage", "slack", "half width"]
    table = render.columns(render.table("each annotator and system alone"), left=["method"], right=heads)
    for row in study.summary():
        win = "-" if math.isnan(row.win) else render.percent(row.win)
        error, spread, slack, half = map(render.number, (row.error, row.spread, row.slack, row.half))
        table.add_row(row.method, error, spread, win, render.percent(row.coverage), slack, half)
    console.print(table)
    console.print(
        f"means over {study.simulations} annotators' systems and the budgets; win: how often the error is below "
        "that of a random sample's mean; slack: half width of the interval less the error. By budget: --json, -o."
    )
    for note in study.notes:
        console.print(f"note: {note}", markup=False)
    if output is not None:
        console.print(f"wrote {output}", markup=False)
    render.signature(study.signature, console)
