"""What is read of every source: columns by name, by the field they stand in, and by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Kind = Literal["id", "text", "name", "number", "whole", "label"]
_EXACT = 2**53


@dataclass(frozen=True)
class Column:
    """One column of a pool: `name` in our tables, `field` in the files."""

    name: str
    field: str
    kind: Kind


def label_of(value: Any) -> str | None:
    """Write a value as the name of its group; 1 and 1.0 are one group, whatever stands in other partitions.

    >>> label_of(1), label_of(1.0), label_of(1.5), label_of("news"), label_of(True), label_of(None)
    ('1', '1', '1.5', 'news', 'true', None)
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return msgspec.json.encode(value).decode()
