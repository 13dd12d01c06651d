"""`multilevel`, the estimator for rankings: what it keeps, what it gives up, and that it pays; and p_full."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot import EvalSet
from aliquot.core.registry import parse_spec
from aliquot.estimation.estimators import estimate_greg, estimate_multilevel
from aliquot.estimation.pipeline import Inference, infer_means
from aliquot.estimation.ranking import full_p
from aliquot.estimation.sample import Sample, judged_sample
from aliquot.stats.pairwise import analytic_p

estimate_given = partial(aliquot.estimate, target="given")  # the mean of these very scores, whose truth is known


def world(items: int = 300, systems: int = 8, *, own: float = 0.0, metric: float = 1.0, seed: int = 0) -> EvalSet:
    """Human scores follow the metric, item by item; `own` is how much systems differ beyond what it knows."""
    rng = np.random.default_rng(seed)
    ability = 0.25 * rng.normal(size=systems)
    known = rng.normal(size=(items, 1)) + ability + rng.normal(size=(items, systems))
    human = known + own * rng.normal(size=systems) + 1.5 * rng.normal(size=(items, systems))
    shown = metric * known + (1.0 - metric) * rng.normal(size=known.shape)
    return EvalSet(
        items=pl.DataFrame({"id": np.arange(items)}),
        systems=tuple(f"s{k}" for k in range(systems)),
        scores={"human": human, "m": shown},
        human="human",
        name="world",
    )


def sample(data: EvalSet, n: int = 40, seed: int = 0) -> Sample:
    chosen = aliquot.select(data, "segments", budget=n, seed=seed)
    return judged_sample(data, selection=chosen)


# -- what it is ----------------------------------------------------------------------------------------------------


def test_means_are_called_biased_and_the_share_is_told():
    data = world()
    result = estimate_given(data, "multilevel", selection=aliquot.select(data, "segments", budget=40, seed=1))
    assert not result.unbiased
    assert 0.0 <= result.details["share"] <= 1.0
    assert any(f"{result.details['share']:.0%} of the systems' own effects is kept" in note for note in result.notes)
    assert estimate_given(data, "greg", selection=aliquot.select(data, "segments", budget=40, seed=1)).unbiased
    ranking = estimate_given(data, "auto:goal=ranking", selection=aliquot.select(data, "segments", budget=40, seed=1))
    assert ranking.method == "multilevel"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.integers(5, 120), st.floats(0, 2), st.floats(0, 1))
def test_the_share_lies_between_0_and_1(seed, n, own, metric):
    fitted = estimate_multilevel(sample(world(150, 6, own=own, metric=metric, seed=seed), n))
    assert 0.0 <= fitted.details["share"] <= 1.0


def test_a_common_shift_of_all_scores_shifts_the_estimates():
    data = world(own=0.3)
    moved = data.with_score("human", data.scores["human"] + 70.0)
    first, second = estimate_multilevel(sample(data)), estimate_multilevel(sample(moved))
    np.testing.assert_allclose(second.values, first.values + 70.0, atol=1e-8)
    np.testing.assert_allclose(second.z, first.z, atol=1e-9)
    assert second.details["share"] == pytest.approx(first.details["share"])


def test_it_is_greg_where_nothing_is_uncertain():
    data = world(120)
    everything = sample(data, 120)
    np.testing.assert_allclose(estimate_multilevel(everything).values, estimate_greg(everything).values)
    assert estimate_multilevel(everything).details["share"] == 1.0
    np.testing.assert_allclose(estimate_multilevel(everything).values, data.scores["human"].mean(axis=0))


def test_it_lies_between_greg_and_what_metrics_expect():
    drawn = sample(world(own=0.2))
    plain, fitted = estimate_greg(drawn), estimate_multilevel(drawn)
    assert plain.foreseen is not None
    share = fitted.details["share"]
    expected = plain.foreseen + (plain.values - plain.foreseen).mean()
    np.testing.assert_allclose(fitted.values, expected + share * (plain.values - expected))
    assert fitted.values.mean() == pytest.approx(plain.values.mean())
    own, common = (fitted.z - fitted.z.mean(axis=1, keepdims=True)), fitted.z.mean(axis=1)
    np.testing.assert_allclose(common, plain.z.mean(axis=1))
    # the width is greg's: what is drawn together is biased, and an interval that shrinks with it would not cover
    np.testing.assert_allclose(own, plain.z - plain.z.mean(axis=1, keepdims=True), atol=1e-12)


def test_few_systems_or_no_metrics_leave_it_unbiased():
    few = world(systems=3)
    result = estimate_given(few, "multilevel", selection=aliquot.select(few, "segments", budget=40, seed=1))
    assert result.unbiased
    assert "fewer than 4 systems" in " ".join(result.notes)
    np.testing.assert_allclose(estimate_multilevel(sample(few)).values, estimate_greg(sample(few)).values)
    bare = replace(world(), scores={"human": world().scores["human"]})
    np.testing.assert_allclose(estimate_multilevel(sample(bare)).values, sample(bare).scores.mean(axis=0))
    assert estimate_given(bare, "multilevel", selection=aliquot.select(bare, "segments", budget=40)).unbiased


# -- that it pays --------------------------------------------------------------------------------------------------


def compared(data: EvalSet, measure: str = "accuracy") -> tuple[float, float, float]:
    """Values of greg and multilevel at small n, and the error of their difference."""
    result = aliquot.simulate(
        data, ["random+greg", "random+multilevel"], [12, 24], repeats=150, measures=[measure], parity=False
    )
    plain, drawn = (result.row(f"random+{name}", measure) for name in ("greg", "multilevel"))
    return plain.value, drawn.value, float(np.hypot(plain.error, drawn.error))


def test_where_metrics_know_the_systems_the_ranking_is_better():
    plain, drawn, error = compared(world(seed=4))
    assert drawn > plain + 3 * error


@pytest.mark.parametrize("measure", ["accuracy", "mae"])
def test_where_metrics_know_nothing_little_is_lost(measure):
    plain, drawn, error = compared(world(own=0.5, metric=0.0, seed=5), measure)
    if measure == "accuracy":
        assert drawn > plain - 0.01 - 2 * error
    else:
        assert drawn < 1.03 * plain + 2 * error


def test_where_metrics_are_wrong_about_systems_it_finds_out():
    """Systems differ by far more than the metric knows: nearly everything that is seen of them is kept."""
    data = world(own=1.5, seed=6)
    shares = [estimate_multilevel(sample(data, 40, seed)).details["share"] for seed in range(10)]
    assert np.mean(shares) > 0.9
    agreeing = [estimate_multilevel(sample(world(seed=6), 40, seed)).details["share"] for seed in range(10)]
    assert np.mean(agreeing) < 0.5


# -- what judging all items would say ------------------------------------------------------------------------------


def test_full_set_significance_is_the_same_from_estimate_and_from_its_parts():
    data = world(own=0.3)
    chosen = aliquot.select(data, "segments", budget=40, seed=0)
    for name in ("greg", "multilevel"):
        p = full_p(infer_means(sample(data), parse_spec(name)))
        at = {system: number for number, system in enumerate(data.systems)}
        for pair in estimate_given(data, name, selection=chosen).pairs:
            assert p[at[pair.a], at[pair.b]] == pytest.approx(pair.p_full)
        np.testing.assert_allclose(p + p.T, 1.0)


def test_greg_and_multilevel_expect_the_same_of_the_full_set():
    """Both draw towards what metrics expect, once: greg for the prediction only, multilevel already in its values."""
    drawn = sample(world(own=0.3))
    errors = drawn.compute_errors(estimate_greg(drawn))
    tables = [full_p(Inference(drawn, fitted, errors)) for fitted in (estimate_greg(drawn), estimate_multilevel(drawn))]
    np.testing.assert_allclose(tables[0], tables[1])


def test_on_all_items_it_is_the_test_itself():
    data = world(400)
    p = full_p(infer_means(sample(data, 400), parse_spec("greg")))
    np.testing.assert_allclose(p, analytic_p(data.scores["human"]), atol=0.01)


def test_gaps_in_the_scores_do_not_change_what_identical_systems_are_told():
    data = world(systems=5)
    human = np.repeat(data.scores["human"][:, :1], 5, axis=1)
    human[::3, 2] = np.nan
    drawn = sample(data.with_score("human", human))
    np.testing.assert_array_equal(full_p(infer_means(drawn, parse_spec("greg"))), 0.5)
