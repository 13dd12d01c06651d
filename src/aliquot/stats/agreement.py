"""Agreement on categories: raw agreement, Cohen's kappa plain and weighted, its maximum and margins, Fleiss' kappa.

Tables are K x K counts of units by category (rows: first annotator, columns: second). Functions of tables broadcast
over leading axes, ... x K x K in, ... out; undefined values are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import chdtrc

from aliquot.errors import OptionError
from aliquot.stats.alpha import PairableJudgments, count_values_by_unit, pairable_judgments
from aliquot.stats.annotator_pairs import AnnotatorPairs, find_annotator_pairs, iterate_judgment_pairs
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.resampling import AdditiveMeasure, sparse_sum_by_item, sum_by_item
from aliquot.validation import one_of

Weighting = Literal["none", "linear", "quadratic"]
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)


def disagreement_weights(values: FloatArray, weighting: Weighting) -> FloatArray:
    """Return the K x K disagreement weights: 0 or 1, absolute or squared differences of the values.

    >>> disagreement_weights(np.array([1.0, 2.0, 4.0]), "linear")[0].tolist()
    [0.0, 1.0, 3.0]
    """
    one_of("weighting", weighting, WEIGHTINGS)
    apart = values[:, None] - values[None, :]
    if weighting == "none":
        return np.asarray(apart != 0, dtype=np.float64)
    return np.abs(apart) if weighting == "linear" else np.square(apart)


def kappa(tables: FloatArray, values: FloatArray | None = None, weighting: Weighting = "none") -> FloatArray:
    """Return Cohen's kappa, 1 - sum d o / sum d e, with o observed and e expected shares (Cohen 1960, 1968).

    >>> float(kappa(np.array([[2.0, 0.0], [0.0, 2.0]])))
    1.0
    """
    n, rows, columns = _marginal_shares(tables)
    d = disagreement_weights(np.arange(tables.shape[-1], dtype=np.float64) if values is None else values, weighting)
    observed = (tables * d).sum(axis=(-1, -2)) / n
    expected = (rows @ d * columns).sum(axis=-1)
    ratio = observed / np.where(expected > 0, expected, 1.0)
    return _nan_where(expected <= 1e-12 * d.max(initial=0.0), 1.0 - ratio)


def max_kappa(tables: FloatArray) -> FloatArray:
    """Return the largest kappa that the margins allow: agreement min(p_c, q_c) in every category c.

    >>> float(max_kappa(np.array([[5.0, 0.0], [0.0, 5.0]])))
    1.0
    """
    _, rows, columns = _marginal_shares(tables)
    chance = (rows * columns).sum(axis=-1)
    maximum = np.minimum(rows, columns).sum(axis=-1)
    return _nan_where(chance >= 1.0 - 1e-12, (maximum - chance) / np.where(chance < 1.0, 1.0 - chance, 1.0))


def raw_agreement(tables: FloatArray) -> FloatArray:
    """Return the share of units with equal judgments."""
    share: FloatArray = np.trace(tables, axis1=-2, axis2=-1) / _marginal_shares(tables)[0]
    return share


def _marginal_shares(tables: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return totals (NaN for an empty table) and the shares of rows and columns."""
    n = tables.sum(axis=(-1, -2))
    n = np.where(n > 0, n, np.nan)
    return n, tables.sum(axis=-1) / n[..., None], tables.sum(axis=-2) / n[..., None]


def _nan_where(undefined: BoolArray, values: FloatArray) -> FloatArray:
    return np.where(undefined | ~np.isfinite(values), np.nan, values)


