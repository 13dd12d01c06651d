"""What every verb writes: never over what it reads, to streams as they are, whole or not at all on a full disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Call

import aliquot as library
from aliquot import load, save, synthetic
from aliquot.cli.main import VERBS, run, subcommands
from aliquot.collect.new_campaign import gather_inputs
from aliquot.collect.sheets import write_sheets
from aliquot.errors import OptionError
from aliquot.io.overwrite import protect_inputs, refuse_overwrite
from aliquot.report import datasheet

QUICK = ("--repeats", "2", "--budgets", "20%", "--jobs", "1")
# Every verb with every option that names an output, {}; the files it reads are those of INPUTS.
WRITES = {
    "inspect -o": ("inspect", "data.jsonl", "-o", "{}.json"),
    "plan -o": ("plan", "data.jsonl", "--budgets", "20%", "--replays", "2", "--jobs", "1", "-o", "{}.json"),
    "plan power -o": ("plan", "power", "--difference", "1", "--sd", "25", "-o", "{}.json"),
    "plan adaptive -o": (
        *("plan", "adaptive", "data.jsonl", "--replays", "2", "--jobs", "1", "--budget", "30%"),
        *("-o", "{}.json"),
    ),
    "plan --plot": (
        "plan",
        "data.jsonl",
        "--budgets",
        "20%,40%",
        "--replays",
        "2",
        "--jobs",
        "1",
        "--plot",
        "{}.svg",
    ),
    "learn -o": ("learn", "data.jsonl", "-o", "{}.alm"),
    "select -o": ("select", "data.jsonl", "--budget", "5", "-o", "{}.jsonl"),
    "select -o of --add-to": (
        "select",
        "data.jsonl",
        "--add-to",
        "selection.jsonl",
        "--budget",
        "+5",
        "-o",
        "{}.jsonl",
    ),
    "pool -o": ("pool", "data.jsonl", "--budget", "5", "--jobs", "1", "-o", "{}.jsonl"),
    "clean -o": ("clean", "data.jsonl", "--scale", "0:100", "-o", "{}.jsonl"),
    "clean --audit": ("clean", "data.jsonl", "--scale", "0:100", "--audit", "{}.json"),
    "agreement -o": ("agreement", "data.jsonl", "--bootstrap", "10", "-o", "{}.json"),
    "agreement --plot": ("agreement", "data.jsonl", "--bootstrap", "10", "--plot", "{}.svg"),
    "combine -o": ("combine", "data.jsonl", "-o", "{}.jsonl"),
    "combine --queue": ("combine", "data.jsonl", "--queue", "{}.csv"),
    "estimate -o": ("estimate", "data.jsonl", "-o", "{}.json"),
    "estimate --sequential": ("estimate", "data.jsonl", "--sequential", "--range=-99,0", "-o", "{}.json"),
    "estimate -o of -s and -j": (
        "estimate",
        "data.jsonl",
        "-s",
        "selection.jsonl",
        "-j",
        "answers.csv",
        "-o",
        "{}.json",
    ),
    "next -o": ("next", "data.jsonl", "-j", "answers.csv", "-n", "3", "-o", "{}.csv"),
    "next --selection-out": ("next", "data.jsonl", "-n", "3", "--selection-out", "{}.jsonl"),
    "compare -o": ("compare", "judgments.csv", "-o", "{}.json"),
    "survey -o": ("survey", "judgments.csv", "-o", "{}.json"),
    "simulate -o": ("simulate", "data.jsonl", *QUICK, "-o", "{}.json"),
    "simulate --plot": ("simulate", "data.jsonl", *QUICK, "--plot", "{}.svg"),
    "simulate study by-annotator -o": ("simulate", "study", "by-annotator", "data.jsonl", *QUICK, "-o", "{}.json"),
    "simulate study by-metric -o": ("simulate", "study", "by-metric", "data.jsonl", "-o", "{}.json"),
    "simulate study protocols -o": ("simulate", "study", "protocols", "data.jsonl", "--jobs", "1", "-o", "{}.json"),
    "metrics -o": ("metrics", "data.jsonl", "--parts", "value", "-o", "{}.json"),
    "metrics --plot": ("metrics", "data.jsonl", "--parts", "breakeven", "--trials", "50", "--plot", "{}.svg"),
    "convert": ("convert", "data.jsonl", "{}.jsonl"),
    "report -o": ("report", "data.jsonl", "-o", "{}.html"),
    "collect status -o": ("collect", "status", "campaign.db", "-o", "{}.json"),
    "collect payments -o": ("collect", "payments", "campaign.db", "-o", "{}.csv"),
    "collect export -o": ("collect", "export", "campaign.db", "-o", "{}.csv"),
    "collect check -o": ("collect", "check", "campaign.db", "-o", "{}.json"),
    "collect protocols -o": ("collect", "protocols", "esa", "-o", "{}.toml"),
    "collect read -o": ("collect", "read", "filled.csv", "--key", "key.csv", "-o", "{}.csv"),
    "datasheet new -o": ("datasheet", "new", "data.jsonl", "--force", "-o", "{}.toml"),
    "datasheet check -o": ("datasheet", "check", "sheet.toml", "-o", "{}.json"),
    "datasheet render -o": ("datasheet", "render", "sheet.toml", "-o", "{}.md"),
    "datasheet diff -o": ("datasheet", "diff", "sheet.toml", "other.toml", "-o", "{}.json"),
}
INPUTS = (
    "data.jsonl",
    "judgments.csv",
    "answers.csv",
    "selection.jsonl",
    "sheet.toml",
    "other.toml",
    "campaign.db",
    "filled.csv",
    "key.csv",
)
NO_FILE = {"methods"}  # verbs that write none
NO_INPUT = {"demo"}  # verbs that read none
# Make databases and folders, or write none: tests/collect and tests/cli/test_collect_verb.py try them.
OTHERS = {
    "datasheet copy",
    *(
        f"collect {name}"
        for name in ("new", "sheets", "serve", "links", "add", "write", "act", "rehearse", "forget", "backup")
    ),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small campaign in all the forms that verbs read."""
    place = tmp_path_factory.mktemp("inputs")
    data = synthetic(items=30, systems=3, seed=1, judgments_per_output=2)
    save(data, place / "data.jsonl")
    selection = library.select(data, "segments", 10)
    selection.save(place / "selection.jsonl", data)
    save(selection.of(data), place / "answers.csv", what="judgments")
    criteria = [
        {"item": item, "system": system, "criterion": name, "value": value}
        for item in range(12)
        for system in ("A", "B")
        for name, value in zip(("x", "y", "z"), np.random.default_rng(item).integers(1, 6, 3).tolist(), strict=True)
    ]
    pl.DataFrame(criteria).write_csv(place / "judgments.csv")
    for name in ("sheet.toml", "other.toml"):
        datasheet.new(data).save(place / name)
    _campaign(place, data)
    return place


