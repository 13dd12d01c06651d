"""Intraclass correlations from variance components, balanced or not.

Model: answer = mean + unit + annotator + rest, all random. Components come from Henderson's method I (Searle 1971,
chapter 10): four quadratic forms equal their expectations; where every annotator judges every unit this is the analysis
of variance, and the correlations are those of Shrout and Fleiss (1979). Components are not cut at 0, as an average of
estimates cut at 0 would be too high; a correlation may therefore be negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aliquot.errors import unknown_name
from aliquot.stats.alpha import Pairable, pairable, unit_sums
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.item_bootstrap import Additive, item_sums, sparse_item_sums

ICCKind = Literal["icc1", "icc2", "icc3", "icc1k", "icc2k", "icc3k"]
ICC_KINDS: tuple[ICCKind, ...] = get_args(ICCKind)
"""One-way, two-way random (absolute agreement), two-way mixed (consistency); k: of the mean of a unit's answers."""

_HEAD = 6  # columns before those of the annotators


@dataclass(frozen=True)
class Components:
    """Variances of units, of annotators and of the rest; `answers` is the harmonic mean number of answers a unit."""

    unit: float
    annotator: float
    rest: float
    answers: float
    icc1: float
    icc2: float
    icc3: float
    icc1k: float
    icc2k: float
    icc3k: float


def icc(unit: IntArray, annotator: IntArray, value: FloatArray) -> Components:
    """Intraclass correlations of answers; units with one answer are left out, NaN is missing.

    >>> unit, annotator = np.divmod(np.arange(6), 2)
    >>> round(icc(unit, annotator, np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])).icc3, 6)
    1.0
    """
    answers = pairable(unit, value)
    sums = icc_sums(answers, annotator, int(annotator.max(initial=-1)) + 1)
    total = sums.sum(axis=0)[None] if answers.items else np.zeros((1, _HEAD))
    parts = [float(part[0]) for part in components(total)]
    kinds = {kind: float(correlation(total, kind)[0]) for kind in ICC_KINDS}
    scale = _spread(answers) ** 2
    return Components(parts[0] * scale, parts[1] * scale, parts[2] * scale, parts[3], **kinds)


def icc_measure(answers: Pairable, annotator: IntArray, annotators: int, kind: ICCKind) -> Additive:
    """An intraclass correlation as a measure of item weights.

    Args:
        answers: the answers that can be compared.
        annotator: code of each answer's annotator, in the order of what `pairable` was given.
        annotators: the number of annotators.
        kind: which correlation.
    """
    if kind not in ICC_KINDS:
        raise unknown_name("intraclass correlation", kind, ICC_KINDS)
    return Additive(icc_sums(answers, annotator, annotators), lambda total: correlation(total, kind))


def _spread(answers: Pairable) -> float:
    return float(np.ptp(answers.values)) or 1.0 if len(answers.values) else 1.0


def icc_sums(answers: Pairable, annotator: IntArray, annotators: int) -> FloatArray:
    """Sums over each item: units, m, m^2, 1/m (m answers a unit), y^2, unit totals^2 / m; n and y by annotator.

    Answers y are centred and scaled to a range of 1.
    """
    code = annotator[answers.kept]
    y = (answers.values[answers.code] - answers.values.mean()) / _spread(answers) if len(answers.code) else np.empty(0)
    m = answers.size.astype(np.float64)
    of_units = [np.ones(len(m)), m, m**2, 1.0 / m, unit_sums(answers, y**2), unit_sums(answers, y) ** 2 / m]
    shape = (answers.items, annotators)
    by_annotator = [
        sparse_item_sums(answers.answer_item, code, column, shape).toarray() for column in (np.ones(len(y)), y)
    ]
    return np.column_stack([item_sums(answers.item, of_units, answers.items), *by_annotator])


def components(total: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Variance of units, annotators, rest, and the harmonic mean number of answers, for each row of sums.

    With a units, b annotators, N answers, k_a = sum m_u^2 / N and k_b = sum n_j^2 / N:
    T_units - T_mean = (N - k_a) s_a + (a - k_b) s_b + (a - 1) s_e,
    T_annotators - T_mean = (b - k_a) s_a + (N - k_b) s_b + (b - 1) s_e,
    T_answers - T_mean = (N - k_a) s_a + (N - k_b) s_b + (N - 1) s_e.
    """
    a, n, squares, inverse, t_answers, t_units = total[:, :_HEAD].T
    counts, sums = np.split(total[:, _HEAD:], 2, axis=1)
    b = (counts > 0).sum(axis=1)
    safe = np.where(n > 0, n, 1.0)
    k_a, k_b = squares / safe, (counts**2).sum(axis=1) / safe
    t_mean = sums.sum(axis=1) ** 2 / safe
    t_annotators = (sums**2 / np.where(counts > 0, counts, 1.0)).sum(axis=1)
    left = np.stack([n - k_a, a - k_b, a - 1.0, b - k_a, n - k_b, b - 1.0, n - k_a, n - k_b, n - 1.0], axis=-1)
    right = np.stack([t_units - t_mean, t_annotators - t_mean, t_answers - t_mean], axis=-1)
    solved = _solve(left.reshape(-1, 3, 3), right)
    return solved[:, 0], solved[:, 1], solved[:, 2], a / np.where(inverse > 0, inverse, np.nan)


def _solve(left: FloatArray, right: FloatArray) -> FloatArray:
    """Solve each 3 x 3 system; NaN where it has no single solution (one unit, one annotator, no overlap)."""
    size = np.abs(left).max(axis=(1, 2), initial=1.0)[:, None, None]
    defined = np.abs(np.linalg.det(left / size)) > 1e-12
    safe = np.where(defined[:, None, None], left, np.eye(3))
    solved = np.linalg.solve(safe, right[..., None])[..., 0]
    return np.where(defined[:, None], solved, np.nan)


def correlation(total: FloatArray, kind: ICCKind) -> FloatArray:
    """One kind of intraclass correlation for each row of sums."""
    answers = total[:, 0] / np.where(total[:, 3] > 0, total[:, 3], np.nan)
    if kind.startswith("icc1"):
        between, noise = _one_way(total)
    else:
        unit, annotator, rest, _ = components(total)
        between, noise = unit, rest + (annotator if kind.startswith("icc2") else 0.0)
    noise = noise / answers if kind.endswith("k") else noise
    whole = between + noise
    return np.where(whole > 1e-12, between / np.where(whole > 1e-12, whole, 1.0), np.nan)


def _one_way(total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variance between and within units, annotators ignored: every unit may have had others."""
    a, n, squares, _, t_answers, t_units = total[:, :_HEAD].T
    sums = total[:, _HEAD + (total.shape[1] - _HEAD) // 2 :].sum(axis=1)
    free, safe = np.where(n > a, n - a, np.nan), np.where(n > 0, n, 1.0)
    within = (t_answers - t_units) / free
    size = np.where(a > 1, (n - squares / safe) / np.where(a > 1, a - 1.0, 1.0), np.nan)
    between = ((t_units - sums**2 / safe) / np.where(a > 1, a - 1.0, np.nan) - within) / size
    return between, within
