"""All methods: importing this module registers every family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aliquot.core.conventions import usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import Spec, parse_spec, written
from aliquot.errors import unknown_name
from aliquot.sampling import active, designs, sources, texts, utilities
from aliquot.sampling.registry import ALIASES, Method, lookup, registered, with_old_similarity

# -- All methods: importing this module registers every family -------------------------------------------------------


FAMILIES = (utilities, texts, sources, designs, active)

__all__ = ["ALIASES", "FAMILIES", "Method", "all_methods", "lookup"]


def all_methods() -> dict[str, Method]:
    """Return every method by name, family after family, utilities first."""
    places = {family.__name__: place for place, family in enumerate(FAMILIES)}
    methods = registered().values()
    return {m.name: m for m in sorted(methods, key=lambda method: places[method.function.__module__])}


# -- Which method, when nothing is said: by what the data have and what is asked -------------------------------------


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


# -- Which method and parameters are meant: old names, `auto`, and parameters given beside the spec ------------------


def resolved(data: EvalSet, spec: Spec, parameters: Mapping[str, Any]) -> tuple[Spec, dict[str, Any]]:
    """Apply old names, `auto`, and parameters given apart from the spec."""
    given: dict[str, Any] = dict(spec.parameters) | {k: v for k, v in parameters.items() if v is not None}
    details: dict[str, Any] = {}
    name = spec.name
    if name == "auto":
        goal = given.pop("goal", "means")
        if goal not in ("means", "ranking"):
            raise unknown_name("goal", goal, ["means", "ranking"])
        choice = choose_method(data, goal)
        _refuse_unknown_for_auto(given, lookup(parse_spec(choice.spec).name)[0])
        chosen = parse_spec(choice.spec)
        details["auto"] = f"{choice.spec}: {choice.reason}"
        given = dict(chosen.parameters) | _accepted(lookup(chosen.name)[0], given)
        name = chosen.name
    found, implied = lookup(name)
    given = with_old_similarity(found.name, implied | given)
    as_typed = {*spec.parameters, *implied, *(name for name, p in found.parameters.items() if p.is_list)}
    texts = {k: v if isinstance(v, str) and k in as_typed else written(v) for k, v in given.items()}
    return Spec(found.name, texts), details


def _refuse_unknown_for_auto(given: Mapping[str, Any], method: Method) -> None:
    known = ["goal", "metric", *method.parameters]
    for name in given:
        if name not in known:
            raise unknown_name("parameter of auto", name, known)


def _accepted(method: Method, given: Mapping[str, Any]) -> dict[str, Any]:
    """With `auto` the user does not know the method: a metric= becomes metrics= where that is what it takes."""
    accepted = dict(given)
    if "metric" in accepted and "metric" not in method.parameters:
        metric = accepted.pop("metric")
        if "metrics" in method.parameters:
            accepted["metrics"] = metric
    return accepted
