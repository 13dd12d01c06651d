"""Comparing systems in pairs: p-values and the soft pairwise accuracy of a subset.

Invariant: every function sees the differences of two systems on the items where both have a score, and nothing
else; pairs are ordered as `np.triu_indices(M, 1)`, and p[a, b] is small where a is better than b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed
from aliquot.stats.ranks import normal_p

# -- Comparing systems in pairs: p-values and the soft pairwise accuracy of a subset ---------------------------------


_CHUNK = 1 << 22
"""Numbers that a temporary array may hold."""

_TIE = 1e-11
"""Relative difference of two sums of the same numbers in another order that is taken for rounding."""


@dataclass(frozen=True)
class PairSums:
    """Sufficient statistics of the differences d = y_a - y_b, one entry for every pair a < b.

    Attributes:
        systems: Number of systems.
        first: System a.
        second: System b.
        total: Sum of d over the items that both have.
        squares: Sum of d^2.
        count: Number of those items.
    """

    systems: int
    first: IntArray
    second: IntArray
    total: FloatArray
    squares: FloatArray
    count: IntArray


def pairwise_sums(scores: FloatArray) -> PairSums:
    """Sum the differences of every two systems, through matrix products (METHODS 5).

    Args:
        scores: Items x systems, NaN = missing.

    Returns:
        Sums over the items on which both systems have a score.

    Raises:
        OptionError: Scores that are not a table or not finite.

    Example:
        >>> sums = pairwise_sums(np.array([[3.0, 1.0], [2.0, 1.0], [np.nan, 9.0]]))
        >>> sums.total, sums.squares, sums.count
        (array([3.]), array([5.]), array([2]))
    """
    _check(scores)
    first, second = np.triu_indices(scores.shape[1], 1)
    centred, present = _centred(scores)
    # Missing cells are 0 in both factors, so every product counts the items that both systems have.
    weight = present.astype(np.float64)
    sums, powers, both = centred.T @ weight, (centred**2).T @ weight, weight.T @ weight
    total = (sums - sums.T)[first, second]
    norms = (powers + powers.T)[first, second]
    squares = norms - 2 * (centred.T @ centred)[first, second]
    # Where systems are nearly the same the subtraction leaves rounding only; those few pairs are done directly.
    for pair in np.flatnonzero(squares <= 1e-4 * norms):
        difference = scores[:, first[pair]] - scores[:, second[pair]]
        total[pair], squares[pair] = np.nansum(difference), np.nansum(difference**2)
    return PairSums(scores.shape[1], first, second, total, squares, both[first, second].astype(np.int64))


def analytic_p(scores: FloatArray) -> FloatArray:
    """One-sided p-values of all pairs, p_ab = 1 - Phi(sum d / sqrt(sum d^2)) (METHODS 5).

    This is the limit of the sign-flip permutation test. Pairs without any difference, or without common items,
    have 0.5, as has the diagonal.

    Args:
        scores: Items x systems, NaN = missing.

    Returns:
        Systems x systems; p[a, b] small means a is better; p[b, a] = 1 - p[a, b].

    Example:
        >>> analytic_p(np.array([[3.0, 1.0], [2.0, 1.0]])).round(3)
        array([[0.5 , 0.09],
               [0.91, 0.5 ]])
    """
    sums = pairwise_sums(scores)
    # Both tails are computed: 1 - p would lose the digits of a p-value below 1e-16.
    return _matrix(sums, _p_values(sums.total, sums.squares), _p_values(-sums.total, sums.squares))


def permutation_p(scores: FloatArray, permutations: int = 1000, seed: Seed = 0) -> FloatArray:
    """One-sided p-values by the paired sign-flip test (METHODS 5; Zouhar et al. 2025, appendix B).

    p = (b + 1) / (B + 1), b the number of the B random sign flips of d whose sum exceeds the observed one, those
    that equal it counting half. All pairs see the same flips.

    Args:
        scores: Items x systems, NaN = missing.
        permutations: B.
        seed: Of the random signs.

    Returns:
        Systems x systems, as `analytic_p`; p[a, b] + p[b, a] = (B + 2) / (B + 1).

    Raises:
        OptionError: Fewer than one permutation, or unusable scores.

    Example:
        >>> p = permutation_p(np.array([[3.0, 1.0], [2.0, 1.0], [5.0, 1.0]] * 4), 199, seed=1)
        >>> float(p[0, 1])
        0.005
    """
    if permutations < 1:
        raise OptionError(f"permutations is {permutations}; give at least 1")
    sums, rng = pairwise_sums(scores), np.random.default_rng(seed)
    centred, present = _centred(scores)
    # With every score there, flipping systems and subtracting is cheaper than flipping the differences of pairs.
    flipped = centred if present.all() else pair_differences(scores)
    magnitude = np.abs(centred).sum(axis=0)
    tie = _TIE * (magnitude[sums.first] + magnitude[sums.second])
    exceeding = np.zeros(len(sums.total))
    step = max(1, _CHUNK // max(1, len(scores), len(sums.total)))
    for done in range(0, permutations, step):
        size = (min(step, permutations - done), len(scores))
        null = (2.0 * rng.integers(0, 2, size, dtype=np.int8) - 1.0) @ flipped
        if present.all():
            null = null[:, sums.first] - null[:, sums.second]
        excess = null - sums.total
        exceeding += 0.5 * ((excess > tie).sum(axis=0) + (excess >= -tie).sum(axis=0))
    upper = (exceeding + 1) / (permutations + 1)
    lower = (permutations - exceeding + 1) / (permutations + 1)
    differ = sums.squares > 0
    return _matrix(sums, np.where(differ, upper, 0.5), np.where(differ, lower, 0.5))


def spa(p_subset: FloatArray, p_full: FloatArray) -> float:
    """Soft pairwise accuracy, 1 - mean over pairs of |p_ab - p'_ab| (Zouhar et al. 2025, eq. 17).

    Args:
        p_subset: Systems x systems, p-values on the subset.
        p_full: The same on all items.

    Returns:
        Between 0 and 1; NaN for fewer than two systems.

    Raises:
        OptionError: Matrices of different shape.

    Example:
        >>> spa(np.array([[0.5, 0.2], [0.8, 0.5]]), np.array([[0.5, 0.1], [0.9, 0.5]]))
        0.9
    """
    if p_subset.shape != p_full.shape or p_full.ndim != 2 or p_full.shape[0] != p_full.shape[1]:
        raise OptionError(f"p_subset is {p_subset.shape} and p_full {p_full.shape}; give two systems x systems tables")
    pairs = np.triu_indices(len(p_full), 1)
    return float(1 - np.abs(p_subset[pairs] - p_full[pairs]).mean()) if len(p_full) > 1 else float("nan")


def prefix_spa(scores_in_order: FloatArray, p_full: FloatArray | None = None) -> FloatArray:
    """Analytic soft pairwise accuracy of the first 1, 2, ..., N items, in one pass (METHODS 6).

    Args:
        scores_in_order: Items x systems in the order of the selection, NaN = missing.
        p_full: P-values of the whole set; by default those of all the items given.

    Returns:
        One value per prefix.

    Example:
        >>> prefix_spa(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])).round(3)
        array([0.877, 0.782, 1.   ])
    """
    target = analytic_p(scores_in_order) if p_full is None else p_full
    pairs = scores_in_order.shape[1] * (scores_in_order.shape[1] - 1) // 2
    total, squares = np.zeros(pairs), np.zeros(pairs)
    result = np.empty(len(scores_in_order))
    step = max(1, _CHUNK // max(1, pairs))
    for start in range(0, len(result), step):
        rows = slice(start, start + step)
        difference = pair_differences(scores_in_order[rows])
        totals = total + np.cumsum(difference, axis=0)
        powers = squares + np.cumsum(difference**2, axis=0)
        result[rows] = spa_from_sums(totals, powers, target)
        total, squares = totals[-1], powers[-1]
    return result


def pair_differences(scores: FloatArray) -> FloatArray:
    """Differences d = y_a - y_b of every pair on every item, 0 where either score is missing.

    Args:
        scores: Items x systems, NaN = missing.

    Returns:
        Items x pairs.

    Example:
        >>> pair_differences(np.array([[3.0, 1.0, np.nan]]))
        array([[2., 0., 0.]])
    """
    _check(scores)
    first, second = np.triu_indices(scores.shape[1], 1)
    difference = scores[:, first] - scores[:, second]
    return np.where(np.isnan(difference), 0.0, difference)


def spa_from_sums(total: FloatArray, squares: FloatArray, p_full: FloatArray) -> FloatArray:
    """Analytic soft pairwise accuracy of many subsets, from the sums of their differences (METHODS 6).

    Args:
        total: Subsets x pairs, sums of d.
        squares: Subsets x pairs, sums of d^2.
        p_full: Systems x systems, p-values of the whole set.

    Returns:
        One value per subset; NaN for fewer than two systems.

    Raises:
        OptionError: As many pairs as `p_full` does not have.

    Example:
        >>> spa_from_sums(np.array([[0.0]]), np.array([[2.0]]), np.array([[0.5, 0.1], [0.9, 0.5]]))
        array([0.6])
    """
    target = p_full[np.triu_indices(len(p_full), 1)]
    if total.shape[1] != len(target):
        raise OptionError(
            f"p_full is {p_full.shape}, which makes {len(target)} pairs; the scores have {total.shape[1]}"
        )
    if not len(target):
        return np.full(len(total), np.nan)
    return np.asarray(1 - np.abs(_p_values(total, squares) - target).mean(axis=1), dtype=np.float64)


def _check(scores: FloatArray) -> None:
    if scores.ndim != 2:
        raise OptionError(f"scores has {scores.ndim} dimension(s); give an items x systems table")
    if np.isinf(scores).any():
        raise OptionError("scores holds infinite values; replace them by numbers, or by NaN for missing")


def _centred(scores: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Scores less the item's mean, 0 where missing: the same differences with smaller numbers to round."""
    present = ~np.isnan(scores)
    filled = np.where(present, scores, 0.0)
    mean = filled.sum(axis=1, keepdims=True) / np.maximum(present.sum(axis=1, keepdims=True), 1)
    return np.where(present, filled - mean, 0.0), present


