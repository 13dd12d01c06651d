"""Multiple testing: two-sided p-values, Benjamini-Hochberg, Holm, Sidak, step-down max-t."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy.special import ndtri, stdtrit

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, Seed, row_blocks
from aliquot.stats.ranks import correlation_root
from aliquot.validation import one_of

Adjustment = Literal["bh", "holm", "sidak", "none"]
"""Adjustments of a family of p-values."""
ADJUSTMENTS: tuple[Adjustment, ...] = get_args(Adjustment)

PairAdjustment = Literal["bh", "holm", "maxt", "none"]
"""Adjustments of all pairs of systems; max-t also needs the joint covariance of the estimates."""
PAIR_ADJUSTMENTS: tuple[PairAdjustment, ...] = get_args(PairAdjustment)

MAX_T_DRAWS = 20_000
_CHUNK = 1 << 22  # numbers that a temporary array may hold


def adjust_p_values(p: FloatArray, method: Adjustment = "holm") -> FloatArray:
    """Adjust a family of p-values.

    bh: p'_(i) = min_{j >= i} m p_(j) / j, controls the false discovery rate (Benjamini and Hochberg 1995) for
    independent or positively dependent tests. holm: step-down, p'_(i) = min(1, max_{j <= i} (m - j + 1) p_(j)) (Holm
    1979), valid under any dependence. sidak: p' = 1 - (1 - p)^m, exact for independent tests. m counts the finite
    p-values; NaN stays NaN.

    >>> adjust_p_values(np.array([0.01, 0.04, np.nan]), "sidak").round(4)
    array([0.0199, 0.0784,    nan])
    >>> adjust_p_values(np.array([0.01, 0.04, 0.03]), "bh").round(4)
    array([0.03, 0.04, 0.04])
    """
    one_of("adjust", method, ADJUSTMENTS)
    p = np.asarray(p, dtype=np.float64)
    defined = ~np.isnan(p)
    m = int(defined.sum())
    result = p.copy()
    if method == "sidak":
        result[defined] = -np.expm1(m * np.log1p(-np.minimum(p[defined], 1.0 - 1e-16)))
    elif method in ("bh", "holm"):
        order = np.argsort(p[defined], kind="stable")
        values = np.empty(m)
        if method == "holm":
            steps = np.maximum.accumulate(p[defined][order] * np.arange(m, 0, -1))
        else:
            steps = np.minimum.accumulate((p[defined][order] * m / np.arange(1, m + 1))[::-1])[::-1]
        values[order] = np.minimum(steps, 1.0)
        result[defined] = values
    return result


def choose_adjustment(adjust: str | None, rule: str) -> PairAdjustment:
    """Return the adjustment of all pairs: bh by default, none with the rule `published`, which tests pairs alone."""
    if adjust is None:
        return "none" if rule == "published" else "bh"
    method = one_of("adjust", adjust, PAIR_ADJUSTMENTS)
    if rule == "published" and method != "none":
        raise OptionError(f"`rule=published` tests each pair alone; leave `adjust` ('{adjust}') or `rule` out")
    return method


def rejected_by_bh(p: FloatArray, alpha: float) -> BoolArray:
    """Return where p-values are below `alpha` after Benjamini and Hochberg's adjustment over the row; NaN is ignored.

    >>> rejected_by_bh(np.array([[0.01, 0.04, 0.03], [0.01, 0.06, 0.05]]), 0.05)
    array([[ True,  True,  True],
           [ True, False, False]])
    """
    if not p.shape[1]:
        return np.zeros(p.shape, dtype=np.bool_)
    defined = np.isfinite(p)
    ordered = np.sort(np.where(defined, p, np.inf), axis=1)
    below = ordered < alpha * np.arange(1, p.shape[1] + 1) / np.maximum(defined.sum(axis=1, keepdims=True), 1)
    last = np.where(below, np.arange(p.shape[1]), -1).max(axis=1, keepdims=True, initial=-1)
    limit = np.where(last >= 0, np.take_along_axis(ordered, np.maximum(last, 0), axis=1), -np.inf)
    rejected: BoolArray = defined & (p <= limit)
    return rejected


def two_sided_p(p: FloatArray) -> FloatArray:
    """Return two-sided p-values from one-sided ones: min(1, 2 min(p_ab, p_ba)); 1 on the diagonal.

    >>> two_sided_p(np.array([[0.5, 0.02], [0.98, 0.5]]))
    array([[1.  , 0.04],
           [0.04, 1.  ]])
    """
    _validate_one_sided(p)
    doubled = np.minimum(2.0 * np.minimum(p, p.T), 1.0)
    np.fill_diagonal(doubled, 1.0)
    return doubled


def adjust_pairs(p: FloatArray, method: Adjustment = "bh") -> FloatArray:
    """Adjust the two-sided p-values of all pairs (M x M, symmetric) over the M (M - 1) / 2 pairs; NaN stays NaN.

    >>> p = np.array([[1.0, 0.01, 0.02], [0.01, 1.0, 0.4], [0.02, 0.4, 1.0]])
    >>> adjust_pairs(p, "bh").round(3)
    array([[1.  , 0.03, 0.03],
           [0.03, 1.  , 0.4 ],
           [0.03, 0.4 , 1.  ]])
    """
    first, second = np.triu_indices(len(p), 1)
    result = np.ones(p.shape)
    result[first, second] = result[second, first] = adjust_p_values(p[first, second], method)
    return result


def adjust_by_max_t(
    p: FloatArray, covariance: FloatArray, freedom: FloatArray, *, draws: int = MAX_T_DRAWS, seed: Seed = 0
) -> FloatArray:
    """Adjust the two-sided p-values of all pairs by step-down max-t (Westfall and Young 1993).

    Each p becomes the statistic |t| with `freedom` degrees of freedom. Under equal means the largest statistic of a set
    of pairs is simulated from N(0, C) over the means, with a common chi-square divisor of the fewest degrees of
    freedom. The largest observed statistic is compared with the maximum over all pairs, the next with the maximum over
    the remaining pairs, and so on. If a pair has no variance, Holm's adjustment is used.
    """
    first, second = np.triu_indices(len(p), 1)
    variance = np.diag(covariance)[first] + np.diag(covariance)[second] - 2 * covariance[first, second]
    total = np.diag(covariance)[first] + np.diag(covariance)[second]
    value = p[first, second]
    use = np.flatnonzero(np.isfinite(value) & (variance > 1e-12 * total))
    result, tested = p.copy(), int(np.isfinite(value).sum())
    if tested < 2:
        return result
    if len(use) < tested:  # some pairs have no variance: there is no joint distribution of all
        return adjust_pairs(p, "holm")
    least = float(np.nanmin(np.broadcast_to(freedom, p.shape)[first, second][use]))
    statistic = np.abs(stdtrit(least, value[use] / 2)) if np.isfinite(least) else np.abs(ndtri(value[use] / 2))
    order = use[np.argsort(-statistic, kind="stable")]
    ranked = np.sort(statistic)[::-1]
    exceeded = np.zeros(len(order))
    sd = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    root, rng = (
        sd[:, None] * correlation_root(np.nan_to_num(covariance), np.nan_to_num(sd)),
        np.random.default_rng(seed),
    )
    for block in row_blocks(draws, len(order) + len(p), _CHUNK):
        size = block.stop - block.start
        z = rng.standard_normal((size, root.shape[1])) @ root.T
        divisor = np.sqrt(rng.chisquare(least, size) / least) if np.isfinite(least) else np.ones(size)
        statistics = np.abs(z[:, first[order]] - z[:, second[order]]) / np.sqrt(variance[order]) / divisor[:, None]
        largest_left = np.maximum.accumulate(statistics[:, ::-1], axis=1)[:, ::-1]
        exceeded += (largest_left >= ranked).sum(axis=0)
    steps = np.maximum.accumulate((exceeded + 1.0) / (draws + 1.0))
    a, b = first[order], second[order]
    result[a, b] = result[b, a] = np.maximum(steps, value[order])
    return result


def significantly_better(values: FloatArray, p: FloatArray, alpha: float) -> BoolArray:
    """Return pairs in which the row has the higher value and the two-sided p is below alpha; False for NaN."""
    with np.errstate(invalid="ignore"):
        better: BoolArray = (values[:, None] > values[None, :]) & (np.nan_to_num(p, nan=1.0) < alpha)
    return better


def _validate_one_sided(p: FloatArray) -> None:
    if p.ndim != 2 or p.shape[0] != p.shape[1]:
        raise OptionError(f"`p` has shape {p.shape}; give a systems x systems table")
    bad = p[(p < 0) | (p > 1)]
    if bad.size:
        raise OptionError(f"`p` holds {bad[0]}; p-values lie between 0 and 1")
    low = np.argwhere(np.triu(p + p.T < 1 - 1e-6, 1))
    if len(low):
        a, b = (int(system) for system in low[0])
        raise OptionError(
            f"p[{a}, {b}] is {p[a, b]} and p[{b}, {a}] is {p[b, a]}; give one-sided values, which sum to at least 1"
        )
