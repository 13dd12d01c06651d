"""Noise, bias, variance: the identity, all draws of three items listed, what must be 0, Monte Carlo errors, pooling."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import FloatArray
from aliquot.stats.bias_variance import (
    FIRST_METRIC_ROW,
    HUMAN_ROW,
    OPTIMAL_ROW,
    PARTS,
    PairSigns,
    bootstrap_pair_signs,
    campaign_parts,
    decompose,
    optimal_parts,
    pair_parts,
    squared_error,
)

OBSERVED, NOISE, BIAS, VARIANCE, COVARIANCE = range(5)
SHARES = arrays(np.float64, (6,), elements=st.integers(0, 40).map(lambda wins: wins / 40))


def a_campaign(seed: int = 0, items: int = 60, systems: int = 5, metrics: int = 3) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=systems) * 0.3
    human = quality + rng.normal(size=(items, systems)) + rng.normal(size=(items, 1))
    noise = rng.normal(size=(metrics, items, systems)) + 0.2 * rng.normal(size=(metrics, 1, systems))
    return human, human + noise * np.arange(1, metrics + 1)[:, None, None]


def every_draw(scores: FloatArray) -> FloatArray:
    """Signs (draws x pairs) over all N^N draws of N items, by loops."""
    pairs = list(combinations(range(scores.shape[1]), 2))
    draws = [list(draw) for draw in product(range(len(scores)), repeat=len(scores))]
    return np.array(
        [[np.sign(round(float(np.nansum(scores[d, a] - scores[d, b])), 9)) for a, b in pairs] for d in draws]
    )


@given(human=SHARES, metric=SHARES)
def test_identity_is_exact(human, metric):
    parts = pair_parts(human, metric).stack_parts()
    assert parts[OBSERVED] == pytest.approx(parts[NOISE] + parts[BIAS] + parts[VARIANCE], abs=1e-15)
    assert parts[OBSERVED] == pytest.approx(human * (1 - metric) + metric * (1 - human), abs=1e-15)
    assert (parts[COVARIANCE] == 0).all()


@given(human=SHARES, metric=SHARES, rest=SHARES)
def test_identity_is_exact_with_covariance(human, metric, rest):
    low, high = np.maximum(0, human + metric - 1), np.minimum(human, metric)
    joint = low + rest * (high - low)
    parts = pair_parts(human, metric, joint).stack_parts()
    assert parts[OBSERVED] == pytest.approx(parts[1:].sum(axis=0), abs=1e-15)
    assert parts[OBSERVED] == pytest.approx(human + metric - 2 * joint, abs=1e-15)


@given(human=SHARES, metric=SHARES)
def test_the_order_of_systems_does_not_matter(human, metric):
    forth, back = pair_parts(human, metric).stack_parts(), pair_parts(1 - human, 1 - metric).stack_parts()
    assert forth == pytest.approx(back, abs=1e-15)


@given(human=SHARES, metric=SHARES)
def test_parts_are_their_definitions(human, metric):
    parts = pair_parts(human, metric)
    for pair, (h, m) in enumerate(zip(human, metric, strict=True)):
        if 0.5 in {h, m}:
            continue
        truth, main = h > 0.5, m > 0.5
        noise, variance = (1 - h if truth else h), (1 - m if main else m)
        c0, c1 = 2 * (m if truth else 1 - m) - 1, 1 if truth == main else -1
        assert parts.bias[pair] == (truth != main)
        assert parts.noise[pair] == pytest.approx(c0 * noise, abs=1e-15)
        assert parts.variance[pair] == pytest.approx(c1 * variance, abs=1e-15)


def test_even_pairs():
    """No more frequent sign: bias is the mean of the two choices, or 0 where human and metric agree on evenness."""
    parts = pair_parts(np.array([0.5, 0.5, 0.8]), np.array([0.5, 0.9, 0.5]))
    assert parts.bias.tolist() == [0, 0.5, 0.5]
    assert parts.noise.tolist() == [0, 0, 0]
    assert parts.variance.tolist() == [0.5, 0, 0]
    assert parts.observed == pytest.approx([0.5, 0.5, 0.5], abs=1e-15)
    assert optimal_parts(np.array([0.5])).stack_parts()[:, 0].tolist() == [0.5, 0.5, 0, 0, 0]


HUMAN_TABLE = np.array([[3.0, 1.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 2.5]])
METRIC_TABLE = np.array([[0.1, 0.3, 0.2], [0.4, 0.1, 0.05], [0.2, 0.1, np.nan]])


@pytest.mark.parametrize("paired", [False, True])
def test_against_all_draws_of_three_items(paired):
    human, metric = every_draw(HUMAN_TABLE), every_draw(METRIC_TABLE)
    h, m = (human.mean(axis=0) + 1) / 2, (metric.mean(axis=0) + 1) / 2
    if paired:
        disagree = (1 - human * metric).mean(axis=0) / 2  # a tie with anything: half
    else:
        disagree = np.array([[(1 - a * b) / 2 for b in metric] for a in human]).mean(axis=(0, 1))
    signs = bootstrap_pair_signs(HUMAN_TABLE, METRIC_TABLE[None], 40_000, paired=paired, seed=1)
    found = campaign_parts(signs)
    exact = pair_parts(h, m)
    assert found.observed[0] == pytest.approx(disagree, abs=0.012)
    assert found.noise[0] == pytest.approx(exact.noise, abs=0.012)
    assert found.bias[0] == pytest.approx(exact.bias)
    assert found.variance[0] == pytest.approx(exact.variance, abs=0.012)
    assert found.covariance[0] == pytest.approx(disagree - exact.observed, abs=0.012)
    assert (np.abs(disagree - exact.observed).max() > 0.02) == paired  # the case must tell the two apart
    value = decompose(signs).value
    assert value[FIRST_METRIC_ROW] == pytest.approx(found.stack_parts()[:, 0].mean(axis=1), abs=1e-15)
    assert value[OPTIMAL_ROW, NOISE] == pytest.approx(np.minimum(h, 1 - h).mean(), abs=0.012)
    assert value[HUMAN_ROW, OBSERVED] == pytest.approx((2 * h * (1 - h)).mean(), abs=0.012)


def test_smaller_draws_against_all_draws():
    """Two judgments: nine draws."""
    draws = [[a, b] for a, b in product(range(3), repeat=2)]
    signs = np.array([np.sign((HUMAN_TABLE[d, 0] - HUMAN_TABLE[d, 1]).sum()) for d in draws])
    found = bootstrap_pair_signs(HUMAN_TABLE, METRIC_TABLE[None], 20_000, human_size=2, seed=1)
    assert found.human.share_ahead()[0, 0] == pytest.approx((signs.mean() + 1) / 2, abs=0.015)


@pytest.mark.parametrize("paired", [False, True])
def test_table_adds_up_and_has_the_right_zeros(paired):
    human, metrics = a_campaign()
    stack = np.concatenate([metrics, human[None], 3 * human[None] + 7, -human[None], np.ones((1, *human.shape))])
    table = decompose(bootstrap_pair_signs(human, stack, 2000, paired=paired, seed=2))
    value = table.value
    assert value[:, OBSERVED] == pytest.approx(value[:, 1:].sum(axis=1), abs=1e-15)
    assert value[OPTIMAL_ROW, [BIAS, VARIANCE, COVARIANCE]].tolist() == [0, 0, 0]
    assert value[HUMAN_ROW, BIAS] == 0
    assert value[OPTIMAL_ROW, OBSERVED] == value[OPTIMAL_ROW, NOISE] == value[HUMAN_ROW, VARIANCE]
    same, scaled, opposite, constant = value[FIRST_METRIC_ROW + 3 :]
    assert same[BIAS] == scaled[BIAS] == 0
    assert opposite[BIAS] == 1
    assert constant[[OBSERVED, BIAS]].tolist() == [0.5, 0.5]
    assert np.abs(constant[[NOISE, VARIANCE, COVARIANCE]]).max() < 1e-15
    # No one does better than the optimal predictor when drawn independently.
    if not paired:
        assert (value[:, OBSERVED] >= value[OPTIMAL_ROW, OBSERVED] - 1e-12).all()
        assert (value[:, COVARIANCE] == 0).all()
    else:
        assert same[OBSERVED] == pytest.approx(0.0, abs=1e-12)
        assert scaled[COVARIANCE] < 0
    assert table.pairs.tolist() == [10] * 9


def test_random_metrics_have_a_bias_near_one_half():
    """Scores without any sense on 40 systems: 780 pairs, 20 metrics."""
    rng = np.random.default_rng(3)
    human = rng.normal(size=(30, 40)) + 0.5 * rng.normal(size=40)
    value = decompose(bootstrap_pair_signs(human, rng.normal(size=(20, 30, 40)), 200, seed=3)).value
    assert value[FIRST_METRIC_ROW:, BIAS].mean() == pytest.approx(0.5, abs=0.05)
    assert value[FIRST_METRIC_ROW:, OBSERVED].mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("paired", [False, True])
def test_monte_carlo_errors_are_what_other_seeds_show(paired):
    human, metrics = a_campaign(4, items=25)
    tables = [
        decompose(bootstrap_pair_signs(human, metrics, 300, paired=paired, seed=seed), seed=seed) for seed in range(80)
    ]
    spread = np.std([table.value for table in tables], axis=0, ddof=1)
    claimed = np.mean([table.error for table in tables], axis=0)
    smooth = [OBSERVED, COVARIANCE] if paired else [OBSERVED]
    assert claimed[FIRST_METRIC_ROW:, smooth] == pytest.approx(spread[FIRST_METRIC_ROW:, smooth], rel=0.3)
    assert claimed[[OPTIMAL_ROW, HUMAN_ROW], NOISE] == pytest.approx(spread[[OPTIMAL_ROW, HUMAN_ROW], NOISE], rel=0.3)
    # Bias jumps where a pair is nearly even, as here; its error is known less well, but not taken for 0.
    assert claimed[FIRST_METRIC_ROW:, [BIAS]] == pytest.approx(spread[FIRST_METRIC_ROW:, [BIAS]], rel=0.6, abs=0.01)
    assert spread[FIRST_METRIC_ROW:, BIAS].max() > 0.01


def test_errors_fall_with_trials():
    human, metrics = a_campaign(5)
    few, many = (decompose(bootstrap_pair_signs(human, metrics, trials, seed=1)).error for trials in (400, 6400))
    assert (few[:, OBSERVED] / many[:, OBSERVED]).mean() == pytest.approx(4, rel=0.3)


def test_one_trial_has_no_error():
    human, metrics = a_campaign()
    table = decompose(bootstrap_pair_signs(human, metrics, 1))
    assert np.isnan(table.error).all()
    assert np.isfinite(table.value).all()


def test_campaigns_are_pooled_by_pairs():
    first, second = (
        bootstrap_pair_signs(*a_campaign(6, systems=3), 500, seed=1),
        bootstrap_pair_signs(*a_campaign(7, systems=6), 500, seed=2),
    )
    pooled, one, two = decompose([first, second]), decompose(first), decompose([second])
    assert pooled.value == pytest.approx((3 * one.value + 15 * two.value) / 18, abs=1e-15)
    assert pooled.error[:, 0] == pytest.approx(np.hypot(3 * one.error, 15 * two.error)[:, 0] / 18, rel=0.35)
    assert pooled.pairs.tolist() == [18] * 5
    assert pooled.trials == 500


def test_a_metric_that_one_campaign_lacks():
    human, metrics = a_campaign(8)
    absent = metrics.copy()
    absent[1] = np.nan
    here, there = bootstrap_pair_signs(human, metrics, 300, seed=1), bootstrap_pair_signs(human, absent, 300, seed=1)
    pooled = decompose([here, there])
    assert pooled.pairs.tolist() == [20, 20, 20, 10, 20]
    assert pooled.value[FIRST_METRIC_ROW + 1] == pytest.approx(decompose(here).value[FIRST_METRIC_ROW + 1])
    nowhere = decompose(there)
    assert np.isnan(nowhere.value[FIRST_METRIC_ROW + 1]).all()
    assert np.isnan(nowhere.error[FIRST_METRIC_ROW + 1]).all()
    assert nowhere.pairs[FIRST_METRIC_ROW + 1] == 0


def test_metrics_with_gaps_and_unjudged_items():
    human, metrics = a_campaign(9)
    more = np.concatenate([human, np.full((30, 5), np.nan)])
    wider = np.concatenate([metrics, metrics[:, :30]], axis=1)
    wider[2, :, 4] = np.nan
    signs = bootstrap_pair_signs(more, wider, 1000, seed=1)
    # Items without human scores are no part of the human evaluation.
    assert (signs.human.plus == bootstrap_pair_signs(human, metrics, 1000, seed=1).human.plus).all()
    assert decompose(signs).pairs.tolist() == [10, 10, 10, 10, 6]
    paired = bootstrap_pair_signs(more, wider, 1000, paired=True, seed=1)
    assert (paired.human.plus == signs.human.plus).all()
    assert campaign_parts(paired).observed[0] == pytest.approx(
        campaign_parts(bootstrap_pair_signs(human, metrics, 1000, paired=True, seed=1)).observed[0]
    )


def test_no_metric_leaves_the_two_human_rows():
    human, _ = a_campaign()
    assert decompose(bootstrap_pair_signs(human, np.empty((0, *human.shape)), 50)).value.shape == (2, 5)


def test_identical_systems_are_even():
    human, metrics = a_campaign()
    human[:, 1] = human[:, 0]
    metrics[0, :, 1] = metrics[0, :, 0]
    parts = campaign_parts(bootstrap_pair_signs(human, metrics, 200, seed=1))
    assert parts.stack_parts()[:, 0, 0].tolist() == [0.5, 0, 0, 0.5, 0]
    assert parts.bias[1, 0] == 0.5


def test_two_systems():
    human, metrics = a_campaign(systems=2)
    table = decompose(bootstrap_pair_signs(human, metrics, 100))
    assert table.pairs.tolist() == [1] * 5


def test_same_seed_same_table():
    human, metrics = a_campaign()
    first, second = (decompose(bootstrap_pair_signs(human, metrics, 100, seed=3), seed=4) for _ in range(2))
    assert (first.value == second.value).all()
    assert (first.error == second.error).all()
    independent = bootstrap_pair_signs(human, human[None], 100, seed=3)
    assert (independent.human.plus[:, 0] != independent.metrics.plus[:, 0]).any()  # draws of their own


def test_columns_by_name():
    human, metrics = a_campaign()
    columns = decompose(bootstrap_pair_signs(human, metrics, 100)).to_dict()
    assert list(columns) == [*PARTS, *(f"{part}_error" for part in PARTS), "pairs"]
    assert columns["bias"][:2] == [0, 0]


def test_bad_input():
    human, metrics = a_campaign()
    with pytest.raises(OptionError, match=r"`metrics` is \(3, 59, 5\), `human` \(60, 5\)"):
        bootstrap_pair_signs(human, metrics[:, 1:])
    with pytest.raises(OptionError, match=r"`metrics` is \(60, 5\), `human` \(60, 5\)"):
        bootstrap_pair_signs(human, metrics[0])
    with pytest.raises(OptionError, match=r"`human` \(5,\)"):
        bootstrap_pair_signs(human[0], metrics)
    with pytest.raises(OptionError, match="infinite"):
        bootstrap_pair_signs(human * np.inf, metrics)
    with pytest.raises(DataError, match="there are 1 systems"):
        bootstrap_pair_signs(human[:, :1], metrics[:, :, :1])
    with pytest.raises(DataError, match="no item has a human score"):
        bootstrap_pair_signs(human * np.nan, metrics)
    with pytest.raises(OptionError, match="one size"):
        bootstrap_pair_signs(human, metrics, paired=True, human_size=3)
    with pytest.raises(OptionError, match="`trials` is -1"):
        bootstrap_pair_signs(human, metrics, -1)
    with pytest.raises(OptionError, match="no campaign"):
        decompose([])
    with pytest.raises(OptionError, match=r"\[2, 3\] metrics"):
        decompose([bootstrap_pair_signs(human, metrics, 2), bootstrap_pair_signs(human, metrics[1:], 2)])
    assert isinstance(bootstrap_pair_signs(human, metrics, 2), PairSigns)


def test_squared_errors_of_differences_by_hand():
    """D of two items are 2, 0: mean 1, variance 1 / 2. The metric's 3, 1 have mean 2 and the same variance.

    The least squares factor is 1 / 2, so nothing is biased and the variance counts a quarter. With a second pair a
    factor cannot fit both.
    """
    human = np.array([[3.0, 1.0], [2.0, 2.0]])
    metric = np.array([[3.0, 0.0], [1.0, 0.0]])
    found = squared_error(human, np.stack([metric, np.zeros((2, 2)), np.full((2, 2), np.nan)]))
    assert found.pairs.tolist() == [1, 1, 1, 1, 0]
    assert found.value[:4].tolist() == [
        [0.5, 0.5, 0.0, 0.0, 1.0],
        [1.0, 0.5, 0.0, 0.5, 1.0],
        [0.625, 0.5, 0.0, 0.125, 0.5],
        [1.5, 0.5, 1.0, 0.0, 0.0],
    ]
    assert np.isnan(found.value[4, :4]).all()
    three = np.array([[3.0, 1.0, 0.0], [3.0, 1.0, 0.0]])  # differences 2, 3, 1; of the metric 1, 1, 0
    other = np.array([[2.0, 1.0, 1.0], [2.0, 1.0, 1.0]])
    bias = ((2 - 2.5) ** 2 + (3 - 2.5) ** 2 + 1) / 3
    assert squared_error(three, other[None]).value[2] == pytest.approx([bias, 0.0, bias, 0.0, 2.5])
