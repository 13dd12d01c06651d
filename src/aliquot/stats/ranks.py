"""Ranking of systems: p-values from estimates, clusters, rank intervals, P(best)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr, stdtr

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed, row_blocks
from aliquot.stats.shrinkage import draw_true_means
from aliquot.validation import at_least, one_of

ClusterRule = Literal["any", "neighbour"]


def assign_clusters(estimates: FloatArray, better: BoolArray, rule: ClusterRule = "any") -> IntArray:
    """Number the clusters of systems, 1 = best (docs/methods.md, section 5; Zouhar et al. 2025, Algorithm 1).

    Systems are processed in order of decreasing estimate. With rule "any" a system starts a new cluster if some member
    of the current cluster is significantly better; with rule "neighbour", the paper's Algorithm 1, if the last member
    is (there by a one-sided Wilcoxon test, p < 0.05). Systems with equal estimates share a cluster, and are all "the
    last member" for the next; those with NaN come last.

    >>> better = np.array([[False, False, True], [False, False, False], [False, False, False]])
    >>> estimates = np.array([3.0, 2.0, 1.0])
    >>> assign_clusters(estimates, better), assign_clusters(estimates, better, rule="neighbour")
    (array([1, 1, 2]), array([1, 1, 1]))
    """
    one_of("rule", rule, get_args(ClusterRule))
    if estimates.ndim != 1:
        raise OptionError(f"`estimates` has shape {estimates.shape}; give one number per system")
    better = validate_better(better, len(estimates))
    missing = np.isnan(estimates)
    numbers = np.zeros(len(estimates), dtype=np.int64)
    number, rivals = 0, np.empty(0, dtype=np.int64)
    for level in np.unique(estimates[~missing])[::-1]:
        level_systems = np.flatnonzero(estimates == level)
        starts = number == 0 or bool(better[np.ix_(rivals, level_systems)].any())
        number += starts
        numbers[level_systems] = number
        rivals = level_systems if starts or rule == "neighbour" else np.concatenate([rivals, level_systems])
    numbers[missing] = number + 1
    return numbers


def validate_better(better: BoolArray, systems: int) -> BoolArray:
    """Return a table of significant differences; raise OptionError if two systems beat each other.

    >>> validate_better(np.array([[False, True], [False, False]]), 2)
    array([[False,  True],
           [False, False]])
    """
    table = np.asarray(better)
    if table.shape != (systems, systems):
        raise OptionError(f"`better` has shape {table.shape}; give a table of {systems} x {systems} systems")
    if table.dtype != np.bool_:
        raise OptionError(f"`better` holds {table.dtype}; give booleans, such as p < 0.05")
    mutual = np.argwhere(table & table.T)
    if len(mutual):
        a, b = (int(system) for system in mutual[0])
        raise OptionError(f"better[{a}, {b}] and better[{b}, {a}] are both true; test each pair one-sided below 0.5")
    return table


_CHUNK = 1 << 22
"""Numbers that a temporary array may hold."""

_MIN_EIGENVALUE = 1e-12
"""Relative eigenvalue of a correlation matrix below which it is rounding."""

_TIE = 1e-9
"""Relative difference of two draws that is rounding (of eigenvectors, see `_MIN_EIGENVALUE`)."""


def normal_p(difference: FloatArray | float, se: FloatArray | float) -> FloatArray:
    """Return one-sided p-values 1 - Phi(d / se); 0, 0.5 or 1 for se = 0.

    >>> normal_p(np.array([1.96, -1.96, 0.0, 2.0]), np.array([1.0, 1.0, 0.0, np.nan])).round(3)
    array([0.025, 0.975, 0.5  ,   nan])
    """
    return np.asarray(ndtr(-_z_ratio(difference, se)), dtype=np.float64)


def student_p(difference: FloatArray | float, se: FloatArray | float, df: FloatArray | float) -> FloatArray:
    """Return one-sided p-values 1 - T_df(d / se); infinite df gives `normal_p`, df <= 0 or NaN gives NaN.

    >>> student_p(np.array([2.0, 2.0, 2.0]), 1.0, np.array([5.0, np.inf, 0.0])).round(3)
    array([0.051, 0.023,   nan])
    """
    ratio, freedom = np.broadcast_arrays(_z_ratio(difference, se), np.asarray(df, dtype=np.float64))
    p_values = np.where(np.isinf(freedom), ndtr(-ratio), stdtr(freedom, -ratio))
    return np.where(freedom > 0, p_values, np.nan)


def full_set_p(difference: FloatArray | float, sd_difference: FloatArray | float, population: int) -> FloatArray:
    """Return the predicted p-value on the whole test set, 1 - Phi(d sqrt(N) / s_d) (docs/methods.md, section 5).

    The median prediction of the result of judging all items, not the significance of the judged ones. s_d is the
    standard deviation of the difference over items, not a standard error.

    >>> full_set_p(np.array([0.1]), np.array([1.0]), 400).round(3)
    array([0.023])
    """
    at_least("population", population, 1, "give the number of items of the whole test set, at least 1")
    return normal_p(difference, np.asarray(sd_difference, dtype=np.float64) / np.sqrt(population))


def rank_intervals(better: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the best and worst rank of each system: 1 + number significantly better, M - number significantly worse.

    >>> rank_intervals(np.array([[False, False, True], [False, False, False], [False, False, False]]))
    (array([1, 1, 2]), array([2, 3, 3]))
    """
    better = validate_better(better, len(better))
    return 1 + better.sum(axis=0, dtype=np.int64), len(better) - better.sum(axis=1, dtype=np.int64)


