"""Who is out stays out: random sequences of all actions on people, and being forgotten under any name."""

from __future__ import annotations

import random
import sqlite3
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.collect.conftest import answers_for, as_version_2, changes, judge_all, people

import aliquot
from aliquot.collect.actions import act
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import CollectError
from aliquot.collect.events import sql
from aliquot.collect.organiser import overview, page_values
from aliquot.collect.protocols import Field, Form, Protocol, Score
from aliquot.collect.serving import Annotator
from aliquot.errors import AliquotError

SMALL = aliquot.synthetic(items=6, systems=2, seed=2, document_length=2, annotators=0)
ACTIONS = ("pause", "resume", "exclude", "include", "reassign", "rejudge", "message", "renew", "revoke", "forget",
           "work", "change")  # fmt: skip
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1)), max_size=14)


class Model:
    """What should be true of one person, and the tokens that the person was given."""

    def __init__(self, campaign: Campaign, name: str) -> None:
        self.name, self.counts, self.forgotten = name, True, False
        self.token: str | None = self.link(campaign)
        self.dead: list[str] = []
        self.who: Annotator = campaign.annotator(self.token or "")
        self.done: list[dict[str, Any]] = []

    def link(self, campaign: Campaign) -> str:
        return campaign.links().annotators[self.name].rpartition("/")[2]

    def withdraw(self) -> None:
        self.dead += [self.token] if self.token else []
        self.token = None


def run(campaign: Campaign, person: Model, action: str, rng: random.Random) -> None:
    if action in ("work", "change"):
        work(campaign, person, action, rng)
        return
    try:
        if action in ("revoke", "forget"):
            alias = getattr(campaign, action)(person.name)
        else:
            act(campaign, action, person.name, "a word to you" if action == "message" else "", "why")
    except AliquotError:
        assert person.forgotten
        return
    assert not person.forgotten
    if action in ("exclude", "include"):
        person.counts = action == "include"
    if action in ("revoke", "forget", "renew"):
        person.withdraw()
    if action == "renew":
        person.token = person.link(campaign)
    if action == "forget":
        person.name, person.forgotten = alias, True


def work(campaign: Campaign, person: Model, action: str, rng: random.Random) -> None:
    """Judge a unit, or change a finished one; requests may also be those of a page that was opened long ago."""
    try:
        unit = campaign.next_unit(person.who).get("unit") if action == "work" else None
        unit = unit or (person.done[-1] if person.done else None)
        if unit is not None:
            campaign.save(person.who, unit["assignment"], changes(answers_for(campaign.protocol, unit, rng)))
            campaign.submit(person.who, unit["assignment"])
            person.done.append(unit)
    except CollectError as error:
        assert error.code in ("lease_lost", "link_revoked")  # noqa: PT017
        assert error.code == "lease_lost" or person.token is None  # noqa: PT017


def verify(campaign: Campaign, person: Model) -> None:
    rows = campaign.store.engine.connect()
    with rows as connection:
        marks = connection.execute(
            sql("SELECT marked FROM judgments WHERE annotator = :name"), {"name": person.name}
        ).scalars().all()  # fmt: skip
    assert not person.forgotten or not marks
    assert {mark for mark in marks if mark != "surplus"} <= {None if person.counts else "excluded"}
    for token in person.dead:
        with pytest.raises(CollectError):
            campaign.annotator(token)
    if person.token is not None:
        assert campaign.annotator(person.token).id == person.who.id
    assert (person.name in campaign.links().annotators) == (person.token is not None)


def play(campaign: Campaign, sequence: list[tuple[str, int]], tag: str) -> None:
    rng = random.Random(0)
    names = [f"{tag}-{number}" for number in range(2)]
    campaign.add_annotators(names)
    persons = [Model(campaign, name) for name in names]
    for person in persons:
        work(campaign, person, "work", rng)
    for action, number in sequence:
        run(campaign, persons[number], action, rng)
        for person in persons:
            verify(campaign, person)
    result = campaign.check()
    assert result.sound, result.faults
    page_values(overview(campaign))


