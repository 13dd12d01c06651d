"""Wilcoxon's signed-rank test of all pairs of systems at once.

Invariant: every p-value is scipy's (`alternative="greater"`, `zero_method="wilcox"`, no continuity correction) on the
differences of the items that both systems have; pairs without any difference have 0.5.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.ranks import normal_p

WilcoxonMethod = Literal["auto", "asymptotic"]

EXACT_UNTIED = 50
"""Common items up to which "auto" takes the exact distribution when no differences tie and none is 0."""

EXACT_TIED = 13
"""The same otherwise."""

_CHUNK = 1 << 20
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
    step = max(1, _CHUNK // max(1, len(scores)))
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
