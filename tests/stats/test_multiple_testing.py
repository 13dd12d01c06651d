"""Adjusted p-values against statsmodels, by hand and by what they promise."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats.arrays import FloatArray
from aliquot.stats.multiple_testing import (
    Adjustment,
    adjust_by_max_t,
    adjust_p_values,
    adjust_pairs,
    choose_adjustment,
    rejected_by_bh,
    significantly_better,
    two_sided_p,
)
from aliquot.stats.pairwise import analytic_p, permutation_p

NAN = np.nan
STATSMODELS: dict[Adjustment, str] = {"bh": "fdr_bh", "holm": "holm", "sidak": "sidak"}


def one_sided(upper: list[float], systems: int) -> FloatArray:
    p = np.full((systems, systems), 0.5)
    first, second = np.triu_indices(systems, 1)
    p[first, second], p[second, first] = upper, 1 - np.array(upper)
    return p


@pytest.mark.parametrize("seed", range(6))
def test_adjustments_are_those_of_statsmodels(seed):
    rng = np.random.default_rng(seed)
    p = rng.random(rng.integers(1, 12)) ** rng.integers(1, 5)
    p[: len(p) // 3] = p[-1]  # ties
    for method, name in STATSMODELS.items():
        np.testing.assert_allclose(adjust_p_values(p, method), multipletests(p, method=name)[1], atol=1e-12)
    np.testing.assert_array_equal(adjust_p_values(p, "none"), p)
    assert adjust_p_values(np.array([0.0, 1.0]), "sidak").tolist() == [0.0, 1.0]


def test_missing_p_values_are_no_tests():
    np.testing.assert_allclose(adjust_p_values(np.array([0.02, NAN, 0.5]), "holm"), [0.04, NAN, 0.5])
    np.testing.assert_allclose(adjust_p_values(np.array([0.02, NAN, 0.5]), "bh"), [0.04, NAN, 0.5])
    with pytest.raises(NameUnknownError, match="`adjust`"):
        adjust_p_values(np.array([0.1]), "bonferoni")  # type: ignore[arg-type]


def test_pairs_by_hand():
    p = two_sided_p(one_sided([0.01, 0.005, 0.7], 3))  # 0.02, 0.01, 0.6
    np.testing.assert_allclose(adjust_pairs(p, "holm")[0, 1:], [0.04, 0.03])
    np.testing.assert_allclose(adjust_pairs(p, "bh")[np.triu_indices(3, 1)], [0.03, 0.03, 0.6])
    np.testing.assert_allclose(adjust_pairs(p, "none"), p)
    untested = two_sided_p(one_sided([0.01, NAN, 0.02], 3))
    np.testing.assert_allclose(adjust_pairs(untested, "holm")[np.triu_indices(3, 1)], [0.04, NAN, 0.04])


UNIT = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.001, 0.01, 0.5, 0.99, 1.0]))


@settings(max_examples=150, deadline=None)
@given(systems=st.integers(0, 5), data=st.data())
def test_step_procedures_are_their_definitions(systems: int, data: st.DataObject) -> None:
    pairs = list(combinations(range(systems), 2))
    p = two_sided_p(one_sided([data.draw(UNIT) for _ in pairs], systems))
    ordered = sorted(pairs, key=lambda pair: p[pair])
    holm, bh = adjust_pairs(p, "holm"), adjust_pairs(p, "bh")
    for alpha in (0.01, 0.05, 0.3):
        rejected, left = set(), list(ordered)
        while left and len(left) * p[left[0]] <= alpha:
            rejected.add(left.pop(0))
        assert {pair for pair in pairs if holm[pair] <= alpha} == rejected
        last = max((rank for rank, pair in enumerate(ordered, 1) if p[pair] * len(pairs) / rank <= alpha), default=0)
        assert {pair for pair in pairs if bh[pair] <= alpha} >= set(ordered[:last])
    for pair in pairs:
        assert p[pair] * (1 - 1e-12) <= bh[pair] <= holm[pair] * (1 + 1e-12)


def equal_systems(runs: int, items: int, systems: int) -> list[FloatArray]:
    rng = np.random.default_rng(systems)
    return [rng.normal(size=(items, systems)) + rng.normal(size=(items, 1)) for _ in range(runs)]


@pytest.mark.parametrize("method", ["bh", "holm"])
def test_equal_systems_are_told_apart_in_5_percent_of_cases(method):
    tables = [two_sided_p(analytic_p(scores)) for scores in equal_systems(400, 60, 6)]
    off = ~np.eye(6, dtype=bool)
    assert np.mean([(adjust_pairs(p, method)[off] < 0.05).any() for p in tables]) < 0.07
    assert np.mean([(p[off] < 0.05).any() for p in tables]) > 0.2


def test_max_t_keeps_the_family_wise_error_and_beats_holm():
    tables = equal_systems(200, 20, 5)
    hit, powers = 0, []
    for scores in tables:
        covariance = np.cov(scores.T) / len(scores)
        p = two_sided_p(analytic_p(scores))
        freedom = np.full(p.shape, len(scores) - 1.0)
        joint = adjust_by_max_t(p, covariance, freedom, draws=1000, seed=1)
        hit += bool((joint[~np.eye(5, dtype=bool)] < 0.05).any())
        assert (joint >= p - 1e-12).all()
        powers.append((joint.min(), adjust_pairs(p, "holm").min()))
    assert hit / len(tables) < 0.09  # 5% and two Monte Carlo errors
    joint_least, holm_least = np.array(powers).T
    assert np.median(joint_least) < np.median(holm_least)


def test_max_t_of_one_pair_is_its_p():
    p = np.array([[1.0, 0.03], [0.03, 1.0]])
    assert adjust_by_max_t(p, np.eye(2), np.full((2, 2), 15.0))[0, 1] == pytest.approx(0.03, abs=0.004)


def test_better_needs_the_higher_value_and_a_small_p():
    p = np.array([[1.0, 0.01, NAN], [0.01, 1.0, 0.2], [NAN, 0.2, 1.0]])
    better = significantly_better(np.array([1.0, 2.0, 3.0]), p, 0.05)
    assert better.tolist() == [[False, False, False], [True, False, False], [False, False, False]]


def test_counted_p_values_may_sum_to_more_than_1():
    counted = permutation_p(np.random.default_rng(0).normal(size=(30, 4)) + np.arange(4) / 3, 500)
    assert (two_sided_p(counted) <= 1).all()
    with pytest.raises(OptionError, match=r"`p` has shape \(2,\)"):
        two_sided_p(np.zeros(2))
    with pytest.raises(OptionError, match=r"`p` holds 1\.5"):
        two_sided_p(np.array([[0.5, 1.5], [0.5, 0.5]]))
    with pytest.raises(OptionError, match=r"p\[0, 1\] is 0\.02 and p\[1, 0\] is 0\.02; give one-sided"):
        two_sided_p(np.array([[1.0, 0.02], [0.02, 1.0]]))


@given(st.lists(st.one_of(st.floats(0.0, 0.2), st.just(NAN)), min_size=1, max_size=8))
def test_rows_of_p_values_are_named_as_adjusted_ones_are(row):
    values = adjust_p_values(np.array(row), "bh")
    clear = np.abs(values - 0.05) > 1e-12  # at the limit rounding decides; NaN is not clear
    np.testing.assert_array_equal(rejected_by_bh(np.array([row]), 0.05)[0][clear], values[clear] < 0.05)


def test_which_p_values_are_named_by_hand():
    """Limits of 3 values at 0.05 are 0.0167, 0.0333, 0.05; of 2, 0.025 and 0.05. The limit itself is too much."""
    table = np.array([[0.01, 0.04, 0.03], [0.01, 0.06, 0.055], [0.04, NAN, 0.03], [0.2, NAN, 0.025], [NAN] * 3])
    assert rejected_by_bh(table, 0.05).tolist() == [
        [True, True, True],
        [True, False, False],
        [True, False, True],
        [False] * 3,
        [False] * 3,
    ]
    assert rejected_by_bh(np.zeros((2, 0)), 0.05).shape == (2, 0)


def test_the_adjustment_follows_from_the_rule():
    assert [choose_adjustment(None, rule) for rule in ("any", "published")] == ["bh", "none"]
    assert [choose_adjustment("none", rule) for rule in ("any", "published")] == ["none", "none"]
    assert choose_adjustment("maxt", "any") == "maxt"
    with pytest.raises(NameUnknownError, match="`adjust` is 'sidak'"):
        choose_adjustment("sidak", "any")
    with pytest.raises(OptionError, match="tests each pair alone"):
        choose_adjustment("bh", "published")
