"""Scores of texts by the content of the texts: in memory, and on disk in the cache folder."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from aliquot.errors import OutputError
from aliquot.io.download import cache_folder
from aliquot.io.writing import write_bytes
from aliquot.stats.arrays import FloatArray

_CACHE_FORMAT = "2"
MAX_CACHED = 4096
_memory_cache: dict[str, FloatArray] = {}


def compute_cache_key(
    metric: str,
    signature: str,
    parameters: Sequence[tuple[str, str]],
    texts: Sequence[str | None],
    references: Sequence[Sequence[str]],
) -> str:
    """Digest of all that the scores of a column depend on.

    >>> one, other = (compute_cache_key("bleu", "v", [], texts, [["b"], ["c"]]) for texts in (["a", None], ["a"]))
    >>> one == other
    False
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in (_CACHE_FORMAT, metric, signature, repr(list(parameters))):
        _update_digest(digest, part)
    for column in (texts, *references):
        _update_digest(digest, str(len(column)))
        for text in column:
            _update_digest(digest, text)
    return digest.hexdigest()


def _update_digest(digest: hashlib.blake2b, text: str | None) -> None:
    """Lengths are part of it, so that no two lists of texts look alike."""
    if text is None:
        digest.update(b"-")
        return
    raw = text.encode("utf-8", "surrogatepass")
    digest.update(f"{len(raw)}:".encode() + raw)


def locate_cache_file(key: str) -> Path:
    """Where the scores of a key are kept."""
    return cache_folder() / "surface" / key[:2] / f"{key}.npy"


def read_cached_scores(key: str, size: int) -> FloatArray | None:
    """The remembered scores, or None."""
    if key in _memory_cache:
        return _memory_cache[key]
    with suppress(Exception):  # numpy raises a dozen classes for a damaged file; the scores are computed anew
        scores = np.load(io.BytesIO(locate_cache_file(key).read_bytes()), allow_pickle=False)
        if scores.shape == (size,) and scores.dtype == np.float64:
            return _keep_in_memory(key, scores)
    return None


def cache_scores(key: str, scores: FloatArray) -> None:
    """Keep scores in memory and, if possible, on disk."""
    _keep_in_memory(key, scores)
    buffer = io.BytesIO()
    np.save(buffer, scores, allow_pickle=False)
    with suppress(OSError, OutputError):
        locate_cache_file(key).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(locate_cache_file(key), buffer.getvalue())


def _keep_in_memory(key: str, scores: FloatArray) -> FloatArray:
    if len(_memory_cache) >= MAX_CACHED:
        _memory_cache.pop(next(iter(_memory_cache)))  # the oldest
    scores.setflags(write=False)
    _memory_cache[key] = scores
    return scores
