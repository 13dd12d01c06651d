"""Item JSON lines: what is read out of them, what is written, and that subset2evaluate's files work unchanged."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot import load, save
from aliquot.errors import FormatError
from aliquot.io.files import count_keys, require_unique_keys
from aliquot.io.formats import items
from aliquot.io.formats.item_fields import build_line_error

NAN = float("nan")


def write(path: Path, *items: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


FIRST = {
    "i": 7,
    "src": "Guten Tag",
    "ref": "Hello",
    "doc": "d1",
    "domain": "news",
    "cost": 1.5,
    "position": 3,
    "tgt": {"B": "Hi", "A": "Good day"},
    "scores": {"B": {"human": 0.9, "COMET": 0.8}, "A": {"human": None, "COMET": 0.1}},
}
SECOND = {"i": 9, "tgt": {"A": "no source"}, "scores": {"A": {"COMET": 1}}}


@pytest.fixture
def two(tmp_path):
    return write(tmp_path / "two.jsonl", FIRST, SECOND)


def test_fields_become_columns_and_arrays(two):
    data = load(two)
    assert (data.ids, data.systems, data.name) == ([7, 9], ("B", "A"), "two")
    assert np.array_equal(data.scores["human"], [[0.9, NAN], [NAN, NAN]], equal_nan=True)
    assert np.array_equal(data.scores["COMET"], [[0.8, 0.1], [NAN, 1.0]], equal_nan=True)
    assert data.human == "human"
    assert data.items.row(0, named=True) == {
        "id": 7,
        "source": "Guten Tag",
        "reference": "Hello",
        "document": "d1",
        "domain": "news",
        "cost": 1.5,
        "position": 3,
    }
    assert data.items.row(1)[1:] == (None,) * 6
    assert data.outputs is not None
    assert data.outputs.rows() == [("Hi", "Good day"), (None, "no source")]


@pytest.mark.parametrize("ending", ["jsonl", "json", "ndjson", "jsonl.gz", "txt"])
def test_the_content_tells_the_format_and_not_the_ending(two, tmp_path, ending):
    raw = two.read_bytes()
    copy = tmp_path / f"copy.{ending}"
    copy.write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)
    assert load(copy) == load(two)


def test_an_array_and_standard_input_are_the_same(two, tmp_path, monkeypatch):
    array = tmp_path / "array.json"
    array.write_text(json.dumps([FIRST, SECOND]))
    assert load(array) == load(two)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(two.read_bytes())))
    assert load("-") == load(two)


def test_items_without_id_are_numbered(tmp_path):
    assert load(write(tmp_path / "x.jsonl", {"tgt": {"A": "x"}}, {"tgt": {"A": "y"}})).ids == [0, 1]


def test_ids_and_documents_may_be_names_or_numbers(tmp_path):
    items: list[dict[str, Any]] = [
        {"i": "seg-1", "doc": 4, "tgt": {"A": ""}},
        {"i": "seg-2", "doc": "4", "tgt": {"A": None}},
    ]
    data = load(write(tmp_path / "x.jsonl", *items))
    assert data.ids == ["seg-1", "seg-2"]
    assert data.items["document"].to_list() == ["4", "4"]
    assert data.outputs is not None
    assert data.outputs["A"].to_list() == ["", None]


def test_files_of_subset2evaluate_keep_their_fields(tmp_path):
    """Its items carry time, cost, nulls and whatever else; a file read and written has all of it."""
    item = {
        "i": 0,
        "src": "s",
        "ref": "r",
        "tgt": {"A": "a"},
        "doc": "d",
        "domain": "news",
        "cost": 2.0,
        "time": 31.5,
        "scores": {"A": {"human": 0.5, "MetricX": -1.0}},
        "subset2evaluate_utility": None,
        "refs": ["r", "s"],
        "meta": {"lang": "de", "n": [1, 2.5, None]},
        "id": "own",
        "source": "own too",
        "year": 2023,
        "ok": True,
    }
    data = load(write(tmp_path / "x.jsonl", item))
    assert data.column("time").to_list() == [31.5]
    assert data.ids == [0]
    save(data, tmp_path / "y.jsonl")
    assert records(tmp_path / "y.jsonl") == [item]


def test_written_lines_are_plain_items(two, tmp_path):
    save(load(two), tmp_path / "out.jsonl")
    first, second = records(tmp_path / "out.jsonl")
    assert first == FIRST  # the null score stays on the first line
    assert second["scores"] == {"A": {"COMET": 1.0}}
    assert second["tgt"] == {"A": "no source"}
    assert "src" not in second


def test_systems_of_tgt_come_first_then_of_scores_then_of_judgments(tmp_path):
    items = [{"i": 0, "tgt": {"T": "x"}, "scores": {"S": {"m": 1}, "T": {"m": 2}}, "judgments": [{"system": "J"}]}]
    data = load(write(tmp_path / "x.jsonl", *items))
    assert data.systems == ("T", "S", "J")
    assert np.array_equal(data.scores["m"], [[2.0, 1.0, NAN]], equal_nan=True)


def test_judgments_are_read_and_written(tmp_path):
    judged: list[dict[str, Any]] = [
        {"system": "A", "annotator": "r1", "criterion": "fluency", "value": 4, "seconds": 3.5, "label": "good"},
        {"system": "A", "annotator": "r2", "value": None, "spans": [{"start": 0}]},
    ]
    data = load(write(tmp_path / "x.jsonl", {"i": 0, "tgt": {"A": "x"}, "judgments": judged}))
    assert data.judgments is not None
    assert data.judgments.table.select("item", "value", "seconds", "label").rows() == [
        (0, 4.0, 3.5, "good"),
        (0, None, None, None),
    ]
    save(data, tmp_path / "y.jsonl")
    pending = {key: value for key, value in judged[1].items() if value is not None}
    assert records(tmp_path / "y.jsonl")[0]["judgments"] == [judged[0], pending]


def test_items_before_any_system_exists(tmp_path):
    path = write(tmp_path / "x.jsonl", {"i": 0, "src": "a"}, {"i": 1, "src": "b"})
    data = load(path, sources_only=True)
    assert (data.n_items, data.systems) == (2, ())
    assert data.items["source"].to_list() == ["a", "b"]


# -- people's score and directions ---------------------------------------------------------------------------------


def with_scores(tmp_path: Path, *names: str) -> Path:
    return write(tmp_path / "x.jsonl", {"i": 0, "scores": {"A": dict.fromkeys(names, 0.5)}})


@pytest.mark.parametrize(
    ("names", "human"),
    [
        (("COMET", "human"), "human"),
        (("mqm", "COMET"), "mqm"),
        (("mqm", "da"), None),
        (("mqm", "human"), "human"),
        (("COMET", "GEMBA-MQM"), None),
    ],
)
def test_the_human_score_is_found_where_it_is_clear(tmp_path, names, human):
    assert load(with_scores(tmp_path, *names)).human == human
    assert load(with_scores(tmp_path, *names), human=names[0]).human == names[0]


def test_flipped_scores_are_remembered(tmp_path):
    data = load(with_scores(tmp_path, "TER", "BLEU"), lower_is_better=["TER"])
    assert (data.scores["TER"].item(), data.scores["BLEU"].item()) == (-0.5, 0.5)
    for name in ("y.jsonl", "y.parquet"):
        save(data, tmp_path / name)
        again = load(tmp_path / name)
        assert again.flipped == {"TER"}
        assert again.scores["TER"].item() == -0.5
        with pytest.raises(Exception, match="already flipped"):
            load(tmp_path / name, lower_is_better=["TER"])


@pytest.mark.parametrize("name", ["y.jsonl", "y.parquet"])
def test_the_choice_of_the_human_score_is_remembered(tmp_path, name):
    save(load(with_scores(tmp_path, "mqm", "da"), human="da"), tmp_path / name)
    assert load(tmp_path / name).human == "da"


def test_many_items_are_read_in_blocks(tmp_path, monkeypatch):
    """Cells are turned into arrays block by block; a tiny block must give the same arrays."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(50, 4))
    scores = [
        {f"s{m}": {"x": float(v), **({"y": float(v)} if m % 2 else {})} for m, v in enumerate(row)} for row in values
    ]
    path = write(tmp_path / "x.jsonl", *({"i": i, "scores": cells} for i, cells in enumerate(scores)))
    whole = load(path)
    monkeypatch.setattr("aliquot.core.columns._FLUSH_SIZE", 7)
    assert load(path) == whole
    assert np.array_equal(whole.scores["x"], values)
    assert np.array_equal(whole.scores["y"][:, 1], values[:, 1])
    assert np.isnan(whole.scores["y"][:, 0]).all()


