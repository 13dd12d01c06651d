"""A folder of plain texts: one file for each system, one line for each item; source.txt and reference.txt if known."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.errors import FormatError
from aliquot.io.formats.mtme import read_lines
from aliquot.io.formats.table_columns import SYNONYMS

_ENDINGS = ("", ".txt", ".out", ".hyp", ".tgt")
_FIELDS = {name: role for role in ("source", "reference", "document", "domain") for name in SYNONYMS[role]}


def looks_like(folder: Path) -> bool:
    """Return whether a folder holds text files only, at least one of a system."""
    files = [path for path in folder.iterdir() if not path.name.startswith(".")]
    texts = all(path.is_file() and path.suffix.casefold() in _ENDINGS for path in files)
    return texts and any(_get_stem(path) not in _FIELDS for path in files)


def _get_stem(path: Path) -> str:
    return path.stem.casefold() if path.suffix.casefold() in _ENDINGS else path.name.casefold()


def read(folder: Path) -> EvalSet:
    """Read the texts; line numbers from 0 are the ids, as in mt-metrics-eval."""
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    systems = {path.stem: path for path in files if _get_stem(path) not in _FIELDS}
    if not systems:
        raise FormatError(f"{folder}: no file holds a system's outputs; name one SYSTEM.txt")
    n = len(read_lines(next(iter(systems.values()))))
    fields = {
        _FIELDS[_get_stem(path)]: read_lines(path, n, "other files") for path in files if _get_stem(path) in _FIELDS
    }
    return EvalSet(
        items=pl.DataFrame({"id": range(n), **fields}),
        systems=tuple(systems),
        outputs=pl.DataFrame({system: read_lines(path, n, "other files") for system, path in systems.items()}),
        name=folder.name,
    )
