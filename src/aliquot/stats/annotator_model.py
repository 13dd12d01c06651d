"""Severity, noise and reliability of annotators, and trust coefficients of groups of annotators.

Severity: judgment of annotator j on unit u = t_u + b_j + rest, the b_j by least squares with every t_u free.
Reliability: one common factor (Spearman 1904), r_jk = l_j l_k for the correlation of annotators j and k. It is not
computed from the residuals, because an annotator who always gives the same judgment has little noise and no
correlation. Where annotators form camps, the larger camp defines the factor and `misfit` is large. Only units with two
judgments count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import sparse

from aliquot.errors import DataError
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
from aliquot.validation import at_least, one_of

MIN_JUDGMENTS = 10
"""Minimum number of compared judgments for a reliability."""
_PRIOR_UNITS = 5.0  # shared units that the prior (the average loading) counts as
_MAX_ROUNDS = 1_000
_TOLERANCE = 1e-10
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class AnnotatorModel:
    """One value per annotator; NaN where undefined."""

    judgments: IntArray  # judgments on units that others judged too
    severity: FloatArray  # how much lower than the others this annotator judges the same units
    # standard deviation of what is unique to this annotator, on the annotator's own scale; NaN where it cannot be
    # distinguished from 0
    noise: FloatArray
    # share of the variance of the judgments that annotators have in common, at most 1; 0 for reversed judgments. Two
    # annotators who were compared with each other only get the same value: which of them is wrong is not identified
    reliability: FloatArray
    misfit: float  # root mean square excess of the pairs' correlations over one common factor


@dataclass(frozen=True, eq=False)
class OthersComparison:
    """Agreement of each annotator with the mean of the others on the same units; NaN where undefined."""

    pearson: FloatArray  # correlation with the others' mean
    spearman: FloatArray  # rank correlation with the others' mean
    difference: FloatArray  # mean of own judgment - others' mean
    same: FloatArray  # share of the others' judgments equal to the annotator's own


class CommonFactor(NamedTuple):
    """Correlations with the common factor, cut to [-1, 1], and where the optimum exceeds 1 (Heywood cases)."""

    loadings: FloatArray
    beyond: BoolArray


def annotator_model(
    judgments: PairableJudgments,
    annotator: IntArray,
    annotators: int,
    pairs: AnnotatorPairs | None = None,
    sums: FloatArray | None = None,
) -> AnnotatorModel:
    """Estimate severity, noise and reliability of each annotator.

    `annotator`: annotator code of each input judgment of `pairable_judgments`. `sums`: `pair_moments` of `pairs`;
    without them reliability is NaN.
    """
    annotator_of = annotator[judgments.kept]
    n = np.bincount(annotator_of, minlength=annotators)
    undefined = np.full(annotators, np.nan)
    if not len(annotator_of):
        return AnnotatorModel(n, undefined, undefined, undefined, float("nan"))
    y, scale = standardise_range(judgments.values)[judgments.code], float(np.ptp(judgments.values)) or 1.0
    bias = _fit_biases(judgments, annotator_of, y, annotators)
    severity = np.where(n > 0, -scale * bias + 0.0, np.nan)
    if pairs is None or sums is None:
        return AnnotatorModel(n, severity, undefined, undefined, float("nan"))
    centre = bias + float((y - bias[annotator_of]).mean())
    r = _pair_correlations(pairs, sums, centre)
    factor = common_factor(pairs.first, pairs.second, pairs.shared, r, annotators)
    reliability = np.where(n >= MIN_JUDGMENTS, np.maximum(factor.loadings, 0.0) ** 2, np.nan)
    spread = scale * _annotator_sds(annotator_of, y - centre[annotator_of], n)
    noise = np.where(factor.beyond, np.nan, spread * np.sqrt(1.0 - reliability))
    fit_error = factor_misfit(pairs.first, pairs.second, pairs.shared, r, factor.loadings)
    return AnnotatorModel(n, severity, noise, reliability, fit_error)


def _pair_correlations(pairs: AnnotatorPairs, sums: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the correlation of each pair, centred on the annotators' means over all their judgments.

    Centred on its own means, a pair with few shared units would lose the variance between units. Without gaps it is
    Pearson's.
    """
    n, x, y, xx, yy, xy = sums.T
    a, b = centre[pairs.first], centre[pairs.second]
    together = xy - b * x - a * y + n * a * b
    square_a, square_b = xx - 2 * a * x + n * a**2, yy - 2 * b * y + n * b**2
    defined = np.minimum(square_a, square_b) > 1e-12 * n  # less is rounding, not variance
    return np.where(defined, together / np.sqrt(np.where(defined, square_a * square_b, 1.0)), np.nan)


