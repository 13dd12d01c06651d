"""Sources that almost repeat an earlier one: min-wise hashes of character shingles.

Broder (1997), "On the resemblance and containment of documents": the share of equal min-hashes of two texts estimates
the Jaccard similarity of their shingle sets. Texts are compared only where a band of hashes is equal
(locality-sensitive hashing), with the first text of the band and with the one before: one sort a band, not all pairs.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.feature_extraction.text import HashingVectorizer
from threadpoolctl import threadpool_limits

from aliquot.sampling.registry import Subset
from aliquot.sampling.texts import NGRAMS, embed
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

# -- Sources that almost repeat an earlier one: min-wise hashes of character shingles --------------------------------


SHINGLE = 6
HASHES = 24
BAND = 4
SIMILAR = 0.8
"""Estimated Jaccard similarity from which a source counts as a near duplicate."""

_CHUNK = 1 << 13
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_CONSTANTS = np.random.default_rng(20240229).integers(1, 2**64, (HASHES, 2), dtype=np.uint64) | np.uint64(1)


def signatures(texts: pl.Series) -> NDArray[np.uint32]:
    """Min-hashes of each text's shingles of six characters, whatever the script; a shorter text is one shingle.

    >>> a, b, c = signatures(pl.Series(["the cat sat on the mat", "the cat sat on the mat.", "a dog"]))
    >>> bool((a == b).mean() > 0.8 and (a == c).mean() < 0.2)
    True
    """
    padded = texts.fill_null("").str.pad_end(SHINGLE)
    parts = [_signatures(padded.slice(start, _CHUNK)) for start in range(0, len(padded), _CHUNK)]
    return np.concatenate(parts) if parts else np.zeros((0, HASHES), dtype=np.uint32)


def _signatures(texts: pl.Series) -> NDArray[np.uint32]:
    lengths = texts.str.len_chars().to_numpy().astype(np.int64)
    letters = np.frombuffer("".join(texts.to_list()).encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    rolled = np.zeros(len(letters) - SHINGLE + 1, dtype=np.uint64)
    for place in range(SHINGLE):
        rolled = rolled * _PRIME + letters[place : place + len(rolled)]
    rolled ^= rolled >> np.uint64(29)
    starts = np.cumsum(lengths) - lengths
    counts = lengths - SHINGLE + 1
    # Windows that reach into the next text are no shingles of either.
    inside = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    shingles = rolled[inside]
    firsts = np.cumsum(counts) - counts
    found = np.empty((len(texts), HASHES), dtype=np.uint32)
    for at, (factor, summand) in enumerate(_CONSTANTS):
        mixed = (shingles * factor + summand) >> np.uint64(32)
        found[:, at] = np.minimum.reduceat(mixed, firsts).astype(np.uint32)
    return found


def near_duplicates(found: NDArray[np.uint32], similar: float = SIMILAR) -> BoolArray:
    """Mark the rows that almost repeat an earlier row.

    >>> near_duplicates(signatures(pl.Series(["a long enough text", "b", "a long enough text"]))).tolist()
    [False, False, True]
    """
    repeated = np.zeros(len(found), dtype=np.bool_)
    least = int(np.ceil(similar * HASHES))
    for first in range(0, HASHES, BAND):
        keys = np.zeros(len(found), dtype=np.uint64)
        for column in range(first, first + BAND):
            keys = (keys ^ found[:, column].astype(np.uint64)) * _PRIME
            keys ^= keys >> np.uint64(31)
        later, leader, before = _pairs(keys)
        for start in range(0, len(later), 1 << 16):
            cut = slice(start, start + (1 << 16))
            own = found[later[cut]]
            alike = np.maximum((own == found[leader[cut]]).sum(axis=1), (own == found[before[cut]]).sum(axis=1))
            repeated[later[cut][alike >= least]] = True
    return repeated


def _pairs(keys: NDArray[np.uint64]) -> tuple[IntArray, IntArray, IntArray]:
    """Rows whose key stands in an earlier row, the first row with that key, and the last one before."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeats = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[repeats] = False
    head = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    return order[repeats], order[head[repeats]], order[repeats - 1]


