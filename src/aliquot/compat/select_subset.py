"""subset2evaluate.select_subset: `basic` and `costaware`."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.stats import rankdata

from aliquot.core.evalset import EvalSet
from aliquot.core.registry import require_known_parameters
from aliquot.errors import DataError, OptionError
from aliquot.io.formats import items as item_lines
from aliquot.io.load import load
from aliquot.sampling.item_scores import metric_scores, row_mean
from aliquot.sampling.methods import Method, find_method
from aliquot.sampling.pretrained import model_scores
from aliquot.sampling.select import select
from aliquot.sampling.tasks import shift_positive
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import kendall_with_target
from aliquot.stats.subset_search import knapsack

Item = dict[str, Any]
UTILITY = "subset2evaluate_utility"
_FEATURES = {"src": "source", "tgt_avg": "outputs", "tgt_0": "outputs", "tgt_rand": "outputs"}
_SEARCHES = ("bruteforce", "greedy")
_COMMON = ("metric", "budget", "seed", "load_model", "method")
"""Arguments that every method of subset2evaluate takes, and ignores where it has no use for them."""

_SIGN = {"pyirt_diff": -1.0, "pyirt_disc": -1.0}
"""subset2evaluate puts easy and undiscriminating items first by these names; irt_diff and irt_disc the others."""


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

    Methods that choose a subset give 1 to the chosen items and 0 to the others, as subset2evaluate does. `random` gives
    its order for every seed; no seed means 0. `load_model` is a loaded model for precomet, sentinel_src and
    comet_instant_confidence (a pair of them for precomet_diffdisc). docs/subset2evaluate.md lists what differs.

    >>> data = [{"i": k, "scores": {"A": {"m": 0.1 * k}, "B": {"m": 0.3}}} for k in range(5)]
    >>> [item["i"] for item in basic(data, method="metric_avg", metric="m")]
    [0, 1, 2, 3, 4]
    """
    items = as_items(data)
    if not items:
        raise DataError("the list of items is empty")
    kwargs.pop("retry_on_error", None)  # there is nothing to retry: the fits do not diverge
    if kwargs.pop("return_model", False):
        raise OptionError("'return_model' has no counterpart: aliquot's methods are deterministic and need no model")
    arguments = {"metric": metric, "budget": budget, "seed": seed, "load_model": load_model} | kwargs
    utility = _compute_utility(
        items, method, {key: _to_python_number(value) for key, value in arguments.items() if value is not None}
    )
    for item, value in zip(items, utility.tolist(), strict=True):
        item[UTILITY] = value
    return [items[row] for row in np.argsort(-utility, kind="stable")]


def random_utility(items: int, seed: int) -> FloatArray:
    """Return the random numbers by which subset2evaluate orders items."""
    draw = random.Random(seed)  # noqa: S311 (the numbers must be those of subset2evaluate)
    return np.array([draw.random() for _ in range(items)])


def _compute_utility(items: list[Item], method: str, arguments: dict[str, Any]) -> FloatArray:
    """Return one number for each item, higher first, by subset2evaluate's method and arguments."""
    entry = find_method(method)[0]
    if entry.name == "mixture":
        return _combine_utilities(items, **_select_arguments(method, _combine_utilities, arguments))
    if entry.name == "random":
        return random_utility(len(items), arguments.get("seed", 0))
    if "load_model" in arguments:
        return _predict_utility(items, method, arguments["load_model"], arguments)
    if entry.name == "metric_cons" and "rank" not in arguments:
        return _compute_consistency(to_evalset(items), **_select_arguments(method, _compute_consistency, arguments))
    if entry.kind == "subset" and "budget" not in arguments:
        raise OptionError(f"'{method}' chooses a subset; give the number of items as `budget`")
    # A utility orders all items, whatever the budget; only subsets depend on it.
    size = arguments["budget"] if entry.kind == "subset" else None
    evalset = to_evalset(_choose_features(items, arguments))
    selection = select(evalset, method, size, seed=arguments.get("seed", 0), **_translate_arguments(entry, arguments))
    utility = np.zeros(len(items))
    utility[np.array(selection.ids, dtype=np.int64)] = 1.0 if selection.utility is None else selection.utility
    return _SIGN.get(method, 1.0) * utility


