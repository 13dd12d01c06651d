"""Examples: the items on which the systems differ most, with texts, marked errors and scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import choice_table
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.written import format_number
from aliquot.errors import AliquotError
from aliquot.report.blocks import Section, Template
from aliquot.report.findings import Findings
from aliquot.stats.arrays import FloatArray, IntArray

MAX_EXAMPLES = 20
_MAX_LETTERS = 500_000  # of all texts of one test set: a page stays small
_MAX_TEXT = 3000  # letters of one text
_MAX_METRICS = 2  # metrics shown beside people's score
_MAX_ERRORS = 6  # marked errors of an output that are named
_ENDS = 3  # best and worst outputs shown at once; those between are folded away
_SEVERITIES = ("minor", "major", "critical")


@dataclass(frozen=True)
class Span:
    """A part of an output that an annotator marked."""

    start: int
    end: int
    severity: str
    words: str = ""  # what is wrong


@dataclass(frozen=True)
class ExampleOutput:
    """One system's output for an item; `pieces` are its parts, each with the severity marked there or ""."""

    system: str
    score: str
    pieces: Sequence[tuple[str, str]]
    errors: Sequence[str]
    metrics: Sequence[str]

    @property
    def text(self) -> str:
        """The whole output."""
        return "".join(text for text, _ in self.pieces)


@dataclass(frozen=True)
class ItemExample:
    """One item with its outputs, best first."""

    id: str
    domain: str
    source: str
    reference: str
    outputs: Sequence[ExampleOutput]

    @property
    def letters(self) -> int:
        """The number of letters of all its texts."""
        return len(self.source) + len(self.reference) + sum(len(output.text) for output in self.outputs)

    @property
    def parts(self) -> tuple[Sequence[ExampleOutput], Sequence[ExampleOutput], Sequence[ExampleOutput]]:
        """The best outputs, those between, the worst."""
        worst = max(_ENDS, len(self.outputs) - _ENDS)
        return self.outputs[:_ENDS], self.outputs[_ENDS:worst], self.outputs[worst:]


def show_examples(findings: Findings, limit: int = MAX_EXAMPLES) -> Section | None:
    """Return the section of the items on which systems differ most."""
    data, scores = findings.data, _output_scores(findings)
    if data is None or data.outputs is None or scores is None:
        return None
    metrics = _best_metrics(findings)
    examples: list[ItemExample] = []
    letters = 0
    for row in _most_different(scores, limit).tolist():
        example = _read_example(data, scores, row, metrics, findings.judgments)
        letters += example.letters
        if examples and letters > _MAX_LETTERS:
            break
        examples.append(example)
    if not examples:
        return None
    best, worst = examples[0].outputs[0], examples[0].outputs[-1]
    says = (
        f"The systems are furthest apart on item {examples[0].id}: from {worst.score} ({worst.system}) to "
        f"{best.score} ({best.system})."
    )
    values = {
        "examples": examples,
        "domains": sorted({example.domain for example in examples if example.domain}),
        "metrics": metrics,
        "score": "share of choices won" if findings.comparison is not None else "human score",
    }
    return Section("examples", "On which items do systems differ most?", says, [Template("examples.html", values)])


def _output_scores(findings: Findings) -> FloatArray | None:
    """Return people's score of every output, or the share of its choices that it won."""
    if findings.data is None:
        return None
    if findings.human is not None:
        return findings.data.human_score(findings.human)
    return None if findings.choices is None else _win_shares(findings.choices, findings.data)


def _win_shares(choices: pl.DataFrame, data: EvalSet) -> FloatArray | None:
    """Return each output's share of the choices that it won, of a table of pairwise choices."""
    try:
        table = choice_table(choices, "pairwise", None, "choices")
        names = {"item": "item", "a": "system_a", "b": "system_b", "choice": "choice"}
        frame = pl.DataFrame({name: table.read_texts(column) for name, column in names.items()})
    except (AliquotError, KeyError, pl.exceptions.PolarsError):
        return None
    choice = pl.col("choice").str.to_lowercase()
    first = choice.is_in(["a", "1", "first", "left"]) | (choice == pl.col("a").str.to_lowercase())
    second = choice.is_in(["b", "2", "second", "right"]) | (choice == pl.col("b").str.to_lowercase())
    frame = frame.with_columns(pl.when(first).then(1.0).when(second).then(0.0).otherwise(0.5).alias("won"))
    sides = [
        frame.select("item", pl.col("a").alias("system"), "won"),
        frame.select("item", pl.col("b").alias("system"), (1.0 - pl.col("won")).alias("won")),
    ]
    row_of = {str(item): row for row, item in enumerate(data.ids)}
    column_of = {name: column for column, name in enumerate(data.systems)}
    scores = np.full((data.n_items, data.n_systems), np.nan)
    for item, system, value in pl.concat(sides).group_by("item", "system").agg(pl.col("won").mean()).iter_rows():
        if item in row_of and system in column_of:
            scores[row_of[item], column_of[system]] = value
    return scores if np.isfinite(scores).any() else None


