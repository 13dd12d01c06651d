"""Choices between named systems: made side by side in a table, or derived from scores of the same item.

Everything becomes pairwise choices on items. Scores give a choice where one annotator (or all of them on average)
scored two outputs of the same item.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, digest_table, read_sides, require_systems
from aliquot.annotation.judgment_rows import OPEN, group_codes, judgment_rows
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.choices import Choices, choices_from_rows, choices_from_scores
from aliquot.validation import one_of

Cluster = Literal["item", "annotator", "none"]
"""What makes choices dependent; none: they are independent."""
CLUSTERS: tuple[Cluster, ...] = get_args(Cluster)

Within = Literal["annotator", "item"]
WITHIN: tuple[Within, ...] = get_args(Within)


@dataclass(frozen=True, eq=False)
class Preferences:
    """Choices between named systems."""

    systems: tuple[str, ...]  # in the order of the codes in `choices`
    choices: Choices  # which system was chosen over which, on which cluster
    kind: str  # pairwise, best-worst, ranking or scores
    items: int
    annotators: int  # 0 where they are not named
    cluster: Cluster
    # Of pairs shown side by side: 1 where the first was chosen, 0 the second, 1/2 for ties; and the cluster of each.
    position: tuple[FloatArray, IntArray] | None = None
    both_bad: int = 0  # choices that are ties because both outputs are bad
    ballot_counts: IntArray | None = (
        None  # of best-worst ballots, how often each system was shown, best and worst: M x 3
    )
    notes: tuple[str, ...] = ()
    fingerprint: str = ""  # of the data
    options: tuple[tuple[str, object], ...] = ()  # how the choices were read, for signatures


def join_names(names: Collection[str] | None) -> str | None:
    """Join names for a signature."""
    return ",".join(names) if names else None


def cluster_codes(keys: pl.DataFrame, cluster: Cluster) -> IntArray:
    """Return cluster codes of rows: by item, by annotator (rows without one stand alone), or one per row.

    >>> cluster_codes(pl.DataFrame({"item": ["x", "y", "x"], "annotator": ["p", "p", "q"]}), "item").tolist()
    [0, 1, 0]
    """
    one_of("cluster", cluster, CLUSTERS)
    rows = np.arange(keys.height)
    if cluster == "none":
        return rows
    codes = group_codes(keys, [cluster])
    if cluster == "annotator" and keys["annotator"].null_count():
        alone = keys["annotator"].is_null().to_numpy()
        codes = np.unique(np.where(alone, keys.height + rows, codes), return_inverse=True)[1].astype(np.int64)
    return codes


def annotator_notes(keys: pl.DataFrame) -> list[str]:
    """Return a note where annotators are unknown, or there is only one."""
    named = keys["annotator"].drop_nulls().n_unique()
    if not named:
        return ["judgments without an annotator id: every row counts as a separate judgment"]
    return ["one annotator: the intervals say nothing about how others would choose"] if named == 1 else []


# -- tables of choices between two systems -------------------------------------------------------------------------

_SAME_ORDER = (
    "every pair was always shown in the same order, so position and system cannot be separated; shuffle the sides "
    "next time"
)


def pair_names(table: ChoiceTable, systems: Sequence[str] | None) -> tuple[pl.Series, pl.Series]:
    """Return the systems on side a and b of each row, from the table or from `systems`."""
    if table.has_column("system_a") and table.has_column("system_b"):
        a, b = table.required_texts("system_a"), table.required_texts("system_b")
    else:
        if systems is None or len(systems) != 2:
            raise OptionError(
                f"{table.where}: no columns 'system_a' and 'system_b' name the systems; name the two in "
                "`systems`, or the columns in `columns`"
            )
        a, b = (pl.Series([system] * len(table), dtype=pl.String) for system in systems)
    same = a == b
    if same.any():
        row = int(same.arg_max() or 0)
        raise table.row_error(row, f"the system '{a[row]}' is compared with itself; correct or remove the row")
    return a, b


def pair_rows(
    table: ChoiceTable, systems: Sequence[str] | None, ignore: Collection[str]
) -> tuple[pl.DataFrame, list[str]]:
    """Return rows with item, annotator, a, b and side that have a choice between `systems`, and notes."""
    a, b = pair_names(table, systems)
    rows = table.item_and_annotator().with_columns(
        a.alias("a"), b.alias("b"), read_sides(table, a, b, ignore).alias("side")
    )
    rows = keep_rows_of_systems(rows.with_row_index("row"), systems, table)
    pending = rows["side"].null_count()
    notes = [f"rows without a choice (pending, or ignored labels), left out: {pending}"] if pending else []
    return rows.filter(pl.col("side").is_not_null()), [*table.notes, *notes]


def keep_rows_of_systems(rows: pl.DataFrame, systems: Sequence[str] | None, table: ChoiceTable) -> pl.DataFrame:
    """Keep the rows between two of these systems (all rows where None)."""
    if systems is None:
        return rows
    require_systems(systems, {*rows["a"], *rows["b"]}, table.where)
    return rows.filter(pl.col("a").is_in(list(systems)) & pl.col("b").is_in(list(systems)))


def align_pairs(rows: pl.DataFrame, twins: Sequence[tuple[str, str]] = ()) -> pl.DataFrame:
    """Swap sides so that each pair of systems always has the order in which it occurs first.

    `twins` are further pairs of columns that belong to a and b.

    >>> rows = pl.DataFrame({"a": ["X", "Y"], "b": ["Y", "X"], "side": ["a", "a"]})
    >>> align_pairs(rows).rows()
    [('X', 'Y', 'a'), ('X', 'Y', 'b')]
    """
    low, high = pl.min_horizontal("a", "b").alias("_low"), pl.max_horizontal("a", "b").alias("_high")
    marked = rows.with_columns(low, high).with_columns(pl.col("a").first().over("_low", "_high").alias("_lead"))
    turned = pl.col("a") != pl.col("_lead")
    swapped = [
        pl.when(turned).then(pl.col(source)).otherwise(pl.col(target)).alias(target)
        for first, second in (("a", "b"), *twins)
        for source, target in ((first, second), (second, first))
    ]
    side = pl.when(turned).then(pl.col("side").replace({"a": "b", "b": "a"})).otherwise(pl.col("side"))
    return marked.with_columns(*swapped, side.alias("side")).drop("_low", "_high", "_lead")


def pair_preferences(
    table: ChoiceTable, systems: Sequence[str] | None, ignore: Collection[str], cluster: Cluster, *, strict: bool
) -> Preferences:
    """Read a table of choices between two systems."""
    rows, notes = pair_rows(table, systems, ignore)
    good_bad = rows.filter(pl.col("side").is_in(["both", "none"])).height
    if good_bad and "both" in rows["side"]:
        notes.append(f"choices of 'both' or 'none', counted as ties (`kind=verify` keeps them apart): {good_bad}")
    outcome = pl.col("side").replace_strict({"a": 1, "b": -1}, default=0, return_dtype=pl.Int8)
    rows = rows.with_columns(outcome.alias("outcome"))
    names = tuple(sorted({*rows["a"], *rows["b"]})) if systems is None else tuple(systems)
    code = {name: index for index, name in enumerate(names)}
    rows = rows.with_columns(
        pl.col(side).replace_strict(code, return_dtype=pl.Int64).alias(f"{side}_code") for side in ("a", "b")
    )
    merged, merge_notes = _merge_repeated_choices(rows, table, strict=strict)
    codes = cluster_codes(merged, cluster)
    if not merged.height:
        raise DataError(
            f"{table.where}: no choice between two systems is left; check the choices, `systems` and `ignore`"
        )
    a, b, outcomes = (merged[name].to_numpy() for name in ("a_code", "b_code", "outcome"))
    position, position_notes = _first_shown_wins(rows, cluster)
    return Preferences(
        systems=names,
        choices=choices_from_rows(a, b, outcomes, codes, len(names)),
        kind="pairwise",
        items=merged["item"].n_unique(),
        annotators=merged["annotator"].drop_nulls().n_unique(),
        cluster=cluster,
        position=position,
        both_bad=int(merged["both_bad"].sum()),
        notes=(*notes, *merge_notes, *position_notes, *annotator_notes(merged)),
        fingerprint=table.fingerprint,
        options=(("systems", join_names(systems)), ("ignore", join_names(ignore))),
    )


def _merge_repeated_choices(rows: pl.DataFrame, table: ChoiceTable, *, strict: bool) -> tuple[pl.DataFrame, list[str]]:
    """Merge an annotator's repeated choices on an item and pair by majority; equal numbers are a tie.

    The order in which the two systems were shown does not matter. Rows without an annotator are separate judgments.
    """
    low, high = pl.min_horizontal("a_code", "b_code"), pl.max_horizontal("a_code", "b_code")
    signed = pl.when(pl.col("a_code") < pl.col("b_code")).then("outcome").otherwise(-pl.col("outcome"))
    rows = rows.with_columns(low.alias("low"), high.alias("high"), signed.alias("signed"))
    alone = pl.when(pl.col("annotator").is_null()).then(pl.col("row").cast(pl.Int64)).otherwise(-1)
    keys = ["item", "annotator", "low", "high", "alone"]
    grouped = (
        rows.with_columns(alone.alias("alone"))
        .group_by(keys, maintain_order=True)
        .agg(
            pl.len().alias("rows"),
            pl.col("signed").n_unique().alias("kinds"),
            pl.col("signed").cast(pl.Int64).sum(),
            (pl.col("side") == "none").all().alias("both_bad"),
            pl.col("row").first(),
        )
    )
    conflicts = grouped.filter(pl.col("kinds") > 1)
    if strict and conflicts.height:
        example = conflicts.row(0, named=True)
        raise table.row_error(
            example["row"],
            f"{example['annotator']} chose differently on item {example['item']} elsewhere in the table; keep one "
            "row, or leave `strict` out to merge them",
        )
    n_repeated = grouped.filter((pl.col("rows") > 1) & (pl.col("kinds") == 1)).height
    notes = [f"choices given twice by the same annotator, counted once: {n_repeated}"] if n_repeated else []
    if conflicts.height:
        notes.append(
            f"choices of an annotator that contradict each other (e.g. {conflicts['annotator'][0]} on item "
            f"{conflicts['item'][0]}), counted as what outweighs, or a tie: {conflicts.height}"
        )
    merged = grouped.with_columns(pl.col("signed").sign().alias("outcome"))
    return merged.select(
        "item", "annotator", pl.col("low").alias("a_code"), pl.col("high").alias("b_code"), "outcome", "both_bad"
    ), notes


def _first_shown_wins(rows: pl.DataFrame, cluster: Cluster) -> tuple[tuple[FloatArray, IntArray] | None, list[str]]:
    """Return 1, 0 or 1/2 for the side shown first, and clusters; None if each pair has one order only."""
    orders = rows.select("a", "b").unique()
    flipped = orders.join(orders.rename({"a": "b", "b": "a"}), on=["a", "b"], how="semi")
    if not flipped.height:
        return None, [_SAME_ORDER]
    rows_of_flipped = rows.join(flipped, on=["a", "b"], how="semi", maintain_order="left")
    won = (1.0 + rows_of_flipped["outcome"].cast(pl.Float64).to_numpy()) / 2
    return (won, cluster_codes(rows_of_flipped, cluster)), []


# -- choices derived from scores -----------------------------------------------------------------------------------


def score_preferences(
    data: EvalSet | Judgments,
    *,
    systems: Sequence[str] | None = None,
    criterion: str | None = None,
    human: str | None = None,
    within: Within = "annotator",
    margin: float = 0.0,
    cluster: Cluster = "item",
) -> Preferences:
    """Derive choices from scores: of two outputs of an item, the one with the higher score is chosen.

    Args:
        data: Judgments, or data with them; data without judgments are compared by their human score.
        systems: Keep only these.
        criterion: One criterion; by default the mean over all that the annotator answered.
        human: Compare by this score instead of by judgments.
        within: annotator (an annotator's own scores are compared) or item (the item's means over annotators are).
        margin: Differences up to it are ties.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=30, systems=3, seed=1)
    >>> score_preferences(data, within="item").items
    30
    """
    one_of("within", within, WITHIN)
    judgments = data if isinstance(data, Judgments) else data.judgments
    options = {
        "systems": join_names(systems),
        "criterion": criterion,
        "human": human,
        "within": None if within == "annotator" else within,
        "margin": margin or None,
    }
    if human is not None or judgments is None:
        if isinstance(data, Judgments):
            raise OptionError("`human` names a score, and judgments alone have none; give data with scores")
        preferences = _preferences_from_human_score(data, systems, human, margin, cluster)
    else:
        if judgments.criteria == ["preference"]:
            raise DataError(
                "these judgments are outcomes of choices and do not say who was compared with whom; give the table or "
                "campaign itself, or its choices: aliquot collect export --what choices"
            )
        preferences = _preferences_from_judgments(judgments, systems, criterion, within, margin, cluster)
    digest = data.fingerprint if isinstance(data, EvalSet) else digest_table(data.table)
    return replace(preferences, fingerprint=digest, options=tuple(options.items()))


def _preferences_from_human_score(
    data: EvalSet, systems: Sequence[str] | None, human: str | None, margin: float, cluster: Cluster
) -> Preferences:
    selected = data if systems is None else data.keep(systems=require_systems(systems, data.systems, data.name))
    scores = selected.human_score(human)
    rows = np.flatnonzero(np.isfinite(scores).sum(axis=1) > 1)
    if not len(rows):
        raise DataError(f"{data.name}: no item has the score '{human or data.human}' for two systems; check `human`")
    codes = np.arange(len(rows), dtype=np.int64)  # one row per item: items, annotators and rows are the same
    choices = choices_from_scores(scores[rows], codes, margin)
    note = f"compared by the score '{human or data.human}', item by item"
    return Preferences(selected.systems, choices, "scores", len(rows), 0, cluster, notes=(note,))


def _preferences_from_judgments(
    judgments: Judgments,
    systems: Sequence[str] | None,
    criterion: str | None,
    within: Within,
    margin: float,
    cluster: Cluster,
) -> Preferences:
    table = judgment_rows(judgments).table.filter(OPEN & pl.col("control").is_null())
    notes = []
    if criterion is not None:
        if criterion not in judgments.criteria:
            raise unknown_name("criterion", criterion, judgments.criteria)
        table = table.filter(pl.col("criterion") == criterion)
    elif len(judgments.criteria) > 1:
        notes.append(f"the mean over {len(judgments.criteria)} criteria is compared; `criterion` compares one")
    names = table["system"].unique(maintain_order=True).to_list()
    if systems is not None:
        names = require_systems(systems, names, "judgments")
        table = table.filter(pl.col("system").is_in(names))
    notes += _repeated_score_notes(table)
    units, matrix = _score_units(table, within, names)
    if not units.height:
        raise DataError(
            "no annotator scored two of the systems on the same item"
            + ("; compare the items' means over annotators with `within=item`" if within == "annotator" else "")
        )
    return Preferences(
        systems=tuple(names),
        choices=choices_from_scores(matrix, cluster_codes(units, cluster), margin),
        kind="scores",
        items=units["item"].n_unique(),
        annotators=units["annotator"].drop_nulls().n_unique(),
        cluster=cluster,
        notes=(*notes, *(annotator_notes(units) if within == "annotator" else [])),
    )


def _repeated_score_notes(table: pl.DataFrame) -> list[str]:
    """Return a note on outputs that an annotator scored more than once, differently."""
    cell = ["item", "annotator", "system", "criterion"]
    several = table.filter(pl.col("annotator").is_not_null()).group_by(cell).agg(pl.col("value").n_unique())
    torn = several.filter(pl.col("value") > 1).height
    return [f"outputs that an annotator scored more than once and differently, averaged: {torn}"] if torn else []


def _score_units(table: pl.DataFrame, within: Within, names: Sequence[str]) -> tuple[pl.DataFrame, FloatArray]:
    """Return the units with scores of two systems or more, and units x systems of mean scores."""
    by = ["item", "annotator"] if within == "annotator" else ["item"]
    cells = table.group_by(*by, "system", maintain_order=True).agg(pl.col("value").mean())
    cells = cells.with_columns(pl.Series("row", group_codes(cells, by))).filter(pl.len().over("row") > 1)
    units = cells.unique("row", keep="first", maintain_order=True)
    keys = units.select(by) if within == "annotator" else units.select("item", annotator=pl.lit(None, dtype=pl.String))
    return keys, score_matrix(cells, units["row"], names)


def score_matrix(cells: pl.DataFrame, rows: pl.Series, names: Sequence[str]) -> FloatArray:
    """Pivot cells (`row`, `system`, `value`) to rows x systems; NaN where there is none."""
    matrix = np.full((len(rows), len(names)), np.nan)
    if cells.height:
        codes = [
            cells[column]
            .replace_strict({key: codes for codes, key in enumerate(keys)}, return_dtype=pl.Int64)
            .to_numpy()
            for column, keys in (("row", rows), ("system", names))
        ]
        matrix[codes[0], codes[1]] = cells["value"].to_numpy()
    return matrix
