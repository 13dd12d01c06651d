"""Tables people keep scores and judgments in: long scores, wide scores, long judgments; CSV, TSV or Parquet.

Text files are read as text and turned into numbers here, so that an error can name the row and the value.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from aliquot.core.columns import text_frame
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import AliquotWarning, FormatError, OptionError, quoted, unknown_name
from aliquot.io.files import decode_text, read_bytes, whole_file, write_bytes
from aliquot.io.formats import table_columns as delimited
from aliquot.io.formats.table_columns import (
    ITEM_FIELDS,
    MAY_BE_SCORES,
    guess_type,
    ids_of,
    is_numeric,
    map_columns,
    names_of,
    numbers_of,
    require,
    whole_numbers_of,
)
from aliquot.stats.arrays import FloatArray, IntArray

# -- Tables people keep scores and judgments in: long scores, wide scores, long judgments; CSV, TSV or Parquet -------


_WIDE = ("systems", "metrics")
_USED = ("item", "system", "metric", "value", "output", *ITEM_FIELDS)


@dataclass(frozen=True)
class TableOptions:
    """How a table is to be understood where its columns do not say.

    Attributes:
        columns: our column role -> the table's column name.
        wide: "systems" or "metrics" when columns are systems or metrics.
        score_name: the name of the score where the table gives none.
    """

    columns: Mapping[str, str] | None = None
    wide: str | None = None
    score_name: str | None = None


@dataclass(frozen=True)
class _Table:
    """A table sorted out: columns that play a role, under our names, and all others, under their own."""

    known: pl.DataFrame
    others: pl.DataFrame
    roles: Mapping[str, str]
    where: str

    @property
    def name(self) -> str:
        return Path(self.where).name.split(".")[0]

    def require(self, roles: Sequence[str], kind: str) -> None:
        present = [*self.roles.values(), *self.others.columns]
        require(roles, self.roles, present, kind, self.where)

    def ids(self) -> pl.Series:
        return ids_of(self.known["item"], self.where)

    def names(self, role: str) -> pl.Series:
        return names_of(self.known[role], self.where)

    def numbers(self, column: pl.Series) -> FloatArray:
        return numbers_of(column, self.where)


def read_text(raw: bytes, path: Path | str, options: TableOptions) -> EvalSet:
    """Read a CSV or TSV table."""
    return from_table(delimited.parse(decode_text(raw, path), path), str(path), options)


def from_table(table: pl.DataFrame, where: str, options: TableOptions | None = None) -> EvalSet:
    """Make an EvalSet of a table, deciding by its columns which kind it is."""
    options = options or TableOptions()
    if options.wide is not None and options.wide not in _WIDE:
        raise unknown_name("--wide", options.wide, _WIDE)
    if not table.height:
        raise FormatError(f"{where}: the table has a header but no rows; there is nothing to read")
    sorted_out = _sort_out(table, where, options)
    sorted_out.require(["item"], "tables")
    roles = sorted_out.roles
    if options.wide is not None or ("value" not in roles and "annotator" not in roles):
        return _from_wide(sorted_out, options)
    if "annotator" in roles or "criterion" in roles:
        return _from_judgments(sorted_out)
    return _from_long(sorted_out, options)


def _sort_out(table: pl.DataFrame, where: str, options: TableOptions) -> _Table:
    """Give each column its role; under --wide a column of numbers is a score, whatever it is called."""
    table = table.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    roles = map_columns(table.columns, options.columns, where)
    if options.wide is not None:
        asked = options.columns or {}
        scores = [r for r in MAY_BE_SCORES if r in roles and r not in asked and is_numeric(table[roles[r]])]
        roles = {role: column for role, column in roles.items() if role not in scores}
    known = table.select(pl.col(theirs).alias(ours) for ours, theirs in roles.items())
    return _Table(known, table.drop(roles.values()), roles, where)


# -- the kinds -----------------------------------------------------------------------------------------------------


def _from_long(table: _Table, options: TableOptions) -> EvalSet:
    table.require(["system", "value"], "long scores")
    value = table.numbers(table.known["value"])
    items, rows = codes(table.ids())
    systems, columns = codes(table.names("system"))
    if "metric" in table.roles:
        metrics, which = codes(table.names("metric"))
        names = metrics.to_list()
    else:
        names, which = [options.score_name or table.roles["value"]], np.zeros(len(rows), dtype=np.int64)
    shape = (len(names), len(items), len(systems))
    cell = (which * shape[1] + rows) * shape[2] + columns
    scores = _scatter(value, cell, shape, table, None if "metric" in table.roles else names[0])
    _warn_left_out([r for name, r in table.roles.items() if name not in _USED] + table.others.columns, table)
    return EvalSet(
        items=_item_table(items, table, rows),
        systems=tuple(systems.to_list()),
        scores=dict(zip(names, scores, strict=True)),
        outputs=_outputs(table, rows, columns, items, systems),
        name=table.name,
    )


def _scatter(
    value: FloatArray, cell: IntArray, shape: tuple[int, ...], table: _Table, metric: str | None
) -> FloatArray:
    """Put each value into its cell; two rows for one cell must agree, unless one of them is empty."""
    scores = np.full(int(np.prod(shape)), np.nan)
    present = np.isfinite(value)
    if present.all():
        scores[cell] = value
    else:
        scores[cell[present]] = value[present]
    differs = (scores[cell] != value) & present
    if differs.any():
        second = int(np.flatnonzero(differs)[0])
        first = int(np.flatnonzero((cell == cell[second]) & present)[-1])
        low, high = sorted((first, second))
        row = table.known.row(high, named=True)
        raise FormatError(
            f"{table.where} row {high + 1}: item {row['item']}, system {row['system']}, metric "
            f"{metric or row['metric']} has the value {value[high]:g} here and {value[low]:g} in row {low + 1}; "
            "keep one, or add an 'annotator' column if both are judgments"
        )
    return scores.reshape(shape)


def _warn_left_out(names: Sequence[str], table: _Table) -> None:
    if names:
        warnings.warn(f"{table.where}: the columns {quoted(names)} are not read as scores: left out", AliquotWarning, 2)


def _from_wide(table: _Table, options: TableOptions) -> EvalSet:
    others = table.others.columns
    if options.wide is None and "system" not in table.roles:
        raise FormatError(
            f"{table.where}: no columns 'system' and 'value', so {quoted(others, 5)} could be systems or metrics; "
            "say which with --wide systems or --wide metrics, or name columns with --columns"
        )
    if not others:
        raise FormatError(f"{table.where}: no column holds scores; there are {quoted(table.roles.values())}")
    if options.wide == "systems":
        return _from_system_columns(table, options)
    table.require(["system"], "tables with one column a metric")
    numeric = [name for name in others if is_numeric(table.others[name])]
    if not numeric:
        raise FormatError(
            f"{table.where}: none of the columns {quoted(others)} holds numbers only; name them with --columns"
        )
    _warn_left_out([name for name in others if name not in numeric], table)
    items, rows = codes(table.ids())
    systems, columns = codes(table.names("system"))
    shape = (len(items), len(systems))
    cell = rows * shape[1] + columns
    scores = {name: _scatter(table.numbers(table.others[name]), cell, shape, table, name) for name in numeric}
    return EvalSet(
        items=_item_table(items, table, rows),
        systems=tuple(systems.to_list()),
        scores=scores,
        outputs=_outputs(table, rows, columns, items, systems),
        name=table.name,
    )


def _from_system_columns(table: _Table, options: TableOptions) -> EvalSet:
    ids = table.ids()
    again = ~ids.is_first_distinct()
    if again.any():
        row = int(again.arg_max() or 0)
        raise FormatError(
            f"{table.where} row {row + 1}: item {ids[row]} has two rows; with --wide systems each item has one"
        )
    values = np.column_stack([table.numbers(column) for column in table.others])
    items, rows = codes(ids)
    return EvalSet(
        items=_item_table(items, table, rows),
        systems=tuple(table.others.columns),
        scores={options.score_name or "score": values},
        name=table.name,
    )


def _from_judgments(table: _Table) -> EvalSet:
    judgments = _judgments_table(table)
    items, rows = codes(judgments["item"])
    systems, columns = codes(judgments["system"])
    evalset = EvalSet(
        items=_item_table(items, table, rows),
        systems=tuple(systems.to_list()),
        outputs=_outputs(table, rows, columns, items, systems),
        judgments=Judgments(judgments),
        name=table.name,
    )
    return with_criteria(evalset)


def _judgments_table(table: _Table) -> pl.DataFrame:
    """Return the judgments with their types and free columns, without texts and item columns."""
    table.require(["item", "system", "value"], "judgments")
    numbers = [name for name in ("value", "seconds") if name in table.roles]
    apart = ("item", "system", *numbers, *ITEM_FIELDS, "output")
    columns = [
        table.ids().alias("item"),
        table.names("system"),
        *(pl.Series(name, table.numbers(table.known[name]), nan_to_null=True) for name in numbers),
        *(guess_type(column) for column in table.known if column.name not in apart),
    ]
    taken = {column.name for column in columns}
    free = {f"{name}_" if name in taken else name: guess_type(table.others[name]) for name in table.others.columns}
    return pl.DataFrame([*columns, *(column.alias(name) for name, column in free.items())])


def with_criteria(evalset: EvalSet) -> EvalSet:
    """Add `human`, the mean over all judgments of a cell, and `human_<criterion>` for each of several criteria."""
    evalset = evalset.aggregate()
    criteria = evalset.judgments.criteria if evalset.judgments is not None else []
    for criterion in criteria if len(criteria) > 1 else []:
        evalset = evalset.aggregate(criterion=criterion)
    return evalset


# -- items and outputs ---------------------------------------------------------------------------------------------


def codes(labels: pl.Series) -> tuple[pl.Series, IntArray]:
    """Return the distinct labels in order of first appearance and each row's index among them."""
    distinct = labels.alias("key").unique(maintain_order=True)
    index = pl.DataFrame({"key": distinct, "at": np.arange(len(distinct))})
    at = labels.alias("key").to_frame().join(index, on="key", how="left", maintain_order="left")["at"]
    return distinct, at.to_numpy().astype(np.int64, copy=False)


