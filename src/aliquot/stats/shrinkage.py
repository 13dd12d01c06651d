"""Shrinkage of systems' estimates, and forecasts of the error of a future sample.

Estimates are shrunken towards a prediction; errors of a future sample are forecast from the judged items.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammainc

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, is_negligible, snap_to_zero

MAX_SHARE = 0.9995
_SHARES = np.linspace(0.0, MAX_SHARE, 400)
MIN_SYSTEMS = 4
"""Minimum number of systems to separate common shift and deviations."""
_TINY = 1e-200


def real_share(deviations: FloatArray, variance: float) -> float:
    """Return the expected share of the variance of `deviations` that is real, not error.

    Deviations e_a ~ N(0, s + v), v the known error variance and s unknown. The share k = s / (s + v) has a uniform
    prior (Strawderman 1971). With u = 1 - k, x = sum e^2 / (2 v) and a = (M + 1) / 2 the posterior is u^(a-1) exp(-x u)
    on (0, 1), whose mean is a P(a+1, x) / (x P(a, x)), P the incomplete gamma function.

    >>> round(real_share(np.array([-3.0, -1.0, 1.0, 3.0]), 0.1), 2), real_share(np.array([0.5, -0.5]), 0.0)
    (0.97, 1.0)
    """
    if variance <= 0:
        return 1.0
    shape, x = (len(deviations) + 1) / 2, float(deviations @ deviations) / (2 * variance)
    below = float(gammainc(shape, x))
    if below < _TINY:  # the limit for x -> 0, where both functions vanish
        return 1.0 / (shape + 1.0)
    return float(np.clip(1.0 - shape * float(gammainc(shape + 1.0, x)) / (x * below), 0.0, 1.0))


def share_posterior(deviations: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
    """Return the posterior of `real_share` on a grid: shares, ascending, and their probabilities.

    >>> shares, probability = share_posterior(np.array([-3.0, -1.0, 1.0, 3.0]), 0.1)
    >>> round(float(shares @ probability), 2), round(float(probability.sum()), 6)
    (0.97, 1.0)
    """
    if variance <= 0:
        return np.ones(1), np.ones(1)
    total = variance / (1.0 - _SHARES)
    likelihood = -(len(deviations) - 1) / 2 * np.log(total) - float(deviations @ deviations) / (2 * total)
    weight = np.exp(likelihood - likelihood.max())
    return _SHARES, weight / weight.sum()


def contrast_variance(covariance: FloatArray) -> float:
    """Return the mean error variance of the systems' deviations from their common mean: trace(C V C) / (M - 1).

    The M x M covariance is not inverted: from few items it has no full rank, and its smallest eigenvalues are far too
    small.

    >>> contrast_variance(np.full((3, 3), 5.0) + np.eye(3))
    1.0
    """
    m, total = len(covariance), float(np.trace(covariance))
    return float(snap_to_zero(np.asarray(total - covariance.sum() / m), total)) / (m - 1)


def shrink_to_prediction(
    values: FloatArray, prediction: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, float]:
    """Shrink estimates towards a prediction by the share of their deviations that is error; also return the share.

    values - prediction = common shift + deviations; the shift is kept, the deviations are multiplied by the share of
    them that is real. Exact values are kept. Fewer than four systems are unchanged, with share 1; NaN stays NaN and is
    ignored.

    >>> shrink_to_prediction(np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4), np.zeros((4, 4)))
    (array([1., 2., 3., 4.]), 1.0)
    """
    defined = np.isfinite(values) & np.isfinite(np.diag(covariance))
    if defined.sum() < MIN_SYSTEMS:
        return values, 1.0
    gap = (values - prediction)[defined]
    deviations = gap - gap.mean()
    share = real_share(deviations, contrast_variance(covariance[np.ix_(defined, defined)]))
    shrunk = prediction[defined] + gap.mean() + share * deviations
    result = values.copy()
    result[defined] = np.where(_is_exact(values, covariance)[defined], values[defined], shrunk)
    return result, share


def _is_exact(values: FloatArray, covariance: FloatArray) -> BoolArray:
    """Return which systems have an error of 0 up to rounding."""
    return is_negligible(np.sqrt(np.clip(np.diag(covariance), 0.0, None)), values)


_NEAR, _FAR = 1.5, 3.0  # robust standard deviations up to which a system is shrunken fully, and from which not at all


def shrink_robustly(values: FloatArray, prediction: FloatArray, covariance: FloatArray) -> tuple[FloatArray, float]:
    """Shrink as `shrink_to_prediction`, but leave outlying systems where they are.

    Deviations from the prediction are measured in robust standard deviations (median, MAD). Systems within 1.5 of them
    determine the real share and are shrunken; shrinkage fades out up to 3.

    >>> values, share = shrink_robustly(np.array([0.0, 0.1, 0.2, 0.3, 9.0]), np.zeros(5), np.eye(5))
    >>> bool(share < 0.5), float(values[4])
    (True, 9.0)
    """
    defined = np.isfinite(values) & np.isfinite(np.diag(covariance))
    if defined.sum() < MIN_SYSTEMS:
        return values, 1.0
    gap = (values - prediction)[defined]
    distance = np.abs(gap - np.median(gap))
    scale = 1.4826 * float(np.median(distance))
    weight = np.clip((_FAR - distance / max(scale, _TINY)) / (_FAR - _NEAR), 0.0, 1.0)
    typical = weight >= 0.5
    if typical.sum() < MIN_SYSTEMS:
        return values, 1.0
    deviations = gap - float((weight * gap).sum() / weight.sum())
    inner = np.flatnonzero(defined)[typical]
    variance = contrast_variance(covariance[np.ix_(inner, inner)])
    share = real_share(deviations[typical] - deviations[typical].mean(), variance)
    result = values.copy()
    weight = np.where(_is_exact(values, covariance)[defined], 0.0, weight)
    result[defined] = values[defined] - weight * (1.0 - share) * deviations
    return result, share


# -- Forecast of a future sample ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Forecast:
    """Error units of a future sample, estimated from the judged items."""

    units: FloatArray  # n0 x M, contribution of an item like this one to the error of each system's total
    mass: FloatArray  # n0, expected number of such items in the future sample
    population: float  # number of items that the means are over
    n: float  # size of the future sample

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the future estimates."""
        n0 = len(self.units)
        scale = n0 / ((n0 - 1) * self.population**2)
        covariance: FloatArray = (self.units * self.mass[:, None]).T @ self.units * scale
        return covariance

    def scale_variance(self, factor: float) -> Forecast:
        """Return the forecast with variances multiplied by a factor."""
        return Forecast(self.units * np.sqrt(factor), self.mass, self.population, self.n)

    def freedom(self) -> float:
        """Return the degrees of freedom of the variances of means, pooled over systems (as `degrees_of_freedom`)."""
        kurtosis = _weighted_kurtosis(self.units, self.mass)
        defined = np.isfinite(kurtosis)
        return float(self._pool_freedom(kurtosis[defined].mean())) if defined.any() else self._most

    def pair_freedom(self) -> FloatArray:
        """Return the degrees of freedom of every difference of two systems, M x M."""
        kurtosis = np.array(
            [_weighted_kurtosis(self.units[:, [a]] - self.units, self.mass) for a in range(self.units.shape[1])]
        )
        return np.where(
            np.isfinite(kurtosis), self._pool_freedom(np.where(np.isfinite(kurtosis), kurtosis, 3.0)), self._most
        )

    @property
    def _most(self) -> float:
        return max(2.0, self.n - 1.0)

    def _pool_freedom(self, kurtosis: FloatArray) -> FloatArray:
        """Return 2 n / (kurtosis - 1), the kurtosis corrected for small samples (Joanes and Gill 1998, G2)."""
        n0 = len(self.units)
        if n0 < 4:
            return np.full(np.shape(kurtosis), self._most)
        excess = ((n0 + 1) * (kurtosis - 3.0) + 6) * (n0 - 1) / ((n0 - 2) * (n0 - 3))
        return np.clip(2.0 * self.n / np.maximum(2.0 + excess, 1e-9), 2.0, self._most)


