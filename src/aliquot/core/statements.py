"""What results state for other programs: decisions, as test reports have them, and means with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DecisionOutcome = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True)
class Decision:
    """One question that a result answers: its name, the answer, and the reason in a sentence."""

    name: str
    outcome: DecisionOutcome
    message: str


@dataclass(frozen=True)
class SystemMean:
    """A system's mean of a score, with its uncertainty; NaN where something is unknown.

    `scale` are the ends of the scale, where they were named or only 0 and 1 occur.
    """

    system: str
    score: str
    dataset: str
    value: float
    se: float
    low: float
    high: float
    level: float
    n: int
    method: str
    interval: str
    scale: tuple[float, float] | None = None
