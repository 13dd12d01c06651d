"""How options reach a verb: groups of options are dataclasses, and messages of the library get the options' spelling.

A parameter of a verb whose type is a dataclass stands for the options that are its fields; `expand_options` puts them
into the verb's signature for typer and hands the verb the filled dataclass. Options in a help panel of their own are
rare: `--help` leaves them out, `--help-all` shows them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

_PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]*))?`")
_RUNNING: list[Any] = []  # the command that runs: its parameters give the options' spelling


def expand_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a dataclass by the options that are its fields.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Output:
    ...     json: bool = False
    >>> def run(data: str, output: Output, seed: int = 0): print(data, output, seed)
    >>> expanded = expand_options(run)
    >>> list(inspect.signature(expanded).parameters)
    ['data', 'seed', 'json']
    >>> expanded(data="a", seed=1, json=True)
    a Output(json=True) 1
    """
    hints = get_type_hints(verb, include_extras=True)
    parameters = inspect.signature(verb).parameters
    groups = {name: hints[name] for name in parameters if is_dataclass(hints[name])}
    own = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in parameters.items()
        if name not in groups
    ]
    options = [option for group in groups.values() for option in _options_of(group)]

    def command(**values: Any) -> None:
        filled = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group) if field.name in values})
            for name, group in groups.items()
        }
        verb(**values, **filled)

    command.__doc__, command.__name__ = verb.__doc__, verb.__name__
    command.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    return command


def _options_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(group)
    ]


def set_running(command: Any) -> None:
    """Remember the command whose options `spell_options` names."""
    _RUNNING[:] = [command] if command is not None else []


def spell_options(text: str) -> str:
    """Replace parameters in backticks by the options of the running command: `seed` becomes --seed.

    >>> spell_options("`replays` is 1; give 2 or more")
    'replays is 1; give 2 or more'
    """
    spelling = {parameter.name: parameter for command in _RUNNING for parameter in command.params}

    def spell(match: re.Match[str]) -> str:
        name, value = match.groups()
        parameter = spelling.get(name)
        if parameter is None:
            return match[0].strip("`")
        if parameter.param_type_name == "argument":
            return str(parameter.human_readable_name)
        flag = next((option for option in parameter.opts if option.startswith("--")), parameter.opts[0])
        if value is None or value == "True":
            return str(flag)
        if value == "False" and parameter.secondary_opts:
            return str(parameter.secondary_opts[0])
        return f"{flag} {value}"

    return _PARAMETER.sub(spell, text)
