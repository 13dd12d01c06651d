"""`aliquot metrics` from the command line: overview, parts, files, pictures, and defined outcomes for poor data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.cli.main import run
from aliquot.metric_eval.metric_report import PARTS, TABLES

QUICK = ["--trials", "200", "--permutations", "49"]


@pytest.fixture(scope="module")
def campaign() -> aliquot.EvalSet:
    data = aliquot.synthetic(items=60, systems=5, judgments_per_output=2, seed=1)
    odd = np.where(np.arange(60)[:, None] % 7 == 0, np.nan, data.scores["metricC"])
    return data.with_score("[/b] a very long name of a metric, with [brackets]", odd)


@pytest.fixture(scope="module")
def path(campaign, tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("metrics") / "campaign.jsonl"
    aliquot.save(campaign, file)
    return str(file)


def narrow(text: str) -> bool:
    return all(len(line) <= 100 for line in text.splitlines() if not line.startswith("aliquot:"))


def test_the_overview(path, capsys):
    assert run(["metrics", path, *QUICK]) == 0
    out = capsys.readouterr().out
    for words in (
        "Optimal predictor",
        "Human",
        "observed",
        "worth",
        "does the metric move with people",
        "perfect annotator",
        "metrics to combine",
        f"aliquot:{aliquot.__version__}|metrics|",
        "note: ",
        "--parts",
        "[/b] a very long",
    ):
        assert words in out
    assert narrow(out)
    metrics = [line.split()[0] for line in out.splitlines() if line.startswith("metric") and line[6:7] in "ABC"]
    assert len(metrics) >= 6


@pytest.mark.parametrize("part", PARTS)
def test_every_part_in_full(part, path, capsys):
    assert run(["metrics", path, "--parts", part, *QUICK]) == 0
    out = capsys.readouterr().out
    assert f"|parts:{part}|" in out
    assert narrow(out)
    assert len(out.splitlines()) > 5


def test_parts_stand_alone_and_say_why_they_cannot_be_computed(tmp_path, capsys):
    one_rater = saved(aliquot.synthetic(items=30, systems=3, annotators=1, seed=2), tmp_path)
    assert run(["metrics", one_rater, "--parts", "annotators,gap,by_system", *QUICK]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "gap between metric and people" in words
    assert "correlations over the outputs of each system" in words
    assert "note: data, 'human': all judgments are by one annotator" in words
    one_system = saved(aliquot.synthetic(items=30, systems=3, seed=2).keep(systems=["sys1"]), tmp_path)
    assert run(["metrics", one_system, "--parts", "squared_error,convergence,value", *QUICK]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "note: no squared_error: data: people judged one system only" in words
    assert "note: no convergence: data: people judged one system only" in words
    assert "as control variate" in words
    assert "one system only" in complaint([one_system, "--parts", "squared_error,convergence"], capsys)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_every_row_can_be_attributed_at_every_width(width, campaign, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    metric = "a metric of a name that goes on and on, to be told from others"
    long = {"metricA": f"{metric} 1", "metricB": f"{metric} 2"}
    scores = {long.get(name, name): values for name, values in campaign.scores.items()}
    data = replace(campaign, scores=scores).rename(systems={"sys1": f"{metric} s1", "sys2": f"{metric} s2"})
    for parts in ([], ["--parts", ",".join(PARTS[:6])], ["--parts", ",".join(PARTS[6:])]):
        assert run(["metrics", saved(data, tmp_path), *parts, *QUICK]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert all(len(line) <= width for line in lines if not line.startswith("aliquot:"))
        rows = [line.split("  ")[0].split(" 0")[0] for line in lines if line.startswith("a met") and "  " in line]
        assert len({row for row in rows if "1" in row[-3:]}) >= 1
        assert len({row for row in rows if "2" in row[-3:]}) >= 1


def test_rows_are_sorted_by_observed_error(path, capsys):
    assert run(["metrics", path, "--parts", "decomposition", *QUICK]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("metric") and line[6] in "ABC"]
    observed = [float(line.split()[1]) for line in lines]
    assert observed == sorted(observed)


def test_one_document_and_nothing_else(path, capsys):
    assert run(["metrics", path, "--json", *QUICK, "--seed", "3", "--level", "0.9", "--paired", "--common"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert {"metric", "observed", "noise", "bias", "variance", "error"} <= document["decomposition"][0].keys()
    loaded = aliquot.load(path)
    report = aliquot.metrics(loaded, trials=200, permutations=49, seed=3, level=0.9, paired=True, common=True)
    of_library = json.loads(json.dumps(report.to_dict()))
    of_library["notes"] = [note.replace("`unit=item`", "--unit item") for note in of_library["notes"]]
    assert document == of_library


@pytest.mark.parametrize("ending", ["json", "csv", "tsv", "parquet", "tex", "md", "csv.gz"])
def test_files_by_their_ending(ending, path, tmp_path, capsys):
    out = tmp_path / f"result.{ending}"
    arguments = ["--parts", "correlations,tests", "--table", "clusters"] if ending == "csv" else []
    assert run(["metrics", path, "-o", str(out), *QUICK, *arguments]) == 0
    assert "wrote" in capsys.readouterr().out
    if ending == "json":
        assert set(TABLES) <= json.loads(out.read_text()).keys()
    elif ending == "csv":
        assert pl.read_csv(out)["cluster"].min() == 1
    elif ending == "parquet":
        assert pl.read_parquet(out)["metric"][0] == "Optimal predictor"
    elif ending == "tex":
        assert out.read_text().startswith("\\begin{tabular}{lllrrr")
        assert "{[}/b{]} a very long name" in out.read_text()  # as LaTeX prints it
    elif ending == "md":
        assert out.read_text().startswith("| human | metric |")


def test_a_picture(path, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "worth.svg"
    assert run(["metrics", path, "--parts", "breakeven", "--plot", str(out), *QUICK]) == 0
    assert "judgments per system" in out.read_text()
    assert "wrote" in capsys.readouterr().out


def test_several_campaigns_and_criteria(path, campaign, tmp_path, capsys):
    other = tmp_path / "other.jsonl"
    aliquot.save(aliquot.synthetic(items=40, systems=3, seed=5), other)
    assert run(["metrics", path, str(other), "--json", "--parts", "decomposition", *QUICK]) == 0
    rows = {row["metric"]: row for row in json.loads(capsys.readouterr().out)["decomposition"]}
    assert rows["metricA"]["pairs"] == 13
    two = tmp_path / "two.jsonl"
    aliquot.save(campaign.with_score("human_style", campaign.scores["metricA"]), two)
    assert run(["metrics", str(two), "--human", "human,human_style", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "against 'human'" in out
    assert "against 'human_style'" in out
    assert narrow(out)


def test_surface_metrics_in_one_command(path, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "cache"))
    arguments = ["--compute", "bleu:tokenize=13a|char,chrf:word_order=2", "--parts", "correlations"]
    assert run(["metrics", path, *arguments, "--no-cache"]) == 0
    out = capsys.readouterr().out
    assert not (tmp_path / "cache").exists()
    for words in ("bleu:tokenize=13a", "bleu:tokenize=char", "chrf:word_order=2", "tok:13a", "tok:char", "nw:2"):
        assert words in out
    assert run(["metrics", path, *arguments]) == 0
    capsys.readouterr()
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 15
    assert run(["metrics", path, "--compute", "ter", "--metrics", "ter,metricA", "--parts", "value"]) == 0
    assert "'ter' counts errors and is flipped" in " ".join(capsys.readouterr().out.split())


# -- poor data ---------------------------------------------------------------------------------------------------------


def saved(data: aliquot.EvalSet, folder: Path) -> str:
    file = folder / "data.jsonl"
    aliquot.save(data, file)
    return str(file)


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["metrics", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_no_human_scores(tmp_path, capsys):
    scores = tmp_path / "scores.csv"
    scores.write_text("item,system,metric,value\n1,A,BLEU,1\n1,B,BLEU,2\n2,A,BLEU,3\n2,B,BLEU,3\n")
    assert "no score is marked as human; name it in --human" in complaint([str(scores)], capsys)
    assert "unknown score 'human'" in complaint([str(scores), "--human", "human"], capsys)


def test_no_metrics(tmp_path, capsys):
    data = saved(aliquot.synthetic(items=10, systems=3, metrics={}, texts=False), tmp_path)
    assert "there is no metric to compare with people" in complaint([data], capsys)
    assert "there are no outputs to score" in complaint([data, "--compute", "bleu"], capsys)


def test_one_system_two_systems_identical_systems(tmp_path, capsys):
    data = aliquot.synthetic(items=30, systems=3, seed=2)
    one = saved(data.keep(systems=["sys1"]), tmp_path)
    assert run(["metrics", one, *QUICK]) == 0
    assert "one system only" in capsys.readouterr().out
    assert "one system only" in complaint([one, "--parts", "breakeven"], capsys)
    assert "no break-even to draw" in complaint([one, *QUICK, "--plot", str(tmp_path / "p.svg")], capsys)
    two = saved(data.keep(systems=["sys1", "sys3"]), tmp_path)
    assert run(["metrics", two, *QUICK]) == 0
    assert "single pair" in capsys.readouterr().out
    human = np.repeat(data.scores["human"][:, :1], 3, axis=1)
    same = saved(data.with_score("human", human).with_score("copy", human), tmp_path)
    assert run(["metrics", same, *QUICK, "--json", "--parts", "decomposition"]) == 0
    rows = {row["metric"]: row for row in json.loads(capsys.readouterr().out)["decomposition"]}
    assert rows["Optimal predictor"]["observed"] == rows["Human"]["observed"] == 0.5
    assert rows["copy"]["bias"] == 0


def test_constant_metrics(tmp_path, capsys):
    data = aliquot.synthetic(items=30, systems=3, seed=2).with_score("flat", np.ones((30, 3)))
    file = saved(data, tmp_path)
    assert run(["metrics", file, *QUICK]) == 0
    assert "'flat' is constant and is left out" in " ".join(capsys.readouterr().out.split())
    assert run(["metrics", file, "--metrics", "flat,metricA", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "every pair is a tie" in " ".join(out.split())
    assert any(line.startswith("flat") and " - " in line for line in out.splitlines())


def test_a_single_annotator(tmp_path, capsys):
    file = saved(aliquot.synthetic(items=30, systems=3, annotators=1, seed=2), tmp_path)
    assert "all judgments are by one annotator" in complaint([file, "--parts", "annotators"], capsys)
    assert run(["metrics", file, *QUICK]) == 0
    assert "there is no efficiency ratio" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "metrica"], "unknown metric 'metrica'; did you mean 'metricA'"),
        (["--parts", "correlation"], "unknown part 'correlation'; did you mean 'correlations'"),
        (["--table", "corr", "-o", "x.csv"], "unknown table 'corr'"),
        (["--table", "tests"], "--table tests says what -o writes"),
        (["--table", "clusters", "-o", "x.csv", "--parts", "value"], "add tests to --parts"),
        (["--table", "value", "-o", "x.csv", "--parts", "tests"], "add value to --parts"),
        (["--table", "computed", "-o", "x.csv"], "give --compute"),
        (["--tests", "pearson"], "unknown test 'pearson'"),
        (["--swap", "nothing"], "'--swap': 'nothing' is not one of 'both'"),
        (["--trials", "0"], "--trials is 0; give a number of at least 1"),
        (["--alpha", "0.9"], "--alpha is 0.9"),
        (["--human", "humn"], "unknown score 'humn'; did you mean 'human'"),
        (["--compute", "bleurt"], "unknown surface metric 'bleurt'; did you mean 'bleu'"),
        (["-o", "x.docx"], "x.docx: unknown ending"),
        (["--plot", "x.docx"], "x.docx: unknown ending"),
        (["--plot", "x.svg", "--parts", "value"], "add breakeven to --parts"),
        (["--exclude", "sys9"], "unknown system 'sys9'"),
        (["--seed", "-1"], "-1 is negative"),
    ],
)
def test_one_line_for_every_mistake(arguments, message, path, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in complaint([path, *arguments], capsys)
    assert list(tmp_path.iterdir()) == []


def test_names_of_scores_may_hold_commas(tmp_path, capsys):
    data = aliquot.synthetic(items=40, systems=4, seed=1)
    renamed = {
        "exact_match,digits": data.scores["metricA"],
        "metricB": data.scores["metricB"],
        "a,b": data.score("human"),
    }
    aliquot.save(replace(data, scores=renamed, human="a,b", judgments=None), tmp_path / "d.jsonl")
    names = ["--human", "a,b", "--metrics", "exact_match,digits,metricB"]
    assert run(["metrics", str(tmp_path / "d.jsonl"), *names, "--parts", "value", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["metrics"] == ["exact_match,digits", "metricB"]
    assert document["humans"] == ["a,b"]
    assert run(["estimate", str(tmp_path / "d.jsonl"), "--human", "a,b", "--metrics", "exact_match,digits"]) == 0
