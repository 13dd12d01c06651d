"""Vectors of texts: sentence embeddings (extra `embed`), cached on disk, or light n-gram vectors without any model.

A model is downloaded by sentence-transformers only when the user names one that is not on this machine.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from aliquot.data.catalog import cache_folder
from aliquot.errors import MissingExtraError, OptionError
from aliquot.stats.arrays import FloatArray

NGRAMS = "ngrams"
DEFAULT_MODEL = "paraphrase-multilingual-MiniLM-L12-v2"
_DIMENSIONS = 128


def embed(texts: Sequence[str], model: str = DEFAULT_MODEL) -> FloatArray:
    """Return one unit vector per text; equal texts are embedded once.

    >>> embed(["a cat", "a cat", "two dogs"], model="ngrams").shape[0]
    3
    """
    distinct = list(dict.fromkeys(texts))
    vectors = _ngram_vectors(distinct) if model == NGRAMS else _cached_vectors(distinct, model)
    place = {text: at for at, text in enumerate(distinct)}
    return vectors[[place[text] for text in texts]]


def _ngram_vectors(texts: list[str]) -> FloatArray:
    """Character n-gram tf-idf, reduced by singular value decomposition: crude, deterministic, no download."""
    if not any(text.strip() for text in texts):
        return np.zeros((len(texts), 1))
    counts = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), sublinear_tf=True).fit_transform(texts)
    few = len(texts) <= 2 * _DIMENSIONS or counts.shape[1] <= _DIMENSIONS  # nothing to gain, and much to lose
    dense = counts.toarray() if few else TruncatedSVD(_DIMENSIONS, random_state=0).fit_transform(counts)
    return np.asarray(normalize(dense), dtype=np.float64)


def _cached_vectors(texts: list[str], model: str) -> FloatArray:
    store = cache_folder() / "embeddings" / f"{_file_name(model)}.sqlite"
    store.parent.mkdir(parents=True, exist_ok=True)
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")
        known = {key: row[0] for key in keys if (row := _fetch(database, key)) is not None}
        missing = [at for at, key in enumerate(keys) if key not in known]
        if missing:
            fresh = _encode([texts[at] for at in missing], model)
            rows = [(keys[at], fresh[order].tobytes()) for order, at in enumerate(missing)]
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            known.update(rows)
    return np.stack([np.frombuffer(known[key], dtype=np.float32) for key in keys]).astype(np.float64)


def _fetch(database: sqlite3.Connection, key: bytes) -> tuple[bytes] | None:
    row: tuple[bytes] | None = database.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
    return row


def _file_name(model: str) -> str:
    """A readable file name that differs for different models, also for paths that end alike."""
    digest = hashlib.sha256(model.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(model).name)}-{digest}"


def _encode(texts: list[str], model: str) -> np.ndarray:
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
