"""Boosted trees as arrays give what scikit-learn gives."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

from aliquot.errors import DataError
from aliquot.sampling.source_model import Trees, apply_trees, extract_trees


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_predictions_equal_scikit_learns(depth):
    rng = np.random.default_rng(depth)
    x = rng.normal(size=(300, 5))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    model = GradientBoostingRegressor(n_estimators=25, max_depth=depth, init="zero", random_state=1, subsample=0.7)
    model.fit(x, y)
    new = rng.normal(size=(1000, 5)) * 2
    assert np.abs(apply_trees(extract_trees(model), new) - model.predict(new)).max() < 1e-9


def test_nothing_in_nothing_out():
    trees = extract_trees(GradientBoostingRegressor(n_estimators=2, init="zero").fit([[0.0], [1.0]], [0.0, 1.0]))
    assert apply_trees(trees, np.zeros((0, 1))).shape == (0,)


def test_a_tree_that_never_ends_is_refused():
    whole = np.zeros(1, dtype=np.int32)
    with pytest.raises(DataError, match="broken"):
        Trees(whole, whole, np.zeros(1), whole, whole, np.zeros(1))


def test_too_few_features_are_told():
    trees = extract_trees(GradientBoostingRegressor(n_estimators=1, init="zero").fit([[0.0, 0], [0, 1.0]], [0.0, 1.0]))
    with pytest.raises(DataError, match="ask for feature 1"):
        apply_trees(trees, np.zeros((3, 1)))
