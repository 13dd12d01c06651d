"""Post-editing two suggestions: which one is taken, and how far is the final text from each (notes, P4.4)?

The distance to *both* outputs counts, whichever was picked. Means over jobs or languages are segment-weighted, that
is, means over their segments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, choice_table, known_systems, sides
from aliquot.annotation.choices import aligned_pairs, annotator_notes, cluster_codes, pair_names
from aliquot.annotation.comparison import frame_of_rows, plain
from aliquot.core.evalset import EvalSet
from aliquot.core.result import signature
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.choices import clustered_sign_test, sign_test
from aliquot.stats.clustered import clustered_mean, wilson_interval
from aliquot.stats.text_similarity import edit_distances, fewer_edits, text_lengths

ALL = "all"
OUTPUTS = ("A", "B")
"""What the two outputs are called where nobody named their systems."""


@dataclass(frozen=True)
class PostEdited:
    """Two systems in one group of segments (or in all).

    `edits_a` and `edits_b` are mean character edit distances of the final text to the outputs, `rate_a` and `rate_b`
    edits per character of the final texts, `difference` edits_a - edits_b with its interval over clusters. `fewer_a`
    of the segments need fewer edits from a; `p_fewer` is the exact sign test of that, `p` the same over clusters.
    `chosen_a` of the segments were made from a's output; `share_a` with Wilson's interval and `p_chosen`,
    `p_chosen_clustered` are about the choice, identical outputs left out.
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


@dataclass(frozen=True, eq=False)
class PostEditing:
    """The result of `compare --kind postedit`: every group, then all segments."""

    rows: tuple[PostEdited, ...]
    by: str | None
    clusters: str
    level: float
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __getitem__(self, group: str) -> PostEdited:
        for row in self.rows:
            if row.group == group:
                return row
        raise unknown_name("group", group, [row.group for row in self.rows])

    def __repr__(self) -> str:
        return f"PostEditing({self.rows[-1].segments} segments, {len(self.rows)} rows)"

    def to_frame(self) -> pl.DataFrame:
        """One row per group and pair of systems, all segments last."""
        return frame_of_rows(self.rows, PostEdited)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document; undefined numbers are null."""
        return {
            "kind": "postedit",
            "rows": [plain(row) for row in self.rows],
            "by": self.by,
            "clusters": self.clusters,
            "level": self.level,
            "notes": list(self.notes),
            "signature": self.signature,
        }


def postedit(
    table: pl.DataFrame,
    *,
    outputs: EvalSet | None = None,
    systems: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    by: str | None = None,
    cluster: str = "item",
    level: float = 0.95,
    where: str = "table",
) -> PostEditing:
    """Compare two systems by what post-editors made of their outputs.

    Args:
        table: item, final, output_a, output_b, and where known annotator, system_a, system_b, choice.
        outputs: Data that hold the outputs, where the table names systems instead of giving texts.
        systems: The two systems, where the table does not name them; otherwise keep only these.
        columns: Our column role -> the table's column.
        by: A column whose values make groups (job, language, annotator).
        cluster: item, annotator, or none.
        level: Coverage of the intervals.
        where: File name, for messages.

    Example:
        >>> table = pl.DataFrame({"item": [1, 2], "final": ["a cat", "two dogs"],
        ...                       "output_a": ["the cat", "two dogs"], "output_b": ["the dog", "dogs"]})
        >>> row = postedit(table)["all"]
        >>> row.edits_a, row.edits_b, row.fewer_a
        (1.5, 5.0, 2)
    """
    sorted_out = choice_table(table, "postedit", columns, where)
    if by is not None and by not in sorted_out.frame.columns:
        raise unknown_name("column", by, sorted_out.frame.columns, "check --by")
    rows, notes = _segments(sorted_out, outputs, systems, by)
    rows = rows.with_columns(pl.Series("cluster", cluster_codes(rows, cluster)))
    parts: list[tuple[str, pl.DataFrame]] = []
    if by is not None:
        parts = [(str(key[0]), part) for key, part in rows.group_by(["group"], maintain_order=True)]
    found = [
        _row(group, str(a), str(b), pair, level)
        for group, part in [*parts, (ALL, rows)]
        for (a, b), pair in part.group_by(["a", "b"], maintain_order=True)
    ]
    return PostEditing(
        rows=tuple(found),
        by=by,
        clusters=cluster,
        level=level,
        notes=(*notes, *annotator_notes(rows)),
        signature=signature(
            "compare:postedit", outputs, by=by, level=level, cluster=None if cluster == "item" else cluster,
            table=sorted_out.fingerprint,
        ),
    )  # fmt: skip


def _segments(
    table: ChoiceTable, outputs: EvalSet | None, systems: Sequence[str] | None, by: str | None
) -> tuple[pl.DataFrame, list[str]]:
    """One row per edited segment: item, annotator, group, a, b, final, output_a, output_b, side."""
    given = "output_a" in table.frame.columns and "output_b" in table.frame.columns
    unnamed = given and systems is None and not (table.has("system_a") and table.has("system_b"))
    a, b = pair_names(table, OUTPUTS if unnamed else systems)
    if not given:
        first, second = _looked_up(table, outputs, a, b)
    else:
        first, second = _given(table)
    none = pl.Series([None] * len(a), dtype=pl.String)
    columns = table.frame.columns
    rows = pl.DataFrame(
        {
            "item": table.required("item"), "annotator": table.texts("annotator") if "annotator" in columns else none,
            "group": none if by is None else table.texts(by).fill_null("(none)"), "a": a, "b": b,
            "final": table.whole_texts("final"), "output_a": first, "output_b": second,
            "side": sides(table, a, b) if "choice" in columns else none,
        }
    ).with_row_index("row")  # fmt: skip
    if systems is not None and not unnamed:
        known_systems(systems, {*a, *b}, table.where)
        rows = rows.filter(pl.col("a").is_in(list(systems)) & pl.col("b").is_in(list(systems)))
    return _usable(aligned_pairs(rows, [("output_a", "output_b")]), table)


def _given(table: ChoiceTable) -> tuple[pl.Series, pl.Series]:
    """The texts of the table; a CSV file cannot tell an empty output from a missing one, so one alone is empty."""
    texts = pl.DataFrame({role: table.whole_texts(role) for role in ("output_a", "output_b")})
    filled = texts.select(
        pl.col(name).fill_null(pl.when(pl.col(other).is_not_null()).then(pl.lit("")))
        for name, other in (("output_a", "output_b"), ("output_b", "output_a"))
    )
    return filled["output_a"], filled["output_b"]


def _looked_up(table: ChoiceTable, outputs: EvalSet | None, a: pl.Series, b: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Take the texts of each row's two systems from the data."""
    if outputs is None or outputs.outputs is None:
        raise OptionError(
            f"{table.where}: no columns 'output_a' and 'output_b' hold the suggestions; name them with --columns, "
            "or give data with the systems' outputs with --outputs FILE"
        )
    known_systems(sorted({*a, *b}), outputs.systems, outputs.name)
    texts = outputs.outputs.with_columns(outputs.items["id"].cast(pl.String).alias("_item"))
    long = texts.unpivot(index="_item", variable_name="_system", value_name="_text")
    found = []
    for system in (a, b):
        keys = pl.DataFrame({"_item": table.required("item"), "_system": system})
        unknown = keys.join(long, on="_item", how="anti")
        if unknown.height:
            raise unknown_name("item", unknown["_item"][0], outputs.ids[:50], "check --outputs")
        found.append(keys.join(long, on=["_item", "_system"], how="left", maintain_order="left")["_text"])
    return found[0], found[1]


