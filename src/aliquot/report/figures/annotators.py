"""Annotators: the map of agreement of all pairs, their severity and spread, and what cleaning did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.agreement_result import Agreement, PairMatrix, pair_matrix
from aliquot.annotation.clean import Cleaned
from aliquot.errors import DataError
from aliquot.report.figures.style import (
    COLOURS,
    GREY,
    new_figure,
    require_figures,
    save_figure,
    shorten_label,
    wrap_title,
)
from aliquot.stats.arrays import FloatArray

MAX_NUMBERED = 15
"""Annotators up to which every cell shows its number."""
_MAX_NAMED = 60  # annotators up to which everybody's name is shown
_PALETTE = "cividis"  # looks the same to colour-blind readers, and turns into an even grey in print


def heatmap(result: Agreement, path: str | Path, *, measure: str | None = None, title: str | None = None) -> None:
    """Write the picture of `heat_figure`."""
    require_figures(Path(path))
    save_figure(heat_figure(result, measure=measure, title=title), Path(path))


def heat_figure(result: Agreement, *, measure: str | None = None, title: str | None = None) -> Any:
    """Draw the agreement of every pair of annotators, best-agreeing annotators first; grey where none is defined.

    `measure`: a column of `result.pairs`; by default kappa for labels, quadratic kappa for ordinal answers, Pearson's
    correlation otherwise.
    """
    matrix = pair_matrix(result, measure)
    if not np.isfinite(matrix.values).any():
        raise DataError(f"no pair of annotators has a defined {matrix.measure}; there is nothing to draw")
    return figure_of(matrix, title)


def figure_of(matrix: PairMatrix, title: str | None = None) -> Any:
    """Draw a heat map as a matplotlib figure."""
    import matplotlib as mpl  # noqa: PLC0415  (slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415  (slow to import)

    n = len(matrix.annotators)
    size = float(np.clip(2.2 + 0.48 * n, 4.0, 12.0))
    figure = Figure(figsize=(size + 1.0, size), layout="constrained")
    axes = figure.add_subplot()
    low, high = _colour_limits(matrix.values)
    palette = mpl.colormaps[_PALETTE].with_extremes(bad="0.85")
    image = axes.imshow(np.ma.masked_invalid(matrix.values), cmap=palette, vmin=low, vmax=high)
    figure.colorbar(image, ax=axes, label=matrix.words, shrink=0.8)
    _name_axes(axes, matrix)
    if n <= MAX_NUMBERED:
        _write_numbers(axes, matrix.values, (low, high))
    axes.set_title(title or f"Agreement of {n} annotators", fontsize=11)
    return figure


def _colour_limits(values: FloatArray) -> tuple[float, float]:
    """Return limits from 0 (or the lowest value below) to 1, the same for all pictures."""
    return min(0.0, float(np.floor(np.nanmin(values) * 10) / 10)), 1.0


def _name_axes(axes: Any, matrix: PairMatrix) -> None:
    n = len(matrix.annotators)
    axes.set_xlabel("annotator")
    axes.set_ylabel("annotator")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    if n > _MAX_NAMED:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    size = 9 if n <= 25 else 6
    names = [shorten_label(name) for name in matrix.annotators]
    axes.set_xticks(range(n), names, rotation=90 if n > 8 or max(map(len, names)) > 6 else 0, fontsize=size)
    axes.set_yticks(range(n), names, fontsize=size)


def _write_numbers(axes: Any, values: FloatArray, ends: tuple[float, float]) -> None:
    """Write each cell's value, black on bright cells and white on dark ones."""
    middle = ends[0] + 0.5 * (ends[1] - ends[0])
    for (row, column), value in np.ndenumerate(values):
        text, ink = _format_cell(value), "black" if not value < middle else "white"
        if row != column:
            axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)


def _format_cell(value: float) -> str:
    """Format with two decimals and no leading 0; a dash if undefined.

    >>> _format_cell(0.456), _format_cell(-0.001), _format_cell(-0.25), _format_cell(1.0), _format_cell(float("nan"))
    ('.46', '.00', '-.25', '1.00', '–')
    """
    return "–" if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("0.", ".")


