"""Annotators on another scale or the wrong way round are named, and nobody else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet, Judgments, clean, estimate, synthetic
from aliquot.core.annotator_scales import annotator_notes


@pytest.fixture(scope="module")
def crowd() -> EvalSet:
    """DA scores of 0 to 100 by five annotators."""
    return synthetic(items=80, systems=3, annotators=5, protocol="da", judgments_per_output=2, seed=4)


def changed(data: EvalSet, who: str, value: pl.Expr | pl.Series) -> EvalSet:
    assert data.judgments is not None
    mine = pl.when(pl.col("annotator") == who).then(value).otherwise("value").alias("value")
    return replace(data, judgments=Judgments(data.judgments.table.with_columns(mine)))


CHANGES = {
    "0 to 10": (pl.col("value") / 10, "uses another scale"),
    "0 to 1": (pl.col("value") / 100, "uses another scale"),
    "0 to 1000": (pl.col("value") * 10, "uses another scale"),
    "all signs flipped": (-pl.col("value"), "has flipped signs"),
    "100 less the score": (100 - pl.col("value"), "judges the wrong way round"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_annotator_and_the_evidence_are_named(crowd, name):
    value, words = CHANGES[name]
    who = crowd.judgments.annotators[2]
    notes = annotator_notes(changed(crowd, who, value))
    assert len(notes) == 1
    assert f"annotator '{who}' {words}" in notes[0]
    assert "judgments" in notes[0]
    assert "correct or leave out" in notes[0]


def test_three_verbs_tell(crowd):
    who = crowd.judgments.annotators[0]
    odd = changed(crowd, who, pl.col("value") / 10).aggregate(name="human")
    for notes in (odd.describe().notes, estimate(odd).notes, clean(odd, steps="burn_in:first=1").notes):
        assert any(f"annotator '{who}' uses another scale" in note for note in notes)
    for notes in (crowd.describe().notes, estimate(crowd).notes, clean(crowd, steps="burn_in:first=1").notes):
        assert not any("annotator '" in note for note in notes)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("protocol", ["da", "likert", "mqm"])
def test_severe_and_careless_annotators_are_no_mistake(protocol, seed):
    data = synthetic(items=60, systems=3, annotators=6, protocol=protocol, judgments_per_output=2, seed=seed)
    assert data.judgments is not None
    assert annotator_notes(data) == []
    who = data.judgments.annotators[1]
    if protocol == "da":
        assert annotator_notes(changed(data, who, (pl.col("value") - 30).clip(0, 100))) == []
        noise = pl.Series("noise", np.random.default_rng(seed).uniform(0, 100, len(data.judgments)))
        assert annotator_notes(changed(data, who, noise)) == []


def test_criteria_have_their_own_scales(crowd):
    """The same annotators judge a second criterion from 0 to 10."""
    table = crowd.judgments.table
    both = pl.concat(
        [table.with_columns(criterion=pl.lit("a")), table.with_columns(pl.col("value") / 10, criterion=pl.lit("b"))]
    )
    assert annotator_notes(replace(crowd, judgments=Judgments(both))) == []


def test_few_judgments_say_nothing(crowd):
    few = crowd.judgments.table.group_by("annotator", maintain_order=True).head(9)
    data = replace(crowd, judgments=Judgments(few))
    assert annotator_notes(changed(data, data.judgments.annotators[0], -pl.col("value"))) == []
