"""What human scores and metrics are worth: the noise of annotators, and metrics as control variates.

Annotator noise comes from outputs judged more than once. Only the judgments that the human score is made of count,
because protocols and criteria differ in scale: their means must be the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.annotation.judgment_noise import ScoreJudgments, difference_noise, find_score_judgments
from aliquot.annotation.judgment_rows import group_codes
from aliquot.errors import DataError, OptionError, quoted
from aliquot.metric_eval.metric_inputs import MetricInputs, ScoredCampaign
from aliquot.stats.arrays import FloatArray, Seed, is_within
from aliquot.stats.correlation import correlate_tables
from aliquot.stats.metric_selection import ForwardSelection, ForwardStep, forward_selection
from aliquot.stats.resampling import spawn_seeds
from aliquot.stats.variance_components import (
    data_efficiency,
    efficiency_ceiling,
    matched_ratio,
    noise_free_correlation,
    variance_components,
)


@dataclass(frozen=True)
class PerfectAnnotator:
    """What repeated judgments of one campaign say."""

    human: str
    data: str
    source: str  # which judgments are behind it
    annotators: int  # how many people gave them
    judgments: int  # how many there are
    outputs: int  # of how many outputs
    repeated: int  # how many outputs were judged at least twice
    per_output: float  # mean number of judgments of an output
    total: float  # Var(H), of all judgments
    within: float  # E[Var(H | output)], annotator noise
    between: float  # Var(P), what is left: the spread of outputs
    # efficiency ratio r = total / between; infinite where noise is all there is. n judgments of the perfect annotator
    # are worth r n of people, for systems judged on items of their own
    ratio: float
    low: float  # lower end of its interval
    high: float  # upper end
    matched: float  # the same for differences of systems on the same items, one human score a cell
    rater_to_item: float  # g, annotators' variance / variance of the outputs of a system, for one judgment


def estimate_perfect_annotator(
    campaign: ScoredCampaign, *, level: float = 0.95, seed: Seed = 0
) -> tuple[PerfectAnnotator, tuple[str, ...]]:
    """Split the variance of the judgments behind a human score (docs/methods.md, section 7; Wei and Jia 2021).

    Args:
        campaign: with the judgments in its data.
        level: of the ratio's interval.
        seed: of its bootstrap.

    Returns:
        The variances and ratios, and what a reader should know.

    Raises:
        DataError: no judgments, none behind this score, or no output judged twice.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> data = aliquot.synthetic(items=60, systems=4, protocol="da", judgments_per_output=2, seed=1)
    >>> found, notes = estimate_perfect_annotator(build_inputs([data]).campaigns[0])
    >>> found.repeated, found.ratio > 1, found.source
    (240, True, 'all judgments')
    """
    name = f"{campaign.name}, '{campaign.human_name}'"
    judgments = find_score_judgments(campaign.data, campaign.human_name)
    table = judgments.table
    output, value = group_codes(table, ["item", "system"]), table["value"].to_numpy()
    people = table["annotator"].n_unique()
    try:
        parts = variance_components(output, value, level=level, replicates=1000, seed=seed)
    except DataError as error:
        who = "all judgments are by one annotator, whose repeats do not count, and " if people == 1 else ""
        raise DataError(f"{name}: {who}{error}") from None
    system_components = variance_components(output, value, system=group_codes(table, ["system"]), replicates=1)
    notes = []
    if not np.isfinite(parts.ratio):
        notes.append(
            f"{name}: judgments of the same output differ as much as those of different ones; people's noise "
            "is all that can be seen, and the efficiency ratio is infinite"
        )
    row = PerfectAnnotator(
        human=campaign.human_name,
        data=campaign.name,
        source=judgments.source,
        annotators=people,
        judgments=parts.judgments,
        outputs=parts.outputs,
        repeated=parts.repeated,
        per_output=parts.judgments / parts.outputs,
        total=parts.total,
        within=parts.within,
        between=parts.between,
        ratio=parts.ratio,
        low=parts.low,
        high=parts.high,
        matched=_compute_matched_ratio(campaign, judgments, parts.within),
        rater_to_item=system_components.rater_to_item,
    )
    return row, tuple(notes)


def _compute_matched_ratio(campaign: ScoredCampaign, behind: ScoreJudgments, within: float) -> float:
    """Efficiency ratio of differences of systems on the same items, for human scores that are means of judgments."""
    per_cell = behind.table.group_by("item", "system").agg(pl.len())["len"].to_numpy()
    noise = behind.slope**2 * difference_noise(behind.table, within)[0] * float((1 / per_cell).mean())
    try:
        return matched_ratio(campaign.human, noise / 2)
    except DataError:
        return float("nan")  # no two systems with two common items


# -- Control variates: human scores that need not be bought (docs/methods.md, sections 4 and 7) ---------------------


MIN_CELL_SHARE = 0.5
"""Share of the best covered metric's cells below which a metric is left out of the suggested set."""


