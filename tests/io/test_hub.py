"""Paths of the Hugging Face Hub, with Polars pointed at local files: the same data as of these files, and one line for
whatever fails."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.io import exports

import aliquot
from aliquot.annotation.preference_result import Comparison
from aliquot.cli.main import run
from aliquot.errors import FormatError
from aliquot.io import hub

DATA = aliquot.synthetic(items=20, systems=3, seed=2, judgments_per_output=2)
URL = "hf://datasets/owner/name/"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the dataset owner/name."""
    monkeypatch.setattr(hub, "locate_source", lambda path: path.replace(URL.rstrip("/"), str(tmp_path)))
    return tmp_path


@pytest.mark.parametrize("name", ["d.parquet", "d.jsonl", "d.jsonl.gz"])
def test_items_are_those_of_the_local_file(folder: Path, name: str) -> None:
    aliquot.save(DATA, folder / name)
    assert aliquot.load(URL + name) == aliquot.load(folder / name)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_tables_are_those_of_the_local_file(folder: Path, name: str) -> None:
    aliquot.save(DATA, folder / name, what="judgments")
    assert aliquot.load_judgments(URL + name) == aliquot.load_judgments(folder / name)
    assert aliquot.load_judgments(Path(URL + name)) == aliquot.load_judgments(folder / name)  # Path makes it hf:/


def test_cells_of_several_lines(folder: Path) -> None:
    (folder / "t.csv").write_text('item,system,output\n1,A,"one\n\n""two"""\n1,B,three\n')
    data = aliquot.load(URL + "t.csv")
    assert data.outputs is not None
    assert data.outputs["A"].to_list() == ['one\n\n"two"']


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_pattern_takes_several_files_for_one(folder: Path, ending: str) -> None:
    for part in range(2):
        rows = {"item": [2 * part, 2 * part + 1], "system": ["A", "A"], "score": [0.5, 0.25]}
        table = pl.DataFrame(rows)
        path = folder / f"part{part}.{ending}"
        writers: dict[str, Callable[[Path], object]] = {"csv": table.write_csv, "parquet": table.write_parquet}
        writers.get(ending, table.write_ndjson)(path)
    data = aliquot.load(f"{URL}*.{ending}")
    assert data.ids == [0, 1, 2, 3]
    assert data.name == "name"


def test_battles_and_their_texts(folder: Path) -> None:
    pl.DataFrame(exports.arena()).write_parquet(folder / "arena.parquet")
    data = aliquot.load(URL + "arena.parquet")
    assert data.outputs is not None
    assert data.outputs["x"][0] == "x answers 0"
    result = aliquot.compare(URL + "arena.parquet")
    assert isinstance(result, Comparison)
    assert result.choices == 6


def test_exports_of_tools_are_recognised(folder: Path) -> None:
    (folder / "humeval.jsonl.gz").write_bytes(gzip.compress(exports.lines(exports.wmt25()).encode()))
    assert aliquot.load(URL + "humeval.jsonl.gz", pair="en-cs").systems == ("A", "B")


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("error sending request for url (https://huggingface.co/datasets/a/404 401)", "cannot be reached"),
        ("HTTP status client error (401 Unauthorized) for url (https://huggingface.co/x)", "set HF_TOKEN for your own"),
        ("HTTP status client error (403 Forbidden) for url (https://huggingface.co/x)", "set HF_TOKEN for your own"),
        ("HTTP status client error (404 Not Found) for url (https://huggingface.co/x)", "there is no such file"),
        ("expanded paths were empty (path expansion input: 'paths: [\"hf://x\"]')", "there is no such file"),
        ("invalid Hugging Face path: hf://a", "write hf://datasets/OWNER/NAME/FILE"),
        ("parquet: something odd\n" + "at a place\n" * 50, r"cannot be read from the Hub \(parquet: something odd\)$"),
    ],
)
def test_what_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, message: str, answer: str) -> None:
    def fail(_: str) -> str:
        raise pl.exceptions.ComputeError(message)

    monkeypatch.setattr(hub, "locate_source", fail)
    with pytest.raises(FormatError, match=answer) as caught:
        aliquot.load(URL + "a.parquet")
    assert str(caught.value).startswith(f"{URL}a.parquet: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_other_endings(folder: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        aliquot.load(URL + "none.parquet")
    with pytest.raises(FormatError, match=r"name a file on the Hub that ends in \.parquet"):
        aliquot.load(f"{URL}a.xlsx")
    assert not list(folder.iterdir())


def test_the_token_of_the_environment_is_given_to_polars(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    scan = pl.scan_parquet

    def scan_and_keep(path: str, storage_options: dict[str, str]) -> pl.LazyFrame:
        given.append(storage_options)
        return scan(path)

    monkeypatch.setattr(pl, "scan_parquet", scan_and_keep)
    aliquot.save(DATA, folder / "d.parquet")
    for token in ("secret", ""):
        monkeypatch.setenv(hub.TOKEN, token)
        aliquot.load(URL + "d.parquet")
    assert given == [{"token": "secret"}, {}]


@pytest.mark.parametrize(
    "command",
    [
        "inspect {}d.parquet",
        "estimate {}d.parquet",
        "estimate {}d.parquet -j {}j.csv",
        "select {}d.parquet --budget 4 --method random -o s.jsonl",
        "report {}d.parquet -o r.html",
        "compare {}d.parquet",
        "convert {}d.parquet d.jsonl",
        "inspect {}d.parquet --scores {}s.csv",
    ],
)
def test_commands(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    aliquot.save(DATA, folder / "d.parquet")
    aliquot.save(DATA, folder / "j.csv", what="judgments")
    aliquot.save(DATA, folder / "s.csv")
    monkeypatch.chdir(folder)
    assert run(command.replace("{}", URL).split()) == 0, capsys.readouterr().err
    assert capsys.readouterr().out


def test_pool_names_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pool", f"{URL}p.csv", "--budget", "4", "-o", "o.csv"]) == 2
    assert f"{URL}p.csv: only a file on a disk is read here" in capsys.readouterr().err
