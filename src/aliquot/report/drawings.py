"""Drawings of the report page and of notebooks: small inline SVG whose x positions are shares of the width.

They stretch with the page, from a phone to paper, without stretching letters or dots; colours are classes that the
style sheet sets, so that dark mode, print and grey work; text stays text. matplotlib's pictures (`figures`) are files
of a fixed size and colour, and would be most of the page's bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aliquot.core import escape
from aliquot.core.escape import Html
from aliquot.core.written import format_number

_ROW_HEIGHT = 22  # of a bar in a table's row, in pixels
_MAX_TICKS = 5

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """A line of numbers: its ends and where it is labelled."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def to_share(self, value: float) -> float:
        """Return where a value lies between the ends, 0 to 1."""
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    def to_percent(self, value: float) -> str:
        """Return where a value lies, as a share of the width; 2% are left free at both ends.

        >>> Axis(0.0, 10.0, ()).to_percent(5.0)
        '50%'
        """
        return f"{round(2 + 96 * min(1.0, max(0.0, self.to_share(value))), 2):g}%"


def make_axis(values: Sequence[float], *, include: Sequence[float] = (), tight: bool = False) -> Axis:
    """Return an axis for these values with round ticks, the outer ones at its ends; `tight` ends with the values.

    >>> make_axis([0.2, 3.9]).ticks, make_axis([0.2, 3.9], tight=True).ticks
    ((0.0, 1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0))
    """
    finite = [value for value in (*values, *include) if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low == high:
        low, high = low - (abs(low) * 0.05 or 0.5), high + (abs(high) * 0.05 or 0.5)
    step = _round_step((high - low) / _MAX_TICKS)
    ticks = tuple(round(place * step, 12) for place in range(math.floor(low / step), math.ceil(high / step) + 1))
    if tight:
        return Axis(low, high, tuple(tick for tick in ticks if low <= tick <= high))
    return Axis(ticks[0], ticks[-1], ticks)


def _round_step(raw: float) -> float:
    size = 10.0 ** math.floor(math.log10(raw))
    return next((factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= raw * 0.999), 10 * size)


# -- Bars in a table -------------------------------------------------------------------------------------------------


def draw_axis(axis: Axis) -> Html:
    """Draw the labels of an axis, for the head of a column of bars."""
    texts = []
    for tick in axis.ticks:
        anchor = "start" if tick == axis.low else "end" if tick == axis.high else "middle"
        texts.append(f'<text x="{axis.to_percent(tick)}" y="12" text-anchor="{anchor}">{_format_tick(tick)}</text>')
    return _wrap_svg(texts, 16, "axis")


def draw_interval(axis: Axis, low: float, middle: float, high: float, kind: str = "") -> Html:
    """Draw an interval with a dot at the estimate, over faint lines at the ticks; undefined parts are left out.

    >>> "circle" in draw_interval(make_axis([0, 1]), float("nan"), float("nan"), 1.0)
    False
    """
    y = _ROW_HEIGHT / 2
    parts = [_draw_line("grid" if tick else "grid zero", axis.to_percent(tick), 0, _ROW_HEIGHT) for tick in axis.ticks]
    if math.isfinite(low) and math.isfinite(high):
        ends = axis.to_percent(low), axis.to_percent(high)
        parts.append(f'<line class="whisker" x1="{ends[0]}" x2="{ends[1]}" y1="{y:g}" y2="{y:g}"/>')
        parts += [_draw_line("whisker", end, y - 4, y + 4) for end in ends]
    if math.isfinite(middle):
        parts.append(f'<circle cx="{axis.to_percent(middle)}" cy="{y:g}" r="4.5"/>')
    return _wrap_svg(parts, _ROW_HEIGHT, f"bar {kind}".strip())


def _draw_line(kind: str, x: str, top: float, bottom: float) -> str:
    return f'<line class="{kind}" x1="{x}" x2="{x}" y1="{top:g}" y2="{bottom:g}"/>'


def draw_shares(*shares: float) -> Html:
    """Draw one bar below the other for each share of 1; the first is the one that counts."""
    height = 8
    bars = [
        f'<rect class="share s{place + 1}" x="0" y="{place * (height + 2)}" '
        f'width="{100 * min(1.0, max(0.0, share)):.2f}%" height="{height}"/>'
        for place, share in enumerate(shares)
        if math.isfinite(share)
    ]
    return _wrap_svg(bars, len(shares) * (height + 2), "bar")


def draw_parts(parts: Sequence[float], total: float) -> Html:
    """Draw the parts of a whole side by side; negative parts are left out, and what is beyond the whole is cut off."""
    start, bars = 0.0, []
    for place, part in enumerate(parts, start=1):
        size = min(max(0.0, part) / total, 1 - start) if total > 0 and math.isfinite(part) else 0.0
        bars.append(f'<rect class="part p{place}" x="{100 * start:.2f}%" y="3" width="{100 * size:.2f}%" height="16"/>')
        start += size
    return _wrap_svg(bars, _ROW_HEIGHT, "bar")


# -- Diagrams --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Frame:
    """The axes of a diagram; the lines of its grid and the labels are parts of its drawing."""

    across: Axis
    up: Axis
    height: int

    top = 8

    @property
    def bottom(self) -> int:
        return self.height - 36

    def place_x(self, value: float) -> str:
        """Return where a value lies right of the labels of the other axis."""
        return f"{10 + 88 * self.across.to_share(value):.2f}%"

    def place_y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * self.up.to_share(value)

    def draw_axes(self, label: str, write_tick: Callable[[float], str]) -> list[str]:
        parts = []
        for tick in self.up.ticks:
            y = self.place_y(tick)
            parts.append(f'<line class="grid" x1="9%" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="8%" y="{y + 4:.1f}" text-anchor="end">{write_tick(tick)}</text>')
        parts += [
            f'<text x="{self.place_x(tick)}" y="{self.bottom + 16}" text-anchor="middle">{_format_tick(tick)}</text>'
            for tick in self.across.ticks
        ]
        text = escape.html(label)
        return [*parts, f'<text class="label" x="54%" y="{self.height - 4}" text-anchor="middle">{text}</text>']

    def draw_dots(self, points: Sequence[Point], kind: str, radius: float) -> list[str]:
        return [
            f'<circle class="{kind}" cx="{self.place_x(x)}" cy="{self.place_y(y):.1f}" r="{radius:g}"/>'
            for x, y in points
        ]


def draw_points(points: Sequence[Point], x: str, y: str) -> Html:
    """Draw a map of points with labelled axes; `x` and `y` say what they show."""
    frame = _Frame(make_axis([p[0] for p in points]), make_axis([p[1] for p in points], include=(0.0,)), 220)
    parts = [*frame.draw_axes(x, _format_tick), *frame.draw_dots(points, "dot", 3)]
    return _wrap_svg(parts, frame.height, "map", label=f"{y} against {x}")


def draw_curves(curves: Sequence[Sequence[Point]], x: str, y: str, *, mark: float | None = None) -> Html:
    """Draw curves of shares (0 to 1) against a number, with an upright line at `mark`."""
    curves = [[point for point in curve if math.isfinite(point[1])] for curve in curves]
    points = [point for curve in curves for point in curve]
    across = make_axis([p[0] for p in points], include=(0.0,))
    frame = _Frame(across, make_axis([math.floor(10 * min(p[1] for p in points)) / 10, 1.0]), 240)
    parts = frame.draw_axes(x, lambda tick: f"{100 * tick:.0f}%")
    if mark is not None and across.low <= mark <= across.high:
        parts.append(_draw_line("mark", frame.place_x(mark), frame.top, frame.bottom))
    # Percentages are not allowed in a polyline: an inner picture of 100 x 100 is stretched, its strokes are not.
    inner = []
    for place, curve in enumerate(curves, start=1):
        path = " ".join(f"{100 * across.to_share(a):.2f},{100 - 100 * frame.up.to_share(b):.2f}" for a, b in curve)
        inner.append(f'<polyline class="curve c{place}" points="{path}"/>')
        parts += frame.draw_dots(curve, f"point c{place}", 3.5)
    parts.append(
        f'<svg x="10%" y="{frame.top}" width="88%" height="{frame.bottom - frame.top}" viewBox="0 0 100 100" '
        f'preserveAspectRatio="none" overflow="visible">{"".join(inner)}</svg>'
    )
    return _wrap_svg(parts, frame.height, "curves", label=f"{y} against {x}")


def _format_tick(value: float) -> str:
    return f"{value:,.10g}" if abs(value) < 1e6 else format_number(value)


def _wrap_svg(parts: Sequence[str], height: float, kind: str, label: str = "") -> Html:
    """Return a picture as wide as its place; one without a label repeats numbers that stand beside it."""
    role = f'role="img" aria-label="{escape.html(label)}"' if label else 'aria-hidden="true"'
    return Html(f'<svg class="{kind}" width="100%" height="{height:g}" {role}>{"".join(parts)}</svg>')
