"""`aliquot agreement`: do my annotators agree, and which of them can I trust?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.annotation.agreement import agreement
from aliquot.annotation.agreement_result import PAIR_MEASURES, TABLES, Agreement
from aliquot.cli import ALL_ROWS, common, options, render
from aliquot.stats.annotator_model import TRUST_VARIANTS
from aliquot.validation import one_of

_what = partial(typer.Option, rich_help_panel="What to compare")
_how = partial(typer.Option, rich_help_panel="How to measure")
PICTURES = ("pairs", "annotators")
"""What --plot can draw."""


def run(
    data: options.DataArgument,
    reading: options.Reading,
    output: options.ResultOutput,
    judgments: options.OtherJudgmentsOption = None,
    criterion: Annotated[str | None, _what("--criterion", metavar="NAME", help="Use only this criterion.")] = None,
    by: Annotated[
        str, _what("--by", metavar="A,B", help="Item or judgment columns to split by, none, or auto (domain).")
    ] = "auto",
    annotators: Annotated[str | None, _what("--annotators", metavar="A,B", help="Use only these annotators.")] = None,
    groups: Annotated[
        str | None, _what("--groups", metavar="NAME=A|B,...", help="Groups to compare, or a column, e.g. protocol.")
    ] = None,
    answer: Annotated[str | None, _what("--answer", metavar="COLUMN", help="Column of judgments or labels.")] = None,
    recode: Annotated[
        list[str] | None,
        _what(
            "--recode", metavar="MAP", help="Join judgments: 1|2=low,3|4|5=high. Several, NAME:MAP each, are compared."
        ),
    ] = None,
    scale: Annotated[
        str | None, _what("--scale", metavar="LOW:HIGH", help="Refuse judgments outside these ends.")
    ] = None,
    max_distinct: Annotated[
        int | None, _what("--max-distinct", metavar="N", help="Also report outputs with at most N different judgments.")
    ] = None,
    level: Annotated[str, _how("--level", help="nominal, ordinal, interval, ratio or auto.")] = "auto",
    measures: Annotated[
        str | None, _how("--measures", metavar="A,B", help="Coefficients, e.g. alpha,kappa,icc2.")
    ] = None,
    trust: Annotated[
        bool | None, _how("--trust/--no-trust", help="Trust coefficients; by default up to 15 annotators.")
    ] = None,
    trust_variant: Annotated[str, _how("--trust-variant", help="paper or released.")] = "paper",
    bootstrap: Annotated[int, _how("--bootstrap", metavar="N", max=10**6, help="Draws of intervals; 0: none.")] = 1000,
    confidence: Annotated[float, _how("--confidence", help="Coverage of the intervals.")] = 0.95,
    full: Annotated[bool, typer.Option("--full", help="Show every pair and every annotator.")] = False,
    table: Annotated[
        str, options.rare_option("--table", metavar="NAME", help=f"What -o writes as a table: {', '.join(TABLES)}.")
    ] = "coefficients",
    plot: Annotated[
        Path | None, options.rare_option("--plot", metavar="FILE", help="Draw a picture: .svg, .png or .pdf.")
    ] = None,
    picture: Annotated[
        str,
        _how("--picture", metavar="NAME", help="Which: pairs (heat map) or annotators (severity, noise)."),
    ] = PICTURES[0],
    pair_measure: Annotated[
        str | None, _how("--pair-measure", metavar="NAME", help="What the heat map shows, e.g. kappa.")
    ] = None,
    seed: options.SeedOption = 0,
) -> None:
    """Do my annotators agree, and which of them can I trust?

    Reads data with judgments, or a table of them; prints coefficients of agreement with intervals, over all and for
    each criterion and domain, all pairs of annotators, each annotator against the rest, and how consistent annotators
    are with themselves.

    Example: aliquot agreement judgments.csv --criterion fluency --plot pairs.svg

    Example: aliquot agreement labels.csv --answer label --recode "L|A|T=unusable,MT|E|F=usable,V=valid"
    """
    common.require_output(output)
    common.require_picture(plot, picture, PICTURES)
    if pair_measure is not None:
        one_of("pair_measure", pair_measure, PAIR_MEASURES)
    one_of("table", table, TABLES)
    variant = one_of("trust_variant", trust_variant, TRUST_VARIANTS)
    evalset = common.load_judged(data, judgments, reading, answer=answer)
    with render.show_activity("comparing annotators"):
        result = agreement(
            evalset,
            criterion=criterion,
            annotators=common.split_names(annotators) or None,
            groups=groups,
            by=by if by in ("auto", "none") else common.split_names(by),
            level=level,
            recode=recode or None,
            scale=common.parse_range(scale, "--scale", ":"),
            answer=answer,
            measures=common.split_names(measures) or "auto",
            max_distinct=max_distinct,
            trust=trust,
            trust_variant=variant,
            bootstrap=bootstrap,
            confidence=confidence,
            seed=seed,
        )
    common.write_figure(plot, lambda: _make_figure(result, picture, pair_measure))
    if full:
        ALL_ROWS.append(True)
    details, views = ["pairs"] if full else [], result.views(pair_measure)
    common.write_and_print(result, output, table, details=details, views=views, files=[plot])


def _make_figure(result: Agreement, picture: str, measure: str | None) -> Any:
    from aliquot.report.figures.annotators import heat_figure, severity_figure

    return severity_figure(result) if picture == "annotators" else heat_figure(result, measure=measure)
