"""What all data verbs share: their options, loading, and how results leave the program."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import polars as pl

from aliquot.cli import NOTES, render
from aliquot.cli.commands import spell_options
from aliquot.cli.options import Output, Reading, ResultOutput
from aliquot.cli.render import show_activity
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.registry import split_known_names
from aliquot.core.result import Result
from aliquot.core.view import View
from aliquot.errors import AliquotWarning, OptionError, OutputError, unknown_name
from aliquot.io import load as io_load
from aliquot.io import load_judgments as io_judgments
from aliquot.io import writers
from aliquot.io.journal import journal_path
from aliquot.io.overwrite import register_output
from aliquot.io.result_files import encode_json
from aliquot.io.writing import require_writable_path, resolve_ending


def split_names(text: str | None) -> list[str]:
    """Split a comma-separated option."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def given_options(options: object, lists: Collection[str] = ()) -> dict[str, Any]:
    """Return the options of a group that are set; those in `lists` are split at commas."""
    values = {name: value for name, value in vars(options).items() if value is not None and value is not False}
    return {name: (split_names(value) or None) if name in lists else value for name, value in values.items()}


def load_data(data: str, reading: Reading | None = None, *, sources_only: bool = False, **options: Any) -> EvalSet:
    """Load data as the options say; `sources_only` accepts files in which no item has a system."""
    reading, others = _split_options(reading, options)
    with show_activity(f"reading {data}"):
        evalset = io_load.load(data, **_load_arguments(reading), **others, sources_only=sources_only)
    return _chosen_systems(evalset, reading, sources_only=sources_only)


@overload
def load_with_judgments(
    data: str, judgments: Sequence[Path] | None, reading: Reading | None = None, **options: Any
) -> tuple[EvalSet, Judgments | None]: ...
@overload
def load_with_judgments(
    data: str | None, judgments: Sequence[Path] | None, reading: Reading | None = None, **options: Any
) -> tuple[EvalSet | None, Judgments | None]: ...
def load_with_judgments(
    data: str | None, judgments: Sequence[Path] | None, reading: Reading | None = None, **options: Any
) -> tuple[EvalSet | None, Judgments | None]:
    """Load data and the judgments of files apart, as far as they are given; the options hold for all files."""
    if data is None:
        return None, _load_apart(judgments, reading, **options) if judgments else None
    evalset, judged = _load_parts(data, judgments, reading, **options)
    _warn_own_judgments(evalset, data, judgments)
    return evalset, judged


def _load_apart(judgments: Sequence[Path], reading: Reading | None, **options: Any) -> Judgments:
    """Load judgments without data."""
    reading, others = _split_options(reading, options)
    arguments = _load_arguments(reading) | others
    apart = ("human", "lower_is_better", "columns", "mqm_weights", "key", "wide", "answer")
    with show_activity(f"reading {', '.join(map(str, judgments))}"):
        return io_judgments.load_judgments(
            judgments, **{name: value for name, value in arguments.items() if name in apart}
        )


def _load_parts(
    data: str, judgments: Sequence[Path] | None, reading: Reading | None, **options: Any
) -> tuple[EvalSet, Judgments | None]:
    """Load data, and the judgments of files apart if there are any."""
    reading, others = _split_options(reading, options)
    if not judgments:
        return load_data(data, reading, **others), None
    arguments = _load_arguments(reading) | others
    arguments["human"] = None  # it may be the name of the score that the judgments become
    with show_activity(f"reading {', '.join(map(str, judgments))}"):
        evalset, judged = io_judgments.load_with_judgments(data, judgments, judged=reading.human, **arguments)
    remaining = _chosen_systems(evalset, reading)
    excluded = set(evalset.systems) - set(remaining.systems)  # unknown systems are kept, so that they are reported
    systems = [name for name in judged.table["system"].unique() if name not in excluded]
    return remaining, judged.keep(systems=systems) if excluded else judged


