"""Severity, noise and reliability of annotators: recovered from simulated ones, and exact in small cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from aliquot.stats.alpha import PairableJudgments, pairable_judgments, to_long_form
from aliquot.stats.annotator_model import (
    MIN_JUDGMENTS,
    AnnotatorModel,
    annotator_model,
    common_factor,
    compare_with_others,
    factor_misfit,
)
from aliquot.stats.annotator_pairs import find_annotator_pairs, pair_moments, pearson_from_moments
from aliquot.stats.arrays import FloatArray, IntArray


def compared(table: FloatArray) -> tuple[PairableJudgments, IntArray]:
    unit, annotator, value = to_long_form(table)
    return pairable_judgments(unit, value), annotator


def fitted(table: FloatArray) -> AnnotatorModel:
    answers, annotator = compared(table)
    pairs = find_annotator_pairs(answers, annotator, table.shape[1])
    return annotator_model(answers, annotator, table.shape[1], pairs, pair_moments(pairs))


def simulated(gaps: float, seed: int = 0, units: int = 5000) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    severity, slope = np.array([0, 0.5, -0.5, 1, -1, 0.0]), np.array([1, 1, 2, 0.5, 1, 0.05])
    noise = np.array([0.3, 0.5, 1, 0.5, 1.5, 0.1])
    table = slope * rng.normal(size=(units, 1)) - severity + noise * rng.normal(size=(units, 6))
    table[rng.random(table.shape) < gaps] = np.nan
    return table, severity, noise, slope**2 / (slope**2 + noise**2)


@pytest.mark.parametrize("gaps", [0.0, 0.5])
def test_annotators_are_recovered(gaps: float) -> None:
    table, severity, noise, reliability = simulated(gaps)
    found = fitted(table)
    assert found.severity == pytest.approx(severity, abs=0.12)
    assert found.reliability == pytest.approx(reliability, abs=0.07)
    assert found.noise == pytest.approx(noise, abs=0.13)


def test_pairs_with_few_shared_units_add_up() -> None:
    """A crowd: everybody shares three units with each of many others; pairs by themselves say nothing."""
    rng = np.random.default_rng(10)
    people, units = 40, 40 * 39 // 2 * 3
    noise = np.where(np.arange(people) < 20, 0.4, 2.0)
    table = np.full((units, people), np.nan)
    truth, at = rng.normal(size=units), 0
    for a in range(people):
        for b in range(a):
            rows = slice(at, at + 3)
            for person in (a, b):
                table[rows, person] = truth[rows] + noise[person] * rng.normal(size=3)
            at += 3
    found = fitted(table).reliability
    assert found[:20].mean() == pytest.approx(1 / (1 + 0.16), abs=0.08)
    assert found[20:].mean() == pytest.approx(1 / 5, abs=0.08)


def test_one_who_always_says_nearly_the_same_is_not_reliable() -> None:
    table = np.random.default_rng(1).normal(size=(300, 1)) + 0.3 * np.random.default_rng(2).normal(size=(300, 4))
    table[:, 3] = 0.01 * np.random.default_rng(3).normal(size=300)
    assert fitted(table).reliability[3] < 0.05
    table[:, 3] = 5.0  # without any variance there is no correlation
    assert np.isnan(fitted(table).reliability[3])


def test_three_annotators_exactly() -> None:
    """Spearman's triad: l_1^2 = r_12 r_13 / r_23."""
    pairs = np.array([0, 0, 1]), np.array([1, 2, 2]), np.full(3, 10**8)
    r = np.array([0.6, 0.3, 0.4])
    expected = np.sqrt([0.6 * 0.3 / 0.4, 0.6 * 0.4 / 0.3, 0.3 * 0.4 / 0.6])
    assert common_factor(*pairs, r, 3).loadings == pytest.approx(expected, abs=1e-5)


def test_a_correlation_beyond_one_cannot_be_told() -> None:
    """A Heywood case: r_12 r_13 / r_23 > 1."""
    pairs = np.array([0, 0, 1]), np.array([1, 2, 2]), np.full(3, 10**8)
    found = common_factor(*pairs, np.array([0.9, 0.8, 0.5]), 3)
    assert found.beyond.tolist() == [True, False, False]
    assert found.loadings[0] == 1.0


