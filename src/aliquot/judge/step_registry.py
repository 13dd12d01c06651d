"""Cleaning steps by name, and their parameters.

A step is a function of the answers that gives `Marks`; its keyword-only arguments are its thresholds. Importing
`presets` registers them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from aliquot.data.parameters import Registered
from aliquot.errors import OptionError, unknown_name
from aliquot.judge.answers import Answers

AT_LEAST_0: Final = (0.0, float("inf"))
AT_LEAST_1: Final = (1.0, float("inf"))
SHARE: Final = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Marks:
    """What a step found.

    Attributes:
        reasons: for each answer why it should not count, or null.
        measures: a table with `annotator` and what the step measured of each, e.g. the share of controls passed.
        notes: what a reader should know.
    """

    reasons: pl.Series
    measures: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()


class NotApplicableError(Exception):
    """The data lack what a step looks at; it marks nothing, and the audit says why."""


@dataclass(frozen=True)
class Step(Registered):
    """A cleaning step."""

    function: Callable[..., Marks]
    paper: str
    limits: Mapping[str, tuple[float, float]]

    def run(self, answers: Answers, given: Mapping[str, Any]) -> Marks:
        """Find what to mark among the answers that are not marked yet."""
        chosen = self.bound(given)
        # Before the data are looked at: a step that does not apply must not hide a threshold that makes no sense.
        for name, (low, high) in self.limits.items():
            value = chosen.get(name)
            if value is not None and not low <= value <= high:
                ends = f"between {low:g} and {high:g}" if high < float("inf") else f"at least {low:g}"
                raise OptionError(f"{self.name}: {name}={value:g} should be {ends}")
        return self.function(answers, **chosen)


_STEPS: dict[str, Step] = {}


def step(
    name: str, *, paper: str = "", **limits: tuple[float, float]
) -> Callable[[Callable[..., Marks]], Callable[..., Marks]]:
    """Register a cleaning step; `limits` are the ends between which its parameters lie."""

    def decorator(function: Callable[..., Marks]) -> Callable[..., Marks]:
        _STEPS[name] = Step(name, function, paper, limits)
        return function

    return decorator


def registered() -> dict[str, Step]:
    """Return all steps by name."""
    return dict(_STEPS)


def lookup(name: str) -> Step:
    """Return a step by name, or raise with what there is."""
    if name not in _STEPS:
        raise unknown_name("cleaning step", name, _STEPS)
    return _STEPS[name]
