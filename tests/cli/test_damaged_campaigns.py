"""Damaged campaigns: `collect check` finds what is damaged, no verb reads other numbers or fails without a reason."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call
from tests.collect.conftest import judge_all

import aliquot as library
from aliquot.collect.actions import act
from aliquot.collect.campaign import Campaign
from aliquot.errors import AliquotError, DamagedError
from aliquot.io.formats.campaign import read_choices, read_judgments, read_judgments_of_texts

PAGE = 4096
DATA = library.synthetic(items=40, systems=4, seed=1, document_length=4, annotators=0)
Change = Callable[[sqlite3.Connection], object]


def made(folder: Path, protocol: str) -> Path:
    path = folder / "whole.db"
    with Campaign.create(DATA, None, protocol, 4, path=path) as campaign:
        judge_all(campaign, units=30)
        act(campaign, "exclude", "ann3")
        act(campaign, "message", "ann1", "hello")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("da"), "da")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("pairwise"), "pairwise")


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copy(f"{whole}.key", tmp_path / "c.db.key")
    return Path(shutil.copy(whole, tmp_path / "c.db"))


def pages_of(raw: bytes, path: Path, table: str) -> list[int]:
    """The pages of a table's tree, by SQLite's file format."""
    with closing(sqlite3.connect(path)) as connection:
        todo = [connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table]).fetchone()[0]]
    pages = []
    while todo:
        page = todo.pop()
        pages.append(page)
        start = (page - 1) * PAGE
        if raw[start] == 5:  # an inner page: its cells begin with the number of the page below
            places = range(start + 12, start + 12 + 2 * number(raw, start + 3, 2), 2)
            todo += [number(raw, start + at, 4) for at in (8, *(number(raw, place, 2) for place in places))]
    return pages


def number(raw: bytes, start: int, size: int) -> int:
    return int.from_bytes(raw[start : start + size], "big")


@pytest.mark.parametrize(("protocol", "table"), [("da", "judgments"), ("da", "units"), ("pairwise", "choices")])
def test_flipped_bits_are_never_read_as_other_judgments(whole, compared, tmp_path, protocol, table):
    source, path = whole if protocol == "da" else compared, tmp_path / "c.db"
    read: Any = {"judgments": read_judgments, "units": read_judgments_of_texts, "choices": read_choices}[table]
    raw, sound = source.read_bytes(), read(source)
    pages = pages_of(raw, source, table)
    assert len(pages) > 2
    refused = 0
    for seed in range(200):
        rng = random.Random(seed)
        flipped = bytearray(raw)
        flipped[(rng.choice(pages) - 1) * PAGE + rng.randrange(PAGE)] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        try:
            assert read(path).equals(sound), seed
        except AliquotError as error:
            refused += 1
            assert "restore it from a backup" in str(error)  # noqa: PT017
    assert refused > 50


def sql(*statements: str) -> Change:
    def change(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return change


def without_not_null(table: str, statement: str) -> Change:
    return sql(
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = REPLACE(sql, 'NOT NULL', '') WHERE "  # noqa: S608
        f"name = '{table}'",
        "PRAGMA writable_schema = RESET",
        statement,
    )


def second(table: str, column: str, value: str) -> Change:
    """Change a value of the second row; to NULL, too."""
    return without_not_null(
        table,
        f'UPDATE "{table}" SET "{column}" = {value} WHERE rowid = (SELECT MIN(rowid) + 1 '  # noqa: S608
        f'FROM "{table}")',
    )


DAMAGE: dict[str, Change] = (
    {
        f"{table}.{column} = {value}": second(table, column, value)
        for table, column, value in (
            ("judgments", "value", "'text'"),
            ("judgments", "value", "NULL"),
            ("judgments", "item", "'{\"broken'"),
            ("judgments", "item", "CAST(x'ff' AS TEXT)"),
            ("judgments", "time", "1e18"),
            ("judgments", "marked", "'x'"),
            ("events", "payload", "'{\"broken'"),
            ("events", "payload", "NULL"),
            ("events", "payload", "CAST(x'ff' AS TEXT)"),
            ("events", "time", "'text'"),
            ("events", "actor", "'nobody'"),
            ("events", "kind", "'other'"),
            ("events", "digest", "7"),
            ("units", "payload", "'{}'"),
            ("units", "systems", "NULL"),
            ("units", "taken", "'text'"),
            ("units", "kind", "NULL"),
            ("units", "n_chars", "1000000000000000000"),
            ("annotators", "extra", "'{\"broken'"),
            ("annotators", "n_done", "NULL"),
            ("annotators", "active_ms", "'text'"),
            ("annotators", "name", "x'fffe'"),
            ("annotators", "last_seen", "1e18"),
            ("annotators", "counts", "NULL"),
            ("assignments", "slots", "'['"),
            ("assignments", "state", "'other'"),
            ("answers", "answer", "NULL"),
            ("answers", "active_ms", "'text'"),
            ("counters", "value", "'text'"),
            ("counters", "value", "NULL"),
            ("inputs", "content", "NULL"),
            ("inputs", "content", "x'00'"),
            ("inputs", "sha256", "'0'"),
            ("inputs", "name", "'other'"),
            ("cells", "item", "'['"),
            ("cells", "unit_id", "NULL"),
            ("seals", "value", "'text'"),
            ("seals", "value", "5"),
            ("meta", "value", "NULL"),
            ("audit", "payload", "'['"),
        )
    }
    | {
        f"{what} {table}": sql(f"{statement} {table}{where}")
        for what, statement, where in (
            ("drop", "DROP TABLE", ""),
            ("empty", "DELETE FROM", ""),
            ("lose a row of", "DELETE FROM", " WHERE rowid = 1"),
        )
        for table in (
            "judgments",
            "events",
            "meta",
            "units",
            "annotators",
            "assignments",
            "answers",
            "counters",
            "inputs",
            "cells",
            "audit",
            "seals",
        )
    }
    | {
        "column gone": sql("ALTER TABLE judgments RENAME COLUMN value TO gone"),
        "column of the log gone": sql("ALTER TABLE events RENAME COLUMN payload TO gone"),
        "column of people gone": sql("ALTER TABLE annotators RENAME COLUMN extra TO gone"),
        "foreign judgment": sql("INSERT INTO judgments SELECT * FROM judgments LIMIT 1"),
        "foreign event": sql("INSERT INTO events (time, actor, kind, payload) VALUES (1.0, 'x', 'save', '{}')"),
        "no version": sql("DELETE FROM meta WHERE key = 'schema'"),
        "no title": sql("DELETE FROM meta WHERE key = 'title'"),
        "another seed": sql("UPDATE meta SET value = '5' WHERE key = 'seed'"),
        "an index that lacks a row": sql(
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master "
            "WHERE name = 'choices_cell') WHERE name = 'judgments_cell'",
        ),
    }
)


def verbs(path: Path, call: Call) -> Iterator[tuple[str, int, str]]:
    """Every verb that opens a campaign: name, exit code, what it said on standard error."""
    folder = path.parent
    for arguments in (
        ("status", path),
        ("export", path, "-o", folder / "j.csv"),
        ("links", path),
        ("payments", path, "-o", folder / "p.csv"),
        ("backup", path, "-o", folder / "b.db"),
        ("act", path, "wanted", "--value", "1"),
        ("act", path, "pause", "--annotator", "ann1"),
        ("forget", path, "--annotator", "ann2"),
    ):
        said = call("collect", *arguments)
        yield str(arguments[0]), said.code, said.err


def is_one_line(err: str) -> bool:
    return err.count("\n") == 1 and err.startswith("error: ")


@pytest.mark.parametrize("damage", DAMAGE)
def test_check_finds_the_damage_and_no_verb_fails_without_a_reason(copy, damage, aliquot):
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        DAMAGE[damage](connection)
    said = aliquot("collect", "check", copy)
    assert (said.code, said.err) == (1, "")
    assert "fault: " in said.out
    assert "restore" in said.out
    for name, code, err in verbs(copy, aliquot):
        assert code == 0 or is_one_line(err), (name, err)
        assert name != "export" or code == 0 or "restore it from a backup" in err


def test_sound_campaigns_are_sound_for_all_verbs(copy, aliquot):
    assert aliquot("collect", "check", copy).code == 0
    assert [(name, code, err) for name, code, err in verbs(copy, aliquot) if code] == []
    assert aliquot("collect", "check", copy).code == 0


@pytest.mark.parametrize("kind", ["cut", "flip", "zero", "noise"])
@pytest.mark.parametrize("seed", range(6))
def test_damaged_bytes_are_one_line(copy, kind, seed, aliquot):
    rng, raw = random.Random(seed), bytearray(copy.read_bytes())
    page = rng.randrange(1, len(raw) // PAGE) * PAGE
    if kind == "cut":
        raw = raw[: rng.randrange(100, len(raw))]
    elif kind == "flip":
        raw[rng.randrange(100, len(raw))] ^= 1 << rng.randrange(8)
    else:
        raw[page : page + PAGE] = bytes(PAGE) if kind == "zero" else rng.randbytes(PAGE)
    copy.write_bytes(raw)
    said = aliquot("collect", "check", copy)
    assert said.code == 1 or (kind != "cut" and said.code == 0)  # unused bytes may hold anything
    assert "fault: " in said.out or said.code == 0
    for name, code, err in verbs(copy, aliquot):
        assert code == 0 or is_one_line(err), (name, err)


VERSIONS = [
    "NULL",
    "'abc'",
    "'-1'",
    "'99'",
    f"'{10**30}'",
    "3.5",
    "''",
    "'0'",
    "'²'",
    "'03'",
    "'3 '",
    "x'33'",
    "'1e1'",
    f"'{'9' * 6000}'",
]


@pytest.mark.parametrize("version", VERSIONS)
def test_odd_versions_of_the_tables_are_refused(copy, version, aliquot):
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        without_not_null("meta", f"UPDATE meta SET value = {version} WHERE key = 'schema'")(connection)  # noqa: S608
    for name, code, err in verbs(copy, aliquot):
        assert code == 2, name
        assert is_one_line(err)
        assert "newer aliquot" in err if version in ("'99'", f"'{10**30}'") else "the version of its tables is" in err
    with pytest.raises(AliquotError, match=r"version"):
        library.load_judgments(copy)


def test_check_says_which_row_differs(copy, aliquot):
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("UPDATE judgments SET value = 1234 WHERE rowid = 3")
        connection.execute("UPDATE events SET payload = '{}' WHERE id = 40")
    words = " ".join(aliquot("collect", "check", copy).out.split())
    assert "the checksum of event 40 (kind 'unit') does not fit" in words
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("UPDATE judgments SET value = 1234 WHERE rowid = 4")
    with Campaign.open(copy) as campaign, pytest.raises(DamagedError, match="checksum of the table judgments"):
        campaign.judgments()


def test_damage_stays_visible_after_changes_of_the_same_rows(copy):
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        name = connection.execute("SELECT annotator FROM judgments WHERE rowid = 3").fetchone()[0]
        connection.execute("UPDATE judgments SET value = 1234 WHERE rowid = 3")
    with Campaign.open(copy) as campaign:
        for action in ("exclude", "include"):
            act(campaign, action, name)
            with pytest.raises(DamagedError):
                campaign.judgments()
        campaign.forget(name)
        with pytest.raises(DamagedError):
            campaign.judgments()


# -- full disks and read-only folders ------------------------------------------------------------------------------

LIMITED = """
import resource, sys
from aliquot.cli.main import run
size = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
sys.exit(run(sys.argv[2:]))
"""


def limited(size: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIMITED, str(size), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processes are those of POSIX")
@pytest.mark.parametrize("size", [0, 20, 50_000])
def test_nothing_is_left_of_a_campaign_that_does_not_fit(tmp_path, size):
    library.save(DATA, tmp_path / "data.jsonl")
    said = limited(size, "collect", "new", tmp_path / "data.jsonl", "-o", tmp_path / "c.db")
    assert said.returncode == 1
    assert is_one_line(said.stderr)
    assert "cannot be written" in said.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processes are those of POSIX")
def test_a_backup_that_does_not_fit_is_one_line(copy):
    said = limited(100_000, "collect", "backup", copy, "-o", copy.parent / "b.db")
    assert said.returncode == 1
    assert is_one_line(said.stderr)
    assert "b.db: cannot be written" in said.stderr
    assert sorted(path.name for path in copy.parent.iterdir()) == ["c.db", "c.db.key"]


def test_links_are_not_lost_on_a_full_disk(copy, monkeypatch, aliquot):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    secret = Path(f"{copy}.key").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    said = aliquot("collect", "links", copy, "--new")
    assert said.code == 1
    assert "c.db.key: cannot be written (No space left on device)" in said.err
    assert Path(f"{copy}.key").read_bytes() == secret
    assert sorted(path.name for path in copy.parent.glob("*key*")) == ["c.db.key"]


@pytest.fixture
def read_only(whole: Path, tmp_path: Path) -> Iterator[Path]:
    """A campaign with a write-ahead log in a folder where nothing can be written, also by root."""
    folder = tmp_path / "ro"
    folder.mkdir()
    shutil.copy(f"{whole}.key", folder / "c.db.key")
    shutil.copy(whole, folder / "c.db")
    with closing(sqlite3.connect(folder / "c.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    mounted = False
    if os.geteuid() == 0:
        mount = shutil.which("mount")
        steps = (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)])
        mounted = mount is not None and all(
            subprocess.run([mount, *step], capture_output=True, check=False).returncode == 0 for step in steps
        )
    if not mounted:
        folder.chmod(0o555)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("this system lets us write in any folder, and mounts none read-only")
        yield folder / "c.db"
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)
        folder.chmod(0o755)


def test_reading_works_in_a_read_only_folder(read_only, tmp_path, aliquot):
    for arguments in (
        ("status",),
        ("check",),
        ("export", "-o", tmp_path / "j.csv"),
        ("links",),
        ("payments", "-o", tmp_path / "p.csv"),
        ("backup", "-o", tmp_path / "b.db"),
    ):
        said = aliquot("collect", arguments[0], read_only, *arguments[1:])
        assert said.code == 0, said.err
    assert aliquot("collect", "check", tmp_path / "b.db").code == 0
    said = aliquot("collect", "act", read_only, "stop")
    assert said.code == 1
    assert "readonly" in said.err
    assert "give yourself the right to write" in said.err


def test_a_file_at_rest_is_read_where_sqlite_cannot_write_beside_it(copy, monkeypatch, aliquot):
    """As in a read-only folder, wherever no folder can be made so."""
    import aliquot.collect.schema as tables

    whole_engine = tables.make_engine

    def refused(*_: object) -> None:
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = 14
        raise error

    def engine(place, *, at_rest=False):
        made = whole_engine(place, at_rest=at_rest)
        if not at_rest:
            made.pool._creator = refused  # type: ignore[assignment]
        return made

    monkeypatch.setattr(tables, "make_engine", engine)
    assert aliquot("collect", "check", copy).code == 0
    assert aliquot("collect", "status", copy).code == 0
    said = aliquot("collect", "act", copy, "stop")
    assert "readonly" in said.err
    Path(f"{copy}-wal").write_bytes(b"changes")
    said = aliquot("collect", "status", copy)
    assert said.code == 2
    assert "c.db-wal beside it holds changes" in said.err
    assert "restore" not in said.err
