"""Features of texts against counting by hand, scikit-learn's vectoriser, and whatever texts there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from aliquot.stats import text_features
from aliquot.stats.text_features import (
    HASH_BITS,
    MAX_CHARACTERS,
    SURFACE_FEATURES,
    character_hashes,
    empty_seen_table,
    encode_texts,
    mark_seen,
    ngram_matrix,
    ngram_scores,
    surface_features,
    unseen_shares,
    word_hashes,
)

TEXTS = ["the cat sat on the mat", "a cat", "", "the mat the cat", "zebra", "שלום עולם", "日本語のテキスト", "a\tb\n c"]


def row(text: str) -> dict[str, float]:
    return dict(zip(SURFACE_FEATURES, surface_features(encode_texts([text]))[0].tolist(), strict=True))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_character_runs_are_those_of_scikit_learn(order):
    """Equal runs have equal hashes, different ones different: inner products of counts agree."""
    plain = [text.replace("\t", " ").replace("\n", " ") for text in TEXTS]  # white space is one to us
    # sklearn squeezes white space for `char`; so a callable analyser
    oracle = CountVectorizer(analyzer=lambda text: [text[at : at + order] for at in range(len(text) - order + 1)])
    counts = oracle.fit_transform(plain).toarray()
    ((hashes, text),) = character_hashes(encode_texts(TEXTS), (order,))
    ours = np.zeros((len(TEXTS), len(np.unique(hashes))))
    np.add.at(ours, (text, np.unique(hashes, return_inverse=True)[1]), 1)
    assert np.array_equal(ours @ ours.T, counts @ counts.T)


def test_words_are_runs_between_white_space():
    hashes, text = word_hashes(encode_texts(TEXTS))
    words = [word for each in TEXTS for word in each.split()]
    assert text.tolist() == [at for at, each in enumerate(TEXTS) for _ in each.split()]
    code = {word: hashes[at] for at, word in enumerate(words)}
    assert [code[word] for word in words] == hashes.tolist()
    assert len(set(hashes.tolist())) == len(set(words))


def test_words_of_the_same_letters_differ():
    hashes, _ = word_hashes(encode_texts(["ab ba abc cab bca aab aba"]))
    assert len(set(hashes.tolist())) == 7


def test_case_and_digits_do_not_matter_to_ngrams():
    matrix = ngram_matrix(encode_texts(["Room 12", "room 98"]))
    assert (matrix[0] != matrix[1]).nnz == 0


def test_a_linear_model_is_applied_without_the_matrix():
    weights = np.random.default_rng(1).normal(size=1 << HASH_BITS).astype(np.float32)
    cut = encode_texts(TEXTS)
    assert ngram_scores(cut, weights) == pytest.approx(ngram_matrix(cut) @ weights, abs=1e-5)


def test_a_text_has_the_same_numbers_in_any_company():
    weights = np.random.default_rng(1).normal(size=1 << HASH_BITS)
    memory = empty_seen_table()
    mark_seen(encode_texts(TEXTS[:3]), memory)
    together = encode_texts(TEXTS)
    for at, text in enumerate(TEXTS):
        alone = encode_texts([text])
        assert np.array_equal(surface_features(alone)[0], surface_features(together)[at])
        assert ngram_scores(alone, weights)[0] == ngram_scores(together, weights)[at]
        assert np.array_equal(unseen_shares(alone, memory)[0], unseen_shares(together, memory)[at])


def test_surface_counts():
    found = row("Hello, WORLD (2024)! See #x @y")
    assert found["log length"] == pytest.approx(np.log1p(6))
    assert found["log characters"] == pytest.approx(np.log1p(30))
    assert found["digits"] == pytest.approx(4 / 30)
    assert found["upper"] == pytest.approx(7 / 30)
    assert found["commas"] == found["sentence ends"] == pytest.approx(1 / 30)
    assert found["brackets"] == found["at or hash"] == pytest.approx(2 / 30)
    assert found["capitalised"] == pytest.approx(3 / 6)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Straße", "latin"),
        ("Привет", "cyrillic"),
        ("שלום", "hebrew"),
        ("مرحبا", "arabic"),
        ("नमस्ते", "indic"),
        ("สวัสดี", "thai"),
        ("中文", "han"),
        ("ひらがな", "kana"),
        ("한국어", "hangul"),
        ("Καλημέρα", "greek"),
    ],
)
def test_scripts(text, script):
    found = row(text)
    assert found[f"script {script}"] == pytest.approx(1.0)
    assert sum(value for name, value in found.items() if name.startswith("script")) == pytest.approx(1.0)


def test_length_is_in_characters_where_words_are_not_spaced():
    assert row("日本語のテキスト")["log length"] == pytest.approx(np.log1p(8))
    assert row("eight words are here and no more really")["log length"] == pytest.approx(np.log1p(8))


def test_unseen_shares():
    memory = empty_seen_table()
    mark_seen(encode_texts(["the cat sat"]), memory)
    words, runs = unseen_shares(encode_texts(["the dog sat", "the cat sat", "", "qqqq"]), memory).T
    assert words.tolist() == pytest.approx([1 / 3, 0, 0, 1])
    assert runs[1] == runs[2] == 0
    assert runs[3] == 1
    assert 0 < runs[0] < 1


def test_a_megabyte_is_cut_but_counted():
    found = row("word " * 200_000)
    assert found["log characters"] == pytest.approx(np.log1p(1_000_000))
    assert found["log length"] == pytest.approx(np.log1p(200_000), abs=1e-3)
    assert len(encode_texts(["x" * 1_000_000]).codes) == MAX_CHARACTERS


@given(st.lists(st.text(max_size=30) | st.none(), max_size=8))
@settings(max_examples=60, deadline=None)
def test_any_text_has_finite_features(texts):
    cut = encode_texts(texts)
    assert np.isfinite(surface_features(cut)).all()
    memory = empty_seen_table()
    mark_seen(cut, memory)
    assert (unseen_shares(cut, memory) == 0).all()
    hashes, text = word_hashes(cut)
    expected = [len(_split(each or "")) for each in texts]
    assert np.bincount(text, minlength=len(texts)).tolist() == expected if texts else not len(hashes)


def _split(text: str) -> list[str]:
    import unicodedata

    spaced = "".join(" " if unicodedata.category(c)[0] == "Z" or c in "\t\n\v\f\r\x85" else c for c in text)
    return [word for word in spaced.split(" ") if word]


def test_surrogates_and_controls_do_not_break_anything():
    cut = encode_texts(["\ud800 lone", "a\x00b\x07", "\U0010ffff \U000e0041", "\u202eright to left\u202c"])
    assert np.isfinite(surface_features(cut)).all()
    assert surface_features(cut)[1, SURFACE_FEATURES.index("controls")] == pytest.approx(0.5)


def test_kinds_of_characters_by_hand():
    """Title case counts as upper case; white space that Unicode calls control is a space and nothing else."""
    kinds = text_features.character_kinds()
    bits = {"a": 1, "A": 1 + 2, "\u01c5": 1 + 2, "7": 4, "!": 8, "+": 16, "\u0301": 32, " ": 64, "\n": 64, "\x00": 128}
    assert {character: int(kinds[ord(character)]) for character in bits} == bits
