"""The perfect annotator: how much of the spread of judgments is the judges', from outputs judged more than once.

Only judgments that are behind the human score count, because protocols and criteria differ in scale: their means must
be the score. Where the score has no such judgments, or no output was judged twice, there is no answer, only the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from aliquot.errors import DataError
from aliquot.judge.answers import group_codes
from aliquot.judge.behind import Behind, difference_noise, judgments_behind
from aliquot.metaeval.metric_inputs import Campaign
from aliquot.stats.arrays import Seed
from aliquot.stats.variance_components import matched_ratio, variance_components


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


def _matched(campaign: Campaign, behind: Behind, within: float) -> float:
    """Efficiency ratio of differences of systems on the same items, for human scores that are means of judgments."""
    per_cell = behind.table.group_by("item", "system").agg(pl.len())["len"].to_numpy()
    noise = behind.slope**2 * difference_noise(behind.table, within)[0] * float((1 / per_cell).mean())
    try:
        return matched_ratio(campaign.human, noise / 2)
    except DataError:
        return float("nan")  # no two systems with two common items
