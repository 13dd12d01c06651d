"""Tests between metrics: matrix products against metrics that are really swapped, exact p-values, error rates."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import get_args

import numpy as np
import pytest
from scipy import stats

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats import metric_permutations, metric_tests
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import CorrelationLevel, correlate_tables, group_correlations, rank_rows
from aliquot.stats.metric_tests import (
    MetricTests,
    Statistic,
    SwapUnit,
    compare_item_values,
    compare_metrics,
    metric_clusters,
)
from aliquot.stats.pairwise import permutation_p
from aliquot.stats.system_correlation import metric_pairwise_accuracy as pairwise_accuracy
from aliquot.stats.system_correlation import soft_pairwise_accuracy

OFFERED: list[tuple[Statistic, CorrelationLevel]] = [
    ("pearson", "system_means"),
    ("spearman", "system_means"),
    ("pairwise_accuracy", "system_means"),
    ("spa", "system_means"),
    ("pearson", "pooled"),
    ("pearson", "within_system"),
    ("pearson", "within_item"),
    ("spearman", "pooled"),
    ("spearman", "within_system"),
    ("spearman", "within_item"),
]
every_offer = pytest.mark.parametrize(("statistic", "level"), OFFERED)


def problem(
    seed: int = 0, metrics: int = 4, items: int = 12, systems: int = 5, holes: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(items, systems)) + 0.3 * np.arange(systems)
    scores = quality + rng.normal(size=(metrics, items, systems)) * np.linspace(0.3, 2, metrics)[:, None, None]
    human = quality + 0.5 * rng.normal(size=quality.shape)
    human[rng.random(human.shape) < holes] = np.nan
    scores[0][rng.random(human.shape) < holes] = np.nan
    return scores * np.arange(1, metrics + 1)[:, None, None] + 10, human


def observed(statistic: Statistic, level: CorrelationLevel) -> Callable[[FloatArray, FloatArray], float]:
    """The statistic of one metric, from the modules that compute it for itself."""
    if statistic == "spa":
        return lambda metric, human: soft_pairwise_accuracy(metric, human).value
    if statistic == "pairwise_accuracy":
        return lambda metric, human: pairwise_accuracy(metric, human).value
    return lambda metric, human: correlate_tables(metric, human, statistic, level).value


def standardised(
    scores: FloatArray, human: FloatArray, statistic: Statistic, level: CorrelationLevel
) -> tuple[FloatArray, FloatArray]:
    """Common cells, z-scores; for Spearman within items and so on ranks, which Pearson then correlates."""
    missing = np.isnan(scores).any(axis=0) | np.isnan(human)
    scores, human = np.where(missing, np.nan, scores), np.where(missing, np.nan, human)
    if statistic == "spearman" and level != "system_means":

        def ranked(table: FloatArray) -> FloatArray:
            if level == "pooled":
                return rank_rows(table.reshape(1, -1)).reshape(table.shape)
            ranks = rank_rows(table if level == "within_item" else table.T)
            n = (~np.isnan(ranks)).sum(axis=1, keepdims=True)
            ranks = (ranks - (n + 1) / 2) / n
            return np.asarray(ranks if level == "within_item" else ranks.T)

        return np.stack([ranked(metric) for metric in scores]), ranked(human)
    mean, sd = np.nanmean(scores, axis=(1, 2), keepdims=True), np.nanstd(scores, axis=(1, 2), keepdims=True)
    return (scores - mean) / sd, human


def swapped_difference(
    scores: FloatArray, human: FloatArray, signs: FloatArray, statistic: Statistic, level: CorrelationLevel
) -> FloatArray:
    """T(A') - T(B') for every pair of metrics, by swapping and computing anew."""
    scores, human = standardised(scores, human, statistic, level)
    plain: Statistic = "pearson" if level != "system_means" else statistic
    compute = observed(plain, level)
    result = []
    for a, b in combinations(range(len(scores)), 2):
        first, second = np.where(signs > 0, scores[a], scores[b]), np.where(signs > 0, scores[b], scores[a])
        result.append(compute(first, human) - compute(second, human))
    return np.array(result)


@every_offer
@pytest.mark.parametrize("holes", [0.0, 0.15])
def test_observed_values_are_those_of_the_plain_functions(
    statistic: Statistic, level: CorrelationLevel, holes: float
) -> None:
    scores, human = problem(1, holes=holes)
    tests = compare_metrics(scores, human, statistic, level, permutations=1)
    missing = np.isnan(scores).any(axis=0) | np.isnan(human)
    expected = [observed(statistic, level)(np.where(missing, np.nan, metric), human) for metric in scores]
    np.testing.assert_allclose(tests.values, expected, atol=1e-9)
    assert tests.cells == (~missing).sum()
    assert (tests.items, tests.systems) == ((~missing).any(axis=1).sum(), (~missing).any(axis=0).sum())


@every_offer
@pytest.mark.parametrize("holes", [0.0, 0.15])
@pytest.mark.parametrize("swap", get_args(SwapUnit))
def test_matrix_products_are_swaps(
    statistic: Statistic, level: CorrelationLevel, swap: SwapUnit, holes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """b of every pair, from metrics that were really swapped."""
    scores, human = problem(2, holes=holes)
    permutations = 12
    signs = next(metric_tests._draw_signs(swap, human.shape, permutations, np.random.default_rng(3)))
    real = swapped_difference(scores, human, np.ones(human.shape), statistic, level)
    excess = np.array([swapped_difference(scores, human, sign, statistic, level) for sign in signs]) - real
    exceeding = (excess > 1e-9).sum(axis=0) + 0.5 * (np.abs(excess) <= 1e-9).sum(axis=0)
    monkeypatch.setattr(metric_permutations, "_CHUNK", 200)
    monkeypatch.setattr(metric_permutations, "_CACHE_CHUNK", 200)
    tests = compare_metrics(scores, human, statistic, level, swap=swap, permutations=permutations, seed=3)
    first, second = np.triu_indices(len(scores), 1)
    np.testing.assert_allclose(tests.p[first, second], (exceeding + 1) / (permutations + 1))
    np.testing.assert_allclose(tests.p[second, first], (permutations - exceeding + 1) / (permutations + 1))


@pytest.mark.parametrize("swap", ["both", "cells"])
def test_p_is_near_the_exact_one(swap: SwapUnit) -> None:
    """All swaps of three items and three systems."""
    scores, human = problem(4, 2, 3, 3)
    if swap == "cells":
        every = [np.array(signs).reshape(3, 3) for signs in product([1.0, -1.0], repeat=9)]
    else:
        every = [np.outer(u, v) for u in product([1.0, -1.0], repeat=3) for v in product([1.0, -1.0], repeat=3)]
    real = swapped_difference(scores, human, np.ones((3, 3)), "pearson", "pooled")[0]
    excess = np.array([swapped_difference(scores, human, signs, "pearson", "pooled")[0] - real for signs in every])
    exact = (excess > 1e-9).mean() + 0.5 * (np.abs(excess) <= 1e-9).mean()
    many = 20_000
    p = compare_metrics(scores, human, "pearson", "pooled", swap=swap, permutations=many).p[0, 1]
    assert abs(p - exact) < 4 * np.sqrt(exact * (1 - exact) / many) + 1 / many


def every_swap(items: int, systems: int) -> FloatArray:
    """Each swap of whole items and whole systems once; a system changes places if exactly one of the two says so."""
    return np.array(
        [
            np.outer(of_items, of_systems)
            for of_items in product([1.0, -1.0], repeat=items)
            for of_systems in product([1.0, -1.0], repeat=systems)
        ]
    )


def test_perm_both_of_correlations_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """People 1 2 3, A 1 2 3 and B 1 3 2 (on another scale, which standardising takes away): r 1 and 0.5, lead 0.5.

    The first system has the same score from both. Swapping neither of the others leaves the lead at 0.5, the second
    makes 1 3 3 and 1 2 2, r sqrt(3) / 2 each, lead 0; the third likewise; both turn it round to -0.5. Of sixteen swaps
    (two of the item times eight of the systems) four equal the lead, each counts half: b = 2, p = 3 / 17 and 15 / 17.
    """
    monkeypatch.setattr(metric_tests, "_draw_signs", lambda *_: iter([every_swap(1, 3)]))
    metrics = np.array([[[1.0, 2.0, 3.0]], [[15.0, 35.0, 25.0]]])
    for level in ("system_means", "pooled"):
        tests = compare_metrics(metrics, np.array([[1.0, 2.0, 3.0]]), "pearson", level, permutations=16)
        np.testing.assert_allclose(tests.values, [1.0, 0.5], atol=1e-12)
        np.testing.assert_allclose([tests.p[0, 1], tests.p[1, 0]], [3 / 17, 15 / 17], atol=1e-12)


def test_perm_both_counts_leads_that_are_larger_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """People rank 1 2 3; A ranks 2 1 3, right in 2 of 3 pairs; B ranks 2 3 1, right in 1 of 3. The lead is 1/3.

    Scores are -1, 0, 1 for both. Swapping the first system changes nothing. Second: A' = 0 1 1, right in 2 pairs and
    half of one, B' = 0 0 -1, half of one: lead 2/3. Third: A' = 0 -1 -1, half; B' = 0 1 1, two and a half: -2/3.
    Both: -1/3. In sixteen swaps each comes four times: b = 4 + 4 / 2 = 6, p = 7 / 17, and 11 / 17 the other way.
    """
    monkeypatch.setattr(metric_tests, "_draw_signs", lambda *_: iter([every_swap(1, 3)]))
    metrics = np.array([[[0.0, -1.0, 1.0]], [[0.0, 1.0, -1.0]]])
    tests = compare_metrics(metrics, np.array([[1.0, 2.0, 3.0]]), "pairwise_accuracy", permutations=16)
    np.testing.assert_allclose(tests.values, [2 / 3, 1 / 3], atol=1e-12)
    np.testing.assert_allclose([tests.p[0, 1], tests.p[1, 0]], [7 / 17, 11 / 17], atol=1e-12)
    # No swap and that of the second system alone: one lead is equal, one larger, b = 1.5.
    two = np.array([[[1.0, 1.0, 1.0]], [[1.0, -1.0, 1.0]]])
    monkeypatch.setattr(metric_tests, "_draw_signs", lambda *_: iter([two]))
    tests = compare_metrics(metrics, np.array([[1.0, 2.0, 3.0]]), "pairwise_accuracy", permutations=2)
    np.testing.assert_allclose([tests.p[0, 1], tests.p[1, 0]], [2.5 / 3, 1.5 / 3], atol=1e-12)


def test_a_tie_of_the_metric_is_half_right_by_hand() -> None:
    """People 1 2 3: scores 0 0 1 tie one pair and order two, 0 1 2 order all three."""
    metrics = np.array([[[0.0, 0.0, 1.0]], [[0.0, 1.0, 2.0]]])
    tests = compare_metrics(metrics, np.array([[1.0, 2.0, 3.0]]), "pairwise_accuracy", permutations=1)
    np.testing.assert_allclose(tests.values, [2.5 / 3, 1.0], atol=1e-12)


@pytest.mark.parametrize("swap", get_args(SwapUnit))
def test_what_a_swap_exchanges_by_hand(swap: SwapUnit) -> None:
    """Two items and two systems, 600 swaps (three blocks): which tables of signs can come, and each as often."""
    drawn = np.concatenate(list(metric_tests._draw_signs(swap, (2, 2), 600, np.random.default_rng(5))))
    assert drawn.shape == (600, 2, 2)
    tables, counts = np.unique(drawn.reshape(600, 4), axis=0, return_counts=True)
    possible = {
        "cells": set(product([-1.0, 1.0], repeat=4)),
        "items": {(s, s, t, t) for s in (-1.0, 1.0) for t in (-1.0, 1.0)},
        "systems": {(s, t, s, t) for s in (-1.0, 1.0) for t in (-1.0, 1.0)},
        # the product of the corners is that of the other two: only whole rows and columns are exchanged
        "both": {t for t in product([-1.0, 1.0], repeat=4) if t[0] * t[3] == t[1] * t[2]},
    }[swap]
    assert {tuple(table) for table in tables.tolist()} == possible
    assert (np.abs(counts - 600 / len(possible)) < 5 * np.sqrt(600 / len(possible))).all()


def exchangeable(rng: np.random.Generator, systems: int = 6) -> tuple[FloatArray, FloatArray]:
    """Two metrics of the same quality, each with its own noise."""
    quality = rng.normal(size=(25, systems)) + 0.3 * np.arange(systems)
    return quality + rng.normal(size=(2, 25, systems)), quality + rng.normal(size=quality.shape)


@pytest.mark.parametrize(
    ("statistic", "level", "swap"),
    [
        ("pearson", "system_means", "both"),
        ("spa", "system_means", "both"),
        ("pearson", "pooled", "both"),
        ("pearson", "pooled", "cells"),
        ("pearson", "within_item", "both"),
    ],
)
def test_p_is_uniform_between_exchangeable_metrics(
    statistic: Statistic, level: CorrelationLevel, swap: SwapUnit
) -> None:
    rng, many = np.random.default_rng(5), 250
    p = np.array(
        [
            compare_metrics(*exchangeable(rng), statistic, level, swap=swap, permutations=99, seed=rng).p[0, 1]
            for _ in range(many)
        ]
    )
    # p takes the values 1/100 .. 1, each with probability 1/100 or so.
    assert stats.kstest(p - 0.005, "uniform").pvalue > 1e-3
    assert abs((p <= 0.05).mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / many)
    assert abs((p > 0.95).mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / many)


def test_system_likes_need_swaps_of_systems() -> None:
    """What the documentation warns of: metrics that favour systems, equally good, and every swap but "systems"."""

    def rate(swap: SwapUnit) -> float:
        rng = np.random.default_rng(6)
        found = []
        for _ in range(150):
            scores, human = exchangeable(rng, 8)
            scores = scores + rng.normal(size=(2, 1, 8))
            found.append(
                compare_metrics(scores, human, "pearson", "system_means", swap=swap, permutations=99, seed=rng).p[0, 1]
            )
        return float((np.array(found) <= 0.05).mean())

    assert rate("systems") < 0.15
    assert rate("both") > 0.25


def test_a_better_metric_is_found() -> None:
    scores, human = problem(7, items=80)
    for statistic, level in OFFERED:
        tests = compare_metrics(scores, human, statistic, level, permutations=199)
        assert tests.values[0] >= tests.values[-1]
        if level != "system_means":
            assert tests.p[0, -1] < 0.05
            assert tests.p[-1, 0] > 0.95


def test_same_seed_same_result_and_order_of_metrics_does_not_matter() -> None:
    scores, human = problem(8)
    one = compare_metrics(scores, human, "pearson", "pooled", permutations=300, seed=1)
    again = compare_metrics(scores, human, "pearson", "pooled", permutations=300, seed=np.random.default_rng(1))
    assert np.array_equal(one.p, again.p)
    assert not np.array_equal(one.p, compare_metrics(scores, human, "pearson", "pooled", permutations=300, seed=2).p)
    turned = compare_metrics(scores[::-1], human, "pearson", "pooled", permutations=300, seed=1)
    np.testing.assert_allclose(turned.values[::-1], one.values, atol=1e-12)
    # Swapping A with B is swapping B with A, only that A' and B' change names.
    np.testing.assert_allclose(turned.p[::-1, ::-1], one.p, atol=1e-12)


def test_scale_and_offset_of_a_metric_do_not_matter() -> None:
    scores, human = problem(9)
    moved = scores * np.array([1.0, 100.0, 0.01, 3.0])[:, None, None] + 1000
    for statistic, level in OFFERED:
        one, other = (compare_metrics(x, human, statistic, level, permutations=50) for x in (scores, moved))
        np.testing.assert_allclose(one.p, other.p)


def test_equal_metrics_and_constant_ones() -> None:
    scores, human = problem(10, 4)
    scores[1], scores[3] = 2 * scores[0] + 1, 0.1
    for statistic, level in OFFERED:
        tests = compare_metrics(scores, human, statistic, level, permutations=99)
        assert tests.p[0, 1] == tests.p[1, 0] == pytest.approx(0.505)
        if statistic in {"pearson", "spearman"}:
            assert np.isnan(tests.values[3])
            assert np.isnan(tests.p[3, :3]).all()
            assert metric_clusters(tests)[3] == metric_clusters(tests).max()
        else:
            assert 0 <= tests.values[3] <= 1


def test_nothing_in_common() -> None:
    scores, human = problem(11, 2)
    scores[0, :6], human[6:] = np.nan, np.nan
    tests = compare_metrics(scores, human)
    assert tests.cells == 0
    assert np.isnan(tests.values).all()
    assert np.isnan(tests.p).all()


def test_one_system_and_constant_people() -> None:
    scores, human = problem(12, 2, systems=1)
    assert np.isnan(compare_metrics(scores, human, "pearson", "system_means", permutations=9).values).all()
    assert np.isnan(compare_metrics(scores, human, "spa", "system_means", permutations=9).values).all()
    scores, human = problem(12, 2)
    for statistic, level in OFFERED:
        values = compare_metrics(scores, np.full_like(human, 1 / 3), statistic, level, permutations=9).values
        assert np.isnan(values).all() == (statistic != "spa")


def test_item_values_are_a_sign_flip_test() -> None:
    scores, human = problem(13, items=60, holes=0.1)
    values = np.column_stack([group_correlations(metric, human, "kendall_b", "item") for metric in scores])
    values[:, 3] = np.nan
    tests = compare_item_values(values, 500, seed=1)
    assert np.array_equal(tests.p[:3, :3], permutation_p(values[:, :3], 500, 1))
    assert tests.values[:3] == pytest.approx(np.nanmean(values[:, :3], axis=0))
    assert np.isnan(tests.values[3])
    assert np.isnan(tests.p[3]).all()
    assert tests.swap == "items"


def test_clusters() -> None:
    p = np.array([[0.5, 0.2, 0.01, 0.01], [0.8, 0.5, 0.2, 0.01], [0.99, 0.8, 0.5, 0.3], [0.99, 0.99, 0.7, 0.5]])
    tests = MetricTests(np.array([0.9, 0.8, 0.7, 0.6]), p, 100, 20, 5, 999, "both")
    assert metric_clusters(tests).tolist() == [1, 1, 2, 2]
    assert metric_clusters(tests, rule="neighbour").tolist() == [1, 1, 1, 1]
    assert metric_clusters(tests, alpha=0.25).tolist() == [1, 2, 3, 3]
    with pytest.raises(OptionError, match=r"`alpha` is 0\.5"):
        metric_clusters(tests, 0.5)


def test_scores_are_left_alone() -> None:
    scores, human = problem(14, holes=0.1)
    before = scores.copy(), human.copy()
    for statistic, level in OFFERED:
        compare_metrics(scores, human, statistic, level, permutations=3)
    np.testing.assert_array_equal(scores, before[0])
    np.testing.assert_array_equal(human, before[1])


def test_bad_arguments() -> None:
    scores, human = problem()
    with pytest.raises(OptionError, match="`permutations` is 0"):
        compare_metrics(scores, human, permutations=0)
    with pytest.raises(OptionError, match="give metrics x items x systems"):
        compare_metrics(scores[0], human)
    with pytest.raises(OptionError, match="there are 1 metrics"):
        compare_metrics(scores[:1], human)
    with pytest.raises(OptionError, match="infinite"):
        compare_metrics(scores, human * np.inf)
    with pytest.raises(OptionError, match="'spa' compares systems"):
        compare_metrics(scores, human, "spa", "pooled")
    with pytest.raises(NameUnknownError, match="`statistic` is 'SPA'; did you mean 'spa'"):
        compare_metrics(scores, human, "SPA")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="`level` is 'item'"):
        compare_metrics(scores, human, "pearson", "item")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="`swap` is 'rows'"):
        compare_metrics(scores, human, swap="rows")  # type: ignore[arg-type]


def test_means_of_item_values_by_hand() -> None:
    """One value is a mean, too; without any the metric is undefined in every comparison."""
    nan = float("nan")
    tests = compare_item_values(np.array([[1.0, nan, nan], [0.5, 0.25, nan], [nan, nan, nan]]), 50)
    np.testing.assert_allclose(tests.values, [0.75, 0.25, nan])
    assert np.isnan(tests.p[2]).all()
    assert np.isnan(tests.p[:, 2]).all()
    assert np.isfinite(tests.p[:2, :2]).all()
    assert (tests.cells, tests.items, tests.systems) == (3, 2, 0)
