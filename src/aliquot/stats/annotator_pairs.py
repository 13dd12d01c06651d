"""Agreement of all pairs of annotators at once, on the units that both judged.

With few distinct values every pair has a contingency table, from which all coefficients follow. With many, Pearson's
correlation needs sums of products, and Spearman's ranks of each pair's shared units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from aliquot.stats.alpha import PairableJudgments
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.resampling import AdditiveMeasure, sparse_sum_by_item

MAX_CATEGORIES = 20
"""Maximum number of distinct judgments for contingency tables."""
MAX_ANNOTATORS = 2_000
"""Maximum number of annotators whose pairs are compared."""
MIN_SHARED = 3
"""Minimum number of shared units for a correlation: two points always lie on a line."""

_CHUNK = 2_000_000  # pairs of judgments per chunk
_MAX_TABLE_NUMBERS = 20_000_000  # numbers in all tables
MAX_HELD_ROWS = 5_000_000
"""Maximum number of pairs of judgments in memory: beyond it there are no intervals and no Spearman's correlations."""


class JudgmentPairs(NamedTuple):
    """Pairs of judgments on the same unit: pair of annotators, item, and codes of both judgments."""

    pair: IntArray
    item: IntArray
    x: IntArray
    y: IntArray


@dataclass(frozen=True, eq=False)
class AnnotatorPairs:
    """Pairs of annotators with at least one shared unit."""

    judgments: PairableJudgments
    annotator: IntArray
    annotators: int
    first: IntArray  # the annotator of each pair with the lower code
    second: IntArray  # the other
    shared: IntArray  # number of units judged by both

    @property
    def rows(self) -> int:
        """Number of pairs of judgments, over all units."""
        return int(self.shared.sum())

    @property
    def tabulated(self) -> bool:
        """Whether the distinct judgments are few enough for contingency tables."""
        k = len(self.judgments.values)
        return k <= MAX_CATEGORIES and len(self.first) * k * k <= _MAX_TABLE_NUMBERS


def find_annotator_pairs(judgments: PairableJudgments, annotator: IntArray, annotators: int) -> AnnotatorPairs:
    """Find the pairs of annotators that share units; `annotator` has one code per input judgment."""
    code = annotator[judgments.kept]
    judged = sparse.csr_array((np.ones(len(code)), (judgments.unit, code)), shape=(len(judgments.size), annotators))
    overlap = sparse.triu(judged.T @ judged, k=1).tocoo()
    order = np.lexsort((overlap.col, overlap.row))
    return AnnotatorPairs(
        judgments=judgments,
        annotator=code,
        annotators=annotators,
        first=overlap.row[order].astype(np.int64),
        second=overlap.col[order].astype(np.int64),
        shared=overlap.data[order].astype(np.int64),
    )


