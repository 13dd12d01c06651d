"""Curves of a replay: a measure against the budget, a line for each method, a band for random."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit
from sklearn.isotonic import isotonic_regression

from aliquot.errors import unknown_name
from aliquot.metaeval.measures import MEASURES
from aliquot.report.figures import COLOURS, DASHES, new_figure, require_figures, save_figure
from aliquot.simulate.methods import BASELINE
from aliquot.simulate.result import Simulation
from aliquot.simulate.units import Cell
from aliquot.stats.arrays import FloatArray

_COLUMNS = 3
_PLAIN = "#555555"
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
        return [_literal(part) for part in textwrap.wrap(self.name, _LETTERS)]


def _literal(text: str) -> str:
    """Keep matplotlib from reading dollars as mathematics."""
    return text.replace("$", r"\$")


def draw_curves(result: Simulation, measure: str, path: str | Path) -> None:
    """Draw one panel for each set; lines are labelled at their ends, colours and dashes differ."""
    path = Path(path)
    require_figures(path)
    measured = list(dict.fromkeys(cell.measure for cell in result.cells))
    if measure not in measured:
        raise unknown_name("measure", measure, measured, "it must be among those that were replayed")
    sets = list(dict.fromkeys(cell.data for cell in result.cells))
    panels = [lines_of([cell for cell in result.cells if cell.data == data and cell.asked], measure) for data in sets]
    columns = min(_COLUMNS, len(sets))
    widest = max((len(part) for lines in panels for line in lines for part in line.label), default=0)
    labels = max((len(line.label) for lines in panels for line in lines), default=0) * max(map(len, panels))
    width, height = _PANEL[0] + _LETTER * widest, max(_PANEL[1], 1.2 * _LINE * labels)
    figure, axes = new_figure(-(-len(sets) // columns), columns, width=width, height=height)
    for axis, data, lines in zip(axes.ravel(), sets, panels, strict=False):
        _panel(axis, lines, measure, height)
        axis.set_title(_literal(textwrap.fill(data, int(width / _LETTER / 1.3))), fontsize=10, loc="left")
    for axis in axes.ravel()[len(sets) :]:
        axis.set_visible(False)
    save_figure(figure, path)


def lines_of(cells: list[Cell], measure: str) -> list[Line]:
    """The lines of one panel, random first: what the others are compared with, which for spa_full is its spa."""
    against = MEASURES[measure].against
    if not any((cell.method, cell.measure) == (BASELINE, against) for cell in cells):
        against = measure  # it was not asked for
    lines = []
    for place, method in enumerate([BASELINE, *dict.fromkeys(c.method for c in cells if c.method != BASELINE)]):
        wanted = against if method == BASELINE else measure
        found = sorted((c for c in cells if (c.method, c.measure) == (method, wanted)), key=lambda c: c.share)
        if not found:
            continue
        freedom = np.maximum([c.repeats - 1 for c in found], 1)
        half = np.nan_to_num(stdtrit(freedom, 0.975) * np.array([c.error for c in found]))
        colour, dash = (_PLAIN, "-") if method == BASELINE else _look(place - 1)
        name = f"{method} ({wanted})" if wanted != measure else method
        x, y = np.array([100 * c.share for c in found]), np.array([c.value for c in found])
        lines.append(Line(name, x, y, half, colour, dash))
    return lines


def _look(number: int) -> tuple[str, Any]:
    """Colour and dash of a line; grey is random's. All pairs differ before the first comes again."""
    colours = COLOURS[:-1]
    return colours[number % len(colours)], DASHES[(number + number // len(colours)) % len(DASHES)]


def _panel(axis: Any, lines: list[Line], measure: str, height: float) -> None:
    for line in lines:
        axis.plot(line.x, line.y, color=line.colour, linestyle=line.dash, linewidth=1.8, marker="o", markersize=3)
        if line.colour == _PLAIN:
            axis.fill_between(line.x, line.y - line.half, line.y + line.half, color=_PLAIN, alpha=0.25, linewidth=0)
    axis.margins(x=0.02)
    _label_ends(axis, [line for line in lines if np.isfinite(line.y).any()], 0.8 * height)
    axis.set_xlabel("budget, % of judging everything")
    axis.set_ylabel(f"{measure}: {MEASURES[measure].about.split(';')[0]}", fontsize=8)


def _label_ends(axis: Any, lines: list[Line], inches: float) -> None:
    """Write each line's name to the right of its end, moved apart where they would cover each other."""
    low, high = axis.get_ylim()
    last = [np.flatnonzero(np.isfinite(line.y))[-1] for line in lines]
    lines_up = sorted(zip(lines, last, strict=True), key=lambda pair: pair[0].y[pair[1]])
    ends = np.array([(line.y[at] - low) / (high - low) for line, at in lines_up])
    places = apart(ends, np.array([1.2 * _LINE * len(line.label) / inches for line, _ in lines_up]))
    for (line, at), place in zip(lines_up, places.tolist(), strict=True):
        leader = {"arrowstyle": "-", "color": line.colour, "linestyle": line.dash, "linewidth": 0.9}
        axis.annotate(
            "\n".join(line.label), xy=(line.x[at], line.y[at]), xytext=(1.09, place), textcoords="axes fraction",
            fontsize=8, color=line.colour, va="center", annotation_clip=False,
            arrowprops={**leader, "relpos": (0.0, 0.5), "shrinkA": 1.0, "shrinkB": 3.0},
        )  # fmt: skip


def apart(wanted: FloatArray, sizes: FloatArray) -> FloatArray:
    """Centres in [0, 1], as near as can be to those wanted (ascending), of things that must not cover each other.

    >>> apart(np.array([0.5, 0.5]), np.array([0.2, 0.2])).round(3).tolist()
    [0.4, 0.6]
    """
    if not len(wanted):
        return wanted
    # Centre i lies at least (size i-1 + size i) / 2 above centre i-1: less these steps, centres must only not fall.
    steps = np.concatenate([[0.0], np.cumsum((sizes[1:] + sizes[:-1]) / 2)])
    lowest, highest = sizes[0] / 2, 1.0 - sizes[-1] / 2 - steps[-1]
    bounds = {"y_min": lowest, "y_max": highest} if lowest <= highest else {}
    return np.asarray(isotonic_regression(wanted - steps, **bounds) + steps, dtype=np.float64)
