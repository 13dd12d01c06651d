"""Bradley-Terry scores: evalica and brute force agree, existence is checked, intervals cover."""

from __future__ import annotations

import importlib.util

import evalica
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from scipy.special import expit

from aliquot.errors import MissingExtraError, NameUnknownError, OptionError
from aliquot.stats.bradley_terry import bradley_terry, strength_posterior
from aliquot.stats.choices import Choices, choices_from_rows, choices_from_scores, system_outcomes, tally_pairs


def simulated(items: int, people: int = 2, systems: int = 4, seed: int = 0, tie: float = 0.5) -> Choices:
    """Items that differ in who is better on them, people who see it through noise, ties within a margin."""
    rng = np.random.default_rng(seed)
    ability = np.linspace(0.8, -0.8, systems)
    scores = np.repeat(ability + rng.normal(size=(items, systems)), people, axis=0)
    scores = scores + rng.logistic(size=scores.shape) * 0.7
    return choices_from_scores(scores, np.repeat(np.arange(items), people), margin=tie)


def brute(choices: Choices, *, davidson: bool) -> tuple[np.ndarray, float]:
    """Maximise the likelihood directly."""
    counts = tally_pairs(choices)
    a, b = choices.pairs.T
    outcomes = np.stack([counts.wins[a, b], counts.wins[b, a], counts.ties[a, b]], axis=1).astype(float)
    number = choices.systems

    def loss(values):
        gap = values[a] - values[b]
        if not davidson:
            half = outcomes[:, 2] / 2
            return float(
                ((outcomes[:, 0] + half) * np.logaddexp(0, -gap) + (outcomes[:, 1] + half) * np.logaddexp(0, gap)).sum()
            )
        predictors = np.stack([gap / 2, -gap / 2, np.full_like(gap, values[-1])], axis=1)
        return float(-(outcomes * (predictors - np.logaddexp.reduce(predictors, axis=1)[:, None])).sum())

    found = minimize(loss, np.zeros(number + davidson), method="BFGS", options={"gtol": 1e-8}).x
    scores = found[:number]
    return scores - scores.mean(), float(np.exp(found[-1]) / 2) if davidson else float("nan")


@pytest.mark.parametrize("ties", ["half", "davidson"])
@pytest.mark.parametrize("seed", range(3))
def test_scores_maximise_the_likelihood(ties, seed):
    choices = simulated(40, seed=seed)
    found = bradley_terry(choices, ties=ties)
    scores, tie = brute(choices, davidson=ties == "davidson")
    np.testing.assert_allclose(found.scores, scores, atol=2e-5)
    np.testing.assert_allclose(found.tie, tie, atol=2e-5)


def test_scores_are_those_of_evalica():
    choices = simulated(30, systems=5)
    counts = tally_pairs(choices)
    rows = [
        (a, b, w, float(n))
        for a, b in choices.pairs.tolist()
        for w, n in (
            (evalica.Winner.X, counts.wins[a, b]),
            (evalica.Winner.Y, counts.wins[b, a]),
            (evalica.Winner.Draw, counts.ties[a, b]),
        )
    ]
    xs, ys, winners, weights = (list(column) for column in zip(*rows, strict=True))
    theirs = evalica.bradley_terry(xs, ys, winners, weights=weights, tolerance=1e-12, limit=10_000).scores.sort_index()
    logs = np.log(theirs.to_numpy())
    np.testing.assert_allclose(bradley_terry(choices).scores, logs - logs.mean(), atol=1e-9)


def test_two_systems_are_the_log_odds():
    choices = choices_from_rows(np.zeros(10, int), np.ones(10, int), np.array([1] * 7 + [-1] * 3), np.arange(10), 2)
    found = bradley_terry(choices, interval="information")
    assert found.scores[0] - found.scores[1] == pytest.approx(np.log(7 / 3))
    variance = found.covariance[0, 0] + found.covariance[1, 1] - 2 * found.covariance[0, 1]
    assert variance == pytest.approx(1 / 7 + 1 / 3)  # the variance of log odds


def test_ties_dropped_are_as_if_they_had_not_been():
    choices = simulated(30)
    without = choices.drop_ties()
    assert len(without) == (choices.outcome != 0).sum()
    np.testing.assert_allclose(bradley_terry(choices, ties="drop").scores, bradley_terry(without).scores)
    assert np.isnan(bradley_terry(choices, ties="drop").tie)


