"""Choices between named systems, and what hangs together among them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, check_pair, known_systems, sides
from aliquot.annotation.judgment_rows import group_codes
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.choices import Choices, choices_of_rows

# -- Choices between named systems, and what hangs together among them -----------------------------------------------


CLUSTERS = ("item", "annotator", "none")
"""What choices may be clustered by."""


@dataclass(frozen=True, eq=False)
class Preferences:
    """Choices between named systems.

    Attributes:
        systems: Names, the order of the codes in `choices`.
        choices: Who was chosen over whom, on which cluster.
        kind: pairwise, best-worst, ranking or scores.
        items: Number of items.
        annotators: Number of annotators; 0 where they are not named.
        first_won: For pairs shown side by side, 1 where the first was chosen, 0 the second, 1/2 for ties, ...
        first_cluster: ... and the cluster of each.
        shown: For best-worst ballots, how often each system was shown, best and worst: M x 3.
        notes: What was left out, merged or assumed.
        fingerprint: Of the data, for signatures.
        asked: How the choices were taken from it, for signatures.
    """

    systems: tuple[str, ...]
    choices: Choices
    kind: str
    items: int
    annotators: int
    first_won: FloatArray | None = None
    first_cluster: IntArray | None = None
    shown: IntArray | None = None
    notes: tuple[str, ...] = ()
    fingerprint: str = ""
    asked: tuple[tuple[str, object], ...] = ()


def cluster_codes(keys: pl.DataFrame, cluster: str) -> IntArray:
    """Codes of what hangs together: items, annotators (rows without one stand alone), or nothing.

    >>> cluster_codes(pl.DataFrame({"item": ["x", "y", "x"], "annotator": ["p", "p", "q"]}), "item").tolist()
    [0, 1, 0]
    """
    if cluster not in CLUSTERS:
        raise unknown_name("cluster", cluster, CLUSTERS, "check --cluster")
    rows = np.arange(keys.height)
    if cluster == "none":
        return rows
    codes = group_codes(keys, [cluster])
    if cluster == "annotator" and keys["annotator"].null_count():
        alone = keys["annotator"].is_null().to_numpy()
        codes = np.unique(np.where(alone, keys.height + rows, codes), return_inverse=True)[1].astype(np.int64)
    return codes


def annotator_notes(keys: pl.DataFrame) -> list[str]:
    """Say what the number of annotators means for the result."""
    named = keys["annotator"].drop_nulls().n_unique()
    if not named:
        return ["no annotators are named: every row counts as a judgment of its own"]
    return ["one annotator: the intervals say nothing about how others would choose"] if named == 1 else []


# -- Tables of single choices between two systems: who stood on which side, what was chosen, what was said twice -----


_SAME_ORDER = (
    "every pair was always shown in the same order, so position and system cannot be told apart; shuffle the sides "
    "next time"
)


def pair_names(table: ChoiceTable, systems: Sequence[str] | None) -> tuple[pl.Series, pl.Series]:
    """The system on each side of each row: from the table, or the two that were named."""
    height = table.frame.height
    if table.has("system_a") and table.has("system_b"):
        a, b = table.required("system_a"), table.required("system_b")
    else:
        if systems is None or len(systems) != 2:
            raise OptionError(
                f"{table.where}: no columns 'system_a' and 'system_b' say who was compared; name the two with "
                "--systems A,B, or the columns with --columns system_a=NAME,system_b=NAME"
            )
        a, b = (pl.Series(name, [system] * height, dtype=pl.String) for name, system in zip("ab", systems, strict=True))
    check_pair(table, a, b)
    return a, b


def pair_rows(
    table: ChoiceTable, systems: Sequence[str] | None, ignore: Collection[str]
) -> tuple[pl.DataFrame, list[str]]:
    """Rows with item, annotator, a, b, side; those without a choice or outside `systems` are left out and counted."""
    a, b = pair_names(table, systems)
    annotator = (
        table.texts("annotator") if "annotator" in table.frame.columns else pl.Series([None] * len(a), dtype=pl.String)
    )
    rows = pl.DataFrame(
        {"item": table.required("item"), "annotator": annotator, "a": a, "b": b, "side": sides(table, a, b, ignore)}
    ).with_row_index("row")
    notes = []
    if systems is not None:
        known_systems(systems, {*a, *b}, table.where)
        rows = rows.filter(pl.col("a").is_in(list(systems)) & pl.col("b").is_in(list(systems)))
    open_ = rows["side"].null_count()
    if open_:
        notes.append(f"rows without a choice (pending, or ignored labels), left out: {open_}")
    return rows.filter(pl.col("side").is_not_null()), notes


def aligned_pairs(rows: pl.DataFrame, twins: Sequence[tuple[str, str]] = ()) -> pl.DataFrame:
    """Turn every pair the way it occurs first, so that A against B and B against A are one comparison.

    Args:
        rows: a, b and side (a, b, or anything else).
        twins: Further pairs of columns that belong to a and b.

    Example:
        >>> rows = pl.DataFrame({"a": ["X", "Y"], "b": ["Y", "X"], "side": ["a", "a"]})
        >>> aligned_pairs(rows).rows()
        [('X', 'Y', 'a'), ('X', 'Y', 'b')]
    """
    low, high = pl.min_horizontal("a", "b").alias("_low"), pl.max_horizontal("a", "b").alias("_high")
    marked = rows.with_columns(low, high).with_columns(pl.col("a").first().over("_low", "_high").alias("_lead"))
    turned = pl.col("a") != pl.col("_lead")
    swapped = [
        pl.when(turned).then(pl.col(one)).otherwise(pl.col(other)).alias(other)
        for first, second in (("a", "b"), *twins)
        for one, other in ((first, second), (second, first))
    ]
    side = pl.when(turned).then(pl.col("side").replace({"a": "b", "b": "a"})).otherwise(pl.col("side"))
    return marked.with_columns(*swapped, side.alias("side")).drop("_low", "_high", "_lead")


def pair_preferences(
    table: ChoiceTable, systems: Sequence[str] | None, ignore: Collection[str], cluster: str, *, strict: bool
) -> Preferences:
    """Read a table of choices between two systems."""
    rows, notes = pair_rows(table, systems, ignore)
    good_bad = rows.filter(pl.col("side").is_in(["both", "none"])).height
    if good_bad:
        notes.append(f"choices of 'both' or 'none', counted as ties (--kind verify keeps them apart): {good_bad}")
    outcome = pl.col("side").replace_strict({"a": 1, "b": -1}, default=0, return_dtype=pl.Int8)
    rows = rows.with_columns(outcome.alias("outcome"))
    names = tuple(sorted({*rows["a"], *rows["b"]})) if systems is None else tuple(systems)
    code = {name: at for at, name in enumerate(names)}
    rows = rows.with_columns(
        pl.col(side).replace_strict(code, return_dtype=pl.Int64).alias(f"{side}_code") for side in ("a", "b")
    )
    merged, merge_notes = _merged(rows, table, strict=strict)
    codes = cluster_codes(merged, cluster)
    columns = (merged["a_code"].to_numpy(), merged["b_code"].to_numpy(), merged["outcome"].to_numpy())
    choices = choices_of_rows(*columns, codes, len(names)) if merged.height else None
    if choices is None:
        raise DataError(
            f"{table.where}: no choice between two systems is left; check the choices, --systems and --ignore"
        )
    position, position_notes = _position(rows, cluster)
    return Preferences(
        systems=names,
        choices=choices,
        kind="pairwise",
        items=merged["item"].n_unique(),
        annotators=merged["annotator"].drop_nulls().n_unique(),
        first_won=None if position is None else position[0],
        first_cluster=None if position is None else position[1],
        notes=(*notes, *merge_notes, *position_notes, *annotator_notes(merged)),
        fingerprint=table.fingerprint,
    )


def _merged(rows: pl.DataFrame, table: ChoiceTable, *, strict: bool) -> tuple[pl.DataFrame, list[str]]:
    """One choice per annotator, item and pair: repeats that agree count once, others as what outweighs, or a tie.

    The order in which the two systems were shown does not matter. Rows without an annotator are judgments of their own.
    """
    low, high = pl.min_horizontal("a_code", "b_code"), pl.max_horizontal("a_code", "b_code")
    signed = pl.when(pl.col("a_code") < pl.col("b_code")).then("outcome").otherwise(-pl.col("outcome"))
    rows = rows.with_columns(low.alias("low"), high.alias("high"), signed.alias("signed"))
    alone = pl.when(pl.col("annotator").is_null()).then(pl.col("row").cast(pl.Int64)).otherwise(-1)
    keys = ["item", "annotator", "low", "high", "alone"]
    grouped = (
        rows.with_columns(alone.alias("alone"))
        .group_by(keys, maintain_order=True)
        .agg(pl.len().alias("rows"), pl.col("signed").n_unique().alias("kinds"), pl.col("signed").cast(pl.Int64).sum(),
             pl.col("row").first())
    )  # fmt: skip
    torn = grouped.filter(pl.col("kinds") > 1)
    if strict and torn.height:
        example = torn.row(0, named=True)
        raise table.fault(
            example["row"],
            f"{example['annotator']} chose differently on item {example['item']} elsewhere in the table; keep one "
            "row, or leave --strict out to merge them",
        )
    again = grouped.filter((pl.col("rows") > 1) & (pl.col("kinds") == 1)).height
    notes = [f"choices given twice by the same annotator, counted once: {again}"] if again else []
    if torn.height:
        notes.append(
            f"choices of an annotator that contradict each other (e.g. {torn['annotator'][0]} on item "
            f"{torn['item'][0]}), counted as what outweighs, or a tie: {torn.height}"
        )
    merged = grouped.with_columns(pl.col("signed").sign().alias("outcome"))
    return merged.select(
        "item", "annotator", pl.col("low").alias("a_code"), pl.col("high").alias("b_code"), "outcome"
    ), notes


def _position(rows: pl.DataFrame, cluster: str) -> tuple[tuple[FloatArray, IntArray] | None, list[str]]:
    """How often what was shown first won; unknowable where each pair was always shown in the same order."""
    orders = rows.select("a", "b").unique()
    flipped = orders.join(orders.rename({"a": "b", "b": "a"}), on=["a", "b"], how="semi")
    if not flipped.height:
        return None, [_SAME_ORDER]
    both = rows.join(flipped, on=["a", "b"], how="semi", maintain_order="left")
    won = (1.0 + both["outcome"].cast(pl.Float64).to_numpy()) / 2
    return (won, cluster_codes(both, cluster)), []


# -- Ballots: one person orders several systems at once, by ranks or by naming the best and the worst ----------------


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
