"""Targets: the output-based utility of each item of a past campaign, from human scores unless told otherwise."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from aliquot.data.evalset import EvalSet
from aliquot.data.metrics import usable_metrics
from aliquot.errors import DataError, unknown_name
from aliquot.estimate.proxies import standard_metric
from aliquot.select.registry import row_mean
from aliquot.select.scores import row_variance
from aliquot.select.texts import diversity
from aliquot.stats.arrays import FloatArray
from aliquot.stats.irt import fit_irt
from aliquot.stats.rank_rows import kendall_rows
from aliquot.stats.regression import pooled_ridge

TARGETS = ("metric_avg", "metric_var", "metric_cons", "diversity", "irt_diffdisc", "residual")
_RIDGE = 1.0
_FEWEST = 2


def item_target(evalset: EvalSet, target: str, *, metric: str | None = None, human: str | None = None) -> FloatArray:
    """Return the utility of every item, NaN where it cannot be told.

    metric_avg is taken less each system's mean, so that items judged for the weaker systems only do not seem hard.
    residual is the root mean square, over systems, of what a ridge regression of the human score on all usable metrics
    leaves (each item predicted from the others): the items that metrics get wrong.

    >>> import aliquot
    >>> item_target(aliquot.synthetic(items=5, systems=3, seed=1), "metric_var").shape
    (5,)
    """
    if target not in TARGETS:
        raise unknown_name("target", target, TARGETS)
    if target == "diversity":
        if evalset.outputs is None or evalset.n_systems < _FEWEST:
            raise DataError(f"{evalset.name}: the target diversity needs outputs of at least two systems (field 'tgt')")
        spread: FloatArray = diversity(evalset)
        return spread
    scores = evalset.score(metric) if metric is not None else evalset.human_score(human)
    several = np.isfinite(scores).sum(axis=1) >= (1 if target == "metric_avg" else _FEWEST)
    if not several.any():
        raise DataError(f"{evalset.name}: no item has the scores that the target {target} needs; leave this set out")
    values = _from_scores(evalset, scores, target, metric)
    return np.where(several, values, np.nan)


def _from_scores(evalset: EvalSet, scores: FloatArray, target: str, metric: str | None) -> FloatArray:
    if target == "metric_avg":
        return -row_mean(scores - row_mean(scores.T)[None, :])
    if target == "metric_var":
        return row_variance(scores)
    if target == "metric_cons":
        return kendall_rows(scores, row_mean(scores.T), "c")
    if target == "irt_diffdisc":
        fit = fit_irt(scores)
        return fit.discrimination * fit.difficulty
    return _residual(evalset, scores, metric)


def _residual(evalset: EvalSet, scores: FloatArray, metric: str | None) -> FloatArray:
    names = [name for name in usable_metrics(evalset) if name != metric]
    if not names:
        raise DataError(f"{evalset.name}: the target residual needs an automatic metric; choose another target")
    features = np.stack([standard_metric(evalset, name) for name in names], axis=2)
    fit = pooled_ridge(features, scores, np.ones(evalset.n_items), _RIDGE)
    left = scores - row_mean(scores.T)[None, :] - fit.left_out
    return np.sqrt(row_mean(left**2))


def normal_scores(values: FloatArray) -> FloatArray:
    """Standardise within a campaign by ranks: the k-th of n values becomes the normal quantile of (k - 1/2) / n.

    Campaigns use other scales and are skewed to a different degree (MQM penalties are mostly 0); ranks are common to
    all. Ties share their mean rank; NaN stays.

    >>> normal_scores(np.array([5.0, np.nan, 100.0, 7.0])).round(2).tolist()
    [-0.97, nan, 0.97, 0.0]
    """
    known = np.isfinite(values)
    scaled = np.full(len(values), np.nan)
    scaled[known] = ndtri((rankdata(values[known]) - 0.5) / max(1, known.sum()))
    return scaled
