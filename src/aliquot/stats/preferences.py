"""Tests of preferences: is one of two systems chosen more often?

Ties are dropped by the sign tests, as the sign test has always done: they say nothing about which system is better.
They count half in win rates. The clustered test asks the same question when several choices belong to one item.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erfc
from scipy.stats import binom, chi2

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray

_WORK = 20_000_000
"""Additions that the exact distribution of the clustered test may take."""


@dataclass(frozen=True)
class McNemar:
    """McNemar's test of two systems verified on the same outputs: exact, and chi-square with continuity correction."""

    only_a: int
    only_b: int
    p_exact: float
    chi2: float
    p_chi2: float


def sign_test(wins: IntArray | int, losses: IntArray | int) -> FloatArray:
    """Exact two-sided sign test of wins against losses, ties left out: min(1, 2 P(X <= min(w, l))), X ~ Bin(w+l, 1/2).

    Args:
        wins: How often the first was chosen, of any shape.
        losses: How often the second was.

    Returns:
        P-values; NaN where nothing was decided.

    Example:
        >>> sign_test(np.array([98, 86]), np.array([38, 62])).round(8)  # notes, P4: Czech, German
        array([2.700000e-07, 5.831193e-02])
    """
    won, lost = np.broadcast_arrays(np.asarray(wins, dtype=np.int64), np.asarray(losses, dtype=np.int64))
    if (won < 0).any() or (lost < 0).any():
        raise OptionError("wins and losses are counts; none may be negative")
    p = np.minimum(1.0, 2 * binom.cdf(np.minimum(won, lost), won + lost, 0.5))
    return np.where(won + lost > 0, p, np.nan)


def clustered_sign_test(net: IntArray) -> float:
    """Sign test over clusters: how likely is so uneven a total if each cluster's wins and losses were exchanged?

    `net` is wins minus losses in each cluster. Under the null hypothesis a cluster's net result is as likely to have
    `net` is wins minus losses in each cluster. Under the null hypothesis a cluster's net result is as likely to have
    the other sign; clusters with a net of 0 say nothing. The distribution of the total under all sign flips is
    computed exactly: clusters of equal |net| make a binomial, and the binomials are convolved. With one choice per
    cluster this is the sign test. Where the convolution would be long (many thousands of clusters), the normal limit
    z = sum net / sqrt(sum net^2) takes its place; that limit is the clustered McNemar test of Obuchowski (1998) with
    the variance under the null hypothesis.

    Args:
        net: Whole numbers, one per cluster.

    Returns:
        Two-sided p-value; NaN where every cluster's net is 0.

    Example:
        >>> clustered_sign_test(np.array([1, 1, 1, 1, 1])), float(sign_test(5, 0))
        (0.0625, 0.0625)
        >>> clustered_sign_test(np.array([3, 3])), round(float(sign_test(6, 0)), 3)  # two items are not six
        (0.5, 0.031)
    """
    sizes = np.abs(net[net != 0]).astype(np.int64)
    if not len(sizes):
        return float("nan")
    total, observed = int(sizes.sum()), int(np.abs(net.sum()))
    if observed == 0:
        return 1.0
    values, counts = np.unique(sizes, return_counts=True)
    end = (total - observed) // 2  # the lower tail: at most so much of the total stands on the other side
    if len(values) == 1:
        return min(1.0, 2 * float(binom.cdf(end // int(values[0]), int(counts[0]), 0.5)))
    if float(counts.sum() - counts.max()) * (end + 1) > _WORK:
        z = observed / np.sqrt(float((sizes.astype(np.float64) ** 2).sum()))
        return float(erfc(z / np.sqrt(2)))
    return min(1.0, 2 * float(_other_side(values, counts, end).sum()))


def _other_side(values: IntArray, counts: IntArray, end: int) -> FloatArray:
    """Probabilities of 0, ..., end for the sum of v Bin(k_v, 1/2) over the distinct sizes v."""
    order = np.argsort(-counts, kind="stable")  # the commonest size starts, at no cost
    density = np.zeros(end + 1)
    density[0] = 1.0
    for at in order:
        size, count = int(values[at]), int(counts[at])
        chances = binom.pmf(np.arange(min(count, end // size) + 1), count, 0.5)
        if density[0] == 1.0:
            density[: len(chances) * size : size] = chances
            continue
        summed = np.zeros_like(density)
        for heads, chance in enumerate(chances):
            summed[heads * size :] += chance * density[: end + 1 - heads * size]
        density = summed
    return density


def mcnemar(only_a: int, only_b: int) -> McNemar:
    """McNemar's test from the outputs that only one of two systems got right.

    chi2 = max(0, |b - c| - 1)^2 / (b + c), one degree of freedom; the exact p is the sign test's.

    Args:
        only_a: Outputs that only the first system got right (b).
        only_b: Outputs that only the second got right (c).

    Returns:
        NaN for all three where there is no such output.

    Example:
        >>> round(mcnemar(2425, 480).chi2, 1)  # notes, P10: word senses
        1300.9
    """
    decided = only_a + only_b
    p_exact = float(sign_test(only_a, only_b))
    if not decided:
        return McNemar(only_a, only_b, p_exact, float("nan"), float("nan"))
    statistic = max(0, abs(only_a - only_b) - 1) ** 2 / decided
    return McNemar(only_a, only_b, p_exact, statistic, float(chi2.sf(statistic, 1)))
