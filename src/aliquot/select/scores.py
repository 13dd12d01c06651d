"""Which scores a method looks at, and what is made of several of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.data.metrics import usable_metrics
from aliquot.data.names import looks_human
from aliquot.errors import AliquotWarning, DataError, OptionError, quoted
from aliquot.select.registry import row_mean
from aliquot.stats.arrays import FloatArray


def metric_scores(evalset: EvalSet, metric: str | None) -> FloatArray:
    """Return the named metric's scores, or those of the only metric; say so when it is people's."""
    if metric is None:
        if len(evalset.metrics) != 1:
            raise OptionError(
                f"{evalset.name}: choose a metric with --metric / metric=; there are "
                f"{quoted(evalset.metrics) or 'none'}"
            )
        metric = evalset.metrics[0]
    values = evalset.score(metric)
    if metric == evalset.human or looks_human(metric):
        warnings.warn(f"'{metric}' is a human score: this is an oracle, for study only", AliquotWarning, 2)
    if not np.isfinite(values).any():
        raise DataError(f"{evalset.name}: the metric '{metric}' has no value at all; choose another")
    return values


def chosen_metrics(evalset: EvalSet, names: Sequence[str] | None = None) -> list[str]:
    """Return the named metrics, or all that vary and are there for at least half of the cells."""
    if names:
        for name in names:
            metric_scores(evalset, name)
        return list(names)
    return usable_metrics(evalset)


def item_quality(evalset: EvalSet, names: Sequence[str] | None = None) -> FloatArray:
    """Mean over metrics of the standardised item means: how well systems do on an item, by all metrics together.

    An item without any metric gets NaN.
    """
    chosen = chosen_metrics(evalset, names)
    if not chosen:
        raise DataError(f"{evalset.name}: no metric covers at least half of the outputs; name one with metrics=")
    return row_mean(np.column_stack([standardised(row_mean(evalset.scores[name])) for name in chosen]))


def item_spread(evalset: EvalSet, names: Sequence[str] | None = None) -> FloatArray:
    """Root mean over metrics of the standardised variance between systems on an item."""
    chosen = chosen_metrics(evalset, names)
    if not chosen:
        raise DataError(f"{evalset.name}: no metric covers at least half of the outputs; name one with metrics=")
    variances = [row_variance(evalset.scores[name]) / np.nanvar(evalset.scores[name]) for name in chosen]
    return np.sqrt(row_mean(np.column_stack(variances)))


def standardised(values: FloatArray) -> FloatArray:
    """Shift and scale to mean 0 and variance 1 over what is present; a constant becomes 0."""
    spread = float(np.nanstd(values)) if np.isfinite(values).any() else 0.0
    centred: FloatArray = values - (np.nanmean(values) if np.isfinite(values).any() else 0.0)
    return centred / spread if spread > 0 else centred


def row_variance(values: FloatArray) -> FloatArray:
    """Population variance of each row over what is present; NaN for an empty row."""
    mean = row_mean(values)[:, None]
    return row_mean((values - mean) ** 2)


def filled(values: FloatArray, what: str, evalset: EvalSet) -> FloatArray:
    """Replace missing item values by the mean of the others, and say so: a design must give every item a chance."""
    missing = ~np.isfinite(values)
    if missing.any():
        count = int(missing.sum())
        warnings.warn(f"{count} of {evalset.n_items} items have no {what}; they get the average", AliquotWarning, 2)
        values = np.where(missing, np.nanmean(values) if not missing.all() else 1.0, values)
    return values
