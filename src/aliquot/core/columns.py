"""Columns of loose records, the checks of EvalSet's tables, and cells gathered into arrays.

Invariant: `decode_column(encode_column(values)) == values`. Plain values become a native column; other JSON values
(lists, objects, mixtures) are kept as JSON text in a struct with the single field `json`, so that the dtype tells
them apart, in memory and in Parquet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl

from aliquot.errors import DataError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray

if TYPE_CHECKING:  # these two import this file
    from aliquot.core.evalset import EvalSet
    from aliquot.core.judgments import Judgments

JSON_DTYPE = pl.Struct({"json": pl.String})
_NONE = type(None)
_NATIVE_TYPES: tuple[tuple[set[type], pl.DataType], ...] = (
    ({_NONE}, pl.Null()),
    ({str, _NONE}, pl.String()),
    ({bool, _NONE}, pl.Boolean()),
    ({int, _NONE}, pl.Int64()),
    ({int, float, _NONE}, pl.Float64()),
)
_MAX_EXACT_INTEGER = 2**53  # beyond it a float column would round an integer


def encode_column(name: str, values: Sequence[Any]) -> pl.Series:
    """Return values decoded from JSON as a Polars column.

    >>> encode_column("refs", [["a", "b"], None]).dtype == JSON_DTYPE
    True
    """
    kinds = set(map(type, values))
    for accepted, dtype in _NATIVE_TYPES:
        if kinds <= accepted and (float not in accepted or _fit_float64(values)):
            try:
                return pl.Series(name, values, dtype=dtype, strict=True)
            except (OverflowError, TypeError, pl.exceptions.PolarsError):  # an integer beyond 64 bits
                break
    encoded = [None if value is None else {"json": msgspec.json.encode(value).decode()} for value in values]
    return pl.Series(name, encoded, dtype=JSON_DTYPE)


def _fit_float64(values: Sequence[Any]) -> bool:
    return all(-_MAX_EXACT_INTEGER <= value <= _MAX_EXACT_INTEGER for value in values if type(value) is int)


def decode_column(column: pl.Series) -> list[Any]:
    """Return the values of a column made by `encode_column`."""
    values = column.to_list()
    if column.dtype != JSON_DTYPE:
        return values
    return [None if value is None or value["json"] is None else msgspec.json.decode(value["json"]) for value in values]


def frame_from_records(records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return records as a table: fields in order of first appearance, absent ones null.

    >>> frame_from_records([{"a": 1}, {"b": "x"}]).to_dicts()
    [{'a': 1, 'b': None}, {'a': None, 'b': 'x'}]
    """
    names = ordered_union(records)
    return pl.DataFrame([encode_column(name, [record.get(name) for record in records]) for name in names])


def tables_equal(a: pl.DataFrame | None, b: pl.DataFrame | None) -> bool:
    """Return whether two tables have equal content, whatever the order of columns; empty columns are ignored.

    >>> tables_equal(pl.DataFrame({"a": [1], "b": [None]}), pl.DataFrame({"a": [1]}))
    True
    """
    first, second = _drop_empty_columns(a), _drop_empty_columns(b)
    return first.keys() == second.keys() and all(_values_equal(first[k], second[k]) for k in first)


def _values_equal(a: pl.Series, b: pl.Series) -> bool:
    of_one_kind = a.dtype == b.dtype or (a.dtype.is_numeric() and b.dtype.is_numeric())  # 1 and 1.0, but not 1 and true
    return of_one_kind and a.equals(b)


def _drop_empty_columns(table: pl.DataFrame | None) -> dict[str, pl.Series]:
    """Return the columns that hold a value; a mixed column takes the dtype of its remaining values."""
    columns = [] if table is None else [c for c in table if c.null_count() < len(c)]
    return {c.name: encode_column(c.name, decode_column(c)) if c.dtype == JSON_DTYPE else c for c in columns}


def cast_column(column: pl.Series, dtype: pl.DataType, what: str) -> pl.Series:
    """Cast a column; raise DataError for the first value that has another type.

    >>> cast_column(pl.Series("cost", ["1", "dear"]), pl.Float64(), "item column 'cost'")
    Traceback (most recent call last):
        ...
    aliquot.errors.DataError: item column 'cost': row 2 holds 'dear', which is not a number
    """
    if column.dtype == dtype:  # the rule wherever a set is made out of another one, thousands of times in a replay
        return column
    kind = "a text" if dtype == pl.String else "a number" if dtype.is_float() else "a whole number"
    try:
        cast = column.cast(dtype, strict=False)
    except pl.exceptions.PolarsError:
        raise DataError(f"{what} holds {column.dtype}; each value should be {kind}") from None
    changed = cast.is_null() & column.is_not_null()
    if dtype.is_integer() and column.dtype.is_float():
        changed |= (cast.cast(column.dtype) != column).fill_null(value=False)
    if changed.any():
        row = int(changed.arg_max() or 0)
        raise DataError(f"{what}: row {row + 1} holds {column[row]!r}, which is not {kind}")
    return cast


