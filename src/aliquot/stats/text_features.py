"""Text features without downloads: hashed n-grams of characters and words, and surface statistics.

An n-gram is hashed to a bucket and a sign (feature hashing, Weinberger et al. 2009). A text's vector is the signed sum
over its n-grams divided by the root of their number, so that its length hardly depends on that of the text, and a
linear model is applied by adding weights, without a matrix.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

Hashes = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

MAX_CHARACTERS = 20_000
"""Maximum number of characters of a text that are read; the rest only adds to its length."""

MAX_CODE_POINT = 0x30000
"""Code points from here on (tags, private use, unassigned) are treated as equal."""

LETTER, UPPER, DIGIT, PUNCTUATION, SYMBOL, MARK, SPACE, CONTROL = (1 << bit for bit in range(8))
_BY_CATEGORY = {"L": LETTER, "N": DIGIT, "P": PUNCTUATION, "S": SYMBOL, "M": MARK, "Z": SPACE, "C": CONTROL}
_WHITE = (0x9, 0xA, 0xB, 0xC, 0xD, 0x85)


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """Texts encoded as code points."""

    codes: Hashes  # code points of all texts, concatenated, each text cut at MAX_CHARACTERS
    folded: Hashes  # the same in lower case, white space as a space, digits as zero
    text: NDArray[np.int32]  # index of the text of each code point
    starts: IntArray  # offsets of texts (n + 1)
    lengths: IntArray  # characters of each text before cutting

    @property
    def n(self) -> int:
        """Number of texts."""
        return len(self.lengths)

    def per_text(self, flags: BoolArray) -> IntArray:
        """Count the flagged code points of each text."""
        running = np.concatenate([[0], np.cumsum(flags, dtype=np.int64)])
        counts: IntArray = running[self.starts[1:]] - running[self.starts[:-1]]
        return counts


@cache
def character_kinds() -> Bytes:
    """Return the character classes (a bit each) by code point."""
    table = np.zeros(MAX_CODE_POINT, dtype=np.uint8)
    for code in range(MAX_CODE_POINT):
        category = unicodedata.category(chr(code))
        table[code] = _BY_CATEGORY[category[0]] | (UPPER if category in ("Lu", "Lt") else 0)
    table[list(_WHITE)] = SPACE  # white space in Unicode's category control
    return table


@cache
def _folding_table() -> Hashes:
    """Return the folding table: lower case if it is one character, white space as a space, digits as zero."""
    table = np.arange(MAX_CODE_POINT, dtype=np.uint32)
    for code in np.flatnonzero(character_kinds() & UPPER).tolist():
        lower = chr(code).lower()
        table[code] = ord(lower) if len(lower) == 1 else code
    table[(character_kinds() & SPACE) > 0] = ord(" ")
    table[(character_kinds() & DIGIT) > 0] = ord("0")
    return table


def encode_texts(texts: Sequence[str | None]) -> EncodedTexts:
    """Encode texts as code points; a missing text is empty.

    >>> encode_texts(["ab", None, "c"]).starts.tolist()
    [0, 2, 2, 3]
    """
    lengths = np.fromiter((len(text) if text else 0 for text in texts), dtype=np.int64, count=len(texts))
    joined = "".join([text[:MAX_CHARACTERS] if text else "" for text in texts])
    starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, MAX_CHARACTERS))]).astype(np.int64)
    raw = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    codes = np.minimum(raw, np.uint32(MAX_CODE_POINT - 1))
    text = np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(starts))
    return EncodedTexts(codes, _folding_table()[codes], text, starts, lengths)


_MULTIPLIER = np.uint32(0x9E3779B1)
_BY_PLACE = np.uint32(0x27D4EB2F)
_MIX = (np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35))


def mix_bits(values: Hashes) -> Hashes:
    """Apply MurmurHash3's finaliser: every input bit affects every output bit."""
    out = values ^ (values >> np.uint32(16))
    out *= _MIX[0]
    out ^= out >> np.uint32(13)
    out *= _MIX[1]
    out ^= out >> np.uint32(16)
    return out


