"""`aliquot simulate`: would this have worked on my past data?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aliquot.cli import common, render
from aliquot.errors import OptionError
from aliquot.metaeval.measures import MEASURES
from aliquot.simulate.budgets import DEFAULT
from aliquot.simulate.journal import journal_path
from aliquot.simulate.protocols import ProtocolStudy, protocols
from aliquot.simulate.result import Simulation
from aliquot.simulate.run import simulate
from aliquot.simulate.summary import Row

_RUNNING = "Running"
_SHOWN = ("spa", "spa_full", "accuracy", "mae", "coverage")


def run(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Past campaigns with human scores.")],
    methods: Annotated[
        str, typer.Option("--methods", metavar="A,B+C,...", help="Selectors or designs, joined by + to estimators.")
    ] = "random,auto",
    budgets: Annotated[
        str, typer.Option("--budgets", metavar="FROM:TO:N", help="Or a list: 5%,10% or 20,50 items.")
    ] = DEFAULT,
    repeats: Annotated[int, typer.Option("--repeats", help="Replays of what is drawn at random.")] = 100,
    measures: Annotated[
        str | None,
        typer.Option("--measures", metavar="A,B", help=f"Of: {', '.join(MEASURES)}; all when not given."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="For methods that need one and name none.")
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option("--cost", metavar="COLUMN", help="An item column, or esa_time; budgets are then shares of cost."),
    ] = None,
    unit: Annotated[str, typer.Option("--unit", help="item, or document: whole documents are chosen.")] = "item",
    balance: Annotated[
        str | None, typer.Option("--balance", metavar="COLUMN", help="Split the budget equally over its values.")
    ] = None,
    test: Annotated[str, typer.Option("--test", help="P-values: analytic, or permutation.")] = "analytic",
    protocol_study: Annotated[
        bool,
        typer.Option(
            "--protocols",
            help="The WMT study instead: segments, documents, snippets; one budget (30%) and 13 runs, seed 13.",
        ),
    ] = False,
    human: common.HumanOption = None,
    systems: common.SystemsOption = None,
    exclude: common.ExcludeOption = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curves: .svg, .png or .pdf.")
    ] = None,
    plot_measure: Annotated[str, typer.Option("--plot-measure", metavar="NAME", help="What to draw.")] = "spa_full",
    output: common.OutputOption = None,
    as_json: common.JsonOption = False,
    seed: common.SeedOption = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; all cores when not given.", rich_help_panel=_RUNNING)
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="dask://HOST:PORT", help="Run on a Dask cluster.", rich_help_panel=_RUNNING),
    ] = None,
    format: common.FormatOption = None,  # noqa: A002
    lower_is_better: common.LowerOption = None,
    columns: common.ColumnsOption = None,
    wide: common.WideOption = None,
    score_name: common.ScoreNameOption = None,
    pair: common.PairOption = None,
    mqm_weights: common.WeightsOption = None,
) -> None:
    """Replay past campaigns: pretend that only a budget of items had been judged, and compare with the truth.

    A plain random sample is always there to compare with. A gain is called one only beyond the Monte Carlo error.
    With -o a run that was killed goes on where it stopped: give the same command again.

    Example: aliquot simulate wmt23.jsonl --methods random,metric_var:metric=COMET,auto --plot curves.svg

    Example: aliquot simulate a.jsonl b.jsonl --methods pps:tau=0.3+greg,auto --repeats 200 -o result.parquet

    Example: aliquot simulate wmt23.jsonl --protocols
    """
    common.require_writable(output)
    common.require_writable(plot)
    names = common.names(measures) if measures is not None else None
    if plot is not None:
        _check_plot(plot, plot_measure, names)
    reading = {
        "human": human, "systems": systems, "exclude": exclude, "format": format, "lower_is_better": lower_is_better,
        "columns": columns, "wide": wide, "score_name": score_name, "pair": pair, "mqm_weights": mqm_weights,
    }  # fmt: skip
    sets = [common.load_data(source, **reading) for source in data]
    if protocol_study:
        with _progress("replaying protocols") as told:
            share = "30%" if budgets == DEFAULT else budgets
            study = protocols(sets, share, human=human, seed=seed or 13, jobs=jobs, progress=told)
        _give_protocols(study, output, as_json=as_json)
        return
    with _progress("replaying") as told:
        result = simulate(
            sets, methods, budgets, repeats=repeats, measures=names, human=human, metric=metric, cost=cost, unit=unit,
            balance=balance, test=test, seed=seed, jobs=jobs, engine=engine, journal=output, progress=told,
        )  # fmt: skip
    if output is not None:
        common.write_result(result.to_frame(), result.to_dict(), output)
        journal_path(output).unlink(missing_ok=True)
    if plot is not None:
        from aliquot.report.curves import draw_curves  # noqa: PLC0415  (matplotlib is an extra, and slow to import)

        draw_curves(result, plot_measure, plot)
    if as_json:
        common.print_json(result.to_dict())
        return
    _show(result, output, plot)


def _check_plot(plot: Path, measure: str, measures: list[str] | None) -> None:
    from aliquot.report.figures import require_figures  # noqa: PLC0415

    require_figures(plot)
    if measure not in MEASURES or (measures is not None and measure not in measures):
        known = list(MEASURES) if measures is None else measures
        raise OptionError(f"--plot-measure '{measure}' is not measured; there are: {', '.join(known)}")


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error, for people only."""
    stderr = Console(stderr=True)
    if not stderr.is_terminal:
        yield None
        return
    bar = Progress(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=stderr, transient=True
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(result: Simulation, output: Path | None, plot: Path | None) -> None:
    console = render.console()
    shown = [name for name in _SHOWN if any(row.measure == name for row in result.rows)]
    shown = shown or list(dict.fromkeys(row.measure for row in result.rows))[:5]
    for data in dict.fromkeys(row.data for row in result.rows):
        rows = [row for row in result.rows if row.data == data]
        console.print(_table(data, rows, shown))
        console.print()
    console.print(
        "spa: the sample's own p-values; spa_full: what judging all items is expected to say, against a random "
        "sample's spa. parity: share of a random sample's budget that is as good. + better, - worse than random "
        "beyond the Monte Carlo error."
    )
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    for path in (output, plot):
        if path is not None:
            console.print(f"wrote {path}", markup=False)
    render.signature(result.signature, console)


def _table(data: str, rows: list[Row], shown: list[str]) -> object:
    parities = [name for name in ("spa_full", "mae") if name in shown] or [
        name for name in shown if MEASURES[name].better != "neither"
    ][:2]
    heads = [*shown, *(f"parity {name}" for name in parities)]
    table = render.columns(render.table(data), left=["method"], right=heads)
    for method in dict.fromkeys(row.method for row in rows):
        found = {row.measure: row for row in rows if row.method == method}
        cells = [_value(found[name]) for name in shown] + [_parity(found[name]) for name in parities]
        table.add_row(method, *cells)
    return table


def _value(row: Row) -> str:
    sign = {"better": "+", "worse": "-"}.get(row.gain, " ")
    return render.number(row.value) + sign


def _parity(row: Row) -> str:
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
        render.table("sets whose ranking changes"), left=["score", "protocol", "draws"],
        right=["best", "median", "worst", "of sets"],
    )  # fmt: skip
    for row in study.rows:
        table.add_row(row.score, row.protocol, "matching" if row.matching else "separate", str(row.best),
                      render.number(row.median), str(row.worst), str(row.sets))  # fmt: skip
    console.print(table)
    console.print()
    for data in dict.fromkeys(row.data for row in study.lengths):
        rows = [row for row in study.lengths if row.data == data]
        lengths = render.columns(render.table(f"{data}: share of items from documents of this length"),
                                 left=["protocol"], right=list(rows[0].shares))  # fmt: skip
        for row_ in rows:
            lengths.add_row(row_.protocol, *(render.percent(share) for share in row_.shares.values()))
        console.print(lengths)
        console.print()
    console.print(f"best, median and worst of {study.runs} runs; fewer changes are better")
    for note in study.notes:
        console.print(f"note: {note}", markup=False)
    if output is not None:
        console.print(f"wrote {output}", markup=False)
    render.signature(study.signature, console)
