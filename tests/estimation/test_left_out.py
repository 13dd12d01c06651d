"""Python says what the command line says: judgments that do not count, with the nearest name; misspelt arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.cli.conftest import caller

import aliquot
from aliquot import EvalSet
from aliquot.core.judgments import MARKED, MODEL
from aliquot.errors import LeftOutWarning, NameUnknownError

QUICK: dict[str, Any] = {"replays": 10, "budgets": "50%", "jobs": 1}
SLOW = ["plan", "metrics", "datasheet"]
SAID = "data: 60 judgments of unknown systems left out: sys-1 (did you mean 'sys1'?)"


@pytest.fixture(scope="module")
def data() -> EvalSet:
    full = aliquot.synthetic(items=20, systems=6, annotators=3, judgments_per_output=3, seed=2)
    metrics = {name: full.scores[name] for name in full.metrics}
    return EvalSet(full.items, full.systems, metrics, full.outputs, full.judgments, name="data")


@pytest.fixture(scope="module")
def bare(data: EvalSet) -> EvalSet:
    return EvalSet(data.items, data.systems, data.scores, data.outputs, name="data")


@pytest.fixture(scope="module")
def table(data: EvalSet) -> pl.DataFrame:
    assert data.judgments is not None
    return data.judgments.table.with_columns(pl.col("system").replace({"sys1": "sys-1"}))


def told(call: Callable[[], Any]) -> list[str]:
    """What a call warns of as left out, here and not somewhere in aliquot."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    found = [each for each in caught if issubclass(each.category, LeftOutWarning)]
    assert all(each.filename == __file__ for each in found)
    return [str(each.message) for each in found]


@pytest.mark.parametrize(
    "verb",
    [
        aliquot.estimate,
        lambda data, judgments: aliquot.plan(data, judgments=judgments, **QUICK),
        lambda data, judgments: aliquot.sequential(data, judgments=judgments, value_range=(-300, 300)),
        aliquot.datasheet.new,
        lambda data, judgments: aliquot.make_report(data, judgments=judgments, without=SLOW),
    ],
    ids=["estimate", "plan", "sequential", "datasheet", "report"],
)
def test_a_misspelt_system_is_told_once_by_every_verb(verb: Any, bare: EvalSet, table: pl.DataFrame) -> None:
    assert told(lambda: verb(bare, judgments=table)) == [SAID]


def test_every_kind_is_told_and_marks_are_not(bare: EvalSet, table: pl.DataFrame) -> None:
    two = table.with_columns(pl.col("system").replace({"sys2": "Sys2", "sys3": "other"}))
    (said,) = told(lambda: aliquot.estimate(bare, judgments=two))
    assert "180 judgments" in said
    assert "sys-1 (60; did you mean 'sys1'?)" in said
    assert "Sys2 (60; did you mean 'sys2'?)" in said
    assert "other (60)" in said
    row = table.filter(pl.col("system") == "sys4").head(1)
    stray = row.with_columns(item=pl.lit(999, dtype=pl.Int64))
    empty = row.with_columns(value=pl.lit(None, dtype=pl.Float64), annotator=pl.lit("new"))
    right = table.filter(pl.col("system") != "sys-1")
    assert told(lambda: aliquot.estimate(bare, judgments=pl.concat([right, stray, empty]))) == [
        "data: 1 judgment of unknown items left out: 999",
        f"data: 1 judgment without a value left out: {row['item'][0]}",
    ]
    marked = right.with_columns(pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("burn_in")).alias(MARKED))
    assert told(lambda: aliquot.estimate(bare, judgments=marked)) == []


def test_items_with_names_get_the_nearest_one() -> None:
    items = pl.DataFrame({"id": ["doc-1", "doc-2", "doc-3"]})
    data = EvalSet(items, ("A", "B"), {"m": [[1.0, 2.0], [2.0, 3.0], [3.0, 5.0]]}, name="data")  # type: ignore[dict-item]
    rows = [(item, system, 1.0 + at) for at, item in enumerate(["doc-1", "doc-2", "doc_3"]) for system in "AB"]
    judgments = pl.DataFrame(rows, ["item", "system", "value"], orient="row")
    (said,) = told(lambda: aliquot.estimate(data, "mean", judgments=judgments))
    assert "2 judgments of unknown items left out: doc_3 (did you mean 'doc-3'?)" in said


def test_answers_of_a_judge_model_on_unknown_systems_are_told(bare: EvalSet, table: pl.DataFrame) -> None:
    people = table.filter(pl.col("system") != "sys-1").with_columns(pl.lit(None, dtype=pl.String).alias(MARKED))
    model = table.unique(["item", "system"], maintain_order=True)
    model = model.with_columns(pl.lit("gpt").alias("annotator"), pl.lit(MODEL).alias(MARKED))
    assert told(lambda: aliquot.estimate(bare, judgments=pl.concat([people, model]))) == [SAID.replace("60", "20")]


def test_the_command_line_says_it_once(
    bare: EvalSet, table: pl.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aliquot.save(bare, tmp_path / "data.jsonl")
    table.drop("criterion").write_csv(tmp_path / "j.csv")
    call = caller(capsys)
    for command in (
        ["estimate"],
        ["estimate", "--sequential", "--range=-300,300"],
        ["datasheet", "new"],
        ["plan", "--replays", "10", "--budgets", "50%", "--jobs", "1"],
        ["report", "--without", ",".join(SLOW)],
    ):
        said = call(*command, tmp_path / "data.jsonl", "-j", tmp_path / "j.csv")
        assert said.code == 0
        assert (said.out + said.err).count("did you mean 'sys1'?") == 1, command
    left = call("estimate", tmp_path / "data.jsonl", "-j", tmp_path / "j.csv", "--read", "exclude=sys2", "--json").json
    assert [(row["what"], row["count"]) for row in left["mismatches"]] == [("unknown systems", 60)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda data: aliquot.estimate(data, selectoin=3), "unknown argument 'selectoin'; did you mean 'selection'"),
        (lambda data: aliquot.select(data, "pps", bugdet=5), "unknown argument 'bugdet'; did you mean 'budget'"),
        (lambda data: aliquot.select(data, balnace="x"), "unknown argument 'balnace'; did you mean 'balance'"),
        (lambda data: aliquot.estimate(data, metrcs=["a"]), "greg: no parameter 'metrcs'; did you mean 'metrics'"),
        (lambda data: aliquot.estimate(data, "greg:selectoin=3"), "greg: no parameter 'selectoin'; it has"),
    ],
)
def test_a_misspelt_argument_gets_the_nearest_one(call: Any, message: str) -> None:
    with pytest.raises(NameUnknownError) as error:
        call(aliquot.synthetic(items=20, systems=3, seed=2))
    assert str(error.value).startswith(message)