def test_robust_and_bootstrap_errors_agree_and_exceed_the_naive_ones():
    choices = simulated(150, people=4, seed=3)
    robust, naive = bradley_terry(choices), bradley_terry(choices, interval="information")
    drawn = bradley_terry(choices, interval="bootstrap", draws=400, seed=1)
    sd = [np.sqrt(np.diag(fit.covariance)) for fit in (robust, drawn, naive)]
    np.testing.assert_allclose(sd[0], sd[1], rtol=0.15)
    assert (sd[0] > 1.3 * sd[2]).all()
    again = bradley_terry(choices, interval="bootstrap", draws=400, seed=1)
    np.testing.assert_array_equal(drawn.low, again.low)


def test_every_answer_given_twice_changes_no_interval():
    """Clusters see that the second half says nothing new."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(80, 3)) + np.array([0.3, 0.0, -0.3])
    once = bradley_terry(choices_from_scores(scores, np.arange(80)))
    twice = bradley_terry(choices_from_scores(np.repeat(scores, 2, axis=0), np.repeat(np.arange(80), 2)))
    np.testing.assert_allclose(once.scores, twice.scores, atol=1e-9)
    assert (twice.high - twice.low >= 0.95 * (once.high - once.low)).all()


def test_coverage_of_robust_intervals():
    truth = bradley_terry(simulated(40_000, people=1, seed=99)).scores
    for items in (10, 40):
        hits = []
        for seed in range(120):
            found = bradley_terry(simulated(items, people=3, seed=seed))
            hits.append((found.low <= truth) & (truth <= found.high))
        assert 0.92 <= np.mean(hits) <= 0.995


# -- where scores do not exist -------------------------------------------------------------------------------------


def rows(*results: tuple[int, int, int], systems: int = 3) -> Choices:
    first, second, outcome = (np.array(column) for column in zip(*results, strict=True))
    return choices_from_rows(first, second, outcome, np.arange(len(results)), systems)


def test_a_system_that_never_loses_gets_a_prior_and_not_a_false_number():
    one_sided = rows((0, 1, 1), (0, 1, 1), (1, 2, 1), (1, 2, -1))
    found = bradley_terry(one_sided)
    assert found.prior == 1.0
    assert np.isfinite(found.scores).all()
    assert found.scores.argmax() == 0
    with pytest.raises(OptionError, match="one-sided"):
        bradley_terry(one_sided, prior=0)
    assert bradley_terry(one_sided, prior=4).scores[0] < found.scores[0]  # more of the prior, nearer to each other


def test_davidson_needs_a_pair_decided_both_ways():
    """Otherwise ties and scores could grow without end together."""
    diverging = rows((0, 1, 1), (0, 1, 0), (1, 2, 1), (1, 2, 0), (0, 2, 1))
    found = bradley_terry(diverging, ties="davidson")
    assert found.prior == 1.0
    assert np.abs(found.scores).max() < 5
    assert bradley_terry(diverging, ties="half").prior == 0.0


def test_disconnected_comparisons_are_scored_apart():
    found = bradley_terry(rows((0, 1, 1), (0, 1, -1), (0, 1, 1), (2, 3, 1), (2, 3, 1), (2, 3, -1), systems=4))
    assert found.component.tolist() == [0, 0, 1, 1]
    assert found.scores[:2].sum() == pytest.approx(0.0)
    assert found.scores[2:].sum() == pytest.approx(0.0)
    assert np.isnan(found.covariance[0, 2])
    assert np.isfinite(found.covariance[2, 3])


def test_a_system_that_was_never_compared_has_no_score():
    found = bradley_terry(rows((0, 1, 1), (0, 1, -1), systems=3))
    assert np.isnan(found.scores[2])
    assert np.isnan(found.low[2])


@pytest.mark.parametrize("ties", ["half", "davidson"])
@pytest.mark.parametrize("interval", ["robust", "bootstrap", "information"])
def test_all_ties_are_equal_scores_of_unknown_precision(ties, interval):
    found = bradley_terry(rows((0, 1, 0), (1, 2, 0), (0, 2, 0)), ties=ties, interval=interval, draws=20)
    np.testing.assert_allclose(found.scores, 0.0, atol=1e-9)
    assert np.isnan(found.low).all()


def test_one_cluster_has_no_interval():
    choices = choices_from_scores(np.array([[2.0, 1.0], [1.0, 2.0], [3.0, 1.0]]), np.zeros(3, dtype=int))
    assert np.isnan(bradley_terry(choices).low).all()


def test_draws_without_a_maximum_are_repaired_and_counted():
    few = rows((0, 1, 1), (0, 1, 1), (0, 1, 1), (0, 1, -1), systems=2)
    found = bradley_terry(few, interval="bootstrap", draws=100, seed=2)
    assert 0 < found.repaired < 100
    assert np.isfinite(found.low).all()


def test_bad_options():
    choices = simulated(5)
    with pytest.raises(NameUnknownError, match="ties"):
        bradley_terry(choices, ties="maybe")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="interval"):
        bradley_terry(choices, interval="exact")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="prior"):
        bradley_terry(choices, prior=-1)
    with pytest.raises(OptionError, match="draws"):
        bradley_terry(choices, interval="bootstrap", draws=1)


def test_without_evalica_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr("aliquot.errors.find_spec", lambda name: None if name == "evalica" else importlib.util)
    with pytest.raises(MissingExtraError, match=r"pip install 'aliquot\[judge\]'"):
        bradley_terry(simulated(5))


# -- choices -------------------------------------------------------------------------------------------------------


@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_choices_of_scores_say_what_scores_say(systems, height, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (height, systems)).astype(float)
    scores[rng.random(scores.shape) < 0.2] = np.nan
    counts = tally_pairs(choices_from_scores(scores, np.arange(height)))
    for a in range(systems):
        for b in range(systems):
            if a != b:
                assert counts.wins[a, b] == (scores[:, a] > scores[:, b]).sum()
                assert counts.ties[a, b] == (scores[:, a] == scores[:, b]).sum()


def test_margin_makes_ties():
    scores = np.array([[1.0, 1.5], [1.0, 2.5]])
    assert choices_from_scores(scores, np.arange(2), margin=0.5).outcome.tolist() == [0, -1]
    assert choices_from_scores(scores, np.arange(2), margin=0.5, ties=False).outcome.tolist() == [-1]
    with pytest.raises(OptionError, match="margin"):
        choices_from_scores(scores, np.arange(2), margin=-1)


def test_the_order_in_which_a_pair_is_shown_does_not_matter():
    one = choices_from_rows(np.array([0, 1]), np.array([1, 0]), np.array([1, -1]), np.array([0, 1]), 2)
    assert one.outcome.tolist() == [1, 1]
    assert system_outcomes(one, 0)[0].tolist() == [1.0, 1.0]


def test_a_system_against_itself_is_refused():
    with pytest.raises(OptionError, match="itself"):
        choices_from_rows(np.array([1]), np.array([1]), np.array([1]), np.array([0]), 2)


def test_dropping_ties_may_empty_pairs():
    left = rows((0, 1, 0), (0, 1, 0), (1, 2, 1)).drop_ties()
    assert left.pairs.tolist() == [[1, 2]]
    assert left.starts.tolist() == [0, 1]


@pytest.mark.parametrize(("ties", "tied"), [("half", 0), ("davidson", 4)])
def test_one_choice_per_cluster_widens_by_the_number_of_clusters_only(ties, tied):
    """Two systems: the model fits every share, so that the clusters' scores sum up to the information itself."""
    outcome = np.array([1] * 4 + [-1] * 2 + [0] * tied)
    n = len(outcome)
    choices = choices_from_rows(np.zeros(n, int), np.ones(n, int), outcome, np.arange(n), 2)
    naive, robust = (bradley_terry(choices, ties=ties, interval=how) for how in ("information", "robust"))
    np.testing.assert_allclose(robust.covariance, naive.covariance * n / (n - 1), rtol=1e-9)
    assert robust.df == n - 1
    # with every choice given twice in its cluster half of the information is new
    first, second = np.zeros(2 * n, int), np.ones(2 * n, int)
    twice = choices_from_rows(first, second, np.repeat(outcome, 2), np.repeat(np.arange(n), 2), 2)
    np.testing.assert_allclose(bradley_terry(twice, ties=ties).covariance, robust.covariance, rtol=1e-9)


@pytest.mark.parametrize(("spread", "dispersion", "factor"), [(0.5, 1.0, 1.0), (2.0, 0.5, 3.0)])
def test_strengths_with_a_prior_by_hand(spread, dispersion, factor):
    """3 of 4 choices: the mode m, -m solves (3 - 4 P) / dispersion = m / spread^2, P the chance at the gap 2 m."""
    value, number = np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[0.0, 4.0], [4.0, 0.0]])
    found = strength_posterior(value, number, factor * number, spread=spread, dispersion=dispersion)
    mode = brentq(lambda m: (3 - 4 * expit(2 * m)) / dispersion - m / spread**2, 0.0, 5.0)
    one = expit(2 * mode) * expit(-2 * mode) / dispersion  # the information of one choice
    prior, pair = spread**-2, 4 * factor * one
    assert found.mean == pytest.approx([mode, -mode])
    assert found.information[0, 1] == pytest.approx(one)
    assert found.covariance == pytest.approx(np.linalg.inv([[prior + pair, -pair], [-pair, prior + pair]]))
    if factor == 1.0:
        assert found.covariance == pytest.approx(strength_posterior(value, number).covariance)
