"""What `simulate` gives: a cell for each set, method, budget and measure, a verdict for each method, one signature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl
from scipy.special import stdtrit

from aliquot.errors import unknown_name
from aliquot.simulate.summary import Row
from aliquot.simulate.units import Cell


@dataclass(frozen=True, eq=False)
class Simulation:
    """The result of `simulate`.

    Attributes:
        cells: mean and standard error of every measure; budgets that were not asked for serve the parity.
        rows: each method against random, over the budgets.
        notes: what a reader should know.
        signature: how to get it again.
    """

    cells: tuple[Cell, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    signature: str

    def __repr__(self) -> str:
        sets, methods = (len({getattr(cell, name) for cell in self.cells}) for name in ("data", "method"))
        return f"Simulation({methods} method{'s'[: methods != 1]} on {sets} set{'s'[: sets != 1]})"

    def row(self, method: str, measure: str, data: str | None = None) -> Row:
        """Return one verdict; `data` may be left out where there is one set.

        The mean over several sets has data="(all sets)".
        """
        for name, value in (("method", method), ("measure", measure)):
            known = list(dict.fromkeys(getattr(row, name) for row in self.rows))
            if value not in known:
                raise unknown_name(name, value, known)
        found = [row for row in self.rows if (row.method, row.measure) == (method, measure)]
        if data is None:
            return found[-1]
        for row in found:
            if row.data == data:
                return row
        raise unknown_name("set", data, [row.data for row in found])

    def to_frame(self) -> pl.DataFrame:
        """One row for each set, method, budget asked for and measure, with 95% t intervals of the mean."""
        return pl.DataFrame([_with_interval(cell) for cell in self.cells if cell.asked])

    def summary_frame(self) -> pl.DataFrame:
        """One row for each set, method and measure."""
        return pl.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `simulate --json`; undefined numbers and a parity never reached are null."""
        return {
            "cells": [_plain(_with_interval(cell)) for cell in self.cells if cell.asked],
            "summary": [_plain(vars(row)) for row in self.rows],
            "notes": list(self.notes),
            "signature": self.signature,
        }


def _with_interval(cell: Cell) -> dict[str, Any]:
    half = float(stdtrit(cell.repeats - 1, 0.975)) * cell.error if cell.repeats > 1 else 0.0
    row = {name: value for name, value in vars(cell).items() if name != "asked"}
    return row | {"low": cell.value - half, "high": cell.value + half}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
