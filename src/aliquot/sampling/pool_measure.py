"""What the first pass takes from a partition: a few numbers for every source, and never the texts themselves.

Invariant: an array's entry depends on its own source only, so that any cutting into partitions, on any engine, gives
the same arrays. Texts that must be told apart (ids, documents, groups) become 64-bit hashes; 0 stands for none.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aliquot.core.conventions import COLUMNS, pair_in, source_lengths
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import Spec, bind
from aliquot.errors import DataError, OptionError
from aliquot.io.files import read_bytes
from aliquot.sampling.budget import ESA_SECONDS, ESA_SECONDS_PER_WORD
from aliquot.sampling.methods import lookup
from aliquot.sampling.pool_files import Partition, Pool
from aliquot.sampling.pool_reading import read_partition
from aliquot.sampling.pool_vectors import signatures, vectors_of
from aliquot.sampling.source_model import SourceModel
from aliquot.sampling.sources import imported
from aliquot.sampling.texts import embed
from aliquot.stats.arrays import FloatArray

# -- The number that a source gets: its length, a column, what a learned model or a predictor of the user's gives ----


HINTS = ("domain", *COLUMNS)
"""Columns that a model looks at where they are there."""

_ENDINGS = (".gz", ".jsonl", ".json", ".ndjson", ".parquet")


@dataclass(frozen=True)
class Value:
    """How every source gets its number.

    Attributes:
        kind: length, column, model (a file that `aliquot learn` wrote) or predictor (module:function).
        name: the column, file or function.
        pair: the language pair that a model is told.
        check: a digest of the model's or function's file, so that a run does not go on with another one.
    """

    kind: Literal["length", "column", "model", "predictor"]
    name: str = ""
    pair: str | None = None
    check: str = ""


def value_of_method(spec: Spec, pair: str | None) -> Value:
    """Read `source_length` or `source:model=FILE` (predictor=module:function, column=NAME)."""
    method, _ = lookup(spec.name)
    given = bind(spec.name, method.parameters, spec.parameters)
    if spec.name == "source_length":
        return Value("length")
    chosen = [name for name in ("model", "predictor", "column") if given.get(name)]
    if len(chosen) != 1:
        what = f"{' and '.join(chosen)} are given" if chosen else "nothing is given"
        raise OptionError(
            f"source: {what}; give one of model=FILE (from `aliquot learn`), predictor=module:function or column=NAME"
        )
    name = str(given[chosen[0]])
    if chosen == ["column"]:
        return Value("column", name)
    if chosen == ["predictor"]:
        imported(name)  # a mistake is told before any work
        code = getattr(sys.modules[name.partition(":")[0]], "__file__", None)
        return Value("predictor", name, check=_digest(code) if code else "")
    _model(name, _state(name))
    return Value("model", str(Path(name).resolve()), given.get("pair") or pair, _digest(name))


def _digest(name: str) -> str:
    return hashlib.sha256(read_bytes(name)).hexdigest()[:16]


def predicted(value: Value, table: pl.DataFrame, path: str) -> tuple[FloatArray, FloatArray | None]:
    """Return what a model or predictor gives for the sources, and for a model how unlike its own they are."""
    texts = table["source"].to_list()
    if value.kind == "predictor":
        return _by_function(value.name, texts), None
    model = _model(value.name, _state(value.name))
    vectors = embed([text or "" for text in texts], model.embedding) if model.embedding else None
    pairs = value.pair if value.pair is not None else _pairs(table, path)
    domains = table["hint:domain"].to_list()
    return model.assess(texts, pair=pairs, domain=domains, vectors=vectors)


def _pairs(table: pl.DataFrame, path: str) -> list[str | None] | str | None:
    """Every source's language pair: what its columns say, or else the file's name."""
    told = table.select(pl.coalesce([f"hint:{name}" for name in COLUMNS])).to_series()
    if told.null_count() < len(told):
        return told.to_list()
    name = Path(path).name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return pair_in(name)


def _by_function(name: str, texts: list[str | None]) -> FloatArray:
    try:
        values = np.asarray(imported(name)([text or "" for text in texts]), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"source: the predictor {name} did not give numbers ({error})") from None
    if values.shape != (len(texts),):
        raise DataError(f"source: the predictor {name} gave an array of shape {values.shape} for {len(texts)} sources")
    return np.where(np.isfinite(values), values, np.nan)


def _state(name: str) -> tuple[int, int]:
    path = Path(name)
    return (path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else (0, 0)


@lru_cache(maxsize=2)
def _model(name: str, state: tuple[int, int]) -> SourceModel:
    """Load a model once for each process."""
    del state  # a file that changed is loaded anew
    return SourceModel.load(name)


# -- What the first pass takes from a partition: a few numbers for every source, and never the texts themselves ------


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
