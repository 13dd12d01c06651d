"""Scores of items: which scores a method uses, their summary for each item, and sizes for `pps`.

Sizes, for unequal inclusion probabilities, are those of docs/methods.md, section 2.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl

from aliquot.core.conventions import is_human_name, log_lengths, source_lengths, usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import parse_spec, strip_parentheses
from aliquot.errors import AliquotWarning, DataError, OptionError, quoted, unknown_name
from aliquot.sampling.methods import all_methods, find_method
from aliquot.stats.arrays import FloatArray, IntArray, max_abs, round_significant

Size = str
Scale = Literal["auto", "penalties", "ratings"]
SIZES = ("error", "difficulty", "variance", "length", "equal")
_FLOOR = 0.1
_CLIP = 3.0

# Slopes of the log of the expected residual on standardised difficulty and log source length. On penalties (MQM), hard
# and long items have larger errors; on bounded ratings almost all items are alike (docs/evidence.md, sizes).
_SLOPES = {"penalties": (0.25, 0.3), "ratings": (0.1, 0.0)}

# The same where a utility takes the place of difficulty; learned ones know of length (docs/evidence-sources.md, sizes).
_UTILITY_SLOPES = {"penalties": (0.3, 0.0), "ratings": (0.1, 0.0)}


def row_mean(values: FloatArray) -> FloatArray:
    """Mean of each row over what is present; NaN for an empty row."""
    present = np.isfinite(values)
    count = present.sum(axis=1)
    total = np.where(present, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def system_means(values: FloatArray) -> FloatArray:
    """Mean of each column over present values, rounded so that equal means tie.

    >>> system_means(np.array([[0.1, 0.3], [0.3, 0.2], [0.2, 0.1]])).tolist()
    [0.2, 0.2]
    """
    return round_significant(row_mean(values.T), float(max_abs(values)))


def metric_scores(evalset: EvalSet, metric: str | None) -> FloatArray:
    """Return the named metric's scores, or those of the only metric; warn when it is a human score."""
    if metric is None:
        if len(evalset.metrics) != 1:
            raise OptionError(
                f"{evalset.name}: choose a metric with `metric`; there are {quoted(evalset.metrics) or 'none'}"
            )
        metric = evalset.metrics[0]
    values = evalset.score(metric)
    if metric == evalset.human or is_human_name(metric):
        warnings.warn(f"'{metric}' is a human score: this is an oracle, for study only", AliquotWarning, 2)
    if not np.isfinite(values).any():
        raise DataError(f"{evalset.name}: the metric '{metric}' has no value at all; choose another")
    return values


def select_metrics(evalset: EvalSet, names: Sequence[str] | None = None) -> list[str]:
    """Return the named metrics, or all that vary and cover at least half of the cells."""
    if names:
        for name in names:
            metric_scores(evalset, name)
        return list(names)
    return usable_metrics(evalset)


def item_quality(evalset: EvalSet, names: Sequence[str] | None = None) -> FloatArray:
    """Return the mean over metrics of standardised item means (N); NaN without metrics."""
    chosen = select_metrics(evalset, names)
    if not chosen:
        raise DataError(f"{evalset.name}: no metric covers at least half of the outputs; name one with metrics=")
    return row_mean(np.column_stack([standardise(row_mean(evalset.scores[name])) for name in chosen]))


def item_spread(evalset: EvalSet, names: Sequence[str] | None = None) -> FloatArray:
    """Return the standard deviation between systems on each item, over standardised metrics (N)."""
    chosen = select_metrics(evalset, names)
    if not chosen:
        raise DataError(f"{evalset.name}: no metric covers at least half of the outputs; name one with metrics=")
    variances = [row_variance(evalset.scores[name]) / np.nanvar(evalset.scores[name]) for name in chosen]
    return np.sqrt(row_mean(np.column_stack(variances)))


def standardise(values: FloatArray) -> FloatArray:
    """Shift and scale to mean 0 and variance 1 over what is present; a constant becomes 0."""
    spread = float(np.nanstd(values)) if np.isfinite(values).any() else 0.0
    centred: FloatArray = values - (np.nanmean(values) if np.isfinite(values).any() else 0.0)
    return centred / spread if spread > 0 else centred


def row_variance(values: FloatArray) -> FloatArray:
    """Population variance of each row over what is present; NaN for an empty row."""
    mean = row_mean(values)[:, None]
    return row_mean((values - mean) ** 2)


def rank_bins(values: FloatArray, bins: int) -> IntArray:
    """Bins of equal numbers of items by rank; ties in their order.

    >>> rank_bins(np.array([0.9, 0.1, 0.8, 0.2]), 2).tolist()
    [1, 0, 1, 0]
    """
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(values, kind="stable")] = np.arange(len(values))
    return rank * bins // len(values)


def fill_missing(values: FloatArray, what: str, evalset: EvalSet) -> FloatArray:
    """Replace missing values by the mean, with a warning: every item of a design needs a probability above 0."""
    missing = ~np.isfinite(values)
    if missing.any():
        count = int(missing.sum())
        warnings.warn(f"{count} of {evalset.n_items} items have no {what}; they get the average", AliquotWarning, 2)
        values = np.where(missing, np.nanmean(values) if not missing.all() else 1.0, values)
    return values


