"""Errors of people with k judgments: all draws listed, the normal limit, the perfect annotator, break-even points."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from aliquot.errors import DataError, OptionError
from aliquot.stats import break_even as break_even_module
from aliquot.stats.arrays import FloatArray
from aliquot.stats.bias_variance import bootstrap_pair_signs, campaign_parts
from aliquot.stats.break_even import (
    MIN_NORMAL_JUDGMENTS,
    CampaignErrors,
    SystemJudgments,
    break_even,
    find_crossing,
    human_errors,
    judgment_errors,
    size_grid,
)
from aliquot.stats.variance_components import matched_ratio

TABLE = np.array([[3.0, 1.0], [0.0, 1.0], [1.0, 2.0]])


def exact_error(d: FloatArray, size: int) -> float:
    """P(sign of the sum of `size` draws != sign of the whole), ties half, by listing all draws."""
    wrong = [0.5 - 0.5 * np.sign(sum(draw)) * np.sign(d.sum()) for draw in product(d, repeat=size)]
    return float(np.mean(wrong))


def scores(seed: int, items: int = 200, systems: int = 5) -> FloatArray:
    rng = np.random.default_rng(seed)
    return 0.3 * rng.normal(size=systems) + rng.normal(size=(items, systems)) + rng.normal(size=(items, 1))


def test_errors_are_those_of_all_draws():
    d = np.array([3.0, -1.0, -1.0])
    found = human_errors(TABLE + np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), np.arange(1, 8), 30_000, seed=1)
    assert found[:, 0] == pytest.approx([exact_error(d, k) for k in range(1, 8)], abs=0.012)


def test_a_gap_leaves_its_item_out():
    gap = np.array([[3.0, 1.0, 0.0], [0.0, 1.0, np.nan], [1.0, 2.0, 4.0], [2.0, 2.5, 1.0]])
    d = np.array([3.0, 0.0, -3.0 + 0.5, 1.0])  # systems 0 and 2; the second item says nothing
    gap[2, 2] = 3.5
    found = human_errors(gap, np.array([1, 2, 3]), 30_000, seed=2)[:, 1]
    assert found == pytest.approx([exact_error(d, k) for k in (1, 2, 3)], abs=0.012)


def test_many_judgments_are_normal():
    human = scores(1)
    d = human[:, 0] - human[:, 1]
    expected = ndtr(-abs(d.mean()) / d.std() * np.sqrt([200, 1000]))
    assert human_errors(human, np.array([200, 1000]))[:, 0] == pytest.approx(expected)


@pytest.mark.parametrize("size", [MIN_NORMAL_JUDGMENTS, 3 * MIN_NORMAL_JUDGMENTS])
def test_the_normal_limit_agrees_with_the_bootstrap(monkeypatch, size):
    """Skewed scores with many ties, like MQM: within Monte Carlo error from where the switch is."""
    rng = np.random.default_rng(3)
    human = -np.round(rng.gamma(0.3, 4.0, size=(400, 4)) * np.array([1.0, 1.1, 1.3, 2.0]))
    normal = human_errors(human, np.array([size]))
    monkeypatch.setattr(break_even_module, "MIN_NORMAL_JUDGMENTS", 10**9)
    drawn = human_errors(human, np.array([size]), 10_000, seed=4)
    assert (normal != drawn).any()
    assert normal == pytest.approx(drawn, abs=0.015)


def test_few_judgments_are_not_normal(monkeypatch):
    """The reason for the bootstrap: one gross error among many equal scores."""
    human = np.zeros((100, 2))
    human[0, 0] = -50.0
    human[1:31, 1] = -1.0
    drawn = human_errors(human, np.array([3]), 5000, seed=5)[0, 0]
    monkeypatch.setattr(break_even_module, "MIN_NORMAL_JUDGMENTS", 1)
    assert abs(drawn - human_errors(human, np.array([3]))[0, 0]) > 0.2


def test_errors_fall_with_judgments_and_stay_below_a_coin():
    curve = human_errors(scores(6), size_grid(5000), seed=6).mean(axis=1)
    assert (np.diff(curve) < 0.002).all()
    assert 0.5 > curve[0] > 4 * curve[-1]


def test_the_perfect_annotator_is_a_person_with_more_judgments():
    human = scores(7)
    assert human_errors(human, np.array([10, 400]), 2000, ratio=2.0, seed=1) == pytest.approx(
        human_errors(human, np.array([20, 800]), 2000, seed=1), abs=0.02
    )
    between = human_errors(human, np.array([1.0, 3.0]), 2000, ratio=1.5, seed=1)[1]
    four, five = human_errors(human, np.array([1, 4, 5]), 2000, seed=1)[1:]
    assert between == pytest.approx((four + five) / 2, abs=0.02)


def test_the_perfect_annotator_by_simulation():
    """Judge with noise, then without: n judgments without noise err as r n with it, r for differences on same items."""
    rng = np.random.default_rng(8)
    perfect = rng.normal(size=(6000, 3)) + np.array([0.0, 0.2, 0.4])
    noisy = perfect + rng.normal(scale=1.2, size=perfect.shape)
    ratio = matched_ratio(noisy, 1.2**2)
    assert ratio == pytest.approx(1 + 1.2**2, rel=0.06)
    sizes = np.array([5, 20, 80, 300])
    assert human_errors(noisy, sizes, 4000, ratio=ratio) == pytest.approx(human_errors(perfect, sizes, 4000), abs=0.04)


def test_identical_systems_and_sure_differences():
    human = np.array([[1.0, 1.0, 0.0]] * 9)
    assert human_errors(human, np.array([1, 50, 1000]), 100).tolist() == [[0.5, 0, 0]] * 3
    apart = np.array([[1.0, np.nan], [np.nan, 2.0]])
    assert np.isnan(human_errors(apart, np.array([1, 1000]), 100)).all()


def test_same_seed_same_errors():
    human = scores(9)
    first, second, other = (human_errors(human, np.array([5]), 200, seed=seed) for seed in (1, 1, 2))
    assert (first == second).all()
    assert (first != other).any()


@settings(max_examples=40, deadline=None)
@given(st.floats(0.001, 0.499))
def test_crossing_lies_on_the_curve(bias):
    sizes = np.array([1.0, 4.0, 20.0, 100.0])
    curve = np.array([[0.4, 0.3, 0.2, 0.05]])
    found = find_crossing(sizes, curve, np.array([bias]))[0]
    if bias >= 0.4:
        assert found == 1
    elif bias < 0.05:
        assert found == np.inf
    else:
        assert np.interp(np.log(found), np.log(sizes), curve[0]) == pytest.approx(bias)


def test_crossing_of_a_curve_with_bumps_and_of_nothing():
    sizes = np.array([1.0, 10.0, 100.0])
    assert find_crossing(sizes, np.array([[0.4, 0.2, 0.21]]), np.array([0.2]))[0] == pytest.approx(10)
    assert np.isnan(find_crossing(sizes, np.array([[0.4, np.nan, 0.2]]), np.array([0.3])))[0]
    assert np.isnan(find_crossing(sizes, np.array([[0.4, 0.3, 0.2]]), np.array([np.nan])))[0]


def campaign(seed: int, sizes, systems: int = 8, error: float = 0.15) -> CampaignErrors:
    human = scores(seed, systems=systems)
    rng = np.random.default_rng(100 + seed)
    metric = human + 3 * error * rng.normal(size=(3, 1, systems)) * np.arange(3)[:, None, None]
    signs = bootstrap_pair_signs(human, metric, 300, seed=seed)
    return CampaignErrors(human_errors(human, sizes, 500, seed=seed), campaign_parts(signs).bias, systems)


def test_break_even_of_campaigns():
    sizes = size_grid(2000)
    one = campaign(1, sizes)
    found = break_even(one, sizes, replicates=300, seed=1)
    assert found.judgments[0] == np.inf  # the human score itself: no bias
    bias, curve = one.bias[2].mean(), one.human.mean(axis=1)
    assert np.interp(np.log(found.judgments[2]), np.log(sizes), np.minimum.accumulate(curve)) == pytest.approx(bias)
    assert (found.low <= found.judgments).all()
    assert (found.judgments <= found.high).all()
    assert found.low[2] < found.high[2]
    pooled = break_even([one, campaign(2, sizes, 4)], sizes, replicates=300, seed=1)
    both = campaign(2, sizes, 4)
    all_bias = np.append(one.bias[2], both.bias[2]).mean()
    all_curve = np.minimum.accumulate(np.hstack([one.human, both.human]).mean(axis=1))
    assert pooled.judgments[2] == pytest.approx(
        find_crossing(sizes.astype(float), all_curve[None], np.array([all_bias]))[0]
    )


def test_the_perfect_annotator_breaks_even_earlier_by_the_ratio():
    human = scores(3, systems=10)
    sizes = size_grid(20_000, 60)
    bias = np.zeros((1, 45))
    bias[0, :1] = 1.0  # an error of 2%: in the normal part of the curve
    people, perfect = (
        break_even(CampaignErrors(human_errors(human, sizes, 300, ratio=ratio), bias, 10), sizes, replicates=10)
        for ratio in (1.0, 2.24)
    )
    assert people.judgments[0] > 2.24 * MIN_NORMAL_JUDGMENTS
    assert people.judgments[0] / perfect.judgments[0] == pytest.approx(2.24, rel=0.01)


def test_a_metric_is_held_against_people_on_its_own_pairs():
    human = np.array([[0.4, 0.4, 0.1], [0.2, 0.2, 0.0]])
    bias = np.array([[1.0, 0.0, np.nan], [np.nan, np.nan, np.nan]])
    sizes = np.array([1, 10])
    found = break_even(CampaignErrors(human, bias, 3), sizes, replicates=50)
    assert found.judgments[0] == 1
    assert np.isnan(found.judgments[1])
    assert np.isnan(found.low).all()  # two pairs and none: too few for an interval


def test_two_systems_have_no_interval():
    found = break_even(CampaignErrors(np.array([[0.4], [0.1]]), np.array([[0.0]]), 2), np.array([1, 10]))
    assert found.judgments[0] == np.inf
    assert np.isnan(found.low[0])
    assert np.isnan(found.high[0])


def test_a_metric_that_is_always_right_has_a_lower_end():
    sizes = np.array([1.0, 10.0, 100.0])
    human = np.outer([0.45, 0.2, 0.01], np.ones(28))
    found = break_even(CampaignErrors(human, np.stack([np.zeros(28), np.ones(28)]), 8), sizes, replicates=20)
    unseen = 1 - 0.025 ** (1 / 4)  # eight systems make four pairs without a common one
    assert unseen > 0.45
    assert (found.low[0], found.high[0]) == (1, np.inf)
    lower = find_crossing(sizes, human.mean(axis=1)[None], np.array([1 - unseen]))[0]
    assert found.high[1] == pytest.approx(lower)
    assert (found.judgments[1], found.low[1]) == (1, 1)


def test_intervals_cover_the_break_even_of_a_world_of_systems():
    """Systems are drawn from a world of 300; the interval of 10 of them covers the world's break-even at least 95%."""
    rng = np.random.default_rng(4)
    world, sizes = 300, size_grid(5000, 25)
    quality = rng.normal(size=world)
    seen = quality + 0.35 * rng.normal(size=world)

    def errors(chosen) -> CampaignErrors:
        first, second = np.triu_indices(len(chosen), 1)
        gap = np.abs(quality[chosen][first] - quality[chosen][second])
        wrong = (quality[chosen][first] > quality[chosen][second]) != (seen[chosen][first] > seen[chosen][second])
        return CampaignErrors(ndtr(-np.sqrt(sizes)[:, None] * gap / 5), wrong[None].astype(float), len(chosen))

    truth = break_even(errors(np.arange(world)), sizes, replicates=2).judgments[0]
    for systems in (6, 14):
        draws = [
            break_even(errors(rng.choice(world, systems, False)), sizes, replicates=200, seed=s) for s in range(80)
        ]
        covered = np.mean([found.low[0] <= truth <= found.high[0] for found in draws])
        assert covered >= 0.9
    assert np.mean([found.low[0] > 5 and found.high[0] < np.inf for found in draws]) > 0.3  # and they say something


