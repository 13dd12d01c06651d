"""`aliquot metrics`: can I trust the metric instead?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common as shared
from aliquot.cli import options, render
from aliquot.core.registry import split_known_names, split_names
from aliquot.errors import OptionError, unknown_name
from aliquot.io.formats import tables
from aliquot.io.writing import resolve_ending, write_bytes
from aliquot.metric_eval.metric_report import PARTS, TABLES, MetricReport
from aliquot.metric_eval.metrics import metrics as compare_metrics
from aliquot.metric_eval.sacrebleu_scorers import parse_compute
from aliquot.metric_eval.significance import DEFAULT_TESTS, TESTS
from aliquot.stats.break_even import BreakEvenUnit
from aliquot.stats.metric_tests import SwapUnit

_HOW = "How to compare"
_WHAT = "What is written and drawn"
PICTURES = ("breakeven", "decomposition", "correlations")
"""What --plot can draw: each is a part of the report."""
ENDINGS = (".json", ".md", ".tex", ".csv", ".tsv", ".parquet")


def run(
    data: Annotated[
        list[str], typer.Argument(metavar="DATA...", help="Campaigns with human scores; pairs of systems are pooled.")
    ],
    reading: options.Reading,
    output: options.Output,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="A,B", help="Use only these metrics; by default all usable ones.")
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
    common: Annotated[
        bool, typer.Option("--common", help="Only the outputs that people and all metrics score.")
    ] = False,
    plot: options.PlotOption = None,
    seed: options.SeedOption = 0,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus",
            metavar="SPEC,...",
            help="BLEU, chrF, TER of whole draws of items, too: bleu,chrf,ter:cap=100.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither use nor keep computed metrics.", rich_help_panel=_HOW)
    ] = False,
    trials: Annotated[
        int, typer.Option("--trials", max=10**6, help="Bootstrap trials.", rich_help_panel=_HOW)
    ] = 10_000,
    paired: Annotated[
        bool, typer.Option("--paired", help="Draw the same items for people and metrics.", rich_help_panel=_HOW)
    ] = False,
    unit: Annotated[
        BreakEvenUnit | None,
        typer.Option(
            "--unit",
            rich_help_panel=_HOW,
            help="What break-even counts: judgment (single ones, each system its own) or item (the same for all "
            "systems); judgment where the data have single judgments.",
        ),
    ] = None,
    tests: Annotated[
        str, typer.Option("--tests", metavar="A,B", rich_help_panel=_HOW, help=f"Of: {', '.join(TESTS)}.")
    ] = ",".join(DEFAULT_TESTS),
    permutations: Annotated[
        int, typer.Option("--permutations", max=10**6, help="Permutations of each test.", rich_help_panel=_HOW)
    ] = 1000,
    swap: Annotated[
        SwapUnit, typer.Option("--swap", rich_help_panel=_HOW, help="What tests permute; both is PERM-BOTH.")
    ] = "both",
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="LOW:HIGH", help="Ends of the human scale (part gap).", rich_help_panel=_HOW),
    ] = None,
    metric_scale: Annotated[
        str | None,
        typer.Option("--metric-scale", metavar="LOW:HIGH", help="Ends of the metrics' scale.", rich_help_panel=_HOW),
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", help="Significance of co-occurrence and clusters.", rich_help_panel=_HOW)
    ] = 0.05,
    level: Annotated[float, typer.Option("--level", help="Coverage of intervals.", rich_help_panel=_HOW)] = 0.95,
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="NAME", help=f"What -o writes as a table: {', '.join(TABLES)}.", rich_help_panel=_WHAT
        ),
    ] = None,
    picture: Annotated[
        str,
        typer.Option(
            "--picture",
            metavar="NAME",
            help="What --plot draws: breakeven (error against judgments), decomposition (noise, bias, variance) or "
            "correlations.",
            rich_help_panel=_WHAT,
        ),
    ] = PICTURES[0],
) -> None:
    """Can I trust the metric instead?

    Compares automatic metrics with human scores: how often they are wrong about which system is better, and why
    (noise, bias, variance); how many judgments each is worth; correlations at every level; whether one metric is
    better than another; what a metric saves when combined with few judgments. --human may name several criteria.

    Example: aliquot metrics wmt23.jsonl --read exclude=refA --plot worth.svg

    Example: aliquot metrics wmt23.jsonl --scores mine.csv --metrics COMET

    Example: aliquot metrics wmt23.jsonl --parts correlations,tests --metrics COMET,BLEU,chrF --common

    Example: aliquot metrics outputs.jsonl --compute "bleu:tokenize=13a|intl|char,chrf:word_order=2"

    Example: aliquot metrics summeval.jsonl --human human_coherence,human_fluency --parts decomposition -o parts.tex
    """
    shared.require_writable(output.file)
    shared.require_picture(plot, picture, PICTURES)
    part_names = None if parts is None else split_names(parts)
    _validate_output(output.file, table, part_names, is_computing=compute is not None)
    if plot is not None and part_names is not None and picture not in part_names:
        raise OptionError(f"--plot draws the {picture}; add {picture} to --parts, or leave --parts out")
    if compute is not None:
        parse_compute(compute)
    sets = shared.load_sets(data, replace(reading, human=None))
    scores = {name for evalset in sets for name in evalset.scores}
    with render.count_progress("computing") as progress, render.show_activity("comparing metrics with people"):
        report = compare_metrics(
            sets,
            None if reading.human is None else split_known_names(reading.human, scores),
            metrics=None if metrics is None else split_known_names(metrics, scores),
            parts=part_names,
            trials=trials,
            paired=paired,
            unit=unit,
            corpus=corpus,
            compute=compute,
            common=common,
            tests=tests,
            permutations=permutations,
            swap=swap,
            scale=shared.parse_range(scale, "--scale", ":"),
            metric_scale=shared.parse_range(metric_scale, "--metric-scale", ":"),
            alpha=alpha,
            level=level,
            seed=seed,
            cache=not no_cache,
            progress=progress,
        )
    shared.write_figure(plot, lambda: report.plot(picture))
    if output.file is not None:
        write(report, output.file, table)
    shared.print_outcome(report, output, [output.file, plot])


def _validate_output(path: Path | None, table: str | None, parts: list[str] | None, *, is_computing: bool) -> None:
    """Raise OptionError, before any work, for an output that cannot be written or a table that stays empty."""
    if path is not None and not resolve_ending(path, ".json").removesuffix(".gz").endswith(ENDINGS):
        raise OptionError(f"{path}: unknown ending; use {', '.join(ENDINGS)}")
    if table is None:
        return
    if table not in TABLES:
        raise unknown_name("table", table, TABLES, "choose with --table")
    if path is None:
        raise OptionError(f"--table {table} says what -o writes; give -o FILE, too")
    part = {"curves": "breakeven", "suggested": "value", "clusters": "tests"}.get(table, table)
    if table == "computed":
        if not is_computing:
            raise OptionError("--table computed lists what --compute computes; give --compute, for instance bleu,chrf")
    elif parts is not None and part not in parts:
        raise OptionError(f"--table {table} belongs to the part '{part}'; add {part} to --parts, or leave --parts out")


def write(report: MetricReport, path: Path, table: str | None = None) -> None:
    """Write one table (by default that of the first part), or everything as .json; "-" is JSON, or CSV with a table."""
    frame = report.to_frame(table or report.parts[0])
    ending = resolve_ending(path, ".json" if table is None else ".csv")
    if ending.endswith(".md"):
        write_bytes(path, render.markdown(frame).encode())
    elif ending.endswith(".tex"):
        write_bytes(path, render.latex(frame).encode())
    elif ending == ".csv":
        tables.write(frame, path)
    else:
        shared.write_result(frame, report.to_dict(), path)
