"""The one grammar in which a method is named: `name`, `name:key=value,key=value`, and `+` to join an estimator.

Values that are lists use `|` (`metrics=COMET|BLEURT-20`); parentheses protect a spec inside a value
(`mixture:methods=(diversity:similarity=bleu)|metric_var`). A value that holds these characters for itself, such as a
metric called "a,b", is put into parentheses too, or, if its own do not match, percent-encoded.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from types import MappingProxyType
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar
from urllib.parse import quote, unquote

from aliquot.errors import NameUnknownError, OptionError, ParameterUnknownError, closest

P = ParamSpec("P")
R = TypeVar("R")
_DEPTH_CHANGE = {")": -1, "(": 1}
_SPECIAL_CHARACTERS = set(",|+()%")


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
    for part in split_top_level(rest, ",") if rest.strip() else []:
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
    return [parse_spec(part) for part in split_top_level(text, "+")]


def merge_parameters(spec: Spec, parameters: Mapping[str, Any], typed: Collection[str] | None = None) -> Spec:
    """Return the spec with parameters that are given apart from it, which win; None means not given.

    Values given in Python are written in the grammar. Texts under a name in `typed` are in it already; by default
    those are the spec's own.

    >>> str(merge_parameters(parse_spec("greg:metrics=A|B,ridge=1"), {"ridge": 2, "metrics": None, "name": "a,b"}))
    'greg:metrics=A|B,ridge=2,name=(a,b)'
    """
    apart = {name: value for name, value in parameters.items() if value is not None}
    typed = spec.parameters.keys() - apart.keys() if typed is None else typed
    given: dict[str, Any] = dict(spec.parameters) | apart
    return Spec(spec.name, {k: v if isinstance(v, str) and k in typed else format_value(v) for k, v in given.items()})


def split_names(names: str | Iterable[str]) -> list[str]:
    """Return the names of a list, or of a text with commas between them.

    >>> split_names("spa, mae"), split_names(["spa"])
    (['spa', 'mae'], ['spa'])
    """
    return [name.strip() for name in (names.split(",") if isinstance(names, str) else names) if name.strip()]


def split_specs(text: str) -> list[str]:
    """Split at the commas between methods, not at those inside one: key=value belongs to the method before it.

    >>> split_specs("random, pps:size=error,tau=0.1+greg,metric_var")
    ['random', 'pps:size=error,tau=0.1+greg', 'metric_var']
    """
    found: list[str] = []
    for part in split_top_level(text, ","):
        piece = part.strip()
        if found and "=" in piece.split(":")[0].split("+")[0]:
            found[-1] += f",{piece}"
        elif piece:
            found.append(piece)
    return found


def split_top_level(text: str, separator: str) -> list[str]:
    """Split at a separator that stands outside parentheses.

    >>> split_top_level("a,(b,c),d", ",")
    ['a', '(b,c)', 'd']
    """
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += _DEPTH_CHANGE.get(character, 0)
        if depth < 0:
            break
        if character == separator and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    if depth != 0:
        raise OptionError(f"'{text}': parentheses do not match")
    return [*parts, text[start:]]


def format_value(value: object) -> str:
    """Write a parameter's value so that `parse_value` gives it back; lists are joined by `|`.

    >>> format_value("COMET"), format_value(["a,b", "c"]), format_value("chrF (2")
    ('COMET', '(a,b)|c', 'chrF%20%282')
    """
    if isinstance(value, list | tuple):
        return "|".join(format_value(part) for part in value)
    text = str(value)
    if not _SPECIAL_CHARACTERS & set(text) and text == text.strip():
        return text
    return f"({text})" if _is_balanced(text) and "%" not in text else quote(text, safe=":=")


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += _DEPTH_CHANGE.get(character, 0)
        if depth < 0:
            return False
    return depth == 0


def parse_value(text: str) -> str:
    """Undo `format_value` for a single value.

    >>> parse_value("(metric_var:metric=COMET)")
    'metric_var:metric=COMET'
    """
    inner = strip_parentheses(text)
    return unquote(inner) if inner == text.strip() else inner


def strip_parentheses(text: str) -> str:
    """Remove the parentheses around a spec inside a value, if it has them.

    >>> strip_parentheses("(metric_var:metric=COMET)"), strip_parentheses("metric_var")
    ('metric_var:metric=COMET', 'metric_var')
    """
    text = text.strip()
    return text[1:-1] if text.startswith("(") and text.endswith(")") and _is_balanced(text[1:-1]) else text


# -- Registered functions and their parameters, read off signatures: names, types, defaults, and what to type for them


@dataclass(frozen=True)
class RegistryEntry:
    """A function under a name; its keyword-only arguments are the user's parameters, but for those `INJECTED`."""

    name: str
    function: Callable[..., Any]

    INJECTED: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters a user may give."""
        return read_parameters(self.function, self.INJECTED)

    @property
    def summary(self) -> str:
        """The first line of the function's documentation."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def bound(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the user gave, checked and converted."""
        return bind_parameters(self.name, self.parameters, given)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method, as a user sees it."""

    name: str
    annotation: Any
    default: Any
    about: str

    @property
    def kind(self) -> str:
        """The type in words."""
        choices = _literal_values(self.annotation)
        if choices:
            return "|".join(choices)
        base = _base_type(self.annotation)
        return {int: "whole number", float: "number", bool: "yes or no", str: "name"}.get(base, "names joined by |")

    @property
    def is_list(self) -> bool:
        """Whether it takes several values joined by |."""
        return _base_type(self.annotation) is tuple

    def parse(self, value: Any, method: str) -> Any:
        """Turn what was written into the parameter's type; Python values of the right type pass unchanged."""
        base, choices = _base_type(self.annotation), _literal_values(self.annotation)
        if not isinstance(value, str):
            return value if base is not tuple else self._numbers(tuple(value), method)
        if base is not tuple:
            value = parse_value(value)
        if choices and value not in choices:
            raise OptionError(f"{method}: {self.name}='{value}' is not known; choose {' or '.join(choices)}")
        try:
            if base in (int, float):
                return base(value)
            if base is bool:
                return {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}[value.lower()]
        except (ValueError, KeyError):
            raise OptionError(f"{method}: {self.name}='{value}' should be a {self.kind}") from None
        if base is str:
            return value
        return self._numbers(tuple(parse_value(part) for part in split_top_level(value, "|")), method)

    def _numbers(self, parts: tuple[Any, ...], method: str) -> tuple[Any, ...]:
        """Turn the parts into numbers where the parameter is a list of them."""
        if float not in _element_types(self.annotation):
            return parts
        try:
            numbers = tuple(float(part) for part in parts)
        except (TypeError, ValueError):
            raise OptionError(f"{method}: {self.name}='{'|'.join(map(str, parts))}' should be numbers") from None
        if not all(math.isfinite(number) for number in numbers):
            raise OptionError(f"{method}: {self.name} holds {numbers}; give finite numbers")
        return numbers


