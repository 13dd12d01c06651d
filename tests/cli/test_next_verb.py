"""`aliquot next` as people use it: batch after batch, from the file of judgments alone."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from aliquot import Allocator, Selection, load, save, synthetic
from aliquot.cli.main import run

from .conftest import Call, caller

DATA = synthetic(items=60, systems=4, seed=11)
SCORE = {
    (str(i), s): v
    for i, row in zip(DATA.ids, DATA.human_score().tolist(), strict=True)
    for s, v in zip(DATA.systems, row, strict=True)
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test runs in a folder of its own with the data in it."""
    monkeypatch.chdir(tmp_path)
    save(DATA, "data.jsonl")


@pytest.fixture
def following(capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(capsys, "next", "data.jsonl")


def judge(path: str, log: str = "judgments.csv", part: slice = slice(None)) -> pl.DataFrame:
    """Answer the cells of a file, and add the answers to the end of the log."""
    cells = read(path)[part]
    values = [SCORE[str(item), system] for item, system in cells.select("item", "system").iter_rows()]
    fresh = cells.select("item", "system").with_columns(pl.Series("value", values))
    before = [pl.read_csv(log)] if Path(log).exists() else []
    whole = pl.concat([*before, fresh])
    whole.write_csv(log)
    return whole


def read(path: str) -> pl.DataFrame:
    if path.endswith(".parquet"):
        return pl.read_parquet(path)
    if path.endswith(".jsonl"):
        return pl.read_ndjson(path)
    return pl.read_csv(path, separator="\t" if path.endswith(".tsv") else ",")


def test_a_campaign_batch_by_batch(following, capsys):
    said = following("-n", 24, "-o", "next.csv", "--selection-out", "asked.jsonl")
    assert said.code == 0, said.err
    assert said.words.startswith("go on: 4 systems may be the best")
    assert "wrote next.csv" in said.out
    assert said.fits
    assert read("next.csv").columns == ["item", "system", "probability"]
    for batch in range(1, 4):
        judge("next.csv")
        Path("next.csv").unlink()
        options = ("-j", "judgments.csv", "-n", 20, "-o", "next.csv", "--selection-out", f"asked{batch}.jsonl")
        said = following(*options)
        assert (said.code, said.err.count("note:")) == (0, 1)
        assert "data.jsonl: its own" in said.err
        assert f"{24 + 20 * (batch - 1)} cells judged, 0 still with people, 20 new" in said.words
    log = judge("next.csv")
    assert log.select("item", "system").n_unique() == len(log) == 84
    asked = Selection.load("asked3.jsonl")
    assert sum(len(names) for names in asked.systems or ()) == 84
    assert run(["estimate", "data.jsonl", "-s", "asked3.jsonl", "-j", "judgments.csv"]) == 0
    assert "judgments outside" not in capsys.readouterr().out


def test_python_and_the_command_line_give_the_same(following):
    following("-n", 24, "-o", "next.csv", "--question", "best", "--seed", 3)
    judge("next.csv")
    said = following("-j", "judgments.csv", "-n", 15, "--question", "best", "--seed", 3, "--json")
    allocator = Allocator.from_judgments("data.jsonl", "judgments.csv", question="best", seed=3)
    advice = allocator.advice()
    cells = allocator.next(15)
    assert said.json["next"] == [{"item": c.item, "system": c.system, "probability": c.probability} for c in cells]
    assert (said.json["advice"], said.json["stop"], said.json["judged"]) == (advice.text, advice.stop, 24)
    assert said.json["counts"] == allocator.counts
    assert said.json["signature"] == allocator.signature


@pytest.mark.parametrize("name", ["n.csv", "n.tsv", "n.jsonl", "n.parquet"])
def test_forms_of_the_output_all_can_be_read_back_as_asked(following, name):
    assert following("-n", 12, "-o", name, "--texts").code == 0
    table = read(name)
    assert table.columns == ["item", "system", "probability", "source", "output"]
    data = load("data.jsonl")
    assert data.outputs is not None
    row = data.ids.index(table["item"][0])
    assert (table["source"][0], table["output"][0]) == (
        data.items["source"][row],
        data.outputs[table["system"][0]][row],
    )
    said = following("-n", 12, "--asked", name, "--json").json
    given = set(table.select("item", "system").iter_rows())
    assert not given & {(cell["item"], cell["system"]) for cell in said["next"]}
    assert said["asked"] == 12


def test_the_output_goes_to_standard_output_alone(following):
    said = following("-n", 5, "-o", "-")
    assert said.out.splitlines()[0] == "item,system,probability"
    assert len(said.out.splitlines()) == 6
    assert "go on" in said.err


def test_answers_in_part_and_cells_still_out(following):
    following("-n", 20, "-o", "next.csv")  # five items of each system: nothing is drawn yet
    judge("next.csv", part=slice(0, 10))
    again = following("-j", "judgments.csv", "-n", 10, "--json").json["next"]
    assert {(c["item"], c["system"]) for c in again} == set(read("next.csv")[10:].select("item", "system").iter_rows())
    said = following("-j", "judgments.csv", "--asked", "next.csv", "-n", 14, "-o", "more.csv")
    assert "10 cells judged, 10 still with people, 14 new" in said.words
    assert not set(read("more.csv").select("item", "system").iter_rows()) & set(
        read("next.csv").select("item", "system").iter_rows()
    )


def test_another_seed_is_noticed(following):
    following("-n", 40, "-o", "next.csv")
    judge("next.csv")
    said = following("-j", "judgments.csv", "--seed", 5)
    assert said.code == 0
    assert "of 40 judged cells are not among those asked" in said.err
    assert "is the seed" in said.err


def test_systems_that_are_left_out_do_not_matter(following):
    following("-n", 24, "-o", "next.csv")
    judge("next.csv")
    said = following("-j", "judgments.csv", "--read", "exclude=sys4", "--json")
    assert said.code == 0, said.err
    assert set(said.json["counts"]) == {"sys1", "sys2", "sys3"}


def test_a_budget_ends_it(following):
    following("-n", 100, "-b", 30, "-o", "next.csv")
    assert len(read("next.csv")) == 30
    judge("next.csv")
    Path("next.csv").unlink()
    said = following("-j", "judgments.csv", "-b", 30, "-o", "next.csv")
    assert said.words.startswith("stop: the budget of 30 cells is spent")
    assert "no cell is left to ask" in said.out
    assert len(read("next.csv")) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-n", "0"), "--count 0: ask for at least 1 cell"),
        (("--policy", "bandit"), "unknown policy 'bandit'"),
        (("--policy", "auto:flor=0.2"), "did you mean 'floor'"),
        (("--policy", "successive_rejects"), "give --budget"),
        (("--question", "worst"), "unknown question 'worst'"),
        (("--question", "sys1:sys9"), "unknown system 'sys9'"),
        (("--question", "sys1:sys1"), "not a pair of two systems"),
        (("--question", "means", "--margin", "-1"), "margin"),
        (("--unit", "page"), "unknown unit 'page'"),
        (("--scale", "stars"), "unknown scale 'stars'"),
        (("--target", "beyond"), "--target is 'beyond'"),
        (("--unit", "pair", "--target", "given"), "--target is for cells"),
        (("--cost", "euros"), "unknown cost 'euros'"),
        (("--metrics", "COMET"), "unknown metric 'COMET'"),
        (("--budget", "5h"), "give cells (500)"),
        (("--alpha", "0"), "alpha is 0"),
        (("-o", "next.xlsx"), "unknown ending"),
        (("-o", "nowhere/next.csv"), "does not exist"),
        (("--asked", "data.jsonl"), "cells need a column"),
        (("--asked", "absent.csv"), "no such file"),
        (("-j", "empty.csv"), "is empty"),
        (("-j", "header.csv"), "no rows"),
        (("-j", "items.csv"), "'elsewhere' is not in the data"),
        (("-j", "systems.csv"), "unknown system 'sys9'"),
        (("-j", "twice.csv"), "item 0, system sys1"),
        (("--asked", "items.csv"), "'elsewhere' is not in the data"),
        (("-o", "judgments.csv", "-j", "judgments.csv"), "is read by this run"),
    ],
)
def test_bad_input_is_one_line_and_loses_nothing(following, options, message):
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("item,system,value\n")
    Path("items.csv").write_text("item,system,value\nelsewhere,sys1,3\n")
    Path("systems.csv").write_text("item,system,value\n0,sys9,3\n")
    Path("twice.csv").write_text("item,system,value\n0,sys1,3\n0,sys1,4\n")
    Path("judgments.csv").write_text("item,system,value\n0,sys1,3\n")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    said = following(*options)
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith("error: ")
    assert message in said.err.splitlines()[-1]
    assert said.code == (1 if "nowhere" in options[-1] else 2)
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_texts_that_are_not_there(capsys):
    pl.DataFrame({"item": [1, 1, 2, 2], "system": ["A", "B"] * 2, "m": [0.1, 0.2, 0.3, 0.4]}).write_csv("bare.csv")
    assert run(["next", "bare.csv", "--texts", "-o", "next.csv"]) == 2
    assert "no outputs" in capsys.readouterr().err
    assert not Path("next.csv").exists()


