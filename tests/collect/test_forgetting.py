"""Being forgotten under any name, in every place that could keep something, and by the shared link again."""

from __future__ import annotations

import random
import sqlite3
import string
from contextlib import closing
from pathlib import Path

import pytest
from tests.collect.conftest import answers_for, as_version_2, changes, judge_all, people

import aliquot
from aliquot.collect import crowd
from aliquot.collect.actions import act
from aliquot.collect.backup import backup
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import StorageError
from aliquot.collect.event_types import AnnotatorForgotten
from aliquot.collect.organiser import payments_of
from aliquot.collect.protocols import Field, Form, Protocol, Score
from aliquot.collect.statements import decode, encode, sql
from aliquot.errors import AliquotError

SMALL = aliquot.synthetic(items=6, systems=2, seed=2, document_length=2, annotators=0)
FORM = Protocol(
    name="asked",
    title="T",
    instructions="I",
    widgets=(Score(), Form(name="about", scope="annotator", fields=(Field("language", "text"),))),
)
WORDS = (
    "human",
    "model",
    "en",
    "id",
    "name",
    "work",
    "active",
    "paused",
    "valid",
    "counts",
    "link",
    "reason",
    "text",
    "kind",
    "save",
    "lease",
    "submit",
    "return",
    "erased",
    "forgotten",
    "organiser",
    "system",
    "sys1",
    "sys2",
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "1.0",
    "a1",
    "a2",
    "a10",
    "forgotten-a1",
    "forgotten-a2",
    "forgotten-a3-",
    "shared",
    "fixed",
    "payload",
    "events",
    "score",
    "da",
    "form",
    "came",
    "annotator",
    "token_hash",
    "locale",
    "extra",
    "answer",
    "cell",
    "assignment",
    "unit",
    "units",
    "item",
    "rows",
    "document",
    "slots",
    "policy",
    "position",
    "expires",
    "language",
    "about",
    "guidelines",
    "message",
    "version",
    "seed",
    "ann",
    "anna",
    "annab",
    "annabel",
    "an",
    "a",
    "n",
    "x",
    "é",
    "e\u0301",
    "李",
    "שלום",
    "🦜",
    "a\u200bb",
    "A",
    "o'neil",
    "o''neil",
    '"',
    '""',
    '"name"',
    '"name":"x"',
    '{"name":',
    '","name":"',
    "}",
    "{}",
    "[]",
    "[",
    "]",
    "\\",
    "\\\\",
    "\\n",
    "\\u0061",
    '\\"',
    "%",
    "%%",
    "_",
    "a_1",
    "?",
    ":id",
    ":name",
    "$1",
    "--",
    "; DROP TABLE",
    "/*",
    "*/",
    "=1+1",
    "@x",
    "#",
    "&amp;",
    "<b>",
    "<script>",
    "a/b",
    "../x",
    "a|b",
    "a;b",
    "a>b",
    "a=b",
    "a+b",
    "a b",
    "NaN",
    "None",
    "Infinity",
    "1e400",
    "0x00",
    "é" * 100,
    "y" * 150,
    "z" * 200,
    "forgotten",
    "a 1",
    "A1",
)
NAMES = list(
    dict.fromkeys(
        (
            *WORDS,
            *SMALL.systems,
            *map(str, SMALL.ids),
            *(a + b for a in "hid" for b in string.digits),
            *("q" * n for n in range(2, 60)),
        )
    )
)[:200]
TYPED = "very private words"


def live(campaign: Campaign, name: str, rng: random.Random, *, units: int = 1) -> None:
    """Let somebody fill in the form, judge, return a unit with a reason, and get messages."""
    who = people(campaign)[name]
    for _ in range(units):
        unit = campaign.pages.next_unit(who)["unit"]
        answers = answers_for(campaign.protocol, unit, rng) | {"form": {"about": {"language": TYPED}}}
        campaign.pages.save(who, unit["assignment"], changes(answers))
        campaign.pages.submit(who, unit["assignment"])
    back = campaign.pages.next_unit(who)
    if "unit" in back:
        campaign.pages.give_back(who, back["unit"]["assignment"], f"{TYPED} {name}")
    opened = campaign.pages.next_unit(who)  # one more is open when the person is forgotten
    if "unit" in opened:
        unit = opened["unit"]
        campaign.pages.save(who, unit["assignment"], changes(answers_for(campaign.protocol, unit, rng)))
    act(campaign, "message", name, f"{TYPED} to you", TYPED)
    act(campaign, "pause", name, reason=TYPED)


def test_the_list_of_names():
    assert len(NAMES) == 200