def iterate_judgment_pairs(pairs: AnnotatorPairs) -> Iterator[JudgmentPairs]:
    """Yield pairs of judgments on the same unit, in chunks of units; x is the judgment of the lower annotator code."""
    judgments = pairs.judgments
    number = np.full((pairs.annotators, pairs.annotators), -1, dtype=np.int64)
    number[pairs.first, pairs.second] = np.arange(len(pairs.first))
    start = np.cumsum(judgments.size) - judgments.size
    cuts = np.cumsum(judgments.size * (judgments.size - 1) // 2) // _CHUNK
    bounds = [*np.flatnonzero(np.diff(cuts, prepend=-1)), len(judgments.size)]
    for low, high in pairwise(bounds):
        begin, end = start[low], start[high] if high < len(start) else len(judgments.unit)
        place = np.arange(begin, end)
        unit = judgments.unit[begin:end]
        partners = start[unit] + judgments.size[unit] - 1 - place  # judgments of the unit that come after this one
        x = np.repeat(place, partners)
        y = x + 1 + np.arange(len(x)) - np.repeat(np.cumsum(partners) - partners, partners)
        swap = pairs.annotator[x] > pairs.annotator[y]
        x, y = np.where(swap, y, x), np.where(swap, x, y)
        yield JudgmentPairs(
            pair=number[pairs.annotator[x], pairs.annotator[y]],
            item=judgments.judgment_item[x],
            x=judgments.code[x],
            y=judgments.code[y],
        )


def all_judgment_pairs(pairs: AnnotatorPairs) -> JudgmentPairs:
    """Return all pairs of judgments at once."""
    chunks = list(iterate_judgment_pairs(pairs))
    if not chunks:
        return JudgmentPairs(*(np.empty(0, dtype=np.int64) for _ in JudgmentPairs._fields))
    return JudgmentPairs(*(np.concatenate(parts) for parts in zip(*chunks, strict=True)))


def contingency_tables(pairs: AnnotatorPairs) -> FloatArray:
    """Count units by both annotators' judgments: pairs x K x K."""
    k, p = len(pairs.judgments.values), len(pairs.first)
    counts = np.zeros(p * k * k)
    for rows in iterate_judgment_pairs(pairs):
        counts += np.bincount((rows.pair * k + rows.x) * k + rows.y, minlength=p * k * k)
    return counts.reshape(p, k, k)


def table_measure(pairs: AnnotatorPairs, of_tables: Callable[[FloatArray], FloatArray]) -> AdditiveMeasure:
    """Return the mean over pairs of a coefficient of tables, as a measure of item weights."""
    k, p, rows = len(pairs.judgments.values), len(pairs.first), all_judgment_pairs(pairs)
    column = (rows.pair * k + rows.x) * k + rows.y
    sums = sparse_sum_by_item(rows.item, column, np.ones(len(column)), (pairs.judgments.items, p * k * k))

    def finish(total: FloatArray) -> FloatArray:
        each = total.reshape(-1, p, k, k)
        return mean_over_pairs(of_tables(each), each.sum(axis=(-1, -2)))

    return AdditiveMeasure(sums, finish)


def mean_over_pairs(values: FloatArray, shared: FloatArray) -> FloatArray:
    """Average over pairs weighted by shared units; undefined pairs are left out.

    >>> mean_over_pairs(np.array([[1.0, 0.0, np.nan]]), np.array([[3.0, 1.0, 5.0]]))
    array([0.75])
    """
    weight = np.where(np.isfinite(values), shared, 0.0)
    total = weight.sum(axis=-1)
    mean = (weight * np.where(weight > 0, values, 0.0)).sum(axis=-1) / np.where(total > 0, total, np.nan)
    return np.asarray(mean)


def pearson_from_tables(counts: FloatArray, values: FloatArray) -> FloatArray:
    """Return Pearson's correlations from tables; NaN below three units or without variance."""
    scores = np.broadcast_to(standardise_range(values), counts.shape[:-1])
    return _correlation_from_tables(counts, scores, scores)


def spearman_from_tables(counts: FloatArray) -> FloatArray:
    """Return Spearman's correlations (ties share their mean rank) from tables."""
    ranks = [np.cumsum(margin, axis=-1) - margin / 2.0 for margin in (counts.sum(axis=-1), counts.sum(axis=-2))]
    return _correlation_from_tables(counts, *ranks)


def _correlation_from_tables(counts: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    n = rows.sum(axis=-1)
    safe = np.where(n > 0, n, 1.0)[..., None]
    x, y = x - (rows * x).sum(axis=-1)[..., None] / safe, y - (columns * y).sum(axis=-1)[..., None] / safe
    together = np.einsum("...i,...ij,...j->...", x, counts, y, optimize=True)
    return correlation_from_sums(n, together, (rows * x**2).sum(axis=-1), (columns * y**2).sum(axis=-1))


def correlation_from_sums(n: FloatArray, together: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return correlations from sums of centred products; NaN below `MIN_SHARED` units or without variance."""
    dust = 1e-12 * np.maximum(n, 1.0)
    defined = (n >= MIN_SHARED) & (x > dust) & (y > dust)
    scale = np.sqrt(np.where(defined, x, 1.0)) * np.sqrt(np.where(defined, y, 1.0))
    return np.where(defined, np.clip(together / scale, -1.0, 1.0), np.nan)


def standardise_range(values: FloatArray) -> FloatArray:
    """Centre values and scale them to a range of 1, so that one rounding tolerance fits all scales."""
    spread = float(np.ptp(values)) if len(values) else 0.0
    return (values - values.mean()) / (spread or 1.0) if len(values) else values


def moments_from_tables(counts: FloatArray, values: FloatArray) -> FloatArray:
    """Return the sums of `pair_moments` from tables: pairs x 6."""
    y = standardise_range(values)
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    together = np.einsum("i,...ij,j->...", y, counts, y, optimize=True)
    return np.stack([rows.sum(axis=-1), rows @ y, columns @ y, rows @ y**2, columns @ y**2, together], axis=-1)


def pair_moments(pairs: AnnotatorPairs) -> FloatArray:
    """Return sums over shared units of each pair: n, x, y, x^2, y^2, x y of standardised judgments (pairs x 6)."""
    total = np.zeros((len(pairs.first), 6))
    for rows in iterate_judgment_pairs(pairs):
        for column, values in enumerate(_moment_terms(pairs, rows)):
            total[:, column] += np.bincount(rows.pair, values, minlength=len(total))
    return total


def _moment_terms(pairs: AnnotatorPairs, rows: JudgmentPairs) -> list[FloatArray]:
    values = standardise_range(pairs.judgments.values)
    x, y = values[rows.x], values[rows.y]
    return [np.ones(len(x)), x, y, x**2, y**2, x * y]


def pearson_from_moments(total: FloatArray) -> FloatArray:
    """Return Pearson's correlations from the sums of `pair_moments`: ... x 6 in, ... out."""
    n, x, y, xx, yy, xy = np.moveaxis(total, -1, 0)
    safe = np.where(n > 0, n, 1.0)
    return correlation_from_sums(n, xy - x * y / safe, xx - x**2 / safe, yy - y**2 / safe)


def pearson_measure(pairs: AnnotatorPairs) -> AdditiveMeasure:
    """Return the mean over pairs of Pearson's correlation, as a measure of item weights."""
    p, rows = len(pairs.first), all_judgment_pairs(pairs)
    products = _moment_terms(pairs, rows)
    item, pair = np.tile(rows.item, 6), np.concatenate([rows.pair * 6 + column for column in range(6)])
    sums = sparse_sum_by_item(item, pair, np.concatenate(products), (pairs.judgments.items, p * 6))

    def finish(total: FloatArray) -> FloatArray:
        each = total.reshape(-1, p, 6)
        return mean_over_pairs(pearson_from_moments(each), each[..., 0])

    return AdditiveMeasure(sums, finish)


@dataclass(frozen=True, eq=False)
class _RankGroups:
    """Judgments of one side of all pairs; rows of a pair with equal judgments form a group, groups are ascending."""

    of_items: Any  # groups x items: number of the item's rows in the group
    group: IntArray  # the group of each row
    first: IntArray  # the first group of the pair, for each group

    def rank_judgments(self, weights: FloatArray) -> FloatArray:
        """Return mean ranks within the pair, rows weighted by item; rows x draws."""
        counts = self.of_items @ weights
        below = np.cumsum(np.ascontiguousarray(counts.T), axis=1).T - counts
        ranks: FloatArray = (below - below[self.first] + counts / 2.0)[self.group]
        return ranks


def _group_ranks(pair: IntArray, judgment: IntArray, item: IntArray, items: int) -> _RankGroups:
    order = np.lexsort((judgment, pair))
    key = np.stack([pair[order], judgment[order]])
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    of_items = sparse.csr_array((np.ones(len(order)), (group, item)), shape=(int(new.sum()), items))
    pairs = key[0, new]  # groups are sorted by pair
    return _RankGroups(of_items, group, np.searchsorted(pairs, pairs).astype(np.int64))


@dataclass(frozen=True, eq=False)
class SpearmanPairs:
    """Spearman's correlation of each pair of annotators as a function of item weights, which change the ranks."""

    item: IntArray  # the item of each row
    pair: IntArray  # the pair of each row
    of_rows: Any  # pairs x rows; sums over the rows of each pair
    sides: tuple[_RankGroups, _RankGroups]  # both annotators' judgments
    items: int  # the number of items

    @property
    def width(self) -> int:
        """Numbers held per draw: one per row."""
        return len(self.item)

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the mean over pairs, one per row of weights."""
        return mean_over_pairs(*self.correlate_pairs(weights))

    def correlate_pairs(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return correlations and shared units, draws x pairs; draws are last inside, for contiguous rows."""
        across = np.ascontiguousarray(weights.T)
        weight = across[self.item]
        n = self.of_rows @ weight
        middle, safe = (n / 2.0)[self.pair], np.where(n > 0, n, 1.0)
        x, y = (
            side.rank_judgments(across) - middle for side in self.sides
        )  # ranks lie between 0 and n, their mean is n / 2
        wx, wy = weight * x, weight * y
        sums = [(self.of_rows @ part) / safe**2 for part in (wx * y, wx * x, wy * y)]
        return correlation_from_sums(n, *sums).T, n.T


def spearman_pairs(pairs: AnnotatorPairs) -> SpearmanPairs:
    """Prepare Spearman's correlations of pairs with too many distinct judgments for tables."""
    rows, items, p = all_judgment_pairs(pairs), pairs.judgments.items, len(pairs.first)
    of_rows = sparse.csr_array((np.ones(len(rows.pair)), (rows.pair, np.arange(len(rows.pair)))), (p, len(rows.pair)))
    sides = tuple(_group_ranks(rows.pair, judgment, rows.item, items) for judgment in (rows.x, rows.y))
    return SpearmanPairs(rows.item, rows.pair, of_rows, (sides[0], sides[1]), items)
