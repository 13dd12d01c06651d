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

from aliquot.collect.checks import AnnotatorCard, annotator_cards, damaged
from aliquot.core.judgments import Judgments
from aliquot.stats.text_similarity import word_spans

WORDS = st.lists(st.sampled_from(["cat", "dog", "看", "书", "naïve", "😀", "x,y"]), min_size=0, max_size=40)


@given(WORDS, WORDS, st.integers(0, 99))
def test_a_run_of_words_is_replaced_and_the_ends_stay(words, other, seed):
    text, donor = " ".join(words), " ".join(other)
    found = damaged(text, donor, np.random.default_rng(seed))
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
    found = damaged(text, donor, np.random.default_rng(0))
    assert found is not None
    assert sum(word.startswith("b") for word in found.split()) == replaced


def test_scripts_without_spaces_are_damaged_by_characters():
    found = damaged("今天天气很好我们去公园", "他买了三本书和一支笔", np.random.default_rng(1))
    assert found is not None
    assert found[0] == "今"
    assert found[-1] == "园"
    assert len(found) == 11


def test_nothing_to_replace_is_told():
    assert damaged("", "other words", np.random.default_rng(0)) is None
    assert damaged("same", "same", np.random.default_rng(0)) is None


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
