"""Selection: the items to judge, in order, with the design by which they were chosen.

Invariant: `probability`, where present, lies in (0, 1] and is the exact inclusion probability of the design.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet, ItemId
from aliquot.core.origin import Origin, compare_origin, require_unchanged_outputs
from aliquot.core.shown import Shown
from aliquot.core.view import Column, View
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.stats.arrays import BoolArray, FloatArray

Variance = Literal["unordered", "spread", "clustered", "stratified", "balanced"]
"""How the variance of a mean follows from the draw."""
_ROUNDING = 1e-9
MAX_INTEGER = 2**53  # whole numbers up to which a float counts


_DETAIL_TYPES: Mapping[str, tuple[tuple[type, ...], float, str]] = MappingProxyType(
    {
        "variance": ((str,), np.inf, "a name"),
        "remainder": ((int, float), np.inf, "a number of at least 0"),
        "coverage": ((int, float), 1.0, "a share between 0 and 1"),
        "within": ((str, type(None)), np.inf, "a method"),
        "first_stage": ((int, type(None)), MAX_INTEGER, "a number of items"),
        "rates": ((Mapping, type(None)), np.inf, "an object with a rate for each system"),
    }
)


def _validate_detail(name: str, value: object) -> None:
    """Raise DataError for a detail of a design with the wrong type or range."""
    kinds, maximum, expected = _DETAIL_TYPES[name]
    fits = isinstance(value, kinds) and not isinstance(value, bool)
    if not fits or (isinstance(value, (int, float)) and not -_ROUNDING <= value <= maximum + _ROUNDING):
        raise DataError(f"selection.details.{name} should be {expected}, found {value!r}; correct the file")
    for system, rate in value.items() if isinstance(value, Mapping) else ():
        if rate is not None and not (isinstance(rate, (int, float)) and 0 <= rate < np.inf):
            raise DataError(
                f"selection.details.{name}: the rate of '{system}' should be a number of at least 0, found "
                f"{rate!r}; correct the file"
            )


@dataclass(frozen=True)
class Design:
    """The properties of a draw of items that estimates depend on.

    Attributes:
        variance: How the variance of a mean follows from the draw.
        remainder: For "spread", the share of the variance between documents that is left.
        coverage: The share of the items that had a probability above 0.
        within: The method of a first stage, or None.
        first_stage: The number of items that a first stage chose, or None.
        rates: Of an adaptive allocation, how far each system went along the common order of items; None for all of it.
    """

    variance: Variance = "unordered"
    remainder: float = 1.0
    coverage: float = 1.0
    within: str | None = None
    first_stage: int | None = None
    rates: Mapping[str, float | None] | None = None

    def with_details(self, details: Mapping[str, Any]) -> Design:
        """Return the design with the values that plain details have for it; other details are ignored.

        >>> Design().with_details({"variance": "spread", "remainder": 0.4, "gap": 1e-9})
        Design(variance='spread', remainder=0.4, coverage=1.0, within=None, first_stage=None, rates=None)
        """
        values = {name: details[name] for name in self.__dataclass_fields__ if name in details}
        for name, value in values.items():
            _validate_detail(name, value)
        design = replace(self, **values)
        return design if design.variance in get_args(Variance) else replace(design, variance="unordered")

    def to_dict(self) -> dict[str, Any]:
        """Return the values that are not the default ones, as they are saved among a selection's details."""
        names = self.__dataclass_fields__
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(_PLAIN, name)}


