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
_TESTED_PAIRS = 2_000  # pairs of annotators whose margins are tested
_KEPT_TABLES = 200_000  # counts of pairs' tables that the result keeps
_WITHOUT = 20_000_000  # judgments gone through to see alpha without each annotator

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


def table_of(name: str, data: Any = None) -> pl.DataFrame:
    """A table of the result with its columns and types, undefined numbers null; empty without data."""
    orient: Literal["row"] | None = "row" if isinstance(data, list) else None
    return pl.DataFrame(data, schema=dict(_SCHEMAS[name]), orient=orient).with_columns(
        pl.col(pl.Float64).fill_nan(None)
    )


def pair_frame(arrays: JudgmentArrays, found: PairColumns | None, level: MeasurementLevel) -> pl.DataFrame:
    """One row per pair of annotators with a shared output."""
    if found is None:
        return table_of("pairs")
    names, pairs = np.array(arrays.annotators, dtype=object), found.pairs
    columns = dict(found.columns)
    if found.tables is not None:
        columns["kappa_max"] = max_kappa(found.tables)
        if len(found.tables) <= _TESTED_PAIRS:
            columns["p_margins"] = np.array([stuart_maxwell_test(counts) for counts in found.tables])
    if not arrays.has_distances(level):
        columns = {name: columns[name] for name in columns if name in ("raw", "kappa", "kappa_max", "p_margins")}
    undefined = np.full(len(pairs.first), np.nan)
    return table_of(
        "pairs",
        {
            "a": pl.Series(names[pairs.first], dtype=pl.String),
            "b": pl.Series(names[pairs.second], dtype=pl.String),
            "shared": pairs.shared,
            **{name: columns.get(name, undefined) for name in _PAIR_NUMBERS},
        },
    )


def square_tables(arrays: JudgmentArrays, found: PairColumns | None) -> dict[tuple[str, str], pl.DataFrame]:
    """Counts of outputs by both annotators' values, where they are few enough to keep."""
    if found is None or found.tables is None or found.tables.size > _KEPT_TABLES:
        return {}
    values = [arrays.name_of(value) for value in found.pairs.judgments.values]
    names, pairs = arrays.annotators, found.pairs
    return {
        (names[a], names[b]): pl.DataFrame(
            {"answer": values} | dict(zip(values, counts.T.astype(np.int64), strict=True))
        )
        for a, b, counts in zip(pairs.first, pairs.second, found.tables, strict=True)
    }


def annotator_frame(
    compared: Compared, level: MeasurementLevel, model: AnnotatorModel | None, trust: FloatArray | None
) -> pl.DataFrame:
    """One row per annotator: how the annotator compares with the others."""
    arrays = compared.arrays
    n = len(arrays.annotators)
    undefined, numbers = np.full(n, np.nan), arrays.has_distances(level)
    rest = compare_with_others(compared.judgments, arrays.annotator, n)
    frame = pl.DataFrame(
        {
            "annotator": list(arrays.annotators),
            "answers": np.bincount(arrays.annotator, minlength=n),
            "compared": np.bincount(arrays.annotator[compared.judgments.kept], minlength=n),
            **{
                name: undefined if model is None else getattr(model, name)
                for name in ("severity", "noise", "reliability")
            },
            "pearson": rest.pearson if numbers else undefined,
            "spearman": rest.spearman if numbers else undefined,
            "same": rest.same,
            "alpha_without": _alpha_without(compared, level),
            "trust": undefined if trust is None else trust,
        }
    ).with_columns(pl.col(pl.Float64).fill_nan(None))
    return frame.with_columns((pl.col("trust") <= OUTLIER_THRESHOLD).alias("outlier"))


def _alpha_without(compared: Compared, level: MeasurementLevel) -> FloatArray:
    """Alpha of all the others, for each annotator; NaN where it would take too long, or fewer than two are left."""
    arrays = compared.arrays
    alphas = np.full(len(arrays.annotators), np.nan)
    if len(alphas) * len(arrays) > _WITHOUT or len(compared.present) < 3:
        return alphas
    for code in compared.present:
        others = arrays.annotator != code
        alphas[code] = krippendorff_alpha(arrays.unit[others], arrays.value[others], level)
    return alphas


def repeat_frame(arrays: JudgmentArrays, level: MeasurementLevel) -> pl.DataFrame:
    """How consistent annotators are with themselves: all together first, then each annotator with repeats."""
    annotator, first, later = arrays.repeats
    if not len(annotator):
        return table_of("repeats")
    numbers = arrays.has_distances(level)
    rows = []
    for code in [None, *np.unique(annotator)]:
        mine = slice(None) if code is None else annotator == code
        a, b = first[mine], later[mine]
        rows.append(
            (
                "all" if code is None else arrays.annotators[code],
                len(a),
                float((a == b).mean()),
                float(np.abs(a - b).mean()) if numbers else np.nan,
                pearson(a, b) if numbers and len(a) > 2 else np.nan,
            )
        )
    return table_of("repeats", rows)


def value_frame(arrays: JudgmentArrays) -> pl.DataFrame:
    """How often each annotator uses each value; empty where there are many values."""
    values, code = np.unique(arrays.value, return_inverse=True)
    if len(values) > MAX_CATEGORIES:
        return table_of("answers")
    n, k = len(arrays.annotators), len(values)
    counts = np.bincount(arrays.annotator * k + code, minlength=n * k)
    total = np.repeat(np.bincount(arrays.annotator, minlength=n), k)
    return table_of(
        "answers",
        {
            "annotator": [name for name in arrays.annotators for _ in range(k)],
            "answer": [arrays.name_of(value) for value in values] * n,
            "count": counts,
            "share": counts / np.where(total > 0, total, np.nan),
        },
    )


def group_frame(arrays: JudgmentArrays, groups: Mapping[str, JudgmentArrays], level: MeasurementLevel) -> pl.DataFrame:
    """Groups of judgments compared by their means, on each criterion and on the mean over criteria."""
    if len(groups) < 2 or not arrays.has_distances(level):
        return table_of("groups")
    rows = []
    criteria, names = arrays.criteria, list(groups)
    for criterion in [None, *(criteria if len(criteria) > 1 else [])]:
        means = {name: _output_means(part, criterion) for name, part in groups.items()}
        for a, b in [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]:
            both = means[a].join(means[b], on=["item", "system"], how="inner", suffix="_b")
            x, y = both["mean"].to_numpy(), both["mean_b"].to_numpy()
            ranks = [both[name].rank().to_numpy() for name in ("mean", "mean_b")]
            r, rho = (pearson(x, y), pearson(*ranks)) if both.height > 2 else (np.nan, np.nan)
            difference = float((x - y).mean()) if both.height else np.nan
            rows.append((a, b, criterion or "all", both.height, r, rho, difference))
    return table_of("groups", rows)


def _output_means(arrays: JudgmentArrays, criterion: str | None) -> pl.DataFrame:
    """A group's mean judgment on each output: over annotators, then over criteria."""
    mine = arrays if criterion is None else arrays.at(arrays.under(criterion))
    _, place, unit = np.unique(mine.unit, return_index=True, return_inverse=True)
    units = mine.table.select("item", "system")[place].with_columns(mean=pl.Series(group_means(unit, mine.value)))
    return units.group_by("item", "system", maintain_order=True).agg(pl.col("mean").mean())
