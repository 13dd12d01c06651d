"""Each annotator against the others: severity, noise and reliability.

Location: judgment of annotator j on unit u = t_u + b_j + rest, the b_j by least squares with every t_u free.
Reliability: one common factor, what annotators see alike (Spearman 1904): the correlation of two annotators is the
product of their correlations with it, r_jk = l_j l_k. An annotator who always gives the same judgment has little noise,
but no correlation either; that is why reliability is not read off the residuals. The factor is what most annotators
see: where they fall into camps, the larger one defines it, and `factor_misfit` shows it. Only units with two judgments
count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import sparse

from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.alpha import (
    MEASUREMENT_LEVELS,
    MeasurementLevel,
    PairableJudgments,
    count_values_by_unit,
    mean_ranks,
    ratio_differences,
    sum_by_unit,
)
from aliquot.stats.annotator_pairs import AnnotatorPairs, standardise_range
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed, average_ranks, group_sums, row_blocks
from aliquot.stats.correlation import pearson

MIN_JUDGMENTS = 10
"""Compared judgments below which an annotator's reliability is not reported."""
_PRIOR_UNITS = 5.0  # shared units that count for the average annotator: few judgments or long chains decide little
_MAX_ROUNDS = 1_000
_TOLERANCE = 1e-10
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class AnnotatorModel:
    """One value per annotator; NaN where undefined."""

    judgments: IntArray  # judgments on units that others judged, too
    severity: FloatArray  # how much lower than the others this annotator judges on the same units
    # standard deviation of what is this annotator's alone, on his or her own use of the scale; NaN where it
    # cannot be distinguished from 0
    noise: FloatArray
    # share of the variance of his or her judgments that annotators have in common, at most 1; 0 for one who judgments
    # the other way round. Two annotators who were compared with nobody else are equally reliable: nobody can tell
    # who of two is wrong
    reliability: FloatArray
    misfit: float  # how far the pairs' correlations are from one common factor


@dataclass(frozen=True, eq=False)
class OthersComparison:
    """Each annotator's judgments and the mean of the others' on the same units; NaN where undefined."""

    pearson: FloatArray  # correlation with the others' mean
    spearman: FloatArray  # rank correlation with the others' mean
    difference: FloatArray  # mean of own judgment - others' mean
    same: FloatArray  # share of the others' judgments that are equal to the own


class CommonFactor(NamedTuple):
    """Correlations with the common factor, at most 1, and for whom more than 1 would fit better (a Heywood case)."""

    loadings: FloatArray
    beyond: BoolArray


def annotator_model(
    judgments: PairableJudgments,
    annotator: IntArray,
    annotators: int,
    pairs: AnnotatorPairs | None = None,
    sums: FloatArray | None = None,
) -> AnnotatorModel:
    """Severity, noise and reliability of each annotator.

    `annotator`: code of each judgment's annotator, in the order of what `pairable` was given. `sums` are the `moments`
    of `pairs`; without them there is no reliability.
    """
    who = annotator[judgments.kept]
    n = np.bincount(who, minlength=annotators)
    nothing = np.full(annotators, np.nan)
    if not len(who):
        return AnnotatorModel(n, nothing, nothing, nothing, float("nan"))
    y, scale = standardise_range(judgments.values)[judgments.code], float(np.ptp(judgments.values)) or 1.0
    bias = _fit_biases(judgments, who, y, annotators)
    severity = np.where(n > 0, -scale * bias + 0.0, np.nan)
    if pairs is None or sums is None:
        return AnnotatorModel(n, severity, nothing, nothing, float("nan"))
    centre = bias + float((y - bias[who]).mean())
    r = _pair_correlations(pairs, sums, centre)
    factor = common_factor(pairs.first, pairs.second, pairs.shared, r, annotators)
    reliability = np.where(n >= MIN_JUDGMENTS, np.maximum(factor.loadings, 0.0) ** 2, np.nan)
    spread = scale * _annotator_sds(who, y - centre[who], n)
    noise = np.where(factor.beyond, np.nan, spread * np.sqrt(1.0 - reliability))
    off = factor_misfit(pairs.first, pairs.second, pairs.shared, r, factor.loadings)
    return AnnotatorModel(n, severity, noise, reliability, off)


