"""The tables of `agreement` beside the coefficients: pairs, annotators, repeats, judgments, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import polars as pl

from aliquot.annotation.coefficients import Coefficient, Compared, Draws, PairColumns
from aliquot.annotation.judgment_arrays import JudgmentArrays
from aliquot.annotation.judgment_rows import group_codes
from aliquot.core.judgments import Judgments
from aliquot.errors import DataError
from aliquot.stats.agreement import NO_SPAN, SpanAgreement, kappa_maximum, margins_p, span_agreement
from aliquot.stats.alpha import Level, krippendorff_alpha
from aliquot.stats.annotator_model import OUTLIER, AnnotatorModel, against_the_rest
from aliquot.stats.annotator_pairs import MAX_CATEGORIES
from aliquot.stats.arrays import FloatArray, IntArray, group_means
from aliquot.stats.correlation import pearson
from aliquot.stats.resampling import intervals

# -- The tables of `agreement` beside the coefficients: pairs, annotators, repeats, judgments, groups ------------------


PAIR_NUMBERS = (
    "raw", "kappa", "kappa_max", "kappa_linear", "kappa_quadratic", "p_margins", "pearson", "spearman", "difference",
)  # fmt: skip
_TESTED_PAIRS = 2_000  # pairs of annotators whose margins are tested
_KEPT_TABLES = 200_000  # counts of pairs' tables that the result keeps
_WITHOUT = 20_000_000  # judgments gone through to see alpha without each annotator

_SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "pairs": {"a": pl.String(), "b": pl.String(), "shared": pl.Int64(), **dict.fromkeys(PAIR_NUMBERS, pl.Float64())},
    "repeats": {"annotator": pl.String(), "repeats": pl.Int64(),
                **dict.fromkeys(("same", "mean_difference", "pearson"), pl.Float64())},
    "answers": {"annotator": pl.String(), "answer": pl.String(), "count": pl.Int64(), "share": pl.Float64()},
    "groups": {"a": pl.String(), "b": pl.String(), "criterion": pl.String(), "shared": pl.Int64(),
               **dict.fromkeys(("pearson", "spearman", "difference"), pl.Float64())},
    "spans": {"a": pl.String(), "b": pl.String(), "outputs": pl.Int64(),
              **dict.fromkeys(("f1", "f1_severity", "severity_match"), pl.Float64())},
}  # fmt: skip


def table_of(name: str, columns: Mapping[str, object] | None = None) -> pl.DataFrame:
    """A table of the result with its columns and types, undefined numbers null; empty without columns."""
    frame = pl.DataFrame(dict(columns or {}), schema=dict(_SCHEMAS[name]))
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


# -- pairs of annotators -------------------------------------------------------------------------------------------


def pair_frame(arrays: JudgmentArrays, found: PairColumns | None, level: Level) -> pl.DataFrame:
    """One row per pair of annotators with a shared output."""
    if found is None:
        return table_of("pairs")
    names, pairs = np.array(arrays.annotators, dtype=object), found.pairs
    columns = dict(found.columns)
    if found.tables is not None:
        columns["kappa_max"] = kappa_maximum(found.tables)
        if len(found.tables) <= _TESTED_PAIRS:
            columns["p_margins"] = np.array([margins_p(counts) for counts in found.tables])
    if not arrays.has_distances(level):
        columns = {name: columns[name] for name in columns if name in ("raw", "kappa", "kappa_max", "p_margins")}
    nothing = np.full(len(pairs.first), np.nan)
    return table_of(
        "pairs",
        {
            "a": pl.Series(names[pairs.first], dtype=pl.String),
            "b": pl.Series(names[pairs.second], dtype=pl.String),
            "shared": pairs.shared,
            **{name: columns.get(name, nothing) for name in PAIR_NUMBERS},
        },
    )


def square_tables(arrays: JudgmentArrays, found: PairColumns | None) -> dict[tuple[str, str], pl.DataFrame]:
    """Counts of outputs by both annotators' judgments, where they are few enough to keep."""
    if found is None or found.tables is None or found.tables.size > _KEPT_TABLES:
        return {}
    answers = [arrays.name_of(value) for value in found.pairs.answers.values]
    names, pairs = arrays.annotators, found.pairs
    return {
        (names[a], names[b]): pl.DataFrame(
            {"answer": answers} | dict(zip(answers, counts.T.astype(np.int64), strict=True))
        )
        for a, b, counts in zip(pairs.first, pairs.second, found.tables, strict=True)
    }


# -- annotators ----------------------------------------------------------------------------------------------------


def annotator_frame(
    compared: Compared, level: Level, model: AnnotatorModel | None, trust: FloatArray | None
) -> pl.DataFrame:
    """One row per annotator: how he or she stands to the others."""
    arrays = compared.arrays
    n = len(arrays.annotators)
    nothing, numbers = np.full(n, np.nan), arrays.has_distances(level)
    rest = against_the_rest(compared.answers, compared.annotator, n)
    coefficients = nothing if trust is None else trust
    columns = {
        "annotator": list(arrays.annotators),
        "answers": np.bincount(arrays.annotator, minlength=n),
        "compared": np.bincount(compared.annotator[compared.answers.kept], minlength=n),
        "severity": nothing if model is None else model.severity,
        "noise": nothing if model is None else model.noise,
        "reliability": nothing if model is None else model.reliability,
        "pearson": rest.pearson if numbers else nothing,
        "spearman": rest.spearman if numbers else nothing,
        "same": rest.same,
        "alpha_without": _alpha_without(compared, level),
        "trust": coefficients,
    }
    frame = pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None))
    return frame.with_columns((pl.col("trust") <= OUTLIER).alias("outlier"))


