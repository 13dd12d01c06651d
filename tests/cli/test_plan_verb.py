"""`aliquot plan` as people type it: what is printed, drawn, written, and said when it fails."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import caller

from aliquot import save, select, synthetic


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of 100 items, a pilot of 25, the same with selection and judgments apart, and data nobody judged."""
    folder = tmp_path_factory.mktemp("plan")
    campaign = synthetic(items=100, systems=5, annotators=4, judgments_per_output=2, seed=31)
    save(campaign, folder / "full.jsonl")
    scores = np.full((100, 5), np.nan)
    rows = np.random.default_rng(1).choice(100, 25, replace=False)
    scores[rows] = campaign.human_score()[rows]
    save(replace(campaign, judgments=None).with_score("human", scores), folder / "pilot.jsonl")
    metrics = {name: campaign.scores[name] for name in campaign.metrics}
    save(replace(campaign, judgments=None, human=None, scores=metrics), folder / "bare.jsonl")
    chosen = select(campaign, "pps", 30, seed=2)
    chosen.save(folder / "selection.jsonl")
    assert campaign.judgments is not None
    campaign.judgments.keep(items=list(chosen.ids)).table.write_csv(folder / "judgments.csv")
    return folder


@pytest.fixture
def plan(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    return caller(capsys, "plan")


@pytest.fixture
def power(plan):
    return partial(plan, "power")


def test_numbers_alone(power):
    said = power("--difference", 1, "--sd", 25)
    assert said.code == 0
    assert "16245 judgments per system, 32490 in total" in said.words
    assert said.fits
    assert "aliquot:" in said.out.splitlines()[-1]
    assert not said.err


def test_the_papers_table(power):
    said = power("--table")
    assert said.code == 0
    assert "25 32489 8124 3612 2032 1301" in said.words
    assert "15 11697 2926 1301 733 470" in said.words
    assert said.fits
    document = power("--table", "--json").json
    assert document["judgments"][0] == [32489, 8124, 3612, 2032, 1301]
    assert "20h" not in said.out


def test_lists(power):
    assert power("--difference", "1,2", "--sd", "25,15", "--json").json["judgments"] == [[32489, 8124], [11697, 2926]]


def test_what_a_budget_shows(power):
    said = power("--budget", "2000", "--sd", 25)
    assert "detect a difference of 4.03 with 95% power" in said.words
    said = power(
        "--budget",
        "500USD",
        "--currency",
        "USD",
        "--sd",
        25,
        "--difference",
        3,
        "--hourly",
        20,
        "--seconds-per-judgment",
        40,
    )
    assert "81% power" in said.words
    assert "500 USD" in said.words


def test_pairing_metric_and_test_set(power):
    said = power("--difference", 1, "--sd-difference", 10, "--rho", 0.6, "--items", 1000, "--systems", 12, "--json")
    assert said.json["per_system"] == 455
    assert said.json["judgments"] == 12 * 455


def test_repeats_are_shown(power):
    said = power(
        "--difference",
        1,
        "--sd-difference",
        10,
        "--rater-variance",
        30,
        "--seconds-per-judgment",
        20,
        "--seconds-per-new-item",
        1000,
        "--hourly",
        20,
    )
    assert "judgments of the same output, at the same cost" in said.words
    assert "best" in said.out
    assert said.fits


def test_a_campaign(plan):
    said = plan("full.jsonl", "--budgets", "10%:50%:3", "--replays", 10, "--hourly", 20, "--pairs")
    assert said.code == 0, said.err
    assert said.fits
    assert "of 100 items with auto" in said.words
    assert "EUR" in said.out
    assert "random: segments + mean" in said.out
    assert "needs" in said.out
    assert "replayed on 100 judged items" in said.words


def test_a_pilot(plan):
    said = plan("pilot.jsonl", "--budgets", "20,50", "--seconds-per-item", 100, "--hourly", 20, "--goal", "best=0.8")
    assert said.code == 0, said.err
    assert said.fits
    assert "predicted from 25 judged items" in said.words
    assert "25 of 100 items are judged; that is enough for the best system found" in said.words
    more = plan("pilot.jsonl", "--budgets", "20,50", "--budget", "+20", "--target", "given")
    assert "25 of 100 items are judged; with a budget of +20, judge 20 more with auto (45 in all)" in more.words


def test_a_pilot_in_three_files(plan):
    said = plan("bare.jsonl", "--selection", "selection.jsonl", "--judgments", "judgments.csv", "--json")
    assert said.code == 0, said.err
    assert said.json["judged"] == 30
    assert said.json["judgments_per_output"] == 2.0
    assert said.json["repeats"]["rows"]


def test_json_is_one_document(plan):
    said = plan("pilot.jsonl", "--json")
    document = said.json
    assert {"recommendation", "curve", "pairs", "signature"} <= document.keys()
    assert [row["items"] for row in document["curve"]] == [25, 30, 35, 40, 45, 50] * 2
    assert document["recommendation"]["judged"] == 25
    assert document["recommendation"]["point"]["hours"] is None
    assert not said.err


@pytest.mark.parametrize("ending", ["json", "csv", "tsv", "parquet"])
@pytest.mark.parametrize("pairs", [False, True])
def test_written_files(plan, tmp_path, ending, pairs):
    path = tmp_path / f"plan.{ending}"
    said = plan("pilot.jsonl", "--budgets", "20%,40%", "-o", path, *["--pairs"] * pairs)
    assert said.code == 0, said.err
    assert f"wrote {path}" in said.words or "wrote" in said.out
    if ending == "json":
        assert json.loads(path.read_text())["basis"] == "pilot"
        return
    separator = "\t" if ending == "tsv" else ","
    table = pl.read_parquet(path) if ending == "parquet" else pl.read_csv(path, separator=separator)
    assert table.height == (10 * 4 if pairs else 4)
    assert "chance" in table.columns if pairs else "accuracy" in table.columns


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_pictures(plan, tmp_path, ending):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"plan.{ending}"
    said = plan("pilot.jsonl", "--plot", path, "--seconds-per-item", 60, "--hourly", 20)
    assert said.code == 0, said.err
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending]
    content = path.read_bytes()
    assert content.startswith(start)
    if ending == "svg":
        text = content.decode()
        assert all(word in text for word in ("random", "auto", "items judged", "hours (at 20 EUR each)", "recommended"))
        again = tmp_path / "again.svg"
        plan("pilot.jsonl", "--plot", again, "--seconds-per-item", 60, "--hourly", 20)
        assert again.read_bytes() == content


