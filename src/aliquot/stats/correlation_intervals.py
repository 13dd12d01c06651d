"""Analytic intervals of correlations between metric and human scores.

Over outputs the units are items, because their systems share the item's difficulty. Between systems the units are
systems: Fisher's z. See docs/methods.md, section 7.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from aliquot.stats.arrays import FloatArray, is_negligible, max_abs
from aliquot.stats.cluster_robust import normal_quantile
from aliquot.stats.correlation import (
    Coefficient,
    CorrelationLevel,
    group_correlations,
    mask_tables_to_common,
    rank_rows,
)

IntervalEnds = tuple[float, float]
NO_INTERVAL: IntervalEnds = (float("nan"), float("nan"))


def fisher_interval(
    value: float, n: int, coefficient: Coefficient = "pearson", confidence: float = 0.95
) -> IntervalEnds:
    """Return the interval of a correlation of n independent pairs by Fisher's z.

    The variance of z is 1/(n - 3) for Pearson, (1 + r^2/2)/(n - 3) for Spearman (Bonett and Wright 2000) and 0.437/(n -
    4) for Kendall (Fieller et al. 1957). NaN for fewer than five pairs and for 1 and -1.

    >>> tuple(round(end, 3) for end in fisher_interval(0.5, 28))
    (0.156, 0.736)
    """
    if n < 5 or not abs(value) < 1:
        return NO_INTERVAL
    variance = {"pearson": 1 / (n - 3), "spearman": (1 + value**2 / 2) / (n - 3)}.get(coefficient, 0.437 / (n - 4))
    half = normal_quantile(confidence) * np.sqrt(variance)
    low, high = np.tanh(np.arctanh(value) + np.array([-half, half]))
    return float(low), float(high)


def table_interval(
    metric: FloatArray,
    human: FloatArray,
    value: float,
    coefficient: Coefficient,
    level: CorrelationLevel,
    confidence: float = 0.95,
) -> IntervalEnds:
    """Return the interval of a correlation from `correlate_tables`.

    Within items: Student's t over the items' correlations. Pooled and within systems, Pearson and Spearman: influence
    of each item, u = zx zy - r (zx^2 + zy^2)/2 summed over its systems, on Fisher's scale; NaN for Kendall. Between
    systems: `fisher_interval`.

    >>> rng = np.random.default_rng(1)
    >>> human = rng.normal(size=(200, 4))
    >>> low, high = table_interval(human + rng.normal(size=(200, 4)), human, 0.71, "pearson", "pooled")
    >>> 0.6 < low < 0.71 < high < 0.8
    True
    """
    metric, human = mask_tables_to_common(metric, human)
    if level == "system_means":
        return fisher_interval(value, int((~np.isnan(metric)).any(axis=0).sum()), coefficient, confidence)
    if level == "within_item":
        return _mean_interval(group_correlations(metric, human, coefficient, "item"), confidence)
    if coefficient not in ("pearson", "spearman") or not abs(value) < 1:
        return NO_INTERVAL
    influence = _pooled_influence if level == "pooled" else _system_influence
    by_item = influence(metric, human, ranks=coefficient == "spearman")
    items = int((~np.isnan(metric)).any(axis=1).sum())
    if items < 5:
        return NO_INTERVAL
    se = np.sqrt(items / (items - 1) * float((by_item**2).sum()))
    half = float(stdtrit(items - 1, 0.5 + confidence / 2)) * se / (1 - value**2)
    low, high = np.tanh(np.arctanh(value) + np.array([-half, half]))
    return float(low), float(high)


def _mean_interval(values: FloatArray, confidence: float) -> IntervalEnds:
    defined = values[np.isfinite(values)]
    if len(defined) < 5:
        return NO_INTERVAL
    half = float(stdtrit(len(defined) - 1, 0.5 + confidence / 2)) * defined.std(ddof=1) / np.sqrt(len(defined))
    return max(-1.0, float(defined.mean() - half)), min(1.0, float(defined.mean() + half))


def _influence_values(x: FloatArray, y: FloatArray, *, ranks: bool) -> FloatArray:
    """Return the influence of each cell on its row's correlation, 0 where missing; NaN for undefined rows."""
    if ranks:
        x, y = rank_rows(x), rank_rows(y)
    present = ~np.isnan(x)
    count = present.sum(axis=1, keepdims=True)

    def standardise(z: FloatArray) -> FloatArray:
        mean = np.nansum(z, axis=1, keepdims=True) / np.maximum(count, 1)
        centred = np.where(present, z - mean, 0.0)
        sd = np.sqrt((centred**2).sum(axis=1, keepdims=True) / np.maximum(count, 1))
        return centred / np.where(is_negligible(sd, max_abs(z, axis=1)[:, None]), np.nan, sd)

    a, b = standardise(x), standardise(y)
    r = (a * b).sum(axis=1, keepdims=True) / np.maximum(count, 1)
    cells = np.where(present, a * b - r * (a**2 + b**2) / 2, 0.0) / np.maximum(count, 1)
    return np.asarray(cells, dtype=np.float64)


def _pooled_influence(metric: FloatArray, human: FloatArray, *, ranks: bool) -> FloatArray:
    cells = _influence_values(metric.reshape(1, -1), human.reshape(1, -1), ranks=ranks)
    return np.asarray(cells.reshape(metric.shape).sum(axis=1), dtype=np.float64)


def _system_influence(metric: FloatArray, human: FloatArray, *, ranks: bool) -> FloatArray:
    """Return the influence function of the mean of the systems' correlations; undefined ones are left out."""
    rows = _influence_values(metric.T, human.T, ranks=ranks)
    defined = np.isfinite(rows).all(axis=1)
    return np.asarray(rows[defined].sum(axis=0) / max(1, int(defined.sum())), dtype=np.float64)
