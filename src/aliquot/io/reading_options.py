"""How data are read as one text, `key=value,...`: the rare arguments of `load`, and systems to leave out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aliquot.errors import OptionError, unknown_name
from aliquot.io.formats.mqm import MQMWeights
from aliquot.io.formats.table_columns import SYNONYMS

ARGUMENTS = ("format", "wide", "pair", "key", "score_name", "lower_is_better", "mqm_weights", "exclude")
_LISTS = ("lower_is_better", "exclude")
_REMEDY = "write key=value pairs joined by commas, e.g. wide=metrics,item=segment"


def parse_reading(text: str | Sequence[str]) -> dict[str, Any]:
    """Parse one or several texts `key=value,...` into keyword arguments of `load`, and `exclude`, a list of systems.

    The keys are `format`, `wide`, `pair`, `key`, `score-name`, `lower-is-better`, `mqm-weights` and `exclude` (several
    values are joined by `|`) and the column roles (`item`, `system`, `value`, ...), which become `columns`. A part
    without "=" continues the value before it, so values may contain commas.

    >>> parse_reading("wide=metrics,item=segment,key=a,b.csv")
    {'wide': 'metrics', 'key': PosixPath('a,b.csv'), 'columns': {'item': 'segment'}}
    >>> parse_reading(["mqm-weights=major=10|minor=1", "score_name=DA"])["mqm_weights"].major
    10.0

    Raises:
        OptionError: A value or the "=" is missing, or a key has two different values.
        NameUnknownError: A key is neither an argument nor a column role.
    """
    values: dict[str, str] = {}
    for each in [text] if isinstance(text, str) else text:
        for key, value in _split_pairs(each):
            name = key.replace("-", "_")
            if name not in ARGUMENTS and name not in SYNONYMS:
                keys = [*(argument.replace("_", "-") for argument in ARGUMENTS), *SYNONYMS]
                raise unknown_name("key of `read`", key, keys, "weights of mqm-weights are joined by |")
            if values.setdefault(name, value) != value:
                raise OptionError(f"`read`: {key} is both '{values[name]}' and '{value}'; keep one", "read")
    arguments: dict[str, Any] = {name: values.pop(name) for name in ARGUMENTS if name in values}
    if "key" in arguments:
        arguments["key"] = Path(arguments["key"])
    for name in arguments.keys() & set(_LISTS):
        arguments[name] = [each.strip() for each in arguments[name].replace("|", ",").split(",") if each.strip()]
    if "mqm_weights" in arguments:
        arguments["mqm_weights"] = MQMWeights.parse(arguments["mqm_weights"].replace("|", ","))
    if values:
        arguments["columns"] = values
    return arguments


def _split_pairs(text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if equals:
            pairs.append((key.strip(), value.strip()))
        elif pairs and part.strip():
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]},{part}".rstrip())
        elif part.strip():
            raise OptionError(f"`read={text}`: '{part}' has no key; {_REMEDY}", "read")
    for key, value in pairs:
        if not key or not value:
            raise OptionError(f"`read={text}`: '{key}={value}' lacks a {'value' if key else 'key'}; {_REMEDY}", "read")
    return pairs