@dataclass(frozen=True)
class ControlValue:
    """One metric as control variate."""

    human: str
    data: str
    metric: str
    correlation: float  # Pearson's with the human score over the outputs of a system, averaged over systems
    noise_free: float  # the same with what all judges would say on average; at most 1. NaN where noise is all there is
    efficiency: float  # n judgments with the metric are worth this many times n without
    ceiling: float  # of a perfect metric; infinite where annotator noise is not known or absent
    systems: int  # systems with a correlation
    cells: int  # outputs that it rests on


@dataclass(frozen=True)
class Suggestion:
    """One step of choosing the metrics to combine."""

    human: str
    data: str
    step: int  # 1 for the first metric
    metric: str  # which one
    taken: bool  # whether it is worth it; the last row may be the best of those that are not
    alone: float  # its own correlation with people within systems
    correlation: float  # that of the cross-fitted prediction from all metrics so far
    explained: float  # share of the human variance within systems that the prediction removes on unseen items
    gain: float  # what this metric adds to it
    error: float  # standard error of the gain
    efficiency: float  # n judgments with all metrics so far are worth this many times n without


def compute_control_values(
    inputs: MetricInputs, perfect: Sequence[PerfectAnnotator | None]
) -> tuple[ControlValue, ...]:
    """Compute what each metric saves as a control variate, in each campaign.

    Args:
        inputs: people's and metrics' scores.
        perfect: one for each campaign; None where no judgments are repeated: annotator noise is then taken as 0.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> rows = compute_control_values(build_inputs([aliquot.synthetic(items=100, systems=4, seed=1)]), [None])
    >>> rows[0].efficiency > rows[2].efficiency > 1, rows[0].ceiling
    (True, inf)
    """
    return tuple(
        _compute_control_value(inputs.human, campaign, index, metric, annotator)
        for campaign, annotator in zip(inputs.campaigns, perfect, strict=True)
        for index, metric in enumerate(inputs.metrics)
    )


def _compute_control_value(
    human: str, campaign: ScoredCampaign, index: int, metric: str, annotator: PerfectAnnotator | None
) -> ControlValue:
    estimate = correlate_tables(campaign.metrics[index], campaign.human, "pearson", "within_system")
    # A score that is the mean of m answers has g / m of their noise.
    g = 0.0 if annotator is None else max(0.0, annotator.rater_to_item) / annotator.per_output
    # The correlation with the score itself is smaller than that with its noise-free mean by sqrt(1 + g).
    noise_free = float(noise_free_correlation(estimate.value, g)) if np.isfinite(g) else float("nan")
    efficiency = float(data_efficiency(0.0 if np.isnan(noise_free) else noise_free, g))
    return ControlValue(
        human=human,
        data=campaign.name,
        metric=metric,
        correlation=estimate.value,
        noise_free=noise_free,
        efficiency=float("nan") if np.isnan(estimate.value) else efficiency,
        ceiling=float(efficiency_ceiling(g)),
        systems=estimate.groups,
        cells=campaign.coverage(index).cells,
    )


def suggest_metrics(inputs: MetricInputs, seed: Seed = 0) -> tuple[tuple[Suggestion, ...], tuple[str, ...]]:
    """Choose metrics to combine in each campaign, by cross-fitted forward selection.

    Returns:
        The steps, the last one perhaps not worth it; and notes on metrics that were too sparse to be tried, and on
        campaigns where nothing can be suggested.
    """
    rows: list[Suggestion] = []
    notes: list[str] = []
    for campaign, child in zip(inputs.campaigns, spawn_seeds(seed, len(inputs.campaigns)), strict=True):
        cells = np.isfinite(campaign.metrics).sum(axis=(1, 2))
        candidates = np.flatnonzero(cells >= MIN_CELL_SHARE * cells.max())
        sparse = [name for index, name in enumerate(inputs.metrics) if index not in candidates]
        if sparse:
            notes.append(f"{campaign.name}: too few cells to be combined with the others: {quoted(sparse)}")
        try:
            selection = forward_selection(campaign.metrics[candidates], campaign.human, seed=child)
        except (DataError, OptionError) as error:
            notes.append(f"{campaign.name}: no set of metrics is suggested: {error}")
            continue
        rows += _list_steps(inputs, campaign, [inputs.metrics[index] for index in candidates], selection)
    return tuple(rows), tuple(notes)


def _list_steps(
    inputs: MetricInputs, campaign: ScoredCampaign, names: list[str], selection: ForwardSelection
) -> list[Suggestion]:
    tried: list[tuple[ForwardStep, bool]] = [(step, True) for step in selection.steps]
    if selection.refused is not None:
        tried.append((selection.refused, False))
    return [
        Suggestion(
            human=inputs.human,
            data=campaign.name,
            step=number,
            metric=names[step.metric],
            taken=is_taken,
            alone=step.alone,
            correlation=step.rho,
            explained=step.r2,
            gain=step.gain,
            error=step.se,
            efficiency=1 / (1 - step.r2) if step.r2 < 1 else float("inf"),
        )
        for number, (step, is_taken) in enumerate(tried, 1)
    ]


