"""How small an error of the means could be: predictions, documents and sizes that know nearly all human scores.

A yardstick for unbiased designs, not a bound: what is left of the scores once as much as possible is known of each
output. It is known from four fifths of *all* human scores (the better of a ridge and of gradient boosting, tested on
the fifth they have not seen), from the other items of the same document, and from the true size of what is left of
each item. No campaign has any of it beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold

from aliquot.core.evalset import EvalSet
from aliquot.estimation.proxies import rich_proxies, select_proxies
from aliquot.stats.arrays import FloatArray, IntArray

FOLDS = 5


@dataclass(frozen=True)
class Oracle:
    """Standard deviations relative to the scores' own, each step after the ones before, averaged over systems."""

    predicted: float  # left by the best prediction from metrics and texts
    documents: float  # left when the other items of the document are known, too
    sizes: float  # and items are drawn with probability proportional to the true size of what is left


def oracle(data: EvalSet) -> Oracle:
    """What is left at each step."""
    scores = data.human_score()
    residual = left_by_prediction(data, scores)
    spread = scores.std(axis=0)
    predicted = float((residual.std(axis=0) / spread).mean())
    if data.documents is not None:
        residual = left_by_documents(residual, data.documents)
    documents = float((residual.std(axis=0) / spread).mean())
    size = np.sqrt((residual**2).mean(axis=1))
    # Probabilities p ~ size make the variance (mean size)^2 / n in the place of (mean size^2) / n.
    return Oracle(predicted, documents, documents * float(size.mean() / np.sqrt((size**2).mean())))


def left_by_prediction(data: EvalSet, scores: FloatArray) -> FloatArray:
    """Scores less the better of two predictions of items that were not learned from, centred by system."""
    items, systems = scores.shape
    texts = data.outputs is not None
    features = rich_proxies(data, select_proxies(data, None), np.arange(items), texts=texts).judged
    features = features / np.maximum(features.std(axis=(0, 1)), 1e-9)
    flat = features.reshape(items * systems, -1)
    of_item = np.repeat(features.mean(axis=1), systems, axis=0)
    system = np.tile(np.eye(systems), (items, 1))
    boosting = HistGradientBoostingRegressor(
        max_iter=150, learning_rate=0.05, max_leaf_nodes=15, min_samples_leaf=30, l2_regularization=5.0, random_state=0
    )
    groups, found = np.repeat(np.arange(items), systems), []
    for model, x in (
        (RidgeCV(np.logspace(0, 5, 12)), np.hstack([flat, 3 * system])),
        (boosting, np.hstack([flat, of_item, system])),
    ):
        predicted = np.zeros(scores.size)
        for train, test in GroupKFold(FOLDS).split(x, groups=groups):
            predicted[test] = model.fit(x[train], scores.ravel()[train]).predict(x[test])
        residual = scores - predicted.reshape(scores.shape)
        found.append(residual - residual.mean(axis=0))
    return min(found, key=lambda residual: float((residual**2).sum()))


def left_by_documents(residual: FloatArray, documents: IntArray) -> FloatArray:
    """Less what the other items of the document say: of the same system, and of all systems."""
    total = np.zeros((int(documents.max()) + 1, residual.shape[1]))
    np.add.at(total, documents, residual)
    others = np.bincount(documents)[documents][:, None] - 1
    own = np.where(others > 0, (total[documents] - residual) / np.maximum(others, 1), 0.0)
    x = np.stack([own, np.broadcast_to(own.mean(axis=1, keepdims=True), own.shape)], axis=2).reshape(-1, 2)
    slopes = np.linalg.lstsq(x, residual.ravel(), rcond=None)[0]
    left = residual - (x @ slopes).reshape(residual.shape)
    centred: FloatArray = left - left.mean(axis=0)
    return centred
