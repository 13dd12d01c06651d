"""What `inspect` shows of a table of choices, best-worst ballots or rankings: neither scores nor outputs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from aliquot.annotation.choice_tables import choice_table, detect_table_kind
from aliquot.annotation.comparison_inputs import read_source
from aliquot.core.result import Result
from aliquot.core.view import Column, View
from aliquot.errors import AliquotError


@dataclass(frozen=True)
class ChoiceSummary(Result):
    """The size of a table of choices, and the command that reads it."""

    kind: str
    rows: int
    items: int
    annotators: int
    columns: tuple[str, ...]
    next_words: tuple[str, ...]

    @property
    def next_command(self) -> str:
        """The most sensible next command."""
        return shlex.join(("aliquot", *self.next_words))

    def views(self) -> Sequence[View]:
        """Return the view `choices`."""
        facts = [
            ("rows", str(self.rows)),
            ("items", str(self.items)),
            ("annotators", str(self.annotators or "not named")),
        ]
        columns = (Column("", lambda fact: fact[0], "name"), Column("", lambda fact: fact[1], "text"))
        return (View("choices", facts, columns, intro=(f"choices between outputs, kind {self.kind}",)),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row: kind, rows, items, annotators."""
        return pl.DataFrame([{name: getattr(self, name) for name in ("kind", "rows", "items", "annotators")}])

    def document(self) -> dict[str, Any]:
        """Return the fields, and the next command as `next`."""
        return self.fields_without("next_words") | {"next": self.next_command}


def summarise_choices(path: str | Path) -> ChoiceSummary | None:
    """Describe a table of choices; None if the file is no such table."""
    try:
        table = read_source(path, needs_table=True, has_choices=True) if str(path) != "-" else None
        kind = detect_table_kind(table.columns) if isinstance(table, pl.DataFrame) else None
        if not isinstance(table, pl.DataFrame) or kind in (None, "groups"):
            return None
        choices = choice_table(table, kind, None, str(path))
        people = choices.optional_texts("annotator").drop_nulls().n_unique()
        items = choices.read_texts("item").n_unique()
    except (AliquotError, OSError):
        return None
    return ChoiceSummary(kind, len(choices), items, people, tuple(table.columns), ("compare", str(path)))
