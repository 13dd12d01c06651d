"""The answers on one criterion as arrays: who said what on which output."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.judge.answers import first_rows, group_codes
from aliquot.stats.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Votes:
    """Answers on one criterion.

    Attributes:
        cells: item and system of every output that has an answer, in order of first appearance.
        cell: the output each answer is on.
        value: the answers, all finite.
        person: who gave each; -1 where nobody is named.
        people: the annotators' names.
    """

    cells: pl.DataFrame
    cell: IntArray
    value: FloatArray
    person: IntArray
    people: tuple[str, ...]

    @classmethod
    def of(cls, table: pl.DataFrame) -> Votes:
        """Take them from a table of answers with values."""
        cell = group_codes(table, ["item", "system"])
        named = table["annotator"]
        people = named.drop_nulls().unique(maintain_order=True).to_list()
        codes = named.replace_strict(people, list(range(len(people))), default=-1, return_dtype=pl.Int64)
        person = codes.fill_null(-1).to_numpy() if people else np.full(table.height, -1, dtype=np.int64)
        return cls(
            table[first_rows(cell)].select("item", "system"), cell, table["value"].to_numpy(), person, tuple(people)
        )

    @property
    def size(self) -> int:
        """How many outputs there are."""
        return self.cells.height

    @property
    def count(self) -> IntArray:
        """How many answers each output has."""
        return np.bincount(self.cell, minlength=self.size).astype(np.int64)

    def at(self, rows: IntArray) -> Votes:
        """Return only these answers; the outputs stay, some perhaps without any."""
        return replace(self, cell=self.cell[rows], value=self.value[rows], person=self.person[rows])

    def once_each(self) -> tuple[Votes, int]:
        """Return one answer for each annotator and output, the mean of theirs, and how many were merged."""
        key = np.where(
            self.person >= 0, self.cell * (len(self.people) + 1) + self.person, -1 - np.arange(len(self.cell))
        )
        distinct, first, at = np.unique(key, return_index=True, return_inverse=True)
        if len(distinct) == len(key):
            return self, 0
        mean = np.bincount(at, self.value) / np.bincount(at)
        order = np.argsort(first)
        return replace(
            self, cell=self.cell[first][order], value=mean[order], person=self.person[first][order]
        ), len(key) - len(distinct)  # fmt: skip

    def shares(self) -> FloatArray:
        """The weight of each answer so that an annotator has one vote on an output, however often they answered."""
        key = np.where(
            self.person >= 0, self.cell * (len(self.people) + 1) + self.person, -1 - np.arange(len(self.cell))
        )
        _, at, count = np.unique(key, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / count[at])
