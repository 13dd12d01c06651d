"""The labels-per-item curve: exact draws, the known error of a mean of k, and that it ends at nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.stats.aggregation import draw_judgments, labels_curve
from aliquot.stats.arrays import group_means


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 8), st.integers(0, 1000))
def test_k_answers_of_every_cell(cells, k, seed):
    cells = np.array(cells, dtype=np.int64)
    rows = draw_judgments(cells, k, np.random.default_rng(seed))
    assert len(set(rows.tolist())) == len(rows)
    assert np.all(np.diff(rows) > 0)
    for cell in np.unique(cells):
        assert (cells[rows] == cell).sum() == min(k, (cells == cell).sum())


def test_every_answer_is_equally_likely():
    rng = np.random.default_rng(1)
    hits = np.zeros(5)
    for _ in range(4000):
        hits[draw_judgments(np.zeros(5, dtype=int), 2, rng)] += 1
    assert np.abs(hits / 4000 - 0.4).max() < 0.03


def test_the_error_of_a_mean_of_k_of_n_answers_is_the_textbook_one():
    """Var(mean of k of K) = S^2 / k * (1 - k/K), S^2 with divisor K - 1."""
    rng = np.random.default_rng(2)
    cells = np.repeat(np.arange(400), 8)
    values = rng.normal(0, 1, len(cells)) + rng.normal(0, 3, 400)[cells]
    truth = group_means(cells, values, 400)
    inside = np.sqrt(np.mean([values[cells == cell].var(ddof=1) for cell in range(400)]))
    points = labels_curve(
        cells, lambda rows: group_means(cells[rows], values[rows], 400), truth, [1, 2, 4, 8], repeats=40, seed=3
    )
    for point in points:
        assert point.rms_error == pytest.approx(inside * np.sqrt((1 - point.k / 8) / point.k), rel=0.05, abs=1e-12)
    assert points[-1].wrong == 0


def test_binary_votes_are_wrong_as_often_as_the_hypergeometric_says():
    """Seven of ten say yes: the majority of three drawn says no with chance C(3,2)C(7,1)/C(10,3) + C(3,3)/C(10,3)."""
    cells = np.repeat(np.arange(300), 10)
    values = np.tile([1.0] * 7 + [0.0] * 3, 300)

    def majority(rows):
        return (group_means(cells[rows], values[rows], 300) > 0.5).astype(float)

    (point,) = labels_curve(cells, majority, np.ones(300), [3], repeats=60, seed=4)
    assert point.wrong == pytest.approx(22 / 120, abs=0.01)


def test_same_seed_same_curve_and_undecided_counts():
    cells = np.repeat(np.arange(30), 3)

    def undecided(rows):
        assert len(rows)
        return np.where(np.arange(30) < 10, np.nan, 1.0)

    first = labels_curve(cells, undecided, np.ones(30), [1, 2], repeats=3, seed=5)
    assert first == labels_curve(cells, undecided, np.ones(30), [1, 2], repeats=3, seed=5)
    assert first[0].undecided == pytest.approx(1 / 3)
    assert first[0].wrong == 0


def test_nothing_decided_has_no_error():
    (point,) = labels_curve(
        np.zeros(2, dtype=int), lambda rows: np.where(rows[:1] >= 0, np.nan, 0.0), np.ones(1), [1], repeats=2
    )
    assert point.undecided == 1.0
    assert np.isnan([point.wrong, point.mean_error, point.rms_error]).all()
