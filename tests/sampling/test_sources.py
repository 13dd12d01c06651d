"""Choosing from sources alone: length, models, functions and columns; files without any system."""

from __future__ import annotations

import json
import warnings
import zlib

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.errors import AliquotWarning, DataError, FormatError, NameUnknownError, OptionError
from aliquot.sampling.learn import learn
from aliquot.sampling.select import select

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "1984"]


def campaign(seed: int, items: int = 120, *, systems: int = 4) -> aliquot.EvalSet:
    """Long sources are hard."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(3, 40))) for _ in range(items)]
    hard = np.array([np.log(len(text.split())) for text in texts])
    scores = {"human": -hard[:, None] + rng.normal(0, 0.2, (items, systems))} if systems else {}
    table = pl.DataFrame({"id": np.arange(items), "source": texts, "guess": hard, "domain": ["news"] * items})
    names = tuple("ABCDEF"[:systems])
    return aliquot.EvalSet(table, names, scores, human="human" if systems else None, name=f"set{seed}")


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.alm"
    learn([campaign(1), campaign(2)]).model.save(path)
    return path


SOURCES = campaign(7, systems=0)


def test_long_sources_come_first():
    chosen = select(SOURCES, "source_length", 10)
    lengths = [len(SOURCES.items["source"][int(at)].split()) for at in chosen.ids]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == max(len(text.split()) for text in SOURCES.items["source"])


def test_length_is_in_characters_in_japanese():
    table = pl.DataFrame({"id": [1, 2], "source": ["これは長い文章ですよね", "four words are here"]})
    assert select(aliquot.EvalSet(table, ()), "source_length", 1).ids == (1,)


def test_a_model_finds_hard_sources(model_file):
    chosen = select(SOURCES, f"source:model={model_file}", 20)
    lengths = np.array([len(text.split()) for text in SOURCES.items["source"]])
    assert lengths[np.array(chosen.ids, dtype=int)].mean() > lengths.mean() + 10
    assert chosen.probability is None


def test_a_column_and_a_function_serve_as_predictors(tmp_path, monkeypatch):
    (tmp_path / "my_models.py").write_text("def hard(sources):\n    return [len(s.split()) for s in sources]\n")
    monkeypatch.chdir(tmp_path)
    by_function = select(SOURCES, "source:predictor=my_models:hard", 15)
    assert set(by_function.ids) == set(select(SOURCES, "source:column=guess", 15).ids)


def test_sizes_of_a_design_may_come_from_a_model(model_file):
    chosen = select(SOURCES, f"pps:size=(source:model={model_file}),tau=0.2", 30, seed=1)
    assert chosen.probability is not None
    lengths = np.array([len(SOURCES.items["source"][int(at)].split()) for at in chosen.ids])
    assert np.corrcoef(lengths, chosen.probability)[0, 1] > 0.5


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (
            "def f(sources):\n    raise RuntimeError('out of memory')\n",
            OptionError,
            "failed .RuntimeError: out of memory",
        ),
        ("def f(sources):\n    return {}['x']\n", OptionError, "failed .KeyError: 'x'"),
        ("raise ValueError('no weights')\n", OptionError, "fails .ValueError: no weights"),
        ("def f(:\n", OptionError, "fails .SyntaxError"),
    ],
)
def test_a_predictor_that_fails_is_named(tmp_path, monkeypatch, code, error, said):
    monkeypatch.chdir(tmp_path)
    name = f"failing_{zlib.crc32(code.encode())}"
    (tmp_path / f"{name}.py").write_text(code)
    with pytest.raises(error, match=said):
        select(SOURCES, f"source:predictor={name}:f", 5)


def test_an_empty_crowd_is_told():
    with pytest.raises(OptionError, match="no system in it"):
        select(campaign(1), "metric_var", 5, crowd=[], metric="human")


@pytest.mark.parametrize(
    ("spec", "error", "said"),
    [
        ("source", OptionError, "give one of model=FILE"),
        ("source:column=guess,predictor=a:b", OptionError, "predictor and column are given"),
        ("source:column=nothing", NameUnknownError, "unknown numeric item column 'nothing'"),
        ("source:column=domain", NameUnknownError, "domain"),
        ("source:predictor=nocolon", OptionError, "module:function"),
        ("source:predictor=no_such_module:f", OptionError, "cannot be imported"),
        ("source:predictor=math:nothing", OptionError, "has no function"),
        ("source:predictor=math:pi", OptionError, "is not a function"),
        ("source:predictor=builtins:len", DataError, "gave an array of shape"),
        ("source:predictor=builtins:list", DataError, "did not give numbers"),
        ("source:model=/nowhere/model.alm", FormatError, "no such file"),
    ],
)
def test_mistakes_are_told(spec, error, said):
    with pytest.raises(error, match=said):
        select(SOURCES, spec, 5)


def test_sources_unlike_the_training_ones_are_told(model_file):
    other = ["Ein ganz anderer Satz über Überraschungen, Größen & Maße!"] * 30
    table = pl.DataFrame({"id": np.arange(30), "source": [f"{text} {at}" for at, text in enumerate(other)]})
    with pytest.warns(AliquotWarning, match=r"look unlike those the model learned from .* compare source_length"):
        select(aliquot.EvalSet(table, ()), f"source:model={model_file}", 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AliquotWarning)
        select(SOURCES, f"source:model={model_file}", 5)


@pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")
def test_empty_and_strange_sources_come_last_or_somewhere(model_file):
    texts = ["", None, " ", "x" * 1_000_000, "שלום עולם", "a\x00b", "日本語 mixed Кириллица", *(["alpha beta"] * 5)]
    table = pl.DataFrame({"id": np.arange(len(texts)), "source": texts})
    data = aliquot.EvalSet(table, ())
    for method in ("source_length", f"source:model={model_file}"):
        assert len(select(data, method, len(texts))) == len(texts)
    assert select(data, f"source:model={model_file}", len(texts)).ids[-2:] in ((0, 1), (1, 0))


def test_a_set_without_sources_is_told():
    bare = aliquot.EvalSet(pl.DataFrame({"id": [1, 2]}), ("A",), {"m": np.zeros((2, 1))})
    for method in ("source_length", "source:column=guess"):
        with pytest.raises(DataError, match="needs source"):
            select(bare, method, 1)


# -- files without systems -----------------------------------------------------------------------------------------


def sources_file(folder, mixed: bool = False):
    path = folder / "sources.jsonl"
    lines = [{"i": at, "src": "word " * (at + 1), "doc": f"d{at // 4}"} for at in range(20)]
    if mixed:
        lines[3]["tgt"] = {"A": "text"}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_sources_alone_are_loaded_when_asked(tmp_path):
    path = sources_file(tmp_path)
    with pytest.raises(FormatError, match="no item has a system"):
        aliquot.load(path)
    data = aliquot.load(path, sources_only=True)
    assert (data.n_items, data.n_systems, data.scores, data.outputs) == (20, 0, {}, None)
    with pytest.raises(FormatError, match="has no systems"):
        aliquot.load(sources_file(tmp_path, mixed=True), sources_only=True)


@pytest.mark.parametrize("method", ["source_length", "pps:size=length", "segments", "auto", "kmeans:model=ngrams"])
def test_methods_that_need_no_output_work_on_sources_alone(tmp_path, method):
    data = aliquot.load(sources_file(tmp_path), sources_only=True)
    chosen = select(data, method, 5)
    assert len(chosen) == 5
    chosen.save(tmp_path / "chosen.jsonl", data)
    assert aliquot.Selection.load(tmp_path / "chosen.jsonl").ids == chosen.ids


def test_methods_that_need_scores_say_so(tmp_path):
    data = aliquot.load(sources_file(tmp_path), sources_only=True)
    with pytest.raises(DataError, match="needs metric"):
        select(data, "metric_avg", 5)


# -- the artificial crowd ------------------------------------------------------------------------------------------


def test_metric_avg_with_a_crowd_is_unfair_to_the_crowd():
    data = aliquot.synthetic(items=40, systems=5, seed=1)
    with pytest.warns(AliquotWarning, match=r"hard for 'sys1', 'sys2'.*disadvantage"):
        select(data, "metric_avg", 10, metric="metricA", crowd=["sys1", "sys2"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", AliquotWarning)
        select(data, "metric_var", 10, metric="metricA", crowd=["sys1", "sys2"])
