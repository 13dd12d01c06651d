"""The item format in Parquet: the fields of item JSON lines as columns, one row per item; loses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from aliquot.core.columns import cast_column
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import FormatError
from aliquot.io.formats.item_fields import META, NESTED, USAGE, column_name, field_name
from aliquot.io.writing import write_parquet
from aliquot.stats.arrays import FloatArray


def is_item_table(raw: bytes) -> bool:
    """Return whether a Parquet file has the item format: its metadata, or ids and nested scores or outputs."""
    if META in pl.read_parquet_metadata(raw):
        return True
    schema = pl.read_parquet_schema(raw)
    return "i" in schema and any(isinstance(schema.get(name), pl.Struct) for name in ("scores", "tgt"))


def read(raw: bytes, path: Path | str) -> EvalSet:
    """Read what `write` wrote."""
    table = pl.read_parquet(raw)
    meta = msgspec.json.decode(pl.read_parquet_metadata(raw).get(META, "{}"))
    _validate_schema(table.schema, path)
    outputs = table["tgt"].struct.unnest() if "tgt" in table.columns else None
    nested = [name for name in NESTED if name in table.columns and (name != USAGE or _is_usage(table[name]))]
    scores, usage = (_read_number_columns(table[name], path) if name in nested else {} for name in ("scores", USAGE))
    named = [system for field in nested for system in _list_fields(table, field)]
    systems = tuple(meta.get("systems") or dict.fromkeys(named))
    plain = [name for name in table.columns if name not in nested]
    missing = [pl.lit(None, dtype=pl.String).alias(name) for name in systems if name not in _list_fields(table, "tgt")]
    return EvalSet(
        items=pl.DataFrame([table.get_column(name).alias(column_name(name)) for name in plain]),
        systems=systems,
        scores={name: _place_columns(cells, systems, table.height) for name, cells in scores.items()},
        usage={name: _place_columns(cells, systems, table.height) for name, cells in usage.items()},
        outputs=None if outputs is None else outputs.with_columns(missing),
        judgments=_read_judgments(table),
        human=meta.get("human"),
        flipped=frozenset(meta.get("flipped", ())),
        name=Path(path).stem,
    )


def _validate_schema(schema: pl.Schema, path: Path | str) -> None:
    """Raise FormatError for a nested column with another dtype than the item format's."""
    for name, kind, expected in (
        ("tgt", pl.Struct, "a text for each system"),
        ("scores", pl.Struct, "numbers for each system"),
        ("judgments", pl.List(pl.Struct), "a list of judgments"),
    ):
        if name in schema and schema[name] != kind:
            raise FormatError(f"{path}: the column '{name}' holds {schema[name]}; expected {expected} in each row")


def _is_usage(cells: pl.Series) -> bool:
    """Return whether a column named `usage` holds numbers for each system; other tools have columns of that name."""
    return isinstance(cells.dtype, pl.Struct) and all(isinstance(each.dtype, pl.Struct) for each in cells.dtype.fields)


def _list_fields(table: pl.DataFrame, column: str) -> list[str]:
    dtype = table.schema.get(column)
    return [field.name for field in dtype.fields] if isinstance(dtype, pl.Struct) else []


def _read_number_columns(cells: pl.Series, path: Path | str) -> dict[str, dict[str, FloatArray]]:
    """Return name -> system -> values, in the order of first appearance."""
    by_name: dict[str, dict[str, FloatArray]] = {}
    for of_system in cells.struct.unnest():  # `struct.field` takes names such as "*" for patterns
        system = of_system.name
        if not isinstance(of_system.dtype, pl.Struct):
            raise FormatError(
                f"{path}: {cells.name}.{system} holds {of_system.dtype}; expected a number for each metric"
            )
        for each in of_system.struct.unnest():
            values = cast_column(each, pl.Float64(), f"{cells.name}.{system}.{each.name}")
            by_name.setdefault(each.name, {})[system] = values.to_numpy()
    return by_name


def _place_columns(cells: dict[str, FloatArray], systems: tuple[str, ...], n: int) -> FloatArray:
    array = np.full((n, len(systems)), np.nan)
    for system, values in cells.items():
        array[:, systems.index(system)] = values
    array.setflags(write=False)
    return array


def _read_judgments(table: pl.DataFrame) -> Judgments | None:
    if "judgments" not in table.columns:
        return None
    rows = table.select(pl.col("i").alias("item"), "judgments").explode("judgments")
    return Judgments(rows.drop_nulls("judgments").unnest("judgments"))


def write(evalset: EvalSet, path: Path | str) -> None:
    """Write one row per item; systems' order, the human score and flipped scores go into the file's metadata."""
    columns = [evalset.items[name].alias(field_name(name)) for name in evalset.items.columns]
    if evalset.outputs is not None:
        columns.append(evalset.outputs.to_struct("tgt"))
    for field, arrays in (("scores", evalset.scores), (USAGE, evalset.usage)):
        if arrays and evalset.systems:
            columns.append(_nest_numbers(evalset.systems, arrays, field))
    table = pl.DataFrame(columns)
    if evalset.judgments is not None:
        grouped = _nest_judgments(evalset.judgments)
        table = table.join(grouped, on="i", how="left", maintain_order="left")
    meta = {"systems": evalset.systems, "human": evalset.human, "flipped": sorted(evalset.flipped)}
    write_parquet(table, path, {META: msgspec.json.encode(meta).decode()})


def _nest_numbers(systems: tuple[str, ...], arrays: Mapping[str, FloatArray], field: str) -> pl.Series:
    by_system = [
        pl.DataFrame(
            [pl.Series(name, values[:, column], nan_to_null=True) for name, values in arrays.items()]
        ).to_struct(system)
        for column, system in enumerate(systems)
    ]
    return pl.DataFrame(by_system).to_struct(field)


def _nest_judgments(judgments: Judgments) -> pl.DataFrame:
    fields = [name for name in judgments.table.columns if name != "item"]
    nested = judgments.table.group_by("item", maintain_order=True).agg(pl.struct(fields).alias("judgments"))
    return nested.rename({"item": "i"})
