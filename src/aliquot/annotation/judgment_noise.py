"""Which judgments a human score was made of, and how noisy one judgment of a difference is.

Protocols and criteria differ in scale: a score was made of the judgments whose means are the score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import MergedRepeats, merge_repeats
from aliquot.errors import DataError
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import pearson

SAME = 0.98
"""Correlation of judgments' means with a human score from which the score counts as made of them."""

_CROWD = 30
"""Annotators up to which the score is compared with the mean of some of them."""


@dataclass(frozen=True, eq=False)
class ScoreJudgments:
    """The judgments of which a human score is the mean.

    `table` has a row per annotator and output: item, system, annotator, turn (0, 1, ... without an id) and value.
    """

    table: pl.DataFrame
    slope: float  # of the human score on the judgments' means
    source: str  # which judgments these are, in words
    merged: MergedRepeats  # what was said more than once by one annotator


def judgments_of_score(data: EvalSet, human: str) -> ScoreJudgments:
    """Find the judgments whose means are this human score: all, of one criterion or protocol, or of some annotators.

    Repeats of one annotator on one output are merged: they say nothing of how annotators differ.

    >>> import aliquot
    >>> judgments_of_score(aliquot.synthetic(items=10, systems=2, annotators=0), "human")
    Traceback (most recent call last):
        ...
    aliquot.errors.DataError: synthetic (simulated): there are no judgments, so annotator noise is unknown
    """
    if data.judgments is None:
        raise DataError(f"{data.name}: there are no judgments, so annotator noise is unknown")
    table = data.judgments.answers().filter(pl.col("value").is_not_null())
    if "control" in table.columns:
        table = table.filter(pl.col("control").is_null() | pl.col("control").cast(pl.String).is_in(["", "false", "0"]))
    merged = merge_repeats(table)
    scores = data.score(human)
    best: tuple[float, ScoreJudgments] | None = None
    for source, part in _candidates(merged.table):
        rows = _one_each(part)
        for words, some in [(source, rows), *_of_some_annotators(data, rows, scores, source)]:
            found = _fit(data, some, scores)
            if found is not None and (best is None or found[0] > best[0] + 1e-9):
                best = found[0], ScoreJudgments(some, found[1], words, merged)
    if best is None or best[0] < SAME:
        closest = "" if best is None else f" (correlation with the nearest: {best[0]:.2f})"
        raise DataError(
            f"{data.name}: '{human}' is not the mean of any of the judgments{closest}, so its noise is unknown"
        )
    return best[1]


def _candidates(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """All judgments, those of each protocol, of each criterion, and of each criterion of a protocol."""
    protocols = table["protocol"].drop_nulls().unique(maintain_order=True).to_list() if "protocol" in table else []
    criteria = table["criterion"].drop_nulls().unique(maintain_order=True).to_list()
    for protocol in [None, *(protocols if len(protocols) > 1 else [])]:
        for criterion in [None, *(criteria if len(criteria) > 1 else [])]:
            part, words = table, []
            for column, wanted in (("protocol", protocol), ("criterion", criterion)):
                if wanted is not None:
                    part = part.filter(pl.col(column) == wanted)
                    words.append(f"{column} {wanted}")
            if part.height:
                yield ", ".join(words) or "all judgments", part


def _one_each(table: pl.DataFrame) -> pl.DataFrame:
    """One row for each item, system and annotator (and turn, without an annotator id): the mean over criteria."""
    keys = ["item", "system", "annotator"]
    turn = pl.int_range(pl.len()).over(*keys, "criterion").alias("turn")
    grouped = table.with_columns(turn).group_by(*keys, "turn", maintain_order=True)
    return grouped.agg(pl.col("value").mean())


def _cell_means(table: pl.DataFrame) -> pl.DataFrame:
    return table.group_by("item", "system", maintain_order=True).agg(pl.col("value").mean())


def _fit(data: EvalSet, table: pl.DataFrame, scores: FloatArray) -> tuple[float, float] | None:
    """Correlation, without sign, of the judgments' means with the score, and its slope on them; None: undefined."""
    means = _cell_means(table)
    human, mean = scores[data.cell_index(means["item"], means["system"])], means["value"].to_numpy()
    known = np.isfinite(human)
    if known.sum() < 3:
        return None
    correlation = pearson(mean[known], human[known])
    if np.isnan(correlation):
        return None
    return abs(correlation), correlation * float(human[known].std() / mean[known].std())


def _of_some_annotators(
    data: EvalSet, rows: pl.DataFrame, scores: FloatArray, source: str
) -> list[tuple[str, pl.DataFrame]]:
    """Those annotators of whom the score is the mean (experts among crowd workers), by least squares on all."""
    names = rows["annotator"].drop_nulls().unique().sort().to_list()
    if not 1 < len(names) <= _CROWD:
        return []
    own = rows.group_by("item", "system", "annotator").agg(pl.col("value").mean())
    wide = own.pivot("annotator", index=["item", "system"], values="value").drop_nulls()
    if wide.height < 3 * len(names):
        return []
    human = scores[data.cell_index(wide["item"], wide["system"])]
    known = np.isfinite(human)
    design = np.column_stack([wide.select(names).to_numpy()[known], np.ones(int(known.sum()))])
    weights = np.linalg.lstsq(design, human[known], rcond=None)[0][:-1]
    chosen = [name for name, weight in zip(names, weights, strict=True) if weight > 0.5 * weights.max() > 0]
    if len(chosen) in (0, len(names)):
        return []
    words = f"{len(chosen)} of {len(names)} annotators"
    kept = rows.filter(pl.col("annotator").is_in(chosen))
    return [(words if source == "all judgments" else f"{source}, {words}", kept)]


def difference_noise(table: pl.DataFrame, within: float) -> tuple[float, bool]:
    """Annotator variance in one judgment of a difference: 2 within, or less where one annotator judged both systems.

    An annotator's severity on an item then cancels: what is left is the interaction of annotator and system on the
    item, from the blocks in which at least two annotators judged the same systems (two-way analysis of variance).
    `within` is the variance of a judgment about its output's mean. Returns the variance, and whether severity cancels.
    """
    first = table.filter((pl.col("turn") == 0) & pl.col("annotator").is_not_null())
    blocks = first.with_columns(
        pl.col("system").n_unique().over("item").alias("systems"),
        pl.col("system").n_unique().over("item", "annotator").alias("mine"),
    ).filter((pl.col("mine") == pl.col("systems")) & (pl.col("systems") > 1))
    blocks = blocks.with_columns(pl.col("annotator").n_unique().over("item").alias("annotators"))
    blocks = blocks.filter(pl.col("annotators") > 1)
    repeated = first.filter(pl.len().over("item", "system") > 1)
    if blocks.height < repeated.height / 2 or not blocks.height:
        return 2 * within, False
    value = pl.col("value")
    rest = (
        value - value.mean().over("item", "annotator") - value.mean().over("item", "system") + value.mean().over("item")
    )
    items = blocks.group_by("item").agg(pl.col("systems").first(), pl.col("annotators").first())
    freedom = ((items["systems"] - 1) * (items["annotators"] - 1)).sum()
    return 2 * float(blocks.select((rest**2).sum()).item()) / float(freedom), True
