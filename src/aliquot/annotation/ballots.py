"""Ballots: an annotator orders several systems at once, by ranks or by naming the best and the worst.

A ranking says which system beats which; a best-worst ballot that the best beats all shown, and the worst loses to them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, choice_table, require_systems
from aliquot.annotation.choices import (
    Cluster,
    Preferences,
    annotator_notes,
    cluster_codes,
    join_names,
    pair_preferences,
    score_matrix,
)
from aliquot.annotation.judgment_rows import group_codes
from aliquot.errors import DataError, OptionError, quoted
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.choices import choices_from_scores

_SEPARATORS = re.compile(r"\s*[;|,]\s*")


@dataclass(frozen=True, eq=False)
class Ballots:
    """Ballots x systems."""

    systems: tuple[str, ...]  # in the order of the columns of `values`
    values: FloatArray  # higher is better, NaN = not shown
    keys: pl.DataFrame  # item and annotator of each ballot
    ballot_counts: IntArray | None = None  # of best-worst ballots, times shown, best and worst: M x 3
    notes: tuple[str, ...] = ()


def read_best_worst(table: ChoiceTable, systems: Sequence[str] | None = None, *, strict: bool = False) -> Ballots:
    """Read best-worst ballots: 1 for the best, -1 for the worst, 0 for the other systems shown.

    Without a column `shown` (["A", "B", "C"], or by hand A;B;C) all of `systems` were shown. `strict` refuses an
    annotator's second ballot on the same systems of an item.

    >>> frame = pl.DataFrame({"item": ["1"], "best": ["B"], "worst": ["C"], "shown": ["A;B;C"]})
    >>> ballots = read_best_worst(ChoiceTable(frame, "best-worst", "t.csv"))
    >>> ballots.systems, ballots.values.tolist()
    (('A', 'B', 'C'), [[0.0, 1.0, -1.0]])
    """
    rows = (
        table.item_and_annotator()
        .with_columns(
            _list_shown(table, systems),
            table.read_texts("best").alias("best"),
            table.read_texts("worst").alias("worst"),
        )
        .with_row_index("row")
    )
    rows = rows.filter(pl.col("best").is_not_null() | pl.col("worst").is_not_null())
    pending = len(table) - rows.height
    _check_best_worst(rows, table)
    names = rows["shown"].explode().unique().drop_nulls().sort().to_list()
    cells = rows.select("row", pl.col("shown").alias("system"), "best", "worst").explode("system")
    best, worst = (pl.col("system").eq_missing(pl.col(role)).cast(pl.Float64) for role in ("best", "worst"))
    values = score_matrix(cells.with_columns((best - worst).alias("value")), rows["row"], names)
    systems_kept, votes = _keep_systems(names, values, systems, table)
    counts = np.column_stack([(~np.isnan(votes)).sum(axis=0), (votes == 1).sum(axis=0), (votes == -1).sum(axis=0)])
    notes = [f"ballots without a choice (pending), left out: {pending}"] if pending else []
    keys, votes, merge_notes = _merge_ballots(rows.select("item", "annotator"), votes, table, strict=strict)
    return Ballots(systems_kept, votes, keys, counts.astype(np.int64), (*notes, *merge_notes))


def _list_shown(table: ChoiceTable, systems: Sequence[str] | None) -> pl.Series:
    """Return the systems shown on each ballot, as lists."""
    if table.has_column("shown"):
        texts = table.required_texts("shown").to_list()
        lists = [_parse_json_list(text, list[str]) or _SEPARATORS.split(text) for text in texts]
        return pl.Series("shown", lists, dtype=pl.List(pl.String))
    if systems is None:
        raise OptionError(
            f"{table.where}: no column 'shown' says which systems were on each ballot; name it in "
            "`columns`, or, if the same were always shown, name them in `systems`"
        )
    return pl.Series("shown", [list(systems)] * len(table), dtype=pl.List(pl.String))


def _parse_json_list(text: str, kind: Any) -> list[Any] | None:
    """Parse a JSON list; None for any other text."""
    try:
        names: list[Any] = msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        return None
    return names


def _check_best_worst(rows: pl.DataFrame, table: ChoiceTable) -> None:
    def raise_if_any(is_bad: pl.Expr, message: str) -> None:
        matches = rows.filter(is_bad.fill_null(value=False))
        if matches.height:
            row = matches.row(0, named=True)
            raise table.row_error(row["row"], message.format(**(row | {"shown": quoted(row["shown"])})))

    raise_if_any(pl.col("best") == pl.col("worst"), "'{best}' is the best and the worst; correct the row")
    raise_if_any(pl.col("shown").list.len() < 2, "only {shown} was shown; a ballot needs two systems or more")
    raise_if_any(pl.col("shown").list.n_unique() < pl.col("shown").list.len(), "a system was shown twice among {shown}")
    for role in ("best", "worst"):
        unknown = pl.col(role).is_not_null() & ~pl.col("shown").list.contains(pl.col(role))
        raise_if_any(unknown, f"the {role} is '{{{role}}}', and shown were {{shown}}; correct the row")


def read_rankings(table: ChoiceTable, systems: Sequence[str] | None = None, *, strict: bool = False) -> Ballots:
    """Read rankings: a row per system with its rank (1 best, equal ranks are ties), or a column `ranking`.

    That column holds lists such as [["A"], ["B", "C"]], as JSON in a text file, or, by hand, texts such as A > B = C.
    `strict` refuses an annotator's second ranking of an item, which is averaged otherwise.

    >>> frame = pl.DataFrame({"item": ["1"], "ranking": ["B > A = C"]})
    >>> ballots = read_rankings(ChoiceTable(frame, "ranking", "t.csv"))
    >>> ballots.systems, ballots.values.tolist()
    (('A', 'B', 'C'), [[-2.0, -1.0, -2.0]])
    """
    torn: list[str] = []
    if table.has_column("ranking"):
        keys, cells = _parse_ranking_texts(table)
    elif table.has_column("system") and table.has_column("rank"):
        keys, cells, torn = _collect_rank_rows(table, strict=strict)
    else:
        raise DataError(
            f"{table.where}: rankings need the columns 'system' and 'rank', or a column 'ranking' such as A > B = C; "
            f"there are {quoted(table.frame.columns)}; name them in `columns`"
        )
    names = cells["system"].unique().sort().to_list()
    systems_kept, values = _keep_systems(names, score_matrix(cells, keys["row"], names), systems, table)
    has_several = np.isfinite(values).sum(axis=1) > 1
    if not has_several.any():
        raise DataError(f"{table.where}: no ballot ranks two systems; an annotator must rank several on the same item")
    notes = [] if has_several.all() else [f"ballots with a single ranked system, left out: {int((~has_several).sum())}"]
    keys, values, merge_notes = _merge_ballots(
        keys.drop("row").filter(pl.Series(has_several)), values[has_several], table, strict=strict
    )
    return Ballots(systems_kept, values, keys, notes=(*notes, *torn, *merge_notes))


def _parse_ranking_texts(table: ChoiceTable) -> tuple[pl.DataFrame, pl.DataFrame]:
    keys = table.item_and_annotator().with_row_index("row").with_columns(table.read_texts("ranking").alias("ranking"))
    keys = keys.filter(pl.col("ranking").is_not_null())
    cells: list[tuple[int, str, float]] = []
    for row, text in keys.select("row", "ranking").iter_rows():
        by_hand = [[name.strip() for name in level.split("=")] for level in text.split(">")]
        levels = _parse_json_list(text, list[list[str]]) or by_hand
        names = [name for level in levels for name in level]
        if "" in names or len(set(names)) < len(names):
            raise table.row_error(row, f"the ranking '{text}' cannot be read; write each system once, e.g. A > B = C")
        cells += [(row, name, -float(rank)) for rank, level in enumerate(levels, start=1) for name in level]
    schema = {"row": pl.UInt32, "system": pl.String, "value": pl.Float64}
    return keys.drop("ranking"), pl.DataFrame(cells, schema=schema, orient="row")


def _collect_rank_rows(table: ChoiceTable, *, strict: bool) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Collect one ballot per item and annotator, or per item without annotators."""
    rank = pl.Series("value", -table.parse_column("rank"), nan_to_null=True)
    keys = table.item_and_annotator().with_columns(
        row=pl.Series(group_codes(table.item_and_annotator(), ["item", "annotator"]))
    )
    cells = keys.with_columns(table.required_texts("system").alias("system"), rank).with_row_index("line")
    cells = cells.filter(pl.col("value").is_not_null())
    duplicates = cells.filter(pl.struct("row", "system").is_duplicated())
    conflicts = (
        duplicates.filter(pl.col("value").n_unique().over("row", "system") > 1) if duplicates.height else duplicates
    )
    notes = []
    if conflicts.height:
        first = conflicts.row(0, named=True)
        if strict or first["annotator"] is None:
            raise table.row_error(
                first["line"],
                f"'{first['system']}' has another rank on item {first['item']} elsewhere in the table; keep one row"
                + ("" if first["annotator"] is not None else ", or name the annotators"),
            )
        count = conflicts.select("row", "system").n_unique()
        notes.append(f"systems that an annotator gave several ranks on an item, which are averaged: {count}")
    means = cells.group_by("row", "system", maintain_order=True).agg(pl.col("value").mean())
    return keys.unique("row", keep="first").sort("row"), means, notes


