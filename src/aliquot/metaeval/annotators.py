"""The perfect annotator: how much of the spread of judgments is the judges', from outputs judged more than once.

Only judgments that are behind the human score count, because protocols and criteria differ in scale: their means must
be the score. Where the score has no such judgments, or no output was judged twice, there is no answer, only the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.errors import DataError
from aliquot.judge.answers import group_codes
from aliquot.metaeval.metric_inputs import Campaign
from aliquot.stats.arrays import FloatArray, Seed
from aliquot.stats.correlation import pearson
from aliquot.stats.variance_components import matched_ratio, variance_components

SAME = 0.98
"""Correlation of judgments' means with the human score from which they are taken for those behind it."""

_CROWD = 30
"""Annotators up to which it is looked whether the score is the mean of some of them."""


@dataclass(frozen=True)
class PerfectAnnotator:
    """What repeated judgments of one campaign say.

    Attributes:
        human: the human score.
        data: the campaign.
        source: which judgments are behind it.
        annotators: how many people gave them.
        judgments: how many there are.
        outputs: of how many outputs.
        repeated: how many outputs were judged at least twice.
        per_output: mean number of judgments of an output.
        total: Var(H), of all judgments.
        within: E[Var(H | output)], the judges' noise.
        between: Var(P), what is left: the spread of outputs.
        ratio: efficiency ratio r = total / between; infinite where noise is all there is. n judgments of the perfect
            annotator are worth r n of people, for systems judged on items of their own.
        low: lower end of its interval.
        high: upper end.
        matched: the same for differences of systems on the same items, one human score a cell.
        rater_to_item: g, judges' variance / variance of the outputs of a system, for one judgment.
    """

    human: str
    data: str
    source: str
    annotators: int
    judgments: int
    outputs: int
    repeated: int
    per_output: float
    total: float
    within: float
    between: float
    ratio: float
    low: float
    high: float
    matched: float
    rater_to_item: float


@dataclass(frozen=True, eq=False)
class Behind:
    """The judgments behind a human score.

    Attributes:
        table: item, system, annotator, turn (0, 1, ... for repeats of one annotator), value; one row per judgment.
        slope: of the human score on the judgments' means.
        source: which judgments these are, in words.
    """

    table: pl.DataFrame
    slope: float
    source: str


def perfect_annotator(
    campaign: Campaign, *, level: float = 0.95, seed: Seed = 0
) -> tuple[PerfectAnnotator, tuple[str, ...]]:
    """Split the variance of the judgments behind a human score (METHODS 7; Wei and Jia 2021, section 5.2).

    Args:
        campaign: with the judgments in its data.
        level: of the ratio's interval.
        seed: of its bootstrap.

    Returns:
        The variances and ratios, and what a reader should know.

    Raises:
        DataError: no judgments, none behind this score, or no output judged twice.

    >>> import aliquot
    >>> from aliquot.metaeval.metric_inputs import metric_inputs
    >>> data = aliquot.synthetic(items=60, systems=4, protocol="da", judgments_per_output=2, seed=1)
    >>> found, notes = perfect_annotator(metric_inputs([data]).campaigns[0])
    >>> found.repeated, found.ratio > 1, found.source
    (240, True, 'all judgments')
    """
    name = f"{campaign.name}, '{campaign.human_name}'"
    behind = judgments_behind(campaign.data, campaign.human_name)
    table = behind.table
    output, value = group_codes(table, ["item", "system"]), table["value"].to_numpy()
    people = table["annotator"].n_unique()
    try:
        parts = variance_components(output, value, level=level, replicates=1000, seed=seed)
    except DataError as error:
        who = "all judgments are by one annotator, and " if people == 1 else ""
        raise DataError(f"{name}: {who}{error}") from None
    own = variance_components(output, value, system=group_codes(table, ["system"]), replicates=1)
    notes = []
    if people == 1:
        notes.append(f"{name}: one annotator gave all judgments: the noise is that of one person with himself or "
                     "herself, and the disagreement of people is not in it")  # fmt: skip
    if not np.isfinite(parts.ratio):
        notes.append(f"{name}: judgments of the same output differ as much as those of different ones; people's noise "
                     "is all that can be seen, and the efficiency ratio is infinite")  # fmt: skip
    row = PerfectAnnotator(
        human=campaign.human_name, data=campaign.name, source=behind.source, annotators=people,
        judgments=parts.judgments, outputs=parts.outputs, repeated=parts.repeated,
        per_output=parts.judgments / parts.outputs, total=parts.total, within=parts.within, between=parts.between,
        ratio=parts.ratio, low=parts.low, high=parts.high,
        matched=_matched(campaign, behind, parts.within), rater_to_item=own.rater_to_item,
    )  # fmt: skip
    return row, tuple(notes)


# -- which judgments are behind the score ------------------------------------------------------------------------------


