"""`aliquot.meta`: single comparisons of a subset with the whole, from tables, sets and selections."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import aliquot
from aliquot import EvalSet, meta
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.stats.pairwise import analytic_p, permutation_p, wilcoxon_p

RNG = np.random.default_rng(8)
FULL = RNG.normal(size=(80, 6)) - 0.25 * np.arange(6)
PART = FULL[:25]
PAIRS = np.triu_indices(6, 1)
SIMPLE = ("accuracy", "pearson", "spearman", "kendall", "top1_rank", "swaps", "mae", "rmse", "spa", "top_dice")


@pytest.fixture(scope="module")
def data() -> EvalSet:
    return aliquot.synthetic(items=90, systems=5, seed=4, annotators=0)


def test_soft_pairwise_accuracy():
    expected = 1 - np.abs(analytic_p(PART) - analytic_p(FULL))[PAIRS].mean()
    assert meta.spa(PART, FULL) == pytest.approx(expected)
    flipped = 1 - np.abs(permutation_p(PART, seed=3) - permutation_p(FULL, seed=3))[PAIRS].mean()
    assert meta.spa(PART, FULL, test="permutation", seed=3) == pytest.approx(flipped)
    assert meta.spa(PART, FULL, test="permutation", seed=3) == pytest.approx(expected, abs=0.02)


def test_the_curve_is_the_accuracy_of_every_prefix():
    curve = meta.spa_curve(FULL)
    assert len(curve) == len(FULL)
    np.testing.assert_allclose(curve[[1, 24, 79]], [meta.spa(FULL[:n], FULL) for n in (2, 25, 80)])
    np.testing.assert_allclose(meta.spa_curve(PART, FULL)[-1], meta.spa(PART, FULL))


@pytest.mark.parametrize(
    ("name", "theirs"), [("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)]
)
def test_correlations(name, theirs):
    expected = theirs(PART.mean(axis=0), FULL.mean(axis=0)).statistic
    assert getattr(meta, name)(PART, FULL) == pytest.approx(expected)


def test_errors_and_order():
    some, everything = PART.mean(axis=0), FULL.mean(axis=0)
    assert meta.mae(PART, FULL) == pytest.approx(np.abs(some - everything).mean())
    assert meta.rmse(PART, FULL) == pytest.approx(np.sqrt(((some - everything) ** 2).mean()))
    swaps = sum((some[a] - some[b]) * (everything[a] - everything[b]) < 0 for a, b in zip(*PAIRS, strict=True))
    assert meta.swaps(PART, FULL) == swaps
    assert meta.accuracy(PART, FULL) == pytest.approx(1 - swaps / 15)
    assert meta.top1_rank(PART, FULL) == 1 + (everything > everything[some.argmax()]).sum()


def test_clusters_by_every_test():
    worse = np.array([[4.0, 3.9, 0.0]]) + RNG.normal(scale=0.3, size=(40, 3))
    for test in ("analytic", "permutation", "wilcoxon"):
        numbers = meta.clusters(worse, test=test)
        assert numbers[2] == numbers.max() == numbers[:2].max() + 1
    assert meta.clusters(worse, test="wilcoxon", rule="neighbour", alpha=1e-9).max() <= 2
    assert wilcoxon_p(worse)[0, 2] < 1e-5
    with pytest.raises(NameUnknownError, match="`test` is 'sign'"):
        meta.clusters(worse, test="sign")
    with pytest.raises(NameUnknownError, match="unknown rule 'best'"):
        meta.clusters(worse, rule="best")


@pytest.mark.parametrize("name", SIMPLE)
def test_a_selection_a_set_and_a_table_say_the_same(name, data):
    chosen = aliquot.select(data, "segments", budget=20, seed=2)
    rows = [data.ids.index(item) for item in chosen.ids]
    measure = getattr(meta, name)
    table = measure(data.human_score()[rows], data.human_score())
    assert measure(chosen, data) == pytest.approx(table)
    assert measure(data.keep(items=list(chosen.ids)), data) == pytest.approx(table)


@pytest.mark.parametrize("name", SIMPLE)
def test_the_whole_agrees_with_itself(name, data):
    best = {"swaps": 0.0, "mae": 0.0, "rmse": 0.0}.get(name, 1.0)
    assert getattr(meta, name)(data, data) == pytest.approx(best)


def test_another_score_may_be_the_human_one(data):
    some = data.keep(items=data.ids[:30])
    expected = np.abs(some.scores["metricA"].mean(axis=0) - data.scores["metricA"].mean(axis=0)).mean()
    assert meta.mae(some, data, human="metricA") == pytest.approx(expected)
    with pytest.raises(NameUnknownError, match="unknown score 'metricZ'"):
        meta.mae(some, data, human="metricZ")


def test_missing_scores_are_left_out():
    holes = PART.copy()
    holes[::3, 2] = np.nan
    expected = np.abs(np.nanmean(holes, axis=0) - FULL.mean(axis=0)).mean()
    assert meta.mae(holes, FULL) == pytest.approx(expected)
    holes[:, 2] = np.nan
    for name in ("mae", "accuracy", "swaps", "kendall", "top1_rank"):
        assert np.isnan(getattr(meta, name)(holes, FULL)), name


def test_parity_of_an_ordering():
    curve = meta.spa_curve(FULL)
    targets, shares = [0.8, 0.9], [0.1, 0.3]
    first = [(np.flatnonzero(curve >= target)[0] + 1) / len(FULL) for target in targets]
    assert meta.parity(FULL, FULL, targets, shares) == pytest.approx(np.mean(np.array(first) / shares))
    assert meta.parity(FULL[:10], FULL, [1.0], [0.5]) == np.inf
    with pytest.raises(OptionError, match="2 targets for 1 shares"):
        meta.parity(FULL, FULL, [0.8, 0.9], [0.1])
    with pytest.raises(OptionError, match="at most 1"):
        meta.parity(FULL, FULL, [0.8], [5])


def test_what_does_not_fit_is_said(data):
    with pytest.raises(DataError, match="6 systems and the whole 5"):
        meta.mae(PART, data)
    with pytest.raises(DataError, match="different systems"):
        meta.mae(data.rename(systems={"sys1": "other"}), data)
    with pytest.raises(DataError, match=r"shape \(3,\)"):
        meta.mae(np.ones(3), np.ones((3, 2)))
    with pytest.raises(DataError, match="at least one item"):
        meta.mae(np.ones((0, 6)), FULL)
    with pytest.raises(DataError, match="give an EvalSet, a Selection"):
        meta.mae(["item1", "item2"], data)  # type: ignore[list-item]
    chosen = aliquot.select(data, "segments", budget=20)
    with pytest.raises(OptionError, match="give them as `full`"):
        meta.spa_curve(chosen)
    with pytest.raises(DataError, match="not in the data"):
        meta.spa(chosen, data.drop(items=list(chosen.ids[:1])))
    with pytest.raises(NameUnknownError, match="unknown test 'exact'"):
        meta.spa(PART, FULL, test="exact")
    with pytest.raises(NameUnknownError, match="name the human score"):
        meta.mae(data.with_human(None), data.with_human(None))


def test_every_function_is_listed():
    public = {name for name in vars(meta) if not name.startswith("_") and callable(getattr(meta, name))}
    own = {name for name in public if getattr(getattr(meta, name), "__module__", "") == "aliquot.meta"}
    assert own == set(meta.__all__)
