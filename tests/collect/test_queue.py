"""The queue: whatever order leases, expiries, returns, revocations and late submissions come in, k is exact."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scipy import stats
from tests.collect.conftest import MEMORY, answers_for, changes, judge_all, people

import aliquot
from aliquot.collect.annotator_pages import Annotator
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import CollectError
from aliquot.collect.lists import choose_slot_order, make_fixed_lists
from aliquot.collect.queue import OpenUnit, choose_unit
from aliquot.collect.statements import sql
from aliquot.collect.store import Clock, Store

K = 2


class Hands(Clock):
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        self.time += 0.001
        return round(self.time, 3)


_template: dict[str, Path] = {}


def template(assign: str) -> Path:
    """One campaign of each policy, copied for every example."""
    if assign not in _template:
        place = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None)) / f"{assign}.db"
        small = aliquot.synthetic(items=4, systems=2, seed=2, document_length=2, annotators=0)
        Campaign.create(small, None, "da", 3, per_output=K, path=place, assign=assign).close()
        _template[assign] = place
    return _template[assign]


class Queue(RuleBasedStateMachine):
    """People who come and go in any order."""

    @initialize(assign=st.sampled_from(["shared", "fixed"]))
    def begin(self, assign):
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        for ending in ("", ".key"):
            shutil.copy(f"{template(assign)}{ending}", self.folder / f"c.db{ending}")
        self.clock = Hands()
        self.campaign = Campaign(Store(self.folder / "c.db", self.clock))
        self.people = people(self.campaign)
        self.open: dict[str, dict[str, Any]] = {}  # the unit that each person has on the screen, leased or not
        self.rng = random.Random(0)

    def who(self, number: int) -> str:
        names = sorted(self.people)
        return names[number % len(names)]

    @rule(number=st.integers(0, 5))
    def next(self, number):
        name = self.who(number)
        found = self.campaign.pages.next_unit(self.people[name])
        if "unit" in found:
            self.open[name] = found["unit"]

    @rule(number=st.integers(0, 5))
    def save(self, number):
        name = self.who(number)
        if name in self.open:
            unit = self.open[name]
            try:
                self.campaign.pages.save(
                    self.people[name], unit["assignment"], changes(answers_for(self.campaign.protocol, unit, self.rng))
                )
            except CollectError as error:
                assert error.code == "lease_lost"  # noqa: PT017
                del self.open[name]

    @rule(number=st.integers(0, 5))
    def submit(self, number):
        """Perhaps twice, perhaps long after the lease expired."""
        name = self.who(number)
        if name in self.open:
            try:
                self.campaign.pages.submit(self.people[name], self.open[name]["assignment"])
            except CollectError as error:
                assert error.code == "lease_lost"  # noqa: PT017
                del self.open[name]

    @rule(number=st.integers(0, 5))
    def give_back(self, number):
        name = self.who(number)
        if name in self.open:
            try:
                self.campaign.pages.give_back(self.people[name], self.open.pop(name)["assignment"])
            except CollectError as error:
                assert error.code == "lease_lost"  # noqa: PT017

    @rule(hours=st.sampled_from([0.1, 1.0, 30.0]))
    def wait(self, hours):
        self.clock.time += 3600 * hours

    @rule(number=st.integers(0, 5))
    def revoke(self, number):
        name = self.who(number)
        if len(self.people) > 1:
            self.campaign.revoke(name)
            del self.people[name]
            self.open.pop(name, None)

    @rule()
    def add(self):
        if len(self.people) < 6:
            with self.campaign.store.read() as connection:
                count = connection.execute(sql("SELECT COUNT(*) FROM annotators")).scalar()
            self.campaign.add_annotators([f"new{count}"])
            self.people = people(self.campaign)

    @invariant()
    def k_is_exact(self):
        if not hasattr(self, "campaign"):
            return
        with self.campaign.store.read() as connection:
            units = connection.execute(sql("SELECT id, wanted, taken FROM units")).all()
            held = Counter(
                row.unit_id
                for row in connection.execute(
                    sql("SELECT unit_id FROM assignments WHERE state IN ('leased', 'planned', 'done')")
                )
            )
            pairs = connection.execute(sql("SELECT unit_id, annotator_id FROM assignments")).all()
            judged = Counter(
                (row.item, row.system)
                for row in connection.execute(sql("SELECT item, system FROM judgments WHERE marked IS NULL"))
            )
            twice = connection.execute(
                sql(
                    "SELECT COUNT(*) FROM (SELECT 1 FROM judgments GROUP BY item, system, annotator "
                    "HAVING COUNT(*) > 1) t"
                )
            ).scalar()
        for unit in units:
            assert unit.taken == held[unit.id] <= unit.wanted
        assert len(pairs) == len(set(pairs))
        assert all(count <= K for count in judged.values())
        assert not twice

    def teardown(self):
        if not hasattr(self, "campaign"):
            return
        self.clock.time += 1e6  # whoever went away does not come back; others finish
        self.campaign.add_annotators([f"last{number}" for number in range(K)])
        for name in list(self.people):
            self.campaign.revoke(name)
        judge_all(self.campaign)
        with self.campaign.store.read() as connection:
            judged = Counter(
                (row.item, row.system)
                for row in connection.execute(sql("SELECT item, system FROM judgments WHERE marked IS NULL"))
            )
        assert set(judged.values()) == {K}
        assert len(judged) == 8
        result = self.campaign.check()
        assert result.sound, result.faults
        self.campaign.close()
        shutil.rmtree(self.folder)


Queue.TestCase.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
test_any_order_keeps_k = Queue.TestCase


def test_a_late_submission_of_a_unit_that_others_finished_is_kept_and_marked(make):
    campaign = make("da", 2)
    clock = campaign.store.clock = Hands()
    ann, bob = people(campaign).values()
    unit = campaign.pages.next_unit(ann)["unit"]
    campaign.pages.save(ann, unit["assignment"], changes(answers_for(campaign.protocol, unit, random.Random(0))))
    clock.time += 1e6
    judge_all_as(campaign, bob)
    assert campaign.pages.submit(ann, unit["assignment"])["finished"]
    table = campaign.judgments().table
    cells = sum(output["cell"] is not None for row in unit["rows"] for output in row["outputs"])
    assert table.filter(table["marked"] == "surplus").height == cells
    assert campaign.status().units_done == campaign.status().units_wanted
    assert campaign.check().sound


def test_an_expired_unit_comes_back_with_its_answers(make):
    campaign = make("da", 2)
    clock = campaign.store.clock = Hands()
    ann = next(iter(people(campaign).values()))
    unit = campaign.pages.next_unit(ann)["unit"]
    given = answers_for(campaign.protocol, unit, random.Random(0))
    campaign.pages.save(ann, unit["assignment"], changes(given))
    clock.time += 1e6
    again = campaign.pages.next_unit(ann)["unit"]
    assert again["assignment"] == unit["assignment"]
    assert again["answers"] == given


def judge_all_as(campaign: Campaign, who: Annotator) -> None:
    while "unit" in (found := campaign.pages.next_unit(who)):
        unit = found["unit"]
        campaign.pages.save(who, unit["assignment"], changes(answers_for(campaign.protocol, unit, random.Random(1))))
        campaign.pages.submit(who, unit["assignment"])


def test_whoever_returns_a_unit_does_not_get_it_again(make):
    campaign = make("da", 2)
    ann, bob = people(campaign).values()
    first = campaign.pages.next_unit(ann)["unit"]
    second = campaign.pages.give_back(ann, first["assignment"], "I know the author")["unit"]
    assert second["assignment"] != first["assignment"]
    with pytest.raises(CollectError, match="given to somebody else"):
        campaign.pages.save(ann, first["assignment"], [])
    judge_all_as(campaign, ann)
    judge_all_as(campaign, bob)
    assert campaign.status().share == 1


def test_submitted_work_cannot_be_returned(make):
    """A provider that reports a return after the submission changes nothing: the work counts."""
    campaign = make("da", 1)
    ann = next(iter(people(campaign).values()))
    unit = campaign.pages.next_unit(ann)["unit"]
    campaign.pages.save(ann, unit["assignment"], changes(answers_for(campaign.protocol, unit, random.Random(0))))
    campaign.pages.submit(ann, unit["assignment"])
    before = campaign.judgments().table
    with pytest.raises(CollectError, match="submitted"):
        campaign.pages.give_back(ann, unit["assignment"])
    assert campaign.judgments().table.equals(before)
    assert campaign.status().units_done == 1


def test_a_protocol_file_changed_in_mid_campaign_changes_nothing(make, folder):
    """A campaign keeps the protocol it was made with; what may change has an action of its own and a version."""
    file = folder / "own.toml"
    file.write_text('name = "own"\ntitle = "T"\ninstructions = "I"\n[[widgets]]\nname = "score"\nkind = "score"\n')
    campaign = make(file, 1)
    place = campaign.store.place
    judge_all(campaign, units=1)
    file.write_text("not even TOML [")
    with Campaign.open(place) as again:
        assert again.protocol == campaign.protocol
        judge_all(again)
        assert again.status().share == 1
        assert again.check().sound


def test_leases_do_not_know_of_daylight_saving(make, monkeypatch):
    """Times are seconds since 1970: an hour that happens twice on the wall neither ends a lease nor lengthens one."""
    campaign = make("da", 2)
    ann, bob = people(campaign).values()
    unit = campaign.pages.next_unit(ann)["unit"]
    try:
        for zone in ("Europe/Prague", "Pacific/Kiritimati", "America/St_Johns"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert campaign.pages.next_unit(ann)["unit"]["assignment"] == unit["assignment"]
            assert campaign.pages.next_unit(bob)["unit"]["assignment"] != unit["assignment"]
    finally:
        monkeypatch.undo()
        time.tzset()
    judge_all(campaign)
    seconds = [float(row[0]) for row in events(campaign)]
    assert seconds == sorted(seconds)
    assert abs(seconds[-1] - time.time()) < 900  # the nearest time zones differ by a quarter of an hour
    assert campaign.check().sound


def events(campaign: Campaign) -> list[Any]:
    with campaign.store.read() as connection:
        return list(connection.execute(sql("SELECT time FROM events ORDER BY id")).all())


def test_order_effects_are_balanced(folder):
    """Chi-square: systems over slots, and systems over the halves of an annotator's work."""
    data = aliquot.synthetic(items=120, systems=4, seed=3, document_length=0, annotators=0)
    with Campaign.create(data, None, "best-worst", 4, path=folder / "c.db", seed=5) as campaign:
        for who in people(campaign).values():
            for _ in range(25):
                found = campaign.pages.next_unit(who)
                unit = found["unit"]
                answers = answers_for(campaign.protocol, unit, random.Random(0))
                campaign.pages.save(who, unit["assignment"], changes(answers))
                campaign.pages.submit(who, unit["assignment"])
        with campaign.store.read() as connection:
            rows = connection.execute(sql("SELECT system, slot, n FROM exposures")).all()
    counts = np.zeros((4, 4))
    for row in rows:
        counts[int(row.system.removeprefix("sys")) - 1, row.slot] += row.n
    assert stats.chi2_contingency(counts).pvalue > 0.2
    assert np.ptp(counts) <= 8


