"""The one grammar in which a method is named: `name`, `name:key=value,key=value`, and `+` to join an estimator.

Values that are lists use `|` (`metrics=COMET|BLEURT-20`); parentheses protect a spec inside a value
(`mixture:methods=(diversity:similarity=bleu)|metric_var`). A value that holds these characters for itself, such as a
metric called "a,b", is put into parentheses too, or, if its own do not match, percent-encoded.
"""

from __future__ import annotations

import inspect
import math
import operator
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import accumulate
from types import MappingProxyType
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar
from urllib.parse import quote, unquote

from aliquot.errors import NameUnknownError, OptionError, ParameterUnknownError, closest

P = ParamSpec("P")
R = TypeVar("R")
_DEPTH_CHANGE = {")": -1, "(": 1}
_SPECIAL_CHARACTERS = set(",|+()%")


class SpecText(str):
    """A parameter's value as text in the grammar of specs, to be parsed once its type is known."""

    __slots__ = ()


@dataclass(frozen=True)
class Spec:
    """A method's name and its parameters: Python values, or text as it was typed (`SpecText`).

    >>> str(Spec("greg", {"metrics": ["A", "B,C"], "ridge": 0.5}))
    'greg:metrics=A|(B,C),ridge=0.5'
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __str__(self) -> str:
        pairs = (f"{key}={format_value(value)}" for key, value in self.parameters.items())
        return f"{self.name}:{','.join(pairs)}" if self.parameters else self.name

    def with_parameters(self, parameters: Mapping[str, Any]) -> Spec:
        """Return the spec with further parameters, which win over its own; None means that one is not given.

        >>> str(parse_spec("greg:metrics=A|B,ridge=1").with_parameters({"ridge": 2, "metrics": None, "name": "a,b"}))
        'greg:metrics=A|B,ridge=2,name=(a,b)'
        """
        overrides = {name: value for name, value in parameters.items() if value is not None}
        return Spec(self.name, {**self.parameters, **overrides})


def parse_spec(text: str, kind: str = "method") -> Spec:
    """Parse the text of one method; the values stay text (`SpecText`) until the method's parameters are known.

    Errors call the text by `kind`: "method", or "format" for a format with options.

    >>> parse_spec("pps:size=difficulty,tau=0.5").parameters["tau"]
    '0.5'
    """
    name, _, arguments = text.strip().partition(":")
    if not name.strip():
        raise OptionError(f"{kind} '{text}': a name is missing; write NAME or NAME:key=value,key=value")
    parameters: dict[str, SpecText] = {}
    for part in split_top_level(arguments, ",") if arguments.strip() else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise OptionError(f"{kind} '{text}': '{part}' is not key=value; write NAME:key=value,key=value")
        if key in parameters:
            raise OptionError(f"{kind} '{text}': the parameter '{key}' is given twice")
        parameters[key] = SpecText(value)
    return Spec(name.strip(), parameters)


def parse_chain(text: str) -> list[Spec]:
    """Parse methods joined by `+`.

    >>> [str(spec) for spec in parse_chain("pps:tau=0.5+greg:metrics=COMET|BLEURT-20")]
    ['pps:tau=0.5', 'greg:metrics=COMET|BLEURT-20']
    """
    return [parse_spec(part) for part in split_top_level(text, "+")]


def split_names(names: str | Iterable[str]) -> list[str]:
    """Return the names of a list, or of a text with commas between them.

    >>> split_names("spa, mae"), split_names(["spa"])
    (['spa', 'mae'], ['spa'])
    """
    return [name.strip() for name in (names.split(",") if isinstance(names, str) else names) if name.strip()]


def split_known_names(names: str | Iterable[str], known: Collection[str]) -> list[str]:
    """Return the names of a list, or of a text with commas between them; known names may hold commas themselves.

    >>> split_known_names("exact_match,digits, BLEU", ["exact_match,digits", "BLEU"])
    ['exact_match,digits', 'BLEU']
    """
    if not isinstance(names, str):
        return split_names(names)
    parts, result = names.split(","), list[str]()
    while parts:
        sizes = range(len(parts), 1, -1)
        size = next((size for size in sizes if ",".join(parts[:size]).strip() in known), 1)
        result.append(",".join(parts[:size]).strip())
        del parts[:size]
    return [name for name in result if name]


def split_specs(text: str) -> list[str]:
    """Split at the commas between methods, not at those inside one: key=value belongs to the method before it.

    >>> split_specs("random, pps:size=error,tau=0.1+greg,metric_var")
    ['random', 'pps:size=error,tau=0.1+greg', 'metric_var']
    """
    specs: list[str] = []
    for part in split_top_level(text, ","):
        piece = part.strip()
        if specs and "=" in piece.split(":")[0].split("+")[0]:
            specs[-1] += f",{piece}"
        elif piece:
            specs.append(piece)
    return specs


def split_top_level(text: str, separator: str) -> list[str]:
    """Split at a separator that stands outside parentheses.

    >>> split_top_level("a,(b,c),d", ",")
    ['a', '(b,c)', 'd']
    """
    if not _is_balanced(text):
        raise OptionError(f"'{text}': parentheses do not match")
    parts, depth = [""], 0
    for character in text:
        depth += _DEPTH_CHANGE.get(character, 0)
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def format_value(value: object) -> str:
    """Write a parameter's value so that `parse_value` gives it back; lists are joined by `|`.

    >>> format_value("COMET"), format_value(["a,b", "c"]), format_value("chrF (2")
    ('COMET', '(a,b)|c', 'chrF%20%282')
    """
    if isinstance(value, list | tuple):
        return "|".join(map(format_value, value))
    text = str(value)
    if isinstance(value, SpecText) or (not _SPECIAL_CHARACTERS & set(text) and text == text.strip()):
        return text
    return f"({text})" if _is_balanced(text) and "%" not in text else quote(text, safe=":=")


def _is_balanced(text: str) -> bool:
    depths = list(accumulate(_DEPTH_CHANGE.get(character, 0) for character in text))
    return not depths or (min(depths) >= 0 and depths[-1] == 0)


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


# -- Registered functions and their parameters, read off signatures: names, types, defaults, descriptions ------------


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

    def bind(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the user's values, checked and converted to the parameters' types."""
        return bind_parameters(self.name, self.parameters, values)


