"""Who is out stays out: random sequences of all actions on people, and being forgotten under any name."""

from __future__ import annotations

import random
import sqlite3
import warnings
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.collect.conftest import answers_for, as_version_2, changes, judge_all, people

import aliquot
from aliquot.collect.actions import act
from aliquot.collect.annotator_pages import Annotator
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import CollectError
from aliquot.collect.organiser import overview, payments_of
from aliquot.collect.organiser_page import page_values
from aliquot.collect.protocols import PaymentRules, load_protocol
from aliquot.collect.statements import sql
from aliquot.core.judgments import MODEL
from aliquot.errors import AliquotError, AliquotWarning, FormatError, OptionError
from aliquot.estimation.inputs import attach_judgments

SMALL = aliquot.synthetic(items=6, systems=2, seed=2, document_length=2, annotators=0)
ACTIONS = (
    "pause",
    "resume",
    "exclude",
    "include",
    "reassign",
    "rejudge",
    "message",
    "renew",
    "revoke",
    "forget",
    "work",
    "open",
    "change",
)
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2)), max_size=14)


class Model:
    """What should be true of one annotator, and the tokens that the annotator was given."""

    def __init__(self, campaign: Campaign, name: str) -> None:
        self.name, self.counts, self.forgotten = name, True, False
        self.plain = MODEL if name.startswith("judge") else None  # mark of judgments that count
        self.opened: dict[str, Any] | None = None
        self.token: str | None = self.link(campaign)
        self.dead: list[str] = []
        self.who: Annotator = campaign.pages.annotator(self.token or "")
        self.done: list[dict[str, Any]] = []

    def link(self, campaign: Campaign) -> str:
        return campaign.links().annotators[self.name].rpartition("/")[2]

    def withdraw(self) -> None:
        self.dead += [self.token] if self.token else []
        self.token = None


def run(campaign: Campaign, person: Model, action: str, rng: random.Random) -> None:
    if action in ("work", "open", "change"):
        work(campaign, person, action, rng)
        return
    try:
        if action == "forget":
            alias = campaign.forget(person.name)
        else:
            act(campaign, action, person.name, "a word to you" if action == "message" else "", "why")
    except AliquotError:
        assert person.forgotten or (action == "rejudge" and person.plain)
        return
    assert not person.forgotten or action == "rejudge"
    if action in ("exclude", "include"):
        person.counts = action == "include"
    if action in ("revoke", "forget", "renew"):
        person.withdraw()
    if action == "renew":
        person.token = person.link(campaign)
    if action == "forget":
        person.name, person.forgotten = alias, True


def work(campaign: Campaign, person: Model, action: str, rng: random.Random) -> None:
    """Judge a unit, open one, or change a finished one; a page may have been opened long ago."""
    try:
        unit, person.opened = person.opened if action == "work" else None, None
        unit = unit or (campaign.pages.next_unit(person.who).get("unit") if action != "change" else None)
        if action == "open":
            person.opened = unit
            return
        unit = unit or (person.done[-1] if person.done else None)
        if unit is not None:
            campaign.pages.save(person.who, unit["assignment"], changes(answers_for(campaign.protocol, unit, rng)))
            campaign.pages.submit(person.who, unit["assignment"])
            person.done.append(unit)
    except CollectError as error:
        assert error.code in ("lease_lost", "link_revoked")  # noqa: PT017
        assert error.code == "lease_lost" or person.token is None  # noqa: PT017


def verify(campaign: Campaign, person: Model) -> None:
    rows = campaign.store.engine.connect()
    with rows as connection:
        marks = (
            connection.execute(sql("SELECT marked FROM judgments WHERE annotator = :name"), {"name": person.name})
            .scalars()
            .all()
        )
    assert not person.forgotten or not marks
    assert {mark for mark in marks if mark != "surplus"} <= {person.plain if person.counts else "excluded"}
    for token in person.dead:
        with pytest.raises(CollectError):
            campaign.pages.annotator(token)
    if person.token is not None:
        assert campaign.pages.annotator(person.token).id == person.who.id
    assert (person.name in campaign.links().annotators) == (person.token is not None)


def play(campaign: Campaign, sequence: list[tuple[str, int]], tag: str) -> None:
    rng = random.Random(0)
    names = [f"{tag}-0", f"{tag}-1", f"judge-{tag}"]
    campaign.add_annotators(names[:2])
    campaign.add_annotators(names[2:], "model")
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
        campaign.pages.annotator(token)
    act(campaign, "renew", "bob")
    with pytest.raises(CollectError, match="not known"):
        campaign.pages.annotator(token)
    assert campaign.pages.annotator(campaign.links().annotators["bob"].rpartition("/")[2]).name == "bob"


@pytest.mark.parametrize(
    ("states", "counts", "state"),
    [
        (["excluded"], False, "excluded"),
        (["excluded", "active"], True, "active"),
        (["excluded", "revoked"], False, "excluded, link withdrawn"),
        (["excluded", "paused"], False, "excluded, paused"),
        (["excluded", "paused", "active"], False, "excluded"),
        (["paused", "excluded", "active"], True, "active"),
        (["revoked", "active"], True, "link withdrawn"),
    ],
)
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
            old.execute(
                "INSERT INTO events (time, actor, kind, payload) VALUES (?, 'organiser', 'annotator_state', ?)",
                (last, payload),
            )
        as_version_2(old.execute)
    with Campaign.open(campaign.store.place) as opened:
        assert opened.check().sound
        assert {one.annotator: one.state for one in opened.status().annotators}["bad"] == state
        marks = set(opened.judgments().table.get_column("marked")) if not counts else {None}
    assert marks == ({None} if counts else {None, "excluded"})


