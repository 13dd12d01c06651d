"""A score that aliquot made of judgments remembers them; only scores of files are searched for."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet, Judgments
from aliquot.annotation import judgment_noise
from aliquot.annotation.judgment_noise import find_score_judgments


@pytest.fixture
def data() -> EvalSet:
    """Two criteria that agree almost perfectly: only memory tells of which one a score was made."""
    rng = np.random.default_rng(1)
    rows = [
        {"item": item, "system": system, "annotator": f"a{person}", "criterion": criterion, "value": value}
        for item in range(30)
        for system in ("A", "B")
        for person in range(2)
        for value in [float(rng.normal())]
        for criterion in ("fluency", "style")
    ]
    table = pl.DataFrame(rows)
    style = pl.col("criterion") == "style"
    table = table.with_columns(pl.when(style).then(2 * pl.col("value") + 1).otherwise(pl.col("value")).alias("value"))
    bare = EvalSet(pl.DataFrame({"id": range(30)}), ("A", "B"), judgments=Judgments(table))
    return bare.aggregate(criterion="style").aggregate()


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr(judgment_noise, "_search_judgments", refuse)


@pytest.mark.usefixtures("no_search")
def test_a_score_remembers_the_criterion_it_averages(data):
    assert find_score_judgments(data, "human").source == "all judgments"
    behind = find_score_judgments(data, "human_style")
    assert (behind.source, behind.table.height) == ("criterion style", 120)
    assert behind.slope == pytest.approx(1.0)


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.keep(items=list(range(5, 25)), systems=["B"]),
        lambda data: data.with_human("human_style").with_score("other", np.zeros((30, 2))),
        lambda data: pickle.loads(pickle.dumps(data)),  # noqa: S301  (our own bytes)
        lambda data: data.rename(systems={"A": "C"}),
    ],
)
def test_parts_and_copies_remember_it_too(data, change):
    assert find_score_judgments(change(data), "human_style").source == "criterion style"


def test_a_renamed_score_is_remembered_and_a_replaced_one_is_not(data):
    assert dict(data.averaged) == {"human_style": "style", "human": None}
    assert dict(data.rename(scores={"human_style": "s"}).averaged) == {"s": "style", "human": None}
    assert dict(data.with_score("human_style", data.score("human")).averaged) == {"human": None}


def test_other_judgments_are_not_taken_for_those_of_the_score(data):
    noise = pl.Series("value", np.random.default_rng(2).normal(size=len(data.judgments)))
    other = replace(data, judgments=Judgments(data.judgments.table.with_columns(noise)))
    with pytest.raises(ValueError, match="is not the mean of any of the judgments"):
        find_score_judgments(other, "human_style")
