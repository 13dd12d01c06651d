"""`aliquot report`: one page to send to a boss or a reviewer."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from aliquot.cli import common, options, render
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import LeftOutWarning
from aliquot.estimation.targets import TARGETS
from aliquot.report.findings import PARTS, read_choices
from aliquot.report.page import make_report, require_page
from aliquot.validation import one_of

_how = partial(typer.Option, rich_help_panel="How to estimate")


def run(
    data: Annotated[
        list[str], typer.Argument(metavar="DATA...", help="Test sets, or tables of choices between systems.")
    ],
    reading: options.Reading,
    output: options.Output,
    selection: Annotated[
        list[Path] | None,
        typer.Option("--selection", "-s", metavar="FILE", help="What `aliquot select` wrote; once for each test set."),
    ] = None,
    judgments: Annotated[
        list[Path] | None,
        options.judgments_option(
            help="People's answers, scores or choices; may be repeated, or once for each test set."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Title of the page.")] = None,
    method: Annotated[str, _how("--method", "-m", metavar="SPEC", help="Estimator, as in estimate.")] = "auto",
    level: Annotated[float, _how("--level", help="Coverage of the intervals.")] = 0.95,
    alpha: Annotated[float, _how("--alpha", help="Significance of clusters and pairs.")] = 0.05,
    target: Annotated[str, _how("--target", help="As in estimate: testset, given or beyond.")] = "testset",
    clean: Annotated[
        str | None,
        options.rare_option(
            "--clean", metavar="PRESET", help="Clean first: da_wmt, da_humeval, crowd, semantic_differential."
        ),
    ] = None,
    without: Annotated[
        str | None, options.rare_option("--without", metavar="A,B", help=f"Parts to leave out: {', '.join(PARTS)}.")
    ] = None,
    examples: Annotated[
        int, options.rare_option("--examples", metavar="N", min=0, max=1000, help="Items shown in full, at most.")
    ] = 20,
    criterion: options.CriterionOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """Show it to my boss, my reviewers, myself.

    Makes one HTML page that opens offline and prints well: who is best and how sure that is, all pairs, what was
    judged, whether the judgments can be trusted, what metrics are worth, the items on which systems differ most, what
    more judgments would buy, and texts to paste into a paper. What the data do not tell is left out.

    Example: aliquot report data.jsonl -s selection.jsonl -j judgments.csv -o report.html

    Example: aliquot report en-de.jsonl he-en.jsonl --title "Shared task" -o report.html

    Example: aliquot report data.jsonl -j choices.csv -o preferences.html
    """
    common.require_writable(output.file)
    require_page(output.file or Path("-"))
    answers = [judgments] if len(data) == 1 else common.for_each_set(judgments, len(data), "--judgments")
    readings = common.split_reading(reading, len(data))
    loaded = [_load_data(*each) for each in zip(data, answers, readings, strict=True)]
    with (
        render.count_progress("reporting") as told,
        render.show_activity("making the report"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", LeftOutWarning)  # it stands among what is not in the report
        page = make_report(
            [one for one, _ in loaded],
            selection=common.for_each_set(selection, len(data), "--selection") if selection else None,
            judgments=[made for _, made in loaded],
            title=title,
            method=method,
            human=reading.human,
            criterion=criterion,
            level=level,
            alpha=alpha,
            target=one_of("target", target, TARGETS),
            clean=clean,
            without=common.split_names(without),
            examples=examples,
            seed=seed,
            progress=told,
        )
    if output.file is not None:
        page.save(output.file)
    if output.json:
        common.print_json(page.to_dict())
        return
    console = render.make_console()
    render.print_result(page, console)
    written = (
        f"wrote {output.file} ({page.megabytes:.2f} MB)" if output.file else "nothing written; give -o report.html"
    )
    console.print(written, markup=False)


def _load_data(data: str, judgments: list[Path] | Path | None, reading: options.Reading) -> tuple[Any, Judgments | Any]:
    """Load data and judgments; a table of choices stays a table."""
    if read_choices(data) is not None:
        return data, judgments
    if judgments is not None and read_choices(judgments) is not None:
        evalset: EvalSet = common.load_data(data, reading)
        return evalset, judgments
    return common.load_with_judgments(data, [judgments] if isinstance(judgments, Path) else judgments, reading)
