"""Budgets of a replay: shares or numbers of items, as lists or ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.errors import OptionError

DEFAULT = "5%:50%:10"
FEWEST = 2
"""One judged item has no spread: nothing can be said of its error."""
_MOST = 1000  # budgets in a range: more is a slip of the pen
_BELOW = (0.3, 0.5, 0.7)
_ABOVE = (0.65, 0.8, 1.0)


@dataclass(frozen=True)
class Point:
    """One budget: as it was written (0.05 for 5%, 50 for 50 items) and as a share of this set."""

    written: float
    share: float
    asked: bool = True


def parse_budgets(
    text: float | str | Sequence[float | str], population: int, *, cost: bool = False, of: str = "the set"
) -> list[Point]:
    """Read "5%:50%:10" (from, to, how many), "5%,10%,20%", "20,50" or a list of the same; ascending, each once.

    `of` names the set in messages.

    >>> [point.share for point in parse_budgets("10%:30%:3", 50)]
    [0.1, 0.2, 0.3]
    >>> parse_budgets([20, "50%"], 40)
    [Point(written=20.0, share=0.5, asked=True)]
    """
    if isinstance(text, int | float | np.integer):
        text = [float(text)]
    parts = [str(part) for part in text] if not isinstance(text, str) else text.split(",")
    if not parts:
        raise OptionError(f"--budgets is empty; write for instance {DEFAULT}, or a list 5%,10%,20%")
    points = [point for part in parts for point in _range(part.strip(), population, cost=cost, of=of)]
    once: dict[float, Point] = {}
    for point in sorted(points, key=lambda point: point.share):
        once.setdefault(round(point.share, 9), point)
    return list(once.values())


def _range(text: str, population: int, *, cost: bool, of: str) -> list[Point]:
    ends = [end.strip() for end in text.split(":")]
    if len(ends) == 1:
        return [_point(text, population, cost=cost, of=of)]
    if len(ends) != 3 or not ends[2].isdecimal() or not 1 <= int(ends[2]) <= _MOST:
        raise OptionError(f"--budgets '{text}': write from:to:how-many, for instance {DEFAULT}, or a list 5%,10%,20%")
    if ends[0].endswith("%") != ends[1].endswith("%"):
        raise OptionError(f"--budgets '{text}': both ends must be shares (5%) or both numbers of items")
    low, high = (_point(end, population, cost=cost, of=of) for end in ends[:2])
    written = np.linspace(low.written, high.written, int(ends[2]))
    if ends[0].endswith("%"):
        return [Point(round(w, 6), round(w, 9)) for w in written.tolist()]
    return [Point(float(round(w)), round(w) / population) for w in written.tolist()]


def _point(text: str, population: int, *, cost: bool, of: str) -> Point:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise OptionError(f"--budgets '{text}': write shares (5%) or numbers of items (50)") from None
    if text.endswith("%"):
        if not 0 < number <= 100:
            raise OptionError(f"--budgets '{text}': a share lies above 0% and is at most 100%")
        return Point(round(number / 100, 9), number / 100)
    if cost:
        raise OptionError(f"--budgets '{text}': with --cost give shares of the whole cost, for instance 10%")
    if not 0 < number <= population:
        raise OptionError(f"--budgets '{text}': must lie between {FEWEST} and all {population} items of {of}")
    if number < FEWEST or number != round(number):
        hint = f"; for a share write {100 * number:g}%" if number < 1 else ""
        raise OptionError(f"--budgets '{text}': a number of items is whole and at least {FEWEST}{hint}")
    return Point(number, number / population)


def with_parity_points(points: Sequence[Point], population: int) -> list[Point]:
    """Add budgets below and above those asked for, so that better and worse methods can be told how much so.

    >>> [round(point.share, 3) for point in with_parity_points([Point(0.1, 0.1), Point(0.5, 0.5)], 100)]
    [0.03, 0.05, 0.07, 0.1, 0.5, 0.65, 0.8, 1.0]
    """
    low, high = points[0].share, points[-1].share
    below = [low * part for part in _BELOW if low * part * population >= FEWEST]
    above = [share for share in _ABOVE if share > high * 1.05]
    extra = [Point(share, share, asked=False) for share in [*below, *above]]
    return sorted([*points, *extra], key=lambda point: point.share)


def dense_points(points: Sequence[Point], population: int, most: int = 120) -> list[Point]:
    """For methods that need one replay only: a fine grid, every number of items where there are few.

    >>> len(dense_points([Point(0.5, 0.5)], 30))
    29
    """
    counts = np.unique(np.round(np.geomspace(FEWEST, population, min(most, population - 1))).astype(int))
    if population - 1 <= most:
        counts = np.arange(FEWEST, population + 1)
    taken = {round(point.share * population) for point in points}
    extra = [Point(k / population, k / population, asked=False) for k in counts.tolist() if k not in taken]
    return sorted([*points, *extra], key=lambda point: point.share)
