"""`aliquot simulate` as people type it: what is printed, written, drawn, said when it fails, and that it goes on."""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Call, Said, caller

from aliquot import load, save, simulate, synthetic
from aliquot.cli.main import run

FAST = ("--repeats", "3", "--budgets", "20%,40%", "--jobs", "1")
LONG = "pps:size=difficulty,tau=0.5,spread=document+greg:metrics=metricA|metricB|metricC,ridge=2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as people have them: two campaigns of the same name, one without documents, one never judged."""
    place = tmp_path_factory.mktemp("simulate")
    data = synthetic(items=50, systems=4, seed=1, annotators=0)
    save(data, place / "past.jsonl")
    (place / "other").mkdir()
    save(synthetic(items=50, systems=4, seed=2, annotators=0), place / "other" / "past.jsonl")
    save(synthetic(items=50, systems=4, seed=3, annotators=0, document_length=0), place / "bare.jsonl")
    save(
        replace(data, scores={k: v for k, v in data.scores.items() if k != "human"}, human=None),
        place / "unjudged.jsonl",
    )
    priced = data.items.with_columns(price=pl.Series(np.linspace(1, 4, 50)))
    save(replace(data, items=priced), place / "priced.jsonl")
    return place


@pytest.fixture
def aliquot(capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(folder)
    return caller(capsys, "simulate")


@pytest.fixture
def replayed(aliquot: Call) -> Call:
    """Run `simulate` quickly; it must succeed without a word on standard error."""

    def call(*arguments: object) -> Said:
        given = [str(argument) for argument in arguments]
        rest = [part for at in range(0, 6, 2) if FAST[at] not in given for part in FAST[at : at + 2]]
        said = aliquot(*given, *rest)
        assert said.code == 0, said.err
        assert said.err == ""
        return said

    return call


# -- what people see -----------------------------------------------------------------------------------------------


def test_the_table(replayed):
    said = replayed("past.jsonl", "--methods", "random,auto,metric_var:metric=metricA")
    assert said.fits
    verdict, _, rest = said.out.partition("\n\n")  # the verdict comes first
    assert verdict.startswith("On these data, ")
    lines = rest.splitlines()
    assert lines[0].strip() == "past"
    assert lines[1].split() == [
        "method",
        "spa",
        "spa_full",
        "accuracy",
        "mae",
        "coverage",
        "parity",
        "spa_full",
        "parity",
        "mae",
    ]
    assert [line.split()[0] for line in lines[2:5]] == ["random", "auto", "metric_var:metric=metricA"]
    assert "worse than random beyond the Monte Carlo error" in said.words
    assert lines[-1].startswith("aliquot:")
    assert "methods:random,auto,metric_var:metric=metricA|budgets:20%,40%|repeats:3" in lines[-1]


def test_numbers_are_those_of_the_library(replayed, of_auto):
    assert json.loads(replayed("past.jsonl", "--methods", "auto", "--json").out) == of_auto
    assert of_auto["signature"].startswith("aliquot:")


def test_the_json_document_and_nothing_else(replayed):
    document = json.loads(replayed("past.jsonl", "other/past.jsonl", "--json", "--measures", "mae,kendall").out)
    cell, row = document["cells"][0], document["summary"][0]
    assert {"data", "method", "budget", "measure", "value", "error"} <= cell.keys()
    assert {"data", "method", "measure", "value", "error", "ratio_to_random", "parity"} <= row.keys()
    assert {row["data"] for row in document["summary"]} == {"past", "past #2", "(all sets)"}
    assert {cell["measure"] for cell in document["cells"]} == {"mae", "kendall"}


def test_wide_tables_are_folded(replayed):
    said = replayed(
        "past.jsonl",
        "other/past.jsonl",
        "bare.jsonl",
        "--metric",
        "metricA",
        "--no-parity",
        "--methods",
        f"random,{LONG.replace(',spread=document', '')},metric_avg,metric_var",
    )
    assert said.fits
    assert "not reached" in said.words
    titles = [line.strip() for line in said.out.splitlines()]
    for title in ("past", "past #2", "bare", "(all sets)"):
        assert title in titles


def test_other_measures_are_shown_in_the_order_asked_for(replayed):
    said = replayed("past.jsonl", "--methods", LONG, "--measures", "top1_rank,clusters,rmse,width,swaps,cost,mae")
    assert said.fits
    table = said.out.partition("\n\n")[2]
    heads = [
        word for line in table.splitlines() if line.startswith("method") for word in line.split() if word != "method"
    ]
    assert heads == ["top1_rank", "clusters", "rmse", "width", "swaps", "cost", "mae", "parity", "mae"]
    assert "spa_full" not in said.words.split("aliquot:")[0]
    assert "parity" not in replayed("past.jsonl", "--measures", "clusters,cost").out.split("aliquot:")[0]


def test_a_parity_without_budgets_of_its_own_says_so(replayed):
    words = "from the budgets asked for alone (--no-parity)"
    assert words in replayed("past.jsonl", "--no-parity").words
    assert words not in replayed("past.jsonl").words
    assert words not in replayed("past.jsonl", "--no-parity", "--measures", "clusters,cost").words


def test_notes_on_what_was_left_out(aliquot, folder, tmp_path):
    data = load(folder / "past.jsonl")
    human = np.array(data.scores["human"])
    human[::5, 0] = np.nan
    save(data.with_score("human", human), tmp_path / "gaps.jsonl")
    said = aliquot(tmp_path / "gaps.jsonl", *FAST)
    assert "note: gaps: 40 of 50 items are judged for all systems; they are the set" in said.words


def test_options_reach_the_library(replayed):
    said = replayed(
        "priced.jsonl",
        "--methods",
        "auto",
        "--cost",
        "price",
        "--test",
        "permutation",
        "--level",
        "0.9",
        "--no-parity",
        "--seed",
        "5",
        "--human",
        "metricB",
        "--read",
        "exclude=sys4",
    )
    for part in ("cost:price", "test:permutation", "level:0.9", "parity:no", "seed:5", "human:metricB"):
        assert part in said.out
    assert "unit:document" in replayed("past.jsonl", "--unit", "document", "--budgets", "40%,80%").out
    assert "balance:domain" in replayed("past.jsonl", "--balance", "domain").out


def test_help_reads_well(aliquot):
    said = aliquot("--help")
    assert said.code == 0
    for text in (
        "Replay past campaigns",
        "--methods",
        "--budgets",
        "Example: aliquot simulate study protocols wmt23.jsonl",
        "Also: aliquot simulate study by-annotator, aliquot simulate study by-metric, aliquot simulate study protocols",
        "goes on where it stopped",
    ):
        assert text in said.words


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_auto(folder: Path) -> Any:
    """The document of the run that all the files are of; another test compares it with that of `--json`."""
    result = simulate(load(folder / "past.jsonl"), "auto", "20%,40%", repeats=3)
    return json.loads(json.dumps(result.to_dict()))


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".tsv", ".json"])
def test_results_as_files(replayed, tmp_path, ending, of_auto):
    path = tmp_path / f"out{ending}"
    said = replayed("past.jsonl", "--methods", "auto", "-o", path)
    assert f"wrote{path}" in "".join(said.out.split())
    document = of_auto
    if ending == ".json":
        assert json.loads(path.read_text()) == document
    else:
        readers: dict[str, Callable[..., pl.DataFrame]] = {
            ".parquet": pl.read_parquet,
            ".csv": pl.read_csv,
            ".tsv": lambda source: pl.read_csv(source, separator="\t"),
        }
        table = readers[ending](path)
        assert table.columns[:6] == ["data", "method", "budget", "share", "measure", "value"]
        assert table.height == len(document["cells"])
        known = [cell["value"] for cell in document["cells"] if cell["value"] is not None]
        values = table["value"].fill_nan(None).drop_nulls().to_list()
        assert values == pytest.approx(known)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_curves_as_a_picture(replayed, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "curves.svg"
    said = replayed("past.jsonl", "bare.jsonl", "--methods", "auto", "--plot", path)
    assert f"wrote{path}" in "".join(said.out.split())
    assert path.stat().st_size > 5000
    assert "random (spa)" in path.read_text()
    for ending in ("svg", "png"):
        replayed("past.jsonl", "--no-parity", "--measures", "mae,spa", "--plot", tmp_path / f"other.{ending}")
    assert (tmp_path / "other.png").stat().st_size > 5000
    assert "mean absolute error" in (tmp_path / "other.svg").read_text()


def test_without_matplotlib(aliquot, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    said = aliquot("past.jsonl", *FAST, "--plot", tmp_path / "curves.svg")
    assert said.code == 2
    assert "pip install 'aliquot[report]'" in said.err
    assert list(tmp_path.iterdir()) == []


# -- slips ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["unjudged.jsonl"], "unjudged: no score is marked as human"),
        (["missing.jsonl"], "missing.jsonl: no such file"),
        (["past.jsonl", "--systems", "sys1"], "only one system"),
        (["past.jsonl", "--methods", "metric_vr"], "did you mean 'metric_var'"),
        (["past.jsonl", "--methods", "a+b+c"], "method 'a+b+c'"),
        (["past.jsonl", "--methods", "auto,auto"], "'auto' is given twice"),
        (["past.jsonl", "--methods", "metric_var"], "choose a metric with --metric"),
        (["past.jsonl", "bare.jsonl", "--methods", "documents"], "method 'documents' on bare"),
        (["bare.jsonl", "--unit", "document"], "bare: there are no documents"),
        (["past.jsonl", "--unit", "page"], "--unit is 'page'"),
        (["past.jsonl", "--balance", "topic"], "unknown item column 'topic'"),
        (["past.jsonl", "--budgets", "0"], "--budgets is '0'"),
        (["past.jsonl", "--budgets", "200%"], "--budgets is '200%'"),
        (["past.jsonl", "--budgets", "5%:50"], "write from:to:how-many"),
        (["past.jsonl", "--budgets", "5:50%:3"], "both ends must be shares"),
        (["past.jsonl", "--budgets", "0.1"], "for a share write 10%"),
        (["priced.jsonl", "--cost", "price", "--budgets", "10"], "with --cost give shares"),
        (["past.jsonl", "--repeats", "1"], "--repeats is 1; give 2 to"),
        (["past.jsonl", "--measures", "spq"], "did you mean 'spa'"),
        (["past.jsonl", "--measures", ""], "no measure is named"),
        (["past.jsonl", "--test", "t"], "'analytic', 'permutation'"),
        (["past.jsonl", "--level", "2"], "level is 2"),
        (["past.jsonl", "--seed", "-1"], "-1 is negative"),
        (["past.jsonl", "--jobs", "0"], "--jobs"),
        (["past.jsonl", "--engine", "host:1"], "give dask://host:port"),
        (["past.jsonl", "-o", "out.txt"], "unknown ending; use .json, .csv, .tsv, .parquet, .md or .tex"),
        (["past.jsonl", "--plot", "out.gif"], "unknown ending of a picture"),
        (["past.jsonl", "--plot", "out.svg", "--plot-measure", "spq"], "did you mean 'spa'"),
        (["past.jsonl", "--plot", "o.svg", "--plot-measure", "spa", "--measures", "mae"], "unknown measure 'spa'"),
        (["study", "protocols", "past.jsonl", "--budget", "10%,20%"], "takes one budget"),
        (["past.jsonl", "--protocols", "--methods", "auto"], "No such option: --methods"),
        (["study", "protocol", "past.jsonl"], "No such command 'protocol'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_slip_is_one_line_and_leaves_nothing_behind(aliquot, folder, arguments, message):
    before = sorted(path.name for path in folder.iterdir())
    rest = [part for at in range(0, 6, 2) if FAST[at] not in arguments for part in FAST[at : at + 2]]
    said = aliquot(*arguments, *([] if {"study", "--protocols"} & {*arguments} else rest))
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert message in said.err
    assert sorted(path.name for path in folder.iterdir()) == before


def test_an_output_that_is_a_folder(aliquot, tmp_path):
    said = aliquot("past.jsonl", *FAST, "-o", tmp_path)
    assert said.code == 1
    assert "is a folder" in said.err


# -- protocols -----------------------------------------------------------------------------------------------------


def test_the_study_of_protocols(aliquot, tmp_path):
    said = aliquot("study", "protocols", "past.jsonl", "bare.jsonl", "--jobs", "1", "-o", tmp_path / "study.csv")
    assert said.code == 0, said.err
    assert said.fits
    for text in (
        "Sets whose ranking changes",
        "best, median and worst of 13 runs",
        "snippets_budgeted",
        "past: share of items from documents of this length",
        "note: bare: no documents, so segments only",
        "budget:30%",
        "runs:13|seed:13",
    ):
        assert text in said.words
    table = pl.read_csv(tmp_path / "study.csv")
    assert (table["best"] <= table["median"]).all()
    assert (table["median"] <= table["worst"]).all()


def test_the_study_of_protocols_as_json_with_its_own_numbers(aliquot):
    said = aliquot(
        "study", "protocols", "past.jsonl", "--budget", "20%", "--repeats", "4", "--seed", "0", "--json", "--jobs", "1"
    )
    document = json.loads(said.out)
    assert document["runs"] == 4
    assert document["protocols"][0]["budget"] == 0.2
    assert "runs:4|seed:0" in document["signature"]


@pytest.mark.parametrize("name", ["annotator", "metric"])
def test_studies_of_annotators_and_metrics(aliquot, tmp_path, name):
    fast = {"annotator": ("--repeats", "2", "--budgets", "30%,50%"), "metric": ("--methods", "metric_var")}[name]
    said = aliquot("study", f"by-{name}", "past.jsonl", *fast, "--jobs", "1", "-o", tmp_path / "study.json")
    assert said.code == 0, said.err
    assert said.fits
    document = json.loads((tmp_path / "study.json").read_text())
    assert document["signature"] in said.out
    again = aliquot("past.jsonl", f"--by-{name}", *fast, "--jobs", "1", "--json")
    assert again.json == document
    assert again.err == f"note: aliquot simulate --by-{name} is now aliquot simulate study by-{name}\n"


# -- going on ------------------------------------------------------------------------------------------------------


def started(arguments: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """A real process in a group of its own, so that its workers can be killed with it."""
    return subprocess.Popen(
        [sys.executable, "-c", "from aliquot.cli.main import main; main()", "simulate", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def units(path: Path) -> list[bytes]:
    """Whole lines of finished units in a journal."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1].splitlines()[1:]


def test_an_interrupt_says_what_can_be_resumed(aliquot: Call, folder: Path, monkeypatch, tmp_path):
    work = import_module("aliquot.simulation.simulate").run_unit
    done: list[Any] = []

    def stopped(*given: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return work(*given)

    monkeypatch.setattr(import_module("aliquot.simulation.simulate"), "run_unit", stopped)
    target = tmp_path / "result.json"
    said = aliquot("past.jsonl", *FAST, "-o", target)
    assert (said.code, target.exists()) == (1, False)
    assert said.err.startswith(f"error: interrupted; {target}.part keeps the finished work: run the same command again")
    said = aliquot("past.jsonl", *FAST)
    assert said.err == "error: interrupted; nothing was written\n"
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert aliquot("past.jsonl", *FAST, "-o", target).code == 0
    assert not target.with_name("result.json.part").exists()


@pytest.fixture(scope="module")
def uninterrupted(folder: Path) -> pl.DataFrame:
    past = load(folder / "past.jsonl")
    return simulate(past, ["random", "auto", "random+cv"], repeats=10, measures=["mae", "spa", "kendall"]).to_frame()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_killed_in_the_middle_goes_on_and_repeats_nothing(folder, tmp_path, monkeypatch, jobs, uninterrupted):
    """kill -9 of a real process; then the same command, its units counted; the result is the uninterrupted run's."""
    output = tmp_path / "out.parquet"
    arguments = [
        "past.jsonl",
        "--methods",
        "random,auto,random+cv",
        "--repeats",
        "10",
        "--measures",
        "mae,spa,kendall",
        "-o",
        str(output),
    ]
    part = output.with_name("out.parquet.part")
    process = started([*arguments, "--jobs", jobs], folder)
    deadline = time.monotonic() + 120
    while len(units(part)) < 4 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    _, err = process.communicate()
    finished = units(part)
    assert process.returncode == -signal.SIGKILL, err.decode()
    assert len(finished) >= 4
    assert not output.exists()

    ran: list[str] = []
    module = import_module("aliquot.simulation.simulate")
    real = module.run_unit

    def counted(unit: Any, *rest: Any) -> Any:
        ran.append(unit.key)
        return real(unit, *rest)

    monkeypatch.setattr(module, "run_unit", counted)
    monkeypatch.chdir(folder)
    assert run(["simulate", *arguments, "--jobs", "1"]) == 0
    keys = [json.loads(line)["key"] for line in finished]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & set(ran)
    assert not part.exists()
    resumed = pl.read_parquet(output)

    assert len(keys) + len(ran) == 3 * 13  # ten budgets asked for, three above them
    assert resumed.equals(uninterrupted)


def test_a_journal_of_another_run_is_refused(aliquot, tmp_path):
    output = tmp_path / "out.csv"
    part = tmp_path / "out.csv.part"
    part.write_bytes(b'{"signature":"aliquot:0.1.0|simulate|methods:random"}\n')
    said = aliquot("past.jsonl", *FAST, "-o", output)
    assert said.code == 1
    assert "holds the unfinished work of another run" in said.err
    assert part.read_bytes() == b'{"signature":"aliquot:0.1.0|simulate|methods:random"}\n'
    assert not output.exists()
