"""How many judgments of the same output are worth paying for, in rows and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import polars as pl

from aliquot.annotation.judgment_noise import ScoreJudgments, difference_noise, find_score_judgments
from aliquot.annotation.judgment_rows import group_codes
from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError
from aliquot.stats.variance_components import best_repeat_count, list_repeat_choices, variance_components

# -- How noisy one judgment of a difference is, from outputs that several people judged ------------------------------


_MIN_OUTPUTS = 10  # outputs judged twice that tell how far people differ


@dataclass(frozen=True)
class AnnotatorNoise:
    """Annotator noise, from repeated judgments."""

    difference: float  # variance of one annotator's difference of two systems on an item, about what all would say
    judgments: float  # mean number of judgments of an output that has any
    outputs: int  # how many outputs were judged at least twice
    matched: bool  # whether the same annotators judged all systems of an item, so that their severity cancels


def judgments_per_output(data: EvalSet, human: str | None = None) -> float:
    """Return the mean number of annotators per output; 1 without judgments.

    >>> import aliquot
    >>> judgments_per_output(aliquot.synthetic(items=20, systems=3, annotators=4, judgments_per_output=3, seed=1))
    3.0
    """
    behind = _find_judgments(data, human)
    if behind is None:
        return 1.0
    table = _keep_first_turns(behind)
    return table.height / _count_outputs(table)


def annotator_noise(data: EvalSet, human: str | None = None) -> AnnotatorNoise | None:
    """Estimate annotator noise from the judgments of the human score; None if outputs are not judged twice.

    Where the same people judged all systems of an item, their severity cancels in differences, see `difference_noise`.

    >>> import aliquot
    >>> found = annotator_noise(aliquot.synthetic(items=60, systems=3, annotators=4, judgments_per_output=2, seed=1))
    >>> found.outputs, found.matched, found.difference > 0
    (180, True, True)
    """
    behind = _find_judgments(data, human)
    if behind is None:
        return None
    table = _keep_first_turns(behind)
    outputs = _count_outputs(table.filter(pl.len().over("item", "system") > 1))
    if outputs < _MIN_OUTPUTS:
        return None
    within = variance_components(group_codes(table, ["item", "system"]), table["value"].to_numpy(), replicates=1).within
    noise, matched = difference_noise(table, within)
    return AnnotatorNoise(noise * behind.slope**2, table.height / _count_outputs(table), outputs, matched)


def _find_judgments(data: EvalSet, human: str | None) -> ScoreJudgments | None:
    name = human or data.human
    try:
        return None if name is None else find_score_judgments(data, name)
    except DataError:
        return None


def _keep_first_turns(behind: ScoreJudgments) -> pl.DataFrame:
    """Keep one judgment per annotator and output: repeats by one annotator are not independent."""
    return behind.table.filter((pl.col("turn") == 0) | pl.col("annotator").is_null())


def _count_outputs(table: pl.DataFrame) -> int:
    return table.select("item", "system").n_unique()


# -- How many judgments of the same output are worth paying for, in rows and in words --------------------------------


_MAX_ROWS = 5
_SAME_VARIANCE = 1.01  # variances that differ by less are no reason to judge an output once more


@dataclass(frozen=True)
class NoiseVariances:
    """Variances of what is compared (of a difference, where systems are judged on the same items), for one item."""

    item: float  # what judging more items averages out, and nothing else does
    rater: float  # the judges' part, for one judgment of each output
    source: str = ""  # where the judges' part comes from, in words

    def variance(self, judgments: float) -> float:
        """Return the variance on one item with this many judgments of each output."""
        return self.item + self.rater / judgments


@dataclass(frozen=True)
class RepeatWords:
    """What is repeated, of what, and where the noise comes from, for sentences."""

    once: str
    unit: str
    whole: str
    item: str
    noise: str


RepeatUnit = Literal["judgment", "draw"]
"""What is repeated: judgments of an output, or draws of a prompt."""
WORDS: Mapping[RepeatUnit, RepeatWords] = MappingProxyType(
    {
        "judgment": RepeatWords("Judge each output once", "judgment", "output", "item", "annotator noise"),
        "draw": RepeatWords("Judge one draw of each prompt", "draw", "prompt", "prompt", "the noise of draws"),
    }
)


@dataclass(frozen=True)
class RepeatRow:
    """Judgments per output, items at the same cost, and the standard error of a difference."""

    judgments_per_output: int
    items: float
    se: float
    best: bool


@dataclass(frozen=True)
class RepeatAdvice:
    """Choices at the same cost, the optimum of the formula, and a summary."""

    rows: tuple[RepeatRow, ...]
    formula: float
    text: str
    unit: RepeatUnit = "judgment"


def advise_repeats(
    noise: NoiseVariances,
    unit: RepeatUnit = "judgment",
    /,
    *,
    items: float,
    judgments: float,
    population: float,
    judgment_cost: float,
    new_item_cost: float,
) -> RepeatAdvice:
    """Compare 1, 2, ... judgments of each output at the cost of `items` items with `judgments` of each.

    Args:
        noise: variances between items and of the judges.
        unit: what is repeated.
        items: of the plan that gives the cost.
        judgments: of each output in that plan.
        population: N, or infinite.
        judgment_cost: of judging all outputs of an item once.
        new_item_cost: what an item costs apart from that.

    >>> noise = NoiseVariances(item=4.0, rater=9.0)
    >>> advice = advise_repeats(noise, items=100, judgments=1, population=1000, judgment_cost=1, new_item_cost=4)
    >>> advice.formula, [row.judgments_per_output for row in advice.rows if row.best]
    (3.0, [3])
    """
    budget = items * (new_item_cost + judgments * judgment_cost)
    choices = list_repeat_choices(noise.item, noise.rater, new_item_cost, judgment_cost, budget, population)
    min_variance = min(choice.variance for choice in choices)
    best = next(choice for choice in choices if choice.variance <= _SAME_VARIANCE * min_variance)
    rows = tuple(
        RepeatRow(choice.judgments, choice.items, float(np.sqrt(choice.variance)), choice is best)
        for choice in choices
        if choice.judgments <= max(_MAX_ROWS, best.judgments + 1)
    )
    formula = best_repeat_count(noise.item, noise.rater, new_item_cost, judgment_cost)
    return RepeatAdvice(rows, formula, _describe_rows(rows, population, new_item_cost, WORDS[unit]), unit)


def _describe_rows(rows: tuple[RepeatRow, ...], population: float, new_item_cost: float, words: RepeatWords) -> str:
    index = next(place for place, row in enumerate(rows) if row.best)
    best, first = rows[index], rows[0]
    unit, whole, item = words.unit, words.whole, words.item
    if index == 0:
        if len(rows) == 1:
            return f"One {unit} of each {whole}; the budget allows no second."
        if best.se == 0:  # all items are judged, and there is no annotator noise
            return (
                f"{words.once}: that leaves no error; two {unit}s of each at the same cost mean only "
                f"{rows[1].items:.0f} {item}s."
            )
        more = rows[1].se / best.se - 1
        why = "" if new_item_cost else f", because a new {item} costs no more than a second {unit}"
        if more < 0.005:
            return (
                f"{words.once}: {words.noise} is so large that more {unit}s of fewer {item}s are as "
                "good, and never better."
            )
        return (
            f"{words.once}{why}: two {unit}s of each at the same cost mean {rows[1].items:.0f} {item}s, "
            f"and an error of a difference {more:.0%} larger."
        )
    times = f"{best.judgments_per_output} {unit}s of each {whole}"
    gain = f"an error {1 - best.se / first.se:.0%} smaller than one {unit} of {first.items:.0f} {item}s"
    if first.items >= population:
        return (
            f"The budget judges all {population:.0f} {item}s and more: only further {unit}s of the same {whole}s "
            f"help from there. Plan {times} ({best.items:.0f} {item}s): {gain}."
        )
    return f"Plan {times} ({best.items:.0f} {item}s): {gain}."
