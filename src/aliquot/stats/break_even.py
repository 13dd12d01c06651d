"""Break-even of a metric: the number of human judgments with the same error as the metric's bias.

Errors exclude noise (docs/methods.md, section 7): that of people with k judgments per system is P(sign != y*), their
Var at k, with y* the sign on all items; that of a metric is its Bias. Means are over pairs, and a metric is compared
with people on the pairs that the metric has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr

from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed, is_negligible, row_blocks, snap_to_zero, validate_scores
from aliquot.stats.confidence_sequences import error_rate
from aliquot.stats.pairwise import pairwise_sums
from aliquot.stats.resampling import (
    bootstrap_counts,
    full_sample_signs,
    pair_contrasts,
    percentile_interval,
    spawn_seeds,
)
from aliquot.validation import at_least

MIN_NORMAL_JUDGMENTS = 200
"""Number of judgments from which the normal approximation replaces the bootstrap; see `human_errors`."""


BreakEvenUnit = Literal["judgment", "item"]
"""Unit of a break-even: single judgments, drawn for each system independently (`judgment_errors`), or judged items, the
same for all systems (`human_errors`).
"""


_CHUNK = 1 << 21  # numbers in a temporary array

_ROUNDING = 1e-11  # relative difference of sums of equal values in different orders


@dataclass(frozen=True)
class CampaignErrors:
    """Errors of people and biases of metrics in one campaign; pairs as in `np.triu_indices(systems, 1)`."""

    human: FloatArray  # sizes x pairs, from `judgment_errors` or `human_errors`
    bias: FloatArray  # metrics x pairs, from `bias_variance.campaign_parts`; NaN where the metric lacks a system
    systems: int  # number of systems


@dataclass(frozen=True)
class BreakEven:
    """Judgments per system at which the error of people equals each metric's bias.

    Infinite: not within the given sizes, as for a metric without bias. The smallest size: already there.
    """

    judgments: FloatArray  # one per metric; NaN for a metric without a pair
    low: FloatArray  # lower end of the interval; NaN where there are fewer than three pairs
    high: FloatArray  # upper end


def size_grid(largest: int, points: int = 30) -> IntArray:
    """Return numbers of judgments per system from 1 to `largest`, evenly spaced on a log scale, without repeats.

    >>> size_grid(100, 5)
    array([  1,   3,  10,  32, 100])
    """
    if largest < 1 or points < 1:
        raise OptionError(f"`largest` is {largest} and `points` {points}; both are at least 1")
    return np.unique(np.rint(np.geomspace(1, largest, points)).astype(np.int64))


def human_errors(
    human: FloatArray, sizes: IntArray | FloatArray, trials: int = 10_000, *, ratio: float = 1.0, seed: Seed = 0
) -> FloatArray:
    """Return P(sign of the mean difference of k judged items != y*), sizes x pairs (docs/methods.md, section 7).

    Below `MIN_NORMAL_JUDGMENTS` the items are bootstrapped `trials` times, because MQM is far from normal there (WMT23
    en-de at k = 10: mean error 0.168, by the normal approximation 0.187); above, the error is Phi(-|mean d| sqrt(k) /
    sd d). A tie, or a mean of 0, is half an error. Errors are interpolated between whole k. `ratio` is the efficiency
    ratio r: n judgments of the perfect annotator are worth r n human ones.

    >>> human = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> human_errors(human, np.array([1, 3, 300]), seed=1).round(2).T  # exactly 9 / 27 and 7 / 27 at first
    array([[0.34, 0.26, 0.  ]])
    """
    validate_scores(human)
    judged = human[~np.isnan(human).all(axis=1)]
    if not len(judged):
        raise DataError("no item has a human score; judge some, or name another human score")
    rng = np.random.default_rng(seed)
    return _interpolate_errors(
        _effective_sizes(sizes, ratio),
        lambda k: _normal_errors(*_difference_moments(judged), k),
        lambda k: _bootstrap_item_errors(judged, k, trials, rng),
    )


def judgment_errors(
    judgments: Sequence[SystemJudgments],
    sizes: IntArray | FloatArray,
    trials: int = 10_000,
    *,
    ratio: float = 1.0,
    seed: Seed = 0,
) -> FloatArray:
    """Return P(sign of the difference of two means of k judgments != y*), sizes x pairs (Wei and Jia 2021, eq. 2).

    Outputs are drawn with equal weights, then one of their judgments. Systems are drawn independently, so that
    difficulty of items and severity of annotators do not cancel, unlike in `human_errors`. NaN where a system has no
    judgment.

    >>> first = SystemJudgments(np.array([1.0, 1.0, 0.0]), np.arange(3))
    >>> second = SystemJudgments(np.array([0.5]), np.zeros(1, int))
    >>> judgment_errors([first, second], np.array([1, 300]), seed=1).round(2).T  # exactly 1 / 3 at first
    array([[0.33, 0.  ]])
    """
    at_least("trials", trials, 1, "give at least 1, for instance 10000")
    if len(judgments) < 2:
        raise DataError(f"there are {len(judgments)} systems; two are needed to compare")
    moments = np.array([system.mean_and_variance() for system in judgments])
    first, second = np.triu_indices(len(judgments), 1)
    mean, sd = moments[first, 0] - moments[second, 0], np.sqrt(moments[first, 1] + moments[second, 1])
    scale = np.nanmax([np.abs(system.value).max(initial=0.0) for system in judgments])
    mean = np.where(np.abs(mean) <= _ROUNDING * scale, 0.0, mean)
    seeds = spawn_seeds(seed, len(judgments))
    return _interpolate_errors(
        _effective_sizes(sizes, ratio),
        lambda k: _normal_errors(mean, sd, k),
        lambda k: _bootstrap_judgment_errors(judgments, k, trials, seeds, np.sign(mean), _ROUNDING * scale),
    )


@dataclass(frozen=True, eq=False)
class SystemJudgments:
    """Judgments of one system's outputs."""

    value: FloatArray
    output: IntArray  # integer code of the output of each judgment

    def mean_and_variance(self) -> tuple[float, float]:
        """Return mean and variance of a judgment of a random output; NaN without judgments."""
        if not len(self.value):
            return float("nan"), float("nan")
        of, count = np.unique(self.output, return_inverse=True, return_counts=True)[1:]
        weight = 1 / (count[of] * len(count))
        mean = float(weight @ self.value)
        return mean, float(weight @ (self.value - mean) ** 2)

    def draw_sums(self, sizes: IntArray, trials: int, rng: np.random.Generator) -> FloatArray:
        """Return sums of judgments of outputs drawn with replacement, at increasing sizes: sizes x trials."""
        order = np.argsort(self.output, kind="stable")
        count = np.unique(self.output, return_counts=True)[1]
        value, start = self.value[order], np.cumsum(count) - count
        sums = np.empty((len(sizes), trials))
        for trial_rows in row_blocks(trials, int(sizes[-1]), _CHUNK):
            shape = (trial_rows.stop - trial_rows.start, int(sizes[-1]))
            output = rng.integers(len(count), size=shape)
            values = value[start[output] + rng.integers(count[output])] if (count > 1).any() else value[start[output]]
            sums[:, trial_rows] = values.cumsum(axis=1)[:, sizes - 1].T
        return sums


