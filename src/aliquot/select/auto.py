"""Which method, when nothing is said: by what the data have and what is asked.

This is the one place that names the default design; docs/select.md gives the evidence for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aliquot.data.evalset import EvalSet
from aliquot.data.metrics import usable_metrics

Goal = Literal["means", "ranking"]

DEFAULT_DESIGN = "pps:size=error,tau=0.1"


@dataclass(frozen=True)
class Choice:
    """A method spec and the reason for it."""

    spec: str
    reason: str


def choose_method(evalset: EvalSet, goal: Goal = "means") -> Choice:
    """Choose a method for the data.

    One unbiased design serves both goals: for rankings too, items drawn by expected error and spread over documents
    gave more than any selector, whose gains on one campaign are losses on another (docs/evidence.md). The goals
    differ in the estimator: `estimate` with auto:goal=ranking gives up unbiased means.

    >>> import aliquot
    >>> choose_method(aliquot.synthetic(items=30, systems=3)).spec
    'pps:size=error,tau=0.1'
    """
    metrics = usable_metrics(evalset)
    after = "estimate with auto:goal=ranking" if goal == "ranking" else "means stay unbiased"
    if metrics or evalset.documents is not None or "source" in evalset.items.columns:
        known = [f"{len(metrics)} metrics tell hard items"] if metrics else []
        known += ["drawn along documents"] if evalset.documents is not None else []
        return Choice(DEFAULT_DESIGN, ", ".join([*known, after]))
    return Choice("segments", f"neither metrics, documents nor sources: a simple random sample; {after}")