def test_loaded_arrays_are_read_only(two):
    assert not any(array.flags.writeable for array in load(two).scores.values())


def test_the_file_is_not_touched_by_loading(two):
    before = two.read_bytes(), two.stat().st_mtime_ns
    load(two)
    assert (two.read_bytes(), two.stat().st_mtime_ns) == before


# -- keys that occur twice -----------------------------------------------------------------------------------------

WORDS = st.text(alphabet='ab":\\ {}\t\n[],é', max_size=4)
LEAVES = WORDS | st.integers() | st.none()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner), max_leaves=8)


@given(st.dictionaries(WORDS, VALUES), st.sampled_from([(", ", ": "), (",", ":"), (" , ", " : "), (",", "\t :\n")]))
def test_unique_keys_are_never_refused(value, separators):
    raw = json.dumps(value, separators=separators).encode()
    require_unique_keys(raw, count_keys(value), [("x", raw)])


@given(st.dictionaries(WORDS, VALUES, min_size=1), st.sampled_from([": ", ":", " : ", "\t :\n"]), st.randoms())
def test_a_key_twice_is_always_found(value, colon, random):
    pairs = [*value.items(), (random.choice(list(value)), 1)]
    random.shuffle(pairs)
    written = (json.dumps(key) + colon + json.dumps(inner, separators=(",", colon)) for key, inner in pairs)
    raw = ("{" + ",".join(written) + "}").encode()
    with pytest.raises(FormatError, match=r"x: the key .* occurs twice"):
        require_unique_keys(raw, count_keys(msgspec.json.decode(raw)), [("x", raw)])


