"""Pairwise tests of systems, and soft pairwise accuracy of subsets.

Invariant: functions use only differences of two systems on the items where both have a score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr

from aliquot.errors import OptionError
from aliquot.stats.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    Seed,
    average_ranks,
    is_negligible,
    max_abs,
    round_significant,
    row_blocks,
    validate_scores,
)
from aliquot.validation import at_least, between, one_of

_CHUNK = 1 << 22
"""Numbers in a temporary array."""

_TIE = 1e-11
"""Relative difference of sums of equal numbers in different orders."""

_ROUNDING = 1e-14
"""Difference of two scores, relative to the largest, that is rounding: means of equal judgments in different orders."""


@dataclass(frozen=True)
class PairSums:
    """Sufficient statistics of the differences d = y_a - y_b, one entry for every pair a < b."""

    systems: int  # number of systems
    first: IntArray  # system a
    second: IntArray  # system b
    total: FloatArray  # sum of d over the items that both have
    squares: FloatArray  # sum of d^2
    count: IntArray  # number of those items


def pairwise_sums(scores: FloatArray) -> PairSums:
    """Compute sums of the differences of every two systems by matrix products (docs/methods.md, section 5).

    >>> sums = pairwise_sums(np.array([[3.0, 1.0], [2.0, 1.0], [np.nan, 9.0]]))
    >>> sums.total, sums.squares, sums.count
    (array([3.]), array([5.]), array([2]))
    """
    validate_scores(scores)
    first, second = np.triu_indices(scores.shape[1], 1)
    centred, present = _centre_items(scores)
    # Missing cells are 0 in both factors, so that products are over common items.
    weight = present.astype(np.float64)
    sums, powers, shared = centred.T @ weight, (centred**2).T @ weight, weight.T @ weight
    total = (sums - sums.T)[first, second]
    norms = (powers + powers.T)[first, second]
    squares = norms - 2 * (centred.T @ centred)[first, second]
    # For nearly equal systems the subtraction leaves only rounding; those few pairs are computed directly.
    for pair in np.flatnonzero(squares <= 1e-4 * norms):
        difference = scores[:, first[pair]] - scores[:, second[pair]]
        total[pair], squares[pair] = np.nansum(difference), np.nansum(difference**2)
    count = shared[first, second]
    equal = is_negligible(np.sqrt(np.maximum(squares, 0.0)), np.sqrt(count) * max_abs(scores), _ROUNDING)
    total[equal] = squares[equal] = 0.0
    return PairSums(scores.shape[1], first, second, total, squares, count.astype(np.int64))


def analytic_p(scores: FloatArray) -> FloatArray:
    """Return one-sided p-values of all pairs, p_ab = 1 - Phi(sum d / sqrt(sum d^2)) (docs/methods.md, section 5).

    The limit of the sign-flip permutation test. Pairs without differences or common items have 0.5.

    >>> analytic_p(np.array([[3.0, 1.0], [2.0, 1.0]])).round(3)
    array([[0.5 , 0.09],
           [0.91, 0.5 ]])
    """
    sums = pairwise_sums(scores)
    # Both tails are computed: 1 - p would lose the digits of a p-value below 1e-16.
    return _fill_p_matrix(sums, _p_values(sums.total, sums.squares), _p_values(-sums.total, sums.squares))


def permutation_p(scores: FloatArray, permutations: int = 1000, seed: Seed = 0) -> FloatArray:
    """Return one-sided p-values by the paired sign-flip test (Zouhar et al. 2025, appendix B).

    p = (b + 1) / (B + 1), b the number of B random sign flips of d whose sum exceeds the observed one, ties half
    (docs/methods.md, section 5). All pairs share the flips. As `analytic_p`, but p[a, b] + p[b, a] = (B + 2) / (B + 1).

    >>> p = permutation_p(np.array([[3.0, 1.0], [2.0, 1.0], [5.0, 1.0]] * 4), 199, seed=1)
    >>> float(p[0, 1])
    0.005
    """
    at_least("permutations", permutations, 1)
    sums, rng = pairwise_sums(scores), np.random.default_rng(seed)
    centred, present = _centre_items(scores)
    # Without missing scores, flipping systems and subtracting is cheaper than flipping differences of pairs.
    flipped = centred if present.all() else pair_differences(scores)
    magnitude = np.abs(centred).sum(axis=0)
    tie = _TIE * (magnitude[sums.first] + magnitude[sums.second])
    exceeding = np.zeros(len(sums.total))
    for block in row_blocks(permutations, max(len(scores), len(sums.total)), _CHUNK):
        size = (block.stop - block.start, len(scores))
        null = (2.0 * rng.integers(0, 2, size, dtype=np.int8) - 1.0) @ flipped
        if present.all():
            null = null[:, sums.first] - null[:, sums.second]
        excess = null - sums.total
        exceeding += 0.5 * ((excess > tie).sum(axis=0) + (excess >= -tie).sum(axis=0))
    upper = (exceeding + 1) / (permutations + 1)
    lower = (permutations - exceeding + 1) / (permutations + 1)
    differ = sums.squares > 0
    return _fill_p_matrix(sums, np.where(differ, upper, 0.5), np.where(differ, lower, 0.5))


def spa(p_subset: FloatArray, p_full: FloatArray) -> float:
    """Return soft pairwise accuracy, 1 - mean over pairs of |p_ab - p'_ab| (Zouhar et al. 2025, eq. 17).

    >>> spa(np.array([[0.5, 0.2], [0.8, 0.5]]), np.array([[0.5, 0.1], [0.9, 0.5]]))
    0.9
    """
    if p_subset.shape != p_full.shape or p_full.ndim != 2 or p_full.shape[0] != p_full.shape[1]:
        raise OptionError(f"`p_subset` is {p_subset.shape}, `p_full` {p_full.shape}; give two systems x systems tables")
    pairs = np.triu_indices(len(p_full), 1)
    return float(1 - np.abs(p_subset[pairs] - p_full[pairs]).mean()) if len(p_full) > 1 else float("nan")


def prefix_spa(scores_in_order: FloatArray, p_full: FloatArray | None = None) -> FloatArray:
    """Return analytic soft pairwise accuracy of the first 1, 2, ..., N items, in one pass (docs/methods.md, section 6).

    Items are in the order of the selection; `p_full` is by default that of all of them.

    >>> prefix_spa(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])).round(3)
    array([0.877, 0.782, 1.   ])
    """
    target = analytic_p(scores_in_order) if p_full is None else p_full
    pairs = scores_in_order.shape[1] * (scores_in_order.shape[1] - 1) // 2
    total, squares = np.zeros(pairs), np.zeros(pairs)
    result = np.empty(len(scores_in_order))
    for rows in row_blocks(len(result), pairs, _CHUNK):
        difference = pair_differences(scores_in_order[rows])
        totals = total + np.cumsum(difference, axis=0)
        powers = squares + np.cumsum(difference**2, axis=0)
        result[rows] = spa_from_sums(totals, powers, target)
        total, squares = totals[-1], powers[-1]
    return result


@dataclass(frozen=True)
class ExpectedAccuracy:
    """Mean over simple random samples, its standard error, and the number of samples."""

    value: float
    error: float
    draws: int


_SAMPLES_PER_BLOCK = 250
"""Samples drawn between two checks of the error."""


def random_spa(
    scores: FloatArray, n: int, seed: Seed = 0, *, error: float = 3e-4, max_samples: int = 20_000
) -> ExpectedAccuracy:
    """Return the expected analytic soft pairwise accuracy of a simple random sample of n items (section 6).

    Samples are drawn until the standard error of the mean is at most `error`, at least 500 and at most `max_samples`.
    Scores must be complete. One matrix product gives the sums of a block of samples.

    >>> scores = np.random.default_rng(0).normal(size=(60, 3)) + np.arange(3)
    >>> found = random_spa(scores, 12)
    >>> bool(0.9 < found.value < 1.0 and found.error <= 3e-4)
    True
    """
    between("n", n, 1, len(scores), remedy=f"give a number from 1 to {len(scores)}, the number of items")
    rng, target = np.random.default_rng(seed), analytic_p(scores)
    if n == len(scores):
        return ExpectedAccuracy(1.0, 0.0, 1)
    difference = pair_differences(scores)
    terms, pairs = np.hstack([difference, difference**2]), difference.shape[1]
    values = np.empty(0)
    while len(values) < max_samples:
        keys = rng.random((_SAMPLES_PER_BLOCK, len(scores)))
        member = (keys <= np.partition(keys, n - 1, axis=1)[:, n - 1 : n]).astype(np.float64)
        sums = member @ terms
        values = np.concatenate([values, spa_from_sums(sums[:, :pairs], sums[:, pairs:], target)])
        spread = float(values.std(ddof=1) / np.sqrt(len(values)))
        if len(values) > _SAMPLES_PER_BLOCK and not spread > error:
            break
    return ExpectedAccuracy(float(values.mean()), spread, len(values))


def pair_differences(scores: FloatArray) -> FloatArray:
    """Return differences d = y_a - y_b of every pair on every item, 0 where either score is missing.

    >>> pair_differences(np.array([[3.0, 1.0, np.nan]]))
    array([[2., 0., 0.]])
    """
    validate_scores(scores)
    first, second = np.triu_indices(scores.shape[1], 1)
    difference = scores[:, first] - scores[:, second]
    return np.where(np.isnan(difference) | is_negligible(difference, max_abs(scores), _ROUNDING), 0.0, difference)


def spa_from_sums(total: FloatArray, squares: FloatArray, p_full: FloatArray) -> FloatArray:
    """Return analytic soft pairwise accuracy of many subsets, from sums of d and d^2, subsets x pairs (section 6).

    >>> spa_from_sums(np.array([[0.0]]), np.array([[2.0]]), np.array([[0.5, 0.1], [0.9, 0.5]]))
    array([0.6])
    """
    target = p_full[np.triu_indices(len(p_full), 1)]
    if total.shape[1] != len(target):
        raise OptionError(
            f"`p_full` is {p_full.shape}, which makes {len(target)} pairs; the scores have {total.shape[1]}"
        )
    if not len(target):
        return np.full(len(total), np.nan)
    return np.asarray(1 - np.abs(_p_values(total, squares) - target).mean(axis=1), dtype=np.float64)


def _centre_items(scores: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Centre scores by item, 0 where missing: the same differences with smaller numbers to round."""
    present = ~np.isnan(scores)
    filled = np.where(present, scores, 0.0)
    mean = filled.sum(axis=1, keepdims=True) / np.maximum(present.sum(axis=1, keepdims=True), 1)
    return np.where(present, filled - mean, 0.0), present


