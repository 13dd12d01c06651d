"""Exports of LangSmith: experiments are systems, examples items, repetitions draws."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.io.observability import Record, feedback, langsmith_feedback, langsmith_runs, run, to_csv, to_lines

import aliquot
from aliquot import EvalSet
from aliquot.errors import AliquotWarning


def load(folder: Path, **files: list[Record]) -> EvalSet:
    """Write an export in JSON lines and load it."""
    folder.mkdir(exist_ok=True)
    for name, records in files.items():
        (folder / f"{name}.jsonl").write_text(to_lines(records))
    return aliquot.load(folder)


@pytest.mark.filterwarnings("ignore::aliquot.AliquotWarning")
def test_repetitions_are_draws_and_people_judges(tmp_path: Path) -> None:
    data = load(tmp_path / "x", runs=langsmith_runs(), feedback=langsmith_feedback())
    assert data.systems == ("e1", "e2")
    assert data.ids == [f"example-{i}#{draw}" for draw in (1, 2) for i in range(3)]
    assert data.outputs is not None
    assert data.outputs["e2"].to_list() == ["reply 1 0", "reply 1 1", "reply 1 2", "reply 2 0", "reply 2 1", None]
    assert data.items["source"].to_list()[:2] == ["What is 2 plus 2?", "Name a river."]
    np.testing.assert_array_equal(data.scores["human_correct"][:3, 0], [1, 0, 1])
    assert data.metrics == ["judge", "length"]
    np.testing.assert_allclose(data.usage["seconds"][:, 1], 2.5)
    np.testing.assert_allclose(data.usage["cost"][:, 1], 0.003)
    assert data.judgments is not None
    tone = data.judgments.table.filter(pl.col("criterion") == "tone").select("value", "label", "annotator", "comment")
    assert tone.rows() == [(None, "polite", "user-1", "Fine.\nBetter")]
    for name, content in (("runs", langsmith_runs()), ("feedback", langsmith_feedback())):
        (tmp_path / "y").mkdir(exist_ok=True)
        (tmp_path / "y" / f"{name}.csv").write_text(to_csv(content))
    assert replace(aliquot.load(tmp_path / "y"), name="x") == data


def test_failed_runs_and_lost_feedback_are_counted_and_named(tmp_path: Path) -> None:
    lost = [feedback(1, 99, "judge", 1, "model"), feedback(2, 777, "judge", 1, "model")]
    with pytest.warns(AliquotWarning) as notes:
        load(tmp_path, runs=langsmith_runs(), feedback=lost)
    texts = [str(note.message) for note in notes]
    assert "LangSmith: 2 of 2 feedback are left out ('judge'): their run is a part of another run" in texts[0]
    assert "1 of 9 samples failed and are missing, not 0 (e2 1); first: TimeoutError: 60 s" in texts[1]


def test_sessions_name_experiments_and_examples_give_references(tmp_path: Path) -> None:
    example = {"id": "example-0", "dataset_id": "d", "inputs": {"question": "Q"}, "outputs": {"answer": "A"}}
    session = {"id": "e1", "name": "small model", "reference_dataset_id": "d", "run_count": 1}
    data = load(tmp_path, runs=[run(0, 0, "e1", "reply")], sessions=[session], examples=[example])
    assert data.systems == ("small model",)
    assert data.items["reference"].to_list() == ["A"]
    assert load(tmp_path / "b", runs=[run(0, 0, "e1", "r", session_name="named")]).systems == ("named",)


def test_runs_without_an_example_are_joined_by_their_inputs(tmp_path: Path) -> None:
    runs = [run(i, 0, f"e{i}", f"r{i}", reference_example_id=None) for i in range(2)]
    data = load(tmp_path, runs=runs)
    assert data.n_items == 1
    assert str(data.ids[0]).startswith("input-")


def test_means_of_a_run_count_where_its_feedback_is_not_there(tmp_path: Path) -> None:
    stats = {"judge": {"n": 2, "avg": 0.25}, "label": {"n": 1, "avg": None}, "good": {"n": 1, "avg": 0}}
    runs = [run(0, 0, "e1", "r", feedback_stats=stats)]
    data = load(tmp_path, runs=runs, feedback=[feedback(1, 0, "good", 1, "model")])
    assert {name: scores.item() for name, scores in data.scores.items()} == {"judge": 0.25, "good": 1.0}


def test_messages_of_langchain_are_texts(tmp_path: Path) -> None:
    human = {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "Hi"}}
    reply = {"generations": [[{"text": "Ho", "type": "ChatGeneration"}]]}
    data = load(tmp_path / "a", runs=[run(0, 0, "e1", None, inputs={"messages": [[human]]}, outputs=reply)])
    assert data.items["source"].to_list() == ["Hi"]
    assert data.outputs is not None
    assert data.outputs.rows() == [("Ho",)]
    turns = [{"type": "human", "content": "Hi"}, {"type": "ai", "content": [{"type": "text", "text": "Ho"}]}]
    graph = load(tmp_path / "b", runs=[run(0, 0, "e1", None, outputs={"messages": turns})])
    assert graph.outputs is not None
    assert graph.outputs.rows() == [("Ho",)]


def test_feedback_alone_and_flat_sources_are_read(tmp_path: Path) -> None:
    flat = feedback(1, 0, "good", 1, "api") | {"feedback_source.type": "app", "feedback_source.user_id": "u7"}
    (tmp_path / "f.json").write_text(json.dumps([flat]))
    data = aliquot.load(tmp_path / "f.json")
    assert data.ids == ["run-0"]
    assert data.systems == ("e1",)
    assert data.judgments is not None
    assert data.judgments.annotators == ["u7"]
