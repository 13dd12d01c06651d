"""Fields of the item format: their column names, and a careful explanation of a line that was refused."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from aliquot.errors import FormatError

COLUMN_OF_FIELD: Mapping[str, str] = MappingProxyType(
    {
        "i": "id",
        "src": "source",
        "ref": "reference",
        "doc": "document",
        "position": "position",
        "domain": "domain",
        "cost": "cost",
    }
)
FIELD_OF_COLUMN: Mapping[str, str] = MappingProxyType({column: field for field, column in COLUMN_OF_FIELD.items()})

USAGE = "usage"
"""Field of costs, seconds and tokens, by system and name."""
NESTED = ("tgt", "scores", "judgments", USAGE)
META = "aliquot"
"""Field of the first line with metadata of the set: flipped scores and the human score's name."""

_RESERVED_FIELDS = frozenset({*COLUMN_OF_FIELD, *NESTED, META} - set(FIELD_OF_COLUMN))
_FIELD, _COLUMN = "field:", "column:"


def column_name(field: str) -> str:
    """Return the items column that holds a JSON field.

    >>> column_name("src"), column_name("lang"), column_name("source"), column_name("column:src")
    ('source', 'lang', 'field:source', 'src')
    """
    if field in COLUMN_OF_FIELD:
        return COLUMN_OF_FIELD[field]
    if _strip_prefix(field, _FIELD) in FIELD_OF_COLUMN:
        return f"{_FIELD}{field}"
    return field.removeprefix(_COLUMN) if _strip_prefix(field, _COLUMN) in _RESERVED_FIELDS else field


def field_name(column: str) -> str:
    """Return the JSON field that an items column is written to; the inverse of `column_name`.

    >>> field_name("source"), field_name("lang"), field_name("field:source"), field_name("src")
    ('src', 'lang', 'source', 'column:src')
    """
    if column in FIELD_OF_COLUMN:
        return FIELD_OF_COLUMN[column]
    if _strip_prefix(column, _COLUMN) in _RESERVED_FIELDS:
        return f"{_COLUMN}{column}"
    return column.removeprefix(_FIELD) if _strip_prefix(column, _FIELD) in FIELD_OF_COLUMN else column


def _strip_prefix(name: str, prefix: str) -> str:
    while name.startswith(prefix):
        name = name.removeprefix(prefix)
    return name


# -- Explaining what is wrong with a line --


_NUMBER_REMEDY = "write a plain number, and leave a missing score out or null"


def build_line_error(line: bytes, where: str, reason: str) -> FormatError:
    """Build the error for an invalid item: field, value and remedy if they can be found, else the decoder's reason."""
    try:
        item = json.loads(line)  # accepts NaN and Infinity, which JSON proper does not, so that we can point at them
    except ValueError as error:
        return FormatError(
            f"{where}: not valid JSON ({_shorten_text(str(error))}); each line should be one JSON object"
        )
    except RecursionError:
        return FormatError(
            f"{where}: nested too deeply; a field may hold lists and objects, but not hundreds in each other"
        )
    fault = next(_find_faults(item), None)
    name = (
        f", item {_shorten_bytes(repr(item['i']))}"
        if isinstance(item, dict) and isinstance(item.get("i"), int | str)
        else ""
    )
    if fault is None:
        return FormatError(f"{where}{name}: {_find_lone_surrogate(item) or reason}")
    field, message = fault
    return FormatError(f"{where}{name}{f', field {field}' if field else ''}: {message}")


def _find_lone_surrogate(item: Any) -> str | None:
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        return f"{half} is half of a surrogate pair and no character; remove it, or write both halves"
    return None


