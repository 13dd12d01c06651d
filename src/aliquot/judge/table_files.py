"""Reading what `compare` is given: a table of choices stays a table, everything else is loaded as data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.data.files import decode_text, read_bytes
from aliquot.data.formats import delimited, items, parquet, tables
from aliquot.data.formats.table_columns import map_columns
from aliquot.data.io import load, recognise
from aliquot.errors import FormatError
from aliquot.judge.choice_tables import kind_of

TABLE_KINDS = ("pairwise", "best-worst", "ranking", "verify", "postedit", "groups")
"""Kinds that are read from tables of their own."""

_PARQUET = b"PAR1"


def read_data(
    path: str | Path, kind: str | None = None, columns: Mapping[str, str] | None = None
) -> EvalSet | pl.DataFrame:
    """Read a file as a table or as data, as the kind of comparison needs it.

    Args:
        path: A file, a folder, "-" for standard input, or a name of data such as wmt23/en-de.
        kind: What is to be compared; None tells by the columns whether it is a table of choices.
        columns: Our column role -> the table's column, as `kind_of` takes it.

    Raises:
        FormatError: It is no table, and a table is needed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "choices.csv"
        >>> _ = path.write_text("item,system_a,system_b,choice")
        >>> read_data(path).columns
        ['item', 'system_a', 'system_b', 'choice']
    """
    if str(path) != "-" and not Path(path).is_file() and kind not in TABLE_KINDS:
        return load(path)
    raw = read_bytes(path)
    frame = _frame(raw, path)
    if frame is None:
        if kind in TABLE_KINDS:
            raise FormatError(f"{path}: is no table; choices are read from CSV, TSV or Parquet")
        return items.read(raw, path) if str(path) == "-" else load(path)
    if kind in (*TABLE_KINDS, "importance") or (kind is None and kind_of(frame.columns, columns) is not None):
        return frame
    if kind == "criteria" and not {"criterion", "value"} <= map_columns(frame.columns, columns, str(path)).keys():
        return frame  # a column for each criterion
    return scores_of(frame, columns, str(path))


def scores_of(frame: pl.DataFrame, columns: Mapping[str, str] | None, where: str) -> EvalSet:
    """Make data of a table of judgments or scores."""
    return tables.from_table(frame, where, tables.TableOptions(columns=columns))


def _frame(raw: bytes, path: str | Path) -> pl.DataFrame | None:
    """Return the table that a file holds, or None where it holds something else."""
    if raw.startswith(_PARQUET):
        try:
            return None if parquet.is_item_table(raw) else pl.read_parquet(raw)
        except pl.exceptions.PolarsError as error:
            raise FormatError(f"{path}: unreadable Parquet ({str(error).splitlines()[0]}); copy it again") from None
    return delimited.parse(decode_text(raw, path), path) if recognise(raw, path) == "table" else None
