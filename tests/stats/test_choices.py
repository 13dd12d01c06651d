"""Sign tests, McNemar and shares: textbook libraries, the notes' numbers, and what clustering changes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar

from aliquot.errors import OptionError
from aliquot.stats.choices import (
    choices_from_rows,
    choices_from_scores,
    clustered_sign_test,
    informative_clusters,
    mcnemar,
    pair_sign_tests,
    sign_test,
    tally_pairs,
)
from aliquot.stats.cluster_robust import clustered_difference, clustered_mean, clustered_share, student_quantile
from aliquot.stats.proportions import tango_interval

PARACRAWL = {
    "cs": (98, 38, 2.7e-7),
    "de": (86, 62, 0.058),
    "fi": (134, 16, 2.2e-24),
    "lv": (99, 44, 4.9e-6),
    "ro": (124, 31, 2.2e-14),
}


@pytest.mark.parametrize("language", PARACRAWL)
def test_sign_tests_of_the_post_editing_campaign(language):
    """Notes, P4: exact two-sided sign tests, identical outputs left out."""
    won, lost, p = PARACRAWL[language]
    assert float(sign_test(won, lost)) == pytest.approx(p, rel=0.03)


@given(st.integers(0, 60), st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_sign_test_is_the_binomial_test(won, lost):
    p = float(sign_test(won, lost))
    if won + lost == 0:
        assert np.isnan(p)
    else:
        assert p == pytest.approx(binomtest(won, won + lost, 0.5).pvalue, abs=1e-12)


def test_sign_test_refuses_negative_counts():
    with pytest.raises(OptionError, match="negative"):
        sign_test(-1, 3)


def flipped_p(net: list[int]) -> float:
    """All sign flips of the clusters, one by one."""
    sizes = [abs(value) for value in net if value]
    observed = abs(sum(net))
    totals = [
        abs(sum(s * v for s, v in zip(signs, sizes, strict=True))) for signs in product((1, -1), repeat=len(sizes))
    ]
    return float(np.mean([total >= observed for total in totals]))


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=10))
@settings(max_examples=80, deadline=None)
def test_clustered_sign_test_is_exact(net):
    p = clustered_sign_test(np.array(net))
    if any(net):
        assert p == pytest.approx(flipped_p(net), abs=1e-12)
    else:
        assert np.isnan(p)


@given(st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_one_choice_per_cluster_is_the_sign_test(won, lost):
    net = np.array([1] * won + [-1] * lost + [0, 0])
    np.testing.assert_allclose(clustered_sign_test(net), float(sign_test(won, lost)), atol=1e-12)


def test_clustered_sign_test_in_the_limit_agrees_with_its_exact_form():
    rng = np.random.default_rng(3)
    net = rng.integers(-3, 4, 3000) + (rng.random(3000) < 0.03)
    z = abs(net.sum()) / np.sqrt((net**2).sum())
    exact = clustered_sign_test(net)
    from scipy.stats import norm

    assert exact == pytest.approx(2 * norm.sf(z), rel=0.05)
    many = np.tile(net, 8)  # too long to convolve: the normal limit itself
    assert clustered_sign_test(many) == pytest.approx(2 * norm.sf(z * np.sqrt(8)), rel=1e-9)


def test_level_of_the_clustered_test_and_of_the_naive_one():
    """Three choices that agree on an item are no three items: the naive test rejects too often, ours does not."""
    rng = np.random.default_rng(4)
    items, people = 30, 3
    clustered, naive = [], []
    for _ in range(600):
        lean = rng.normal(size=items) * 1.5
        won = rng.random((items, people)) < 1 / (1 + np.exp(-lean[:, None]))
        clustered.append(clustered_sign_test((2 * won.astype(int) - 1).sum(axis=1)))
        naive.append(float(sign_test(int(won.sum()), int((~won).sum()))))
    assert np.mean(np.array(clustered) <= 0.05) <= 0.065
    assert np.mean(np.array(naive) <= 0.05) > 0.08


# -- McNemar -------------------------------------------------------------------------------------------------------


def test_mcnemar_of_the_word_senses():
    """Notes, P10: b = 2425, c = 480, chi2 = 1300.9 with continuity correction."""
    assert mcnemar(2425, 480).chi2 == pytest.approx(1300.9, abs=0.05)


@given(st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_mcnemar_is_that_of_statsmodels(only_a, only_b):
    found = mcnemar(only_a, only_b)
    if only_a + only_b == 0:
        assert np.isnan([found.p_exact, found.chi2, found.p_chi2]).all()
        return
    table = [[5, only_a], [only_b, 7]]
    assert found.p_exact == pytest.approx(min(1.0, reference_mcnemar(table, exact=True).pvalue), abs=1e-9)
    if only_a != only_b:  # theirs squares |b - c| - 1 = -1 there
        reference = reference_mcnemar(table, exact=False, correction=True)
        assert (found.chi2, found.p_chi2) == pytest.approx((reference.statistic, reference.pvalue))
    else:
        assert (found.chi2, found.p_chi2) == (0.0, 1.0)


# -- shares and means ----------------------------------------------------------------------------------------------


def test_clustered_share_with_one_answer_each_is_clopper_pearson():
    found = clustered_share(np.array([1.0] * 86 + [0.0] * 62), np.arange(148))  # post-editors of German
    assert (found.low, found.high) == pytest.approx(tuple(binomtest(86, 148).proportion_ci(method="exact")))
    single = clustered_share(np.ones(1), np.zeros(1, dtype=int))
    assert (single.low, single.high) == pytest.approx((0.025, 1.0))


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 5)), min_size=1, max_size=40))
@settings(max_examples=80, deadline=None)
def test_clustered_share_holds_its_bounds(rows):
    values, cluster = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    found = clustered_share(values, cluster)
    assert found.share == pytest.approx(values.mean())
    assert found.clusters == len(set(cluster.tolist()))
    if np.isfinite(found.low):
        assert 0 <= found.low <= found.share <= found.high <= 1
        assert found.high - found.low > 0.05
        mirrored = clustered_share(1 - values, cluster)
        assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high))
    else:
        assert found.clusters == 1
        assert len(values) > 1


def test_doubling_answers_within_clusters_adds_nothing():
    rng = np.random.default_rng(5)
    values, cluster = (rng.random(40) < 0.6).astype(float), np.arange(40)
    once = clustered_share(values, cluster)
    twice = clustered_share(np.repeat(values, 2), np.repeat(cluster, 2))
    assert twice.high - twice.low >= (once.high - once.low) * 0.99
    naive = clustered_share(np.repeat(values, 2), np.arange(80))
    assert naive.high - naive.low < 0.8 * (once.high - once.low)


def test_all_ties_are_no_certainty():
    found = clustered_share(np.full(12, 0.5), np.repeat(np.arange(4), 3))
    assert (found.low, found.high) == pytest.approx(tuple(binomtest(2, 4).proportion_ci(method="exact")))


@given(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 1.0]), st.integers(0, 5)), min_size=1, max_size=40))
@settings(max_examples=80, deadline=None)
def test_clustered_differences_hold_their_bounds(rows):
    values, cluster = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    found, alone = clustered_difference(values, cluster), clustered_difference(values, np.arange(len(rows)))
    if np.isfinite(found.low):
        assert -1 <= found.low <= found.share <= found.high <= 1
        assert found.high - found.low >= (alone.high - alone.low) * (1 - 1e-9) > 0
    else:
        assert found.clusters == 1
        assert len(values) > 1


def test_clustered_difference_with_one_answer_each_is_that_of_tango():
    found = clustered_difference(np.array([1.0] * 5 + [-1.0] * 2 + [0.0] * 9), np.arange(16))
    ends = tango_interval(np.array([5.0]), np.array([2.0]), np.array([16.0]))
    assert (found.low, found.high) == pytest.approx((ends[0].item(), ends[1].item()))


def test_coverage_of_clustered_shares():
    rng = np.random.default_rng(6)
    truth = float((1 / (1 + np.exp(-(rng.normal(size=400_000) * 1.2 + 0.8)))).mean())
    hits = []
    for _ in range(400):
        lean = rng.normal(size=25) * 1.2 + 0.8
        answers = (rng.random((25, 4)) < 1 / (1 + np.exp(-lean[:, None]))).astype(float)
        found = clustered_share(answers.ravel(), np.repeat(np.arange(25), 4))
        hits.append(found.low <= truth <= found.high)
    assert 0.93 <= np.mean(hits) <= 0.995


def test_clustered_mean_is_the_t_interval_of_single_answers():
    values = np.array([1.0, 4.0, 2.0, 8.0, 5.0])
    found = clustered_mean(values, np.arange(5))
    se = values.std(ddof=1) / np.sqrt(5)
    assert found.se == pytest.approx(se)
    assert found.high == pytest.approx(values.mean() + student_quantile(0.95, 4) * se)


def test_means_without_spread_or_clusters_are_not_certain():
    assert np.isnan(clustered_mean(np.ones(5), np.arange(5)).se)
    assert np.isnan(clustered_mean(np.array([1.0, 2.0]), np.zeros(2, dtype=int)).low)
    assert np.isnan(clustered_mean(np.zeros(0), np.zeros(0, dtype=int)).mean)
    assert np.isnan(clustered_share(np.zeros(0), np.zeros(0, dtype=int)).share)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 95.0])
def test_impossible_levels_are_refused(level):
    with pytest.raises(OptionError, match="level"):
        clustered_share(np.ones(3), np.arange(3), level)


def test_compared_counts_wins_of_both_sides_and_ties():
    counts = tally_pairs(choices_from_scores(np.array([[3, 1, 2], [1, 2, 2], [5, 1, np.nan]]), np.arange(3)))
    assert counts.wins.tolist() == [[0, 2, 1], [1, 0, 0], [1, 1, 0]]
    assert counts.ties.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert counts.compared.tolist() == [[0, 3, 2], [3, 0, 2], [2, 2, 0]]


def test_what_pairs_and_their_differences_rest_on_by_hand():
    """Clusters 0 and 1: X over Y; 2: X over Y, Y over X; 3: Y ties Z; Z is never decided."""
    first, second = np.array([0, 0, 0, 1, 1]), np.array([1, 1, 1, 0, 2])
    choices = choices_from_rows(first, second, np.array([1, 1, 1, 1, 0]), np.array([0, 1, 2, 2, 3]), 3)
    p, net = pair_sign_tests(choices)
    assert net.tolist() == [[0, 2, 0], [-2, 0, 0], [0, 0, 0]]
    assert p[0, 1] == p[1, 0] == 0.5  # two clusters for X, the third for neither
    assert np.isnan(p[1, 2])
    assert np.isnan(p[0, 2])
    assert informative_clusters(choices).tolist() == [[0, 2, 0], [2, 0, 0], [0, 0, 0]]
    more = choices_from_scores(np.array([[2.0, 1.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]]), np.arange(3))
    assert informative_clusters(more).tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]


def test_informative_clusters_of_many_systems_that_seldom_meet_are_those_of_a_full_table():
    rng = np.random.default_rng(3)
    first, cluster = rng.integers(0, 6, 60), rng.integers(0, 9, 60)
    second = (first + rng.integers(1, 6, 60)) % 6
    outcome = rng.integers(-1, 2, 60)
    full = informative_clusters(choices_from_rows(first, second, outcome, cluster, 6))
    spread = choices_from_rows(first, second, outcome, cluster * 1000, 6)  # the same, among clusters without a choice
    assert informative_clusters(spread).tolist() == full.tolist()
    assert full.max() > 4
