"""Systems judged on different items, and the three targets: promises hold on populations whose truth is known."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.core.registry import Spec
from aliquot.errors import NameUnknownError
from aliquot.estimation.pipeline import infer_means
from aliquot.estimation.sample import Sample
from aliquot.estimation.targets import Target
from aliquot.stats.arrays import FloatArray

SYSTEMS = ("A", "B", "C", "D", "E", "F")


def two_each(data: aliquot.EvalSet, seed: int, share: float = 1.0) -> aliquot.EvalSet:
    """Judge two random systems on each of some random items."""
    rng = np.random.default_rng(seed)
    scores = data.human_score()
    asked = np.argsort(np.argsort(rng.random(scores.shape), axis=1), axis=1) < 2
    asked[rng.random(len(scores)) > share] = False
    return data.with_score(str(data.human), np.where(asked, scores, np.nan))


@pytest.fixture(scope="module")
def past() -> aliquot.EvalSet:
    return aliquot.synthetic(items=240, systems=6, seed=11)


@pytest.mark.parametrize("method", ["mean", "auto"])
@pytest.mark.parametrize("share", [0.4, 1.0])
def test_intervals_of_means_and_differences_hold(past: aliquot.EvalSet, method: str, share: float) -> None:
    truth = dict(zip(past.systems, past.human_score().mean(axis=0), strict=True))
    inside, pairs_inside = [], []
    for seed in range(60):
        result = aliquot.estimate(two_each(past, seed, share), method, target="given")
        inside += [row.low <= truth[row.system] <= row.high for row in result.systems]
        pairs_inside += [pair.low <= truth[pair.a] - truth[pair.b] <= pair.high for pair in result.pairs]
    assert 0.92 <= np.mean(inside) <= 0.985
    assert 0.92 <= np.mean(pairs_inside) <= 0.985


def test_no_false_certainty_when_every_item_is_judged_for_some_systems(past: aliquot.EvalSet) -> None:
    """The union of judged items is the whole set; each system has only a third of it."""
    result = aliquot.estimate(two_each(past, 1), "mean", target="given")
    scores = two_each(past, 1).human_score()
    for row in result.systems:
        own = scores[:, past.systems.index(row.system)]
        own = own[np.isfinite(own)]
        plain = own.std(ddof=1) * np.sqrt(1 / len(own) - 1 / past.n_items)
        assert row.se == pytest.approx(plain, rel=0.1)
    assert any("systems were judged on different items" in note for note in result.notes)


@pytest.mark.parametrize("method", ["greg", "multilevel", "informed"])
def test_a_system_judged_on_all_items_has_its_mean(past: aliquot.EvalSet, method: str) -> None:
    """Whatever the others show: item effects seen in them must not move what is known."""
    human = past.human_score().copy()
    human[:, 1] *= 6.0  # another spread than the others
    ragged = np.where(np.random.default_rng(3).random(human.shape) < 0.3, human, np.nan)
    ragged[:, :2] = human[:, :2]
    result = aliquot.estimate(past.with_score("human", ragged), method, target="given")
    for at in range(2):
        row = next(row for row in result.systems if row.system == past.systems[at])
        assert row.estimate == pytest.approx(human[:, at].mean(), abs=1e-9)
        assert row.high - row.low == pytest.approx(0.0, abs=1e-9)


def test_weights_of_cells_do_not_move_a_system_judged_on_all_items(past: aliquot.EvalSet) -> None:
    """The others are judged with unequal chances, as in adaptive campaigns, and have another spread."""
    human = past.human_score().copy()
    human[:, 1:] *= 6.0
    chance = np.broadcast_to(np.linspace(0.1, 0.6, past.n_items)[:, None], human.shape).copy()
    chance[:, 0] = 1.0
    scores = np.where(np.random.default_rng(3).random(human.shape) < chance, human, np.nan)
    rows = np.arange(past.n_items)
    sample = Sample(past, rows, scores, None, np.ones(past.n_items), cell_weight=1.0 / chance)
    found = infer_means(sample, Spec("greg", {}))
    assert found.values[0] == pytest.approx(human[:, 0].mean(), abs=1e-9)
    assert found.se[0] == 0


def test_item_effects_and_metrics_lower_the_error(past: aliquot.EvalSet) -> None:
    truth = past.human_score().mean(axis=0)
    errors: dict[str, list[FloatArray]] = {"mean": [], "auto": []}
    for seed in range(40):
        judged = two_each(past, seed)
        for method, found in errors.items():
            result = aliquot.estimate(judged, method, target="given")
            found.append([result[s].estimate for s in past.systems] - truth)
    assert np.square(errors["auto"]).mean() < 0.9 * np.square(errors["mean"]).mean()


def test_targets_widen_in_order(past: aliquot.EvalSet) -> None:
    chosen = aliquot.select(past, "segments", budget=80, seed=3)
    bare = aliquot.EvalSet(past.items, past.systems, scores={"h": past.human_score()}, human="h", name="bare")
    targets: tuple[Target, ...] = ("given", "testset", "beyond")
    given, testset, beyond = (aliquot.estimate(bare, "mean", selection=chosen, target=name) for name in targets)
    for system in past.systems:
        assert given[system].se < testset[system].se <= beyond[system].se * (1 + 1e-9)
        assert given[system].estimate == testset[system].estimate
    ratio = given["sys1"].se / beyond["sys1"].se
    assert ratio == pytest.approx(np.sqrt(1 - 80 / 240), rel=1e-6)  # S/n (1 - n/N) against S/n
    assert any("the largest judging noise the data allow" in note for note in testset.notes)
    with pytest.raises(NameUnknownError, match="testset"):
        aliquot.estimate(bare, target="test set")  # type: ignore[arg-type]


def judged_by(annotators: int, repeats: int, seed: int, severity: float = 0.0) -> tuple[aliquot.EvalSet, pl.DataFrame]:
    """A campaign whose true cell means, noise (sd 2) and severities are known."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(100, 1)) + rng.normal(0, 0.5, size=(100, 4)) + np.arange(4)
    systems = tuple("ABCD")
    data = aliquot.EvalSet(pl.DataFrame({"id": np.arange(100)}), systems, scores={"truth": truth}, human="truth")
    own = severity * rng.normal(size=annotators)
    rows = []
    for item in range(100):
        for column, system in enumerate(systems):
            for who in rng.choice(annotators, repeats, replace=False):
                value = truth[item, column] + own[who] + 2 * rng.normal()
                rows.append((item, system, f"ann{who}", value))
    return data, pl.DataFrame(rows, schema=["item", "system", "annotator", "value"], orient="row")


