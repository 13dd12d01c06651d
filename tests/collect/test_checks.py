"""Damaged copies and annotator cards: by hand, for any text, and as a promise about careless annotators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.collect import planting
from aliquot.collect.checks import AnnotatorCard, annotator_cards, damage_text
from aliquot.collect.protocols import Checks, Gold
from aliquot.collect.records import nearest_expected
from aliquot.core.judgments import Judgments
from aliquot.stats.text_similarity import word_spans

WORDS = st.lists(st.sampled_from(["cat", "dog", "看", "书", "naïve", "😀", "x,y"]), min_size=0, max_size=40)


@given(WORDS, WORDS, st.integers(0, 99))
def test_a_run_of_words_is_replaced_and_the_ends_stay(words, other, seed):
    text, donor = " ".join(words), " ".join(other)
    found = damage_text(text, donor, np.random.default_rng(seed))
    if found is None:
        return
    assert found != text
    before, after = ([s[a:b] for a, b in word_spans(s)] for s in (text, found))
    assert len(before) == len(after)
    changed = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    longest = {True: 5, False: len(before) // 4}[len(before) <= 20]
    assert changed[-1] - changed[0] < longest
    if len(before) >= longest + 2:
        assert before[0] == after[0]
        assert before[-1] == after[-1]


@pytest.mark.parametrize(("words", "replaced"), [(1, 1), (2, 2), (5, 2), (6, 3), (9, 4), (16, 5), (20, 5), (40, 10)])
def test_as_many_words_as_wmt_replaces(words, replaced):
    text, donor = " ".join(f"a{at}" for at in range(words)), " ".join(f"b{at}" for at in range(60))
    found = damage_text(text, donor, np.random.default_rng(0))
    assert found is not None
    assert sum(word.startswith("b") for word in found.split()) == replaced


def test_scripts_without_spaces_are_damaged_by_characters():
    found = damage_text("今天天气很好我们去公园", "他买了三本书和一支笔", np.random.default_rng(1))
    assert found is not None
    assert found[0] == "今"
    assert found[-1] == "园"
    assert len(found) == 11


def test_nothing_to_replace_is_told():
    assert damage_text("", "other words", np.random.default_rng(0)) is None
    assert damage_text("same", "same", np.random.default_rng(0)) is None


def rows(
    annotator: str,
    values: Sequence[float],
    copies: Sequence[float] = (),
    repeats: Sequence[float] = (),
    gold: Sequence[tuple[float, float]] = (),
) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"item": at, "value": v, "control": None, "repeat": False, "expected": None} for at, v in enumerate(values)
    ]
    made += [
        {"item": at, "value": v, "control": "control", "repeat": False, "expected": None} for at, v in enumerate(copies)
    ]
    made += [
        {"item": at, "value": v, "control": None, "repeat": True, "expected": None} for at, v in enumerate(repeats)
    ]
    made += [
        {"item": 90 + at, "value": v, "control": "control", "repeat": False, "expected": e}
        for at, (v, e) in enumerate(gold)
    ]
    return [
        {"system": "A", "annotator": annotator, "seconds": 10.0, "page": f"{annotator}{at}", **row}
        for at, row in enumerate(made)
    ]


def cards_of(*tables: list[dict[str, Any]]) -> dict[str, AnnotatorCard]:
    frame = pl.DataFrame([row for table in tables for row in table], infer_schema_length=None)
    return {card.annotator: card for card in annotator_cards(Judgments(frame))}


def test_a_card_by_hand():
    values = [80.0, 70.0, 60.0, 50.0, 40.0, 30.0]
    found = cards_of(
        rows("ann", values, copies=[v - 10 for v in values[:5]], repeats=[82.0, 66.0], gold=[(5.0, 5.0), (9.0, 5.0)]),
        rows("bob", [v + 12 for v in values]),
    )
    ann = found["ann"]
    assert (ann.judgments, ann.damaged, ann.gold, ann.repeats, ann.pages) == (6, 5, 2, 2, 15)
    assert (ann.damaged_passed, ann.gold_passed, ann.repeat_difference, ann.seconds) == (1.0, 0.5, 3.0, 10.0)
    assert ann.damaged_p == pytest.approx(1 / 32)  # all five signs agree
    assert ann.severity == pytest.approx(-12.0)
    assert found["bob"].severity == pytest.approx(12.0)
    assert ann.suggestion == "nothing to do"
    assert math.isnan(found["bob"].damaged_passed)


def test_reasons_have_numbers():
    lazy = cards_of(rows("lazy", [50.0] * 12, copies=[50.0] * 8), rows("other", list(range(12))))["lazy"]
    assert lazy.suggestion.startswith("pause")
    assert any("0% of 8" in line for line in lazy.evidence)
    assert any("one value" in line for line in lazy.evidence)


def test_pages_below_the_floor_are_counted():
    frame = pl.DataFrame(rows("ann", [1.0, 2.0, 3.0, 4.0]))
    (card,) = annotator_cards(Judgments(frame), floor={"ann0": 11.0, "ann1": 9.0, "ann2": 9.0, "ann3": 9.0})
    assert card.too_fast == 0.25
    assert card.suggestion == "look at some answers"


VARIED = [float(10 * k) for k in range(12)]


@pytest.mark.parametrize(
    ("right", "of", "paused"), [(0, 2, False), (2, 3, True), (3, 3, False), (6, 10, True), (7, 10, False)]
)
def test_seventy_percent_of_three_known_answers_by_hand(right, of, paused):
    gold = [(5.0, 5.0)] * right + [(9.0, 5.0)] * (of - right)
    card = cards_of(rows("x", VARIED, gold=gold))["x"]
    assert card.gold == of
    assert card.gold_passed == pytest.approx(right / of)
    assert card.suggestion.startswith("pause") is paused


@pytest.mark.parametrize(
    ("losses", "p"),
    [
        ([1, 2, 3, 4], None),
        ([1, 2, 3, 4, 5], 1 / 32),
        ([-1, 2, 3, 4, 5], 2 / 32),
        ([-1, 2, 3, 4, 5, 6], 2 / 64),
        ([-1, -2, 3, 4, 5, 6], 5 / 64),
    ],
)
def test_damaged_copies_by_hand(losses, p):
    """Signed ranks: all of five right is one of 32 tables of signs, the smallest wrong two, 1 and 2 wrong five of 64.

    The fifth is at least as extreme as {}, {1}, {2}, {3} and {1, 2}. Above 0.05 the annotator is to pause.
    """
    card = cards_of(rows("x", VARIED, copies=[v - d for v, d in zip(VARIED, losses, strict=False)]))["x"]
    assert card.damaged == len(losses)
    assert card.damaged_passed == pytest.approx(sum(d > 0 for d in losses) / len(losses))
    assert math.isnan(card.damaged_p) if p is None else card.damaged_p == pytest.approx(p)
    assert card.suggestion.startswith("pause") is (p is not None and p > 0.05)


def test_a_copy_that_scores_the_same_is_not_passed():
    card = cards_of(rows("x", VARIED, copies=[0.0, 10.0, 19.0, 29.0]))["x"]
    assert card.damaged_passed == 0.5


@pytest.mark.parametrize(("same", "of", "share"), [(9, 10, 0.9), (8, 10, 0.8), (9, 9, None), (17, 19, 17 / 19)])
def test_nine_of_ten_answers_with_one_value_by_hand(same, of, share):
    card = cards_of(rows("x", [50.0] * same + [float(k) for k in range(of - same)]))["x"]
    assert math.isnan(card.straight) if share is None else card.straight == pytest.approx(share)
    assert card.suggestion.startswith("pause") is (share == 0.9)


@pytest.mark.parametrize(("fast", "looked"), [(1, False), (2, True)])
def test_more_than_a_fifth_of_the_pages_too_fast_by_hand(fast, looked):
    """Five pages of ten seconds; a page at its floor is not below it."""
    frame = pl.DataFrame(rows("x", VARIED[:5]))
    floor = {f"x{k}": 10.5 if k < fast else 10.0 for k in range(5)}
    (card,) = annotator_cards(Judgments(frame), floor=floor)
    assert card.too_fast == pytest.approx(fast / 5)
    assert (card.suggestion == "look at some answers") is looked


@pytest.mark.parametrize(
    ("value", "expected"), [(79.0, 80.0), (80.0, 80.0), (90.0, 90.0), (100.0, 100.0), (101.0, 100.0), (None, None)]
)
def test_the_nearest_right_answer_by_hand(value, expected):
    assert nearest_expected(value, (80.0, 100.0)) == expected


@pytest.mark.parametrize(
    ("drawn", "kind"),
    [
        (0.0, "damaged"),
        (0.249, "damaged"),
        (0.25, "repeat"),
        (0.374, "repeat"),
        (0.375, "gold"),
        (0.574, "gold"),
        (0.576, None),
        (0.999, None),
    ],
)
def test_shares_of_checks_by_hand(drawn, kind, monkeypatch):
    """A quarter damaged, an eighth repeated, then a fifth of known outputs; the rest is work."""
    monkeypatch.setattr(planting, "_copy_cell", lambda *_, damage: "damaged" if damage else "repeat")
    monkeypatch.setattr(planting, "_plant_gold", lambda *_: "gold")

    class Draw:
        def random(self) -> float:
            return float(drawn)

    checks = Checks(damaged=0.25, repeats=0.125, gold=(Gold(0, "A", 1, 2),))
    assert planting._choose_check(None, None, "x", checks, Draw()) == kind  # type: ignore[arg-type]
    if kind == "gold":
        without = Checks(damaged=0.25, repeats=0.125)
        assert planting._choose_check(None, None, "x", without, Draw()) is None  # type: ignore[arg-type]


def test_careful_annotators_are_seldom_told_to_pause_and_careless_ones_often():
    """Ten damaged copies that cost 15 points, noise of 10: 300 annotators of each kind."""
    rng = np.random.default_rng(7)
    flagged = {"careful": 0, "careless": 0}
    for kind, loss in (("careful", 15.0), ("careless", 0.0)):
        for _ in range(300):
            values = rng.normal(60, 15, 12)
            copies = values[:10] - loss + rng.normal(0, 10, 10)
            flagged[kind] += "pause" in cards_of(rows("x", values.tolist(), copies=copies.tolist()))["x"].suggestion
    assert flagged["careful"] <= 9  # 3%: power 99% at 1.5 deviations
    assert flagged["careless"] >= 270  # one in twenty passes by luck
