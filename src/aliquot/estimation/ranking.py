"""Who is really better: p-values of all pairs, clusters, rank intervals, the probability of being best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from scipy.special import stdtrit

from aliquot.estimation.intervals import Bounds
from aliquot.estimation.pipeline import ALPHA, Inference, one_sided_better, pair_errors
from aliquot.estimation.sample import Sample
from aliquot.stats.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    Seed,
    is_constant,
    is_negligible,
    max_abs,
    row_blocks,
    snap_to_zero,
)
from aliquot.stats.mixed_model import shrink_to_common_mean
from aliquot.stats.multiple_testing import (
    PAIR_ADJUSTMENTS,
    PairAdjustment,
    adjust_by_max_t,
    adjust_pairs,
    significantly_better,
    two_sided_p,
)
from aliquot.stats.pairwise import analytic_p, permutation_p, sign_flip_p, wilcoxon_p
from aliquot.stats.ranks import assign_clusters, full_set_p, probability_best, rank_intervals
from aliquot.stats.shrinkage import shrink_to_prediction
from aliquot.validation import between, one_of

Test = Literal["estimator", "permutation", "analytic", "wilcoxon"]
TESTS: tuple[Test, ...] = get_args(Test)
Rule = Literal["any", "neighbour", "published"]
RULES: tuple[Rule, ...] = get_args(Rule)
MIN_ITEMS_FOR_T, MIN_UNLIKE_FOR_T = 30, 10  # below, a sign-flip test decides
_ROUNDING = 1e-9
_MAX_BLOCK = 1 << 22  # numbers that a temporary array may hold
_RAGGED_SE_FACTOR = (
    1.6  # chosen on the six campaigns of docs/evidence-cells.md: 1 gave 84% right where P(best) was 0.9 or more
)
_PAIRED_TESTS: Mapping[str, Callable[[FloatArray, Seed], FloatArray]] = {
    "permutation": lambda scores, seed: permutation_p(scores, seed=seed),
    "analytic": lambda scores, _: analytic_p(scores),
    "wilcoxon": lambda scores, _: wilcoxon_p(scores),
}


@dataclass(frozen=True, eq=False)
class Ranking:
    """p-values of all pairs, clusters, rank intervals, probability of being best.

    Attributes:
        p_sample: one-sided, from the estimator or the test asked for; small where the row is better.
        p_full: one-sided, predicted for the case that all items are judged.
        p: two-sided; with few pairs at least that of an exact test.
        p_adjusted: `p` adjusted over all pairs; by the rule `published` p_sample itself. It decides clusters and ranks.
    """

    p_sample: FloatArray
    p_full: FloatArray
    p: FloatArray
    p_adjusted: FloatArray
    cluster: IntArray
    rank_low: IntArray
    rank_high: IntArray
    p_best: FloatArray


def rank_systems(
    inference: Inference, *, test: Test, rule: Rule, alpha: float, adjust: PairAdjustment, seed: Seed
) -> Ranking:
    """Test all pairs; return p-values, clusters, rank intervals and probabilities of being best."""
    one_of("test", test, TESTS)
    one_of("rule", rule, RULES)
    one_of("adjust", adjust, PAIR_ADJUSTMENTS)
    between("alpha", alpha, 0, 0.5, inclusive=False)
    p_sample = _one_sided_p(inference, test, seed)
    p = _two_sided_p(inference, p_sample, test, seed)
    if rule == "published":
        p_adjusted, better = p_sample, one_sided_better(p_sample, alpha)
    else:
        p_adjusted = _adjust_pair_p(p, inference, adjust, seed)
        better = significantly_better(inference.values, p_adjusted, alpha)
    low, high = _ranks_of_judged(better, inference.judged)
    clusters = assign_clusters(inference.values, better, "neighbour" if rule == "neighbour" else "any")
    return Ranking(p_sample, full_p(inference), p, p_adjusted, clusters, low, high, p_best(inference, seed))


def cluster_systems(inference: Inference, alpha: float = ALPHA, seed: Seed = 0) -> IntArray:
    """Return the clusters that `estimate` prints by default."""
    p = exact_p(inference, seed)
    return assign_clusters(inference.values, significantly_better(inference.values, adjust_pairs(p), alpha))


def exact_p(inference: Inference, seed: Seed = 0) -> FloatArray:
    """Return two-sided p-values of all pairs; at least those of exact tests where few scores differ."""
    return _with_exact_tests(two_sided_p(inference.p_sample), inference, seed)


def follow_exact_tests(limits: Bounds, inference: Inference, seed: Seed) -> Bounds:
    """Widen intervals of differences to agree with the exact tests of few pairs.

    The standard error becomes the one with which Student's t has the exact p, or 0.5 if that is less. Pass/fail has
    Tango's interval.
    """
    if inference.scale is not None and inference.scale.binary:
        return limits
    p, plain = exact_p(inference, seed), two_sided_p(inference.p_sample)
    gap = inference.values[:, None] - inference.values[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = stdtrit(inference.pair_freedom, plain / 2) / stdtrit(inference.pair_freedom, np.minimum(p, 0.5) / 2)
    ratio = np.where((p > plain + _ROUNDING) & np.isfinite(ratio), np.maximum(ratio, 1.0), 1.0)
    return replace(
        limits, pair_low=gap - ratio * (gap - limits.pair_low), pair_high=gap + ratio * (limits.pair_high - gap)
    )


def _two_sided_p(inference: Inference, p_sample: FloatArray, test: Test, seed: Seed) -> FloatArray:
    p = two_sided_p(p_sample)
    if test == "estimator":
        return exact_p(inference, seed)
    gap = inference.values[:, None] - inference.values[None, :]
    return np.where(gap * (p_sample.T - p_sample) < 0, 1.0, p)  # a test for the other side says nothing for this one


def _one_sided_p(inference: Inference, test: Test, seed: Seed) -> FloatArray:
    """Return one-sided p-values of a test; NaN for systems never judged, or never on the same item."""
    sample, judged = inference.sample, inference.judged
    p = inference.p_sample.copy() if test == "estimator" else _PAIRED_TESTS[test](sample.scores, seed)
    p[~judged] = p[:, ~judged] = np.nan
    if test != "estimator":  # paired tests know nothing of systems that were never judged on the same item
        present = np.isfinite(sample.scores).astype(np.float64)
        p[(present.T @ present) == 0] = np.nan
    return p


def _adjust_pair_p(p: FloatArray, inference: Inference, method: PairAdjustment, seed: Seed) -> FloatArray:
    if method == "maxt":
        return adjust_by_max_t(p, inference.whole_covariance, inference.pair_freedom, seed=seed)
    return adjust_pairs(p, method)


def _with_exact_tests(p: FloatArray, inference: Inference, seed: Seed) -> FloatArray:
    """Raise two-sided p-values to those of a sign-flip test where few pairs of scores exist.

    Student's t needs more than a handful of differences: with fewer than 30 items, or fewer than 10 on which two
    systems differ, the larger p counts. Where systems were judged on different items, the one with more of them counts:
    variances are pooled over systems there. Systems judged mostly on different items have no pairs to flip.
    """
    sample, result = inference.sample, p.copy()
    first, second = np.triu_indices(len(p), 1)
    for block in row_blocks(len(first), max(1, sample.n), _MAX_BLOCK):
        a, b = first[block], second[block]
        gap = snap_to_zero(sample.scores[:, a] - sample.scores[:, b], max_abs(sample.scores))
        short, sparse = _find_few_pairs(inference, a, b, gap)
        values = gap * sample.weight[:, None]
        if inference.fitted.proxy is not None and not sample.ragged:  # what metrics leave of the difference, around it
            z = inference.fitted.z
            around = (inference.values[a] - inference.values[b]) + sample.n * (z[:, a] - z[:, b])
            values = np.where(short, around, values)
        tested = np.flatnonzero((short | sparse) & np.isfinite(p[a, b]))
        a, b = a[tested], b[tested]
        result[a, b] = result[b, a] = np.maximum(p[a, b], sign_flip_p(values[:, tested], seed))
    return result


def _find_few_pairs(inference: Inference, a: IntArray, b: IntArray, gap: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Return masks of paired systems with few items, and of those that differ on few items."""
    counts = inference.sample.counts
    unlike, n = np.count_nonzero(np.nan_to_num(gap), axis=0), np.isfinite(gap).sum(axis=0)
    paired = (n > 0) & (2 * n >= np.minimum(counts[a], counts[b])) & ~(inference.exact[a] & inference.exact[b])
    binary = inference.scale is not None and inference.scale.binary
    short = np.maximum(counts[a], counts[b]) < MIN_ITEMS_FOR_T
    sparse = (unlike < MIN_UNLIKE_FOR_T) & ((n >= MIN_UNLIKE_FOR_T) | binary)
    return paired & short, paired & sparse


