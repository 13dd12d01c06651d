"""Automatic judges: the same calls, never in human scores, one more metric for the estimator."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.collect.bots import answer_unit, changes
from aliquot.collect.campaign import Campaign
from aliquot.core.judgments import MODEL, Judgments
from aliquot.errors import NameUnknownError

pytestmark = pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")
DATA = aliquot.synthetic(items=20, systems=3, seed=2)
CHOSEN = aliquot.select(DATA, "random", 8, seed=1)


def judge_all(campaign, name, score, most=None):
    """Judge everything that the server hands out; `score` says what an output's text is worth."""
    token = campaign.links().annotators[name].rsplit("/", 1)[1]
    who, rng = campaign.pages.annotator(token), random.Random(1)
    protocol, done = campaign.protocol.for_page(), 0
    reply = campaign.pages.next_unit(who)
    while "unit" in reply and done != most:
        unit = reply["unit"]
        answers = answer_unit(unit, protocol, rng)
        texts = {o["cell"]: o["text"] for row in unit["rows"] for o in row["outputs"] if o.get("cell")}
        for cell in answers:
            answers[cell]["score"] = score(texts[cell])
        campaign.pages.save(who, unit["assignment"], changes(answers, rng))
        reply = campaign.pages.submit(who, unit["assignment"])
        done += 1
    return done


def length(text):
    return min(100, len(text))


@pytest.fixture
def campaign(tmp_path):
    with Campaign.create(DATA, CHOSEN, "da", ["ann", "bob"], path=tmp_path / "c.db", unit_items=3) as made:
        yield made


def test_a_judge_takes_nothing_from_people_and_covers_the_whole_set(campaign):
    wanted = campaign.status().units_wanted
    campaign.add_annotators(["gpt"], "model")
    assert campaign.status().units_wanted == wanted
    judge_all(campaign, "gpt", length)
    status = campaign.status()
    assert (status.units_done, status.answers) == (0, 0)
    judge_all(campaign, "ann", lambda _: 50)
    assert campaign.status().units_done == campaign.status().units_wanted
    table = campaign.judgments().table
    machine = table.filter(pl.col("annotator") == "gpt")
    assert machine.select("item", "system").n_unique() == DATA.n_items * DATA.n_systems
    assert machine["marked"].unique().to_list() == [MODEL]
    assert table.filter(pl.col("annotator") == "ann").select("item", "system").n_unique() == 8 * 3
    assert campaign.check().sound


def test_human_scores_are_the_same_with_and_without_a_judge(campaign):
    judge_all(campaign, "ann", length)
    alone = aliquot.estimate(DATA, "mean", selection=CHOSEN, judgments=campaign.judgments())
    campaign.add_annotators(["gpt"], "model")
    judge_all(campaign, "gpt", lambda _: 1)
    both = aliquot.estimate(DATA, "mean", selection=CHOSEN, judgments=campaign.judgments())
    assert [(r.system, r.estimate) for r in alone.systems] == [(r.system, r.estimate) for r in both.systems]
    assert campaign.judgments().usable().annotators == ["ann"]


def test_two_judges_share_the_extra_units_and_people_never_get_them(campaign):
    campaign.add_annotators(["one"], "model")
    units = campaign.counts()["units"]
    campaign.add_annotators(["two"], "model")
    assert campaign.counts()["units"] == units
    assert judge_all(campaign, "one", length) == judge_all(campaign, "two", length) == units
    judged = judge_all(campaign, "bob", length)
    assert judged == campaign.status().units_wanted < units


def test_the_judge_is_one_more_metric():
    worth = np.random.default_rng(4).uniform(20, 80, (DATA.n_items, DATA.n_systems))
    truth = {(i, s): float(worth[row, at]) for row, i in enumerate(DATA.ids) for at, s in enumerate(DATA.systems)}
    chosen = aliquot.select(DATA, "pps", 10, seed=1)
    people = [
        {"item": i, "system": s, "annotator": "ann", "value": truth[i, s], "marked": None}
        for i in chosen.ids
        for s in DATA.systems
    ]
    machine = [
        {"item": i, "system": s, "annotator": "gpt", "value": v / 2, "marked": MODEL} for (i, s), v in truth.items()
    ]
    judged = Judgments(pl.DataFrame(people + machine, schema_overrides={"marked": pl.String}))
    bare = aliquot.EvalSet(DATA.items, DATA.systems, {}, DATA.outputs, name="bare")
    found = aliquot.estimate(bare, "greg:metrics=judge:gpt", selection=chosen, judgments=judged)
    plain = aliquot.estimate(bare, "mean", selection=chosen, judgments=judged)
    right = {s: worth[:, at].mean() for at, s in enumerate(DATA.systems)}

    def off(result):
        return max(abs(row.estimate - right[row.system]) for row in result.systems)

    assert off(found) < off(plain) / 3  # the judge is twice too low, and else perfect
    assert max(row.se for row in found.systems) < min(row.se for row in plain.systems)


def test_an_unknown_kind(campaign):
    with pytest.raises(NameUnknownError, match="`kind` is 'robot'"):
        campaign.add_annotators(["x"], "robot")
