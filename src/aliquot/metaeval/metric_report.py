"""What `metrics` gives: one table for each part, notes, and the line that reproduces it."""

from __future__ import annotations

import math
import types
import typing
from dataclasses import dataclass
from typing import Any

import polars as pl

from aliquot.errors import unknown_name
from aliquot.metaeval.annotators import PerfectAnnotator
from aliquot.metaeval.break_even import CurvePoint, Worth
from aliquot.metaeval.control_value import ControlValue, Suggestion
from aliquot.metaeval.correlate import Correlation, Extreme, LeftOut
from aliquot.metaeval.decompose import Agreement, ErrorParts, Verdicts
from aliquot.metaeval.significance import MetricCluster, MetricPair
from aliquot.metaeval.surface import SurfaceScore

TABLES: dict[str, type] = {
    "decomposition": ErrorParts,
    "breakeven": Worth,
    "curves": CurvePoint,
    "annotators": PerfectAnnotator,
    "convergence": Agreement,
    "cooccurrence": Verdicts,
    "value": ControlValue,
    "suggested": Suggestion,
    "correlations": Correlation,
    "extremes": Extreme,
    "leave_one_out": LeftOut,
    "tests": MetricPair,
    "clusters": MetricCluster,
    "computed": SurfaceScore,
}
"""The tables of a report and what their rows are."""

_DTYPES = {str: pl.String(), float: pl.Float64(), int: pl.Int64(), bool: pl.Boolean()}


@dataclass(frozen=True, eq=False, repr=False)
class MetricReport:
    """The result of `metrics`; a table is empty where its part was not asked for or is not possible (see `notes`).

    Attributes:
        decomposition: each metric's pairwise error: observed = noise + bias + variance.
        breakeven: how many judgments each metric is worth.
        curves: error of people and of the perfect annotator against judgments per system.
        annotators: variance components and efficiency ratio of each campaign's judgments.
        convergence: agreement of a metric on some items with the same metric on all.
        cooccurrence: where people and a metric find significant differences.
        value: what each metric saves as a control variate.
        suggested: which metrics to combine.
        correlations: at every level, with tie policies.
        extremes: the same on the best and the worst systems only.
        leave_one_out: the same without each system in turn.
        tests: pairs of metrics, and whether one is better.
        clusters: metrics that are not told apart.
        computed: surface metrics that were computed, with sacrebleu's signatures.
        parts: the parts that were asked for.
        humans: the human scores.
        metrics: the metrics.
        notes: what a reader should know.
        signature: the line that reproduces it.
    """

    decomposition: tuple[ErrorParts, ...] = ()
    breakeven: tuple[Worth, ...] = ()
    curves: tuple[CurvePoint, ...] = ()
    annotators: tuple[PerfectAnnotator, ...] = ()
    convergence: tuple[Agreement, ...] = ()
    cooccurrence: tuple[Verdicts, ...] = ()
    value: tuple[ControlValue, ...] = ()
    suggested: tuple[Suggestion, ...] = ()
    correlations: tuple[Correlation, ...] = ()
    extremes: tuple[Extreme, ...] = ()
    leave_one_out: tuple[LeftOut, ...] = ()
    tests: tuple[MetricPair, ...] = ()
    clusters: tuple[MetricCluster, ...] = ()
    computed: tuple[SurfaceScore, ...] = ()
    parts: tuple[str, ...] = ()
    humans: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __repr__(self) -> str:
        return f"MetricReport({len(self.metrics)} metrics against {', '.join(self.humans)}; {', '.join(self.parts)})"

    def rows(self, table: str) -> tuple[Any, ...]:
        """The rows of a table, by name."""
        if table not in TABLES:
            raise unknown_name("table", table, TABLES)
        found: tuple[Any, ...] = getattr(self, table)
        return found

    def to_frame(self, table: str = "decomposition") -> pl.DataFrame:
        """One of the tables; undefined numbers are null, and a break-even that is never reached is infinite."""
        rows, schema = self.rows(table), _schema(TABLES.get(table, ErrorParts))
        frame = pl.DataFrame([vars(row) for row in rows], schema=schema)
        return frame.with_columns(pl.col(pl.Float64).fill_nan(None))

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `metrics --json`; undefined and infinite numbers are null."""
        document: dict[str, Any] = {name: [_plain(row) for row in self.rows(name)] for name in TABLES}
        return document | {
            "parts": list(self.parts),
            "humans": list(self.humans),
            "metrics": list(self.metrics),
            "notes": list(self.notes),
            "signature": self.signature,
        }


def _schema(row: type) -> dict[str, pl.DataType]:
    return {name: _dtype(hint) for name, hint in typing.get_type_hints(row).items()}


def _dtype(hint: Any) -> pl.DataType:
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    return _DTYPES.get(hint, pl.String())  # a Literal is a text


def _plain(row: Any) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in vars(row).items()}