def _pair_correlations(pairs: AnnotatorPairs, sums: FloatArray, centre: FloatArray) -> FloatArray:
    """Correlation of each pair about the annotators' centres over all their judgments.

    About its own means a pair with few shared units would lose what makes units differ. Without gaps it is Pearson's.
    """
    n, x, y, xx, yy, xy = sums.T
    a, b = centre[pairs.first], centre[pairs.second]
    together = xy - b * x - a * y + n * a * b
    own, other = xx - 2 * a * x + n * a**2, yy - 2 * b * y + n * b**2
    defined = np.minimum(own, other) > 1e-12 * n  # rounding dust is no variance
    return np.where(defined, together / np.sqrt(np.where(defined, own * other, 1.0)), np.nan)


def _fit_biases(judgments: PairableJudgments, who: IntArray, y: FloatArray, annotators: int) -> FloatArray:
    """Least squares (D_n - N' D_m^-1 N) b = N'(y - unit means); they sum to 0 among annotators linked by units."""
    m = judgments.size.astype(np.float64)
    judged = sparse.csr_array((np.ones(len(who)), (judgments.unit, who)), shape=(len(m), annotators))
    laplacian = -(judged.T @ judged.multiply((1.0 / m)[:, None])).toarray()
    np.fill_diagonal(laplacian, laplacian.diagonal() + np.bincount(who, minlength=annotators))
    right = group_sums(who, y - (sum_by_unit(judgments, y) / m)[judgments.unit], annotators)
    return np.asarray(np.linalg.lstsq(laplacian, right, rcond=1e-9)[0])


def _annotator_sds(who: IntArray, centred: FloatArray, n: IntArray) -> FloatArray:
    """Root mean square of each annotator's judgments about his or her centre."""
    squares = group_sums(who, centred**2, len(n))
    return np.where(n > 1, np.sqrt(squares / np.maximum(n, 1)), np.nan)


def common_factor(
    first: IntArray, second: IntArray, shared: IntArray, correlation: FloatArray, annotators: int
) -> CommonFactor:
    """Each annotator's correlation with what annotators have in common, from the correlations of pairs.

    Minimises sum n_jk (r_jk - l_j l_k)^2 one annotator at a time, drawn to the average annotator with the weight of a
    few units. Of three annotators l_1^2 is about r_12 r_13 / r_23. Pairs with a correlation of NaN are left out.

    >>> pairs = np.array([0, 0, 1]), np.array([1, 2, 2]), np.full(3, 10**9)
    >>> common_factor(*pairs, np.array([0.72, 0.45, 0.4]), 3).loadings.round(3).tolist()
    [0.9, 0.8, 0.5]
    """
    known = np.isfinite(correlation)
    first, second, r = first[known], second[known], correlation[known]
    weight, product = np.zeros((annotators, annotators)), np.zeros((annotators, annotators))
    weight[first, second] = weight[second, first] = shared[known]
    product[first, second] = product[second, first] = shared[known] * r
    if not len(r):
        return CommonFactor(np.full(annotators, np.nan), np.zeros(annotators, dtype=np.bool_))
    centre = float(np.sqrt(max(product.sum() / weight.sum(), 0.0)))
    loadings, beyond = _coordinate_descent(weight, product, centre)
    partners = (weight > 0).sum(axis=1)
    lone = (partners[first] == 1) & (partners[second] == 1)
    loadings[first[lone]] = loadings[second[lone]] = np.sqrt(np.clip(r[lone], 0.0, 1.0))
    beyond[first[lone]] = beyond[second[lone]] = r[lone] > 1.0 + _ROUNDING
    return CommonFactor(np.where(partners > 0, loadings, np.nan), beyond)


