"""What `combine` returns, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from aliquot.annotation.combine_methods import (
    LabelsCurve,
)
from aliquot.core.evalset import EvalSet
from aliquot.core.result import Result
from aliquot.core.view import Column, View
from aliquot.core.written import format_number


@dataclass(frozen=True, eq=False)
class Combined(Result):
    """The new score, and how it was made."""

    evalset: EvalSet  # the data with the new score as their human score (and `human_<criterion>` of several criteria)
    score: str  # the new score's name
    cells: pl.DataFrame  # one row per output and criterion: value, answers, confidence and likeliest label (of labels)
    queue: pl.DataFrame  # the outputs that experts should decide, least sure first, with their texts
    # Accuracy (dawid_skene), severity and noise (crossed), mean and spread (z) of annotators; empty otherwise.
    annotators: pl.DataFrame
    systems: pl.DataFrame  # each system's mean of the new score, and the number of its items
    curve: LabelsCurve | None
    notes: tuple[str, ...]
    signature: str

    def to_frame(self) -> pl.DataFrame:
        """One row per system."""
        return self.systems

    def views(self) -> Sequence[View]:
        """Return the views `systems`, `curve`, `annotators` and `queue`."""
        systems = (
            Column("system", kind="name"),
            Column("mean", _format_mean(self.score)),
            Column("items", kind="count"),
        )
        intro = f"score '{self.score}' of {self.cells.height} outputs (x criteria)"
        queue = self.queue.select("item", "system", "criterion", "best", "confidence", "answers")
        views = [View.of_frame("systems", self.systems, systems, title="systems", intro=(intro,))]
        if self.curve is not None:
            views.append(_curve_view(self.curve))
        views += [
            _frame_view("annotators", self.annotators, "annotators"),
            _frame_view("queue", queue, "for experts, least sure first", importance=_uncertainty),
        ]
        return tuple(view for view in views if view.rows or view.intro)

    def document(self) -> Mapping[str, Any]:
        """All fields but the data and the single outputs."""
        return self.fields_without("evalset", "cells")


def _format_mean(score: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: format_number(row[score], 4)


def _uncertainty(row: Mapping[str, Any]) -> float:
    return -(row["confidence"] or 0.0)


def _curve_view(curve: LabelsCurve) -> View:
    title = f"labels per item, against {curve.against}"
    if not curve.table.height:
        return View("curve", title=title, intro=curve.notes)
    return _frame_view("curve", curve.table, title, caption="\n".join(curve.notes))


def _frame_view(name: str, frame: pl.DataFrame, title: str, **parts: Any) -> View:
    """Return a view of a table without its empty columns."""
    columns = [column.name for column in frame if column.null_count() < frame.height]
    return View.of_frame(name, frame.select(columns), title=title, **parts)
