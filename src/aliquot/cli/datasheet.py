"""`aliquot datasheet`: document the experiment for reviewers and for those who repeat it (HEDS 2.0)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from aliquot.cli import common, options, render
from aliquot.core import escape
from aliquot.core.selection import Selection
from aliquot.errors import LeftOutWarning, OptionError, OutputError
from aliquot.io.overwrite import allow_in_place
from aliquot.io.writing import resolve_ending, write_bytes
from aliquot.report import datasheet
from aliquot.report.datasheet import Check, Datasheet, SheetDiff
from aliquot.report.datasheet.differences import CHANGED, ONLY_ORIGINAL, ONLY_REPRODUCTION, OPEN, SAME
from aliquot.report.datasheet.files import own_comments
from aliquot.report.datasheet.rendering import FORMATS

app = typer.Typer(
    help="""Document an experiment: the Human Evaluation Datasheet (HEDS 2.0).

    Start a sheet from your data, let people complete it in a text editor, check it, and render it for a paper or the
    web. Compare a reproduction with the original.

    Example: aliquot datasheet new data.jsonl -o sheet.toml
    """
)

SheetArgument = Annotated[Path, typer.Argument(metavar="SHEET", help="A datasheet: .toml, .yaml or .json.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]


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
        str | None, typer.Option("--criteria", metavar="A,B", help="Criteria; by default those of the judgments.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", metavar="NAME", help="Keep only the judgments of this protocol.")
    ] = None,
    value_range: Annotated[
        str | None, typer.Option("--range", metavar="LOW,HIGH", help="Ends of the scale, if not seen in the values.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Start a datasheet, filled in as far as data, selection, judgments and results go.

    Without DATA the sheet is blank. An existing file is never replaced unless --force says so.

    Example: aliquot datasheet new data.jsonl -s selection.jsonl -r estimate.json -o sheet.toml
    """
    _refuse_existing(output.file, force=force)
    evalset, judged = common.load_with_judgments(data, judgments, reading)
    with render.busy("filling in"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)  # it stands among the notes of the sheet
        sheet = datasheet.new(
            evalset,
            selection=None if selection is None else Selection.load(selection),
            judgments=judged,
            results=list(results or ()),
            criteria=common.names(criteria) or None,
            protocol=protocol,
            human=reading.human,
            value_range=common.value_range(value_range),
        )
    if output.file is not None:
        sheet.save(output.file, force=force)
    if output.json:
        common.print_json(sheet.to_dict())
        return
    _show_new(sheet, render.console(), output.file)


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
        _show_check(result, render.console())
    if not result.complete:
        raise typer.Exit(1)


