"""What a reader should know of an estimate: how items were drawn, what differs from plain means, what looks wrong."""

from __future__ import annotations

import warnings

import numpy as np

from aliquot.core.registry import Spec
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning
from aliquot.estimation.intervals import Bounds
from aliquot.estimation.pipeline import Inference, without_spread
from aliquot.estimation.proxies import select_proxies, standardise_metric
from aliquot.estimation.ranking import Ranking
from aliquot.estimation.sample import Sample
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import pearson
from aliquot.stats.mixed_model import item_overlap

MODELS = ("multilevel", "informed")
"""Estimators that draw means towards a model."""

UNKNOWN_CHANCES = "the items were not drawn with known probabilities"
SEVERITY_NOTE = "{count} annotators judged the systems in different shares: severity is adjusted for"
PUBLISHED_RULE = (
    "clusters by the published convention: one-sided p of each pair alone, which calls equal systems different often"
)
_MAX_OPPOSITE_CORRELATION = (
    -0.6
)  # median correlation with the metrics over systems below which a score may be upside down


def sampling_notes(sample: Sample, selection: Selection | None) -> list[str]:
    """Return notes on how items were drawn and what follows for the estimates."""
    notes = []
    if selection is None and (sample.n < sample.population or sample.ragged):
        notes.append("no selection given: the judged items are taken for a simple random sample")
    if sample.ragged:
        notes.append(_overlap_note(sample))
    if sample.pi is None:
        text = (
            f"{UNKNOWN_CHANCES}: means are biased and only the ranking is meaningful; "
            "greg corrects means by a model, use a design if you need them"
        )
        notes.append(text)
        warnings.warn(text, AliquotWarning, 3)
    if selection is not None and selection.design.coverage < 1.0:
        reached = f"only {selection.design.coverage:.0%} of the items had a probability above 0 of being drawn"
        notes.append(f"{reached}: the estimates are about those")
    if selection is not None and selection.population != sample.population:
        notes.append(
            f"the selection was drawn from {selection.population} items and the data have {sample.population}: the "
            "estimates are about the items it was drawn from"
        )
    if sample.n == 1:
        notes.append("one judged item: no standard error can be given")
    never = [
        s
        for s, judged in zip(sample.evalset.systems, np.isfinite(sample.scores).sum(axis=0), strict=True)
        if not judged
    ]
    if never:
        notes.append(f"never judged, so without an estimate: {', '.join(never)}")
    return notes


def direction_notes(inference: Inference, human: str | None) -> list[str]:
    """Return a note if system means correlate negatively with the metrics, as positive penalties do."""
    evalset, is_judged = inference.sample.evalset, inference.judged
    names = select_proxies(evalset, None)
    if is_judged.sum() < 4 or len(names) < 1:
        return []
    metrics = np.array([standardise_metric(evalset, name).mean(axis=0)[is_judged] for name in names])
    correlations = np.array([pearson(metric, inference.values[is_judged]) for metric in metrics])
    typical = float(np.nanmedian(correlations)) if np.isfinite(correlations).any() else 0.0
    if typical > _MAX_OPPOSITE_CORRELATION:
        return []
    against = f"median correlation {typical:.2f} over {int(is_judged.sum())} systems"
    remedy = f"if lower scores are better, name '{human or 'the score'}' in `lower_is_better`"
    return [f"the systems' means run against the metrics ({against}): {remedy}"]


def _overlap_note(sample: Sample) -> str:
    present = np.isfinite(sample.scores).astype(np.float64)
    counts, shared = item_overlap(present[:, present.any(axis=0)])
    first, second = np.triu_indices(len(counts), 1)
    typical = float(np.median(shared[first, second])) if len(first) else 1.0
    return (
        f"systems were judged on different items ({counts.min()} to {counts.max()} each); two systems typically share "
        f"{typical:.0%} of the smaller one's items: each has its own error, and shared items pair the differences"
    )


def plain_means(sample: Sample) -> FloatArray:
    """Unweighted means of the judged outputs; NaN for systems never judged."""
    present = np.isfinite(sample.scores)
    total = np.where(present, sample.scores, 0.0).sum(axis=0)
    return np.where(sample.counts > 0, total / np.maximum(sample.counts, 1), np.nan)


def change_cause(spec: Spec, sample: Sample, *, adjusted: bool) -> str:
    """Return the main reason why estimates differ from plain means."""
    if adjusted:
        return "the adjustment for annotators' severity"
    if spec.name in MODELS:
        return "the model"
    if sample.n < sample.population and spec.name not in ("mean", "stratified"):
        return "the use of metrics"
    return "the weighting of items"


def find_changes(
    inference: Inference, plain: FloatArray, ranking: Ranking, before: Ranking | None, alpha: float, cause: str
) -> tuple[str, ...]:
    """Return sentences on what `cause` changes: the leader, or which pairs are significant."""
    values, names = inference.values, inference.sample.evalset.systems
    if inference.judged.sum() < 2:
        return ()
    sentences = []
    first, plainly_first = int(np.nanargmax(values)), int(np.nanargmax(plain))
    if plain[plainly_first] - plain[first] > 1e-9 * np.nanmax(np.abs(plain)):
        sentences.append(
            f"By the plain means of the judged outputs {names[plainly_first]} would be first: {cause} "
            f"changes who leads."
        )
    if before is not None:
        upper = np.triu_indices(len(values), 1)
        tested = np.isfinite(ranking.p_adjusted[upper])
        now, then = (np.fmin(r.p_adjusted, r.p_adjusted.T)[upper][tested] < alpha for r in (ranking, before))
        if (now != then).any():
            sentences.append(
                f"{cause[0].upper()}{cause[1:]} changes which pairs are told apart: {int(now.sum())} of "
                f"{len(now)} with it, {int(then.sum())} without."
            )
    return tuple(sentences)


def scale_notes(inference: Inference, limits: Bounds) -> list[str]:
    """Return a note on a detected scale that limits an interval."""
    scale = inference.scale
    if scale is not None and scale.binary and not inference.exact.all():
        return ["pass/fail scores: intervals by Clopper and Pearson with the effective size, of differences by Tango"]
    if scale is None or not ((limits.low <= scale.low) | (limits.high >= scale.high)).any():
        return []
    ends = f"from {scale.low:g} to {scale.high:g}" if np.isfinite(scale.low) else f"up to {scale.high:g}"
    return [f"the scores look like a scale {ends}, where intervals end; `value_range` names another"]


def no_spread_notes(inference: Inference) -> list[str]:
    """Return a note on systems whose judgments are all equal."""
    sample = inference.sample
    several = (sample.counts > 1) & ~inference.exact
    bounded = bool((inference.unseen > 0).any())
    names = [sample.evalset.systems[index] for index in np.flatnonzero(without_spread(sample) & several)]
    if not names:
        return []
    means = "the scale's ends and the other systems limit their error" if bounded else "no standard error can be given"
    return [f"all judgments of {', '.join(names)} are equal: no spread was seen, so {means}"]
