"""Rank correlation of every row of one table with the same row of another, all rows at once.

Invariant: every value equals scipy's on the cells that both rows have; where scipy has none it is NaN, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
from scipy.stats import rankdata

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import common_tables, paired_pearson

_CHUNK = 1 << 21
"""Comparisons held in memory at a time."""


def paired_spearman(x: FloatArray, y: FloatArray) -> FloatArray:
    """Spearman's rho of every row of x with the same row of y, ties with their mean rank.

    Args:
        x: Rows x columns, NaN = missing.
        y: The same shape.

    Returns:
        As `paired_pearson`.

    Raises:
        OptionError: As `paired_pearson`.

    Example:
        >>> paired_spearman(np.array([[1.0, 3.0, 2.0]]), np.array([[10.0, 20.0, 30.0]]))
        array([0.5])
    """
    x, y = common_tables(x, y)
    return paired_pearson(ranks_of_rows(x), ranks_of_rows(y))


def paired_kendall(x: FloatArray, y: FloatArray, variant: Literal["b", "c"] = "b") -> FloatArray:
    """Kendall's tau of every row of x with the same row of y.

    With C concordant and D discordant pairs, tau-b is (C - D) / sqrt(pairs untied in x times pairs untied in y), tau-c
    is 2 (C - D) / (n^2 (m - 1) / m), m the smaller number of distinct values.

    Args:
        x: Rows x columns, NaN = missing. All pairs of columns are compared: for rows of a few dozen.
        y: The same shape.
        variant: "b" or "c".

    Returns:
        As `paired_pearson`.

    Raises:
        OptionError: As `paired_pearson`; another variant.

    Example:
        >>> paired_kendall(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]), np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]))
        array([-1., nan])
    """
    if variant not in get_args(Literal["b", "c"]):
        raise OptionError(f"variant is {variant!r}; give 'b' or 'c'")
    x, y = common_tables(x, y)
    first, second = np.triu_indices(x.shape[1], 1)
    result = np.full(len(x), np.nan)
    for rows in _chunks(len(x), len(first)):
        a, b = x[rows], y[rows]
        sign_a, sign_b = (np.nan_to_num(np.sign(t[:, first] - t[:, second])) for t in (a, b))
        untied_a, untied_b = np.abs(sign_a).sum(axis=1), np.abs(sign_b).sum(axis=1)
        if variant == "b":
            scale = np.sqrt(untied_a * untied_b)
        else:
            classes = np.minimum(_distinct(a), _distinct(b))
            scale = (~np.isnan(a)).sum(axis=1) ** 2 * (classes - 1) / np.maximum(classes, 1) / 2
        defined = (untied_a > 0) & (untied_b > 0)
        np.divide((sign_a * sign_b).sum(axis=1), scale, out=result[rows], where=defined)
    return np.asarray(np.clip(result, -1.0, 1.0), dtype=np.float64)


def ranks_of_rows(values: FloatArray) -> FloatArray:
    """Rank the values of every row, ties with their mean rank, missing cells left out.

    >>> ranks_of_rows(np.array([[3.0, np.nan, 1.0, 3.0]]))
    array([[2.5, nan, 1. , 2.5]])
    """
    return np.asarray(rankdata(values, axis=1, nan_policy="omit"), dtype=np.float64).reshape(values.shape)


def _chunks(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _CHUNK // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, start + step)


def _distinct(block: FloatArray) -> FloatArray:
    """Number of different values in every row; missing ones sort to the end and exceed nothing."""
    ordered = np.sort(block, axis=1)
    rises = (ordered[:, 1:] > ordered[:, :-1]).sum(axis=1)
    return np.asarray(rises + (~np.isnan(block)).any(axis=1), dtype=np.float64)
