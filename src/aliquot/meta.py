"""`aliquot.meta`: was the subset good? Single comparisons of a subset with the whole (docs/methods.md, section 6).

`subset` and `full` are EvalSets (their human scores count), items x systems tables of scores, or a Selection as the
subset of an EvalSet. For many methods, budgets and repeats at once use `aliquot.simulate`.

>>> import aliquot
>>> data = aliquot.synthetic(items=200, systems=5, seed=3)
>>> chosen = aliquot.select(data, "segments", budget=50, seed=1)
>>> 0.8 < aliquot.meta.spa(chosen, data) < 1.0
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.errors import AliquotError, DataError, OptionError
from aliquot.metric_eval.measures import (
    ALPHA,
    TESTS,
    cluster_by_p,
    compute_p_values,
    compute_parity,
    find_first_crossings,
)
from aliquot.stats import pairwise, system_correlation
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.pairwise import prefix_spa, wilcoxon_p
from aliquot.validation import one_of

Scores = EvalSet | Selection | FloatArray | Sequence[Sequence[float]]

__all__ = [
    "accuracy",
    "clusters",
    "kendall",
    "mae",
    "parity",
    "pearson",
    "random_spa",
    "rmse",
    "spa",
    "spa_curve",
    "spearman",
    "swaps",
    "top1",
    "top1_rank",
    "top_dice",
]


def spa(subset: Scores, full: Scores, *, test: str = "analytic", human: str | None = None, seed: Seed = 0) -> float:
    """Return soft pairwise accuracy: 1 - mean over pairs of |p(subset) - p(full)|.

    Args:
        subset: what was judged.
        full: everything.
        test: analytic, or permutation (1,000 sign flips).
        human: the human score, where EvalSets are given.
        seed: of the permutations.

    >>> spa([[1.0, 0.0], [1.0, 0.5]], [[1.0, 0.0], [1.0, 0.5]])
    1.0
    """
    some, everything = _read_both(subset, full, human)
    return pairwise.spa(compute_p_values(some, test, seed), compute_p_values(everything, test, seed))


def spa_curve(order: Scores, full: Scores | None = None, *, human: str | None = None) -> FloatArray:
    """Return the analytic soft pairwise accuracy of the first 1, 2, ..., N items of an ordering, in one pass.

    >>> spa_curve([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]).round(3)
    array([0.877, 0.782, 1.   ])
    """
    if full is None:
        return prefix_spa(_read_table(order, None, human))
    some, everything = _read_both(order, full, human)
    return prefix_spa(some, compute_p_values(everything))


def clusters(
    scores: Scores, *, test: str = "analytic", rule: str = "any", alpha: float = ALPHA, human: str | None = None
) -> IntArray:
    """Return clusters of systems without significant differences, 1 = best, in the order of the systems.

    `test="wilcoxon", rule="neighbour"` is Algorithm 1 of Zouhar et al. 2025.

    >>> clusters([[2.0, 0.0, 0.1], [2.1, 0.3, 0.0], [1.9, 0.1, 0.2], [2.2, 0.2, 0.1]])
    array([1, 2, 2])
    """
    table = _read_table(scores, None, human)
    one_of("test", test, [*TESTS, "wilcoxon"])
    p = wilcoxon_p(table) if test == "wilcoxon" else compute_p_values(table, test)
    return cluster_by_p(_nan_means(table), p, alpha, rule)


def accuracy(subset: Scores, full: Scores, *, human: str | None = None) -> float:
    """Return the share of pairs of systems in the same order; a tie on one side only counts half.

    >>> accuracy([[3.0, 2.0, 1.0]], [[3.0, 1.0, 2.0]]) > 0.66
    True
    """
    return _compare_means(system_correlation.pairwise_accuracy, subset, full, human)


def pearson(subset: Scores, full: Scores, *, human: str | None = None) -> float:
    """Return Pearson's correlation of the systems' means."""
    return _compare_means(system_correlation.pearson_rows, subset, full, human)


def spearman(subset: Scores, full: Scores, *, human: str | None = None) -> float:
    """Return Spearman's rank correlation of the systems' means."""
    return _compare_means(system_correlation.spearman, subset, full, human)


def kendall(subset: Scores, full: Scores, *, human: str | None = None) -> float:
    """Return Kendall's tau-b of the systems' means."""
    return _compare_means(system_correlation.kendall_b, subset, full, human)


def top1(subset: Scores, full: Scores, *, human: str | None = None) -> float:
    """Return whether the subset puts the best system first: 1 or 0.

    >>> top1([[3.0, 2.0, 1.0]], [[3.0, 1.0, 2.0]])
    1.0
    """
    return float(top1_rank(subset, full, human=human) == 1)


def top1_rank(subset: Scores, full: Scores, *, human: str | None = None) -> float:
    """Return the rank on all items of the system that the subset puts first; 1 is a match."""
    return _compare_means(system_correlation.rank_of_best, subset, full, human)


def swaps(subset: Scores, full: Scores, *, human: str | None = None) -> float:
    """Return the number of pairs of systems whose order changes."""
    return _compare_means(system_correlation.count_swapped_pairs, subset, full, human)


def top_dice(
    subset: Scores, full: Scores, *, test: str = "analytic", rule: str = "any", human: str | None = None
) -> float:
    """Return the Dice coefficient of the best clusters; `test` and `rule` as in `clusters`."""
    some, everything = _read_both(subset, full, human)
    return system_correlation.dice(clusters(some, test=test, rule=rule), clusters(everything, test=test, rule=rule))


def mae(subset: Scores, full: Scores, *, human: str | None = None) -> float:
    """Return the mean absolute error of the systems' means."""
    some, everything = _read_both(subset, full, human)
    return float(np.abs(_nan_means(some) - _nan_means(everything)).mean())


