"""A heat map of the agreement between all pairs of annotators."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from aliquot.annotation.agreement_result import Agreement, PairMatrix, pair_matrix
from aliquot.errors import DataError, MissingExtraError, OptionError
from aliquot.io.files import write_bytes
from aliquot.stats.arrays import FloatArray

NUMBERS = 15
"""Annotators up to which every cell shows its number."""
_NAMES = 60  # annotators up to which everybody's name is shown
_ENDINGS = (".svg", ".png", ".pdf")
_PALETTE = "cividis"  # looks the same to colour-blind readers, and turns into an even grey in print


def heatmap(result: Agreement, path: str | Path, *, measure: str | None = None, title: str | None = None) -> None:
    """Draw the agreement of every pair of annotators, best-agreeing annotators first; grey where none is defined.

    Args:
        result: what `agreement` gave.
        path: where to write, as .svg, .png or .pdf.
        measure: a column of `result.pairs`; by default kappa for labels, quadratic kappa for ordinal answers, Pearson's
            correlation otherwise.
        title: above the picture.
    """
    path = Path(path)
    require_drawable(path)
    heat = pair_matrix(result, measure)
    if not np.isfinite(heat.values).any():
        raise DataError(f"no pair of annotators has a defined {heat.measure}; there is nothing to draw")
    write_bytes(path, _drawn(heat, title, path.suffix.lower()))


def require_drawable(path: Path) -> None:
    """Refuse a picture that cannot be drawn before any work is done."""
    if path.suffix.lower() not in _ENDINGS:
        raise OptionError(f"{path}: unknown ending for a picture; use .svg, .png or .pdf")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a heat map needs matplotlib: pip install 'aliquot[report]'")


def _drawn(heat: PairMatrix, title: str | None, ending: str) -> bytes:
    """The bytes of the picture; a fixed salt and no date make the same result the same file."""
    import matplotlib as mpl  # noqa: PLC0415  (an extra, and slow to import)

    drawn = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "aliquot", "font.size": 9}):
        figure_of(heat, title).savefig(drawn, format=ending[1:], dpi=150, metadata=_undated(ending))
    return drawn.getvalue()


def _undated(ending: str) -> dict[str, Any]:
    """Leave the date out."""
    return {"Date": None} if ending == ".svg" else {"CreationDate": None} if ending == ".pdf" else {}


def figure_of(heat: PairMatrix, title: str | None = None) -> Any:
    """Draw a heat map as a matplotlib figure."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    n = len(heat.annotators)
    size = float(np.clip(2.2 + 0.48 * n, 4.0, 12.0))
    figure = Figure(figsize=(size + 1.0, size), layout="constrained")
    axes = figure.add_subplot()
    low, high = _ends(heat.values)
    palette = mpl.colormaps[_PALETTE].with_extremes(bad="0.85")
    image = axes.imshow(np.ma.masked_invalid(heat.values), cmap=palette, vmin=low, vmax=high)
    figure.colorbar(image, ax=axes, label=heat.words, shrink=0.8)
    _name_axes(axes, heat)
    if n <= NUMBERS:
        _write_numbers(axes, heat.values, (low, high))
    axes.set_title(title or f"Agreement of {n} annotators")
    return figure


def _ends(values: FloatArray) -> tuple[float, float]:
    """From 0 (or the lowest, if people disagree more than by chance) to 1, so that pictures can be compared."""
    return min(0.0, float(np.floor(np.nanmin(values) * 10) / 10)), 1.0


def _name_axes(axes: Any, heat: PairMatrix) -> None:
    n = len(heat.annotators)
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
    axes.set_xticks(range(n), heat.annotators, rotation=90 if n > 8 or _longest(heat) > 6 else 0, fontsize=size)
    axes.set_yticks(range(n), heat.annotators, fontsize=size)


def _longest(heat: PairMatrix) -> int:
    return max(len(name) for name in heat.annotators)


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
