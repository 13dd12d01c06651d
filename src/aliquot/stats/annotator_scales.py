"""Annotators who use another scale than the others, or a reversed one.

The rules find mistakes, not differences in severity: the ratio of a severe annotator's quantiles to the others' changes
along the scale, while that of a scale of 0 to 10 among 0 to 100 is constant. A careless annotator correlates with
nobody; a reversed one correlates clearly negatively.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray, average_ranks
from aliquot.stats.correlation import pearson

MIN_JUDGMENTS = 10
"""Minimum number of judgments for an annotator to be compared."""

_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_MIN_FACTOR = 4.0  # scales differ by a factor of 5 (1 to 5 among 1 to 25) or more
_MAX_RATIO_CHANGE = 2.0  # largest change of the ratio along the scale
_MIN_Z = 4.0  # z of a correlation below 0
_MIN_MIRROR_GAIN = 0.25  # minimum decrease of the Kolmogorov-Smirnov distance when values are mirrored
_MIN_CORRELATION = 0.1  # size of the correlation, negative for the annotator and positive for the typical other


@dataclass(frozen=True)
class ScaleMismatch:
    """An annotator whose values are `factor` times those of the others, with the central 80% of both."""

    annotator: int
    judgments: int
    factor: float
    own: tuple[float, float]
    others: tuple[float, float]


@dataclass(frozen=True)
class ReversedAnnotator:
    """A reversed annotator: correlation with a reference, and the median correlation of the others."""

    annotator: int
    judgments: int
    correlation: float
    typical: float


def find_scale_mismatches(values: FloatArray, annotator: IntArray) -> list[ScaleMismatch]:
    """Find annotators whose quantiles are a constant multiple (above 4, below 1/4, or negative) of the others'.

    >>> scores = np.tile(np.arange(5.0, 100.0, 5.0), 4)
    >>> people = np.repeat(np.arange(4), 19)
    >>> [round(found.factor, 3) for found in find_scale_mismatches(np.where(people == 2, scores / 10, scores), people)]
    [0.1]
    """
    people = _frequent_annotators(annotator)
    if len(people) < 2:
        return []
    quantiles = np.array([np.quantile(values[annotator == person], _QUANTILES) for person in people])
    mismatches = []
    for row, person in enumerate(people):
        typical = np.median(np.delete(quantiles, row, axis=0), axis=0)
        factor = _scale_factor(quantiles[row], typical)
        if factor is not None:
            ends = ((float(part[0]), float(part[-1])) for part in (quantiles[row], typical))
            mismatches.append(ScaleMismatch(int(person), int((annotator == person).sum()), factor, *ends))
    return mismatches


def _scale_factor(values: FloatArray, typical: FloatArray) -> float | None:
    """Return the ratio of two sets of quantiles if it is constant and far from 1."""
    if (values <= 0).all() and (typical >= 0).all() and (values < 0).sum() > 2 and (typical > 0).sum() > 2:
        return float(values.mean() / typical.mean())
    if (values >= 0).all() and (typical <= 0).all() and (values > 0).sum() > 2 and (typical < 0).sum() > 2:
        return float(values.mean() / typical.mean())
    nonzero = (typical != 0) & (values != 0)
    if nonzero.sum() < 4:  # mostly zeros, as in error counts: scale and rate cannot be distinguished
        return None
    ratio = values[nonzero] / typical[nonzero]
    middle = float(np.median(ratio))
    if ratio.min() <= 0 or ratio.max() > _MAX_RATIO_CHANGE * ratio.min() or 1 / _MIN_FACTOR < middle < _MIN_FACTOR:
        return None
    return middle


def find_reversed_annotators(values: FloatArray, annotator: IntArray, reference: FloatArray) -> list[ReversedAnnotator]:
    """Find annotators whose values correlate negatively with the reference (metrics, or the others' means).

    A weak negative correlation suffices if the mirrored values are distributed like the others'.

    >>> truth = np.random.default_rng(0).normal(size=90)
    >>> people = np.repeat(np.arange(3), 30)
    >>> [found.annotator for found in find_reversed_annotators(np.where(people == 1, -truth, truth), people, truth)]
    [1]
    """
    present = np.isfinite(reference)
    values, annotator, reference = values[present], annotator[present], reference[present]
    people = _frequent_annotators(annotator)
    if len(people) < 3:
        return []

    rows_of = [annotator == person for person in people]
    correlations = np.array([pearson(average_ranks(values[rows]), average_ranks(reference[rows])) for rows in rows_of])
    ends = float(values.min() + values.max())
    result = []
    for place, (person, rows, correlation) in enumerate(zip(people, rows_of, correlations, strict=True)):
        rest_r = np.delete(correlations, place)
        typical = float(np.median(rest_r[np.isfinite(rest_r)])) if np.isfinite(rest_r).any() else 0.0
        size = int(rows.sum())
        z = np.arctanh(np.clip(correlation, -0.999999, 0.999999)) * np.sqrt(max(1.0, size - 3.0))
        mirrored = correlation < 0 and _fits_when_mirrored(values[rows], values[~rows], ends)
        if typical > _MIN_CORRELATION and ((z < -_MIN_Z and correlation < -_MIN_CORRELATION) or mirrored):
            result.append(ReversedAnnotator(int(person), size, float(correlation), typical))
    return result


def _fits_when_mirrored(values: FloatArray, other_values: FloatArray, ends: float) -> bool:
    """Return whether values are distributed like the others' only when mirrored."""
    grid, other_values = np.unique(np.concatenate([values, ends - values, other_values])), np.sort(other_values)
    expected = np.searchsorted(other_values, grid, "right") / len(other_values)
    distance, mirrored = (
        np.abs(np.searchsorted(np.sort(part), grid, "right") / len(part) - expected).max()
        for part in (values, ends - values)
    )
    return bool(distance - mirrored > _MIN_MIRROR_GAIN)


def _frequent_annotators(annotator: IntArray) -> IntArray:
    people, counts = np.unique(annotator, return_counts=True)
    return people[counts >= MIN_JUDGMENTS]