def rmse(subset: Scores, full: Scores, *, human: str | None = None) -> float:
    """Return the root mean squared error of the systems' means."""
    some, everything = _read_both(subset, full, human)
    return float(np.sqrt(((_nan_means(some) - _nan_means(everything)) ** 2).mean()))


SHARES = tuple(round(0.05 * k, 2) for k in range(1, 11))
"""The budgets of the paper: 5%, 10%, ..., 50%."""


def random_spa(
    full: Scores, shares: Sequence[float] = SHARES, *, human: str | None = None, error: float = 3e-4, seed: Seed = 0
) -> FloatArray:
    """Return the mean analytic SPA of random samples at each share: the targets of parity, with standard error `error`.

    >>> random_spa([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [1.0])
    array([1.])
    """
    _validate_shares(shares)
    table = _read_table(full, None, human)
    if not np.isfinite(table).all():
        raise DataError("some scores are missing; random samples need all of them: drop items or systems first")
    rng = np.random.default_rng(seed)
    sizes = [max(1, round(share * len(table))) for share in shares]
    return np.array([pairwise.random_spa(table, n, rng, error=error).value for n in sizes])


def _validate_shares(shares: Sequence[float]) -> None:
    if not len(shares) or not all(0 < share <= 1 for share in shares):
        raise OptionError(f"shares are {list(shares)}; each lies above 0 and is at most 1, for instance 0.05")


def parity(
    order: Scores,
    full: Scores,
    targets: Sequence[float] | FloatArray | None = None,
    shares: Sequence[float] = SHARES,
    *,
    human: str | None = None,
) -> float:
    """Return the share of an ordering that reaches the SPA of random samples, relative to their share, averaged.

    Args:
        order: the items in the order of the method.
        full: everything.
        targets: the mean SPA of random samples at the shares; `random_spa` by default.
        shares: shares of the items; 0.05, 0.10, ..., 0.50 by default.
        human: the human score, where EvalSets are given.

    Returns:
        The mean of C/B; infinite when some target is never reached.

    >>> parity([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0.8], [2 / 3])
    0.5
    """
    if targets is not None and len(targets) != len(shares):
        raise OptionError(f"{len(targets)} targets for {len(shares)} shares; give one target for each share")
    _validate_shares(shares)
    goals = random_spa(full, shares, human=human) if targets is None else np.asarray(targets, dtype=np.float64)
    curve = spa_curve(order, full, human=human)
    total = len(_read_table(full, None, human))
    parts = np.arange(1, len(curve) + 1) / total
    reached = find_first_crossings(parts, curve, goals, between=False)
    return compute_parity(reached, np.asarray(shares, dtype=np.float64)).value


# -- inside --------------------------------------------------------------------------------------------------------


def _compare_means(measure: Any, subset: Scores, full: Scores, human: str | None) -> float:
    some, everything = _read_both(subset, full, human)
    return float(measure(_nan_means(some)[None], _nan_means(everything))[0])


def _read_both(subset: Scores, full: Scores, human: str | None) -> tuple[FloatArray, FloatArray]:
    everything = _read_table(full, None, human)
    some = _read_table(subset, full if isinstance(full, EvalSet) else None, human)
    if some.shape[1] != everything.shape[1]:
        raise DataError(f"the subset has {some.shape[1]} systems and the whole {everything.shape[1]}; they must match")
    if isinstance(subset, EvalSet) and isinstance(full, EvalSet) and subset.systems != full.systems:
        raise DataError("the subset and the whole name different systems, or in another order")
    return some, everything


def _read_table(scores: Scores, full: EvalSet | None, human: str | None) -> FloatArray:
    if isinstance(scores, Selection):
        if full is None:
            raise OptionError("a selection needs the data it was made from: give them as `full`")
        scores.check(full)
        row_of = {item: row for row, item in enumerate(full.ids)}
        return full.human_score(human)[[row_of[item] for item in scores.ids]]
    try:
        table = scores.human_score(human) if isinstance(scores, EvalSet) else np.asarray(scores, dtype=np.float64)
    except AliquotError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"not a table of scores ({error}); give an EvalSet, a Selection, or items x systems") from None
    if table.ndim != 2 or not table.shape[0]:
        raise DataError(f"scores of shape {table.shape}; give a table of items x systems with at least one item")
    return table


def _nan_means(table: FloatArray) -> FloatArray:
    present = np.isfinite(table)
    count = present.sum(axis=0)
    total = np.where(present, table, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
