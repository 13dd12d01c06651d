"""Dawid-Skene: crowd-kit as oracle round by round, the likelihood never falls, missing data, careless annotators."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.stats.aggregation import dawid_skene

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning"
)  # crowd-kit uses old pandas


def crowd(seed: int, items: int = 80, people: int = 6, kinds: int = 3, skill: Any = 0.75, shown: float = 1.0) -> Any:
    """Labels of people who are right with the given chance; each sees an item with chance `shown`."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, kinds, items)
    item, person = np.meshgrid(np.arange(items), np.arange(people), indexing="ij")
    seen = rng.random(item.shape) < shown
    seen[:, 0] = True
    right = rng.random(item.shape) < (np.full(people, skill) if np.isscalar(skill) else np.asarray(skill))
    label = np.where(right, truth[:, None], rng.integers(0, kinds, item.shape))
    return truth, item[seen], person[seen], label[seen]


@pytest.mark.parametrize("rounds", [1, 2, 10, 50])
@pytest.mark.parametrize("shown", [1.0, 0.5])
def test_against_crowd_kit(rounds, shown):
    crowdkit = pytest.importorskip("crowdkit.aggregation")
    pandas = pytest.importorskip("pandas")
    _, item, person, label = crowd(rounds, shown=shown)
    frame = pandas.DataFrame({"task": item, "worker": person, "label": label})
    theirs = crowdkit.DawidSkene(n_iter=rounds, tol=-1.0).fit_predict_proba(frame)
    ours = dawid_skene(item, person, label, smoothing=0.0, tolerance=-1.0, iterations=rounds)
    wanted = theirs.loc[range(len(ours.posterior)), range(3)].to_numpy()
    assert np.abs(ours.posterior - wanted).max() < 1e-6
    assert ours.iterations == rounds


def test_confusions_agree_with_crowd_kit():
    crowdkit = pytest.importorskip("crowdkit.aggregation")
    pandas = pytest.importorskip("pandas")
    _, item, person, label = crowd(3)
    frame = pandas.DataFrame({"task": item, "worker": person, "label": label})
    theirs = crowdkit.DawidSkene(n_iter=30, tol=-1.0).fit(frame)
    ours = dawid_skene(item, person, label, smoothing=0.0, tolerance=-1.0, iterations=30)
    for worker in range(6):
        wanted = theirs.errors_.loc[worker].loc[range(3), range(3)].to_numpy()  # rows answered, columns true
        assert np.abs(ours.confusion[worker].T - wanted).max() < 1e-6


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.2, 1.0))
def test_posteriors_are_distributions_and_likelihood_grows(seed, shown):
    _, item, person, label = crowd(seed, items=20, people=4, shown=shown)
    likelihoods = [
        dawid_skene(item, person, label, smoothing=0.0, tolerance=-1.0, iterations=rounds).log_likelihood
        for rounds in (1, 2, 5, 20)
    ]
    assert all(later >= earlier - 1e-6 for earlier, later in itertools.pairwise(likelihoods))
    fit = dawid_skene(item, person, label)
    assert np.allclose(fit.posterior.sum(axis=1), 1.0)
    assert np.allclose(fit.confusion.sum(axis=2), 1.0)
    assert np.all((fit.accuracy >= 0) & (fit.accuracy <= 1 + 1e-12))


def test_it_beats_the_majority_where_people_differ():
    """Two careful people against four who guess: the vote is often wrong, the model learns whom to believe."""
    wrong_vote = wrong_model = 0
    for seed in range(5):
        truth, item, person, label = crowd(seed, items=300, kinds=2, skill=[0.98, 0.95, 0.1, 0.1, 0.1, 0.1])
        fit = dawid_skene(item, person, label)
        votes = np.zeros((300, 2))
        np.add.at(votes, (item, label), 1)
        wrong_vote += int((votes.argmax(axis=1) != truth).sum())
        wrong_model += int((fit.posterior.argmax(axis=1) != truth).sum())
        assert fit.accuracy[:2].min() > fit.accuracy[2:].max()
    assert wrong_model < 0.4 * wrong_vote


def test_one_annotator_is_believed():
    fit = dawid_skene(np.arange(4), np.zeros(4, dtype=int), np.array([0, 1, 1, 0]))
    assert fit.posterior.argmax(axis=1).tolist() == [0, 1, 1, 0]


def test_one_label_only():
    fit = dawid_skene(np.array([0, 0, 1]), np.array([0, 1, 0]), np.zeros(3, dtype=int))
    assert fit.posterior.tolist() == [[1.0], [1.0]]


def test_why_we_decide_more_than_crowd_kit():
    """Crowd-kit stops when its bound grows by less than 1e-5 a judgment, here after 13 rounds; the likelihood still
    grows then, and posteriors with it. With its number of rounds we say the same; with ours, it does."""
    crowdkit = pytest.importorskip("crowdkit.aggregation")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    truth = rng.random(300) < 0.4
    rows = [
        (i, a, int(truth[i] if rng.random() < 0.6 + 0.3 * (a % 3 == 0) else 1 - truth[i]))
        for i in range(300)
        for a in rng.choice(40, 3, replace=False)
    ]
    item, person, label = np.array(rows).T
    frame = pandas.DataFrame({"task": item, "worker": person, "label": label})

    def decided(posterior: Any) -> int:
        return int((np.asarray(posterior).max(axis=1) > 0.9).sum())

    model = crowdkit.DawidSkene()
    theirs = model.fit_predict_proba(frame).loc[range(300), [0, 1]].to_numpy()
    rounds = len(model.loss_history_)
    ours = dawid_skene(item, person, label, smoothing=0.0)
    assert (decided(theirs), rounds) == (209, 13)
    assert (decided(ours.posterior), ours.iterations > 100) == (221, True)
    as_theirs = dawid_skene(item, person, label, smoothing=0.0, tolerance=-1.0, iterations=rounds)
    assert as_theirs.posterior == pytest.approx(theirs, abs=1e-6)
    assert ours.log_likelihood > as_theirs.log_likelihood + 0.5
    longer = crowdkit.DawidSkene(n_iter=ours.iterations, tol=-1.0).fit_predict_proba(frame).loc[range(300), [0, 1]]
    assert longer.to_numpy() == pytest.approx(ours.posterior, abs=1e-6)
