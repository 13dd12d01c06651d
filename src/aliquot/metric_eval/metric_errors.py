"""How often a metric is wrong about which of two systems is better, and how many judgments that is worth.

The pairwise error is split into noise, bias and variance; a metric is worth as many judgments as people need for an
error as small as its bias. Beside it: how fast a metric's decision settles as items are added, and where it and people
find significant differences. See docs/methods.md, section 7 (Wei and Jia 2021).

Invariant: in every row observed = noise + bias + variance (+ covariance where draws are paired), exactly. Pairs are
formed within campaigns; several campaigns are pooled pair by pair.
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
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.bias_variance import PairSigns
from aliquot.stats.resampling import spawn_seeds

OPTIMAL_NAME, HUMAN_NAME = "Optimal predictor", "Human"
"""How the first two rows of the decomposition are called."""
MAX_JUDGMENTS = 10_000
"""Largest number of judgments per system at which a break-even is looked for."""

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
    """Resample the items of every campaign and see who is ahead, by people and by each metric.

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
    """Refuse a campaign without two systems to compare."""
    if len(campaign.systems) < 2:
        raise DataError(
            f"{campaign.name}: people judged one system only ('{campaign.systems[0]}'); two are needed to compare"
        )


def decompose_errors(inputs: MetricInputs, signs: list[PairSigns], seed: Seed = 0) -> tuple[ErrorParts, ...]:
    """The optimal predictor, people, and every metric, in the order of the inputs.

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
    predictors |= {first + at: (metric, "metric") for at, metric in enumerate(inputs.predictors)}
    rows = []
    for at, (name, kind) in sorted(predictors.items()):
        held = inputs.coverage(at - first) if kind == "metric" else people
        observed, noise, bias, variance, covariance = table.value[at].tolist()
        error, noise_error, bias_error, variance_error, _ = table.error[at].tolist()
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
            int(table.pairs[at]),
            held.items,
            held.systems,
            held.cells,
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
    """Mean squared error of every metric, in every campaign: observed = noise + bias + variance, exactly.

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
    """Sizes of draws from 1 to all items, about evenly on a log scale.

    >>> list_draw_sizes(460)
    array([  1,   3,  10,  30, 100, 300, 460])
    """
    steps = [size for power in range(7) for size in (10**power, 3 * 10**power) if size < items]
    return np.array([*steps, items], dtype=np.int64)


def compute_convergence(inputs: MetricInputs, trials: int = 1000, seed: Seed = 0) -> tuple[MetricConvergence, ...]:
    """Agreement of every metric's prediction on some items with that on all, as the test set grows."""
    rows = []
    seeds = spawn_seeds(seed, len(inputs.campaigns))
    for campaign, child in zip(inputs.campaigns, seeds, strict=True):
        require_pairs(campaign)
        found = bias_variance.convergence(campaign.metrics, list_draw_sizes(len(campaign.human)), trials, seed=child)
        rows += [
            MetricConvergence(
                inputs.human,
                campaign.name,
                metric,
                int(size),
                float(found.agreement[at, place]),
                float(found.error[at, place]),
            )
            for at, metric in enumerate(inputs.metrics)
            for place, size in enumerate(found.sizes)
        ]
    return tuple(rows)


def count_cooccurrences(
    inputs: MetricInputs, trials: int = 1000, *, alpha: float = 0.05, seed: Seed = 0
) -> tuple[SignificanceCounts, ...]:
    """Three rows a metric: what it finds where people find the first system better, neither, and worse."""
    seeds = spawn_seeds(seed, len(inputs.campaigns))
    counts = np.zeros((len(inputs.metrics), 3, 3), dtype=np.int64)
    for campaign, child in zip(inputs.campaigns, seeds, strict=True):
        require_pairs(campaign)
        counts += bias_variance.co_occurrence(campaign.human, campaign.metrics, trials, alpha=alpha, seed=child).counts
    names = ("better", "undecided", "worse")
    return tuple(
        SignificanceCounts(inputs.human, metric, names[row], *(int(count) for count in counts[at, row]))
        for at, metric in enumerate(inputs.metrics)
        for row in range(3)
    )


# -- Break-even: how many judgments a metric is worth ----------------------------------------------------------------


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
    """Judgments that each metric is worth, and the curves of people and of the perfect annotator.

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
    bias = [bias_variance.campaign_parts(one).bias for one in signs]
    single = [collect_single_judgments(campaign) for campaign in inputs.campaigns] if unit == "judgment" else []

    def errors_of(at: int, ratio: float) -> FloatArray:
        if unit == "judgment":
            return break_even.judgment_errors(single[at], sizes, trials, ratio=ratio, seed=seeds[at])
        return break_even.human_errors(inputs.campaigns[at].human, sizes, trials, ratio=ratio, seed=seeds[at])

    def curves(ratios: list[float]) -> tuple[FloatArray, break_even.BreakEven]:
        """Errors at every size, campaigns side by side, and where they come down to each metric's bias."""
        errors = [errors_of(at, ratio) for at, ratio in enumerate(ratios)]
        campaigns = [
            break_even.CampaignErrors(error, one, len(campaign.systems))
            for error, one, campaign in zip(errors, bias, inputs.campaigns, strict=True)
        ]
        crossings = break_even.break_even(campaigns, sizes, level=level, seed=interval_seed)
        return np.concatenate(errors, axis=1), crossings

    people, by_people = curves([1.0] * len(seeds))
    ratios = collect_finite_ratios(perfect, unit)
    nothing = np.full(len(inputs.predictors), np.nan)
    ideal, by_ideal = np.full_like(people, np.nan), break_even.BreakEven(nothing, nothing, nothing)
    if ratios is not None:
        ideal, by_ideal = curves(ratios)
    joined = np.concatenate(bias, axis=1)
    rows = []
    for at, metric in enumerate(inputs.predictors):
        judgments, low, high, perfect_judgments, perfect_low, perfect_high = (
            float(values[at]) for found in (by_people, by_ideal) for values in (found.judgments, found.low, found.high)
        )
        rows.append(
            Worth(
                inputs.human,
                metric,
                unit,
                _nan_mean(joined[at]),
                judgments,
                low,
                high,
                perfect_judgments,
                perfect_low,
                perfect_high,
                reached=math.isfinite(judgments),
                limit=MAX_JUDGMENTS,
                pairs=int(np.isfinite(joined[at]).sum()),
            )
        )
    points = tuple(
        ErrorCurvePoint(inputs.human, unit, int(size), _nan_mean(people[at]), _nan_mean(ideal[at]))
        for at, size in enumerate(sizes)
    )
    return tuple(rows), points