def _usable(rows: pl.DataFrame, table: ChoiceTable) -> tuple[pl.DataFrame, list[str]]:
    """Leave out segments nobody edited yet, and those whose suggestions are missing; an empty suggestion is a text."""
    notes = []
    pending = pl.col("final").is_null() | (pl.col("final").str.strip_chars() == "")
    waiting = rows.filter(pending).height
    if waiting:
        notes.append(f"segments without a final text, left out: {waiting}")
    rows = rows.filter(~pending)
    missing = pl.col("output_a").is_null() | pl.col("output_b").is_null()
    absent = rows.filter(missing).height
    if absent:
        notes.append(f"segments without both outputs, left out: {absent}")
    rows = rows.filter(~missing)
    empty = rows.filter((pl.col("output_a") == "") | (pl.col("output_b") == "")).height
    if empty:
        notes.append(f"segments with an empty output, as far from the final text as that is long: {empty}")
    if not rows.height:
        raise DataError(
            f"{table.where}: no post-edited segment is left; check the columns final, output_a and output_b"
        )
    return rows, notes


def _row(group: str, a: str, b: str, rows: pl.DataFrame, level: float) -> PostEdited:
    final, first, second = (rows[name].to_list() for name in ("final", "output_a", "output_b"))
    to_a, to_b = edit_distances(final, first), edit_distances(final, second)
    length = float(text_lengths(final).sum())
    cluster = rows["cluster"].to_numpy().astype(np.int64)
    gap = clustered_mean((to_a - to_b).astype(np.float64), cluster, level)
    fewer = fewer_edits(to_a, to_b)
    same = (rows["output_a"] == rows["output_b"]).to_numpy()
    chosen = _chosen(rows["side"], same)
    chosen_a, chosen_b = int((chosen == 1).sum()), int((chosen == -1).sum())
    share = chosen_a / (chosen_a + chosen_b) if chosen_a + chosen_b else float("nan")
    share_low, share_high = wilson_interval(share, chosen_a + chosen_b, level)
    fewer_a, fewer_b = int((fewer == 1).sum()), int((fewer == -1).sum())
    return PostEdited(
        group=group, a=a, b=b, segments=rows.height, clusters=gap.clusters, edits_a=_mean(to_a), edits_b=_mean(to_b),
        rate_a=float(to_a.sum()) / length, rate_b=float(to_b.sum()) / length, difference=gap.mean, low=gap.low,
        high=gap.high, fewer_a=fewer_a, fewer_b=fewer_b, equal=rows.height - fewer_a - fewer_b,
        p_fewer=float(sign_test(fewer_a, fewer_b)), p=clustered_sign_test(np.bincount(cluster, fewer).astype(np.int64)),
        chosen_a=chosen_a, chosen_b=chosen_b, identical=int(same.sum()), share_a=share, share_low=share_low,
        share_high=share_high, p_chosen=float(sign_test(chosen_a, chosen_b)),
        p_chosen_clustered=clustered_sign_test(np.bincount(cluster, chosen).astype(np.int64)),
    )  # fmt: skip


def _chosen(side: pl.Series, same: FloatArray | Any) -> IntArray:
    """1 where a's output was taken, -1 where b's was, 0 where they are identical or nobody says."""
    picked = side.replace_strict({"a": 1, "b": -1}, default=0, return_dtype=pl.Int64).fill_null(0).to_numpy()
    return np.where(same, 0, picked).astype(np.int64)


def _mean(values: IntArray) -> float:
    return float(values.mean())
