"""Logs of Inspect: archives of every packing, documents, folders, and what their samples hold."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.inspect_files import ZSTANDARD, archive, encode, log, pack, sample

import aliquot
from aliquot import EvalSet
from aliquot.errors import AliquotWarning, FormatError, MissingExtraError

PROVENANCE = {"author": "ann", "timestamp": "2026-01-02T00:00:00+00:00", "reason": "the answer is right"}


def read(tmp_path: Path, *documents: Mapping[str, Any]) -> EvalSet:
    """Read a document, or several from a folder."""
    for number, document in enumerate(documents):
        (tmp_path / f"log{number}.json").write_bytes(encode(document))
    return aliquot.load(tmp_path / "log0.json" if len(documents) == 1 else tmp_path)


def read_fields(tmp_path: Path, **fields: Any) -> EvalSet:
    return read(tmp_path, log([sample(1, **fields)]))


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTANDARD])
def test_an_archive_is_read_as_its_document_however_it_is_packed(tmp_path: Path, method: int) -> None:
    document = log([sample(f"häuser/{i}", e, output="x" * 99) for i in (1, 2) for e in (1, 2)])
    (tmp_path / "x.eval").write_bytes(archive(document, method))
    (tmp_path / "x.json").write_bytes(encode(document))
    data = aliquot.load(tmp_path / "x.eval")
    assert data == aliquot.load(tmp_path / "x.json") == aliquot.load(tmp_path / "x.eval", format="inspect")
    assert data.ids == ["häuser/1#1", "häuser/1#2", "häuser/2#1", "häuser/2#2"]
    assert data.systems == ("org/small",)


def test_samples_are_in_the_order_of_the_data(tmp_path: Path) -> None:
    finished = [sample(3, 2), sample(1, 1), sample(3, 1), sample(1, 2)]
    data = read(tmp_path, log(finished, dataset={"sample_ids": [3, 1], "samples": 2}))
    assert data.ids == ["3#1", "3#2", "1#1", "1#2"]


def test_a_member_written_twice_means_its_last_content(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    path.write_bytes(archive(log([sample(1, output="before")])))
    with zipfile.ZipFile(path, "a") as target, pytest.warns(UserWarning, match="Duplicate"):
        target.writestr("samples/1_epoch_1.json", encode(sample(1, output="after")))
    outputs = aliquot.load(path).outputs
    assert outputs is not None
    assert outputs.item() == "after"


def test_samples_of_several_members_are_read(tmp_path: Path) -> None:
    """Large samples: the events have members of their own, the metadata too."""
    header = {name: value for name, value in log([]).items() if name != "samples"}
    members = {
        "header.json": encode(header),
        "samples/1_epoch_1/sample.json": encode(sample(1, metadata=None)),
        "samples/1_epoch_1/metadata.json": encode({"topic": "sums"}),
        "samples/1_epoch_1/events/0.json": b"[]",
    }
    (tmp_path / "x.eval").write_bytes(pack(members))
    data = aliquot.load(tmp_path / "x.eval")
    assert data.ids == [1]
    assert data.items["topic"].to_list() == ["sums"]


def test_without_the_package_a_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.eval").write_bytes(archive(log(), ZSTANDARD))
    (tmp_path / "y.eval").write_bytes(archive(log()))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"x.eval: .*Zstandard.*pip install 'aliquot\[logs\]'"):
        aliquot.load(tmp_path / "x.eval")
    assert aliquot.load(tmp_path / "y.eval").ids == [1, 2]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTANDARD])
def test_a_damaged_member_is_named(tmp_path: Path, method: int) -> None:
    raw = bytearray(archive(log([sample(1, output="text " * 50)]), method))
    raw[raw.index(b"samples/1_epoch_1.json") + 60] ^= 8
    (tmp_path / "x.eval").write_bytes(raw)
    with pytest.raises(FormatError, match=r"x.eval: its member samples/1_epoch_1.json is damaged .*copy"):
        aliquot.load(tmp_path / "x.eval")


def test_a_cut_archive_is_no_spreadsheet(tmp_path: Path) -> None:
    (tmp_path / "x.eval").write_bytes(archive(log())[:-40])
    with pytest.raises(FormatError, match=r"x.eval: a damaged or cut zip archive .*copy or download it again"):
        aliquot.load(tmp_path / "x.eval")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, ZSTANDARD])
def test_what_does_not_fit_into_memory_is_refused(tmp_path: Path, method: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.eval").write_bytes(archive(log([sample(1, output=" " * 3_000_000)]), method))
    monkeypatch.setenv("ALIQUOT_MEMORY", "4M")
    with pytest.raises(FormatError, match=r"samples/1_epoch_1.json: holds more than 2.0 MB"):
        aliquot.load(tmp_path / "x.eval")


def test_a_member_larger_than_it_says_is_damaged(tmp_path: Path) -> None:
    raw = bytearray(archive(log([sample(1, output=" " * 3_000_000)])))
    directory = raw.index(b"PK\x01\x02", raw.index(b"PK\x01\x02") + 1)
    raw[directory + 24 : directory + 28] = (100).to_bytes(4, "little")
    (tmp_path / "x.eval").write_bytes(raw)
    with pytest.raises(FormatError, match=r"samples/1_epoch_1.json is damaged"):
        aliquot.load(tmp_path / "x.eval")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (log([sample(1, id=True)]), "sample 1: the id of a sample is True"),
        (log([sample(1), sample(2, epoch="one")]), "sample 2: 'epoch' is 'one'"),
        (log(model=None), "'eval' does not name a model"),
        (log([]), "it holds no samples"),
        (log() | {"samples": 5}, r"not as the tool writes it \(.*samples"),
    ],
)
@pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, document: Mapping[str, Any], says: str) -> None:
    with pytest.raises(FormatError, match=says):
        read(tmp_path, document)


# -- samples -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "scores"),
    [
        ("C", {"s": 1.0}),
        ("I", {"s": 0.0}),
        ("P", {"s": 0.5}),
        ("N", {"s": 0.0}),
        ("yes", {"s": 1.0}),
        (True, {"s": 1.0}),
        ("2.5", {"s": 2.5}),
        ({"tone": 3, "clear": "P"}, {"s.tone": 3.0, "s.clear": 0.5}),
        (["C", 4], {"s.0": 1.0, "s.1": 4.0}),
    ],
)
def test_values_are_numbers(tmp_path: Path, value: object, scores: dict[str, float]) -> None:
    data = read_fields(tmp_path, scores={"s": {"value": value}})
    assert {name: array.item() for name, array in data.scores.items()} == scores


def test_a_score_that_could_not_be_given_is_missing(tmp_path: Path) -> None:
    scores = {"judge": {"value": float("nan"), "reason": "NaN"}, "match": {"value": "C"}}
    data = read(tmp_path, log([sample(1, scores=scores, output="is NaN or Infinity"), sample(2)]))
    assert np.isnan(data.scores["match"]).tolist() == [[False], [False]]
    assert "judge" not in data.scores or np.isnan(data.scores["judge"]).all()
    assert data.outputs is not None
    assert data.outputs.row(0) == ("is NaN or Infinity",)


def test_a_word_that_is_no_number_is_missing_and_told(tmp_path: Path) -> None:
    with pytest.warns(AliquotWarning, match="2 scores are words without a number and are missing, e.g. s: 'refused'"):
        data = read(tmp_path, log([sample(i, scores={"s": {"value": v}}) for i, v in enumerate(("refused", "?", 2))]))
    np.testing.assert_array_equal(data.scores["s"], [[np.nan], [np.nan], [2]])


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"choices": [{"message": {"content": "a"}}], "completion": "b"}, "a"),
        ({"choices": [{"message": {"content": [{"type": "reasoning", "reasoning": "hm"}, "a"]}}]}, "a"),
        ({"choices": [{"message": {"content": ""}}], "completion": ""}, ""),
        ({"completion": "b"}, "b"),
        ({"choices": [], "completion": ""}, None),
        ({}, None),
        (7, None),
    ],
)
def test_the_output_is_the_text_of_the_first_choice(tmp_path: Path, output: object, text: str | None) -> None:
    outputs = read(tmp_path, log([sample(1) | {"output": output}, sample(2)])).outputs
    assert outputs is not None
    assert outputs["org/small"][0] == text


def test_a_conversation_parts_choices_targets_and_metadata(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Which?"}, {"type": "image", "image": "data:..."}]},
    ]
    data = read_fields(
        tmp_path,
        input=messages,
        target=["A", "B"],
        choices=["one", "two"],
        metadata={"topic": "sums", "level": 2, "nested": {"a": 1}},
    )
    row = data.items.row(0, named=True)
    assert row["source"] == "system: Be brief.\n\nuser: Which?\n[image]"
    assert row["reference"] == "A\nB"
    assert (row["topic"], row["level"]) == ("sums", 2)
    assert "nested" not in row
    assert row["choices"]["json"] == '["one","two"]'


def test_usage_is_the_models_not_the_judges(tmp_path: Path) -> None:
    usage = {"org/small": {"total_tokens": 24, "total_cost": 0.5}, "org/judge": {"total_tokens": 900}}
    data = read_fields(tmp_path, model_usage=usage, total_time=1.25)
    assert {name: array.item() for name, array in data.usage.items()} == {"seconds": 1.25, "tokens": 24, "cost": 0.5}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"error": {"message": "ValueError('gone')", "traceback": "..."}}, r"ValueError\('gone'\)"),
        ({"invalidation": PROVENANCE}, "declared invalid by ann: the answer is right"),
    ],
)
def test_samples_that_failed_are_missing(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    with pytest.warns(AliquotWarning, match=f"1 of 2 samples failed and are missing, not 0 .*first: {reason}"):
        data = read(tmp_path, log([sample(1), sample(2, **fields)]))
    np.testing.assert_array_equal(data.scores["match"], [[1], [np.nan]])


def test_samples_that_hit_a_limit_count_and_are_told(tmp_path: Path) -> None:
    with pytest.warns(AliquotWarning, match=r"1 of 2 samples hit a limit \(token 1\)"):
        data = read(tmp_path, log([sample(1), sample(2, limit={"type": "token", "limit": 100})]))
    assert data.scores["match"].sum() == pytest.approx(2)


# -- people --------------------------------------------------------------------------------------------------------


def test_a_score_that_a_person_edited_is_a_judgment_beside_the_graders(tmp_path: Path) -> None:
    history = [{"value": "I"}, {"value": "C", "provenance": PROVENANCE}]
    edited = sample(1, scores={"match": {"value": "C", "history": history}})
    with pytest.warns(AliquotWarning, match="1 scores were edited by 'ann'"):
        data = read(tmp_path, log([edited, sample(2)]))
    np.testing.assert_array_equal(data.scores["match"], [[0], [1]])
    assert data.judgments is not None
    row = data.judgments.table.row(0, named=True)
    assert (row["item"], row["annotator"], row["criterion"], row["value"]) == (1, "ann", "match", 1.0)
    assert row["comment"] == "the answer is right"


def test_an_edited_explanation_and_edits_by_nobody_are_no_judgments(tmp_path: Path) -> None:
    history = [{"value": "I"}, {"value": "UNCHANGED", "explanation": "x", "provenance": PROVENANCE}]
    scripted = [{"value": "I"}, {"value": "C", "provenance": None}]
    scores = {"a": {"value": "I", "history": history}, "b": {"value": "C", "history": scripted}}
    data = read_fields(tmp_path, scores=scores)
    assert data.judgments is None
    assert (data.scores["a"].item(), data.scores["b"].item()) == (0.0, 1.0)


def test_a_score_that_a_person_added_is_a_judgment_only(tmp_path: Path) -> None:
    added = {"value": 4, "history": [{"value": 4, "provenance": PROVENANCE}]}
    with pytest.warns(AliquotWarning, match="edited by 'ann'"):
        data = read_fields(tmp_path, scores={"match": {"value": "C"}, "quality": added})
    assert data.scores["human"].item() == pytest.approx(4)
    assert data.metrics == ["match"]


def test_a_person_who_solved_the_task_is_the_system_human(tmp_path: Path) -> None:
    document = log() | {"plan": {"steps": [{"solver": "inspect_ai/human_cli"}]}}
    assert read(tmp_path, document, log(task_id="u")).systems == ("human", "org/small")


# -- several logs --------------------------------------------------------------------------------------------------


def test_a_folder_is_one_data_set_with_a_system_for_each_model(tmp_path: Path) -> None:
    (tmp_path / "b.eval").write_bytes(archive(log([sample(1)], model="org/large", task_id="u")))
    data = read(tmp_path, log(), log(task="poems", task_id="v"))
    assert data.systems == ("org/large", "org/small")
    assert data.ids == ["sums/1", "sums/2", "poems/1", "poems/2"]


def test_a_log_that_is_empty_is_told(tmp_path: Path) -> None:
    (tmp_path / "b.eval").touch()
    (tmp_path / ".DS_Store").touch()
    with pytest.warns(AliquotWarning, match=r"files that are empty hold no log: 'b.eval'; was"):
        assert read(tmp_path, log(), log(model="org/large", task_id="u")).n_systems == 2


@pytest.mark.parametrize(
    ("fields", "other", "names"),
    [
        ({"task_args": {"shots": 0}}, {"task_args": {"shots": 5}}, ("shots=0", "shots=5")),
        ({"solver": "cot"}, {"solver": "plain"}, ("cot", "plain")),
        (
            {"model_generate_config": {"temperature": 0.0}},
            {"model_generate_config": {"temperature": 1.0}},
            ("temperature=0.0", "temperature=1.0"),
        ),
        ({"created": "Monday"}, {"created": "Tuesday"}, ("Monday", "Tuesday")),
        ({}, {}, ("log 1", "log 2")),
    ],
)
def test_runs_of_one_model_are_named_by_what_differs(
    tmp_path: Path, fields: dict[str, Any], other: dict[str, Any], names: tuple[str, str]
) -> None:
    with pytest.warns(AliquotWarning, match="'org/small' ran more than once"):
        data = read(tmp_path, log(**fields), log(task_id="u", **other))
    assert data.systems == tuple(f"org/small ({name})" for name in names)


def test_a_retry_replaces_the_attempt_that_stopped(tmp_path: Path) -> None:
    stopped = log([sample(1, output="first")], "error")
    with pytest.warns(AliquotWarning, match=r"1 logs are earlier attempts .*'log0.json'"):
        data = read(tmp_path, stopped, log(created="2026-01-03"))
    assert data.systems == ("org/small",)
    assert data.ids == [1, 2]


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_that_did_not_finish_is_told_with_counts(tmp_path: Path, finished: bool) -> None:
    planned = {"sample_ids": [1, 2, 3], "samples": 3}
    document = log([sample(1)], "cancelled", dataset=planned, config={"epochs": 2})
    (tmp_path / "x.eval").write_bytes(archive(document, finished=finished))
    status = "cancelled" if finished else "started"
    with pytest.warns(AliquotWarning, match=rf"did not finish \(status '{status}'\): it holds 1 of 6 samples"):
        assert aliquot.load(tmp_path / "x.eval").ids == [1]