def _coordinate_descent(weight: FloatArray, product: FloatArray, centre: float) -> tuple[FloatArray, BoolArray]:
    loadings, best = np.full(len(weight), min(max(centre, 0.1), 1.0)), np.zeros(len(weight))
    for _ in range(_MAX_ROUNDS):
        before = loadings.copy()
        for j in np.flatnonzero(weight.any(axis=1)):
            best[j] = (product[j] @ loadings + _PRIOR_UNITS * centre) / (weight[j] @ loadings**2 + _PRIOR_UNITS)
            loadings[j] = np.clip(best[j], -1.0, 1.0)
        if np.abs(loadings - before).max() < _TOLERANCE:
            break
    return loadings, np.asarray(np.abs(best) > 1.0 + _ROUNDING)


def factor_misfit(
    first: IntArray, second: IntArray, shared: IntArray, correlation: FloatArray, loadings: FloatArray
) -> float:
    """How far pairs' correlations are from one common factor: root mean square of r_jk - l_j l_k beyond chance.

    Chance is 1 / n_jk, the variance of a correlation of n_jk units about 0. NaN without pairs.

    >>> pairs = np.array([0, 0, 1]), np.array([1, 2, 2]), np.full(3, 10**9)
    >>> factor_misfit(*pairs, np.array([0.72, 0.45, 0.4]), np.array([0.9, 0.8, 0.5])) < 1e-3
    True
    """
    known = np.isfinite(correlation)
    if not known.any():
        return float("nan")
    left = correlation[known] - loadings[first[known]] * loadings[second[known]]
    weight = shared[known].astype(np.float64)
    excess = (weight * (left**2 - 1.0 / weight)).sum() / weight.sum()
    return float(np.sqrt(max(excess, 0.0)))


def compare_with_others(judgments: PairableJudgments, annotator: IntArray, annotators: int) -> OthersComparison:
    """Compare every annotator with the mean of the others on the same units."""
    who, y = annotator[judgments.kept], judgments.values[judgments.code]
    others = (judgments.size - 1.0)[judgments.unit]
    mean = (sum_by_unit(judgments, y)[judgments.unit] - y) / others
    equal = (
        (np.asarray(count_values_by_unit(judgments)[judgments.unit, judgments.code]).ravel() - 1.0) / others
        if len(y)
        else y
    )
    order = np.argsort(who, kind="stable")
    cuts = np.cumsum(np.bincount(who, minlength=annotators))[:-1]
    own_and_rest = list(zip(np.split(y[order], cuts), np.split(mean[order], cuts), strict=True))
    n = np.bincount(who, minlength=annotators)
    some = np.where(n > 0, n, np.nan)
    return OthersComparison(
        pearson=np.array([_pearson_or_nan(a, b) for a, b in own_and_rest]),
        spearman=np.array([_pearson_or_nan(average_ranks(a), average_ranks(b)) for a, b in own_and_rest]),
        difference=group_sums(who, y - mean, annotators) / some,
        same=group_sums(who, equal, annotators) / some,
    )


def _pearson_or_nan(a: FloatArray, b: FloatArray) -> float:
    """Pearson's correlation of at least three points."""
    return pearson(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)) if len(a) >= 3 else float("nan")


# -- Trust coefficients of annotators (Algorithm 1 of the coreference paper, HumEval 2022): who is in groups that agre


TrustVariant = Literal["paper", "released"]
TRUST_VARIANTS: tuple[TrustVariant, ...] = get_args(TrustVariant)
MAX_EXACT_ANNOTATORS = 15
"""Annotators up to which every combination is looked at."""
OUTLIER_THRESHOLD = 0.5
"""The paper's threshold: outliers are at or below it."""

_BLOCK = 100_000  # numbers held at a time: what fits into a processor's cache is several times faster
_DECIMALS = 12  # alphas that differ by rounding only share a rank


@dataclass(frozen=True, eq=False)
class TrustCoefficients:
    """What `trust_coefficients` gives."""

    coefficients: FloatArray  # one per annotator, at most 1; NaN for an annotator who shares no unit with anybody
    combinations: int  # the number of combinations with an alpha
    exact: bool  # whether all combinations were looked at

    @property
    def outliers(self) -> BoolArray:
        """The annotators that the paper leaves out."""
        outliers: BoolArray = self.coefficients <= OUTLIER_THRESHOLD
        return outliers


