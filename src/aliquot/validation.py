"""Checks of arguments: each returns its value or raises an error that names the parameter, the value and the remedy.

Messages name parameters in backticks; the command line prints its option instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

from aliquot.errors import NameUnknownError, OptionError, closest, quoted

T = TypeVar("T")
N = TypeVar("N", int, float)


def invalid(parameter: str, value: object, remedy: str) -> OptionError:
    """Build the error for a value that a parameter cannot have.

    >>> print(invalid("replays", 1, "give 2 or more"))
    `replays` is 1; give 2 or more
    """
    return OptionError(f"`{parameter}` is {value!r}; {remedy}", parameter)


def one_of(parameter: str, value: object, options: Iterable[T]) -> T:
    """Return the option that equals the value.

    >>> one_of("rule", "neighbor", ["any", "neighbour"])
    Traceback (most recent call last):
    aliquot.errors.NameUnknownError: `rule` is 'neighbor'; did you mean 'neighbour'? Available: 'any', 'neighbour'
    """
    names = list(options)
    if value in names:
        return names[names.index(value)]
    guess = closest(str(value), names)
    hint = f"; did you mean '{guess}'?" if guess else "."
    raise NameUnknownError(f"`{parameter}` is {value!r}{hint} Available: {quoted(names)}")


def at_least(parameter: str, value: N, low: float, remedy: str = "") -> N:
    """Return the value if it is a finite number of at least `low`.

    >>> at_least("replays", 1, 2)
    Traceback (most recent call last):
    aliquot.errors.OptionError: `replays` is 1; give a number of at least 2
    """
    if not _is_number(value) or value < low:
        raise invalid(parameter, value, remedy or f"give a number of at least {low:g}")
    return value


def above(parameter: str, value: N, low: float, remedy: str = "") -> N:
    """Return the value if it is a finite number above `low`.

    >>> above("seconds", 0.0, 0)
    Traceback (most recent call last):
    aliquot.errors.OptionError: `seconds` is 0.0; give a number above 0
    """
    if not _is_number(value) or value <= low:
        raise invalid(parameter, value, remedy or f"give a number above {low:g}")
    return value


def between(parameter: str, value: N, low: float, high: float, *, inclusive: bool = True, remedy: str = "") -> N:
    """Return the value if it is a number from `low` to `high`; the ends themselves count if `inclusive`.

    >>> between("level", 1.0, 0, 1, inclusive=False)
    Traceback (most recent call last):
    aliquot.errors.OptionError: `level` is 1.0; give a number above 0 and below 1
    """
    inside = _is_number(value) and (low <= value <= high if inclusive else low < value < high)
    if not inside:
        ends = f"from {low:g} to {high:g}" if inclusive else f"above {low:g} and below {high:g}"
        raise invalid(parameter, value, remedy or f"give a number {ends}")
    return value


def _is_number(value: object) -> bool:
    try:
        return math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return False
