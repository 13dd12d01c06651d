"""Clipped n-gram matches between all texts of an item, for many items at once.

A text is a sequence of positive integer symbols (words, characters). For texts a and b the clipped matches of order k
are the sum over distinct k-grams of min(count in a, count in b), which BLEU, chrF and the Dice coefficient need. Every
n-gram is counted once per text, not once per pair, and counts are exact (no hashing): all n-grams of the longest order
are packed into integers, `item | symbol 1 | ... | symbol n | text`, and sorted once. Shorter n-grams are prefixes, so
the same array serves every order. A table of counts, n-gram by text, gives all pairs of an item in one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.validation import at_least

_PackedWords = NDArray[np.uint64]

_WORD_BITS = 64


class _BitField(NamedTuple):
    """Position of a field: word, bits from its end, and width in bits."""

    word: int
    shift: int
    bits: int


_CHUNK = 1 << 20
"""Cells of a table of counts held at once, which bounds memory for items with many texts."""


def ngram_totals(lengths: IntArray, order: int) -> IntArray:
    """Count the n-grams of texts with the given lengths, one leading row per order 1 to `order`.

    >>> ngram_totals(np.array([3, 1]), 2).tolist()
    [[3, 1], [2, 0]]
    """
    shorter = np.arange(order).reshape(-1, *[1] * lengths.ndim)
    totals: IntArray = np.maximum(lengths - shorter, 0)
    return totals


def clipped_matches(symbols: IntArray, lengths: IntArray, order: int) -> FloatArray:
    """Count the n-grams that the texts of an item share, each as often as the text that has fewer of them.

    `symbols` are positive, concatenated texts; `lengths` (items x texts, row-major) are their numbers of symbols, 0 for
    an absent text. Returns orders 1 to `order` x items x texts x texts; the diagonal counts a text's n-grams. The texts
    "1 2 1" and "1 1 2" of one item share three symbols and one bigram, "1 2":

    >>> clipped_matches(np.array([1, 2, 1, 1, 1, 2]), np.array([[3, 3]]), 2)[:, 0].tolist()
    [[[3.0, 3.0], [3.0, 3.0]], [[2.0, 1.0], [1.0, 2.0]]]
    """
    _validate_symbols(symbols, lengths, order)
    items, width = lengths.shape
    matches = np.zeros((order, items, width, width))
    if symbols.size:
        grams = _sorted_ngrams(symbols, lengths, order)
        for k in range(order):
            _add_matches(matches[k], *grams.find_shared(k + 1))
    diagonal = np.arange(width)
    matches[:, :, diagonal, diagonal] = ngram_totals(lengths, order)
    return matches


def _validate_symbols(symbols: IntArray, lengths: IntArray, order: int) -> None:
    at_least("order", order, 1)
    if lengths.ndim != 2 or lengths.sum() != symbols.size:
        raise OptionError(f"`lengths` add up to {lengths.sum()} but there are {symbols.size} symbols")
    if symbols.size and symbols.min() < 1:
        raise OptionError(f"`symbols` must be positive, not {symbols.min()}")


@dataclass(frozen=True)
class _SortedNgrams:
    """Packed n-grams in sorted order.

    Fields are the item, the symbols, and the text's column, most significant first. Most often all of them fit into
    one word; long n-grams over a large alphabet take several.
    """

    words: list[_PackedWords]
    places: list[_BitField]

    def read_field(self, index: int, rows: IntArray | BoolArray) -> IntArray:
        place = self.places[index]
        mask = np.uint64((1 << place.bits) - 1)
        return ((self.words[place.word][rows] >> np.uint64(place.shift)) & mask).view(np.int64)

    def find_starts(self, index: int) -> IntArray:
        """Return where the fields up to and including `index` differ from those of the previous n-gram."""
        place = self.places[index]
        prefix = self.words[place.word] >> np.uint64(place.shift)
        changed: BoolArray = np.empty(prefix.size, dtype=np.bool_)
        changed[0] = True
        np.not_equal(prefix[1:], prefix[:-1], out=changed[1:])
        for earlier in self.words[: place.word]:
            changed[1:] |= earlier[1:] != earlier[:-1]
        return np.flatnonzero(changed)

    def find_shared(self, k: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return the n-grams of `k` symbols that occur more than once in their item.

        Their items (ascending), counts, and the columns of their texts in the same order.
        """
        starts = self.find_starts(k)
        sizes = np.diff(starts, append=self.words[0].size)
        # A zero symbol is padding behind the end of a text: no n-gram of this order.
        repeated = (sizes > 1) & (self.read_field(k, starts) > 0)
        return self.read_field(0, starts[repeated]), sizes[repeated], self.read_field(-1, np.repeat(repeated, sizes))


