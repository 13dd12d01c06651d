"""Trust coefficients of annotators (Algorithm 1 of the coreference paper, HumEval 2022): who is in groups that agree?

Alpha is computed for every combination of at least two annotators. Each annotator collects the alphas of the
combinations with him or her, each times its rank; the sums are divided by the largest. The paper calls annotators at or
below 0.5 outliers. There are 2^k - k - 1 combinations, so that beyond 15 annotators a random part of them is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.alpha import LEVELS, Level
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed

Variant = Literal["paper", "released"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
EXACT = 15
"""Annotators up to which every combination is looked at."""
OUTLIER = 0.5
"""The paper's threshold: outliers are at or below it."""

_BLOCK = 100_000  # numbers held at a time: what fits into a processor's cache is several times faster
_DECIMALS = 12  # alphas that differ by rounding only share a rank


@dataclass(frozen=True, eq=False)
class Trust:
    """What `trust` gives.

    Attributes:
        coefficients: one per annotator, at most 1; NaN for an annotator who shares no unit with anybody.
        combinations: the number of combinations with an alpha.
        exact: whether all combinations were looked at.
    """

    coefficients: FloatArray
    combinations: int
    exact: bool

    @property
    def outliers(self) -> BoolArray:
        """The annotators whom the paper would leave out."""
        outliers: BoolArray = self.coefficients <= OUTLIER
        return outliers


def trust(
    table: FloatArray,
    *,
    level: Level = "nominal",
    variant: Variant = "paper",
    combinations: int = 10_000,
    seed: Seed = 0,
) -> Trust:
    """Trust coefficients of the annotators of a table.

    Args:
        table: units x annotators; NaN is missing.
        level: of alpha. The paper's numbers are nominal, though its scale is ordinal.
        variant: "paper" as printed: alphas of 0 or less share the rank 1, and combinations whose alpha is undefined are
            left out; "released" as in the authors' notebook: every distinct alpha has its rank, and alpha is 1 where
            all answers are equal.
        combinations: how many to draw when there are more than 15 annotators.
        seed: of that draw.

    Raises:
        DataError: no combination has an alpha, or the largest sum is not positive, so that dividing by it would turn
            the order around.

    >>> table = np.array([[1, 1, 3.0], [2, 2, 1], [3, 3, 1], [1, 1, 2], [2, 2, 3]])
    >>> trust(table).coefficients.round(2).tolist()
    [1.0, 1.0, -0.23]
    """
    _check(table, level, variant, combinations)
    linked = _linked(table)
    if linked.sum() < 2:
        raise DataError("trust is undefined: no two annotators share a unit")
    annotators = int(linked.sum())
    exact = annotators <= EXACT
    members = _all_groups(annotators) if exact else _some_groups(annotators, combinations, np.random.default_rng(seed))
    alphas, comparable = group_alphas(table[:, linked], members, level)
    if variant == "released":
        alphas = np.where(comparable & np.isnan(alphas), 1.0, alphas)
    sums = _sums(np.round(alphas, _DECIMALS), members, variant)
    if not sums.max() > 0:
        raise DataError(
            "trust is undefined: no annotator is in combinations that agree better than chance "
            f"(the largest sum is {sums.max():.3g}); look at the pairs of annotators instead"
        )
    coefficients = np.full(table.shape[1], np.nan)
    coefficients[linked] = sums / sums.max()
    return Trust(coefficients, int(np.isfinite(alphas).sum()), exact)


def _linked(table: FloatArray) -> BoolArray:
    """Annotators who share a unit with somebody; others would collect alphas they had no part in."""
    present = np.isfinite(table)
    return np.asarray(present[present.sum(axis=1) >= 2].any(axis=0))


def _sums(alphas: FloatArray, members: BoolArray, variant: Variant) -> FloatArray:
    """What each annotator collects, divided by the number of combinations with him or her.

    That number is the same for all when every combination is looked at; in a random part of them it varies by chance.
    """
    defined = np.isfinite(alphas)
    if not defined.any():
        raise DataError("trust is undefined: no two annotators share units on which answers differ")
    collected = (_ranks(alphas[defined], variant) * alphas[defined]) @ members[defined]
    return np.asarray(collected / np.maximum(members.sum(axis=0), 1))


def _check(table: FloatArray, level: str, variant: str, combinations: int) -> None:
    if table.ndim != 2 or table.shape[1] < 2:
        raise DataError(f"trust needs a table of units x at least two annotators; it is {table.shape}")
    if level not in LEVELS:
        raise unknown_name("level", level, LEVELS)
    if variant not in VARIANTS:
        raise unknown_name("variant", variant, VARIANTS)
    if combinations < 1:
        raise OptionError(f"combinations={combinations}: draw at least one")


