"""CSV and TSV files as tables of text: every row as long as the header, every column under a name of its own.

A file without any quote is split at its separators, all lines at once; quotes need the csv module, row by row. An empty
cell is null.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from aliquot.errors import FormatError, quoted

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