def test_bad_input():
    human = scores(1)
    with pytest.raises(OptionError, match=r"`ratio` is 0\.5"):
        human_errors(human, np.array([1]), ratio=0.5)
    with pytest.raises(OptionError, match="`ratio` is inf"):
        human_errors(human, np.array([1]), ratio=np.inf)
    with pytest.raises(OptionError, match="`sizes` is"):
        human_errors(human, np.array([0, 1]))
    with pytest.raises(OptionError, match="`trials` is 0"):
        human_errors(human, np.array([1]), 0)
    with pytest.raises(DataError, match="no item has a human score"):
        human_errors(human * np.nan, np.array([1]))
    with pytest.raises(OptionError, match="`largest` is 0"):
        size_grid(0)
    good = CampaignErrors(np.zeros((2, 3)), np.zeros((1, 3)), 3)
    with pytest.raises(OptionError, match="no campaign"):
        break_even([], np.array([1]))
    with pytest.raises(OptionError, match="increasing"):
        break_even(good, np.array([2, 2]))
    with pytest.raises(OptionError, match="the 3 pairs of 3 systems"):
        break_even(good, np.array([1, 2, 3]))
    with pytest.raises(OptionError, match="`level` is 95"):
        break_even(good, np.array([1, 2]), level=95)


# -- Single judgments, each system with its own (Wei and Jia 2021, eq. 2) ---------------------------------------------


