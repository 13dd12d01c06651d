"""Judgments of other rows, systems and campaigns are noticed by inspect, clean, estimate and status."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.core.judgments import Judgments
from aliquot.core.misalignment import misalignment_notes
from aliquot.core.plausibility import plausibility_notes


@pytest.fixture(scope="module")
def data():
    return aliquot.synthetic(items=120, systems=5, protocol="da", annotators=4, judgments_per_output=2, seed=4)


def with_table(data, table):
    """The data as a file of judgments gives them: scores are the means of the judgments."""
    scores = {name: data.scores[name] for name in data.metrics}
    return replace(data, scores=scores, human=None, judgments=Judgments(table)).aggregate()


def the_note(data, words):
    (note,) = [note for note in plausibility_notes(data) if words in note]
    return note


def test_sound_judgments_have_no_note(data):
    assert plausibility_notes(with_table(data, data.judgments.table)) == []


@pytest.mark.parametrize("step", [-1, 1])
def test_shifted_rows(data, step):
    """Annotators judged in orders of their own: the column `order` remembers the rows of the file."""
    table = data.judgments.table.sample(fraction=1.0, shuffle=True, seed=1).sort("annotator", maintain_order=True)
    values = pl.Series(np.roll(table["value"].to_numpy(), step))
    moved = with_table(data, table.with_columns(value=values, order=pl.int_range(table.height)))
    note = the_note(moved, "rows shifted")
    assert note.startswith("annotators agree only if each value is moved by one row")
    assert note in aliquot.estimate(moved).notes
    assert note in moved.describe().notes
    assert note in aliquot.clean(moved, steps="straight_liners").notes


@pytest.mark.parametrize("step", [-1, 1])
def test_shifted_rows_of_annotators_who_judged_in_the_same_order(data, step):
    table = data.judgments.table.sort("annotator", "order")
    moved = with_table(data, table.with_columns(value=pl.Series(np.roll(table["value"].to_numpy(), step))))
    assert the_note(moved, "rows shifted").startswith("scores 'human' fit the outputs better when moved")


@pytest.mark.parametrize("step", [-1, 1])
def test_ids_off_by_one(data, step):
    table = data.judgments.table
    names = dict(zip(data.ids, np.roll(data.ids, step).tolist(), strict=True))
    moved = with_table(data, table.with_columns(item=table["item"].replace_strict(names, return_dtype=pl.Int64)))
    assert the_note(moved, "ids off by one").startswith("scores 'human' fit the outputs better when moved")


def test_systems_exchanged_for_everybody(data):
    table = data.judgments.table
    names = {"sys2": "sys5", "sys5": "sys2"}
    note = the_note(with_table(data, table.with_columns(system=table["system"].replace(names))), "exchanged")
    assert note.startswith("scores 'human' of 'sys2' fit the outputs of 'sys5' better")


def test_systems_exchanged_by_one_annotator(data):
    table = data.judgments.table
    name = table["annotator"][0]
    mixed = pl.col("system").replace({"sys1": "sys3", "sys3": "sys1"})
    table = table.with_columns(system=pl.when(pl.col("annotator") == name).then(mixed).otherwise(pl.col("system")))
    note = the_note(with_table(data, table), "exchanged")
    assert note.startswith(f"judgments of annotator '{name}' of 'sys1' fit the outputs of 'sys3' better")


def test_scores_of_another_campaign(data):
    other = np.random.default_rng(0).permutation(data.scores["human"].ravel()).reshape(data.scores["human"].shape)
    wrong = replace(data, scores={**data.scores, "human": other}, judgments=None)
    assert "have no relation to the outputs" in the_note(wrong, "another campaign")
    few = wrong.keep(items=data.ids[:40])
    assert misalignment_notes(few, "human") == []  # 40 items say too little


def test_data_without_texts_and_metrics_say_nothing(data):
    scores = {"human": data.scores["human"]}
    assert misalignment_notes(replace(data, scores=scores, outputs=None, judgments=None), "human") == []


def test_a_metric_of_the_wrong_sign(data):
    name = data.metrics[0]
    wrong = replace(data, scores={**data.scores, name: -data.scores[name]})
    assert the_note(wrong, "`lower_is_better`").startswith(f"metric '{name}' runs against 'human'")
    other = data.scores["human"] + 1e-6 * data.scores[name]
    alone = {**{key: wrong.scores[key] for key in data.metrics}, "other": other}
    note = the_note(replace(wrong, scores=alone, human=None, judgments=None), "`lower_is_better`")
    assert note.startswith(f"metric '{name}' runs against the other metrics")
    two = {key: alone[key] for key in (name, "other")}
    note = the_note(replace(wrong, scores=two, human=None, judgments=None), "`lower_is_better`")
    assert "run against each other" in note


def test_people_of_the_wrong_sign_are_named_instead_of_all_metrics(data):
    wrong = replace(data, scores={**data.scores, "human": -data.scores["human"]}, judgments=None)
    assert the_note(wrong, "runs against").startswith("'human' runs against 3 of 3 metrics")


def test_items_under_several_ids(data):
    copies = data.items.head(5).with_columns(id=pl.col("id") + 1000)
    again = replace(
        data,
        items=pl.concat([data.items, copies]),
        outputs=pl.concat([data.outputs, data.outputs.head(5)]),
        scores={name: np.concatenate([values, values[:5]]) for name, values in data.scores.items()},
        judgments=None,
    )
    source = pl.Series("source", [f"A long enough sentence, number {item % 1000:05d} of all." for item in again.ids])
    again = replace(again, items=again.items.with_columns(source))
    assert "10 items have the same source and outputs" in the_note(again, "several ids")
    assert not [note for note in plausibility_notes(data) if "several ids" in note]
    draw = pl.Series("draw", np.where(np.arange(again.n_items) < data.n_items, 1, 2))
    drawn = replace(again, items=again.items.with_columns(draw))
    assert not [note for note in plausibility_notes(drawn) if "several ids" in note]
