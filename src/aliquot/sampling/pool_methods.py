"""Methods on pools: what each reads from every source, and how it runs on those numbers.

The methods of `select` run unchanged on `PoolItems`, which is why a pool and a loaded file give the same selection.
Only k-means is another one, in mini-batches (Sculley 2010).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from aliquot.core.columns import encode_series
from aliquot.core.evalset import Derived, EvalSet
from aliquot.core.registry import Spec, bind_parameters, parse_spec, parse_value, read_parameters
from aliquot.errors import OptionError
from aliquot.io.files import read_bytes
from aliquot.sampling.budgets import ESA
from aliquot.sampling.methods import DEFAULT_DESIGN, Method, Subset, find_method
from aliquot.sampling.source_model import SourceModel
from aliquot.sampling.sources import find_predictor, import_function, require_trusted_encoder
from aliquot.sampling.text_vectors import NGRAMS
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.validation import one_of

LENGTH, PREDICTED, BINS, BALANCE = "source length", "predicted utility", "bins of the pool", "balance of the pool"
_DOCUMENT = "document of the pool"
_UTILITIES = ("source", "source_length")
_RUNS = ("documents", "snippets_fixed", "snippets_budgeted")
METHODS = ("auto", *_UTILITIES, "pps", "segments", "stratified", *_RUNS, "kmeans", "random", "uncertainty")
Dedup = Literal["exact", "near"]
_TEXTS = ("id", "source", "reference", "document", "domain")
_BATCH = 4096
_STEPS = 40
_CHUNK = 1 << 14


@dataclass(frozen=True, eq=False, repr=False)
class PoolItems(EvalSet):
    """Items of a pool as numbers: row numbers, document codes, and lengths or predictions in place of sources."""

    @property
    def has_sources(self) -> bool:
        """Whether lengths or predictions of the sources are there."""
        return LENGTH in self.items.columns or PREDICTED in self.items.columns

    @cached_property
    def documents(self) -> IntArray | None:
        """Integer codes of the items' documents in order of first appearance."""
        return encode_series(self.items[_DOCUMENT]) if _DOCUMENT in self.items.columns else None

    def derived(self, key: str, make: Callable[[EvalSet], Derived]) -> Derived:
        """Return what depends on this set alone; lengths are measured already."""
        if key == "log lengths":
            lengths: FloatArray = self.items[LENGTH].to_numpy()
            return cast("Derived", np.log1p(lengths))
        return super().derived(key, make)


def pool_items(
    count: int, columns: Mapping[str, NDArray[np.generic]], documents: NDArray[np.generic] | None, name: str
) -> PoolItems:
    """Build the set from arrays; `documents` are hashes, 0 where an item stands alone.

    >>> hashes = np.array([7, 0, 3, 7, 0], dtype=np.uint64)
    >>> pool_items(5, {}, hashes, "pool").documents.tolist()
    [0, 1, 2, 0, 3]
    """
    items = {"id": np.arange(count, dtype=np.int64), **columns}
    if documents is not None and documents.any():
        # Items that stand alone count down from -1. A hash among these few of 2^64 numbers is as unlikely as two
        # documents with the same hash.
        items[_DOCUMENT] = np.where(documents == 0, -1 - items["id"], documents.view(np.int64))
    return PoolItems(items=pl.DataFrame(items), systems=(), name=name)


@dataclass(frozen=True)
class Value:
    """How the number of a source is computed."""

    # length, column, model (a file that `aliquot learn` wrote) or predictor (module:function)
    kind: Literal["length", "column", "model", "predictor"]
    name: str = ""  # the column, file or function
    pair: str | None = None  # the language pair, for a model
    check: str = ""  # a digest of the model's or function's file, so that a run does not resume with another one
    encoder: str = ""  # the sentence encoder that a model may load


