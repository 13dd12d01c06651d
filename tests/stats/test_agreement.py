"""Kappas and raw agreement: against scikit-learn, statsmodels, hand-worked tables and the papers' numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import SquareTable
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from aliquot.errors import NameUnknownError
from aliquot.stats.agreement import (
    WEIGHTINGS,
    disagreement_weights,
    fleiss_kappa_measure,
    kappa,
    max_kappa,
    raw_agreement,
    raw_agreement_measure,
    stuart_maxwell_test,
)
from aliquot.stats.alpha import pairable_judgments, to_long_form
from aliquot.stats.arrays import FloatArray
from aliquot.stats.resampling import bootstrap_intervals, measure_value

COHEN_1960 = np.array([[88.0, 14, 18], [10, 40, 10], [2, 6, 12]])
"""Cohen (1960), table 1: proportions .44 .07 .09 / .05 .20 .05 / .01 .03 .06 of 200."""


def test_cohens_own_example() -> None:
    assert float(kappa(COHEN_1960)) == pytest.approx(0.492, abs=5e-4)
    assert float(max_kappa(COHEN_1960)) == pytest.approx(0.831, abs=2e-3)  # margins .60 .30 .10 and .50 .30 .20


answers = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=40)


@settings(max_examples=80, deadline=None)
@given(answers)
def test_kappas_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=float).T
    values = np.arange(1.0, 6)
    table = np.array([[np.sum((a == x) & (b == y)) for y in values] for x in values], dtype=float)
    found = [float(kappa(table, values, weighting)) for weighting in WEIGHTINGS]
    if len(np.unique(np.concatenate([a, b]))) == 1:
        assert np.isnan([*found, float(max_kappa(table))]).all()
        return
    for ours, weights in zip(found, (None, "linear", "quadratic"), strict=True):
        assert ours == pytest.approx(cohen_kappa_score(a, b, weights=weights, labels=[1, 2, 3, 4, 5]), abs=1e-9)
    observed, shares = np.mean(a == b), [table.sum(axis=axis) / len(a) for axis in (0, 1)]
    expected = shares[0] @ shares[1]
    assert float(raw_agreement(table)) == pytest.approx(observed)
    assert found[0] <= float(max_kappa(table)) + 1e-12
    assert found[0] == pytest.approx((observed - expected) / (1 - expected))


def test_the_maximum_is_reached_by_the_best_table_with_these_margins() -> None:
    rows, columns = np.array([60.0, 30, 10]), np.array([50.0, 30, 20])
    best = np.diag(np.minimum(rows, columns))
    best[0, 2] = 10  # what is left over of both margins
    assert best.sum(axis=1).tolist() == rows.tolist()
    assert best.sum(axis=0).tolist() == columns.tolist()
    assert float(kappa(best)) == pytest.approx(float(max_kappa(best)))


@pytest.mark.parametrize(
    ("language", "a", "b", "cap"),
    [
        ("Danish", [0, 0, 3, 6, 63, 2, 26], [0, 0, 0, 58, 5, 0, 37], 0.25),
        ("Italian", [0, 1, 3, 51, 14, 17, 14], [0, 5, 11, 13, 2, 3, 65], 0.23),
        ("Dutch", [0, 4, 0, 24, 6, 15, 51], [0, 1, 5, 3, 21, 1, 68], 0.40),
        ("Portuguese", [6, 6, 15, 14, 6, 14, 39], [3, 6, 3, 5, 1, 2, 78], 0.39),
        ("Czech", [3, 36, 8, 17, 3, 1, 31], [5, 0, 5, 17, 9, 50, 14], 0.38),
    ],
)
def test_paracrawls_margins_cap_kappa(language: str, a: list[int], b: list[int], cap: float) -> None:
    """HumEval 2022, paper 4, table 1: percentages of seven labels by two annotators; the notes' kappa_max."""
    table = np.outer(a, b).astype(float)  # any table with these margins
    assert float(max_kappa(table)) == pytest.approx(cap, abs=0.01), language


@pytest.mark.parametrize(
    ("language", "a", "b", "printed", "observed"),
    [
        ("Bulgarian", [2, 0, 7, 34, 19, 1, 36], [7, 3, 9, 35, 8, 5, 33], 0.40, 0.56),
        ("Nynorsk", [1, 24, 0, 1, 9, 8, 57], [1, 34, 2, 0, 5, 0, 59], 0.54, 0.73),
    ],
)
def test_paracrawls_implied_agreement(
    language: str, a: list[int], b: list[int], printed: float, observed: float
) -> None:
    """Independent answers agree by chance; the printed kappa adds its share of the rest."""
    chance = float(raw_agreement(np.outer(a, b).astype(float)))
    assert chance + printed * (1 - chance) == pytest.approx(observed, abs=0.01), language


def test_word_sense_numbers() -> None:
    """HumEval 2022, paper 10: p_o .750 and kappa .660 mean p_e .265."""
    margin = np.array([0.35, 0.25, 0.2, 0.2])  # expected agreement .265
    table = 0.25 / (1 - 0.265) * np.outer(margin, margin)
    np.fill_diagonal(table, 0)
    np.fill_diagonal(table, margin - table.sum(axis=1))
    assert float(raw_agreement(table)) == pytest.approx(0.750)
    assert float(kappa(669 * table)) == pytest.approx(0.660, abs=5e-4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=9, max_size=9))
