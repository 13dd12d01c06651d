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
from aliquot.metric_eval.metric_inputs import Campaign, Inputs
from aliquot.metric_eval.metric_value import PerfectAnnotator
from aliquot.stats import break_even as breakeven
from aliquot.stats import decomposition as parts
from aliquot.stats import decomposition as verdicts
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.decomposition import PairSigns, parts_of
from aliquot.stats.sign_bootstrap import child_seeds

# -- Is a metric right about who is better: its pairwise error in parts (METHODS 7; Wei and Jia 2021) ----------------


Kind = Literal["optimal", "human", "metric"]

OPTIMAL_NAME, HUMAN_NAME = "Optimal predictor", "Human"
"""How the first two rows of the decomposition are called."""


@dataclass(frozen=True)
class ErrorParts:
    """Mean over pairs of systems of the disagreement of a predictor with people, and its parts."""

    human: str
    metric: str  # the metric; or the optimal predictor, or a second human evaluation of the same size
    kind: Kind  # "optimal", "human" or "metric"
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
class Agreement:
    """How often a metric on so many drawn items says what it says on all."""

    human: str  # the human score, whose cells are used
    data: str
    metric: str
    items: int  # size of the draws
    agreement: float  # mean over pairs of P(same sign as on all items)
    error: float  # Monte Carlo standard error


@dataclass(frozen=True)
class Verdicts:
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
    >>> from aliquot.metric_eval.metric_inputs import metric_inputs
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


# -- How many judgments a metric is worth: where people's error falls to its bias (METHODS 7; Wei and Jia 2021) ------


LIMIT = 10_000
"""Judgments per system up to which is looked."""


@dataclass(frozen=True)
class Worth:
    """What one metric is worth."""

    human: str
    metric: str
    bias: float  # its error on an endless test set, against noise-free labels
    judgments: float  # judgments per system at which people err as often; infinite where not within `limit`
    low: float  # lower end of the interval
    high: float  # upper end
    perfect: float  # the same for the perfect annotator; NaN where it is not known
    perfect_low: float  # lower end of the interval
    perfect_high: float  # upper end
    reached: bool  # whether people come down to the bias within `limit`
    limit: int  # judgments up to which was looked
    pairs: int  # pairs of systems that it rests on


@dataclass(frozen=True)
class CurvePoint:
    """Mean error over pairs of people, and of the perfect annotator, with so many judgments per system."""

    human: str
    judgments: int
    people: float
    perfect: float


def break_even_rows(
    inputs: Inputs,
    signs: list[PairSigns],
    perfect: list[PerfectAnnotator] | None = None,
    *,
    trials: int = 10_000,
    level: float = 0.95,
    seed: Seed = 0,
) -> tuple[tuple[Worth, ...], tuple[CurvePoint, ...]]:
    """Judgments that each metric is worth, and the curves of people and of the perfect annotator.

    Args:
        inputs: of one or several campaigns.
        signs: from `decompose.signs_of`, for the metrics' bias.
        perfect: one for each campaign, or None where some campaign has no repeated judgments.
        trials: bootstrap draws of people's error at few judgments.
        level: of the intervals, over systems.
        seed: of all draws.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_errors import signs_of
    >>> from aliquot.metric_eval.metric_inputs import metric_inputs
    >>> inputs = metric_inputs([aliquot.synthetic(items=100, systems=5, seed=2)], metrics=["human"])
    >>> rows, curve = break_even_rows(inputs, signs_of(inputs, 500), trials=500)
    >>> rows[0].judgments, curve[0].judgments, curve[0].people > curve[-1].people
    (inf, 1, True)
    """
    sizes = breakeven.size_grid(LIMIT)
    curve_seed, interval_seed = child_seeds(seed, 2)
    seeds = child_seeds(curve_seed, len(inputs.campaigns))
    bias = [parts_of(one).bias for one in signs]

    def curves(ratios: list[float]) -> list[FloatArray]:
        return [
            breakeven.human_errors(campaign.human, sizes, trials, ratio=ratio, seed=child)
            for campaign, ratio, child in zip(inputs.campaigns, ratios, seeds, strict=True)
        ]

    def crossings(errors: list[FloatArray]) -> breakeven.BreakEven:
        campaigns = [
            breakeven.CampaignErrors(error, one, len(campaign.systems))
            for error, one, campaign in zip(errors, bias, inputs.campaigns, strict=True)
        ]
        return breakeven.break_even(campaigns, sizes, level=level, seed=interval_seed)

    people = curves([1.0] * len(seeds))
    by_people = crossings(people)
    ratios = usable_ratios(perfect)
    ideal = curves(ratios) if ratios is not None else None
    nothing = np.full(len(inputs.metrics), np.nan)
    by_ideal = crossings(ideal) if ideal is not None else breakeven.BreakEven(nothing, nothing, nothing)
    joined = np.concatenate(bias, axis=1)
    rows = tuple(
        Worth(
            inputs.human, metric, _mean(joined[at]), float(by_people.judgments[at]), float(by_people.low[at]),
            float(by_people.high[at]), float(by_ideal.judgments[at]), float(by_ideal.low[at]),
            float(by_ideal.high[at]), bool(np.isfinite(by_people.judgments[at])), LIMIT,
            int(np.isfinite(joined[at]).sum()),
        )
        for at, metric in enumerate(inputs.metrics)
    )  # fmt: skip
    of_people, of_ideal = np.concatenate(people, axis=1), None if ideal is None else np.concatenate(ideal, axis=1)
    points = tuple(
        CurvePoint(inputs.human, int(size), _mean(of_people[at]),
                   float("nan") if of_ideal is None else _mean(of_ideal[at]))
        for at, size in enumerate(sizes)
    )  # fmt: skip
    return rows, points


def usable_ratios(perfect: list[PerfectAnnotator] | None) -> list[float] | None:
    """Efficiency ratios of differences; None where a campaign has none that is finite.

    Systems are judged on the same items here, so it is the ratio of differences that counts. As an estimate it may
    come out infinite or below 1 (no noise to be seen): the latter is 1.
    """
    if perfect is None or not all(np.isfinite(one.matched) for one in perfect):
        return None
    return [max(1.0, one.matched) for one in perfect]


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
