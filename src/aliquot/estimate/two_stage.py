"""Selections in two stages: the population is the full pool, and the data may hold only what the first chose.

A proxy helps an estimate by its mean over the population. Outputs, and so metrics, are there for the first stage's
items only; their mean over those must not be taken for the pool's. So only what is known of the whole pool serves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.data.selection import Selection
from aliquot.errors import DataError
from aliquot.stats.arrays import FloatArray

_TWO_STAGES = "within"


def whole_pool(evalset: EvalSet, scores: FloatArray, selection: Selection) -> tuple[EvalSet, FloatArray]:
    """Return the full pool and its human scores, without what is known of a part only; one stage: as it is.

    Items that the data lack become items of which nothing is known.
    """
    if _TWO_STAGES not in selection.details or selection.probability is None:
        return evalset, scores
    lacking = selection.population - evalset.n_items
    if lacking < 0:
        raise DataError(
            f"{evalset.name}: {evalset.n_items} items, but the selection is from a pool of {selection.population}; "
            "give the data that it was made from"
        )
    if lacking:
        return _padded(evalset, lacking), np.vstack([scores, np.full((lacking, evalset.n_systems), np.nan)])
    partial = [name for name in evalset.metrics if not np.isfinite(evalset.scores[name]).any(axis=1).all()]
    kept = {name: values for name, values in evalset.scores.items() if name not in partial}
    return (replace(evalset, scores=kept) if partial else evalset), scores


def _padded(evalset: EvalSet, lacking: int) -> EvalSet:
    """The set with unknown items at its end, and without anything that would be known of a part only."""
    ids = evalset.items["id"]
    if ids.dtype == pl.Int64:
        start = max(0, *ids.to_list()) + 1 if len(ids) else 0
        new = pl.Series("id", np.arange(start, start + lacking))
    else:
        new = pl.Series("id", [f"\x00pool {number}" for number in range(lacking)])
    columns = [name for name in ("id", "document") if name in evalset.items.columns]
    items = pl.concat([evalset.items.select(columns), new.to_frame()], how="diagonal")
    return EvalSet(items, evalset.systems, human=None, name=evalset.name)
