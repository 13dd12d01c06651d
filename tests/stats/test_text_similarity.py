"""Text similarities against sacrebleu itself and against the definition written out, pair by pair."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats import ngrams, text_similarity
from aliquot.stats.arrays import FloatArray
from aliquot.stats.text_similarity import (
    Similarity,
    Tokenizer,
    _compare_items,
    _find_kind,
    mean_pairwise_similarity,
    similarity_to_others,
    word_spans,
)

SIMILARITIES: list[Similarity] = ["unigram", "bleu", "chrf"]
TOLERANCE = 1e-9
PUBLISHED: dict[Similarity, Tokenizer] = {"unigram": "whitespace", "bleu": "13a", "chrf": "auto"}
"""How subset2evaluate and sacrebleu split texts, whatever the script."""


def dice(hypothesis: str, reference: str) -> float:
    """Subset2evaluate's definition, which calls two texts alike when either has no words."""
    a, b = Counter(hypothesis.split()), Counter(reference.split())
    if not a or not b:
        return 1.0
    return 2 * (a & b).total() / (a.total() + b.total())


@functools.cache
def bleu_metric() -> BLEU:
    return BLEU(effective_order=True)


@functools.cache
def chrf_metric() -> CHRF:
    return CHRF()


SCORES: dict[Similarity, Callable[[str, str], float]] = {
    "unigram": dice,
    "bleu": lambda hypothesis, reference: bleu_metric().sentence_score(hypothesis, [reference]).score,
    "chrf": lambda hypothesis, reference: chrf_metric().sentence_score(hypothesis, [reference]).score,
}


def pairwise_similarity(texts: list[str], similarity: Similarity) -> FloatArray:
    """Every text as hypothesis (row) against every text as reference (column)."""
    matrix: FloatArray = _compare_items([texts], _find_kind(similarity))[0]
    return matrix


def expected_matrix(texts: Sequence[str], similarity: Similarity) -> FloatArray:
    score = SCORES[similarity]
    return np.array([[score(a, b) for b in texts] for a in texts], dtype=float)


def expected_mean(texts: Sequence[str | None], similarity: Similarity) -> float:
    there = [text for text in texts if text is not None]
    scores = [SCORES[similarity](a, b) for a, b in itertools.permutations(there, 2)]
    return float(np.mean(scores)) if scores else float("nan")


HARD_TEXTS = [
    "",
    " ",
    "\n",
    "\u3000\u2009\x1c\x85\xa0",
    "a",
    ".",
    "ab",
    "aaaaaaaaaa",
    "the the the the the",
    "the the",
    "The cat sat on the mat.",
    "the cat sat on the mat .",
    "The cat sat on the mat",
    "The cat sat on the mat. " * 30,
    "The cat\x1csat\u2028on\u00a0the mat.",
    "Es kostet 1.234,56 € (ca. 10-20%), z.B. 3-4 ... oder,so.",
    "&quot;Tom &amp; Jerry&quot; &lt;b&gt; &amp;quot; &amp;amp;lt;",
    "<skipped> a<skipped>b <skip<skipped>ped>",
    "ver-\nlängert, zwei\nZeilen",
    "line-<skipped>\nbreak &qu-\not; x",
    "ends with a hyphen-\n",
    "😀😀 👩‍👩‍👧 🇩🇪🇩🇪",
    "e\u0301te\u0301 été",
    "שלום, עולם! מה שלומך?",
    "日本語のテキストです。日本語。",
    "吾輩は猫である。名前はまだ無い。",
    "\x00\x01\x00\x01 \x7f",
    "\ud800 broken \udfff",
    "\U0010ffff\U0010ffff",
]


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_hard_texts_agree_pair_by_pair(similarity: Similarity) -> None:
    ours = pairwise_similarity(HARD_TEXTS, similarity)
    np.testing.assert_allclose(ours, expected_matrix(HARD_TEXTS, similarity), rtol=0, atol=TOLERANCE)


