"""Correlations with pairwise deletion of missing values; NaN, never 0, where undefined.

`paired_*` correlate every row of one table with the same row of another, all rows at once; `kendall_with_target` and
`spearman_with_target` correlate every row with one target. `correlate` and `correlate_tables` compare a metric with
people at every level (docs/methods.md, section 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aliquot.errors import OptionError, unknown_name
from aliquot.stats.arrays import BoolArray, FloatArray, average_ranks, cache_by_content, row_blocks
from aliquot.validation import one_of

KendallVariant = Literal["b", "c"]
Coefficient = Literal["pearson", "spearman", "kendall_b", "kendall_c"]
GroupBy = Literal["system", "item"]
CorrelationLevel = Literal["pooled", "within_system", "within_item", "system_means"]

_MIN_RELATIVE_SD = 1e-13
"""Relative root mean square of a centred row below which it is rounding."""

_CHUNK = 1 << 21
"""Comparisons held in memory at once."""

_MAX_PAIRED_COLUMNS = 64
"""Number of columns up to which all pairs of a row are compared at once; longer rows use scipy's n log n algorithm."""

_DIGITS = 12
"""Decimals of means, relative to the largest one; further digits are rounding."""


def pearson(x: FloatArray, y: FloatArray) -> float:
    """Return Pearson's correlation over the common finite values; NaN below two points or without variance.

    >>> round(pearson(np.array([1.0, 2.0, np.nan, 3.0]), np.array([2.0, 4.0, 9.0, 6.0])), 12)
    1.0
    """
    shared = np.isfinite(x) & np.isfinite(y)
    return float(paired_pearson(np.where(shared, x, np.nan)[None], np.where(shared, y, np.nan)[None])[0])


