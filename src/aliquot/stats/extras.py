"""Optional libraries: imported where they are used, and named with their remedy where they are absent."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from aliquot.errors import MissingExtraError


def judge_extra(module: str, what: str, instead: str = "") -> Any:
    """Import a module of the extra `judge`, or say what needs it and how to get it.

    Args:
        module: The module, such as "evalica" or "rapidfuzz.process".
        what: What cannot be done without it.
        instead: What one may do otherwise.

    Raises:
        MissingExtraError: The library is not installed.

    Example:
        >>> judge_extra("no_such_library", "ranking")
        Traceback (most recent call last):
            ...
        aliquot.errors.MissingExtraError: ranking needs no_such_library: pip install 'aliquot[judge]'
    """
    library = module.split(".", maxsplit=1)[0]
    if find_spec(library) is None:
        remedy = f", or {instead}" if instead else ""
        raise MissingExtraError(f"{what} needs {library}: pip install 'aliquot[judge]'{remedy}")
    return import_module(module)
