"""Accept objects, paths and Polars or pandas tables for data, judgments and selections."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.selection import Selection
from aliquot.io.formats.table_columns import map_columns, parse_ids, require_roles
from aliquot.io.formats.table_files import Table, to_polars
from aliquot.io.load import load
from aliquot.io.load_judgments import JudgmentSource, load_judgments

DataLike = EvalSet | str | Path | Table
JudgmentsLike = JudgmentSource | Sequence[JudgmentSource]
SelectionLike = Selection | str | Path | Table
_NUMBER_COLUMNS = ("utility", "probability", "weight", "cost")


def as_evalset(data: DataLike) -> EvalSet:
    """Return data as an EvalSet: a path is loaded, a table read as a file of it would be.

    >>> as_evalset(pl.DataFrame({"segment_id": [1, 1], "model": ["A", "B"], "score": [0.5, 0.75]})).systems
    ('A', 'B')
    """
    return data if isinstance(data, EvalSet) else load(data)


def as_evalsets(data: DataLike | Sequence[DataLike]) -> list[EvalSet]:
    """Return one or several sets of data as a list of EvalSets."""
    several: Sequence[Any] = data if isinstance(data, (list, tuple)) else [data]
    return [as_evalset(each) for each in several]


def as_judgments(judgments: JudgmentsLike) -> Judgments:
    """Return judgments: a path or a table, or a list of these, is read as `load_judgments` reads it.

    >>> as_judgments(pl.DataFrame({"segment_id": [1], "model": ["A"], "rater": ["ann"], "score": [0.5]}))
    Judgments(1 row, 1 item, 1 system, 1 annotator)
    """
    return load_judgments(judgments)


def as_selection(selection: SelectionLike) -> Selection:
    """Return a selection: a path is loaded; a table names the items in order, and what else is known of them.

    A table may have the columns utility, probability, weight and cost, and `population`, the number of items that the
    selection was made from.

    >>> as_selection(pl.DataFrame({"item": [4, 2], "probability": [0.5, 0.5], "population": 4}))
    Selection(2 of 4 items by given, with probabilities)
    """
    if isinstance(selection, Selection):
        return selection
    if isinstance(selection, (str, Path)):
        return Selection.load(selection)
    table = to_polars(selection)
    roles = map_columns(table.columns, None, "selection")
    require_roles(["item"], roles, table.columns, "selections", "selection")
    numbers: dict[str, Any] = {name: table[name].to_numpy() for name in _NUMBER_COLUMNS if name in table.columns}
    population = int(table["population"][0]) if "population" in table.columns else table.height
    return Selection(tuple(parse_ids(table[roles["item"]], "selection").to_list()), population, "given", **numbers)


def as_judged(data: DataLike | Judgments, answer: str | None = None) -> EvalSet | Judgments | pl.DataFrame:
    """Return data with judgments: a path is loaded; a table stays one, under our names, as its answers may be labels.

    >>> as_judged(pl.DataFrame({"segment_id": [1], "rater": ["ann"], "verdict": ["yes"]}), "verdict").columns
    ['item', 'annotator', 'verdict']
    """
    if isinstance(data, (EvalSet, Judgments)):
        return data
    if isinstance(data, (str, Path)):
        return load(data, answer=answer)
    table = to_polars(data)
    roles = map_columns([name for name in table.columns if name != answer], None, "the table")
    return table.rename({theirs: ours for ours, theirs in roles.items() if ours not in table.columns})
