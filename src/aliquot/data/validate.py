"""The checks behind EvalSet's invariants, in one place, with messages that name the item, the score and the value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from aliquot.data.columns import cast_column
from aliquot.data.judgments import Judgments
from aliquot.errors import DataError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray

CellIndex = Callable[[pl.Series, pl.Series], tuple[IntArray, IntArray]]

_ITEM_TYPES: Mapping[str, pl.DataType] = MappingProxyType(
    {
        "source": pl.String(),
        "reference": pl.String(),
        "document": pl.String(),
        "position": pl.Int64(),
        "domain": pl.String(),
        "cost": pl.Float64(),
    }
)


def checked_items(items: pl.DataFrame) -> pl.DataFrame:
    """Return the items table with its types set, or say what is wrong with it."""
    if "id" not in items.columns:
        raise DataError(f"the items table lacks the column 'id'; it has {items.columns}")
    ids = items["id"]
    if ids.null_count():
        raise DataError(f"item number {ids.is_null().arg_max()} has no id; give every item one")
    if not ids.dtype.is_integer():
        ids = ids.cast(pl.String)
    elif ids.dtype != pl.Int64:
        ids = ids.cast(pl.Int64)
    if ids.is_duplicated().any():
        raise DataError(f"the item id '{ids.filter(ids.is_duplicated())[0]}' occurs twice; ids must be unique")
    typed = [
        cast_column(items[name], dtype, f"the item column '{name}'")
        for name, dtype in _ITEM_TYPES.items()
        if name in items.columns
    ]
    return items.with_columns(ids, *typed).select("id", pl.exclude("id"))


def check_names(names: Sequence[str], kind: str) -> None:
    """Raise when a name is empty or occurs twice."""
    if "" in names:
        raise DataError(f"{kind} number {names.index('') + 1} has an empty name ''; give it one")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise DataError(f"the {kind} '{repeated[0]}' occurs twice; names must be unique")


def frozen_scores(name: str, values: Any, shape: tuple[int, int]) -> FloatArray:
    """Return a read-only float array; one that is already so is shared, any other is copied."""
    array: FloatArray = np.asarray(values)
    if array.shape != shape:
        raise DataError(f"score '{name}' has shape {array.shape}; {shape[0]} items x {shape[1]} systems are expected")
    if array.dtype != np.float64 or not array.flags.c_contiguous or not _out_of_reach(array):
        array = np.array(array, dtype=np.float64, order="C")
        array.setflags(write=False)
    if np.isinf(array).any():
        row, column = np.argwhere(np.isinf(array))[0]
        raise DataError(f"score '{name}' of item number {row}, system number {column} is infinite; use NaN for missing")
    return array


def _out_of_reach(array: Any) -> bool:
    """Tell whether nobody can write to the array, neither directly nor through what it is a view of."""
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.base
    return array is None


def checked_outputs(outputs: pl.DataFrame | None, systems: tuple[str, ...], n: int) -> pl.DataFrame | None:
    """Return the outputs with one text column a system, in the order of the systems."""
    if outputs is None or not systems:
        return None
    if outputs.height != n or set(outputs.columns) != set(systems):
        raise DataError(
            f"outputs have {outputs.height} rows and the columns {outputs.columns}; "
            f"{n} rows and one column for each of {list(systems)} are expected"
        )
    return outputs.select(cast_column(outputs[system], pl.String(), f"outputs of '{system}'") for system in systems)


def checked_judgments(judgments: Judgments | None, ids: pl.Series, cell_index: CellIndex) -> Judgments | None:
    """Check items and systems, and order the rows by item, so that a round trip changes nothing."""
    if judgments is None or not len(judgments):
        return None
    id_type = ids.dtype
    table = judgments.table
    if table["item"].dtype != id_type:
        cast = table["item"].cast(id_type, strict=False)
        if cast.null_count() > table["item"].null_count():
            raise unknown_name("item", table["item"].filter(cast.is_null())[0], ids.head(50).to_list())
        table = table.with_columns(cast.alias("item"))
    rows, _ = cell_index(table["item"], table["system"])
    if np.any(np.diff(rows) < 0):
        table = table[np.argsort(rows, kind="stable")]
    return judgments if table is judgments.table else Judgments(table)
