"""Draws: exact enumeration where possible, frequencies against pi, sizes, spread and balance."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import OptionError
from aliquot.stats.allocation import inclusion_probabilities
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.sampling_designs import (
    _NeighbourPool,
    _systematic_hits,
    cube_sample,
    local_pivotal_sample,
    random_document_order,
    simple_random_sample,
    systematic_sample,
)

Sampler = Callable[[np.random.Generator], IntArray]
DRAWS = 20_000
# Unequal, with a 0 and a 1, summing to 5.
PI = np.array([0.0, 1.0, 0.9, 0.05, 0.35, 0.5, 0.2, 0.75, 0.25, 0.6, 0.1, 0.3])
COVARIATES = np.random.default_rng(0).normal(size=(len(PI), 2))


def assert_frequencies(draw: Sampler, pi: FloatArray, draws: int = DRAWS) -> None:
    """Every item is drawn as often as pi says, to within four standard errors (0 and 1 exactly)."""
    rng = np.random.default_rng(77)
    counts = np.zeros(len(pi))
    for _ in range(draws):
        counts[draw(rng)] += 1
    error = np.sqrt(pi * (1 - pi) / draws)
    assert np.all(np.abs(counts / draws - pi) <= 4 * error + 1e-12), (counts / draws - pi) / np.maximum(error, 1e-12)


@st.composite
def probabilities(draw):
    """Probabilities with exact 0 and 1 among them, whole sum or not."""
    raw = draw(st.lists(st.sampled_from([0.0, 1.0, 1e-12, 0.1, 1 / 3, 0.5, 0.9, 1 - 1e-12]), min_size=1, max_size=25))
    pi = np.array(raw)
    return inclusion_probabilities(pi, draw(st.integers(0, len(raw)))) if draw(st.booleans()) else pi


def assert_valid(drawn: IntArray, pi: FloatArray) -> None:
    assert drawn.dtype == np.int64
    assert np.all(np.diff(drawn) > 0)  # sorted, none twice
    assert set(np.flatnonzero(pi == 1.0)) <= set(drawn.tolist())
    assert np.all(pi[drawn] > 0)
    total = pi.sum()
    near = round(total)
    sizes = {near} if abs(total - near) < 1e-9 else {int(np.floor(total)), int(np.ceil(total))}
    assert len(drawn) in sizes


def test_simple_random_takes_every_subset_equally_often():
    rng = np.random.default_rng(3)
    seen = Counter(tuple(simple_random_sample(5, 2, rng).tolist()) for _ in range(DRAWS))
    assert set(seen) == set(itertools.combinations(range(5), 2))
    assert all(abs(count / DRAWS - 0.1) < 4 * np.sqrt(0.09 / DRAWS) for count in seen.values())


def test_systematic_probabilities_are_exact_over_all_starts():
    """Enumeration: between two breakpoints the sample is constant; the lengths of its intervals add up to pi."""
    for pi in (PI[(PI > 0) & (PI < 1)], np.array([0.3, 0.45, 0.9, 0.15]), np.full(7, 3 / 7)):
        breaks = np.unique(np.concatenate([[0.0, 1.0], np.cumsum(pi) % 1.0]))
        chance = np.zeros(len(pi))
        for low, high in itertools.pairwise(breaks):
            chance[_systematic_hits(pi, (low + high) / 2)] += high - low
        assert chance == pytest.approx(pi, abs=1e-12)


@given(st.integers(1, 400), st.data())
def test_rounding_never_costs_systematic_an_item(size, data):
    n = data.draw(st.integers(0, size))
    start = data.draw(st.sampled_from([0.0, 5e-324, 1e-16, 1e-12, 0.5, 1 - 1e-12, 1 - 2.0**-53]))
    sizes = np.array(data.draw(st.lists(st.floats(0.01, 1e6), min_size=size, max_size=size)))
    for pi in (np.full(size, n / size), inclusion_probabilities(sizes, n)):
        free = pi[(pi > 0) & (pi < 1)]
        hits = _systematic_hits(free, start)
        assert len(hits) == n - np.count_nonzero(pi == 1.0)
        assert np.all(np.diff(hits) > 0)
        assert not len(hits) or (hits[0] >= 0 and hits[-1] < len(free))


def test_systematic_takes_the_left_end_of_an_item_not_the_right():
    assert _systematic_hits(np.full(4, 0.5), 0.0).tolist() == [0, 2]
    assert _systematic_hits(np.full(4, 0.5), 0.5).tolist() == [1, 3]


def test_rounding_never_draws_an_item_of_almost_one_twice():
    """Starts aimed at items whose cumulated width has been rounded to more than 1."""
    rng = np.random.default_rng(0)
    aimed = 0
    for _ in range(20):
        pi = rng.permutation(np.concatenate([rng.random(200), np.full(20, 1 - 2.0**-53)]))
        cumulated = np.cumsum(pi) * (pi.sum() / np.cumsum(pi)[-1])
        for i in np.flatnonzero(np.diff(cumulated) > 1.0):
            hits = _systematic_hits(pi, float(cumulated[i] % 1.0))
            assert np.all(np.diff(hits) > 0)
            aimed += 1
    assert aimed > 10


@pytest.mark.parametrize("start", [0.0, 1e-16, 0.3, 1 - 2.0**-53])
def test_systematic_keeps_its_size_on_a_million_items(start):
    pi = inclusion_probabilities(np.random.default_rng(1).pareto(1.5, 1_000_000), 123_456)
    free = pi[(pi > 0) & (pi < 1)]
    assert len(np.unique(_systematic_hits(free, start))) == 123_456 - np.count_nonzero(pi == 1.0)


def test_systematic_follows_the_order():
    # Along 0, 2, 4, 1, 3, 5 with pi 1/2: one of {0, 2}, one of {4, 1}, one of {3, 5}.
    order = np.array([0, 2, 4, 1, 3, 5])
    samples = {tuple(systematic_sample(np.full(6, 0.5), seed, order).tolist()) for seed in range(40)}
    assert samples == {(0, 3, 4), (1, 2, 5)}


@given(probabilities(), st.integers(0, 10**6))
def test_systematic_sample_is_valid(pi, seed):
    order = np.random.default_rng(seed).permutation(len(pi))
    assert_valid(systematic_sample(pi, seed, order), pi)
    assert systematic_sample(pi, seed, order).tolist() == systematic_sample(pi, seed, order).tolist()


def test_systematic_frequencies():
    order = np.random.default_rng(5).permutation(len(PI))
    assert_frequencies(lambda rng: systematic_sample(PI, rng, order), PI)
    assert_frequencies(lambda rng: systematic_sample(PI[:8], rng), PI[:8])  # sum 3.75: three or four items


def test_document_order_keeps_documents_together_and_items_in_order():
    documents = np.array([4, 4, 1, 9, 1, 4, 9, 9, 1])
    orders = [random_document_order(documents, seed) for seed in range(60)]
    assert {tuple(dict.fromkeys(documents[order].tolist())) for order in orders} == set(
        itertools.permutations([4, 1, 9])
    )
    for order in orders:
        runs = [list(run) for _, run in itertools.groupby(order.tolist(), key=lambda i: documents[i])]
        assert len(runs) == 3
        assert all(run == sorted(run) for run in runs)


@given(st.integers(2, 120), st.integers(0, 10**6), st.booleans())
@settings(max_examples=30)
def test_nearest_undecided_neighbour_is_the_nearest(size, seed, discrete):
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 3, size=(size, 2)).astype(float) if discrete else rng.normal(size=(size, 2))
    undecided = _NeighbourPool(points)
    alive = set(range(size))
    for gone in rng.permutation(size)[:-2].tolist():
        undecided.remove(gone)
        alive.remove(gone)
        i = int(rng.choice(list(alive)))
        distance = {j: np.linalg.norm(points[i] - points[j]) for j in alive if j != i}
        assert distance[undecided.find_nearest(i)] == pytest.approx(min(distance.values()))


def test_nearest_is_found_when_all_the_near_ones_are_decided():
    """More neighbours gone than are looked up at once, and too few for a new tree."""
    undecided = _NeighbourPool(np.arange(100.0)[:, None])
    for gone in range(1, 45):
        undecided.remove(gone)
    assert undecided.find_nearest(0) == 45
    assert undecided.find_nearest(45) == 46


@given(probabilities(), st.integers(0, 10**6))
def test_local_pivotal_sample_is_valid(pi, seed):
    covariates = np.random.default_rng(seed).integers(0, 3, size=(len(pi), 2)).astype(float)
    assert_valid(local_pivotal_sample(pi, covariates, seed), pi)
    assert local_pivotal_sample(pi, covariates, seed).tolist() == local_pivotal_sample(pi, covariates, seed).tolist()


def test_local_pivotal_frequencies():
    assert_frequencies(lambda rng: local_pivotal_sample(PI, COVARIATES, rng), PI)
    assert_frequencies(lambda rng: local_pivotal_sample(PI[:8], COVARIATES[:8], rng), PI[:8], draws=DRAWS // 4)


def test_local_pivotal_takes_one_of_each_far_cluster():
    covariates = np.repeat(np.arange(5.0) * 100, 3) + np.tile([0.0, 0.1, 0.21], 5)
    for seed in range(50):
        drawn = local_pivotal_sample(np.full(15, 1 / 3), covariates, seed)
        assert (drawn // 3).tolist() == [0, 1, 2, 3, 4]


def test_covariates_are_standardised():
    """A column in large units must not drown the other: both are spread evenly."""
    grid = np.array(list(itertools.product(range(8), range(8))), dtype=float)
    plain = [local_pivotal_sample(np.full(64, 0.25), grid, seed).tolist() for seed in range(5)]
    scaled = [local_pivotal_sample(np.full(64, 0.25), grid * [1.0, 1024.0], seed).tolist() for seed in range(5)]
    assert plain == scaled


def spread_ratio(draw: Sampler, plain: Sampler, values: FloatArray, pi: FloatArray, repeats: int = 300) -> float:
    """Variance of the weighted mean of `values` under one design relative to another with the same pi."""
    rng = np.random.default_rng(9)
    means = [[np.sum(values[s] / pi[s]) for s in (design(rng) for _ in range(repeats))] for design in (draw, plain)]
    return float(np.var(means[0]) / np.var(means[1]))


def test_local_pivotal_spreads_better_than_simple_random():
    covariates = np.random.default_rng(2).normal(size=(200, 2))
    values = np.sin(covariates[:, 0]) + covariates[:, 1] ** 2
    pi = np.full(200, 0.2)
    assert (
        spread_ratio(
            lambda rng: local_pivotal_sample(pi, covariates, rng),
            lambda rng: simple_random_sample(200, 40, rng),
            values,
            pi,
        )
        < 0.4
    )


@given(probabilities(), st.integers(0, 3), st.integers(0, 10**6))
def test_cube_sample_is_valid(pi, columns, seed):
    balancing = np.random.default_rng(seed).integers(0, 4, size=(len(pi), columns)).astype(float)
    balancing = np.column_stack([balancing, pi])  # pi twice: linearly dependent equations do no harm
    assert_valid(cube_sample(pi, balancing, seed), pi)
    assert cube_sample(pi, balancing, seed).tolist() == cube_sample(pi, balancing, seed).tolist()


def test_cube_frequencies():
    assert_frequencies(lambda rng: cube_sample(PI, COVARIATES, rng), PI)


def test_cube_frequencies_when_the_sum_is_not_whole():
    assert_frequencies(lambda rng: cube_sample(PI[:8], COVARIATES[:8, 0], rng), PI[:8], draws=DRAWS // 4)


def test_cube_meets_the_balancing_equations():
    rng = np.random.default_rng(4)
    balancing = rng.normal(size=(150, 3)) + 5.0
    equal = np.full(150, 40 / 150)
    unequal = inclusion_probabilities(rng.uniform(0.5, 2.0, 150), 40)
    for x in balancing.T:
        plain = spread_ratio(
            lambda g: cube_sample(equal, balancing, g), lambda g: simple_random_sample(150, 40, g), x, equal, 40
        )
        shuffled = spread_ratio(
            lambda g: cube_sample(unequal, balancing, g),
            lambda g: systematic_sample(unequal, g, g.permutation(150)),
            x,
            unequal,
            40,
        )
        assert max(plain, shuffled) < 0.1


def test_cube_balances_exactly_when_it_can():
    """Group indicators with whole totals: as many of every group as pi says, every time."""
    groups = np.repeat(np.eye(4), 5, axis=0)
    pi = np.full(20, 0.4)
    for seed in range(30):
        assert groups[cube_sample(pi, groups * pi[:, None], seed)].sum(axis=0).tolist() == [2, 2, 2, 2]


def test_no_items_at_all():
    nothing = np.empty(0)
    for drawn in (
        systematic_sample(nothing, 0),
        local_pivotal_sample(nothing, np.empty((0, 2)), 0),
        cube_sample(nothing, nothing, 0),
    ):
        assert drawn.tolist() == []
    assert random_document_order(np.empty(0, dtype=int), 0).tolist() == []


def test_the_input_is_not_changed():
    pi, covariates = PI.copy(), COVARIATES.copy()
    systematic_sample(pi, 0)
    local_pivotal_sample(pi, covariates, 0)
    cube_sample(pi, covariates, 0)
    assert np.array_equal(pi, PI)
    assert np.array_equal(covariates, COVARIATES)


def test_broken_arguments_are_named():
    with pytest.raises(OptionError, match=r"pi\[1\] is 1.2"):
        systematic_sample(np.array([0.5, 1.2]), 0)
    with pytest.raises(OptionError, match=r"pi\[0\] is nan"):
        cube_sample(np.array([np.nan]), np.ones(1), 0)
    with pytest.raises(OptionError, match=r"order .* must hold each of the items 0 to 1 once"):
        systematic_sample(np.array([0.5, 0.5]), 0, order=np.array([0, 0]))
    with pytest.raises(OptionError, match=r"covariates has shape \(3, 1\); give one row for each of the 2"):
        local_pivotal_sample(np.array([0.5, 0.5]), np.ones(3), 0)
    with pytest.raises(OptionError, match=r"balancing\[1, 0\] is nan"):
        cube_sample(np.array([0.5, 0.5]), np.array([1.0, np.nan]), 0)
    with pytest.raises(OptionError, match="`n` is 6; choose between 0 and the 5 items"):
        simple_random_sample(5, 6, 0)
