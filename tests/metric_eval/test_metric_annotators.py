"""The perfect annotator: the right judgments are found, variances come out as made, and refusals say why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.annotation.judgment_noise import find_score_judgments
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.metric_eval.metric_inputs import build_inputs
from aliquot.metric_eval.metric_value import PerfectAnnotator, estimate_perfect_annotator
from aliquot.stats.arrays import FloatArray


def judged(
    values: FloatArray,
    *,
    human: FloatArray | None = None,
    metric: FloatArray | None = None,
    columns: dict[str, list[str]] | None = None,
) -> EvalSet:
    """A set whose judgments are `values`: annotators x items x systems; NaN is not judged."""
    people, items, systems = values.shape
    table = pl.DataFrame(
        {
            "item": np.tile(np.repeat(np.arange(items), systems), people),
            "system": [f"s{k}" for k in range(systems)] * (items * people),
            "annotator": np.repeat([f"a{k}" for k in range(people)], items * systems),
            "value": values.ravel(),
            **(columns or {}),
        }
    )
    with np.errstate(invalid="ignore"):
        scores = np.nanmean(values, axis=0) if human is None else human
    return EvalSet(
        items=pl.DataFrame({"id": np.arange(items)}),
        systems=tuple(f"s{k}" for k in range(systems)),
        scores={"human": scores, "m": scores if metric is None else metric},
        human="human",
        judgments=Judgments(table.filter(pl.col("value").is_not_nan())),
        name="made",
    )


def rows_of(data: EvalSet) -> pl.DataFrame:
    assert data.judgments is not None
    return data.judgments.table


def found(data: EvalSet, human: str = "human") -> PerfectAnnotator:
    return estimate_perfect_annotator(build_inputs([data], human, ["m"]).campaigns[0])[0]


def world(
    rng: np.random.Generator, items: int = 300, systems: int = 5, people: int = 3
) -> tuple[FloatArray, FloatArray]:
    """Outputs' true scores with spread 2, and the noise of people, with spread 1."""
    return rng.normal(0, 2.0, size=(items, systems)), rng.normal(0, 1.0, size=(people, items, systems))


def test_variances_come_out_as_they_were_made():
    true, noise = world(np.random.default_rng(1), items=600)
    row = found(judged(true + noise))
    assert (row.judgments, row.outputs, row.repeated, row.annotators) == (9000, 3000, 3000, 3)
    assert row.total == pytest.approx(row.within + row.between)
    assert row.within == pytest.approx(1.0, rel=0.06)
    assert row.ratio == pytest.approx(5 / 4, rel=0.03)
    assert row.low < row.ratio < row.high
    assert row.rater_to_item == pytest.approx(0.25, rel=0.1)
    # A score is the mean of three: differences have the variance 2 (4 + 1/3), of which 2/3 is noise.
    assert row.matched == pytest.approx((4 + 1 / 3) / 4, rel=0.03)


def test_severity_that_cancels_in_differences_is_no_noise_of_differences():
    """People's severity on an item is shared by the systems; what they differ in is small."""
    rng = np.random.default_rng(2)
    true, noise = world(rng)
    severity = rng.normal(0, 3.0, size=(3, 300, 1))
    row = found(judged(true + 0.5 * noise + severity))
    assert row.ratio > 2.5
    assert row.matched == pytest.approx((4 + 0.25 / 3) / 4, rel=0.03)


def test_where_everybody_judges_other_systems_nothing_cancels():
    rng = np.random.default_rng(3)
    true, noise = world(rng, people=4)
    values = true + noise
    for system in range(5):  # a system is judged by two people, and neighbours by others
        values[[(system) % 4, (system + 1) % 4], :, system] = np.nan
    row = found(judged(values))
    assert row.per_output == 2
    assert row.matched == pytest.approx((4 + 0.5) / 4, rel=0.05)


def test_a_score_on_another_scale_is_the_same_score():
    true, noise = world(np.random.default_rng(4))
    values = true + noise
    plain, scaled = found(judged(values)), found(judged(values, human=10 * values.mean(axis=0) + 3))
    assert scaled.matched == pytest.approx(plain.matched, rel=1e-6)


