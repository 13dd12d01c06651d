"""Design-based covariance of weighted means of systems, by kind of design (docs/methods.md, section 4).

Functions take `z`, n x M, the linearised contributions w_i (e_ia - mean) / sum w of the sampled items to each system's
estimate in drawing order, and the inclusion probabilities `pi`. They return errors of independent units (units x M),
whose products sum to the covariance; rows with pi = 1 are certain and add nothing.
"""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray, max_abs, snap_to_zero


def linearised_contributions(residual: FloatArray, weight: FloatArray) -> FloatArray:
    """Return linearised contributions to a Hajek mean, w_i (e_ia - mean_a) / sum w; 0 where not judged.

    >>> linearised_contributions(np.array([[1.0], [3.0]]), np.ones(2)).ravel().tolist()
    [-0.5, 0.5]
    """
    present = np.isfinite(residual)
    cells = np.where(present, weight if weight.ndim == 2 else weight[:, None], 0.0)
    total = cells.sum(axis=0)
    safe = np.where(total > 0, total, 1.0)
    mean = (np.where(present, residual, 0.0) * cells).sum(axis=0) / safe
    deviation = snap_to_zero(np.where(present, residual - mean, 0.0), max_abs(residual, axis=0))
    return cells * deviation / safe


def unequal_probability_errors(z: FloatArray, pi: FloatArray) -> FloatArray:
    """Return errors by Deville's approximation for fixed-size designs; exact for equal probabilities.

    u_i = sqrt(n/(n-1) (1 - pi_i)) (z_i - z*), z* the (1 - pi)-weighted mean.

    >>> values = np.array([[1.0], [2.0], [6.0]])
    >>> u = unequal_probability_errors(linearised_contributions(values, np.ones(3)), np.full(3, 0.3))
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


def spread_errors(z: FloatArray, pi: FloatArray, cluster: IntArray, remainder: float) -> FloatArray:
    """Return errors for items spread over documents, which removes most of the variance between documents.

    `remainder` is the share of the between-document variance that rounding of the documents' sample sizes leaves, sum_d
    f_d (1 - f_d) / sum_i pi_i (1 - pi_i), f_d the fractional part of sum_{i in d} pi_i. With rho the correlation of
    items of a document, the variance of an unrestricted sample shrinks by 1 - rho (1 - remainder). Successive
    differences, the textbook estimator, show this gain only with two or more items per document.
    """
    units = unequal_probability_errors(z, pi)
    rho = intracluster_correlation(units, cluster)
    return units * float(np.sqrt(1.0 - rho * (1.0 - min(1.0, remainder))))


def intracluster_correlation(units: FloatArray, cluster: IntArray, planned: float | None = None) -> float:
    """Estimate the intracluster correlation pooled over systems, shrunken to 0 for few pairs, at least 0.

    `planned` is the number of ordered pairs for the shrinkage, by default those of the sample: for the correlation that
    a larger planned sample will estimate.

    >>> intracluster_correlation(np.array([[1.0], [1.0], [-1.0], [-1.0]] * 50), np.repeat(np.arange(100), 2)) > 0.6
    True
    """
    codes = np.unique(cluster, return_inverse=True)[1]
    count = np.bincount(codes)
    pairs = float((count * (count - 1)).sum())
    total = np.zeros((len(count), units.shape[1]))
    np.add.at(total, codes, units)
    square = float((units**2).sum())
    if pairs == 0 or square == 0:
        return 0.0
    cross = float((total**2).sum()) - square
    raw = (cross / pairs) / (square / len(units))
    n_pairs = pairs if planned is None else planned
    return float(np.clip(raw * n_pairs / (n_pairs + _PRIOR_PAIRS), 0.0, 0.95))


_PRIOR_PAIRS = 12.0  # prior weight of no correlation, in ordered pairs of items


def cluster_errors(z: FloatArray, pi: FloatArray, cluster: IntArray) -> FloatArray:
    """Return errors of whole clusters (documents), with contributions summed per cluster.

    Linearised errors of few unequal clusters are too small; each is scaled by (1 - 1/D) / (1 - its share of the
    sample), as the jackknife does, which is 1 for clusters of equal size.
    """
    codes = np.unique(cluster, return_inverse=True)[1]
    groups = int(codes.max()) + 1 if len(codes) else 0
    summed = np.zeros((groups, z.shape[1]))
    np.add.at(summed, codes, z)
    size = np.bincount(codes, minlength=groups)
    mean_pi = np.bincount(codes, pi, minlength=groups) / size
    share = np.bincount(codes, 1.0 / pi, minlength=groups) / (1.0 / pi).sum()
    leverage = (1.0 - 1.0 / max(2, groups)) / np.clip(1.0 - share, 0.1, None)
    return unequal_probability_errors(summed * leverage[:, None], mean_pi)


def stratified_errors(z: FloatArray, pi: FloatArray, stratum: IntArray) -> FloatArray:
    """Return errors within strata; strata with a single item are merged.

    With z = (N_l / N) (y - mean_l) / n_l this is the textbook sum of (N_l/N)^2 (1 - f_l) s_l^2 / n_l.
    """
    codes = merge_singleton_strata(stratum)
    units = np.empty_like(z)
    for code in np.unique(codes):
        units[codes == code] = unequal_probability_errors(z[codes == code], pi[codes == code])
    return units


def merge_singleton_strata(stratum: IntArray) -> IntArray:
    """Merge strata with one sampled item in pairs (the last one with any other stratum).

    >>> merge_singleton_strata(np.array([0, 0, 1, 2, 3])).tolist()
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


