"""Judgments of several files: where each is from, copies, contradictions, scales."""

from __future__ import annotations

import shlex
import warnings
from pathlib import Path

import polars as pl
import pytest

import aliquot
from aliquot import AliquotWarning, load_judgments
from aliquot.annotation.preference_result import Comparison
from aliquot.cli.main import run
from aliquot.errors import OptionError
from aliquot.io.judgment_sources import name_sources

HEADER = "item,system,annotator,value"
MONDAY = ("1,A,ann,3", "1,A,bob,4", "1,B,ann,4")
TUESDAY = ("1,A,ann,5", "1,A,bob,4", "2,B,ann,4")


def write(path: Path, *rows: str, header: str = HEADER) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def load_silently(*paths: object) -> pl.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_judgments(list(paths)).table  # type: ignore[arg-type]


def test_rows_keep_the_name_of_their_file_and_their_order(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", *MONDAY)
    second = write(tmp_path / "b.csv", "2,A,ann,1", "2,A,bob,2")
    both = load_silently(first, second)
    assert both["source"].to_list() == ["a.csv"] * 3 + ["b.csv"] * 2
    assert both["value"].to_list() == [3, 4, 4, 1, 2]
    assert load_silently(first, pl.read_csv(second))["source"].unique(maintain_order=True).to_list() == [
        "a.csv",
        "table 2",
    ]
    assert "source" not in load_silently(first).columns


def test_names_are_the_shortest_that_differ() -> None:
    assert name_sources(["x/1/j.csv", "y/1/j.csv", "y/2/j.csv"]) == ["x/1/j.csv", "y/1/j.csv", "2/j.csv"]
    assert name_sources(["j.csv", Path("y/j.csv"), "j.csv"]) == ["j.csv", "y/j.csv", "j.csv"]
    assert "secret" not in name_sources(["postgresql://me:secret@host/db", "postgresql://me:secret@other/db"])[0]


def test_copies_count_once_and_contradictions_are_told(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.csv", *MONDAY), write(tmp_path / "b.csv", *TUESDAY)]
    with pytest.warns(AliquotWarning) as told:
        both = load_judgments(paths)
    (note,) = (str(warning.message) for warning in told)
    assert note == (
        "judgments of 'a.csv', 'b.csv': 1 row is a copy of a row in another file and counts once, e.g. item 1, A, bob; "
        "1 answer of one annotator differs between files, e.g. item 1, A, ann: 3 in a.csv, 5 in b.csv; "
        "their mean counts"
    )
    assert both.table["source"].to_list() == ["a.csv", "a.csv", "a.csv", "b.csv", "b.csv"]
    means = {(item, system): value for item, system, value in both.cell_means().rows()}
    assert means == {(1, "A"): 4.0, (1, "B"): 4.0, (2, "B"): 4.0}


def test_a_later_answer_and_answers_without_a_name_are_no_copies(tmp_path: Path) -> None:
    header = f"{HEADER},time"
    first = write(tmp_path / "a.csv", "1,A,ann,3,2026-01-01", header=header)
    assert len(load_silently(first, write(tmp_path / "b.csv", "1,A,ann,3,2026-01-02", header=header))) == 2
    with pytest.warns(AliquotWarning, match="1 row is a copy"):
        assert len(load_judgments([first, write(tmp_path / "c.csv", "1,A,ann,3")])) == 1
    nameless = [write(tmp_path / f"{name}.csv", "1,A,3", header="item,system,value") for name in "de"]
    assert len(load_silently(*nameless)) == 2


def test_labels_that_differ_are_told(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{label}.csv", f"1,A,ann,{label}", header=HEADER) for label in ("yes", "no")]
    with pytest.warns(AliquotWarning, match=r"1 answer .*: yes in yes.csv, no in no.csv"):
        load_judgments(paths, answer="value")


def test_single_errors_of_two_files_do_not_add_up() -> None:
    def errors(*severities: float) -> aliquot.Judgments:
        rows = [{"item": 1, "system": "A", "annotator": "ann", "value": value, "error": "x"} for value in severities]
        return aliquot.Judgments(pl.DataFrame(rows))

    with pytest.warns(AliquotWarning, match="-6 in table 1, -1 in table 2; the last file counts"):
        both = load_judgments([errors(-5, -1), errors(-1)])
    assert both.cell_means()["value"].to_list() == [-1.0]
    assert load_judgments([errors(-5), errors(-5)]).cell_means()["value"].to_list() == [-5.0]


def test_other_scales_are_told(tmp_path: Path) -> None:
    shares = write(tmp_path / "shares.csv", "1,A,ann,0", "1,B,ann,0.5", "2,A,ann,1")
    points = write(tmp_path / "points.csv", "1,A,bob,0", "1,B,bob,50", "2,A,bob,90")
    with pytest.warns(AliquotWarning, match=r"different scales \(0 to 1 in shares.csv, 0 to 90 in points.csv\)"):
        load_judgments([points, shares])
    load_silently(shares, write(tmp_path / "few.csv", "1,A,bob,0", "1,B,bob,0", "2,A,bob,25"))  # rare large errors


def test_a_column_named_source_stays(tmp_path: Path) -> None:
    header = f"{HEADER},source"
    own = aliquot.Judgments(pl.read_csv(write(tmp_path / "a.csv", "1,A,ann,3,crowd", header=header)))
    both = load_silently(own, write(tmp_path / "b.csv", "2,A,ann,3"))
    assert both["source"].to_list() == ["crowd", None]
    texts = aliquot.load(write(tmp_path / "c.csv", "1,A,ann,3,Ein Satz.", header=header))
    assert texts.items["source"].to_list() == ["Ein Satz."]


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_the_names_survive_writing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.jsonl").write_text("".join(f'{{"i": {i}, "tgt": {{"A": "x", "B": "y"}}}}\n' for i in (1, 2)))
    write(tmp_path / "a.csv", *MONDAY)
    write(tmp_path / "week 2.csv", *TUESDAY)
    assert run(shlex.split(f"convert data.jsonl {name} --what judgments -j a.csv -j 'week 2.csv'")) == 0
    kept = load_judgments(tmp_path / name).table.select("value", "source").rows()
    assert sorted(kept) == [(3, "a.csv"), (4, "a.csv"), (4, "a.csv"), (4, "week 2.csv"), (5, "week 2.csv")]


@pytest.mark.parametrize(
    "command",
    [
        "estimate data.jsonl",
        "agreement data.jsonl --by source",
        "clean data.jsonl --steps duplicates",
        "combine data.jsonl",
        "report data.jsonl",
    ],
)
def test_verbs_take_several_files(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.jsonl").write_text("".join(f'{{"i": {i}, "tgt": {{"A": "x", "B": "y"}}}}\n' for i in (1, 2)))
    write(tmp_path / "a.csv", *MONDAY)
    write(tmp_path / "b.csv", *TUESDAY)
    assert run([*shlex.split(command), "-j", "a.csv", "-j", "b.csv"]) == 0
    assert "their mean counts" in " ".join(capsys.readouterr().err.split())


def test_choices_of_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "item,system_a,system_b,annotator,choice"
    first = write(tmp_path / "a.csv", "1,A,B,ann,a", "2,A,B,ann,b", "3,A,B,bob,a", header=header)
    second = write(tmp_path / "b.csv", "1,A,B,ann,b", "2,A,B,ann,b", "4,A,B,bob,a", header=header)
    result = aliquot.compare([first, second])
    assert isinstance(result, Comparison)
    assert result.items == 4
    notes = " ".join(result.notes)
    assert "counted once: 1" in notes
    assert "contradict each other (e.g. ann on item 1)" in notes
    assert run(["compare", str(first), "-j", str(second)]) == 0
    assert "4 choices by 2 annotators" in capsys.readouterr().out
    with pytest.raises(OptionError, match="if each is a table"):
        aliquot.compare([first, aliquot.synthetic(items=3, systems=2, seed=1)])
