"""What the tables of `aliquot metrics` share: whose rows are shown, in which order, and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from aliquot.metaeval.metric_report import MetricReport

_COLUMNS = 9
"""Sizes of a curve that fit beside a metric's name."""


class View:
    """The rows of one human score, and the order in which metrics are shown: least disagreement first."""

    def __init__(self, report: MetricReport, human: str, *, overview: bool) -> None:
        self.report, self.human, self.overview = report, human, overview
        observed = {row.metric: row.observed for row in self.rows("decomposition") if row.kind == "metric"}
        self._order = sorted(report.metrics, key=lambda name: ascending(observed.get(name)))

    def rows(self, table: str) -> list[Any]:
        """Rows of a table."""
        return [row for row in self.report.rows(table) if row.human == self.human]

    def campaigns(self, table: str) -> list[str]:
        """The sets that a table has rows of."""
        return list(dict.fromkeys(row.data for row in self.rows(table)))

    def by_metric(self, table: str, data: str | None = None) -> dict[str, list[Any]]:
        """Rows by metric, in the order shown."""
        found: dict[str, list[Any]] = {name: [] for name in self._order}
        for row in self.rows(table):
            if data is None or row.data == data:
                found.setdefault(row.metric, []).append(row)
        return {name: rows for name, rows in found.items() if rows}

    def titled(self, title: str, table: Table, caption: str = "", *, data: str | None = None, of: str = "") -> Group:
        """A table under its title, which names the set where a table has several."""
        named = title if data is None or len(self.campaigns(of)) == 1 else f"{data}: {title}"
        return Group(Text(named, style="bold"), table, *([Text(caption, style="dim")] if caption else []))


def ascending(value: float | None) -> float:
    """For sorting: undefined values come last."""
    return math.inf if value is None or math.isnan(value) else value


def descending(value: float) -> float:
    """For sorting from large to small: undefined values come last."""
    return math.inf if math.isnan(value) else -value


def some(rows: Sequence[Any], most: int = _COLUMNS) -> list[Any]:
    """At most so many, the first and the last among them, about evenly spread.

    >>> some(range(20), 4)
    [0, 6, 13, 19]
    """
    if len(rows) <= most:
        return list(rows)
    return [rows[round(at * (len(rows) - 1) / (most - 1))] for at in range(most)]


def ratio(value: float) -> str:
    """Write a ratio that may be infinite.

    >>> ratio(2.238), ratio(float("inf")), ratio(float("nan"))
    ('2.24', 'infinite', '-')
    """
    return "-" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.2f}"


def size(value: float, limit: int) -> str:
    """Write a number of judgments.

    >>> size(298.3, 10000), size(float("inf"), 10000), size(1.0, 10000)
    ('298', '>10000', '<=1')
    """
    if math.isnan(value):
        return "-"
    return f">{limit}" if math.isinf(value) else "<=1" if value <= 1 else f"{value:.0f}"


def size_interval(low: float, high: float, limit: int) -> str:
    """Write an interval of numbers of judgments; nothing where there is none."""
    return "" if math.isnan(low) else f"{size(low, limit)} to {size(high, limit)}"
