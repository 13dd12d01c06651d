"""`aliquot compare` and `survey` from the command line: every kind, JSON, files, and one line for every mistake."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import polars as pl
import pytest

import aliquot
from aliquot.cli.main import run

TABLES = {
    "pairwise": "item,annotator,system_a,system_b,choice\n1,p,[/b],Y,a\n1,q,Y,[/b],b\n2,p,[/b],Y,tie\n3,q,Y,[/b],a\n",
    "best-worst": "item,annotator,shown,best,worst\n1,p,A;B;C,A,C\n2,p,A;B;C,B,C\n3,q,A;B;C,A,B\n",
    "ranking": "item,annotator,ranking\n1,p,A > B = C\n2,q,B > A > C\n3,q,A > C > B\n",
    "verify": "item,annotator,system_a,system_b,choice\n1,p,A,B,only a\n2,p,A,B,both\n3,p,B,A,none\n4,q,A,B,only b\n",
    "postedit": "item,annotator,job,final,output_a,output_b,choice\n1,p,j,a cat,the cat,a dog,a\n2,q,k,dogs,dogs,,a\n",
    "groups": "participant,group,measure,before,after\n"
    + "".join(f"{k},{'r' if k < 4 else 'c'},PA,{20 + k},{22 + k * (k < 4) + k % 3}\n" for k in range(8)),
    "criteria": "item,annotator,system,clear,neat,fluent\n"
    + "".join(f"{k},p,s,{k % 5},{(k * 2 + 1) % 5},{(k % 5 + k % 3) / 2}\n" for k in range(40)),
    "importance": "item,annotator,noise,silence,value\n"
    + "".join(f"{k},p,{k % 3},{k % 2},{7 - k % 3 - 2 * (k % 2) + (k % 5) / 10}\n" for k in range(30)),
}
SURVEYS = ("groups", "criteria", "importance")
NAMED = ("importance",)  # which no column tells


def verb_of(kind: str) -> str:
    return "survey" if kind in SURVEYS else "compare"


@pytest.fixture
def table(tmp_path: Path):
    def write(kind: str) -> Path:
        path = tmp_path / f"{kind}.csv"
        path.write_text(TABLES[kind])
        return path

    return write


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_in_a_terminal(kind, table, capsys):
    named = ["--kind", kind] if kind in NAMED else []
    assert run([verb_of(kind), str(table(kind)), *named]) == 0
    out = capsys.readouterr().out
    assert f"|{verb_of(kind)}:{kind}" in out
    assert max(len(line) for line in out.splitlines() if not line.startswith("aliquot:")) <= 100
    assert "Traceback" not in out


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_as_one_document_and_as_files(kind, table, tmp_path, capsys):
    path, verb = str(table(kind)), verb_of(kind)
    assert run([verb, path, "--kind", kind, "--json", "-o", str(tmp_path / "r.json")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["kind"] == kind
    assert printed == json.loads((tmp_path / "r.json").read_text())
    for ending in ("csv", "tsv", "parquet"):
        assert run([verb, path, "--kind", kind, "-o", str(tmp_path / f"r.{ending}")]) == 0
        assert f"wrote {tmp_path / 'r'}"[:30] in capsys.readouterr().out.replace("\n", "")
    assert pl.read_csv(tmp_path / "r.csv").height == pl.read_parquet(tmp_path / "r.parquet").height > 0


def test_command_line_and_library_agree(table, capsys):
    path = table("pairwise")
    assert (
        run(
            [
                "compare",
                str(path),
                "--ties",
                "davidson",
                "--interval",
                "bootstrap",
                "--draws",
                "50",
                "--seed",
                "3",
                "--prior",
                "1",
                "--level",
                "0.9",
                "--cluster",
                "none",
                "--json",
            ]
        )
        == 0
    )
    printed = json.loads(capsys.readouterr().out)
    options = {"ties": "davidson", "interval": "bootstrap", "draws": 50, "seed": 3, "prior": 1.0, "level": 0.9}
    result = aliquot.compare(path, "pairwise", cluster="none", **options)
    assert printed == json.loads(json.dumps(result.to_dict()))


@pytest.mark.parametrize("kind", SURVEYS)
def test_compare_still_takes_what_moved_to_survey(kind, table, capsys):
    options = ["--groups", "c,r"] if kind == "groups" else ["--kind", kind]
    assert run(["survey", str(table(kind)), *options, "--json"]) == 0
    expected = capsys.readouterr()
    assert run(["compare", str(table(kind)), *options, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.out == expected.out
    assert "aliquot survey" in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("verb", ["compare", "survey"])
def test_everyday_help_is_short_and_the_rest_is_one_step_away(verb, capsys):
    assert run([verb, "--help"]) == 0
    everyday = capsys.readouterr().out
    assert len(re.findall(r"^│ -", everyday, flags=re.MULTILINE)) <= 12
    assert run([verb, "--help-all"]) == 0
    assert ("--factors" in capsys.readouterr().out) == (verb == "survey")


def test_pairs_are_shown_and_written(tmp_path, capsys):
    data = tmp_path / "d.jsonl"
    aliquot.save(aliquot.synthetic(items=40, systems=5, seed=1), data)
    assert run(["compare", str(data)]) == 0
    assert "10 pairs: see them with --pairs" in capsys.readouterr().out
    assert run(["compare", str(data), "--pairs", "-o", str(tmp_path / "p.csv")]) == 0
    assert "against" in capsys.readouterr().out
    assert pl.read_csv(tmp_path / "p.csv").height == 10


def test_standard_input(monkeypatch, capsys):
    class Pipe:
        buffer = io.BytesIO(TABLES["pairwise"].encode())

    monkeypatch.setattr(sys, "stdin", Pipe())
    assert run(["compare", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["choices"] == 4


def test_judgments_with_criteria_from_a_table(tmp_path, capsys):
    rows = [
        f"{item},s{s},p,{c},{(item * 7 + s * 3 + len(c)) % 5}"
        for item in range(30)
        for s in (1, 2)
        for c in ("fluency", "adequacy", "style")
    ]
    path = tmp_path / "j.csv"
    path.write_text("item,system,annotator,criterion,value\n" + "\n".join(rows) + "\n")
    assert run(["compare", str(path), "--criterion", "fluency", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "scores"
    assert run(["survey", str(path), "--kind", "criteria", "--factors", "0", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["pairs"]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{pairwise}", "--kind", "pairwize"], "did you mean 'pairwise'"),
        (["{pairwise}", "--systems", "Q,Y"], "unknown system 'Q'"),
        (["{pairwise}", "--margin", "3"], "--margin does not apply to kind 'pairwise', which has --systems, --read"),
        (["{pairwise}", "--by", "item"], "--by does not apply"),
        (["{pairwise}", "--read", "choice"], "give role=column pairs"),
        (["{pairwise}", "--read", "choice=verdict"], "unknown column 'verdict'"),
        (["{pairwise}", "--level", "95"], "level is 95.0"),
        (["{pairwise}", "--prior", "-1"], "prior is -1.0"),
        (["{pairwise}", "--seed", "-1"], "-1 is negative"),
        (["{pairwise}", "--holm", "--adjust", "bh"], "leave one out"),
        (["{pairwise}", "--kind", "best-worst"], "needs a column 'best'"),
        (["{pairwise}", "-o", "r.docx"], "unknown ending"),
        (["{postedit}", "--outputs", "none.jsonl"], "none.jsonl: no such file"),
        (["survey", "{criteria}", "--kind", "criteria", "--factors", "9"], "allow 0 to 1"),
        (
            ["survey", "{criteria}", "--kind", "criteria", "--promax", "sps"],
            "--promax is 'sps'; did you mean 'spss'?",
        ),
        (["{pairwise}", "--promax", "spss"], "--promax does not apply to kind 'pairwise'"),
        (["survey", "{groups}", "--groups", "r,x"], "unknown group 'x'"),
        (["none.csv"], "none.csv: no such file"),
    ],
)
def test_mistakes_get_one_line(arguments, message, table, capsys):
    arguments = [str(table(a[1:-1])) if a.startswith("{") else a for a in arguments]
    assert run(arguments if arguments[0] == "survey" else ["compare", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_an_empty_file_and_a_folder(tmp_path, capsys):
    (tmp_path / "empty.csv").write_text("")
    assert run(["compare", str(tmp_path / "empty.csv")]) == 2
    assert "the file is empty" in capsys.readouterr().err
    assert run(["compare", str(tmp_path), "--kind", "pairwise"]) == 2
    assert "error: " in capsys.readouterr().err
    assert run(["compare", str(tmp_path / "empty.csv"), "-o", str(tmp_path)]) == 1