def test_anybody_can_be_forgotten_and_the_log_stays_sound(folder):
    everybody = ["someone else", *NAMES]
    with Campaign.create(SMALL, None, FORM, everybody, per_output=201, path=folder / "c.db") as campaign:
        rng = random.Random(0)
        keeper = people(campaign)["someone else"]
        unit = campaign.pages.next_unit(keeper)["unit"]
        campaign.pages.save(
            keeper,
            unit["assignment"],
            changes(answers_for(FORM, unit, rng) | {"form": {"about": {"language": "mine"}}}),
        )
        campaign.pages.submit(keeper, unit["assignment"])
        for name in NAMES[::10]:
            live(campaign, name, rng)
        kept = campaign.judgments().table.filter(annotator="someone else")
        for number, name in enumerate(NAMES):
            campaign.forget(name, "asked for it")
            if number % 50 == 49:
                result = campaign.check()
                assert result.sound, (name, result.faults)
        assert campaign.judgments().table.drop("marked", strict=False).equals(kept.drop("marked", strict=False))
        with pytest.raises(AliquotError, match="was forgotten"):
            act(campaign, "include", "forgotten-a2-")
    left = b"".join(path.read_bytes() for path in Path(folder).glob("c.db*"))
    assert TYPED.encode() not in left
    assert b"y" * 150 not in left
    assert b'"mine"' in left


@pytest.mark.parametrize("name", ["human", "en", 'o"neil\\', "forgotten-a3", "李"])
def test_forgetting_is_sound_on_both_databases(campaign, name):
    campaign.add_annotators([name, "next"])
    who = people(campaign)[name]
    rng = random.Random(0)
    unit = campaign.pages.next_unit(who)["unit"]
    campaign.pages.save(who, unit["assignment"], changes(answers_for(campaign.protocol, unit, rng)))
    campaign.pages.submit(who, unit["assignment"])
    campaign.pages.give_back(who, campaign.pages.next_unit(who)["unit"]["assignment"], TYPED)
    act(campaign, "message", name, TYPED, TYPED)
    act(campaign, "message", "", "to all")
    campaign.forget(name)
    act(campaign, "message", "next", "later")
    result = campaign.check()
    assert result.sound, result.faults
    with campaign.store.read() as connection:
        for table in ("events", "audit", "messages", "annotators"):
            assert TYPED not in str(connection.execute(sql(f"SELECT * FROM {table}")).all())  # noqa: S608


# -- every place ---------------------------------------------------------------------------------------------------

NAME = "Zebediah Quux"


