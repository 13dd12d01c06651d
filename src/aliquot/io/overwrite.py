"""Protect the inputs of a run from being overwritten, in one place for all verbs.

Within `protect_inputs` every path that is opened for reading is remembered by device and inode, and every path that
is written is compared with those: links of any kind, and files in a folder that was read, are found. Outside of it,
as in Python between two calls, nothing is remembered: to load a file and to save it again is a decision of the caller.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from aliquot.errors import OptionError

STDOUT = "-"
_Key = tuple[int, int]


@dataclass
class _FileUse:
    """Inputs and outputs of a run, by device and inode (new outputs by path)."""

    inputs: dict[_Key, str] = field(default_factory=dict)
    folders: dict[_Key, str] = field(default_factory=dict)
    outputs: dict[_Key | str, str] = field(default_factory=dict)
    in_place: set[_Key] = field(default_factory=set)
    printed: str | None = None  # what goes to standard output, and nothing else may


_FILE_USE: ContextVar[_FileUse | None] = ContextVar("run", default=None)


@contextmanager
def protect_inputs() -> Iterator[None]:
    """Refuse, within the block, to write over a file that is read in it; nested blocks are one.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "data.csv"
    >>> _ = path.write_text("x")
    >>> with protect_inputs():
    ...     register_input(path)
    ...     refuse_overwrite(path)
    Traceback (most recent call last):
        ...
    aliquot.errors.OptionError: .../data.csv: is read by this run and would be overwritten; name another output
    """
    if _FILE_USE.get() is not None:
        yield
        return
    token = _FILE_USE.set(_FileUse())
    try:
        yield
    finally:
        _FILE_USE.reset(token)


def register_input(path: Path | str | int) -> None:
    """Register a file, folder or open handle as an input of this run."""
    run = _FILE_USE.get()
    about = _stat_path(path)
    if run is None or about is None:
        return
    key, name = (about.st_dev, about.st_ino), "standard input" if isinstance(path, int) else str(path)
    if stat.S_ISDIR(about.st_mode):
        run.folders.setdefault(key, name)
    elif stat.S_ISREG(about.st_mode):  # a terminal or a pipe is no file that could be lost
        run.inputs.setdefault(key, name)
    else:
        return
    for output in run.outputs.values():
        refuse_overwrite(output)


def register_output(path: Path | str) -> None:
    """Register a path as an output of this run; raise OptionError if it cannot be one."""
    run = _FILE_USE.get()
    if run is None:
        return
    refuse_overwrite(path)
    if is_stdout(path):
        claim_stdout(str(path))
        return
    about = _stat_path(path)
    if about is not None and not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        return  # a device may take several
    key = os.path.realpath(path) if about is None else (about.st_dev, about.st_ino)
    if key in run.outputs:
        raise OptionError(f"{path}: is named twice as an output (also as {run.outputs[key]}); give each its own file")
    run.outputs[key] = str(path)


def claim_stdout(name: str) -> None:
    """Register what is printed to standard output: an output file ('-') or a JSON document, not both."""
    run = _FILE_USE.get()
    if run is None:
        return
    if run.printed is not None:
        raise OptionError(f"{run.printed} and {name} would both go to standard output; write one of them to a file")
    run.printed = name


def allow_in_place(path: Path | str) -> None:
    """Allow this run to write over an input."""
    run, about = _FILE_USE.get(), _stat_path(path)
    if run is not None and about is not None:
        run.in_place.add((about.st_dev, about.st_ino))


def refuse_overwrite(path: Path | str) -> None:
    """Raise OptionError if a path is an input of this run, or lies in a folder that is one."""
    run = _FILE_USE.get()
    if run is None or not (run.inputs or run.folders):
        return
    about = _stat_path(_get_stdout_handle() if str(path) == STDOUT else path)
    key = None if about is None else (about.st_dev, about.st_ino)
    if key is not None and key in run.inputs and key not in run.in_place:
        name = run.inputs[key]
        spelling = "" if name == str(path) else f" as {name}"
        raise OptionError(f"{path}: is read by this run{spelling} and would be overwritten; name another output")
    if str(path) == STDOUT or not run.folders:
        return
    place = Path(os.path.realpath(path))
    for folder in (place, *place.parents):
        about = _stat_path(folder)
        if about is not None and (about.st_dev, about.st_ino) in run.folders:
            name = run.folders[about.st_dev, about.st_ino]
            raise OptionError(f"{path}: is in the folder {name}, which this run reads; name an output outside of it")


def is_stdout(path: Path | str | None) -> bool:
    """Return whether a path is standard output: '-', /dev/stdout and the like.

    >>> is_stdout("-"), is_stdout(Path("/dev/stdout")), is_stdout("out.csv"), is_stdout(None)
    (True, True, False, False)
    """
    return str(path) in (STDOUT, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_stdout_claimed() -> bool:
    """Return whether this run writes a file to standard output."""
    run = _FILE_USE.get()
    return run is not None and is_stdout(run.printed)


def _get_stdout_handle() -> int:
    with suppress(OSError, ValueError, AttributeError):  # a stream in memory, as tests and notebooks have
        return sys.stdout.fileno()
    return -1


def _stat_path(path: Path | str | int) -> os.stat_result | None:
    with suppress(OSError, ValueError):
        return os.fstat(path) if isinstance(path, int) else Path(path).stat()
    return None