def test_a_picture_without_matplotlib(plan, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = plan("pilot.jsonl", "--plot", tmp_path / "plan.svg")
    assert said.code == 2
    assert "aliquot[report]" in said.err


def test_the_signature_names_what_was_asked(plan):
    said = plan("pilot.jsonl", "--budgets", "30%", "--goal", "best=0.9", "--seed", 3, "--json")
    assert "goal:best=0.9" in said.json["signature"]
    assert "seed:3" in said.json["signature"]


BAD = [
    ("give `aliquot plan power --sd`", ()),
    ("give --sd", ("power", "--difference", 1)),
    ("nothing to plan for", ("power", "--sd", 25)),
    ("--difference is 0", ("power", "--difference", 0, "--sd", 25)),
    ("--difference 'x'", ("power", "--difference", "x", "--sd", 25)),
    ("--rho is 2", ("power", "--difference", 1, "--sd", 25, "--rho", 2)),
    ("power must exceed alpha", ("power", "--difference", 1, "--sd", 25, "--power", 0.04)),
    ("--systems 'a,b'", ("--difference", 1, "--sd", 25, "--systems", "a,b")),
    ("--plot draws the curves", ("--difference", 1, "--sd", 25, "--plot", "x.svg")),
    ("--budget '5 yen'", ("power", "--budget", "5 yen", "--sd", 25)),
    ("needs --cost seconds-per-judgment", ("power", "--budget", "5h", "--sd", 25)),
    ("no human scores", ("bare.jsonl",)),
    ("unknown ending", ("pilot.jsonl", "--plot", "x.bmp")),
    ("unknown ending", ("pilot.jsonl", "-o", "x.doc")),
    ("all 100 items", ("pilot.jsonl", "--budgets", "5:500:3")),
    ("unknown goal", ("pilot.jsonl", "--goal", "beauty=1")),
    ("unknown cost 'nope'", ("pilot.jsonl", "--cost", "nope")),
    ("unknown score 'nope'", ("pilot.jsonl", "--human", "nope")),
    ("unknown system 'nope'", ("pilot.jsonl", "--exclude", "nope")),
    ("no such file", ("nope.jsonl",)),
    ("is for planning without data", ("pilot.jsonl", "--sd", 3)),
    ("at least two", ("pilot.jsonl", "--systems", "sys1")),
]


OLD = [
    (
        ("--difference", 1, "--sd", 25),
        ("power", "--difference", 1, "--sd", 25),
        ["--sd is now `aliquot plan power --sd`"],
    ),
    (("--table",), ("power", "--table"), ["--table is now `aliquot plan power --table`"]),
    (
        ("--budget", 900, "--paired", "--sd", 5, "--systems", 3, "--rho", 0.5),
        ("power", "--budget", 900, "--paired", "--sd", 5, "--systems", 3, "--rho", 0.5),
        ["--sd is now", "--paired is now", "--rho is now"],
    ),
    (
        ("pilot.jsonl", "--adaptive", "--replays", 20, "--question", "ranking"),
        ("adaptive", "pilot.jsonl", "--replays", 20, "--question", "ranking"),
        ["--adaptive is now `aliquot plan adaptive`"],
    ),
]


@pytest.mark.parametrize(("old", "new", "notes"), OLD)
def test_old_spellings_give_the_same_document_and_a_note(plan, old, new, notes):
    before, now = plan(*old, "--json"), plan(*new, "--json")
    first, second = (document | {"notes": None} for document in (before.json, now.json))  # notes name options
    assert first == second
    assert not now.err
    assert all(note in before.err for note in notes)
    assert len(before.err.splitlines()) == len(notes)


def test_everyday_help_is_short_and_names_the_other_plans(plan):
    said = plan("--help")
    assert "aliquot plan power, aliquot plan adaptive" in said.words
    assert "--replays" not in said.out
    assert "--replays" in plan("--help-all").out
    assert "--table" not in plan("--help-all").out


@pytest.mark.parametrize(("said", "arguments"), BAD, ids=[f"{at}" for at in range(len(BAD))])
def test_mistakes_are_told_in_one_line(plan, said, arguments):
    found = plan(*arguments)
    assert found.code == 2
    assert said in found.err
    assert found.err.startswith("error: ")
    assert len(found.err.strip().splitlines()) == 1
    assert not found.out
