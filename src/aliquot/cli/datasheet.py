"""`aliquot datasheet`: document the experiment for reviewers and for those who repeat it (HEDS 2.0)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common, options, render
from aliquot.core.selection import Selection
from aliquot.core.view import View
from aliquot.errors import LeftOutWarning, OptionError, OutputError
from aliquot.io.overwrite import allow_in_place
from aliquot.io.writing import resolve_ending, write_bytes
from aliquot.report import datasheet
from aliquot.report.datasheet.files import find_own_comments
from aliquot.report.datasheet.rendering import Format, format_of_ending
from aliquot.report.datasheet.sheet import list_changes

app = typer.Typer(
    help="""Document an experiment: the Human Evaluation Datasheet (HEDS 2.0).

    Start a sheet from your data, let people complete it in a text editor, check it, and render it for a paper or the
    web. Compare a reproduction with the original.

    Example: aliquot datasheet new data.jsonl -o sheet.toml
    """
)

SheetArgument = Annotated[Path, typer.Argument(metavar="SHEET", help="A datasheet: .toml, .yaml or .json.")]
ForceOption = Annotated[bool, options.rare_option("--force", help="Replace a file that is there already.")]


@app.command()
def new(
    reading: options.Reading,
    output: options.Output,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="What was evaluated, as for `aliquot inspect`.")
    ] = None,
    selection: Annotated[
        Path | None, typer.Option("--selection", "-s", metavar="FILE", help="What `aliquot select` wrote.")
    ] = None,
    judgments: Annotated[
        list[Path] | None, options.judgments_option(help="People's answers: item, system, value, ...; may be repeated.")
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option("--results", "-r", metavar="FILE", help="JSON of estimate, agreement, ...; may be repeated."),
    ] = None,
    criteria: Annotated[
        str | None,
        options.rare_option("--criteria", metavar="A,B", help="Criteria; by default those of the judgments."),
    ] = None,
    protocol: Annotated[
        str | None, options.rare_option("--protocol", metavar="NAME", help="Keep only the judgments of this protocol.")
    ] = None,
    value_range: Annotated[
        str | None,
        options.rare_option("--range", metavar="LOW,HIGH", help="Ends of the scale, if the values do not show them."),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Start a datasheet, filled in as far as data, selection, judgments and results go.

    Without DATA the sheet is blank. An existing file is never replaced unless --force says so.

    Example: aliquot datasheet new data.jsonl -s selection.jsonl -r estimate.json -o sheet.toml
    """
    _refuse_existing(output.file, force=force)
    evalset, judged = common.load_with_judgments(data, judgments, reading)
    with render.show_activity("filling in"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)  # it stands among the notes of the sheet
        sheet = datasheet.new(
            evalset,
            selection=None if selection is None else Selection.load(selection),
            judgments=judged,
            results=list(results or ()),
            criteria=common.split_names(criteria) or None,
            protocol=protocol,
            human=reading.human,
            value_range=common.parse_range(value_range),
        )
    if output.file is not None:
        sheet.save(output.file, force=force)
    if output.json:
        common.print_json(sheet.to_dict())
        return
    console = render.make_console()
    render.print_result(sheet, console)
    console.print(
        f"wrote {output.file}; complete it in a text editor, then: aliquot datasheet check {output.file}"
        if output.file
        else "nothing written; give -o sheet.toml to keep it",
        markup=False,
    )


@app.command()
def check(sheet: SheetArgument, json: options.JsonOption = False, output: options.OutputOption = None) -> None:
    """List unanswered questions and broken rules; exit code 0 when the sheet is complete, 1 when it is not.

    Example: aliquot datasheet check sheet.toml
    """
    common.require_writable(output)
    result = datasheet.check(datasheet.load(sheet))
    if output is not None:
        common.write_result(result.to_frame(), result.to_dict(), output)
    if json:
        common.print_json(result.to_dict())
    else:
        _print_views(result.views())
    if not result.complete:
        raise typer.Exit(1)


@app.command("render")
def render_sheet(
    sheet: SheetArgument,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option("--format", metavar="NAME", help="markdown, latex or html; by the ending of -o, else markdown."),
    ] = None,
    full: Annotated[bool, options.rare_option("--full", help="Show the options that were not chosen, too.")] = False,
    fragment: Annotated[
        bool,
        options.rare_option("--fragment", help="LaTeX, HTML: without the frame of a document, to be put into one."),
    ] = False,
    output: options.OutputOption = None,
) -> None:
    """Write the sheet for readers: Markdown, LaTeX, or one HTML page that needs nothing else.

    Example: aliquot datasheet render sheet.toml -o sheet.html
    """
    common.require_writable(output)
    text = datasheet.render(datasheet.load(sheet), format or _default_format(output), full=full, fragment=fragment)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_bytes(output, text.encode())
    render.make_console().print(f"wrote {output}", markup=False)


