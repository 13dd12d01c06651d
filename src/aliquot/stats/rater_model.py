"""Each annotator against the others: severity, noise and reliability.

Location: answer of annotator j on unit u = t_u + b_j + rest, the b_j by least squares with every t_u free.
Reliability: one common factor, what annotators see alike (Spearman 1904): the correlation of two annotators is the
product of their correlations with it, r_jk = l_j l_k. An annotator who always answers the same has no noise to speak
of, but no correlation either; that is why reliability is not read off the residuals. The factor is what most annotators
see: where they fall into camps, the larger one defines it, and `misfit` says so. Only units with two answers count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.stats import rankdata

from aliquot.stats.alpha import Pairable, unit_counts, unit_sums
from aliquot.stats.annotator_pairs import AnnotatorPairs, standard
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.correlation import pearson
from aliquot.stats.grouping import group_sums

MIN_ANSWERS = 10
"""Compared answers below which an annotator's reliability says nothing."""
_PRIOR = 5.0  # shared units that speak for the average annotator: few answers, or annotators in a chain, decide little
_ROUNDS = 1_000
_STILL = 1e-10
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class AnnotatorModel:
    """One value per annotator; NaN where it cannot be told.

    Attributes:
        answers: answers on units that others judged, too.
        severity: how much lower than the others this annotator answers on the same units.
        noise: standard deviation of what is this annotator's alone, on his or her own use of the scale; NaN where it
            cannot be told from none.
        reliability: share of the variance of his or her answers that annotators have in common, at most 1; 0 for one
            who answers the other way round. Two annotators who were compared with nobody else are equally reliable:
            nobody can tell who of two is wrong.
        misfit: how far the pairs' correlations are from one common factor.
    """

    answers: IntArray
    severity: FloatArray
    noise: FloatArray
    reliability: FloatArray
    misfit: float


@dataclass(frozen=True, eq=False)
class AgainstTheRest:
    """Each annotator's answers and the mean of the others' on the same units; NaN where undefined.

    Attributes:
        pearson: correlation with the others' mean.
        spearman: rank correlation with the others' mean.
        difference: mean of own answer - others' mean.
        same: share of the others' answers that are equal to the own.
    """

    pearson: FloatArray
    spearman: FloatArray
    difference: FloatArray
    same: FloatArray


class CommonFactor(NamedTuple):
    """Correlations with the common factor, at most 1, and for whom more than 1 would fit better (a Heywood case)."""

    loadings: FloatArray
    beyond: BoolArray


def annotator_model(
    answers: Pairable,
    annotator: IntArray,
    annotators: int,
    pairs: AnnotatorPairs | None = None,
    sums: FloatArray | None = None,
) -> AnnotatorModel:
    """Severity, noise and reliability of each annotator.

    Args:
        answers: the answers that can be compared.
        annotator: code of each answer's annotator, in the order of what `pairable` was given.
        annotators: the number of annotators.
        pairs: the pairs of annotators; without them there is no reliability.
        sums: their `moments`.
    """
    who = annotator[answers.kept]
    n = np.bincount(who, minlength=annotators)
    nothing = np.full(annotators, np.nan)
    if not len(who):
        return AnnotatorModel(n, nothing, nothing, nothing, float("nan"))
    y, scale = standard(answers.values)[answers.code], float(np.ptp(answers.values)) or 1.0
    bias = _biases(answers, who, y, annotators)
    severity = np.where(n > 0, -scale * bias + 0.0, np.nan)
    if pairs is None or sums is None:
        return AnnotatorModel(n, severity, nothing, nothing, float("nan"))
    centre = bias + float((y - bias[who]).mean())
    r = _correlations(pairs, sums, centre)
    factor = common_factor(pairs.first, pairs.second, pairs.shared, r, annotators)
    reliability = np.where(n >= MIN_ANSWERS, np.maximum(factor.loadings, 0.0) ** 2, np.nan)
    spread = scale * _spreads(who, y - centre[who], n)
    noise = np.where(factor.beyond, np.nan, spread * np.sqrt(1.0 - reliability))
    off = misfit(pairs.first, pairs.second, pairs.shared, r, factor.loadings)
    return AnnotatorModel(n, severity, noise, reliability, off)


def _correlations(pairs: AnnotatorPairs, sums: FloatArray, centre: FloatArray) -> FloatArray:
    """Correlation of each pair about the annotators' centres over all their answers.

    About its own means a pair with few shared units would lose what makes units differ. Without gaps it is Pearson's.
    """
    n, x, y, xx, yy, xy = sums.T
    a, b = centre[pairs.first], centre[pairs.second]
    together = xy - b * x - a * y + n * a * b
    own, other = xx - 2 * a * x + n * a**2, yy - 2 * b * y + n * b**2
    defined = np.minimum(own, other) > 1e-12 * n  # rounding dust is no variance
    return np.where(defined, together / np.sqrt(np.where(defined, own * other, 1.0)), np.nan)


