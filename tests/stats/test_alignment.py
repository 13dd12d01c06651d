"""Scores of other outputs: what the features explain, shifted rows, exchanged systems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.stats.alignment import (
    agreement_within_cells,
    explain_scores,
    find_swapped_systems,
    output_features,
    shift_cells,
)

ITEMS, SYSTEMS = 80, 6


def campaign(seed: int, noise: float = 1.0):
    """Scores, a metric, and vectors of texts where systems with like outputs have like scores."""
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(ITEMS, 3))  # an output has one of three texts, each with its own quality
    choice = rng.integers(0, 3, (ITEMS, SYSTEMS))
    vectors = np.eye(3)[choice]
    truth = np.take_along_axis(errors, choice, axis=1)
    scores = truth + rng.normal(size=SYSTEMS) + noise * rng.normal(size=truth.shape)
    return scores, truth + rng.normal(size=truth.shape), vectors


def features_of(seed: int, *, metric: bool = True, texts: bool = True):
    scores, own_metric, vectors = campaign(seed)
    vectors = vectors if texts else np.zeros((ITEMS, SYSTEMS, 1))
    return scores, output_features(vectors, np.ones((ITEMS, SYSTEMS)), own_metric if metric else None)


@pytest.mark.parametrize(("metric", "texts"), [(True, False), (False, True), (True, True)])
def test_scores_are_explained_by_a_metric_or_by_likeness_alone(metric, texts):
    for seed in range(5):
        scores, features = features_of(seed, metric=metric, texts=texts)
        assert explain_scores(scores, features).gain > 10


def test_scores_of_other_items_are_not_explained():
    """Other items: most draws gain nothing; the features are fitted on other folds."""
    alarms = 0
    for seed in range(60):
        scores, features = features_of(seed % 6)
        alarms += explain_scores(scores[np.random.default_rng(seed).permutation(ITEMS)], features).gain < 0
    assert alarms >= 48


def test_one_predictor_by_hand():
    """Without texts and between items, the gain is that of a regression through 0 on the other folds."""
    metric = np.array([[1.0, 2, 3], [3, 1, 2], [2, 3, 1], [1, 3, 2], [3, 2, 1]])
    features = output_features(np.zeros((5, 3, 1)), np.ones((5, 3)), metric)
    explanation = explain_scores(metric.copy(), features)
    within = explanation.within
    assert np.allclose(within.sum(axis=0), 0, atol=1e-9)
    assert np.allclose(within.sum(axis=1), 0, atol=1e-9)
    # A feature equal to the scores: the weight is 1 / (1 + ridge) on every fold.
    assert np.allclose(explanation.predicted, within / 1.1)
    assert explanation.gain == pytest.approx((1 - (1 - 1 / 1.1) ** 2) * 15 / 2)


def test_shifted_rows_are_better_explained_when_moved_back():
    for seed in range(5):
        scores, features = features_of(seed)
        for step in (-1, 1):
            wrong = explain_scores(shift_cells(scores, step), features)
            assert explain_scores(scores, features).evidence(wrong) > 20
            assert wrong.evidence(explain_scores(scores, features)) <= 0


def test_shifted_cells_move_back_and_leave_gaps_alone():
    scores = np.arange(12.0).reshape(4, 3)
    scores[1, 1] = np.nan
    moved = shift_cells(scores, 1)
    assert moved[0].tolist() == [11, 0, 1]
    assert np.isnan(moved[1, 1])
    assert np.array_equal(shift_cells(moved, -1), scores, equal_nan=True)


def test_exchanged_systems_are_named():
    for seed in range(5):
        scores, features = features_of(seed)
        sound = find_swapped_systems(explain_scores(scores, features), features)
        assert sound is not None
        assert sound.evidence < 5
        assert sound.tries == SYSTEMS * (SYSTEMS - 1) // 2
        wrong = scores.copy()
        wrong[:, [1, 4]] = wrong[:, [4, 1]]
        exchange = find_swapped_systems(explain_scores(wrong, features), features)
        assert exchange is not None
        assert exchange.systems == (1, 4)
        assert exchange.evidence > 8


def test_systems_that_share_few_items_are_not_exchanged():
    scores, features = features_of(1)
    scores[29:, 0] = np.nan
    exchange = find_swapped_systems(explain_scores(scores, features), features)
    assert exchange is not None
    assert exchange.tries == 10  # pairs of the other five
    scores[29:] = np.nan
    assert find_swapped_systems(explain_scores(scores, features), features) is None


def test_agreement_by_hand():
    """Two annotators with equal ranks on four outputs: products of residuals, their sum over its standard error."""
    cell, annotator = np.repeat(np.arange(4), 2), np.tile([0, 1], 4)
    value = np.repeat([1.0, 2, 3, 4], 2)
    residuals = np.array([-0.375, -0.125, 0.125, 0.375])
    products = 2 * residuals**2
    assert agreement_within_cells(cell, annotator, value) == pytest.approx(
        products.sum() / np.sqrt((products**2).sum())
    )
    turned = value.copy()
    turned[1::2] = turned[1::2][::-1]
    assert agreement_within_cells(cell, annotator, turned) < 0
    assert agreement_within_cells(np.arange(8), annotator, value) == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.9), st.integers(2, 12), st.integers(1, 5))
def test_anything_can_be_explained(seed, missing, items, systems):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (items, systems)).astype(float)
    scores[rng.random(scores.shape) < missing] = np.nan
    lengths = np.where(rng.random(scores.shape) < missing, np.nan, 5.0)
    metric = np.where(rng.random(scores.shape) < missing, np.nan, rng.normal(size=scores.shape))
    features = output_features(rng.normal(size=(items, systems, 2)), lengths, metric)
    explanation = explain_scores(scores, features)
    assert np.isfinite(explanation.gains).all()
    assert (explanation.gains[~np.isfinite(scores).any(axis=1)] == 0).all()
