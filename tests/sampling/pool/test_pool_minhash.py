"""Min-hashes estimate the similarity of shingle sets, and near duplicates are those a search of all pairs finds."""

from __future__ import annotations

import numpy as np
import polars as pl

from aliquot.sampling.text_vectors import HASHES, SHINGLE, near_duplicates, signatures


def jaccard(a: str, b: str) -> float:
    one, two = ({text[k : k + SHINGLE] for k in range(len(text) - SHINGLE + 1)} for text in (a, b))
    return len(one & two) / len(one | two)


def texts_with_near_copies(seed: int, count: int = 120) -> list[str]:
    rng = np.random.default_rng(seed)
    words = [f"{chr(97 + k % 26)}{k}word" for k in range(300)]
    texts = [" ".join(rng.choice(words, 20)) for _ in range(count)]
    for k in range(0, count, 3):  # every third is a copy of the text before with some words exchanged
        copy = texts[k - 1].split()
        for place in rng.choice(20, rng.integers(0, 5), replace=False):
            copy[place] = str(rng.choice(words))
        texts[k] = " ".join(copy) if k else texts[k]
    return texts


def test_the_share_of_equal_hashes_estimates_the_similarity():
    texts = texts_with_near_copies(0, 600)
    found = signatures(pl.Series(texts))
    pairs = [(k - 1, k) for k in range(3, 600, 3)]
    true = np.array([jaccard(texts[a], texts[b]) for a, b in pairs])
    estimate = np.array([(found[a] == found[b]).mean() for a, b in pairs])
    error = np.sqrt((true * (1 - true) / HASHES).sum()) / len(pairs)
    assert abs((estimate - true).mean()) < 5 * error
    assert np.corrcoef(true, estimate)[0, 1] > 0.8


def test_near_duplicates_are_those_of_a_search_of_all_pairs():
    for seed in range(5):
        found = signatures(pl.Series(texts_with_near_copies(seed)))
        equal = (found[:, None, :] == found[None, :, :]).sum(axis=2)
        earlier = np.tril(equal, -1).max(axis=1) >= np.ceil(0.8 * HASHES)
        marked = near_duplicates(found)
        assert not (marked & ~earlier).any()
        assert marked.sum() >= 0.95 * earlier.sum()


def test_short_empty_and_long_texts_of_any_script():
    texts = pl.Series(["", "   ", "ab", "混ざった文字列です", "混ざった文字列です", "word " * 100_000, None])
    found = signatures(texts)
    assert found.shape == (7, HASHES)
    assert near_duplicates(found).tolist() == [False, True, False, False, True, False, True]
    assert signatures(pl.Series([], dtype=pl.String)).shape == (0, HASHES)
