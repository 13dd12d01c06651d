"""A pool as an EvalSet of numbers: what select's methods look at, without a single text.

The methods of `select` run on it unchanged, which is why a pool and a loaded file give the same selection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aliquot.core.evalset import Derived, EvalSet
from aliquot.core.registry import Spec, bind, parameters_of, parse_spec, read_value, written
from aliquot.errors import OptionError, unknown_name
from aliquot.sampling.methods import DEFAULT_DESIGN, lookup
from aliquot.sampling.pool_measure import Value, Wanted, value_of_method
from aliquot.sampling.pool_vectors import pool_kmeans
from aliquot.sampling.registry import Method
from aliquot.sampling.texts import NGRAMS
from aliquot.stats.arrays import FloatArray, IntArray

# -- A pool as an EvalSet of numbers: what select's methods look at, without a single text ---------------------------


LENGTH, PREDICTED, BINS, BALANCE = "source length", "predicted utility", "bins of the pool", "balance of the pool"
_CODE = "document of the pool"


@dataclass(frozen=True, eq=False, repr=False)
class Compact(EvalSet):
    """Items of a pool by row number; documents are codes, lengths are known, sources are not there."""

    @cached_property
    def documents(self) -> IntArray | None:
        """Integer codes of the items' documents in order of first appearance."""
        if _CODE not in self.items.columns:
            return None
        return by_appearance(self.items[_CODE].to_numpy())

    def derived(self, key: str, make: Callable[[EvalSet], Derived]) -> Derived:
        """Return what depends on this set alone; lengths come from the first pass, since the sources are gone."""
        if key == "log lengths":
            lengths: FloatArray = self.items[LENGTH].to_numpy()
            return cast("Derived", np.log1p(lengths))
        return super().derived(key, make)


def compact(columns: dict[str, NDArray[np.generic]], documents: NDArray[np.generic] | None, name: str) -> Compact:
    """Build the set from arrays; `documents` are hashes, 0 where an item stands alone."""
    count = len(next(iter(columns.values())))
    series = [pl.Series("id", np.arange(count, dtype=np.int64))]
    series += [pl.Series(column, values) for column, values in columns.items()]
    if documents is not None and documents.any():
        series.append(pl.Series(_CODE, document_codes(documents)))
    if LENGTH in columns or PREDICTED in columns:  # methods ask whether there are sources
        series.append(pl.Series("source", [None], dtype=pl.String).extend_constant(None, count - 1))
    return Compact(items=pl.DataFrame(series), systems=(), name=name)


def document_codes(hashes: NDArray[np.generic]) -> IntArray:
    """Codes of documents in order of first appearance; an item without a document is one by itself.

    >>> document_codes(np.array([7, 0, 3, 7, 0], dtype=np.uint64)).tolist()
    [0, 1, 2, 0, 3]
    """
    known = hashes != 0
    codes = np.empty(len(hashes), dtype=np.int64)
    distinct, inverse = np.unique(hashes[known], return_inverse=True)
    codes[known] = inverse
    codes[~known] = len(distinct) + np.arange(int((~known).sum()))
    return by_appearance(codes)


def by_appearance(codes: IntArray) -> IntArray:
    """Number codes anew in order of first appearance.

    >>> by_appearance(np.array([5, 2, 5, 9])).tolist()
    [0, 1, 0, 2]
    """
    if not len(codes):
        return codes
    highest = np.maximum.accumulate(codes)
    if highest[0] == 0 and (np.diff(highest) <= 1).all() and codes.min() == 0:
        return codes  # they are so already
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


# -- Which methods a pool takes, what each wants of the first pass, and how it is then called on the numbers ---------


UTILITIES = ("source", "source_length")
METHODS = ("auto", *UTILITIES, "pps", "segments", "stratified", "documents", "snippets_fixed", "snippets_budgeted",
           "kmeans", "random", "uncertainty")  # fmt: skip
DEDUP = ("exact", "near")
_BY_SCORES = ("difficulty", "variance")
_OF_TEXTS = ("id", "source", "reference", "document", "domain")
_TAKEN = (*_OF_TEXTS, "position", "cost")


@dataclass(frozen=True)
class Plan:
    """A method on a pool.

    Attributes:
        spec: as asked for.
        wanted: what the first pass takes.
        given: the method's parameters in terms of the compact set's columns.
        by_value: whether the value itself is the utility.
        value_column: what the value is called in the compact set, as notes name it.
        kmeans: the parameters of mini-batch k-means, where that is the method.
    """

    spec: Spec
    wanted: Wanted
    given: Mapping[str, Any] = field(default_factory=dict)
    by_value: bool = False
    value_column: str = PREDICTED
    kmeans: Mapping[str, Any] | None = None

    @property
    def method(self) -> Method:
        """The method in select's registry."""
        return lookup(self.spec.name)[0]


