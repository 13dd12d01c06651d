"""Curves: a replay, a plan and the break-even of metrics, each against the number of judgments."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from aliquot.core import escape
from aliquot.errors import DataError, unknown_name
from aliquot.metric_eval.measures import MEASURES
from aliquot.report.figures.style import (
    COLOURS,
    GREY,
    RANDOM,
    choose_line_style,
    new_figure,
    require_figures,
    save_figure,
    separate_labels,
)
from aliquot.stats.arrays import FloatArray

if TYPE_CHECKING:
    from aliquot.metric_eval.metric_break_even import ErrorCurvePoint, Worth
    from aliquot.metric_eval.metric_report import MetricReport
    from aliquot.planning.result import CampaignPlan
    from aliquot.simulation.result import Simulation
    from aliquot.simulation.units import ReplayCell

# -- A replay: a measure against the budget, a line for each method, a band for random -------------------------------

_COLUMNS = 3
_LETTERS = 34  # of a name on one line
_LETTER, _LINE = 0.068, 0.14  # inches of a letter and of a line of small print
_PANEL = (4.6, 4.2)


@dataclass(frozen=True, eq=False)
class Line:
    """One method's line and the label at its end."""

    name: str
    x: FloatArray
    y: FloatArray
    half: FloatArray
    colour: str
    dash: Any

    @property
    def label(self) -> list[str]:
        """The name in as many lines as it takes."""
        return [escape.mathtext(part) for part in textwrap.wrap(self.name, _LETTERS)]


def draw_curves(result: Simulation, measure: str, path: str | Path) -> None:
    """Write the picture of `curves_figure`."""
    require_figures(Path(path))
    save_figure(curves_figure(result, measure), Path(path))


