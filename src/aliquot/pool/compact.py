"""A pool as an EvalSet of numbers: what select's methods look at, without a single text.

The methods of `select` run on it unchanged, which is why a pool and a loaded file give the same selection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aliquot.data.evalset import Derived, EvalSet
from aliquot.stats.arrays import FloatArray, IntArray

LENGTH, PREDICTED, BINS, BALANCE = "source length", "predicted utility", "bins of the pool", "balance of the pool"
_CODE = "document of the pool"


@dataclass(frozen=True, eq=False, repr=False)
class Compact(EvalSet):
    """Items of a pool by row number; documents are codes, lengths are known, sources are not there."""

    @cached_property
    def documents(self) -> IntArray | None:
        """Integer codes of the items' documents in order of first appearance."""
        if _CODE not in self.items.columns:
            return None
        return by_appearance(self.items[_CODE].to_numpy())

    def derived(self, key: str, make: Callable[[EvalSet], Derived]) -> Derived:
        """Return what depends on this set alone; lengths come from the first pass, since the sources are gone."""
        if key == "log lengths":
            lengths: FloatArray = self.items[LENGTH].to_numpy()
            return cast("Derived", np.log1p(lengths))
        return super().derived(key, make)


def compact(columns: dict[str, NDArray[np.generic]], documents: NDArray[np.generic] | None, name: str) -> Compact:
    """Build the set from arrays; `documents` are hashes, 0 where an item stands alone."""
    count = len(next(iter(columns.values())))
    series = [pl.Series("id", np.arange(count, dtype=np.int64))]
    series += [pl.Series(column, values) for column, values in columns.items()]
    if documents is not None and documents.any():
        series.append(pl.Series(_CODE, document_codes(documents)))
    if LENGTH in columns or PREDICTED in columns:  # methods ask whether there are sources
        series.append(pl.Series("source", [None], dtype=pl.String).extend_constant(None, count - 1))
    return Compact(items=pl.DataFrame(series), systems=(), name=name)


def document_codes(hashes: NDArray[np.generic]) -> IntArray:
    """Codes of documents in order of first appearance; an item without a document is one by itself.

    >>> document_codes(np.array([7, 0, 3, 7, 0], dtype=np.uint64)).tolist()
    [0, 1, 2, 0, 3]
    """
    known = hashes != 0
    codes = np.empty(len(hashes), dtype=np.int64)
    distinct, inverse = np.unique(hashes[known], return_inverse=True)
    codes[known] = inverse
    codes[~known] = len(distinct) + np.arange(int((~known).sum()))
    return by_appearance(codes)


def by_appearance(codes: IntArray) -> IntArray:
    """Number codes anew in order of first appearance.

    >>> by_appearance(np.array([5, 2, 5, 9])).tolist()
    [0, 1, 0, 2]
    """
    if not len(codes):
        return codes
    highest = np.maximum.accumulate(codes)
    if highest[0] == 0 and (np.diff(highest) <= 1).all() and codes.min() == 0:
        return codes  # they are so already
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
