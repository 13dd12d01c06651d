"""`aliquot datasheet` as people type it."""

from __future__ import annotations

import json
import tomllib

import polars as pl
import pytest

import aliquot
from aliquot.cli.main import run, subcommands
from aliquot.report.datasheet import check, diff, load, new, render

COMMANDS = ("new", "check", "render", "diff", "copy")


@pytest.fixture
def data(tmp_path):
    campaign = aliquot.synthetic(items=40, systems=3, annotators=4, judgments_per_output=2, seed=3)
    aliquot.save(campaign, tmp_path / "data.jsonl")
    return str(tmp_path / "data.jsonl")


@pytest.fixture
def sheet(data, tmp_path, call):
    path = tmp_path / "sheet.toml"
    call("new", data, "--criteria", "mqm,fluency", "-o", path)
    return path


@pytest.fixture
def call(capsys):
    """Run a subcommand and return what it prints; it must end with the code given."""

    def run_it(*arguments: object, code: int = 0) -> str:
        assert run(["datasheet", *map(str, arguments)]) == code
        said = capsys.readouterr()
        return str(said.out if code != 2 else said.err)

    return run_it


def test_subcommands():
    assert subcommands("datasheet") == list(COMMANDS)
    assert subcommands("inspect") == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_has_help_with_an_example(name, call):
    assert f"Example: aliquot datasheet {name}" in " ".join(call(name, "--help").split())


def test_help_on_the_verb_lists_them(call):
    text = call("--help")
    assert all(name in text for name in COMMANDS)
    assert call() == text
    assert "did you mean" in call("chek", code=2).casefold()


def test_errors_point_to_the_help_of_the_subcommand(call):
    assert "(see `aliquot datasheet check --help`)" in call("check", code=2)


def test_new_is_what_the_library_gives(data, tmp_path, call, capsys):
    selection = tmp_path / "selection.jsonl"
    estimates = tmp_path / "estimate.json"
    assert run(["select", data, "--budget", "50%", "-o", str(selection)]) == 0
    assert run(["estimate", data, "-s", str(selection), "-o", str(estimates)]) == 0
    capsys.readouterr()
    path = tmp_path / "sheet.toml"
    text = call("new", data, "-s", selection, "-r", estimates, "-o", path)
    evalset, chosen = aliquot.load(data), aliquot.Selection.load(selection)
    expected = new(evalset, selection=chosen, results=[estimates])
    assert load(path) == expected
    assert "3.1.1 Outputs per system" in text
    assert expected.signature in text
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 100


def test_new_never_replaces_a_file(sheet, data, call):
    before = sheet.read_text()
    call("new", data, "-o", sheet, code=1)
    assert sheet.read_text() == before
    call("new", data, "-o", sheet, "--force")
    assert sheet.read_text() != before


def test_new_as_json_is_a_sheet(data, tmp_path, call):
    document = call("new", data, "--json")
    (tmp_path / "sheet.json").write_text(document)
    assert load(tmp_path / "sheet.json") == new(aliquot.load(data))


def test_a_blank_sheet_with_criteria(tmp_path, call):
    call("new", "--criteria", "fluency,coherence", "-o", tmp_path / "blank.toml")
    assert [c["name"] for c in tomllib.loads((tmp_path / "blank.toml").read_text())["criterion"]] == [
        "fluency",
        "coherence",
    ]


def test_new_with_judgments_and_range(data, tmp_path, call):
    assert run(["convert", data, str(tmp_path / "judgments.csv"), "--what", "judgments"]) == 0
    call("new", data, "-j", tmp_path / "judgments.csv", "--range=-25,0", "-o", tmp_path / "sheet.toml")
    people = aliquot.load(data).judgments.annotators  # type: ignore[union-attr]
    assert load(tmp_path / "sheet.toml").answer("3.2.1").text == str(len(people))
    assert "write LOW,HIGH" in call("new", data, "--range", "5", code=2)
    pl.DataFrame({"item": [0], "system": ["sys1"], "A": [1.0], "B": [2.0]}).write_csv(tmp_path / "scores.csv")
    assert "no judgments in it" in call("new", data, "-j", tmp_path / "scores.csv", code=2)


def test_check_of_an_incomplete_sheet(sheet, call):
    text = call("check", sheet, code=1)
    assert "Not answered" in text
    assert "not complete" in text
    assert max(map(len, text.splitlines())) <= 100
    document = json.loads(call("check", sheet, "--json", code=1))
    assert document == check(load(sheet)).to_dict()
    assert not document["complete"]


