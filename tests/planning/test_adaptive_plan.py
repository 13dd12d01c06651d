"""Plans of adaptive campaigns: cells until the question is decided, from a past campaign and from a pilot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.planning.conftest import judged_only

import aliquot
from aliquot import Judgments, synthetic
from aliquot.errors import AliquotError
from aliquot.planning.adaptive import AdaptivePlan, simulate_scores
from aliquot.planning.pilot import Pilot, take_pilot


@pytest.fixture(scope="module")
def campaign():
    """Systems more than a point apart, outputs judged three times: the best is decided after some hundred cells."""
    data = synthetic(items=90, systems=4, annotators=4, judgments_per_output=3, seed=3)
    assert data.judgments is not None
    return replace(data, judgments=Judgments(data.judgments.table.drop("seconds")))


def planned(data, **given: Any) -> AdaptivePlan:
    found = aliquot.plan(data, adaptive=True, **given)
    assert isinstance(found, AdaptivePlan)
    return found


PAST = {"replays": 30, "hourly": 20, "seconds_per_judgment": 36}


@pytest.fixture(scope="module")
def past(campaign) -> AdaptivePlan:
    return planned(campaign, **PAST, jobs=1)


def test_a_past_campaign_is_run_until_it_decides(past):
    found = past
    auto, uniform = found.policies
    assert (found.basis, found.runs, found.most) == ("replay", 6, 360)
    assert auto.policy == "auto"
    assert auto.decided == 1.0
    assert auto.cells < uniform.cells
    assert auto.cells <= auto.cells_90 <= found.most
    assert auto.hours == pytest.approx(3 * auto.cells * 36 / 3600)
    assert auto.money == pytest.approx(20 * auto.hours)
    assert f"after about {auto.cells:.0f} cells" in found.text[0]
    assert f"{uniform.cells:.0f} cells with the same guarantee" in found.text[1]
    assert found.to_frame().height == 2
    assert found.to_dict()["policies"][0]["policy"] == "auto"


def test_the_same_seed_gives_the_same_plan_on_any_number_of_processes(campaign, past):
    assert planned(campaign, **PAST, jobs=2).to_dict() == past.to_dict()


def test_a_made_up_campaign_is_like_the_pilot(campaign):
    """Means are draws of what the pilot knows; spread and correlation between systems are those of the judged items."""
    rows = np.random.default_rng(1).choice(90, 60, replace=False)
    pilot = Pilot(take_pilot(judged_only(campaign, rows))[0])
    scores = np.array([simulate_scores(pilot, np.random.default_rng(seed)) for seed in range(40)])
    means = scores.mean(axis=1)
    assert means.mean(axis=0) == pytest.approx(pilot.truth.mean(axis=0), abs=4 * means.std() / np.sqrt(40))
    real = campaign.human_score()[rows]
    assert scores.std(axis=1).mean(axis=0) == pytest.approx(real.std(axis=0), rel=0.05)
    correlation = np.mean([np.corrcoef(one.T)[0, 1] for one in scores])
    assert correlation == pytest.approx(np.corrcoef(real.T)[0, 1], abs=0.15)


def test_a_pilot_and_a_budget(campaign):
    pilot = judged_only(campaign, np.arange(0, 90, 3))
    found = planned(pilot, replays=20, budget="30%", question="ranking")
    assert (found.basis, found.most) == ("pilot", 108)
    assert max(row.cells for row in found.policies) <= 108


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"question": "means"}, "`question` is 'means'"),
        ({"policy": "autp"}, "did you mean 'auto'"),
        ({"items": 500}, "`items` is not for adaptive"),
        ({"goal": "best=0.9"}, "`goal` is not for adaptive"),
        ({"budget": "5h"}, "how long judging takes"),
    ],
)
def test_what_does_not_fit(campaign, given, said):
    with pytest.raises(AliquotError, match=said):
        aliquot.plan(campaign, adaptive=True, replays=20, **given)


def test_without_data_there_is_nothing_to_run():
    with pytest.raises(AliquotError, match="`adaptive` is about data"):
        aliquot.plan(difference=1, sd=2, adaptive=True)
