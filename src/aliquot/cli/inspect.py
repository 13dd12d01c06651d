"""`aliquot inspect`: what is in my data, and what can I do with it?"""

from __future__ import annotations

from pathlib import Path

from aliquot.annotation.choice_summary import ChoiceSummary, summarise_choices
from aliquot.cli import common, options, render
from aliquot.core.describe import Description
from aliquot.errors import AliquotError, FormatError
from aliquot.io.files import read_bytes
from aliquot.io.formats.campaign_database import without_password
from aliquot.io.formats.table_files import read_frame


def run(
    data: options.DataArgument,
    reading: options.Reading,
    output: options.ResultOutput,
    seed: options.SeedOption = 0,
) -> None:
    """What is in my data, and what can I do with it?

    Shows items, systems, documents, domains, texts, judgments, every score with its coverage, range and correlation
    with the human score, which later steps are possible, and the command that comes next.

    Example: aliquot inspect data.jsonl --human mqm
    """
    del seed  # nothing is drawn; accepted because all data verbs take it
    common.require_output(output)
    try:
        evalset = common.load_data(data, reading)
    except FormatError as error:
        choices = summarise_choices(data)
        if choices is None:
            error.proposal = error.proposal or _propose_sheet(Path(data))
            raise
        print_description(choices, output)
        return
    shown = without_password(data)
    print_description(evalset.describe().with_data(shown, *options.spell_reading(reading)), output)


def _propose_sheet(path: Path) -> tuple[str, ...]:
    """Return the command that reads a sheet that an annotator filled in, if its key is in the same folder."""
    key = path.with_name("key.csv")
    try:
        columns = set(read_frame(read_bytes(key), key).columns) if key.is_file() and key != path else set()
    except (AliquotError, OSError):
        return ()
    is_key = {"annotator", "id", "row", "systems"} <= columns
    return ("aliquot", "collect", "read", str(path), "--key", str(key), "-o", "answers.csv") if is_key else ()


def print_description(description: Description | ChoiceSummary, output: options.ResultOutput) -> None:
    """Print a description and, as the last line, the next command."""
    common.save_result(description, output)
    if output.json:
        common.print_json(description.to_dict())
        return
    console = render.make_console()
    render.print_result(description, console)
    console.print(f"next: {description.next_command}", markup=False, soft_wrap=True, highlight=False)
