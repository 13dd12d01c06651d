"""Copies are no agreement, pass/fail data have honest intervals, equal systems are not told apart (issue 26)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import aliquot
from aliquot.core.judgments import Judgments, merge_repeats
from aliquot.core.registry import Spec
from aliquot.errors import OptionError
from aliquot.estimation.intervals import compute_bounds
from aliquot.estimation.pipeline import Inference, infer_means
from aliquot.estimation.ranking import Rule, rank_systems
from aliquot.estimation.sample import Sample
from aliquot.estimation.scales import Scale, find_scale, scale_of_range
from aliquot.stats.arrays import FloatArray
from aliquot.stats.pairwise import sign_flip_p

# -- copies and repeats ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def single() -> aliquot.EvalSet:
    return aliquot.synthetic(items=60, systems=4, judgments_per_output=1, annotators=5, seed=3)


def with_rows(data: aliquot.EvalSet, rows: pl.DataFrame) -> aliquot.EvalSet:
    assert data.judgments is not None
    return replace(data, judgments=Judgments(pl.concat([data.judgments.table, rows])))


def numbers(result: aliquot.Estimates) -> FloatArray:
    return np.array([[row.estimate, row.se, row.low, row.high] for row in result.systems])


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_copies_and_repeats_of_one_annotator_are_no_agreement(single, shift):
    """Today's code took 20 copies for 20 agreeing annotators, and called differences exact."""
    table = single.judgments.table
    again = with_rows(single, table.head(20).with_columns(pl.col("value") + shift))
    plain, doubled = aliquot.estimate(single), aliquot.estimate(again)
    np.testing.assert_allclose(numbers(doubled)[:, 1], numbers(plain)[:, 1], rtol=0.05)
    word = "copies of judgments" if shift == 0.0 else "repeats by the same annotator"
    assert any(word in note for note in doubled.notes)


def test_embedded_and_separate_judgments_give_the_same(single):
    table = single.judgments.table
    copies = pl.concat([table, table.head(20)])
    bare = replace(single, judgments=None)
    apart = aliquot.estimate(bare, judgments=copies)
    inside = aliquot.estimate(with_rows(single, table.head(20)))
    np.testing.assert_allclose(numbers(apart), numbers(inside), rtol=1e-9)
    assert any(row.what == "copies of judgments" and row.count == 20 for row in apart.details["mismatches"])


def test_few_repeats_that_agree_do_not_prove_that_judging_is_exact(single):
    """Ten outputs judged alike by a second annotator: the noise is small, but not 0."""
    table = single.judgments.table
    second = table.head(12).with_columns(pl.lit("somebody else").alias("annotator"))
    result = aliquot.estimate(with_rows(single, second))
    pairs = [(pair.low, pair.high) for pair in result.pairs]
    assert min(high - low for low, high in pairs) > 0.05


def test_judgments_that_are_not_behind_the_score_are_named(single):
    noise = np.random.default_rng(1).normal(size=single.human_score().shape)
    other = single.with_score("other", noise).with_human("other")
    notes = aliquot.estimate(other).notes
    assert any("is not the mean of any of the 240 judgments" in note for note in notes)


@pytest.mark.parametrize("people", [1, 2, 3])
def test_one_or_two_annotators_do_not_speak_for_others(people):
    data = aliquot.synthetic(items=40, systems=3, judgments_per_output=people, annotators=people, seed=1)
    said = any("cannot be known" in note for note in aliquot.estimate(data).notes)
    assert said == (people < 3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["x", "y", None]), st.integers(0, 3)), max_size=12))
def test_merging_leaves_one_row_per_annotator_and_output(rows):
    table = Judgments(
        pl.DataFrame(
            {
                "item": [r[0] for r in rows],
                "system": ["A"] * len(rows),
                "annotator": [r[1] for r in rows],
                "value": [float(r[2]) for r in rows],
            },
            schema_overrides={"annotator": pl.String, "item": pl.Int64},
        )
    ).table
    merged = merge_repeats(table)
    named = merged.table.filter(pl.col("annotator").is_not_null())
    assert not named.select("item", "system", "annotator").is_duplicated().any()
    assert table.height == merged.table.height + merged.copies + merged.repeats
    assert merged.table["annotator"].null_count() == table["annotator"].null_count()


