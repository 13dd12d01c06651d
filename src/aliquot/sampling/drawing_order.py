"""The order of items in which a method sees them: by id, so that a seed gives the same items whatever the line order.

Invariant: data whose lines stand in natural order of the ids ("seg2" before "seg10") are seen as they are.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet, take_rows
from aliquot.stats.arrays import IntArray

_DIGITS = re.compile(r"(\d+)")


def natural_order(ids: pl.Series) -> IntArray:
    """Return row numbers in natural order of the ids: "seg9" before "seg10".

    >>> natural_order(pl.Series(["seg10", "seg9", "a"])).tolist()
    [2, 1, 0]
    """
    if ids.dtype.is_integer():
        return np.argsort(ids.to_numpy(), kind="stable").astype(np.int64)
    texts = ids.cast(pl.String).to_list()
    keys = [(_natural_key(text), text) for text in texts]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def _natural_key(text: str) -> list[str | int]:
    # Texts stand at even places and numbers at odd ones, so that only like is compared with like.
    parts: list[str | int] = list(_DIGITS.split(text))
    parts[1::2] = [int(number) for number in parts[1::2]]
    return parts


def reading_order(evalset: EvalSet) -> IntArray:
    """Return rows by the documents' first ids; within a document the lines keep their order."""
    order = natural_order(evalset.items["id"])
    codes = evalset.documents
    if codes is None:
        return order
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    first = np.full(int(codes.max(initial=-1)) + 1, len(order))
    np.minimum.at(first, codes, rank)
    return np.argsort(first[codes], kind="stable").astype(np.int64)


def drawing_order(evalset: EvalSet, *, reading: bool = False) -> IntArray | None:
    """Return the rows in drawing order; None if they are in it.

    Designs that take runs of items or whole documents are `reading`: they need the lines of a document as they stand.
    """

    def find_order(data: EvalSet) -> tuple[IntArray | None]:  # in a tuple: None is an answer, too
        order = reading_order(data) if reading else natural_order(data.items["id"])
        return (None if np.array_equal(order, np.arange(len(order))) else order,)

    return evalset.derived(f"drawing order, reading={reading}", find_order)[0]


def sort_for_drawing(evalset: EvalSet, *, reading: bool = False) -> EvalSet:
    """Return the set in drawing order (cached)."""
    order = drawing_order(evalset, reading=reading)
    if order is None:
        return evalset
    return evalset.derived(f"reordered, reading={reading}", lambda data: take_rows(data, order))
