"""Several servers of one campaign, on both databases: exactly k, nobody twice, one lease at a time, and backups."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aliquot
from aliquot.collect.backup import backup
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import CollectError
from aliquot.collect.statements import sql
from aliquot.errors import AliquotError

DATA = aliquot.synthetic(items=20, systems=3, seed=2)
NAMES = [f"ann{number}" for number in range(6)]


@pytest.fixture
def place(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)  # keys of PostgreSQL campaigns lie in the working folder
    with Campaign.create(DATA, None, "da", NAMES, per_output=2, path=database, unit_items=2, seed=1):
        return database


def judge(campaign: Campaign, name: str, failures: list[BaseException]) -> None:
    """One person with two tabs: every call is made by whichever server answers."""
    try:
        who = campaign.pages.annotator(campaign.links().annotators[name].rpartition("/")[2])
        answer = campaign.pages.next_unit(who)
        while "unit" in answer:
            unit = answer["unit"]
            changes = [
                {"id": o["cell"], "cell": o["cell"], "answer": {"score": 50}, "active_ms": 1000, "idle_ms": 0}
                for row in unit["rows"]
                for o in row["outputs"]
                if o["cell"]
            ]
            campaign.pages.save(who, unit["assignment"], changes)
            answer = campaign.pages.submit(who, unit["assignment"])
    except BaseException as error:  # noqa: BLE001  (told by the test, not by a thread)
        failures.append(error)


def test_two_servers_and_two_tabs_keep_k_exact(place: str):
    servers = [Campaign.open(place) for _ in range(2)]
    failures: list[BaseException] = []
    # every person works through both servers at once, as with two tabs behind a proxy
    threads = [threading.Thread(target=judge, args=(server, name, failures)) for name in NAMES for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    table = servers[0].judgments().table
    assert "marked" not in table.columns
    per_output = table.group_by("item", "system").agg(pl.len(), pl.col("annotator").n_unique().alias("people"))
    assert per_output.height == 60
    assert set(per_output["len"]) == {2}
    assert set(per_output["people"]) == {2}
    with servers[1].store.read() as connection:
        most = connection.execute(sql("SELECT MAX(taken - wanted) FROM units")).scalar()
    assert most == 0
    assert servers[1].check().sound
    for server in servers:
        server.close()


class Page:
    """A tab of one annotator that a server of its own serves, as the page's outbox saves."""

    def __init__(self, server: Campaign, name: str = NAMES[0]) -> None:
        self.server, self.sent = server, 0
        self.who = server.pages.annotator(server.links().annotators[name].rpartition("/")[2])
        self.load(server.pages.next_unit(self.who)["unit"]["assignment"])

    def load(self, assignment: str) -> None:
        self.unit = self.server.pages.unit(self.who, assignment)["unit"]
        self.cells = [o["cell"] for row in self.unit["rows"] for o in row["outputs"] if o["cell"]]
        self.revisions = dict(self.unit["revisions"])

    def change(self, score: float, cell: int = 0) -> dict[str, Any]:
        name, self.sent = self.cells[cell], self.sent + 1
        return {
            "id": f"{id(self)}-{self.sent}",
            "cell": name,
            "answer": {"score": score},
            "active_ms": 1000,
            "idle_ms": 0,
            "base": self.revisions.get(name, 0),
            "writer": str(id(self)),
        }

    def send(self, *changes: dict[str, Any], heard: bool = True) -> dict[str, Any]:
        reply = self.server.pages.save(self.who, self.unit["assignment"], list(changes))
        if heard:
            self.revisions |= reply["revisions"]
        return reply

    def scores(self) -> list[float]:
        answers = self.server.pages.unit(self.who, self.unit["assignment"])["unit"]["answers"]
        return [answers[cell]["score"] for cell in self.cells if cell in answers]


def test_a_stale_page_overwrites_nothing(place: str):
    with Campaign.open(place) as one, Campaign.open(place) as other:
        fresh, stale = Page(one), Page(other)
        fresh.send(fresh.change(80), fresh.change(70, 1))
        fresh.send(fresh.change(81))
        fresh.server.pages.submit(fresh.who, fresh.unit["assignment"])
        with pytest.raises(CollectError, match="another tab") as refused:
            stale.send(stale.change(10))
        assert (refused.value.code, refused.value.status) == ("stale", 409)
        assert fresh.scores() == [81, 70]
        stale.load(stale.unit["assignment"])
        stale.send(stale.change(20))
        assert fresh.scores() == [20, 70]
        with pytest.raises(CollectError, match="another tab"):  # one stale change: nothing of the batch is stored
            fresh.send(fresh.change(71, 1), fresh.change(82))
        assert fresh.scores() == [20, 70]
        assert one.check().sound


def test_a_save_whose_acknowledgement_was_lost_is_not_stale(place: str):
    with Campaign.open(place) as one, Campaign.open(place) as other:
        page, second = Page(one), Page(other)
        lost = page.change(50)
        page.send(lost, heard=False)
        page.send(lost, heard=False)  # sent again as it is
        page.send(page.change(51), heard=False)  # changed before it was acknowledged: it follows on the page's own
        page.send(page.change(52))
        assert page.scores() == [52]
        with pytest.raises(CollectError, match="another tab"):
            second.send(second.change(10))
        late = page.change(53)
        page.send(late, heard=False)
        second.load(second.unit["assignment"])
        second.send(second.change(60))
        assert page.send(late)["revisions"] == {}  # stored before the other's, and not again
        assert page.scores() == [60]
        with pytest.raises(CollectError, match="another tab"):  # the first page has not seen the 60
            page.send(page.change(54))
        assert page.scores() == [60]


def test_a_backup_is_one_file_that_can_be_served(place: str, tmp_path: Path):
    with Campaign.open(place) as campaign:
        judge(campaign, NAMES[0], [])
        events = backup(campaign, tmp_path / "copy.db")
        with pytest.raises(AliquotError, match="exists already"):
            backup(campaign, tmp_path / "copy.db")
        before = campaign.judgments().table.sort("order", "item")
        assert events > 40
    with Campaign.open(tmp_path / "copy.db") as copy:
        assert copy.check().sound
        assert copy.judgments().table.sort("order", "item").equals(before)
        assert copy.data.fingerprint == DATA.fingerprint
