"""Permutation null distributions for pairs of metrics: correlations after random swaps of scores, many swaps at once.

A swap at the cells where s = -1 turns A and B into A' = (A + B) / 2 + s (A - B) / 2 and B' = (A + B) / 2 - s (A - B) /
2. As s^2 = 1, sums of A', A'^2 and A' z (z the human score) are linear in s: they follow from S A, S A^2 and S (A z) of
every single metric, matrix products over the swaps, without forming swapped metrics.

Invariant: with s = 1 everywhere A' = A and B' = B, so that functions give the observed correlations. Each returns those
of A' and of B', swaps x pairs of metrics, pairs ordered as `np.triu_indices(K, 1)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, average_ranks
from aliquot.stats.correlation import rank_rows, system_means
from aliquot.stats.pairwise import analytic_p

_MIN_VARIANCE = 1e-12
"""Share of a sum of squares below which a variance is rounding."""

_DECIMALS = 11
"""Decimals to which means of standardised scores are compared."""

_CHUNK = 1 << 20
"""Numbers in a temporary array."""

_CACHE_CHUNK = 1 << 17
"""Numbers in a temporary array that fits into the processor's cache."""

SwappedValues = tuple[FloatArray, FloatArray]
Pairs = tuple[IntArray, IntArray]
Grouping = Literal["pooled", "within_system", "within_item"]


@dataclass(frozen=True, eq=False)
class MetricScores:
    """Human and K metrics' scores; metrics standardised, all missing (NaN) in the same cells."""

    human: FloatArray  # items x systems
    metrics: FloatArray  # metrics x items x systems

    @property
    def present(self) -> BoolArray:
        """Items x systems: the common cells."""
        return np.asarray(~np.isnan(self.human), dtype=np.bool_)


