"""MQM error annotations as Google publishes them: a TSV with one row per error, marked <v>...</v> in the text.

Every row becomes a judgment with `error`, `category`, `severity`, the marked `span` with `start` and `end`, and minus
its weight as the value; errors of one annotator on one output add up, annotators are averaged.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl

from aliquot.core.columns import scatter_texts
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import AliquotWarning, FormatError, quoted, unknown_name
from aliquot.io.files import decode_text
from aliquot.io.formats.tables import factorize_labels
from aliquot.validation import invalid

_SYNONYMS = {
    "system": ("system",),
    "document": ("doc", "document", "docid"),
    "segment": ("globalsegid", "seg_id", "segment_id", "segid", "global_seg_id"),
    "place": ("doc_id", "docsegid", "doc_seg_id"),  # number within the document
    "rater": ("rater", "annotator"),
    "source": ("source",),
    "target": ("target",),
    "category": ("category",),
    "severity": ("severity",),
}
_REQUIRED_ROLES = ("system", "segment", "rater", "source", "target", "category", "severity")
_MARK = re.compile(r"<v>(.*?)</v>", re.DOTALL)
_SEVERITIES = ("no-error", "no error", "neutral", "minor", "major", "critical")
_MAX_MISSING_COLUMNS = 3
"""Number of columns that rows may lack; with more, fields could not be identified by their content."""


@dataclass(frozen=True)
class MQMWeights:
    """Weights of errors: those of Freitag et al. 2021, table 12 (also the WMT metrics task's)."""

    minor: float = 1.0
    major: float = 5.0
    critical: float = 25.0
    non_translation: float = 25.0
    minor_punctuation: float = 0.1
    neutral: float = 0.0

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            if not math.isfinite(weight):
                raise invalid("mqm_weights", f"{name}={weight}", "give finite numbers, e.g. major=5")

    @classmethod
    def parse(cls, text: str) -> MQMWeights:
        """Parse `major=10,minor=1`.

        >>> MQMWeights.parse("major=10").major
        10.0
        """
        names = cls.__dataclass_fields__
        weights = {}
        for part in text.split(","):
            name, _, value = part.partition("=")
            try:
                weights[name.strip()] = float(value)
            except ValueError:
                raise invalid("mqm_weights", part, "give name=number, e.g. major=5") from None
        for name in weights:
            if name not in names:
                raise unknown_name("weight of `mqm_weights`", name, names)
        return cls(**weights)

    def weigh_error(self, category: str, severity: str) -> float | None:
        """Return the weight of one error; None for an unknown severity."""
        category, severity = category.casefold(), severity.casefold()
        if category.startswith("non-translation"):
            return self.non_translation
        if severity in ("no-error", "no error", ""):
            return 0.0
        if category.startswith("source error") or severity == "neutral":
            return self.neutral
        if severity == "minor" and category in ("fluency/punctuation", "punctuation"):
            return self.minor_punctuation
        weights: Mapping[str, float] = {"minor": self.minor, "major": self.major, "critical": self.critical}
        return weights.get(severity)


def looks_like(header: list[str]) -> bool:
    """Return whether a header is that of an MQM error file; tables of our own judgments are not."""
    names = {name.strip().casefold() for name in header}
    if {"item", "value"} <= names:
        return False
    return {"category", "severity", "system"} <= names and bool(names & {"rater", "annotator"})


def read(raw: bytes, path: Path | str, weights: MQMWeights | None = None) -> EvalSet:
    """Read an MQM TSV; the score `human` is minus the mean over annotators of the summed weights."""
    weights = weights or MQMWeights()
    rows = _read_rows(decode_text(raw, path), path)
    rows = rows.filter(~pl.col("severity").str.to_lowercase().str.contains("hotw", literal=True))  # planted controls
    if not rows.height:
        raise FormatError(f"{path}: every row is a planted control (severity HOTW); there is nothing to score")
    values = [
        weights.weigh_error(category, severity)
        for category, severity in rows.select("category", "severity").iter_rows()
    ]
    if None in values:
        number = values.index(None)
        raise FormatError(
            f"{path} line {rows['line'][number]}: unknown severity '{rows['severity'][number]}'; "
            "known are no-error, neutral, minor, major, critical"
        )
    marked = [_find_span(text) for text in rows["target"].to_list()]
    in_source = [_find_span(text) for text in rows["source"].to_list()]
    item = _build_item_ids(rows)
    errors = pl.DataFrame(
        {
            "item": item,
            "system": rows["system"],
            "annotator": rows["rater"],
            "criterion": pl.Series(["mqm"] * rows.height),
            "value": pl.Series([-float(value or 0.0) for value in values], dtype=pl.Float64) + 0.0,
            "error": rows.select(pl.int_range(pl.len()).over("system", "rater", item.alias("key"))).to_series(),
            "category": rows["category"],
            "severity": rows["severity"],
        }
    )
    spans = [
        (*(output if output[0] else source), "output" if output[0] else "source" if source[0] else None)
        for output, source in zip(marked, in_source, strict=True)
    ]
    types = {"span": pl.String, "start": pl.Int64, "end": pl.Int64, "span_in": pl.String}
    return _build_evalset(rows, errors.hstack(pl.DataFrame(spans, schema=types, orient="row")), path)


def _read_rows(text: str, path: Path | str) -> pl.DataFrame:
    """Return the used columns by role, and the line of each row."""
    lines = text.replace("\r\n", "\n").split("\n")
    header = [name.strip().casefold() for name in lines[0].split("\t")]
    for role in _REQUIRED_ROLES:
        if not set(_SYNONYMS[role]) & set(header):
            raise FormatError(
                f"{path}: the MQM table lacks a column '{_SYNONYMS[role][0]}'; there are {quoted(header)}"
            )
    numbered = [(number, line.split("\t")) for number, line in enumerate(lines[1:], start=2) if line.strip()]
    if not numbered:
        raise FormatError(f"{path}: the table has a header but no rows")
    fields = _strip_quotes([row for _, row in numbered])
    columns = _match_header(header, fields, numbered, path)
    place = {
        role: next((columns.index(name) for name in names if name in columns), None)
        for role, names in _SYNONYMS.items()
    }
    columns_used = {role: index for role, index in place.items() if index is not None}
    cells = [
        [number, *(row[index] for index in columns_used.values())]
        for (number, _), row in zip(numbered, fields, strict=True)
    ]
    rows = pl.DataFrame(cells, schema={"line": pl.Int64, **dict.fromkeys(columns_used, pl.String)}, orient="row")
    return rows if "rater" in columns_used else rows.with_columns(rater=pl.lit(None, dtype=pl.String))


def _strip_quotes(rows: list[list[str]]) -> list[list[str]]:
    """Remove CSV quotes if the file was written with them, as some of Google's were; else they are text.

    In such a file every field with a quote is enclosed in quotes, with those inside doubled. One doubled quote is
    wanted as evidence: a field that is just "a quoted sentence" looks the same in both kinds.
    """
    quotes = [field for row in rows for field in row if '"' in field]
    if not any('""' in field[1:-1] for field in quotes) or not all(map(_is_quoted, quotes)):
        return rows
    return [[field[1:-1].replace('""', '"') if field.startswith('"') else field for field in row] for row in rows]


def _is_quoted(field: str) -> bool:
    has_quotes = len(field) > 1 and field.startswith('"') and field.endswith('"')
    return has_quotes and '"' not in field[1:-1].replace('""', "")


def _match_header(
    header: list[str], rows: list[list[str]], numbered: list[tuple[int, list[str]]], path: Path | str
) -> list[str]:
    """Return the names of the rows' fields: the header without the columns that all rows lack.

    Two of Google's files have a header that is longer than every row (side by side 2023, source errors 2020). Which
    columns are lacking is told by what the fields look like: a severity is a known one, numbers are numbers, marks are
    in the texts.
    """
    widths = {len(row) for row in rows}
    if widths == {len(header)}:
        return header
    wrong = next(index for index, row in enumerate(rows) if len(row) != len(header))
    line = f"{path} line {numbered[wrong][0]}: {len(rows[wrong])} fields where the header has {len(header)}"
    if len(widths) > 1 or len(rows[0]) > len(header):
        raise FormatError(f"{line}; correct the row")
    columns = list(zip(*rows, strict=True))
    while columns and not any(columns[-1]):  # a tab at the end of every line
        columns.pop()
    missing = len(header) - len(columns)
    if missing <= _MAX_MISSING_COLUMNS:
        used = {name for names in _SYNONYMS.values() for name in names}
        # First columns that are not used anyway, then the rightmost ones: what is lacking is most often the end.
        choices = sorted(combinations(range(len(header)), missing), reverse=True)
        for left_out in sorted(choices, key=lambda choice: sum(header[index] in used for index in choice)):
            names = [name for index, name in enumerate(header) if index not in left_out]
            if _fits_header(names, columns):
                without = [name for index, name in enumerate(header) if index in left_out]
                warnings.warn(
                    f"{path}: every row has {len(rows[0])} fields where the header has {len(header)}; read without "
                    f"the column{'s' if missing > 1 else ''} {quoted(without)}, judged by what the fields look like",
                    AliquotWarning,
                    2,
                )
                return names
    raise FormatError(f"{line}, and so in every row; the missing columns cannot be identified; correct the header")


def _fits_header(names: list[str], columns: list[tuple[str, ...]]) -> bool:
    """Return whether the fields look like the columns of these names."""
    by_name = dict(zip(names, columns, strict=True))
    by_role = {
        role: next((by_name[name] for name in synonyms if name in by_name), None)
        for role, synonyms in _SYNONYMS.items()
    }
    if any(by_role[role] is None for role in ("system", "source", "target", "category", "severity")):
        return False
    numbers = [by_name[name] for name in (*_SYNONYMS["segment"], *_SYNONYMS["place"]) if name in by_name]
    texts = [by_role[role] or () for role in ("source", "target")]
    words = [by_role[role] or () for role in ("system", "category")]
    severity = by_role["severity"] or ()
    return (
        bool(numbers)
        and all(value.lstrip("-").isdigit() for column in numbers for value in column)
        and all(value.casefold() in _SEVERITIES or "hotw" in value.casefold() for value in severity)
        and not any(value.isdigit() or "<v>" in value for column in words for value in column)
        and any("<v>" in value for column in texts for value in column)
    )


def _build_item_ids(rows: pl.DataFrame) -> pl.Series:
    """Return segment numbers if they are unique over documents, else document:segment."""
    if "segment" not in rows.columns:  # numbered within documents only
        rows = rows.rename({"place": "segment"})
    if "document" in rows.columns:
        pairs = rows.select("document", "segment").unique()
        if pairs["segment"].n_unique() < pairs.height:
            return rows.select(pl.concat_str("document", "segment", separator=":")).to_series().alias("item")
    numbers = rows["segment"].cast(pl.Int64, strict=False)
    return (rows["segment"] if numbers.null_count() else numbers).alias("item")


def _find_span(text: str) -> tuple[str | None, int | None, int | None]:
    """Return the marked text and where it starts and ends in the text without marks."""
    match = _MARK.search(text)
    if match is None:
        return None, None, None
    start = match.start() - text.count("<v>", 0, match.start()) * 3 - text.count("</v>", 0, match.start()) * 4
    return match.group(1), start, start + len(match.group(1))


def _strip_marks(column: pl.Series) -> pl.Series:
    return column.str.replace_all("</?v>", "")


def _build_evalset(rows: pl.DataFrame, errors: pl.DataFrame, path: Path | str) -> EvalSet:
    ids, row_index = factorize_labels(errors["item"])
    systems, column = factorize_labels(errors["system"])
    first = np.unique(row_index, return_index=True)[1]
    items = [ids.alias("id"), _strip_marks(rows["source"]).gather(first).alias("source")]
    if "document" in rows.columns:
        items.append(rows["document"].gather(first))
    evalset = EvalSet(
        items=pl.DataFrame(items),
        systems=tuple(systems.to_list()),
        outputs=scatter_texts(row_index, column, _strip_marks(rows["target"]).to_list(), len(ids), systems.to_list()),
        judgments=Judgments(errors),
        name=Path(path).name.split(".")[0],
    )
    return evalset.aggregate()
