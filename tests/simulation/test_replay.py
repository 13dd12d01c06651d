"""One replay: what is looked at, what is said, and that nothing is believed that nobody saw."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import polars as pl
import pytest
from scipy import stats

import aliquot
from aliquot.core.registry import Spec
from aliquot.errors import DataError, NameUnknownError
from aliquot.simulation.replay import Outcome, ReplaySet, draw_items, estimate_outcome, judge_items
from aliquot.simulation.setup import BudgetPoint, ReplayMethod, keep_complete, number_duplicates, resolve_method
from aliquot.stats.pairwise import analytic_p

estimate_given = partial(aliquot.estimate, target="given")  # the mean of these very scores, whose truth is known


def replay(stage: ReplaySet, typed: str, share: float = 0.3, seed: int = 0) -> Outcome:
    plan, rng = resolve_method(typed, stage.evalset), np.random.default_rng(seed)
    found = estimate_outcome(stage, plan, draw_items(stage, plan, BudgetPoint(share, share), rng), rng)
    assert found is not None
    return found


# -- the population ------------------------------------------------------------------------------------------------


def test_items_that_are_not_judged_for_all_systems_are_left_out(campaign):
    def holes(human):
        human[::5, 1] = np.nan
        human[3, 0] = np.nan
        return human

    kept, notes = keep_complete(campaign(human=holes))
    assert kept.n_items == 60 - 12 - 1
    assert np.isfinite(kept.human_score()).all()
    assert notes == ("past: 47 of 60 items are judged for all systems; they are the set",)
    assert kept.judgments is None


def test_a_system_that_hardly_anybody_judged_is_left_out_instead(campaign):
    def thin(human):
        human[10:, 2] = np.nan
        return human

    kept, notes = keep_complete(campaign(human=thin))
    assert kept.systems == ("sys1", "sys2", "sys4")
    assert kept.n_items == 60
    assert "left out: sys3" in notes[0]


def test_what_cannot_be_replayed(campaign, past):
    with pytest.raises(DataError, match="past: only one system"):
        keep_complete(campaign(systems=1))
    with pytest.raises(DataError, match="past: only 3 items are judged for all 4 systems"):
        keep_complete(campaign(items=3))
    with pytest.raises(DataError, match="past: no item has a human score"):
        keep_complete(campaign(human=lambda human: human * np.nan))
    with pytest.raises(DataError, match="past: no score is marked as human"):
        keep_complete(past.with_human(None))
    with pytest.raises(NameUnknownError, match="unknown human score of past 'DA'"):
        keep_complete(past, "DA")


def test_sets_of_the_same_name_are_numbered(campaign):
    sets = number_duplicates([campaign(seed=1), campaign(seed=2), campaign(name="other"), campaign(seed=3)])
    assert [data.name for data in sets] == ["past", "past #2", "other", "past #3"]


# -- one replay ----------------------------------------------------------------------------------------------------


def test_the_plain_mean_of_a_random_sample(past):
    """Everything that a replay of random says, computed again from the rows it drew."""
    stage = ReplaySet(past)
    plan, rng = resolve_method("random", past), np.random.default_rng(5)
    chosen = draw_items(stage, plan, BudgetPoint(0.25, 0.25), rng)
    found = estimate_outcome(stage, plan, chosen, rng)
    scores = past.human_score()[chosen.rows]
    n, total = len(scores), past.n_items
    assert n == 15
    assert found is not None
    np.testing.assert_allclose(found.means, scores.mean(axis=0))
    np.testing.assert_allclose(found.p, analytic_p(scores))
    gap = scores[:, 0] - scores[:, 1]
    z = gap.mean() * np.sqrt(total) / gap.std(ddof=1)
    assert found.p_full[0, 1] == pytest.approx(stats.norm.sf(z))
    assert (found.items, found.cost) == (15, 0.25)
    normal = 1.96 * np.sqrt((1 - n / total) / n) * scores.std(axis=0, ddof=1)
    assert (found.half > normal).all()
    assert (found.half < 3 * normal).all()


def test_a_replay_says_what_estimate_says(past):
    """The same design, seed and estimator through the front door."""
    chosen = aliquot.select(past, "pps:tau=0.3", budget=20, seed=3)
    said = estimate_given(past, "greg", selection=chosen)
    stage = ReplaySet(past)
    plan = resolve_method("pps:tau=0.3+greg", past)
    picked = draw_items(stage, plan, BudgetPoint(20 / 60, 20 / 60), np.random.default_rng(3))
    assert [past.ids[row] for row in picked.rows] == list(chosen.ids)
    found = estimate_outcome(stage, plan, picked, np.random.default_rng(0))
    assert found is not None
    by_name = {row.system: row for row in said.systems}
    np.testing.assert_allclose(found.means, [by_name[name].estimate for name in past.systems])
    np.testing.assert_allclose(found.half, [(by_name[s].high - by_name[s].low) / 2 for s in past.systems])
    at = {name: number for number, name in enumerate(past.systems)}
    for pair in said.pairs:
        assert found.p_full[at[pair.a], at[pair.b]] == pytest.approx(pair.p_full)


def test_scores_of_items_that_were_not_chosen_are_never_looked_at(past):
    stage, plan = ReplaySet(past), resolve_method("auto", past)
    chosen = draw_items(stage, plan, BudgetPoint(0.3, 0.3), np.random.default_rng(1))
    first = estimate_outcome(stage, plan, chosen, np.random.default_rng(0))
    others = np.setdiff1d(np.arange(60), chosen.rows)
    human = np.array(past.human_score())
    human[others] = human[others][::-1] - 3.0
    changed = ReplaySet(past.with_score("human", human))
    again = draw_items(changed, plan, BudgetPoint(0.3, 0.3), np.random.default_rng(1))
    np.testing.assert_array_equal(again.rows, chosen.rows)
    second = estimate_outcome(changed, plan, again, np.random.default_rng(0))
    assert first is not None
    assert second is not None
    for name in ("means", "half", "p", "p_full"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("typed", ["random", "auto", "metric_var:metric=metricA", "random+multilevel", "pps+cv"])
def test_judging_everything_is_the_truth(past, typed):
    stage = ReplaySet(past)
    found = replay(stage, typed, 1.0)
    np.testing.assert_array_equal(found.means, stage.truth.means)
    np.testing.assert_allclose(found.half, 0.0, atol=1e-6)
    np.testing.assert_allclose(found.p, stage.truth.p)
    assert found.cost == 1.0
    # Full-set significance divides by the spread about the mean, the test by the root mean square.
    np.testing.assert_allclose(found.p_full, stage.truth.p, atol=0.03)


@pytest.mark.parametrize("typed", ["random", "auto", "random+multilevel", "metric_var:metric=metricA", "documents"])
def test_p_values_of_a_pair_and_its_mirror(past, typed):
    found = replay(ReplaySet(past), typed, 0.5)
    for p in (found.p, found.p_full):
        np.testing.assert_allclose(p + p.T, 1.0)
        np.testing.assert_array_equal(np.diag(p), 0.5)
        assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize("typed", ["random", "auto", "random+multilevel", "pps+cv", "documents+stratified"])
def test_identical_systems_are_expected_to_stay_identical(campaign, typed):
    """Metrics differ, so models expect a difference; nobody saw one, and no spread of one either."""
    same = campaign(human=lambda human: np.repeat(human[:, :1], 4, axis=1))
    found = replay(ReplaySet(same), typed, 0.4)
    np.testing.assert_array_equal(found.p_full, 0.5)


def test_systems_that_differ_by_the_same_everywhere_are_told_apart(campaign):
    apart = campaign(human=lambda human: human[:, :1] - np.arange(4.0))
    for typed in ("random", "auto"):
        found = replay(ReplaySet(apart), typed, 0.4)
        assert (found.p_full[np.triu_indices(4, 1)] < 1e-6).all()
        assert (found.p[np.triu_indices(4, 1)] < 0.01).all()


def test_no_interval_where_no_spread_was_seen(campaign):
    """All judged scores equal is no proof that all are: `estimate` gives no interval then, and none is counted."""
    constant = campaign(human=lambda human: np.full_like(human, -1.0))
    found = replay(ReplaySet(constant), "random")
    assert np.isnan(found.half).all()
    np.testing.assert_array_equal(found.p, 0.5)
    everything = replay(ReplaySet(constant), "random", 1.0)
    np.testing.assert_array_equal(everything.half, 0.0)


def test_too_little_is_no_replay(past):
    """A draw of whole documents keeps a budget of two items in expectation: it may come out empty."""
    stage, plan = ReplaySet(past), resolve_method("documents", past)
    drawn = [draw_items(stage, plan, BudgetPoint(0.01, 0.01), np.random.default_rng(seed)) for seed in range(20)]
    said = [estimate_outcome(stage, plan, chosen, np.random.default_rng(0)) for chosen in drawn]
    assert {found is None for found in said} == {True, False}
    assert [found is None for found in said] == [len(chosen.rows) < 2 for chosen in drawn]


def test_one_document_has_no_error(past):
    """With a single document there is nothing to compare it with: no interval, no false certainty."""
    stage = ReplaySet(past, unit="document")
    plan = ReplayMethod("x", Spec("segments"), Spec("greg"))
    for seed in range(30):
        chosen = draw_items(stage, plan, BudgetPoint(0.1, 0.1), np.random.default_rng(seed))
        if len(chosen.rows) >= 2 and len(np.unique(past.documents[chosen.rows])) == 1:
            found = estimate_outcome(stage, plan, chosen, np.random.default_rng(0))
            assert found is not None
            assert np.isnan(found.half).all()
            return
    pytest.fail("no draw of a single document")


def test_costs_are_shares_of_judging_everything(campaign):
    data = campaign(columns={"price": np.linspace(1, 5, 60)})
    stage = ReplaySet(data, cost="price")
    plan = resolve_method("metric_var:metric=metricA", data)
    chosen = draw_items(stage, plan, BudgetPoint(0.3, 0.3), np.random.default_rng(0))
    found = estimate_outcome(stage, plan, chosen, np.random.default_rng(0))
    assert found is not None
    price = np.linspace(1, 5, 60)
    assert found.cost == pytest.approx(price[chosen.rows].sum() / price.sum())
    assert 0.27 < found.cost <= 0.3
    assert found.items == len(chosen.rows) < 30


@pytest.mark.parametrize("typed", ["incremental", "incremental:bins=domain,variance=metric,k=5"])
def test_incremental_sampling_sees_the_scores_of_what_it_has_chosen_and_no_other(past, typed):
    stage, plan = ReplaySet(past), resolve_method(typed, past)
    chosen = draw_items(stage, plan, BudgetPoint(0.3, 0.3), np.random.default_rng(1))
    assert len(set(chosen.rows.tolist())) == 18
    human = np.array(past.human_score())
    others = np.setdiff1d(np.arange(60), chosen.rows)
    human[others] = 100.0 * human[others][::-1]
    again = draw_items(
        ReplaySet(past.with_score("human", human)), plan, BudgetPoint(0.3, 0.3), np.random.default_rng(1)
    )
    np.testing.assert_array_equal(again.rows, chosen.rows)
    human[chosen.rows[:9]] *= np.linspace(1, 50, 9)[:, None]
    other = draw_items(
        ReplaySet(past.with_score("human", human)), plan, BudgetPoint(0.3, 0.3), np.random.default_rng(1)
    )
    assert not np.array_equal(other.rows, chosen.rows)


def test_separate_draws_for_each_system(past):
    stage = ReplaySet(past, matching=False)
    chosen = draw_items(stage, resolve_method("segments", past), BudgetPoint(0.25, 0.25), np.random.default_rng(2))
    sample = judge_items(stage, chosen)
    np.testing.assert_array_equal(np.isfinite(sample.scores).sum(axis=0), 15)
    found = replay(stage, "segments", 0.25)
    assert found.cost == pytest.approx(0.25)


# -- travelling to other processes ---------------------------------------------------------------------------------


def test_a_stage_arrives_as_it_left_and_only_once(campaign):
    stage = ReplaySet(campaign(columns={"price": np.linspace(1, 5, 60)}), cost="price", test="permutation", level=0.9)
    there, again = pickle.loads(pickle.dumps(stage)), pickle.loads(pickle.dumps(stage))  # noqa: S301
    assert there is again is not stage
    assert (there.cost, there.unit, there.test, there.level) == ("price", "item", "permutation", 0.9)
    np.testing.assert_array_equal(there.costs, stage.costs)
    np.testing.assert_array_equal(there.truth.p, stage.truth.p)


def test_sets_that_look_alike_are_not_mixed_up(campaign):
    """The same name, texts and scores, other costs: fingerprints are equal, stages are not."""
    cheap, dear = (campaign(columns={"price": price}) for price in (np.ones(60), np.linspace(1, 9, 60)))
    assert cheap.fingerprint == dear.fingerprint
    first, second = (pickle.loads(pickle.dumps(ReplaySet(data, cost="price"))) for data in (cheap, dear))  # noqa: S301
    assert first.costs is not None
    assert first.costs.max() == 1.0
    assert second.costs.max() == 9.0


def test_the_memory_of_stages_is_bounded(past):
    from aliquot.simulation import replay as module

    for _ in range(40):
        pickle.loads(pickle.dumps(ReplaySet(past)))  # noqa: S301
    assert len(module._REPLAY_SETS) <= module.MAX_REPLAY_SETS


def test_draws_are_replayed_as_prompts():
    data = aliquot.synthetic(items=60, systems=3, seed=2, document_length=0)
    doubled = pl.concat([data.items, data.items]).with_columns(
        pl.Series("id", np.arange(120)),
        pl.concat([data.items["id"], data.items["id"]]).cast(pl.String).alias("document"),
        pl.Series("draw", np.repeat([1, 2], 60)),
    )
    scores = {name: np.vstack([values, values]) for name, values in data.scores.items()}
    draws = aliquot.EvalSet(doubled, data.systems, scores, human=data.human, name=data.name)
    alike, plain = (
        aliquot.simulate(part, "random", repeats=3, budgets="20%,40%", seed=4)
        for part in (draws, aliquot.combine_draws(draws))
    )
    assert any("prompts are replayed" in note for note in alike.notes)
    for cell, expected in zip(alike.cells, plain.cells, strict=True):
        assert (cell.method, cell.measure) == (expected.method, expected.measure)
        assert cell.value == pytest.approx(expected.value, nan_ok=True)
