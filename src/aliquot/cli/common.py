"""What all data verbs share: their options, loading, and how results leave the program."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack, overload

import msgspec
import polars as pl
import typer

from aliquot.cli import ALL_ROWS, NOTES
from aliquot.cli.options import spell_options
from aliquot.cli.render import busy
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import plain
from aliquot.errors import OptionError, OutputError, unknown_name
from aliquot.io import load as io_load
from aliquot.io.formats import tables
from aliquot.io.formats.mqm import MQMWeights
from aliquot.io.formats.table_columns import parse_columns
from aliquot.io.journal import journal_path
from aliquot.io.overwrite import claim_stdout, register_output
from aliquot.io.writing import require_writable_path, resolve_ending, write_bytes

_READING = "Reading the data"


def _not_negative(seed: int) -> int:
    if seed < 0:
        raise typer.BadParameter(f"{seed} is negative; choose 0 or more")
    return seed


def _printed_alone(json: bool) -> bool:
    if json:
        claim_stdout("--json")
    return json


def _all_rows(wanted: bool) -> bool:
    if wanted:
        ALL_ROWS.append(True)
    return wanted


AllRowsOption = Annotated[bool, typer.Option("--all-rows", callback=_all_rows, help="Show every row of long tables.")]
DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, a folder, '-' for standard input, or a name like wmt23/en-de.")
]
HumanOption = Annotated[str | None, typer.Option("--human", metavar="NAME", help="The score that people gave.")]
CriterionOption = Annotated[
    str | None, typer.Option("--criterion", metavar="NAME", help="Which of several criteria that people judged.")
]
judgments_option = partial(typer.Option, "--judgments", "-j", metavar="FILE")
"""The option of judgment files: every verb that has it takes several."""
SystemsOption = Annotated[
    str | None, typer.Option("--systems", metavar="A,B", help="Keep only these systems.", rich_help_panel=_READING)
]
ExcludeOption = Annotated[
    str | None, typer.Option("--exclude", metavar="A,B", help="Leave these systems out.", rich_help_panel=_READING)
]
SeedOption = Annotated[int, typer.Option("--seed", callback=_not_negative, help="Same seed, same result.")]
JsonOption = Annotated[
    bool, typer.Option("--json", callback=_printed_alone, help="Print one JSON document and nothing else.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the result here, whole or not at all; '-' prints it."),
]
PlotOption = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it, too: .svg, .png or .pdf.")]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        rich_help_panel=_READING,
        help="items, mtme, mqm, table, pearmut, appraise, label-studio, ...; told by content when not given.",
    ),
]
InputFormatOption = Annotated[
    str | None,
    typer.Option(
        "--input-format",
        metavar="NAME",
        rich_help_panel=_READING,
        help="items, mtme, mqm, table, pearmut, appraise, label-studio, ...; told by content when not given.",
    ),
]
LowerOption = Annotated[
    str | None,
    typer.Option("--lower-is-better", metavar="A,B", help="Scores to flip on loading.", rich_help_panel=_READING),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="ROLE=NAME,...",
        rich_help_panel=_READING,
        help="Which column is which in a table, e.g. item=segment,value=points.",
    ),
]
WideOption = Annotated[
    str | None,
    typer.Option("--wide", metavar="WHAT", rich_help_panel=_READING, help="Table columns are 'systems' or 'metrics'."),
]
ScoreNameOption = Annotated[
    str | None,
    typer.Option("--score-name", metavar="NAME", rich_help_panel=_READING, help="Name of a table's unnamed score."),
]
PairOption = Annotated[
    str | None,
    typer.Option("--pair", metavar="en-de", rich_help_panel=_READING, help="Language pair of a WMT folder."),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--mqm-weights", metavar="major=5,...", rich_help_panel=_READING, help="What errors cost in an MQM file."
    ),
]

KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        rich_help_panel=_READING,
        help="What opaque ids of judgments stand for: cell, item, system.",
    ),
]

COSTS = "Time and money"
SecondsPerItemOption = Annotated[
    float | None,
    typer.Option("--seconds-per-item", help="All outputs of an item, once.", rich_help_panel=COSTS),
]
SecondsPerJudgmentOption = Annotated[
    float | None, typer.Option("--seconds-per-judgment", help="One output, once.", rich_help_panel=COSTS)
]
HourlyOption = Annotated[
    float | None, typer.Option("--hourly", help="What an annotator's hour costs.", rich_help_panel=COSTS)
]
CurrencyOption = Annotated[str, typer.Option("--currency", help="Of that money.", rich_help_panel=COSTS)]


def names(text: str | None) -> list[str]:
    """Split a comma-separated option."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