# -- Severity and spread of each annotator ---------------------------------------------------------------------------

_MAX_ROWS = 80


def severity_figure(result: Agreement, title: str | None = None) -> Any:
    """Draw each annotator's severity with the noise of a judgment as a bar, and agreement with the others beside it."""
    rows = result.annotators.filter(pl.col("severity").is_not_null())
    if not rows.height:
        raise DataError("severity is not known: it needs outputs that several annotators judged with numbers")
    rows = rows.sort("severity", "annotator")
    if rows.height > _MAX_ROWS:  # both ends are what people look for
        rows = pl.concat([rows.head(_MAX_ROWS // 2), rows.tail(_MAX_ROWS // 2)])
    names, severity = rows["annotator"].to_list(), rows["severity"].to_numpy()
    noise = rows["noise"].fill_null(0.0).to_numpy()
    figure, axes = new_figure(1, 2, width=4.6, height=float(np.clip(1.2 + 0.2 * len(names), 2.4, 20.0)))
    left, right = axes[0]
    heights = np.arange(len(names))
    left.hlines(heights, severity - noise, severity + noise, color=COLOURS[5], linewidth=3)
    left.plot(severity, heights, "o", color=COLOURS[0], markersize=5, linestyle="none")
    left.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    left.set_xlabel("severity (left: scores lower); bar: noise of one judgment")
    right.barh(heights, rows["pearson"].fill_null(0.0).to_numpy(), color=COLOURS[2], height=0.7)
    right.set_xlabel("correlation with the mean of the others")
    for axis, labels in ((left, [shorten_label(name) for name in names]), (right, [""] * len(names))):
        axis.set_yticks(heights, labels, fontsize=8 if len(names) <= 40 else 6)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.tick_params(axis="y", length=0)
        axis.grid(visible=False, axis="y")
    left.set_title(wrap_title(title or f"{result.annotators.height} annotators", 60), fontsize=10, loc="left")
    return figure


# -- Cleaning ----------------------------------------------------------------------------------------------------------


def cleaning_figure(cleaned: Cleaned) -> Any:
    """Draw how many judgments each step marked, and what that does to every system's score."""
    steps = [step for step in cleaned.steps if step.applied]
    systems = cleaned.systems.filter(pl.col("before").is_not_null() & pl.col("after").is_not_null())
    rows = max(len(steps), systems.height, 3)
    figure, axes = new_figure(1, 2, width=5.0, height=float(np.clip(1.2 + 0.24 * rows, 2.6, 20.0)))
    left, right = axes[0]
    left.barh(range(len(steps)), [step.marked for step in steps], color=COLOURS[1], height=0.6)
    left.set_yticks(range(len(steps)), [shorten_label(step.step) for step in steps], fontsize=8)
    left.set_ylim(max(len(steps), 1) - 0.5, -0.5)
    left.set_xlabel("judgments marked")
    left.set_title(f"{cleaned.counts['marked']:,} of {cleaned.counts['answers']:,} marked", fontsize=10, loc="left")
    heights = np.arange(systems.height)
    before, after = systems["before"].to_numpy(), systems["after"].to_numpy()
    right.hlines(heights, before, after, color="#999999", linewidth=1.2)
    right.plot(
        before, heights, "o", markerfacecolor="white", color=GREY, markersize=5, linestyle="none", label="before"
    )
    right.plot(after, heights, "D", color=COLOURS[0], markersize=5, linestyle="none", label="after")
    right.set_yticks(heights, [shorten_label(name) for name in systems["system"]], fontsize=8)
    right.set_ylim(max(systems.height, 1) - 0.5, -0.5)
    right.set_xlabel("mean score of a system")
    right.legend(frameon=True, edgecolor="none", fontsize=8)
    for axis in (left, right):
        axis.grid(visible=False, axis="y")
        axis.locator_params(axis="x", nbins=5)
    return figure
