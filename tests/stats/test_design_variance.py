"""Design variances: textbook formulas, a published example, values by hand, and properties every design must have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.stats.arrays import FloatArray
from aliquot.stats.design_variance import (
    cluster_errors,
    degrees_of_freedom,
    intracluster_correlation,
    linearised_contributions,
    merge_singleton_strata,
    spread_errors,
    stratified_errors,
    unequal_probability_errors,
)

PAIRS_OF_ITEMS = np.repeat(np.arange(6), 2)
DESIGNS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "unordered": unequal_probability_errors,
    "spread": lambda z, pi: spread_errors(z, pi, PAIRS_OF_ITEMS, 0.3),
    "stratified": lambda z, pi: stratified_errors(z, pi, PAIRS_OF_ITEMS // 2),
    "clustered": lambda z, pi: cluster_errors(z, pi, PAIRS_OF_ITEMS),
}


def twelve(seed: int, systems: int = 3) -> tuple[FloatArray, FloatArray]:
    """Contributions of twelve items and their probabilities, two items of a pair alike in these."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(12, systems)), np.repeat(rng.uniform(0.05, 0.95, 6), 2)


# -- contributions -------------------------------------------------------------------------------------------------


def test_contributions_by_hand():
    """Weights 1, 1, 2: mean (1 + 3 + 2 * 8) / 4 = 5; the second system lacks the last item, mean 2."""
    residual = np.array([[1.0, 0.0], [3.0, 4.0], [8.0, np.nan]])
    z = linearised_contributions(residual, np.array([1.0, 1.0, 2.0]))
    assert z == pytest.approx(np.array([[-1.0, -1.0], [-0.5, 1.0], [1.5, 0.0]]))


def test_a_column_without_anything_contributes_nothing():
    assert (linearised_contributions(np.array([[np.nan], [np.nan]]), np.ones(2)) == 0).all()


# -- simple random samples and unequal probabilities ---------------------------------------------------------------


@pytest.mark.parametrize(("n", "population"), [(2, 10), (5, 8), (30, 1000), (7, 7)])
def test_equal_probabilities_give_the_textbook_covariance(n, population):
    values = np.random.default_rng(n).normal(size=(n, 3)) @ np.array([[1.0, 0.5, 0.0], [0, 1, 2], [0, 0, 3]])
    units = unequal_probability_errors(linearised_contributions(values, np.ones(n)), np.full(n, n / population))
    expected = (1 - n / population) / n * np.cov(values.T)
    assert units.T @ units == pytest.approx(expected, abs=1e-12)


def test_deville_by_hand():
    """1 - pi = 0.8, 0.5, 0.2; centre (0.8 + 1 + 0.8) / 1.5 = 26/15; 3/2 (0.8 121 + 0.5 16 + 0.2 1156) / 225 = 2.24."""
    units = unequal_probability_errors(np.array([[1.0], [2.0], [4.0]]), np.array([0.2, 0.5, 0.8]))
    assert float((units**2).sum()) == pytest.approx(2.24)


def test_sizes_that_explain_all_leave_no_variance():
    """Deville's formula for the total of values proportional to pi: every y / pi is the same."""
    pi = np.array([0.1, 0.4, 0.7, 0.9])
    assert unequal_probability_errors((5.0 * pi / pi)[:, None], pi) == pytest.approx(np.zeros((4, 1)))


@pytest.mark.parametrize("design", ["unordered", "clustered"])
def test_one_unit_says_nothing_about_spread(design):
    z, pi = np.array([[0.3, 0.1]]), np.array([0.2])
    units = (
        unequal_probability_errors(z, pi)
        if design == "unordered"
        else cluster_errors(z, pi, np.zeros(1, dtype=np.int64))
    )
    assert np.isnan(units).all()


# -- bins ----------------------------------------------------------------------------------------------------------


def sample_with(mean: float, variance: float, n: int) -> FloatArray:
    """n numbers that have exactly this mean and sample variance."""
    raw = np.arange(n, dtype=float)
    return np.asarray(mean + (raw - raw.mean()) * np.sqrt(variance / raw.var(ddof=1)))


def test_stratified_gives_the_published_standard_error():
    """Lohr, Sampling: Design and Analysis, table 3.2: farm acreage of 300 of 3078 US counties in four regions.

    The book, and R's survey package (svymean with the strata and fpc of agstrat), give the mean 295561 with standard
    error 16380; the estimated total is 909736034 with standard error 50417248.
    """
    regions = [  # N_l, n_l, mean, variance
        (1054, 103, 300504.16, 29618183543.0),
        (220, 21, 97629.81, 7647472708.0),
        (1382, 135, 211315.04, 53587487856.0),
        (422, 41, 662295.51, 396185950266.0),
    ]
    total = sum(size for size, *_ in regions)
    y = np.concatenate([sample_with(mean, variance, n) for _, n, mean, variance in regions])[:, None]
    pi = np.concatenate([np.full(n, n / size) for size, n, *_ in regions])
    stratum = np.repeat(np.arange(4), [n for _, n, *_ in regions])
    assert float((y[:, 0] / pi).sum() / total) == pytest.approx(295560.8, abs=0.5)
    units = stratified_errors(linearised_contributions(y, 1 / pi), pi, stratum)
    se = float(np.sqrt((units**2).sum()))
    assert se == pytest.approx(16379.87, abs=0.05)
    assert total * se == pytest.approx(50417248, rel=1e-5)
    ignoring = unequal_probability_errors(linearised_contributions(y, 1 / pi), pi)
    assert float(np.sqrt((ignoring**2).sum())) > 1.05 * se  # what the bins are worth; the test can fail


