"""Data whose judgments were marked: the human scores that were made of judgments are made anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.data.judgments import Judgments
from aliquot.data.names import looks_human
from aliquot.errors import quoted
from aliquot.stats.arrays import FloatArray


def with_marked(data: EvalSet, marked: Judgments) -> tuple[EvalSet, list[str]]:
    """Return the data with these judgments; a human score that was the mean of judgments is that of those that count.

    A human score that is not (it came from elsewhere, or was combined otherwise) stays, and a note says so.
    """
    old, new = _means(data), _means(replace(data, judgments=marked))
    human = [name for name in data.scores if name == data.human or looks_human(name)]
    scores = dict(data.scores)
    renewed, kept = [], []
    for name in human:
        match = next((key for key, values in old.items() if _same(values, data.scores[name])), None)
        if match is None:
            kept.append(name)
        else:
            scores[name] = new[match]
            renewed.append(name)
    notes = []
    if renewed:
        lost = int((np.isfinite(data.scores[renewed[0]]) & ~np.isfinite(scores[renewed[0]])).sum())
        lacking = f"; {lost} outputs have none left, so systems are compared on different items" if lost else ""
        notes.append(f"human scores made anew from what counts: {quoted(renewed)}{lacking}")
    if kept:
        notes.append(f"not the means of these judgments, so left as they were: {quoted(kept)}; use combine")
    return replace(data, judgments=marked, scores=scores), notes


def _means(data: EvalSet) -> dict[tuple[str | None], FloatArray]:
    """Cell means over all criteria, under (None,), and of each."""
    if data.judgments is None:
        return {}
    bare = EvalSet(items=data.items.select("id"), systems=data.systems, judgments=data.judgments)
    wanted = [None, *data.judgments.criteria]
    return {(criterion,): bare.aggregate(criterion=criterion, name="mean").scores["mean"] for criterion in wanted}


def _same(a: FloatArray, b: FloatArray) -> bool:
    present = np.isfinite(a)
    if not np.array_equal(present, np.isfinite(b)) or not present.any():
        return False
    return bool(np.allclose(a[present], b[present], rtol=1e-9, atol=1e-6))
