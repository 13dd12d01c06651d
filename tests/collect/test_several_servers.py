"""Several servers of one campaign, on both databases: exactly k, nobody twice, one lease at a time, and backups."""

from __future__ import annotations

import threading
from pathlib import Path

import polars as pl
import pytest

import aliquot
from aliquot.collect.backup import backup
from aliquot.collect.campaign import Campaign
from aliquot.collect.events import sql
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
        who = campaign.annotator(campaign.links().annotators[name].rpartition("/")[2])
        answer = campaign.next_unit(who)
        while "unit" in answer:
            unit = answer["unit"]
            changes = [{"id": o["cell"], "cell": o["cell"], "answer": {"score": 50}, "active_ms": 1000, "idle_ms": 0}
                       for row in unit["rows"] for o in row["outputs"] if o["cell"]]  # fmt: skip
            campaign.save(who, unit["assignment"], changes)
            answer = campaign.submit(who, unit["assignment"])
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
