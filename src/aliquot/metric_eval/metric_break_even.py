"""Break-even: how many human judgments a metric is worth, and the verdict on whether it can replace people.

A metric is worth as many judgments as people need for an error as small as its bias. See docs/methods.md, section 7
(Wei and Jia 2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.annotation.judgment_noise import find_score_judgments
from aliquot.errors import DataError
from aliquot.metric_eval.metric_inputs import MetricInputs, ScoredCampaign
from aliquot.metric_eval.metric_value import PerfectAnnotator
from aliquot.stats import bias_variance, break_even
from aliquot.stats.arrays import FloatArray, Seed
from aliquot.stats.bias_variance import PairSigns
from aliquot.stats.resampling import spawn_seeds

MAX_JUDGMENTS = 10_000
"""Largest number of judgments per system at which a break-even is looked for."""


@dataclass(frozen=True)
class Worth:
    """What one metric is worth."""

    human: str
    metric: str
    unit: break_even.BreakEvenUnit  # what is counted: single judgments, or items that all systems are judged on
    bias: float  # its error on an endless test set, against noise-free labels
    judgments: float  # units per system at which people err as often; infinite where not within `limit`
    low: float  # lower end of the interval
    high: float  # upper end
    perfect: float  # the same for the perfect annotator; NaN where it is not known
    perfect_low: float  # lower end of the interval
    perfect_high: float  # upper end
    reached: bool  # whether people come down to the bias within `limit`
    limit: int  # judgments up to which was looked
    pairs: int  # pairs of systems that it rests on


@dataclass(frozen=True)
class ErrorCurvePoint:
    """Mean error over pairs of people, and of the perfect annotator, with so many judgments per system."""

    human: str
    unit: break_even.BreakEvenUnit  # what is counted
    judgments: int
    people: float
    perfect: float


def compute_break_even(
    inputs: MetricInputs,
    signs: list[PairSigns],
    perfect: list[PerfectAnnotator] | None = None,
    *,
    unit: break_even.BreakEvenUnit = "item",
    trials: int = 10_000,
    level: float = 0.95,
    seed: Seed = 0,
) -> tuple[tuple[Worth, ...], tuple[ErrorCurvePoint, ...]]:
    """Compute the judgments that each metric is worth, and the error curves of people and of the perfect annotator.

    Args:
        inputs: of one or several campaigns.
        signs: from `draw_signs`, for the metrics' bias.
        perfect: one for each campaign, or None where some campaign has no repeated judgments.
        unit: "judgment" counts single judgments, each system with its own (Wei and Jia 2021); "item" counts items that
            all systems are judged on, with as many judgments an output as the human score is the mean of.
        trials: bootstrap draws of people's error at few judgments.
        level: of the intervals, over systems.
        seed: of all draws.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_errors import draw_signs
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> inputs = build_inputs([aliquot.synthetic(items=100, systems=5, seed=2)], metrics=["human"])
    >>> rows, curve = compute_break_even(inputs, draw_signs(inputs, 500), trials=500)
    >>> rows[0].judgments, curve[0].judgments, curve[0].people > curve[-1].people
    (inf, 1, True)
    """
    sizes = break_even.size_grid(MAX_JUDGMENTS)
    curve_seed, interval_seed = spawn_seeds(seed, 2)
    seeds = spawn_seeds(curve_seed, len(inputs.campaigns))
    bias = [bias_variance.campaign_parts(campaign_bias).bias for campaign_bias in signs]
    single_judgments = (
        [collect_single_judgments(campaign) for campaign in inputs.campaigns] if unit == "judgment" else []
    )

    def compute_errors(index: int, ratio: float) -> FloatArray:
        if unit == "judgment":
            return break_even.judgment_errors(single_judgments[index], sizes, trials, ratio=ratio, seed=seeds[index])
        return break_even.human_errors(inputs.campaigns[index].human, sizes, trials, ratio=ratio, seed=seeds[index])

    def compute_curves(ratios: list[float]) -> tuple[FloatArray, break_even.BreakEven]:
        """Return the errors at each size, of all campaigns, and where they fall to each metric's bias."""
        errors = [compute_errors(index, ratio) for index, ratio in enumerate(ratios)]
        campaigns = [
            break_even.CampaignErrors(error, campaign_bias, len(campaign.systems))
            for error, campaign_bias, campaign in zip(errors, bias, inputs.campaigns, strict=True)
        ]
        crossings = break_even.break_even(campaigns, sizes, level=level, seed=interval_seed)
        return np.concatenate(errors, axis=1), crossings

    people, by_people = compute_curves([1.0] * len(seeds))
    ratios = collect_finite_ratios(perfect, unit)
    undefined = np.full(len(inputs.predictors), np.nan)
    ideal, by_ideal = np.full_like(people, np.nan), break_even.BreakEven(undefined, undefined, undefined)
    if ratios is not None:
        ideal, by_ideal = compute_curves(ratios)
    joined = np.concatenate(bias, axis=1)
    rows = []
    for index, metric in enumerate(inputs.predictors):
        judgments, low, high, perfect_judgments, perfect_low, perfect_high = (
            float(values[index])
            for break_even_of_people in (by_people, by_ideal)
            for values in (break_even_of_people.judgments, break_even_of_people.low, break_even_of_people.high)
        )
        rows.append(
            Worth(
                inputs.human,
                metric,
                unit,
                _nan_mean(joined[index]),
                judgments,
                low,
                high,
                perfect_judgments,
                perfect_low,
                perfect_high,
                reached=math.isfinite(judgments),
                limit=MAX_JUDGMENTS,
                pairs=int(np.isfinite(joined[index]).sum()),
            )
        )
    points = tuple(
        ErrorCurvePoint(inputs.human, unit, int(size), _nan_mean(people[index]), _nan_mean(ideal[index]))
        for index, size in enumerate(sizes)
    )
    return tuple(rows), points


