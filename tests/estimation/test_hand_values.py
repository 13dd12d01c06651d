"""Parts of an estimate with values worked out by hand: quality of items, severities of few judgments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot import EvalSet, Judgments
from aliquot.estimation.inputs import _pad_with_unknown_items, attach_judgments, rescale_scores
from aliquot.estimation.sample import adaptive_sample, judged_sample
from aliquot.estimation.targets import judging_noise

NAMES = ["item", "system", "annotator", "value"]


def test_quality_is_the_mean_of_standardised_means_of_items():
    """Items' means are 1, 1, 5, 5 by m and 10, 20, 10, 20 by n: standardised -1, -1, 1, 1 and -1, 1, -1, 1."""
    scores = {
        "human": np.ones((4, 2)),
        "m": np.array([[0.0, 2.0], [1.0, 1.0], [5.0, 5.0], [2.0, 8.0]]),
        "n": np.array([[10.0, 10.0], [0.0, 40.0], [10.0, 10.0], [15.0, 25.0]]),
    }
    data = EvalSet(systems=("A", "B"), scores=scores, human="human", items=pl.DataFrame({"id": range(4)}))
    assert judged_sample(data).quality == pytest.approx([-1.0, 0.0, 0.0, 1.0])
    without = EvalSet(systems=("A", "B"), scores={"human": np.ones((4, 2))}, human="human", items=data.items)
    assert judged_sample(without).quality is None


@pytest.mark.parametrize(
    ("left_out", "people"),
    [(0, 2), (1, 0)],  # three judgments for each system are enough to tell two annotators, two and a half are not
)
def test_severities_need_three_judgments_of_a_system_and_two_annotators(left_out, people):
    rows = [
        (item, system, who, value)
        for item, system, who, value in [
            (0, "A", "x", 1.0),
            (0, "B", "y", 5.0),
            (1, "A", "y", 6.0),
            (1, "B", "x", 2.0),
            (2, "A", "x", 3.0),
            (2, "B", "y", 7.0),
        ]
    ]
    empty = EvalSet(systems=("A", "B"), scores={"m": np.ones((3, 2))}, items=pl.DataFrame({"id": range(3)}))
    table = pl.DataFrame(rows[left_out:], schema=NAMES, orient="row")
    noise = judging_noise(attach_judgments(empty, Judgments(table))[0], "human")
    assert noise.shares.shape == (people, 2)
    if people:  # x judged two of A's three outputs and one of B's
        assert noise.shares == pytest.approx(np.array([[2, 1], [1, 2]]) / 3)
        assert noise.severity > 1
    one = table.with_columns(annotator=pl.lit("x"))
    assert judging_noise(attach_judgments(empty, Judgments(one))[0], "human").shares.shape == (0, 2)


def test_cells_of_a_policy_count_by_their_own_probability():
    """An item's probability is that of its most likely cell; without differences cells need no weight of their own."""
    data = EvalSet(
        systems=("A", "B"), scores={"human": np.ones((4, 2))}, human="human", items=pl.DataFrame({"id": range(4)})
    )
    rows, scores = np.array([0, 2]), np.ones((2, 2))
    apart = adaptive_sample(data, rows, scores, np.array([[0.5, 0.25], [0.1, 0.2]]))
    assert apart.pi is not None
    assert apart.pi.tolist() == [0.5, 0.2]
    assert apart.weight.tolist() == [2.0, 5.0]
    assert apart.cells.tolist() == [[2.0, 4.0], [10.0, 5.0]]
    alike = adaptive_sample(data, rows, scores, np.array([[0.5, 0.5], [0.2, 0.2]]))
    assert alike.cell_weight is None
    assert alike.cells.tolist() == [2.0, 5.0]


