"""Ridge regressions: slopes shared by systems, slopes within groups, and importance of error types.

Features of outputs are n x M x K, targets n x M (NaN = not judged). Every system has its own intercept (everything is
centred per system); slopes are shared, so that n x M outputs, not n items, determine them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import stdtr

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray, centre_by_group, is_negligible, max_abs
from aliquot.stats.cluster_robust import student_quantile
from aliquot.validation import at_least


@dataclass(frozen=True, eq=False)
class PooledFit:
    """Slopes, and predictions of every judged output from fits with and without its own item.

    `within` and `left_out` are centred predictions (n x M) of slopes fitted on all items, and on all items but the
    output's own.
    """

    slopes: FloatArray
    within: FloatArray
    left_out: FloatArray


def weighted_means(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return weighted means of columns, ignoring NaN; NaN for an empty column. Weights are of rows or of cells.

    >>> weighted_means(np.array([[1.0, np.nan], [4.0, 2.0]]), np.array([2.0, 1.0])).tolist()
    [2.0, 2.0]
    """
    present = np.isfinite(values)
    shares = np.where(present, weight if weight.ndim == 2 else weight[:, None], 0.0)
    total = shares.sum(axis=0)
    summed = (np.where(present, values, 0.0) * shares).sum(axis=0)
    return np.where(total > 0, summed / np.where(total > 0, total, 1.0), np.nan)


def pooled_ridge(features: FloatArray, target: FloatArray, weight: FloatArray, ridge: float) -> PooledFit:
    """Fit shared slopes by weighted ridge regression, minimising sum_i w_i |y_i - F_i b|^2 / M + ridge |b|^2.

    Weights are scaled to mean 1, so that `ridge` is in items. Leave-one-item-out is exact (for fixed centring): e_i
    without i = (I - w_i F_i S F_i' / M)^-1 e_i, S the inverse of the ridge matrix.

    >>> x = np.array([[[0.0]], [[1.0]], [[2.0]]])
    >>> fit = pooled_ridge(x, 3 * x[:, :, 0], np.ones(3), ridge=0.0)
    >>> fit.slopes.round(12)
    array([3.])
    """
    at_least("ridge", ridge, 0, "choose 0 or more")
    n, m, k = features.shape
    scaled = weight * (n / weight.sum())
    present = np.isfinite(target)
    cells = np.where(present, scaled[:, None], 0.0)
    x = features - _cell_means(features, cells)
    y = np.where(present, target - weighted_means(target, scaled), 0.0)
    rooted = np.sqrt(cells)[:, :, None] * x
    flat = rooted.reshape(n * m, k)
    gram = flat.T @ flat / m + ridge * np.eye(k)
    inverse = np.linalg.inv(gram) if ridge > _MIN_FIRM_RIDGE else _pseudo_inverse(gram, _MIN_VARIANCE * n)
    slopes = inverse @ (flat.T @ (np.sqrt(cells) * y).ravel()) / m
    within = x @ slopes
    if n > _MAX_EXACT_RATIO * k:  # with very many items, leaving one out has no visible effect
        return PooledFit(slopes, within, np.where(present, within, 0.0))
    hat = (flat @ inverse).reshape(n, m, k) @ rooted.transpose(0, 2, 1) / m
    residual = np.sqrt(cells) * (y - within)
    without = np.linalg.solve(np.eye(m)[None] - np.clip(hat, None, 1.0) * _MAX_LEVERAGE, residual[:, :, None])[:, :, 0]
    rescaled = np.divide(without, np.sqrt(cells), out=np.zeros_like(without), where=cells > 0)
    return PooledFit(slopes, within, np.where(present, y - rescaled, 0.0))


_MAX_EXACT_RATIO = 1000
_MIN_FIRM_RIDGE = 1e-6  # ridge from which any matrix is invertible
_MIN_VARIANCE = 1e-10  # features have unit size: less variance per item is rounding


