"""Every measure of a judged subset against the truth: by scipy, by sets, by loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from aliquot import meta
from aliquot.compat import evaluate
from aliquot.errors import NameUnknownError, OptionError
from aliquot.metric_eval.measures import (
    MEASURES,
    Outcomes,
    Truth,
    cluster_by_p,
    compute_p_values,
    compute_truth,
    select_measures,
)
from aliquot.stats.pairwise import permutation_p

SYSTEMS = 5


def make(replays: int = 12, seed: int = 3) -> tuple[Outcomes, Truth, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(60, SYSTEMS)) + 0.3 * np.arange(SYSTEMS)
    samples = [scores[rng.choice(60, 20, replace=False)] for _ in range(replays)]
    means = np.array([sample.mean(axis=0) for sample in samples])
    half = np.array([1.9 * sample.std(axis=0, ddof=1) / np.sqrt(20) for sample in samples])
    own = np.array([compute_p_values(sample) for sample in samples])
    surer = own**2 / (own**2 + (1 - own) ** 2)
    clusters = np.array([cluster_by_p(m, p) for m, p in zip(means, own, strict=True)])
    return (
        Outcomes(means, half, own, surer, clusters, rng.random(replays), tuple(samples)),
        compute_truth(scores),
        scores,
    )


OUTCOMES, TRUTH, SCORES = make()


def measured(name: str, outcomes: Outcomes = OUTCOMES, truth: Truth = TRUTH) -> np.ndarray:
    return MEASURES[name].function(outcomes, truth)


def pairs() -> list[tuple[int, int]]:
    return list(combinations(range(SYSTEMS), 2))


def test_truth_is_means_and_p_values_of_all_items():
    np.testing.assert_allclose(TRUTH.means, SCORES.mean(axis=0))
    d = SCORES[:, 0] - SCORES[:, 3]
    assert TRUTH.p[0, 3] == pytest.approx(stats.norm.sf(d.sum() / np.sqrt((d**2).sum())))
    by_flips = compute_truth(SCORES, "permutation", seed=4)
    np.testing.assert_array_equal(by_flips.p, permutation_p(SCORES, seed=4))
    assert np.abs(by_flips.p - TRUTH.p).max() < 0.05
    with pytest.raises(NameUnknownError, match="unknown test 't'"):
        compute_p_values(SCORES, "t")


@pytest.mark.parametrize(("name", "field"), [("spa", "p"), ("spa_full", "p_full")])
def test_soft_pairwise_accuracy(name, field):
    tables = getattr(OUTCOMES, field)
    by_hand = [1 - np.mean([abs(p[a, b] - TRUTH.p[a, b]) for a, b in pairs()]) for p in tables]
    np.testing.assert_allclose(measured(name), by_hand)
    assert not np.allclose(measured("spa"), measured("spa_full"))


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)],
)
def test_correlations_of_means(name, theirs):
    by_scipy = [theirs(row, TRUTH.means).statistic for row in OUTCOMES.means]
    np.testing.assert_allclose(measured(name), by_scipy, atol=1e-12)


def test_order_of_systems():
    swaps = [
        sum((row[a] - row[b]) * (TRUTH.means[a] - TRUTH.means[b]) < 0 for a, b in pairs()) for row in OUTCOMES.means
    ]
    np.testing.assert_array_equal(measured("swaps"), swaps)
    np.testing.assert_array_equal(measured("changed"), np.array(swaps) > 0)
    np.testing.assert_allclose(measured("accuracy"), 1 - np.array(swaps) / len(pairs()))
    assert 0 < np.sum(measured("changed")) < len(swaps)


def test_the_best_system():
    ranks = [1 + int((TRUTH.means > TRUTH.means[row.argmax()]).sum()) for row in OUTCOMES.means]
    np.testing.assert_array_equal(measured("top1_rank"), ranks)
    np.testing.assert_array_equal(measured("top1"), np.array(ranks) == 1)


def test_clusters():
    found = [cluster_by_p(m, p) for m, p in zip(OUTCOMES.means, OUTCOMES.p, strict=True)]
    np.testing.assert_array_equal(measured("clusters"), [c.max() for c in found])
    best = {int(at) for at in np.flatnonzero(TRUTH.clusters == 1)}
    for numbers, dice in zip(found, measured("top_dice"), strict=True):
        ours = {int(at) for at in np.flatnonzero(numbers == 1)}
        assert dice == pytest.approx(2 * len(ours & best) / (len(ours) + len(best)))
    with pytest.raises(NameUnknownError, match="unknown rule 'all'"):
        cluster_by_p(TRUTH.means, TRUTH.p, rule="all")


def algorithm_1(scores: np.ndarray) -> list[list[int]]:
    """Zouhar et al. 2025, Algorithm 1, line by line, with scipy's test."""
    ranked = sorted(range(scores.shape[1]), key=lambda system: -scores[:, system].mean())
    found = [[ranked[0]]]
    for system in ranked[1:]:
        if stats.wilcoxon(scores[:, found[-1][-1]], scores[:, system], alternative="greater").pvalue < 0.05:
            found.append([system])
        else:
            found[-1].append(system)
    return found