def _campaign(place: Path, data: library.EvalSet) -> None:
    """A finished campaign, and a filled sheet with its key."""
    with library.Campaign.create(data, None, "da", 1, path=place / "campaign.db") as campaign:
        who = campaign.pages.annotator(campaign.links().annotators["ann1"].rsplit("/", 1)[1])
        while "unit" in (found := campaign.pages.next_unit(who)):
            unit = found["unit"]
            cells = [output["cell"] for row in unit["rows"] for output in row["outputs"] if output["cell"]]
            changes = [{"id": cell, "cell": cell, "answer": {"score": 5}} for cell in cells]
            campaign.pages.save(who, unit["assignment"], changes)
            campaign.pages.submit(who, unit["assignment"])
    inputs = gather_inputs(data, None, "da", 1)
    write_sheets(inputs, place / "sheets")
    rows = pl.read_csv(place / "sheets" / "ann1.csv", infer_schema=False)
    rows.with_columns(score=pl.lit("5")).write_csv(place / "filled.csv")
    (place / "sheets" / "key.csv").rename(place / "key.csv")
    shutil.rmtree(place / "sheets")


@pytest.fixture
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the inputs, as the current folder."""
    for path in files.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path.parent / "cache"))
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def arguments_of(case: str, output: str) -> list[str]:
    return [part.format(output) if part.startswith("{}") else part for part in WRITES[case]]


def test_every_verb_that_writes_is_tried():
    for verb in VERBS:
        for name in subcommands(verb) or [""]:
            words = f"{verb} {name}".strip()
            if words in OTHERS or verb in NO_FILE | NO_INPUT:
                continue
            assert any(case == words or case.startswith(f"{words} -") for case in WRITES), f"no case for {words}"


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "symbolic": lambda link, target: link.symlink_to(target.name),
    "hard": lambda link, target: link.hardlink_to(target),
}


@pytest.mark.parametrize("case", WRITES)
def test_no_verb_writes_over_an_input(case, here, aliquot: Call):
    """All inputs of the verb, by links of both kinds, since the ending of an output says its format."""
    before = contents(here)
    for name in (part for part in WRITES[case] if part in INPUTS):
        for kind, linked in LINKS.items():
            ending = WRITES[case][-1].removeprefix("{}")
            output = here / f"{kind}-{Path(name).stem}{ending}"
            linked(output, here / name)
            said = aliquot(*arguments_of(case, str(output).removesuffix(ending)))
            assert (said.code, said.out) == (2, ""), said
            error = said.err.splitlines()[-1]  # notes on the inputs may come first
            assert error.startswith(f"error: {output}: is read by this run as {name} and would be overwritten"), said
            output.unlink()
            assert contents(here) == before


@pytest.mark.parametrize("case", [case for case in WRITES if not case.endswith(("--plot", "diff -o"))])
def test_standard_output_gets_the_file_and_nothing_else(case, here, capsysbinary):
    """`-o -` prints what `-o FILE` writes; what people read goes to standard error."""
    code = run([*WRITES[case][:-1], "-"])
    printed = capsysbinary.readouterr()
    assert run(arguments_of(case, str(here / "out"))) == code
    ending = WRITES[case][-1].removeprefix("{}")
    assert printed.out == (here / f"out{ending}").read_bytes()
    assert printed.err.strip()  # what people read
    assert not [path.name for path in here.iterdir() if path.name.startswith("-")]


def test_json_and_a_file_do_not_share_standard_output(here, aliquot: Call):
    del here
    said = aliquot("inspect", "data.jsonl", "--json", "-o", "-")
    assert (said.code, said.out) == (2, "")
    assert "--json and - would both go to standard output" in said.err
    said = aliquot("combine", "data.jsonl", "-o", "-", "--queue", "/dev/stdout")
    assert (said.code, said.out) == (2, "")


def test_two_outputs_are_two_files(here, aliquot: Call):
    (here / "link.csv").symlink_to("x.csv")
    for first, second in (("x.csv", "./x.csv"), ("x.csv", "link.csv")):
        said = aliquot("combine", "data.jsonl", "-o", first, "--queue", second)
        assert said.code == 2
        assert "is named twice as an output" in said.err
    assert not (here / "x.csv").exists()


def test_nothing_is_written_into_a_folder_that_is_read(here, aliquot: Call):
    assert aliquot("convert", "data.jsonl", "wmt", "--pair", "xx-yy").code == 0
    before = sorted(here.rglob("*"))
    for output in ("wmt/out.json", "wmt/sources/xx-yy.txt.json"):
        said = aliquot("inspect", "wmt", "-o", output)
        assert said.code == 2
        assert f"{output}: is in the folder wmt, which this run reads" in said.err
    assert aliquot("convert", "wmt", "wmt").code == 2
    assert aliquot("convert", "wmt", "wmt", "--pair", "xx-yy").code == 2
    assert sorted(here.rglob("*")) == before


def test_an_input_from_standard_input_is_found(here):
    before = (here / "data.jsonl").read_bytes()
    command = [sys.executable, "-m", "aliquot", "convert", "-", "data.jsonl"]
    with (here / "data.jsonl").open("rb") as source:
        done = subprocess.run(command, stdin=source, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "data.jsonl: is read by this run as standard input" in done.stderr
    assert (here / "data.jsonl").read_bytes() == before


def test_in_place_where_the_verb_says_so(here, aliquot: Call):
    """`datasheet copy` writes into the sheet itself; its help says so."""
    name = datasheet.load(here / "sheet.toml").criterion_names[0]
    text = (here / "sheet.toml").read_text()
    datasheet.new(load("data.jsonl"), criteria=[name, "other"]).save(here / "sheet.toml", force=True)
    assert aliquot("datasheet", "copy", "sheet.toml", "--source", name).code == 0
    assert (here / "sheet.toml").read_text() != text
    assert aliquot("datasheet", "copy", "sheet.toml", "--source", name, "-o", "sheet.toml", "--force").code == 0


def test_python_refuses_within_one_call_and_not_between_two(here):
    with pytest.raises(OptionError, match="is read by this run"):
        library.simulate("data.jsonl", repeats=2, jobs=1, journal="data.jsonl")
    data = load("data.jsonl")
    save(data, "data.jsonl")  # a decision of the caller
    assert load("data.jsonl") == data
    with protect_inputs():
        load("data.jsonl")
        with pytest.raises(OptionError), protect_inputs():
            refuse_overwrite("data.jsonl")
    refuse_overwrite("data.jsonl")
    assert (here / "data.jsonl").exists()


# -- a disk that is full ---------------------------------------------------------------------------------------------

FULL = """
import contextlib, io, json, resource, sys
with contextlib.suppress(ImportError):
    import joblib, matplotlib.font_manager  # these write files of their own
