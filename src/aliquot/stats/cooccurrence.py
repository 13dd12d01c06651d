"""Where human and metric find significant differences, and how fast a metric makes up its mind (METHODS 7).

Invariant: every pair that both human and metric can compare is counted once, in one cell of a 3 x 3 table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.decomposition import pair_signs
from aliquot.stats.sign_bootstrap import SignCounts, check_stack, child_seeds, contrasts, sign_counts

Orientation = Literal["human", "given"]

VERDICTS = ("better", "not", "worse")
"""Rows (human) and columns (metric) of a co-occurrence table: the first system significantly better, not, worse."""


@dataclass(frozen=True)
class CoOccurrence:
    """Significance by human and by each metric.

    Attributes:
        counts: Metrics x 3 x 3: pairs by human verdict (rows) and metric verdict (columns), in the order of `VERDICTS`.
        human: Verdict on each pair: 1 better, 0 not, -1 worse; NaN without a common item.
        metrics: The same, metrics x pairs.
        pairs: Pairs counted, one number per metric.
    """

    counts: IntArray
    human: FloatArray
    metrics: FloatArray
    pairs: IntArray


@dataclass(frozen=True)
class Convergence:
    """Agreement of a metric on n items with its main prediction.

    Attributes:
        sizes: Items, n.
        agreement: Metrics x sizes; mean over pairs of P(sign on n items = sign on all), ties half.
        error: Metrics x sizes; Monte Carlo standard errors.
    """

    sizes: IntArray
    agreement: FloatArray
    error: FloatArray


def co_occurrence(
    human: FloatArray,
    metrics: FloatArray,
    trials: int = 1000,
    *,
    alpha: float = 0.05,
    orient: Orientation = "human",
    seed: Seed = 0,
) -> CoOccurrence:
    """Count pairs by whether human and metric find a significant difference, and which (Wei and Jia 2021, appendix E).

    A system is significantly better where it is behind in fewer than `alpha` of the draws of items with replacement,
    ties counting half: the one-sided paired bootstrap test in the direction of the difference.

    Args:
        human: Items x systems, NaN = missing.
        metrics: Metrics x items x systems, NaN = missing.
        trials: Bootstrap trials.
        alpha: Significance level, above 0 and below 0.5.
        orient: "human": the first system of a pair is the one ahead by human in more than half of the draws, so the
            human is never significantly "worse" and that row is 0, as in the paper. "given": the order of the systems.
        seed: Of the draws.

    Raises:
        OptionError: An alpha or orientation that does not exist, or shapes that do not match.
        DataError: No human score, or fewer than two systems.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> human = rng.normal(size=(100, 3)) + np.array([2.0, 1.0, 1.0])
        >>> co_occurrence(human, np.stack([-human])).counts
        array([[[0, 0, 2],
                [0, 1, 0],
                [0, 0, 0]]])
    """
    if not 0 < alpha < 0.5:
        raise OptionError(f"alpha is {alpha}; choose between 0 and 0.5, for instance 0.05")
    if orient not in get_args(Orientation):
        raise OptionError(f"orient is {orient!r}; give 'human' or 'given'")
    signs = pair_signs(human, metrics, trials, seed=seed)
    ahead = signs.human.share()[0]
    turn = np.where((ahead < 0.5) & (orient == "human"), -1.0, 1.0)
    by_human, by_metric = turn * _verdicts(ahead, alpha), turn * _verdicts(signs.metrics.share(), alpha)
    counts = np.stack([_table(by_human, verdicts) for verdicts in by_metric]) if len(by_metric) else np.empty((0, 3, 3))
    table = counts.astype(np.int64)
    return CoOccurrence(table, by_human, by_metric, table.sum(axis=(1, 2)))


def _verdicts(ahead: FloatArray, alpha: float) -> FloatArray:
    below = alpha - 1e-12  # 1 - 0.95 is not 0.05 in binary
    verdict = (1 - ahead < below).astype(np.float64) - (ahead < below)
    return np.where(np.isnan(ahead), np.nan, verdict)


def _table(human: FloatArray, metric: FloatArray) -> IntArray:
    known = ~(np.isnan(human) | np.isnan(metric))
    cells = 3 * (1 - human[known]) + (1 - metric[known])
    return np.bincount(cells.astype(np.int64), minlength=9).reshape(3, 3)


def convergence(metrics: FloatArray, sizes: IntArray, trials: int = 1000, *, seed: Seed = 0) -> Convergence:
    """Agreement of each metric's sign on n drawn items with its sign on all, for growing n (appendix B).

    A pair that is even on all items has no main prediction and counts as half.

    Args:
        metrics: Metrics x items x systems, NaN = missing.
        sizes: Numbers of items, n.
        trials: Bootstrap trials at each size.
        seed: Of the draws.

    Raises:
        DataError: No score, or fewer than two systems.

    Example:
        >>> scores = np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
        >>> convergence(scores, np.array([1, 3, 99]), seed=1).agreement.round(2)  # exactly 2 / 3 and 20 / 27 at first
        array([[0.64, 0.73, 1.  ]])
    """
    check_stack(metrics)
    if metrics.shape[2] < 2:
        raise DataError(f"there are {metrics.shape[2]} systems; two are needed to compare")
    scored = metrics[:, ~np.isnan(metrics).all(axis=(0, 2))]
    if not scored.size:
        raise DataError("no item has a metric score; give a metric that is there")
    main = _main_predictions(scored)
    grid = np.asarray(sizes, dtype=np.int64)
    seeds = child_seeds(seed, len(grid))
    found = [
        _agreement(sign_counts(scored, trials, size=int(size), seed=child), main)
        for size, child in zip(grid, seeds, strict=True)
    ]
    agreement, error = np.stack(found, axis=2) if found else np.empty((2, len(metrics), 0))
    return Convergence(grid, agreement, error)


def _main_predictions(scores: FloatArray) -> IntArray:
    """Signs of all pairs on all items: metrics x pairs, in -1, 0, 1."""
    items, systems = scores.shape[1:]
    main = np.zeros((len(scores), systems * (systems - 1) // 2), dtype=np.int64)
    for block in contrasts(scores):
        main[block.tables] = block.signs(block.add(np.ones((1, items))), items)[:, :, 0] - 1
    return main


def _agreement(counts: SignCounts, main: IntArray) -> FloatArray:
    """Mean agreement over pairs and its Monte Carlo error, from the spread of the batches: 2 x metrics."""
    trials = counts.trials[:, None, None]
    agree = np.where(main == 0, trials / 2, np.where(main > 0, counts.plus, trials - counts.plus))
    known = np.isfinite(counts.plus[0])
    pairs = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
    wins, weight = np.where(known, agree, 0.0).sum(axis=2), counts.trials / counts.trials.sum()
    mean = wins.sum(axis=0) / (pairs * counts.trials.sum())
    if len(weight) < 2:
        return np.stack([mean, np.full_like(mean, np.nan)])
    # A batch of n trials has the variance s^2 / n, so n (x - mean)^2 estimates s^2.
    by_batch = wins / (pairs * counts.trials[:, None])
    return np.stack([mean, np.sqrt(weight @ (by_batch - mean) ** 2 / (len(weight) - 1))])
