"""Tables as people keep them: sheets with texts, Excel, JSON lines, decimal commas, UTF-16, folders of texts."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from aliquot import AliquotWarning, EvalSet, load
from aliquot.core.result import to_plain
from aliquot.errors import FormatError

LONG = "item,system,metric,value\n1349,A,BLEU,0.5\n1349,B,BLEU,0.25\n1350,A,BLEU,1\n"


def written(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def scores(data: EvalSet) -> dict[str, list[list[float | None]]]:
    return {name: to_plain(values) for name, values in data.scores.items()}


# -- sheets with texts ---------------------------------------------------------------------------------------------


def test_a_sheet_with_outputs_and_scores(tmp_path: Path) -> None:
    text = "source,output_A,output_B,human_A,human_B,B_COMET\nHi,Hallo,Tag,3,4,0.5\nBye,Tschau,,5,,0.25\n"
    data = load(written(tmp_path, text))
    assert data.ids == [0, 1]
    assert data.items["source"].to_list() == ["Hi", "Bye"]
    assert data.outputs is not None
    assert data.outputs.to_dict(as_series=False) == {"A": ["Hallo", "Tschau"], "B": ["Tag", None]}
    assert scores(data) == {"human": [[3.0, 4.0], [5.0, None]], "COMET": [[None, 0.5], [None, 0.25]]}
    assert data.human == "human"


def test_a_sheet_with_outputs_only(tmp_path: Path) -> None:
    data = load(written(tmp_path, "id,source,Translation GPT-4,Translation DeepL,notes\n7,Hi,Hallo,Tag,-\n"))
    assert (data.ids, data.systems, dict(data.scores)) == ([7], ("GPT-4", "DeepL"), {})
    bare = load(written(tmp_path, "id,source,GPT-4,DeepL\n7,Hi,Hallo,Tag\n"), wide="systems")
    assert bare.outputs is not None
    assert bare.outputs.rows() == [("Hallo", "Tag")]


def test_a_sheet_with_outputs_scores_and_annotators(tmp_path: Path) -> None:
    text = "id,annotator,output_A,output_B,score_A,score_B\n1,ann,x,y,3,4\n1,bob,x,y,5,6\n"
    with pytest.warns(AliquotWarning, match="'score' are read as criteria"):
        judgments = load(written(tmp_path, text)).judgments
    assert judgments is not None
    assert judgments.table.select("system", "annotator", "value").rows() == [
        ("A", "ann", 3.0),
        ("A", "bob", 5.0),
        ("B", "ann", 4.0),
        ("B", "bob", 6.0),
    ]


# -- containers ----------------------------------------------------------------------------------------------------


def test_excel(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [["item", "system", "metric", "value"], [1349, "A", "BLEU", 0.5], [1349, "B", "BLEU", 0.25], [None] * 4]
    for row in [*rows, [1350, "A", "BLEU", 1.0]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert load(tmp_path / "t.xlsx") == load(written(tmp_path, LONG))
    book.create_sheet("notes").append(["hello"])
    book.save(tmp_path / "t.xlsx")
    with pytest.warns(AliquotWarning, match="only the first sheet 'Sheet' is read, not 'notes'"):
        load(tmp_path / "t.xlsx")


def test_long_json_lines(tmp_path: Path) -> None:
    expected = load(written(tmp_path, LONG))
    pl.read_csv(tmp_path / "t.csv").write_ndjson(tmp_path / "t.jsonl")
    assert load(tmp_path / "t.jsonl") == expected
    mixed = '{"item": 1, "system": "A", "score": 0.5}\n{"item": "b", "system": "A", "score": 1, "domain": "x"}\n'
    assert load(written(tmp_path, mixed, "m.jsonl")).ids == ["1", "b"]
    with pytest.raises(FormatError, match=r"m\.jsonl line 2"):
        load(written(tmp_path, mixed[:-4], "m.jsonl"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    assert load(written(tmp_path, LONG.encode(encoding))).ids == [1349, 1350]


@pytest.mark.parametrize("encoding", ["utf-16le", "utf-16be"])
@pytest.mark.parametrize("content", [LONG, '{"i": 0, "tgt": {"A": "Hallo"}}'])
def test_utf16_without_a_mark_is_named(tmp_path: Path, encoding: str, content: str) -> None:
    with pytest.raises(FormatError, match=f"UTF-16 without a byte-order mark.*iconv -f {encoding[:5]}"):
        load(written(tmp_path, content.encode(encoding)))


def test_a_folder_of_texts(tmp_path: Path) -> None:
    written(tmp_path, "Hallo\nTschau\n", "A.txt")
    written(tmp_path, "Tag\n\n", "B.v2.txt")
    written(tmp_path, "Hi\nBye\n", "source.txt")
    written(tmp_path, "Hallo!\nTschüs!\n", "ref.txt")
    data = load(tmp_path)
    assert (data.ids, data.systems) == ([0, 1], ("A", "B.v2"))
    assert data.items["source"].to_list() == ["Hi", "Bye"]
    assert data.items["reference"].to_list() == ["Hallo!", "Tschüs!"]
    written(tmp_path, "one line\n", "C.txt")
    with pytest.raises(FormatError, match=r"C\.txt: 1 lines where the other files have 2"):
        load(tmp_path)


# -- cells ---------------------------------------------------------------------------------------------------------


def test_decimal_commas(tmp_path: Path) -> None:
    data = load(written(tmp_path, "item;system;value\n1;A;0,5\n1;B;1,234\n2;A;7\n2;B;NA\n"))
    assert scores(data) == {"value": [[0.5, 1.234], [7.0, None]]}
    for ambiguous in ("1,500", "1.5"):
        with pytest.raises(FormatError, match="is not a number"):
            load(written(tmp_path, f"item;system;value\n1;A;1,250\n1;B;{ambiguous}\n"))


def test_whole_ids_that_a_spreadsheet_made_decimal(tmp_path: Path) -> None:
    assert load(written(tmp_path, LONG.replace("1349", "1349.0"))).ids == [1349, 1350]
    table = pl.read_csv(written(tmp_path, LONG)).with_columns(pl.col("item").cast(pl.Float64))
    table.write_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").ids == [1349, 1350]
    assert load(written(tmp_path, LONG.replace("1349", "1349.5"))).ids == ["1349.5", "1350"]


def test_spaces_around_names_are_removed_with_a_note(tmp_path: Path) -> None:
    with pytest.warns(AliquotWarning, match="'system' has names with spaces around them, e.g. 'A '"):
        assert load(written(tmp_path, LONG.replace("1350,A", "1350,A "))).systems == ("A", "B")
    with pytest.warns(AliquotWarning, match="e.g. 'B '"):
        assert load(written(tmp_path, "item,A,B \n1,2,3\n"), wide="systems").systems == ("A", "B")