# -- pairs -----------------------------------------------------------------------------------------------------------


def choose(path: str, log: str = "choices.csv") -> None:
    """Prefer the output with the higher score, and add the choices to the end of the log."""
    rows = []
    for item, a, b in read(path).select("item", "system_a", "system_b").iter_rows():
        gap = SCORE[str(item), a] - SCORE[str(item), b]
        rows.append((item, a, b, "tie" if gap == 0 else "a" if gap > 0 else "b"))
    fresh = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "choice"], orient="row")
    before = [pl.read_csv(log)] if Path(log).exists() else []
    pl.concat([*before, fresh]).write_csv(log)


def test_pairs_batch_by_batch(following):
    said = following("--unit", "pair", "-q", "best", "-n", 20, "-o", "next.csv", "--texts")
    assert said.code == 0, said.err
    assert "0 choices, 0 still with people, 20 new" in said.words
    assert read("next.csv").columns == ["item", "system_a", "system_b", "probability", "source", "output_a", "output_b"]
    choose("next.csv")
    said = following("--unit", "pair", "-q", "best", "-j", "choices.csv", "-n", 10, "-o", "more.csv")
    assert "20 choices, 0 still with people, 10 new" in said.words
    keys = ["item", "system_a", "system_b"]
    assert not set(read("more.csv").select(keys).iter_rows()) & set(read("next.csv").select(keys).iter_rows())
    document = following(
        "--unit", "pair", "-q", "best", "-j", "choices.csv", "--asked", "more.csv", "-n", 5, "--json"
    ).json
    assert document["pending"] == 10
    assert len(document["next"]) == 5
    assert sum(each["n"] for each in document["ranking"]) == 40


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--unit", "par"], "did you mean 'pair'"),
        (["--unit", "pair", "--margin", "2"], "--margin is for cells"),
        (["--unit", "pair", "-q", "means"], "--question is 'means'"),
        (["--unit", "pair", "-j", "wrong.csv"], "unknown choice 'c'"),
    ],
)
def test_mistakes_with_pairs_are_named(following, arguments, says):
    Path("wrong.csv").write_text("item,system_a,system_b,choice\n1,sys1,sys2,c\n")
    said = following(*arguments)
    assert said.code == 2
    assert says in " ".join(said.err.split())


def test_repeats_by_one_annotator_are_averaged(following):
    following("-n", 24, "-o", "next.csv")
    cells = read("next.csv").select("item", "system").with_columns(annotator=pl.lit("ann"), value=pl.lit(-3.0))
    again = cells.head(5).with_columns(value=pl.lit(-5.0))
    pl.concat([cells, again, cells.head(3)]).write_csv("judgments.csv")
    said = following("-j", "judgments.csv", "-n", 10, "-o", "more.csv")
    assert said.code == 0, said.err
    assert "24 cells judged" in said.words