def test_without_gaps_pairs_have_pearsons_correlation() -> None:
    table, _severity, _noise, _reliability = simulated(0.0, units=50)
    answers, annotator = compared(table)
    pairs = find_annotator_pairs(answers, annotator, 6)
    sums = pair_moments(pairs)
    by_pearson = common_factor(pairs.first, pairs.second, pairs.shared, pearson_from_moments(sums), 6)
    assert fitted(table).reliability == pytest.approx(by_pearson.loadings**2, abs=1e-6)


def test_two_annotators_share_the_blame() -> None:
    one = np.array([0]), np.array([1]), np.array([50])
    assert common_factor(*one, np.array([0.64]), 2).loadings == pytest.approx([0.8, 0.8])
    assert common_factor(*one, np.array([-0.64]), 2).loadings.tolist() == [0, 0]
    assert np.isnan(common_factor(*one, np.array([np.nan]), 2).loadings).all()
    assert np.isnan(common_factor(*one, np.array([0.64]), 3).loadings[2])


def test_one_who_answers_the_other_way_round() -> None:
    table = np.random.default_rng(4).normal(size=(400, 1)) + 0.5 * np.random.default_rng(5).normal(size=(400, 4))
    table[:, 1] *= -1
    assert fitted(table).reliability[1] == 0


def test_camps_do_not_fit_one_view() -> None:
    rng = np.random.default_rng(6)
    camps = np.repeat(rng.normal(size=(500, 2)), [5, 3], axis=1) + 0.6 * rng.normal(size=(500, 8))
    whole = rng.normal(size=(500, 1)) + 0.6 * rng.normal(size=(500, 8))
    assert fitted(camps).misfit > 0.2
    assert fitted(whole).misfit < 0.05
    assert np.isnan(factor_misfit(*(np.zeros(0, dtype=int),) * 3, np.zeros(0), np.zeros(2)))


def test_few_answers_say_nothing_about_reliability() -> None:
    table = np.random.default_rng(7).normal(size=(40, 1)) + 0.3 * np.random.default_rng(8).normal(size=(40, 3))
    table[MIN_JUDGMENTS - 1 :, 2] = np.nan
    found = fitted(table)
    assert found.judgments.tolist() == [40, 40, MIN_JUDGMENTS - 1]
    assert np.isnan(found.reliability[2])
    assert np.isnan(found.noise[2])
    assert np.isfinite(found.severity).all()
    table[1:, 2] = np.nan  # an annotator with one answer
    assert np.isfinite(fitted(table).severity[2])


def test_severity_is_the_difference_of_two() -> None:
    table = np.array([[1.0, 3.0], [2.0, 4.0], [5.0, 7.0]])
    assert fitted(table).severity.tolist() == pytest.approx([1, -1])


def test_severity_across_a_chain_of_annotators() -> None:
    table = np.full((6, 3), np.nan)
    table[:3, :2] = [[1, 2], [2, 3], [4, 5]]  # the second is 1 higher than the first
    table[3:, 1:] = [[3, 5], [1, 3], [2, 4]]  # the third 2 higher than the second
    severity = fitted(table).severity
    assert severity[0] - severity[1] == pytest.approx(1)
    assert severity[1] - severity[2] == pytest.approx(2)
    assert severity.sum() == pytest.approx(0)


def test_nothing_to_compare() -> None:
    answers, annotator = compared(np.array([[1.0, np.nan], [np.nan, 2.0]]))
    found = annotator_model(answers, annotator, 2)
    assert found.judgments.tolist() == [0, 0]
    assert np.isnan(found.severity).all()
    assert np.isnan(compare_with_others(answers, annotator, 2).same).all()


def test_against_the_rest_is_the_mean_of_the_others() -> None:
    rng = np.random.default_rng(9)
    table = rng.integers(1, 6, (30, 1)) + rng.integers(-1, 2, (30, 4)).astype(float)
    table[rng.random(table.shape) < 0.2] = np.nan
    table = table[np.isfinite(table).sum(axis=1) > 1]
    answers, annotator = compared(table)
    found = compare_with_others(answers, annotator, 4)
    for j in range(4):
        mine = np.isfinite(table[:, j])
        others = np.delete(table[mine], j, axis=1)
        mean = np.nanmean(others, axis=1)
        same = np.nanmean(np.where(np.isnan(others), np.nan, others == table[mine, j][:, None]), axis=1)
        assert found.pearson[j] == pytest.approx(pearsonr(table[mine, j], mean)[0])
        assert found.spearman[j] == pytest.approx(spearmanr(table[mine, j], mean)[0])
        assert found.difference[j] == pytest.approx(np.mean(table[mine, j] - mean))
        assert found.same[j] == pytest.approx(same.mean())
