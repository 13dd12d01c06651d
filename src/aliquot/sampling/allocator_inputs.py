"""What an `Allocator` is given, read and checked: the question, the budget in cells, answers, cells asked before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet, ItemId
from aliquot.core.judgments import Judgments, merge_repeats
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.files import read_bytes
from aliquot.io.formats.table_columns import map_columns, parse_ids, parse_names, require_roles
from aliquot.io.formats.table_files import read_frame
from aliquot.io.inputs import JudgmentsLike, as_judgments
from aliquot.sampling.budgets import parse_amount
from aliquot.sampling.policies import QUESTIONS
from aliquot.stats.arrays import FloatArray


@dataclass(frozen=True)
class Ask:
    """A cell to judge, and the probability with which the policy drew its system."""

    item: ItemId
    system: str
    probability: float
    repeat: bool = False  # whether the cell has been judged before


def read_question(question: str | Sequence[tuple[str, str]], data: EvalSet) -> tuple[str, FloatArray | None]:
    """Return the kind of question, and weights (M x M) of listed pairs."""
    if isinstance(question, str) and ":" in question:
        question = [_parse_pair(part.strip(), data.systems) for part in question.split(",")]
    if isinstance(question, str):
        if question not in QUESTIONS[:-1]:
            raise unknown_name("question", question, QUESTIONS[:-1], "or list pairs of systems: A:B,C:D")
        return question, None
    weights, place = np.zeros((data.n_systems,) * 2), {name: column for column, name in enumerate(data.systems)}
    pairs: Sequence[Any] = question
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]:
            raise OptionError(f"the question {pair!r} is not a pair of two systems; write (A, B)")
        for name in pair:
            if name not in place:
                raise unknown_name("system", name, data.systems)
        weights[place[pair[0]], place[pair[1]]] = weights[place[pair[1]], place[pair[0]]] = 1.0
    if not weights.any():
        raise OptionError("the question is an empty list; name at least one pair of systems")
    return "pairs", weights


def _parse_pair(text: str, systems: Sequence[str]) -> tuple[str, str]:
    """Read A:B, where names may hold colons, too."""
    parts = text.split(":")
    splits = [(":".join(parts[:cut]).strip(), ":".join(parts[cut:]).strip()) for cut in range(1, len(parts))]
    if not splits:
        raise OptionError(f"the question '{text}' is not a pair of systems; write A:B,C:D")
    return next((pair for pair in splits if set(pair) <= set(systems)), splits[0])


def budget_in_cells(budget: int | str | None, data: EvalSet) -> int | None:
    """Return a budget in cells: a number, "500judgments", "40items" (all systems), or a share of all cells."""
    if budget is None:
        return None
    amount = parse_amount(budget)
    every = data.n_items * data.n_systems
    if amount.unit == "share":
        return max(1, round(amount.value * every))
    if amount.unit == "items" and not amount.bare:
        return int(amount.value * data.n_systems)
    if amount.unit in ("items", "judgments"):
        return int(amount.value)
    raise OptionError(f"budget {budget}: give cells (500), 40items, or a share of all cells (30%)")


RATER_COLUMNS = ("annotator", "criterion")
_SOURCES = (str, Path, EvalSet, Judgments, pl.DataFrame)
Rater = tuple[Any, Any]  # whose answer, to which question


def read_answers(judgments: JudgmentsLike | Iterable[tuple[Any, ...]]) -> list[tuple[ItemId, str, float, Rater]]:
    """Return answers one by one; error spans are summed, and repeats by one annotator averaged.

    Answers that are marked or have no value are skipped.
    """
    if isinstance(judgments, Iterator):
        judgments = list(judgments)
    if isinstance(judgments, list | tuple) and not any(isinstance(part, _SOURCES) for part in judgments[:1]):
        return [_parse_answer(row) for row in judgments]
    table = as_judgments(judgments).answers()  # type: ignore[arg-type]
    table = merge_repeats(table.filter(pl.col("value").is_not_null())).table
    return [_parse_answer(row) for row in table.select("item", "system", "value", *RATER_COLUMNS).iter_rows()]


CellsLike = str | Path | pl.DataFrame | Iterable[Ask | tuple[ItemId, str] | str | Path | pl.DataFrame]


def read_cells(asked: CellsLike) -> list[tuple[ItemId, str]]:
    """Return cells from asks, pairs of item and system, tables, or files of tables."""
    cells: list[tuple[ItemId, str]] = []
    for part in [asked] if isinstance(asked, str | Path | pl.DataFrame) else asked:
        if isinstance(part, Ask):
            cells.append((part.item, part.system))
        elif isinstance(part, tuple):
            cells.append(part)
        else:
            where = "asked" if isinstance(part, pl.DataFrame) else str(part)
            table = part if isinstance(part, pl.DataFrame) else read_frame(read_bytes(part), part)
            roles = map_columns(table.columns, None, where)
            require_roles(["item", "system"], roles, table.columns, "cells", where)
            items, systems = parse_ids(table[roles["item"]], where), parse_names(table[roles["system"]], where)
            cells += zip(items.to_list(), systems.to_list(), strict=True)
    return cells


def _parse_answer(row: Any) -> tuple[ItemId, str, float, Rater]:
    if not isinstance(row, tuple) or not 3 <= len(row) <= 3 + len(RATER_COLUMNS) or not isinstance(row[2], Real):
        raise DataError(f"a judgment is (item, system, value) or (item, system, value, annotator), found {row!r}")
    item, system, value, *who = row
    names = [*who, None, None]
    return item, system, float(value), (names[0], names[1])
