"""Means and shares of clustered judgments: three choices on one item are not independent.

Invariant: the variance is never below that of independent judgments, because few clusters may agree by chance; with one
judgment per cluster everything reduces to the textbook formula.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, ndtri, stdtrit

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, is_constant, max_abs
from aliquot.stats.proportions import korn_graubard, tango_interval, validate_level

_ROUNDING = 1e-14
"""Squared spread, relative to the values' scale of 1, that is rounding."""


@dataclass(frozen=True)
class ClusteredMean:
    """A mean with its interval; `n` judgments in `clusters` clusters. Ends are NaN where the spread is unknown."""

    mean: float
    se: float
    low: float
    high: float
    n: int
    clusters: int


@dataclass(frozen=True)
class ClusteredShare:
    """A share of `n` judgments in `clusters` clusters, or a difference of two shares, with its interval."""

    share: float
    low: float
    high: float
    n: int
    clusters: int


def normal_quantile(level: float) -> float:
    """Return the half width of a central interval of the standard normal distribution.

    >>> round(normal_quantile(0.95), 2)
    1.96
    """
    validate_level(level)
    return float(ndtri(0.5 + level / 2))


def student_quantile(level: float, df: float) -> float:
    """Return the half width of a central interval of Student's t distribution; NaN for df <= 0.

    >>> round(student_quantile(0.95, 10), 2)
    2.23
    """
    validate_level(level)
    return float(stdtrit(df, 0.5 + level / 2)) if df > 0 else float("nan")


def clustered_share(values: FloatArray, cluster: IntArray, level: float = 0.95) -> ClusteredShare:
    """Return a share of judgments (1 yes, 0 no, 1/2 tie) with the Korn-Graubard interval for clusters.

    The variance of the share over clusters is g/(g-1) sum_c e_c^2 / n^2 with e_c = sum in c of (v - p), times
    (t_{g-1} / t_{n-1})^2 for few clusters. Where all judgments are equal the effective size is the number of clusters.
    The interval is NaN where several judgments come from one single cluster.

    >>> share = clustered_share(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))  # two items are not four
    >>> share.share, round(share.low, 3), round(share.high, 3)
    (0.5, 0.0, 1.0)
    """
    spread = _mean_variance(values, cluster, level)
    size = spread.clusters if spread.plain * spread.n <= _ROUNDING else spread.n
    ends = korn_graubard(np.array([spread.mean]), np.array([spread.variance]), np.array([float(size)]), level)
    return ClusteredShare(spread.mean, ends[0].item(), ends[1].item(), spread.n, spread.clusters)


def clustered_difference(values: FloatArray, cluster: IntArray, level: float = 0.95) -> ClusteredShare:
    """Return a difference of paired shares (1 only first, -1 only second, 0 both or none) with Tango's interval.

    The interval uses n* = n / deff pairs, with deff the ratio of the variance over clusters to that of independent
    pairs, as in `clustered_share`.

    >>> gap = clustered_difference(np.array([1.0] * 3 + [0.0] * 17), np.arange(20))
    >>> gap.share, round(gap.low, 3), round(gap.high, 3)
    (0.15, -0.035, 0.36)
    """
    spread = _mean_variance(values, cluster, level)
    equal = spread.plain * spread.n <= _ROUNDING
    size = np.array([spread.clusters if equal else spread.n * spread.plain / spread.variance])
    first, second = (np.count_nonzero(values == sign) / max(1, spread.n) * size for sign in (1, -1))
    ends = tango_interval(first, second, size, level)
    return ClusteredShare(spread.mean, ends[0].item(), ends[1].item(), spread.n, spread.clusters)


@dataclass(frozen=True)
class _MeanVariance:
    """A mean with its variance for independent judgments (`plain`) and over clusters; NaN for a single cluster."""

    mean: float
    plain: float
    variance: float
    n: int
    clusters: int


def _mean_variance(values: FloatArray, cluster: IntArray, level: float) -> _MeanVariance:
    n, nan = len(values), float("nan")
    if not n:
        return _MeanVariance(nan, nan, nan, 0, 0)
    mean = float(values.mean())
    sums, g = _cluster_sums(values - mean, cluster)
    plain = float(((values - mean) ** 2).sum()) / n**2
    if g == n:
        return _MeanVariance(mean, plain, plain, n, g)
    if g == 1:
        return _MeanVariance(mean, nan, nan, n, g)
    inflation = student_quantile(level, g - 1) / student_quantile(level, n - 1)
    return _MeanVariance(mean, plain, max(g / (g - 1) * float(sums @ sums) / n**2, plain) * inflation**2, n, g)


