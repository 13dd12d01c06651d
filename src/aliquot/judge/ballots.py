"""Ballots: one person orders several systems at once, by ranks or by naming the best and the worst."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.errors import DataError, OptionError, quoted
from aliquot.judge.answers import group_codes
from aliquot.judge.choice_tables import ChoiceTable
from aliquot.judge.labels import known_systems
from aliquot.stats.arrays import FloatArray, IntArray

_SEPARATORS = re.compile(r"\s*[;|,]\s*")


@dataclass(frozen=True, eq=False)
class Ballots:
    """Ballots x systems.

    Attributes:
        systems: Names, the order of the columns.
        values: Higher is better, NaN = not shown.
        keys: item and annotator of each ballot.
        shown: For best-worst ballots, times shown, best and worst: M x 3.
        notes: What was left out or assumed.
    """

    systems: tuple[str, ...]
    values: FloatArray
    keys: pl.DataFrame
    shown: IntArray | None = None
    notes: tuple[str, ...] = ()


def best_worst(table: ChoiceTable, systems: Sequence[str] | None = None, *, strict: bool = False) -> Ballots:
    """Read best-worst ballots: the best is 1, the worst -1, what else was shown 0.

    Args:
        table: item, annotator, best, worst and, unless all of `systems` were always shown, shown ("A;B;C;D").
        systems: Keep only these; what was shown where the table does not say.
        strict: Refuse an annotator's second ballot on the same systems of an item.

    Raises:
        DataError: A best that is also the worst, one that was not shown, fewer than two systems shown.

    Example:
        >>> frame = pl.DataFrame({"item": ["1"], "best": ["B"], "worst": ["C"], "shown": ["A;B;C"]})
        >>> ballots = best_worst(ChoiceTable(frame, "best-worst", "t.csv"))
        >>> ballots.systems, ballots.values.tolist()
        (('A', 'B', 'C'), [[0.0, 1.0, -1.0]])
    """
    best, worst = table.texts("best"), table.texts("worst")
    rows = _keys(table).with_columns(best.alias("best"), worst.alias("worst")).with_row_index("row")
    rows = rows.with_columns(_shown(table, systems).alias("shown"))
    pending = rows.filter(pl.col("best").is_null() & pl.col("worst").is_null()).height
    rows = rows.filter(pl.col("best").is_not_null() | pl.col("worst").is_not_null())
    _check_best_worst(rows, table)
    names = rows["shown"].explode().unique().drop_nulls().sort().to_list()
    cells = rows.select("row", pl.col("shown").alias("system"), "best", "worst").explode("system")
    value = (pl.col("system") == pl.col("best")).fill_null(value=False).cast(pl.Float64) - (
        pl.col("system") == pl.col("worst")
    ).fill_null(value=False).cast(pl.Float64)
    values = _filled(cells.with_columns(value.alias("value")), rows["row"], names)
    kept, found = _kept(names, values, systems, table)
    shown = np.column_stack([(~np.isnan(found)).sum(axis=0), (found == 1).sum(axis=0), (found == -1).sum(axis=0)])
    notes = [f"ballots without a choice (pending), left out: {pending}"] if pending else []
    keys, found, merge_notes = _once(rows.select("item", "annotator"), found, table, strict=strict)
    return Ballots(kept, found, keys, shown.astype(np.int64), (*notes, *merge_notes))


def _shown(table: ChoiceTable, systems: Sequence[str] | None) -> pl.Series:
    """What was shown on each ballot, as lists."""
    if table.has("shown"):
        lists = [_SEPARATORS.split(text) for text in table.required("shown").to_list()]
        return pl.Series("shown", lists, dtype=pl.List(pl.String))
    if systems is None:
        raise OptionError(
            f"{table.where}: no column 'shown' says which systems were on each ballot; name it with --columns "
            "shown=NAME, or, if the same were always shown, name them with --systems A,B,C"
        )
    return pl.Series("shown", [list(systems)] * table.frame.height, dtype=pl.List(pl.String))


def _check_best_worst(rows: pl.DataFrame, table: ChoiceTable) -> None:
    def refuse(bad: pl.Expr, what: str) -> None:
        found = rows.filter(bad.fill_null(value=False))
        if found.height:
            row = found.row(0, named=True)
            shown = quoted(row["shown"])
            raise table.fault(row["row"], what.format(**(row | {"shown": shown})))

    refuse(pl.col("best") == pl.col("worst"), "'{best}' is the best and the worst; correct the row")
    refuse(pl.col("shown").list.len() < 2, "only {shown} was shown; a ballot needs two systems or more")
    refuse(pl.col("shown").list.n_unique() < pl.col("shown").list.len(), "a system was shown twice among {shown}")
    for role in ("best", "worst"):
        unknown = pl.col(role).is_not_null() & ~pl.col("shown").list.contains(pl.col(role))
        refuse(unknown, f"the {role} is '{{{role}}}', and shown were {{shown}}; correct the row")


def rankings(table: ChoiceTable, systems: Sequence[str] | None = None, *, strict: bool = False) -> Ballots:
    """Read rankings: a row per system with its rank (1 best, equal ranks are ties), or a text such as "A > B = C".

    Args:
        table: item, annotator, and system with rank, or ranking.
        systems: Keep only these.
        strict: Refuse an annotator's second ranking of an item, which is averaged otherwise.

    Raises:
        DataError: No ranks, a rank that is not a number, a text that cannot be read.

    Example:
        >>> frame = pl.DataFrame({"item": ["1"], "ranking": ["B > A = C"]})
        >>> ballots = rankings(ChoiceTable(frame, "ranking", "t.csv"))
        >>> ballots.systems, ballots.values.tolist()
        (('A', 'B', 'C'), [[-2.0, -1.0, -2.0]])
    """
    torn: list[str] = []
    if table.has("ranking"):
        keys, cells = _from_texts(table)
        seats = keys["row"]
        keys = keys.drop("row")
    elif table.has("system") and table.has("rank"):
        keys, cells, torn = _from_rows(table, strict=strict)
        seats = pl.Series(np.arange(keys.height))
    else:
        raise DataError(
            f"{table.where}: rankings need the columns 'system' and 'rank', or a column 'ranking' such as A > B = C; "
            f"there are {quoted(table.frame.columns)}; name them with --columns system=NAME,rank=NAME"
        )
    names = cells["system"].unique().sort().to_list()
    kept, values = _kept(names, _filled(cells, seats, names), systems, table)
    several = np.isfinite(values).sum(axis=1) > 1
    if not several.any():
        raise DataError(f"{table.where}: no ballot ranks two systems; an annotator must rank several on the same item")
    notes = [] if several.all() else [f"ballots with a single ranked system, left out: {int((~several).sum())}"]
    keys, values, merge_notes = _once(keys.filter(pl.Series(several)), values[several], table, strict=strict)
    return Ballots(kept, values, keys, notes=(*notes, *torn, *merge_notes))


def _from_texts(table: ChoiceTable) -> tuple[pl.DataFrame, pl.DataFrame]:
    keys = _keys(table).with_row_index("row").with_columns(table.texts("ranking").alias("ranking"))
    keys = keys.filter(pl.col("ranking").is_not_null())
    cells: dict[str, list[object]] = {"row": [], "system": [], "value": []}
    for row, text in keys.select("row", "ranking").iter_rows():
        levels = [[name.strip() for name in level.split("=")] for level in text.split(">")]
        names = [name for level in levels for name in level]
        if "" in names or len(set(names)) < len(names):
            raise table.fault(row, f"the ranking '{text}' cannot be read; write each system once, e.g. A > B = C")
        for rank, level in enumerate(levels, start=1):
            for name in level:
                for column, value in zip(cells.values(), (row, name, -float(rank)), strict=True):
                    column.append(value)
    schema = {"row": pl.UInt32, "system": pl.String, "value": pl.Float64}
    return keys.drop("ranking"), pl.DataFrame(cells, schema=schema)


def _from_rows(table: ChoiceTable, *, strict: bool) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """One ballot per item and annotator; without annotators, per item."""
    rank = table.numbers("rank")
    cells = _keys(table).with_columns(
        table.required("system").alias("system"), pl.Series("value", -rank, nan_to_null=True)
    )
    ballot = group_codes(cells, ["item", "annotator"])
    cells = cells.with_columns(pl.Series("row", ballot)).with_row_index("line").filter(pl.col("value").is_not_null())
    again = cells.filter(pl.struct("row", "system").is_duplicated())
    torn = again.filter(pl.col("value").n_unique().over("row", "system") > 1) if again.height else again
    notes = []
    if torn.height:
        first = torn.row(0, named=True)
        if strict or first["annotator"] is None:
            raise table.fault(
                first["line"],
                f"'{first['system']}' has another rank on item {first['item']} elsewhere in the table; keep one row"
                + ("" if first["annotator"] is not None else ", or name the annotators"),
            )
        count = torn.select("row", "system").n_unique()
        notes.append(f"systems that an annotator gave several ranks on an item, which are averaged: {count}")
    keys = _keys(table).with_columns(pl.Series("row", ballot)).group_by("row").agg(pl.col("item", "annotator").first())
    means = cells.group_by("row", "system", maintain_order=True).agg(pl.col("value").mean())
    return keys.sort("row").drop("row"), means, notes


def _keys(table: ChoiceTable) -> pl.DataFrame:
    annotator = pl.Series("annotator", [None] * table.frame.height, dtype=pl.String)
    if "annotator" in table.frame.columns:
        annotator = table.texts("annotator")
    return pl.DataFrame({"item": table.required("item"), "annotator": annotator})


def _filled(cells: pl.DataFrame, seats: pl.Series, names: Sequence[str]) -> FloatArray:
    """Ballots x systems from one row per ballot (named by `row`) and system."""
    place = dict(zip(seats.to_list(), range(len(seats)), strict=True))
    values = np.full((len(seats), len(names)), np.nan)
    if not cells.height:
        return values
    row = cells["row"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
    column = cells["system"].replace_strict({n: at for at, n in enumerate(names)}, return_dtype=pl.Int64).to_numpy()
    values[row, column] = cells["value"].to_numpy()
    return values


def _kept(
    names: Sequence[str], values: FloatArray, systems: Sequence[str] | None, table: ChoiceTable
) -> tuple[tuple[str, ...], FloatArray]:
    if systems is None:
        return tuple(names), values
    wanted = known_systems(systems, names, table.where)
    return tuple(wanted), values[:, [list(names).index(name) for name in wanted]]


def _once(
    keys: pl.DataFrame, values: FloatArray, table: ChoiceTable, *, strict: bool
) -> tuple[pl.DataFrame, FloatArray, list[str]]:
    """Average an annotator's ballots on the same systems of an item; ballots without an annotator stand alone."""
    alone = pl.when(pl.col("annotator").is_null()).then(pl.int_range(pl.len())).otherwise(-1)
    there = np.isfinite(values)
    pattern = np.unique(there, axis=0, return_inverse=True)[1].ravel() if len(values) else np.zeros(0, dtype=np.int64)
    numbered = keys.with_columns(alone.alias("alone"), pl.Series("shown", pattern))
    codes = group_codes(numbered, ["item", "annotator", "alone", "shown"])
    number = int(codes.max()) + 1 if len(codes) else 0
    if number == len(codes):
        return keys, values, []
    first = np.unique(codes, return_index=True)[1]
    if strict:
        again = int(np.setdiff1d(np.arange(len(codes)), first)[0])
        raise DataError(
            f"{table.where}: {keys['annotator'][again]} filled in two ballots on item {keys['item'][again]}; keep "
            "one, or leave --strict out to average them"
        )
    sums, counts = np.zeros((number, values.shape[1])), np.zeros((number, values.shape[1]))
    np.add.at(sums, codes, np.where(there, values, 0.0))
    np.add.at(counts, codes, there.astype(np.float64))
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    more = len(codes) - number
    note = f"further ballots of an annotator on the same systems of an item, averaged with the first: {more}"
    return keys[first], means, [note]
