"""Two systems verified in one pass: only A is right, only B is, both are, none is (notes, P10.1).

One look at both outputs gives both accuracies, their overlap and McNemar's test of the difference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, choice_table
from aliquot.annotation.choices import aligned_pairs, annotator_notes, cluster_codes, pair_rows
from aliquot.annotation.comparison import frame_of_rows, plain
from aliquot.core.result import signature
from aliquot.errors import DataError
from aliquot.stats.arrays import IntArray
from aliquot.stats.choices import clustered_sign_test, mcnemar
from aliquot.stats.clustered import clustered_mean, clustered_share


@dataclass(frozen=True)
class VerifiedPair:
    """Two systems: counts of the four judgments, accuracies with intervals over clusters, and the tests.

    `both_share` is the share of judgments on which both are right; `difference` is accuracy_a - accuracy_b. `p_exact`
    and `chi2` (continuity-corrected, with its `p_chi2`) are McNemar's; `p` is its test over clusters.
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


@dataclass(frozen=True, eq=False)
class Verification:
    """The result of `compare --kind verify`."""

    pairs: tuple[VerifiedPair, ...]
    answers: int
    items: int
    annotators: int
    clusters: str
    level: float
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __repr__(self) -> str:
        return f"Verification({len(self.pairs)} pairs, {self.answers} judgments on {self.items} items)"

    def to_frame(self) -> pl.DataFrame:
        """One row per pair of systems."""
        return frame_of_rows(self.pairs, VerifiedPair)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document; undefined numbers are null."""
        return {
            "kind": "verify",
            "pairs": [plain(row) for row in self.pairs],
            "answers": self.answers,
            "items": self.items,
            "annotators": self.annotators,
            "clusters": self.clusters,
            "level": self.level,
            "notes": list(self.notes),
            "signature": self.signature,
        }


def verify(
    table: pl.DataFrame,
    *,
    systems: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    cluster: str = "item",
    level: float = 0.95,
    strict: bool = False,
    where: str = "table",
) -> Verification:
    """Compare two systems by judgments of the form only A, only B, both, none.

    Args:
        table: item, annotator, system_a, system_b, choice.
        systems: Keep only these, or who a and b were where the table does not say.
        columns: Our column role -> the table's column.
        ignore: Labels to leave out, for instance those for words that should not have been shown.
        cluster: item, annotator, or none.
        level: Coverage of the intervals.
        strict: Refuse contradictory duplicates instead of leaving them out.
        where: File name, for messages.

    Example:
        >>> table = pl.DataFrame({"item": range(6), "choice": ["1", "1", "2", "both", "0", "1"]})
        >>> pair = verify(table, systems=["AW", "DB"]).pairs[0]
        >>> pair.only_a, pair.only_b, round(pair.accuracy_a, 3)
        (3, 1, 0.667)
    """
    sorted_out = choice_table(table, "verify", columns, where)
    rows, notes = pair_rows(sorted_out, systems, ignore)
    vague = rows.filter(pl.col("side") == "tie")
    if vague.height:
        raise sorted_out.fault(
            vague["row"][0], "a tie does not say whether both are right or none is; write both or none"
        )
    rows = aligned_pairs(rows)
    rows, merge_notes = _consistent(rows, sorted_out, strict=strict)
    if not rows.height:
        raise DataError(f"{where}: no judgment is left; check the choices, --systems and --ignore")
    codes = cluster_codes(rows, cluster)
    pairs = []
    for (a, b), part in rows.with_columns(pl.Series("code", codes)).group_by(["a", "b"], maintain_order=True):
        pairs.append(_pair(str(a), str(b), part["side"], part["code"].to_numpy(), level))
    return Verification(
        pairs=tuple(pairs),
        answers=rows.height,
        items=rows["item"].n_unique(),
        annotators=rows["annotator"].drop_nulls().n_unique(),
        clusters=cluster,
        level=level,
        notes=(*notes, *merge_notes, *annotator_notes(rows)),
        signature=signature("compare:verify", level=level, cluster=None if cluster == "item" else cluster,
                            ignore=",".join(sorted(ignore)) or None, data=sorted_out.fingerprint),
    )  # fmt: skip


def _consistent(rows: pl.DataFrame, table: ChoiceTable, *, strict: bool) -> tuple[pl.DataFrame, list[str]]:
    """One judgment per annotator, item and pair; contradictory ones say nothing and are left out."""
    keys = ["item", "annotator", "a", "b"]
    named = rows.filter(pl.col("annotator").is_not_null())
    kinds = named.group_by(keys, maintain_order=True).agg(
        pl.col("side").n_unique().alias("kinds"), pl.len().alias("rows"), pl.col("row").last()
    )
    torn = kinds.filter(pl.col("kinds") > 1)
    if strict and torn.height:
        bad = torn.row(0, named=True)
        raise table.fault(
            bad["row"],
            f"{bad['annotator']} answered differently on item {bad['item']} elsewhere in the table; keep one row, "
            "or leave --strict out to leave both out",
        )
    notes = []
    if torn.height:
        notes.append(
            f"judgments of an annotator that contradict each other (e.g. {torn['annotator'][0]} on item "
            f"{torn['item'][0]}), left out: {torn.height}"
        )
    again = kinds.filter((pl.col("kinds") == 1) & (pl.col("rows") > 1)).height
    if again:
        notes.append(f"judgments given twice by the same annotator, counted once: {again}")
    kept = named.join(torn, on=keys, how="anti", maintain_order="left").unique(keys, keep="first", maintain_order=True)
    return pl.concat([kept, rows.filter(pl.col("annotator").is_null())]).sort("row"), notes


def _pair(a: str, b: str, side: pl.Series, cluster: IntArray, level: float) -> VerifiedPair:
    only_a, only_b = (side == "a").to_numpy(), (side == "b").to_numpy()
    both = (side == "both").to_numpy()
    right_a, right_b = (only_a | both).astype(np.float64), (only_b | both).astype(np.float64)
    share_a, share_b = clustered_share(right_a, cluster, level), clustered_share(right_b, cluster, level)
    gap = clustered_mean(right_a - right_b, cluster, level)
    low, high = np.clip([gap.low, gap.high], -1.0, 1.0).tolist()
    test = mcnemar(int(only_a.sum()), int(only_b.sum()))
    net = np.bincount(cluster, right_a - right_b).astype(np.int64)
    return VerifiedPair(
        a=a, b=b, n=len(side), clusters=share_a.clusters, only_a=test.only_a, only_b=test.only_b, both=int(both.sum()),
        none=int((side == "none").sum()), accuracy_a=share_a.share, a_low=share_a.low, a_high=share_a.high,
        accuracy_b=share_b.share, b_low=share_b.low, b_high=share_b.high, both_share=float(both.mean()),
        difference=gap.mean, low=low, high=high, p_exact=test.p_exact, chi2=test.chi2, p_chi2=test.p_chi2,
        p=clustered_sign_test(net),
    )  # fmt: skip
