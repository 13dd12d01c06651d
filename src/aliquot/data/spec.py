"""The one grammar in which a method is named: `name`, `name:key=value,key=value`, and `+` to join an estimator.

Values that are lists use `|` (`metrics=COMET|BLEURT-20`); parentheses protect a spec inside a value
(`mixture:methods=(diversity:similarity=bleu)|metric_var`). A value that holds these characters for itself, such as a
metric called "a,b", is put into parentheses too, or, if its own do not match, percent-encoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import quote, unquote

from aliquot.errors import OptionError

_CLOSING = {")": -1, "(": 1}
_SPECIAL = set(",|+()%")


@dataclass(frozen=True)
class Spec:
    """A method's name and its parameters as they were written.

    >>> str(Spec("pps", {"tau": "0.5"}))
    'pps:tau=0.5'
    """

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __str__(self) -> str:
        written = ",".join(f"{key}={value}" for key, value in self.parameters.items())
        return f"{self.name}:{written}" if written else self.name


def parse_spec(text: str) -> Spec:
    """Parse one method.

    >>> parse_spec("pps:size=difficulty,tau=0.5").parameters["tau"]
    '0.5'
    """
    name, _, rest = text.strip().partition(":")
    if not name.strip():
        raise OptionError(f"method '{text}': a name is missing; write NAME or NAME:key=value,key=value")
    parameters = {}
    for part in split_outside(rest, ",") if rest.strip() else []:
        key, equals, value = part.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise OptionError(f"method '{text}': '{part}' is not key=value; write NAME:key=value,key=value")
        if key.strip() in parameters:
            raise OptionError(f"method '{text}': the parameter '{key.strip()}' is given twice")
        parameters[key.strip()] = value.strip()
    return Spec(name.strip(), parameters)


def parse_chain(text: str) -> list[Spec]:
    """Parse methods joined by `+`.

    >>> [str(spec) for spec in parse_chain("pps:tau=0.5+greg:metrics=COMET|BLEURT-20")]
    ['pps:tau=0.5', 'greg:metrics=COMET|BLEURT-20']
    """
    return [parse_spec(part) for part in split_outside(text, "+")]


def split_specs(text: str) -> list[str]:
    """Split at the commas between methods, not at those inside one: key=value belongs to the method before it.

    >>> split_specs("random, pps:size=error,tau=0.1+greg,metric_var")
    ['random', 'pps:size=error,tau=0.1+greg', 'metric_var']
    """
    found: list[str] = []
    for part in split_outside(text, ","):
        piece = part.strip()
        if found and "=" in piece.split(":")[0].split("+")[0]:
            found[-1] += f",{piece}"
        elif piece:
            found.append(piece)
    return found


def split_outside(text: str, separator: str) -> list[str]:
    """Split at a separator that stands outside parentheses.

    >>> split_outside("a,(b,c),d", ",")
    ['a', '(b,c)', 'd']
    """
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += _CLOSING.get(character, 0)
        if depth < 0:
            break
        if character == separator and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    if depth != 0:
        raise OptionError(f"'{text}': parentheses do not match")
    return [*parts, text[start:]]


def written(value: object) -> str:
    """Write a parameter's value so that `read_value` gives it back; lists are joined by `|`.

    >>> written("COMET"), written(["a,b", "c"]), written("chrF (2")
    ('COMET', '(a,b)|c', 'chrF%20%282')
    """
    if isinstance(value, list | tuple):
        return "|".join(written(part) for part in value)
    text = str(value)
    if not _SPECIAL & set(text) and text == text.strip():
        return text
    return f"({text})" if _balanced(text) and "%" not in text else quote(text, safe=":=")


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += _CLOSING.get(character, 0)
        if depth < 0:
            return False
    return depth == 0


def read_value(text: str) -> str:
    """Undo `written` for a single value.

    >>> read_value("(metric_var:metric=COMET)")
    'metric_var:metric=COMET'
    """
    inner = unwrapped(text)
    return unquote(inner) if inner == text.strip() else inner


def unwrapped(text: str) -> str:
    """Remove the parentheses around a spec inside a value, if it has them.

    >>> unwrapped("(metric_var:metric=COMET)"), unwrapped("metric_var")
    ('metric_var:metric=COMET', 'metric_var')
    """
    text = text.strip()
    return text[1:-1] if text.startswith("(") and text.endswith(")") and _balanced(text[1:-1]) else text
