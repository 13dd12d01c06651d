"""Methods that read texts: diversity of outputs, clusters of items (METHODS.md section 1)."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import warnings
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError, MissingExtraError, OptionError
from aliquot.io.download import cache_folder
from aliquot.sampling.registry import Subset, subset, utility
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.text_similarity import mean_pairwise_similarity

# -- Vectors of texts: sentence embeddings (extra `embed`), cached on disk, or light n-gram vectors without any model


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


# -- Methods that read texts: diversity of outputs, clusters of items (METHODS.md section 1) -------------------------


@utility("diversity", needs=("outputs", "systems"), paper="Zouhar et al. 2025, eq. 6",
         advice="Items on which outputs differ; needs no metric, only outputs.")  # fmt: skip
def diversity(
    evalset: EvalSet,
    *,
    similarity: Literal["unigram", "bleu", "chrf", "embedding"] = "unigram",
    model: str = DEFAULT_MODEL,
) -> FloatArray:
    """Items whose outputs differ most: minus the mean pairwise similarity of the item's outputs.

    Args:
        similarity: Dice of words, sentence BLEU, chrF (both sacrebleu's), or inner product of embeddings.
        model: for embeddings, a sentence-transformers model (name or path), or ngrams for light vectors.
    """
    texts = output_texts(evalset)
    if similarity == "embedding":
        return -_mean_inner_products(texts, model)
    return -mean_pairwise_similarity(texts, similarity)


def output_texts(evalset: EvalSet) -> list[tuple[str | None, ...]]:
    """Return each item's outputs in the order of the systems."""
    if evalset.outputs is None:
        raise DataError(f"{evalset.name}: there are no outputs")
    return list(zip(*(evalset.outputs[system].to_list() for system in evalset.systems), strict=True))


def _filled_texts(evalset: EvalSet) -> list[str]:
    """All outputs, item after item; missing ones are empty texts, and it is said how many items they concern."""
    texts = output_texts(evalset)
    lacking = sum(any(text is None for text in row) for row in texts)
    if lacking:
        warnings.warn(f"{lacking} items lack some output: an empty text stands in for it", AliquotWarning, 2)
    return [text or "" for row in texts for text in row]


def _mean_inner_products(texts: list[tuple[str | None, ...]], model: str) -> FloatArray:
    """Mean of e_a . e_b over pairs: (|sum e|^2 - sum |e|^2) / (m (m - 1)) without visiting the pairs."""
    vectors = embed([text for row in texts for text in row if text is not None], model)
    item = np.array([at for at, row in enumerate(texts) for text in row if text is not None], dtype=np.int64)
    total = np.zeros((len(texts), vectors.shape[1]))
    np.add.at(total, item, vectors)
    own = np.bincount(item, weights=(vectors**2).sum(axis=1), minlength=len(texts))
    count = np.bincount(item, minlength=len(texts))
    pairs = count * (count - 1)
    return np.where(pairs > 0, ((total**2).sum(axis=1) - own) / np.maximum(pairs, 1), np.nan)


@subset("kmeans", paper="Zouhar et al. 2025, section 3.5",
        advice="Items that cover the topics of the test set; weighted=yes for means.")  # fmt: skip
def kmeans(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    features: Literal["source", "outputs"] = "source",
    weighted: bool = False,
    model: str = DEFAULT_MODEL,
) -> Subset:
    """Items nearest to the centres of n clusters of embeddings.

    Args:
        features: embed the source, or the mean of the item's outputs.
        weighted: give each chosen item the size of its cluster as weight.
        model: a sentence-transformers model (name or path), or ngrams for light vectors.
    """
    vectors = _item_vectors(evalset, features, model)
    distinct = len(np.unique(vectors, axis=0))
    fit = KMeans(min(n, distinct), n_init=3, random_state=int(rng.integers(2**31))).fit(vectors)
    rows = _nearest(vectors, fit.cluster_centers_, fit.labels_)
    rows = _topped_up(rows, vectors, n)
    weight = np.bincount(fit.labels_)[fit.labels_[rows]].astype(np.float64)
    shared = np.bincount(fit.labels_[rows], minlength=len(fit.cluster_centers_))[fit.labels_[rows]]
    return Subset(rows, weight / shared if weighted else None)


def _item_vectors(evalset: EvalSet, features: str, model: str) -> FloatArray:
    if features == "source":
        if "source" not in evalset.items.columns:
            raise DataError(f"{evalset.name}: there are no sources; use kmeans:features=outputs")
        return embed(evalset.items["source"].fill_null("").to_list(), model)
    vectors = embed(_filled_texts(evalset), model)
    means: FloatArray = vectors.reshape(evalset.n_items, evalset.n_systems, -1).mean(axis=1)
    return means


def _nearest(vectors: FloatArray, centres: FloatArray, labels: IntArray) -> IntArray:
    """For each cluster the member nearest to its centre."""
    distance = ((vectors - centres[labels]) ** 2).sum(axis=1)
    order = np.lexsort((distance, labels))
    first = np.unique(labels[order], return_index=True)[1]
    return np.sort(order[first])


def _topped_up(rows: IntArray, vectors: FloatArray, n: int) -> IntArray:
    """Add the items farthest from all chosen ones until there are n: duplicate texts leave fewer clusters than n."""
    if len(rows) >= n:
        return rows
    chosen = rows.tolist()
    gap = np.min([((vectors - vectors[row]) ** 2).sum(axis=1) for row in chosen], axis=0)
    gap[rows] = -1.0  # a chosen item is never the farthest
    while len(chosen) < n:
        farthest = int(np.argmax(gap))
        chosen.append(farthest)
        gap = np.minimum(gap, ((vectors - vectors[farthest]) ** 2).sum(axis=1))
        gap[farthest] = -1.0
    return np.array(chosen, dtype=np.int64)


@subset("diffuse", needs=("outputs", "systems"), paper="Ashury-Tahan et al. 2024",
        advice="Items that cover the ways in which outputs differ.")  # fmt: skip
def diffuse(evalset: EvalSet, *, n: int, model: str = DEFAULT_MODEL) -> Subset:
    """Medoids of n Ward clusters of the differences between outputs.

    An item's vector is the mean over pairs of systems a < b of e_a - e_b, which is sum_a (M + 1 - 2a) e_a / pairs.

    Args:
        model: a sentence-transformers model (name or path), or ngrams for light vectors.
    """
    m = evalset.n_systems
    vectors = embed(_filled_texts(evalset), model).reshape(evalset.n_items, m, -1)
    sign = (m + 1 - 2 * np.arange(1, m + 1)) / (m * (m - 1) / 2)
    differences = np.tensordot(vectors, sign, axes=([1], [0]))
    if n >= evalset.n_items:
        return Subset(np.arange(evalset.n_items))
    labels = fcluster(linkage(differences, method="ward"), n, criterion="maxclust") - 1
    centres = np.stack([differences[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    return Subset(_topped_up(_nearest(differences, centres, labels), differences, n))
