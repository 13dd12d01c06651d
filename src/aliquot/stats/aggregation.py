"""Aggregation of several judgments per cell: means, medians, majorities, Dawid-Skene, learning curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, Seed, group_means, group_sums


def cell_mean(cells: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return the mean of each cell.

    >>> cell_mean(np.array([0, 0, 2]), np.array([1.0, 2.0, 5.0]), 3)
    array([1.5, nan, 5. ])
    """
    return group_means(cells, values, size)


def cell_median(cells: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return the median of each cell; for an even count, the mean of the middle two.

    >>> cell_median(np.array([0, 0, 0, 1, 1]), np.array([9.0, 1.0, 2.0, 4.0, 8.0]), 2)
    array([2., 6.])
    """
    ordered, start, count = _sorted_cells(cells, values, size)
    nonempty = np.flatnonzero(count)
    low, high = start[nonempty] + (count[nonempty] - 1) // 2, start[nonempty] + count[nonempty] // 2
    median = np.full(size, np.nan)
    median[nonempty] = (ordered[low] + ordered[high]) / 2
    return median


def cell_trimmed_mean(cells: IntArray, values: FloatArray, size: int, share: float = 0.2) -> FloatArray:
    """Return the mean of each cell without the lowest and the highest `share` of its values (rounded down).

    >>> cell_trimmed_mean(np.zeros(5, dtype=int), np.array([0.0, 4.0, 5.0, 6.0, 100.0]), 1)
    array([5.])
    """
    ordered, start, count = _sorted_cells(cells, values, size)
    # 0.2 * 5 may be 0.9999999999999999: a whole number is meant.
    cut = np.floor(share * count + 1e-9).astype(np.int64)
    cell_of = np.repeat(np.arange(size), count)
    place = np.arange(len(ordered)) - start[cell_of]
    inner = (place >= cut[cell_of]) & (place < (count - cut)[cell_of])
    return group_means(cell_of[inner], ordered[inner], size)


def cell_majority(
    cells: IntArray, labels: IntArray, size: int, kinds: int, weights: FloatArray | None = None
) -> tuple[IntArray, FloatArray]:
    """Return the most frequent label of each cell and its share; -1 for a tie or an empty cell.

    >>> label, share = cell_majority(np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 0, 1]), 2, 2)
    >>> label.tolist(), share.round(2).tolist()
    ([1, -1], [0.67, 0.5])
    """
    votes = group_sums(cells * kinds + labels, np.ones(len(cells)) if weights is None else weights, size * kinds)
    votes = votes.reshape(size, kinds)
    best = votes.max(axis=1, initial=0.0)
    total = votes.sum(axis=1)
    tied = (votes >= best[:, None] - 1e-9).sum(axis=1) > 1
    label = np.where((total > 0) & ~tied, votes.argmax(axis=1) if kinds else -1, -1)
    return label, np.where(total > 0, best / np.where(total > 0, total, 1.0), np.nan)


def _sorted_cells(cells: IntArray, values: FloatArray, size: int) -> tuple[FloatArray, IntArray, IntArray]:
    """Return values sorted within cells, the offset of each cell, and its size."""
    count = np.bincount(cells, minlength=size).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64)
    return values[np.lexsort((values, cells))], start, count


# -- Dawid and Skene (1979): labels and annotators' confusion matrices by expectation-maximisation ---------------------


_MIN_PROBABILITY = 1e-10  # avoids the logarithm of 0; crowd-kit clips at the same value


@dataclass(frozen=True, eq=False)
class DawidSkene:
    """Fitted Dawid-Skene model."""

    posterior: FloatArray  # probability of each label for each item (I x K)
    prior: FloatArray  # frequency of each label (K)
    confusion: FloatArray  # confusion[k, j, l], annotator k's probability of saying l where the truth is j (A x K x K)
    log_likelihood: float  # of all judgments, at convergence
    iterations: int  # EM iterations
    converged: bool  # whether the tolerance was reached

    @property
    def accuracy(self) -> FloatArray:
        """Probability of a correct label, by annotator: sum_j p_j pi_jj."""
        return np.asarray(np.einsum("j,kjj->k", self.prior, self.confusion))


def dawid_skene(
    items: IntArray,
    annotators: IntArray,
    labels: IntArray,
    *,
    kinds: int | None = None,
    smoothing: float = 0.01,
    tolerance: float = 1e-8,
    iterations: int = 1000,
) -> DawidSkene:
    """Fit the Dawid-Skene model to judgments given as arrays of codes (0, 1, ...), one entry per judgment.

    `smoothing` judgments are spread evenly over each row of a confusion matrix (0: maximum likelihood). The fit stops
    when the log-likelihood per judgment grows by less than `tolerance`. Every item needs a judgment.

    >>> fit = dawid_skene(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 0, 1, 2]), np.array([1, 1, 0, 0, 0, 0]))
    >>> fit.posterior.argmax(axis=1).tolist()
    [1, 0]
    """
    size, n_annotators = int(items.max()) + 1, int(annotators.max()) + 1
    kinds = int(labels.max()) + 1 if kinds is None else kinds
    # A row per annotator and label, a column per item: both EM steps are products with this matrix.
    judgments = sparse.csr_array(
        (np.ones(len(items)), (annotators * kinds + labels, items)), shape=(n_annotators * kinds, size)
    )
    by_item = judgments.T.tocsr()
    share = by_item @ np.tile(np.eye(kinds), (n_annotators, 1))
    posterior = share / np.maximum(share.sum(axis=1, keepdims=True), 1.0)
    log_likelihood, converged, rounds = -np.inf, False, 0
    while not converged and rounds < iterations:
        prior, confusion = _m_step(judgments, posterior, n_annotators, kinds, smoothing)
        posterior, new = _e_step(by_item, prior, confusion)
        rounds += 1
        # The first iteration has no predecessor; later ones never lower the likelihood (up to clipping).
        converged = new - log_likelihood < tolerance * len(items)
        log_likelihood = new
    prior, confusion = _m_step(judgments, posterior, n_annotators, kinds, smoothing)
    return DawidSkene(posterior, prior, confusion.transpose(0, 2, 1), float(log_likelihood), rounds, converged)


def _m_step(
    judgments: sparse.csr_array, posterior: FloatArray, n_annotators: int, kinds: int, smoothing: float
) -> tuple[FloatArray, FloatArray]:
    """Return prior and confusion[k, l, j] (label l, truth j) given the posterior."""
    counts = (judgments @ posterior).reshape(n_annotators, kinds, kinds) + smoothing / kinds
    counts = np.maximum(counts, _MIN_PROBABILITY)
    return np.maximum(posterior.mean(axis=0), _MIN_PROBABILITY), counts / counts.sum(axis=1, keepdims=True)


def _e_step(by_item: sparse.csr_array, prior: FloatArray, confusion: FloatArray) -> tuple[FloatArray, float]:
    """Return posterior and log-likelihood given prior and confusion."""
    kinds = len(prior)
    joint = by_item @ np.log(confusion).reshape(-1, kinds) + np.log(prior)
    evidence = logsumexp(joint, axis=1, keepdims=True)
    return np.exp(joint - evidence), float(evidence.sum())


# -- Learning curves: error of aggregates of k judgments per output ----------------------------------------------------


Aggregate = Callable[[IntArray], FloatArray]
"""Maps rows of judgments to one value per cell, NaN where undefined."""


@dataclass(frozen=True)
class LabelsCurvePoint:
    """One point of a learning curve."""

    k: int  # judgments per output
    wrong: float  # share of decided outputs whose value differs from the truth, mean over draws
    wrong_sd: float  # its standard deviation over draws
    undecided: float  # share of outputs without a value
    mean_error: float  # mean absolute difference from the truth, over decided outputs
    rms_error: float  # root of the mean squared difference


def draw_judgments(cells: IntArray, k: int, rng: np.random.Generator) -> IntArray:
    """Draw k judgments of each cell without replacement (all of smaller cells); return their sorted rows.

    >>> draw_judgments(np.array([0, 0, 0, 1]), 1, np.random.default_rng(0)).tolist()
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
) -> tuple[LabelsCurvePoint, ...]:
    """Compare aggregates of k random judgments per cell with the truth, averaged over `repeats` draws.

    >>> cells, values = np.repeat(np.arange(50), 4), np.tile([1.0, 1.0, 1.0, 0.0], 50)
    >>> mean = lambda rows: np.bincount(cells[rows], values[rows]) / np.bincount(cells[rows])
    >>> [round(point.mean_error, 1) for point in labels_curve(cells, mean, np.full(50, 0.75), [1, 4], seed=1)]
    [0.4, 0.0]
    """
    rng = np.random.default_rng(seed)
    judged: BoolArray = np.isfinite(truth)
    points = []
    for k in counts:
        errors = np.array(
            [_compare_with_truth(aggregate(draw_judgments(cells, k, rng)), truth, judged) for _ in range(repeats)]
        )
        defined = errors[np.isfinite(errors).all(axis=1)]  # draws without a decided output have no error
        undecided = float(errors[:, 1].mean())
        wrong, _, absolute, squared = defined.mean(axis=0).tolist() if len(defined) else [float("nan")] * 4
        spread = float(defined[:, 0].std(ddof=1)) if len(defined) > 1 else float("nan")
        points.append(LabelsCurvePoint(k, wrong, spread, undecided, absolute, float(np.sqrt(squared))))
    return tuple(points)


def _compare_with_truth(
    estimates: FloatArray, truth: FloatArray, judged: BoolArray
) -> tuple[float, float, float, float]:
    difference = np.abs(estimates - truth)[judged]
    decided = np.isfinite(difference)
    if not len(difference):
        return (float("nan"),) * 4
    if not decided.any():
        return float("nan"), 1.0, float("nan"), float("nan")
    errors = difference[decided]
    return float((errors > 1e-9).mean()), 1.0 - float(decided.mean()), float(errors.mean()), float((errors**2).mean())
