"""Campaigns end to end: what is answered is what is exported and estimated, once, and provable from the log."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.collect.conftest import answers_for, changes, judge_all, people

import aliquot
from aliquot.collect.campaign import Campaign
from aliquot.collect.errors import CollectError, StorageError
from aliquot.collect.protocols import list_protocols, protocol_text, read_protocol
from aliquot.collect.statements import sql
from aliquot.collect.store import Clock
from aliquot.errors import AliquotError, AliquotWarning, DataError


@pytest.mark.parametrize("protocol", list_protocols())
def test_every_preset_from_the_page_to_the_estimate(protocol, make, folder, data):
    campaign = make(protocol, 4, per_output=2)
    judge_all(campaign)
    assert campaign.status().share == 1
    assert campaign.check().sound
    judged = campaign.judgments().table
    pairs = set(judged.select("item", "system").unique().iter_rows())
    assert len(pairs) == (16 if protocol == "document-comparison" else 48)  # four documents, judged as one each
    criterion = "fluency" if protocol == "likert" else None
    results = []
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        assert campaign.export(folder / f"j.{ending}") == judged.height
    for name in (campaign.store.place, *(folder / f"j.{ending}" for ending in ("csv", "tsv", "jsonl", "parquet"))):
        result = aliquot.estimate(
            data, "mean", judgments=aliquot.load_judgments(name), criterion=criterion, target="given"
        )
        results.append(result.to_frame().select(pl.selectors.numeric()))
    means = results[0]["estimate"].to_list()
    if criterion is not None:
        judged = judged.filter(pl.col("criterion") == criterion)
    assert means == pytest.approx(
        [
            judged.filter(pl.col("system") == row.system)
            .group_by("item", "annotator")
            .agg(pl.col("value").sum() if protocol == "mqm" else pl.col("value").mean())
            .group_by("item")
            .agg(pl.col("value").mean())["value"]
            .mean()
            for row in aliquot.estimate(
                data, "mean", judgments=campaign.judgments(), criterion=criterion, target="given"
            ).systems
        ]
    )
    for other in results[1:]:
        for column in other.columns:
            assert other[column].to_list() == pytest.approx(results[0][column].to_list(), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("protocol", ["da", "mqm"])
def test_outputs_changed_since_people_judged_them_are_refused(make, data, protocol):
    campaign = make(protocol, 2)
    judge_all(campaign)
    system, place = data.systems[0], str(campaign.store.place)
    first, *others = data.outputs[system].to_list()
    changed = replace(data, outputs=data.outputs.with_columns(pl.Series(system, ["another text", *others])))
    same = replace(data, outputs=data.outputs.with_columns(pl.Series(system, [f"{first} ", *others])))
    aliquot.estimate(same, "mean", judgments=place, target="given")
    with pytest.raises(DataError, match=rf"1 output \(of '{system}' on item .* changed since people judged them"):
        aliquot.estimate(changed, "mean", judgments=place, target="given")
    with pytest.raises(DataError, match="give the data that the campaign was made of"):
        aliquot.sequential(changed, judgments=place, value_range=(-1000, 1000))


def test_an_output_corrected_before_the_campaign_is_a_note_and_its_judgments_count(make, data):
    chosen = aliquot.select(data, "segments", 6, seed=1)
    texts = data.outputs["sys1"].to_list()
    texts[list(data.ids).index(chosen.ids[0])] = "corrected"
    corrected = replace(data, outputs=data.outputs.with_columns(pl.Series("sys1", texts)))
    with pytest.warns(AliquotWarning, match="1 output .* changed since the selection was drawn"):
        campaign = make("da", 2, data=corrected, selection=chosen)
    judge_all(campaign)
    assert campaign.selection.check(corrected) == ()
    aliquot.estimate(corrected, selection=campaign.selection, judgments=campaign.judgments())
    found = aliquot.estimate(corrected, selection=chosen, judgments=str(campaign.store.place))
    assert any("changed since the selection" in note for note in found.notes)


@pytest.mark.parametrize(("protocol", "kind"), [("pairwise", "pairwise"), ("best-worst", "best-worst")])
def test_comparisons_reach_compare(protocol, kind, make):
    campaign = make(protocol, 3)
    judge_all(campaign)
    found = aliquot.compare(str(campaign.store.place))
    assert found.signature.split("|")[1].startswith("compare")
    rows = campaign.choices()
    assert rows.height == (24 if kind == "pairwise" else 12)
    if kind == "pairwise":
        assert set(rows["choice"]) <= {"a", "b", "tie"}
        values = campaign.judgments().table.group_by("item", "annotator", "page").agg(pl.col("value").sum())["value"]
        assert values.to_list() == [1.0] * len(values) or set(values.to_list()) <= {1.0, 2.0}


def test_answers_are_told_by_slot_and_kept_by_system(make):
    campaign = make("contrastive", 2, per_output=2)
    texts = {}
    for who in people(campaign).values():
        while "unit" in (found := campaign.pages.next_unit(who)):
            unit = found["unit"]
            given = {}
            for row in unit["rows"]:
                for output in row["outputs"]:
                    if output["cell"]:
                        given[output["cell"]] = {"errors": [], "score": float(len(output["text"]) % 101)}
                        texts[output["text"]] = float(len(output["text"]) % 101)
            campaign.pages.save(who, unit["assignment"], changes(given))
            campaign.pages.submit(who, unit["assignment"])
    data = campaign.data
    rows = {item: row for row, item in enumerate(data.ids)}
    table = campaign.judgments().table
    for row in table.iter_rows(named=True):
        assert row["value"] == texts[data.outputs[row["system"]][rows[row["item"]]]]


def test_what_is_sent_twice_is_stored_once(make):
    campaign = make()
    who = next(iter(people(campaign).values()))
    unit = campaign.pages.next_unit(who)["unit"]
    sent = changes(answers_for(campaign.protocol, unit, random.Random(0)))
    first = campaign.pages.save(who, unit["assignment"], sent)
    second = campaign.pages.save(who, unit["assignment"], sent)
    assert first == second
    with campaign.store.read() as connection:
        assert connection.execute(sql("SELECT COUNT(*) FROM events WHERE kind = 'save'")).scalar() == len(sent)
        assert set(connection.execute(sql("SELECT active_ms FROM answers")).scalars()) == {5000}


def test_the_last_answer_wins_and_all_are_in_the_log(make):
    campaign = make()
    who = next(iter(people(campaign).values()))
    unit = campaign.pages.next_unit(who)["unit"]
    cell = next(output["cell"] for row in unit["rows"] for output in row["outputs"] if output["cell"])
    for score in (10, 20, 30):
        campaign.pages.save(who, unit["assignment"], changes({cell: {"score": score}}, 1000))
    assert campaign.pages.unit(who, unit["assignment"])["unit"]["answers"][cell] == {"score": 30}
    with campaign.store.read() as connection:
        logged = [
            json.loads(text)["answer"]["score"]
            for text in connection.execute(sql("SELECT payload FROM events WHERE kind = 'save' ORDER BY id")).scalars()
        ]
        row = connection.execute(sql("SELECT revision, active_ms FROM answers")).one()
    assert logged == [10, 20, 30]
    assert tuple(row) == (3, 3000)


def test_submitting_names_what_is_missing(make):
    campaign = make("esa")
    who = next(iter(people(campaign).values()))
    unit = campaign.pages.next_unit(who)["unit"]
    cells = [output["cell"] for row in unit["rows"] for output in row["outputs"] if output["cell"]]
    campaign.pages.save(who, unit["assignment"], changes({cells[0]: {"errors": []}}))
    missing = campaign.pages.submit(who, unit["assignment"])["missing"]
    assert missing[0] == {"cell": cells[0], "widget": "score"}
    assert len(missing) == 2 * len(cells) - 1


def test_a_submitted_unit_can_be_changed(make):
    campaign = make()
    judge_all(campaign, units=1)
    who = next(w for w in people(campaign).values() if campaign.pages.history(w))
    entry = campaign.pages.history(who)[0]
    assert entry["done"]
    unit = campaign.pages.unit(who, entry["assignment"])["unit"]
    assert unit["submitted"]
    cell, answer = next(iter(unit["answers"].items()))
    changed = 100.0 - answer["score"]
    campaign.pages.save(who, entry["assignment"], changes({cell: {"score": changed}}))
    values = campaign.judgments().table["value"].to_list()
    assert changed in values
    assert len(values) == len(unit["answers"])
    campaign.pages.save(who, entry["assignment"], changes({cell: {}}))  # incomplete: the judgment stays
    assert campaign.judgments().table["value"].to_list() == values
    assert campaign.check().sound


def test_the_page_sees_no_names(make, data):
    for protocol in ("esa-ai", "pairwise", "document-comparison"):
        campaign = make(protocol, 2)
        who = next(iter(people(campaign).values()))
        told = [campaign.pages.state(who), campaign.pages.next_unit(who), campaign.pages.history(who)]
        text = json.dumps(told)
        for secret in (*data.systems, *data.metrics, "doc0", "doc1", '"system', "control", "expected"):
            assert secret not in text, secret
        keys = {key for row in told[1]["unit"]["rows"] for part in (row, *row["outputs"]) for key in part}
        assert keys <= {"context", "cell", "source", "reference", "outputs", "slot", "text", "lang", "prefilled"}


def test_bad_answers_are_refused(make):
    campaign = make("esa")
    ann, bob, _ = people(campaign).values()
    unit = campaign.pages.next_unit(ann)["unit"]
    cell, text = next((o["cell"], o["text"]) for row in unit["rows"] for o in row["outputs"] if o["cell"])
    span = {"start": 0, "end": 2, "quote": text[:2], "severity": "minor", "side": "output"}
    bad = {
        "outside 0 to 100": {"score": 101},
        "expected a number": {"score": "ten"},
        "between two steps": {"score": 0.5},
        "asks nothing called": {"scor": 1},
        "not what was shown": {"errors": [span | {"quote": "zz"}]},
        "not inside the text": {"errors": [span | {"end": 10**6}]},
        "no severity": {"errors": [span | {"severity": "x"}]},
        "expected a list": {"errors": "none"},
        "cannot be marked": {"errors": [span | {"side": "reference"}]},
        "an answer is an object": [1],
    }
    for message, answer in bad.items():
        with pytest.raises(CollectError, match=message) as error:
            campaign.pages.save(ann, unit["assignment"], [{"id": "x", "cell": cell, "answer": answer}])
        assert (error.value.code, error.value.status) == ("bad_answer", 422)
    with pytest.raises(CollectError, match="not in this unit"):
        campaign.pages.save(ann, unit["assignment"], [{"id": "x", "cell": "other", "answer": {}}])
    with pytest.raises(CollectError, match="no such unit"):
        campaign.pages.save(bob, unit["assignment"], [])
    with pytest.raises(CollectError, match="every change needs an id"):
        campaign.pages.save(ann, unit["assignment"], [{"cell": cell, "answer": {}}])
    with campaign.store.read() as connection:
        assert connection.execute(sql("SELECT COUNT(*) FROM answers")).scalar() == 0


def test_links(make):
    campaign = make(annotators=["ann", "bob"])
    links = campaign.links("https://x.org/")
    assert list(links.annotators) == ["ann", "bob"]
    assert links.organiser.startswith("https://x.org/o/")
    campaign.admission.require_organiser(links.organiser.rsplit("/", 1)[1])
    assert oct(campaign.inputs.key_file.stat().st_mode)[-3:] == "600"
    raw = Path(campaign.store.place).read_bytes()
    tokens = {name: link.rsplit("/", 1)[1] for name, link in links.annotators.items()}
    assert not any(token.encode() in raw for token in tokens.values())
    campaign.revoke("bob")
    with pytest.raises(CollectError, match="withdrawn") as error:
        campaign.pages.annotator(tokens["bob"])
    assert error.value.code == "link_revoked"
    renewed = campaign.links(new=True)
    assert list(renewed.annotators) == ["ann"]
    with pytest.raises(CollectError, match="not known"):
        campaign.pages.annotator(tokens["ann"])
    with pytest.raises(CollectError, match="not known"):
        campaign.admission.require_organiser(links.organiser.rsplit("/", 1)[1])
    with pytest.raises(AliquotError, match="unknown annotator 'bo'; did you mean 'bob'"):
        campaign.revoke("bo")
    campaign.inputs.key_file.unlink()
    with pytest.raises(AliquotError, match="--new"):
        campaign.links()
    assert campaign.links(new=True).annotators
    assert campaign.check().sound


def test_a_form_is_asked_once(make):
    text = protocol_text("da")[0].replace(
        "[facts]",
        '[[widgets]]\nname = "about"\nkind = "form"\nfields = [{ name = "consent", kind = "consent" }]\n[facts]',
    )
    campaign = make(read_protocol(text, "x.toml"), 1)
    who = next(iter(people(campaign).values()))
    unit = campaign.pages.next_unit(who)["unit"]
    assert unit["annotator_cell"] == "form"
    campaign.pages.save(who, unit["assignment"], changes(answers_for(campaign.protocol, unit, random.Random(0))))
    assert campaign.pages.submit(who, unit["assignment"])["missing"] == [{"cell": "form", "widget": "about"}]
    campaign.pages.save(who, unit["assignment"], changes({"form": {"about": {"consent": True}}}))
    assert "annotator_cell" not in campaign.pages.submit(who, unit["assignment"])["unit"]
    assert campaign.check().sound


def test_changes_that_wait_share_a_commit(make):
    """While one transaction is held up, others gather, and all are answered."""
    campaign = make()
    commits = []
    whole = campaign.store._commit_batch

    def counted(batch):
        commits.append(len(batch))
        whole(batch)

    campaign.store._commit_batch = counted
    waiting = threading.Event()
    first = campaign.store.submit(lambda _: waiting.wait(60))
    futures = [campaign.store.submit(lambda _, n=n: n) for n in range(20)]
    failing = campaign.store.submit(lambda _: 1 // 0)
    waiting.set()
    assert [future.result(60) for future in futures] == list(range(20))
    with pytest.raises(ZeroDivisionError):
        failing.result(60)
    first.result(60)
    assert len(commits) <= 3
    assert sum(commits) == 22


def test_a_failing_change_undoes_only_itself(make):
    campaign = make()
    insert = sql("INSERT INTO counters (name, value) VALUES (:name, 1)")

    def good(connection):
        connection.execute(insert, {"name": "good"})

    def bad(connection):
        connection.execute(insert, {"name": "bad"})
        raise ValueError

    waiting = threading.Event()
    hold = campaign.store.submit(lambda _: waiting.wait(60))
    futures = [campaign.store.submit(change) for change in (good, bad)]
    waiting.set()
    hold.result(60)
    futures[0].result(60)
    with pytest.raises(ValueError):  # noqa: PT011
        futures[1].result(60)
    with campaign.store.read() as connection:
        names = connection.execute(sql("SELECT name FROM counters")).scalars().all()
    assert "good" in names
    assert "bad" not in names


def test_many_threads_at_once(make):
    campaign = make("da", 8, per_output=2)
    faults: list[Exception] = []

    def work(who):
        try:
            while "unit" in (found := campaign.pages.next_unit(who)):
                unit = found["unit"]
                campaign.pages.save(
                    who, unit["assignment"], changes(answers_for(campaign.protocol, unit, random.Random(0)))
                )
                campaign.pages.submit(who, unit["assignment"])
        except Exception as error:  # noqa: BLE001
            faults.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in people(campaign).values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert campaign.status().share == 1
    assert campaign.check().sound


def test_check_notices_what_was_changed_by_hand(make):
    campaign = make()
    judge_all(campaign, units=2)
    assert campaign.check().sound
    campaign.store.write(lambda connection: connection.execute(sql("UPDATE judgments SET value = value + 1")))
    faults = campaign.check().faults
    assert len(faults) == 1
    assert faults[0].startswith("judgments: ")


def test_time_never_goes_back(monkeypatch):
    clock = Clock(at_least=time.time() + 1000)  # the log is ahead of a clock that was set back
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before > 1000
    assert clock.now() >= before


def test_a_campaign_is_made_whole_or_not_at_all(folder, data):
    (folder / "c.db").write_text("mine")
    with pytest.raises(AliquotError, match="exists already"):
        Campaign.create(data, None, "da", 2, path=folder / "c.db")
    assert (folder / "c.db").read_text() == "mine"
    with pytest.raises(AliquotError, match="does not exist"):
        Campaign.create(data, None, "da", 2, path=folder / "no" / "c.db")
    assert [path.name for path in folder.iterdir()] == ["c.db"]
    with pytest.raises(AliquotError, match="nobody judges an output twice"):
        Campaign.create(data, None, "da", 2, per_output=3, path=folder / "d.db")
    with pytest.raises(AliquotError, match="'ann' is named twice"):
        Campaign.create(data, None, "da", ["ann", "ann"], path=folder / "d.db")


def test_a_locked_file_is_said_and_nothing_is_lost(make, monkeypatch):
    import sqlite3

    campaign = make()
    who = next(iter(people(campaign).values()))
    unit = campaign.pages.next_unit(who)["unit"]
    sent = changes(answers_for(campaign.protocol, unit, random.Random(0)))
    campaign.store.engine.dispose()
    monkeypatch.setattr("aliquot.collect.schema.BUSY_SECONDS", 0.1)
    with Campaign.open(campaign.store.place) as impatient:
        other = sqlite3.connect(campaign.store.place, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="database is locked") as error:
            impatient.pages.save(who, unit["assignment"], sent)
        assert (error.value.code, error.value.status) == ("storage", 503)
        other.execute("ROLLBACK")
        other.close()
        assert len(impatient.pages.save(who, unit["assignment"], sent)["saved"]) == len(sent)


def test_inputs_are_kept(make, data, folder):
    chosen = aliquot.select(data, "segments", 5, seed=1)
    campaign = make("da", 2, selection=chosen)
    assert campaign.data == data
    assert campaign.selection == chosen
    judge_all(campaign)
    result = aliquot.estimate(data, selection=chosen, judgments=str(campaign.store.place))
    assert len(result.systems) == 4
    with pytest.raises(AliquotError, match="which is not in the data"):
        Campaign.create(data.drop(items=list(chosen.ids)[:1]), chosen, "da", 2, path=folder / "other.db")


def test_three_annotators_unless_said_otherwise(folder, data):
    with Campaign.create(data, path=folder / "default.db") as campaign:
        assert len(campaign.links().annotators) == 3
        assert campaign.protocol.name == "esa"
