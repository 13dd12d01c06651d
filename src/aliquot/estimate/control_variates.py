"""Control variates, each system by itself, and the best published estimator (Saldias et al. 2022)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.spatial import cKDTree

from aliquot.errors import OptionError
from aliquot.estimate.fitted import Fitted, estimator
from aliquot.estimate.means import mean
from aliquot.estimate.proxies import standard_metric, usable
from aliquot.estimate.regressions import RIDGE, taught
from aliquot.estimate.sample import Sample
from aliquot.stats.arrays import FloatArray
from aliquot.stats.design_variance import contributions
from aliquot.stats.regression import pooled_ridge, weighted_means

NEIGHBOURS = 25


@estimator("cv")
def cv(
    sample: Sample,
    *,
    metrics: tuple[str, ...] | None = None,
    proxy: Literal["mean", "several", "knn"] = "mean",
    k: int = NEIGHBOURS,
) -> Fitted:
    """Control variate: the mean, corrected by how far the sample's proxy mean lies from that of all items.

    Args:
        metrics: the metrics behind the proxy, joined by |; all usable ones by default.
        proxy: the mean of the standardised metrics (one metric: itself), several at once, or k nearest neighbours.
        k: how many judged neighbours predict an output, for knn.
    """
    names = usable(sample.evalset, metrics)
    _check_neighbours(k)
    if not names or sample.n < 3:
        fitted = mean(sample)
        return Fitted(fitted.values, fitted.z, notes=("no usable metric, or too few items: the plain mean is used",))
    stack = np.stack([standard_metric(sample.evalset, name) for name in names], axis=2)
    if proxy == "mean":
        stack = stack.mean(axis=2, keepdims=True)
    elif proxy == "knn":
        stack = cross_fitted_neighbours(stack, sample, k)[:, :, None]
    return _control_variate(sample, stack, names, learned=proxy == "knn")


def _check_neighbours(k: int) -> None:
    if k < 1:
        raise OptionError(f"k is {k}; choose at least 1 neighbour")


def _control_variate(sample: Sample, proxies: FloatArray, names: list[str], *, learned: bool) -> Fitted:
    """Slopes of each system by itself: beta = Cov(y, z) / Var(z) from the sample, weighted.

    A learned proxy predicts the score itself: where it seems to predict the opposite (as means of the others do, for
    few items) it predicts nothing, and its slope is 0.
    """
    strength, notes = taught(proxies.shape[2], sample, 0.0, RIDGE * proxies.shape[2])
    values, residuals = np.full(sample.evalset.n_systems, np.nan), np.full_like(sample.scores, np.nan)
    left_out = np.zeros_like(sample.scores)
    for system in range(sample.evalset.n_systems):
        judged = proxies[sample.rows, system][:, None, :]
        fit = pooled_ridge(judged, sample.scores[:, [system]], sample.weight, strength)
        use = 0.0 if learned and fit.slopes[0] < 0 else 1.0
        residual = sample.scores[:, [system]] - use * (judged @ fit.slopes)
        everywhere = proxies[:, system].mean(axis=0) @ fit.slopes
        values[system] = use * everywhere + weighted_means(residual, sample.weight)[0]
        left_out[:, system] = use * fit.left_out[:, 0]
        residuals[:, system] = sample.scores[:, system] - left_out[:, system]
    z = contributions(residuals, sample.weight)
    return Fitted(values, z, proxy=left_out, notes=notes, details={"metrics": names})


def cross_fitted_neighbours(stack: FloatArray, sample: Sample, k: int, folds: int = 5) -> FloatArray:
    """Predict every output from the k nearest judged outputs of the same system, never from its own fold.

    Unjudged outputs get the mean of the folds' predictions, so that judged and unjudged ones are alike.
    """
    n_items, m, _ = stack.shape
    fold = np.arange(sample.n) % min(folds, sample.n)
    predicted = np.zeros((n_items, m))
    judged_fold = np.full(n_items, -1)
    judged_fold[sample.rows] = fold
    for system in range(m):
        known = np.isfinite(sample.scores[:, system])
        for held in range(fold.max() + 1):
            train = known & (fold != held)
            if not train.any():
                continue
            guess = _neighbour_means(stack[sample.rows[train], system], sample.scores[train, system],
                                     stack[:, system], k)  # fmt: skip
            own = judged_fold == held
            predicted[own, system] = guess[own]
            predicted[judged_fold < 0, system] += guess[judged_fold < 0] / (fold.max() + 1)
    return predicted


def _neighbour_means(known: FloatArray, target: FloatArray, wanted: FloatArray, k: int) -> FloatArray:
    k = min(k, len(known))
    _, near = cKDTree(known).query(wanted, k=k)
    means: FloatArray = target[np.asarray(near).reshape(len(wanted), k)].mean(axis=1)
    return means


@estimator("paper_best")
def paper_best(
    sample: Sample,
    *,
    metrics: tuple[str, ...] | None = None,
    k: int = NEIGHBOURS,
    covariance: Literal["centred", "printed"] = "centred",
) -> Fitted:
    """Saldias et al. 2022: document-stratified mean with a k-nearest-neighbour control variate.

    Join it to their design: stratified:bins=document,rounding=nearest+paper_best. The neighbours see the item itself
    (no cross-fitting).

    Args:
        metrics: the metrics of the neighbours, joined by |; all usable ones by default.
        k: how many neighbours.
        covariance: Cov(X, Z) centred on the sample (their footnote 1), or printed, the mean of X Z (their main text),
            which fails on scales whose mean is far from 0, such as 0 to 100.
    """
    names = usable(sample.evalset, metrics)
    _check_neighbours(k)
    weight = _paper_weights(sample)
    if not names:
        return Fitted(weighted_means(sample.scores, weight), contributions(sample.scores, weight))
    stack = np.stack([standard_metric(sample.evalset, name) for name in names], axis=2)
    values, residuals = np.full(sample.evalset.n_systems, np.nan), np.full_like(sample.scores, np.nan)
    for system in range(sample.evalset.n_systems):
        known = np.isfinite(sample.scores[:, system])
        if not known.any():
            continue
        target = sample.scores[known, system]
        guess = _neighbour_means(stack[sample.rows[known], system], target, stack[:, system], k)
        spread = guess.std()
        standard = (guess - guess.mean()) / spread if spread > 0 else guess * 0.0
        z = standard[sample.rows[known]]
        shift = 1.0 if covariance == "centred" else 0.0
        slope = float(((target - shift * target.mean()) * (z - shift * z.mean())).mean())
        shares = weight[known] / weight[known].sum()
        values[system] = shares @ target - slope * float(shares @ z)
        residuals[known, system] = target - slope * z
    return Fitted(values, contributions(residuals, weight), details={"metrics": names})


def _paper_weights(sample: Sample) -> FloatArray:
    """Their stratified mean: N_l / n_l for judged items; documents without any drop out (their equation 1)."""
    codes = sample.evalset.documents
    if codes is None:
        return np.ones(sample.n)
    judged = codes[sample.rows]
    weight: FloatArray = (np.bincount(codes) / np.maximum(np.bincount(judged, minlength=codes.max() + 1), 1))[judged]
    return weight
