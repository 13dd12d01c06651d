"""Error against judgments per system: people, the perfect annotator, and a line for each metric's bias.

After Wei and Jia (2021), Figure 2. Where a line meets the curve of people, the metric is worth that many judgments.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from aliquot.errors import DataError
from aliquot.metaeval.break_even import CurvePoint, Worth
from aliquot.metaeval.metric_report import MetricReport
from aliquot.report.figures import COLOURS, new_figure, require_figures, save_figure

_LABELS = 24
"""Lines that can be labelled before labels cover each other."""
_NAMES = 3
"""Metrics of the same bias that are named before "and n more"."""


def draw_break_even(report: MetricReport, path: Path) -> None:
    """Draw one panel for each human score.

    Raises:
        DataError: the report has no break-even.
    """
    require_figures(path)
    humans = list(dict.fromkeys(row.human for row in report.breakeven))
    if not humans:
        raise DataError("the report has no break-even to draw (see its notes); it needs two systems that people judged")
    figure, axes = new_figure(len(humans), 1, width=8.6, height=5.0)
    for axis, human in zip(axes.ravel(), humans, strict=True):
        points = [point for point in report.curves if point.human == human]
        rows = [row for row in report.breakeven if row.human == human and math.isfinite(row.bias)]
        _panel(axis, points, rows)
        axis.set_title(f"error in telling the better of two systems, against '{human}'", fontsize=10, loc="left")
    save_figure(figure, path)


def _panel(axis: Any, points: list[CurvePoint], rows: list[Worth]) -> None:
    sizes = [point.judgments for point in points]
    axis.set_xscale("log")
    axis.plot(sizes, [point.people for point in points], color=COLOURS[0], linewidth=2.2, label="people", zorder=3)
    if any(math.isfinite(point.perfect) for point in points):
        axis.plot(sizes, [point.perfect for point in points], color=COLOURS[1], linewidth=2.2, linestyle="--",
                  label="perfect annotator", zorder=3)  # fmt: skip
    top = 1.15 * points[0].people
    lines: dict[float, list[Worth]] = {}
    for row in sorted(rows, key=lambda row: (row.bias, row.metric)):
        lines.setdefault(round(row.bias, 6), []).append(row)
    drawn = {bias: same for bias, same in lines.items() if bias <= top}
    for bias, same in drawn.items():
        axis.axhline(bias, color="#999999", linewidth=0.8, zorder=1)
        if 1 < same[0].judgments < math.inf:
            axis.plot([same[0].judgments], [bias], marker="o", markersize=4, color=COLOURS[0], zorder=4)
    axis.set_xlim(1, sizes[-1])
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_ylim(-0.02 * top, top)
    _label(axis, drawn, sizes[-1], top)
    beyond = [row for bias, same in lines.items() if bias > top for row in same]
    axis.set_xlabel("judgments per system" + (f"\n(beyond the picture: {_words(beyond)})" if beyond else ""))
    axis.set_ylabel("share of pairs of systems that are told wrongly")
    axis.legend(frameon=True, edgecolor="none", framealpha=1.0, loc="upper right")


def _label(axis: Any, lines: dict[float, list[Worth]], right: float, top: float) -> None:
    """Name the lines at the right, evenly moved apart; of many, those that are farthest from each other."""
    kept = _spread(list(lines), _LABELS)
    step = 1.02 * top / (_LABELS + 1)
    places: list[float] = []
    for bias in kept:
        places.append(max(bias, places[-1] + step) if places else bias)
    shift = max(0.0, places[-1] - 0.98 * top) if places else 0.0
    for bias, place in zip(kept, places, strict=True):
        axis.annotate(
            _words(lines[bias]), xy=(right, bias), xytext=(right * 1.25, place - shift), fontsize=7.5, va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.6, "relpos": (0, 0.5)},
        )  # fmt: skip


def _spread(values: list[float], most: int) -> list[float]:
    """At most so many of ascending values, first and last among them: the closest neighbours are dropped one by one.

    >>> _spread([0.0, 0.1, 0.11, 0.5], 3)
    [0.0, 0.11, 0.5]
    """
    kept = list(values)
    while len(kept) > most:
        gaps = [kept[at + 1] - kept[at - 1] for at in range(1, len(kept) - 1)]
        kept.pop(1 + gaps.index(min(gaps)))
    return kept


def _words(rows: list[Worth]) -> str:
    names = ", ".join(row.metric for row in rows[:_NAMES])
    more = f" and {len(rows) - _NAMES} more" if len(rows) > _NAMES else ""
    biases = dict.fromkeys(f"{row.bias:.2f}" for row in (rows[0], rows[-1]))
    return f"{' to '.join(biases)}  {names}{more}"
