"""Clusters against the paper's algorithm written out, their promises on random tables, and other people's mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.pairwise import wilcoxon_p
from aliquot.stats.ranks import ClusterRule, assign_clusters, validate_better

RULES: list[ClusterRule] = ["any", "neighbour"]


def beats(systems: int, *pairs: tuple[int, int]) -> BoolArray:
    table = np.zeros((systems, systems), dtype=bool)
    for a, b in pairs:
        table[a, b] = True
    return table


@st.composite
def cases(draw: st.DrawFn, consistent: bool = False, holes: bool = True) -> tuple[FloatArray, BoolArray]:
    """Estimates, some tied and some missing, with a table in which no two systems beat each other."""
    value = st.integers(0, 6).map(float)
    systems = draw(st.integers(0, 7))
    estimates = np.array([draw(st.one_of(value, st.just(np.nan)) if holes else value) for _ in range(systems)])
    table = np.zeros((systems, systems), dtype=bool)
    for a in range(systems):
        for b in range(a):
            winner = draw(st.integers(-1, 1))
            table[a, b], table[b, a] = winner > 0, winner < 0
    if consistent:
        table &= estimates[:, None] > estimates
    return estimates.reshape(systems), table


def algorithm_1(scores: FloatArray) -> IntArray:
    """The paper's pseudocode with scipy's test, system by system."""
    order = np.argsort(-scores.mean(axis=0), kind="stable")
    clusters = [[order[0]]]
    for system in order[1:]:
        if wilcoxon(scores[:, clusters[-1][-1]] - scores[:, system], alternative="greater").pvalue < 0.05:
            clusters.append([system])
        else:
            clusters[-1].append(system)
    numbers = np.zeros(scores.shape[1], dtype=np.int64)
    for number, members in enumerate(clusters, start=1):
        numbers[members] = number
    return numbers


@pytest.mark.parametrize("items", [20, 40, 200])
def test_neighbour_is_the_papers_algorithm(items: int) -> None:
    seen = set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=(items, 9)) + np.linspace(0, 1.5, 9)[rng.permutation(9)]
        found = assign_clusters(scores.mean(axis=0), wilcoxon_p(scores) < 0.05, "neighbour")
        np.testing.assert_array_equal(found, algorithm_1(scores))
        seen.add(found.max())
    assert len(seen) > 1


def test_any_asks_every_member_and_neighbour_the_last() -> None:
    estimates, better = np.array([4.0, 3.0, 2.0, 1.0]), beats(4, (0, 2), (0, 3), (1, 3))
    # Members of an earlier cluster are asked no more: 0 and 1 beat 3, but 2, who opened the present one, does not.
    assert assign_clusters(estimates, better).tolist() == [1, 1, 2, 2]
    assert assign_clusters(estimates, better, "neighbour").tolist() == [1, 1, 1, 1]


def test_numbers_come_in_the_order_given() -> None:
    assert assign_clusters(np.array([1.0, 3.0, 2.0]), beats(3, (1, 2), (2, 0))).tolist() == [3, 1, 2]


def test_a_win_against_the_order_of_the_estimates_opens_nothing() -> None:
    assert assign_clusters(np.array([2.0, 1.0]), beats(2, (1, 0))).tolist() == [1, 1]


@pytest.mark.parametrize("rule", RULES)
def test_identical_systems_share_a_cluster(rule: ClusterRule) -> None:
    column = np.random.default_rng(0).normal(size=(30, 1))
    scores = np.hstack([column, column + 3, column])
    assert assign_clusters(scores.mean(axis=0), wilcoxon_p(scores) < 0.05, rule).tolist() == [2, 1, 2]


@pytest.mark.parametrize("rule", RULES)
def test_systems_without_an_estimate_come_last_together(rule: ClusterRule) -> None:
    better = beats(4, (1, 3), (0, 1), (0, 3))
    assert assign_clusters(np.array([np.nan, 2.0, np.nan, 1.0]), better, rule).tolist() == [3, 1, 3, 2]
    assert assign_clusters(np.full(2, np.nan), beats(2), rule).tolist() == [1, 1]
    assert assign_clusters(np.empty(0), beats(0), rule).tolist() == []


@settings(max_examples=200, deadline=None)
@given(case=cases(), rule=st.sampled_from(RULES))
def test_numbers_rise_by_one_down_the_order(case: tuple[FloatArray, BoolArray], rule: ClusterRule) -> None:
    estimates, better = case
    numbers = assign_clusters(estimates, better, rule)
    down = numbers[np.argsort(-estimates, kind="stable")]  # NaN sorts last
    assert numbers.dtype == np.int64
    assert not len(down) or down[0] == 1
    assert set(np.diff(down)) <= {0, 1}
    for value in np.unique(estimates[~np.isnan(estimates)]):
        assert len(set(numbers[estimates == value])) == 1


@settings(max_examples=200, deadline=None)
@given(case=cases(), rule=st.sampled_from(RULES), data=st.data())
def test_the_order_of_the_systems_does_not_matter(
    case: tuple[FloatArray, BoolArray], rule: ClusterRule, data: st.DataObject
) -> None:
    estimates, better = case
    shuffle = np.array(data.draw(st.permutations(range(len(estimates)))), dtype=np.int64)
    moved = assign_clusters(estimates[shuffle], better[np.ix_(shuffle, shuffle)], rule)
    np.testing.assert_array_equal(moved, assign_clusters(estimates, better, rule)[shuffle])


@settings(max_examples=200, deadline=None)
@given(case=cases(consistent=True))
def test_any_puts_nobody_with_somebody_who_beats_them(case: tuple[FloatArray, BoolArray]) -> None:
    estimates, better = case
    numbers = assign_clusters(estimates, better)
    assert not (better & (numbers[:, None] == numbers)).any()
    # and no boundary without a reason: some member of the cluster above beats one of the best of the cluster below
    ranked = ~np.isnan(estimates)
    for number in range(2, numbers[ranked].max(initial=0) + 1):
        below = np.flatnonzero(ranked & (numbers == number))
        best = below[estimates[below] == estimates[below].max()]
        assert better[np.ix_(numbers == number - 1, best)].any()


@settings(max_examples=100, deadline=None)
@given(case=cases(consistent=True, holes=False))
def test_extremes(case: tuple[FloatArray, BoolArray]) -> None:
    estimates, _ = case
    everybody, nobody = estimates[:, None] > estimates, np.zeros((len(estimates),) * 2, dtype=bool)
    assert set(assign_clusters(estimates, nobody)) <= {1}
    for rule in RULES:
        expected = [1 + len({other for other in estimates if other > mine}) for mine in estimates]
        assert assign_clusters(estimates, everybody, rule).tolist() == expected


def test_arguments_are_not_changed() -> None:
    estimates, better = np.array([1.0, 2.0, np.nan]), beats(3, (1, 0))
    kept = estimates.copy(), better.copy()
    assign_clusters(estimates, better)
    np.testing.assert_array_equal(estimates, kept[0])
    np.testing.assert_array_equal(better, kept[1])


def test_errors_name_the_argument_the_value_and_the_remedy() -> None:
    one = np.array([1.0, 2.0])
    with pytest.raises(NameUnknownError, match=r"`rule` is 'all'\. Available: 'any', 'neighbour'"):
        assign_clusters(one, beats(2), "all")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"`estimates` has shape \(1, 2\)"):
        assign_clusters(one[None], beats(2))
    with pytest.raises(OptionError, match=r"`better` has shape \(3, 3\); give a table of 2 x 2"):
        assign_clusters(one, beats(3))
    with pytest.raises(OptionError, match="`better` holds float64; give booleans"):
        assign_clusters(one, np.zeros((2, 2)))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"better\[0, 1\] and better\[1, 0\] are both true"):
        validate_better(beats(2, (0, 1), (1, 0)), 2)
    with pytest.raises(OptionError, match=r"better\[1, 1\]"):
        validate_better(beats(2, (1, 1)), 2)
