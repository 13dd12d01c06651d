"""What all readers of evaluation logs share: draws, tasks, runs, failures, ratings."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.errors import AliquotWarning, FormatError
from aliquot.io.formats import logs
from aliquot.io.formats.logs import decode_leading_fields
from aliquot.io.formats.samples import LogSample, Rating, build_evalset
from aliquot.io.load import LoadOptions, load_source


def test_one_draw_keeps_the_prompts_ids_and_joins_systems() -> None:
    data = build_evalset(
        [
            LogSample("A", 1, 1, source="q", output="x", scores={"match": 1.0}, usage={"cost": 0.5}),
            LogSample("B", 1, 1, output="y", scores={"match": 0.0}),
            LogSample("A", 2, 1, output="z", scores={"match": None}),
        ],
        "log",
    )
    assert data.ids == [1, 2]
    assert data.items.columns == ["id", "source"]
    np.testing.assert_array_equal(data.scores["match"], [[1, 0], [np.nan, np.nan]])
    np.testing.assert_array_equal(data.usage["cost"], [[0.5, np.nan], [np.nan, np.nan]])
    assert data.outputs is not None
    assert data.outputs.rows() == [("x", "y"), ("z", None)]


def test_numbers_and_texts_are_the_same_ids() -> None:
    data = build_evalset([LogSample("A", 1, 1), LogSample("A", 2, 1), LogSample("B", "2", 1, output="y")], "log")
    assert data.ids == ["1", "2"]
    assert data.outputs is not None
    assert data.outputs["B"].to_list() == [None, "y"]


def test_draws_are_items_of_the_prompts_document() -> None:
    draws = [LogSample("A", p, d, scores={"match": float(d)}) for p in (7, 8) for d in (1, 2)]
    data = build_evalset([*draws, LogSample("B", 7), LogSample("B", 7)], "log")
    assert data.ids == ["7#1", "7#2", "8#1", "8#2"]
    assert data.items["document"].to_list() == ["7", "7", "8", "8"]
    assert data.items["draw"].to_list() == [1, 2, 1, 2]
    assert data.systems == ("A", "B")


def test_tasks_become_domains() -> None:
    data = build_evalset([LogSample("A", 1, 1, task="x"), LogSample("A", 1, 1, task="y")], "log")
    assert data.ids == ["x/1", "y/1"]
    assert data.items["domain"].to_list() == ["x", "y"]


def test_columns_that_mean_something_else_are_renamed() -> None:
    columns = {"id": 7, "source": "web", "position": "top", "cost": "high", "draw": 3, "document": "d", "domain": 2}
    data = build_evalset([LogSample("A", 1, 1, source="q", columns=columns)], "log")
    names = ["id", "source", "id_", "source_", "position_", "cost_", "draw_", "document", "domain"]
    assert data.items.columns == names
    assert data.items.row(0) == (1, "q", 7, "web", "top", "high", 3, "d", "2")


def test_failures_are_missing_counted_and_named() -> None:
    with pytest.warns(AliquotWarning, match=r"1 of 2 samples failed and are missing, not 0 \(B 1\); first: timeout"):
        data = build_evalset(
            [LogSample("A", 1, scores={"s": 0.0}), LogSample("B", 1, scores={"s": 0.0}, failure="timeout\nat")], "l"
        )
    np.testing.assert_array_equal(data.scores["s"], [[0, np.nan]])


def test_runs_of_one_system_are_systems() -> None:
    with pytest.warns(AliquotWarning, match="'A' ran more than once"):
        data = build_evalset(
            [LogSample("A", 1, 1, run="mon"), LogSample("A", 1, 1, run="tue"), LogSample("B", 1, 1)], "l"
        )
    assert data.systems == ("A (mon)", "A (tue)", "B")
    apart = build_evalset([LogSample("A", 1, 1, task="x", run="mon"), LogSample("A", 1, 1, task="y", run="tue")], "l")
    assert apart.systems == ("A",)


def test_a_sample_twice_and_no_sample_are_refused() -> None:
    with pytest.raises(FormatError, match=r"sample 1 \(draw 1\) of 'A' occurs twice"):
        build_evalset([LogSample("A", 1, 1), LogSample("A", 1, 1)], "l")
    with pytest.raises(FormatError, match="no samples"):
        build_evalset([], "l")


def test_other_inputs_under_one_id_are_told() -> None:
    with pytest.warns(AliquotWarning, match="1 of 1 items have different inputs"):
        build_evalset([LogSample("A", 1, source="x"), LogSample("B", 1, source="y")], "l")


def test_ratings_become_judgments_beside_metrics() -> None:
    ratings = [Rating("good", 1.0, annotator="ann"), Rating("good", 0.0, annotator="bob"), Rating("tag", label="rude")]
    data = build_evalset([LogSample("A", 1, scores={"judge": 0.25}, ratings=ratings)], "l")
    assert data.human == "human"
    assert data.scores["human"].item() == pytest.approx(0.5)
    assert data.metrics == ["judge"]
    assert data.judgments is not None
    assert data.judgments.table["label"].to_list() == [None, None, "rude"]


def test_the_head_of_a_long_document_is_enough_to_tell_its_tool() -> None:
    long = b'{"version": 2, "eval": {"task": "t"}, "samples": [' + b'"x",' * 100_000
    assert decode_leading_fields(long) == {"version": 2, "eval": {"task": "t"}, "samples": None}
    assert decode_leading_fields(b"[1, 2]") == {}
    assert decode_leading_fields(b'{"a"') == {}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_usage_survives_files_subsets_and_pickling(tmp_path: Path, ending: str) -> None:
    cost = np.array([[0.5, np.nan], [1.0, 2.0]])
    data = replace(
        aliquot.synthetic(items=2, systems=2, seed=1), usage={"cost": cost, "empty": np.full((2, 2), np.nan)}
    )
    aliquot.save(data, tmp_path / f"x.{ending}")
    again = aliquot.load(tmp_path / f"x.{ending}")
    assert again == data == pickle.loads(pickle.dumps(data))  # noqa: S301  (our own)
    assert again != replace(data, usage={})
    np.testing.assert_array_equal(again.keep(items=[1], systems=["sys2"]).usage["cost"], [[2.0]])


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_column_named_usage_stays_one(tmp_path: Path, ending: str) -> None:
    data = aliquot.synthetic(items=2, systems=2, seed=1)
    named = replace(data, items=data.items.with_columns(pl.Series("usage", ["train", "test"])))
    aliquot.save(named, tmp_path / f"x.{ending}")
    assert aliquot.load(tmp_path / f"x.{ending}") == named
    (tmp_path / "y.jsonl").write_text('{"i": 0, "tgt": {"A": "x"}, "usage": {"prompt_tokens": 12}}\n')
    assert "usage" in aliquot.load(tmp_path / "y.jsonl").items.columns


@pytest.mark.parametrize("kind", [*logs.READERS, "mtme", "texts"])
def test_a_folder_without_logs_of_the_format_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(FormatError, match=r"is a folder where a file is meant; name one of 'a\.json'"):
        load_source(tmp_path, LoadOptions(format=kind))  # type: ignore[arg-type]
