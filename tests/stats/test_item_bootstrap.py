"""Intervals by resampling items: against a plain bootstrap, their coverage, and undefined draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray
from aliquot.stats.resampling import (
    AdditiveMeasure,
    bootstrap_counts,
    bootstrap_intervals,
    measure_value,
    sparse_sum_by_item,
    sum_by_item,
)


def ratio(total: FloatArray) -> FloatArray:
    return np.asarray(total[:, 0] / total[:, 1])


def mean_measure(values: FloatArray) -> AdditiveMeasure:
    return AdditiveMeasure(np.column_stack([values, np.ones(len(values))]), ratio)


def test_counts_are_those_of_draws_with_replacement() -> None:
    counts = bootstrap_counts(np.random.default_rng(3), 1000, 7, 7)
    assert counts.shape == (1000, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(7), abs=0.15)
    assert counts.var() == pytest.approx(6 / 7, abs=0.06)  # binomial(7, 1/7)


def test_same_seed_same_interval() -> None:
    measure = mean_measure(np.random.default_rng(0).normal(size=40))
    assert bootstrap_intervals([measure], 300, seed=5) == bootstrap_intervals([measure], 300, seed=5)
    assert bootstrap_intervals([measure], 300, seed=5) != bootstrap_intervals([measure], 300, seed=6)


def test_interval_of_a_mean_is_the_t_interval_nearly() -> None:
    values = np.random.default_rng(1).normal(size=60)
    found = bootstrap_intervals([mean_measure(values)], 20_000, seed=2)[0]
    half = stats.t.ppf(0.975, 59) * values.std(ddof=1) / np.sqrt(60)
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)


def test_coverage_with_few_items() -> None:
    rng, inside = np.random.default_rng(4), 0
    for _ in range(400):
        found = bootstrap_intervals([mean_measure(rng.normal(size=8))], 400, seed=rng)[0]
        inside += found.low <= 0 <= found.high
    assert 0.92 <= inside / 400 <= 0.98  # plain percentiles cover about 0.89 here


def test_sparse_and_dense_sums_agree() -> None:
    sums = np.random.default_rng(5).normal(size=(30, 2)) ** 2
    dense = bootstrap_intervals([AdditiveMeasure(sums, ratio)], 200, seed=1)
    assert bootstrap_intervals([AdditiveMeasure(sparse.csr_array(sums), ratio)], 200, seed=1)[0] == pytest.approx(
        dense[0]
    )


def test_sums_over_items() -> None:
    item, values = np.array([2, 0, 2]), np.array([1.0, 5.0, 3.0])
    assert sum_by_item(item, [values, np.ones(3)], 3).tolist() == [[5, 1], [0, 0], [4, 2]]
    assert sparse_sum_by_item(item, np.array([1, 0, 1]), values, (3, 2)).toarray().tolist() == [[5, 0], [0, 0], [0, 4]]


def test_undefined_draws_give_no_interval() -> None:
    mostly = AdditiveMeasure(np.eye(5), lambda total: np.where(total[:, 0] > 0, 1.0, np.nan))  # undefined in a third
    rarely = AdditiveMeasure(np.ones((5, 1)), lambda total: total[:, 0])
    first, second = bootstrap_intervals([mostly, rarely], 500)
    assert first.value == 1
    assert np.isnan(first.low)
    assert (second.low, second.high) == (5, 5)


def test_a_coefficient_that_drawing_shifts_has_no_interval() -> None:
    """The number of different items drawn is always lower than the number of items."""

    def different(total: FloatArray) -> FloatArray:
        return np.asarray((total > 0).mean(axis=1))

    found = bootstrap_intervals([AdditiveMeasure(np.eye(30), different)], 200)[0]
    assert found.value == 1
    assert np.isnan(found.low)


@pytest.mark.parametrize("items", [0, 1])
def test_too_few_items(items: int) -> None:
    found = bootstrap_intervals([mean_measure(np.arange(float(items)))], 100)[0]
    assert np.isnan(found.low)
    assert np.isnan(found.value) == (items == 0)


def test_no_draws_and_no_measures() -> None:
    assert np.isnan(bootstrap_intervals([mean_measure(np.arange(4.0))], 0)[0].high)
    assert bootstrap_intervals([], 100) == []
    assert measure_value(mean_measure(np.arange(4.0))) == 1.5


@pytest.mark.parametrize(("draws", "confidence"), [(-1, 0.95), (10, 0.0), (10, 1.0)])
def test_bad_options(draws: int, confidence: float) -> None:
    with pytest.raises(OptionError):
        bootstrap_intervals([mean_measure(np.arange(4.0))], draws, confidence=confidence)
