"""Simulated campaigns: as asked, the same for the same seed, and like real ones where it matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from aliquot import AliquotError, EvalSet, synthetic
from aliquot.stats.arrays import FloatArray


def dice(a: str, b: str) -> float:
    """Overlap of the words of two texts."""
    x, y = set(a.split()), set(b.split())
    return 2 * len(x & y) / (len(x) + len(y))


def overlap(data: EvalSet) -> FloatArray:
    """N x M: each output's overlap with the reference."""
    assert data.outputs is not None
    references = data.items["reference"].to_list()
    columns = [[dice(o, r) for o, r in zip(data.outputs[s].to_list(), references, strict=True)] for s in data.systems]
    return np.array(columns).T


def r(x: FloatArray, y: FloatArray) -> float:
    return float(np.corrcoef(x.ravel(), y.ravel())[0, 1])


@pytest.mark.parametrize("protocol", ["mqm", "da", "likert"])
@pytest.mark.parametrize("correlation", [0.9, 0.3, 0.0, -0.5, 1.0])
def test_metrics_have_the_correlation_asked_for(protocol, correlation):
    data = synthetic(items=80, systems=5, protocol=protocol, metrics={"m": correlation}, texts=False, seed=3)
    assert r(data.scores["m"], data.scores["human"]) == pytest.approx(correlation, abs=1e-9)


def test_a_metrics_noise_is_partly_shared_by_an_items_outputs():
    data = synthetic(items=400, systems=6, metrics={"m": 0.5}, texts=False, seed=3)
    human, metric = data.scores["human"], data.scores["m"]
    noise = metric - np.polyval(np.polyfit(human.ravel(), metric.ravel(), 1), human)
    between_items = noise.mean(axis=1).var() / noise.var()
    assert 0.4 < between_items < 0.8  # 1/6 if nothing were shared


