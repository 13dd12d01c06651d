"""Krippendorff's alpha at every level of measurement, with missing answers, from sums over items.

Notation of Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": unit u has m_u answers, of which n_uc are
the value c; only units with m_u >= 2 count. alpha = 1 - D_o / D_e, with
D_o = 1/n sum_u 1/(m_u - 1) sum_cc' n_uc (n_uc' - [c = c']) d2(c, c') and
D_e = 1/(n (n - 1)) sum_cc' n_c (n_c' - [c = c']) d2(c, c').
No unit with two answers, or answers that are all equal (D_e = 0), leave alpha undefined: NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from aliquot.errors import OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.resampling import Additive, Measure, item_sums, sparse_item_sums, value_of

Level = Literal["nominal", "ordinal", "interval", "ratio"]
LEVELS: tuple[Level, ...] = get_args(Level)

_FEW = 12  # values up to which a table of coincidences is quicker than going through the answers at every draw
_TABLE = 20_000_000  # numbers in such a table
_RATIO_VALUES = 3_000  # ratio differences need a table of all pairs of values
_ROWS = 2_000_000  # numbers of a block of units x values


@dataclass(frozen=True, eq=False)
class Pairable:
    """Answers on units with at least two of them, sorted by unit."""

    unit: IntArray  # the unit of each answer, 0 to U - 1, rising
    code: IntArray  # the place of each answer in `values`
    values: FloatArray  # the distinct answers, rising
    size: IntArray  # the number of answers of each unit
    item: IntArray  # the item of each unit; items are what a bootstrap draws
    items: int  # the number of items
    kept: IntArray  # the places of these answers in what was given

    @property
    def answer_item(self) -> IntArray:
        """The item of each answer."""
        return self.item[self.unit]

    @property
    def scale(self) -> FloatArray:
        """1 / (m_u - 1), what a pair of answers of each unit counts."""
        return 1.0 / (self.size.astype(np.float64) - 1.0)


def pairable(unit: IntArray, value: FloatArray, item: IntArray | None = None) -> Pairable:
    """Sort answers by unit and leave out missing ones and units with fewer than two.

    Args:
        unit: code of each answer's unit (what two annotators can both have judged).
        value: the answers; NaN is missing.
        item: code of each answer's item, the same for all answers of a unit; by default each unit is an item.

    >>> pairable(np.array([7, 7, 8]), np.array([1.0, 2.0, 2.0])).size.tolist()
    [2]
    """
    place = np.flatnonzero(np.isfinite(value))
    place = place[np.argsort(unit[place], kind="stable")]
    _, start, counts = np.unique(unit[place], return_index=True, return_counts=True)
    enough = np.repeat(counts >= 2, counts)
    first = place[start[counts >= 2]]
    place, size = place[enough], counts[counts >= 2]
    values, code = np.unique(value[place], return_inverse=True)
    named, at = np.unique(unit[first] if item is None else item[first], return_inverse=True)
    return Pairable(
        unit=np.repeat(np.arange(len(size)), size),
        code=code.astype(np.int64),
        values=values,
        size=size.astype(np.int64),
        item=at.astype(np.int64),
        items=len(named),
        kept=place,
    )


def long_form(table: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Turn units x annotators (NaN = missing) into unit, annotator and value of each answer.

    >>> [part.tolist() for part in long_form(np.array([[1.0, np.nan], [2.0, 3.0]]))]
    [[0, 1, 1], [0, 0, 1], [1.0, 2.0, 3.0]]
    """
    unit, annotator = np.nonzero(np.isfinite(table))
    return unit.astype(np.int64), annotator.astype(np.int64), table[unit, annotator]


def krippendorff_alpha(unit: IntArray, value: FloatArray, level: Level = "nominal") -> float:
    """Krippendorff's alpha; NaN where undefined.

    Args:
        unit: code of each answer's unit.
        value: the answers; NaN is missing.
        level: nominal, ordinal, interval or ratio: what a difference between two answers means.

    >>> krippendorff_alpha(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 2.0, 2.0]))
    1.0
    >>> krippendorff_alpha(np.array([0, 1]), np.array([1.0, 1.0]))
    nan
    """
    answers = pairable(unit, value)
    return value_of(OrdinalAlpha(answers) if level == "ordinal" else alpha_measure(answers, level))


