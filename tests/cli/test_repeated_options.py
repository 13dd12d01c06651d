"""Options given twice: files of judgments add up, every other second value is refused, nothing is dropped silently."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from tests.cli.conftest import Call
from typer.core import TyperGroup, TyperOption

import aliquot as al
from aliquot.cli.commands import Command
from aliquot.cli.main import VERBS, build_app
from aliquot.errors import OptionError


@dataclass(frozen=True)
class Files:
    """A campaign whose judgments are in one file, and the same in two."""

    data: Path
    whole: Path
    first: Path
    second: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("repeated")
    campaign = al.synthetic(items=40, systems=3, annotators=4, judgments_per_output=2, seed=3)
    assert campaign.judgments is not None
    metrics = {name: campaign.scores[name] for name in campaign.metrics}
    al.save(al.EvalSet(campaign.items, campaign.systems, metrics, campaign.outputs, name="data"), folder / "data.jsonl")
    table = campaign.judgments.table.drop("criterion")
    table.write_csv(folder / "whole.csv")
    table.head(100).write_csv(folder / "first.csv")
    table.tail(-100).rename({"system": "model"}).with_columns(note=pl.lit("late")).write_csv(folder / "second.tsv")
    return Files(*(folder / name for name in ("data.jsonl", "whole.csv", "first.csv", "second.tsv")))


@pytest.mark.parametrize(
    "command",
    [
        ("estimate",),
        ("next", "-n", "5"),
        ("plan", "--draws", "100"),
        ("agreement", "--bootstrap", "0"),
        ("estimate", "--sequential", "--range", "-200,200"),
    ],
)
def test_all_files_of_judgments_count(command: tuple[str, ...], files: Files, aliquot: Call) -> None:
    verb, *options = command
    alone = aliquot(verb, files.data, "-j", files.whole, "--json", *options)
    both = aliquot(verb, files.data, "-j", files.first, "--judgments", files.second, "--json", *options)
    half = aliquot(verb, files.data, "-j", files.second, "--json", *options)
    assert (alone.code, both.code) == (0, 0), both.err
    assert both.json == alone.json
    assert both.out != half.out


def test_judgments_that_other_files_replace_are_told(files: Files, aliquot: Call) -> None:
    note = f"note: {files.whole}: its own 240 judgments do not count beside those of --judgments"
    run = aliquot("estimate", str(files.whole), "-j", str(files.first))
    assert note in " ".join(run.err.split())
    again = aliquot("estimate", str(files.whole), "-j", str(files.whole), "-j", str(files.first))
    assert "do not count" not in again.err
    joined = aliquot("agreement", str(files.whole), "-j", str(files.first), "--bootstrap", "0")
    assert "do not count" not in joined.err


def test_python_takes_a_list_of_judgments(files: Files) -> None:
    parts: list[Any] = [files.first, pl.read_csv(files.second)]
    whole = al.load_judgments(files.whole)
    assert al.load_judgments(parts).table.drop("note", "source").equals(whole.table)
    alone, both = (al.estimate(files.data, judgments=made) for made in (whole, parts))
    assert [row.estimate for row in both.systems] == [row.estimate for row in alone.systems]
    counts = [
        al.Allocator.from_judgments(files.data, made).counts for made in (whole, [str(p) for p in files_of(files)])
    ]
    assert counts[0] == counts[1]
    with pytest.raises(OptionError, match="empty list"):
        al.load_judgments([])


def files_of(files: Files) -> list[Path]:
    return [files.first, files.second]


def test_a_column_must_be_in_one_of_the_files(files: Files, aliquot: Call) -> None:
    half = al.load_judgments(files_of(files), columns={"criterion": "note"})
    assert half.table["criterion"].null_count() == 100
    said = aliquot("estimate", files.data, "-j", files.first, "-j", files.second, "--columns", "criterion=nowhere")
    assert said.code == 2
    assert "nowhere" in said.err


def test_ids_of_two_kinds_meet(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,system,annotator,value\n1,A,ann,3\n")
    (tmp_path / "b.csv").write_text("item,system,annotator,value\nx1,A,ann,4\n")
    both = al.load_judgments([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert both.table.select("item", "value").rows() == [("1", 3.0), ("x1", 4.0)]


def test_choices_of_several_files_add_up(files: Files, tmp_path: Path, aliquot: Call) -> None:
    rows = [
        (i, *pair, "a" if i % 3 else "b", f"ann{i % 2}")
        for i in range(12)
        for pair in (("sys1", "sys2"), ("sys2", "sys3"))
    ]
    table = pl.DataFrame(rows, ["item", "system_a", "system_b", "choice", "annotator"], orient="row")
    for name, part in (("all", table), ("a", table.head(9)), ("b", table.tail(-9))):
        part.write_csv(tmp_path / f"{name}.csv")
    split = ("-j", tmp_path / "a.csv", "-j", tmp_path / "b.csv")
    for command in (("next", files.data, "--unit", "pair", "-n", "4"), ("report", files.data)):
        alone, both = aliquot(*command, "-j", tmp_path / "all.csv", "--json"), aliquot(*command, *split, "--json")
        assert both.code == 0, both.err
        assert both.json == alone.json
    mixed = aliquot("report", files.data, "-j", tmp_path / "a.csv", "-j", files.first)
    assert mixed.code == 2
    assert "give one kind" in mixed.err


def test_a_report_takes_all_files_of_one_test_set(files: Files, aliquot: Call) -> None:
    without = ("--without", "plan,metrics,datasheet,agreement", "--json")
    alone = aliquot("report", files.data, "-j", files.whole, *without)
    both = aliquot("report", files.data, "-j", files.first, "-j", files.second, *without)
    assert (both.code, both.json) == (0, alone.json)
    more = aliquot("report", files.data, files.data, "-j", files.first, "-j", files.second, "-j", files.whole)
    assert more.code == 2
    assert "2 test sets and 3 times --judgments" in more.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("estimate", "{data}", "-m", "mean", "-m", "greg"), "--method/-m is given 2 times"),
        (("estimate", "{data}", "-s", "a.jsonl", "--selection", "b.jsonl"), "--selection/-s is given 2 times"),
        (("select", "{data}", "-b", "20", "-b", "30", "-b", "40"), "is given 3 times and takes one value"),
        (("estimate", "{data}", "--metrics", "A", "--metrics", "B"), "give it once, as --metrics A,B"),
        (("agreement", "{data}", "--trust", "--no-trust"), "--trust is given 2 times"),
        (("datasheet", "new", "{data}", "--protocol", "DA", "--protocol", "ESA"), "--protocol is given 2 times"),
    ],
)
def test_a_second_value_is_refused(arguments: tuple[str, ...], message: str, files: Files, aliquot: Call) -> None:
    said = aliquot(*(files.data if argument == "{data}" else argument for argument in arguments))
    assert said.code == 2
    assert message in said.err
    assert len(said.err.splitlines()) == 1


def test_flags_may_be_repeated(files: Files, aliquot: Call) -> None:
    said = aliquot("estimate", files.data, "-j", files.whole, "--json", "--json", "--pairs", "--pairs")
    assert said.code == 0, said.err


def commands_below(command: Any) -> list[Any]:
    """The command itself, or those of a group, however deep."""
    if not isinstance(command, TyperGroup):
        return [command]
    return [leaf for inner in command.commands.values() for leaf in commands_below(inner)]


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_refuses_and_every_option_of_judgments_repeats(verb: str) -> None:
    root = typer.main.get_command(build_app(verb))
    assert isinstance(root, TyperGroup)
    for each in commands_below(root.commands[verb]):
        assert isinstance(each, Command)
        options = [option for option in each.params if isinstance(option, TyperOption)]
        assert all(option.multiple for option in options if "-j" in option.opts)
