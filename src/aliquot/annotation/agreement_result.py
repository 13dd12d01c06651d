"""What `agreement` gives: tables of coefficients, pairs, annotators, repeats, judgments, spans and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.coefficients import Coefficient
from aliquot.errors import OptionError, unknown_name
from aliquot.stats.alpha import Level
from aliquot.stats.arrays import FloatArray

# -- What `agreement` gives: tables of coefficients, pairs, annotators, repeats, judgments, spans and groups -----------


TABLES = ("coefficients", "pairs", "annotators", "repeats", "answers", "spans", "groups")


@dataclass(frozen=True, eq=False, repr=False)
class Agreement:
    """The result of `agreement`.

    Attributes:
        coefficients: one row per group of judgments (all, each criterion, each domain, ...) and coefficient, with its
            interval and what it rests on.
        pairs: one row per pair of annotators with a shared output: raw agreement, kappas, the largest kappa their
            margins allow, a test of equal margins, correlations, mean difference (a - b).
        annotators: one row per annotator: severity, noise, reliability, correlation with the others' mean, alpha
            without this annotator, trust.
        repeats: how consistent annotators are with themselves on the same output; the first row is everybody.
        answers: how often each annotator uses each value (the margins), where there are few.
        spans: agreement on marked characters, where judgments have spans; the first row is all pairs together.
        groups: groups of annotators compared: correlation of their mean judgments.
        level: the level of measurement.
        labels: the judgments in order, where they are labels.
        confidence: coverage of the intervals.
        notes: what a reader should know.
        signature: the line that reproduces it.
    """

    coefficients: pl.DataFrame
    pairs: pl.DataFrame
    annotators: pl.DataFrame
    repeats: pl.DataFrame
    answers: pl.DataFrame
    spans: pl.DataFrame
    groups: pl.DataFrame
    level: Level
    labels: tuple[str, ...] | None = None
    confidence: float = 0.95
    notes: tuple[str, ...] = ()
    signature: str = ""
    tables: Mapping[tuple[str, str], pl.DataFrame] = field(default_factory=dict)

    def __repr__(self) -> str:
        head = ", ".join(f"{row['measure']} {_short(row['value'])}" for row in self._of_all().iter_rows(named=True))
        return f"Agreement({self.annotators.height} annotators, {self.level}: {head})"

    def __getitem__(self, measure: str) -> float:
        """A coefficient over all judgments; NaN where undefined."""
        rows = self._of_all().filter(pl.col("measure") == measure)
        if not rows.height:
            raise unknown_name("measure", measure, self._of_all()["measure"].to_list(), "ask for it with measures=")
        value = rows["value"][0]
        return float("nan") if value is None else float(value)

    def _of_all(self) -> pl.DataFrame:
        return self.coefficients.filter(pl.col("kind") == "all")

    def table(self, a: str, b: str) -> pl.DataFrame:
        """Counts of outputs by the judgments of two annotators, with margins; rows are a's judgments.

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
            f"no table of '{a}' and '{b}': they share no output, the judgments are too many, or one is not an annotator"
        )

    def to_frame(self, table: str = "coefficients") -> pl.DataFrame:
        """One of the tables: coefficients, pairs, annotators, repeats, judgments, spans or groups."""
        if table not in TABLES:
            raise unknown_name("table", table, TABLES)
        frame: pl.DataFrame = getattr(self, table)
        return frame

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `agreement --json`; undefined numbers are null."""
        return {
            "level": self.level,
            "labels": None if self.labels is None else list(self.labels),
            "confidence": self.confidence,
            **{name: self.to_frame(name).to_dicts() for name in TABLES},
            "notes": list(self.notes),
            "signature": self.signature,
        }


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def with_margins(table: pl.DataFrame) -> pl.DataFrame:
    """Add sums of rows and columns to a square table of counts."""
    wide = table.with_columns(pl.sum_horizontal(pl.exclude("answer")).alias("all"))
    below = wide.select(pl.lit("all").alias("answer"), pl.exclude("answer").sum())
    return pl.concat([wide, below.select(wide.columns)])


COEFFICIENT_SCHEMA: dict[str, Any] = {
    "kind": pl.String, "group": pl.String, "measure": pl.String, "value": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "answers": pl.Int64, "outputs": pl.Int64, "items": pl.Int64, "annotators": pl.Int64,
}  # fmt: skip


def coefficient_frame(rows: list[Coefficient]) -> pl.DataFrame:
    """One row per coefficient; undefined numbers are null."""
    frame = pl.DataFrame([vars(row) for row in rows], schema=COEFFICIENT_SCHEMA)
    return frame.with_columns(pl.col("value", "low", "high").fill_nan(None))


# -- The pairs of annotators as a square: what heat maps, drawn or written, show -------------------------------------


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
"""What a heat map can show, in words."""


@dataclass(frozen=True, eq=False)
class PairMatrix:
    """A coefficient of every pair of annotators.

    Attributes:
        annotators: those who agree best with the others first.
        values: annotators x annotators; NaN on the diagonal and where undefined.
        measure: the coefficient.
        words: the same in words.
    """

    annotators: tuple[str, ...]
    values: FloatArray
    measure: str
    words: str


def pair_matrix(result: Agreement, measure: str | None = None) -> PairMatrix:
    """Arrange a coefficient of pairs as a square.

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
    order = _best_first(values)
    return PairMatrix(tuple(names[at] for at in order), values[np.ix_(order, order)], measure, PAIR_MEASURES[measure])


def _best_first(values: FloatArray) -> list[int]:
    """Annotators by falling mean agreement with the others; those without any last."""
    defined = np.isfinite(values)
    mean = np.where(defined, values, 0.0).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
    mean[~defined.any(axis=1)] = -np.inf
    return [int(at) for at in np.argsort(-mean, kind="stable")]
