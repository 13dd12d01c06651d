"""Verification (`compare` of kind `verify`): annotators say whether only A, only B, both or none of two are right.

One pass gives both accuracies, their overlap and McNemar's test of the difference. See docs/methods.md, section 11.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, choice_table
from aliquot.annotation.choices import (
    Cluster,
    align_pairs,
    annotator_notes,
    cluster_codes,
    pair_rows,
)
from aliquot.annotation.preference_result import describe_adjustment
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import Column, View
from aliquot.errors import DataError
from aliquot.stats.arrays import IntArray
from aliquot.stats.choices import clustered_sign_test, mcnemar
from aliquot.stats.cluster_robust import clustered_difference, clustered_share
from aliquot.stats.multiple_testing import Adjustment, adjust_p_values


@dataclass(frozen=True)
class VerifiedPair:
    """Two systems: counts of the four judgments, accuracies with intervals over clusters, and the tests.

    `both_share` is the share of judgments on which both are right; `difference` is accuracy_a - accuracy_b. `p_exact`
    and `chi2` (continuity-corrected, with its `p_chi2`) are McNemar's; `p` is its exact test over clusters, and
    `p_adjusted` the same for all pairs at once.
    """

    a: str
    b: str
    n: int
    clusters: int
    only_a: int
    only_b: int
    both: int
    none: int
    accuracy_a: float
    a_low: float
    a_high: float
    accuracy_b: float
    b_low: float
    b_high: float
    both_share: float
    difference: float
    low: float
    high: float
    p_exact: float
    chi2: float
    p_chi2: float
    p: float
    p_adjusted: float = float("nan")


@dataclass(frozen=True, eq=False)
class Verification(Result):
    """The result of `compare` of kind `verify`."""

    KIND = "verify"

    pairs: tuple[VerifiedPair, ...]
    answers: int
    items: int
    annotators: int
    clusters: str
    level: float
    adjust: Adjustment = "bh"
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __repr__(self) -> str:
        return f"Verification({len(self.pairs)} pairs, {self.answers} judgments on {self.items} items)"

    def to_frame(self) -> pl.DataFrame:
        """One row per pair of systems."""
        return frame_of(self.pairs, VerifiedPair)

    def views(self) -> Sequence[View]:
        """Return the views `pairs` (counts and shares that are right) and `tests`."""
        counts = (
            Column("a", kind="name"),
            Column("b", kind="name"),
            *(Column(name.replace("_", " "), name, "count", rank=2) for name in ("only_a", "only_b", "both", "none")),
            Column("a right", "accuracy_a", places=3),
            Column("interval", ("a_low", "a_high"), "interval", 2, rank=1),
            Column("b right", "accuracy_b", places=3),
            Column("interval", ("b_low", "b_high"), "interval", 2, rank=1),
        )
        tests = (
            Column("a", kind="name"),
            Column("b", kind="name"),
            Column("difference", places=3),
            Column("interval", ("low", "high"), "interval", 3, rank=1),
            Column("p exact", "p_exact", "p", rank=2),
            Column("chi2", places=1, rank=4),
            Column("p chi2", "p_chi2", "p", rank=3),
            Column(f"p by {self.clusters}", "p", "p", rank=1),
            Column("adjusted", "p_adjusted", "p"),
        )
        head = f"{self.answers} judgments on {self.items} items; {self.level:.0%} intervals"
        title = (
            "difference of the shares that are right (p: McNemar, exact, chi-square, and over clusters"
            f"{describe_adjustment(self.adjust)})"
        )
        return (View("pairs", self.pairs, counts, head), View("tests", self.pairs, tests, title))


def compare_verified(
    table: pl.DataFrame,
    *,
    systems: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    cluster: Cluster = "item",
    level: float = 0.95,
    adjust: Adjustment = "bh",
    strict: bool = False,
    where: str = "table",
) -> Verification:
    """Compare two systems by judgments of the form only A, only B, both, none.

    Args:
        table: item, annotator, system_a, system_b, choice.
        systems: Keep only these; also the names of a and b where the table has none.
        ignore: Labels to leave out, for instance those for words that should not have been shown.
        adjust: bh, holm, sidak or none, over the pairs of systems.
        strict: Refuse contradictory duplicates instead of leaving them out.

    >>> table = pl.DataFrame({"item": range(6), "choice": ["1", "1", "2", "both", "0", "1"]})
    >>> pair = compare_verified(table, systems=["AW", "DB"]).pairs[0]
    >>> pair.only_a, pair.only_b, round(pair.accuracy_a, 3)
    (3, 1, 0.667)
    """
    choices = choice_table(table, "verify", columns, where)
    rows, notes = pair_rows(choices, systems, ignore)
    ties = rows.filter(pl.col("side") == "tie")
    if ties.height:
        raise choices.row_error(
            ties["row"][0], "a tie does not say whether both are right or none is; write both or none"
        )
    rows = align_pairs(rows)
    rows, merge_notes = _merge_repeated_judgments(rows, choices, strict=strict)
    if not rows.height:
        raise DataError(f"{where}: no judgment is left; check the choices, `systems` and `ignore`")
    codes = cluster_codes(rows, cluster)
    by_pair = rows.with_columns(pl.Series("code", codes)).group_by("a", "b", maintain_order=True)
    pairs = [_verified_pair(str(a), str(b), part["side"], part["code"].to_numpy(), level) for (a, b), part in by_pair]
    return Verification(
        pairs=adjust_rows(pairs, adjust),
        answers=rows.height,
        items=rows["item"].n_unique(),
        annotators=rows["annotator"].drop_nulls().n_unique(),
        clusters=cluster,
        level=level,
        adjust=adjust,
        notes=(*notes, *merge_notes, *annotator_notes(rows)),
        signature=make_signature(
            "compare:verify",
            level=level,
            cluster=None if cluster == "item" else cluster,
            ignore=",".join(sorted(ignore)) or None,
            adjust=None if adjust == "bh" else adjust,
            data=choices.fingerprint,
        ),
    )


def _merge_repeated_judgments(
    rows: pl.DataFrame, table: ChoiceTable, *, strict: bool
) -> tuple[pl.DataFrame, list[str]]:
    """Keep one judgment per annotator, item and pair; contradictory ones are left out."""
    keys = ["item", "annotator", "a", "b"]
    named = rows.filter(pl.col("annotator").is_not_null())
    kinds = named.group_by(keys, maintain_order=True).agg(
        pl.col("side").n_unique().alias("kinds"), pl.len().alias("rows"), pl.col("row").last()
    )
    conflicts = kinds.filter(pl.col("kinds") > 1)
    if strict and conflicts.height:
        conflict = conflicts.row(0, named=True)
        raise table.row_error(
            conflict["row"],
            f"{conflict['annotator']} judged differently on item {conflict['item']} elsewhere in the table; keep "
            "one row, or leave `strict` out to leave both out",
        )
    notes = []
    if conflicts.height:
        notes.append(
            f"judgments of an annotator that contradict each other (e.g. {conflicts['annotator'][0]} on item "
            f"{conflicts['item'][0]}), left out: {conflicts.height}"
        )
    n_repeated = kinds.filter((pl.col("kinds") == 1) & (pl.col("rows") > 1)).height
    if n_repeated:
        notes.append(f"judgments given twice by the same annotator, counted once: {n_repeated}")
    unique_rows = named.join(conflicts, on=keys, how="anti", maintain_order="left").unique(
        keys, keep="first", maintain_order=True
    )
    return pl.concat([unique_rows, rows.filter(pl.col("annotator").is_null())]).sort("row"), notes


def _verified_pair(a: str, b: str, side: pl.Series, cluster: IntArray, level: float) -> VerifiedPair:
    only_a, only_b = (side == "a").to_numpy(), (side == "b").to_numpy()
    both_right = (side == "both").to_numpy()
    right_a, right_b = (only_a | both_right).astype(np.float64), (only_b | both_right).astype(np.float64)
    share_a, share_b = clustered_share(right_a, cluster, level), clustered_share(right_b, cluster, level)
    gap = clustered_difference(right_a - right_b, cluster, level)
    test = mcnemar(int(only_a.sum()), int(only_b.sum()))
    net = np.bincount(cluster, right_a - right_b).astype(np.int64)
    return VerifiedPair(
        a=a,
        b=b,
        n=len(side),
        clusters=share_a.clusters,
        only_a=test.only_a,
        only_b=test.only_b,
        both=int(both_right.sum()),
        none=int((side == "none").sum()),
        accuracy_a=share_a.share,
        a_low=share_a.low,
        a_high=share_a.high,
        accuracy_b=share_b.share,
        b_low=share_b.low,
        b_high=share_b.high,
        both_share=float(both_right.mean()),
        difference=gap.share,
        low=gap.low,
        high=gap.high,
        p_exact=test.p_exact,
        chi2=test.chi2,
        p_chi2=test.p_chi2,
        p=clustered_sign_test(net),
    )


Row = TypeVar("Row", bound=Any)


def adjust_rows(rows: Sequence[Row], adjust: Adjustment) -> tuple[Row, ...]:
    """Return rows with `p_adjusted` from their `p`."""
    p = adjust_p_values(np.array([row.p for row in rows], dtype=np.float64), adjust)
    return tuple(replace(row, p_adjusted=float(value)) for row, value in zip(rows, p, strict=True))
