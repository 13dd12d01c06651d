"""Misaligned scores: detect rows that are shifted and systems that are swapped.

Similar outputs of an item get similar scores, a fair metric correlates with people within items, and item difficulty is
shared by systems. Misaligned scores show none of this. Alignments are compared by the log-likelihood that these three
explain: a linear model of the score ranks, within and between items, fitted on four fifths of the items and applied to
the last fifth.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, group_means, group_sums, scaled_ranks

_FOLDS = 5
_MIN_Z = 2.0  # z over items from which one alignment is better than another
_RIDGE = 0.1  # ridge as a share of the features' mean square; few items determine weights poorly
_MAX_REFITS = 3  # candidate swaps that are refitted
_MIN_VARIANCE = 1e-9  # ranks range from -0.5 to 0.5: less variance than this is rounding
_SWEEPS = 4  # sweeps of double centring; one is enough without missing cells
_MIN_SHARED_ITEMS = 30  # items that two systems must share to be compared


@dataclass(frozen=True, eq=False)
class OutputFeatures:
    """Features of outputs that need no judgments."""

    likeness: FloatArray  # N x M x M; text similarity of two outputs less its mean over items; 0 if missing
    cells: FloatArray  # N x M x p; centred over items and over systems, 0 where missing
    items: FloatArray  # N x q; centred over items

    def keep(self, items: IntArray) -> OutputFeatures:
        """Return the features of some items."""
        return OutputFeatures(self.likeness[items], self.cells[items], self.items[items])


@dataclass(frozen=True, eq=False)
class Explanation:
    """Fit of scores to features: the gain in log-likelihood of each item, and the predictions behind it."""

    gains: FloatArray  # N; gain over a model with system means only; 0 for an item without scores
    scores: FloatArray  # N x M; as given
    within: FloatArray  # N x M; their ranks, centred over items and over systems, 0 where missing
    predicted: FloatArray  # N x M; of these
    likeness: (
        FloatArray  # N x M x M; its part in the prediction: predicted[i, a] includes likeness[i, a, b] * within[i, b]
    )

    @property
    def judged(self) -> BoolArray:
        """N x M; whether a score is present."""
        return np.isfinite(self.scores)

    @property
    def gain(self) -> float:
        """Total gain in log-likelihood; about 0 or less where the features do not explain the scores."""
        return float(self.gains.sum())

    def evidence(self, before: Explanation) -> float:
        """Return the gain in log-likelihood over another fit (or over none if that one is worse).

        Gains below two standard errors over items count as 0.
        """
        steps = self.gains - (before.gains if before.gain > 0 else 0.0)
        total, error = float(steps.sum()), float(np.sqrt((steps**2).sum()))
        return total if total > _MIN_Z * error else 0.0


def output_features(vectors: FloatArray, lengths: FloatArray, metric: FloatArray | None = None) -> OutputFeatures:
    """Compute features of outputs from their texts and, if there are metrics, from their mean.

    Args:
        vectors: N x M x D, of unit length, 0 for a missing output.
        lengths: N x M, NaN for a missing output.
        metric: N x M, NaN where missing.
    """
    missing = ~np.isfinite(lengths)
    likeness = np.matmul(vectors, vectors.transpose(0, 2, 1))
    likeness[missing[:, :, None] | missing[:, None, :]] = np.nan
    likeness[:, np.arange(lengths.shape[1]), np.arange(lengths.shape[1])] = np.nan
    cells = [_finite_mean(likeness, 2), np.log1p(lengths)] + ([] if metric is None else [scaled_ranks(metric)])
    return OutputFeatures(
        likeness=np.nan_to_num(likeness - _finite_mean(likeness, 0)[None]),
        cells=np.stack([np.nan_to_num(_double_centre(values)) for values in cells], axis=2),
        items=np.stack(
            [np.nan_to_num(_finite_mean(values - _finite_mean(values, 0)[None], 1)) for values in cells], axis=1
        ),
    )


def explain_scores(scores: FloatArray, features: OutputFeatures, other_scores: FloatArray | None = None) -> Explanation:
    """Fit the scores of outputs by their features.

    Args:
        scores: N x M, NaN where not judged.
        features: Of the same outputs.
        other_scores: N x M scores of the same outputs by another annotator, as a further feature; NaN where missing.

    >>> rng = np.random.default_rng(0)
    >>> metric = rng.normal(size=(60, 5))
    >>> features = output_features(np.zeros((60, 5, 1)), np.ones((60, 5)), metric)
    >>> explain_scores(metric + rng.normal(size=(60, 5)), features).gain > 20
    True
    >>> explain_scores(rng.normal(size=(60, 5)), features).gain > 0
    False
    """
    judged: BoolArray = np.isfinite(scores)
    ranked = scaled_ranks(scores)
    within = np.nan_to_num(_double_centre(ranked))
    between = np.nan_to_num(_finite_mean(ranked - _finite_mean(ranked, 0)[None], 1))
    cells = features.cells
    if other_scores is not None:
        cells = np.concatenate([cells, np.nan_to_num(_double_centre(scaled_ranks(other_scores)))[:, :, None]], axis=2)
    alike = np.einsum("iab,ib->ia", features.likeness, within)
    cells = np.concatenate([alike[:, :, None], cells], axis=2) * judged[:, :, None]
    some: BoolArray = np.asarray(judged.any(axis=1))
    items = features.items * some[:, None]
    count = float(max(judged.sum(), 1))
    variance = float((within**2).sum()) / count
    predicted, weights = _cross_predict(cells, within)
    gains = (
        np.zeros(len(scores)) if variance < _MIN_VARIANCE else _log_likelihood_gains(within, predicted) / (2 * variance)
    )
    spread = float((between**2).sum()) / max(int(some.sum()), 1)
    if spread >= _MIN_VARIANCE:
        gains += _log_likelihood_gains(between[:, None], _cross_predict(items[:, None, :], between[:, None])[0]) / (
            2 * spread
        )
    return Explanation(gains, scores, within, predicted, weights[:, None, None] * features.likeness)


@dataclass(frozen=True)
class SystemSwap:
    """Two systems whose scores fit each other's outputs better than their own."""

    systems: tuple[int, int]
    evidence: float  # gain in log-likelihood of the swap
    tries: int  # pairs compared


