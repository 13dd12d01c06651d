"""Read files whole, with errors that help; writing.py writes them."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import stat
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from aliquot.core import memory
from aliquot.errors import FormatError
from aliquot.io import hub
from aliquot.io.overwrite import register_input

STDIN = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_PACKED_FORMATS = {
    **{b"BZh%d1AY&SY" % level: ("bzip2", "bunzip2") for level in range(1, 10)},
    b"\x28\xb5\x2f\xfd": ("Zstandard", "unzstd"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x"),
    b"\x04\x22\x4d\x18": ("LZ4", "unlz4"),
    b"Rar!\x1a\x07": ("RAR", "unrar x"),
}
_SCALAR_TYPES = frozenset({str, int, float, bool, type(None)})
_BACKSLASH = ord("\\")
_BLOCK_SIZE = 1 << 22
PIPE_TIMEOUT = 10.0
"""Seconds that a pipe may be without a writer."""


def require_readable(path: Path) -> None:
    """Raise FormatError if `path` is missing or may not be read."""
    if (place := hub.as_hub_path(path)) is not None:
        raise FormatError(f"{place}: only a file on a disk is read here; download it, and name that file")
    try:
        exists = path.exists()
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror or error}; check the path") from None
    if not exists:
        raise FormatError(f"{path}: no such file or folder; check the path ({_suggest_names(path)})")
    if not os.access(path, os.R_OK):
        raise FormatError(f"{path}: no permission to read it; change its permissions (chmod +r) or copy it")
    register_input(path)


def _suggest_names(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except PermissionError:
        return f"the folder {folder} may not be listed"
    stem = path.name.split(".")[0].casefold()
    near = [name for name in names if stem and stem in name.casefold()][:3]
    return f"near it: {', '.join(near)}" if near else f"{len(names)} other entries in {folder}"


@contextmanager
def pause_collection() -> Iterator[None]:
    """Pause the search for reference cycles: it takes half of the time of readers, whose objects have none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_bytes(path: Path | str) -> bytes:
    """Read a file, a file on the Hub (hf://...) or standard input ("-").

    Gzip is unpacked, and UTF-16 with a byte-order mark becomes UTF-8.

    What does not fit into half of the memory is refused: a file by its size, a stream or packed data as it grows.
    """
    if str(path) == STDIN:
        _refuse_endless_stdin()
        raw = _read_bounded(sys.stdin.buffer, path)
    elif (place := hub.as_hub_path(path)) is not None:
        raw = hub.read_bytes(place)
    else:
        path = Path(path)
        require_readable(path)
        if path.is_dir():
            raise FormatError(f"{path}: is a folder where a file is meant; name a file inside it")
        raw = _read_content(path)
    if raw.startswith(_GZIP_MAGIC):
        raw = _gunzip(raw, path)
    for magic, (name, command) in _PACKED_FORMATS.items():
        if raw.startswith(magic):
            raise FormatError(f"{path}: is packed by {name}, which is not read; unpack it first: {command} FILE")
    if raw.startswith(_UTF16_BOMS):
        try:
            return raw.decode("utf-16").encode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: damaged UTF-16 ({error.reason}); save the file as UTF-8") from None
    return raw.removeprefix(_UTF8_BOM)


def _refuse_endless_stdin() -> None:
    try:
        handle = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # a stream in memory, as tests and notebooks have
        return
    _refuse_device(os.fstat(handle), STDIN, terminal=os.isatty(handle))
    register_input(handle)


def _read_content(path: Path) -> bytes:
    """Read a file, or a pipe such as `<(zcat data.gz)` to its end."""
    about = path.stat()
    _refuse_device(about, path, terminal=_is_terminal(path))
    if stat.S_ISFIFO(about.st_mode):
        return _read_pipe(path)
    limit_size(about.st_size, path)
    with path.open("rb") as file:
        return _read_bounded(file, path)  # files of /proc have size 0


def is_file(path: Path | str) -> bool:
    """Return whether a path is of a file that exists, or of one on the Hub."""
    return hub.as_hub_path(path) is not None or Path(path).is_file()


