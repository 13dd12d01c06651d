"""Files of datasets on the Hugging Face Hub (hf://datasets/OWNER/NAME/FILE), read by Polars as bytes of a local file.

Parquet stays Parquet, texts (CSV, JSON lines, ...) stay the lines they are, so that a file of the Hub is recognised and
read as the same file on a disk. With a pattern (data/*.parquet) several files become one.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import polars as pl

from aliquot.errors import FormatError
from aliquot.io.parquet_seal import PARQUET_ERRORS, silence_panics

TOKEN = "HF_TOKEN"  # noqa: S105  (the name of a variable)
_PREFIX = re.compile(r"^hf:/+")
_PARQUET, _TABLES, _LINES = ".parquet", (".csv", ".tsv"), (".jsonl", ".ndjson", ".json")
_TEXTS = (*_TABLES, *_LINES, *(f"{ending}.gz" for ending in (*_TABLES, *_LINES)))
_UNUSED = "\x01"  # a separator that no line holds: each line is one cell
_REASONS = (
    (r"40[13] |unauthorized|forbidden", "does not exist, or is private: check the name; set {token} for your own"),
    (
        r"404 |not found|no such file|paths were empty|no match",
        "there is no such file: check the name on huggingface.co",
    ),
    (
        r"sending request|connect|dns|timed? ?out|network",
        "huggingface.co cannot be reached: check the network, or download the file and name that",
    ),
    (r"invalid hugging face path", "write hf://datasets/OWNER/NAME/FILE"),
)


def as_hub_path(source: str | Path) -> str | None:
    """Return a path on the Hub, also one that a Path has shortened; None for others.

    >>> as_hub_path(Path("hf://datasets/owner/name/a.csv")), as_hub_path("a.csv")
    ('hf://datasets/owner/name/a.csv', None)
    """
    text = str(source)
    return f"hf://{_PREFIX.sub('', text)}" if _PREFIX.match(text) else None


def name_dataset(path: str) -> str:
    """Return the name of the dataset that a path on the Hub is in.

    >>> name_dataset("hf://datasets/owner/name@main/data/*.parquet")
    'name'
    """
    parts = path.split("/")
    return parts[4].partition("@")[0] if len(parts) > 4 else path


def read_bytes(path: str) -> bytes:
    """Return the content of the file, or of the files that match a pattern, as one file."""
    if not path.endswith((_PARQUET, *_TEXTS)):
        raise FormatError(f"{path}: name a file on the Hub that ends in {_PARQUET}, {', '.join((*_TABLES, *_LINES))}")
    try:
        with silence_panics():
            return _read_parquet(path) if path.endswith(_PARQUET) else _read_lines(path)
    except (*PARQUET_ERRORS, OSError) as error:
        raise FormatError(f"{path}: {_explain_failure(error)}") from None


def locate_source(path: str) -> str:
    """Return what Polars reads for a path."""
    return path


def _storage_options() -> dict[str, str]:
    """Return the token; Polars looks for one in its cache only if it is given some options, even empty ones."""
    token = os.environ.get(TOKEN)
    return {"token": token} if token else {}


def _read_parquet(path: str) -> bytes:
    table = pl.scan_parquet(locate_source(path), storage_options=_storage_options()).collect()
    content = io.BytesIO()
    table.write_parquet(content, compression="uncompressed")
    return content.getvalue()


def _read_lines(path: str) -> bytes:
    table = pl.scan_csv(
        locate_source(path),
        separator=_UNUSED,
        quote_char=None,
        has_header=False,
        infer_schema=False,
        new_columns=["line"],
        storage_options=_storage_options(),
    ).collect()
    lines = table["line"].fill_null("")
    if path.removesuffix(".gz").endswith(_TABLES):  # of several tables one header
        lines = pl.concat([lines.head(1), lines.tail(-1).filter(lines.tail(-1) != lines[0])])
    return "\n".join(lines.to_list()).encode()


def _explain_failure(error: BaseException) -> str:
    text = re.sub(r"\(?(https?|hf)://\S+", "", str(error))
    for pattern, reason in _REASONS:
        if re.search(pattern, text, re.IGNORECASE):
            return reason.format(token=TOKEN)
    return f"cannot be read from the Hub ({(text.splitlines() or [type(error).__name__])[0][:120]})"
