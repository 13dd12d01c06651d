"""Scores that differ by rounding only give the same estimates, p-values and clusters."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stats.test_rounding import SHAPES, TABLES, rounded_otherwise

import aliquot
from aliquot.stats.arrays import FloatArray


def estimated(table: FloatArray, items: int) -> aliquot.Estimates:
    data = aliquot.synthetic(items=items, systems=3, seed=1, annotators=0)
    scores = np.full((items, 3), np.nan)
    scores[: len(table)] = table
    return aliquot.estimate(data.with_score("human", scores), "mean")


@pytest.mark.parametrize("items", [24, 60])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TABLES)
def test_rounding_changes_no_estimate(name, shape, items):
    table = SHAPES[shape](TABLES[name])
    first, second = estimated(table, items), estimated(rounded_otherwise(table), items)
    for field in ("p", "p_adjusted", "p_sample", "p_full", "low", "high"):
        expected = [getattr(pair, field) for pair in first.pairs]
        np.testing.assert_allclose([getattr(pair, field) for pair in second.pairs], expected, atol=1e-6)
    assert [row.cluster for row in first.systems] == [row.cluster for row in second.systems]