def probability_best(
    estimates: FloatArray, covariance: FloatArray, draws: int = 10000, seed: Seed = 0, *, shrink: bool = False
) -> FloatArray:
    """Return the probability that each system is the best, from draws of the true means.

    True means are drawn from N(estimate, Cov), or, with `shrink`, by `draw_true_means`, because from four systems on
    the largest of noisy estimates is too large. Ties are split. A system without an estimate has probability 0; all are
    NaN where no system has an estimate, or their covariance is unknown. The covariance may be singular.

    >>> probability_best(np.array([1.0, 1.0, 0.0, np.nan]), np.zeros((4, 4)))
    array([0.5, 0.5, 0. , 0. ])
    """
    at_least("draws", draws, 1)
    if estimates.ndim != 1 or covariance.shape != (len(estimates), len(estimates)):
        raise OptionError(f"`estimates` is {estimates.shape} and `covariance` {covariance.shape}; give M and M x M")
    defined = np.flatnonzero(~np.isnan(estimates))
    mean, cov = estimates[defined], covariance[np.ix_(defined, defined)]
    if not len(defined) or np.isnan(cov).any():
        return np.full(len(estimates), np.nan)
    sd = _validate_covariance(mean, cov)
    factor, rng = sd[:, None] * correlation_root(cov, sd), np.random.default_rng(seed)
    rounding = _TIE * sd + _MIN_EIGENVALUE * np.abs(mean)
    wins = np.zeros(len(defined))
    for block in row_blocks(draws, len(defined), _CHUNK):
        size = block.stop - block.start
        means = (
            draw_true_means(mean, cov, size, rng)
            if shrink
            else mean + rng.standard_normal((size, len(defined))) @ factor.T
        )
        won = means + rounding >= (means - rounding).max(axis=1, keepdims=True)
        wins += (won / won.sum(axis=1, keepdims=True)).sum(axis=0)
    result = np.zeros(len(estimates))
    result[defined] = wins / draws
    return result


def _z_ratio(difference: FloatArray | float, se: FloatArray | float) -> FloatArray:
    """Return d / se; where se is 0, an infinity of d's sign, or 0."""
    d, s = np.broadcast_arrays(np.asarray(difference, dtype=np.float64), np.asarray(se, dtype=np.float64))
    if (s < 0).any():
        raise OptionError(f"the standard error {s[s < 0][0]} is negative; give the square root of a variance, or NaN")
    ratio = np.where(d == 0, 0.0, np.copysign(np.inf, d))
    with np.errstate(over="ignore", invalid="ignore"):
        np.divide(d, s, out=ratio, where=s > 0)
    return np.where(np.isnan(d) | np.isnan(s), np.nan, ratio)


def _validate_covariance(mean: FloatArray, cov: FloatArray) -> FloatArray:
    if np.isinf(mean).any() or np.isinf(cov).any():
        raise OptionError("estimates or covariance hold infinite values; give NaN for a system without an estimate")
    variance = np.diag(cov)
    if (variance < 0).any():
        raise OptionError(f"`covariance` has the variance {variance.min()} on its diagonal; variances are at least 0")
    sd = np.sqrt(variance)
    if (np.abs(cov - cov.T) > 1e-6 * np.outer(sd, sd)).any():
        raise OptionError("covariance is not symmetric; give the average of it and its transpose if that is meant")
    return sd


def correlation_root(cov: FloatArray, sd: FloatArray) -> FloatArray:
    """Return F with F F' = the correlation matrix; negative and negligible eigenvalues are set to 0."""
    scale = np.where(sd > 0, sd, 1.0)
    values, vectors = np.linalg.eigh(cov / np.outer(scale, scale))
    return np.asarray(vectors * np.sqrt(np.where(values > _MIN_EIGENVALUE * values[-1], values, 0.0)), dtype=np.float64)
