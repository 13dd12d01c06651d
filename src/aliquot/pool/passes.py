"""Two passes over a pool: the first measures every source, the second fetches the chosen items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from aliquot.data.engine import run_tasks
from aliquot.errors import DataError, FormatError, OptionError
from aliquot.pool.measure import NAMES, Wanted, hash_of, measure
from aliquot.pool.parts import Parts
from aliquot.pool.reading import items_at
from aliquot.pool.source import Partition, Pool
from aliquot.stats.arrays import IntArray

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