letters = ["a", "b", "ab", "1", "23", "é", "e\u0301", "😀", "日", "\x00"]
marks = [".", ",", "-", "(", ")", "/", "'", '"', "<", ">", "&"]
spaces = [" ", "\t", "\n", "-\n", "\x1c", "\u3000"]
entities = ["&amp;", "amp;", "&quot;", "quot;", "&lt;", "<skipped>"]
nasty_pieces = st.sampled_from([*letters, *marks, *spaces, *entities])
nasty_text = st.lists(nasty_pieces, max_size=25).map("".join)
any_text = st.text(st.characters(codec=None), max_size=30)
few_letters = st.text(alphabet="ab ", max_size=40)
some_texts = st.lists(nasty_text | any_text | few_letters, min_size=1, max_size=5)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@given(texts=some_texts)
@settings(max_examples=150, deadline=None)
@example(texts=["a.\x1c.5", "a.\x1c.5,\u2028,"])
def test_any_texts_agree_pair_by_pair(similarity: Similarity, texts: list[str]) -> None:
    ours = pairwise_similarity(texts, similarity)
    assert ours.shape == (len(texts), len(texts))
    np.testing.assert_allclose(ours, expected_matrix(texts, similarity), rtol=0, atol=TOLERANCE)


items_of_texts = st.lists(st.lists(st.none() | nasty_text | few_letters, max_size=5), max_size=6)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@given(items=items_of_texts, chunk_size=st.sampled_from([1, 7, 40, 10**6]))
@settings(max_examples=75, deadline=None)
def test_mean_is_over_ordered_pairs_of_different_systems(
    similarity: Similarity, items: list[list[str | None]], chunk_size: int
) -> None:
    ours = mean_pairwise_similarity(items, similarity, PUBLISHED[similarity], chunk_size=chunk_size)
    expected = [expected_mean(item, similarity) for item in items]
    np.testing.assert_allclose(ours, np.array(expected, dtype=float), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_identical_outputs_of_different_systems_count_as_pairs(similarity: Similarity) -> None:
    items = [["one two three", "one two three", "one two four"], ["x y z", "x y z"], ["", ""]]
    expected = [expected_mean(item, similarity) for item in items]
    np.testing.assert_allclose(mean_pairwise_similarity(items, similarity), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_fewer_than_two_outputs_give_nan(similarity: Similarity) -> None:
    items: list[list[str | None]] = [[], [None], ["a"], [None, "a", None], ["a", None, "a"]]
    assert np.isnan(mean_pairwise_similarity(items, similarity)).tolist() == [True] * 4 + [False]
    assert np.isnan(mean_pairwise_similarity([[], [None]], similarity)).all()
    assert mean_pairwise_similarity([], similarity).shape == (0,)
    assert pairwise_similarity([], similarity).shape == (0, 0)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_missing_outputs_leave_the_mean(similarity: Similarity) -> None:
    whole = mean_pairwise_similarity([["a b c", "a b d", "b c d e"]], similarity)
    holes = mean_pairwise_similarity([[None, "a b c", None, "a b d", "b c d e", None]], similarity)
    np.testing.assert_array_equal(whole, holes)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_chunk_size_and_neighbours_have_no_influence(similarity: Similarity) -> None:
    rng = np.random.default_rng(5)
    items = [
        [" ".join(rng.choice(["ein", "Haus", "am", "See,", "日本"], rng.integers(0, 30))) for _ in range(width)]
        for width in rng.integers(0, 9, size=60)
    ]
    whole = mean_pairwise_similarity(items, similarity)
    for chunk_size in (1, 50, 1000, 10**9):
        chunked = mean_pairwise_similarity(items, similarity, chunk_size=chunk_size)
        np.testing.assert_allclose(chunked, whole, rtol=0, atol=TOLERANCE)
    alone = np.concatenate([mean_pairwise_similarity([item], similarity) for item in items])
    np.testing.assert_allclose(alone, whole, rtol=0, atol=TOLERANCE)


@given(texts=some_texts)
@settings(max_examples=50, deadline=None)
def test_unigram_is_symmetric(texts: list[str]) -> None:
    scores = pairwise_similarity(texts, "unigram")
    np.testing.assert_array_equal(scores, scores.T)


def test_chrf_is_symmetric_only_between_texts_of_equal_length() -> None:
    equal = pairwise_similarity(["abcdefgh", "abcdxfgh", "habcdefg"], "chrf")
    np.testing.assert_allclose(equal, equal.T, rtol=0, atol=TOLERANCE)
    unequal = pairwise_similarity(["abcdefgh", "abcd"], "chrf")
    assert unequal[0, 1] > unequal[1, 0]


def test_bleu_depends_on_direction() -> None:
    scores = pairwise_similarity(["the cat sat on the mat", "the cat sat on"], "bleu")
    assert scores[0, 1] != pytest.approx(scores[1, 0])


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_large_alphabets_that_overflow_one_word(similarity: Similarity) -> None:
    """More than 2,000 distinct characters and words: the packed n-gram takes several integers."""
    rng = np.random.default_rng(3)
    base = [chr(0x4E00 + i) for i in rng.permutation(5000)[:2500]]
    texts = [" ".join(base), " ".join(base[:1500] + base[1000:]), " ".join(base[::-1]), " ".join(base[7:2000])]
    ours = pairwise_similarity(texts, similarity)
    np.testing.assert_allclose(ours, expected_matrix(texts, similarity), rtol=0, atol=TOLERANCE)


def test_narrow_count_tables_give_the_same_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pairwise_similarity(HARD_TEXTS, "chrf")
    monkeypatch.setattr(ngrams, "_CHUNK", 100)
    np.testing.assert_array_equal(pairwise_similarity(HARD_TEXTS, "chrf"), whole)


@given(
    texts=st.lists(st.lists(st.integers(1, 3), max_size=12), min_size=1, max_size=4),
    scale=st.sampled_from([1, 2**20, 2**61]),
    order=st.integers(1, 5),
)
@settings(max_examples=100, deadline=None)
def test_clipped_matches_against_counters(texts: list[list[int]], scale: int, order: int) -> None:
    symbols = np.array(list(itertools.chain.from_iterable(texts)), dtype=np.int64) * scale
    lengths = np.array([[len(text) for text in texts]], dtype=np.int64)
    ours = ngrams.clipped_matches(symbols, lengths, order)
    for k in range(1, order + 1):
        counts = [Counter(tuple(text[i : i + k]) for i in range(len(text) - k + 1)) for text in texts]
        assert ours[k - 1, 0].tolist() == [[(a & b).total() for b in counts] for a in counts]


def test_bad_arguments_are_option_errors() -> None:
    with pytest.raises(NameUnknownError, match="unknown similarity 'blue'; did you mean 'bleu'"):
        mean_pairwise_similarity([["a", "b"]], "blue")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match=r"unknown similarity 'x'\. Available: 'unigram', 'bleu', 'chrf'"):
        mean_pairwise_similarity([["a", "b"]], "x")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="`chunk_size` is 0"):
        mean_pairwise_similarity([["a", "b"]], "chrf", chunk_size=0)
    with pytest.raises(OptionError, match="item 1 must be a list of outputs, not 'a text'"):
        mean_pairwise_similarity([["a"], "a text"], "chrf")
    with pytest.raises(OptionError, match="item 0 has the output 3"):
        mean_pairwise_similarity([["a", 3]], "chrf")  # type: ignore[list-item]


