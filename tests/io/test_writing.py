"""Files and folders are written whole or not at all; streams are written to; killed runs leave nothing for long."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from aliquot.errors import OptionError, OutputError
from aliquot.io import writing
from aliquot.io.locks import get_current_process
from aliquot.io.overwrite import (
    allow_in_place,
    claim_stdout,
    is_stdout,
    is_stdout_claimed,
    protect_inputs,
    refuse_overwrite,
    register_input,
    register_output,
)
from aliquot.io.writing import atomic_file, atomic_folder, is_stream, write_bytes, write_parquet


@pytest.fixture(autouse=True)
def _new_process():
    """Leftovers are looked for once a process."""
    writing._remove_leftovers.cache_clear()


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "result.txt"
    path.write_bytes(b"old")
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_the_new_file_appears_only_at_the_end(old):
    with atomic_file(old) as temporary:
        temporary.write_bytes(b"new")
        assert old.read_bytes() == b"old"
        assert temporary.parent == old.parent  # a rename across file systems would not be atomic
    assert old.read_bytes() == b"new"
    assert names(old.parent) == ["result.txt"]


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (OSError(28, "No space left on device"), OutputError),
        (ValueError("a bug"), ValueError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_whatever_goes_wrong_the_old_file_is_intact(old, raised, expected):
    def write_half() -> None:
        with atomic_file(old) as temporary:
            temporary.write_bytes(b"half")
            raise raised

    with pytest.raises(expected):
        write_half()
    assert old.read_bytes() == b"old"
    assert names(old.parent) == ["result.txt"]


def test_a_failed_rename_is_an_output_error(old, monkeypatch):
    def refuse(path: Path, target: Path) -> Path:
        raise OSError(1, "Operation not permitted", str(path), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match=r"result\.txt.*Operation not permitted.*nothing was changed"):
        write_bytes(old, b"new")
    monkeypatch.undo()
    assert names(old.parent) == ["result.txt"]


def test_folders_are_not_made_and_modes_kept(tmp_path):
    path = tmp_path / "a" / "b" / "x.txt"
    with pytest.raises(OutputError, match=r"the folder .*/a/b does not exist; create it first: mkdir -p"):
        write_bytes(path, b"1")
    assert names(tmp_path) == []
    path.parent.mkdir(parents=True)
    write_bytes(path, b"1")
    path.chmod(0o640)
    write_bytes(path, b"2")
    assert path.read_bytes() == b"2"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_mode_the_user_asked_for(tmp_path):
    mask = os.umask(0o027)
    try:
        write_bytes(tmp_path / "x", b"1")
    finally:
        os.umask(mask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(OutputError), atomic_file(tmp_path / "x.txt"):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []


def test_gzip_by_ending_is_the_same_every_time(tmp_path):
    write_bytes(tmp_path / "x.gz", b"content")
    first = (tmp_path / "x.gz").read_bytes()
    write_bytes(tmp_path / "x.gz", b"content")
    assert (tmp_path / "x.gz").read_bytes() == first
    assert gzip.decompress(first) == b"content"


# -- on the disk before it is called written -----------------------------------------------------------------------


def test_content_and_name_are_synced_in_this_order(old, monkeypatch):
    done = []
    sync, replace = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        done.append(("sync", Path(f"/proc/self/fd/{handle}").resolve() if sys.platform == "linux" else None))
        sync(handle)

    def rename(path: Path, target: Path) -> Path:
        done.append(("rename", path.resolve()))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    write_bytes(old, b"new")
    assert [step for step, _ in done] == ["sync", "rename", "sync"]
    if sys.platform == "linux":
        assert done[0][1] == done[1][1]
        assert done[2][1] == old.parent.resolve()


# -- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed_and_stays(tmp_path, there):
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "real.txt", tmp_path / "link.txt"
    if there:
        real.write_bytes(b"old")
    link.symlink_to("far/real.txt")
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert names(tmp_path / "far") == ["real.txt"]


def test_a_link_to_a_folder_is_followed_and_stays(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with atomic_folder(tmp_path / "link") as temporary:
        (temporary / "a").write_bytes(b"1")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["a"]


def test_links_that_lead_nowhere_are_told(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match="leads back to itself"):
        write_bytes(tmp_path / "loop", b"new")
    (tmp_path / "lost").symlink_to("no/such/file")
    with pytest.raises(OutputError, match=r"the folder .*/no/such does not exist"):
        write_bytes(tmp_path / "lost", b"new")
    assert (tmp_path / "loop").is_symlink()


# -- streams ---------------------------------------------------------------------------------------------------------


def test_a_pipe_is_written_to(tmp_path):
    pipe, got = tmp_path / "pipe.parquet", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    table = pl.DataFrame({"a": range(50_000)})  # more than a pipe holds at once
    write_parquet(table, pipe)
    reader.join(timeout=300)
    assert pipe.is_fifo()
    assert pl.read_parquet(got[0]).equals(table)
    assert names(tmp_path) == ["pipe.parquet"]


def test_a_pipe_that_nobody_reads_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "PIPE_TIMEOUT", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="a pipe that nobody reads"):
        write_bytes(tmp_path / "pipe", b"x")


def test_open_files_by_their_number_are_written_to_where_they_stand(tmp_path):
    with (tmp_path / "log").open("ab") as log:
        log.write(b"before\n")
        log.flush()
        write_bytes(f"/dev/fd/{log.fileno()}", b"inside\n")
        log.write(b"after\n")
    assert (tmp_path / "log").read_bytes() == b"before\ninside\nafter\n"


def test_standard_output_gets_the_bytes(capfdbinary):
    sys.stdout.write("before\n")
    write_bytes("-", b"\xff\x00")
    write_bytes("/dev/stdout", b"!")
    assert capfdbinary.readouterr().out == b"before\n\xff\x00!"
    assert Path("/dev/stdout").is_symlink() or not Path("/dev/stdout").is_file()


def test_devices_stay_devices(tmp_path):
    write_bytes("/dev/null", b"x")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "link.csv").symlink_to("/dev/null")
    write_bytes(tmp_path / "link.csv", b"x")
    assert (tmp_path / "link.csv").is_symlink()
    assert is_stream(tmp_path / "link.csv")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_device_is_told():
    with pytest.raises(OutputError, match=r"/dev/full: cannot be written \(No space left on device\)"):
        write_bytes("/dev/full", b"x")


# -- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    place = tmp_path / "folder"

    def half() -> None:
        with atomic_folder(place) as temporary:
            (temporary / "a").write_bytes(b"1")
            assert not place.exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert names(tmp_path) == []
    with atomic_folder(place) as temporary:
        (temporary / "below").mkdir()
        (temporary / "below" / "a").write_bytes(b"1")
    assert (place / "below" / "a").read_bytes() == b"1"
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_is_replaced_and_keeps_what_it_is_told_to(tmp_path, monkeypatch, at_once):
    if not at_once:
        monkeypatch.setattr(writing, "_exchange_paths", lambda *_: False)
    place = tmp_path / "folder"
    (place / "other").mkdir(parents=True)
    (place / "other" / "kept").write_bytes(b"kept")
    (place / "gone").write_bytes(b"gone")
    place.chmod(0o750)
    with atomic_folder(place, keep=[Path("other/kept")]) as temporary:
        (temporary / "new").write_bytes(b"new")
        assert (place / "gone").exists()
    assert names(place) == ["new", "other"]
    assert (place / "other" / "kept").read_bytes() == b"kept"
    assert place.stat().st_mode & 0o777 == 0o750
    assert names(tmp_path) == ["folder"]


# -- what killed runs leave ------------------------------------------------------------------------------------------

KILLED = """
import sys, time
from aliquot.io.writing import atomic_file, atomic_folder
with atomic_file(sys.argv[1]) as temporary, atomic_folder(sys.argv[2]) as folder:
    temporary.write_bytes(b"half")
    (folder / "half").write_bytes(b"half")
    print("written", flush=True)
    time.sleep(60)