def stuart_maxwell_test(table: FloatArray) -> float:
    """Return the p-value of the Stuart-Maxwell test of equal margins; NaN without units.

    >>> stuart_maxwell_test(np.array([[20.0, 10.0], [10.0, 20.0]]))
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
        return 1.0  # all units are on the diagonal: the margins are equal
    chi2 = float(excess @ np.linalg.pinv(covariance, hermitian=True) @ excess)
    return float(chdtrc(freedom, chi2))


def raw_agreement_measure(judgments: PairableJudgments) -> AdditiveMeasure:
    """Return the share of equal pairs of judgments on the same unit, as a measure of item weights."""
    equal = _count_equal_pairs(judgments)
    pairs = judgments.size * (judgments.size - 1.0)
    sums = sum_by_item(judgments.item, [equal, pairs], judgments.items)
    return AdditiveMeasure(sums, lambda total: total[:, 0] / np.where(total[:, 1] > 0, total[:, 1], np.nan))


def fleiss_kappa_measure(judgments: PairableJudgments) -> AdditiveMeasure:
    """Return Fleiss' kappa (1971) as a measure of item weights; units may have different numbers of judgments.

    Units have equal weights: agreement is the mean over units of the share of agreeing pairs, and category shares are
    the means over units of n_uc / m_u (Gwet 2014, 2.4.2). With equally many judgments per unit this is Fleiss'
    original.
    """
    agreeing = _count_equal_pairs(judgments) / (judgments.size * (judgments.size - 1.0))
    sums = sum_by_item(judgments.item, [np.ones(len(judgments.size)), agreeing], judgments.items)
    shape = (judgments.items, len(judgments.values))
    shares = sparse_sum_by_item(
        judgments.judgment_item, judgments.code, 1.0 / judgments.size[judgments.unit], shape
    ).toarray()

    def finish(total: FloatArray) -> FloatArray:
        units = np.where(total[:, 0] > 0, total[:, 0], np.nan)
        observed = total[:, 1] / units
        chance = ((total[:, 2:] / units[:, None]) ** 2).sum(axis=1)
        return _nan_where(chance >= 1.0 - 1e-12, (observed - chance) / np.where(chance < 1.0, 1.0 - chance, 1.0))

    return AdditiveMeasure(np.column_stack([sums, shares]), finish)


def _count_equal_pairs(judgments: PairableJudgments) -> FloatArray:
    """Return the number of ordered pairs of equal judgments of each unit, sum_c n_uc (n_uc - 1)."""
    counts = count_values_by_unit(judgments)
    return np.asarray(counts.multiply(counts).sum(axis=1)).ravel() - judgments.size


# -- Agreement on error spans: marked characters and their severity ----------------------------------------------------


NO_SPAN = -1
"""Start of a judgment without an error."""


@dataclass(frozen=True, eq=False)
class SpanAgreement:
    """Agreement of every pair of annotators with shared texts."""

    first: IntArray  # annotator of each pair with the lower code
    second: IntArray  # the other
    texts: IntArray  # texts that both judged
    marked: FloatArray  # |A| + |B|, characters marked in them
    both: FloatArray  # characters that both mark
    same: FloatArray  # characters that both mark with the same severity
    sums: FloatArray  # items x (marked, both, same) over all pairs, for bootstraps

    @property
    def f1(self) -> FloatArray:
        """F1 of marked characters, severity ignored; NaN where neither marks any."""
        return _divide_or_nan(2.0 * self.both, self.marked)

    @property
    def f1_severity(self) -> FloatArray:
        """F1 of characters marked with the same severity."""
        return _divide_or_nan(2.0 * self.same, self.marked)

    @property
    def severity_match(self) -> FloatArray:
        """Share of equal severities among the characters that both mark."""
        return _divide_or_nan(self.same, self.both)

    def list_measures(self) -> dict[str, AdditiveMeasure]:
        """Return the three coefficients, pooled over pairs, as measures of item weights."""
        return {
            "span_f1": AdditiveMeasure(self.sums, lambda total: _divide_or_nan(2.0 * total[:, 1], total[:, 0])),
            "span_f1_severity": AdditiveMeasure(
                self.sums, lambda total: _divide_or_nan(2.0 * total[:, 2], total[:, 0])
            ),
            "severity_match": AdditiveMeasure(self.sums, lambda total: _divide_or_nan(total[:, 2], total[:, 1])),
        }


def _divide_or_nan(part: FloatArray, total: FloatArray) -> FloatArray:
    return np.where(total > 0, part / np.where(total > 0, total, 1.0), np.nan)


def span_agreement(
    text: IntArray, annotator: IntArray, item: IntArray, start: IntArray, end: IntArray, severity: IntArray
) -> SpanAgreement:
    """Compare the spans of all pairs of annotators, character by character.

    Arguments are columns of a table with a row per error, or per judgment without errors (`start` -1). `end` is
    exclusive; an empty span (an omission) marks nothing. Higher codes of `severity` are worse; overlapping spans of an
    annotator count with the worst.

    >>> rows = np.zeros(2, dtype=int), np.array([0, 1]), np.zeros(2, dtype=int)
    >>> found = span_agreement(*rows, np.array([0, 2]), np.array([4, 6]), np.array([0, 0]))
    >>> found.f1.tolist(), found.severity_match.tolist()
    ([0.5], [1.0])
    """
    wrong = np.flatnonzero((start != NO_SPAN) & ((start < 0) | (end < start)))
    if len(wrong):
        raise OptionError(f"row {wrong[0] + 1}: the span from {start[wrong[0]]} to {end[wrong[0]]} is not one")
    annotators = int(annotator.max(initial=-1)) + 1
    codes = np.unique(item, return_inverse=True)[1].astype(np.int64)
    items = int(codes.max(initial=-1)) + 1
    marks = _list_marked_characters(text, annotator, codes, start, end, severity)
    judged = _list_judged_texts(text, annotator, codes, marks)
    pairs = _pair_annotators(judged[0], judged[3].astype(np.float64), judged[1], judged[2], annotators)
    sizes, sums = _sum_lengths(pairs, judged[2], items)
    shared = _count_shared_characters(marks, pairs, annotators, judged[2], items)
    return SpanAgreement(
        first=pairs.first,
        second=pairs.second,
        texts=pairs.shared,
        marked=sizes,
        both=shared[0],
        same=shared[1],
        sums=np.column_stack([sums, shared[2]]),
    )


def _list_marked_characters(
    text: IntArray, annotator: IntArray, item: IntArray, start: IntArray, end: IntArray, severity: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Return text, annotator, item, position and severity of each marked character, once per annotator."""
    length = np.where(start == NO_SPAN, 0, end - start)
    row = np.repeat(np.arange(len(text)), length)
    position = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length) + start[row]
    order = np.lexsort((-severity[row], position, annotator[row], text[row]))
    row, position = row[order], position[order]
    keys = np.stack([text[row], annotator[row], position])
    first = np.ones(len(row), dtype=np.bool_)
    first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    row, position = row[first], position[first]
    return text[row], annotator[row], item[row], position, severity[row]


