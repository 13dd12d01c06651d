"""What errors cost: a linear model of a score on the numbers of errors of each type (notes, P2.7).

Errors are standardised ("centred and reduced") and so is the score: a slope of -0.5 says that one standard deviation
more of that error lowers the score by half a standard deviation. All slopes are kept, positive ones too: dropping
them, as the paper does, moves the average away from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.clustered import student_quantile

_DEPENDENT = 1e-9
"""Spread of an error type, relative to its own, that the others leave unexplained and that is rounding."""


@dataclass(frozen=True, eq=False)
class Importance:
    """Slopes of a score on error counts.

    Attributes:
        slopes: Points of the score per error; NaN for a type that cannot be told (see `reasons`).
        standardised: The same in standard deviations.
        se: Standard errors of `standardised`.
        low, high: Their intervals.
        p: Two-sided p-values that a slope is 0.
        r2: Share of the score's variance that the counts explain.
        n: Answers used.
        clusters: Clusters they came from.
        reasons: For every type, why it has no slope, or "".
    """

    slopes: FloatArray
    standardised: FloatArray
    se: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    r2: float
    n: int
    clusters: int
    reasons: tuple[str, ...]


def error_importance(
    counts: FloatArray, score: FloatArray, cluster: IntArray, *, groups: IntArray | None = None, level: float = 0.95
) -> Importance:
    """Regress a score on error counts by least squares, with cluster-robust intervals.

    Args:
        counts: Answers x error types.
        score: One per answer; NaN leaves the answer out.
        cluster: The cluster (item) of each answer, as codes; standard errors allow for dependence within clusters
            (sandwich with g/(g-1) (n-1)/(n-k), Student with g - 1 degrees of freedom).
        groups: Annotators, as codes: each gets a level of its own (everything is centred within groups).
        level: Coverage.

    Raises:
        OptionError: Too few answers for the number of error types, or a score without spread.

    Example:
        >>> rng = np.random.default_rng(1)
        >>> counts = rng.poisson(1.0, (200, 2)).astype(float)
        >>> fit = error_importance(counts, -5 * counts[:, 0] - counts[:, 1], np.arange(200))
        >>> fit.slopes.round(6).tolist()
        [-5.0, -1.0]
    """
    known = np.isfinite(score) & np.isfinite(counts).all(axis=1)
    counts, score, cluster = counts[known], score[known], cluster[known]
    group = np.zeros(len(score), dtype=np.int64) if groups is None else np.unique(groups[known], return_inverse=True)[1]
    levels = int(group.max()) + 1 if len(group) else 0
    x, y = _within(counts, group), _within(score[:, None], group)[:, 0]
    reasons = _reasons(counts, x)
    kept = np.array([not reason for reason in reasons], dtype=bool)
    if not kept.any():
        raise OptionError("no type of error varies over the answers; there is nothing that could explain the score")
    n, k, g = len(y), int(kept.sum()) + levels, len(np.unique(cluster))
    if n <= k or g < 2:
        raise OptionError(
            f"{n} answers in {g} clusters are too few for {k} coefficients; judge more, or name fewer errors"
        )
    if float(y @ y) <= 1e-18 * max(1.0, float(np.abs(score).max()) ** 2) * n:
        raise OptionError("the score is the same for all answers; nothing can be explained")
    slopes, se, r2 = _least_squares(x[:, kept], y, cluster, n, k, g)
    scale = x.std(axis=0) / y.std()
    full, errors = np.full(len(kept), np.nan), np.full(len(kept), np.nan)
    full[kept], errors[kept] = slopes, se
    standardised, half = full * scale, student_quantile(level, g - 1) * errors * scale
    with np.errstate(divide="ignore", invalid="ignore"):  # an exact fit has no error: p is then 0
        p = 2 * stdtr(g - 1, -np.abs(full / errors))
    return Importance(
        full, standardised, errors * scale, standardised - half, standardised + half, p, r2, n, g, tuple(reasons)
    )


def _within(values: FloatArray, group: IntArray) -> FloatArray:
    """Values less the mean of their group."""
    size = np.maximum(np.bincount(group), 1)
    means = np.column_stack([np.bincount(group, column) for column in values.T]) / size[:, None]
    centred: FloatArray = values - means[group]
    return centred


def _reasons(counts: FloatArray, x: FloatArray) -> list[str]:
    """Say for each error type why it has no slope: it never varies, or the types before it determine it."""
    reasons, basis = [], np.zeros((len(x), 0))
    for column in range(x.shape[1]):
        length = float(np.linalg.norm(x[:, column]))
        rest = x[:, column] - basis @ (basis.T @ x[:, column])
        if length <= _DEPENDENT * max(1.0, float(np.abs(counts[:, column]).max(initial=0.0))):
            reasons.append("never occurs" if not counts[:, column].any() else "never varies")
        elif float(np.linalg.norm(rest)) <= _DEPENDENT**0.5 * length:
            reasons.append("is determined by the others")
        else:
            reasons.append("")
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
    return reasons


def _least_squares(
    x: FloatArray, y: FloatArray, cluster: IntArray, n: int, k: int, g: int
) -> tuple[FloatArray, FloatArray, float]:
    """Slopes, cluster-robust standard errors, and the share of variance explained."""
    inverse = np.linalg.pinv(x.T @ x, rcond=1e-13, hermitian=True)
    slopes = np.linalg.lstsq(x, y, rcond=None)[0]
    residual = y - x @ slopes
    codes = np.unique(cluster, return_inverse=True)[1]
    pull = np.column_stack([np.bincount(codes, residual * column, minlength=g) for column in x.T]).reshape(g, -1)
    small = g / (g - 1) * (n - 1) / (n - k)
    covariance = inverse @ (pull.T @ pull) @ inverse * small
    return slopes.astype(np.float64), np.sqrt(np.diag(covariance)), 1 - float(residual @ residual) / float(y @ y)
