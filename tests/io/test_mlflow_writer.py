"""Estimates and judgments are logged to a real MLflow, with a folder as its store."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

import aliquot
from aliquot.cli.main import run
from aliquot.core.statements import SystemMean
from aliquot.errors import AliquotError, AliquotWarning, MissingExtraError
from aliquot.io.formats import mlflow_runs
from aliquot.io.writers import WRITERS

os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ALLOW_FILE_STORE": "true", "GIT_PYTHON_REFRESH": "quiet"}
mlflow = pytest.importorskip("mlflow")

ODD = ("org/model-7b", "a:b", "a_b", "日本|語", "..", "x" * 300, "a.low", "/")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    yield tmp_path / "mlruns"
    mlflow.set_tracking_uri(None)


def read_runs(store: Path):
    client = mlflow.MlflowClient(tracking_uri=store.as_uri())
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    (top,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    nested = {run.info.run_name: run for run in runs if run is not top}
    assert all(run.data.tags["mlflow.parentRunId"] == top.info.run_id for run in nested.values())
    assert {run.info.status for run in runs} == {"FINISHED"}
    return client, top, nested


def test_estimates_become_a_run_with_a_nested_run_for_each_system(store):
    result = aliquot.estimate(aliquot.synthetic(items=40, systems=3, seed=3))
    result.save(store, to="mlflow:experiment=nightly,run_name=monday")
    client, top, nested = read_runs(store)
    assert client.get_experiment(top.info.experiment_id).name == "nightly"
    assert top.info.run_name == "monday"
    assert top.data.tags["aliquot.signature"] == result.signature
    assert top.data.tags["mlflow.note.content"] == result.verdict
    assert top.data.params["level"] == "0.95"
    assert set(nested) == {row.system for row in result.systems}
    for row in result.systems:
        for suffix, value in (("", row.estimate), (".low", row.low), (".high", row.high), (".se", row.se)):
            assert top.data.metrics[f"human/{row.system}{suffix}"] == pytest.approx(value)
            assert nested[row.system].data.metrics[f"human{suffix}"] == pytest.approx(value)
        assert nested[row.system].data.metrics["human.n"] == row.n
    folder = Path(client.download_artifacts(top.info.run_id, "", str(store.parent)))
    assert json.loads((folder / "result.json").read_text())["verdict"] == result.verdict
    assert "| sys1 |" in (folder / "result.md").read_text()
    assert not mlflow.is_tracking_uri_set()  # what was set for the store is undone


def test_runs_go_where_mlflow_is_set_to_and_under_its_active_run(store):
    mlflow.set_tracking_uri(store.as_uri())
    with mlflow.start_run() as outer:
        aliquot.estimate(aliquot.synthetic(items=10, systems=2, seed=3)).save(to="mlflow")
    runs = mlflow.MlflowClient().search_runs(["0"])
    assert len(runs) == 4
    assert [run.data.tags.get("mlflow.parentRunId") for run in runs].count(outer.info.run_id) == 1
    assert mlflow.get_tracking_uri() == store.as_uri()


def test_odd_names_become_metrics_that_differ(store):
    data = aliquot.synthetic(items=12, systems=len(ODD), seed=3)
    result = aliquot.estimate(data.rename(dict(zip(data.systems, ODD, strict=True))))
    result.save(store, to="mlflow")
    _, top, nested = read_runs(store)
    assert set(nested) == set(ODD)
    assert len(top.data.metrics) == 5 * len(ODD)
    assert {run.data.params["system"] for run in nested.values()} == set(ODD)


def test_many_systems_are_logged_in_several_requests():
    mean = SystemMean("s", "human", "data", 1.0, 0.1, math.nan, math.inf, 0.95, 9, "mean", "t")
    metrics = mlflow_runs.name_metrics([mean] * 600, with_system=True)
    assert len(metrics) == 1800  # value, standard error and n; unknown ends are left out
    requests: list[dict[str, float]] = []
    mlflow_runs._log_metrics(SimpleNamespace(log_metrics=requests.append), metrics)
    assert [len(request) for request in requests] == [1000, 800]
    assert dict(pair for request in requests for pair in request.items()) == metrics


def judged(tmp_path: Path, traces: object) -> Path:
    """Two items, two systems; the judgments of the second item have a label and no value."""
    first = [
        {"system": "A", "annotator": "ann", "criterion": "fluency", "value": 3, "comment": "stiff"},
        {"system": "B", "annotator": None, "criterion": None, "value": 5},
    ]
    second = [{"system": "A", "annotator": "bob", "label": "wrong"}, {"system": "B", "annotator": "bob"}]
    rows = [
        {"i": number, "tgt": {"A": "x", "B": "y"}, "scores": {"A": {"human": 3}}, "judgments": judgments}
        | ({} if traces is None else {"trace_ids": traces})
        for number, judgments in enumerate((first, second))
    ]
    path = tmp_path / "judged.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


@pytest.mark.parametrize("reading", [[], ["--read", "lower-is-better=human"]])
def test_judgments_become_human_feedback(store, tmp_path, capsys, reading):
    mlflow.set_tracking_uri(store.as_uri())
    traces = {}
    for system in "AB":
        with mlflow.start_span(name=system) as span:
            traces[system] = span.trace_id
    mlflow.flush_trace_async_logging()
    mlflow.set_tracking_uri(None)
    path = judged(tmp_path, traces)
    assert run(["convert", str(path), str(store), "--to", "mlflow", *reading]) == 0
    assert "1 of 4 judgments were not logged: they have neither a value nor a label" in capsys.readouterr().err
    mlflow.set_tracking_uri(store.as_uri())
    logged = {system: mlflow.get_trace(trace).info.assessments for system, trace in traces.items()}
    summary = {
        system: sorted((a.name, str(a.value), a.source.source_type, a.source.source_id, a.rationale) for a in each)
        for system, each in logged.items()
    }
    assert summary == {
        "A": [("fluency", "3.0", "HUMAN", "ann", "stiff"), ("human", "wrong", "HUMAN", "bob", None)],
        "B": [("human", "5.0", "HUMAN", "default", None)],
    }


def test_outputs_without_a_trace_are_counted(store, tmp_path):
    data = aliquot.load(judged(tmp_path, {"C": "tr-1"}))
    with pytest.warns(AliquotWarning, match="4 of 4 judgments were not logged: their outputs have no trace"):
        aliquot.save(data, store, to="mlflow")


@pytest.mark.parametrize(
    ("traces", "says"),
    [
        (None, 'no item column \'trace_ids\'; feedback needs .* "trace_ids": {"A": "tr-1f0c"}'),
        (["tr-1"], "item 0: 'trace_ids' is .*, not {system: trace}"),
        ({"A": "tr-1"}, "MLflow: Trace with ID 'tr-1' not found"),
    ],
)
def test_wrong_traces_are_refused(store, tmp_path, traces, says):
    with pytest.raises(AliquotError, match=says):
        aliquot.save(aliquot.load(judged(tmp_path, traces)), store, to="mlflow")


def test_data_without_judgments_are_refused(store):
    data = aliquot.synthetic(items=4, systems=2, seed=1)
    bare = aliquot.EvalSet(items=data.items, systems=data.systems, scores=dict(data.scores))
    with pytest.raises(AliquotError, match="no judgments to log"):
        aliquot.save(bare, store, to="mlflow")


def test_mlflow_that_is_not_installed_is_named(store, monkeypatch):
    monkeypatch.setattr("aliquot.errors.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"needs mlflow: pip install 'aliquot\[mlflow\]'"):
        aliquot.estimate(aliquot.synthetic(items=10, systems=2, seed=3)).save(store, to="mlflow")


def test_a_store_that_needs_more_is_named(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'alembic'", name="alembic")

    monkeypatch.setattr(mlflow, "start_run", fail)
    with pytest.raises(MissingExtraError, match=r"runs.db needs alembic: pip install mlflow"):
        aliquot.estimate(aliquot.synthetic(items=10, systems=2, seed=3)).save("runs.db", to="mlflow")


def test_an_address_that_the_command_line_shortens_is_refused():
    with pytest.raises(AliquotError, match="name the database file itself"):
        aliquot.estimate(aliquot.synthetic(items=10, systems=2, seed=3)).save(Path("sqlite:///x.db"), to="mlflow")


def test_json_on_standard_output_is_alone(store, tmp_path, capsys):
    aliquot.save(aliquot.synthetic(items=10, systems=2, seed=3), tmp_path / "c.jsonl")
    assert run(["estimate", "c.jsonl", "--to", "mlflow", "-o", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["systems"]
    assert [writer.place for writer in WRITERS if writer.name == "mlflow"] == ["store", "store"]
