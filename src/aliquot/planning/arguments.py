"""Arguments that the three kinds of plans share: checks, and how a plan's signature names them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aliquot.core import memory
from aliquot.errors import OptionError
from aliquot.validation import above, at_least, between, invalid

Number = float | Sequence[float]
MAX_COUNT = memory.MAX_DRAWS
_TAIL = 1e-12  # closer to 0 or 1, quantiles are rounding errors
_UNSIGNED = ("data", "judgments", "jobs", "progress")


def validate_levels(alpha: float, power: float = 1.0 - _TAIL) -> None:
    """Raise OptionError unless alpha and power are probabilities and power is larger."""
    for name, value, usual in (("alpha", alpha, 0.05), ("power", power, 0.95)):
        between(name, value, _TAIL, 1 - _TAIL, remedy=f"choose between 0 and 1, for instance {usual}")
    if power <= alpha:
        raise OptionError(f"`power` is {power:g} and `alpha` {alpha:g}: power must exceed alpha")


def validate_counts(
    *, items: int | None = None, replays: int = 100, draws: int = 2000, rater_variance: float | None = None
) -> None:
    """Raise OptionError for numbers of items, replays and draws, or a variance, that no plan can have."""
    if items is not None:
        at_least("items", items, 2, "a test set has at least 2 items")
    between("replays", replays, 2, MAX_COUNT, remedy=f"choose 2 to {MAX_COUNT}; 100 is usual")
    between("draws", draws, 100, MAX_COUNT, remedy=f"choose 100 to {MAX_COUNT}; 2000 is usual")
    if rater_variance is not None:
        at_least("rater_variance", rater_variance, 0, "a variance is at least 0")


def as_numbers(name: str, value: Number) -> list[float]:
    """Return one number or several as a list; raise OptionError unless all are above 0."""
    numbers = [float(value)] if isinstance(value, (int, float)) else [float(number) for number in value]
    hint = "; a difference of 0 needs infinitely many judgments, name the smallest that matters"
    for number in numbers:
        above(name, number, 0, f"it must be above 0{hint if name == 'difference' else ''}")
    if not numbers:
        raise invalid(name, value, "give a number")
    return numbers


def signature_parts(
    plan: Callable[..., Any], arguments: Mapping[str, Any], mark: tuple[str, str] = ("", "")
) -> dict[str, object]:
    """Return the parts of a plan's signature: arguments that differ from their defaults, and always the seed.

    `mark` is a part to add, and the argument before which it stands.
    """
    parts: dict[str, object] = {}
    for name, parameter in inspect.signature(plan).parameters.items():
        if name == mark[1]:
            parts[mark[0]] = "yes"
        value = arguments[name]
        if name not in _UNSIGNED and (name == "seed" or value != parameter.default):
            parts[name] = _describe_argument(name, value)
    return parts


def _describe_argument(name: str, value: Any) -> object:
    if isinstance(value, bool):
        return "yes" if value else None
    if name in ("difference", "sd") and value is not None:
        return ",".join(f"{number:g}" for number in ([value] if isinstance(value, (int, float)) else value))
    if name == "selection" and value is not None:
        return value.method
    return f"{value:g}" if isinstance(value, float) else value
