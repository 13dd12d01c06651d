"""Numbering of the words of many texts: equal numbers for equal words, exactly.

Words are those of `str.split()`. Creating and looking up strings dominates the comparison of short texts, so words are
read from the bytes of all texts at once: up to eight bytes are a number by themselves; only longer words are looked up.
Numbers are then mixed down to fewer bits, so that item, word and text fit into one integer to sort; if counting shows a
collision, another multiplier is tried.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aliquot.stats.arrays import BoolArray, IntArray

_Bytes = NDArray[np.uint8]
_Values = NDArray[np.uint64]

_BITS = 43  # leaves 20 bits for item and text
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
_LONG = 0xFF  # a byte that never occurs in UTF-8; marks numbers of long words
_STEP = 5  # bytes read per step; the other three number the prefix
_STEPS = 9
_KEEP = np.array([0, *((1 << 8 * size) - 1 for size in range(1, 9))], dtype=np.uint64)


def word_numbers(texts: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Return positive numbers of the words of all texts, concatenated, and the number of words of each text.

    >>> numbers, lengths = word_numbers(["a b a", "", "b"])
    >>> bool(numbers[0] == numbers[2] != numbers[1] == numbers[3]), lengths.tolist()
    (True, [3, 0, 1])
    """
    return word_numbers_of_bytes([text.encode("utf-8", "surrogatepass") for text in texts])


def word_numbers_of_bytes(coded: Sequence[bytes]) -> tuple[IntArray, IntArray]:
    """Return `word_numbers` of texts in UTF-8."""
    data = b" ".join(coded) + b" "
    if b"\0" in data:  # shorter words are padded with zeros, which would be ambiguous
        return _number_words_singly([text.decode("utf-8", "surrogatepass") for text in coded])
    ends = np.cumsum(np.fromiter(map(len, coded), np.int64, len(coded)) + 1)
    space = _is_space(np.frombuffer(b" " + data, dtype=np.uint8))
    borders = np.flatnonzero(space[1:] != space[:-1])
    starts, stops = borders[::2], borders[1::2]
    lengths = np.diff(np.searchsorted(starts, ends), prepend=0)
    return _mix_down(_word_values(data, starts, stops)), lengths


def _number_words_singly(texts: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Return `word_numbers` one word at a time."""
    words = [text.split() for text in texts]
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    number = defaultdict[str, int](itertools.count(1).__next__)
    symbols = map(number.__getitem__, itertools.chain.from_iterable(words))
    return np.fromiter(symbols, np.int64, int(lengths.sum())), lengths


def _is_space(data: _Bytes) -> BoolArray:
    """Return which bytes belong to whitespace, as defined by `str.isspace`."""
    space: BoolArray = (data == 32) | (data - np.uint8(9) < 5) | (data - np.uint8(28) < 4)
    rare = np.flatnonzero((data == 0xC2) | ((data >= 0xE1) & (data <= 0xE3)))
    second = data[rare + 1]
    two = (data[rare] == 0xC2) & ((second == 0x85) | (second == 0xA0))
    third = data[np.minimum(rare + 2, len(data) - 1)]
    general = (third <= 0x8A) | (third == 0xA8) | (third == 0xA9) | (third == 0xAF)
    three = ((data[rare] == 0xE2) & (((second == 0x80) & general) | ((second == 0x81) & (third == 0x9F)))) | (
        (third == 0x80) & (((data[rare] == 0xE1) & (second == 0x9A)) | ((data[rare] == 0xE3) & (second == 0x80)))
    )
    for offset, spaces in ((0, two | three), (1, two | three), (2, three)):
        space[rare[spaces] + offset] = True
    return space


def _word_values(data: bytes, starts: IntArray, stops: IntArray) -> _Values:
    """Return a number for each word: its bytes, or a marked number for words of more than eight bytes."""
    padded = np.frombuffer(data + bytes(8), dtype=np.uint8)
    every = np.lib.stride_tricks.as_strided(padded[:8].view("<u8"), shape=(len(data),), strides=(1,), writeable=False)
    size = stops - starts
    values: _Values = every[starts].astype(np.uint64) & _KEEP[np.minimum(size, 8)]
    open_words = np.flatnonzero(size > 8)
    codes = np.unique(values[open_words], return_inverse=True)[1]
    for step in range(1, _STEPS):  # equal prefixes and equal next bytes: equal
        read = 8 + _STEP * (step - 1)
        further = every[starts[open_words] + read].astype(np.uint64) & _KEEP[np.minimum(size[open_words] - read, _STEP)]
        merged = codes.astype(np.uint64) << np.uint64(8 * _STEP) | further
        codes = np.unique(merged, return_inverse=True)[1]
        is_finished = size[open_words] <= read + _STEP
        values[open_words[is_finished]] = _mark_long_words(codes[is_finished], step)
        open_words, codes = open_words[~is_finished], codes[~is_finished]
        if not len(open_words):
            return values
    number = defaultdict[bytes, int](itertools.count().__next__)
    spans = zip(starts[open_words].tolist(), stops[open_words].tolist(), strict=True)
    values[open_words] = _mark_long_words(np.array([number[data[start:stop]] for start, stop in spans]), _STEPS)
    return values


def _mark_long_words(codes: IntArray, step: int) -> _Values:
    """Return marked numbers of words that end in this step; no word's bytes equal them."""
    return codes.astype(np.uint64) << np.uint64(16) | np.uint64(step << 8 | _LONG)


def _mix_down(values: _Values) -> IntArray:
    """Return positive numbers of fewer bits, distinct for distinct values."""
    drop = np.uint64(64 - _BITS)
    for multiplier in _MULTIPLIERS:  # odd: different values have different products
        product = values * np.uint64(multiplier)
        ordered = np.sort(product)
        short = ordered >> drop
        if np.count_nonzero(ordered[1:] != ordered[:-1]) == np.count_nonzero(short[1:] != short[:-1]):
            return (product >> drop).view(np.int64) + 1
    return np.unique(values, return_inverse=True)[1].astype(np.int64) + 1
