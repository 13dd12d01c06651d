"""Parts of an estimate with values worked out by hand: quality of items, severities of few judgments."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet, Judgments
from aliquot.estimation.inputs import with_judgments
from aliquot.estimation.sample import sample_of
from aliquot.estimation.targets import judging_noise

NAMES = ["item", "system", "annotator", "value"]


def test_quality_is_the_mean_of_standardised_means_of_items():
    """Items' means are 1, 1, 5, 5 by m and 10, 20, 10, 20 by n: standardised -1, -1, 1, 1 and -1, 1, -1, 1."""
    scores = {
        "human": np.ones((4, 2)),
        "m": np.array([[0.0, 2.0], [1.0, 1.0], [5.0, 5.0], [2.0, 8.0]]),
        "n": np.array([[10.0, 10.0], [0.0, 40.0], [10.0, 10.0], [15.0, 25.0]]),
    }
    data = EvalSet(systems=("A", "B"), scores=scores, human="human", items=pl.DataFrame({"id": range(4)}))
    assert sample_of(data).quality == pytest.approx([-1.0, 0.0, 0.0, 1.0])
    without = EvalSet(systems=("A", "B"), scores={"human": np.ones((4, 2))}, human="human", items=data.items)
    assert sample_of(without).quality is None


@pytest.mark.parametrize(
    ("left_out", "people"),
    [(0, 2), (1, 0)],  # three judgments for each system are enough to tell two annotators, two and a half are not
)
def test_severities_need_three_judgments_of_a_system_and_two_annotators(left_out, people):
    rows = [(item, system, who, value) for item, system, who, value in [
        (0, "A", "x", 1.0), (0, "B", "y", 5.0), (1, "A", "y", 6.0), (1, "B", "x", 2.0), (2, "A", "x", 3.0),
        (2, "B", "y", 7.0)]]  # fmt: skip
    empty = EvalSet(systems=("A", "B"), scores={"m": np.ones((3, 2))}, items=pl.DataFrame({"id": range(3)}))
    table = pl.DataFrame(rows[left_out:], schema=NAMES, orient="row")
    noise = judging_noise(with_judgments(empty, Judgments(table))[0], "human")
    assert noise.shares.shape == (people, 2)
    if people:  # x judged two of A's three outputs and one of B's
        assert noise.shares == pytest.approx(np.array([[2, 1], [1, 2]]) / 3)
        assert noise.severity > 1
    one = table.with_columns(annotator=pl.lit("x"))
    assert judging_noise(with_judgments(empty, Judgments(one))[0], "human").shares.shape == (0, 2)
