"""CASF with known probabilities: equal chances whatever is learned, spread along quality, like texts apart."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.core.evalset import ItemId
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.sampling.active import Casf, principal_coordinate, quality_order
from aliquot.sampling.select import select

DATA = aliquot.synthetic(items=60, systems=3, seed=2)


def fed(seed: int, batches: int = 4, budget: int = 20) -> list[ItemId]:
    """All items drawn when the human scores are told after every batch."""
    sampler = Casf(DATA, budget, batches=batches, seed=seed)
    taken: list[ItemId] = []
    while batch := sampler.next():
        taken += batch
        sampler.tell({item: DATA.scores["human"][DATA.ids.index(item)] for item in batch})
    return taken


def test_every_item_has_the_same_chance_although_the_order_is_learned():
    runs = 600
    count = np.zeros(60)
    row_of = {item: at for at, item in enumerate(DATA.ids)}
    for run in range(runs):
        taken = fed(run, batches=3, budget=15)
        assert len(set(taken)) == 15
        count[[row_of[item] for item in taken]] += 1
    z = (count / runs - 0.25) / np.sqrt(0.25 * 0.75 / runs)
    assert np.abs(z).max() < 4.5
    assert (z**2).mean() < 1.5


def test_the_learner_learns():
    sampler = Casf(DATA, 40, batches=2, seed=1)
    first = sampler.next()
    before = sampler.predicted()
    wrong = {item: -DATA.scores["metricA"][DATA.ids.index(item)] for item in first}
    sampler.tell(wrong)  # people who say the opposite of the metric
    assert np.corrcoef(before, sampler.predicted())[0, 1] < 0


def test_quality_is_covered():
    quality = np.arange(100.0)
    order = quality_order(quality, np.random.default_rng(1).random(100), 20, np.random.default_rng(2))
    assert sorted(order.tolist()) == list(range(100))
    assert [sorted(order[at : at + 20].tolist()) for at in (0, 80)] == [list(range(20)), list(range(80, 100))]


def test_a_draw_is_not_one_of_few():
    """Every third item in a fixed order would be one of three samples, and intervals would mean nothing."""
    drawn = {tuple(sorted(map(int, select(DATA, "casf", 20, seed=seed).ids))) for seed in range(100)}
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
    chosen = select(DATA, "casf:batches=3", 20, seed=1)
    assert len(chosen) == 20
    assert chosen.probability == pytest.approx(np.full(20, 1 / 3))
    assert chosen.ids != select(DATA, "casf:batches=3", 20, seed=2).ids
    assert chosen.ids == select(DATA, "casf:batches=3", 20, seed=1).ids


def test_the_design_never_looks_at_human_scores():
    blind = DATA.with_score("human", np.full((60, 3), np.nan))
    assert select(blind, "casf:batches=2", 20, seed=5).ids == select(DATA, "casf:batches=2", 20, seed=5).ids


def test_a_selection_so_far_has_the_probabilities_so_far():
    sampler = Casf(DATA, 30, batches=3, seed=1)
    sampler.next()
    assert sampler.selection().probability == pytest.approx(np.full(10, 10 / 60))
    sampler.next()
    assert len(sampler.selection()) == 20


def test_mistakes_are_told():
    with pytest.raises(OptionError, match="batches=0"):
        Casf(DATA, 10, batches=0)
    with pytest.raises(OptionError, match="budget of 61"):
        Casf(DATA, 61)
    sampler = Casf(DATA, 10, batches=2)
    with pytest.raises(NameUnknownError, match="no item"):
        sampler.tell({"nothing": [1.0, 2.0, 3.0]})
    with pytest.raises(OptionError, match="a number of items"):
        Casf(DATA, "20%")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="is not a number"):
        sampler.tell({DATA.ids[0]: ["a", "b", "c"]})  # type: ignore[list-item]
    with pytest.raises(DataError, match="one each"):
        sampler.tell({DATA.ids[0]: [1.0]})
