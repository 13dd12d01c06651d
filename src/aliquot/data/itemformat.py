"""The item format's names: how a field of a JSON line and a column of the items table call each other.

An extra field whose name a column already has (a file with both `i` and `id`) is kept as the column `field:id`, and an
extra column whose name a field already has (a table with both `source` and `src`) is written as the field `column:src`,
so that writing and reading give back everything under its own name. Invariant: `column_name(field_name(x)) == x`.
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

_RESERVED_FIELDS = frozenset({*COLUMN_OF_FIELD, *NESTED, META} - set(FIELD_OF_COLUMN))
_FIELD, _COLUMN = "field:", "column:"


def column_name(field: str) -> str:
    """Return the items column that holds a JSON field.

    >>> column_name("src"), column_name("lang"), column_name("source"), column_name("column:src")
    ('source', 'lang', 'field:source', 'src')
    """
    if field in COLUMN_OF_FIELD:
        return COLUMN_OF_FIELD[field]
    if _bare(field, _FIELD) in FIELD_OF_COLUMN:
        return f"{_FIELD}{field}"
    return field.removeprefix(_COLUMN) if _bare(field, _COLUMN) in _RESERVED_FIELDS else field


def field_name(column: str) -> str:
    """Return the JSON field that an items column is written to; the inverse of `column_name`.

    >>> field_name("source"), field_name("lang"), field_name("field:source"), field_name("src")
    ('src', 'lang', 'source', 'column:src')
    """
    if column in FIELD_OF_COLUMN:
        return FIELD_OF_COLUMN[column]
    if _bare(column, _COLUMN) in _RESERVED_FIELDS:
        return f"{_COLUMN}{column}"
    return column.removeprefix(_FIELD) if _bare(column, _FIELD) in FIELD_OF_COLUMN else column


def _bare(name: str, prefix: str) -> str:
    while name.startswith(prefix):
        name = name.removeprefix(prefix)
    return name