def alpha_measure(answers: Pairable, level: Level) -> Measure:
    """Alpha as a measure of item weights, for bootstraps."""
    if level not in LEVELS:
        raise unknown_name("level", level, LEVELS)
    if level == "interval":
        return _interval(answers)
    if level == "ordinal":
        k = len(answers.values)
        return _ordinal(answers) if k <= _FEW and answers.items * k * k <= _TABLE else OrdinalAlpha(answers)
    return _nominal(answers) if level == "nominal" else _ratio(answers)


def _alpha(observed: FloatArray, expected: FloatArray, n: FloatArray) -> FloatArray:
    """1 - D_o / D_e of the sums of differences n D_o and n (n - 1) D_e."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (n - 1.0) * observed / expected
    return np.where(expected > 1e-12 * n, 1.0 - ratio, np.nan)


def unit_sums(answers: Pairable, of_answers: FloatArray) -> FloatArray:
    """Sum over the answers of each unit."""
    return np.bincount(answers.unit, of_answers, minlength=len(answers.size)).astype(np.float64)


def unit_counts(answers: Pairable) -> Any:
    """n_uc: sparse units x values."""
    shape = (len(answers.size), len(answers.values))
    return sparse.csr_array((np.ones(len(answers.unit)), (answers.unit, answers.code)), shape=shape)


def _totals(answers: Pairable) -> Any:
    """n_c of each item: sparse items x values."""
    ones = np.ones(len(answers.code))
    return sparse_item_sums(answers.answer_item, answers.code, ones, (answers.items, len(answers.values)))


def _interval(answers: Pairable) -> Additive:
    """d2 = (c - c')^2: sums of squares replace the coincidence table, whatever the number of values."""
    spread = float(np.ptp(answers.values)) if len(answers.values) else 0.0
    # On the range 0 to 1, so that D_e = 0 is told by the same rule for any unit of measurement.
    y = (answers.values[answers.code] - answers.values.min(initial=np.inf)) / (spread or 1.0)
    within = 2.0 * answers.scale * (answers.size * unit_sums(answers, y**2) - unit_sums(answers, y) ** 2)
    per_answer = item_sums(answers.answer_item, [np.ones(len(y)), y, y**2], answers.items)
    sums = np.column_stack([per_answer, item_sums(answers.item, [within], answers.items)])

    def finish(total: FloatArray) -> FloatArray:
        n, first, second, observed = total.T
        return _alpha(observed, 2.0 * (n * second - first**2), n)

    return Additive(sums, finish)


def _nominal(answers: Pairable) -> Additive:
    counts = unit_counts(answers)
    squares = np.asarray(counts.multiply(counts).sum(axis=1)).ravel()
    return _with_margins(answers, answers.scale * (answers.size**2 - squares), lambda n_c: -(n_c**2).sum(axis=1), 1.0)


def _ratio(answers: Pairable) -> Additive:
    """d2 = ((c - c') / (c + c'))^2."""
    values = answers.values
    if (values < 0).any():
        raise OptionError(f"the answer {values.min():g} is negative; a ratio scale begins at 0: choose another level")
    if len(values) > _RATIO_VALUES:
        raise OptionError(
            f"{len(values)} distinct answers; alpha at the level 'ratio' takes at most {_RATIO_VALUES}: "
            "round the answers, or choose interval"
        )
    total = values[:, None] + values[None, :]
    d2 = ((values[:, None] - values[None, :]) / np.where(total > 0, total, 1.0)) ** 2
    counts, within = unit_counts(answers), np.empty(len(answers.size))
    step = max(1, _ROWS // max(1, len(values)))
    for start in range(0, len(within), step):
        block = counts[start : start + step].toarray()
        within[start : start + step] = ((block @ d2) * block).sum(axis=1)
    return _with_margins(answers, answers.scale * within, lambda n_c: ((n_c @ d2) * n_c).sum(axis=1), 0.0)


def _with_margins(answers: Pairable, within: FloatArray, expected: Any, whole: float) -> Additive:
    """Alpha of a fixed difference function: D_o is a sum over items, D_e follows from the counts of values."""
    observed = item_sums(answers.item, [within], answers.items)
    sums = sparse.hstack([sparse.csr_array(observed), _totals(answers)], format="csr")

    def finish(total: FloatArray) -> FloatArray:
        n = total[:, 1:].sum(axis=1)
        return _alpha(total[:, 0], whole * n**2 + expected(total[:, 1:]), n)

    return Additive(sums if len(answers.values) > 100 else sums.toarray(), finish)


# -- ordinal: d2(c, c') = (r_c - r_c')^2, r the mean rank of a value among all answers --------------------------------


def _mean_ranks(n_c: FloatArray) -> FloatArray:
    """r_c = n_1 + ... + n_(c-1) + n_c / 2: then sum_{g=c..c'} n_g - (n_c + n_c') / 2 = r_c' - r_c."""
    ranks: FloatArray = np.cumsum(n_c, axis=-1) - n_c / 2.0
    return ranks


def _rank_alpha(observed: FloatArray, n_c: FloatArray) -> FloatArray:
    """Alpha from sums of squared rank differences; ranks are on the range 0 to 1, as alpha does not mind."""
    n = n_c.sum(axis=-1)
    ranks = _mean_ranks(n_c) / np.maximum(n, 1.0)[..., None]
    first, second = (n_c * ranks).sum(axis=-1), (n_c * ranks**2).sum(axis=-1)
    return _alpha(observed, 2.0 * (n * second - first**2), n)


def _ordinal(answers: Pairable) -> Additive:
    """Few values: the coincidences o_cc', c < c', of each item are summed, since ranks change with the draw."""
    k = len(answers.values)
    low, high = np.triu_indices(k, 1)
    counts = unit_counts(answers).tocsc()
    columns = [np.asarray(counts[:, [c]].todense()).ravel() for c in range(k)]
    together = [columns[a] * columns[b] * answers.scale for a, b in zip(low, high, strict=True)]
    coincidences = item_sums(answers.item, together, answers.items) if together else np.zeros((answers.items, 0))
    sums = np.column_stack([_totals(answers).toarray(), coincidences])

    def finish(total: FloatArray) -> FloatArray:
        n_c, o = total[:, :k], total[:, k:]
        ranks = _mean_ranks(n_c) / np.maximum(n_c.sum(axis=1), 1.0)[:, None]
        return _rank_alpha(2.0 * (o * (ranks[:, high] - ranks[:, low]) ** 2).sum(axis=1), n_c)

    return Additive(sums, finish)


@dataclass(frozen=True, eq=False)
class OrdinalAlpha:
    """Ordinal alpha for many values: each draw goes through the answers once."""

    answers: Pairable

    @property
    def items(self) -> int:
        """The number of items."""
        return self.answers.items

    @property
    def width(self) -> int:
        """A draw holds a number for each answer."""
        return len(self.answers.code)

    def __call__(self, weights: FloatArray) -> FloatArray:
        """One value for each row of weights."""
        return np.array([self._once(row) for row in weights])

    def _once(self, weight: FloatArray) -> float:
        answers = self.answers
        n_c = np.bincount(answers.code, weight[answers.answer_item], minlength=len(answers.values)).astype(np.float64)
        rank = (_mean_ranks(n_c) / max(n_c.sum(), 1.0))[answers.code]
        within = 2.0 * answers.scale * (answers.size * unit_sums(answers, rank**2) - unit_sums(answers, rank) ** 2)
        return float(_rank_alpha(np.array([weight[answers.item] @ within]), n_c[None])[0])


# -- Intraclass correlations from variance components, balanced or not -----------------------------------------------


ICCKind = Literal["icc1", "icc2", "icc3", "icc1k", "icc2k", "icc3k"]
ICC_KINDS: tuple[ICCKind, ...] = get_args(ICCKind)
"""One-way, two-way random (absolute agreement), two-way mixed (consistency); k: of the mean of a unit's answers."""

_HEAD = 6  # columns before those of the annotators


def icc_measure(answers: Pairable, annotator: IntArray, annotators: int, kind: ICCKind) -> Additive:
    """An intraclass correlation as a measure of item weights.

    Args:
        answers: the answers that can be compared.
        annotator: code of each answer's annotator, in the order of what `pairable` was given.
        annotators: the number of annotators.
        kind: which correlation.
    """
    if kind not in ICC_KINDS:
        raise unknown_name("intraclass correlation", kind, ICC_KINDS)
    return Additive(icc_sums(answers, annotator, annotators), lambda total: correlation(total, kind))


def _spread(answers: Pairable) -> float:
    return float(np.ptp(answers.values)) or 1.0 if len(answers.values) else 1.0


def icc_sums(answers: Pairable, annotator: IntArray, annotators: int) -> FloatArray:
    """Sums over each item: units, m, m^2, 1/m (m answers a unit), y^2, unit totals^2 / m; n and y by annotator.

    Answers y are centred and scaled to a range of 1.
    """
    code = annotator[answers.kept]
    y = (answers.values[answers.code] - answers.values.mean()) / _spread(answers) if len(answers.code) else np.empty(0)
    m = answers.size.astype(np.float64)
    of_units = [np.ones(len(m)), m, m**2, 1.0 / m, unit_sums(answers, y**2), unit_sums(answers, y) ** 2 / m]
    shape = (answers.items, annotators)
    by_annotator = [
        sparse_item_sums(answers.answer_item, code, column, shape).toarray() for column in (np.ones(len(y)), y)
    ]
    return np.column_stack([item_sums(answers.item, of_units, answers.items), *by_annotator])


def components(total: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Variance of units, annotators, rest, and the harmonic mean number of answers, for each row of sums.

    With a units, b annotators, N answers, k_a = sum m_u^2 / N and k_b = sum n_j^2 / N:
    T_units - T_mean = (N - k_a) s_a + (a - k_b) s_b + (a - 1) s_e,
    T_annotators - T_mean = (b - k_a) s_a + (N - k_b) s_b + (b - 1) s_e,
    T_answers - T_mean = (N - k_a) s_a + (N - k_b) s_b + (N - 1) s_e.
    """
    a, n, squares, inverse, t_answers, t_units = total[:, :_HEAD].T
    counts, sums = np.split(total[:, _HEAD:], 2, axis=1)
    b = (counts > 0).sum(axis=1)
    safe = np.where(n > 0, n, 1.0)
    k_a, k_b = squares / safe, (counts**2).sum(axis=1) / safe
    t_mean = sums.sum(axis=1) ** 2 / safe
    t_annotators = (sums**2 / np.where(counts > 0, counts, 1.0)).sum(axis=1)
    left = np.stack([n - k_a, a - k_b, a - 1.0, b - k_a, n - k_b, b - 1.0, n - k_a, n - k_b, n - 1.0], axis=-1)
    right = np.stack([t_units - t_mean, t_annotators - t_mean, t_answers - t_mean], axis=-1)
    solved = _solve(left.reshape(-1, 3, 3), right)
    return solved[:, 0], solved[:, 1], solved[:, 2], a / np.where(inverse > 0, inverse, np.nan)


def _solve(left: FloatArray, right: FloatArray) -> FloatArray:
    """Solve each 3 x 3 system; NaN where it has no single solution (one unit, one annotator, no overlap)."""
    size = np.abs(left).max(axis=(1, 2), initial=1.0)[:, None, None]
    defined = np.abs(np.linalg.det(left / size)) > 1e-12
    safe = np.where(defined[:, None, None], left, np.eye(3))
    solved = np.linalg.solve(safe, right[..., None])[..., 0]
    return np.where(defined[:, None], solved, np.nan)


def correlation(total: FloatArray, kind: ICCKind) -> FloatArray:
    """One kind of intraclass correlation for each row of sums."""
    answers = total[:, 0] / np.where(total[:, 3] > 0, total[:, 3], np.nan)
    if kind.startswith("icc1"):
        between, noise = _one_way(total)
    else:
        unit, annotator, rest, _ = components(total)
        between, noise = unit, rest + (annotator if kind.startswith("icc2") else 0.0)
    noise = noise / answers if kind.endswith("k") else noise
    whole = between + noise
    return np.where(whole > 1e-12, between / np.where(whole > 1e-12, whole, 1.0), np.nan)


def _one_way(total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variance between and within units, annotators ignored: every unit may have had others."""
    a, n, squares, _, t_answers, t_units = total[:, :_HEAD].T
    sums = total[:, _HEAD + (total.shape[1] - _HEAD) // 2 :].sum(axis=1)
    free, safe = np.where(n > a, n - a, np.nan), np.where(n > 0, n, 1.0)
    within = (t_answers - t_units) / free
    size = np.where(a > 1, (n - squares / safe) / np.where(a > 1, a - 1.0, 1.0), np.nan)
    between = ((t_units - sums**2 / safe) / np.where(a > 1, a - 1.0, np.nan) - within) / size
    return between, within
