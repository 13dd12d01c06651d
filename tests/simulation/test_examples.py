"""Examples: every command that is written works, on files that are what they say."""

from __future__ import annotations

import shlex
from pathlib import Path

import polars as pl
import pytest

import aliquot
from aliquot.cli.main import VERBS, run
from aliquot.errors import AliquotError
from aliquot.simulation.examples import COMMANDS, EXAMPLES, examples


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name in EXAMPLES:
        made[name] = tmp_path_factory.mktemp("examples") / name
        aliquot.examples(name, made[name])
    return made


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_command_works(name, folders, monkeypatch, capsys):
    monkeypatch.chdir(folders[name])
    written = [line for line in Path(COMMANDS).read_text().splitlines() if line and not line.startswith("#")]
    assert written == list(examples(name)[0].commands)
    for command in written:
        program, verb, *_ = shlex.split(command)
        assert (program, verb in VERBS) == ("aliquot", True)
        assert run(shlex.split(command)[1:]) == 0, f"{command}\n{capsys.readouterr().err}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_files_are_the_same_for_the_same_seed(name, folders, tmp_path):
    (example,) = aliquot.examples(name, tmp_path / name)
    for file in (*example.files, COMMANDS):
        assert (tmp_path / name / file).read_bytes() == (folders[name] / file).read_bytes()
    aliquot.examples(name, tmp_path / "other", seed=1)
    first = next(iter(example.files))
    assert (tmp_path / "other" / first).read_bytes() != (folders[name] / first).read_bytes()


def test_the_files_are_what_they_say(folders):
    data = aliquot.load(folders["mqm"] / "data.jsonl")
    assert data.human is None
    assert len(data.metrics) == 3
    ratings = aliquot.load(folders["summarisation"] / "data.jsonl")
    assert ratings.judgments is not None
    assert sorted(ratings.judgments.criteria) == ["coherence", "consistency", "fluency", "relevance"]
    assert ratings.judgments.table["value"].is_between(1, 5).all()
    choices = pl.read_csv(folders["chat"] / "choices.csv")
    assert set(choices["choice"]) == {"a", "b", "tie"}
    assert (choices["system_a"] != choices["system_b"]).all()


def test_cleaning_the_crowd_finds_the_careless_and_agreement_rises(folders):
    data = aliquot.load(folders["crowd"] / "data.jsonl")
    cleaned = aliquot.clean(data, steps="speeders:share=0.4+straight_liners")
    marked = cleaned.judgments.table.filter(pl.col("marked").is_not_null())["annotator"].unique().sort().to_list()
    assert marked == ["a04", "a11", "a17"]
    before, after = (aliquot.agreement(each, bootstrap=0, trust=False)["alpha"] for each in (data, cleaned.evalset))
    assert after > before + 0.1


def test_the_verb_lists_and_writes(tmp_path, capsys):
    assert run(["demo", "examples"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in EXAMPLES)
    assert run(["demo", "examples", "chat", "-o", str(tmp_path / "chat")]) == 0
    assert (tmp_path / "chat" / COMMANDS).exists()
    assert run(["demo", "examples", "caht"]) == 2
    assert "did you mean 'chat'" in capsys.readouterr().err


def test_what_is_there_is_not_overwritten(tmp_path):
    aliquot.examples("chat", tmp_path)
    with pytest.raises(AliquotError, match="already"):
        aliquot.examples("chat", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(AliquotError, match="is a file"):
        aliquot.examples("chat", tmp_path / "file")
    with pytest.raises(AliquotError, match="name the example"):
        aliquot.examples(output=tmp_path)
