"""Active sampling: incremental allocation, and CASF, whose probabilities stay known whatever is learned."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.sampling.conftest import DATA, small

import aliquot
from aliquot import AliquotError, EvalSet, Incremental
from aliquot.core.evalset import ItemId
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.sampling.active import Casf, principal_coordinate, quality_order
from aliquot.sampling.select import select

# -- incremental ------------------------------------------------------------------------------------------------------


VARIANTS = pytest.mark.parametrize("variance", ["human", "metric"])


def rating(data: EvalSet, item: Any) -> dict[str, float]:
    return dict(zip(data.systems, data.human_score()[data.ids.index(item)].tolist(), strict=True))


@VARIANTS
@pytest.mark.parametrize("bins", ["document", "domain", "metric"])
def test_incremental_reaches_every_item_once(variance, bins):
    sampler = Incremental(DATA, bins=bins, variance=variance, seed=1)
    given_out = []
    for number in range(60):
        item = sampler.next()
        given_out.append(item)
        sampler.tell(item, rating(DATA, item))
        assert sampler.rated == number + 1
    assert sorted(map(str, given_out)) == sorted(map(str, DATA.ids))
    with pytest.raises(DataError, match="no next one"):
        sampler.next()


@VARIANTS
def test_incremental_does_not_wait_for_an_answer(variance):
    sampler = Incremental(DATA, variance=variance)
    assert len({sampler.next() for _ in range(20)}) == 20
    assert sampler.rated == 0


def test_incremental_follows_the_bin_that_varies():
    data = small(domain=["calm"] * 15 + ["wild"] * 15)
    sampler = Incremental(data, bins="domain", seed=2)
    rng = np.random.default_rng(0)
    drawn = Counter[str]()
    for _ in range(16):
        item = sampler.next()
        wild = int(item) >= 115
        drawn["wild" if wild else "calm"] += 1
        sampler.tell(item, {name: float(rng.normal() * (10.0 if wild else 0.01)) for name in data.systems})
    assert drawn["wild"] >= 11


def test_incremental_never_gives_what_it_was_told():
    sampler = Incremental(DATA, seed=3)
    told = DATA.ids[:40]
    for item in told:
        sampler.tell(item, rating(DATA, item))
    assert not {sampler.next() for _ in range(20)} & set(told)


def test_incremental_is_deterministic():
    def first(seed: int) -> list[Any]:
        sampler = Incremental(DATA, seed=seed)
        return [sampler.next() for _ in range(12)]

    assert first(1) == first(1) != first(2)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("nowhere", {"sys1": 1.0}), "unknown item 'nowhere'"),
        ((0, {"sys9": 1.0}), "unknown system 'sys9'"),
        ((0, {"sys1": float("nan")}), "is not a number"),
    ],
)
def test_incremental_checks_what_it_is_told(told, message):
    sampler = Incremental(DATA)
    with pytest.raises(AliquotError, match=message):
        sampler.tell(*told)
    assert sampler.rated == 0


def test_a_rating_that_is_refused_leaves_no_trace():
    sampler = Incremental(DATA)
    with pytest.raises(AliquotError):
        sampler.tell(0, {"sys1": 1.0, "sys9": 1.0})
    assert sampler.rated == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance": "metrics"}, "did you mean 'metric'"),
        ({"k": 0}, "at least 1 neighbour"),
        ({"bins": "topic"}, "unknown item column 'topic'"),
        ({"metrics": ("metricX",), "variance": "metric"}, "unknown score 'metricX'"),
    ],
)
def test_incremental_checks_its_options(options, message):
    with pytest.raises(AliquotError, match=message):
        Incremental(DATA, **options)


@VARIANTS
def test_incremental_as_a_method_goes_on_after_the_ratings_there_are(variance):
    human = DATA.scores["human"].copy()
    human[20:] = np.nan
    partly = DATA.with_score("human", human).with_human("human")
    chosen = select(partly, "incremental", 10, variance=variance)
    assert not set(chosen.ids) & set(DATA.ids[:20])
    assert len(chosen) == 10
    with pytest.raises(DataError, match="only 40 items are not judged yet, 41 are wanted"):
        select(partly, "incremental", 41, variance=variance)


# -- casf -------------------------------------------------------------------------------------------------------------


CAMPAIGN = aliquot.synthetic(items=60, systems=3, seed=2)


def fed(seed: int, batches: int = 4, budget: int = 20) -> list[ItemId]:
    """All items drawn when the human scores are told after every batch."""
    sampler = Casf(CAMPAIGN, budget, batches=batches, seed=seed)
    taken: list[ItemId] = []
    while batch := sampler.next():
        taken += batch
        sampler.tell({item: CAMPAIGN.scores["human"][CAMPAIGN.ids.index(item)] for item in batch})
    return taken


def test_every_item_has_the_same_chance_although_the_order_is_learned():
    runs = 600
    count = np.zeros(60)
    row_of = {item: at for at, item in enumerate(CAMPAIGN.ids)}
    for run in range(runs):
        taken = fed(run, batches=3, budget=15)
        assert len(set(taken)) == 15
        count[[row_of[item] for item in taken]] += 1
    z = (count / runs - 0.25) / np.sqrt(0.25 * 0.75 / runs)
    assert np.abs(z).max() < 4.5
    assert (z**2).mean() < 1.5


def test_the_learner_learns():
    sampler = Casf(CAMPAIGN, 40, batches=2, seed=1)
    first = sampler.next()
    before = sampler.predict_quality()
    wrong = {item: -CAMPAIGN.scores["metricA"][CAMPAIGN.ids.index(item)] for item in first}
    sampler.tell(wrong)  # people who say the opposite of the metric
    assert np.corrcoef(before, sampler.predict_quality())[0, 1] < 0


def test_quality_is_covered():
    quality = np.arange(100.0)
    order = quality_order(quality, np.random.default_rng(1).random(100), 20, np.random.default_rng(2))
    assert sorted(order.tolist()) == list(range(100))
    assert [sorted(order[at : at + 20].tolist()) for at in (0, 80)] == [list(range(20)), list(range(80, 100))]


def test_a_draw_is_not_one_of_few():
    """Every third item in a fixed order would be one of three samples, and intervals would mean nothing."""
    drawn = {tuple(sorted(map(int, select(CAMPAIGN, "casf", 20, seed=seed).ids))) for seed in range(100)}
    assert len(drawn) > 60


def test_like_texts_are_not_both_taken():
    """Thirty texts, each there twice with the same metric: a third of the items never holds a text twice."""
    rng = np.random.default_rng(3)
    words = [f"w{k}" for k in range(300)]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(30)]
    scores = np.repeat(rng.normal(size=(30, 2)), 2, axis=0)
    table = pl.DataFrame({"id": np.arange(60), "source": [text for text in texts for _ in range(2)]})
    data = aliquot.EvalSet(table, ("A", "B"), {"m": scores})
    twice = {"casf": 0, "segments": 0}
    for seed in range(60):
        for method in twice:
            kept = [int(item) // 2 for item in select(data, method, 20, seed=seed).ids]
            twice[method] += len(kept) - len(set(kept))
    assert twice["casf"] <= 0.1 * twice["segments"]


def test_few_texts_of_many_ngrams_are_ordered_by_a_small_matrix(monkeypatch):
    """100 articles have 20,000 n-grams: the matrix of all pairs of them would take 4 GB."""
    vectors = np.random.default_rng(1).normal(size=(12, 300))
    centred = vectors - vectors.mean(axis=0)
    expected = centred @ np.linalg.svd(centred)[2][0]
    eigh, sides = np.linalg.eigh, []

    def watched(matrix):
        sides.append(len(matrix))
        return eigh(matrix)

    monkeypatch.setattr(np.linalg, "eigh", watched)
    found = principal_coordinate(vectors)
    assert sides == [12]
    assert abs(found) == pytest.approx(abs(expected))


def test_the_design_draws_as_many_as_asked():
    chosen = select(CAMPAIGN, "casf:batches=3", 20, seed=1)
    assert len(chosen) == 20
    assert chosen.probability == pytest.approx(np.full(20, 1 / 3))
    assert chosen.ids != select(CAMPAIGN, "casf:batches=3", 20, seed=2).ids
    assert chosen.ids == select(CAMPAIGN, "casf:batches=3", 20, seed=1).ids


def test_the_design_never_looks_at_human_scores():
    blind = CAMPAIGN.with_score("human", np.full((60, 3), np.nan))
    assert select(blind, "casf:batches=2", 20, seed=5).ids == select(CAMPAIGN, "casf:batches=2", 20, seed=5).ids


def test_a_selection_so_far_has_the_probabilities_so_far():
    sampler = Casf(CAMPAIGN, 30, batches=3, seed=1)
    sampler.next()
    assert sampler.selection().probability == pytest.approx(np.full(10, 10 / 60))
    sampler.next()
    assert len(sampler.selection()) == 20


def test_mistakes_are_told():
    with pytest.raises(OptionError, match="batches=0"):
        Casf(CAMPAIGN, 10, batches=0)
    with pytest.raises(OptionError, match="budget of 61"):
        Casf(CAMPAIGN, 61)
    sampler = Casf(CAMPAIGN, 10, batches=2)
    with pytest.raises(NameUnknownError, match="unknown item"):
        sampler.tell({"nothing": [1.0, 2.0, 3.0]})
    with pytest.raises(OptionError, match="a number of items"):
        Casf(CAMPAIGN, "20%")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="is not a number"):
        sampler.tell({CAMPAIGN.ids[0]: ["a", "b", "c"]})  # type: ignore[list-item]
    with pytest.raises(DataError, match="one each"):
        sampler.tell({CAMPAIGN.ids[0]: [1.0]})


@pytest.mark.parametrize(("n", "bins"), [(3, 1), (4, 1), (8, 2), (11, 2)])
def test_items_are_ordered_by_bins_of_quality_and_as_rings_of_texts(n, bins):
    quality, along = np.arange(12.0)[::-1], np.arange(12.0) % 7
    order = quality_order(quality, along, n, np.random.default_rng(3))
    for part in np.split(order, bins):
        by_text = sorted(part.tolist(), key=lambda row: (along[row], row))
        start = by_text.index(int(part[0]))
        assert part.tolist() == by_text[start:] + by_text[:start]
    by_quality = np.split(np.argsort(quality), bins)
    assert [set(part.tolist()) for part in np.split(order, bins)] == [set(part.tolist()) for part in by_quality]
