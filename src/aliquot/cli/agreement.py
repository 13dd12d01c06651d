"""`aliquot agreement`: do my annotators agree, and which of them can I trust?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from aliquot.annotation.agreement import SPAN_MEASURES, agreement
from aliquot.annotation.agreement_result import PAIR_MEASURES, TABLES, Agreement, pair_matrix, with_margins
from aliquot.annotation.coefficients import MEASURES
from aliquot.cli import ALL_ROWS, common, options, render
from aliquot.errors import unknown_name
from aliquot.stats.annotator_model import TRUST_VARIANTS

_what = partial(typer.Option, rich_help_panel="What to compare")
_how = partial(typer.Option, rich_help_panel="How to measure")
PICTURES = ("pairs", "annotators")
"""What --plot can draw."""


def run(
    data: options.DataArgument,
    judgments: Annotated[
        list[Path] | None,
        options.judgments_option(help="People's judgments, where DATA has none or others; may be repeated."),
    ] = None,
    criterion: Annotated[str | None, _what("--criterion", metavar="NAME", help="Only this one.")] = None,
    by: Annotated[
        str, _what("--by", metavar="A,B", help="Item or judgment columns to split by, none, or auto (domain).")
    ] = "auto",
    annotators: Annotated[str | None, _what("--annotators", metavar="A,B", help="Only these.")] = None,
    groups: Annotated[
        str | None, _what("--groups", metavar="NAME=A|B,...", help="Groups to compare, or a column, e.g. protocol.")
    ] = None,
    answer: Annotated[
        str | None, _what("--answer", metavar="COLUMN", help="The judgments' column; may hold labels.")
    ] = None,
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
        int | None, _what("--max-distinct", metavar="N", help="Also outputs with at most N judgments.")
    ] = None,
    level: Annotated[str, _how("--level", help="nominal, ordinal, interval, ratio or auto.")] = "auto",
    measures: Annotated[
        str | None, _how("--measures", metavar="A,B", help="Coefficients, e.g. alpha,kappa,icc2.")
    ] = None,
    trust: Annotated[bool | None, _how("--trust/--no-trust", help="Trust coefficients; by default if quick.")] = None,
    trust_variant: Annotated[str, _how("--trust-variant", help="paper or released.")] = "paper",
    bootstrap: Annotated[int, _how("--bootstrap", metavar="N", max=10**6, help="Draws of intervals; 0: none.")] = 1000,
    confidence: Annotated[float, _how("--confidence", help="Coverage of the intervals.")] = 0.95,
    full: Annotated[bool, typer.Option("--full", help="Show every pair and every annotator.")] = False,
    table: Annotated[
        str, typer.Option("--table", metavar="NAME", help=f"What -o writes as a table: {', '.join(TABLES)}.")
    ] = "coefficients",
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw a picture: .svg, .png or .pdf.")
    ] = None,
    picture: Annotated[
        str,
        typer.Option("--picture", metavar="NAME", help="Which: pairs (heat map) or annotators (severity, noise)."),
    ] = PICTURES[0],
    pair_measure: Annotated[
        str | None, typer.Option("--pair-measure", metavar="NAME", help="What the heat map shows, e.g. kappa.")
    ] = None,
    systems: options.SystemsOption = None,
    exclude: options.ExcludeOption = None,
    format: options.FormatOption = None,  # noqa: A002
    columns: options.ColumnsOption = None,
    key: options.KeyOption = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
    all_rows: options.AllRowsOption = False,  # noqa: ARG001
    output: options.OutputOption = None,
) -> None:
    """Do my annotators agree, and which of them can I trust?

    Reads data with judgments, or a table of them; prints coefficients of agreement with intervals, over all and for
    each criterion and domain, all pairs of annotators, each annotator against the rest, and how consistent annotators
    are with themselves.

    Example: aliquot agreement judgments.csv --criterion fluency --plot pairs.svg

    Example: aliquot agreement labels.csv --answer label --recode "L|A|T=unusable,MT|E|F=usable,V=valid"
    """
    common.require_writable(output)
    common.require_picture(plot, picture, PICTURES)
    if pair_measure is not None and pair_measure not in PAIR_MEASURES:
        raise unknown_name("measure of pairs", pair_measure, PAIR_MEASURES)
    if table not in TABLES:
        raise unknown_name("table", table, TABLES, "choose with --table")
    if trust_variant not in TRUST_VARIANTS:
        raise unknown_name("trust variant", trust_variant, TRUST_VARIANTS, "choose with --trust-variant")
    given, apart = common.load_with_judgments(
        data, judgments, answer=answer, columns=columns, key=key, systems=systems, exclude=exclude, format=format
    )
    given = given if apart is None else replace(given, judgments=apart)
    with render.busy("comparing annotators"):
        result = agreement(
            given,
            criterion=criterion,
            annotators=common.names(annotators) or None,
            groups=groups,
            by=by if by in ("auto", "none") else common.names(by),
            level=level,
            recode=recode or None,
            scale=common.value_range(scale, "--scale", ":"),
            answer=answer,
            measures=common.names(measures) or "auto",
            max_distinct=max_distinct,
            trust=trust,
            trust_variant=trust_variant,
            bootstrap=bootstrap,
            confidence=confidence,
            seed=seed,
        )
    common.draw(plot, lambda: _figure(result, picture, pair_measure))
    if output is not None:
        common.write_result(result.to_frame(table), result.to_dict(), output)
    if json:
        common.print_json(result.to_dict())
        return
    if full:
        ALL_ROWS.append(True)
    show(result, render.console(), full=full, pair_measure=pair_measure)
    for path in (output, plot):
        if path is not None:
            render.console().print(f"wrote {path}", markup=False)


def _figure(result: Agreement, picture: str, measure: str | None) -> Any:
    from aliquot.report.figures.annotators import heat_figure, severity_figure  # noqa: PLC0415  (an extra)

    return severity_figure(result) if picture == "annotators" else heat_figure(result, measure=measure)


# -- in a terminal -------------------------------------------------------------------------------------------------

HEAT = 12
"""Annotators up to which all pairs are shown as a heat map."""
_ANNOTATORS = 20  # annotators up to which all are shown
_SOME = 10  # rows of a longer table
_ANSWERS = 10  # judgments up to which their use is shown
_SHADES = "\u00a0░▒▓█"  # the first is a blank that is not cut off


_SHORT = {"kappa_linear": "linear", "kappa_quadratic": "quadratic"}


def show(result: Agreement, console: Console, *, full: bool = False, pair_measure: str | None = None) -> None:
    """Print the verdict, then the tables that are not empty."""
    render.verdict(result.verdict, console)
    console.print(_head(result), markup=False)
    console.print()
    for table in (
        _coefficients(result),
        _groups_of_answers(result),
        _between_groups(result),
        _pairs(result, pair_measure, full=full),
        _annotators(result, full=full),
        _repeats(result, full=full),
        _answers(result),
        _spans(result, full=full),
    ):
        if table is not None:
            console.print(table)
            console.print()
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    render.signature(result.signature, console)


def _titled(title: str, table: Table, caption: str = "") -> Group:
    """A table under a title that may be longer than the table is wide."""
    return Group(Text(title, style="bold"), table, *([Text(caption, style="italic")] if caption else []))


def _head(result: Agreement) -> str:
    first = result.coefficients.row(0, named=True)
    return (
        f"{result.annotators.height} annotators; {first['answers']} judgments on {first['outputs']} outputs with at "
        f"least two, of {first['items']} items; {result.level}"
    )


def _coefficients(result: Agreement) -> Group:
    table = render.columns(render.table(), left=["coefficient"], right=["value", "interval"])
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in result.coefficients.filter(pl.col("kind") == "all").iter_rows(named=True):
        low, value, high = (np.nan if row[name] is None else row[name] for name in ("low", "value", "high"))
        interval = "" if np.isnan(low) else f"{low:.2f} to {high:.2f}"
        words = MEASURES.get(row["measure"]) or SPAN_MEASURES[row["measure"]]
        bar = render.bar(low, value, high, (min(0.0, low), 1.0), width=16)
        table.add_row(row["measure"], render.fixed(value), interval, bar, words)
    return _titled(f"agreement ({result.confidence:.0%} intervals over items)", table)


def _groups_of_answers(result: Agreement) -> Group | None:
    """Values by criterion, domain, group of annotators and scale; intervals are in the written table."""
    rows = result.coefficients.filter(pl.col("kind") != "all")
    if rows["value"].null_count() == rows.height:
        return None
    measures = rows["measure"].unique(maintain_order=True).to_list()[:8]
    table = render.table()
    table.add_column("", no_wrap=True)
    table.add_column("group", overflow="fold", min_width=12)
    render.columns(table, right=[*(_SHORT.get(name, name) for name in measures), "outputs", "annotators"])
    last = None
    for (kind, group), part in rows.group_by("kind", "group", maintain_order=True):
        values = dict(part.select("measure", "value").iter_rows())
        first = part.row(0, named=True)
        cells = [render.fixed(values.get(name)) for name in measures]
        table.add_row(
            "" if kind == last else str(kind), str(group), *cells, str(first["outputs"]), str(first["annotators"])
        )
        last = kind
    return _titled("by group", table)


def _between_groups(result: Agreement) -> Group | None:
    if not result.groups.height:
        return None
    right = ["outputs", "pearson", "spearman", "a - b"]
    table = render.columns(render.table(), left=["a", "b", "criterion"], right=right)
    for a, b, criterion, shared, pearson, spearman, difference in result.groups.iter_rows():
        numbers = (render.fixed(pearson), render.fixed(spearman), render.number(difference))
        table.add_row(a, b, criterion, str(shared), *numbers)
    return _titled("groups: their mean judgments on the same outputs", table)


# -- pairs ---------------------------------------------------------------------------------------------------------


def _pairs(result: Agreement, measure: str | None, *, full: bool) -> Group | None:
    if not result.pairs.height:
        return None
    if result.pairs.height == 1 and result.tables and not full:
        return _square(result)
    if result.annotators.height <= HEAT and not full:
        return _heat(result, measure)
    return _pair_rows(result, measure, full=full)


def _heat(result: Agreement, measure: str | None) -> Group:
    matrix = pair_matrix(result, measure)
    table = render.table()
    table.add_column("", overflow="fold", max_width=16)
    for number in range(1, len(matrix.annotators) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    table.padding = (0, 1, 0, 0)
    for at, name in enumerate(matrix.annotators):
        cells = ["·" if at == other else _shaded(value) for other, value in enumerate(matrix.values[at])]
        table.add_row(f"{at + 1} {name}", *cells)
    return _titled(f"pairs of annotators: {matrix.words}", table)


def _shaded(value: float) -> str:
    """A number with a block; the higher the number, the darker the block."""
    if np.isnan(value):
        return "-"
    shade = _SHADES[int(np.clip(value * len(_SHADES), 0, len(_SHADES) - 1))]
    return f"{round(value, 2) + 0.0:.2f}{shade}"


def _square(result: Agreement) -> Group:
    """Two annotators: the table of their judgments with margins, and what the margins allow."""
    (a, b), counts = next(iter(result.tables.items()))
    if counts.height > _ANSWERS:
        return _pair_rows(result, None, full=True)
    row = result.pairs.row(0, named=True)
    caption = (
        f"kappa {render.fixed(row['kappa'])}, at most {render.fixed(row['kappa_max'])} with these margins; "
        f"equal margins: p = {render.fixed(row['p_margins'])}"
    )
    wide = with_margins(counts)
    table = render.columns(render.table(), left=[""], right=wide.columns[1:])
    for answer, *numbers in wide.iter_rows():
        table.add_row(answer, *(str(number) for number in numbers))
    return _titled(f"judgments of {a} (rows) and {b} (columns)", table, caption)


def _pair_rows(result: Agreement, measure: str | None, *, full: bool) -> Group:
    matrix = pair_matrix(result, measure)
    rows = result.pairs.sort(matrix.measure, descending=True, nulls_last=True)
    few = not full and rows.height > 2 * _SOME
    defined = rows.filter(pl.col(matrix.measure).is_not_null())
    shown = pl.concat([defined.head(_SOME), defined.tail(_SOME)]) if few and defined.height > 2 * _SOME else rows
    shown = shown if full else shown.head(2 * _SOME)
    names = [name for name in result.pairs.columns[3:] if rows[name].null_count() < rows.height]
    title = f"the {_SOME} pairs that agree best and worst, of {rows.height} (--full shows all)" if few else "pairs"
    table = render.columns(render.table(), left=["a", "b"], right=["shared", *(_PAIR_WORDS[n] for n in names)])
    for row in shown.iter_rows(named=True):
        numbers = (render.number(row[n]) if n == "difference" else render.fixed(row[n]) for n in names)
        table.add_row(row["a"], row["b"], str(row["shared"]), *numbers)
    return _titled(title, table)


_PAIR_WORDS = {
    "raw": "raw",
    "kappa": "kappa",
    "kappa_max": "max",
    "kappa_linear": "linear",
    "kappa_quadratic": "quadratic",
    "p_margins": "p(margins)",
    "pearson": "pearson",
    "spearman": "spearman",
    "difference": "a - b",
}


# -- annotators --------------------------------------------------------------------------------------------------------


def _annotators(result: Agreement, *, full: bool) -> Group | None:
    rows = result.annotators.filter(pl.col("compared") > 0)
    if not rows.height:
        return None
    key = "pearson" if rows["pearson"].null_count() < rows.height else "same"
    rows = rows.sort(key, descending=True, nulls_last=True)
    title = "annotators against the rest, best first"
    if rows.height > _ANNOTATORS and not full:
        known = rows.filter(pl.col(key).is_not_null())
        title = f"the {_SOME} annotators furthest from the rest, of {rows.height} (--full shows all)"
        rows = known.tail(_SOME)
    words = {name: word for name, word in _ANNOTATOR_WORDS.items() if rows[name].null_count() < rows.height}
    if result.level in ("interval", "ratio"):
        words.pop("same", None)
    table = render.table()
    table.add_column("annotator", overflow="fold", min_width=9)
    render.columns(table, right=["answers", "compared", *words.values()])
    for row in rows.iter_rows(named=True):
        numbers = [render.number(row[n]) if n in ("severity", "noise") else render.fixed(row[n]) for n in words]
        if "trust" in words and row["outlier"]:
            numbers[-1] += "*"
        table.add_row(row["annotator"], str(row["answers"]), str(row["compared"]), *numbers)
    outliers = "trust" in words and bool(rows["outlier"].any())
    return _titled(title, table, "* trust of at most 0.5: an outlier in the sense of its authors" if outliers else "")


_ANNOTATOR_WORDS = {
    "severity": "severity",
    "noise": "noise",
    "reliability": "reliability",
    "pearson": "r rest",
    "same": "same",
    "alpha_without": "alpha without",
    "trust": "trust",
}


def _repeats(result: Agreement, *, full: bool) -> Group | None:
    rows = result.repeats if full else result.repeats.head(1 + _SOME)
    if not rows.height:
        return None
    more = result.repeats.height - rows.height
    title = "the same annotator on the same output again" + (f" ({more} more with --full)" if more else "")
    right = ["repeats", "same judgment", "mean difference", "pearson"]
    table = render.columns(render.table(), left=["annotator"], right=right)
    for name, count, same, difference, pearson in rows.iter_rows():
        numbers = (render.percent(same), render.number(difference), render.fixed(pearson))
        table.add_row(name, str(count), *numbers)
    return _titled(title, table)


def _answers(result: Agreement) -> Group | None:
    """Margins: how often each annotator uses each value."""
    answers = result.answers["answer"].unique(maintain_order=True).to_list()
    if not answers or len(answers) > _ANSWERS or result.annotators.height > _ANNOTATORS or result.level == "interval":
        return None
    table = render.columns(render.table(), left=["annotator"], right=[*answers, "answers"])
    for (name,), part in result.answers.group_by("annotator", maintain_order=True):
        shares = ["-" if share is None else render.percent(share) for share in part["share"]]
        table.add_row(str(name), *shares, str(part["count"].sum()))
    return _titled("use of judgments", table)


def _spans(result: Agreement, *, full: bool) -> Group | None:
    rows = result.spans if full else result.spans.head(1 + _SOME)
    if not rows.height:
        return None
    right = ["texts", "f1", "f1 severity", "severity match"]
    table = render.columns(render.table(), left=["a", "b"], right=right)
    for a, b, texts, *numbers in rows.iter_rows():
        table.add_row(a, b, str(texts), *(render.fixed(number) for number in numbers))
    return _titled("marked characters", table)
