"""Sizes for sampling with unequal probabilities: what is likely to matter most (METHODS.md section 2)."""

from __future__ import annotations

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.errors import DataError, unknown_name
from aliquot.select.scores import filled, item_quality, item_spread
from aliquot.stats.arrays import FloatArray

Size = str
KNOWN = ("difficulty", "variance", "length", "equal")
_FLOOR = 0.1


def item_sizes(evalset: EvalSet, size: Size = "difficulty", metrics: tuple[str, ...] | None = None) -> FloatArray:
    """Return every item's size, positive, with mean 1.

    difficulty: minus the mean metric score, shifted to start at 0, plus a floor: errors, and so their variance, are
    larger where systems do badly. variance: spread of the metrics over systems, close to the variance of differences.
    length: words of the source. equal: all alike.
    """
    if size == "equal":
        return np.ones(evalset.n_items)
    if size == "difficulty":
        values = -filled(item_quality(evalset, metrics), "metric", evalset)
        values = values - values.min()
    elif size == "variance":
        values = filled(item_spread(evalset, metrics), "metric", evalset)
    elif size == "length":
        values = filled(source_lengths(evalset), "source", evalset)
    elif size in evalset.scores:
        values = filled(np.nanmean(evalset.scores[size], axis=1), size, evalset)
        values = values - min(0.0, values.min())
    elif size in evalset.items.columns and evalset.items[size].dtype.is_numeric():
        values = filled(evalset.items[size].cast(pl.Float64).fill_null(np.nan).to_numpy(), size, evalset)
        values = values - min(0.0, values.min())
    else:
        numeric = [name for name in evalset.items.columns if evalset.items[name].dtype.is_numeric()]
        raise unknown_name("size", size, [*KNOWN, *evalset.scores, *numeric])
    mean = values.mean()
    return values / mean + _FLOOR if mean > 0 else np.ones(evalset.n_items)


def source_lengths(evalset: EvalSet) -> FloatArray:
    """Words of each source; characters where words are not separated by spaces (Chinese, Japanese, Korean, Thai)."""
    if "source" not in evalset.items.columns:
        raise DataError(f"{evalset.name}: there are no sources; a length needs them (field 'src')")
    source = evalset.items["source"]
    words = source.str.strip_chars().str.split(" ").list.eval(pl.element().filter(pl.element() != "")).list.len()
    dense = source.str.count_matches(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}]")
    characters = source.str.strip_chars().str.len_chars()
    unspaced = (dense > characters / 3).fill_null(value=False)
    return (
        pl.select(pl.when(unspaced).then(characters).otherwise(words))
        .to_series()
        .cast(pl.Float64)
        .fill_null(np.nan)
        .to_numpy()
    )
