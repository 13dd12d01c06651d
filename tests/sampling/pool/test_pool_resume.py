"""A killed run goes on where it stopped, on one machine or on a cluster, and leaves nothing half-written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sampling.pool.conftest import same, write_lines

from aliquot.errors import DataError, OutputError
from aliquot.io.journal import journal_path
from aliquot.sampling.pool import select_pool
from aliquot.sampling.pool_methods import Dedup

pytestmark = pytest.mark.filterwarnings("ignore::aliquot.AliquotWarning")


class KilledError(Exception):
    pass


def kill(what: str, share: float, items: int) -> None:
    if what == "measuring" and share > 0.5 and items:
        raise KilledError


def test_a_killed_run_goes_on_where_it_stopped(lines: Path, tmp_path: Path) -> None:
    output = tmp_path / "chosen.jsonl"

    options: dict[str, Any] = {"seed": 3, "partition_bytes": 3000, "journal": output}
    with pytest.raises(KilledError):
        select_pool(lines, "pps:size=length", 20, progress=kill, **options)
    done = journal_path(output).read_bytes().count(b'{"key":')
    assert 0 < done < 20
    told: list[tuple[str, float, int]] = []
    resumed = select_pool(lines, "pps:size=length", 20, progress=lambda *now: told.append(now), **options)
    assert told[0][1] > 0.5
    same(resumed.selection, select_pool(lines, "pps:size=length", 20, seed=3).selection)
    assert not journal_path(output).exists()


def test_another_runs_parts_are_never_mixed_in(lines: Path, tmp_path: Path) -> None:
    output = tmp_path / "chosen.jsonl"

    with pytest.raises(KilledError):
        select_pool(lines, "segments", 20, progress=kill, partition_bytes=3000, journal=output)
    with pytest.raises(OutputError, match=r"another run \(aliquot.*pool.first_pass:ids.*data"):
        select_pool(lines, "pps:size=length", 20, partition_bytes=3000, journal=output)


def test_another_predictor_of_the_same_name_is_not_mixed_in(
    lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    code = tmp_path / "changing_models.py"
    code.write_text("def value(texts):\n    return [len(text) for text in texts]\n")
    options: dict[str, Any] = {"partition_bytes": 3000, "journal": tmp_path / "chosen.jsonl"}
    with pytest.raises(KilledError):
        select_pool(lines, "source:predictor=changing_models:value", 20, progress=kill, **options)
    code.write_text("def value(texts):\n    return [-len(text) for text in texts]\n")
    with pytest.raises(OutputError, match="another run"):
        select_pool(lines, "source:predictor=changing_models:value", 20, **options)


def test_without_an_output_no_file_has_a_name(lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a process that is killed leaves nothing behind."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[list[Path]] = []
    options: dict[str, Any] = {"partition_bytes": 9000, "progress": lambda *_: seen.append([*tmp_path.iterdir()])}
    cases: tuple[tuple[str, Dedup | None], ...] = (("segments", "near"), ("kmeans", None))
    for method, dedup in cases:
        select_pool(lines, method, 5, dedup=dedup, **options)
    assert len(seen) > 4
    assert not any(seen)


def test_a_run_killed_before_its_signature_was_written_is_begun_anew(lines: Path, tmp_path: Path) -> None:
    output = tmp_path / "chosen.jsonl"
    journal_path(output).write_bytes(b'{"signature":"aliq')
    assert len(select_pool(lines, "segments", 5, journal=output)) == 5
    assert not journal_path(output).exists()


def test_bad_data_leave_no_parts(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"i": k % 50, "src": "a"} for k in range(51)])
    with pytest.raises(DataError, match="occurs twice"):
        select_pool(path, "segments", 5, partition_bytes=100, journal=tmp_path / "chosen.jsonl")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]
