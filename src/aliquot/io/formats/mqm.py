"""MQM error annotations as Google publishes them: a TSV with one row per error, marked <v>...</v> in the text.

Every row becomes a judgment with `error`, `category`, `severity`, the marked `span` with `start` and `end`, and minus
its weight as the value; errors of one annotator on one output add up, annotators are averaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from aliquot.core.columns import text_frame
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import FormatError, OptionError, quoted
from aliquot.io.files import decode_text
from aliquot.io.formats.tables import codes

_SYNONYMS = {
    "system": ("system",),
    "document": ("doc", "document", "docid"),
    "segment": ("globalsegid", "seg_id", "segment_id", "segid", "global_seg_id"),
    "rater": ("rater", "annotator"),
    "source": ("source",),
    "target": ("target",),
    "category": ("category",),
    "severity": ("severity",),
}
_MARK = re.compile(r"<v>(.*?)</v>", re.DOTALL)


@dataclass(frozen=True)
class MQMWeights:
    """What an error costs: the weights of Freitag et al. 2021, table 12 (also the WMT metrics task's)."""

    minor: float = 1.0
    major: float = 5.0
    critical: float = 25.0
    non_translation: float = 25.0
    minor_punctuation: float = 0.1
    neutral: float = 0.0

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            if not math.isfinite(weight):
                raise OptionError(f"--mqm-weights {name}={weight}: a weight is a finite number, e.g. major=5")

    @classmethod
    def parse(cls, text: str) -> MQMWeights:
        """Parse `major=10,minor=1`.

        >>> MQMWeights.parse("major=10").major
        10.0
        """
        known = cls.__dataclass_fields__
        weights = {}
        for part in text.split(","):
            name, _, value = part.partition("=")
            try:
                weights[name.strip()] = float(value)
            except ValueError:
                raise OptionError(f"--mqm-weights '{part}': expected name=number, e.g. major=5") from None
        unknown = [name for name in weights if name not in known]
        if unknown:
            raise OptionError(f"--mqm-weights: no weight {quoted(unknown)}; there are {quoted(known)}")
        return cls(**weights)

    def of(self, category: str, severity: str) -> float | None:
        """Weight of one error; None for a severity that is not known."""
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
    """Tell an MQM error file by its header."""
    names = {name.strip().casefold() for name in header}
    return {"category", "severity", "system"} <= names and bool(names & {"rater", "annotator"})


def read(raw: bytes, path: Path | str, weights: MQMWeights | None = None) -> EvalSet:
    """Read an MQM TSV; the score `human` is minus the mean over annotators of the summed weights."""
    weights = weights or MQMWeights()
    rows = _rows(decode_text(raw, path), path)
    rows = rows.filter(~pl.col("severity").str.to_lowercase().str.contains("hotw", literal=True))  # planted controls
    if not rows.height:
        raise FormatError(f"{path}: every row is a planted control (severity HOTW); there is nothing to score")
    values = [weights.of(category, severity) for category, severity in rows.select("category", "severity").iter_rows()]
    if None in values:
        number = values.index(None)
        raise FormatError(
            f"{path} line {rows['line'][number]}: unknown severity '{rows['severity'][number]}'; "
            "known are no-error, neutral, minor, major, critical"
        )
    marked = [_span(text) for text in rows["target"].to_list()]
    in_source = [_span(text) for text in rows["source"].to_list()]
    item = _item_ids(rows)
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
            "span": pl.Series([t[0] or s[0] for t, s in zip(marked, in_source, strict=True)], dtype=pl.String),
            "start": pl.Series(
                [t[1] if t[0] else s[1] for t, s in zip(marked, in_source, strict=True)], dtype=pl.Int64
            ),
            "end": pl.Series([t[2] if t[0] else s[2] for t, s in zip(marked, in_source, strict=True)], dtype=pl.Int64),
            "span_in": pl.Series(
                ["output" if t[0] else "source" if s[0] else None for t, s in zip(marked, in_source, strict=True)],
                dtype=pl.String,
            ),
        }
    )
    return _evalset(rows, errors, path)


def _rows(text: str, path: Path | str) -> pl.DataFrame:
    """Split by tabs only: quotes inside the texts mean nothing in this format."""
    lines = text.replace("\r\n", "\n").split("\n")
    header = [name.strip().casefold() for name in lines[0].split("\t")]
    place = {}
    for role, names in _SYNONYMS.items():
        found = next((header.index(name) for name in names if name in header), None)
        if found is None and role != "document":
            raise FormatError(f"{path}: the MQM table lacks a column '{names[0]}'; there are {quoted(header)}")
        if found is not None:
            place[role] = found
    cells = []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) != len(header):
            raise FormatError(
                f"{path} line {number}: {len(fields)} fields where the header has {len(header)}; mend the row"
            )
        cells.append([number, *(fields[column] for column in place.values())])
    if not cells:
        raise FormatError(f"{path}: the table has a header but no rows")
    schema = {"line": pl.Int64, **dict.fromkeys(place, pl.String)}
    return pl.DataFrame(cells, schema=schema, orient="row")


def _item_ids(rows: pl.DataFrame) -> pl.Series:
    """Segment numbers where they are unique over documents, else document:segment."""
    if "document" in rows.columns:
        pairs = rows.select("document", "segment").unique()
        if pairs["segment"].n_unique() < pairs.height:
            return rows.select(pl.concat_str("document", "segment", separator=":")).to_series().alias("item")
    numbers = rows["segment"].cast(pl.Int64, strict=False)
    return (rows["segment"] if numbers.null_count() else numbers).alias("item")


def _span(text: str) -> tuple[str | None, int | None, int | None]:
    """Return the marked text and where it starts and ends in the text without marks."""
    found = _MARK.search(text)
    if found is None:
        return None, None, None
    start = found.start() - text.count("<v>", 0, found.start()) * 3 - text.count("</v>", 0, found.start()) * 4
    return found.group(1), start, start + len(found.group(1))


def _unmarked(column: pl.Series) -> pl.Series:
    return column.str.replace_all("</?v>", "")


def _evalset(rows: pl.DataFrame, errors: pl.DataFrame, path: Path | str) -> EvalSet:
    ids, at = codes(errors["item"])
    systems, column = codes(errors["system"])
    first = np.unique(at, return_index=True)[1]
    items = [ids.alias("id"), _unmarked(rows["source"]).gather(first).alias("source")]
    if "document" in rows.columns:
        items.append(rows["document"].gather(first))
    evalset = EvalSet(
        items=pl.DataFrame(items),
        systems=tuple(systems.to_list()),
        outputs=text_frame(at, column, _unmarked(rows["target"]).to_list(), len(ids), systems.to_list()),
        judgments=Judgments(errors),
        name=Path(path).name.split(".")[0],
    )
    return evalset.aggregate()
