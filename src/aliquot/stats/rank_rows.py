"""Rank correlation of every row of a table with one target, all rows at once.

Invariant: every value equals scipy's on the row without its missing cells; where scipy has none it is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray

KendallVariant = Literal["b", "c"]

_CHUNK = 1 << 21
"""Comparisons held in memory at a time."""


def kendall_rows(values: FloatArray, target: FloatArray, variant: KendallVariant = "c") -> FloatArray:
    """Kendall's tau of every row with the target (Zouhar et al. 2025, eq. 5: `metric_cons`).

    With C concordant and D discordant pairs of systems, tau-b is (C - D) / sqrt(pairs untied in the row x pairs
    untied in the target), tau-c is 2 (C - D) / (n^2 (m - 1) / m), m the smaller number of distinct values.

    Args:
        values: Items x systems, NaN = missing.
        target: One value per system, NaN = missing.
        variant: "b" or "c".

    Returns:
        One correlation per row, 0 where it is undefined (a constant row, or fewer than two systems).

    Raises:
        OptionError: Shapes that do not match, or another variant.

    Example:
        >>> rows = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [5.0, np.nan, 5.0]])
        >>> kendall_rows(rows, np.array([0.1, 0.2, 0.3]), "b")
        array([ 1., -1.,  0.])
    """
    if variant not in get_args(KendallVariant):
        raise OptionError(f"variant is {variant!r}; give 'b' or 'c'")
    values, target = _known_systems(values, target)
    first, second = np.triu_indices(len(target), 1)
    target_sign = _sign(target[first], target[second])
    result = np.zeros(len(values))
    for rows in _chunks(len(values), len(first)):
        block = values[rows]
        present = ~np.isnan(block)
        sign = _sign(block[:, first], block[:, second])
        untied_row = np.abs(sign).sum(axis=1)
        untied_target = (present[:, first] & present[:, second]) @ np.abs(target_sign)
        if variant == "b":
            scale = np.sqrt(untied_row * untied_target)
        else:
            classes = np.minimum(_distinct_rows(block), _distinct_target(target, present))
            scale = present.sum(axis=1) ** 2 * (classes - 1) / np.maximum(classes, 1) / 2
        defined = (untied_row > 0) & (untied_target > 0)
        np.divide(sign @ target_sign, scale, out=result[rows], where=defined)
    return np.clip(result, -1.0, 1.0)


def spearman_rows(values: FloatArray, target: FloatArray) -> FloatArray:
    """Spearman's rho of every row with the target (Zouhar et al. 2025, eq. 5), ties with their mean rank.

    A system's rank less the mean rank is half the sum of the signs of its comparisons, so that rows with missing
    cells need no ranking of their own.

    Args:
        values: Items x systems, NaN = missing.
        target: One value per system, NaN = missing.

    Returns:
        One correlation per row, 0 where it is undefined.

    Raises:
        OptionError: Shapes that do not match.

    Example:
        >>> spearman_rows(np.array([[1.0, 3.0, 2.0]]), np.array([0.1, 0.2, 0.3]))
        array([0.5])
    """
    values, target = _known_systems(values, target)
    target_sign = _sign(target[:, None], target)
    result = np.zeros(len(values))
    for rows in _chunks(len(values), target_sign.size):
        block = values[rows]
        present = (~np.isnan(block)).astype(np.float64)
        row_rank = _sign(block[:, :, None], block[:, None, :]).sum(axis=2)
        target_rank = present * (present @ target_sign.T)
        scale = np.sqrt((row_rank**2).sum(axis=1) * (target_rank**2).sum(axis=1))
        np.divide((row_rank * target_rank).sum(axis=1), scale, out=result[rows], where=scale > 0)
    return np.clip(result, -1.0, 1.0)


def _known_systems(values: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Drop the systems without a target, after a look at the shapes."""
    if values.ndim != 2 or target.shape != values.shape[1:]:
        raise OptionError(
            f"values has shape {values.shape} and target {target.shape}; give items x systems and one per system"
        )
    known = ~np.isnan(target)
    return values[:, known], target[known]


def _chunks(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _CHUNK // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, start + step)


def _sign(left: FloatArray, right: FloatArray) -> FloatArray:
    """Sign of left - right by comparison: 0 where either is NaN, and right for infinities."""
    return (left > right).astype(np.float64) - (left < right)


def _distinct_rows(block: FloatArray) -> FloatArray:
    """Number of different values in every row, missing ones aside (they sort to the end and exceed nothing)."""
    ordered = np.sort(block, axis=1)
    rises = (ordered[:, 1:] > ordered[:, :-1]).sum(axis=1)
    return np.asarray(rises + (~np.isnan(block)).any(axis=1), dtype=np.float64)


def _distinct_target(target: FloatArray, present: BoolArray) -> FloatArray:
    """Number of different target values among the systems that every row has."""
    groups = target[:, None] == np.unique(target)
    return np.asarray((present @ groups).sum(axis=1), dtype=np.float64)
