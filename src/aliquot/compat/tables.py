"""From lists of items to tables of scores, as subset2evaluate.evaluate reads them.

Invariant: a table is items x systems, in the order of the list and of the first item's systems, and holds finite
numbers only. subset2evaluate has no notion of a missing score (it stops with a KeyError, or counts a NaN as a p-value
of 0), so a missing score is an error here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.io.formats import items
from aliquot.io.load import load
from aliquot.stats.arrays import FloatArray

# -- Lists of dictionaries, as subset2evaluate passes them around, to EvalSets ---------------------------------------


Item = dict[str, Any]


def to_evalset(data: Sequence[Item]) -> EvalSet:
    """Make an EvalSet of a list of items; ids are positions, because the lists need none."""
    if not data:
        raise DataError("the list of items is empty")
    lines = [msgspec.json.encode({**item, "i": position}) for position, item in enumerate(data)]
    evalset = items.read(b"\n".join(lines), "items")
    return evalset.with_human("human") if "human" in evalset.scores else evalset


def as_items(data: Sequence[Item] | str | Path) -> list[Item]:
    """Return shallow copies of the items, loading them first where a path or descriptor is given."""
    if isinstance(data, str | Path):
        return list(items.records(load(data)))
    return [dict(item) for item in data]


# -- From lists of items to tables of scores, as subset2evaluate.evaluate reads them ---------------------------------


Data = Sequence[Item] | str | Path
"""Items, or a path or descriptor to load them from."""

Metric = str | tuple[str, str]
"""A score, or two: the one to rank systems by on the new items, and the one on the old items."""

_REMEDY = "subset2evaluate's measures need every score: leave out the items or systems that lack it"


def loaded(data: Data, name: str) -> Sequence[Item]:
    """Return the items as they are, or load them; `name` is the argument's, for the message."""
    items = as_items(data) if isinstance(data, str | Path) else data
    if not len(items):
        raise DataError(f"{name} is empty; give at least one item")
    return items


def metric_pair(metric: Metric) -> tuple[str, str]:
    """Return the score for the new and the one for the old items.

    >>> metric_pair("human"), metric_pair(("COMET", "human"))
    (('human', 'human'), ('COMET', 'human'))
    """
    if isinstance(metric, str):
        return metric, metric
    given: object = metric  # from users without a type checker
    if not isinstance(given, tuple) or len(given) != 2:
        raise OptionError(f"metric is {metric!r}; give a name, or a tuple of two: for the new and for the old items")
    return metric


def systems_of(items: Sequence[Item], name: str = "data") -> list[str]:
    """Return the systems of the first item, which subset2evaluate takes for those of all."""
    scores = items[0].get("scores")
    if not isinstance(scores, dict) or not scores:
        raise DataError(f"{name}: item number 0 has no scores; give items with 'scores': {{system: {{score: value}}}}")
    return list(scores)


def score_table(
    items: Sequence[Item], metric: str, systems: Sequence[str] | None = None, name: str = "data"
) -> FloatArray:
    """Read one score of all items and systems.

    Args:
        items: At least one.
        metric: The score.
        systems: By default those of the first item.
        name: What to call the list in messages.

    Returns:
        Items x systems.

    Raises:
        DataError: A score that is missing or not a finite number.
        NameUnknownError: A score that the first item does not have.

    Example:
        >>> score_table([{"scores": {"A": {"m": 1}, "B": {"m": 2.5}}}], "m")
        array([[1. , 2.5]])
    """
    wanted = systems_of(items, name) if systems is None else systems
    try:
        rows = [[item["scores"][system][metric] for system in wanted] for item in items]
        table = np.array(rows)
    except (KeyError, TypeError, ValueError):
        _explain(items, metric, wanted, name)
    if table.dtype.kind not in "biuf" or not np.isfinite(table).all():
        _explain(items, metric, wanted, name)
    # Single precision stays: subset2evaluate averages numpy's float32 scores as such.
    return table if table.dtype.kind == "f" else table.astype(np.float64)


def two_tables(data_new: Data, data_old: Data, metric: Metric) -> tuple[FloatArray, FloatArray]:
    """Read the new and the old items' scores of the old items' systems, of which there must be two."""
    new, old = loaded(data_new, "data_new"), loaded(data_old, "data_old")
    metric_new, metric_old = metric_pair(metric)
    systems = systems_of(old, "data_old")
    if len(systems) < 2:
        raise DataError(f"data_old has one system, {quoted(systems)}; there is nothing to compare")
    return score_table(new, metric_new, systems, "data_new"), score_table(old, metric_old, systems, "data_old")


def column_means(table: FloatArray) -> FloatArray:
    """Average over items, system by system.

    One contiguous row per system is summed, as numpy sums a list: systems whose means tie there must tie here.
    """
    return np.asarray(np.ascontiguousarray(table.T).mean(axis=1))


def _explain(items: Sequence[Item], metric: str, systems: Sequence[str], name: str) -> NoReturn:
    """Find the first score that cannot be used and say what is wrong with it."""
    for number, item in enumerate(items):
        scores = item.get("scores") or {}
        for system in systems:
            if system not in scores:
                raise DataError(f"{name}: item number {number} lacks the system '{system}'; {_REMEDY}")
            given: dict[str, Any] = scores[system] if isinstance(scores[system], dict) else {}
            if metric not in given and number == 0:
                raise unknown_name("score", metric, given)
            value = given.get(metric)
            if not isinstance(value, int | float | np.number) or not np.isfinite(value):
                what = f"the score {value!r}" if metric in given else "no score"
                raise DataError(f"{name}: item number {number}, system '{system}' has {what} for '{metric}'; {_REMEDY}")
    raise DataError(f"{name}: the scores '{metric}' are not numbers; {_REMEDY}")
