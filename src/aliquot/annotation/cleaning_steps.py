"""Cleaning steps by name, and their parameters.

A step is a function of the judgments that gives `Marks`; its keyword-only arguments are its thresholds. Importing
`presets` registers them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from aliquot.annotation.judgment_rows import OPEN, JudgmentRows, page_times, with_pages
from aliquot.annotation.prepare import z_scores
from aliquot.core.judgments import MARKED
from aliquot.core.registry import Registered
from aliquot.errors import OptionError, unknown_name

# -- Cleaning steps by name, and their parameters --------------------------------------------------------------------


AT_LEAST_0: Final = (0.0, float("inf"))
AT_LEAST_1: Final = (1.0, float("inf"))
SHARE: Final = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Marks:
    """What a step found.

    Attributes:
        reasons: for each judgment why it should not count, or null.
        measures: a table with `annotator` and what the step measured of each, e.g. the share of controls passed.
        notes: what a reader should know.
    """

    reasons: pl.Series
    measures: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()


class NotApplicableError(Exception):
    """The data lack what a step looks at; it marks nothing, and the audit says why."""


@dataclass(frozen=True)
class Step(Registered):
    """A cleaning step."""

    function: Callable[..., Marks]
    paper: str
    limits: Mapping[str, tuple[float, float]]

    def run(self, judged: JudgmentRows, given: Mapping[str, Any]) -> Marks:
        """Find what to mark among the judgments that are not marked yet."""
        chosen = self.bound(given)
        # Before the data are looked at: a step that does not apply must not hide a threshold that makes no sense.
        for name, (low, high) in self.limits.items():
            value = chosen.get(name)
            if value is not None and not low <= value <= high:
                ends = f"between {low:g} and {high:g}" if high < float("inf") else f"at least {low:g}"
                raise OptionError(f"{self.name}: {name}={value:g} should be {ends}")
        return self.function(judged, **chosen)


_STEPS: dict[str, Step] = {}


def step(
    name: str, *, paper: str = "", **limits: tuple[float, float]
) -> Callable[[Callable[..., Marks]], Callable[..., Marks]]:
    """Register a cleaning step; `limits` are the ends between which its parameters lie."""

    def decorator(function: Callable[..., Marks]) -> Callable[..., Marks]:
        _STEPS[name] = Step(name, function, paper, limits)
        return function

    return decorator


def registered() -> dict[str, Step]:
    """Return all steps by name."""
    return dict(_STEPS)


def lookup(name: str) -> Step:
    """Return a step by name, or raise with what there is."""
    if name not in _STEPS:
        raise unknown_name("cleaning step", name, _STEPS)
    return _STEPS[name]


# -- How a step puts its marks, and how it says that the data lack what it needs -------------------------------------


CELL = ("annotator", "item", "system", "criterion")
"""What makes two judgments judgments to the same question."""


def open_rows(judged: JudgmentRows) -> pl.DataFrame:
    """The judgments that count, with their row."""
    return judged.table.with_row_index("_row").filter(OPEN)


def reason(name: str, mask: pl.Series) -> pl.Series:
    """The name where the mask is true."""
    return pl.select(pl.when(mask).then(pl.lit(name)).alias(MARKED)).to_series()


def marked(judged: JudgmentRows, name: str, condition: pl.Expr) -> Marks:
    """Mark the judgments of which this is true."""
    return Marks(reason(name, judged.table.select(OPEN & condition).to_series()))


def at_rows(judged: JudgmentRows, name: str, rows: pl.Series) -> Marks:
    """Mark the judgments at these rows."""
    mask = np.zeros(judged.table.height, dtype=np.bool_)
    mask[rows.to_numpy()] = True
    return Marks(reason(name, pl.Series(mask)))


def of_annotators(judged: JudgmentRows, name: str, people: pl.Series) -> pl.Series:
    """Reasons on all that is left of these annotators."""
    theirs = pl.col("annotator").is_in(people.to_list()).fill_null(value=False)
    return reason(name, judged.table.select(OPEN & theirs).to_series())


def need_annotators(judged: JudgmentRows) -> None:
    """Raise where nobody is named."""
    if "annotator" not in judged.known:
        raise NotApplicableError("the judgments name no annotators")


def need_times(judged: JudgmentRows) -> None:
    """Raise where nothing is timed."""
    if not judged.table["seconds"].count():
        raise NotApplicableError("no judgment has seconds")


# -- Steps that mark single judgments --


@step("scale")
def scale(judged: JudgmentRows, *, low: float, high: float) -> Marks:
    """Values outside the scale.

    Args:
        low: the lowest value there is.
        high: the highest.
    """
    if not low < high:
        raise OptionError(f"scale:low={low:g},high={high:g}: the low end must be below the high end")
    return marked(judged, "scale", ~pl.col("value").is_between(low, high))


@step("labels")
def labels(judged: JudgmentRows, *, allowed: tuple[float, ...]) -> Marks:
    """Values that are none of the labels.

    Args:
        allowed: the labels, e.g. 0|0.5|1.
    """
    return marked(judged, "labels", ~pl.col("value").is_in(list(allowed)))


@step("duplicates")
def duplicates(judged: JudgmentRows, *, keep: Literal["last", "first", "none"] = "last") -> Marks:
    """Several judgments of one annotator on one output and criterion, unless planted as repeats.

    Args:
        keep: which of them counts: the last or first (by time or order, else as they stand), or none if they differ.
    """
    table = open_rows(judged).filter(pl.col("annotator").is_not_null() & ~pl.col("repeat"))
    table = table.filter(pl.col("control").is_null())
    by = judged.ordered_by
    table = table.sort(by, maintain_order=True, nulls_last=True) if by else table
    return at_rows(judged, "duplicates", table.filter(~_is_kept(keep))["_row"])


def _is_kept(keep: str) -> pl.Expr:
    if keep == "none":
        return (pl.col("value").n_unique().over(*CELL) == 1) & (pl.col("_row") == pl.col("_row").first().over(*CELL))
    chosen = pl.col("_row").last() if keep == "last" else pl.col("_row").first()
    return pl.col("_row") == chosen.over(*CELL)


@step("outliers", paper="HumEval 2022, paper 1", k=AT_LEAST_0, minimum=AT_LEAST_1)
def outliers(
    judged: JudgmentRows, *, k: float = 1.5, within: Literal["all", "annotator"] = "all", minimum: int = 5
) -> Marks:
    """Annotators' z-scores beyond k interquartile ranges from the quartiles.

    Args:
        k: how many interquartile ranges.
        within: quartiles of everybody's z-scores (for each criterion), or of each annotator's own.
        minimum: an annotator with fewer judgments has no z-scores and no outliers.
    """
    need_annotators(judged)
    table = judged.table.select("annotator", "block", "criterion", pl.when(OPEN).then("value").alias("value"))
    scored = z_scores(table, minimum=minimum)
    groups = ["criterion"] if within == "all" else ["annotator", "criterion"]
    table = table.with_columns(pl.Series("z", scored.z, nan_to_null=True))
    quartiles = [pl.col("z").quantile(q, "linear").over(*groups) for q in (0.25, 0.75)]
    low, high = quartiles[0] - k * (quartiles[1] - quartiles[0]), quartiles[1] + k * (quartiles[1] - quartiles[0])
    out = table.select(((pl.col("z") < low) | (pl.col("z") > high)).fill_null(value=False)).to_series()
    return Marks(reason("outliers", out), notes=scored.notes)


@step("burn_in", paper="HumEval 2022, paper 1", first=AT_LEAST_0)
def burn_in(judged: JudgmentRows, *, first: int = 10) -> Marks:
    """The first judgments of every annotator (of each criterion), by time or order.

    Args:
        first: how many.
    """
    need_annotators(judged)
    by = judged.ordered_by
    if by is None:
        raise NotApplicableError("neither 'time' nor 'order' says which judgments came first")
    place = pl.col(by).rank("ordinal").over("annotator", "criterion")
    early = (place <= first) & pl.col("annotator").is_not_null()
    # The rank counts every judgment that was given, so that earlier steps do not prolong the practice.
    return marked(judged, "burn_in", early.fill_null(value=False))


# -- Cleaning steps about annotators: whoever fails has all that is left of them marked ------------------------------


CONTROL_ITEM = "control item"
"""The reason on judgments to control items themselves: they tell about people, not about systems."""


# -- how fast people were ------------------------------------------------------------------------------------------


@step("speeders", paper="HumEval 2022, paper 3", share=SHARE, minimum=AT_LEAST_1)
def speeders(
    judged: JudgmentRows, *, share: float = 0.4, expected: str = "median",
    per: Literal["annotator", "page"] = "annotator", minimum: int = 5,
) -> Marks:  # fmt: skip
    """Annotators who took at most a share of the expected time.

    Args:
        share: of the expected time.
        expected: seconds, or `median`: the annotator's median page against the median annotator's.
        per: seconds are for all of an annotator's work, or for each page.
        minimum: with `median`, annotators with fewer timed pages are not judged.
    """
    need_annotators(judged)
    need_times(judged)
    known = pl.col("seconds").drop_nulls()
    people = page_times(judged).filter(~pl.col("pending")).group_by("annotator", maintain_order=True).agg(
        known.median().alias("median"), known.mean().alias("mean"), known.len().alias("timed"), pl.len().alias("pages")
    )  # fmt: skip
    if expected == "median":
        enough = people.filter(pl.col("timed") >= minimum)
        usual = enough["median"].median()
        people = enough.with_columns((pl.col("median") / usual).alias("share_of_time")) if enough.height else enough
    else:
        # Pages without a time count with the annotator's mean: a missing time must not look like haste.
        wanted = _seconds(expected) * (pl.col("pages") if per == "page" else 1)
        people = people.with_columns((pl.col("mean") * pl.col("pages") / wanted).alias("share_of_time"))
    if not people.height:
        raise NotApplicableError(f"no annotator has {minimum} timed pages")
    bad = people.filter(pl.col("share_of_time") <= share)["annotator"]
    return Marks(of_annotators(judged, "speeders", bad), people.select("annotator", "share_of_time"))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not seconds > 0:
        raise OptionError(f"speeders: expected='{text}' should be seconds, e.g. 600, or median")
    return seconds


@step("fast_pages", paper="HumEval 2022, paper 8", seconds=AT_LEAST_0, pages=AT_LEAST_1)
def fast_pages(
    judged: JudgmentRows, *, seconds: float = 15.0, pages: int = 1, mark: Literal["annotator", "page"] = "annotator"
) -> Marks:
    """Annotators with pages done in less than so many seconds.

    Args:
        seconds: the least a page takes.
        pages: how many such pages are too many.
        mark: all of the annotator, or only the judgments on those pages.
    """
    need_annotators(judged)
    need_times(judged)
    times = page_times(judged)
    fast = times.filter((pl.col("seconds") < seconds) & ~pl.col("skipped"))
    counts = (
        fast.group_by("annotator", maintain_order=True).len("pages_too_fast").filter(pl.col("pages_too_fast") >= pages)
    )
    if mark == "page":
        table, keys = with_pages(judged)
        wanted = fast.join(counts, on="annotator", how="semi").select(keys)
        rows = table.with_row_index("_row").filter(OPEN).join(wanted, on=keys, how="semi", nulls_equal=True)["_row"]
        return Marks(at_rows(judged, "fast_pages", rows).reasons, counts)
    return Marks(of_annotators(judged, "fast_pages", counts["annotator"]), counts)


@step("skips", paper="HumEval 2022, paper 8", pages=AT_LEAST_1)
def skips(judged: JudgmentRows, *, pages: int = 5) -> Marks:
    """Annotators who skipped so many pages.

    Args:
        pages: how many are too many.
    """
    need_annotators(judged)
    skipped = page_times(judged).filter(pl.col("skipped"))
    counts = skipped.group_by("annotator", maintain_order=True).len("skipped_pages")
    bad = counts.filter(pl.col("skipped_pages") >= pages)["annotator"]
    return Marks(of_annotators(judged, "skips", bad), counts)


# -- what people answered ------------------------------------------------------------------------------------------


@step("straight_liners", paper="HumEval 2022, paper 3", share=SHARE, minimum=AT_LEAST_1)
def straight_liners(judged: JudgmentRows, *, share: float = 1.0, minimum: int = 10, column: str = "value") -> Marks:
    """Annotators who give the same value (nearly) every time.

    Args:
        share: the most frequent value's share of the judgments, at least.
        minimum: annotators with fewer judgments are not judged.
        column: where the judgment as it was shown stands, if polarity was flipped.
    """
    need_annotators(judged)
    if column not in judged.table.columns:
        raise NotApplicableError(f"there is no column '{column}'")
    given = judged.table.filter(OPEN & pl.col("annotator").is_not_null() & pl.col(column).is_not_null())
    by_value = given.group_by("annotator", column).len()
    people = by_value.group_by("annotator").agg(
        (pl.col("len").max() / pl.col("len").sum()).alias("same_value"), pl.col("len").sum().alias("_answers")
    )
    people = people.filter(pl.col("_answers") >= minimum).sort("annotator").drop("_answers")
    bad = people.filter(pl.col("same_value") >= share)["annotator"]
    return Marks(of_annotators(judged, "straight_liners", bad), people)


@step("repeats", paper="HumEval 2022, paper 3", k=AT_LEAST_0, maximum=AT_LEAST_0)
def repeats(judged: JudgmentRows, *, k: float = 1.5, maximum: float | None = None) -> Marks:
    """Annotators who contradict themselves on repeated items.

    The inconsistency of an annotator is the mean of |first - second judgment|. Repeats are the judgments flagged in
    `repeat`; without such a column, second judgments on the same output and criterion.

    Args:
        k: marked if beyond the upper quartile of all annotators by so many interquartile ranges.
        maximum: marked if beyond this, whatever the others do.
    """
    need_annotators(judged)
    pairs = repeat_pairs(judged)
    if not pairs.height:
        raise NotApplicableError("no annotator answered the same question twice")
    people = pairs.group_by("annotator", maintain_order=True).agg(pl.col("difference").mean().alias("inconsistency"))
    limit = maximum
    if limit is None:
        if people.height < 4:
            raise NotApplicableError(
                f"{people.height} annotators with repeats are too few for quartiles; give maximum="
            )
        low, high = np.quantile(people["inconsistency"].to_numpy(), [0.25, 0.75])
        limit = float(high + k * (high - low))
    bad = people.filter(pl.col("inconsistency") > limit)["annotator"]
    return Marks(of_annotators(judged, "repeats", bad), people)


def repeat_pairs(judged: JudgmentRows) -> pl.DataFrame:
    """One row per repeated judgment: annotator, item, system, criterion and |difference| from the first judgment."""
    table = judged.table.with_row_index("_row").filter(OPEN & pl.col("annotator").is_not_null())
    by = judged.ordered_by
    table = table.sort(by, maintain_order=True, nulls_last=True) if by else table
    if "repeat" in judged.known:
        first, again = table.filter(~pl.col("repeat")), table.filter(pl.col("repeat"))
    else:
        initial = pl.col("_row") == pl.col("_row").first().over(*CELL)
        first, again = table.filter(initial), table.filter(~initial)
    first = first.group_by(CELL).agg(pl.col("value").mean().alias("_first"))
    pairs = again.join(first, on=CELL, how="inner", nulls_equal=True)
    return pairs.select(*CELL, (pl.col("value") - pl.col("_first")).abs().alias("difference"))


# -- control items -------------------------------------------------------------------------------------------------


@step("exam", paper="HumEval 2022, paper 8", minimum=SHARE, tolerance=AT_LEAST_0)
def exam(judged: JudgmentRows, *, minimum: float = 0.8, tolerance: float = 0.0) -> Marks:
    """Annotators who failed the exam: items of the kind `exam` in the column `control`.

    Args:
        minimum: the share of right judgments to be admitted.
        tolerance: how far a right judgment may be from `expected`.
    """
    people, notes = _accuracy(judged, "exam", tolerance)
    bad = people.filter(pl.col("exam_passed") < minimum)["annotator"]
    return Marks(of_annotators(judged, "exam", bad), people, notes)


@step("controls", paper="HumEval 2022, paper 8", minimum=SHARE, tolerance=AT_LEAST_0)
def controls(judged: JudgmentRows, *, minimum: float = 0.7, tolerance: float = 0.0, keep: bool = False) -> Marks:
    """Annotators who fail control items; and the judgments to control items themselves, which are about no system.

    A control with `expected` is passed within the tolerance; one without is a damaged copy of an output, passed if it
    is rated below the same annotator's judgment on the undamaged output (same item, system and criterion).

    Args:
        minimum: the share of controls to pass.
        tolerance: how far a right judgment may be from `expected`.
        keep: let the judgments to control items count in the scores.
    """
    people, notes = _accuracy(judged, "control", tolerance)
    bad = people.filter(pl.col("control_passed") < minimum)["annotator"]
    reasons = of_annotators(judged, "controls", bad)
    if not keep:
        planted = judged.table.select(pl.when(OPEN & pl.col("control").is_not_null()).then(pl.lit(CONTROL_ITEM)))
        reasons = pl.select(pl.coalesce(reasons, planted.to_series())).to_series()
    return Marks(reasons, people, notes)


def _accuracy(judged: JudgmentRows, kind: str, tolerance: float) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Share of this kind of control items that each annotator passed."""
    need_annotators(judged)
    if "control" not in judged.known:
        raise NotApplicableError("no column 'control' says which items are controls")
    table = judged.table.filter(OPEN & pl.col("annotator").is_not_null())
    planted = table.filter(pl.col("control") == kind)
    if not planted.height:
        raise NotApplicableError(f"no judgment is on an item of the kind '{kind}'")
    plain = table.filter(pl.col("control").is_null()).group_by(CELL).agg(pl.col("value").mean().alias("_undamaged"))
    planted = planted.join(plain, on=CELL, how="left", nulls_equal=True)
    right = (pl.col("value") - pl.col("expected")).abs() <= tolerance + 1e-9
    passed = pl.when(pl.col("expected").is_not_null()).then(right).otherwise(pl.col("value") < pl.col("_undamaged"))
    checked = planted.select("annotator", passed.alias("_passed"))
    unknown = checked["_passed"].null_count()
    notes = (f"{unknown} {kind} judgments have neither 'expected' nor an undamaged output to compare with",)
    people = checked.drop_nulls("_passed").group_by("annotator", maintain_order=True)
    return people.agg(pl.col("_passed").mean().alias(f"{kind}_passed")), notes if unknown else ()
