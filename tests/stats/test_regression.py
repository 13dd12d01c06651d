"""Pooled ridge regression against dummy-variable least squares, scikit-learn and refitting; power by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray
from aliquot.stats.regression import pooled_ridge, power_tuning, residual_squares, weighted_means


def problem(
    n: int = 14, m: int = 3, k: int = 2, *, seed: int = 0, gaps: bool = True
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Features, targets with a known relation and noise, unequal weights; some outputs are not judged."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, m, k)) + np.arange(m)[:, None]
    target = features @ np.linspace(1.0, 2.0, k) + 5.0 * np.arange(m) + rng.normal(size=(n, m))
    if gaps:
        target[1, 0] = target[4, m - 1] = target[5, m - 1] = np.nan
    return features, target, rng.uniform(0.5, 4.0, n)


def with_dummies(features: FloatArray, target: FloatArray, weight: FloatArray, ridge: float) -> FloatArray:
    """Slopes by plain least squares with an unpenalised intercept for every system: an independent way to the same."""
    n, m, k = features.shape
    scaled = weight * n / weight.sum()
    item, system = np.nonzero(np.isfinite(target))
    rows = np.hstack([np.eye(m)[system], features[item, system]])
    rooted = np.sqrt(scaled[item])
    penalty = np.hstack([np.zeros((k, m)), np.sqrt(ridge * m) * np.eye(k)])
    design = np.vstack([rows * rooted[:, None], penalty])
    wanted = np.concatenate([target[item, system] * rooted, np.zeros(k)])
    slopes: FloatArray = np.linalg.lstsq(design, wanted, rcond=None)[0][m:]
    return slopes


def centred(features: FloatArray, target: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Features and targets less each system's weighted means over its judged items; 0 where not judged."""
    judged = np.isfinite(target)
    x, y = features.copy(), np.zeros_like(target)
    for system in range(target.shape[1]):
        known = judged[:, system]
        x[:, system] -= np.average(features[known, system], axis=0, weights=weight[known])
        y[known, system] = target[known, system] - np.average(target[known, system], weights=weight[known])
    return x, y, judged


@pytest.mark.parametrize("ridge", [0.0, 0.3, 1.0, 40.0])
@pytest.mark.parametrize("shape", [(14, 3, 2), (9, 1, 1), (30, 5, 6)])
def test_slopes_are_those_of_least_squares_with_a_dummy_for_every_system(shape, ridge):
    features, target, weight = problem(*shape, gaps=shape[1] > 1)
    fit = pooled_ridge(features, target, weight, ridge)
    assert fit.slopes == pytest.approx(with_dummies(features, target, weight, ridge), abs=1e-9)


def test_slopes_are_those_of_scikit_learn_on_the_stacked_problem():
    features, target, weight = problem(20, 4, 3, seed=3)
    x, y, judged = centred(features, target, weight)
    scaled = (weight * 20 / weight.sum())[:, None] * judged
    # Our loss is divided by the number of systems, so that a ridge of 1 is one item with all its outputs.
    peer = Ridge(alpha=4 * 2.5, fit_intercept=False).fit(x.reshape(-1, 3), y.ravel(), sample_weight=scaled.ravel())
    fit = pooled_ridge(features, target, weight, ridge=2.5)
    assert fit.slopes == pytest.approx(peer.coef_, abs=1e-10)
    assert fit.within[judged] == pytest.approx(peer.predict(x.reshape(-1, 3)).reshape(20, 4)[judged], abs=1e-10)


def test_by_hand():
    """x = 0, 1, 2 and y = 1, 2, 6 have Sxy = 5 and Sxx = 2: slope 2.5, or 5 / (2 + 3) = 1 with a ridge of 3."""
    x, y = np.array([0.0, 1.0, 2.0]).reshape(3, 1, 1), np.array([[1.0], [2.0], [6.0]])
    assert pooled_ridge(x, y, np.ones(3), 0.0).slopes == pytest.approx([2.5])
    assert pooled_ridge(x, y, np.ones(3), 3.0).slopes == pytest.approx([1.0])
    assert pooled_ridge(x, y, np.array([1.0, 0.0, 1.0]), 0.0).slopes == pytest.approx([2.5])
    assert pooled_ridge(x, y, np.array([1.0, 1.0, 0.0]), 0.0).slopes == pytest.approx([1.0])


@pytest.mark.parametrize("ridge", [0.0, 0.7, 5.0])
def test_left_out_is_what_refitting_without_the_item_predicts(ridge):
    """With the centring of all items kept, as documented."""
    features, target, weight = problem(12, 3, 2, seed=1)
    fit = pooled_ridge(features, target, weight, ridge)
    x, y, judged = centred(features, target, weight)
    cells = (weight * 12 / weight.sum())[:, None] * judged
    for item in range(12):
        others = np.arange(12) != item
        flat = (np.sqrt(cells)[:, :, None] * x)[others].reshape(-1, 2)
        gram = flat.T @ flat / 3 + ridge * np.eye(2)
        slopes = np.linalg.solve(gram, flat.T @ (np.sqrt(cells) * y)[others].ravel() / 3)
        known = judged[item]
        assert fit.left_out[item, known] == pytest.approx(x[item, known] @ slopes, abs=1e-6)


def test_outputs_that_are_not_judged_do_not_matter():
    features, target, weight = problem()
    fit = pooled_ridge(features, target, weight, 1.0)
    changed = features.copy()
    changed[~np.isfinite(target)] = 99.0
    assert pooled_ridge(changed, target, weight, 1.0).slopes == pytest.approx(fit.slopes)
    assert (fit.left_out[~np.isfinite(target)] == 0).all()