def exact_single_error(first: list[tuple[float, float]], second: list[tuple[float, float]], size: int) -> float:
    """P(sign of the difference of two means of `size` judgments != the expected one), ties half, all draws listed.

    A system is a list of (value, probability).
    """
    expected = sum(v * p for v, p in first) - sum(v * p for v, p in second)
    wrong = 0.0
    for draw in product(first, repeat=size):
        for other in product(second, repeat=size):
            chance = np.prod([p for _, p in draw]) * np.prod([p for _, p in other])
            ahead = np.sign(round(sum(v for v, _ in draw) - sum(v for v, _ in other), 9))
            wrong += chance * (0.5 - 0.5 * ahead * np.sign(expected))
    return float(wrong)


def test_single_judgments_are_those_of_all_draws():
    """Two outputs, one of them judged three times: an output counts once, however often it was judged."""
    first = SystemJudgments(np.array([4.0, 1.0, 2.0, 3.0]), np.array([7, 2, 2, 2]))
    second = SystemJudgments(np.array([3.0, 2.0, 1.0]), np.array([7, 2, 3]))
    listed = [(4.0, 1 / 2), (1.0, 1 / 6), (2.0, 1 / 6), (3.0, 1 / 6)], [(v, 1 / 3) for v in (3.0, 2.0, 1.0)]
    found = judgment_errors([first, second], np.arange(1, 4), 40_000, seed=1)[:, 0]
    assert found == pytest.approx([exact_single_error(*listed, k) for k in (1, 2, 3)], abs=0.01)


