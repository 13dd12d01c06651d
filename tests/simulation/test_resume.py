"""A simulation that was stopped resumes: no finished replay is lost, repeated, or mixed with another run's."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aliquot
from aliquot.errors import OutputError
from aliquot.io.journal import journal_path
from aliquot.simulation import units

METHODS = ["random", "auto", "metric_var:metric=metricA"]


class Stopped(Exception):  # noqa: N818
    """Stands for whatever ends a run in the middle."""


@pytest.fixture(scope="module")
def finished() -> dict[tuple[str, bytes], list[dict[str, Any]]]:
    """Cells of every unit that any test has run: the tests are about the journal, so each unit is replayed once."""
    return {}


@pytest.fixture
def replays(monkeypatch, finished):
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
        known = unit.key, stage.evalset.human_score().tobytes()
        if known not in finished:
            finished[known] = real(unit, stage, measures)
        return deepcopy(finished[known])

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
    with pytest.raises(OutputError, match=r"unfinished work of another run .*seed:0.*delete the file"):
        simulated(past, output, seed=1)
    with pytest.raises(OutputError, match="another run"):
        simulated(past.with_human("metricB"), output)
    assert journal_path(output).read_bytes() == before
