"""Methods to replay: a selector or design, joined by `+` to an estimator, named as typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aliquot.data.evalset import EvalSet
from aliquot.data.spec import Spec, parse_chain, split_outside
from aliquot.errors import OptionError
from aliquot.estimate.estimators import check_estimator
from aliquot.estimate.run import auto_estimator
from aliquot.select.methods import lookup
from aliquot.select.resolve import resolved

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
    def is_slow(self) -> bool:
        """Whether it searches for a subset: a few replays must do."""
        return lookup(self.selector.name)[0].kind == "subset"


def parse_methods(methods: str | Sequence[str]) -> list[str]:
    """Split "random,pps:size=error,tau=0.1+greg" at the commas between methods, not at those inside one.

    A piece that reads key=value belongs to the method before it.

    >>> parse_methods("random,pps:size=error,tau=0.1+greg,metric_var")
    ['random', 'pps:size=error,tau=0.1+greg', 'metric_var']
    """
    if not isinstance(methods, str):
        return [str(method) for method in methods]
    found: list[str] = []
    for part in split_outside(methods, ","):
        piece = part.strip()
        name = piece.split(":")[0].split("+")[0]
        if found and "=" in name:
            found[-1] += f",{piece}"
        elif piece:
            found.append(piece)
    if not found:
        raise OptionError("--methods is empty; write for instance random,metric_var,auto")
    return found


def plan_method(typed: str, data: EvalSet, metric: str | None = None) -> Plan:
    """Find out what a typed method means for this set; `metric` serves methods that need one and name none.

    >>> import aliquot
    >>> plan_method("auto", aliquot.synthetic(items=20, systems=3)).estimator.name
    'greg'
    """
    chain = parse_chain(typed)
    if len(chain) > 2:
        raise OptionError(f"method '{typed}': join one selector and one estimator by +")
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


def _with_metric(spec: Spec, metric: str | None) -> Spec:
    """Give the common metric to a method that takes one and names none."""
    if metric is None or spec.name == "auto":
        return spec
    method, implied = lookup(spec.name)
    if "metric" not in method.parameters or "metric" in spec.parameters or "similarity" in implied:
        return spec
    return Spec(spec.name, {**spec.parameters, "metric": metric})
