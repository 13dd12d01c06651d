"""The result of `simulate`: a cell for each set, method, budget and measure, and a summary of each method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl
from scipy.special import stdtrit

from aliquot.core.result import Result, frame_of
from aliquot.core.view import Column, View
from aliquot.core.written import format_fixed, format_number
from aliquot.errors import unknown_name
from aliquot.metric_eval.measures import MEASURES
from aliquot.simulation.summary import MethodSummary
from aliquot.simulation.units import ReplayCell

USUAL_MEASURES = ("spa", "spa_full", "accuracy", "mae", "coverage")
"""Measures that are shown when none are asked for."""
PARITY_MEASURES = ("spa_full", "mae")
"""Measures whose parity is shown, where they are."""
SIGNS = {"better": "+", "worse": "-"}


@dataclass(frozen=True, eq=False)
class Simulation(Result):
    """The result of `simulate`.

    Attributes:
        cells: mean and standard error of every measure; budgets that were not asked for serve the parity.
        rows: each method against random, over the budgets.
        notes: what a reader should know.
        signature: the line that reproduces it.
        cost: what budgets are shares of; None for items.
        money_per_item: what judging an item costs, all its outputs; NaN where it is unknown.
        currency: the currency of `money_per_item`.
        measures: the measures that were asked for; empty for the usual ones.
    """

    cells: tuple[ReplayCell, ...]
    rows: tuple[MethodSummary, ...]
    notes: tuple[str, ...]
    signature: str
    cost: str | None = None
    money_per_item: float = math.nan
    currency: str = "EUR"
    measures: tuple[str, ...] = ()

    def __repr__(self) -> str:
        sets, methods = (len({getattr(cell, name) for cell in self.cells}) for name in ("data", "method"))
        return f"Simulation({methods} method{'s'[: methods != 1]} on {sets} set{'s'[: sets != 1]})"

    def row(self, method: str, measure: str, data: str | None = None) -> MethodSummary:
        """Return the summary of one method and measure; `data` may be left out where there is one set.

        The mean over several sets has data="(all sets)".
        """
        for name, value in (("method", method), ("measure", measure)):
            values = list(dict.fromkeys(getattr(row, name) for row in self.rows))
            if value not in values:
                raise unknown_name(name, value, values)
        by_data = {row.data: row for row in self.rows if (row.method, row.measure) == (method, measure)}
        if data is not None and data not in by_data:
            raise unknown_name("set", data, by_data)
        return by_data[data] if data is not None else list(by_data.values())[-1]

    def to_frame(self) -> pl.DataFrame:
        """One row for each set, method, budget asked for and measure, with 95% t intervals of the mean."""
        return pl.DataFrame([_add_interval(cell) for cell in self.cells if cell.asked])

    def summary_frame(self) -> pl.DataFrame:
        """One row for each set, method and measure."""
        return frame_of(self.rows, MethodSummary)

    def document(self) -> dict[str, Any]:
        """Return the JSON document of `simulate --json`; a parity that is never reached is null."""
        return {
            "cells": [_add_interval(cell) for cell in self.cells if cell.asked],
            "summary": self.rows,
            "notes": self.notes,
            "signature": self.signature,
        }

    def views(self) -> list[View]:
        """A table of methods for each set, the measures as columns, and what the columns mean."""
        replayed = list(dict.fromkeys(row.measure for row in self.rows))
        shown = list(self.measures) or [name for name in USUAL_MEASURES if name in replayed]
        parities = [name for name in PARITY_MEASURES if name in shown]
        parities = parities or [name for name in shown if MEASURES[name].better != "neither" and name != "cost"][:2]
        columns = [
            Column("method", kind="name"),
            *(Column(name, partial(_format_value, measure=name)) for name in shown),
            *(Column(f"parity {name}", partial(_format_parity, measure=name)) for name in parities),
        ]
        tables: dict[str, dict[str, dict[str, Any]]] = {}
        for row in self.rows:
            methods = tables.setdefault(row.data, {})
            methods.setdefault(row.method, {"method": row.method})[row.measure] = row
        views = [View(name, list(methods.values()), columns, title=name) for name, methods in tables.items()]
        return [*views, View("columns", intro=[self._explain_columns(shown, parities)])]

    def _explain_columns(self, shown: list[str], parities: list[str]) -> str:
        parts = []
        if "spa" in shown:
            parts.append("spa: the sample's own p-values.")
        if "spa_full" in shown:
            parts.append("spa_full: what judging all items is expected to say, against a random sample's spa.")
        if parities:
            parts.append("parity: share of a random sample's budget that is as good.")
            if all(cell.asked for cell in self.cells):
                parts.append("It comes from the budgets asked for alone (`parity=False`), so smaller ones are missed.")
        return " ".join([*parts, "+ better, - worse than random beyond the Monte Carlo error."])


def _add_interval(cell: ReplayCell) -> dict[str, Any]:
    half = float(stdtrit(cell.repeats - 1, 0.975)) * cell.error if cell.repeats > 1 else 0.0
    row = {name: value for name, value in vars(cell).items() if name != "asked"}
    return row | {"low": cell.value - half, "high": cell.value + half}


def _format_value(summaries: dict[str, MethodSummary], *, measure: str) -> str:
    summary = summaries[measure]
    return format_number(summary.value) + SIGNS.get(summary.gain, " ")


def _format_parity(summaries: dict[str, MethodSummary], *, measure: str) -> str:
    summary = summaries[measure]
    return f"not reached ({summary.missed})" if summary.missed else format_fixed(summary.parity, 2)