def _find_faults(item: Any) -> Iterator[tuple[str, str]]:
    if isinstance(item, list):
        for number, entry in enumerate(item, start=1):
            for field, message in _find_faults(entry):
                yield (
                    f"{field} of entry {number}" if field else "",
                    f"entry {number}: {message}" if not field else message,
                )
        return
    if not isinstance(item, dict):
        example = '{"i": 0, "tgt": ...}'
        yield "", f"expected a JSON object per item, found {_describe_value(item)}; an item looks like {example}"
        return
    if "i" in item and (isinstance(item["i"], bool) or not isinstance(item["i"], int | str)):
        yield "i", f"an item id is an integer or a string, found {_describe_value(item['i'])}"
    for field in ("src", "ref"):
        if not isinstance(item.get(field), str | None):
            yield field, f"expected a text, found {_describe_value(item[field])}"
    for field in ("doc", "domain"):
        if not isinstance(item.get(field), str | int | None) or isinstance(item.get(field), bool):
            yield field, f"expected a name, found {_describe_value(item[field])}"
    yield from _find_number_faults("cost", item.get("cost"), "write a plain number or leave 'cost' out")
    if isinstance(item.get("position"), bool) or not isinstance(item.get("position"), int | None):
        yield (
            "position",
            f"expected a whole number, found {_describe_value(item['position'])}; correct it or leave 'position' out",
        )
    yield from _find_meta_faults(item.get(META))
    yield from _find_output_faults(item.get("tgt"))
    yield from _find_score_faults(item.get("scores"))
    yield from _find_judgment_faults(item.get("judgments"))


def _find_meta_faults(meta: Any) -> Iterator[tuple[str, str]]:
    fits = isinstance(meta, dict) and isinstance(meta.get("human"), str | None)
    names = meta.get("flipped", []) if fits else None
    if meta is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        expected = '{"human": NAME, "flipped": [NAMES]}'
        yield (
            META,
            f"'{META}' is where aliquot keeps {expected}, found {_describe_value(meta)}; give the field another name",
        )


def _find_output_faults(outputs: Any) -> Iterator[tuple[str, str]]:
    if outputs is None:
        return
    if not isinstance(outputs, dict):
        yield "tgt", f'expected {{"system": "text", ...}}, found {_describe_value(outputs)}'
        return
    for system, text in outputs.items():
        if not isinstance(text, str | None):
            yield f"tgt.{system}", f"an output is a text, found {_describe_value(text)}"


def _find_score_faults(scores: Any) -> Iterator[tuple[str, str]]:
    if scores is None:
        return
    if not isinstance(scores, dict):
        yield "scores", f'expected {{"system": {{"metric": number}}}}, found {_describe_value(scores)}'
        return
    for system, cell in scores.items():
        if cell is None:
            continue
        if not isinstance(cell, dict):
            yield f"scores.{system}", f'expected {{"metric": number, ...}}, found {_describe_value(cell)}'
            continue
        for name, value in cell.items():
            yield from _find_number_faults(f"scores.{system}.{name}", value, _NUMBER_REMEDY)


def _find_judgment_faults(judgments: Any) -> Iterator[tuple[str, str]]:
    if judgments is None:
        return
    if not isinstance(judgments, list) or not all(isinstance(judgment, dict) for judgment in judgments):
        yield "judgments", f'expected a list of {{"system", "annotator", "value"}}, found {_describe_value(judgments)}'
        return
    for number, judgment in enumerate(judgments):
        if not isinstance(judgment.get("system"), str):
            yield (
                f"judgments[{number}].system",
                f"expected a system's name, found {_describe_value(judgment.get('system'))}",
            )
        for key in ("annotator", "criterion"):
            name = judgment.get(key)
            if isinstance(name, bool) or not isinstance(name, str | int | None):
                yield (
                    f"judgments[{number}].{key}",
                    f"expected a name, found {_describe_value(name)}; one judgment, one {key}",
                )
        for key in ("value", "seconds"):
            remedy = "write a plain number, or null for a pending answer; a category goes into 'label'"
            yield from _find_number_faults(f"judgments[{number}].{key}", judgment.get(key), remedy)


def _find_number_faults(field: str, value: Any, remedy: str) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield field, f"expected a number, found {_describe_value(value)}; {remedy}"
    elif isinstance(value, int) and abs(value) > sys.float_info.max:
        yield field, f"{_describe_value(value)} is beyond what a number can be here; {remedy}"
    elif not math.isfinite(value):
        yield field, f"{value} is not a score (JSON has no NaN or infinity); {remedy}"


def _describe_value(value: Any) -> str:
    kinds = {
        bool: "the boolean",
        str: "the string",
        list: "a list",
        dict: "an object",
        int: "the number",
        float: "the number",
    }
    return f"{kinds.get(type(value), '')} {_shorten_bytes(json.dumps(value, ensure_ascii=False))}".strip()


def _shorten_bytes(text: str) -> str:
    return _shorten_text(text.encode(errors="backslashreplace").decode())


def _shorten_text(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
