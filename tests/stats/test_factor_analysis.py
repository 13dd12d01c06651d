"""Factor analysis: R's published solutions, the notes' degrees of freedom, and known structures found again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, spearmanr
from statsmodels.multivariate.factor import Factor

from aliquot.errors import MissingExtraError, OptionError
from aliquot.stats.factor_analysis import (
    correlation_matrix,
    factor_degrees_of_freedom,
    find_worst_variable,
    kmo,
    max_factors,
    ml_factors,
    parallel_analysis,
    promax,
    simple_structure,
)

# ability.cov of R's datasets (Bartholomew 1987), n = 112; solutions as printed by R's factanal and in its manual.
ABILITY = np.array(
    [
        [24.641, 5.991, 33.520, 6.023, 20.755, 29.701],
        [5.991, 6.700, 18.137, 1.782, 4.936, 7.204],
        [33.520, 18.137, 149.831, 19.424, 31.430, 50.753],
        [6.023, 1.782, 19.424, 12.711, 4.757, 9.075],
        [20.755, 4.936, 31.430, 4.757, 52.604, 66.762],
        [29.701, 7.204, 50.753, 9.075, 66.762, 135.292],
    ]
)
SCALE = np.sqrt(np.diag(ABILITY))
R = ABILITY / np.outer(SCALE, SCALE)


def test_one_and_two_factors_as_r_prints_them():
    one = ml_factors(R, 112, 1)
    assert (one.chi2, one.df) == pytest.approx((75.18, 9), abs=0.01)
    np.testing.assert_allclose(1 - one.communality, [0.535, 0.853, 0.748, 0.910, 0.232, 0.280], atol=6e-4)
    two = ml_factors(R, 112, 2)
    assert (two.chi2, two.df, two.p_value) == pytest.approx((6.11, 4, 0.191), abs=0.01)
    np.testing.assert_allclose(1 - two.communality, [0.455, 0.589, 0.218, 0.769, 0.052, 0.334], atol=6e-4)


def test_promax_as_r_prints_it():
    """Factanal(factors = 2, covmat = ability.cov, rotation = "promax"): loadings below 0.1 are not printed there."""
    loadings = ml_factors(R, 112, 2).loadings
    printed = [(0, 0, 0.364), (0, 1, 0.470), (1, 1, 0.671), (2, 1, 0.932), (3, 1, 0.508), (4, 0, 1.023), (5, 0, 0.811)]
    for row, column, value in printed:
        assert loadings[row, column] == pytest.approx(value, abs=2e-3)
    hidden = [loadings[1, 0], loadings[2, 0], loadings[3, 0], loadings[4, 1], loadings[5, 1]]
    assert np.abs(hidden).max() < 0.1


@pytest.mark.parametrize(
    ("variant", "common", "own"),
    [
        # Rows of V = (.8 .4), (.4 .8), (.2 .2). (1 1) and (1 -1) are regressed apart, on targets v^4 and (v / h)^4:
        ("r", (2 * 0.6 * (0.4096 + 0.0256) / 2 + 0.2 * 0.0016) / 0.76, 2 * 0.2 * (0.4096 - 0.0256) / 2 / 0.08),
        ("spss", (2 * 0.6 * (0.64 + 0.04) / 2 + 0.2 * 0.25) / 0.76, 2 * 0.2 * (0.64 - 0.04) / 2 / 0.08),
    ],
)
def test_promax_of_r_and_of_spss_by_hand(variant, common, own):
    """By symmetry T = k [[a b] [b a]], a + b = common, a - b = own; the correlation is (own^2 - common^2) / (sum)."""
    straight = np.array([[0.8, 0.4], [0.4, 0.8], [0.2, 0.2]])
    raw = straight @ np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    pattern, between = promax(raw, variant)
    k = np.sqrt((1 / common**2 + 1 / own**2) / 2)
    half = np.array([0.6 * common * k, 0.2 * own * k])
    expected = [[half.sum(), half[0] - half[1]], [half[0] - half[1], half.sum()], [0.2 * common * k] * 2]
    np.testing.assert_allclose(pattern, expected, atol=1e-4)
    assert between[0, 1] == pytest.approx((own**2 - common**2) / (own**2 + common**2), abs=1e-4)


def test_promax_of_spss_keeps_the_fit():
    r, spss = (ml_factors(R, 112, 2, rotation=rotation) for rotation in ("r", "spss"))
    assert np.abs(r.loadings - spss.loadings).max() > 0.02
    implied = spss.loadings @ spss.correlation @ spss.loadings.T
    np.testing.assert_allclose(implied, r.loadings @ r.correlation @ r.loadings.T, atol=1e-9)
    assert (spss.chi2, spss.df, spss.promax) == (r.chi2, r.df, "spss")


def test_promax_reproduces_what_it_rotates():
    loadings = ml_factors(R, 112, 2)
    implied = loadings.loadings @ loadings.correlation @ loadings.loadings.T
    np.testing.assert_allclose(np.diag(implied), loadings.communality, atol=1e-6)
    raw = Factor(corr=R, n_factor=2, method="ml").fit().loadings
    np.testing.assert_allclose(implied, raw @ raw.T, atol=1e-4)
    pattern, between = promax(raw)
    np.testing.assert_allclose(np.diag(between), 1.0)
    np.testing.assert_allclose(pattern @ between @ pattern.T, raw @ raw.T, atol=1e-9)


def test_degrees_of_freedom_of_the_proceedings():
    """Notes, P3: 8 pairs, 4 factors, chi2 = 2.06, df = 2, p = .36."""
    assert factor_degrees_of_freedom(8, 4) == 2
    assert chi2.sf(2.06, 2) == pytest.approx(0.357, abs=5e-4)
    model = Factor(corr=np.eye(8) * 0.5 + 0.5, n_factor=4, method="ml").fit()
    assert model.df == 2


@given(st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_most_factors_leave_a_degree_of_freedom_or_none(variables):
    most = max_factors(variables)
    assert factor_degrees_of_freedom(variables, most) >= 0 or most == 0
    assert factor_degrees_of_freedom(variables, most + 1) < 0 or most + 1 >= variables


def test_kmo_is_its_formula():
    """Partial correlations by regression of each variable on all others instead of by an inverse."""
    overall, single = kmo(R)
    partial = np.zeros_like(R)
    for i in range(6):
        for j in range(6):
            if i != j:
                k = [other for other in range(6) if other not in (i, j)]
                block = R[np.ix_([i, j], [i, j])] - R[np.ix_([i, j], k)] @ np.linalg.solve(
                    R[np.ix_(k, k)], R[np.ix_(k, [i, j])]
                )
                partial[i, j] = block[0, 1] / np.sqrt(block[0, 0] * block[1, 1])
    off = R - np.eye(6)
    assert overall == pytest.approx((off**2).sum() / ((off**2).sum() + (partial**2).sum()))
    assert single[2] == pytest.approx((off[2] ** 2).sum() / ((off[2] ** 2).sum() + (partial[2] ** 2).sum()))
    assert np.isnan(kmo(np.ones((3, 3)))[0])


def structure(between: float = 0.5) -> np.ndarray:
    """Two correlated factors with four variables each."""
    loadings = np.zeros((8, 2))
    loadings[:4, 0], loadings[4:, 1] = [0.9, 0.8, 0.7, 0.8], [0.7, 0.9, 0.8, 0.6]
    common = loadings @ np.array([[1.0, between], [between, 1.0]]) @ loadings.T
    return np.asarray(common + np.diag(1 - np.diag(common)))


def test_a_known_structure_is_found_again():
    square = structure()
    assert parallel_analysis(square, 300, seed=1).number == 2
    found = ml_factors(square, 300, 2)
    assert found.chi2 == pytest.approx(0.0, abs=1e-4)
    assert found.p_value == pytest.approx(1.0)
    assert found.correlation[0, 1] == pytest.approx(0.5, abs=0.05)
    strong = np.abs(found.loadings) > 0.4
    assert (strong.sum(axis=1) == 1).all()
    assert found.converged
    assert not found.heywood


def test_parallel_analysis_of_noise_and_of_seeds():
    noise = np.asarray(np.corrcoef(np.random.default_rng(3).normal(size=(400, 6)), rowvar=False))
    assert parallel_analysis(noise, 400, seed=2).number == 0
    first, second = (parallel_analysis(structure(), 200, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.noise, second.noise)


def test_cross_loading_and_unrelated_variables_are_dropped():
    square = np.eye(10)
    square[:8, :8] = structure(0.2)
    mixed = 0.6 * (square[0, :8] + square[5, :8]) / 1.3  # belongs to both
    square[8, :8] = square[:8, 8] = mixed
    square[9, :8] = square[:8, 9] = 0.02  # belongs to nobody
    found, left, gone = simple_structure(square, 500, 2)
    assert {row.variable for row in gone} == {8, 9}
    assert "communality" in gone[0].reason
    assert "two factors" in gone[1].reason
    assert left.tolist() == list(range(8))
    assert find_worst_variable(found) is None


def test_nothing_is_dropped_that_would_leave_nothing_to_test():
    one = np.array([0.9, 0.8, 0.7, 0.1])
    found, left, gone = simple_structure(np.outer(one, one) + np.diag(1 - one**2), 200, 1)
    assert (len(left), gone, found.df) == (4, (), 2)
    assert find_worst_variable(found) is not None


def test_bad_input(monkeypatch):
    with pytest.raises(OptionError, match="choose 1 to 3"):
        ml_factors(R, 112, 4)
    singular = np.corrcoef(np.array([[1.0, 2, 3, 4], [2, 4, 6, 8], [1, 3, 2, 5], [2, 1, 2, 2]]))
    with pytest.raises(OptionError, match="determined by the others"):
        ml_factors(singular, 4, 1)
    monkeypatch.setattr("aliquot.errors.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="statsmodels"):
        ml_factors(R, 112, 2)


# -- correlations --------------------------------------------------------------------------------------------------


def test_correlations_with_gaps():
    rng = np.random.default_rng(7)
    values = rng.normal(size=(60, 3)) + rng.normal(size=(60, 1))
    values[5:15, 2] = np.nan
    found = correlation_matrix(values, np.repeat(np.arange(20), 3), draws=100, seed=1)
    both = np.isfinite(values[:, 2])
    assert found.value[0, 2] == pytest.approx(np.corrcoef(values[both, 0], values[both, 2])[0, 1])
    assert found.value[0, 1] == pytest.approx(np.corrcoef(values[:, 0], values[:, 1])[0, 1])
    assert (found.n, found.n_complete, found.count[0, 2]) == (60, 50, 50)
    np.testing.assert_allclose(found.complete, np.corrcoef(values[both], rowvar=False))
    ranked = correlation_matrix(values[:, :2], np.arange(60), spearman=True, draws=2)
    assert ranked.value[0, 1] == pytest.approx(spearmanr(values[:, 0], values[:, 1])[0])


def test_constants_have_no_correlation_and_one_cluster_no_interval():
    values = np.column_stack([np.arange(5.0), np.ones(5), np.arange(5.0) ** 2])
    found = correlation_matrix(values, np.zeros(5, dtype=int))
    assert np.isnan(found.value[0, 1])
    assert found.value[0, 2] > 0.9
    assert np.isnan(found.low[0, 2])
    assert np.isnan(found.complete[1, 1])
    with pytest.raises(OptionError, match="two columns"):
        correlation_matrix(np.ones((3, 1)), np.arange(3))


def test_intervals_of_correlations_cover_over_clusters():
    """Answers on one item share its quality: resampling answers one by one would be too sure."""
    rng = np.random.default_rng(8)
    clustered: list[bool] = []
    naive: list[bool] = []
    for _ in range(150):
        item = rng.multivariate_normal([0, 0], [[1.0, 0.5], [0.5, 1.0]], size=40)
        values = np.repeat(item, 5, axis=0) + 0.4 * rng.normal(size=(200, 2))
        truth = 0.5 / 1.16
        for codes, hits in ((np.repeat(np.arange(40), 5), clustered), (np.arange(200), naive)):
            found = correlation_matrix(values, codes, draws=200, seed=1)
            hits.append(found.low[0, 1] <= truth <= found.high[0, 1])
    assert np.mean(clustered) >= 0.88  # percentile intervals of 40 clusters run a little short
    assert np.mean(naive) < 0.8
