"""Scores of texts, remembered by content: in memory, and on disk in the cache folder.

Invariant: a key is a digest of everything that a score depends on (metric, signature with sacrebleu's version,
parameters, texts), so nothing remembered is ever out of date. A file is whole or absent; one that cannot be read is
computed anew, and a cache that cannot be written is none.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from aliquot.data.catalog import cache_folder
from aliquot.data.files import write_bytes
from aliquot.errors import OutputError
from aliquot.stats.arrays import FloatArray

_FORMAT = "1"
_MOST = 4096
_memory: dict[str, FloatArray] = {}


def cache_key(
    metric: str,
    signature: str,
    parameters: Sequence[tuple[str, str]],
    texts: Sequence[str | None],
    references: Sequence[str | None],
) -> str:
    """Digest of all that the scores of a column depend on.

    >>> cache_key("bleu", "v", [], ["a", None], ["b", "c"]) == cache_key("bleu", "v", [], ["a"], ["b", "c"])
    False
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in (_FORMAT, metric, signature, repr(list(parameters))):
        _add(digest, part)
    for column in (texts, references):
        _add(digest, str(len(column)))
        for text in column:
            _add(digest, text)
    return digest.hexdigest()


def _add(digest: hashlib.blake2b, text: str | None) -> None:
    """Lengths are part of it, so that no two lists of texts look alike."""
    if text is None:
        digest.update(b"-")
        return
    raw = text.encode("utf-8", "surrogatepass")
    digest.update(f"{len(raw)}:".encode() + raw)


def cache_file(key: str) -> Path:
    """Where the scores of a key are kept."""
    return cache_folder() / "surface" / key[:2] / f"{key}.npy"


def recall(key: str, size: int) -> FloatArray | None:
    """The remembered scores, or None."""
    if key in _memory:
        return _memory[key]
    with suppress(OSError, ValueError, EOFError, zipfile.BadZipFile):
        scores = np.load(io.BytesIO(cache_file(key).read_bytes()), allow_pickle=False)
        if scores.shape == (size,) and scores.dtype == np.float64:
            return _hold(key, scores)
    return None


def remember(key: str, scores: FloatArray) -> None:
    """Keep scores in memory and, if possible, on disk."""
    _hold(key, scores)
    buffer = io.BytesIO()
    np.save(buffer, scores, allow_pickle=False)
    with suppress(OSError, OutputError):
        write_bytes(cache_file(key), buffer.getvalue())


def _hold(key: str, scores: FloatArray) -> FloatArray:
    if len(_memory) >= _MOST:
        _memory.pop(next(iter(_memory)))  # the oldest
    scores.setflags(write=False)
    _memory[key] = scores
    return scores
