"""Ids that outputs and ratings have in the tool that logged them, and the answers to be written back to it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from aliquot.core.columns import decode_column
from aliquot.core.evalset import EvalSet
from aliquot.errors import OptionError

Cell = tuple[int | str, str]
TRACES, OBSERVATIONS = "trace_ids", "observation_ids"
"""The item columns of what each system's output is called in the tool that logged it: {system: id}."""
RATING_ID = "rating_id"
"""The judgment column of what the tool calls a rating, which is therefore not written back to it."""


def read_cell_ids(evalset: EvalSet, column: str) -> dict[Cell, str]:
    """Return the ids that an item column has for the outputs; none without that column."""
    cells: dict[Cell, str] = {}
    rows = decode_column(evalset.items[column]) if column in evalset.items.columns else [None] * evalset.n_items
    for item, by_system in zip(evalset.ids, rows, strict=True):
        if by_system is not None and not isinstance(by_system, dict):
            what = column.removesuffix("_ids")
            raise OptionError(f"{evalset.name}: item {item}: '{column}' is {by_system!r}, not {{system: {what}}}", "to")
        cells |= {(item, system): name for system, name in (by_system or {}).items() if isinstance(name, str) and name}
    return cells


def list_answers(evalset: EvalSet) -> Iterator[dict[str, Any]]:
    """Yield the usable judgments, or the cells of the human score, by `name` and on the scale where they came from."""
    default = evalset.human or "human"
    if evalset.judgments is not None:
        for row in evalset.judgments.answers().iter_rows(named=True):
            name, value = row["criterion"] or default, row["value"]
            is_flipped = {default, f"human_{name}"} & evalset.flipped
            yield row | {"name": name, "value": -value if value is not None and is_flipped else value}
    elif evalset.human is not None:
        sign = -1 if evalset.human in evalset.flipped else 1
        for item, values in zip(evalset.ids, evalset.human_score().tolist(), strict=True):
            for system, value in zip(evalset.systems, values, strict=True):
                if math.isfinite(value):
                    yield {"item": item, "system": system, "name": default, "value": sign * value}