def _alpha_without(compared: Compared, level: Level) -> FloatArray:
    """Alpha of all the others, for each annotator; NaN where it would take too long, or fewer than two are left."""
    arrays = compared.arrays
    people = len(arrays.annotators)
    alphas = np.full(people, np.nan)
    if people * len(arrays) > _WITHOUT or len(compared.present) < 3:
        return alphas
    for code in compared.present:
        others = arrays.annotator != code
        alphas[code] = krippendorff_alpha(arrays.unit[others], arrays.value[others], level)
    return alphas


# -- repeats, judgments, groups --------------------------------------------------------------------------------------


def repeat_frame(arrays: JudgmentArrays, level: Level) -> pl.DataFrame:
    """How consistent annotators are with themselves: everybody first, then each annotator with repeats."""
    annotator, first, later = arrays.repeats
    if not len(annotator):
        return table_of("repeats")
    numbers = arrays.has_distances(level)
    rows = []
    for name, mine in [("all", np.ones(len(annotator), dtype=np.bool_)),
                       *((arrays.annotators[code], annotator == code) for code in np.unique(annotator))]:  # fmt: skip
        a, b = first[mine], later[mine]
        rows.append({
            "annotator": name,
            "repeats": len(a),
            "same": float((a == b).mean()),
            "mean_difference": float(np.abs(a - b).mean()) if numbers else np.nan,
            "pearson": pearson(a, b) if numbers and len(a) > 2 else np.nan,
        })  # fmt: skip
    return table_of("repeats", pl.DataFrame(rows).to_dict(as_series=True))


def answer_frame(arrays: JudgmentArrays) -> pl.DataFrame:
    """How often each annotator uses each judgment, over all judgments; nothing where judgments are many."""
    values, code = np.unique(arrays.value, return_inverse=True)
    if len(values) > MAX_CATEGORIES:
        return table_of("answers")
    people, k = len(arrays.annotators), len(values)
    counts = np.bincount(arrays.annotator * k + code, minlength=people * k)
    total = np.repeat(np.bincount(arrays.annotator, minlength=people), k)
    return table_of(
        "answers",
        {
            "annotator": [name for name in arrays.annotators for _ in range(k)],
            "answer": [arrays.name_of(value) for value in values] * people,
            "count": counts,
            "share": counts / np.where(total > 0, total, np.nan),
        },
    )


def group_frame(arrays: JudgmentArrays, groups: Mapping[str, JudgmentArrays], level: Level) -> pl.DataFrame:
    """Groups of judgments compared by their means, on each criterion and on the mean over criteria."""
    if len(groups) < 2 or not arrays.has_distances(level):
        return table_of("groups")
    rows = []
    criteria, names = arrays.criteria, list(groups)
    for criterion in [None, *(criteria if len(criteria) > 1 else [])]:
        means = {name: _output_means(part, criterion) for name, part in groups.items()}
        rows += [_group_row(a, b, means[a], means[b], criterion) for at, a in enumerate(names) for b in names[at + 1 :]]
    return table_of("groups", pl.DataFrame(rows, schema=dict(_SCHEMAS["groups"])).to_dict(as_series=True))


def _output_means(arrays: JudgmentArrays, criterion: str | None) -> pl.DataFrame:
    """A group's mean judgment on each output: over annotators, then over criteria."""
    mine = arrays if criterion is None else arrays.at(arrays.under(criterion))
    unit = np.unique(mine.unit, return_inverse=True)[1]
    place = np.unique(mine.unit, return_index=True)[1]
    units = mine.table.select("item", "system")[place].with_columns(mean=pl.Series(group_means(unit, mine.value)))
    return units.group_by("item", "system", maintain_order=True).agg(pl.col("mean").mean())


def _group_row(a: str, b: str, first: pl.DataFrame, second: pl.DataFrame, criterion: str | None) -> dict[str, object]:
    both = first.join(second, on=["item", "system"], how="inner", suffix="_b")
    x, y = both["mean"].to_numpy(), both["mean_b"].to_numpy()
    ranks = [both[name].rank().to_numpy() for name in ("mean", "mean_b")]
    enough = both.height > 2
    return {
        "a": a,
        "b": b,
        "criterion": criterion or "all",
        "shared": both.height,
        "pearson": pearson(x, y) if enough else np.nan,
        "spearman": pearson(*ranks) if enough else np.nan,
        "difference": float((x - y).mean()) if both.height else np.nan,
    }


# -- Error spans of judgments: whether annotators mark the same characters -------------------------------------------


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

    Spans in the source and in the output are in different texts. Repeats of a judgment are left out.
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
    """First and last position of each span; a judgment without a span has none."""
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
