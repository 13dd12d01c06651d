"""The scale of a human score: ends that no mean can pass, told from the scores or named by the user."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import FloatArray, is_within, round_significant

_SCALES_WITH_BOTH_ENDS = ((1.0, 5.0), (1.0, 7.0), (1.0, 10.0), (0.0, 5.0), (0.0, 10.0))
_LIKERT_TOPS = (5.0, 7.0, 10.0)
_SCALES_WITH_ONE_END = ((0.0, 1.0), (0.0, 100.0))
_MIN_OF_HUNDRED = 20.0  # largest score from which one that starts at 0 is taken to be on 0 to 100


@dataclass(frozen=True)
class Scale:
    """Ends of the scale; an infinite one is open. `binary`: every score is one of the two ends."""

    low: float
    high: float
    binary: bool = False

    @property
    def width(self) -> float:
        """High less low; infinite for penalties, which have one end."""
        return self.high - self.low


def find_scale(scores: FloatArray) -> Scale | None:
    """Detect the scale of scores; None if there is no sign of one.

    0 and 1 only: pass/fail. Penalties: nothing above 0, and some 0. Other usual scales (1-5, 1-7, 0-10, ...) are told
    by both of their ends, or by whole numbers up to 5, 7 or 10; 0-1 and 0-100 by one of their ends.

    >>> find_scale(np.array([0.0, 1.0, np.nan])), find_scale(np.array([-5.0, 0.0])), find_scale(np.array([0.1, 3.2]))
    (Scale(low=0.0, high=1.0, binary=True), Scale(low=-inf, high=0.0, binary=False), None)
    """
    values = round_significant(scores[np.isfinite(scores)])
    if not values.size:
        return None
    smallest, largest = float(values.min()), float(values.max())
    if largest == 1.0 and np.isin(values, (0.0, 1.0)).all():
        return Scale(0.0, 1.0, binary=True)
    if smallest < 0.0 and largest == 0.0:
        return Scale(-math.inf, 0.0)
    for low, high in _SCALES_WITH_BOTH_ENDS:
        if (smallest, largest) == (low, high):
            return Scale(low, high)
    is_whole = bool((values == np.round(values)).all())
    if is_whole and smallest < largest and smallest >= 0.0 and largest in _LIKERT_TOPS:
        return Scale(min(smallest, 1.0), largest)
    for low, high in _SCALES_WITH_ONE_END:
        large_enough = smallest < largest and (high == 1.0 or largest >= _MIN_OF_HUNDRED)
        if smallest >= low and largest <= high and (smallest == low or largest == high) and large_enough:
            return Scale(low, high)
    return None


def scale_of_range(value_range: tuple[float, float], scores: FloatArray) -> Scale | None:
    """Return the scale of a range; None if scores lie outside it."""
    low, high = value_range
    values = round_significant(scores[np.isfinite(scores)])
    if not low < high or not values.size or not is_within(values, low, high):
        return None
    return Scale(low, high, binary=bool(np.isin(values, (low, high)).all()))
