"""Measures of a judged subset against the truth on all items (docs/methods.md, section 6).

Every measure takes the outcomes of R replays at once and gives R numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from aliquot.core.registry import split_names
from aliquot.errors import OptionError, unknown_name
from aliquot.stats import system_correlation as systems
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed
from aliquot.stats.pairwise import analytic_p, neighbour_p, permutation_p
from aliquot.stats.ranks import ClusterRule, assign_clusters

ALPHA = 0.05
Better = Literal["higher", "lower", "neither"]
Test = Literal["analytic", "permutation"]
TESTS = get_args(Test)


def compute_p_values(scores: FloatArray, test: str = "analytic", seed: Seed = 0) -> FloatArray:
    """One-sided p-values of all pairs by the test that is asked for."""
    if test not in TESTS:
        raise unknown_name("test", test, TESTS)
    return analytic_p(scores) if test == "analytic" else permutation_p(scores, seed=seed)


def cluster_by_p(means: FloatArray, p: FloatArray, alpha: float = ALPHA, rule: str = "any") -> IntArray:
    """Clusters of systems that p-values do not tell apart, 1 = best."""
    if rule not in get_args(ClusterRule):
        raise unknown_name("rule", rule, get_args(ClusterRule))
    better = np.nan_to_num(p, nan=1.0) < alpha
    return assign_clusters(means, better & ~better.T, "neighbour" if rule == "neighbour" else "any")


def cluster_as_published(scores: FloatArray) -> IntArray:
    """Algorithm 1 of Zouhar et al. 2025: Wilcoxon's test against the system just above, p < 0.05; 1 = best.

    >>> cluster_as_published(np.array([[2.0, 0.0], [2.1, 0.3], [1.9, 0.1], [2.2, 0.2], [2.3, 0.4]]))
    array([1, 2])
    """
    order = np.argsort(-scores.mean(axis=0), kind="stable")
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = 1 + np.concatenate([[0], np.cumsum(neighbour_p(scores[:, order]) < ALPHA)])
    return numbers


@dataclass(frozen=True, eq=False)
class Truth:
    """What judging all items says: the systems' means, the p-values of all pairs, and the scores behind them."""

    means: FloatArray
    p: FloatArray
    scores: FloatArray | None = None

    @cached_property
    def clusters(self) -> IntArray:
        """Clusters on all items."""
        return cluster_by_p(self.means, self.p)

    @cached_property
    def published(self) -> IntArray:
        """Clusters on all items by the paper's Algorithm 1."""
        return np.ones(len(self.means), dtype=np.int64) if self.scores is None else cluster_as_published(self.scores)


def compute_truth(scores: FloatArray, test: str = "analytic", seed: Seed = 0) -> Truth:
    """Take the truth from the human scores of all items, which must be complete.

    >>> compute_truth(np.array([[1.0, 0.0], [2.0, 0.0]])).means
    array([1.5, 0. ])
    """
    return Truth(scores.mean(axis=0), compute_p_values(scores, test, seed), scores)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What R replays say."""

    means: FloatArray  # R x M estimates
    half: FloatArray  # R x M half widths of the intervals; NaN where none can be given
    p: FloatArray  # R x M x M, the sample's p-values by the test that the truth's are made with
    p_full: FloatArray  # R x M x M, what judging all items is expected to say
    clusters: IntArray  # R x M, systems that the sample does not tell apart, 1 = best
    cost: FloatArray  # R, spent, as a share of judging everything
    scores: tuple[FloatArray, ...] = ()  # the judged items' scores, n x M, of each replay
    watched: FloatArray | None = None  # R x 3, of adaptive campaigns: pairs decided, wrongly, cost at which to stop
    centre: FloatArray | None = None  # R x M middles of the intervals; None: the estimates

    @cached_property
    def published(self) -> list[IntArray]:
        """Clusters of the judged items by the paper's Algorithm 1, whatever the estimator."""
        return [cluster_as_published(scores) for scores in self.scores]


@dataclass(frozen=True)
class SampleMeasure:
    """A measure, which way it is better, what it says, what it is compared with, and whether it must be named.

    Those that must be named cost as much as a replay.
    """

    name: str
    function: Callable[[Outcomes, Truth], FloatArray]
    better: Better
    about: str
    baseline: str | None = None
    by_name: bool = False
    watched: bool = False  # of adaptive campaigns only: what their monitor decided

    @property
    def against(self) -> str:
        """The measure of a random sample that this one is compared with: itself, unless said otherwise."""
        return self.baseline or self.name


def _soft_accuracy(p: FloatArray, truth: Truth) -> FloatArray:
    if len(truth.means) < 2:
        return np.full(len(p), np.nan)
    first, second = np.triu_indices(len(truth.means), 1)
    accuracy: FloatArray = 1.0 - np.abs(p[:, first, second] - truth.p[first, second]).mean(axis=1)
    return accuracy