class Reading(TypedDict, total=False):
    """The options on how to read files, as the command line gives them."""

    human: str | None
    systems: str | None
    exclude: str | None
    format: str | None
    lower_is_better: str | None
    columns: str | None
    wide: str | None
    score_name: str | None
    answer: str | None
    pair: str | None
    mqm_weights: str | None
    key: Path | None


def load_data(data: str, sources_only: bool = False, /, **reading: Unpack[Reading]) -> EvalSet:
    """Load as the common options say; `sources_only` accepts files in which no item has a system."""
    with busy(f"reading {data}"):
        evalset = io_load.load(data, **_options(reading), sources_only=sources_only)
    return _chosen_systems(evalset, reading, sources_only=sources_only)


@overload
def load_with_judgments(
    data: str, judgments: Sequence[Path] | None, /, **reading: Unpack[Reading]
) -> tuple[EvalSet, Judgments | None]: ...
@overload
def load_with_judgments(
    data: str | None, judgments: Sequence[Path] | None, /, **reading: Unpack[Reading]
) -> tuple[EvalSet | None, Judgments | None]: ...
def load_with_judgments(
    data: str | None, judgments: Sequence[Path] | None, /, **reading: Unpack[Reading]
) -> tuple[EvalSet | None, Judgments | None]:
    """Load data and the judgments of files apart, as far as they are given; the options hold for all files."""
    if not judgments:
        return None if data is None else load_data(data, **reading), None
    options = _options(reading)
    with busy(f"reading {', '.join(map(str, judgments))}"):
        if data is None:
            apart = {
                name: options[name] for name in ("lower_is_better", "columns", "mqm_weights", "key") if name in options
            }
            return None, io_load.load_judgments(judgments, wide=reading.get("wide"), **apart)
        options["human"] = None  # it may be the name of the score that the judgments become
        evalset, judged = io_load.load_with_judgments(data, judgments, **options)
    kept = _chosen_systems(evalset, reading)
    out = set(evalset.systems) - set(kept.systems)  # judgments of unknown systems stay, so that they are reported
    named = [name for name in judged.table["system"].unique() if name not in out]
    return kept, judged.keep(systems=named) if out else judged


def _options(reading: Reading) -> dict[str, Any]:
    """Turn the options' texts into what the library takes."""
    columns, weights = reading.get("columns"), reading.get("mqm_weights")
    return {name: value for name, value in reading.items() if name not in ("systems", "exclude")} | {
        "lower_is_better": names(reading.get("lower_is_better")),
        "columns": parse_columns(columns) if columns else None,
        "mqm_weights": MQMWeights.parse(weights) if weights else None,
    }


def _chosen_systems(evalset: EvalSet, reading: Reading, *, sources_only: bool = False) -> EvalSet:
    systems, exclude = reading.get("systems"), reading.get("exclude")
    if systems is not None:
        evalset = evalset.keep(systems=_known_systems(systems, evalset, "--systems"))
    if exclude is not None:
        evalset = evalset.drop(systems=_known_systems(exclude, evalset, "--exclude"))
    if not evalset.systems and not (sources_only and systems is None and exclude is None):
        raise OptionError("no system is left; check --systems and --exclude")
    return evalset


