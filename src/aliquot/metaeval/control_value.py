"""What a metric saves as a control variate: human scores that need not be bought (METHODS 4 and 7).

Invariant: the saving of a metric is that for judgments like those in the data; the ceiling is what no metric exceeds,
because judges' noise stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.errors import DataError, OptionError, quoted
from aliquot.metaeval.annotators import PerfectAnnotator
from aliquot.metaeval.metric_inputs import Campaign, Inputs
from aliquot.stats.arrays import Seed
from aliquot.stats.association import correlate_tables
from aliquot.stats.forward import ForwardSelection, ForwardStep, forward_selection
from aliquot.stats.sign_bootstrap import child_seeds
from aliquot.stats.variance_components import data_efficiency, efficiency_ceiling, noise_free_correlation

_SPARSE = 0.5
"""Share of the best covered metric's cells below which a metric is left out of the suggested set."""


@dataclass(frozen=True)
class ControlValue:
    """One metric as control variate.

    Attributes:
        human: the human score.
        data: the campaign.
        metric: the metric.
        correlation: Pearson's with the human score over the outputs of a system, averaged over systems.
        noise_free: the same with what all judges would say on average; at most 1. NaN where noise is all there is.
        efficiency: n judgments with the metric are worth this many times n without.
        ceiling: of a perfect metric; infinite where judges' noise is not known or absent.
        systems: systems with a correlation.
        cells: outputs that it rests on.
    """

    human: str
    data: str
    metric: str
    correlation: float
    noise_free: float
    efficiency: float
    ceiling: float
    systems: int
    cells: int


@dataclass(frozen=True)
class Suggestion:
    """One step of choosing the metrics to combine.

    Attributes:
        human: the human score.
        data: the campaign.
        step: 1 for the first metric.
        metric: which one.
        taken: whether it is worth it; the last row may be the best of those that are not.
        alone: its own correlation with people within systems.
        correlation: that of the cross-fitted prediction from all metrics so far.
        explained: share of the human variance within systems that the prediction removes on unseen items.
        gain: what this metric adds to it.
        error: standard error of the gain.
        efficiency: n judgments with all metrics so far are worth this many times n without.
    """

    human: str
    data: str
    step: int
    metric: str
    taken: bool
    alone: float
    correlation: float
    explained: float
    gain: float
    error: float
    efficiency: float


def value_rows(inputs: Inputs, perfect: Sequence[PerfectAnnotator | None]) -> tuple[ControlValue, ...]:
    """Value of every metric in every campaign.

    Args:
        inputs: people's and metrics' scores.
        perfect: one for each campaign; None where no judgments are repeated: judges' noise is then taken as 0.

    >>> import aliquot
    >>> from aliquot.metaeval.metric_inputs import metric_inputs
    >>> rows = value_rows(metric_inputs([aliquot.synthetic(items=100, systems=4, seed=1)]), [None])
    >>> rows[0].efficiency > rows[2].efficiency > 1, rows[0].ceiling
    (True, inf)
    """
    return tuple(
        _value(inputs.human, campaign, at, metric, known)
        for campaign, known in zip(inputs.campaigns, perfect, strict=True)
        for at, metric in enumerate(inputs.metrics)
    )


def _value(human: str, campaign: Campaign, at: int, metric: str, known: PerfectAnnotator | None) -> ControlValue:
    found = correlate_tables(campaign.metrics[at], campaign.human, "pearson", "within_system")
    # A score that is the mean of m answers has g / m of their noise.
    g = 0.0 if known is None else max(0.0, known.rater_to_item) / known.per_output
    # The correlation with the score itself is smaller than that with its noise-free mean by sqrt(1 + g).
    noise_free = float(noise_free_correlation(found.value, g)) if np.isfinite(g) else float("nan")
    efficiency = float(data_efficiency(0.0 if np.isnan(noise_free) else noise_free, g))
    return ControlValue(
        human=human, data=campaign.name, metric=metric, correlation=found.value, noise_free=noise_free,
        efficiency=float("nan") if np.isnan(found.value) else efficiency, ceiling=float(efficiency_ceiling(g)),
        systems=found.groups, cells=campaign.coverage(at).cells,
    )  # fmt: skip


def suggestion_rows(inputs: Inputs, seed: Seed = 0) -> tuple[tuple[Suggestion, ...], tuple[str, ...]]:
    """Choose metrics to combine, by forward selection on items that taught nothing, in every campaign.

    Returns:
        The steps, the last one perhaps not worth it; and notes on metrics that were too sparse to be tried, and on
        campaigns where nothing can be suggested.
    """
    rows: list[Suggestion] = []
    notes: list[str] = []
    for campaign, child in zip(inputs.campaigns, child_seeds(seed, len(inputs.campaigns)), strict=True):
        cells = np.isfinite(campaign.metrics).sum(axis=(1, 2))
        kept = np.flatnonzero(cells >= _SPARSE * cells.max())
        sparse = [name for at, name in enumerate(inputs.metrics) if at not in kept]
        if sparse:
            notes.append(f"{campaign.name}: too few cells to be combined with the others: {quoted(sparse)}")
        try:
            found = forward_selection(campaign.metrics[kept], campaign.human, seed=child)
        except (DataError, OptionError) as error:
            notes.append(f"{campaign.name}: no set of metrics is suggested: {error}")
            continue
        rows += _steps(inputs, campaign, [inputs.metrics[at] for at in kept], found)
    return tuple(rows), tuple(notes)


def _steps(inputs: Inputs, campaign: Campaign, names: list[str], found: ForwardSelection) -> list[Suggestion]:
    tried: list[tuple[ForwardStep, bool]] = [(step, True) for step in found.steps]
    if found.refused is not None:
        tried.append((found.refused, False))
    return [
        Suggestion(
            human=inputs.human, data=campaign.name, step=number, metric=names[step.metric], taken=taken,
            alone=step.alone, correlation=step.rho, explained=step.r2, gain=step.gain, error=step.se,
            efficiency=1 / (1 - step.r2) if step.r2 < 1 else float("inf"),
        )
        for number, (step, taken) in enumerate(tried, 1)
    ]  # fmt: skip