def collect_single_judgments(campaign: ScoredCampaign) -> list[break_even.SystemJudgments]:
    """Return the single judgments behind the human score, one entry for each system; judged cells only.

    Raises:
        DataError: no judgments, or none of which this score is the mean.
    """
    judgments = find_score_judgments(campaign.data, campaign.human_name)
    row, column = campaign.data.cell_index(judgments.table["item"], judgments.table["system"])
    judged = np.full(campaign.data.score(campaign.human_name).shape, False)
    indices = np.array([campaign.data.systems.index(system) for system in campaign.systems])
    judged[np.ix_(np.flatnonzero(campaign.rows), indices)] = np.isfinite(campaign.human)
    is_judged = judged[row, column]
    value = judgments.slope * judgments.table["value"].to_numpy()
    return [
        break_even.SystemJudgments(value[is_judged & (column == index)], row[is_judged & (column == index)])
        for index in indices.tolist()
    ]


def choose_unit(inputs: MetricInputs, unit: break_even.BreakEvenUnit | None) -> tuple[break_even.BreakEvenUnit, str]:
    """Return the unit to count in, by default single judgments where all campaigns have them, and a note on it."""
    chosen, why = unit or "judgment", ""
    if unit is None:
        try:
            for campaign in inputs.campaigns:
                collect_single_judgments(campaign)
        except DataError as error:
            chosen, why = "item", f" ({error})"
    if chosen == "judgment":
        return chosen, (
            "break-even counts single judgments, each system with its own; `unit=item` counts items that "
            "all systems are judged on"
        )
    return chosen, f"break-even counts items that all systems are judged on, one human score each{why}"


_UNIT_WORDS = {
    "judgment": ("a single judgment", "single judgments"),
    "item": ("one judged item", "judged items (the same for all systems)"),
}


def write_verdict(rows: Sequence[Worth]) -> str:
    """Write whether a metric can replace people, from its break-even: one or two sentences for each human score.

    >>> nan = float("nan")
    >>> worth = Worth("mqm", "COMET", "judgment", 0.1, 120.4, 30.0, 900.0, nan, nan, nan, True, 10000, 45)
    >>> print(write_verdict([worth]))
    On these data no metric replaces more than 120 single judgments per system; the best is COMET (interval 30 to 900).
    """
    by_human: dict[str, list[Worth]] = {}
    for row in rows:
        if not math.isnan(row.judgments):
            by_human.setdefault(row.human, []).append(row)
    if not by_human:
        return (
            "The break-even could not be computed (see the notes), so nothing is said about how many judgments a "
            "metric is worth."
        )
    texts = [_write_verdict_of_score(worths) for worths in by_human.values()]
    if len(texts) > 1:
        texts = [f"Against '{human}': {text}" for human, text in zip(by_human, texts, strict=True)]
    return " ".join(texts)


def _write_verdict_of_score(rows: Sequence[Worth]) -> str:
    best = max(rows, key=lambda row: (row.judgments, -row.bias))
    singular, plural = _UNIT_WORDS[best.unit]
    if best.judgments <= 1:
        return (
            f"On these data no metric replaces people: {singular} per system orders the systems as well as "
            f"the best metric, {best.metric}."
        )
    if math.isfinite(best.judgments):
        interval = (
            ""
            if math.isnan(best.low)
            else f" (interval {_format_count(best.low, best)} to {_format_count(best.high, best)})"
        )
        return (
            f"On these data no metric replaces more than {best.judgments:.0f} {plural} per system; the "
            f"best is {best.metric}{interval}."
        )
    count_of_others = sum(math.isinf(row.judgments) for row in rows) - 1
    more = f" (and {count_of_others} more)" if count_of_others else ""
    which = "the only pair" if best.pairs == 1 else f"all {best.pairs} pairs"
    right = f": it is right about {which} of systems" if best.bias == 0 else ""
    low = f" But the pairs are few: the interval begins at {best.low:.0f}." if best.low < best.limit else ""
    return f"On these data {best.metric}{more} is worth more than {best.limit} {plural} per system{right}.{low}"


def _format_count(judgments: float, row: Worth) -> str:
    return f"more than {row.limit}" if math.isinf(judgments) else f"{judgments:.0f}"


def collect_finite_ratios(
    perfect: list[PerfectAnnotator] | None, unit: break_even.BreakEvenUnit = "item"
) -> list[float] | None:
    """Return the efficiency ratios in this unit; None where a campaign has no finite one.

    Where systems are judged on the same items, it is the ratio of differences that counts; where each has judgments of
    its own, that of single judgments (Wei and Jia 2021, section 5.2). As an estimate it may come out infinite or below
    1 (no noise to be seen): the latter is 1.
    """
    if perfect is None:
        return None
    ratios = [annotator.matched if unit == "item" else annotator.ratio for annotator in perfect]
    return [max(1.0, ratio) for ratio in ratios] if all(np.isfinite(ratio) for ratio in ratios) else None


def _nan_mean(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")