def adjustment(adjust: str | None, *, holm: bool) -> str | None:
    """Read --adjust and its alias --holm."""
    if holm and adjust not in (None, "holm"):
        raise OptionError(f"--holm is --adjust holm, and --adjust {adjust} is given too; leave one out")
    return "holm" if holm else adjust


def value_range(text: str | None, option: str = "--range", mark: str = ",") -> tuple[float, float] | None:
    """Read LOW and HIGH, joined by a comma or a colon; `mark` is the one that the option's help shows.

    >>> value_range("0:100"), value_range("-25,0")
    ((0.0, 100.0), (-25.0, 0.0))
    """
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.replace(":", ",").split(","))
    except ValueError:
        raise OptionError(f"{option} '{text}': write LOW{mark}HIGH, e.g. 0{mark}100 or -25{mark}0") from None
    return low, high


def _known_systems(text: str, evalset: EvalSet, option: str) -> list[str]:
    wanted = names(text)
    for name in wanted:
        if name not in evalset.systems:
            raise unknown_name("system", name, evalset.systems, f"check {option}")
    return wanted


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document; undefined numbers are null, and warnings stand among its notes."""
    text = to_json(with_notes(document)).decode()
    if (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8":  # any reader of JSON knows \u00fc
        text = json.dumps(json.loads(text), indent=2)
    sys.stdout.write(text + "\n")


def with_notes(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what was told on standard error among its notes, so that a program reads it, too."""
    own = [spell_options(str(note)) for note in document.get("notes") or ()]
    told = [note for note in dict.fromkeys(NOTES) if note not in own]
    return document | {"notes": [*own, *told]} if own or told else document


def to_json(document: Any) -> bytes:
    """Encode results and numpy numbers too; NaN becomes null."""
    return msgspec.json.format(msgspec.json.encode(document, enc_hook=plain), indent=2)


def write_result(table: pl.DataFrame, document: dict[str, Any], path: Path) -> None:
    """Write a result by the path's ending: .json, .csv, .tsv or .parquet; JSON to standard output ("-")."""
    name = resolve_ending(path, ".json")
    if name.endswith(".json"):
        write_bytes(path, to_json(with_notes(document)) + b"\n")
    elif name.removesuffix(".gz").endswith((".csv", ".tsv", ".parquet")):
        tables.write(table, path)
    else:
        raise OptionError(f"{path}: unknown ending; use .json, .csv, .tsv or .parquet")


def require_picture(path: Path | None, picture: str | None = None, known: Sequence[str] = ()) -> None:
    """Refuse, before any work, a picture that cannot be drawn or written; `picture` is one of those `known`."""
    if picture is not None and picture not in known:
        raise unknown_name("picture", picture, known, "check --picture")
    if path is None:
        return
    require_writable_path(path)
    from aliquot.report.figures.style import require_figures  # noqa: PLC0415  (slow to import)

    require_figures(path)


def draw(path: Path | None, figure: Callable[[], Any]) -> None:
    """Write the picture, if one is asked for."""
    if path is None:
        return
    from aliquot.report.figures.style import save_figure  # noqa: PLC0415

    save_figure(figure(), path)


@contextmanager
def resumable(output: Path | None) -> Iterator[None]:
    """Say, when a run that keeps a journal is interrupted, which file holds the finished work and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if output is None or not journal_path(output).exists():
            raise
        raise OutputError(
            f"interrupted; {journal_path(output)} keeps the finished work: run the same command again to "
            "resume, or delete that file to start anew"
        ) from None


def require_writable(path: Path | None, *, or_folder: bool = False) -> None:
    """Refuse an output path that cannot be written, or is an input, before any work is done.

    With `or_folder` a path without an ending, or of a folder that exists, is meant as a folder.
    """
    if path is None:
        return
    register_output(path)
    if not (or_folder and (path.is_dir() or not Path(resolve_ending(path, "x.jsonl")).suffix)):
        require_writable_path(path)
