"""Examples: the items on which the systems differ most, with texts, marked errors and scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import choice_table
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.written import number
from aliquot.errors import AliquotError
from aliquot.report.findings import Findings
from aliquot.report.sections import Section
from aliquot.stats.arrays import FloatArray, IntArray

_MOST = 20  # items
_LETTERS = 500_000  # of all texts of one test set: a page stays small
_LONGEST = 3000  # letters of one text
_METRICS = 2  # metrics shown beside people's score
_ENDS = 3  # best and worst outputs shown at once; those between are folded away
_SEVERITIES = ("minor", "major", "critical")


def examples(found: Findings, most: int = _MOST) -> Section | None:
    """On which items do systems differ most?"""
    data = found.data
    if data is None or data.outputs is None:
        return None
    scores = _scores(found, data)
    if scores is None:
        return None
    rows = _most_different(scores, most)
    if not len(rows):
        return None
    metrics = [] if found.metrics is None else _best_metrics(found)
    shown: list[dict[str, Any]] = []
    letters = 0
    for row in rows.tolist():
        example = _example(data, scores, row, metrics, found.judgments)
        letters += sum(len(piece[0]) for output in example["outputs"] for piece in output["pieces"])
        letters += len(example["source"]) + len(example["reference"])
        if shown and letters > _LETTERS:
            break
        shown.append(example)
    first = shown[0]
    top, bottom = first["outputs"][0], first["outputs"][-1]
    says = (
        f"The systems are furthest apart on item {first['id']}: from {bottom['score']} ({bottom['system']}) to "
        f"{top['score']} ({top['system']})."
    )
    domains = sorted({example["domain"] for example in shown if example["domain"]})
    what = "share of choices won" if found.comparison is not None else "human score"
    return Section(
        "examples",
        "On which items do systems differ most?",
        says,
        "examples.html",
        {"examples": shown, "domains": domains, "metrics": metrics, "score": what},
    )


def _scores(found: Findings, data: EvalSet) -> FloatArray | None:
    if found.human is not None:
        return data.human_score(found.human)
    return None if found.choices is None else _won(found.choices, data)


def _won(table: pl.DataFrame, data: EvalSet) -> FloatArray | None:
    """Each output's share of the choices that it won, of a table of pairwise choices."""
    try:
        read = choice_table(table, "pairwise", None, "choices")
        frame = pl.DataFrame(
            {
                "item": read.texts("item"),
                "a": read.texts("system_a"),
                "b": read.texts("system_b"),
                "choice": read.texts("choice").str.to_lowercase(),
            }
        )
    except (AliquotError, KeyError, pl.exceptions.PolarsError):
        return None
    first = pl.col("choice").is_in(["a", "1", "first", "left"]) | (pl.col("choice") == pl.col("a").str.to_lowercase())
    second = pl.col("choice").is_in(["b", "2", "second", "right"]) | (
        pl.col("choice") == pl.col("b").str.to_lowercase()
    )
    won = pl.when(first).then(1.0).when(second).then(0.0).otherwise(0.5)
    frame = frame.with_columns(won.alias("won"))
    long = (
        pl.concat(
            [
                frame.select("item", pl.col("a").alias("system"), "won"),
                frame.select("item", pl.col("b").alias("system"), (1.0 - pl.col("won")).alias("won")),
            ]
        )
        .group_by("item", "system")
        .agg(pl.col("won").mean())
    )
    row_of = {str(item): row for row, item in enumerate(data.ids)}
    column_of = {name: at for at, name in enumerate(data.systems)}
    scores = np.full((data.n_items, data.n_systems), np.nan)
    for item, system, value in long.iter_rows():
        if item in row_of and system in column_of:
            scores[row_of[item], column_of[system]] = value
    return scores if np.isfinite(scores).any() else None


