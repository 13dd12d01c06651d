"""Files that hold a table, read as a Polars frame: CSV, TSV, Parquet, Excel sheets, JSON lines of flat records.

CSV and TSV cells stay texts: every row is as long as the header, every column has a name of its own, and the readers
of columns (`table_columns`) turn texts into numbers, so that an error can name the row and the value.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, time
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import msgspec
import polars as pl

from aliquot.core import escape
from aliquot.core.columns import JSON_DTYPE, encode_column, frame_from_records
from aliquot.errors import AliquotWarning, FormatError, MissingExtraError, OptionError, quoted
from aliquot.io.files import count_keys, decode_text, first_character, number_lines, require_unique_keys
from aliquot.io.formats.item_fields import build_line_error
from aliquot.io.formats.table_columns import map_columns
from aliquot.io.parquet_seal import PARQUET_ERRORS, silence_panics

PARQUET_MAGIC, ZIP_MAGIC = b"PAR1", b"PK\x03\x04"
Decoded = TypeVar("Decoded")
_QUOTE = '"'
_EXCEL_HINT = re.compile(r"^sep=(.)\r?\n")  # a line by which Excel knows the separator
_MAX_TITLES = 10  # rows above a header
_NAMELESS = "\0column "
_JUDGED = ({"system", "value"}, {"system", "metric"}, {"annotator", "value"}, {"system", "output"})
"""Roles of which flat records have at least one pair; items have nested outputs, scores or judgments instead."""
_COMPARED = ({"item", "choice"}, {"item", "best", "worst"}, {"item", "ranking"})
"""Fields of which choices have at least one set, as `collect export --what choices` writes them."""
_LISTS = ("shown", "ranking")  # of systems, in a choice


def read_frame(raw: bytes, path: Path | str) -> pl.DataFrame:
    """Read a table from CSV, TSV, Parquet, Excel or JSON."""
    if raw.startswith(PARQUET_MAGIC):
        try:
            with silence_panics():
                return pl.read_parquet(raw)
        except PARQUET_ERRORS as error:
            reason = (str(error).splitlines() or ["damaged"])[0]
            raise FormatError(f"{path}: unreadable Parquet ({reason}); copy it again") from None
    if raw.startswith(ZIP_MAGIC):
        return _read_excel(raw, path)
    if first_character(raw) in (b"{", b"["):
        return _read_records(raw, path)
    return parse_csv(decode_text(raw, path), path)


class Table(Protocol):
    """A table in memory, of Polars, pandas or another library with columns that have names."""

    @property
    def columns(self) -> Any:
        """The columns' names."""

    def __getitem__(self, key: Any, /) -> Any: ...


def to_polars(table: Table) -> pl.DataFrame:
    """Return a table as a Polars frame, without the index of pandas."""
    if isinstance(table, pl.DataFrame):
        return table
    if not hasattr(table, "columns"):
        raise OptionError(f"data is a {type(table).__name__}; give an EvalSet, a path, a Polars or a pandas table")
    try:
        return pl.DataFrame(cast("Any", table))
    except (ImportError, TypeError, ValueError, pl.exceptions.PolarsError):  # mixed columns, or pyarrow is not there
        columns = [encode_column(str(name), table[name].tolist()) for name in table.columns]
        return _cast_mixed_columns(pl.DataFrame(columns))


