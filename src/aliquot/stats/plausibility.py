"""Plausibility of scores: codes for missing values, typing errors, reversed scores, duplicate annotators.

The rules find mistakes, not noise: data of careful campaigns pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray, scaled_ranks

MISSING_CODES = (-1, -9, -99, -999, -9999, 9, 88, 99, 888, 999, 8888, 9999, 99999)
"""Numbers that are commonly written for missing values."""

_MAX_CODES = 3  # maximum number of distinct codes or typing errors at one end
_MIN_RATIO = 8.0  # distance of a typing error from the median, relative to the farthest other value
_MAX_SLIPS = 0.02  # maximum share of typing errors
_MIN_EQUAL = 0.98  # share of equal values from which two columns are copies
_MIN_REVERSED = (0.05, 0.3)  # size of a negative correlation with people, and with the other scores
_MIN_Z = 3.0  # z over items
_MIN_ITEMS = 20
_MAX_CHANCE = 1e-6  # maximum probability of so many equal values of independent annotators


# -- Values outside the scale ------------------------------------------------------------------------------------------


def find_outside_values(values: FloatArray) -> list[float]:
    """Find codes for missing values and typing errors: values far outside the others, the most extreme first.

    Penalties and counts, concentrated at 0, have long tails; only codes are reported there.

    >>> find_outside_values(np.array([70.0, 80, 90, 65, 75, 999, 85, 78, 82, 88, 850]))
    [999.0, 850.0]
    """
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    high = _count_outside(distinct, counts)
    low = _count_outside(-distinct[: len(distinct) - high][::-1], counts[: len(distinct) - high][::-1])
    return [*distinct[len(distinct) - high :][::-1].tolist(), *distinct[:low].tolist()]


def _count_outside(distinct: FloatArray, counts: IntArray) -> int:
    """Count outlying values at the high end of sorted distinct values."""
    codes = np.isin(np.abs(distinct), np.abs(MISSING_CODES))
    frequent = (counts > max(1.0, _MAX_SLIPS * counts.sum())) & ~codes
    for count in range(min(_MAX_CODES, len(distinct) - 2), 0, -1):
        inner = len(distinct) - count + 1
        if not frequent[inner:].any() and _is_outside(distinct[:inner], counts[:inner]):
            return count
    return 0


def _is_outside(distinct: FloatArray, counts: IntArray) -> bool:
    """Return whether the largest of sorted distinct values is a code or a typing error."""
    top, inner, weights = float(distinct[-1]), distinct[:-1], counts[:-1]
    gap, width = top - inner[-1], inner[-1] - inner[0]
    middle = inner[np.searchsorted(np.cumsum(weights), weights.sum() / 2)]
    reach = inner[-1] - middle
    # Penalties and counts are concentrated at 0 and have long tails: only large codes stand out.
    piled = inner[0] * inner[-1] >= 0 and weights[inner == 0].sum() > 0.1 * weights.sum()
    if top in MISSING_CODES or -top in MISSING_CODES:
        if gap >= width and (abs(top) >= 88 or not piled):
            return True
        # -1 on a scale of 0 and more (here: 1 above scores of 0 and less). Scales of -1, 0, 1 are common.
        if -top in MISSING_CODES and top > 0 and inner[-1] <= 0 and width > 2:
            return True
    rare = counts[-1] <= max(1.0, _MAX_SLIPS * counts.sum())
    return bool(rare and not piled and reach > 0 and top - middle > _MIN_RATIO * reach)


# -- Copies and reversed scores ----------------------------------------------------------------------------------------


def is_rescaled_copy(values: FloatArray, reference: FloatArray) -> bool:
    """Return whether a score is a linear transform of another one, up to a few values.

    >>> scores = np.random.default_rng(0).normal(size=50)
    >>> is_rescaled_copy(2 * scores + 1, scores), is_rescaled_copy(scores + 0.1, np.abs(scores))
    (True, False)
    """
    shared = np.isfinite(values) & np.isfinite(reference)
    x, y = values[shared], reference[shared]
    if len(np.unique(x)) < 5 or len(np.unique(y)) < 5:
        return False
    # The line through two quantiles is robust to a few corrected values.
    low, high = np.quantile(y, 0.1, method="nearest"), np.quantile(y, 0.9, method="nearest")
    if high <= low:
        low, high = y.min(), y.max()
    start, end = np.median(x[y == low]), np.median(x[y == high])
    line = start + (y - low) * (end - start) / (high - low)
    close = np.isclose(x, line, rtol=1e-6, atol=1e-6 * float(np.abs(x).max()))
    return bool(close.mean() >= _MIN_EQUAL and not np.isclose(start, end))


@dataclass(frozen=True)
class ReversedScore:
    """A score that correlates negatively with others."""

    index: int
    correlation: float
    with_people: bool  # whether the correlation is with people or with the mean of the other scores


def find_reversed_scores(scores: Sequence[FloatArray], people: FloatArray | None = None) -> list[ReversedScore]:
    """Find scores (items x systems) that correlate negatively with people's or with the mean of the others.

    Correlations are of ranks within systems. A score that correlates positively with people is not reversed.

    >>> truth = np.random.default_rng(0).normal(size=(60, 4))
    >>> noisy = [truth + np.random.default_rng(seed).normal(size=(60, 4)) for seed in (1, 2, 3)]
    >>> [score.index for score in find_reversed_scores([noisy[0], -noisy[1], noisy[2]])]
    [1]
    """
    columns = [centred_ranks(values) for values in scores]
    target = None if people is None else centred_ranks(people)
    present = [np.isfinite(values) for values in columns]
    total = np.sum(
        [np.where(is_present, values, 0.0) for is_present, values in zip(present, columns, strict=True)], axis=0
    )
    count = np.sum(present, axis=0)
    reversed_scores = []
    for index, (values, is_present) in enumerate(zip(columns, present, strict=True)):
        correlation, error = (np.nan, np.nan) if target is None else _clustered_correlation(values, target)
        if correlation < -_MIN_REVERSED[0] and error < -_MIN_Z:
            reversed_scores.append(ReversedScore(index, correlation, with_people=True))
        elif target is None or correlation < 0:
            other_count = count - is_present
            other_means = np.where(
                other_count > 0, (total - np.where(is_present, values, 0.0)) / np.maximum(other_count, 1), np.nan
            )
            correlation, error = _clustered_correlation(values, other_means)
            if correlation < -_MIN_REVERSED[1] and error < -_MIN_Z:
                reversed_scores.append(ReversedScore(index, correlation, with_people=False))
    return reversed_scores


def _clustered_correlation(values: FloatArray, reference: FloatArray) -> tuple[float, float]:
    """Return the correlation of centred values and its z over items; NaN for few items."""
    shared = np.isfinite(values) & np.isfinite(reference)
    x, y = np.where(shared, values, 0.0), np.where(shared, reference, 0.0)
    products, size = (x * y).sum(axis=1), float(np.sqrt((x**2).sum() * (y**2).sum()))
    error = float(np.sqrt((products**2).sum()))
    if shared.any(axis=1).sum() < _MIN_ITEMS or size <= 0 or error <= 0:
        return np.nan, np.nan
    return float(products.sum()) / size, float(products.sum()) / error


def centred_ranks(values: FloatArray) -> FloatArray:
    """Return scaled ranks less the mean of each system (column)."""
    ranked = scaled_ranks(values)
    counts = np.maximum(np.isfinite(values).sum(axis=0), 1)
    return np.asarray(ranked - np.nansum(ranked, axis=0) / counts)


def find_copied_columns(values: FloatArray) -> list[tuple[int, int, int]]:
    """Find pairs of columns (annotators) that are equal on nearly all common rows (outputs).

    Annotators may agree by chance, and more on easy outputs: the probability of equal values is estimated from other
    pairs of columns, or from the columns' own values.

    Returns:
        First column, second column, number of common rows.

    >>> scores = np.random.default_rng(0).integers(0, 100, (30, 3)).astype(float)
    >>> find_copied_columns(np.column_stack([scores, scores[:, 1]]))
    [(1, 3, 30)]
    """
    present = np.isfinite(values)
    shared, equal = np.zeros((2, values.shape[1], values.shape[1]), dtype=np.int64)
    for column in range(values.shape[1]):
        rows = present[:, column]
        shared[column] = present[rows].sum(axis=0)
        equal[column] = (values[rows] == values[rows, column][:, None]).sum(axis=0)
    shares = equal / np.maximum(shared, 1)
    compared = np.triu(shared >= 10, 1)
    usual = float(np.max(shares, where=compared & (shares < _MIN_EQUAL), initial=0.0))
    copies = []
    for first, second in np.argwhere(compared & (shares >= _MIN_EQUAL)):
        common = present[:, first] & present[:, second]
        counts = np.unique(values[common, first], return_counts=True)[1] / common.sum()
        chance = max(float((counts**2).sum()), usual)
        if chance ** float(equal[first, second]) < _MAX_CHANCE:
            copies.append((int(first), int(second), int(shared[first, second])))
    return copies
