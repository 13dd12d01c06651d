"""Z-scores within groups, and crossed annotator and item effects.

Invariant: the z-scores of a group sum to 0 and their squares to the group's size (population standard deviation,
divisor n). They are NaN, never 0, for a group that is too small or constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, group_sums, is_negligible, max_abs


@dataclass(frozen=True, eq=False)
class GroupZScores:
    """Z-scores with the moments of their groups."""

    z: FloatArray  # z-score of each value, NaN where the value is missing or its group has none
    mean: FloatArray  # mean of each group, NaN for an empty group
    sd: FloatArray  # standard deviation of each group, divisor n
    count: IntArray  # number of values of each group
    constant: BoolArray  # groups with enough values, all of them equal
    few: BoolArray  # groups with a value, but fewer than `minimum`


def group_zscores(values: FloatArray, groups: IntArray, minimum: int = 2) -> GroupZScores:
    """Return z-scores within groups; NaN for groups with fewer than `minimum` values or without variance.

    >>> group_zscores(np.array([1.0, 3.0, 5.0, 5.0, 7.0]), np.array([0, 0, 1, 1, 2])).z
    array([-1.,  1., nan, nan, nan])
    """
    present = np.isfinite(values)
    groups = np.asarray(groups, dtype=np.int64)
    size = int(groups.max()) + 1 if len(groups) else 0
    count = np.bincount(groups[present], minlength=size)
    safe = np.maximum(count, 1)
    filled = np.where(present, values, 0.0)
    mean = group_sums(groups, filled, size) / safe
    centred = np.where(present, values - mean[groups], 0.0)
    # Two passes: the sum of squares of 0-100 ratings loses digits that the sum of squared deviations keeps.
    sd = np.sqrt(group_sums(groups, centred**2, size) / safe)
    flat = is_negligible(sd, max_abs(values))
    is_small = (count > 0) & (count < max(minimum, 1))
    defined = (count > 0) & ~is_small & ~flat
    scale = np.where(defined, sd, np.nan)
    z = np.where(present, centred / scale[groups], np.nan)
    return GroupZScores(
        z,
        np.where(count > 0, mean, np.nan),
        np.where(count > 0, sd, np.nan),
        count,
        (count > 0) & ~is_small & flat,
        is_small,
    )


# -- Crossed annotator and item effects by a mixed model: y = group mean + annotator + item + noise --------------------


_START_RATIOS = np.array(
    [1e-4, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
)  # starting ratios of standard deviations; the first stands for 0
_MAX_HELD = 20_000_000  # numbers held to speed up each step of the search


@dataclass(frozen=True, eq=False)
class CrossedEffects:
    """Estimated effects (BLUPs) and standard deviations."""

    annotator: FloatArray  # effect of each annotator (negative: stricter than others), shrunken towards 0
    annotator_se: FloatArray  # its standard error
    item: FloatArray  # effect of each item, shrunken towards 0
    group: FloatArray  # mean of each group, for an average annotator and item
    noise: FloatArray  # noise of each annotator: root mean square of the residuals, on the scale of `noise_sd`
    annotator_sd: float  # standard deviation of annotators' effects
    item_sd: float  # standard deviation of items' effects
    noise_sd: float  # standard deviation of the noise


@dataclass(frozen=True, eq=False)
class _CountSums:
    """Sums over items with equally many judgments: an item's weight depends on its count only."""

    counts: IntArray  # judgments per item
    items: IntArray  # items with that count
    products: FloatArray  # outer products of their columns of `rest_items`, summed: counts x (rest * rest)
    right: FloatArray  # the same columns times their sums of y: counts x rest
    squares: FloatArray  # squares of their sums of y

    def eliminate_items(self, ratio: float) -> _EliminatedItems:
        weight = _item_weight(ratio, self.counts)
        size = self.right.shape[1]
        return _EliminatedItems(
            matrix=(weight @ self.products).reshape(size, size),
            right=weight @ self.right,
            explained=float(weight @ self.squares),
            determinant=float(self.items @ np.log1p(ratio**2 * self.counts)),
        )


@dataclass(frozen=True, eq=False)
class _EliminatedItems:
    """Terms of the normal equations, the explained sum of squares and the log determinant due to items."""

    matrix: FloatArray
    right: FloatArray
    explained: float
    determinant: float


