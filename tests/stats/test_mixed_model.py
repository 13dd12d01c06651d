"""Means from any set of judged cells: against the textbook's matrices, exact small cases, and Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.stats.mixed_model import (
    cell_covariance,
    item_effect_means,
    item_overlap,
    item_share,
    nearest_covariance,
    pooling_factors,
    shrink_to_common_mean,
)


def ragged(seed: int, n: int = 30, m: int = 4, kept: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(n, 1)) + rng.normal(size=(n, m)) + np.arange(m)
    cells[rng.random((n, m)) > kept] = np.nan
    cells[:m][np.eye(m, dtype=bool)] = rng.normal(size=m)  # every system has a cell
    return cells


@given(st.integers(0, 10_000), st.floats(0.0, 0.9))
@settings(max_examples=30, deadline=None)
def test_means_are_generalised_least_squares(seed: int, share: float) -> None:
    """Against V^-1 written out as one matrix over all judged cells."""
    cells = ragged(seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(cells))
    item, system = np.nonzero(np.isfinite(cells))
    y = cells[item, system]
    design = (system[:, None] == np.arange(4)).astype(float)
    left, right = np.zeros((4, 4)), np.zeros(4)
    for i in np.unique(item):
        rows = item == i
        inverse = weight[i] * np.linalg.inv((1 - share) * np.eye(rows.sum()) + share)
        left += design[rows].T @ inverse @ design[rows]
        right += design[rows].T @ inverse @ y[rows]
    means, influence = item_effect_means(cells, weight, share)
    np.testing.assert_allclose(means, np.linalg.solve(left, right), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(influence.sum(axis=0), 0.0, atol=1e-8)


@given(st.integers(0, 10_000), st.floats(0.0, 0.9))
@settings(max_examples=30, deadline=None)
def test_complete_cells_give_weighted_means(seed: int, share: float) -> None:
    cells, weight = ragged(seed, kept=1.1), np.random.default_rng(seed).uniform(0.5, 2.0, 30)
    means, _ = item_effect_means(cells, weight, share)
    np.testing.assert_allclose(means, weight @ cells / weight.sum(), rtol=1e-9)
    np.testing.assert_allclose(cell_covariance(cells, np.ones(30)), np.cov(cells.T), rtol=1e-9)


def test_the_share_of_items_is_found_and_never_negative() -> None:
    rng = np.random.default_rng(1)
    item, noise = rng.normal(size=(5000, 1)), rng.normal(size=(5000, 4))
    cells = np.where(rng.random((5000, 4)) < 0.5, 2 * item + noise, np.nan)
    assert item_share(cells, np.ones(5000)) == pytest.approx(0.8, abs=0.03)
    opposed = np.column_stack([item, -item])
    assert item_share(opposed, np.ones(5000)) == 0.0
    assert item_share(np.where(np.eye(3, dtype=bool), 1.0, np.nan), np.ones(3)) == 0.0


def test_covariance_of_means_of_two_overlapping_samples() -> None:
    """Exact by simulation: Cov = (n_st / (n_s n_t) - 1/N) S_st for samples that share n_st of N items."""
    rng = np.random.default_rng(2)
    population = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=40)
    spread = np.cov(population.T)[0, 1]
    for shared in (0, 4, 10):
        draws = np.array([rng.permutation(40) for _ in range(20_000)])
        first, second = draws[:, :10], draws[:, 10 - shared : 20 - shared]
        means = population[first, 0].mean(axis=1), population[second, 1].mean(axis=1)
        expected = (shared / 100 - 1 / 40) * spread
        assert np.cov(*means)[0, 1] == pytest.approx(expected, abs=4 * 0.1 / np.sqrt(20_000))


def test_small_helpers() -> None:
    factors = pooling_factors(np.array([4.0, 1.0, np.nan]), np.array([3, 300, 1]))
    assert factors[0] < 1 < factors[1] * 1.01
    assert factors[2] == 1.0
    matrix = np.array([[1.0, 2.0, np.nan], [2.0, 1.0, np.nan], [np.nan, np.nan, np.nan]])
    assert np.linalg.eigvalsh(nearest_covariance(matrix)[:2, :2]).min() >= -1e-12
    counts, shares = item_overlap(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]))
    assert counts.tolist() == [3, 2]
    assert shares[0, 1] == 1.0
    values = np.array([1.0, 2.0, 9.0])
    drawn = shrink_to_common_mean(values, 4 * np.eye(3))
    assert drawn.mean() == pytest.approx(values.mean())
    assert np.ptp(drawn) < np.ptp(values)


def test_the_nearest_covariance_by_hand() -> None:
    """Eigenvalues 3 and -1 become 3 and 0; what is missing stays, what fits is returned as it is."""
    assert nearest_covariance(np.array([[1.0, 2.0], [2.0, 1.0]])) == pytest.approx(np.full((2, 2), 1.5))
    with_gap = np.array([[1.0, np.nan, 2.0], [np.nan] * 3, [2.0, np.nan, 1.0]])
    found = nearest_covariance(with_gap)
    assert found[np.ix_([0, 2], [0, 2])] == pytest.approx(np.full((2, 2), 1.5))
    assert np.isnan(found[1]).all()
    fits = np.array([[2.0, 1.0], [1.0, 1.0]])
    assert nearest_covariance(fits) is fits


def test_the_covariance_of_one_system_and_of_one_item_by_hand() -> None:
    assert cell_covariance(np.array([[1.0], [3.0], [8.0]]), np.ones(3)) == pytest.approx(np.array([[13.0]]))
    assert cell_covariance(np.array([[2.0, 3.0]]), np.ones(1)).tolist() == [[0.0, 0.0], [0.0, 0.0]]
