"""How verbs become commands of typer: strict parsing, everyday and full help, option groups, a default subcommand.

A parameter of a verb whose type is a dataclass stands for the options that are its fields (`expand_options`). Options
in a help panel of their own are rare: `--help` leaves them out, `--help-all` shows them. Hidden options are old
spellings: they work, and a note on standard error names the new one (`old_option`).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

DEFAULT = "run"  # the subcommand that `aliquot VERB` without a subcommand means
MIN_RARE = 3  # where fewer options are rare, `--help` shows them, too
_PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]*))?`")
_NEW_SPELLINGS: dict[str, str] = {}  # of hidden options, for messages
_OLD_SPELLINGS: dict[str, str] = {}  # those that the running command uses, and what to write instead
_RUNNING: list[Any] = []  # the command that runs: its parameters give the options' spelling


class Command(TyperCommand):
    """A command that refuses a second value for an option that takes one, and whose help shows everyday options."""

    siblings: Sequence[str] = ()  # subcommands beside a default one

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Make the context; a default subcommand is called like its verb."""
        if parent is not None and info_name == DEFAULT:
            group = parent.command
            self.siblings = _list_leaves(group)
            info_name, parent = parent.info_name, parent.parent
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as typer does, after counting how often each option is given."""
        set_running(self)
        _, _, order = self.make_parser(ctx).parse_args([argument for argument in args if argument != "--help-all"])
        for option, times in Counter(order).items():
            if isinstance(option, TyperOption) and times > 1 and not _may_repeat(option):
                several = f", as {option.opts[0]} {option.metavar}" if "," in (option.metavar or "") else ""
                ctx.fail(f"{'/'.join(option.opts)} is given {times} times and takes one value; give it once{several}")
        if "--help-all" in args:
            self.format_help(ctx, None, everything=True)
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any, *, everything: bool = False) -> None:
        """Print the help: everyday options, or all of them."""
        rare: list[Any] = [] if everything else [option for option in self.params if is_rare(option)]
        if len(rare) < MIN_RARE:
            rare = []
        for option in rare:
            option.hidden = True
        for option in self.params:
            if isinstance(option, TyperOption) and option.is_flag:
                option.metavar = ""  # a switch takes no value
        try:
            super().format_help(ctx, formatter)
        finally:
            for option in rare:
                option.hidden = False
        if self.siblings:
            typer.echo(f" Also: {', '.join(f'{ctx.command_path} {name}' for name in self.siblings)}\n")
        if rare:
            typer.echo(f" {len(rare)} more options: {ctx.command_path} --help-all\n")
        if everything and any(option.name == "all_rows" for option in self.params):
            typer.echo(" Long tables: --all-rows shows every row.\n")


def _list_leaves(group: Any) -> list[str]:
    """Return the visible commands of a group, those of groups in it behind their name."""
    names = []
    for name, command in group.commands.items():
        inner = _list_leaves(command) if hasattr(command, "commands") else [""]
        names += [f"{name} {leaf}".rstrip() for leaf in inner if not command.hidden]
    return names


def is_rare(option: Any) -> bool:
    """Return whether an option is shown by `--help-all` only."""
    return isinstance(option, TyperOption) and not option.hidden and option.rich_help_panel is not None


def _may_repeat(option: TyperOption) -> bool:
    """Return whether a second use adds a value, or says the same again."""
    return option.multiple or option.count or (option.is_flag and not option.secondary_opts)


class VerbGroup(TyperGroup):
    """A verb with subcommands; one that has a function `run` runs it where no subcommand is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default subcommand where the first argument names none."""
        if DEFAULT not in self.commands:
            args = ["--help"] if args[:1] in ([], ["--help-all"]) else args
        elif not args or (args[0] not in self.commands and (args[0].startswith("-") or self._takes_argument())):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def _takes_argument(self) -> bool:
        """Return whether the default subcommand takes more than options; if not, other words are misspelt names."""
        return any(parameter.param_type_name == "argument" for parameter in self.commands[DEFAULT].params)


def add_verb(app: typer.Typer, verb: typer.Typer, name: str, **settings: Any) -> None:
    """Add a verb with subcommands to an application."""
    _prepare_commands(verb)
    app.add_typer(verb, name=name, cls=VerbGroup, **settings)


def _prepare_commands(verb: typer.Typer) -> None:
    for info in verb.registered_commands:
        info.cls = Command
        if info.callback is not None:
            info.callback = expand_options(info.callback)
            info.hidden = info.hidden or command_name(info) == DEFAULT
    for group in verb.registered_groups:
        group.cls = VerbGroup
        if group.typer_instance is not None:
            _prepare_commands(group.typer_instance)


def list_subcommands(verb: typer.Typer) -> list[str]:
    """Return the subcommands of a verb, in order, those of a group behind its name; hidden ones are left out.

    >>> app, group = typer.Typer(), typer.Typer()
    >>> _ = app.command("new")(print), group.command("one")(print)
    >>> app.add_typer(group, name="study")
    >>> list_subcommands(app)
    ['new', 'study one']
    """
    names = [command_name(info) for info in verb.registered_commands if not info.hidden]
    for group in verb.registered_groups:
        if group.typer_instance is not None:
            names += [f"{group.name} {name}" for name in list_subcommands(group.typer_instance)]
    return [name for name in names if name != DEFAULT]


def command_name(info: Any) -> str:
    """Return the name of a registered command."""
    return str(info.name or info.callback.__name__.replace("_", "-"))


def old_option(*flags: str, new: str, **settings: Any) -> Any:
    """Return an option for an old spelling: hidden, and a note on standard error names the new one.

    Args:
        flags: The old spelling, such as "--wide".
        new: What to write instead, such as "--read wide=WHAT".
        settings: Further arguments of `typer.Option`.
    """
    _NEW_SPELLINGS[flags[0]] = new.partition("=")[0]

    def note(value: Any) -> Any:
        if value:
            note_spelling(flags[0], new)
        return value

    return typer.Option(*flags, hidden=True, callback=note, **settings)


def note_spelling(old: str, new: str) -> None:
    """Remember an old spelling; the note is printed when the command is done."""
    _OLD_SPELLINGS[old] = new


def print_old_spellings() -> None:
    """Print, on standard error, a note for each old spelling that the command used."""
    for old, new in _OLD_SPELLINGS.items():
        sys.stderr.write(f"note: {old} is now {new}\n")


# -- Option groups ---------------------------------------------------------------------------------------------------


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
    if hasattr(verb, "__signature__"):
        return verb  # already expanded
    hints = get_type_hints(verb, include_extras=True)
    parameters = inspect.signature(verb).parameters
    groups = {name: hints[name] for name in parameters if is_dataclass(hints[name])}
    if not groups:
        return verb
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


def hide_options(group: Any) -> Any:
    """Return an option group whose options work, and which no help shows."""
    hidden = []
    for name, hint in get_type_hints(group, include_extras=True).items():
        option = copy(hint.__metadata__[0])
        option.hidden = True
        hidden.append((name, Annotated[hint.__origin__, option], field(default=getattr(group, name))))
    return make_dataclass(f"Hidden{group.__name__}", hidden, bases=(group,), frozen=True)


# -- Messages of the library in the spelling of the command line ----------------------------------------------------


def set_running(command: Any) -> None:
    """Remember the command whose options `spell_options` names."""
    _RUNNING[:] = [command] if command is not None else []
    _OLD_SPELLINGS.clear()


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
        if parameter.hidden and flag in _NEW_SPELLINGS:
            return _NEW_SPELLINGS[flag] + ("" if value is None else f"={value}")
        if value is None or value == "True":
            return str(flag)
        if value == "False" and parameter.secondary_opts:
            return str(parameter.secondary_opts[0])
        return f"{flag} {value}"

    return _PARAMETER.sub(spell, text)
