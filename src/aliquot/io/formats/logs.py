"""Logs of evaluation harnesses and exports of observability tools: which tool wrote a file, and files of a folder.

A reader is a module with `read_samples(files)`, which yields `LogSample`s, and functions that say whether a file is its
own: `looks_like(fields)` by the first JSON object (a long document is known by its leading fields: the last is None),
and where the tool writes such files `looks_like_table(columns)` by the columns of a CSV or Parquet file and
`looks_like_archive(names)` by the members of a zip archive.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from aliquot.core.evalset import EvalSet
from aliquot.errors import FormatError
from aliquot.io.formats import inspect_logs, langfuse, langsmith, lm_eval, promptfoo
from aliquot.io.formats.samples import LogFile, build_evalset
from aliquot.io.zip_archive import list_members, read_first_name

READERS: dict[str, ModuleType] = {
    "langfuse": langfuse,
    "langsmith": langsmith,
    "lm-eval": lm_eval,
    "inspect": inspect_logs,
    "promptfoo": promptfoo,
}
MAX_HEAD = 1 << 16
"""Bytes at the start of a file by which its tool is recognised."""
_ENDINGS = (".eval", ".json", ".jsonl", ".ndjson", ".csv", ".parquet", ".gz")
_MAX_FILES = 10_000


def read(kind: str, files: Sequence[LogFile], path: Path | str) -> EvalSet:
    """Read the log files of one tool as one data set."""
    return build_evalset(READERS[kind].read_samples(files), path)


def detect_tool(fields: Mapping[str, Any]) -> str | None:
    """Return the name of the tool that wrote an object; None for others."""
    return _detect("looks_like", fields)


def detect_table(columns: Collection[str]) -> str | None:
    """Return the name of the tool that wrote a table with these columns; None for others."""
    return _detect("looks_like_table", columns)


def detect_archive(raw: bytes) -> str | None:
    """Return the name of the tool that wrote a zip archive; None for others, such as Excel's."""
    try:
        names = list(list_members(raw, "archive"))
    except FormatError:
        names = [read_first_name(raw)]  # the reader explains what is wrong
    return _detect("looks_like_archive", names)


def _detect(test: str, content: object) -> str | None:
    tests = {name: getattr(reader, test) for name, reader in READERS.items() if hasattr(reader, test)}
    return next((name for name, is_own in tests.items() if is_own(content)), None)


def read_header(raw: bytes) -> list[str]:
    r"""Return the names in the first row of a CSV or TSV file, whose quoted cells may have several lines.

    >>> read_header(b'id,"[A] Say\n{{x}}"\n1,2')
    ['id', '[A] Say\n{{x}}']
    """
    head = raw[:MAX_HEAD].decode("utf-8", "ignore")
    delimiter = "\t" if "\t" in head.partition("\n")[0] else ","
    try:
        return next(csv.reader(io.StringIO(head), delimiter=delimiter), [])
    except csv.Error:
        return []


def list_files(folder: Path) -> list[Path]:
    """Return the files of a folder and its folders that may be logs, in the order of their names."""
    files = sorted(path for path in folder.rglob("*") if path.name.endswith(_ENDINGS) and path.is_file())
    if len(files) > _MAX_FILES:
        raise FormatError(f"{folder}: holds {len(files)} files; name a folder with at most {_MAX_FILES} logs")
    return files


def decode_leading_fields(raw: bytes) -> dict[str, Any]:
    """Decode the first JSON object as far as the head of a file holds it; a value that is cut is None.

    >>> decode_leading_fields(b'[{"a": 1, "b": {"c": [2')
    {'a': 1, 'b': None}
    """
    text = raw[:MAX_HEAD].decode("utf-8", "ignore").lstrip().removeprefix("[").lstrip()
    decoder, place = json.JSONDecoder(), 1
    fields: dict[str, Any] = {}
    if not text.startswith("{"):
        return {}
    try:
        while True:
            name, place = decoder.raw_decode(text, _skip_space(text, place))
            if not isinstance(name, str) or text[_skip_space(text, place)] != ":":
                return fields
            fields[name] = None
            fields[name], place = decoder.raw_decode(text, _skip_space(text, _skip_space(text, place) + 1))
            place = _skip_space(text, place)
            if text[place] != ",":
                return fields
            place += 1
    except (ValueError, IndexError, RecursionError):
        return fields


def _skip_space(text: str, place: int) -> int:
    while text[place].isspace():
        place += 1
    return place
