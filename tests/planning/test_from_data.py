"""Plans from a pilot and from a past campaign: what is foreseen happens, and what is said was counted."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr, stdtrit
from tests.planning.conftest import judged_only

import aliquot
from aliquot import EvalSet, synthetic
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.estimation.estimate_result import Estimates
from aliquot.planning.pilot import Pilot, take_pilot
from aliquot.planning.result import CampaignPlan
from aliquot.simulation.setup import resolve_method
from aliquot.stats.multiple_testing import adjust_p_values


def planned(data: EvalSet, **given) -> CampaignPlan:
    found = aliquot.plan(data, **given)
    assert isinstance(found, CampaignPlan)
    return found


@pytest.fixture(scope="module")
def replayed(campaign) -> CampaignPlan:
    return planned(campaign, budgets="10%,30%", replays=60, hourly=20, seconds_per_item=60)


@pytest.fixture(scope="module")
def foreseen(pilot) -> CampaignPlan:
    return planned(pilot, budgets="10%,30%", hourly=20, seconds_per_item=60)


def test_a_whole_campaign_is_replayed_and_a_part_is_foreseen(replayed, foreseen):
    assert (replayed.basis, replayed.judged) == ("replay", 240)
    assert (foreseen.basis, foreseen.judged) == ("pilot", 30)
    assert replayed.methods == foreseen.methods == ["random", "auto"]
    assert [point.items for point in replayed.curve("auto")] == [24, 72]
    assert replayed.stands_for["random"] == "segments + mean"


def test_pilots_foresee_widths_and_accuracy(campaign, replayed):
    """Ten pilots of 30 items: on average within 10% of the replayed widths at 72 items, and 5 points of accuracy."""
    rng = np.random.default_rng(7)
    truth = replayed.curve("auto")[1]
    ratios = []
    for _ in range(10):
        data = judged_only(campaign, rng.choice(240, 30, replace=False))
        now, point = planned(data, budgets="30%", target="given").curve("auto")
        assert (now.items, point.items) == (30, 72)
        ratios.append(
            [
                point.width / truth.width,
                point.width_difference / truth.width_difference,
                point.accuracy - truth.accuracy,
                (point.apart - truth.apart) / 15,
            ]
        )
    width, difference, accuracy, apart = np.mean(ratios, axis=0)
    assert width == pytest.approx(1.0, abs=0.1)
    assert difference == pytest.approx(1.0, abs=0.1)
    assert accuracy == pytest.approx(0.0, abs=0.05)
    assert apart == pytest.approx(0.0, abs=0.12)


@pytest.mark.parametrize("method", ["random", "auto"])
def test_a_whole_campaign_foreseen_is_the_campaign_replayed(campaign, replayed, method):
    """239 of 240 items judged: the widths of any smaller sample are those of the replays."""
    pilot = Pilot(take_pilot(judged_only(campaign, np.arange(1, 240)))[0])
    future, _ = pilot.forecast_units(resolve_method(method, campaign), 72)
    width = 2 * stdtrit(future.freedom(), 0.975) * np.sqrt(np.diag(future.covariance)).mean()
    assert width == pytest.approx(replayed.curve(method)[1].width, rel=0.06)


# -- continuing from what is judged --------------------------------------------------------------------------------


def told_apart(result: Estimates) -> set[frozenset[str]]:
    """Pairs with a significant difference: two-sided, Benjamini-Hochberg."""
    p = adjust_p_values(np.array([min(1.0, 2 * pair.p_sample) for pair in result.pairs]), "bh")
    return {frozenset((pair.a, pair.b)) for pair, value in zip(result.pairs, p, strict=True) if value < 0.05}


@pytest.mark.parametrize("target", ["testset", "given"])
def test_the_first_point_is_what_estimate_says_now(pilot, target):
    """The same test: told apart by now are the pairs that `estimate` tells apart."""
    found, now = planned(pilot, budgets="30%", target=target), aliquot.estimate(pilot, target=target)
    significant = told_apart(now)
    assert 0 < len(significant) < 15
    for pair in found.pairs:
        assert (pair.chance["auto"][0] > 0) == (frozenset((pair.a, pair.b)) in significant)
    here = found.curve("auto")[0]
    assert (here.items, found.recommendation.judged) == (30, 30)
    assert here.width == pytest.approx(np.mean([row.high - row.low for row in now.systems]), rel=1e-9)


def test_what_is_known_is_not_let_go(pilot):
    """A pair that is told apart now is told apart later with nearly the probability that it is truly different."""
    found = planned(pilot, budgets="15%,30%,60%", draws=4000)
    for pair in found.pairs:
        now, *later = pair.chance["auto"]
        if now > 0.99:
            assert min(later) > 0.97


def test_promised_pairs_are_told_apart_when_the_items_are_judged():
    """Pilots of 40 items and a wave of 60: pairs told apart, on average over campaigns, as planned before the wave."""
    promised, happened = [], []
    for seed in range(25):
        whole = synthetic(items=200, systems=4, annotators=0, seed=seed)
        first = aliquot.select(whole, "pps", 40, seed=seed)
        rows = np.flatnonzero(np.isin(whole.ids, first.ids))
        point = planned(judged_only(whole, rows), selection=first, budgets=[100], target="given", draws=500)
        promised.append(point.curve("auto")[-1].apart)
        larger = aliquot.select(whole, add_to=first, budget=100, seed=seed)
        result = aliquot.estimate(whole, selection=larger, target="given")
        happened.append(len(told_apart(result)))
    gap = np.array(promised) - np.array(happened)
    assert abs(gap.mean()) < 0.15 + 3 * gap.std(ddof=1) / np.sqrt(len(gap))


def test_the_words_say_what_to_add(pilot):
    advice = planned(pilot, budget="100items", hourly=20, seconds_per_item=60).recommendation
    assert (advice.judged, advice.more, advice.point.items) == (30, 70, 100)
    assert (
        "30 of 240 items are judged; with a budget of 100items, judge 70 more with auto (100 in all)" in advice.text[0]
    )
    assert "420 judgments, 1.2 hours, 23 EUR" in advice.text[0]
    same = planned(pilot, budget="+70", hourly=20, seconds_per_item=60).recommendation
    assert same.point == advice.point
    assert planned(pilot, budget="+420judgments").recommendation.point.items == 100
    assert "enough for" in planned(pilot, goal="apart=0.01").recommendation.text[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": 20}, "30 items are judged already, and this buys 20"),
        ({"budget": "5cost"}, "plan in items"),
        ({"budget": "+20", "beyond": True}, "starts anew"),
        ({"target": "all"}, "give `beyond=True`"),
    ],
)
def test_bad_continuations(pilot, given, said):
    with pytest.raises((OptionError, NameUnknownError), match=said):
        aliquot.plan(pilot, **given)


def test_replayed_numbers_are_those_of_simulate(campaign, replayed):
    """60 replays of the plan, 80 of `simulate`: 0.2 is 2.3 standard errors of the difference of two shares."""
    ours = replayed.curve("auto")[1]
    simulated = aliquot.simulate(
        campaign, ["auto"], ["30%"], repeats=80, measures=["width", "accuracy", "top1"], seed=5, parity=False
    )
    theirs = {cell.measure: cell for cell in simulated.cells if cell.method == "auto" and cell.asked}
    assert ours.width == pytest.approx(theirs["width"].value, rel=0.06)
    assert ours.accuracy == pytest.approx(theirs["accuracy"].value, abs=4 * (ours.accuracy_error + 1e-3))
    assert ours.best == pytest.approx(theirs["top1"].value, abs=0.2)


def test_a_pilot_drawn_by_a_design_uses_its_probabilities(campaign, replayed):
    ratios = []
    truth = replayed.curve("auto")[1]
    for seed in range(6):
        chosen = aliquot.select(campaign, "pps", 40, seed=seed)
        rows = np.flatnonzero(np.isin(campaign.ids, chosen.ids))
        data = judged_only(campaign, rows)
        point = planned(data, selection=chosen, budgets="30%", target="given").curve("auto")[-1]
        ratios.append(point.width / truth.width)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.12)


def test_a_pilot_without_two_items_of_a_document_is_careful(campaign):
    first = np.unique(campaign.documents, return_index=True)[1][:30]
    assert any("document" in note for note in planned(judged_only(campaign, first), budgets="30%").notes)
    assert not any("document" in note for note in planned(judged_only(campaign, np.arange(30)), budgets="30%").notes)


def test_judgments_given_apart(campaign):
    metrics = {name: campaign.scores[name] for name in campaign.metrics}
    bare = EvalSet(campaign.items, campaign.systems, metrics)
    chosen = aliquot.select(campaign, "segments", 40, seed=1)
    assert campaign.judgments is not None
    found = planned(bare, selection=chosen, judgments=campaign.judgments, budgets="30%")
    assert found.judged == 40
    assert found.judgments_per_output == 2.0
    assert found.repeats is not None
    assert "recorded" in found.seconds


def test_curves_rise_and_widths_fall(foreseen, pilot):
    curve = planned(pilot, budgets="5%:95%:7").curve("auto")
    for earlier, later in pairwise(curve):
        assert later.width < earlier.width
        assert later.detects < earlier.detects
        assert later.apart >= earlier.apart - 0.05
        assert later.accuracy >= earlier.accuracy - 0.005
    assert foreseen.curve("auto")[-1].width < foreseen.curve("random")[-1].width


def test_judging_everything_leaves_nothing_open(pilot, campaign):
    for found in (planned(pilot, budgets="50%,100%", target="given"), planned(campaign, budgets="50%,100%", replays=5)):
        for method in found.methods:
            last = found.curve(method)[-1]
            assert (last.width, last.width_difference, last.accuracy, last.best, last.ranking) == (0, 0, 1, 1, 1)
            assert last.apart == pytest.approx(15)


def test_the_same_seed_gives_the_same_plan(pilot, campaign):
    assert planned(pilot, seed=3).to_dict() == planned(pilot, seed=3).to_dict()
    assert planned(pilot, seed=3).to_dict() != planned(pilot, seed=4).to_dict()
    one = planned(campaign, budgets="20%", replays=6, jobs=1).to_dict()
    assert one == planned(campaign, budgets="20%", replays=6, jobs=2).to_dict()


def test_another_test_set_and_any_test_set(pilot):
    """A larger set of the same kind takes more items for the same width; any set at all a little more."""
    here = planned(pilot, budgets=[60], target="given").curve("auto")[-1]
    larger = planned(pilot, budgets=[60], items=2400).curve("auto")[0]
    endless = planned(pilot, budgets=[60], beyond=True).curve("auto")[0]
    assert here.width < larger.width < endless.width * 1.001
    sample, _ = take_pilot(pilot)
    random = resolve_method("random", pilot)
    small, large = (
        Pilot(sample, copies=copies).forecast_units(random, 60)[0].covariance[0, 0] for copies in (1.0, 10.0)
    )
    # The pilot's residuals are the same: only 1/n - 1/N differs.
    assert large / small == pytest.approx((1 / 60 - 1 / 2400) / (1 / 60 - 1 / 240), rel=0.02)
    assert np.isnan(endless.share)
    assert larger.share == pytest.approx(0.025)


def test_a_new_test_set_is_less_known_than_the_judged_one(pilot):
    sample, _ = take_pilot(pilot)
    here, other, endless = (Pilot(sample, copies=copies).known_covariance for copies in (1.0, 2.0, np.inf))
    assert np.diag(other)[0] > np.diag(endless)[0] > np.diag(here)[0]


# -- money and goals -----------------------------------------------------------------------------------------------


def test_costs_follow_the_items(replayed):
    for method in replayed.methods:
        point = replayed.curve(method)[0]
        assert point.judgments == 24 * 6 * 2
        assert point.hours == pytest.approx(24 * 60 * 2 / 3600, rel=1e-6)
        assert point.money == pytest.approx(20 * point.hours)


def test_designs_that_draw_long_items_take_longer(campaign):
    found = planned(campaign, budgets="20%", replays=20, cost="esa_time")
    random, auto = (found.curve(method)[0] for method in found.methods)
    assert auto.hours > random.hours


@pytest.mark.parametrize("goal", ["accuracy=0.93", "ranking=0.2", "width=1.5", "difference=1.2", "apart=0.7"])
def test_the_recommendation_reaches_its_goal_and_little_less_does_not(pilot, goal):
    found = planned(pilot, goal=goal)
    advice = found.recommendation
    assert advice.reached
    assert advice.goal == goal
    name, _, target = goal.partition("=")
    value = {
        "accuracy": advice.point.accuracy,
        "ranking": advice.point.ranking,
        "width": advice.point.width_difference,
        "difference": advice.point.detects,
        "apart": advice.point.apart / 15,
    }[name]
    assert value == pytest.approx(float(target), rel=0.04)
    assert advice.random_items > advice.point.items


def test_the_words_hold_the_numbers(replayed):
    advice = replayed.recommendation
    text = " ".join(advice.text)
    point = advice.point
    assert f"judge {point.items} of 240 items with auto" in text
    assert f"{point.judgments:.0f} judgments" in text
    assert f"{point.money:.0f} EUR" in text
    assert f"{point.apart:.0f} of 15 pairs" in text
    assert f"{advice.random_items:.0f} items" in text
    assert advice.random_items > point.items


@pytest.mark.parametrize(
    ("budget", "items"), [("72items", 72), ("30%", 72), ("864judgments", 72), ("2.4h", 72), ("48EUR", 72)]
)
def test_budgets_in_any_unit(campaign, budget, items):
    found = planned(campaign, budgets="10%,50%", budget=budget, replays=4, seconds_per_item=60, hourly=20)
    assert found.recommendation.point.items == items
    assert found.recommendation.budget == str(budget)


def test_a_budget_for_more_than_everything(campaign):
    found = planned(campaign, budgets="20%", budget="8640judgments", replays=4)
    assert found.recommendation.point.items == 240
    text = " ".join(found.recommendation.text)
    assert "200% more than judging all 240 items" in text
    assert found.repeats is not None
    assert "all 240 items and more" in found.repeats.text
    assert next(row for row in found.repeats.rows if row.best).judgments_per_output > 2


def test_a_goal_that_all_items_reach_is_never_called_missed(campaign):
    """Few replays are noisy: the number of items is moved on until the goal is reached when it is tried."""
    for seed in range(6):
        advice = planned(campaign, budgets="10%,30%", replays=3, seed=seed).recommendation
        assert advice.reached
        assert advice.point.accuracy >= 0.949
        assert "nearest" not in " ".join(advice.text)


def test_a_goal_that_nothing_reaches(pilot):
    found = planned(pilot, beyond=True, goal="ranking=0.999")
    assert not found.recommendation.reached
    assert "not reached by judging all 240 items" in " ".join(found.recommendation.text)


# -- pairs ---------------------------------------------------------------------------------------------------------


def test_pairs(replayed, campaign):
    assert len(replayed.pairs) == 15
    truth = dict(zip(campaign.systems, campaign.human_score().mean(axis=0), strict=True))
    for pair in replayed.pairs:
        assert pair.difference == pytest.approx(truth[pair.a] - truth[pair.b])
        assert pair.difference >= 0
    widest, closest = replayed.pairs[0], replayed.pairs[-1]
    assert widest.chance["auto"][1] > closest.chance["auto"][1]
    assert widest.needs["auto"] < closest.needs["auto"]
    for place, items in enumerate((24, 72)):
        total = sum(pair.chance["auto"][place] for pair in replayed.pairs)
        assert total == pytest.approx(next(p.apart for p in replayed.curve("auto") if p.items == items))
    frame = replayed.pairs_frame()
    assert frame.height == 15 * 2 * 2
    assert set(frame.columns) >= {"a", "b", "method", "items", "chance", "needs"}


def test_the_chance_of_a_pair_is_that_of_its_final_estimate(pilot):
    """From N(d, C) now to a final estimate with variance F: it is N(d, C - F), and must exceed t's bound."""
    data = pilot.keep(systems=["sys2", "sys3"])
    found = planned(data, budgets=[100], draws=20000, target="given")
    known = Pilot(take_pilot(data)[0])
    final = known.forecast_budget(resolve_method("auto", data), 100)
    spread = (
        known.known_covariance[0, 0]
        + known.known_covariance[1, 1]
        - 2 * known.known_covariance[0, 1]
        - final.pair_se[0, 0, 1] ** 2
    )
    gap, bound = found.pairs[0].difference, final.pair_half[0, 0, 1]
    wanted = ndtr((gap - bound) / np.sqrt(spread)) + ndtr((-gap - bound) / np.sqrt(spread))
    # The draws of two systems are not shrunk; the right way round is nearly certain once it is significant.
    assert found.pairs[0].chance["auto"][-1] == pytest.approx(float(wanted), abs=0.03)


