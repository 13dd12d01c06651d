"""Sub-commands of `aliquot collect` for judging without our server: sheets, and other annotation tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common, options, render
from aliquot.cli.collect_options import (
    AnnotatorsOption,
    ItemsOption,
    PairsOption,
    PerOutputOption,
    ProtocolOption,
    SelectionOption,
    SkipOption,
    annotators_of,
)
from aliquot.errors import OptionError
from aliquot.io.overwrite import register_output


def add_to(app: typer.Typer) -> None:
    """Add the sub-commands."""
    for command in (sheets, read, write):
        app.command()(command)


def sheets(
    data: options.DataArgument,
    reading: options.Reading,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="A folder for the sheets and the key.")
    ],
    selection: SelectionOption = None,
    protocol: ProtocolOption = "da",
    annotators: AnnotatorsOption = "3",
    per_output: PerOutputOption = 1,
    pairs: PairsOption = "balanced",
    unit_items: ItemsOption = 10,
    skip_missing: SkipOption = False,
    seed: options.SeedOption = 0,
) -> None:
    """Write blinded, shuffled sheets (.xlsx and .csv) for each annotator, and a key.

    Give each annotator one of the two files, and keep key.csv. `collect read` takes the filled sheets.

    Example: aliquot collect sheets data.jsonl -s selection.jsonl --protocol da --annotators 3 -o sheets/
    """
    from aliquot.collect.new_campaign import CampaignSettings, gather_inputs
    from aliquot.collect.sheets import write_sheets

    register_output(output)
    evalset = common.load_data(data, reading)
    settings = CampaignSettings(
        per_output=per_output, seed=seed, pairs=pairs, unit_items=unit_items, skip_missing=skip_missing
    )
    inputs = gather_inputs(evalset, selection, protocol, annotators_of(annotators), settings)
    with render.show_activity("writing sheets"):
        paths = write_sheets(inputs, output)
    console = render.make_console()
    console.print(f"{len(inputs.units):,} parts for {len(inputs.annotators)} annotators", markup=False)
    console.print(f"wrote {len(paths)} files to {output}; keep {paths[-1]} to yourself", markup=False)


def read(
    files: Annotated[list[str], typer.Argument(metavar="SHEETS...", help="Filled sheets, .xlsx or .csv.")],
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="The key.csv that belongs to them.")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="By its ending: .csv, .tsv, .jsonl, .parquet; '-' prints."),
    ],
    what: Annotated[str, typer.Option("--what", metavar="TABLE", help="judgments or choices.")] = "judgments",
) -> None:
    """Read filled sheets back, checked against the key.

    Rows that were changed, doubled or mixed up, and values out of range, are refused with their place.

    Example: aliquot collect read sheets/*.xlsx --key sheets/key.csv -o judgments.csv
    """
    from aliquot.collect.exporting import check_what, write_table
    from aliquot.collect.sheets import read_sheets

    common.require_writable(output)
    check_what(what, "table")
    answers = read_sheets(files, key)
    table = answers.judgments if what == "judgments" else answers.choices
    write_table(table, output)
    console = render.make_console()
    console.print(f"{answers.answered:,} of {answers.expected:,} rows answered", markup=False)
    console.print(f"wrote {output} ({table.height:,} rows)", markup=False)


def write(
    data: options.DataArgument,
    reading: options.Reading,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="A folder for the files.")],
    tool: Annotated[str, typer.Option("--for", metavar="TOOL", help="pearmut, appraise, label-studio or potato.")],
    selection: SelectionOption = None,
    protocol: ProtocolOption = "esa",
    annotators: AnnotatorsOption = "3",
    per_output: PerOutputOption = 1,
    unit_items: ItemsOption = 10,
    skip_missing: SkipOption = False,
    seed: options.SeedOption = 0,
) -> None:
    """Write the campaign for another annotation tool, blind, and a key.

    The folder TOOL inside holds what the tool takes, with opaque ids only; keep key.csv to yourself. What the tool
    exports is read by every verb that takes judgments, with --read key=key.csv.

    Example: aliquot collect write data.jsonl -s selection.jsonl --for pearmut --protocol esa -o campaign/

    Example: aliquot estimate data.jsonl -s selection.jsonl -j annotations.json --read key=campaign/key.csv
    """
    from aliquot.collect.exchange import KEY, TOOLS, write_for
    from aliquot.collect.new_campaign import CampaignSettings, gather_inputs
    from aliquot.errors import unknown_name
    from aliquot.io.writing import write_bytes

    if tool not in TOOLS:
        raise unknown_name("annotation tool", tool, TOOLS)
    register_output(output)
    evalset = common.load_data(data, reading)
    settings = CampaignSettings(per_output=per_output, seed=seed, unit_items=unit_items, skip_missing=skip_missing)
    files = write_for(tool, gather_inputs(evalset, selection, protocol, annotators_of(annotators), settings))
    existing = next((output / name for name in files if (output / name).exists()), None)
    if existing is not None:
        raise OptionError(f"{existing}: exists already; choose another folder with -o")
    for name, content in files.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(output / name, content)
    console = render.make_console()
    names = ", ".join(name for name in files if name != KEY)
    console.print(f"wrote {names} to {output}; keep {output / KEY} to yourself", markup=False)
    console.print(f"when people have judged: aliquot estimate DATA -j EXPORT --key {output / KEY}", markup=False)