def trust_coefficients(
    table: FloatArray,
    *,
    level: MeasurementLevel = "nominal",
    variant: TrustVariant = "paper",
    combinations: int = 10_000,
    seed: Seed = 0,
) -> TrustCoefficients:
    """Trust coefficients of the annotators of a table.

    Args:
        table: units x annotators; NaN is missing.
        level: of alpha. The paper's numbers are nominal, though its scale is ordinal.
        variant: "paper" as printed: alphas of 0 or less share the rank 1, and combinations whose alpha is undefined are
            left out; "released" as in the authors' notebook: every distinct alpha has its rank, and alpha is 1 where
            all judgments are equal.
        combinations: how many to draw when there are more than 15 annotators.

    >>> table = np.array([[1, 1, 3.0], [2, 2, 1], [3, 3, 1], [1, 1, 2], [2, 2, 3]])
    >>> trust_coefficients(table).coefficients.round(2).tolist()
    [1.0, 1.0, -0.23]
    """
    _validate_trust_options(table, level, variant, combinations)
    present = np.isfinite(table)
    # Annotators who share a unit with somebody; others would collect alphas they had no part in.
    linked = present[present.sum(axis=1) >= 2].any(axis=0)
    if linked.sum() < 2:
        raise DataError("trust is undefined: no two annotators share a unit")
    annotators = int(linked.sum())
    exact = annotators <= MAX_EXACT_ANNOTATORS
    members = (
        _all_combinations(annotators)
        if exact
        else _random_combinations(annotators, combinations, np.random.default_rng(seed))
    )
    alphas, comparable = group_alphas(table[:, linked], members, level)
    if variant == "released":
        alphas = np.where(comparable & np.isnan(alphas), 1.0, alphas)
    sums = _sum_trust(np.round(alphas, _DECIMALS), members, variant)
    if not sums.max() > 0:
        raise DataError(
            "trust is undefined: no annotator is in combinations that agree better than chance "
            f"(the largest sum is {sums.max():.3g}); look at the pairs of annotators instead"
        )
    coefficients = np.full(table.shape[1], np.nan)
    coefficients[linked] = sums / sums.max()
    return TrustCoefficients(coefficients, int(np.isfinite(alphas).sum()), exact)


def _sum_trust(alphas: FloatArray, members: BoolArray, variant: TrustVariant) -> FloatArray:
    """What each annotator collects, divided by the number of combinations with him or her.

    That number is the same for all when every combination is looked at; in a random part of them it varies by chance.
    """
    defined = np.isfinite(alphas)
    if not defined.any():
        raise DataError("trust is undefined: no two annotators share units on which judgments differ")
    collected = (_dense_ranks(alphas[defined], variant) * alphas[defined]) @ members[defined]
    return np.asarray(collected / np.maximum(members.sum(axis=0), 1))


def _validate_trust_options(table: FloatArray, level: str, variant: str, combinations: int) -> None:
    if table.ndim != 2 or table.shape[1] < 2:
        raise DataError(f"trust needs a table of units x at least two annotators; it is {table.shape}")
    if level not in MEASUREMENT_LEVELS:
        raise unknown_name("level", level, MEASUREMENT_LEVELS)
    if variant not in TRUST_VARIANTS:
        raise unknown_name("variant", variant, TRUST_VARIANTS)
    if combinations < 1:
        raise OptionError(f"combinations={combinations}: draw at least one")


def _dense_ranks(alphas: FloatArray, variant: TrustVariant) -> FloatArray:
    """Dense ranks of rising alphas from 1 on; as printed, `score` starts at 0, so that only positive ones count up."""
    if variant == "released":
        return (np.unique(alphas, return_inverse=True)[1] + 1).astype(np.float64)
    first = 1 if alphas.min() <= 0 else 2  # the first positive alpha already counts up
    return (np.unique(np.maximum(alphas, 0.0), return_inverse=True)[1] + first).astype(np.float64)


