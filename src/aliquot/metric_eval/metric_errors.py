"""How often a metric is wrong about which of two systems is better.

The pairwise error is split into noise, bias and variance. Beside it: how fast a metric's decisions converge as items
are added, and where it and people find significant differences. See docs/methods.md, section 7 (Wei and Jia 2021).

Invariant: in every row observed = noise + bias + variance (+ covariance where draws are paired), exactly. Pairs are
formed within campaigns; several campaigns are pooled pair by pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.errors import DataError
from aliquot.metric_eval.metric_inputs import MetricInputs, ScoredCampaign
from aliquot.stats import bias_variance
from aliquot.stats.arrays import IntArray, Seed
from aliquot.stats.bias_variance import PairSigns
from aliquot.stats.resampling import spawn_seeds

OPTIMAL_NAME, HUMAN_NAME = "Optimal predictor", "Human"
"""How the first two rows of the decomposition are called."""

# -- The error and its parts -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorParts:
    """Mean over pairs of systems of the disagreement of a predictor with people, and its parts."""

    human: str
    metric: str  # the metric; or the optimal predictor, or a second human evaluation of the same size
    kind: str  # "optimal", "human" or "metric"
    observed: float  # P(the predictor's sign != people's sign)
    noise: float  # mean of c0 Noise
    bias: float  # share of pairs on which the predictor's main prediction is wrong
    variance: float  # mean of c1 Var
    covariance: float  # from drawing the same items for both; 0 where draws are independent
    error: float  # Monte Carlo standard error of `observed`
    noise_error: float  # that of `noise`
    bias_error: float  # that of `bias`
    variance_error: float  # that of `variance`
    pairs: int  # pairs of systems in the mean
    items: int  # items on which both people and the metric have scores
    systems: int  # likewise systems
    cells: int  # likewise outputs


@dataclass(frozen=True)
class MetricConvergence:
    """How often a metric decides on so many drawn items as it does on all."""

    human: str  # the human score, whose cells are used
    data: str
    metric: str
    items: int  # size of the draws
    agreement: float  # mean over pairs of P(same sign as on all items)
    error: float  # Monte Carlo standard error


@dataclass(frozen=True)
class SignificanceCounts:
    """Pairs on which people find a significant difference, or none, by what the metric finds.

    The first system of a pair is the one that people put ahead, so `verdict` is "better" or "undecided" ("worse"
    stands for completeness and counts nothing).
    """

    human: str
    metric: str
    verdict: str  # people's: "better", "undecided" or "worse"
    better: int  # pairs on which the metric finds the first system significantly better
    undecided: int  # pairs on which it finds neither
    worse: int  # pairs on which it finds the first system significantly worse


def draw_signs(inputs: MetricInputs, trials: int, *, paired: bool = False, seed: Seed = 0) -> list[PairSigns]:
    """Resample the items of each campaign; return the signs of all differences, by people and by each metric.

    Raises:
        DataError: a campaign of fewer than two systems.
    """
    seeds = spawn_seeds(seed, len(inputs.campaigns))
    for campaign in inputs.campaigns:
        require_pairs(campaign)
    return [
        bias_variance.bootstrap_pair_signs(campaign.human, campaign.metrics, trials, paired=paired, seed=child)
        for campaign, child in zip(inputs.campaigns, seeds, strict=True)
    ]


def require_pairs(campaign: ScoredCampaign) -> None:
    """Raise DataError for a campaign with fewer than two systems."""
    if len(campaign.systems) < 2:
        raise DataError(
            f"{campaign.name}: people judged one system only ('{campaign.systems[0]}'); two are needed to compare"
        )


def decompose_errors(inputs: MetricInputs, signs: list[PairSigns], seed: Seed = 0) -> tuple[ErrorParts, ...]:
    """Decompose the error of the optimal predictor, of people, and of each metric, in the order of the inputs.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> inputs = build_inputs([aliquot.synthetic(items=60, systems=4, seed=1)], metrics=["human", "metricA"])
    >>> rows = decompose_errors(inputs, draw_signs(inputs, 500))
    >>> [(row.metric, row.bias, row.variance == 0) for row in rows[:3]]
    [('Optimal predictor', 0.0, True), ('Human', 0.0, False), ('human', 0.0, False)]
    """
    table = bias_variance.decompose(signs, seed)
    people = inputs.coverage()
    first = bias_variance.FIRST_METRIC_ROW
    predictors = {bias_variance.OPTIMAL_ROW: (OPTIMAL_NAME, "optimal"), bias_variance.HUMAN_ROW: (HUMAN_NAME, "human")}
    predictors |= {first + row_index: (metric, "metric") for row_index, metric in enumerate(inputs.predictors)}
    rows = []
    for row_index, (name, kind) in sorted(predictors.items()):
        coverage = inputs.coverage(row_index - first) if kind == "metric" else people
        observed, noise, bias, variance, covariance = table.value[row_index].tolist()
        error, noise_error, bias_error, variance_error, _ = table.error[row_index].tolist()
        row = ErrorParts(
            inputs.human,
            name,
            kind,
            observed,
            noise,
            bias,
            variance,
            covariance,
            error,
            noise_error,
            bias_error,
            variance_error,
            int(table.pairs[row_index]),
            coverage.items,
            coverage.systems,
            coverage.cells,
        )
        rows.append(row)
    return tuple(rows)


@dataclass(frozen=True)
class SquaredError:
    """Mean over pairs of systems of the squared difference of two differences: the metric's and people's.

    The metric is put on people's scale by one factor for all pairs of a campaign.
    """

    human: str
    data: str
    metric: str
    kind: str  # "optimal", "human" or "metric"
    observed: float  # E (d of people - factor x d of the metric)^2 over draws of items
    noise: float  # variance of people's mean difference
    bias: float  # squared: (people's difference - the metric's)^2 on all items
    variance: float  # variance of the metric's mean difference
    factor: float  # points of the human scale that a point of the metric is worth
    pairs: int  # pairs of systems in the mean


def decompose_squared_errors(inputs: MetricInputs) -> tuple[SquaredError, ...]:
    """Decompose the mean squared error of each metric in each campaign: observed = noise + bias + variance, exactly.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> data = aliquot.synthetic(items=60, systems=4, seed=1)
    >>> rows = decompose_squared_errors(build_inputs([data], metrics=["human"]))
    >>> [(row.metric, round(row.bias, 9), round(row.factor, 9)) for row in rows if row.kind == "metric"]
    [('human', 0.0, 1.0)]
    """
    rows = []
    for campaign in inputs.campaigns:
        require_pairs(campaign)
        table = bias_variance.squared_error(campaign.human, campaign.metrics)
        names = ((OPTIMAL_NAME, "optimal"), (HUMAN_NAME, "human"), *((metric, "metric") for metric in inputs.metrics))
        rows += [
            SquaredError(
                inputs.human,
                campaign.name,
                name,
                kind,
                observed=float(parts[0]),
                noise=float(parts[1]),
                bias=float(parts[2]),
                variance=float(parts[3]),
                factor=float(parts[4]),
                pairs=int(pairs),
            )
            for (name, kind), parts, pairs in zip(names, table.value, table.pairs, strict=True)
        ]
    return tuple(rows)


def list_draw_sizes(items: int) -> IntArray:
    """Return sizes of draws from 1 to all items, about evenly spaced on a log scale.

    >>> list_draw_sizes(460)
    array([  1,   3,  10,  30, 100, 300, 460])
    """
    steps = [size for power in range(7) for size in (10**power, 3 * 10**power) if size < items]
    return np.array([*steps, items], dtype=np.int64)


def compute_convergence(inputs: MetricInputs, trials: int = 1000, seed: Seed = 0) -> tuple[MetricConvergence, ...]:
    """Compute how often each metric decides on some items as it does on all, by number of items."""
    rows = []
    seeds = spawn_seeds(seed, len(inputs.campaigns))
    for campaign, child in zip(inputs.campaigns, seeds, strict=True):
        require_pairs(campaign)
        curve = bias_variance.convergence(campaign.metrics, list_draw_sizes(len(campaign.human)), trials, seed=child)
        rows += [
            MetricConvergence(
                inputs.human,
                campaign.name,
                metric,
                int(size),
                float(curve.agreement[index, size_index]),
                float(curve.error[index, size_index]),
            )
            for index, metric in enumerate(inputs.metrics)
            for size_index, size in enumerate(curve.sizes)
        ]
    return tuple(rows)


def count_cooccurrences(
    inputs: MetricInputs, trials: int = 1000, *, alpha: float = 0.05, seed: Seed = 0
) -> tuple[SignificanceCounts, ...]:
    """Count significant differences: three rows a metric, where people find the first system better, neither, worse."""
    seeds = spawn_seeds(seed, len(inputs.campaigns))
    counts = np.zeros((len(inputs.metrics), 3, 3), dtype=np.int64)
    for campaign, child in zip(inputs.campaigns, seeds, strict=True):
        require_pairs(campaign)
        counts += bias_variance.co_occurrence(campaign.human, campaign.metrics, trials, alpha=alpha, seed=child).counts
    names = ("better", "undecided", "worse")
    return tuple(
        SignificanceCounts(inputs.human, metric, names[row], *(int(count) for count in counts[index, row]))
        for index, metric in enumerate(inputs.metrics)
        for row in range(3)
    )
