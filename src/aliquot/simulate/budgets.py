"""Budgets of a replay: shares or numbers of items, as lists or ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.errors import OptionError

DEFAULT = "5%:50%:10"
_BELOW = (0.3, 0.5, 0.7)
_ABOVE = (0.65, 0.8, 1.0)


@dataclass(frozen=True)
class Point:
    """One budget: as it was written (0.05 for 5%, 50 for 50 items) and as a share of this set."""

    written: float
    share: float
    asked: bool = True


def parse_budgets(text: str | Sequence[float | str], population: int, *, cost: bool = False) -> list[Point]:
    """Read "5%:50%:10" (from, to, how many), "5%,10%,20%", "20,50" or a list of the same.

    >>> [point.share for point in parse_budgets("10%:30%:3", 50)]
    [0.1, 0.2, 0.3]
    >>> parse_budgets([20, "50%"], 40)[0]
    Point(written=20.0, share=0.5, asked=True)
    """
    parts = [str(part) for part in text] if not isinstance(text, str) else text.split(",")
    points = [point for part in parts for point in _range(part.strip(), population, cost=cost)]
    return sorted(points, key=lambda point: point.share)


def _range(text: str, population: int, *, cost: bool) -> list[Point]:
    ends = text.split(":")
    if len(ends) == 1:
        return [_point(text, population, cost=cost)]
    if len(ends) != 3 or not ends[2].strip().isdigit() or int(ends[2]) < 1:
        raise OptionError(f"--budgets '{text}': write from:to:how-many, for instance {DEFAULT}, or a list 5%,10%,20%")
    low, high = (_point(end.strip(), population, cost=cost) for end in ends[:2])
    shares = np.linspace(low.share, high.share, int(ends[2]))
    written = np.linspace(low.written, high.written, int(ends[2]))
    if (low.written < 1) != (high.written <= 1):
        raise OptionError(f"--budgets '{text}': both ends must be shares (5%) or both numbers of items")
    return [Point(round(float(w), 6), round(float(s), 9)) for w, s in zip(written, shares, strict=True)]


def _point(text: str, population: int, *, cost: bool) -> Point:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise OptionError(f"--budgets '{text}': write shares (5%) or numbers of items (50)") from None
    share = number / 100 if text.endswith("%") else number / population
    if cost and not text.endswith("%"):
        raise OptionError(f"--budgets '{text}': with --cost give shares of the whole cost, for instance 10%")
    if not 0 < share <= 1 + 1e-9:
        raise OptionError(f"--budgets '{text}': must lie between 0 and all {population} items")
    return Point(round(number / 100, 9) if text.endswith("%") else number, min(share, 1.0))


def with_parity_points(points: Sequence[Point], population: int) -> list[Point]:
    """Add budgets below and above those asked for, so that better and worse methods can be told how much so.

    >>> [round(point.share, 3) for point in with_parity_points([Point(0.1, 0.1), Point(0.5, 0.5)], 100)]
    [0.03, 0.05, 0.07, 0.1, 0.5, 0.65, 0.8, 1.0]
    """
    low, high = points[0].share, points[-1].share
    below = [low * part for part in _BELOW if low * part * population >= 2]
    above = [share for share in _ABOVE if share > high * 1.05]
    extra = [Point(share, share, asked=False) for share in [*below, *above]]
    return sorted([*points, *extra], key=lambda point: point.share)


def dense_points(points: Sequence[Point], population: int, most: int = 120) -> list[Point]:
    """For methods that need one replay only: a fine grid, every number of items where there are few.

    >>> len(dense_points([Point(0.5, 0.5)], 30))
    29
    """
    counts = np.unique(np.round(np.geomspace(2, population, min(most, population - 1))).astype(int))
    if population - 1 <= most:
        counts = np.arange(2, population + 1)
    taken = {round(point.share * population) for point in points}
    extra = [Point(k / population, k / population, asked=False) for k in counts.tolist() if k not in taken]
    return sorted([*points, *extra], key=lambda point: point.share)