def _weighted_kurtosis(units: FloatArray, mass: FloatArray) -> FloatArray:
    """Return the weighted kurtosis of each column about 0; NaN for a constant column."""
    share = mass / mass.sum()
    second = share @ units**2
    scale = float(second.max(initial=0.0))
    varies = second > 1e-12 * scale
    return np.where(varies, (share @ units**4) / np.where(varies, second, 1.0) ** 2, np.nan)


def forecast_sample(
    residual: FloatArray, weight: FloatArray, expected: FloatArray, n: float, copies: float = 1.0
) -> Forecast:
    """Forecast the error units of a sample in which an item like i is drawn `expected[i]` times.

    The future inclusion probability is expected / copies, where the future population holds `copies` items per present
    one: 1 for the same test set, infinite for inference beyond it. With Deville's centring, Var = 1/N^2 sum_U q (1 - q
    / copies) (e / q - A)^2, and sums over U are weighted sums over the judged items. `residual` (n0 x M) are those of
    the future estimator about their weighted mean; `weight` is the number of items of the population that each judged
    one represents; `n` is the future sample size, the sum of the expected draws of all items.

    >>> e = np.array([[-1.0], [0.0], [1.0]])
    >>> future = forecast_sample(e, np.full(3, 10.0), np.full(3, 0.2), n=6)
    >>> bool(np.isclose(future.covariance[0, 0], (1 / 6 - 1 / 30) * e.var(ddof=1)))
    True
    """
    free = np.clip(1.0 - expected / copies, 0.0, 1.0)
    mass = weight * expected
    parts = residual / expected[:, None]
    free_mass = mass * free
    total = float(free_mass.sum())
    centre = (free_mass @ parts) / total if not is_negligible(total, mass.sum()) else np.zeros(residual.shape[1])
    return Forecast(np.sqrt(free)[:, None] * (parts - centre), mass, float(weight.sum()), float(n))


