"""What `agreement` gives, and the tables in it: pairs of annotators, annotators, repeats, values, groups.

Column names are part of the file format: `answers` counts judgments, `answer` is a value as it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import polars as pl

from aliquot.annotation.coefficients import Compared, PairColumns
from aliquot.annotation.judgment_arrays import JudgmentArrays
from aliquot.core.result import Result
from aliquot.errors import OptionError, unknown_name
from aliquot.stats.agreement import max_kappa, stuart_maxwell_test
from aliquot.stats.alpha import MeasurementLevel, krippendorff_alpha
from aliquot.stats.annotator_model import OUTLIER_THRESHOLD, AnnotatorModel, compare_with_others
from aliquot.stats.annotator_pairs import MAX_CATEGORIES
from aliquot.stats.arrays import FloatArray, group_means
from aliquot.stats.correlation import pearson

TABLES = ("coefficients", "pairs", "annotators", "repeats", "answers", "spans", "groups")


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Result):
    """The result of `agreement`: seven tables, and how they were made."""

    # One row per group of judgments (all, each criterion, each domain, ...) and coefficient, with its interval.
    coefficients: pl.DataFrame
    # One row per pair of annotators with a shared output: raw agreement, kappas, the largest kappa their margins allow,
    # a test of equal margins, correlations, mean difference (a - b).
    pairs: pl.DataFrame
    # One row per annotator: severity, noise, reliability, correlation with the others' mean, alpha without this
    # annotator, trust.
    annotators: pl.DataFrame
    repeats: pl.DataFrame  # how consistent annotators are with themselves on the same output; the first row is all
    answers: pl.DataFrame  # how often each annotator uses each value (the margins), where there are few values
    spans: pl.DataFrame  # agreement on marked characters, where judgments have spans; the first row is all pairs
    groups: pl.DataFrame  # groups of annotators compared: correlation of their mean judgments
    level: MeasurementLevel  # of measurement
    labels: tuple[str, ...] | None = None  # the values in order, where they are labels
    confidence: float = 0.95  # coverage of the intervals
    notes: tuple[str, ...] = ()
    signature: str = ""
    tables: Mapping[tuple[str, str], pl.DataFrame] = field(default_factory=dict)  # counts of each pair's values

    def __repr__(self) -> str:
        values = self._of_all().select("measure", "value").iter_rows()
        head = ", ".join(f"{measure} {'-' if value is None else f'{value:.3f}'}" for measure, value in values)
        return f"Agreement({self.annotators.height} annotators, {self.level}: {head})"

    def __getitem__(self, measure: str) -> float:
        """A coefficient over all judgments; NaN where undefined."""
        values = dict(self._of_all().select("measure", "value").iter_rows())
        if measure not in values:
            raise unknown_name("measure", measure, values, "ask for it with measures=")
        return float("nan") if values[measure] is None else float(values[measure])

    def _of_all(self) -> pl.DataFrame:
        return self.coefficients.filter(pl.col("kind") == "all")

    def table(self, a: str, b: str) -> pl.DataFrame:
        """Counts of outputs by the values that two annotators gave, with margins; rows are a's values.

        >>> rows = {"item": [0, 0, 1, 1], "system": ["A"] * 4, "annotator": ["x", "y"] * 2, "value": [1, 1, 2, 1]}
        >>> import aliquot
        >>> aliquot.agreement(pl.DataFrame(rows), bootstrap=0).table("x", "y").rows()
        [('1', 1, 0, 1), ('2', 1, 0, 1), ('all', 2, 0, 2)]
        """
        if (a, b) in self.tables:
            return with_margins(self.tables[a, b])
        if (b, a) in self.tables:
            turned = self.tables[b, a]
            flipped = turned.drop("answer").transpose(column_names=turned["answer"].to_list())
            return with_margins(flipped.insert_column(0, turned["answer"]))
        raise OptionError(
            f"no table of '{a}' and '{b}': they share no output, there are too many values, or one is not an annotator"
        )

    def to_frame(self, table: str = "coefficients") -> pl.DataFrame:
        """One of the tables: coefficients, pairs, annotators, repeats, answers, spans or groups."""
        if table not in TABLES:
            raise unknown_name("table", table, TABLES)
        frame: pl.DataFrame = getattr(self, table)
        return frame

    def document(self) -> Mapping[str, Any]:
        """All fields but the counts of each pair."""
        return self.fields_without("tables")


def with_margins(table: pl.DataFrame) -> pl.DataFrame:
    """Add sums of rows and columns to a square table of counts."""
    wide = table.with_columns(pl.sum_horizontal(pl.exclude("answer")).alias("all"))
    below = wide.select(pl.lit("all").alias("answer"), pl.exclude("answer").sum())
    return pl.concat([wide, below.select(wide.columns)])


PAIR_MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "raw": "share of equal judgments",
        "kappa": "Cohen's kappa",
        "kappa_linear": "kappa, linear weights",
        "kappa_quadratic": "kappa, quadratic weights",
        "pearson": "Pearson's correlation",
        "spearman": "Spearman's correlation",
    }
)
"""What a heat map of pairs can show, in words."""


@dataclass(frozen=True, eq=False)
class PairMatrix:
    """A coefficient of every pair of annotators."""

    annotators: tuple[str, ...]  # those who agree best with the others first
    values: FloatArray  # annotators x annotators; NaN on the diagonal and where undefined
    measure: str
    words: str  # the measure in words


def pair_matrix(result: Agreement, measure: str | None = None) -> PairMatrix:
    """Arrange a coefficient of pairs as a square, annotators by falling mean agreement with the others.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=30, systems=2, protocol="da", annotators=3, judgments_per_output=2)
    >>> pair_matrix(aliquot.agreement(data, bootstrap=0)).measure
    'pearson'
    """
    measure = measure or {"nominal": "kappa", "ordinal": "kappa_quadratic"}.get(result.level, "pearson")
    if measure not in PAIR_MEASURES:
        raise unknown_name("measure of pairs", measure, PAIR_MEASURES)
    names = result.annotators["annotator"].to_list()
    place = {name: at for at, name in enumerate(names)}
    values = np.full((len(names), len(names)), np.nan)
    for a, b, value in result.pairs.select("a", "b", measure).iter_rows():
        values[place[a], place[b]] = values[place[b], place[a]] = np.nan if value is None else value
    defined = np.isfinite(values)
    mean = np.where(defined, values, 0.0).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
    mean[~defined.any(axis=1)] = -np.inf  # annotators without a pair come last
    order = np.argsort(-mean, kind="stable")
    return PairMatrix(tuple(names[at] for at in order), values[np.ix_(order, order)], measure, PAIR_MEASURES[measure])


# -- tables --------------------------------------------------------------------------------------------------------

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
