"""Pairwise p-values against their definitions, accuracy against loops, and the search for subsets."""

from __future__ import annotations

from itertools import combinations, product
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from aliquot.errors import OptionError
from aliquot.stats import pairwise, subset_search
from aliquot.stats.arrays import FloatArray
from aliquot.stats.pairwise import (
    analytic_p,
    neighbour_p,
    pair_differences,
    pairwise_sums,
    permutation_p,
    prefix_spa,
    random_spa,
    sign_flip_p,
    spa,
    spa_from_sums,
)
from aliquot.stats.subset_search import _analytic_scorer, best_random_subset, greedy_subset


def table(seed: int, items: int = 60, systems: int = 5, holes: float = 0.0) -> FloatArray:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(items, systems)) + 0.2 * rng.normal(size=systems) + rng.normal(size=(items, 1))
    scores[rng.random(scores.shape) < holes] = np.nan
    return scores


def p_by_definition(scores: FloatArray, a: int, b: int) -> float:
    d = scores[:, a] - scores[:, b]
    d = d[~np.isnan(d)]
    return float(stats.norm.sf(d.sum() / np.sqrt((d**2).sum()))) if d.any() else 0.5


CELLS = st.one_of(st.floats(-100, 100).map(lambda x: round(x, 3)), st.sampled_from([0.0, 1.0, np.nan]))
TABLES = arrays(np.float64, st.tuples(st.integers(0, 8), st.integers(2, 5)), elements=CELLS)


@settings(max_examples=100, deadline=None)
@given(scores=TABLES)
def test_sums_and_p_values_are_their_definitions(scores: FloatArray) -> None:
    sums, p = pairwise_sums(scores), analytic_p(scores)
    for pair, (a, b) in enumerate(combinations(range(scores.shape[1]), 2)):
        d = scores[:, a] - scores[:, b]
        assert (sums.first[pair], sums.second[pair]) == (a, b)
        assert sums.count[pair] == (~np.isnan(d)).sum()
        assert sums.total[pair] == pytest.approx(np.nansum(d), abs=1e-9)
        assert sums.squares[pair] == pytest.approx(np.nansum(d**2), rel=1e-9, abs=1e-15)
        assert p[a, b] == pytest.approx(p_by_definition(scores, a, b), abs=1e-9)
        assert p[b, a] == pytest.approx(1 - p[a, b])
    assert (np.diag(p) == 0.5).all()


def test_small_p_means_the_first_is_better() -> None:
    scores = table(0) + np.array([2.0, 0, 0, 0, -2.0])
    for p in (analytic_p(scores), permutation_p(scores, 200, 0)):
        assert p[0, 4] < 0.01
        assert p[4, 0] > 0.99


def test_equal_systems_are_even() -> None:
    scores = table(1)
    scores[:, 3] = scores[:, 0]
    assert pairwise_sums(scores).squares[2] == 0
    for p in (analytic_p(scores), permutation_p(scores, 99, 0)):
        assert p[0, 3] == p[3, 0] == 0.5


def test_no_common_items_are_even() -> None:
    scores = np.array([[1.0, np.nan], [np.nan, 5.0]])
    assert analytic_p(scores)[0, 1] == permutation_p(scores, 9, 0)[0, 1] == 0.5


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_large_scores_with_small_differences_keep_their_digits(offset: float) -> None:
    """Near-identical systems on a large common level, where a plain Gram matrix loses everything."""
    rng = np.random.default_rng(2)
    scores = offset + 1000 * rng.normal(size=(300, 1)) + 1e-3 * rng.normal(size=(300, 4))
    scores[:, 3] += 1e5 * rng.normal(size=300)
    expected = [[p_by_definition(scores, a, b) if a != b else 0.5 for b in range(4)] for a in range(4)]
    np.testing.assert_allclose(analytic_p(scores), expected, atol=1e-9)


def test_tiny_p_values_keep_their_digits_on_both_sides() -> None:
    scores = table(3, items=200, systems=2) + np.array([0.0, 3.0])
    p = analytic_p(scores)
    assert 0 < p[1, 0] < 1e-20


def exact_p(d: FloatArray) -> float:
    """All 2^n sign flips of integers, those that equal the observed sum counting half."""
    flips = np.array(list(product([-1, 1], repeat=len(d)))) @ d
    return float(((flips > d.sum()) + 0.5 * (flips == d.sum())).mean())


