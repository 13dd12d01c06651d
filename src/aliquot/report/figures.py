"""What all pictures share: matplotlib if it is there, colours for every eye, files written whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from aliquot.data.files import write_bytes
from aliquot.errors import MissingExtraError, OptionError

ENDINGS = (".svg", ".png", ".pdf")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's palette, which colour-blind people can tell apart."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def require_figures(path: Path) -> None:
    """Refuse, before any work, an ending that cannot be drawn or a machine without matplotlib."""
    if path.suffix.lower() not in ENDINGS:
        raise OptionError(f"{path}: unknown ending of a picture; use {', '.join(ENDINGS)}")
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415  (an extra, and slow to import)
    except ImportError:
        raise MissingExtraError("pictures need matplotlib; install it with: pip install 'aliquot[report]'") from None


def new_figure(rows: int = 1, columns: int = 1, *, width: float = 7.0, height: float = 4.2) -> tuple[Any, Any]:
    """A figure and its axes (rows x columns), plain, without a window."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.ravel():
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(visible=True, color="#e6e6e6", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, axes


def save_figure(figure: Any, path: Path) -> None:
    """Write the picture whole or not at all; the same numbers give the same file."""
    buffer = io.BytesIO()
    import matplotlib as mpl  # noqa: PLC0415

    kind = path.suffix.lower().removeprefix(".")
    stamp = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with mpl.rc_context({"svg.hashsalt": "aliquot", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=kind, dpi=150, metadata=stamp)
    write_bytes(path, buffer.getvalue())