def _fit_biases(judgments: PairableJudgments, annotator_of: IntArray, y: FloatArray, annotators: int) -> FloatArray:
    """Solve (D_n - N' D_m^-1 N) b = N'(y - unit means); they sum to 0 among annotators linked by units."""
    m = judgments.size.astype(np.float64)
    judged = sparse.csr_array((np.ones(len(annotator_of)), (judgments.unit, annotator_of)), shape=(len(m), annotators))
    laplacian = -(judged.T @ judged.multiply((1.0 / m)[:, None])).toarray()
    np.fill_diagonal(laplacian, laplacian.diagonal() + np.bincount(annotator_of, minlength=annotators))
    right = group_sums(annotator_of, y - (sum_by_unit(judgments, y) / m)[judgments.unit], annotators)
    return np.asarray(np.linalg.lstsq(laplacian, right, rcond=1e-9)[0])


def _annotator_sds(annotator_of: IntArray, centred: FloatArray, n: IntArray) -> FloatArray:
    """Return the root mean square of each annotator's centred judgments; NaN below two."""
    squares = group_sums(annotator_of, centred**2, len(n))
    return np.where(n > 1, np.sqrt(squares / np.maximum(n, 1)), np.nan)


def common_factor(
    first: IntArray, second: IntArray, shared: IntArray, correlation: FloatArray, annotators: int
) -> CommonFactor:
    """Estimate each annotator's correlation with the common factor from the correlations of pairs.

    Minimises sum n_jk (r_jk - l_j l_k)^2 by coordinate descent, with a prior at the average loading that counts as a
    few units. Of three annotators l_1^2 is about r_12 r_13 / r_23. NaN correlations are left out.

    >>> pairs = np.array([0, 0, 1]), np.array([1, 2, 2]), np.full(3, 10**9)
    >>> common_factor(*pairs, np.array([0.72, 0.45, 0.4]), 3).loadings.round(3).tolist()
    [0.9, 0.8, 0.5]
    """
    defined = np.isfinite(correlation)
    first, second, r = first[defined], second[defined], correlation[defined]
    weight, product = np.zeros((annotators, annotators)), np.zeros((annotators, annotators))
    weight[first, second] = weight[second, first] = shared[defined]
    product[first, second] = product[second, first] = shared[defined] * r
    if not len(r):
        return CommonFactor(np.full(annotators, np.nan), np.zeros(annotators, dtype=np.bool_))
    centre = float(np.sqrt(max(product.sum() / weight.sum(), 0.0)))
    loadings, beyond = _coordinate_descent(weight, product, centre)
    partners = (weight > 0).sum(axis=1)
    isolated = (partners[first] == 1) & (partners[second] == 1)
    loadings[first[isolated]] = loadings[second[isolated]] = np.sqrt(np.clip(r[isolated], 0.0, 1.0))
    beyond[first[isolated]] = beyond[second[isolated]] = r[isolated] > 1.0 + _ROUNDING
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
    """Return the root mean square of r_jk - l_j l_k in excess of chance, 1 / n_jk; NaN without pairs.

    1 / n_jk is the variance of a correlation of n_jk units about 0.

    >>> pairs = np.array([0, 0, 1]), np.array([1, 2, 2]), np.full(3, 10**9)
    >>> factor_misfit(*pairs, np.array([0.72, 0.45, 0.4]), np.array([0.9, 0.8, 0.5])) < 1e-3
    True
    """
    defined = np.isfinite(correlation)
    if not defined.any():
        return float("nan")
    residual = correlation[defined] - loadings[first[defined]] * loadings[second[defined]]
    weight = shared[defined].astype(np.float64)
    excess = (weight * (residual**2 - 1.0 / weight)).sum() / weight.sum()
    return float(np.sqrt(max(excess, 0.0)))


