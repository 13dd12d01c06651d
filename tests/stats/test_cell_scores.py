"""Median, trimmed mean and majority of all cells at once, against numpy, scipy and counting by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aliquot.stats.aggregation import cell_majority, cell_mean, cell_median, cell_trimmed_mean

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), max_size=50)


def cells_and_values(rows: Any) -> Any:
    cells = np.array([cell for cell, _ in rows], dtype=np.int64)
    return cells, np.array([value for _, value in rows], dtype=np.float64)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.4]))
def test_against_numpy_and_scipy(rows, share):
    cells, values = cells_and_values(rows)
    mean, median = cell_mean(cells, values, 6), cell_median(cells, values, 6)
    trimmed = cell_trimmed_mean(cells, values, 6, share)
    for cell in range(6):
        mine = values[cells == cell]
        if not len(mine):
            assert np.isnan([mean[cell], median[cell], trimmed[cell]]).all()
            continue
        assert mean[cell] == pytest.approx(mine.mean())
        assert median[cell] == np.median(mine)
        assert trimmed[cell] == pytest.approx(stats.trim_mean(mine, share + 1e-9))


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_majority_is_the_mode_and_ties_are_undecided(rows):
    cells, values = cells_and_values(rows)
    label, share = cell_majority(cells, values.astype(np.int64) + 3, 6, 7)
    for cell in range(6):
        votes = Counter(values[cells == cell].tolist()).most_common()
        if not votes or (len(votes) > 1 and votes[0][1] == votes[1][1]):
            assert label[cell] == -1
        else:
            assert label[cell] - 3 == votes[0][0]
        if votes:
            assert share[cell] == pytest.approx(votes[0][1] / sum(count for _, count in votes))
        else:
            assert np.isnan(share[cell])


def test_weights_decide():
    label, share = cell_majority(np.zeros(3, dtype=int), np.array([0, 0, 1]), 1, 2, np.array([0.25, 0.25, 1.0]))
    assert label.tolist() == [1]
    assert share[0] == pytest.approx(2 / 3)
