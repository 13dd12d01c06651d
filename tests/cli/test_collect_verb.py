"""`aliquot collect` from the command line: a campaign's whole life, and one clear line for every mistake."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.cli.conftest import Call
from tests.collect.conftest import judge_all

import aliquot as library
from aliquot.cli.main import subcommands
from aliquot.collect.campaign import Campaign
from aliquot.collect.statements import sql

COMMANDS = [
    "new",
    "serve",
    "status",
    "export",
    "links",
    "add",
    "check",
    "protocols",
    "sheets",
    "read",
    "write",
    "act",
    "rehearse",
    "payments",
    "forget",
    "backup",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    data = library.synthetic(items=10, systems=3, seed=1, document_length=3, annotators=0)
    library.save(data, "data.jsonl")
    library.select(data, "segments", 5, seed=1).save("selection.jsonl", data)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that two people have finished."""
    place = tmp_path_factory.mktemp("finished")
    data = library.synthetic(items=10, systems=3, seed=1, document_length=3, annotators=0)
    chosen = library.select(data, "segments", 5, seed=1)
    with Campaign.create(data, chosen, "esa", ["ann", "bob"], path=place / "campaign.db") as campaign:
        judge_all(campaign)
    return place


@pytest.fixture
def judged(here: Path, finished: Path) -> Path:
    for path in finished.iterdir():
        (here / path.name).write_bytes(path.read_bytes())
    return here


def test_subcommands():
    assert subcommands("collect") == COMMANDS


def test_a_campaign_is_made_followed_and_exported(judged, aliquot: Call):
    del judged
    said = aliquot(
        "collect",
        "new",
        "data.jsonl",
        "-s",
        "selection.jsonl",
        "--protocol",
        "esa",
        "--annotators",
        "ann,bob",
        "-o",
        "other.db",
    )
    assert said.code == 0, said
    assert "next: aliquot collect serve other.db" in said.out
    said = aliquot("collect", "status", "campaign.db")
    assert said.code == 0
    assert said.fits
    assert "units done (100%)" in said.out
    assert "ann" in said.out
    status = aliquot("collect", "status", "campaign.db", "--json").json
    assert status["share"] == 1
    assert {one["annotator"] for one in status["annotators"]} == {"ann", "bob"}
    assert aliquot("collect", "check", "campaign.db").code == 0
    for ending in ("csv", "jsonl", "parquet", "tsv"):
        assert aliquot("collect", "export", "campaign.db", "-o", f"j.{ending}").code == 0
    assert pl.read_csv("j.csv").height == 15
    links = aliquot("collect", "links", "campaign.db", "--base", "https://x.org").out
    assert links.count("https://x.org/a/") == 2
    assert aliquot("collect", "add", "campaign.db", "--annotators", "eve").code == 0
    assert aliquot("collect", "links", "campaign.db", "--revoke", "bob").out.count("/a/") == 2
    assert aliquot("collect", "links", "campaign.db", "--new").out.count("/a/") == 2