def compare_with_others(judgments: PairableJudgments, annotator: IntArray, annotators: int) -> OthersComparison:
    """Compare every annotator with the mean of the others on the same units."""
    annotator_of, y = annotator[judgments.kept], judgments.values[judgments.code]
    other_count = (judgments.size - 1.0)[judgments.unit]
    mean = (sum_by_unit(judgments, y)[judgments.unit] - y) / other_count
    equal = (
        (np.asarray(count_values_by_unit(judgments)[judgments.unit, judgments.code]).ravel() - 1.0) / other_count
        if len(y)
        else y
    )
    order = np.argsort(annotator_of, kind="stable")
    cuts = np.cumsum(np.bincount(annotator_of, minlength=annotators))[:-1]
    own_and_rest = list(zip(np.split(y[order], cuts), np.split(mean[order], cuts), strict=True))
    n = np.bincount(annotator_of, minlength=annotators)
    counts = np.where(n > 0, n, np.nan)
    return OthersComparison(
        pearson=np.array([_pearson_or_nan(a, b) for a, b in own_and_rest]),
        spearman=np.array([_pearson_or_nan(average_ranks(a), average_ranks(b)) for a, b in own_and_rest]),
        difference=group_sums(annotator_of, y - mean, annotators) / counts,
        same=group_sums(annotator_of, equal, annotators) / counts,
    )


def _pearson_or_nan(a: FloatArray, b: FloatArray) -> float:
    """Return Pearson's correlation; NaN below three points."""
    return pearson(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)) if len(a) >= 3 else float("nan")


# -- Trust coefficients of annotators (Algorithm 1 of the HumEval 2022 coreference paper) ------------------------------


TrustVariant = Literal["paper", "released"]
TRUST_VARIANTS: tuple[TrustVariant, ...] = get_args(TrustVariant)
MAX_EXACT_ANNOTATORS = 15
"""Maximum number of annotators for which every combination is used."""
OUTLIER_THRESHOLD = 0.5
"""Threshold of the paper: coefficients at or below it are outliers."""

_BLOCK = 100_000  # numbers held at a time; fits into the processor's cache
_DECIMALS = 12  # alphas equal up to rounding share a rank


@dataclass(frozen=True, eq=False)
class TrustCoefficients:
    """Trust coefficients of annotators (Algorithm 1 of the HumEval 2022 coreference paper)."""

    coefficients: FloatArray  # at most 1; NaN for an annotator who shares no unit with others
    combinations: int  # number of combinations with an alpha
    exact: bool  # whether all combinations were used

    @property
    def outliers(self) -> BoolArray:
        """Annotators that the paper excludes."""
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
    """Compute trust coefficients: high for annotators who are in groups with high alpha.

    Args:
        table: units x annotators; NaN is missing.
        level: of alpha. The paper's numbers are nominal, though its scale is ordinal.
        variant: "paper" as printed: alphas of 0 or less share the rank 1, and combinations whose alpha is undefined are
            left out; "released" as in the authors' notebook: every distinct alpha has its rank, and alpha is 1 where
            all judgments are equal.
        combinations: Number of combinations to draw for more than 15 annotators.

    >>> table = np.array([[1, 1, 3.0], [2, 2, 1], [3, 3, 1], [1, 1, 2], [2, 2, 3]])
    >>> trust_coefficients(table).coefficients.round(2).tolist()
    [1.0, 1.0, -0.23]
    """
    _validate_trust_options(table, level, variant, combinations)
    present = np.isfinite(table)
    # Only annotators who share a unit: others would be credited with alphas of groups that they do not contribute to.
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
    """Return each annotator's sum of rank x alpha, divided by the number of combinations with the annotator.

    That number is constant if all combinations are used, and random otherwise.
    """
    defined = np.isfinite(alphas)
    if not defined.any():
        raise DataError("trust is undefined: no two annotators share units on which judgments differ")
    collected = (_dense_ranks(alphas[defined], variant) * alphas[defined]) @ members[defined]
    return np.asarray(collected / np.maximum(members.sum(axis=0), 1))