def paired_pearson(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return Pearson's r of each row of x with the same row of y; NaN below two common cells or without variance.

    >>> x = np.array([[1.0, 2.0, 4.0], [1.0, 1.0, np.nan]])
    >>> paired_pearson(x, np.array([[2.0, 4.0, 8.0], [3.0, 4.0, 5.0]]))
    array([ 1., nan])
    """
    x, y = mask_tables_to_common(x, y)
    # Rows are scaled first: squares of very large or small numbers would overflow or vanish.
    (a, norm_a), (b, norm_b) = _centre_rows(x), _centre_rows(y)
    scale, result = norm_a * norm_b, np.full(len(x), np.nan)
    np.divide((a * b).sum(axis=1), scale, out=result, where=scale > 0)
    return np.asarray(np.clip(result, -1.0, 1.0), dtype=np.float64)


def paired_spearman(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return Spearman's rho of each row of x with the same row of y, ties at mean ranks; NaN as `paired_pearson`.

    >>> paired_spearman(np.array([[1.0, 3.0, 2.0]]), np.array([[10.0, 20.0, 30.0]]))
    array([0.5])
    """
    x, y = mask_tables_to_common(x, y)
    return paired_pearson(rank_rows(x), rank_rows(y))


def paired_kendall(x: FloatArray, y: FloatArray, variant: KendallVariant = "b") -> FloatArray:
    """Return Kendall's tau of each row of x with the same row of y; NaN as `paired_pearson`.

    With C concordant and D discordant pairs, tau-b is (C - D) / sqrt(pairs untied in x times pairs untied in y), tau-c
    is 2 (C - D) / (n^2 (m - 1) / m), m the smaller number of distinct values. Quadratic in the number of columns.

    >>> paired_kendall(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]), np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]))
    array([-1., nan])
    """
    return _kendall_of_rows(*mask_tables_to_common(x, y), variant)


def _kendall_of_rows(x: FloatArray, y: FloatArray, variant: KendallVariant) -> FloatArray:
    """Return Kendall's tau of tables that are NaN in the same cells; infinite values are valid."""
    one_of("variant", variant, get_args(KendallVariant))
    first, second = np.triu_indices(x.shape[1], 1)
    result = np.full(len(x), np.nan)
    for rows in row_blocks(len(x), len(first), _CHUNK):
        a, b = x[rows], y[rows]
        sign_a, sign_b = (_comparison_signs(t[:, first], t[:, second]) for t in (a, b))
        untied_a, untied_b = (np.abs(sign).sum(axis=1, dtype=np.int64) for sign in (sign_a, sign_b))
        if variant == "b":
            scale = np.sqrt(untied_a * untied_b)
        else:
            classes = np.minimum(_count_distinct(a), _count_distinct(b))
            scale = (~np.isnan(a)).sum(axis=1) ** 2 * (classes - 1) / np.maximum(classes, 1) / 2
        defined = (untied_a > 0) & (untied_b > 0)
        np.divide((sign_a * sign_b).sum(axis=1, dtype=np.int64), scale, out=result[rows], where=defined)
    return np.asarray(np.clip(result, -1.0, 1.0), dtype=np.float64)


def _comparison_signs(a: FloatArray, b: FloatArray) -> np.ndarray:
    """Return the sign of left - right by comparison: 0 for NaN, and defined for infinities."""
    return np.subtract(a > b, a < b, dtype=np.int8)


def kendall_with_target(values: FloatArray, target: FloatArray, variant: KendallVariant = "c") -> FloatArray:
    """Return Kendall's tau of each row with the target, 0 where undefined (Zouhar et al. 2025, eq. 5: `metric_cons`).

    >>> rows = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [5.0, np.nan, 5.0]])
    >>> kendall_with_target(rows, np.array([0.1, 0.2, 0.3]), "b")
    array([ 1., -1.,  0.])
    """
    return np.nan_to_num(_kendall_of_rows(*_broadcast_target(values, target), variant))


def spearman_with_target(values: FloatArray, target: FloatArray) -> FloatArray:
    """Return Spearman's rho of each row with the target, 0 where undefined.

    >>> spearman_with_target(np.array([[1.0, 3.0, 2.0]]), np.array([0.1, 0.2, 0.3]))
    array([0.5])
    """
    x, y = _broadcast_target(values, target)
    return np.nan_to_num(paired_pearson(rank_rows(x), rank_rows(y)))


def accuracy_with_target(values: FloatArray, target: FloatArray) -> FloatArray:
    """Return the share of pairs of each row in the target's order; one-sided ties are half, 0 where undefined.

    >>> rows = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [5.0, np.nan, 5.0]])
    >>> accuracy_with_target(rows, np.array([0.1, 0.2, 0.3]))
    array([1. , 0. , 0.5])
    """
    first, second = np.triu_indices(len(target), 1)
    apart = np.abs(np.sign(values[:, first] - values[:, second]) - np.sign(target[first] - target[second])) / 2
    defined = np.isfinite(apart)
    count = defined.sum(axis=1)
    wrong = np.where(defined, apart, 0.0).sum(axis=1)
    return np.where(count > 0, 1.0 - wrong / np.maximum(count, 1), 0.0)


def _broadcast_target(values: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Broadcast the target to the rows; NaN in the same cells."""
    if values.ndim != 2 or target.shape != values.shape[1:]:
        raise OptionError(
            f"`values` has shape {values.shape} and `target` {target.shape}; give items x systems and one per system"
        )
    return _mask_missing(values, np.broadcast_to(target, values.shape))


@cache_by_content(8)  # people's ranks are the same for every metric
def rank_rows(values: FloatArray) -> FloatArray:
    """Rank the values of each row (`average_ranks`, cached).

    >>> rank_rows(np.array([[3.0, np.nan, 1.0, 3.0]]))
    array([[2.5, nan, 1. , 2.5]])
    """
    return average_ranks(values)


def common_column_means(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return column means of two N x M arrays over their common cells; NaN for a column without any.

    >>> common_column_means(np.array([[1.0], [3.0]]), np.array([[5.0], [np.nan]]))
    (array([1.]), array([5.]))
    """
    shared = np.isfinite(x) & np.isfinite(y)
    count = shared.sum(axis=0)
    safe = np.maximum(count, 1)
    mean_x = np.where(shared, x, 0.0).sum(axis=0) / safe
    mean_y = np.where(shared, y, 0.0).sum(axis=0) / safe
    absent = count == 0
    mean_x[absent] = mean_y[absent] = np.nan
    return mean_x, mean_y


def mask_to_common(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return copies of two arrays that are NaN where either is.

    >>> mask_to_common(np.array([1.0, np.nan, 3.0]), np.array([4.0, 5.0, np.nan]))
    (array([ 1., nan, nan]), array([ 4., nan, nan]))
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.shape != y.shape:
        raise OptionError(f"the scores have shapes {x.shape} and {y.shape}; give the same items and systems twice")
    if np.isinf(x).any() or np.isinf(y).any():
        raise OptionError("the scores hold infinite values; replace them by numbers, or by NaN for missing")
    return _mask_missing(x, y)


def mask_tables_to_common(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `mask_to_common` of two tables; raise OptionError for other dimensions.

    >>> mask_tables_to_common(np.array([[1.0, 2.0]]), np.array([[np.nan, 3.0]]))
    (array([[nan,  2.]]), array([[nan,  3.]]))
    """
    x, y = mask_to_common(x, y)
    if x.ndim != 2:
        raise OptionError(f"the scores have {x.ndim} dimension(s); give tables of rows and columns")
    return x, y


def _mask_missing(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    missing = np.isnan(x) | np.isnan(y)
    return np.where(missing, np.nan, x), np.where(missing, np.nan, y)


def _centre_rows(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return centred rows (scaled, 0 where missing) and their norms, exactly 0 for a constant row."""
    present = ~np.isnan(values)
    count = np.maximum(present.sum(axis=1, keepdims=True), 1)
    filled = np.where(present, values, 0.0)
    size = np.abs(filled).max(axis=1, keepdims=True, initial=0.0)
    filled = np.divide(filled, size, out=np.zeros_like(filled), where=size > 0)
    centred = np.where(present, filled - filled.sum(axis=1, keepdims=True) / count, 0.0)
    norm = np.sqrt((centred**2).sum(axis=1))
    # Centring a constant leaves rounding relative to the numbers, not to their spread.
    return centred, np.where(norm > _MIN_RELATIVE_SD * np.sqrt(count[:, 0]), norm, 0.0)


def _count_distinct(block: FloatArray) -> FloatArray:
    """Count distinct values of each row, NaN excluded."""
    ordered = np.sort(block, axis=1)
    rises = (ordered[:, 1:] > ordered[:, :-1]).sum(axis=1)
    return np.asarray(rises + (~np.isnan(block)).any(axis=1), dtype=np.float64)


@dataclass(frozen=True)
class CorrelationResult:
    """A correlation with the numbers of cells and groups behind it."""

    value: float  # correlation, or mean over groups; NaN where none is defined
    cells: int  # common cells used (in groups with a correlation); systems for `system_means`
    groups: int  # number of correlations averaged: items, systems, or 1
    undefined: int  # groups with common cells but no correlation (a single cell, or constant)


def correlate(x: FloatArray, y: FloatArray, coefficient: Coefficient = "pearson") -> CorrelationResult:
    """Correlate two vectors over their common finite values.

    >>> correlate(np.array([1.0, 2.0, np.nan, 3.0]), np.array([1.0, 3.0, 9.0, 2.0]), "spearman")
    CorrelationResult(value=0.5, cells=3, groups=1, undefined=0)
    """
    if np.ndim(x) != 1:
        raise OptionError(f"the scores have {np.ndim(x)} dimension(s); give two vectors, or use correlate_tables")
    x, y = mask_to_common(x, y)
    return _average_correlations(_correlate_rows(x[None], y[None], coefficient), ~np.isnan(x[None]))


def correlate_tables(
    metric: FloatArray, human: FloatArray, coefficient: Coefficient = "pearson", level: CorrelationLevel = "pooled"
) -> CorrelationResult:
    """Correlate metric and human scores at a level (docs/methods.md, section 7).

    `level`: "pooled", all cells; "within_system", over the items of each system, averaged; "within_item", over the
    systems of each item, averaged; "system_means", over systems' means on the common cells.

    >>> metric = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [3.0, 2.0, np.nan]])
    >>> human = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    >>> correlate_tables(metric, human, "pearson", "within_item")
    CorrelationResult(value=0.0, cells=5, groups=2, undefined=1)
    """
    one_of("level", level, get_args(CorrelationLevel))
    metric, human = mask_tables_to_common(metric, human)
    if level == "system_means":
        return correlate(*system_means(metric, human), coefficient)
    if level == "pooled":
        return correlate(metric.ravel(), human.ravel(), coefficient)
    by: GroupBy = "system" if level == "within_system" else "item"
    present = ~np.isnan(metric)
    return _average_correlations(
        group_correlations(metric, human, coefficient, by), present.T if by == "system" else present
    )


def system_means(metric: FloatArray, human: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return system means over the common cells of two tables; means equal up to rounding are made equal.

    Otherwise systems with equal means would be ranked by the last bit of a sum.

    >>> means, _ = system_means(np.array([[0.1, 0.1], [0.1, 0.1], [0.1, np.nan]]), np.ones((3, 2)))
    >>> bool(means[0] == means[1])
    True
    """
    metric, human = mask_tables_to_common(metric, human)
    first, second = common_column_means(metric, human)
    return _snap_means(first), _snap_means(second)


def _snap_means(means: FloatArray) -> FloatArray:
    size = np.nanmax(np.abs(means), initial=0.0)
    return np.round(means / size, _DIGITS) * size if size > 0 else means


def group_correlations(
    metric: FloatArray, human: FloatArray, coefficient: Coefficient = "pearson", by: GroupBy = "item"
) -> FloatArray:
    """Return correlations within each item (over systems) or each system (over items).

    >>> group_correlations(np.array([[1.0, 2.0], [5.0, 3.0]]), np.array([[0.0, 9.0], [0.0, 9.0]]), "kendall_b")
    array([ 1., -1.])
    """
    if by not in get_args(GroupBy):
        raise unknown_name("grouping", by, get_args(GroupBy))
    metric, human = mask_tables_to_common(metric, human)
    return (
        _correlate_rows(metric.T, human.T, coefficient)
        if by == "system"
        else _correlate_rows(metric, human, coefficient)
    )


def _correlate_rows(x: FloatArray, y: FloatArray, coefficient: Coefficient) -> FloatArray:
    if coefficient == "pearson":
        return paired_pearson(x, y)
    if coefficient == "spearman":
        return paired_spearman(x, y)
    one_of("coefficient", coefficient, get_args(Coefficient))
    variant: KendallVariant = "b" if coefficient == "kendall_b" else "c"
    if x.shape[1] <= _MAX_PAIRED_COLUMNS:
        return paired_kendall(x, y, variant)
    return np.array([_kendall_of_long_row(a, b, variant) for a, b in zip(x, y, strict=True)])


def _kendall_of_long_row(x: FloatArray, y: FloatArray, variant: KendallVariant) -> float:
    present = ~np.isnan(x)
    if present.sum() < 2:
        return float("nan")
    return _kendall_b_and_c(x[present], y[present])[variant == "c"]


@cache_by_content(4096)  # all metrics and systems, for all parts of a report: two numbers each
def _kendall_b_and_c(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return tau-b by scipy, and tau-c from the same C - D, a whole number: counting pairs dominates the cost."""
    # The p-value is not used; "asymptotic" is the cheapest method.
    from scipy.stats import kendalltau  # noqa: PLC0415  (slow to import)

    b = float(kendalltau(x, y, variant="b", method="asymptotic").statistic)
    if np.isnan(b):
        return b, float(kendalltau(x, y, variant="c", method="asymptotic").statistic)
    groups = [np.unique(values, return_counts=True)[1] for values in (x, y)]
    untied = [len(x) * (len(x) - 1) // 2 - int((counts * (counts - 1) // 2).sum()) for counts in groups]
    excess = round(b * float(np.sqrt(untied[0])) * float(np.sqrt(untied[1])))
    least = min(map(len, groups))
    return b, 2 * excess / (len(x) ** 2 * (least - 1) / least)


def _average_correlations(correlations: FloatArray, present: BoolArray) -> CorrelationResult:
    """Average over groups (rows of `present`) with a correlation; groups without cells do not count."""
    defined = ~np.isnan(correlations)
    return CorrelationResult(
        value=float(correlations[defined].mean()) if defined.any() else float("nan"),
        cells=int(present[defined].sum()),
        groups=int(defined.sum()),
        undefined=int((present.any(axis=1) & ~defined).sum()),
    )