def _keep_systems(
    names: Sequence[str], values: FloatArray, systems: Sequence[str] | None, table: ChoiceTable
) -> tuple[tuple[str, ...], FloatArray]:
    if systems is None or not len(values):  # without a ballot no name is known
        return tuple(names), values
    selected = require_systems(systems, names, table.where)
    return tuple(selected), values[:, [list(names).index(name) for name in selected]]


def _merge_ballots(
    keys: pl.DataFrame, values: FloatArray, table: ChoiceTable, *, strict: bool
) -> tuple[pl.DataFrame, FloatArray, list[str]]:
    """Average ballots of one annotator on the same item and systems; those without an annotator stay apart."""
    alone = pl.when(pl.col("annotator").is_null()).then(pl.int_range(pl.len())).otherwise(-1)
    is_ranked = np.isfinite(values)
    pattern = (
        np.unique(is_ranked, axis=0, return_inverse=True)[1].ravel() if len(values) else np.zeros(0, dtype=np.int64)
    )
    numbered = keys.with_columns(alone.alias("alone"), pl.Series("shown", pattern))
    codes = group_codes(numbered, ["item", "annotator", "alone", "shown"])
    number = int(codes.max()) + 1 if len(codes) else 0
    if number == len(codes):
        return keys, values, []
    first = np.unique(codes, return_index=True)[1]
    if strict:
        duplicate = int(np.setdiff1d(np.arange(len(codes)), first)[0])
        raise DataError(
            f"{table.where}: {keys['annotator'][duplicate]} filled in two ballots on item "
            f"{keys['item'][duplicate]}; keep one, or leave `strict` out to average them"
        )
    sums, counts = np.zeros((number, values.shape[1])), np.zeros((number, values.shape[1]))
    np.add.at(sums, codes, np.where(is_ranked, values, 0.0))
    np.add.at(counts, codes, is_ranked.astype(np.float64))
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    n_merged = len(codes) - number
    note = f"further ballots of an annotator on the same systems of an item, averaged with the first: {n_merged}"
    return keys[first], means, [note]