def test_quotes_before_colons_do_not_slow_reading(monkeypatch):
    """Lines are read a second time only when the counts differ."""
    monkeypatch.setattr(json, "loads", None)
    raw = b'{"i": 0, "tgt": {"A": "so \\":x\\" :morty: and \\\\"}, "meta": {"k": [{"j": "a:"}]}}\n'
    assert items.read(raw, "x").n_items == 1


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (5, "expected a JSON object per item, found the number 5"),
        ([{"i": 1}, {"i": True}], "i of entry 2: an item id is an integer or a string, found the boolean true"),
        ([{"i": 1}, 7], "entry 2: expected a JSON object per item, found the number 7"),
        ({"i": 1.5}, "field i: an item id is an integer or a string, found the number 1.5"),
        ({"i": "x", "src": 3}, "item 'x', field src: expected a text, found the number 3"),
        ({"i": 1, "ref": []}, "item 1, field ref: expected a text, found a list []"),
        ({"doc": 1.5}, "field doc: expected a name, found the number 1.5"),
        ({"domain": True}, "field domain: expected a name, found the boolean true"),
        ({"cost": "2"}, "field cost: expected a number, found the string"),
        ({"cost": True}, "field cost: expected a number, found the boolean"),
        ({"cost": 10**400}, "is beyond what a number can be here"),
        ({"cost": NAN}, "nan is not a score"),
        ({"position": 1.5}, "field position: expected a whole number"),
        ({"position": False}, "field position: expected a whole number, found the boolean false"),
        ({"aliquot": {"flipped": "m"}}, "field aliquot: 'aliquot' is where aliquot keeps"),
        ({"aliquot": {"flipped": ["m", 1]}}, "field aliquot: 'aliquot' is where"),
        ({"aliquot": {"human": 1}}, "field aliquot: 'aliquot' is where"),
        ({"aliquot": []}, "field aliquot: 'aliquot' is where"),
        ({"tgt": ["A"]}, "field tgt: expected"),
        ({"tgt": {"A": None, "B": 1}}, "field tgt.B: an output is a text, found the number 1"),
        ({"scores": [1]}, "field scores: expected"),
        ({"scores": {"A": None, "B": 0.5}}, "field scores.B: expected"),
        ({"scores": {"A": {"m": None, "n": "x"}}}, "field scores.A.n: expected a number"),
        ({"judgments": {"A": 1}}, "field judgments: expected a list"),
        ({"judgments": [1]}, "field judgments: expected a list"),
        ({"judgments": [{"system": "A"}, {"value": 1}]}, "field judgments[1].system: expected a system's name"),
        ({"judgments": [{"system": "A", "annotator": True}]}, "field judgments[0].annotator: expected a name"),
        ({"judgments": [{"system": "A", "criterion": 1.5}]}, "field judgments[0].criterion: expected a name"),
        ({"judgments": [{"system": "A", "value": "x"}]}, "field judgments[0].value: expected a number"),
        ({"judgments": [{"system": "A", "seconds": True}]}, "field judgments[0].seconds: expected a number"),
        ({"i": 1, "src": "\ud800"}, "item 1: \\ud800 is half of a surrogate pair"),
        ({"i": 1}, "item 1: the reason"),
        (
            {
                "i": 1,
                "src": None,
                "doc": 3,
                "domain": "d",
                "cost": 2,
                "position": 0,
                "tgt": {"A": "t"},
                "aliquot": {"human": "h", "flipped": ["m"]},
                "scores": {"A": {"m": 1}},
                "judgments": [{"system": "A", "annotator": 3}],
            },
            "item 1: the reason",
        ),
    ],
)
def test_what_is_wrong_with_an_item_is_said(item, message):
    assert message in str(build_line_error(json.dumps(item).encode(), "here", "the reason"))


def test_long_and_broken_lines_are_explained_in_short():
    assert "not valid JSON" in str(build_line_error(b'{"i": ', "here", "r"))
    said = str(build_line_error(json.dumps({"src": ["x" * 100]}).encode(), "here", "r"))
    assert said == 'here, field src: expected a text, found a list ["' + "x" * 58 + "..."
