"""Texts as arrays of code points, and hashes of their n-grams, vectorised over all characters of all texts at once.

A vectoriser that visits n-grams one by one takes ten minutes for a million texts; this takes less than one. Two n-grams
that differ have different 32-bit hashes but by chance (about one in four billion pairs).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from aliquot.stats.arrays import BoolArray, IntArray

Hashes = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

LONGEST = 20_000
"""Characters of a text that are looked at: what follows in a text of a megabyte adds to its length only."""

LAST = 0x30000
"""Code points from here on (tags, private use, unassigned) are not told apart."""

LETTER, UPPER, DIGIT, PUNCTUATION, SYMBOL, MARK, SPACE, CONTROL = (1 << bit for bit in range(8))
_BY_CATEGORY = {"L": LETTER, "N": DIGIT, "P": PUNCTUATION, "S": SYMBOL, "M": MARK, "Z": SPACE, "C": CONTROL}
_WHITE = (0x9, 0xA, 0xB, 0xC, 0xD, 0x85)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Texts cut into code points.

    Attributes:
        codes: the code points of all texts, one after the other, each text cut at LONGEST.
        folded: the same in lower case, every white space a space, every digit a zero.
        text: the number of the text that each code point belongs to.
        starts: where each text starts, and the end of the last (n + 1).
        lengths: characters of each text, uncut.
    """

    codes: Hashes
    folded: Hashes
    text: NDArray[np.int32]
    starts: IntArray
    lengths: IntArray

    @property
    def n(self) -> int:
        """The number of texts."""
        return len(self.lengths)

    def per_text(self, flags: BoolArray) -> IntArray:
        """Count what is flagged among the code points of each text."""
        running = np.concatenate([[0], np.cumsum(flags, dtype=np.int64)])
        counts: IntArray = running[self.starts[1:]] - running[self.starts[:-1]]
        return counts


@cache
def kinds() -> Bytes:
    """Return the kinds of character (a bit each), by code point."""
    table = np.zeros(LAST, dtype=np.uint8)
    for code in range(LAST):
        category = unicodedata.category(chr(code))
        table[code] = _BY_CATEGORY[category[0]] | (UPPER if category in ("Lu", "Lt") else 0)
    table[list(_WHITE)] = SPACE  # white space that Unicode calls control
    return table


@cache
def _folding() -> Hashes:
    """Lower case where it is one character, white space as a space, digits as zero."""
    table = np.arange(LAST, dtype=np.uint32)
    for code in np.flatnonzero(kinds() & UPPER).tolist():
        lower = chr(code).lower()
        table[code] = ord(lower) if len(lower) == 1 else code
    table[(kinds() & SPACE) > 0] = ord(" ")
    table[(kinds() & DIGIT) > 0] = ord("0")
    return table


def pieces(texts: Sequence[str | None]) -> Pieces:
    """Cut texts into code points; a missing text is an empty one.

    >>> pieces(["ab", None, "c"]).starts.tolist()
    [0, 2, 2, 3]
    """
    lengths = np.fromiter((len(text) if text else 0 for text in texts), dtype=np.int64, count=len(texts))
    joined = "".join([text[:LONGEST] if text else "" for text in texts])
    starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, LONGEST))]).astype(np.int64)
    raw = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    codes = np.minimum(raw, np.uint32(LAST - 1))
    text = np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(starts))
    return Pieces(codes, _folding()[codes], text, starts, lengths)


_MULTIPLIER = np.uint32(0x9E3779B1)
_BY_PLACE = np.uint32(0x27D4EB2F)
_MIX = (np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35))


def mixed(values: Hashes) -> Hashes:
    """MurmurHash3's finaliser: every bit of the input moves every bit of the output."""
    out = values ^ (values >> np.uint32(16))
    out *= _MIX[0]
    out ^= out >> np.uint32(13)
    out *= _MIX[1]
    out ^= out >> np.uint32(16)
    return out


def character_hashes(cut: Pieces, orders: Sequence[int]) -> list[tuple[Hashes, NDArray[np.int32]]]:
    """Hash every run of k characters inside a text, for each k of `orders`: hashes, and the text of each.

    >>> [len(hashes) for hashes, _ in character_hashes(pieces(["abc", "de"]), (1, 2, 3))]
    [5, 3, 1]
    """
    single = cut.folded * _MULTIPLIER
    rolled = single.copy()
    found = []
    for k in range(1, max(orders) + 1):
        if k > 1:
            rolled = mixed(rolled[:-1]) + single[k - 1 :] if len(rolled) else rolled
        if k in orders:
            inside = cut.text[: len(rolled)] == cut.text[len(cut.text) - len(rolled) :]
            found.append((mixed(rolled[inside] + np.uint32(k)), cut.text[: len(rolled)][inside]))
    return found


def word_hashes(cut: Pieces) -> tuple[Hashes, NDArray[np.int32]]:
    """Hash every word (a run of characters other than white space): hashes, and the text of each.

    A word's hash is the wrapping sum of its characters, each mixed with its place in the word, so that differences of
    running sums give it exactly.
    """
    first, last = word_ends(cut)
    place = np.arange(len(cut.folded), dtype=np.uint32)
    start = np.zeros(len(cut.folded), dtype=np.uint32)
    start[first] = first
    offset = place - np.maximum.accumulate(start) if len(start) else place
    parts = mixed(cut.folded * _MULTIPLIER + offset * _BY_PLACE + np.uint32(1))
    running = np.concatenate([np.zeros(1, dtype=np.uint32), np.cumsum(parts, dtype=np.uint32)])
    return mixed(running[last] - running[first]), cut.text[first]


def word_ends(cut: Pieces) -> tuple[IntArray, IntArray]:
    """Return where each word starts, and where it is over."""
    inside = cut.folded != ord(" ")
    edge = np.zeros(len(inside) + 1, dtype=np.bool_)
    edge[cut.starts] = True  # a word never goes on into the next text
    before = np.concatenate([[False], inside])
    after = np.concatenate([inside, [False]])
    first = np.flatnonzero(after & (~before | edge))
    last = np.flatnonzero(before & (~after | edge))
    return first, last


def pair_hashes(words: Hashes, text: NDArray[np.int32]) -> tuple[Hashes, NDArray[np.int32]]:
    """Hash every pair of neighbouring words of a text."""
    inside = text[:-1] == text[1:]
    return mixed(words[:-1][inside] * _MULTIPLIER + words[1:][inside]), text[:-1][inside]
