"""Sampling designs with given inclusion probabilities: simple, systematic, local pivotal, cube.

Invariant: item i is drawn with probability pi_i exactly. If the pi sum to a whole number the sample has that size,
otherwise the whole number below or above. Samples are sorted arrays of item indices.
"""

from __future__ import annotations

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed, nan_std
from aliquot.validation import between

ROUNDING = 1e-9
"""Relative difference of a sum of probabilities from a whole number that is rounding."""

NEIGHBOURS = 12
"""Neighbours per query of the local pivotal method; more are queried when all of them are decided."""


def validate_probabilities(pi: FloatArray) -> FloatArray:
    """Return inclusion probabilities as a new array within [0, 1]; raise OptionError for other values.

    >>> validate_probabilities(np.array([0.0, 0.5, 1.0 + 1e-12])).tolist()
    [0.0, 0.5, 1.0]
    """
    values = np.asarray(pi, dtype=np.float64)
    if values.ndim != 1:
        raise OptionError(f"`pi` has {values.ndim} dimensions; give one probability per item")
    bad = np.flatnonzero(~((values >= -ROUNDING) & (values <= 1.0 + ROUNDING)))
    if bad.size:
        raise OptionError(f"pi[{bad[0]}] is {values[bad[0]]}; inclusion probabilities lie between 0 and 1")
    return np.clip(values, 0.0, 1.0)


def _validate_matrix(name: str, values: FloatArray, rows: int) -> FloatArray:
    """Return a matrix with a row per item; a vector becomes a column."""
    matrix = np.asarray(values, dtype=np.float64)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or len(matrix) != rows:
        raise OptionError(f"{name} has shape {matrix.shape}; give one row for each of the {rows} items of pi")
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        raise OptionError(f"{name}[{bad[0][0]}, {bad[0][1]}] is {matrix[tuple(bad[0])]}; fill missing values first")
    return matrix


def _validate_order(order: IntArray, size: int) -> IntArray:
    """Return the order; raise OptionError unless it is a permutation of the items."""
    numbers = np.asarray(order, dtype=np.int64)
    if numbers.shape != (size,) or not np.array_equal(np.sort(numbers), np.arange(size)):
        raise OptionError(f"order (length {numbers.size}) must hold each of the items 0 to {size - 1} once")
    return numbers


def simple_random_sample(population: int, n: int, seed: Seed) -> IntArray:
    """Draw n of `population` items, all subsets equally likely (WMT "segment level").

    >>> len(simple_random_sample(100, 7, seed=0))
    7
    """
    between("n", n, 0, population, remedy=f"choose between 0 and the {population} items there are")
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(population, size=n, replace=False, shuffle=False)).astype(np.int64)


def systematic_sample(pi: FloatArray, seed: Seed, order: IntArray | None = None) -> IntArray:
    """Draw systematically: the items in which u, u + 1, ... fall on the cumulated pi, u uniform.

    Madow (1949). Neighbours in the order exclude each other: sorting by document or score stratifies implicitly.

    >>> systematic_sample(np.array([0.5, 0.5, 1.0, 0.5, 0.5]), seed=1).tolist()
    [1, 2, 4]
    """
    values = validate_probabilities(pi)
    ordered = np.arange(len(values)) if order is None else _validate_order(order, len(values))
    start = np.random.default_rng(seed).random()
    # Items with pi = 0 or 1 shift the cumulated sum by whole numbers only: removing them first does not change
    # the design and avoids rounding errors at them.
    certain = np.flatnonzero(values == 1.0)
    free = ordered[(values[ordered] > 0.0) & (values[ordered] < 1.0)]
    drawn = free[_systematic_hits(values[free], start)]
    return np.sort(np.concatenate([certain, drawn])).astype(np.int64)


