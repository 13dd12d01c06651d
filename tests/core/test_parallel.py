"""Workers end with the process that started them, even when that one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from aliquot.core import parallel
from aliquot.core.parallel import run_tasks
from aliquot.errors import WorkerError

PARENT = """
import sys, time
from pathlib import Path
from aliquot.core.parallel import run_tasks

def work(name):
    Path(sys.argv[1], name).touch()
    time.sleep(1000)

list(run_tasks(work, ["one", "two"], jobs=3))  # the third worker has nothing to do
"""


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_workers_of_a_killed_run_end_within_seconds(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT.replace("sys.argv[1]", repr(str(tmp_path))))
    with subprocess.Popen([sys.executable, str(script)], stderr=subprocess.DEVNULL) as parent:
        deadline = time.monotonic() + 300
        while not ((tmp_path / "one").exists() and (tmp_path / "two").exists()) and time.monotonic() < deadline:
            time.sleep(0.05)
        workers = children(parent.pid)
        parent.send_signal(signal.SIGKILL)
    assert len(workers) >= 3
    deadline = time.monotonic() + 100  # half a second on an idle machine
    while alive(workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = alive(workers)
    for pid in left:
        subprocess.run(["kill", "-9", str(pid)], check=False)
    assert left == []


def test_a_worker_of_threads_does_not_watch_itself(monkeypatch):
    import joblib

    def started(*_: object, **__: object) -> None:
        raise AssertionError("no thread is needed")

    monkeypatch.setattr(threading, "Thread", started)
    parallel._exit_with_parent(os.getpid())
    monkeypatch.undo()
    with joblib.parallel_config(backend="threading"):
        assert sorted(run_tasks(abs, [-1, -2, -3], jobs=2)) == [1, 2, 3]


def test_a_deleted_working_folder_is_named(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert list(run_tasks(abs, [-1, 2], jobs=1)) == [1, 2]
    with pytest.raises(WorkerError, match="the working folder: was deleted"):
        list(run_tasks(abs, [-1, 2], jobs=2))
    with pytest.raises(WorkerError, match="gone: was deleted"):
        parallel._run_in_folder(str(tmp_path / "gone"), abs, -1)
