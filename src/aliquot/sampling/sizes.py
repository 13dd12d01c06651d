"""Sizes for sampling with unequal probabilities: what is likely to matter most (METHODS.md section 2)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from aliquot.core.conventions import log_lengths, source_lengths
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import parse_spec, unwrapped
from aliquot.errors import OptionError, unknown_name
from aliquot.sampling.registry import (
    chosen_metrics,
    filled,
    item_quality,
    item_spread,
    lookup,
    registered,
    row_mean,
    standardised,
)
from aliquot.stats.arrays import FloatArray

Size = str
Scale = Literal["auto", "penalties", "ratings"]
KNOWN = ("error", "difficulty", "variance", "length", "equal")
_FLOOR = 0.1
_CLIP = 3.0

# Slopes of the log of the expected residual on standardised difficulty and log source length. On penalties (MQM), hard
# and long items have larger errors; on bounded ratings almost all items are alike (docs/evidence.md, sizes).
_SLOPES = {"penalties": (0.25, 0.3), "ratings": (0.1, 0.0)}

# The same where a utility takes the place of difficulty; learned ones know of length (docs/evidence-sources.md, sizes).
_UTILITY_SLOPES = {"penalties": (0.3, 0.0), "ratings": (0.1, 0.0)}


def item_sizes(
    evalset: EvalSet,
    size: Size = "error",
    metrics: tuple[str, ...] | None = None,
    scale: Scale = "auto",
    slopes: tuple[float, ...] | None = None,
) -> FloatArray:
    """Return every item's size, positive, with mean 1; computed once for a set.

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
    return evalset.derived(key, lambda data: _sizes(data, size, metrics, scale, slopes))


def _sizes(
    evalset: EvalSet, size: Size, metrics: tuple[str, ...] | None, scale: Scale, slopes: tuple[float, ...] | None
) -> FloatArray:
    if size == "equal":
        return np.ones(evalset.n_items)
    if size == "error" or _is_utility(evalset, size):
        by_scale = _SLOPES if size == "error" else _UTILITY_SLOPES
        used = slopes or by_scale[judged_scale(evalset) if scale == "auto" else scale]
        values = _expected_error(evalset, _difficulty(evalset, size, metrics), used)
        return values / float(values.mean())
    if size == "difficulty":
        values = -filled(item_quality(evalset, metrics), "metric", evalset)
        values = values - values.min()
    elif size == "variance":
        values = filled(item_spread(evalset, metrics), "metric", evalset)
    elif size == "length":
        values = filled(source_lengths(evalset), "source", evalset)
    else:
        values = _column(evalset, size)
    mean = float(values.mean())
    return values / mean + _FLOOR if mean > 0 else np.ones(evalset.n_items)


def judged_scale(evalset: EvalSet) -> str:
    """Tell penalties (no positive value, some negative) from ratings; ratings where nobody has judged yet.

    Which scale people use is known before they judge; where past or first judgments are there, they show it.
    """
    if evalset.human is None:
        return "ratings"
    values = evalset.scores[evalset.human]
    known = values[np.isfinite(values)]
    return "penalties" if len(known) and known.max() <= 0 and known.min() < 0 else "ratings"


def _difficulty(evalset: EvalSet, size: Size, metrics: tuple[str, ...] | None) -> FloatArray | None:
    """What the expected error grows with: a utility, or minus the metrics' mean; None where there is no metric."""
    if size != "error":
        return filled(_utility(evalset, size), size, evalset)
    return -filled(item_quality(evalset, metrics), "metric", evalset) if chosen_metrics(evalset, metrics) else None


def _expected_error(evalset: EvalSet, difficulty: FloatArray | None, slopes: tuple[float, ...]) -> FloatArray:
    difficulty_slope, length_slope = slopes
    logarithm = np.zeros(evalset.n_items)
    if difficulty is not None:
        logarithm += difficulty_slope * np.clip(standardised(difficulty), -_CLIP, _CLIP)
    if length_slope and "source" in evalset.items.columns:
        lengths = filled(log_lengths(evalset), "source", evalset)
        logarithm += length_slope * np.clip(standardised(lengths), -_CLIP, _CLIP)
    return np.exp(logarithm)


def _is_utility(evalset: EvalSet, size: str) -> bool:
    """Tell whether a size is a utility's spec, as source:model=FILE; a score or column of that name goes first."""
    method = registered().get(unwrapped(size).partition(":")[0])
    named = size in evalset.scores or size in evalset.items.columns
    return not named and method is not None and method.kind == "utility"


def _utility(evalset: EvalSet, size: str) -> FloatArray:
    spec = parse_spec(unwrapped(size))
    method, implied = lookup(spec.name)
    values: FloatArray = method.run(evalset, implied | dict(spec.parameters), rng=np.random.default_rng(0))
    return np.where(np.isfinite(values), values, np.nan)


def _column(evalset: EvalSet, name: str) -> FloatArray:
    """Return a score's item means or a numeric item column, shifted to start at 0 where it goes below."""
    if name in evalset.scores:
        values = row_mean(evalset.scores[name])
    elif name in evalset.items.columns and evalset.items[name].dtype.is_numeric():
        values = evalset.items[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
    else:
        numeric = [column for column in evalset.items.columns if evalset.items[column].dtype.is_numeric()]
        raise unknown_name("size", name, [*KNOWN, *evalset.scores, *numeric])
    values = filled(values, name, evalset)
    shifted: FloatArray = values - min(0.0, float(values.min()))
    return shifted
