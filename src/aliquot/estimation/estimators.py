"""Estimators of every system's mean over the whole test set, by name (METHODS.md section 4).

Each takes a `Sample` and gives a `Fitted`: values, and the n x M residuals whose weighted mean carries the error, from
which the design makes the joint covariance. Keyword-only arguments are the user's parameters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from aliquot.core.columns import group_codes
from aliquot.core.registry import Spec, bind_parameters
from aliquot.errors import DataError, unknown_name
from aliquot.estimation.proxies import Proxies, plain_proxies, rich_proxies, select_proxies, standardise_metric
from aliquot.estimation.published import NEIGHBOURS, neighbour_means, validate_neighbours
from aliquot.estimation.sample import ESTIMATORS, Estimator, Fitted, Sample, estimator
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.design_variance import linearised_contributions
from aliquot.stats.mixed_model import as_cell_weights, item_effect_means, item_share, pooling_factors
from aliquot.stats.regression import PooledFit, pooled_ridge, power_tuning, residual_squares, weighted_means
from aliquot.stats.shrinkage import MIN_SYSTEMS, shrink_robustly, shrink_to_prediction

# -- Means: of the judged items, and of bins of them (METHODS.md section 4) ------------------------------------------


_MIN_PER_BIN = 8


@estimator("mean")
def estimate_mean(sample: Sample) -> Fitted:
    """Weighted mean of the judged items (Hajek); the plain mean for equal probabilities."""
    return Fitted(weighted_means(sample.scores, sample.cells), linearised_contributions(sample.scores, sample.cells))


@estimator("stratified")
def estimate_stratified(sample: Sample, *, bins: str | None = None) -> Fitted:
    """Mean of bin means, weighted by the sizes of the bins in the whole set.

    Args:
        bins: an item column (document, domain, ...) to post-stratify by; the design's own bins by default.
    """
    if bins is None and sample.stratum is not None:
        return _estimate_by_design_bins(sample, sample.stratum)
    codes, merged = _assign_bins(sample, bins)
    notes = (f"{merged} bins with too few judged items were joined with similar ones",) if merged else ()
    judged = codes[sample.rows]
    sizes = np.bincount(codes)
    weight = _calibrate_weights(sample.weight, judged, sizes)
    means = _bin_means(sample.scores, judged, sample.weight, len(sizes))
    values = weighted_means(sample.scores, weight)
    z = linearised_contributions(sample.scores - means[judged], weight)
    if sample.kind != "stratified":  # there the design's variance counts each bin's degrees of freedom itself
        count = np.bincount(judged, minlength=len(sizes))[judged]
        z = z * np.sqrt(count / np.maximum(count - 1, 1))[:, None]
    return Fitted(values, z, notes=notes, details={"bins": len(sizes)})


def _estimate_by_design_bins(sample: Sample, stratum: IntArray) -> Fitted:
    """Stratify by the bins of the design, whose weights already sum to the bin sizes."""
    means = _bin_means(sample.scores, stratum, sample.weight, int(stratum.max()) + 1)
    z = linearised_contributions(sample.scores - means[stratum], sample.weight)
    if sample.kind != "stratified":
        count = np.bincount(stratum)[stratum]
        z = np.where((count > 1)[:, None], z, linearised_contributions(sample.scores, sample.weight))
        z = z * np.sqrt(np.where(count > 1, count / np.maximum(count - 1, 1), 1.0))[:, None]
    return Fitted(weighted_means(sample.scores, sample.weight), z, details={"bins": int(stratum.max()) + 1})


def _calibrate_weights(weight: FloatArray, judged: IntArray, sizes: IntArray) -> FloatArray:
    """Scale the weights so that they sum to the size of each bin."""
    total = np.bincount(judged, weight, minlength=len(sizes))
    scaled: FloatArray = weight * (sizes / np.where(total > 0, total, 1.0))[judged]
    return scaled


def _bin_means(scores: FloatArray, codes: IntArray, weight: FloatArray, bins: int) -> FloatArray:
    """Return the weighted mean of each bin and system; the system's overall mean where a bin has no judgment of it."""
    share = np.where(np.isfinite(scores), weight[:, None], 0.0)
    total, count = np.zeros((bins, scores.shape[1])), np.zeros((bins, scores.shape[1]))
    np.add.at(total, codes, np.where(np.isfinite(scores), scores, 0.0) * share)
    np.add.at(count, codes, share)
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), weighted_means(scores, weight))