def grouped_pearson(
    scores: MetricScores, signs: FloatArray, grouping: Grouping, *, ranks: bool = False
) -> SwappedValues:
    """Return mean Pearson correlations within groups; with `ranks` (Spearman) scores are ranked, then swapped.

    >>> scores = MetricScores(np.array([[1.0, 2.0, 4.0]]), np.array([[[1.0, 2.0, 4.0]], [[2.0, 1.0, 0.0]]]))
    >>> [value.round(3).tolist() for value in grouped_pearson(scores, np.ones((1, 1, 3)), "pooled")]
    [[[1.0]], [[-0.982]]]
    """
    human, metrics = (
        _arrange_groups(scores.human, grouping),
        [_arrange_groups(metric, grouping) for metric in scores.metrics],
    )
    if ranks:
        human, metrics = _rank_scores(human), [_rank_scores(metric) for metric in metrics]
    n = np.maximum((~np.isnan(human)).sum(axis=1), 1)
    z = np.nan_to_num(human - (np.nansum(human, axis=1) / n)[:, None])
    square = (z**2).sum(axis=1)
    usable = np.flatnonzero(square > _MIN_VARIANCE * np.nansum(human**2, axis=1))
    x = np.nan_to_num(np.stack([metric[usable] for metric in metrics], axis=2))
    z, square, n = z[usable, :, None], square[usable, None, None], n[usable, None, None]
    # Scaled so that the correlation is product / sqrt(squares - total^2).
    powers = (x / np.sqrt(n), x**2, x * (z / np.sqrt(square)))
    plain = [part.sum(axis=1)[:, None, :] for part in powers]
    step = max(1, _CACHE_CHUNK // max(1, x.shape[0] * max(x.shape[1:])))
    ahead, behind = np.empty((2, len(signs), len(metrics) * (len(metrics) - 1) // 2))
    for start in range(0, len(signs), step):
        rows = slice(start, start + step)
        s = np.stack([_arrange_groups(sign, grouping)[usable] for sign in signs[rows]], axis=1)
        ahead[rows], behind[rows] = _mean_correlations(plain, [s @ part for part in powers])
    return ahead, behind


def _mean_correlations(plain: list[FloatArray], signed: list[FloatArray]) -> SwappedValues:
    """Return mean correlations over groups of A' and B' for pairs of metrics, from sums (groups x swaps x metrics)."""
    swaps, metrics = signed[0].shape[1:]
    results = np.full((2, swaps, metrics * (metrics - 1) // 2), np.nan)
    start = 0
    for first in range(metrics - 1):
        later = slice(first + 1, metrics)
        middle = [0.5 * (sums[..., first, None] + sums[..., later]) for sums in plain]
        half = [0.5 * (sums[..., first, None] - sums[..., later]) for sums in signed]
        columns = slice(start, start + metrics - 1 - first)
        # Relative to the sums of A and B: those of A' may be rounding.
        floor = _MIN_VARIANCE * middle[1] + np.finfo(np.float64).tiny
        for result, combine in zip(results, (np.add, np.subtract), strict=True):
            total, variance, r = (combine(m, h) for m, h in zip(middle, half, strict=True))
            variance -= np.square(total, out=total)
            flat = variance <= floor
            r /= np.sqrt(np.maximum(variance, floor, out=variance), out=variance)
            np.copyto(r, 0.0, where=flat)
            count = len(r) - flat.sum(axis=0)
            np.divide(r.sum(axis=0), count, out=result[:, columns], where=count > 0)
        start = columns.stop
    return results[0], results[1]


SystemStatistic = Callable[[FloatArray, FloatArray], FloatArray]
"""Maps means (systems x anything) and human means (systems) to a statistic (anything)."""


def system_mean_statistic(scores: MetricScores, signs: FloatArray, statistic: SystemStatistic) -> SwappedValues:
    """Return a statistic of the system means of A' and B'.

    >>> scores = MetricScores(np.array([[1.0, 2.0, 4.0]]), np.array([[[1.0, 2.0, 4.0]], [[2.0, 1.0, 0.0]]]))
    >>> [value.tolist() for value in system_mean_statistic(scores, np.ones((1, 1, 3)), means_accuracy)]
    [[[1.0]], [[0.0]]]
    """
    first, second = np.triu_indices(len(scores.metrics), 1)
    _, human = system_means(scores.human, scores.human)
    x = np.nan_to_num(scores.metrics).transpose(2, 1, 0)
    count = scores.present.sum(axis=0)[:, None, None]
    plain = x.sum(axis=1, keepdims=True) / count
    signed = signs.transpose(2, 0, 1) @ x / count
    step = max(1, _CHUNK // max(1, len(first) * len(human)))
    results = [np.empty((len(signs), len(first))) for _ in range(2)]
    for start in range(0, len(signs), step):
        rows = slice(start, start + step)
        middle = 0.5 * (plain[..., first] + plain[..., second])
        half = 0.5 * (signed[:, rows][..., first] - signed[:, rows][..., second])
        for result, means in zip(results, (middle + half, middle - half), strict=True):
            result[rows] = statistic(means.round(_DECIMALS), human)
    return results[0], results[1]


def means_pearson(means: FloatArray, human: FloatArray) -> FloatArray:
    """Return Pearson's correlation of system means with human ones, over the first axis.

    >>> means_pearson(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 3.0]))
    array([1.])
    """
    z = human - human.mean()
    centred = means - means.mean(axis=0)
    scale = np.sqrt((centred**2).sum(axis=0) * (z @ z))
    result = np.full(scale.shape, np.nan)
    np.divide(np.tensordot(z, centred, axes=1), scale, out=result, where=scale > 10.0**-_DECIMALS * np.sqrt(z @ z))
    return result


def means_spearman(means: FloatArray, human: FloatArray) -> FloatArray:
    """Return Spearman's correlation of system means with human ones, over the first axis.

    >>> means_spearman(np.array([[1.0], [3.0], [2.0]]), np.array([1.0, 2.0, 3.0]))
    array([0.5])
    """
    return means_pearson(average_ranks(means.T).T, average_ranks(human))


def means_accuracy(means: FloatArray, human: FloatArray) -> FloatArray:
    """Return the share of pairs, not tied by people, that the means order as people do, ties half.

    >>> means_accuracy(np.array([[1.0], [2.0], [2.0]]), np.array([1.0, 2.0, 3.0])).round(3)
    array([0.833])
    """
    right, pairs = np.zeros(means.shape[1:]), 0
    for a, b in _system_pairs(len(human)):
        if human[a] != human[b]:
            better, worse = (a, b) if human[a] > human[b] else (b, a)
            right += 0.5 * (means[better] > means[worse]) + 0.5 * (means[better] >= means[worse])
            pairs += 1
    return right / pairs if pairs else np.full(means.shape[1:], np.nan)


def soft_accuracy(scores: MetricScores, signs: FloatArray) -> SwappedValues:
    """Return soft pairwise accuracy of A' and B' against people, with analytic p-values.

    For systems a and b the p-value needs the sum and the sum of squares of A'_a - A'_b. The latter holds the product
    A'_a A'_b = [(1 + s_a s_b)(A_a A_b + B_a B_b) + (1 - s_a s_b)(A_a B_b + B_a A_b)
    + (s_a + s_b)(A_a A_b - B_a B_b) + (s_a - s_b)(A_a B_b - B_a A_b)] / 4, which over the swaps is one matrix product
    for s_a s_b and one for s_a - s_b; B'_a B'_b has the same terms with the last two negative.

    >>> human = np.array([[1.0, 2.0], [1.0, 3.0]])
    >>> scores = MetricScores(human, np.stack([human, 4 - human]))
    >>> [value.round(3).tolist() for value in soft_accuracy(scores, np.ones((1, 2, 2)))]
    [[[1.0]], [[0.18]]]
    """
    pairs = np.triu_indices(len(scores.metrics), 1)
    target, present = analytic_p(scores.human), scores.present
    ahead, behind = np.zeros((2, len(signs), len(pairs[0])))
    compared = 0
    for a, b in _system_pairs(present.shape[1]):
        rows = np.flatnonzero(present[:, a] & present[:, b])
        if not len(rows):
            continue
        compared += 1
        products = _pair_products(scores.metrics[:, rows, a].T, scores.metrics[:, rows, b].T, pairs)
        # Blocks of swaps small enough to stay in the processor's cache.
        for start in range(0, len(signs), step := max(16, _CACHE_CHUNK // len(pairs[0]))):
            swap_rows = slice(start, start + step)
            sums = _difference_sums(products, signs[swap_rows, rows, a], signs[swap_rows, rows, b], pairs)
            ahead[swap_rows] += np.abs(_p_values(sums, 1.0) - target[a, b])
            behind[swap_rows] += np.abs(_p_values(sums, -1.0) - target[a, b])
    if not compared:
        return np.full_like(ahead, np.nan), np.full_like(behind, np.nan)
    return 1 - ahead / compared, 1 - behind / compared


@dataclass(frozen=True, eq=False)
class _PairProducts:
    """Scores of systems a and b, items x metrics, and their products, items x metrics or pairs of metrics."""

    x: FloatArray
    y: FloatArray
    own: FloatArray
    sums: FloatArray
    differences: FloatArray


def _pair_products(x: FloatArray, y: FloatArray, pairs: Pairs) -> _PairProducts:
    first, second = pairs
    cross = x.take(first, axis=1) * y.take(second, axis=1)
    counter = x.take(second, axis=1) * y.take(first, axis=1)
    return _PairProducts(x, y, x * y, cross + counter, cross - counter)


@dataclass(frozen=True, eq=False)
class _DifferenceSums:
    """Sums over items of d = A'_a - A'_b and of d^2, split into terms shared by B' and terms of opposite sign in B'.

    `size` is the sum of squares of the metrics, mean of A and B: the scale of rounding.
    """

    total: SwappedValues
    squares: SwappedValues
    size: FloatArray


def _difference_sums(products: _PairProducts, s: FloatArray, t: FloatArray, pairs: Pairs) -> _DifferenceSums:
    """Compute the sums from products of systems a and b and their signs (s, t), swaps x items."""
    (first, second), x, y, products_own = pairs, products.x, products.y, products.own

    def split(plain: FloatArray, signed: FloatArray) -> SwappedValues:
        """Return the mean over A and B, and half the signed difference."""
        return 0.5 * (plain[first] + plain[second]), 0.5 * (signed.take(first, axis=1) - signed.take(second, axis=1))

    total = split((x - y).sum(axis=0), s @ x - t @ y)
    # The even part has (1 + s t) (A_a A_b + B_a B_b) + (1 - s t) (A_a B_b + B_a A_b), the odd one the rest; what
    # belongs to a single metric is taken with the squares.
    lone = s @ x**2 + t @ y**2 - (s + t) @ products_own
    size, odd = split((x**2 + y**2).sum(axis=0), lone)
    changed = np.flatnonzero((s != t).any(axis=1))
    odd[changed] -= 0.5 * ((s - t)[changed] @ products.differences)
    together = products_own.sum(axis=0) + _signed_sums(s * t, products_own)
    even = together.take(first, axis=1)
    even += together.take(second, axis=1)
    even -= _signed_sums(s * t, products.sums)
    even += products.sums.sum(axis=0)
    even *= -0.5
    even += size
    return _DifferenceSums(total, (even, odd), size)


def _signed_sums(signs: FloatArray, values: FloatArray) -> FloatArray:
    """Multiply signs (swaps x items) and values (items x anything); fast if each swap has one sign."""
    if (signs == signs[:, :1]).all():
        return np.asarray(signs[:, :1] * values.sum(axis=0), dtype=np.float64)
    return np.asarray(signs @ values, dtype=np.float64)


def _p_values(sums: _DifferenceSums, sign: float) -> FloatArray:
    (shared, own_sums), (even, odd) = sums.total, sums.squares
    squares = even + sign * odd
    # Swaps can make two systems equal. Sum and squares are then rounding, and z must be near 0.
    np.maximum(squares, 100 * _MIN_VARIANCE * sums.size + np.finfo(np.float64).tiny, out=squares)
    z = -shared - sign * own_sums
    z /= np.sqrt(squares, out=squares)
    return np.asarray(ndtr(z, out=z), dtype=np.float64)


def _system_pairs(systems: int) -> Iterator[tuple[int, int]]:
    return ((a, b) for a in range(systems) for b in range(a + 1, systems))


def _arrange_groups(table: FloatArray, grouping: Grouping) -> FloatArray:
    """Rearrange items x systems as groups x cells."""
    if grouping == "pooled":
        return table.reshape(1, -1)
    return table.T if grouping == "within_system" else table


def _rank_scores(values: FloatArray) -> FloatArray:
    """Return ranks within rows, from about -0.5 to 0.5."""
    n = np.maximum((~np.isnan(values)).sum(axis=1, keepdims=True), 1)
    return np.asarray((rank_rows(values) - (n + 1) / 2) / n, dtype=np.float64)
