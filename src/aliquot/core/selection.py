"""Selection: the items to judge, in order, with what a later estimate must know about how they were chosen.

Saved as item JSON lines with a `selection` object on each, so that an annotation tool, a person or `estimate` can read
it. Invariant: `probability`, where present, lies in (0, 1] and is the exact inclusion probability of the design.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import polars as pl

from aliquot.core.columns import ids_of_one_kind
from aliquot.core.evalset import EvalSet, ItemId, at_rows
from aliquot.errors import DataError, FormatError, OptionError
from aliquot.io.files import read_bytes, write_bytes
from aliquot.io.formats import items as item_lines
from aliquot.stats.arrays import FloatArray

FIELD = "selection"
VARIANCES = ("unordered", "spread", "clustered", "stratified", "balanced")
_NUMBER = ((int, float, type(None)), "a number")
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = MappingProxyType(
    {
        "rank": ((int,), "a whole number"),
        "population": ((int,), "a whole number"),
        "method": ((str,), "a method"),
        "signature": ((str,), "a text"),
        "stratum": ((str,), "a name"),
        "systems": ((list,), "a list of systems"),
        "details": ((dict,), "an object"),
        **dict.fromkeys(("utility", "probability", "weight", "cost"), _NUMBER),
    }
)


@dataclass(frozen=True)
class Design:
    """What an estimate must know of how items were drawn: the typed part of a selection's details."""

    variance: str = "unordered"  # how the variance follows from the draw; one of VARIANCES
    remainder: float = 1.0  # spread over documents: what is left of the variance between them
    coverage: float = 1.0  # share of the items that had a probability above 0
    within: str | None = None  # the method of a first stage, if there was one
    first_stage: int | None = None  # and how many items it chose

    @classmethod
    def of(cls, details: Mapping[str, Any] | None) -> Design:
        """Read the design out of details; what is absent has its default.

        >>> Design.of({"variance": "spread", "remainder": 0.4, "gap": 1e-9})
        Design(variance='spread', remainder=0.4, coverage=1.0, within=None, first_stage=None)
        """
        known = {name: details[name] for name in cls.__dataclass_fields__ if name in details} if details else {}
        design = cls(**known)
        return design if design.variance in VARIANCES else replace(design, variance="unordered")


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The chosen items, most useful or first drawn first.

    Attributes:
        ids: the items' ids in order.
        population: how many items there were to choose from (N).
        method: the method spec that chose them.
        utility: how useful each chosen item is, or None.
        probability: each item's inclusion probability, or None when the choice was not random with known chances.
        weight: what each judgment counts in a mean: 1/probability from a design, cluster sizes, or 1.
        cost: what judging each item costs, or None.
        stratum: the design's bin of each item, or None.
        systems: for non-matching designs, the systems to be judged on each item; None means all of them.
        details: what else the design knows (bin sizes, drawing order, proven gap), as plain values.
        signature: how to get it again.

    >>> chosen = Selection(ids=(4, 1), population=10, method="segments", probability=np.array([0.2, 0.2]))
    >>> chosen
    Selection(2 of 10 items by segments, with probabilities)
    >>> chosen.weight
    array([5., 5.])
    """

    ids: tuple[ItemId, ...]
    population: int
    method: str
    utility: FloatArray | None = None
    probability: FloatArray | None = None
    weight: FloatArray | None = None
    cost: FloatArray | None = None
    stratum: tuple[str, ...] | None = None
    systems: tuple[tuple[str, ...], ...] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    signature: str = ""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "ids", tuple(self.ids))
        if len(set(self.ids)) < len(self.ids):
            raise DataError("a selection names an item twice; ids must be unique")
        for name in ("probability", "weight", "utility", "cost"):
            value = getattr(self, name)
            if name == "weight" and value is None and self.probability is not None:
                value = 1.0 / self.probability
            if value is not None:
                set_field(self, name, _checked(name, value, len(self.ids)))
        for name in ("stratum", "systems"):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.ids):
                raise DataError(f"selection: {len(value)} entries of {name} for {len(self.ids)} items")
        set_field(self, "details", MappingProxyType(dict(self.details)))

    @cached_property
    def design(self) -> Design:
        """How the items were drawn, as far as estimates must know it."""
        return Design.of(self.details)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        known = "with probabilities" if self.probability is not None else "without probabilities"
        return f"Selection({len(self)} of {self.population} items by {self.method}, {known})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        return (
            (self.method, self.population, self.signature, self.details, self.systems)
            == (other.method, other.population, other.signature, other.details, other.systems)
            and self.ids == other.ids
            and self.to_frame().equals(other.to_frame())
        )

    __hash__ = None  # type: ignore[assignment]

    def to_frame(self) -> pl.DataFrame:
        """One row per chosen item: id, rank, utility, probability, weight, cost, stratum."""
        columns: dict[str, Any] = {"id": list(self.ids), "rank": np.arange(1, len(self) + 1)}
        for name in ("utility", "probability", "weight", "cost"):
            value = getattr(self, name)
            columns[name] = pl.Series(name, value if value is not None else [None] * len(self), dtype=pl.Float64)
        if self.stratum is not None:
            columns["stratum"] = list(self.stratum)
        if self.systems is not None:
            columns["systems"] = [",".join(names) for names in self.systems]
        return pl.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "method": self.method,
            "population": self.population,
            "signature": self.signature,
            "details": dict(self.details),
            "items": self.to_frame().to_dicts(),
        }

    def of(self, evalset: EvalSet) -> EvalSet:
        """Return the chosen items of `evalset`, in the set's order."""
        return evalset.keep(items=list(self.ids))

    def save(self, path: str | Path, evalset: EvalSet | None = None) -> None:
        """Save as item JSON lines in the order of the selection; with `evalset`, the items' texts and scores too."""
        encode = msgspec.json.Encoder().encode
        bare: Iterable[dict[str, Any]] = ({"i": item} for item in self.ids)
        records = bare if evalset is None else item_lines.records(self._in_order(evalset))
        lines = [encode({**record, FIELD: e}) + b"\n" for record, e in zip(records, self._entries(), strict=True)]
        write_bytes(path, b"".join(lines))

    def _in_order(self, evalset: EvalSet) -> EvalSet:
        chosen = self.of(evalset)
        row_of = {str(item): row for row, item in enumerate(chosen.ids)}
        return at_rows(chosen, np.array([row_of[str(item)] for item in self.ids], dtype=np.int64))

    def _entries(self) -> list[dict[str, Any]]:
        shared = {"method": self.method, "population": self.population, "signature": self.signature}
        rows = self.to_frame().drop("id").iter_rows(named=True)
        entries = [{name: value for name, value in row.items() if value is not None} | shared for row in rows]
        if self.systems is not None:
            for entry, names in zip(entries, self.systems, strict=True):
                entry["systems"] = list(names)
        if entries and self.details:
            entries[0]["details"] = dict(self.details)
        return entries

    @classmethod
    def load(cls, path: str | Path) -> Selection:
        """Read a selection that `save` wrote; the order is that of the ranks."""
        ids: list[ItemId] = []
        entries: list[dict[str, Any]] = []
        for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
            if line.strip():
                item, entry = _entry(line, f"{path} line {number}")
                ids.append(item)
                entries.append(entry)
        if not entries:
            raise FormatError(f"{path}: the file is empty; a selection has one line per chosen item")
        ids = ids_of_one_kind(ids)
        order = sorted(range(len(ids)), key=lambda at: entries[at].get("rank", at))
        try:
            return _from_entries([ids[at] for at in order], [entries[at] for at in order])
        except (DataError, OptionError) as error:
            raise FormatError(f"{path}: {error}") from None


