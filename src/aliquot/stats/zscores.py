"""Standard scores within groups; undefined (NaN), never 0, for a group too small or without spread.

Invariant: over the present values of every group that has scores, they sum to 0 and their squares to the group's size
(population standard deviation, divisor n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.grouping import group_sums


@dataclass(frozen=True, eq=False)
class GroupScores:
    """Standard scores, and what they were made of.

    Attributes:
        z: a score for each value, NaN where the value is missing or its group has none.
        mean: each group's mean, NaN for an empty group.
        sd: each group's standard deviation, divisor n.
        count: how many values each group has.
        constant: the groups that have enough values, all of them equal.
        few: the groups that have a value, but fewer than `minimum`.
    """

    z: FloatArray
    mean: FloatArray
    sd: FloatArray
    count: IntArray
    constant: BoolArray
    few: BoolArray


def group_zscores(values: FloatArray, groups: IntArray, minimum: int = 2) -> GroupScores:
    """Subtract each group's mean and divide by its standard deviation.

    >>> group_zscores(np.array([1.0, 3.0, 5.0, 5.0, 7.0]), np.array([0, 0, 1, 1, 2])).z
    array([-1.,  1., nan, nan, nan])
    """
    present = np.isfinite(values)
    groups = np.asarray(groups, dtype=np.int64)
    size = int(groups.max()) + 1 if len(groups) else 0
    count = np.bincount(groups[present], minlength=size)
    safe = np.maximum(count, 1)
    filled = np.where(present, values, 0.0)
    mean = group_sums(groups, filled, size) / safe
    centred = np.where(present, values - mean[groups], 0.0)
    # Two passes: the sum of squares of 0-100 ratings loses digits that the sum of squared deviations keeps.
    sd = np.sqrt(group_sums(groups, centred**2, size) / safe)
    flat = sd <= 1e-12 * np.maximum(1.0, np.abs(mean))
    few = (count > 0) & (count < max(minimum, 1))
    defined = (count > 0) & ~few & ~flat
    scale = np.where(defined, sd, np.nan)
    z = np.where(present, centred / scale[groups], np.nan)
    return GroupScores(z, np.where(count > 0, mean, np.nan), np.where(count > 0, sd, np.nan), count,
                       (count > 0) & ~few & flat, few)  # fmt: skip
