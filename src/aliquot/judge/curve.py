"""The labels-per-item curve: how wrong would fewer answers have been?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.judge.combine_methods import CombineMethod
from aliquot.judge.votes import Votes
from aliquot.stats.arrays import FloatArray, Seed
from aliquot.stats.labels_curve import labels_curve


@dataclass(frozen=True, eq=False)
class LabelsCurve:
    """Error against the number of answers for each output.

    Attributes:
        table: criterion, k, mean and root mean squared error; of labels also wrong (share of decided outputs with
            another label), its standard deviation over draws, and undecided.
        outputs: criterion -> how many outputs the curve rests on.
        against: what counts as right: `all answers`, or `experts`.
        notes: what a reader should know.
    """

    table: pl.DataFrame
    outputs: Mapping[str, int]
    against: str
    notes: tuple[str, ...]

    def to_frame(self) -> pl.DataFrame:
        """Return the table."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"points": self.table.fill_nan(None).to_dicts(), "outputs": dict(self.outputs),
                "against": self.against, "notes": list(self.notes)}  # fmt: skip


def curve_of(
    votes: Votes,
    method: CombineMethod,
    given: Mapping[str, Any],
    truth: FloatArray | None = None,
    *,
    repeats: int = 20,
    seed: Seed = 0,
) -> tuple[pl.DataFrame, int]:
    """Draw 1, 2, ... answers of every output that has many, and compare what they say with the truth.

    Outputs with at least the median number of answers take part, with all they have; the truth is what those say
    together, unless it is given. Returns the points and how many outputs there are; no points where fewer than ten
    outputs have two answers.
    """
    many = votes.count
    known = np.ones(votes.size, dtype=np.bool_) if truth is None else np.isfinite(truth)
    several = many[(many > 1) & known]
    if len(several) < 10:
        return pl.DataFrame(), 0
    most = int(np.median(several))
    chosen = (many >= most) & known
    mine = votes.at(np.flatnonzero(chosen[votes.cell]))
    right = method.run(mine, given).value if truth is None else np.where(chosen, truth, np.nan)

    def combined(rows: np.ndarray) -> FloatArray:
        return method.run(mine.at(rows), given).value

    points = labels_curve(mine.cell, combined, right, _counts(most), repeats=repeats, seed=seed)
    table = pl.DataFrame([vars(point) for point in points])
    return table if method.labels else table.drop("wrong", "wrong_sd", "undecided"), int(chosen.sum())


def _counts(most: int) -> list[int]:
    """1, 2, 3, ... up to ten, then steps that grow, and the last."""
    wanted = [*range(1, min(most, 10) + 1), *range(12, most, max(2, most // 10))]
    return sorted({k for k in wanted if k <= most} | {most})
