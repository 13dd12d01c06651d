"""Which method, when nothing is said: by what the data have and what is asked.

This is the one place that names the default design; docs/select.md gives the evidence for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aliquot.data.evalset import EvalSet
from aliquot.data.metrics import usable_metrics
from aliquot.data.spec import Spec, written

Goal = Literal["means", "ranking"]

DEFAULT_DESIGN = "pps:size=error,tau=0.1"


@dataclass(frozen=True)
class Choice:
    """A method spec and the reason for it."""

    spec: str
    reason: str


def choose_method(evalset: EvalSet, goal: Goal = "means") -> Choice:
    """Choose a method for the data.

    For means (and rankings that can be defended) an unbiased design; for a ranking only, a selector that the papers
    found best, if there is something to guide it.

    >>> import aliquot
    >>> choose_method(aliquot.synthetic(items=30, systems=3)).spec
    'pps:size=error,tau=0.1'
    """
    metrics = usable_metrics(evalset)
    if goal == "ranking" and evalset.n_systems > 1:
        if len(metrics) == 1:
            return Choice(
                str(Spec("metric_cons", {"metric": written(metrics[0])})), "ranking only, one metric to follow"
            )
        if metrics:
            joined = written([str(Spec("metric_cons", {"metric": written(name)})) for name in metrics[:10]])
            return Choice(
                str(Spec("mixture", {"methods": joined})), f"ranking only, and {len(metrics)} metrics to follow"
            )
        if evalset.outputs is not None:
            return Choice("diversity:similarity=unigram", "ranking only, outputs but no metric")
    if metrics or evalset.documents is not None or "source" in evalset.items.columns:
        known = [f"{len(metrics)} metrics tell hard items"] if metrics else []
        known += ["drawn along documents"] if evalset.documents is not None else []
        return Choice(DEFAULT_DESIGN, ", ".join([*known, "means stay unbiased"]))
    return Choice("segments", "neither metrics, documents nor sources: a simple random sample")
