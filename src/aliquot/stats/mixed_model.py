"""System means from any set of judged cells, with a random effect of each item in closed form.

Residuals are n x M, NaN = not judged. The model is r_is = mu_s + u_i + e_is, u_i ~ N(0, su2) the item's difficulty,
e_is ~ N(0, s2). Per item with m_i judged systems V_i^-1 = (I - rho_i 11') / s2 with rho_i = su2 / (s2 + m_i su2), so
that the normal equations need one pass over the cells and one M x M solve (docs/methods.md, section 8). Invariant:
where every item is judged for all systems, the means are the weighted means. Weights are of items (n), or of cells (n x
M) where probabilities differ by system.
"""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, max_abs, snap_to_zero

POOLED_CELLS = 8.0  # prior weight of the pooled variance, in cells
_PRIOR_PAIRS = 12.0  # prior weight of no item effect, in pairs of cells, as for documents in design_variance


def as_cell_weights(weight: FloatArray) -> FloatArray:
    """Return weights that broadcast to cells: those of items as a column, those of cells unchanged."""
    return weight if weight.ndim == 2 else weight[:, None]


def _item_weights(weight: FloatArray, present: BoolArray) -> FloatArray:
    """Return weights of items: the mean of cell weights over judged cells."""
    if weight.ndim == 1:
        return weight
    mean: FloatArray = np.where(present, weight, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    return mean


def centre_by_system(residual: FloatArray, weight: FloatArray) -> FloatArray:
    """Subtract each system's weighted mean; 0 where not judged.

    >>> centre_by_system(np.array([[1.0, np.nan], [3.0, 5.0]]), np.ones(2)).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    present = np.isfinite(residual)
    cells = np.where(present, as_cell_weights(weight), 0.0)
    filled = np.where(present, residual, 0.0)
    mean = (filled * cells).sum(axis=0) / np.maximum(cells.sum(axis=0), 1e-300)
    return snap_to_zero(np.where(present, filled - mean, 0.0), max_abs(residual, axis=0))


def item_share(residual: FloatArray, weight: FloatArray) -> float:
    """Return the item's share of the residual variance, su2 / (su2 + s2), shrunken to 0 for few items, at least 0.

    >>> rng = np.random.default_rng(0)
    >>> cells = rng.normal(size=(4000, 1)) + rng.normal(size=(4000, 3))
    >>> round(item_share(cells, np.ones(4000)), 1)
    0.5
    """
    deviation, present = centre_by_system(residual, weight), np.isfinite(residual)
    weight, count = _item_weights(weight, present), present.sum(axis=1)
    total = deviation.sum(axis=1)
    square = (deviation**2).sum(axis=1)
    pairs = count * (count - 1)
    cells, pair_weight = float((weight * count).sum()), float((weight * pairs).sum())
    if pair_weight <= 0 or not square.any():
        return 0.0
    raw = float((weight * (total**2 - square)).sum()) / pair_weight / (float((weight * square).sum()) / cells)
    n_pairs = float(pairs.sum())
    return float(np.clip(raw * n_pairs / (n_pairs + _PRIOR_PAIRS), 0.0, 0.99))


def item_effect_means(residual: FloatArray, weight: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
    """Return generalised least squares means of the systems, and each item's influence on them (n x M).

    `share` is the item's share of the variance. The influences of a system sum to 0 and their squares estimate the
    variance of its mean: a_i' = A^-1 w_i V_i^-1 (r_i - mu), A the sum of the w_i V_i^-1. Systems never judged are NaN.

    >>> means, influence = item_effect_means(np.array([[1.0, 2.0], [3.0, np.nan]]), np.ones(2), 0.0)
    >>> means.tolist(), (influence.round(12) + 0.0).tolist()
    ([2.0, 2.0], [[-0.5, 0.0], [0.5, 0.0]])
    """
    present = np.isfinite(residual)
    judged = present.any(axis=0)
    d = present[:, judged].astype(np.float64)
    r = np.where(present, residual, 0.0)[:, judged]
    rho = share / (1.0 - share + d.sum(axis=1) * share)
    scaled = d * (weight[:, judged] if weight.ndim == 2 else weight[:, None])
    system = np.diag(scaled.sum(axis=0)) - (scaled * rho[:, None]).T @ d
    right = (scaled * (r - (rho * r.sum(axis=1))[:, None])).sum(axis=0)
    mean = np.linalg.solve(system, right)
    residuals = d * (r - mean)
    influence = np.linalg.solve(system, (scaled * (residuals - (rho * residuals.sum(axis=1))[:, None])).T).T
    means, all_influence = np.full(residual.shape[1], np.nan), np.zeros(residual.shape)
    means[judged], all_influence[:, judged] = mean, influence
    return means, all_influence


def cell_covariance(residual: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the covariance over items of all pairs of systems, M x M, from the items judged for both.

    Variances are those of each system's own cells (divisor n_s - 1), NaN below two. Correlations of pairs with few
    common items are shrunken towards the common correlation.

    >>> cell_covariance(np.array([[1.0, 2.0], [3.0, 6.0]]), np.ones(2)).tolist()
    [[2.0, 4.0], [4.0, 8.0]]
    """
    present = np.isfinite(residual).astype(np.float64)
    deviation = centre_by_system(residual, weight)
    rooted = np.sqrt(as_cell_weights(weight))
    shared = (present * rooted).T @ (present * rooted)  # sum of weights over the items of both
    counts = present.T @ present
    product = (deviation * rooted).T @ (deviation * rooted)
    mean = np.divide(product, shared, out=np.zeros_like(product), where=shared > 0)
    n = np.diag(counts)
    variance = np.where(n > 1, np.diag(mean) * n / np.maximum(n - 1, 1), np.nan)
    covariance: FloatArray
    if (counts == counts[0, 0]).all():
        covariance = mean * counts[0, 0] / max(counts[0, 0] - 1.0, 1.0)
        return covariance
    scale = np.sqrt(np.outer(np.diag(mean), np.diag(mean)))
    common = item_share(residual, weight)
    own_weight = counts / (counts + _PRIOR_PAIRS)
    correlation = (
        own_weight * np.divide(mean, scale, out=np.zeros_like(mean), where=scale > 0) + (1 - own_weight) * common
    )
    covariance = np.clip(correlation, -1.0, 1.0) * np.sqrt(np.outer(variance, variance))
    np.fill_diagonal(covariance, variance)
    return covariance


def pooling_factors(variance: FloatArray, counts: IntArray) -> FloatArray:
    """Return factors that shrink standard deviations of systems with few cells towards the common one.

    Few skewed scores often miss the tail that other systems show. The common variance counts as `POOLED_CELLS` cells,
    so that it matters below about 30 cells.

    >>> pooling_factors(np.array([1.0, 1.0]), np.array([5, 500])).tolist()
    [1.0, 1.0]
    """
    defined = (counts > 1) & (variance > 0)
    free = np.where(defined, counts - 1.0, 0.0)
    common = float((free * np.where(defined, variance, 0.0)).sum() / max(free.sum(), 1.0))
    pooled = (free * variance + POOLED_CELLS * common) / (free + POOLED_CELLS)
    return np.where(defined, np.sqrt(pooled / np.where(defined, variance, 1.0)), 1.0)


def shrink_to_common_mean(values: FloatArray, covariance: FloatArray) -> FloatArray:
    """Shrink the means of systems towards their common mean, all by the same share.

    The largest of many noisy estimates is biased upwards. The share is the variance of the estimates in excess of their
    errors (moments), at least a twentieth; equal for all systems, so that a system with few cells and a large error is
    not ruled out by stronger shrinkage.

    >>> shrink_to_common_mean(np.array([0.0, 2.0]), np.zeros((2, 2))).tolist()
    [0.0, 2.0]
    """
    m = len(values)
    noise = float(np.trace((np.eye(m) - 1.0 / m) @ covariance)) / max(m - 1, 1)
    spread = float(values.var(ddof=1)) if m > 1 else 0.0
    real = max(spread - noise, 0.05 * noise)
    share = real / (real + noise) if real + noise > 0 else 1.0
    mean = float(values.mean())
    shrunk: FloatArray = mean + share * (values - mean)
    return shrunk


def nearest_covariance(covariance: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix (pairwise covariances may be inconsistent); NaN is kept.

    >>> nearest_covariance(np.array([[1.0, 2.0], [2.0, 1.0]])).round(3).tolist()
    [[1.5, 1.5], [1.5, 1.5]]
    """
    defined = ~np.isnan(np.diag(covariance))
    part = covariance[np.ix_(defined, defined)]
    if np.isnan(part).any() or not len(part):
        return covariance
    values, vectors = np.linalg.eigh(part)
    if values.min() >= -1e-12 * max(values.max(), 1e-300):
        return covariance
    result = covariance.copy()
    result[np.ix_(defined, defined)] = (vectors * np.clip(values, 0.0, None)) @ vectors.T
    return result


def item_overlap(present: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return items of each system, and for every pair the shared fraction of the smaller system's items.

    >>> item_overlap(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]))[1].tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    shared = present.T @ present
    n = np.diag(shared).astype(np.int64)
    least = np.minimum(n[:, None], n[None, :])
    return n, np.divide(shared, least, out=np.zeros_like(shared), where=least > 0)
