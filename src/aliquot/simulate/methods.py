"""Methods to replay: a selector or design, joined by `+` to an estimator, named as typed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from aliquot.data.evalset import EvalSet
from aliquot.data.parameters import bind
from aliquot.data.spec import Spec, parse_spec, split_outside, split_specs
from aliquot.errors import AliquotWarning, OptionError
from aliquot.estimate.estimators import check_estimator, estimators
from aliquot.estimate.proxies import usable
from aliquot.estimate.run import auto_estimator
from aliquot.select.methods import all_methods, lookup
from aliquot.select.registry import check_needs
from aliquot.select.resolve import resolved
from aliquot.select.scores import chosen_metrics, metric_scores

BASELINE = "random"


@dataclass(frozen=True)
class Plan:
    """A method as typed, and what it stands for on one set."""

    typed: str
    selector: Spec
    estimator: Spec

    @property
    def is_baseline(self) -> bool:
        """Whether it is the plain mean of a simple random sample."""
        return self.selector.name == "segments" and self.estimator.name == "mean"

    @property
    def is_fixed(self) -> bool:
        """Whether it chooses the same items every time, so that one replay says everything."""
        method, _ = lookup(self.selector.name)
        return method.kind == "utility" and method.name != "random"

    @property
    def is_design(self) -> bool:
        """Whether it draws items with known chances."""
        return lookup(self.selector.name)[0].kind == "design"

    @property
    def is_slow(self) -> bool:
        """Whether it searches for a subset: a few replays must do."""
        return lookup(self.selector.name)[0].kind == "subset"


def parse_methods(methods: str | Sequence[str]) -> list[str]:
    """Read a list of methods, or "random,pps:size=error,tau=0.1+greg"; none may stand twice.

    >>> parse_methods("random,pps:size=error,tau=0.1+greg,metric_var")
    ['random', 'pps:size=error,tau=0.1+greg', 'metric_var']
    """
    found = split_specs(methods) if isinstance(methods, str) else [str(method).strip() for method in methods]
    if not found:
        raise OptionError("--methods is empty; write for instance random,metric_var,auto")
    repeated = [name for at, name in enumerate(found) if name in found[:at]]
    if repeated:
        raise OptionError(f"the method '{repeated[0]}' is given twice")
    return found


def plan_method(typed: str, data: EvalSet, metric: str | None = None) -> Plan:
    """Find out what a typed method means for this set; `metric` serves methods that need one and name none.

    >>> import aliquot
    >>> plan_method("auto", aliquot.synthetic(items=20, systems=3)).estimator.name
    'greg'
    """
    chain = _chain(typed)
    chosen = chain[0]
    name = "segments" if chosen.name == BASELINE and not chosen.parameters else chosen.name
    given = _with_metric(Spec(name, chosen.parameters), metric)
    selector, _ = resolved(data, given, {})
    if len(chain) == 2:
        estimator = auto_estimator(chain[1])
    elif chosen.name == "auto":
        goal = {key: value for key, value in chosen.parameters.items() if key == "goal"}
        estimator = auto_estimator(Spec("auto", goal))
    else:
        estimator = Spec("mean")
    check_estimator(estimator)
    return Plan(typed, selector, estimator)


def _chain(typed: str) -> list[Spec]:
    parts = split_outside(typed, "+")
    if len(parts) > 2 or not all(part.strip() for part in parts):
        raise OptionError(f"method '{typed}': write a selector or design, or join one and one estimator by +: pps+greg")
    chain = [parse_spec(part) for part in parts]
    first = chain[0].name
    if first in estimators() and first not in all_methods():
        raise OptionError(f"method '{typed}': '{first}' is an estimator; write what chooses the items first, for "
                          f"instance {BASELINE}+{first}")  # fmt: skip
    return chain


def _with_metric(spec: Spec, metric: str | None) -> Spec:
    """Give the common metric to a method that takes one and names none."""
    if metric is None or spec.name == "auto":
        return spec
    method, implied = lookup(spec.name)
    if "metric" not in method.parameters or "metric" in spec.parameters or "similarity" in implied:
        return spec
    return Spec(spec.name, {**spec.parameters, "metric": metric})


def check_plan(plan: Plan, data: EvalSet) -> None:
    """Refuse, before any work, a method that lacks on this set what can be seen without running it."""
    method, _ = lookup(plan.selector.name)
    check_needs(data, method)
    given = bind(method.name, method.parameters, plan.selector.parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        if "metric" in method.parameters and ("metric" in given or "metric" in method.needs):
            metric_scores(data, given.get("metric"))
        if "metrics" in given:
            chosen_metrics(data, given["metrics"])
        behind = bind(plan.estimator.name, estimators()[plan.estimator.name].parameters, plan.estimator.parameters)
        usable(data, behind.get("metrics"))