def _item_table(items: pl.Series, table: _Table, rows: IntArray) -> pl.DataFrame:
    """Take each item's fields from the first of its rows that has them."""
    fields = [_item_field(table.known[name], table.where) for name in ITEM_FIELDS if name in table.roles]
    if not fields:
        return pl.DataFrame([items.alias("id")])
    by_item = pl.DataFrame([pl.Series("row", rows), *fields]).group_by("row", maintain_order=True)
    first = by_item.agg(pl.exclude("row").drop_nulls().first())  # codes count up in order of first appearance
    return pl.DataFrame([items.alias("id"), *first.drop("row")])


def _item_field(column: pl.Series, where: str) -> pl.Series:
    if column.name == "cost":
        return pl.Series("cost", numbers_of(column, where), nan_to_null=True)
    return whole_numbers_of(column, where) if column.name == "position" else column.cast(pl.String)


def _outputs(
    table: _Table, rows: IntArray, columns: IntArray, items: pl.Series, systems: pl.Series
) -> pl.DataFrame | None:
    if "output" not in table.roles:
        return None
    texts = table.known["output"].cast(pl.String).to_list()
    return text_frame(rows, columns, texts, len(items), systems.to_list())


# -- writing -------------------------------------------------------------------------------------------------------


def write(table: pl.DataFrame, path: Path | str) -> None:
    """Write a table by the path's ending: .csv, .tsv (and .gz of them) or .parquet."""
    name = str(path).removesuffix(".gz")
    if name.endswith(".parquet"):
        with whole_file(path) as temporary:
            table.write_parquet(temporary)
        return
    if not name.endswith((".csv", ".tsv")):
        raise OptionError(f"{path}: unknown ending for a table; use .csv, .tsv or .parquet")
    nested = [column.name for column in table if column.dtype.is_nested()]
    flat = table.with_columns(pl.col(name).struct.field("json").alias(name) for name in nested)
    write_bytes(path, flat.write_csv(separator="\t" if name.endswith(".tsv") else ",").encode())