def _assign_bins(sample: Sample, bins: str | None) -> tuple[IntArray, int]:
    """Return the bin of every item, such that bins have enough judged items, and how many bins were merged."""
    evalset = sample.evalset
    if bins in (None, "document"):
        codes = evalset.documents
        if codes is None and bins is None and sample.quality is not None:
            codes = np.argsort(np.argsort(sample.quality)) * 10 // evalset.n_items
        if codes is None:
            raise DataError(f"{evalset.name}: there are no documents to stratify by; use stratified:bins=COLUMN")
    else:
        codes = group_codes(evalset, str(bins))
    return _join_small_bins(codes, sample)


def _join_small_bins(codes: IntArray, sample: Sample) -> tuple[IntArray, int]:
    """Merge neighbouring bins, ordered by mean quality, until each has enough judged items."""
    sizes = np.bincount(codes)
    judged = codes[sample.rows]
    if sample.kind == "clustered":  # whole documents are the evidence: count those, not their items
        judged = judged[np.unique(sample.clusters, return_index=True)[1]]
    counts = np.bincount(judged, minlength=len(sizes))
    if (counts >= 2).all():
        return codes, 0
    quality = sample.quality
    key = np.arange(len(sizes)) if quality is None else np.bincount(codes, quality) / np.maximum(sizes, 1)
    new, current, gathered = np.zeros(len(sizes), dtype=np.int64), 0, 0
    for code in np.argsort(key, kind="stable"):
        if gathered >= _MIN_PER_BIN:
            current, gathered = current + 1, 0
        new[code] = current
        gathered += counts[code]
    if gathered < _MIN_PER_BIN and current > 0:
        new[new == current] = current - 1
    return new[codes], len(sizes) - int(new.max()) - 1


# -- Regression on all that metrics and sources say: greg, and multilevel for rankings (METHODS.md section 4) --------


RIDGE = 1.0
_ITEMS_PER_SLOPE = 4
_PRIOR_RIDGE = 4.0  # where earlier campaigns predict, the other slopes are of what they left over: more ridge
_PRIOR_SLOPE_RIDGE = 0.1  # ridge of the slope of that prediction itself


