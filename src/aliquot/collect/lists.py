"""Fixed lists: which annotator judges which units, in which order, with which system in which place."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

_ALL_ORDERS = 5  # up to so many systems all orders are compared


def make_fixed_lists(
    systems: Sequence[tuple[str, ...]], annotators: Sequence[str], per_output: int, seed: int
) -> dict[str, list[tuple[int, list[int]]]]:
    """Give every annotator a list of (number of the unit, order of its systems).

    All get about the same number of units, see every system about equally often, and in a random order. Each unit is
    on `per_output` lists.

    >>> lists = make_fixed_lists([("A",), ("B",), ("A",), ("B",)], ["ann", "bob"], 1, 0)
    >>> sorted(len(units) for units in lists.values())
    [2, 2]
    """
    rng = np.random.default_rng([seed, 1])
    load = dict.fromkeys(annotators, 0)
    met: dict[tuple[str, str], int] = {}
    lists: dict[str, list[int]] = {who: [] for who in annotators}
    for number, names in enumerate(systems):
        tie = dict(zip(annotators, rng.random(len(annotators)), strict=True))
        rank = sorted(annotators, key=lambda who: (load[who], sum(met.get((who, s), 0) for s in names), tie[who]))
        for who in rank[:per_output]:
            load[who] += 1
            lists[who].append(number)
            for system in names:
                met[who, system] = met.get((who, system), 0) + 1
    ordered_lists: dict[str, list[tuple[int, list[int]]]] = {}
    for who, numbers in lists.items():
        exposures: dict[tuple[str, int], int] = {}
        ordered_lists[who] = []
        for index in rng.permutation(len(numbers)).tolist():
            names = systems[numbers[index]]
            slots = choose_slot_order(names, exposures, f"{seed}/{who}/{numbers[index]}")
            for slot, system_index in enumerate(slots):
                exposures[names[system_index], slot] = exposures.get((names[system_index], slot), 0) + 1
            ordered_lists[who].append((numbers[index], slots))
    return ordered_lists


def hash_draw(text: str) -> str:
    """Return a reproducible random number: a hash of the text."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def choose_slot_order(systems: Sequence[str], exposures: Mapping[tuple[str, int], int], salt: str) -> list[int]:
    """Return an order of the systems that balances how often each was shown in each place; ties are random.

    >>> choose_slot_order(["A", "B"], {("A", 0): 1, ("B", 1): 1}, "")
    [1, 0]
    """
    count = len(systems)
    if count <= _ALL_ORDERS:
        orders = [list(order) for order in permutations(range(count))]
    else:  # all rotations of a few random orders
        shuffled = [sorted(range(count), key=lambda at, n=n: hash_draw(f"{salt}/{n}/{at}")) for n in range(8)]  # type: ignore[misc]
        orders = [order[turn:] + order[:turn] for order in shuffled for turn in range(count)]

    def cost(order: Sequence[int]) -> int:
        return sum(exposures.get((systems[index], slot), 0) for slot, index in enumerate(order))

    least = min(map(cost, orders))
    return min((order for order in orders if cost(order) == least), key=lambda order: hash_draw(f"{salt}/{order}"))
