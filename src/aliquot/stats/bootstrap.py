"""Resampling sums of independent units by matrix products: counts times values, no indexing per draw."""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import FloatArray, Seed

_BLOCK = 2_000_000  # counts held at a time


def resampled_sums(units: FloatArray, draws: int, seed: Seed = 0) -> FloatArray:
    """Sum of n units drawn with replacement from n centred units, `draws` times: draws x columns.

    >>> resampled_sums(np.array([[1.0], [-1.0]]), 1000, seed=1).shape
    (1000, 1)
    """
    rng = np.random.default_rng(seed)
    n = len(units)
    centred = units - units.mean(axis=0)
    result = np.empty((draws, units.shape[1]))
    block = max(1, _BLOCK // max(1, n))
    for start in range(0, draws, block):
        size = min(block, draws - start)
        # n draws of n units each: the counts of units are multinomial; drawing indices and counting them is faster.
        drawn = rng.integers(0, n, size=(size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        result[start : start + size] = counts.astype(np.float64) @ centred
    return result
