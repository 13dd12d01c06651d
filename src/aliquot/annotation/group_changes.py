"""Two groups of people, before and after: whose measures changed more (notes, P5.1)?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, choice_table
from aliquot.annotation.comparison import frame_of_rows, plain
from aliquot.core.result import signature
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.stats.clustered import ChangeTest, change_test
from aliquot.stats.ranks import ADJUSTMENTS, adjusted

ONLY = "change"
"""What the measure is called where there is one and it has no name."""


@dataclass(frozen=True)
class GroupChange:
    """One measure in two groups: mean changes, their difference with its interval, tests, and how alike they began.

    `p` compares the means (t test), `p_improved` the shares of people who improved; `p_adjusted` and
    `p_improved_adjusted` are corrected for the number of measures. `p_baseline` should be large.
    """

    measure: str
    first: str
    second: str
    n_first: int
    n_second: int
    change_first: float
    change_second: float
    difference: float
    low: float
    high: float
    t: float
    df: float
    p: float
    p_adjusted: float
    improved_first: float
    improved_second: float
    p_improved: float
    p_improved_adjusted: float
    baseline_difference: float
    p_baseline: float


@dataclass(frozen=True, eq=False)
class GroupChanges:
    """The result of `compare --kind groups`."""

    rows: tuple[GroupChange, ...]
    adjust: str
    level: float
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __repr__(self) -> str:
        return f"GroupChanges({len(self.rows)} measures, adjusted by {self.adjust})"

    def to_frame(self) -> pl.DataFrame:
        """One row per measure."""
        return frame_of_rows(self.rows, GroupChange)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document; undefined numbers are null."""
        return {
            "kind": "groups",
            "rows": [plain(row) for row in self.rows],
            "adjust": self.adjust,
            "level": self.level,
            "notes": list(self.notes),
            "signature": self.signature,
        }


def group_changes(
    table: pl.DataFrame,
    *,
    groups: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    lower_is_better: Collection[str] = (),
    adjust: str = "holm",
    equal_variances: bool = False,
    level: float = 0.95,
    where: str = "table",
) -> GroupChanges:
    """Compare how two groups of people changed.

    Args:
        table: participant, group, before, after, and where there are several, measure: a row per person and measure.
        groups: The two groups, in the order to report them; by default those that occur.
        columns: Our column role -> the table's column.
        lower_is_better: Measures of which less is better, such as negative affect.
        adjust: holm, sidak or none, over the measures.
        equal_variances: Student's t test instead of Welch's.
        level: Coverage of the intervals.
        where: File name, for messages.

    Example:
        >>> table = pl.DataFrame({"participant": range(6), "group": ["r", "r", "r", "c", "c", "c"],
        ...                       "before": [1.0, 2, 3, 1, 2, 3], "after": [3.0, 5, 4, 1, 3, 3]})
        >>> row = group_changes(table).rows[0]
        >>> round(row.difference, 3), row.n_first
        (1.667, 3)
    """
    if adjust not in ADJUSTMENTS:
        raise unknown_name("adjustment", adjust, ADJUSTMENTS)
    sorted_out = choice_table(table, "groups", columns, where)
    rows, notes = _people(sorted_out)
    first, second = _two_groups(rows, groups, where)
    rows = rows.filter(pl.col("group").is_in([first, second]))
    measures = rows["measure"].unique(maintain_order=True).to_list()
    for name in lower_is_better:
        if name not in measures:
            raise unknown_name("measure", name, measures, "check --lower-is-better")
    tests = {
        name: _test(rows.filter(pl.col("measure") == name), second, lower_is_better=name in lower_is_better,
                    equal_variances=equal_variances, level=level)
        for name in measures
    }  # fmt: skip
    small = [name for name, test in tests.items() if min(test.n_first, test.n_second) < 2]
    notes += [f"'{name}': a group has fewer than two people with both numbers; nothing can be tested" for name in small]
    return GroupChanges(
        rows=_rows(tests, first, second, adjust),
        adjust=adjust,
        level=level,
        notes=tuple(notes),
        signature=signature(
            "compare:groups", groups=f"{first},{second}", adjust=adjust, test="student" if equal_variances else "welch",
            lower=",".join(sorted(lower_is_better)) or None, level=level, data=sorted_out.fingerprint,
        ),
    )  # fmt: skip


def _people(table: ChoiceTable) -> tuple[pl.DataFrame, list[str]]:
    """One row per person and measure: participant, group, measure, before, after."""
    height = table.frame.height
    names = (
        table.required("participant")
        if "participant" in table.frame.columns
        else pl.Series(np.arange(height).astype(str))
    )
    measure = table.required("measure") if "measure" in table.frame.columns else pl.Series([ONLY] * height)
    rows = pl.DataFrame({"participant": names, "group": table.required("group"), "measure": measure}).with_columns(
        pl.Series(role, table.numbers(role), nan_to_null=True) for role in ("before", "after")
    )
    notes = []
    again = rows.height - rows.unique().height
    rows = rows.unique(maintain_order=True)
    if again:
        notes.append(f"rows that occur twice, counted once: {again}")
    torn = rows.filter(pl.struct("participant", "measure").is_duplicated())
    if torn.height:
        bad = torn.row(0, named=True)
        raise DataError(
            f"{table.where}: participant '{bad['participant']}' has several rows for '{bad['measure']}' that "
            "differ; keep one"
        )
    moved = rows.filter(pl.col("group").n_unique().over("participant") > 1)
    if moved.height:
        raise DataError(
            f"{table.where}: participant '{moved['participant'][0]}' is in several groups; people belong to one"
        )
    missing = rows.filter(pl.col("before").is_null() | pl.col("after").is_null()).height
    if missing:
        notes.append(f"rows without a number before or after, left out: {missing}")
    return rows, notes


def _two_groups(rows: pl.DataFrame, groups: Sequence[str] | None, where: str) -> tuple[str, str]:
    present = rows["group"].unique(maintain_order=True).to_list()
    chosen = list(groups) if groups is not None else present
    for name in chosen:
        if name not in present:
            raise unknown_name("group", name, present, "check --groups")
    if len(set(chosen)) != 2 or len(chosen) != 2:
        raise OptionError(
            f"{where}: two groups are compared, and there are {quoted(chosen)}; name two with --groups A,B"
        )
    return str(chosen[0]), str(chosen[1])


def _test(rows: pl.DataFrame, second: str, *, lower_is_better: bool, equal_variances: bool, level: float) -> ChangeTest:
    before, after = (rows[role].fill_null(np.nan).to_numpy() for role in ("before", "after"))
    return change_test(
        before, after, (rows["group"] == second).to_numpy(), lower_is_better=lower_is_better,
        equal_variances=equal_variances, level=level,
    )  # fmt: skip


def _rows(tests: Mapping[str, ChangeTest], first: str, second: str, adjust: str) -> tuple[GroupChange, ...]:
    means = adjusted(np.array([test.p for test in tests.values()]), adjust)
    shares = adjusted(np.array([test.p_improved for test in tests.values()]), adjust)
    return tuple(
        GroupChange(measure=name, first=first, second=second, p_adjusted=float(mean), p_improved_adjusted=float(share),
                    **vars(test))
        for (name, test), mean, share in zip(tests.items(), means, shares, strict=True)
    )  # fmt: skip
