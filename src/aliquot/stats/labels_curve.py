"""How wrong a score is with k answers for each output instead of all of them: answers are drawn again and again.

The outputs are the same at every k, those with enough answers, so that the points of the curve can be compared. The
answers drawn are among those the result from all was made of: against that result the error ends at 0, and it
is too small throughout; against a truth from elsewhere (experts) it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed

Aggregate = Callable[[IntArray], FloatArray]
"""Takes the rows of the answers to use, gives a number for each cell; NaN where it cannot."""


@dataclass(frozen=True)
class CurvePoint:
    """One point of the curve.

    Attributes:
        k: answers for each output.
        wrong: share of decided outputs whose number differs from the truth, mean over draws.
        wrong_sd: its standard deviation over draws.
        undecided: share of outputs without a number.
        mean_error: mean absolute difference from the truth, over decided outputs.
        rms_error: root of the mean squared difference.
    """

    k: int
    wrong: float
    wrong_sd: float
    undecided: float
    mean_error: float
    rms_error: float


def draw_answers(cells: IntArray, k: int, rng: np.random.Generator) -> IntArray:
    """Rows of k answers of each cell drawn without replacement (all of them where there are fewer), in order.

    >>> draw_answers(np.array([0, 0, 0, 1]), 1, np.random.default_rng(0)).tolist()
    [2, 3]
    """
    shuffled = np.lexsort((rng.random(len(cells)), cells))
    ordered = cells[shuffled]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, dtype=np.bool_)
    start = np.maximum.accumulate(np.where(first, np.arange(len(ordered)), 0))
    return np.sort(shuffled[np.arange(len(ordered)) - start < k])


def labels_curve(
    cells: IntArray,
    aggregate: Aggregate,
    truth: FloatArray,
    counts: Sequence[int],
    *,
    repeats: int = 20,
    seed: Seed = 0,
) -> tuple[CurvePoint, ...]:
    """Draw k answers for each cell, aggregate them, and compare with the truth, `repeats` times for every k.

    >>> cells, values = np.repeat(np.arange(50), 4), np.tile([1.0, 1.0, 1.0, 0.0], 50)
    >>> mean = lambda rows: np.bincount(cells[rows], values[rows]) / np.bincount(cells[rows])
    >>> [round(point.mean_error, 1) for point in labels_curve(cells, mean, np.full(50, 0.75), [1, 4], seed=1)]
    [0.4, 0.0]
    """
    rng = np.random.default_rng(seed)
    judged: BoolArray = np.isfinite(truth)
    points = []
    for k in counts:
        drawn = np.array([_errors(aggregate(draw_answers(cells, k, rng)), truth, judged) for _ in range(repeats)])
        decided = drawn[np.isfinite(drawn).all(axis=1)]  # a draw in which nothing is decided has no error
        undecided = float(drawn[:, 1].mean())
        wrong, _, absolute, squared = decided.mean(axis=0).tolist() if len(decided) else [float("nan")] * 4
        spread = float(decided[:, 0].std(ddof=1)) if len(decided) > 1 else float("nan")
        points.append(CurvePoint(k, wrong, spread, undecided, absolute, float(np.sqrt(squared))))
    return tuple(points)


def _errors(found: FloatArray, truth: FloatArray, judged: BoolArray) -> tuple[float, float, float, float]:
    difference = np.abs(found - truth)[judged]
    decided = np.isfinite(difference)
    if not len(difference):
        return (float("nan"),) * 4
    if not decided.any():
        return float("nan"), 1.0, float("nan"), float("nan")
    known = difference[decided]
    return float((known > 1e-9).mean()), 1.0 - float(decided.mean()), float(known.mean()), float((known**2).mean())