def _mean_errors(outcomes: Outcomes, truth: Truth) -> FloatArray:
    return outcomes.means - truth.means


def _mask_undefined(condition: BoolArray, values: FloatArray) -> FloatArray:
    """Return 1 where the condition holds, 0 where not, NaN where the values are NaN."""
    return np.where(np.isnan(values), np.nan, condition.astype(np.float64))


def _nan_row_means(values: FloatArray) -> FloatArray:
    """Return the mean of each row without NaN; NaN for empty rows."""
    finite = np.isfinite(values)
    count = finite.sum(axis=1)
    total = np.where(finite, values, 0.0).sum(axis=1)
    mean: FloatArray = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return mean


def _match_top1(outcomes: Outcomes, truth: Truth) -> FloatArray:
    rank = systems.rank_of_best(outcomes.means, truth.means)
    return _mask_undefined(rank == 1, rank)


def _rank_top1(outcomes: Outcomes, truth: Truth) -> FloatArray:
    """The place of the system put first among the true ones: 1 for the best, 0 for the last."""
    rank = systems.rank_of_best(outcomes.means, truth.means)
    return 1.0 - (rank - 1.0) / max(1, len(truth.means) - 1)


def _ranking_changed(outcomes: Outcomes, truth: Truth) -> FloatArray:
    swaps = systems.count_swapped_pairs(outcomes.means, truth.means)
    return _mask_undefined(swaps > 0, swaps)


def _coverage(outcomes: Outcomes, truth: Truth) -> FloatArray:
    rounding = 1e-12 * float(np.abs(truth.means).max(initial=0.0))  # of a mean that is known, with width 0
    centre = outcomes.means if outcomes.centre is None else outcomes.centre
    inside = np.abs(centre - truth.means) <= outcomes.half + rounding
    return _nan_row_means(_mask_undefined(inside, outcomes.half))


def _monitor_column(outcomes: Outcomes, column: int) -> FloatArray:
    return np.full(len(outcomes.means), np.nan) if outcomes.watched is None else outcomes.watched[:, column]


MEASURES = {
    measure.name: measure
    for measure in (
        SampleMeasure(
            "spa", lambda o, t: _soft_accuracy(o.p, t), "higher", "soft pairwise accuracy, the sample's own p-values"
        ),
        SampleMeasure(
            "spa_full",
            lambda o, t: _soft_accuracy(o.p_full, t),
            "higher",
            "soft pairwise accuracy of full-set significance; compared with a random sample's spa",
            "spa",
        ),
        SampleMeasure(
            "accuracy",
            lambda o, t: systems.pairwise_accuracy(o.means, t.means),
            "higher",
            "pairs of systems in the true order",
        ),
        SampleMeasure("pearson", lambda o, t: systems.pearson_rows(o.means, t.means), "higher", "Pearson's r of means"),
        SampleMeasure("spearman", lambda o, t: systems.spearman(o.means, t.means), "higher", "Spearman's rho of means"),
        SampleMeasure(
            "kendall", lambda o, t: systems.kendall_b(o.means, t.means), "higher", "Kendall's tau-b of means"
        ),
        SampleMeasure(
            "weighted_tau",
            lambda o, t: systems.weighted_tau(o.means, t.means),
            "higher",
            "Kendall's tau with weights 1/rank^2: errors at the top count most",
        ),
        SampleMeasure("top1", _match_top1, "higher", "the best system is found"),
        SampleMeasure(
            "top3",
            lambda o, t: systems.top_share(o.means, t.means, 3),
            "higher",
            "share of the three best systems among the three put first",
        ),
        SampleMeasure(
            "top1_rank",
            lambda o, t: systems.rank_of_best(o.means, t.means),
            "lower",
            "true rank of the system put first",
        ),
        SampleMeasure(
            "clusters",
            lambda o, _: o.clusters.max(axis=1).astype(np.float64),
            "neither",
            "clusters told apart by the sample, as `estimate` prints them; not the paper's Algorithm 1",
        ),
        SampleMeasure(
            "top_dice",
            lambda o, t: np.array([systems.dice(c, t.clusters) for c in o.clusters]),
            "higher",
            "Dice of the best cluster and the true one, clusters as above",
        ),
        SampleMeasure(
            "top1_published",
            _rank_top1,
            "higher",
            "place of the system put first, from 1 to 0 (their top-1 match)",
            by_name=True,
        ),
        SampleMeasure(
            "clusters_published",
            lambda o, _: np.array([float(c.max()) for c in o.published]),
            "higher",
            "clusters by the paper's Algorithm 1 (Wilcoxon against the last member)",
            by_name=True,
        ),
        SampleMeasure(
            "top_dice_published",
            lambda o, t: np.array([systems.dice(c, t.published) for c in o.published]),
            "higher",
            "Dice of the best cluster and the true one by the paper's Algorithm 1",
            by_name=True,
        ),
        SampleMeasure(
            "mae", lambda o, t: np.abs(_mean_errors(o, t)).mean(axis=1), "lower", "mean absolute error of the means"
        ),
        SampleMeasure(
            "rmse",
            lambda o, t: np.sqrt((_mean_errors(o, t) ** 2).mean(axis=1)),
            "lower",
            "root mean squared error of the means",
        ),
        SampleMeasure(
            "swaps", lambda o, t: systems.count_swapped_pairs(o.means, t.means), "lower", "pairs in the wrong order"
        ),
        SampleMeasure("changed", _ranking_changed, "lower", "the ranking differs from the true one"),
        SampleMeasure("coverage", _coverage, "neither", "intervals that hold the truth"),
        SampleMeasure("width", lambda o, _: 2 * _nan_row_means(o.half), "lower", "mean width of the intervals"),
        SampleMeasure(
            "slack",
            lambda o, t: _nan_row_means(o.half - np.abs(_mean_errors(o, t))),
            "neither",
            "half width of the intervals less the error: how much wider than needed",
        ),
        SampleMeasure("cost", lambda o, _: o.cost, "lower", "spent, as a share of judging everything"),
        SampleMeasure(
            "decided",
            lambda o, _: _monitor_column(o, 0),
            "higher",
            "pairs that an adaptive campaign has decided",
            by_name=True,
            watched=True,
        ),
        SampleMeasure(
            "wrongly_decided",
            lambda o, _: _monitor_column(o, 1),
            "lower",
            "of them, pairs decided the wrong way",
            by_name=True,
            watched=True,
        ),
        SampleMeasure(
            "stopped_at",
            lambda o, _: _monitor_column(o, 2),
            "lower",
            "budget at which the question was decided",
            by_name=True,
            watched=True,
        ),
    )
}


