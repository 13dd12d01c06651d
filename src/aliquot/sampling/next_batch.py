"""The result of `aliquot next`: cells or pairs to judge next, decisions so far, and counts by system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.result import Result
from aliquot.core.view import Column, View
from aliquot.errors import OptionError
from aliquot.sampling.allocator import Advice, Allocator
from aliquot.sampling.pair_allocator import PairAllocator
from aliquot.sampling.pair_decisions import PairAdvice

MAX_EXAMPLES = 8


@dataclass(frozen=True, eq=False)
class Batch(Result):
    """The next cells or pairs to judge.

    Attributes:
        advice: What is decided by now, and whether to stop.
        table: A row for each cell (item, system, probability) or pair (item, system_a, system_b, probability).
        progress: How many are judged, still with people, and new, in words.
        systems: The view of the systems.
        facts: The JSON document, but for advice and signature.
        signature: The line that gives the same batch, given the same judgments.
    """

    advice: Advice | PairAdvice
    table: pl.DataFrame
    progress: str
    systems: View
    facts: dict[str, Any]
    signature: str

    def document(self) -> dict[str, Any]:
        """Return the JSON document of `next --json`."""
        return {"advice": self.advice.text, "stop": self.advice.stop, **self.facts, "signature": self.signature}

    def to_frame(self) -> pl.DataFrame:
        """Return the table of cells or pairs."""
        return self.table

    def views(self) -> tuple[View, ...]:
        """Return the views `systems` and `next` (the first cells or pairs)."""
        examples = [f"{item} {' / '.join(systems)}" for item, *systems, _ in self.table.head(MAX_EXAMPLES).iter_rows()]
        unit = "cell" if "system" in self.table.columns else "pair"
        more = " ..." * (len(self.table) > MAX_EXAMPLES)
        text = f"next: {', '.join(examples)}{more}" if examples else f"no {unit} is left to ask"
        return self.systems, View("next", intro=[text])


def next_cells(allocator: Allocator, count: int) -> Batch:
    """Return the next cells of an allocator."""
    before = dict(allocator.counts)
    advice = allocator.advice()
    cells = allocator.next(count)
    advice = advice if cells else allocator.advice()  # what is left of the budget may be less than a unit
    progress = f"{advice.cells} cells judged, {len(allocator.pending) - len(cells)} still with people, {len(cells)} new"
    rows = [
        {"system": name, "before": before[name], "new": number - before[name]}
        for name, number in allocator.counts.items()
    ]
    columns = (Column("system", kind="name"), Column("asked before", "before", "count"), Column("new", kind="count"))
    systems = View("systems", rows, columns, intro=[f"{advice.text}\n{progress}"])
    table = pl.DataFrame(
        {
            "item": pl.Series([cell.item for cell in cells], dtype=allocator.data.items["id"].dtype),
            "system": pl.Series([cell.system for cell in cells], dtype=pl.String),
            "probability": pl.Series([cell.probability for cell in cells], dtype=pl.Float64),
        }
    )
    facts = {
        "judged": advice.cells,
        "asked": advice.asked,
        "counts": allocator.counts,
        "unasked": [list(cell) for cell in allocator.unasked],
        "pairs": [vars(pair) for pair in advice.picture.pairs],
        "next": table.to_dicts(),
    }
    return Batch(advice, table, progress, systems, facts, allocator.signature)


def next_pairs(allocator: PairAllocator, count: int) -> Batch:
    """Return the next pairs of an allocator."""
    advice = allocator.advice()
    asks = allocator.next(count)
    advice = advice if asks else allocator.advice()
    pending = len(allocator.pending) - len(asks)
    ranking = allocator.ranking()
    progress = f"{sum(row.n for row in ranking) // 2} choices, {pending} still with people, {len(asks)} new"
    columns = (
        Column("system", kind="name"),
        Column("strength", places=2),
        Column("error", "se", places=2, rank=1),
        Column("choices", "n", "count"),
        Column("new", lambda row: sum(row.system in (ask.a, ask.b) for ask in asks), "count"),
    )
    systems = View("systems", ranking, columns, intro=[f"{advice.text}\n{progress}"])
    table = pl.DataFrame(
        {
            "item": pl.Series([ask.item for ask in asks], dtype=pl.Series(allocator.items).dtype),
            "system_a": pl.Series([ask.a for ask in asks], dtype=pl.String),
            "system_b": pl.Series([ask.b for ask in asks], dtype=pl.String),
            "probability": pl.Series([ask.probability for ask in asks], dtype=pl.Float64),
        }
    )
    facts = {
        "ranking": [vars(row) for row in ranking],
        "pending": pending,
        "next": [vars(ask) for ask in asks],
    }
    return Batch(advice, table, progress, systems, facts, allocator.signature)


def add_texts(table: pl.DataFrame, data: EvalSet) -> pl.DataFrame:
    """Add the source and the outputs (`output`, or `output_a` and `output_b`) to a table of cells or pairs."""
    if data.outputs is None or "source" not in data.items.columns:
        raise OptionError(f"`texts`: {data.name} has no {'outputs' if data.outputs is None else 'sources'}", "texts")
    row_of = {item: row for row, item in enumerate(data.ids)}
    rows = [row_of[item] for item in table["item"].to_list()]
    columns = [name for name in table.columns if name.startswith("system")]
    outputs = [
        _gather_texts(data.outputs, rows, table[name].to_list(), name.replace("system", "output")) for name in columns
    ]
    return table.with_columns(data.items["source"].gather(rows).alias("source"), *outputs)


def _gather_texts(outputs: pl.DataFrame, rows: Sequence[int], systems: Sequence[str], name: str) -> pl.Series:
    texts = [outputs[system][row] for system, row in zip(systems, rows, strict=True)]
    return pl.Series(name, texts, dtype=pl.String)
