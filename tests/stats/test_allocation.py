"""Allocations: hand cases, the paper's recursion as oracle, brute force for the rounding, frequencies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.errors import OptionError
from aliquot.stats.allocation import (
    equal_allocation,
    neyman_allocation,
    proportional_allocation,
    round_allocation,
    round_randomly,
    water_fill,
)
from aliquot.stats.arrays import FloatArray, IntArray

DRAWS = 20_000


@st.composite
def bins(draw, max_bins=8, max_size=30):
    """Sizes, standard deviations and a total that fits."""
    sizes = np.array(draw(st.lists(st.integers(0, max_size), min_size=1, max_size=max_bins)))
    sds = np.array(
        draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 2.5, 40.0]), min_size=len(sizes), max_size=len(sizes)))
    )
    return sizes, sds, draw(st.integers(0, int(sizes.sum())))


def paper_recursion(sizes: IntArray, sds: FloatArray, n: int) -> FloatArray:
    """Equation 2 and the paragraph after it, word by word: one bin is taken whole at a time."""
    weights = sds * sizes if (sds * sizes).sum() > 0 else sizes.astype(float)
    target = n * weights / weights.sum() if weights.sum() > 0 else np.zeros(len(sizes))
    over = target - sizes
    worst = int(np.argmax(over))
    if over[worst] <= 1e-12:
        return target
    keep = np.arange(len(sizes)) != worst
    result = np.empty(len(sizes))
    result[worst] = sizes[worst]
    result[keep] = paper_recursion(sizes[keep], sds[keep], n - int(sizes[worst]))
    return result


def test_proportional_by_hand():
    assert proportional_allocation(np.array([10, 20, 70]), 10) == pytest.approx([1, 2, 7])


def test_optimal_by_hand():
    # s N = 30, 10, 20; n = 12 gives 6, 2, 4.
    assert neyman_allocation(np.array([10, 10, 40]), np.array([3.0, 1.0, 0.5]), 12) == pytest.approx([6, 2, 4])


def test_an_overfull_bin_is_taken_whole_and_the_rest_reallocated():
    # First 9.6, 1.2, 1.2; bin 0 holds 4, so 8 are left for two equal bins.
    assert neyman_allocation(np.array([4, 10, 10]), np.array([20.0, 1.0, 1.0]), 12) == pytest.approx([4, 4, 4])


def test_optimal_without_any_spread_is_proportional():
    sizes = np.array([3, 9, 6])
    assert neyman_allocation(sizes, np.zeros(3), 6) == pytest.approx(proportional_allocation(sizes, 6))


def test_what_bins_with_spread_cannot_hold_goes_to_the_others_in_proportion():
    assert neyman_allocation(np.array([2, 30, 10]), np.array([1.0, 0.0, 0.0]), 10) == pytest.approx([2, 6, 2])


@given(bins())
def test_optimal_is_the_papers_recursion(case):
    sizes, sds, n = case
    assert neyman_allocation(sizes, sds, n) == pytest.approx(paper_recursion(sizes, sds, n), abs=1e-9)


@given(bins(max_size=10**6))
def test_targets_sum_to_n_within_sizes(case):
    sizes, sds, n = case
    for target in (proportional_allocation(sizes, n), neyman_allocation(sizes, sds, n), equal_allocation(sizes, n)):
        assert target.sum() == pytest.approx(n, abs=1e-9, rel=1e-14)
        assert np.all((target >= 0) & (target <= sizes))


@given(bins())
def test_equal_split_gives_unfilled_groups_the_same_and_filled_ones_no_more(case):
    sizes, _, n = case
    target = equal_allocation(sizes, n)
    open_groups = target < sizes - 1e-9
    level = target[open_groups]
    if level.size:
        assert np.ptp(level) < 1e-9
        assert np.all(target[~open_groups] <= level[0] + 1e-9)


def test_equal_split_by_hand():
    assert equal_allocation(np.array([1, 4, 100, 100]), 25) == pytest.approx([1, 4, 10, 10])


def test_water_fill_survives_extreme_weights():
    filled = water_fill(np.array([1e308, 1e308, 5e-324, 1e-310]), np.ones(4), 2.5)
    assert filled[:2] == pytest.approx([1, 1])
    assert filled.sum() == pytest.approx(2.5)


@given(bins(max_bins=4, max_size=4))
def test_nearest_rounding_is_the_best_of_all_whole_allocations(case):
    sizes, sds, n = case
    target = neyman_allocation(sizes, sds, n)
    rounded = round_allocation(target, sizes, n)
    everything = (np.array(whole) for whole in itertools.product(*(range(size + 1) for size in sizes)))
    best = min(np.abs(whole - target).sum() for whole in everything if whole.sum() == n)
    assert rounded.sum() == n
    assert np.all((rounded >= 0) & (rounded <= sizes))
    assert np.abs(rounded - target).sum() == pytest.approx(best, abs=1e-9)


def test_nearest_rounding_empties_tiny_bins_and_random_rounding_does_not():
    sizes = np.full(100, 2)
    target = proportional_allocation(sizes, 20)  # 0.2 a bin
    assert np.count_nonzero(round_allocation(target, sizes, 20)) == 20
    assert round_allocation(target, sizes, 20)[:20].tolist() == [1] * 20  # always the same: the bias METHODS warns of
    assert len({tuple(round_randomly(target, sizes, 20, seed)) for seed in range(20)}) == 20


@given(bins(), st.integers(0, 10**6))
def test_random_rounding_goes_to_a_neighbour_and_sums_to_n(case, seed):
    sizes, sds, n = case
    for target in (proportional_allocation(sizes, n), neyman_allocation(sizes, sds, n)):
        rounded = round_randomly(target, sizes, n, seed)
        assert rounded.sum() == n
        assert np.all((rounded >= 0) & (rounded <= sizes))
        assert np.all(np.abs(rounded - target) < 1)
        assert rounded.tolist() == round_randomly(target, sizes, n, seed).tolist()


def test_random_rounding_is_right_on_average():
    sizes = np.array([3, 1, 8, 2, 2, 5, 4, 11])
    target = neyman_allocation(sizes, np.array([1.0, 5.0, 0.3, 2.0, 2.0, 0.0, 1.0, 0.7]), 13)
    rng = np.random.default_rng(20260)
    mean = np.mean([round_randomly(target, sizes, 13, rng) for _ in range(DRAWS)], axis=0)
    fraction = target - np.floor(target)
    error = np.sqrt(fraction * (1 - fraction) / DRAWS)
    assert np.all(np.abs(mean - target) <= 4 * error + 1e-9)
    assert np.count_nonzero(error > 1e-4) >= 5  # the case is not trivially whole


def test_random_rounding_takes_every_pair_of_bins():
    rng = np.random.default_rng(1)
    target, sizes = np.full(4, 0.5), np.ones(4, dtype=int)
    seen = {tuple(np.flatnonzero(round_randomly(target, sizes, 2, rng)).tolist()) for _ in range(200)}
    assert seen == set(itertools.combinations(range(4), 2))


@pytest.mark.parametrize("n", [-1, 31, 2.5])
def test_a_total_that_does_not_fit_is_an_error(n):
    sizes = np.array([10, 20])
    for allocate in (proportional_allocation, equal_allocation, lambda s, k: neyman_allocation(s, np.ones(2), k)):
        with pytest.raises(OptionError, match=f"`n` is {n}"):
            allocate(sizes, n)


def test_broken_arguments_are_named():
    sizes = np.array([5, 5])
    with pytest.raises(OptionError, match=r"sds\[1\] is nan"):
        neyman_allocation(sizes, np.array([1.0, np.nan]), 3)
    with pytest.raises(OptionError, match="`sds` has 3 values for 2 bins"):
        neyman_allocation(sizes, np.ones(3), 3)
    with pytest.raises(OptionError, match=r"sizes\[0\] is -1"):
        proportional_allocation(np.array([-1, 5]), 2)
    with pytest.raises(OptionError, match=r"sums to 2.0, not to n = 3"):
        round_allocation(np.array([1.0, 1.0]), sizes, 3)
    with pytest.raises(OptionError, match=r"target\[1\] is 6.0, above the size 5"):
        round_randomly(np.array([0.0, 6.0]), sizes, 6, seed=0)


def test_nothing_to_allocate():
    assert proportional_allocation(np.array([0, 0]), 0).tolist() == [0, 0]
    assert round_randomly(np.zeros(2), np.array([4, 4]), 0, seed=0).tolist() == [0, 0]