@estimator("greg")
def estimate_greg(
    sample: Sample,
    *,
    metrics: tuple[str, ...] | None = None,
    ridge: float | None = None,
    features: Literal["rich", "plain"] = "rich",
    texts: bool = False,
    tune: bool = True,
) -> Fitted:
    """General regression: predictions for all items plus the weighted mean of the residuals.

    Slopes are shared by all systems and fitted with weights 1/pi^2 (the residuals of an item drawn with probability
    pi, proportional to their expected size, have variance proportional to pi^2); residuals are weighted by 1/pi.

    Args:
        metrics: the proxies, joined by |; all that vary and cover half of the outputs by default.
        ridge: regularisation in items; 1 for rich features, 0 for plain ones.
        features: rich (metrics, deviations, length, curvature, texts) or plain (the metrics only).
        texts: with rich features, use how the outputs of an item agree, and differ in length; no metric is needed.
        tune: use only as much of the regression as predicts items it has not seen.
    """
    names = select_proxies(sample.evalset, metrics)
    if features == "rich":
        proxies = rich_proxies(sample.evalset, names, sample.rows, texts=texts)
    else:
        proxies = plain_proxies(sample.evalset, names, sample.rows)
    if sample.prior is not None:
        trusted = np.sqrt(_PRIOR_RIDGE / _PRIOR_SLOPE_RIDGE) / float(sample.prior.std())
        proxies = proxies.append(trusted * sample.prior, sample.rows)
    if proxies.width == 0 or sample.n < 3:
        if sample.ragged and sample.n >= 3:
            return item_effects(sample, sample.scores, sample.scores)
        fitted = estimate_mean(sample)
        why = "fewer than three judged items" if proxies.width else "no usable metric, source or outputs"
        return Fitted(fitted.values, fitted.z, notes=(f"{why}: the plain mean is used",))
    strength = (RIDGE if features == "rich" else 0.0) if ridge is None else ridge
    min_ridge = RIDGE if features == "rich" else RIDGE * proxies.width  # plain features have unit variance each
    strength, notes = choose_ridge(proxies.width, sample, strength, min_ridge)
    fit = _fit_slopes(proxies, sample, strength)
    share = power_tuning(sample.scores, fit.left_out, sample.weight) if tune else 1.0
    slopes = share * fit.slopes
    residual = sample.scores - proxies.judged @ slopes
    foreseen = proxies.means @ slopes
    values = foreseen + weighted_means(residual, sample.weight)
    # Errors are judged by residuals of items the slopes have not seen: in-sample ones are too small.
    unseen = np.where(np.isfinite(sample.scores), sample.scores - share * fit.left_out, np.nan)
    details = {"metrics": names, "power": share, "features": proxies.width}
    if sample.ragged:
        fitted = item_effects(sample, residual, unseen)
        return replace(
            fitted,
            values=foreseen + fitted.values,
            proxy=fit.left_out,
            foreseen=foreseen,
            notes=notes,
            details=details | dict(fitted.details),
        )
    return Fitted(
        values,
        _pool_contributions(linearised_contributions(unseen, sample.weight), sample),
        residual=unseen,
        proxy=fit.left_out,
        foreseen=foreseen,
        notes=notes,
        details=details,
    )


def _fit_slopes(proxies: Proxies, sample: Sample, ridge: float) -> PooledFit:
    """Fit the pooled ridge; with earlier campaigns, average it with a fit that uses their prediction.

    Weights are those of the likelihoods of leave-one-item-out residuals, L_i ~ (sum w e^2)^(-n/2).
    """
    weight = sample.weight**2
    if sample.prior is None:
        return pooled_ridge(proxies.judged, sample.scores, weight, ridge)
    unprimed = pooled_ridge(proxies.judged[:, :, :-1], sample.scores, weight, ridge)
    unprimed = replace(unprimed, slopes=np.append(unprimed.slopes, 0.0))
    leaning = pooled_ridge(proxies.judged, sample.scores, weight, max(ridge, _PRIOR_RIDGE))
    squares = [residual_squares(sample.scores, fit.left_out, sample.weight) for fit in (unprimed, leaning)]
    if min(squares) <= 0:
        return unprimed
    part = 1.0 / (1.0 + (squares[1] / squares[0]) ** (sample.n / 2))
    return PooledFit(
        *(
            part * getattr(leaning, name) + (1 - part) * getattr(unprimed, name)
            for name in ("slopes", "within", "left_out")
        )
    )


def _pool_contributions(z: FloatArray, sample: Sample) -> FloatArray:
    """Shrink the variances of contributions towards their mean: few items may miss a heavy tail."""
    return z * pooling_factors((z**2).sum(axis=0), sample.counts)


@estimator("multilevel")
def estimate_multilevel(sample: Sample, *, metrics: tuple[str, ...] | None = None, texts: bool = False) -> Fitted:
    """For rankings: greg with system effects shrunk towards the metrics' prediction.

    The judged items decide how far (stats/shrinkage.py). Means are no longer unbiased: a system that the metrics
    alone misjudge is shrunk the wrong way. Errors are greg's: intervals have its width around the shrunken
    value, so that they count the bias as well. With fewer than four systems it is greg.

    Args:
        metrics: the proxies, joined by |; all that vary and cover half of the outputs by default.
        texts: use how the outputs of an item agree, and differ in length; no metric is needed.
    """
    fitted = estimate_greg(sample, metrics=metrics, texts=texts)
    if fitted.foreseen is None:
        return fitted
    if np.isfinite(fitted.values).sum() < MIN_SYSTEMS:
        note = f"fewer than {MIN_SYSTEMS} systems do not tell how far to draw: nothing is drawn, greg is used"
        return replace(fitted, notes=(*fitted.notes, note))
    values, share = shrink_to_prediction(fitted.values, fitted.foreseen, sample.compute_errors(fitted).covariance)
    note = (
        f"means are drawn towards what the metrics expect ({share:.0%} of the systems' own effects is kept): "
        "biased, for rankings only"
    )
    return replace(fitted, values=values, notes=(*fitted.notes, note), details={**fitted.details, "share": share})


