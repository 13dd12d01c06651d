"""From evaluation sets to the arrays in which metrics are held against people.

Invariant: a metric is looked at only where people judged, so rows are never misaligned: every array of a campaign has
the items of its human score and the systems that people judged. With `common`, human and metrics alike have only the
cells that people and all compared metrics have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aliquot.core.conventions import is_human_name
from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.stats.arrays import BoolArray, FloatArray, is_constant

MIN_COVERAGE = 0.5
"""Share of the judged outputs that a metric must have to be taken without being named."""


@dataclass(frozen=True, eq=False)
class ScoredCampaign:
    """One set under one human score."""

    data: EvalSet  # the set it comes from
    human_name: str  # the human score
    systems: tuple[str, ...]  # the systems that people judged
    rows: BoolArray  # which items of the set were judged
    human: FloatArray  # judged items x judged systems, NaN = missing
    metrics: FloatArray  # metrics x judged items x judged systems; NaN where the metric or the human score is missing

    @property
    def name(self) -> str:
        """The name of the set."""
        return self.data.name

    def coverage(self, metric: int | None = None) -> Coverage:
        """On how much a metric, or (None) the human score, rests."""
        present = np.isfinite(self.human if metric is None else self.metrics[metric])
        cells, items, systems = present.sum(), present.any(axis=1).sum(), present.any(axis=0).sum()
        return Coverage(int(items), int(systems), int(cells))


@dataclass(frozen=True)
class Coverage:
    """Items, systems and cells on which both people and a metric have scores."""

    items: int
    systems: int
    cells: int

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(self.items + other.items, self.systems + other.systems, self.cells + other.cells)


@dataclass(frozen=True, eq=False)
class MetricInputs:
    """One human score, some metrics, one or several campaigns."""

    human: str  # how the human score is called; where campaigns differ, all names
    metrics: tuple[str, ...]  # the metrics, in the order of the arrays
    campaigns: tuple[ScoredCampaign, ...]  # the campaigns; a metric that one does not have is NaN there
    notes: tuple[str, ...] = ()  # what was left out, and why
    corpus: tuple[str, ...] = ()  # corpus-level metrics, which have no score of a single output

    @property
    def predictors(self) -> tuple[str, ...]:
        """All that says which of two systems is better: metrics, then corpus-level ones."""
        return (*self.metrics, *self.corpus)

    def coverage(self, metric: int | None = None) -> Coverage:
        """Coverage over all campaigns; that of people for a corpus-level metric."""
        if metric is not None and metric >= len(self.metrics):
            metric = None
        total = Coverage(0, 0, 0)
        for campaign in self.campaigns:
            total += campaign.coverage(metric)
        return total


def build_inputs(
    sets: Sequence[EvalSet],
    human: str | None = None,
    metrics: Sequence[str] | None = None,
    *,
    humans: Sequence[str] = (),
    common: bool = False,
) -> MetricInputs:
    """Arrange people's and metrics' scores.

    Args:
        sets: one campaign, or several.
        human: the human score; by default each set's own.
        metrics: names; by default all that vary and cover at least half of the judged outputs of some set.
        humans: further scores that are people's, so that they are not taken for metrics.
        common: keep only the cells that people and all metrics have.

    >>> import aliquot
    >>> inputs = build_inputs([aliquot.synthetic(items=20, systems=3, seed=1)])
    >>> inputs.metrics, inputs.campaigns[0].metrics.shape, inputs.coverage(0)
    (('metricA', 'metricB', 'metricC'), (3, 20, 3), Coverage(items=20, systems=3, cells=60))
    """
    if not sets:
        raise OptionError("no data are given; give at least one set")
    sets = _number_duplicates(sets)
    people = {name for name in (human, *humans) if name is not None}
    chosen, notes = _choose_metrics(sets, human, metrics, people)
    campaigns = [_build_campaign(data, human, chosen) for data in sets]
    lacking = [
        metric
        for index, metric in enumerate(chosen)
        if any(not np.isfinite(campaign.metrics[index]).any() for campaign in campaigns)
    ]
    if common and lacking:
        if len(lacking) == len(chosen):
            raise DataError("no metric has scores in every set; leave `common` out, or compare sets that share some")
        notes.append(f"left out, because some set has no score of them: {quoted(lacking)}")
        kept_indices = [index for index, metric in enumerate(chosen) if metric not in lacking]
        chosen = tuple(chosen[index] for index in kept_indices)
        campaigns = [replace(campaign, metrics=campaign.metrics[kept_indices]) for campaign in campaigns]
    if common:
        campaigns = [_keep_common_cells(campaign) for campaign in campaigns]
    names = list(dict.fromkeys(campaign.human_name for campaign in campaigns))
    inputs = MetricInputs(", ".join(names), chosen, tuple(campaigns))
    return replace(inputs, notes=(*notes, *_describe_coverage(inputs, common=common)))


def _number_duplicates(sets: Sequence[EvalSet]) -> list[EvalSet]:
    """Number sets of the same name, so that rows can be told apart."""
    names = [data.name for data in sets]
    return [
        replace(data, name=f"{data.name} ({names[:index].count(data.name) + 1})")
        if names.count(data.name) > 1
        else data
        for index, data in enumerate(sets)
    ]


def _find_human_score(data: EvalSet, human: str | None) -> tuple[str, FloatArray]:
    name = human or data.human
    if name is None:
        raise DataError(
            f"{data.name}: no score is marked as human; name it in `human` (there are "
            f"{quoted(data.scores) or 'no scores'})"
        )
    if name not in data.scores:
        raise unknown_name("score", name, data.scores, f"in {data.name}; name the human score in `human`")
    scores = data.scores[name]
    if not np.isfinite(scores).any():
        raise DataError(f"{data.name}: '{name}' has no value on any output; judge some, or name another human score")
    return name, scores


def _choose_metrics(
    sets: Sequence[EvalSet], human: str | None, metrics: Sequence[str] | None, people: set[str]
) -> tuple[tuple[str, ...], list[str]]:
    """Return the metrics to compare: those named, or all that are usable in some set; and notes."""
    if metrics is not None:
        return _validate_metrics(sets, human, metrics), []
    usable: dict[str, None] = {}
    unfit: dict[str, str] = {}
    for data in sets:
        name, scores = _find_human_score(data, human)
        judged = np.isfinite(scores)
        for metric in data.scores:
            if metric == name or metric in people or metric == data.human or is_human_name(metric):
                continue
            reason = _explain_unusable(data.scores[metric][judged])
            if reason is None:
                usable[metric] = None
            else:
                unfit.setdefault(metric, reason)
    left_out = {metric: reason for metric, reason in unfit.items() if metric not in usable}
    if not usable:
        why = "; ".join(f"'{metric}' {reason}" for metric, reason in list(left_out.items())[:3])
        remedy = "name it in `metrics` to have it all the same, " if why else ""
        raise DataError(
            f"{sets[0].name}: there is no metric to compare with people{': ' if why else ''}{why}; {remedy}"
            "add a score, or compute some from outputs and references (`compute=bleu,chrf`)"
        )
    notes = [f"'{metric}' {reason} and is left out; name it to have it" for metric, reason in left_out.items()]
    return tuple(usable), notes


def _validate_metrics(sets: Sequence[EvalSet], human: str | None, metrics: Sequence[str]) -> tuple[str, ...]:
    available = list(dict.fromkeys(name for data in sets for name in data.scores))
    if not metrics:
        raise OptionError("no metric is named; name some, or leave `metrics` out for all")
    for index, metric in enumerate(metrics):
        if metric not in available:
            raise unknown_name("metric", metric, available, "check `metrics`")
        if metric in metrics[:index]:
            raise OptionError(f"the metric '{metric}' is named twice")
        present = [
            np.isfinite(data.scores[metric]) & np.isfinite(_find_human_score(data, human)[1])
            for data in sets
            if metric in data.scores
        ]
        if not any(is_present.any() for is_present in present):
            raise DataError(f"{sets[0].name}: the metric '{metric}' has no score on any judged output; leave it out")
    return tuple(metrics)


def _explain_unusable(values: FloatArray) -> str | None:
    """Return why a metric is unusable on the judged outputs; None if it is usable."""
    present = np.isfinite(values)
    if present.mean() < MIN_COVERAGE:
        return f"has scores on {present.mean():.0%} of the judged outputs only"
    return "is constant" if is_constant(values) else None


def _build_campaign(data: EvalSet, human: str | None, metrics: Sequence[str]) -> ScoredCampaign:
    name, scores = _find_human_score(data, human)
    judged = np.isfinite(scores)
    rows, columns = _any_along(judged, 1), _any_along(judged, 0)
    human_scores = scores[rows][:, columns]
    empty = np.full(human_scores.shape, np.nan)
    stack = [
        np.where(np.isfinite(human_scores), data.scores[metric][rows][:, columns], np.nan)
        if metric in data.scores
        else empty
        for metric in metrics
    ]
    systems = tuple(system for system, is_judged in zip(data.systems, columns, strict=True) if is_judged)
    return ScoredCampaign(data, name, systems, rows, human_scores, np.stack(stack))


def _any_along(present: BoolArray, axis: int) -> BoolArray:
    return np.asarray(present.any(axis=axis), dtype=np.bool_)


def _keep_common_cells(campaign: ScoredCampaign) -> ScoredCampaign:
    present = np.asarray(np.isfinite(campaign.metrics).all(axis=0), dtype=np.bool_)
    if not present.any():
        raise DataError(
            f"{campaign.name}: no output has a score of every metric; name fewer in `metrics`, or leave `common` out"
        )
    rows, columns = _any_along(present, 1), _any_along(present, 0)
    is_common = present[rows][:, columns]
    within = campaign.rows.copy()
    within[campaign.rows] = rows
    return replace(
        campaign,
        systems=tuple(
            system for system, is_common_system in zip(campaign.systems, columns, strict=True) if is_common_system
        ),
        rows=within,
        human=np.where(is_common, campaign.human[rows][:, columns], np.nan),
        metrics=np.where(is_common, campaign.metrics[:, rows][:, :, columns], np.nan),
    )


def _describe_coverage(inputs: MetricInputs, *, common: bool) -> list[str]:
    notes = []
    by_metric = [inputs.coverage(index) for index in range(len(inputs.metrics))]
    people = inputs.coverage()
    if common:
        notes.append(f"on common cells: {people.items} items, {people.systems} systems, {people.cells} cells")
    elif len({coverage.cells for coverage in by_metric}) > 1:
        sparsest = min(range(len(by_metric)), key=lambda index: by_metric[index].cells)
        notes.append(
            f"metrics have different cells (all judged: {people.cells}; '{inputs.metrics[sparsest]}': "
            f"{by_metric[sparsest].cells}), so their rows are not on the same pairs; `common=True` compares "
            "them on the cells that all have"
        )
    elif by_metric and by_metric[0].cells < people.cells:
        notes.append(
            f"the metrics have {by_metric[0].cells} of the {people.cells} judged cells, so people's own rows rest on "
            "more; `common=True` compares all on the same cells"
        )
    constant = [name for index, name in enumerate(inputs.metrics) if _is_constant(inputs, index)]
    if constant:
        notes.append(
            f"constant, so it says nothing: {quoted(constant)}; every pair is a tie (bias 1/2), correlations are "
            "undefined"
        )
    if any(len(campaign.systems) == 2 for campaign in inputs.campaigns):
        notes.append("a campaign of two systems is a single pair: right or wrong, without an interval")
    return notes


def _is_constant(inputs: MetricInputs, metric: int) -> bool:
    values = [campaign.metrics[metric] for campaign in inputs.campaigns]
    return all(is_constant(scores) for scores in values if np.isfinite(scores).any())
