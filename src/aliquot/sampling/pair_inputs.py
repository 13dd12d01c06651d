"""What a `PairAllocator` is given, read and checked: systems and items, the budget, tables of choices and of pairs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from aliquot.annotation.choice_tables import ChoiceTable, choice_table, read_sides
from aliquot.core.evalset import EvalSet, ItemId
from aliquot.errors import AliquotWarning, DataError, OptionError, quoted
from aliquot.io.files import read_bytes
from aliquot.io.formats.table_files import read_frame
from aliquot.io.inputs import DataLike, as_evalset
from aliquot.sampling.budgets import parse_amount
from aliquot.stats.arrays import BoolArray

Choice = tuple[ItemId, str, str, str | None] | tuple[ItemId, str, str, str | None, str | None]
ChoicesLike = str | Path | pl.DataFrame | Iterable[Choice] | Sequence[str | Path | pl.DataFrame]


def read_choices(choices: ChoicesLike, columns: Mapping[str, str] | None = None) -> list[Choice]:
    """Return choices from a table as `aliquot.compare` reads it; rows without a choice are skipped.

    What an annotator chose on the same two outputs more than once is one choice: the more frequent one, or a tie.

    >>> table = pl.DataFrame({"item": [1, 2], "system_a": ["A", "B"], "system_b": ["B", "A"], "choice": ["a", "tie"]})
    >>> read_choices(table)
    [('1', 'A', 'B', 'A', None), ('2', 'B', 'A', None, None)]
    """
    if not isinstance(choices, str | Path | pl.DataFrame):
        parts = [[part] if isinstance(part, tuple) else read_choices(part, columns) for part in choices]
        return [choice for part in parts for choice in part]
    table = _read_choice_table(choices, columns)
    a, b = table.required_texts("system_a"), table.required_texts("system_b")
    chosen = read_sides(table, a, b)
    odd = chosen.is_in(["both", "none"]).fill_null(value=False)
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise table.row_error(row, f"the choice is '{chosen[row]}'; write a, b or tie")
    frame = table.item_and_annotator().with_columns(a.alias("a"), b.alias("b"), chosen.alias("side"))
    return _merge_repeats(
        [
            (item, first, second, {"a": first, "b": second, "tie": None}[side], who)
            for item, who, first, second, side in frame.iter_rows()
            if side is not None
        ]
    )


def _merge_repeats(rows: list[tuple[ItemId, str, str, str | None, str | None]]) -> list[Choice]:
    """Merge repeated choices of a named annotator on an item and pair."""
    balance: dict[tuple[ItemId, frozenset[str], str | None], int] = {}
    for item, a, b, winner, who in rows:
        key = (item, frozenset((a, b)), who)
        balance[key] = balance.get(key, 0) + (winner == min(a, b)) - (winner == max(a, b))
    merged: dict[object, Choice] = {}
    for place, (item, a, b, winner, who) in enumerate(rows):
        if who is None:
            merged[place] = (item, a, b, winner, who)
        else:
            lead = balance[key := (item, frozenset((a, b)), who)]
            merged.setdefault(key, (item, a, b, (min(a, b), max(a, b))[lead < 0] if lead else None, who))
    return list(merged.values())


def read_pairs(asked: Sequence[str | Path | pl.DataFrame]) -> list[tuple[str, str, str]]:
    """Return item and systems of each row of tables that `aliquot next --unit pair` wrote."""
    pairs = []
    for part in asked:
        frame = part if isinstance(part, pl.DataFrame) else read_frame(read_bytes(part), part)
        where = "asked" if isinstance(part, pl.DataFrame) else str(part)
        lacking = {"item", "system_a", "system_b"} - set(frame.columns)
        if lacking:
            raise DataError(f"{where}: no column '{min(lacking)}'; give a file of `aliquot next --unit pair`")
        table = ChoiceTable(frame, "pairwise", where)
        pairs += list(
            zip(*(table.required_texts(role).to_list() for role in ("item", "system_a", "system_b")), strict=True)
        )
    return pairs


def _read_choice_table(choices: str | Path | pl.DataFrame, columns: Mapping[str, str] | None) -> ChoiceTable:
    where = "choices" if isinstance(choices, pl.DataFrame) else str(choices)
    frame = choices if isinstance(choices, pl.DataFrame) else read_frame(read_bytes(choices), choices)
    table = choice_table(frame, "pairwise", columns, where)
    for note in table.notes:
        warnings.warn(f"{where}: {note}", AliquotWarning, 4)
    for role in ("system_a", "system_b"):
        if role not in table.frame.columns:
            raise DataError(f"{where}: no column '{role}'; choices are item, system_a, system_b, choice (a, b or tie)")
    return table


def read_systems_and_items(
    data: DataLike | Sequence[str], items: Iterable[ItemId] | None
) -> tuple[tuple[str, ...], list[ItemId], BoolArray | None, str]:
    """Return systems, items, which outputs exist (N x M; None: all) and a fingerprint."""
    if isinstance(data, list | tuple) and all(isinstance(name, str) for name in data):
        systems, ids = tuple(data), [] if items is None else list(items)
        if not ids:
            raise OptionError("data are names of systems: give the ids of the items too, items=[...]")
        for kind, names in (("system", systems), ("item", ids)):
            if len(set(names)) < len(names):
                raise DataError(f"a {kind} is named twice; names and ids are unique")
        present, print_ = None, f"{'|'.join(systems)}:{len(ids)}:{ids[0]}:{ids[-1]}"
    else:
        evalset: EvalSet = as_evalset(data)  # type: ignore[arg-type]
        if items is not None:
            raise OptionError("items come with the data; give items only with names of systems")
        systems, ids, print_ = tuple(evalset.systems), list(evalset.ids), evalset.fingerprint
        present = None if evalset.outputs is None else evalset.outputs.select(pl.all().is_not_null()).to_numpy()
        has_outputs = np.ones(len(systems), dtype=bool) if present is None else np.asarray(present.any(axis=0))
        if present is not None and not has_outputs.all():
            silent = [name for name, has_output in zip(systems, has_outputs, strict=True) if not has_output]
            warnings.warn(
                f"without outputs there is nothing to choose; left out: {quoted(silent, 4)}", AliquotWarning, 3
            )
            systems, present = tuple(name for name in systems if name not in silent), present[:, has_outputs]
        present = None if present is None or present.all() else present
    if len(systems) < 2:
        raise DataError(f"{len(systems)} system: choices are between two; give at least 2 systems")
    return systems, ids, present, print_


def budget_in_choices(budget: int | str | None, every: int) -> int | None:
    """Return a budget in choices: a number, "500judgments", or a share of all items of all pairs."""
    if budget is None:
        return None
    amount = parse_amount(budget)
    if amount.unit == "share":
        return max(1, round(amount.value * every))
    if amount.unit == "judgments" or (amount.unit == "items" and amount.bare):
        return int(amount.value)
    raise OptionError(f"budget {budget}: give choices (500), or a share of all items of all pairs (30%)")
