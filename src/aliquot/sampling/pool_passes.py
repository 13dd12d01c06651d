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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from aliquot.core.parallel import run_tasks
from aliquot.errors import DataError, FormatError, OptionError, OutputError
from aliquot.io.files import whole_file, write_bytes
from aliquot.sampling.pool_files import Partition, Pool
from aliquot.sampling.pool_measure import NAMES, Arrays, Wanted, hash_of, measure
from aliquot.sampling.pool_reading import items_at
from aliquot.stats.arrays import IntArray

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


# -- Two passes over a pool: the first measures every source, the second fetches the chosen items --------------------


Progress = Callable[[str, float, int], None]
"""Called with what is going on, the share that is done, and the number of items so far."""

_SHOWN = 50


@dataclass(frozen=True)
class Measured:
    """A pool after the first pass: where every row stands, and the arrays on disk."""

    pool: Pool
    parts: Parts
    starts: IntArray
    """The row at which each partition begins; the last entry is the number of items."""

    @property
    def n_items(self) -> int:
        """The number of items of the pool."""
        return int(self.starts[-1])

    @property
    def ids_are_texts(self) -> bool:
        """Whether any id is a text: then all are."""
        return any(kinds & NAMES for kinds in self.parts.distinct("kinds"))


def first_pass(
    pool: Pool, wanted: Wanted, parts: Parts, *, jobs: int | None, engine: str | None, progress: Progress | None
) -> Measured:
    """Measure the partitions that are not done yet, each on some worker, and keep each as it is ready."""
    left = [partition for partition in pool.partitions if partition.number not in parts.done]
    total = sum(partition.weight for partition in pool.partitions) or 1.0
    done = total - sum(partition.weight for partition in left)
    items = 0
    if progress is not None:
        progress("measuring", done / total, items)
    for number, arrays in run_tasks(partial(measure, pool=_light(pool), wanted=wanted), left, jobs=jobs, engine=engine):
        parts.add(number, arrays)
        done += pool.partitions[number].weight
        items += len(arrays["id"])
        if progress is not None:
            progress("measuring", done / total, items)
    lengths = parts.lengths()
    if not lengths.sum():
        raise FormatError(f"{', '.join(pool.files[:3])}: no item at all; each line or row should be one source")
    if len(parts.distinct("check")) > 1:
        raise OptionError("the workers run different versions of polars, whose hashes differ; install the same on all")
    return Measured(pool, parts, np.concatenate([[0], np.cumsum(lengths)]))


def _light(pool: Pool) -> Pool:
    """What a worker needs to know of the pool: how columns are called."""
    return replace(pool, files=(), partitions=())


def fetch(
    measured: Measured, rows: IntArray, *, jobs: int | None = 1, engine: str | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the whole items at these rows of the pool, in the order asked for; an absent id is the row's number."""
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    cuts = np.searchsorted(ascending, measured.starts)
    tasks = [
        (partition, (ascending[cuts[at] : cuts[at + 1]] - measured.starts[at]).tolist())
        for at, partition in enumerate(measured.pool.partitions)
        if cuts[at] < cuts[at + 1]
    ]
    found: dict[int, list[dict[str, Any]]] = {}
    for number, records in run_tasks(partial(_fetch, pool=_light(measured.pool)), tasks, jobs=jobs, engine=engine):
        found[number] = records
        if progress is not None:
            progress("fetching", len(found) / max(1, len(tasks)), sum(map(len, found.values())))
    in_order = [record for number in sorted(found) for record in found[number]]
    texts = measured.ids_are_texts
    fetched: list[dict[str, Any]] = [{}] * len(rows)
    for place, row, record in zip(order.tolist(), ascending.tolist(), in_order, strict=True):
        item = row if record.get("id") is None else record["id"]
        fetched[place] = {**record, "id": str(item) if texts else item}
    return fetched


def _fetch(task: tuple[Partition, Sequence[int]], pool: Pool) -> tuple[int, list[dict[str, Any]]]:
    partition, rows = task
    return partition.number, items_at(pool, partition, rows)


def place_of(measured: Measured, row: int) -> str:
    """Say where a row of the pool stands: file and item number in it."""
    at = int(np.searchsorted(measured.starts, row, side="right")) - 1
    partition = measured.pool.partitions[at]
    first = next(p.number for p in measured.pool.partitions if p.path == partition.path)
    return f"{partition.path} item number {row - int(measured.starts[first]) + 1}"


def refuse_repeated_ids(measured: Measured) -> None:
    """Raise when two items of the pool bear the same id, in whatever partitions they stand."""
    hashes = measured.parts.column("id")
    absent = np.flatnonzero(hashes == 0)
    if absent.size:
        hashes[absent] = hash_of([str(row) for row in absent.tolist()])
    ordered = np.sort(hashes)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    for value in repeated[:_SHOWN]:
        rows = np.flatnonzero(hashes == value)[:_SHOWN]  # a column of few values may have been named as the id
        first_of: dict[str, int] = {}
        for row, record in zip(rows.tolist(), fetch(measured, rows), strict=True):
            earlier = first_of.setdefault(str(record["id"]), row)
            if earlier != row:
                raise DataError(
                    f"the item id {record['id']!r} occurs twice: {place_of(measured, earlier)}, and "
                    f"{place_of(measured, row)}; give every item its own id"
                )
