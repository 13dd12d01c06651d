"""`aliquot convert`: from any format that can be read to another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common, options, render
from aliquot.errors import OptionError
from aliquot.io.formats import mtme
from aliquot.io.save import save
from aliquot.io.writers import WRITERS, choose_writer

_FORMATS = [writer.name for writer in WRITERS if writer.kind == "data"]


def run(
    data: options.DataArgument,
    reading: options.Reading,
    out: Annotated[
        Path | None,
        typer.Argument(
            metavar="OUT",
            help="By ending: .jsonl, .jsonl.gz, .parquet (everything), .csv, .tsv (a long table), none (a WMT folder); "
            "'-' prints .jsonl.",
        ),
    ] = None,
    judgments: options.OtherJudgmentsOption = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="NAME", help=f"Format, where the ending does not say it: {', '.join(_FORMATS)}."),
    ] = None,
    what: Annotated[
        str, typer.Option("--what", help="For .csv and .tsv: 'scores' or 'judgments'.", metavar="WHAT")
    ] = "scores",
    json: options.JsonOption = False,
) -> None:
    """Turn data from any format that can be read into another.

    Item JSON lines and Parquet keep everything; long tables keep scores or judgments. A WMT folder with several
    language pairs becomes one file for each pair when OUT is a folder that exists. --to inspect writes a dataset that
    Inspect runs: the items of data or of a selection.

    Example: aliquot convert mqm_newstest2021_ende.tsv newstest2021.jsonl.gz
    """
    writer = choose_writer("data", out, to, default=".jsonl")
    common.require_place(out, writer.place)
    pair = reading.rare_arguments.get("pair")
    several = writer.name == "wmt" and pair is None and Path(data).is_dir() and mtme.looks_like(Path(data))
    if several and out is not None and out.is_dir():
        written = _convert_all(Path(data), out, reading)
    else:
        evalset = common.load_judged(data, judgments, reading, sources_only=writer.sources_only)
        save(evalset, out, what=what, pair=pair, to=to)  # type: ignore[arg-type]  # `one_of` checks it
        written = [(out or writer.name, repr(evalset))]
    if json:
        common.print_json({"written": [str(path) for path, _ in written]})
    else:
        for path, content in written:
            render.make_console().print(f"wrote {path}: {content}", markup=False)


def _convert_all(data: Path, out: Path, reading: options.Reading) -> list[tuple[Path | str, str]]:
    sets = {pair: common.load_data(str(data), replace(reading, pair=pair)) for pair in mtme.list_pairs(data)}
    if not sets:
        raise OptionError(f"{data}: holds no language pair; is this an mt-metrics-eval v2 test set?")
    written: list[tuple[Path | str, str]] = []
    for pair, evalset in sets.items():
        path = out / f"{data.name}-{pair}.jsonl.gz"
        save(evalset, path)
        written.append((path, repr(evalset)))
    return written