def test_stratified_is_the_textbook_sum():
    """Sum of (N_l / N)^2 (1 - f_l) s_l^2 / n_l, for two systems."""
    rng = np.random.default_rng(2)
    sizes, counts = np.array([40, 25, 10]), np.array([8, 10, 2])
    stratum = np.repeat(np.arange(3), counts)
    y = rng.normal(size=(20, 2)) + 10 * stratum[:, None]
    pi = (counts / sizes)[stratum]
    units = stratified_errors(linearised_contributions(y, 1 / pi), pi, stratum)
    expected = sum(
        (sizes[bin_] / 75) ** 2 * (1 - counts[bin_] / sizes[bin_]) / counts[bin_] * np.cov(y[stratum == bin_].T)
        for bin_ in range(3)
    )
    assert units.T @ units == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=20))
def test_no_bin_is_left_with_one_item(labels):
    stratum = np.array(labels)
    merged = merge_singleton_strata(stratum)
    _, counts = np.unique(merged, return_counts=True)
    assert (counts >= 2).all()
    for label in set(labels):
        assert len(set(merged[stratum == label])) == 1  # bins are joined, never torn


def test_bins_with_one_item_keep_their_variance():
    """Two lone items differ by 4: joined, their variance about the common mean stays, 2 (2^2 + 2^2) (1 - pi)."""
    z, stratum = np.array([[1.0], [1.0], [3.0], [-1.0]]), np.array([0, 0, 1, 2])
    units = stratified_errors(z, np.full(4, 0.5), stratum)
    assert float((units**2).sum()) == pytest.approx(8.0)


# -- documents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [3, 10, 200])
def test_clusters_of_one_size_are_a_sample_of_their_means(groups):
    """The textbook's (1 - f) s_b^2 / G; the correction for few clusters may add up to G / (G - 1), and vanishes."""
    values = np.repeat(np.random.default_rng(1).normal(size=(groups, 1)), 4, axis=0)
    units = cluster_errors(
        linearised_contributions(values, np.ones(4 * groups)),
        np.full(4 * groups, 0.25),
        np.repeat(np.arange(groups), 4),
    )
    textbook = 0.75 * values[::4].var(ddof=1) / groups
    assert units.shape == (groups, 1)
    assert 1.0 - 1e-9 <= float((units**2).sum()) / textbook <= groups / (groups - 1) + 1e-9


def test_what_cancels_out_in_a_document_is_no_error():
    z = np.tile([[1.0], [-1.0]], (6, 1))
    assert cluster_errors(z, np.full(12, 0.2), PAIRS_OF_ITEMS) == pytest.approx(np.zeros((6, 1)))
    assert float((unequal_probability_errors(z, np.full(12, 0.2)) ** 2).sum()) == pytest.approx(12 / 11 * 0.8 * 12)


def test_a_large_document_counts_for_more_than_its_linear_error():
    """Leaving out a document with half of the items shows twice its linearised error."""
    cluster = np.array([0] * 6 + [1, 2, 3, 4, 5, 6])
    values = np.where(cluster == 0, 1.0, -1.0)[:, None]
    z = linearised_contributions(values, np.ones(12))
    large = (cluster_errors(z, np.full(12, 0.1), cluster) ** 2).sum()
    summed = np.array([z[cluster == code].sum() for code in range(7)])[:, None]
    assert large > 1.2 * (unequal_probability_errors(summed, np.full(7, 0.1)) ** 2).sum()


def test_spread_without_documents_to_share_is_a_free_draw():
    z, pi = twelve(4)
    free = unequal_probability_errors(z, pi)
    assert spread_errors(z, pi, np.arange(12), 0.1) == pytest.approx(free)
    assert spread_errors(z, pi, PAIRS_OF_ITEMS, 1.0) == pytest.approx(free)


@pytest.mark.parametrize("remainder", [0.0, 0.4, 0.9])
def test_spread_takes_away_what_documents_share(remainder):
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(300), 2)
    z = np.repeat(rng.normal(size=(300, 1)), 2, axis=0) + rng.normal(size=(600, 1))
    pi = np.full(600, 0.3)
    free, kept = (
        (units**2).sum() for units in (unequal_probability_errors(z, pi), spread_errors(z, pi, cluster, remainder))
    )
    assert kept / free == pytest.approx(
        1 - intracluster_correlation(unequal_probability_errors(z, pi), cluster) * (1 - remainder)
    )
    assert kept / free == pytest.approx(1 - 0.5 * (1 - remainder), abs=0.06)


