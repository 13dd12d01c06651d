"""Edit distances: a plain dynamic programme."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import MissingExtraError, OptionError
from aliquot.stats.text_similarity import compare_edits, edit_distances, text_lengths


def plain_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


@given(st.lists(st.tuples(st.text("abcé ", max_size=8), st.text("abcé ", max_size=8)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_distances_are_levenshtein(pairs):
    finals, outputs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert edit_distances(finals, outputs).tolist() == [plain_distance(a, b) for a, b in pairs]
    assert edit_distances(outputs, finals).tolist() == edit_distances(finals, outputs).tolist()


def test_empty_outputs_are_as_far_as_the_text_is_long():
    assert edit_distances(["abc", ""], ["", ""]).tolist() == [3, 0]
    assert text_lengths(["abc", ""]).tolist() == [3, 0]


def test_two_spellings_of_an_accent_are_the_same():
    assert edit_distances(["Zoe\u0308 ran"], ["Zo\u00eb ran"]).tolist() == [0]


def test_ties_of_edits():
    assert compare_edits(np.array([1, 2, 3]), np.array([2, 2, 1])).tolist() == [1, 0, -1]


def test_bad_input(monkeypatch):
    with pytest.raises(OptionError, match="2 final texts and 1 outputs"):
        edit_distances(["a", "b"], ["a"])
    monkeypatch.setattr("aliquot.errors.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="rapidfuzz"):
        edit_distances(["a"], ["b"])