# -- scales and pass/fail --------------------------------------------------------------------------------------------


def campaign(scores: FloatArray, systems: str | None = None, **metrics: FloatArray) -> aliquot.EvalSet:
    names = tuple(systems or "ABCDEFGHIJKLMNO"[: scores.shape[1]])
    items = pl.DataFrame({"id": np.arange(len(scores))})
    return aliquot.EvalSet(items, names, scores={"human": scores, **metrics}, human="human")


def test_twenty_right_against_seventeen():
    scores = np.ones((20, 2))
    scores[:3, 1] = 0.0
    result = aliquot.estimate(campaign(scores))
    first, second = result.systems
    exact = [stats.binomtest(k, 20).proportion_ci(method="exact") for k in (20, 17)]
    assert (first.low, first.high) == pytest.approx((exact[0].low, 1.0), abs=0.01)
    assert second.low == pytest.approx(exact[1].low, abs=0.02)
    assert second.high < 1.0
    (pair,) = result.pairs
    assert pair.p == pytest.approx(0.25)  # McNemar's exact test
    assert pair.low < 0 < pair.high
    assert (first.cluster, second.cluster) == (1, 1)
    assert "cannot be told apart" in str(result.verdict)
    census = aliquot.estimate(campaign(scores), target="given")
    assert [(row.low, row.high) for row in census.systems] == [(1.0, 1.0), (0.85, 0.85)]


def test_bounded_scores_never_leave_their_scale():
    rng = np.random.default_rng(0)
    likert = np.clip(np.round(rng.normal(4.6, 0.8, size=(15, 3))), 1, 5)
    likert[0] = [1, 5, 5]
    for row in aliquot.estimate(campaign(likert)).systems:
        assert 1 <= row.low < row.high <= 5
    penalties = np.minimum(0.0, np.round(rng.normal(-0.2, 1.5, size=(15, 3))))
    penalties[0, 0] = 0.0
    assert all(row.high <= 0 for row in aliquot.estimate(campaign(penalties)).systems)
    result = aliquot.estimate(campaign(likert / 5 * 10), value_range=(0, 10))
    assert all(0 <= row.low < row.high <= 10 for row in result.systems)


def test_equal_judgments_are_not_exact():
    """All answers 50: nothing varied, so nothing is known of the error, and no system leads."""
    result = aliquot.estimate(campaign(np.full((30, 3), 50.0) * (1 + 1e-16)))
    assert all(np.isnan(row.se) for row in result.systems)
    assert "has the highest estimate" not in str(result.verdict)
    ones = aliquot.estimate(campaign(np.ones((30, 2))))
    assert all(row.high - row.low > 0.05 for row in ones.systems)
    assert "all have the same estimate" in str(ones.verdict)


def test_a_single_system_has_no_rank():
    only = aliquot.estimate(campaign(np.random.default_rng(0).normal(size=(20, 1)))).systems[0]
    assert only.rank_low is None
    assert np.isnan(only.p_best)


@pytest.mark.parametrize(
    ("scores", "scale"),
    [
        ([0, 1, 1], Scale(0, 1, binary=True)),
        ([1, 1], Scale(0, 1, binary=True)),
        ([0, 0], None),
        ([1, 3, 5], Scale(1, 5)),
        ([2, 3, 4], None),
        ([-25, -1, 0], Scale(-np.inf, 0)),
        ([0, 40, 95], Scale(0, 100)),
        ([0.0, 0.4, 0.7], Scale(0, 1)),
        ([-1, 0, 1], None),
        ([12.5, 80.0], None),
    ],
)
def test_scales_are_told_by_their_ends(scores, scale):
    assert find_scale(np.array(scores, dtype=np.float64)) == scale


def test_a_range_that_scores_leave_is_not_their_scale():
    assert scale_of_range((0, 1), np.array([0.0, 2.0])) is None
    assert scale_of_range((0, 4), np.array([0.0, 4.0])) == Scale(0, 4, binary=True)