def test_results_are_plain(replayed, foreseen):
    for found in (replayed, foreseen):
        document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert {"recommendation", "curve", "pairs", "repeats", "notes", "signature"} <= document.keys()
        assert len(document["curve"]) == found.to_frame().height == 4
        assert document["recommendation"]["text"]
    assert "CampaignPlan(" in repr(replayed)
    with pytest.raises(NameUnknownError, match="auto"):
        replayed.curve("auot")


# -- what is not there, and what does not fit ----------------------------------------------------------------------


def test_systems_and_items_judged_in_part_are_told(campaign):
    scores = np.full((240, 6), np.nan)
    scores[:40] = campaign.human_score()[:40]
    scores[30:40, 2] = np.nan
    scores[1:, 5] = np.nan
    found = planned(judged_only(campaign, np.arange(0)).with_score("human", scores), budgets="30%")
    assert found.judged == 30
    assert found.systems == campaign.systems[:5]
    assert "left out: sys6" in found.notes[0]
    assert "10 items" in found.notes[1]


def test_the_past_flag_takes_the_judged_items_for_everything(pilot):
    found = planned(pilot, past=True, budgets="50%", replays=5)
    assert (found.basis, found.judged, found.population) == ("replay", 30, 30.0)


def test_without_rater_noise_repeats_are_unknown_not_guessed(pilot):
    found = planned(pilot, budgets="30%")
    assert found.repeats is None
    assert any("`rater_variance`" in note for note in found.notes)
    told = planned(pilot, budgets="30%", rater_variance=1.0)
    assert told.repeats is not None