def test_bad_symbols_are_option_errors() -> None:
    with pytest.raises(OptionError, match="`order` is 0"):
        ngrams.clipped_matches(np.array([1]), np.array([[1]]), 0)
    with pytest.raises(OptionError, match="add up to 2 but there are 1"):
        ngrams.clipped_matches(np.array([1]), np.array([[2]]), 1)
    with pytest.raises(OptionError, match="must be positive, not 0"):
        ngrams.clipped_matches(np.array([0]), np.array([[1]]), 1)


# -- scripts without spaces ------------------------------------------------------------------------------------------

CHINESE = ["我们明天去北京。", "明天我们要去北京。", "你好吗", "我们，去 GPT-4 那里。"]


def test_chinese_characters_count_as_words():
    """By hand: 我 们 去 吧 against 我 去 吧: three in common of seven."""
    assert mean_pairwise_similarity([["我们去吧", "我去吧"]], "unigram") == pytest.approx(6 / 7)
    assert mean_pairwise_similarity([["我们去吧", "我去吧"]], "unigram", "whitespace") == 0.0
    assert mean_pairwise_similarity([["ไทยดี", "ไทยดี้"]], "unigram") == pytest.approx(2 * 3 / 8)  # a tone mark more
    assert mean_pairwise_similarity([["한국어 문장", "한국어 문장들"]], "unigram") == 0.5  # Korean writes spaces