@pytest.fixture
def campaign(database, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with Campaign.create(SMALL, None, "da", 60, per_output=60, path=database, unit_items=2) as made:
        yield made


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=steps)
def test_any_sequence_of_actions_keeps_link_work_and_judgments_apart(campaign, sequence):
    play(campaign, sequence, f"p{len(campaign.status().annotators)}")


@pytest.mark.parametrize("later", ["pause", "revoke", "resume"])
def test_judgments_of_an_excluded_annotator_stay_out(make, later):
    campaign = make(annotators=["ann", "bad"], per_output=2)
    judge_all(campaign)
    act(campaign, "exclude", "bad")
    campaign.revoke("bad") if later == "revoke" else act(campaign, later, "bad")
    assert set(campaign.judgments().table.filter(annotator="bad")["marked"]) == {"excluded"}
    assert "excluded" in {one.annotator: one.state for one in campaign.status().annotators}["bad"]


@pytest.mark.parametrize("later", ["exclude", "include", "pause", "resume"])
def test_a_withdrawn_link_stays_withdrawn(make, later):
    campaign = make(annotators=["ann", "bob"])
    token = campaign.links().annotators["bob"].rpartition("/")[2]
    campaign.revoke("bob")
    act(campaign, later, "bob")
    with pytest.raises(CollectError, match="withdrawn"):
        campaign.annotator(token)
    act(campaign, "renew", "bob")
    with pytest.raises(CollectError, match="not known"):
        campaign.annotator(token)
    assert campaign.annotator(campaign.links().annotators["bob"].rpartition("/")[2]).name == "bob"


@pytest.mark.parametrize(("states", "counts", "state"), [
    (["excluded"], False, "excluded"), (["excluded", "active"], True, "active"),
    (["excluded", "revoked"], False, "excluded, link withdrawn"), (["excluded", "paused"], False, "excluded, paused"),
    (["excluded", "paused", "active"], False, "excluded"), (["paused", "excluded", "active"], True, "active"),
    (["revoked", "active"], True, "link withdrawn"),
])  # fmt: skip
def test_old_states_become_three_facts(make, states, counts, state):
    """Events of version 2 know one state; its tables are made again from the log."""
    campaign = make(annotators=["ann", "bad"], per_output=2)
    judge_all(campaign)
    with campaign.store.read() as connection:
        last = connection.execute(sql("SELECT MAX(time) FROM events")).scalar()
        identity = campaign.identity(connection, "bad")
    campaign.close()
    with sqlite3.connect(campaign.store.place) as old:
        for word in states:
            payload = f'{{"id":"{identity}","state":"{word}","reason":""}}'
            old.execute("INSERT INTO events (time, actor, kind, payload) VALUES (?, 'organiser', 'annotator_state', ?)",
                        (last, payload))  # fmt: skip
        as_version_2(old)
    with Campaign.open(campaign.store.place) as opened:
        assert opened.check().sound
        assert {one.annotator: one.state for one in opened.status().annotators}["bad"] == state
        marks = set(opened.judgments().table.get_column("marked")) if not counts else {None}
    assert marks == ({None} if counts else {None, "excluded"})


# -- being forgotten -----------------------------------------------------------------------------------------------

FORM = Protocol(name="asked", title="T", instructions="I", widgets=(
    Score(), Form(name="about", scope="annotator", fields=(Field("language", "text"),))))  # fmt: skip
