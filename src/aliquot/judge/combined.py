"""What `combine` gives: the new score, the queue for experts, and what was learned about annotators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.judge.curve import LabelsCurve
from aliquot.stats.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Part:
    """One criterion combined.

    Attributes:
        criterion: its name, or None where judgments name none.
        values: N x M; NaN where undecided or not judged.
        cells: one row per judged output: item, system, criterion, value, answers, confidence, best.
        annotators: what was learned about them, or None.
        points: the labels-per-item curve and how many outputs it rests on, where asked for.
        notes: what a reader should know.
    """

    criterion: str | None
    values: FloatArray
    cells: pl.DataFrame
    annotators: pl.DataFrame | None
    points: tuple[pl.DataFrame, int] | None
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Combined:
    """The new score, and how it came about.

    Attributes:
        evalset: the data with the new score as their human score (and `human_<criterion>` of several criteria).
        score: the new score's name.
        cells: one row per output and criterion: value, answers, confidence and likeliest label (of labels).
        queue: the outputs that experts should decide, least sure first, with their texts.
        annotators: what was learned about annotators: accuracy (dawid_skene), severity and noise (crossed), mean and
            spread (z); empty otherwise.
        systems: each system's mean of the new score, and on how many items.
        curve: the labels-per-item curve, where asked for.
        notes: what a reader should know.
        signature: the line that reproduces this.
    """

    evalset: EvalSet
    score: str
    cells: pl.DataFrame
    queue: pl.DataFrame
    annotators: pl.DataFrame
    systems: pl.DataFrame
    curve: LabelsCurve | None
    notes: tuple[str, ...]
    signature: str

    def to_frame(self) -> pl.DataFrame:
        """One row per system."""
        return self.systems

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `combine --json`."""
        return {
            "score": self.score,
            "systems": _rows(self.systems),
            "annotators": _rows(self.annotators),
            "queue": _rows(self.queue),
            "curve": None if self.curve is None else self.curve.to_dict(),
            "notes": list(self.notes),
            "signature": self.signature,
        }


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in frame.to_dicts()
    ]


_CELLS = {"item": pl.String, "system": pl.String, "criterion": pl.String, "value": pl.Float64, "answers": pl.Int64,
          "confidence": pl.Float64, "best": pl.Float64}  # fmt: skip


def cells_of(parts: Sequence[Part]) -> pl.DataFrame:
    """All outputs of all criteria."""
    return pl.concat([part.cells for part in parts]) if parts else pl.DataFrame(schema=_CELLS)


def queue_of(cells: pl.DataFrame, evalset: EvalSet) -> pl.DataFrame:
    """The outputs whose label is undecided, least sure first, with source and output where there are texts."""
    waiting = cells.filter(pl.col("value").is_null()).sort("confidence", maintain_order=True, nulls_last=True)
    waiting = waiting.select("item", "system", "criterion", "best", "confidence", "answers")
    if not waiting.height:
        return waiting
    rows, columns = evalset.cell_index(waiting["item"], waiting["system"])
    texts = []
    if "source" in evalset.items.columns:
        texts.append(evalset.items["source"].gather(rows))
    if evalset.outputs is not None:
        stacked = pl.concat([evalset.outputs[system] for system in evalset.systems])
        texts.append(stacked.gather(columns * evalset.n_items + rows).alias("output"))
    return waiting.with_columns(texts)


def systems_of(evalset: EvalSet, score: str) -> pl.DataFrame:
    """Each system's mean over the items that have the score, best first."""
    values = evalset.scores[score]
    present = np.isfinite(values)
    count = present.sum(axis=0)
    mean = np.where(count > 0, np.where(present, values, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
    table = pl.DataFrame({"system": list(evalset.systems), score: pl.Series(mean, nan_to_null=True), "items": count})
    return table.sort(score, descending=True, nulls_last=True, maintain_order=True)


def curve_from(parts: Sequence[Part], against: str) -> LabelsCurve:
    """Put the criteria's curves together."""
    tables, outputs, notes = [], {}, []
    for part in parts:
        if part.points is None:
            continue
        table, count = part.points
        label = part.criterion or "all"
        if count:
            tables.append(table.select(pl.lit(label).alias("criterion"), pl.all()))
            outputs[label] = count
        else:
            notes.append(f"{label}: fewer than ten outputs have two answers; there is no curve")
    if against == "all answers" and tables:
        notes.append("the answers drawn are among all answers, so errors are too small; --experts / experts= compares "
                     "with people who took no part")  # fmt: skip
    return LabelsCurve(pl.concat(tables) if tables else pl.DataFrame(), outputs, against, tuple(notes))
