"""Post-editing: how far is what people made of two suggestions from each of them?

A character is a Unicode code point after NFC, so that an accent written in two ways is no edit. Distances are
rapidfuzz's Levenshtein distances: insertions, deletions and replacements cost 1 each.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.extras import judge_extra


def edit_distances(finals: Sequence[str], outputs: Sequence[str]) -> IntArray:
    """Character edit distance of every final text to its output.

    Args:
        finals: What the post-editors wrote.
        outputs: What a system had written, one for each; an empty one is as far as the final text is long.

    Raises:
        OptionError: Lists of different length.
        MissingExtraError: rapidfuzz is not installed.

    Example:
        >>> edit_distances(["the cat", "caf\u00e9"], ["a cat", "cafe\u0301"]).tolist()
        [3, 0]
    """
    if len(finals) != len(outputs):
        raise OptionError(f"there are {len(finals)} final texts and {len(outputs)} outputs; give one for each")
    process = judge_extra("rapidfuzz.process", "measuring edit distances")
    levenshtein = judge_extra("rapidfuzz.distance", "measuring edit distances").Levenshtein
    if not len(finals):
        return np.zeros(0, dtype=np.int64)
    return np.asarray(
        process.cpdist(_composed(finals), _composed(outputs), scorer=levenshtein.distance), dtype=np.int64
    )


def text_lengths(texts: Sequence[str]) -> IntArray:
    """Number of characters of each text, as `edit_distances` counts them.

    >>> text_lengths(["", "cafe\u0301"]).tolist()
    [0, 4]
    """
    return np.array([len(text) for text in _composed(texts)], dtype=np.int64)


def _composed(texts: Sequence[str]) -> list[str]:
    return [unicodedata.normalize("NFC", text) for text in texts]


def fewer_edits(to_first: IntArray, to_second: IntArray) -> IntArray:
    """Say which output needs fewer edits: 1 the first, -1 the second, 0 as many.

    >>> fewer_edits(np.array([3, 5, 2]), np.array([4, 1, 2])).tolist()
    [1, -1, 0]
    """
    return np.asarray(np.sign(to_second - to_first), dtype=np.int64)


def segment_weighted(means: FloatArray, segments: IntArray) -> float:
    """Mean of means, each counting as often as it has segments (notes, P4.4); NaN without any segment.

    Args:
        means: Mean of each job, NaN where a job has none.
        segments: Segments of each job.

    Example:
        >>> round(segment_weighted(np.array([23.65, 40.37, 24.18]), np.array([47, 47, 48])), 2)  # Czech in the notes
        29.36
    """
    known = np.isfinite(means)
    total = float(segments[known].sum())
    return float((means[known] * segments[known]).sum() / total) if total > 0 else float("nan")
