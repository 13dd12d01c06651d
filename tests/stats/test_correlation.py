"""Correlations of vectors, rows and tables against scipy on the cells that both have."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats import correlation as association
from aliquot.stats import correlation as paired_rows
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import (
    Coefficient,
    CorrelationLevel,
    correlate,
    correlate_tables,
    group_correlations,
    paired_kendall,
    paired_pearson,
    paired_spearman,
    pearson,
    rank_rows,
    system_means,
)

COEFFICIENTS = get_args(Coefficient)
SCIPY: dict[str, Callable[[FloatArray, FloatArray], Any]] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall_b": lambda x, y: stats.kendalltau(x, y, variant="b"),
    "kendall_c": lambda x, y: stats.kendalltau(x, y, variant="c"),
}
some_tables = arrays(
    np.float64,
    st.tuples(st.just(2), st.integers(1, 6), st.integers(1, 7)),
    elements=st.one_of(st.integers(-3, 3).map(float), st.just(np.nan)),
)


def by_scipy(x: FloatArray, y: FloatArray, coefficient: str) -> float:
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(SCIPY[coefficient](x, y).statistic)


def problem(seed: int = 0, items: int = 40, systems: int = 6, *, ties: bool = False, holes: float = 0.1) -> FloatArray:
    """Metric and human, items x systems, with gaps in different places."""
    rng = np.random.default_rng(seed)
    human = rng.normal(size=(items, systems)) + 0.3 * np.arange(systems)
    both = np.stack([human + rng.normal(size=human.shape), human])
    both = np.round(both) if ties else both
    both[rng.random(both.shape) < holes] = np.nan
    return both


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@given(tables=some_tables)
@settings(max_examples=60, deadline=None)
def test_rows_are_scipys(coefficient: Coefficient, tables: FloatArray) -> None:
    x, y = tables
    expected = [by_scipy(a, b, coefficient) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(group_correlations(x, y, coefficient, "item"), expected, atol=1e-12)
    np.testing.assert_allclose(group_correlations(x.T, y.T, coefficient, "system"), expected, atol=1e-12)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("ties", [False, True])
def test_long_vectors_are_scipys(coefficient: Coefficient, ties: bool) -> None:
    """Longer than rows that are compared pair by pair: another road for Kendall."""
    x, y = problem(1, 300, 10, ties=ties).reshape(2, -1)
    result = correlate(x, y, coefficient)
    assert result.value == pytest.approx(by_scipy(x, y, coefficient), abs=1e-12)
    assert (result.cells, result.groups, result.undefined) == (int((~np.isnan(x) & ~np.isnan(y)).sum()), 1, 0)


@pytest.mark.parametrize("variant", ["b", "c"])
def test_both_roads_of_kendall_agree(variant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = problem(2, 30, 60, ties=True)
    rows = paired_kendall(x, y, variant)
    monkeypatch.setattr(paired_rows, "_CHUNK", 3000)
    assert np.array_equal(rows, paired_kendall(x, y, variant))
    monkeypatch.setattr(association, "_MAX_PAIRED_COLUMNS", 5)
    np.testing.assert_allclose(group_correlations(x, y, f"kendall_{variant}"), rows, atol=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("ties", [False, True])
def test_levels_are_their_definitions(coefficient: Coefficient, ties: bool) -> None:
    metric, human = problem(3, ties=ties)
    metric[5] = 1.0  # constant on an item
    metric[7, 1:], metric[7, 0], human[7, 0] = np.nan, 1.0, 1.0  # a single cell
    human[9] = np.nan  # an item that nobody judged is no group
    both = ~np.isnan(metric) & ~np.isnan(human)
    pooled = correlate_tables(metric, human, coefficient, "pooled")
    assert pooled.value == pytest.approx(by_scipy(metric.ravel(), human.ravel(), coefficient))
    assert pooled.cells == both.sum()

    of_systems = [by_scipy(metric[:, a], human[:, a], coefficient) for a in range(6)]
    within_system = correlate_tables(metric, human, coefficient, "within_system")
    assert within_system.value == pytest.approx(np.mean(of_systems))
    assert (within_system.cells, within_system.groups, within_system.undefined) == (both.sum(), 6, 0)

    of_items = np.array([by_scipy(x, y, coefficient) for x, y in zip(metric, human, strict=True)])
    within_item = correlate_tables(metric, human, coefficient, "within_item")
    assert within_item.value == pytest.approx(np.nanmean(of_items))
    assert within_item.groups == (~np.isnan(of_items)).sum()
    assert within_item.undefined == (np.isnan(of_items) & both.any(axis=1)).sum() >= 2
    assert within_item.cells == both[~np.isnan(of_items)].sum()

    means = [[table[both[:, a], a].mean() for a in range(6)] for table in (metric, human)]
    of_means = correlate_tables(metric, human, coefficient, "system_means")
    assert of_means.value == pytest.approx(by_scipy(np.array(means[0]), np.array(means[1]), coefficient))
    assert (of_means.cells, of_means.groups) == (6, 1)


@given(tables=some_tables, level=st.sampled_from(get_args(CorrelationLevel)), coefficient=st.sampled_from(COEFFICIENTS))
@settings(max_examples=80, deadline=None)
def test_properties(tables: FloatArray, level: CorrelationLevel, coefficient: Coefficient) -> None:
    metric, human = tables
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = correlate_tables(metric, human, coefficient, level)
    assert np.isnan(result.value) == (result.groups == 0)
    assert np.isnan(result.value) or -1 <= result.value <= 1
    swapped = correlate_tables(human, metric, coefficient, level)
    assert result.value == pytest.approx(swapped.value, nan_ok=True, abs=1e-12)
    against = correlate_tables(-metric, human, coefficient, level)
    assert -against.value == pytest.approx(result.value, nan_ok=True, abs=1e-12)
    assert (against.cells, against.groups, against.undefined) == (result.cells, result.groups, result.undefined)
    order = np.random.default_rng(0).permutation(len(metric))
    shuffled = correlate_tables(metric[order], human[order], coefficient, level)
    assert shuffled.value == pytest.approx(result.value, nan_ok=True, abs=1e-12)


def test_a_gap_never_shifts_the_rows() -> None:
    """A value dropped from one table must not pair its neighbours with another cell's."""
    human = np.random.default_rng(0).normal(size=(5, 4))
    metric = 3 * human + 1
    metric[1, 2] = np.nan
    human[3, 0] = np.nan
    for level in get_args(CorrelationLevel):
        assert correlate_tables(metric, human, "pearson", level).value == pytest.approx(1)