def test_the_same_seed_gives_the_same_campaign():
    first, again, other = (synthetic(items=30, systems=3, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first.fingerprint == again.fingerprint
    assert first != other
    assert synthetic(items=30, systems=3, seed=np.random.default_rng(5)) == first


@pytest.mark.parametrize(("protocol", "low", "high"), [("mqm", -25, 0), ("da", 0, 100), ("likert", 1, 5)])
def test_protocols_have_their_range_and_steps(protocol, low, high):
    data = synthetic(items=300, systems=6, protocol=protocol, texts=False, seed=2)
    human = data.scores["human"]
    assert low <= human.min() < human.max() <= high
    assert human.max() - human.min() > 0.6 * (high - low)
    assert np.array_equal(human, np.round(human))
    assert data.judgments is not None
    assert data.judgments.criteria == [protocol]


def test_mqm_is_skewed_with_many_perfect_outputs():
    human = synthetic(items=500, systems=6, texts=False, seed=2).scores["human"]
    assert 0.1 < (human == 0).mean() < 0.7
    assert np.median(human) > human.mean()


def test_systems_fall_in_ability():
    means = synthetic(items=1500, systems=5, protocol="da", texts=False, seed=1).scores["human"].mean(axis=0)
    assert np.all(np.diff(means) < 0)


def test_texts_follow_quality():
    data = synthetic(items=300, systems=6, protocol="da", seed=4)
    shared = overlap(data)
    assert r(shared, data.scores["human"]) > 0.4
    assert r(shared.mean(axis=0), data.scores["human"].mean(axis=0)) > 0.95
    by_quality = [
        shared[(low <= data.scores["human"]) & (data.scores["human"] <= high)].mean()
        for low, high in ((0, 50), (50, 80), (80, 100))
    ]
    assert by_quality == sorted(by_quality)
    assert by_quality[-1] - by_quality[0] > 0.1


def test_chrf_of_the_texts_follows_quality_too():
    from sacrebleu.metrics.chrf import CHRF

    data = synthetic(items=60, systems=4, protocol="da", seed=4)
    assert data.outputs is not None
    references = data.items["reference"].to_list()
    metric = CHRF()
    scores = [
        [metric.sentence_score(o, [ref]).score for o, ref in zip(data.outputs[s].to_list(), references, strict=True)]
        for s in data.systems
    ]
    assert r(np.array(scores).T, data.scores["human"]) > 0.4


def test_sources_are_another_language_of_the_same_length():
    data = synthetic(items=50, systems=2, seed=4)
    sources, references = data.items["source"].to_list(), data.items["reference"].to_list()
    assert [len(s.split()) for s in sources] == [len(t.split()) for t in references]
    assert np.mean([dice(s, t) for s, t in zip(sources, references, strict=True)]) < 0.2
    lengths = [len(s.split()) for s in sources]
    assert min(lengths) >= 3
    assert max(lengths) > 2 * np.median(lengths)


def test_documents_are_runs_of_the_mean_length_and_share_difficulty():
    data = synthetic(items=2000, systems=4, document_length=5.0, texts=False, seed=7)
    codes = data.documents
    assert codes is not None
    assert np.all(np.diff(codes) >= 0)
    assert np.bincount(codes).mean() == pytest.approx(5.0, rel=0.1)
    quality = data.scores["human"].mean(axis=1)
    means = np.bincount(codes, quality) / np.bincount(codes)
    shuffled = np.random.default_rng(0).permutation(quality)
    assert means.var() > 1.2 * (np.bincount(codes, shuffled) / np.bincount(codes)).var()


@pytest.mark.parametrize(
    ("options", "absent"),
    [
        ({"document_length": 0}, "document"),
        ({"domains": 0}, "domain"),
        ({"texts": False}, "source"),
        ({"texts": False}, "reference"),
    ],
)
def test_what_is_not_wanted_is_not_there(options, absent):
    data = synthetic(items=20, systems=2, seed=1, **options)
    assert absent not in data.items.columns
    assert (data.outputs is None) == (options.get("texts") is False)


def test_documents_have_one_domain():
    data = synthetic(items=200, systems=2, domains=4, texts=False, seed=1)
    assert data.items["domain"].n_unique() == 4
    assert data.items.group_by("document").agg(pl.col("domain").n_unique())["domain"].max() == 1


def test_annotators_judge_each_output_and_the_score_is_their_mean():
    data = synthetic(items=60, systems=3, annotators=4, judgments_per_output=3, texts=False, seed=9)
    assert data.judgments is not None
    table = data.judgments.table
    assert table.height == 60 * 3 * 3
    assert sorted(data.judgments.annotators) == ["a01", "a02", "a03", "a04"]
    assert table.group_by("item", "system").agg(pl.col("annotator").n_unique())["annotator"].unique().to_list() == [3]
    assert np.allclose(data.aggregate(name="mean").scores["mean"], data.scores["human"])


def test_annotators_have_severity_times_and_an_order_of_work():
    data = synthetic(items=1500, systems=4, annotators=5, protocol="da", texts=False, seed=9)
    assert data.judgments is not None
    table = data.judgments.table
    means = table.group_by("annotator").agg(pl.col("value").mean())["value"]
    assert float(means.max()) - float(means.min()) > 3.0  # type: ignore[arg-type]
    assert float(table["seconds"].min()) > 0  # type: ignore[arg-type]
    for _, mine in table.group_by("annotator"):
        assert sorted(mine["order"].to_list()) == list(range(1, mine.height + 1))


def test_longer_texts_take_longer():
    data = synthetic(items=500, systems=2, seed=9)
    assert data.judgments is not None
    words = data.items.select(item="id", words=pl.col("source").str.split(" ").list.len())
    timed = data.judgments.table.join(words, on="item")
    assert r(timed["words"].to_numpy(), timed["seconds"].to_numpy()) > 0.3


def test_without_annotators_there_are_scores_only():
    data = synthetic(items=20, systems=2, annotators=0, texts=False, seed=1)
    assert data.judgments is None
    assert np.isfinite(data.scores["human"]).all()


def test_it_says_that_it_is_simulated():
    assert "simulated" in repr(synthetic(items=3, systems=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"items": 0}, "`items` is 0"),
        ({"systems": 0}, "`systems` is 0"),
        ({"protocol": "MQM"}, "'MQM'; did you mean 'mqm'"),
        ({"metrics": {"x": 1.01}}, r"x.*1\.01"),
        ({"metrics": {"human": 0.5}}, "'human'"),
        ({"domains": 5}, "`domains` is 5"),
        ({"judgments_per_output": 7}, "`judgments_per_output` is 7.*1 to 6"),
        ({"annotators": -1}, "`annotators` is -1"),
        ({"document_length": float("nan")}, "`document_length` is nan"),
        ({"seed": -1}, "seed.*-1"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    fields: dict[str, Any] = {"items": 10, "systems": 2, **options}
    with pytest.raises(AliquotError, match=message):
        synthetic(**fields)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
def test_tiny_campaigns(shape):
    data = synthetic(items=shape[0], systems=shape[1], seed=1)
    assert data.scores["metricA"].shape == shape
    assert all(np.isfinite(values).all() for values in data.scores.values())