def _most_different(scores: FloatArray, limit: int) -> IntArray:
    """Return the items with the largest spread of scores over systems, of those with two scores or more."""
    is_scored = np.isfinite(scores)
    counts = is_scored.sum(axis=1)
    mean = np.where(is_scored, scores, 0.0).sum(axis=1) / np.maximum(counts, 1)
    deviations = np.where(is_scored, scores - mean[:, None], 0.0)
    spread = np.sqrt((deviations**2).sum(axis=1) / np.maximum(counts, 1))
    spread[counts < 2] = 0.0
    order: IntArray = np.argsort(-spread, kind="stable")[:limit]
    differing: IntArray = order[spread[order] > 0]
    return differing


def _best_metrics(findings: Findings) -> list[str]:
    report, data = findings.metrics, findings.data
    if report is None or data is None:
        return []
    rows = [row for row in report.breakeven if not math.isnan(row.judgments)]
    ranked = [row.metric for row in sorted(rows, key=lambda row: (-row.judgments, row.bias))]
    return [name for name in ranked if name in data.scores][:_MAX_METRICS]


def _read_example(
    data: EvalSet, scores: FloatArray, row: int, metrics: Sequence[str], judgments: Judgments | None
) -> ItemExample:
    item = data.items.row(row, named=True)
    texts = {} if data.outputs is None else data.outputs.row(row, named=True)
    marks = _read_marks(judgments, item["id"])
    order = sorted(range(data.n_systems), key=lambda column: -np.nan_to_num(scores[row, column], nan=-np.inf))
    outputs = []
    for column in order:
        system = data.systems[column]
        text = texts.get(system)
        if text is None or not np.isfinite(scores[row, column]):
            continue
        spans = marks.get(system, [])
        outputs.append(
            ExampleOutput(
                system,
                format_number(float(scores[row, column])),
                split_marked(_cut_text(text), spans),
                [span.words for span in spans if span.words][:_MAX_ERRORS],
                [format_number(float(data.scores[name][row, column])) for name in metrics],
            )
        )
    source, reference, domain = (item.get(name) or "" for name in ("source", "reference", "domain"))
    return ItemExample(str(item["id"]), str(domain), _cut_text(source), _cut_text(reference), outputs)


def _cut_text(text: object) -> str:
    return str(text) if len(str(text)) <= _MAX_TEXT else f"{str(text)[:_MAX_TEXT]} …"


def _read_marks(judgments: Judgments | None, item: object) -> dict[str, list[Span]]:
    """Return the spans that annotators marked in the outputs of an item, by system."""
    if judgments is None or not {"start", "end"} <= set(judgments.table.columns):
        return {}
    rows = judgments.table.filter(
        (pl.col("item") == item) & pl.col("start").is_not_null() & pl.col("end").is_not_null()
    )
    if "span_in" in rows.columns:
        rows = rows.filter(pl.col("span_in").fill_null("output") == "output")
    spans: dict[str, list[Span]] = {}
    for row in rows.iter_rows(named=True):
        words = ", ".join(str(row[name]) for name in ("category", "severity") if row.get(name))
        span = Span(int(row["start"]), int(row["end"]), str(row.get("severity") or "minor").lower(), words)
        spans.setdefault(row["system"], []).append(span)
    return spans


def split_marked(text: str, spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Split a text into pieces with the worst severity that covers them; "" is none.

    >>> split_marked("abcdef", [Span(1, 3, "minor"), Span(2, 4, "major")])
    [('a', ''), ('b', 'minor'), ('cd', 'major'), ('ef', '')]
    """
    level = np.zeros(len(text), dtype=np.int64)
    for span in spans:
        place = _SEVERITIES.index(span.severity) + 1 if span.severity in _SEVERITIES else 1
        part = level[max(0, span.start) : max(0, span.end)]
        np.maximum(part, place, out=part)
    if not level.any():
        return [(text, "")]
    borders = [0, *(np.flatnonzero(np.diff(level)) + 1).tolist(), len(text)]
    names = ("", *_SEVERITIES)
    return [(text[start:end], names[level[start]]) for start, end in pairwise(borders)]