def test_equal_margins_are_tested_as_statsmodels_does(cells: list[int]) -> None:
    table = np.array(cells, dtype=float).reshape(3, 3)
    used = (table.sum(axis=0) + table.sum(axis=1)) > 0
    kept = table[np.ix_(used, used)]
    off = kept - np.diag(np.diag(kept))
    if not kept.size:
        assert np.isnan(stuart_maxwell_test(table))
        return
    spread = -(kept + kept.T)
    np.fill_diagonal(spread, (off + off.T).sum(axis=1))
    if len(kept) < 2 or np.linalg.matrix_rank(spread[1:, 1:]) < len(kept) - 1:
        assert 0 <= stuart_maxwell_test(table) <= 1  # statsmodels gives up on a singular covariance
        return
    expected = SquareTable(kept, shift_zeros=False).homogeneity(method="stuart_maxwell").pvalue
    assert stuart_maxwell_test(table) == pytest.approx(float(expected), abs=1e-8)


def test_distances_are_those_of_the_values() -> None:
    values = np.array([1.0, 2, 4, 5])
    assert disagreement_weights(values, "none").sum() == 12
    assert disagreement_weights(values, "quadratic")[0].tolist() == [0, 1, 9, 16]
    with pytest.raises(NameUnknownError, match="`weighting` is 'square'"):
        disagreement_weights(values, "square")  # type: ignore[arg-type]


def test_an_empty_table_is_undefined() -> None:
    nothing = np.zeros((2, 2))
    for found in (kappa(nothing), max_kappa(nothing), raw_agreement(nothing), stuart_maxwell_test(nothing)):
        assert np.isnan(found)


def test_many_tables_at_once() -> None:
    tables = np.random.default_rng(0).integers(1, 9, (2, 3, 4, 4)).astype(float)
    values = np.arange(4.0)
    for weighting in ("none", "linear", "quadratic"):
        one_by_one = [[float(kappa(t, values, weighting)) for t in row] for row in tables]
        assert kappa(tables, values, weighting) == pytest.approx(np.array(one_by_one))
    assert raw_agreement(tables).shape == (2, 3)


# -- several annotators --------------------------------------------------------------------------------------------


def ratings(seed: int, units: int = 25, people: int = 4, gaps: float = 0.0) -> FloatArray:
    rng = np.random.default_rng(seed)
    table: FloatArray = np.clip(rng.integers(0, 4, (units, 1)) + rng.integers(-1, 2, (units, people)), 0, 3).astype(
        float
    )
    table[rng.random(table.shape) < gaps] = np.nan
    return table


@pytest.mark.parametrize("seed", range(5))
def test_fleiss_is_statsmodels(seed: int) -> None:
    table = ratings(seed)
    unit, _annotator, value = to_long_form(table)
    expected = fleiss_kappa(aggregate_raters(table.astype(int))[0])
    assert measure_value(fleiss_kappa_measure(pairable_judgments(unit, value))) == pytest.approx(
        float(expected), abs=1e-12
    )


def test_fleiss_own_example() -> None:
    """Fleiss (1971): 30 patients, 6 psychiatrists, 5 diagnoses; kappa .430."""
    counts = np.array(
        [
            [0, 0, 0, 6, 0],
            [0, 3, 0, 0, 3],
            [0, 1, 4, 0, 1],
            [0, 0, 0, 0, 6],
            [0, 3, 0, 3, 0],
            [2, 0, 4, 0, 0],
            [0, 0, 4, 0, 2],
            [2, 0, 3, 1, 0],
            [2, 0, 0, 4, 0],
            [0, 0, 0, 0, 6],
            [1, 0, 0, 5, 0],
            [1, 1, 0, 4, 0],
            [0, 3, 3, 0, 0],
            [1, 0, 0, 5, 0],
            [0, 2, 0, 3, 1],
            [0, 0, 5, 0, 1],
            [3, 0, 0, 1, 2],
            [5, 1, 0, 0, 0],
            [0, 2, 0, 4, 0],
            [1, 0, 2, 0, 3],
            [0, 0, 0, 0, 6],
            [0, 1, 0, 5, 0],
            [0, 2, 0, 1, 3],
            [2, 0, 0, 4, 0],
            [1, 0, 0, 4, 1],
            [0, 5, 0, 1, 0],
            [4, 0, 0, 0, 2],
            [0, 2, 0, 4, 0],
            [1, 0, 5, 0, 0],
            [0, 0, 0, 0, 6],
        ]
    )
    unit = np.repeat(np.arange(30), 6)
    value = np.concatenate([np.repeat(np.arange(5.0), row) for row in counts])
    assert measure_value(fleiss_kappa_measure(pairable_judgments(unit, value))) == pytest.approx(0.430, abs=5e-4)


def test_raw_agreement_counts_pairs_of_answers() -> None:
    table = ratings(3, gaps=0.3)
    unit, _annotator, value = to_long_form(table)
    same = total = 0
    for row in table:
        there = row[np.isfinite(row)]
        for i in range(len(there)):
            for j in range(i):
                same, total = same + (there[i] == there[j]), total + 1
    assert measure_value(raw_agreement_measure(pairable_judgments(unit, value))) == pytest.approx(same / total)


def test_intervals_and_undefined() -> None:
    unit, _annotator, value = to_long_form(ratings(1, gaps=0.3))
    answers = pairable_judgments(unit, value, item=unit // 2)
    for found in bootstrap_intervals([raw_agreement_measure(answers), fleiss_kappa_measure(answers)], 200):
        assert found.low < found.value < found.high
    equal = pairable_judgments(np.repeat(np.arange(4), 2), np.ones(8))
    assert measure_value(raw_agreement_measure(equal)) == 1
    assert np.isnan(measure_value(fleiss_kappa_measure(equal)))
