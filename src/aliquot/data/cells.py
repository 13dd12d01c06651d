"""Collecting cells item by item into N x M arrays without a Python step for every single number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from aliquot.data.columns import ordered_union
from aliquot.stats.arrays import FloatArray, IntArray

_FLUSH = 2_000_000  # numbers held as Python objects at a time


class ScoreCells:
    """Gathers {system: {score: number}} of one item after the other.

    Systems of a file mostly have the same scores in the same order. Cells are therefore grouped by their tuple of
    score names (a layout); each group becomes one matrix, whose columns are then scattered into the score arrays.
    """

    def __init__(self) -> None:
        self.systems: dict[str, int] = {}
        self._layouts: dict[tuple[str, ...], _Layout] = {}
        self._names: dict[str, None] = {}
        self._pending = 0

    def add(self, row: int, scores: Mapping[str, Mapping[str, float | None] | None]) -> None:
        """Add an item's scores."""
        for system, cell in scores.items():
            column = self.systems.setdefault(system, len(self.systems))
            if not cell:
                continue
            names = tuple(cell)
            layout = self._layouts.get(names)
            if layout is None:
                layout = self._layouts[names] = _Layout()
                self._names.update(dict.fromkeys(names))
            layout.rows.append(row)
            layout.columns.append(column)
            layout.values.extend(cell.values())
            self._pending += len(names)
        if self._pending > _FLUSH:
            self._flush()

    def _flush(self) -> None:
        for names, layout in self._layouts.items():
            layout.flush(len(names))
        self._pending = 0

    def arrays(self, n: int, systems: Sequence[str]) -> dict[str, FloatArray]:
        """Return name -> n x len(systems) array, read-only, NaN where nothing was added."""
        self._flush()
        place = np.array([systems.index(system) for system in self.systems], dtype=np.int64)
        arrays = {name: np.full((n, len(systems)), np.nan) for name in self._names}
        for names, layout in self._layouts.items():
            for rows, columns, block in layout.blocks:
                for index, name in enumerate(names):
                    arrays[name][rows, place[columns]] = block[:, index]
        for array in arrays.values():
            array.setflags(write=False)
        return arrays


class _Layout:
    """The cells that carry the same score names: as Python lists first, then as blocks of arrays."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float | None] = []
        self.blocks: list[tuple[np.ndarray, np.ndarray, FloatArray]] = []

    def flush(self, width: int) -> None:
        if self.rows:
            block = np.array(self.values, dtype=np.float64).reshape(-1, width)  # None becomes NaN
            self.blocks.append((np.array(self.rows), np.array(self.columns), block))
            self.rows, self.columns, self.values = [], [], []


class TextCells:
    """Gathers {system: text} of one item after the other."""

    def __init__(self) -> None:
        self.columns: dict[str, list[str | None]] = {}

    def add(self, row: int, texts: Mapping[str, str | None]) -> None:
        """Add an item's outputs."""
        for system, text in texts.items():
            column = self.columns.setdefault(system, [])
            if len(column) < row:
                column.extend([None] * (row - len(column)))
            column.append(text)

    def frame(self, n: int, systems: Sequence[str]) -> pl.DataFrame | None:
        """Return a table with one text column for every system, or None when there is no text at all."""
        if not any(text is not None for column in self.columns.values() for text in column):
            return None
        for column in self.columns.values():
            column.extend([None] * (n - len(column)))
        empty: list[str | None] = [None] * n
        names = ordered_union([systems])
        return pl.DataFrame([pl.Series(name, self.columns.get(name, empty), dtype=pl.String) for name in names])


def text_frame(
    rows: IntArray, columns: IntArray, texts: Sequence[str | None], n: int, systems: Sequence[str]
) -> pl.DataFrame:
    """Return a table with one text column for every system out of texts at (row, column); None leaves a cell alone."""
    cells = np.full((n, len(systems)), None, dtype=object)
    given = np.array([text is not None for text in texts], dtype=np.bool_)
    cells[rows[given], columns[given]] = [text for text in texts if text is not None]
    return pl.DataFrame([pl.Series(name, cells[:, at].tolist(), dtype=pl.String) for at, name in enumerate(systems)])