def _list_judged_texts(
    text: IntArray, annotator: IntArray, item: IntArray, marks: tuple[IntArray, ...]
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return text, annotator, item and number of marked characters of every judgment."""
    wide = int(annotator.max(initial=0)) + 1
    keys, place = np.unique(text * wide + annotator, return_index=True)
    positions = np.searchsorted(keys, marks[0] * wide + marks[1])
    return text[place], annotator[place], item[place], np.bincount(positions, minlength=len(keys)).astype(np.int64)


def _pair_annotators(
    unit: IntArray, value: FloatArray, annotator: IntArray, item: IntArray, annotators: int
) -> AnnotatorPairs:
    return find_annotator_pairs(pairable_judgments(unit, value, item), annotator, annotators)


def _original_items(judgments: PairableJudgments, item: IntArray) -> IntArray:
    """Return the original item codes; `pairable_judgments` renumbers the items that it keeps."""
    return np.unique(item[judgments.kept]).astype(np.int64)


def _sum_lengths(pairs: AnnotatorPairs, item: IntArray, items: int) -> tuple[FloatArray, FloatArray]:
    """Return |A| + |B| of every pair, and summed over pairs of every item."""
    total, of_items = np.zeros(len(pairs.first)), np.zeros(items)
    back = _original_items(pairs.judgments, item)
    for rows in iterate_judgment_pairs(pairs):
        length = pairs.judgments.values[rows.x] + pairs.judgments.values[rows.y]
        total += np.bincount(rows.pair, length, minlength=len(total))
        of_items += np.bincount(back[rows.item], length, minlength=items)
    return total, of_items


def _count_shared_characters(
    marks: tuple[IntArray, ...], pairs: AnnotatorPairs, annotators: int, _item: IntArray, items: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return characters marked by both annotators of each pair, those of equal severity, and both per item."""
    text, annotator, item, position, severity = marks
    shared, same, of_items = np.zeros(len(pairs.first)), np.zeros(len(pairs.first)), np.zeros((items, 2))
    if not len(text):
        return shared, same, of_items
    character = np.unique(np.stack([text, position]), axis=1, return_inverse=True)[1].ravel()
    met = _pair_annotators(character, severity.astype(np.float64), annotator, item, annotators)
    number = np.full((annotators, annotators), -1, dtype=np.int64)
    number[pairs.first, pairs.second] = np.arange(len(pairs.first))
    index = number[met.first, met.second]
    back = _original_items(met.judgments, item)
    for rows in iterate_judgment_pairs(met):
        equal = (rows.x == rows.y).astype(np.float64)
        shared += np.bincount(index[rows.pair], minlength=len(shared))
        same += np.bincount(index[rows.pair], equal, minlength=len(shared))
        of_items += sum_by_item(back[rows.item], [np.ones(len(equal)), equal], items)
    return shared, same, of_items
