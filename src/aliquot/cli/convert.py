"""`aliquot convert`: from any format that can be read to another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli import common, render
from aliquot.core.evalset import EvalSet
from aliquot.errors import OptionError
from aliquot.io.formats import mtme
from aliquot.io.load import save


def run(
    data: common.DataArgument,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="By ending: .jsonl, .jsonl.gz, .parquet (everything), .csv, .tsv (a long table), none (a WMT folder); "
            "'-' prints .jsonl.",
        ),
    ],
    what: Annotated[
        str, typer.Option("--what", help="For .csv and .tsv: 'scores' or 'judgments'.", metavar="WHAT")
    ] = "scores",
    human: common.HumanOption = None,
    systems: common.SystemsOption = None,
    exclude: common.ExcludeOption = None,
    format: common.FormatOption = None,  # noqa: A002
    lower_is_better: common.LowerOption = None,
    columns: common.ColumnsOption = None,
    key: common.KeyOption = None,
    wide: common.WideOption = None,
    score_name: common.ScoreNameOption = None,
    pair: common.PairOption = None,
    mqm_weights: common.WeightsOption = None,
    json: common.JsonOption = False,
) -> None:
    """Turn data from any format that can be read into another.

    Item JSON lines and Parquet keep everything; long tables keep scores or judgments. A WMT folder with several
    language pairs becomes one file for each pair when OUT is a folder that exists.

    Example: aliquot convert mqm_newstest2021_ende.tsv newstest2021.jsonl.gz
    """
    common.require_writable(out, or_folder=True)
    read = partial(
        common.load_data,
        data,
        human=human,
        systems=systems,
        exclude=exclude,
        format=format,
        lower_is_better=lower_is_better,
        columns=columns,
        key=key,
        wide=wide,
        score_name=score_name,
        mqm_weights=mqm_weights,
    )
    if pair is None and out.is_dir() and Path(data).is_dir() and mtme.looks_like(Path(data)):
        written = _convert_all(Path(data), out, read)
    else:
        evalset = read(pair=pair)
        save(evalset, out, what=what, pair=pair)
        written = [(out, repr(evalset))]
    if json:
        common.print_json({"written": [str(path) for path, _ in written]})
    else:
        for path, content in written:
            render.console().print(f"wrote {path}: {content}", markup=False)


def _convert_all(data: Path, out: Path, read: Callable[..., EvalSet]) -> list[tuple[Path, str]]:
    sets = {pair: read(pair=pair) for pair in mtme.list_pairs(data)}
    if not sets:
        raise OptionError(f"{data}: holds no language pair; is this an mt-metrics-eval v2 test set?")
    written = []
    for pair, evalset in sets.items():
        path = out / f"{data.name}-{pair}.jsonl.gz"
        save(evalset, path)
        written.append((path, repr(evalset)))
    return written
