"""Parity: how much of a random sample's budget a method needs to be as good (METHODS.md section 6).

Invariant: a target that is never reached is counted as such and never turned into a number; a target that is itself
unknown is neither reached nor missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import FloatArray


@dataclass(frozen=True)
class Parity:
    """The mean of C/B over the budgets B; infinite when some target was never reached.

    Attributes:
        value: the mean over all budgets; NaN when some target is unknown.
        reached: the mean over those budgets whose target was reached; NaN for none.
        missed: how many targets were never reached.
    """

    value: float
    reached: float
    missed: int


def first_crossings(budgets: FloatArray, curve: FloatArray, targets: FloatArray, *, between: bool = True) -> FloatArray:
    """Smallest budget at which a curve reaches each target.

    Args:
        budgets: ascending.
        curve: higher is better, one value per budget.
        targets: values to reach.
        between: interpolate between two points of the curve, in log budget; otherwise the first point that is enough.

    Returns:
        One budget per target; the first budget where it is already enough; infinite where the curve never gets there,
        NaN where the target is not known.

    >>> first_crossings(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.7, 0.9]), np.array([0.4, 0.8, 0.95])).round(2)
    array([1.  , 2.83,  inf])
    """
    above = curve[None, :] >= targets[:, None]
    at = above.argmax(axis=1)
    before = np.maximum(at - 1, 0)
    rise = curve[at] - curve[before]
    part = np.divide(targets - curve[before], rise, out=np.ones_like(targets), where=rise > 0)
    logs = np.log(budgets)
    crossing = np.exp(logs[before] + np.clip(part, 0.0, 1.0) * (logs[at] - logs[before]))
    reached = np.where(above.any(axis=1), np.where((at > 0) & between, crossing, budgets[at]), np.inf)
    return np.where(np.isnan(targets), np.nan, reached)


def parity_of(reached: FloatArray, budgets: FloatArray) -> Parity:
    """Average C/B.

    >>> parity_of(np.array([1.0, np.inf]), np.array([2.0, 4.0]))
    Parity(value=inf, reached=0.5, missed=1)
    """
    ratio = reached / budgets
    finite = np.isfinite(ratio)
    return Parity(
        float(ratio.mean()),
        float(ratio[finite].mean()) if finite.any() else float("nan"),
        int(np.isposinf(ratio).sum()),
    )