def plan(
    method: str, *, cost: str | None = None, balance: str | None = None, dedup: str | None = None,
    pair: str | None = None,
) -> Plan:  # fmt: skip
    """Read a method's spec and say what it wants of every source."""
    if dedup is not None and dedup not in DEDUP:
        raise unknown_name("way to find duplicates", dedup, DEDUP, "use --dedup exact or near")
    spec = parse_spec(DEFAULT_DESIGN if method == "auto" else method)
    if spec.name not in METHODS:
        lookup(spec.name)  # says what there is when there is no such method at all
        raise OptionError(
            f"'{spec.name}' needs outputs or scores, and a pool has sources alone; choose one of {', '.join(METHODS)}"
        )
    common: dict[str, Any] = {"cost": cost, "dedup": dedup}
    if spec.name == "kmeans":
        return _kmeans(spec, common, cost, balance)
    groups = [] if balance is None else [balance]
    given = dict(spec.parameters)
    by_value = spec.name in UTILITIES
    column = PREDICTED
    if by_value:
        common["value"] = value_of_method(spec, pair)
        given = {}
    elif spec.name == "pps":
        column = _sized(given, common, pair)
    elif spec.name == "uncertainty" and "score" in given:
        common["value"] = Value("column", read_value(given["score"]))
        given["score"] = column
    elif spec.name == "stratified" and read_value(given.get("bins", "document")) != "document":
        groups.append(read_value(given["bins"]))
        given["bins"] = BINS
    if groups and groups[-1] == "metric":
        raise OptionError("stratified: bins=metric needs scores, and a pool has sources alone; name a column")
    runs = ("documents", "snippets_fixed", "snippets_budgeted")
    common["document"] = spec.name in (*runs, "pps", "stratified") and given.get("bins") != BINS
    common["position"] = spec.name in runs
    wanted = Wanted(groups=tuple(dict.fromkeys(groups)), **common)
    _refuse_texts(wanted)
    return Plan(spec, wanted, MappingProxyType(given), by_value, column)


def _refuse_texts(wanted: Wanted) -> None:
    """Raise when a size, utility or cost is to come from a column that holds texts by its role."""
    named = [wanted.cost] + ([wanted.value.name] if wanted.value is not None and wanted.value.kind == "column" else [])
    for name in named:
        if name in _OF_TEXTS:
            raise OptionError(f"'{name}' holds texts; name a column of numbers")


def _sized(given: dict[str, Any], common: dict[str, Any], pair: str | None) -> str:
    """Rewrite the size of pps in terms of the compact set, and return what its value is called there."""
    size = read_value(given.get("size", "error"))
    if size in _BY_SCORES:
        raise OptionError(
            f"pps: size={size} needs scores, and a pool has sources alone; use length, equal, error, a column or a "
            "model: pps:size=(source:model=FILE)"
        )
    if size == "error":
        common["length"] = True
    if size in ("error", "equal"):
        return PREDICTED
    if parse_spec(size).name in UTILITIES if ":" in size else size in UTILITIES:
        common["value"] = value_of_method(parse_spec(size), pair)
        common["length"] = "slopes" in given
        given["size"] = f"(source:column={PREDICTED})"  # standardised, as every utility
        return PREDICTED
    common["value"] = Value("length") if size == "length" else Value("column", size)
    column = LENGTH if size == "length" else f"column {size}" if size in _TAKEN else size
    given["size"] = written(column)
    return column


def _kmeans(spec: Spec, common: dict[str, Any], cost: str | None, balance: str | None) -> Plan:
    if cost is not None or balance is not None:
        raise OptionError("'kmeans' chooses a number of items; use a utility or a design with --cost or --balance")
    given = {name: value for name, value in spec.parameters.items() if (name, value) != ("features", "source")}
    bound = bind("kmeans", parameters_of(pool_kmeans, ()), given)
    return Plan(spec, Wanted(vectors=bound.get("model", NGRAMS), **common), kmeans=bound)


def columns_of(asked: Plan, balance: str | None) -> dict[str, str]:
    """Return column of the compact set -> array of the first pass."""
    columns = {asked.value_column: "value"} if asked.wanted.value is not None else {}
    if balance is not None:
        columns[BALANCE] = f"group:{balance}"
    if asked.given.get("bins") == BINS:
        columns[BINS] = f"group:{read_value(asked.spec.parameters['bins'])}"
    return columns
