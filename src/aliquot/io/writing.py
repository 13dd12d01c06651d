"""Writing files and folders whole or not at all; streams (standard output, pipes, devices) are written to as they are.

Invariant: a path holds either what it held before or all of the new content, after a kill or a power cut, too: a
temporary file beside the target is written, synced and renamed onto it, and the folder is synced. A symbolic link is
followed and stays one. What killed runs left behind is removed by the next run that writes to the same folder.
"""

from __future__ import annotations

import ctypes
import gzip
import io
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from aliquot.errors import OutputError
from aliquot.io.files import PIPE_TIMEOUT
from aliquot.io.locks import get_current_process, is_abandoned
from aliquot.io.overwrite import STDOUT, is_stdout, refuse_overwrite
from aliquot.io.parquet_seal import BLANK_CHECKSUM, CHECKSUM_KEY, fill_checksum

if TYPE_CHECKING:
    import polars as pl

_LEFTOVER = re.compile(r"\..*\.aliquot-([0-9a-f]{8}-\d+-\d+)-[^.]*\.tmp", re.DOTALL)
_MAX_NAME_BYTES = 100  # bytes of a file's name that its temporary file repeats; names end at 255
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux


def write_bytes(path: Path | str, content: bytes) -> None:
    """Write `content` whole or not at all; compress it if the path ends in .gz."""
    if str(path).endswith(".gz"):
        content = gzip.compress(content, compresslevel=6, mtime=0)  # no time stamp: same data, same bytes
    _write_whole(path, content)


def write_parquet(table: pl.DataFrame, path: Path | str, metadata: dict[str, str] | None = None) -> None:
    """Write a table as Parquet, whole or not at all."""
    content = io.BytesIO()  # Polars' own errors do not identify a full disk
    table.write_parquet(content, metadata={**(metadata or {}), CHECKSUM_KEY: BLANK_CHECKSUM})
    _write_whole(path, fill_checksum(content.getvalue()))


def _write_whole(path: Path | str, content: bytes | memoryview) -> None:
    if is_stream(path):
        refuse_overwrite(path)
        _write_stream(path, content)
    else:
        with atomic_file(path) as temporary:
            temporary.write_bytes(content)


