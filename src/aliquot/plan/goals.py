"""Goals: how good the ranking or the intervals should be, and the smallest budget that gets there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.errors import OptionError, unknown_name
from aliquot.metaeval.parity import first_crossings
from aliquot.plan.outlook import Point

DEFAULT = "accuracy=0.95"


@dataclass(frozen=True)
class _Kind:
    """A measure that a goal can be set for: whether it is a chance (0 to 1), how to read it, and how to say it."""

    chance: bool
    value: Callable[[Point, int], float]
    words: str


_KINDS = {
    "accuracy": _Kind(True, lambda p, _: p.accuracy, "{0:.0%} of the pairs of systems in the right order"),
    "best": _Kind(True, lambda p, _: p.best, "the best system found with a chance of {0:.0%}"),
    "ranking": _Kind(True, lambda p, _: p.ranking, "the whole ranking right with a chance of {0:.0%}"),
    "apart": _Kind(True, lambda p, pairs: p.apart / pairs, "{0:.0%} of the pairs told apart"),
    "width": _Kind(False, lambda p, _: p.width_difference, "intervals of differences {0:g} wide"),
    "difference": _Kind(False, lambda p, _: p.detects, "a difference of {0:g} detected"),
}


@dataclass(frozen=True)
class Goal:
    """What should be reached: a measure and its value."""

    kind: str
    target: float

    @property
    def words(self) -> str:
        """The goal in words."""
        return _KINDS[self.kind].words.format(self.target)

    @property
    def written(self) -> str:
        """As it is typed."""
        return f"{self.kind}={self.target:g}"

    @property
    def threshold(self) -> float:
        """The target, higher is better."""
        return self.target if _KINDS[self.kind].chance else -self.target

    def reached(self, point: Point, pairs: int) -> bool:
        """Whether a point reaches it, but for rounding."""
        return self.value(point, pairs) >= self.threshold - 1e-3 * abs(self.threshold)

    def value(self, point: Point, pairs: int) -> float:
        """Return what a point has of it, higher is better."""
        value = _KINDS[self.kind].value(point, pairs)
        return value if _KINDS[self.kind].chance else -value

    def items(self, points: Sequence[Point], pairs: int, target: float | None = None) -> float:
        """Smallest number of items that reaches the goal (or another value of it); infinite where none does."""
        curve = np.array([self.value(point, pairs) for point in points])
        wanted = self.threshold if target is None else target
        rising = np.maximum.accumulate(np.where(np.isfinite(curve), curve, -np.inf))
        sizes = np.array([float(point.items) for point in points])
        known = np.isfinite(rising)
        if not known.any():
            return float("inf")
        return float(first_crossings(sizes[known], rising[known], np.array([wanted]))[0])


def parse_goal(text: str) -> Goal:
    """Read accuracy=0.95, best=0.9, ranking=0.5, apart=0.8 (shares of pairs), width=2 or difference=1.

    >>> parse_goal("best=90%")
    Goal(kind='best', target=0.9)
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if name not in _KINDS:
        raise unknown_name("goal", name, _KINDS, f"write for instance {DEFAULT}")
    try:
        target = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
    except ValueError:
        raise OptionError(f"--goal '{text}': write {name}=VALUE, for instance {DEFAULT}") from None
    if _KINDS[name].chance and not 0 < target <= 1:
        raise OptionError(f"--goal {text}: choose between 0 and 1, for instance {DEFAULT}")
    if not equals or not 0 < target < np.inf:
        raise OptionError(f"--goal {text}: must be above 0")
    return Goal(name, target)