def character_hashes(cut: EncodedTexts, orders: Sequence[int]) -> list[tuple[Hashes, NDArray[np.int32]]]:
    """Hash character n-grams for each k of `orders`: hashes, and the text of each.

    >>> [len(hashes) for hashes, _ in character_hashes(encode_texts(["abc", "de"]), (1, 2, 3))]
    [5, 3, 1]
    """
    single = cut.folded * _MULTIPLIER
    rolled = single.copy()
    hashes = []
    for k in range(1, max(orders) + 1):
        if k > 1:
            rolled = mix_bits(rolled[:-1]) + single[k - 1 :] if len(rolled) else rolled
        if k in orders:
            inside = cut.text[: len(rolled)] == cut.text[len(cut.text) - len(rolled) :]
            hashes.append((mix_bits(rolled[inside] + np.uint32(k)), cut.text[: len(rolled)][inside]))
    return hashes


def word_hashes(cut: EncodedTexts) -> tuple[Hashes, NDArray[np.int32]]:
    """Hash words (runs of characters other than white space): hashes, and the text of each.

    A word's hash is the wrapping sum of its characters, each mixed with its position, so that differences of cumulative
    sums give it exactly.
    """
    first, last = word_bounds(cut)
    place = np.arange(len(cut.folded), dtype=np.uint32)
    start = np.zeros(len(cut.folded), dtype=np.uint32)
    start[first] = first
    offset = place - np.maximum.accumulate(start) if len(start) else place
    parts = mix_bits(cut.folded * _MULTIPLIER + offset * _BY_PLACE + np.uint32(1))
    running = np.concatenate([np.zeros(1, dtype=np.uint32), np.cumsum(parts, dtype=np.uint32)])
    return mix_bits(running[last] - running[first]), cut.text[first]


def word_bounds(cut: EncodedTexts) -> tuple[IntArray, IntArray]:
    """Return start and end of each word."""
    inside = cut.folded != ord(" ")
    edge = np.zeros(len(inside) + 1, dtype=np.bool_)
    edge[cut.starts] = True  # words do not span texts
    before = np.concatenate([[False], inside])
    after = np.concatenate([inside, [False]])
    first = np.flatnonzero(after & (~before | edge))
    last = np.flatnonzero(before & (~after | edge))
    return first, last


def word_pair_hashes(words: Hashes, text: NDArray[np.int32]) -> tuple[Hashes, NDArray[np.int32]]:
    """Hash word bigrams: hashes, and the text of each."""
    inside = text[:-1] == text[1:]
    return mix_bits(words[:-1][inside] * _MULTIPLIER + words[1:][inside]), text[:-1][inside]


# -- Surface statistics, n-gram matrices, unseen words -----------------------------------------------------------------


HASH_BITS = 18
SEEN_BITS = 20
CHARACTER_ORDERS = (1, 2, 3, 4)
WORD_ORDERS = (1, 2)
_SEEN_ORDER = 3
_MIN_LONG_WORD = 10

_SCRIPTS: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = (
    ("latin", ((0x41, 0x5B), (0x61, 0x7B), (0xC0, 0x250), (0x1E00, 0x1F00))),
    ("greek", ((0x370, 0x400), (0x1F00, 0x2000))),
    ("cyrillic", ((0x400, 0x530),)),
    ("hebrew", ((0x590, 0x600),)),
    ("arabic", ((0x600, 0x780), (0x8A0, 0x900), (0xFB50, 0xFE00), (0xFE70, 0xFF00))),
    ("indic", ((0x900, 0xE00),)),
    ("thai", ((0xE00, 0xE80),)),
    ("han", ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x30000))),
    ("kana", ((0x3040, 0x3100), (0x31F0, 0x3200), (0xFF66, 0xFFA0))),
    ("hangul", ((0x1100, 0x1200), (0x3130, 0x3190), (0xAC00, 0xD7B0))),
)
_UNSPACED = ("thai", "han", "kana", "hangul")

_CHARACTER_LISTS = (".!?。！？؟", ",;:，、；：،", "\"'“”„‘’«»「」", "()[]{}（）【】", "@#", "\n")

