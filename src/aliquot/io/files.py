"""Reading files whole with errors that help, and writing them whole or not at all."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aliquot.errors import FormatError, OutputError

STDIN = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def require_readable(path: Path) -> None:
    """Raise what a person needs to know when `path` cannot be opened at all."""
    try:
        there = path.exists()
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror or error}; check the path") from None
    if not there:
        raise FormatError(f"{path}: no such file or folder; check the path ({_near_names(path)})")
    if not os.access(path, os.R_OK):
        raise FormatError(f"{path}: no permission to read it; change its permissions (chmod +r) or copy it")


def _near_names(path: Path) -> str:
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


def read_bytes(path: Path | str) -> bytes:
    """Read a file or standard input ("-"), undoing gzip by content; text in UTF-16 with its mark becomes UTF-8."""
    if str(path) == STDIN:
        raw = sys.stdin.buffer.read()
    else:
        path = Path(path)
        require_readable(path)
        if path.is_dir():
            raise FormatError(f"{path}: is a folder where a file is meant; name a file inside it")
        raw = path.read_bytes()
    if raw.startswith(_GZIP_MAGIC):
        raw = _gunzip(raw, path)
    if raw.startswith(_UTF16_BOMS):
        try:
            return raw.decode("utf-16").encode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: damaged UTF-16 ({error.reason}); save the file as UTF-8") from None
    return raw.removeprefix(_UTF8_BOM)


def _gunzip(raw: bytes, path: Path | str) -> bytes:
    try:
        return gzip.decompress(raw)
    except EOFError:
        raise FormatError(f"{path}: the gzip data end too early (truncated file); copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{path}: damaged gzip data ({error}); copy or download it again") from None


def refuse_utf16(raw: bytes, path: Path | str) -> None:
    """Raise for text in UTF-16 without its mark, which would be read as gibberish."""
    start = raw[:400]
    if start.count(0) > len(start) // 4:  # every other byte of Latin text is 0
        order = "le" if start[1:2] == b"\0" else "be"
        raise FormatError(
            f"{path}: looks like UTF-16 without a byte-order mark; convert the file first, e.g. "
            f"`iconv -f utf-16{order} -t utf-8`"
        )


def decode_text(raw: bytes, path: Path | str) -> str:
    """Decode UTF-8, naming the line of the first byte that is not."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{path} line {line}: byte 0x{raw[error.start]:02x} is not valid UTF-8; "
            "convert the file first, e.g. `iconv -f latin1 -t utf-8`"
        ) from None


def first_character(raw: bytes) -> bytes:
    """Return the first byte that is not white space, without copying the rest."""
    return raw[: 1 << 16].lstrip()[:1]


@contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """Give a temporary path beside `path`, renamed onto it only when the block succeeds.

    A full disk, a kill or an error inside the block leaves whatever stood at `path` intact and nothing else behind.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise OutputError(f"{path}: is a folder where an output file is meant; name a file inside it")
        require_folder_above(path)
        with _temporary(path, folder=False) as temporary:
            yield temporary
            temporary.chmod(_mode_for(path))
            temporary.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from None


@contextmanager
def whole_folder(path: Path | str) -> Iterator[Path]:
    """Give a temporary folder beside `path`; its files are moved to `path` only when the block succeeds.

    Files that stand there already and were not written anew stay.
    """
    path = Path(path)
    try:
        require_folder_above(path)
        with _temporary(path, folder=True) as temporary:
            yield temporary
            _move_files(temporary, path)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _move_files(source: Path, target: Path) -> None:
    if not target.exists():
        source.chmod(0o777 & ~_umask())
        source.replace(target)
        return
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)


def require_folder_above(path: Path) -> None:
    """Refuse a path in a folder that does not exist: a typing error should not become a folder."""
    if not path.parent.exists():
        raise OutputError(f"{path}: the folder {path.parent} does not exist; create it first: mkdir -p '{path.parent}'")


@contextmanager
def _temporary(path: Path, *, folder: bool) -> Iterator[Path]:
    """Give an empty file or folder beside `path` that is gone afterwards, whatever happens."""
    prefix, suffix = f".{path.name}.", ".tmp"
    if folder:
        made = tempfile.TemporaryDirectory(dir=path.parent, prefix=prefix, suffix=suffix, ignore_cleanup_errors=True)
        with made as name:
            yield Path(name)
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=suffix)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        with suppress(OSError):
            Path(name).unlink(missing_ok=True)


def _mode_for(path: Path) -> int:
    """Return the mode of the file to be replaced, or what a newly created file would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    return 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cannot_write(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(f"{path}: cannot be written ({reason}); free space or choose another -o; nothing was changed")


def write_bytes(path: Path | str, content: bytes) -> None:
    """Write `content` whole or not at all; an ending in .gz compresses it."""
    if str(path).endswith(".gz"):
        content = gzip.compress(content, compresslevel=6, mtime=0)  # no time stamp: same data, same bytes
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