"""


def test_leftovers_of_a_killed_run_are_removed_by_the_next(old):
    command = [sys.executable, "-c", KILLED, str(old), str(old.parent / "folder")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        write_bytes(old.parent / "other.txt", b"1")
        assert len(names(old.parent)) == 4  # its owner lives
        process.send_signal(signal.SIGKILL)
    assert old.read_bytes() == b"old"
    writing._remove_leftovers.cache_clear()
    write_bytes(old.parent / "other.txt", b"2")
    assert names(old.parent) == ["other.txt", "result.txt"]


WRITER = """
import sys
from itertools import count
from aliquot.io.writing import atomic_folder, write_bytes
print("begin", flush=True)
for number in count():
    content = bytes([number % 256]) * 2_000_000
    write_bytes(sys.argv[1], content)
    with atomic_folder(sys.argv[2]) as folder:
        (folder / "a").write_bytes(content)
        (folder / "b").write_bytes(content)
"""


@pytest.mark.parametrize("seconds", [0.0, 0.013, 0.05, 0.11])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new(old, seconds):
    place = old.parent / "folder"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(old), str(place)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    content = old.read_bytes()
    assert content == b"old" or content == content[:1] * 2_000_000
    if place.exists():
        assert names(place) == ["a", "b"]
        both = (place / "a").read_bytes()
        assert both == (place / "b").read_bytes() == both[:1] * 2_000_000
    write_bytes(old, b"last")
    assert set(names(old.parent)) <= {"result.txt", "folder"}


def test_files_of_others_stay(tmp_path):
    machine, pid, started = get_current_process().token.split("-")
    others = [
        ".x.tmp",
        "x.tmp",
        ".result.txt.abcdefgh.tmp",  # no owner in the name
        f".x.aliquot-00000000-{2**22 + 1}-1-abc.tmp",  # of another machine
        f".x.aliquot-{machine}-{pid}-{started}-abc.tmp",  # of this process
        f"x.aliquot-{machine}-{2**22 + 1}-1-abc.tmp",  # not hidden
    ]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    stale = tmp_path / f".x.aliquot-{machine}-{pid}-1-abc.tmp"  # an earlier process of the same number
    stale.write_bytes(b"")
    write_bytes(tmp_path / "y", b"1")
    assert names(tmp_path) == sorted([*others, "y"])


def test_long_names_have_room_for_a_temporary_file(tmp_path):
    path = tmp_path / ("ü" * 120 + ".txt")
    write_bytes(path, b"1")
    assert path.read_bytes() == b"1"


def test_a_run_keeps_what_it_reads_and_writes_each_output_once(old, tmp_path):
    new, link = tmp_path / "new.txt", tmp_path / "link.txt"
    link.hardlink_to(old)
    with protect_inputs():
        register_input(old)
        with pytest.raises(OptionError, match=r"link.txt: is read by this run as .*result.txt"):
            register_output(link)
        register_output(new)
        with pytest.raises(OptionError, match="is named twice as an output"):
            register_output(tmp_path / "." / "new.txt")
        with pytest.raises(OptionError, match="is read by this run and"):
            refuse_overwrite(old)
        allow_in_place(old)
        refuse_overwrite(link)
    with protect_inputs():
        register_output(old)
        with pytest.raises(OptionError, match="is read by this run and"):
            register_input(old)  # whatever comes first
    register_input(old)
    register_output(old)  # outside of a run nothing is kept
    allow_in_place(old)


def test_a_folder_that_is_read_is_not_written_into(tmp_path):
    (tmp_path / "data").mkdir()
    with protect_inputs():
        register_input(tmp_path / "data")
        with pytest.raises(OptionError, match=r"is in the folder .*data, which this run reads"):
            register_output(tmp_path / "data" / "deeper" / "out.csv")
        register_output(tmp_path / "out.csv")
        register_output("-")


def test_one_thing_only_goes_to_standard_output():
    assert [is_stdout(name) for name in ("-", Path("/dev/stdout"), "/dev/fd/1", "out.csv", None)] == [True] * 3 + [
        False
    ] * 2
    with protect_inputs():
        assert not is_stdout_claimed()
        claim_stdout("--json")
        assert not is_stdout_claimed()
        with pytest.raises(OptionError, match="--json and - would both go to standard output"):
            register_output("-")
    with protect_inputs():
        register_output("/dev/null")
        register_output("/dev/null")
        register_output("-")
        assert is_stdout_claimed()
        with protect_inputs():  # belongs to the outer one
            assert is_stdout_claimed()
    assert not is_stdout_claimed()