def test_people_and_extreme_metrics_are_put_on_their_scale():
    scores = {"human": np.full((2, 1), 3e170), "big": np.full((2, 1), 5e180), "usual": np.full((2, 1), 7.0)}
    table = pl.DataFrame({"item": [0], "system": ["A"], "annotator": ["x"], "value": [3e170]})
    data = EvalSet(
        systems=("A",), scores=scores, human="human", items=pl.DataFrame({"id": range(2)}), judgments=Judgments(table)
    )
    found = rescale_scores(data, 1e170)
    assert {name: values[0, 0] for name, values in found.scores.items()} == pytest.approx(
        {"human": 3.0, "big": 5.0, "usual": 7.0}
    )
    assert found.judgments is not None
    assert found.judgments.table["value"].to_list() == pytest.approx([3.0])


@pytest.mark.parametrize("size", [1e-200, 1e190])
def test_estimates_of_extreme_scores_are_those_of_usual_ones_at_their_scale(size):
    past = aliquot.synthetic(items=40, systems=3, seed=2)
    selection = aliquot.select(past, "random", 20, seed=1)
    human = past.human
    assert human is not None
    scaled = replace(past, scores={**past.scores, human: past.scores[human] * size}, judgments=None)
    usual, extreme = (aliquot.estimate(data, selection=selection) for data in (replace(past, judgments=None), scaled))
    for one, other in zip(usual.systems, extreme.systems, strict=True):
        for name in ("estimate", "se", "low", "high", "plain_mean"):
            assert getattr(other, name) / size == pytest.approx(getattr(one, name), rel=1e-6), name
        assert (one.system, one.rank_low, one.cluster) == (other.system, other.rank_low, other.cluster)
    for pair, far in zip(usual.pairs, extreme.pairs, strict=True):
        for name in ("difference", "low", "high"):
            assert getattr(far, name) / size == pytest.approx(getattr(pair, name), rel=1e-6), name
        assert far.p == pytest.approx(pair.p, rel=1e-6)
    assert extreme.contenders == usual.contenders


def test_who_may_be_the_best():
    rng = np.random.default_rng(0)
    items = pl.DataFrame({"id": range(60)})
    noise = rng.normal(size=(60, 3))
    apart, close = (
        EvalSet(items, ("A", "B", "C"), scores={"human": noise + np.array(gaps)}, human="human")
        for gaps in ([9.0, 0.0, -9.0], [0.0, 0.0, -9.0])
    )
    assert aliquot.estimate(apart).contenders == ("A",)
    assert set(aliquot.estimate(close).contenders) == {"A", "B"}
    one = EvalSet(items, ("A",), scores={"human": noise[:, :1]}, human="human")
    assert aliquot.estimate(one).contenders == ("A",)


def test_items_of_a_pool_that_the_data_lack_have_ids_of_their_own():
    items = pl.DataFrame({"id": [3, 7], "document": ["d", "e"], "domain": ["news", "news"]})
    padded = _pad_with_unknown_items(EvalSet(items, ("A",), scores={"human": np.ones((2, 1))}, human="human"), 2)
    assert list(padded.ids) == [3, 7, 8, 9]
    assert padded.items["document"].to_list() == ["d", "e", None, None]
    assert "domain" not in padded.items.columns
    assert not padded.scores
    named = _pad_with_unknown_items(EvalSet(items.with_columns(id=pl.Series(["x", "y"])), ("A",)), 1)
    assert len(set(named.ids)) == 3


def test_judgments_given_apart_are_put_on_their_scale_with_the_data():
    past = aliquot.synthetic(items=30, systems=2, seed=3)
    empty = EvalSet(past.items, past.systems)
    values = past.human_score()
    rows = [
        (item, system, "x", float(values[at, k]))
        for at, item in enumerate(past.ids)
        for k, system in enumerate(past.systems)
    ]
    table = pl.DataFrame(rows, schema=NAMES, orient="row")
    usual, extreme = (
        aliquot.estimate(empty, judgments=Judgments(table.with_columns(pl.col("value") * size)), target="given")
        for size in (1.0, 1e190)
    )
    for one, other in zip(usual.systems, extreme.systems, strict=True):
        assert other.estimate / 1e190 == pytest.approx(one.estimate)
        assert other.high / 1e190 == pytest.approx(one.high)