def test_noise_does_not_vanish_when_everything_is_judged() -> None:
    inside, widths = [], []
    for seed in range(60):
        data, judgments = judged_by(30, 2, seed)
        truth = data.score("truth").mean(axis=0)
        result = aliquot.estimate(data, "mean", judgments=judgments, human="h")
        inside += [result[s].low <= truth[c] <= result[s].high for c, s in enumerate(data.systems)]
        widths.append(result["A"].se)
        assert aliquot.estimate(data, "mean", judgments=judgments, human="h", target="given")["A"].se == 0.0
    assert np.mean(widths) == pytest.approx(2 / np.sqrt(2 * 100), rel=0.15)  # sd 2, two judgments, 100 items
    assert 0.92 <= np.mean(inside) <= 0.985


def test_annotators_are_a_sample_and_their_severity_is_adjusted_for() -> None:
    data, judgments = judged_by(12, 2, 3, severity=1.5)
    result = aliquot.estimate(data, "mean", judgments=judgments, human="h")
    assert result.variance["annotators"] > result.variance["residual"] > 0
    assert sum(result.variance.values()) == pytest.approx(1.0)
    # The strictest annotators judge system A only: without adjustment A looks worse than it is.
    person = judgments["annotator"].str.slice(3).cast(pl.Int64)
    strict = judgments.group_by("annotator").agg(pl.col("value").mean()).sort("value")["annotator"][:6].to_list()
    biased = judgments.filter((pl.col("system") != "A") | person.is_in([int(name[3:]) for name in strict]))
    truth = data.score("truth").mean(axis=0)
    plain = aliquot.estimate(data, "mean", judgments=biased, human="h")
    adjusted = aliquot.estimate(data, "greg", judgments=biased, human="h")
    assert any("severity is adjusted for" in note for note in adjusted.notes)
    gap = truth[1] - truth[0]
    off = [abs(r["B"].estimate - r["A"].estimate - gap) for r in (plain, adjusted)]
    assert off[1] < 0.6 * off[0]


def test_scores_that_run_against_the_metrics_get_a_note(past: aliquot.EvalSet) -> None:
    """Penalties given as positive numbers put the worst system first; every metric says the opposite."""
    upside_down = past.with_score(str(past.human), -past.human_score())
    assert any(
        "name 'human' in `lower_is_better`" in note for note in aliquot.estimate(upside_down, target="given").notes
    )
    assert not any("`lower_is_better`" in note for note in aliquot.estimate(past, target="given").notes)


def test_holm_adjusts_p_values_and_intervals_alike(past: aliquot.EvalSet) -> None:
    chosen = aliquot.select(past, "segments", budget=60, seed=4)
    plain, adjusted = (aliquot.estimate(past, selection=chosen, adjust=on) for on in ("none", "holm"))
    for before, after in zip(plain.pairs, adjusted.pairs, strict=True):
        assert after.high - after.low > before.high - before.low
        if after.p_adjusted > 0.05:  # not significant after adjustment: the interval does not exclude 0
            assert after.low <= 0 <= after.high
