"""The item format's names: how a field of a JSON line and a column of the items table call each other.

An extra field whose name a column already has (a file with both `i` and `id`) is kept under a prefix, so that writing
gives back every field under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

COLUMN_OF_FIELD: Mapping[str, str] = MappingProxyType(
    {"i": "id", "src": "source", "ref": "reference", "doc": "document", "position": "position", "domain": "domain",
     "cost": "cost"}
)  # fmt: skip
FIELD_OF_COLUMN: Mapping[str, str] = MappingProxyType({column: field for field, column in COLUMN_OF_FIELD.items()})

NESTED = ("tgt", "scores", "judgments")
META = "aliquot"
"""Field of the first line that remembers what the lines cannot say: flipped scores and the human score's name."""

_PREFIX = "field:"


def column_name(field: str) -> str:
    """Return the items column that holds a JSON field.

    >>> column_name("src"), column_name("lang"), column_name("source")
    ('source', 'lang', 'field:source')
    """
    known = COLUMN_OF_FIELD.get(field)
    return known or (f"{_PREFIX}{field}" if field in FIELD_OF_COLUMN or field.startswith(_PREFIX) else field)


def field_name(column: str) -> str:
    """Return the JSON field that an items column is written to; the inverse of `column_name`."""
    return FIELD_OF_COLUMN.get(column) or column.removeprefix(_PREFIX)