def _p_values(total: FloatArray, squares: FloatArray) -> FloatArray:
    z = np.divide(total, np.sqrt(squares), out=np.zeros_like(total), where=squares > 0)
    return np.asarray(ndtr(-z), dtype=np.float64)


def _matrix(sums: PairSums, upper: FloatArray, lower: FloatArray) -> FloatArray:
    """Write the pairs' p-values above and below the diagonal."""
    p_values = np.full((sums.systems, sums.systems), 0.5)
    p_values[sums.first, sums.second] = upper
    p_values[sums.second, sums.first] = lower
    return p_values


# -- Wilcoxon's signed-rank test of all pairs of systems at once -----------------------------------------------------


WilcoxonMethod = Literal["auto", "asymptotic"]

EXACT_UNTIED = 50
"""Common items up to which "auto" takes the exact distribution when no differences tie and none is 0."""

EXACT_TIED = 13
"""The same otherwise."""

_WILCOXON_CHUNK = 1 << 20
"""Numbers that a temporary array may hold."""


def wilcoxon_p(scores: FloatArray, method: WilcoxonMethod = "auto") -> FloatArray:
    """One-sided p-values of all pairs by Wilcoxon's signed-rank test (METHODS 5; Zouhar et al. 2025, Algorithm 1).

    Zero differences are dropped and the others' sizes ranked, ties with their mean rank. With s_i = sign(d_i) rank_i,
    p_ab = 1 - Phi(sum s / sqrt(sum s^2)): the squares of mean ranks hold the correction for ties. Method "auto" is
    scipy's: the exact P(W >= w) where both systems have at most 50 items without ties and zeros, or at most 13 with
    them; then p[a, b] + p[b, a] = 1 + P(W = w).

    As in scipy differences tie when they are equal as floating-point numbers: round scores such as sums of decimals.

    Args:
        scores: Items x systems, NaN = missing.
        method: "auto", or "asymptotic" for the normal approximation of every pair.

    Returns:
        Systems x systems; p[a, b] small means a is better. 0.5 for pairs without any difference or without common
        items, and on the diagonal.

    Raises:
        OptionError: Another method, or scores that are not a table or not finite.

    Example:
        >>> scores = np.array([[3.0, 1.0], [2.0, 1.0], [9.0, 5.0], [4.0, 4.5]])
        >>> wilcoxon_p(scores)
        array([[0.5   , 0.125 ],
               [0.9375, 0.5   ]])
        >>> wilcoxon_p(scores, "asymptotic").round(3)
        array([[0.5  , 0.072],
               [0.928, 0.5  ]])
    """
    if method not in get_args(WilcoxonMethod):
        raise OptionError(f"method is {method!r}; give 'auto' or 'asymptotic'")
    if scores.ndim != 2:
        raise OptionError(f"scores has {scores.ndim} dimension(s); give an items x systems table")
    if np.isinf(scores).any():
        raise OptionError("scores holds infinite values; replace them by numbers, or by NaN for missing")
    by_system, systems = np.ascontiguousarray(scores.T), scores.shape[1]
    first, second = np.triu_indices(systems, 1)
    p_values = np.full((systems, systems), 0.5)
    step = max(1, _WILCOXON_CHUNK // max(1, len(scores)))
    for start in range(0, len(first), step):
        a, b = first[start : start + step], second[start : start + step]
        p_values[a, b], p_values[b, a] = _p_of_pairs(by_system[a] - by_system[b], method)
    return p_values


def _p_of_pairs(difference: FloatArray, method: WilcoxonMethod) -> tuple[FloatArray, FloatArray]:
    """P-values of a > b and of b > a, from pairs x items differences, NaN = missing."""
    common = (~np.isnan(difference)).sum(axis=1)
    signed = _signed_ranks(np.nan_to_num(difference, nan=0.0))
    total, size = signed.sum(axis=1), np.sqrt((signed**2).sum(axis=1))
    # Both tails are computed: 1 - p would lose the digits of a p-value below 1e-16.
    upper, lower = normal_p(total, size), normal_p(-total, size)
    if method == "auto":
        rows = np.flatnonzero(_exact(signed, common))
        upper[rows], lower[rows] = _exact_p(signed[rows])
    return upper, lower


def _signed_ranks(difference: FloatArray) -> FloatArray:
    """Ranks of the sizes of every row's differences other than 0, with their signs, in ascending order of size.

    This is scipy's `rankdata` without the way back to the order of the items, which the sums do not need.
    """
    order = np.argsort(np.abs(difference), axis=1)
    ordered = np.take_along_axis(difference, order, axis=1)
    size, place = np.abs(ordered), np.arange(difference.shape[1])
    rises = np.diff(size, axis=1, prepend=-1.0) > 0
    lowest = np.maximum.accumulate(np.where(rises, place, 0), axis=1)
    ends = np.roll(rises, -1, axis=1)  # a new size follows; the row's first place rises, so its last one ends
    highest = np.minimum.accumulate(np.where(ends, place, len(place))[:, ::-1], axis=1)[:, ::-1]
    # Zeros rank lowest; without them everyone else moves down by their number.
    zeros = (size == 0).sum(axis=1, keepdims=True)
    return np.asarray(np.sign(ordered) * ((lowest + highest) / 2 + 1 - zeros), dtype=np.float64)


def _exact(signed: FloatArray, common: IntArray) -> BoolArray:
    """Say which pairs scipy would not approximate; ranks 1 to n are untied when their squares sum as they should."""
    count = (signed != 0).sum(axis=1)
    untied = (signed**2).sum(axis=1) == count * (count + 1) * (2 * count + 1) / 6
    limit = np.where(untied & (count == common), EXACT_UNTIED, EXACT_TIED)
    return np.asarray((count > 0) & (common <= limit))


def _exact_p(signed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P(W >= w) and P(W <= w) of every row; rows with the same ranks share their distribution."""
    # Twice the ranks are whole numbers even where ties have mean ranks.
    doubled = np.rint(2 * signed).astype(np.int64)
    observed = np.maximum(doubled, 0).sum(axis=1)
    sizes = np.sort(np.abs(doubled), axis=1)[:, -EXACT_UNTIED:]
    patterns, pattern_of_row = np.unique(sizes, axis=0, return_inverse=True)
    upper, lower = np.empty(len(signed)), np.empty(len(signed))
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(pattern_of_row.reshape(-1) == number)
        mass = _null_distribution(pattern[pattern > 0])
        lower[rows] = np.cumsum(mass)[observed[rows]]
        upper[rows] = np.cumsum(mass[::-1])[::-1][observed[rows]]
    return upper, lower


def _null_distribution(ranks: IntArray) -> FloatArray:
    """P(W = 0, 1, 2, ...) for the sum W of those ranks on which a fair coin shows heads."""
    mass = np.zeros(int(ranks.sum()) + 1)
    mass[0] = 1.0
    for rank in ranks:
        raised = np.zeros_like(mass)
        raised[rank:] = mass[:-rank]
        mass = (mass + raised) / 2
    return mass