def _pseudo_inverse(matrix: FloatArray, least: float) -> FloatArray:
    """Return the pseudo-inverse without directions in which the features do not vary."""
    values, vectors = np.linalg.eigh(matrix)
    inverse: FloatArray = (
        vectors * np.where(values > least, 1.0 / np.where(values > least, values, 1.0), 0.0)
    ) @ vectors.T
    return inverse


_MAX_LEVERAGE = 1.0 - 1e-9  # keeps I - H invertible if the slopes fit an item exactly


def _cell_means(features: FloatArray, cells: FloatArray) -> FloatArray:
    """Return the weighted mean of the features over each system's judged items: M x K."""
    total = cells.sum(axis=0)
    summed = np.einsum("im,imk->mk", cells, features, optimize=True)
    means: FloatArray = summed / np.where(total > 0, total, 1.0)[:, None]
    return means


def power_tuning(target: FloatArray, left_out: FloatArray, weight: FloatArray) -> float:
    """Return the weight of the prediction, 0 to 1: the slope of targets on left-out predictions.

    A regression that fits noise does not predict held-out items; its weight is near 0 and the estimate falls back to
    the mean (power tuning as in PPI++, with cross-fitted predictions).

    >>> y = np.array([[1.0], [2.0], [3.0]])
    >>> power_tuning(y, y - y.mean(), np.ones(3))
    1.0
    """
    present = np.isfinite(target)
    cells = np.where(present, weight[:, None], 0.0)
    centred = np.where(present, target - weighted_means(target, weight), 0.0)
    explained = float((cells * left_out**2).sum())
    if is_negligible(np.sqrt(explained), max_abs(target) * np.sqrt(cells.sum())):
        return 0.0
    return float(np.clip((cells * left_out * centred).sum() / explained, 0.0, 1.0))


def residual_squares(target: FloatArray, left_out: FloatArray, weight: FloatArray) -> float:
    """Return the weighted residual sum of squares of the left-out predictions, scaled by `power_tuning`.

    >>> y = np.array([[1.0], [2.0], [3.0]])
    >>> residual_squares(y, 0.0 * y, np.ones(3)), residual_squares(y, y - y.mean(), np.ones(3))
    (2.0, 0.0)
    """
    present = np.isfinite(target)
    cells = np.where(present, weight[:, None], 0.0)
    centred = np.where(present, target - weighted_means(target, weight), 0.0)
    return float((cells * (centred - power_tuning(target, left_out, weight) * left_out) ** 2).sum())


# -- Ridge regression within groups (campaigns): group means do not affect the slopes ----------------------------------


_MAX_STEPS = 30
_TOLERANCE = 1e-4


def group_weights(groups: IntArray) -> FloatArray:
    """Return weights of mean 1 with which a group counts as the root of its size, so that large groups do not dominate.

    >>> group_weights(np.array([0, 0, 0, 0, 1])).round(3).tolist()
    [0.833, 0.833, 0.833, 0.833, 1.667]
    """
    weight = 1.0 / np.sqrt(np.bincount(groups)[groups])
    scaled: FloatArray = weight / weight.mean()
    return scaled


def centre_in_groups(values: FloatArray, groups: IntArray, weight: FloatArray) -> FloatArray:
    """Subtract the weighted group means from values (n or n x K).

    >>> centre_in_groups(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1]), np.ones(3)).tolist()
    [-1.0, 1.0, 0.0]
    """
    average = _averaging_matrix(groups, weight)
    gathered: FloatArray = values - np.asarray(average @ values)[groups]
    return gathered


def _averaging_matrix(groups: IntArray, weight: FloatArray) -> sparse.csr_matrix:
    """Return the sparse matrix that maps values to weighted means of groups."""
    count = int(groups.max()) + 1 if len(groups) else 0
    total = np.maximum(np.bincount(groups, weight, minlength=count), 1e-300)
    shares = weight / total[groups]
    return sparse.csr_matrix((shares, (groups, np.arange(len(groups)))), shape=(count, len(groups)))