@pytest.mark.parametrize("constant", [0.1, 1e5 / 3, 1e9 + 0.1, 1e-14])
@pytest.mark.parametrize("n", [3, 7, 100])
def test_a_constant_has_no_correlation(constant: float, n: int) -> None:
    """Whatever rounding leaves of it once its mean is taken off: never a false 0."""
    values = np.random.default_rng(n).normal(size=n)
    assert np.isnan(pearson(np.full(n, constant), values))
    assert np.isnan(paired_spearman(np.full((1, n), constant), values[None])[0])


@pytest.mark.parametrize(("scale", "offset"), [(1e-200, 0.0), (1e200, 0.0), (1.0, 1e6), (1e-14, 0.0)])
def test_pearson_of_large_and_small_numbers(scale: float, offset: float) -> None:
    x, y = problem(4, 1, 50, holes=0)[:, 0]
    assert pearson(x * scale + offset, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)


def test_equal_means_are_tied_in_spite_of_rounding() -> None:
    """Sums of different lengths: 0.1 three times is not 0.1 in floating point."""
    metric = np.full((7, 4), 0.1)
    metric[[0, 0, 1], [0, 1, 1]] = np.nan
    human = np.random.default_rng(0).normal(size=(7, 4))
    assert len(set(system_means(metric, human)[0].tolist())) == 1
    for coefficient in COEFFICIENTS:
        assert np.isnan(correlate_tables(metric, human, coefficient, "system_means").value)


def test_ranks_of_rows() -> None:
    ranks = rank_rows(np.array([[2.0, 1.0, 2.0], [np.nan, 5.0, 4.0], [np.nan] * 3]))
    np.testing.assert_array_equal(ranks, [[2.5, 1, 2.5], [np.nan, 2, 1], [np.nan] * 3])


def test_nothing_in_common() -> None:
    metric, human = np.array([[1.0, np.nan], [2.0, np.nan]]), np.array([[np.nan, 1.0], [np.nan, 2.0]])
    for level in get_args(CorrelationLevel):
        result = correlate_tables(metric, human, "pearson", level)
        assert np.isnan(result.value)
        assert (result.cells, result.groups, result.undefined) == (0, 0, 0)


def test_one_and_two_systems() -> None:
    metric, human = problem(5, 30, 1)
    assert np.isnan(correlate_tables(metric, human, "pearson", "system_means").value)
    assert np.isnan(correlate_tables(metric, human, "pearson", "within_item").value)
    assert np.isfinite(correlate_tables(metric, human, "pearson", "within_system").value)
    metric, human = problem(5, 30, 2)
    assert abs(correlate_tables(metric, human, "kendall_c", "system_means").value) == 1


def test_scores_are_left_alone() -> None:
    metric, human = before = problem(6)
    copy = before.copy()
    for level in get_args(CorrelationLevel):
        correlate_tables(metric, human, "kendall_b", level)
    np.testing.assert_array_equal(before, copy)


def test_bad_arguments() -> None:
    table = np.ones((3, 2))
    with pytest.raises(OptionError, match=r"shapes \(3, 2\) and \(2, 3\)"):
        correlate_tables(table, table.T)
    with pytest.raises(OptionError, match="infinite"):
        correlate_tables(table, table * np.inf)
    with pytest.raises(OptionError, match="1 dimension"):
        correlate_tables(table[0], table[0])
    with pytest.raises(OptionError, match="2 dimension"):
        correlate(table, table)
    with pytest.raises(OptionError, match="1 dimension"):
        paired_pearson(table[0], table[0])
    with pytest.raises(NameUnknownError, match="`variant` is 'a'"):
        paired_kendall(table, table, "a")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="did you mean 'spearman'"):
        correlate_tables(table, table, "spearmann")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="`level` is 'items'"):
        correlate_tables(table, table, "pearson", "items")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="unknown grouping 'doc'"):
        group_correlations(table, table, "pearson", "doc")  # type: ignore[arg-type]


def test_accuracy_of_rows_by_hand():
    """A tie on one side is half wrong, on both sides right; a pair with a gap does not count."""
    nan = float("nan")
    rows = np.array([[1, 2, 3], [3, 2, 1], [5, nan, 5], [1, 1, 2], [nan, nan, 1], [nan, 2, 3]], dtype=float)
    assert association.accuracy_with_target(rows, np.array([0.1, 0.2, 0.3])) == pytest.approx(
        [1, 0, 0.5, 2.5 / 3, 0, 1]
    )
    assert association.accuracy_with_target(rows[3:4], np.array([0.2, 0.2, 0.1])) == pytest.approx([1 / 3])
