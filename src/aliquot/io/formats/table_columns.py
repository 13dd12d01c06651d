"""Which column of somebody's table is which: our names, the synonyms people use, and the user's own mapping."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import polars as pl

from aliquot.errors import FormatError, OptionError, quoted, unknown_name
from aliquot.stats.arrays import FloatArray

# -- CSV and TSV files as tables of text: every row as long as the header, every column under a name of its own ------


_QUOTE = '"'


def parse(text: str, path: Path | str) -> pl.DataFrame:
    r"""Split a table into columns of text.

    >>> parse("item,system\n1,\n", "t.csv").rows()
    [('1', None)]
    """
    if not text.strip():
        raise FormatError(f"{path}: the file is empty; it should hold a header and rows")
    text = text.lstrip("\r\n")
    separator = sniff_separator(text)
    spaced = separator != "\t" and f"{separator} " in text.split("\n", 1)[0]
    split = _split_quoted if _QUOTE in text else _split_plain
    table = split(text, separator, path, spaced=spaced)
    return table.with_columns(pl.when(pl.all() != "").then(pl.all()))


def sniff_separator(text: str) -> str:
    """Tell tab, comma and semicolon apart by the header."""
    header = text.split("\n", 1)[0]
    return max("\t,;", key=header.count)


def _split_plain(text: str, separator: str, path: Path | str, *, spaced: bool) -> pl.DataFrame:
    lines = pl.Series(text.split("\n"), dtype=pl.String).str.strip_suffix("\r")
    numbered = (
        pl.DataFrame({"line": lines})
        .with_row_index("number", offset=1)
        .filter(pl.col("line").str.strip_chars(" ") != "")
    )
    header = _cells(numbered["line"][0], separator, spaced=spaced)
    _check_header(header, path)
    body = numbered.slice(1)
    ragged = body.filter(pl.col("line").str.count_matches(separator, literal=True) != len(header) - 1)
    if ragged.height:
        number, line = ragged.row(0)
        raise _wrong_length(_cells(line, separator, spaced=spaced), len(header), number, path)
    columns = body["line"].str.split_exact(separator, len(header) - 1).struct.unnest()
    table = columns.rename(dict(zip(columns.columns, header, strict=True)))
    return table.with_columns(pl.all().str.strip_chars_start(" ")) if spaced else table


def _cells(line: str, separator: str, *, spaced: bool) -> list[str]:
    return [cell.lstrip(" ") if spaced else cell for cell in line.split(separator)]


def _split_quoted(text: str, separator: str, path: Path | str, *, spaced: bool) -> pl.DataFrame:
    rows = _quoted_rows(text, separator, path, spaced=spaced)
    _, header = next(rows)
    _check_header(header, path)
    body = []
    for number, row in rows:
        if len(row) != len(header):
            raise _wrong_length(row, len(header), number, path)
        body.append(row)
    columns = zip(*body, strict=True) if body else ([] for _ in header)
    return pl.DataFrame([pl.Series(n, list(c), dtype=pl.String) for n, c in zip(header, columns, strict=True)])


def _quoted_rows(text: str, separator: str, path: Path | str, *, spaced: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not empty with the number of the line it begins on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=spaced, strict=True)
    usual = csv.field_size_limit(max(len(text), csv.field_size_limit()))
    number = 1
    try:
        for row in reader:
            if row:
                yield number, row
            number = reader.line_num + 1
    except csv.Error:
        raise FormatError(
            f"{path} line {number}: a cell begins with a quote and does not end with it; mend the row: enclose the "
            f'whole cell in quotes and double those inside, e.g. "{_QUOTE * 2}Go{_QUOTE * 2}, he said"'
        ) from None
    finally:
        csv.field_size_limit(usual)


def _check_header(header: Sequence[str], path: Path | str) -> None:
    repeated = [name for name in header if header.count(name) > 1]
    if repeated:
        raise FormatError(f"{path} line 1: the column '{repeated[0]}' occurs twice; give each column its own name")


def _wrong_length(row: Sequence[str], expected: int, number: int, path: Path | str) -> FormatError:
    return FormatError(
        f"{path} line {number}: {len(row)} fields where the header has {expected}; "
        f"mend the row that begins {quoted(row[:2])}"
    )


# -- Which column of somebody's table is which: our names, the synonyms people use, and the user's own mapping -------


SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "item": ("item", "item_id", "segment_id", "seg_id", "segment", "seg", "id", "i", "sentence_id", "sent_id",
                 "example_id", "instance_id", "line_id", "globalsegid"),
        "system": ("system", "system_id", "system_name", "sys", "model", "model_id", "model_name", "generator"),
        "metric": ("metric", "metric_name", "score_name", "scorer", "measure"),
        "value": ("value", "score", "rating", "judgment", "judgement", "grade", "points"),
        "annotator": ("annotator", "annotator_id", "rater", "rater_id", "judge", "judge_id", "worker", "worker_id",
                      "user", "user_id", "participant", "participant_id", "coder", "login"),
        "criterion": ("criterion", "criteria", "dimension", "aspect", "question", "attribute"),
        "seconds": ("seconds", "secs", "duration", "annotation_time", "time_seconds", "seconds_spent"),
        "time": ("time", "timestamp", "start_time", "date"),
        "order": ("order", "sequence"),
        "control": ("control", "is_control", "attention_check"),
        "repeat": ("repeat", "is_repeat"),
        "source": ("source", "src", "source_text", "input", "prompt"),
        "reference": ("reference", "ref", "reference_text", "gold"),
        "output": ("output", "tgt", "target", "translation", "hypothesis", "hyp", "mt", "summary", "response"),
        "document": ("document", "doc", "document_id", "doc_id", "docid"),
        "position": ("position", "doc_position"),
        "domain": ("domain", "genre", "topic"),
        "cost": ("cost",),
    }
)  # fmt: skip
ITEM_FIELDS = ("source", "reference", "document", "position", "domain", "cost")
MAY_BE_SCORES = ("metric", "value", "source", "reference", "output")
"""Roles whose names people also give to metrics and systems in wide tables, where their columns hold numbers."""


def map_columns(present: Sequence[str], wanted: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """Return our name -> the table's column name; the user's mapping first, then exact names, then synonyms.

    >>> map_columns(["segment_id", "model", "score"], None, "t.csv")
    {'item': 'segment_id', 'system': 'model', 'value': 'score'}
    """
    found: dict[str, str] = {}
    for ours, theirs in (wanted or {}).items():
        if ours not in SYNONYMS:
            raise unknown_name("column role", ours, SYNONYMS, "write --columns role=column")
        if theirs not in present:
            raise FormatError(f"{where}: {unknown_name('column', theirs, present)}")
        if theirs in found.values():
            raise OptionError(f"--columns gives the column '{theirs}' two roles; each column plays one")
        found[ours] = theirs
    free = {name.strip().casefold().replace(" ", "_"): name for name in present if name not in found.values()}
    for ours, names in SYNONYMS.items():
        match = next((free[name] for name in names if name in free), None)
        if ours not in found and match is not None:
            found[ours] = match
    return {ours: found[ours] for ours in SYNONYMS if ours in found}


def require(roles: Sequence[str], mapped: Mapping[str, str], present: Sequence[str], kind: str, where: str) -> None:
    """Raise for the first role that no column plays."""
    for role in roles:
        if role not in mapped:
            raise FormatError(
                f"{where}: {kind} need a column '{role}' (or {quoted(SYNONYMS[role][1:4])}); "
                f"there are {quoted(present)}; name it with --columns {role}=NAME"
            )


def parse_mapping(text: str) -> dict[str, str]:
    """Parse `role=column,role=column` as the command line gives it.

    >>> parse_mapping("item=segment,value=points")
    {'item': 'segment', 'value': 'points'}
    """
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    for role, equals, column in pairs:
        if not (role and equals and column):
            raise OptionError(f"--columns '{text}': expected role=column pairs, e.g. item=segment_id,value=points")
    return {role.strip(): column.strip() for role, _, column in pairs}


# -- Cells of a table as ids, names and numbers; whatever is not one is named with its row, column and value ---------


_MISSING = ("", "NA", "N/A", "NaN", "nan", "None", "null", "NULL")
"""What people write where a number is missing; in a column of texts these are texts."""


def ids_of(column: pl.Series, where: str) -> pl.Series:
    """Return ids: whole numbers where all are written as such ('007' stays a name)."""
    _require_all(column, where)
    if column.dtype != pl.String:
        return column if column.dtype.is_integer() else _as_text(column, where)
    numbers = column.cast(pl.Int64, strict=False)
    plain = numbers.null_count() == 0 and (numbers.cast(pl.String) == column).all()
    return numbers if plain else column


def names_of(column: pl.Series, where: str) -> pl.Series:
    """Return names; every row must have one."""
    _require_all(column, where)
    return _as_text(column, where)


def _require_all(column: pl.Series, where: str) -> None:
    if column.null_count():
        raise FormatError(
            f"{where} row {_first(column.is_null())}: the column '{column.name}' is empty; every row needs one"
        )


def _as_text(column: pl.Series, where: str) -> pl.Series:
    if column.dtype.is_nested():
        raise FormatError(f"{where}: the column '{column.name}' holds {column.dtype}; it should hold names")
    return column.cast(pl.String)


def numbers_of(column: pl.Series, where: str) -> FloatArray:
    """Return finite numbers, NaN where missing."""
    if column.dtype == pl.Boolean:
        raise FormatError(f"{where}: the column '{column.name}' holds true and false; scores must be numbers")
    if column.dtype.is_nested() or column.dtype.is_temporal():
        raise FormatError(
            f"{where} row 1: '{column[0]}' in column '{column.name}' is not a number ({column.dtype}); scores must be"
        )
    numbers, bad = _as_numbers(column)
    if bad.any():
        row = _first(bad)
        raise FormatError(
            f"{where} row {row}: '{column[row - 1]}' in column '{column.name}' is not a number; "
            "correct it, or leave it empty if it is missing"
        )
    values: FloatArray = numbers.to_numpy()
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0]) + 1
        raise FormatError(f"{where} row {row}: column '{column.name}' is infinite; leave it empty if it is missing")
    return values


def whole_numbers_of(column: pl.Series, where: str) -> pl.Series:
    """Return whole numbers, null where missing."""
    numbers = pl.Series(column.name, numbers_of(column, where), nan_to_null=True)
    broken = (numbers != numbers.round()).fill_null(value=False)
    if broken.any():
        row = _first(broken)
        raise FormatError(
            f"{where} row {row}: '{column[row - 1]}' in column '{column.name}' is not a whole number; correct it"
        )
    return numbers.cast(pl.Int64)


def is_numeric(column: pl.Series) -> bool:
    """Tell whether all that is there are numbers."""
    if column.dtype != pl.String:
        return column.dtype.is_numeric()
    return not _as_numbers(column)[1].any()


def guess_type(column: pl.Series) -> pl.Series:
    """Turn a text column into integers, numbers or booleans where all of it is."""
    if column.dtype != pl.String or column.name in ("annotator", "criterion"):
        return column
    numbers, bad = _as_numbers(column)
    if not bad.any():
        whole = column.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == numbers.null_count() else numbers
    folded = column.str.to_lowercase()
    if folded.drop_nulls().is_in(["true", "false"]).all():
        return folded == "true"
    return column


def _as_numbers(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the numbers, null where missing, and which cells hold something else."""
    if column.dtype != pl.String:
        return column.cast(pl.Float64, strict=False), pl.repeat(value=False, n=len(column), eager=True)
    text = column.str.strip_chars()
    missing = column.is_null() | text.is_in(_MISSING)
    numbers = text.cast(pl.Float64, strict=False).set(missing, None)
    return numbers, numbers.is_null() & ~missing


def _first(mask: pl.Series) -> int:
    return int(mask.arg_max() or 0) + 1
