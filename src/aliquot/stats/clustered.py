"""Means and shares of judgments that come in clusters: three people's choices on one item are not three items.

Invariant: the variance is never below that of independent judgments, so that a lucky pattern within few clusters cannot
pass for precision; with one judgment per cluster everything reduces to the textbook formula.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import ndtri, stdtrit

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, is_constant, largest_size

_SAME = 1e-14
"""Squared spread, relative to the values' scale of 1, that is rounding."""


@dataclass(frozen=True)
class Mean:
    """A mean with its interval; `n` judgments in `clusters` clusters. Ends are NaN where no spread could be seen."""

    mean: float
    se: float
    low: float
    high: float
    n: int
    clusters: int


@dataclass(frozen=True)
class Share:
    """A share of judgments with its Wilson interval; `effective_n` is the number of independent ones they are worth."""

    share: float
    low: float
    high: float
    n: int
    clusters: int
    effective_n: float


def normal_quantile(level: float) -> float:
    """Half width of a central interval of the standard normal distribution.

    >>> round(normal_quantile(0.95), 2)
    1.96
    """
    return float(ndtri(0.5 + _checked_level(level) / 2))


def student_quantile(level: float, df: float) -> float:
    """Half width of a central interval of Student's distribution; NaN without a degree of freedom.

    >>> round(student_quantile(0.95, 10), 2)
    2.23
    """
    _checked_level(level)
    return float(stdtrit(df, 0.5 + level / 2)) if df > 0 else float("nan")


def _checked_level(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise OptionError(f"level is {level}; choose between 0 and 1, for instance 0.95")
    return level


def wilson_interval(share: FloatArray | float, n: FloatArray | float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share (Wilson 1927); `n` counts independent judgments and need not be whole.

    >>> tuple(round(end, 3) for end in wilson_interval(86 / 148, 148))  # post-editors of German
    (0.501, 0.658)
    """
    z = normal_quantile(level)
    if not n > 0:
        return float("nan"), float("nan")
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def clustered_share(values: FloatArray, cluster: IntArray, level: float = 0.95) -> Share:
    """Share of judgments (1 yes, 0 no, 1/2 a tie) with Wilson's interval for clustered judgments.

    The variance of the share over clusters, g/(g-1) sum_c e_c^2 / n^2 with e_c = sum in c of (v - p), gives the
    effective number of judgments n* = p(1-p)/Var, times (z/t)^2 for few clusters (Korn and Graubard 1998; Dean and
    Pagano 2015 for Wilson's form). Where all judgments are equal there is no spread: n* is the number of clusters. The
    interval is NaN where several judgments come from one single cluster.

    >>> share = clustered_share(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    >>> share.share, share.effective_n < 2
    (0.5, True)
    """
    n, nothing = len(values), float("nan")
    if not n:
        return Share(nothing, nothing, nothing, 0, 0, nothing)
    share = float(values.mean())
    sums, g = _cluster_sums(values - share, cluster)
    plain = float(((values - share) ** 2).sum()) / n**2
    if g == 1 and n > 1:
        return Share(share, nothing, nothing, n, g, nothing)
    if plain * n <= _SAME:
        effective = float(g)
    elif g == n:
        effective = share * (1 - share) / plain
    else:
        variance = max(g / (g - 1) * float(sums @ sums) / n**2, plain)
        few = normal_quantile(level) / student_quantile(level, g - 1)
        effective = share * (1 - share) / variance * few**2
    low, high = wilson_interval(share, effective, level)
    return Share(share, low, high, n, g, effective)


def clustered_mean(values: FloatArray, cluster: IntArray, level: float = 0.95) -> Mean:
    """Mean of judgments with a t interval over clusters, Var = g/(g-1) sum_c e_c^2 / n^2, g - 1 degrees of freedom.

    The standard error and interval are NaN for one cluster, and where all values are equal.

    >>> mean = clustered_mean(np.array([1.0, 2.0, 3.0]), np.array([0, 1, 2]))
    >>> mean.mean, round(mean.se, 4)
    (2.0, 0.5774)
    """
    n, nothing = len(values), float("nan")
    if not n:
        return Mean(nothing, nothing, nothing, nothing, 0, 0)
    mean = float(values.mean())
    sums, g = _cluster_sums(values - mean, cluster)
    squares = float(((values - mean) ** 2).sum())
    if g < 2 or squares <= _SAME * max(1.0, mean**2):
        return Mean(mean, nothing, nothing, nothing, n, g)
    se = float(np.sqrt(max(g / (g - 1) * float(sums @ sums) / n**2, squares / (n * (n - 1)))))
    half = student_quantile(level, g - 1) * se
    return Mean(mean, se, mean - half, mean + half, n, g)


def _cluster_sums(deviations: FloatArray, cluster: IntArray) -> tuple[FloatArray, int]:
    """Sum of the deviations in each cluster that occurs, and how many do."""
    counts = np.bincount(cluster)
    sums = np.bincount(cluster, deviations)
    return np.asarray(sums[counts > 0], dtype=np.float64), int(np.count_nonzero(counts))


# -- Two groups, before and after: did one change more than the other? -----------------------------------------------


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

    `second` marks the people of the second group; NaN leaves a person out. Welch's t test, or Student's with
    `equal_variances`; p is NaN for fewer than two people in a group or without spread.

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
    size = float(largest_size(np.concatenate([start, after[known]])))
    test = _t_test(one, two, _checked_level(level), size, equal_variances=equal_variances)
    better = change < 0 if lower_is_better else change > 0
    return ChangeTest(
        n_first=len(one),
        n_second=len(two),
        change_first=_mean(one),
        change_second=_mean(two),
        difference=_mean(one) - _mean(two),
        **test,
        improved_first=_mean(better[~of_second].astype(np.float64)),
        improved_second=_mean(better[of_second].astype(np.float64)),
        p_improved=share_test(better[~of_second].sum(), len(one), better[of_second].sum(), len(two)),
        baseline_difference=_mean(start[~of_second]) - _mean(start[of_second]),
        p_baseline=_t_test(start[~of_second], start[of_second], level, size, equal_variances=equal_variances)["p"],
    )


def share_test(yes_first: int, n_first: int, yes_second: int, n_second: int) -> float:
    """Two-sided p that two shares are the same: chi-square without continuity correction, Fisher where cells are small.

    NaN where a group is empty; 1 where everybody, or nobody, says yes.

    >>> round(share_test(18, 43, 9, 38), 3)  # 42 % against 23 %
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


def _t_test(one: FloatArray, two: FloatArray, level: float, size: float, *, equal_variances: bool) -> dict[str, float]:
    """Student's or Welch's test and interval; NaN below two people in a group or without any spread."""
    if min(len(one), len(two)) < 2 or (is_constant(one, scale=size) and is_constant(two, scale=size)):
        return dict.fromkeys(("low", "high", "t", "df", "p"), float("nan"))
    found = stats.ttest_ind(one, two, equal_var=equal_variances)
    low, high = found.confidence_interval(level)
    values = (low, high, found.statistic, found.df, found.pvalue)
    return dict(zip(("low", "high", "t", "df", "p"), map(float, values), strict=True))


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")
