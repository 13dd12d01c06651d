"""The coefficients of agreement by name, and their values with intervals for one group of judgments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np

from aliquot.annotation.judgment_arrays import JudgmentArrays
from aliquot.errors import OptionError, unknown_name
from aliquot.stats import annotator_pairs as ap
from aliquot.stats.agreement import fleiss_kappa_measure, kappa, raw_agreement, raw_agreement_measure
from aliquot.stats.alpha import (
    ICC_KINDS,
    MEASUREMENT_LEVELS,
    MeasurementLevel,
    PairableJudgments,
    alpha_measure,
    icc_measure,
    pairable_judgments,
)
from aliquot.stats.annotator_pairs import spearman_pairs
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.resampling import Interval, WeightedMeasure, bootstrap_intervals

MAX_ORDINAL_VALUES = 11
"""Distinct numbers up to which a scale is taken for ordinal: 0 to 10 is the longest scale of categories in use."""

_MAX_DRAWN_NUMBERS = 300_000_000  # numbers that a measure may hold over all draws; beyond, it has no interval

_MEASURES_FROM_TABLES: Mapping[str, Callable[[FloatArray, FloatArray], FloatArray]] = MappingProxyType(
    {
        "kappa": lambda counts, values: kappa(counts),  # noqa: ARG005
        "kappa_linear": lambda counts, values: kappa(counts, values, "linear"),
        "kappa_quadratic": lambda counts, values: kappa(counts, values, "quadratic"),
        "pearson": ap.pearson_from_tables,
        "spearman": lambda counts, values: ap.spearman_from_tables(counts),  # noqa: ARG005
    }
)

MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "raw": "share of equal judgments on the same output",
        "kappa": "Cohen's kappa, mean over pairs",
        "kappa_linear": "kappa, linear weights, mean over pairs",
        "kappa_quadratic": "kappa, quadratic weights, mean over pairs",
        "fleiss": "Fleiss' kappa",
        "alpha": "Krippendorff's alpha",
        **{f"alpha_{level}": f"Krippendorff's alpha, {level}" for level in MEASUREMENT_LEVELS},
        "pearson": "Pearson's correlation, mean over pairs",
        "spearman": "Spearman's correlation, mean over pairs",
        "icc1": "ICC(1,1): one judgment, annotators vary",
        "icc2": "ICC(2,1): one judgment, absolute agreement",
        "icc3": "ICC(3,1): one judgment, consistency",
        "icc1k": "ICC(1,k): mean judgment, annotators vary",
        "icc2k": "ICC(2,k): mean judgment, absolute agreement",
        "icc3k": "ICC(3,k): mean judgment, consistency",
    }
)
"""Every coefficient and what it is; means over pairs of annotators count each pair by the outputs it shares."""

SPAN_MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "span_f1": "F1 of the characters marked",
        "span_f1_severity": "F1 of those marked equally severe",
        "severity_match": "equally severe, of those marked by both",
    }
)
"""Coefficients of marked characters, over all pairs of annotators together."""

ALL_MEASURES: Mapping[str, str] = MappingProxyType({**MEASURES, **SPAN_MEASURES})

DEFAULT_MEASURES: Mapping[MeasurementLevel, tuple[str, ...]] = MappingProxyType(
    {
        "nominal": ("raw", "kappa", "fleiss", "alpha"),
        "ordinal": ("raw", "kappa_quadratic", "alpha", "pearson", "spearman", "icc2"),
        "interval": ("alpha", "pearson", "spearman", "icc2", "icc2k"),
        "ratio": ("alpha", "pearson", "spearman", "icc2", "icc2k"),
    }
)
"""What is shown for each level of measurement."""


def choose_level(arrays: JudgmentArrays, level: str) -> MeasurementLevel:
    """Return the level of measurement; "auto" chooses by the judgments.

    Labels and two numbers are nominal, up to 11 distinct numbers ordinal, more of them interval.
    """
    if level in MEASUREMENT_LEVELS:
        if level == "ordinal" and not arrays.ordered:
            example = "'no=no,partly=partly,yes=yes'"
            raise OptionError(f"level 'ordinal': the labels have no order; give them one with `recode`, e.g. {example}")
        if arrays.labels is not None and level in ("interval", "ratio"):
            raise OptionError(f"level '{level}': the judgments are labels; choose nominal, or ordinal with `recode`")
        return level
    if level != "auto":
        raise unknown_name("level", level, ["auto", *MEASUREMENT_LEVELS])
    distinct = len(np.unique(arrays.value))
    if arrays.labels is not None or distinct <= 2:
        return "nominal"
    return "ordinal" if distinct <= MAX_ORDINAL_VALUES else "interval"


def choose_measures(measures: str | Sequence[str], level: MeasurementLevel) -> tuple[str, ...]:
    """Return the coefficients to compute; "auto" chooses by the level of measurement.

    >>> choose_measures("auto", "nominal")
    ('raw', 'kappa', 'fleiss', 'alpha')
    """
    if measures == "auto":
        return DEFAULT_MEASURES[level]
    names = [measures] if isinstance(measures, str) else list(measures)
    for name in names:
        if name in SPAN_MEASURES:
            raise OptionError(f"measures: '{name}' is not asked for; it is shown by itself where judgments carry spans")
        if name not in MEASURES:
            raise unknown_name("measure", name, MEASURES)
    if not names:
        raise OptionError("measures: name at least one, or leave it out")
    return tuple(dict.fromkeys(names))


class Draws(NamedTuple):
    """Bootstrap settings: number of draws of items, seed and coverage."""

    number: int = 1000
    seed: Seed = 0
    confidence: float = 0.95


@dataclass(frozen=True, eq=False)
class Compared:
    """A group's judgments, with what coefficients are computed from."""

    arrays: JudgmentArrays

    @cached_property
    def judgments(self) -> PairableJudgments:
        """The judgments on units with at least two."""
        return pairable_judgments(self.arrays.unit, self.arrays.value, self.arrays.item)

    @property
    def n_annotators(self) -> int:
        """The number of annotators, with comparable judgments or not."""
        return len(self.arrays.annotators)

    @cached_property
    def present(self) -> IntArray:
        """Codes of the annotators with comparable judgments."""
        return np.unique(self.arrays.annotator[self.judgments.kept])

    @cached_property
    def pairs(self) -> ap.AnnotatorPairs | None:
        """The pairs of annotators; None when there are too many annotators for that."""
        if self.n_annotators > ap.MAX_ANNOTATORS:
            return None
        return ap.find_annotator_pairs(self.judgments, self.arrays.annotator, self.n_annotators)

    @cached_property
    def tables(self) -> FloatArray | None:
        """Contingency tables of all pairs; None if there are too many values."""
        return ap.contingency_tables(self.pairs) if self.pairs is not None and self.pairs.tabulated else None

    @cached_property
    def moments(self) -> FloatArray | None:
        """Sums and products of the judgments of all pairs."""
        if self.tables is not None:
            return ap.moments_from_tables(self.tables, self.judgments.values)
        return None if self.pairs is None else ap.pair_moments(self.pairs)


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of one group of judgments."""

    kind: str  # what makes the group: all, criterion, a column, group, scale, or outputs
    group: str
    measure: str
    value: float  # NaN where undefined
    low: float  # ends of the bootstrap interval over items
    high: float
    answers: int  # judgments that can be compared: on outputs with at least two
    outputs: int  # those outputs (under each criterion)
    items: int
    annotators: int


def compute_coefficients(
    compared: Compared, level: MeasurementLevel, measures: Sequence[str], draws: Draws, *, kind: str, group: str
) -> list[Coefficient]:
    """Compute the coefficients of a group of judgments, with intervals from the same draws of items."""
    intervals = dict.fromkeys(measures, Interval(np.nan, np.nan, np.nan))
    drawn: dict[str, WeightedMeasure] = {}
    if compared.judgments.items:
        for name in measures:
            measure = _make_measure(name, compared, level, draws.number)
            if isinstance(measure, float):
                intervals[name] = Interval(measure, np.nan, np.nan)
            else:
                drawn[name] = measure
    intervals.update(zip(drawn, bootstrap_intervals(list(drawn.values()), *draws), strict=True))
    judgments = compared.judgments
    counts = (len(judgments.unit), len(judgments.size), judgments.items, len(compared.present))
    return [Coefficient(kind, group, name, *interval, *counts) for name, interval in intervals.items()]


def _make_measure(name: str, compared: Compared, level: MeasurementLevel, draws: int) -> WeightedMeasure | float:
    """Return a measure for the bootstrap, or its value alone if drawing would take too long."""
    judgments, pairs = compared.judgments, compared.pairs
    if name == "raw":
        return raw_agreement_measure(judgments)
    if name == "fleiss":
        return fleiss_kappa_measure(judgments)
    if name == "alpha" or name.startswith("alpha_"):
        return alpha_measure(
            judgments,
            next((name_of_level for name_of_level in MEASUREMENT_LEVELS if name == f"alpha_{name_of_level}"), level),
        )
    for kind in ICC_KINDS:
        if name == kind:
            return icc_measure(judgments, compared.arrays.annotator, compared.n_annotators, kind)
    return float("nan") if pairs is None else _pair_measure(name, compared, pairs, draws)


def _pair_measure(name: str, compared: Compared, pairs: ap.AnnotatorPairs, draws: int) -> WeightedMeasure | float:
    """Return a mean over pairs of annotators; kappas need few distinct values."""
    is_held, shared = pairs.rows <= ap.MAX_HELD_ROWS, pairs.shared.astype(np.float64)
    if compared.tables is not None:
        of_tables, values = _MEASURES_FROM_TABLES[name], compared.judgments.values
        k = len(values)
        if is_held and draws * len(pairs.first) * k * k <= _MAX_DRAWN_NUMBERS:
            return ap.table_measure(pairs, lambda counts: of_tables(counts, values))
        return float(ap.mean_over_pairs(of_tables(compared.tables, values), shared))
    if name == "pearson":
        if is_held and draws * len(pairs.first) * 6 <= _MAX_DRAWN_NUMBERS:
            return ap.pearson_measure(pairs)
        return float(ap.mean_over_pairs(ap.pearson_from_moments(cast(FloatArray, compared.moments)), shared))
    if name != "spearman" or not is_held:
        return float("nan")
    ranked = spearman_pairs(pairs)
    if draws * pairs.rows <= _MAX_DRAWN_NUMBERS // 3:
        return ranked
    return float(ranked(np.ones((1, ranked.items)))[0])


@dataclass(frozen=True, eq=False)
class PairColumns:
    """Coefficients of each pair of annotators, as arrays over pairs."""

    pairs: ap.AnnotatorPairs
    columns: dict[str, FloatArray]
    tables: FloatArray | None


def pair_columns(compared: Compared) -> PairColumns | None:
    """Compute the coefficients of each pair of annotators; None if there are too many annotators."""
    pairs = compared.pairs
    if pairs is None:
        return None
    values, columns = compared.judgments.values, {}
    counts = compared.tables
    if counts is not None:
        columns = {"raw": raw_agreement(counts)}
        columns |= {name: of_tables(counts, values) for name, of_tables in _MEASURES_FROM_TABLES.items()}
        n = np.maximum(counts.sum(axis=(-1, -2)), 1.0)
        columns["difference"] = np.asarray((counts.sum(axis=-1) @ values - counts.sum(axis=-2) @ values) / n)
        return PairColumns(pairs, columns, counts)
    total = cast(FloatArray, compared.moments)
    columns["pearson"] = ap.pearson_from_moments(total)
    spread = float(np.ptp(values)) if len(values) else 0.0
    columns["difference"] = spread * (total[:, 1] - total[:, 2]) / np.maximum(total[:, 0], 1.0)
    if pairs.rows <= ap.MAX_HELD_ROWS:
        columns["spearman"] = spearman_pairs(pairs).correlate_pairs(np.ones((1, compared.judgments.items)))[0][0]
    return PairColumns(pairs, columns, None)
