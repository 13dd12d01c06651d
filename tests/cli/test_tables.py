"""Tables fit the terminal, and every row can be attributed, whatever the width and the names."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from aliquot import save, synthetic
from aliquot.cli.main import run
from aliquot.cli.render import format_view, output_width, shorten_names
from aliquot.core.view import Column, View

WIDTHS = (60, 80, 100, 200)
KINDS = ("number", "count", "share", "p", "interval", "text", "bar")
SYSTEMS = [f"organisation-{i}/a-translation-model-with-a-long-name-{i}-2026-11" for i in range(4)]
names = st.lists(st.text("ab-/é漢", min_size=1, max_size=70), min_size=1, max_size=12, unique=True)


def value_of(kind, _row):
    return {"interval": (0.25, 0.5), "bar": (0.0, 1.0, 2.0), "text": "several words of a text", "count": 1234}.get(
        kind, 0.123456
    )


@st.composite
def views(draw):
    rows = draw(names)
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=14))
    columns = [
        Column(f"column {i}", partial(value_of, kind), kind, rank=draw(st.integers(0, 3)))
        for i, kind in enumerate(kinds)
    ]
    return View("table", rows, (Column("system", lambda row: row, "name"), *columns))


@given(view=views(), width=st.sampled_from((40, *WIDTHS)))
def test_lines_fit_and_every_row_has_its_name(view, width):
    blocks, remarks = format_view(view, width)
    for lines in blocks:
        assert all(cell_len(line) <= width for line in lines), lines
        assert len(lines) > len(view.rows)
    column_count = sum(column.header in " ".join(lines[0] for lines in blocks) for column in view.columns)
    assert column_count == len(view.columns) or "left out" in " ".join(remarks)


@given(texts=names, width=st.integers(9, 60))
def test_shortened_names_stay_apart(texts, width):
    short = shorten_names(texts, width)
    assert len({"".join(each) for each in short}) == len(texts)
    assert all(cell_len(line) <= width for each in short for line in ([each] if isinstance(each, str) else each))


def test_columns_of_high_rank_go_first_and_are_named():
    columns = (Column("system", kind="name"), Column("mean"), *(Column(f"detail {i}", "mean", rank=i) for i in (1, 2)))
    view = View("table", [{"system": "a" * 30, "mean": 0.5}], columns)
    (lines,), remarks = format_view(view, 45)
    assert lines[0].split() == ["system", "mean", "detail", "1"]
    assert remarks == ["left out at 45 characters: detail 2 (a wider terminal, COLUMNS=160 or --json shows all)"]


@pytest.mark.parametrize("width", [60, 133])
def test_width_of_the_environment(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert output_width() == width


def test_a_pipe_has_100_characters(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert output_width() == 100


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    plain = synthetic(items=40, systems=4, annotators=4, judgments_per_output=2, seed=5)
    data = plain.rename(systems=dict(zip(plain.systems, SYSTEMS, strict=True)))
    save(data, folder / "data.jsonl")
    assert run(["select", str(folder / "data.jsonl"), "--budget", "20", "-o", str(folder / "chosen.json")]) == 0
    return folder


VERBS = {
    "inspect": ("data.jsonl",),
    "select": ("data.jsonl", "--budget", "10"),
    "estimate": ("data.jsonl", "--pairs"),
    "plan": ("data.jsonl", "--pairs", "--replays", "5", "--draws", "100"),
    "next": ("data.jsonl", "--count", "5"),
    "agreement": ("data.jsonl", "--full"),
    "clean": ("data.jsonl", "--steps", "duplicates"),
    "metrics": ("data.jsonl",),
    "combine": ("data.jsonl",),
    "compare": ("data.jsonl", "--pairs"),
    "simulate": ("data.jsonl", "--repeats", "3", "--budgets", "20%", "--jobs", "1"),
    "pool": ("data.jsonl", "--budget", "3", "-o", "pool.jsonl"),
    "report": ("data.jsonl", "-o", "report.html"),
    "methods": (),
    "datasheet": ("new", "data.jsonl", "--force", "-o", "sheet.toml"),
    "collect": ("protocols",),
    "demo": ("examples",),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_fits(files, capsys, monkeypatch, verb, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(files)
    capsys.readouterr()
    assert run([verb, *VERBS[verb]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if cell_len(line) > width and not line.startswith("aliquot:")] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_system_has_a_line_of_its_own(files, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(files)
    capsys.readouterr()
    assert run(["estimate", "data.jsonl"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("system")) + 2
    rows = [line.split()[0] for line in lines[start:] if line.startswith("organ")][: len(SYSTEMS)]
    assert len(set(rows)) == len(SYSTEMS)
