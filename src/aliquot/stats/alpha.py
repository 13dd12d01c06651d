"""Krippendorff's alpha at every level of measurement and intraclass correlations, with missing judgments.

Notation of Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": unit u has m_u judgments, n_uc of
them the value c; only units with m_u >= 2 count. alpha = 1 - D_o / D_e, with
D_o = 1/n sum_u 1/(m_u - 1) sum_cc' n_uc (n_uc' - [c = c']) d2(c, c') and
D_e = 1/(n (n - 1)) sum_cc' n_c (n_c' - [c = c']) d2(c, c').
Alpha is NaN without a unit with two judgments, and where all judgments are equal (D_e = 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from aliquot.errors import OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray, row_blocks
from aliquot.stats.resampling import AdditiveMeasure, WeightedMeasure, measure_value, sparse_sum_by_item, sum_by_item
from aliquot.validation import one_of

MeasurementLevel = Literal["nominal", "ordinal", "interval", "ratio"]
MEASUREMENT_LEVELS: tuple[MeasurementLevel, ...] = get_args(MeasurementLevel)

_MAX_TABLE_VALUES = 12  # distinct values up to which a coincidence table is faster than a pass over judgments per draw
_MAX_TABLE_SIZE = 20_000_000  # numbers in a coincidence table
_MAX_RATIO_VALUES = 3_000  # ratio differences need a table of all pairs of values
_BLOCK_SIZE = 2_000_000  # numbers held in a block of units x values


@dataclass(frozen=True, eq=False)
class PairableJudgments:
    """Judgments on units with at least two of them, sorted by unit."""

    unit: IntArray  # the unit of each judgment, 0 to U - 1, ascending
    code: IntArray  # index of each judgment in `values`
    values: FloatArray  # distinct judgments, ascending
    size: IntArray  # the number of judgments of each unit
    item: IntArray  # the item of each unit; the bootstrap draws items
    items: int  # the number of items
    kept: IntArray  # indices of these judgments in the input

    @property
    def judgment_item(self) -> IntArray:
        """The item of each judgment."""
        return self.item[self.unit]

    @property
    def scale(self) -> FloatArray:
        """Weight 1 / (m_u - 1) of a pair of judgments of each unit."""
        return 1.0 / (self.size.astype(np.float64) - 1.0)


def pairable_judgments(unit: IntArray, value: FloatArray, item: IntArray | None = None) -> PairableJudgments:
    """Sort judgments by unit; drop missing ones and units with fewer than two.

    `unit`: code of each judgment's unit (what several annotators judge). `item`: code of each judgment's item, equal
    within a unit; by default each unit is an item.

    >>> pairable_judgments(np.array([7, 7, 8]), np.array([1.0, 2.0, 2.0])).size.tolist()
    [2]
    """
    place = np.flatnonzero(np.isfinite(value))
    place = place[np.argsort(unit[place], kind="stable")]
    _, start, counts = np.unique(unit[place], return_index=True, return_counts=True)
    enough = np.repeat(counts >= 2, counts)
    first = place[start[counts >= 2]]
    place, size = place[enough], counts[counts >= 2]
    values, code = np.unique(value[place], return_inverse=True)
    named, item_index = np.unique(unit[first] if item is None else item[first], return_inverse=True)
    return PairableJudgments(
        unit=np.repeat(np.arange(len(size)), size),
        code=code.astype(np.int64),
        values=values,
        size=size.astype(np.int64),
        item=item_index.astype(np.int64),
        items=len(named),
        kept=place,
    )


def to_long_form(table: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Convert a units x annotators table (NaN = missing) to unit, annotator and value of each judgment.

    >>> [part.tolist() for part in to_long_form(np.array([[1.0, np.nan], [2.0, 3.0]]))]
    [[0, 1, 1], [0, 0, 1], [1.0, 2.0, 3.0]]
    """
    unit, annotator = np.nonzero(np.isfinite(table))
    return unit.astype(np.int64), annotator.astype(np.int64), table[unit, annotator]


def krippendorff_alpha(unit: IntArray, value: FloatArray, level: MeasurementLevel = "nominal") -> float:
    """Return Krippendorff's alpha; NaN where undefined.

    >>> krippendorff_alpha(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 2.0, 2.0]))
    1.0
    """
    judgments = pairable_judgments(unit, value)
    return measure_value(OrdinalAlpha(judgments) if level == "ordinal" else alpha_measure(judgments, level))