_BOOLEANS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


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
        if self.choices:
            return "|".join(self.choices)
        words = {int: "whole number", float: "number", bool: "yes or no", str: "name"}
        return words.get(self.base_type, "names joined by |")

    @cached_property
    def base_type(self) -> Any:
        """`int`, `float`, `bool`, `str` or `tuple`, also of an annotation such as `tuple[str, ...] | None`."""
        annotation = _strip_optional(self.annotation)
        origin = typing.get_origin(annotation)
        return str if origin is Literal else origin or annotation

    @property
    def choices(self) -> list[str]:
        """The values of a `Literal`; empty for other types."""
        is_literal = typing.get_origin(self.annotation) is Literal
        return [str(choice) for choice in typing.get_args(self.annotation)] if is_literal else []

    @property
    def is_list(self) -> bool:
        """Whether it takes several values joined by |."""
        return self.base_type is tuple

    def parse_text(self, text: str, method: str) -> Any:
        """Parse text in the grammar of specs."""
        if self.is_list:
            return self.convert_value([parse_value(part) for part in split_top_level(text, "|")], method)
        return self.convert_value(parse_value(text), method)

    def convert_value(self, value: Any, method: str) -> Any:
        """Return a Python value as the parameter's type, numbers and booleans also of their texts."""
        kind = self.base_type
        if value is None:
            return None
        if kind is tuple:
            return self._convert_list((value,) if isinstance(value, str) else tuple(value), method)
        if isinstance(value, list | tuple) and kind is str:
            value = format_value(value)
        if self.choices and value not in self.choices:
            raise OptionError(f"{method}: {self.name}='{value}' is not known; choose {' or '.join(self.choices)}")
        try:
            if kind is bool:
                return _BOOLEANS[str(value).lower()]
            if kind in (int, float) and isinstance(value, bool):
                raise TypeError  # noqa: TRY301  (True is a number to Python)
            if kind is int:
                return int(value) if isinstance(value, str) else operator.index(value)
            return float(value) if kind is float else value
        except (TypeError, ValueError, KeyError):
            raise OptionError(f"{method}: {self.name}='{value}' should be a {self.kind}") from None

    def _convert_list(self, parts: tuple[Any, ...], method: str) -> tuple[Any, ...]:
        """Convert the parts to numbers where the parameter is a list of them."""
        if float not in typing.get_args(_strip_optional(self.annotation)):
            return parts
        try:
            numbers = tuple(float(part) for part in parts)
        except (TypeError, ValueError):
            raise OptionError(f"{method}: {self.name}='{'|'.join(map(str, parts))}' should be numbers") from None
        if not all(math.isfinite(number) for number in numbers):
            raise OptionError(f"{method}: {self.name} holds {numbers}; give finite numbers")
        return numbers


