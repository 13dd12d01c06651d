"""`aliquot metrics`: can I trust the metric instead?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.cli import common, options, render
from aliquot.cli.metrics_tables import show
from aliquot.cli.render import counting, latex, markdown
from aliquot.errors import OptionError, unknown_name
from aliquot.io.formats import tables
from aliquot.io.writing import resolve_ending, write_bytes
from aliquot.metric_eval.metrics import PARTS, TABLES, MetricReport, metrics
from aliquot.metric_eval.significance import DEFAULT_TESTS, TESTS
from aliquot.metric_eval.surface import parse_compute

_HOW = "How to compare"
PICTURES = ("breakeven", "decomposition", "correlations")
"""What --plot can draw: each is a part of the report."""


def run(
    data: Annotated[
        list[str], typer.Argument(metavar="DATA...", help="Campaigns with human scores; pairs of systems are pooled.")
    ],
    human: Annotated[
        str | None, typer.Option("--human", metavar="A,B", help="The score that people gave, or several criteria.")
    ] = None,
    chosen: Annotated[
        str | None, typer.Option("--metrics", metavar="A,B", help="Only these; all that can be used if not given.")
    ] = None,
    parts: Annotated[
        str | None, typer.Option("--parts", metavar="A,B", help=f"Only these, in full: {', '.join(PARTS)}.")
    ] = None,
    compute: Annotated[
        str | None,
        typer.Option(
            "--compute", metavar="SPEC,...", help="First compute bleu, chrf:word_order=2, ter, ... from texts."
        ),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus", metavar="SPEC,...", help="Also BLEU, chrF, TER of whole draws of items: bleu,chrf,ter:cap=100."
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Compute anew, and keep nothing of what is computed.")
    ] = False,
    same_cells: Annotated[
        bool, typer.Option("--common", help="Only the outputs that people and all metrics score.", rich_help_panel=_HOW)
    ] = False,
    trials: Annotated[
        int, typer.Option("--trials", max=10**6, help="Bootstrap trials.", rich_help_panel=_HOW)
    ] = 10_000,
    paired: Annotated[
        bool, typer.Option("--paired", help="Draw the same items for people and metrics.", rich_help_panel=_HOW)
    ] = False,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit",
            rich_help_panel=_HOW,
            help="The break-even counts: judgment (single ones, each system its own) or item (the same for all "
            "systems). judgment where the data have single judgments.",
        ),
    ] = None,
    tests: Annotated[
        str, typer.Option("--tests", metavar="A,B", rich_help_panel=_HOW, help=f"Of: {', '.join(TESTS)}.")
    ] = ",".join(DEFAULT_TESTS),
    permutations: Annotated[
        int, typer.Option("--permutations", max=10**6, help="Of each test.", rich_help_panel=_HOW)
    ] = 1000,
    swap: Annotated[
        str, typer.Option("--swap", rich_help_panel=_HOW, help="Tests: both (PERM-BOTH), cells, items or systems.")
    ] = "both",
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="LOW:HIGH", help="Ends of the human scale (part gap).", rich_help_panel=_HOW),
    ] = None,
    metric_scale: Annotated[
        str | None,
        typer.Option("--metric-scale", metavar="LOW:HIGH", help="Those of the metrics.", rich_help_panel=_HOW),
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", help="Significance of verdicts and clusters.", rich_help_panel=_HOW)
    ] = 0.05,
    level: Annotated[float, typer.Option("--level", help="Coverage of intervals.", rich_help_panel=_HOW)] = 0.95,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help=f"What -o writes as a table: {', '.join(TABLES)}."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw a picture: .svg, .png or .pdf."),
    ] = None,
    picture: Annotated[
        str,
        typer.Option(
            "--picture",
            metavar="NAME",
            help="Which: breakeven (error against judgments), decomposition (noise, bias, variance) or correlations.",
        ),
    ] = PICTURES[0],
    systems: options.SystemsOption = None,
    exclude: options.ExcludeOption = None,
    output: options.OutputOption = None,
    as_json: options.JsonOption = False,
    all_rows: options.AllRowsOption = False,  # noqa: ARG001
    seed: options.SeedOption = 0,
    format: options.FormatOption = None,  # noqa: A002
    lower_is_better: options.LowerOption = None,
    columns: options.ColumnsOption = None,
    wide: options.WideOption = None,
    score_name: options.ScoreNameOption = None,
    pair: options.PairOption = None,
    mqm_weights: options.WeightsOption = None,
) -> None:
    """Can I trust the metric instead?

    Holds automatic metrics against human scores: how often they are wrong about which system is better, and why
    (noise, bias, variance); how many judgments each is worth; correlations at every level; whether one metric is
    better than another; what a metric saves when combined with few judgments.

    Example: aliquot metrics wmt23.jsonl --exclude refA --plot worth.svg

    Example: aliquot metrics wmt23.jsonl --parts correlations,tests --metrics COMET,BLEU,chrF --common

    Example: aliquot metrics outputs.jsonl --compute "bleu:tokenize=13a|intl|char,chrf:word_order=2"

    Example: aliquot metrics summeval.jsonl --human human_coherence,human_fluency --parts decomposition -o parts.tex
    """
    common.require_writable(output)
    common.require_picture(plot, picture, PICTURES)
    wanted = common.names(parts) if parts is not None else None
    if plot is not None and wanted is not None and picture not in wanted:
        raise OptionError(f"--plot draws the {picture}; add {picture} to --parts, or leave --parts out")
    _check(table, output)
    if table is not None:
        _check_table(table, wanted, computing=compute is not None)
    if compute is not None:
        parse_compute(compute)
    reading: dict[str, Any] = {
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
    humans = common.names(human)
    sets = [common.load_data(source, **reading) for source in data]
    with counting("computing") as told, render.busy("holding metrics against people"):
        report = metrics(
            sets,
            None if human is None else humans,
            metrics=common.names(chosen) if chosen is not None else None,
            parts=wanted,
            trials=trials,
            paired=paired,
            unit=unit,  # type: ignore[arg-type]
            corpus=corpus,
            compute=compute,
            common=same_cells,
            tests=common.names(tests),
            permutations=permutations,
            swap=swap,  # type: ignore[arg-type]
            scale=common.value_range(scale, "--scale", ":"),
            metric_scale=common.value_range(metric_scale, "--metric-scale", ":"),
            alpha=alpha,
            level=level,
            seed=seed,
            cache=not no_cache,
            progress=told,
        )
    common.draw(plot, lambda: _figure(report, picture))
    if output is not None:
        write(report, output, table)
    if as_json:
        common.print_json(report.to_dict())
        return
    show(report, render.console(), overview=wanted is None)
    for path in (output, plot):
        if path is not None:
            render.console().print(f"wrote {path}", markup=False)


def _figure(report: MetricReport, picture: str) -> Any:
    from aliquot.report.figures import curves, metric_bars  # noqa: PLC0415  (matplotlib is an extra, and slow)

    make = {
        "breakeven": curves.break_even_figure,
        "decomposition": metric_bars.errors_figure,
        "correlations": metric_bars.correlations_figure,
    }
    return make[picture](report)


def _check(table: str | None, output: Path | None) -> None:
    """Refuse what cannot be given before any work is done."""
    if table is not None and table not in TABLES:
        raise unknown_name("table", table, TABLES, "choose with --table")
    if table is not None and output is None:
        raise OptionError(f"--table {table} says what -o writes; give -o FILE, too")
    endings = (".json", ".md", ".tex", ".csv", ".tsv", ".parquet")
    if output is not None and not resolve_ending(output, ".json").removesuffix(".gz").endswith(endings):
        raise OptionError(f"{output}: unknown ending; use {', '.join(endings)}")


def _check_table(table: str, parts: list[str] | None, *, computing: bool) -> None:
    """Refuse a table that nothing will fill, rather than write an empty one."""
    part = {"curves": "breakeven", "suggested": "value", "clusters": "tests"}.get(table, table)
    if table == "computed":
        if not computing:
            raise OptionError("--table computed lists what --compute computes; give --compute, for instance bleu,chrf")
    elif parts is not None and part not in parts:
        raise OptionError(f"--table {table} belongs to the part '{part}'; add {part} to --parts, or leave --parts out")


def write(report: MetricReport, path: Path, table: str | None = None) -> None:
    """Write one table (by default that of the first part), or everything as .json; "-" is JSON, or CSV with a table."""
    frame = report.to_frame(table or report.parts[0])
    name = resolve_ending(path, ".json" if table is None else ".csv")
    if name.endswith(".md"):
        write_bytes(path, markdown(frame).encode())
    elif name.endswith(".tex"):
        write_bytes(path, latex(frame).encode())
    elif name == ".csv":
        tables.write(frame, path)
    else:
        common.write_result(frame, report.to_dict(), path)