def clustered_mean(values: FloatArray, cluster: IntArray, level: float = 0.95) -> ClusteredMean:
    """Return a mean with a t interval over clusters, Var = g/(g-1) sum_c e_c^2 / n^2, g - 1 degrees of freedom.

    The standard error and interval are NaN for one cluster, and where all values are equal.

    >>> mean = clustered_mean(np.array([1.0, 2.0, 3.0]), np.array([0, 1, 2]))
    >>> mean.mean, round(mean.se, 4)
    (2.0, 0.5774)
    """
    n, nan = len(values), float("nan")
    if not n:
        return ClusteredMean(nan, nan, nan, nan, 0, 0)
    mean = float(values.mean())
    sums, g = _cluster_sums(values - mean, cluster)
    squares = float(((values - mean) ** 2).sum())
    if g < 2 or squares <= _ROUNDING * max(1.0, mean**2):
        return ClusteredMean(mean, nan, nan, nan, n, g)
    se = float(np.sqrt(max(g / (g - 1) * float(sums @ sums) / n**2, squares / (n * (n - 1)))))
    half = student_quantile(level, g - 1) * se
    return ClusteredMean(mean, se, mean - half, mean + half, n, g)


def _cluster_sums(deviations: FloatArray, cluster: IntArray) -> tuple[FloatArray, int]:
    """Return the sum of deviations of each non-empty cluster, and their number."""
    counts = np.bincount(cluster)
    sums = np.bincount(cluster, deviations)
    return np.asarray(sums[counts > 0], dtype=np.float64), int(np.count_nonzero(counts))


# -- Change from before to after in two groups -------------------------------------------------------------------------


_MIN_EXPECTED = 5.0


@dataclass(frozen=True)
class ChangeTest:
    """Change in two groups: means, difference with interval, shares improved, and baseline difference."""

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
    """Compare the change from before to after of two groups.

    `second` marks members of the second group; NaN excludes a person. Welch's t test, or Student's with
    `equal_variances`; p is NaN for fewer than two people in a group or without variance.

    >>> test = change_test(np.zeros(6), np.array([1.0, 2, 3, 4, 5, 6]), np.arange(6) > 2)
    >>> test.difference, round(test.p, 3)
    (-3.0, 0.021)
    """
    validate_level(level)
    if not len(before) == len(after) == len(second):
        raise OptionError(
            f"before, after and group have {len(before)}, {len(after)} and {len(second)} values; give one each"
        )
    complete = np.isfinite(before) & np.isfinite(after)
    change, start, of_second = (
        (after - before)[complete],
        before[complete],
        np.asarray(second, dtype=np.bool_)[complete],
    )
    first, second_change = change[~of_second], change[of_second]
    size = float(max_abs(np.concatenate([start, after[complete]])))
    test = _two_sample_t_test(first, second_change, level, size, equal_variances=equal_variances)
    better = change < 0 if lower_is_better else change > 0
    return ChangeTest(
        n_first=len(first),
        n_second=len(second_change),
        change_first=_mean_or_nan(first),
        change_second=_mean_or_nan(second_change),
        difference=_mean_or_nan(first) - _mean_or_nan(second_change),
        **test,
        improved_first=_mean_or_nan(better[~of_second].astype(np.float64)),
        improved_second=_mean_or_nan(better[of_second].astype(np.float64)),
        p_improved=proportions_test(better[~of_second].sum(), len(first), better[of_second].sum(), len(second_change)),
        baseline_difference=_mean_or_nan(start[~of_second]) - _mean_or_nan(start[of_second]),
        p_baseline=_two_sample_t_test(
            start[~of_second], start[of_second], level, size, equal_variances=equal_variances
        )["p"],
    )


def proportions_test(yes_first: int, n_first: int, yes_second: int, n_second: int) -> float:
    """Return the two-sided p-value of equal shares: chi-square without correction, Fisher's for small cells.

    NaN for an empty group; 1 if all or none say yes.

    >>> round(proportions_test(18, 43, 9, 38), 3)  # 42 % against 23 %
    0.083
    """
    table = np.array([[yes_first, n_first - yes_first], [yes_second, n_second - yes_second]], dtype=np.int64)
    if not n_first or not n_second:
        return float("nan")
    if (table.sum(axis=0) == 0).any():
        return 1.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    if expected.min() < _MIN_EXPECTED:
        from scipy.stats import fisher_exact  # noqa: PLC0415  (slow to import)

        return float(fisher_exact(table)[1])
    return float(chdtrc(1, ((table - expected) ** 2 / expected).sum()))


def _two_sample_t_test(
    first: FloatArray, second: FloatArray, level: float, size: float, *, equal_variances: bool
) -> dict[str, float]:
    """Return Student's or Welch's test and interval; NaN below two values in a group or without variance."""
    if min(len(first), len(second)) < 2 or (is_constant(first, scale=size) and is_constant(second, scale=size)):
        return dict.fromkeys(("low", "high", "t", "df", "p"), float("nan"))
    from scipy.stats import ttest_ind  # noqa: PLC0415  (slow to import)

    result = ttest_ind(first, second, equal_var=equal_variances)
    low, high = result.confidence_interval(level)
    values = (low, high, result.statistic, result.df, result.pvalue)
    return dict(zip(("low", "high", "t", "df", "p"), map(float, values), strict=True))


def _mean_or_nan(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")
