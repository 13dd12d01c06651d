"""Systems: estimates with intervals (a forest plot), the matrix of all pairs, win rates and Bradley-Terry scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from aliquot.annotation.preference_result import Comparison
from aliquot.core import escape
from aliquot.errors import DataError
from aliquot.estimation.estimate_result import Estimates
from aliquot.report.figures.style import COLOURS, GREY, new_figure, shorten_label, wrap_title
from aliquot.stats.arrays import FloatArray

_LINE = 0.24  # inches of a row
_MAX_NUMBERED = 16  # systems up to which every cell of the matrix shows its number
_CLUSTERS = (COLOURS[0], COLOURS[1])


def forest_figure(result: Estimates, title: str | None = None) -> Any:
    """Draw every system's estimate with its interval, best first; colour and marker change with the cluster."""
    rows = [row for row in result.systems if row.cluster is not None and math.isfinite(row.estimate)]
    if not rows:
        raise DataError("no system was judged; there is nothing to draw")
    figure, axis = _rows_figure([row.system for row in rows])
    ends = [(row.low, row.estimate, row.high) for row in rows]
    _draw_intervals(axis, ends, [int(row.cluster or 0) for row in rows])
    axis.set_xlabel(f"estimated mean over {result.population:,} items, {result.level:.0%} interval")
    axis.set_title(
        wrap_title(title or f"{result.judged:,} of {result.population:,} items judged", 70), fontsize=10, loc="left"
    )
    return figure


def preference_figure(result: Comparison, title: str | None = None) -> Any:
    """Draw win rates and Bradley-Terry scores with their intervals, best system first."""
    rows = [row for row in result.systems if math.isfinite(row.win_rate)]
    if not rows:
        raise DataError("no system was compared; there is nothing to draw")
    names, clusters = [row.system for row in rows], [row.cluster for row in rows]
    figure, axes = new_figure(1, 2, width=4.6, height=_figure_height(len(rows)))
    _name_rows(axes[0, 0], names)
    _name_rows(axes[0, 1], [""] * len(rows))
    _draw_intervals(axes[0, 0], [(row.low, row.win_rate, row.high) for row in rows], clusters)
    axes[0, 0].axvline(0.5, color=GREY, linewidth=0.8, linestyle=":")
    axes[0, 0].xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    axes[0, 0].set_xlabel(f"win rate, {result.level:.0%} interval")
    _draw_intervals(axes[0, 1], [(row.score_low, row.score, row.score_high) for row in rows], clusters)
    axes[0, 1].axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    axes[0, 1].set_xlabel("Bradley-Terry score")
    head = title or f"{result.choices:,} choices on {result.items:,} items"
    axes[0, 0].set_title(wrap_title(head, 60), fontsize=10, loc="left")
    return figure


def _figure_height(rows: int) -> float:
    return float(np.clip(1.3 + _LINE * rows, 2.2, 30.0))


def _rows_figure(names: Sequence[str]) -> tuple[Any, Any]:
    figure, axes = new_figure(width=7.0, height=_figure_height(len(names)))
    _name_rows(axes[0, 0], names)
    return figure, axes[0, 0]


def _name_rows(axis: Any, names: Sequence[str]) -> None:
    axis.set_yticks(range(len(names)), [shorten_label(name) for name in names], fontsize=9)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")


def _draw_intervals(axis: Any, ends: Sequence[tuple[float, float, float]], clusters: Sequence[int]) -> None:
    """Draw one interval per row; clusters alternate in colour and marker, with a line between them."""
    for height, ((low, middle, high), cluster) in enumerate(zip(ends, clusters, strict=True)):
        colour, marker = _CLUSTERS[cluster % 2], "os"[cluster % 2]
        if math.isfinite(low) and math.isfinite(high):
            axis.plot([low, high], [height, height], color=colour, linewidth=1.6, marker="|", markersize=6)
        axis.plot([middle], [height], color=colour, marker=marker, markersize=5, linestyle="none")
        if height and clusters[height - 1] != cluster:
            axis.axhline(height - 0.5, color="#999999", linewidth=0.7)


# -- All pairs -------------------------------------------------------------------------------------------------------


def pairs_figure(result: Estimates, title: str | None = None) -> Any:
    """Draw p-values of all pairs as a square: dark where the row's system is better than the column's."""
    import matplotlib as mpl  # noqa: PLC0415  (slow to import)

    rows = [row for row in result.systems if row.cluster is not None]
    if len(rows) < 2:
        raise DataError("a matrix of pairs needs two judged systems")
    square, difference = _pair_matrices(result, [row.system for row in rows])
    size = float(np.clip(1.8 + 0.42 * len(rows), 3.6, 14.0))
    figure, axes = new_figure(width=size + 1.6, height=size)
    axis = axes[0, 0]
    levels = [0.0, 0.001, 0.01, 0.05, 1.0]
    shades = mpl.colors.ListedColormap(["#0b4a7d", "#3d82b8", "#a9cbe4", "#f4f4f4"]).with_extremes(bad="1.0")
    image = axis.imshow(np.ma.masked_invalid(square), cmap=shades, norm=mpl.colors.BoundaryNorm(levels, shades.N))
    bar = figure.colorbar(image, ax=axis, shrink=0.7, spacing="uniform", label="p, adjusted for all pairs")
    bar.ax.set_yticks(levels, ["0", ".001", ".01", ".05", "1"])
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.set_yticks(
        range(len(rows)), [f"{index + 1}  {shorten_label(row.system)}" for index, row in enumerate(rows)], fontsize=9
    )
    axis.set_xticks(range(len(rows)), [str(index + 1) for index in range(len(rows))], fontsize=9)
    axis.xaxis.tick_top()
    if len(rows) <= _MAX_NUMBERED:
        _write_differences(axis, square, difference)
    axis.set_xlabel(
        wrap_title(title or "difference of the row's mean to the column's; dark: told apart", 70), fontsize=9
    )
    return figure


def _pair_matrices(result: Estimates, systems: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Return matrices of p-values and differences above the diagonal, where rows are better than columns."""
    place = {name: index for index, name in enumerate(systems)}
    p, difference = (np.full((len(systems), len(systems)), np.nan) for _ in range(2))
    for pair in result.pairs:
        if pair.a in place and pair.b in place:
            p[place[pair.a], place[pair.b]], difference[place[pair.a], place[pair.b]] = pair.p_adjusted, pair.difference
    return p, difference


def _write_differences(axis: Any, square: FloatArray, difference: FloatArray) -> None:
    largest = float(np.nanmax(np.abs(difference), initial=0.0))
    places = 1 if largest >= 10 else 2 if largest >= 0.2 else 3
    for (row, column), p in np.ndenumerate(square):
        if math.isfinite(p):
            axis.text(
                column,
                row,
                escape.mathtext(f"{difference[row, column]:.{places}f}"),
                ha="center",
                va="center",
                fontsize=7,
                color="white" if p < 0.01 else "black",
            )
