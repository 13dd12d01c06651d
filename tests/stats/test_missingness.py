"""Whether gaps depend on a covariate or a column: exact small cases, references, and the level under random gaps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest
from statsmodels.stats.contingency_tables import StratifiedTable, cochrans_q

from aliquot.stats.missingness import cochran_q_test, missingness_test

ALL = np.ones((60, 4), dtype=bool)


def test_cochrans_q():
    present = np.random.default_rng(3).random((60, 4)) < [0.9, 0.7, 0.8, 0.6]
    assert cochran_q_test(present, ALL) == pytest.approx(cochrans_q(present.astype(int)).pvalue, rel=1e-9)


def test_two_columns_are_mantel_haenszel():
    """Rows are strata of two cells each."""
    present = np.random.default_rng(4).random((60, 2)) < [0.9, 0.6]
    tables = [np.array([[row[0], 1 - row[0]], [row[1], 1 - row[1]]], dtype=float) for row in present]
    reference = StratifiedTable([table for table in tables if table[:, 0].sum() == 1])
    assert cochran_q_test(present, ALL[:, :2]) == pytest.approx(
        reference.test_null_odds(correction=False).pvalue, rel=1e-9
    )


def test_cells_that_were_not_asked_for_do_not_count():
    rng = np.random.default_rng(5)
    asked = rng.random((300, 3)) < [0.3, 0.9, 0.9]
    assert cochran_q_test(asked & (rng.random((300, 3)) < 0.8), asked) > 0.01
    assert cochran_q_test(asked & (rng.random((300, 3)) < [0.6, 0.9, 0.9]), asked) < 1e-4


def test_no_gaps_say_nothing():
    assert np.isnan(cochran_q_test(ALL, ALL))
    assert np.isnan(missingness_test(np.ones((60, 4)), ALL, ALL, np.arange(60)).p).all()


def test_rows_missing_as_a_whole_are_even():
    present = ALL.copy()
    present[:20] = False
    assert np.isnan(cochran_q_test(present, ALL))


def test_relation_by_hand():
    """z = sum of (there - share)(x - mean) over its root sum of squares."""
    x = np.arange(12.0)[:, None]
    present = (np.arange(12) >= 6)[:, None]
    parts = (present[:, 0] - 0.5) * (x[:, 0] - 5.5)
    found = missingness_test(x, present, np.ones((12, 1), dtype=bool), np.arange(12))
    from scipy.stats import t

    assert found.p[0] == pytest.approx(2 * t.sf(parts.sum() / np.sqrt((parts**2).sum()), 5))
    assert found.difference[0] == pytest.approx(-6 / x.std())


@pytest.mark.parametrize("whole", [False, True])
def test_random_gaps_stay_silent(whole):
    """The level holds, also where whole units of correlated rows are missing together."""
    rng = np.random.default_rng(6)
    ps = []
    for _ in range(300):
        units = np.arange(120) // 4
        x = rng.normal(size=30)[units][:, None] + 0.3 * rng.normal(size=(120, 2))
        gaps = rng.random((30, 2))[units] if whole else rng.random((120, 2))
        ps.append(missingness_test(x, gaps > 0.2, np.ones((120, 2), dtype=bool), units).p)
    p = np.array(ps)[np.isfinite(ps)]
    assert (p < 0.01).mean() < 0.015
    assert (p < 0.1).mean() < 0.12
    assert kstest(p, "uniform", alternative="greater").pvalue > 1e-3