def p_best(inference: Inference, seed: Seed) -> FloatArray:
    """Return probabilities of being the best, by simulation; NaN for systems never judged.

    The estimates are first shrunk towards their common mean, as in `plan`, because the largest of many noisy ones is
    too large. Where systems were judged on different items, errors are also inflated (`_RAGGED_SE_FACTOR`): the best
    systems of real campaigns are closer to each other than to the rest, and probabilities were too high without it
    (docs/evidence-cells.md).
    """
    is_judged = inference.judged
    if is_judged.sum() < 2:  # nothing to be better than
        return np.full(len(is_judged), np.nan)
    values, ragged = inference.values[is_judged], inference.sample.ragged
    covariance = inference.whole_covariance[np.ix_(is_judged, is_judged)]
    if ragged and not np.isnan(covariance).any():
        values, covariance = shrink_to_common_mean(values, covariance), covariance * _RAGGED_SE_FACTOR**2
    best = np.full(len(is_judged), np.nan)
    best[is_judged] = probability_best(values, covariance, seed=seed, shrink=not ragged)
    return _limit_leader(best, inference, seed)


def _limit_leader(best: FloatArray, inference: Inference, seed: Seed) -> FloatArray:
    """Cap the leader's probability of being best at 1 - p / 2 of the exact tests."""
    one_sided = inference.p_sample
    exact = exact_p(inference, seed)
    leader = int(np.nanargmax(np.nan_to_num(best, nan=-1.0)))
    raised = np.where(exact > two_sided_p(one_sided) + _ROUNDING, exact, 0.0)[leader]
    raised[~inference.judged] = 0.0
    rival = int(np.argmax(raised))
    excess = best[leader] - (1.0 - raised[rival] / 2)
    if not excess > 0:
        return best
    limited = best.copy()
    limited[leader], limited[rival] = best[leader] - excess, best[rival] + excess
    return limited