_PLAIN = Design()


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Shown):
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
        design: how the items were drawn, as far as estimates depend on it.
        details: what else is known of the choice (bin sizes, waves, proven gap), as plain values; those that are the
            design's are moved there.
        signature: how to get it again.
        origin: what is remembered of the data it was made from, or None; `check` compares other data with it.

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
    origin: Origin | None = None
    design: Design = _PLAIN

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "ids", tuple(self.ids))
        if len(set(self.ids)) < len(self.ids):
            raise DataError("a selection names an item twice; ids must be unique")
        if self.population < len(self.ids):
            raise DataError(f"the population is {self.population} and {len(self.ids)} items are selected; correct it")
        for name in ("probability", "weight", "utility", "cost"):
            value = getattr(self, name)
            if name == "weight" and value is None and self.probability is not None:
                value = 1.0 / self.probability
            if value is not None:
                set_field(self, name, _validate_numbers(name, value, len(self.ids)))
        for name in ("stratum", "systems"):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.ids):
                raise DataError(f"selection: {len(value)} entries of {name} for {len(self.ids)} items")
        if self.origin is not None:
            set_field(self, "origin", self.origin.for_items(len(self.ids)))
        set_field(self, "design", self.design.with_details(self.details))
        other_details = {name: value for name, value in self.details.items() if name not in Design.__dataclass_fields__}
        set_field(self, "details", MappingProxyType(other_details))

    def cell_probability(self, systems: Sequence[str]) -> FloatArray | None:
        """Return cell probabilities (items x systems) of an adaptive selection; None for others.

        A system that went at rate r along the order has an item of size z (the utility) with probability
        1 - exp(-r z). Systems that the selection does not know get the item's own.
        """
        rates = self.design.rates
        if rates is None or self.probability is None or self.utility is None:
            return None
        return compute_cell_probability(self.utility, self.probability, rates, systems)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        suffix = "with probabilities" if self.probability is not None else "without probabilities"
        return f"Selection({len(self)} of {self.population} items by {self.method}, {suffix})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        return (
            (self.method, self.population, self.signature, self.design, self.details, self.systems)
            == (other.method, other.population, other.signature, other.design, other.details, other.systems)
            and self.ids == other.ids
            and self.to_frame().equals(other.to_frame())
        )

    __hash__ = None  # type: ignore[assignment]

    def to_frame(self) -> pl.DataFrame:
        """Return one row per chosen item: id, rank, utility, probability, weight, cost, stratum."""
        columns: dict[str, Any] = {"id": list(self.ids), "rank": np.arange(1, len(self) + 1)}
        for name in ("utility", "probability", "weight", "cost"):
            value = getattr(self, name)
            columns[name] = pl.Series(name, value if value is not None else [None] * len(self), dtype=pl.Float64)
        if self.stratum is not None:
            columns["stratum"] = list(self.stratum)
        if self.systems is not None:
            columns["systems"] = [",".join(names) for names in self.systems]
        return pl.DataFrame(columns)

    def views(self) -> tuple[View, ...]:
        """Return the view `items`: the chosen items in order."""
        columns = [Column("id", kind="name"), Column("rank", kind="count", rank=4)]
        for name, rank in (("utility", 3), ("probability", 0), ("weight", 2), ("cost", 1)):
            if getattr(self, name) is not None:
                columns.append(Column(name, rank=rank))
        labels = [name for name in ("stratum", "systems") if getattr(self, name) is not None]
        columns += [Column(name, kind="text", rank=1) for name in labels]
        return (View.of_frame("items", self.to_frame(), columns),)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "method": self.method,
            "population": self.population,
            "signature": self.signature,
            "details": self.saved_details,
            "items": self.to_frame().to_dicts(),
        }

    def of(self, evalset: EvalSet) -> EvalSet:
        """Return the chosen items of `evalset`, in the set's order; warn if the data are not those it was made from."""
        for note in self.check(evalset):
            warnings.warn(note, AliquotWarning, 2)
        return evalset.keep(items=list(self.ids))

    def check(self, evalset: EvalSet, *, strict: bool = False, judged: BoolArray | None = None) -> tuple[str, ...]:
        """Compare data with those that the selection was made from, and return what differs.

        Raises DataError where they cannot be the same: items are missing, or many have another source, or outputs that
        are `judged` (items x systems of the data) changed; when strict, for any difference but systems added or left
        out.
        """
        if judged is not None:
            require_unchanged_outputs(self.origin, self.ids, evalset, judged)
        return compare_origin(self.origin, self.ids, self.population, evalset, strict=strict)

    def save(self, path: str | Path, evalset: EvalSet | None = None, *, to: str | None = None) -> None:
        """Save by the path's ending, in the order of the selection.

        .jsonl or no ending is item JSON lines, which `load` reads; with `evalset`, they hold the items' texts and
        scores too. .csv, .tsv and .parquet are a table. `to` names the format whatever the ending: jsonl, csv, tsv,
        parquet, ids or inspect (a dataset of Inspect, which needs `evalset`).
        """
        from aliquot.io.writers import choose_writer  # noqa: PLC0415  (io is built on this class)

        choose_writer("selection", path, to, default=".jsonl").write(self, path, evalset)

    @property
    def saved_details(self) -> dict[str, Any]:
        """The details and the design, as they are saved."""
        return dict(self.details) | self.design.to_dict()

    @classmethod
    def load(cls, path: str | Path) -> Selection:
        """Read a selection that `save` wrote; the order is that of the ranks."""
        from aliquot.io.selection_files import load_selection  # noqa: PLC0415  (io is built on this class)

        return load_selection(path)


def compute_cell_probability(
    size: FloatArray, probability: FloatArray, rates: Mapping[str, float | None], systems: Sequence[str]
) -> FloatArray:
    """Return inclusion probabilities, items x systems: 1 - exp(-rate size).

    >>> compute_cell_probability(np.ones(1), np.array([0.5]), {"A": 1.0, "B": None}, ["A", "B", "C"]).round(3).tolist()
    [[0.632, 1.0, 0.5]]
    """
    columns = []
    for name in systems:
        rate = rates.get(name, 0.0)
        cell = np.ones(len(size)) if rate is None else -np.expm1(-float(rate) * size)
        columns.append(cell if rate is None or rate > 0 else probability)
    return np.column_stack(columns)


def _validate_numbers(name: str, values: FloatArray, n: int) -> FloatArray:
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