def judgments_behind(data: EvalSet, human: str) -> Behind:
    """Find the judgments whose means are this human score: all, of one criterion or protocol, or of some annotators.

    Raises:
        DataError: there are no judgments, or none whose means are the score.

    >>> import aliquot
    >>> judgments_behind(aliquot.synthetic(items=10, systems=2, annotators=0), "human")
    Traceback (most recent call last):
        ...
    aliquot.errors.DataError: synthetic (simulated): there are no judgments, so the judges' noise is not known
    """
    if data.judgments is None:
        raise DataError(f"{data.name}: there are no judgments, so the judges' noise is not known")
    table = data.judgments.answers().filter(pl.col("value").is_not_null())
    if "control" in table.columns:
        table = table.filter(pl.col("control").is_null() | pl.col("control").cast(pl.String).is_in(["", "false", "0"]))
    scores = data.score(human)
    best: tuple[float, Behind] | None = None
    for source, part in _candidates(table):
        rows = _one_each(part)
        for words, some in [(source, rows), *_of_some_annotators(data, rows, scores, source)]:
            found = _fit(data, some, scores)
            if found is not None and (best is None or found[0] > best[0] + 1e-9):
                best = found[0], Behind(some, found[1], words)
    if best is None or best[0] < SAME:
        closest = "" if best is None else f" (correlation with the nearest: {best[0]:.2f})"
        raise DataError(
            f"{data.name}: the judgments are not those behind '{human}'{closest}, so its noise is not known"
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
    """One row for each item, system, annotator and turn: the mean over criteria."""
    keys = ["item", "system", "annotator"]
    turn = pl.int_range(pl.len()).over(*keys, "criterion").alias("turn")
    grouped = table.with_columns(turn).group_by(*keys, "turn", maintain_order=True)
    return grouped.agg(pl.col("value").mean())


def _cell_means(table: pl.DataFrame) -> pl.DataFrame:
    return table.group_by("item", "system", maintain_order=True).agg(pl.col("value").mean())


def _fit(data: EvalSet, table: pl.DataFrame, scores: FloatArray) -> tuple[float, float] | None:
    """Correlation of the judgments' means with the score and the slope of the score on them; None where undefined."""
    means = _cell_means(table)
    human, mean = scores[data.cell_index(means["item"], means["system"])], means["value"].to_numpy()
    known = np.isfinite(human)
    if known.sum() < 3:
        return None
    correlation = pearson(mean[known], human[known])
    if np.isnan(correlation):
        return None
    return correlation, correlation * float(human[known].std() / mean[known].std())


def _of_some_annotators(
    data: EvalSet, rows: pl.DataFrame, scores: FloatArray, source: str
) -> list[tuple[str, pl.DataFrame]]:
    """Those annotators of whom the score is the mean (experts among crowd workers), by least squares on all."""
    people = rows["annotator"].drop_nulls().unique().sort().to_list()
    if not 1 < len(people) <= _CROWD:
        return []
    own = rows.group_by("item", "system", "annotator").agg(pl.col("value").mean())
    wide = own.pivot("annotator", index=["item", "system"], values="value").drop_nulls()
    if wide.height < 3 * len(people):
        return []
    human = scores[data.cell_index(wide["item"], wide["system"])]
    known = np.isfinite(human)
    design = np.column_stack([wide.select(people).to_numpy()[known], np.ones(int(known.sum()))])
    weights = np.linalg.lstsq(design, human[known], rcond=None)[0][:-1]
    chosen = [person for person, weight in zip(people, weights, strict=True) if weight > 0.5 * weights.max() > 0]
    if len(chosen) in (0, len(people)):
        return []
    words = f"{len(chosen)} of {len(people)} annotators"
    kept = rows.filter(pl.col("annotator").is_in(chosen))
    return [(words if source == "all judgments" else f"{source}, {words}", kept)]


# -- differences of systems on the same items --------------------------------------------------------------------------


def _matched(campaign: Campaign, behind: Behind, within: float) -> float:
    """Efficiency ratio of differences of systems on the same items, for human scores that are means of judgments."""
    per_cell = behind.table.group_by("item", "system").agg(pl.len())["len"].to_numpy()
    noise = behind.slope**2 * _difference_noise(behind.table, within) * float((1 / per_cell).mean())
    try:
        return matched_ratio(campaign.human, noise / 2)
    except DataError:
        return float("nan")  # no two systems with two common items


def _difference_noise(table: pl.DataFrame, within: float) -> float:
    """Judges' variance in one judgment of a difference: 2 within, or less where one annotator judged both systems.

    An annotator's severity on an item then cancels: what is left is the interaction of annotator and system on the
    item, from the blocks in which at least two annotators judged the same systems (two-way analysis of variance).
    """
    first = table.filter((pl.col("turn") == 0) & pl.col("annotator").is_not_null())
    blocks = first.with_columns(
        pl.col("system").n_unique().over("item").alias("systems"),
        pl.col("system").n_unique().over("item", "annotator").alias("mine"),
    ).filter((pl.col("mine") == pl.col("systems")) & (pl.col("systems") > 1))
    blocks = blocks.with_columns(pl.col("annotator").n_unique().over("item").alias("people"))
    blocks = blocks.filter(pl.col("people") > 1)
    repeated = first.filter(pl.len().over("item", "system") > 1)
    if blocks.height < repeated.height / 2 or not blocks.height:
        return 2 * within
    value = pl.col("value")
    rest = (
        value - value.mean().over("item", "annotator") - value.mean().over("item", "system") + value.mean().over("item")
    )
    items = blocks.group_by("item").agg(pl.col("systems").first(), pl.col("people").first())
    freedom = ((items["systems"] - 1) * (items["people"] - 1)).sum()
    return 2 * float(blocks.select((rest**2).sum()).item()) / float(freedom)
