"""Cleaning steps about single answers: each a small function, answers in, marks out.

Only answers that are not marked yet count. Thresholds are those of the papers named; every one is a parameter.
"""

from __future__ import annotations

from typing import Literal

import polars as pl

from aliquot.errors import OptionError
from aliquot.judge.answers import OPEN, Answers
from aliquot.judge.marking import CELL, at_rows, marked, need_annotators, open_rows, reason
from aliquot.judge.normalise import z_scores
from aliquot.judge.step_registry import AT_LEAST_0, AT_LEAST_1, Marks, NotApplicableError, step


@step("scale")
def scale(answers: Answers, *, low: float, high: float) -> Marks:
    """Values outside the scale.

    Args:
        low: the lowest value there is.
        high: the highest.
    """
    if not low < high:
        raise OptionError(f"scale:low={low:g},high={high:g}: the low end must be below the high end")
    return marked(answers, "scale", ~pl.col("value").is_between(low, high))


@step("labels")
def labels(answers: Answers, *, allowed: tuple[float, ...]) -> Marks:
    """Values that are none of the labels.

    Args:
        allowed: the labels, e.g. 0|0.5|1.
    """
    return marked(answers, "labels", ~pl.col("value").is_in(list(allowed)))


@step("duplicates")
def duplicates(answers: Answers, *, keep: Literal["last", "first", "none"] = "last") -> Marks:
    """Several answers of one annotator on one output and criterion, unless planted as repeats.

    Args:
        keep: which of them counts: the last or first (by time or order, else as they stand), or none if they differ.
    """
    table = open_rows(answers).filter(pl.col("annotator").is_not_null() & ~pl.col("repeat"))
    table = table.filter(pl.col("control").is_null())
    by = answers.ordered_by
    table = table.sort(by, maintain_order=True, nulls_last=True) if by else table
    return at_rows(answers, "duplicates", table.filter(~_is_kept(keep))["_row"])


def _is_kept(keep: str) -> pl.Expr:
    if keep == "none":
        return (pl.col("value").n_unique().over(*CELL) == 1) & (pl.col("_row") == pl.col("_row").first().over(*CELL))
    chosen = pl.col("_row").last() if keep == "last" else pl.col("_row").first()
    return pl.col("_row") == chosen.over(*CELL)


@step("outliers", paper="HumEval 2022, paper 1", k=AT_LEAST_0, minimum=AT_LEAST_1)
def outliers(
    answers: Answers, *, k: float = 1.5, within: Literal["all", "annotator"] = "all", minimum: int = 5
) -> Marks:
    """Annotators' z-scores beyond k interquartile ranges from the quartiles.

    Args:
        k: how many interquartile ranges.
        within: quartiles of everybody's z-scores (for each criterion), or of each annotator's own.
        minimum: an annotator with fewer answers has no z-scores and no outliers.
    """
    need_annotators(answers)
    table = answers.table.select("annotator", "block", "criterion", pl.when(OPEN).then("value").alias("value"))
    scored = z_scores(table, minimum=minimum)
    groups = ["criterion"] if within == "all" else ["annotator", "criterion"]
    table = table.with_columns(pl.Series("z", scored.z, nan_to_null=True))
    quartiles = [pl.col("z").quantile(q, "linear").over(*groups) for q in (0.25, 0.75)]
    low, high = quartiles[0] - k * (quartiles[1] - quartiles[0]), quartiles[1] + k * (quartiles[1] - quartiles[0])
    out = table.select(((pl.col("z") < low) | (pl.col("z") > high)).fill_null(value=False)).to_series()
    return Marks(reason("outliers", out), notes=scored.notes)


@step("burn_in", paper="HumEval 2022, paper 1", first=AT_LEAST_0)
def burn_in(answers: Answers, *, first: int = 10) -> Marks:
    """The first judgments of every annotator (of each criterion), by time or order.

    Args:
        first: how many.
    """
    need_annotators(answers)
    by = answers.ordered_by
    if by is None:
        raise NotApplicableError("neither 'time' nor 'order' says which judgments came first")
    place = pl.col(by).rank("ordinal").over("annotator", "criterion")
    early = (place <= first) & pl.col("annotator").is_not_null()
    # The rank counts every answer that was given, so that earlier steps do not prolong the practice.
    return marked(answers, "burn_in", early.fill_null(value=False))