def _effective_sizes(sizes: IntArray | FloatArray, ratio: float) -> FloatArray:
    """Return sizes x ratio, the equivalent numbers of human judgments."""
    if not ratio >= 1.0 or np.isinf(ratio):
        raise OptionError(f"`ratio` is {ratio}; an efficiency ratio Var(H) / Var(P) is finite and at least 1")
    worth = np.asarray(sizes, dtype=np.float64) * ratio
    if worth.ndim != 1 or not (worth >= 1).all():
        raise OptionError(f"`sizes` is {sizes}; give judgments per system, at least 1 each")
    return worth


def _interpolate_errors(
    worth: FloatArray, normal: Callable[[FloatArray], FloatArray], drawn: Callable[[IntArray], FloatArray]
) -> FloatArray:
    """Interpolate bootstrap errors below `MIN_NORMAL_JUDGMENTS`; use normal errors from there on."""
    errors = normal(worth)
    small = np.flatnonzero(worth < MIN_NORMAL_JUDGMENTS)
    if not len(small):
        return errors
    below, above = np.floor(worth[small]).astype(np.int64), np.ceil(worth[small]).astype(np.int64)
    sizes = np.union1d(below, above)
    errors_at = drawn(sizes)
    part = (worth[small] - below)[:, None]
    at_below, at_above = (errors_at[np.searchsorted(sizes, size)] for size in (below, above))
    errors[small] = (1 - part) * at_below + part * at_above
    return errors


