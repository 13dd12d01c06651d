"""What `agreement` returns: its tables, and how they are shown.

Column names are part of the file format: `answers` counts judgments, `answer` is a value as it is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.coefficients import ALL_MEASURES
from aliquot.core.result import Result
from aliquot.core.view import Column, View
from aliquot.core.written import format_fixed
from aliquot.errors import OptionError, unknown_name
from aliquot.stats.alpha import MeasurementLevel
from aliquot.stats.arrays import FloatArray

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
        """Return a coefficient over all judgments; NaN where undefined."""
        values = dict(self._of_all().select("measure", "value").iter_rows())
        if measure not in values:
            raise unknown_name("measure", measure, values, "ask for it with measures=")
        return float("nan") if values[measure] is None else float(values[measure])

    def _of_all(self) -> pl.DataFrame:
        return self.coefficients.filter(pl.col("kind") == "all")

    def table(self, a: str, b: str) -> pl.DataFrame:
        """Return counts of outputs by the values of two annotators, with margins; rows are a's values.

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
        """Return one of the tables: coefficients, pairs, annotators, repeats, answers, spans or groups."""
        if table not in TABLES:
            raise unknown_name("table", table, TABLES)
        frame: pl.DataFrame = getattr(self, table)
        return frame

    def views(self, pair_measure: str | None = None) -> Sequence[View]:
        """Return the tables that are not empty; `pair_measure` is what the matrix of pairs shows."""
        return agreement_views(self, pair_measure)

    def document(self) -> Mapping[str, Any]:
        """All fields but the counts of each pair."""
        return self.fields_without("tables")


def with_margins(table: pl.DataFrame) -> pl.DataFrame:
    """Add row and column sums to a square table of counts."""
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
    place = {name: row for row, name in enumerate(names)}
    values = np.full((len(names), len(names)), np.nan)
    for a, b, value in result.pairs.select("a", "b", measure).iter_rows():
        values[place[a], place[b]] = values[place[b], place[a]] = np.nan if value is None else value
    defined = np.isfinite(values)
    mean = np.where(defined, values, 0.0).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
    mean[~defined.any(axis=1)] = -np.inf  # annotators without a pair come last
    order = np.argsort(-mean, kind="stable")
    return PairMatrix(tuple(names[row] for row in order), values[np.ix_(order, order)], measure, PAIR_MEASURES[measure])


# -- views -----------------------------------------------------------------------------------------------------------

MAX_MATRIX = 12
"""Annotators up to which a matrix shows all pairs."""
MAX_VALUES, MAX_USERS = 10, 20
"""Different values, and annotators, up to which the use of values is shown."""
_SHADES = "\u00a0░▒▓█"  # the first is a blank that is not cut off
_SHORT = {"kappa_linear": "linear", "kappa_quadratic": "quadratic"}


def agreement_views(result: Agreement, pair_measure: str | None = None) -> tuple[View, ...]:
    """Return the views of an agreement; all pairs are a detail where a matrix or a table of two shows them."""
    summary = _square_view(result) or _matrix_view(result, pair_measure)
    views = (
        _coefficient_view(result),
        _part_view(result),
        _group_view(result),
        *([summary] if summary is not None else []),
        _pair_view(result, pair_measure, detail=summary is not None),
        _annotator_view(result),
        _repeat_view(result),
        _use_view(result),
        _span_view(result),
    )
    return tuple(view for view in views if view.rows)


def _coefficient_view(result: Agreement) -> View:
    rows = result.coefficients.filter(pl.col("kind") == "all")
    first = rows.row(0, named=True)
    intro = (
        f"{result.annotators.height} annotators; {first['answers']} judgments on {first['outputs']} outputs with at "
        f"least two, of {first['items']} items; {result.level}"
    )
    has_intervals = rows["low"].null_count() < rows.height
    interval = (
        Column("interval", ("low", "high"), "interval", 2),
        Column("", ("low", "value", "high"), "bar", rank=2),
    )
    columns = (
        Column("coefficient", "measure", "name"),
        Column("value", places=3),
        *(interval if has_intervals else ()),
        Column("", lambda row: ALL_MEASURES[row["measure"]], "text", rank=1),
    )
    title = f"agreement ({result.confidence:.0%} intervals over items)" if has_intervals else "agreement"
    return View.of_frame("coefficients", rows, columns, title=title, intro=(intro,))