def about(scores: FloatArray, rows: FloatArray, metric: FloatArray | None = None) -> Inference:
    data = campaign(scores) if metric is None else campaign(scores, m=metric)
    sample = Sample(
        data, rows.astype(np.int64), scores[rows], np.full(len(rows), len(rows) / len(scores)), np.ones(len(rows))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return infer_means(sample, Spec("greg", {}))


@pytest.mark.parametrize("helped", [False, True])
@pytest.mark.parametrize(("n", "population"), [(10, 100), (20, 1000), (50, 100), (100, 1000)])
@pytest.mark.parametrize("p", [0.5, 0.95])
def test_coverage_of_pass_rates_and_their_differences(n, population, p, helped):
    """At least 0.93 in every cell, of means and of differences (Monte Carlo error of 90 runs with 3 systems: 0.015)."""
    rng = np.random.default_rng(int(1000 * p) + n)
    first, second = np.triu_indices(3, 1)
    inside, pairs = [], []
    for _ in range(90):
        latent = rng.normal(size=(population, 1)) + rng.normal(size=(population, 3))
        scores = (latent > stats.norm.ppf(1 - p) * np.sqrt(2)).astype(np.float64)
        metric = latent + rng.normal(size=latent.shape) if helped else None
        limits = compute_bounds(
            "t", about(scores, rng.permutation(population)[:n], metric), level=0.95, value_range=None, seed=0
        )
        truth = scores.mean(axis=0)
        gap = truth[first] - truth[second]
        inside.append((limits.low <= truth + 1e-9) & (truth - 1e-9 <= limits.high))
        pairs.append((limits.pair_low[first, second] <= gap + 1e-9) & (gap - 1e-9 <= limits.pair_high[first, second]))
    assert np.mean(inside) > 0.93 - 0.03
    assert np.mean(pairs) > 0.93 - 0.03


@pytest.mark.parametrize(("n", "p"), [(10, 0.8), (20, 0.95), (60, 0.8)])
def test_equal_pass_rates_are_rarely_called_different(n, p):
    rng = np.random.default_rng(n)
    inference = [about((rng.random((20 * n, 2)) < p).astype(float), np.arange(n)) for _ in range(150)]
    options: dict[str, Any] = {"test": "estimator", "rule": "any", "alpha": 0.05, "adjust": "bh", "seed": 0}
    assert np.mean([rank_systems(each, **options).cluster.max() > 1 for each in inference]) < 0.05 + 0.04


# -- equal systems ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("systems", [2, 5, 15])
def test_equal_systems_share_one_cluster(systems, ragged):
    """Told apart in at most 5% of the runs, where one-sided tests of each pair alone do so in up to 96%."""
    rng = np.random.default_rng(systems)
    several: dict[Rule, int] = {"any": 0, "published": 0}
    runs = 100 if systems < 15 else 50
    for _ in range(runs):
        scores = rng.normal(size=(60, systems)) + rng.normal(size=(60, 1))
        if ragged:
            scores[rng.random(scores.shape) < 0.4] = np.nan
        rows = np.flatnonzero(np.isfinite(scores).any(axis=1))
        population = campaign(np.vstack([scores, np.full((940, systems), np.nan)]))
        sample = Sample(population, rows, scores[rows], np.full(len(rows), 0.06), np.ones(len(rows)))
        inference = infer_means(sample, Spec("mean", {}))
        for rule in several:
            ranking = rank_systems(inference, test="estimator", rule=rule, alpha=0.05, adjust="bh", seed=0)
            several[rule] += ranking.cluster.max() > 1
    assert several["any"] / runs < 0.05 + 0.06
    if systems > 2:
        assert several["published"] / runs > 0.25


@pytest.mark.parametrize("n", [6, 12])
def test_few_pairs_are_decided_by_an_exact_test(n):
    """Sign flips of normal differences: right size, and the p of `estimate` is never smaller."""
    rng = np.random.default_rng(n)
    p = sign_flip_p(rng.normal(size=(n, 400)))
    assert np.mean(p < 0.05) < 0.05 + 0.025
    scores = np.round(rng.normal(size=(n, 3)), 1)
    result = aliquot.estimate(campaign(scores), "mean")
    for pair in result.pairs:
        gap = scores[:, "ABC".index(pair.a)] - scores[:, "ABC".index(pair.b)]
        assert pair.p >= sign_flip_p(gap[:, None])[0] - 1e-12


def test_sign_flips_are_mcnemars_test():
    gap = np.array([1.0] * 7 + [-1.0] * 2 + [0.0] * 30)
    assert sign_flip_p(gap[:, None])[0] == pytest.approx(stats.binomtest(7, 9).pvalue)
    many = np.concatenate([gap, [1.0] * 9, [-1.0] * 4])  # 22 that differ: random signs
    assert sign_flip_p(many[:, None])[0] == pytest.approx(stats.binomtest(16, 22).pvalue, abs=0.015)


# -- the words -------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 5),
    st.integers(5, 40),
    st.integers(0, 10_000),
    st.sampled_from(["bh", "holm", "none", "maxt"]),
    st.sampled_from(["any", "neighbour", "published"]),
)
def test_no_verdict_speaks_against_its_own_p(systems, items, seed, adjust, rule):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(items, systems)) + rng.choice([0.0, 1.0], systems)
    result = aliquot.estimate(campaign(scores), "mean", adjust=None if rule == "published" else adjust, rule=rule)
    words = str(result.verdict)
    leader = result.systems[0].system
    own = [pair for pair in result.pairs if pair.a == leader]
    if " is best" in words:
        assert all(pair.p_adjusted < result.alpha or pair.p < result.alpha for pair in own)
        assert "cannot be told apart" not in words
    if "is worse" in words:
        assert any(pair.p_adjusted < result.alpha for pair in result.pairs)
    if words.startswith("The") and "cannot be told apart" in words:
        assert {row.cluster for row in result.systems} == {1}
    assert "100%" not in words


