"""Exceptions and warnings.

Every message states what is wrong, where, the value, and what to do. Messages name parameters in backticks, by their
Python names; the command line prints its option instead (`cli.main.spell_options`). Exit codes belong to `cli` alone.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Collection, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


class AliquotError(Exception):
    """Base class of aliquot's errors."""


class DataError(AliquotError, ValueError):
    """The data are not valid or do not fit together."""


class FormatError(DataError):
    """A file cannot be read as the format it claims or looks to be.

    Attributes:
        proposal: Command line options with which it can be read, or the words of another command that reads it.
    """

    proposal: tuple[str, ...] = ()


class DamagedError(FormatError):
    """A file of ours differs from what was written to it."""


class MissingColumnError(FormatError):
    """A table lacks the column that plays `role`."""

    def __init__(self, message: str, role: str = "") -> None:
        super().__init__(message)
        self.role = role


class NotNumericError(FormatError):
    """A `column` that should hold numbers holds something else, perhaps labels."""

    def __init__(self, message: str, column: str = "") -> None:
        super().__init__(message)
        self.column = column


class NameUnknownError(AliquotError, ValueError):
    """A system, score, column, method or parameter that does not exist."""


class OptionError(AliquotError, ValueError):
    """An argument outside what is allowed, or arguments that exclude each other.

    Attributes:
        parameter: The name of the argument, where it is one.
    """

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class MissingExtraError(AliquotError):
    """A feature that needs an optional dependency which is not installed."""


class OperationError(AliquotError):
    """A valid request failed; what was there before is intact."""


class OutputError(OperationError):
    """A result could not be written; what was there before is intact."""


class WorkerError(OperationError):
    """A process or a machine of a cluster died at its work; nothing half-written is left."""


class DownloadError(OperationError):
    """Data could not be fetched; the cache holds nothing half-written."""


def quoted(names: Iterable[object], limit: int = 12) -> str:
    """List names for a message, cut to `limit`.

    >>> quoted(["a", "b"])
    "'a', 'b'"
    """
    texts = [str(name) for name in names]
    listed = ", ".join(f"'{name}'" for name in texts[:limit])
    return listed if len(texts) <= limit else f"{listed} and {len(texts) - limit} more"


def closest(name: str, options: Iterable[object]) -> str | None:
    """Return the option most like `name`, ignoring case; None if none is close.

    >>> closest("comet", ["COMET", "BLEU"])
    'COMET'
    """
    by_folded = {str(candidate).casefold(): str(candidate) for candidate in options}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else None


def unknown_name(kind: str, name: object, options: Iterable[object], remedy: str = "") -> NameUnknownError:
    """Build the error for an unknown name, with the closest available one.

    >>> print(unknown_name("metric", "comet", ["COMET", "BLEU"]))
    unknown metric 'comet'; did you mean 'COMET'? Available: 'COMET', 'BLEU'
    """
    available_names = [str(candidate) for candidate in options]
    guess = closest(str(name), available_names)
    hint = f"; did you mean '{guess}'?" if guess else "."
    available = f"Available: {quoted(available_names)}" if available_names else "None is available"
    return NameUnknownError(f"unknown {kind} '{name}'{hint} {available}" + (f"; {remedy}" if remedy else ""))


class AliquotWarning(UserWarning):
    """A note on the data that stops nothing: flipped scores, ignored columns, biased means."""


class LeftOutWarning(AliquotWarning):
    """Judgments that were left out."""


def warn_caller(message: str, category: type[AliquotWarning] = AliquotWarning) -> None:
    """Issue a warning at the line of the user's program that called aliquot."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, level)


# -- Optional libraries: imported where they are used, and named with their remedy where they are absent -------------


def import_extra(module: str, extra: str, what: str, instead: str = "") -> Any:
    """Import a module of an extra; raise MissingExtraError if it is not installed.

    Args:
        module: The module, such as "evalica" or "rapidfuzz.process".
        extra: The extra that brings it.
        what: What cannot be done without it.
        instead: What one may do otherwise.

    Raises:
        MissingExtraError: The library is not installed.

    Example:
        >>> import_extra("no_such_library", "judge", "ranking")
        Traceback (most recent call last):
            ...
        aliquot.errors.MissingExtraError: ranking needs no_such_library: pip install 'aliquot[judge]'
    """
    library = module.split(".", maxsplit=1)[0]
    if find_spec(library) is None:
        remedy = f", or {instead}" if instead else ""
        raise MissingExtraError(f"{what} needs {library}: pip install 'aliquot[{extra}]'{remedy}")
    return import_module(module)


def judge_extra(module: str, what: str, instead: str = "") -> Any:
    """Import a module of the extra `judge`; raise MissingExtraError if it is not installed."""
    return import_extra(module, "judge", what, instead)


class ParameterUnknownError(NameUnknownError):
    """A parameter `name` that a method lacks; it has those `known`."""

    def __init__(self, method: str, name: str, known: Collection[str]) -> None:
        guess = closest(name, known)
        hint = f" did you mean '{guess}'?" if guess else ""
        available = f"it has {quoted(known)}" if known else "it has none"
        super().__init__(f"{method}: no parameter '{name}';{hint} {available}")
        self.name, self.known = name, tuple(known)
