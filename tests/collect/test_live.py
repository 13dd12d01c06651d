"""Live campaigns on both databases: bots judge, checks are planted, the organiser acts, and the log can be replayed."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.annotation.cleaning_steps import STEPS
from aliquot.collect import organiser, protocols
from aliquot.collect.actions import act
from aliquot.collect.annotator_pages import Annotator
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import StorageError
from aliquot.collect.organiser import LiveView, overview, snapshot_of
from aliquot.collect.organiser_page import page_values
from aliquot.collect.protocols import Checks, Gold, PaymentRules, Protocol, load_protocol
from aliquot.collect.statements import sql
from aliquot.errors import AliquotError

DATA = aliquot.synthetic(items=48, systems=3, seed=3)
SELECTION = aliquot.select(DATA, budget=24, seed=1)
SCORE = {
    (item, system): value
    for item, row in zip(DATA.ids, DATA.human_score(), strict=True)
    for system, value in zip(DATA.systems, row, strict=True)
}


def protocol(**checks) -> Protocol:
    changed = msgspec.structs.replace(load_protocol("da"), checks=Checks(**checks), payment=PaymentRules(per_unit=2.0))
    assert isinstance(changed, Protocol)
    return changed


class Bot:
    """Judges like a person with some noise, or gives the same score to everything."""

    def __init__(self, campaign: Campaign, name: str, *, careless: bool = False, seed: int = 0) -> None:
        self.campaign, self.careless, self.rng = campaign, careless, np.random.default_rng(seed)
        token = campaign.links().annotators[name].rpartition("/")[2]
        self.who: Annotator = campaign.pages.annotator(token)
        self.units: list[dict[str, Any]] = []

    def value(self, cell: str) -> float:
        with self.campaign.store.read() as connection:
            row = connection.execute(
                sql("SELECT item, system, control, expected FROM cells WHERE id = :id"), {"id": cell}
            ).one()
        if self.careless:
            return 50.0
        if row.expected:
            return float(msgspec.json.decode(row.expected)[0])
        score = 85 + 2 * SCORE[msgspec.json.decode(row.item), row.system] + self.rng.normal(0, 3)
        return float(np.clip(round(score - (25 if row.control else 0)), 0, 100))

    def work_blind(self) -> dict[str, Any]:
        """Give one score to everything, known to DATA or not."""
        self.careless = True
        return self.work()

    def work(self, most: int = 1000) -> dict[str, Any]:
        answer = self.campaign.pages.next_unit(self.who)
        while "unit" in answer and len(self.units) < most:
            unit = answer["unit"]
            self.units.append(unit)
            changes = [
                {
                    "id": f"{len(self.units)}-{output['cell']}",
                    "cell": output["cell"],
                    "active_ms": 5000,
                    "idle_ms": 0,
                    "answer": {"score": self.value(output["cell"])},
                }
                for row in unit["rows"]
                for output in row["outputs"]
                if output["cell"]
            ]
            self.campaign.pages.save(self.who, unit["assignment"], changes)
            answer = self.campaign.pages.submit(self.who, unit["assignment"])
        return answer


@pytest.fixture
def made(database, tmp_path, monkeypatch):
    """Make campaigns in a database; keys of PostgreSQL campaigns lie in the working folder."""
    monkeypatch.chdir(tmp_path)
    opened = []

    def make(names=("ann", "bob"), per_output=1, **checks) -> Campaign:
        campaign = Campaign.create(
            DATA, SELECTION, protocol(**checks), list(names), per_output=per_output, path=database, seed=4, unit_items=3
        )
        opened.append(campaign)
        return campaign

    yield make
    for campaign in opened:
        campaign.close()


def count(campaign: Campaign, statement: str) -> int:
    with campaign.store.read() as connection:
        return int(connection.execute(sql(statement)).scalar() or 0)


def test_checks_are_planted_graded_and_stay_out_of_the_scores(made):
    campaign = made(
        damaged=0.3, repeats=0.2, gold=(Gold(DATA.ids[0], "sys1", 60, 70), Gold(DATA.ids[1], "sys2", 20, 30))
    )
    good, careless = Bot(campaign, "ann"), Bot(campaign, "bob", careless=True)
    good.work(most=20)
    careless.work()
    table = campaign.judgments().table
    planted = table.filter(pl.col("control").is_not_null())
    assert planted.height >= 5
    assert table.filter(pl.col("repeat") == 1).height >= 2
    known = planted.filter(pl.col("expected").is_not_null() & (pl.col("annotator") == "ann"))
    assert known.height == 0 or (known["value"] == known["expected"]).all()
    cards = {card.annotator: card for card in snapshot_of(campaign).annotators}
    assert cards["bob"].suggestion.startswith("pause")
    assert not cards["ann"].suggestion.startswith("pause")
    assert cards["ann"].damaged_passed > 0.7
    # every output that was to be judged is judged exactly once, whatever was planted between
    cells = table.filter(pl.col("control").is_null() & pl.col("repeat").is_null()).group_by("item", "system").len()
    assert cells.height == 24 * 3
    assert cells["len"].to_list() == [1] * cells.height
    assert campaign.check().sound
    marked = aliquot.clean(campaign.judgments(), steps="controls:minimum=0.7").judgments.table
    assert marked.filter((pl.col("annotator") == "bob") & pl.col("marked").is_null()).height == 0


def test_a_copy_comes_two_units_after_its_output(made, monkeypatch):
    """With a check whenever there can be one: work, work, then the first again, not the second."""

    monkeypatch.setattr(protocols, "_list_check_faults", lambda _: ())  # which allow a share of one half at the most
    campaign = made(names=("ann",), repeats=1.0)
    Bot(campaign, "ann").work(most=3)
    with campaign.store.read() as connection:
        rows = connection.execute(
            sql("SELECT u.kind, u.id FROM assignments a JOIN units u ON u.id = a.unit_id ORDER BY a.position")
        ).all()
        repeated = (
            connection.execute(
                sql("SELECT DISTINCT o.unit_id FROM cells c JOIN cells o ON o.id = c.repeat_of WHERE c.unit_id = :id"),
                {"id": rows[2].id},
            )
            .scalars()
            .all()
        )
    assert [row.kind for row in rows[:3]] == ["work", "work", "check"]
    assert repeated == [rows[0].id]


def test_a_planted_unit_looks_like_any_other(made):
    campaign = made(damaged=0.4, repeats=0.2)
    bot = Bot(campaign, "ann")
    bot.work()
    planted = count(campaign, "SELECT COUNT(*) FROM units WHERE kind = 'check'")
    assert planted > 3
    keys = {tuple(sorted(unit)) for unit in bot.units}
    assert len(keys) == 1
    text = msgspec.json.encode(bot.units).decode()
    assert not any(
        word in text for word in ("check", "control", "gold", "damaged", "repeat", "expected", *DATA.systems)
    )


def test_failing_annotators_are_paused_by_the_protocol(made):
    campaign = made(damaged=0.5, action="pause")
    answer = Bot(campaign, "bob", careless=True).work()
    assert answer.get("paused")
    (entry,) = [e for e in overview(campaign).audit if e["kind"] == "annotator_state"]
    assert entry["payload"]["work"] == "paused"
    assert "damaged copies" in entry["payload"]["reason"] or "one value" in entry["payload"]["reason"]
    act(campaign, "resume", "bob", reason="talked to them")
    assert "unit" in campaign.pages.next_unit(Bot(campaign, "bob").who)


def test_excluding_and_including_changes_what_counts_and_nothing_else(made):
    campaign = made()
    Bot(campaign, "ann").work(most=8)
    Bot(campaign, "bob", careless=True, seed=1).work(most=8)
    before = campaign.judgments().table
    act(campaign, "exclude", "bob", reason="always 50")
    excluded = campaign.judgments()
    assert set(excluded.usable().table["annotator"]) == {"ann"}
    assert len(excluded) == len(before)
    assert "finished" in campaign.pages.next_unit(Bot(campaign, "bob").who)
    act(campaign, "include", "bob")
    assert campaign.judgments().table.sort("order", "item").equals(before.sort("order", "item"))
    assert campaign.check().sound


def test_work_of_an_excluded_annotator_is_judged_again_by_others(made):
    campaign = made(names=("ann", "bob", "cyd"))
    Bot(campaign, "bob", careless=True).work(most=4)
    act(campaign, "exclude", "bob")
    act(campaign, "rejudge", "bob")
    Bot(campaign, "ann").work()
    usable = campaign.judgments().usable().table
    assert usable.group_by("item", "system").len()["len"].to_list() == [1] * 72
    assert campaign.check().sound


def test_more_judgments_more_items_and_the_end(made):
    campaign = made()
    Bot(campaign, "ann").work()
    with pytest.raises(AliquotError, match="2 are active"):
        act(campaign, "wanted", value="3")
    act(campaign, "wanted", value="2", reason="noise")
    Bot(campaign, "bob", seed=2).work()
    cells = campaign.judgments().table.group_by("item", "system").len()
    assert set(cells["len"]) == {2}
    said = act(campaign, "top_up", value="8")
    assert "more items" in said
    assert campaign.selection is not None
    assert len(campaign.selection) > 24
    assert campaign.selection.probability is not None
    Bot(campaign, "ann", seed=3).work()
    Bot(campaign, "bob", seed=4).work()
    assert campaign.judgments().table["item"].n_unique() == len(campaign.selection)
    result = aliquot.estimate(DATA, selection=campaign.selection, judgments=campaign.judgments())
    assert result.judged == len(campaign.selection)
    act(campaign, "close")
    assert "closed" in campaign.pages.next_unit(Bot(campaign, "ann").who)["message"]
    act(campaign, "open")
    assert campaign.check().sound


def test_messages_and_reassigned_work(made):
    campaign = made()
    bot = Bot(campaign, "ann")
    unit = campaign.pages.next_unit(bot.who)["unit"]
    act(campaign, "message", "ann", "Please mark omissions, too.")
    act(campaign, "message", "", "We finish on Friday.")
    texts = [message["text"] for message in campaign.pages.state(bot.who)["messages"]]
    assert texts == ["Please mark omissions, too.", "We finish on Friday."]
    assert campaign.pages.state(Bot(campaign, "bob").who)["messages"][0]["text"] == "We finish on Friday."
    said = act(campaign, "reassign", "ann", reason="ill")
    assert said.startswith("1 open units")
    assert count(campaign, "SELECT SUM(taken) FROM units") == 0
    assert campaign.pages.unit(bot.who, unit["assignment"])["unit"]["assignment"] == unit["assignment"]


def test_bad_actions_are_told(made):
    campaign = made()
    for action, target, value in (
        ("pauze", "ann", ""),
        ("pause", "anne", ""),
        ("wanted", "", "two"),
        ("top_up", "", "0"),
        ("message", "ann", ""),
        ("add", "", "ann"),
    ):
        with pytest.raises(AliquotError):
            act(campaign, action, target, value)


def test_the_overview_is_what_the_page_shows(made):
    campaign = made(per_output=2)
    Bot(campaign, "ann").work()
    Bot(campaign, "bob", seed=9).work()
    now = overview(campaign)
    plain = now.to_dict()
    msgspec.json.encode(plain)
    assert (plain["done"], plain["wanted"]) == (now.wanted, now.wanted)
    assert plain["money"] == 2.0 * now.done
    view = page_values(now)
    assert [row["system"] for row in view["systems"]] == [row["system"] for row in plain["snapshot"]["systems"]]
    assert view["progress"]["end"] == "finished"


def test_a_database_that_goes_away_for_a_while_loses_nothing(postgres, postgres_url, tmp_path, monkeypatch):
    """Work that cannot be stored is refused, never acknowledged; it goes through afterwards, and the page follows."""
    monkeypatch.chdir(tmp_path)
    campaign = Campaign.create(DATA, SELECTION, protocol(), ["ann"], path=postgres_url, seed=4, unit_items=3)
    bot, view = Bot(campaign, "ann"), LiveView(campaign, pause=0.05)
    bot.work(most=3)
    seen = view.wait(0, 10.0)
    assert seen > 0
    unit = campaign.pages.next_unit(bot.who)["unit"]
    change = [
        {
            "id": "x",
            "cell": unit["rows"][0]["outputs"][0]["cell"],
            "active_ms": 1,
            "idle_ms": 0,
            "answer": {"score": 50.0},
        }
    ]
    postgres.stop()
    try:
        for attempt in (
            lambda: campaign.pages.save(bot.who, unit["assignment"], change),
            lambda: campaign.pages.next_unit(bot.who),
        ):
            with pytest.raises(StorageError, match="nothing of it was stored; start the server"):
                attempt()
    finally:
        postgres.start()
    assert campaign.pages.save(bot.who, unit["assignment"], change)
    assert view.wait(seen, 10.0) > seen
    bot.work()
    now = overview(campaign)
    assert now.done == now.wanted
    campaign.close()


def adaptive(database, **options) -> Campaign:
    return Campaign.create(DATA, None, protocol(), ["ann", "bob"], path=database, seed=4, allocate="auto", **options)


def in_turn(*bots: Bot) -> None:
    """Bots work one unit each in turn until there is nothing left."""
    before = -1
    while before != (before := sum(len(bot.units) for bot in bots)):
        for bot in bots:
            bot.work(most=len(bot.units) + 1)


def test_the_queue_follows_the_allocator_and_a_restart_changes_nothing(database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    campaign = adaptive(database, question="best", budget=90)
    ann, bob = Bot(campaign, "ann"), Bot(campaign, "bob", seed=2)
    in_turn(ann, bob)
    table = campaign.judgments().table
    assert 40 < table.height <= 90
    assert table.group_by("item", "system").len()["len"].to_list() == [1] * table.height
    chosen = campaign.selection
    assert chosen is not None
    assert chosen.systems is not None
    asked = {(item, system) for item, names in zip(chosen.ids, chosen.systems, strict=True) for system in names}
    assert set(table.select("item", "system").iter_rows()) == asked
    again = Campaign.open(database)  # another process, from the log alone
    assert again.selection == chosen
    assert again.check().sound
    result = aliquot.estimate(DATA, selection=chosen, judgments=campaign.judgments())
    assert all(np.isfinite(row.se) for row in result.systems)
    now = overview(campaign).snapshot
    assert all(row.always_low <= row.estimate <= row.always_high for row in now.systems)
    again.close()
    campaign.close()


def test_a_failed_transaction_does_not_put_the_allocator_ahead_of_the_log(tmp_path, monkeypatch):
    campaign = adaptive(tmp_path / "c.db", question="top")
    bot = Bot(campaign, "ann")
    real = campaign.log.append

    def fail(connection, time, actor, event, client_id=None):
        if event.KIND == "lease":
            raise RuntimeError("the disk is full")
        return real(connection, time, actor, event, client_id)

    monkeypatch.setattr(campaign.log, "append", fail)
    with pytest.raises(RuntimeError):
        campaign.pages.next_unit(bot.who)
    monkeypatch.undo()
    unit = campaign.pages.next_unit(bot.who)["unit"]
    other = adaptive(tmp_path / "d.db", question="top")
    same = other.pages.next_unit(Bot(other, "ann").who)["unit"]
    assert [row["outputs"][0]["text"] for row in unit["rows"]] == [row["outputs"][0]["text"] for row in same["rows"]]
    assert campaign.check().sound


def test_an_allocator_needs_the_shared_queue_and_no_selection(tmp_path):
    with pytest.raises(AliquotError, match="chooses items by itself"):
        Campaign.create(DATA, SELECTION, "da", 2, path=tmp_path / "c.db", allocate="auto")
    with pytest.raises(AliquotError, match="shared queue"):
        Campaign.create(DATA, None, "da", 2, path=tmp_path / "c.db", allocate="auto", assign="fixed")


def test_a_new_campaign_has_an_overview(made):
    view = page_values(overview(made()))
    assert view["words"] == ("Nothing is judged yet.",)
    assert view["systems"] == []


def test_systems_join_later_and_guidelines_change(made, database):
    campaign = made()
    Bot(campaign, "ann").work(most=3)
    assert act(campaign, "guidelines", value="Omissions count, too.").startswith("annotators see version 2")
    assert campaign.pages.state(Bot(campaign, "ann").who)["guidelines"] == {
        "version": 2,
        "text": "Omissions count, too.",
    }
    assert DATA.outputs is not None
    more = aliquot.synthetic(items=48, systems=3, seed=3)
    assert more.outputs is not None
    outputs = more.outputs.with_columns(pl.Series("late", [f"late output {at}" for at in range(48)]))
    scores = {name: np.column_stack([table, table[:, :1]]) for name, table in more.scores.items()}
    wider = replace(more, systems=(*more.systems, "late"), outputs=outputs, scores=scores, judgments=None)
    with pytest.raises(AliquotError, match="no system that the campaign does not have"):
        campaign.add_systems(DATA)
    assert campaign.add_systems(wider, "a late submission") == ("late",)
    Bot(campaign, "bob", seed=2).work_blind()
    table = campaign.judgments().table
    late = table.filter(pl.col("system") == "late")
    assert late.height == 24
    assert late["item"].n_unique() == 24
    assert set(table["guidelines"]) == {1, 2}
    assert campaign.check().sound
    again = Campaign.open(database)
    assert again.data.systems == (*DATA.systems, "late")
    again.close()


def test_steps_of_cleaning_are_checked_when_a_campaign_is_made(made):
    with pytest.raises(AliquotError, match=r"checks.clean = 'foo': unknown cleaning step 'foo'"):
        made(clean="foo")
    with pytest.raises(AliquotError, match=r"checks.clean"):
        made(clean="outliers:nothing=3")


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ("outliers+exam:minimum=7", "minimum=7 should be between 0 and 1"),
        ("speeders:expected=soon", "should be seconds, e.g. 600"),
        ("scale:low=5,high=1", "the low end must be below"),
    ],
)
def test_thresholds_of_cleaning_are_checked_when_a_campaign_is_made(made, steps, fault):
    with pytest.raises(AliquotError, match=rf"checks.clean = '{re.escape(steps)}': .*{fault}"):
        made(clean=steps)


@pytest.mark.parametrize("name", STEPS)
def test_every_step_of_cleaning_may_stand_in_a_protocol(name):
    needed = {"scale": "scale:low=0,high=100", "labels": "labels:allowed=0|1"}
    given = protocol(clean=needed.get(name, name))
    assert load_protocol(given) is given


def test_a_failing_snapshot_is_shown_and_the_page_recovers(made, monkeypatch):
    campaign = made()
    view = LiveView(campaign, pause=0.01)
    real = organiser.snapshot_of

    def broken(_campaign):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(organiser, "snapshot_of", broken)
    shown = page_values(view.overview())
    assert "UTC the estimates cannot be computed: ZeroDivisionError: of all things" in shown["words"][0]
    assert view.overview().to_dict()["problem"]
    before = view.wait(-1, 0.0)
    Bot(campaign, "ann").work(most=1)
    assert view.wait(before, 30.0) != before  # progress goes on being shown
    monkeypatch.setattr(organiser, "snapshot_of", real)
    for _ in range(600):
        if view.overview().problem is None:
            break
        view.wait(view.wait(-1, 0.0), 0.1)
    assert view.overview().problem is None
    assert "cannot be computed" not in page_values(view.overview())["words"][0]


def test_a_panic_is_shown_and_a_dead_thread_is_started_again(made, monkeypatch):
    class PanicError(BaseException):
        """As polars raises it."""

    def broken(_campaign):
        raise PanicError("at the disco")

    campaign = made()
    view = LiveView(campaign, pause=0.01)
    monkeypatch.setattr(organiser, "snapshot_of", broken)
    assert "the estimates cannot be computed: PanicError: at the disco" in page_values(view.overview())["words"][0]
    view._thread = threading.Thread()  # one that is not running
    monkeypatch.undo()
    view.start()
    assert view._thread.is_alive()


def test_a_page_before_the_first_snapshot_says_so(made, monkeypatch):
    monkeypatch.setattr(organiser, "_FIRST_WAIT", 0.0)
    monkeypatch.setattr(LiveView, "start", lambda _: None)
    assert page_values(LiveView(made()).overview())["words"] == ("The first estimates are still being computed.",)


def test_a_stored_protocol_with_an_unknown_step_opens_and_its_page_says_so(made, monkeypatch):
    monkeypatch.setattr(protocols, "_list_cleaning_faults", lambda _: ())  # as before this was checked
    campaign = made(clean="foo")
    Bot(campaign, "ann").work(most=1)
    assert "unknown cleaning step 'foo'" in page_values(LiveView(campaign, pause=0.01).overview())["words"][0]


def test_a_snapshot_is_news_and_a_failure_only_once(made, monkeypatch):
    campaign = made(names=("ann",))
    view = LiveView(campaign)
    assert (view._take_snapshot(), view._version) == (True, 1)
    assert (view._take_snapshot(), view._version) == (False, 1)
    Bot(campaign, "ann").work(most=1)
    assert (view._take_snapshot(), view._version) == (True, 2)

    def failing(_campaign):
        raise AliquotError("too early")

    monkeypatch.setattr("aliquot.collect.organiser.snapshot_of", failing)
    Bot(campaign, "ann").work(most=1)
    assert [(view._take_snapshot(), view._version) for _ in range(2)] == [(True, 3), (True, 3)]
