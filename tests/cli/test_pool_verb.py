"""`aliquot pool` as people type it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.sampling.pool.conftest import records, write_lines, write_rows

from aliquot import Selection, load
from aliquot.cli.main import run
from aliquot.io.journal import journal_path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("pool") / "pool.jsonl", records(300))


def test_it_says_what_was_chosen_within_a_hundred_columns(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "chosen.jsonl"
    assert run(["pool", str(path), "-m", "pps:size=length", "-b", "20", "--jobs", "1", "-o", str(output)]) == 0
    out = capsys.readouterr().out
    assert "20 of 300 sources" in out
    assert "every item had a known probability" in out
    *lines, signature, written = out.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert signature.startswith("aliquot:")
    assert written == f"wrote {output}"
    assert len(Selection.load(output)) == 20
    assert load(output, sources_only=True).items["source"].null_count() < 20
    assert not Path(f"{output}.part").exists()


def test_json_is_one_document_and_the_same_again(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = []
    for _ in range(2):
        assert run(["pool", str(path), "-m", "segments", "-b", "5%", "--seed", "3", "--jobs", "1", "--json"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0] == documents[1]
    assert documents[0]["summary"]["population"] == 300
    assert {"id", "probability", "source"} <= documents[0]["items"][0].keys()


def test_duplicates_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = write_lines(tmp_path / "a.jsonl", [{"i": k, "src": f"text {k // 2}"} for k in range(20)])
    assert run(["pool", str(pool), "-m", "segments", "-b", "4", "--dedup", "exact", "--jobs", "1"]) == 0
    assert "10 of 20 sources repeat an earlier one and were left out" in capsys.readouterr().out


def test_a_table_by_the_ending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = write_rows(tmp_path / "a.parquet", [{"key": f"k{k}", "text": "word " * k} for k in range(1, 30)])
    output = tmp_path / "out.csv"
    columns = ["--columns", "id=key,source=text"]
    assert run(["pool", str(pool), "-m", "source_length", "-b", "3", *columns, "--jobs", "1", "-o", str(output)]) == 0
    assert pl.read_csv(output)["id"].to_list() == ["k29", "k28", "k27"]
    capsys.readouterr()


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = write_lines(tmp_path / "a.jsonl", [{"i": k, "src": "\x1b[31mred\x07 [bold]x[/bold]"} for k in range(3)])
    assert run(["pool", str(pool), "-m", "segments", "-b", "2", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[bold]x[/bold]" in out


def test_an_interrupt_is_told_and_leaves_what_is_done(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, journal: Path, **__: object) -> None:
        journal_path(journal).touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("aliquot.cli.pool.select_pool", interrupted)
    assert run(["pool", str(path), "-m", "segments", "-b", "5", "-o", str(tmp_path / "chosen.jsonl")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: interrupted; ")
    assert "chosen.jsonl.part keeps the finished work: run the same command again to resume" in said


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-m", "metric_var"], "needs outputs or scores"),
        (["-m", "segments", "-b", "0"], "must be above 0"),
        (["-m", "segments", "--engine", "dask://"], "dask://host:port"),
        (["-m", "source:model=nowhere.model"], "no such file"),
        (["-m", "segments", "--columns", "texts=src"], "role"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], text: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pool", str(path), *arguments]) == 2
    said = capsys.readouterr().err
    assert text in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