def degrees_of_freedom(units: FloatArray, maximum: float) -> float:
    """Return Satterthwaite degrees of freedom of the variances, pooled over systems.

    About n for normal units, far fewer for heavy-tailed scores such as MQM penalties: 2 n / (kurtosis - 1), the
    kurtosis corrected for small samples (Joanes and Gill 1998, G2).

    >>> units = np.random.default_rng(0).normal(size=(2000, 3))
    >>> bool(abs(degrees_of_freedom(units, 1999.0) / 2000 - 1) < 0.1)
    True
    """
    n = len(units)
    second = (units**2).sum(axis=0)
    varies = second > 0  # neither 0 nor NaN
    if n < 4 or not varies.any():
        return max(1.0, maximum)
    kurtosis = (n * (units**4).sum(axis=0)[varies] / second[varies] ** 2).mean()
    return float(_satterthwaite(np.asarray(kurtosis), n, maximum))


def pair_degrees_of_freedom(
    units: FloatArray, maximum: float | FloatArray, counts: FloatArray | None = None
) -> FloatArray:
    """Return degrees of freedom of the difference of every two systems, as `degrees_of_freedom` of one.

    Moments of u_a - u_b come from products of powers of u, without a loop over pairs. `counts` are the units of each
    pair (M x M) where systems have different units; all units by default.

    >>> units = np.random.default_rng(0).normal(size=(500, 3))
    >>> pairs = pair_degrees_of_freedom(units, 499.0)
    >>> bool(np.isclose(pairs[0, 1], degrees_of_freedom(units[:, [0]] - units[:, [1]], 499.0)))
    True
    """
    n = np.full((units.shape[1],) * 2, float(len(units))) if counts is None else counts.astype(np.float64)
    squares = units**2
    second_alone, fourth = squares.sum(axis=0), (squares**2).sum(axis=0)
    second = second_alone[:, None] + second_alone[None, :] - 2 * (units.T @ units)
    mixed = (units**3).T @ units
    fourth = fourth[:, None] + fourth[None, :] - 4 * (mixed + mixed.T) + 6 * (squares.T @ squares)
    varies = second > 1e-12 * (second_alone[:, None] + second_alone[None, :])
    kurtosis = np.where(varies, n * fourth / np.where(varies, second, 1.0) ** 2, 1.0)
    enough = varies & (n >= 4)
    return np.where(enough, _satterthwaite(kurtosis, np.maximum(n, 4.0), maximum), np.maximum(1.0, maximum))


def _satterthwaite(kurtosis: FloatArray, n: FloatArray | int, maximum: FloatArray | float) -> FloatArray:
    corrected = ((n + 1) * (kurtosis - 3.0) + 6) * (n - 1) / ((n - 2) * (n - 3))
    return np.clip(2.0 * n / np.maximum(2.0 + corrected, 1e-9), 2.0, np.maximum(2.0, maximum))