def test_other_methods(campaign, pilot):
    found = planned(pilot, method="pps:tau=0.5+mean", budgets="30%")
    assert found.methods[1] == "pps:tau=0.5+mean"
    assert planned(campaign, method="metric_var:metric=metricA", budgets="30%", replays=4).basis == "replay"
    with pytest.raises(OptionError, match="cannot be predicted"):
        aliquot.plan(pilot, method="metric_var:metric=metricA")
    with pytest.raises(OptionError, match="random is compared"):
        aliquot.plan(pilot, method="random")


def test_no_metrics_no_documents_no_sources():
    """`auto` is then a plain random sample with its mean; nothing is gained, and that is said."""
    data = synthetic(items=60, systems=3, metrics={}, document_length=0, texts=False, annotators=0, seed=2)
    found = planned(judged_only(data, np.arange(25)), budgets="20%,50%")
    assert resolve_method("auto", data).selector.name == "segments"
    assert "gains nothing" in " ".join(planned(judged_only(data, np.arange(25)), budget=40).recommendation.text)
    assert found.recommendation.judged == 25


@pytest.mark.parametrize(
    ("rows", "said"),
    [(0, "no item has a human score"), (1, "1 item is judged"), (3, "3 items are judged")],
)
def test_too_small_a_pilot(campaign, rows, said):
    with pytest.raises(DataError, match=said):
        aliquot.plan(judged_only(campaign, np.arange(rows)))


