"""The judgments behind a human score, and the noise of one judgment of a difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import MergedRepeats, merge_repeats
from aliquot.errors import DataError
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import pearson

MIN_SCORE_CORRELATION = 0.98
"""Correlation of judgments' means with a human score from which the score counts as made of them."""

_MAX_ANNOTATORS = 30
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


def find_score_judgments(data: EvalSet, human: str) -> ScoreJudgments:
    """Return the judgments whose means are a human score.

    A score that `EvalSet.aggregate` made knows them. For a score that came with a file they are searched: all, those of
    a criterion or protocol, or of some annotators. Repeats of one annotator on one output are merged: they do not show
    how annotators differ.

    >>> import aliquot
    >>> find_score_judgments(aliquot.synthetic(items=10, systems=2, annotators=0), "human")
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
    if human in data.averaged:
        rows, words = _select_rows(merged.table, criterion=data.averaged[human])
        fit = _fit_score(data, rows, data.score(human))
        if fit is not None and fit[0] >= MIN_SCORE_CORRELATION:  # the judgments may have been replaced since
            return ScoreJudgments(rows, fit[1], words, merged)
    return _search_judgments(data, human, merged)


def _search_judgments(data: EvalSet, human: str, merged: MergedRepeats) -> ScoreJudgments:
    """Return the judgments whose means correlate most with the score."""
    scores = data.score(human)
    best: tuple[float, ScoreJudgments] | None = None
    for protocol, criterion in _list_parts(merged.table):
        part, words = _select_rows(merged.table, protocol, criterion)
        for source, rows in [(words, part), *_find_averaged_annotators(data, part, scores, words)]:
            fit = _fit_score(data, rows, scores) if rows.height else None
            if fit is not None and (best is None or fit[0] > best[0] + 1e-9):
                best = fit[0], ScoreJudgments(rows, fit[1], source, merged)
    if best is None or best[0] < MIN_SCORE_CORRELATION:
        nearest = "" if best is None else f" (highest correlation: {best[0]:.2f})"
        raise DataError(
            f"{data.name}: '{human}' is not the mean of any of the judgments{nearest}, so its noise is unknown"
        )
    return best[1]


def _list_parts(table: pl.DataFrame) -> list[tuple[str | None, str | None]]:
    """List the protocols and criteria that a score may be about; None stands for all."""
    protocols = table["protocol"].drop_nulls().unique(maintain_order=True).to_list() if "protocol" in table else []
    criteria = table["criterion"].drop_nulls().unique(maintain_order=True).to_list()
    return [
        (protocol, criterion)
        for protocol in (None, *(protocols if len(protocols) > 1 else []))
        for criterion in (None, *(criteria if len(criteria) > 1 else []))
    ]


def _select_rows(
    table: pl.DataFrame, protocol: str | None = None, criterion: str | None = None
) -> tuple[pl.DataFrame, str]:
    """Return the judgments of a protocol and criterion, and what they are in words.

    One row for each item, system and annotator (and turn, without an annotator id): the mean over criteria.
    """
    words = []
    for column, value in (("protocol", protocol), ("criterion", criterion)):
        if value is not None:
            table = table.filter(pl.col(column) == value)
            words.append(f"{column} {value}")
    keys = ["item", "system", "annotator"]
    turn = pl.int_range(pl.len()).over(*keys, "criterion").alias("turn")
    grouped = table.with_columns(turn).group_by(*keys, "turn", maintain_order=True)
    return grouped.agg(pl.col("value").mean()), ", ".join(words) or "all judgments"


def _fit_score(data: EvalSet, table: pl.DataFrame, scores: FloatArray) -> tuple[float, float] | None:
    """Return the absolute correlation of the judgments' means with the score, and its slope; None if undefined."""
    means = table.group_by("item", "system", maintain_order=True).agg(pl.col("value").mean())
    human, mean = scores[data.cell_index(means["item"], means["system"])], means["value"].to_numpy()
    has_score = np.isfinite(human)
    if has_score.sum() < 3:
        return None
    correlation = pearson(mean[has_score], human[has_score])
    if np.isnan(correlation):
        return None
    return abs(correlation), correlation * float(human[has_score].std() / mean[has_score].std())


def _find_averaged_annotators(
    data: EvalSet, rows: pl.DataFrame, scores: FloatArray, source: str
) -> list[tuple[str, pl.DataFrame]]:
    """Find the annotators whose mean is the score (experts among crowd workers), by least squares on all."""
    names = rows["annotator"].drop_nulls().unique().sort().to_list()
    if not 1 < len(names) <= _MAX_ANNOTATORS:
        return []
    means = rows.group_by("item", "system", "annotator").agg(pl.col("value").mean())
    wide = means.pivot("annotator", index=["item", "system"], values="value").drop_nulls()
    if wide.height < 3 * len(names):
        return []
    human = scores[data.cell_index(wide["item"], wide["system"])]
    has_score = np.isfinite(human)
    design = np.column_stack([wide.select(names).to_numpy()[has_score], np.ones(int(has_score.sum()))])
    weights = np.linalg.lstsq(design, human[has_score], rcond=None)[0][:-1]
    chosen = [name for name, weight in zip(names, weights, strict=True) if weight > 0.5 * weights.max() > 0]
    if len(chosen) in (0, len(names)):
        return []
    words = f"{len(chosen)} of {len(names)} annotators"
    part = rows.filter(pl.col("annotator").is_in(chosen))
    return [(words if source == "all judgments" else f"{source}, {words}", part)]


def difference_noise(table: pl.DataFrame, within: float) -> tuple[float, bool]:
    """Return the annotator variance of a difference judged once: 2 within, or less if one annotator judges both.

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
    residual = (
        value - value.mean().over("item", "annotator") - value.mean().over("item", "system") + value.mean().over("item")
    )
    items = blocks.group_by("item").agg(pl.col("systems").first(), pl.col("annotators").first())
    freedom = ((items["systems"] - 1) * (items["annotators"] - 1)).sum()
    return 2 * float(blocks.select((residual**2).sum()).item()) / float(freedom), True
