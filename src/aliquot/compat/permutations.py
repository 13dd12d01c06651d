"""The permutation p-values and the soft pairwise accuracy of subset2evaluate, number by number.

Invariant: every p-value equals subset2evaluate's to the last bit. Its test draws the same random signs in every call
(numpy's `default_rng(0)`, single precision, one row of signs for each permutation) and adds single-precision scores, so
that ties and rounding are part of the number. `aliquot.stats.pairwise` has the tests that we recommend.

Every call with k items takes the first permutations x k numbers of one stream of signs. The stream is drawn once and
looked at in rows of k, which is what makes the prefixes of an order cheap.

Matrix products get as many BLAS threads as subset2evaluate's would: from a few hundred items on their number moves the
last bit of a sum. OMP_NUM_THREADS=1 is quicker for both on a busy machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import FloatArray

Float32Array = NDArray[np.float32]

PERMUTATIONS = 1000


@dataclass(frozen=True)
class Signs:
    """The stream of random signs, long enough for `items` items.

    Attributes:
        stream: +1 and -1.
        permutations: Rows that the stream is cut into, whatever the number of items.
    """

    stream: Float32Array
    permutations: int

    @classmethod
    def draw(cls, items: int, permutations: int = PERMUTATIONS) -> Signs:
        """Draw the signs for up to `items` items; 4 bytes for every item and permutation."""
        if permutations < 1:
            raise OptionError(f"num_permutations is {permutations}; give at least 1")
        uniform = np.random.default_rng(0).random(permutations * items, dtype=np.float32)
        # There they are rounded to 0 or 1, half to even, which makes exactly 0.5 a 0.
        return cls(np.where(uniform > 0.5, np.float32(1), np.float32(-1)), permutations)

    def p_values(self, scores: Float32Array) -> FloatArray:
        """One-sided p-values of all pairs a < b, in the order of `np.triu_indices`.

        p is the share of permutations whose difference is at least the observed one; not (b + 1) / (B + 1), so that it
        can be 0.

        Args:
            scores: Items x systems. The memory layout counts: it decides the order in which numbers are added.
        """
        systems, items = scores.shape[1], len(scores)
        signs = self.stream[: self.permutations * items].reshape(self.permutations, items)
        flipped = np.ascontiguousarray(np.matmul(signs, scores).T)
        total = scores.T.sum(axis=1)
        counts = [
            np.count_nonzero(flipped[a] - flipped[a + 1 :] >= (total[a] - total[a + 1 :])[:, None], axis=1)
            for a in range(systems - 1)
        ]
        return np.concatenate(counts) / self.permutations if counts else np.empty(0)


@dataclass(frozen=True)
class SoftAccuracy:
    """Soft pairwise accuracy against one set of old items.

    Attributes:
        p_old: P-values of the pairs on the old items.
        signs: Enough for the old items and for the new ones.
    """

    p_old: FloatArray
    signs: Signs

    @classmethod
    def against(cls, old: FloatArray, longest: int) -> SoftAccuracy:
        """Test the old items, and get ready for subsets of up to `longest` items."""
        signs = Signs.draw(max(len(old), longest))
        return cls(signs.p_values(old.astype(np.float32)), signs)

    def of(self, new: FloatArray) -> float:
        """Return the accuracy of a subset, items x systems."""
        return _one_minus_error(self.signs.p_values(new.astype(np.float32)), self.p_old)

    def of_prefixes(self, new: FloatArray, first: int) -> Iterator[float]:
        """Yield the accuracy of the first k items, for k = first, first + 1, ..., as many as are asked for."""
        scores = new.astype(np.float32)
        for k in range(first, len(scores) + 1):
            yield _one_minus_error(self.signs.p_values(scores[:k]), self.p_old)


def compute_pairwise_p_values(seg_scores: NDArray[Any], num_permutations: int = PERMUTATIONS) -> FloatArray:
    """One-sided p-values of all pairs of systems by subset2evaluate's permutation test.

    Args:
        seg_scores: Systems x items (the other way round than everywhere else in aliquot).
        num_permutations: How many.

    Returns:
        Systems x systems; p[a, b] for a < b is small where a is better than b; NaN elsewhere.

    Raises:
        DataError: Not a table, no items, or a score that is not a finite number.

    Example:
        >>> compute_pairwise_p_values(np.array([[3.0, 2.0, 4.0, 2.0], [1.0, 1.0, 5.0, 1.0]]))
        array([[  nan, 0.265],
               [  nan,   nan]])
    """
    scores = np.asarray(seg_scores)
    if scores.ndim != 2 or not scores.shape[1]:
        raise DataError(f"seg_scores has the shape {scores.shape}; give a systems x items table with items")
    single = scores.astype(np.float32)
    if not np.isfinite(single).all():
        raise DataError("seg_scores holds missing or infinite values; leave out the items that lack a score")
    result = np.full((len(single), len(single)), np.nan)
    result[np.triu_indices(len(single), 1)] = Signs.draw(single.shape[1], num_permutations).p_values(single.T)
    return result


def compute_one_minus_pce(metric_pairwise_p_vals: FloatArray, human_pairwise_p_vals: FloatArray) -> float:
    """Soft pairwise accuracy of two tables of p-values: one minus their mean distance above the diagonal.

    Example:
        >>> compute_one_minus_pce(np.array([[0.5, 0.2], [0.8, 0.5]]), np.array([[0.5, 0.1], [0.9, 0.5]]))
        0.9
    """
    shapes = np.shape(metric_pairwise_p_vals), np.shape(human_pairwise_p_vals)
    if shapes[0] != shapes[1] or len(shapes[0]) != 2 or shapes[0][0] < 2:
        raise DataError(f"the tables of p-values have the shapes {shapes[0]} and {shapes[1]}; give systems x systems")
    pairs = np.triu_indices(len(human_pairwise_p_vals), 1)
    return _one_minus_error(metric_pairwise_p_vals[pairs], human_pairwise_p_vals[pairs])


def _one_minus_error(p_new: FloatArray, p_old: FloatArray) -> float:
    return float(1.0 - np.mean(np.abs(p_old - p_new)))
