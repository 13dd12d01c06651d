"""Curves of a replay: a measure against the budget, a line for each method, a band for random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from aliquot.metaeval.measures import MEASURES
from aliquot.report.figures import COLOURS, DASHES, new_figure, require_figures, save_figure
from aliquot.simulate.methods import BASELINE
from aliquot.simulate.result import Simulation
from aliquot.simulate.units import Cell

_COLUMNS = 3


def draw_curves(result: Simulation, measure: str, path: Path) -> None:
    """Draw one panel for each set; lines are labelled at their ends, colours and dashes differ."""
    require_figures(path)
    sets = list(dict.fromkeys(cell.data for cell in result.cells))
    columns = min(_COLUMNS, len(sets))
    rows = -(-len(sets) // columns)
    figure, axes = new_figure(rows, columns, width=7.0 if columns == 1 else 5.2)
    for axis, data in zip(axes.ravel(), sets, strict=False):
        _panel(axis, [cell for cell in result.cells if cell.data == data and cell.asked], measure)
        axis.set_title(data, fontsize=10, loc="left")
    for axis in axes.ravel()[len(sets) :]:
        axis.set_visible(False)
    save_figure(figure, path)


def _panel(axis: Any, cells: list[Cell], measure: str) -> None:
    against = MEASURES[measure].against
    methods = [m for m in dict.fromkeys(cell.method for cell in cells) if m != BASELINE or measure == against]
    ends = []
    for place, method in enumerate([BASELINE, *[m for m in methods if m != BASELINE]]):
        wanted = against if method == BASELINE else measure
        line = sorted((c for c in cells if (c.method, c.measure) == (method, wanted)), key=lambda c: c.share)
        if not line:
            continue
        x, y = np.array([100 * c.share for c in line]), np.array([c.value for c in line])
        colour = "#555555" if method == BASELINE else COLOURS[(place - 1) % (len(COLOURS) - 1)]
        dash = "-" if method == BASELINE else DASHES[((place - 1) // 2 + place - 1) % len(DASHES)]
        axis.plot(x, y, color=colour, linestyle=dash, linewidth=1.8, marker="o", markersize=3, label=method)
        if method == BASELINE and line[0].repeats > 1:
            half = stats.t.ppf(0.975, line[0].repeats - 1) * np.array([c.error for c in line])
            axis.fill_between(x, y - half, y + half, color=colour, alpha=0.25, linewidth=0)
        ends.append((float(y[-1]), float(x[-1]), f"{method} ({wanted})" if wanted != measure else method, colour))
    _label_ends(axis, ends)
    axis.set_xlabel("judged, % of the items")
    axis.set_ylabel(f"{measure}: {MEASURES[measure].about.split(';')[0]}", fontsize=8)


def _label_ends(axis: Any, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each line's name beside its end, moved apart where they would cover each other."""
    if not ends:
        return
    low, high = axis.get_ylim()
    step = (high - low) * 0.055
    places: list[float] = []
    for value, _, _, _ in sorted(ends):
        places.append(max(value, places[-1] + step) if places else value)
    shift = max(0.0, places[-1] - high)
    for (value, x, name, colour), place in zip(sorted(ends), places, strict=True):
        axis.annotate(
            name, xy=(x, value), xytext=(x + 1.5, place - shift), fontsize=8, color=colour, va="center",
            annotation_clip=False,
        )  # fmt: skip
    longest = max(len(name) for _, _, name, _ in ends)
    left, right = axis.get_xlim()
    axis.set_xticks([tick for tick in axis.get_xticks() if left <= tick <= right])
    axis.set_xlim(left, right + (right - left) * 0.016 * longest)
