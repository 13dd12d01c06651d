"""The parts of a first pass on disk: one file for each finished partition, so that a killed run goes on.

A part is written whole or not at all; the folder lies beside the output and bears the signature of the run, so that
another run's parts are never mixed in. Columns are put together one at a time: memory holds only those in use.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass
class Parts:
    """Finished partitions by number."""

    folder: Path
    count: int
    done: set[int] = field(default_factory=set)

    def add(self, number: int, arrays: Arrays) -> None:
        """Keep a finished partition for good."""
        with whole_file(self._file(number)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        self.done.add(number)

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"

    def _each(self, name: str) -> Iterator[NDArray[np.generic]]:
        for number in range(self.count):
            try:
                with np.load(self._file(number), allow_pickle=False) as arrays:
                    if name in arrays:
                        yield arrays[name]
            except (OSError, ValueError, zipfile.BadZipFile) as error:
                text = f"{self._file(number)}: a finished part cannot be read ({error}); delete {self.folder} and start"
                raise OutputError(f"{text} anew") from None

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
        path = self.folder / f"{name}.npy"
        total, at = int(self.lengths().sum()), 0
        mapped: NDArray[np.generic] | None = None
        for part in self._each(name):
            if mapped is None:
                mapped = np.lib.format.open_memmap(path, mode="w+", dtype=part.dtype, shape=(total, *part.shape[1:]))
            mapped[at : at + len(part)] = part
            at += len(part)
        return np.zeros((0, 0)) if mapped is None else mapped


@contextmanager
def open_parts(output: Path | None, signature: str, count: int) -> Iterator[Parts]:
    """Open the parts beside an output file, with what an earlier, killed run had finished.

    They are gone when the block succeeds, or when the data are at fault, and stay otherwise; without an output file
    nothing stays.
    """
    if output is None:
        with tempfile.TemporaryDirectory(prefix="aliquot-pool-") as name:
            yield Parts(Path(name), count)
        return
    folder = parts_path(output)
    made = False
    try:
        made = _prepared(folder, signature)
        yield Parts(folder, count, {int(file.stem) for file in folder.glob("[0-9]*.npz")})
    except OSError as error:
        raise OutputError(f"{folder}: cannot keep the finished parts: {error.strerror or error}") from error
    except DataError:
        shutil.rmtree(folder, ignore_errors=True)  # other data must come, and these parts are not theirs
        raise
    except BaseException:
        if made and not any(folder.glob("[0-9]*.npz")):
            shutil.rmtree(folder, ignore_errors=True)  # nothing was finished: nothing to go on from
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _prepared(folder: Path, signature: str) -> bool:
    """Make the folder, or check that it is this run's; tell whether it was made."""
    if folder.is_dir():
        note = folder / _SIGNATURE
        found = note.read_text() if note.exists() else None
        if found is None and any(folder.iterdir()):
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
    write_bytes(folder / _SIGNATURE, signature.encode())
    return True