@pytest.mark.parametrize("unit", [1.0, 0.1, 1 / 3])
@pytest.mark.parametrize("holes", [False, True])
def test_permutation_is_the_exact_test(unit: float, holes: bool) -> None:
    """Integers have many ties; in other units the same ties are blurred by rounding and must still be seen."""
    whole = np.random.default_rng(4).integers(-3, 4, (10, 4)).astype(np.float64)
    if holes:
        whole[[0, 3, 7], [0, 1, 1]] = np.nan
    many = 20_000
    p = permutation_p(whole * unit, many, seed=5)
    for a, b in combinations(range(4), 2):
        d = whole[:, a] - whole[:, b]
        exact = exact_p(d[~np.isnan(d)])
        spread = np.sqrt(exact * (1 - exact) / many)
        assert abs(p[a, b] - exact) < 4 * spread + 1 / many


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_permutation_and_analytic_agree_on_many_items(holes: float) -> None:
    scores = table(6, items=400, holes=holes)
    difference = permutation_p(scores, 20_000, 7) - analytic_p(scores)
    assert np.abs(difference).max() < 4 * 0.5 / np.sqrt(20_000) + 0.003


def test_permutation_p_counts_the_observed_one() -> None:
    scores = np.array([[1.0, 0.0]] * 30)
    p = permutation_p(scores, 99, 0)
    assert p[0, 1] == pytest.approx(0.01)
    assert p[1, 0] == pytest.approx(1.0)
    assert permutation_p(table(0), 99, 0) + permutation_p(table(0), 99, 0).T == pytest.approx(
        np.where(np.eye(5) > 0, 1.0, 101 / 100)
    )


def test_permutation_p_is_uniform_under_the_null() -> None:
    rng = np.random.default_rng(8)
    p = np.array([permutation_p(rng.normal(size=(25, 2)), 199, rng)[0, 1] for _ in range(1500)])
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert abs((p <= 0.05).mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 1500)


