"""Results as plain values and as tables."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.core.result import Result, frame_of, to_plain
from aliquot.errors import OptionError


@dataclass(frozen=True)
class Row:
    system: str
    mean: float
    rank: int | None = None
    best: bool = False
    span: tuple[int, int] | None = None


@dataclass(frozen=True)
class Report(Result):
    rows: tuple[Row, ...]
    table: pl.DataFrame
    weights: dict[int, float]
    inner: Result | None = None

    def document(self) -> dict[str, Any]:
        return {"kind": "report", "points": self.table, **self.fields_without("table")}


def test_to_dict_is_plain_however_deep() -> None:
    table = pl.DataFrame({"x": [1.0, math.nan]})
    inner = Report((), table.clear(), {})
    two: Any = np.int64(2)
    half: Any = np.float32(0.5)
    found = Report((Row("A", np.float64("inf"), two),), table, {1: half}, inner).to_dict()
    row = {"system": "A", "mean": None, "rank": 2, "best": False, "span": None}
    assert found["rows"] == [row]
    assert type(found["rows"][0]["rank"]) is int
    assert found["points"] == [{"x": 1.0}, {"x": None}]
    assert found["weights"] == {"1": 0.5}
    assert found["inner"] == {"kind": "report", "points": [], "rows": [], "weights": {}, "inner": None}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([[1.0, np.nan]]), [[1.0, None]]),
        (np.array(3), 3),
        (np.bool_(True), True),
        ({"b", "a"}, ["a", "b"]),
        (date(2024, 5, 1), "2024-05-01"),
        (Path("a/b"), "a/b"),
        (pl.Series([1, None]), [1, None]),
    ],
)
def test_plain(value: object, expected: object) -> None:
    assert to_plain(value) == expected


def test_plain_refuses_what_json_cannot_hold() -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        to_plain({"a": object()})


def test_frame_of_has_the_same_types_with_and_without_rows() -> None:
    expected = {"system": pl.String, "mean": pl.Float64, "rank": pl.Int64, "best": pl.Boolean}
    full = frame_of([Row("A", 1), Row("B", math.nan, 2, span=(1, 2))], Row)
    empty = frame_of([], Row)
    for frame in (full, empty):
        assert {name: frame.schema[name] for name in expected} == expected
    assert full["mean"].to_list()[0] == 1.0
    assert full["span"].to_list() == [None, [1, 2]]
    assert empty.columns == list(full.columns)


@pytest.mark.parametrize("name", ["out.json", "out.csv", "out.tsv", "out.parquet", "out.md", "out.tex"])
def test_save_writes_by_the_ending(tmp_path, name):
    description = aliquot.synthetic(items=20, systems=3, seed=1).describe()
    description.save(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    if name == "out.json":
        assert json.loads(content) == json.loads(json.dumps(description.to_dict()))
    elif name == "out.parquet":
        assert pl.read_parquet(content).equals(description.to_frame())
    elif name.endswith("sv"):
        table = pl.read_csv(content, separator="," if name == "out.csv" else "\t")
        assert table["name"].to_list() == ["human", "metricA", "metricB", "metricC"]
    else:
        assert all(score.name in content.decode() for score in description.scores)
        assert content.decode().count("metricA") == 1


def test_save_refuses_other_endings(tmp_path):
    description = aliquot.synthetic(items=20, systems=3, seed=1).describe()
    with pytest.raises(OptionError, match=r"unknown ending; use .json, .csv, .tsv, .parquet, .md or .tex"):
        description.save(tmp_path / "out.pdf")
    assert list(tmp_path.iterdir()) == []