def table_preferences(
    table: pl.DataFrame,
    kind: str = "pairwise",
    *,
    systems: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    cluster: Cluster = "item",
    strict: bool = False,
    where: str = "table",
) -> Preferences:
    """Read choices from a table of pairs, best-worst ballots or rankings (columns: see choice_tables).

    Args:
        table: With the columns of its kind.
        kind: pairwise, best-worst or ranking.
        systems: Keep only these; also the systems that were shown, where pairs and ballots do not name them.
        ignore: Choices to leave out.
        cluster: item, annotator, or none for independent choices.
        strict: Refuse duplicates that contradict each other instead of merging them.

    >>> table = pl.DataFrame({"item": [1, 2], "annotator": ["p", "p"], "system_a": ["X", "Y"],
    ...                       "system_b": ["Y", "X"], "choice": ["a", "b"]})
    >>> table_preferences(table).choices.outcome.tolist()
    [1, 1]
    """
    named = choice_table(table, kind, columns, where)
    if kind == "pairwise":
        return pair_preferences(named, systems, ignore, cluster, strict=strict)
    ballots = (read_best_worst if kind == "best-worst" else read_rankings)(named, systems, strict=strict)
    choices = choices_from_scores(ballots.values, cluster_codes(ballots.keys, cluster), ties=kind == "ranking")
    if not len(choices):
        raise DataError(f"{where}: no choice between two systems is left; check the choices and `systems`")
    return Preferences(
        systems=ballots.systems,
        choices=choices,
        kind=kind,
        items=ballots.keys["item"].n_unique(),
        annotators=ballots.keys["annotator"].drop_nulls().n_unique(),
        cluster=cluster,
        ballot_counts=ballots.ballot_counts,
        notes=(*named.notes, *ballots.notes, *annotator_notes(ballots.keys)),
        fingerprint=named.fingerprint,
        options=(("systems", join_names(systems)), ("ignore", join_names(ignore))),
    )