def _validate_trust_options(table: FloatArray, level: str, variant: str, combinations: int) -> None:
    if table.ndim != 2 or table.shape[1] < 2:
        raise DataError(f"trust needs a table of units x at least two annotators; it is {table.shape}")
    one_of("level", level, MEASUREMENT_LEVELS)
    one_of("variant", variant, TRUST_VARIANTS)
    at_least("combinations", combinations, 1, "draw at least one")


def _dense_ranks(alphas: FloatArray, variant: TrustVariant) -> FloatArray:
    """Return dense ranks of alphas from 1; in the variant "paper" alphas of 0 or less share rank 1."""
    if variant == "released":
        return (np.unique(alphas, return_inverse=True)[1] + 1).astype(np.float64)
    first = 1 if alphas.min() <= 0 else 2  # positive alphas start at rank 2
    return (np.unique(np.maximum(alphas, 0.0), return_inverse=True)[1] + first).astype(np.float64)


def _all_combinations(annotators: int) -> BoolArray:
    """Return all combinations of at least two annotators, combinations x annotators."""
    numbers = np.arange(2**annotators)
    members = (numbers[:, None] >> np.arange(annotators)) & 1 > 0
    return np.asarray(members[members.sum(axis=1) >= 2])


def _random_combinations(annotators: int, combinations: int, rng: np.random.Generator) -> BoolArray:
    """Draw distinct combinations with equal probability."""
    members = np.unique(rng.random((combinations, annotators)) < 0.5, axis=0)
    return np.asarray(members[members.sum(axis=1) >= 2])


def group_alphas(table: FloatArray, members: BoolArray, level: MeasurementLevel) -> tuple[FloatArray, BoolArray]:
    """Return alpha of each group (`members`: groups x annotators), and whether the group shares a unit."""
    present = np.isfinite(table)
    values, inverse = np.unique(table[present], return_inverse=True)
    d2 = ratio_differences(values) if level == "ratio" else None
    code = np.full(table.shape, -1, dtype=np.int64)
    code[present] = inverse
    alphas, comparable = np.full(len(members), np.nan), np.zeros(len(members), dtype=np.bool_)
    per_group = len(table) * (1 if level == "interval" else max(1, len(values)))
    for rows in row_blocks(len(members), per_group, _BLOCK):
        group = members[rows].astype(np.float64)
        if level == "interval":
            observed, expected, n = _interval_sums(table, present, values, group)
        else:
            observed, expected, n = _count_sums(code, len(values), group, d2, ordinal=level == "ordinal")
        comparable[rows] = n > 0
        defined = expected > 1e-12 * n
        alphas[rows][defined] = 1.0 - (n[defined] - 1.0) * observed[defined] / expected[defined]
    return alphas, comparable


def _interval_sums(
    table: FloatArray, present: BoolArray, values: FloatArray, group: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return observed and expected differences and n of each group from sums of squares; judgments scaled to 0 to 1."""
    low, spread = values.min(initial=np.inf), float(np.ptp(values)) if len(values) else 0.0
    y = np.where(present, (table - low) / (spread or 1.0), 0.0)
    m, first, second = (group @ part.T for part in (present.astype(np.float64), y, y**2))
    m, first, second = (np.where(m >= 2, part, 0.0) for part in (m, first, second))
    observed = (2.0 * (m * second - first**2) / np.maximum(m - 1.0, 1.0)).sum(axis=1)
    n, total, total_square = m.sum(axis=1), first.sum(axis=1), second.sum(axis=1)
    return observed, 2.0 * (n * total_square - total**2), n


def _count_sums(
    code: IntArray, values: int, group: FloatArray, d2: FloatArray | None, *, ordinal: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return observed and expected differences and n of each group from counts n_uc of the values."""
    counts = np.stack([group @ (code == c).T.astype(np.float64) for c in range(values)], axis=-1)
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
        total, total_square = (n_c * ranks).sum(axis=1), (n_c * ranks**2).sum(axis=1)
        return (2.0 * scale * (m * second - first**2)).sum(axis=1), 2.0 * (n * total_square - total**2), n
    return (scale * (m**2 - (counts**2).sum(axis=-1))).sum(axis=1), n**2 - (n_c**2).sum(axis=1), n
