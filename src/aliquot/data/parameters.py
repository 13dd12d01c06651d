"""Registered functions and their parameters, read off signatures: names, types, defaults, and what to type for them."""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from aliquot.data.spec import read_value, split_outside
from aliquot.errors import NameUnknownError, OptionError, closest, quoted


@dataclass(frozen=True)
class Registered:
    """A function under a name; its keyword-only arguments are the user's parameters, but for those `INJECTED`."""

    name: str
    function: Callable[..., Any]

    INJECTED: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters a user may give."""
        return parameters_of(self.function, self.INJECTED)

    @property
    def summary(self) -> str:
        """The first line of the function's documentation."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def bound(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the user gave, checked and converted."""
        return bind(self.name, self.parameters, given)


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
        choices = _choices(self.annotation)
        if choices:
            return "|".join(choices)
        base = _base(self.annotation)
        return {int: "whole number", float: "number", bool: "yes or no", str: "name"}.get(base, "names joined by |")

    @property
    def is_list(self) -> bool:
        """Whether it takes several values joined by |."""
        return _base(self.annotation) is tuple

    def parse(self, value: Any, method: str) -> Any:
        """Turn what was written into the parameter's type; Python values of the right type pass unchanged."""
        base, choices = _base(self.annotation), _choices(self.annotation)
        if not isinstance(value, str):
            return value if base is not tuple else self._numbers(tuple(value), method)
        if base is not tuple:
            value = read_value(value)
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
        return self._numbers(tuple(read_value(part) for part in split_outside(value, "|")), method)

    def _numbers(self, parts: tuple[Any, ...], method: str) -> tuple[Any, ...]:
        """Turn the parts into numbers where the parameter is a list of them."""
        if float not in _elements(self.annotation):
            return parts
        try:
            numbers = tuple(float(part) for part in parts)
        except (TypeError, ValueError):
            raise OptionError(f"{method}: {self.name}='{'|'.join(map(str, parts))}' should be numbers") from None
        if not all(math.isfinite(number) for number in numbers):
            raise OptionError(f"{method}: {self.name} holds {numbers}; give finite numbers")
        return numbers


def _base(annotation: Any) -> Any:
    """Return int, float, bool, str or tuple for an annotation such as `int | None` or `tuple[str, ...]`."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    if typing.get_origin(annotation) is Literal:
        return str
    return typing.get_origin(annotation) or annotation


def _elements(annotation: Any) -> tuple[Any, ...]:
    """Return the element types of `tuple[X, ...]` or `tuple[X, ...] | None`."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    return typing.get_args(annotation)


def _choices(annotation: Any) -> list[str]:
    return [str(choice) for choice in typing.get_args(annotation)] if typing.get_origin(annotation) is Literal else []


def parameters_of(function: Callable[..., Any], injected: Collection[str]) -> dict[str, Parameter]:
    """Read the parameters a user may give: keyword-only ones that are not filled in by the machinery."""
    hints = typing.get_type_hints(function)
    about = _descriptions(inspect.getdoc(function) or "")
    return {
        name: Parameter(name, hints.get(name, str), parameter.default, about.get(name, ""))
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in injected
    }


def _descriptions(doc: str) -> dict[str, str]:
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


def bind(method: str, known: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Check and convert what was given; an unknown parameter gets a suggestion and the list of those there are."""
    for name in given:
        if name not in known:
            guess = closest(name, known)
            hint = f" did you mean '{guess}'?" if guess else ""
            there = f"it has {quoted(known)}" if known else "it has none"
            raise NameUnknownError(f"{method}: no parameter '{name}';{hint} {there}")
    bound = {name: known[name].parse(value, method) for name, value in given.items()}
    for parameter in known.values():
        if parameter.default is inspect.Parameter.empty and parameter.name not in bound:
            raise OptionError(f"{method} needs the parameter '{parameter.name}': {parameter.about or parameter.kind}")
    return bound