def find_swapped_systems(
    fit: Explanation, features: OutputFeatures, other_scores: FloatArray | None = None
) -> SystemSwap | None:
    """Find the swap of two systems with the largest gain, which may be 0; None if no two systems share items.

    All pairs are compared at the fitted weights; the best few are refitted.
    """
    pairs = [
        (a, b)
        for a, b in combinations(range(fit.scores.shape[1]), 2)
        if (fit.judged[:, a] & fit.judged[:, b]).sum() >= _MIN_SHARED_ITEMS
    ]
    best = sorted(pairs, key=lambda pair: -_swap_gain(fit, *pair))[:_MAX_REFITS]
    exchanges = []
    for first, second in best:
        swapped = fit.scores.copy()
        swapped[:, [first, second]] = swapped[:, [second, first]]
        evidence = explain_scores(swapped, features, other_scores).evidence(fit)
        exchanges.append(SystemSwap((first, second), evidence, len(pairs)))
    return max(exchanges, key=lambda exchange: exchange.evidence, default=None)


def _swap_gain(fit: Explanation, first: int, second: int) -> float:
    """Return the z-value over items of the gain of a swap at the fitted weights."""
    shared = fit.judged[:, first] & fit.judged[:, second]
    mine, theirs = fit.within[shared, first], fit.within[shared, second]
    alike = fit.likeness[shared, first, second]
    step = fit.predicted[shared, first] - alike * theirs - fit.predicted[shared, second] + alike * mine
    product = (theirs - mine - np.mean(theirs - mine)) * (step - step.mean())
    error = float(product.std()) * np.sqrt(len(product))
    return float(product.sum()) / error if error > 0 else 0.0


def shift_cells(scores: FloatArray, step: int) -> FloatArray:
    """Roll the present scores by `step` cells, in row-major order.

    >>> shift_cells(np.array([[1.0, 2.0], [np.nan, 3.0]]), 1)
    array([[ 3.,  1.],
           [nan,  2.]])
    """
    moved = scores.flatten()
    present = np.flatnonzero(np.isfinite(moved))
    moved[present] = np.roll(moved[present], step)
    return moved.reshape(scores.shape)


def agreement_within_cells(cell: IntArray, annotator: IntArray, value: FloatArray) -> float:
    """Return the z-value of the agreement of annotators on outputs, from ranks less each annotator's mean.

    >>> cell, annotator = np.repeat(np.arange(50), 2), np.tile([0, 1], 50)
    >>> agreement_within_cells(cell, annotator, np.repeat(np.arange(50.0), 2)) > 5
    True
    """
    present = np.isfinite(value)
    cell, annotator, ranked = cell[present], annotator[present], scaled_ranks(value[present])
    ranked = ranked - group_means(annotator, ranked)[annotator]
    count, total = np.bincount(cell), group_sums(cell, ranked)
    products = (total**2 - group_sums(cell, ranked**2))[count > 1] / (count[count > 1] - 1)
    error = float(np.sqrt((products**2).sum()))
    return float(products.sum()) / error if error > 0 else 0.0


# -- Cross-fitted linear models of ranks -------------------------------------------------------------------------------


def _log_likelihood_gains(scores: FloatArray, predicted: FloatArray) -> FloatArray:
    gains: FloatArray = (scores**2 - (scores - predicted) ** 2).sum(axis=1)
    return gains


def _cross_predict(features: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Predict scores (N x M) from features (N x M x p), cross-fitted by item; also the first slope per item."""
    fold = np.arange(len(scores)) * _FOLDS // max(len(scores), 1)  # contiguous folds keep documents together
    predicted, first = np.zeros(scores.shape), np.zeros(len(scores))
    squares = np.einsum("iap,iaq->ipq", features, features)
    products = np.einsum("iap,ia->ip", features, scores)
    for number in range(_FOLDS):
        training, held_out = fold != number, fold == number
        total = squares[training].sum(axis=0)
        scale = np.sqrt(np.diag(total))
        used = scale > 0
        weights = np.zeros(features.shape[2])
        if used.any():
            system = total[np.ix_(used, used)] / np.outer(scale[used], scale[used]) + _RIDGE * np.eye(int(used.sum()))
            weights[used] = np.linalg.solve(system, products[training].sum(axis=0)[used] / scale[used]) / scale[used]
        predicted[held_out] = features[held_out] @ weights
        first[held_out] = weights[0]
    return predicted, first


def _finite_mean(values: FloatArray, axis: int) -> FloatArray:
    present = np.isfinite(values)
    count = present.sum(axis=axis)
    means: FloatArray = np.where(
        count > 0, np.where(present, values, 0.0).sum(axis=axis) / np.maximum(count, 1), np.nan
    )
    return means


def _double_centre(values: FloatArray) -> FloatArray:
    for _ in range(_SWEEPS):
        values = values - _finite_mean(values, 0)[None]
        values = values - _finite_mean(values, 1)[:, None]
    return values