def test_experts_are_found_among_crowd_workers():
    rng = np.random.default_rng(5)
    true, noise = world(rng, people=5)
    values = true + noise
    values[3:] = rng.normal(size=(2, 300, 5))
    data = judged(values, human=values[:3].mean(axis=0))
    behind = find_score_judgments(data, "human")
    assert behind.source == "3 of 5 annotators"
    assert set(behind.table["annotator"]) == {"a0", "a1", "a2"}


@pytest.mark.parametrize("column", ["criterion", "protocol"])
def test_the_criterion_or_protocol_behind_the_score_is_found(column):
    rng = np.random.default_rng(6)
    true, noise = world(rng, people=2)
    one, other = true + noise, rng.normal(50, 20, size=noise.shape)
    data = judged(
        np.concatenate([one, other]),
        human=one.mean(axis=0),
        columns={column: ["fluency"] * one.size + ["style"] * other.size},
    )
    # The same two people answered both questions.
    table = rows_of(data).with_columns(pl.col("annotator").replace({"a2": "a0", "a3": "a1"}))
    data = replace(data, judgments=Judgments(table))
    behind = find_score_judgments(data, "human")
    assert behind.source == f"{column} fluency"
    assert behind.table.height == one.size


def test_a_mean_over_criteria_is_one_judgment_of_one_annotator():
    rng = np.random.default_rng(7)
    true, noise = world(rng, people=2)
    one, other = true + noise, true - noise
    data = judged(np.concatenate([one, other]), columns={"criterion": ["x"] * one.size + ["y"] * one.size})
    table = rows_of(data).with_columns(pl.col("annotator").replace({"a2": "a0", "a3": "a1"}))
    data = replace(data, judgments=Judgments(table))
    row = found(data)
    assert row.judgments == one.size
    assert row.within == pytest.approx(0, abs=1e-12)


def test_repeats_of_one_annotator():
    true, noise = world(np.random.default_rng(8), people=2)
    data = judged(true + noise)
    table = rows_of(data).with_columns(annotator=pl.lit("solo"))
    data = replace(data, judgments=Judgments(table))
    with pytest.raises(DataError, match="one annotator, whose repeats do not count"):
        estimate_perfect_annotator(build_inputs([data], "human", ["m"]).campaigns[0])


def test_a_single_annotator_who_judged_everything_once():
    data = aliquot.synthetic(items=30, systems=3, annotators=1, seed=1)
    with pytest.raises(DataError, match=r"all judgments are by one annotator, .* none of the 90 outputs has two"):
        aliquot.metrics(data, parts=["annotators"])
    report = aliquot.metrics(data, trials=100, permutations=10)
    assert report.annotators == ()
    assert sum("no efficiency ratio" in note for note in report.notes) == 1
    assert all(np.isinf(row.ceiling) and row.noise_free == row.correlation for row in report.value)
    assert all(np.isnan(row.perfect) for row in report.breakeven)


def test_judgments_of_something_else():
    rng = np.random.default_rng(9)
    data = judged(rng.normal(size=(2, 50, 3)), human=rng.normal(size=(50, 3)))
    with pytest.raises(DataError, match="'human' is not the mean of any of the judgments"):
        estimate_perfect_annotator(build_inputs([data], "human", ["m"]).campaigns[0])


def test_marked_judgments_and_controls_do_not_count():
    true, noise = world(np.random.default_rng(10), items=50, people=3)
    values = true + noise
    values[2] = 99.0
    data = judged(values, human=values[:2].mean(axis=0))
    table = rows_of(data).with_columns(
        marked=pl.when(pl.col("annotator") == "a2").then(pl.lit("outlier")), control=pl.lit(None, dtype=pl.String)
    )
    data = replace(data, judgments=Judgments(table))
    assert found(data).judgments == 500


def test_noise_that_is_all_there_is():
    rng = np.random.default_rng(11)
    noise = rng.normal(size=(2, 40, 3))
    noise[1] = -noise[0]  # two answers on an output differ more than outputs do
    data = judged(noise + np.array([1e-4, 0, 0]))
    row, notes = estimate_perfect_annotator(build_inputs([data], "human", ["m"]).campaigns[0])
    assert np.isinf(row.ratio)
    assert any("infinite" in note for note in notes)
    report = aliquot.metrics(data, metrics=["m"], trials=50, permutations=5)
    assert all(np.isnan(one.perfect) for one in report.breakeven)
    assert report.to_dict()["annotators"][0]["ratio"] is None