def _base_type(annotation: Any) -> Any:
    """Return int, float, bool, str or tuple for an annotation such as `int | None` or `tuple[str, ...]`."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    if typing.get_origin(annotation) is Literal:
        return str
    return typing.get_origin(annotation) or annotation


def _element_types(annotation: Any) -> tuple[Any, ...]:
    """Return the element types of `tuple[X, ...]` or `tuple[X, ...] | None`."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    return typing.get_args(annotation)


def _literal_values(annotation: Any) -> list[str]:
    return [str(choice) for choice in typing.get_args(annotation)] if typing.get_origin(annotation) is Literal else []


def read_parameters(function: Callable[..., Any], injected: Collection[str]) -> dict[str, Parameter]:
    """Read the parameters a user may give: keyword-only ones that are not filled in by the machinery."""
    hints = typing.get_type_hints(function)
    about = _parse_argument_docs(inspect.getdoc(function) or "")
    return {
        name: Parameter(name, hints.get(name, str), parameter.default, about.get(name, ""))
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in injected
    }


def _parse_argument_docs(doc: str) -> dict[str, str]:
    """Read `name: text` entries of a docstring's Args section."""
    found: dict[str, str] = {}
    name = None
    for line in doc.partition("Args:")[2].splitlines()[1:]:
        if not line.strip() or not line.startswith("    "):
            break
        if not line.startswith("        "):
            name, _, text = line.strip().partition(":")
            found[name] = text.strip()
        elif name:
            found[name] += " " + line.strip()
    return found


def require_known_parameters(method: str, known: Collection[str], given: Collection[str]) -> None:
    """Raise for the first parameter that the method lacks, with a suggestion and the list of those there are."""
    for name in given:
        if name not in known:
            raise ParameterUnknownError(method, name, known)


def suggest_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Answer a misspelt argument of a function that passes unknown ones on to a method as its parameters."""
    arguments = inspect.signature(function).parameters

    @wraps(function)
    def suggesting(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ParameterUnknownError as error:
            guess = closest(error.name, [*arguments, *error.known])
            if error.name not in kwargs or guess not in arguments:
                raise
            raise NameUnknownError(f"unknown argument '{error.name}'; did you mean '{guess}'? ({error})") from None

    return suggesting


def bind_parameters(method: str, known: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Check and convert what was given."""
    require_known_parameters(method, known, given)
    bound = {name: known[name].parse(value, method) for name, value in given.items()}
    for parameter in known.values():
        if parameter.default is inspect.Parameter.empty and parameter.name not in bound:
            raise OptionError(f"{method} needs the parameter '{parameter.name}': {parameter.about or parameter.kind}")
    return bound
