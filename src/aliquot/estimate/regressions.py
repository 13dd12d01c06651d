"""Regression on all that metrics and sources say: greg, and multilevel for rankings (METHODS.md section 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from aliquot.estimate.fitted import Fitted, estimator
from aliquot.estimate.means import mean
from aliquot.estimate.proxies import plain_proxies, rich_proxies, usable
from aliquot.estimate.sample import Sample
from aliquot.stats.design_variance import contributions
from aliquot.stats.regression import pooled_ridge, power, weighted_means
from aliquot.stats.shrinkage import FEWEST_SYSTEMS, shrunk

RIDGE = 1.0
_ITEMS_PER_SLOPE = 4


@estimator("greg")
def greg(
    sample: Sample,
    *,
    metrics: tuple[str, ...] | None = None,
    ridge: float | None = None,
    features: Literal["rich", "plain"] = "rich",
    tune: bool = True,
) -> Fitted:
    """General regression: predictions for all items plus the weighted mean of the residuals.

    Slopes are shared by all systems and fitted with weights 1/pi^2 (the residuals of an item drawn with probability
    pi, proportional to their expected size, have variance proportional to pi^2); residuals are weighted by 1/pi.

    Args:
        metrics: the proxies, joined by |; all that vary and cover half of the outputs by default.
        ridge: regularisation in items; 1 for rich features, 0 for plain ones.
        features: rich (metrics, deviations, length, curvature) or plain (the metrics only).
        tune: use only as much of the regression as predicts items it has not seen.
    """
    names = usable(sample.evalset, metrics)
    build = rich_proxies if features == "rich" else plain_proxies
    proxies = build(sample.evalset, names, sample.rows)
    if proxies.width == 0 or sample.n < 3:
        fitted = mean(sample)
        why = "fewer than three judged items" if proxies.width else "no usable metric and no source"
        return Fitted(fitted.values, fitted.z, notes=(f"{why}: the plain mean is used",))
    strength = (RIDGE if features == "rich" else 0.0) if ridge is None else ridge
    enough = RIDGE if features == "rich" else RIDGE * proxies.width  # plain features have unit variance each
    strength, notes = taught(proxies.width, sample, strength, enough)
    fit = pooled_ridge(proxies.judged, sample.scores, sample.weight**2, strength)
    share = power(sample.scores, fit.left_out, sample.weight) if tune else 1.0
    slopes = share * fit.slopes
    residual = sample.scores - proxies.judged @ slopes
    foreseen = proxies.means @ slopes
    values = foreseen + weighted_means(residual, sample.weight)
    # Errors are judged by residuals of items the slopes have not seen: in-sample ones are too small.
    unseen = np.where(np.isfinite(sample.scores), sample.scores - share * fit.left_out, np.nan)
    return Fitted(
        values, contributions(unseen, sample.weight), proxy=fit.left_out, foreseen=foreseen, notes=notes,
        details={"metrics": names, "power": share, "features": proxies.width},
    )  # fmt: skip


@estimator("multilevel")
def multilevel(sample: Sample, *, metrics: tuple[str, ...] | None = None) -> Fitted:
    """For rankings: greg, its system effects drawn towards what the metrics expect, as far as they proved right.

    How far is told by the judged items (stats/shrinkage.py). Means are no longer unbiased: a system that the metrics
    misjudge, and they alone, is drawn the wrong way. Errors are those of the posterior: the systems' own parts of the
    contributions are multiplied by the root of the share. With fewer than four systems it is greg.

    Args:
        metrics: the proxies, joined by |; all that vary and cover half of the outputs by default.
    """
    fitted = greg(sample, metrics=metrics)
    if fitted.foreseen is None:
        return fitted
    if np.isfinite(fitted.values).sum() < FEWEST_SYSTEMS:
        note = f"fewer than {FEWEST_SYSTEMS} systems do not tell how far to draw: nothing is drawn, greg is used"
        return replace(fitted, notes=(*fitted.notes, note))
    values, share = shrunk(fitted.values, fitted.foreseen, sample.covariance(sample.errors(fitted.z)))
    common = fitted.z.mean(axis=1, keepdims=True)
    note = (f"means are drawn towards what the metrics expect ({share:.0%} of the systems' own effects is kept): "
            "biased, for rankings only")  # fmt: skip
    return replace(fitted, values=values, z=common + np.sqrt(share) * (fitted.z - common),
                   notes=(*fitted.notes, note), details={**fitted.details, "share": share})  # fmt: skip


def taught(features: int, sample: Sample, ridge: float, enough: float) -> tuple[float, tuple[str, ...]]:
    """Without ridge, a slope needs several items to learn from, or errors look far too small: then ridge is used."""
    if ridge >= enough or features * _ITEMS_PER_SLOPE <= sample.n:
        return ridge, ()
    return enough, (f"{features} proxies and only {sample.n} judged items: ridge={enough:g} is used",)
