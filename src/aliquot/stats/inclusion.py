"""Inclusion probabilities of the items.

Invariant: probabilities lie in [0, 1] and sum to the sample size n.
"""

from __future__ import annotations

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.allocation import nonnegative, water_fill
from aliquot.stats.arrays import FloatArray
from aliquot.stats.draws import checked_pi


def inclusion_from_sizes(sizes: FloatArray, n: float) -> FloatArray:
    """Return pi = min(1, c * size) with the level c at which they sum to n (capping with water-filling).

    Särndal, Swensson and Wretman (1992), section 3.6. Items of size 0 get pi = 0, which no design-based estimate
    survives, unless n exceeds the number of the others: then they share what is left. See `pps_probabilities`.

    Args:
        sizes: One number >= 0 per item.
        n: The (expected) number of items to draw.

    >>> inclusion_from_sizes(np.array([8.0, 1.0, 1.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    values = nonnegative("sizes", sizes)
    if not 0.0 <= n <= len(values):
        raise OptionError(f"n is {n}; choose between 0 and the {len(values)} items there are")
    return water_fill(values, np.ones(len(values)), n)


def mix_uniform(pi: FloatArray, tau: float) -> FloatArray:
    """Mix with the uniform design of the same size: (1 - tau) pi + tau n / N (METHODS, section 2).

    >>> mix_uniform(np.array([1.0, 0.5, 0.5, 0.0]), 0.5).tolist()
    [0.75, 0.5, 0.5, 0.25]
    """
    values = checked_pi(pi)
    if not 0.0 <= tau <= 1.0:
        raise OptionError(f"tau is {tau}; choose between 0 (sizes only) and 1 (uniform)")
    if not len(values):
        return values
    mixed: FloatArray = (1.0 - tau) * values + tau * (float(values.sum()) / len(values))
    return np.minimum(mixed, 1.0)


def pps_probabilities(sizes: FloatArray, n: float, tau: float, cost: FloatArray | None = None) -> FloatArray:
    """Return probabilities proportional to size / sqrt(cost), capped at 1, mixed with uniform by tau.

    METHODS, section 2; the square root of the cost as in Cochran (1977), section 5.5. Sizes that are all zero
    say nothing: the result is uniform. With tau > 0 (and n > 0) every item has pi > 0.

    Args:
        sizes: One number >= 0 per item: how useful judging it is.
        n: The (expected) number of items to draw.
        tau: Weight of the uniform design, from 0 to 1.
        cost: What judging each item costs, > 0; the same for all when None.

    >>> pps_probabilities(np.array([3.0, 1.0, 0.0, 0.0]), 1, tau=0.5).tolist()
    [0.5, 0.25, 0.125, 0.125]
    """
    values = nonnegative("sizes", sizes)
    if cost is not None:
        prices = nonnegative("cost", cost)
        if prices.shape != values.shape:
            raise OptionError(f"cost has {len(prices)} values for {len(values)} sizes; give one per item")
        if np.any(prices == 0.0):
            free = int(np.argmin(prices))
            raise OptionError(f"cost[{free}] is 0; every item must cost more than nothing")
        values = values / max(float(values.max(initial=0.0)), np.finfo(np.float64).tiny) / np.sqrt(prices)
    return mix_uniform(inclusion_from_sizes(values, n), tau)