def _select_arguments(method: str, function: Callable[..., FloatArray], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are the function's own; refuse those that nobody takes."""
    own_names = list(inspect.signature(function).parameters)[1:]
    require_known_parameters(method, [*own_names, *_COMMON], arguments)
    return {key: value for key, value in arguments.items() if key in own_names}


def _combine_utilities(
    items: list[Item], methods: Sequence[Any] = (), operation: str = "avg", normalize: str = "rank"
) -> FloatArray:
    """Average or multiply the utilities of several methods, brought to one scale; what is constant counts as 0."""
    if not methods:
        raise OptionError("combinator needs methods=[{'method': ..., 'metric': ...}, ...]")
    weighted = [part if isinstance(part, tuple) else (1.0, part) for part in methods]
    if not all(isinstance(part, dict) and "method" in part for _, part in weighted):
        raise OptionError(f"combinator: methods is {methods!r}; give a dictionary with a 'method' for each")
    parts = [{key: value for key, value in part.items() if value is not None} for _, part in weighted]
    table = np.array([_compute_utility(items, part.pop("method"), part) for part in parts])
    if normalize == "rank":
        table = rankdata(table, axis=1)
    elif normalize in ("zscore", "01"):
        origin, unit = (np.mean, np.std) if normalize == "zscore" else (np.min, np.ptp)
        spread = unit(table, axis=1, keepdims=True)
        table = np.divide(table - origin(table, axis=1, keepdims=True), spread, where=spread > 0, out=0 * table)
    else:
        raise OptionError(f"combinator: normalize is '{normalize}'; give 'rank', 'zscore' or '01'")
    if operation == "mul":
        return np.asarray(np.prod(table, axis=0))
    if operation != "avg":
        raise OptionError(f"combinator: operation is '{operation}'; give 'avg' or 'mul'")
    return np.asarray(np.average(table, axis=0, weights=[abs(weight) for weight, _ in weighted]))


def _compute_consistency(evalset: EvalSet, metric: str | None = None, metric_target: str | None = None) -> FloatArray:
    """Return the tau-c of each item's scores with the system means, of another score if one is given.

    Means tie where they tie in subset2evaluate, which does not round (`aliquot select` does).
    """
    values = metric_scores(evalset, metric)
    target = values if metric_target is None else metric_scores(evalset, metric_target)
    means = np.where(np.isfinite(target).all(axis=0), column_means(target), row_mean(target.T))
    return np.where(np.isfinite(values).any(axis=1), kendall_with_target(values, means), np.nan)


def column_means(table: FloatArray) -> FloatArray:
    """Average over items, system by system.

    One contiguous row per system is summed, as numpy sums a list: systems whose means tie there must tie here.
    """
    return np.asarray(np.ascontiguousarray(table.T).mean(axis=1))


def _predict_utility(items: list[Item], method: str, model: Any, arguments: dict[str, Any]) -> FloatArray:
    """Utilities by models that the caller loaded."""
    entry, implied = find_method(method)
    if entry.name != "pretrained":
        raise OptionError(f"'{method}' takes no load_model: aliquot's methods are deterministic and need no model")
    bound = entry.bind(implied | {key: value for key, value in arguments.items() if key == "reverse"})
    models = model if isinstance(model, tuple) else (model,)
    values = np.prod([model_scores(each, to_evalset(items), bound["package"]) for each in models], axis=0)
    return np.asarray(-values if bound.get("reverse") else values, dtype=np.float64)


def _choose_features(items: list[Item], arguments: dict[str, Any]) -> list[Item]:
    """Keep one output per item for k-means, the first or a random one, if `features` asks for it."""
    features = arguments.get("features")
    if features not in ("tgt_0", "tgt_rand"):
        return items
    draw = random.Random(0)  # noqa: S311 (the choices must be those of subset2evaluate)
    texts = [list((item.get("tgt") or {}).values()) for item in items]
    if not all(texts):
        raise DataError(f"features='{features}': item number {texts.index([])} has no outputs (field 'tgt')")
    return [{"tgt": {"output": row[0] if features == "tgt_0" else draw.choice(row)}} for row in texts]


def _translate_arguments(method: Method, arguments: dict[str, Any]) -> dict[str, Any]:
    """Turn subset2evaluate's keyword arguments into ours; a metric is ignored, as there, by methods without one."""
    ours = {key: value for key, value in arguments.items() if key not in _COMMON[1:]}
    if method.name not in ("diversity", *_SEARCHES) and "metric" not in method.parameters:
        ours.pop("metric", None)
    if method.name in _SEARCHES and not isinstance(ours.setdefault("metric", "human"), str):
        raise OptionError(f"'{method.name}' compares a score with itself; give one metric, not {ours['metric']!r}")
    if method.name == "pretrained":
        ours["model"] = tuple(ours.pop(key) for key in ("model_path", "model_path1", "model_path2") if ours.get(key))
        ours["model"] = ours["model"] or None
    if "stepsize" in ours:
        ours["step"] = ours.pop("stepsize")
    if ours.get("features") in _FEATURES:
        ours["features"] = _FEATURES[ours["features"]]
    return ours


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
    chosen = knapsack(shift_positive(utility), cost, float(budget), time_limit=time_limit).chosen
    return sorted((items[row] for row in chosen), key=lambda item: -item[UTILITY])


def to_evalset(data: Sequence[Item]) -> EvalSet:
    """Make an EvalSet of a list of items; ids are positions, because the lists need none."""
    if not data:
        raise DataError("the list of items is empty")
    encode = msgspec.json.Encoder(enc_hook=_to_python_value).encode
    lines = [encode({**item, "i": position}) for position, item in enumerate(data)]
    evalset = item_lines.read(b"\n".join(lines), "items")
    return evalset.with_human("human") if "human" in evalset.scores else evalset


def _to_python_number(value: Any) -> Any:
    """Return one of numpy's numbers as Python's, which seeds and budgets must be."""
    return value.item() if isinstance(value, np.generic) else value


def _to_python_value(value: object) -> object:
    """Return numpy's numbers and arrays, which subset2evaluate writes into items, as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise DataError(f"items hold {value!r}, a {type(value).__name__}; give texts, numbers, lists and dictionaries")


def as_items(data: Sequence[Item] | str | Path) -> list[Item]:
    """Return shallow copies of the items, loading them first where a path or descriptor is given."""
    if isinstance(data, str | Path):
        return list(item_lines.iterate_records(load(data)))
    return [dict(item) for item in data]
