"""Cleaning steps by name, and their parameters.

A step is a function of the answers that gives `Marks`; its keyword-only arguments are its thresholds. Importing
`presets` registers them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from aliquot.data.parameters import Registered
from aliquot.errors import unknown_name
from aliquot.judge.answers import Answers


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

    def run(self, answers: Answers, given: Mapping[str, Any]) -> Marks:
        """Find what to mark among the answers that are not marked yet."""
        return self.function(answers, **self.bound(given))


_STEPS: dict[str, Step] = {}


def step(name: str, *, paper: str = "") -> Callable[[Callable[..., Marks]], Callable[..., Marks]]:
    """Register a cleaning step."""

    def decorator(function: Callable[..., Marks]) -> Callable[..., Marks]:
        _STEPS[name] = Step(name, function, paper)
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
