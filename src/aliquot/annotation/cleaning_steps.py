"""The cleaning steps: each finds judgments that should not count.

A step is a function of the judgments that returns a `StepMarks`; its keyword-only arguments are its thresholds. Steps
about annotators mark everything that is left of an annotator who fails. See docs/methods.md, section 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from aliquot.annotation.judgment_rows import OPEN, JudgmentRows, list_pages, page_columns
from aliquot.annotation.prepare import MIN_JUDGMENTS, normalise_by_z
from aliquot.core.judgments import CONTROL_ITEM, MARKED
from aliquot.core.registry import RegistryEntry
from aliquot.errors import OptionError, unknown_name

AT_LEAST_0: Final = (0.0, float("inf"))
AT_LEAST_1: Final = (1.0, float("inf"))
SHARE: Final = (0.0, 1.0)

CELL = ("annotator", "item", "system", "criterion")
"""Two judgments that agree in these answer the same question."""


Z = "_z"
"""Column of the z-scores that the step `standardise` took; absent: z-scores are over what counts at the time."""

_HAS_ANNOTATOR = pl.col("annotator").is_not_null()


@dataclass(frozen=True, eq=False)
class StepMarks:
    """The judgments that a step marks."""

    bad: pl.Expr  # which judgments to mark; `_row` is the number of a judgment
    measures: pl.DataFrame | None = None  # `annotator` and what the step measured, e.g. the share of controls passed
    notes: tuple[str, ...] = ()
    other_reasons: Mapping[str, pl.Expr] = field(default_factory=dict)  # reason -> judgments marked with it
    z: pl.Series | None = None  # z-scores for the steps that follow


@dataclass(frozen=True, eq=False)
class Marks:
    """The reason for which a step marks each judgment, or null."""

    reasons: pl.Series
    measures: pl.DataFrame | None
    notes: tuple[str, ...]
    z: pl.Series | None = None


class NotApplicableError(Exception):
    """The data lack what a step needs; it marks nothing, and the audit says why."""


@dataclass(frozen=True)
class Step(RegistryEntry):
    """A cleaning step."""

    function: Callable[..., StepMarks]
    paper: str
    needs: tuple[str, ...]  # annotator, seconds
    limits: Mapping[str, tuple[float, float]]

    def run(self, judged: JudgmentRows, parameters: Mapping[str, Any]) -> Marks:
        """Mark judgments that are not marked yet."""
        bound = self.bind(parameters)
        # Before the data are looked at: a step that does not apply must not hide a threshold that makes no sense.
        for name, (low, high) in self.limits.items():
            value = bound.get(name)
            if value is not None and not low <= value <= high:
                ends = f"between {low:g} and {high:g}" if high < float("inf") else f"at least {low:g}"
                raise OptionError(f"{self.name}: {name}={value:g} should be {ends}")
        if "annotator" in self.needs and "annotator" not in judged.filled_columns:
            raise NotApplicableError("the judgments have no annotator ids")
        if "seconds" in self.needs and not judged.table["seconds"].count():
            raise NotApplicableError("no judgment has seconds")
        outcome = self.function(judged, **bound)
        reasons = {self.name: outcome.bad, **outcome.other_reasons}
        marks = pl.coalesce(pl.when(OPEN & bad).then(pl.lit(reason)) for reason, bad in reasons.items())
        table = judged.table.with_row_index("_row")
        return Marks(table.select(marks.alias(MARKED)).to_series(), outcome.measures, outcome.notes, outcome.z)


STEPS: dict[str, Step] = {}
"""Name -> step."""


def cleaning_step(
    name: str, *, paper: str = "", needs: tuple[str, ...] = (), **limits: tuple[float, float]
) -> Callable[[Callable[..., StepMarks]], Callable[..., StepMarks]]:
    """Register a cleaning step; `limits` are the lowest and highest value of its parameters."""

    def decorator(function: Callable[..., StepMarks]) -> Callable[..., StepMarks]:
        STEPS[name] = Step(name, function, paper, needs, limits)
        return function

    return decorator


def find_step(name: str) -> Step:
    """Return a step by name."""
    if name not in STEPS:
        raise unknown_name("cleaning step", name, STEPS)
    return STEPS[name]


def _mark_annotators(annotators: pl.DataFrame, failed: pl.Expr, notes: tuple[str, ...] = ()) -> StepMarks:
    """Mark all judgments of the annotators for whom `failed` is true."""
    names = annotators.filter(failed)["annotator"].to_list()
    return StepMarks(pl.col("annotator").is_in(names), annotators, notes)


# -- single judgments ----------------------------------------------------------------------------------------------


@cleaning_step("scale")
def mark_outside_scale(_judged: JudgmentRows, *, low: float, high: float) -> StepMarks:
    """Values outside the scale.

    Args:
        low: the lowest value there is.
        high: the highest.
    """
    if not low < high:
        raise OptionError(f"scale:low={low:g},high={high:g}: the low end must be below the high end")
    return StepMarks(~pl.col("value").is_between(low, high))


@cleaning_step("labels")
def mark_other_labels(_judged: JudgmentRows, *, allowed: tuple[float, ...]) -> StepMarks:
    """Values that are none of the labels.

    Args:
        allowed: the labels, e.g. 0|0.5|1.
    """
    return StepMarks(~pl.col("value").is_in(list(allowed)))


@cleaning_step("duplicates")
def mark_duplicates(judged: JudgmentRows, *, keep: Literal["last", "first", "none"] = "last") -> StepMarks:
    """Several judgments of one annotator on one output and criterion, unless planted as repeats.

    Args:
        keep: which of them counts: the last or first (by time or order, else as they stand), or none if they differ.
    """
    table = _sort_counted(judged).filter(~pl.col("repeat") & pl.col("control").is_null())
    chosen = pl.col("_row").last() if keep == "last" else pl.col("_row").first()
    is_kept = pl.col("_row") == chosen.over(*CELL)
    if keep == "none":
        is_kept &= pl.col("value").n_unique().over(*CELL) == 1
    return StepMarks(pl.col("_row").is_in(table.filter(~is_kept)["_row"].to_list()))


def _sort_counted(judged: JudgmentRows) -> pl.DataFrame:
    """Return the judgments that count and have an annotator, with row numbers, sorted by time or order."""
    table = judged.table.with_row_index("_row").filter(OPEN & _HAS_ANNOTATOR)
    by = judged.ordered_by
    return table.sort(by, maintain_order=True, nulls_last=True) if by else table


@cleaning_step("standardise", needs=("annotator",), minimum=AT_LEAST_1)
def standardise_judgments(judged: JudgmentRows, *, minimum: int = MIN_JUDGMENTS) -> StepMarks:
    """Compute z-scores of what counts at this point, for later steps and the audit; marks nothing.

    Args:
        minimum: an annotator with fewer judgments has no z-scores.
    """
    table = judged.table.select("annotator", "block", "criterion", pl.when(OPEN).then("value").alias("value"))
    scored = normalise_by_z(table, minimum=minimum)
    return StepMarks(pl.lit(False), notes=scored.notes, z=pl.Series(Z, scored.z, nan_to_null=True))


@cleaning_step("outliers", paper="HumEval 2022, paper 1", needs=("annotator",), k=AT_LEAST_0, minimum=AT_LEAST_1)
def mark_outliers(
    judged: JudgmentRows, *, k: float = 1.5, within: Literal["all", "annotator"] = "all", minimum: int = 5
) -> StepMarks:
    """Annotators' z-scores beyond k interquartile ranges from the quartiles.

    Args:
        k: how many interquartile ranges.
        within: quartiles of all z-scores (for each criterion), or of each annotator's own.
        minimum: an annotator with fewer judgments has no z-scores and no outliers; where `standardise` ran, its own
            minimum holds.
    """
    table: pl.DataFrame = judged.table
    notes: tuple[str, ...] = ()
    if Z not in table.columns:
        standardised = standardise_judgments(judged, minimum=minimum)
        table, notes = table.with_columns(standardised.z), standardised.notes
    groups = ["criterion"] if within == "all" else ["annotator", "criterion"]
    table = table.select("annotator", "criterion", pl.when(OPEN).then(Z).alias("z"))
    quartiles = [pl.col("z").quantile(q, "linear").over(*groups) for q in (0.25, 0.75)]
    low, high = quartiles[0] - k * (quartiles[1] - quartiles[0]), quartiles[1] + k * (quartiles[1] - quartiles[0])
    out = table.select((pl.col("z") < low) | (pl.col("z") > high)).to_series()
    return StepMarks(pl.lit(out), notes=notes)


@cleaning_step("burn_in", paper="HumEval 2022, paper 1", needs=("annotator",), first=AT_LEAST_0)
def mark_burn_in(judged: JudgmentRows, *, first: int = 10) -> StepMarks:
    """The first judgments of every annotator (of each criterion), by time or order.

    Args:
        first: how many.
    """
    by = judged.ordered_by
    if by is None:
        raise NotApplicableError("neither 'time' nor 'order' says which judgments came first")
    place = pl.col(by).rank("ordinal").over("annotator", "criterion")
    # The rank counts every judgment that was given, so that earlier steps do not prolong the practice.
    return StepMarks((place <= first) & _HAS_ANNOTATOR)


# -- annotators: time spent ----------------------------------------------------------------------------------------


@cleaning_step(
    "speeders", paper="HumEval 2022, paper 3", needs=("annotator", "seconds"), share=SHARE, minimum=AT_LEAST_1
)
def mark_speeders(
    judged: JudgmentRows,
    *,
    share: float = 0.4,
    expected: str = "median",
    per: Literal["annotator", "page"] = "annotator",
    minimum: int = 5,
) -> StepMarks:
    """Annotators who took at most a share of the expected time.

    Args:
        share: of the expected time.
        expected: seconds, or `median`: the annotator's median page against the median annotator's.
        per: seconds are for all of an annotator's work, or for each page.
        minimum: with `median`, annotators with fewer timed pages are not judged.
    """
    seconds = pl.col("seconds").drop_nulls()
    annotators = (
        list_pages(judged)
        .filter(~pl.col("pending"))
        .group_by("annotator", maintain_order=True)
        .agg(
            seconds.median().alias("median"),
            seconds.mean().alias("mean"),
            seconds.len().alias("timed"),
            pl.len().alias("pages"),
        )
    )
    if expected == "median":
        annotators = annotators.filter(pl.col("timed") >= minimum)
        share_of_time = pl.col("median") / pl.col("median").median()
    else:
        # Pages without a time count with the annotator's mean: a missing time must not look like haste.
        share_of_time = (
            pl.col("mean") * pl.col("pages") / (_parse_seconds(expected) * (pl.col("pages") if per == "page" else 1))
        )
    if not annotators.height:
        raise NotApplicableError(f"no annotator has {minimum} timed pages")
    return _mark_annotators(
        annotators.select("annotator", share_of_time.alias("share_of_time")), pl.col("share_of_time") <= share
    )


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not seconds > 0:
        raise OptionError(f"speeders: expected='{text}' should be seconds, e.g. 600, or median")
    return seconds


@cleaning_step(
    "fast_pages", paper="HumEval 2022, paper 8", needs=("annotator", "seconds"), seconds=AT_LEAST_0, pages=AT_LEAST_1
)
def mark_fast_pages(
    judged: JudgmentRows, *, seconds: float = 15.0, pages: int = 1, mark: Literal["annotator", "page"] = "annotator"
) -> StepMarks:
    """Annotators with pages done in less than so many seconds.

    Args:
        seconds: the least a page takes.
        pages: how many such pages are too many.
        mark: all of the annotator, or only the judgments on those pages.
    """
    fast = list_pages(judged).filter((pl.col("seconds") < seconds) & ~pl.col("skipped"))
    counts = fast.group_by("annotator", maintain_order=True).len("pages_too_fast")
    counts = counts.filter(pl.col("pages_too_fast") >= pages)
    if mark == "annotator":
        return _mark_annotators(counts, pl.lit(True))
    table, keys = page_columns(judged)
    pages_to_mark = fast.join(counts, on="annotator", how="semi").select(keys)
    rows = table.with_row_index("_row").join(pages_to_mark, on=keys, how="semi", nulls_equal=True)["_row"]
    return StepMarks(pl.col("_row").is_in(rows.to_list()), counts)


@cleaning_step("skips", paper="HumEval 2022, paper 8", needs=("annotator",), pages=AT_LEAST_1)
def mark_page_skippers(judged: JudgmentRows, *, pages: int = 5) -> StepMarks:
    """Annotators who skipped so many pages.

    Args:
        pages: how many are too many.
    """
    skipped = list_pages(judged).filter(pl.col("skipped"))
    counts = skipped.group_by("annotator", maintain_order=True).len("skipped_pages")
    return _mark_annotators(counts, pl.col("skipped_pages") >= pages)


# -- annotators: values given --------------------------------------------------------------------------------------


@cleaning_step("straight_liners", paper="HumEval 2022, paper 3", needs=("annotator",), share=SHARE, minimum=AT_LEAST_1)
def mark_straight_liners(
    judged: JudgmentRows, *, share: float = 1.0, minimum: int = 10, column: str = "value"
) -> StepMarks:
    """Annotators who give the same value (nearly) every time.

    Args:
        share: the most frequent value's share of the judgments, at least.
        minimum: annotators with fewer judgments are not judged.
        column: the column of the value as it was given, if polarity was flipped.
    """
    if column not in judged.table.columns:
        raise NotApplicableError(f"unknown column '{column}'")
    answered = judged.table.filter(OPEN & _HAS_ANNOTATOR & pl.col(column).is_not_null())
    n_most, total = pl.col("len").max(), pl.col("len").sum()
    annotators = answered.group_by("annotator", column).len().group_by("annotator")
    shares = annotators.agg((n_most / total).alias("same_value"), total.alias("_given")).sort("annotator")
    shares = shares.filter(pl.col("_given") >= minimum).drop("_given")
    return _mark_annotators(shares, pl.col("same_value") >= share)


@cleaning_step("repeats", paper="HumEval 2022, paper 3", needs=("annotator",), k=AT_LEAST_0, maximum=AT_LEAST_0)
def mark_inconsistent_repeats(judged: JudgmentRows, *, k: float = 1.5, maximum: float | None = None) -> StepMarks:
    """Annotators who contradict themselves on repeated items.

    The inconsistency of an annotator is the mean of |first - second judgment|. Repeats are the judgments flagged in
    `repeat`; without such a column, second judgments on the same output and criterion.

    Args:
        k: marked if beyond the upper quartile of all annotators by so many interquartile ranges.
        maximum: marked if beyond this, whatever the others do.
    """
    pairs = _repeat_pairs(judged)
    if not pairs.height:
        raise NotApplicableError("no annotator answered the same question twice")
    annotators = pairs.group_by("annotator", maintain_order=True).agg(inconsistency=pl.col("difference").mean())
    limit = maximum
    if limit is None:
        n = annotators.height
        if n < 4:
            raise NotApplicableError(f"{n} annotators with repeats are too few for quartiles; give maximum=")
        low, high = np.quantile(annotators["inconsistency"].to_numpy(), [0.25, 0.75])
        limit = float(high + k * (high - low))
    return _mark_annotators(annotators, pl.col("inconsistency") > limit)


def _repeat_pairs(judged: JudgmentRows) -> pl.DataFrame:
    """Return each repeated judgment with its absolute difference from the first one."""
    table = _sort_counted(judged)
    initial = pl.col("_row") == pl.col("_row").first().over(*CELL)
    is_repeat = pl.col("repeat") if "repeat" in judged.filled_columns else ~initial
    first = table.filter(~is_repeat).group_by(CELL).agg(pl.col("value").mean().alias("_first"))
    pairs = table.filter(is_repeat).join(first, on=CELL, how="inner", nulls_equal=True)
    return pairs.select(*CELL, (pl.col("value") - pl.col("_first")).abs().alias("difference"))


# -- annotators: control items -------------------------------------------------------------------------------------


@cleaning_step("exam", paper="HumEval 2022, paper 8", needs=("annotator",), minimum=SHARE, tolerance=AT_LEAST_0)
def mark_exam_failures(judged: JudgmentRows, *, minimum: float = 0.8, tolerance: float = 0.0) -> StepMarks:
    """Annotators who failed the exam: items of the kind `exam` in the column `control`.

    Args:
        minimum: the share of right judgments to be admitted.
        tolerance: how far a right judgment may be from `expected`.
    """
    annotators, notes = _control_accuracy(judged, "exam", tolerance)
    return _mark_annotators(annotators, pl.col("exam_passed") < minimum, notes)


@cleaning_step("controls", paper="HumEval 2022, paper 8", needs=("annotator",), minimum=SHARE, tolerance=AT_LEAST_0)
def mark_control_failures(
    judged: JudgmentRows, *, minimum: float = 0.7, tolerance: float = 0.0, keep: bool = False
) -> StepMarks:
    """Annotators who fail control items; and the judgments of control items, which are not about systems.

    A control with `expected` is passed within the tolerance; one without is a damaged copy of an output, passed if it
    gets a lower value than the same annotator's judgment on the undamaged output (same item, system and criterion).

    Args:
        minimum: the share of controls to pass.
        tolerance: how far a right judgment may be from `expected`.
        keep: let the judgments of control items count in the scores.
    """
    annotators, notes = _control_accuracy(judged, "control", tolerance)
    marks = _mark_annotators(annotators, pl.col("control_passed") < minimum, notes)
    return marks if keep else replace(marks, other_reasons={CONTROL_ITEM: pl.col("control").is_not_null()})


def _control_accuracy(judged: JudgmentRows, kind: str, tolerance: float) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return the share of control items of a kind that each annotator passed, and notes."""
    if "control" not in judged.filled_columns:
        raise NotApplicableError("no column 'control' says which items are controls")
    table = judged.table.filter(OPEN & _HAS_ANNOTATOR)
    is_control = (pl.col(MARKED) == CONTROL_ITEM) & pl.col(
        "value"
    ).is_not_null()  # as readers of tools' exports mark them
    planted = judged.table.filter((OPEN | is_control) & _HAS_ANNOTATOR & (pl.col("control") == kind))
    if not planted.height:
        raise NotApplicableError(f"no judgment is on an item of the kind '{kind}'")
    plain = table.filter(pl.col("control").is_null()).group_by(CELL).agg(pl.col("value").mean().alias("_undamaged"))
    planted = planted.join(plain, on=CELL, how="left", nulls_equal=True)
    right = (pl.col("value") - pl.col("expected")).abs() <= tolerance + 1e-9
    passed = pl.when(pl.col("expected").is_not_null()).then(right).otherwise(pl.col("value") < pl.col("_undamaged"))
    checked = planted.select("annotator", passed.alias("_passed"))
    unknown = checked["_passed"].null_count()
    notes = (f"{unknown} {kind} judgments have neither 'expected' nor an undamaged output to compare with",)
    annotators = checked.drop_nulls("_passed").group_by("annotator", maintain_order=True)
    return annotators.agg(pl.col("_passed").mean().alias(f"{kind}_passed")), notes if unknown else ()
