"""Correlations of metrics with human scores at every level, each with its tie policy (docs/methods.md, section 7).

Invariant: every number is on the cells that the metric and people both have, says on how many, and what became of ties;
what is undefined is NaN and counted, never taken for 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np

from aliquot.metric_eval.metric_inputs import MetricInputs, ScoredCampaign
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import (
    Coefficient,
    CorrelationLevel,
    correlate_tables,
    group_correlations,
    mask_tables_to_common,
    system_means,
)
from aliquot.stats.correlation_intervals import NO_INTERVAL, IntervalEnds, fisher_interval, table_interval
from aliquot.stats.system_correlation import (
    NestedStatistic,
    TableStatistic,
    extreme_curves,
    leave_one_system_out,
    nested_statistic,
    soft_pairwise_accuracy,
)
from aliquot.stats.system_correlation import metric_pairwise_accuracy as pairwise_accuracy
from aliquot.stats.tied_correlation import Averaging, MetricTies, kendall_like, nested_kendall_like, tie_accuracy

LEVELS: dict[str, CorrelationLevel] = {
    "pooled": "pooled",
    "within_system": "within_system",
    "within_item": "within_item",
    "system": "system_means",
}
"""Our names of levels: all outputs together; the outputs of each system; those of each item; systems' means."""

_SYSTEM_MEASURES: tuple[Coefficient, ...] = ("pearson", "spearman", "kendall_b")

_TIE_POLICIES: dict[Coefficient, str] = {
    "pearson": "no matter",
    "spearman": "mean ranks",
    "kendall_b": "corrected (b)",
    "kendall_c": "corrected (c)",
}


@dataclass(frozen=True)
class Correlation:
    """One metric, one level, one measure."""

    human: str
    data: str
    metric: str
    level: str  # pooled, within_system, within_item or system
    measure: str  # pearson, spearman, kendall_b, kendall_c, acc_eq, kendall_like, accuracy or spa
    value: float  # NaN where undefined
    # ends of its interval: over items for outputs, over systems for systems' means; NaN where there is none (Kendall
    # over all outputs, measures that count pairs)
    low: float
    high: float
    ties: str  # what became of ties
    # how items were averaged, for kendall_like: macro (mean of items) or micro (all pairs together)
    average: str | None
    epsilon: float | None  # for acc_eq, the metric difference up to which outputs are tied
    groups: int  # items or systems that were averaged
    undefined: int  # those without a value (constant scores), left out
    items: int  # items with scores of both
    systems: int  # likewise systems
    cells: int  # likewise outputs


@dataclass(frozen=True)
class ExtremeSystems:
    """A measure on the N best, and on the N worst systems by people."""

    human: str
    data: str
    metric: str
    measure: str  # system_pearson, or kendall_like (within items, metric ties discordant, mean of items)
    systems: int  # N
    top: float  # on the N best
    last: float  # on the N worst


@dataclass(frozen=True)
class LeftOutSystem:
    """A measure on all systems, and its range when each is left out in turn."""

    human: str
    data: str
    metric: str
    measure: str  # system_pearson or accuracy
    value: float  # on all systems
    low: float  # the smallest without one
    low_without: str | None  # which one
    high: float  # the largest without one
    high_without: str | None  # which one


@dataclass(frozen=True)
class SystemCorrelation:
    """Correlation of a metric with people over the outputs of one system."""

    human: str
    data: str
    metric: str
    system: str
    measure: str  # pearson, spearman or kendall_b
    value: float  # NaN where undefined
    low: float  # ends of its interval over items
    high: float
    items: int  # outputs with both scores


def correlate_by_system(inputs: MetricInputs, confidence: float = 0.95) -> tuple[SystemCorrelation, ...]:
    """Sentence-level correlations of every metric for each system by itself.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> rows = correlate_by_system(build_inputs([aliquot.synthetic(items=40, systems=4, seed=1)]))
    >>> len(rows), rows[0].system, rows[0].low < rows[0].value < rows[0].high
    (36, 'sys1', True)
    """
    rows = []
    for campaign, index, metric in _iterate_metrics(inputs):
        is_common = np.isfinite(campaign.metrics[index]) & np.isfinite(campaign.human)
        for measure in _SYSTEM_MEASURES:
            values = group_correlations(
                *mask_tables_to_common(campaign.metrics[index], campaign.human), measure, "system"
            )
            rows += [
                SystemCorrelation(
                    inputs.human,
                    campaign.name,
                    metric,
                    system,
                    measure,
                    float(value),
                    *fisher_interval(float(value), int(count), measure, confidence),
                    int(count),
                )
                for system, value, count in zip(campaign.systems, values, is_common.sum(axis=0), strict=True)
            ]
    return tuple(rows)


def correlate_metrics(inputs: MetricInputs, confidence: float = 0.95) -> tuple[Correlation, ...]:
    """Compute each correlation of each metric in each campaign.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> rows = correlate_metrics(build_inputs([aliquot.synthetic(items=40, systems=4, seed=1)]))
    >>> len(rows), [(row.level, row.measure, row.ties) for row in rows[-2:]]
    (78, [('system', 'accuracy', 'human skip, metric half'), ('system', 'spa', 'no matter')])
    """
    return tuple(
        row
        for campaign, index, metric in _iterate_metrics(inputs)
        for row in _correlate((inputs.human, campaign.name, metric), campaign, index, confidence)
    )


