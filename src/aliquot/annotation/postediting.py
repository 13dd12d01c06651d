"""Post-editing: which of two suggestions is nearer to what people made of them (`compare` of kind `postedit`).

The distance of the final text to both outputs counts, whichever was picked; means over jobs or languages are means over
their segments. See docs/methods.md, section 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, choice_table, read_sides, require_systems
from aliquot.annotation.choices import (
    Cluster,
    align_pairs,
    annotator_notes,
    cluster_codes,
    keep_rows_of_systems,
    pair_names,
)
from aliquot.annotation.preference_result import describe_adjustment
from aliquot.annotation.verification import adjust_rows
from aliquot.core.evalset import EvalSet
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import Column, View
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.arrays import BoolArray, IntArray
from aliquot.stats.choices import clustered_sign_test, sign_test
from aliquot.stats.cluster_robust import clustered_mean, clustered_share
from aliquot.stats.multiple_testing import Adjustment
from aliquot.stats.text_similarity import compare_edits, edit_distances, text_lengths

ALL = "all"
OUTPUTS = ("A", "B")
"""Names of the two outputs where the table names no systems."""


@dataclass(frozen=True)
class PostEdited:
    """Two systems in one group of segments (or in all).

    `edits_a` and `edits_b` are mean character edit distances of the final text to the outputs, `rate_a` and `rate_b`
    edits per character of the final texts, `difference` edits_a - edits_b with its interval over clusters. `fewer_a`
    of the segments need fewer edits from a; `p_fewer` is the exact sign test of that, `p` the same over clusters, and
    `p_adjusted` for all groups, or all pairs of systems, at once. `chosen_a` of the segments were made from a's output;
    `share_a` with its interval over clusters and `p_chosen`, `p_chosen_clustered` are about the choice, identical
    outputs left out.
    """

    group: str
    a: str
    b: str
    segments: int
    clusters: int
    edits_a: float
    edits_b: float
    rate_a: float
    rate_b: float
    difference: float
    low: float
    high: float
    fewer_a: int
    fewer_b: int
    equal: int
    p_fewer: float
    p: float
    chosen_a: int
    chosen_b: int
    identical: int
    share_a: float
    share_low: float
    share_high: float
    p_chosen: float
    p_chosen_clustered: float
    p_adjusted: float = float("nan")


@dataclass(frozen=True, eq=False)
class PostEditing(Result):
    """The result of `compare` of kind `postedit`: every group, then all segments."""

    KIND = "postedit"

    rows: tuple[PostEdited, ...]
    by: str | None
    clusters: str
    level: float
    adjust: Adjustment = "bh"
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __getitem__(self, group: str) -> PostEdited:
        rows = {row.group: row for row in reversed(self.rows)}
        if group not in rows:
            raise unknown_name("group", group, [row.group for row in self.rows])
        return rows[group]

    def __repr__(self) -> str:
        return f"PostEditing({self.rows[-1].segments} segments, {len(self.rows)} rows)"

    def to_frame(self) -> pl.DataFrame:
        """One row per group and pair of systems, all segments last."""
        return frame_of(self.rows, PostEdited)

    def views(self) -> Sequence[View]:
        """Return the views `edits` and, where choices are known, `choices`."""
        names = (Column(self.by or "segments", "group", "name"), Column("a", kind="name"), Column("b", kind="name"))
        edits = (
            *names,
            Column("n", "segments", "count", rank=3),
            Column("edits a", "edits_a", places=2, rank=1),
            Column("edits b", "edits_b", places=2, rank=1),
            Column("difference", places=2),
            Column("interval", ("low", "high"), "interval", 1, rank=2),
            Column("fewer a/=/b", lambda row: f"{row.fewer_a}/{row.equal}/{row.fewer_b}", "count", rank=4),
            Column(f"p by {self.clusters}", "p", "p", rank=3),
            Column("adjusted", "p_adjusted", "p"),
        )
        title = (
            "mean character edits from each output to the final text (p: which needs fewer, sign test"
            f"{describe_adjustment(self.adjust)})"
        )
        choices = (
            *names,
            Column("chosen a", "chosen_a", "count", rank=1),
            Column("chosen b", "chosen_b", "count", rank=1),
            Column("identical", kind="count", rank=3),
            Column("share a", "share_a", places=3),
            Column("interval", ("share_low", "share_high"), "interval", 2, rank=2),
            Column("p", "p_chosen", "p", rank=4),
            Column(f"p by {self.clusters}", "p_chosen_clustered", "p"),
        )
        chosen = [row for row in self.rows if row.chosen_a + row.chosen_b]
        more = (
            [View("choices", self.rows, choices, "which output was chosen (identical outputs left out)")]
            if chosen
            else []
        )
        return (View("edits", self.rows, edits, title), *more)


def compare_postedits(
    table: pl.DataFrame,
    *,
    outputs: EvalSet | None = None,
    systems: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    by: str | None = None,
    cluster: Cluster = "item",
    level: float = 0.95,
    adjust: Adjustment = "bh",
    where: str = "table",
) -> PostEditing:
    """Compare two systems by what post-editors made of their outputs.

    Args:
        table: item, final, output_a, output_b, and where known annotator, system_a, system_b, choice.
        outputs: Data that hold the outputs, where the table names systems instead of giving texts.
        systems: The two systems, where the table does not name them; otherwise keep only these.
        by: A column whose values make groups (job, language, annotator).
        adjust: bh, holm, sidak or none, over the pairs of systems, and over the rows of groups.

    >>> table = pl.DataFrame({"item": [1, 2], "final": ["a cat", "two dogs"],
    ...                       "output_a": ["the cat", "two dogs"], "output_b": ["the dog", "dogs"]})
    >>> row = compare_postedits(table)["all"]
    >>> row.edits_a, row.edits_b, row.fewer_a
    (1.5, 5.0, 2)
    """
    choices = choice_table(table, "postedit", columns, where)
    if by is not None and by not in choices.frame.columns:
        raise unknown_name("column", by, choices.frame.columns, "check `by`")
    rows, notes = _collect_segments(choices, outputs, systems, by)
    rows = rows.with_columns(pl.Series("cluster", cluster_codes(rows, cluster)))
    parts = [] if by is None else [(str(key[0]), part) for key, part in rows.group_by(["group"], maintain_order=True)]
    families = [
        [
            _postedited_row(group, str(a), str(b), pair, level)
            for group, part in family
            for (a, b), pair in part.group_by("a", "b", maintain_order=True)
        ]
        for family in (parts, [(ALL, rows)])
    ]
    return PostEditing(
        rows=tuple(row for family in families for row in adjust_rows(family, adjust)),
        by=by,
        clusters=cluster,
        level=level,
        adjust=adjust,
        notes=(*notes, *annotator_notes(rows)),
        signature=make_signature(
            "compare:postedit",
            outputs,
            by=by,
            level=level,
            cluster=None if cluster == "item" else cluster,
            adjust=None if adjust == "bh" else adjust,
            table=choices.fingerprint,
        ),
    )


def _collect_segments(
    table: ChoiceTable, outputs: EvalSet | None, systems: Sequence[str] | None, by: str | None
) -> tuple[pl.DataFrame, list[str]]:
    """Return one row per edited segment (item, annotator, group, a, b, texts, side), and notes."""
    has_outputs = "output_a" in table.frame.columns and "output_b" in table.frame.columns
    unnamed = has_outputs and systems is None and not (table.has_column("system_a") and table.has_column("system_b"))
    a, b = pair_names(table, OUTPUTS if unnamed else systems)
    first, second = _outputs_in_table(table) if has_outputs else _outputs_in_data(table, outputs, a, b)
    rows = table.item_and_annotator().with_columns(
        a.alias("a"),
        b.alias("b"),
        first.alias("output_a"),
        second.alias("output_b"),
        table.unstripped_texts("final").alias("final"),
        (read_sides(table, a, b) if "choice" in table.frame.columns else table.optional_texts("choice")).alias("side"),
        (table.read_texts(by).fill_null("(none)") if by else pl.lit(None, dtype=pl.String)).alias("group"),
    )
    rows = keep_rows_of_systems(rows, None if unnamed else systems, table)
    return _keep_usable(align_pairs(rows, [("output_a", "output_b")]), table)


def _outputs_in_table(table: ChoiceTable) -> tuple[pl.Series, pl.Series]:
    """Return the outputs in the table; a single missing one is empty, because CSV writes both alike."""
    texts = pl.DataFrame({role: table.unstripped_texts(role) for role in ("output_a", "output_b")})
    filled = texts.select(
        pl.col(name).fill_null(pl.when(pl.col(opposite).is_not_null()).then(pl.lit("")))
        for name, opposite in (("output_a", "output_b"), ("output_b", "output_a"))
    )
    return filled["output_a"], filled["output_b"]


def _outputs_in_data(
    table: ChoiceTable, outputs: EvalSet | None, a: pl.Series, b: pl.Series
) -> tuple[pl.Series, pl.Series]:
    """Return the texts of each row's two systems from the data."""
    if outputs is None or outputs.outputs is None:
        raise OptionError(
            f"{table.where}: no columns 'output_a' and 'output_b' hold the suggestions; name them in `columns`, "
            "or give data with the systems' outputs in `outputs`"
        )
    require_systems(sorted({*a, *b}), outputs.systems, outputs.name)
    texts = outputs.outputs.with_columns(outputs.items["id"].cast(pl.String).alias("_item"))
    long = texts.unpivot(index="_item", variable_name="_system", value_name="_text")
    texts_by_side = []
    for system in (a, b):
        keys = pl.DataFrame({"_item": table.required_texts("item"), "_system": system})
        unknown = keys.join(long, on="_item", how="anti")
        if unknown.height:
            raise unknown_name("item", unknown["_item"][0], outputs.ids[:50], "check `outputs`")
        texts_by_side.append(keys.join(long, on=["_item", "_system"], how="left", maintain_order="left")["_text"])
    return texts_by_side[0], texts_by_side[1]


