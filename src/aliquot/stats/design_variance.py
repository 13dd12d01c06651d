"""Covariance of weighted means over systems, for the kinds of design (METHODS.md section 4).

All take `z`, n x M: the linearised contributions w_i (e_ia - mean) / sum w of the sampled items to each system's
estimate, in the order of drawing, and the inclusion probabilities `pi`. Each gives the errors of independent units
(units x M), whose products sum to the covariance; rows with pi = 1 add nothing, because they are certain.
"""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray


def contributions(residual: FloatArray, weight: FloatArray) -> FloatArray:
    """Linearised contributions of a Hajek mean: w_i (e_ia - mean_a) / sum w; 0 where not judged.

    >>> contributions(np.array([[1.0], [3.0]]), np.ones(2)).ravel().tolist()
    [-0.5, 0.5]
    """
    present = np.isfinite(residual)
    cells = np.where(present, weight[:, None], 0.0)
    total = cells.sum(axis=0)
    safe = np.where(total > 0, total, 1.0)
    mean = (np.where(present, residual, 0.0) * cells).sum(axis=0) / safe
    return np.where(present, cells * (residual - mean) / safe, 0.0)


def unordered(z: FloatArray, pi: FloatArray) -> FloatArray:
    """Deville's approximation for fixed-size unequal probabilities; exact (1 - n/N) s^2 / n for equal ones.

    u_i = sqrt(n/(n-1) (1 - pi_i)) (z_i - z*), z* the (1 - pi)-weighted mean.

    >>> values = np.array([[1.0], [2.0], [6.0]])
    >>> u = unordered(contributions(values, np.ones(3)), np.full(3, 0.3))
    >>> bool(np.isclose((u**2).sum(), 0.7 * values.var(ddof=1) / 3))
    True
    """
    n = len(z)
    if n < 2:
        return np.full(z.shape, np.nan)
    free = np.clip(1.0 - pi, 0.0, None)
    total = float(free.sum())
    centre = (free[:, None] * z).sum(axis=0) / (total if total > 0 else 1.0)
    units: FloatArray = np.sqrt(free * n / (n - 1))[:, None] * (z - centre)
    return units


def successive(z: FloatArray, pi: FloatArray) -> FloatArray:
    """Successive differences along the drawing order, for systematic draws and small bins (Wolter 2007, 8.2).

    Differences around the circle of sqrt(1 - pi_k) z_k, divided by sqrt(2): neighbours share a document as often as the
    design makes them, so that the gain from the order shows.
    """
    n = len(z)
    if n < 2:
        return np.full(z.shape, np.nan)
    scaled = np.sqrt(np.clip(1.0 - pi, 0.0, None))[:, None] * z
    steps: FloatArray = (scaled - np.roll(scaled, -1, axis=0)) / np.sqrt(2.0)
    return steps


def clustered(z: FloatArray, pi: FloatArray, cluster: IntArray) -> FloatArray:
    """Between whole clusters (documents): contributions are summed per cluster first."""
    codes = np.unique(cluster, return_inverse=True)[1]
    groups = int(codes.max()) + 1 if len(codes) else 0
    summed = np.zeros((groups, z.shape[1]))
    np.add.at(summed, codes, z)
    mean_pi = np.bincount(codes, pi, minlength=groups) / np.bincount(codes, minlength=groups)
    return unordered(summed, mean_pi)


def stratified(z: FloatArray, pi: FloatArray, stratum: IntArray) -> FloatArray:
    """Within bins; bins with a single item are joined, so that nothing is lost.

    With z = (N_l / N) (y - mean_l) / n_l this is the textbook sum of (N_l/N)^2 (1 - f_l) s_l^2 / n_l.
    """
    codes = merged_singletons(stratum)
    units = np.empty_like(z)
    for code in np.unique(codes):
        units[codes == code] = unordered(z[codes == code], pi[codes == code])
    return units


def merged_singletons(stratum: IntArray) -> IntArray:
    """Join bins that have one sampled item, two by two (the last with any other bin).

    >>> merged_singletons(np.array([0, 0, 1, 2, 3])).tolist()
    [0, 0, 1, 1, 0]
    """
    codes = np.unique(stratum, return_inverse=True)[1].astype(np.int64)
    counts = np.bincount(codes)
    alone = np.flatnonzero(counts == 1)
    replace = np.arange(len(counts))
    for first, second in zip(alone[::2], alone[1::2], strict=False):
        replace[second] = first
    if len(alone) % 2 and len(counts) > 1:
        last = alone[-1]
        replace[last] = next(code for code in range(len(counts)) if code != last and replace[code] == code)
    return replace[codes]


def degrees_of_freedom(units: FloatArray, most: float) -> FloatArray:
    """Degrees of freedom of each system's variance, smaller where few units carry it (Satterthwaite).

    The variance of a variance estimate is sigma^4 (kurtosis - 1) / n, which for normal units gives about n degrees of
    freedom, and for skewed, heavy-tailed scores such as MQM penalties far fewer: 2 n / (kurtosis - 1).

    >>> units = np.random.default_rng(0).normal(size=(2000, 1))
    >>> bool(abs(degrees_of_freedom(units, 1999.0)[0] / 2000 - 1) < 0.1)
    True
    """
    n = len(units)
    second = (units**2).sum(axis=0)
    fourth = (units**4).sum(axis=0)
    safe = np.where(second > 0, second, 1.0)
    kurtosis = np.where(second > 0, n * fourth / safe**2, 3.0)
    return np.clip(2.0 * n / np.maximum(kurtosis - 1.0, 1e-9), 1.0, max(1.0, most))
