"""Standard deviations of what is present."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.stats.arrays import column_sds


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_equals_numpy_where_nothing_is_missing(values):
    column = np.array(values)[:, None]
    assert column_sds(column)[0] == pytest.approx(column.std(ddof=1), abs=1e-9)


def test_gaps_are_left_out_and_too_few_values_are_unknown():
    values = np.array([[1.0, np.nan, 5.0], [3.0, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    assert column_sds(values)[0] == pytest.approx(np.sqrt(2))
    assert np.isnan(column_sds(values)[1:]).all()
