"""Agreement on error spans: do annotators mark the same characters?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from aliquot.annotation import agreement_tables as tables
from aliquot.annotation.coefficients import (
    Coefficient,
    Draws,
)
from aliquot.annotation.judgment_rows import (
    Data,
    group_codes,
    judgment_table,
    require_judgments,
)
from aliquot.errors import DataError
from aliquot.stats.agreement import NO_SPAN, SpanAgreement, span_agreement
from aliquot.stats.annotator_pairs import MAX_ANNOTATORS
from aliquot.stats.resampling import bootstrap_intervals

_SPAN = ("start", "end")
_SEVERITIES = ("neutral", "minor", "major", "critical")
"""Known severities; others come after them, in alphabetical order."""


def compare_spans(
    data: Data, annotators: Sequence[str], draws: Draws
) -> tuple[pl.DataFrame, list[Coefficient], list[str]]:
    """Return a table of pairs of annotators (the first row is all pairs), coefficients over all pairs, and notes.

    Spans in the source and in the output are in different texts. Repeats of a judgment are left out.
    """
    table = judgment_table(data)
    if not all(name in table.columns and not table[name].dtype.is_nested() and table[name].count() for name in _SPAN):
        return tables.make_table("spans"), [], []
    if len(annotators) > MAX_ANNOTATORS:
        return tables.make_table("spans"), [], ["too many annotators to compare their spans"]
    table = require_judgments(data).usable().table.filter(pl.col("annotator").is_in(list(annotators)))
    if "repeat" in table.columns:
        is_repeat = pl.col("repeat").cast(pl.String).str.to_lowercase().is_in(["true", "1", "yes"])
        table = table.filter(~is_repeat.fill_null(value=False))
    names = sorted(annotators)
    spans = _measure_span_agreement(_complete_span_sides(table), names)
    intervals = bootstrap_intervals(list(spans.list_measures().values()), *draws)
    present = np.unique(np.concatenate([spans.first, spans.second]))
    counts = (table.select("item", "system", "annotator").n_unique(), int(spans.texts.sum()), len(spans.sums))
    coefficients = [
        Coefficient("all", "all", name, *end, *counts, len(present))
        for name, end in zip(spans.list_measures(), intervals, strict=True)
    ]
    values = zip(spans.texts, spans.f1, spans.f1_severity, spans.severity_match, strict=True)
    pairs = [(names[a], names[b], *row) for a, b, row in zip(spans.first, spans.second, values, strict=True)]
    rows = [("all", "all", counts[1], *(end.value for end in intervals)), *pairs]
    return tables.make_table("spans", rows), coefficients, []


def _complete_span_sides(table: pl.DataFrame) -> pl.DataFrame:
    """Fill `span_in` (output or source); who judged an output has judged its source, too."""
    if "span_in" not in table.columns:
        return table.with_columns(span_in=pl.lit("output"))
    table = table.with_columns(pl.col("span_in").fill_null("output"))
    sides = table["span_in"].unique().to_list()
    if len(sides) < 2:
        return table
    judged = table.unique(["item", "system", "annotator"], maintain_order=True)
    empty = judged.with_columns(start=pl.lit(None, dtype=table["start"].dtype))
    return pl.concat([table, *(empty.with_columns(span_in=pl.lit(side)) for side in sides)])


def _measure_span_agreement(table: pl.DataFrame, names: list[str]) -> SpanAgreement:
    start, end = (table[name].cast(pl.Int64, strict=False) for name in _SPAN)
    is_invalid = table["start"].is_not_null() & (start.is_null() | end.is_null() | (start < 0) | (end < start))
    if is_invalid.any():
        row = table.filter(is_invalid).row(0, named=True)
        raise DataError(
            f"judgment of {row['annotator']} on item {row['item']}, system {row['system']}: the span from "
            f"{row['start']} to {row['end']} is not one; correct it, or leave both empty"
        )
    no_span = start.is_null()  # a judgment without a span
    first, last = (part.set(no_span, NO_SPAN).to_numpy().astype(np.int64) for part in (start, end))
    severity = np.zeros(table.height, dtype=np.int64)
    if "severity" in table.columns:
        texts = table["severity"].cast(pl.String).str.to_lowercase().fill_null("")
        severities = [*_SEVERITIES, *sorted(set(texts.unique()) - set(_SEVERITIES))]
        severity = texts.replace_strict(severities, list(range(len(severities))), return_dtype=pl.Int64).to_numpy()
    return span_agreement(
        text=group_codes(table, ("item", "system", "span_in")),
        annotator=table["annotator"].replace_strict(names, list(range(len(names))), return_dtype=pl.Int64).to_numpy(),
        item=group_codes(table, ("item",)),
        start=first,
        end=last,
        severity=severity,
    )
