"""All pairs of annotators at once: against scipy and scikit-learn pair by pair, and draws against items written out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ConstantInputWarning, pearsonr, spearmanr
from sklearn.metrics import cohen_kappa_score

from aliquot.stats import annotator_pairs as module
from aliquot.stats.agreement import kappa
from aliquot.stats.alpha import pairable_judgments, to_long_form
from aliquot.stats.annotator_pairs import (
    AnnotatorPairs,
    contingency_tables,
    find_annotator_pairs,
    mean_over_pairs,
    moments_from_tables,
    pair_moments,
    pearson_from_moments,
    pearson_from_tables,
    pearson_measure,
    spearman_from_tables,
    spearman_pairs,
    table_measure,
)
from aliquot.stats.arrays import FloatArray
from aliquot.stats.resampling import WeightedMeasure, bootstrap_intervals, measure_value


def ratings(seed: int = 0, units: int = 40, people: int = 5, values: int = 5, gaps: float = 0.3) -> FloatArray:
    rng = np.random.default_rng(seed)
    table: FloatArray = rng.integers(0, values, (units, 1)) + rng.integers(-1, 2, (units, people)).astype(float)
    table[rng.random(table.shape) < gaps] = np.nan
    return table


def pairs_of(table: FloatArray) -> AnnotatorPairs:
    unit, annotator, value = to_long_form(table)
    return find_annotator_pairs(pairable_judgments(unit, value), annotator, table.shape[1])


def both(table: FloatArray, a: int, b: int) -> tuple[FloatArray, FloatArray]:
    shared = np.isfinite(table[:, [a, b]]).all(axis=1)
    return table[shared, a], table[shared, b]


def scipys(function: Callable[..., Any], x: FloatArray, y: FloatArray) -> float:
    if len(x) < 3:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        return float(function(x, y)[0])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.4, 0.8]))
def test_every_pair_is_as_scipy_has_it(seed: int, gaps: float) -> None:
    table = ratings(seed, units=15, people=4, gaps=gaps)
    pairs = pairs_of(table)
    counts, values = contingency_tables(pairs), pairs.judgments.values
    by_moments = pearson_from_moments(pair_moments(pairs))
    ranked = spearman_pairs(pairs).correlate_pairs(np.ones((1, pairs.judgments.items)))[0][0]
    for at, (a, b) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        x, y = both(table, a, b)
        assert len(x) == pairs.shared[at] == counts[at].sum()
        assert by_moments[at] == pytest.approx(scipys(pearsonr, x, y), abs=1e-9, nan_ok=True)
        assert pearson_from_tables(counts[at], values) == pytest.approx(scipys(pearsonr, x, y), abs=1e-9, nan_ok=True)
        assert spearman_from_tables(counts[at]) == pytest.approx(scipys(spearmanr, x, y), abs=1e-9, nan_ok=True)
        assert ranked[at] == pytest.approx(scipys(spearmanr, x, y), abs=1e-9, nan_ok=True)
        if len(np.unique(np.concatenate([x, y]))) > 1:
            assert kappa(counts[at]) == pytest.approx(cohen_kappa_score(x, y), abs=1e-9)


def test_all_pairs_with_shared_units_are_there() -> None:
    table = np.array([[1, 2, np.nan, np.nan], [2, 2, np.nan, 1], [np.nan, np.nan, 3, np.nan]])
    pairs = pairs_of(table)
    assert list(zip(pairs.first, pairs.second, pairs.shared, strict=True)) == [(0, 1, 2), (0, 3, 1), (1, 3, 1)]
    assert pairs.rows == 4


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = pairs_of(ratings(3))
    whole, sums = contingency_tables(pairs), pair_moments(pairs)
    monkeypatch.setattr(module, "_CHUNK", 7)
    assert (contingency_tables(pairs) == whole).all()
    assert pair_moments(pairs) == pytest.approx(sums)


def test_tables_only_for_few_answers() -> None:
    assert pairs_of(ratings(values=5)).tabulated
    assert not pairs_of(ratings(values=40, units=200)).tabulated


def test_scale_does_not_matter() -> None:
    table = ratings(4)
    for scaled in (1e-9 * table, 1e9 * table + 1e12):
        pairs, other = pairs_of(table), pairs_of(scaled)
        assert pearson_from_moments(pair_moments(other)) == pytest.approx(
            pearson_from_moments(pair_moments(pairs)), abs=1e-4
        )
        assert pearson_from_tables(contingency_tables(other), other.judgments.values) == pytest.approx(
            pearson_from_tables(contingency_tables(pairs), pairs.judgments.values), abs=1e-4
        )


def drawn(pairs: AnnotatorPairs, table: FloatArray, weight: FloatArray, function: Callable[..., Any]) -> float:
    """The mean over pairs of items written out as often as they were drawn."""
    rows = np.repeat(np.arange(len(table)), weight.astype(int))
    values = [scipys(function, *both(table[rows], a, b)) for a, b in zip(pairs.first, pairs.second, strict=True)]
    shared = [len(both(table[rows], a, b)[0]) for a, b in zip(pairs.first, pairs.second, strict=True)]
    return float(mean_over_pairs(np.array(values), np.array(shared, dtype=float)))


def test_draws_are_coefficients_of_the_items_drawn() -> None:
    table = ratings(5, gaps=0.0, people=3)  # without gaps items are rows
    pairs = pairs_of(table)
    weights = np.random.default_rng(0).integers(0, 3, (4, len(table))).astype(float)
    values = pairs.judgments.values
    cases: list[tuple[Callable[..., Any], list[WeightedMeasure]]] = [
        (pearsonr, [pearson_measure(pairs), table_measure(pairs, lambda counts: pearson_from_tables(counts, values))]),
        (spearmanr, [spearman_pairs(pairs), table_measure(pairs, spearman_from_tables)]),
    ]
    for function, measures in cases:
        expected = [drawn(pairs, table, weight, function) for weight in weights]
        for measure in measures:
            assert measure(weights) == pytest.approx(expected, abs=1e-10)


def test_intervals_agree_whichever_way() -> None:
    pairs = pairs_of(ratings(6))
    values = pairs.judgments.values
    by_table = table_measure(pairs, lambda counts: pearson_from_tables(counts, values))
    first, second = bootstrap_intervals([by_table, pearson_measure(pairs)], 100, seed=1)
    assert first == pytest.approx(second)
    assert measure_value(spearman_pairs(pairs)) == pytest.approx(
        measure_value(table_measure(pairs, spearman_from_tables))
    )


def test_nothing_to_compare() -> None:
    pairs = pairs_of(np.array([[1.0, np.nan], [np.nan, 2.0]]))
    assert (len(pairs.first), pairs.rows) == (0, 0)
    assert contingency_tables(pairs).shape == (0, 0, 0)
    assert pair_moments(pairs).shape == (0, 6)


def test_the_mean_leaves_undefined_pairs_out() -> None:
    assert mean_over_pairs(np.array([0.5, np.nan]), np.array([4.0, 9.0])) == 0.5
    assert np.isnan(mean_over_pairs(np.array([np.nan]), np.array([4.0])))


def test_moments_of_tables_are_those_of_the_rows() -> None:
    pairs = pairs_of(ratings(3))
    np.testing.assert_allclose(
        moments_from_tables(contingency_tables(pairs), pairs.judgments.values), pair_moments(pairs), atol=1e-9
    )
    found = moments_from_tables(np.array([[[2.0, 1.0], [0.0, 3.0]]]), np.array([3.0, 5.0]))  # as -1/2 and 1/2
    assert found.tolist() == [[6.0, 0.0, 1.0, 1.5, 1.5, 1.0]]