def test_check_of_a_complete_sheet(complete, tmp_path, call):
    complete.save(tmp_path / "sheet.toml")
    assert "complete" in call("check", tmp_path / "sheet.toml", "-o", tmp_path / "findings.csv")
    assert pl.read_csv(tmp_path / "findings.csv").height == 0


def test_check_shows_broken_rules_first(complete, tmp_path, call):
    complete.with_answer("3.2.1", "[bold]many").with_answer("5.1", "").save(tmp_path / "sheet.toml")
    text = call("check", tmp_path / "sheet.toml", code=1)
    assert text.index("Rules broken (1)") < text.index("Not answered (1)")
    assert "'[bold]many' is not a whole number" in " ".join(text.split())


@pytest.mark.parametrize(("ending", "form"), [("md", "markdown"), ("tex", "latex"), ("html", "html")])
def test_render(sheet, tmp_path, call, ending, form):
    call("render", sheet, "-o", tmp_path / f"sheet.{ending}")
    assert (tmp_path / f"sheet.{ending}").read_text() == render(load(sheet), form)
    assert call("render", sheet, "--format", form, "--full", "--fragment") == render(
        load(sheet), form, full=True, fragment=True
    )


def test_render_defaults_and_mistakes(sheet, tmp_path, call):
    assert call("render", sheet) == render(load(sheet))
    assert "names no format" in call("render", sheet, "-o", tmp_path / "sheet.docx", code=2)
    assert "did you mean 'html'" in call("render", sheet, "--format", "htm", code=2)


def test_diff(complete, tmp_path, call):
    other = complete.with_answer("3.2.1", "99")
    complete.save(tmp_path / "original.toml")
    other.save(tmp_path / "again.toml")
    text = call("diff", tmp_path / "original.toml", tmp_path / "again.toml")
    assert "~ 3.2.1 Number of annotators" in " ".join(text.split())
    assert "43 alike, 1 changed" in text
    assert "3.1.1" in call("diff", tmp_path / "original.toml", tmp_path / "again.toml", "--all")
    document = json.loads(call("diff", tmp_path / "original.toml", tmp_path / "again.toml", "--json"))
    assert document == diff(load(tmp_path / "original.toml"), load(tmp_path / "again.toml")).to_dict()
    call("diff", tmp_path / "original.toml", tmp_path / "again.toml", "-o", tmp_path / "diff.csv")
    assert pl.read_csv(tmp_path / "diff.csv").height == 45
    assert "write ORIGINAL=REPRODUCTION" in call(
        "diff", tmp_path / "original.toml", tmp_path / "again.toml", "--match", "fluency", code=2
    )


def test_copy_writes_into_the_sheet(complete, tmp_path, call):
    path = tmp_path / "sheet.toml"
    two = new(criteria=["fluency", "coherence", "style"])
    for number, answer in complete.criterion("fluency").answers.items():
        value = answer.chosen or answer.text
        two = two.with_answer(number, value, criterion="fluency")
    two.save(path)
    text = call("copy", path, "--source", "fluency")
    assert "fluency -> coherence: 4.2.1, 4.2.2" in text
    assert load(path).answer("4.3.4", "coherence").text == "1-5"
    assert not load(path).answer("4.3.7", "coherence").given
    again = call("copy", path, "--source", "fluency", "--targets", "coherence")
    assert "fluency -> coherence: nothing" in again
    assert "style" not in again  # it was not asked for
    call("copy", path, "--source", "fluency", "--questions", "4.3.7", "-o", tmp_path / "other.toml")
    assert load(tmp_path / "other.toml").answer("4.3.7", "coherence").text == "How fluent?"
    assert not load(path).answer("4.3.7", "coherence").given
    assert "unknown criterion 'x'" in call("copy", path, "--source", "x", code=2)


def test_copy_keeps_what_people_wrote(sheet, call, capsys):
    sheet.write_text("# mine\n" + sheet.read_text())
    before = sheet.read_text()
    assert run(["datasheet", "copy", str(sheet), "--source", "mqm"]) == 1
    assert "1 comment of yours would be lost" in capsys.readouterr().err
    assert sheet.read_text() == before
    call("copy", sheet, "--source", "mqm", "--force")
    assert load(sheet).answer("4.3.9", "fluency").given


def test_broken_sheets_are_one_line(tmp_path, call):
    (tmp_path / "bad.toml").write_text('[paper]\n"1.1" = x\n')
    for command in ("check", "render"):
        said = call(command, tmp_path / "bad.toml", code=2)
        assert said.startswith("error: ")
        assert "line 2" in said
        assert said.count("\n") == 1