def _part_view(result: Agreement) -> View:
    """Coefficients by criterion, domain, group of annotators and scale, without intervals."""
    rows = result.coefficients.filter(pl.col("kind") != "all")
    if rows["value"].null_count() == rows.height:
        return View("by_group")
    measures = rows["measure"].unique(maintain_order=True).to_list()[:8]
    parts = [
        part.row(0, named=True) | dict(part.select("measure", "value").iter_rows())
        for _, part in rows.group_by("kind", "group", maintain_order=True)
    ]
    main = "alpha" if "alpha" in measures else measures[0]
    columns = (
        Column("by", "kind", "name"),
        Column("group", kind="name"),
        *(
            Column(_SHORT.get(name, name), partial(_value_of, name), places=3, rank=0 if name == main else place)
            for place, name in enumerate(measures, start=3)
        ),
        Column("outputs", kind="count", rank=1),
        Column("annotators", kind="count", rank=2),
    )
    return View("by_group", parts, columns, "by group", section="kind")


def _value_of(name: str, row: Mapping[str, Any]) -> float | None:
    return row.get(name)


def _group_view(result: Agreement) -> View:
    columns = (
        Column("a", kind="name"),
        Column("b", kind="name"),
        Column("criterion", kind="name"),
        Column("outputs", "shared", "count", rank=1),
        Column("pearson", places=3),
        Column("spearman", places=3, rank=2),
        Column("a - b", "difference", rank=1),
    )
    return View.of_frame("groups", result.groups, columns, title="groups: their mean judgments on the same outputs")


def _square_view(result: Agreement) -> View | None:
    """Contingency table of two annotators; None for more annotators or many values."""
    if result.pairs.height != 1 or not result.tables:
        return None
    (a, b), counts = next(iter(result.tables.items()))
    if counts.height > MAX_VALUES:
        return None
    row = result.pairs.row(0, named=True)
    caption = (
        f"kappa {format_fixed(row['kappa'])}, at most {format_fixed(row['kappa_max'])} with these margins; "
        f"equal margins: p = {format_fixed(row['p_margins'])}"
    )
    frame = with_margins(counts)
    columns = (Column("", "answer", "name"), *(Column(name, name, "count") for name in frame.columns[1:]))
    title = f"judgments of {a} (rows) and {b} (columns)"
    return View.of_frame("square", frame, columns, title=title, caption=caption)


def _matrix_view(result: Agreement, measure: str | None) -> View | None:
    """Matrix of a coefficient of all pairs; None for many annotators."""
    if not result.pairs.height or result.annotators.height > MAX_MATRIX:
        return None
    matrix = pair_matrix(result, measure)
    rows = [
        {"annotator": f"{place} {name}"}
        | {
            str(column): "·" if column == place else _shade_number(value)
            for column, value in enumerate(values, start=1)
        }
        for place, (name, values) in enumerate(zip(matrix.annotators, matrix.values, strict=True), start=1)
    ]
    columns = (
        Column("", "annotator", "name"),
        *(Column(str(place), kind="number") for place in range(1, len(rows) + 1)),
    )
    return View("matrix", rows, columns, f"pairs of annotators: {matrix.words}")


def _shade_number(value: float) -> str:
    """Format a number followed by a block that is darker for higher numbers."""
    if np.isnan(value):
        return "-"
    shade = _SHADES[int(np.clip(value * len(_SHADES), 0, len(_SHADES) - 1))]
    return f"{round(value, 2) + 0.0:.2f}{shade}"


_PAIR_HEADERS = {
    "raw": "raw",
    "kappa": "kappa",
    "kappa_max": "max",
    "kappa_linear": "linear",
    "kappa_quadratic": "quadratic",
    "p_margins": "p(margins)",
    "pearson": "pearson",
    "spearman": "spearman",
    "difference": "a - b",
}