def test_systems_come_equally_early(make):
    data = aliquot.synthetic(items=60, systems=4, seed=3, document_length=0, annotators=0)
    campaign = make("da", 2, data=data)
    for who in people(campaign).values():
        for _ in range(40):
            unit = campaign.pages.next_unit(who)["unit"]
            campaign.pages.give_back(who, unit["assignment"])
    with campaign.store.read() as connection:
        rows = connection.execute(
            sql("SELECT u.systems, a.position FROM assignments a JOIN units u ON u.id = a.unit_id ORDER BY a.position")
        ).all()
    early = Counter(row.systems for row in rows if row.position <= 20)
    assert max(early.values()) - min(early.values()) <= 2


def test_fixed_lists_share_the_work():
    lists = make_fixed_lists([("A", "B"), ("C", "D")] * 50, ["x", "y", "z"], 2, 0)
    assert {len(units) for units in lists.values()} <= {66, 67}
    assert Counter(number for units in lists.values() for number, _ in units) == dict.fromkeys(range(100), 2)
    first = Counter(
        units[slots[0]]
        for entries in lists.values()
        for number, slots in entries
        for units in [[("A", "B"), ("C", "D")][number % 2]]
    )
    assert max(first.values()) - min(first.values()) <= 4


def test_choice_and_probability_are_logged(make):
    campaign = make("da", 1)
    who = next(iter(people(campaign).values()))
    campaign.pages.next_unit(who)
    with campaign.store.read() as connection:
        row = connection.execute(sql("SELECT payload FROM events WHERE kind = 'lease'")).scalar()
    for word in ("policy", "seed", "position", "probability"):
        assert f'"{word}"' in row
    assert choose_unit([OpenUnit(1, ("A",)), OpenUnit(2, ("A",))], {}, 0, "x")[1] == 0.5
    assert sorted(choose_slot_order([f"s{n}" for n in range(9)], {}, "x")) == list(range(9))
