"""The parts of a first pass on disk: one for each finished partition, so that a killed run goes on.

Beside an output file they lie in a folder, each written whole or not at all; it bears the signature of the run, so that
another run's parts are never mixed in. Without an output file they lie in a file without a name, which is gone with the
process however that ends. Columns are put together one at a time: memory holds only those in use.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from aliquot.data.files import whole_file, write_bytes
from aliquot.errors import DataError, OutputError
from aliquot.pool.measure import Arrays

_SIGNATURE = "signature"


def parts_path(output: Path) -> Path:
    """Where the parts of an output file lie while it is in the making.

    >>> parts_path(Path("out.jsonl")).name
    'out.jsonl.part'
    """
    return output.with_name(output.name + ".part")


class _Store(Protocol):
    """Where finished partitions are kept."""

    @property
    def place(self) -> Path:
        """The folder on whose disk they are."""

    def add(self, number: int, arrays: Arrays) -> None:
        """Keep the arrays of a partition."""

    def get(self, number: int, name: str) -> NDArray[np.generic] | None:
        """Return one array of a partition; None where it has no such array."""


@dataclass(frozen=True)
class _Folder:
    """A file for each partition, to go on from."""

    place: Path

    def add(self, number: int, arrays: Arrays) -> None:
        with whole_file(self._file(number)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def get(self, number: int, name: str) -> NDArray[np.generic] | None:
        path = self._file(number)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                found: NDArray[np.generic] | None = arrays.get(name)
                return found
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            text = f"{path}: a finished part cannot be read ({error}); delete {self.place} and start anew"
            raise OutputError(text) from None

    def finished(self) -> set[int]:
        return {int(file.stem) for file in self.place.glob("[0-9]*.npz")}

    def _file(self, number: int) -> Path:
        return self.place / f"{number:06d}.npz"


@dataclass(frozen=True)
class _Nameless:
    """One file that no folder lists: nothing to go on from, and nothing to clean up."""

    file: BinaryIO
    where: dict[tuple[int, str], tuple[int, np.dtype[np.generic], tuple[int, ...]]] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        return Path(tempfile.gettempdir())

    def add(self, number: int, arrays: Arrays) -> None:
        with _telling_of_a_full_disk(self.place):
            for name, array in arrays.items():
                self.where[number, name] = (self.file.seek(0, os.SEEK_END), array.dtype, array.shape)
                self.file.write(np.ascontiguousarray(array).data)
            self.file.flush()

    def get(self, number: int, name: str) -> NDArray[np.generic] | None:
        if (number, name) not in self.where:
            return None
        start, dtype, shape = self.where[number, name]
        self.file.seek(start)
        return np.frombuffer(self.file.read(dtype.itemsize * int(np.prod(shape))), dtype=dtype).reshape(shape)


@dataclass
class Parts:
    """Finished partitions by number."""

    store: _Store
    count: int
    done: set[int] = field(default_factory=set)

    def add(self, number: int, arrays: Arrays) -> None:
        """Keep a finished partition for good."""
        self.store.add(number, arrays)
        self.done.add(number)

    def _each(self, name: str) -> Iterator[NDArray[np.generic]]:
        found = (self.store.get(number, name) for number in range(self.count))
        return (part for part in found if part is not None)

    def lengths(self) -> NDArray[np.int64]:
        """The number of items of every partition."""
        return np.array([len(part) for part in self._each("id")], dtype=np.int64)

    def column(self, name: str) -> NDArray[np.generic]:
        """One number for every item of the pool."""
        parts = list(self._each(name))
        return np.concatenate(parts) if parts else np.zeros(0)

    def distinct(self, name: str) -> set[int]:
        """The values that a one-entry array has in the parts."""
        return {int(part[0]) for part in self._each(name)}

    def rows(self, name: str) -> NDArray[np.generic]:
        """A row for every item, on disk and mapped into memory: larger than memory if need be."""
        total, at = int(self.lengths().sum()), 0
        mapped: NDArray[np.generic] | None = None
        for part in self._each(name):
            if mapped is None:
                mapped = _mapped(self.store.place, part.dtype, (total, *part.shape[1:]))
            mapped[at : at + len(part)] = part
            at += len(part)
        return np.zeros((0, 0)) if mapped is None else mapped


def _mapped(place: Path, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> NDArray[np.generic]:
    """An array in a nameless file.

    Its room is taken first: a disk that is full when a mapped page is written kills the process without a word.
    """
    size = dtype.itemsize * int(np.prod(shape))
    with _telling_of_a_full_disk(place), tempfile.TemporaryFile(dir=place) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


@contextmanager
def _telling_of_a_full_disk(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = (
            f"{place}: cannot keep the finished parts ({error.strerror or error}); free space, or set TMPDIR or -o to"
        )
        raise OutputError(f"{text} another disk") from error


@contextmanager
def open_parts(output: Path | None, signature: str, count: int) -> Iterator[Parts]:
    """Open the parts beside an output file, with what an earlier, killed run had finished.

    They are gone when the block succeeds, or when the data are at fault, and stay otherwise; without an output file
    nothing stays.
    """
    if output is None:
        with tempfile.TemporaryFile(prefix="aliquot-pool-") as file:
            yield Parts(_Nameless(cast("BinaryIO", file)), count)
        return
    folder = parts_path(output)
    with _telling_of_a_full_disk(folder):
        made = _prepared(folder, signature)
        store = _Folder(folder)
        done = store.finished()
    try:
        yield Parts(store, count, done)
    except DataError:
        shutil.rmtree(folder, ignore_errors=True)  # other data must come, and these parts are not theirs
        raise
    except BaseException:
        if made and not store.finished():
            shutil.rmtree(folder, ignore_errors=True)  # nothing was finished: nothing to go on from
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _prepared(folder: Path, signature: str) -> bool:
    """Make the folder, or check that it is this run's; tell whether it was made."""
    if folder.is_dir():
        note = folder / _SIGNATURE
        found = note.read_text() if note.exists() else None
        cut_short = f".{_SIGNATURE}."  # the run was killed while it wrote its signature
        if found is None and not all(entry.name.startswith(cut_short) for entry in folder.iterdir()):
            raise OutputError(f"{folder}: is not a folder of finished parts; move it away or name another output")
        if found is not None and found != signature:
            raise OutputError(
                f"{folder}: holds the unfinished parts of another run ({found}); finish that one, or delete the folder "
                "to start anew"
            )
        if found is not None:
            return False
    elif folder.exists():
        raise OutputError(f"{folder}: is a file where the finished parts should go; move it away")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_bytes(folder / _SIGNATURE, signature.encode())
    except OutputError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return True
