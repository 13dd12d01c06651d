"""How many judgments a metric is worth: where people's error falls to its bias (METHODS 7; Wei and Jia 2021).

Invariant: errors here are free of noise and of test-set size: of people with k judgments per system their variance, of
a metric its bias. A judgment is one human score of an output; where that is a mean of several answers, so is this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.metaeval.annotators import PerfectAnnotator
from aliquot.metaeval.metric_inputs import Inputs
from aliquot.stats import breakeven
from aliquot.stats.arrays import FloatArray, Seed
from aliquot.stats.decomposition import PairSigns, parts_of
from aliquot.stats.sign_bootstrap import child_seeds

LIMIT = 10_000
"""Judgments per system up to which is looked."""


@dataclass(frozen=True)
class Worth:
    """What one metric is worth.

    Attributes:
        human: the human score.
        metric: the metric.
        bias: its error on an endless test set, against noise-free labels.
        judgments: judgments per system at which people err as often; infinite where not within `limit`.
        low: lower end of the interval.
        high: upper end.
        perfect: the same for the perfect annotator; NaN where it is not known.
        perfect_low: lower end of the interval.
        perfect_high: upper end.
        reached: whether people come down to the bias within `limit`.
        limit: judgments up to which was looked.
        pairs: pairs of systems that it rests on.
    """

    human: str
    metric: str
    bias: float
    judgments: float
    low: float
    high: float
    perfect: float
    perfect_low: float
    perfect_high: float
    reached: bool
    limit: int
    pairs: int


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
    >>> from aliquot.metaeval.decompose import signs_of
    >>> from aliquot.metaeval.metric_inputs import metric_inputs
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
