"""The journal of a long run: finished units are kept, damaged ones dropped, other files left alone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from aliquot.errors import OutputError
from aliquot.io.journal import journal_path, open_journal


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


WRITER = """
import sys, time
from pathlib import Path
from aliquot.io.journal import open_journal
with open_journal(Path(sys.argv[1]), "line") as journal:
    print(sorted(journal.done), flush=True)
    journal.add(sys.argv[2], [])
    if sys.argv[3] == "stays":
        sys.stdin.readline()
"""


def writer(output: Path, key: str, then: str) -> subprocess.Popen[str]:
    """A process that writes one unit, and ends or stays until it is told to go on."""
    command = [sys.executable, "-c", WRITER, str(output), key, then]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_second_run_waits_and_goes_on_from_there(tmp_path):
    pytest.importorskip("fcntl")
    output = tmp_path / "out.parquet"
    with writer(output, "a", "stays") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "[]\n"
        with writer(output, "b", "ends") as second:
            assert second.stderr is not None
            err = second.stderr.readline()
            first.communicate("go on\n", timeout=300)
            out, rest = second.communicate(timeout=300)
        assert first.returncode == second.returncode == 0, rest
    assert out == "['a']\n"
    assert f"waiting for process {first.pid} on " in err
    assert "which writes the same output since" in err
    with open_journal(output, "line") as journal:
        assert sorted(journal.done) == ["a", "b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet.part"]


def test_a_killed_run_holds_nobody_up(tmp_path):
    output = tmp_path / "out.parquet"
    with writer(output, "a", "stays") as first:
        assert first.stdout is not None
        first.stdout.readline()
        while not journal_path(output).read_bytes().endswith(b"[]}\n"):
            time.sleep(0.01)
        first.kill()
    with open_journal(output, "line") as journal:
        assert list(journal.done) == ["a"]


def test_streams_have_no_journal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for output in ("-", "/dev/null"):
        with open_journal(Path(output), "line") as journal:
            journal.add("a", [])
            assert journal.file is None
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize("damage", [lambda raw: raw[:-3], lambda raw: raw[:-3] + b"abc"], ids=["cut", "changed"])
def test_the_bytes_of_a_unit_are_kept_and_checked(tmp_path, damage):
    output = tmp_path / "out.csv"
    with open_journal(output, "line") as journal:
        journal.add("a", [], b"one\ntwo")
        journal.add("b", [{"value": 1.0}], b"three")
        assert journal.payload("a", 4, 3) == b"two"
    path = journal_path(output)
    path.write_bytes(damage(path.read_bytes()))
    with open_journal(output, "line") as journal:
        assert list(journal.done) == ["a"]
        journal.add("b", [], b"four")
        assert (journal.payload("a", 0, 7), journal.payload("b", 0, 4)) == (b"one\ntwo", b"four")