def _pair_view(result: Agreement, measure: str | None, *, detail: bool) -> View:
    if not result.pairs.height:
        return View("pairs")
    main = pair_matrix(result, measure).measure
    rows = result.pairs.sort(main, descending=True, nulls_last=True)
    names = [name for name in _PAIR_HEADERS if rows[name].null_count() < rows.height]
    columns = (
        Column("a", kind="name"),
        Column("b", kind="name"),
        Column("shared", kind="count", rank=1),
        *(
            Column(_PAIR_HEADERS[name], name, places=None if name == "difference" else 3, rank=(name != main) * place)
            for place, name in enumerate(names, start=2)
        ),
    )
    title = f"pairs of annotators, those that agree best first (by {_PAIR_HEADERS[main]})"
    return View.of_frame("pairs", rows, columns, title=title, detail=detail)


_ANNOTATOR_COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "severity": Column("severity", rank=1),
        "noise": Column("noise", rank=4),
        "reliability": Column("reliability", places=3, rank=3),
        "pearson": Column("r rest", "pearson", places=3),
        "same": Column("same", places=3, rank=2),
        "alpha_without": Column("alpha without", "alpha_without", places=3, rank=6),
        "trust": Column("trust", lambda row: format_fixed(row["trust"]) + "*" * bool(row["outlier"]), rank=5),
    }
)


def _annotator_view(result: Agreement) -> View:
    rows = result.annotators.filter(pl.col("compared") > 0)
    key = "pearson" if rows["pearson"].null_count() < rows.height else "same"
    rows = rows.sort(key, descending=True, nulls_last=True)
    is_measured = result.level in ("interval", "ratio")
    columns = [
        column
        for name, column in _ANNOTATOR_COLUMNS.items()
        if rows[name].null_count() < rows.height and not (name == "same" and is_measured)
    ]
    counts = (Column("answers", kind="count", rank=8), Column("compared", kind="count", rank=7))
    return View.of_frame(
        "annotators",
        rows,
        (Column("annotator", kind="name"), *counts, *columns),
        title="annotators against the rest, best first",
        caption="* trust of at most 0.5: an outlier in the sense of its authors" if rows["outlier"].any() else "",
        importance=lambda row: -math.inf if row[key] is None else -row[key],
    )


def _repeat_view(result: Agreement) -> View:
    columns = (
        Column("annotator", kind="name"),
        Column("repeats", kind="count"),
        Column("same judgment", "same", "share"),
        Column("mean difference", "mean_difference", rank=2),
        Column("pearson", places=3, rank=1),
    )
    title = "the same annotator on the same output again"
    return View.of_frame("repeats", result.repeats, columns, title=title)


def _use_view(result: Agreement) -> View:
    """Shares of values by annotator."""
    values = result.answers["answer"].unique(maintain_order=True).to_list()
    if len(values) > MAX_VALUES or result.annotators.height > MAX_USERS or result.level == "interval":
        return View("answers")
    rows = [
        {
            "annotator": name,
            "answers": part["count"].sum(),
            "shares": dict(part.select("answer", "share").iter_rows()),
        }
        for (name,), part in result.answers.group_by("annotator", maintain_order=True)
    ]
    columns = (
        Column("annotator", kind="name"),
        *(Column(value, partial(_share_of, value), "share") for value in values),
        Column("answers", kind="count", rank=1),
    )
    return View("answers", rows, columns, "use of judgments")


def _share_of(value: str, row: Mapping[str, Any]) -> float | None:
    share: float | None = row["shares"][value]
    return share


def _span_view(result: Agreement) -> View:
    columns = (
        Column("a", kind="name"),
        Column("b", kind="name"),
        Column("texts", "outputs", "count", rank=3),
        Column("f1", places=3),
        Column("f1 severity", "f1_severity", places=3, rank=1),
        Column("severity match", "severity_match", places=3, rank=2),
    )
    return View.of_frame("spans", result.spans, columns, title="marked characters")
