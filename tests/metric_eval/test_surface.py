"""Surface metrics: sacrebleu's own numbers, remembered by content, and one line for every mistake."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import polars as pl
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError, MissingExtraError, NameUnknownError, OptionError
from aliquot.metric_eval import score_cache
from aliquot.metric_eval.sacrebleu_scorers import Scorer, parse_compute
from aliquot.metric_eval.surface import surface

OUTPUTS: dict[str, list[str | None]] = {
    "A": ["the cat sat on the mat", "Ein Haus, das steht.", "我喜欢苹果。", "", "half"],
    "B": ["a cat is on a mat .", "das Haus steht", "我爱吃苹果！", "not empty", None],
}
REFERENCES = ["the cat is on the mat", "Ein Haus steht.", "我喜欢吃苹果。", "gone", "half of it"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "cache"))
    score_cache._memory_cache.clear()
    yield tmp_path / "cache"
    score_cache._memory_cache.clear()


@pytest.fixture
def data() -> EvalSet:
    return EvalSet(
        items=pl.DataFrame({"id": range(5), "reference": REFERENCES}),
        systems=("A", "B"),
        outputs=pl.DataFrame(OUTPUTS, schema={"A": pl.String, "B": pl.String}),
        scores={"human": np.arange(10.0).reshape(5, 2)},
        human="human",
        name="texts",
    )


@pytest.mark.parametrize(
    ("spec", "metric", "sign"),
    [
        ("bleu", BLEU(effective_order=True), 1),
        ("bleu:tokenize=zh,lowercase=yes", BLEU(effective_order=True, tokenize="zh", lowercase=True), 1),
        (
            "bleu:tokenize=char,smooth_method=floor,smooth_value=0.5",
            BLEU(effective_order=True, tokenize="char", smooth_method="floor", smooth_value=0.5),
            1,
        ),
        ("bleu:effective_order=no,max_ngram_order=2", BLEU(max_ngram_order=2), 1),
        ("chrf", CHRF(), 1),
        ("chrf:word_order=2,whitespace=yes,beta=3", CHRF(word_order=2, whitespace=True, beta=3), 1),
        ("ter", TER(), -1),
        (
            "ter:normalized=yes,asian_support=yes,case_sensitive=yes",
            TER(normalized=True, asian_support=True, case_sensitive=True),
            -1,
        ),
    ],
)
def test_numbers_and_signatures_are_sacrebleus(data, spec, metric, sign):
    found = surface(data, spec)
    (row,) = found.scores
    values = found.data.scores[spec]
    for at, (reference, texts) in enumerate(zip(REFERENCES, zip(*OUTPUTS.values(), strict=True), strict=True)):
        for column, text in enumerate(texts):
            if text is None:
                assert np.isnan(values[at, column])
            else:
                assert values[at, column] == sign * metric.sentence_score(text, [reference]).score
    assert row.signature == str(metric.get_signature())
    assert row.cells == 9
    assert row.flipped == (sign < 0) == (spec in found.data.flipped)


def test_several_values_are_several_metrics(data):
    found = surface(data, "bleu:tokenize=13a|char,lowercase=yes|no,chrF,TER")
    assert [row.metric for row in found.scores] == [
        "bleu:tokenize=13a,lowercase=yes",
        "bleu:tokenize=13a,lowercase=no",
        "bleu:tokenize=char,lowercase=yes",
        "bleu:tokenize=char,lowercase=no",
        "chrf",
        "ter",
    ]
    assert found.data.metrics == [row.metric for row in found.scores]
    assert data.metrics == []
    assert any("'ter' counts errors and is flipped" in note for note in found.notes)


def test_a_second_time_nothing_is_computed(data, own_cache, monkeypatch):
    first = surface(data, "chrf")
    monkeypatch.setattr(CHRF, "sentence_score", _fails)
    monkeypatch.setattr(CHRF, "get_signature", lambda _: first.scores[0].signature)
    with pytest.raises(RuntimeError, match="computed"):
        CHRF().sentence_score("a", ["a"])
    monkeypatch.setattr("aliquot.metric_eval.surface.make_scorer", lambda *_: Scorer(CHRF(), "first"))
    again = surface(data, "chrf")
    np.testing.assert_array_equal(again.data.scores["chrf"], first.data.scores["chrf"])
    score_cache._memory_cache.clear()  # from the disk
    assert len(list(own_cache.rglob("*.npy"))) == 2
    np.testing.assert_array_equal(surface(data, "chrf").data.scores["chrf"], first.data.scores["chrf"])
    with pytest.raises(RuntimeError, match="computed"):
        surface(data, "chrf", cache=False)
    with pytest.raises(RuntimeError, match="computed"):
        surface(data.drop(items=[0]), "chrf")  # other texts


def _fails(*_: object) -> None:
    raise RuntimeError("computed")


def test_a_system_left_out_costs_nothing_anew(data, own_cache):
    surface(data, "chrf")
    surface(data.drop(systems=["A"]), "chrf")
    assert len(list(own_cache.rglob("*.npy"))) == 2


def test_parameters_are_part_of_the_key(data, own_cache):
    """Neither beta nor the order of n-grams stands in sacrebleu's signature."""
    one, other = surface(data, "chrf:beta=1"), surface(data, "chrf:beta=3")
    assert one.scores[0].signature == other.scores[0].signature
    assert not np.array_equal(one.data.scores["chrf:beta=1"], other.data.scores["chrf:beta=3"], equal_nan=True)
    assert len(list(own_cache.rglob("*.npy"))) == 4


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\x02\x00(("])
def test_a_damaged_cache_is_computed_anew(data, own_cache, damage):
    first = surface(data, "chrf")
    for path in own_cache.rglob("*.npy"):
        path.write_bytes(damage)
    score_cache._memory_cache.clear()
    np.testing.assert_array_equal(surface(data, "chrf").data.scores["chrf"], first.data.scores["chrf"])


def test_a_cache_that_cannot_be_written_is_none(data, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "file"))
    assert surface(data, "chrf").scores[0].cells == 9


def test_without_cache_nothing_is_kept(data, own_cache):
    surface(data, "chrf", cache=False)
    assert not own_cache.exists()
    assert not score_cache._memory_cache


def test_the_reference_itself_is_no_system():
    texts = [f"sentence number {k}" for k in range(12)]
    data = EvalSet(
        items=pl.DataFrame({"id": range(12), "reference": texts}),
        systems=("ref", "other"),
        outputs=pl.DataFrame({"ref": texts, "other": [text.upper() for text in texts]}),
    )
    found = surface(data, "chrf")
    assert np.isnan(found.data.scores["chrf"][:, 0]).all()
    assert np.isfinite(found.data.scores["chrf"][:, 1]).all()
    assert "'ref' is the reference itself" in found.notes[0]


def test_a_score_of_that_name_is_replaced_and_it_is_said(data):
    found = surface(data.with_score("chrf", np.zeros((5, 2))), "chrf")
    assert found.data.scores["chrf"][0, 0] > 0
    assert any("'chrf' was there" in note for note in found.notes)


def test_progress(data):
    told: list[tuple[int, int]] = []
    surface(data, "bleu,chrf", progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("blue", NameUnknownError, "unknown surface metric 'blue'; did you mean 'bleu'"),
        ("bleu:tokenise=zh", NameUnknownError, "no parameter 'tokenise'; did you mean 'tokenize'"),
        ("bleu:tokenize=13b", NameUnknownError, "unknown tokeniser '13b'; did you mean '13a'"),
        ("bleu:lowercase=perhaps", OptionError, "lowercase='perhaps' should be a yes or no"),
        ("bleu:max_ngram_order=0", OptionError, "max_ngram_order=0"),
        ("chrf:word_order=-1", OptionError, "word_order=-1"),
        ("chrf:char_order=many", OptionError, "should be a whole number"),
        ("", OptionError, "nothing to compute is named"),
        ("bleu,bleu", OptionError, "'bleu' is to be computed twice"),
        ("bleu:tokenize", OptionError, "'tokenize' is not key=value"),
    ],
)
def test_what_cannot_be_computed(data, spec, kind, message):
    with pytest.raises(kind, match=message):
        surface(data, spec)


