"""Similarity of the outputs for an item, averaged over pairs of systems, and edit distances.

Definitions are exactly those of others: BLEU and chrF are sacrebleu's sentence scores (0 to 100), `unigram` is the Dice
coefficient of word multisets (0 to 1) of subset2evaluate. Only the counting differs (see `ngrams`): an output is split
and counted once instead of once per pair. Characters of scripts without spaces count as words, because otherwise a
Chinese sentence is one word and outputs have almost no words in common.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from aliquot.errors import OptionError, judge_extra, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.ngrams import clipped_matches, ngram_totals
from aliquot.stats.words import word_numbers, word_numbers_of_bytes
from aliquot.validation import at_least, one_of

Similarity = Literal["unigram", "bleu", "chrf"]
Tokenizer = Literal["auto", "whitespace", "characters", "13a"]

_Symbols = tuple[IntArray, IntArray]
"""Symbols of all texts, concatenated, and the number of symbols of each text."""

CHUNK_SIZE = 1 << 17
"""Characters per chunk: large enough to amortise numpy's overhead, small enough for the cache."""
_WORD_CHUNKS = 8
"""Factor for words, which are fewer than characters."""


def mean_pairwise_similarity(
    texts: Sequence[Sequence[str | None]],
    similarity: Similarity,
    tokenizer: Tokenizer = "auto",
    *,
    chunk_size: int = CHUNK_SIZE,
) -> FloatArray:
    """Average the similarity of an item's outputs over all ordered pairs of different systems.

    Sentence BLEU is not symmetric, so both directions count. Equal outputs of two systems count as two. `unigram` is 2
    * (words in common) / (words in both), words split at whitespace, case-sensitive, and 1 if either text has no words
    (as in subset2evaluate). `bleu` is sacrebleu's sentence BLEU with its default 13a tokeniser, exponential smoothing
    and effective order. `chrf` is sacrebleu's chrF2 with its defaults. None is a missing output, "" an empty one; NaN
    for fewer than two outputs. `chunk_size` bounds the memory only. `tokenizer` "auto" first separates the characters
    of scripts without spaces; "whitespace" (subset2evaluate's for `unigram`), "13a" (sacrebleu's) and "characters"
    replace it.

    >>> mean_pairwise_similarity([["a b", "a b", "a c"], ["a b", None]], "unigram").round(3).tolist()
    [0.667, nan]
    """
    kind = _with_tokenizer(_find_kind(similarity), similarity, tokenizer)
    at_least("chunk_size", chunk_size, 1)
    distinct = [_count_distinct(_validate_outputs(item, f"item {index}")) for index, item in enumerate(texts)]
    at_once = chunk_size * (_WORD_CHUNKS if similarity == "unigram" else 1)
    means = [_mean_over_pairs(distinct[chunk], kind) for chunk in _chunk_items(distinct, at_once)]
    return np.concatenate(means) if means else np.empty(0)


def _find_kind(similarity: str) -> _SimilarityKind:
    if similarity not in _KINDS:
        raise unknown_name("similarity", similarity, get_args(Similarity))
    return _KINDS[similarity]


def _with_tokenizer(kind: _SimilarityKind, similarity: str, tokenizer: str) -> _SimilarityKind:
    """Return the similarity with another tokeniser."""
    one_of("tokenizer", tokenizer, get_args(Tokenizer))
    if similarity == "chrf":
        if tokenizer != "auto":
            raise OptionError("chrf compares characters; leave out the tokenizer")
        return kind
    if similarity == "unigram" and tokenizer == "auto":
        return replace(kind, symbols=_spaced_words)
    symbols = {
        "auto": lambda texts: kind.symbols([_separate_characters(text) for text in texts]),
        "whitespace": word_numbers,
        "characters": lambda texts: word_numbers([_every_character(text) for text in texts]),
        "13a": _number_tokens,
    }[tokenizer]
    return replace(kind, symbols=symbols)


def _character_class(ranges: Iterable[tuple[int, int]], *, marks: bool) -> str:
    """Return the characters of ranges for a regular expression: standalone ones, or combining marks."""
    points = (chr(point) for first, last in ranges for point in range(first, last + 1))
    return "".join(c for c in points if unicodedata.category(c).startswith("M") == marks and not c.isspace())