@pytest.fixture
def campaign(database, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with Campaign.create(SMALL, None, FORM, [NAME, "bob"], per_output=2, path=database, unit_items=1) as made:
        yield made


def bytes_of(campaign: Campaign, folder: Path) -> bytes:
    """What is on the disk: the files beside each other, or the files of the tables."""
    here = b"".join(path.read_bytes() for path in folder.iterdir())
    if "://" not in str(campaign.store.place):
        return here
    with campaign.store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("CHECKPOINT")
        found = connection.exec_driver_sql(
            "SELECT pg_read_binary_file(pg_relation_filepath(oid)) FROM pg_class WHERE "
            "relkind IN ('r', 'i', 't') AND relfilenode > 0"
        ).scalars()
        return here + b"".join(found)


def test_nothing_is_left_in_any_file(campaign, folder):
    live(campaign, NAME, random.Random(0), units=2)
    for action in ("exclude", "rejudge", "reassign", "renew", "revoke"):
        act(campaign, action, NAME, reason=TYPED)
    assert {word in bytes_of(campaign, folder) for word in (NAME.encode(), TYPED.encode())} == {True}
    campaign.forget(NAME, "asked for it")
    backup(campaign, folder / "backup.db")
    left = bytes_of(campaign, folder)
    assert NAME.encode() not in left
    assert TYPED.encode() not in left
    assert campaign.check().sound
    with campaign.store.read() as connection:
        ids = connection.execute(sql("SELECT client_id FROM events WHERE kind = 'erased'")).scalars().all()
    assert set(ids) == {None}  # a page chose them


def test_a_reader_that_keeps_old_pages_is_named(folder):
    with Campaign.create(SMALL, None, "da", [NAME, "bob"], path=folder / "c.db") as campaign:
        judge_all(campaign)
        with closing(sqlite3.connect(folder / "c.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM events").fetchone()
            with pytest.raises(StorageError, match="another program is reading the file"):
                campaign.forget(NAME)
        assert NAME not in campaign.links().annotators
    assert NAME.encode() not in b"".join(path.read_bytes() for path in folder.iterdir())


def test_the_allocator_forgets_too(database, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with Campaign.create(SMALL, None, "da", [NAME, "bob"], path=database, allocate="auto") as campaign:
        judge_all(campaign, units=4)
        campaign.forget(NAME)
        assert campaign.inputs.allocation is not None
        with campaign.store.read() as connection:
            logs = connection.execute(sql("SELECT payload FROM events WHERE kind = 'allocate'")).scalars().all()
            told = campaign.inputs.allocation.current(connection).state()["log"]
        assert NAME not in "".join(logs)
        assert {event["annotator"] for event in told if event["event"] == "judgment"} == {"bob"}
        judge_all(campaign)  # the queue goes on
        assert campaign.check().sound


def test_a_forgotten_worker_who_comes_again_is_somebody_new(make):
    campaign = make(annotators=["ann"], per_output=1)
    visit = crowd.read_visit("link", {"worker": "Wendelin77", "session": "S7"})
    assert visit is not None
    first = campaign.admission.join(visit, "a secret of one browser")
    who = campaign.pages.annotator(first)
    unit = campaign.pages.next_unit(who)["unit"]
    campaign.pages.save(who, unit["assignment"], changes(answers_for(campaign.protocol, unit, random.Random(0))))
    campaign.pages.submit(who, unit["assignment"])
    alias = campaign.forget("link:Wendelin77")
    assert campaign.admission.join(visit, "a secret of one browser") != first
    paid = [(row.annotator, row.worker, row.units) for row in payments_of(campaign).people]
    assert paid == [("ann", "ann", 0), (alias, alias, 1), ("link:Wendelin77", "Wendelin77", 0)]
    campaign.forget("link:Wendelin77")
    assert campaign.check().sound
    with campaign.store.read() as connection:
        assert "Wendelin77" not in str(connection.execute(sql("SELECT * FROM events")).all())


def test_what_a_forgotten_person_judged_can_be_judged_again(make):
    campaign = make(annotators=["ann", "bob", "cem"], per_output=1)
    judge_all(campaign)
    cells = campaign.data.n_items * campaign.data.n_systems
    alias = campaign.forget("ann")
    assert len(campaign.judgments()) < cells
    act(campaign, "rejudge", alias)
    judge_all(campaign)
    assert len(campaign.judgments()) == cells
    assert campaign.check().sound
    assert {one.annotator: one.pace for one in campaign.status().annotators}[alias] is None


# -- campaigns of older versions -----------------------------------------------------------------------------------


def forget_as_version_2(campaign: Campaign, name: str) -> None:
    """Do to the log what `forget` did until version 2: replace the quoted name in all events about annotators."""
    with campaign.store.engine.begin() as connection:
        identity = campaign.identity(connection, name)
        alias = f"forgotten-{identity}"
        rows = connection.execute(sql("SELECT id, payload FROM events WHERE kind = 'annotator'")).all()
        for row in rows:
            new = row.payload.replace(encode(name), encode(alias))
            connection.execute(sql("UPDATE events SET payload = :new WHERE id = :id"), {"new": new, "id": row.id})
        time = connection.execute(sql("SELECT MAX(time) FROM events")).scalar()
        event = AnnotatorForgotten(id=identity, alias=alias, reason="")
        campaign.log.append(connection, float(time or 0), "organiser", event)
        payload = {"id": identity, "name": alias, "alias": alias, "reason": ""}  # version 2 kept the new name twice
        for table in ("events", "audit"):
            query = sql(f"UPDATE {table} SET payload = :new WHERE kind = 'forgotten'")  # noqa: S608
            connection.execute(query, {"new": encode(payload)})
        as_version_2(connection.exec_driver_sql)


@pytest.mark.parametrize("name", ["human", "en", "id", "name", "token_hash", "a2", NAME])
def test_what_older_versions_left_or_damaged_is_mended(database, folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    with Campaign.create(SMALL, None, FORM, [name, "bob"], per_output=2, path=database, unit_items=1) as campaign:
        live(campaign, name, random.Random(0))
        forget_as_version_2(campaign, name)
    with Campaign.open(database) as opened:
        assert opened.check().faults == ()
        assert [(one.annotator, one.kind, one.state) for one in opened.status().annotators] == [
            ("bob", "human", "active"),
            ("forgotten-a1", "human", "forgotten"),
        ]
        assert list(opened.links().annotators) == ["bob"]
        assert TYPED.encode() not in bytes_of(opened, folder)
        with opened.store.read() as connection:
            made = connection.execute(sql("SELECT payload FROM events WHERE kind = 'annotator'")).scalars().all()
        assert [sorted(decode(event)) for event in made] == [
            ["id", "kind", "locale", "name", "offset_rank", "token_hash", "token_number"]
        ] * 2
