"""Drawings of the report page: small inline SVG whose x positions are shares of the width.

They stretch with the page, from a phone to paper, without stretching letters or dots; colours are classes that the
style sheet sets, so that dark mode, print and grey work; text stays text. matplotlib's pictures (`figures`) are files
of a fixed size and colour, and would be most of the page's bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from aliquot.core import escape
from aliquot.core.written import number

_ROW = 22  # height of a bar in a table's row, in pixels
_MOST_TICKS = 5


@dataclass(frozen=True)
class Axis:
    """A line of numbers: its ends and where it is labelled."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> str:
        """Where a value lies, as a share of the width; 2% are left free at both ends.

        >>> Axis(0.0, 10.0, ()).at(5.0)
        '50%'
        """
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return f"{round(2 + 96 * min(1.0, max(0.0, share)), 2):g}%"


def axis_of(values: Sequence[float], *, include: Sequence[float] = (), tight: bool = False) -> Axis:
    """Return an axis for these values with round ticks, the outer ones at its ends; `tight` ends with the values.

    >>> axis_of([0.2, 3.9]).ticks, axis_of([0.2, 3.9], tight=True).ticks
    ((0.0, 1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0))
    """
    known = [value for value in (*values, *include) if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = low - (abs(low) * 0.05 or 0.5), high + (abs(high) * 0.05 or 0.5)
    step = _round_step((high - low) / _MOST_TICKS)
    first, last = math.floor(low / step), math.ceil(high / step)
    inside = [at * step for at in range(first, last + 1)]
    ticks = tuple(round(tick, 12) for tick in inside)
    if tight:
        return Axis(low, high, tuple(tick for tick in ticks if low <= tick <= high))
    return Axis(inside[0], inside[-1], ticks)


def _round_step(raw: float) -> float:
    size = 10.0 ** math.floor(math.log10(raw))
    return next((factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= raw * 0.999), 10 * size)


def axis_labels(axis: Axis) -> Markup:
    """The labels of an axis, for the head of a column of bars."""
    texts = []
    for tick in axis.ticks:
        anchor = "start" if tick == axis.low else "end" if tick == axis.high else "middle"
        texts.append(f'<text x="{axis.at(tick)}" y="12" text-anchor="{anchor}">{_tick(tick)}</text>')
    return _svg(texts, 16, "axis")


def interval(axis: Axis, low: float, middle: float, high: float, kind: str = "") -> Markup:
    """An interval with a dot at the estimate, over faint lines at the ticks."""
    parts = [_grid(axis)]
    if all(math.isfinite(value) for value in (low, high)):
        y = _ROW / 2
        parts.append(f'<line class="whisker" x1="{axis.at(low)}" x2="{axis.at(high)}" y1="{y:g}" y2="{y:g}"/>')
        parts += [_upright("whisker", axis.at(end), y - 4, y + 4) for end in (low, high)]
    if math.isfinite(middle):
        parts.append(f'<circle cx="{axis.at(middle)}" cy="{_ROW / 2:g}" r="4.5"/>')
    return _svg(parts, _ROW, f"bar {kind}".strip())


def _grid(axis: Axis) -> str:
    return "".join(_upright("grid", axis.at(tick), 0, _ROW) for tick in axis.ticks)


def _upright(kind: str, x: str, top: float, bottom: float) -> str:
    return f'<line class="{kind}" x1="{x}" x2="{x}" y1="{top:g}" y2="{bottom:g}"/>'


def shares(*values: float) -> Markup:
    """One bar below the other for each share of 1; the first is the one that counts."""
    height = 8
    bars = [
        f'<rect class="share s{at + 1}" x="0" y="{at * (height + 2)}" width="{100 * min(1.0, max(0.0, value)):.2f}%" '
        f'height="{height}"/>'
        for at, value in enumerate(values)
        if math.isfinite(value)
    ]
    return _svg(bars, len(values) * (height + 2), "bar")


def stacked(parts: Sequence[float], whole: float) -> Markup:
    """Parts of a whole side by side, with patterns that differ in grey, too."""
    at, bars = 0.0, []
    for number_, part in enumerate(parts, start=1):
        size = max(0.0, part) / whole if whole > 0 and math.isfinite(part) else 0.0
        bars.append(f'<rect class="part p{number_}" x="{100 * at:.2f}%" y="3" width="{100 * size:.2f}%" height="16"/>')
        at += size
    return _svg(bars, _ROW, "bar")


def dots(points: Sequence[tuple[float, float]], x: str, y: str, *, height: int = 220) -> Markup:
    """A map of points with labelled axes; `x` and `y` say what they show."""
    across, up = axis_of([p[0] for p in points]), axis_of([p[1] for p in points], include=(0.0,))
    top, bottom = 8, height - 36

    def level(value: float) -> float:
        return bottom - (bottom - top) * (value - up.low) / (up.high - up.low)

    parts = [f'<line class="grid" x1="9%" x2="100%" y1="{level(t):.1f}" y2="{level(t):.1f}"/>' for t in up.ticks]
    parts += [f'<text x="8%" y="{level(t) + 4:.1f}" text-anchor="end">{_tick(t)}</text>' for t in up.ticks]
    for tick in across.ticks:
        parts.append(f'<text x="{_inner(across, tick)}" y="{bottom + 16}" text-anchor="middle">{_tick(tick)}</text>')
    parts.append(f'<text class="label" x="54%" y="{height - 4}" text-anchor="middle">{escape.html(x)}</text>')
    parts += [f'<circle class="dot" cx="{_inner(across, a)}" cy="{level(b):.1f}" r="3"/>' for a, b in points]
    return _svg(parts, height, "map", label=f"{y} against {x}")


def _inner(axis: Axis, value: float) -> str:
    """Where a value lies right of the labels of the other axis."""
    share = (value - axis.low) / (axis.high - axis.low)
    return f"{10 + 88 * share:.2f}%"


def lines(
    curves: Sequence[tuple[str, Sequence[tuple[float, float]]]], x: str, y: str, *, mark: float | None = None
) -> Markup:
    """Curves of shares (0 to 1) against a number, each named at the right of the legend below the picture."""
    points = [point for _, curve in curves for point in curve if math.isfinite(point[1])]
    across = axis_of([p[0] for p in points], include=(0.0,))
    low = math.floor(10 * min(p[1] for p in points)) / 10
    up = axis_of([low, 1.0])
    height, top, bottom = 240, 8, 240 - 36

    def share(value: float) -> float:
        return 100 * (value - up.low) / (up.high - up.low)

    def level(value: float) -> float:
        return bottom - (bottom - top) * share(value) / 100

    parts = [f'<line class="grid" x1="9%" x2="100%" y1="{level(t):.1f}" y2="{level(t):.1f}"/>' for t in up.ticks]
    parts += [f'<text x="8%" y="{level(t) + 4:.1f}" text-anchor="end">{100 * t:.0f}%</text>' for t in up.ticks]
    for tick in across.ticks:
        parts.append(f'<text x="{_inner(across, tick)}" y="{bottom + 16}" text-anchor="middle">{_tick(tick)}</text>')
    if mark is not None and across.low <= mark <= across.high:
        parts.append(
            f'<line class="mark" x1="{_inner(across, mark)}" x2="{_inner(across, mark)}" y1="{top}" y2="{bottom}"/>'
        )
    parts.append(f'<text class="label" x="54%" y="{height - 4}" text-anchor="middle">{escape.html(x)}</text>')
    # Percentages are not allowed in a polyline: an inner picture of 100 x 100 is stretched, its strokes are not.
    inner = []
    for at, (_, curve) in enumerate(curves, start=1):
        known = [(a, b) for a, b in curve if math.isfinite(b)]
        path = " ".join(
            f"{100 * (a - across.low) / (across.high - across.low):.2f},{100 - share(b):.2f}" for a, b in known
        )
        inner.append(f'<polyline class="curve c{at}" points="{path}"/>')
        parts += [
            f'<circle class="point c{at}" cx="{_inner(across, a)}" cy="{level(b):.1f}" r="3.5"/>' for a, b in known
        ]
    parts.append(
        f'<svg x="10%" y="{top}" width="88%" height="{bottom - top}" viewBox="0 0 100 100" '
        f'preserveAspectRatio="none" overflow="visible">{"".join(inner)}</svg>'
    )
    return _svg(parts, height, "curves", label=f"{y} against {x}")


def _tick(value: float) -> str:
    return f"{value:,.10g}" if abs(value) < 1e6 else number(value)


def _svg(parts: Sequence[str], height: float, kind: str, label: str = "") -> Markup:
    """A picture as wide as its place; one without a label repeats numbers that stand beside it."""
    seen = f'role="img" aria-label="{escape.html(label)}"' if label else 'aria-hidden="true"'
    # Every text that comes from outside went through escape.html above; the rest are numbers and our own names.
    return Markup(f'<svg class="{kind}" width="100%" height="{height:g}" {seen}>{"".join(parts)}</svg>')  # noqa: S704
