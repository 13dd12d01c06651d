"""Clusters of systems that are not told apart.

Invariant: down the order of the estimates the cluster numbers never fall and leave none out; the result does not
depend on the order in which the systems are given.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray

ClusterRule = Literal["any", "neighbour"]


def cluster(estimates: FloatArray, better: BoolArray, rule: ClusterRule = "any") -> IntArray:
    """Number the clusters of systems, 1 = best (METHODS 5; Zouhar et al. 2025, Algorithm 1).

    Systems are taken from the highest estimate down. With rule "any" a system starts a new cluster when some member
    of the present cluster beats it significantly; with rule "neighbour", the paper's Algorithm 1, when the last member
    does (there by a one-sided Wilcoxon test, p < 0.05). Only the systems above are asked, never those below. Systems
    of the same estimate stand and fall together: they share a cluster, and are all "the last member" for the next.

    Args:
        estimates: One per system. Systems without one (NaN) share a cluster of their own, after all others.
        better: Systems x systems; better[a, b] where a is significantly better than b.
        rule: Whom in the present cluster a system is compared with.

    Returns:
        Cluster numbers in the order of the systems given.

    Raises:
        OptionError: Another rule, shapes that do not match, or systems that beat each other.

    Example:
        >>> better = np.array([[False, False, True], [False, False, False], [False, False, False]])
        >>> cluster(np.array([3.0, 2.0, 1.0]), better)
        array([1, 1, 2])
        >>> cluster(np.array([3.0, 2.0, 1.0]), better, rule="neighbour")
        array([1, 1, 1])
    """
    if rule not in get_args(ClusterRule):
        raise OptionError(f"rule is {rule!r}; give 'any' or 'neighbour'")
    if estimates.ndim != 1:
        raise OptionError(f"estimates has shape {estimates.shape}; give one number per system")
    better = checked_better(better, len(estimates))
    missing = np.isnan(estimates)
    numbers = np.zeros(len(estimates), dtype=np.int64)
    number, rivals = 0, np.empty(0, dtype=np.int64)
    for level in np.unique(estimates[~missing])[::-1]:
        level_systems = np.flatnonzero(estimates == level)
        starts = number == 0 or bool(better[np.ix_(rivals, level_systems)].any())
        number += starts
        numbers[level_systems] = number
        rivals = level_systems if starts or rule == "neighbour" else np.concatenate([rivals, level_systems])
    numbers[missing] = number + 1
    return numbers


def checked_better(better: BoolArray, systems: int) -> BoolArray:
    """Return a table of who beats whom, or say why it cannot be one: no system beats itself, no two each other.

    Args:
        better: Systems x systems; better[a, b] where a is significantly better than b (METHODS 5).
        systems: Number of systems there must be.

    Returns:
        The table as booleans.

    Raises:
        OptionError: Another shape, numbers instead of booleans, or a contradiction.

    Example:
        >>> checked_better(np.array([[False, True], [False, False]]), 2)
        array([[False,  True],
               [False, False]])
    """
    table = np.asarray(better)
    if table.shape != (systems, systems):
        raise OptionError(f"better has shape {table.shape}; give a table of {systems} x {systems} systems")
    if table.dtype != np.bool_:
        raise OptionError(f"better holds {table.dtype}; give booleans, such as p < 0.05")
    both = np.argwhere(table & table.T)
    if len(both):
        a, b = (int(system) for system in both[0])
        raise OptionError(f"better[{a}, {b}] and better[{b}, {a}] are both true; test each pair one-sided below 0.5")
    return table
