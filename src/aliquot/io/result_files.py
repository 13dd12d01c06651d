"""Writing a result by the path's ending: its JSON document, its table of numbers, or its views for a paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from aliquot.core.result import to_plain
from aliquot.core.view import View
from aliquot.errors import OptionError
from aliquot.io.formats import tables
from aliquot.io.writing import resolve_ending, write_bytes

ENDINGS = (".json", ".csv", ".tsv", ".parquet", ".md", ".tex")


def encode_json(document: Mapping[str, Any]) -> bytes:
    r"""Encode a JSON document, indented; undefined numbers are null.

    >>> encode_json({"mean": float("nan"), "n": 3}).decode()
    '{\n  "mean": null,\n  "n": 3\n}'
    """
    return msgspec.json.format(msgspec.json.encode(document, enc_hook=to_plain), indent=2)


def require_ending(path: str | Path, endings: Sequence[str] = ENDINGS) -> None:
    """Raise OptionError where `write_result` has no format for the path's ending."""
    name = resolve_ending(path, ".json")
    if not name.endswith(tuple(endings)) and not name.removesuffix(".gz").endswith(ENDINGS[1:4]):
        raise OptionError(f"{path}: unknown ending; use {', '.join(endings[:-1])} or {endings[-1]}", "output")


def write_result(
    path: str | Path,
    document: Mapping[str, Any],
    frame: Callable[[], pl.DataFrame],
    views: Callable[[], Sequence[View]] | None = None,
) -> None:
    """Write a result, whole or not at all; standard output ("-") and other streams get JSON.

    Args:
        path: `.json` writes the document, `.csv`, `.tsv` and `.parquet` the table, `.md` and `.tex` the views.
        document: the JSON document.
        frame: gives the table.
        views: gives the views; without them, `.md` and `.tex` are refused.
    """
    require_ending(path, ENDINGS if views is not None else ENDINGS[:4])
    name = resolve_ending(path, ".json")
    if name.endswith(".json"):
        write_bytes(path, encode_json(document) + b"\n")
    elif views is not None and name.endswith((".md", ".tex")):
        texts = [view.to_markdown() if name.endswith(".md") else view.to_latex() for view in views() if view.columns]
        write_bytes(path, "\n".join(texts).encode())
    else:
        tables.write(frame(), path)