def stack_tables(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Stack tables by column name; missing columns are null, and numbers mixed with texts become texts.

    >>> stack_tables([pl.DataFrame({"item": [1]}), pl.DataFrame({"item": ["b"], "note": ["x"]})]).rows()
    [('1', None), ('b', 'x')]
    """
    try:
        return pl.concat(tables, how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        raise FormatError(
            f"the tables do not fit together ({str(error).splitlines()[0]}); give columns of one name "
            "the same kind of content"
        ) from None


# -- JSON ----------------------------------------------------------------------------------------------------------


def is_table_record(fields: dict[str, Any]) -> bool:
    """Return whether a JSON object is a row of a long table, not an item.

    >>> is_table_record({"item": 1, "system": "A", "score": 0.5}), is_table_record({"i": 1, "tgt": {"A": "Hallo"}})
    (True, False)
    """
    if any(isinstance(value, (dict, list)) for name, value in fields.items() if name not in _LISTS):
        return False
    if any(names <= fields.keys() for names in _COMPARED):
        return True
    return any(roles <= map_columns(list(fields), None, "").keys() for roles in _JUDGED)


def _read_records(raw: bytes, path: Path | str) -> pl.DataFrame:
    if first_character(raw) == b"[":
        parts = [(str(path), raw)]
        records = _decode_typed(raw, str(path), list[dict[str, Any]])
    else:
        parts = list(number_lines(raw, path))
        records = [_decode_typed(line, where, dict[str, Any]) for where, line in parts]
    require_unique_keys(raw, count_keys(records), parts)
    return _cast_mixed_columns(frame_from_records(records))


def _decode_typed(text: bytes, where: str, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise build_line_error(text, where, str(error)) from None


def _cast_mixed_columns(table: pl.DataFrame) -> pl.DataFrame:
    """Cast columns that mix numbers and texts, such as ids 1 and "a2", to texts."""
    mixed = [name for name, dtype in table.schema.items() if dtype == JSON_DTYPE]
    return table.with_columns(table[name].struct.field("json").str.strip_chars('"').alias(name) for name in mixed)


# -- Excel ---------------------------------------------------------------------------------------------------------


def _read_excel(raw: bytes, path: Path | str) -> pl.DataFrame:
    """Read the first sheet that holds a table; cells become texts, as in CSV, so that the same rules parse both."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            inside = archive.namelist()
    except Exception:  # noqa: BLE001  (BadZipFile, but also NotImplementedError, struct.error, UnicodeDecodeError)
        raise FormatError(f"{path}: a damaged Excel or zip file; copy it again, or save the sheet as CSV") from None
    if "xl/workbook.xml" not in inside:
        raise FormatError(f"{path}: is a zip archive, which is not read; unpack it and name the file inside")
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped] # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError(
            f"{path}: reading Excel files needs openpyxl: pip install 'aliquot[sheets]', or save the sheet as CSV"
        ) from None
    try:
        book = load_workbook(io.BytesIO(raw), read_only=True, data_only=True)
        sheets = [(sheet, [list(row) for row in sheet.iter_rows(values_only=True)]) for sheet in book.worksheets]
        sheet, cells = next((each for each in sheets if _is_table(each[1])), sheets[0])
        other_sheets = [other for other, _ in sheets if other is not sheet]
    except Exception as error:  # noqa: BLE001  (a damaged file fails anywhere in zip, XML and openpyxl)
        raise FormatError(
            f"{path}: a damaged Excel file ({type(error).__name__}: {error}); copy it again, or save the sheet as CSV"
        ) from None
    if other_sheets:
        names = quoted(other.title for other in other_sheets)
        warnings.warn(
            f"{path}: only the {'first ' * (cells is sheets[0][1])}sheet '{sheet.title}' is read, not {names}; save "
            "another one as CSV to read it",
            AliquotWarning,
            2,
        )
    rows = [[_format_cell(value) for value in row] for row in cells]
    rows = [row for row in rows if any(cell is not None for cell in row)]
    if not rows:
        raise FormatError(f"{path}: the sheet '{sheet.title}' is empty; it should hold a header and rows")
    count = _count_titles(rows)
    if count:
        _warn_titles([next(filter(None, row)) for row in rows[:count]], path)
    header = _name_columns(rows[count], path)
    columns = [[row[index] if index < len(row) else None for row in rows[count + 1 :]] for index in range(len(header))]
    table = pl.DataFrame([pl.Series(n, values, dtype=pl.String) for n, values in zip(header, columns, strict=True)])
    return _drop_empty(table, path)


def _is_table(cells: Sequence[Sequence[object]]) -> bool:
    """Return whether some rows of a sheet have several cells."""
    return sum(sum(cell not in (None, "") for cell in row) > 1 for row in cells) > 1


def _format_cell(value: object) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # Excel keeps every number as a float
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


# -- CSV and TSV ---------------------------------------------------------------------------------------------------


def parse_csv(text: str, path: Path | str) -> pl.DataFrame:
    r"""Split a table into columns of text.

    >>> parse_csv("item,system\n1,\n", "t.csv").rows()
    [('1', None)]
    """
    if not text.strip():
        raise FormatError(f"{path}: the file is empty; it should hold a header and rows")
    text = _blank_titles(_EXCEL_HINT.sub("", text.lstrip("\r\n")), path)
    header = text.lstrip("\n").split("\n", 1)[0]
    separator = detect_separator(header)
    spaced = separator != "\t" and f"{separator} " in header
    split = _split_quoted if _QUOTE in text else _split_plain
    table = split(text, separator, path, spaced=spaced)
    if "'" in text:
        table = escape.unescape_csv_cells(table)
    return _drop_empty(table.with_columns(pl.when(pl.all() != "").then(pl.all())), path)


def detect_separator(text: str) -> str:
    """Return the most frequent of tab, comma and semicolon in the header."""
    header = text.split("\n", 1)[0]
    return max("\t,;", key=header.count)