def unify_ids(ids: Sequence[int | str]) -> list[int | str]:
    """Return ids unchanged if all have one type, else all as strings.

    >>> unify_ids([1, "x"])
    ['1', 'x']
    """
    return list(ids) if len(set(map(type, ids))) < 2 else [str(item) for item in ids]


def ordered_union(groups: Iterable[Iterable[str]]) -> list[str]:
    """Return all names of all groups, once each, in order of first appearance."""
    return list(dict.fromkeys(name for group in groups for name in group))


# -- The checks behind EvalSet's invariants, in one place, with messages that name the item, the score and the value -


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


def validate_items(items: pl.DataFrame) -> pl.DataFrame:
    """Return the items table with its dtypes; raise DataError if it is not valid."""
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


def validate_names(names: Sequence[str], kind: str) -> None:
    """Raise when a name is empty or occurs twice."""
    if "" in names:
        raise DataError(f"{kind} number {names.index('') + 1} has an empty name ''; give it one")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"the {kind} '{repeated[0]}' occurs twice; names must be unique")


def freeze_scores(name: str, values: Any, shape: tuple[int, int]) -> FloatArray:
    """Return a read-only float array; an array that is read-only already is not copied."""
    array: FloatArray = np.asarray(values)
    if array.shape != shape:
        raise DataError(f"score '{name}' has shape {array.shape}; {shape[0]} items x {shape[1]} systems are expected")
    if array.dtype != np.float64 or not array.flags.c_contiguous or not _is_immutable(array):
        try:
            array = np.array(array, dtype=np.float64, order="C")
        except (TypeError, ValueError) as error:
            raise DataError(
                f"score '{name}' holds something that is no number ({error}); use NaN for missing"
            ) from None
        array.setflags(write=False)
    if np.isinf(array).any():
        row, column = np.argwhere(np.isinf(array))[0]
        raise DataError(f"score '{name}' of item number {row}, system number {column} is infinite; use NaN for missing")
    return array


def _is_immutable(array: Any) -> bool:
    """Return whether the array and all arrays that it is a view of are read-only."""
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.base
    return array is None


def validate_outputs(outputs: pl.DataFrame | None, systems: tuple[str, ...], n: int) -> pl.DataFrame | None:
    """Return the outputs with one text column per system, in the order of the systems."""
    if outputs is None or not systems:
        return None
    if outputs.height != n or set(outputs.columns) != set(systems):
        raise DataError(
            f"outputs have {outputs.height} rows and the columns {outputs.columns}; "
            f"{n} rows and one column for each of {list(systems)} are expected"
        )
    if outputs.columns == list(systems) and set(outputs.dtypes) == {pl.String}:
        return outputs
    return outputs.select(cast_column(outputs[system], pl.String(), f"outputs of '{system}'") for system in systems)


def validate_judgments(judgments: Judgments | None, ids: pl.Series, cell_index: CellIndex) -> Judgments | None:
    """Return judgments sorted by item; raise for unknown items and systems."""
    if judgments is None or not len(judgments):
        return None
    id_type = ids.dtype
    table = judgments.table
    if table["item"].dtype != id_type:
        cast = table["item"].cast(id_type, strict=False)
        if cast.null_count() > table["item"].null_count():
            unknown = table["item"].filter(cast.is_null())[0]
            raise unknown_name("item", unknown, ids.head(50).to_list(), "judgments are of items in the data")
        table = table.with_columns(cast.alias("item"))
    rows, _ = cell_index(table["item"], table["system"])
    if np.any(np.diff(rows) < 0):
        table = table[np.argsort(rows, kind="stable")]
    return judgments if table is judgments.table else type(judgments)(table)


# -- Groups of items: the values of any item column as integer codes -------------------------------------------------


def group_codes(evalset: EvalSet, column: str) -> IntArray:
    """Return the integer code of each item's value in a column, in order of first appearance; missing is a value.

    >>> import aliquot
    >>> int(group_codes(aliquot.synthetic(items=10, systems=1), "domain").min())
    0
    """

    def encode_groups(data: EvalSet) -> IntArray:
        return encode_series(data.column(column).cast(pl.String).fill_null("(none)"))

    return evalset.derived(f"codes of {column}", encode_groups)  # every draw of a replay asks for them


