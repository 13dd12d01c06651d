"""Earlier campaigns: their slopes, how far they are believed, and systems drawn together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotError
from aliquot.estimation.past import past_prediction
from aliquot.stats.shrinkage import shrink_robustly, shrink_to_prediction


def campaign(
    seed: int, n: int = 200, m: int = 6, slopes: tuple[float, ...] = (1.0, 0.0, 0.0), scale: float = 1.0
) -> EvalSet:
    """Twelve metrics of which people follow few; systems differ little beyond them."""
    rng = np.random.default_rng(seed)
    metrics = rng.normal(size=(12, n, m)) + rng.normal(0, 0.3, (1, 1, m))
    human = scale * (np.tensordot(slopes, metrics[: len(slopes)], axes=1) + 0.7 * rng.normal(size=(n, m)))
    scores = {"human": human} | {f"m{k}": metric for k, metric in enumerate(metrics)}
    return EvalSet(pl.DataFrame({"id": np.arange(n)}), tuple(f"s{a}" for a in range(m)), scores, human="human")


def test_slopes_carry_over_by_name_whatever_the_scale() -> None:
    here = campaign(1)
    predicted = past_prediction(here, [campaign(2, scale=25.0), campaign(3, scale=0.01)])
    assert predicted is not None
    assert np.corrcoef(predicted.ravel(), here.scores["m0"].ravel())[0, 1] > 0.97


def test_one_slope_against_the_normal_equations() -> None:
    """A single metric in a campaign of one past: ridge of 30 on standardised features, by hand."""
    one, here = (
        replace(c, scores={k: c.scores[k] for k in ("human", "m0")}) for c in (campaign(4, n=100), campaign(5))
    )

    def features(data: EvalSet) -> NDArray[np.float64]:
        z = (data.scores["m0"] - data.scores["m0"].mean()) / data.scores["m0"].std()
        deviation = z - z.mean(axis=1, keepdims=True)
        return np.stack([z, deviation, 0.5 * (z**2 - 1), z, deviation], axis=2)

    x = features(one)
    x = (x - x.mean(axis=0)).reshape(-1, 5)
    y = one.scores["human"] - one.scores["human"].mean(axis=0)
    y = (y / np.sqrt((y**2).mean())).ravel()
    slopes = np.linalg.solve(30 * np.eye(5) + x.T @ x / one.n_systems, x.T @ y / one.n_systems)
    found = past_prediction(here, [one])
    assert found is not None
    np.testing.assert_allclose(found, features(here) @ slopes, atol=1e-10)


@pytest.mark.parametrize(("theirs", "most"), [((1.0, 0.0, 0.0), 0.9), ((0.0, 1.0, -1.0), 1.1)])
def test_a_good_past_helps_few_judgments_and_a_bad_one_costs_little(theirs: tuple[float, ...], most: float) -> None:
    here, past = campaign(6), [campaign(7, slopes=theirs), campaign(8, slopes=theirs)]
    truth = here.scores["human"].mean(axis=0)
    errors: dict[str, list[float]] = {"without": [], "with": []}
    for seed in range(30):
        chosen = aliquot.select(here, "segments", 10, seed=seed)
        for name, given_past in (("without", ()), ("with", past)):
            made = aliquot.estimate(here, "greg", selection=chosen, past=given_past, target="given")
            errors[name].append(np.mean([abs(made[s].estimate - truth[a]) for a, s in enumerate(here.systems)]))
    assert np.mean(errors["with"]) < most * np.mean(errors["without"])


def test_auto_with_past_is_informed_and_says_that_it_is_biased() -> None:
    here = campaign(9)
    chosen = aliquot.select(here, budget=15, seed=1)
    made = aliquot.estimate(here, selection=chosen, past=[campaign(10)])
    assert made.method == "informed"
    assert not made.unbiased
    assert "past:" in made.signature
    assert aliquot.estimate(here, "greg", selection=chosen, past=[campaign(10)]).unbiased
    assert aliquot.estimate(here, selection=chosen).method == "greg"


def test_bad_past_campaigns_are_refused() -> None:
    here = campaign(11)
    few = replace(
        here, scores={**here.scores, "human": np.where(np.arange(200)[:, None] < 3, here.scores["human"], np.nan)}
    )
    with pytest.raises(AliquotError, match="3 items have a human score"):
        past_prediction(here, [few])
    same = replace(here, scores={**here.scores, "human": np.ones((200, 6))})
    with pytest.raises(AliquotError, match="do not vary"):
        past_prediction(here, [same])


def test_select_learns_the_scale_from_the_past() -> None:
    here = replace(campaign(12), human=None, scores={k: v for k, v in campaign(12).scores.items() if k != "human"})
    penalties = campaign(13)
    penalties = replace(penalties, scores={**penalties.scores, "human": -np.abs(penalties.scores["human"])})
    asked = aliquot.select(here, budget=20, seed=1, protocol="mqm")
    told = aliquot.select(here, budget=20, seed=1, past=[penalties])
    assert told.ids == asked.ids
    assert told.method == asked.method
    with pytest.raises(AliquotError, match="different scales"):
        aliquot.select(here, budget=20, past=[penalties, campaign(14)])


# -- systems drawn together ------------------------------------------------------------------------------------------

MEANS = st.lists(st.floats(-5, 5), min_size=5, max_size=9)


@given(MEANS, st.floats(0.01, 4.0), st.floats(-3, 3))
@settings(max_examples=100, deadline=None)
def test_a_common_shift_changes_nothing_and_nobody_moves_beyond_the_centre(
    values: list[float], variance: float, shift: float
) -> None:
    estimates, covariance = np.array(values), variance * np.eye(len(values))
    prediction = np.zeros(len(values))
    drawn, share = shrink_robustly(estimates, prediction, covariance)
    again, _ = shrink_robustly(estimates + shift, prediction, covariance)
    np.testing.assert_allclose(again, drawn + shift, atol=1e-6)
    assert 0 <= share <= 1
    assert np.ptp(drawn) <= np.ptp(estimates) + 1e-9


def test_without_an_outlier_it_is_the_shrinkage_of_multilevel() -> None:
    estimates = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    drawn, share = shrink_robustly(estimates, np.zeros(5), 0.4 * np.eye(5))
    other, other_share = shrink_to_prediction(estimates, np.zeros(5), 0.4 * np.eye(5))
    assert share == pytest.approx(other_share)
    np.testing.assert_allclose(drawn, other)


def test_an_outlier_stays_and_does_not_stop_the_others_from_being_drawn() -> None:
    estimates = np.array([0.0, 0.1, -0.1, 0.2, -0.2, 30.0])
    drawn, share = shrink_robustly(estimates, np.zeros(6), np.eye(6))
    assert drawn[5] == 30.0
    assert share < 0.5
    assert shrink_to_prediction(estimates, np.zeros(6), np.eye(6))[1] > 0.9
