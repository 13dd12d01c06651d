"""`aliquot clean`: which judgments should not count, and what does leaving them out change?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.annotation.clean import Cleaned, clean
from aliquot.cli import ALL_ROWS, common, options, render
from aliquot.core.evalset import EvalSet
from aliquot.errors import OptionError, OutputError
from aliquot.io.save import save
from aliquot.io.writing import resolve_ending

_step = partial(typer.Option, rich_help_panel="Steps")


def run(
    data: options.DataArgument,
    reading: options.Reading,
    output: options.Output,
    judgments: options.OtherJudgmentsOption = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", "-p", metavar="NAME", help="da_wmt, da_humeval, crowd or semantic_differential."),
    ] = None,
    steps: Annotated[
        str | None, _step("--steps", metavar="SPEC+SPEC", help="Steps to run, or thresholds to change in the preset.")
    ] = None,
    without: Annotated[str | None, _step("--without", metavar="A,B", help="Steps of the preset to leave out.")] = None,
    scale: Annotated[
        str | None, _step("--scale", metavar="LOW:HIGH", help="Mark values outside this scale, before the other steps.")
    ] = None,
    labels: Annotated[str | None, _step("--labels", metavar="A,B", help="Mark values that are none of these.")] = None,
    strict: Annotated[bool, _step("--strict", help="Refuse values outside --scale or --labels instead.")] = False,
    fresh: Annotated[bool, _step("--fresh", help="Ignore marks that the data have.")] = False,
    answer: Annotated[str | None, _step("--answer", metavar="COLUMN", help="Column of judgments or labels.")] = None,
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
) -> None:
    """Which judgments should not count, and what does leaving them out change?

    Marks judgments with the reason, deletes none, and shows what each step did to annotators and systems. With -o the
    data are written with their marks, which `combine`, `agreement` and `estimate` heed. Steps: scale, labels,
    duplicates, standardise, outliers, burn_in, speeders, fast_pages, skips, straight_liners, repeats, exam, controls.

    Example: aliquot clean data.jsonl --preset crowd -o cleaned.jsonl

    Example: aliquot clean data.jsonl --steps burn_in:first=10+speeders:share=0.4 --scale 0:100
    """
    common.require_writable(output.file)
    common.require_writable(audit)
    common.require_picture(plot)
    judged = common.load_judged(data, judgments, reading, answer=answer)
    with render.show_activity("cleaning"):
        cleaned = clean(
            judged,
            preset,
            steps=steps,
            without=common.split_names(without),
            scale=common.parse_range(scale, "--scale", ":"),
            labels=_parse_numbers(labels),
            strict=strict,
            fresh=fresh,
            answer=answer or "value",
            recode=recode or None,
        )
    if output.file is not None:
        write(cleaned.evalset, output.file)
    if audit is not None:
        common.write_result(cleaned.annotators, cleaned.to_dict(), audit)
    common.write_figure(plot, lambda: _make_figure(cleaned))
    if annotators:
        ALL_ROWS.append(True)
    common.print_outcome(cleaned, output, [output.file, audit, plot])


def _make_figure(cleaned: Cleaned) -> Any:
    from aliquot.report.figures.annotators import cleaning_figure

    return cleaning_figure(cleaned)


def _parse_numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in common.split_names(text)]
    except ValueError:
        raise OptionError(f"--labels '{text}': labels are numbers, e.g. 0,0.5,1") from None


def write(evalset: EvalSet, path: Path) -> None:
    """Write the data with their marks: .jsonl, .parquet and standard output everything, .csv and .tsv the judgments."""
    if not Path(resolve_ending(path, "x.jsonl")).suffix:
        raise OutputError(f"{path}: a folder of scores has no place for marks; use .jsonl, .parquet, .csv or .tsv")
    save(evalset, path, what="judgments" if path.suffix else "scores")