@estimator("informed")
def estimate_informed(sample: Sample, *, metrics: tuple[str, ...] | None = None, texts: bool = True) -> Fitted:
    """For few judged items: greg with slopes from earlier campaigns, and system effects shrunk to the prediction.

    What earlier campaigns predict (`past=`) is a feature of its own, whose slope the judged items decide. Then systems
    are shrunk as by multilevel, except outliers (stats/shrinkage.py). Means are not
    unbiased; intervals have greg's width and count the bias. With fewer than four systems it is greg.

    Args:
        metrics: the proxies, joined by |; all that vary and cover half of the outputs by default.
        texts: use how the outputs of an item agree, and differ in length; no metric is needed.
    """
    fitted = estimate_greg(sample, metrics=metrics, texts=texts)
    if fitted.foreseen is None or np.isfinite(fitted.values).sum() < MIN_SYSTEMS:
        return fitted
    values, share = shrink_robustly(fitted.values, fitted.foreseen, sample.compute_errors(fitted).covariance)
    note = f"systems are drawn towards what is expected of them ({share:.0%} of their own effects is kept): biased"
    return replace(fitted, values=values, notes=(*fitted.notes, note), details={**fitted.details, "share": share})


def item_effects(sample: Sample, residual: FloatArray, unseen: FloatArray) -> Fitted:
    """Estimate mean residuals of systems judged on different items, by a random effect of each item.

    An item's effect, seen in the systems judged on it, corrects the means of the others (docs/methods.md, section 8).
    `unseen` are the residuals of fits that have not seen their item: they tell how far to trust item effects, and the
    errors.
    """
    share = item_share(unseen, sample.cells)
    _, influence = item_effect_means(unseen, sample.cells, share)
    means, _ = item_effect_means(residual, _extra_weights(sample), share)
    values = _population_means(sample, residual, means, share)
    return Fitted(values, influence, residual=unseen, details={"item_share": share})


def _population_means(sample: Sample, residual: FloatArray, means: FloatArray, share: float) -> FloatArray:
    """Return each system's mean residual over all items: judged cells, and predictions by system and item effect.

    With equal weights these are the system effects themselves; with weights of their own, systems judged on most items
    come close to what is known, and one judged on all has exactly its mean.
    """
    is_judged = np.isfinite(residual)
    residual_effect = np.where(is_judged, residual - means, 0.0)
    effect = share / (1.0 - share + is_judged.sum(axis=1) * share) * residual_effect.sum(axis=1)
    unjudged = (sample.population - sample.counts) * means + (~is_judged).T @ effect
    total = np.where(is_judged, residual, 0.0).sum(axis=0) + unjudged
    return np.where(sample.counts > 0, total / sample.population, np.nan)


_MIN_EXTRA_WEIGHT = (
    1e-6  # weight beyond itself of a cell that stands for no other: any small one, the same for all such cells
)


def _extra_weights(sample: Sample) -> FloatArray:
    """Return the unjudged cells that each judged cell represents, w - 1 (Brewer 1999), with w scaled to sum to N."""
    weight = np.where(np.isfinite(sample.scores), as_cell_weights(sample.cells), 0.0)
    total = weight.sum(axis=0)
    scaled: FloatArray = weight * np.divide(sample.population, total, out=np.ones_like(total), where=total > 0)
    return np.maximum(scaled - 1.0, _MIN_EXTRA_WEIGHT)


def choose_ridge(features: int, sample: Sample, ridge: float, min_ridge: float) -> tuple[float, tuple[str, ...]]:
    """Return the ridge, raised where there are too few items per slope, which would make errors too small."""
    if ridge >= min_ridge or features * _ITEMS_PER_SLOPE <= sample.n:
        return ridge, ()
    return min_ridge, (f"{features} proxies and only {sample.n} judged items: ridge={min_ridge:g} is used",)