# -- The gap between a metric and people (HumEval 2022, paper 2) ----------------------------------------------------


@dataclass(frozen=True)
class Gap:
    """How much more generous a metric is than people, both on a scale from 0 to 1."""

    human: str
    data: str
    metric: str
    system: str | None  # None: all systems together
    mean: float  # mean over outputs of metric - mean of the annotators' judgments; above 0: the metric is too kind
    mode: float  # the same with the most frequent judgment; NaN without single judgments
    outputs: int  # outputs that it rests on


def compute_gaps(
    inputs: MetricInputs, scale: tuple[float, float] | None = None, metric_scale: tuple[float, float] | None = None
) -> tuple[tuple[Gap, ...], tuple[str, ...]]:
    """The gap of every metric, of each system and of all.

    Args:
        inputs: people's and metrics' scores.
        scale: ends of the human scale; by default the lowest and the highest judgment (or score).
        metric_scale: ends of the metrics' scale; by default 0 to 1 where a metric lies in it, else 0 to 100 where it
            does, else its lowest and highest score.

    Returns:
        The rows, and notes on scales that were guessed. Several most frequent judgments of an output are averaged.

    >>> import aliquot
    >>> from aliquot.metric_eval.metric_inputs import build_inputs
    >>> data = aliquot.synthetic(items=30, systems=2, protocol="da", judgments_per_output=3, seed=1)
    >>> rows, _ = compute_gaps(build_inputs([data], metrics=["human"]), scale=(0, 100), metric_scale=(0, 100))
    >>> rows[-1].system, abs(rows[-1].mean) < 1e-9
    (None, True)
    """
    rows: list[Gap] = []
    notes: list[str] = []
    for campaign in inputs.campaigns:
        mode = _collect_modes(campaign)
        finite = campaign.human[np.isfinite(campaign.human)]
        ends = scale or (float(finite.min()), float(finite.max()))
        if ends[0] == ends[1] and scale is None:
            raise DataError(f"{campaign.name}: every human score is {ends[0]:g}, so the ends of the scale are unknown")
        if scale is None:
            notes.append(f"{campaign.name}: gap: the human scale is taken as {ends[0]:g} to {ends[1]:g}; give `scale`")
        human, likeliest = (_rescale(table, ends, "scale") for table in (campaign.human, mode))
        for index, metric in enumerate(inputs.metrics):
            limits, guessed = (
                (metric_scale, False) if metric_scale is not None else _guess_metric_scale(campaign.metrics[index])
            )
            if guessed:
                notes.append(f"{campaign.name}: gap: '{metric}' is taken to go from {limits[0]:g} to {limits[1]:g}")
            scored = _rescale(campaign.metrics[index], limits, "metric_scale")
            groups: list[tuple[list[int], str | None]] = [
                ([index], system) for index, system in enumerate(campaign.systems)
            ]
            for columns, system in [*groups, (list(range(len(campaign.systems))), None)]:
                mean, by_mode = (scored - human)[:, columns], (scored - likeliest)[:, columns]
                rows.append(
                    Gap(
                        inputs.human,
                        campaign.name,
                        metric,
                        system,
                        _nan_mean(mean),
                        _nan_mean(by_mode),
                        int(np.isfinite(mean).sum()),
                    )
                )
    return tuple(rows), tuple(notes)


def _rescale(table: FloatArray, ends: tuple[float, float], name: str) -> FloatArray:
    low, high = ends
    if not low < high:
        raise OptionError(f"{name} goes from {low:g} to {high:g}; the low end must be below the high end")
    return (table - low) / (high - low)


def _guess_metric_scale(table: FloatArray) -> tuple[tuple[float, float], bool]:
    """Return the scale of a metric, and whether it is only its observed range."""
    finite = table[np.isfinite(table)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    for top in (1.0, 100.0):
        if is_within(finite, 0.0, top):
            return (0.0, top), False
    return (low, high if high > low else low + 1.0), True


def _collect_modes(campaign: ScoredCampaign) -> FloatArray:
    """Return the most frequent judgment of each output on the scale of the human score; NaN without judgments."""
    try:
        judgments = find_score_judgments(campaign.data, campaign.human_name)
    except DataError:
        return np.full(campaign.human.shape, np.nan)
    modes_by_output = judgments.table.group_by("item", "system", maintain_order=True).agg(
        pl.col("value").mode().mean(), pl.col("value").mean().alias("mean")
    )
    row, column = campaign.data.cell_index(modes_by_output["item"], modes_by_output["system"])
    modes = np.full((campaign.data.n_items, campaign.data.n_systems), np.nan)
    scores = campaign.data.score(campaign.human_name)[row, column]
    shift = _nan_mean(
        scores - judgments.slope * modes_by_output["mean"].to_numpy()
    )  # 0 where scores are the judgments' means
    modes[row, column] = judgments.slope * modes_by_output["value"].to_numpy() + shift
    columns = [campaign.data.systems.index(system) for system in campaign.systems]
    return np.where(np.isfinite(campaign.human), modes[campaign.rows][:, columns], np.nan)


def _nan_mean(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")