def long_scores(evalset: EvalSet) -> pl.DataFrame:
    """One row per item, system and score that is present: item, system, metric, value."""
    n, m = evalset.n_items, evalset.n_systems
    item = evalset.items["id"].gather(np.repeat(np.arange(n), m)).alias("item")
    cells = pl.DataFrame([item, pl.Series("system", list(evalset.systems) * n, dtype=pl.String)])
    by_score = [
        cells.with_columns(pl.lit(name).alias("metric"), pl.Series("value", values.ravel(), nan_to_null=True))
        for name, values in evalset.scores.items()
    ]
    return pl.concat(by_score).drop_nulls("value")


# -- Tables of judgments whose answers may be labels, such as `yes` and `no`: kept as tables, since scores are numbers


_PARQUET_MAGIC = b"PAR1"
_OURS = ("item", "system", "annotator", "criterion", "seconds")


def read(path: Path | str, answer: str, columns: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Read a CSV, TSV or Parquet table of judgments; the column `answer` is numbers only if all of it is.

    Args:
        path: the file.
        answer: the column that holds the answers.
        columns: our column role -> the table's column name, where synonyms do not do.
    """
    raw = read_bytes(path)
    table = _parquet(raw, path) if raw.startswith(_PARQUET_MAGIC) else delimited.parse(decode_text(raw, path), path)
    if answer not in table.columns:
        raise FormatError(f"{path}: {unknown_name('column', answer, table.columns, 'check --answer')}")
    if answer in _OURS:
        raise FormatError(f"{path}: the column '{answer}' says what was judged, by whom or how fast, and is no answer")
    present = [name for name in table.columns if name != answer]
    roles = map_columns(present, {k: v for k, v in (columns or {}).items() if k != "value"}, str(path))
    roles.pop("value", None)
    require(["item", "annotator"], roles, present, "judgments", str(path))
    known = table.select(pl.col(theirs).alias(ours) for ours, theirs in roles.items())
    made = [ids_of(known["item"], str(path)).alias("item"), names_of(known["annotator"], str(path))]
    made.append(names_of(known["system"], str(path)) if "system" in roles else pl.repeat("-", len(known), eager=True))
    made[-1] = made[-1].alias("system")
    made.append(guess_type(table[answer]))
    if "seconds" in roles:
        made.append(pl.Series("seconds", numbers_of(known["seconds"], str(path)), nan_to_null=True))
    taken = {column.name for column in made}
    others = [guess_type(column) for column in known if column.name not in taken]
    free = [guess_type(table[name]) for name in present if name not in roles.values() and name not in taken]
    return pl.DataFrame([*made, *others, *(column for column in free if column.name not in {o.name for o in others})])


def _parquet(raw: bytes, path: Path | str) -> pl.DataFrame:
    try:
        return pl.read_parquet(io.BytesIO(raw))
    except pl.exceptions.PolarsError as error:
        raise FormatError(f"{path}: unreadable Parquet ({str(error).splitlines()[0]}); copy it again") from None
