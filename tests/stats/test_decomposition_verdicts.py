"""Significance by human and metric in one table, and convergence to the main prediction, against all draws."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.stats.bias_variance import co_occurrence, convergence

BETTER, NOT, WORSE = range(3)


def differing(gaps, items: int = 200, seed: int = 0):
    """Systems whose items differ by noise of sd 1 and means as given."""
    return np.random.default_rng(seed).normal(size=(items, len(gaps))) + np.asarray(gaps)


def test_every_pair_is_in_its_cell():
    human = differing([2.0, 1.0, 0.0, 0.0])
    human[:, 3] = human[::-1, 2]  # the same mean exactly
    mixed = differing([2.0, 0.0, 1.0, 0.0], seed=1)
    mixed[:, 3] = mixed[::-1, 1]
    found = co_occurrence(human, np.stack([human, -human, mixed, np.ones_like(human)]), seed=1)
    assert found.human.tolist() == [1, 1, 1, 1, 1, 0]
    assert found.counts[0].tolist() == [[5, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert found.counts[1].tolist() == [[0, 0, 5], [0, 1, 0], [0, 0, 0]]
    # Pairs 01 02 03 12 13 23 by the metric: better, better, better, worse, not, better; 23 is even by human.
    assert found.counts[2].tolist()[0] == [3, 1, 1]
    assert found.counts[2].sum() == 6
    assert found.counts[3].tolist() == [[0, 5, 0], [0, 1, 0], [0, 0, 0]]
    assert found.pairs.tolist() == [6] * 4


def test_pairs_are_turned_to_the_human_or_left():
    human = differing([0.0, 1.0])
    turned = co_occurrence(human, np.stack([human, -human]))
    given = co_occurrence(human, np.stack([human, -human]), orient="given")
    assert turned.counts[:, BETTER].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert given.counts[:, WORSE].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert given.human.tolist() == [-1]


def test_the_threshold_is_a_share_of_all_draws():
    """d = 1, 1, -1.5: behind in 1/27 + 3/27 + 3/27 of the draws of three items; significant above that alpha only."""
    human = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.5]])
    behind = float(np.mean([sum(draw) < 0 for draw in product([1.0, 1.0, -1.5], repeat=3)]))
    for alpha, verdict in ((behind - 0.02, 0), (behind + 0.02, 1)):
        assert co_occurrence(human, human[None], 20_000, alpha=alpha, seed=2).human.tolist() == [verdict]


def test_false_alarms_are_as_rare_as_alpha():
    """Systems without a difference: one-sided at 0.05 in either direction, so a tenth are called different."""
    called = []
    for seed in range(100):
        human = differing(np.zeros(4), items=80, seed=seed)
        found = co_occurrence(human, np.empty((0, *human.shape)), 300, seed=seed)
        assert (found.human >= 0).all()
        assert found.counts.shape == (0, 3, 3)
        called.append(np.mean(found.human != 0))
    assert np.mean(called) == pytest.approx(0.1, abs=0.05)


def test_missing_pairs_are_not_counted():
    human = differing([1.0, 0.0, 0.0])
    metric = human.copy()
    metric[:, 2] = np.nan
    found = co_occurrence(human, np.stack([human, metric]))
    assert found.pairs.tolist() == [3, 1]
    assert np.isnan(found.metrics[1]).tolist() == [False, True, True]


def test_same_seed_same_table():
    human = differing(np.linspace(0, 0.3, 8))
    first, second = (
        co_occurrence(human, human[None] + 0.5 * differing(np.zeros(8), seed=4), 100, seed=5) for _ in "ab"
    )
    assert (first.counts == second.counts).all()


def test_agreement_is_that_of_all_draws():
    scores = np.array([[[1.0, 0.0], [2.0, 0.0], [0.0, 2.0]], [[0.0, 3.0], [0.0, 0.0], [1.0, 0.0]]])
    found = convergence(scores, np.array([1, 2, 3]), 20_000, seed=1)
    for metric, d in enumerate(([1.0, 2.0, -2.0], [3.0, 0.0, -1.0])):  # the second turned, so that both are ahead
        for place, size in enumerate((1, 2, 3)):
            exact = np.mean([0.5 + 0.5 * np.sign(sum(draw)) for draw in product(d, repeat=size)])
            assert found.agreement[metric, place] == pytest.approx(exact, abs=0.015)


def test_agreement_grows_to_one():
    scores = differing([1.0, 0.5, 0.0], seed=5)[None]
    found = convergence(scores, np.array([2, 20, 200, 5000]), 500)
    assert (np.diff(found.agreement[0]) >= 0).all()
    assert found.agreement[0, 0] < found.agreement[0, 1] < 1
    assert found.agreement[0, -1] == 1
    assert found.error[0, -1] == 0


def test_errors_of_agreement_are_what_other_seeds_show():
    scores = differing(np.linspace(0, 0.5, 5), items=60, seed=6)[None]
    found = [convergence(scores, np.array([20]), 300, seed=seed) for seed in range(100)]
    spread = np.std([each.agreement[0, 0] for each in found], ddof=1)
    assert np.mean([each.error[0, 0] for each in found]) == pytest.approx(spread, rel=0.25)


def test_no_main_prediction_is_a_coin():
    found = convergence(np.ones((1, 9, 3)), np.array([1, 50]), 100)
    assert found.agreement.tolist() == [[0.5, 0.5]]
    even = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    assert convergence(even, np.array([1]), 101).agreement[0, 0] == 0.5


def test_gaps_and_absent_metrics():
    scores = np.repeat(differing([1.0, 0.0, -1.0])[None], 3, axis=0)
    scores[1, :, 0] = np.nan
    scores[2] = np.nan
    found = convergence(scores, np.array([1, 300]), 200)
    assert found.agreement[1, 1] == 1
    assert np.isnan(found.agreement[2]).all()
    assert np.isnan(convergence(scores, np.array([1]), 1).error).all()


def test_bad_input():
    human = differing([1.0, 0.0])
    with pytest.raises(OptionError, match=r"`alpha` is 0\.5"):
        co_occurrence(human, human[None], alpha=0.5)
    with pytest.raises(NameUnknownError, match="`orient` is 'metric'"):
        co_occurrence(human, human[None], orient="metric")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no item has a human score"):
        co_occurrence(human * np.nan, human[None])
    with pytest.raises(DataError, match="1 systems"):
        convergence(human[None, :, :1], np.array([1]))
    with pytest.raises(DataError, match="no item has a metric score"):
        convergence(human[None] * np.nan, np.array([1]))
    with pytest.raises(OptionError, match="`size` is 0"):
        convergence(human[None], np.array([0]))
