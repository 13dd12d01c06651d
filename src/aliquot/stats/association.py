"""Does a metric move with people? Correlations of two tables of scores, at every level.

Invariant: only cells that both tables have are looked at; an undefined correlation is NaN and is left out of averages,
never counted as 0; every result says how many cells and groups it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.stats import kendalltau

from aliquot.errors import OptionError, unknown_name
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import column_means_where_both, common_cells, common_tables, paired_pearson
from aliquot.stats.paired_rows import paired_kendall, paired_spearman

Coefficient = Literal["pearson", "spearman", "kendall_b", "kendall_c"]
Group = Literal["system", "item"]
Level = Literal["pooled", "within_system", "within_item", "system_means"]

_WIDE = 64
"""Columns up to which all pairs of a row are compared at once; longer rows go to scipy's n log n."""


_DIGITS = 12
"""Decimals, in units of the largest mean, beyond which means differ by rounding only."""


@dataclass(frozen=True)
class Association:
    """A correlation and what it rests on.

    Attributes:
        value: The correlation, or the mean of the groups'; NaN where none is defined.
        cells: Scores used, one per cell that both have (in groups with a correlation); systems for `system_means`.
        groups: Correlations averaged: items, systems, or 1.
        undefined: Groups with common cells but no correlation (a single cell, or a constant); left out.
    """

    value: float
    cells: int
    groups: int
    undefined: int


def correlate(x: FloatArray, y: FloatArray, coefficient: Coefficient = "pearson") -> Association:
    """Correlate two vectors over the places where both are present (METHODS 7).

    Args:
        x: One score per place, NaN = missing.
        y: The same length.
        coefficient: "pearson", "spearman", "kendall_b" or "kendall_c" (Stuart's tau-c).

    Returns:
        One group.

    Raises:
        OptionError: Not two vectors of one length, or infinite values.
        NameUnknownError: Another coefficient.

    Example:
        >>> correlate(np.array([1.0, 2.0, np.nan, 3.0]), np.array([1.0, 3.0, 9.0, 2.0]), "spearman")
        Association(value=0.5, cells=3, groups=1, undefined=0)
    """
    if np.ndim(x) != 1:
        raise OptionError(f"the scores have {np.ndim(x)} dimension(s); give two vectors, or use correlate_tables")
    x, y = common_cells(x, y)
    return _averaged(_rows(x[None], y[None], coefficient), ~np.isnan(x[None]))


def correlate_tables(
    metric: FloatArray, human: FloatArray, coefficient: Coefficient = "pearson", level: Level = "pooled"
) -> Association:
    """Correlate a metric with people at one level (METHODS 7).

    Args:
        metric: Items x systems, NaN = missing.
        human: The same shape.
        coefficient: As `correlate`.
        level: "pooled", all cells together; "within_system", over the items of each system, then averaged;
            "within_item", over the systems of each item, then averaged; "system_means", over systems, their means
            taken on the common cells.

    Returns:
        The correlation and how many cells and groups it rests on.

    Raises:
        OptionError: Not two tables of one shape, or infinite values.
        NameUnknownError: Another coefficient or level.

    Example:
        >>> metric = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [3.0, 2.0, np.nan]])
        >>> human = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
        >>> correlate_tables(metric, human, "pearson", "within_item")
        Association(value=0.0, cells=5, groups=2, undefined=1)
    """
    if level not in get_args(Level):
        raise unknown_name("level", level, get_args(Level))
    metric, human = common_tables(metric, human)
    if level == "system_means":
        return correlate(*system_means(metric, human), coefficient)
    if level == "pooled":
        return correlate(metric.ravel(), human.ravel(), coefficient)
    by: Group = "system" if level == "within_system" else "item"
    present = ~np.isnan(metric)
    return _averaged(group_correlations(metric, human, coefficient, by), present.T if by == "system" else present)


def system_means(metric: FloatArray, human: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means of every system over the cells that both tables have, equal where they differ by rounding only.

    Without that, systems of the same mean would be ranked by the last bit of a sum.

    Args:
        metric: Items x systems, NaN = missing.
        human: The same shape.

    Returns:
        One mean per system from each table; NaN for a system without common cells.

    Raises:
        OptionError: Not two tables of one shape, or infinite values.

    Example:
        >>> means, _ = system_means(np.array([[0.1, 0.1], [0.1, 0.1], [0.1, np.nan]]), np.ones((3, 2)))
        >>> bool(means[0] == means[1])
        True
    """
    metric, human = common_tables(metric, human)
    first, second = column_means_where_both(metric, human)
    return _snapped(first), _snapped(second)


def _snapped(means: FloatArray) -> FloatArray:
    size = np.nanmax(np.abs(means), initial=0.0)
    return np.round(means / size, _DIGITS) * size if size > 0 else means


def group_correlations(
    metric: FloatArray, human: FloatArray, coefficient: Coefficient = "pearson", by: Group = "item"
) -> FloatArray:
    """Correlate within every item (over systems) or every system (over items).

    Args:
        metric: Items x systems, NaN = missing.
        human: The same shape.
        coefficient: As `correlate`.
        by: "item" or "system".

    Returns:
        One correlation per item or system; NaN where undefined.

    Raises:
        OptionError: Not two tables of one shape, or infinite values.
        NameUnknownError: Another coefficient or grouping.

    Example:
        >>> group_correlations(np.array([[1.0, 2.0], [5.0, 3.0]]), np.array([[0.0, 9.0], [0.0, 9.0]]), "kendall_b")
        array([ 1., -1.])
    """
    if by not in get_args(Group):
        raise unknown_name("grouping", by, get_args(Group))
    metric, human = common_tables(metric, human)
    return _rows(metric.T, human.T, coefficient) if by == "system" else _rows(metric, human, coefficient)


def _rows(x: FloatArray, y: FloatArray, coefficient: Coefficient) -> FloatArray:
    if coefficient == "pearson":
        return paired_pearson(x, y)
    if coefficient == "spearman":
        return paired_spearman(x, y)
    if coefficient not in get_args(Coefficient):
        raise unknown_name("coefficient", coefficient, get_args(Coefficient))
    variant: Literal["b", "c"] = "b" if coefficient == "kendall_b" else "c"
    if x.shape[1] <= _WIDE:
        return paired_kendall(x, y, variant)
    return np.array([_kendall(a, b, variant) for a, b in zip(x, y, strict=True)])


def _kendall(x: FloatArray, y: FloatArray, variant: Literal["b", "c"]) -> float:
    present = ~np.isnan(x)
    if present.sum() < 2:
        return float("nan")
    # The p-value is not used; "asymptotic" is the one that costs nothing.
    return float(kendalltau(x[present], y[present], variant=variant, method="asymptotic").statistic)


def _averaged(correlations: FloatArray, present: np.ndarray) -> Association:
    """Mean over the groups (rows of `present`) with a correlation; groups without a cell are not there at all."""
    defined = ~np.isnan(correlations)
    return Association(
        value=float(correlations[defined].mean()) if defined.any() else float("nan"),
        cells=int(present[defined].sum()),
        groups=int(defined.sum()),
        undefined=int((present.any(axis=1) & ~defined).sum()),
    )