SURFACE_FEATURES = (
    "log length",
    "log characters",
    "word length",
    "long words",
    "upper",
    "capitalised",
    "digits",
    "punctuation",
    "symbols",
    "marks",
    "controls",
    "sentence ends",
    "commas",
    "quotes",
    "brackets",
    "at or hash",
    "lines",
    *(f"script {name}" for name, _ in _SCRIPTS),
)
"""Names of the columns of `surface_features`."""


@cache
def _script_table() -> Bytes:
    table = np.full(MAX_CODE_POINT, len(_SCRIPTS), dtype=np.uint8)
    for number, (_, ranges) in enumerate(_SCRIPTS):
        for low, high in ranges:
            table[low:high] = number
    return table


@cache
def _membership_table(characters: str) -> BoolArray:
    table = np.zeros(MAX_CODE_POINT, dtype=np.bool_)
    table[[ord(character) for character in characters]] = True
    return table


def surface_features(cut: EncodedTexts) -> FloatArray:
    """Return `SURFACE_FEATURES` of each text (n x features): log lengths, shares per character or word.

    The length is in words, or in characters for scripts without spaces (as in `data.lengths`). An empty text has 0
    everywhere.

    >>> row = dict(zip(SURFACE_FEATURES, surface_features(encode_texts(["Two dogs, 3 cats."]))[0].round(3).tolist()))
    >>> row["log length"], row["digits"], row["commas"], row["script latin"]
    (1.609, 0.059, 0.059, 0.647)
    """
    kind = character_kinds()[cut.codes]
    size = np.maximum(np.diff(cut.starts), 1).astype(np.float64)
    stretch = np.maximum(cut.lengths / size, 1.0)  # the rest of a cut text is assumed to be like its start

    def share(flags: BoolArray) -> FloatArray:
        return cut.per_text(flags) / size

    every = len(_SCRIPTS) + 1
    script_counts = np.bincount(cut.text * np.int64(every) + _script_table()[cut.codes], minlength=every * cut.n)
    shares = list((script_counts.reshape(cut.n, every) / size[:, None]).T[:-1])
    first, last = word_bounds(cut)
    in_text = cut.text[first]
    words = np.bincount(in_text, minlength=cut.n).astype(np.float64)
    n_words = np.maximum(words, 1.0)
    long_words = np.bincount(in_text[last - first >= _MIN_LONG_WORD], minlength=cut.n)
    capital = np.bincount(in_text[(kind[first] & UPPER) > 0], minlength=cut.n)
    unspaced = sum(shares[script] for script, (name, _) in enumerate(_SCRIPTS) if name in _UNSPACED) > 1 / 3
    length = np.where(unspaced, cut.lengths, words * stretch)
    return np.column_stack(
        [
            np.log1p(length),
            np.log1p(cut.lengths),
            np.where(unspaced, 0.0, cut.per_text((kind & SPACE) == 0) / n_words),
            long_words / n_words,
            share((kind & UPPER) > 0),
            capital / n_words,
            *(share((kind & bit) > 0) for bit in (DIGIT, PUNCTUATION, SYMBOL, MARK, CONTROL)),
            *(share(_membership_table(characters)[cut.codes]) for characters in _CHARACTER_LISTS),
            *shares,
        ]
    )


def _ngram_hashes(
    cut: EncodedTexts, characters: Sequence[int], words: Sequence[int]
) -> list[tuple[Hashes, NDArray[np.int32]]]:
    hashes = character_hashes(cut, characters) if characters else []
    if words:
        single = word_hashes(cut)
        hashes += [single] if 1 in words else []
        hashes += [word_pair_hashes(*single)] if 2 in words else []
    return hashes


