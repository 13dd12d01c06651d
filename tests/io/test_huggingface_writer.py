"""A folder for the Hugging Face Hub: its card is valid YAML and Markdown, its tables are the data."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.test_round_trips import evalsets

import aliquot
from aliquot.cli.main import run
from aliquot.core import escape
from aliquot.errors import AliquotError, AliquotWarning

yaml = pytest.importorskip("yaml")


def read_card(folder: Path):
    _, front, body = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(front), body


@pytest.mark.filterwarnings("ignore::aliquot.AliquotWarning")
def test_a_campaign(tmp_path):
    data = aliquot.synthetic(items=30, systems=3, annotators=4, judgments_per_output=2, seed=5)
    path = tmp_path / "campaign"
    aliquot.save(data, path, to="huggingface:license=cc-by-4.0,language=no|de,pretty_name=News: #1,task=translation")
    assert sorted(p.relative_to(path).as_posix() for p in path.rglob("*.*")) == [
        "README.md",
        "data/items.parquet",
        "data/judgments.parquet",
        "data/scores.parquet",
    ]
    front, body = read_card(path)
    assert front == {
        "license": "cc-by-4.0",
        "pretty_name": "News: #1",
        "language": ["no", "de"],  # "no" without quotes is false
        "task_categories": ["translation"],
        "tags": ["human-evaluation", "aliquot"],
        "size_categories": ["n<1K"],
        "configs": [
            {"config_name": "items", "data_files": "data/items.parquet", "default": True},
            {"config_name": "scores", "data_files": "data/scores.parquet"},
            {"config_name": "judgments", "data_files": "data/judgments.parquet"},
        ],
    }
    assert aliquot.load(path / "data" / "items.parquet") == data
    assert aliquot.load(path / "data" / "judgments.parquet").judgments == data.judgments
    scores = pl.read_parquet(path / "data" / "scores.parquet")
    assert scores.height == 30 * 3 * len(data.scores)
    assert "30 items, 3 systems, 4 scores, 180 judgments." in body
    assert "people gave: human. Other scores: metricA, metricB, metricC." in body
    assert data.judgments is not None
    assert f"Annotators: {len(data.judgments.annotators)}. Their ids" in body
    assert "licence" not in body
    assert re.findall(r"\| `(\w+)` \| ([\d,]+) \|", body) == [
        ("items", "30"),
        ("scores", str(scores.height)),
        ("judgments", "180"),
    ]


def test_data_without_scores_and_judgments(tmp_path):
    data = aliquot.EvalSet(
        items=pl.DataFrame({"id": [1]}), systems=("A",), outputs=pl.DataFrame({"A": ["x"]}), name="bare"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aliquot.save(data, tmp_path / "x", to="huggingface")
    front, body = read_card(tmp_path / "x")
    assert [config["config_name"] for config in front["configs"]] == ["items"]
    assert "license" not in front
    assert "language" not in front
    assert "1 item, 1 system." in body
    assert "The licence is not stated." in body
    assert "Annotators" not in body
    assert "people gave" not in body


def test_flipped_scores_are_named(tmp_path):
    data = aliquot.synthetic(items=4, systems=2, seed=1)
    data = data.with_score("TER", np.ones((4, 2)), lower_is_better=True)
    aliquot.save(data, tmp_path / "x", to="huggingface")
    assert "whose sign is changed: TER." in read_card(tmp_path / "x")[1]


@pytest.mark.parametrize(
    ("items", "size"), [(999, "n<1K"), (1000, "1K<n<10K"), (10**7 - 1, "1M<n<10M"), (10**7, "10M<n<100M")]
)
def test_sizes(items, size):
    from aliquot.io.formats.huggingface import CardOptions, format_card

    data = aliquot.synthetic(items=4, systems=2, seed=1)
    assert f'size_categories:\n- "{size}"\n' in format_card(data, {"items": items}, CardOptions())


def test_names_of_people_are_a_note(tmp_path, capsys):
    data = aliquot.synthetic(items=4, systems=2, annotators=2, judgments_per_output=1, seed=1)
    aliquot.save(data, tmp_path / "a.jsonl")
    assert run(["convert", str(tmp_path / "a.jsonl"), str(tmp_path / "x"), "--to", "huggingface"]) == 0
    assert "annotators' ids are written as they are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("huggingface:license=MIT or so", "license is 'MIT or so'; write a code"),
        ("huggingface:language=de| en", "language is ' en'"),
        ("huggingface:licence=mit", "did you mean 'license'"),
        ("huggingfce", "did you mean 'huggingface'"),
    ],
)
def test_wrong_options_are_refused(tmp_path, to, says):
    with pytest.raises(AliquotError, match=says):
        aliquot.save(aliquot.synthetic(items=4, systems=2, seed=1), tmp_path / "x", to=to)
    assert not (tmp_path / "x").exists()


def test_a_folder_with_files_is_not_touched(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "README.md").write_text("mine")
    with pytest.raises(AliquotError, match="holds files already"):
        aliquot.save(aliquot.synthetic(items=4, systems=2, seed=1), tmp_path / "x", to="huggingface")
    assert (tmp_path / "x" / "README.md").read_text() == "mine"


@given(
    st.text() | st.sampled_from(["\ud800", "\ufeff", "\ufffe", "\x85", "\u2028", '"\\', "a\nb: c", "---", "\U0001f642"])
)
@settings(max_examples=200)
def test_yaml_scalars(text):
    assert yaml.safe_load(f"name: {escape.yaml(text)}\n") == {"name": escape.one_line(text)}


@given(data=evalsets())
@settings(max_examples=40, deadline=None)
def test_any_data_round_trip(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("hub") / "x"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        aliquot.save(data, folder, to="huggingface")
    assert aliquot.load(folder / "data" / "items.parquet") == data
    front, _ = read_card(folder)
    assert all((folder / config["data_files"]).exists() for config in front["configs"])
