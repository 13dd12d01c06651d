"""What is wrong with a pool as a whole, once every source was measured: said before anything is written."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aliquot.errors import AliquotWarning, DataError, FormatError, OptionError
from aliquot.pool.compact import BALANCE, BINS
from aliquot.pool.measure import NO_GROUP, hash_of
from aliquot.pool.methods import Plan
from aliquot.pool.passes import Measured
from aliquot.pool.source import Pool
from aliquot.select.kinds import Chosen
from aliquot.select.sources import unlike_warning


def refuse_own_file(pool: Pool, output: str | Path | None) -> None:
    """Raise when the chosen items would be written over the sources they are chosen from."""
    if output is not None and Path(output).resolve() in {Path(name).resolve() for name in pool.files}:
        raise OptionError(f"{output}: is a file of the pool itself, and would be lost; name another output")


def refuse_empty(values: NDArray[np.generic], column: str, array: str, asked: Plan, measured: Measured) -> None:
    """Raise when a column that the choice depends on holds nothing in the whole pool: its name is misspelt."""
    value = asked.wanted.value
    if column in (BALANCE, BINS):
        empty, what = bool((values == hash_of([NO_GROUP])[0]).all()), f"a value in '{array.removeprefix('group:')}'"
    elif value is not None and column == asked.value_column:
        empty = not np.isfinite(values.astype(np.float64, copy=False)).any()
        what = f"a number in '{value.name}'" if value.kind == "column" else "a source (field 'src')"
    else:
        return
    if empty:
        raise DataError(f"{_files(measured)}: no item has {what}; check the name, or map it with --columns ROLE=NAME")


def refuse_absent_roles(measured: Measured, asked: Plan) -> None:
    """Raise when --columns gives a role to a field that no item has."""
    arrays = {"id": "id"} | ({"document": "document"} if asked.wanted.document else {})
    for role, array in arrays.items():
        if role in measured.pool.fields and not measured.parts.column(array).any():
            raise _absent(role, measured)


def check_sources(records: Sequence[dict[str, Any]], measured: Measured) -> None:
    """Look for sources among the chosen items, which the first pass may not have read."""
    if any("source" in record for record in records) or not records:
        return
    if "source" in measured.pool.fields:
        raise _absent("source", measured)
    others = ", ".join(f"'{name.removeprefix('field:')}'" for name in list(records[0])[:8] if name != "id")
    warnings.warn(
        f"no chosen item has a source (field 'src'); there are: {others}; name it with --columns source=NAME",
        AliquotWarning,
        3,
    )


def refuse_changed(measured: Measured, fingerprint: str) -> None:
    """Raise when the files are no longer those that were measured."""
    if measured.pool.fingerprint != fingerprint:
        raise FormatError(f"{_files(measured)}: a file changed while it was read; start again")


def warn_of_strangers(measured: Measured, asked: Plan) -> None:
    """Say once for the whole pool when its sources look unlike those a model learned from."""
    if asked.wanted.value is None or asked.wanted.value.kind != "model":
        return
    said = unlike_warning(measured.parts.column("unlike").astype(np.float64, copy=False))
    if said:
        warnings.warn(said, AliquotWarning, 3)


def refuse_nothing(chosen: Chosen, asked: Plan, budget: float | str | None) -> None:
    """Raise when the budget buys no item; a design may come out empty by chance."""
    if len(chosen.rows):
        return
    if asked.method.kind != "design":
        raise OptionError(f"the budget {budget} buys nothing; raise --budget")
    text = f"this draw of '{asked.spec.name}' came out empty: the budget {budget} is an expected number; raise it"
    warnings.warn(text, AliquotWarning, 3)


def _absent(role: str, measured: Measured) -> DataError:
    name = measured.pool.fields[role]
    return DataError(f"--columns {role}={name}: no item of {_files(measured)} has the field '{name}'; check the name")


def _files(measured: Measured) -> str:
    return ", ".join(measured.pool.files[:3])