def _signed_weights(hashes: Hashes, weights: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return signed weights of hashes: the top bits are the bucket, the lowest the sign."""
    bits = np.uint32(32 - len(weights).bit_length() + 1)
    values = weights[hashes >> bits]
    signed: NDArray[np.floating] = np.where(hashes & np.uint32(1), values, -values)
    return signed


def ngram_matrix(
    cut: EncodedTexts,
    bits: int = HASH_BITS,
    characters: Sequence[int] = CHARACTER_ORDERS,
    words: Sequence[int] = WORD_ORDERS,
) -> sparse.csr_matrix:
    """Return hashed n-grams of texts (n x 2^bits): signed counts over the root of their number.

    >>> ngram_matrix(encode_texts(["a cat", ""])).shape
    (2, 262144)
    """
    rows, columns, values = [], [], []
    for hashes, text in _ngram_hashes(cut, characters, words):
        rows.append(text)
        columns.append((hashes >> np.uint32(32 - bits)).astype(np.int32))
        values.append(np.where(hashes & np.uint32(1), 1.0, -1.0).astype(np.float32))
    row = np.concatenate(rows)
    counts = sparse.csr_matrix((np.concatenate(values), (row, np.concatenate(columns))), shape=(cut.n, 1 << bits))
    number = np.bincount(row, minlength=cut.n)
    return sparse.diags(1.0 / np.sqrt(np.maximum(number, 1.0))) @ counts


def ngram_scores(
    cut: EncodedTexts,
    weights: NDArray[np.floating],
    characters: Sequence[int] = CHARACTER_ORDERS,
    words: Sequence[int] = WORD_ORDERS,
) -> FloatArray:
    """Apply a linear model: `ngram_matrix(cut) @ weights` without the matrix.

    >>> cut, weights = encode_texts(["a cat", ""]), np.linspace(-1, 1, 1 << HASH_BITS)
    >>> bool(np.allclose(ngram_scores(cut, weights), ngram_matrix(cut) @ weights))
    True
    """
    total = np.zeros(cut.n)
    number = np.zeros(cut.n)
    for hashes, text in _ngram_hashes(cut, characters, words):
        total += np.bincount(text, weights=_signed_weights(hashes, weights), minlength=cut.n)
        number += np.bincount(text, minlength=cut.n)
    return total / np.sqrt(np.maximum(number, 1.0))


def hashed_vectors(texts: Sequence[str | None], size: int = 256) -> FloatArray:
    """Return unit vectors of hashed character trigrams (n x size); 0 for an empty text.

    Inner products approximate cosines of trigram counts with an error of about 1 / sqrt(size).

    >>> vectors = hashed_vectors(["the cat sat", "the cat sits", "something else", ""])
    >>> bool(vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]), float(vectors[3] @ vectors[3])
    (True, 0.0)
    """
    cut = encode_texts(texts)
    ((hashes, text),) = character_hashes(cut, (_SEEN_ORDER,))
    bucket = text.astype(np.int64) * size + ((hashes >> np.uint32(8)) % np.uint32(size)).astype(np.int64)
    sums = np.bincount(bucket, np.where(hashes & np.uint32(1), 1.0, -1.0), minlength=cut.n * size)
    vectors = sums.reshape(cut.n, size)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


def empty_seen_table() -> BoolArray:
    """Return an empty table of seen hashes of words and character trigrams: 2 x 2^20 flags."""
    return np.zeros((2, 1 << SEEN_BITS), dtype=np.bool_)


def mark_seen(cut: EncodedTexts, memory: BoolArray) -> None:
    """Mark the words and character trigrams of these texts as seen, in place."""
    for row, (hashes, _) in enumerate(_seen_hashes(cut)):
        memory[row, hashes >> np.uint32(32 - SEEN_BITS)] = True


def unseen_shares(cut: EncodedTexts, memory: BoolArray) -> FloatArray:
    """Return the shares of unseen words and character trigrams (n x 2); 0 for a text without any.

    Hash collisions make some unseen ones count as seen: at most the share of marked flags.
    """
    shares = []
    for row, (hashes, text) in enumerate(_seen_hashes(cut)):
        new = ~memory[row, hashes >> np.uint32(32 - SEEN_BITS)]
        count = np.bincount(text, minlength=cut.n)
        shares.append(np.bincount(text[new], minlength=cut.n) / np.maximum(count, 1))
    return np.column_stack(shares)


def _seen_hashes(cut: EncodedTexts) -> list[tuple[Hashes, NDArray[np.int32]]]:
    return [word_hashes(cut), *character_hashes(cut, (_SEEN_ORDER,))]