# -- sizes ------------------------------------------------------------------------------------------------------------


def item_sizes(
    evalset: EvalSet,
    size: Size = "error",
    metrics: tuple[str, ...] | None = None,
    scale: Scale = "auto",
    slopes: tuple[float, ...] | None = None,
) -> FloatArray:
    """Return sizes of the items, positive, with mean 1 (cached).

    error: the expected size of what a regression on the metrics leaves unexplained, exp(a z + b L) with z the
    standardised difficulty and L the standardised log length; a and b depend on the scale people judge on.
    difficulty: minus the mean metric score, shifted to start at 0, plus a floor. variance: spread of the metrics over
    systems, close to the variance of differences. length: words of the source. equal: all alike.
    A utility's spec: as error, with the standardised utility in the place of difficulty; a utility orders items, and
    its own units mean nothing.
    """
    if slopes is not None and len(slopes) != 2:
        raise OptionError(f"slopes={'|'.join(map(str, slopes))}: give two, on difficulty and on log length: 0.25|0.3")
    key = f"sizes {size!r} {metrics!r} {scale} {slopes!r} {evalset.human!r}"
    return evalset.derived(key, lambda data: _compute_sizes(data, size, metrics, scale, slopes))


def _compute_sizes(
    evalset: EvalSet, size: Size, metrics: tuple[str, ...] | None, scale: Scale, slopes: tuple[float, ...] | None
) -> FloatArray:
    if size == "equal":
        return np.ones(evalset.n_items)
    if size == "error" or _is_utility(evalset, size):
        by_scale = _SLOPES if size == "error" else _UTILITY_SLOPES
        used = slopes or by_scale[infer_scale(evalset) if scale == "auto" else scale]
        values = _expected_error(evalset, _item_difficulty(evalset, size, metrics), used)
        return values / float(values.mean())
    if size == "difficulty":
        values = -fill_missing(item_quality(evalset, metrics), "metric", evalset)
        values = values - values.min()
    elif size == "variance":
        values = fill_missing(item_spread(evalset, metrics), "metric", evalset)
    elif size == "length":
        values = fill_missing(source_lengths(evalset), "source", evalset)
    else:
        values = _column_values(evalset, size)
    mean = float(values.mean())
    return values / mean + _FLOOR if mean > 0 else np.ones(evalset.n_items)


def infer_scale(evalset: EvalSet) -> str:
    """Return whether human scores are penalties (none positive, some negative) or ratings, the default without scores.

    Past or first judgments show which scale people use.
    """
    if evalset.human is None:
        return "ratings"
    values = evalset.scores[evalset.human]
    present = values[np.isfinite(values)]
    return "penalties" if len(present) and present.max() <= 0 and present.min() < 0 else "ratings"


def _item_difficulty(evalset: EvalSet, size: Size, metrics: tuple[str, ...] | None) -> FloatArray | None:
    """Return the items' difficulty: a utility, or minus the mean metric; None without metrics."""
    if size != "error":
        return fill_missing(_item_utility(evalset, size), size, evalset)
    return (
        -fill_missing(item_quality(evalset, metrics), "metric", evalset) if select_metrics(evalset, metrics) else None
    )


def _expected_error(evalset: EvalSet, difficulty: FloatArray | None, slopes: tuple[float, ...]) -> FloatArray:
    difficulty_slope, length_slope = slopes
    logarithm = np.zeros(evalset.n_items)
    if difficulty is not None:
        logarithm += difficulty_slope * np.clip(standardise(difficulty), -_CLIP, _CLIP)
    if length_slope and evalset.has_sources:
        lengths = fill_missing(log_lengths(evalset), "source", evalset)
        logarithm += length_slope * np.clip(standardise(lengths), -_CLIP, _CLIP)
    return np.exp(logarithm)


def _is_utility(evalset: EvalSet, size: str) -> bool:
    """Return whether a size is a utility's spec (source:model=FILE) and no score or column has its name."""
    method = all_methods().get(strip_parentheses(size).partition(":")[0])
    named = size in evalset.scores or size in evalset.items.columns
    return not named and method is not None and method.kind == "utility"


def _item_utility(evalset: EvalSet, size: str) -> FloatArray:
    spec = parse_spec(strip_parentheses(size))
    method, implied = find_method(spec.name)
    values: FloatArray = method.run(evalset, implied | dict(spec.parameters), rng=np.random.default_rng(0))
    return np.where(np.isfinite(values), values, np.nan)


def _column_values(evalset: EvalSet, name: str) -> FloatArray:
    """Return a score's item means or a numeric column, shifted so that none is negative."""
    if name in evalset.scores:
        values = row_mean(evalset.scores[name])
    elif name in evalset.items.columns and evalset.items[name].dtype.is_numeric():
        values = evalset.items[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
    else:
        numeric = [column for column in evalset.items.columns if evalset.items[column].dtype.is_numeric()]
        raise unknown_name("size", name, [*SIZES, *evalset.scores, *numeric])
    values = fill_missing(values, name, evalset)
    shifted: FloatArray = values - min(0.0, float(values.min()))
    return shifted
