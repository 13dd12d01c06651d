"""Reading whole files, and writing them whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import pytest

from aliquot.errors import FormatError, OutputError
from aliquot.io.files import decode_text, read_bytes, whole_file, write_bytes


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "result.txt"
    path.write_bytes(b"old")
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_the_new_file_appears_only_at_the_end(old):
    with whole_file(old) as temporary:
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
        with whole_file(old) as temporary:
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
    with pytest.raises(OutputError), whole_file(tmp_path / "x.txt"):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []


def test_gzip_by_ending_is_the_same_every_time(tmp_path):
    write_bytes(tmp_path / "x.gz", b"content")
    first = (tmp_path / "x.gz").read_bytes()
    write_bytes(tmp_path / "x.gz", b"content")
    assert (tmp_path / "x.gz").read_bytes() == first
    assert gzip.decompress(first) == b"content"


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        (b"plain", b"plain"),
        (gzip.compress(b"zipped", mtime=0), b"zipped"),
        (gzip.compress(b"two ", mtime=0) + gzip.compress(b"members", mtime=0), b"two members"),
        (b"\xef\xbb\xbfmarked", b"marked"),
        (gzip.compress(b"\xef\xbb\xbfboth", mtime=0), b"both"),
        (b"", b""),
    ],
)
def test_reading_undoes_gzip_and_marks_by_content(tmp_path, stored, read):
    (tmp_path / "x").write_bytes(stored)
    assert read_bytes(tmp_path / "x") == read


def test_reading_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"piped", mtime=0))))
    assert read_bytes("-") == b"piped"


def test_decoding_names_the_line():
    with pytest.raises(FormatError, match=r"x\.csv line 3: byte 0xe4"):
        decode_text(b"a\nb\nB\xe4r\n", "x.csv")