def test_same_seed_same_p_values() -> None:
    scores = table(9)
    assert np.array_equal(permutation_p(scores, 50, 1), permutation_p(scores, 50, np.random.default_rng(1)))
    assert not np.array_equal(permutation_p(scores, 50, 1), permutation_p(scores, 50, 2))


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_prefix_spa_is_a_loop_over_prefixes(holes: float, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = table(10, holes=holes)
    full = analytic_p(scores)
    expected = [spa(analytic_p(scores[:k]), full) for k in range(1, len(scores) + 1)]
    np.testing.assert_allclose(prefix_spa(scores), expected, atol=1e-9)
    assert prefix_spa(scores)[-1] == pytest.approx(1)
    monkeypatch.setattr(pairwise, "_CHUNK", 70)
    np.testing.assert_allclose(prefix_spa(scores), expected, atol=1e-9)


def test_prefix_spa_against_other_scores() -> None:
    """A selection made on one score, judged on another."""
    scores, other = table(11), analytic_p(table(12))
    expected = [spa(analytic_p(scores[:k]), other) for k in range(1, len(scores) + 1)]
    np.testing.assert_allclose(prefix_spa(scores, other), expected, atol=1e-9)


def subset_spa(scores: FloatArray, subsets: np.ndarray) -> FloatArray:
    return _analytic_scorer(scores)(np.empty(0, dtype=np.int64), subsets)


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_subset_spa_is_a_loop_over_subsets(holes: float) -> None:
    scores, rng = table(13, holes=holes), np.random.default_rng(0)
    subsets = np.array([rng.choice(60, 9, replace=False) for _ in range(20)])
    expected = [spa(analytic_p(scores[subset]), analytic_p(scores)) for subset in subsets]
    np.testing.assert_allclose(subset_spa(scores, subsets), expected, atol=1e-9)


@given(arrays(np.float64, (2, 4, 4), elements=st.floats(0, 1)))
def test_spa_is_a_share(p: FloatArray) -> None:
    assert spa(p[0], p[0]) == 1
    assert 0 <= spa(p[0], p[1]) <= 1
    assert spa(p[0], p[1]) == spa(p[1], p[0])


def test_spa_of_hard_decisions_is_pairwise_accuracy() -> None:
    """With p of 0 and 1, as eq. 17 says: three systems of which one pair swaps."""
    order = np.array([[0.5, 0, 0], [1, 0.5, 0], [1, 1, 0.5]])
    swapped = np.array([[0.5, 1, 0], [0, 0.5, 0], [1, 1, 0.5]])
    assert spa(swapped, order) == pytest.approx(2 / 3)


@pytest.mark.parametrize("start", [None, np.array([7, 3])])
def test_random_search_finds_the_best_of_all_subsets(start: np.ndarray | None) -> None:
    scores = table(14, items=9)
    kept = set() if start is None else set(start.tolist())
    every = np.array([s for s in combinations(range(9), 4) if kept <= set(s)])
    chosen, accuracy = best_random_subset(scores, 4, 3000, 0, start)
    assert accuracy == pytest.approx(subset_spa(scores, every).max())
    assert accuracy == pytest.approx(spa(analytic_p(scores[chosen]), analytic_p(scores)))
    assert len(set(chosen.tolist())) == 4
    assert kept <= set(chosen.tolist())


def test_random_subsets_are_uniform() -> None:
    """With one simulation the best subset is a simple random sample."""
    scores = table(15, items=6)
    rng = np.random.default_rng(0)
    drawn = [tuple(best_random_subset(scores, 2, 1, rng)[0].tolist()) for _ in range(1500)]
    counts = [drawn.count(pair) for pair in combinations(range(6), 2)]
    assert sum(counts) == 1500
    assert stats.chisquare(counts).pvalue > 1e-3
    wide = table(15, items=600)
    items = np.concatenate([best_random_subset(wide, 6, 1, rng)[0] for _ in range(600)])
    assert stats.chisquare(np.bincount(items, minlength=600)).pvalue > 1e-3


def test_more_simulations_are_never_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = table(16)
    found = [best_random_subset(scores, 10, simulations, 3)[1] for simulations in (1, 10, 100, 1000)]
    assert found == sorted(found)
    assert found[0] < found[-1]
    monkeypatch.setattr(subset_search, "_CHUNK", 500)
    assert best_random_subset(scores, 10, 100, 3)[1] == found[2]


def test_permutation_search_judges_by_permutation() -> None:
    scores = table(17, items=30)
    chosen, accuracy = best_random_subset(scores, 8, 20, 0, analytic=False, permutations=300)
    assert accuracy == pytest.approx(spa(analytic_p(scores[chosen]), analytic_p(scores)), abs=0.05)
    assert accuracy > np.median(subset_spa(scores, np.array(list(combinations(range(10), 8)))))


def test_greedy_grows_and_beats_one_draw() -> None:
    scores = table(18, items=200, systems=8)
    chosen, accuracy = greedy_subset(scores, 33, 200, 10, 0)
    assert len(set(chosen.tolist())) == 33
    assert accuracy == pytest.approx(spa(analytic_p(scores[chosen]), analytic_p(scores)))
    assert accuracy > best_random_subset(scores, 33, 200, 0)[1]
    first, _ = greedy_subset(scores, 20, 200, 10, 0)
    assert first.tolist() == chosen[:20].tolist()


def test_all_items_are_the_whole_set() -> None:
    scores = table(19, items=12)
    assert greedy_subset(scores, 12, 5, 5, 0)[1] == pytest.approx(1)
    assert best_random_subset(scores, 12, 1, 0, np.arange(12))[1] == pytest.approx(1)


def test_scores_are_left_alone() -> None:
    scores = table(20, holes=0.1)
    before = scores.copy()
    analytic_p(scores), permutation_p(scores, 9, 0), prefix_spa(scores), greedy_subset(scores, 20, 5, 10, 0)
    np.testing.assert_array_equal(scores, before)


def test_one_system_has_no_accuracy() -> None:
    assert np.isnan(spa(np.full((1, 1), 0.5), np.full((1, 1), 0.5)))
    assert np.isnan(prefix_spa(np.ones((3, 1)))).all()
    with pytest.raises(OptionError, match="2 systems"):
        best_random_subset(np.ones((3, 1)), 2)


def test_bad_arguments() -> None:
    scores = table(0)
    with pytest.raises(OptionError, match="infinite"):
        analytic_p(np.array([[np.inf, 1.0]]))
    with pytest.raises(OptionError, match="1 dimension"):
        pair_differences(np.ones(3))
    with pytest.raises(OptionError, match="`permutations` is 0"):
        permutation_p(scores, 0, 0)
    with pytest.raises(OptionError, match="p_subset"):
        spa(np.ones((2, 2)), np.ones((3, 3)))
    with pytest.raises(OptionError, match="pairs"):
        spa_from_sums(np.ones((1, 3)), np.ones((1, 3)), np.ones((2, 2)))
    with pytest.raises(OptionError, match="`n` is 61"):
        best_random_subset(scores, 61)
    with pytest.raises(OptionError, match="`n` is 1;"):
        best_random_subset(scores, 1, start=np.array([0, 1]))
    with pytest.raises(OptionError, match="start"):
        best_random_subset(scores, 5, start=np.array([1, 1]))
    with pytest.raises(OptionError, match="`simulations` is 0"):
        greedy_subset(scores, 5, 0)
    with pytest.raises(OptionError, match="`step` is 0"):
        greedy_subset(scores, 5, 10, 0)


def test_search_is_twenty_times_faster_than_permuting() -> None:
    """Against the sign-flip test on every subset, which is what the published implementation does."""
    scores = table(21, items=1000, systems=15)

    def seconds(simulations: int, *, analytic: bool) -> float:
        begin = process_time()
        best_random_subset(scores, 100, simulations, 0, analytic=analytic)
        return process_time() - begin

    assert seconds(50, analytic=False) > min(seconds(1000, analytic=True) for _ in range(5))


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ([1, 1, 1], 2 / 8),
        ([2, -2, 0], 1.0),
        ([3, 1, np.nan], 2 / 4),
        ([3, 1, -1], 6 / 8),  # of the sums +-5, +-3, +-3, +-1 those from 3 on
        ([0, np.nan, 0], 1.0),
        ([1e-300, 1e-300, 1e-300], 2 / 8),
    ],
)
def test_flipped_signs_by_hand(values, p):
    assert sign_flip_p(np.array(values, dtype=float)[:, None]).tolist() == [p]


