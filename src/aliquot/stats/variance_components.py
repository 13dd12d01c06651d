"""Variance components of judgments: annotators' noise and spread of outputs, Var(H) = E[Var(H | output)] + Var(P).

Invariant: total = within + between, exactly. H is a judgment, P the mean judgment of an output, that of a perfect
annotator; within is the annotators' noise, between the variance of outputs (Wei and Jia 2021, eq. 15, 16).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import ROUNDING, FloatArray, IntArray, Seed, group_means, group_sums, row_blocks
from aliquot.stats.pairwise import pairwise_sums
from aliquot.stats.resampling import bootstrap_counts, percentile_interval
from aliquot.validation import at_least, between


@dataclass(frozen=True)
class VarianceComponents:
    """Variances of judgments, and the efficiency ratio of a perfect annotator."""

    total: float  # var(H), over all judgments
    within: float  # e[Var(H | output)], pooled over outputs with at least two judgments
    between: float  # var(P) = total - within; as an estimate it may come out negative
    ratio: float  # efficiency ratio r = total / between; infinite where between is not positive
    low: float  # lower end of the bootstrap interval of the ratio
    high: float  # upper end
    judgments: int  # number of judgments
    outputs: int  # number of outputs
    repeated: int  # number of outputs with at least two judgments

    @property
    def rater_to_item(self) -> float:
        """Annotator variance / item variance, g = r - 1."""
        return self.ratio - 1.0

    def to_dict(self) -> dict[str, float]:
        """Return the fields by name."""
        return dict(vars(self))


def efficiency_ratio(total: float, between: float) -> float:
    """Return r = Var(H) / Var(P): one judgment of the perfect annotator is worth r human ones (eq. 17).

    >>> round(efficiency_ratio(28.81**2, 19.27**2), 2)  # WMT19
    2.24
    """
    if np.isnan(total) or np.isnan(between):
        return float("nan")
    return float(total / between) if between > ROUNDING * total else float("inf")


def variance_components(
    output: IntArray,
    value: FloatArray,
    *,
    system: IntArray | None = None,
    level: float = 0.95,
    replicates: int = 2000,
    seed: Seed = 0,
) -> VarianceComponents:
    """Split the variance of judgments into annotators' noise and variance of outputs.

    As in the paper, total is the sample variance of all judgments, within the variances of the outputs pooled with
    weights n - 1; with `system`, about each system's mean. The interval is a percentile bootstrap over outputs.

    >>> found = variance_components(np.array([0, 0, 1, 1, 2]), np.array([1.0, 2.0, 5.0, 6.0, 9.0]))
    >>> found.total, found.within, round(found.ratio, 3), found.repeated
    (10.3, 0.5, 1.051, 2)
    """
    codes, values, groups = _validate_judgments(output, value, system)
    centred = values - group_means(groups, values)[groups]
    table = _output_sums(codes, centred)
    freedom = int(groups.max()) + 1 if system is not None else 1
    total, within = (float(part[0]) for part in _variances_from_sums(table.sum(axis=0)[None], freedom))
    if not table[:, 4].any():
        raise DataError(
            f"none of the {len(table)} outputs has two judgments, so the annotators' noise cannot be told from the "
            "outputs' spread; have some outputs judged twice"
        )
    low, high = _ratio_interval(table, freedom, level, replicates, np.random.default_rng(seed))
    return VarianceComponents(
        total=total,
        within=within,
        between=total - within,
        ratio=efficiency_ratio(total, total - within),
        low=low,
        high=high,
        judgments=len(values),
        outputs=len(table),
        repeated=int((table[:, 4] > 0).sum()),
    )


def _validate_judgments(
    output: IntArray, value: FloatArray, system: IntArray | None
) -> tuple[IntArray, FloatArray, IntArray]:
    groups = np.zeros(len(value), dtype=np.int64) if system is None else system
    if not (output.shape == value.shape == groups.shape) or value.ndim != 1:
        raise OptionError(
            f"`output` is {output.shape}, `value` {value.shape}, `system` {groups.shape}; give equal lengths"
        )
    if np.isinf(value).any():
        raise OptionError("value holds infinite numbers; give finite judgments, or NaN for missing")
    present = ~np.isnan(value)
    if not present.any():
        raise DataError("there are no judgments, so their variance is not known")
    codes = np.unique(output[present], return_inverse=True)[1]
    return codes.astype(np.int64), value[present], np.unique(groups[present], return_inverse=True)[1].astype(np.int64)


def _output_sums(codes: IntArray, values: FloatArray) -> FloatArray:
    """Return sufficient statistics per output: n, sum, sum of squares, squares about its mean, n - 1."""
    n, total, power = (group_sums(codes, part) for part in (np.ones_like(values), values, values**2))
    about = group_sums(codes, (values - (total / n)[codes]) ** 2)
    return np.stack([n, total, power, about, n - 1], axis=1)


def _variances_from_sums(sums: FloatArray, freedom: int) -> tuple[FloatArray, FloatArray]:
    """Return total and within variance from summed statistics (rows x 5); NaN for too few judgments."""
    n, total, power, about, repeats = sums.T
    denominator = np.where(n > freedom, n - freedom, np.nan)
    within = about / np.where(repeats > 0, repeats, np.nan)
    return np.asarray((power - total**2 / n) / denominator), np.asarray(within)


def _ratio_interval(
    table: FloatArray, freedom: int, level: float, replicates: int, rng: np.random.Generator
) -> tuple[float, float]:
    ratios = []
    for rows in row_blocks(replicates, len(table), 1 << 21):
        count = rows.stop - rows.start
        total, within = _variances_from_sums(bootstrap_counts(rng, count, len(table), len(table)) @ table, freedom)
        between = total - within
        ratios.append(np.divide(total, between, out=np.full(count, np.inf), where=~(between <= ROUNDING * total)))
    return percentile_interval(np.concatenate(ratios), level)


def matched_ratio(human: FloatArray, within: float) -> float:
    """Return the efficiency ratio of differences of systems that are judged on the same items.

    Item difficulty cancels, so that noise is a larger part of a difference than of a score: r_d = Var(d_H) / (Var(d_H)
    - 2 within), d = y_a - y_b. The ratio of `variance_components` is a lower bound. For means of m judgments, divide
    `within` by m.

    >>> human = np.array([[1.0, 2.0], [5.0, 8.0], [9.0, 9.0]])
    >>> round(matched_ratio(human, 0.5), 3)
    1.75
    """
    if not within >= 0:
        raise OptionError(f"`within` is {within}; a variance is at least 0")
    sums = pairwise_sums(human)
    several = sums.count > 1
    count = sums.count[several]
    if not len(count):
        raise DataError("no two systems have two common items, so differences have no variance")
    variance = (sums.squares[several] - sums.total[several] ** 2 / count) / (count - 1)
    total = float(variance.mean())
    return efficiency_ratio(total, total - 2 * within)


def data_efficiency(correlation: FloatArray | float, rater_to_item: FloatArray | float = 0.0) -> FloatArray:
    """Return the data efficiency of a metric as control variate, (1 + g) / (1 - rho^2 + g).

    n judgments with the metric are worth this many times n without it. rho is the correlation with the outputs' mean
    judgment within a system; use g = 0 with the correlation with single judgments (see `noise_free_correlation`). g is
    annotator variance / item variance, divided by m for the mean of m judgments.

    >>> data_efficiency(np.array([0.0, 0.8, 1.0]), 0.5).round(3)
    array([1.   , 1.744, 3.   ])
    """
    rho, g = np.asarray(correlation, dtype=np.float64), np.asarray(rater_to_item, dtype=np.float64)
    if (np.abs(rho) > 1).any():
        raise OptionError(f"`correlation` is {rho}; it lies between -1 and 1")
    if (g < 0).any():
        raise OptionError(f"`rater_to_item` is {g}; a ratio of variances is at least 0")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # With infinite noise of annotators nothing can be saved.
        return np.asarray(np.where(np.isinf(g), 1.0, (1 + g) / (1 - rho**2 + g)), dtype=np.float64)


def efficiency_ceiling(rater_to_item: FloatArray | float) -> FloatArray:
    """Return the data efficiency of a perfect metric, (1 + g) / g, the upper limit under annotators' noise.

    >>> float(efficiency_ceiling(0.25))
    5.0
    """
    return data_efficiency(1.0, rater_to_item)


def noise_free_correlation(correlation: FloatArray | float, rater_to_item: FloatArray | float) -> FloatArray:
    """Return the correlation with outputs' mean judgment from that with single judgments: rho sqrt(1 + g), at most 1.

    >>> float(noise_free_correlation(0.4, 3.0))
    0.8
    """
    rho, g = np.asarray(correlation, dtype=np.float64), np.asarray(rater_to_item, dtype=np.float64)
    return np.clip(rho * np.sqrt(1 + g), -1.0, 1.0)


# -- Repeated judgments of an output (Cochran 1977, section 10.6, with finite population) ------------------------------


MAX_JUDGMENTS = 20
"""Maximum number of judgments per output."""


@dataclass(frozen=True)
class RepeatChoice:
    """A choice at a given cost: k judgments of each of n items, and the resulting variance."""

    judgments: int
    items: float
    variance: float


def best_repeat_count(item: float, annotator: float, item_cost: float, judgment_cost: float) -> float:
    """Return the best k without bounds: sqrt(item_cost / judgment_cost * B / A); infinite if items do not differ.

    A is the variance between items, B that of one judgment of an item; `item_cost` excludes its judgments.

    >>> best_repeat_count(item=4.0, annotator=9.0, item_cost=4.0, judgment_cost=1.0)
    3.0
    """
    _validate_costs(item, annotator, item_cost, judgment_cost)
    if annotator == 0 or item_cost == 0:
        return 0.0
    return float(np.sqrt(item_cost / judgment_cost * annotator / item)) if item > 0 else float("inf")


def list_repeat_choices(
    item: float,
    annotator: float,
    item_cost: float,
    judgment_cost: float,
    budget: float,
    population: float = np.inf,
    max_judgments: int = MAX_JUDGMENTS,
) -> list[RepeatChoice]:
    """Return every k = 1, 2, ..., `max_judgments` that the budget allows for at least one item, with n and variance.

    >>> choices = list_repeat_choices(4, 9, 0, 1, 60, population=40, max_judgments=3)
    >>> [(choice.judgments, choice.items, round(choice.variance, 3)) for choice in choices]
    [(1, 40.0, 0.225), (2, 30.0, 0.183), (3, 20.0, 0.25)]
    """
    _validate_costs(item, annotator, item_cost, judgment_cost)
    if not budget > 0:
        raise OptionError(f"`budget` is {budget}; spend more than 0")
    k = np.arange(1, max_judgments + 1)
    n: FloatArray = np.minimum(population, budget / (item_cost + judgment_cost * k))
    variance = item * (1.0 / n - 1.0 / population) + annotator / (n * k)
    return [
        RepeatChoice(int(count), float(size), float(value))
        for count, size, value in zip(k, n, variance, strict=True)
        if size >= 1.0
    ]


def _validate_costs(item: float, annotator: float, item_cost: float, judgment_cost: float) -> None:
    for name, value in (("item", item), ("annotator", annotator), ("item_cost", item_cost)):
        at_least(name, value, 0)
    between("judgment_cost", judgment_cost, 0, np.inf, inclusive=False, remedy="judging costs something")