@dataclass(frozen=True, eq=False)
class _ModelSums:
    """Sufficient statistics of the likelihood; `rest` is annotators, then groups."""

    n_annotators: int
    groups: int
    n: int
    rest: FloatArray
    rest_items: sparse.csr_array
    items: FloatArray
    rest_y: FloatArray
    items_y: FloatArray
    square_y: float
    by_count: _CountSums | None

    def eliminate_items(self, ratio: float) -> _EliminatedItems:
        """Return sums over items with weights w(n_i)."""
        if self.by_count is not None:
            return self.by_count.eliminate_items(ratio)
        weight = _item_weight(ratio, self.items)
        products = (self.rest_items * weight[None, :]) @ self.rest_items.T
        return _EliminatedItems(
            np.asarray(products.toarray()),
            self.rest_items @ (weight * self.items_y),
            float(weight @ self.items_y**2),
            float(np.log1p(ratio**2 * self.items).sum()),
        )


@dataclass(frozen=True, eq=False)
class _Solution:
    """The penalised least squares solution at one pair of ratios."""

    deviance: float
    noise: float
    rest: FloatArray
    factor: FloatArray


def crossed_effects(
    values: FloatArray, annotators: IntArray, items: IntArray, groups: IntArray | None = None
) -> CrossedEffects:
    """Fit y = group mean + annotator + item + noise to judgments, given codes (0, 1, ..., none left out).

    An effect that is not identified (a single annotator, or as many items as judgments) is 0.

    >>> annotators, items = np.tile([0, 1], 4), np.repeat(np.arange(4), 2)
    >>> fit = crossed_effects(np.array([1.0, 3, 4, 6, 2, 4, 7, 9.5]), annotators, items)
    >>> bool(fit.annotator[0] < 0 < fit.annotator[1]), round(float(fit.group[0]), 2)
    (True, 4.56)
    """
    groups = np.zeros(len(values), dtype=np.int64) if groups is None else groups
    centre = float(values.mean())
    sums = _sum_judgments(values - centre, annotators, items, groups)
    if sums.n <= sums.groups:
        raise ValueError(f"{sums.n} judgments are too few for the means of {sums.groups} groups")
    free: BoolArray = np.array([sums.n_annotators > 1, bool((sums.items > 1).any())])
    theta = _optimise_ratios(sums, free)
    solution = _solve_normal_equations(sums, theta)
    effects = solution.rest
    effect, mean = theta[0] * effects[: sums.n_annotators], effects[sums.n_annotators :]
    unexplained = sums.items_y - sums.rest_items.T @ np.concatenate([effect, mean])
    item = _item_weight(theta[1], sums.items) * unexplained
    residual = values - centre - mean[groups] - effect[annotators] - item[items]
    return CrossedEffects(
        annotator=effect,
        annotator_se=solution.noise * theta[0] * _inverse_diagonal(solution.factor)[: sums.n_annotators],
        item=item,
        group=mean + centre,
        noise=_annotator_noise(residual, annotators, sums.n_annotators, solution.noise),
        annotator_sd=float(theta[0] * solution.noise),
        item_sd=float(theta[1] * solution.noise),
        noise_sd=float(solution.noise),
    )


def _inverse_diagonal(factor: FloatArray) -> FloatArray:
    """Return the square roots of the diagonal of (L L')^-1."""
    inverse = linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)
    return np.asarray(np.sqrt((inverse**2).sum(axis=0)))


def _annotator_noise(residual: FloatArray, annotators: IntArray, n_annotators: int, noise: float) -> FloatArray:
    """Return the root mean square residual of each annotator, rescaled for the degrees of freedom of the effects."""
    count = np.bincount(annotators, minlength=n_annotators)
    rms = np.sqrt(group_sums(annotators, residual**2, n_annotators) / np.maximum(count, 1))
    overall = float(np.sqrt((residual**2).mean()))
    return np.where(count > 0, rms * (noise / overall if overall > 0 else 1.0), np.nan)


def _item_weight(ratio: float, counts: FloatArray | IntArray) -> FloatArray:
    """Return the weight of an item with n judgments, theta^2 / (theta^2 n + 1)."""
    return np.asarray(ratio**2 / (ratio**2 * counts + 1.0))


def _sum_by_count(rest_items: sparse.csr_array, items: FloatArray, items_y: FloatArray) -> _CountSums | None:
    """Return sums by count, which make each step independent of the number of items; None if they are too large."""
    counts, place = np.unique(items.astype(np.int64), return_inverse=True)
    width = rest_items.shape[0]
    if len(counts) * width**2 > _MAX_HELD:
        return None
    columns = rest_items.tocsc()
    products, right = np.empty((len(counts), width**2)), np.empty((len(counts), width))
    for group in range(len(counts)):
        members = np.flatnonzero(place == group)
        part = columns[:, members].tocsr()
        products[group] = (part @ part.T).toarray().ravel()
        right[group] = part @ items_y[members]
    return _CountSums(counts, np.bincount(place), products, right, group_sums(place, items_y**2, len(counts)))


