"""`aliquot agreement` as people type it: what is printed, written, and said when it fails."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Call, caller

from aliquot import EvalSet, agreement, save, synthetic
from aliquot.annotation.agreement_result import TABLES
from aliquot.cli import main


@pytest.fixture
def aliquot(capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(capsys, "agreement")


@pytest.fixture(scope="module")
def campaign() -> EvalSet:
    return synthetic(items=40, systems=3, protocol="likert", annotators=5, judgments_per_output=3, seed=3)


@pytest.fixture(scope="module")
def folder(campaign: EvalSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agreement")
    save(campaign, folder / "data.jsonl")
    save(campaign, folder / "judgments.csv", what="judgments")
    bare = EvalSet(campaign.items, campaign.systems, scores={"metricA": campaign.scores["metricA"]})
    save(bare, folder / "bare.jsonl")
    rows = [
        (f"t{i}", who, "yes" if (i + shift) % 3 else "no")
        for i in range(30)
        for who, shift in (("ann", 0), ("bob", i % 4 == 0))
    ]
    pl.DataFrame(rows, schema=["text", "annotator", "label"], orient="row").write_csv(folder / "labels.csv")
    return folder


def test_what_is_printed(aliquot: Call, folder: Path) -> None:
    said = aliquot(folder / "data.jsonl", "--bootstrap", 100)
    assert (said.code, said.err) == (0, "")
    assert said.fits
    for title in (
        "5 annotators; 360 judgments on 120 outputs with at least two, of 40 items; ordinal",
        "agreement (95% intervals over items)",
        "by group",
        "pairs of annotators: kappa, quadratic weights",
        "annotators against the rest, best first",
        "use of judgments",
    ):
        assert title in said.out
    assert said.out.rstrip().splitlines()[-1].startswith("aliquot:")
    assert "nan" not in said.out.lower().split()


def test_the_numbers_are_the_librarys(aliquot: Call, folder: Path, campaign: EvalSet) -> None:
    document = aliquot(folder / "data.jsonl", "--json", "--bootstrap", 50, "--seed", 2).json
    assert document == json.loads(json.dumps(agreement(campaign, bootstrap=50, seed=2).to_dict()))


def test_json_is_all_there_is(aliquot: Call, folder: Path, tmp_path: Path) -> None:
    said = aliquot(
        folder / "data.jsonl", "--json", "--bootstrap", 0, "-o", tmp_path / "a.json", "--plot", tmp_path / "p.svg"
    )
    assert set(TABLES) <= said.json.keys()
    assert json.loads((tmp_path / "a.json").read_text()) == said.json
    assert (tmp_path / "p.svg").exists()


def test_a_table_of_judgments_does(aliquot: Call, folder: Path) -> None:
    direct = aliquot(folder / "data.jsonl", "--json", "--bootstrap", 0, "--by", "none").json
    assert aliquot(folder / "judgments.csv", "--json", "--bootstrap", 0).json["pairs"] == direct["pairs"]
    joined = aliquot(folder / "bare.jsonl", "-j", folder / "judgments.csv", "--json", "--bootstrap", 0).json
    assert joined["pairs"] == direct["pairs"]
    assert {row["kind"] for row in joined["coefficients"]} == {"all", "domain"}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_are_written(aliquot: Call, folder: Path, tmp_path: Path, table: str, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    said = aliquot(folder / "data.jsonl", "--bootstrap", 0, "--table", table, "-o", path)
    assert said.code == 0, said.err
    assert f"wrote {path}" in said.out.replace("\n", "")
    read = pl.read_csv(path) if ending == "csv" else pl.read_parquet(path)
    assert read.columns == agreement_columns(table, folder)


def agreement_columns(table: str, folder: Path) -> list[str]:
    import aliquot as package

    return agreement(package.load(folder / "data.jsonl"), bootstrap=0).to_frame(table).columns


def test_two_annotators_show_their_table(aliquot: Call, folder: Path) -> None:
    said = aliquot(folder / "labels.csv", "--answer", "label", "--read", "item=text", "--bootstrap", 50)
    assert (said.code, said.err) == (0, "")
    assert "judgments of ann (rows) and bob (columns)" in said.out
    assert "with these margins; equal margins: p =" in said.out
    assert "nominal" in said.out
    assert "|answer:label|" in said.out
    assert said.fits


def test_re_coding_groups_and_levels(aliquot: Call, folder: Path) -> None:
    said = aliquot(
        folder / "data.jsonl",
        "--recode",
        "two:1..3=low,4|5=high",
        "--recode",
        "three:1|2=1,3=2,4|5=3",
        "--groups",
        "one=a01|a02,rest=a03|a04|a05",
        "--max-distinct",
        2,
        "--measures",
        "alpha,raw",
        "--bootstrap",
        0,
    )
    assert said.code == 0, said.err
    for word in ("scale", "two", "three", "groups: their mean judgments", "at most 2 different"):
        assert word in said.out
    one = aliquot(folder / "data.jsonl", "--recode", "1..3=low,4|5=high", "--bootstrap", 0, "--json").json
    assert (one["labels"], one["level"]) == (["low", "high"], "nominal")
    level = aliquot(folder / "data.jsonl", "--level", "interval", "--bootstrap", 0, "--json").json
    assert level["level"] == "interval"


def test_many_annotators_are_summed_up(aliquot: Call, tmp_path: Path) -> None:
    data = synthetic(items=60, systems=3, protocol="da", annotators=25, judgments_per_output=12, seed=1)
    save(data, tmp_path / "crowd.jsonl")
    said = aliquot(tmp_path / "crowd.jsonl", "--bootstrap", 0)
    assert said.fits
    pairs = agreement(data, bootstrap=0).pairs.height
    assert f"30 of {pairs} rows" in said.out
    assert "pairs of annotators, those that agree best first (by pearson)" in said.out
    assert "set --trust" in said.out
    full = aliquot(tmp_path / "crowd.jsonl", "--bootstrap", 0, "--full", "--no-trust")
    assert len(full.out.splitlines()) > pairs


def test_an_outlier_is_starred(aliquot: Call, tmp_path: Path) -> None:
    rows = ["item,system,annotator,value"]
    answers = {"A": "12312312", "B": "12312313", "C": "12312212", "D": "31123122"}
    rows += [f"{at},s,{who},{said}" for who, line in answers.items() for at, said in enumerate(line)]
    (tmp_path / "worked.csv").write_text("\n".join(rows) + "\n")
    said = aliquot(tmp_path / "worked.csv", "--level", "nominal", "--bootstrap", 0)
    assert "0.005*" in said.out
    assert "* trust of at most 0.5" in said.out
    released = aliquot(tmp_path / "worked.csv", "--level", "nominal", "--bootstrap", 0, "--trust-variant", "released")
    assert "0.873" in released.out


def test_spans_of_an_mqm_file(aliquot: Call, tmp_path: Path) -> None:
    rows = [
        "system\tdoc\tseg_id\trater\tsource\ttarget\tcategory\tseverity",
        "A\td\t1\tr1\tein Satz\ta <v>bad</v> sentence\tFluency/Grammar\tMinor",
        "A\td\t1\tr2\tein Satz\ta <v>bad sen</v>tence\tFluency/Grammar\tMajor",
        "A\td\t2\tr1\tnoch einer\tanother one\tno-error\tno-error",
        "A\td\t2\tr2\tnoch einer\tanother one\tno-error\tno-error",
    ]
    (tmp_path / "errors.tsv").write_text("\n".join(rows) + "\n")
    document = aliquot(tmp_path / "errors.tsv", "--json", "--bootstrap", 0).json
    assert document["spans"][0] == {
        "a": "all",
        "b": "all",
        "outputs": 2,
        "f1": pytest.approx(0.6),
        "f1_severity": 0.0,
        "severity_match": 0.0,
    }
    said = aliquot(tmp_path / "errors.tsv")
    assert "marked characters" in said.out
    assert "F1 of the characters marked" in said.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--criterion", "flow"], "unknown criterion 'flow'"),
        (["--by", "genre"], "unknown item or judgment column 'genre'"),
        (["--annotators", "nobody"], "unknown annotator 'nobody'"),
        (["--groups", "experts"], "unknown item or judgment column 'experts'"),
        (["--groups", "experts="], "write e.g. experts=a1|a2"),
        (["--level", "metric"], "unknown level 'metric'"),
        (["--measures", "alfa"], "did you mean 'alpha'?"),
        (["--recode", "1|2=low"], "in no group"),
        (["--scale", "1"], "--scale '1': write LOW:HIGH"),
        (["--scale", "1:4"], "lies outside the scale 1 to 4"),
        (["--table", "pair"], "--table is 'pair'; did you mean 'pairs'?"),
        (["--trust-variant", "mine"], "--trust-variant is 'mine'"),
        (["--bootstrap", "-1"], "--bootstrap is -1"),
        (["--confidence", "95"], "--confidence is 95"),
        (["--plot", "map.jpeg"], "unknown ending of a picture"),
        (["--answer", "verdict"], "unknown judgment column 'verdict'"),
        (["--pair-measure", "alpha"], "--pair-measure is 'alpha'"),
        (["-o", "out.xyz"], "unknown ending"),
        (["--seed", "-1"], "negative"),
    ],
)
def test_mistakes_are_told_in_one_line(aliquot: Call, folder: Path, options: list[str], message: str) -> None:
    said = aliquot(folder / "data.jsonl", *options, *(() if "--bootstrap" in options else ("--bootstrap", 0)))
    assert said.code == 2
    assert said.err.startswith("error: ")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_data_without_judgments(aliquot: Call, folder: Path) -> None:
    said = aliquot(folder / "bare.jsonl")
    assert said.code == 2
    assert "there are no judgments" in said.err
    labels = aliquot(folder / "labels.csv", "--read", "item=text")
    assert labels.code == 2
    assert "--answer COLUMN" in labels.err


def test_one_annotator_and_no_overlap(aliquot: Call, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("item,system,annotator,value\n0,A,x,1\n1,A,x,2\n")
    said = aliquot(tmp_path / "one.csv")
    assert said.code == 0
    assert "one annotator (x): agreement is undefined" in said.out
    (tmp_path / "apart.csv").write_text("item,system,annotator,value\n0,A,x,1\n1,A,y,2\n")
    assert "no output was judged by two annotators" in aliquot(tmp_path / "apart.csv").out


def test_choices_between_pairs_of_systems(aliquot: Call, tmp_path: Path) -> None:
    """Different pairs on one item are different questions."""
    rows = [(item, who, "X", other, "a") for item in range(3) for who in "pq" for other in "YZ"]
    path = tmp_path / "pairs.csv"
    pl.DataFrame(rows, schema=["item", "annotator", "system_a", "system_b", "choice"], orient="row").write_csv(path)
    found = json.loads(aliquot(path, "--answer", "choice", "--json").out)
    assert (found["coefficients"][0]["outputs"], found["repeats"]) == (6, [])


def test_several_tables_of_judgments_are_one(tmp_path, capsys):
    data = synthetic(items=30, systems=2, seed=1, judgments_per_output=2, annotators=3)
    assert data.judgments is not None
    table = data.judgments.table
    table.head(70).write_csv(tmp_path / "a.csv")
    table.tail(50).write_csv(tmp_path / "b.csv")
    save(data, tmp_path / "all.csv", what="judgments")
    assert main.run(["agreement", str(tmp_path / "a.csv"), "-j", str(tmp_path / "b.csv"), "--json"]) == 0
    several = json.loads(capsys.readouterr().out)
    assert main.run(["agreement", str(tmp_path / "all.csv"), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert several["coefficients"] == whole["coefficients"]
