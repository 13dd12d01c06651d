"""Boosted regression trees as plain arrays: taken out of scikit-learn's model, and applied without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aliquot.errors import DataError
from aliquot.stats.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Trees:
    """All nodes of all trees, one after the other; children are places in the same arrays, -1 for a leaf.

    Attributes:
        root: where each tree starts.
        feature, threshold, left, right: a row goes left where its feature, as float32, is at most the threshold.
        value: what a leaf adds (already times the learning rate).
    """

    root: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: FloatArray
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: FloatArray

    def __post_init__(self) -> None:
        nodes = len(self.feature)
        same = all(len(part) == nodes for part in (self.threshold, self.left, self.right, self.value))
        inner = self.left >= 0
        # Children stand after their parent: so every walk ends.
        after = np.arange(nodes)[inner]
        walks = same and bool(
            (self.left[inner] > after).all() and (self.right[inner] > after).all() and (self.right[inner] < nodes).all()
            and (self.left[inner] < nodes).all() and (self.feature[inner] >= 0).all()
        )  # fmt: skip
        starts = len(self.root) == 0 or (self.root.min() >= 0 and self.root.max() < nodes)
        if not (walks and starts):
            raise DataError("the trees are broken: a node names a child or a feature that cannot be")


def from_boosting(model: Any) -> Trees:
    """Take the trees out of a fitted sklearn.ensemble.GradientBoostingRegressor with init="zero"."""
    parts: dict[str, list[Any]] = {name: [] for name in ("root", "feature", "threshold", "left", "right", "value")}
    at = 0
    for estimator in model.estimators_[:, 0]:
        tree = estimator.tree_
        inner = tree.children_left >= 0
        parts["root"].append(at)
        parts["feature"].append(np.where(inner, tree.feature, -1))
        parts["threshold"].append(np.where(inner, tree.threshold, 0.0))
        parts["left"].append(np.where(inner, tree.children_left + at, -1))
        parts["right"].append(np.where(inner, tree.children_right + at, -1))
        parts["value"].append(np.where(inner, 0.0, model.learning_rate * tree.value[:, 0, 0]))
        at += len(tree.feature)
    whole = {name: np.concatenate(found) for name, found in parts.items() if name != "root"}
    return Trees(
        np.array(parts["root"], dtype=np.int32), whole["feature"].astype(np.int32), whole["threshold"],
        whole["left"].astype(np.int32), whole["right"].astype(np.int32), whole["value"],
    )  # fmt: skip


def predict(trees: Trees, features: FloatArray) -> FloatArray:
    """Sum of all trees' values for each row of features (n x K)."""
    total = np.zeros(len(features))
    if not len(trees.root) or not len(features):
        return total
    if int(trees.feature.max(initial=-1)) >= features.shape[1]:
        raise DataError(f"the trees ask for feature {trees.feature.max()}; there are {features.shape[1]}")
    narrow = features.astype(np.float32)
    rows = np.arange(len(features))
    for root in trees.root.tolist():
        node = np.full(len(features), root, dtype=np.int32)
        inner = trees.left[node] >= 0
        while inner.any():
            goes_left = narrow[rows, trees.feature[node]] <= trees.threshold[node]
            node = np.where(inner, np.where(goes_left, trees.left[node], trees.right[node]), node)
            inner = trees.left[node] >= 0
        total += trees.value[node]
    return total
