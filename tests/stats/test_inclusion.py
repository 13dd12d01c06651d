"""Inclusion probabilities: hand cases, a naive water-filling as oracle, properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.errors import OptionError
from aliquot.stats.allocation import inclusion_probabilities, mix_with_uniform, pps_probabilities
from aliquot.stats.arrays import FloatArray


@st.composite
def sized(draw):
    """Sizes (some zero, some huge) and a sample size that fits."""
    sizes = np.array(draw(st.lists(st.sampled_from([0.0, 1e-6, 0.5, 1.0, 3.0, 50.0, 1e9]), min_size=1, max_size=20)))
    return sizes, draw(st.integers(0, len(sizes)))


def naive(sizes: FloatArray, n: int) -> FloatArray:
    """Cap at 1 and spread the rest again, until nothing exceeds 1."""
    pi = np.zeros(len(sizes))
    free = sizes > 0
    while True:
        left = n - int((pi == 1.0).sum())
        if not free.any():
            rest = pi < 1.0
            pi[rest] = left / max(int(rest.sum()), 1)
            return pi
        pi[free] = left * sizes[free] / sizes[free].sum()
        over = free & (pi >= 1.0)
        if not over.any():
            return pi
        pi[over] = 1.0
        free &= ~over


def test_by_hand():
    assert inclusion_probabilities(np.array([1.0, 2.0, 3.0, 4.0]), 2) == pytest.approx([0.2, 0.4, 0.6, 0.8])
    # 100 is certain, then 6 is: 2 * 6 / 9 > 1; the last share one item 1 : 2.
    assert inclusion_probabilities(np.array([100.0, 6.0, 1.0, 2.0]), 3) == pytest.approx([1, 1, 1 / 3, 2 / 3])


def test_items_without_size_share_what_is_left_over():
    assert inclusion_probabilities(np.array([5.0, 0.0, 0.0]), 2) == pytest.approx([1, 0.5, 0.5])
    assert inclusion_probabilities(np.zeros(4), 3) == pytest.approx(np.full(4, 0.75))


@given(sized())
def test_same_as_naive_water_filling(case):
    sizes, n = case
    assert inclusion_probabilities(sizes, n) == pytest.approx(naive(sizes, n), abs=1e-9)


@given(sized(), st.floats(0, 1, allow_subnormal=False))
def test_probabilities_that_sum_to_n(case, tau):
    sizes, n = case
    for pi in (inclusion_probabilities(sizes, n), pps_probabilities(sizes, n, tau)):
        assert abs(pi.sum() - n) < 1e-9
        assert np.all((pi >= 0) & (pi <= 1))
    if tau > 0 and n > 0:
        assert np.all(pps_probabilities(sizes, n, tau) > 0)


def test_a_million_items_of_heavy_tailed_size():
    sizes = np.random.default_rng(5).pareto(1.1, 1_000_000)
    pi = inclusion_probabilities(sizes, 300_000)
    assert abs(pi.sum() - 300_000) < 1e-9
    free = pi < 1.0
    assert 0 < np.count_nonzero(~free) < 300_000
    ratio = pi[free] / sizes[free]
    assert ratio.max() == pytest.approx(ratio.min())
    assert sizes[~free].min() * ratio.max() >= 1.0 - 1e-9


def test_mixing_by_hand():
    assert mix_with_uniform(np.array([1.0, 0.6, 0.4, 0.0]), 0.25) == pytest.approx([0.875, 0.575, 0.425, 0.125])
    assert mix_with_uniform(np.array([1.0, 0.0]), 1.0) == pytest.approx([0.5, 0.5])
    assert mix_with_uniform(np.array([1.0, 0.0]), 0.0) == pytest.approx([1.0, 0.0])


def test_cost_enters_by_its_square_root():
    pi = pps_probabilities(np.ones(4), 1, tau=0.0, cost=np.array([1.0, 4.0, 16.0, 16.0]))
    assert pi == pytest.approx([0.5, 0.25, 0.125, 0.125])


def test_sizes_that_say_nothing_give_the_uniform_design():
    assert pps_probabilities(np.zeros(5), 2, tau=0.0) == pytest.approx(np.full(5, 0.4))
    assert pps_probabilities(np.zeros(5), 2, tau=0.3, cost=np.arange(1.0, 6.0)) == pytest.approx(np.full(5, 0.4))


def test_the_input_is_not_changed():
    sizes, cost = np.array([9.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])
    pps_probabilities(sizes, 2, tau=0.5, cost=cost)
    assert (sizes.tolist(), cost.tolist()) == ([9.0, 1.0, 1.0], [1.0, 2.0, 3.0])


def test_broken_arguments_are_named():
    with pytest.raises(OptionError, match="`n` is 4; choose between 0 and the 3 items"):
        inclusion_probabilities(np.ones(3), 4)
    with pytest.raises(OptionError, match=r"sizes\[1\] is -2.0"):
        inclusion_probabilities(np.array([1.0, -2.0]), 1)
    with pytest.raises(OptionError, match=r"`tau` is 1.5"):
        mix_with_uniform(np.array([0.5]), 1.5)
    with pytest.raises(OptionError, match=r"cost\[1\] is 0"):
        pps_probabilities(np.ones(2), 1, 0.5, cost=np.array([1.0, 0.0]))
    with pytest.raises(OptionError, match="`cost` has 1 values for 2 sizes"):
        pps_probabilities(np.ones(2), 1, 0.5, cost=np.array([1.0]))
