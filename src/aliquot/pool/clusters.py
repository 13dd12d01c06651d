"""Mini-batch k-means over a pool: the items nearest to as many centres as the budget allows.

Sculley (2010), "Web-scale k-means clustering". Batches are drawn by the seed from the whole pool, so that neither the
order of the files nor their cutting matters. Sums over vectors run on one thread: the same centres on any machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

from aliquot.select.embedding import NGRAMS
from aliquot.select.registry import Subset
from aliquot.stats.arrays import FloatArray, IntArray

_BATCH = 4096
_STEPS = 40
_CHUNK = 1 << 14


def pool_kmeans(
    vectors: NDArray[np.generic],
    rows: IntArray,
    n: int,
    rng: np.random.Generator,
    *,
    weighted: bool = False,
    model: str = NGRAMS,
) -> Subset:
    """Items nearest to the centres of n clusters of the vectors at `rows`; places in `rows` are returned.

    Args:
        weighted: give each chosen item the size of its cluster as weight.
        model: ngrams for light vectors, or a sentence-transformers model (name or path).
    """
    del model  # the first pass has made the vectors with it
    n = min(n, len(rows))
    centres = _centres(vectors, rows, n, rng)
    label, distance = _assigned(vectors, rows, centres)
    order = np.lexsort((distance, label))
    chosen = np.sort(order[np.unique(label[order], return_index=True)[1]])
    if len(chosen) < n:  # some centres are nobody's nearest: add the items that are farthest from theirs
        rest = np.argsort(-distance, kind="stable")
        rest = rest[~np.isin(rest, chosen)]
        chosen = np.concatenate([chosen, rest[: n - len(chosen)]])
    if not weighted:
        return Subset(chosen)
    size = np.bincount(label, minlength=len(centres))[label[chosen]]
    shared = np.bincount(label[chosen], minlength=len(centres))[label[chosen]]
    return Subset(chosen, (size / shared).astype(np.float64))


def _centres(vectors: NDArray[np.generic], rows: IntArray, n: int, rng: np.random.Generator) -> FloatArray:
    batch = max(_BATCH, 3 * n)
    fit = MiniBatchKMeans(n, batch_size=batch, n_init=1, random_state=int(rng.integers(2**31)))
    with threadpool_limits(limits=1):
        if batch >= len(rows):
            fit.fit(np.asarray(vectors[rows], dtype=np.float64))
        else:
            for _ in range(_STEPS):
                drawn = np.sort(rng.choice(len(rows), batch, replace=False))
                fit.partial_fit(np.asarray(vectors[rows[drawn]], dtype=np.float64))
    return np.asarray(fit.cluster_centers_, dtype=np.float64)


def _assigned(vectors: NDArray[np.generic], rows: IntArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """The nearest centre of every row and the squared distance to it, a bounded stretch at a time."""
    label = np.empty(len(rows), dtype=np.int64)
    distance = np.empty(len(rows))
    own = (centres**2).sum(axis=1)
    step = max(1, min(_CHUNK, (1 << 24) // len(centres)))
    with threadpool_limits(limits=1):
        for start in range(0, len(rows), step):
            part = np.asarray(vectors[rows[start : start + step]], dtype=np.float64)
            gap = own - 2.0 * (part @ centres.T)
            nearest = gap.argmin(axis=1)
            label[start : start + step] = nearest
            distance[start : start + step] = ((part - centres[nearest]) ** 2).sum(axis=1)
    return label, distance
