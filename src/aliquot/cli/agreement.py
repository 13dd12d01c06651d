"""`aliquot agreement`: do my judges agree, and whom can I trust?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from aliquot.cli import common, render
from aliquot.cli.agreement_tables import show
from aliquot.cli.clean import read_judged
from aliquot.data.evalset import EvalSet
from aliquot.data.io import load
from aliquot.errors import DataError, FormatError, unknown_name
from aliquot.judge.agreement import agreement
from aliquot.judge.agreement_result import TABLES
from aliquot.judge.heat import PAIR_MEASURES
from aliquot.report.heatmap import heatmap, require_drawable
from aliquot.stats.trust import VARIANTS

_WHAT = "What to compare"
_HOW = "How to measure"


def run(
    data: common.DataArgument,
    judgments: Annotated[
        Path | None,
        typer.Option("--judgments", "-j", metavar="FILE", help="People's answers, where DATA has none or others."),
    ] = None,
    criterion: Annotated[
        str | None, typer.Option("--criterion", metavar="NAME", help="Only this one.", rich_help_panel=_WHAT)
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="A,B",
            rich_help_panel=_WHAT,
            help="Item or judgment columns to split by, none, or auto (domain).",
        ),
    ] = "auto",
    annotators: Annotated[
        str | None, typer.Option("--annotators", metavar="A,B", help="Only these people.", rich_help_panel=_WHAT)
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="NAME=A|B,...",
            rich_help_panel=_WHAT,
            help="Groups to compare, or a column, e.g. protocol.",
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option("--answer", metavar="COLUMN", rich_help_panel=_WHAT, help="The answers' column; may hold labels."),
    ] = None,
    recode: Annotated[
        list[str] | None,
        typer.Option(
            "--recode",
            metavar="MAP",
            rich_help_panel=_WHAT,
            help="Join answers: 1|2=low,3|4|5=high. Several, NAME:MAP each, are compared.",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="LOW:HIGH", rich_help_panel=_WHAT, help="Refuse answers outside these ends."),
    ] = None,
    max_distinct: Annotated[
        int | None,
        typer.Option("--max-distinct", metavar="N", rich_help_panel=_WHAT, help="Also outputs with at most N answers."),
    ] = None,
    level: Annotated[
        str, typer.Option("--level", help="nominal, ordinal, interval, ratio or auto.", rich_help_panel=_HOW)
    ] = "auto",
    measures: Annotated[
        str | None,
        typer.Option("--measures", metavar="A,B", rich_help_panel=_HOW, help="Coefficients, e.g. alpha,kappa,icc2."),
    ] = None,
    trust: Annotated[
        bool | None,
        typer.Option("--trust/--no-trust", rich_help_panel=_HOW, help="Trust coefficients; by default if quick."),
    ] = None,
    trust_variant: Annotated[
        str, typer.Option("--trust-variant", help="paper or released.", rich_help_panel=_HOW)
    ] = "paper",
    bootstrap: Annotated[
        int, typer.Option("--bootstrap", metavar="N", help="Draws for intervals; 0 for none.", rich_help_panel=_HOW)
    ] = 1000,
    confidence: Annotated[
        float, typer.Option("--confidence", help="Coverage of the intervals.", rich_help_panel=_HOW)
    ] = 0.95,
    full: Annotated[bool, typer.Option("--full", help="Show every pair and every annotator.")] = False,
    table: Annotated[
        str, typer.Option("--table", metavar="NAME", help=f"What -o writes as a table: {', '.join(TABLES)}.")
    ] = "coefficients",
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw a heat map of pairs: .svg, .png or .pdf.")
    ] = None,
    pair_measure: Annotated[
        str | None, typer.Option("--pair-measure", metavar="NAME", help="What the heat map shows, e.g. kappa.")
    ] = None,
    systems: common.SystemsOption = None,
    exclude: common.ExcludeOption = None,
    format: common.FormatOption = None,  # noqa: A002
    columns: common.ColumnsOption = None,
    seed: common.SeedOption = 0,
    json: common.JsonOption = False,
    output: common.OutputOption = None,
) -> None:
    """Do my judges agree, and whom can I trust?

    Reads data with judgments, or a table of them; prints coefficients of agreement with intervals, over all and for
    each criterion and domain, all pairs of annotators, each annotator against the rest, and how consistent people are
    with themselves.

    Example: aliquot agreement judgments.csv --criterion fluency --plot pairs.svg

    Example: aliquot agreement labels.csv --answer label --recode "L|A|T=unusable,MT|E|F=usable,V=valid"
    """
    for path in (output, plot):
        common.require_writable(path)
    if plot is not None:
        require_drawable(plot)
    if pair_measure is not None and pair_measure not in PAIR_MEASURES:
        raise unknown_name("measure of pairs", pair_measure, PAIR_MEASURES)
    if table not in TABLES:
        raise unknown_name("table", table, TABLES, "choose with --table")
    if trust_variant not in VARIANTS:
        raise unknown_name("trust variant", trust_variant, VARIANTS, "choose with --trust-variant")
    given = _read(data, judgments, answer, columns=columns, systems=systems, exclude=exclude, format=format)
    with render.busy("comparing annotators"):
        result = agreement(
            given, criterion=criterion, annotators=common.names(annotators) or None, groups=groups,
            by=by if by in ("auto", "none") else common.names(by), level=level, recode=recode or None,
            scale=common.value_range(scale, "--scale", ":"), answer=answer,
            measures=common.names(measures) or "auto", max_distinct=max_distinct, trust=trust,
            trust_variant=trust_variant, bootstrap=bootstrap, confidence=confidence, seed=seed,
        )  # fmt: skip
    if plot is not None:
        heatmap(result, plot, measure=pair_measure)
    if output is not None:
        common.write_result(result.to_frame(table), result.to_dict(), output)
    if json:
        common.print_json(result.to_dict())
        return
    show(result, render.console(), full=full, pair_measure=pair_measure)
    for path in (output, plot):
        if path is not None:
            render.console().print(f"wrote {path}", markup=False)


def _read(data: str, judgments: Path | None, answer: str | None, **options: str | None) -> EvalSet | pl.DataFrame:
    """Read data with judgments of its own or given apart; a table whose answers may be labels stays a table."""
    try:
        given = read_judged(data, answer if judgments is None else None, **options)
    except FormatError as error:
        if answer is None and "need a column 'system'" in str(error):
            raise FormatError(f"{error}; labels of items without systems are read with --answer COLUMN") from None
        raise
    if judgments is None or isinstance(given, pl.DataFrame):
        return given
    loaded = load(judgments)
    if loaded.judgments is None:
        raise DataError(f"{judgments}: no judgments in it; a table of them has item, system, annotator and value")
    return replace(given, judgments=loaded.judgments)
