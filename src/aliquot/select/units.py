"""Documents as units of selection."""

from __future__ import annotations

import numpy as np
import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.stats.arrays import IntArray
from aliquot.stats.grouping import group_means


def documents_as_items(evalset: EvalSet, codes: IntArray) -> EvalSet:
    """Return a set whose items are the documents: mean scores, joined sources, the first item's other columns."""
    first = np.unique(codes, return_index=True)[1]
    items = evalset.items[first].with_columns(pl.Series("id", np.arange(len(first))))
    if "source" in items.columns:
        joined = evalset.items.select(pl.col("source").fill_null(""), pl.Series("code", codes))
        texts = joined.group_by("code").agg(pl.col("source").str.join("\n")).sort("code")["source"]
        items = items.with_columns(texts)
    drop = [name for name in ("document", "position") if name in items.columns]
    return EvalSet(
        items=items.drop(drop),
        systems=evalset.systems,
        scores={
            name: np.column_stack([group_means(codes, column) for column in values.T])
            for name, values in evalset.scores.items()
        },
        human=evalset.human,
        name=f"documents of {evalset.name}",
    )


def expanded(documents: IntArray, codes: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of the items of these documents, document after document, and for each the document's place in the list."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    rows = [order[starts[code] : starts[code] + sizes[code]] for code in documents]
    at = np.repeat(np.arange(len(documents)), sizes[documents])
    return (np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)), at
