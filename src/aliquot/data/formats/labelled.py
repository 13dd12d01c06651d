"""Tables of judgments whose answers may be labels, such as `yes` and `no`: kept as tables, since scores are numbers.

Columns are found as in any table of judgments. A table may lack systems: labels are also given to items themselves.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from aliquot.data.files import decode_text, read_bytes
from aliquot.data.formats import delimited
from aliquot.data.formats.table_columns import map_columns, require
from aliquot.data.formats.table_values import guess_type, ids_of, names_of, numbers_of
from aliquot.errors import FormatError, unknown_name

_PARQUET_MAGIC = b"PAR1"
_OURS = ("item", "system", "annotator", "criterion", "seconds")


def read(path: Path | str, answer: str, columns: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Read a CSV, TSV or Parquet table of judgments; the column `answer` is numbers only if all of it is.

    Args:
        path: the file.
        answer: the column that holds the answers.
        columns: our column role -> the table's column name, where synonyms do not do.
    """
    raw = read_bytes(path)
    table = _parquet(raw, path) if raw.startswith(_PARQUET_MAGIC) else delimited.parse(decode_text(raw, path), path)
    if answer not in table.columns:
        raise FormatError(f"{path}: {unknown_name('column', answer, table.columns, 'check --answer')}")
    if answer in _OURS:
        raise FormatError(f"{path}: the column '{answer}' says what was judged, by whom or how fast, and is no answer")
    present = [name for name in table.columns if name != answer]
    roles = map_columns(present, {k: v for k, v in (columns or {}).items() if k != "value"}, str(path))
    roles.pop("value", None)
    require(["item", "annotator"], roles, present, "judgments", str(path))
    known = table.select(pl.col(theirs).alias(ours) for ours, theirs in roles.items())
    made = [ids_of(known["item"], str(path)).alias("item"), names_of(known["annotator"], str(path))]
    made.append(names_of(known["system"], str(path)) if "system" in roles else pl.repeat("-", len(known), eager=True))
    made[-1] = made[-1].alias("system")
    made.append(guess_type(table[answer]))
    if "seconds" in roles:
        made.append(pl.Series("seconds", numbers_of(known["seconds"], str(path)), nan_to_null=True))
    taken = {column.name for column in made}
    others = [guess_type(column) for column in known if column.name not in taken]
    free = [guess_type(table[name]) for name in present if name not in roles.values() and name not in taken]
    return pl.DataFrame([*made, *others, *(column for column in free if column.name not in {o.name for o in others})])


def _parquet(raw: bytes, path: Path | str) -> pl.DataFrame:
    try:
        return pl.read_parquet(io.BytesIO(raw))
    except pl.exceptions.PolarsError as error:
        raise FormatError(f"{path}: unreadable Parquet ({str(error).splitlines()[0]}); copy it again") from None