def _strip_optional(annotation: Any) -> Any:
    """Return `X` for `X | None`."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return next(part for part in typing.get_args(annotation) if part is not type(None))
    return annotation


def read_parameters(function: Callable[..., Any], injected: Collection[str]) -> dict[str, Parameter]:
    """Read the parameters a user may give off a signature: keyword-only ones that are not `injected`."""
    hints = typing.get_type_hints(function)
    about = _parse_argument_docs(inspect.getdoc(function) or "")
    return {
        name: Parameter(name, hints.get(name, str), parameter.default, about.get(name, ""))
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in injected
    }


def _parse_argument_docs(doc: str) -> dict[str, str]:
    """Parse the `name: text` entries of a docstring's Args section."""
    entries: dict[str, str] = {}
    name = None
    for line in doc.partition("Args:")[2].splitlines()[1:]:
        if not line.strip() or not line.startswith("    "):
            break
        if not line.startswith("        "):
            name, _, text = line.strip().partition(":")
            entries[name] = text.strip()
        elif name:
            entries[name] += " " + line.strip()
    return entries


def require_known_parameters(method: str, accepted: Collection[str], names: Collection[str]) -> None:
    """Raise ParameterUnknownError for the first name that the method does not take."""
    for name in names:
        if name not in accepted:
            raise ParameterUnknownError(method, name, accepted)


def suggest_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that passes unknown arguments on to a method: suggest its own arguments, too."""
    arguments = inspect.signature(function).parameters

    @wraps(function)
    def call_with_suggestion(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ParameterUnknownError as error:
            guess = closest(error.name, [*arguments, *error.known])
            if error.name not in kwargs or guess not in arguments:
                raise
            raise NameUnknownError(f"unknown argument '{error.name}'; did you mean '{guess}'? ({error})") from None

    return call_with_suggestion


def bind_parameters(method: str, parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, checked and converted to the types of the method's parameters.

    Raises:
        ParameterUnknownError: The method has no parameter of that name.
        OptionError: A value does not fit its type, or a parameter without a default is missing.
    """
    require_known_parameters(method, parameters, values)
    bound = {
        name: (parameters[name].parse_text if isinstance(value, SpecText) else parameters[name].convert_value)(
            value, method
        )
        for name, value in values.items()
    }
    for parameter in parameters.values():
        if parameter.default is inspect.Parameter.empty and parameter.name not in bound:
            raise OptionError(f"{method} needs the parameter '{parameter.name}': {parameter.about or parameter.kind}")
    return bound
