"""Searching for a good subset: the best of many random ones by agreement with the full ranking."""

from __future__ import annotations

import warnings

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError
from aliquot.select.registry import Subset, subset
from aliquot.select.scores import metric_scores
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.subset_search import best_random_subset, greedy_subset

_PAPER = "Zouhar et al. 2025, section 3"
_NEEDS = ("metric", "systems")


@subset("bruteforce", needs=_NEEDS, paper=_PAPER, advice="An upper bound to study; fits the metric, not people.")
def bruteforce(
    evalset: EvalSet, *, n: int, rng: np.random.Generator, metric: str | None = None, simulations: int = 1000
) -> Subset:
    """The best of many random subsets by soft pairwise accuracy of a metric.

    Args:
        metric: the score whose full-set ranking is to be kept.
        simulations: how many subsets to try.
    """
    rows, values = _complete(evalset, metric, n)
    chosen, accuracy = best_random_subset(values, n, simulations, rng)
    return Subset(rows[chosen], details={"metric_spa": float(accuracy)})


@subset("greedy", needs=_NEEDS, paper=_PAPER, advice="Bruteforce in steps: better on the metric, slower.")
def greedy(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    metric: str | None = None,
    simulations: int = 1000,
    step: int = 10,
) -> Subset:
    """Grow a subset, each step the best of many random extensions by soft pairwise accuracy of a metric.

    Args:
        metric: the score whose full-set ranking is to be kept.
        simulations: how many extensions to try in each step.
        step: how many items to add at a time.
    """
    rows, values = _complete(evalset, metric, n)
    chosen, accuracy = greedy_subset(values, n, simulations, step, rng)
    return Subset(rows[chosen], details={"metric_spa": float(accuracy)})


def _complete(evalset: EvalSet, metric: str | None, n: int) -> tuple[IntArray, FloatArray]:
    """Return the rows that have the metric for every system that has it at all, and their scores."""
    values = metric_scores(evalset, metric)
    values = values[:, np.isfinite(values).mean(axis=0) > 0.5]
    if values.shape[1] < 2:
        raise DataError(f"{evalset.name}: the metric covers fewer than two systems; choose another")
    rows = np.flatnonzero(np.isfinite(values).all(axis=1))
    if len(rows) < n:
        raise DataError(f"{evalset.name}: only {len(rows)} items have the metric for all systems, {n} are wanted")
    if len(rows) < evalset.n_items:
        left = evalset.n_items - len(rows)
        warnings.warn(f"{left} items lack the metric for some system and are not considered", AliquotWarning, 2)
    return rows, values[rows]