_UNSPACED = (
    (0x0E01, 0x0EFF),
    (0x0F00, 0x0FFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3001, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF01, 0xFF0F),
    (0xFF1A, 0xFF20),
    (0xFF5B, 0xFF9F),
)
"""Thai and Lao, Tibetan, Burmese, Khmer, Japanese, Chinese, and their punctuation. Korean writes spaces."""


@functools.cache
def _compile_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of characters of scripts without spaces, and of any script, each with its combining marks."""
    marks = _character_class(((0x0300, 0x036F), *_UNSPACED[:4]), marks=True)
    dense = re.escape(_character_class(_UNSPACED, marks=False))
    return re.compile(f"([{dense}\U00020000-\U0003ffff][{marks}]*)"), re.compile(f"[^\\s][{marks}]*")


def _spaced_words(texts: list[str]) -> _Symbols:
    """Number the words of texts; characters of scripts without spaces are words."""
    coded = [text.encode("utf-8", "surrogatepass") for text in texts]
    for row in _texts_without_spaces(coded):
        coded[row] = _separate_characters(texts[row]).encode("utf-8", "surrogatepass")
    return word_numbers_of_bytes(coded)


def _texts_without_spaces(coded: list[bytes]) -> list[int]:
    """Return which texts may contain scripts without spaces, by first bytes in UTF-8 that others rarely have."""
    data = np.frombuffer(b"".join(coded), dtype=np.uint8)
    candidates = np.flatnonzero((data >= 0xE0) & (data != 0xE2))
    ends = np.cumsum(np.fromiter(map(len, coded), np.int64, len(coded)))
    rows: list[int] = np.unique(np.searchsorted(ends, candidates, side="right")).tolist()
    return rows


def _separate_characters(text: str) -> str:
    """Put spaces around each character of a script without spaces, including its marks."""
    return text if text.isascii() else _compile_patterns()[0].sub(r" \1 ", text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each word; characters of scripts without spaces, with their marks, are words.

    >>> [("I 看书".__getitem__(slice(*span))) for span in word_spans("I 看书")]
    ['I', '看', '书']
    """
    spans, dense = [], _compile_patterns()[0]
    for chunk in re.finditer(r"\S+", text):
        position = chunk.start()
        for part in dense.split(chunk.group()):
            if part:
                spans.append((position, position + len(part)))
                position += len(part)
    return spans


def _every_character(text: str) -> str:
    return " ".join(_compile_patterns()[1].findall(text))


_PLAIN = {str, type(None)}


def _validate_outputs(item: Iterable[str | None], name: str) -> list[str | None]:
    """Return the outputs as a list; raise OptionError unless each is a text or None."""
    if isinstance(item, str) or not isinstance(item, Iterable):
        raise OptionError(f"{name} must be a list of outputs, not {item!r:.60}")
    outputs = list(item)
    if set(map(type, outputs)) <= _PLAIN:
        return outputs
    for text in outputs:
        if text is not None and not isinstance(text, str):
            raise OptionError(f"{name} has the output {text!r:.60}, not a text; use None for a missing output")
    return outputs


def _count_distinct(outputs: list[str | None]) -> dict[str, int]:
    """Count the systems of each distinct output."""
    counts = Counter(outputs)
    return {text: n for text, n in counts.items() if text is not None}


def _chunk_items(distinct: list[dict[str, int]], chunk_size: int) -> Iterator[slice]:
    """Yield slices of items with about `chunk_size` characters, or as many pairs."""
    start, characters, width = 0, 0, 0
    for i, systems in enumerate(distinct):
        characters += sum(map(len, systems))
        width = max(width, len(systems))
        if i > start and max(characters, (i + 1 - start) * width**2) > chunk_size:
            yield slice(start, i)
            start, characters, width = i, sum(map(len, systems)), len(systems)
    if distinct:
        yield slice(start, len(distinct))


def _mean_over_pairs(distinct: list[dict[str, int]], kind: _SimilarityKind) -> FloatArray:
    """Average over ordered pairs of systems, from similarities of distinct texts."""
    scores = _compare_items([list(systems) for systems in distinct], kind)
    weight = np.zeros(scores.shape[:2])
    for row, systems in zip(weight, distinct, strict=True):
        row[: len(systems)] = list(systems.values())
    everything = np.einsum("ia,iab,ib->i", weight, scores, weight)
    with_itself = np.einsum("ia,iaa->i", weight, scores)
    systems_there = weight.sum(axis=1)
    pairs = systems_there * (systems_there - 1)
    means = np.full(len(distinct), np.nan)
    np.divide(everything - with_itself, pairs, out=means, where=pairs > 0)
    return means


