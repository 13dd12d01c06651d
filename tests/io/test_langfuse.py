"""Exports of Langfuse: which output is a cell, who scored it, and what does not count."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.io.observability import (
    Record,
    langfuse_observations,
    langfuse_scores,
    observation,
    score,
    to_camel_case,
    to_csv,
    to_lines,
)

import aliquot
from aliquot import EvalSet
from aliquot.errors import AliquotWarning, FormatError


def load(folder: Path, observations: list[Record], scores: list[Record], traces: list[Record] | None = None) -> EvalSet:
    """Write an export in JSON lines and load it."""
    for name, records in {"observations_v2": observations, "scores": scores, "traces": traces or []}.items():
        if records:
            (folder / "export" / name).mkdir(parents=True)
            (folder / "export" / name / "1.jsonl").write_text(to_lines(records))
    return aliquot.load(folder / "export")


@pytest.mark.filterwarnings("ignore::aliquot.AliquotWarning")
def test_all_spellings_and_files_are_read_alike(tmp_path: Path) -> None:
    def read(ending: str, contents: Iterable[str], folder: str = "") -> EvalSet:
        root = tmp_path / (folder or ending)
        for kind, content in zip(("observations_v2", "scores", "manifests"), [*contents, '{"files": 1}'], strict=True):
            (root / kind).mkdir(parents=True)
            raw = content.encode()
            (root / kind / f"1.{ending}").write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)
        return replace(aliquot.load(root), name="")

    both = langfuse_observations(), langfuse_scores()
    data = read("jsonl", map(to_lines, both))
    assert data.systems == ("small", "large")
    camel = [[to_camel_case(record) for record in records] for records in both]
    assert data == read("json", (json.dumps(records, indent=1) for records in both))
    assert data == read("csv", map(to_csv, both))
    assert data == read("jsonl.gz", map(to_lines, both))
    assert data == read("json", (json.dumps({"data": records, "meta": {}}) for records in camel), "pages")
    frames = [pl.DataFrame(records, infer_schema_length=None) for records in both]
    for kind, frame in zip(("observations_v2", "scores"), frames, strict=True):
        (tmp_path / "parquet" / kind).mkdir(parents=True)
        frame.drop("metadata", strict=False).write_parquet(tmp_path / "parquet" / kind / "1.parquet")
    assert data == replace(aliquot.load(tmp_path / "parquet"), name="")


def test_people_become_judgments_and_judges_metrics(tmp_path: Path) -> None:
    with pytest.warns(AliquotWarning, match=r"1 of 6 samples failed .*large 1\); first: rate limit"):
        data = load(tmp_path, langfuse_observations(), langfuse_scores())
    assert data.metrics == ["judge"]
    np.testing.assert_array_equal(data.scores["judge"], [[0, 0.75], [0.25, 1], [0.5, np.nan]])
    np.testing.assert_array_equal(data.scores["human_helpful"], [[1, 3], [2, np.nan], [np.nan, np.nan]])
    assert data.judgments is not None
    table = data.judgments.table.filter(pl.col("item") == data.ids[0], pl.col("system") == "small").sort("criterion")
    columns = ["criterion", "value", "label", "annotator", "comment"]
    assert table.select(columns).rows() == [
        ("correct", 1.0, None, "ann", None),
        ("helpful", 1.0, None, None, None),
        ("tone", None, "rude", None, "Hm, no."),
    ]
    assert "human_tone" not in data.scores
    assert data.items["source"][0] == "system: Be brief.\n\nuser: What is 2 plus 2?"
    np.testing.assert_allclose(data.usage["seconds"], 1.5)  # `latency` holds milliseconds
    np.testing.assert_allclose(data.usage["tokens"], 15)


def test_a_trace_is_its_root_and_costs_what_its_parts_cost(tmp_path: Path) -> None:
    root = observation(0, 0, "", "Paris.", type="SPAN", name="rag", input='{"args": ["Capital?"], "kwargs": {}}')
    inner = {"parent_observation_id": "obs-0", "is_root_observation": False, "trace_id": "trace-0"}
    generation = observation(1, 1, "small", "Paris.", **inner)
    retriever = observation(2, 2, "", "a document", type="RETRIEVER", name="search", **inner)
    scores = [score(1, 0, "good", 1, "ANNOTATION"), score(2, 0, "judge", 0.5, "EVAL", observation_id="obs-1")]
    data = load(tmp_path, [retriever, generation, root], scores)
    assert data.systems == ("small",)
    assert data.outputs is not None
    assert data.outputs.rows() == [("Paris.",)]
    assert data.items["source"].to_list() == ["Capital?"]
    assert data.scores["human"].tolist() == [[1.0]]
    assert data.scores["judge"].tolist() == [[0.5]]  # of the generation that gave the trace's output
    np.testing.assert_allclose(data.usage["cost"], 0.006)


def test_observations_that_are_scored_themselves_are_outputs_of_their_own(tmp_path: Path) -> None:
    inner = {"type": "RETRIEVER", "name": "search", "parent_observation_id": "x", "is_root_observation": False}
    documents = [observation(i, 0, "", f"d{i}", trace_id=f"trace-{i - 10}", **inner) for i in (10, 11)]
    roots = [observation(i, i, "small", f"reply {i}") for i in (0, 1)]
    scores = [score(1, 0, "relevant", 1, "EVAL", observation_id="obs-10"), score(2, 0, "good", 1, "ANNOTATION")]
    data = load(tmp_path, [*roots, *documents], scores)
    assert data.items["domain"].to_list() == ["trace", "search", "trace", "search"]
    assert [*data.items.filter(pl.col("domain") == "search")["source"].unique()] == [
        "system: Be brief.\n\nuser: What is 2 plus 2?"
    ]
    only = load(tmp_path / "only", [*roots, *documents], scores[:1])
    assert only.n_items == 2
    assert only.outputs is not None
    assert sorted(only.outputs.to_series()) == ["d10", "d11"]


def test_legacy_traces_hold_the_texts(tmp_path: Path) -> None:
    trace = {"id": "trace-0", "timestamp": "2026-01-01", "name": "t", "bookmarked": False, "public": False}
    data = load(
        tmp_path,
        [observation(0, 0, "small", "inner", parent_observation_id=None, is_root_observation=None)],
        [score(1, 0, "good", 1, "ANNOTATION")],
        [trace | {"user_id": None, "release": None, "input": "Why?", "output": '"Because."'}],
    )
    assert data.items["source"].to_list() == ["Why?"]
    assert data.outputs is not None
    assert data.outputs.rows() == [("Because.",)]
    assert data.systems == ("small",)
    assert data.items.columns == ["id", "source", "trace_ids"]


def test_prompt_versions_and_experiments_are_systems(tmp_path: Path) -> None:
    versions = [observation(i, 0, "small", str(i), prompt_name="ask", prompt_version=i) for i in (1, 2)]
    assert load(tmp_path / "a", versions, []).systems == ("small ask v1", "small ask v2")
    item = {"dataset_item_id": "item-7", "dataset_id": "d"}
    runs = [observation(i, i, "small", str(i), metadata={"experiment_run_name": f"run {i}", **item}) for i in (1, 2)]
    with pytest.warns(AliquotWarning, match="different inputs"):
        data = load(tmp_path / "b", runs, [])
    assert data.systems == ("run 1", "run 2")
    assert data.ids == ["item-7"]


def test_several_outputs_for_an_input_are_draws(tmp_path: Path) -> None:
    data = load(tmp_path, [observation(i, 0, "small", str(i)) for i in range(3)], [])
    assert data.items["draw"].to_list() == [1, 2, 3]
    assert data.items["document"].n_unique() == 1


def test_what_was_exported_twice_counts_once_as_it_is_now(tmp_path: Path) -> None:
    old, new = (score(1, 0, "good", value, "ANNOTATION") for value in (0, 1))
    data = load(tmp_path, [observation(0, 0, "small", "x")] * 2, [old, new])
    assert data.scores["human"].tolist() == [[1.0]]
    assert data.judgments is not None
    assert len(data.judgments) == 1


def test_a_judges_own_traces_are_no_outputs(tmp_path: Path) -> None:
    judge = observation(5, 1, "judge", '{"score": 1}', environment="langfuse-llm-as-a-judge")
    asked = observation(6, 1, "large", "b", environment="langfuse-prompt-experiment")
    data = load(tmp_path, [observation(0, 1, "small", "a"), judge, asked], [])
    assert data.systems == ("small", "large")


def test_scores_alone_are_read_by_trace(tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text(to_lines(langfuse_scores()))
    data = aliquot.load(tmp_path / "scores.jsonl")
    assert data.ids == ["trace-0", "trace-1", "trace-10", "trace-2", "trace-11"]
    assert data.outputs is None
    assert data.scores["human_helpful"].ravel()[:3].tolist() == [1.0, 2.0, 3.0]


def test_scores_of_version_3_of_the_api_and_their_authors(tmp_path: Path) -> None:
    about = {"subject": {"kind": "observation", "id": "obs-0", "traceId": "trace-0"}, "authorUserId": "u1"}
    label = {"id": "s1", "name": "tone", "value": "warm", "dataType": "CATEGORICAL", "source": "ANNOTATION", **about}
    passed = label | {"id": "s2", "name": "ok", "value": True, "dataType": "BOOLEAN"}
    (tmp_path / "s.json").write_text(json.dumps([label, passed]))
    (tmp_path / "o.json").write_text(json.dumps([to_camel_case(observation(0, 0, "small", "x"))]))
    data = aliquot.load(tmp_path)
    assert data.judgments is not None
    rows = data.judgments.table.select("criterion", "value", "label", "annotator").rows()
    assert rows == [("tone", None, "warm", "u1"), ("ok", 1.0, None, "u1")]


def test_scores_without_their_trace_are_counted_and_named(tmp_path: Path) -> None:
    lost = [score(1, 9, "good", 1, "ANNOTATION"), score(2, 0, "good", 1, "EVAL", observation_id="obs-7")]
    lost.append(score(3, 0, "session", 1, "EVAL", trace_id=None, session_id="s"))
    with pytest.warns(AliquotWarning, match=r"3 of 4 scores are left out \('good', 'session'\): their trace"):
        data = load(tmp_path, [observation(0, 0, "small", "x")], [*lost, score(4, 0, "good", 1, "EVAL")])
    assert data.scores["good"].tolist() == [[1.0]]


def test_programs_scores_are_metrics_and_their_labels_left_out(tmp_path: Path) -> None:
    scores = [score(1, 0, "thumbs", 1, "API"), score(2, 0, "tone", 2, "EVAL", data_type="CATEGORICAL")]
    with pytest.warns(AliquotWarning) as notes:
        data = load(tmp_path, [observation(0, 0, "small", "x")], scores)
    assert "1 scores of programs are left out ('tone')" in str(notes[0].message)
    assert "('thumbs'): they are metrics" in str(notes[1].message)
    assert list(data.scores) == ["thumbs"]
    assert data.human is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "a", "name": "n", "data_type": "NUMERIC", "trace_id": "t"}\n{"id": \n', r"line 2: not valid JSON"),
        (
            '[{"id": "a", "name": "n", "data_type": "NUMERIC", "trace_id": "t"}, 7]',
            r"not as the tool writes it \(Expected",
        ),
        ("id,name,data_type,trace_id\n1,a,NUMERIC\n", "line 2: 3 fields"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(FormatError, match=message):
        aliquot.load(tmp_path / "s.json")


def test_the_details_of_a_trace_hold_observations_and_scores(tmp_path: Path) -> None:
    trace: Record = {"id": "trace-0", "timestamp": "2026-03-01", "public": False, "bookmarked": False, "name": "qa"}
    parts = {
        "observations": [to_camel_case(observation(0, 0, "small", "4"))],
        "scores": [to_camel_case(score(0, 0, "helpful", 3.0, "ANNOTATION"))],
    }
    (tmp_path / "trace.json").write_text(json.dumps(trace | parts))
    data = aliquot.load(tmp_path / "trace.json")
    assert data.systems == ("small",)
    assert data.scores["human"].tolist() == [[3.0]]