def test_scores_without_spread(campaign):
    scores = np.full((240, 6), np.nan)
    scores[:30] = campaign.human_score()[:30]
    scores[:30, 3] = -1.0
    with pytest.raises(DataError, match="'sys4' are equal"):
        aliquot.plan(judged_only(campaign, np.arange(0)).with_score("human", scores))


def test_no_human_scores_and_one_system(campaign):
    metrics = {name: campaign.scores[name] for name in campaign.metrics}
    with pytest.raises(DataError, match="`difference` and `sd`"):
        aliquot.plan(EvalSet(campaign.items, campaign.systems, metrics))
    with pytest.raises(DataError, match="at least two"):
        aliquot.plan(campaign.keep(systems=["sys1"]))


BAD = {
    "0 and all 240|between 2 and all 240": {"budgets": "500"},
    "`budgets` is 'x'": {"budgets": "x"},
    "buys 1 in all": {"budget": "1items"},
    "at most 100%": {"budget": "150%"},
    "money needs `hourly`": {"budget": "5EUR"},
    "how long judging takes": {"budget": "5h"},
    "`sd` is for planning without data": {"sd": 3},
    "`rho` is for": {"rho": 0.5},
    "two goals": {"difference": 1, "goal": "best=0.9"},
    "one difference": {"difference": [1, 2]},
    "must be above 0": {"difference": 0},
    "leave out `items`": {"past": True, "items": 400},
    "`items` is 1": {"items": 1},
    "`replays` is 1": {"replays": 1},
    "`draws` is 5": {"draws": 5},
    "power must exceed alpha": {"alpha": 0.3, "power": 0.2},
}


