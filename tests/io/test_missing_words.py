"""A word in a column of numbers never costs the column: it is a missing cell, and told, or an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import AliquotWarning, EvalSet, load
from aliquot.errors import DataError, NotNumericError

ROWS = [(item, system) for item in range(12) for system in "AB"]
Write = Callable[[list[Any], Path], Any]


def _csv(header: str, cells: list[Any], path: Path) -> Path:
    lines = [f"{item},{system},{item},{cell}" for (item, system), cell in zip(ROWS, cells, strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


SOURCES: dict[str, Write] = {
    "wide": lambda cells, path: _csv("item,system,human,COMET", cells, path),
    "memory": lambda cells, path: pl.read_csv(_csv("item,system,human,COMET", cells, path), infer_schema=False),
    "criteria": lambda cells, path: _csv("item,system,annotator,COMET", cells, path),
}


def score(data: EvalSet) -> Any:
    return data.scores["COMET" if "COMET" in data.scores else "human"]


@pytest.mark.parametrize("word", ["n/a", "N/A", "na", "NaN", "none", "#N/A", "Null", " n/a "])
@pytest.mark.parametrize("source", SOURCES)
def test_words_for_missing_are_missing_and_told(source: str, word: str, tmp_path: Path) -> None:
    cells: list[Any] = [0.5 * at for at in range(len(ROWS))]
    cells[7] = word
    made = SOURCES[source](cells, tmp_path / "t.csv")
    with pytest.warns(AliquotWarning) as caught:
        data = load(made)
    assert np.isnan(score(data)).sum() == 1
    assert any(
        f"row 8: '{word}' in column 'COMET' is read as missing (1 of 24 cells)" in str(one.message) for one in caught
    )


@pytest.mark.parametrize("source", SOURCES)
def test_another_word_is_an_error_with_row_and_value(source: str, tmp_path: Path) -> None:
    cells: list[Any] = [0.5 * at for at in range(len(ROWS))]
    cells[7] = "oops"
    with pytest.raises(NotNumericError, match=r"row 8: 'oops' in column 'COMET' is not a number; correct it"):
        load(SOURCES[source](cells, tmp_path / "t.csv"))
    cells[9] = "oh"
    with pytest.raises(NotNumericError, match=r"'oops' .* is not a number \(nor are 1 more of 24 cells\)"):
        load(SOURCES[source](cells, tmp_path / "t.csv"))


def test_a_column_of_texts_is_left_out_with_its_first_text(tmp_path: Path) -> None:
    cells: list[Any] = [at if at % 2 else "good" for at in range(len(ROWS))]
    with pytest.warns(AliquotWarning) as caught:
        data = load(SOURCES["wide"](cells, tmp_path / "t.csv"))
    assert list(data.scores) == ["human"]
    assert "'COMET' (row 1: 'good'; 12 of 24 cells are no numbers) are not read as scores" in str(caught[0].message)
    (tmp_path / "j.csv").write_text("item,system,annotator,fluency,note\n1,A,ann,3,good\n1,B,ann,4,bad\n")
    with pytest.warns(AliquotWarning, match="'fluency' are read as criteria; 'note' are not"):
        assert load(tmp_path / "j.csv").judgments is not None


def test_scores_that_are_no_numbers_are_an_error_of_aliquot() -> None:
    with pytest.raises(DataError, match="score 'COMET' holds something that is no number"):
        EvalSet(pl.DataFrame({"id": [0, 1]}), ("A", "B"), {"COMET": [[1, 2], ["n/a", 3]]})  # type: ignore[dict-item]


def test_empty_cells_are_missing_without_a_word(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    cells: list[Any] = [0.5 * at for at in range(len(ROWS))]
    cells[7] = ""
    assert np.isnan(aliquot.load(SOURCES["wide"](cells, tmp_path / "t.csv")).scores["COMET"]).sum() == 1
    assert not [one for one in recwarn if issubclass(one.category, AliquotWarning)]
