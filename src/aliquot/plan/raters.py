"""How noisy one judgment of a difference is, from outputs that several people judged."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.errors import DataError
from aliquot.judge.answers import group_codes
from aliquot.judge.behind import Behind, difference_noise, judgments_behind
from aliquot.stats.variance_components import variance_components

_FEWEST = 10  # outputs judged twice that tell how far people differ


@dataclass(frozen=True)
class RaterNoise:
    """What repeated judgments say.

    Attributes:
        difference: variance of one annotator's difference of two systems on an item, about what all would say.
        judgments: mean number of judgments of an output that has any.
        outputs: how many outputs were judged at least twice.
        matched: whether the same annotators judged all systems of an item, so that their severity cancels.
    """

    difference: float
    judgments: float
    outputs: int
    matched: bool


def judgments_per_output(data: EvalSet, human: str | None = None) -> float:
    """Mean number of people behind a human score; 1 where the judgments behind it are not there.

    >>> import aliquot
    >>> judgments_per_output(aliquot.synthetic(items=20, systems=3, annotators=4, judgments_per_output=3, seed=1))
    3.0
    """
    behind = _behind(data, human)
    if behind is None:
        return 1.0
    table = _first_turns(behind)
    return table.height / _outputs(table)


def rater_noise(data: EvalSet, human: str | None = None) -> RaterNoise | None:
    """Take the judges' noise from the judgments behind the human score; None where outputs are not judged twice.

    Where the same people judged all systems of an item, their severity cancels in differences, see `difference_noise`.

    >>> import aliquot
    >>> found = rater_noise(aliquot.synthetic(items=60, systems=3, annotators=4, judgments_per_output=2, seed=1))
    >>> found.outputs, found.matched, found.difference > 0
    (180, True, True)
    """
    behind = _behind(data, human)
    if behind is None:
        return None
    table = _first_turns(behind)
    outputs = _outputs(table.filter(pl.len().over("item", "system") > 1))
    if outputs < _FEWEST:
        return None
    within = variance_components(group_codes(table, ["item", "system"]), table["value"].to_numpy(), replicates=1).within
    noise, matched = difference_noise(table, within)
    return RaterNoise(noise * behind.slope**2, table.height / _outputs(table), outputs, matched)


def _behind(data: EvalSet, human: str | None) -> Behind | None:
    name = human or data.human
    try:
        return None if name is None else judgments_behind(data, name)
    except DataError:
        return None


def _first_turns(behind: Behind) -> pl.DataFrame:
    """One judgment of each person: what one says twice is not what two people say."""
    return behind.table.filter((pl.col("turn") == 0) | pl.col("annotator").is_null())


def _outputs(table: pl.DataFrame) -> int:
    return table.select("item", "system").n_unique()
