"""Methods that choose a subset: clusters of texts, and searches for the best of many random subsets."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import AgglomerativeClustering
from tests.sampling.conftest import DATA

from aliquot import AliquotWarning, EvalSet
from aliquot.errors import OptionError
from aliquot.sampling.select import select
from aliquot.sampling.text_methods import distance_medoids
from aliquot.stats.pairwise import analytic_p, spa

# -- clusters ------------------------------------------------------------------------------------------------------


def texts(sources: list[str]) -> EvalSet:
    """Items whose outputs are their source with the system's name."""
    items = pl.DataFrame({"id": np.arange(len(sources)), "source": sources})
    outputs = pl.DataFrame({name: [f"{text} {name}" for text in sources] for name in ("A", "B")})
    return EvalSet(items=items, systems=("A", "B"), outputs=outputs)


DUPLICATES = {
    "all alike": ["a house"] * 12,
    "three texts": ["a house", "two dogs ran", "nobody knows why"] * 4,
    "empty": [""] * 6 + ["text"] * 6,
    "different": [f"{word} {word * 2}" for word in "abcdefghijkl"],
}


@pytest.mark.parametrize("kind", DUPLICATES)
@pytest.mark.parametrize("n", [1, 2, 5, 11, 12])
@pytest.mark.parametrize("spec", ["kmeans", "kmeans:features=outputs", "kmeans:weighted=yes", "diffuse"])
def test_clusters_give_exactly_the_budget(spec, n, kind):
    chosen = select(texts(DUPLICATES[kind]), spec, n, model="ngrams")
    assert len(set(chosen.ids)) == n
    if "weighted" in spec:
        assert chosen.weight is not None
        assert chosen.weight.sum() == pytest.approx(12)
        assert (chosen.weight > 0).all()


@pytest.mark.parametrize("spec", ["kmeans", "kmeans:features=outputs"])
def test_clusters_cover_the_topics(spec):
    topics = ["cat cats catty", "stock market bonds", "rain snow wind"]
    sources = [f"{topic} {topic} {at}" for topic in topics for at in range(5)]
    chosen = select(texts(sources), spec, 3, model="ngrams")
    assert {int(item) // 5 for item in chosen.ids} == {0, 1, 2}


def test_clusters_of_distances_cover_the_ways_to_differ():
    """Which pair of systems differs tells items apart; that two outputs differ by other words does not."""
    items = pl.DataFrame({"id": np.arange(12)})
    triples = [("yes", "yes", "yes"), ("yes", "yes", "qqq zzz"), ("yes", "qqq zzz", "yes")]
    rows = [triple for triple in triples for _ in range(4)]
    outputs = pl.DataFrame({name: [row[at] for row in rows] for at, name in enumerate("ABC")})
    chosen = select(EvalSet(items=items, systems=("A", "B", "C"), outputs=outputs), "diffuse:model=ngrams", 3)
    assert {int(item) // 4 for item in chosen.ids} == {0, 1, 2}


def by_hand(vectors: np.ndarray, n: int) -> set[int]:
    """Zouhar et al. 2025, A.1, word by word: all pairs' distances, Ward's tree by scikit-learn, nearest to the mean."""
    pairs = list(itertools.combinations(range(vectors.shape[1]), 2))
    distances = np.array([[np.linalg.norm(item[a] - item[b]) for a, b in pairs] for item in vectors])
    labels = AgglomerativeClustering(n, linkage="ward").fit_predict(distances)
    chosen = set()
    for rows in (np.flatnonzero(labels == label) for label in range(n)):
        off = ((distances[rows] - distances[rows].mean(axis=0)) ** 2).sum(axis=1)
        chosen.add(int(rows[np.argmin(off.round(9))]))  # of two members, equally far from their mean, the first
    return chosen


@pytest.mark.parametrize("systems", [2, 5, 33])
def test_diffuse_is_the_published_method(systems):
    vectors = np.random.default_rng(systems).normal(size=(40, systems, 6))
    chosen = distance_medoids(vectors, 9)
    assert set(chosen.tolist()) == by_hand(vectors, 9)


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 19))
def test_diffuse_does_not_depend_on_the_order_of_systems(seed, systems, n):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(20, systems, 4))
    shuffled = vectors[:, rng.permutation(systems)]
    assert distance_medoids(shuffled, n).tolist() == distance_medoids(vectors, n).tolist()


def test_shuffling_the_systems_of_a_file_keeps_the_items():
    names = list(DATA.systems)
    shuffled = [names[at] for at in np.random.default_rng(1).permutation(len(names))]
    assert shuffled != names
    again = replace(
        DATA,
        systems=tuple(shuffled),
        scores={k: v[:, [names.index(s) for s in shuffled]] for k, v in DATA.scores.items()},
    )
    assert select(again, "diffuse:model=ngrams", 12).ids == select(DATA, "diffuse:model=ngrams", 12).ids


@pytest.mark.parametrize("spec", ["kmeans:features=outputs", "diffuse"])
def test_items_without_outputs_are_reported(spec):
    data = texts(DUPLICATES["different"])
    assert data.outputs is not None
    holes = data.outputs.with_columns(pl.when(pl.int_range(pl.len()) > 1).then(pl.col("A")).alias("A"))
    with pytest.warns(AliquotWarning, match="2"):
        select(replace(data, outputs=holes), spec, 4, model="ngrams")


def accuracy(scores: np.ndarray, rows: np.ndarray) -> float:
    return spa(analytic_p(scores[rows]), analytic_p(scores))


# -- searches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), [("bruteforce", {}), ("greedy", {"step": 3}), ("guided", {"draws": 200})])
def test_searches_beat_random_subsets_on_their_metric(name, options):
    scores = DATA.scores["metricB"]
    rng = np.random.default_rng(0)
    at_random = [accuracy(scores, rng.choice(60, 9, replace=False)) for _ in range(500)]
    chosen = select(DATA, name, 9, metric="metricB", **options)
    rows = np.array([DATA.ids.index(item) for item in chosen.ids])
    found = accuracy(scores, rows)
    assert found > np.quantile(at_random, 0.97)
    assert chosen.details["metric_spa"] == pytest.approx(found)


def test_more_simulations_are_not_worse():
    accuracies = [
        select(DATA, "bruteforce", 9, metric="metricB", simulations=s).details["metric_spa"] for s in (1, 10, 1000)
    ]
    assert accuracies == sorted(accuracies)


@pytest.mark.parametrize("spec", ["bruteforce:simulations=0", "greedy:step=0", "greedy:simulations=-1"])
def test_a_search_without_tries_is_refused(spec):
    with pytest.raises(OptionError, match="at least 1"):
        select(DATA, spec, 9, metric="metricA")
