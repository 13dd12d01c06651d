"""Two passes over a pool: the first measures every source, the second fetches the chosen items.

The first pass keeps a few numbers of every source and no text, partition by partition, in a journal on disk. An
array's entry depends on its own source only, so that any cutting into partitions, on any engine, gives the same
arrays. Texts that are only compared (ids, documents, groups) become 64-bit hashes; 0 means none. Columns are put
together one at a time: memory holds only those in use.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aliquot.core.conventions import PAIR_COLUMNS, find_language_pair, source_lengths
from aliquot.core.evalset import EvalSet
from aliquot.core.parallel import run_tasks
from aliquot.errors import DataError, FormatError, OptionError
from aliquot.io.journal import Journal, build_journal_error, journal_path, open_journal
from aliquot.io.writing import is_stream
from aliquot.sampling.budgets import ESA, check_costs, esa_seconds
from aliquot.sampling.pool_methods import PassRequest, Value
from aliquot.sampling.pool_reading import Partition, Pool, read_items, read_partition
from aliquot.sampling.source_model import SourceModel
from aliquot.sampling.sources import call_predictor
from aliquot.sampling.text_vectors import embed, hashed_vectors, minhash_signatures
from aliquot.stats.arrays import IntArray

Arrays = dict[str, NDArray[np.generic]]
Progress = Callable[[str, float, int], None]
"""Called with the name of the pass, the share that is done, and the number of items so far."""

NO_GROUP = "(none)"
_NUMBERS, _NAMES = 1, 2  # the kinds of ids that occur: whole numbers, texts
_HINTS = ("domain", *PAIR_COLUMNS)  # columns that a model uses where a file has them
_ENDINGS = (".gz", ".jsonl", ".json", ".ndjson", ".parquet")
_MAX_REPEATED = 50


# -- measuring a partition -------------------------------------------------------------------------------------------


def measure_partition(partition: Partition, pool: Pool, request: PassRequest) -> tuple[int, Arrays]:
    """Return the partition's number and its arrays."""
    needed = {"id": True, "source": request.needs_source, "document": request.document, "position": request.position}
    names = [name for name, needs in needed.items() if needs]
    if request.value is not None and request.value.kind == "column":
        names.append(request.value.name)
    if request.cost not in (None, ESA):
        names.append(str(request.cost))
    hints = _HINTS if request.value_kind == "model" else ()
    tables = read_partition(pool, partition, list(dict.fromkeys(names)), request.groups, hints)
    parts = [_measure_table(table, partition, request) for table in tables if table.height]
    if not parts:
        return partition.number, {"id": np.zeros(0, dtype=np.uint64)}
    arrays: Arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    arrays["check"] = hash_texts(["aliquot"])
    arrays["kinds"] = np.array([np.bitwise_or.reduce(arrays["kinds"])], dtype=np.uint8)
    return partition.number, arrays


def _measure_table(table: pl.DataFrame, partition: Partition, request: PassRequest) -> Arrays:
    ids = table["id"]
    kind = _NUMBERS if ids.dtype.is_integer() or ids.null_count() == len(ids) else _NAMES
    arrays: Arrays = {"id": _hash_series(ids.cast(pl.String)), "kinds": np.array([kind], dtype=np.uint8)}
    if request.length or request.cost == ESA or request.value_kind == "length":
        arrays["length"] = source_lengths(EvalSet(items=table.select("source").with_row_index("id"), systems=()))
    if request.value is not None:
        arrays |= _measure_values(table, arrays, request.value, partition.path)
    if request.cost == ESA:
        arrays["cost"] = esa_seconds(arrays["length"])
    elif request.cost is not None:
        arrays["cost"] = check_costs(table[request.cost], ids, partition.path)
    if request.document:
        arrays["document"] = _hash_series(table["document"])
    if request.position:
        arrays["position"] = table["position"].cast(pl.Int64).fill_null(np.iinfo(np.int64).min).to_numpy()
    for name in request.groups:
        arrays[f"group:{name}"] = _hash_series(table[f"label:{name}"].fill_null(NO_GROUP))
    if request.dedup is not None:
        texts = normalise_texts(table["source"])
        arrays["text"] = _hash_series(texts)
        if request.dedup == "near":
            arrays["signature"] = minhash_signatures(texts)
    if request.vectors is not None:
        arrays["vector"] = hashed_vectors(table["source"].fill_null("").to_list(), request.vectors)
    return arrays


def _measure_values(table: pl.DataFrame, arrays: Arrays, value: Value, path: str) -> Arrays:
    """Return the value of every source and, for a model, its unlikeness to the training sources."""
    if value.kind == "length":
        return {"value": arrays["length"]}
    if value.kind == "column":
        return {"value": table[value.name].fill_null(np.nan).to_numpy()}
    texts = table["source"].to_list()
    if value.kind == "predictor":
        return {"value": call_predictor(value.name, texts)}
    model = _load_model(value.name, value.check)
    vectors = embed([text or "" for text in texts], value.encoder) if model.embedding else None
    pairs = value.pair if value.pair is not None else _language_pairs(table, path)
    values, unlike = model.assess(texts, pair=pairs, domain=table["hint:domain"].to_list(), vectors=vectors)
    return {"value": values, "unlike": unlike}