def _all_combinations(annotators: int) -> BoolArray:
    """Every combination of at least two: combinations x annotators."""
    numbers = np.arange(2**annotators)
    members = (numbers[:, None] >> np.arange(annotators)) & 1 > 0
    return np.asarray(members[members.sum(axis=1) >= 2])


def _random_combinations(annotators: int, combinations: int, rng: np.random.Generator) -> BoolArray:
    """Distinct combinations, each as likely as any other."""
    members = np.unique(rng.random((combinations, annotators)) < 0.5, axis=0)
    return np.asarray(members[members.sum(axis=1) >= 2])


def group_alphas(table: FloatArray, members: BoolArray, level: MeasurementLevel) -> tuple[FloatArray, BoolArray]:
    """Alpha of each group (`members`: groups x annotators) in a units x annotators table; whether it shares a unit."""
    present = np.isfinite(table)
    values, inverse = np.unique(table[present], return_inverse=True)
    d2 = ratio_differences(values) if level == "ratio" else None
    code = np.full(table.shape, -1, dtype=np.int64)
    code[present] = inverse
    alphas, comparable = np.full(len(members), np.nan), np.zeros(len(members), dtype=np.bool_)
    per_group = len(table) * (1 if level == "interval" else max(1, len(values)))
    for rows in row_blocks(len(members), per_group, _BLOCK):
        who = members[rows].astype(np.float64)
        if level == "interval":
            observed, expected, n = _interval_sums(table, present, values, who)
        else:
            observed, expected, n = _count_sums(code, len(values), who, d2, ordinal=level == "ordinal")
        comparable[rows] = n > 0
        defined = expected > 1e-12 * n
        alphas[rows][defined] = 1.0 - (n[defined] - 1.0) * observed[defined] / expected[defined]
    return alphas, comparable


def _interval_sums(
    table: FloatArray, present: BoolArray, values: FloatArray, who: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums of squares instead of counts; judgments on the range 0 to 1."""
    low, spread = values.min(initial=np.inf), float(np.ptp(values)) if len(values) else 0.0
    y = np.where(present, (table - low) / (spread or 1.0), 0.0)
    m, first, second = (who @ part.T for part in (present.astype(np.float64), y, y**2))
    m, first, second = (np.where(m >= 2, part, 0.0) for part in (m, first, second))
    observed = (2.0 * (m * second - first**2) / np.maximum(m - 1.0, 1.0)).sum(axis=1)
    n, one, two = m.sum(axis=1), first.sum(axis=1), second.sum(axis=1)
    return observed, 2.0 * (n * two - one**2), n


def _count_sums(
    code: IntArray, values: int, who: FloatArray, d2: FloatArray | None, *, ordinal: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums of counts n_uc of each group's judgments: nominal, ordinal, or with the differences d2 of the values."""
    counts = np.stack([who @ (code == c).T.astype(np.float64) for c in range(values)], axis=-1)
    m = counts.sum(axis=-1)
    counts[m < 2] = 0.0
    m = np.where(m >= 2, m, 0.0)
    scale = 1.0 / np.maximum(m - 1.0, 1.0)
    n_c, n = counts.sum(axis=1), m.sum(axis=1)
    if d2 is not None:
        observed = (scale * ((counts @ d2) * counts).sum(axis=-1)).sum(axis=1)
        return observed, ((n_c @ d2) * n_c).sum(axis=1), n
    if ordinal:
        ranks = mean_ranks(n_c) / np.maximum(n, 1.0)[:, None]
        first, second = (np.einsum("guc,gc->gu", counts, power) for power in (ranks, ranks**2))
        one, two = (n_c * ranks).sum(axis=1), (n_c * ranks**2).sum(axis=1)
        return (2.0 * scale * (m * second - first**2)).sum(axis=1), 2.0 * (n * two - one**2), n
    return (scale * (m**2 - (counts**2).sum(axis=-1))).sum(axis=1), n**2 - (n_c**2).sum(axis=1), n
