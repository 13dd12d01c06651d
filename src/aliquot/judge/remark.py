"""Data whose judgments were marked: the human scores that were made of judgments are made anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.data.judgments import Judgments
from aliquot.data.names import looks_human
from aliquot.errors import quoted
from aliquot.judge.answers import Answers
from aliquot.judge.audit import counted_in
from aliquot.stats.arrays import BoolArray, FloatArray
from aliquot.stats.grouping import group_means


def with_marked(data: EvalSet, marked: Judgments, came: Answers, now: Answers) -> tuple[EvalSet, list[str]]:
    """Return the data with these judgments; a human score that was the mean of judgments is that of those that count.

    A human score that is not (it came from elsewhere, or was combined otherwise) stays, and a note says so. Data
    without any score get the mean of what counts.

    Args:
        data: the data as they came.
        marked: the judgments as they are now.
        came: their answers as they came; the scores are compared with the means of those that counted then.
        now: the same answers with the new marks.
    """
    if not data.scores:
        return replace(data, judgments=marked).aggregate(), []
    means = _means_of(data, came)
    scores = dict(data.scores)
    renewed, kept = [], []
    for name in (name for name in data.scores if name == data.human or looks_human(name)):
        match = next((key for key in means if _same(means[key](counted_in(came)), data.scores[name])), None)
        if match is None:
            kept.append(name)
        else:
            scores[name] = means[match](counted_in(now))
            renewed.append(name)
    notes = []
    if renewed:
        lost = int((np.isfinite(data.scores[renewed[0]]) & ~np.isfinite(scores[renewed[0]])).sum())
        lacking = f"; {lost} outputs have none left, so systems are compared on different items" if lost else ""
        notes.append(f"human scores made anew from what counts: {quoted(renewed)}{lacking}")
    if kept:
        notes.append(f"not the means of these judgments, so left as they were: {quoted(kept)}; use combine")
    return replace(data, judgments=marked, scores=scores), notes


def _means_of(data: EvalSet, answers: Answers) -> dict[tuple[str | None], Callable[[BoolArray], FloatArray]]:
    """Ways to the cell means of the answers that count: over all criteria, under (None,), and of each of several."""
    table = answers.table
    rows, columns = data.cell_index(table["item"].cast(data.items["id"].dtype), table["system"])
    cell, size = rows * data.n_systems + columns, data.n_items * data.n_systems
    values = table["value"].to_numpy()

    def means(which: BoolArray) -> Callable[[BoolArray], FloatArray]:
        def of(counted: BoolArray) -> FloatArray:
            return group_means(cell, np.where(counted & which, values, np.nan), size).reshape(
                data.n_items, data.n_systems
            )

        return of

    criteria = table["criterion"].drop_nulls().unique(maintain_order=True).to_list()
    found: dict[tuple[str | None], Callable[[BoolArray], FloatArray]] = {
        (None,): means(np.ones(table.height, dtype=np.bool_))
    }
    for criterion in criteria if len(criteria) > 1 else []:
        found[(criterion,)] = means((table["criterion"] == criterion).fill_null(value=False).to_numpy())
    return found


def _same(a: FloatArray, b: FloatArray) -> bool:
    present = np.isfinite(a)
    if not np.array_equal(present, np.isfinite(b)) or not present.any():
        return False
    return bool(np.allclose(a[present], b[present], rtol=1e-9, atol=1e-6))
