"""Tables whose headers and layout people choose freely: what is recognised, what is noted, what is proposed."""

from __future__ import annotations

import csv
import io
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import AliquotWarning, EvalSet
from aliquot.cli.main import run
from aliquot.errors import FormatError

Rows = list[list[Any]]
Writer = Callable[[Path, Rows], Path]


def write_csv(folder: Path, rows: Rows, separator: str = ",", name: str = "t.csv") -> Path:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\r\n").writerows(rows)
    path = folder / name
    path.write_bytes(text.getvalue().encode("utf-8-sig"))  # Excel's CSV begins with a byte-order mark
    return path


def write_german_csv(folder: Path, rows: Rows) -> Path:
    cells = [[str(cell).replace(".", ",") if isinstance(cell, float) else cell for cell in row] for row in rows]
    return write_csv(folder, cells, ";")


def write_excel(folder: Path, rows: Rows) -> Path:
    openpyxl = pytest.importorskip("openpyxl", reason="the extra `sheets` is not installed")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


def with_margins(writer: Writer) -> Writer:
    """Return the writer with a title above the header, and empty columns and rows at the end."""

    def write(folder: Path, rows: Rows) -> Path:
        width = len(rows[0]) + 2
        padded = [[*row, "", ""] for row in rows]
        return writer(folder, [["Results of May", *[""] * (width - 1)], [""] * width, *padded, [""] * width])

    return write


WRITERS = {
    "csv": write_csv,
    "german": write_german_csv,
    "excel": write_excel,
    "csv-margins": with_margins(write_csv),
    "excel-margins": with_margins(write_excel),
}
every_file = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS.keys())