def require_file(path: Path) -> None:
    """Raise FormatError for folders, devices and pipes: they cannot be read in parts and more than once."""
    if not path.is_file():
        raise FormatError(f"{path}: is not a file but a folder, a device or a pipe; write its content to a file first")


def _refuse_device(about: os.stat_result, path: Path | str, *, terminal: bool) -> None:
    """Raise FormatError for devices, which may never end (/dev/zero); terminals and /dev/null are allowed."""
    endless = stat.S_ISCHR(about.st_mode) and not terminal and not os.path.samestat(about, Path(os.devnull).stat())
    if endless or stat.S_ISBLK(about.st_mode):
        name = "standard input" if str(path) == STDIN else path
        raise FormatError(f"{name}: is a device, which may never end; name a file, or '-' for standard input")


def _is_terminal(path: Path) -> bool:
    if not path.is_char_device():
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.isatty(handle)
    finally:
        os.close(handle)


def _read_pipe(path: Path) -> bytes:
    """Read a named pipe to its end; raise FormatError if nobody opens it for writing within PIPE_TIMEOUT."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not wait for a writer
    with io.FileIO(handle) as pipe:
        until = time.monotonic() + PIPE_TIMEOUT
        while not (
            first := pipe.read(_BLOCK_SIZE)
        ):  # b"": no writer, or not yet; None: a writer that has not written yet
            if first == b"" and time.monotonic() > until:
                raise FormatError(f"{path}: is a pipe that nobody writes to; start the command that writes to it first")
            time.sleep(0.02)
        os.set_blocking(handle, True)
        return _read_bounded(pipe, path, first)


def _read_bounded(stream: BinaryIO | io.RawIOBase | gzip.GzipFile, path: Path | str, start: bytes = b"") -> bytes:
    """Read a stream to its end; raise FormatError if it exceeds half of the memory."""
    limit = memory.available_memory() // 2
    content = io.BytesIO()  # its value is taken without a copy
    content.write(start)
    while block := stream.read(_BLOCK_SIZE):
        content.write(block)
        if content.tell() > limit:
            raise _build_size_error(path, limit)
    return content.getvalue()


def limit_size(count: int, path: Path | str) -> None:
    """Raise FormatError for more bytes than half of the memory: a reader needs as much again."""
    limit = memory.available_memory() // 2
    if count > limit:
        raise _build_size_error(path, limit)


def _build_size_error(path: Path | str, limit: int) -> FormatError:
    return FormatError(
        f"{path}: holds more than {memory.format_size(limit)} (unpacked), half of the memory that is free; read a part "
        f"of it, or allow more by the environment variable {memory.VARIABLE}, e.g. {memory.VARIABLE}=64G"
    )


def _gunzip(raw: bytes, path: Path | str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as plain:
            return _read_bounded(plain, path)
    except EOFError:
        raise FormatError(f"{path}: the gzip data end too early (truncated file); copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{path}: damaged gzip data ({error}); copy or download it again") from None


def refuse_utf16(raw: bytes, path: Path | str) -> None:
    """Raise FormatError for UTF-16 without a byte-order mark."""
    start = raw[:400]
    if start.count(0) > len(start) // 4:  # every other byte of Latin text is 0
        order = "le" if start[1:2] == b"\0" else "be"
        raise FormatError(
            f"{path}: looks like UTF-16 without a byte-order mark; convert the file first, e.g. "
            f"`iconv -f utf-16{order} -t utf-8`"
        )


def decode_text(raw: bytes, path: Path | str) -> str:
    """Decode UTF-8; raise FormatError with the line of the first invalid byte."""
    refuse_utf16(raw, path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{path} line {line}: byte 0x{raw[error.start]:02x} is not valid UTF-8; "
            "convert the file first, e.g. `iconv -f latin1 -t utf-8`"
        ) from None


def _find_broken_line(raw: bytes) -> int:
    """Return the line of the first byte that is not UTF-8; JSON decoders count from the start of its string."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return raw.count(b"\n", 0, error.start) + 1
    return 1