@pytest.mark.skipif(find_spec("MeCab") is not None, reason="the library is there")
def test_a_tokeniser_whose_library_is_missing(data):
    with pytest.raises(MissingExtraError, match=r"'bleu:tokenize=ja-mecab' cannot be computed here: .*pip install"):
        surface(data, "bleu:tokenize=ja-mecab")


def test_no_outputs_or_references(data):
    with pytest.raises(DataError, match="there are no outputs to score"):
        surface(EvalSet(items=data.items, systems=data.systems, scores=dict(data.scores)), "bleu")
    bare = EvalSet(items=data.items.drop("reference"), systems=data.systems, outputs=data.outputs)
    with pytest.raises(DataError, match="there are no references"):
        surface(bare, "bleu")


def test_computed_metrics_are_held_against_people():
    data = aliquot.synthetic(items=60, systems=4, seed=3)
    report = aliquot.metrics(data, compute=["chrf", "bleu:tokenize=none"], parts=["correlations"])
    assert report.metrics == ("metricA", "metricB", "metricC", "chrf", "bleu:tokenize=none")
    assert [row.metric for row in report.computed] == ["chrf", "bleu:tokenize=none"]
    assert "compute:chrf,bleu:tokenize=none" in report.signature
    row = next(r for r in report.correlations if (r.metric, r.level, r.measure) == ("chrf", "pooled", "pearson"))
    human = data.scores["human"].ravel()
    values = surface(data, "chrf").data.scores["chrf"].ravel()
    assert row.value == pytest.approx(float(np.corrcoef(values, human)[0, 1]))


