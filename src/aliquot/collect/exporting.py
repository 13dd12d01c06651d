"""Writing what a campaign holds: judgments and comparisons as tables, errors as Google's MQM TSV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from aliquot.core.columns import decode_column
from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError, OptionError
from aliquot.io.formats import tables
from aliquot.io.writing import resolve_ending, write_bytes
from aliquot.validation import one_of

WHAT = ("judgments", "choices")
FORMATS = ("table", "mqm")
_MQM = ("system", "doc", "docSegId", "globalSegId", "rater", "source", "target", "category", "severity")


def write_table(frame: pl.DataFrame, path: Path | str) -> None:
    """Write a table by the path's ending: .csv, .tsv, .parquet or .jsonl (and .gz of texts)."""
    name = resolve_ending(path, ".csv").removesuffix(".gz")
    if not name.endswith((".jsonl", ".ndjson")):
        if not name.endswith((".csv", ".tsv", ".parquet")):
            raise OptionError(f"{path}: unknown ending; use .csv, .tsv, .jsonl or .parquet")
        tables.write(frame, path)
        return
    encode = msgspec.json.Encoder().encode
    columns = {column.name: decode_column(column) for column in frame}
    lines = ({name: values[row] for name, values in columns.items()} for row in range(frame.height))
    write_bytes(path, b"".join(encode(line) + b"\n" for line in lines))


def write_mqm(judgments: pl.DataFrame, data: EvalSet, path: Path | str) -> None:
    """Write errors as Google's MQM TSV: one row an error, marked <v>...</v> in the target or the source."""
    if not {"error", "severity"} <= set(judgments.columns):
        raise OptionError(
            "an MQM file holds errors, and this campaign's protocol asks for other things; leave out `format` mqm"
        )
    rows = ["\t".join(_MQM)]
    rows += ["\t".join(map(_format_field, row)) for row in _mqm_rows(judgments, data, path)]
    write_bytes(path, ("\n".join(rows) + "\n").encode())


def _mqm_rows(judgments: pl.DataFrame, data: EvalSet, path: Path | str) -> Iterator[tuple[Any, ...]]:
    if data.outputs is None:
        raise DataError(f"{data.name}: there are no outputs; an MQM file shows them")
    row_of = {item: row for row, item in enumerate(data.ids)}
    blank = [None] * data.n_items
    sources = data.items["source"].to_list() if data.has_sources else blank
    documents = data.items["document"].to_list() if "document" in data.items.columns else blank
    outputs = {system: data.outputs[system].to_list() for system in data.systems}
    places = _number_within_documents(documents)
    for error in judgments.iter_rows(named=True):
        index = row_of[error["item"]]
        texts = {"source": sources[index] or "", "output": outputs[error["system"]][index] or ""}
        if error.get("start") is not None:
            side, start, end = error.get("span_in") or "output", error["start"], error["end"]
            text = texts[side]
            texts[side] = f"{text[:start]}<v>{text[start:end]}</v>{text[end:]}"
        system, item, annotator = (_format_name(error[role], path) for role in ("system", "item", "annotator"))
        yield (
            system,
            _format_name(documents[index] or item, path),
            places[index],
            item,
            annotator,
            texts["source"],
            texts["output"],
            error["category"],
            error["severity"],
        )


def _number_within_documents(documents: list[Any]) -> list[int]:
    """Return the number of each item within its document, from 1."""
    counts: dict[Any, int] = {}
    places = []
    for document in documents:
        counts[document] = counts.get(document, 0) + 1
        places.append(counts[document] if document is not None else 1)
    return places


def _format_field(value: Any) -> str:
    """A field of a TSV without quotes: tabs and line ends become spaces of the same length, so that offsets hold."""
    return str(value).replace("\t", " ").replace("\r", " ").replace("\n", " ")


def _format_name(name: Any, path: Path | str) -> str:
    """Return a name as text; refuse one that a TSV without quotes cannot hold."""
    if _format_field(name) != str(name):
        raise DataError(
            f"{path}: the name {str(name)!r} has a tab or a line end, which an MQM file cannot hold; leave "
            "out `format` mqm, or give it another name"
        )
    return str(name)


def check_what(what: str, format: str) -> None:  # noqa: A002
    """Validate the names of the table and of the format."""
    one_of("what", what, WHAT)
    one_of("format", format, FORMATS)
