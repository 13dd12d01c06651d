"""A past campaign as a finite population: the items that people judged for all systems, whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.errors import DataError, unknown_name

_THIN = 0.5
FEWEST_ITEMS = 8


def population(data: EvalSet, human: str | None = None) -> tuple[EvalSet, tuple[str, ...]]:
    """Keep the items judged for all systems, without systems that hardly anybody judged; say what was left out.

    A system with less than half of the best system's coverage would cost most of the items; it is left out instead.

    >>> import aliquot
    >>> kept, notes = population(aliquot.synthetic(items=40, systems=3, seed=1))
    >>> kept.n_items, notes
    (40, ())
    """
    data = data.with_human(_human(data, human))
    judged = np.isfinite(data.human_score())
    covered = judged.mean(axis=0)
    if not judged.any():
        raise DataError(f"{data.name}: no item has a human score, so there is no truth to compare with; give a past "
                        "campaign with human scores, or name the score with --human")  # fmt: skip
    thin = [name for name, share in zip(data.systems, covered, strict=True) if share <= _THIN * covered.max()]
    kept = data.drop(systems=thin).complete()
    notes = []
    if thin:
        notes.append(f"{data.name}: judged on too few items and left out: {', '.join(thin)}")
    if kept.n_items < data.n_items:
        notes.append(
            f"{data.name}: {kept.n_items} of {data.n_items} items are judged for all systems; they are the set"
        )
    if kept.n_systems < 2:
        raise DataError(f"{data.name}: only one system has human scores; a replay compares at least two")
    if kept.n_items < FEWEST_ITEMS:
        raise DataError(f"{data.name}: only {kept.n_items} items are judged for all {kept.n_systems} systems; a replay "
                        f"needs at least {FEWEST_ITEMS}: leave systems out with --exclude")  # fmt: skip
    return replace(kept, judgments=None), tuple(notes)


def _human(data: EvalSet, human: str | None) -> str:
    """The name of the human score, or an error that says which set lacks it."""
    name = human or data.human
    if name is None:
        raise DataError(f"{data.name}: no score is known to be people's, so there is no truth to compare with; give a "
                        "past campaign with human scores, or name the score with --human / human=")  # fmt: skip
    if name not in data.scores:
        raise unknown_name(f"human score of {data.name}", name, data.scores)
    return name


def distinct(sets: Sequence[EvalSet]) -> list[EvalSet]:
    """Give sets of the same name a number each, so that they are told apart in every table.

    >>> import aliquot
    >>> same = aliquot.synthetic(items=10, systems=2)
    >>> [data.name for data in distinct([same, same])]
    ['synthetic (simulated)', 'synthetic (simulated) #2']
    """
    names: set[str] = set()
    found = []
    for data in sets:
        name, number = data.name, 1
        while name in names:
            number += 1
            name = f"{data.name} #{number}"
        names.add(name)
        found.append(data if name == data.name else replace(data, name=name))
    return found
