"""Ridge inside groups against scikit-learn's on centred data, and what it must not see."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from aliquot.errors import OptionError
from aliquot.stats.regression import centre_in_groups, group_weights, sparse_within_group_ridge, within_group_ridge

RNG = np.random.default_rng(3)
GROUPS = np.repeat([0, 1, 2], [30, 50, 20])
X = RNG.normal(size=(100, 4)) + GROUPS[:, None] * 3
Y = X @ [1.0, -2.0, 0.0, 0.5] + GROUPS * -40.0 + RNG.normal(size=100)


def test_agrees_with_ridge_on_centred_data():
    weight = group_weights(GROUPS)
    oracle = Ridge(alpha=7.0, fit_intercept=False, tol=1e-10)
    oracle.fit(centre_in_groups(X, GROUPS, weight), centre_in_groups(Y, GROUPS, weight), sample_weight=weight)
    assert within_group_ridge(X, Y, GROUPS, weight, np.full(4, 7.0)) == pytest.approx(oracle.coef_, abs=1e-9)


def test_sparse_and_dense_agree():
    weight = group_weights(GROUPS)
    dense = within_group_ridge(X, Y, GROUPS, weight, np.full(4, 7.0))
    assert sparse_within_group_ridge(sparse.csr_matrix(X), Y, GROUPS, weight, 7.0) == pytest.approx(dense, rel=1e-3)


def test_what_differs_between_groups_teaches_nothing():
    weight = group_weights(GROUPS)
    moved = within_group_ridge(X, Y + GROUPS * 1000.0, GROUPS, weight, np.ones(4))
    assert moved == pytest.approx(within_group_ridge(X, Y, GROUPS, weight, np.ones(4)), abs=1e-6)


def test_groups_count_as_the_root_of_their_size():
    weight = group_weights(GROUPS)
    total = np.bincount(GROUPS, weight)
    assert total / total[0] == pytest.approx(np.sqrt([1, 50 / 30, 20 / 30]))


def test_penalties_are_checked():
    with pytest.raises(OptionError, match="negative"):
        within_group_ridge(X, Y, GROUPS, np.ones(100), np.full(4, -1.0))
    with pytest.raises(OptionError, match="above 0"):
        sparse_within_group_ridge(sparse.csr_matrix(X), Y, GROUPS, np.ones(100), 0.0)
