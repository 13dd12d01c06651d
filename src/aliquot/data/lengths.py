"""Lengths of sources: a free proxy of difficulty, and the base of cost models."""

from __future__ import annotations

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.errors import DataError
from aliquot.stats.arrays import FloatArray


def source_lengths(evalset: EvalSet) -> FloatArray:
    """Words of each source; characters where words are not separated by spaces (Chinese, Japanese, Korean, Thai)."""
    if "source" not in evalset.items.columns:
        raise DataError(f"{evalset.name}: there are no sources; a length needs them (field 'src')")
    source = evalset.items["source"]
    words = source.str.count_matches(r"\S+")
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


def log_lengths(evalset: EvalSet) -> FloatArray:
    """Logarithm of 1 + length; NaN for an item without a source."""
    return evalset.derived("log lengths", lambda this: np.log1p(source_lengths(this)))