def encode_series(values: pl.Series) -> IntArray:
    """Return the integer code of each value, in order of first appearance.

    >>> encode_series(pl.Series(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    table = values.alias("value").to_frame()
    distinct = table.unique(maintain_order=True).with_row_index("code")
    codes = table.join(distinct, on="value", how="left", nulls_equal=True, maintain_order="left")["code"]
    return codes.cast(pl.Int64).to_numpy()


# -- Collecting cells item by item into N x M arrays without a Python step for every single number -------------------


_FLUSH_SIZE = 2_000_000  # numbers held as Python objects at a time


class ScoreCells:
    """Collect {system: {score: number}} item by item.

    Cells are grouped by their tuple of score names (a layout); each group becomes a matrix, scattered into the arrays.
    """

    def __init__(self) -> None:
        self.systems: dict[str, int] = {}
        self._layouts: dict[tuple[str, ...], _Layout] = {}
        self._names: dict[str, None] = {}
        self.added = 0  # numbers and nulls, all in all
        self._flushed = 0

    def add(self, row: int, scores: Mapping[str, Mapping[str, float | None] | None]) -> None:
        """Add an item's scores."""
        for system, cell in scores.items():
            column = self.systems.setdefault(system, len(self.systems))
            if not cell:
                continue
            names = tuple(cell)
            layout = self._layouts.get(names)
            if layout is None:
                layout = self._layouts[names] = _Layout()
                self._names.update(dict.fromkeys(names))
            layout.rows.append(row)
            layout.columns.append(column)
            layout.values.extend(cell.values())
            self.added += len(names)
        if self.added - self._flushed > _FLUSH_SIZE:
            self._flush_layouts()

    def _flush_layouts(self) -> None:
        for names, layout in self._layouts.items():
            layout.flush(len(names))
        self._flushed = self.added

    def to_arrays(self, n: int, systems: Sequence[str]) -> dict[str, FloatArray]:
        """Return name -> n x len(systems) array, read-only, NaN where nothing was added."""
        self._flush_layouts()
        column_of = {system: position for position, system in enumerate(systems)}
        place = np.array([column_of[system] for system in self.systems], dtype=np.int64)
        arrays = {name: np.full((n, len(systems)), np.nan) for name in self._names}
        for names, layout in self._layouts.items():
            for rows, columns, block in layout.blocks:
                for index, name in enumerate(names):
                    arrays[name][rows, place[columns]] = block[:, index]
        for array in arrays.values():
            array.setflags(write=False)
        return arrays


class _Layout:
    """Cells with the same score names: as lists first, then as blocks of arrays."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float | None] = []
        self.blocks: list[tuple[np.ndarray, np.ndarray, FloatArray]] = []

    def flush(self, width: int) -> None:
        if self.rows:
            block = np.array(self.values, dtype=np.float64).reshape(-1, width)  # None becomes NaN
            self.blocks.append((np.array(self.rows), np.array(self.columns), block))
            self.rows, self.columns, self.values = [], [], []


class TextCells:
    """Collect {system: text} item by item."""

    def __init__(self) -> None:
        self.columns: dict[str, list[str | None]] = {}

    def add(self, row: int, texts: Mapping[str, str | None]) -> None:
        """Add an item's outputs."""
        for system, text in texts.items():
            column = self.columns.setdefault(system, [])
            if len(column) < row:
                column.extend([None] * (row - len(column)))
            column.append(text)

    def to_frame(self, n: int, systems: Sequence[str]) -> pl.DataFrame | None:
        """Return a table with one text column per system; None without any text."""
        if not any(text is not None for column in self.columns.values() for text in column):
            return None
        for column in self.columns.values():
            column.extend([None] * (n - len(column)))
        empty: list[str | None] = [None] * n
        names = ordered_union([systems])
        return pl.DataFrame([pl.Series(name, self.columns.get(name, empty), dtype=pl.String) for name in names])


def scatter_texts(
    rows: IntArray, columns: IntArray, texts: Sequence[str | None], n: int, systems: Sequence[str]
) -> pl.DataFrame:
    """Return a table with one text column per system, filled with texts at (row, column); None is skipped."""
    cells = np.full((n, len(systems)), None, dtype=object)
    has_text = np.array([text is not None for text in texts], dtype=np.bool_)
    cells[rows[has_text], columns[has_text]] = [text for text in texts if text is not None]
    return pl.DataFrame([pl.Series(s, cells[:, column].tolist(), dtype=pl.String) for column, s in enumerate(systems)])
