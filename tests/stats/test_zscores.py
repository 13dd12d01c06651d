"""Standard scores within groups: numpy and scipy as oracles, zero sums, guards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aliquot.stats.annotator_effects import group_zscores


def test_against_scipy():
    rng = np.random.default_rng(0)
    values, groups = rng.normal(70, 15, 300), rng.integers(0, 7, 300)
    found = group_zscores(values, groups)
    for group in range(7):
        mine = groups == group
        assert found.z[mine] == pytest.approx(stats.zscore(values[mine], ddof=0))
        assert found.mean[group] == pytest.approx(values[mine].mean())
        assert found.sd[group] == pytest.approx(values[mine].std())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.just(float("nan")), st.integers(0, 100))), max_size=60))
def test_scores_sum_to_zero_and_squares_to_the_size(rows):
    groups = np.array([group for group, _ in rows], dtype=np.int64)
    values = np.array([value for _, value in rows], dtype=np.float64)
    found = group_zscores(values, groups, minimum=2)
    assert np.array_equal(np.isnan(values), np.isnan(values) & np.isnan(found.z))
    for group in np.unique(groups):
        z = found.z[(groups == group) & np.isfinite(found.z)]
        if len(z):
            assert z.sum() == pytest.approx(0, abs=1e-9)
            assert (z**2).sum() == pytest.approx(len(z))
        else:
            assert found.few[group] or found.constant[group] or found.count[group] == 0


def test_few_and_constant_groups_have_none():
    found = group_zscores(np.array([1.0, 5.0, 5.0, 5.0, 1.0, 2.0, 3.0]), np.array([0, 1, 1, 1, 2, 2, 2]), minimum=3)
    assert found.few.tolist() == [True, False, False]
    assert found.constant.tolist() == [False, True, False]
    assert np.isnan(found.z[:4]).all()
    assert np.isfinite(found.z[4:]).all()


def test_a_constant_that_is_no_binary_fraction_has_no_spread():
    found = group_zscores(np.full(7, 0.1), np.zeros(7, dtype=np.int64))
    assert np.isnan(found.z).all()
    assert found.constant.tolist() == [True]


def test_nothing_gives_nothing():
    assert len(group_zscores(np.zeros(0), np.zeros(0, dtype=np.int64)).z) == 0
