"""Correlations between columns with gaps, with intervals over clusters of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.bootstrap import resampled_sums
from aliquot.stats.clustered import normal_quantile


@dataclass(frozen=True, eq=False)
class Correlations:
    """Correlations of p columns.

    Attributes:
        value: p x p, each from the rows that have both columns; NaN where undefined.
        low, high: Percentile intervals over resampled clusters; NaN below two clusters.
        count: Rows that have both.
        complete: p x p, from the rows that have every column (a proper correlation matrix); NaN for a constant column.
        n: Rows.
        n_complete: Rows that have every column.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    count: IntArray
    complete: FloatArray
    n: int
    n_complete: int


def correlations(
    values: FloatArray,
    cluster: IntArray,
    *,
    spearman: bool = False,
    level: float = 0.95,
    draws: int = 1000,
    seed: Seed = 0,
) -> Correlations:
    """Correlate every two columns.

    Args:
        values: Rows x columns, NaN = missing.
        cluster: The cluster (item) of each row, as codes; whole clusters are resampled.
        spearman: Correlate ranks (within a column, over all its values) instead of values.
        level: Coverage.
        draws: Bootstrap draws.
        seed: Of the bootstrap.

    Raises:
        OptionError: Fewer than two columns.

    Example:
        >>> values = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.5]])
        >>> round(correlations(values, np.arange(3)).value[0, 1].item(), 4)
        0.9979
    """
    if values.ndim != 2 or values.shape[1] < 2:
        raise OptionError(f"values has shape {values.shape}; correlations need two columns or more")
    normal_quantile(level)  # which refuses an impossible level
    values = _ranked(values) if spearman else values
    size = values.shape[1]
    shape = (size, size)
    value, low, high = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    there = np.isfinite(values)
    count = there.T.astype(np.int64) @ there.astype(np.int64)
    rng = np.random.default_rng(seed)
    for a in range(size):
        for b in range(a, size):
            both = there[:, a] & there[:, b]
            ends = _pair(values[both, a], values[both, b], cluster[both], level, 0 if a == b else draws, rng)
            for matrix, number in zip((value, low, high), ends, strict=True):
                matrix[a, b] = matrix[b, a] = number
    whole = there.all(axis=1)
    complete = np.full(shape, np.nan)
    if whole.sum() > 1:
        vary = np.ptp(values[whole], axis=0) > 0
        complete[np.ix_(vary, vary)] = np.atleast_2d(np.corrcoef(values[whole][:, vary], rowvar=False))
    return Correlations(value, low, high, count, complete, len(values), int(whole.sum()))


def _ranked(values: FloatArray) -> FloatArray:
    ranks: FloatArray = rankdata(values, axis=0, nan_policy="omit")
    return ranks


def _pair(
    x: FloatArray, y: FloatArray, cluster: IntArray, level: float, draws: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Correlation and its percentile interval, from sums over clusters of x, y, x^2, y^2, xy and rows."""
    nothing = float("nan")
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return nothing, nothing, nothing
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    codes = np.unique(cluster, return_inverse=True)[1]
    parts = (x, y, x * x, y * y, x * y, np.ones_like(x))
    sums = np.column_stack([np.bincount(codes, part) for part in parts]).astype(np.float64)
    value = float(_correlation(sums.sum(axis=0, keepdims=True))[0])
    if len(sums) < 2 or draws < 2:
        return value, nothing, nothing
    drawn = _correlation(sums.sum(axis=0) + resampled_sums(sums, draws, rng))
    known = drawn[np.isfinite(drawn)]
    if len(known) < draws / 2:
        return value, nothing, nothing
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return value, float(low), float(high)


def _correlation(sums: FloatArray) -> FloatArray:
    x, y, xx, yy, xy, n = sums.T
    spread_x, spread_y = xx - x**2 / n, yy - y**2 / n
    product = np.sqrt(np.maximum(spread_x, 0.0) * np.maximum(spread_y, 0.0))
    enough = product > 1e-9 * n
    ratio = np.divide(xy - x * y / n, product, out=np.full(len(sums), np.nan), where=enough)
    return np.asarray(np.clip(ratio, -1.0, 1.0), dtype=np.float64)
