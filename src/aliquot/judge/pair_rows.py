"""Tables of single choices between two systems: who stood on which side, what was chosen, what was said twice."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from aliquot.errors import DataError, OptionError
from aliquot.judge.choice_sets import Preferences, annotator_notes, cluster_codes
from aliquot.judge.choice_tables import ChoiceTable
from aliquot.judge.labels import check_pair, known_systems, sides
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.choices import choices_of_rows

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

    The order in which the two systems were shown does not matter. Rows without an annotator are answers of their own.
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