def test_a_leader_made_by_adjustment_is_named():
    """A strict annotator judged mostly B: adjusted for severity B leads, by plain means A does."""
    rng = np.random.default_rng(4)
    rows = []
    for item in range(80):
        quality = rng.normal()
        for system, better in (("A", 0.0), ("B", 1.0)):
            strict = rng.random() < (0.8 if system == "B" else 0.2)
            for who, severity in [("strict", -3.0)] * strict + [("mild", 0.0)] * (not strict):
                rows.append((item, system, who, quality + better + severity + 0.3 * rng.normal()))
        if item % 4 == 0:
            rows.append(
                (item, "A", "strict" if rows[-2][2] == "mild" else "mild", quality - 3.0 * (rows[-2][2] == "mild"))
            )
    table = pl.DataFrame(rows, schema=["item", "system", "annotator", "value"], orient="row")
    data = aliquot.EvalSet(pl.DataFrame({"id": np.arange(80)}), ("A", "B"), scores={"truth": np.zeros((80, 2))})
    result = aliquot.estimate(data, judgments=table)
    assert result.systems[0].system == "B"
    assert result["A"].plain_mean > result["B"].plain_mean
    assert "changes who leads" in str(result.verdict).split(".", 1)[1]


# -- found by review -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("few", [3, 8])
def test_few_equal_scores_are_not_certain(few):
    """Equal systems, one judged on few items only: its scores are often all equal, which proves nothing."""
    rng, several = np.random.default_rng(few), 0
    for _ in range(60):
        scores = np.full((400, 3), np.nan)
        for column, (start, count) in enumerate([(0, few), (50, 100), (150, 100)]):
            scores[start : start + count, column] = rng.random(count) < 0.9
        several += max(row.cluster or 1 for row in aliquot.estimate(campaign(scores), "mean").systems) > 1
    assert several / 60 < 0.05 + 0.06


@pytest.mark.parametrize("kind", ["t", "bootstrap", "sequence"])
def test_no_interval_has_width_0_where_nothing_varied(kind):
    scores = np.full((200, 2), np.nan)
    scores[:20] = 1.0
    scores[:3, 1] = 0.0
    row = aliquot.estimate(campaign(scores), "mean", interval=kind)["A"]
    assert np.isnan(row.low) or row.high - row.low > 0.05


