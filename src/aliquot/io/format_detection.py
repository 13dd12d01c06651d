"""Which format a file's content has."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from aliquot.errors import FormatError
from aliquot.io.files import decode_text, first_character, refuse_utf16
from aliquot.io.formats import (
    annotation_tools,
    appraise,
    arena,
    campaign_database,
    logs,
    mqm,
    parquet,
    pearmut,
    summeval,
    wmt25,
)
from aliquot.io.formats.table_files import PARQUET_MAGIC, ZIP_MAGIC, is_table_record, read_frame
from aliquot.io.parquet_seal import PARQUET_ERRORS, silence_panics


def detect_format(raw: bytes, path: Path | str = "data", *, joins: bool = False) -> str:
    r"""Return the format of a file's content; any flat JSON record is a row of scores to be joined.

    >>> detect_format(b'{"i": 0, "scores": {}}'), detect_format(b"item,system,metric,value\n")
    ('items', 'table')
    """
    if not raw or raw.isspace():
        raise FormatError(f"{path}: the file is empty; it should hold items, scores or judgments")
    if raw.startswith(PARQUET_MAGIC):
        return "items" if is_item_table(raw, path) else _detect_table(_read_columns(raw)) or "table"
    if raw.startswith(ZIP_MAGIC):
        return logs.detect_archive(raw) or "table"
    if raw.startswith(campaign_database.MAGIC):
        raise FormatError(f"{path}: a campaign is read from its file, not from a stream; name the file")
    refuse_utf16(raw, path)
    start = first_character(raw)
    if start in (b"[", b"{"):
        tool = logs.detect_tool(logs.decode_leading_fields(raw))
        return tool or _detect_json_format(_decode_first_object(raw), joins=joins)
    header = decode_text(raw[: raw.find(b"\n") if b"\n" in raw else len(raw)], path).strip("\r")
    if "\t" in header and mqm.looks_like(header.split("\t")):
        return "mqm"
    if appraise.looks_like_row(header):
        return "appraise"
    if any(separator in header for separator in "\t,;"):
        tool = _detect_table(logs.read_header(raw))
        return tool or annotation_tools.detect_header_tool(header.split("\t" if "\t" in header else ",")) or "table"
    raise FormatError(
        f"{path} line 1: neither a JSON object nor a table header: '{header[:60]}'; "
        "see docs/formats.md for what can be read, or name it with `format`"
    )


def _detect_table(columns: list[str]) -> str | None:
    return logs.detect_table(columns) or ("arena" if arena.looks_like(columns) else None)


def read_table(raw: bytes, path: Path | str) -> pl.DataFrame | None:
    """Return a table of scores, judgments or choices as it is; None for other formats."""
    readers: dict[str, Callable[[bytes, Path | str], pl.DataFrame | None]] = {
        "table": read_frame,
        "arena": arena.read_table,
        "label-studio": annotation_tools.read_choices,
    }
    reader = readers.get(detect_format(raw, path))
    return None if reader is None else reader(raw, path)


def _detect_json_format(fields: dict[str, Any], *, joins: bool) -> str:
    for name, reader in (("summeval", summeval), ("pearmut", pearmut), ("appraise", appraise), ("wmt25", wmt25)):
        if reader.looks_like(fields):
            return name
    if arena.looks_like(fields):
        return "arena"
    is_row = is_table_record(fields) or (joins and not any(isinstance(value, dict) for value in fields.values()))
    return annotation_tools.detect_tool(fields) or ("table" if is_row else "items")


def _decode_first_object(raw: bytes) -> dict[str, Any]:
    """Decode the first JSON object of JSON lines or an array; empty if it is not valid."""
    text = raw[: 1 << 24].lstrip()
    if text[:1] == b"{" and b"\n" not in text:
        text = raw.lstrip()  # one object, which may be longer
    try:
        if text[:1] == b"[" or text.split(b"\n", 1)[0].rstrip()[-1:] != b"}":  # an array, or an object of many lines
            start = text.removeprefix(b"[").lstrip()
            first, _ = json.JSONDecoder().raw_decode(start.decode("utf-8", "ignore"))
        else:
            first = msgspec.json.decode(text.split(b"\n", 1)[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return {}  # the reader explains what is wrong
    return first if isinstance(first, dict) else {}


def is_item_table(raw: bytes, path: Path | str) -> bool:
    """Return whether a Parquet file holds items, as `save` writes them."""
    try:
        with silence_panics():
            return parquet.is_item_table(raw)
    except PARQUET_ERRORS as error:
        raise build_parquet_error(path, error) from None


def _read_columns(raw: bytes) -> list[str]:
    """Return the names of a Parquet file's columns, which `is_item_table` has read already."""
    return list(pl.read_parquet_schema(io.BytesIO(raw)))


def build_parquet_error(path: Path | str, error: Exception) -> FormatError:
    """Build the error for a Parquet file that Polars cannot read."""
    return FormatError(f"{path}: unreadable Parquet ({(str(error).splitlines() or ['damaged'])[0]}); copy it again")