def _split_plain(text: str, separator: str, path: Path | str, *, spaced: bool) -> pl.DataFrame:
    lines = pl.Series(text.split("\n"), dtype=pl.String).str.strip_suffix("\r")
    numbered = (
        pl.DataFrame({"line": lines})
        .with_row_index("number", offset=1)
        .filter(pl.col("line").str.strip_chars(" ") != "")
    )
    header = escape.unescape_csv_names(_split_cells(numbered["line"][0], separator, spaced=spaced))
    header = _name_columns(header, path)
    body = numbered.slice(1)
    ragged = body.filter(pl.col("line").str.count_matches(separator, literal=True) != len(header) - 1)
    if ragged.height:
        number, line = ragged.row(0)
        raise _build_length_error(_split_cells(line, separator, spaced=spaced), len(header), number, path)
    columns = body["line"].str.split_exact(separator, len(header) - 1).struct.unnest()
    table = columns.rename(dict(zip(columns.columns, header, strict=True)))
    return table.with_columns(pl.all().str.strip_chars_start(" ")) if spaced else table


def _split_cells(line: str, separator: str, *, spaced: bool) -> list[str]:
    return [cell.lstrip(" ") if spaced else cell for cell in line.split(separator)]


def _split_quoted(text: str, separator: str, path: Path | str, *, spaced: bool) -> pl.DataFrame:
    rows = _iterate_quoted_rows(text, separator, path, spaced=spaced)
    header = _name_columns(escape.unescape_csv_names(next(rows)[1]), path)
    body = []
    for number, row in rows:
        if len(row) != len(header):
            raise _build_length_error(row, len(header), number, path)
        body.append(row)
    columns = zip(*body, strict=True) if body else ([] for _ in header)
    return pl.DataFrame([pl.Series(n, list(c), dtype=pl.String) for n, c in zip(header, columns, strict=True)])


def _iterate_quoted_rows(
    text: str, separator: str, path: Path | str, *, spaced: bool
) -> Iterator[tuple[int, list[str]]]:
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
            f"{path} line {number}: a cell begins with a quote and does not end with it; enclose the "
            f'whole cell in quotes and double those inside, e.g. "{_QUOTE * 2}Go{_QUOTE * 2}, he said"'
        ) from None
    finally:
        csv.field_size_limit(usual)


def _name_columns(cells: Sequence[str | None], path: Path | str) -> list[str]:
    """Return the names of a header, which differ; `_NAMELESS` and a number for cells that are empty."""
    names = [cell if cell is not None and cell.strip() else "" for cell in cells]
    repeated = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if repeated:
        raise FormatError(f"{path} line 1: the column '{repeated[0]}' occurs twice; give each column its own name")
    return [name or f"{_NAMELESS}{number}" for number, name in enumerate(names, start=1)]


def _drop_empty(table: pl.DataFrame, path: Path | str) -> pl.DataFrame:
    """Drop rows without any content and columns without a name, with a note if they have content."""
    nameless = [name for name in table.columns if name.startswith(_NAMELESS)]
    filled = [name.removeprefix(_NAMELESS) for name in nameless if table[name].null_count() < table.height]
    if filled:
        text = f"{path}: column {', '.join(filled)} has no name in the header: left out"
        warnings.warn(text, AliquotWarning, 3)
    table = table.drop(nameless)
    if table.height and all(column.null_count() for column in table):
        table = table.filter(~pl.all_horizontal(pl.all().is_null()))
    return table


def _count_titles(rows: Iterable[Sequence[str | None]]) -> int:
    """Return the number of rows before the header: rows of one cell at most, where a row with several follows."""
    widths = (sum(cell not in (None, "") for cell in row) for row in islice(rows, _MAX_TITLES))
    return next((index for index, width in enumerate(widths) if width > 1), 0)


def _blank_titles(text: str, path: Path | str) -> str:
    r"""Replace title lines above the header by empty ones, so that numbers of lines stay.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     _blank_titles("Results of May;;\n;;\nitem;system;value\n", "t.csv")
    '\n\nitem;system;value\n'
    """
    lines = text.split("\n", _MAX_TITLES)
    count = _count_titles([cell.strip(' \r"') for cell in line.split(detect_separator(line))] for line in lines)
    if count:
        _warn_titles([lines[0].strip(' \r\t,;"')], path)
    return "\n" * count + "\n".join(lines[count:])


def _warn_titles(titles: Sequence[str], path: Path | str) -> None:
    warnings.warn(f"{path}: {quoted(titles)} above the header is no table: skipped", AliquotWarning, 4)


def _build_length_error(row: Sequence[str], expected: int, number: int, path: Path | str) -> FormatError:
    return FormatError(
        f"{path} line {number}: {len(row)} fields where the header has {expected}; "
        f"correct the row that begins {quoted(row[:2])}"
    )