@lru_cache(maxsize=2)
def _load_model(name: str, digest: str) -> SourceModel:
    """Load a model once for each process."""
    del digest  # a file that changed is loaded again
    return SourceModel.load(name)


def _language_pairs(table: pl.DataFrame, path: str) -> list[str | None] | str | None:
    """Return language pairs from the columns, or else one from the file name."""
    pairs = table.select(pl.coalesce([f"hint:{name}" for name in PAIR_COLUMNS])).to_series()
    if pairs.null_count() < len(pairs):
        return pairs.to_list()
    name = Path(path).name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return find_language_pair(name)


def _hash_series(values: pl.Series) -> NDArray[np.uint64]:
    """Return 64-bit hashes; 0 for a missing text."""
    hashes = np.array(values.hash(seed=0).to_numpy(), dtype=np.uint64)
    hashes[hashes == 0] = 1
    if values.null_count():
        hashes[values.is_null().to_numpy()] = 0
    return hashes


def hash_texts(values: list[str]) -> NDArray[np.uint64]:
    """Hash texts as the first pass does.

    >>> bool(hash_texts(["a"])[0] == hash_texts(["a", "b"])[0])
    True
    """
    return _hash_series(pl.Series(values, dtype=pl.String))


def normalise_texts(source: pl.Series) -> pl.Series:
    r"""Normalise texts for comparison: NFKC, lower case, single spaces.

    >>> normalise_texts(pl.Series(["A\u00a0 Cat ", None])).to_list()
    ['a cat', '']
    """
    plain = source.fill_null("").str.normalize("NFKC").str.to_lowercase()
    return plain.str.replace_all(r"\s+", " ").str.strip_chars()


# -- the arrays of finished partitions, on disk ----------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionArrays:
    """The arrays of `count` partitions, in a journal on disk."""

    journal: Journal
    count: int
    place: Path

    def add(self, number: int, arrays: Arrays) -> None:
        """Keep a finished partition."""
        cells, offset = [], 0
        for name, array in arrays.items():
            cells.append({"name": name, "dtype": array.dtype.str, "shape": array.shape, "at": offset})
            offset += array.nbytes
        self.journal.add(str(number), cells, b"".join(array.tobytes() for array in arrays.values()))

    def _iterate_arrays(self, name: str) -> Iterator[NDArray[np.generic]]:
        for key in map(str, range(self.count)):
            for cell in self.journal.done[key]:
                if cell["name"] == name:
                    dtype, shape = np.dtype(cell["dtype"]), tuple(cell["shape"])
                    raw = self.journal.payload(key, cell["at"], dtype.itemsize * int(np.prod(shape)))
                    yield np.frombuffer(raw, dtype=dtype).reshape(shape)

    def count_items(self) -> NDArray[np.int64]:
        """Return the number of items in each partition."""
        return np.array([len(part) for part in self._iterate_arrays("id")], dtype=np.int64)

    def read_column(self, name: str) -> NDArray[np.generic]:
        """Return an array with one number for every item."""
        parts = list(self._iterate_arrays(name))
        return np.concatenate(parts) if parts else np.zeros(0)

    def distinct_values(self, name: str) -> set[int]:
        """Return the distinct values of an array with one entry per partition."""
        return {int(part[0]) for part in self._iterate_arrays(name)}

    def map_rows(self, name: str) -> NDArray[np.generic]:
        """Return an array with a row for every item, memory-mapped: it may exceed memory."""
        n_items, start = int(self.count_items().sum()), 0
        mapped: NDArray[np.generic] = np.zeros((0, 0))
        for part in self._iterate_arrays(name):
            if not start:
                mapped = _map_file(self.place, part.dtype, (n_items, *part.shape[1:]))
            mapped[start : start + len(part)] = part
            start += len(part)
        return mapped