def _systematic_hits(pi: FloatArray, start: float) -> IntArray:
    """Return the positions hit by start, start + 1, ... on the cumulated pi, robust to rounding."""
    if not len(pi):
        return np.empty(0, dtype=np.int64)
    total = float(pi.sum())
    cumulated = np.cumsum(pi)
    size = round(total)
    if abs(total - size) > ROUNDING * max(1.0, total):
        size = int(np.ceil(total - start))
    cumulated *= total / cumulated[-1]
    hits = np.searchsorted(cumulated, start + np.arange(size), side="right")
    # Rounding may put two hits into an item with pi close to 1, or one beyond the end: separate them.
    steps = np.arange(size)
    hits = np.maximum.accumulate(hits - steps) + steps
    return np.minimum(hits, len(pi) - size + steps).astype(np.int64)


def random_document_order(documents: IntArray, seed: Seed) -> IntArray:
    """Return an order for `systematic_sample`: documents at random, items of a document as given.

    >>> random_document_order(np.array([7, 3, 7, 3, 3]), seed=0).tolist()
    [1, 3, 4, 0, 2]
    """
    codes, inverse = np.unique(np.asarray(documents), return_inverse=True)
    rank = np.random.default_rng(seed).permutation(len(codes))
    return np.argsort(rank[inverse], kind="stable").astype(np.int64)


class _NeighbourPool:
    """Nearest undecided neighbours of undecided points.

    A k-d tree is queried for all points at once and rebuilt when half of its points are decided: a few batch queries
    instead of one per step.
    """

    def __init__(self, points: FloatArray) -> None:
        self.points = points
        self.alive = [True] * len(points)
        self.left = len(points)
        self._build_tree()

    def _build_tree(self) -> None:
        from scipy.spatial import cKDTree  # noqa: PLC0415  (slow to import)

        self.members = np.flatnonzero(self.alive)
        self.tree = cKDTree(self.points[self.members])
        near = self.tree.query(self.points[self.members], k=min(NEIGHBOURS, len(self.members)))[1]
        rows = self.members[near.reshape(len(self.members), -1)].tolist()
        self.near: dict[int, list[int]] = dict(zip(self.members.tolist(), rows, strict=True))

    def find_nearest(self, i: int) -> int:
        """Return the undecided point nearest to i; at least one must be left."""
        n_neighbours = NEIGHBOURS
        near = self.near[i]
        while True:
            for j in near:
                if self.alive[j] and j != i:
                    return j
            n_neighbours = min(4 * n_neighbours, len(self.members))
            near = self.members[self.tree.query(self.points[i], k=n_neighbours)[1]].tolist()

    def remove(self, i: int) -> None:
        self.alive[i] = False
        self.left -= 1
        if len(self.members) > NEIGHBOURS and 2 * self.left <= len(self.members):
            self._build_tree()


def local_pivotal_sample(pi: FloatArray, covariates: FloatArray, seed: Seed) -> IntArray:
    """Draw a sample that is spatially balanced over covariates: the local pivotal method, LPM2.

    Grafström, Lundström and Schelin (2012), "Spatially balanced sampling through the pivotal method". While undecided
    items remain, a random one and its nearest undecided neighbour (in standardised covariates) exchange probability:
    with s = pi_i + pi_j < 1 one gets s and the other 0, otherwise one gets 1 and the other s - 1.

    >>> local_pivotal_sample(np.full(6, 1 / 3), np.array([0.0, 0.1, 0.2, 9.0, 9.1, 9.2]), seed=1).tolist()
    [2, 5]
    """
    values = validate_probabilities(pi)
    matrix = _validate_matrix("covariates", covariates, len(values))
    rng = np.random.default_rng(seed)
    spread = nan_std(matrix, axis=0) if len(matrix) else np.ones(matrix.shape[1])
    points = matrix / np.where(spread > 0.0, spread, 1.0)
    # Random order: ties of distance are not always resolved in file order.
    free = rng.permutation(np.flatnonzero((values > 0.0) & (values < 1.0)))
    if len(free):
        values[free] = _run_pivotal_steps(values[free].tolist(), _NeighbourPool(points[free]), rng)
    return np.flatnonzero(values == 1.0).astype(np.int64)


