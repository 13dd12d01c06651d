"""Which method and parameters are meant: old names, `auto`, and parameters given beside the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aliquot.data.evalset import EvalSet
from aliquot.data.spec import Spec, parse_spec, written
from aliquot.errors import unknown_name
from aliquot.select.auto import choose_method
from aliquot.select.methods import Method, lookup
from aliquot.select.registry import with_old_similarity


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
