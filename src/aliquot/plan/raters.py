"""How noisy one judgment of a difference is, from outputs that several people judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.judge.answers import group_codes
from aliquot.stats.arrays import FloatArray
from aliquot.stats.variance_components import variance_components

_SAME = 0.98  # correlation with the human score above which judgments are taken for those behind it
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
    found = _behind(data, human)
    if found is None:
        return 1.0
    return found[0].height / found[0].select("item", "system").n_unique()


def rater_noise(data: EvalSet, human: str | None = None) -> RaterNoise | None:
    """Take the judges' noise from the judgments behind the human score; None where outputs are not judged twice.

    Where the same people judged all systems of an item, their severity cancels in differences: the noise is what is
    left after taking out each annotator's mean on the item (two-way analysis of variance, interaction). Otherwise it is
    twice the variance of a judgment about its output's mean.

    >>> import aliquot
    >>> found = rater_noise(aliquot.synthetic(items=60, systems=3, annotators=4, judgments_per_output=2, seed=1))
    >>> found.outputs, found.matched, found.difference > 0
    (180, True, True)
    """
    behind = _behind(data, human)
    if behind is None:
        return None
    table, scale = behind
    count = table.height / table.select("item", "system").n_unique()
    twice = table.filter(pl.len().over("item", "system") > 1)
    outputs = twice.select("item", "system").n_unique()
    if outputs < _FEWEST:
        return None
    blocks = _complete_blocks(twice)
    matched = blocks.height >= twice.height / 2 and blocks.select("item", "system").n_unique() >= _FEWEST
    noise = _interaction(blocks) if matched else 2 * _within(twice, twice["value"].to_numpy())
    return RaterNoise(noise * scale**2, count, outputs, matched)


def _behind(data: EvalSet, human: str | None) -> tuple[pl.DataFrame, float] | None:
    """One row for each item, system and annotator of the judgments behind the human score, and the scale of the two.

    Judgments may hold several criteria; the one (or all together) whose means are the human score is taken.
    """
    if data.judgments is None:
        return None
    scores = data.human_score(human)
    table = data.judgments.answers().filter(pl.col("value").is_not_null())
    if "control" in table.columns:
        table = table.filter(pl.col("control").is_null() | pl.col("control").cast(pl.String).is_in(["", "false", "0"]))
    found = []
    for criterion in [None, *data.judgments.criteria]:
        rows = _one_each(table if criterion is None else table.filter(pl.col("criterion") == criterion))
        means = rows.group_by("item", "system", maintain_order=True).agg(pl.col("value").mean())
        found.append((*_likeness(data, means, scores), rows))
    likeness, slope, rows = max(found, key=lambda one: one[0])
    return (rows, slope) if likeness > _SAME else None


def _one_each(table: pl.DataFrame) -> pl.DataFrame:
    """Mean over criteria and repeats of the same annotator; nameless judgments stay as they are."""
    named = table.filter(pl.col("annotator").is_not_null()).group_by(
        "item", "system", "annotator", maintain_order=True).agg(pl.col("value").mean())  # fmt: skip
    nameless = table.filter(pl.col("annotator").is_null()).select("item", "system", "annotator", "value")
    return pl.concat([named, nameless])


def _likeness(data: EvalSet, means: pl.DataFrame, scores: FloatArray) -> tuple[float, float]:
    """Correlation of the judgments' means with the human score, without sign, and the slope of the one on the other."""
    at = data.cell_index(means["item"], means["system"])
    human, mean = scores[at], means["value"].to_numpy()
    known = np.isfinite(human)
    if known.sum() < 3:
        return 0.0, 0.0
    x, y = mean[known] - mean[known].mean(), human[known] - human[known].mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return (abs(float(x @ y)) / size, float(x @ y / (x @ x))) if size > 0 else (0.0, 0.0)


def _complete_blocks(table: pl.DataFrame) -> pl.DataFrame:
    """Judgments of annotators who judged every system of an item that anybody judged, with at least two of them."""
    named = table.filter(pl.col("annotator").is_not_null())
    blocks = named.with_columns(
        pl.col("system").n_unique().over("item").alias("_systems"),
        pl.col("system").n_unique().over("item", "annotator").alias("_mine"),
    ).filter((pl.col("_mine") == pl.col("_systems")) & (pl.col("_systems") > 1))
    return blocks.with_columns(pl.col("annotator").n_unique().over("item").alias("_people")).filter(
        pl.col("_people") > 1
    )


def _interaction(blocks: pl.DataFrame) -> float:
    """Variance of an annotator's difference of two systems: twice the mean square of the interaction."""
    own = pl.col("value") - pl.col("value").mean().over("item", "annotator")
    within = _within(blocks, blocks.select(own.alias("value"))["value"].to_numpy())
    items = blocks.group_by("item").agg(pl.col("_systems").first(), pl.col("_people").first())
    systems, people = items["_systems"].to_numpy(), items["_people"].to_numpy()
    counted = float((systems * (people - 1)).sum()) / float(((systems - 1) * (people - 1)).sum())
    return 2 * within * counted


def _within(table: pl.DataFrame, values: FloatArray) -> float:
    return variance_components(group_codes(table, ["item", "system"]), values, replicates=20).within