@contextmanager
def atomic_file(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`, renamed to it if the block succeeds; not for streams.

    A full disk, a kill or an error inside the block leaves whatever stood at `path` intact and nothing else behind.
    """
    refuse_overwrite(path)
    target = Path(os.path.realpath(path))
    try:
        _require_writable_file(target)
        with _hold_temporary(target, folder=False) as temporary:
            yield temporary
            temporary.chmod(_choose_mode(target))
            _sync_path(temporary)
            temporary.replace(target)
            _sync_path(target.parent)
    except OSError as error:
        raise _build_write_error(path, error) from None


@contextmanager
def atomic_folder(path: Path | str, keep: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield a temporary folder, renamed to `path` if the block succeeds.

    Files of the old folder that `keep` names, relative to it, are in the new one, too; its other files go.
    """
    refuse_overwrite(path)
    target = Path(os.path.realpath(path))
    try:
        require_parent_folder(target)
        with _hold_temporary(target, folder=True) as temporary:
            yield temporary
            for name in keep:
                (temporary / name).parent.mkdir(parents=True, exist_ok=True)
                _link_or_copy(target / name, temporary / name)
            temporary.chmod(_choose_mode(target, 0o777))
            for inside in (*temporary.rglob("*"), temporary):
                _sync_path(inside)
            _swap_folders(temporary, target)
            _sync_path(target.parent)
    except OSError as error:
        raise _build_write_error(path, error) from None


@contextmanager
def new_folder(path: Path | str) -> Iterator[Path]:
    """Yield a temporary folder, renamed to `path` if the block succeeds; a folder there must be empty."""
    if is_stream(path):
        raise OutputError(f"{path}: several files cannot be written to a stream; name a folder")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{path}: is a file where an output folder is meant; name another")
    if folder.is_dir() and any(folder.iterdir()):
        raise OutputError(f"{path}: holds files already; name a new folder, or delete it")
    with atomic_folder(path) as temporary:
        yield temporary


def require_parent_folder(path: Path) -> None:
    """Raise OutputError if the path's folder does not exist."""
    if not path.parent.exists():
        raise OutputError(f"{path}: the folder {path.parent} does not exist; create it first: mkdir -p '{path.parent}'")


def require_writable_path(path: Path) -> None:
    """Raise OutputError if a path cannot be written, as far as that shows before the work."""
    if not is_stream(path):
        _require_writable_file(Path(os.path.realpath(path)))


def _require_writable_file(path: Path) -> None:
    if path.is_dir():
        raise OutputError(f"{path}: is a folder where an output file is meant; name a file inside it")
    if path.is_symlink():  # its target was looked up before
        raise OutputError(f"{path}: is a symbolic link that leads back to itself; delete it, or name another output")
    require_parent_folder(path)


def _build_write_error(path: Path | str, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(f"{path}: cannot be written ({reason}); free space or choose another -o; nothing was changed")


# -- Temporary files beside the target, and those that killed runs left ----------------------------------------------


@contextmanager
def _hold_temporary(path: Path, *, folder: bool) -> Iterator[Path]:
    """Yield an empty file or folder beside `path`, and remove it afterwards."""
    temporary = make_temporary(path, folder=folder)
    try:
        yield temporary
    finally:
        _remove_path(temporary)


def make_temporary(path: Path, *, folder: bool) -> Path:
    """Make an empty file or folder beside `path`, with this process in its name."""
    _remove_leftovers(path.parent)
    name = os.fsdecode(os.fsencode(path.name)[:_MAX_NAME_BYTES])
    prefix, suffix = f".{name}.aliquot-{get_current_process().token}-", ".tmp"
    if folder:
        return Path(tempfile.mkdtemp(dir=path.parent, prefix=prefix, suffix=suffix))
    handle, path_made = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=suffix)
    os.close(handle)
    return Path(path_made)


@cache  # once a process and folder: a cache folder holds many files
def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders of processes that have ended."""
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            match = _LEFTOVER.fullmatch(entry.name)
            if match is not None and is_abandoned(match.group(1)):
                _remove_path(Path(entry.path))


def _remove_path(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _choose_mode(path: Path, new: int = 0o666) -> int:
    """Return the mode of the existing file, or of a new one."""
    if path.exists():
        return path.stat().st_mode & 0o777
    return new & ~_read_umask()


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_path(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    with suppress(OSError) if path.is_dir() else nullcontext():  # not every system syncs folders
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def _swap_folders(new: Path, target: Path) -> None:
    """Replace a folder by another, atomically where the system can."""
    if not target.exists() or not any(target.iterdir()):
        new.replace(target)  # an empty folder is replaced, too
        return
    if _exchange_paths(new, target):
        return  # the old one has the temporary name now
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}.replaced-"))  # no name that is cleaned
    target.replace(old)
    try:
        new.replace(target)
    except OSError:
        old.replace(target)
        raise
    _remove_path(old)


def _exchange_paths(first: Path, second: Path) -> bool:
    """Swap two paths by renameat2 of Linux; False where there is none."""
    try:
        swap = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(swap(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0)


# -- Streams: standard output, pipes, devices ------------------------------------------------------------------------


def is_stream(path: Path | str) -> bool:
    """Return whether a path is a stream: standard output ("-"), a pipe, a device, an open file (/dev/fd/3).

    >>> is_stream("-"), is_stream("/dev/null"), is_stream("/dev/fd/3"), is_stream("out.csv")
    (True, True, True, False)
    """
    if str(path) == STDOUT:
        return True
    if os.fspath(path).startswith(("/dev/fd/", "/dev/std", "/proc/")):  # open files, regular or not
        return True
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def resolve_ending(path: Path | str, default: str) -> str:
    """Return the name whose ending gives the format: the path, or `default` for a stream without ending.

    >>> resolve_ending("out.csv.gz", ".json"), resolve_ending("-", ".json")
    ('out.csv.gz', '.json')
    """
    return default if is_stream(path) and not Path(path).suffix else str(path)


def _write_stream(path: Path | str, content: bytes | memoryview) -> None:
    try:
        if is_stdout(path):
            _write_stdout(content)
        else:
            _write_device(Path(path), content)
    except BrokenPipeError:
        raise  # the reader went away, which is no fault
    except OSError as error:
        name = "standard output" if is_stdout(path) else path
        raise OutputError(f"{name}: cannot be written ({error.strerror or error}); choose another -o") from None


def _write_device(path: Path, content: bytes | memoryview) -> None:
    handle = _open_stream(path)
    try:
        remaining = memoryview(content)
        while remaining:
            remaining = remaining[os.write(handle, remaining) :]
    finally:
        os.close(handle)


def _write_stdout(content: bytes | memoryview) -> None:
    sys.stdout.flush()
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:  # a notebook's
        sys.stdout.write(bytes(content).decode())
    else:
        raw.write(content)
    sys.stdout.flush()


def _open_stream(path: Path) -> int:
    """Open a stream for writing; wait up to PIPE_TIMEOUT for the reader of a pipe."""
    if path.is_block_device():
        raise OutputError(f"{path}: is a disk, which would be destroyed; name a file")
    match = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", str(path)) or re.fullmatch(r"/dev/std()err", str(path))
    if match is not None:
        return os.dup(int(match.group(1) or 2))  # opened anew it would begin at its start
    if not path.is_fifo():
        return os.open(path, os.O_WRONLY | os.O_APPEND)
    until = time.monotonic() + PIPE_TIMEOUT
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # fails where nobody reads
        except OSError:
            if time.monotonic() > until:
                raise OutputError(f"{path}: is a pipe that nobody reads; start the command that reads it") from None
            time.sleep(0.02)
        else:
            os.set_blocking(handle, True)
            return handle
