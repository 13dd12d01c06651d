"""The order in which adaptive campaigns take items: every beginning of it is a sample with known probabilities.

Each item waits an exponential time with rate equal to its size (successive sampling, Rosen 1972): the first n items are
a sample by size, for every n at once, so that a system can stop or go on at any place. The item is among the first n
with probability 1 - exp(-r z_i), z_i its size and r such that the probabilities sum to n. The uniform numbers behind
the waiting times run along the documents in a digitally shifted van der Corput order: each is uniform, and neighbours
get numbers far apart, so that every beginning is spread over the documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.errors import OptionError
from aliquot.sampling.drawing_order import sort_for_drawing
from aliquot.sampling.item_scores import Scale, item_sizes
from aliquot.sampling.methods import choose_method
from aliquot.stats.arrays import FloatArray, IntArray, group_means
from aliquot.stats.sampling_designs import random_document_order

TAU = 0.5
"""Share of the size that is the same for all items; docs/evidence-adaptive.md compares values."""
_MAX_STEPS, _TOLERANCE = 200, 1e-14


@dataclass(frozen=True, eq=False)
class ItemOrder:
    """Rows in the order of judging, and the size of every item (1 on average)."""

    rows: IntArray
    size: FloatArray

    def rate(self, n: int) -> float:
        """Return the rate r at which n items are expected; infinite for all items.

        >>> order = ItemOrder(np.arange(4), np.ones(4))
        >>> round(order.rate(2), 6), order.rate(4)
        (0.693147, inf)
        """
        return solve_rate(self.size, n)

    def probability(self, n: int) -> FloatArray:
        """Return every item's probability to be among the first n."""
        rate = self.rate(n)
        return np.ones(len(self.size)) if np.isinf(rate) else -np.expm1(-rate * self.size)

    @property
    def weight(self) -> FloatArray:
        """Weights of items in order, 1 / size; their mean over draws is 1."""
        return 1.0 / self.size


def solve_rate(size: FloatArray, n: int) -> float:
    """Solve sum(1 - exp(-r size)) = n for r by Newton's method, which converges from below (the sum is concave)."""
    if n >= len(size):
        return float("inf")
    rate = n / float(size.sum())
    for _ in range(_MAX_STEPS):
        survival = np.exp(-rate * size)
        step = (n - (len(size) - survival.sum())) / float((size * survival).sum())
        rate += step
        if abs(step) <= _TOLERANCE * rate:
            break
    return float(rate)


def draw_item_order(
    evalset: EvalSet, *, seed: int = 0, equal: bool = False, tau: float = TAU, scale: Scale = "auto", unit: str = "item"
) -> ItemOrder:
    """Draw an order of items, by expected error as `select` does by default, or with `equal` sizes.

    With unit="document" the items of a document stay together and share its mean size.
    """
    if not 0.0 <= tau <= 1.0:
        raise OptionError(f"tau is {tau:g}; choose between 0 and 1")
    data = sort_for_drawing(evalset)  # the draw depends on ids, not on the order of lines
    by_error = not equal and "error" in choose_method(evalset, "means").spec
    size = (1.0 - tau) * item_sizes(data, "error", None, scale) + tau if by_error else np.ones(data.n_items)
    rng = np.random.default_rng([seed, 0x0A11])
    codes = data.documents
    if unit == "document":
        if codes is None:
            raise OptionError("unit=document: the data have no documents")
        rows, size = _order_whole_documents(codes, size, rng)
    else:
        along = np.arange(data.n_items) if codes is None else _shuffle_documents(codes, rng)
        numbers = rng.random(data.n_items) if codes is None else spread_numbers(data.n_items, rng)
        waiting = np.empty(data.n_items)
        waiting[along] = -np.log1p(-numbers)
        rows = np.argsort(waiting / size, kind="stable")
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    place = np.array([row_of[item] for item in data.ids], dtype=np.int64)
    sizes = np.empty(data.n_items)
    sizes[place] = size
    return ItemOrder(place[rows], sizes)


def _shuffle_documents(codes: IntArray, rng: np.random.Generator) -> IntArray:
    """Return rows with documents, and the items in each, in random order.

    Otherwise, in small sets, the same neighbours would always compete, which changes how often they come first.
    """
    shuffled = rng.permutation(len(codes))
    return shuffled[random_document_order(codes[shuffled], rng)]


def _order_whole_documents(codes: IntArray, size: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    mean = group_means(codes, size)
    waiting = -np.log1p(-rng.random(len(mean))) / mean
    order = np.lexsort((np.arange(len(codes)), waiting[codes]))
    return order.astype(np.int64), mean[codes] / mean[codes].mean()


def spread_numbers(n: int, rng: np.random.Generator) -> FloatArray:
    """Return uniform numbers whose neighbours are far apart: van der Corput's sequence, randomly shifted.

    >>> numbers = spread_numbers(8, np.random.default_rng(0))
    >>> sorted((8 * numbers).astype(int).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    bits = max(1, int(n - 1).bit_length())
    index, mirrored = np.arange(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for bit in range(bits):
        mirrored |= ((index >> bit) & 1) << (bits - 1 - bit)
    shifted = mirrored ^ int(rng.integers(0, 2**bits))
    numbers: FloatArray = (shifted + rng.random(n)) / 2.0**bits
    return np.minimum(numbers, np.nextafter(1.0, 0.0))