@dataclass(frozen=True)
class PassRequest:
    """What the first pass reads from every source."""

    value: Value | None = None  # its utility or size, or None
    length: bool = False  # whether its length is needed
    document: bool = False  # whether documents matter, and `position` the items' positions in them
    position: bool = False
    groups: tuple[str, ...] = ()  # columns whose values are groups (bins, balance)
    cost: str | None = None  # a column, `esa_time`, or None
    dedup: Dedup | None = None  # exact or near, to find sources that repeat an earlier one; or None
    vectors: str | None = None  # the model of the vectors for clusters, or None

    def __str__(self) -> str:
        """List what is taken, for the signature of the first pass."""
        parts = [] if self.value is None else [" ".join(filter(None, vars(self.value).values()))]
        for name, value in vars(self).items():
            if name != "value" and value:
                text = value if isinstance(value, str | bool) else ",".join(value)
                parts.append(name if text is True else f"{name} {text}")
        return ", ".join(parts) or "ids"

    @property
    def value_kind(self) -> str | None:
        """The kind of the value, or None."""
        return None if self.value is None else self.value.kind

    @property
    def needs_source(self) -> bool:
        """Whether the first pass reads texts."""
        by_text = self.value_kind not in (None, "column")
        return bool(by_text or self.length or self.dedup or self.vectors or self.cost == ESA)


@dataclass(frozen=True)
class PoolMethod:
    """A method on a pool."""

    spec: Spec  # as the user gave it
    request: PassRequest  # what the first pass takes
    # the method's parameters, naming columns of `PoolItems`; those of mini-batch k-means where that is it
    parameters: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)  # column of `PoolItems` -> array of the first pass

    @property
    def method(self) -> Method:
        """The method to run; a utility becomes `source`, which reads the measured column."""
        method = find_method(self.spec.name)[0]
        return replace(find_method("source")[0], name=method.name) if method.name in _UTILITIES else method


def pool_method(
    text: str,
    *,
    cost: str | None = None,
    balance: str | None = None,
    dedup: Dedup | None = None,
    pair: str | None = None,
) -> PoolMethod:
    """Parse a method's spec, and what it needs from every source."""
    if dedup is not None:
        one_of("dedup", dedup, get_args(Dedup))
    spec = parse_spec(DEFAULT_DESIGN if text == "auto" else text)
    if spec.name not in METHODS:
        find_method(spec.name)  # raises with a suggestion where there is no such method at all
        raise OptionError(
            f"'{spec.name}' needs outputs or scores, and a pool has sources alone; choose one of {', '.join(METHODS)}"
        )
    common: dict[str, Any] = {"cost": cost, "dedup": dedup}
    if spec.name == "kmeans":
        if cost is not None or balance is not None:
            raise OptionError("'kmeans' chooses a number of items; use a utility or a design with `cost` or `balance`")
        kmeans_parameters = {
            name: value for name, value in spec.parameters.items() if (name, value) != ("features", "source")
        }
        bound = bind_parameters("kmeans", read_parameters(pool_kmeans, ()), kmeans_parameters)
        return PoolMethod(spec, PassRequest(vectors=bound.get("model", NGRAMS), **common), bound)
    parameters, groups, column = dict(spec.parameters), {} if balance is None else {BALANCE: balance}, PREDICTED
    if spec.name in _UTILITIES:
        common["value"], parameters = _read_value(spec, pair), {"column": PREDICTED}
    elif spec.name == "pps":
        column = _read_size(parameters, common, pair)
    elif spec.name == "uncertainty" and "score" in parameters:
        common["value"], parameters["score"] = Value("column", parse_value(parameters["score"])), column
    elif spec.name == "stratified" and parse_value(parameters.get("bins", "document")) != "document":
        groups[BINS], parameters["bins"] = parse_value(parameters["bins"]), BINS
    if groups.get(BINS) == "metric":
        raise OptionError("stratified: bins=metric needs scores, and a pool has sources alone; name a column")
    common["document"] = spec.name in (*_RUNS, "pps", "stratified") and BINS not in groups
    common["position"] = spec.name in _RUNS
    request = PassRequest(groups=tuple(dict.fromkeys(groups.values())), **common)
    for name in (cost, request.value.name if request.value is not None and request.value.kind == "column" else None):
        if name in _TEXTS:
            raise OptionError(f"'{name}' holds texts; name a column of numbers")
    columns = {column: "value"} if request.value is not None else {}
    columns |= {of_items: f"group:{name}" for of_items, name in groups.items()}
    columns |= {LENGTH: "length"} if request.length else {}
    return PoolMethod(spec, request, MappingProxyType(parameters), columns)


def _read_value(spec: Spec, pair: str | None) -> Value:
    """Read `source_length` or `source:model=FILE` (predictor=module:function, column=NAME)."""
    parameters = find_method(spec.name)[0].bind(spec.parameters)
    if spec.name == "source_length":
        return Value("length")
    kind, name = find_predictor(parameters)
    if kind == "column":
        return Value("column", name)
    if kind == "predictor":
        import_function(name)  # a mistake is reported before any work
        code = getattr(sys.modules[name.partition(":")[0]], "__file__", None)
        return Value("predictor", name, check=_file_digest(code) if code else "")
    encoder = require_trusted_encoder(SourceModel.load(name).embedding, name, parameters.get("encoder"))
    return Value("model", str(Path(name).resolve()), parameters.get("pair") or pair, _file_digest(name), encoder)


