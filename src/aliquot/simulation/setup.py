"""A past campaign as a finite population: the items that people judged for all systems, whose truth is known."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.memory import MAX_DRAWS
from aliquot.core.registry import RegistryEntry, Spec, bind_parameters, parse_spec, split_specs, split_top_level
from aliquot.errors import AliquotWarning, DataError, OptionError, unknown_name
from aliquot.estimation.estimate import auto_estimator
from aliquot.estimation.estimators import check_estimator, list_estimators
from aliquot.estimation.proxies import select_proxies
from aliquot.sampling.item_scores import metric_scores, select_metrics
from aliquot.sampling.methods import all_methods, check_needs, find_method, resolve_spec
from aliquot.sampling.policies import check_policy
from aliquot.validation import between

# -- A past campaign as a finite population: the items that people judged for all systems, whose truth is known ------


MIN_SYSTEM_COVERAGE = 0.5
MIN_POPULATION = 8


def keep_complete(data: EvalSet, human: str | None = None) -> tuple[EvalSet, tuple[str, ...]]:
    """Keep the items judged for all systems, without systems that hardly anybody judged; say what was left out.

    A system with less than half of the best system's coverage would cost most of the items; it is left out instead.

    >>> import aliquot
    >>> kept, notes = keep_complete(aliquot.synthetic(items=40, systems=3, seed=1))
    >>> kept.n_items, notes
    (40, ())
    """
    data = data.with_human(_find_human_score(data, human))
    judged = np.isfinite(data.human_score())
    covered = judged.mean(axis=0)
    if not judged.any():
        raise DataError(
            f"{data.name}: no item has a human score, so there is no truth to compare with; give a past "
            "campaign with human scores, or name the score in `human`"
        )
    sparse = [
        name for name, share in zip(data.systems, covered, strict=True) if share <= MIN_SYSTEM_COVERAGE * covered.max()
    ]
    kept = data.drop(systems=sparse).complete()
    notes = []
    if sparse:
        notes.append(f"{data.name}: judged on too few items and left out: {', '.join(sparse)}")
    if kept.n_items < data.n_items:
        notes.append(
            f"{data.name}: {kept.n_items} of {data.n_items} items are judged for all systems; they are the set"
        )
    if kept.n_systems < 2:
        raise DataError(f"{data.name}: only one system has human scores; a replay compares at least two")
    if kept.n_items < MIN_POPULATION:
        raise DataError(
            f"{data.name}: only {kept.n_items} items are judged for all {kept.n_systems} systems; a replay "
            f"needs at least {MIN_POPULATION}: leave systems out"
        )
    return replace(kept, judgments=None), tuple(notes)


def _find_human_score(data: EvalSet, human: str | None) -> str:
    """Return the name of the human score; raise DataError if the set has none."""
    name = human or data.human
    if name is None:
        raise DataError(
            f"{data.name}: no score is marked as human, so there is no truth to compare with; give a "
            "past campaign with human scores, or name the score in `human`"
        )
    if name not in data.scores:
        raise unknown_name(f"human score of {data.name}", name, data.scores)
    return name


def validate_repeats(repeats: int) -> None:
    """Refuse numbers of replays that give no Monte Carlo error, or need more memory than there is."""
    between("repeats", repeats, 2, MAX_DRAWS, remedy=f"give 2 to {MAX_DRAWS}; 100 is usual, 1000 is precise")


def number_duplicates(sets: Sequence[EvalSet]) -> list[EvalSet]:
    """Number sets of the same name, so that tables can name them.

    >>> import aliquot
    >>> same = aliquot.synthetic(items=10, systems=2)
    >>> [data.name for data in number_duplicates([same, same])]
    ['synthetic (simulated)', 'synthetic (simulated) #2']
    """
    names: set[str] = set()
    numbered = []
    for data in sets:
        name, number = data.name, 1
        while name in names:
            number += 1
            name = f"{data.name} #{number}"
        names.add(name)
        numbered.append(data if name == data.name else replace(data, name=name))
    return numbered


# -- Budgets of a replay: shares or numbers of items, as lists or ranges ---------------------------------------------


DEFAULT_BUDGETS = "5%:50%:10"
MIN_ITEMS = 2
"""One judged item has no spread: nothing can be said of its error."""
MAX_BUDGETS = 1000  # budgets in a range: more is a slip of the pen
_PARITY_BELOW = (0.3, 0.5, 0.7)
_PARITY_ABOVE = (0.65, 0.8, 1.0)


@dataclass(frozen=True)
class BudgetPoint:
    """One budget: as it was written (0.05 for 5%, 50 for 50 items) and as a share of this set."""

    written: float
    share: float
    asked: bool = True


def parse_budgets(
    text: float | str | Sequence[float | str], population: int, *, cost: bool = False, of: str = "the set"
) -> list[BudgetPoint]:
    """Read "5%:50%:10" (from, to, how many), "5%,10%,20%", "20,50" or a list of the same; ascending, each once.

    `of` names the set in messages.

    >>> [point.share for point in parse_budgets("10%:30%:3", 50)]
    [0.1, 0.2, 0.3]
    >>> parse_budgets([20, "50%"], 40)
    [BudgetPoint(written=20.0, share=0.5, asked=True)]
    """
    if isinstance(text, int | float | np.integer):
        text = [float(text)]
    parts = [str(part) for part in text] if not isinstance(text, str) else text.split(",")
    if not parts:
        raise OptionError(f"`budgets` is empty; write for instance {DEFAULT_BUDGETS}, or a list 5%,10%,20%")
    points = [point for part in parts for point in _parse_range(part.strip(), population, cost=cost, of=of)]
    once: dict[float, BudgetPoint] = {}
    for point in sorted(points, key=lambda point: point.share):
        once.setdefault(round(point.share, 9), point)
    return list(once.values())


def _parse_range(text: str, population: int, *, cost: bool, of: str) -> list[BudgetPoint]:
    ends = [end.strip() for end in text.split(":")]
    if len(ends) == 1:
        return [_parse_point(text, population, cost=cost, of=of)]
    if len(ends) != 3 or not ends[2].isdecimal() or not 1 <= int(ends[2]) <= MAX_BUDGETS:
        raise OptionError(
            f"`budgets` is '{text}'; write from:to:how-many, for instance {DEFAULT_BUDGETS}, or a list 5%,10%,20%"
        )
    if ends[0].endswith("%") != ends[1].endswith("%"):
        raise OptionError(f"`budgets` is '{text}'; both ends must be shares (5%) or both numbers of items")
    low, high = (_parse_point(end, population, cost=cost, of=of) for end in ends[:2])
    written = np.linspace(low.written, high.written, int(ends[2]))
    if ends[0].endswith("%"):
        return [BudgetPoint(round(w, 6), round(w, 9)) for w in written.tolist()]
    return [BudgetPoint(float(round(w)), round(w) / population) for w in written.tolist()]


def _parse_point(text: str, population: int, *, cost: bool, of: str) -> BudgetPoint:
    text = text.removesuffix("items").strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise OptionError(f"`budgets` is '{text}'; write shares (5%) or numbers of items (50)") from None
    if text.endswith("%"):
        if not 0 < number <= 100:
            raise OptionError(f"`budgets` is '{text}'; a share lies above 0% and is at most 100%")
        return BudgetPoint(round(number / 100, 9), number / 100)
    if cost:
        raise OptionError(f"`budgets` is '{text}'; with `cost` give shares of the whole cost, for instance 10%")
    if not 0 < number <= population:
        raise OptionError(
            f"`budgets` is '{text}'; give a number between {MIN_ITEMS} and all {population} items of {of}"
        )
    if number < MIN_ITEMS or number != round(number):
        hint = f"; for a share write {100 * number:g}%" if number < 1 else ""
        raise OptionError(f"`budgets` is '{text}'; a number of items is whole and at least {MIN_ITEMS}{hint}")
    return BudgetPoint(number, number / population)


def add_parity_points(points: Sequence[BudgetPoint], population: int) -> list[BudgetPoint]:
    """Add budgets below and above those asked for, so that parity can be computed.

    >>> [round(point.share, 3) for point in add_parity_points([BudgetPoint(0.1, 0.1), BudgetPoint(0.5, 0.5)], 100)]
    [0.03, 0.05, 0.07, 0.1, 0.5, 0.65, 0.8, 1.0]
    """
    low, high = points[0].share, points[-1].share
    below = [low * part for part in _PARITY_BELOW if low * part * population >= MIN_ITEMS]
    above = [share for share in _PARITY_ABOVE if share > high * 1.05]
    extra = [BudgetPoint(share, share, asked=False) for share in [*below, *above]]
    return sorted([*points, *extra], key=lambda point: point.share)


def add_dense_points(points: Sequence[BudgetPoint], population: int, max_points: int = 120) -> list[BudgetPoint]:
    """Add a fine grid of budgets, for methods that need one replay: every number of items where there are few.

    >>> len(add_dense_points([BudgetPoint(0.5, 0.5)], 30))
    29
    """
    counts = np.unique(np.round(np.geomspace(MIN_ITEMS, population, min(max_points, population - 1))).astype(int))
    if population - 1 <= max_points:
        counts = np.arange(MIN_ITEMS, population + 1)
    existing = {round(point.share * population) for point in points}
    extra = [BudgetPoint(k / population, k / population, asked=False) for k in counts.tolist() if k not in existing]
    return sorted([*points, *extra], key=lambda point: point.share)


# -- Methods to replay: a selector or design, joined by `+` to an estimator, named as typed --------------------------


BASELINE = "random"


def _allocate(
    *,
    policy: str = "auto",
    question: Literal["top", "ranking", "best", "means"] = "top",
    model: Literal["mixed", "means"] = "mixed",
    equal: bool = False,
    metrics: tuple[str, ...] | None = None,
) -> None:
    """Adaptive campaigns: cells chosen one after the other by a policy that sees the judgments before.

    Args:
        policy: auto, uniform, (rank:power=1), successive_rejects or successive_halving.
        question: what should be known: top, ranking, best or means.
        model: what the policy looks at: metrics and item effects, or plain means (as published).
        equal: take items in plain random order (as published) instead of by expected error.
        metrics: the metrics of the model, joined by |; all usable ones by default.
    """


ALLOCATE = RegistryEntry("allocate", _allocate)
"""No selection method, because it needs the judgments: only replays know it. See aliquot.Allocator."""


@dataclass(frozen=True)
class ReplayMethod:
    """A method spec as typed, and the selector and estimator that it means on one set."""

    typed: str
    selector: Spec
    estimator: Spec

    @property
    def is_baseline(self) -> bool:
        """Whether it is the plain mean of a simple random sample."""
        return self.selector.name == "segments" and self.estimator.name == "mean"

    @property
    def is_fixed(self) -> bool:
        """Whether it always chooses the same items, so that one replay is enough."""
        if self.is_adaptive:
            return False
        method, _ = find_method(self.selector.name)
        return method.kind == "utility" and method.name != "random"

    @property
    def is_design(self) -> bool:
        """Whether it draws items with known probabilities."""
        return not self.is_adaptive and find_method(self.selector.name)[0].kind == "design"

    @property
    def is_adaptive(self) -> bool:
        """Whether it chooses each cell from earlier judgments."""
        return self.selector.name == ALLOCATE.name

    @property
    def is_slow(self) -> bool:
        """Whether it searches for a subset, so that it gets fewer replays."""
        return not self.is_adaptive and find_method(self.selector.name)[0].kind == "subset"


def parse_methods(methods: str | Sequence[str]) -> list[str]:
    """Read a list of methods, or "random,pps:size=error,tau=0.1+greg"; none may stand twice.

    >>> parse_methods("random,pps:size=error,tau=0.1+greg,metric_var")
    ['random', 'pps:size=error,tau=0.1+greg', 'metric_var']
    """
    specs = split_specs(methods) if isinstance(methods, str) else [str(method).strip() for method in methods]
    if not specs:
        raise OptionError("`methods` is empty; write for instance random,metric_var,auto")
    repeated = [name for index, name in enumerate(specs) if name in specs[:index]]
    if repeated:
        raise OptionError(f"the method '{repeated[0]}' is given twice")
    return specs


def resolve_method(typed: str, data: EvalSet, metric: str | None = None) -> ReplayMethod:
    """Resolve a method spec on a set; `metric` is for methods that need one and name none.

    >>> import aliquot
    >>> resolve_method("auto", aliquot.synthetic(items=20, systems=3)).estimator.name
    'greg'
    """
    chain = _split_chain(typed)
    chosen = chain[0]
    name = "segments" if chosen.name == BASELINE and not chosen.parameters else chosen.name
    if chosen.name == ALLOCATE.name:
        ALLOCATE.bind(chosen.parameters)
        selector = chosen
    else:
        selector, _ = resolve_spec(data, _add_metric(Spec(name, chosen.parameters), metric), {})
    if len(chain) == 2:
        estimator = auto_estimator(chain[1])
    elif chosen.name == ALLOCATE.name:
        estimator = auto_estimator(Spec("auto"))
    elif chosen.name == "auto":
        goal = {key: value for key, value in chosen.parameters.items() if key == "goal"}
        estimator = auto_estimator(Spec("auto", goal))
    else:
        estimator = Spec("mean")
    check_estimator(estimator)
    return ReplayMethod(typed, selector, estimator)


def _split_chain(typed: str) -> list[Spec]:
    parts = split_top_level(typed, "+")
    if len(parts) > 2 or not all(part.strip() for part in parts):
        raise OptionError(f"method '{typed}': write a selector or design, or join one and one estimator by +: pps+greg")
    chain = [parse_spec(part) for part in parts]
    first = chain[0].name
    if first in list_estimators() and first not in all_methods():
        raise OptionError(
            f"method '{typed}': '{first}' is an estimator; write what chooses the items first, for "
            f"instance {BASELINE}+{first}"
        )
    return chain


def _add_metric(spec: Spec, metric: str | None) -> Spec:
    """Add the common metric to a method that takes one and names none."""
    if metric is None or spec.name == "auto":
        return spec
    method, implied = find_method(spec.name)
    if "metric" not in method.parameters or "metric" in spec.parameters or "similarity" in implied:
        return spec
    return Spec(spec.name, {**spec.parameters, "metric": metric})


def validate_method(method: ReplayMethod, data: EvalSet) -> None:
    """Raise an error, before any work, for a method that needs what the set lacks."""
    if method.is_adaptive:
        check_policy(parse_spec(ALLOCATE.bind(method.selector.parameters).get("policy", "auto")), budget=1)
        return
    entry, _ = find_method(method.selector.name)
    check_needs(data, entry)
    parameters = bind_parameters(entry.name, entry.parameters, method.selector.parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        if "metric" in entry.parameters and ("metric" in parameters or "metric" in entry.needs):
            metric_scores(data, parameters.get("metric"))
        if "metrics" in parameters:
            select_metrics(data, parameters["metrics"])
        estimator_parameters = bind_parameters(
            method.estimator.name, list_estimators()[method.estimator.name].parameters, method.estimator.parameters
        )
        select_proxies(data, estimator_parameters.get("metrics"))
