"""Judgments as scores for Langfuse: which trace, which name, and nothing twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.io.observability import langfuse_observations, langfuse_scores, to_lines

import aliquot
from aliquot import EvalSet, Judgments
from aliquot.cli.main import run
from aliquot.errors import AliquotWarning, OptionError

pytestmark = pytest.mark.filterwarnings("ignore:.*samples failed:aliquot.AliquotWarning")


@pytest.fixture
def data(tmp_path: Path) -> EvalSet:
    """An export without people's scores."""
    judged = [score for score in langfuse_scores() if score["source"] != "ANNOTATION"]
    (tmp_path / "export.jsonl").write_text(to_lines(langfuse_observations() + judged))
    return aliquot.load(tmp_path / "export.jsonl")


def judge(data: EvalSet, rows: list[dict[str, Any]]) -> EvalSet:
    """Add judgments of the first item."""
    about = {"item": data.ids[0], "system": "small", "annotator": None, "criterion": None, "value": None, "label": None}
    return replace(data, judgments=Judgments(pl.DataFrame([about | row for row in rows], infer_schema_length=None)))


def save(data: EvalSet, path: Path, to: str = "langfuse") -> list[dict[str, Any]]:
    aliquot.save(data, path, to=to)
    scores: list[dict[str, Any]] = json.loads(path.read_text())
    return scores


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_ids_of_traces_survive_files(data: EvalSet, tmp_path: Path, ending: str) -> None:
    rows = [
        {"annotator": "ann", "criterion": "good", "value": 4.5},
        {"criterion": "ok", "value": 1.0, "system": "large"},
    ]
    judged = judge(data, [*rows, {"criterion": "tone", "label": "rude"}])
    aliquot.save(judged, tmp_path / f"judged.{ending}")
    good, ok, tone = save(aliquot.load(tmp_path / f"judged.{ending}"), tmp_path / "scores.json")
    assert good.pop("id") != ok["id"]
    assert good == {
        "traceId": "trace-0",
        "observationId": "obs-0",
        "name": "good",
        "value": 4.5,
        "dataType": "NUMERIC",
        "metadata": {"source": "aliquot", "annotator": "ann", "item": data.ids[0], "system": "small"},
    }
    assert (ok["traceId"], ok["value"], ok["dataType"]) == ("trace-10", 1.0, "BOOLEAN")
    assert (tone["value"], tone["dataType"]) == ("rude", "CATEGORICAL")


def test_an_answer_keeps_its_id_when_it_changes(data: EvalSet, tmp_path: Path) -> None:
    first = save(judge(data, [{"annotator": "ann", "value": 1.0}, {"annotator": "bob", "value": 1.0}]), tmp_path / "a")
    second = save(judge(data, [{"annotator": "ann", "value": 3.0}]), tmp_path / "b")
    assert [score["id"] for score in second] == [score["id"] for score in first[:1]]
    twice = save(judge(data, [{"value": 1.0}, {"value": 1.0}]), tmp_path / "c")
    assert twice[0]["id"] != twice[1]["id"]


def test_ratings_of_langfuse_and_outputs_without_a_trace_are_not_written(tmp_path: Path) -> None:
    (tmp_path / "export.jsonl").write_text(to_lines(langfuse_observations() + langfuse_scores()))
    data = aliquot.load(tmp_path / "export.jsonl")
    assert data.judgments is not None
    own = {"item": data.ids[0], "system": "small", "value": 2.0}
    both = Judgments(pl.concat([data.judgments.table, pl.DataFrame(own)], how="diagonal_relaxed"))
    with pytest.warns(AliquotWarning, match="5 judgments are not written: they came from the tool"):
        (score,) = save(replace(data, judgments=both), tmp_path / "scores.json")
    assert score["value"] == pytest.approx(2)
    bare = replace(data, judgments=both, items=data.items.with_columns(pl.lit(None).alias("trace_ids")))
    with pytest.raises(OptionError, match=r"no item has 'trace_ids'.*langfuse:trace=item"):
        save(bare, tmp_path / "scores.json")


def test_a_human_score_is_written_on_its_own_scale(tmp_path: Path) -> None:
    data = aliquot.synthetic(items=3, systems=2, seed=1)
    scores = save(
        data.with_score("human", -data.scores["human"], lower_is_better=True), tmp_path / "s", "langfuse:trace=item"
    )
    assert [score["traceId"] for score in scores] == [str(item) for item in data.ids for _ in data.systems]
    assert [score["value"] for score in scores] == pytest.approx((-data.scores["human"]).ravel().tolist())


def test_the_command_writes_lines_that_are_read_again(
    data: EvalSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aliquot.save(judge(data, [{"criterion": "good", "value": 4.5}]), tmp_path / "judged.jsonl")
    arguments = ["convert", str(tmp_path / "judged.jsonl"), str(tmp_path / "scores.jsonl"), "--to", "langfuse"]
    assert run(arguments) == 0, capsys.readouterr().err
    assert len((tmp_path / "scores.jsonl").read_text().splitlines()) == 1
    assert aliquot.load(tmp_path / "scores.jsonl").scores["good"].tolist() == [[4.5]]
    assert run([*arguments[:-1], "langfuse:trace=x"]) != 0
    assert "x" in capsys.readouterr().err