def collect_single_judgments(campaign: ScoredCampaign) -> list[break_even.SystemJudgments]:
    """The single judgments that the human score is made of, one entry for each system; judged cells only.

    Raises:
        DataError: no judgments, or none of which this score is the mean.
    """
    behind = find_score_judgments(campaign.data, campaign.human_name)
    row, column = campaign.data.cell_index(behind.table["item"], behind.table["system"])
    judged = np.full(campaign.data.score(campaign.human_name).shape, False)
    places = np.array([campaign.data.systems.index(system) for system in campaign.systems])
    judged[np.ix_(np.flatnonzero(campaign.rows), places)] = np.isfinite(campaign.human)
    kept = judged[row, column]
    value = behind.slope * behind.table["value"].to_numpy()
    return [
        break_even.SystemJudgments(value[kept & (column == place)], row[kept & (column == place)])
        for place in places.tolist()
    ]


def choose_unit(inputs: MetricInputs, unit: break_even.BreakEvenUnit | None) -> tuple[break_even.BreakEvenUnit, str]:
    """The unit to count in, by default single judgments where every campaign has them; and a sentence that says so."""
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


def write_verdict(rows: Sequence[Worth], *, asked: bool = True) -> str:
    """Say whether a metric can replace people, from its break-even: one or two sentences for each human score.

    >>> nan = float("nan")
    >>> worth = Worth("mqm", "COMET", "judgment", 0.1, 120.4, 30.0, 900.0, nan, nan, nan, True, 10000, 45)
    >>> print(write_verdict([worth]))
    On these data no metric replaces more than 120 single judgments per system; the best is COMET (interval 30 to 900).
    """
    known: dict[str, list[Worth]] = {}
    for row in rows:
        if not math.isnan(row.judgments):
            known.setdefault(row.human, []).append(row)
    if not known:
        why = "could not be computed (see the notes)" if asked else "was not computed (add breakeven to the parts)"
        return f"The break-even {why}, so nothing is said about how many judgments a metric is worth."
    texts = [_write_verdict_of_score(found) for found in known.values()]
    if len(texts) > 1:
        texts = [f"Against '{human}': {text}" for human, text in zip(known, texts, strict=True)]
    return " ".join(texts)


def _write_verdict_of_score(rows: Sequence[Worth]) -> str:
    best = max(rows, key=lambda row: (row.judgments, -row.bias))
    one, many = _UNIT_WORDS[best.unit]
    if best.judgments <= 1:
        return (
            f"On these data no metric replaces people: {one} per system orders the systems as well as "
            f"the best metric, {best.metric}."
        )
    if math.isfinite(best.judgments):
        interval = (
            ""
            if math.isnan(best.low)
            else f" (interval {_format_count(best.low, best)} to {_format_count(best.high, best)})"
        )
        return (
            f"On these data no metric replaces more than {best.judgments:.0f} {many} per system; the "
            f"best is {best.metric}{interval}."
        )
    others = sum(math.isinf(row.judgments) for row in rows) - 1
    more = f" (and {others} more)" if others else ""
    which = "the only pair" if best.pairs == 1 else f"all {best.pairs} pairs"
    right = f": it is right about {which} of systems" if best.bias == 0 else ""
    low = f" But the pairs are few: the interval begins at {best.low:.0f}." if best.low < best.limit else ""
    return f"On these data {best.metric}{more} is worth more than {best.limit} {many} per system{right}.{low}"


def _format_count(judgments: float, row: Worth) -> str:
    return f"more than {row.limit}" if math.isinf(judgments) else f"{judgments:.0f}"


def collect_finite_ratios(
    perfect: list[PerfectAnnotator] | None, unit: break_even.BreakEvenUnit = "item"
) -> list[float] | None:
    """Efficiency ratios in this unit; None where a campaign has none that is finite.

    Where systems are judged on the same items, it is the ratio of differences that counts; where each has judgments of
    its own, that of single judgments (Wei and Jia 2021, section 5.2). As an estimate it may come out infinite or below
    1 (no noise to be seen): the latter is 1.
    """
    if perfect is None:
        return None
    ratios = [one.matched if unit == "item" else one.ratio for one in perfect]
    return [max(1.0, ratio) for ratio in ratios] if all(np.isfinite(ratio) for ratio in ratios) else None


def _nan_mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
