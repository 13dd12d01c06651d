"""Labels, sorting keys and numbers in the tables of a metric report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from aliquot.core.view import Column
from aliquot.metric_eval.correlations import Correlation

MAX_SIZES = 9
"""Points of a curve that are shown."""

FINDINGS = ("better", "undecided", "worse")
UNDECIDED_HEADERS = ("| same side", "undecided", "other side")
OVERVIEW_MEASURES = {
    "acc": ("system", "accuracy"),
    "SPA": ("system", "spa"),
    "r": ("system", "pearson"),
    "acc-eq": ("within_item", "acc_eq"),
    "r item": ("within_item", "pearson"),
    "r syst": ("within_system", "pearson"),
    "r all": ("pooled", "pearson"),
}
"""Columns of the overview: level and measure of a correlation."""
OVERVIEW_CAPTION = (
    "systems: accuracy, SPA, Pearson's r of means; outputs: acc-eq (within items, ties calibrated), r within "
    "items, within systems, over all"
)
_MEASURE_NAMES = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall_b": "tau-b",
    "kendall_c": "tau-c",
    "acc_eq": "acc-eq",
    "accuracy": "accuracy",
    "spa": "SPA",
}
WITHIN_ITEM_CAPTION = (
    "acc-eq 0: only equal metric scores are ties. KL: (C - D) / (C + D), human ties skipped, metric ties discordant "
    "(d), skipped (s) or half (h); mean of items (M) or all pairs together (m)"
)


def name_measure(row: Correlation) -> str:
    """Return the column of a correlation, with its tie policy."""
    if row.measure == "kendall_like":
        return f"KL {row.ties.removeprefix('human skip, metric ')[0]}{'M' if row.average == 'macro' else 'm'}"
    if row.measure == "acc_eq" and row.ties == "equal scores only":
        return "acc-eq 0"
    return _MEASURE_NAMES[row.measure]


def make_ascending_key(value: float | None) -> float:
    """Return a sorting key that puts undefined values last."""
    return math.inf if value is None or math.isnan(value) else value


def make_descending_key(value: float) -> float:
    """Return a sorting key from large to small that puts undefined values last."""
    return math.inf if math.isnan(value) else -value


def sort_by_error(rows: Sequence[Any]) -> list[Any]:
    """Sort metrics by their observed error, after the optimal predictor and people."""
    return sorted(
        rows, key=lambda row: (row.kind == "metric", make_ascending_key(row.observed) if row.kind == "metric" else 0)
    )


def spread_evenly(rows: Sequence[Any], count: int = MAX_SIZES) -> list[Any]:
    """Return at most `count` rows, the first and the last among them, about evenly spread.

    >>> spread_evenly(range(20), 4)
    [0, 6, 13, 19]
    """
    if len(rows) <= count:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (count - 1))] for place in range(count)]


def make_curve_table(
    groups: dict[str, list[Any]], label: str, value: str
) -> tuple[list[tuple[str, dict[str, Any]]], list[Column]]:
    """Return rows and columns of a table with a metric in each row and a column for each of some labels."""
    labels = [str(getattr(row, label)) for row in spread_evenly(next(iter(groups.values())))]
    rows = [(name, {str(getattr(row, label)): getattr(row, value) for row in g}) for name, g in groups.items()]
    return rows, [Column("metric", lambda row: row[0], "name"), *make_curve_columns(labels)]


def make_curve_columns(labels: Sequence[str]) -> list[Column]:
    """Return number columns for rows of a name and values by label; where space is short, those in between go first."""
    ends = (0, len(labels) - 1)
    return [
        Column(label, partial(_read_label, label), places=3, rank=0 if place in ends else 1 + place % 2)
        for place, label in enumerate(labels)
    ]


def _read_label(label: str, row: tuple[str, dict[str, Any]]) -> Any:
    return row[1].get(label)


def format_ratio(value: float) -> str:
    """Write a ratio that may be infinite.

    >>> format_ratio(2.238), format_ratio(float("inf")), format_ratio(float("nan"))
    ('2.24', 'infinite', '-')
    """
    return "-" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.2f}"


def format_count(value: float, limit: int) -> str:
    """Write a number of judgments.

    >>> format_count(298.3, 10000), format_count(float("inf"), 10000), format_count(1.0, 10000)
    ('298', '>10000', '<=1')
    """
    if math.isnan(value):
        return "-"
    return f">{limit}" if math.isinf(value) else "<=1" if value <= 1 else f"{value:.0f}"


def format_worth(row: Any) -> str:
    """Write the judgments that a metric is worth; empty without a row."""
    return "" if row is None else format_count(row.judgments, row.limit)


def format_interval(row: Any, *, perfect: bool = False) -> str:
    """Write the interval of a break-even; nothing where there is none."""
    if row is None:
        return ""
    low, high = (row.perfect_low, row.perfect_high) if perfect else (row.low, row.high)
    return "" if math.isnan(low) else f"{format_count(low, row.limit)} to {format_count(high, row.limit)}"
