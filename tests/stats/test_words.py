"""Words as numbers: the same as `str.split` and a dictionary, for every text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.stats import words
from aliquot.stats.words import word_numbers

SPACES = [chr(point) for point in range(0x110000) if chr(point).isspace()]
TEXTS = st.lists(
    st.text(st.one_of(st.characters(codec=None), st.sampled_from([*SPACES, *"aab\0"])), max_size=60), max_size=6
)


def check(texts: list[str]) -> None:
    numbers, lengths = word_numbers(texts)
    expected = list(itertools.chain.from_iterable(text.split() for text in texts))
    assert lengths.tolist() == [len(text.split()) for text in texts]
    assert len(numbers) == len(expected)
    assert (numbers > 0).all()
    pairs = set(zip(numbers.tolist(), expected, strict=True))
    assert len(pairs) == len(set(expected)) == len(set(numbers.tolist()))


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_any_texts_are_split_and_numbered_as_python_does(texts: list[str]) -> None:
    check(texts)


def test_every_whitespace_character_splits_and_no_other() -> None:
    points = [chr(point) for point in range(1, 0x110000)]
    check(["a" + "a".join(points) + "b"])


@pytest.mark.parametrize("size", [1, 7, 8, 9, 12, 13, 14, 18, 43, 48, 49, 500])
def test_words_that_differ_in_one_byte_only_differ(size: int) -> None:
    word = "x" * size
    check([" ".join([word, word[:-1] + "y", "y" + word[1:], word[:-1], word + "x", word])])


def test_a_collision_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_BITS", 3)
    check([" ".join(f"w{k}" for k in range(50))])


def test_no_texts() -> None:
    numbers, lengths = word_numbers([])
    assert len(numbers) == len(lengths) == 0
    assert np.array_equal(word_numbers(["", " "])[1], [0, 0])
