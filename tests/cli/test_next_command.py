"""`inspect` ends with a command that works, whatever it read."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.test_formats_table import MAKERS, ROWS, SYNTHETIC

import aliquot
from aliquot import EvalSet
from aliquot.cli.main import run
from aliquot.io import hub
from aliquot.io.formats.samples import LogSample, build_evalset
from aliquot.io.result_files import encode_json

SHEETS = "filled-in sheets"
READABLE = [name for name, (reading, _) in ROWS.items() if reading and name != SHEETS]


def list_words(name: str) -> list[str]:
    """Return the data, and the options that say how they are read, of the reading command of a row."""
    verb, *words = shlex.split(ROWS[name][0])[1:]
    return words if verb == "inspect" else words[:1]


def inspect(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the next command that `inspect` prints last."""
    capsys.readouterr()
    assert run(["inspect", *words]) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out.splitlines()[-1]
    assert printed.startswith("next: aliquot ")
    return printed.removeprefix("next: ")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub, "locate_source", lambda _: str(tmp_path / "hub.parquet"))
    aliquot.save(SYNTHETIC, tmp_path / "data.jsonl")
    assert run(["select", "data.jsonl", "--method", "random", "--budget", "6", "-o", "selection.jsonl"]) == 0
    return tmp_path


@pytest.mark.parametrize("name", READABLE)
def test_the_next_command_works(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MAKERS[name](folder)
    words = list_words(name)
    command = inspect(words, capsys)
    assert run([*shlex.split(command)[1:]]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["inspect", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["next"] == command


def test_a_sheet_beside_its_key_is_read_by_collect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MAKERS[SHEETS](folder)
    assert run(["inspect", "sheets/ann.csv"]) == 2
    command = capsys.readouterr().err.rpartition("; try: ")[2]
    assert run(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert inspect(["answers.csv"], capsys)


def build(scores: dict[str, Any] | None = None, **parts: Any) -> EvalSet:
    n = 20
    items = pl.DataFrame({"id": list(range(n)), "source": [f"text {i}" for i in range(n)]})
    values = {name: np.array(array, dtype=float) for name, array in (scores or {}).items()}
    return EvalSet(items, ("A", "B"), values, **parts)


RNG = np.random.default_rng(3)
HALF = np.where(np.arange(20)[:, None] < 10, RNG.normal(size=(20, 2)), np.nan)
OUTPUTS = pl.DataFrame({"A": ["x"] * 20, "B": ["y"] * 20})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (build({"human": HALF, "BLEU": RNG.normal(size=(20, 2))}), "estimate"),
        (build({"BLEU": RNG.normal(size=(20, 2))}), "select"),
        (build(outputs=OUTPUTS), "select"),
        (build({"match": np.ones((20, 2))}, outputs=OUTPUTS), "select"),
    ],
)
def test_the_step_fits_the_data(
    data: EvalSet, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("my data.jsonl")
    aliquot.save(data, path)
    command = inspect([str(path)], capsys)
    assert shlex.split(command)[1:3] == [expected, str(path)]
    assert run(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert aliquot.load(path).describe().next_command.startswith(f"aliquot {expected} DATA")


def test_reading_options_are_carried_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own.csv").write_text("id,sys1,sys2\n" + "".join(f"{i},{i},1\n" for i in SYNTHETIC.ids))
    words = ["data.jsonl", "--human", "metricA", "--scores", "own.csv", "--systems", "sys1,sys2"]
    command = inspect([*words, "--read", "lower-is-better=metricB"], capsys)
    assert shlex.split(command)[1:] == ["estimate", *words, "--read", "lower-is-better=metricB"]
    assert run(shlex.split(command)[1:]) == 0, capsys.readouterr().err


def test_choices_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "my choices.csv").write_text("item,rater,a,b,choice\n1,x,A,B,a\n2,y,A,B,b\n")
    assert inspect(["my choices.csv"], capsys) == "aliquot compare 'my choices.csv'"
    assert run(["inspect", "my choices.csv", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["kind"], shown["items"], shown["annotators"]) == ("pairwise", 2, 2)


# -- what is shown ---------------------------------------------------------------------------------------------------


def log() -> EvalSet:
    samples = [
        LogSample(
            system,
            prompt,
            source=f"Prompt {prompt}",
            output="x",
            scores={"match": float(prompt % 2), "my grade": 3.0},
            usage={"cost": 0.25, "seconds": None if draw else 2.0},
        )
        for system in ("A", "B")
        for prompt in range(6)
        for draw in range(3)
    ]
    return build_evalset(samples, "log.json")


def test_unknown_usage_is_no_zero() -> None:
    samples = [LogSample("A", 1, output="x", usage={"cost": 0.25}), LogSample("B", 1, output="y")]
    document = json.loads(encode_json(build_evalset(samples, "log.json").describe().to_dict()))
    assert document["usage"] == {"A": {"cost": 0.25}, "B": {"cost": None}}


def test_logs_show_draws_usage_and_who_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    aliquot.save(log(), tmp_path / "log.jsonl")
    assert run(["inspect", str(tmp_path / "log.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "6 prompts x 3 draws" in shown
    assert "match, my grade. Did people give one? --human match" in shown
    description = log().describe()
    assert [usage.totals for usage in description.usage] == [{"cost": 4.5, "seconds": 12.0}] * 2
    document = description.to_dict()
    assert document["usage"]["A"] == {"cost": 4.5, "seconds": 12.0}
    assert document["draws"] == {"prompts": 6, "fewest": 3, "most": 3}
    assert "what the outputs took" in repr(description) or any(view.name == "usage" for view in description.views())


def test_a_human_score_that_is_named_is_no_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.jsonl"
    aliquot.save(log(), path)
    assert run(["inspect", str(path), "--human", "match"]) == 0
    shown = capsys.readouterr().out
    assert "Did people give one?" not in shown
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("match ")] == ["human"]


def test_several_scores_of_people_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("item,system,mqm,da,BLEU\n1,A,3,4,5\n1,B,4,5,6\n")
    assert run(["inspect", str(tmp_path / "t.csv")]) == 0
    assert "mqm, da: choose one, --human mqm" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["-j", "scores.csv"]])
def test_scores_of_nobody_are_named_with_the_way_to_choose(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "scores.csv").write_text("item,system,match,BLEU\n1,A,3,5\n1,B,4,6\n2,A,3,4\n2,B,2,4\n")
    assert run(["estimate", "scores.csv", *words]) == 2
    message = capsys.readouterr().err
    assert "'match', 'BLEU'" in message
    assert "e.g. --human match" in message
    assert run(["estimate", "scores.csv", *words, "--human", "match"]) == 0


def test_logs_apart_give_the_score_that_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = [LogSample(s, i, output="x", scores={"match": i % 2, "my grade": i}) for s in "AB" for i in range(9)]
    aliquot.save(build_evalset(samples, "log.json"), folder / "log.jsonl")
    assert run(["estimate", "log.jsonl", "-j", "log.jsonl"]) == 2
    assert "the scores 'match', 'my grade'" in capsys.readouterr().err
    assert run(["estimate", "log.jsonl", "-j", "log.jsonl", "--human", "my grade"]) == 0
    judged = aliquot.load_judgments(["log.jsonl"], human="my grade")
    assert judged.table["value"].max() == 8