def _p_values(total: FloatArray, squares: FloatArray) -> FloatArray:
    z = np.divide(total, np.sqrt(squares), out=np.zeros_like(total), where=squares > 0)
    return np.asarray(ndtr(-z), dtype=np.float64)


def _fill_p_matrix(sums: PairSums, upper: FloatArray, lower: FloatArray) -> FloatArray:
    """Fill a matrix with the pairs' p-values above and below the diagonal, 0.5 on it."""
    p_values = np.full((sums.systems, sums.systems), 0.5)
    p_values[sums.first, sums.second] = upper
    p_values[sums.second, sums.first] = lower
    return p_values


WilcoxonMethod = Literal["auto", "asymptotic"]

MAX_EXACT_UNTIED = 50
"""Number of common items up to which "auto" uses the exact distribution without ties and zeros."""

MAX_EXACT_TIED = 13
"""The same with ties or zeros."""


def wilcoxon_p(scores: FloatArray, method: WilcoxonMethod = "auto", *, all_digits: bool = False) -> FloatArray:
    """Return one-sided p-values of all pairs by Wilcoxon's signed-rank test (Zouhar et al. 2025, Algorithm 1).

    The test is scipy's, for all pairs at once: zero differences are dropped, ties share their mean rank. "auto" follows
    scipy's rule pair by pair: the exact P(W >= w) with at most 50 common items without ties and zeros, or at most 13
    with them; then p[a, b] + p[b, a] = 1 + P(W = w). "asymptotic" uses the normal approximation for every pair.
    Differences tie, and are 0, if equal to 12 digits; with `all_digits`, as in scipy, if equal as floating-point
    numbers. Pairs without differences or common items have 0.5, as has the diagonal.

    >>> wilcoxon_p(np.array([[3.0, 1.0], [2.0, 1.0], [9.0, 5.0], [4.0, 4.5]]))
    array([[0.5   , 0.125 ],
           [0.9375, 0.5   ]])
    """
    one_of("method", method, get_args(WilcoxonMethod))
    validate_scores(scores)
    first, second = np.triu_indices(scores.shape[1], 1)
    p_values, scale = np.full((scores.shape[1], scores.shape[1]), 0.5), float(max_abs(scores))
    for pairs in row_blocks(len(first), len(scores), _CHUNK):
        a, b = first[pairs], second[pairs]
        difference = scores[:, a] - scores[:, b]
        difference = difference if all_digits else round_significant(difference, scale)
        differing = np.flatnonzero((np.nan_to_num(difference) != 0).any(axis=0))
        if len(differing):
            p_values[a[differing], b[differing]], p_values[b[differing], a[differing]] = _signed_rank_p(
                difference[:, differing], method
            )
    return p_values