def expected_cluster_pairs(expected: FloatArray, cluster: IntArray) -> float:
    """Return the expected number of ordered pairs of drawn items of the same cluster, for independent draws.

    >>> expected_cluster_pairs(np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]))
    0.5
    """
    sums = np.bincount(cluster, expected)
    return float(max(0.0, (sums**2).sum() - (expected**2).sum()))


def draw_true_means(values: FloatArray, covariance: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
    """Draw true means given estimates of them: draws x M.

    The prior of the means is theta_a ~ N(mu, s). Drawing from N(estimate, Cov) alone would add the error to the spread
    once more, and make the ranking look too easy. With fewer than four systems the real share of the spread cannot be
    estimated, and the estimates are not shrunken.

    >>> theta = draw_true_means(np.array([1.0, 2.0, 3.0, 4.0]), np.eye(4) * 1e-6, 500, np.random.default_rng(0))
    >>> theta.mean(axis=0).round(2)
    array([1., 2., 3., 4.])
    """
    error = rng.standard_normal((draws, len(values))) @ covariance_root(covariance).T
    if len(values) < MIN_SYSTEMS:
        return values + error
    middle = float(values.mean())
    shares, probability = share_posterior(values - middle, contrast_variance(covariance))
    share = rng.choice(shares, size=(draws, 1), p=probability)
    common = error.mean(axis=1, keepdims=True)
    means: FloatArray = middle + common + share * (values - middle) + np.sqrt(share) * (error - common)
    return means


def cap_covariance(covariance: FloatArray, limit: FloatArray) -> FloatArray:
    """Return the covariance capped at `limit` in every direction.

    >>> cap_covariance(np.diag([1.0, 4.0]), np.diag([2.0, 2.0])).round(9).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    half, share, axes = _relative_eigenvalues(covariance, limit)
    cut: FloatArray = half @ (axes * share) @ axes.T @ half
    return cut


def combine_covariances(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the covariance of the best average of two independent estimates: (A^-1 + B^-1)^-1 = A (A + B)^-1 B.

    >>> combine_covariances(np.eye(1) * 3.0, np.eye(1) * 6.0).tolist()
    [[2.0]]
    """
    combined: FloatArray = first @ np.linalg.pinv(first + second, hermitian=True) @ second
    return (combined + combined.T) / 2


def extend_estimates(
    truth: FloatArray, values: FloatArray, known_covariance: FloatArray, covariance: FloatArray, draws: FloatArray
) -> FloatArray:
    """Draw estimates after more items of the same set, given the truth and the present estimates (draws x M).

    The final estimate, with covariance F, averages the present estimate N(values, C) and that of the new items, truth +
    N(0, (F^-1 - C^-1)^-1). Its mean is values + (I - F C^-1) (truth - values) and its variance F - F C^-1 F. A fresh
    sample in its place would discard what is known. `draws` are standard normal.

    >>> x = extend_estimates(np.full((4, 1), 3.0), np.zeros(1), np.eye(1), np.eye(1) * 0.25, np.zeros((4, 1)))
    >>> float(x[0, 0].round(9))
    2.25
    """
    half, share, axes = _relative_eigenvalues(covariance, known_covariance)
    back = np.linalg.pinv(half, hermitian=True)
    observed, noise = (truth - values) @ back @ axes, draws @ axes
    final: FloatArray = values + ((1 - share) * observed + np.sqrt(share * (1 - share)) * noise) @ axes.T @ half
    return final


def _relative_eigenvalues(covariance: FloatArray, limit: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the symmetric root of `limit`, and shares of it (0 to 1) that remain along orthogonal axes."""
    values, vectors = np.linalg.eigh(limit)
    values = np.where(values > 1e-12 * max(float(values.max(initial=0.0)), 1e-300), values, 0.0)
    half = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors * np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 0)) @ vectors.T
    share, axes = np.linalg.eigh(inverse @ covariance @ inverse)
    return half, np.clip(share, 0.0, 1.0), axes


def covariance_root(covariance: FloatArray) -> FloatArray:
    """Return R with R R' = covariance, which may have any rank.

    >>> r = covariance_root(np.ones((2, 2)))
    >>> (r @ r.T).round(12).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    values, vectors = np.linalg.eigh(covariance)
    matrix: FloatArray = vectors * np.sqrt(np.clip(values, 0.0, None))
    return matrix
