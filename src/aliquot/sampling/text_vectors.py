"""Texts as numbers: sentence embeddings (extra `embed`), light n-gram vectors, and min-hashes for near duplicates.

Broder (1997), "On the resemblance and containment of documents": the share of equal min-hashes of two texts estimates
the Jaccard similarity of their shingle sets. Texts are compared only where a band of hashes is equal
(locality-sensitive hashing), with the first text of the band and with the one before: one sort a band, not all pairs.
This is array code and not datasketch, which hashes one text at a time in Python and would be one more dependency.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import warnings
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aliquot.errors import AliquotWarning, MissingExtraError, OptionError
from aliquot.io.download import cache_folder
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

NGRAMS = "ngrams"
DEFAULT_MODEL = "paraphrase-multilingual-MiniLM-L12-v2"
_DIMENSIONS = 128
_HASHED_DIMENSIONS = 64
_PATIENCE = 10.0  # seconds to wait for another process that writes the cache

SHINGLE = 6
HASHES = 24
BAND = 4
MIN_SIMILARITY = 0.8
"""Estimated Jaccard similarity from which a source counts as a near duplicate."""

_CHUNK = 1 << 13
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_CONSTANTS = np.random.default_rng(20240229).integers(1, 2**64, (HASHES, 2), dtype=np.uint64) | np.uint64(1)


def embed(texts: Sequence[str], model: str = DEFAULT_MODEL) -> FloatArray:
    """Return one unit vector per text; equal texts are embedded once.

    >>> embed(["a cat", "a cat", "two dogs"], model="ngrams").shape[0]
    3
    """
    distinct = list(dict.fromkeys(texts))
    vectors = _ngram_vectors(tuple(distinct)) if model == NGRAMS else _cached_vectors(distinct, model)
    place = {text: row for row, text in enumerate(distinct)}
    return vectors[[place[text] for text in texts]]


@lru_cache(maxsize=2)
def _ngram_vectors(texts: tuple[str, ...]) -> FloatArray:
    """Character n-gram tf-idf vectors, reduced by singular value decomposition.

    The last two sets of texts are remembered: replays ask for the same ones at every budget.
    """
    if not any(text.strip() for text in texts):
        return np.zeros((len(texts), 1))
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415  (slow to import)
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415  (slow to import)
    from sklearn.preprocessing import normalize  # noqa: PLC0415  (slow to import)

    counts = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), sublinear_tf=True).fit_transform(texts)
    is_small = len(texts) <= 2 * _DIMENSIONS or counts.shape[1] <= _DIMENSIONS  # nothing to gain, and much to lose
    dense = counts.toarray() if is_small else TruncatedSVD(_DIMENSIONS, random_state=0).fit_transform(counts)
    return np.asarray(normalize(dense), dtype=np.float64)


def _cached_vectors(texts: list[str], model: str) -> FloatArray:
    """Return vectors from the cache; embed missing texts. An unusable cache only causes a warning."""
    store = cache_folder() / "embeddings" / f"{_file_name(model)}.sqlite"
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    vectors = _read_cache(store, keys)
    missing = [row for row, key in enumerate(keys) if key not in vectors]
    if missing:
        fresh = _encode_texts([texts[row] for row in missing], model)
        rows = [(keys[row], fresh[order].tobytes()) for order, row in enumerate(missing)]
        vectors.update(rows)
        if len({len(vector) for vector in vectors.values()}) > 1:  # another version of the encoder wrote the others
            warnings.warn(f"{store}: holds vectors of another length; it is made anew", AliquotWarning, 2)
            store.unlink(missing_ok=True)
            return _cached_vectors(texts, model)
        _write_cache(store, rows)
    return np.stack([np.frombuffer(vectors[key], dtype=np.float32) for key in keys]).astype(np.float64)


def _read_cache(store: Path, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return cached vectors by key; none if the cache is damaged or locked."""
    if not store.exists():
        return {}
    try:
        with closing(sqlite3.connect(store, timeout=_PATIENCE)) as database:
            rows = {key: row[0] for key in keys if (row := _fetch_vector(database, key)) is not None}
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.OperationalError):  # locked, or not to be opened: leave it as it is
            warnings.warn(
                f"{store}: the cache of embeddings cannot be read ({error}); texts are embedded anew", AliquotWarning, 2
            )
        else:
            warnings.warn(f"{store}: the cache of embeddings is damaged ({error}); it is made anew", AliquotWarning, 2)
            with suppress(OSError):
                store.unlink()
        return {}
    return {key: vector for key, vector in rows.items() if _is_vector(vector)}


def _is_vector(stored: object) -> bool:
    return isinstance(stored, bytes) and len(stored) > 0 and len(stored) % 4 == 0


