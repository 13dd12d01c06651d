"""Sheets: blind, shuffled, checked on return, and judgments are what was filled in."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]
import polars as pl
import pytest
from tests.collect.conftest import some_value

import aliquot
from aliquot.collect.new_campaign import CampaignSettings, gather_inputs
from aliquot.collect.protocols import Choice, Protocol, Score, Spans, Text, Widget, list_protocols, load_protocol
from aliquot.collect.sheets import answer_columns, read_sheets, write_sheets
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotError, AliquotWarning, FormatError


def sheets_for(data, protocol, folder: Path, annotators=2, **options) -> list[Path]:
    inputs = gather_inputs(data, None, protocol, annotators, CampaignSettings(**options))
    return write_sheets(inputs, folder)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"))))


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def fill(rows: list[dict[str, str]], name: str | Protocol, seed: int = 0) -> None:
    """Fill in every row that is to be judged."""
    protocol = load_protocol(name)
    rng = random.Random(seed)
    slots = [key.removeprefix("output ") for key in rows[0] if key.startswith("output ")]
    parts: set[str] = set()
    for row in rows:
        if row["id"] == "context":
            continue
        here = [slot for slot in slots if row[f"output {slot}"]] or [""]
        for widget in protocol.widgets:
            if widget.scope == "document" and row["part"] in parts:
                continue
            for slot in here if widget.scope == "output" else [""]:
                end = f" {slot}" if slot else ""
                text = row.get(f"output{end}", "")
                value = some_value(widget, rng, text, here)
                put(row, widget, end, value, text)
        parts.add(row["part"])


def put(row: dict[str, str], widget: Widget, end: str, value: Any, text: str) -> None:
    if isinstance(widget, Score) and widget.criteria:
        row |= {f"{name}{end}": f"{number:g}" for name, number in value.items()}
    elif isinstance(widget, Spans):
        names = [f" ({span['category']})" if span["category"] else "" for span in value]
        lines = [
            f"{span['severity']}{name}: {text.split(maxsplit=1)[0]}" for span, name in zip(value, names, strict=True)
        ]
        row[f"{widget.name}{end}"] = "\n".join(lines) or "none"
    elif isinstance(widget, Choice) and widget.style == "best-worst":
        row |= value
    elif isinstance(widget, Choice) and widget.style == "ranking":
        row["choice"] = " > ".join(" = ".join(level) for level in value)
    elif isinstance(widget, Choice) and isinstance(value, dict):
        row["choice"] = value["choice"].lower()
        row["strength"] = str(value.get("strength", ""))
    elif isinstance(widget, Text):
        row[f"{widget.name}{end}"] = value
    else:
        row[f"{widget.name}{end}"] = f"{value:g}" if isinstance(value, float) else value


@pytest.mark.parametrize("protocol", list_protocols())
def test_every_preset_there_and_back(protocol, tmp_path, data):
    *written, key = sheets_for(data, protocol, tmp_path / "s", 3, per_output=2)
    texts = " ".join(path.read_text("utf-8-sig") for path in written if path.suffix == ".csv")
    for name in (*data.systems, "doc0", "doc1"):
        assert name not in texts
    filled = [path for path in written if path.suffix == ".csv"]
    for path in filled:
        rows = rows_of(path)
        fill(rows, protocol)
        write_rows(path, rows)
    found = read_sheets(filled, key)
    assert found.answered == found.expected
    pairs = set(found.judgments.select("item", "system").unique().iter_rows())
    assert len(pairs) == (16 if protocol == "document-comparison" else 48)  # four documents, judged as one each
    assert found.judgments["annotator"].n_unique() == 3
    assert aliquot.load_judgments(found.judgments).annotators
    if protocol in ("pairwise", "best-worst"):
        assert found.choices.height
        aliquot.compare(found.choices)


def test_values_belong_to_the_outputs_they_stand_beside(tmp_path, data):
    """The score is the length of the text: it must come back at the output of that length."""
    *written, key = sheets_for(data, "contrastive", tmp_path / "s", 2)
    paths = [path for path in written if path.suffix == ".csv"]
    for path in paths:
        rows = rows_of(path)
        for row in rows:
            for slot in "ABCD" if row["id"] != "context" else "":
                row[f"score {slot}"] = str(len(row[f"output {slot}"]) % 101)
                row[f"errors {slot}"] = "none"
        write_rows(path, rows)
    rows_of_items = {item: at for at, item in enumerate(data.ids)}
    for judged in read_sheets(paths, key).judgments.iter_rows(named=True):
        assert judged["value"] == len(data.outputs[judged["system"]][rows_of_items[judged["item"]]]) % 101


def test_excel_has_validation_and_no_formula(tmp_path, data):
    outputs = data.outputs.with_columns(sys1=pl.Series(["=cmd|' /C calc'!A0"] * data.n_items))
    evil = EvalSet(data.items, data.systems, outputs=outputs)
    *written, key = sheets_for(evil, "da", tmp_path / "s", 1)
    path = next(path for path in written if path.suffix == ".xlsx")
    book = openpyxl.load_workbook(path)
    sheet = book["judge"]
    rule = sheet.data_validations.dataValidation[0]
    assert (rule.type, rule.formula1, rule.formula2) == ("whole", "0", "100")
    values = [cell for row in sheet.iter_rows() for cell in row if str(cell.value).startswith("=cmd")]
    assert values
    assert {cell.data_type for cell in values} == {"s"}
    assert "\n=cmd" not in path.with_suffix(".csv").read_text().replace(",=cmd", "\n=cmd")
    header = [cell.value for cell in sheet[1]]
    for row in sheet.iter_rows(min_row=2):
        if row[0].value != "context":
            row[header.index("score")].value = 77
    book.save(path)
    found = read_sheets([path], key)
    assert set(found.judgments["value"]) == {77.0}
    assert found.judgments.height == 48


def one_sheet(tmp_path: Path, data: EvalSet, protocol: str = "da") -> tuple[list[Path], Path]:
    *written, key = sheets_for(data, protocol, tmp_path / "s", 2)
    paths = [path for path in written if path.suffix == ".csv"]
    for path in paths:
        rows = rows_of(path)
        fill(rows, protocol)
        write_rows(path, rows)
    return paths, key


def test_what_is_wrong_with_a_sheet_is_said(tmp_path, data):
    paths, key = one_sheet(tmp_path, data)
    good = rows_of(paths[0])
    at = next(n for n, row in enumerate(good) if row["id"] != "context")
    other = next(row for row in rows_of(paths[1]) if row["id"] != "context")

    def changed(**cells: str) -> list[dict[str, str]]:
        return [row | cells if n == at else row for n, row in enumerate(good)]

    cases = {
        "not what the annotator was given": changed(output="better text"),
        "is outside 0 to 100": changed(score="1000"),
        "'good' is not a number": changed(score="good"),
        "is not in the key": changed(id="0000000000"),
        "was read before": [*good, good[at]],
        "belongs to the sheet of 'ann": [*good, other],
        "no column 'id' says": [{k: v for k, v in row.items() if k != "id"} for row in good],
        "the column 'score' is missing": [{k: v for k, v in row.items() if k != "score"} for row in good],
        "no row is answered": [row | {"score": ""} for row in good],
    }
    for message, rows in cases.items():
        write_rows(paths[0], rows)
        with (
            pytest.raises(FormatError, match=message) as error,
            pytest.warns() if "answered" in message else _nothing(),
        ):
            read_sheets(paths[:1], key)
        assert "answered" in message or f"{paths[0]} row" in str(error.value) or "id'" in message
    write_rows(paths[0], changed(score="55,0"))  # a decimal comma
    assert read_sheets(paths[:1], key).judgments.height
    write_rows(paths[0], changed(score=""))
    with pytest.warns(AliquotWarning, match=r"1 of \d+ rows are not answered"):
        read_sheets(paths[:1], key)


class _nothing:  # noqa: N801
    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def test_keys_and_files(tmp_path, data):
    paths, key = one_sheet(tmp_path, data)
    with pytest.raises(AliquotError, match="no such file"):
        read_sheets(paths, tmp_path / "nokey.csv")
    with pytest.raises(FormatError, match="is no key of sheets"):
        read_sheets(paths, paths[0])
    with pytest.raises(FormatError, match="was read before"):
        read_sheets([paths[0], paths[0]], key)
    with pytest.raises(AliquotError, match="exists already"):
        sheets_for(data, "da", tmp_path / "s", 2)
    with pytest.raises(AliquotError, match="make one file"):
        sheets_for(data, "da", tmp_path / "t", ["A", "a"])
    assert read_sheets([*paths, key], key).answered  # as `sheets/*.csv` names it, too


def test_errors_in_a_sheet_must_stand_in_the_text(tmp_path, data):
    paths, key = one_sheet(tmp_path, data, "esa")
    rows = rows_of(paths[0])
    at = next(n for n, row in enumerate(rows) if row["id"] != "context")
    for text, message in (
        ("minor: zzzz", "does not stand in the text"),
        ("bad", "is not severity: words"),
        (f"awful: {rows[at]['output'].split()[0]}", "no severity 'awful'"),
    ):
        rows[at]["errors"] = text
        write_rows(paths[0], rows)
        with pytest.raises(FormatError, match=message):
            read_sheets(paths[:1], key)


def test_columns_to_fill_in():
    assert [c.name for c in answer_columns(load_protocol("likert"), 1)] == ["adequacy", "fluency"]
    assert [c.name for c in answer_columns(load_protocol("pairwise"), 2)] == ["choice", "strength"]
    assert [c.name for c in answer_columns(load_protocol("best-worst"), 4)] == ["best", "worst"]
    names = [c.name for c in answer_columns(load_protocol("contrastive"), 2)]
    assert names == ["errors A", "errors B", "score A", "score B"]


def test_a_sheet_of_one_output(tmp_path, data):
    one = data.keep(items=list(data.ids[:1]), systems=["sys1"])
    sheet, _, key = sheets_for(one, "da", tmp_path / "s", 1)
    rows = rows_of(sheet)
    assert len(rows) == 1
    fill(rows, "da")
    write_rows(sheet, rows)
    (judgment,) = read_sheets([sheet], key).judgments.to_dicts()
    assert (judgment["item"], judgment["system"]) == (data.ids[0], "sys1")
    assert judgment["value"] == float(rows[0]["score"])