def alpha_measure(judgments: PairableJudgments, level: MeasurementLevel) -> WeightedMeasure:
    """Return alpha as a measure of item weights, for bootstraps."""
    one_of("level", level, MEASUREMENT_LEVELS)
    if level == "interval":
        return _interval_alpha(judgments)
    if level == "ordinal":
        k = len(judgments.values)
        return (
            _ordinal_alpha(judgments)
            if k <= _MAX_TABLE_VALUES and judgments.items * k * k <= _MAX_TABLE_SIZE
            else OrdinalAlpha(judgments)
        )
    return _nominal_alpha(judgments) if level == "nominal" else _ratio_alpha(judgments)


def _alpha_from_differences(observed: FloatArray, expected: FloatArray, n: FloatArray) -> FloatArray:
    """Return 1 - D_o / D_e from the sums n D_o and n (n - 1) D_e."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (n - 1.0) * observed / expected
    return np.where(expected > 1e-12 * n, 1.0 - ratio, np.nan)


def sum_by_unit(judgments: PairableJudgments, of_judgments: FloatArray) -> FloatArray:
    """Sum values over the judgments of each unit."""
    return np.bincount(judgments.unit, of_judgments, minlength=len(judgments.size)).astype(np.float64)


def count_values_by_unit(judgments: PairableJudgments) -> Any:
    """Return n_uc, sparse units x values."""
    shape = (len(judgments.size), len(judgments.values))
    return sparse.csr_array((np.ones(len(judgments.unit)), (judgments.unit, judgments.code)), shape=shape)


def _count_values_by_item(judgments: PairableJudgments) -> Any:
    """Return n_c of each item, sparse items x values."""
    ones = np.ones(len(judgments.code))
    return sparse_sum_by_item(judgments.judgment_item, judgments.code, ones, (judgments.items, len(judgments.values)))


def _interval_alpha(judgments: PairableJudgments) -> AdditiveMeasure:
    """Return interval alpha, d2 = (c - c')^2, from sums of squares: no table of coincidences is needed."""
    spread = float(np.ptp(judgments.values)) if len(judgments.values) else 0.0
    # Scaled to 0 to 1, so that the test for D_e = 0 does not depend on the unit of measurement.
    y = (judgments.values[judgments.code] - judgments.values.min(initial=np.inf)) / (spread or 1.0)
    within = 2.0 * judgments.scale * (judgments.size * sum_by_unit(judgments, y**2) - sum_by_unit(judgments, y) ** 2)
    per_judgment = sum_by_item(judgments.judgment_item, [np.ones(len(y)), y, y**2], judgments.items)
    sums = np.column_stack([per_judgment, sum_by_item(judgments.item, [within], judgments.items)])

    def finish(total: FloatArray) -> FloatArray:
        n, first, second, observed = total.T
        return _alpha_from_differences(observed, 2.0 * (n * second - first**2), n)

    return AdditiveMeasure(sums, finish)


def _nominal_alpha(judgments: PairableJudgments) -> AdditiveMeasure:
    counts = count_values_by_unit(judgments)
    squares = np.asarray(counts.multiply(counts).sum(axis=1)).ravel()
    return _alpha_from_margins(
        judgments, judgments.scale * (judgments.size**2 - squares), lambda n_c: -(n_c**2).sum(axis=1), 1.0
    )


def _ratio_alpha(judgments: PairableJudgments) -> AdditiveMeasure:
    values = judgments.values
    if len(values) > _MAX_RATIO_VALUES:
        raise OptionError(
            f"{len(values)} distinct judgments; alpha at the level 'ratio' takes at most {_MAX_RATIO_VALUES}: "
            "round the judgments, or choose interval"
        )
    d2 = ratio_differences(values)
    counts, within = count_values_by_unit(judgments), np.empty(len(judgments.size))
    for rows in row_blocks(len(within), len(values), _BLOCK_SIZE):
        block = counts[rows].toarray()
        within[rows] = ((block @ d2) * block).sum(axis=1)
    return _alpha_from_margins(judgments, judgments.scale * within, lambda n_c: ((n_c @ d2) * n_c).sum(axis=1), 0.0)


def ratio_differences(values: FloatArray) -> FloatArray:
    """Return the squared differences on a ratio scale, d2 = ((c - c') / (c + c'))^2, of all pairs of values."""
    if (values < 0).any():
        raise OptionError(f"the judgment {values.min():g} is negative; a ratio scale begins at 0: choose another level")
    total = values[:, None] + values[None, :]
    d2: FloatArray = ((values[:, None] - values[None, :]) / np.where(total > 0, total, 1.0)) ** 2
    return d2


def _alpha_from_margins(
    judgments: PairableJudgments, within: FloatArray, expected: Any, total_square: float
) -> AdditiveMeasure:
    """Return alpha for a fixed difference function: D_o is a sum over items, D_e follows from counts of values."""
    observed = sum_by_item(judgments.item, [within], judgments.items)
    sums = sparse.hstack([sparse.csr_array(observed), _count_values_by_item(judgments)], format="csr")

    def finish(total: FloatArray) -> FloatArray:
        n = total[:, 1:].sum(axis=1)
        return _alpha_from_differences(total[:, 0], total_square * n**2 + expected(total[:, 1:]), n)

    return AdditiveMeasure(sums if len(judgments.values) > 100 else sums.toarray(), finish)


def mean_ranks(n_c: FloatArray) -> FloatArray:
    """Return r_c = n_1 + ... + n_(c-1) + n_c / 2; then sum_{g=c..c'} n_g - (n_c + n_c') / 2 = r_c' - r_c."""
    ranks: FloatArray = np.cumsum(n_c, axis=-1) - n_c / 2.0
    return ranks


def _rank_alpha(observed: FloatArray, n_c: FloatArray) -> FloatArray:
    """Return alpha from sums of squared rank differences; ranks are scaled to 0 to 1, which cancels."""
    n = n_c.sum(axis=-1)
    ranks = mean_ranks(n_c) / np.maximum(n, 1.0)[..., None]
    first, second = (n_c * ranks).sum(axis=-1), (n_c * ranks**2).sum(axis=-1)
    return _alpha_from_differences(observed, 2.0 * (n * second - first**2), n)


def _ordinal_alpha(judgments: PairableJudgments) -> AdditiveMeasure:
    """Return ordinal alpha from the coincidences o_cc', c < c', of each item: ranks change with the draw."""
    k = len(judgments.values)
    low, high = np.triu_indices(k, 1)
    counts = count_values_by_unit(judgments).tocsc()
    columns = [np.asarray(counts[:, [c]].todense()).ravel() for c in range(k)]
    together = [columns[a] * columns[b] * judgments.scale for a, b in zip(low, high, strict=True)]
    coincidences = (
        sum_by_item(judgments.item, together, judgments.items) if together else np.zeros((judgments.items, 0))
    )
    sums = np.column_stack([_count_values_by_item(judgments).toarray(), coincidences])

    def finish(total: FloatArray) -> FloatArray:
        n_c, o = total[:, :k], total[:, k:]
        ranks = mean_ranks(n_c) / np.maximum(n_c.sum(axis=1), 1.0)[:, None]
        return _rank_alpha(2.0 * (o * (ranks[:, high] - ranks[:, low]) ** 2).sum(axis=1), n_c)

    return AdditiveMeasure(sums, finish)


@dataclass(frozen=True, eq=False)
class OrdinalAlpha:
    """Ordinal alpha for many values, with one pass over the judgments per draw."""

    judgments: PairableJudgments

    @property
    def items(self) -> int:
        """Number of items."""
        return self.judgments.items

    @property
    def width(self) -> int:
        """Numbers held per draw: one per judgment."""
        return len(self.judgments.code)

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return one value per row of weights."""
        return np.array([self._compute_once(row) for row in weights])

    def _compute_once(self, weight: FloatArray) -> float:
        judgments = self.judgments
        n_c = np.bincount(judgments.code, weight[judgments.judgment_item], minlength=len(judgments.values)).astype(
            np.float64
        )
        rank = (mean_ranks(n_c) / max(n_c.sum(), 1.0))[judgments.code]
        within = (
            2.0
            * judgments.scale
            * (judgments.size * sum_by_unit(judgments, rank**2) - sum_by_unit(judgments, rank) ** 2)
        )
        return float(_rank_alpha(np.array([weight[judgments.item] @ within]), n_c[None])[0])


# -- Intraclass correlations from variance components, balanced or not -------------------------------------------------


ICCKind = Literal["icc1", "icc2", "icc3", "icc1k", "icc2k", "icc3k"]
ICC_KINDS: tuple[ICCKind, ...] = get_args(ICCKind)
"""One-way, two-way random (absolute agreement), two-way mixed (consistency); k: reliability of a unit's mean judgment.
"""

_UNIT_COLUMNS = 6  # columns of `icc_item_sums` before those of the annotators


def icc_measure(judgments: PairableJudgments, annotator: IntArray, annotators: int, kind: ICCKind) -> AdditiveMeasure:
    """Return an intraclass correlation as a measure of item weights; `annotator` has one code per input judgment."""
    if kind not in ICC_KINDS:
        raise unknown_name("intraclass correlation", kind, ICC_KINDS)
    return AdditiveMeasure(
        icc_item_sums(judgments, annotator, annotators), lambda total: intraclass_correlation(total, kind)
    )


def _value_range(judgments: PairableJudgments) -> float:
    return float(np.ptp(judgments.values)) or 1.0 if len(judgments.values) else 1.0


def icc_item_sums(judgments: PairableJudgments, annotator: IntArray, annotators: int) -> FloatArray:
    """Return sums per item: units, m, m^2, 1/m (m judgments per unit), y^2, unit totals^2 / m; n and y by annotator.

    Judgments y are centred and scaled to a range of 1.
    """
    code = annotator[judgments.kept]
    y = (
        (judgments.values[judgments.code] - judgments.values.mean()) / _value_range(judgments)
        if len(judgments.code)
        else np.empty(0)
    )
    m = judgments.size.astype(np.float64)
    of_units = [np.ones(len(m)), m, m**2, 1.0 / m, sum_by_unit(judgments, y**2), sum_by_unit(judgments, y) ** 2 / m]
    shape = (judgments.items, annotators)
    by_annotator = [
        sparse_sum_by_item(judgments.judgment_item, code, column, shape).toarray() for column in (np.ones(len(y)), y)
    ]
    return np.column_stack([sum_by_item(judgments.item, of_units, judgments.items), *by_annotator])


def icc_components(total: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return variances of units, annotators and residual, and the harmonic mean of m, for each row of sums.

    With a units, b annotators, N judgments, k_a = sum m_u^2 / N and k_b = sum n_j^2 / N:
    T_units - T_mean = (N - k_a) s_a + (a - k_b) s_b + (a - 1) s_e,
    T_annotators - T_mean = (b - k_a) s_a + (N - k_b) s_b + (b - 1) s_e,
    T_answers - T_mean = (N - k_a) s_a + (N - k_b) s_b + (N - 1) s_e.
    """
    a, n, squares, inverse, t_judgments, t_units = total[:, :_UNIT_COLUMNS].T
    counts, sums = np.split(total[:, _UNIT_COLUMNS:], 2, axis=1)
    b = (counts > 0).sum(axis=1)
    safe = np.where(n > 0, n, 1.0)
    k_a, k_b = squares / safe, (counts**2).sum(axis=1) / safe
    t_mean = sums.sum(axis=1) ** 2 / safe
    t_annotators = (sums**2 / np.where(counts > 0, counts, 1.0)).sum(axis=1)
    coefficients = np.stack([n - k_a, a - k_b, a - 1.0, b - k_a, n - k_b, b - 1.0, n - k_a, n - k_b, n - 1.0], axis=-1)
    right = np.stack([t_units - t_mean, t_annotators - t_mean, t_judgments - t_mean], axis=-1)
    solved = _solve_3x3(coefficients.reshape(-1, 3, 3), right)
    return solved[:, 0], solved[:, 1], solved[:, 2], a / np.where(inverse > 0, inverse, np.nan)


def _solve_3x3(coefficients: FloatArray, right: FloatArray) -> FloatArray:
    """Solve 3 x 3 systems; NaN where singular (one unit, one annotator, no overlap)."""
    size = np.abs(coefficients).max(axis=(1, 2), initial=1.0)[:, None, None]
    defined = np.abs(np.linalg.det(coefficients / size)) > 1e-12
    safe = np.where(defined[:, None, None], coefficients, np.eye(3))
    solved = np.linalg.solve(safe, right[..., None])[..., 0]
    return np.where(defined[:, None], solved, np.nan)


def intraclass_correlation(total: FloatArray, kind: ICCKind) -> FloatArray:
    """Return an intraclass correlation for each row of sums."""
    judgments = total[:, 0] / np.where(total[:, 3] > 0, total[:, 3], np.nan)
    if kind.startswith("icc1"):
        between, noise = _one_way_components(total)
    else:
        unit, annotator, residual, _ = icc_components(total)
        between, noise = unit, residual + (annotator if kind.startswith("icc2") else 0.0)
    noise = noise / judgments if kind.endswith("k") else noise
    total_variance = between + noise
    return np.where(total_variance > 1e-12, between / np.where(total_variance > 1e-12, total_variance, 1.0), np.nan)


def _one_way_components(total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return variances between and within units, annotators ignored."""
    a, n, squares, _, t_judgments, t_units = total[:, :_UNIT_COLUMNS].T
    sums = total[:, _UNIT_COLUMNS + (total.shape[1] - _UNIT_COLUMNS) // 2 :].sum(axis=1)
    free, safe = np.where(n > a, n - a, np.nan), np.where(n > 0, n, 1.0)
    within = (t_judgments - t_units) / free
    size = np.where(a > 1, (n - squares / safe) / np.where(a > 1, a - 1.0, 1.0), np.nan)
    between = ((t_units - sums**2 / safe) / np.where(a > 1, a - 1.0, np.nan) - within) / size
    return between, within