def _write_cache(store: Path, rows: Sequence[tuple[bytes, bytes]]) -> None:
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(store, timeout=_PATIENCE)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
    except (sqlite3.Error, OSError) as error:
        warnings.warn(
            f"{store}: the embeddings cannot be kept there ({error}); the next run embeds them again", AliquotWarning, 2
        )


def _fetch_vector(database: sqlite3.Connection, key: bytes) -> tuple[bytes] | None:
    row: tuple[bytes] | None = database.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
    return row


def _file_name(model: str) -> str:
    """Return a readable file name, unique for each model."""
    digest = hashlib.sha256(model.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(model).name)}-{digest}"


def _encode_texts(texts: list[str], model: str) -> np.ndarray:
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError(
            "sentence embeddings need the extra: pip install 'aliquot[embed]' (without a GPU, install a CPU build of "
            f"torch first), or choose light vectors with model={NGRAMS}"
        )
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415  (an optional dependency, and a slow one)

    try:
        encoder = SentenceTransformer(model)
    except OSError as error:  # neither a folder, nor on this machine, nor to be had
        raise OptionError(
            f"the sentence encoder '{model}' cannot be loaded ({' '.join(str(error).split())[:200]}); name a "
            "sentence-transformers model that is on this machine, or a folder"
        ) from None
    vectors = encoder.encode(texts, normalize_embeddings=True, show_progress_bar=len(texts) > 5000)
    return np.asarray(vectors, dtype=np.float32)


def hashed_vectors(texts: list[str], model: str) -> NDArray[np.float32]:
    """Return one vector per text that depends on this text alone: hashed character trigrams, or an embedding.

    >>> hashed_vectors(["a cat", "two dogs"], "ngrams").shape
    (2, 64)
    """
    if model != NGRAMS:
        return embed(texts, model).astype(np.float32)
    from sklearn.feature_extraction.text import HashingVectorizer  # noqa: PLC0415  (slow to import)

    hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3), n_features=_HASHED_DIMENSIONS, dtype=np.float32)
    dense: NDArray[np.float32] = hashed.transform(texts).toarray()
    return dense


# -- near duplicates --------------------------------------------------------------------------------------------------


def minhash_signatures(texts: pl.Series) -> NDArray[np.uint32]:
    """Return min-hashes of each text's 6-character shingles (n x HASHES); a shorter text is one shingle.

    >>> a, b, c = minhash_signatures(pl.Series(["the cat sat on the mat", "the cat sat on the mat.", "a dog"]))
    >>> bool((a == b).mean() > 0.8 and (a == c).mean() < 0.2)
    True
    """
    padded = texts.fill_null("").str.pad_end(SHINGLE)
    parts = [_minhash_chunk(padded.slice(start, _CHUNK)) for start in range(0, len(padded), _CHUNK)]
    return np.concatenate(parts) if parts else np.zeros((0, HASHES), dtype=np.uint32)


def _minhash_chunk(texts: pl.Series) -> NDArray[np.uint32]:
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
    hashes = np.empty((len(texts), HASHES), dtype=np.uint32)
    for column, (factor, summand) in enumerate(_CONSTANTS):
        mixed = (shingles * factor + summand) >> np.uint64(32)
        hashes[:, column] = np.minimum.reduceat(mixed, firsts).astype(np.uint32)
    return hashes


def near_duplicates(hashes: NDArray[np.uint32], min_similarity: float = MIN_SIMILARITY) -> BoolArray:
    """Mark the rows that almost repeat an earlier row.

    >>> near_duplicates(minhash_signatures(pl.Series(["a long enough text", "b", "a long enough text"]))).tolist()
    [False, False, True]
    """
    repeated = np.zeros(len(hashes), dtype=np.bool_)
    min_equal = int(np.ceil(min_similarity * HASHES))
    for first in range(0, HASHES, BAND):
        keys = np.zeros(len(hashes), dtype=np.uint64)
        for column in range(first, first + BAND):
            keys = (keys ^ hashes[:, column].astype(np.uint64)) * _PRIME
            keys ^= keys >> np.uint64(31)
        later, leader, before = _find_repeats(keys)
        for start in range(0, len(later), 1 << 16):
            cut = slice(start, start + (1 << 16))
            later_hashes = hashes[later[cut]]
            alike = np.maximum(
                (later_hashes == hashes[leader[cut]]).sum(axis=1), (later_hashes == hashes[before[cut]]).sum(axis=1)
            )
            repeated[later[cut][alike >= min_equal]] = True
    return repeated


def _find_repeats(keys: NDArray[np.uint64]) -> tuple[IntArray, IntArray, IntArray]:
    """Return rows with a repeated key, and for each the first and the previous row with that key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeats = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[repeats] = False
    head = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    return order[repeats], order[head[repeats]], order[repeats - 1]
