"""subset2evaluate.select_subset: `basic` and `costaware`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.registry import Spec, written
from aliquot.errors import DataError, OptionError
from aliquot.io.formats import items as item_lines
from aliquot.io.load import load
from aliquot.sampling.methods import lookup
from aliquot.sampling.pretrained import model_scores
from aliquot.sampling.select import select
from aliquot.sampling.tasks import positive
from aliquot.stats.arrays import FloatArray
from aliquot.stats.subset_search import knapsack

Item = dict[str, Any]
UTILITY = "subset2evaluate_utility"
_FEATURES = {"src": "source", "tgt_avg": "outputs"}


def basic(
    data: Sequence[Item] | str | Path,
    method: str,
    metric: str | None = None,
    budget: int | None = None,
    seed: int | None = None,
    load_model: Any = None,
    **kwargs: Any,
) -> list[Item]:
    """Order items by a method; utilities are in the field `subset2evaluate_utility`, best first.

    Methods that choose a subset give 1 to the chosen items and 0 to the others, as subset2evaluate does. `load_model`
    is a loaded model for precomet, sentinel_src and comet_instant_confidence (a pair of them for precomet_diffdisc).

    >>> data = [{"i": k, "scores": {"A": {"m": 0.1 * k}, "B": {"m": 0.3}}} for k in range(5)]
    >>> [item["i"] for item in basic(data, method="metric_avg", metric="m")]
    [0, 1, 2, 3, 4]
    """
    items = as_items(data)
    if load_model is not None:
        return _ordered(items, _by_model(items, method, load_model, kwargs))
    parameters = _translated(method, metric, kwargs)
    # A utility orders all items, whatever the budget; only subsets depend on it.
    wanted = None if lookup(method)[0].kind == "utility" else budget
    selection = select(to_evalset(items), method, wanted, seed=seed or 0, **parameters)
    utility = np.zeros(len(items))
    rows = np.array(selection.ids, dtype=np.int64)
    utility[rows] = 1.0 if selection.utility is None else selection.utility
    return _ordered(items, utility)


def _ordered(items: list[Item], utility: FloatArray) -> list[Item]:
    """Write the utilities into the items and put the best first; equals stay as they stand."""
    for item, value in zip(items, utility.tolist(), strict=True):
        item[UTILITY] = value
    return sorted(items, key=lambda item: -item[UTILITY])


def _by_model(items: list[Item], method: str, model: Any, kwargs: dict[str, Any]) -> FloatArray:
    """Utilities by models that the caller loaded."""
    found, implied = lookup(method)
    if found.name != "pretrained":
        raise OptionError(f"'{method}' takes no load_model: aliquot's methods are deterministic and need no model")
    given = found.bound(implied | {key: value for key, value in kwargs.items() if key == "reverse"})
    models = model if isinstance(model, tuple) else (model,)
    values = np.prod([model_scores(each, to_evalset(items), given["package"]) for each in models], axis=0)
    return np.asarray(-values if given.get("reverse") else values, dtype=np.float64)


def _translated(method: str, metric: str | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Turn subset2evaluate's keyword arguments into ours."""
    given: dict[str, Any] = {"metric": metric} | kwargs
    if method == "combinator":
        if given.pop("operation", "avg") != "avg" or given.pop("normalize", "rank") != "rank":
            raise OptionError("combinator: only operation='avg' with normalize='rank' is supported")
        if not given.get("methods"):
            raise OptionError("combinator needs methods=[{'method': ..., 'metric': ...}, ...]")
        weighted = [part if isinstance(part, tuple) else (1.0, part) for part in given.pop("methods")]
        given["methods"] = tuple(_as_spec(part) for _, part in weighted)
        given["weights"] = tuple(abs(weight) for weight, _ in weighted)
    if lookup(method)[0].name == "pretrained":
        paths = [given.pop(key) for key in ("model_path", "model_path1", "model_path2") if given.get(key)]
        given["model"] = tuple(paths) or None
        given.pop("metric")
    if "stepsize" in given:
        given["step"] = given.pop("stepsize")
    if given.get("features") in _FEATURES:
        given["features"] = _FEATURES[given["features"]]
    for ignored in ("return_model", "retry_on_error"):
        if given.pop(ignored, None):
            raise OptionError(f"'{ignored}' has no counterpart: aliquot's methods are deterministic and need no model")
    return given


def _as_spec(part: dict[str, Any]) -> str:
    return str(Spec(str(part["method"]), {key: written(value) for key, value in part.items() if key != "method"}))


def costaware(data: Sequence[Item], budget: float, time_limit: float = 60) -> list[Item]:
    """Choose the items of greatest total utility within a budget of cost, best first.

    Unlike subset2evaluate's, a choice that fills the budget exactly is allowed, and the optimum is not disturbed.
    """
    items = as_items(data)
    for position, item in enumerate(items):
        for name in (UTILITY, "cost"):
            if name not in item:
                raise OptionError(f"item number {position} lacks the field '{name}'; run basic() first, give costs")
    utility = np.array([item[UTILITY] for item in items], dtype=np.float64)
    cost = np.array([item["cost"] for item in items], dtype=np.float64)
    if not (cost > 0).all():
        raise OptionError(f"item number {int(np.argmin(cost))} has the cost {cost.min()}; costs must be positive")
    chosen = knapsack(positive(utility), cost, float(budget), time_limit=time_limit).chosen
    return sorted((items[row] for row in chosen), key=lambda item: -item[UTILITY])


def to_evalset(data: Sequence[Item]) -> EvalSet:
    """Make an EvalSet of a list of items; ids are positions, because the lists need none."""
    if not data:
        raise DataError("the list of items is empty")
    lines = [msgspec.json.encode({**item, "i": position}) for position, item in enumerate(data)]
    evalset = item_lines.read(b"\n".join(lines), "items")
    return evalset.with_human("human") if "human" in evalset.scores else evalset


def as_items(data: Sequence[Item] | str | Path) -> list[Item]:
    """Return shallow copies of the items, loading them first where a path or descriptor is given."""
    if isinstance(data, str | Path):
        return list(item_lines.records(load(data)))
    return [dict(item) for item in data]
