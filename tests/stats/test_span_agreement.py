"""Marked characters: hand-worked cases, and sets of characters compared one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import OptionError
from aliquot.stats.agreement import NO_SPAN, SpanAgreement, span_agreement
from aliquot.stats.resampling import bootstrap_intervals, measure_value

Row = tuple[int, int, int, int, int, int]  # text, annotator, item, start, end, severity


def compare(*rows: Row) -> SpanAgreement:
    return span_agreement(*np.array(rows).T)


def clean(text: int, annotator: int) -> Row:
    return text, annotator, text, NO_SPAN, NO_SPAN, 0


def test_half_of_the_characters() -> None:
    found = compare((0, 0, 0, 0, 4, 1), (0, 1, 0, 2, 6, 2))
    assert (found.marked.tolist(), found.both.tolist(), found.same.tolist()) == ([8], [2], [0])
    assert (found.f1.tolist(), found.f1_severity.tolist(), found.severity_match.tolist()) == ([0.5], [0.0], [0.0])


def test_a_clean_answer_counts_against_the_one_who_marks() -> None:
    found = compare((0, 0, 0, 0, 4, 1), clean(0, 1), (1, 0, 1, 5, 9, 1), (1, 1, 1, 5, 9, 1))
    assert found.f1.tolist() == [pytest.approx(2 * 4 / 12)]
    assert found.severity_match.tolist() == [1.0]
    assert found.texts.tolist() == [2]


def test_nobody_marks_anything() -> None:
    found = compare(clean(0, 0), clean(0, 1))
    assert np.isnan(found.f1).all()
    assert np.isnan(found.severity_match).all()
    assert all(np.isnan(measure_value(measure)) for measure in found.list_measures().values())


def test_overlapping_marks_of_one_annotator_count_once_with_the_worse() -> None:
    found = compare((0, 0, 0, 0, 4, 1), (0, 0, 0, 2, 6, 2), (0, 1, 0, 3, 4, 2))
    assert (found.marked.tolist(), found.both.tolist(), found.same.tolist()) == ([7], [1], [1])


def test_an_omission_marks_nothing() -> None:
    found = compare((0, 0, 0, 3, 3, 1), (0, 1, 0, 0, 2, 1))
    assert found.marked.tolist() == [2]
    assert found.f1.tolist() == [0.0]


def test_three_annotators_by_hand() -> None:
    """Text 0: a marks 0-9 (severity 1), b 5-14 (1) and 20-24 (2), c nothing. Text 1: a marks 0-3 (1), b 2-3 (2).

    a and b: 10 + 15 + 4 + 2 characters marked, 5 + 2 by both, 5 alike. a and c share text 0: 10 marked, b and c: 15.
    """
    found = compare(
        (0, 0, 0, 0, 10, 1),
        (0, 1, 0, 5, 15, 1),
        (0, 1, 0, 20, 25, 2),
        clean(0, 2),
        (1, 0, 1, 0, 4, 1),
        (1, 1, 1, 2, 4, 2),
    )
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2)]
    assert found.texts.tolist() == [2, 1, 1]
    assert (found.marked.tolist(), found.both.tolist(), found.same.tolist()) == ([31, 10, 15], [7, 0, 0], [5, 0, 0])
    np.testing.assert_allclose(found.f1, [14 / 31, 0, 0])
    np.testing.assert_allclose(found.f1_severity, [10 / 31, 0, 0])
    np.testing.assert_allclose(found.severity_match, [5 / 7, np.nan, np.nan])
    # Item 0: a with b 10 + 15, a with c 10, b with c 15. Item 1: a with b 4 + 2.
    assert found.sums.tolist() == [[50, 5, 5], [6, 2, 0]]
    values = {name: measure_value(measure) for name, measure in found.list_measures().items()}
    assert values == pytest.approx({"span_f1": 14 / 56, "span_f1_severity": 10 / 56, "severity_match": 5 / 7})


@pytest.mark.parametrize(("start", "both"), [(3, 1), (4, 0)])
def test_the_end_is_the_character_after_the_last(start: int, both: int) -> None:
    found = compare((0, 0, 0, 0, 4, 1), (0, 1, 0, start, start + 4, 1))
    assert (found.marked.tolist(), found.both.tolist()) == ([8], [both])


def test_texts_of_one_annotator_are_left_out() -> None:
    found = compare((0, 0, 0, 0, 4, 1), (0, 1, 0, 0, 4, 1), (1, 0, 1, 0, 50, 1))
    assert found.f1.tolist() == [1.0]
    assert found.sums.shape == (2, 3)
    assert found.sums[1].tolist() == [0, 0, 0]


spans = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 12), st.integers(0, 6), st.integers(0, 2)),
    max_size=14,
)


@settings(max_examples=80, deadline=None)
@given(spans)
def test_like_sets_of_characters(drawn: list[tuple[int, int, int, int, int]]) -> None:
    rows: list[Row] = [clean(text, annotator) for text in range(4) for annotator in range(3) if (text + annotator) % 4]
    judged = {(text, annotator) for text, annotator, *_ in rows}
    rows += [(t, a, t, s, s + n, v) for t, a, s, n, v in drawn if (t, a) in judged]
    worst: dict[tuple[int, int], dict[int, int]] = {key: {} for key in judged}
    for text, annotator, _item, start, end, severity in rows:
        for place in range(start, end) if start != NO_SPAN else ():
            marks = worst[text, annotator]
            marks[place] = max(severity, marks.get(place, 0))
    found = compare(*rows)
    for at, (a, b) in enumerate(combinations(range(3), 2)):
        shared = [t for t in range(4) if (t, a) in judged and (t, b) in judged]
        marked = sum(len(worst[t, a]) + len(worst[t, b]) for t in shared)
        both = [(worst[t, a][p], worst[t, b][p]) for t in shared for p in worst[t, a].keys() & worst[t, b].keys()]
        assert (found.first[at], found.second[at], found.texts[at]) == (a, b, len(shared))
        assert (found.marked[at], found.both[at], found.same[at]) == (marked, len(both), sum(x == y for x, y in both))
    assert found.sums.sum(axis=0).tolist() == [found.marked.sum(), found.both.sum(), found.same.sum()]


def test_intervals_over_items() -> None:
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for text in range(60):
        start = int(rng.integers(0, 20))
        rows += [
            (text, a, text // 2, start + int(rng.integers(0, 4)), start + 8, int(rng.integers(0, 2))) for a in (0, 1)
        ]
    found = bootstrap_intervals(list(compare(*rows).list_measures().values()), 300, seed=1)
    assert all(part.low < part.value < part.high for part in found)


@pytest.mark.parametrize(("start", "end"), [(-3, 4), (5, 2)])
def test_a_span_that_is_none(start: int, end: int) -> None:
    with pytest.raises(OptionError, match=f"row 2: the span from {start} to {end} is not one"):
        compare((0, 0, 0, 0, 4, 1), (0, 1, 0, start, end, 1))