def test_annotators_of_older_versions_on_both_databases(campaign):
    campaign.add_annotators(["bad"])
    work(campaign, Model(campaign, "bad"), "work", random.Random(0))
    act(campaign, "exclude", "bad")
    with campaign.store.engine.begin() as connection:
        as_version_2(connection.exec_driver_sql)
    place = campaign.store.place
    with Campaign.open(place) as first, Campaign.open(place) as second:
        assert first.check().sound
        assert {one.annotator: one.state for one in second.status().annotators}["bad"] == "excluded"


def test_judgments_of_older_versions_are_not_read_where_marks_may_be_lost(make):
    """Version 2 counted excluded judgments again after another action."""
    campaign = make(annotators=["ann", "bad"])
    judge_all(campaign)
    place = campaign.store.place
    with campaign.store.engine.begin() as connection:
        as_version_2(connection.exec_driver_sql)
    assert aliquot.load_judgments(place).table.height == len(campaign.judgments())
    with campaign.store.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO audit (time, kind, payload) VALUES (0, 'annotator_state', "
            """'{"id":"a2","state":"excluded","reason":""}')"""
        )
    with pytest.raises(FormatError, match="aliquot collect check"):
        aliquot.load_judgments(place)


# -- who counts ----------------------------------------------------------------------------------------------------


def test_an_excluded_annotator_takes_no_unit_from_the_others(make):
    """Judgments that arrive after the exclusion are kept, but are none of the k that an output needs."""
    campaign = make(annotators=["ann", "bad"])
    bad = people(campaign)["bad"]
    unit = campaign.pages.next_unit(bad)["unit"]
    act(campaign, "exclude", "bad")
    campaign.pages.save(bad, unit["assignment"], changes(answers_for(campaign.protocol, unit, random.Random(0))))
    campaign.pages.submit(bad, unit["assignment"])
    assert campaign.status().units_done == 0
    judge_all(campaign)
    status = campaign.status()
    assert status.units_done == status.units_wanted
    counted = campaign.judgments().table.filter(pl.col("marked").is_null())
    assert len(counted) == counted.unique(["item", "system"]).height == campaign.data.n_items * campaign.data.n_systems
    assert counted["annotator"].unique().to_list() == ["ann"]


def test_an_excluded_judge_model_is_no_metric(make):
    campaign = make(annotators=["ann"])
    campaign.add_annotators(["gpt"], "model")
    judge_all(campaign)
    before = campaign.status()

    def metrics() -> list[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AliquotWarning)  # that judgments are left out
            return attach_judgments(campaign.data, campaign.judgments(), None)[0].metrics

    assert "judge:gpt" in metrics()
    act(campaign, "exclude", "gpt")
    assert "judge:gpt" not in metrics()
    act(campaign, "include", "gpt")
    assert "judge:gpt" in metrics()
    assert campaign.check().sound
    with pytest.raises(OptionError, match="automatic judge"):
        act(campaign, "rejudge", "gpt")
    now = overview(campaign)
    assert (now.wanted, now.seconds) == (before.units_wanted, before.active_seconds)
    with pytest.raises(OptionError, match="1 are active"):
        act(campaign, "wanted", value="2")


def test_an_allocator_is_not_told_what_judge_models_say(make):
    campaign = make(annotators=["ann"], allocate="auto")
    campaign.add_annotators(["gpt"], "model")
    judge_all(campaign)
    with campaign.store.read() as connection:
        log = campaign.inputs.allocation.current(connection).state()["log"]
    assert {event["annotator"] for event in log if event["event"] == "judgment"} == {"ann"}


def test_overview_status_and_payments_agree(make):
    paying = msgspec.structs.replace(load_protocol("da"), payment=PaymentRules(per_unit=2.0))
    campaign = make(paying, annotators=["ann", "bad", "gone"], per_output=2)
    judge_all(campaign)
    act(campaign, "exclude", "bad")
    act(campaign, "rejudge", "bad")
    campaign.forget("gone")
    now, status, paid = overview(campaign), campaign.status(), payments_of(campaign).people
    assert (now.done, now.wanted, now.seconds) == (status.units_done, status.units_wanted, status.active_seconds)
    assert now.money == pytest.approx(sum(row.base for row in paid))
    assert {row.annotator: row.outcome for row in paid} == {
        "ann": "completed",
        "bad": "failed",
        "forgotten-a3": "completed",
    }
    left = {one.annotator: one.units_done for one in status.annotators if one.active_seconds}
    assert now.seconds_left == pytest.approx(
        (status.units_wanted - status.units_done) * now.seconds / sum(left.values()), abs=0.1
    )


def test_new_links_replace_the_shared_link_of_crowds(make):
    campaign = make(annotators=["ann"])
    before, after = (campaign.links(new=new).crowd["link"].split("/")[-2] for new in (False, True))
    campaign.admission.require_shared_link(after)
    with pytest.raises(CollectError, match="not known"):
        campaign.admission.require_shared_link(before)
