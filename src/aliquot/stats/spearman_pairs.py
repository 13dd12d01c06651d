"""Spearman's correlation of all pairs of annotators at once, for answers too many for tables, with any item weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from aliquot.stats.annotator_pairs import AnnotatorPairs, correlation_of_sums, held_rows, mean_over_pairs
from aliquot.stats.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class _Side:
    """One annotator's answers in all pairs: rows with equal answers of a pair are a group, groups by rising answers.

    Attributes:
        of_items: groups x items: how many rows of the item are in the group.
        group: the group of each row.
        first: the first group of the pair, for each group.
    """

    of_items: Any
    group: IntArray
    first: IntArray

    def ranks(self, weights: FloatArray) -> FloatArray:
        """Mean ranks within the pair when each row stands as often as its item's weight says; rows x draws."""
        counts = self.of_items @ weights
        below = np.cumsum(np.ascontiguousarray(counts.T), axis=1).T - counts
        ranks: FloatArray = (below - below[self.first] + counts / 2.0)[self.group]
        return ranks


def _side(pair: IntArray, answer: IntArray, item: IntArray, items: int) -> _Side:
    order = np.lexsort((answer, pair))
    key = np.stack([pair[order], answer[order]])
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    of_items = sparse.csr_array((np.ones(len(order)), (group, item)), shape=(int(new.sum()), items))
    pairs = key[0, new]  # groups are sorted by pair
    return _Side(of_items, group, np.searchsorted(pairs, pairs).astype(np.int64))


@dataclass(frozen=True, eq=False)
class SpearmanPairs:
    """Spearman's correlation of each pair of annotators, for any item weights: ranks follow the weights.

    Attributes:
        item: the item of each row.
        pair: the pair of each row.
        of_rows: pairs x rows, to sum over the rows of each pair.
        sides: both annotators' answers.
        items: the number of items.
    """

    item: IntArray
    pair: IntArray
    of_rows: Any
    sides: tuple[_Side, _Side]
    items: int

    @property
    def width(self) -> int:
        """A draw holds a number for each row."""
        return len(self.item)

    def __call__(self, weights: FloatArray) -> FloatArray:
        """The mean over pairs for each row of weights."""
        return mean_over_pairs(*self.each(weights))

    def each(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Draws x pairs: correlations, and the units shared. Inside, draws are last, so that rows are copied whole."""
        across = np.ascontiguousarray(weights.T)
        weight = across[self.item]
        n = self.of_rows @ weight
        middle, safe = (n / 2.0)[self.pair], np.where(n > 0, n, 1.0)
        x, y = (side.ranks(across) - middle for side in self.sides)  # ranks lie between 0 and n, their mean is n / 2
        wx, wy = weight * x, weight * y
        sums = [(self.of_rows @ part) / safe**2 for part in (wx * y, wx * x, wy * y)]
        return correlation_of_sums(n, *sums).T, n.T


def spearman_pairs(pairs: AnnotatorPairs) -> SpearmanPairs:
    """Prepare Spearman's correlation for pairs whose answers are too many for tables."""
    rows, items, p = held_rows(pairs), pairs.answers.items, len(pairs.first)
    of_rows = sparse.csr_array((np.ones(len(rows.pair)), (rows.pair, np.arange(len(rows.pair)))), (p, len(rows.pair)))
    sides = tuple(_side(rows.pair, answer, rows.item, items) for answer in (rows.x, rows.y))
    return SpearmanPairs(rows.item, rows.pair, of_rows, (sides[0], sides[1]), items)
