"""The model that is kept up to date cell by cell, against the same model built at once, and against a dense solve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.stats import cell_model
from aliquot.stats.arrays import FloatArray
from aliquot.stats.cell_model import RIDGE, CellModel
from aliquot.stats.mixed_model import item_effect_means

ITEMS, SYSTEMS, FEATURES = 12, 4, 2
CELLS = st.lists(
    st.tuples(st.integers(0, ITEMS - 1), st.integers(0, SYSTEMS - 1), st.floats(-50, 50), st.booleans()),
    min_size=1,
    max_size=80,
)


def made(seed: int = 0, features: int = FEATURES, items: int = ITEMS) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Features, weights and complete scores that depend on both."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items, SYSTEMS, features))
    scores = rng.normal(size=SYSTEMS) + rng.normal(size=(items, 1)) + x.sum(axis=2) + rng.normal(size=(items, SYSTEMS))
    return x, rng.uniform(0.5, 2.0, items), scores


def fed(model: CellModel, scores: FloatArray) -> CellModel:
    for row, system in np.argwhere(np.isfinite(scores)):
        model.set_score(int(row), int(system), float(scores[row, system]))
    return model


@given(CELLS, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_any_order_of_cells_gives_the_equations_of_the_table(cells, seed):
    """Also where cells are overwritten, and where estimates are asked for in between."""
    x, weight, _ = made(seed)
    model = CellModel(x, weight)
    table = np.full((ITEMS, SYSTEMS), np.nan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            cell_model, "_UPDATE_COST", 0
        )  # items' parts are replaced one by one, however few cells there are
        for row, system, value, look in cells:
            model.set_score(row, system, value)
            table[row, system] = value
            if look:
                model.fit()
        model.fit()
    assert np.array_equal(model.scores, table, equal_nan=True)
    assert model.counts.tolist() == np.isfinite(table).sum(axis=0).tolist()
    matrix, right = model._matrix.copy(), model._right.copy()
    model._rebuild_equations()
    np.testing.assert_allclose(matrix, model._matrix, atol=1e-9)
    np.testing.assert_allclose(right, model._right, atol=1e-7)  # sums of values up to 50 x 80


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_dense_generalised_least_squares_solution(seed):
    x, weight, scores = made(seed)
    scores[np.random.default_rng(seed).random(scores.shape) < 0.4] = np.nan
    model = fed(CellModel(x, weight), scores)
    fit = model.fit()
    standard = x - x.mean(axis=0)
    standard = standard / standard.std(axis=(0, 1))
    there = np.argwhere(np.isfinite(scores))
    design = np.column_stack([np.eye(SYSTEMS)[there[:, 1]], standard[there[:, 0], there[:, 1]]])
    same = there[:, 0][:, None] == there[:, 0][None, :]
    covariance = (np.eye(len(there)) + model._ratio * same) / weight[there[:, 0]][:, None]
    inverse = np.linalg.inv(covariance)
    penalty = np.diag([0.0] * SYSTEMS + [RIDGE] * FEATURES)
    found = np.linalg.solve(design.T @ inverse @ design + penalty, design.T @ inverse @ scores[tuple(there.T)])
    np.testing.assert_allclose(fit.values, found[:SYSTEMS], rtol=1e-7)
    np.testing.assert_allclose(fit.slopes, found[SYSTEMS:], rtol=1e-7)
    assert model._ratio > 0


def test_without_features_it_is_the_mixed_model_of_the_estimates():
    _, _, scores = made(4, 0, items=40)
    scores[np.random.default_rng(1).random(scores.shape) < 0.5] = np.nan
    model = fed(CellModel(np.zeros((40, SYSTEMS, 0))), scores)
    fit = model.fit()
    share = model._ratio / (1.0 + model._ratio)
    rows = np.isfinite(scores).any(axis=1)
    means, _ = item_effect_means(scores[rows], np.ones(int(rows.sum())), share)
    np.testing.assert_allclose(fit.values, means, rtol=1e-7)


def test_what_is_judged_completely_is_the_plain_mean_and_what_is_not_judged_is_not_a_number():
    x, weight, scores = made(2)
    scores[:, 1], scores[6:, 2] = np.nan, np.nan
    fit = fed(CellModel(x, weight), scores).fit()
    assert fit.values[0] == pytest.approx(scores[:, 0].mean())
    assert np.isnan(fit.values[1])
    assert np.isfinite(fit.values[2])
    assert fit.variance(np.array([12.0, 0.5, 6.0, 12.0]), 12).tolist() == pytest.approx(
        [0.0, fit.noise * (1 - 0.5 / 12) / 0.5, fit.noise * 0.5 / 6, 0.0]
    )


def test_the_noise_of_a_cell_is_found():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 5, 1))
    scores = 3.0 * rng.normal(size=(400, 1)) + 2.0 * x[:, :, 0] + rng.normal(size=(400, 5))
    assert fed(CellModel(x), scores).fit().noise == pytest.approx(1.0, rel=0.1)


def test_constant_features_are_left_out():
    x, _, scores = made(5)
    wide = np.concatenate([x, np.ones((ITEMS, SYSTEMS, 1))], axis=2)
    plain, more = (fed(CellModel(features), scores).fit() for features in (x, wide))
    assert plain.values == pytest.approx(more.values)
    assert len(more.slopes) == FEATURES