def _difference_moments(human: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the difference of each pair over their common items."""
    sums = pairwise_sums(human)
    count = np.where(sums.count > 0, sums.count, np.nan)
    mean = sums.total / count
    square = sums.squares / count
    return mean, np.sqrt(np.maximum(snap_to_zero(square - mean**2, square), 0.0))


def _normal_errors(mean: FloatArray, sd: FloatArray, sizes: FloatArray) -> FloatArray:
    # Without variance the sign is certain; without a difference it is random.
    z = np.divide(np.abs(mean), sd, out=np.where(mean == 0, 0.0, np.inf), where=sd > 0)
    return np.asarray(ndtr(-np.where(np.isnan(mean), np.nan, z) * np.sqrt(sizes)[:, None]), dtype=np.float64)


def _bootstrap_judgment_errors(
    judgments: Sequence[SystemJudgments],
    sizes: IntArray,
    trials: int,
    seeds: Sequence[int],
    truth: FloatArray,
    equal: float,
) -> FloatArray:
    """Return bootstrap errors at increasing whole sizes, with independent draws per system."""
    first, second = np.triu_indices(len(judgments), 1)
    sums = [
        system.draw_sums(sizes, trials, np.random.default_rng(child))
        if len(system.value)
        else np.full((len(sizes), trials), np.nan)
        for system, child in zip(judgments, seeds, strict=True)
    ]
    errors = np.empty((len(sizes), len(first)))
    slack = equal * sizes[:, None]
    for pair, (a, b) in enumerate(zip(first, second, strict=True)):
        ahead = sums[a] - sums[b]
        share = ((ahead > slack).mean(axis=1) + (ahead >= -slack).mean(axis=1)) / 2
        errors[:, pair] = 0.5 if truth[pair] == 0 else 1 - share if truth[pair] > 0 else share
    return np.where(np.isnan(truth), np.nan, errors)


def _bootstrap_item_errors(human: FloatArray, sizes: IntArray, trials: int, rng: np.random.Generator) -> FloatArray:
    """Return bootstrap errors at increasing whole sizes; larger samples contain smaller ones, for smooth curves."""
    at_least("trials", trials, 1, "give at least 1, for instance 10000")
    block = next(iter(pair_contrasts(human[None])))
    truth = full_sample_signs(human[None])[0]
    plus, items = np.zeros((len(sizes), len(truth))), len(human)
    # A chunk holds counts (items) and signs (pairs) at a time, and the draws of one step up in size.
    for trial_rows in row_blocks(trials, max(items, len(truth), len(block.matrix), MIN_NORMAL_JUDGMENTS), _CHUNK):
        count = trial_rows.stop - trial_rows.start
        sums, reached = np.zeros((len(block.matrix), count)), 0
        for position, size in enumerate(sizes):
            sums += block.add(bootstrap_counts(rng, count, items, int(size) - reached))
            reached = int(size)
            plus[position] += block.compare_systems(sums, reached)[0].sum(axis=1) / 2
    share = plus / trials
    errors = np.where(truth == 0, 0.5, np.where(truth > 0, 1 - share, share))
    return np.where(block.known[0], errors, np.nan)


def break_even(
    campaigns: CampaignErrors | Sequence[CampaignErrors],
    sizes: IntArray | FloatArray,
    *,
    level: float = 0.95,
    replicates: int = 1000,
    seed: Seed = 0,
) -> BreakEven:
    """Return judgments per system at which the error of people falls to the bias of each metric.

    The curve of people is made non-increasing and interpolated over log k. The interval is a percentile bootstrap over
    systems within campaigns, because pairs share systems. Where a metric is right on every pair in every draw, its bias
    may still be up to u, with (1 - u)^m = (1 - level) / 2 for the m = floor(M / 2) pairs without a common system; the
    lower end is where people reach u. Likewise for a metric that is always wrong.

    >>> human = np.array([[0.4, 0.4, 0.4], [0.2, 0.2, 0.2], [0.0, 0.0, 0.0]])
    >>> bias = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    >>> sizes = np.array([1, 10, 100])
    >>> break_even(CampaignErrors(human, bias, 3), sizes).judgments.round(1)
    array([  2.2,   1. , 100. ])
    """
    all_campaigns = [campaigns] if isinstance(campaigns, CampaignErrors) else list(campaigns)
    size_array = _validate_campaigns(all_campaigns, sizes)
    rng = np.random.default_rng(seed)
    weights = [_resample_pairs(campaign.systems, replicates, rng) for campaign in all_campaigns]
    metrics = len(all_campaigns[0].bias)
    judgments, low, high = np.full((3, metrics), np.nan)
    for metric in range(metrics):
        curves = [
            _mean_curves(all_campaigns, [np.ones((1, w.shape[1])) for w in weights], metric),
            _mean_curves(all_campaigns, weights, metric),
        ]
        point, samples = (find_crossing(size_array, curve, bias) for curve, bias in curves)
        judgments[metric] = point[0]
        if sum(int(_shared_pairs(campaign, metric).sum()) for campaign in all_campaigns) >= 3:
            low[metric], high[metric] = percentile_interval(samples, level)
            (curve, (bias,)), unseen = curves[0], _unseen_bias(all_campaigns, metric, level)
            if is_negligible(bias, 1.0):
                low[metric] = find_crossing(size_array, curve, np.array([unseen]))[0]
            elif is_negligible(1.0 - bias, 1.0):
                high[metric] = find_crossing(size_array, curve, np.array([1 - unseen]))[0]
    return BreakEven(judgments, low, high)


def find_crossing(sizes: FloatArray, curve: FloatArray, bias: FloatArray) -> FloatArray:
    """Return the size at which each decreasing curve (rows x sizes) reaches its bias; inf if never, NaN if unknown.

    >>> find_crossing(np.array([1.0, 100.0]), np.array([[0.4, 0.2]]), np.array([0.3]))
    array([10.])
    """
    falling = np.minimum.accumulate(curve, axis=1)
    above = (falling > bias[:, None]).sum(axis=1)
    upper = np.minimum(above, len(sizes) - 1)
    lower = np.maximum(upper - 1, 0)
    rows = np.arange(len(curve))
    drop = falling[rows, lower] - falling[rows, upper]
    part = np.divide(falling[rows, lower] - bias, drop, out=np.ones_like(drop), where=drop > 0)
    part = np.clip(part, 0.0, 1.0)
    between = np.exp((1 - part) * np.log(sizes[lower]) + part * np.log(sizes[upper]))
    sizes_at = np.where(above == 0, sizes[0], np.where(above == len(sizes), np.inf, between))
    return np.where(np.isnan(bias) | np.isnan(curve).any(axis=1), np.nan, sizes_at)


def _validate_campaigns(campaigns: Sequence[CampaignErrors], sizes: IntArray | FloatArray) -> FloatArray:
    size_array = np.asarray(sizes, dtype=np.float64)
    if not campaigns:
        raise OptionError("no campaign is given; give at least one")
    if size_array.ndim != 1 or not len(size_array) or not (np.diff(size_array) > 0).all():
        raise OptionError(f"`sizes` is {sizes}; give increasing numbers of judgments")
    for campaign in campaigns:
        pairs = campaign.systems * (campaign.systems - 1) // 2
        if campaign.human.shape != (len(size_array), pairs) or campaign.bias.shape != (len(campaigns[0].bias), pairs):
            raise OptionError(
                f"`human` is {campaign.human.shape} and bias {campaign.bias.shape}; give {len(size_array)} sizes and "
                f"{len(campaigns[0].bias)} metrics, by the {pairs} pairs of {campaign.systems} systems"
            )
    return size_array


def _resample_pairs(systems: int, replicates: int, rng: np.random.Generator) -> FloatArray:
    """Return how often each pair of systems occurs when systems are drawn with replacement: replicates x pairs."""
    counts = bootstrap_counts(rng, replicates, systems, systems)
    first, second = np.triu_indices(systems, 1)
    return np.asarray(counts[:, first] * counts[:, second], dtype=np.float64)


def _shared_pairs(campaign: CampaignErrors, metric: int) -> FloatArray:
    """Return 1 for the pairs on which both people and the metric have values, else 0."""
    shared = np.isfinite(campaign.bias[metric]) & np.isfinite(campaign.human).all(axis=0)
    return np.asarray(shared, dtype=np.float64)


def _unseen_bias(campaigns: Sequence[CampaignErrors], metric: int, level: float) -> float:
    """Return the largest bias that leaves no error on independent pairs with probability (1 - level) / 2."""
    apart = 0
    for campaign in campaigns:
        used = _shared_pairs(campaign, metric) > 0
        ends = np.concatenate([side[used] for side in np.triu_indices(campaign.systems, 1)])
        apart += len(np.unique(ends)) // 2
    return float(1 - (error_rate(level) / 2) ** (1 / max(1, apart)))


def _mean_curves(
    campaigns: Sequence[CampaignErrors], weights: list[FloatArray], metric: int
) -> tuple[FloatArray, FloatArray]:
    """Return weighted means over the pairs of a metric: curves of people (rows x sizes) and biases (rows)."""
    rows = len(weights[0])
    curve, bias, total = np.zeros((rows, len(campaigns[0].human))), np.zeros(rows), np.zeros(rows)
    for campaign, weight in zip(campaigns, weights, strict=True):
        used = weight * _shared_pairs(campaign, metric)
        curve += used @ np.nan_to_num(campaign.human).T
        bias += used @ np.nan_to_num(campaign.bias[metric])
        total += used.sum(axis=1)
    mass = np.where(total > 0, total, np.nan)
    return curve / mass[:, None], bias / mass