def _sum_judgments(y: FloatArray, annotators: IntArray, items: IntArray, groups: IntArray) -> _ModelSums:
    n_annotators, n_groups, n_items = int(annotators.max()) + 1, int(groups.max()) + 1, int(items.max()) + 1
    once = np.ones(len(y))
    of_annotator = sparse.csr_array((once, (annotators, items)), shape=(n_annotators, n_items))
    of_group = sparse.csr_array((once, (groups, items)), shape=(n_groups, n_items))
    gram = np.zeros((n_annotators + n_groups, n_annotators + n_groups))
    gram[np.diag_indices(n_annotators)] = np.bincount(annotators, minlength=n_annotators)
    corner = np.arange(n_annotators, n_annotators + n_groups)
    gram[corner, corner] = np.bincount(groups, minlength=n_groups)
    crossed = group_sums(annotators * n_groups + groups, once, n_annotators * n_groups).reshape(n_annotators, n_groups)
    gram[:n_annotators, n_annotators:], gram[n_annotators:, :n_annotators] = crossed, crossed.T
    rest_items = sparse.csr_array(sparse.vstack([of_annotator, of_group]))
    counts, items_y = np.bincount(items, minlength=n_items).astype(np.float64), group_sums(items, y, n_items)
    return _ModelSums(
        n_annotators,
        n_groups,
        len(y),
        gram,
        rest_items,
        counts,
        np.concatenate([group_sums(annotators, y, n_annotators), group_sums(groups, y, n_groups)]),
        items_y,
        float(y @ y),
        _sum_by_count(rest_items, counts, items_y),
    )


def _optimise_ratios(sums: _ModelSums, free: BoolArray) -> FloatArray:
    """Return the ratios that minimise the restricted deviance; those of effects that are not free are 0.

    The deviance may have a local minimum at an edge, hence the grid of starts; the search is in logarithms.
    """
    if not free.any():
        return np.zeros(2)
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to import)

    def expand_ratios(logs: FloatArray) -> FloatArray:
        theta = np.zeros(2)
        theta[free] = np.exp(np.clip(logs, -10.0, 10.0))
        return np.where(theta < 1.5 * _START_RATIOS[0], 0.0, theta)

    def deviance(logs: FloatArray) -> float:
        return _solve_normal_equations(sums, expand_ratios(logs)).deviance

    axes = np.meshgrid(*[np.log(_START_RATIOS)] * int(free.sum()), indexing="ij")
    starts = np.stack([axis.ravel() for axis in axes], axis=1)
    start = starts[int(np.argmin([deviance(logs) for logs in starts]))]
    simplex = np.vstack([start, start + 0.5 * np.eye(len(start))])
    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 400, "initial_simplex": simplex}
    return expand_ratios(minimize(deviance, start, method="Nelder-Mead", options=options).x)


def _solve_normal_equations(sums: _ModelSums, theta: FloatArray) -> _Solution:
    """Solve the penalised least squares system (Bates et al. 2015, eq. 17) and give the deviance (eq. 41)."""
    scale = np.concatenate([np.full(sums.n_annotators, theta[0]), np.ones(sums.groups)])
    eliminated = sums.eliminate_items(float(theta[1]))
    matrix = scale[:, None] * (sums.rest - eliminated.matrix) * scale[None, :]
    matrix[np.diag_indices(sums.n_annotators)] += 1.0
    right = scale * (sums.rest_y - eliminated.right)
    # LAPACK directly: the search calls this hundreds of times, and scipy's checks would dominate.
    factor, failed = linalg.lapack.dpotrf(matrix, lower=1)
    if failed:
        raise linalg.LinAlgError(f"the normal equations of {len(matrix)} effects are not positive definite")
    solution, _ = linalg.lapack.dpotrs(factor, right, lower=1)
    explained = eliminated.explained + float(right @ solution)
    free = sums.n - sums.groups
    residual = max(sums.square_y - explained, 1e-12 * max(sums.square_y, 1e-300))
    determinant = eliminated.determinant + 2.0 * np.log(np.diag(factor)).sum()
    return _Solution(float(determinant + free * np.log(residual)), float(np.sqrt(residual / free)), solution, factor)
