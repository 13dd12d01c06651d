"""Lists of dictionaries, as subset2evaluate passes them around, to EvalSets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from aliquot.data.evalset import EvalSet
from aliquot.data.formats import items
from aliquot.data.io import load
from aliquot.errors import DataError

Item = dict[str, Any]


def to_evalset(data: Sequence[Item]) -> EvalSet:
    """Make an EvalSet of a list of items; ids are positions, because the lists need none."""
    if not data:
        raise DataError("the list of items is empty")
    lines = [msgspec.json.encode({**item, "i": position}) for position, item in enumerate(data)]
    evalset = items.read(b"\n".join(lines), "items")
    return evalset.with_human("human") if "human" in evalset.scores else evalset


def as_items(data: Sequence[Item] | str | Path) -> list[Item]:
    """Return shallow copies of the items, loading them first where a path or descriptor is given."""
    if isinstance(data, str | Path):
        return list(items.records(load(data)))
    return [dict(item) for item in data]