# -- Vectors of sources for clusters: hashed character n-grams by default, sentence embeddings on request ------------


DIMENSIONS = 64


def vectors_of(texts: list[str], model: str) -> NDArray[np.float32]:
    """Return one vector per text that depends on this text alone.

    >>> vectors_of(["a cat", "two dogs"], "ngrams").shape
    (2, 64)
    """
    if model != NGRAMS:
        return embed(texts, model).astype(np.float32)
    hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3), n_features=DIMENSIONS, dtype=np.float32)
    dense: NDArray[np.float32] = hashed.transform(texts).toarray()
    return dense


# -- Mini-batch k-means over a pool: the items nearest to as many centres as the budget allows -----------------------


_BATCH = 4096
_STEPS = 40
_CLUSTER_CHUNK = 1 << 14


def pool_kmeans(
    vectors: NDArray[np.generic],
    rows: IntArray,
    n: int,
    rng: np.random.Generator,
    *,
    weighted: bool = False,
    model: str = NGRAMS,
) -> Subset:
    """Items nearest to the centres of n clusters of the vectors at `rows`; places in `rows` are returned.

    Args:
        weighted: give each chosen item the size of its cluster as weight.
        model: ngrams for light vectors, or a sentence-transformers model (name or path).
    """
    del model  # the first pass has made the vectors with it
    n = min(n, len(rows))
    centres = _centres(vectors, rows, n, rng)
    label, distance = _assigned(vectors, rows, centres)
    order = np.lexsort((distance, label))
    chosen = np.sort(order[np.unique(label[order], return_index=True)[1]])
    if len(chosen) < n:  # some centres are nobody's nearest: add the items that are farthest from theirs
        rest = np.argsort(-distance, kind="stable")
        rest = rest[~np.isin(rest, chosen)]
        chosen = np.concatenate([chosen, rest[: n - len(chosen)]])
    if not weighted:
        return Subset(chosen)
    size = np.bincount(label, minlength=len(centres))[label[chosen]]
    shared = np.bincount(label[chosen], minlength=len(centres))[label[chosen]]
    return Subset(chosen, (size / shared).astype(np.float64))


def _centres(vectors: NDArray[np.generic], rows: IntArray, n: int, rng: np.random.Generator) -> FloatArray:
    batch = max(_BATCH, 3 * n)
    fit = MiniBatchKMeans(n, batch_size=batch, n_init=1, random_state=int(rng.integers(2**31)))
    with threadpool_limits(limits=1):
        if batch >= len(rows):
            fit.fit(np.asarray(vectors[rows], dtype=np.float64))
        else:
            for _ in range(_STEPS):
                drawn = np.sort(rng.choice(len(rows), batch, replace=False))
                fit.partial_fit(np.asarray(vectors[rows[drawn]], dtype=np.float64))
    return np.asarray(fit.cluster_centers_, dtype=np.float64)


def _assigned(vectors: NDArray[np.generic], rows: IntArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """The nearest centre of every row and the squared distance to it, a bounded stretch at a time."""
    label = np.empty(len(rows), dtype=np.int64)
    distance = np.empty(len(rows))
    own = (centres**2).sum(axis=1)
    step = max(1, min(_CLUSTER_CHUNK, (1 << 24) // len(centres)))
    with threadpool_limits(limits=1):
        for start in range(0, len(rows), step):
            part = np.asarray(vectors[rows[start : start + step]], dtype=np.float64)
            gap = own - 2.0 * (part @ centres.T)
            nearest = gap.argmin(axis=1)
            label[start : start + step] = nearest
            distance[start : start + step] = ((part - centres[nearest]) ** 2).sum(axis=1)
    return label, distance
