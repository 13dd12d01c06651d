"""Selected outputs without a judgment: counted, refused by --strict, and told where they are not missing at random."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet, Judgments, estimate, select
from aliquot.errors import DataError, NameUnknownError
from aliquot.estimation.inputs import select_criterion


def with_gaps(data: EvalSet, gaps: np.ndarray) -> EvalSet:
    return data.with_score("human", np.where(gaps, np.nan, data.scores["human"])).with_human("human")


def low_half(data: EvalSet, system: int = 0) -> np.ndarray:
    """The attack of issue 14: the low-scored half of one system is not judged."""
    human = data.scores["human"]
    gaps = np.zeros(human.shape, dtype=bool)
    gaps[:, system] = human[:, system] < np.median(human[:, system])
    return gaps


def told(result) -> str:
    return " | ".join(result.notes)


@pytest.mark.parametrize("metrics", [2, 0])
@pytest.mark.parametrize("selected", [False, True])
def test_low_scores_that_are_missing_are_told(campaign, metrics, selected):
    data = campaign(items=120, metrics=metrics, documents=0)
    chosen = select(data, "segments", 100, seed=1) if selected else None
    result = estimate(with_gaps(data, low_half(data)), "mean", selection=chosen)
    assert "A: " in told(result)
    assert "worse than those judged" in told(result)
    assert "its mean is probably too high" in told(result)
    assert ("by the metrics" if metrics else "by the scores of other systems") in told(result)
    assert ("not spread evenly over the systems (A " in told(result)) is selected


def test_counts_by_system(campaign):
    data = campaign(items=40)
    chosen = select(data, "segments", 20, seed=2)
    gaps = np.zeros((40, 3), dtype=bool)
    rows = [data.ids.index(item) for item in chosen.ids]
    gaps[rows[:3], 1] = True
    gaps[rows[5], :] = True
    result = estimate(with_gaps(data, gaps), selection=chosen)
    assert {row.system: row.missing for row in result.systems} == {"A": 1, "B": 4, "C": 1}
    assert {row["system"]: row["missing"] for row in result.to_dict()["systems"]} == {"A": 1, "B": 4, "C": 1}


def test_cells_that_were_not_asked_for_are_not_missing(campaign):
    data = campaign(items=40)
    chosen = select(data, "segments", 30, seed=2, matching=False)
    result = estimate(data, selection=chosen, strict=True)
    assert {row.missing for row in result.systems} == {0}


def test_strict_refuses(campaign):
    data = campaign(items=40)
    chosen = select(data, "segments", 20, seed=2)
    gaps = np.zeros((40, 3), dtype=bool)
    gaps[data.ids.index(chosen.ids[0]), 1] = True
    estimate(with_gaps(data, np.zeros_like(gaps)), selection=chosen, strict=True)
    with pytest.raises(DataError, match=r"1 of 60 selected outputs have no judgment \(B 1 of 20\).*leave out systems"):
        estimate(with_gaps(data, gaps), selection=chosen, strict=True)


def test_random_gaps_are_silent(campaign):
    data = campaign(items=100)
    chosen = select(data, "segments", 60, seed=3)
    quiet = [
        estimate(with_gaps(data, np.random.default_rng(seed).random((100, 3)) < 0.15), selection=chosen, seed=0)
        for seed in range(20)
    ]
    assert sum("missing" in told(result) or "no judgment" in told(result) for result in quiet) <= 1


# -- several criteria ----------------------------------------------------------------------------------------------


@pytest.fixture
def judged(campaign):
    """Two criteria on different scales, for data without human scores."""
    data = campaign(items=30)
    table = data.to_frame().select("item", "system", pl.col("human").alias("value"))
    fluency = table.with_columns(criterion=pl.lit("fluency"))
    accuracy = table.with_columns(criterion=pl.lit("accuracy"), value=pl.col("value") / 10)
    bare = EvalSet(items=data.items, systems=data.systems, scores={name: data.scores[name] for name in data.metrics})
    return bare, Judgments(pl.concat([fluency, accuracy]))


def test_several_criteria_are_refused(judged):
    data, judgments = judged
    with pytest.raises(DataError, match=r"2 criteria \('fluency', 'accuracy'\).*`criterion`"):
        estimate(data, judgments=judgments)


def test_one_criterion_is_taken(judged):
    data, judgments = judged
    fluency = estimate(data, judgments=judgments, criterion="fluency")
    accuracy = estimate(data, judgments=judgments, criterion="accuracy")
    assert fluency["A"].estimate == pytest.approx(10 * accuracy["A"].estimate)
    assert "criterion:fluency" in fluency.signature
    by_name = estimate(data, judgments=judgments, human="human_accuracy")
    assert by_name["A"].estimate == pytest.approx(accuracy["A"].estimate)


def test_an_unknown_criterion(judged):
    data, judgments = judged
    with pytest.raises(NameUnknownError, match=r"fluenzy.*did you mean 'fluency'"):
        estimate(data, judgments=judgments, criterion="fluenzy")


def test_one_criterion_needs_no_name(judged):
    _, judgments = judged
    only = Judgments(judgments.table.filter(pl.col("criterion") == "fluency"))
    assert select_criterion(only, None) == only


def test_data_that_hold_their_criteria(judged):
    """`human` stays the mean over criteria, and says so; --criterion takes the score of one."""
    data, judgments = judged
    whole = EvalSet(items=data.items, systems=data.systems, judgments=judgments)
    whole = whole.aggregate().aggregate(criterion="fluency").aggregate(criterion="accuracy")
    mean = estimate(whole)
    assert "mean over 2 criteria ('human_fluency', 'human_accuracy'); `criterion` takes one" in told(mean)
    one = estimate(whole, criterion="fluency")
    assert "criteria" not in told(one)
    assert one["A"].estimate == pytest.approx(estimate(whole, human="human_fluency")["A"].estimate)