def within_group_ridge(
    features: FloatArray, target: FloatArray, groups: IntArray, weight: FloatArray, penalty: FloatArray
) -> FloatArray:
    """Return within-group slopes of few features, from the normal equations.

    >>> x = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> y = np.array([5.0, 7.0, -3.0, -1.0])  # slope 2 in both groups, which differ by 8
    >>> within_group_ridge(x, y, np.array([0, 0, 1, 1]), np.ones(4), np.zeros(1)).round(6).tolist()
    [2.0]
    """
    if (np.asarray(penalty) < 0).any():
        raise OptionError("a ridge penalty is negative; choose 0 or more")
    x, y = centre_in_groups(features, groups, weight), centre_in_groups(target, groups, weight)
    gram = (x * weight[:, None]).T @ x + np.diag(np.maximum(penalty, 1e-9 * len(y)))
    slopes: FloatArray = np.linalg.solve(gram, x.T @ (weight * y))
    return slopes


def sparse_within_group_ridge(
    matrix: sparse.csr_matrix, target: FloatArray, groups: IntArray, weight: FloatArray, penalty: float
) -> FloatArray:
    """Return within-group slopes of many sparse features, by conjugate gradients with implicit centring.

    >>> x = sparse.csr_matrix(np.array([[0.0], [1.0], [0.0], [1.0]]))
    >>> y = np.array([5.0, 7.0, -3.0, -1.0])
    >>> sparse_within_group_ridge(x, y, np.array([0, 0, 1, 1]), np.ones(4), 1e-9).round(6).tolist()
    [2.0]
    """
    if penalty <= 0:
        raise OptionError(f"the ridge penalty {penalty} of very many features must be above 0")
    from scipy.sparse.linalg import LinearOperator, cg  # noqa: PLC0415  (slow to import)

    average = _averaging_matrix(groups, weight)
    transposed = matrix.T.tocsr()

    def centre(values: FloatArray) -> FloatArray:
        less: FloatArray = values - (average @ values)[groups]
        return less

    def product(slopes: FloatArray) -> FloatArray:
        # X'C'WC X b, C the centring; C'W C = W C because both project by weighted means
        back: FloatArray = transposed @ (weight * centre(matrix @ slopes)) + penalty * slopes
        return back

    k = matrix.shape[1]
    operator = LinearOperator((k, k), matvec=product, dtype=np.float64)
    slopes, _ = cg(operator, transposed @ (weight * centre(target)), rtol=_TOLERANCE, maxiter=_MAX_STEPS)
    return np.asarray(slopes, dtype=np.float64)


# -- Importance of error types: a linear model of a score on error counts ----------------------------------------------


_ROUNDING = 1e-9
"""Relative residual deviation of an error type given the others that is rounding."""


@dataclass(frozen=True, eq=False)
class ErrorSlopes:
    """Slopes of a score on error counts, with intervals."""

    slopes: FloatArray  # points of the score per error; NaN for a type without a slope (see `reasons`)
    standardised: FloatArray  # the same in standard deviations
    se: FloatArray  # standard errors of `standardised`
    low: FloatArray  # their intervals
    high: FloatArray
    p: FloatArray  # two-sided p-values that a slope is 0
    r2: float  # share of the score's variance that the counts explain
    n: int  # judgments used
    clusters: int  # number of clusters
    reasons: tuple[str, ...]  # for every type, why it has no slope, or ""


