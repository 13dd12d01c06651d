"""Where data are meant in Python, paths and tables of Polars and pandas do as well as objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aliquot
from aliquot import EvalSet
from aliquot.errors import AliquotError, OptionError
from aliquot.io.inputs import as_evalset, as_evalsets, as_judged, as_judgments, as_selection

SCORES = pl.DataFrame({"segment_id": [1, 1, 2, 2], "model": ["A", "B"] * 2, "score": [0.5, 0.75, 0.25, 1.0]})
JUDGED = pl.DataFrame({"segment_id": [1, 1], "model": ["A", "B"], "rater": ["ann", "bob"], "score": [3, 4]})


def tables(frame: pl.DataFrame) -> list[Any]:
    pandas = pytest.importorskip("pandas")
    return [frame, pandas.DataFrame(frame.to_dict(as_series=False))]


@pytest.fixture
def data() -> EvalSet:
    return aliquot.synthetic(items=30, systems=3, seed=4)


def test_tables_become_evalsets() -> None:
    for table in tables(SCORES):
        assert as_evalset(table).scores["score"].tolist() == [[0.5, 0.75], [0.25, 1.0]]
        made = EvalSet.from_frame(table, name="mine", human="score", lower_is_better=["score"])
        assert (made.name, made.human, made.flipped) == ("mine", "score", frozenset({"score"}))
        assert made.scores["score"][0].tolist() == [-0.5, -0.75]


def test_tables_become_judgments() -> None:
    for table in tables(JUDGED):
        found = as_judgments(table).table
        assert found.select("item", "system", "annotator", "value").rows() == [
            (1, "A", "ann", 3.0),
            (1, "B", "bob", 4.0),
        ]
    repeated = pl.DataFrame({"item": [1, 1], "system": ["A", "A"], "value": [1.0, 3.0]})
    assert len(as_judgments(repeated)) == 2  # two judgments without an annotator id, not a contradiction


def test_pandas_columns_of_mixed_type_become_texts() -> None:
    pandas = pytest.importorskip("pandas")
    mixed = pandas.DataFrame({"item": [1, "b"], "system": ["A", "A"], "value": [1.5, 2.5]})
    assert as_evalset(mixed).ids == ["1", "b"]


def test_selections_from_tables_and_paths(tmp_path: Path, data: EvalSet) -> None:
    table = pl.DataFrame({"item": [4.0, 2.0], "probability": [0.5, 0.25], "population": [30, 30]})
    for given in tables(table):
        chosen = as_selection(given)
        assert (chosen.ids, chosen.population) == ((4, 2), 30)
        assert chosen.probability is not None
        assert chosen.probability.tolist() == [0.5, 0.25]
    selection = aliquot.select(data, "segments", budget=10, seed=1)
    selection.save(tmp_path / "s.jsonl")
    assert as_selection(tmp_path / "s.jsonl").ids == selection.ids
    assert as_selection(selection) is selection
    with pytest.raises(AliquotError, match="selections need a column 'item'"):
        as_selection(pl.DataFrame({"probability": [0.5]}))


def test_verbs_take_paths_and_tables(tmp_path: Path, data: EvalSet) -> None:
    path, chosen = tmp_path / "data.jsonl", tmp_path / "chosen.jsonl"
    aliquot.save(data, path)
    aliquot.save(data, tmp_path / "judgments.csv", what="judgments")
    selection = aliquot.select(path, "segments", budget=10, seed=1)
    assert selection.ids == aliquot.select(data, "segments", budget=10, seed=1).ids
    selection.save(chosen)
    expected = aliquot.estimate(data, selection=selection, judgments=data.judgments)
    pandas = pytest.importorskip("pandas")
    for judgments in (tmp_path / "judgments.csv", pandas.read_csv(tmp_path / "judgments.csv")):
        found = aliquot.estimate(path, selection=chosen, judgments=judgments)
        assert [row.estimate for row in found.systems] == [row.estimate for row in expected.systems]
    planned = aliquot.plan(path, judgments=tmp_path / "judgments.csv", selection=chosen, draws=100, replays=5)
    assert (
        planned.signature
        == aliquot.plan(data, judgments=data.judgments, selection=selection, draws=100, replays=5).signature
    )
    sheet = aliquot.datasheet.new(path, selection=chosen, judgments=tmp_path / "judgments.csv")
    assert sheet.answer("3.1.1").text == "10"
    judged = tmp_path / "judgments.csv"
    assert aliquot.combine(judged).systems.equals(aliquot.combine(data).systems)
    assert aliquot.clean(judged, "crowd").annotators.equals(aliquot.clean(data, "crowd").annotators)
    with pytest.raises(AliquotError, match="no such file"):
        aliquot.agreement("absent.csv")
    assert aliquot.combine(JUDGED).systems.height == 2


def test_one_or_several() -> None:
    assert len(as_evalsets([SCORES, SCORES])) == 2
    assert len(as_evalsets(SCORES)) == 1


def test_labels_stay_in_their_table() -> None:
    table = JUDGED.with_columns(verdict=pl.Series(["yes", "no"]))
    assert "verdict" in as_judged(table, "verdict").columns  # type: ignore[union-attr]
    assert aliquot.combine(table, answer="verdict", recode="yes=1,no=0").systems.height == 2


@pytest.mark.parametrize("wrong", [3, None, ["a"], {"item": 1}])
def test_what_is_no_data_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="give an EvalSet, a path, a Polars or a pandas table"):
        as_evalset(wrong)
