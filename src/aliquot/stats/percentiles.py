"""Percentile intervals of bootstrap draws of which some may be infinite or unknown."""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import FloatArray
from aliquot.stats.bounds import error_rate


def central_interval(draws: FloatArray, level: float = 0.95) -> tuple[float, float]:
    """Draws between which `level` of them lie; NaN are left out. By position, as infinities cannot be interpolated.

    >>> central_interval(np.append(np.arange(40.0), [np.inf, np.nan]))
    (1.0, 39.0)
    """
    tail = error_rate(level) / 2
    known = np.sort(draws[~np.isnan(draws)])
    if not len(known):
        return float("nan"), float("nan")
    last = len(known) - 1
    outward = int(np.floor(tail * last + 1e-9))  # 0.05 x 1000 may come out as 49.99...
    return float(known[outward]), float(known[last - outward])