def read(path: Path, **options: Any) -> tuple[EvalSet, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = aliquot.load(path, **options)
    return data, [str(each.message) for each in caught]


def long(header: str, *rows: tuple[Any, ...]) -> Rows:
    return [header.split(","), *map(list, rows)]


# -- headers that are recognised -------------------------------------------------------------------------------------

LLM = long(
    "Prompt ID,Category,Question,Model,Response,Reference Answer,Rating",
    ("p1", "maths", "What is 1+1?", "gpt", "2", "2", 4.5),
    ("p1", "maths", "What is 1+1?", "claude", "two", "2", 3.5),
    ("p2", "trivia", "Who wrote Faust?", "gpt", "Goethe", "Goethe", 5.0),
    ("p2", "trivia", "Who wrote Faust?", "claude", "Schiller", "Goethe", 1.0),
)


@every_file
@pytest.mark.parametrize(
    "header",
    [
        "Prompt ID,Category,Question,Model,Response,Reference Answer,Rating",
        "prompt_id,category,question,llm,completion,expected,rating",
        "promptId,CATEGORY,Question,LLM,Output,Expected Output,Score",
        "PROMPT-ID,category,Prompt,model_name,prediction,ground_truth,grade",
    ],
)
def test_headers_of_language_model_tables(header: str, writer: Writer, tmp_path: Path) -> None:
    data, _ = read(writer(tmp_path, [header.split(","), *LLM[1:]]))
    assert data.ids == ["p1", "p2"]
    assert data.systems == ("gpt", "claude")
    assert data.items["domain"].to_list() == ["maths", "trivia"]
    assert data.items["source"].to_list() == ["What is 1+1?", "Who wrote Faust?"]
    assert data.items["reference"].to_list() == ["2", "Goethe"]
    assert data.outputs is not None
    assert data.outputs["claude"].to_list() == ["two", "Schiller"]
    (score,) = data.scores.values()
    np.testing.assert_allclose(score, [[4.5, 3.5], [5.0, 1.0]])


@pytest.mark.parametrize("header", ["Rater", "worker_id", "Reviewer", "Evaluator ID", "annotator name"])
def test_headers_of_people(header: str, tmp_path: Path) -> None:
    rows = long(f"item,system,{header},score", (1, "A", "ann", 3), (1, "A", "bob", 5))
    data, _ = read(write_csv(tmp_path, rows))
    assert data.judgments is not None
    assert data.judgments.annotators == ["ann", "bob"]
    assert data.scores["human"].tolist() == [[4.0]]


def test_questions_are_criteria_or_sources(tmp_path: Path) -> None:
    rows = [(i, s, "ann", f"{q}?", 3) for i in (1, 2) for s in "AB" for q in ("Fluent", "Correct")]
    data, _ = read(write_csv(tmp_path, long("item,system,annotator,question,score", *rows)))
    assert data.judgments is not None
    assert data.judgments.criteria == ["Fluent?", "Correct?"]
    rows = [(i, s, "ann", f"What is {i}?", 3) for i in (1, 2) for s in "AB"]
    data, notes = read(write_csv(tmp_path, long("item,system,annotator,question,score", *rows)))
    assert data.items["source"].to_list() == ["What is 1?", "What is 2?"]
    assert any("is read as the source, not as criteria" in note for note in notes)


def test_answers_are_outputs_or_references(tmp_path: Path) -> None:
    outputs = long("id,question,answer,model,score", *((i, f"q{i}", f"{s}{i}", s, 1) for i in (1, 2) for s in "AB"))
    data, notes = read(write_csv(tmp_path, outputs))
    assert data.outputs is not None
    assert data.outputs["B"].to_list() == ["B1", "B2"]
    assert not notes
    references = long("id,question,answer,model,score", *((i, f"q{i}", f"{i}", s, 1) for i in (1, 2) for s in "AB"))
    data, notes = read(write_csv(tmp_path, references))
    assert data.outputs is None
    assert data.items["reference"].to_list() == ["1", "2"]
    assert any("'answer' has one text for each item and is read as the reference" in note for note in notes)
    beside = long("id,answer,response,model,score", *((i, f"{i}", f"{s}{i}", s, 1) for i in (1, 2) for s in "AB"))
    data, _ = read(write_csv(tmp_path, beside))
    assert data.items["reference"].to_list() == ["1", "2"]
    assert data.outputs is not None
    single = long("id,question,answer,model,score", *((i, f"q{i}", f"{i}", "A", 1) for i in (1, 2)))
    data, notes = read(write_csv(tmp_path, single))
    assert data.outputs is not None
    assert any("columns=reference=answer" in note for note in notes)


@every_file
def test_labels_are_scores_if_they_are_numbers_or_passes(writer: Writer, tmp_path: Path) -> None:
    for cells, expected in (((1, 0), [1.0, 0.0]), (("pass", "Fail"), [1.0, 0.0]), ((4, 2), [4.0, 2.0])):
        for header in ("label", "Verdict", "grade"):
            rows = long(f"id,model,response,{header}", *((i, "A", "x", cells[i % 2]) for i in range(4)))
            data, notes = read(writer(tmp_path, rows))
            assert data.scores[header].ravel()[:2].tolist() == expected
            assert any(f"'{header}' is read as" in note for note in notes) or header == "grade"
    words = long("id,model,response,label", (1, "A", "x", "good"), (2, "A", "x", "bad"))
    data, notes = read(writer(tmp_path, words))
    assert not data.scores
    assert any("'label' are not read as scores" in note for note in notes)


def test_a_label_beside_metrics_is_one_of_them(tmp_path: Path) -> None:
    data, _ = read(write_csv(tmp_path, long("id,model,BLEU,label", (1, "A", 30, 1), (2, "A", 40, 0))))
    assert list(data.scores) == ["BLEU", "label"]


def test_categories_of_errors_are_no_domains(tmp_path: Path) -> None:
    rows = long("item,system,annotator,category,severity,value", (1, "A", "x", "style", "minor", -1))
    data, _ = read(write_csv(tmp_path, rows))
    assert "domain" not in data.items.columns
    assert data.judgments is not None
    assert data.judgments.table["category"].to_list() == ["style"]


# -- items without ids -----------------------------------------------------------------------------------------------


@every_file
def test_prompts_are_items_where_there_are_no_ids(writer: Writer, tmp_path: Path) -> None:
    prompts = ("Who?", "Why " * 40)
    rows = long("Prompt,LLM,Response,Score", *((p, s, "x", 0.5) for s in "AB" for p in prompts))
    data, notes = read(writer(tmp_path, rows))
    assert data.n_items == 2
    assert data.ids[0] == "Who?"
    assert len(str(data.ids[1])) < 60
    assert any("no column of ids: each 'Prompt' is an item" in note for note in notes)
    again, _ = read(writer(tmp_path, [rows[0], *reversed(rows[1:])]))
    assert sorted(map(str, again.ids)) == sorted(map(str, data.ids))  # ids do not depend on the order of rows


@pytest.mark.parametrize("other", ["prompt_id", "prompt"])
def test_an_id_of_rows_is_no_item(other: str, tmp_path: Path) -> None:
    rows = long(f"id,{other},model,score", *((n, f"p{n // 2}", "AB"[n % 2], n) for n in range(4)))
    data, notes = read(write_csv(tmp_path, rows))
    assert data.n_items == 2
    assert np.isfinite(data.scores["score"]).all()
    assert any(f"'id' numbers the rows: each '{other}' is an item" in note for note in notes)


# -- a column for each system ----------------------------------------------------------------------------------------


@every_file
@pytest.mark.parametrize(
    "header",
    [
        "source,DeepL,DeepL score,Google,Google score",
        "Source,DeepL output,DeepL rating,Google output,Google rating",
        "Prompt,DeepL,Score DeepL,Google,Score Google",
        "source,output_DeepL,human_DeepL,output_Google,human_Google",
    ],
)
def test_outputs_and_scores_of_systems_side_by_side(header: str, writer: Writer, tmp_path: Path) -> None:
    rows = long(header, ("Hallo", "Hello", 4.5, "Hi", 5.0), ("Haus", "House", 2.5, "Home", "n/a"))
    data, notes = read(writer(tmp_path, rows))
    assert data.systems == ("DeepL", "Google")
    assert data.outputs is not None
    assert data.outputs["Google"].to_list() == ["Hi", "Home"]
    (score,) = data.scores.values()
    np.testing.assert_array_equal(score, [[4.5, 5.0], [2.5, np.nan]])
    assert any("'n/a'" in note and "missing" in note for note in notes)


def test_systems_side_by_side_and_nothing_else(tmp_path: Path) -> None:
    data, _ = read(write_csv(tmp_path, long("A,A score,B,B score", ("x", 1, "y", 2), ("z", 3, "w", 4))))
    assert data.ids == [0, 1]
    assert data.scores["score"].tolist() == [[1, 2], [3, 4]]


def test_scores_of_systems_side_by_side(tmp_path: Path) -> None:
    data, notes = read(write_csv(tmp_path, long("id,DeepL score,Google score", (1, 3, 4), (2, 4, 5))))
    assert data.systems == ("DeepL", "Google")
    assert data.scores["score"].tolist() == [[3, 4], [4, 5]]
    assert any("'DeepL', 'Google' are read as systems" in note for note in notes)


@pytest.mark.parametrize(
    "header", ["id,Rater 1 score,Rater 2 score", "id,score_1,score_2", "id,BLEU score,COMET score"]
)
def test_raters_and_metrics_side_by_side_are_no_systems(header: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        read(write_csv(tmp_path, long(header, (1, 3, 4), (2, 4, 5))))


# -- proposals -------------------------------------------------------------------------------------------------------

AWKWARD: dict[str, Rows] = {
    "annotators and systems": long("Item,Annotator,DeepL,Google MT", (1, "ann", 3, 4), (1, "bob", 4, 5)),
    "systems alone": long("nr,DeepL,Google", (1, 3, 4), (2, 4, 5)),
    "own words": long(
        "sentence,who,engine no,points",
        *((i, w, f"e{s}", i + s) for i in (1, 2, 3) for w in ("ann", "bob") for s in (1, 2)),
    ),
    "own words, no annotator": long("case,tool,mean, best ", *((i, s, 0.5, i) for i in (1, 2, 3) for s in "XY")),
}


@every_file
@pytest.mark.parametrize("name", AWKWARD)
def test_the_proposed_command_works(
    name: str, writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my data's"
    folder.mkdir()
    path = writer(folder, AWKWARD[name])
    assert run(["inspect", str(path)]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    before, separator, command = message.partition("; try: ")
    assert separator, before
    words = shlex.split(command)
    assert words[:3] == ["aliquot", "inspect", str(path)]
    assert "--read" in words
    assert run(words[1:]) == 0
    assert "ready" in capsys.readouterr().out


def test_what_the_user_said_stays_in_the_proposal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path, AWKWARD["own words"])
    assert run(["inspect", str(path), "--read", "annotator=who", "--systems", "e1,e2"]) == 2
    words = shlex.split(capsys.readouterr().err.rpartition("; try: ")[2])
    assert words[3:7] == ["--read", "annotator=who", "--systems", "e1,e2"]
    assert run(words[1:]) == 0


def test_no_reading_is_proposed_that_does_not_work(tmp_path: Path) -> None:
    for rows in (long("BLEU,COMET", (30, 0.5), (31, 0.6)), long("a,b", ("x", "y"), ("z", "w"))):
        with pytest.raises(FormatError) as caught:
            read(write_csv(tmp_path, rows))
        assert caught.value.proposal == ()


# -- habits of spreadsheets ------------------------------------------------------------------------------------------


def test_a_column_without_a_name_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",item,system,BLEU,\n0,1,A,3,\n1,1,B,4,\n")
    data, notes = read(path)
    assert list(data.scores) == ["BLEU"]
    assert notes == [f"{path}: column 1 has no name in the header: left out"]


def test_the_hint_of_excel_and_empty_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sep=;\nitem;system;value\n1;A;0,5\n;;\n1;B;0,75\n;;\n;;\n")
    assert read(path)[0].scores["value"].tolist() == [[0.5, 0.75]]


def test_lines_are_counted_with_the_title(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"Scores, all",,\n,,\nitem,system,value\n1,A\n')
    with pytest.raises(FormatError, match="line 4: 2 fields where the header has 3"):
        read(path)


def test_the_sheet_that_holds_a_table_is_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="the extra `sheets` is not installed")
    book = openpyxl.Workbook()
    book.active.append(["Please read the instructions"])
    sheet = book.create_sheet("scores")
    for row in ([None, None], ["Title"], ["item", "system", "value"], [1, "A", 3]):
        sheet.append(row)
    sheet.merge_cells("A2:C2")
    book.save(tmp_path / "t.xlsx")
    data, notes = read(tmp_path / "t.xlsx")
    assert data.scores["value"].tolist() == [[3.0]]
    assert any("only the sheet 'scores' is read, not 'Sheet'" in note for note in notes)


def test_tables_in_memory_are_read_alike() -> None:
    frame = pl.DataFrame({"Prompt": ["a", "a"], "LLM": ["A", "B"], "Score": [1, 2]})
    with pytest.warns(AliquotWarning, match="each 'Prompt' is an item"):
        assert EvalSet.from_frame(frame).ids == ["a"]
