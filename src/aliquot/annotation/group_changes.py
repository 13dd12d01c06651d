"""Two groups of people, before and after: which group's measures changed more? See docs/methods.md, section 11."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, choice_table
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import Column, View
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.stats.cluster_robust import ChangeTest, change_test
from aliquot.stats.multiple_testing import ADJUSTMENTS, Adjustment, adjust_p_values
from aliquot.validation import one_of

SINGLE_MEASURE = "change"
"""Name of a single measure that has none."""


@dataclass(frozen=True, kw_only=True)
class GroupChange(ChangeTest):
    """One measure in two groups: mean changes, their difference with its interval, tests, and how alike they began.

    `p` compares the means (t test), `p_improved` the shares of people who improved; `p_adjusted` and
    `p_improved_adjusted` are corrected for the number of measures. `p_baseline` should be large.
    """

    measure: str
    first: str
    second: str
    p_adjusted: float
    p_improved_adjusted: float


@dataclass(frozen=True, eq=False)
class GroupChanges(Result):
    """The result of `survey` of kind `groups`."""

    KIND = "groups"

    rows: tuple[GroupChange, ...]
    adjust: Adjustment
    level: float
    notes: tuple[str, ...] = ()
    signature: str = ""

    def __repr__(self) -> str:
        return f"GroupChanges({len(self.rows)} measures, adjusted by {self.adjust})"

    def to_frame(self) -> pl.DataFrame:
        """One row per measure."""
        names = ("measure", "first", "second")
        return frame_of(self.rows, GroupChange).select(*names, pl.exclude(*names))

    def views(self) -> Sequence[View]:
        """Return the views `changes` and `improved`."""
        first, second = self.rows[0].first, self.rows[0].second
        changes = (
            Column("measure", kind="name"),
            Column("n", lambda row: f"{row.n_first}/{row.n_second}", "count", rank=4),
            Column(first, "change_first", rank=2),
            Column(second, "change_second", rank=2),
            Column("difference"),
            Column("interval", ("low", "high"), "interval", 2, rank=1),
            Column("p", kind="p", rank=3),
            Column("adjusted", "p_adjusted", "p"),
            Column("p at start", "p_baseline", "p", rank=5),
        )
        improved = (
            Column("measure", kind="name"),
            Column(first, "improved_first", "share"),
            Column(second, "improved_second", "share"),
            Column("p", "p_improved", "p", rank=1),
            Column("adjusted", "p_improved_adjusted", "p"),
        )
        title = f"mean change, {first} against {second} (p adjusted by {self.adjust})"
        return (
            View("changes", self.rows, changes, title),
            View("improved", self.rows, improved, "people who improved"),
        )


def group_changes(
    table: pl.DataFrame,
    *,
    groups: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    lower_is_better: Collection[str] = (),
    adjust: Adjustment = "holm",
    equal_variances: bool = False,
    level: float = 0.95,
    where: str = "table",
) -> GroupChanges:
    """Compare how two groups of people changed.

    Args:
        table: participant, group, before, after, and where there are several, measure: a row per person and measure.
        groups: The two groups, in the order to report them; by default those that occur.
        lower_is_better: Measures of which less is better, such as negative affect.
        adjust: holm, bh, sidak or none, over the measures.
        equal_variances: Student's t test instead of Welch's.

    >>> table = pl.DataFrame({"participant": range(6), "group": ["r", "r", "r", "c", "c", "c"],
    ...                       "before": [1.0, 2, 3, 1, 2, 3], "after": [3.0, 5, 4, 1, 3, 3]})
    >>> row = group_changes(table).rows[0]
    >>> round(row.difference, 3), row.n_first
    (1.667, 3)
    """
    one_of("adjust", adjust, ADJUSTMENTS)
    choices = choice_table(table, "groups", columns, where)
    rows, notes = _collect_people(choices)
    first, second = _choose_two_groups(rows, groups, where)
    rows = rows.filter(pl.col("group").is_in([first, second]))
    measures = rows["measure"].unique(maintain_order=True).to_list()
    for name in lower_is_better:
        if name not in measures:
            raise unknown_name("measure", name, measures, "check `lower_is_better`")
    tests = {
        name: change_test(
            part["before"].fill_null(np.nan).to_numpy(),
            part["after"].fill_null(np.nan).to_numpy(),
            (part["group"] == second).to_numpy(),
            lower_is_better=name in lower_is_better,
            equal_variances=equal_variances,
            level=level,
        )
        for (name,), part in rows.group_by("measure", maintain_order=True)
    }
    small = [name for name, test in tests.items() if min(test.n_first, test.n_second) < 2]
    notes += [f"'{name}': a group has fewer than two people with both numbers; nothing can be tested" for name in small]
    return GroupChanges(
        rows=_change_rows({str(name): test for name, test in tests.items()}, first, second, adjust),
        adjust=adjust,
        level=level,
        notes=tuple(notes),
        signature=make_signature(
            "survey:groups",
            groups=f"{first},{second}",
            adjust=adjust,
            test="student" if equal_variances else "welch",
            lower=",".join(sorted(lower_is_better)) or None,
            level=level,
            data=choices.fingerprint,
        ),
    )


def _collect_people(table: ChoiceTable) -> tuple[pl.DataFrame, list[str]]:
    """Return one row per person and measure (participant, group, measure, before, after), and notes."""
    absent = {
        "participant": pl.Series(np.arange(len(table)).astype(str)),
        "measure": pl.Series([SINGLE_MEASURE] * len(table)),
    }
    columns = {
        role: table.required_texts(role) if role in table.frame.columns else absent[role]
        for role in ("participant", "group", "measure")
    }
    rows = pl.DataFrame(columns).with_columns(
        pl.Series(role, table.parse_column(role), nan_to_null=True) for role in ("before", "after")
    )
    rows = rows.unique(maintain_order=True)
    n_repeated = len(table) - rows.height
    notes = [f"rows that occur twice, counted once: {n_repeated}"] if n_repeated else []
    conflicts = rows.filter(pl.struct("participant", "measure").is_duplicated())
    if conflicts.height:
        conflict = conflicts.row(0, named=True)
        raise DataError(
            f"{table.where}: participant '{conflict['participant']}' has several rows for '{conflict['measure']}' that "
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


def _choose_two_groups(rows: pl.DataFrame, groups: Sequence[str] | None, where: str) -> tuple[str, str]:
    present = rows["group"].unique(maintain_order=True).to_list()
    chosen = list(groups) if groups is not None else present
    for name in chosen:
        if name not in present:
            raise unknown_name("group", name, present, "check `groups`")
    if len(set(chosen)) != 2 or len(chosen) != 2:
        raise OptionError(f"{where}: two groups are compared, and there are {quoted(chosen)}; name two in `groups`")
    return str(chosen[0]), str(chosen[1])


def _change_rows(
    tests: Mapping[str, ChangeTest], first: str, second: str, adjust: Adjustment
) -> tuple[GroupChange, ...]:
    means = adjust_p_values(np.array([test.p for test in tests.values()]), adjust)
    shares = adjust_p_values(np.array([test.p_improved for test in tests.values()]), adjust)
    return tuple(
        GroupChange(
            measure=name,
            first=first,
            second=second,
            p_adjusted=float(mean),
            p_improved_adjusted=float(share),
            **vars(test),
        )
        for (name, test), mean, share in zip(tests.items(), means, shares, strict=True)
    )
