"""Vectors of sources for clusters: hashed character n-grams by default, sentence embeddings on request."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from aliquot.select.embedding import NGRAMS, embed

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
