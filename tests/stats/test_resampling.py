"""Resampled sums: their spread is the analytic one, jointly over columns; same seed, same draws."""

from __future__ import annotations

import numpy as np
import pytest

from aliquot.stats import resampling as bootstrap
from aliquot.stats.arrays import FloatArray
from aliquot.stats.resampling import bootstrap_sums

DRAWS = 20_000


def some_units(n: int = 40) -> FloatArray:
    """Two correlated columns, the second one skewed."""
    rng = np.random.default_rng(7)
    shared = rng.normal(size=n)
    return np.column_stack([shared, 0.6 * shared + rng.exponential(size=n)])


@pytest.mark.parametrize("n", [5, 40, 400])
def test_spread_and_correlation_are_the_analytic_ones(n):
    units = some_units(n)
    centred = units - units.mean(axis=0)
    expected = centred.T @ centred
    found = np.cov(bootstrap_sums(units, DRAWS, seed=1).T, ddof=0)
    assert np.sqrt(np.diag(found) / np.diag(expected)) == pytest.approx([1.0, 1.0], abs=0.02)
    assert found[0, 1] == pytest.approx(expected[0, 1], rel=0.05)


def test_sums_vary_about_nothing_and_keep_the_skew():
    units = np.append(np.zeros(19), 1.0)[:, None]
    sums = bootstrap_sums(units, DRAWS, seed=2)
    assert sums.mean() == pytest.approx(0.0, abs=0.03)
    assert ((sums - sums.mean()) ** 3).mean() > 0.5
    # The lone unit comes k times with binomial chances: none of it in (19/20)^20 = 36% of the draws.
    assert float((sums < -0.9).mean()) == pytest.approx(0.95**20, abs=0.01)


def test_a_constant_in_the_units_does_not_matter():
    units = some_units()
    assert bootstrap_sums(units + 5.0, 50, seed=3) == pytest.approx(bootstrap_sums(units, 50, seed=3))


def test_same_seed_same_draws():
    units = some_units()
    assert (bootstrap_sums(units, 100, seed=4) == bootstrap_sums(units, 100, seed=4)).all()
    assert (bootstrap_sums(units, 100, seed=4) == bootstrap_sums(units, 100, np.random.default_rng(4))).all()
    assert not (bootstrap_sums(units, 100, seed=4) == bootstrap_sums(units, 100, seed=5)).any()


def test_draws_do_not_depend_on_how_they_are_cut_into_blocks(monkeypatch):
    units = some_units()
    whole = bootstrap_sums(units, 101, seed=6)
    monkeypatch.setattr(bootstrap, "_COUNTS_BLOCK", 40 * 7)
    assert bootstrap_sums(units, 101, seed=6) == pytest.approx(whole)