# -- Control variates, each system by itself, and the best published estimator (Saldias et al. 2022) -----------------


@estimator("cv")
def estimate_cv(
    sample: Sample,
    *,
    metrics: tuple[str, ...] | None = None,
    proxy: Literal["mean", "several", "knn"] = "mean",
    k: int = NEIGHBOURS,
) -> Fitted:
    """Control variate: the mean, corrected by the difference of proxy means between the sample and all items.

    Args:
        metrics: the metrics behind the proxy, joined by |; all usable ones by default.
        proxy: the mean of the standardised metrics (one metric: itself), several at once, or k nearest neighbours.
        k: how many judged neighbours predict an output, for knn.
    """
    names = select_proxies(sample.evalset, metrics)
    validate_neighbours(k)
    if not names or sample.n < 3:
        fitted = estimate_mean(sample)
        return Fitted(fitted.values, fitted.z, notes=("no usable metric, or too few items: the plain mean is used",))
    stack = np.stack([standardise_metric(sample.evalset, name) for name in names], axis=2)
    if proxy == "mean":
        stack = stack.mean(axis=2, keepdims=True)
    elif proxy == "knn":
        stack = cross_fitted_neighbours(stack, sample, k)[:, :, None]
    return _control_variate(sample, stack, names, learned=proxy == "knn")


def _control_variate(sample: Sample, proxies: FloatArray, names: list[str], *, learned: bool) -> Fitted:
    """Fit each system's slopes alone: beta = Cov(y, z) / Var(z), weighted over the sample.

    A learned proxy predicts the score itself: where it seems to predict the opposite (as means of the others do, for
    few items) it predicts nothing, and its slope is 0.
    """
    strength, notes = choose_ridge(proxies.shape[2], sample, 0.0, RIDGE * proxies.shape[2])
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
    z = linearised_contributions(residuals, sample.weight)
    return Fitted(values, z, proxy=left_out, notes=notes, details={"metrics": names})


def cross_fitted_neighbours(stack: FloatArray, sample: Sample, k: int, folds: int = 5) -> FloatArray:
    """Predict each output by the k nearest judged outputs of its system in other folds.

    Unjudged outputs get the mean of the folds' predictions, so that judged and unjudged ones are alike.
    """
    n_items, m, _ = stack.shape
    fold = np.arange(sample.n) % min(folds, sample.n)
    predicted = np.zeros((n_items, m))
    judged_fold = np.full(n_items, -1)
    judged_fold[sample.rows] = fold
    for system in range(m):
        has_score = np.isfinite(sample.scores[:, system])
        for left_out_fold in range(fold.max() + 1):
            train = has_score & (fold != left_out_fold)
            if not train.any():
                continue
            guess = neighbour_means(
                stack[sample.rows[train], system], sample.scores[train, system], stack[:, system], k
            )
            in_fold = judged_fold == left_out_fold
            predicted[in_fold, system] = guess[in_fold]
            predicted[judged_fold < 0, system] += guess[judged_fold < 0] / (fold.max() + 1)
    return predicted


# -- Estimators of every system's mean over the whole test set, by name (METHODS.md section 4) -----------------------


def list_estimators() -> dict[str, Estimator]:
    """Return all estimators by name."""
    return dict(ESTIMATORS)


def check_estimator(spec: Spec) -> None:
    """Raise for an unknown estimator or parameter."""
    if spec.name not in ESTIMATORS:
        raise unknown_name("estimator", spec.name, ESTIMATORS)
    bind_parameters(spec.name, ESTIMATORS[spec.name].parameters, spec.parameters)


def run_estimator(sample: Sample, spec: Spec) -> Fitted:
    """Run the estimator that a spec names."""
    if spec.name not in ESTIMATORS:
        raise unknown_name("estimator", spec.name, ESTIMATORS)
    return ESTIMATORS[spec.name].run(sample, spec.parameters)