def test_single_judgments_turn_normal_without_a_step():
    rng = np.random.default_rng(2)
    systems = [SystemJudgments(-rng.gamma(0.5, 3.0, 300) * (1 + 0.1 * s), np.arange(300) // 3) for s in range(3)]
    found = judgment_errors(systems, np.array([MIN_NORMAL_JUDGMENTS - 1, MIN_NORMAL_JUDGMENTS]), 40_000, seed=3)
    assert found[1] == pytest.approx(found[0], abs=0.012)
    mean, variance = np.array([(one.value.mean(), one.value.var()) for one in systems[:2]]).T
    z = abs(mean[0] - mean[1]) / np.sqrt(variance.sum()) * np.sqrt(MIN_NORMAL_JUDGMENTS)
    assert found[1, 0] == pytest.approx(float(ndtr(-z)))


def test_shared_difficulty_makes_matched_items_worth_more():
    """Var(d) = 2 s2 for matched items and 2 (s2 + u2) for judgments of one's own: break-even in the ratio of both."""
    rng = np.random.default_rng(4)
    noise, difficulty = rng.normal(size=(4000, 2)), 2.0 * rng.normal(size=(4000, 1))
    human = noise + difficulty + np.array([0.3, 0.0])
    sizes = np.unique(np.r_[MIN_NORMAL_JUDGMENTS : 4 * MIN_NORMAL_JUDGMENTS])
    single = [SystemJudgments(column, np.arange(4000)) for column in human.T]
    bias = np.array([0.001])
    matched, own = (
        find_crossing(sizes.astype(float), errors.T, bias)[0]
        for errors in (human_errors(human, np.array(sizes)), judgment_errors(single, 5 * sizes))
    )
    assert own / matched == pytest.approx(1.0, rel=0.1)  # sizes of `own` are five times as large: (1 + 4) / 1


def test_without_judgments_single_errors_are_unknown_and_equal_systems_a_coin():
    some, none = (
        SystemJudgments(np.array([1.0, 2.0]), np.arange(2)),
        SystemJudgments(np.empty(0), np.empty(0, dtype=np.int64)),
    )
    found = judgment_errors([some, some, none], np.array([1, 5, 500]), 200)
    assert (found[:, 0] == 0.5).all()
    assert np.isnan(found[:, 1:]).all()
    with pytest.raises(DataError, match="two are needed"):
        judgment_errors([some], np.array([1]))
    with pytest.raises(OptionError, match="trials"):
        judgment_errors([some, some], np.array([1]), 0)
