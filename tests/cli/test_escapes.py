r"""Names and texts are data, in every verb and every medium.

Systems, metrics, annotators and texts are called what terminals, rich, matplotlib, Markdown, HTML, LaTeX and
spreadsheets take for commands. Each medium must show them, and obey none.
"""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Call

import aliquot as library
from aliquot.collect.exporting import write_table
from aliquot.core import escape
from aliquot.core.escape import csv_cells, csv_names, unescape_csv_names
from aliquot.io.formats.table_files import read_frame
from aliquot.io.formats.tables import format_csv

NAMES = {
    "sys1": "[/b]",
    "sys2": "[red]x",
    "sys3": r"$\frac",
    "sys4": "<script>alert(1)</script>",
    "sys5": "=cmd|' /C calc'!A0",
    "sys6": "\x1b[2Jgone\x07\nnext|*line*",
}
ESC, SCRIPT = "\x1b", "<script>"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a selection and a result, whose names are all commands of some medium."""
    folder = tmp_path_factory.mktemp("hostile")
    data = library.synthetic(
        items=30,
        systems=6,
        annotators=6,
        judgments_per_output=2,
        seed=3,
        protocol="da",
        metrics={"metricA": 0.8, "metricB": 0.6},
    )
    assert data.judgments is not None
    people = dict(zip(data.judgments.annotators, NAMES.values(), strict=False))
    judgments = data.judgments.table.with_columns(pl.col("annotator").replace(people))
    data = replace(data, judgments=library.Judgments(judgments)).rename(
        systems=NAMES, scores={"metricA": "[/i]<b>$\\m", "metricB": "=1+1"}
    )
    assert data.outputs is not None
    texts = data.items.with_columns(source=pl.lit("[/u] \x1b[31m <script> $\\x$ =1"))
    data = replace(data, items=texts)
    library.save(data, folder / "d.jsonl")
    library.select(data, "pps", 15, seed=1).save(folder / "s.jsonl", data)
    return folder


METRIC = "[/i]<b>$\\m"
VERBS = {
    "inspect": ("inspect", "d.jsonl"),
    "plan": ("plan", "d.jsonl", "--budgets", "50%", "--replays", "5", "--jobs", "1"),
    "select": ("select", "d.jsonl", "--budget", "5", "--metric", METRIC, "--method", "metric_var"),
    "clean": ("clean", "d.jsonl", "--preset", "da_wmt", "--annotators"),
    "agreement": ("agreement", "d.jsonl", "--bootstrap", "0", "--full"),
    "combine": ("combine", "d.jsonl"),
    "estimate": ("estimate", "d.jsonl", "-s", "s.jsonl", "--pairs"),
    "compare": ("compare", "d.jsonl", "--draws", "20"),
    "simulate": ("simulate", "d.jsonl", "--methods", "random", "--budgets", "50%", "--repeats", "2", "--jobs", "1"),
    "metrics": ("metrics", "d.jsonl", "--trials", "50", "--permutations", "20"),
    "datasheet": ("datasheet", "new", "d.jsonl", "-s", "s.jsonl"),
    "convert": ("convert", "d.jsonl", "{out}/again.jsonl"),
}
SHOWN = ("inspect", "clean", "agreement", "combine", "estimate", "compare")  # verbs that list systems or annotators


@pytest.mark.parametrize("verb", VERBS)
def test_terminals(aliquot: Call, hostile, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(hostile)
    said = aliquot(*(word.format(out=tmp_path) for word in VERBS[verb]))
    assert said.code == 0, said.err
    printed = said.out + said.err
    assert not re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f]", printed)
    if verb in SHOWN:
        assert "[/b]" in printed
        assert "[red]x" in printed


@pytest.mark.parametrize("name", list(NAMES.values()))
def test_errors_and_warnings(aliquot: Call, hostile, monkeypatch, name):
    monkeypatch.chdir(hostile)
    for arguments in (("--systems", f"x{name}"), ("--human", name), ("--format", name)):
        said = aliquot("inspect", "d.jsonl", *arguments)
        assert said.code == 2
        assert said.err.count("\n") == 1
        assert ESC not in said.err


@pytest.mark.parametrize("verb", ["estimate", "inspect", "compare", "agreement", "metrics"])
def test_json(aliquot: Call, hostile, monkeypatch, verb):
    monkeypatch.chdir(hostile)
    said = aliquot(*(word for word in VERBS[verb] if word not in ("--pairs", "--full")), "--json")
    assert said.code == 0, said.err
    assert ESC not in said.out
    assert any(name in str(said.json) for name in ("[/b]", "[/i]<b>"))


@pytest.mark.parametrize("verb", ["estimate", "metrics"])
@pytest.mark.parametrize("ending", ["md", "tex"])
def test_tables_for_papers(aliquot: Call, hostile, tmp_path, monkeypatch, verb, ending):
    monkeypatch.chdir(hostile)
    said = aliquot(*VERBS[verb], "-o", tmp_path / f"t.{ending}")
    assert said.code == 0, said.err
    text = (tmp_path / f"t.{ending}").read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert ESC not in text
    if ending == "md":
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
        assert not re.search(r"(?<!\\)<(script|b)>", text)
    else:
        assert r"$\frac" not in text
        assert r"$\m" not in text


@pytest.mark.parametrize("verb", ["estimate", "inspect", "metrics", "agreement"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_spreadsheets(aliquot: Call, hostile, tmp_path, monkeypatch, verb, ending):
    monkeypatch.chdir(hostile)
    said = aliquot(*(word for word in VERBS[verb] if word != "--pairs"), "-o", tmp_path / f"t.{ending}")
    assert said.code == 0, said.err
    with (tmp_path / f"t.{ending}").open(newline="") as file:
        cells = [cell for row in csv.reader(file, delimiter="," if ending == "csv" else "\t") for cell in row]
    assert len(cells) > 20
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+cmd", "@"))]


COMPUTED = (
    "=1+1",
    "=cmd|' /C calc'!A0",
    "-1+1",
    "+A1",
    "-A1",
    "- 1+1",
    "@SUM(A1)",
    "@ann",
    "-SUM(1 2)",
    "\t=1",
    "\tx",
    "\rx",
    " =1",
    "\n+A1",
    "-1+1e5",
    "- see cmd|' /C calc'!A0",
    '-HYPERLINK("http://x")',
    "'=1",
    "''-1+1",
    "+",
    "-",
    "--1",
    "+-1",
    "-1 2",
)
PLAIN = (
    "-1",
    "+1.5",
    "-1e-3",
    "1e-3",
    "-1,5",
    "-.5",
    "+5%",
    " -2",
    "- Guten Tag, wie geht's?",
    "-ing' forms are",
    "a=1",
    "'tis",
    "",
    "x@y.org",
)


def test_what_a_spreadsheet_would_compute_is_text():
    texts = pl.DataFrame({"x": [*COMPUTED, *PLAIN]})
    assert csv_cells(texts)["x"].to_list() == [*(f"'{text}" for text in COMPUTED), *PLAIN]
    assert csv_names([*COMPUTED, *PLAIN]) == csv_cells(texts)["x"].to_list()
    assert unescape_csv_names(csv_names([*COMPUTED, *PLAIN])) == [*COMPUTED, *PLAIN]


@given(st.text(st.sampled_from("=+-@\t\r\n'\" 1aA.,;(!|é"), max_size=8))
def test_any_text_comes_back_from_a_table(text):
    table = pl.DataFrame({"item": ["a"], "text": [text or None], "last": ["z"]})
    for separator, name in ((",", "t.csv"), ("\t", "t.tsv")):
        again = read_frame(format_csv(table, separator).encode(), name)
        assert again["text"].to_list() == table["text"].to_list()


def test_judgments_come_back_from_a_spreadsheet(tmp_path):
    """Also what was typed: comments, corrected outputs; numbers are numbers in the file."""
    typed = [*COMPUTED, *(text for text in PLAIN if text)]
    table = pl.DataFrame(
        {"item": range(len(typed)), "system": "+A1", "annotator": "@ann", "value": -1.5, "text": typed}
    )
    write_table(table, tmp_path / "j.csv")
    again = library.load_judgments(tmp_path / "j.csv")
    assert again.table["text"].to_list() == typed
    assert (again.annotators, set(again.table["system"])) == (["@ann"], {"+A1"})
    assert set(again.table["value"]) == {-1.5}
    assert ",-1.5," in (tmp_path / "j.csv").read_text()


def test_spreadsheets_come_back_as_they_were(hostile, tmp_path):
    data = library.load(hostile / "d.jsonl")
    library.save(data, tmp_path / "t.csv")
    again = library.load(tmp_path / "t.csv")
    assert set(again.systems) == set(data.systems)
    assert set(again.scores) == set(data.scores)


@pytest.mark.parametrize("verb", ["agreement", "plan", "simulate", "metrics"])
def test_figures(aliquot: Call, hostile, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(hostile)
    said = aliquot(*VERBS[verb], "--plot", tmp_path / "f.svg")
    assert said.code == 0, said.err
    drawn = (tmp_path / "f.svg").read_text()
    assert SCRIPT not in drawn
    assert ESC not in drawn


@pytest.mark.parametrize("form", ["markdown", "html", "latex"])
def test_datasheets(aliquot: Call, hostile, tmp_path, monkeypatch, form):
    monkeypatch.chdir(hostile)
    assert aliquot("estimate", "d.jsonl", "-s", "s.jsonl", "-o", tmp_path / "e.json").code == 0
    sheet = ("datasheet", "new", "d.jsonl", "-s", "s.jsonl", "-r", tmp_path / "e.json", "-o", tmp_path / "s.toml")
    assert aliquot(*sheet).code == 0
    said = aliquot("datasheet", "render", tmp_path / "s.toml", "--format", form, "-o", tmp_path / "out")
    assert said.code == 0, said.err
    text = (tmp_path / "out").read_text()
    assert ESC not in text
    assert not re.search(r"(?<!\\)<script>", text) or form == "latex"
    assert r"$\frac" not in text or form == "html"


MEDIA = {
    "terminal": (escape.terminal, re.compile("\x1b")),
    "mathtext": (escape.mathtext, re.compile(r"(?<!\\)\$")),
    "markdown": (escape.markdown, re.compile(r"(?<!\\)[<*|]")),
    "markdown_cell": (escape.markdown_cell, re.compile(r"(?<!\\)[<*|\n]")),
    "latex": (escape.latex, re.compile(r"(?<!\\)\$|(?<!\\)[%&#]")),
    "html": (escape.html, re.compile(r"<|\x1b")),
    "linked_html": (escape.linked_html, re.compile(r"<|\x1b")),
}


@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.parametrize("name", [*NAMES.values(), "\u202egnp.exe", "a & b % # $ _ ^ ~", "\ud800", "", "é ü 漢"])
def test_each_medium(medium, name):
    function, forbidden = MEDIA[medium]
    shown = function(name)
    assert not forbidden.search(shown), shown
    if name.isalpha():
        assert shown == name
