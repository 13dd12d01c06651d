"""The same notes in inspect, clean and estimate."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.core.describe import describe
from aliquot.core.judgments import Judgments
from aliquot.core.plausibility import plausibility_notes
from aliquot.errors import DataError


@pytest.fixture(scope="module")
def data():
    return aliquot.synthetic(items=60, systems=3, protocol="da", annotators=4, judgments_per_output=2, seed=2)


def with_values(data, change):
    table = data.judgments.table
    return replace(data, judgments=Judgments(table.with_columns(pl.Series("value", change(table["value"].to_numpy())))))


def test_a_code_is_named_with_its_rows(data):
    def break_two(values):
        return np.where(np.arange(len(values)) < 2, 999.0, values)

    broken = with_values(data, break_two)
    row = broken.judgments.table.row(0, named=True)
    (note,) = [note for note in plausibility_notes(broken) if "999" in note]
    assert note.startswith("judgments contain 999 2 times")
    assert f"item {row['item']}, {row['system']}, {row['annotator']}" in note
    assert note in describe(broken).notes
    assert note in aliquot.clean(broken, steps="straight_liners").notes
    assert note in aliquot.estimate(broken).notes


def test_sound_judgments_have_no_note(data):
    assert plausibility_notes(data) == []


def test_copies_under_another_name_are_named(data):
    table = data.judgments.table
    name = table["annotator"][0]
    copy = table.filter(pl.col("annotator") == name).with_columns(annotator=pl.lit("copy"))
    notes = plausibility_notes(replace(data, judgments=Judgments(pl.concat([table, copy]))))
    assert any(f"'{name}' and 'copy' gave equal judgments" in note for note in notes)


def test_people_copied_into_a_metric_are_named(data):
    people = data.scores[data.human]
    notes = plausibility_notes(replace(data, scores={**data.scores, "metric": people / 100}))
    assert any("'metric' equals" in note for note in notes)


def test_scores_outside_a_named_scale_are_refused_with_their_outputs(data):
    scores = data.scores[data.human].copy()
    scores[4, 1] = 850.0
    broken = replace(data, scores={**data.scores, data.human: scores}, judgments=None)
    with pytest.raises(DataError, match=rf"item {data.ids[4]}, {data.systems[1]}: 850"):
        aliquot.estimate(broken, value_range=(0, 100))
    assert any("contain 850 once" in note for note in aliquot.estimate(broken).notes)