def test_chinese_is_split_as_sacrebleu_does():
    split = TokenizerZh()
    for one, two in itertools.combinations(CHINESE, 2):
        a, b = Counter(split(one).split()), Counter(split(two).split())
        dice = 2 * (a & b).total() / (a.total() + b.total())
        assert mean_pairwise_similarity([[one, two]], "unigram") == pytest.approx(dice)
        bleu = BLEU(tokenize="zh", effective_order=True)
        expected = (bleu.sentence_score(one, [two]).score + bleu.sentence_score(two, [one]).score) / 2
        assert mean_pairwise_similarity([[one, two]], "bleu") == pytest.approx(expected)


@given(st.lists(st.lists(st.text("abcÄß 'é.-한", max_size=12), min_size=2, max_size=3), min_size=1, max_size=4))
def test_scripts_with_spaces_are_as_before(texts):
    for similarity, tokenizer in PUBLISHED.items():
        np.testing.assert_array_equal(
            mean_pairwise_similarity(texts, similarity), mean_pairwise_similarity(texts, similarity, tokenizer)
        )


def test_a_tokenizer_of_ones_choice():
    assert mean_pairwise_similarity([["abc", "abd"]], "unigram", "characters") == pytest.approx(2 / 3)
    assert mean_pairwise_similarity([["a, b", "a b"]], "unigram", "13a") == pytest.approx(4 / 5)
    assert mean_pairwise_similarity([["a, b", "a b"]], "unigram", "whitespace") == pytest.approx(1 / 2)
    with pytest.raises(OptionError, match="chrf compares characters"):
        mean_pairwise_similarity([["a", "b"]], "chrf", "13a")
    with pytest.raises(NameUnknownError, match="`tokenizer` is 'zh'"):
        mean_pairwise_similarity([["a", "b"]], "unigram", "zh")  # type: ignore[arg-type]


def test_spans_of_words_by_hand():
    assert word_spans(" ab  c") == [(1, 3), (5, 6)]
    assert word_spans("ab看书cd 好e") == [(0, 2), (2, 3), (3, 4), (4, 6), (7, 8), (8, 9)]
    assert word_spans("ดี้a") == [(0, 3), (3, 4)]  # a vowel and a tone mark belong to the consonant
    assert word_spans(" ") == []


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_similarity_to_others_by_hand(monkeypatch, chunk):
    """Dice over words: "a b" and "a c" share 1 of 2 words each, 1/2; "a b" and "a b c" 2 x 2 of 5."""
    monkeypatch.setattr(text_similarity, "CHUNK_SIZE", chunk)
    texts: list[list[str | None]] = [["a b", "a b", "a c"], ["a b", None, "a b c"], ["a", None, None], ["a b", "a c"]]
    nan = float("nan")
    expected = [[0.75, 0.75, 0.5], [0.8, nan, 0.8], [nan, nan, nan], [0.5, 0.5, nan]]
    np.testing.assert_allclose(similarity_to_others(texts), np.array(expected))
    assert similarity_to_others([]).shape == (0, 0)
    with pytest.raises(OptionError, match="item 3 has the output 5"):
        similarity_to_others([*texts[:3], [5]])  # type: ignore[list-item]
