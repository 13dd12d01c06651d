"""The result of `metrics`: a table for each part of the comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import polars as pl

from aliquot.core.result import Result, frame_of
from aliquot.core.view import View
from aliquot.errors import unknown_name
from aliquot.metric_eval.correlations import Correlation, ExtremeSystems, LeftOutSystem, SystemCorrelation
from aliquot.metric_eval.metric_break_even import ErrorCurvePoint, Worth, write_verdict
from aliquot.metric_eval.metric_errors import ErrorParts, MetricConvergence, SignificanceCounts, SquaredError
from aliquot.metric_eval.metric_value import ControlValue, Gap, PerfectAnnotator, Suggestion
from aliquot.metric_eval.metric_views import metric_views
from aliquot.metric_eval.significance import MetricCluster, MetricPair, write_comparisons
from aliquot.metric_eval.surface import SurfaceScore

Part = Literal[
    "decomposition",
    "breakeven",
    "annotators",
    "convergence",
    "cooccurrence",
    "value",
    "correlations",
    "extremes",
    "leave_one_out",
    "tests",
    "squared_error",
    "by_system",
    "gap",
]
PARTS: tuple[Part, ...] = get_args(Part)
"""The parts of a report. New ones come last: the seed of a part depends on its place."""
TABLES: dict[str, type] = {
    "decomposition": ErrorParts,
    "breakeven": Worth,
    "curves": ErrorCurvePoint,
    "squared_error": SquaredError,
    "annotators": PerfectAnnotator,
    "convergence": MetricConvergence,
    "cooccurrence": SignificanceCounts,
    "value": ControlValue,
    "suggested": Suggestion,
    "correlations": Correlation,
    "extremes": ExtremeSystems,
    "leave_one_out": LeftOutSystem,
    "tests": MetricPair,
    "clusters": MetricCluster,
    "by_system": SystemCorrelation,
    "gap": Gap,
    "computed": SurfaceScore,
}
"""The tables of a report and what their rows are."""


@dataclass(frozen=True, eq=False, repr=False)
class MetricReport(Result):
    """Result of `metrics`; a table is empty where its part was not asked for or cannot be computed (see `notes`)."""

    decomposition: tuple[ErrorParts, ...] = ()  # each metric's pairwise error: observed = noise + bias + variance
    breakeven: tuple[Worth, ...] = ()  # how many judgments each metric is worth
    curves: tuple[
        ErrorCurvePoint, ...
    ] = ()  # error of people and of the perfect annotator against judgments per system
    squared_error: tuple[SquaredError, ...] = ()  # mean squared error of differences: noise + bias + variance
    annotators: tuple[PerfectAnnotator, ...] = ()  # variance components and efficiency ratio of judgments
    convergence: tuple[MetricConvergence, ...] = ()  # agreement of a metric on some items with the same metric on all
    cooccurrence: tuple[SignificanceCounts, ...] = ()  # where people and a metric find significant differences
    value: tuple[ControlValue, ...] = ()  # what each metric saves as a control variate
    suggested: tuple[Suggestion, ...] = ()  # which metrics to combine
    correlations: tuple[Correlation, ...] = ()  # at every level, with tie policies
    extremes: tuple[ExtremeSystems, ...] = ()  # the same on the best and the worst systems only
    leave_one_out: tuple[LeftOutSystem, ...] = ()  # the same without each system in turn
    tests: tuple[MetricPair, ...] = ()  # pairs of metrics, and whether one is better
    clusters: tuple[MetricCluster, ...] = ()  # metrics that are not told apart
    by_system: tuple[SystemCorrelation, ...] = ()  # sentence-level correlations of each system by itself
    gap: tuple[Gap, ...] = ()  # how much more generous than people a metric is
    computed: tuple[SurfaceScore, ...] = ()  # surface metrics that were computed, with sacrebleu's signatures
    parts: tuple[str, ...] = ()  # the parts that were asked for
    humans: tuple[str, ...] = ()  # the human scores
    metrics: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()  # those from files of scores, with which the verdict begins
    alpha: float = 0.05  # of the tests
    notes: tuple[str, ...] = ()  # what a reader should know
    signature: str = ""  # the line that reproduces it

    def __repr__(self) -> str:
        return f"MetricReport({len(self.metrics)} metrics against {', '.join(self.humans)}; {', '.join(self.parts)})"

    @property
    def verdict(self) -> str | None:
        """Return whether scores from files are better than others, and whether a metric can replace people."""
        own = write_comparisons(self.joined, self.tests, self.clusters, self.alpha)
        return " ".join([*own, *([write_verdict(self.breakeven)] if "breakeven" in self.parts else [])]) or None

    def rows(self, table: str) -> tuple[Any, ...]:
        """Return the rows of a table, by name."""
        if table not in TABLES:
            raise unknown_name("table", table, TABLES)
        rows: tuple[Any, ...] = getattr(self, table)
        return rows

    @property
    def has_all_parts(self) -> bool:
        """Return whether every part was asked for."""
        return self.parts == PARTS

    @property
    def human_labels(self) -> list[str]:
        """Return the human scores as rows name them: all names where pooled sets have different ones."""
        return list(dict.fromkeys(row.human for name in TABLES if name != "computed" for row in self.rows(name)))

    def views(self) -> tuple[View, ...]:
        """Return an overview of a report with all parts, whose parts are details; else every part in full."""
        return metric_views(self)

    def to_frame(self, table: str = "decomposition") -> pl.DataFrame:
        """Return one of the tables; undefined numbers are null, and a break-even that is never reached is infinite."""
        return frame_of(self.rows(table), TABLES[table]).with_columns(pl.col(pl.Float64).fill_nan(None))

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        return self.fields_without()
