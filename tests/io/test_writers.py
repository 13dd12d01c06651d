"""What is written for other tools can be read back by the rules of its format, whatever systems are called."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot.annotation.preference_result import Comparison
from aliquot.cli.main import run
from aliquot.core.statements import Decision, DecisionOutcome
from aliquot.errors import AliquotError, OptionError, OutputError
from aliquot.io.formats.junit import format_junit
from aliquot.io.writers import WRITERS, choose_writer

ODD_NAMES = (
    "a|b",
    "org/model-7b",
    "<b>&amp;",
    'say "hi"',
    "🙂",
    "日本語",
    "a\tb\nc\rd",
    "\x00\x1b",
    "\ufffe",
    "]]>",
    "..",
)
names = st.lists(st.sampled_from(ODD_NAMES) | st.text(min_size=1, max_size=6), min_size=2, max_size=4, unique=True)
XML_TEXT = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


@pytest.fixture(scope="module")
def result():
    return aliquot.estimate(aliquot.synthetic(items=60, systems=4, seed=3))


def rename(result_names):
    data = aliquot.synthetic(items=12, systems=len(result_names), seed=3)
    return aliquot.estimate(data.rename(dict(zip(data.systems, result_names, strict=True))))


# -- which writer --------------------------------------------------------------------------------------------------


def test_names_are_unique_and_endings_mean_one_format():
    for kind in ("data", "selection", "result"):
        writers = [writer for writer in WRITERS if writer.kind == kind]
        endings = [ending for writer in writers for ending in writer.endings]
        assert len({writer.name for writer in writers}) == len(writers)
        assert len(set(endings)) == len(endings)


def test_a_name_does_what_the_ending_does(result, tmp_path):
    for name, ending in (("json", ".json"), ("csv", ".csv"), ("tsv", ".tsv"), ("markdown", ".md"), ("junit", ".xml")):
        result.save(tmp_path / f"x{ending}")
        result.save(tmp_path / "x.out", to=name)
        assert (tmp_path / "x.out").read_bytes() == (tmp_path / f"x{ending}").read_bytes()


DATA = aliquot.synthetic(items=5, systems=2, seed=1)


@pytest.mark.parametrize(
    ("content", "path", "to", "says"),
    [
        ("result", "x", "junitt", r"`to` is 'junitt'; did you mean 'junit'\?"),
        ("result", "x", "wmt", "'wmt', which does not hold this result; choose json, csv"),
        ("result", None, "junit", "`to` is 'junit': name the file"),
        ("result", None, None, "name a path"),
        ("data", "x", "junit", "'junit', which does not hold data; choose jsonl"),
        ("data", "x.xml", None, "unknown ending; use .jsonl"),
        ("description", "x.xml", None, "unknown ending; use .json, .csv"),
        ("description", "x", "junit", "does not hold this result; choose json"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_fits(content, path, to, says, result, tmp_path):
    path = path and tmp_path / path
    write = {"data": partial(aliquot.save, DATA), "result": result.save, "description": DATA.describe().save}[content]
    with pytest.raises(AliquotError, match=says):
        write(path, to=to)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name a path to write to, or a format by --to"),
        (["--to", "parquett"], "--to is 'parquett'; did you mean 'parquet'?"),
        (["--to", "junit"], "--to is 'junit', which does not hold data; choose jsonl, parquet"),
        (["--to", "parquet"], "--to is 'parquet': name the file to write"),
        (["x.xml"], "x.xml: unknown ending; use .jsonl"),
        (["x.jsonl", "--to", "wmt"], "x.jsonl: wmt is a folder of files; name it without an ending"),
        (["x", "--to", "csv:a=b"], "csv has no options; leave 'a' out"),
    ],
)
def test_convert_refuses_before_it_reads(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["convert", "absent.jsonl", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_convert_writes_by_name_what_it_writes_by_ending(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    aliquot.save(DATA, "a.jsonl")
    for name in ("jsonl", "parquet", "csv", "tsv"):
        assert run(["convert", "a.jsonl", f"b.{name}"]) == 0
        assert run(["convert", "a.jsonl", f"{name}.out", "--to", name]) == 0
        assert Path(f"b.{name}").read_bytes() == Path(f"{name}.out").read_bytes()


def test_help_lists_the_names(capsys):
    run(["convert", "--help"])
    printed = capsys.readouterr().out
    assert all(writer.name in printed for writer in WRITERS if writer.kind == "data")


def test_streams_have_the_default_of_their_kind():
    assert choose_writer("result", "-", default=".json").name == "json"
    assert choose_writer("data", "-", default=".jsonl").name == "jsonl"
    assert choose_writer("data", "folder").name == "wmt"


# -- JUnit XML -----------------------------------------------------------------------------------------------------


def read_suite(content: bytes) -> ET.Element:
    """Parse JUnit XML and check the rules of its schema: order, required attributes, counts that add up."""
    root = ET.fromstring(content)  # noqa: S314  (our own)
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    tags = [child.tag for child in suite]
    assert tags == sorted(tags, key=["properties", "testcase", "system-out"].index)
    assert {"name", "tests", "failures", "errors", "skipped", "time"} <= suite.attrib.keys()
    cases = suite.findall("testcase")
    assert int(suite.get("tests", "")) == len(cases)
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(attribute, "")) == len(suite.findall(f"testcase/{tag}"))
    for case in cases:
        assert {"name", "classname", "time"} <= case.attrib.keys()
        assert len(case) == 1
    return suite


def test_every_pair_is_a_case(result, tmp_path):
    result.save(tmp_path / "x.xml")
    suite = read_suite((tmp_path / "x.xml").read_bytes())
    assert suite.get("name") == "aliquot.estimate"
    assert [case.get("name") for case in suite.findall("testcase")] == [f"{row.a} vs {row.b}" for row in result.pairs]
    undecided = [case.get("name") for case in suite.findall("testcase") if case.find("skipped") is not None]
    assert undecided == [f"{row.a} vs {row.b}" for row in result.pairs if not row.p_adjusted < 0.05]
    assert suite.findtext("system-out") == result.verdict
    assert [entry.get("value") for entry in suite.iter("property")] == [result.signature]


def test_published_rule_decides_by_its_own_p():
    data = aliquot.synthetic(items=40, systems=5, seed=9)
    result = aliquot.estimate(data, rule="published")
    assert [d.outcome == "passed" for d in result.decisions()] == [row.p_sample < 0.05 for row in result.pairs]


def test_choices_are_decided_too(tmp_path):
    rows = [("X", "Y", "X")] * 40 + [("Y", "X", "Y")] * 5 + [("Z", "X", "X"), ("X", "Z", "Z")] * 3
    path = tmp_path / "choices.csv"
    lines = [f"{item},{a},{b},{winner}" for item, (a, b, winner) in enumerate(rows)]
    path.write_text("item,system_a,system_b,winner\n" + "\n".join(lines) + "\n")
    result = aliquot.compare(path)
    assert isinstance(result, Comparison)
    result.save(tmp_path / "x.xml")
    suite = read_suite((tmp_path / "x.xml").read_bytes())
    assert [case.get("name") for case in suite.findall("testcase")] == [f"{t.a} vs {t.b}" for t in result.tests]
    assert {decision.outcome for decision in result.decisions()} == {"passed", "undecided"}


@given(names, st.text(max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_text_is_well_formed_xml(systems, message):
    outcomes: tuple[DecisionOutcome, ...] = get_args(DecisionOutcome)
    decisions = [Decision(name, outcomes[n % 3], message) for n, name in enumerate(systems)]
    suite = read_suite(format_junit("s", decisions, signature=message, summary=message))
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [re.sub(XML_TEXT, "\ufffd", name) for name in systems]
    expected = {"passed": "system-out", "failed": "failure", "undecided": "skipped"}
    for decision, case in zip(decisions, cases, strict=True):
        assert case[0].tag == expected[decision.outcome]
        if decision.outcome != "passed":
            assert case[0].get("message") == re.sub(XML_TEXT, "\ufffd", message)


# -- GitHub step summary -------------------------------------------------------------------------------------------


def test_step_summary_is_appended(result, tmp_path, monkeypatch):
    path = tmp_path / "summary.md"
    path.write_text("# Tests\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    result.save(to="github")
    DATA.describe().save(path, to="github")
    text = path.read_text()
    assert text.startswith(f"# Tests\n**{result.verdict}")
    assert all(f"| {row.system} |" in text for row in result.systems)
    assert text.count("<sub>aliquot:") == 2
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    with pytest.raises(OptionError, match="GITHUB_STEP_SUMMARY is not set"):
        result.save(to="github")


@given(names)
@settings(max_examples=25, deadline=None)
def test_step_summary_keeps_its_tables(tmp_path_factory, systems):
    path = Path(tmp_path_factory.mktemp("summary")) / "x.md"
    rename(systems).save(path, to="github")
    table = [line for line in path.read_text().split("\n") if line.startswith("|")]
    assert len(table) == 2 + len(systems)  # a name with a line break or a bar would make other rows or columns
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


def test_step_summary_keeps_to_the_size_that_github_takes(result, tmp_path):
    path = tmp_path / "x.md"
    path.write_text("x" * (2**20 - 600))
    result.save(path, to="github")
    added = path.read_text().lstrip("x")
    assert added.startswith("**")
    assert "| system |" not in added
    assert added.endswith("Tables are left out: GitHub takes 1 MiB.\n")
    assert path.stat().st_size <= 2**20
    path.write_text("x" * 2**20)
    with pytest.raises(OutputError, match="GitHub takes 1 MiB of a step; write to it in another step"):
        result.save(path, to="github")
    assert path.stat().st_size == 2**20


def test_numbers_stay_as_they_were(result, tmp_path):
    """Every format has the same estimates."""
    result.save(tmp_path / "x.json")
    assert np.isfinite([row.value for row in result.means()]).all()
    assert [row.value for row in result.means()] == [row.estimate for row in result.systems]
