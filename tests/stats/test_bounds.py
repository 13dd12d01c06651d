"""Hoeffding and Bernstein: values by hand, coverage by listing every sample of small populations, properties."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.errors import OptionError
from aliquot.stats.confidence_sequences import bernstein_half_width, error_rate, hoeffding_half_width

POPULATIONS = {
    "coin": [0, 0, 0, 0, 0, 1, 1, 1, 1, 1],
    "rare": [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    "skewed": [0.1, 0.5, 0.8, 0.85, 0.9, 0.9, 0.95, 1, 1, 1],
}


def test_hoeffding_by_hand():
    # n = 1 has no gain from the finite population; n = N keeps k = 1/N; R = 100, delta = 2/e makes the log 1.
    level = 1 - 2 / math.e
    assert hoeffding_half_width(1, 8, 100.0, level) == pytest.approx(100 / math.sqrt(2))
    assert hoeffding_half_width(8, 8, 100.0, level) == pytest.approx(100 * math.sqrt(1 / 8 / 16))
    assert hoeffding_half_width(5, 8, 1.0, level) == pytest.approx(math.sqrt(0.5 / 10))


def test_bernstein_by_hand():
    # delta = 0.5, so log(3 / delta) = log 6: 0.2 sqrt(2 log 6 / 50) + 3 log 6 / 50.
    assert bernstein_half_width(0.2, 50, 1.0, 0.5) == pytest.approx(
        0.2 * math.sqrt(0.04 * math.log(6)) + 0.06 * math.log(6)
    )
    assert bernstein_half_width(0.0, 50, 10.0, 0.5) == pytest.approx(0.6 * math.log(6))


@pytest.mark.parametrize("level", [0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("name", POPULATIONS)
def test_enough_of_all_samples_are_covered(name, level):
    values = np.array(POPULATIONS[name], dtype=float)
    for n in range(1, len(values) + 1):
        samples = values[np.array(list(combinations(range(len(values)), n)))]
        miss = np.abs(samples.mean(axis=1) - values.mean())
        hoeffding = hoeffding_half_width(n, len(values), 1.0, level)
        bernstein = bernstein_half_width(samples.std(axis=1), n, 1.0, level)
        assert np.mean(miss > hoeffding + 1e-12) <= 1 - level
        assert np.mean(miss > bernstein + 1e-12) <= 1 - level


def test_hoeffding_can_miss():
    """A guard for the test above: with a fair coin and a low level the bound is near enough to be missed at times."""
    values = np.array(POPULATIONS["coin"], dtype=float)
    samples = values[np.array(list(combinations(range(10), 4)))]
    assert np.mean(np.abs(samples.mean(axis=1) - 0.5) > hoeffding_half_width(4, 10, 1.0, 0.3)) > 0.02


@given(st.integers(1, 500), st.floats(0, 0.5), st.floats(0.01, 100), st.floats(0.5, 0.999))
def test_scale_size_and_level(n, sd, scale, level):
    hoeffding, bernstein = hoeffding_half_width(n, 500, 1.0, level), bernstein_half_width(sd, n, 1.0, level)
    assert hoeffding_half_width(n, 500, scale, level) == pytest.approx(scale * hoeffding)
    assert bernstein_half_width(scale * sd, n, scale, level) == pytest.approx(scale * bernstein)
    assert hoeffding_half_width(n, 10**9, 1.0, level) >= hoeffding > 0
    assert bernstein_half_width(sd, n + 1, 1.0, level) < bernstein < bernstein_half_width(sd, n, 1.0, (1 + level) / 2)


def test_one_entry_per_system():
    n, sd = np.array([10, 20, 30]), np.array([0.1, 0.2, 0.3])
    assert hoeffding_half_width(n, 40, 1.0) == pytest.approx(
        [float(hoeffding_half_width(k, 40, 1.0)) for k in (10, 20, 30)]
    )
    assert bernstein_half_width(sd, n, 1.0)[1] == pytest.approx(bernstein_half_width(0.2, 20, 1.0))
    assert bernstein_half_width(sd, 20, 1.0).shape == (3,)


def test_nothing_known_is_nan():
    assert np.isnan(hoeffding_half_width(np.array([0, 5]), 10, 1.0)).tolist() == [True, False]
    assert np.isnan(bernstein_half_width(np.array([0.1, np.nan, 0.1]), np.array([0, 5, 5]), 1.0)).tolist() == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan])
def test_levels_that_cannot_be(level):
    with pytest.raises(OptionError, match="`level` is"):
        error_rate(level)


def test_bad_arguments_are_named():
    with pytest.raises(OptionError, match="`n` is 11, more than the 10"):
        hoeffding_half_width(np.array([0, 11]), 10, 1.0)
    with pytest.raises(OptionError, match="`n` is -1"):
        hoeffding_half_width(-1, 10, 1.0)
    with pytest.raises(OptionError, match="`population` is 0"):
        hoeffding_half_width(1, 0, 1.0)
    with pytest.raises(OptionError, match=r"`value_range` is 0\.0"):
        hoeffding_half_width(1, 10, 0.0)
    with pytest.raises(OptionError, match="`value_range` is inf"):
        bernstein_half_width(0.1, 10, math.inf)
    with pytest.raises(OptionError, match=r"`sd` is -0\.1"):
        bernstein_half_width(-0.1, 10, 1.0)
