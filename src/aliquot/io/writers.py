"""The formats that can be written, by name (`to`) or by ending: of data, of selections and of results.

A format is one `Writer` for each kind of content that it holds. What cannot be written so is refused by the names and
endings that can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.registry import parse_spec
from aliquot.core.result import Result
from aliquot.core.selection import Selection
from aliquot.core.view import View
from aliquot.errors import OptionError, unknown_name
from aliquot.io import result_files, selection_files
from aliquot.io.formats import huggingface, inspect_dataset, items, langfuse_scores, mlflow_runs, mtme, parquet, tables
from aliquot.io.result_files import ResultContent
from aliquot.io.writing import resolve_ending
from aliquot.validation import one_of

Kind = Literal["data", "selection", "result"]
_WORDS: Mapping[Kind, str] = MappingProxyType({"data": "data", "selection": "selections", "result": "results"})
LongTable = Literal["scores", "judgments"]
"""What a long table holds, one row for each."""


@dataclass(frozen=True)
class Writer:
    """A format of one kind of content.

    Attributes:
        name: What `to` calls it.
        kind: What it holds.
        write: Writes content to a path; data writers also take which long table and which language pair, selection
            writers the data that the selection is of, or None.
        endings: Those of paths that mean it.
        needs: The method of a result that gives what is written; other results cannot be written so.
        place: What the path is; an "optional" file or a "store", such as a server, may be absent.
        sources_only: Whether data without systems can be written.
        options: What may follow the name, as in "huggingface:license=mit": further arguments of `write`.
    """

    name: str
    kind: Kind
    write: Callable[..., None]
    endings: tuple[str, ...] = ()
    needs: Literal["", "views", "decisions", "means"] = ""
    place: Literal["file", "folder", "optional", "store"] = "file"
    sources_only: bool = False
    options: tuple[str, ...] = ()

    def fits(self, of: type[Result] | None) -> bool:
        """Return whether results of a class have what is written; None stands for a document and a table only."""
        if not self.needs or self.needs == "views":
            return not self.needs or of is not None
        return of is not None and getattr(of, self.needs) is not getattr(Result, self.needs)


# -- data ----------------------------------------------------------------------------------------------------------


def _write_whole(write: Callable[..., None]) -> Callable[..., None]:
    """Make a writer of data of a function that writes everything, whichever table and pair are asked for."""
    return lambda evalset, path, _what, _pair, **options: write(evalset, path, **options)


def _write_long_table(evalset: EvalSet, path: str | Path, what: LongTable | None, _: str | None, ending: str) -> None:
    if one_of("what", what or "scores", get_args(LongTable)) == "judgments":
        if evalset.judgments is None:
            raise OptionError(f"{evalset.name}: there are no judgments to write; leave `what` out for scores")
        tables.write(evalset.judgments.table, path, ending)
        return
    if not evalset.scores:
        raise OptionError(f"{evalset.name}: there are no scores to write; .jsonl and .parquet keep everything else")
    tables.write(tables.build_long_scores(evalset), path, ending)


def _write_folder(evalset: EvalSet, path: str | Path, _: LongTable | None, pair: str | None) -> None:
    named = pair is not None or "/" in evalset.name  # as in "wmt23/en-de"
    mtme.write(evalset, Path(path), pair or Path(evalset.name).name or "xx-yy", alone=not named)


# -- selections ----------------------------------------------------------------------------------------------------


def _write_selection_table(selection: Selection, path: str | Path, _: EvalSet | None, ending: str) -> None:
    tables.write(selection.to_frame(), path, ending)


# -- all formats ---------------------------------------------------------------------------------------------------


def _make_table_writer(kind: Kind, write: Callable[..., None], name: str) -> Writer:
    return Writer(name, kind, partial(write, ending=f".{name}"), (f".{name}",))


NO_ENDING = "/"
WRITERS: tuple[Writer, ...] = (
    Writer("jsonl", "data", _write_whole(items.write), (".jsonl", ".json", ".ndjson")),
    Writer("parquet", "data", _write_whole(parquet.write), (".parquet",)),
    *(_make_table_writer("data", _write_long_table, name) for name in ("csv", "tsv")),
    Writer("wmt", "data", _write_folder, (NO_ENDING,), place="folder"),
    Writer(
        "huggingface",
        "data",
        _write_whole(huggingface.write),
        place="folder",
        options=tuple(huggingface.CardOptions.__dataclass_fields__),
    ),
    Writer("langfuse", "data", _write_whole(langfuse_scores.write), options=("trace",)),
    Writer("mlflow", "data", _write_whole(mlflow_runs.log_feedback), place="store"),
    Writer("inspect", "data", _write_whole(inspect_dataset.write), sources_only=True),
    Writer("jsonl", "selection", selection_files.save_selection, (".jsonl", ".json", ".ndjson", NO_ENDING)),
    *(_make_table_writer("selection", _write_selection_table, name) for name in ("csv", "tsv", "parquet")),
    Writer("ids", "selection", selection_files.write_ids),
    Writer("inspect", "selection", selection_files.write_inspect_dataset),
    Writer("json", "result", result_files.write_document, (".json",)),
    *(_make_table_writer("result", result_files.write_table, name) for name in ("csv", "tsv", "parquet")),
    Writer("markdown", "result", result_files.write_markdown, (".md",), needs="views"),
    Writer("latex", "result", result_files.write_latex, (".tex",), needs="views"),
    Writer("junit", "result", result_files.write_junit, (".xml",), needs="decisions"),
    Writer("github", "result", result_files.write_step_summary, needs="views", place="optional"),
    Writer(
        "every-eval-ever",
        "result",
        result_files.write_every_eval_ever,
        needs="means",
        place="folder",
        options=("organization", "relationship", "developer"),
    ),
    Writer(
        "mlflow", "result", result_files.log_mlflow, needs="means", place="store", options=("experiment", "run_name")
    ),
)


def choose_writer(
    kind: Kind, path: str | Path | None, to: str | None = None, *, default: str = "", of: type[Result] | None = None
) -> Writer:
    """Return the writer of a kind of content by the name `to`, or by the path's ending.

    Args:
        kind: The kind of content.
        path: Where to; its ending counts where `to` is None.
        to: The name of a format.
        default: The ending that a stream without one stands for.
        of: The class of the result; None for a document and a table only.

    >>> choose_writer("result", "x.csv").name, choose_writer("result", "x.txt", "json").name
    ('csv', 'json')
    >>> choose_writer("data", "report.xml")
    Traceback (most recent call last):
    aliquot.errors.OptionError: report.xml: unknown ending; use ...
    """
    writers = [writer for writer in WRITERS if writer.kind == kind and writer.fits(of)]
    if to is not None:
        writer = _match_name(writers, to, "this result" if kind == "result" else _WORDS[kind])
        _require_place(writer, path)
        return writer
    if path is None:
        raise OptionError("name a path to write to, or a format by `to`", "path")
    name = resolve_ending(path, default).removesuffix(".gz")
    ending = name if Path(f"x{name}").suffix else NO_ENDING  # ".json" alone is an ending here
    match = next((writer for writer in writers if ending.endswith(writer.endings)), None)
    if match is None:
        endings = [ending for writer in writers for ending in writer.endings if ending != NO_ENDING]
        raise OptionError(f"{path}: unknown ending; use {', '.join(endings[:-1])} or {endings[-1]}", "output")
    return match


def find_writer(kind: Kind, path: str | Path | None, to: str) -> Writer:
    """Return the writer of a kind by its name, before there is a result that may not have what it needs."""
    writer = _match_name([writer for writer in WRITERS if writer.kind == kind], to, _WORDS[kind])
    _require_place(writer, path)
    return writer


def _match_name(writers: Sequence[Writer], to: str, content: str) -> Writer:
    spec = parse_spec(to, "format")
    names = [writer.name for writer in writers]
    if spec.name not in names and spec.name in {writer.name for writer in WRITERS}:
        raise OptionError(f"`to` is '{spec.name}', which does not hold {content}; choose {', '.join(names)}", "to")
    writer = writers[names.index(one_of("to", spec.name, names))]
    for option in spec.parameters:
        if not writer.options:
            raise OptionError(f"`to` is '{to}', but {writer.name} has no options; leave '{option}' out", "to")
        if option not in writer.options:
            raise unknown_name(f"option of {writer.name}", option, writer.options)
    options = {name: str(value) for name, value in spec.parameters.items()}
    return replace(writer, write=partial(writer.write, **options)) if options else writer


def _require_place(writer: Writer, path: str | Path | None) -> None:
    """Raise OptionError where a format needs a path and has none, or is a folder and has the path of a file."""
    if path is None and writer.place in ("file", "folder"):
        raise OptionError(f"`to` is '{writer.name}': name the {writer.place} to write", "path")
    endings = tuple(ending for each in WRITERS for ending in each.endings if ending != NO_ENDING)
    if path is not None and writer.place == "folder" and str(path).removesuffix(".gz").endswith(endings):
        raise OptionError(f"{path}: {writer.name} is a folder of files; name it without an ending", "output")


def write_result(
    path: str | Path | None,
    document: Mapping[str, Any],
    frame: Callable[[], pl.DataFrame],
    views: Callable[[], Sequence[View]] | None = None,
    *,
    result: Result | None = None,
    to: str | None = None,
) -> None:
    """Write a result as `to` says or by the path's ending; standard output ("-") and other streams get JSON.

    Args:
        path: Where to.
        document: The JSON document.
        frame: Gives the table.
        views: Gives the views.
        result: The result; without it only its document and its table can be written.
        to: The name of a format.
    """
    writer = choose_writer("result", path, to, default=".json", of=None if result is None else type(result))
    writer.write(ResultContent(document, frame, views, result), path)
