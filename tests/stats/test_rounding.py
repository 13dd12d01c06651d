"""Numbers that differ by rounding only: every result is the same, whatever the processor or the order of a sum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import aliquot
from aliquot.core.registry import parse_spec
from aliquot.estimation.pipeline import infer_means
from aliquot.estimation.proxies import select_proxies
from aliquot.estimation.ranking import full_p
from aliquot.estimation.sample import Sample
from aliquot.stats.arrays import (
    FloatArray,
    is_constant,
    is_negligible,
    is_within,
    nan_std,
    overflow_scale,
    round_significant,
    snap_to_zero,
)
from aliquot.stats.break_even import _difference_moments
from aliquot.stats.cluster_robust import change_test
from aliquot.stats.correlation_intervals import _influence_values
from aliquot.stats.design_variance import linearised_contributions
from aliquot.stats.factor_analysis import correlation_matrix
from aliquot.stats.missingness import missingness_test
from aliquot.stats.mixed_model import cell_covariance
from aliquot.stats.pairwise import analytic_p, pair_differences, permutation_p, wilcoxon_p
from aliquot.stats.shrinkage import contrast_variance, shrink_to_prediction


def rounded_otherwise(values: FloatArray, seed: int = 0) -> FloatArray:
    """The same numbers, up to four units in the last place off, as another processor might give them."""
    steps = np.random.default_rng(seed).integers(-4, 5, values.shape)
    return values * (1.0 + steps * np.finfo(np.float64).eps / 2)


def ragged(values: FloatArray) -> FloatArray:
    """The first and the last system share no item."""
    gaps = values.copy()
    gaps[: len(gaps) // 2, 0] = np.nan
    gaps[len(gaps) // 2 :, -1] = np.nan
    return gaps


RNG = np.random.default_rng(3)
FREE = RNG.normal(70.0, 10.0, (24, 3))
TABLES = {
    "all the same": np.full((24, 3), 50.0),
    "each its own": np.tile([50.0, 60.0, 50.0], (24, 1)),
    "two alike": np.column_stack([FREE[:, 0], FREE[:, 0], FREE[:, 1]]),
    "constant gap": np.column_stack([FREE[:, 0], FREE[:, 0] + 0.3, FREE[:, 1]]),
    "pass or fail": (RNG.random((24, 3)) < 0.7).astype(np.float64),
    "thirds": RNG.integers(0, 7, (24, 3)) / 3.0,
    "free": FREE,
}
SHAPES: dict[str, Callable[[FloatArray], FloatArray]] = {"complete": lambda table: table, "ragged": ragged}


PAIRED: dict[str, Callable[[FloatArray], FloatArray]] = {
    "analytic": analytic_p,
    "wilcoxon": wilcoxon_p,
    "permutation": lambda table: permutation_p(table, 99),
}


@pytest.mark.parametrize("test", PAIRED)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TABLES)
def test_paired_tests(name, shape, test):
    table = SHAPES[shape](TABLES[name])
    expected = PAIRED[test](table)
    for seed in range(3):
        np.testing.assert_allclose(PAIRED[test](rounded_otherwise(table, seed)), expected, atol=1e-9)


def test_differences_of_equal_scores_are_0():
    table = np.repeat(RNG.integers(0, 7, (24, 1)) / 3.0, 3, axis=1)
    assert not pair_differences(rounded_otherwise(table)).any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TABLES)
def test_what_all_items_would_say(name, shape):
    table = SHAPES[shape](TABLES[name])
    expected = predicted_p(table)
    assert np.isfinite(expected).all()
    for seed in range(3):
        np.testing.assert_allclose(predicted_p(rounded_otherwise(table, seed)), expected, atol=1e-6)


def predicted_p(table: FloatArray) -> FloatArray:
    data = aliquot.synthetic(items=30, systems=table.shape[1], seed=1)
    sample = Sample(data, np.arange(len(table)), table, None, np.ones(len(table)), kind="unordered")
    return full_p(infer_means(sample, parse_spec("mean")))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TABLES)
def test_errors_of_means(name, shape):
    table = SHAPES[shape](TABLES[name])
    weight = np.random.default_rng(1).uniform(1.0, 3.0, len(table))
    for of in (linearised_contributions, cell_covariance):
        expected = of(table, weight)
        found = of(rounded_otherwise(table), weight)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        np.testing.assert_array_equal(found == 0, expected == 0)


@pytest.mark.parametrize("value", [0.1, 0.3, 50.0, 1 / 3, 1e-40, 0.0])
def test_a_constant_has_no_spread(value):
    values = rounded_otherwise(np.full(1001, value))
    assert nan_std(values) == 0
    assert is_constant(values)
    assert len(np.unique(round_significant(values))) == 1
    assert not is_constant(np.append(values, value + 1e-9 * abs(value) + 1e-50))


def test_nothing_and_gaps():
    assert is_constant(np.array([[np.nan, 1.0, 1.0], [np.nan, np.nan, 2.0]]), axis=0).tolist() == [False, True, False]
    assert not is_constant(np.array([]))
    assert is_negligible(np.array([np.nan, 0.0, 1e-13, 1e-11]), 1.0).tolist() == [False, True, True, False]
    assert snap_to_zero(np.array([1e-13, -2.0]), 1.0).tolist() == [0.0, -2.0]


def test_a_metric_that_is_constant_but_for_rounding_is_left_out():
    data = aliquot.synthetic(items=30, systems=3, seed=1)
    flat = data.with_score("flat", np.full((30, 3), 0.1))
    with pytest.warns(aliquot.AliquotWarning, match="'flat' is constant"):
        assert select_proxies(flat, ("flat",)) == []


def test_a_change_that_is_the_same_for_all_has_no_p():
    before = np.array([0.1, 0.7, 50.3, 61.9, 33.3, 12.1])
    test = change_test(before, before + 0.3, np.arange(6) > 2)
    assert np.isnan(test.p)


def test_kernels_without_spread():
    flat, free = rounded_otherwise(np.full((40, 1), 0.1)), RNG.normal(size=(40, 1))
    there = np.arange(40)[:, None] % 2 == 0
    asked = np.ones((40, 1), dtype=bool)
    exact = missingness_test(np.full((40, 1), 0.1), there, asked, np.arange(40))
    assert missingness_test(flat, there, asked, np.arange(40)).p == exact.p
    assert np.isnan(_influence_values(flat.T, free.T, ranks=False)).all()
    assert np.isnan(correlation_matrix(np.column_stack([flat, free]), np.arange(40), draws=0).value[0, 1])
    assert _difference_moments(rounded_otherwise(TABLES["constant gap"]))[1][0] == 0
    common = np.full((4, 4), 1 / 3) * np.outer([1.0, 1, 1, 1], [1.0, 1, 1, 1])
    assert contrast_variance(rounded_otherwise(common[:1, :1]).repeat(4, 0).repeat(4, 1)) == 0
    values = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(shrink_to_prediction(values, np.zeros(4), np.eye(4) * 1e-30)[0], values)


def test_the_power_of_ten_of_extreme_values():
    nan = float("nan")
    cases = [([3, nan, 99], 1.0), ([0, 2e-160], 1e-160), ([-3e170, 1.0], 1e170), ([], 1.0), ([0, nan], 1.0)]
    for values, size in cases:
        assert overflow_scale(np.array(values, dtype=float)) == pytest.approx(size)


def test_values_at_the_ends_of_a_scale_lie_on_it_but_for_single_precision():
    for values, low, high, inside in [
        ([0, 1.000000119, np.nan], 0, 1, True),
        ([1.01], 0, 1, False),
        ([-0.01], 0, 1, False),
        ([-1.000000119], -1, 0, True),
        ([-100.00001], -100, 1, True),
        ([-100.1], -100, 1, False),
        ([100.00001], 0, 100, True),
    ]:
        assert is_within(np.array(values), low, high) is inside, values
