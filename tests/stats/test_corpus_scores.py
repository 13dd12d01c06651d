"""Corpus scores from sums: sacrebleu's own numbers, and who is ahead in all draws."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from aliquot.errors import OptionError
from aliquot.stats.corpus_scores import corpus_bleu, corpus_chrf, corpus_sign_counts, corpus_ter

WORDS = ("a", "the", "cat", "sat", "on", "mat", "!", "Haus", "我", "喜欢")
SENTENCE = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
CORPUS = st.lists(st.tuples(SENTENCE, SENTENCE, SENTENCE), min_size=1, max_size=5)
CASES: dict[str, tuple[Any, Any]] = {
    "bleu": (BLEU(force=True), corpus_bleu),
    "bleu effective": (BLEU(force=True, effective_order=True), lambda sums: corpus_bleu(sums, effective=True)),
    "bleu floor": (
        BLEU(force=True, smooth_method="floor", smooth_value=0.3),
        lambda sums: corpus_bleu(sums, smooth="floor", smooth_value=0.3),
    ),
    "bleu add-k": (BLEU(force=True, smooth_method="add-k"), lambda sums: corpus_bleu(sums, smooth="add-k")),
    "bleu none": (BLEU(force=True, smooth_method="none"), lambda sums: corpus_bleu(sums, smooth="none")),
    "bleu 2": (BLEU(force=True, max_ngram_order=2), lambda sums: corpus_bleu(sums, order=2)),
    "chrf": (CHRF(), corpus_chrf),
    "chrf++": (CHRF(word_order=2, beta=3), lambda sums: corpus_chrf(sums, beta=3)),
    "chrf eps": (CHRF(eps_smoothing=True), lambda sums: corpus_chrf(sums, eps_smoothing=True)),
    "ter": (TER(), corpus_ter),
}


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=60)
@given(corpus=CORPUS)
def test_scores_are_those_of_sacrebleu(case, corpus):
    metric, ours = CASES[case]
    texts, references = [row[0] for row in corpus], [[row[1] for row in corpus], [row[2] for row in corpus]]
    statistics = np.array(metric._extract_corpus_statistics(texts, references), dtype=float)
    expected = metric.corpus_score(texts, references).score
    assert float(ours(statistics.sum(axis=0))) == pytest.approx(expected, abs=1e-9)
    assert ours(np.stack([statistics.sum(axis=0)] * 2)).shape == (2,)


def test_signs_are_those_of_all_draws():
    """Three items, 27 draws: the ratio of sums, not the mean of ratios."""
    edits = np.array([[[1.0, 10], [0, 10]], [[1, 2], [1, 1]], [[0, 6], [3, 7]]])

    def wins(draw: tuple[int, ...]) -> float:
        rate = [edits[list(draw), s, 0].sum() / edits[list(draw), s, 1].sum() for s in (0, 1)]
        return float(0.5 + 0.5 * np.sign(round(rate[1] - rate[0], 12)))

    expected = np.mean([wins(draw) for draw in product(range(3), repeat=3)])
    found = corpus_sign_counts([edits], [lambda sums: -corpus_ter(sums)], 20_000, seed=1).share_ahead()
    assert found[0, 0] == pytest.approx(expected, abs=0.012)


def test_missing_texts_and_mismatches():
    edits = np.array([[[1.0, 10], [0, 10], [np.nan, np.nan]]])
    assert np.isnan(corpus_sign_counts([edits], [corpus_ter], 10).share_ahead()[0]).tolist() == [False, True, True]
    with pytest.raises(OptionError, match="1 statistics and 0 scores"):
        corpus_sign_counts([edits], [], 10)
