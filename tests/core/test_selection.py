"""Selection: what it must know, saving and reading back, and the items it stands for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from aliquot import AliquotError, EvalSet, Selection, load, synthetic
from aliquot.errors import FormatError


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
        ("not json\n", r"s\.jsonl line 1: not a JSON object"),
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