def _warn_own_judgments(evalset: EvalSet, data: str, judgments: Sequence[Path] | None) -> None:
    """Note that judgments of the data do not count beside those of other files."""
    if judgments and evalset.judgments is not None and data not in map(str, judgments):
        warnings.warn(
            f"{data}: its own {len(evalset.judgments)} judgments do not count beside those of `judgments`; to count "
            "both, name it there, too",
            AliquotWarning,
            4,
        )


def load_judged(data: str, judgments: Sequence[Path] | None, reading: Reading, **options: Any) -> EvalSet:
    """Load data with the judgments of files apart in place of their own, if there are any.

    Data that are judgments and nothing else are one of the files.
    """
    evalset, judged = _load_parts(data, judgments, reading, **options)
    if judged is None:
        return evalset
    if evalset.outputs is None and evalset.judgments is not None and "source" not in evalset.items.columns:
        whole = _load_apart([Path(data), *(judgments or ())], reading, **options)
        answer = options.get("answer")
        together = io_load.load_source(whole.table, io_load.LoadOptions(judgments=True, answer=answer))
        return _chosen_systems(together, reading)
    _warn_own_judgments(evalset, data, judgments)
    return replace(evalset, judgments=judged)


def _split_options(reading: Reading | None, options: dict[str, Any]) -> tuple[Reading, dict[str, Any]]:
    """Part options into those of `Reading` and further arguments of `load`."""
    own = {name: value for name, value in options.items() if name in Reading.__dataclass_fields__}
    others = {name: value for name, value in options.items() if name not in own}
    return (Reading(**own) if reading is None else replace(reading, **own)), others


def _load_arguments(reading: Reading) -> dict[str, Any]:
    """Return the arguments of `load` that the options stand for."""
    return {"human": reading.human, "scores": reading.scores or (), **reading.rare_arguments}


def for_each_set(files: Sequence[Any] | None, count: int, option: str) -> list[Any]:
    """Return the file of each of several sets of data; None where no file is given."""
    if not files:
        return [None] * count
    if len(files) != count:
        raise OptionError(
            f"{count} test set{'s' * (count != 1)} and {len(files)} times {option}: give it once for "
            "each, in the same order"
        )
    return list(files)


def split_reading(reading: Reading, count: int) -> list[Reading]:
    """Return how each of several sets of data is read: each has a file of scores of its own."""
    if count == 1:
        return [reading]
    files = for_each_set(reading.scores, count, "--scores")
    return [replace(reading, scores=None if file is None else [file]) for file in files]


def load_sets(data: Sequence[str], reading: Reading) -> list[EvalSet]:
    """Load several sets of data as the options say."""
    return [load_data(source, each) for source, each in zip(data, split_reading(reading, len(data)), strict=True)]


def _chosen_systems(evalset: EvalSet, reading: Reading, *, sources_only: bool = False) -> EvalSet:
    systems, excluded = reading.systems, reading.excluded
    if systems is not None:
        evalset = evalset.keep(
            systems=_require_systems(split_known_names(systems, evalset.systems), evalset, "--systems")
        )
    if excluded is not None:
        evalset = evalset.drop(systems=_require_systems(excluded, evalset, "--read exclude"))
    if not evalset.systems and not (sources_only and systems is None and excluded is None):
        raise OptionError("no system is left; check --systems and --read exclude")
    return evalset


def parse_adjustment(adjust: str | None, *, holm: bool) -> str | None:
    """Read --adjust and its alias --holm."""
    if holm and adjust not in (None, "holm"):
        raise OptionError(f"--holm is --adjust holm, and --adjust {adjust} is given too; leave one out")
    return "holm" if holm else adjust


def parse_range(text: str | None, option: str = "--range", mark: str = ",") -> tuple[float, float] | None:
    """Read LOW and HIGH, joined by a comma or a colon; `mark` is the one that the option's help shows.

    >>> parse_range("0:100"), parse_range("-25,0")
    ((0.0, 100.0), (-25.0, 0.0))
    """
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.replace(":", ",").split(","))
    except ValueError:
        raise OptionError(f"{option} '{text}': write LOW{mark}HIGH, e.g. 0{mark}100 or -25{mark}0") from None
    return low, high


