"""Central intervals by position."""

from __future__ import annotations

import numpy as np
import pytest

from aliquot.errors import OptionError
from aliquot.stats.resampling import percentile_interval


def test_positions():
    draws = np.random.default_rng(0).permutation(np.arange(1001.0))
    assert percentile_interval(draws, 0.9) == (50.0, 950.0)
    assert percentile_interval(np.array([3.0])) == (3.0, 3.0)


def test_infinite_and_unknown_draws():
    low, high = percentile_interval(np.array([1.0] * 90 + [np.inf] * 10 + [np.nan] * 50), 0.9)
    assert (low, high) == (1.0, np.inf)
    assert np.isnan(percentile_interval(np.array([np.nan]))).all()


def test_a_level_that_cannot_be():
    with pytest.raises(OptionError, match="`level` is 95"):
        percentile_interval(np.zeros(3), 95)
