"""A heat map of the agreement between all pairs of annotators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from aliquot.annotation.agreement_result import Agreement, PairMatrix, pair_matrix
from aliquot.errors import DataError
from aliquot.report.figures import require_figures, save_figure
from aliquot.stats.arrays import FloatArray

NUMBERS = 15
"""Annotators up to which every cell shows its number."""
_NAMES = 60  # annotators up to which everybody's name is shown
_PALETTE = "cividis"  # looks the same to colour-blind readers, and turns into an even grey in print


def heatmap(result: Agreement, path: str | Path, *, measure: str | None = None, title: str | None = None) -> None:
    """Draw the agreement of every pair of annotators, best-agreeing annotators first; grey where none is defined.

    `measure`: a column of `result.pairs`; by default kappa for labels, quadratic kappa for ordinal answers, Pearson's
    correlation otherwise.
    """
    path = Path(path)
    require_figures(path)
    matrix = pair_matrix(result, measure)
    if not np.isfinite(matrix.values).any():
        raise DataError(f"no pair of annotators has a defined {matrix.measure}; there is nothing to draw")
    save_figure(figure_of(matrix, title), path)


def figure_of(matrix: PairMatrix, title: str | None = None) -> Any:
    """Draw a heat map as a matplotlib figure."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    n = len(matrix.annotators)
    size = float(np.clip(2.2 + 0.48 * n, 4.0, 12.0))
    figure = Figure(figsize=(size + 1.0, size), layout="constrained")
    axes = figure.add_subplot()
    low, high = _ends(matrix.values)
    palette = mpl.colormaps[_PALETTE].with_extremes(bad="0.85")
    image = axes.imshow(np.ma.masked_invalid(matrix.values), cmap=palette, vmin=low, vmax=high)
    figure.colorbar(image, ax=axes, label=matrix.words, shrink=0.8)
    _name_axes(axes, matrix)
    if n <= NUMBERS:
        _write_numbers(axes, matrix.values, (low, high))
    axes.set_title(title or f"Agreement of {n} annotators", fontsize=11)
    return figure


def _ends(values: FloatArray) -> tuple[float, float]:
    """From 0 (or the lowest, if people disagree more than by chance) to 1, so that pictures can be compared."""
    return min(0.0, float(np.floor(np.nanmin(values) * 10) / 10)), 1.0


def _name_axes(axes: Any, matrix: PairMatrix) -> None:
    n = len(matrix.annotators)
    axes.set_xlabel("annotator")
    axes.set_ylabel("annotator")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    if n > _NAMES:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    size = 9 if n <= 25 else 6
    axes.set_xticks(range(n), matrix.annotators, rotation=90 if n > 8 or _longest(matrix) > 6 else 0, fontsize=size)
    axes.set_yticks(range(n), matrix.annotators, fontsize=size)


def _longest(matrix: PairMatrix) -> int:
    return max(len(name) for name in matrix.annotators)


def _write_numbers(axes: Any, values: FloatArray, ends: tuple[float, float]) -> None:
    """Dark ink on bright cells, white on dark ones."""
    middle = ends[0] + 0.5 * (ends[1] - ends[0])
    for (row, column), value in np.ndenumerate(values):
        text, ink = _short(value), "black" if not value < middle else "white"
        if row != column:
            axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)


def _short(value: float) -> str:
    """Two decimals without a leading 0; a dash where undefined.

    >>> _short(0.456), _short(-0.001), _short(-0.25), _short(1.0), _short(float("nan"))
    ('.46', '.00', '-.25', '1.00', '–')
    """
    return "–" if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("0.", ".")