@pytest.mark.parametrize("said", BAD)
def test_bad_options(pilot, said):
    with pytest.raises(OptionError, match=said):
        aliquot.plan(pilot, **BAD[said])  # type: ignore[arg-type]


@pytest.mark.parametrize("metrics", [{}, {"same": 1.0}, {"own": 0.0}])
@pytest.mark.parametrize("judged", [20, 40])
@pytest.mark.parametrize("rater_variance", [None, 0.0, 0.1])
def test_identical_systems_are_not_told_apart(metrics, judged, rater_variance):
    rng = np.random.default_rng(0)
    human = np.repeat(rng.normal(50, 10, size=(40, 1)), 4, axis=1)
    scores = {
        name: rng.normal(size=(40, 1)) * kept + rng.normal(size=(40, 4)) * (1 - kept) for name, kept in metrics.items()
    }
    seen = np.where(np.arange(40)[:, None] < judged, human, np.nan)
    data = EvalSet(
        items=pl.DataFrame({"id": np.arange(40)}),
        systems=("a", "b", "c", "d"),
        scores={"human": seen, **scores},
        human="human",
        name="same",
    )
    result = aliquot.plan(data, budgets="20%,40%", replays=10, rater_variance=rater_variance)
    assert isinstance(result, CampaignPlan)
    assert all(point.apart == 0 for point in result.points)
    text = " ".join([*result.recommendation.text, "" if result.repeats is None else result.repeats.text])
    assert "inf" not in text
    if judged < 40:
        assert any("'a' and 'b'" in note and "have the same scores" in note for note in result.notes)


def test_plan_and_simulate_replay_the_same_draws(campaign):
    """Shares of a whole number of items: both replay the same samples and count the same."""
    sizes = [campaign.n_items // 10, campaign.n_items // 5]
    told = {point.items: point for point in planned(campaign, budgets=sizes, replays=12).curve("auto")}
    measures = ["accuracy", "top1", "width"]
    replays = aliquot.simulate(campaign, ["auto"], sizes, repeats=12, measures=measures, parity=False)
    cells = [cell for cell in replays.cells if cell.asked and cell.method == "auto"]
    assert len(cells) == 2 * 3
    for cell in cells:
        point = told[round(cell.items)]
        mine = {"accuracy": point.accuracy, "top1": point.best, "width": point.width}[cell.measure]
        assert mine == pytest.approx(cell.value, rel=1e-9), (cell.share, cell.measure)
