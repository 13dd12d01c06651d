"""The item-response fit finds what the scores were made from, and its gradient is the derivative of its loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from scipy.special import expit
from scipy.stats import spearmanr

from aliquot.errors import OptionError
from aliquot.stats import irt
from aliquot.stats.arrays import FloatArray
from aliquot.stats.irt import IRTFit, fisher_information, fit_irt


def simulate(seed: int, items: int = 200, systems: int = 15, noise: float = 0.05) -> tuple[FloatArray, IRTFit]:
    """Scores drawn from the model, and the parameters they were drawn from."""
    rng = np.random.default_rng(seed)
    ability, difficulty = rng.normal(size=systems), rng.normal(size=items)
    discrimination, feasibility = np.exp(rng.normal(0, 0.5, items)), rng.uniform(0.6, 1, items)
    expected = feasibility[:, None] * expit(discrimination[:, None] * (ability - difficulty[:, None]))
    truth = IRTFit(ability, difficulty, discrimination, feasibility, noise, 0.0, True, 0)
    return expected + noise * rng.normal(size=expected.shape), truth


def rho(left: FloatArray, right: FloatArray) -> float:
    return float(spearmanr(left, right)[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("noise", "least_utility"), [(0.02, 0.9), (0.05, 0.85), (0.1, 0.8)])
def test_recovers_abilities_and_the_utility(seed: int, noise: float, least_utility: float) -> None:
    scores, truth = simulate(seed, noise=noise)
    fit = fit_irt(scores)
    assert fit.converged
    assert rho(fit.ability, truth.ability) >= 0.95
    utility, true_utility = fit.difficulty * fit.discrimination, truth.difficulty * truth.discrimination
    assert rho(utility, true_utility) >= least_utility
    assert rho(fit.discrimination, truth.discrimination) >= 0.6


def test_recovers_with_half_of_the_cells_missing() -> None:
    scores, truth = simulate(1)
    scores[np.random.default_rng(0).random(scores.shape) < 0.5] = np.nan
    fit = fit_irt(scores)
    assert rho(fit.ability, truth.ability) >= 0.95
    assert rho(fit.difficulty * fit.discrimination, truth.difficulty * truth.discrimination) >= 0.8


def test_missing_cells_do_not_mislead() -> None:
    """A weak system that was only given the easy items has a high mean, but not a high ability."""
    scores, truth = simulate(3, noise=0.02)
    worst = int(np.argmin(truth.ability))
    easy = truth.difficulty < np.quantile(truth.difficulty, 0.1)
    scores[~easy, worst] = np.nan
    assert np.argsort(np.nanmean(scores, axis=0))[0] != worst
    assert np.argmin(fit_irt(scores).ability) == worst


@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_the_derivative_of_the_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, _ = simulate(seed, items=6, systems=4)
    scores[rng.random(scores.shape) < 0.2] = np.nan
    problem = irt._scale_problem(scores)
    point = rng.normal(size=4 + 3 * 6)
    error = check_grad(
        lambda x: irt._negative_log_posterior(x, problem)[0],
        lambda x: irt._negative_log_posterior(x, problem)[1],
        point,
    )
    assert error < 1e-4 * np.linalg.norm(irt._negative_log_posterior(point, problem)[1])


def test_the_solution_is_a_minimum() -> None:
    """No small step in any of a hundred random directions lowers the loss by more than the tolerance."""
    scores, _ = simulate(0, items=30, systems=6)
    fit, problem = fit_irt(scores), irt._scale_problem(scores)
    at = np.concatenate(
        [
            fit.ability / problem.ability_unit,
            fit.difficulty,
            np.log(fit.discrimination),
            np.log(fit.feasibility) - np.log1p(-fit.feasibility),
        ]
    )
    assert irt._negative_log_posterior(at, problem)[0] == pytest.approx(fit.loss, rel=1e-9)
    steps = np.random.default_rng(0).normal(size=(100, len(at))) * 0.01
    around = min(irt._negative_log_posterior(at + step, problem)[0] for step in steps)
    assert around > fit.loss - 1e-4 * abs(fit.loss)


@settings(max_examples=15, deadline=None)
@given(scale=st.floats(0.01, 1000), shift=st.floats(-1000, 1000))
def test_unit_and_origin_of_the_scores_do_not_matter(scale: float, shift: float) -> None:
    scores, _ = simulate(2, items=20, systems=5)
    plain, moved = fit_irt(scores), fit_irt(scores * scale + shift)
    np.testing.assert_allclose(moved.difficulty, plain.difficulty, atol=0.02)
    np.testing.assert_allclose(moved.ability, plain.ability, atol=0.02)


def test_same_scores_same_fit() -> None:
    scores, _ = simulate(5, items=40)
    before = scores.copy()
    assert np.array_equal(fit_irt(scores).difficulty, fit_irt(scores).difficulty)
    assert np.array_equal(scores, before)


def test_order_of_items_and_systems_does_not_matter() -> None:
    scores, _ = simulate(6, items=40, systems=8)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(40), rng.permutation(8)
    plain, mixed = fit_irt(scores), fit_irt(scores[np.ix_(rows, columns)])
    np.testing.assert_allclose(mixed.difficulty, plain.difficulty[rows], atol=0.05)
    np.testing.assert_allclose(mixed.ability, plain.ability[columns], atol=0.05)


def test_items_and_systems_without_scores_are_nan_and_change_nothing() -> None:
    scores, _ = simulate(7, items=30, systems=5)
    wider = np.full((32, 6), np.nan)
    wider[1:31, :5] = scores
    plain, fit = fit_irt(scores), fit_irt(wider)
    for values in (fit.difficulty, fit.discrimination, fit.feasibility, fisher_information(fit)):
        assert np.isnan(values[[0, 31]]).all()
        assert np.isfinite(values[1:31]).all()
    assert np.isnan(fit.ability[5])
    assert np.array_equal(fit.difficulty[1:31], plain.difficulty)
    assert np.array_equal(fisher_information(fit)[1:31], fisher_information(plain))


def test_parameters_stay_in_their_ranges() -> None:
    rng = np.random.default_rng(0)
    fit = fit_irt(np.where(rng.random((60, 6)) < 0.5, 0.0, 1e6))
    assert (fit.discrimination > 0).all()
    assert ((fit.feasibility > 0) & (fit.feasibility <= 1)).all()


def test_ability_follows_the_system_means() -> None:
    scores, _ = simulate(8, noise=0.2)
    assert rho(fit_irt(scores).ability, scores.mean(axis=0)) > 0.9


def test_one_item_is_enough_to_order_systems() -> None:
    fit = fit_irt(np.array([[0.1, 0.9, 0.5]]))
    assert list(np.argsort(fit.ability)) == [0, 2, 1]


def test_too_few_iterations_are_reported() -> None:
    scores, _ = simulate(0)
    fit = fit_irt(scores, max_iterations=3)
    assert not fit.converged
    assert fit.iterations == 3


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.ones((4, 3)), "all 1"),
        (np.array([[0.1], [0.2]]), "1 system"),
        (np.full((3, 3), np.nan), "0 system"),
        (np.array([[0.0, np.inf]]), "infinite"),
        (np.zeros(3), "1 dimension"),
    ],
)
def test_scores_without_a_model_are_refused(scores: FloatArray, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        fit_irt(scores)


def test_max_iterations_is_checked() -> None:
    with pytest.raises(OptionError, match="`max_iterations` is 0"):
        fit_irt(np.eye(2), max_iterations=0)


def test_fisher_information_is_the_published_formula() -> None:
    """The printed form, eq. 15, in numbers that do not overflow it."""
    _, truth = simulate(0, items=20, systems=4)
    a, b, theta = truth.discrimination[:, None], truth.difficulty[:, None], truth.ability
    printed = a**2 * np.exp(a * (theta + b)) / (np.exp(a * b) + np.exp(a * theta)) ** 2
    np.testing.assert_allclose(fisher_information(truth), printed.sum(axis=1), rtol=1e-10)


def test_fisher_information_does_not_overflow() -> None:
    one = np.ones(3)
    fit = IRTFit(np.array([5.0]), np.array([4.0, -1000.0, 1000.0]), 900 * one, one, 0.1, 0.0, True, 1)
    assert fisher_information(fit) == pytest.approx([0.0, 0.0, 0.0], abs=1e-300)
    near = IRTFit(np.array([5.0]), np.array([5.0]), np.array([900.0]), np.ones(1), 0.1, 0.0, True, 1)
    assert fisher_information(near) == pytest.approx([900.0**2 / 4])


def test_two_systems_are_enough_to_compare() -> None:
    scores, _ = simulate(0, items=20, systems=2)
    assert fit_irt(scores).ability.shape == (2,)
    with pytest.raises(OptionError, match="1 system"):
        fit_irt(scores[:, :1])
