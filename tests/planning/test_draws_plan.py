"""Plans of prompts with several draws: more prompts or more draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.estimation.test_draws import simulate_draws

import aliquot
from aliquot.planning.result import CampaignPlan


def plan_pilot(judged: int, *, draws: int = 3, binary: bool = False, **options: object) -> CampaignPlan:
    data, _ = simulate_draws(3, prompts=200, draws=draws, binary=binary)
    scores = data.score("human").copy()
    scores[judged * draws :] = np.nan
    plan = aliquot.plan(replace(data, scores={"human": scores}), budgets="50%", seed=1, **options)  # type: ignore[arg-type]
    assert isinstance(plan, CampaignPlan)
    return plan


def test_more_prompts_come_before_more_draws() -> None:
    plan = plan_pilot(40, budget="50items")
    assert plan.population == 200
    assert plan.judgments_per_output == pytest.approx(3)
    assert plan.repeats is not None
    assert plan.repeats.text.startswith("Judge one draw of each prompt")
    rows = {row.judgments_per_output: row for row in plan.repeats.rows}
    # 50 prompts with 3 draws cost as much as 150 with one: S (1/n - 1/N) + W / (n k) of differences, S 0.5, W 4.5
    expected = {1: 0.5 * (1 / 150 - 1 / 200) + 4.5 / 150, 3: 0.5 * (1 / 50 - 1 / 200) + 4.5 / 150}
    for draws, variance in expected.items():
        assert rows[draws].se == pytest.approx(np.sqrt(variance), rel=0.2)


def test_more_draws_are_all_that_is_left_where_all_prompts_are_judged() -> None:
    plan = plan_pilot(200, binary=True, budget="100%")
    assert plan.repeats is not None
    assert "only further draws of the same prompts help" in plan.repeats.text
    assert plan.repeats.unit == "draw"


def test_single_draws_of_prompts_cannot_tell() -> None:
    data, _ = simulate_draws(3, prompts=100, draws=2, binary=False)
    scores = np.where(data.items["draw"].to_numpy()[:, None] == 1, data.score("human"), np.nan)
    plan = aliquot.plan(replace(data, scores={"human": scores}), budgets="50%", replays=5)
    assert isinstance(plan, CampaignPlan)
    assert plan.repeats is None
    assert any("have a second judged draw" in note for note in plan.notes)