def similarity_to_others(texts: Sequence[Sequence[str | None]]) -> FloatArray:
    """Return the mean similarity (`unigram`) of every output with those of the other systems, items x systems.

    Outputs similar to the others are more often right. NaN for missing outputs and items with a single output.

    >>> similarity_to_others([["a b", "a b", "a c"], ["a b", None, "c"], ["a", None, None]]).tolist()
    [[0.75, 0.75, 0.5], [0.0, nan, 0.0], [nan, nan, nan]]
    """
    width = max(map(len, texts), default=0)
    means = np.full((len(texts), width), np.nan)
    step = max(1, CHUNK_SIZE // max(1, 2 * width))
    for start in range(0, len(texts), step):
        rows = [
            _validate_outputs(item, f"item {start + offset}") for offset, item in enumerate(texts[start : start + step])
        ]
        flat = [text for row in rows for text in [*row, *[None] * (width - len(row))]]
        is_present = np.array([text is not None for text in flat]).reshape(len(rows), width)
        symbols, lengths = _spaced_words([text or "" for text in flat])
        scores = _score_dice(
            clipped_matches(symbols, lengths.reshape(is_present.shape), 1), lengths.reshape(is_present.shape)
        )
        total = np.einsum("iab,ib->ia", scores, is_present.astype(np.float64)) - np.einsum("iaa->ia", scores)
        other_count = is_present.sum(axis=1, keepdims=True) - 1.0
        means[start : start + len(rows)] = np.where(
            is_present & (other_count > 0), total / np.maximum(other_count, 1.0), np.nan
        )
    return means


def _compare_items(items: list[list[str]], kind: _SimilarityKind) -> FloatArray:
    """Compare all texts within each item: items x texts x texts, padded to the widest item."""
    present = np.arange(max(map(len, items), default=0)) < np.array([[len(item)] for item in items])
    lengths = np.zeros(present.shape, dtype=np.int64)
    symbols, lengths[present] = kind.symbols(list(itertools.chain.from_iterable(items)))
    return kind.score(clipped_matches(symbols, lengths, kind.order), lengths)


def _make_numbering() -> defaultdict[str, int]:
    """Return a dict that numbers its keys from 1 in the order of their first look-up."""
    return defaultdict(itertools.count(1).__next__)


@functools.cache
def _load_tokenizer() -> Any:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a  # noqa: PLC0415  (few verbs compare texts)

    return Tokenizer13a()  # type: ignore[no-untyped-call]


class _TokensOfWords(dict[str, tuple[int, ...]]):
    """Numbered tokens of words, computed on first access."""

    def __init__(self) -> None:
        self.number = _make_numbering()

    def __missing__(self, word: str) -> tuple[int, ...]:
        # The tokeniser does not split letters and digits, and it is slow.
        tokens = [word] if word.isalnum() else _load_tokenizer()(word).split()
        self[word] = symbols = tuple(map(self.number.__getitem__, tokens))
        return symbols


def _number_tokens(texts: list[str]) -> _Symbols:
    """Tokenise as mteval-v13a, word by word: its rules cross whitespace only at line breaks after hyphens."""
    tokens_of = _TokensOfWords()
    numbers: list[int] = []
    ends = np.empty(len(texts), dtype=np.int64)
    for i, text in enumerate(texts):
        if "\n" in text and "-" in text:
            numbers.extend(map(tokens_of.number.__getitem__, _load_tokenizer()(text.rstrip()).split()))
        else:
            numbers.extend(itertools.chain.from_iterable(map(tokens_of.__getitem__, text.split())))
        ends[i] = len(numbers)
    return np.array(numbers, dtype=np.int64), np.diff(ends, prepend=0)


def _number_characters(texts: list[str]) -> _Symbols:
    """Number the characters that are not whitespace, in the order of their code points."""
    stripped = ["".join(text.split()) for text in texts]
    lengths = np.fromiter(map(len, stripped), np.int64, len(stripped))
    # A broken surrogate pair counts as a character.
    points = np.frombuffer("".join(stripped).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    occurs = np.zeros(int(points.max(initial=0)) + 1, dtype=np.int64)
    occurs[points] = 1
    return np.cumsum(occurs)[points], lengths


def _score_dice(matches: FloatArray, lengths: IntArray) -> FloatArray:
    """Compute the Dice coefficient as subset2evaluate does: 1 if either text has no words."""
    hypothesis, reference = lengths[:, :, None], lengths[:, None, :]
    scores = np.ones(matches.shape[1:])
    np.divide(2 * matches[0], hypothesis + reference, out=scores, where=(hypothesis > 0) & (reference > 0))
    return scores


def _score_bleu(matches: FloatArray, lengths: IntArray) -> FloatArray:
    """Compute BLEU as sacrebleu's `compute_bleu` does for one sentence, for all pairs.

    Orders longer than the hypothesis are left out; the j-th order without a match counts as 1 / 2^j matches.
    """
    totals = ngram_totals(lengths, len(matches))[..., None]
    missed = (matches == 0) & (totals > 0)
    smoothed = np.where(missed, 0.5 ** np.cumsum(missed, axis=0), matches)
    logs = np.log(np.where(totals > 0, smoothed / np.maximum(totals, 1), 1.0))
    order = np.maximum((totals > 0).sum(axis=0), 1)
    hypothesis, reference = np.maximum(lengths[:, :, None], 1), lengths[:, None, :]
    brevity = np.minimum(1 - reference / hypothesis, 0)
    return np.where(matches[0] > 0, 100 * np.exp(brevity + logs.sum(axis=0) / order), 0.0)


def _score_chrf(matches: FloatArray, lengths: IntArray) -> FloatArray:
    """Compute chrF as sacrebleu's `_compute_f_score` does, for all pairs: F2 of mean precision and mean recall.

    Means are over the orders that neither text is too short for.
    """
    share = 1 / np.maximum(ngram_totals(lengths, len(matches)), 1)
    orders = np.clip(np.minimum(lengths[:, :, None], lengths[:, None, :]), 1, len(matches))
    precision = np.einsum("kiab,kia->iab", matches, share) / orders
    recall = np.einsum("kiab,kib->iab", matches, share) / orders
    weighted = 4 * precision + recall
    scores = np.zeros(weighted.shape)
    np.divide(500 * precision * recall, weighted, out=scores, where=weighted > 0)
    return scores


@dataclass(frozen=True)
class _SimilarityKind:
    """Definition of a similarity: symbols, maximum n-gram order, and score of the matches."""

    symbols: Callable[[list[str]], _Symbols]
    order: int
    score: Callable[[FloatArray, IntArray], FloatArray]


_KINDS: dict[str, _SimilarityKind] = {
    "unigram": _SimilarityKind(word_numbers, 1, _score_dice),
    "bleu": _SimilarityKind(_number_tokens, 4, _score_bleu),
    "chrf": _SimilarityKind(_number_characters, 6, _score_chrf),
}


# -- Post-editing: edit distances between final texts and suggestions --------------------------------------------------


def edit_distances(finals: Sequence[str], outputs: Sequence[str]) -> IntArray:
    """Return character edit distances of final texts to their outputs (needs rapidfuzz).

    >>> edit_distances(["the cat", "caf\u00e9"], ["a cat", "cafe\u0301"]).tolist()
    [3, 0]
    """
    if len(finals) != len(outputs):
        raise OptionError(f"there are {len(finals)} final texts and {len(outputs)} outputs; give one for each")
    process = judge_extra("rapidfuzz.process", "measuring edit distances")
    levenshtein = judge_extra("rapidfuzz.distance", "measuring edit distances").Levenshtein
    if not len(finals):
        return np.zeros(0, dtype=np.int64)
    return np.asarray(
        process.cpdist(_normalise_texts(finals), _normalise_texts(outputs), scorer=levenshtein.distance), dtype=np.int64
    )


def text_lengths(texts: Sequence[str]) -> IntArray:
    """Return the number of characters of each text, as `edit_distances` counts them.

    >>> text_lengths(["", "cafe\u0301"]).tolist()
    [0, 4]
    """
    return np.array([len(text) for text in _normalise_texts(texts)], dtype=np.int64)


def _normalise_texts(texts: Sequence[str]) -> list[str]:
    return [unicodedata.normalize("NFC", text) for text in texts]


def compare_edits(to_first: IntArray, to_second: IntArray) -> IntArray:
    """Return which output needs fewer edits: 1 the first, -1 the second, 0 equal.

    >>> compare_edits(np.array([3, 5, 2]), np.array([4, 1, 2])).tolist()
    [1, -1, 0]
    """
    return np.asarray(np.sign(to_second - to_first), dtype=np.int64)
