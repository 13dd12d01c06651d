"""Datasets of Inspect: what `json_dataset` needs of each line, of selections and of data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.io.inspect_files import encode, log, sample

import aliquot
from aliquot.cli.main import run
from aliquot.core.selection import Selection
from aliquot.errors import OptionError

DATA = aliquot.synthetic(items=8, systems=2, seed=4)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    aliquot.save(DATA, tmp_path / "data.jsonl")
    return tmp_path


def test_the_chosen_items_are_samples_in_their_order(tmp_path: Path) -> None:
    chosen = aliquot.select(DATA, "random", 3, seed=1)
    chosen.save(tmp_path / "chosen.jsonl", DATA, to="inspect")
    samples = read_lines(tmp_path / "chosen.jsonl")
    rows = {row["id"]: row for row in DATA.items.to_dicts()}
    assert [line["id"] for line in samples] == list(chosen.ids)
    for line in samples:
        row = rows[line["id"]]
        others = {name: row[name] for name in row if name not in ("id", "source", "reference")}
        assert line == {"input": row["source"], "target": row["reference"], "id": row["id"], "metadata": others}


def test_select_and_convert_write_the_same(folder: Path) -> None:
    select = ["select", "data.jsonl", "--method", "random", "--budget", "3", "-o"]
    assert run([*select, "a.jsonl", "--to", "inspect"]) == 0
    assert run([*select, "selection.jsonl"]) == 0
    assert run(["convert", "selection.jsonl", "b.jsonl", "--to", "inspect"]) == 0
    assert len(read_lines(folder / "a.jsonl")) == 3
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()


def test_items_without_systems_will_do(folder: Path) -> None:
    (folder / "sources.jsonl").write_text('{"i": "a", "src": "one?"}\n{"i": "b", "src": "two?", "choices": ["x"]}\n')
    assert run(["convert", "sources.jsonl", "out.jsonl", "--to", "inspect"]) == 0
    first, second = read_lines(folder / "out.jsonl")
    assert first == {"input": "one?", "target": "", "id": "a", "metadata": {}}
    assert second["choices"] == ["x"]


def test_draws_of_a_prompt_are_one_sample(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_bytes(encode(log([sample(i, e) for i in (1, 2) for e in (1, 2)])))
    aliquot.save(aliquot.load(tmp_path / "log.json"), tmp_path / "out.jsonl", to="inspect")
    assert [line["id"] for line in read_lines(tmp_path / "out.jsonl")] == ["1", "2"]


def test_without_sources_words_say_so(tmp_path: Path) -> None:
    chosen = aliquot.select(DATA, "random", 3, seed=1)
    with pytest.raises(OptionError, match="holds the texts of the chosen items; give the data"):
        chosen.save(tmp_path / "x.jsonl", to="inspect")
    scores = aliquot.EvalSet.from_frame(pl.DataFrame({"item": [7], "system": ["A"], "score": [1.0]}))
    with pytest.raises(OptionError, match=r"1 of 1 items have no source \('7'\)"):
        aliquot.save(scores, tmp_path / "x.jsonl", to="inspect")
    assert list(tmp_path.iterdir()) == []


# -- selections by ending and by name ------------------------------------------------------------------------------


def test_a_selections_ending_or_name_is_its_format(folder: Path) -> None:
    chosen = aliquot.select(DATA, "random", 3, seed=1)
    for name in ("csv", "tsv", "parquet", "jsonl"):
        chosen.save(folder / f"x.{name}")
        chosen.save(folder / "x.out", to=name)
        assert (folder / f"x.{name}").read_bytes() == (folder / "x.out").read_bytes()
    chosen.save(folder / "x")
    assert Selection.load(folder / "x") == Selection.load(folder / "x.jsonl")
    chosen.save(folder / "ids.txt", to="ids")
    assert (folder / "ids.txt").read_text().split() == [str(item) for item in chosen.ids]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-o", "x.foo"], "x.foo: unknown ending; use .jsonl"),
        (["-o", "x.jsonl", "--to", "junit"], "--to is 'junit', which does not hold selections; choose jsonl"),
        (["-o", "x.jsonl", "--to", "inspekt"], "did you mean 'inspect'?"),
        (["--to", "inspect"], "name the file to write"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_work(
    folder: Path, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["select", "data.jsonl", "--budget", "3", *options]) != 0
    assert says in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["data.jsonl"]