def _ranks(alphas: FloatArray, variant: Variant) -> FloatArray:
    """Dense ranks of rising alphas from 1 on; as printed, `score` starts at 0, so that only positive ones count up."""
    if variant == "released":
        return (np.unique(alphas, return_inverse=True)[1] + 1).astype(np.float64)
    return (np.unique(np.maximum(alphas, 0.0), return_inverse=True)[1] + _first_rank(alphas)).astype(np.float64)


def _first_rank(alphas: FloatArray) -> int:
    """The lowest rank: 1 where an alpha is not positive, else 2, as the first positive one already counts up."""
    return 1 if alphas.min() <= 0 else 2


def _all_groups(annotators: int) -> BoolArray:
    """Every combination of at least two: combinations x annotators."""
    numbers = np.arange(2**annotators)
    members = (numbers[:, None] >> np.arange(annotators)) & 1 > 0
    return np.asarray(members[members.sum(axis=1) >= 2])


def _some_groups(annotators: int, combinations: int, rng: np.random.Generator) -> BoolArray:
    """Distinct combinations, each as likely as any other."""
    members = np.unique(rng.random((combinations, annotators)) < 0.5, axis=0)
    return np.asarray(members[members.sum(axis=1) >= 2])


# -- alpha of many groups of annotators ----------------------------------------------------------------------------


def group_alphas(table: FloatArray, members: BoolArray, level: Level) -> tuple[FloatArray, BoolArray]:
    """Alpha among the members of each group, and whether any unit has two of their answers.

    Args:
        table: units x annotators; NaN is missing.
        members: groups x annotators.
        level: of alpha.
    """
    present = np.isfinite(table)
    values, inverse = np.unique(table[present], return_inverse=True)
    if level == "ratio" and (values < 0).any():
        raise OptionError(f"the answer {values.min():g} is negative; a ratio scale begins at 0: choose another level")
    code = np.full(table.shape, -1, dtype=np.int64)
    code[present] = inverse
    alphas, comparable = np.full(len(members), np.nan), np.zeros(len(members), dtype=np.bool_)
    per_group = len(table) * (1 if level == "interval" else max(1, len(values)))
    for rows in _blocks(len(members), max(1, _BLOCK // max(1, per_group))):
        who = members[rows].astype(np.float64)
        if level == "interval":
            observed, expected, n = _interval_sums(table, present, values, who)
        else:
            observed, expected, n = _count_sums(code, values, who, level)
        comparable[rows] = n > 0
        defined = expected > 1e-12 * n
        alphas[rows][defined] = 1.0 - (n[defined] - 1.0) * observed[defined] / expected[defined]
    return alphas, comparable


def _blocks(length: int, step: int) -> Iterator[slice]:
    for start in range(0, length, step):
        yield slice(start, start + step)


def _interval_sums(
    table: FloatArray, present: BoolArray, values: FloatArray, who: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums of squares instead of counts; answers on the range 0 to 1."""
    low, spread = values.min(initial=np.inf), float(np.ptp(values)) if len(values) else 0.0
    y = np.where(present, (table - low) / (spread or 1.0), 0.0)
    m, first, second = (who @ part.T for part in (present.astype(np.float64), y, y**2))
    m, first, second = (np.where(m >= 2, part, 0.0) for part in (m, first, second))
    observed = (2.0 * (m * second - first**2) / np.maximum(m - 1.0, 1.0)).sum(axis=1)
    n, one, two = m.sum(axis=1), first.sum(axis=1), second.sum(axis=1)
    return observed, 2.0 * (n * two - one**2), n


def _count_sums(
    code: IntArray, values: FloatArray, who: FloatArray, level: Level
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Counts n_uc of each group's answers: groups x units x values."""
    counts = np.stack([who @ (code == c).T.astype(np.float64) for c in range(len(values))], axis=-1)
    m = counts.sum(axis=-1)
    counts[m < 2] = 0.0
    m = np.where(m >= 2, m, 0.0)
    scale = 1.0 / np.maximum(m - 1.0, 1.0)
    n_c, n = counts.sum(axis=1), m.sum(axis=1)
    if level == "nominal":
        return (scale * (m**2 - (counts**2).sum(axis=-1))).sum(axis=1), n**2 - (n_c**2).sum(axis=1), n
    if level == "ordinal":
        ranks = (np.cumsum(n_c, axis=1) - n_c / 2.0) / np.maximum(n, 1.0)[:, None]
        first, second = (np.einsum("guc,gc->gu", counts, power) for power in (ranks, ranks**2))
        one, two = (n_c * ranks).sum(axis=1), (n_c * ranks**2).sum(axis=1)
        return (2.0 * scale * (m * second - first**2)).sum(axis=1), 2.0 * (n * two - one**2), n
    total = values[:, None] + values[None, :]
    d2 = ((values[:, None] - values[None, :]) / np.where(total > 0, total, 1.0)) ** 2
    observed = (scale * ((counts @ d2) * counts).sum(axis=-1)).sum(axis=1)
    return observed, ((n_c @ d2) * n_c).sum(axis=1), n
