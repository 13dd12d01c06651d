"""Agreement on categories: raw agreement, Cohen's kappa plain and weighted, its maximum and margins, Fleiss' kappa.

A square table counts units by the answers of two annotators (rows the first's, columns the second's). Functions of
tables take any number of them at once: ... x K x K in, ... out. Undefined values are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy import stats

from aliquot.errors import OptionError, unknown_name
from aliquot.stats.alpha import Pairable, unit_counts
from aliquot.stats.arrays import BoolArray, FloatArray
from aliquot.stats.item_bootstrap import Additive, item_sums, sparse_item_sums

Weighting = Literal["none", "linear", "quadratic"]
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)


@dataclass(frozen=True, eq=False)
class Cohen:
    """Two annotators on the units both judged.

    Attributes:
        kappa: chance-corrected agreement; NaN where one answer is all there is.
        maximum: the largest kappa that the two annotators' margins allow.
        linear: kappa with differences |c - c'|.
        quadratic: kappa with differences (c - c')^2.
        observed: the share of units on which both say the same.
        expected: the share expected if answers did not depend on the unit.
        n: the number of units.
        table: counts of units, first annotator's answers x second annotator's.
        categories: the answers, in the order of the table.
        p_margins: Stuart-Maxwell test that both use the answers equally often.
    """

    kappa: float
    maximum: float
    linear: float
    quadratic: float
    observed: float
    expected: float
    n: int
    table: FloatArray
    categories: FloatArray
    p_margins: float


def cohen(first: FloatArray, second: FloatArray, categories: FloatArray | None = None) -> Cohen:
    """Cohen's kappa of two annotators; units that one of them did not judge (NaN) are left out.

    Weighted kappas use the categories' values as distances, so that a scale with an unused point stays as it is.

    >>> result = cohen(np.array([1.0, 1.0, 2.0, 2.0]), np.array([1.0, 1.0, 2.0, 1.0]))
    >>> round(result.kappa, 3), round(result.maximum, 3), result.observed
    (0.5, 0.5, 0.75)
    """
    both = np.isfinite(first) & np.isfinite(second)
    a, b = first[both], second[both]
    known = np.unique(np.concatenate([a, b])) if categories is None else np.sort(categories)
    place = [np.searchsorted(known, side) for side in (a, b)]
    for side, at in zip((a, b), place, strict=True):
        strange = side[(at >= len(known)) | (known[np.minimum(at, len(known) - 1)] != side)] if len(known) else side
        if len(strange):
            raise OptionError(f"the answer {strange[0]:g} is not among the categories {known.tolist()}")
    k = len(known)
    table = np.bincount(place[0] * k + place[1], minlength=k * k).reshape(k, k).astype(np.float64)
    return Cohen(
        kappa=float(kappa(table)),
        maximum=float(kappa_maximum(table)),
        linear=float(kappa(table, known, "linear")),
        quadratic=float(kappa(table, known, "quadratic")),
        observed=float(raw_agreement(table)),
        expected=float(_expected_agreement(table)),
        n=int(both.sum()),
        table=table,
        categories=known,
        p_margins=margins_p(table),
    )


def differences(values: FloatArray, weighting: Weighting) -> FloatArray:
    """How far apart two categories are: 1 if not equal, or the distance of their values, or its square.

    >>> differences(np.array([1.0, 2.0, 4.0]), "linear")[0].tolist()
    [0.0, 1.0, 3.0]
    """
    if weighting not in WEIGHTINGS:
        raise unknown_name("weighting", weighting, WEIGHTINGS)
    apart = values[:, None] - values[None, :]
    if weighting == "none":
        return np.asarray(apart != 0, dtype=np.float64)
    return np.abs(apart) if weighting == "linear" else np.square(apart)


def kappa(tables: FloatArray, values: FloatArray | None = None, weighting: Weighting = "none") -> FloatArray:
    """Cohen's kappa, 1 - sum d o / sum d e, with o the observed and e the expected shares (Cohen 1960, 1968).

    >>> float(kappa(np.array([[2.0, 0.0], [0.0, 2.0]])))
    1.0
    """
    n, rows, columns = _margins(tables)
    d = differences(np.arange(tables.shape[-1], dtype=np.float64) if values is None else values, weighting)
    observed = (tables * d).sum(axis=(-1, -2)) / n
    expected = (rows @ d * columns).sum(axis=-1)
    ratio = observed / np.where(expected > 0, expected, 1.0)
    return _undefined_where(expected <= 1e-12 * d.max(initial=0.0), 1.0 - ratio)


def kappa_maximum(tables: FloatArray) -> FloatArray:
    """The largest kappa under the margins: both can agree on min(p_c, q_c) of the units at most.

    >>> float(kappa_maximum(np.array([[5.0, 0.0], [0.0, 5.0]])))
    1.0
    """
    _, rows, columns = _margins(tables)
    chance = (rows * columns).sum(axis=-1)
    most = np.minimum(rows, columns).sum(axis=-1)
    return _undefined_where(chance >= 1.0 - 1e-12, (most - chance) / np.where(chance < 1.0, 1.0 - chance, 1.0))


def raw_agreement(tables: FloatArray) -> FloatArray:
    """The share of units on which both say the same."""
    share: FloatArray = np.trace(tables, axis1=-2, axis2=-1) / _margins(tables)[0]
    return share


def _expected_agreement(tables: FloatArray) -> FloatArray:
    _, rows, columns = _margins(tables)
    return np.asarray((rows * columns).sum(axis=-1))


def _margins(tables: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Totals (NaN for an empty table) and the shares of rows and columns."""
    n = tables.sum(axis=(-1, -2))
    n = np.where(n > 0, n, np.nan)
    return n, tables.sum(axis=-1) / n[..., None], tables.sum(axis=-2) / n[..., None]


def _undefined_where(undefined: BoolArray, values: FloatArray) -> FloatArray:
    return np.where(undefined | ~np.isfinite(values), np.nan, values)


def margins_p(table: FloatArray) -> float:
    """Stuart-Maxwell test of equal margins: do both annotators use the answers equally often? NaN without units.

    >>> margins_p(np.array([[20.0, 10.0], [10.0, 20.0]]))
    1.0
    """
    used = (table.sum(axis=0) + table.sum(axis=1)) > 0
    table = table[np.ix_(used, used)]
    if not len(table):
        return float("nan")
    excess = (table.sum(axis=1) - table.sum(axis=0))[:-1]
    covariance = -(table + table.T)
    np.fill_diagonal(covariance, table.sum(axis=1) + table.sum(axis=0) - 2 * np.diag(table))
    covariance = covariance[:-1, :-1]
    freedom = int(np.linalg.matrix_rank(covariance)) if len(covariance) else 0
    if freedom == 0:
        return 1.0  # every unit is on the diagonal: the margins are the same
    chi2 = float(excess @ np.linalg.pinv(covariance, hermitian=True) @ excess)
    return float(stats.chi2.sf(chi2, freedom))


def raw_measure(answers: Pairable) -> Additive:
    """The share of equal answers among all pairs of answers on the same unit, as a measure of item weights."""
    equal = _equal_pairs(answers)
    pairs = answers.size * (answers.size - 1.0)
    sums = item_sums(answers.item, [equal, pairs], answers.items)
    return Additive(sums, lambda total: total[:, 0] / np.where(total[:, 1] > 0, total[:, 1], np.nan))


def fleiss_measure(answers: Pairable) -> Additive:
    """Fleiss' kappa (1971) as a measure of item weights; units may have different numbers of answers.

    Every unit counts the same: agreement is the mean over units of the share of agreeing pairs, and category shares are
    the means over units of n_uc / m_u (Gwet 2014, 2.4.2). With equally many answers a unit this is Fleiss' own.
    """
    agreeing = _equal_pairs(answers) / (answers.size * (answers.size - 1.0))
    sums = item_sums(answers.item, [np.ones(len(answers.size)), agreeing], answers.items)
    shape = (answers.items, len(answers.values))
    shares = sparse_item_sums(answers.answer_item, answers.code, 1.0 / answers.size[answers.unit], shape).toarray()

    def finish(total: FloatArray) -> FloatArray:
        units = np.where(total[:, 0] > 0, total[:, 0], np.nan)
        observed = total[:, 1] / units
        chance = ((total[:, 2:] / units[:, None]) ** 2).sum(axis=1)
        return _undefined_where(chance >= 1.0 - 1e-12, (observed - chance) / np.where(chance < 1.0, 1.0 - chance, 1.0))

    return Additive(np.column_stack([sums, shares]), finish)


def _equal_pairs(answers: Pairable) -> FloatArray:
    """Ordered pairs of equal answers of each unit: sum_c n_uc (n_uc - 1)."""
    counts = unit_counts(answers)
    return np.asarray(counts.multiply(counts).sum(axis=1)).ravel() - answers.size
