"""What a budget promises: truths and estimates, replayed or drawn, turned into widths and chances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

Progress = Callable[[int, int], None]
_BLOCK = 2_000_000  # numbers of draws x pairs that are held at once


@dataclass(frozen=True, eq=False)
class Outlook:
    """Truths and what estimates of them at one budget say; a first axis of 1 is the same for all R draws.

    Attributes:
        truth: R x M or 1 x M, true means.
        estimates: R x M.
        half: R x M or 1 x M, half widths of the means' intervals; NaN where no spread was seen.
        pair_half: R x M x M or 1 x M x M, half widths of the intervals of differences.
        pair_se: likewise, their standard errors.
        expected: N, how often each item is expected to be judged.
    """

    truth: FloatArray
    estimates: FloatArray
    half: FloatArray
    pair_half: FloatArray
    pair_se: FloatArray
    expected: FloatArray


@dataclass(frozen=True)
class Point:
    """What a method promises at one budget.

    Attributes:
        method: as typed.
        items: to judge, of the whole test set.
        share: of the test set; NaN where it has no end.
        judgments: of all systems together.
        hours: of annotators; NaN where nobody said how long judging takes.
        money: likewise.
        width: mean expected width of the interval of a system's mean.
        width_difference: of the difference of two systems.
        detects: the difference that a typical pair must have to be told apart with the power asked for.
        accuracy: expected share of the pairs in the right order.
        accuracy_error: Monte Carlo standard error of it.
        best: chance that the best system comes first.
        ranking: chance that the whole order is right.
        apart: expected number of pairs told apart, the right way.
        asked: whether the budget was asked for, or only serves to find others.
    """

    method: str
    items: int
    share: float
    judgments: float
    hours: float
    money: float
    width: float
    width_difference: float
    detects: float
    accuracy: float
    accuracy_error: float
    best: float
    ranking: float
    apart: float
    asked: bool = True


@dataclass(frozen=True, eq=False)
class Chances:
    """Chances that follow from an outlook; `pairs` are those of each pair a < b to be told apart."""

    accuracy: float
    accuracy_error: float
    best: float
    ranking: float
    pairs: FloatArray


def chances(outlook: Outlook) -> Chances:
    """Count over the draws how often pairs, the best and the whole order are right, and differences significant.

    A pair tied in truth is right whatever is said of its order, counts half for the accuracy unless it is tied in the
    estimates, too, and cannot be told apart the right way.

    >>> ones = np.full((1, 2, 2), 1.0)
    >>> seen = np.array([[3.0, 0.0], [0.5, 0.0], [0.0, 0.5]])
    >>> found = chances(Outlook(np.array([[1.0, 0.0]]), seen, ones[0], ones, ones, np.ones(1)))
    >>> round(found.accuracy, 3), found.pairs.round(3)
    (0.667, array([0.333]))
    """
    draws, m = outlook.estimates.shape
    first, second = np.triu_indices(m, 1)
    block = max(1, _BLOCK // max(1, len(first)))
    accuracy, right, apart = np.zeros(draws), np.zeros(draws, dtype=bool), np.zeros(len(first))
    for start in range(0, draws, block):
        rows = slice(start, start + block)
        true, said = (
            _differences(_rows(outlook.truth, rows), first, second),
            _differences(outlook.estimates[rows], first, second),
        )
        half = _rows(outlook.pair_half, rows)[:, first, second]
        true_sign, said_sign = np.sign(true), np.sign(said)
        accuracy[rows] = 1.0 - np.abs(true_sign - said_sign).mean(axis=1) / 2
        right[rows] = (true_sign * said_sign >= 0).all(axis=1) & ((said_sign != 0) | (true_sign == 0)).all(axis=1)
        apart += ((np.abs(said) > half) & (true_sign * said_sign > 0)).sum(axis=0)
    error = float(accuracy.std(ddof=1) / np.sqrt(draws)) if draws > 1 else 0.0
    return Chances(
        float(accuracy.mean()), error, float(_best(outlook).mean()), float(right.mean()), apart / draws
    )  # fmt: skip


def _rows(values: FloatArray, rows: slice) -> FloatArray:
    return values if len(values) == 1 else values[rows]


def _differences(values: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    """Differences of all pairs, 0 where they are rounding."""
    gaps: FloatArray = values[:, first] - values[:, second]
    noise = 1e-10 * np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    return np.where(np.abs(gaps) > noise, gaps, 0.0)


def _best(outlook: Outlook) -> BoolArray:
    """Whether the system that comes first is a best one in truth."""
    chosen = outlook.estimates.argmax(axis=1)
    truth = np.broadcast_to(outlook.truth, outlook.estimates.shape)
    top = truth.max(axis=1)
    found: BoolArray = truth[np.arange(len(chosen)), chosen] >= top - 1e-10 * np.abs(top)
    return found


def widths(outlook: Outlook, power: float) -> tuple[float, float, float]:
    """Mean widths of the intervals of means and of differences, and the difference that is detected with this power."""
    first, second = np.triu_indices(outlook.estimates.shape[1], 1)
    half, se = outlook.pair_half[:, first, second], outlook.pair_se[:, first, second]
    return 2 * _mean(outlook.half), 2 * _mean(half), _mean(half + ndtri(power) * se)


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