def curves_figure(result: Simulation, measure: str | None = None) -> Any:
    """Draw one panel for each set, by default of `spa_full`; lines are labelled at their ends."""
    measures = list(dict.fromkeys(cell.measure for cell in result.cells))
    measure = measure or ("spa_full" if "spa_full" in measures else measures[0])
    if measure not in measures:
        raise unknown_name("measure", measure, measures, "it must be among those that were replayed")
    sets = list(dict.fromkeys(cell.data for cell in result.cells))
    panels = [make_lines([cell for cell in result.cells if cell.data == data and cell.asked], measure) for data in sets]
    columns = min(_COLUMNS, len(sets))
    widest = max((len(part) for lines in panels for line in lines for part in line.label), default=0)
    labels = max((len(line.label) for lines in panels for line in lines), default=0) * max(map(len, panels))
    width, height = _PANEL[0] + _LETTER * widest, max(_PANEL[1], 1.2 * _LINE * labels)
    figure, axes = new_figure(-(-len(sets) // columns), columns, width=width, height=height)
    for axis, data, lines in zip(axes.ravel(), sets, panels, strict=False):
        _curve_panel(axis, lines, measure, height)
        axis.set_title(escape.mathtext(textwrap.fill(data, int(width / _LETTER / 1.3))), fontsize=10, loc="left")
    for axis in axes.ravel()[len(sets) :]:
        axis.set_visible(False)
    return figure


def make_lines(cells: list[ReplayCell], measure: str) -> list[Line]:
    """Return the lines of one panel, random (the baseline; for spa_full its spa) first."""
    against = MEASURES[measure].against
    if not any((cell.method, cell.measure) == (RANDOM, against) for cell in cells):
        against = measure  # it was not asked for
    lines = []
    for place, method in enumerate([RANDOM, *dict.fromkeys(c.method for c in cells if c.method != RANDOM)]):
        measure_shown = against if method == RANDOM else measure
        points = sorted((c for c in cells if (c.method, c.measure) == (method, measure_shown)), key=lambda c: c.share)
        if not points:
            continue
        freedom = np.maximum([c.repeats - 1 for c in points], 1)
        half = np.nan_to_num(stdtrit(freedom, 0.975) * np.array([c.error for c in points]))
        colour, dash = (GREY, "-") if method == RANDOM else choose_line_style(place - 1)
        name = f"{method} ({measure_shown})" if measure_shown != measure else method
        x, y = np.array([100 * c.share for c in points]), np.array([c.value for c in points])
        lines.append(Line(name, x, y, half, colour, dash))
    return lines


def _curve_panel(axis: Any, lines: list[Line], measure: str, height: float) -> None:
    for line in lines:
        axis.plot(line.x, line.y, color=line.colour, linestyle=line.dash, linewidth=1.8, marker="o", markersize=3)
        if line.colour == GREY:
            axis.fill_between(line.x, line.y - line.half, line.y + line.half, color=GREY, alpha=0.25, linewidth=0)
    axis.margins(x=0.02)
    _label_ends(axis, [line for line in lines if np.isfinite(line.y).any()], 0.8 * height)
    axis.set_xlabel("budget, % of judging everything")
    axis.set_ylabel(f"{measure}: {MEASURES[measure].about.split(';')[0]}", fontsize=8)


def _label_ends(axis: Any, lines: list[Line], inches: float) -> None:
    """Write each line's name to the right of its end, moved apart where they would cover each other."""
    low, high = axis.get_ylim()
    last_points = [np.flatnonzero(np.isfinite(line.y))[-1] for line in lines]
    lines_up = sorted(zip(lines, last_points, strict=True), key=lambda pair: pair[0].y[pair[1]])
    ends = np.array([(line.y[last] - low) / (high - low) for line, last in lines_up])
    places = separate_labels(ends, np.array([1.2 * _LINE * len(line.label) / inches for line, _ in lines_up]))
    for (line, last), place in zip(lines_up, places.tolist(), strict=True):
        leader = {"arrowstyle": "-", "color": line.colour, "linestyle": line.dash, "linewidth": 0.9}
        axis.annotate(
            "\n".join(line.label),
            xy=(line.x[last], line.y[last]),
            xytext=(1.09, place),
            textcoords="axes fraction",
            fontsize=8,
            color=line.colour,
            va="center",
            annotation_clip=False,
            arrowprops={**leader, "relpos": (0.0, 0.5), "shrinkA": 1.0, "shrinkB": 3.0},
        )


# -- A plan: what every budget promises, for a random sample and for the recommended method --------------------------

_PANELS = (
    ("width_difference", "width of the interval of a difference"),
    ("accuracy", "pairs of systems in the right order"),
    ("best", "probability that the best system comes first"),
    ("apart", "pairs told apart (expected)"),
)


def draw_plan(result: CampaignPlan, path: str | Path) -> None:
    """Write the picture of `plan_figure`."""
    require_figures(Path(path))
    save_figure(plan_figure(result), Path(path))


def plan_figure(result: CampaignPlan) -> Any:
    """Draw four panels against the number of items, hours above where they are known; the recommendation is marked."""
    figure, axes = new_figure(2, 2, width=5.2, height=3.6)
    for axis, (name, words) in zip(axes.ravel(), _PANELS, strict=True):
        _plan_panel(axis, result, name)
        axis.set_title(words, fontsize=10, loc="left")
        axis.set_xlabel("items judged")
    axes[0, 0].legend(frameon=False, fontsize=9)
    for axis in axes[0]:
        _add_hours_axis(axis, result)
    return figure


def _plan_panel(axis: Any, result: CampaignPlan, name: str) -> None:
    for place, method in enumerate(result.methods):
        points = result.curve(method)
        x, y = np.array([p.items for p in points]), np.array([getattr(p, name) for p in points])
        colour, dash = (GREY, "--") if place == 0 else (COLOURS[0], "-")
        axis.plot(x, y, color=colour, linestyle=dash, linewidth=1.8, marker="o", markersize=3, label=method)
        if name == "accuracy":
            half = 1.96 * np.array([p.accuracy_error for p in points])
            axis.fill_between(x, y - half, y + half, color=colour, alpha=0.2, linewidth=0)
    advised = result.recommendation.point
    value = getattr(advised, name)
    axis.axvline(advised.items, color=COLOURS[1], linewidth=0.9, linestyle=":")
    axis.plot(
        [advised.items],
        [value],
        marker="D",
        markersize=6,
        color=COLOURS[1],
        linestyle="none",
        clip_on=False,  # a probability of 100% lies on the edge
        label=f"recommended: {advised.items} items",
    )
    _set_limits(axis, result, name)


def _set_limits(axis: Any, result: CampaignPlan, name: str) -> None:
    """Set the limits of y: shares end at 1, counts at the number of pairs, widths start at 0."""
    if name == "width_difference":
        axis.set_ylim(bottom=0)
    elif name == "apart":
        axis.set_ylim(0, len(result.pairs) * 1.03)
        axis.axhline(len(result.pairs), color="#aaaaaa", linewidth=0.8)
        axis.text(
            axis.get_xlim()[0],
            0.99 * len(result.pairs),
            f" all {len(result.pairs)} pairs",
            fontsize=8,
            color="#777777",
            ha="left",
            va="top",
        )
    else:
        low = min(axis.get_ylim()[0], 0.98)
        axis.set_ylim(max(0.0, low), 1.005)
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")


def _add_hours_axis(axis: Any, result: CampaignPlan) -> None:
    """Add an axis of hours (and money), where known, from the recommended method's expected times."""
    points = result.curve(result.methods[-1])
    items, hours = np.array([p.items for p in points], dtype=float), np.array([p.hours for p in points])
    if not np.isfinite(hours).all() or len(points) < 2:
        return
    rate = float((hours / items).mean())
    top = axis.secondary_xaxis("top", functions=(lambda x: x * rate, lambda h: h / rate))
    top.spines["top"].set_visible(False)
    top.tick_params(labelsize=8)
    paid = points[-1].money / points[-1].hours if np.isfinite(points[-1].money) else None
    label = "hours" if paid is None else f"hours (at {paid:g} {result.currency} each)"
    top.set_xlabel(label, fontsize=8)


# -- Break-even: error against judgments per system, of people, of the perfect annotator, and the bias of each metric --

_MAX_LABELS = 24  # lines that can be labelled before labels cover each other
_MAX_NAMES = 3  # metrics of the same bias that are named before "and n more"


def draw_break_even(report: MetricReport, path: str | Path) -> None:
    """Write the picture of `break_even_figure`."""
    require_figures(Path(path))
    save_figure(break_even_figure(report), Path(path))


def break_even_figure(report: MetricReport) -> Any:
    """Draw one panel for each human score."""
    humans = list(dict.fromkeys(row.human for row in report.breakeven))
    if not humans:
        raise DataError("the report has no break-even to draw (see its notes); it needs two systems that people judged")
    figure, axes = new_figure(len(humans), 1, width=8.6, height=5.0)
    for axis, human in zip(axes.ravel(), humans, strict=True):
        points = [point for point in report.curves if point.human == human]
        rows = [row for row in report.breakeven if row.human == human and math.isfinite(row.bias)]
        _break_even_panel(axis, points, rows)
        axis.set_title(f"error in telling the better of two systems, against '{human}'", fontsize=10, loc="left")
    return figure


def _break_even_panel(axis: Any, points: list[ErrorCurvePoint], rows: list[Worth]) -> None:
    sizes = [point.judgments for point in points]
    axis.set_xscale("log")
    axis.plot(sizes, [point.people for point in points], color=COLOURS[0], linewidth=2.2, label="people", zorder=3)
    if any(math.isfinite(point.perfect) for point in points):
        axis.plot(
            sizes,
            [point.perfect for point in points],
            color=COLOURS[1],
            linewidth=2.2,
            linestyle="--",
            label="perfect annotator",
            zorder=3,
        )
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
    _label_biases(axis, drawn, sizes[-1], top)
    beyond = [row for bias, same in lines.items() if bias > top for row in same]
    counted = "judged items per system" if points[0].unit == "item" else "single judgments per system"
    axis.set_xlabel(counted + (f"\n(beyond the picture: {_describe_metrics(beyond)})" if beyond else ""))
    axis.set_ylabel("share of pairs of systems that are told wrongly")
    axis.legend(frameon=True, edgecolor="none", framealpha=1.0, loc="upper right")


def _label_biases(axis: Any, lines: dict[float, list[Worth]], right: float, top: float) -> None:
    """Name the lines at the right, evenly moved apart; of many, those that are farthest from each other."""
    biases = _thin_out(list(lines), _MAX_LABELS)
    step = 1.02 * top / (_MAX_LABELS + 1)
    places: list[float] = []
    for bias in biases:
        places.append(max(bias, places[-1] + step) if places else bias)
    shift = max(0.0, places[-1] - 0.98 * top) if places else 0.0
    for bias, place in zip(biases, places, strict=True):
        axis.annotate(
            _describe_metrics(lines[bias]),
            xy=(right, bias),
            xytext=(right * 1.25, place - shift),
            fontsize=7.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.6, "relpos": (0, 0.5)},
        )


def _thin_out(values: list[float], limit: int) -> list[float]:
    """Return at most `limit` of ascending values, with both ends: values with the closest neighbours are dropped.

    >>> _thin_out([0.0, 0.1, 0.11, 0.5], 3)
    [0.0, 0.11, 0.5]
    """
    thinned = list(values)
    while len(thinned) > limit:
        gaps = [thinned[index + 1] - thinned[index - 1] for index in range(1, len(thinned) - 1)]
        thinned.pop(1 + gaps.index(min(gaps)))
    return thinned


def _describe_metrics(rows: list[Worth]) -> str:
    names = ", ".join(row.metric for row in rows[:_MAX_NAMES])
    more = f" and {len(rows) - _MAX_NAMES} more" if len(rows) > _MAX_NAMES else ""
    biases = dict.fromkeys(f"{row.bias:.2f}" for row in (rows[0], rows[-1]))
    return f"{' to '.join(biases)}  {names}{more}"
