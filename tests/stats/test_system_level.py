"""Metrics against people at the system level: counted pairs, p-values by definition, and systems left out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm, weightedtau

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import correlate_tables
from aliquot.stats.system_correlation import (
    extreme_curves,
    leave_one_system_out,
    nested_statistic,
    soft_pairwise_accuracy,
    weighted_tau,
)
from aliquot.stats.system_correlation import metric_pairwise_accuracy as pairwise_accuracy
from aliquot.stats.tied_correlation import kendall_like, nested_kendall_like


def table(seed: int = 0, items: int = 50, systems: int = 6, holes: float = 0.0) -> FloatArray:
    rng = np.random.default_rng(seed)
    human = rng.normal(size=(items, systems)) + 0.2 * np.arange(systems)
    both = np.stack([human + rng.normal(size=human.shape), human])
    both[rng.random(both.shape) < holes] = np.nan
    return both


def system_pearson(metric: FloatArray, human: FloatArray) -> float:
    return correlate_tables(metric, human, "pearson", "system_means").value


@given(arrays(np.float64, st.tuples(st.just(2), st.just(1), st.integers(1, 7)), elements=st.integers(0, 4).map(float)))
@settings(max_examples=60, deadline=None)
def test_pairwise_accuracy_is_counted(tables: FloatArray) -> None:
    metric, human = tables
    pairs = [
        (metric[0, a] - metric[0, b], human[0, a] - human[0, b]) for a, b in combinations(range(metric.shape[1]), 2)
    ]
    ordered = [(change, wanted) for change, wanted in pairs if wanted != 0]
    right, tied = sum(c * w > 0 for c, w in ordered), sum(c == 0 for c, _ in ordered)
    for ties, points, out_of in (
        ("half", right + tied / 2, len(ordered)),
        ("discordant", right, len(ordered)),
        ("skip", right, len(ordered) - tied),
    ):
        result = pairwise_accuracy(metric, human, ties)  # type: ignore[arg-type]
        assert result.value == pytest.approx(points / out_of if out_of else float("nan"), nan_ok=True)
        assert (result.systems, result.pairs) == (metric.shape[1], out_of)


def test_accuracy_takes_means_on_common_cells() -> None:
    metric, human = np.array([[9.0, 1.0], [0.0, 1.0]]), np.array([[np.nan, 2.0], [3.0, 1.0]])
    # Without the item that people did not judge, the metric puts the first system last.
    assert pairwise_accuracy(metric, human).value == 0


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_soft_accuracy_is_its_definition(holes: float) -> None:
    metric, human = table(1, holes=holes)
    apart = []
    for a, b in combinations(range(6), 2):
        p = []
        for scores in (metric, human):
            d = scores[:, a] - scores[:, b]
            d = d[~np.isnan((metric + human)[:, a] + (metric + human)[:, b])]
            p.append(norm.sf(d.sum() / np.sqrt((d**2).sum())))
        apart.append(abs(p[0] - p[1]))
    result = soft_pairwise_accuracy(metric, human)
    assert result.value == pytest.approx(1 - np.mean(apart), abs=1e-9)
    assert (result.systems, result.pairs) == (6, 15)


def test_soft_accuracy_by_permutation_is_near_and_seeded() -> None:
    metric, human = table(2)
    by_permutation = soft_pairwise_accuracy(metric, human, 4000, seed=1)
    assert by_permutation.value == pytest.approx(soft_pairwise_accuracy(metric, human).value, abs=0.02)
    assert by_permutation == soft_pairwise_accuracy(metric, human, 4000, seed=1)
    assert soft_pairwise_accuracy(10 * human, human, 50, np.random.default_rng(0)).value == 1


def test_soft_accuracy_leaves_out_what_never_meets() -> None:
    metric, human = table(3, 20, 4)
    human[:10, 0] = np.nan
    human[10:, 1] = np.nan
    metric[:, 3] = np.nan
    result = soft_pairwise_accuracy(metric, human)
    assert (result.systems, result.pairs) == (3, 2)
    assert soft_pairwise_accuracy(human, human).value == 1


@given(arrays(float, (3, 6), elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0, 7.0])))
def test_weighted_tau_is_that_of_scipy(rows: FloatArray) -> None:
    values, truth = rows[:2], rows[2]
    expected = [weightedtau(truth, row, weigher=lambda rank: 1.0 / (rank + 1.0) ** 2).statistic for row in values]
    assert weighted_tau(values, truth) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_extremes() -> None:
    metric, human = table(4, systems=7, holes=0.2)
    order = np.argsort(-np.nanmean(human, axis=0))
    curves = extreme_curves(metric, human, nested_statistic(system_pearson))
    assert curves.order.tolist() == order.tolist()
    assert curves.sizes.tolist() == [7, 6, 5, 4, 3]
    for at, n in enumerate(curves.sizes):
        top, last = (system_pearson(metric[:, some], human[:, some]) for some in (order[:n], order[-n:]))
        assert (curves.top[at], curves.last[at]) == pytest.approx((top, last), abs=1e-12)
    assert curves.top[0] == pytest.approx(curves.last[0])


def test_extremes_within_items() -> None:
    """Paper 9 draws the curves for the Kendall-like agreement within items."""
    metric, human = table(5)
    curves = extreme_curves(metric, human, nested_kendall_like)
    assert curves.top[0] == kendall_like(metric, human).value
    best, worst = curves.order[:4], curves.order[-4:]
    at = curves.sizes.tolist().index(4)
    assert curves.top[at] == pytest.approx(kendall_like(metric[:, best], human[:, best]).value, abs=1e-12)
    assert curves.last[at] == pytest.approx(kendall_like(metric[:, worst], human[:, worst]).value, abs=1e-12)


@given(arrays(float, (2, 9, 5), elements=st.sampled_from([0.0, 1.0, 2.0, 3.5, np.nan])))
def test_nested_agreement_is_that_of_every_prefix(tables: FloatArray) -> None:
    metric, human = tables
    expected = [kendall_like(metric[:, :n], human[:, :n]).value for n in range(2, 6)]
    assert nested_kendall_like(metric, human) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_extremes_without_enough_systems() -> None:
    metric, human = table(6, systems=3)
    metric[:, 1] = np.nan
    curves = extreme_curves(metric, human, nested_statistic(system_pearson))
    assert (curves.order.tolist(), curves.sizes.tolist()) == ([2, 0], [])
    with pytest.raises(OptionError, match="`min_systems` is 1"):
        extreme_curves(metric, human, nested_statistic(system_pearson), min_systems=1)


def test_leave_one_out() -> None:
    metric, human = table(7, holes=0.1)
    metric[:, 2] = np.nan
    result = leave_one_system_out(metric, human, system_pearson)
    assert result.full == system_pearson(metric, human)
    expected = [system_pearson(np.delete(metric, a, axis=1), np.delete(human, a, axis=1)) for a in (0, 1, 3, 4, 5)]
    assert result.without[[0, 1, 3, 4, 5]] == pytest.approx(expected)
    assert np.isnan(result.without[2])
    assert (result.low, result.high) == pytest.approx((min(expected), max(expected)))


def test_one_system_and_two() -> None:
    metric, human = table(8, systems=1)
    assert np.isnan(pairwise_accuracy(metric, human).value)
    assert np.isnan(soft_pairwise_accuracy(metric, human).value)
    assert np.isnan(leave_one_system_out(metric, human, system_pearson).low)
    metric, human = table(8, systems=2)
    assert pairwise_accuracy(metric, human).pairs == 1
    assert np.isnan(leave_one_system_out(metric, human, system_pearson).high)


def test_identical_systems_and_a_constant_metric() -> None:
    _, human = table(9)
    human[:, 1] = human[:, 0]
    assert pairwise_accuracy(human, human).pairs == 14
    assert soft_pairwise_accuracy(human, human).value == 1
    constant = pairwise_accuracy(np.full_like(human, 0.1), human)
    assert (constant.value, constant.pairs) == (0.5, 14)
    assert np.isnan(pairwise_accuracy(np.full_like(human, 0.1), human, "skip").value)
