"""All pairs of outputs within rows of two tables, block by block: how people order them and how a metric does.

Invariant: every pair of cells that both tables have appears exactly once; a difference within rounding is a tie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray

HUMAN_TIE, METRIC_TIE, CONCORDANT, DISCORDANT = 0, 1, 2, 3
"""What a pair is: tied by people (whatever the metric says), tied by the metric only, ordered alike, or opposite."""

ROUNDING = 1e-13
"""Difference of two scores, relative to the largest, that is rounding: 0.3 - 0.2 and 0.2 - 0.1 are the same."""

_BLOCK = 1 << 19
"""Pairs gathered before a block is handed over."""


@dataclass(frozen=True, eq=False)
class PairBlock:
    """Some of the pairs, in no order.

    Attributes:
        gap: Absolute difference of the metric, 0 for a tie.
        kind: `HUMAN_TIE`, `METRIC_TIE`, `CONCORDANT` or `DISCORDANT`, as numbers of one byte.
        row: The row both cells are in.
    """

    gap: FloatArray
    kind: IntArray
    row: IntArray


def pair_blocks(metric: FloatArray, human: FloatArray, least_difference: float = 0.0) -> Iterator[PairBlock]:
    """Go through all pairs of cells of the same row, by their distance in columns.

    Args:
        metric: Rows x columns, NaN = missing (in both tables alike, see `correlation.common_tables`).
        human: The same shape.
        least_difference: Human differences below this are ties; 0 leaves only equal scores.

    Yields:
        Blocks of about half a million pairs (more where one distance in a large table has more).

    Example:
        >>> block, = pair_blocks(np.array([[1.0, 2.0, 2.0]]), np.array([[5.0, 6.0, 7.0]]))
        >>> block.gap, block.kind
        (array([1., 0., 1.]), array([2, 1, 2], dtype=int8))
    """
    slack = rounding(human)
    metric_tie, human_tie = rounding(metric), max(slack, least_difference - 2 * slack)
    rows = np.arange(len(metric))[:, None]
    complete = not np.isnan(metric).any()
    parts: list[tuple[FloatArray, IntArray, IntArray]] = []
    held = 0
    for lag in range(1, metric.shape[1]):
        change, wanted = metric[:, lag:] - metric[:, :-lag], human[:, lag:] - human[:, :-lag]
        row = np.broadcast_to(rows, change.shape)
        if not complete:
            there = ~np.isnan(change)
            change, wanted, row = change[there], wanted[there], row[there]
        parts.append((*_judged(change.ravel(), wanted.ravel(), metric_tie, human_tie), row.ravel()))
        held += change.size
        if held >= _BLOCK:
            yield _joined(parts)
            parts, held = [], 0
    if held:
        yield _joined(parts)


def rounding(values: FloatArray) -> float:
    """Largest difference of two of the values that is taken for a tie.

    >>> rounding(np.array([3.0, -20.0]))
    2e-12
    """
    return ROUNDING * float(np.nanmax(np.abs(values), initial=0.0)) if not np.isnan(values).all() else 0.0


def pairs_per_row(values: FloatArray) -> IntArray:
    """Count the pairs of cells present in every row.

    >>> pairs_per_row(np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]]))
    array([3, 1])
    """
    present = (~np.isnan(values)).sum(axis=1, dtype=np.int64)
    return np.asarray(present * (present - 1) // 2, dtype=np.int64)


def _judged(change: FloatArray, wanted: FloatArray, metric_tie: float, human_tie: float) -> tuple[FloatArray, IntArray]:
    gap = np.abs(change)
    kind = ((change > 0) != (wanted > 0)).view(np.int8) + np.int8(CONCORDANT)
    tied = gap <= metric_tie
    gap[tied] = 0.0
    kind[tied] = METRIC_TIE
    kind *= (np.abs(wanted) > human_tie).view(np.int8)  # HUMAN_TIE is 0
    return gap, kind


def _joined(parts: list[tuple[FloatArray, IntArray, IntArray]]) -> PairBlock:
    if len(parts) == 1:
        return PairBlock(*parts[0])
    return PairBlock(*(np.concatenate(column) for column in zip(*parts, strict=True)))
