"""Concordant less discordant pairs within items, with every tie policy stated.

Invariant: pairs that people tie never count; what becomes of those that the metric ties is said by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.correlation import common_tables
from aliquot.stats.score_pairs import CONCORDANT, DISCORDANT, HUMAN_TIE, METRIC_TIE, pair_blocks, pairs_per_row

MetricTies = Literal["discordant", "skip", "half"]
Average = Literal["macro", "micro"]


@dataclass(frozen=True)
class KendallLike:
    """(C - D) / (C + D) within items, and the counts of pairs it is made of.

    Attributes:
        value: The coefficient; NaN where no pair counts.
        concordant: Pairs ordered alike.
        discordant: Pairs ordered the other way.
        metric_ties: Pairs that the metric alone ties, which `metric_ties` of the call decides.
        human_ties: Pairs tied by people, always left out.
        items: Items with a value.
        undefined: Items with two outputs or more, but no pair that counts.
    """

    value: float
    concordant: int
    discordant: int
    metric_ties: int
    human_ties: int
    items: int
    undefined: int


def kendall_like(
    metric: FloatArray,
    human: FloatArray,
    metric_ties: MetricTies = "discordant",
    *,
    human_ties: Literal["skip"] = "skip",
    least_difference: float = 0.0,
    average: Average = "macro",
) -> KendallLike:
    """Kendall-like agreement within items, (C - D) / (C + D) (METHODS 7; WMT's DARR; HumEval 2022, paper 9).

    Args:
        metric: Items x systems, NaN = missing.
        human: The same shape.
        metric_ties: A pair that only the metric ties is "discordant", or left out ("skip"), or "half" concordant and
            half discordant (it then adds to the pairs and to nothing else).
        human_ties: Only "skip": pairs that people tie say nothing and are left out.
        least_difference: Human differences below this are ties (25 of 100 points in WMT's DARR).
        average: "macro", the mean of the items' values; "micro", from the counts of all items together.

    Returns:
        The coefficient and the counts.

    Raises:
        OptionError: Not two tables of one shape, infinite values, or another policy.

    Example:
        >>> metric, human = np.array([[1.0, 2.0, 2.0]]), np.array([[5.0, 6.0, 7.0]])
        >>> [round(kendall_like(metric, human, ties).value, 3) for ties in ("discordant", "skip", "half")]
        [0.333, 1.0, 0.667]
    """
    for name, given, allowed in (
        ("metric_ties", metric_ties, get_args(MetricTies)),
        ("human_ties", human_ties, ("skip",)),
        ("average", average, get_args(Average)),
    ):
        if given not in allowed:
            raise OptionError(f"{name} is {given!r}; give one of {', '.join(allowed)}")
    if not least_difference >= 0:
        raise OptionError(f"least_difference is {least_difference}; choose 0 or more")
    metric, human = common_tables(metric, human)
    counts = _counts(metric, human, least_difference)
    values, weights = _coefficients(counts, metric_ties)
    defined = weights > 0
    if not defined.any():
        value = float("nan")
    else:
        value = float(np.average(values[defined], weights=weights[defined] if average == "micro" else None))
    totals, undefined = counts.sum(axis=1), (pairs_per_row(metric) > 0) & ~defined
    return KendallLike(
        value=value,
        concordant=int(totals[CONCORDANT]),
        discordant=int(totals[DISCORDANT]),
        metric_ties=int(totals[METRIC_TIE]),
        human_ties=int(totals[HUMAN_TIE]),
        items=int(defined.sum()),
        undefined=int(undefined.sum()),
    )


def item_kendall_like(
    metric: FloatArray, human: FloatArray, metric_ties: MetricTies = "discordant", least_difference: float = 0.0
) -> FloatArray:
    """Kendall-like agreement of every item, for tests that resample items; arguments as `kendall_like`.

    >>> item_kendall_like(np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([[2.0, 1.0], [3.0, 3.0]]))
    array([-1., nan])
    """
    if metric_ties not in get_args(MetricTies):
        raise OptionError(f"metric_ties is {metric_ties!r}; give one of {', '.join(get_args(MetricTies))}")
    metric, human = common_tables(metric, human)
    values, weights = _coefficients(_counts(metric, human, least_difference), metric_ties)
    return np.where(weights > 0, values, np.nan)


def _counts(metric: FloatArray, human: FloatArray, least_difference: float) -> IntArray:
    """Pairs of every kind (4) in every row."""
    counts = np.zeros(4 * len(metric), dtype=np.int64)
    for block in pair_blocks(metric, human, least_difference):
        counts += np.bincount(block.kind.astype(np.int64) * len(metric) + block.row, minlength=len(counts))
    return counts.reshape(4, len(metric))


def _coefficients(counts: IntArray, metric_ties: MetricTies) -> tuple[FloatArray, FloatArray]:
    """(C - D) / (C + D) of every row, ties having gone where they belong, and C + D, its weight."""
    concordant, discordant = counts[CONCORDANT].astype(np.float64), counts[DISCORDANT].astype(np.float64)
    if metric_ties != "skip":
        shares = (0.0, 1.0) if metric_ties == "discordant" else (0.5, 0.5)
        concordant += shares[0] * counts[METRIC_TIE]
        discordant += shares[1] * counts[METRIC_TIE]
    weights = concordant + discordant
    return (concordant - discordant) / np.maximum(weights, 1), weights
