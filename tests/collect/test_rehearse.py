"""Rehearsals: simulated people drive the real server on a copy, and what is told is what happened."""

from __future__ import annotations

import dataclasses
import hashlib
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import caller

import aliquot
from aliquot.collect.bots import _draw_spans
from aliquot.collect.campaign import Campaign
from aliquot.collect.rehearse import rehearse
from aliquot.collect.simulated_people import Behaviour, draw_people, learn_behaviour, output_qualities
from aliquot.core.judgments import Judgments
from aliquot.errors import DataError, FormatError, OptionError

DATA = aliquot.synthetic(items=24, systems=3, seed=1)
CALM = Behaviour(noise=0.05, severity=0.0, careless=0.0, dropouts=0.0)


@pytest.fixture
def campaign(tmp_path):
    path = tmp_path / "campaign.db"
    Campaign.create(DATA, aliquot.select(DATA, "random", 12, seed=1), "esa", 3, path=path, per_output=2).close()
    return path


def facts(result):
    timed = ("p50_ms", "p95_ms")
    return {name: value for name, value in dataclasses.asdict(result).items() if name not in timed}


def test_the_campaign_itself_is_not_touched(campaign):
    before = hashlib.sha256(campaign.read_bytes()).hexdigest()
    found = rehearse(campaign, 4, behaviour=CALM, replays=2, hourly=30.0)
    assert hashlib.sha256(campaign.read_bytes()).hexdigest() == before
    with Campaign.open(campaign) as opened:
        assert opened.status().units_done == 0
    assert found.units_done == found.units_wanted
    assert found.judgments == 12 * 3 * 2
    assert found.money == pytest.approx(30.0 * found.hours)
    assert found.calls >= 2 * found.units_done
    assert found.half_width is not None
    assert found.half_width > 0


def test_the_same_seed_gives_the_same_rehearsal(campaign):
    one, two = (rehearse(campaign, 3, replays=1, seed=4) for _ in range(2))
    assert facts(one) == facts(two)
    assert facts(one) != facts(rehearse(campaign, 3, replays=1, seed=5))


def test_careless_people_are_caught_and_dropouts_leave_work_to_others(campaign):
    manner = Behaviour(noise=0.05, severity=0.02, careless=0.25, dropouts=0.5, pace_spread=0.05)
    found = rehearse(campaign, 4, behaviour=manner, replays=0)
    assert found.careless == 1
    assert found.left >= 1
    speeders = next(one for one in found.checks if one.check == "speeders")
    assert (speeders.caught, speeders.wrongly) == (1, 0)  # they are four times as fast


def test_more_noise_means_wider_intervals(campaign):
    quiet = rehearse(campaign, 3, behaviour=CALM, replays=3)
    loud = rehearse(campaign, 3, behaviour=dataclasses.replace(CALM, noise=0.4), replays=3)
    assert quiet.half_width is not None
    assert loud.half_width is not None
    assert loud.half_width > quiet.half_width


def test_at_once_and_other_protocols(tmp_path):
    for protocol in ("mqm", "pairwise"):
        path = tmp_path / f"{protocol}.db"
        Campaign.create(DATA, aliquot.select(DATA, "random", 4, seed=1), protocol, 3, path=path).close()
        found = rehearse(path, 5, behaviour=CALM, replays=0, at_once=True)
        assert found.units_done == found.units_wanted


def test_errors(campaign, tmp_path):
    with pytest.raises(OptionError, match="`annotators` is 0"):
        rehearse(campaign, 0)
    with pytest.raises(OptionError, match="`careless` is 2"):
        Behaviour(careless=2.0)
    (tmp_path / "no.db").write_text("nothing")
    with pytest.raises(FormatError):
        rehearse(tmp_path / "no.db")
    campaign.with_name("campaign.db.key").unlink()
    with pytest.raises(OptionError, match="the key of the campaign is missing"):
        rehearse(campaign)


def test_on_the_command_line(campaign, capsys):
    call = caller(capsys)
    said = call("collect", "rehearse", str(campaign), "--annotators", "3", "--replays", "1", "--cost", "hourly=20")
    assert said.code == 0, said.err
    assert "what checks would catch" in said.out
    assert "EUR" in said.out
    assert said.fits


# -- people --------------------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 40))
def test_shares_are_met_as_exactly_as_whole_people_allow(careless, dropouts, count):
    crowd = draw_people([str(at) for at in range(count)], Behaviour(careless=careless, dropouts=dropouts), 3)
    assert sum(person.careless for person in crowd) == round(careless * count)
    assert sum(person.leaves_after is not None for person in crowd) == round(dropouts * count)


def test_noise_severity_and_pace_are_learned_from_past_judgments():
    rng = np.random.default_rng(2)
    quality = rng.uniform(30, 70, 400)
    strict = rng.normal(0, 6, 12)
    rows = [(i, a, float(quality[i] + strict[a] + rng.normal(0, 9))) for i in range(400) for a in range(12)]
    items, who, values = ([row[at] for row in rows] for at in range(3))
    names = [str(a) for a in who]
    past = Judgments(pl.DataFrame({"item": items, "system": "A", "annotator": names, "value": values, "seconds": 14.0}))
    found = learn_behaviour(past, Behaviour())
    spread = float(np.ptp(past.table["value"].to_numpy()))
    assert found.noise * spread == pytest.approx(9, rel=0.03)
    assert found.severity * spread == pytest.approx(np.std(strict, ddof=1), rel=0.05)
    assert found.pace == 14.0
    with pytest.raises(DataError, match="at least two annotators"):
        learn_behaviour(Judgments(past.table.filter(pl.col("annotator") == "1")), Behaviour())


def test_qualities_come_from_human_scores_where_there_are_some():
    full = aliquot.synthetic(items=30, systems=3, annotators=3, seed=5)
    worth, origin = output_qualities(full, 0)
    if full.human is not None and np.isfinite(full.scores[full.human]).all():
        assert "score" in origin
        assert np.corrcoef(worth.ravel(), full.scores[full.human].ravel())[0, 1] == pytest.approx(1.0)
    assert ((worth >= 0) & (worth <= 1)).all()


@pytest.mark.parametrize(("quality", "score"), [(0.0, 0), (0.5, 50), (1.0, 100)])
def test_a_careful_annotator_scores_what_an_output_is_worth(campaign, quality, score):
    (person,) = draw_people(["ann"], Behaviour(noise=0.0, severity=0.0, careless=0.0, dropouts=0.0), seed=0)
    spans = []
    with Campaign.open(campaign) as opened:
        token = next(iter(opened.links().annotators.values())).rpartition("/")[2]
        unit = opened.pages.next_unit(opened.pages.annotator(token))["unit"]
        for answer in person.answers(unit, opened.protocol.for_page(), lambda _cell, _slot: quality).values():
            assert answer["score"] == score
            spans += answer["errors"]
    assert quality == 0.5 or bool(spans) == (quality == 0.0)


def test_four_in_ten_outputs_of_a_bot_have_no_error():
    widget = {"categories": {}, "severities": [{"name": "minor"}]}
    rng = random.Random(0)
    marked = [_draw_spans(widget, "abc", rng) for _ in range(2000)]
    assert sum(not spans for spans in marked) / 2000 == pytest.approx(0.4, abs=0.04)
    for (span,) in filter(None, marked):
        assert span["quote"] == "abc"[span["start"] : span["end"]] != ""
    assert [_draw_spans(widget, "", rng) for _ in range(20)] == [[]] * 20