from aliquot.cli.main import run
cases, limit = json.loads(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
said = []
for arguments in cases:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    said.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(said))
"""


def on_a_full_disk(cases: list[list[str]], limit: int) -> list[tuple[int, str, str]]:
    """Run commands in a process that may not write files larger than `limit` bytes, a real limit of the system."""
    pytest.importorskip("resource")
    command = [sys.executable, "-c", FULL, json.dumps(cases), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


def test_a_full_disk_is_one_line_and_leaves_what_was_there(here):
    endings = ("jsonl", "jsonl.gz", "parquet", "csv", "tsv", "csv.gz")
    cases = [["convert", "data.jsonl", f"out.{ending}"] for ending in endings]
    cases += [["estimate", "data.jsonl", "-o", f"estimates.{ending}"] for ending in ("json", "csv", "parquet", "md")]
    cases += [arguments_of(case, case.replace(" ", "")) for case in WRITES if "campaign.db" not in WRITES[case]]
    for arguments in cases[::2]:
        Path(arguments[-1]).write_bytes(b"what was there before")
    before = contents(here)
    for arguments, (code, out, err) in zip(cases, on_a_full_disk(cases, 20), strict=True):
        assert (code, out) == (1, ""), (arguments, out, err)
        assert err.count("\n") - err.count("note: ") == 1, err
        assert f"error: {arguments[-1]}" in err, err
        assert "File too large" in err
        assert "free space" in err
    assert contents(here) == before  # old files are intact, and neither temporary files nor journals stay


def test_a_full_disk_while_writing_a_folder(here):
    (case,) = on_a_full_disk([["convert", "data.jsonl", "wmt", "--pair", "xx-yy"]], 1500)
    assert case[0] == 1
    assert "wmt: cannot be written (File too large)" in case[2]
    assert not [path.name for path in here.iterdir() if "wmt" in path.name]


def test_a_full_disk_names_the_journal(here):
    (case,) = on_a_full_disk([["simulate", "data.jsonl", *QUICK, "-o", "out.csv"]], 300)
    assert case[0] == 1
    assert case[2].startswith("error: out.csv.part: cannot keep the journal of finished work (File too large)")
    assert case[2].count("\n") == 1
    (whole,) = on_a_full_disk([["simulate", "data.jsonl", *QUICK, "-o", "out.csv"]], 1 << 30)
    assert whole[0] == 0  # what is left of the journal is no obstacle
    assert not (here / "out.csv.part").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_command_in_a_pipe_reads_what_another_writes(here):
    command = f"{sys.executable} -m aliquot"
    script = f"{command} convert data.jsonl - | {command} convert - copy.jsonl && cmp data.jsonl copy.jsonl"
    assert subprocess.run(["bash", "-o", "pipefail", "-c", script], check=False, cwd=here).returncode == 0
