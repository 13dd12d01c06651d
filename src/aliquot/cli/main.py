"""The frame of the command line: finds the verb, imports only that verb, and turns errors into one line each."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, TextIO

import typer
from typer.exceptions import TyperException

from aliquot._version import __version__
from aliquot.errors import AliquotError, AliquotWarning

VERBS = {
    "inspect": "What is in my data, and what can I do with it?",
    "plan": "How many judgments do I need? What will my budget buy?",
    "learn": "What do past campaigns teach about sources, before any output exists?",
    "select": "Which items should people judge?",
    "pool": "Which of millions of sources should be translated and judged?",
    "clean": "Which judgments should not count, and what does leaving them out change?",
    "agreement": "Do my annotators agree, and which of them can I trust?",
    "combine": "What do all the answers on an output come to?",
    "estimate": "How good is each system, who is really better, how sure are we?",
    "compare": "Which system do people prefer, and do the questions they answered make sense?",
    "datasheet": "Document the experiment for reviewers and for those who repeat it.",
    "simulate": "Would this have worked on my past data?",
    "metrics": "Can I trust the metric instead?",
    "methods": "What can choose items, what each needs and gives.",
    "convert": "Turn data from any format that can be read into another.",
    "synth": "Write a simulated campaign, to try things out.",
    "demo": "See the whole journey on simulated data in a minute.",
}
"""Every verb that works, in the order of the questions people ask; its code is `run` in cli/<verb>.py (with
subcommands: `app`)."""

_CTRL_C = 130  # typer turns the interrupt into this exit code, and says nothing
_INTRO = """Human evaluation of generated text on a budget.

aliquot tells you which items people should judge, and turns the judgments you can afford into scores, rankings and
honest error bars for the whole test set.

Example: aliquot inspect data.jsonl
"""


def build(verb: str | None) -> typer.Typer:
    """Build the application with `verb` for real and the others as names with one line of help.

    Importing the numeric libraries takes longer than answering --help; so only the verb that runs is imported.
    """
    app = typer.Typer(
        name="aliquot", help=_INTRO, no_args_is_help=True, add_completion=False, rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    app.callback()(_global_options)
    for name, summary in VERBS.items():
        _add(app, name, summary, real=name == verb)
    return app


def _add(app: typer.Typer, name: str, summary: str, *, real: bool) -> None:
    below = _subcommand_app(name) if real else None
    if below is not None:
        app.add_typer(below, name=name, short_help=summary)
    else:
        app.command(name, short_help=summary)(_real(name) if real else _stub(summary))


def _real(name: str) -> Callable[..., Any]:
    run: Callable[..., Any] = import_module(f"aliquot.cli.{name}").run
    return run


def _subcommand_app(name: str) -> typer.Typer | None:
    below: typer.Typer | None = getattr(import_module(f"aliquot.cli.{name}"), "app", None)
    return below


def subcommands(verb: str) -> list[str]:
    """Return the subcommands of a verb, in order; none for a verb that is one command."""
    below = _subcommand_app(verb)
    if below is None:
        return []
    infos = below.registered_commands
    return [info.name or info.callback.__name__ for info in infos if info.callback is not None]


def _stub(summary: str) -> Callable[[], None]:
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
) -> None:
    del version  # handled by its callback


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code: 0 success, 1 failure, 2 bad input or usage."""
    arguments = arguments or ["--help"]
    verb = next((argument for argument in arguments if not argument.startswith("-")), None)
    with warnings.catch_warnings():
        warnings.simplefilter("always", AliquotWarning)
        warnings.showwarning = _show_warning
        try:
            command = typer.main.get_command(build(verb))
            code = command.main(args=list(arguments), prog_name="aliquot", standalone_mode=False)
        except AliquotError as error:
            return _complain(str(error), error.exit_code)
        except TyperException as error:
            context = getattr(error, "ctx", None)  # knows the subcommand, too
            where = context.command_path if context is not None else f"aliquot {verb}" if verb in VERBS else "aliquot"
            return _complain(f"{error.format_message()} (see `{where} --help`)", error.exit_code)
        except (KeyboardInterrupt, typer.Abort):
            return _complain("interrupted; nothing was written", 1)
        except BrokenPipeError:
            sys.stderr.close()  # the reader (head, less) went away: nothing to say
            return 1
        except OSError as error:
            return _complain(f"{error.filename or 'file'}: {error.strerror or error}", 1)
    if code == _CTRL_C:
        return _complain("interrupted; nothing was written", 1)
    return int(code or 0)


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    return code


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, AliquotWarning):
        sys.stderr.write(f"note: {message}\n")
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        (file or sys.stderr).write(text)


def main() -> None:
    """Entry point of the `aliquot` command."""
    sys.exit(run(sys.argv[1:]))
