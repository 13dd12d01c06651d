"""Model files: data only, whole or refused; predictions that depend on nothing but the source."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import aliquot
from aliquot.errors import DataError, FormatError
from aliquot.sampling import source_model
from aliquot.sampling.learn import learn
from aliquot.sampling.source_model import SourceModel, Trees, apply_trees

STRANGE = [
    "",
    "   ",
    None,
    "a" * 1_000_000,
    "שלום world 日本",
    "\u202eabc\u202c",
    "a\x00\x07\x1b[31m",
    "\ud800",
    "🙂" * 40,
]


def campaign(seed: int, items: int = 150) -> aliquot.EvalSet:
    """Sources of 3 to 40 words; long ones, and those with digits, are hard."""
    import polars as pl

    rng = np.random.default_rng(seed)
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "1984", "2001"]
    texts = [" ".join(rng.choice(words, size=rng.integers(3, 40))) + "." for _ in range(items)]
    hard = np.array([np.log(len(text.split())) + 3 * text.count("1984") / len(text.split()) for text in texts])
    scores = -hard[:, None] + rng.normal(0, 0.3, (items, 4)) + np.array([0.0, 0.1, 0.2, 0.3])
    table = pl.DataFrame({"id": np.arange(items), "source": texts, "domain": rng.choice(["news", "chat"], items)})
    return aliquot.EvalSet(table, ("A", "B", "C", "D"), {"human": scores}, human="human", name=f"past{seed}-en-de")


@pytest.fixture(scope="module")
def model() -> SourceModel:
    return learn([campaign(1), campaign(2), campaign(3)]).model


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "model.alm")
    return tmp_path / "model.alm"


def test_a_model_survives_a_round_trip(model, path):
    again = SourceModel.load(path)
    texts = [*STRANGE, *campaign(4).items["source"].to_list()]
    assert np.array_equal(again.predict(texts), model.predict(texts), equal_nan=True)
    assert np.array_equal(again.unlikeness(texts), model.unlikeness(texts), equal_nan=True)
    assert (again.target, again.kind, again.vocabulary, again.trained_on) == (
        model.target,
        model.kind,
        model.vocabulary,
        model.trained_on,
    )
    assert again.scores == model.scores
    assert again.signature == model.signature
    assert again.to_bytes() == model.to_bytes()


def test_any_way_of_splitting_gives_the_same_numbers(model, monkeypatch):
    texts = campaign(4).items["source"].to_list()
    domains = ["news", "chat"] * 75
    whole = model.predict(texts, pair="en-de", domain=domains)
    monkeypatch.setattr(source_model, "CHUNK", 7)
    assert np.array_equal(model.predict(texts, pair="en-de", domain=domains), whole)
    parts = [model.predict(texts[at : at + 11], pair="en-de", domain=domains[at : at + 11]) for at in range(0, 150, 11)]
    assert np.array_equal(np.concatenate(parts), whole)
    unlike = np.concatenate([model.unlikeness(texts[at : at + 13]) for at in range(0, 150, 13)])
    assert np.array_equal(model.unlikeness(texts), unlike)
    assert np.array_equal(model.assess(texts, pair="en-de", domain=domains)[1], unlike)


def test_strange_sources_have_defined_outcomes(model):
    values = model.predict(STRANGE)
    assert np.isnan(values[0])
    assert np.isnan(values[2])
    assert np.isfinite(np.delete(values, [0, 2])).all()
    unlike = model.unlikeness(STRANGE)
    assert (unlike[4:6] > 1).all()
    assert model.predict([]).shape == model.unlikeness([]).shape == (0,)


def test_sources_like_the_training_ones_are_told_from_others(model):
    assert (model.unlikeness(campaign(9).items["source"].to_list()) > 1).mean() < 0.15
    other = ["Прибор был измерен вчера вечером, и никто не знал почему." for _ in range(5)]
    assert (model.unlikeness(other) > 2).all()


def test_unknown_names_are_no_error(model):
    texts = campaign(4).items["source"].to_list()
    assert np.isfinite(model.predict(texts, pair="xx-yy", domain="never seen")).all()
    with pytest.raises(DataError, match="3 labels of domain for 150 sources"):
        model.predict(texts, domain=["a", "b", "c"])


# -- files that are not models -------------------------------------------------------------------------------------


def test_a_changed_file_is_refused(path):
    raw = bytearray(path.read_bytes())
    raw[-50] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(FormatError, match="damaged or changed"):
        SourceModel.load(path)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(path, kept):
    raw = path.read_bytes()
    path.write_bytes(raw[: int(kept * len(raw))])
    with pytest.raises(FormatError, match="ends too early"):
        SourceModel.load(path)


def test_another_version_is_refused_and_named(path):
    head, _, rest = path.read_bytes().partition(b"\n")
    header = msgspec.json.decode(head) | {"format": 99, "aliquot": "7.1.0"}
    path.write_bytes(msgspec.json.encode(header) + b"\n" + rest)
    with pytest.raises(FormatError, match=r"format 99, made by aliquot 7\.1\.0"):
        SourceModel.load(path)


class Dangerous:
    """Unpickling this would raise; so nothing unpickles it."""

    def __reduce__(self):
        return exec, ("raise SystemExit('code was executed')",)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\x00\x01\x02", b'{"i": 0}\n', pickle.dumps(Dangerous()), b"\xff" * 300]
)
def test_other_files_are_refused(tmp_path, content):
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(FormatError, match="is not a source model"):
        SourceModel.load(file)


def test_a_pickle_inside_is_never_executed(path):
    """A payload with an object array and a right checksum: refused by numpy, not executed."""
    import hashlib
    import io

    buffer = io.BytesIO()
    np.savez(buffer, meta=np.array([Dangerous()], dtype=object), allow_pickle=True)
    payload = buffer.getvalue()
    header = source_model.Header("aliquot source model", 1, "0.1.0", len(payload), hashlib.sha256(payload).hexdigest())
    path.write_bytes(msgspec.json.encode(header) + b"\n" + payload)
    with pytest.raises(FormatError, match="not a usable source model"):
        SourceModel.load(path)


def changed(model: SourceModel, path: Path, arrays: dict[str, np.ndarray], **told: object) -> None:
    """Write the model with other arrays and other words, and a right checksum: made by hand, not damaged."""
    import hashlib
    import io

    payload = model.to_bytes().partition(b"\n")[2]
    stored: dict[str, Any] = dict(np.load(io.BytesIO(payload)))
    meta = msgspec.json.decode(stored["meta"].tobytes()) | told
    buffer = io.BytesIO()
    words = np.frombuffer(msgspec.json.encode(meta), dtype=np.uint8)
    np.savez(buffer, **(stored | arrays | {"meta": words}))
    payload = buffer.getvalue()
    header = source_model.Header("aliquot source model", 1, "0.1.0", len(payload), hashlib.sha256(payload).hexdigest())
    path.write_bytes(msgspec.json.encode(header) + b"\n" + payload)


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"scale": np.zeros(1)}, {}),
        ({"limits": np.zeros(2)}, {}),
        ({"limits": np.ones(3)}, {}),
        ({"limits": np.array(["a", "b"])}, {}),
        ({"limits": np.array([1.0, np.nan])}, {}),
        ({"ngrams": np.zeros((1, 8))}, {}),
        ({"ngrams": np.zeros(7)}, {}),
        ({"memory": np.zeros((1, 8), dtype=np.uint8)}, {}),
        ({"whitening": np.ones(2)}, {}),
        ({}, {"known": None}),
        ({}, {"known": {"domains": [], "from_languages": [], "to_languages": [], "dimensions": 10**12}}),
        ({}, {"scores": 5}),
        ({}, {"trained_on": [["a"]]}),
        ({}, {"embedding": "an/encoder"}),
        ({}, {"target": ["x"]}),
    ],
)
def test_a_model_made_up_by_hand_is_refused_when_it_is_loaded(model, path, arrays, told):
    changed(model, path, arrays, **told)
    with pytest.raises(FormatError, match="not a usable source model"):
        SourceModel.load(path)


@pytest.mark.parametrize("method", [1, 99])
def test_an_archive_of_another_kind_is_refused(path, method):
    """Compression methods that zipfile does not know raise NotImplementedError there."""
    import hashlib

    payload = bytearray(path.read_bytes().partition(b"\n")[2])
    at = payload.rfind(b"PK\x01\x02")
    payload[at + 10] = method
    header = source_model.Header(
        "aliquot source model", 1, "0.1.0", len(payload), hashlib.sha256(bytes(payload)).hexdigest()
    )
    path.write_bytes(msgspec.json.encode(header) + b"\n" + bytes(payload))
    with pytest.raises(FormatError, match="not a usable source model"):
        SourceModel.load(path)


def test_languages_may_be_written_in_several_ways(model):
    texts = campaign(4).items["source"].to_list()
    assert np.array_equal(model.predict(texts, pair="EN_de"), model.predict(texts, pair="en-de"))


def test_an_absent_file_is_told(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        SourceModel.load(tmp_path / "none.alm")


def test_nothing_can_be_changed(model):
    with pytest.raises(ValueError, match="read-only"):
        model.slopes[0] = 1.0
    with pytest.raises(AttributeError):
        model.target = "x"


def test_trees_by_hand():
    """One tree splits at 0.5 and left of it at 0, the other is a leaf of 10."""
    trees = Trees(
        root=np.array([0, 5], dtype=np.int32),
        feature=np.array([0, 0, -1, -1, -1, -1], dtype=np.int32),
        threshold=np.array([0.5, 0.0, 0, 0, 0, 0]),
        left=np.array([1, 3, -1, -1, -1, -1], dtype=np.int32),
        right=np.array([2, 4, -1, -1, -1, -1], dtype=np.int32),
        value=np.array([0, 0, 4.0, 1.0, 2.0, 10.0]),
    )
    assert apply_trees(trees, np.array([[-1.0], [0.0], [0.25], [0.5], [0.75]])).tolist() == [11, 11, 12, 12, 14]
    assert apply_trees(trees, np.zeros((0, 1))).tolist() == []
    with pytest.raises(DataError, match="the trees ask for feature 0; there are 0"):
        apply_trees(trees, np.zeros((2, 0)))