VERBS = {
    "estimate": ("estimate", "data.jsonl", "-s", "selection.jsonl", "-j", "{}", "--target", "given"),
    "plan": ("plan", "data.jsonl", "-j", "{}", "--budgets", "40%", "--replays", "2", "--jobs", "1"),
    "agreement": ("agreement", "{}", "--bootstrap", "10"),
    "clean": ("clean", "{}", "--scale", "0:100"),
    "combine": ("combine", "{}"),
    "compare": ("compare", "{}"),
    "inspect": ("inspect", "{}"),
    "datasheet": ("datasheet", "new", "data.jsonl", "-j", "{}"),
    "next": ("next", "data.jsonl", "-j", "{}", "-n", "3"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_a_campaign(verb, judged, aliquot: Call):
    """And says the same as of the same judgments in a CSV."""
    del judged
    assert aliquot("collect", "export", "campaign.db", "-o", "judgments.csv").code == 0
    told = [
        aliquot(*(word.format(name) for word in VERBS[verb]), "--json") for name in ("campaign.db", "judgments.csv")
    ]
    assert [said.code for said in told] == [0, 0], told
    first, second = (_without_names(said.json) for said in told)
    assert first == second


def _without_names(value: Any) -> Any:
    """Numbers to nine digits, and no file's name: sums over threads differ in the last."""
    if isinstance(value, dict):
        return {
            key: _without_names(part)
            for key, part in value.items()
            if key not in ("signature", "name", "notes", "next")
        }
    if isinstance(value, list):
        return [_without_names(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return value.replace("judgments", "X").replace("campaign", "X") if isinstance(value, str) else value


def test_mqm_errors_as_googles_table(here, aliquot: Call):
    del here
    assert aliquot("collect", "new", "data.jsonl", "--protocol", "mqm", "-o", "m.db").code == 0
    with Campaign.open("m.db") as campaign:
        judge_all(campaign)
        judged = campaign.judgments()
    assert aliquot("collect", "export", "m.db", "--format", "mqm", "-o", "m.tsv").code == 0
    read = library.load("m.tsv")
    assert read.judgments is not None
    key = ["item", "system", "annotator"]
    for column in ("value", "start", "span"):
        ours, theirs = (table.sort(*key, "error")[column].to_list() for table in (judged.table, read.judgments.table))
        assert ours == theirs
    said = aliquot("collect", "export", "m.db", "--what", "choises", "-o", "x.csv")
    assert (said.code, said.err.startswith("error: --what is 'choises'; did you mean 'choices'")) == (2, True)


def test_presets_are_listed_and_printed(here, aliquot: Call):
    said = aliquot("collect", "protocols")
    assert said.code == 0
    assert said.fits
    assert all(name in said.out for name in ("esa", "best-worst", "postedit"))
    assert aliquot("collect", "protocols", "esa", "-o", "mine.toml").code == 0
    (here / "mine.toml").write_text((here / "mine.toml").read_text().replace("low = 0", "low = 500"))
    said = aliquot("collect", "protocols", "mine.toml")
    assert said.code == 2
    assert said.err.startswith("error: mine.toml line ")
    assert aliquot("collect", "protocols", "--json").json["protocols"][0]["name"] == "best-worst"


def test_sheets_there_and_back(here, aliquot: Call):
    said = aliquot("collect", "sheets", "data.jsonl", "-s", "selection.jsonl", "--annotators", "2", "-o", "sheets")
    assert said.code == 0, said
    rng = random.Random(0)
    for path in (here / "sheets").glob("ann*.csv"):
        rows = pl.read_csv(path, infer_schema=False)
        rows.with_columns(score=pl.Series([str(rng.randint(0, 100)) for _ in range(rows.height)])).write_csv(path)
    said = aliquot("collect", "read", "sheets/ann1.csv", "sheets/ann2.csv", "--key", "sheets/key.csv", "-o", "j.csv")
    assert said.code == 0, said
    assert aliquot("estimate", "data.jsonl", "-s", "selection.jsonl", "-j", "j.csv").code == 0


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE things (x)")
    connection.close()


def newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    connection.close()


MISTAKES = {
    "a wrong protocol": (
        ("new", "data.jsonl", "--protocol", "esaa", "-o", "x.db"),
        "unknown protocol 'esaa'; did you mean",
    ),
    "no protocol file": (("new", "data.jsonl", "--protocol", "my.toml", "-o", "x.db"), "my.toml: no such file"),
    "a selection of other data": (("new", "other.jsonl", "-s", "selection.jsonl", "-o", "x.db"), "not in the data"),
    "an item without output": (("new", "holes.jsonl", "-o", "x.db"), "has no output of the system 'sys2'"),
    "no outputs": (("new", "scores.jsonl", "-o", "x.db"), "there are no outputs to judge"),
    "a file that is there": (("new", "data.jsonl", "-o", "campaign.db"), "campaign.db: exists already"),
    "too few annotators": (("new", "data.jsonl", "--per-output", "4", "-o", "x.db"), "nobody judges an output twice"),
    "no annotator": (("new", "data.jsonl", "--annotators", ",", "-o", "x.db"), "a name is empty"),
    "a wrong policy": (("new", "data.jsonl", "--assign", "share", "-o", "x.db"), "did you mean 'shared'"),
    "no campaign": (("status", "data.jsonl"), "data.jsonl: is no campaign (not an SQLite file)"),
    "another database": (("status", "things.db"), "things.db: is a database, but no campaign"),
    "a damaged file": (("status", "broken.db"), "broken.db: the campaign is damaged: it cannot be read"),
    "a newer campaign": (("status", "newer.db"), "was made by a newer aliquot (version 99"),
    "no such file": (("status", "campain.db"), "campain.db: no such file"),
    "a folder": (("check", "."), "is a folder where a campaign's file is meant"),
    "an unknown annotator": (
        ("links", "campaign.db", "--revoke", "ane"),
        "unknown annotator 'ane'; did you mean 'ann'",
    ),
    "an annotator twice": (("add", "campaign.db", "--annotators", "ann"), "there is an annotator 'ann' already"),
    "an unknown ending": (("export", "campaign.db", "-o", "x.doc"), "unknown ending"),
    "errors that are none": (("export", "campaign.db", "--format", "mqm", "-o", "x.tsv"), "an MQM file holds errors"),
    "a typo": (("statsu", "campaign.db"), "statsu"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line(case, judged, aliquot: Call):
    data = library.load("data.jsonl")
    library.save(data.drop(items=[data.ids[0]]).keep(items=data.ids[1:4]), "other.jsonl")
    (judged / "holes.jsonl").write_text('{"i": 0, "src": "a", "tgt": {"sys1": "x", "sys2": null}}\n')
    (judged / "scores.jsonl").write_text('{"i": 0, "src": "a", "scores": {"sys1": {"m": 1}}}\n')
    other_database(judged / "things.db")
    (judged / "broken.db").write_bytes((judged / "campaign.db").read_bytes()[:3000] + b"\0" * 5000)
    (judged / "newer.db").write_bytes((judged / "campaign.db").read_bytes())
    newer(judged / "newer.db")
    arguments, expected = MISTAKES[case]
    said = aliquot("collect", *arguments)
    assert said.code == 2, said
    assert said.out == ""
    assert expected in said.err
    assert said.err.count("\n") == 1
    assert not (judged / "x.db").exists()
    assert not (judged / "x.db.key").exists()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("things.db", "is a database, but no campaign"),
        ("newer.db", "was made by a newer aliquot"),
        ("broken.db", "cannot be read as a campaign"),
        ("empty.db", "nobody has submitted a unit yet"),
    ],
)
def test_other_verbs_say_it_too(name, expected, judged, aliquot: Call):
    other_database(judged / "things.db")
    (judged / "broken.db").write_bytes((judged / "campaign.db").read_bytes()[:3000] + b"\0" * 5000)
    (judged / "newer.db").write_bytes((judged / "campaign.db").read_bytes())
    newer(judged / "newer.db")
    assert aliquot("collect", "new", "data.jsonl", "-o", "empty.db").code == 0
    said = aliquot("estimate", "data.jsonl", "-j", name)
    assert (said.code, said.out) == (2, "")
    assert expected in said.err
    assert said.err.count("\n") == 1


def test_reading_leaves_nothing_behind(judged, aliquot: Call):
    before = {path.name: path.read_bytes() for path in judged.iterdir()}
    assert aliquot("estimate", "data.jsonl", "-j", "campaign.db").code == 0
    assert aliquot("collect", "status", "campaign.db").code == 0
    assert {path.name: path.read_bytes() for path in judged.iterdir()} == before


FULL = """
import resource, sys
from aliquot.cli.main import run
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import StorageError
from pathlib import Path
from typing import Any

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

limit(20_000)
assert run(["collect", "new", "data.jsonl", "-o", "big.db"]) == 1
limit(resource.RLIM_INFINITY)
campaign = Campaign.open("campaign.db")
who = campaign.pages.annotator(next(iter(campaign.links().annotators.values())).rsplit("/", 1)[1])
unit = campaign.pages.unit(who, campaign.pages.history(who)[0]["assignment"])["unit"]
cell = next(iter(unit["answers"]))
def change(n, score):
    return [{"id": f"n{n}", "cell": cell, "answer": {"errors": [], "score": score}}]
campaign.pages.save(who, unit["assignment"], change(1, 11))
limit(Path("campaign.db-wal").stat().st_size + 100)
try:
    campaign.pages.save(who, unit["assignment"], change(2, 22))
except StorageError as error:
    print(error)
limit(resource.RLIM_INFINITY)
assert campaign.pages.unit(who, unit["assignment"])["unit"]["answers"][cell]["score"] == 11
campaign.pages.save(who, unit["assignment"], change(2, 22))
campaign.pages.save(who, unit["assignment"], change(2, 22))
assert campaign.pages.unit(who, unit["assignment"])["unit"]["answers"][cell]["score"] == 22
assert campaign.check().sound
campaign.close()
"""


def test_a_full_disk_is_said_and_nothing_is_lost(judged):
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("error: big.db: cannot be written (")
    assert done.stderr.count("\n") == 1
    assert "campaign.db: cannot be written or read now (" in done.stdout
    assert not [path.name for path in judged.iterdir() if "big" in path.name]


def test_check_finds_what_was_changed_by_hand(judged, aliquot: Call):
    del judged
    with Campaign.open("campaign.db") as campaign:
        campaign.store.write(lambda connection: connection.execute(sql("DELETE FROM judgments WHERE item = item")))
    said = aliquot("collect", "check", "campaign.db")
    assert said.code == 1
    assert "fault: judgments: 0 rows are not in the log, 15 rows" in said.out


def test_help_needs_no_extra():
    code = (
        "import sys; from aliquot.cli.main import run; run(['--help']); run(['collect', '--help']);"
        "print([m for m in ('sqlalchemy', 'starlette', 'openpyxl', 'uvicorn') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