@app.command("render")
def render_sheet(
    sheet: SheetArgument,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option("--format", metavar="NAME", help="markdown, latex or html; by the ending of -o, else markdown."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show the options that were not chosen, too.")] = False,
    fragment: Annotated[
        bool, typer.Option("--fragment", help="LaTeX, HTML: without the frame of a document, to be put into one.")
    ] = False,
    output: options.OutputOption = None,
) -> None:
    """Write the sheet for readers: Markdown, LaTeX, or one HTML page that needs nothing else.

    Example: aliquot datasheet render sheet.toml -o sheet.html
    """
    common.require_writable(output)
    text = datasheet.render(datasheet.load(sheet), format or _format_of(output), full=full, fragment=fragment)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_bytes(output, text.encode())
    render.console().print(f"wrote {output}", markup=False)


@app.command()
def diff(
    original: Annotated[Path, typer.Argument(metavar="ORIGINAL", help="The datasheet of the first experiment.")],
    reproduction: Annotated[Path, typer.Argument(metavar="REPRODUCTION", help="The datasheet of its repetition.")],
    match: Annotated[
        str | None,
        typer.Option("--match", metavar="A=B,...", help="Criterion A of the original is B in the reproduction."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the questions answered alike, too.")] = False,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
) -> None:
    """Compare two sheets question by question: an original and its reproduction.

    Example: aliquot datasheet diff original.toml reproduction.toml
    """
    common.require_writable(output)
    result = datasheet.diff(datasheet.load(original), datasheet.load(reproduction), match=_pairs(match))
    if output is not None:
        common.write_result(result.to_frame(), result.to_dict(), output)
    if json:
        common.print_json(result.to_dict())
    else:
        _show_diff(result, render.console(), everything=everything)


@app.command()
def copy(
    sheet: SheetArgument,
    source: Annotated[str, typer.Option("--source", metavar="NAME", help="The criterion to copy from.")],
    targets: Annotated[
        str | None, typer.Option("--targets", metavar="A,B", help="The criteria to copy to; all others if not given.")
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option("--questions", metavar="4.2,4.3.5", help="Numbers or parts; else all that criteria may share."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace answers that are there.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write although comments of yours, or a file, would be lost.")
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
        before, source, common.names(targets) or None, questions=common.names(questions) or None, overwrite=overwrite
    )
    if output is not None:
        _refuse_existing(output, force=force)
    else:
        _keep_comments(sheet, force=force)
    after.save(output or sheet, force=True)
    if json:
        common.print_json(after.to_dict())
        return
    _show_copied(before, after, source, common.names(targets), render.console())
    render.console().print(f"wrote {output or sheet}", markup=False)


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
    own = own_comments(sheet) if sheet.suffix == ".toml" and not force else []
    if own:
        raise OutputError(
            f"{sheet}: {len(own)} comment{'s' * (len(own) > 1)} of yours would be lost (the first: '{own[0][:60]}'); "
            "move them into answers, write elsewhere with -o, or give --force"
        )


def _pairs(text: str | None) -> dict[str, str]:
    parts = [part.partition("=") for part in common.names(text)]
    if any(not (name.strip() and other.strip()) for name, _, other in parts):
        raise OptionError(f"--match '{text}': write ORIGINAL=REPRODUCTION, e.g. fluency=readability")
    return {name.strip(): other.strip() for name, _, other in parts}


def _format_of(output: Path | None) -> str:
    if output is None or not Path(resolve_ending(output, "")).suffix:
        return "markdown"
    for name, endings in FORMATS.items():
        if output.suffix.lower() in endings:
            return name
    there = ", ".join(ending for known in FORMATS.values() for ending in known)
    raise OptionError(f"{output}: the ending names no format ({there}); name one with --format")


# -- showing ---------------------------------------------------------------------------------------------------------


def _show_new(sheet: Datasheet, console: Console, output: Path | None) -> None:
    table = render.columns(render.table(), left=["question", "criterion", "filled in", "from"])
    for row in sheet.to_frame().iter_rows(named=True):
        if row["source"]:
            said = "; ".join(text for text in (row["answer"], row["details"]) if text)
            table.add_row(f"{row['question']} {row['title']}", row["criterion"] or "", _short(said, 60), row["source"])
    if table.row_count:
        console.print(table)
        console.print()
    found = datasheet.check(sheet)
    criteria = ", ".join(sheet.criterion_names)
    console.print(f"{found.answered} of {found.questions} questions filled in; criteria: {criteria}", markup=False)
    for note in sheet.notes:
        console.print(f"note: {note}", markup=False)
    console.print(
        f"wrote {output}; complete it in a text editor, then: aliquot datasheet check {output}"
        if output
        else "nothing written; give -o sheet.toml to keep it",
        markup=False,
    )
    render.signature(sheet.signature, console)


def _show_check(result: Check, console: Console) -> None:
    for kind, title in (("rule", "Rules broken"), ("unanswered", "Not answered"), ("advice", "Worth a look")):
        found = [finding for finding in result.findings if finding.kind == kind]
        if not found:
            continue
        table = render.columns(render.table(f"{title} ({len(found)})"), left=["question"])
        if any(finding.criterion for finding in found):
            table.add_column("criterion", overflow="fold")
        table.add_column("what", overflow="fold", ratio=1)
        table.add_column("what to do", overflow="fold", ratio=1)
        for finding in found:
            middle = [finding.criterion or ""] if len(table.columns) == 4 else []
            table.add_row(finding.question, *middle, finding.problem, finding.remedy)
        console.print(table)
        console.print()
    state = "complete" if result.complete else "not complete"
    answered = f"{result.answered} of {result.questions} questions answered"
    console.print(Text.assemble(f"{escape.terminal(result.name)}: {answered}; ", (state, "bold")))


def _show_diff(result: SheetDiff, console: Console, *, everything: bool) -> None:
    shown = [row for row in result.rows if row.state != OPEN] if everything else list(result.differences)
    if shown:
        table = render.columns(render.table(), left=["question", "criterion"])
        for role, name in (("original", result.original), ("reproduction", result.reproduction)):
            table.add_column(Text(f"{role} ({name})"), overflow="fold", ratio=1)
        for row in shown:
            mark = {SAME: "= ", CHANGED: "~ ", ONLY_ORIGINAL: "- ", ONLY_REPRODUCTION: "+ "}[row.state]
            table.add_row(f"{mark}{row.question} {row.title}", row.criterion or "", row.original, row.reproduction)
            table.add_row("", "", "", "")
        console.print(table)
    console.print(
        f"{result.count(SAME)} alike, {result.count(CHANGED)} changed (~), {result.count(ONLY_ORIGINAL)} only in the "
        f"original (-), {result.count(ONLY_REPRODUCTION)} only in the reproduction (+), {result.count(OPEN)} open",
        markup=False,
    )


def _show_copied(before: Datasheet, after: Datasheet, source: str, targets: Sequence[str], console: Console) -> None:
    for name in targets or after.criterion_names:
        if name != source:
            changed = _changed(before, after, name)
            text = ", ".join(changed) if changed else "nothing: all there already, or nothing to copy"
            console.print(f"{source} -> {name}: {text}", markup=False)


def _changed(before: Datasheet, after: Datasheet, name: str) -> Iterable[str]:
    old, new = before.criterion(name).answers, after.criterion(name).answers
    return [number for number, answer in new.items() if old.get(number) != answer]


def _short(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
