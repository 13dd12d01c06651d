"""Intervals of correlations: published numbers, the bootstrap over items, and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, pearsonr

from aliquot.stats.correlation import Coefficient, CorrelationLevel, correlate_tables
from aliquot.stats.correlation_intervals import fisher_interval, table_interval


def tables(seed: int, items: int = 120, systems: int = 4, shared: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores whose items share a difficulty, which metric and people both see."""
    rng = np.random.default_rng(seed)
    difficulty = shared * rng.normal(size=(items, 1))
    human = difficulty + rng.normal(size=(items, systems))
    metric = difficulty + 0.5 * human + rng.normal(size=(items, systems))
    return metric, human


def test_fishers_interval_is_scipys():
    rng = np.random.default_rng(1)
    x = rng.normal(size=40)
    y = x + rng.normal(size=40)
    found = pearsonr(x, y)
    wanted = found.confidence_interval(0.9)
    assert fisher_interval(found.statistic, 40, confidence=0.9) == pytest.approx((wanted.low, wanted.high))


def test_intervals_that_are_not_there():
    assert np.isnan(fisher_interval(0.5, 4)).all()
    assert np.isnan(fisher_interval(1.0, 40)).all()
    metric, human = tables(1)
    assert np.isnan(table_interval(metric, human, 0.5, "kendall_b", "pooled")).all()
    assert np.isnan(table_interval(metric[:4], human[:4], 0.5, "pearson", "pooled")).all()


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
@pytest.mark.parametrize("level", ["pooled", "within_system", "within_item"])
def test_as_wide_as_the_bootstrap_over_items(coefficient: Coefficient, level: CorrelationLevel):
    metric, human = tables(2)
    metric[::7, 1] = np.nan
    value = correlate_tables(metric, human, coefficient, level).value
    low, high = table_interval(metric, human, value, coefficient, level)
    rng = np.random.default_rng(3)
    drawn = []
    for _ in range(400):
        rows = rng.integers(len(metric), size=len(metric))
        drawn.append(correlate_tables(metric[rows], human[rows], coefficient, level).value)
    wanted = np.quantile(drawn, [0.025, 0.975])
    assert low < value < high
    assert high - low == pytest.approx(wanted[1] - wanted[0], rel=0.15)


@pytest.mark.parametrize("level", ["pooled", "within_system"])
def test_coverage_where_items_share_difficulty(level: CorrelationLevel):
    """95% intervals hold the correlation of 100,000 items in 92 to 98 of 100 samples; Fisher's, pooled, would not."""
    truth = correlate_tables(*tables(0, items=100_000), "pearson", level).value
    hits = fisher = 0
    for seed in range(1, 301):
        metric, human = tables(seed, items=60)
        value = correlate_tables(metric, human, "pearson", level).value
        low, high = table_interval(metric, human, value, "pearson", level)
        hits += low <= truth <= high
        naive = fisher_interval(value, metric.size)
        fisher += naive[0] <= truth <= naive[1]
    assert 0.92 <= hits / 300 <= 0.98
    assert fisher < hits - 15


def test_between_systems_the_number_of_systems_counts_by_hand() -> None:
    """Fisher: tanh(artanh r +- 1.96 / sqrt(M - 3)) for the systems that have the metric."""
    rng = np.random.default_rng(0)
    human, metric = rng.normal(size=(2, 30, 8))
    metric[:, 7] = np.nan
    expected = np.tanh(np.arctanh(0.5) + np.array([-1, 1]) * norm.ppf(0.975) / np.sqrt(7 - 3))
    assert table_interval(metric, human, 0.5, "pearson", "system_means") == pytest.approx(expected)
