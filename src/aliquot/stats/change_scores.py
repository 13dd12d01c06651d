"""Two groups, before and after: did one change more than the other?

Change = after - before, for each person. Means are compared by Welch's t test (or Student's), the shares that
improved by a chi-square test or, where a cell is expected to hold fewer than five people, Fisher's exact test. Groups
are first compared before anything happened: randomised groups should not differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import stdtr

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray
from aliquot.stats.clustered import student_quantile

_FEW = 5.0


@dataclass(frozen=True)
class ChangeTest:
    """Change in two groups: means, their difference with interval, shares that improved, and how alike they began."""

    n_first: int
    n_second: int
    change_first: float
    change_second: float
    difference: float
    low: float
    high: float
    t: float
    df: float
    p: float
    improved_first: float
    improved_second: float
    p_improved: float
    baseline_difference: float
    p_baseline: float


def change_test(
    before: FloatArray,
    after: FloatArray,
    second: BoolArray,
    *,
    lower_is_better: bool = False,
    equal_variances: bool = False,
    level: float = 0.95,
) -> ChangeTest:
    """Compare the change of two groups.

    Args:
        before: One number per person; NaN = missing, which leaves the person out.
        after: The same after.
        second: Which people belong to the second group.
        lower_is_better: Whether a fall is an improvement.
        equal_variances: Student's t test with a pooled variance instead of Welch's.
        level: Coverage of the interval of the difference of changes.

    Returns:
        p-values that cannot be had (fewer than two people in a group, no spread) are NaN.

    Raises:
        OptionError: Arrays of different length.

    Example:
        >>> test = change_test(np.zeros(6), np.array([1.0, 2, 3, 4, 5, 6]), np.arange(6) > 2)
        >>> test.difference, round(test.p, 3)
        (-3.0, 0.021)
    """
    if not len(before) == len(after) == len(second):
        raise OptionError(
            f"before, after and group have {len(before)}, {len(after)} and {len(second)} values; give one each"
        )
    known = np.isfinite(before) & np.isfinite(after)
    change, start, of_second = (after - before)[known], before[known], np.asarray(second, dtype=np.bool_)[known]
    one, two = change[~of_second], change[of_second]
    t, df, p, se = _t_test(one, two, equal_variances=equal_variances)
    difference = _mean(one) - _mean(two)
    half = student_quantile(level, df) * se if np.isfinite(df) else float("nan")
    better = change < 0 if lower_is_better else change > 0
    return ChangeTest(
        n_first=len(one),
        n_second=len(two),
        change_first=_mean(one),
        change_second=_mean(two),
        difference=difference,
        low=difference - half,
        high=difference + half,
        t=t,
        df=df,
        p=p,
        improved_first=_mean(better[~of_second].astype(np.float64)),
        improved_second=_mean(better[of_second].astype(np.float64)),
        p_improved=share_test(better[~of_second].sum(), len(one), better[of_second].sum(), len(two)),
        baseline_difference=_mean(start[~of_second]) - _mean(start[of_second]),
        p_baseline=_t_test(start[~of_second], start[of_second], equal_variances=equal_variances)[2],
    )


def share_test(yes_first: int, n_first: int, yes_second: int, n_second: int) -> float:
    """Two-sided p that two shares are the same: chi-square without continuity correction, Fisher where cells are small.

    NaN where a group is empty; 1 where everybody, or nobody, says yes.

    >>> round(share_test(18, 43, 9, 38), 3)  # notes, P5: 42 % against 23 %
    0.083
    """
    table = np.array([[yes_first, n_first - yes_first], [yes_second, n_second - yes_second]], dtype=np.int64)
    if not n_first or not n_second:
        return float("nan")
    if (table.sum(axis=0) == 0).any():
        return 1.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    if expected.min() < _FEW:
        return float(stats.fisher_exact(table)[1])
    return float(stats.chi2_contingency(table, correction=False)[1])


def _t_test(one: FloatArray, two: FloatArray, *, equal_variances: bool) -> tuple[float, float, float, float]:
    """Statistic, degrees of freedom (Welch and Satterthwaite), two-sided p and standard error.

    All are NaN below two people in a group, or where neither group varies.
    """
    nothing = float("nan")
    if min(len(one), len(two)) < 2 or (_constant(one) and _constant(two)):
        return nothing, nothing, nothing, nothing
    variances, sizes = np.array([one.var(ddof=1), two.var(ddof=1)]), np.array([len(one), len(two)])
    df = float(sizes.sum() - 2)
    if equal_variances:
        parts = ((sizes - 1) * variances).sum() / df / sizes
    else:
        parts = variances / sizes
        df = float(parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum())
    se = float(np.sqrt(parts.sum()))
    t = (_mean(one) - _mean(two)) / se
    return t, df, float(2 * stdtr(df, -abs(t))), se


def _constant(values: FloatArray) -> bool:
    """Tell whether values differ by rounding only."""
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")