def test_published_clusters():
    """Line by line, by `aliquot.meta`, and by subset2evaluate; ours are others."""
    by_hand = [algorithm_1(sample) for sample in OUTCOMES.scores]
    np.testing.assert_array_equal(measured("clusters_published"), [len(found) for found in by_hand])
    best = set(algorithm_1(SCORES)[0])
    dice = [2 * len(best & set(found[0])) / (len(best) + len(found[0])) for found in by_hand]
    np.testing.assert_allclose(measured("top_dice_published"), dice)
    for sample, found in zip(OUTCOMES.scores, by_hand, strict=True):
        numbers = meta.clusters(sample, test="wilcoxon", rule="neighbour")
        assert [{int(at) for at in np.flatnonzero(numbers == k + 1)} for k in range(len(found))] == list(
            map(set, found)
        )
        items = [{"scores": {str(at): {"human": value} for at, value in enumerate(row)}} for row in sample.tolist()]
        assert evaluate.compute_clusters(items) == [[str(system) for system in group] for group in found]
        assert meta.top_dice(sample, SCORES, test="wilcoxon", rule="neighbour") in dice
    assert len({len(found) for found in by_hand}) > 1
    assert measured("clusters").mean() != measured("clusters_published").mean()


def test_published_top_1():
    """subset2evaluate's number, from 1 for the best system to 0 for the last; and the plain match of `aliquot.meta`."""
    old = [{"scores": {str(at): {"human": value} for at, value in enumerate(row)}} for row in SCORES.tolist()]
    for at, sample in enumerate(OUTCOMES.scores):
        new = [{"scores": {str(at): {"human": value} for at, value in enumerate(row)}} for row in sample.tolist()]
        assert measured("top1_published")[at] == pytest.approx(evaluate.eval_subset_top(new, old))
        assert meta.top1(sample, SCORES) == measured("top1")[at]


def test_errors_of_means_and_intervals():
    off = OUTCOMES.means - TRUTH.means
    np.testing.assert_allclose(measured("mae"), [np.mean(np.abs(row)) for row in off])
    np.testing.assert_allclose(measured("rmse"), [np.sqrt(np.mean(row**2)) for row in off])
    inside = (OUTCOMES.means - OUTCOMES.half <= TRUTH.means) & (OUTCOMES.means + OUTCOMES.half >= TRUTH.means)
    np.testing.assert_allclose(measured("coverage"), inside.mean(axis=1))
    np.testing.assert_allclose(measured("width"), [(2 * row).mean() for row in OUTCOMES.half])
    np.testing.assert_allclose(measured("slack"), (OUTCOMES.half - np.abs(off)).mean(axis=1))
    np.testing.assert_array_equal(measured("cost"), OUTCOMES.cost)


def test_intervals_that_were_not_given_are_not_misses():
    half = OUTCOMES.half.copy()
    half[0] = np.nan
    half[1, 0] = np.nan
    outcomes = replace(OUTCOMES, half=half)
    coverage, width = measured("coverage", outcomes), measured("width", outcomes)
    assert np.isnan(coverage[0])
    assert np.isnan(width[0])
    inside = np.abs(OUTCOMES.means[1, 1:] - TRUTH.means[1:]) <= half[1, 1:]
    assert coverage[1] == pytest.approx(inside.mean())
    assert width[1] == pytest.approx(2 * half[1, 1:].mean())


def test_a_system_without_an_estimate_leaves_nothing_to_say():
    means = OUTCOMES.means.copy()
    means[0, 2] = np.nan
    outcomes = replace(OUTCOMES, means=means)
    for name in ("accuracy", "pearson", "spearman", "kendall", "top1", "top1_rank", "swaps", "changed", "mae", "rmse"):
        found = measured(name, outcomes)
        assert np.isnan(found[0]), name
        assert np.isfinite(found[1:]).all(), name