def test_flipped_signs_are_drawn_from_13_values_on():
    """Of 12 ones the exact share is 2 / 2^12; of 13 a sample, in which the observed signs count once."""
    table = np.ones((13, 3))
    table[12, 0], table[9:, 1] = 0.0, -1.0
    p = sign_flip_p(table)
    assert p[0] == 2 / 2**12
    assert p[1] == pytest.approx(stats.binomtest(9, 13).pvalue, abs=0.02)
    assert 1 / 10_001 <= p[2] < 0.002
    assert sign_flip_p(table).tolist() == p.tolist()
    assert sign_flip_p(table, seed=1)[1] != p[1]


def test_neighbours_are_tested_as_in_the_table_of_all_pairs():
    scores = table(4, items=30, systems=4)
    both = neighbour_p(scores)
    expected = [stats.wilcoxon(scores[:, k], scores[:, k + 1], alternative="greater").pvalue for k in range(3)]
    assert both == pytest.approx(expected)
    assert neighbour_p(np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [3.0, 3.0, 0.0]])).tolist() == [0.5, 0.125]


def test_random_samples_of_two_of_four_items():
    scores = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.0], [4.0, 0.0, 2.0], [0.0, 1.0, 5.0]])
    every = [spa(analytic_p(scores[list(rows)]), analytic_p(scores)) for rows in combinations(range(4), 2)]
    found = random_spa(scores, 2, seed=1, error=1e-3)
    assert found.value == pytest.approx(np.mean(every), abs=4e-3)
    assert found.error == pytest.approx(np.std(every) / np.sqrt(found.draws), rel=0.1)
    assert found.error <= 1e-3
    assert random_spa(scores, 2, seed=1, error=1.0).draws == 500
    assert random_spa(scores, 2, seed=1, error=0.0, max_samples=750).draws == 750
    assert random_spa(scores, 4) == pairwise.ExpectedAccuracy(1.0, 0.0, 1)
    assert random_spa(scores, 1).draws >= 500
    for n in (0, 5):
        with pytest.raises(OptionError, match="a number from 1 to 4"):
            random_spa(scores, n)
