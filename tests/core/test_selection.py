"""Selection: what it must know, saving and reading back, and the items it stands for."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from aliquot import AliquotError, AliquotWarning, EvalSet, Selection, estimate, load, select, synthetic
from aliquot.core.selection import Design, compute_cell_probability
from aliquot.errors import DataError, FormatError


def chosen(**changes: Any) -> Selection:
    fields: dict[str, Any] = {
        "ids": (4, 1, 8),
        "population": 10,
        "method": "pps:size=difficulty",
        "utility": np.array([3.5, 1.25, -0.5]),
        "probability": np.array([1.0, 0.5, 0.1]),
        "cost": np.array([1.0, 2.0, 0.5]),
        "stratum": ("hard", "easy", "easy"),
        "systems": (("A", "B"), ("A",), ()),
        "details": {"gap": 0.25, "bins": [1, 2], "draws": {"order": [8, 4, 1]}},
        "signature": "aliquot:0.1.0|select:pps|seed:7",
    }
    return Selection(**{**fields, **changes})


@pytest.fixture
def campaign():
    return synthetic(items=10, systems=3, seed=4)


FEWER = {
    "everything": {},
    "bare": dict.fromkeys(("utility", "probability", "cost", "stratum", "systems")) | {"details": {}},
    "own weights": {"weight": np.array([2.0, 0.0, 1.0])},
    "names as ids": {"ids": ("x", "y", "z")},
    "an unknown utility": {"utility": np.array([1.0, np.nan, 0.0])},
    "an id like a number": {"ids": ("10", "9", "8")},
}


@pytest.mark.parametrize("changes", [pytest.param(changes, id=name) for name, changes in FEWER.items()])
@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz"])
def test_save_and_load(tmp_path, changes, name):
    selection = chosen(**changes)
    selection.save(tmp_path / name)
    again = Selection.load(tmp_path / name)
    assert again == selection
    assert again.ids == selection.ids
    for field in ("utility", "probability", "weight", "cost"):
        assert np.array_equal(getattr(again, field) is None, getattr(selection, field) is None)
    assert again.systems == selection.systems
    assert dict(again.details) == dict(selection.details)
    assert again.design == selection.design


def test_the_order_is_that_of_the_ranks(tmp_path):
    chosen().save(tmp_path / "s.jsonl")
    lines = (tmp_path / "s.jsonl").read_text().splitlines()
    (tmp_path / "shuffled.jsonl").write_text("\n".join(reversed(lines)))
    assert Selection.load(tmp_path / "shuffled.jsonl") == chosen()


def test_with_the_items_it_is_an_evaluation_set(tmp_path, campaign):
    chosen(systems=None).save(tmp_path / "s.jsonl", campaign)
    first = json.loads((tmp_path / "s.jsonl").read_text().splitlines()[0])
    assert first["i"] == 4
    assert first["src"] == campaign.items["source"][4]
    assert first["selection"]["rank"] == 1
    data = load(tmp_path / "s.jsonl")
    assert data.ids == [4, 1, 8]
    assert data.systems == campaign.systems
    assert np.array_equal(data.scores["human"], campaign.scores["human"][[4, 1, 8]])
    assert Selection.load(tmp_path / "s.jsonl") == chosen(systems=None)


def test_with_the_items_flipped_scores_are_remembered(tmp_path, campaign):
    """The line that remembers stands first, whatever item was chosen first."""
    flipped = campaign.with_score("TER", np.ones((10, 3)), lower_is_better=True)
    chosen(systems=None).save(tmp_path / "s.jsonl", flipped)
    assert load(tmp_path / "s.jsonl").flipped == {"TER"}


def test_with_the_items_the_order_of_systems_stays(tmp_path):
    """The item chosen first may lack the first system."""
    lacking = [None if item == 4 else "text" for item in range(10)]
    sparse = EvalSet(
        items=pl.DataFrame({"id": range(10)}),
        systems=("A", "B"),
        outputs=pl.DataFrame({"A": lacking, "B": ["text"] * 10}),
    )
    chosen(systems=None).save(tmp_path / "s.jsonl", sparse)
    assert load(tmp_path / "s.jsonl").systems == ("A", "B")


def test_the_chosen_items_in_the_order_of_the_set(campaign):
    assert chosen(systems=None).of(campaign).ids == [1, 4, 8]


def test_weights_come_from_probabilities():
    assert np.array_equal(chosen().to_frame()["weight"], [1.0, 2.0, 10.0])
    assert np.array_equal(chosen(weight=np.ones(3)).to_frame()["weight"], [1.0, 1.0, 1.0])
    assert chosen(probability=None).weight is None


def test_nothing_can_be_changed():
    mine = np.array([1.0, 0.5, 0.1])
    selection = chosen(probability=mine)
    mine[0] = 0.2
    assert selection.probability is not None
    assert selection.probability[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        selection.probability[0] = 0.5
    with pytest.raises(TypeError):
        selection.details["gap"] = 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": (1, 1, 2)}, "twice"),
        ({"probability": np.array([1.0, 0.0, 0.5])}, r"0\.0 is not in \(0, 1\]"),
        ({"probability": np.array([1.5, 0.5, 0.5])}, r"1\.5 is not in"),
        ({"probability": np.array([np.nan, 0.5, 0.5])}, "nan is not in"),
        ({"utility": np.array([1.0])}, r"utility has shape \(1,\) for 3 items"),
        ({"weight": np.array([-1.0, 1.0, 1.0])}, r"-1\.0 is negative"),
        ({"stratum": ("a",)}, "1 entries of stratum for 3 items"),
        ({"systems": (("A",),)}, "1 entries of systems for 3 items"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(AliquotError, match=message):
        chosen(**changes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"s\.jsonl: the file is empty"),
        ("not json\n", r"s\.jsonl line 1: not valid JSON"),
        ('{"i": 1, "selection": {"rank": 1}}\n{"i": 2}\n', r"s\.jsonl line 2: no 'selection' object"),
        ('{"selection": {"rank": 1}}\n', r"s\.jsonl line 1: no 'selection' object with an item id"),
        ('{"i": 1, "selection": {"rank": 1, "probability": "half"}}\n', r"s\.jsonl line 1.*probability.*half"),
        ('{"i": 1, "selection": {"rank": 1, "probability": 2}}\n', r"s\.jsonl.*2\.0 is not in"),
        ('{"i": 1, "selection": {"rank": "a"}}\n{"i": 2, "selection": {"rank": 1}}\n', r"s\.jsonl line 1.*rank"),
        ('{"i": 1, "selection": {}}\n{"i": 1, "selection": {}}\n', r"s\.jsonl.*twice"),
    ],
)
def test_a_broken_file_is_explained(tmp_path, content, message):
    (tmp_path / "s.jsonl").write_text(content)
    with pytest.raises(FormatError, match=message):
        Selection.load(tmp_path / "s.jsonl")


def test_as_a_table():
    frame = chosen().to_frame()
    assert frame.columns == ["id", "rank", "utility", "probability", "weight", "cost", "stratum", "systems"]
    assert frame.row(1) == (1, 2, 1.25, 0.5, 2.0, 2.0, "easy", "A")
    assert repr(chosen()) == "Selection(3 of 10 items by pps:size=difficulty, with probabilities)"


# -- Use with other data, and files that lost lines ----------------------------------------------------------------


def other_sources(data: EvalSet, rows: int) -> EvalSet:
    texts = [f"other {at}" if at < rows else text for at, text in enumerate(data.items["source"])]
    return EvalSet(data.items.with_columns(pl.Series("source", texts)), data.systems, data.scores, human=data.human)


def test_the_same_data_with_new_scores_and_white_space_are_the_same(campaign):
    made = select(campaign, "segments", 5)
    padded = EvalSet(
        campaign.items.with_columns(pl.col("source") + "  "), campaign.systems, {"new": campaign.scores["metricA"]}
    )
    assert made.check(campaign, strict=True) == ()
    assert made.check(padded, strict=True) == ()


def test_data_with_other_sources_are_refused_and_a_correction_is_noted(campaign):
    campaign = synthetic(items=40, systems=3, seed=4)
    made = select(campaign, "segments", 40)
    with pytest.raises(DataError, match=r"40 of the selection's 40 items have another source .*; give the data"):
        made.check(other_sources(campaign, 40))
    (note,) = made.check(other_sources(campaign, 2))
    assert "2 of the selection's 40 items have another source" in note
    with pytest.raises(DataError, match="`strict`"):
        made.check(other_sources(campaign, 2), strict=True)


def test_missing_items_are_counted(campaign):
    made = select(campaign, "segments", 10)
    with pytest.raises(DataError, match=r"3 of its 10 items are not\); give the data"):
        made.check(campaign.drop(items=[1, 2, 3]))


def test_systems_added_later_are_a_note_and_other_systems_without_sources_a_fault(campaign):
    two = campaign.keep(systems=["sys1", "sys2"])
    assert select(two, "segments", 5).check(campaign, strict=True) == ("added after the selection was drawn: 'sys3'",)
    bare = EvalSet(two.items.drop("source"), two.systems, two.scores)
    renamed = bare.rename(systems={"sys1": "x", "sys2": "y"})
    with pytest.raises(DataError, match="other systems"):
        select(bare, "segments", 5).check(renamed, strict=True)


def test_other_items_around_the_selected_ones_are_a_fault(campaign):
    made = select(campaign, "segments", 3, seed=1)
    ids = [item if item in made.ids else item + 100 for item in campaign.ids]
    others = EvalSet(campaign.items.with_columns(pl.Series("id", ids)), campaign.systems, campaign.scores)
    assert "not selected have other ids" in made.check(others)[0]


@pytest.mark.parametrize("texts", [True, False], ids=["with texts", "bare"])
def test_what_a_selection_remembers_of_its_data_is_in_its_file(tmp_path, campaign, texts):
    made = select(campaign, "segments", 5)
    made.save(tmp_path / "s.jsonl", campaign if texts else None)
    again = Selection.load(tmp_path / "s.jsonl")
    assert again.origin == made.origin
    with pytest.raises(DataError, match="another source"):
        again.check(other_sources(campaign, 10))


@pytest.mark.parametrize("lost", [slice(0, 3), slice(2, 5), slice(0, 9, 2)], ids=["end", "start", "every other"])
def test_lost_lines_of_a_design_are_refused_and_those_of_an_order_noted(tmp_path, campaign, lost):
    path = tmp_path / "s.jsonl"
    for method, budget in (("segments", 5), ("metric_var:metric=metricA", 5)):
        select(campaign, method, budget).save(path)
        path.write_text("".join(path.read_text().splitlines(keepends=True)[lost]))
        if method == "segments":
            with pytest.raises(FormatError, match="lines are missing"):
                Selection.load(path)
        else:
            with pytest.warns(AliquotWarning, match="2 of the selection's 5 lines are missing"):
                Selection.load(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"probability":0.5', '"probability":0.25'),
        ('"weight":2.0', '"weight":4.0'),
        ('"population":10', '"population":99'),
        ('"method":"segments"', '"method":"pps"'),
    ],
)
def test_an_edited_design_is_refused_and_reads_as_ones_own_without_its_seal(tmp_path, campaign, old, new):
    path = tmp_path / "s.jsonl"
    select(campaign, "segments", 5).save(path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(FormatError, match="was edited after"):
        Selection.load(path)
    if "probability" in old:
        with pytest.raises(FormatError, match=r"the probability 0\.25 and the weight 2, .* remove `file`"):
            Selection.load(path)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        del lines[0]["selection"]["file"]
        path.write_text("\n".join(json.dumps(line) for line in lines))
        with pytest.warns(AliquotWarning, match="earlier version"):
            Selection.load(path)


def test_an_edited_order_without_probabilities_is_noted(tmp_path, campaign):
    path = tmp_path / "s.jsonl"
    select(campaign, "metric_var:metric=metricA", 5).save(path)
    path.write_text(path.read_text().replace('"population":10', '"population":11'))
    with pytest.warns(AliquotWarning, match="was edited after"):
        Selection.load(path)


def test_files_of_other_programs_and_of_earlier_versions_are_read(tmp_path, campaign):
    """JavaScript writes 1 for 1.0; the seal of earlier versions was another."""
    path = tmp_path / "s.jsonl"
    select(campaign, "segments", 5).save(path)
    lines = path.read_text().replace(":2.0,", ":2,").splitlines()
    path.write_text("\n".join(lines))
    Selection.load(path)
    entries = [json.loads(line) for line in lines]
    told = [[str(e["i"]), e["selection"]["rank"], 0.5, 2.0, e["selection"].get("stratum"), None] for e in entries]
    digest = hashlib.blake2b(msgspec.json.encode(told), digest_size=4).hexdigest()
    entries[0]["selection"]["file"] = {"items": 5, "digest": digest}
    for entry in entries:
        entry["selection"].pop("outputs", None)
    path.write_text("\n".join(json.dumps(entry) for entry in entries))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        origin = Selection.load(path).origin
    assert origin is not None
    assert not origin.outputs


def with_output(data: Any, item: int | str, system: str, text: str) -> Any:
    texts = data.outputs[system].to_list()
    texts[list(data.ids).index(item)] = text
    return replace(data, outputs=data.outputs.with_columns(pl.Series(system, texts)))


@pytest.mark.parametrize("texts", [True, False], ids=["with texts", "bare"])
def test_outputs_changed_since_the_selection_are_noted_and_where_judged_refused(tmp_path, texts):
    data: Any = synthetic(items=30, systems=3, seed=2)
    made = select(data, "segments", 8, seed=1)
    made.save(tmp_path / "s.jsonl", data if texts else None)
    chosen = Selection.load(tmp_path / "s.jsonl")
    assert chosen.origin == made.origin
    item, other = chosen.ids[0], next(item for item in data.ids if item not in chosen.ids)
    same = with_output(data, item, "sys2", f"  {data.outputs['sys2'][list(data.ids).index(item)]}\n")
    assert chosen.check(with_output(same, other, "sys2", "another"), strict=True) == ()
    changed = with_output(data, item, "sys2", "another")
    assert chosen.check(changed) == (f"1 output (of 'sys2' on item {item!r}) changed since the selection was drawn",)
    with pytest.raises(DataError, match=r"`strict`.*changed since"):
        chosen.check(changed, strict=True)
    with pytest.raises(DataError, match=r"of 'sys2' on item .* changed since .* give the outputs that were judged"):
        estimate(changed, selection=chosen)
    scores = np.array(changed.scores[changed.human])
    scores[list(data.ids).index(item), 1] = np.nan
    unjudged = replace(changed, scores=changed.scores | {changed.human: scores}, judgments=None)
    assert any("1 output (of 'sys2'" in note for note in estimate(unjudged, selection=chosen).notes)


def test_a_wave_remembers_the_outputs_of_the_first():
    data: Any = synthetic(items=30, systems=3, seed=2)
    first = select(data, "segments", 8, seed=1)
    changed = with_output(data, first.ids[0], "sys2", "another")
    with pytest.warns(AliquotWarning, match="1 output"):
        second = select(changed, "segments", "+5", seed=1, add_to=first)
    assert len(second.check(changed)) == 1
    assert second.check(data) == ()


def test_probabilities_of_cells_by_hand():
    """1 - exp(-rate size); certain where the rate is none; the item's own where the selection knows no rate."""
    rates = {"A": 1.0, "B": None, "C": 0.5, "D": 0.0}
    found = compute_cell_probability(np.array([1.0, 2.0]), np.array([0.5, 0.75]), rates, ["A", "B", "C", "D", "E"])
    expected = [[1 - np.exp(-1), 1, 1 - np.exp(-0.5), 0.5, 0.5], [1 - np.exp(-2), 1, 1 - np.exp(-1), 0.75, 0.75]]
    assert found == pytest.approx(np.array(expected))


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"coverage": 1.1}, "coverage should be a share between 0 and 1, found 1.1"),
        ({"coverage": -0.1}, "coverage should be a share"),
        ({"coverage": True}, "coverage should be a share"),
        ({"remainder": -1.0}, "remainder should be a number of at least 0"),
        ({"first_stage": 1.5}, "first_stage should be a number of items"),
        ({"first_stage": 2**54}, "first_stage should be a number of items"),
        ({"within": 3}, "within should be a method"),
        ({"rates": [1]}, "rates should be an object"),
        ({"rates": {"A": -1.0}}, "the rate of 'A' should be a number of at least 0, found -1.0"),
        ({"rates": {"A": float("inf")}}, "the rate of 'A'"),
        ({"rates": {"A": "1"}}, "the rate of 'A'"),
    ],
)
def test_details_of_a_design_that_cannot_be(details, message):
    with pytest.raises(DataError, match=message):
        Design().with_details(details)


def test_details_of_a_design_that_can_be():
    details = {"coverage": 1.0 + 1e-12, "remainder": 0, "first_stage": 0, "rates": {"A": 0, "B": None}, "other": "x"}
    found = Design().with_details(details)
    assert (found.coverage, found.remainder, found.rates) == (1.0 + 1e-12, 0, {"A": 0, "B": None})
    assert Design().with_details({"variance": "of another kind"}).variance == "unordered"
    assert Design().with_details({}) == Design()
