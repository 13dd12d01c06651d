"""Does selection with a metric pay off when the metric is weak? Parity against the metric's quality.

Figure 6 of Zouhar et al. 2025: for every metric of every campaign its Pearson correlation with people over all outputs,
and the parity of the selectors that use it, averaged over metrics of about the same quality. Parity is exact (eq. 12).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.conventions import usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_in_order
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import Column, View
from aliquot.core.written import format_fixed
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.io.inputs import DataLike, as_evalsets
from aliquot.meta import SHARES, parity, random_spa
from aliquot.sampling.methods import find_method
from aliquot.sampling.select import select
from aliquot.simulation.setup import keep_complete, number_duplicates
from aliquot.stats.correlation import correlate_tables

DEFAULT_METHODS = ("metric_avg", "metric_var", "metric_cons", "irt_diffdisc")
_BIN_WIDTH = 0.1
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class QualityRow:
    """One metric of one set: its correlation with people, and the parity of one method that uses it."""

    data: str
    metric: str
    correlation: float  # Pearson, over all outputs
    method: str
    parity: float  # infinite where some accuracy of random samples is never reached


@dataclass(frozen=True, eq=False)
class MetricQuality(Result):
    """The result of `replay_metrics`."""

    rows: tuple[QualityRow, ...]
    notes: tuple[str, ...]
    signature: str

    def bins(self) -> pl.DataFrame:
        """Mean parity by rounded correlation and method, and how many metrics are behind it.

        Parities that are never reached are left out of the mean and counted in `missed`.
        """
        table = self.to_frame().with_columns(
            pl.col("parity").is_finite().alias("reached"),
            ((pl.col("correlation") / _BIN_WIDTH).round() * _BIN_WIDTH).alias("bin"),
        )
        return (
            table.group_by("method", "bin")
            .agg(
                pl.col("parity").filter("reached").mean(),
                pl.len().alias("metrics"),
                (~pl.col("reached")).sum().alias("missed"),
            )
            .sort("method", "bin")
        )

    def to_frame(self) -> pl.DataFrame:
        """One row for each set, metric and method."""
        return frame_of(self.rows, QualityRow)

    def document(self) -> dict[str, Any]:
        """Return the fields and the bins; a parity that is never reached is null."""
        return {"rows": self.rows, "bins": self.bins(), "notes": self.notes, "signature": self.signature}

    def views(self) -> list[View]:
        """Mean parity of each method by the metric's correlation with people."""
        rows: dict[float, dict[str, Any]] = {}
        for cell in self.bins().sort("bin").to_dicts():
            row = rows.setdefault(cell["bin"], {"correlation": f"{cell['bin']:.1f}", "metrics": cell["metrics"]})
            row[cell["method"]] = _format_parity(cell)
        methods = dict.fromkeys(row.method for row in self.rows)
        columns = [Column("correlation", kind="name"), Column("metrics", kind="count"), *map(Column, methods)]
        caption = (
            "correlation: Pearson's of metric and people over all outputs, rounded. Parity: share of a random "
            "sample's budget that is as good; (2): so many metrics never are. Every metric: --json, -o."
        )
        return [View("bins", list(rows.values()), columns, title="Parity by the metric's quality", caption=caption)]


def _format_parity(cell: dict[str, Any]) -> str:
    missed = f" ({cell['missed']})" if cell["missed"] else ""
    return ("-" if cell["parity"] is None else format_fixed(cell["parity"], 2)) + missed


def replay_metrics(
    data: DataLike | Sequence[DataLike],
    methods: Sequence[str] = DEFAULT_METHODS,
    *,
    human: str | None = None,
    metrics: Sequence[str] | None = None,
    seed: int = 0,
    jobs: int | None = 1,
    progress: Progress | None = None,
) -> MetricQuality:
    """Compare what selectors gain with metrics of different quality.

    Args:
        data: past campaigns with human scores and metrics.
        methods: selectors that take a metric.
        human: the human score.
        metrics: the metrics to look at; all usable ones by default.
        seed: of the random samples and of ties.
        jobs: processes; None for all cores.
        progress: called with the number of finished and of all metrics.

    >>> import aliquot
    >>> found = replay_metrics(aliquot.synthetic(items=60, systems=4, seed=1), ["metric_var"])
    >>> [row.metric for row in found.rows]
    ['metricA', 'metricB', 'metricC']
    """
    _validate_methods(methods)
    sets: list[EvalSet] = []
    notes: list[str] = []
    for evalset in number_duplicates(as_evalsets(data)):
        complete, new_notes = keep_complete(evalset, human)
        sets.append(complete)
        notes += new_notes
    tasks = [(complete, name) for complete in sets for name in _list_metrics(complete, metrics)]
    if not tasks:
        raise DataError("no set has a usable metric; give past campaigns with automatic scores")
    work = _MetricReplays(tuple(methods), {complete.name: random_spa(complete, seed=seed) for complete in sets}, seed)
    rows = [row for metric_rows in run_in_order(work, tasks, jobs=jobs, progress=progress) for row in metric_rows]
    line = make_signature(
        "simulate:by_metric",
        None,
        methods=",".join(methods),
        seed=seed,
        metrics=None if metrics is None else ",".join(metrics),
        data=",".join(complete.fingerprint for complete in sets),
    )
    return MetricQuality(tuple(rows), tuple(notes), line)


@dataclass(frozen=True)
class _MetricReplays:
    """The work on one metric of one set; an object, so that it can travel to other processes."""

    methods: tuple[str, ...]
    targets: Mapping[str, Any]  # the accuracy of random samples, by set
    seed: int

    def __call__(self, task: tuple[EvalSet, str]) -> list[QualityRow]:
        evalset, metric = task
        correlation = correlate_tables(evalset.scores[metric], evalset.human_score()).value
        return [
            QualityRow(evalset.name, metric, correlation, method, self.compute_parity(evalset, method, metric))
            for method in self.methods
        ]

    def compute_parity(self, evalset: EvalSet, method: str, metric: str) -> float:
        """Parity of the order in which the method takes the items; it sees the metric and no human score."""
        row_of = {item: row for row, item in enumerate(evalset.ids)}
        hidden = replace(evalset, scores={metric: evalset.scores[metric]}, human=None, judgments=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AliquotWarning)
            order = select(hidden, method, metric=metric, seed=self.seed).ids
        human = evalset.human_score()
        return parity(human[[row_of[item] for item in order]], human, self.targets[evalset.name], SHARES)


def _validate_methods(methods: Sequence[str]) -> None:
    for name in methods:
        method, _ = find_method(name.partition(":")[0])
        if method.kind != "utility" or "metric" not in method.parameters:
            raise OptionError(
                f"method '{name}' does not order items by one metric; choose of: {', '.join(DEFAULT_METHODS)}"
            )


def _list_metrics(evalset: EvalSet, metrics: Sequence[str] | None) -> list[str]:
    """Metrics of the set to look at, those with a score of every output."""
    names = usable_metrics(evalset) if metrics is None else [name for name in metrics if name in evalset.scores]
    return [name for name in names if np.isfinite(evalset.scores[name]).all()]