def _ranks_of_judged(better: BoolArray, judged: BoolArray) -> tuple[IntArray, IntArray]:
    """Return rank intervals of the judged systems; unjudged ones may have any rank."""
    low, high = np.ones(len(better), dtype=np.int64), np.full(len(better), len(better), dtype=np.int64)
    low[judged], high[judged] = rank_intervals(better[np.ix_(judged, judged)])
    return low, high


def full_p(inference: Inference) -> FloatArray:
    """Predict one-sided p-values if all items were judged: expected differences over their spread on items.

    Where metrics take part, the best guess of a system's mean over all items is drawn towards what they expect of it,
    as far as the judged items say that they can be trusted; the estimates themselves stay as they are.
    """
    sample, fitted, values = inference.sample, inference.fitted, inference.values
    if fitted.foreseen is not None and "share" not in fitted.details:
        values, _ = shrink_to_prediction(values, fitted.foreseen, inference.error_parts.covariance)
    spread = _ragged_spread(inference) if sample.ragged else _difference_spread(sample)
    p = full_set_p(_expected_differences(values, spread, sample), spread, sample.population)
    np.fill_diagonal(p, 0.5)
    return p


def _expected_differences(values: FloatArray, spread: FloatArray, sample: Sample) -> FloatArray:
    """Return expected differences of all pairs; the observed one where it is the same on all items.

    Without any spread the slightest difference that a model expects would look certain, although nobody saw it.
    """
    difference: FloatArray = values[:, None] - values[None, :]
    scores, size = sample.scores, max_abs(sample.scores)
    first, second = np.nonzero(np.triu(is_negligible(spread, size), 1))
    gap = scores[:, first] - scores[:, second]
    apart = np.isnan(gap).all(axis=0)  # no item was judged for both: two systems of one value each
    gap[0, apart] = np.nanmax(scores[:, first[apart]], axis=0) - np.nanmax(scores[:, second[apart]], axis=0)
    observed = snap_to_zero(np.nanmax(gap, axis=0), size)
    difference[first, second], difference[second, first] = observed, -observed
    return difference


def _difference_spread(sample: Sample) -> FloatArray:
    """Weighted standard deviation over the judged items of every difference of two systems."""
    scores, share = sample.scores, sample.weight / sample.weight.sum()
    centred = snap_to_zero(scores - share @ scores, max_abs(scores, axis=0))
    inner = (centred * share[:, None]).T @ centred * (sample.n / max(sample.n - 1, 1))
    alone = np.diag(inner)
    variance = np.clip(alone[:, None] + alone[None, :] - 2 * inner, 0.0, None)
    _zero_constant_variances(variance, alone, scores)
    return np.sqrt(variance) if sample.n > 1 else np.full_like(variance, np.nan)


def _ragged_spread(inference: Inference) -> FloatArray:
    """Spread of differences of systems judged on different items; 0 if constant on all common items."""
    spread, scores = pair_errors(inference.score_covariance), inference.sample.scores
    for a in range(scores.shape[1]):
        gap = scores[:, [a]] - scores
        several = np.isfinite(gap).sum(axis=0) > 1
        spread[a, several & is_constant(gap, axis=0, scale=max_abs(scores))] = 0.0
    return spread


def _zero_constant_variances(variance: FloatArray, alone: FloatArray, scores: FloatArray) -> None:
    """Set variances of constant differences to 0; what subtraction leaves is rounding."""
    first, second = np.nonzero(np.triu(variance <= _ROUNDING * (alone[:, None] + alone[None, :]), 1))
    gap = scores[:, first] - scores[:, second]
    constant = is_constant(gap, axis=0, scale=max_abs(scores))
    variance[first[constant], second[constant]] = variance[second[constant], first[constant]] = 0.0
