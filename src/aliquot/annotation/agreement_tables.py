"""The tables of `agreement`: pairs of annotators, annotators, repeats, values, groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import polars as pl

from aliquot.annotation.coefficients import Compared, PairColumns
from aliquot.annotation.judgment_arrays import JudgmentArrays
from aliquot.stats.agreement import max_kappa, stuart_maxwell_test
from aliquot.stats.alpha import MeasurementLevel, krippendorff_alpha
from aliquot.stats.annotator_model import OUTLIER_THRESHOLD, AnnotatorModel, compare_with_others
from aliquot.stats.annotator_pairs import MAX_CATEGORIES
from aliquot.stats.arrays import FloatArray, group_means
from aliquot.stats.correlation import pearson

_PAIR_NUMBERS = (
    "raw",
    "kappa",
    "kappa_max",
    "kappa_linear",
    "kappa_quadratic",
    "p_margins",
    "pearson",
    "spearman",
    "difference",
)
_MAX_TESTED_PAIRS = 2_000  # pairs of annotators whose margins are tested
_MAX_TABLE_CELLS = 200_000  # counts of pairs' tables that the result keeps
_MAX_ALPHA_JUDGMENTS = 20_000_000  # judgments gone through to see alpha without each annotator

_SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "pairs": {"a": pl.String(), "b": pl.String(), "shared": pl.Int64(), **dict.fromkeys(_PAIR_NUMBERS, pl.Float64())},
    "repeats": {
        "annotator": pl.String(),
        "repeats": pl.Int64(),
        **dict.fromkeys(("same", "mean_difference", "pearson"), pl.Float64()),
    },
    "answers": {"annotator": pl.String(), "answer": pl.String(), "count": pl.Int64(), "share": pl.Float64()},
    "groups": {
        "a": pl.String(),
        "b": pl.String(),
        "criterion": pl.String(),
        "shared": pl.Int64(),
        **dict.fromkeys(("pearson", "spearman", "difference"), pl.Float64()),
    },
    "spans": {
        "a": pl.String(),
        "b": pl.String(),
        "outputs": pl.Int64(),
        **dict.fromkeys(("f1", "f1_severity", "severity_match"), pl.Float64()),
    },
}


def make_table(name: str, data: Any = None) -> pl.DataFrame:
    """Build a table of the result with its column types; NaN becomes null, no data an empty table."""
    orient: Literal["row"] | None = "row" if isinstance(data, list) else None
    return pl.DataFrame(data, schema=dict(_SCHEMAS[name]), orient=orient).with_columns(
        pl.col(pl.Float64).fill_nan(None)
    )


def pair_frame(arrays: JudgmentArrays, pair_columns: PairColumns | None, level: MeasurementLevel) -> pl.DataFrame:
    """One row per pair of annotators with a shared output."""
    if pair_columns is None:
        return make_table("pairs")
    names, pairs = np.array(arrays.annotators, dtype=object), pair_columns.pairs
    columns = dict(pair_columns.columns)
    if pair_columns.tables is not None:
        columns["kappa_max"] = max_kappa(pair_columns.tables)
        if len(pair_columns.tables) <= _MAX_TESTED_PAIRS:
            columns["p_margins"] = np.array([stuart_maxwell_test(counts) for counts in pair_columns.tables])
    if not arrays.has_distances(level):
        columns = {name: columns[name] for name in columns if name in ("raw", "kappa", "kappa_max", "p_margins")}
    undefined = np.full(len(pairs.first), np.nan)
    return make_table(
        "pairs",
        {
            "a": pl.Series(names[pairs.first], dtype=pl.String),
            "b": pl.Series(names[pairs.second], dtype=pl.String),
            "shared": pairs.shared,
            **{name: columns.get(name, undefined) for name in _PAIR_NUMBERS},
        },
    )


def square_tables(arrays: JudgmentArrays, pair_columns: PairColumns | None) -> dict[tuple[str, str], pl.DataFrame]:
    """Return counts of outputs by both annotators' values for each pair; empty if they are too many to keep."""
    if pair_columns is None or pair_columns.tables is None or pair_columns.tables.size > _MAX_TABLE_CELLS:
        return {}
    values = [arrays.format_value(value) for value in pair_columns.pairs.judgments.values]
    names, pairs = arrays.annotators, pair_columns.pairs
    return {
        (names[a], names[b]): pl.DataFrame(
            {"answer": values} | dict(zip(values, counts.T.astype(np.int64), strict=True))
        )
        for a, b, counts in zip(pairs.first, pairs.second, pair_columns.tables, strict=True)
    }


