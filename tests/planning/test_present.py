"""The first row of a plan from a pilot is what `estimate` says of the same items."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.core.judgments import Judgments

NAMES = tuple(f"sys{number}" for number in range(1, 7))


def equal_systems() -> aliquot.EvalSet:
    """Scores without any difference between systems: the leader leads by chance."""
    data = aliquot.synthetic(items=90, systems=6, annotators=0, metrics={"A": 0.3}, seed=1)
    return data.with_score("human", np.random.default_rng(4).normal(size=(90, 6)))


def different_annotators() -> aliquot.EvalSet:
    """Systems judged by different annotators, whose severities differ: `estimate` adjusts for them."""
    rng = np.random.default_rng(2)
    quality, severity = rng.normal(size=(90, 6)), (0.0, 1.5, -1.5, 1.0)
    rows = [
        (item, NAMES[system], f"p{person}", quality[item, system] + severity[person] + 0.5 * rng.normal())
        for item in range(90)
        for system in range(6)
        for person in sorted({(item + system) % 4, system % 4})
    ]
    made = Judgments(pl.DataFrame(rows, schema=["item", "system", "annotator", "value"], orient="row"))
    data = aliquot.synthetic(items=90, systems=6, annotators=0, metrics={"A": 0.3}, seed=1)
    return replace(data, judgments=made, scores={"A": data.scores["A"]}, human=None).aggregate()


@pytest.mark.parametrize("target", ["testset", "given"])
@pytest.mark.parametrize("make", [equal_systems, different_annotators])
def test_the_present_is_that_of_estimate(make, target):
    data = make()
    pilot = aliquot.select(data, budget=32, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aliquot.AliquotWarning)
        estimates = aliquot.estimate(data, selection=pilot, target=target)
        planned: Any = aliquot.plan(data, selection=pilot, target=target, budgets="90%")
    assert ("severity is adjusted" in " ".join(estimates.notes)) == (
        make is different_annotators and target == "testset"
    )
    now, means = planned.points[0], {row.system: row.estimate for row in estimates.systems}
    assert now.items == estimates.judged
    assert now.best == pytest.approx(estimates.systems[0].p_best, abs=1e-9)
    assert now.width == pytest.approx(np.mean([row.high - row.low for row in estimates.systems]))
    assert now.width_difference == pytest.approx(np.mean([pair.high - pair.low for pair in estimates.pairs]))
    assert [pair.difference for pair in planned.pairs] == pytest.approx(
        [means[pair.a] - means[pair.b] for pair in planned.pairs]
    )


def test_the_leader_of_equal_systems_is_not_called_the_best():
    """Eight equal systems: no more than a fifth of them may look like the best with a probability above a half."""
    rng, sure = np.random.default_rng(0), 0
    data = aliquot.synthetic(items=40, systems=8, annotators=0, metrics={}, texts=False, seed=1)
    for _ in range(20):
        found = aliquot.estimate(data.with_score("human", rng.normal(size=(40, 8))), target="testset")
        sure += found.systems[0].p_best > 0.5
    assert sure <= 4


def test_items_judged_for_some_systems_are_named():
    data = equal_systems()
    scores = data.human_score().copy()
    scores[40:] = np.nan
    scores[30:40, 0] = np.nan
    planned: Any = aliquot.plan(data.with_score("human", scores), budgets="90%")
    assert planned.judged == 30
    assert planned.recommendation.text[0].startswith("30 of 90 items are judged for all systems;")