def _map_file(place: Path, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> NDArray[np.generic]:
    """Return an array in an unnamed file.

    Space is allocated first: writing a mapped page to a full disk kills the process without a message.
    """
    size = dtype.itemsize * int(np.prod(shape))
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return np.memmap(file, dtype=dtype, mode="r+", shape=shape)
    except OSError as error:
        raise build_journal_error(place, error) from error


@contextmanager
def open_parts(output: Path | None, signature: str, count: int) -> Iterator[PartitionArrays]:
    """Open the journal of partitions beside an output file, with those that an earlier, killed run finished.

    It is deleted when the block succeeds, when the data are at fault, or when nothing is finished; otherwise it stays.
    """
    if output is None or is_stream(output):
        with tempfile.TemporaryFile(prefix="aliquot-pool-") as file:
            yield PartitionArrays(
                Journal(file=cast("BinaryIO", file), synced=False), count, Path(tempfile.gettempdir())
            )
        return
    journal: Journal | None = None
    try:
        with open_journal(output, signature) as journal:
            yield PartitionArrays(journal, count, output.parent)
    except BaseException as error:
        if journal is not None and (isinstance(error, DataError) or not journal.done):
            journal_path(output).unlink(missing_ok=True)
        raise
    journal_path(output).unlink(missing_ok=True)


# -- the two passes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredPool:
    """A pool with its measured arrays."""

    pool: Pool  # the files
    parts: PartitionArrays  # the arrays on disk
    starts: IntArray  # the row at which each partition begins; the last entry is the number of items

    @property
    def n_items(self) -> int:
        """The number of items of the pool."""
        return int(self.starts[-1])

    @property
    def files(self) -> str:
        """The first files, for messages."""
        return ", ".join(self.pool.files[:3])


def first_pass(
    pool: Pool,
    request: PassRequest,
    parts: PartitionArrays,
    *,
    jobs: int | None,
    engine: str | None,
    progress: Progress | None,
) -> MeasuredPool:
    """Measure the unfinished partitions in parallel; each is kept as soon as it is ready."""
    unfinished = [partition for partition in pool.partitions if str(partition.number) not in parts.journal.done]
    total = sum(partition.weight for partition in pool.partitions) or 1.0
    weight_done, items = total - sum(partition.weight for partition in unfinished), 0
    if progress is not None:
        progress("measuring", weight_done / total, items)
    for number, arrays in run_tasks(
        partial(measure_partition, pool=_without_files(pool), request=request), unfinished, jobs=jobs, engine=engine
    ):
        parts.add(number, arrays)
        weight_done += pool.partitions[number].weight
        items += len(arrays["id"])
        if progress is not None:
            progress("measuring", weight_done / total, items)
    lengths = parts.count_items()
    measured = MeasuredPool(pool, parts, np.concatenate([[0], np.cumsum(lengths)]))
    if not measured.n_items:
        raise FormatError(f"{measured.files}: no item at all; each line or row should be one source")
    if len(parts.distinct_values("check")) > 1:
        raise OptionError("the workers run different versions of polars, whose hashes differ; install the same on all")
    return measured


def _without_files(pool: Pool) -> Pool:
    """Return the pool with only its column names, for workers."""
    return replace(pool, files=(), partitions=())


def fetch_items(
    measured: MeasuredPool,
    rows: IntArray,
    *,
    jobs: int | None = 1,
    engine: str | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Return the whole items at these rows of the pool, in the given order; an absent id is the row's number."""
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    cuts = np.searchsorted(ascending, measured.starts)
    tasks = [
        (
            partition,
            (ascending[cuts[index] : cuts[index + 1]] - measured.starts[index]).tolist(),
        )
        for index, partition in enumerate(measured.pool.partitions)
        if cuts[index] < cuts[index + 1]
    ]
    records_of: dict[int, list[dict[str, Any]]] = {}
    for number, records in run_tasks(
        partial(_fetch_partition, pool=_without_files(measured.pool)), tasks, jobs=jobs, engine=engine
    ):
        records_of[number] = records
        if progress is not None:
            progress("fetching", len(records_of) / max(1, len(tasks)), sum(map(len, records_of.values())))
    in_order = [record for number in sorted(records_of) for record in records_of[number]]
    texts = any(kinds & _NAMES for kinds in measured.parts.distinct_values("kinds"))  # where one id is a text, all are
    fetched: list[dict[str, Any]] = [{}] * len(rows)
    for place, row, record in zip(order.tolist(), ascending.tolist(), in_order, strict=True):
        item = row if record.get("id") is None else record["id"]
        fetched[place] = {**record, "id": str(item) if texts else item}
    return fetched


def _fetch_partition(task: tuple[Partition, Sequence[int]], pool: Pool) -> tuple[int, list[dict[str, Any]]]:
    partition, rows = task
    return partition.number, read_items(pool, partition, rows)


def refuse_repeated_ids(measured: MeasuredPool) -> None:
    """Raise DataError if two items of the pool have the same id."""
    hashes = measured.parts.read_column("id")
    absent = np.flatnonzero(hashes == 0)
    if absent.size:
        hashes[absent] = hash_texts([str(row) for row in absent.tolist()])
    ordered = np.sort(hashes)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    for value in repeated[:_MAX_REPEATED]:
        rows = np.flatnonzero(hashes == value)[:_MAX_REPEATED]  # a column of few values may have been named as the id
        first_of: dict[str, int] = {}
        for row, record in zip(rows.tolist(), fetch_items(measured, rows), strict=True):
            earlier = first_of.setdefault(str(record["id"]), row)
            if earlier != row:
                raise DataError(
                    f"the item id {record['id']!r} occurs twice: {_describe_place(measured, earlier)}, and "
                    f"{_describe_place(measured, row)}; give every item its own id"
                )


def _describe_place(measured: MeasuredPool, row: int) -> str:
    """Name the file of a row of the pool and its item number there."""
    number = int(np.searchsorted(measured.starts, row, side="right")) - 1
    partition = measured.pool.partitions[number]
    first = next(p.number for p in measured.pool.partitions if p.path == partition.path)
    return f"{partition.path} item number {row - int(measured.starts[first]) + 1}"