def test_the_truth_agrees_with_itself():
    p = TRUTH.p[None]
    same = Outcomes(TRUTH.means[None], np.zeros((1, SYSTEMS)), p, p, TRUTH.clusters[None], np.ones(1), (SCORES,))
    best = {name: measured(name, same)[0] for name, measure in MEASURES.items() if not measure.watched}
    ones = (
        "spa",
        "spa_full",
        "accuracy",
        "pearson",
        "spearman",
        "kendall",
        "weighted_tau",
        "top1",
        "top1_rank",
        "top3",
        "top_dice",
        "top_dice_published",
        "top1_published",
        "coverage",
        "cost",
    )
    expected = dict.fromkeys(ones, 1.0)
    expected |= dict.fromkeys(("mae", "rmse", "swaps", "changed", "width", "slack"), 0.0)
    expected["clusters"] = float(TRUTH.clusters.max())
    expected["clusters_published"] = float(len(algorithm_1(SCORES)))
    assert best == pytest.approx(expected)


def test_weighted_tau_counts_the_top_most():
    """Against scipy's definition by hand: a swap at the top costs more than one at the end; ties and NaN are told."""
    truth = Truth(np.array([4.0, 3.0, 2.0, 1.0]), np.full((4, 4), 0.5))
    rows = np.array([[4.0, 3.0, 2.0, 1.0], [3.0, 4.0, 2.0, 1.0], [4.0, 3.0, 1.0, 2.0], [4.0, np.nan, 2.0, 1.0]])
    blank = np.zeros((4, 4, 4))
    outcomes = Outcomes(rows, np.zeros((4, 4)), blank, blank, np.ones((4, 4), dtype=np.int64), np.ones(4))
    same, top, end, unknown = measured("weighted_tau", outcomes, truth)
    assert same == pytest.approx(1.0)
    weights = 1.0 / np.arange(1, 5) ** 2
    total = sum(weights[i] + weights[j] for i in range(4) for j in range(i + 1, 4))
    assert top == pytest.approx(1 - 2 * (weights[0] + weights[1]) / total)
    assert end == pytest.approx(1 - 2 * (weights[2] + weights[3]) / total)
    assert np.isnan(unknown)
    assert measured("top3", outcomes, truth)[:3].tolist() == pytest.approx([1.0, 1.0, 2 / 3])
    assert np.isnan(measured("decided", outcomes, truth)).all()


def test_identical_systems_and_one_system():
    flat = np.repeat(np.random.default_rng(1).normal(size=(30, 1)), 3, axis=1)
    truth, p = compute_truth(flat), compute_p_values(flat[:10])[None]
    outcomes = Outcomes(flat[:10].mean(axis=0)[None], np.ones((1, 3)), p, p, truth.clusters[None], np.ones(1))
    assert measured("spa", outcomes, truth)[0] == 1.0
    assert measured("accuracy", outcomes, truth)[0] == 1.0
    assert measured("swaps", outcomes, truth)[0] == 0.0
    assert measured("clusters", outcomes, truth)[0] == 1.0
    assert measured("top_dice", outcomes, truth)[0] == 1.0
    assert np.isnan(measured("kendall", outcomes, truth)[0])
    lone = compute_truth(flat[:, :1])
    alone = Outcomes(lone.means[None], np.ones((1, 1)), p[:, :1, :1], p[:, :1, :1], lone.clusters[None], np.ones(1))
    assert np.isnan(measured("spa", alone, lone)[0])


def test_measures_are_chosen_by_name():
    assert len(select_measures(None)) == len(MEASURES) - 6 == 20
    assert not any(measure.name.endswith("_published") for measure in select_measures(None))
    assert [m.name for m in select_measures(["mae", "spa", "mae"])] == ["mae", "spa"]
    assert [m.name for m in select_measures("mae, spa")] == ["mae", "spa"]
    assert MEASURES["spa_full"].against == "spa"
    assert MEASURES["mae"].against == "mae"
    with pytest.raises(NameUnknownError, match="did you mean 'mae'"):
        select_measures(["mea"])
    for nothing in ("", ","):
        with pytest.raises(OptionError, match="no measure is named"):
            select_measures(nothing)
    with pytest.raises(OptionError, match="no measure is named"):
        select_measures([])
