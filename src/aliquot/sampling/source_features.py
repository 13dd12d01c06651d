"""The dense features of a source: surface, shares of unseen words, domain, languages times length, embedding.

Domains and languages become columns for the names that training saw; another name has 0 in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.errors import DataError
from aliquot.stats.arrays import BoolArray, FloatArray
from aliquot.stats.text_features import SURFACE_FEATURES, EncodedTexts, surface_features, unseen_shares

UNSEEN = ("unseen words", "unseen characters")
_LENGTH = SURFACE_FEATURES.index("log length")
_USUAL_LENGTH = 3.0
_CLIP = 10.0

Labels = str | None | Sequence[str | None]


@dataclass(frozen=True)
class FeatureVocabulary:
    """Domains and languages with feature columns, and the number of embedding dimensions."""

    domains: tuple[str, ...] = ()
    from_languages: tuple[str, ...] = ()
    to_languages: tuple[str, ...] = ()
    dimensions: int = 0

    @property
    def width(self) -> int:
        """The number of dense features."""
        names = (SURFACE_FEATURES, UNSEEN, self.domains, self.from_languages, self.to_languages)
        return sum(map(len, names)) + self.dimensions


def labels_for(labels: Labels, n: int, what: str) -> list[str | None]:
    """Return one label per source; a single label applies to all."""
    if labels is None or isinstance(labels, str):
        return [labels] * n
    if len(labels) != n:
        raise DataError(f"{len(labels)} labels of {what} for {n} sources; give one each, or one for all")
    return list(labels)


def languages_of(pair: str | None) -> tuple[str, str]:
    """Return source and target language of a pair; empty if unknown.

    >>> languages_of("en-de"), languages_of("EN_DE"), languages_of(None)
    (('en', 'de'), ('en', 'de'), ('', ''))
    """
    before, _, after = (pair or "").strip().casefold().replace("_", "-").partition("-")
    return before, after


def dense_features(
    cut: EncodedTexts,
    vocabulary: FeatureVocabulary,
    memory: BoolArray,
    pairs: Sequence[str | None],
    domains: Sequence[str | None],
    vectors: FloatArray | None = None,
) -> FloatArray:
    """Return the features (n x vocabulary.width): surface, unseen shares, domains, languages times length, embeddings.

    Languages enter as products with the log length (less that of a text of 20 words): within a campaign a language is
    a constant, and can only change how much length matters.
    """
    base = surface_features(cut)
    length = (base[:, _LENGTH] - _USUAL_LENGTH)[:, None]
    sides = [languages_of(pair) for pair in pairs]
    parts = [
        base,
        unseen_shares(cut, memory),
        _one_hot(domains, vocabulary.domains),
        _one_hot([side[0] for side in sides], vocabulary.from_languages) * length,
        _one_hot([side[1] for side in sides], vocabulary.to_languages) * length,
    ]
    if vocabulary.dimensions:
        if vectors is None or vectors.shape != (cut.n, vocabulary.dimensions):
            shape = None if vectors is None else vectors.shape
            raise DataError(f"embeddings of shape {shape} where ({cut.n}, {vocabulary.dimensions}) is expected")
        parts.append(vectors)
    return np.column_stack(parts)


def scale_features(features: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    """Centre and scale features, and clip them to [-10, 10] against outliers."""
    cut: FloatArray = np.clip((features - centre) / scale, -_CLIP, _CLIP)
    return cut


def _one_hot(labels: Sequence[str | None], names: tuple[str, ...]) -> FloatArray:
    place = {name: positions for positions, name in enumerate(names)}
    positions = np.fromiter(
        (place.get(label, -1) if label else -1 for label in labels), dtype=np.int64, count=len(labels)
    )
    hot: FloatArray = (positions[:, None] == np.arange(len(names))[None, :]).astype(np.float64)
    return hot