def _sorted_ngrams(symbols: IntArray, lengths: IntArray, order: int) -> _SortedNgrams:
    """Pack item, the `order` symbols from each position on, and column; sort."""
    items, width = lengths.shape
    tops = [items - 1, *[int(symbols.max())] * order, width - 1]
    places = _lay_out_fields([max(top.bit_length(), 1) for top in tops])
    per_text = [np.zeros(lengths.shape, dtype=np.int64) for _ in range(places[-1].word + 1)]
    per_text[0] |= np.arange(items, dtype=np.int64)[:, None] << places[0].shift
    per_text[-1] |= np.arange(width)
    words = [np.repeat(values, lengths.ravel()).view(np.uint64) for values in per_text]
    remaining = np.repeat(np.cumsum(lengths), lengths.ravel()) - np.arange(symbols.size)
    for k, place in enumerate(places[1:-1]):
        words[place.word] |= _symbols_ahead(symbols, remaining, k).view(np.uint64) << np.uint64(place.shift)
    if len(words) == 1:
        words[0].sort()
    else:
        ranking = np.lexsort(words[::-1])
        words = [word[ranking] for word in words]
    return _SortedNgrams(words, places)


def _symbols_ahead(symbols: IntArray, remaining: IntArray, k: int) -> IntArray:
    """Return the symbols `k` positions ahead, 0 behind the end of the text; `remaining` counts symbols to the end."""
    if k == 0:
        return symbols
    ahead = np.zeros_like(symbols)
    np.multiply(symbols[k:], remaining[:-k] > k, out=ahead[:-k])
    return ahead


def _lay_out_fields(widths: list[int]) -> list[_BitField]:
    """Assign fields of the given bit widths to as few words as possible, without crossing word borders.

    >>> [tuple(place) for place in _lay_out_fields([4, 40, 40])]
    [(0, 40, 4), (0, 0, 40), (1, 0, 40)]
    """
    groups: list[list[int]] = [[]]
    for bits in widths:
        if sum(groups[-1]) + bits > _WORD_BITS:
            groups.append([])
        groups[-1].append(bits)
    return [_BitField(word, sum(g[i + 1 :]), bits) for word, g in enumerate(groups) for i, bits in enumerate(g)]


def _add_matches(matches: FloatArray, item: IntArray, sizes: IntArray, columns: IntArray) -> None:
    """Add the matches of the n-grams of one order to `matches` (items x texts x texts), in place."""
    for groups, counts in _count_tables(sizes, columns, matches.shape[1]):
        _add_products(matches, item[groups], counts > 0)
        maxima = counts.max(axis=0)
        _add_products(matches, np.repeat(item[groups], maxima - 1), _further_levels(counts, maxima))


def _add_products(matches: FloatArray, item: IntArray, indicators: BoolArray) -> None:
    """Add for each item the number of columns in which both texts of a pair are marked."""
    items, first = np.unique(item, return_index=True)
    marks = indicators.astype(np.float64)
    borders = [*first.tolist(), item.size]
    for i, low, high in zip(items.tolist(), borders, borders[1:], strict=False):
        part = marks[:, low:high]
        matches[i] += part @ part.T


def _count_tables(sizes: IntArray, columns: IntArray, width: int) -> Iterator[tuple[slice, IntArray]]:
    """Yield tables of counts, texts by n-grams, for a bounded number of n-grams at a time."""
    ends = np.concatenate(([0], np.cumsum(sizes)))
    step = max(_CHUNK // width, 1)
    for low in range(0, sizes.size, step):
        groups = slice(low, min(low + step, sizes.size))
        n = groups.stop - low
        gram = np.repeat(np.arange(n), sizes[groups])
        cells = columns[ends[low] : ends[groups.stop]] * n + gram
        yield groups, np.bincount(cells, minlength=width * n).reshape(width, n)


def _further_levels(counts: IntArray, maxima: IntArray) -> BoolArray:
    """Mark for each n-gram the texts with at least two, three, ..., `maxima` occurrences.

    With "at least once" this makes min a product: min(x, y) is the number of levels that both x and y reach.

    >>> _further_levels(np.array([[3, 1], [2, 0]]), np.array([3, 1])).tolist()
    [[True, True], [True, False]]
    """
    often = maxima > 1
    repeats = maxima[often] - 1
    level = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats) + 1
    return np.repeat(counts[:, often], repeats, axis=1) > level
