"""`aliquot examples`: small campaigns to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common, options, render
from aliquot.simulation.examples import COMMANDS, CampaignExample, examples


def run(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="mqm, summarisation, chat or crowd; lists them when not given.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="Write the files and the commands to try here."),
    ] = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Write a small simulated campaign in the shape of a well-known task, with the commands to try on it.

    Machine translation with MQM, summaries rated on four criteria, answers of chat assistants compared in pairs, and
    a crowd of which some are careless. Everything is simulated, so nothing is downloaded.

    Example: aliquot examples mqm -o mqm/
    """
    found = examples(name, output, seed=seed)
    if json:
        common.print_json({"examples": [_document(example, output) for example in found]})
    elif name is None:
        _list(found)
    else:
        _show(found[0], output)


def _document(example: CampaignExample, output: Path | None) -> dict[str, object]:
    written = [] if output is None else [str(output / name) for name in (*example.files, COMMANDS)]
    return {
        "name": example.name,
        "title": example.title,
        "about": example.about,
        "files": dict(example.files),
        "commands": list(example.commands),
        "written": written,
    }


def _list(found: tuple[CampaignExample, ...]) -> None:
    console = render.console()
    table = render.columns(render.table(), left=["example", "what"])
    for example in found:
        table.add_row(example.name, f"{example.title}. {example.about}")
    console.print(table)
    console.print("\nwrite one: aliquot examples mqm -o mqm/")


def _show(example: CampaignExample, output: Path | None) -> None:
    console = render.console()
    console.print(f"{example.title}. {example.about}\n", markup=False)
    for name, what in example.files.items():
        console.print(f"{name}: {what}", markup=False)
    console.print()
    for question, command in example.steps:
        console.print(f"# {question}", style="dim", markup=False)
        console.print(command, markup=False, soft_wrap=True)
    if output is None:
        console.print("\nnothing written; give -o FOLDER to try them")
    else:
        console.print(f"\nwrote {output}: go there and try them; they are in {COMMANDS}", markup=False)
