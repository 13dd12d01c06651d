"""Who is really better: p-values of all pairs, clusters, rank intervals, the chance of being best (METHODS.md 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from aliquot.errors import OptionError, unknown_name
from aliquot.estimation.pipeline import Inference, pair_errors, significantly_better
from aliquot.estimation.sample import Sample
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed
from aliquot.stats.mixed_model import shrunk_to_common
from aliquot.stats.multiple_testing import adjust_pairs, two_sided
from aliquot.stats.pairwise import analytic_p, permutation_p, wilcoxon_p
from aliquot.stats.ranks import full_set_p, probability_best, rank_intervals
from aliquot.stats.shrinkage import shrunk

Test = Literal["estimator", "permutation", "analytic", "wilcoxon"]
TESTS = ("estimator", "permutation", "analytic", "wilcoxon")
RULES = ("any", "neighbour")
_ROUNDING = 1e-9
_RAGGED = 1.6  # chosen on the six campaigns of docs/evidence-cells.md: 1 gave 84% right where P(best) was 0.9 or more
_PAIRED: Mapping[str, Callable[[FloatArray, Seed], FloatArray]] = {
    "permutation": lambda scores, seed: permutation_p(scores, seed=seed),
    "analytic": lambda scores, _: analytic_p(scores),
    "wilcoxon": lambda scores, _: wilcoxon_p(scores),
}


@dataclass(frozen=True, eq=False)
class Ranking:
    """One-sided p-values of all pairs (small: the row is better), clusters, rank intervals, chance of being best."""

    p_sample: FloatArray
    p_full: FloatArray
    cluster: IntArray
    rank_low: IntArray
    rank_high: IntArray
    p_best: FloatArray


def rank(
    inference: Inference,
    *,
    test: str,
    rule: str,
    alpha: float,
    adjust: bool,
    seed: Seed,
) -> Ranking:
    """Compare all systems."""
    if test not in TESTS:
        raise unknown_name("test", test, TESTS)
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    if not 0.0 < alpha < 0.5:
        raise OptionError(f"alpha is {alpha}; choose between 0 and 0.5, for instance 0.05")
    sample, judged = inference.sample, inference.judged
    p = inference.p_sample.copy() if test == "estimator" else _PAIRED[test](sample.scores, seed)
    p[~judged] = p[:, ~judged] = np.nan
    if test != "estimator":  # paired tests know nothing of systems that were never judged on the same item
        present = np.isfinite(sample.scores).astype(np.float64)
        p[(present.T @ present) == 0] = np.nan
    p = adjust_pairs(two_sided(p), "holm") if adjust and len(p) > 1 else p
    low, high = _ranks_of_judged(significantly_better(p, alpha), judged)
    clusters = inference.clusters(p, alpha, "neighbour" if rule == "neighbour" else "any")
    best = p_best(inference, seed)
    return Ranking(p, full_p(inference), clusters, low, high, best)


def p_best(inference: Inference, seed: Seed) -> FloatArray:
    """Probability of being the best, by draws of the true means; NaN for systems never judged.

    The estimates are drawn towards their common mean first, as in `plan`: the largest of many noisy ones is too large.
    Where systems were judged on different items, often few, their errors are also taken for larger (`_RAGGED`): the
    best systems of real campaigns are closer to each other than to the rest, which no common prior tells, and
    probabilities without it were too high (docs/evidence-cells.md).
    """
    known = inference.judged
    values, covariance = inference.values[known], inference.covariance[np.ix_(known, known)]
    ragged = inference.sample.ragged
    if ragged and len(values) > 1 and not np.isnan(covariance).any():
        values, covariance = shrunk_to_common(values, covariance), covariance * _RAGGED**2
    best = np.full(len(known), np.nan)
    best[known] = probability_best(values, covariance, seed=seed, shrink=not ragged)
    return best


def _ranks_of_judged(better: BoolArray, judged: BoolArray) -> tuple[IntArray, IntArray]:
    """Rank the judged systems among themselves; one that was never judged may stand anywhere."""
    low, high = np.ones(len(better), dtype=np.int64), np.full(len(better), len(better), dtype=np.int64)
    low[judged], high[judged] = rank_intervals(better[np.ix_(judged, judged)])
    return low, high


def full_p(inference: Inference) -> FloatArray:
    """What judging all items would say: the expected difference against the spread of differences over items.

    Where metrics take part, the best guess of a system's mean over all items is drawn towards what they expect of it,
    as far as the judged items say that they can be trusted; the estimates themselves stay as they are.
    """
    sample, fitted, values = inference.sample, inference.fitted, inference.values
    if fitted.foreseen is not None and "share" not in fitted.details:
        values, _ = shrunk(values, fitted.foreseen, inference.error_parts.covariance)
    spread = _ragged_spread(inference) if sample.ragged else _difference_spread(sample)
    p = full_set_p(_differences(values, spread, sample), spread, sample.population)
    np.fill_diagonal(p, 0.5)
    return p


def _differences(values: FloatArray, spread: FloatArray, sample: Sample) -> FloatArray:
    """Expected differences of all pairs; where all judged differences are the same, that one.

    Without any spread the slightest difference that a model expects would look certain, although nobody saw it.
    """
    difference: FloatArray = values[:, None] - values[None, :]
    first, second = np.nonzero(np.triu(spread == 0, 1))
    if len(first):
        seen = np.nanmax(sample.scores[:, first] - sample.scores[:, second], axis=0)
        difference[first, second], difference[second, first] = seen, -seen
    return difference


def _difference_spread(sample: Sample) -> FloatArray:
    """Weighted standard deviation over the judged items of every difference of two systems."""
    scores, share = sample.scores, sample.weight / sample.weight.sum()
    centred = scores - share @ scores
    inner = (centred * share[:, None]).T @ centred * (sample.n / max(sample.n - 1, 1))
    alone = np.diag(inner)
    variance = np.clip(alone[:, None] + alone[None, :] - 2 * inner, 0.0, None)
    _exactly_alike(variance, alone, scores)
    return np.sqrt(variance) if sample.n > 1 else np.full_like(variance, np.nan)


def _ragged_spread(inference: Inference) -> FloatArray:
    """The same for systems judged on different items; 0 where the difference is constant on all common items."""
    spread, scores = pair_errors(inference.score_covariance), inference.sample.scores
    for a in range(scores.shape[1]):
        gap = scores[:, [a]] - scores
        common = np.isfinite(gap)
        highest = np.where(common, gap, -np.inf).max(axis=0)
        lowest = np.where(common, gap, np.inf).min(axis=0)
        spread[a, (common.sum(axis=0) > 1) & (highest == lowest)] = 0.0
    return spread


def _exactly_alike(variance: FloatArray, alone: FloatArray, scores: FloatArray) -> None:
    """Set what the subtraction left of the variance of constant differences to 0: it is rounding."""
    first, second = np.nonzero(np.triu(variance <= _ROUNDING * (alone[:, None] + alone[None, :]), 1))
    gap = scores[:, first] - scores[:, second]
    constant = gap.max(axis=0, initial=-np.inf) == gap.min(axis=0, initial=np.inf)
    variance[first[constant], second[constant]] = variance[second[constant], first[constant]] = 0.0
