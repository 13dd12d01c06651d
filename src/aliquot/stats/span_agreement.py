"""Do two annotators mark the same characters, and call them equally severe?

F1 = 2 |A and B| / (|A| + |B|) over the characters that annotators A and B mark in the texts both judged. A text nobody
marks adds nothing to it. Characters that one annotator marks twice count once, with the more severe mark.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.alpha import Pairable, pairable
from aliquot.stats.annotator_pairs import AnnotatorPairs, annotator_pairs, iterate_rows
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.item_bootstrap import Additive, item_sums

NO_SPAN = -1
"""Start of an answer without an error."""


@dataclass(frozen=True, eq=False)
class SpanAgreement:
    """Pairs of annotators with shared texts.

    Attributes:
        first: annotator of each pair with the lower code.
        second: the other.
        texts: texts that both judged.
        marked: |A| + |B|, characters marked in them.
        both: characters that both mark.
        same: characters that both mark with the same severity.
        sums: items x (marked, both, same) over all pairs, for bootstraps.
    """

    first: IntArray
    second: IntArray
    texts: IntArray
    marked: FloatArray
    both: FloatArray
    same: FloatArray
    sums: FloatArray

    @property
    def f1(self) -> FloatArray:
        """F1 of marked characters, whatever their severity; NaN where nobody marks any."""
        return _ratio(2.0 * self.both, self.marked)

    @property
    def f1_severity(self) -> FloatArray:
        """F1 of characters marked with the same severity."""
        return _ratio(2.0 * self.same, self.marked)

    @property
    def severity_match(self) -> FloatArray:
        """Share of the characters that both mark on whose severity they agree."""
        return _ratio(self.same, self.both)

    def measures(self) -> dict[str, Additive]:
        """The three numbers over all pairs together, as measures of item weights."""
        return {
            "span_f1": Additive(self.sums, lambda total: _ratio(2.0 * total[:, 1], total[:, 0])),
            "span_f1_severity": Additive(self.sums, lambda total: _ratio(2.0 * total[:, 2], total[:, 0])),
            "severity_match": Additive(self.sums, lambda total: _ratio(total[:, 2], total[:, 1])),
        }


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), np.nan)


def span_agreement(
    text: IntArray, annotator: IntArray, item: IntArray, start: IntArray, end: IntArray, severity: IntArray
) -> SpanAgreement:
    """Compare the spans of all pairs of annotators.

    Args:
        text: code of the text of each row; a row is an error, or an answer without one.
        annotator: code of its annotator.
        item: code of the text's item.
        start: first character of the span, or -1 for an answer without a span.
        end: the character after the last; an empty span (an omission) marks nothing.
        severity: code of the severity, rising with it.

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
    marks = _characters(text, annotator, codes, start, end, severity)
    judged = _judged(text, annotator, codes, marks)
    pairs = _pairs(judged[0], judged[3].astype(np.float64), judged[1], judged[2], annotators)
    sizes, sums = _lengths(pairs, judged[2], items)
    shared = _shared(marks, pairs, annotators, judged[2], items)
    return SpanAgreement(
        first=pairs.first, second=pairs.second, texts=pairs.shared, marked=sizes, both=shared[0], same=shared[1],
        sums=np.column_stack([sums, shared[2]]),
    )  # fmt: skip


def _characters(
    text: IntArray, annotator: IntArray, item: IntArray, start: IntArray, end: IntArray, severity: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Text, annotator, item, position and severity of every marked character, once for each annotator."""
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


def _judged(
    text: IntArray, annotator: IntArray, item: IntArray, marks: tuple[IntArray, ...]
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Text, annotator, item and number of marked characters of every answer."""
    wide = int(annotator.max(initial=0)) + 1
    keys, place = np.unique(text * wide + annotator, return_index=True)
    at = np.searchsorted(keys, marks[0] * wide + marks[1])
    return text[place], annotator[place], item[place], np.bincount(at, minlength=len(keys)).astype(np.int64)


def _pairs(unit: IntArray, value: FloatArray, annotator: IntArray, item: IntArray, annotators: int) -> AnnotatorPairs:
    return annotator_pairs(pairable(unit, value, item), annotator, annotators)


def _true_items(answers: Pairable, item: IntArray) -> IntArray:
    """`pairable` numbers the items it keeps; these are the numbers they came with."""
    return np.unique(item[answers.kept]).astype(np.int64)


def _lengths(pairs: AnnotatorPairs, item: IntArray, items: int) -> tuple[FloatArray, FloatArray]:
    """|A| + |B| of every pair, and of every item."""
    total, of_items = np.zeros(len(pairs.first)), np.zeros(items)
    back = _true_items(pairs.answers, item)
    for rows in iterate_rows(pairs):
        length = pairs.answers.values[rows.x] + pairs.answers.values[rows.y]
        total += np.bincount(rows.pair, length, minlength=len(total))
        of_items += np.bincount(back[rows.item], length, minlength=items)
    return total, of_items


def _shared(
    marks: tuple[IntArray, ...], pairs: AnnotatorPairs, annotators: int, _item: IntArray, items: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Characters marked by both annotators of each pair, those with the same severity, and both for every item."""
    text, annotator, item, position, severity = marks
    both, same, of_items = np.zeros(len(pairs.first)), np.zeros(len(pairs.first)), np.zeros((items, 2))
    if not len(text):
        return both, same, of_items
    character = np.unique(np.stack([text, position]), axis=1, return_inverse=True)[1].ravel()
    met = _pairs(character, severity.astype(np.float64), annotator, item, annotators)
    number = np.full((annotators, annotators), -1, dtype=np.int64)
    number[pairs.first, pairs.second] = np.arange(len(pairs.first))
    known = number[met.first, met.second]
    back = _true_items(met.answers, item)
    for rows in iterate_rows(met):
        equal = (rows.x == rows.y).astype(np.float64)
        both += np.bincount(known[rows.pair], minlength=len(both))
        same += np.bincount(known[rows.pair], equal, minlength=len(both))
        of_items += item_sums(back[rows.item], [np.ones(len(equal)), equal], items)
    return both, same, of_items