def neighbour_p(scores: FloatArray) -> FloatArray:
    """Return Wilcoxon's one-sided p-values of each system against the next, as published: with `all_digits`.

    >>> neighbour_p(np.array([[3.0, 1.0], [2.0, 1.0], [9.0, 5.0], [4.0, 4.5]]))
    array([0.125])
    """
    validate_scores(scores)
    difference = scores[:, :-1] - scores[:, 1:]
    differing = np.flatnonzero((np.nan_to_num(difference) != 0).any(axis=0))
    p_values = np.full(difference.shape[1], 0.5)
    if len(differing):
        p_values[differing] = _signed_rank_p(difference[:, differing], "auto")[0]
    return p_values


def _signed_rank_p(difference: FloatArray, method: WilcoxonMethod) -> FloatArray:
    """Return p-values (2 x pairs) of a > b and of b > a; every pair has a non-zero difference."""
    from scipy.stats import wilcoxon  # noqa: PLC0415  (slow to import)

    common = (~np.isnan(difference)).sum(axis=0)
    difference = np.nan_to_num(difference)  # the test drops zeros, and so missing values
    size = np.sort(np.abs(difference), axis=0)
    tied = ((size[1:] == size[:-1]) & (size[1:] > 0)).any(axis=0) | ((size > 0).sum(axis=0) < common)
    exact = (common <= np.where(tied, MAX_EXACT_TIED, MAX_EXACT_UNTIED)) & (method == "auto")
    p_values = np.empty((2, len(common)))
    # Both tails are computed: 1 - p would lose the digits of a p-value below 1e-16.
    if not exact.all():
        z = wilcoxon(difference[:, ~exact], alternative="greater", method="asymptotic", axis=0).zstatistic
        p_values[:, ~exact] = ndtr([-z, z])
    if (exact & ~tied).any():
        for row, side in enumerate(("greater", "less")):
            test = wilcoxon(difference[:, exact & ~tied], alternative=side, method="exact", axis=0)
            p_values[row, exact & ~tied] = test.pvalue
    for pair in np.flatnonzero(exact & tied):
        p_values[:, pair] = _enumerated_p(difference[difference[:, pair] != 0, pair])
    return p_values