@pytest.mark.parametrize("kind", ["sequence", "hoeffding", "bernstein"])
def test_every_interval_is_about_the_target(kind):
    scores = (np.random.default_rng(0).random((30, 2)) < 0.6).astype(float)
    for row in aliquot.estimate(campaign(scores), "mean", interval=kind, value_range=(0, 1)).systems:
        assert row.high - row.low > 4 * row.se * 0.9


def test_a_test_for_the_other_side_is_not_taken_for_this_one():
    scores = np.zeros((60, 2))
    scores[:, 0] = [-1.0] * 54 + [30.0] * 6
    scores += np.random.default_rng(0).normal(0, 0.01, scores.shape)
    result = aliquot.estimate(campaign(scores), "mean", test="wilcoxon")
    assert result.systems[0].system == "A"
    assert "cannot be told apart" in str(result.verdict)


def test_the_published_rule_takes_no_adjustment():
    data = campaign(np.random.default_rng(0).normal(size=(40, 3)))
    assert aliquot.estimate(data, rule="published").adjust == "none"
    with pytest.raises(OptionError, match="tests each pair alone"):
        aliquot.estimate(data, rule="published", adjust="holm")


def test_copies_of_errors_count_once_and_unknown_seconds_stay_unknown():
    errors = {"item": [0, 0], "system": ["A", "A"], "annotator": ["x", "x"], "value": [-5.0, -1.0], "error": [0, 1]}
    table = pl.DataFrame(errors | {"start": [3, 9], "end": [5, 12]})
    twice = pl.concat([table, table.with_columns(pl.col("error") + 2)])
    assert Judgments(twice).cell_means()["value"].to_list() == [-6.0]
    rows = {"item": [0, 0, 1], "system": ["A"] * 3, "annotator": ["x"] * 3, "value": [1.0, 3.0, 2.0]}
    assert merge_repeats(Judgments(pl.DataFrame(rows)).table).table["seconds"].null_count() == 2


def test_penalties_of_a_faultless_system_can_be_tested():
    """A has 0 on all 20 items: six of six differences favour it, which an exact test of p = 0.031 can tell."""
    scores = np.zeros((20, 2))
    scores[:6, 1] = [-1, -1, -1, -5, -5, -5]
    result = aliquot.estimate(campaign(scores))
    (pair,) = result.pairs
    assert 0.03 < pair.p < 0.05
    assert result["A"].low < 0 == result["A"].high


@settings(max_examples=40, deadline=None)
@given(st.integers(6, 25), st.integers(0, 10_000))
def test_intervals_of_few_pairs_hold_0_where_the_test_finds_nothing(items, seed):
    rng = np.random.default_rng(seed)
    scores = np.clip(np.round(rng.normal([3.5, 4.2], 0.8, size=(items, 2))), 1, 5)
    result = aliquot.estimate(campaign(scores), "mean")
    (pair,) = result.pairs
    if np.isfinite(pair.p) and not 0.0499 < pair.p < 0.0501:
        assert (pair.low > 0 or pair.high < 0) == (pair.p < 0.05)
        assert max(row.p_best for row in result.systems) <= 1 - pair.p / 2 + 0.02


def test_systems_without_judgments_share_the_annotators_noise():
    data = aliquot.synthetic(items=40, systems=4, judgments_per_output=2, annotators=4, seed=2)
    assert data.judgments is not None
    some = replace(data, judgments=Judgments(data.judgments.table.filter(pl.col("system") != "sys4")))
    errors = {row.system: row.se for row in aliquot.estimate(some).systems}
    assert errors["sys4"] == pytest.approx(np.mean([errors[name] for name in ("sys1", "sys2", "sys3")]), rel=0.25)


@pytest.mark.parametrize(("scores", "scale"), [([3, 4, 5], Scale(1, 5)), ([0, 2, 7], Scale(0, 7)), ([2.5, 5.0], None)])
def test_likert_scales_are_told_by_whole_numbers(scores, scale):
    assert find_scale(np.array(scores, dtype=np.float64)) == scale