def annotator_frame(
    compared: Compared, level: MeasurementLevel, model: AnnotatorModel | None, trust: FloatArray | None
) -> pl.DataFrame:
    """One row per annotator, compared with all others."""
    arrays = compared.arrays
    n = len(arrays.annotators)
    undefined, is_numeric = np.full(n, np.nan), arrays.has_distances(level)
    comparison = compare_with_others(compared.judgments, arrays.annotator, n)
    frame = pl.DataFrame(
        {
            "annotator": list(arrays.annotators),
            "answers": np.bincount(arrays.annotator, minlength=n),
            "compared": np.bincount(arrays.annotator[compared.judgments.kept], minlength=n),
            **{
                name: undefined if model is None else getattr(model, name)
                for name in ("severity", "noise", "reliability")
            },
            "pearson": comparison.pearson if is_numeric else undefined,
            "spearman": comparison.spearman if is_numeric else undefined,
            "same": comparison.same,
            "alpha_without": _alpha_without(compared, level),
            "trust": undefined if trust is None else trust,
        }
    ).with_columns(pl.col(pl.Float64).fill_nan(None))
    return frame.with_columns((pl.col("trust") <= OUTLIER_THRESHOLD).alias("outlier"))


def _alpha_without(compared: Compared, level: MeasurementLevel) -> FloatArray:
    """Alpha without each annotator; NaN with many judgments, or if fewer than two annotators remain."""
    arrays = compared.arrays
    alphas = np.full(len(arrays.annotators), np.nan)
    if len(alphas) * len(arrays) > _MAX_ALPHA_JUDGMENTS or len(compared.present) < 3:
        return alphas
    for code in compared.present:
        is_other = arrays.annotator != code
        alphas[code] = krippendorff_alpha(arrays.unit[is_other], arrays.value[is_other], level)
    return alphas


def repeat_frame(arrays: JudgmentArrays, level: MeasurementLevel) -> pl.DataFrame:
    """Self-consistency on repeated outputs: all annotators first, then one row per annotator."""
    annotator, first, later = arrays.repeats
    if not len(annotator):
        return make_table("repeats")
    is_numeric = arrays.has_distances(level)
    rows = []
    for code in [None, *np.unique(annotator)]:
        mine = slice(None) if code is None else annotator == code
        a, b = first[mine], later[mine]
        rows.append(
            (
                "all" if code is None else arrays.annotators[code],
                len(a),
                float((a == b).mean()),
                float(np.abs(a - b).mean()) if is_numeric else np.nan,
                pearson(a, b) if is_numeric and len(a) > 2 else np.nan,
            )
        )
    return make_table("repeats", rows)


def value_frame(arrays: JudgmentArrays) -> pl.DataFrame:
    """Counts of values by annotator; empty where there are many values."""
    values, code = np.unique(arrays.value, return_inverse=True)
    if len(values) > MAX_CATEGORIES:
        return make_table("answers")
    n, k = len(arrays.annotators), len(values)
    counts = np.bincount(arrays.annotator * k + code, minlength=n * k)
    total = np.repeat(np.bincount(arrays.annotator, minlength=n), k)
    return make_table(
        "answers",
        {
            "annotator": [name for name in arrays.annotators for _ in range(k)],
            "answer": [arrays.format_value(value) for value in values] * n,
            "count": counts,
            "share": counts / np.where(total > 0, total, np.nan),
        },
    )


def group_frame(arrays: JudgmentArrays, groups: Mapping[str, JudgmentArrays], level: MeasurementLevel) -> pl.DataFrame:
    """Compare groups by their mean judgments, on each criterion and on the mean over criteria."""
    if len(groups) < 2 or not arrays.has_distances(level):
        return make_table("groups")
    rows = []
    criteria, names = arrays.criteria, list(groups)
    for criterion in [None, *(criteria if len(criteria) > 1 else [])]:
        means = {name: _output_means(part, criterion) for name, part in groups.items()}
        for a, b in [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]:
            shared = means[a].join(means[b], on=["item", "system"], how="inner", suffix="_b")
            x, y = shared["mean"].to_numpy(), shared["mean_b"].to_numpy()
            ranks = [shared[name].rank().to_numpy() for name in ("mean", "mean_b")]
            r, rho = (pearson(x, y), pearson(*ranks)) if shared.height > 2 else (np.nan, np.nan)
            difference = float((x - y).mean()) if shared.height else np.nan
            rows.append((a, b, criterion or "all", shared.height, r, rho, difference))
    return make_table("groups", rows)


def _output_means(arrays: JudgmentArrays, criterion: str | None) -> pl.DataFrame:
    """Mean judgment of each output: over annotators, then over criteria."""
    mine = arrays if criterion is None else arrays.take(arrays.is_criterion(criterion))
    _, place, unit = np.unique(mine.unit, return_index=True, return_inverse=True)
    units = mine.table.select("item", "system")[place].with_columns(mean=pl.Series(group_means(unit, mine.value)))
    return units.group_by("item", "system", maintain_order=True).agg(pl.col("mean").mean())
