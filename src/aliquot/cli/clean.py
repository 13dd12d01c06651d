"""`aliquot clean`: which judgments should not count, and what does leaving them out change?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.console import Console
from rich.table import Table

from aliquot.annotation.clean import Cleaned, clean
from aliquot.cli import common, options, render
from aliquot.core.evalset import EvalSet
from aliquot.errors import OptionError, OutputError
from aliquot.io.load import save
from aliquot.io.writing import resolve_ending

_step = partial(typer.Option, rich_help_panel="Steps")
_SHOWN = 10


def run(
    data: options.DataArgument,
    preset: Annotated[
        str | None,
        typer.Option("--preset", "-p", metavar="NAME", help="da_wmt, da_humeval, crowd or semantic_differential."),
    ] = None,
    steps: Annotated[
        str | None, _step("--steps", metavar="SPEC+SPEC", help="Steps to run, or thresholds to change in the preset.")
    ] = None,
    without: Annotated[str | None, _step("--without", metavar="A,B", help="Steps of the preset to leave out.")] = None,
    scale: Annotated[
        str | None, _step("--scale", metavar="LOW:HIGH", help="Mark values outside, first of all.")
    ] = None,
    labels: Annotated[str | None, _step("--labels", metavar="A,B", help="Mark values that are none of these.")] = None,
    strict: Annotated[bool, _step("--strict", help="Refuse such values instead.")] = False,
    fresh: Annotated[bool, _step("--fresh", help="Forget marks the data came with.")] = False,
    answer: Annotated[str | None, _step("--answer", metavar="COLUMN", help="Where judgments or labels stand.")] = None,
    recode: Annotated[
        list[str] | None,
        _step("--recode", metavar="OLD=NEW,...", help="What judgments are worth: no=0,yes=1; they become the values."),
    ] = None,
    annotators: Annotated[bool, typer.Option("--annotators", help="Show all annotators, not only the worst.")] = False,
    audit: Annotated[
        Path | None,
        typer.Option("--audit", metavar="FILE", help="Write the audit: .json all of it, a table the annotators."),
    ] = None,
    plot: options.PlotOption = None,
    human: options.HumanOption = None,
    systems: options.SystemsOption = None,
    exclude: options.ExcludeOption = None,
    format: options.FormatOption = None,  # noqa: A002
    columns: options.ColumnsOption = None,
    key: options.KeyOption = None,
    mqm_weights: options.WeightsOption = None,
    json: options.JsonOption = False,
    all_rows: options.AllRowsOption = False,  # noqa: ARG001
    output: options.OutputOption = None,
) -> None:
    """Which judgments should not count, and what does leaving them out change?

    Marks judgments with the reason, deletes none, and shows what each step did to annotators and systems. With -o the
    data are written with their marks, which `combine`, `agreement` and `estimate` heed. Steps: scale, labels,
    duplicates, standardise, outliers, burn_in, speeders, fast_pages, skips, straight_liners, repeats, exam, controls.

    Example: aliquot clean data.jsonl --preset crowd -o cleaned.jsonl

    Example: aliquot clean data.jsonl --steps burn_in:first=10+speeders:share=0.4 --scale 0:100
    """
    common.require_writable(output)
    common.require_writable(audit)
    common.require_picture(plot)
    judged = common.load_data(
        data,
        answer=answer,
        human=human,
        systems=systems,
        exclude=exclude,
        format=format,
        columns=columns,
        key=key,
        mqm_weights=mqm_weights,
    )
    with render.busy("cleaning"):
        cleaned = clean(
            judged,
            preset,
            steps=steps,
            without=common.names(without),
            scale=common.value_range(scale, "--scale", ":"),
            labels=_numbers(labels),
            strict=strict,
            fresh=fresh,
            answer=answer or "value",
            recode=recode or None,
        )
    if output is not None:
        write(cleaned.evalset, output)
    if audit is not None:
        common.write_result(cleaned.annotators, cleaned.to_dict(), audit)
    common.draw(plot, lambda: _figure(cleaned))
    if json:
        common.print_json(cleaned.to_dict())
        return
    console = render.console()
    show(cleaned, console, full=annotators)
    for path in (output, audit, plot):
        if path is not None:
            console.print(f"wrote {path}", markup=False)


def _figure(cleaned: Cleaned) -> Any:
    from aliquot.report.figures.annotators import cleaning_figure  # noqa: PLC0415  (matplotlib is an extra)

    return cleaning_figure(cleaned)


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in common.names(text)]
    except ValueError:
        raise OptionError(f"--labels '{text}': labels are numbers, e.g. 0,0.5,1") from None


def write(evalset: EvalSet, path: Path) -> None:
    """Write the data with their marks: .jsonl, .parquet and standard output everything, .csv and .tsv the judgments."""
    if not Path(resolve_ending(path, "x.jsonl")).suffix:
        raise OutputError(f"{path}: a folder of scores has no place for marks; use .jsonl, .parquet, .csv or .tsv")
    save(evalset, path, what="judgments" if path.suffix else "scores")


def show(cleaned: Cleaned, console: Console, *, full: bool = False) -> None:
    """Print what was marked, whose, and what it changes."""
    counts = cleaned.counts
    n = cleaned.annotators.height
    counted = counts["answered"] - counts["marked_before"]
    parts = [f"{counts['answers']} judgments by {n} annotator{'s' * (n != 1)}"]
    parts += [f"{counts[state]} {state}" for state in ("skipped", "pending") if counts[state]]
    if counts["marked_before"]:
        parts.append(f"{counts['marked_before']} marked before")
    parts.append(f"{counts['marked']} marked now ({render.percent(counts['marked'] / max(1, counted))})")
    render.verdict(cleaned.verdict, console)
    console.print(", ".join(parts) + "\n", markup=False)
    console.print(_step_table(cleaned))
    console.print()
    if n:
        shown = cleaned.annotators if full else cleaned.annotators.head(_SHOWN)
        console.print(_annotator_table(shown))
        if shown.height < n:
            console.print(f"{n - shown.height} more with --annotators")
        console.print()
    console.print(_system_table(cleaned))
    console.print()
    for audit in cleaned.steps:
        if audit.note:
            console.print(f"note: {audit.step}: {audit.note}", markup=False)
    for note in cleaned.notes:
        console.print(f"note: {note}", markup=False)
    render.signature(cleaned.signature, console)


def _step_table(cleaned: Cleaned) -> Table:
    table = render.columns(
        render.table("steps, in order"),
        left=["step"],
        right=["marked", "share", "annotators gone", "largest change", "swaps"],
    )
    table.add_column("of", overflow="fold")
    for row in cleaned.steps:
        if not row.applied:
            table.add_row(row.step, "-", "-", "-", "-", "-", "not applied")
            continue
        table.add_row(
            row.step,
            str(row.marked),
            render.percent(row.share),
            str(row.annotators),
            render.number(row.change),
            str(row.swaps),
            row.system or "",
        )
    return table


def _annotator_table(annotators: pl.DataFrame) -> Table:
    """The annotators with most marks; a column for each step that marked anything."""
    fixed = ("annotator", "answers", "skipped", "pending", "median_seconds", "marked", "change", "changed_system")
    names = [name for name in annotators.columns if name not in fixed and annotators.schema[name].is_integer()]
    names = [name for name in names if (annotators[name].fill_null(0) > 0).any()][:4]
    table = render.columns(
        render.table("annotators, most marks first"),
        left=["annotator"],
        right=["answers", "marked", *names, "median s", "change"],
    )
    table.add_column("of", overflow="fold")
    for row in annotators.iter_rows(named=True):
        table.add_row(
            row["annotator"],
            str(row["answers"]),
            str(row["marked"]),
            *(_count(row[name]) for name in names),
            render.number(row["median_seconds"]),
            render.number(row["change"]),
            row["changed_system"] or "",
        )
    return table


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _system_table(cleaned: Cleaned) -> Table:
    table = render.columns(
        render.table("systems, by the mean of their outputs"),
        left=["system"],
        right=["answers", "before", "after", "change", "rank", "z before", "z after"],
    )
    for row in cleaned.systems.iter_rows(named=True):
        before, after = (_count(row[f"rank_{when}"]) for when in ("before", "after"))
        rank = after if before == after else f"{before} to {after}"
        table.add_row(
            row["system"],
            f"{row['answers_before']} to {row['answers_after']}",
            render.number(row["before"], 4),
            render.number(row["after"], 4),
            render.number(row["change"]),
            rank,
            render.fixed(row["z_before"]),
            render.fixed(row["z_after"]),
        )
    return table