@pytest.mark.parametrize("system", [0, 1, 2])
def test_every_system_has_its_own_intercept(system):
    features, target, weight = problem()
    shifted = target.copy()
    shifted[:, system] += 100.0
    before, after = (pooled_ridge(features, y, weight, 1.0) for y in (target, shifted))
    assert after.slopes == pytest.approx(before.slopes, abs=1e-9)
    assert after.left_out == pytest.approx(before.left_out, abs=1e-6)


@given(st.integers(0, 10_000), st.floats(0.01, 100.0), st.floats(0.01, 100.0))
def test_scales_of_scores_and_weights(seed, scale, heavier):
    features, target, weight = problem(seed=seed)
    fit = pooled_ridge(features, target, weight, 1.0)
    scaled = pooled_ridge(features, scale * target, heavier * weight, 1.0)
    assert scaled.slopes == pytest.approx(scale * fit.slopes, rel=1e-6, abs=1e-9)
    assert scaled.left_out == pytest.approx(scale * fit.left_out, rel=1e-6, abs=1e-6 * scale)


def test_a_constant_feature_gets_no_slope():
    features, target, weight = problem(k=2)
    features[:, :, 1] = 4.0
    slopes = pooled_ridge(features, target, weight, 0.0).slopes
    assert slopes[1] == pytest.approx(0.0, abs=1e-12)
    assert slopes[:1] == pytest.approx(with_dummies(features[:, :, :1], target, weight, 0.0))


def test_a_negative_ridge_is_refused():
    with pytest.raises(OptionError, match=r"`ridge` is -0\.5"):
        pooled_ridge(*problem(), -0.5)


# -- means and power -----------------------------------------------------------------------------------------------


def test_weighted_means_by_numpy():
    _, target, weight = problem()
    target[:, 1] = np.nan
    means = weighted_means(target, weight)
    assert np.isnan(means[1])
    for system in (0, 2):
        known = np.isfinite(target[:, system])
        assert means[system] == pytest.approx(np.average(target[known, system], weights=weight[known]))


@pytest.mark.parametrize(("factor", "expected"), [(1.0, 1.0), (2.0, 0.5), (4.0, 0.25), (0.5, 1.0), (-1.0, 0.0)])
def test_power_undoes_what_a_prediction_overdoes(factor, expected):
    y = np.array([[1.0], [2.0], [6.0]])
    assert power_tuning(y, factor * (y - 3.0), np.ones(3)) == pytest.approx(expected)


def test_power_is_the_share_with_the_least_weighted_error():
    rng = np.random.default_rng(5)
    y, weight = rng.normal(size=(40, 3)), rng.uniform(0.2, 3.0, 40)
    y[3, 1] = np.nan
    predicted = 0.6 * np.nan_to_num(y) + rng.normal(size=y.shape)
    centre = weighted_means(y, weight)
    shares = np.linspace(0, 1, 10_001)
    errors = [np.nansum(weight[:, None] * (y - centre - share * predicted * np.isfinite(y)) ** 2) for share in shares]
    predicted[3, 1] = 0.0
    assert power_tuning(y, predicted, weight) == pytest.approx(shares[np.argmin(errors)], abs=1e-4)


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_power_lies_between_nothing_and_all(seed, scale):
    rng = np.random.default_rng(seed)
    y, predicted, weight = rng.normal(size=(8, 2)), rng.normal(size=(8, 2)) * scale, rng.uniform(0.1, 9.0, 8)
    share = power_tuning(y, predicted, weight)
    assert 0.0 <= share <= 1.0
    assert power_tuning(y, predicted, 7 * weight) == pytest.approx(share)
    assert power_tuning(3 * y, 3 * predicted, weight) == pytest.approx(share)


def test_no_prediction_has_no_power():
    assert power_tuning(np.array([[1.0], [2.0]]), np.zeros((2, 1)), np.ones(2)) == 0.0


def test_power_of_noise_is_small():
    """Features that know nothing: what they say of items left out is hardly used, of items they saw all of it."""
    unseen, seen = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        features, y = rng.normal(size=(30, 1, 5)), rng.normal(size=(30, 1))
        fit = pooled_ridge(features, y, np.ones(30), 1.0)
        unseen.append(power_tuning(y, fit.left_out, np.ones(30)))
        seen.append(power_tuning(y, fit.within, np.ones(30)))
    assert np.mean(unseen) < 0.3
    assert np.median(unseen) < 0.1
    assert np.mean(seen) > 0.95


def test_what_predictions_leave_over_by_hand():
    """Targets 1, 2, 3 less their mean: -1, 0, 1. Predictions -2, 0, 2 are used by half and leave nothing."""
    y, ones = np.array([[1.0], [2.0], [3.0]]), np.ones(3)
    assert residual_squares(y, 0.0 * y, ones) == pytest.approx(2.0)
    assert residual_squares(y, 2 * (y - 2.0), ones) == pytest.approx(0.0, abs=1e-12)
    assert residual_squares(y, 2.0 - y, ones) == pytest.approx(2.0)  # the wrong way round: not used
    assert residual_squares(y, np.array([[-0.5], [0.0], [0.5]]), ones) == pytest.approx(0.5)  # used fully, and no more
    gap = np.array([[1.0, np.nan], [3.0, 4.0], [np.nan, 8.0]])
    weight = np.array([1.0, 3.0, 1.0])  # weighted means 2.5 and 5
    assert residual_squares(gap, np.zeros((3, 2)), weight) == pytest.approx(1.5**2 + 3 * 0.5**2 + 3 * 1 + 9)
