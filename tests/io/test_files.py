"""Reading whole files."""

from __future__ import annotations

import gzip
import io
import sys

import pytest

from aliquot.errors import FormatError
from aliquot.io.files import decode_json, decode_text, read_bytes


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


def test_the_line_of_a_broken_character_is_named():
    with pytest.raises(FormatError, match=r"x\.json line 3: not valid UTF-8"):
        decode_json(b'{"a":\n 1,\n"b": "\xff"}', "x.json", "")
    with pytest.raises(FormatError, match=r"x\.json: not valid UTF-8"):
        decode_json(b'{"b": "\xff"}', "x.json", "")