@app.command()
def diff(
    original: Annotated[Path, typer.Argument(metavar="ORIGINAL", help="The datasheet of the first experiment.")],
    reproduction: Annotated[Path, typer.Argument(metavar="REPRODUCTION", help="The datasheet of its repetition.")],
    match: Annotated[
        str | None,
        options.rare_option("--match", metavar="A=B,...", help="Criterion A of the original is B in the reproduction."),
    ] = None,
    everything: Annotated[bool, options.rare_option("--all", help="Show the questions answered alike, too.")] = False,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
) -> None:
    """Compare two sheets question by question: an original and its reproduction.

    Example: aliquot datasheet diff original.toml reproduction.toml
    """
    common.require_writable(output)
    result = datasheet.diff(datasheet.load(original), datasheet.load(reproduction), match=_parse_pairs(match))
    if output is not None:
        common.write_result(result.to_frame(), result.to_dict(), output)
    if json:
        common.print_json(result.to_dict())
    else:
        hidden = "differences" if everything else "answers"
        _print_views(view for view in result.views() if view.name != hidden)


@app.command()
def copy(
    sheet: SheetArgument,
    source: Annotated[str, options.rare_option("--source", metavar="NAME", help="The criterion to copy from.")],
    targets: Annotated[
        str | None,
        options.rare_option("--targets", metavar="A,B", help="The criteria to copy to; all others if not given."),
    ] = None,
    questions: Annotated[
        str | None,
        options.rare_option(
            "--questions", metavar="4.2,4.3.5", help="Numbers or parts; else all that criteria may share."
        ),
    ] = None,
    overwrite: Annotated[bool, options.rare_option("--overwrite", help="Replace answers that are there.")] = False,
    force: Annotated[
        bool, options.rare_option("--force", help="Write although comments of yours, or a file, would be lost.")
    ] = False,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
) -> None:
    """Copy answers from one criterion to others; into the sheet itself unless -o names another file.

    What belongs to one criterion alone (what is judged, name, definition, question, agreement) is copied only when
    --questions names it.

    Example: aliquot datasheet copy sheet.toml --source fluency --targets coherence,relevance
    """
    allow_in_place(sheet)
    before = datasheet.load(sheet)
    after = datasheet.copy(
        before,
        source,
        common.split_names(targets) or None,
        questions=common.split_names(questions) or None,
        overwrite=overwrite,
    )
    if output is not None:
        _refuse_existing(output, force=force)
    else:
        _keep_comments(sheet, force=force)
    after.save(output or sheet, force=True)
    if json:
        common.print_json(after.to_dict())
        return
    console = render.make_console()
    for name in common.split_names(targets) or after.criterion_names:
        if name != source:
            changes = ", ".join(list_changes(before, after, name)) or "nothing: all there already, or nothing to copy"
            console.print(f"{source} -> {name}: {changes}", markup=False)
    console.print(f"wrote {output or sheet}", markup=False)


# -- options ---------------------------------------------------------------------------------------------------------


def _refuse_existing(output: Path | None, *, force: bool) -> None:
    common.require_writable(output)
    if output is not None and output.is_file() and not force:
        raise OutputError(
            f"{output}: is there already and may hold answers; choose another -o, or replace it (--force)"
        )


def _keep_comments(sheet: Path, *, force: bool) -> None:
    if sheet.suffix not in (".toml", ".json"):
        raise OptionError(f"{sheet}: a sheet is written as .toml or .json; name one with -o")
    own = find_own_comments(sheet) if sheet.suffix == ".toml" and not force else []
    if own:
        raise OutputError(
            f"{sheet}: {len(own)} comment{'s' * (len(own) > 1)} of yours would be lost (the first: '{own[0][:60]}'); "
            "move them into answers, write elsewhere with -o, or give --force"
        )


def _parse_pairs(text: str | None) -> dict[str, str]:
    parts = [part.partition("=") for part in common.split_names(text)]
    if any(not (name.strip() and other.strip()) for name, _, other in parts):
        raise OptionError(f"--match '{text}': write ORIGINAL=REPRODUCTION, e.g. fluency=readability")
    return {name.strip(): other.strip() for name, _, other in parts}


def _print_views(views: Iterable[View]) -> None:
    console = render.make_console()
    for view in views:
        render.print_view(view, console)


def _default_format(output: Path | None) -> Format:
    return "markdown" if output is None or not Path(resolve_ending(output, "")).suffix else format_of_ending(output)
