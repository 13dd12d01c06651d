"""Is a metric right about who is better: its pairwise error in parts (METHODS 7; Wei and Jia 2021).

Beside it, how fast a metric makes up its mind, and where it and people find significant differences.

Invariant: in every row observed = noise + bias + variance (+ covariance where draws are paired), exactly. Pairs are
formed within campaigns; several campaigns are pooled pair by pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from aliquot.errors import DataError
from aliquot.metaeval.metric_inputs import Campaign, Inputs
from aliquot.stats import cooccurrence as verdicts
from aliquot.stats import decomposition as parts
from aliquot.stats.arrays import IntArray, Seed
from aliquot.stats.sign_bootstrap import child_seeds

Kind = Literal["optimal", "human", "metric"]

OPTIMAL_NAME, HUMAN_NAME = "Optimal predictor", "Human"
"""How the first two rows of the decomposition are called."""


@dataclass(frozen=True)
class ErrorParts:
    """Mean over pairs of systems of the disagreement of a predictor with people, and its parts.

    Attributes:
        human: the human score.
        metric: the metric; or the optimal predictor, or a second human evaluation of the same size.
        kind: "optimal", "human" or "metric".
        observed: P(the predictor's sign != people's sign).
        noise: mean of c0 Noise.
        bias: share of pairs on which the predictor's main prediction is wrong.
        variance: mean of c1 Var.
        covariance: from drawing the same items for both; 0 where draws are independent.
        error: Monte Carlo standard error of `observed`.
        noise_error: that of `noise`.
        bias_error: that of `bias`.
        variance_error: that of `variance`.
        pairs: pairs of systems in the mean.
        items: items on which both people and the metric have scores.
        systems: likewise systems.
        cells: likewise outputs.
    """

    human: str
    metric: str
    kind: Kind
    observed: float
    noise: float
    bias: float
    variance: float
    covariance: float
    error: float
    noise_error: float
    bias_error: float
    variance_error: float
    pairs: int
    items: int
    systems: int
    cells: int


@dataclass(frozen=True)
class Agreement:
    """How often a metric on so many drawn items says what it says on all.

    Attributes:
        human: the human score, whose cells are used.
        data: the campaign.
        metric: the metric.
        items: size of the draws.
        agreement: mean over pairs of P(same sign as on all items).
        error: Monte Carlo standard error.
    """

    human: str
    data: str
    metric: str
    items: int
    agreement: float
    error: float


@dataclass(frozen=True)
class Verdicts:
    """Pairs on which people find a significant difference, or none, by what the metric finds.

    The first system of a pair is the one that people put ahead, so `verdict` is "better" or "undecided" ("worse"
    stands for completeness and counts nothing).

    Attributes:
        human: the human score.
        metric: the metric.
        verdict: people's: "better", "undecided" or "worse".
        better: pairs on which the metric finds the first system significantly better.
        undecided: pairs on which it finds neither.
        worse: pairs on which it finds the first system significantly worse.
    """

    human: str
    metric: str
    verdict: str
    better: int
    undecided: int
    worse: int


def signs_of(inputs: Inputs, trials: int, *, paired: bool = False, seed: Seed = 0) -> list[parts.PairSigns]:
    """Resample the items of every campaign and see who is ahead, by people and by each metric.

    Raises:
        DataError: a campaign of fewer than two systems.
    """
    seeds = child_seeds(seed, len(inputs.campaigns))
    for campaign in inputs.campaigns:
        require_pairs(campaign)
    return [
        parts.pair_signs(campaign.human, campaign.metrics, trials, paired=paired, seed=child)
        for campaign, child in zip(inputs.campaigns, seeds, strict=True)
    ]


def require_pairs(campaign: Campaign) -> None:
    """Refuse a campaign without two systems to compare."""
    if len(campaign.systems) < 2:
        raise DataError(f"{campaign.name}: people judged one system only ('{campaign.systems[0]}'); two are needed to "
                        "compare")  # fmt: skip


def decomposition_rows(inputs: Inputs, signs: list[parts.PairSigns], seed: Seed = 0) -> tuple[ErrorParts, ...]:
    """The optimal predictor, people, and every metric, in the order of the inputs.

    >>> import aliquot
    >>> from aliquot.metaeval.metric_inputs import metric_inputs
    >>> inputs = metric_inputs([aliquot.synthetic(items=60, systems=4, seed=1)], metrics=["human", "metricA"])
    >>> rows = decomposition_rows(inputs, signs_of(inputs, 500))
    >>> [(row.metric, row.bias, row.variance == 0) for row in rows[:3]]
    [('Optimal predictor', 0.0, True), ('Human', 0.0, False), ('human', 0.0, False)]
    """
    table = parts.decompose(signs, seed)
    people = inputs.coverage()
    rows = []
    for at in range(len(table.pairs)):
        kind: Kind = "optimal" if at == parts.OPTIMAL else "human" if at == parts.HUMAN else "metric"
        name = {"optimal": OPTIMAL_NAME, "human": HUMAN_NAME}.get(kind) or inputs.metrics[at - parts.METRICS]
        held = inputs.coverage(at - parts.METRICS) if kind == "metric" else people
        observed, noise, bias, variance, covariance = (float(value) for value in table.value[at])
        error, noise_error, bias_error, variance_error, _ = (float(value) for value in table.error[at])
        row = ErrorParts(
            inputs.human, name, kind, observed, noise, bias, variance, covariance, error, noise_error, bias_error,
            variance_error, int(table.pairs[at]), held.items, held.systems, held.cells,
        )  # fmt: skip
        rows.append(row)
    return tuple(rows)


def growing_sizes(items: int) -> IntArray:
    """Sizes of draws from 1 to all items, about evenly on a log scale.

    >>> growing_sizes(460)
    array([  1,   3,  10,  30, 100, 300, 460])
    """
    steps = [size for power in range(7) for size in (10**power, 3 * 10**power) if size < items]
    return np.array([*steps, items], dtype=np.int64)


def convergence_rows(inputs: Inputs, trials: int = 1000, seed: Seed = 0) -> tuple[Agreement, ...]:
    """Agreement of every metric's prediction on some items with that on all, as the test set grows."""
    rows = []
    seeds = child_seeds(seed, len(inputs.campaigns))
    for campaign, child in zip(inputs.campaigns, seeds, strict=True):
        require_pairs(campaign)
        found = verdicts.convergence(campaign.metrics, growing_sizes(len(campaign.human)), trials, seed=child)
        rows += [
            Agreement(inputs.human, campaign.name, metric, int(size), float(found.agreement[at, place]),
                      float(found.error[at, place]))
            for at, metric in enumerate(inputs.metrics)
            for place, size in enumerate(found.sizes)
        ]  # fmt: skip
    return tuple(rows)


def cooccurrence_rows(
    inputs: Inputs, trials: int = 1000, *, alpha: float = 0.05, seed: Seed = 0
) -> tuple[Verdicts, ...]:
    """Three rows a metric: what it finds where people find the first system better, neither, and worse."""
    seeds = child_seeds(seed, len(inputs.campaigns))
    counts = np.zeros((len(inputs.metrics), 3, 3), dtype=np.int64)
    for campaign, child in zip(inputs.campaigns, seeds, strict=True):
        require_pairs(campaign)
        counts += verdicts.co_occurrence(campaign.human, campaign.metrics, trials, alpha=alpha, seed=child).counts
    names = ("better", "undecided", "worse")
    return tuple(
        Verdicts(inputs.human, metric, names[row], *(int(count) for count in counts[at, row]))
        for at, metric in enumerate(inputs.metrics)
        for row in range(3)
    )
