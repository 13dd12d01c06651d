"""Selection by the texts of outputs and sources: diversity, clusters of items (docs/methods.md, section 1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from aliquot.core import memory
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError
from aliquot.sampling.methods import Subset, subset, utility
from aliquot.sampling.text_vectors import DEFAULT_MODEL, embed
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.text_similarity import mean_pairwise_similarity

_ZOUHAR = "Zouhar et al. 2025"


@utility(
    "diversity",
    needs=("outputs", "systems"),
    paper=f"{_ZOUHAR}, eq. 6",
    differs="the paper uses embeddings (similarity=embedding), which need a model; ours is its Dice of unigrams",
    advice="Items on which outputs differ; needs no metric, only outputs.",
)
def diversity(
    evalset: EvalSet,
    *,
    similarity: Literal["unigram", "bleu", "chrf", "embedding"] = "unigram",
    tokenizer: Literal["auto", "whitespace", "characters", "13a"] = "auto",
    model: str = DEFAULT_MODEL,
) -> FloatArray:
    """Items whose outputs differ most: minus the mean pairwise similarity of the item's outputs.

    Args:
        similarity: Dice of words, sentence BLEU, chrF (both sacrebleu's), or inner product of embeddings.
        tokenizer: for words and BLEU; auto splits at spaces (BLEU: as sacrebleu's 13a) and takes the characters of
            scripts without spaces (Chinese, Japanese, Thai, ...) one by one.
        model: for embeddings, a sentence-transformers model (name or path), or ngrams for light vectors.
    """
    texts = output_texts(evalset)
    if similarity == "embedding":
        return -_mean_inner_products(texts, model)
    return -mean_pairwise_similarity(texts, similarity, tokenizer)


def output_texts(evalset: EvalSet, systems: Sequence[str] | None = None) -> list[tuple[str | None, ...]]:
    """Return each item's outputs in the order of the systems, the set's own by default."""
    if evalset.outputs is None:
        raise DataError(f"{evalset.name}: there are no outputs")
    return list(zip(*(evalset.outputs[system].to_list() for system in systems or evalset.systems), strict=True))


def _filled_texts(evalset: EvalSet, systems: Sequence[str] | None = None) -> list[str]:
    """Return all outputs, item by item; missing ones become empty, with a warning."""
    texts = output_texts(evalset, systems)
    lacking = sum(any(text is None for text in row) for row in texts)
    if lacking:
        warnings.warn(f"{lacking} items lack some output: they count as empty texts", AliquotWarning, 2)
    return [text or "" for row in texts for text in row]


def _mean_inner_products(texts: list[tuple[str | None, ...]], model: str) -> FloatArray:
    """Mean of e_a . e_b over pairs: (|sum e|^2 - sum |e|^2) / (m (m - 1)) without visiting the pairs."""
    vectors = embed([text for row in texts for text in row if text is not None], model)
    item = np.array([index for index, row in enumerate(texts) for text in row if text is not None], dtype=np.int64)
    total = np.zeros((len(texts), vectors.shape[1]))
    np.add.at(total, item, vectors)
    squares = np.bincount(item, weights=(vectors**2).sum(axis=1), minlength=len(texts))
    count = np.bincount(item, minlength=len(texts))
    pairs = count * (count - 1)
    return np.where(pairs > 0, ((total**2).sum(axis=1) - squares) / np.maximum(pairs, 1), np.nan)


@subset(
    "kmeans",
    paper="Zouhar et al. 2025, appendix A.1",
    advice="Items that cover the topics of the test set; weighted=yes for means.",
)
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
    from sklearn.cluster import KMeans  # noqa: PLC0415  (slow to import)

    fit = KMeans(min(n, distinct), n_init=3, random_state=int(rng.integers(2**31))).fit(vectors)
    rows = _nearest_members(vectors, fit.cluster_centers_, fit.labels_)
    rows = _top_up(rows, lambda row: ((vectors - vectors[row]) ** 2).sum(axis=1), n)
    weight = np.bincount(fit.labels_)[fit.labels_[rows]].astype(np.float64)
    shared = np.bincount(fit.labels_[rows], minlength=len(fit.cluster_centers_))[fit.labels_[rows]]
    return Subset(rows, weight / shared if weighted else None)


def _item_vectors(evalset: EvalSet, features: str, model: str) -> FloatArray:
    if features == "source":
        if not evalset.has_sources:
            raise DataError(f"{evalset.name}: there are no sources; use kmeans:features=outputs")
        return embed(evalset.items["source"].fill_null("").to_list(), model)
    vectors = embed(_filled_texts(evalset), model)
    means: FloatArray = vectors.reshape(evalset.n_items, evalset.n_systems, -1).mean(axis=1)
    return means


def _nearest_members(vectors: FloatArray, centres: FloatArray, labels: IntArray) -> IntArray:
    """Return the member nearest to the centre of each cluster."""
    distance = ((vectors - centres[labels]) ** 2).sum(axis=1)
    order = np.lexsort((distance, labels))
    first = np.unique(labels[order], return_index=True)[1]
    return np.sort(order[first])


def _top_up(rows: IntArray, squared: Callable[[int], FloatArray], n: int) -> IntArray:
    """Add the items farthest from all chosen ones until there are n (duplicate texts give fewer clusters).

    `squared` gives the squared distances of all items from one.
    """
    if len(rows) >= n:
        return rows
    chosen = rows.tolist()
    gap = np.min([squared(row) for row in chosen], axis=0)
    gap[rows] = -1.0  # a chosen item is never the farthest
    while len(chosen) < n:
        farthest = int(np.argmax(gap))
        chosen.append(farthest)
        gap = np.minimum(gap, squared(farthest))
        gap[farthest] = -1.0
    return np.array(chosen, dtype=np.int64)


@subset(
    "diffuse",
    needs=("outputs", "systems"),
    paper=f"{_ZOUHAR}, A.1, after Ashury-Tahan et al. 2024",
    advice="Items that cover the ways in which outputs differ.",
)
def diffuse(evalset: EvalSet, *, n: int, model: str = DEFAULT_MODEL) -> Subset:
    """Medoids of n Ward clusters of the distances between outputs.

    An item's vector has the Euclidean distance of the embeddings of every pair of its outputs. Systems are taken in the
    order of their names, so that the order in the file does not matter, down to how ties are broken. The vectors, of
    length M (M - 1) / 2, are never held at once: their distances are added up over blocks of pairs (30 systems are one
    block), so that memory depends on the number of items alone beyond the embeddings.

    Args:
        model: a sentence-transformers model (name or path), or ngrams for light vectors.
    """
    if n >= evalset.n_items:
        return Subset(np.arange(evalset.n_items))
    by_name = [evalset.systems[column] for column in np.argsort(evalset.systems)]
    memory.require_memory(
        4 * 8.0 * evalset.n_items**2 / 2,
        f"diffuse: distances between all {evalset.n_items} items",
        "choose from fewer items first (select `within`)",
    )
    vectors = embed(_filled_texts(evalset, by_name), model).reshape(evalset.n_items, evalset.n_systems, -1)
    return Subset(distance_medoids(vectors, n))


_PAIR_BLOCK = 435
"""Pairs of systems whose distances are held at once: all those of 30 systems."""


def distance_medoids(vectors: FloatArray, n: int) -> IntArray:
    """Cluster items (items x systems x dimensions) by the distances between their systems' vectors; take n medoids.

    >>> distance_medoids(np.array([[[0.0], [0.0]], [[0.0], [1.0]], [[3.0], [2.0]]]), 2).tolist()
    [0, 1]
    """
    from scipy.cluster.hierarchy import fcluster, linkage  # noqa: PLC0415  (slow to import)
    from scipy.spatial.distance import pdist, squareform  # noqa: PLC0415  (slow to import)

    first, second = np.triu_indices(vectors.shape[1], k=1)
    squared: FloatArray = np.zeros(len(vectors) * (len(vectors) - 1) // 2)
    for start in range(0, len(first), _PAIR_BLOCK):
        block = zip(first[start : start + _PAIR_BLOCK], second[start : start + _PAIR_BLOCK], strict=True)
        distances = [np.linalg.norm(vectors[:, a] - vectors[:, b], axis=1) for a, b in block]
        squared += pdist(np.stack(distances, axis=1), "sqeuclidean")
    labels = fcluster(linkage(np.sqrt(squared), method="ward"), n, criterion="maxclust")
    table = squareform(squared)
    # The member with the least sum of squared distances to its cluster is the one nearest to the cluster's mean.
    within = np.array([row[labels == label].sum() for row, label in zip(table, labels, strict=True)])
    order = np.lexsort((within, labels))
    medoids = np.sort(order[np.unique(labels[order], return_index=True)[1]])
    return _top_up(medoids, lambda row: table[row], n)
