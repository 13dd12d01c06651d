"""Does selection with a metric pay off when the metric is weak? Parity against the metric's quality.

Figure 6 of Zouhar et al. 2025: for every metric of every campaign its Pearson correlation with people over all outputs,
and the parity of the selectors that use it, averaged over metrics of about the same quality. Parity is exact (eq. 12).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.conventions import usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.core.result import Result, make_signature
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
    """The result of `simulate --by-metric`."""

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
        return pl.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "rows": [vars(row) | {"parity": row.parity if np.isfinite(row.parity) else None} for row in self.rows],
            "bins": self.bins().to_dicts(),
            "notes": list(self.notes),
            "signature": self.signature,
        }


def replay_metrics(
    data: DataLike | Sequence[DataLike],
    methods: Sequence[str] = DEFAULT_METHODS,
    *,
    human: str | None = None,
    metrics: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> MetricQuality:
    """Compare what selectors gain with metrics of different quality.

    Args:
        data: past campaigns with human scores and metrics.
        methods: selectors that take a metric.
        human: the human score.
        metrics: the metrics to look at; all usable ones by default.
        seed: of the random samples and of ties.
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
        kept, said = keep_complete(evalset, human)
        sets.append(kept)
        notes += said
    tasks = [(kept, name) for kept in sets for name in _list_metrics(kept, metrics)]
    if not tasks:
        raise DataError("no set has a usable metric; give past campaigns with automatic scores")
    targets = {kept.name: random_spa(kept, seed=seed) for kept in sets}
    rows: list[QualityRow] = []
    for done, (kept, name) in enumerate(tasks, start=1):
        quality = correlate_tables(kept.scores[name], kept.human_score()).value
        rows += [
            QualityRow(kept.name, name, quality, method, _compute_parity(kept, method, name, targets[kept.name], seed))
            for method in methods
        ]
        if progress is not None:
            progress(done, len(tasks))
    line = make_signature(
        "simulate:by_metric",
        None,
        methods=",".join(methods),
        seed=seed,
        metrics=None if metrics is None else ",".join(metrics),
        data=",".join(kept.fingerprint for kept in sets),
    )
    return MetricQuality(tuple(rows), tuple(notes), line)


def _validate_methods(methods: Sequence[str]) -> None:
    for name in methods:
        method, _ = find_method(name.partition(":")[0])
        if method.kind != "utility" or "metric" not in method.parameters:
            raise OptionError(
                f"method '{name}' does not order items by one metric; choose of: {', '.join(DEFAULT_METHODS)}"
            )


def _list_metrics(kept: EvalSet, asked: Sequence[str] | None) -> list[str]:
    """Metrics of the set to look at, those with a score of every output."""
    names = usable_metrics(kept) if asked is None else [name for name in asked if name in kept.scores]
    return [name for name in names if np.isfinite(kept.scores[name]).all()]


def _compute_parity(kept: EvalSet, method: str, metric: str, targets: Any, seed: int) -> float:
    """Parity of the order in which the method takes the items; it sees the metric and no human score."""
    row_of = {item: row for row, item in enumerate(kept.ids)}
    hidden = replace(kept, scores={metric: kept.scores[metric]}, human=None, judgments=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        order = select(hidden, method, metric=metric, seed=seed).ids
    human = kept.human_score()
    return parity(human[[row_of[item] for item in order]], human, targets, SHARES)
