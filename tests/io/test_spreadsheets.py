"""Tables as people make them in spreadsheets and scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from aliquot import AliquotWarning, EvalSet, load, load_judgments
from aliquot.errors import NotNumericError


def read(folder: Path, text: str, **options: Any) -> EvalSet:
    path = folder / "t.csv"
    path.write_text(text)
    return load(path, **options)


def rows(cells: list[str], header: str = "item,system,value") -> str:
    lines = [f"{at // 2},{'AB'[at % 2]},{cell}\n" for at, cell in enumerate(cells)]
    return header + "\n" + "".join(lines)


# -- numbers in other forms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected", "note"),
    [
        (["85%", "90 %", "", "12.5%"], [0.85, 0.9, np.nan, 0.125], "'85%' in column 'value' is read as 0.85"),
        (['"12,5%"', "7%", "n/a", "0%"], [0.125, 0.07, np.nan, 0], "'12,5%' in column 'value' is read as 0.125"),
        (["4/5", "3.5/5", "1 / 5", "-"], [4, 3.5, 1, np.nan], "'4/5' in column 'value' is read as 4"),
        (["yes", "No", "n/a", "yes"], [1, 0, np.nan, 1], "'yes' is 1, 'No' is 0"),
        (["pass", "pass", "", "pass"], [1, 1, np.nan, 1], "read as numbers: 'pass' is 1"),
        (["TRUE", "false", "TRUE", "TRUE"], [1, 0, 1, 1], "'TRUE' is 1, 'false' is 0"),
    ],
)
def test_numbers_in_other_forms(cells: list[str], expected: list[float], note: str, tmp_path: Path) -> None:
    with pytest.warns(AliquotWarning) as caught:
        data = read(tmp_path, rows(cells))
    np.testing.assert_allclose(data.scores["value"].ravel(), expected)
    assert any(note in str(each.message) for each in caught)


@pytest.mark.parametrize("cells", [["4/5", "3/4", "1/5", "2/5"], ["85%", "0.9", "7%", "1%"], ["yes", "no", "4", "5"]])
def test_mixed_forms_are_refused(cells: list[str], tmp_path: Path) -> None:
    with pytest.raises(NotNumericError, match="is not a number"):
        read(tmp_path, rows(cells))


def test_numbers_that_a_spreadsheet_made_dates_of_are_explained(tmp_path: Path) -> None:
    with pytest.raises(NotNumericError, match=r"'2026-05-04' .* format the column as text, and type it again"):
        read(tmp_path, rows(["2026-05-04", "2026-05-03"]))


@pytest.mark.parametrize("mark", ["-", "–", "n.a.", "k.A.", "#DIV/0!", " - "])
def test_marks_for_missing_cost_no_score(mark: str, tmp_path: Path) -> None:
    with pytest.warns(AliquotWarning, match="is read as missing"):
        data = read(tmp_path, rows([f"{mark},0.5", "3,0.25"], "item,system,BLEU,COMET"))
    np.testing.assert_array_equal(data.scores["BLEU"], [[np.nan, 3]])
    np.testing.assert_array_equal(data.scores["COMET"], [[0.5, 0.25]])


def test_a_column_of_marks_and_other_words_is_no_score(tmp_path: Path) -> None:
    assert list(read(tmp_path, rows(["-,1", "-,2"], "item,system,remark,BLEU")).scores) == ["BLEU"]
    answers = load_judgments(
        pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "annotator": "x", "value": [1, 2], "part": ["1/2", "-"]})
    )
    assert answers.table["part"].to_list() == ["1/2", "-"]  # free columns stay what they are


def test_flags_of_json_and_parquet(tmp_path: Path) -> None:
    pl.DataFrame({"item": [1, 2], "system": ["A", "A"], "value": [True, False]}).write_parquet(tmp_path / "t.parquet")
    with pytest.warns(AliquotWarning, match="'true' is 1, 'false' is 0"):
        assert load(tmp_path / "t.parquet").scores["value"].tolist() == [[1.0], [0.0]]
