"""Inspect's datasets as JSON lines: a sample with `input`, `target`, `id` and `metadata` for each item."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from aliquot.core.columns import decode_column
from aliquot.core.draws import DRAW
from aliquot.core.evalset import EvalSet
from aliquot.errors import OptionError, quoted
from aliquot.io.writing import write_bytes

_CHOICES, _SELECTION = "choices", "selection"
_OWN_FIELDS = {"id", "source", "reference", _CHOICES, _SELECTION, DRAW}


def write(evalset: EvalSet, path: str | Path) -> None:
    """Write the items' sources and references; several draws of a prompt are one sample."""
    sources = evalset.items["source"].to_list() if "source" in evalset.items.columns else [None] * evalset.n_items
    without = [item for item, source in zip(evalset.ids, sources, strict=True) if not source]
    if without:
        raise OptionError(
            f"{evalset.name}: a dataset of Inspect needs an input for each sample, and {len(without)} of "
            f"{evalset.n_items} items have no source ({quoted(without, 3)}); give data with sources"
        )
    encode = msgspec.json.Encoder().encode
    write_bytes(path, b"".join(encode(sample) + b"\n" for sample in _iterate_samples(evalset)))


def _iterate_samples(evalset: EvalSet) -> Iterator[dict[str, Any]]:
    columns = {name: decode_column(evalset.items[name]) for name in evalset.items.columns}
    names = columns.pop("document") if DRAW in columns and "document" in columns else columns["id"]
    written = set()
    for row, name in enumerate(names):
        if name in written:
            continue
        written.add(name)
        item = {column: values[row] for column, values in columns.items() if values[row] is not None}
        sample = {"input": item["source"], "target": item.get("reference", ""), "id": name}
        if isinstance(item.get(_CHOICES), list):
            sample[_CHOICES] = item[_CHOICES]
        yield sample | {"metadata": {field: value for field, value in item.items() if field not in _OWN_FIELDS}}