def select_measures(names: str | Iterable[str] | None) -> list[SampleMeasure]:
    """Return the named measures (a list, or "spa,mae"), each once, or all but those that must be named.

    >>> [measure.name for measure in select_measures("mae,spa,mae")]
    ['mae', 'spa']
    """
    if names is None:
        return [measure for measure in MEASURES.values() if not measure.by_name]
    requested = split_names(names)
    if not requested:
        raise OptionError(f"no measure is named; choose of: {', '.join(MEASURES)}")
    for name in requested:
        if name not in MEASURES:
            raise unknown_name("measure", name, MEASURES)
    return [MEASURES[name] for name in dict.fromkeys(requested)]


# -- Parity: how much of a random sample's budget a method needs to be as good -------------------------------------


@dataclass(frozen=True)
class Parity:
    """The mean of C/B over the budgets B; infinite when some target was never reached."""

    value: float  # the mean over all budgets; NaN when some target is unknown
    reached: float  # the mean over those budgets whose target was reached; NaN for none
    missed: int  # how many targets were never reached


def find_first_crossings(
    budgets: FloatArray, curve: FloatArray, targets: FloatArray, *, between: bool = True
) -> FloatArray:
    """Smallest budget at which a curve reaches each target.

    Args:
        budgets: ascending.
        curve: higher is better, one value per budget.
        targets: values to reach.
        between: interpolate between two points of the curve, in log budget; otherwise the first point that is enough.

    Returns:
        One budget per target; the first budget where it is already enough; infinite where the curve never gets there,
        NaN where the target is not known.

    >>> find_first_crossings(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.7, 0.9]), np.array([0.4, 0.8, 0.95])).round(2)
    array([1.  , 2.83,  inf])
    """
    above = curve[None, :] >= targets[:, None]
    first = above.argmax(axis=1)
    before = np.maximum(first - 1, 0)
    rise = curve[first] - curve[before]
    part = np.divide(targets - curve[before], rise, out=np.ones_like(targets), where=rise > 0)
    logs = np.log(budgets)
    crossing = np.exp(logs[before] + np.clip(part, 0.0, 1.0) * (logs[first] - logs[before]))
    reached = np.where(above.any(axis=1), np.where((first > 0) & between, crossing, budgets[first]), np.inf)
    return np.where(np.isnan(targets), np.nan, reached)


def compute_parity(reached: FloatArray, budgets: FloatArray) -> Parity:
    """Average C/B.

    >>> compute_parity(np.array([1.0, np.inf]), np.array([2.0, 4.0]))
    Parity(value=inf, reached=0.5, missed=1)
    """
    ratio = reached / budgets
    finite = np.isfinite(ratio)
    return Parity(
        float(ratio.mean()),
        float(ratio[finite].mean()) if finite.any() else float("nan"),
        int(np.isposinf(ratio).sum()),
    )
