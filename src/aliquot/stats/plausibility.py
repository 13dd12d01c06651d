"""Traces of mistakes in scores: codes for missing values, slips, and one person's judgments under two names.

The rules are meant for mistakes, not for noise: what a careful campaign can contain is left alone.
"""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray

MISSING_CODES = (-1, -9, -99, -999, -9999, 9, 88, 99, 888, 999, 8888, 9999, 99999)
"""Numbers that people write where a value is missing."""

_MAX_CODES = 3  # distinct values at one end that may be codes or slips
_MIN_RATIO = 8.0  # distance of a slip from the median, in distances of the farthest other value
_MAX_SLIPS = 0.02  # share of the values that may be slips
_MIN_EQUAL = 0.98  # share of equal values that makes two columns copies
_MAX_CHANCE = 1e-6  # of that many equal values between annotators who judge independently


# -- values outside the scale ----------------------------------------------------------------------------------------


def find_outside_values(values: FloatArray) -> list[float]:
    """Find codes for missing values and slips: values far outside the others, from the most extreme.

    Penalties and counts, whose values pile up at 0, have long tails by nature; there only codes are found.

    >>> find_outside_values(np.array([70.0, 80, 90, 65, 75, 999, 85, 78, 82, 88, 850]))
    [999.0, 850.0]
    """
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    high = _count_outside(distinct, counts)
    low = _count_outside(-distinct[: len(distinct) - high][::-1], counts[: len(distinct) - high][::-1])
    return [*distinct[len(distinct) - high :][::-1].tolist(), *distinct[:low].tolist()]


def _count_outside(distinct: FloatArray, counts: IntArray) -> int:
    """Count codes and slips at the high end of sorted distinct values: all from the innermost one that stands out."""
    for count in range(min(_MAX_CODES, len(distinct) - 2), 0, -1):
        inner = len(distinct) - count + 1
        if _is_outside(distinct[:inner], counts[:inner]):
            return count
    return 0


def _is_outside(distinct: FloatArray, counts: IntArray) -> bool:
    """Whether the largest of sorted distinct values is a code or a slip; the low end is tested with signs changed."""
    top, rest, weights = float(distinct[-1]), distinct[:-1], counts[:-1]
    gap, width = top - rest[-1], rest[-1] - rest[0]
    middle = rest[np.searchsorted(np.cumsum(weights), weights.sum() / 2)]
    reach = rest[-1] - middle
    # Penalties and counts pile up at 0 and have long tails: only large codes stand out.
    piled = rest[0] * rest[-1] >= 0 and weights[rest == 0].sum() > 0.1 * weights.sum()
    if top in MISSING_CODES or -top in MISSING_CODES:
        if gap >= width and (abs(top) >= 88 or not piled):
            return True
        # -1 on a scale of 0 and more (here: 1 above scores of 0 and less). Scales of -1, 0, 1 are common.
        if -top in MISSING_CODES and top > 0 and rest[-1] <= 0 and width > 2:
            return True
    rare = counts[-1] <= max(1.0, _MAX_SLIPS * counts.sum())
    return bool(rare and not piled and reach > 0 and top - middle > _MIN_RATIO * reach)


# -- copies ----------------------------------------------------------------------------------------------------------


def is_rescaled_copy(values: FloatArray, other: FloatArray) -> bool:
    """Whether a score is another one, perhaps in other units, but for a few values.

    >>> scores = np.random.default_rng(0).normal(size=50)
    >>> is_rescaled_copy(2 * scores + 1, scores), is_rescaled_copy(scores + 0.1, np.abs(scores))
    (True, False)
    """
    both = np.isfinite(values) & np.isfinite(other)
    x, y = values[both], other[both]
    if len(np.unique(x)) < 5 or len(np.unique(y)) < 5:
        return False
    # The line through two quantiles: a few corrected values do not move it.
    low, high = np.quantile(y, 0.1, method="nearest"), np.quantile(y, 0.9, method="nearest")
    if high <= low:
        low, high = y.min(), y.max()
    start, end = np.median(x[y == low]), np.median(x[y == high])
    line = start + (y - low) * (end - start) / (high - low)
    close = np.isclose(x, line, rtol=1e-6, atol=1e-6 * float(np.abs(x).max()))
    return bool(close.mean() >= _MIN_EQUAL and not np.isclose(start, end))


def find_copied_columns(values: FloatArray) -> list[tuple[int, int, int]]:
    """Find pairs of columns (annotators) that are equal on nearly all rows (outputs) that both have.

    Annotators may agree by chance, and more so on easy outputs: the chance of two equal values is taken from the pairs
    of columns that are no copies, or from the columns' own values where there are no others.

    Returns:
        First column, second column, rows that both have.

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
        both = present[:, first] & present[:, second]
        counts = np.unique(values[both, first], return_counts=True)[1] / both.sum()
        chance = max(float((counts**2).sum()), usual)
        if chance ** float(equal[first, second]) < _MAX_CHANCE:
            copies.append((int(first), int(second), int(shared[first, second])))
    return copies