WORDS = ("human", "model", "en", "id", "name", "work", "active", "paused", "valid", "counts", "link", "reason", "text",
         "kind", "save", "lease", "submit", "return", "erased", "forgotten", "organiser", "system", "sys1", "sys2",
         "null", "true", "false", "0", "1", "-1", "1.0", "a1", "a2", "a10", "forgotten-a1", "forgotten-a2",
         "forgotten-a3-", "shared", "fixed", "payload", "events", "score", "da", "form", "came", "annotator",
         "token_hash", "locale", "extra", "answer", "cell", "assignment", "unit", "units", "item", "rows", "document",
         "slots", "policy", "position", "expires", "language", "about", "guidelines", "message", "version", "seed",
         "ann", "anna", "annab", "annabel", "an", "a", "n", "x", "é", "e\u0301", "李", "שלום", "🦜", "a\u200bb", "A",
         "o'neil", "o''neil", '"', '""', '"name"', '"name":"x"', '{"name":', '","name":"', "}", "{}", "[]", "[", "]",
         "\\", "\\\\", "\\n", "\\u0061", '\\"', "%", "%%", "_", "a_1", "?", ":id", ":name", "$1", "--", "; DROP TABLE",
         "/*", "*/", "=1+1", "@x", "#", "&amp;", "<b>", "<script>", "a/b", "../x", "a|b", "a;b", "a>b", "a=b", "a+b",
         "a b", "NaN", "None", "Infinity", "1e400", "0x00", "é" * 100, "y" * 150, "z" * 200,
         "forgotten", "a 1", "A1")  # fmt: skip
NAMES = list(dict.fromkeys((*WORDS, *SMALL.systems, *map(str, SMALL.ids),
                            *(a + b for a in "hid" for b in string.digits),
                            *("q" * n for n in range(2, 60)))))[:200]  # fmt: skip
TYPED = "very private words"


def live(campaign: Campaign, name: str, rng: random.Random, *, units: int = 1) -> None:
    """Let somebody fill in the form, judge, return a unit with a reason, and get messages."""
    who = people(campaign)[name]
    for _ in range(units):
        unit = campaign.next_unit(who)["unit"]
        answers = answers_for(campaign.protocol, unit, rng) | {"form": {"about": {"language": TYPED}}}
        campaign.save(who, unit["assignment"], changes(answers))
        campaign.submit(who, unit["assignment"])
    back = campaign.next_unit(who)
    if "unit" in back:
        campaign.give_back(who, back["unit"]["assignment"], f"{TYPED} {name}")
    opened = campaign.next_unit(who)  # one more is open when the person is forgotten
    if "unit" in opened:
        unit = opened["unit"]
        campaign.save(who, unit["assignment"], changes(answers_for(campaign.protocol, unit, rng)))
    act(campaign, "message", name, f"{TYPED} to you", TYPED)
    act(campaign, "pause", name, reason=TYPED)


def test_the_list_of_names():
    assert len(NAMES) == 200


def test_anybody_can_be_forgotten_and_the_log_stays_sound(folder):
    everybody = ["someone else", *NAMES]
    with Campaign.create(SMALL, None, FORM, everybody, per_output=201, path=folder / "c.db") as campaign:
        rng = random.Random(0)
        keeper = people(campaign)["someone else"]
        unit = campaign.next_unit(keeper)["unit"]
        campaign.save(keeper, unit["assignment"], changes(answers_for(FORM, unit, rng) | {
            "form": {"about": {"language": "mine"}}}))  # fmt: skip
        campaign.submit(keeper, unit["assignment"])
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
    unit = campaign.next_unit(who)["unit"]
    campaign.save(who, unit["assignment"], changes(answers_for(campaign.protocol, unit, rng)))
    campaign.submit(who, unit["assignment"])
    campaign.give_back(who, campaign.next_unit(who)["unit"]["assignment"], TYPED)
    act(campaign, "message", name, TYPED, TYPED)
    act(campaign, "message", "", "to all")
    campaign.forget(name)
    act(campaign, "message", "next", "later")
    result = campaign.check()
    assert result.sound, result.faults
    with campaign.store.read() as connection:
        for table in ("events", "audit", "messages", "annotators"):
            assert TYPED not in str(connection.execute(sql(f"SELECT * FROM {table}")).all())  # noqa: S608
