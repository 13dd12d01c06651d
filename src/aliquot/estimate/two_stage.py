"""Selections from a pool, in one stage or two: the population is all of it, the data may hold only what was chosen.

A proxy helps an estimate by its mean over the population. Outputs, and so metrics, are there for the first stage's
items only; their mean over those must not be taken for the pool's. So only what is known of the whole pool serves.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet, at_rows
from aliquot.data.selection import Selection
from aliquot.data.spec import Spec
from aliquot.errors import AliquotWarning, OptionError
from aliquot.stats.arrays import FloatArray

_TWO_STAGES = "within"


def whole_pool(evalset: EvalSet, scores: FloatArray, selection: Selection) -> tuple[EvalSet, FloatArray]:
    """Return the full pool and its human scores, without what is known of a part only; other data: as they are.

    One stage is like two where the data lack items of the pool: outputs were made for the chosen ones only. Items that
    the data lack become items of which nothing is known. Data may hold more than the pool, where items were excluded or
    the first stage has no probabilities and is the pool itself; then only the judged items are sure.
    """
    one_stage = _TWO_STAGES not in selection.details
    if selection.probability is None or (one_stage and evalset.n_items >= selection.population):
        return evalset, scores
    if evalset.n_items > selection.population:
        warnings.warn(
            f"{evalset.name}: {evalset.n_items} items, but the selection is about {selection.population} of them: "
            "metrics are not used; give the data of those items only, and they are", AliquotWarning, 4,
        )  # fmt: skip
        chosen = np.isin(evalset.items["id"].to_numpy(), np.array(selection.ids))
        evalset, scores = at_rows(evalset, np.flatnonzero(chosen)), scores[chosen]
    lacking = selection.population - evalset.n_items
    if lacking:
        return _padded(evalset, lacking), np.vstack([scores, np.full((lacking, evalset.n_systems), np.nan)])
    partial = [name for name in evalset.metrics if not np.isfinite(evalset.scores[name]).any(axis=1).all()]
    kept = {name: values for name, values in evalset.scores.items() if name not in partial}
    return (replace(evalset, scores=kept) if partial else evalset), scores


def require_known_of_pool(data: EvalSet, pool: EvalSet, spec: Spec) -> None:
    """Refuse metrics named for an estimate that are there for the first stage's items only."""
    asked = str(spec.parameters.get("metrics", "")).split("|")
    partial = [name for name in asked if name in data.scores and name not in pool.scores]
    if partial:
        raise OptionError(
            f"metrics={'|'.join(partial)}: known of the first stage's items only, and their mean over the pool is not; "
            "leave them out, or give data that have them for the whole pool"
        )


def _padded(evalset: EvalSet, lacking: int) -> EvalSet:
    """The set with unknown items at its end, and without anything that would be known of a part only."""
    ids = evalset.items["id"]
    if ids.dtype == pl.Int64:
        start = max(0, int(ids.to_numpy().max(initial=0))) + 1
        new = pl.Series("id", np.arange(start, start + lacking))
    else:
        new = pl.Series("id", [f"\x00pool {number}" for number in range(lacking)])
    columns = [name for name in ("id", "document") if name in evalset.items.columns]
    items = pl.concat([evalset.items.select(columns), new.to_frame()], how="diagonal")
    return EvalSet(items, evalset.systems, human=None, name=evalset.name)