def _correlate(
    label: tuple[str, str, str], campaign: ScoredCampaign, index: int, confidence: float
) -> Iterator[Correlation]:
    metric, human, coverage = campaign.metrics[index], campaign.human, campaign.coverage(index)

    def row(
        level: str,
        measure: str,
        value: float,
        ties: str,
        *,
        groups: int = 1,
        undefined: int = 0,
        average: str | None = None,
        epsilon: float | None = None,
        ends: IntervalEnds = NO_INTERVAL,
    ) -> Correlation:
        return Correlation(
            *label,
            level,
            measure,
            value,
            *ends,
            ties,
            average,
            epsilon,
            groups,
            undefined,
            coverage.items,
            coverage.systems,
            coverage.cells,
        )

    for level, kernel_level in LEVELS.items():
        for coefficient in get_args(Coefficient):
            estimate = correlate_tables(metric, human, coefficient, kernel_level)
            ends = table_interval(metric, human, estimate.value, coefficient, kernel_level, confidence)
            yield row(
                level,
                coefficient,
                estimate.value,
                _TIE_POLICIES[coefficient],
                groups=estimate.groups,
                undefined=estimate.undefined,
                ends=ends,
            )
    calibrated = tie_accuracy(metric, human)
    for ties, value, epsilon in (
        ("calibrated on these scores", calibrated.accuracy, calibrated.epsilon),
        ("equal scores only", calibrated.accuracy_at_zero, 0.0),
    ):
        yield row("within_item", "acc_eq", value, ties, epsilon=epsilon, groups=calibrated.groups)
    for policy in get_args(MetricTies):
        for average in get_args(Averaging):
            tau = kendall_like(metric, human, policy, average=average)
            yield row(
                "within_item",
                "kendall_like",
                tau.value,
                f"human skip, metric {policy}",
                average=average,
                groups=tau.items,
                undefined=tau.undefined,
            )
    yield row("system", "accuracy", pairwise_accuracy(metric, human).value, "human skip, metric half")
    yield row("system", "spa", soft_pairwise_accuracy(metric, human).value, "no matter")


# -- How much depends on single systems ------------------------------------------------------------------------------


def _system_pearson(metric: FloatArray, human: FloatArray) -> float:
    return correlate_tables(metric, human, "pearson", "system_means").value


def _system_accuracy(metric: FloatArray, human: FloatArray) -> float:
    return pairwise_accuracy(metric, human).value


def _mean_tables(metric: FloatArray, human: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return systems' means on the common cells as tables of one row, so that leaving a system out keeps the others."""
    first, second = system_means(metric, human)
    return first[None], second[None]


_EXTREMES: dict[str, NestedStatistic] = {
    "system_pearson": lambda metric, human: nested_statistic(_system_pearson)(*_mean_tables(metric, human)),
    "kendall_like": nested_kendall_like,
}
_LEAVE_ONE_OUT: dict[str, TableStatistic] = {"system_pearson": _system_pearson, "accuracy": _system_accuracy}


def correlate_extremes(inputs: MetricInputs) -> tuple[ExtremeSystems, ...]:
    """Recompute measures on the N best and the N worst systems, N = all..3; none with fewer than three systems."""
    rows = []
    for campaign, index, metric in _iterate_metrics(inputs):
        for measure, curve in _EXTREMES.items():
            curves = extreme_curves(campaign.metrics[index], campaign.human, curve)
            rows += [
                ExtremeSystems(inputs.human, campaign.name, metric, measure, int(size), float(top), float(last))
                for size, top, last in zip(curves.sizes, curves.top, curves.last, strict=True)
            ]
    return tuple(rows)


def leave_systems_out(inputs: MetricInputs) -> tuple[LeftOutSystem, ...]:
    """Recompute measures without each system in turn."""
    rows = []
    for campaign, index, metric in _iterate_metrics(inputs):
        means = _mean_tables(campaign.metrics[index], campaign.human)
        for measure, statistic in _LEAVE_ONE_OUT.items():
            left_out = leave_one_system_out(*means, statistic)
            rows.append(
                LeftOutSystem(
                    inputs.human,
                    campaign.name,
                    metric,
                    measure,
                    left_out.full,
                    left_out.low,
                    _find_system(campaign, left_out.without, left_out.low),
                    left_out.high,
                    _find_system(campaign, left_out.without, left_out.high),
                )
            )
    return tuple(rows)


def _iterate_metrics(inputs: MetricInputs) -> Iterator[tuple[ScoredCampaign, int, str]]:
    for campaign in inputs.campaigns:
        for index, metric in enumerate(inputs.metrics):
            yield campaign, index, metric


def _find_system(campaign: ScoredCampaign, values: FloatArray, value: float) -> str | None:
    """Return the first system without which the measure has this value."""
    return next((name for name, candidate in zip(campaign.systems, values, strict=True) if candidate == value), None)