def _most_different(scores: FloatArray, most: int) -> IntArray:
    """The items with the largest spread of scores over systems, of those with two scores or more."""
    counts = np.isfinite(scores).sum(axis=1)
    filled = np.where(np.isfinite(scores), scores, 0.0)
    mean = filled.sum(axis=1) / np.maximum(counts, 1)
    spread = np.sqrt(
        (np.where(np.isfinite(scores), scores - mean[:, None], 0.0) ** 2).sum(axis=1) / np.maximum(counts, 1)
    )
    spread[counts < 2] = 0.0
    order: IntArray = np.argsort(-spread, kind="stable")[:most]
    kept: IntArray = order[spread[order] > 0]
    return kept


def _best_metrics(found: Findings) -> list[str]:
    report = found.metrics
    if report is None or found.data is None:
        return []
    rows = [row for row in report.breakeven if not math.isnan(row.judgments)]
    ranked = [row.metric for row in sorted(rows, key=lambda row: (-row.judgments, row.bias))]
    return [name for name in ranked if name in found.data.scores][:_METRICS]


def _example(
    data: EvalSet, scores: FloatArray, row: int, metrics: Sequence[str], made: Judgments | None
) -> dict[str, Any]:
    item = data.items.row(row, named=True)
    texts = {} if data.outputs is None else data.outputs.row(row, named=True)
    marks = _marks(made, item["id"])
    order = sorted(range(data.n_systems), key=lambda at: -scores[row, at] if np.isfinite(scores[row, at]) else math.inf)
    outputs = []
    for at in order:
        system, text = data.systems[at], texts.get(data.systems[at])
        if text is None or not np.isfinite(scores[row, at]):
            continue
        spans = marks.get(system, [])
        outputs.append(
            {
                "system": system,
                "score": number(float(scores[row, at])),
                "pieces": marked_pieces(_cut(str(text)), spans),
                "errors": [words for *_, words in spans if words][:6],
                "metrics": [number(float(data.scores[name][row, at])) for name in metrics],
            }
        )
    return {
        "id": str(item["id"]),
        "domain": str(item.get("domain") or ""),
        "document": str(item.get("document") or ""),
        "source": _cut(str(item.get("source") or "")),
        "reference": _cut(str(item.get("reference") or "")),
        "outputs": outputs,
        "ends": (outputs[:_ENDS], outputs[_ENDS:-_ENDS], outputs[max(_ENDS, len(outputs) - _ENDS) :]),
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


Span = tuple[int, int, str, str]
"""Start, end, severity, what is wrong in words."""


def _marks(made: Judgments | None, item: object) -> dict[str, list[Span]]:
    """The spans that annotators marked in the outputs of an item."""
    if made is None or not {"start", "end"} <= set(made.table.columns):
        return {}
    rows = made.table.filter((pl.col("item") == item) & pl.col("start").is_not_null() & pl.col("end").is_not_null())
    if "span_in" in rows.columns:
        rows = rows.filter(pl.col("span_in").fill_null("output") == "output")
    found: dict[str, list[Span]] = {}
    for row in rows.iter_rows(named=True):
        words = ", ".join(str(row[name]) for name in ("category", "severity") if row.get(name))
        span = (int(row["start"]), int(row["end"]), str(row.get("severity") or "minor").lower(), words)
        found.setdefault(row["system"], []).append(span)
    return found


def marked_pieces(text: str, spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Part a text into pieces with the worst severity that covers them; "" is none.

    >>> marked_pieces("abcdef", [(1, 3, "minor", ""), (2, 4, "major", "")])
    [('a', ''), ('b', 'minor'), ('cd', 'major'), ('ef', '')]
    """
    level = np.zeros(len(text), dtype=np.int64)
    for start, end, severity, _ in spans:
        place = _SEVERITIES.index(severity) + 1 if severity in _SEVERITIES else 1
        part = level[max(0, start) : max(0, end)]
        np.maximum(part, place, out=part)
    if not level.any():
        return [(text, "")]
    borders = [0, *(np.flatnonzero(np.diff(level)) + 1).tolist(), len(text)]
    names = ("", *_SEVERITIES)
    return [(text[a:b], names[level[a]]) for a, b in pairwise(borders)]
