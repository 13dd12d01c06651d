"""Audit log: which step removed which judgments, of which annotators, and what that does to the scores.

A system's score here is the mean over its outputs of the mean of their judgments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.cleaning_steps import Z
from aliquot.annotation.judgment_rows import OPEN, JudgmentRows, first_rows, group_codes
from aliquot.annotation.prepare import MIN_JUDGMENTS, Z_GROUPS
from aliquot.core.conventions import is_human_name
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import MARKED, Judgments
from aliquot.core.registry import Spec
from aliquot.errors import quoted
from aliquot.stats.annotator_effects import group_zscores
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, encode_labels, group_means, group_sums


@dataclass(frozen=True, eq=False)
class ScoreKeeper:
    """Judgments as arrays, for fast system scores of subsets of them."""

    systems: list[str]  # in order of first appearance
    values: FloatArray  # of the judgments; NaN where there is none
    cell: IntArray  # the output each judgment is on
    system_of_cell: IntArray  # the system of each output

    @classmethod
    def from_table(cls, table: pl.DataFrame) -> ScoreKeeper:
        """Build the arrays from a table of judgments."""
        cell = group_codes(table, ["item", "system"])
        of_cell = table["system"].gather(first_rows(cell))
        values = table["value"].cast(pl.Float64).to_numpy()
        return cls(of_cell.unique(maintain_order=True).to_list(), values, cell, encode_labels(of_cell.to_list()))

    def mean_scores(self, counted: BoolArray, values: FloatArray | None = None) -> FloatArray:
        """Return each system's mean over its outputs' means of the judgments that count."""
        values = self.values if values is None else values
        of_cell = group_means(self.cell, np.where(counted, values, np.nan), len(self.system_of_cell))
        return group_means(self.system_of_cell, of_cell, len(self.systems))

    def count_judgments(self, counted: BoolArray) -> IntArray:
        """Return the number of judgments that count, by system."""
        is_counted = (counted & np.isfinite(self.values)).astype(np.float64)
        return group_sums(self.system_of_cell[self.cell], is_counted, len(self.systems)).astype(np.int64)

    def changes_by(self, group: IntArray, groups: int, counted: BoolArray, dropped: BoolArray) -> FloatArray:
        """Return how scores change if each group's judgments among `dropped` are left out: groups x systems."""
        size, width = len(self.system_of_cell), len(self.systems)
        filled = np.where(counted, self.values, 0.0)
        total, count = group_sums(self.cell, filled, size), group_sums(self.cell, counted.astype(np.float64), size)
        mean = np.divide(total, count, out=np.full(size, np.nan), where=count > 0)
        score_sum = group_sums(self.system_of_cell, np.nan_to_num(mean), width)
        outputs = group_sums(self.system_of_cell, (count > 0).astype(np.float64), width)
        rows = np.flatnonzero(dropped & counted)
        pair, pair_index = np.unique(group[rows] * size + self.cell[rows], return_inverse=True)
        of_group, where = pair // size, pair % size
        count_left = count[where] - np.bincount(pair_index, minlength=len(pair))
        sum_left = total[where] - np.bincount(pair_index, self.values[rows], minlength=len(pair))
        gained = np.where(count_left > 0, sum_left / np.maximum(count_left, 1.0), 0.0) - mean[where]
        key = of_group * width + self.system_of_cell[where]
        new_sum = score_sum + group_sums(key, gained, groups * width).reshape(groups, width)
        new_outputs = outputs - group_sums(key, (count_left < 0.5).astype(np.float64), groups * width).reshape(
            groups, width
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(new_outputs > 0.5, new_sum / new_outputs, np.nan) - score_sum / outputs


def select_counted(judged: JudgmentRows) -> BoolArray:
    """Return a mask of the judgments that count."""
    return judged.table.select(OPEN).to_series().to_numpy()


def count_swaps(before: FloatArray, after: FloatArray) -> int:
    """Count the pairs of systems whose order changes.

    >>> count_swaps(np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 3.0]))
    1
    """
    first, second = (np.sign(scores[:, None] - scores[None, :]) for scores in (before, after))
    return int((first * second < 0).sum() // 2)


def rank_systems(scores: FloatArray) -> list[int | None]:
    """Rank scores, 1 for the highest; None where there is no score.

    >>> rank_systems(np.array([0.5, np.nan, 0.9]))
    [2, None, 1]
    """
    return [None if np.isnan(score) else 1 + int((scores > score).sum()) for score in scores]


def find_largest_change(changes: FloatArray, systems: list[str]) -> tuple[float, str | None]:
    """Return the change of largest absolute value and its system."""
    is_finite = np.isfinite(changes)
    if not is_finite.any():
        return float("nan"), None
    place = int(np.argmax(np.where(is_finite, np.abs(changes), -1.0)))
    return float(changes[place]), systems[place] if changes[place] != 0 else None


# -- tables of the audit log ---------------------------------------------------------------------------------------


def count_states(before: JudgmentRows, after: JudgmentRows) -> dict[str, int]:
    """Count judgments by state, and those that are marked."""
    states = dict(before.table["state"].value_counts().iter_rows())
    earlier = before.table[MARKED].count()
    return {
        "answers": before.table.height,
        **{state: int(states.get(state, 0)) for state in ("answered", "skipped", "pending")},
        "marked_before": earlier,
        "marked": after.table[MARKED].count() - earlier,
    }


def judgment_notes(judged: JudgmentRows, chain: Sequence[Spec]) -> list[str]:
    """Return notes on the judgments before any step."""
    notes = []
    if judged.table["annotator"].drop_nulls().n_unique() == 1:
        notes.append("there is one annotator: steps that compare annotators do not work")
    if judged.negative_times:
        notes.append(f"{judged.negative_times} negative times are taken as missing")
    if "seconds" in judged.filled_columns:
        missing = judged.table.filter(pl.col("seconds").is_null() & (pl.col("state") == "answered")).height
        missing -= judged.negative_times
        if missing > 0:
            notes.append(f"{missing} judgments have no time")
    ordinary = OPEN & pl.col("annotator").is_not_null() & ~pl.col("repeat") & pl.col("control").is_null()
    cells = (
        judged.table.filter(ordinary)
        .group_by("annotator", "item", "system", "criterion")
        .agg(pl.len().alias("times"), (pl.col("value").max() - pl.col("value").min()).alias("apart"))
    )
    again = cells.filter(pl.col("times") > 1)
    if again.height and "duplicates" not in [spec.name for spec in chain]:
        differ = again.filter(pl.col("apart") > 0).height
        twice = f"{again.height} outputs were judged more than once by the same annotator, {differ} of them differently"
        notes.append(f"{twice}; scores average these; the step `duplicates` keeps one")
    return notes


def annotator_table(
    before: JudgmentRows,
    after: JudgmentRows,
    keeper: ScoreKeeper,
    steps: Sequence[str],
    measured: Sequence[pl.DataFrame],
) -> pl.DataFrame:
    """One row per annotator, those with most marks first."""
    table = before.table.with_columns(after.table[MARKED].alias("_now"), OPEN.alias("_open"))
    named = table.filter(pl.col("annotator").is_not_null())
    if not named.height:
        return pl.DataFrame(schema={"annotator": pl.String, "answers": pl.UInt32, "marked": pl.UInt32})
    is_new = pl.col("_open") & pl.col("_now").is_not_null()
    reasons = named.filter(is_new)["_now"].unique(maintain_order=True).to_list()
    report = named.group_by("annotator", maintain_order=True).agg(
        pl.col("_open").sum().alias("answers"),
        *((pl.col("state") == state).sum().alias(state) for state in ("skipped", "pending")),
        pl.col("seconds").median().alias("median_seconds"),
        is_new.sum().alias("marked"),
        *((is_new & (pl.col("_now") == reason)).sum().alias(reason) for reason in dict.fromkeys([*steps, *reasons])),
    )
    report = report.join(_annotator_effects(before, after, keeper), on="annotator", how="left", maintain_order="left")
    for measures in measured:
        report = report.join(measures, on="annotator", how="left", maintain_order="left")
    return report.sort("marked", descending=True, maintain_order=True)


def _annotator_effects(before: JudgmentRows, after: JudgmentRows, keeper: ScoreKeeper) -> pl.DataFrame:
    """For each annotator, the largest change of a system's score if only their marks were made."""
    annotators = before.table["annotator"].fill_null("")
    names = annotators.unique(maintain_order=True).to_list()
    counted = select_counted(before)
    dropped = counted & ~select_counted(after)
    changes = keeper.changes_by(group_codes(annotators.to_frame(), ["annotator"]), len(names), counted, dropped)
    rows = [(name, *find_largest_change(row, keeper.systems)) for name, row in zip(names, changes, strict=True)]
    schema = {"annotator": pl.String, "change": pl.Float64, "changed_system": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("change").fill_nan(None))


def system_table(before: JudgmentRows, after: JudgmentRows, keeper: ScoreKeeper) -> pl.DataFrame:
    """One row per system, the best after cleaning first."""
    columns: dict[str, Any] = {"system": keeper.systems}
    groups = group_codes(before.table, Z_GROUPS)
    named = before.table["annotator"].is_not_null().to_numpy()
    for when, judged in (("before", before), ("after", after)):
        counted = select_counted(judged)
        raw = keeper.mean_scores(counted)
        if Z in judged.table.columns:  # taken by `standardise`, however many judgments are left
            z = keeper.mean_scores(counted, judged.table[Z].cast(pl.Float64).to_numpy())
        else:
            values = np.where(counted & named, keeper.values, np.nan)
            z = keeper.mean_scores(counted, group_zscores(values, groups, MIN_JUDGMENTS).z)
        columns |= {
            f"answers_{when}": keeper.count_judgments(counted),
            when: raw,
            f"rank_{when}": rank_systems(raw),
            f"z_{when}": z,
            f"z_rank_{when}": rank_systems(z),
        }
    frame = pl.DataFrame(columns).with_columns(pl.selectors.float().fill_nan(None))
    return frame.with_columns((pl.col("after") - pl.col("before")).alias("change")).sort(
        "after", descending=True, nulls_last=True, maintain_order=True
    )


def step_table(systems: list[str], chain: Sequence[Spec], scores: Sequence[FloatArray]) -> pl.DataFrame:
    """The score of every system before and after every step."""
    names = ["(before)", *(str(spec) for spec in chain)]
    return pl.DataFrame(
        {
            "step": np.repeat(names, len(systems)).tolist(),
            "system": systems * len(names),
            "score": np.concatenate(scores) if systems else [],
        },
        schema={"step": pl.String, "system": pl.String, "score": pl.Float64},
    ).with_columns(pl.col("score").fill_nan(None))


# -- human scores made again from the judgments that count ---------------------------------------------------------


def replace_judgments(
    data: EvalSet, marked: Judgments, old: JudgmentRows, new: JudgmentRows
) -> tuple[EvalSet, list[str]]:
    """Replace the judgments, and recompute human scores that are means of the old ones.

    Any other human score (from elsewhere, or combined otherwise) stays, and a note says so. Data without any score get
    the mean of what counts. Scores are compared with the means of the judgments that counted in `old`.
    """
    if not data.scores:
        return replace(data, judgments=marked).aggregate(), []
    before, after = select_counted(old), select_counted(new)
    scores = dict(data.scores)
    renewed, unchanged = [], []
    for name in (name for name in data.scores if name == data.human or is_human_name(name)):
        for means in _cell_mean_functions(data, old):
            if _have_equal_scores(means(before), data.scores[name]):
                scores[name] = means(after)
                renewed.append(name)
                break
        else:
            unchanged.append(name)
    notes = []
    if renewed:
        lost = int((np.isfinite(data.scores[renewed[0]]) & ~np.isfinite(scores[renewed[0]])).sum())
        lacking = f"; {lost} outputs have none left, so systems are compared on different items" if lost else ""
        notes.append(f"human scores made again from what counts: {quoted(renewed)}{lacking}")
    if unchanged:
        notes.append(f"not the means of these judgments, so left as they were: {quoted(unchanged)}; use combine")
    return replace(data, judgments=marked, scores=scores), notes


Z_SCORE = "human_z"
"""Score of the outputs' mean z, where the step `standardise` ran."""


def add_z_score(data: EvalSet, after: JudgmentRows) -> tuple[EvalSet, list[str]]:
    """Add a score with the mean z of each output, over the judgments that count (as WMT publishes)."""
    table = after.table
    rows, columns = data.cell_index(table["item"].cast(data.items["id"].dtype), table["system"])
    values = np.where(select_counted(after), table[Z].cast(pl.Float64).to_numpy(), np.nan)
    means = group_means(rows * data.n_systems + columns, values, data.n_items * data.n_systems)
    if not np.isfinite(means).any():
        return data, []
    added = data.with_score(Z_SCORE, means.reshape(data.n_items, data.n_systems))
    return added, [f"'{Z_SCORE}' is the mean z of every output; `human={Z_SCORE}` estimates with it"]


def _cell_mean_functions(data: EvalSet, judged: JudgmentRows) -> Iterator[Callable[[BoolArray], FloatArray]]:
    """Yield functions from a mask of judgments to cell means: over all criteria, then of each criterion."""
    table = judged.table
    rows, columns = data.cell_index(table["item"].cast(data.items["id"].dtype), table["system"])
    shape, values = (data.n_items, data.n_systems), table["value"].to_numpy()
    cell = rows * data.n_systems + columns

    def means(of_criterion: BoolArray, counted: BoolArray) -> FloatArray:
        counting = np.where(counted & of_criterion, values, np.nan)
        return group_means(cell, counting, shape[0] * shape[1]).reshape(shape)

    criteria = table["criterion"].drop_nulls().unique(maintain_order=True).to_list()
    yield partial(means, np.ones(table.height, dtype=np.bool_))
    for criterion in criteria if len(criteria) > 1 else []:
        yield partial(means, table["criterion"].eq_missing(criterion).to_numpy())


def _have_equal_scores(a: FloatArray, b: FloatArray) -> bool:
    present = np.isfinite(a)
    if not np.array_equal(present, np.isfinite(b)) or not present.any():
        return False
    return bool(np.allclose(a[present], b[present], rtol=1e-9, atol=1e-6))
