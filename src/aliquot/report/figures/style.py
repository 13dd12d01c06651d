"""One style of all pictures, and how they are written: matplotlib, Okabe and Ito's colours, the same bytes each time.

Colours and dashes can be told apart by colour-blind readers and in grey; text stays text in .svg and .pdf, whose fonts
are embedded. matplotlib is an extra and slow to import, so it is imported only when something is drawn.
"""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from aliquot.core import escape
from aliquot.errors import MissingExtraError, OptionError
from aliquot.io.writing import resolve_ending, write_bytes
from aliquot.stats.arrays import FloatArray

ENDINGS = (".svg", ".png", ".pdf")
_STREAMED = "figure.svg"  # what standard output gets
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
RANDOM, GREY = "random", "#555555"
MAX_LABEL = 34
"""Letters of a name on one line of a picture."""


def require_figures(path: Path) -> None:
    """Raise before any work if the ending is unknown or matplotlib is not installed."""
    if Path(resolve_ending(path, _STREAMED)).suffix.lower() not in ENDINGS:
        raise OptionError(f"{path}: unknown ending of a picture; use .svg, .png or .pdf")
    require_matplotlib()


def require_matplotlib() -> None:
    """Raise where matplotlib, which is an extra, is not installed."""
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415  (an extra, and slow to import)
    except ImportError:
        raise MissingExtraError("pictures need matplotlib; install it with: pip install 'aliquot[report]'") from None


def new_figure(rows: int = 1, columns: int = 1, *, width: float = 7.0, height: float = 4.2) -> tuple[Any, Any]:
    """Return a figure without a window, and its axes (rows x columns)."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (slow to import)

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.ravel():
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(visible=True, color="#e6e6e6", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, axes


def save_figure(figure: Any, path: Path) -> None:
    """Write the picture."""
    kind = Path(resolve_ending(path, _STREAMED)).suffix.lower().removeprefix(".")
    write_bytes(path, encode_figure(figure, kind))


def encode_figure(figure: Any, kind: str = "svg") -> bytes:
    """Return the picture as svg, pdf or png; a fixed salt and no date make the same numbers the same bytes."""
    import matplotlib as mpl  # noqa: PLC0415  (an extra, and slow to import)

    buffer = io.BytesIO()
    stamp = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}.get(kind, {})
    with mpl.rc_context({"svg.hashsalt": "aliquot", "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=150, metadata=stamp)
    return buffer.getvalue()


def choose_line_style(number: int) -> tuple[str, Any]:
    """Return colour and dash of a line; all combinations are used before one repeats."""
    colours = COLOURS[:-1]
    return colours[number % len(colours)], DASHES[(number + number // len(colours)) % len(DASHES)]


def separate_labels(centres: FloatArray, sizes: FloatArray) -> FloatArray:
    """Move ascending centres in [0, 1] as little as possible so that labels of these sizes do not overlap.

    >>> separate_labels(np.array([0.5, 0.5]), np.array([0.2, 0.2])).round(3).tolist()
    [0.4, 0.6]
    """
    from sklearn.isotonic import isotonic_regression  # noqa: PLC0415  (slow to import)

    if not len(centres):
        return centres
    # Centre i lies at least (size i-1 + size i) / 2 above centre i-1: less these steps, centres must only not fall.
    steps = np.concatenate([[0.0], np.cumsum((sizes[1:] + sizes[:-1]) / 2)])
    lowest, highest = sizes[0] / 2, 1.0 - sizes[-1] / 2 - steps[-1]
    bounds = {"y_min": lowest, "y_max": highest} if lowest <= highest else {}
    return np.asarray(isotonic_regression(centres - steps, **bounds) + steps, dtype=np.float64)


def shorten_label(name: object, letters: int = MAX_LABEL) -> str:
    """Return a name for a picture: escaped, on one line, its middle cut out where it is longer.

    >>> shorten_label("a" * 20 + "b" * 20, 9)
    'aaaa…bbbb'
    """
    text = escape.one_line(str(name))
    if len(text) > letters:
        half = (letters - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return escape.mathtext(text)


def wrap_title(text: str, width: int) -> str:
    """Wrap a title to lines of at most `width` letters."""
    return escape.mathtext(textwrap.fill(text, width))
