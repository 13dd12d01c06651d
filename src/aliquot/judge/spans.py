"""Error spans of judgments: whether annotators mark the same characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import polars as pl

from aliquot.data.judgments import Judgments
from aliquot.errors import DataError
from aliquot.judge.agreement_tables import table_of
from aliquot.judge.answers import group_codes
from aliquot.judge.coefficients import Coefficient, Draws
from aliquot.stats.arrays import IntArray
from aliquot.stats.item_bootstrap import intervals
from aliquot.stats.span_agreement import NO_SPAN, SpanAgreement, span_agreement

SPAN_MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "span_f1": "F1 of the characters marked",
        "span_f1_severity": "F1 of those marked equally severe",
        "severity_match": "equally severe, of those marked by both",
    }
)
"""Coefficients of marked characters, over all pairs of annotators together."""

_NEEDED = ("start", "end")
_ORDER = {"neutral": 0, "minor": 1, "major": 2, "critical": 3}
"""Known severities; others come after them, in alphabetical order."""


def has_spans(table: pl.DataFrame) -> bool:
    """Tell whether any judgment marks a span of text."""
    return all(
        name in table.columns and not table[name].dtype.is_nested() and table[name].null_count() < table.height
        for name in _NEEDED
    )


def span_tables(
    judgments: Judgments, annotators: Sequence[str], draws: Draws
) -> tuple[pl.DataFrame, list[Coefficient]]:
    """The pairs of annotators with a shared text (all together first), and the coefficients over all pairs.

    Spans in the source and in the output are in different texts. Repeats of an answer are left out.
    """
    table = judgments.usable().table.filter(pl.col("annotator").is_in(list(annotators)))
    if "repeat" in table.columns:
        again = pl.col("repeat").cast(pl.String).str.to_lowercase().is_in(["true", "1", "yes"])
        table = table.filter(~again.fill_null(value=False))
    names = sorted(annotators)
    found = _agreement(_with_both_sides(table), names)
    rows = list(found.measures().values())
    ends = intervals(rows, *draws)
    counts = (table.select("item", "system", "annotator").n_unique(), int(found.texts.sum()))
    people = np.unique(np.concatenate([found.first, found.second]))
    coefficients = [
        Coefficient("all", "all", name, *end, *counts, len(found.sums), len(people))
        for name, end in zip(found.measures(), ends, strict=True)
    ]
    frame = table_of(
        "spans",
        {
            "a": ["all", *(names[code] for code in found.first)],
            "b": ["all", *(names[code] for code in found.second)],
            "outputs": [int(found.texts.sum()), *found.texts.tolist()],
            "f1": [ends[0].value, *found.f1],
            "f1_severity": [ends[1].value, *found.f1_severity],
            "severity_match": [ends[2].value, *found.severity_match],
        },
    )
    return frame, coefficients


def _with_both_sides(table: pl.DataFrame) -> pl.DataFrame:
    """Give every row its text: `span_in` says output or source; who judged the output judged its source, too."""
    if "span_in" not in table.columns:
        return table.with_columns(span_in=pl.lit("output"))
    table = table.with_columns(pl.col("span_in").fill_null("output"))
    sides = table["span_in"].unique().to_list()
    if len(sides) < 2:
        return table
    judged = table.unique(["item", "system", "annotator"], maintain_order=True)
    empty = judged.with_columns(start=pl.lit(None, dtype=table["start"].dtype))
    return pl.concat([table, *(empty.with_columns(span_in=pl.lit(side)) for side in sides)])


def _agreement(table: pl.DataFrame, names: list[str]) -> SpanAgreement:
    place = {name: code for code, name in enumerate(names)}
    start, end = _positions(table)
    return span_agreement(
        text=group_codes(table, ("item", "system", "span_in")),
        annotator=table["annotator"].replace_strict(place, return_dtype=pl.Int64).to_numpy(),
        item=group_codes(table, ("item",)),
        start=start,
        end=end,
        severity=_severities(table),
    )


def _positions(table: pl.DataFrame) -> tuple[IntArray, IntArray]:
    """First and last position of each span; an answer without a span has none."""
    start, end = (table[name].cast(pl.Int64, strict=False) for name in _NEEDED)
    bad = table["start"].is_not_null() & (start.is_null() | end.is_null() | (start < 0) | (end < start))
    if bad.any():
        row = table.filter(bad).row(0, named=True)
        raise DataError(
            f"judgment of {row['annotator']} on item {row['item']}, system {row['system']}: the span from "
            f"{row['start']} to {row['end']} is not one; correct it, or leave both empty"
        )
    no_span = start.is_null()
    first, last = (part.set(no_span, NO_SPAN).to_numpy().astype(np.int64) for part in (start, end))
    return first, last


def _severities(table: pl.DataFrame) -> IntArray:
    if "severity" not in table.columns:
        return np.zeros(table.height, dtype=np.int64)
    said = table["severity"].cast(pl.String).str.to_lowercase().fill_null("")
    known = sorted(said.unique().to_list(), key=lambda severity: (_ORDER.get(severity, len(_ORDER)), severity))
    return said.replace_strict(known, list(range(len(known))), return_dtype=pl.Int64).to_numpy()