def stored_sources(path: str | Path) -> dict[str, str]:
    """The sources in a selection's file, by the items' ids as text; empty where it was saved without texts."""
    lines = (line for line in read_bytes(path).split(b"\n") if line.strip())
    records = (msgspec.json.decode(line, type=dict[str, Any]) for line in lines)
    return {str(record.get("i")): record["src"] for record in records if isinstance(record.get("src"), str)}


def _from_entries(ids: list[ItemId], entries: list[dict[str, Any]]) -> Selection:
    def numbers(name: str) -> FloatArray | None:
        given = [name in entry for entry in entries]
        if not any(given):
            return None
        if not all(given) and name != "utility":
            raise DataError(f"item {ids[given.index(False)]!r} has no {name} although others have; give all or none")
        return np.array([entry.get(name) for entry in entries], dtype=np.float64)

    def labels(name: str) -> tuple[Any, ...] | None:
        return tuple(entry[name] for entry in entries) if all(name in entry for entry in entries) else None

    systems = labels("systems")
    return Selection(
        ids=tuple(ids),
        population=entries[0].get("population", len(ids)),
        method=entries[0].get("method", "unknown"),
        utility=numbers("utility"),
        probability=numbers("probability"),
        weight=numbers("weight"),
        cost=numbers("cost"),
        stratum=labels("stratum"),
        systems=None if systems is None else tuple(tuple(names) for names in systems),
        details=next((entry["details"] for entry in entries if "details" in entry), {}),
        signature=entries[0].get("signature", ""),
    )


def _entry(line: bytes, where: str) -> tuple[ItemId, dict[str, Any]]:
    try:
        record = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise FormatError(f"{where}: not a JSON object ({error}); a selection is item JSON lines") from None
    if not isinstance(record.get(FIELD), dict) or not isinstance(record.get("i"), int | str):
        raise FormatError(f"{where}: no 'selection' object with an item id; is this a file `aliquot select` wrote?")
    entry = record[FIELD]
    for name, (kinds, expected) in _KINDS.items():
        value = entry.get(name)
        if name in entry and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise FormatError(f"{where}: selection.{name} should be {expected}, found {value!r}; correct the line")
    return record["i"], entry


def _checked(name: str, values: FloatArray, n: int) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    if array.shape != (n,):
        raise DataError(f"selection: {name} has shape {array.shape} for {n} items")
    if name == "probability" and not ((array > 0) & (array <= 1 + 1e-12)).all():
        bad = array[~((array > 0) & (array <= 1 + 1e-12))][0]
        raise OptionError(f"selection: the inclusion probability {bad} is not in (0, 1]")
    if name == "weight" and not ((array >= 0) & (array < np.inf)).all():
        bad = array[~((array >= 0) & (array < np.inf))][0]
        raise OptionError(f"selection: the weight {bad} is negative or not a number")
    if name == "weight" and n and not array.any():
        raise OptionError("selection: all weights are 0; nothing would count")
    array.setflags(write=False)
    return array
