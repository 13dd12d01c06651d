"""The estimators of Saldias et al. 2022 as they print them, to compare with; `cv` and `greg` are what we recommend.

Their control variates see one system at a time ("no knowledge of other ... system outputs", section 3), so that a
system's estimate is the same whatever the other systems are. Z is standardised over the whole test set, and Cov(X, Z)
comes from the sample, either as the main text prints it (the mean of X Z) or centred on the sample (their footnote 1).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from aliquot.core.conventions import is_usable
from aliquot.estimation.proxies import select_proxies
from aliquot.estimation.sample import Fitted, Sample, estimator
from aliquot.stats.arrays import FloatArray, is_constant, nan_std
from aliquot.stats.design_variance import linearised_contributions
from aliquot.stats.regression import weighted_means
from aliquot.validation import at_least

NEIGHBOURS = 25
Covariance = Literal["centred", "printed"]
Proxy = Literal["mean", "several", "knn"]


@estimator("paper_best")
def estimate_paper_best(
    sample: Sample,
    *,
    metrics: tuple[str, ...] | None = None,
    k: int = NEIGHBOURS,
    covariance: Covariance = "centred",
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
    return _published_control_variate(sample, metrics, "knn", k, covariance, _stratified_weights(sample))


@estimator("cv_published")
def estimate_cv_published(
    sample: Sample,
    *,
    metrics: tuple[str, ...] | None = None,
    proxy: Proxy = "mean",
    k: int = NEIGHBOURS,
    covariance: Covariance = "printed",
    stratified: bool = False,
) -> Fitted:
    """Saldias et al. 2022, eq. 3 and 4: control variates by the printed formulas, to compare with.

    Args:
        metrics: the metrics behind the proxy, joined by |; all usable ones by default. One metric is its own proxy.
        proxy: the mean of the standardised metrics, several at once (eq. 4), or k nearest neighbours.
        k: how many judged neighbours predict an output, for knn.
        covariance: Cov(X, Z) as printed, the mean of X Z, or centred on the sample (their footnote 1).
        stratified: weigh the documents' means by their sizes (eq. 1), for samples that are stratified by document.
    """
    weight = _stratified_weights(sample) if stratified else np.ones_like(sample.scores)
    return _published_control_variate(sample, metrics, proxy, k, covariance, weight)


def validate_neighbours(k: int) -> None:
    """Raise OptionError for fewer than one neighbour."""
    at_least("k", k, 1, "choose at least 1 neighbour")


def neighbour_means(points: FloatArray, target: FloatArray, queries: FloatArray, k: int) -> FloatArray:
    """Return the mean target of the k points nearest to each query."""
    from scipy.spatial import cKDTree  # noqa: PLC0415  (slow to import, and most estimates need no neighbours)

    k = min(k, len(points))
    _, near = cKDTree(points).query(queries, k=k)
    means: FloatArray = target[np.asarray(near).reshape(len(queries), k)].mean(axis=1)
    return means


def _published_control_variate(
    sample: Sample, metrics: tuple[str, ...] | None, proxy: Proxy, k: int, covariance: Covariance, weight: FloatArray
) -> Fitted:
    """Estimate each system by X-bar - (E[ZZ']^-1 E[XZ])' Z-bar; with one Z, X-bar - Cov(X, Z) Z-bar."""
    validate_neighbours(k)
    chosen_metrics = None if metrics is None else select_proxies(sample.evalset, metrics)
    values, residuals = weighted_means(sample.scores, weight), sample.scores.copy()
    used: dict[str, None] = {}
    for system in range(sample.evalset.n_systems):
        has_score = np.isfinite(sample.scores[:, system])
        names = _system_metrics(sample, chosen_metrics, system)
        if not names or not has_score.any():
            continue
        used |= dict.fromkeys(names)
        rows, target = sample.rows[has_score], sample.scores[has_score, system]
        proxies = _standardise_columns(
            np.column_stack([_fill_with_mean(sample.evalset.scores[name][:, system]) for name in names])
        )
        if proxy == "mean":
            proxies = _standardise_columns(proxies.mean(axis=1, keepdims=True))
        elif proxy == "knn":
            guess = neighbour_means(proxies[rows], target, proxies, k)
            proxies = _standardise_columns(guess[:, None])
        slopes = _control_slopes(proxies, proxies[rows], target, covariance)
        shares = weight[has_score, system] / weight[has_score, system].sum()
        values[system] = shares @ target - slopes @ (shares @ proxies[rows])
        residuals[has_score, system] = target - proxies[rows] @ slopes
    return Fitted(values, linearised_contributions(residuals, weight), details={"metrics": list(used)} if used else {})


def _system_metrics(sample: Sample, named: list[str] | None, system: int) -> list[str]:
    """Return the metrics that vary over the system's outputs; unless named, they must cover half of these."""
    scores = {name: sample.evalset.scores[name][:, system] for name in named or sample.evalset.metrics}
    if named is None:
        return [name for name, column in scores.items() if is_usable(column)]
    return [name for name in named if np.isfinite(scores[name]).any() and not is_constant(scores[name])]


def _fill_with_mean(column: FloatArray) -> FloatArray:
    """Replace missing values by the mean of the column."""
    return np.where(np.isfinite(column), column, np.nanmean(column))


def _standardise_columns(values: FloatArray) -> FloatArray:
    """Standardise columns over the test set; constant ones become 0."""
    spread = nan_std(values, axis=0)
    standard: FloatArray = np.divide(values - values.mean(axis=0), spread, out=np.zeros_like(values), where=spread > 0)
    return standard


def _control_slopes(everywhere: FloatArray, z: FloatArray, target: FloatArray, covariance: Covariance) -> FloatArray:
    """Return E[ZZ']^-1 E[XZ], the first over the test set, the second over the sample."""
    centred = covariance == "centred"
    x = target - target.mean() if centred else target
    moment = (x[:, None] * (z - z.mean(axis=0) if centred else z)).mean(axis=0)
    second = everywhere.T @ everywhere / len(everywhere)
    slopes: FloatArray = np.linalg.lstsq(second, moment, rcond=None)[0]
    return slopes


def _stratified_weights(sample: Sample) -> FloatArray:
    """Return weights N_l / n_l of judged outputs (equation 1); documents without judgments drop out."""
    codes = sample.evalset.documents
    if codes is None:
        return np.ones_like(sample.scores)
    judged, sizes = codes[sample.rows], np.bincount(codes)
    present = np.isfinite(sample.scores)
    counts = np.stack([np.bincount(judged[column], minlength=len(sizes)) for column in present.T], axis=1)
    weight: FloatArray = (sizes[:, None] / np.maximum(counts, 1))[judged]
    return weight
