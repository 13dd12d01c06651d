"""What a new datasheet is filled in from: the data of one experiment, and results of other verbs."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.data.judgments import Judgments
from aliquot.data.selection import Selection
from aliquot.report.datasheet.results import Result

Filled = tuple[str, str | list[str], str, str]
"""Question number, answer, details, where it comes from."""

DATA, JUDGMENTS, SELECTION, RESULTS = "the data", "the judgments", "the selection", "results of other verbs"


@dataclass(frozen=True, eq=False)
class Known:
    """All there is to fill in from."""

    data: EvalSet | None
    human: str | None
    selection: Selection | None
    results: tuple[Result, ...]
    value_range: tuple[float, float] | None
    criteria: tuple[str, ...]
    protocol: str | None = None

    @property
    def judgments(self) -> Judgments | None:
        """The judgments of the experiment."""
        return None if self.data is None else self.data.judgments

    def judgments_of(self, name: str) -> Judgments | None:
        """Return the judgments of a criterion: those that name it, or all where none is named and there is only one."""
        judgments = self.judgments
        if judgments is None or (not judgments.criteria and len(self.criteria) > 1):
            return None
        if not judgments.criteria:
            return judgments
        kept = judgments.table.filter(pl.col("criterion") == name)
        return Judgments(kept) if kept.height else None


def protocols(judgments: Judgments | None) -> list[str]:
    """Return the protocols that judgments name."""
    if judgments is None or "protocol" not in judgments.table.columns:
        return []
    return judgments.table["protocol"].drop_nulls().cast(pl.String).unique(maintain_order=True).to_list()


def sentence(text: str) -> str:
    """Return a text as a sentence: a capital first, a full stop last.

    >>> sentence("three judgments per output")
    'Three judgments per output.'
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
