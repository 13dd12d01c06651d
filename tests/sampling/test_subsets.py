"""Methods that choose a subset: clusters of texts, and searches for the best of many random subsets."""

from __future__ import annotations

import itertools
import math
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
from aliquot.sampling.text_methods import _top_up, distance_medoids
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


@pytest.fixture
def numbers(monkeypatch):
    """Embed a text that is a number as that number."""
    monkeypatch.setattr(
        "aliquot.sampling.text_methods.embed", lambda texts, _: np.array([[float(text)] for text in texts])
    )


@pytest.mark.usefixtures("numbers")
def test_kmeans_by_hand():
    """Clusters 0 1 3, 10 11 16 and 30 have the means 1.33, 12.33 and 30, to which 1, 11 and 30 are nearest."""
    data = texts(["0", "10", "1", "11", "3", "16", "30"])
    chosen = select(data, "kmeans:weighted=yes", 3)
    assert chosen.weight is not None
    assert dict(zip(chosen.ids, chosen.weight.tolist(), strict=True)) == {2: 3.0, 3: 3.0, 6: 1.0}
    assert select(data, "kmeans", 3).weight is None


@pytest.mark.usefixtures("numbers")
def test_kmeans_of_outputs_by_hand():
    """Means of the outputs are 0, 2, 3 and 20, 21, 25: cluster means 1.67 and 22, to which 2 and 21 are nearest."""
    outputs = pl.DataFrame({"A": ["-5", "0", "6", "20", "12", "50"], "B": ["5", "4", "0", "20", "30", "0"]})
    data = EvalSet(items=pl.DataFrame({"id": np.arange(6)}), systems=("A", "B"), outputs=outputs)
    assert set(select(data, "kmeans:features=outputs", 2).ids) == {1, 4}


@pytest.mark.usefixtures("numbers")
def test_clusters_of_equal_texts_share_their_weight_by_hand():
    """Two clusters for four places: 0 0 0 gives three items of weight 3 / 3, 5 5 one of weight 2."""
    chosen = select(texts(["0", "0", "0", "5", "5"]), "kmeans:weighted=yes", 4)
    assert chosen.weight is not None
    assert dict(zip(chosen.ids, chosen.weight.tolist(), strict=True)) == {0: 1.0, 1: 1.0, 2: 1.0, 3: 2.0}


def test_the_farthest_items_are_added_by_hand():
    """From 0 the farthest of 1, 5, 9 is 9; then 5 is 4 from its nearest, 1 only 1."""
    places = np.array([0.0, 1.0, 5.0, 9.0])
    assert _top_up(np.array([0]), lambda row: (places - places[row]) ** 2, 3).tolist() == [0, 3, 2]


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


def phi(z: float) -> float:
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))


def judged(*systems: list[float]) -> EvalSet:
    """Items that people have scored, system by system."""
    human = np.column_stack(systems).astype(np.float64)
    names = tuple("ABCD"[: len(systems)])
    items = pl.DataFrame({"id": np.arange(len(human))})
    return EvalSet(items=items, systems=names, scores={"human": human}, human="human")


@pytest.mark.filterwarnings("ignore:'human' is a human score")
@pytest.mark.parametrize(
    ("spec", "n", "rows", "z"),
    [
        ("bruteforce", 2, [0, 3], 3 / math.sqrt(17)),  # 4 - 1; 16 + 1
        ("bruteforce", 3, [1, 2, 3], 3 / math.sqrt(11)),  # 3 + 1 - 1; 9 + 1 + 1
        ("greedy:step=2", 2, [0, 3], 3 / math.sqrt(17)),
        ("greedy:step=2", 3, [0, 2, 3], 4 / math.sqrt(18)),  # the pair first, then the best third: 4 + 1 - 1
        ("greedy:step=3", 3, [1, 2, 3], 3 / math.sqrt(11)),
        ("greedy:step=9", 5, [0, 1, 2, 3, 4], 5 / math.sqrt(31)),
        ("greedy:step=1", 5, [0, 1, 2, 3, 4], 5 / math.sqrt(31)),
    ],
)
def test_searches_with_the_human_oracle_by_hand(spec, n, rows, z):
    """A - B is 4, 3, 1, -1, -2: sum 5, squares 31. The subset with P(A > B) nearest to phi(5 / sqrt 31).

    Enough tries to meet each of ten subsets: one is missed with a probability of 0.9 ** 400.
    """
    data = judged([4, 3, 1, 0, 5], [0, 0, 0, 1, 7])
    chosen = select(data, spec, n, metric="human", simulations=400)
    assert sorted(chosen.ids) == rows
    assert chosen.details["metric_spa"] == pytest.approx(1 - abs(phi(z) - phi(5 / math.sqrt(31))), abs=1e-12)


@pytest.mark.filterwarnings("ignore:'human' is a human score")
def test_accuracy_is_the_mean_over_pairs_of_systems_by_hand():
    """A - B is 4, 3, 1, -1; A - C is 2, 1, -1, 3; B - C is -2, -2, -2, 4: sums 7, 5, -2, squares 27, 15, 28."""
    ab, ac, bc = [4, 3, 1, -1], [2, 1, -1, 3], [-2, -2, -2, 4]
    data = judged([0, 0, 0, 0], [-4, -3, -1, 1], [-2, -1, 1, -3])
    full = [phi(7 / math.sqrt(27)), phi(5 / math.sqrt(15)), phi(-2 / math.sqrt(28))]
    best = {}
    for i, j in itertools.combinations(range(4), 2):
        part = [phi((d[i] + d[j]) / math.sqrt(d[i] ** 2 + d[j] ** 2)) for d in (ab, ac, bc)]
        best[i, j] = 1 - (abs(part[0] - full[0]) + abs(part[1] - full[1]) + abs(part[2] - full[2])) / 3
    rows = max(best, key=best.__getitem__)
    chosen = select(data, "bruteforce", 2, metric="human", simulations=300)
    assert tuple(sorted(chosen.ids)) == rows
    assert chosen.details["metric_spa"] == pytest.approx(best[rows], abs=1e-12)