@pytest.mark.parametrize("shared", [0.0, 0.3, 0.7])
def test_within_correlation_is_found(shared):
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(2000), 2)
    units = np.sqrt(shared) * rng.normal(size=(2000, 2))[cluster] + np.sqrt(1 - shared) * rng.normal(size=(4000, 2))
    assert intracluster_correlation(units, cluster) == pytest.approx(shared, abs=0.04)


def test_within_correlation_is_doubted_where_few_pairs_tell():
    alike = np.tile([[1.0], [1.0], [-1.0], [-1.0]], (200, 1))
    found = [intracluster_correlation(alike[: 2 * pairs], np.repeat(np.arange(pairs), 2)) for pairs in (2, 20, 400)]
    assert found == sorted(found)
    assert found[0] < 0.5
    assert found[2] > 0.9


def test_within_correlation_is_never_negative_and_needs_pairs():
    assert intracluster_correlation(np.tile([[1.0], [-1.0]], (50, 1)), np.repeat(np.arange(50), 2)) == 0.0
    assert intracluster_correlation(np.array([[1.0], [2.0], [3.0]]), np.arange(3)) == 0.0
    assert intracluster_correlation(np.zeros((4, 1)), np.array([0, 0, 1, 1])) == 0.0


# -- every design --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DESIGNS)
@given(seed=st.integers(0, 10_000), scale=st.floats(1e-3, 1e3))
def test_covariances_are_positive_and_scale_with_the_scores(name, seed, scale):
    z, pi = twelve(seed)
    units = DESIGNS[name](z, pi)
    assert np.isfinite(units).all()
    assert np.linalg.eigvalsh(units.T @ units).min() >= -1e-9
    assert DESIGNS[name](scale * z, pi) == pytest.approx(scale * units, rel=1e-9)
    assert DESIGNS[name](-z, pi) == pytest.approx(-units)


@pytest.mark.parametrize("name", DESIGNS)
@given(seed=st.integers(0, 10_000))
def test_certain_items_add_nothing(name, seed):
    """Items with probability 1 are no source of error, whatever their scores; all certain: no error at all."""
    z, pi = twelve(seed)
    pi[:2] = 1.0
    first = DESIGNS[name](z, pi)[: 1 if name == "clustered" else 2]
    assert (first == 0).all()
    assert (DESIGNS[name](z, np.ones(12)) == 0).all()


@pytest.mark.parametrize("name", DESIGNS)
def test_a_system_like_another_has_the_same_error(name):
    z, pi = twelve(8)
    z[:, 2] = z[:, 0]
    units = DESIGNS[name](z, pi)
    covariance = units.T @ units
    assert covariance[0, 0] == pytest.approx(covariance[2, 2])
    assert covariance[0, 2] == pytest.approx(covariance[0, 0])


@pytest.mark.parametrize("name", ["unordered", "spread"])
def test_the_order_of_items_does_not_matter(name):
    z, pi = twelve(9)
    units = DESIGNS[name](z, pi)
    pairs = np.array([4, 5, 0, 1, 10, 11, 2, 3, 8, 9, 6, 7])
    assert DESIGNS[name](z[pairs], pi[pairs]) == pytest.approx(units[pairs])


# -- degrees of freedom --------------------------------------------------------------------------------------------


def test_normal_errors_have_about_n_degrees_of_freedom():
    rng = np.random.default_rng(0)
    found = [degrees_of_freedom(rng.normal(size=(n, 8)), n - 1.0) / (n - 1) for n in (50, 200, 1000)]
    assert all(0.8 < share <= 1.0 for share in found)


@pytest.mark.parametrize("draw", ["standard_exponential", "standard_cauchy", "lognormal"])
def test_heavy_tails_leave_far_fewer(draw):
    values = getattr(np.random.default_rng(1), draw)(size=(400, 4))
    freedom = degrees_of_freedom(values - values.mean(axis=0), 399.0)
    assert 2.0 <= freedom < 140.0


def test_one_unit_that_carries_all_leaves_the_least():
    units = np.zeros((100, 1))
    units[0] = 5.0
    assert degrees_of_freedom(units, 99.0) == 2.0


def test_degrees_of_freedom_are_at_most_what_there_is():
    assert degrees_of_freedom(np.tile([[1.0], [-1.0]], (20, 1)), 39.0) == 39.0
    assert degrees_of_freedom(np.zeros((10, 2)), 9.0) == 9.0
    assert degrees_of_freedom(np.array([[1.0], [2.0]]), 1.0) == 1.0


@given(st.integers(0, 1000), st.floats(1e-3, 1e3))
def test_degrees_of_freedom_have_no_unit(seed, scale):
    units = np.random.default_rng(seed).normal(size=(15, 2)) ** 3
    assert degrees_of_freedom(scale * units, 14.0) == pytest.approx(degrees_of_freedom(units, 14.0))
