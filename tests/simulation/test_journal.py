"""The journal of a run: what was finished is never lost, never repeated, and never mixed with another run's."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import aliquot
from aliquot.errors import OutputError
from aliquot.simulation import units
from aliquot.simulation.journal import journal_path, open_journal

METHODS = ["random", "auto", "metric_var:metric=metricA"]


class Stopped(Exception):  # noqa: N818
    """Stands for whatever ends a run in the middle."""


@pytest.fixture
def replays(monkeypatch):
    """Keys of the units that are worked on; `stop_after` ends the run like a power cut."""
    seen: list[str] = []
    real = units.run_unit

    class Replays(list[str]):
        stop_after = 10**9

    keys = Replays(seen)

    def counted(unit, stage, measures):
        if len(keys) >= keys.stop_after:
            raise Stopped
        keys.append(unit.key)
        return real(unit, stage, measures)

    monkeypatch.setattr(import_module("aliquot.simulation.simulate"), "run_unit", counted)
    return keys


def simulated(past, output: Path | None, **options):
    return aliquot.simulate(past, METHODS, ["20%", "40%"], repeats=3, journal=output, **options)


def test_a_run_that_was_stopped_goes_on(past, tmp_path, replays):
    whole = simulated(past, None)
    total = len(replays)
    assert total > 10
    output = tmp_path / "out.parquet"
    replays.clear()
    replays.stop_after = 5
    with pytest.raises(Stopped):
        simulated(past, output)
    part = journal_path(output).read_bytes()
    assert len(part.splitlines()) == 1 + 5
    first = list(replays)
    replays.clear()
    replays.stop_after = 10**9
    steps = []
    result = simulated(past, output, progress=lambda done, total: steps.append((done, total)))
    assert steps[0] == (5, total)
    assert not set(first) & set(replays)
    assert len(first) + len(replays) == total
    assert journal_path(output).read_bytes().startswith(part)
    assert result.to_frame().equals(whole.to_frame())
    assert result.summary_frame().equals(whole.summary_frame())
    replays.clear()
    again = simulated(past, output)
    assert not replays
    assert again.to_frame().equals(whole.to_frame())


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-20],
        lambda content: content + b'{"key":"past|auto|0.2","cel',
        lambda content: content + b"\x00" * 300 + b"\n",
        lambda content: content + b'"no record"\n',
        lambda content: content + b'{"something":"else"}\n',
    ],
    ids=["cut", "half a line", "zeros", "a text", "another record"],
)
def test_a_damaged_end_is_dropped(past, tmp_path, replays, damage):
    whole, output = simulated(past, None), tmp_path / "out.csv"
    replays.clear()
    replays.stop_after = 6
    with pytest.raises(Stopped):
        simulated(past, output)
    path = journal_path(output)
    content = path.read_bytes()
    path.write_bytes(damage(content))
    kept = 5 if len(damage(content)) < len(content) else 6
    finished = list(replays)[:kept]
    replays.clear()
    replays.stop_after = 10**9
    result = simulated(past, output)
    assert not set(finished) & set(replays)
    assert result.to_frame().equals(whole.to_frame())
    for line in path.read_bytes().splitlines():
        json.loads(line)


def test_a_damaged_middle_loses_only_what_follows(past, tmp_path, replays):
    whole, output = simulated(past, None), tmp_path / "out.csv"
    simulated(past, output)
    path = journal_path(output)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"#" * 50 + b"\n", *lines[5:]]))
    replays.clear()
    result = simulated(past, output)
    assert len(replays) == len(lines) - 4
    assert result.to_frame().equals(whole.to_frame())


def test_undefined_values_survive(campaign, tmp_path, replays):
    """JSON has no NaN: constant scores have no correlation, before and after."""
    constant = campaign(human=lambda human: np.full_like(human, 1.0))
    whole, output = simulated(constant, None), tmp_path / "out.json"
    simulated(constant, output)
    replays.clear()
    again = simulated(constant, output)
    assert not replays
    assert again.to_frame().equals(whole.to_frame())
    assert again.to_frame()["value"].null_count() == 0
    assert again.to_frame()["value"].is_nan().any()


def test_another_run_is_not_mixed_in(past, tmp_path, replays):
    output = tmp_path / "out.parquet"
    replays.stop_after = 2
    with pytest.raises(Stopped):
        simulated(past, output)
    before = journal_path(output).read_bytes()
    with pytest.raises(OutputError, match=r"unfinished replays of another run .*seed:0.*delete the file"):
        simulated(past, output, seed=1)
    with pytest.raises(OutputError, match="another run"):
        simulated(past.with_human("metricB"), output)
    assert journal_path(output).read_bytes() == before


@pytest.mark.parametrize("content", [b"my precious notes\n", b"no line at all", b'{"a":1}\n', b"[1]\n", b"\xff\xfe\n"])
def test_a_stranger_is_left_alone(tmp_path, content):
    output = tmp_path / "out.parquet"
    journal_path(output).write_bytes(content)
    with pytest.raises(OutputError, match=r"out\.parquet\.part: is not a journal"), open_journal(output, "line"):
        pass
    assert journal_path(output).read_bytes() == content


@pytest.mark.parametrize("content", [b"", b'{"sig', b'{"signature":"aliquot:0.1.0|sim'])
def test_killed_at_the_first_line(tmp_path, content):
    output = tmp_path / "out.parquet"
    journal_path(output).write_bytes(content)
    with open_journal(output, "line") as journal:
        assert journal.done == {}
    assert journal_path(output).read_bytes() == b'{"signature":"line"}\n'


def test_one_run_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    output = tmp_path / "out.parquet"
    with open_journal(output, "line") as journal:
        journal.add("a", [{"value": 1.0}])
        with pytest.raises(OutputError, match="another run is writing it"), open_journal(output, "line"):
            pass
        journal.add("b", [{"value": 2.0}])
    with open_journal(output, "line") as journal:
        assert journal.done == {"a": [{"value": 1.0}], "b": [{"value": 2.0}]}


def test_where_a_journal_cannot_be_kept(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OutputError, match="cannot keep the journal"),
        open_journal(tmp_path / "file" / "out.csv", "line"),
    ):
        pass
    with open_journal(tmp_path / "new" / "folder" / "out.csv", "line") as journal:
        journal.add("a", [])
    assert (tmp_path / "new" / "folder" / "out.csv.part").exists()


def test_errors_of_the_work_are_not_blamed_on_the_journal(tmp_path):
    with pytest.raises(ConnectionError), open_journal(tmp_path / "out.csv", "line"):
        raise ConnectionError


def test_without_a_file_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_journal(None, "line") as journal:
        journal.add("a", [])
    assert list(tmp_path.iterdir()) == []
