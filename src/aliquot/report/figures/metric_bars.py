"""Metrics: why each is wrong about pairs of systems (noise, bias, variance), and correlations with people."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aliquot.errors import DataError
from aliquot.metric_eval.metric_report import MetricReport
from aliquot.report.figures.style import COLOURS, GREY, new_figure, shorten_label, wrap_title

_MAX_METRICS = 45  # metrics in one picture
_PARTS = (
    ("noise", "noise of people", "#bbbbbb", ""),
    ("bias", "bias of the metric", COLOURS[1], ""),
    ("variance", "variance of the metric", COLOURS[0], "///"),
)
_LEVELS = (
    ("system", "pearson", "system, Pearson", "o"),
    ("system", "accuracy", "system, pairs in order", "s"),
    ("within_item", "acc_eq", "within items, with ties calibrated", "D"),
    ("pooled", "kendall_b", "all outputs, Kendall's tau-b", "^"),
)


def errors_figure(report: MetricReport) -> Any:
    """Draw one bar for each metric and human score, parted into noise of people, bias and variance of the metric."""
    humans = list(dict.fromkeys(row.human for row in report.decomposition))
    if not humans:
        raise DataError(
            "the report has no decomposition to draw (see its notes); it needs two systems that people judged"
        )
    max_bars = min(_MAX_METRICS, max(sum(row.human == human for row in report.decomposition) for human in humans))
    figure, axes = new_figure(len(humans), 1, width=7.6, height=1.2 + 0.22 * max_bars)
    for axis, human in zip(axes.ravel(), humans, strict=True):
        defined = [row for row in report.decomposition if row.human == human and math.isfinite(row.observed)]
        rows = sorted(defined, key=lambda row: (row.observed, row.metric))[:max_bars]
        starts = np.zeros(len(rows))
        for name, label, colour, hatch in _PARTS:
            sizes = np.array([max(0.0, getattr(row, name)) for row in rows])
            axis.barh(
                range(len(rows)),
                sizes,
                left=starts,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.4,
                label=label,
            )
            starts += sizes
        axis.set_yticks(range(len(rows)), [shorten_label(row.metric) for row in rows], fontsize=8)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.grid(visible=False, axis="y")
        axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        axis.set_xlabel("pairs of systems on which it and people disagree")
        axis.set_title(wrap_title(f"disagreement with '{human}' and its parts", 80), fontsize=10, loc="left")
        axis.legend(frameon=True, edgecolor="none", fontsize=8, loc="upper right")
    return figure


def correlations_figure(report: MetricReport) -> Any:
    """Draw correlations of each metric with people at several levels, intervals where known; ties are named."""
    humans = list(dict.fromkeys(row.human for row in report.correlations))
    if not humans:
        raise DataError("the report has no correlations to draw; add correlations to the parts")
    counts = [len({row.metric for row in report.correlations if row.human == human}) for human in humans]
    figure, axes = new_figure(len(humans), 1, width=7.6, height=1.6 + 0.26 * min(_MAX_METRICS, max(counts)))
    for axis, human in zip(axes.ravel(), humans, strict=True):
        _correlations_panel(axis, [row for row in report.correlations if row.human == human])
        axis.set_title(wrap_title(f"correlation with '{human}'", 80), fontsize=10, loc="left")
    return figure


def _correlations_panel(axis: Any, correlations: list[Any]) -> None:
    first = {row.metric: row.value for row in correlations if (row.level, row.measure) == _LEVELS[0][:2]}
    names = dict.fromkeys(row.metric for row in correlations)
    metrics = sorted(names, key=lambda name: (-_sort_value(first.get(name)), name))[:_MAX_METRICS]
    place = {name: index for index, name in enumerate(metrics)}
    for number, (level, measure, words, marker) in enumerate(_LEVELS):
        rows = [row for row in correlations if (row.level, row.measure) == (level, measure) and row.metric in place]
        rows = [row for row in rows if math.isfinite(row.value)]
        shift = 0.16 * (number - (len(_LEVELS) - 1) / 2)
        for row in rows:
            if math.isfinite(row.low):
                y = place[row.metric] + shift
                axis.plot([row.low, row.high], [y, y], color=COLOURS[number], linewidth=0.8, alpha=0.7)
        heights = [place[row.metric] + shift for row in rows]
        axis.plot(
            [row.value for row in rows],
            heights,
            marker,
            color=COLOURS[number],
            markersize=4,
            linestyle="none",
            label=words,
        )
    axis.axvline(0.0, color=GREY, linewidth=0.7)
    axis.set_yticks(range(len(metrics)), [shorten_label(name) for name in metrics], fontsize=8)
    axis.set_ylim(len(metrics) - 0.5, -0.5)
    axis.legend(frameon=True, edgecolor="none", fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)


def _sort_value(value: float | None) -> float:
    return -math.inf if value is None or math.isnan(value) else value
