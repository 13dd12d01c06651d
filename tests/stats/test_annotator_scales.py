"""Other scales and reversed annotators: ratios of quantiles by hand, and the limits from both sides."""

from __future__ import annotations

import numpy as np
import pytest

from aliquot.stats.annotator_scales import ScaleMismatch, _scale_factor, find_reversed_annotators, find_scale_mismatches

SCORES = np.arange(0.0, 101.0, 10.0)  # eleven values, with the quantiles 10, 25, 50, 75, 90


def judged(*columns: object) -> tuple[np.ndarray, np.ndarray]:
    """Values of annotators 0, 1, ..., one column each."""
    parts = [np.asarray(column, dtype=float) for column in columns]
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def test_another_scale_by_hand():
    assert find_scale_mismatches(*judged(SCORES, SCORES / 5, SCORES)) == [
        ScaleMismatch(1, 11, 0.2, (2.0, 18.0), (10.0, 90.0))
    ]
    assert find_scale_mismatches(*judged(SCORES, SCORES * 5, SCORES)) == [
        ScaleMismatch(1, 11, 5.0, (50.0, 450.0), (10.0, 90.0))
    ]
    assert [found.factor for found in find_scale_mismatches(*judged(SCORES, SCORES * 5))] == [
        0.2,
        5.0,
    ]  # each of the other
    assert find_scale_mismatches(*judged(SCORES, SCORES / 5 + 30, SCORES)) == []  # narrower, but not a multiple
    assert find_scale_mismatches(*judged(SCORES)) == []


def test_ten_judgments_are_enough_to_compare():
    assert len(find_scale_mismatches(*judged(SCORES, SCORES[:10] / 10, SCORES))) == 1
    assert find_scale_mismatches(*judged(SCORES, SCORES[:9] / 10, SCORES)) == []


@pytest.mark.parametrize(
    ("own", "others", "factor"),
    [
        ([4, 4, 4, 4, 4], [1, 1, 1, 1, 1], 4.0),  # from four times on
        ([3.9, 3.9, 3.9, 3.9, 3.9], [1, 1, 1, 1, 1], None),
        ([1, 1, 1, 1, 1], [4, 4, 4, 4, 4], 0.25),
        ([1, 1, 1, 1, 1], [3.9, 3.9, 3.9, 3.9, 3.9], None),
        ([5, 5, 6, 10, 10], [1, 1, 1, 1, 1], 6.0),  # ratios change along the scale by a factor of two at most
        ([5, 5, 6, 10, 10.1], [1, 1, 1, 1, 1], None),
        ([0, 5, 10, 15, 20], [0, 1, 2, 3, 4], 5.0),  # a zero on both sides has no ratio
        ([0, 0, 10, 15, 20], [0, 1, 2, 3, 4], None),  # three ratios are too few
        ([5, 5, 0, 5, 10], [1, 1, 1, 0, 2], None),
        ([-10, -10, -10, -10, 10], [1, 1, 1, 1, 1], None),  # neither all negative nor positive
        ([-4, -3, -2, 0, 0], [0, 0, 2, 4, 6], -0.75),  # signs differ: the ratio of the means
        ([-4, -3, 0, 0, 0], [0, 0, 2, 4, 6], None),  # two negative quantiles are too few
        ([-4, -3, -2, 0, 0], [0, 0, 0, 4, 6], None),
        ([-4, -3, -2, 0, 0], [-1, 0, 2, 4, 6], None),
        ([0, 0, 2, 4, 6], [-4, -3, -2, 0, 0], -12 / 9),
        ([0, 0, 0, 4, 6], [-4, -3, -2, 0, 0], None),
        ([0, 0, 2, 4, 6], [-4, -3, 0, 0, 0], None),
        ([-1, 0, 2, 4, 6], [-4, -3, -2, 0, 0], None),
        ([0, 0, 2, 4, 6], [-4, -3, -2, 0, 1], None),
        ([-3, -2, -1, -1, 0.5], [1, 2, 3, 4, 5], None),
        ([-0.4, -0.6, -1, -1, -2], [0.2, 0.3, 0.5, 0.5, 1], -2),
        ([0.4, 0.6, 1, 1, 2], [-0.2, -0.3, -0.5, -0.5, -1], -2),
    ],
)
def test_factor_by_hand(own, others, factor):
    found = _scale_factor(np.array(own, dtype=float), np.array(others, dtype=float))
    assert found == (None if factor is None else pytest.approx(factor))


def test_reversed_annotators_by_hand():
    """Turned ranks correlate with -1; the typical other is the median of the two others' +1."""
    truth = np.tile(SCORES, 3)
    values, people = judged(SCORES, 100 - SCORES, SCORES)
    (found,) = find_reversed_annotators(values, people, truth)
    assert (found.annotator, found.judgments) == (1, 11)
    assert (found.correlation, found.typical) == pytest.approx((-1.0, 1.0))
    truth[people == 0] = np.nan  # two annotators are left, who cannot be told apart
    assert find_reversed_annotators(values, people, truth) == []
    values, people = judged(SCORES, 100 - SCORES, 100 - SCORES)
    assert find_reversed_annotators(values, people, np.tile(SCORES, 3)) == []  # the typical other is reversed too: at 0
    values, people = judged([5.0] * 11, 100 - SCORES, [7.0] * 11)
    assert find_reversed_annotators(values, people, np.tile(SCORES, 3)) == []  # the others' values are constant