def test_computed_metrics_stand_beside_those_that_are_named():
    data = aliquot.synthetic(items=40, systems=4, seed=3)
    report = aliquot.metrics(data, metrics=["metricB"], compute="chrf", parts=["decomposition"], trials=50)
    assert report.metrics == ("metricB", "chrf")
    both = aliquot.metrics(data, metrics=["chrf", "metricB"], compute="chrf", parts=["decomposition"], trials=50)
    assert both.metrics == ("chrf", "metricB")


def test_specs_are_read_from_texts_and_lists():
    assert parse_compute(["bleu:tokenize=zh", "ter"]) == parse_compute("bleu:tokenize=zh,ter")


# -- several references, a tokeniser of one's own, TER with a cap ------------------------------------------------------


def test_all_references_are_used(data):
    second = ["a cat sat on a mat", None, "我爱苹果。", "not empty", "half"]
    listed = [["the mat", "cats"], [], None, ["gone"], []]
    items = data.items.with_columns(reference_refB=pl.Series(second), refs=pl.Series(listed, dtype=pl.List(pl.String)))
    several = replace(data, items=items)
    found = surface(several, "bleu:references=first|all,ter:references=all")
    assert np.array_equal(
        found.data.scores["bleu:references=first"], surface(data, "bleu").data.scores["bleu"], equal_nan=True
    )
    together: list[list[str]] = [
        [first, *([other] if other else []), *(more or [])]
        for first, other, more in zip(REFERENCES, second, listed, strict=True)
    ]
    peers: tuple[tuple[Any, str, int], ...] = (
        (BLEU(effective_order=True), "bleu:references=all", 1),
        (TER(), "ter:references=all", -1),
    )
    for metric, name, sign in peers:
        for at, system in enumerate("AB"):
            expected = [
                np.nan if text is None else sign * metric.sentence_score(text, list(dict.fromkeys(refs))).score
                for text, refs in zip(OUTPUTS[system], together, strict=True)
            ]
            assert found.data.scores[name][:, at] == pytest.approx(expected, nan_ok=True)
    assert found.scores[1].signature.startswith("nrefs:all|")


def test_references_may_be_json_lists(data):
    """As loaded from a file: SummEval's `refs`."""
    held = pl.Series("refs", [{"json": '["the cat sat on the mat"]'}] + [{"json": None}] * 4)
    found = surface(replace(data, items=data.items.with_columns(held)), "chrf:references=all").data
    assert found.scores["chrf:references=all"][0, 0] == pytest.approx(100)


def test_a_tokeniser_of_ones_own(data):
    """Characters: as sacrebleu's own `char`, by a function and by an importable name."""
    expected = surface(data, "bleu:tokenize=char", cache=False).data.scores["bleu:tokenize=char"]
    found = surface(data, "bleu:tokenizer=mine", tokenizers={"mine": lambda text: list(text.replace(" ", ""))})
    name = "bleu:tokenizer=mine"
    kept = np.isfinite(expected)
    assert found.data.scores[name][kept] == pytest.approx(expected[kept])
    assert found.scores[0].signature.endswith("|own_tok:mine")
    one_word = surface(data, "ter:tokenizer=urllib.parse.quote").data.scores["ter:tokenizer=urllib.parse.quote"]
    assert one_word[:2].tolist() == [[-100, -100], [-100, -100]]  # no blanks: every text is one wrong word


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        ("bleu:tokenizer=no_such_module_here.f", "cannot be imported"),
        ("bleu:tokenizer=string.nothing", "has no 'nothing'"),
        ("bleu:tokenizer=mine", "is not a function; give package.module.function"),
        ("chrf:tokenizer=string.digits", "is not a function"),
        ("ter:cap=0", "choose a score above 0"),
    ],
)
def test_tokenisers_and_caps_that_are_refused(data, compute, message):
    with pytest.raises(OptionError, match=message):
        surface(data, compute)


def test_ter_is_cut_at_the_cap(data):
    free, cut = (surface(data, spec).data.scores[spec] for spec in ("ter", "ter:cap=100"))
    assert (free < -100).any()
    assert np.array_equal(cut, np.maximum(free, -100), equal_nan=True)
