"""The verbs as people type them: what they print, what they write, and what they do not import."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from aliquot import EvalSet, Selection, __version__, load, save, synthetic
from aliquot.cli.main import VERBS, run

WIDTH = 100


@pytest.fixture(scope="module")
def campaign():
    return synthetic(items=40, systems=4, annotators=4, judgments_per_output=2, seed=11)


@pytest.fixture
def path(campaign, tmp_path):
    save(campaign, tmp_path / "data.jsonl")
    return str(tmp_path / "data.jsonl")


@pytest.fixture
def aliquot(capsys):
    """Run a command that succeeds, and return what it prints."""

    def call(*arguments: object) -> str:
        code = run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert code == 0, said.err
        assert said.err == ""
        return str(said.out)

    return call


def aliquot_json(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    assert text.startswith("{")
    assert text.endswith("}\n")
    return document


def fits(text: str, width: int = WIDTH) -> bool:
    """Lines to be copied (commands, signatures) are never broken; all others keep to the width."""
    return all(len(line) <= width for line in text.splitlines() if not line.startswith(("$ ", "aliquot:", "next: ")))


# -- the frame -----------------------------------------------------------------------------------------------------


def test_version(aliquot):
    assert aliquot("--version") == f"aliquot {__version__}\n"


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_shows_every_verb_that_works(aliquot, flag):
    shown = aliquot(flag)
    assert all(verb in shown for verb in VERBS)
    assert VERBS.keys() >= {"inspect", "convert", "demo"}
    assert "Example" in shown


def test_without_a_verb_there_is_help(capsys):
    assert run([]) in (0, 2)
    said = capsys.readouterr()
    assert "inspect" in said.out
    assert said.err == ""  # the help says it all; no "error:" without a message after it


@pytest.mark.parametrize("verb", list(VERBS))
def test_help_of_each_verb(aliquot, verb):
    shown = aliquot(verb, "--help")
    assert f"Example: aliquot {verb}" in " ".join(shown.split())


@pytest.mark.parametrize("verb", ["inspect", "convert"])
@pytest.mark.parametrize("option", ["--human", "--systems", "--json", "--read"])
def test_common_options(aliquot, verb, option):
    assert option in aliquot(verb, "--help-all")


def python(code: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=300)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["inspct"]])
def test_help_imports_no_numeric_library(arguments):
    code = (
        "import sys; from aliquot.cli.main import run; run(sys.argv[1:]);"
        "print([m for m in ('numpy', 'polars', 'scipy', 'msgspec', 'sklearn') if m in sys.modules], file=sys.stderr)"
    )
    done = python(code, *arguments)
    assert done.returncode == 0
    assert done.stderr.decode().splitlines()[-1] == "[]"


def test_importing_the_package_costs_nothing():
    done = python("import sys, aliquot; print('numpy' in sys.modules, 'polars' in sys.modules)")
    assert done.stdout.split() == [b"False", b"False"]


def test_the_installed_command_reads_standard_input_and_exits_with_the_code(path):
    command = [str(Path(sys.executable).parent / "aliquot")]
    piped = subprocess.run(
        [*command, "inspect", "-", "--json"],
        input=Path(path).read_bytes(),
        capture_output=True,
        check=True,
        timeout=300,
    )
    assert json.loads(piped.stdout)["items"] == 40
    wrong = subprocess.run([*command, "inspect", "nothing.jsonl"], capture_output=True, check=False, timeout=300)
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    assert wrong.stderr.startswith(b"error: nothing.jsonl: no such file")


def test_a_reader_that_goes_away_is_no_error(path):
    """`aliquot inspect data.jsonl | head -1`"""
    reading, writing = os.pipe()
    os.close(reading)
    command = [str(Path(sys.executable).parent / "aliquot"), "inspect", path]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=300)
    os.close(writing)
    assert done.stderr == b""


# -- inspect -------------------------------------------------------------------------------------------------------


def test_inspect_prints_what_is_there(aliquot, path, campaign):
    shown = aliquot("inspect", path)
    assert "40 items x 4 systems" in shown
    for word in ("sys1, sys2, sys3, sys4", "metricA", "metricC", "human", "160 outputs", "4 annotators", "news"):
        assert word in shown
    for step in ("select", "estimate", "simulate", "plan", "metrics", "agreement"):
        assert step in shown
    assert f"data:{campaign.fingerprint}" in shown
    assert fits(shown)


def test_inspect_json(aliquot, path, campaign):
    document = aliquot_json(aliquot("inspect", path, "--json"))
    assert document["items"] == 40
    assert document["systems"] == ["sys1", "sys2", "sys3", "sys4"]
    assert document["documents"] == campaign.items["document"].n_unique()
    assert sum(document["domains"].values()) == 40
    assert set(document["scores"]) == {"human", "metricA", "metricB", "metricC"}
    metric = document["scores"]["metricA"]
    assert metric["coverage"] == 1.0
    assert metric["min"] == campaign.scores["metricA"].min()
    assert metric["max"] == campaign.scores["metricA"].max()
    assert metric["item_pearson"] == pytest.approx(0.6)
    means = [campaign.scores[name].mean(axis=0) for name in ("metricA", "human")]
    assert metric["system_pearson"] == pytest.approx(np.corrcoef(*means)[0, 1])
    assert document["scores"]["human"]["item_pearson"] is None
    assert document["judgments"]["count"] == 320
    assert document["judgments"]["annotators"] == 4
    assert document["signature"] == f"aliquot:{__version__}|inspect|human:human|data:{campaign.fingerprint}"


def test_inspect_choices(aliquot, path, campaign):
    document = aliquot_json(
        aliquot(
            "inspect",
            path,
            "--json",
            "--human",
            "metricA",
            "--systems",
            "sys3, sys1",
            "--read",
            "lower-is-better=metricB",
        )
    )
    assert document["human"] == "metricA"
    assert document["systems"] == ["sys1", "sys3"]
    assert document["scores"]["metricB"]["flipped"] is True
    assert document["scores"]["metricB"]["max"] == -campaign.scores["metricB"][:, [0, 2]].min()
    assert document["judgments"]["count"] == 160
    left = aliquot_json(aliquot("inspect", path, "--json", "--read", "exclude=sys1|sys4"))
    assert left["systems"] == ["sys2", "sys3"]


def test_inspect_standard_input(aliquot, path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(path).read_bytes())))
    assert aliquot_json(aliquot("inspect", "-", "--json"))["items"] == 40


@pytest.mark.parametrize("name", ["o.json", "o.csv", "o.tsv", "o.parquet"])
def test_inspect_writes_its_result(aliquot, path, tmp_path, name):
    shown = aliquot("inspect", path, "-o", tmp_path / name)
    assert "40 items" in shown
    if name == "o.json":
        assert json.loads((tmp_path / name).read_text()) == json.loads(aliquot("inspect", path, "--json"))
        return
    if name == "o.parquet":
        table = pl.read_parquet(tmp_path / name)
    else:
        table = pl.read_csv(tmp_path / name, separator="\t" if name == "o.tsv" else ",")
    assert table["name"].to_list() == ["human", "metricA", "metricB", "metricC"]
    assert table["coverage"].to_list() == [1.0] * 4


def test_inspect_prints_tables_that_fit_whatever_the_names(aliquot, tmp_path):
    systems = tuple(f"a-rather-long-organisation/with-a-long-model-name-{number}-instruct" for number in range(12))
    scores = {f"a-metric-with-a-name-that-goes-on-and-on-for-ever-{'x' * n}": np.ones((3, 12)) * 1e9 for n in range(3)}
    texts = pl.DataFrame({"id": range(3), "domain": ["ニュース" * 20, "b", None], "document": ["d", "d", None]})
    save(EvalSet(texts, systems, scores), tmp_path / "long.jsonl")
    shown = aliquot("inspect", tmp_path / "long.jsonl")
    table, _, command = shown.rpartition("\nnext: ")
    assert fits(table)  # the command stays one line, to be pasted
    assert command.startswith("aliquot select ")
    flat = "".join(shown.split())
    assert all(system in flat for system in systems)


def test_inspect_of_almost_nothing(aliquot, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"i": 0, "tgt": {"A": "x"}}\n')
    document = aliquot_json(aliquot("inspect", tmp_path / "x.jsonl", "--json"))
    assert document["scores"] == {}
    assert document["judgments"] == {}
    assert document["documents"] == 0
    assert "1 items x 1 systems" in aliquot("inspect", tmp_path / "x.jsonl")


def test_inspect_names_what_is_missing(aliquot, tmp_path, campaign):
    human = campaign.scores["human"].copy()
    human[:10] = np.nan
    human[:, 3] = np.nan
    save(campaign.with_score("human", human), tmp_path / "gaps.jsonl")
    shown = aliquot("inspect", tmp_path / "gaps.jsonl")
    assert "10 items have no 'human'" in shown
    assert "systems without any 'human': sys4" in shown
    assert "try --read exclude=sys4" in " ".join(shown.split())


# -- convert -------------------------------------------------------------------------------------------------------

ENDINGS = ("jsonl", "jsonl.gz", "json", "ndjson", "parquet")


@pytest.mark.parametrize("first", ENDINGS)
@pytest.mark.parametrize("second", ENDINGS)
def test_convert_between_formats_that_keep_everything(aliquot, tmp_path, campaign, first, second):
    save(campaign, tmp_path / f"a.{first}")
    shown = aliquot("convert", tmp_path / f"a.{first}", tmp_path / f"b.{second}")
    assert shown.startswith(f"wrote {tmp_path}/b.{second}")
    assert load(tmp_path / f"b.{second}") == campaign


@pytest.mark.parametrize("name", ["b.csv", "b.tsv", "b.csv.gz"])
def test_convert_to_tables(aliquot, tmp_path, path, campaign, name):
    aliquot("convert", path, tmp_path / name)
    scores = load(tmp_path / name)
    assert all(np.array_equal(scores.scores[key], campaign.scores[key]) for key in campaign.scores)
    aliquot("convert", path, tmp_path / name, "--what", "judgments")
    assert load(tmp_path / name).judgments == campaign.judgments


def test_convert_to_a_wmt_folder_and_back(aliquot, tmp_path, path, campaign):
    aliquot("convert", path, tmp_path / "wmt", "--read", "pair=xx-yy")
    assert (tmp_path / "wmt" / "sources" / "xx-yy.txt").read_text().count("\n") == 40
    aliquot("convert", tmp_path / "wmt", tmp_path / "back.jsonl")
    back = load(tmp_path / "back.jsonl")
    assert back.human == "human"
    assert np.array_equal(back.scores["metricA"], campaign.scores["metricA"])
    assert back.outputs is not None
    assert campaign.outputs is not None
    assert back.outputs.equals(campaign.outputs)


def test_convert_all_pairs_of_a_wmt_folder(aliquot, tmp_path, campaign):
    for pair in ("xx-yy", "xx-zz"):
        save(campaign, tmp_path / "wmt", pair=pair)
    (tmp_path / "out").mkdir()
    document = aliquot_json(aliquot("convert", tmp_path / "wmt", tmp_path / "out", "--json"))
    names = ["wmt-xx-yy.jsonl.gz", "wmt-xx-zz.jsonl.gz"]
    assert [Path(written).name for written in document["written"]] == names
    assert load(tmp_path / "out" / names[0]).n_items == 40
    aliquot("convert", tmp_path / "wmt", tmp_path / "out", "--read", "exclude=sys1,lower-is-better=metricB")
    left = load(tmp_path / "out" / names[1])
    assert left.systems == ("sys2", "sys3", "sys4")
    assert left.flipped == {"metricB"}


def test_convert_a_table_with_all_its_options(aliquot, tmp_path):
    (tmp_path / "t.csv").write_text("nr,A,B\n1,0.5,0.6\n2,0.7,\n")
    aliquot(
        "convert",
        tmp_path / "t.csv",
        tmp_path / "o.jsonl",
        "--read",
        "item=nr,wide=systems,score-name=TER,lower-is-better=TER",
        "--human",
        "TER",
    )
    data = load(tmp_path / "o.jsonl")
    assert np.array_equal(data.scores["TER"], [[-0.5, -0.6], [-0.7, np.nan]], equal_nan=True)
    assert data.flipped == {"TER"}
    assert data.human == "TER"


def test_old_spellings_work_and_a_note_names_the_new_ones(aliquot, tmp_path, capsys):
    (tmp_path / "t.csv").write_text("nr,A,B\n1,0.5,0.6\n2,0.7,\n")
    assert (
        run(
            [
                "convert",
                str(tmp_path / "t.csv"),
                str(tmp_path / "old.jsonl"),
                "--columns",
                "item=nr",
                "--wide",
                "systems",
            ]
        )
        == 0
    )
    notes = capsys.readouterr().err
    assert "note: --columns is now --read\n" in notes
    assert "note: --wide is now --read wide=WHAT\n" in notes
    aliquot("convert", tmp_path / "t.csv", tmp_path / "new.jsonl", "--read", "item=nr,wide=systems")
    assert (tmp_path / "old.jsonl").read_bytes() == (tmp_path / "new.jsonl").read_bytes()


def test_convert_mqm_with_weights(aliquot, tmp_path):
    header = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"
    (tmp_path / "m.tsv").write_text(header + "A\td\t1\t1\tr\ts\tt\tAccuracy/Addition\tMajor\n")
    aliquot("convert", tmp_path / "m.tsv", tmp_path / "o.jsonl", "--read", "mqm-weights=major=10")
    assert load(tmp_path / "o.jsonl").scores["human"].item() == -10.0


def test_convert_json(aliquot, path, tmp_path):
    document = aliquot_json(aliquot("convert", path, tmp_path / "o.parquet", "--json"))
    assert document == {"written": [str(tmp_path / "o.parquet")]}


# -- synth ---------------------------------------------------------------------------------------------------------


def test_synth_writes_what_the_library_makes(aliquot, tmp_path):
    aliquot(
        "demo",
        "synth",
        "-o",
        tmp_path / "s.jsonl.gz",
        "--items",
        30,
        "--systems",
        3,
        "--protocol",
        "da",
        "--metrics",
        "COMET=0.7",
        "--document-length",
        3,
        "--domains",
        2,
        "--annotators",
        3,
        "--judgments-per-output",
        2,
        "--seed",
        8,
    )
    expected = synthetic(
        items=30,
        systems=3,
        protocol="da",
        metrics={"COMET": 0.7},
        document_length=3,
        domains=2,
        annotators=3,
        judgments_per_output=2,
        seed=8,
    )
    assert load(tmp_path / "s.jsonl.gz") == expected


def test_synth_seeds_and_options(aliquot, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        shown = aliquot("demo", "synth", "-o", tmp_path / f"{name}.jsonl", "--items", 20, "--no-texts", "--seed", seed)
        assert "simulated" in shown
    a, b, c = ((tmp_path / f"{name}.jsonl").read_bytes() for name in "abc")
    assert a == b != c
    assert load(tmp_path / "a.jsonl").outputs is None


def test_synth_json(aliquot, tmp_path):
    written = tmp_path / "a.parquet"
    document = aliquot_json(aliquot("demo", "synth", "-o", written, "--items", 20, "--systems", 2, "--json"))
    assert document == {"written": [str(written)], "items": 20, "systems": ["sys1", "sys2"]}


@pytest.mark.parametrize("arguments", [["synth", "--items", "5", "-o", "-"], ["examples"]])
def test_former_names_of_commands_work(capsys, arguments):
    assert run(arguments) == 0
    former = capsys.readouterr()
    assert run(["demo", *arguments]) == 0
    assert former.out == capsys.readouterr().out
    assert former.err.endswith(f"note: aliquot {arguments[0]} is now aliquot demo {arguments[0]}\n")


# -- demo ----------------------------------------------------------------------------------------------------------


class Demo(NamedTuple):
    """Where it ran, and what it printed."""

    place: Path
    shown: str


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Demo:
    place, printed = tmp_path_factory.mktemp("demo"), io.StringIO()
    with contextlib.chdir(place), contextlib.redirect_stdout(printed):
        assert run(["demo", "--seed", "3"]) == 0
    return Demo(place, printed.getvalue())


def test_demo_writes_files_that_can_be_used(demo):
    folder = demo.place / "aliquot-demo"
    assert sorted(entry.name for entry in demo.place.iterdir()) == ["aliquot-demo"]
    assert sorted(entry.name for entry in folder.iterdir()) == ["campaign.jsonl", "judgments.csv", "selection.jsonl"]
    campaign = load(folder / "campaign.jsonl")
    assert campaign == synthetic(items=500, systems=6, seed=3)
    selection = Selection.load(folder / "selection.jsonl")
    assert (len(selection), selection.population) == (100, 500)
    assert selection.probability is not None
    assert 0 < selection.probability.min() < selection.probability.max() <= 1
    judged = load(folder / "judgments.csv")
    assert set(judged.ids) == set(selection.ids)
    assert len(demo.shown.splitlines()) > 40


def test_demo_prints_estimates_beside_the_truth(demo):
    assert fits(demo.shown)
    rows = [
        line.split() for line in demo.shown.splitlines() if line.startswith("sys") and {"yes", "no"} & set(line.split())
    ]
    assert sorted(row[0] for row in rows) == [f"sys{number}" for number in range(1, 7)]
    campaign = load(demo.place / "aliquot-demo" / "campaign.jsonl")
    for row in rows:
        at = campaign.systems.index(row[0])
        truth, estimated, low, high = float(row[1]), float(row[2]), float(row[3]), float(row[5])
        assert truth == pytest.approx(campaign.scores["human"][:, at].mean(), abs=0.006)
        assert low <= estimated <= high
        assert row[6] == ("yes" if low <= truth <= high else "no")
    assert [row[6] for row in rows].count("yes") >= 4


def test_demo_elsewhere_and_the_same_for_the_same_seed(aliquot, demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    again = aliquot("demo", "-o", "other-places", "--seed", 3)  # a name as long as the first: lines break alike
    assert demo.shown.replace("aliquot-demo", "other-places") == again
    for name in ("campaign.jsonl", "judgments.csv", "selection.jsonl"):
        first, second = demo.place / "aliquot-demo" / name, tmp_path / "other-places" / name
        assert first.read_bytes() == second.read_bytes()


def test_a_misspelt_subcommand_is_named(capsys):
    assert run(["demo", "synht", "-o", "x.jsonl"]) == 2
    assert "Did you mean 'synth'" in capsys.readouterr().err