def _keep_usable(rows: pl.DataFrame, table: ChoiceTable) -> tuple[pl.DataFrame, list[str]]:
    """Leave out segments without a final text or outputs; an empty output counts as a text."""
    notes = []
    for what, lacking in (
        ("a final text", pl.col("final").is_null() | (pl.col("final").str.strip_chars() == "")),
        ("both outputs", pl.col("output_a").is_null() | pl.col("output_b").is_null()),
    ):
        out = rows.filter(lacking).height
        notes += [f"segments without {what}, left out: {out}"] if out else []
        rows = rows.filter(~lacking)
    empty = rows.filter((pl.col("output_a") == "") | (pl.col("output_b") == "")).height
    if empty:
        notes.append(f"segments with an empty output, as far from the final text as that is long: {empty}")
    if not rows.height:
        raise DataError(
            f"{table.where}: no post-edited segment is left; check the columns final, output_a and output_b"
        )
    return rows, notes


def _postedited_row(group: str, a: str, b: str, rows: pl.DataFrame, level: float) -> PostEdited:
    final, first, second = (rows[name].to_list() for name in ("final", "output_a", "output_b"))
    to_a, to_b = edit_distances(final, first), edit_distances(final, second)
    length = float(text_lengths(final).sum())
    cluster = rows["cluster"].to_numpy().astype(np.int64)
    gap = clustered_mean((to_a - to_b).astype(np.float64), cluster, level)
    fewer = compare_edits(to_a, to_b)
    same = (rows["output_a"] == rows["output_b"]).to_numpy()
    chosen = _read_choices(rows["side"], same)
    chosen_a, chosen_b = int((chosen == 1).sum()), int((chosen == -1).sum())
    share = clustered_share((chosen[chosen != 0] + 1.0) / 2, cluster[chosen != 0], level)
    fewer_a, fewer_b = int((fewer == 1).sum()), int((fewer == -1).sum())
    return PostEdited(
        group=group,
        a=a,
        b=b,
        segments=rows.height,
        clusters=gap.clusters,
        edits_a=float(to_a.mean()),
        edits_b=float(to_b.mean()),
        rate_a=float(to_a.sum()) / length,
        rate_b=float(to_b.sum()) / length,
        difference=gap.mean,
        low=gap.low,
        high=gap.high,
        fewer_a=fewer_a,
        fewer_b=fewer_b,
        equal=rows.height - fewer_a - fewer_b,
        p_fewer=float(sign_test(fewer_a, fewer_b)),
        p=clustered_sign_test(np.bincount(cluster, fewer).astype(np.int64)),
        chosen_a=chosen_a,
        chosen_b=chosen_b,
        identical=int(same.sum()),
        share_a=share.share,
        share_low=share.low,
        share_high=share.high,
        p_chosen=float(sign_test(chosen_a, chosen_b)),
        p_chosen_clustered=clustered_sign_test(np.bincount(cluster, chosen).astype(np.int64)),
    )


def _read_choices(side: pl.Series, same: BoolArray) -> IntArray:
    """Return 1 where a's output was chosen, -1 for b's, 0 where they are identical or the choice is unknown."""
    picked = side.replace_strict({"a": 1, "b": -1}, default=0, return_dtype=pl.Int64).fill_null(0).to_numpy()
    return np.where(same, 0, picked).astype(np.int64)
