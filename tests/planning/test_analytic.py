"""Plans without data: the paper's table, METHODS' formula, inverses that invert, money, and contradictions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

import aliquot
from aliquot.errors import OptionError
from aliquot.planning.power import PowerPlan, PowerTable, Setting

PAPER = {
    25: [32489, 8124, 3612, 2032, 1301],
    23: [27499, 6876, 3057, 1720, 1102],
    21: [22925, 5733, 2549, 1435, 919],
    19: [18766, 4693, 2087, 1175, 753],
    17: [15024, 3757, 1671, 941, 603],
    15: [11697, 2926, 1301, 733, 470],
}
"""Wei and Jia 2021: judgments of both systems together, for differences of 1 to 5 points."""


def power_plan(**numbers) -> PowerPlan:
    found = aliquot.plan(**numbers)
    assert isinstance(found, PowerPlan)
    return found


def test_all_thirty_cells_of_the_paper():
    found = aliquot.plan(table=True)
    assert isinstance(found, PowerTable)
    assert {int(sd): list(row) for sd, row in zip(found.sds, found.judgments, strict=True)} == PAPER
    assert found.differences == (1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.mark.parametrize(("sd", "place"), [(25, 0), (15, 4), (19, 2)])
def test_a_single_plan_rounds_up_per_system(sd, place):
    found = power_plan(difference=place + 1, sd=sd)
    assert 0 <= found.judgments - PAPER[sd][place] <= 2
    assert found.judgments == 2 * found.per_system


def test_lists_make_a_table():
    found = aliquot.plan(difference=[2, 3], sd=[25, 15])
    assert isinstance(found, PowerTable)
    assert found.judgments == ((8124, 3612), (2926, 1301))
    assert found.to_frame().height == 4
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(("rho", "items"), [(0.0, None), (0.6, None), (0.6, 1000), (0.0, 300)])
def test_paired_plans_follow_the_formula(rho, items):
    """n = (z_a + z_b)^2 s_d^2 (1 - rho^2) / delta^2, then n / (1 + n/N) (METHODS 7)."""
    n = (ndtri(0.975) + ndtri(0.95)) ** 2 * 10.0**2 * (1 - rho**2)
    n = n if items is None else n / (1 + n / items)
    found = power_plan(difference=1, sd_difference=10, rho=rho, items=items, systems=12)
    assert found.per_system == np.ceil(n)
    assert found.judgments == 12 * np.ceil(n)
    assert found.judged_items == found.per_system
    assert found.paired


def test_the_spread_of_differences_from_the_correlation_of_systems():
    direct = power_plan(difference=1, sd_difference=10 * np.sqrt(2 * 0.4))
    assert power_plan(difference=1, sd=10, system_correlation=0.6).per_system == direct.per_system
    careful = power_plan(difference=1, sd=10, paired=True)
    assert careful.spread == pytest.approx(10 * np.sqrt(2))
    assert any("uncorrelated" in note for note in careful.notes)


settings_of = st.builds(
    Setting,
    paired=st.booleans(),
    spread=st.floats(1.0, 30.0),
    rho=st.floats(-0.9, 0.9),
    rater=st.just(0.0),
    judgments=st.integers(1, 4),
    items=st.one_of(st.just(np.inf), st.integers(50, 5000).map(float)),
    alpha=st.floats(0.01, 0.2),
    power=st.floats(0.5, 0.99),
)


@settings(max_examples=60, deadline=None)
@given(settings_of, st.floats(0.3, 5.0), st.floats(0.0, 0.99))
def test_size_difference_and_power_are_inverses(setting, difference, judges):
    rater = judges * setting.spread**2 * (1 - setting.rho**2)
    setting = Setting(**{**vars(setting), "rater": rater})
    n = setting.required_items(difference)
    assert n <= setting.items * (1 + 1e-9) or setting.rater > 0
    if n <= 2.01:
        return
    assert setting.detectable_difference(n) == pytest.approx(difference, rel=1e-4)
    assert setting.power_of(n, difference) == pytest.approx(setting.power, abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(settings_of, st.floats(0.5, 5.0))
def test_more_is_never_worse(setting, difference):
    more = Setting(**{**vars(setting), "rho": 0.95})
    assert more.required_items(difference) <= setting.required_items(difference) + 1e-6
    larger = Setting(**{**vars(setting), "items": np.inf})
    assert setting.required_items(difference) <= larger.required_items(difference) + 1e-6
    assert setting.required_items(2 * difference) <= setting.required_items(difference) + 1e-6


def test_power_by_simulation():
    """Paired, with metric, finite test set and two judgments of an output: 1500 campaigns find it as often as said."""
    rng = np.random.default_rng(3)
    items, n, sd_item, sd_judge, rho_item = 400, 120, 4.0, 3.0, 0.7
    setting = Setting(
        True,
        np.sqrt(sd_item**2 + 2 * sd_judge**2),
        rater=2 * sd_judge**2,
        judgments=2,
        items=items,
        rho=rho_item * sd_item / np.sqrt(sd_item**2 + 2 * sd_judge**2),
    )
    found = 0
    for _ in range(1500):
        gap = rng.normal(size=items)
        gap = 0.9 + sd_item * (gap - gap.mean()) / gap.std(ddof=1)
        noise = rng.normal(size=items)
        metric = rho_item * (gap - 0.9) / sd_item + np.sqrt(1 - rho_item**2) * noise
        rows = rng.choice(items, n, replace=False)
        judged = gap[rows] + rng.normal(0, sd_judge, (2, n, 2)).mean(axis=0) @ [1, -1]
        slope = np.cov(judged, metric[rows])[0, 1] / metric[rows].var(ddof=1)
        estimate = judged.mean() - slope * (metric[rows].mean() - metric.mean())
        se = setting.detectable_difference(n) / (ndtri(0.975) + ndtri(0.95))
        found += estimate > ndtri(0.975) * se
    assert found / 1500 == pytest.approx(setting.power_of(n, 0.9), abs=0.04)


def test_the_inverse_questions():
    shown = power_plan(budget=2000, sd=25)
    assert (shown.question, shown.per_system) == ("difference", 1000)
    assert power_plan(difference=shown.difference, sd=25).per_system in (1000, 1001)
    chance = power_plan(budget=2000, sd=25, difference=shown.difference)
    assert chance.question == "power"
    assert chance.power == pytest.approx(0.95, abs=1e-6)
    assert "2000" in chance.text


@pytest.mark.parametrize(
    ("budget", "per_system"),
    [("500EUR", 1125), ("500 eur", 1125), ("25h", 1125), ("2250", 1125), (2250, 1125), ("2250items", 1125)],
)
def test_budgets_in_any_unit(budget, per_system):
    found = power_plan(budget=budget, sd=25, seconds_per_judgment=40, hourly=20)
    assert found.per_system == per_system
    assert found.hours == pytest.approx(25.0)
    assert found.money == pytest.approx(500.0)


def test_an_item_of_a_paired_plan_is_judged_for_all_systems():
    found = power_plan(budget="10h", sd_difference=10, systems=5, seconds_per_item=100)
    assert (found.per_system, found.judgments) == (360, 1800)
    same = power_plan(budget="10h", sd_difference=10, systems=5, seconds_per_judgment=20)
    assert same.per_system == 360


def test_all_items_and_more():
    found = power_plan(budget=40_000, sd_difference=10, items=1000)
    assert found.per_system == 1000
    assert found.difference == 0.0
    assert any("all 1000 items" in note for note in found.notes)


def test_judges_noise_stays_when_all_items_are_judged():
    found = power_plan(budget=40_000, sd_difference=10, items=1000, rater_variance=20)
    assert found.difference == pytest.approx((ndtri(0.975) + ndtri(0.95)) * np.sqrt(40 / 1000), rel=1e-3)
    assert found.repeats is not None
    assert [row.judgments_per_output for row in found.repeats.rows if row.best] == [20]
    assert "all 1000 items" in found.repeats.text


def test_a_test_set_that_is_too_small_for_noisy_judges():
    """Judging all 200 items once is not enough; the number of judgments of each output that is enough is told."""
    found = power_plan(difference=1, sd_difference=10, items=200, rater_variance=40)
    assert found.per_system == 200
    assert found.power < 0.95
    assert "not enough" in found.text
    needed = next(
        k for k in range(1, 100) if Setting(True, 10.0, rater=80.0, judgments=k, items=200.0).required_items(1) <= 200
    )
    assert any(f"at least {needed} judgments" in note for note in found.notes)
    assert (
        power_plan(difference=1, sd_difference=10, items=200, rater_variance=40, judgments_per_output=needed).power
        == 0.95
    )


def test_repeats_are_worth_it_when_new_items_are_dear():
    cheap = power_plan(difference=1, sd_difference=10, rater_variance=30, seconds_per_judgment=20)
    dear = power_plan(
        difference=1, sd_difference=10, rater_variance=30, seconds_per_judgment=20, seconds_per_new_item=1000
    )
    assert cheap.repeats is not None
    assert dear.repeats is not None
    assert next(row for row in cheap.repeats.rows if row.best).judgments_per_output == 1
    best = next(row for row in dear.repeats.rows if row.best)
    assert dear.repeats.formula == pytest.approx(np.sqrt(1000 / 40 * 60 / 40))
    assert abs(best.judgments_per_output - dear.repeats.formula) <= 1.5
    assert best.se < dear.repeats.rows[0].se


def test_many_systems_are_warned_of_many_pairs():
    assert not power_plan(difference=1, sd=25).notes
    assert "66 pairs" in power_plan(difference=1, sd=25, systems=12).notes[0]


def test_results_are_plain():
    found = power_plan(difference=1, sd_difference=10, rater_variance=5)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["items"] is None
    assert document["signature"].startswith("aliquot:")
    assert found.to_frame().height == 1
    assert "judgments per system" in repr(found)


BAD: dict[str, dict[str, Any]] = {
    "must be above 0": {"difference": 0, "sd": 25},
    "`difference` is -1": {"difference": -1, "sd": 25},
    "`difference` is nan": {"difference": float("nan"), "sd": 25},
    "`sd` is 0": {"difference": 1, "sd": 0},
    "`rho` is 1.2": {"difference": 1, "sd": 25, "rho": 1.2},
    "`rho` is -1.5": {"difference": 1, "sd": 25, "rho": -1.5},
    "power must exceed alpha": {"difference": 1, "sd": 25, "alpha": 0.2, "power": 0.1},
    "`power` is 1.0": {"difference": 1, "sd": 25, "power": 1.0},
    "`alpha` is 0.0": {"difference": 1, "sd": 25, "alpha": 0.0},
    "give `sd`": {"difference": 1},
    "nothing to plan": {"sd": 25},
    "`sd_difference` excludes": {"difference": 1, "sd": 25, "sd_difference": 4},
    "`system_correlation` is 1.0": {"difference": 1, "sd": 25, "system_correlation": 1.0},
    "`systems` is 1": {"difference": 1, "sd": 25, "systems": 1},
    "`items` is 1": {"difference": 1, "sd": 25, "items": 1},
    "`judgments_per_output` is 0": {"difference": 1, "sd": 25, "judgments_per_output": 0},
    "at least 2": {"budget": 3, "sd": 25},
    "a share of how many": {"budget": "50%", "sd": 25},
    "needs `seconds_per_judgment`": {"budget": "20h", "sd": 25},
    "needs `hourly`": {"budget": "20EUR", "sd": 25},
    "`budget` 'lots'": {"budget": "lots", "sd": 25},
    "above 0": {"budget": 0, "sd": 25},
    "`hourly` needs": {"difference": 1, "sd": 25, "hourly": 20},
    "two ways": {"difference": 1, "sd": 25, "seconds_per_item": 3, "seconds_per_judgment": 3},
    "needs data": {"difference": 1, "sd": 25, "cost": "esa_time"},
    "about data": {"difference": 1, "sd": 25, "goal": "best=0.9"},
    "one standard deviation": {"difference": [1, 2], "sd": 25, "budget": 100},
    "leaves nothing for the items": {"difference": 1, "sd": 5, "rater_variance": 100},
    "cannot predict": {"difference": 1, "sd": 5, "rho": 0.9, "rater_variance": 10},
    "a variance is at least 0": {"difference": 1, "sd": 5, "rater_variance": -1},
}


@pytest.mark.parametrize("said", BAD)
def test_contradictions_are_told(said):
    with pytest.raises(OptionError, match=said.replace("(", r"\(")):
        aliquot.plan(**BAD[said])