def _biases(answers: Pairable, who: IntArray, y: FloatArray, annotators: int) -> FloatArray:
    """Least squares (D_n - N' D_m^-1 N) b = N'(y - unit means); they sum to 0 among annotators linked by units."""
    m = answers.size.astype(np.float64)
    judged = sparse.csr_array((np.ones(len(who)), (answers.unit, who)), shape=(len(m), annotators))
    laplacian = -(judged.T @ judged.multiply((1.0 / m)[:, None])).toarray()
    np.fill_diagonal(laplacian, laplacian.diagonal() + np.bincount(who, minlength=annotators))
    right = group_sums(who, y - (unit_sums(answers, y) / m)[answers.unit], annotators)
    return np.asarray(np.linalg.lstsq(laplacian, right, rcond=1e-9)[0])


def _spreads(who: IntArray, centred: FloatArray, n: IntArray) -> FloatArray:
    """Root mean square of each annotator's answers about his or her centre."""
    squares = group_sums(who, centred**2, len(n))
    return np.where(n > 1, np.sqrt(squares / np.maximum(n, 1)), np.nan)


def common_factor(
    first: IntArray, second: IntArray, shared: IntArray, correlation: FloatArray, annotators: int
) -> CommonFactor:
    """Each annotator's correlation with what annotators have in common, from the correlations of pairs.

    Minimises sum n_jk (r_jk - l_j l_k)^2 one annotator at a time, drawn to the average annotator with the weight of a
    few units. Of three annotators l_1^2 is about r_12 r_13 / r_23.

    Args:
        first: annotator of each pair.
        second: the other.
        shared: units both judged.
        correlation: of their answers; NaN pairs are left out.
        annotators: the number of annotators.

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
    loadings, beyond = _descend(weight, product, centre)
    partners = (weight > 0).sum(axis=1)
    lone = (partners[first] == 1) & (partners[second] == 1)
    loadings[first[lone]] = loadings[second[lone]] = np.sqrt(np.clip(r[lone], 0.0, 1.0))
    beyond[first[lone]] = beyond[second[lone]] = r[lone] > 1.0 + _ROUNDING
    return CommonFactor(np.where(partners > 0, loadings, np.nan), beyond)


def _descend(weight: FloatArray, product: FloatArray, centre: float) -> tuple[FloatArray, BoolArray]:
    loadings, best = np.full(len(weight), min(max(centre, 0.1), 1.0)), np.zeros(len(weight))
    for _ in range(_ROUNDS):
        before = loadings.copy()
        for j in np.flatnonzero(weight.any(axis=1)):
            best[j] = (product[j] @ loadings + _PRIOR * centre) / (weight[j] @ loadings**2 + _PRIOR)
            loadings[j] = np.clip(best[j], -1.0, 1.0)
        if np.abs(loadings - before).max() < _STILL:
            break
    return loadings, np.asarray(np.abs(best) > 1.0 + _ROUNDING)


def misfit(first: IntArray, second: IntArray, shared: IntArray, correlation: FloatArray, loadings: FloatArray) -> float:
    """How far pairs' correlations are from one common factor: root mean square of r_jk - l_j l_k beyond chance.

    Chance is 1 / n_jk, the variance of a correlation of n_jk units about 0. NaN without pairs.

    >>> pairs = np.array([0, 0, 1]), np.array([1, 2, 2]), np.full(3, 10**9)
    >>> misfit(*pairs, np.array([0.72, 0.45, 0.4]), np.array([0.9, 0.8, 0.5])) < 1e-3
    True
    """
    known = np.isfinite(correlation)
    if not known.any():
        return float("nan")
    left = correlation[known] - loadings[first[known]] * loadings[second[known]]
    weight = shared[known].astype(np.float64)
    excess = (weight * (left**2 - 1.0 / weight)).sum() / weight.sum()
    return float(np.sqrt(max(excess, 0.0)))


def against_the_rest(answers: Pairable, annotator: IntArray, annotators: int) -> AgainstTheRest:
    """Compare every annotator with the mean of the others on the same units."""
    who, y = annotator[answers.kept], answers.values[answers.code]
    others = (answers.size - 1.0)[answers.unit]
    mean = (unit_sums(answers, y)[answers.unit] - y) / others
    equal = (np.asarray(unit_counts(answers)[answers.unit, answers.code]).ravel() - 1.0) / others if len(y) else y
    order = np.argsort(who, kind="stable")
    cuts = np.cumsum(np.bincount(who, minlength=annotators))[:-1]
    own, rest = np.split(y[order], cuts), np.split(mean[order], cuts)
    n = np.bincount(who, minlength=annotators)
    some = np.where(n > 0, n, np.nan)
    return AgainstTheRest(
        pearson=np.array([_correlation(a, b) for a, b in zip(own, rest, strict=True)]),
        spearman=np.array([_correlation(rankdata(a), rankdata(b)) for a, b in zip(own, rest, strict=True)]),
        difference=group_sums(who, y - mean, annotators) / some,
        same=group_sums(who, equal, annotators) / some,
    )


def _correlation(a: FloatArray, b: FloatArray) -> float:
    """Pearson's correlation of at least three points."""
    return pearson(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)) if len(a) >= 3 else float("nan")