def _run_pivotal_steps(p: list[float], undecided: _NeighbourPool, rng: np.random.Generator) -> list[float]:
    """Run pivotal steps until every value is 0 or 1; sequential, as each step depends on the last."""
    waiting = list(range(len(p)))
    place = list(range(len(p)))
    for pick, luck in rng.random((len(p), 2)).tolist():
        i = waiting[int(pick * len(waiting))]
        if len(waiting) == 1:
            p[i] = _decide_last(p[i], luck)
            break
        j = undecided.find_nearest(i)
        s = p[i] + p[j]
        if s < 1.0:
            p[i], p[j] = (s, 0.0) if luck * s < p[i] else (0.0, s)
        else:
            p[i], p[j] = (1.0, s - 1.0) if luck * (2.0 - s) < 1.0 - p[j] else (s - 1.0, 1.0)
        for k in (i, j):
            if p[k] in {0.0, 1.0}:
                undecided.remove(k)
                waiting[place[k]] = waiting[-1]
                place[waiting[-1]] = place[k]
                waiting.pop()
        if not waiting:
            break
    return p


def _decide_last(p: float, luck: float) -> float:
    """Decide the last item: deterministic if the pi sum to a whole number, else at random."""
    return float(round(p)) if abs(p - round(p)) < ROUNDING else float(luck < p)


def cube_sample(pi: FloatArray, balancing: FloatArray, seed: Seed) -> IntArray:
    """Draw a balanced sample: Horvitz-Thompson totals of the balancing variables are (nearly) exact.

    Deville and Tillé (2004), "Efficient balanced sampling: the cube method", with the fast flight phase of Chauvet and
    Tillé (2006) on p + 1 items at a time; the landing phase drops balancing variables one at a time from the last, so
    the most important come first. pi itself is always the first: the size is fixed.

    >>> len(cube_sample(np.full(20, 0.25), np.arange(20.0), seed=0))
    5
    """
    values = validate_probabilities(pi)
    matrix = _validate_matrix("balancing", balancing, len(values))
    rng = np.random.default_rng(seed)
    free = rng.permutation(np.flatnonzero((values > 0.0) & (values < 1.0)))
    ratios = np.column_stack([np.ones(len(free)), matrix[free] / values[free, None]])
    scale = np.abs(ratios).max(axis=0, initial=0.0)
    values[free] = _run_cube_phases(values[free].tolist(), ratios / np.where(scale > 0.0, scale, 1.0), rng)
    return np.flatnonzero(values == 1.0).astype(np.int64)


def _run_cube_phases(p: list[float], ratios: FloatArray, rng: np.random.Generator) -> list[float]:
    """Walk within the balancing constraints until every value is 0 or 1; drop constraints when no direction is left."""
    active: list[int] = []
    entered, equations = 0, ratios.shape[1]
    while True:
        while len(active) <= equations and entered < len(p):
            active.append(entered)
            entered += 1
        if not active:
            return p
        if equations == 0:
            p[active[0]] = _decide_last(p[active[0]], rng.random())
            return p
        direction = _null_vector(ratios[active, :equations].T)
        if direction is None:
            equations -= 1
            continue
        moved = _cube_step([p[i] for i in active], direction, rng.random())
        for i, value in zip(active, moved, strict=True):
            p[i] = value
        active = [i for i in active if 0.0 < p[i] < 1.0]


def _null_vector(equations: FloatArray) -> list[float] | None:
    """Return a unit vector v with equations @ v = 0, or None."""
    rows, columns = equations.shape
    _, singular, right = np.linalg.svd(equations)
    if columns <= rows and singular[-1] > 1e-10 * singular[0]:
        return None
    vector: list[float] = right[-1].tolist()
    return vector


def _cube_step(p: list[float], direction: list[float], luck: float) -> list[float]:
    """Move along the direction to a face of the cube, forwards or backwards at random with zero expectation."""
    moves = [(x, v) for x, v in zip(p, direction, strict=True) if abs(v) > 1e-11]
    forth = min((1.0 - x) / v if v > 0.0 else -x / v for x, v in moves)
    back = min(x / v if v > 0.0 else (x - 1.0) / v for x, v in moves)
    step = forth if luck * (forth + back) < back else -back
    moved = [x + step * v if abs(v) > 1e-11 else x for x, v in zip(p, direction, strict=True)]
    return [0.0 if x < 1e-12 else 1.0 if x > 1.0 - 1e-12 else x for x in moved]