def error_importance(
    counts: FloatArray, score: FloatArray, cluster: IntArray, *, groups: IntArray | None = None, level: float = 0.95
) -> ErrorSlopes:
    """Regress a score on error counts by least squares, with cluster-robust intervals.

    Standard errors are cluster-robust (sandwich with g/(g-1) (n-1)/(n-k), Student with g - 1 degrees of freedom).
    Everything is centred within `groups` (annotators); judgments with a NaN score are left out.

    >>> rng = np.random.default_rng(1)
    >>> counts = rng.poisson(1.0, (200, 2)).astype(float)
    >>> fit = error_importance(counts, -5 * counts[:, 0] - counts[:, 1], np.arange(200))
    >>> fit.slopes.round(6).tolist()
    [-5.0, -1.0]
    """
    complete = np.isfinite(score) & np.isfinite(counts).all(axis=1)
    counts, score, cluster = counts[complete], score[complete], cluster[complete]
    group = (
        np.zeros(len(score), dtype=np.int64) if groups is None else np.unique(groups[complete], return_inverse=True)[1]
    )
    levels = int(group.max()) + 1 if len(group) else 0
    x, y = centre_by_group(group, counts), centre_by_group(group, score)
    reasons = _find_reasons(counts, x)
    has_slope = np.array([not reason for reason in reasons], dtype=bool)
    if not has_slope.any():
        raise OptionError("no type of error varies over the judgments; there is nothing that could explain the score")
    n, k, g = len(y), int(has_slope.sum()) + levels, len(np.unique(cluster))
    if n <= k or g < 2:
        raise OptionError(
            f"{n} judgments in {g} clusters are too few for {k} coefficients; judge more, or name fewer errors"
        )
    if float(y @ y) <= 1e-18 * max(1.0, float(np.abs(score).max()) ** 2) * n:
        raise OptionError("the score is the same for all judgments; nothing can be explained")
    slopes, se, r2 = _least_squares(x[:, has_slope], y, cluster, n, k, g)
    scale = x.std(axis=0) / y.std()
    full, errors = np.full(len(has_slope), np.nan), np.full(len(has_slope), np.nan)
    full[has_slope], errors[has_slope] = slopes, se
    standardised, half = full * scale, student_quantile(level, g - 1) * errors * scale
    with np.errstate(divide="ignore", invalid="ignore"):  # an exact fit has se = 0 and p = 0
        p = 2 * stdtr(g - 1, -np.abs(full / errors))
    return ErrorSlopes(
        full, standardised, errors * scale, standardised - half, standardised + half, p, r2, n, g, tuple(reasons)
    )


def _find_reasons(counts: FloatArray, x: FloatArray) -> list[str]:
    """Return for each error type why it has no slope: it is constant, or determined by the types before it."""
    reasons, basis = [], np.zeros((len(x), 0))
    for column in range(x.shape[1]):
        length = float(np.linalg.norm(x[:, column]))
        residual = x[:, column] - basis @ (basis.T @ x[:, column])
        if length <= _ROUNDING * max(1.0, float(np.abs(counts[:, column]).max(initial=0.0))):
            reasons.append("never occurs" if not counts[:, column].any() else "never varies")
        elif float(np.linalg.norm(residual)) <= _ROUNDING**0.5 * length:
            reasons.append("is determined by the others")
        else:
            reasons.append("")
            basis = np.column_stack([basis, residual / np.linalg.norm(residual)])
    return reasons


def _least_squares(
    x: FloatArray, y: FloatArray, cluster: IntArray, n: int, k: int, g: int
) -> tuple[FloatArray, FloatArray, float]:
    """Return slopes, cluster-robust standard errors, and R squared."""
    inverse = np.linalg.pinv(x.T @ x, rcond=1e-13, hermitian=True)
    slopes = np.linalg.lstsq(x, y, rcond=None)[0]
    residual = y - x @ slopes
    codes = np.unique(cluster, return_inverse=True)[1]
    pull = np.column_stack([np.bincount(codes, residual * column, minlength=g) for column in x.T]).reshape(g, -1)
    small = g / (g - 1) * (n - 1) / (n - k)
    covariance = inverse @ (pull.T @ pull) @ inverse * small
    return slopes.astype(np.float64), np.sqrt(np.diag(covariance)), 1 - float(residual @ residual) / float(y @ y)
