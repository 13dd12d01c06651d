"""The frame of the command line: finds the verb, imports only that verb, and turns errors into one line each."""

from __future__ import annotations

import codecs
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from traceback import walk_tb
from typing import Annotated, Any, TextIO

import typer
from typer.exceptions import TyperException

from aliquot._version import __version__
from aliquot.cli import ALL_ROWS, NOTES
from aliquot.cli.commands import (
    Command,
    add_verb,
    expand_options,
    list_subcommands,
    note_spelling,
    print_old_spellings,
    set_running,
    spell_options,
)
from aliquot.core import escape
from aliquot.errors import AliquotError, AliquotWarning, FormatError, OperationError
from aliquot.io.overwrite import protect_inputs

VERBS = {
    "inspect": "What is in my data, and what can I do with it?",
    "demo": "See the whole journey on simulated data in a minute.",
    "select": "Which items should people judge?",
    "collect": "Let people judge, in a browser or on a sheet.",
    "estimate": "How good is each system, who is really better, how sure are we?",
    "report": "Show it to my boss, my reviewers, myself: one page with everything.",
    "plan": "How many judgments do I need? What will my budget buy?",
    "simulate": "Would this have worked on my past data?",
    "next": "What should people judge next, given what they judged so far?",
    "agreement": "Do my annotators agree, and which of them can I trust?",
    "clean": "Which judgments should not count, and what does leaving them out change?",
    "metrics": "Can I trust the metric instead?",
    "combine": "What do all the answers on an output come to?",
    "compare": "Which system do people prefer?",
    "convert": "Turn data from any format that can be read into another.",
    "datasheet": "Document the experiment for reviewers and for those who repeat it.",
    "learn": "What do past campaigns teach about sources, before any output exists?",
    "methods": "What can choose items, what each needs and gives.",
    "survey": "Do the questions that people answered make sense?",
    "pool": "Which of millions of sources should be translated and judged?",
}
"""Every verb that works; its code is `run` in cli/<verb>.py, or `app` where it has subcommands."""

PANELS = {
    "Start": ("inspect", "demo"),
    "The usual way": ("select", "collect", "estimate", "report"),
    "Plan": ("plan", "simulate", "next"),
    "Check": ("agreement", "clean", "metrics"),
}
"""The verbs that `aliquot --help` describes; it only names the others."""

SYNONYMS = {
    "annotate": "collect",
    "elo": "compare",
    "iaa": "agreement",
    "kappa": "agreement",
    "merge": "combine",
    "power": "plan power",
    "ppi": "estimate",
    "rank": "estimate",
    "sample": "select",
    "score": "metrics",
    "serve": "collect serve",
    "significance": "estimate",
}
"""What newcomers may type, and the command that they mean."""

FORMER_COMMANDS = {
    "synth": "demo synth",
    "examples": "demo examples",
    "simulate --by-annotator": "simulate study by-annotator",
    "simulate --by-metric": "simulate study by-metric",
    "simulate --protocols": "simulate study protocols",
}
"""Former names of commands: they work, and a note on standard error says the present one."""

DEBUG = "--debug"
_CTRL_C = 130  # typer turns the interrupt into this exit code, and says nothing
_INTRO = """Human evaluation of generated text on a budget.

aliquot tells you which items people should judge, and turns the judgments you can afford into scores, rankings and
honest error bars for the whole test set.

Example: aliquot inspect data.jsonl
"""