def _require_systems(systems: list[str], evalset: EvalSet, option: str) -> list[str]:
    for name in systems:
        if name not in evalset.systems:
            raise unknown_name("system", name, evalset.systems, f"check {option}")
    return systems


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document; undefined numbers are null, and warnings stand among its notes."""
    text = encode_json(with_notes(document)).decode()
    if (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8":  # any reader of JSON knows \u00fc
        text = json.dumps(json.loads(text), indent=2)
    sys.stdout.write(text + "\n")


def with_notes(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what was told on standard error among its notes, so that a program reads it, too."""
    own = [spell_options(str(note)) for note in document.get("notes") or ()]
    told = [note for note in dict.fromkeys(NOTES) if note not in own]
    return document | {"notes": [*own, *told]} if own or told else document


def save_result(result: Result, output: ResultOutput, table: str | None = None) -> None:
    """Write a result, if it is to be written, as `Result.save` does, with all notes in its JSON document."""
    if output.file is not None or output.to is not None:
        result.save(output.file, table, document=with_notes(result.to_dict()), to=output.to)


def write_and_print(
    result: Result,
    output: ResultOutput,
    table: str | None = None,
    *,
    details: Collection[str] = (),
    views: Sequence[View] | None = None,
    files: Sequence[Path | None] = (),
) -> None:
    """Write a result to `--output`, and print it: one JSON document with `--json`, else its views.

    Args:
        result: The result.
        output: The options of that name.
        table: Which of its tables is written.
        details: The views to print that are printed only when asked for.
        views: What to print in place of the result's views.
        files: Further files that were written, to be named.
    """
    save_result(result, output, table)
    print_outcome(result, output, [output.file, *files], details=details, views=views)


def print_outcome(
    result: Result,
    output: Output,
    files: Sequence[Path | None],
    *,
    details: Collection[str] = (),
    views: Sequence[View] | None = None,
) -> None:
    """Print a result, as JSON or as views, and the files that were written."""
    if output.json:
        print_json(result.to_dict())
        return
    console = render.make_console()
    render.print_result(result, console, details, views=views)
    for path in files:
        if path is not None:
            console.print(f"wrote {path}", markup=False)


def write_result(table: pl.DataFrame, document: dict[str, Any], path: Path) -> None:
    """Write a result by the path's ending: .json, .csv, .tsv or .parquet; JSON to standard output ("-")."""
    writers.write_result(path, with_notes(document), lambda: table)


def require_picture(path: Path | None, picture: str | None = None, known: Sequence[str] = ()) -> None:
    """Refuse, before any work, a picture that cannot be drawn or written; `picture` is one of those `known`."""
    if picture is not None and picture not in known:
        raise unknown_name("picture", picture, known, "check --picture")
    if path is None:
        return
    require_writable_path(path)
    from aliquot.report.figures.style import require_figures

    require_figures(path)


def write_figure(path: Path | None, figure: Callable[[], Any]) -> None:
    """Write the picture, if one is asked for."""
    if path is None:
        return
    from aliquot.report.figures.style import save_figure

    save_figure(figure(), path)


@contextmanager
def explain_interruption(output: Path | None) -> Iterator[None]:
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


def require_output(output: ResultOutput, kind: writers.Kind = "result") -> None:
    """Refuse, before any work, a format that does not hold such content, and a path that cannot be written."""
    place = "file" if output.to is None else writers.find_writer(kind, output.file, output.to).place
    require_place(output.file, place)


def require_place(path: Path | None, place: str) -> None:
    """Refuse an output path that cannot be what a format writes: a "file", a "folder", or an address, a "store"."""
    if place != "store":
        require_writable(path, or_folder=place != "file")


def require_writable(path: Path | None, *, or_folder: bool = False) -> None:
    """Refuse an output path that cannot be written, or is an input, before any work is done.

    With `or_folder` a path without an ending, or of a folder that exists, is meant as a folder.
    """
    if path is None:
        return
    register_output(path)
    if not (or_folder and (path.is_dir() or not Path(resolve_ending(path, "x.jsonl")).suffix)):
        require_writable_path(path)
