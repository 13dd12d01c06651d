"""What the first pass takes from a partition: a few numbers for every source, and never the texts themselves.

Invariant: an array's entry depends on its own source only, so that any cutting into partitions, on any engine, gives
the same arrays. Texts that must be told apart (ids, documents, groups) become 64-bit hashes; 0 stands for none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aliquot.data.evalset import EvalSet
from aliquot.data.lengths import source_lengths
from aliquot.errors import DataError
from aliquot.pool.minhash import signatures
from aliquot.pool.reading import read_partition
from aliquot.pool.source import Partition, Pool
from aliquot.pool.values import HINTS, Value, predicted
from aliquot.pool.vectors import vectors_of
from aliquot.select.budget import ESA_SECONDS, ESA_SECONDS_PER_WORD

Arrays = dict[str, NDArray[np.generic]]
ESA_TIME, NO_GROUP = "esa_time", "(none)"
NUMBERS, NAMES = 1, 2
"""Marks of the kinds of ids that occur: whole numbers, texts."""


@dataclass(frozen=True)
class Wanted:
    """What the first pass is to take.

    Attributes:
        value: the utility or size of every source, or None.
        length: whether the lengths of the sources are needed.
        document: whether documents matter, and `position` the items' positions in them.
        groups: columns whose values are groups (bins, balance).
        cost: a column, `esa_time`, or None.
        dedup: exact or near, to find sources that repeat an earlier one; or None.
        vectors: the model of the vectors for clusters, or None.
    """

    value: Value | None = None
    length: bool = False
    document: bool = False
    position: bool = False
    groups: tuple[str, ...] = ()
    cost: str | None = None
    dedup: str | None = None
    vectors: str | None = None

    def __str__(self) -> str:
        """What is taken, in a few words, for the signature of the parts."""
        said = [] if self.value is None else [" ".join(filter(None, vars(self.value).values()))]
        for name, value in vars(self).items():
            if name != "value" and value:
                said.append(name if value is True else f"{name} {value if isinstance(value, str) else ','.join(value)}")
        return ", ".join(said) or "ids"

    @property
    def needs_source(self) -> bool:
        """Whether the texts have to be read at all."""
        by_text = self.value is not None and self.value.kind != "column"
        return bool(by_text or self.length or self.dedup or self.vectors or self.cost == ESA_TIME)


def measure(partition: Partition, pool: Pool, wanted: Wanted) -> tuple[int, Arrays]:
    """Return the partition's number and its arrays."""
    names = ["id"]
    names += ["source"] if wanted.needs_source else []
    names += ["document"] if wanted.document else []
    names += ["position"] if wanted.position else []
    if wanted.value is not None and wanted.value.kind == "column":
        names.append(wanted.value.name)
    if wanted.cost not in (None, ESA_TIME):
        names.append(str(wanted.cost))
    hints = HINTS if wanted.value is not None and wanted.value.kind == "model" else ()
    tables = read_partition(pool, partition, list(dict.fromkeys(names)), wanted.groups, hints)
    parts = [_of_table(table, partition, wanted) for table in tables]
    parts = [part for part in parts if len(part["id"])]
    if not parts:
        return partition.number, {"id": np.zeros(0, dtype=np.uint64)}
    arrays: Arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    arrays["check"] = np.array([_hashed(pl.Series(["aliquot"]))[0]], dtype=np.uint64)
    arrays["kinds"] = np.array([np.bitwise_or.reduce(arrays["kinds"])], dtype=np.uint8)
    return partition.number, arrays


def _of_table(table: pl.DataFrame, partition: Partition, wanted: Wanted) -> Arrays:
    ids = table["id"]
    kind = NUMBERS if ids.dtype.is_integer() or ids.null_count() == len(ids) else NAMES
    arrays: Arrays = {"id": _hashed(ids.cast(pl.String)), "kinds": np.array([kind], dtype=np.uint8)}
    if wanted.length or wanted.cost == ESA_TIME or (wanted.value is not None and wanted.value.kind == "length"):
        rows = EvalSet(items=table.select("source").with_row_index("id"), systems=())
        arrays["length"] = source_lengths(rows)
    if wanted.value is not None:
        arrays |= _values(table, arrays, wanted.value, partition)
    if wanted.cost is not None:
        arrays["cost"] = _costs(table, arrays, wanted.cost, partition)
    if wanted.document:
        arrays["document"] = _hashed(table["document"])
    if wanted.position:
        arrays["position"] = table["position"].cast(pl.Int64).fill_null(np.iinfo(np.int64).min).to_numpy()
    for name in wanted.groups:
        arrays[f"group:{name}"] = _hashed(table[f"label:{name}"].fill_null(NO_GROUP))
    if wanted.dedup is not None:
        plain = normalised(table["source"])
        arrays["text"] = _hashed(plain)
        if wanted.dedup == "near":
            arrays["signature"] = signatures(plain)
    if wanted.vectors is not None:
        arrays["vector"] = vectors_of(table["source"].fill_null("").to_list(), wanted.vectors)
    return arrays


def _values(table: pl.DataFrame, arrays: Arrays, value: Value, partition: Partition) -> Arrays:
    if value.kind == "length":
        return {"value": arrays["length"]}
    if value.kind == "column":
        return {"value": table[value.name].fill_null(np.nan).to_numpy()}
    found, unlike = predicted(value, table, partition.path)
    return {"value": found} if unlike is None else {"value": found, "unlike": unlike}


def _costs(table: pl.DataFrame, arrays: Arrays, cost: str, partition: Partition) -> NDArray[np.generic]:
    if cost == ESA_TIME:
        lengths = arrays["length"].astype(np.float64)
        return ESA_SECONDS_PER_WORD * np.where(np.isfinite(lengths), lengths, 0.0) + ESA_SECONDS
    values = table[cost].fill_null(np.nan).to_numpy()
    bad = ~((values > 0) & (values < np.inf))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        what = "missing" if np.isnan(values[at]) else f"{values[at]:g}"
        raise DataError(
            f"{partition.path}: item {table['id'][at]!r} has the cost {what} (column '{cost}'); costs must be positive"
        )
    return values


def _hashed(values: pl.Series) -> NDArray[np.uint64]:
    """64 bits for each text; 0 where there is none."""
    hashes = np.array(values.hash(seed=0).to_numpy(), dtype=np.uint64)
    hashes[hashes == 0] = 1
    if values.null_count():
        hashes[values.is_null().to_numpy()] = 0
    return hashes


def hash_of(values: list[str]) -> NDArray[np.uint64]:
    """Hash texts as the first pass does.

    >>> bool(hash_of(["a"])[0] == hash_of(["a", "b"])[0])
    True
    """
    return _hashed(pl.Series(values, dtype=pl.String))


def normalised(source: pl.Series) -> pl.Series:
    r"""Write texts alike that read alike: compatible characters, lower case, single spaces.

    >>> normalised(pl.Series(["A\u00a0 Cat ", None])).to_list()
    ['a cat', '']
    """
    plain = source.fill_null("").str.normalize("NFKC").str.to_lowercase()
    return plain.str.replace_all(r"\s+", " ").str.strip_chars()