def _file_digest(name: str) -> str:
    return hashlib.sha256(read_bytes(name)).hexdigest()[:16]


def _read_size(parameters: dict[str, Any], common: dict[str, Any], pair: str | None) -> str:
    """Replace the size of pps by a column of `PoolItems` in `parameters`; return that column."""
    size = parse_value(parameters.get("size", "error"))
    if size in ("difficulty", "variance"):
        raise OptionError(
            f"pps: size={size} needs scores, and a pool has sources alone; use length, equal, error, a column or a "
            "model: pps:size=(source:model=FILE)"
        )
    common["length"] = size == "error"
    if size in ("error", "equal"):
        return PREDICTED
    if size.partition(":")[0] in _UTILITIES:
        common["value"] = _read_value(parse_spec(size), pair)
        common["length"] = "slopes" in parameters
        parameters["size"] = f"source:column={PREDICTED}"  # standardised, as every utility
        return PREDICTED
    common["value"] = Value("length") if size == "length" else Value("column", size)
    is_reserved = size in (*_TEXTS, "position", "cost")
    column = LENGTH if size == "length" else f"column {size}" if is_reserved else size
    parameters["size"] = column
    return column


# -- mini-batch k-means ----------------------------------------------------------------------------------------------


def pool_kmeans(
    vectors: NDArray[np.generic],
    rows: IntArray,
    n: int,
    rng: np.random.Generator,
    *,
    weighted: bool = False,
    model: str = NGRAMS,
) -> Subset:
    """Return the places in `rows` of the items nearest to the centres of n clusters.

    `weighted` gives each chosen item the size of its cluster as weight.
    """
    del model  # the first pass has made the vectors with it
    n = min(n, len(rows))
    centres = _fit_centres(vectors, rows, n, rng)
    label, distance = _assign_to_centres(vectors, rows, centres)
    order = np.lexsort((distance, label))
    chosen = np.sort(order[np.unique(label[order], return_index=True)[1]])
    if len(chosen) < n:  # some centres are nearest to no item: add the items farthest from theirs
        farthest = np.argsort(-distance, kind="stable")
        farthest = farthest[~np.isin(farthest, chosen)]
        chosen = np.concatenate([chosen, farthest[: n - len(chosen)]])
    if not weighted:
        return Subset(chosen)
    size = np.bincount(label, minlength=len(centres))[label[chosen]]
    shared = np.bincount(label[chosen], minlength=len(centres))[label[chosen]]
    return Subset(chosen, (size / shared).astype(np.float64))


def _fit_centres(vectors: NDArray[np.generic], rows: IntArray, n: int, rng: np.random.Generator) -> FloatArray:
    batch = max(_BATCH, 3 * n)
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415  (slow to import)

    fit = MiniBatchKMeans(n, batch_size=batch, n_init=1, random_state=int(rng.integers(2**31)))
    with threadpool_limits(limits=1):
        if batch >= len(rows):
            fit.fit(np.asarray(vectors[rows], dtype=np.float64))
        else:
            for _ in range(_STEPS):
                drawn = np.sort(rng.choice(len(rows), batch, replace=False))
                fit.partial_fit(np.asarray(vectors[rows[drawn]], dtype=np.float64))
    return np.asarray(fit.cluster_centers_, dtype=np.float64)


def _assign_to_centres(
    vectors: NDArray[np.generic], rows: IntArray, centres: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return each row's nearest centre and squared distance to it, in chunks."""
    label = np.empty(len(rows), dtype=np.int64)
    distance = np.empty(len(rows))
    squares = (centres**2).sum(axis=1)
    step = max(1, min(_CHUNK, (1 << 24) // len(centres)))
    with threadpool_limits(limits=1):
        for start in range(0, len(rows), step):
            part = np.asarray(vectors[rows[start : start + step]], dtype=np.float64)
            gap = squares - 2.0 * (part @ centres.T)
            nearest = gap.argmin(axis=1)
            label[start : start + step] = nearest
            distance[start : start + step] = ((part - centres[nearest]) ** 2).sum(axis=1)
    return label, distance
