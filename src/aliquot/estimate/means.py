"""Means: of the judged items, and of bins of them (METHODS.md section 4)."""

from __future__ import annotations

import numpy as np

from aliquot.data.groups import group_codes
from aliquot.errors import DataError
from aliquot.estimate.fitted import Fitted, estimator
from aliquot.estimate.sample import Sample
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.design_variance import contributions
from aliquot.stats.regression import weighted_means

_ENOUGH = 8


@estimator("mean")
def mean(sample: Sample) -> Fitted:
    """The weighted mean of the judged items (Hajek); the plain mean for equal chances."""
    return Fitted(weighted_means(sample.scores, sample.weight), contributions(sample.scores, sample.weight))


@estimator("stratified")
def stratified(sample: Sample, *, bins: str | None = None) -> Fitted:
    """The mean of bin means, weighted by the bins' sizes in the whole set.

    Args:
        bins: an item column (document, domain, ...) to post-stratify by; the design's own bins by default.
    """
    if bins is None and sample.stratum is not None:
        return _by_design_bins(sample, sample.stratum)
    codes, merged = _bins(sample, bins)
    notes = (f"{merged} bins with too few judged items were joined with similar ones",) if merged else ()
    judged = codes[sample.rows]
    sizes = np.bincount(codes)
    weight = _calibrated(sample.weight, judged, sizes)
    means = _bin_means(sample.scores, judged, sample.weight, len(sizes))
    values = weighted_means(sample.scores, weight)
    z = contributions(sample.scores - means[judged], weight)
    if sample.kind != "stratified":  # there the design's variance counts each bin's degrees of freedom itself
        count = np.bincount(judged, minlength=len(sizes))[judged]
        z = z * np.sqrt(count / np.maximum(count - 1, 1))[:, None]
    return Fitted(values, z, notes=notes, details={"bins": len(sizes)})


def _by_design_bins(sample: Sample, stratum: IntArray) -> Fitted:
    """The design's own bins: its weights add up to their sizes already."""
    means = _bin_means(sample.scores, stratum, sample.weight, int(stratum.max()) + 1)
    z = contributions(sample.scores - means[stratum], sample.weight)
    if sample.kind != "stratified":
        count = np.bincount(stratum)[stratum]
        z = np.where((count > 1)[:, None], z, contributions(sample.scores, sample.weight))
        z = z * np.sqrt(np.where(count > 1, count / np.maximum(count - 1, 1), 1.0))[:, None]
    return Fitted(weighted_means(sample.scores, sample.weight), z, details={"bins": int(stratum.max()) + 1})


def _calibrated(weight: FloatArray, judged: IntArray, sizes: IntArray) -> FloatArray:
    """Scale the weights so that they add up to the bin's size in every bin."""
    total = np.bincount(judged, weight, minlength=len(sizes))
    scaled: FloatArray = weight * (sizes / np.where(total > 0, total, 1.0))[judged]
    return scaled


def _bin_means(scores: FloatArray, codes: IntArray, weight: FloatArray, bins: int) -> FloatArray:
    """Weighted mean of each bin and system; the system's own mean where a bin has nothing of it."""
    share = np.where(np.isfinite(scores), weight[:, None], 0.0)
    total, count = np.zeros((bins, scores.shape[1])), np.zeros((bins, scores.shape[1]))
    np.add.at(total, codes, np.where(np.isfinite(scores), scores, 0.0) * share)
    np.add.at(count, codes, share)
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), weighted_means(scores, weight))


def _bins(sample: Sample, bins: str | None) -> tuple[IntArray, int]:
    """Bin of every item of the population, each with enough judged items, and how many bins were given up for it."""
    evalset = sample.evalset
    if bins in (None, "document"):
        codes = evalset.documents
        if codes is None and bins is None and sample.quality is not None:
            codes = np.argsort(np.argsort(sample.quality)) * 10 // evalset.n_items
        if codes is None:
            raise DataError(f"{evalset.name}: there are no documents to stratify by; use stratified:bins=COLUMN")
    else:
        codes = group_codes(evalset, str(bins))
    return _joined(codes, sample)


def _joined(codes: IntArray, sample: Sample) -> tuple[IntArray, int]:
    """Join bins, in the order of their mean quality (or as they come), until each has enough judged items."""
    sizes = np.bincount(codes)
    judged = codes[sample.rows]
    if sample.kind == "clustered":  # whole documents are the evidence: count those, not their items
        judged = judged[np.unique(sample.clusters, return_index=True)[1]]
    counts = np.bincount(judged, minlength=len(sizes))
    if (counts >= 2).all():
        return codes, 0
    quality = sample.quality
    key = np.arange(len(sizes)) if quality is None else np.bincount(codes, quality) / np.maximum(sizes, 1)
    new, current, gathered = np.zeros(len(sizes), dtype=np.int64), 0, 0
    for code in np.argsort(key, kind="stable"):
        if gathered >= _ENOUGH:
            current, gathered = current + 1, 0
        new[code] = current
        gathered += counts[code]
    if gathered < _ENOUGH and current > 0:
        new[new == current] = current - 1
    return new[codes], len(sizes) - int(new.max()) - 1