def decode_json(raw: bytes | str, where: str, remedy: str) -> Any:
    """Decode one JSON document; raise FormatError with `where` and `remedy` if it is not valid.

    >>> decode_json(b'{"a": [1, 2]}', "x.json", "")
    {'a': [1, 2]}
    """
    try:
        value = msgspec.json.decode(raw)
        text = raw.encode() if isinstance(raw, str) else raw
        require_unique_keys(text, count_keys(value), [(where, text)])
    except RecursionError:
        raise FormatError(f"{where}: nested too deeply to be JSON of aliquot; {remedy}") from None
    except UnicodeDecodeError as error:
        number = _find_broken_line(raw) if isinstance(raw, bytes) and b"\n" in raw else None
        line = f" line {number}" if number else ""
        raise FormatError(f"{where}{line}: not valid UTF-8 ({error.reason}); save the file as UTF-8") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise FormatError(f"{where}: not valid JSON ({error}); {remedy}") from None
    return value


def count_keys(value: Any) -> int:
    """Count the keys of all objects in a decoded JSON value.

    >>> count_keys({"a": {"b": 1}, "c": [{"d": 2}]})
    4
    """
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    count = len(value) if isinstance(value, dict) else 0
    return count if _SCALAR_TYPES.issuperset(map(type, inside)) else count + sum(map(count_keys, inside))


def require_unique_keys(raw: bytes, keys: int, parts: Iterable[tuple[str, bytes]]) -> None:
    """Raise FormatError for a key that occurs twice in a JSON object: decoders silently keep the last.

    `keys` is how many were decoded from the whole of `raw`. Every key stands before `":` in the text, so that equal
    counts prove that none was lost; only a text in which they differ is read again, by its `parts`: where each stands,
    and its text.
    """
    if _count_written_keys(raw) == keys:
        return
    for where, text in parts:
        try:
            json.loads(
                text, object_pairs_hook=_require_unique_pairs, parse_int=len, parse_float=len
            )  # no int has 5,000 digits
        except _RepeatedKeyError as error:
            raise FormatError(f"{where}: the key {error} occurs twice in one object; remove one of the two") from None
        except RecursionError:
            raise FormatError(f"{where}: nested too deeply to be JSON of aliquot; make it flatter") from None


def _count_written_keys(raw: bytes) -> int:
    r"""Count the colons after a closing quote; -1 if spaces or backslashes make that uncertain.

    >>> _count_written_keys(b'{"a": {"b": "\\":"}}'), _count_written_keys(b'{"a" : 1}')
    (2, -1)
    """
    text = np.frombuffer(raw, np.uint8)
    before = np.flatnonzero(text == ord(":")) - 1
    kind = text[before]
    after_quote = before[kind == ord('"')]
    spaced = before[kind <= ord(" ")]
    while len(spaced):  # back over white space to what stands before it
        before_space = text[spaced]
        quotes = spaced[before_space == ord('"')]
        if ((text[quotes - 1] != _BACKSLASH) | (text[quotes - 2] == _BACKSLASH)).any():
            return -1
        spaced = spaced[(before_space <= ord(" ")) & (spaced > 0)] - 1
    within = after_quote[text[after_quote - 1] == _BACKSLASH]
    if (text[within - 2] == _BACKSLASH).any():  # a key that ends in a backslash
        return -1
    return len(after_quote) - len(within)


def number_lines(raw: bytes, path: Path | str) -> Iterator[tuple[str, bytes]]:
    """Yield the position and the text of each line that is not empty."""
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if line and not line.isspace():
            yield f"{path} line {number}", line


class _RepeatedKeyError(Exception):
    """A key that occurs twice."""


def _require_unique_pairs(pairs: list[tuple[str, Any]]) -> None:
    keys = set()
    for key, _ in pairs:
        if key in keys:
            raise _RepeatedKeyError(json.dumps(key, ensure_ascii=False))
        keys.add(key)


def first_character(raw: bytes) -> bytes:
    """Return the first byte that is not white space, without copying the rest."""
    return raw[: 1 << 16].lstrip()[:1]