def build_app(verb: str | None) -> typer.Typer:
    """Build the application with `verb` for real and the others as names with one line of help.

    Importing the numeric libraries takes longer than answering --help; so only the verb that runs is imported.
    """
    more = sorted(name for name in VERBS if not any(name in names for names in PANELS.values()))
    app = typer.Typer(
        name="aliquot",
        help=_INTRO,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(epilog=f"More: {', '.join(more)}")(_global_options)
    for name, summary in VERBS.items():
        panel = next((panel for panel, names in PANELS.items() if name in names), None)
        settings: dict[str, Any] = {"short_help": summary, "rich_help_panel": panel, "hidden": name in more}
        app_of_verb = _subcommand_app(name) if name == verb else None
        if app_of_verb is not None:
            add_verb(app, app_of_verb, name, **settings)
        else:
            run_verb = expand_options(_load_verb(name)) if name == verb else _make_stub(summary)
            app.command(name, cls=Command, **settings)(run_verb)
    return app


def _load_verb(name: str) -> Callable[..., Any]:
    run: Callable[..., Any] = import_module(f"aliquot.cli.{name}").run
    return run


def _subcommand_app(name: str) -> typer.Typer | None:
    below: typer.Typer | None = getattr(import_module(f"aliquot.cli.{name}"), "app", None)
    return below


def subcommands(verb: str) -> list[str]:
    """Return the subcommands of a verb, in order; none for a verb that is one command."""
    app = _subcommand_app(verb)
    return [] if app is None else list_subcommands(app)


def _make_stub(summary: str) -> Callable[[], None]:
    def stub() -> None: ...

    stub.__doc__ = summary
    return stub


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"aliquot {__version__}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show where aliquot fails, if it does.")] = False,
) -> None:
    del version, debug  # the one is handled by its callback, the other by `run`


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code: 0 success, 1 failure, 2 bad input or usage."""
    debug = DEBUG in arguments
    arguments = [argument for argument in arguments if argument != DEBUG] or ["--help"]
    if arguments[0] in ("--help-all", "help"):
        arguments = ["--help"]
    _let_any_name_be_printed()
    verb = next((argument for argument in arguments if not argument.startswith("-")), None)
    if verb in SYNONYMS:
        return _print_error(f"unknown command '{verb}'; did you mean `aliquot {SYNONYMS[verb]}`?", 2)
    arguments, former = _replace_former_command(arguments, verb)
    verb = arguments[0] if former else verb
    NOTES.clear()
    set_running(None)
    ALL_ROWS.clear()
    with warnings.catch_warnings(), protect_inputs():
        warnings.simplefilter("always", AliquotWarning)
        warnings.showwarning = _show_warning
        try:
            command = typer.main.get_command(build_app(verb))
            code = command.main(args=list(arguments), prog_name="aliquot", standalone_mode=False)
        except AliquotError as error:
            text = spell_options(str(error)) + _propose_command(error, arguments)
            return _print_error(text, 1 if isinstance(error, OperationError) else 2)
        except TyperException as error:
            context = getattr(error, "ctx", None)  # knows the subcommand, too
            where = context.command_path if context is not None else f"aliquot {verb}" if verb in VERBS else "aliquot"
            message = error.format_message().replace(": Value error, ", ": ")  # typer's own
            return _print_error(f"{message} (see `{where} --help`)", error.exit_code)
        except (KeyboardInterrupt, typer.Abort):
            return _print_error("interrupted; nothing was written", 1)
        except BrokenPipeError:
            sys.stderr.close()  # the reader (head, less) went away: nothing to say
            return 1
        except OSError as error:
            return _print_error(_system_fault(error, verb), 1)
        except MemoryError:
            return _print_error(
                "there is not enough memory for this; use a part of the data, fewer --jobs or a bigger machine", 1
            )
        except BaseException as error:  # panics of Polars are no Exceptions, and nothing may pass this line
            if isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError):
                return 1  # printing a long --help, typer itself exits when the reader goes away
            if debug:
                raise
            return _own_fault(error)
    if code == _CTRL_C:
        return _print_error("interrupted; nothing was written", 1)
    if former is not None:
        note_spelling(f"aliquot {former}", f"aliquot {FORMER_COMMANDS[former]}")
    print_old_spellings()
    return int(code or 0)


def _replace_former_command(arguments: list[str], verb: str | None) -> tuple[list[str], str | None]:
    """Return the arguments with the present name of their command, and its former name if they use it."""
    for former, present in FORMER_COMMANDS.items():
        words = former.split()
        if words[0] == verb and all(word in arguments for word in words):
            rest = list(arguments)
            for word in words:
                rest.remove(word)
            return [*present.split(), *rest], former
    return arguments, None


def _print_error(message: str, code: int) -> int:
    sys.stderr.write(f"error: {escape.terminal(escape.one_line(message))}\n")
    return code


def _propose_command(error: AliquotError, arguments: Sequence[str]) -> str:
    """Return the end of a message: the command again with the options that the error proposes, or another command."""
    words = error.proposal if isinstance(error, FormatError) else ()
    command = words if words[:1] == ("aliquot",) else ("aliquot", *arguments, *words)
    return f"; try: {shlex.join(command)}" if words else ""


def _system_fault(error: OSError, verb: str | None) -> str:
    """Name the file that the system refused; where the error has none, what was being done."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        return f"{error.filename}: {reason}"
    try:
        Path.cwd()
    except FileNotFoundError:
        return f"the working folder was deleted ({reason}); go to another folder (cd), and name files by whole paths"
    names = [
        frame.f_globals.get("__name__", "") + "." + frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)
    ]
    step = next((name for name in reversed(names) if name.startswith("aliquot.")), "aliquot")
    return (
        f"aliquot {verb}: {reason}, without the name of a file (in {step}); was something deleted or unplugged "
        f"meanwhile? Give the command again; {DEBUG} after aliquot shows more"
    )


def _own_fault(error: BaseException) -> int:
    """Say in one line that aliquot itself failed; a test proves that no mistake of a user ends here."""
    what = f"{type(error).__name__}: {escape.one_line(str(error))[:300]}".rstrip(": ")
    return _print_error(
        f"aliquot {__version__} failed ({what}); this is a fault of aliquot, not yours: please report the "
        f"command and this line; {DEBUG} shows where it happened",
        1,
    )


_ASCII = {
    "±": "+-",
    "·": ".",
    "─": "-",
    "●": "o",
    "█": "#",
    "▓": "#",
    "▒": "+",
    "░": ".",
    "•": "*",
    "…": "...",
    "⋮": ":",
}


def _let_any_name_be_printed() -> None:
    """Print what the terminal's encoding (cp1252) lacks in another way, instead of failing at it."""
    codecs.register_error("aliquot", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="aliquot")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_ASCII.get(letter, ascii(letter)[1:-1]) for letter in missing), error.end


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, AliquotWarning):
        text = spell_options(str(message))
        NOTES.append(text)
        sys.stderr.write(f"note: {escape.terminal(text)}\n")
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        (file or sys.stderr).write(text)


def main() -> None:
    """Entry point of the `aliquot` command."""
    sys.exit(run(sys.argv[1:]))
