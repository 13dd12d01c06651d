"""What `simulate` counts for a draw is what `estimate` prints for it, and what `plan` replays."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

import aliquot
from aliquot.errors import AliquotWarning
from aliquot.planning.forecast import _interval_for_draw
from aliquot.simulation.replay import ReplaySet, draw_items, estimate_outcome, judge_items
from aliquot.simulation.setup import BudgetPoint, resolve_method

estimate_given = partial(aliquot.estimate, target="given")  # the mean of these very scores, whose truth is known

DRAWS = 50
METHODS = ("auto", "segments+mean", "pps:tau=0.3+greg", "stratified:bins=document+stratified", "auto:goal=ranking")


def nearly_constant(seed: int) -> aliquot.EvalSet:
    """A set in which one system has the same score on nearly all items, so that most draws see no spread of it."""
    data = aliquot.synthetic(items=120, systems=5, seed=seed)
    scores = data.human_score().copy()
    scores[:, 1] = 50.0
    scores[3 * seed % 120, 1] = 49.0
    return data.with_score(str(data.human), scores)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_simulate_and_plan_replay_what_estimate_prints(seed: int, method: str) -> None:
    stage = ReplaySet(nearly_constant(seed))
    plan = resolve_method(method, stage.evalset)
    unseen = 0
    for number in range(DRAWS // 5 if method != "auto" else DRAWS):
        rng = np.random.default_rng([seed, number])
        chosen = draw_items(stage, plan, BudgetPoint(0.25, 0.25), rng)
        found = estimate_outcome(stage, plan, chosen, rng)
        assert found is not None
        selection = aliquot.Selection(
            tuple(stage.evalset.ids[row] for row in chosen.rows),
            stage.evalset.n_items,
            plan.typed,
            probability=chosen.probability,
            stratum=None if chosen.stratum is None else tuple(map(str, chosen.stratum)),
            design=chosen.design,
            details=chosen.details,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AliquotWarning)
            printed = estimate_given(stage.evalset, str(plan.estimator), selection=selection)
        row_of = {row.system: row for row in printed.systems}
        rows = [row_of[system] for system in stage.evalset.systems]
        np.testing.assert_allclose(found.means, [row.estimate for row in rows], rtol=1e-12)
        np.testing.assert_allclose(found.half, [row.high - row.estimate for row in rows], rtol=1e-12, atol=1e-12)
        assert found.clusters.tolist() == [row.cluster for row in rows]
        place = {system: at for at, system in enumerate(stage.evalset.systems)}
        for pair in printed.pairs:
            a, b = place[pair.a], place[pair.b]
            np.testing.assert_allclose(found.p_sample[a, b], pair.p_sample, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(found.p_full[a, b], pair.p_full, rtol=1e-12, atol=1e-12)
        estimates, half, pair_half, _, _ = _interval_for_draw(judge_items(stage, chosen), plan, 0.95)
        np.testing.assert_allclose(half, found.half, rtol=1e-12)
        np.testing.assert_allclose(estimates, found.means, rtol=1e-12)
        known = {(p.a, p.b): (p.high - p.low) / 2 for p in printed.pairs}
        for (first, second), width in known.items():
            np.testing.assert_allclose(pair_half[place[first], place[second]], width, rtol=1e-9)
        unseen += int(np.isnan(found.half[1]))
    assert unseen > 0, "the constant system must matter in some draws"
