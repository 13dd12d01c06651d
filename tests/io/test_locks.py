"""Lock files: one process at a time, others wait and say for whom, and the dead hold nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from aliquot.errors import OutputError
from aliquot.io import locks
from aliquot.io.locks import LockOwner, get_current_process, hold_lock

HOLDER = """
import sys, time
from pathlib import Path
from aliquot.io.locks import hold_lock
path, log, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
with hold_lock(path, "counts"):
    with open(log, "a") as file:
        file.write("in\\n")
        file.flush()
        time.sleep(seconds)
        file.write("out\\n")
"""


def holder(path: Path, log: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(path), str(log), str(seconds)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def wait_for(log: Path) -> None:
    deadline = time.monotonic() + 300
    while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)


def test_one_at_a_time_and_the_others_say_for_whom_they_wait(tmp_path):
    path, log = tmp_path / ".lock", tmp_path / "log"
    with hold_lock(path, "counts"):
        several = [holder(path, log, 0.05) for _ in range(4)]
        said = [process.stderr.readline() for process in several if process.stderr is not None]
        assert not log.exists()
    assert [process.wait(timeout=300) for process in several] == [0, 0, 0, 0]
    assert log.read_text().split() == ["in", "out"] * 4
    assert not path.exists()
    for text in said:
        assert text.startswith(f"note: waiting for process {os.getpid()} ")
        assert "which counts since 20" in text


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    path, log = tmp_path / ".lock", tmp_path / "log"
    process = holder(path, log, 60)
    wait_for(log)
    assert msgspec.json.decode(path.read_bytes())["pid"] == process.pid
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.exists()  # what it left
    with hold_lock(path, "counts"):
        assert msgspec.json.decode(path.read_bytes(), type=LockOwner).pid == os.getpid()
    assert not path.exists()


def test_the_lock_is_free_after_an_error(tmp_path):
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), hold_lock(tmp_path / ".lock", "counts"):
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_process_does_not_wait_for_itself(tmp_path):
    with (
        hold_lock(tmp_path / ".lock", "counts"),
        pytest.raises(OutputError, match="in this very process"),
        hold_lock(tmp_path / ".lock", "counts"),
    ):
        pass


def test_on_a_file_system_without_locks_a_living_owner_holds_it(tmp_path, monkeypatch, capsys):
    class NoLocks:
        LOCK_EX, LOCK_NB = 1, 2

        @staticmethod
        def flock(*_: int) -> None:
            raise OSError(95, "Operation not supported")

    monkeypatch.setattr(locks, "fcntl", NoLocks)
    path = tmp_path / ".lock"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert other.stdin is not None
        owner = LockOwner(get_current_process().host, other.pid, locks._get_start_time(other.pid) or 0, "then")
        path.write_bytes(msgspec.json.encode(owner))
        monkeypatch.setattr(time, "sleep", lambda _: other.communicate(b"\n"))
        with hold_lock(path, "counts"):
            pass
        assert f"process {other.pid}" in capsys.readouterr().err


def test_owners_are_told_apart():
    me = get_current_process()
    assert me.alive
    assert locks._get_start_time(2**22 + 1) in (None, 0)
    assert not LockOwner(me.host, 2**22 + 1, 0).alive  # no such process
    if me.started:
        assert not LockOwner(me.host, me.pid, me.started - 1).alive  # an earlier one of the same number
    assert LockOwner("elsewhere", 2**22 + 1, 0).alive  # nobody here can tell