def _enumerated_p(difference: FloatArray) -> tuple[float, float]:
    """Return P(W >= w) and P(W <= w) over all sign flips, a hundred times faster than scipy's permutation test."""
    ranks = average_ranks(np.abs(difference))
    null = (np.arange(1 << len(ranks))[:, None] >> np.arange(len(ranks)) & 1) @ ranks
    observed = ranks[difference > 0].sum()
    return float((null >= observed).mean()), float((null <= observed).mean())


_MAX_EXACT_SIGNS = 12  # non-zero values up to which all 2^k signs are enumerated
_FLIPS = 10_000


def sign_flip_p(values: FloatArray, seed: Seed = 0) -> FloatArray:
    """Return two-sided p-values of a zero mean of each column, by sign flips.

    Exact (all signs) for up to 12 non-zero values: for differences of 0/1 scores that is McNemar's exact test.
    Otherwise 10,000 random signs plus the observed ones. NaN is ignored; a column of zeros has p = 1.

    >>> sign_flip_p(np.array([[1.0, 2.0], [1.0, -2.0], [1.0, 0.0]]))
    array([0.25, 1.  ])
    """
    x = np.nan_to_num(values)
    size = np.abs(x).max(axis=0, initial=0.0)
    active = np.abs(x) > 1e-12 * size
    total, tolerance = np.abs(x.sum(axis=0)), 1e-9 * size
    count = active.sum(axis=0)
    p = np.ones(x.shape[1])
    for column in np.flatnonzero((count > 0) & (count <= _MAX_EXACT_SIGNS)):
        k = int(count[column])
        signs = 1.0 - 2.0 * ((np.arange(1 << k)[:, None] >> np.arange(k)) & 1)
        sums = np.abs(signs @ x[active[:, column], column])
        p[column] = (sums >= total[column] - tolerance[column]).mean()
    long = np.flatnonzero(count > _MAX_EXACT_SIGNS)
    if len(long):
        x = x[active[:, long].any(axis=1)][:, long]
        rng, reached = np.random.default_rng(seed), np.zeros(len(long))
        for block in row_blocks(_FLIPS, len(x), _CHUNK):
            signs = rng.choice([-1.0, 1.0], size=(block.stop - block.start, len(x)))
            reached += (np.abs(signs @ x) >= total[long] - tolerance[long]).sum(axis=0)
        p[long] = (reached + 1.0) / (_FLIPS + 1.0)
    return p
