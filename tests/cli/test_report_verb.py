"""`aliquot report` and `--plot`: what they write, and mistakes in one line."""

from __future__ import annotations

import sys

import pytest

import aliquot as package
from aliquot.cli.main import VERBS

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


@pytest.fixture
def files(tmp_path):
    data = package.synthetic(items=40, systems=3, protocol="da", annotators=3, judgments_per_output=2, seed=1)
    package.save(data, tmp_path / "data.jsonl")
    package.select(data, "pps", budget=20, seed=1).save(tmp_path / "chosen.jsonl", data)
    assert data.judgments is not None
    data.judgments.table.write_csv(tmp_path / "judgments.csv")
    rows = ["item,system_a,system_b,choice", *(f"{i},sys1,sys2,{'a' if i % 3 else 'b'}" for i in range(20))]
    (tmp_path / "choices.csv").write_text("\n".join(rows))
    return tmp_path


def test_data_selection_and_judgments_become_a_page(aliquot, files):
    said = aliquot(
        "report",
        files / "data.jsonl",
        "-s",
        files / "chosen.jsonl",
        "-j",
        files / "judgments.csv",
        "--without",
        "plan,metrics",
        "-o",
        files / "r.html",
    )
    assert said.code == 0, said.err
    assert "Who is best, and how sure are we?" in said.out
    assert said.fits
    page = (files / "r.html").read_text("utf-8")
    assert "People judged 20 of 40 items" in page


def test_json_holds_the_results_and_nothing_else(aliquot, files):
    said = aliquot("report", files / "data.jsonl", "--without", "plan,metrics,datasheet", "--json")
    assert said.json["sets"][0]["sections"][0]["id"] == "best"
    assert said.json["sets"][0]["results"]["estimate"]["systems"]
    assert "html" not in said.json


def test_choices_with_their_texts(aliquot, files):
    said = aliquot("report", files / "data.jsonl", "-j", files / "choices.csv", "-o", files / "r.html")
    assert said.code == 0, said.err
    assert "win rate" in (files / "r.html").read_text("utf-8")


def test_several_sets(aliquot, files):
    said = aliquot(
        "report", files / "data.jsonl", files / "choices.csv", "--without", "plan,metrics", "-o", files / "r.html"
    )
    assert said.code == 0, said.err
    assert 'id="s2-best"' in (files / "r.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("data.jsonl", "-o", "r.pdf"), "a report is a page; use .html"),
        (("data.jsonl", "-o", "nowhere/r.html"), "does not exist"),
        (("data.jsonl", "data.jsonl", "-j", "judgments.csv", "-o", "r.html"), "2 test sets and 1 times --judgments"),
        (("data.jsonl", "--without", "metric", "-o", "r.html"), "did you mean 'metrics'"),
        (("data.jsonl", "--human", "humn", "-o", "r.html"), "humn"),
        (("broken.jsonl", "-o", "r.html"), "broken.jsonl"),
    ],
)
def test_mistakes_are_told_in_one_line(aliquot, files, monkeypatch, arguments, words):
    monkeypatch.chdir(files)
    (files / "broken.jsonl").write_text('{"i": 0, "tgt": \n')
    said = aliquot("report", *arguments)
    assert said.code == 2 or "does not exist" in words
    assert words in said.err
    assert said.err.count("\n") == 1
    assert not (files / "r.html").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("estimate", "data.jsonl"),
        ("estimate", "data.jsonl", "--picture", "pairs"),
        ("compare", "choices.csv"),
        ("select", "data.jsonl", "-m", "pps", "-b", "10"),
        ("agreement", "data.jsonl", "--bootstrap", "0", "--picture", "annotators"),
        ("clean", "data.jsonl", "-p", "da_wmt"),
        ("metrics", "data.jsonl", "--parts", "decomposition", "--trials", "50", "--picture", "decomposition"),
        ("metrics", "data.jsonl", "--parts", "correlations", "--picture", "correlations"),
        ("pool", "data.jsonl", "-m", "source_length", "-b", "5"),
    ],
)
def test_every_verb_draws(aliquot, files, monkeypatch, arguments):
    monkeypatch.chdir(files)
    said = aliquot(*arguments, "--plot", "p.svg")
    assert said.code == 0, said.err
    assert "<svg" in (files / "p.svg").read_text("utf-8")


@pytest.mark.parametrize("verb", ["estimate", "compare", "select", "agreement", "clean", "metrics", "pool"])
def test_a_picture_that_cannot_be_drawn_is_refused_before_any_work(aliquot, files, verb):
    said = aliquot(verb, files / "data.jsonl", "--plot", files / "p.jpeg")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "use .svg, .png or .pdf" in said.err


def test_without_matplotlib_tables_work_and_the_message_says_what_to_install(aliquot, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert aliquot("estimate", files / "data.jsonl").code == 0
    said = aliquot("estimate", files / "data.jsonl", "--plot", files / "p.svg")
    assert said.code == 2
    assert "pip install 'aliquot[report]'" in said.err


def test_report_is_a_verb():
    assert "report" in VERBS
