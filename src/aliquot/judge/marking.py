"""How a step puts its marks, and how it says that the data lack what it needs."""

from __future__ import annotations

import numpy as np
import polars as pl

from aliquot.data.judgments import MARKED
from aliquot.judge.answers import OPEN, Answers
from aliquot.judge.step_registry import Marks, NotApplicableError

CELL = ("annotator", "item", "system", "criterion")
"""What makes two answers answers to the same question."""


def open_rows(answers: Answers) -> pl.DataFrame:
    """The answers that count, with their row."""
    return answers.table.with_row_index("_row").filter(OPEN)


def reason(name: str, mask: pl.Series) -> pl.Series:
    """The name where the mask is true."""
    return pl.select(pl.when(mask).then(pl.lit(name)).alias(MARKED)).to_series()


def marked(answers: Answers, name: str, condition: pl.Expr) -> Marks:
    """Mark the answers of which this is true."""
    return Marks(reason(name, answers.table.select(OPEN & condition).to_series()))


def at_rows(answers: Answers, name: str, rows: pl.Series) -> Marks:
    """Mark the answers at these rows."""
    mask = np.zeros(answers.table.height, dtype=np.bool_)
    mask[rows.to_numpy()] = True
    return Marks(reason(name, pl.Series(mask)))


def of_annotators(answers: Answers, name: str, people: pl.Series) -> pl.Series:
    """Reasons on all that is left of these annotators."""
    theirs = pl.col("annotator").is_in(people.to_list()).fill_null(value=False)
    return reason(name, answers.table.select(OPEN & theirs).to_series())


def need_annotators(answers: Answers) -> None:
    """Raise where nobody is named."""
    if "annotator" not in answers.known:
        raise NotApplicableError("the judgments name no annotators")


def need_times(answers: Answers) -> None:
    """Raise where nothing is timed."""
    if not answers.table["seconds"].count():
        raise NotApplicableError("no judgment has seconds")