def test_break_even_counts_single_judgments_where_there_are_some():
    """Items share difficulty here, so judgments of one's own are worth less than the same items for all systems."""
    rng = np.random.default_rng(12)
    quality, difficulty = np.array([0.3, 0.15, 0.0, -0.2]), 2 * rng.normal(size=(300, 1))
    values = quality + difficulty + rng.normal(size=(3, 300, 4))
    metric = np.where(np.arange(4) == 2, 0.2, quality) + rng.normal(size=(300, 4)) * 0.01  # one pair is told wrongly
    data = judged(values, metric=metric)
    default, item = aliquot.metrics(data, parts=["breakeven"]), aliquot.metrics(data, parts=["breakeven"], unit="item")
    assert (default.breakeven[0].unit, item.breakeven[0].unit) == ("judgment", "item")
    # A difference has the variance 2 (4 + 1) for judgments of one's own, 2 / 3 for items with three judgments each.
    assert default.breakeven[0].judgments / item.breakeven[0].judgments == pytest.approx(15, rel=0.35)
    assert "single judgments per system" in str(default.verdict)
    assert "judged items (the same for all systems)" in str(item.verdict)
    assert any("break-even counts single judgments" in note for note in default.notes)
    assert "|unit:item|" in item.signature


def test_break_even_without_judgments_counts_items():
    data = aliquot.synthetic(items=60, systems=4, annotators=0, seed=2)
    report = aliquot.metrics(data, parts=["breakeven"], trials=200)
    assert {row.unit for row in report.breakeven} == {"item"}
    assert any("there are no judgments" in note for note in report.notes)
    with pytest.raises(DataError, match="there are no judgments"):
        aliquot.metrics(data, parts=["breakeven"], trials=200, unit="judgment")
    with pytest.raises(NameUnknownError, match="`unit` is 'document'; did you mean 'judgment'"):
        aliquot.metrics(data, unit="document")  # type: ignore[arg-type]


def test_the_gap_by_hand():
    """Two outputs of one system on a scale of 0 to 7; judgments 1, 1, 7 and 0, 7, 7 (HumEval 2022, paper 2)."""
    values = np.array([[[1.0], [0.0]], [[1.0], [7.0]], [[7.0], [7.0]]])
    data = judged(np.concatenate([values, np.full((3, 1, 1), 3.0)], axis=1), metric=np.array([[0.5], [1.0], [0.5]]))
    (own, whole) = aliquot.metrics(data, metrics=["m"], parts=["gap"], scale=(0, 7)).gap
    assert (own.system, whole.system, whole.outputs) == ("s0", None, 3)
    mean = ((0.5 - 3 / 7) + (1 - (14 / 3) / 7) + (0.5 - 3 / 7)) / 3
    mode = ((0.5 - 1 / 7) + (1 - 1) + (0.5 - 3 / 7)) / 3
    assert (whole.mean, whole.mode) == pytest.approx((mean, mode))


def test_the_gap_says_which_scale_it_guesses():
    data = aliquot.synthetic(items=30, systems=3, annotators=0, seed=1)
    report = aliquot.metrics(data, parts=["gap"])
    assert any("the human scale is taken as" in note for note in report.notes)
    assert all(np.isnan(row.mode) and np.isfinite(row.mean) for row in report.gap)
    with pytest.raises(OptionError, match="the low end must be below"):
        aliquot.metrics(data, parts=["gap"], scale=(7, 0))


@pytest.mark.parametrize("highest", [1.000000119, 1.0000013])
def test_the_gap_of_a_metric_above_1_by_rounding_in_single_precision(highest):
    """BERTScore and XLsim of identical texts on WMT23: their scale is 0 to 1, not 0 to 100."""
    data = judged(np.full((3, 2, 1), 3.5), metric=np.array([[0.6], [highest]]))
    *_, whole = aliquot.metrics(data, metrics=["m"], parts=["gap"], scale=(0, 7)).gap
    assert whole.mean == pytest.approx(0.3, abs=1e-5)
