"""Tables of battles: the same data from every format, both bad as a share of its own, and errors that name the row."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.io import exports

import aliquot
from aliquot.annotation.preference_result import Comparison
from aliquot.errors import AliquotWarning, FormatError
from aliquot.io.formats import arena

ROWS = exports.arena()


def compare(source: Path | pl.DataFrame) -> Comparison:
    result = aliquot.compare(source)
    assert isinstance(result, Comparison)
    return result


def write(folder: Path, kind: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"arena.{kind.rsplit(maxsplit=1)[-1]}"
    if kind == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    elif kind == "jsonl":
        path.write_text(exports.lines(rows))
    elif kind == "json":
        path.write_text(json.dumps(rows, indent=1))
    else:
        printers: dict[str, Callable[[Any], str]] = {"python": str, "json": json.dumps, "numpy": print_array}
        print_list = printers[kind.split(maxsplit=1)[0]]
        flat = [row | {side: print_list(row[side]) for side in exports.SIDES} for row in rows]
        pl.DataFrame(flat).write_csv(path)
    return path


def print_array(messages: list[dict[str, Any]]) -> str:
    """As numpy prints an array of objects: no commas between them."""
    return "[" + "\n ".join(map(str, messages)) + "]"


KINDS = ["parquet", "jsonl", "json", "python csv", "json csv", "numpy csv"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_same_data(tmp_path: Path, kind: str) -> None:
    data = aliquot.load(write(tmp_path, kind, ROWS))
    assert data.ids == [f"battle{i}" for i in range(6)]
    assert set(data.systems) == {"x", "y", "z"}
    assert data.items["source"][1] == "question 1\n\ngo on"
    assert data.items["domain"].to_list() == ["en", "de"] * 3
    assert data.items["document"].to_list() == ["session0", "session0", "session1", "session1", "session2", "session2"]
    assert data.items["position"].to_list() == [1, 2] * 3
    assert data.outputs is not None
    assert data.outputs["x"].to_list() == ["x answers 0", "x answers 1", "x answers 2", "x answers 3", None, None]
    assert data.human == "human"
    by_system = dict(zip(data.systems, data.scores["human"][3].tolist(), strict=True))
    assert (by_system["z"], by_system["x"]) == (0.5, 0.5)
    assert by_system["y"] != by_system["y"]  # not in this battle


@pytest.mark.parametrize("kind", KINDS)
def test_compare_and_judgments_of_every_format(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, kind, ROWS)
    result = compare(path)
    assert (result.choices, result.items) == (6, 6)
    assert result.tie_share == pytest.approx(2 / 6)
    assert result.both_bad_share == pytest.approx(1 / 6)
    assert (result["x"].wins, result["x"].ties, result["x"].losses) == (2, 2, 0)
    assert result.to_dict()["both_bad_share"] == pytest.approx(1 / 6)
    judged = aliquot.load_judgments(path).table
    assert judged["choice"].to_list()[:2] == ["won", "lost"]
    assert judged.filter(pl.col("item") == "battle3")["choice"].to_list() == ["both_bad", "both_bad"]
    assert judged.filter(pl.col("item") == "battle1").sort("system")["value"].to_list() == [1.0, 0.0]


def test_the_share_of_both_bad_is_shown(tmp_path: Path) -> None:
    shown = compare(write(tmp_path, "jsonl", ROWS)).views()[0]
    assert "ties: 33% of choices; both outputs bad: 17% of choices" in shown.caption
    without = [row | {"winner": "tie"} for row in ROWS]
    assert "both outputs bad" not in compare(pl.DataFrame(without)).views()[0].caption


@pytest.mark.parametrize("label", ["both_bad", "tie (bothbad)", "bothbad", "Both_Bad"])
def test_names_of_both_bad(label: str) -> None:
    table = pl.DataFrame([row | {"winner": label} for row in ROWS[:2]])
    assert compare(table).both_bad_share == pytest.approx(1)
    judged = aliquot.load(table).judgments
    assert judged is not None
    assert judged.table["choice"].unique().to_list() == ["both_bad"]


def test_a_table_of_prompts_and_responses() -> None:
    rows = [
        {"id": 30, "prompt": '["one","two"]', "response_a": '["a1","a2"]', "response_b": '["b1",null]', "w": 0},
        {"id": 31, "prompt": "[sic] plain", "response_a": "plain a", "response_b": '["b"]', "w": 2},
    ]
    table = pl.DataFrame(
        [
            {name: value for name, value in row.items() if name != "w"}
            | {"model_a": "x", "model_b": "y"}
            | {f"winner_{name}": int(row["w"] == at) for at, name in enumerate(["model_a", "model_b", "tie"])}
            for row in rows
        ]
    )
    data = aliquot.load(table)
    assert data.items["source"].to_list() == ["one\n\ntwo", "[sic] plain"]
    assert data.outputs is not None
    assert data.outputs.rows() == [("a2", None), ("plain a", "b")]
    assert data.scores["human"].tolist() == [[1.0, 0.0], [0.5, 0.5]]
    result = compare(table)
    assert (result["x"].wins, result["x"].ties, result.both_bad_share) == (1, 1, 0)


def test_two_winners_in_one_row_are_refused() -> None:
    table = pl.DataFrame({"model_a": "x", "model_b": "y", "winner_model_a": 1, "winner_model_b": 1, "winner_tie": 0})
    with pytest.raises(FormatError, match="row 1: more than one of 'winner_model_a'"):
        aliquot.load(table)


def test_a_table_without_texts_or_ids(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("model_a,model_b,winner,judge\nx,y,model_a,ann\ny,x,,bob\nx,y,y,ann\n")
    data = aliquot.load(tmp_path / "t.csv")
    assert data.ids == [0, 1, 2]
    assert data.outputs is None
    assert data.judgments is not None
    assert data.judgments.annotators == ["ann", "bob"]
    values = data.judgments.table.filter(pl.col("system") == "x")["value"].to_list()
    assert values == [1.0, None, 0.0]  # pending, and won by name
    assert compare(tmp_path / "t.csv").choices == 2


def test_votes_on_two_turns_of_a_question_are_two_items() -> None:
    row = {"question_id": 81, "model_a": "x", "model_b": "y", "judge": "ann"}
    talk = {side: exports.arena()[0][side] for side in exports.SIDES}
    table = pl.DataFrame([row | talk | {"winner": w, "turn": t} for t, w in ((1, "model_a"), (2, "model_b"))])
    data = aliquot.load(table)
    assert data.ids == ["81#1", "81#2"]
    assert data.items["source"].to_list() == ["question 0", "question 0\n\ngo on"]
    assert data.outputs is not None
    assert data.outputs["x"].to_list() == ["x asks back", "x answers 0"]
    assert compare(table)["x"].wins == compare(table)["x"].losses == 1


def test_content_of_parts(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image", "image": "x.png"}]
    talk = [{"role": "user", "content": parts}, {"role": "assistant", "content": [{"type": "text", "text": "seen"}]}]
    row = {"id": 1, "model_a": "x", "model_b": "y", "winner": "tie", "conversation_a": talk, "conversation_b": talk}
    for kind in ("jsonl", "parquet"):
        data = aliquot.load(write(tmp_path, kind, [row]))
        assert data.items["source"].to_list() == ["look\n[image]"]
        assert data.outputs is not None
        assert data.outputs.row(0) == ("seen", "seen")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"winner": "modela"}, "row 3: unknown winner 'modela'; did you mean 'model_a'"),
        ({"model_b": "x"}, "row 3: the model 'x' is compared with itself"),
        ({"conversation_a": "[{'role': 'user'"}, "row 3: the column 'conversation_a' is no list of messages"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    rows = [*ROWS[:2], ROWS[2] | change, *ROWS[3:]]
    with pytest.raises(FormatError, match=match):
        aliquot.load(write(tmp_path, "jsonl", rows))


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(exports.lines(ROWS[:2]) + '{"id": 1, "model_a": ')
    with pytest.raises(FormatError, match=r"a\.jsonl line 3: not valid JSON"):
        aliquot.load(tmp_path / "a.jsonl")


def test_many_models_and_battles_are_read_without_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "MAX_CELLS", 10)
    with pytest.warns(AliquotWarning, match="6 items x 3 systems are too many for a table of outputs"):
        data = aliquot.load(pl.DataFrame(ROWS))
    assert data.outputs is None
    assert data.human == "human"
    monkeypatch.setattr(arena, "MAX_CELLS", 18)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert aliquot.load(pl.DataFrame(ROWS)).outputs is not None


def test_other_columns_are_kept(tmp_path: Path) -> None:
    data = aliquot.load(write(tmp_path, "jsonl", [row | {"tags": {"hard": True}} for row in ROWS]))
    assert data.items["is_code"].to_list() == [False, False, False, True, False, False]
    assert "tags" not in data.items.columns
