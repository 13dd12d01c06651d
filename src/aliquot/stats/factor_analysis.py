"""Factor analysis: sampling adequacy, maximum likelihood factors, promax, simple structure.

Extraction follows R's `factanal`; varimax is statsmodels', whose promax differs from R's, so that promax is implemented
here. SPSS row-normalises the target of promax (Grieder and Steiner 2022, Table 3), so that its loadings differ: both
are offered. Loadings agree with R to 1e-5 where R's varimax converges (its default stops early, and differs by up to
0.006). See docs/methods.md, section 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import chdtrc

from aliquot.errors import OptionError, judge_extra
from aliquot.stats.arrays import FloatArray, IntArray, Seed, average_ranks, is_constant
from aliquot.stats.cluster_robust import normal_quantile
from aliquot.stats.resampling import bootstrap_sums

PromaxTarget = Literal["r", "spss"]
PROMAX_TARGETS: tuple[PromaxTarget, ...] = get_args(PromaxTarget)
"""Targets of promax: sign(V) |V|^4 of the varimax loadings V as they are (R), or with rows of unit length (SPSS)."""

_PROMAX_POWER = 4

HEYWOOD = 0.005
"""Smallest uniqueness: such a variable counts as fully explained, which real ratings never are."""

_STARTS = 5


@dataclass(frozen=True, eq=False)
class Factors:
    """A factor solution of p variables and m factors."""

    loadings: (
        FloatArray  # p x m pattern matrix after promax, columns by decreasing explained variance, with positive sums
    )
    communality: FloatArray  # share of each variable's variance that the factors explain
    correlation: FloatArray  # m x m correlation of the factors
    variance: FloatArray  # share of the total variance that each factor's loadings carry (sum of squared loadings / p)
    chi2: float  # test that m factors are enough, with Bartlett's correction; NaN where df is 0
    df: int
    p_value: float
    heywood: tuple[int, ...]  # variables with a uniqueness of (nearly) 0
    converged: bool  # whether the optimiser converged
    promax: str  # one of `PROMAX_TARGETS`; a single factor is not rotated


@dataclass(frozen=True)
class DroppedVariable:
    """A dropped variable, and the reason."""

    variable: int
    reason: str


def factor_degrees_of_freedom(variables: int, factors: int) -> int:
    """Return the degrees of freedom of the factor model, ((p - m)^2 - (p + m)) / 2.

    >>> factor_degrees_of_freedom(8, 4)  # chi2 = 2.06, df = 2
    2
    """
    return ((variables - factors) ** 2 - (variables + factors)) // 2


def max_factors(variables: int) -> int:
    """Return the largest number of factors with degrees of freedom >= 0.

    >>> [max_factors(p) for p in (2, 3, 4, 5, 6, 8)]
    [0, 1, 1, 2, 3, 4]
    """
    return max((m for m in range(variables) if factor_degrees_of_freedom(variables, m) >= 0), default=0)


def kmo(correlation: FloatArray) -> tuple[float, FloatArray]:
    """Return the Kaiser-Meyer-Olkin measure of sampling adequacy, overall and per variable.

    KMO = sum r^2 / (sum r^2 + sum a^2) off the diagonal, a the partial correlations -q_ij / sqrt(q_ii q_jj), Q = R^-1.

    >>> overall, single = kmo(np.array([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]]))
    >>> round(overall, 4)
    0.6923
    """
    size = len(correlation)
    if size < 2 or not np.isfinite(correlation).all() or np.linalg.cond(correlation) > 1e12:
        return float("nan"), np.full(size, np.nan)
    inverse = np.linalg.inv(correlation)
    scale = np.sqrt(np.diag(inverse))
    off = ~np.eye(size, dtype=bool)
    squared = np.where(off, correlation**2, 0.0)
    partial = np.where(off, (inverse / np.outer(scale, scale)) ** 2, 0.0)
    total = squared.sum(axis=0) + partial.sum(axis=0)
    single = np.divide(squared.sum(axis=0), total, out=np.full(size, np.nan), where=total > 0)
    total_square = float(total.sum())
    return float(squared.sum() / total_square) if total_square > 0 else float("nan"), single


@dataclass(frozen=True, eq=False)
class ParallelAnalysis:
    """Result of parallel analysis: the number of leading `eigenvalues` above those of random data (`noise`)."""

    number: int
    eigenvalues: FloatArray
    noise: FloatArray


def parallel_analysis(correlation: FloatArray, n: int, *, draws: int = 200, seed: Seed = 0) -> ParallelAnalysis:
    """Count the factors above chance (Horn 1965, on common factors as Humphreys and Ilgen 1969).

    Eigenvalues of the correlations with squared multiple correlations on the diagonal are compared with the 95th
    percentile of those of random data. (With 1 on the diagonal, correlated factors appear as one.)

    >>> parallel_analysis(np.array([[1.0, 0.8, 0.8], [0.8, 1.0, 0.8], [0.8, 0.8, 1.0]]), 100).number
    1
    """
    rng = np.random.default_rng(seed)
    size = len(correlation)
    eigenvalues = _common_eigenvalues(correlation)
    null = np.empty((draws, size))
    for draw in range(draws):
        # Bartlett's decomposition: the correlations of n normal rows, without drawing n rows.
        root = np.tril(rng.standard_normal((size, size)), -1)
        np.fill_diagonal(root, np.sqrt(rng.chisquare(np.maximum(n - 1 - np.arange(size), 1))))
        product = root @ root.T
        scale = np.sqrt(np.diag(product))
        null[draw] = _common_eigenvalues(product / np.outer(scale, scale))
    limit = np.quantile(null, 0.95, axis=0)
    above = eigenvalues > limit
    return ParallelAnalysis(int(size if above.all() else np.argmin(above)), eigenvalues, limit)


def _common_eigenvalues(correlation: FloatArray) -> FloatArray:
    reduced = correlation - np.diag(1 / np.diag(np.linalg.inv(correlation)))
    return np.asarray(np.linalg.eigvalsh(reduced)[::-1], dtype=np.float64)


def ml_factors(correlation: FloatArray, n: int, factors: int, *, rotation: PromaxTarget = "r") -> Factors:
    """Fit m factors by maximum likelihood, rotated by promax (`rotation`: one of `PROMAX_TARGETS`).

    Minimises ln|S| + tr(R S^-1) - ln|R| - p with S = L L' + diag(psi); chi2 = (n - 1 - (2p + 5)/6 - 2m/3) F.

    >>> one = np.array([0.9, 0.8, 0.7, 0.6])
    >>> fit = ml_factors(np.outer(one, one) + np.diag(1 - one**2), 200, 1)
    >>> fit.loadings[:, 0].round(3).tolist(), fit.df
    ([0.9, 0.8, 0.7, 0.6], 2)
    """
    size = len(correlation)
    if factors < 1 or factors > max_factors(size):
        raise OptionError(f"{factors} factors for {size} variables; choose 1 to {max_factors(size)}")
    if np.linalg.eigvalsh(correlation)[0] < 1e-10:
        raise OptionError("the correlation matrix is singular: one variable is determined by the others; leave it out")
    loadings, unique, converged = _extract_factors(correlation, factors)
    fit = _likelihood_discrepancy(correlation, loadings, unique)
    df = factor_degrees_of_freedom(size, factors)
    statistic = max(0.0, (n - 1 - (2 * size + 5) / 6 - 2 * factors / 3) * fit)
    pattern, between = promax(loadings, rotation)
    pattern, between = _order_factors(pattern, between)
    return Factors(
        loadings=pattern,
        communality=1 - unique,
        correlation=between,
        variance=(pattern**2).sum(axis=0) / size,
        chi2=statistic if df else float("nan"),
        df=df,
        p_value=float(chdtrc(df, statistic)) if df else float("nan"),
        heywood=tuple(np.flatnonzero(unique < HEYWOOD + 1e-6).tolist()),
        converged=converged,
        promax=rotation,
    )


def _extract_factors(correlation: FloatArray, factors: int) -> tuple[FloatArray, FloatArray, bool]:
    """Return unrotated loadings, uniquenesses and convergence, by the profile likelihood (Lawley and Maxwell 1971).

    Uniquenesses are at least `HEYWOOD`, as in R's `factanal`, whose start is the first of several: fully explained
    variables cause local maxima. The starts are fixed, so that results are reproducible.
    """
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to import)

    size = len(correlation)
    first = (1 - 0.5 * factors / size) / np.diag(np.linalg.inv(correlation))
    spread = np.random.default_rng(0).uniform(0.1, 0.9, size=(_STARTS - 1, size))
    fits = [
        minimize(
            _profile_discrepancy,
            np.clip(start, HEYWOOD, 1.0),
            args=(correlation, factors),
            jac=True,
            method="L-BFGS-B",
            bounds=[(HEYWOOD, 1.0)] * size,
            options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000},
        )
        for start in (first, *spread)
    ]
    best = min(fits, key=lambda fit: float(fit.fun))
    unique = np.asarray(best.x, dtype=np.float64)
    # At a bound the gradient must only point outwards.
    inside = np.where(unique >= 1.0, np.maximum(best.jac, 0.0), best.jac)
    inside = np.where(unique <= HEYWOOD, np.minimum(best.jac, 0.0), inside)
    values, vectors = np.linalg.eigh(correlation / np.sqrt(np.outer(unique, unique)))
    scaled = vectors[:, ::-1][:, :factors] * np.sqrt(np.maximum(values[::-1][:factors] - 1, 0.0))
    return np.sqrt(unique)[:, None] * scaled, unique, bool(np.abs(inside).max() < 1e-4)


def _profile_discrepancy(unique: FloatArray, correlation: FloatArray, factors: int) -> tuple[float, FloatArray]:
    """Return the discrepancy of the best loadings for these uniquenesses, and its gradient."""
    values, vectors = np.linalg.eigh(correlation / np.sqrt(np.outer(unique, unique)))
    unexplained = values[: len(unique) - factors]
    scaled = vectors[:, ::-1][:, :factors] * np.sqrt(np.maximum(values[::-1][:factors] - 1, 0.0))
    loadings = np.sqrt(unique)[:, None] * scaled
    gradient = ((loadings**2).sum(axis=1) + unique - np.diag(correlation)) / unique**2
    return float((unexplained - np.log(unexplained)).sum() - len(unexplained)), gradient


def _likelihood_discrepancy(correlation: FloatArray, loadings: FloatArray, unique: FloatArray) -> float:
    implied = loadings @ loadings.T + np.diag(unique)
    trace = float(np.trace(np.linalg.solve(implied, correlation)))
    return float(np.linalg.slogdet(implied)[1] - np.linalg.slogdet(correlation)[1]) + trace - len(correlation)


def promax(loadings: FloatArray, variant: str = "r") -> tuple[FloatArray, FloatArray]:
    """Rotate loadings by promax: Kaiser-normalised varimax V, target P = sign(V)|V|^4, T = (V'V)^-1 V'P rescaled.

    "spss" divides each row of V by its length in P only. (Scaling columns of P makes no difference, because the columns
    of T are rescaled.) Returns the pattern matrix and the correlation of the factors.

    >>> pattern, between = promax(np.array([[0.8, 0.4], [0.7, 0.4], [0.4, 0.8], [0.4, 0.7]]))
    >>> bool(np.abs(between[0, 1]) > 0.5)
    True
    """
    if loadings.shape[1] == 1:
        return loadings, np.ones((1, 1))
    rotation = judge_extra(
        "statsmodels.multivariate.factor_rotation", "factor rotation", "ask for one factor, or none with factors=0"
    )
    size = np.sqrt((loadings**2).sum(axis=1))
    size = np.where(size > 0, size, 1.0)
    normalised, _ = rotation.rotate_factors(loadings / size[:, None], "varimax")
    varimax = np.asarray(normalised) * size[:, None]
    base = np.asarray(normalised) if variant == "spss" else varimax
    target = base * np.abs(base) ** (_PROMAX_POWER - 1)
    rotation_matrix = np.linalg.lstsq(varimax, target, rcond=None)[0]
    rotation_matrix = rotation_matrix * np.sqrt(np.diag(np.linalg.inv(rotation_matrix.T @ rotation_matrix)))
    inverse = np.linalg.inv(rotation_matrix)
    return varimax @ rotation_matrix, inverse @ inverse.T


def _order_factors(pattern: FloatArray, between: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sort factors by explained variance, and flip their signs to positive sums."""
    order = np.argsort(-(pattern**2).sum(axis=0), kind="stable")
    sign = np.where(pattern[:, order].sum(axis=0) < 0, -1.0, 1.0)
    return pattern[:, order] * sign, between[np.ix_(order, order)] * np.outer(sign, sign)


def simple_structure(
    correlation: FloatArray,
    n: int,
    factors: int,
    *,
    gap: float = 0.2,
    communality: float = 0.2,
    rotation: PromaxTarget = "r",
) -> tuple[Factors, IntArray, tuple[DroppedVariable, ...]]:
    """Drop variables that load on no factor or on two, one at a time, the worst first, and refit.

    A variable is dropped if its two highest absolute loadings differ by less than `gap`, or its communality is below
    `communality` (the paper names no threshold), while degrees of freedom remain. Returns the last solution, the
    indices of the remaining variables, and the dropped ones in order.

    >>> one = np.array([0.9, 0.8, 0.7, 0.7, 0.1])
    >>> _, left, gone = simple_structure(np.outer(one, one) + np.diag(1 - one**2), 500, 1)
    >>> left.tolist(), gone[0].variable
    ([0, 1, 2, 3], 4)
    """
    remaining = np.arange(len(correlation))
    dropped: list[DroppedVariable] = []
    while True:
        fit = ml_factors(correlation[np.ix_(remaining, remaining)], n, factors, rotation=rotation)
        worst = find_worst_variable(fit, gap, communality)
        if worst is None or factor_degrees_of_freedom(len(remaining) - 1, factors) < 1:
            return fit, remaining, tuple(dropped)
        dropped.append(DroppedVariable(int(remaining[worst.variable]), worst.reason))
        remaining = np.delete(remaining, worst.variable)


def find_worst_variable(fit: Factors, gap: float = 0.2, communality: float = 0.2) -> DroppedVariable | None:
    """Return the variable with the worst fit: low communality, or cross-loading; None if all fit."""
    low = int(np.argmin(fit.communality))
    if fit.communality[low] < communality:
        return DroppedVariable(low, f"communality {fit.communality[low]:.2f} below {communality:g}")
    if fit.loadings.shape[1] < 2:
        return None
    highest = np.sort(np.abs(fit.loadings), axis=1)[:, ::-1]
    apart = highest[:, 0] - highest[:, 1]
    cross = int(np.argmin(apart))
    if apart[cross] >= gap:
        return None
    return DroppedVariable(cross, f"loads {highest[cross, 0]:.2f} and {highest[cross, 1]:.2f} on two factors")


# -- Correlation matrices with missing values and intervals over clusters of rows --------------------------------------


@dataclass(frozen=True, eq=False)
class CorrelationMatrix:
    """Correlation matrices of p columns."""

    value: FloatArray  # p x p, pairwise complete; NaN where undefined
    low: FloatArray  # percentile intervals over resampled clusters; NaN below two clusters
    high: FloatArray
    count: IntArray  # rows with both columns
    # p x p, from complete rows (a proper correlation matrix); NaN for a constant column
    complete: FloatArray
    n: int  # rows
    n_complete: int  # complete rows


def correlation_matrix(
    values: FloatArray,
    cluster: IntArray,
    *,
    spearman: bool = False,
    level: float = 0.95,
    draws: int = 1000,
    seed: Seed = 0,
) -> CorrelationMatrix:
    """Correlate all pairs of columns (`spearman`: their ranks), with intervals by a cluster bootstrap.

    >>> values = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.5]])
    >>> round(correlation_matrix(values, np.arange(3)).value[0, 1].item(), 4)
    0.9979
    """
    if values.ndim != 2 or values.shape[1] < 2:
        raise OptionError(f"`values` has shape {values.shape}; correlations need two columns or more")
    normal_quantile(level)  # raises OptionError for an invalid level
    values = average_ranks(values.T).T if spearman else values
    size = values.shape[1]
    shape = (size, size)
    value, low, high = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    present = np.isfinite(values)
    count = present.T.astype(np.int64) @ present.astype(np.int64)
    rng = np.random.default_rng(seed)
    for a in range(size):
        for b in range(a, size):
            shared = present[:, a] & present[:, b]
            ends = _pair_correlation(
                values[shared, a], values[shared, b], cluster[shared], level, 0 if a == b else draws, rng
            )
            for matrix, number in zip((value, low, high), ends, strict=True):
                matrix[a, b] = matrix[b, a] = number
    complete_rows = present.all(axis=1)
    complete = np.full(shape, np.nan)
    if complete_rows.sum() > 1:
        vary = ~is_constant(values[complete_rows], axis=0)
        complete[np.ix_(vary, vary)] = np.atleast_2d(np.corrcoef(values[complete_rows][:, vary], rowvar=False))
    return CorrelationMatrix(value, low, high, count, complete, len(values), int(complete_rows.sum()))


def _pair_correlation(
    x: FloatArray, y: FloatArray, cluster: IntArray, level: float, draws: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return a correlation and its percentile interval, from sums over clusters of x, y, x^2, y^2, xy and rows."""
    nan = float("nan")
    if len(x) < 2 or is_constant(x) or is_constant(y):
        return nan, nan, nan
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    codes = np.unique(cluster, return_inverse=True)[1]
    parts = (x, y, x * x, y * y, x * y, np.ones_like(x))
    sums = np.column_stack([np.bincount(codes, part) for part in parts]).astype(np.float64)
    value = float(_correlation_from_sums(sums.sum(axis=0, keepdims=True))[0])
    if len(sums) < 2 or draws < 2:
        return value, nan, nan
    samples = _correlation_from_sums(sums.sum(axis=0) + bootstrap_sums(sums, draws, rng))
    defined = samples[np.isfinite(samples)]
    if len(defined) < draws / 2:
        return value, nan, nan
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return value, float(low), float(high)


def _correlation_from_sums(sums: FloatArray) -> FloatArray:
    x, y, xx, yy, xy, n = sums.T
    spread_x, spread_y = xx - x**2 / n, yy - y**2 / n
    product = np.sqrt(np.maximum(spread_x, 0.0) * np.maximum(spread_y, 0.0))
    enough = product > 1e-9 * n
    ratio = np.divide(xy - x * y / n, product, out=np.full(len(sums), np.nan), where=enough)
    return np.asarray(np.clip(ratio, -1.0, 1.0), dtype=np.float64)
